#include "common/model/symbols.h"
#include "tests/lib/map_look.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Some of everything, out of a few letters, so that equal things come again. */
static void add_random(struct fg_symbols *symbols, uint64_t seed, size_t rounds)
{
    for (size_t i = 0; i < rounds; i++) {
        uint64_t r = fg_mix64(seed + i);
        char text[16];
        struct fg_function function = {.start_line = (int64_t)(r % 3) - 1};
        struct fg_mapping mapping = {.start = r % 5, .limit = r % 7, .flags = r % 16};
        struct fg_location location = {.address = r % 11, .n_lines = r % 4, .folded = r % 2};
        struct fg_line lines[3];

        (void)snprintf(text, sizeof text, "f%u", (unsigned)(r % 13));
        function.name = fg_symbols_string(symbols, fg_cstr(text));
        function.system_name = function.filename = function.name;
        mapping.filename = mapping.build_id = function.name;
        for (size_t k = 0; k < FG_COUNT(lines); k++)
            lines[k] =
                (struct fg_line){fg_symbols_function(symbols, &function), (int64_t)(r >> k & 3)};
        location.mapping = r % 3 == 0 ? FG_NO_MAPPING : fg_symbols_mapping(symbols, &mapping);
        (void)fg_symbols_location(symbols, &location, lines);
    }
}

static void encode(const struct fg_symbols *symbols, struct fg_symbols_mark since,
                   struct fg_buf *out)
{
    fg_buf_init(out, 1 << 24);
    fg_symbols_encode_since(symbols, since, out);
    assert_false(out->full);
}

static void equal_entries_share_a_number(void **state)
{
    struct fg_symbols symbols;
    struct fg_symbols_mark mark, again;

    (void)state;
    fg_symbols_init(&symbols);
    assert_int_equal(fg_symbols_string(&symbols, FG_LIT("")), 0);
    add_random(&symbols, 1, 200);
    mark = fg_symbols_mark(&symbols);
    add_random(&symbols, 1, 200);
    again = fg_symbols_mark(&symbols);
    assert_memory_equal(&mark, &again, sizeof mark);
    assert_int_equal(fg_symbols_name_location(&symbols, FG_LIT("main")),
                     fg_symbols_name_location(&symbols, FG_LIT("main")));
    assert_true(fg_symbols_bytes(&symbols) > 0);
    fg_symbols_done(&symbols);
}

static void every_field_makes_a_difference(void **state)
{
    struct fg_symbols symbols;
    struct fg_line one = {0, 1}, two = {0, 2};
    struct fg_location location = {.mapping = FG_NO_MAPPING};
    struct fg_function function = {0};
    struct fg_mapping mapping = {0};
    uint32_t count = 0;

    (void)state;
    fg_symbols_init(&symbols);
    assert_int_equal(fg_symbols_function(&symbols, &function), 0);
    function.start_line = 1;
    assert_int_equal(fg_symbols_function(&symbols, &function), 1);
    assert_int_equal(fg_symbols_mapping(&symbols, &mapping), 0);
    mapping.flags = FG_MAPPING_LINES;
    assert_int_equal(fg_symbols_mapping(&symbols, &mapping), 1);
    assert_int_equal(fg_symbols_location(&symbols, &location, NULL), count++);
    location.address = 1;
    assert_int_equal(fg_symbols_location(&symbols, &location, NULL), count++);
    location.folded = true;
    assert_int_equal(fg_symbols_location(&symbols, &location, NULL), count++);
    location.mapping = 0;
    assert_int_equal(fg_symbols_location(&symbols, &location, NULL), count++);
    location.n_lines = 1;
    assert_int_equal(fg_symbols_location(&symbols, &location, &one), count++);
    assert_int_equal(fg_symbols_location(&symbols, &location, &two), count++);
    fg_symbols_done(&symbols);
}

/* Whole and in two deltas, the copy gives the same bytes again. */
static void symbols_are_decoded_as_encoded(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fg_symbols symbols, copy;
        struct fg_symbols_mark mark;
        struct fg_buf first, second, whole, again;
        struct fg_err err;
        struct fg_cur cur;

        print_message("  seed %u\n", (unsigned)seed);
        fg_symbols_init(&symbols);
        fg_symbols_init(&copy);
        add_random(&symbols, seed * 1000, 50);
        encode(&symbols, FG_SYMBOLS_START, &first);
        mark = fg_symbols_mark(&symbols);
        add_random(&symbols, seed * 2000, 50);
        encode(&symbols, mark, &second);
        encode(&symbols, FG_SYMBOLS_START, &whole);
        cur = fg_cur(fg_buf_slice(&first));
        assert_int_equal(fg_symbols_decode(&copy, &cur, &err), FG_OK);
        assert_true(fg_cur_end(&cur));
        cur = fg_cur(fg_buf_slice(&second));
        assert_int_equal(fg_symbols_decode(&copy, &cur, &err), FG_OK);
        encode(&copy, FG_SYMBOLS_START, &again);
        assert_true(fg_slice_eq(fg_buf_slice(&whole), fg_buf_slice(&again)));
        fg_buf_done(&first);
        fg_buf_done(&second);
        fg_buf_done(&whole);
        fg_buf_done(&again);
        fg_symbols_done(&symbols);
        fg_symbols_done(&copy);
    }
}

static void deltas_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        const char *name, *in;
        size_t len;
    } cases[] = {
        {"nothing", "", 0},
        {"strings cut short",
         "\x02\x01"
         "a",
         3},
        {"more strings than bytes", "\xff\xff\xff\xff\x0f", 5},
        {"a string twice",
         "\x02\x01"
         "a\x01"
         "a\0\0\0",
         8},
        {"the empty string again", "\x01\0\0\0\0", 5},
        {"function of an unknown string", "\0\x01\x01\0\0\0\0\0", 8},
        {"mapping of an unknown string", "\0\0\x01\0\0\0\x05\0\0\0", 10},
        {"location of an unknown mapping", "\0\0\0\x01\x01\0\0", 7},
        {"location of an unknown function", "\0\0\0\x01\0\0\x02\0\0", 9},
        {"more lines than bytes", "\0\0\0\x01\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 16},
        {"a location twice", "\0\0\0\x02\0\0\0\0\0\0", 10},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_cur cur = fg_cur(fg_bytes(cases[i].in, cases[i].len));
        struct fg_symbols symbols;
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        fg_symbols_init(&symbols);
        assert_int_equal(fg_symbols_decode(&symbols, &cur, &err), FG_E_CORRUPT);
        fg_symbols_done(&symbols);
    }
}

static void import_copies_the_content(void **state)
{
    struct fg_symbols from, into;
    struct fg_symbols_import import;

    (void)state;
    fg_symbols_init(&from);
    fg_symbols_init(&into);
    add_random(&from, 7, 100);
    add_random(&into, 900, 100); /* so that the numbers differ */
    fg_symbols_import_init(&import, &into, &from);
    for (uint32_t i = 0; i < from.n_locations; i++) {
        const struct fg_location *a = &from.locations[i];
        uint32_t number = fg_symbols_import_location(&import, i);
        const struct fg_location *b = &into.locations[number];

        assert_int_equal(fg_symbols_import_location(&import, i), number);
        assert_int_equal(a->address, b->address);
        assert_int_equal(a->n_lines, b->n_lines);
        for (uint32_t k = 0; k < a->n_lines; k++) {
            const struct fg_line *x = &from.lines[a->first_line + k];
            const struct fg_line *y = &into.lines[b->first_line + k];

            assert_int_equal(x->line, y->line);
            assert_true(fg_slice_eq(fg_symbols_text(&from, from.functions[x->function].name),
                                    fg_symbols_text(&into, into.functions[y->function].name)));
        }
    }
    fg_symbols_import_done(&import);
    fg_symbols_done(&from);
    fg_symbols_done(&into);
}

/* A step of the hash whose inputs are all known. */
static uint64_t known_step(uint64_t state, uint64_t value)
{
    return fg_mix64(state ^ value) + UINT64_C(0x9e3779b97f4a7c15);
}

/* Lines, first lines and offsets are numbers of the sender's: each is chosen so that, without a
 * secret, all entries would have one hash. */
static void chosen_numbers_do_not_meet_in_a_map(void **state)
{
    enum { ENTRIES = 4000, MOST = 10 };
    struct fg_symbols symbols;

    (void)state;
    fg_symbols_init(&symbols);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        struct fg_function function = {.start_line = 0};
        struct fg_mapping mapping = {.start = i + 1};
        struct fg_location location = {.address = i + 1, .mapping = FG_NO_MAPPING, .n_lines = 1};
        uint64_t at = known_step(location.address, (uint64_t)FG_NO_MAPPING << 1);
        struct fg_line line = {0, (int64_t)known_step(at, 0)};
        char text[16];

        (void)snprintf(text, sizeof text, "f%u", i);
        function.name = fg_symbols_string(&symbols, fg_cstr(text));
        function.start_line = (int64_t)known_step((uint64_t)function.name << 32, 0);
        (void)fg_symbols_function(&symbols, &function);
        mapping.offset = known_step(mapping.start, mapping.limit);
        (void)fg_symbols_mapping(&symbols, &mapping);
        (void)fg_symbols_location(&symbols, &location, &line);
    }
    assert_int_equal(symbols.n_functions, ENTRIES);
    assert_int_equal(symbols.n_locations, ENTRIES);
    print_message("  functions %.1f, mappings %.1f, locations %.1f slots away\n",
                  map_look_distance(&symbols.function_map), map_look_distance(&symbols.mapping_map),
                  map_look_distance(&symbols.location_map));
    assert_true(map_look_distance(&symbols.function_map) < MOST);
    assert_true(map_look_distance(&symbols.mapping_map) < MOST);
    assert_true(map_look_distance(&symbols.location_map) < MOST);
    fg_symbols_done(&symbols);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_entries_share_a_number),
        cmocka_unit_test(every_field_makes_a_difference),
        cmocka_unit_test(symbols_are_decoded_as_encoded),
        cmocka_unit_test(deltas_that_do_not_fit_are_refused),
        cmocka_unit_test(import_copies_the_content),
        cmocka_unit_test(chosen_numbers_do_not_meet_in_a_map),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
