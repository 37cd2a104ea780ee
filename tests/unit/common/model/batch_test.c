/* Batches on the wire: what is encoded is decoded, whatever of it is defined; damage is an error.
 */
#include "common/model/batch.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    FUNCTIONS = 7,
    MAPPINGS = 3,
    LOCATIONS = 12,
    LINES_EACH = 3,
    STACKS = 20,
    DEPTH = 5,
    PROFILES = 4,
    TYPES = 3,
    SAMPLES = 15,
};

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

/* A batch of our own making, in arrays of fixed size. */
struct made {
    struct fg_batch batch;
    char names[FUNCTIONS][8];
    struct fg_batch_function functions[FUNCTIONS];
    struct fg_batch_mapping mappings[MAPPINGS];
    struct fg_batch_location locations[LOCATIONS];
    struct fg_line lines[LOCATIONS * LINES_EACH];
    uint32_t stack_locations[STACKS * DEPTH];
    struct fg_stack stacks[STACKS];
    struct fg_value_type types[TYPES];
    struct fg_profile profiles[PROFILES];
    struct fg_label labels[PROFILES][2];
    uint32_t profile_stacks[PROFILES][SAMPLES];
    int64_t values[PROFILES][SAMPLES * TYPES];
    struct fg_link links[PROFILES][SAMPLES];
};

static void make_tables(struct made *made, uint64_t *random)
{
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        (void)snprintf(made->names[i], sizeof made->names[i], "f%u",
                       (unsigned)(next_random(random) % 5));
        made->functions[i] = (struct fg_batch_function){
            .name = fg_cstr(made->names[i]),
            .system_name = fg_cstr(made->names[next_random(random) % (i + 1)]),
            .filename = FG_LIT("file"),
            .start_line = (int64_t)(next_random(random) % 3) - 1};
    }
    for (uint32_t i = 0; i < MAPPINGS; i++)
        made->mappings[i] =
            (struct fg_batch_mapping){.start = next_random(random),
                                      .limit = i,
                                      .offset = 1,
                                      .filename = FG_LIT("/bin/x"),
                                      .build_id = FG_LIT("id"),
                                      .flags = (uint32_t)(next_random(random) % 16)};
    for (uint32_t i = 0; i < LOCATIONS; i++) {
        uint64_t mapping = next_random(random) % (MAPPINGS + 1);

        made->locations[i] = (struct fg_batch_location){
            .address = next_random(random) % 3,
            .mapping = mapping == MAPPINGS ? FG_NO_MAPPING : (uint32_t)mapping,
            .first_line = i * LINES_EACH,
            .n_lines = (uint32_t)(next_random(random) % (LINES_EACH + 1)),
            .folded = next_random(random) % 2 == 0};
        for (uint32_t k = 0; k < LINES_EACH; k++)
            made->lines[i * LINES_EACH + k] = (struct fg_line){
                (uint32_t)(next_random(random) % FUNCTIONS), (int64_t)next_random(random)};
    }
    for (uint32_t i = 0; i < STACKS; i++) {
        made->stacks[i] = (struct fg_stack){
            {next_random(random), i}, i * DEPTH, (uint32_t)(next_random(random) % (DEPTH + 1))};
        for (uint32_t k = 0; k < DEPTH; k++)
            made->stack_locations[i * DEPTH + k] = (uint32_t)(next_random(random) % LOCATIONS);
    }
}

static void make_profile(struct made *made, uint32_t p, uint64_t *random)
{
    struct fg_profile *profile = &made->profiles[p];

    *profile = (struct fg_profile){
        .id = {next_random(random), next_random(random)},
        .labels = {made->labels[p], next_random(random) % 3},
        .time_ns = (int64_t)next_random(random),
        .duration_ns = (int64_t)next_random(random),
        .period = (int64_t)next_random(random),
        .n_samples = (uint32_t)(next_random(random) % (SAMPLES + 1)),
        .stacks = made->profile_stacks[p],
        .values = made->values[p],
        .links = made->links[p],
    };
    made->labels[p][0] = (struct fg_label){FG_LIT("a"), FG_LIT("1")};
    made->labels[p][1] = (struct fg_label){FG_LIT("b"), fg_cstr(made->names[p])};
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        profile->stacks[i] = (uint32_t)(next_random(random) % STACKS);
        if (next_random(random) % 3 == 0) {
            struct fg_link *link = &profile->links[profile->n_links++];

            *link = (struct fg_link){.sample = i, .span_id = next_random(random)};
            link->trace_id[3] = (uint8_t)next_random(random);
        }
    }
    for (uint32_t i = 0; i < TYPES * profile->n_samples; i++)
        profile->values[i] = (int64_t)(next_random(random) >> (1 + next_random(random) % 63));
}

static void make(struct made *made, uint64_t seed)
{
    uint64_t random = seed;

    memset(made, 0, sizeof *made);
    make_tables(made, &random);
    for (uint32_t p = 0; p < PROFILES; p++)
        make_profile(made, p, &random);
    made->types[0] = (struct fg_value_type){FG_LIT("samples"), FG_LIT("count")};
    made->types[1] = (struct fg_value_type){FG_LIT("cpu"), FG_LIT("nanoseconds")};
    made->types[2] = (struct fg_value_type){FG_LIT(""), FG_LIT("x")};
    made->batch = (struct fg_batch){
        .functions = made->functions,
        .mappings = made->mappings,
        .locations = made->locations,
        .lines = made->lines,
        .stack_locations = made->stack_locations,
        .stacks = made->stacks,
        .n_functions = FUNCTIONS,
        .n_mappings = MAPPINGS,
        .n_locations = LOCATIONS,
        .n_lines = LOCATIONS * LINES_EACH,
        .n_stack_locations = STACKS * DEPTH,
        .n_stacks = STACKS,
        .types = made->types,
        .n_types = TYPES,
        .period_type = {FG_LIT("cpu"), FG_LIT("ns")},
        .profiles = made->profiles,
        .n_profiles = PROFILES,
    };
}

static void assert_slice(struct fg_slice got, struct fg_slice want)
{
    assert_true(fg_slice_eq(got, want));
}

static void assert_location(const struct fg_batch *batch, uint32_t want_number,
                            const struct fg_symbols *symbols, uint32_t got_number)
{
    const struct fg_batch_location *want = &batch->locations[want_number];
    const struct fg_location *got = &symbols->locations[got_number];

    assert_int_equal(got->address, want->address);
    assert_int_equal(got->folded, want->folded);
    assert_int_equal(got->n_lines, want->n_lines);
    assert_int_equal(got->mapping == FG_NO_MAPPING, want->mapping == FG_NO_MAPPING);
    if (got->mapping != FG_NO_MAPPING) {
        const struct fg_mapping *mapping = &symbols->mappings[got->mapping];
        const struct fg_batch_mapping *from = &batch->mappings[want->mapping];

        assert_int_equal(mapping->start, from->start);
        assert_int_equal(mapping->limit, from->limit);
        assert_int_equal(mapping->offset, from->offset);
        assert_int_equal(mapping->flags, from->flags);
        assert_slice(fg_symbols_text(symbols, mapping->filename), from->filename);
        assert_slice(fg_symbols_text(symbols, mapping->build_id), from->build_id);
    }
    for (uint32_t i = 0; i < got->n_lines; i++) {
        const struct fg_line *line = &symbols->lines[got->first_line + i];
        const struct fg_line *from = &batch->lines[want->first_line + i];
        const struct fg_function *function = &symbols->functions[line->function];
        const struct fg_batch_function *wanted = &batch->functions[from->function];

        assert_int_equal(line->line, from->line);
        assert_int_equal(function->start_line, wanted->start_line);
        assert_slice(fg_symbols_text(symbols, function->name), wanted->name);
        assert_slice(fg_symbols_text(symbols, function->system_name), wanted->system_name);
        assert_slice(fg_symbols_text(symbols, function->filename), wanted->filename);
    }
}

static void assert_profile(const struct fg_profile *got, const struct fg_profile *want,
                           uint32_t n_types)
{
    assert_true(fg_id_eq(got->id, want->id));
    assert_int_equal(fg_labels_cmp(&got->labels, &want->labels), 0);
    assert_int_equal(got->time_ns, want->time_ns);
    assert_int_equal(got->duration_ns, want->duration_ns);
    assert_int_equal(got->period, want->period);
    assert_int_equal(got->n_samples, want->n_samples);
    assert_memory_equal(got->stacks, want->stacks, want->n_samples * sizeof *want->stacks);
    assert_memory_equal(got->values, want->values,
                        (size_t)n_types * want->n_samples * sizeof *want->values);
    assert_int_equal(got->n_links, want->n_links);
    for (uint32_t i = 0; i < want->n_links; i++) {
        assert_int_equal(got->links[i].sample, want->links[i].sample);
        assert_int_equal(got->links[i].span_id, want->links[i].span_id);
        assert_memory_equal(got->links[i].trace_id, want->links[i].trace_id, FG_ID_BYTES);
    }
}

static void assert_same(const struct fg_wire_batch *got, const struct fg_batch *want,
                        const bool *define)
{
    assert_int_equal(got->n_stacks, want->n_stacks);
    for (uint32_t i = 0; i < want->n_stacks; i++) {
        assert_true(fg_id_eq(got->stacks[i].id, want->stacks[i].id));
        assert_int_equal(got->stacks[i].locations != NULL, define[i]);
        if (got->stacks[i].locations == NULL)
            continue;
        assert_int_equal(got->stacks[i].depth, want->stacks[i].depth);
        for (uint32_t k = 0; k < want->stacks[i].depth; k++)
            assert_location(want, want->stack_locations[want->stacks[i].first + k], &got->symbols,
                            got->stacks[i].locations[k]);
    }
    assert_slice(got->period_type.type, want->period_type.type);
    assert_slice(got->period_type.unit, want->period_type.unit);
    assert_int_equal(got->n_types, want->n_types);
    for (uint32_t t = 0; t < want->n_types; t++) {
        assert_slice(got->types[t].type, want->types[t].type);
        assert_slice(got->types[t].unit, want->types[t].unit);
    }
    assert_int_equal(got->n_profiles, want->n_profiles);
    for (uint32_t p = 0; p < want->n_profiles; p++)
        assert_profile(&got->profiles[p], &want->profiles[p], want->n_types);
}

static void batches_are_decoded_as_encoded(void **state)
{
    static struct made made;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t random = seed * 1000;
        bool define[STACKS];
        struct fg_wire_batch decoded;
        struct fg_arena *arena = fg_arena_create(1 << 20);
        struct fg_buf bytes;
        struct fg_err err;

        make(&made, seed);
        for (uint32_t i = 0; i < STACKS; i++) /* all, none and every mixture */
            define[i] = next_random(&random) % 4 < seed % 5;
        fg_buf_init(&bytes, SIZE_MAX);
        fg_batch_encode(&made.batch, define, &bytes);
        if (fg_batch_decode(fg_buf_slice(&bytes), arena, &decoded, &err) != FG_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
        assert_same(&decoded, &made.batch, define);
        fg_wire_batch_done(&decoded);
        fg_buf_done(&bytes);
        fg_arena_destroy(arena);
    }
}

/* The receiver knows all ids, or all but one. */
struct names {
    const struct fg_batch *batch;
    struct fg_id changed; /* in place of the first one */
    uint32_t missing;     /* UINT32_MAX: none */
    bool change;
};

static bool find_names(void *arg, const uint64_t *shorts, uint32_t n, struct fg_id *ids)
{
    const struct names *names = arg;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = 0;

        while ((names->batch->stacks[s].id.lo & ((UINT64_C(1) << 48) - 1)) != shorts[i])
            assert_true(++s < names->batch->n_stacks);
        if (s == names->missing)
            return false;
        ids[i] = names->change && i == 0 ? names->changed : names->batch->stacks[s].id;
    }
    return true;
}

static void short_batches_are_decoded_as_encoded(void **state)
{
    static struct made made;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct names names = {.batch = &made.batch, .missing = UINT32_MAX};
        const struct fg_stack_names find = {find_names, &names};
        struct fg_arena *arena = fg_arena_create(1 << 20);
        uint64_t random = seed * 1000;
        struct fg_wire_batch decoded;
        struct fg_buf bytes, whole;
        bool define[STACKS];
        struct fg_err err;

        make(&made, seed);
        for (uint32_t i = 0; i < STACKS; i++)
            define[i] = next_random(&random) % 4 < seed % 5;
        for (uint32_t p = 0; p < made.batch.n_profiles; p++) /* as of CPU profiles */
            for (size_t i = 0; seed % 2 == 0 && i < made.profiles[p].n_samples; i++)
                made.profiles[p].values[i] = made.profiles[p].values[i] % 1000 * 10000000;
        fg_buf_init(&bytes, SIZE_MAX);
        fg_buf_init(&whole, SIZE_MAX);
        fg_batch_encode(&made.batch, define, &whole);
        fg_batch_encode_short(&made.batch, define, seed % 3 == 0, &bytes);
        if (fg_batch_decode_short(fg_buf_slice(&bytes), arena, &find, &decoded, &err) != FG_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
        assert_same(&decoded, &made.batch, define);
        fg_wire_batch_done(&decoded);
        /* Neither reads what is the other's. */
        assert_int_equal(fg_batch_decode(fg_buf_slice(&bytes), arena, &decoded, &err),
                         FG_E_CORRUPT);
        assert_int_equal(fg_batch_decode_short(fg_buf_slice(&whole), arena, &find, &decoded, &err),
                         FG_E_CORRUPT);
        fg_buf_done(&whole);
        fg_buf_done(&bytes);
        fg_arena_destroy(arena);
    }
}

/* A short id that the receiver lacks, or that another stack has as well, is not taken for a stack.
 */
static void short_ids_that_name_another_stack_are_found_out(void **state)
{
    static struct made made;
    struct names names = {.batch = &made.batch, .missing = UINT32_MAX};
    const struct fg_stack_names find = {find_names, &names};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    bool define[STACKS] = {false};
    struct fg_wire_batch decoded;
    struct fg_buf bytes;
    struct fg_err err;
    size_t whole_len;

    (void)state;
    make(&made, 1);
    fg_buf_init(&bytes, SIZE_MAX);
    fg_batch_encode(&made.batch, define, &bytes);
    whole_len = bytes.len;
    fg_buf_clear(&bytes);
    fg_batch_encode_short(&made.batch, define, false, &bytes);
    assert_true(bytes.len + STACKS * 9 < whole_len);
    names.missing = STACKS - 1;
    assert_int_equal(fg_batch_decode_short(fg_buf_slice(&bytes), arena, &find, &decoded, &err),
                     FG_E_NOT_FOUND);
    names.missing = UINT32_MAX;
    names.change = true;
    names.changed = made.batch.stacks[0].id;
    names.changed.hi ^= 1;
    assert_int_equal(fg_batch_decode_short(fg_buf_slice(&bytes), arena, &find, &decoded, &err),
                     FG_E_NOT_FOUND);
    names.changed.hi ^= 1;
    names.changed.lo ^= UINT64_C(1) << 48;
    assert_int_equal(fg_batch_decode_short(fg_buf_slice(&bytes), arena, &find, &decoded, &err),
                     FG_E_NOT_FOUND);
    names.changed.lo ^= UINT64_C(1) << 48;
    assert_int_equal(fg_batch_decode_short(fg_buf_slice(&bytes), arena, &find, &decoded, &err),
                     FG_OK);
    fg_wire_batch_done(&decoded);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* Sizes that come with a batch reach its profiles; without them, as a distributor of before sends
 * it, they are unknown. */
static void sizes_are_read_back_or_unknown(void **state)
{
    static const struct fg_profile_size sizes[PROFILES] = {
        {true, 0, 0}, {false, 0, 0}, {true, UINT32_MAX, UINT32_MAX}, {true, 1, 2}};
    static const struct {
        const char *name;
        size_t at;
        uint64_t number;
    } wrong[] = {
        {"wire bytes", 0, (uint64_t)UINT32_MAX + 2},
        {"raw bytes", 1, (uint64_t)UINT32_MAX + 1},
        {"half a size", 3, 5},
    };
    static struct made made;
    bool define[STACKS] = {false};
    uint64_t numbers[2 * PROFILES];
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_wire_batch decoded;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    make(&made, 1);
    for (uint32_t i = 0; i < PROFILES; i++)
        made.batch.profiles[i].size = sizes[i];
    fg_buf_init(&bytes, SIZE_MAX);
    fg_batch_encode(&made.batch, define, &bytes);
    assert_int_equal(fg_batch_decode(fg_buf_slice(&bytes), arena, &decoded, &err), FG_OK);
    assert_int_equal(decoded.n_profiles, PROFILES);
    assert_int_equal(fg_wire_batch_get_sizes(&decoded, NULL, 0, &err), FG_OK);
    for (uint32_t i = 0; i < PROFILES; i++)
        assert_false(decoded.profiles[i].size.known);
    fg_batch_put_sizes(&made.batch, numbers);
    assert_int_equal(fg_wire_batch_get_sizes(&decoded, numbers, FG_COUNT(numbers) - 1, &err),
                     FG_E_CORRUPT);
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        print_message("  %s\n", wrong[i].name);
        fg_batch_put_sizes(&made.batch, numbers);
        numbers[wrong[i].at] = wrong[i].number;
        assert_int_equal(fg_wire_batch_get_sizes(&decoded, numbers, FG_COUNT(numbers), &err),
                         FG_E_CORRUPT);
    }
    fg_batch_put_sizes(&made.batch, numbers);
    assert_int_equal(fg_wire_batch_get_sizes(&decoded, numbers, FG_COUNT(numbers), &err), FG_OK);
    for (uint32_t i = 0; i < PROFILES; i++) {
        assert_int_equal(decoded.profiles[i].size.known, sizes[i].known);
        assert_int_equal(decoded.profiles[i].size.wire_bytes, sizes[i].wire_bytes);
        assert_int_equal(decoded.profiles[i].size.raw_bytes, sizes[i].raw_bytes);
    }
    fg_wire_batch_done(&decoded);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* The whole decoded, or an error of the right kind. */
static enum fg_code try_decode_of(struct fg_slice in, size_t arena_bytes,
                                  const struct fg_stack_names *names)
{
    struct fg_arena *arena = fg_arena_create(arena_bytes);
    uint8_t *copy = fg_malloc(in.len + 1); /* of its own, so that reading past the end is seen */
    struct fg_wire_batch decoded;
    struct fg_err err;
    enum fg_code code;

    if (in.len > 0)
        memcpy(copy, in.ptr, in.len);
    code = names == NULL
               ? fg_batch_decode(fg_bytes(copy, in.len), arena, &decoded, &err)
               : fg_batch_decode_short(fg_bytes(copy, in.len), arena, names, &decoded, &err);
    if (code == FG_OK)
        fg_wire_batch_done(&decoded);
    free(copy);
    fg_arena_destroy(arena);
    return code;
}

static enum fg_code try_decode(struct fg_slice in, size_t arena_bytes)
{
    return try_decode_of(in, arena_bytes, NULL);
}

static bool find_any(void *arg, const uint64_t *shorts, uint32_t n, struct fg_id *ids)
{
    (void)arg;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (struct fg_id){shorts[i], 0};
    return true;
}

static void damaged_short_batches_are_refused(void **state)
{
    static struct made made;
    const struct fg_stack_names any = {find_any, NULL};
    bool define[STACKS];
    uint64_t random = 3;
    struct fg_buf bytes;

    (void)state;
    for (unsigned defined = 0; defined <= STACKS; defined += STACKS / 2) {
        make(&made, 7);
        for (uint32_t i = 0; i < STACKS; i++) {
            define[i] = i < defined;
            made.batch.stacks[i].id.hi = 0; /* as find_any() says */
            made.batch.stacks[i].id.lo &= (UINT64_C(1) << 48) - 1;
        }
        fg_buf_init(&bytes, SIZE_MAX);
        fg_batch_encode_short(&made.batch, define, false, &bytes);
        for (size_t len = 0; len < bytes.len; len++)
            assert_int_equal(try_decode_of(fg_bytes(bytes.ptr, len), 1 << 20, &any), FG_E_CORRUPT);
        assert_int_equal(try_decode_of(fg_buf_slice(&bytes), 1 << 20, &any), FG_OK);
        assert_int_equal(try_decode_of(fg_buf_slice(&bytes), 100, &any), FG_E_LIMIT);
        for (int i = 0; i < 20000; i++) {
            size_t at = next_random(&random) % bytes.len;
            uint8_t was = bytes.ptr[at];
            enum fg_code code;

            bytes.ptr[at] = (uint8_t)next_random(&random);
            code = try_decode_of(fg_buf_slice(&bytes), 1 << 20, &any);
            assert_true(code == FG_OK || code == FG_E_CORRUPT || code == FG_E_LIMIT ||
                        code == FG_E_NOT_FOUND);
            bytes.ptr[at] = was;
        }
        fg_buf_putc(&bytes, 0);
        assert_int_equal(try_decode_of(fg_buf_slice(&bytes), 1 << 20, &any), FG_E_CORRUPT);
        fg_buf_done(&bytes);
    }
}

static void damaged_batches_are_refused(void **state)
{
    static struct made made;
    bool define[STACKS];
    uint64_t random = 3;
    struct fg_buf bytes;

    (void)state;
    make(&made, 7);
    memset(define, true, sizeof define);
    fg_buf_init(&bytes, SIZE_MAX);
    fg_batch_encode(&made.batch, define, &bytes);
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(try_decode(fg_bytes(bytes.ptr, len), 1 << 20), FG_E_CORRUPT);
    assert_int_equal(try_decode(fg_buf_slice(&bytes), 1 << 20), FG_OK);
    assert_int_equal(try_decode(fg_buf_slice(&bytes), 100), FG_E_LIMIT);
    assert_true(bytes.len > 0);
    for (int i = 0; bytes.len > 0 && i < 20000; i++) {
        size_t at = next_random(&random) % bytes.len;
        uint8_t was = bytes.ptr[at];
        enum fg_code code;

        bytes.ptr[at] = (uint8_t)next_random(&random);
        code = try_decode(fg_buf_slice(&bytes), 1 << 20);
        assert_true(code == FG_OK || code == FG_E_CORRUPT || code == FG_E_LIMIT);
        bytes.ptr[at] = was;
    }
    fg_buf_putc(&bytes, 0);
    assert_int_equal(try_decode(fg_buf_slice(&bytes), 1 << 20), FG_E_CORRUPT);
    fg_buf_done(&bytes);
}

/* A schema is at least one type and no more than there are bits in a set of types. */
static void the_number_of_types_is_limited(void **state)
{
    static const struct {
        uint32_t types;
        enum fg_code code;
    } cases[] = {{0, FG_E_CORRUPT}, {1, FG_OK}, {64, FG_OK}, {65, FG_E_CORRUPT}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_value_type types[65] = {0};
        struct fg_batch batch = {.types = types, .n_types = cases[i].types};
        struct fg_buf bytes;

        fg_buf_init(&bytes, SIZE_MAX);
        fg_batch_encode(&batch, NULL, &bytes);
        assert_int_equal(try_decode(fg_buf_slice(&bytes), 1 << 20), cases[i].code);
        fg_buf_done(&bytes);
    }
}

static void negative_values_are_refused(void **state)
{
    static struct made made;
    bool define[STACKS] = {false};
    struct fg_buf bytes;

    (void)state;
    make(&made, 7);
    made.profiles[1].n_samples = 1;
    made.profiles[1].n_links = 0;
    made.values[1][0] = -1;
    fg_buf_init(&bytes, SIZE_MAX);
    fg_batch_encode(&made.batch, define, &bytes);
    assert_int_equal(try_decode(fg_buf_slice(&bytes), 1 << 20), FG_E_CORRUPT);
    fg_buf_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_decoded_as_encoded),
        cmocka_unit_test(short_batches_are_decoded_as_encoded),
        cmocka_unit_test(short_ids_that_name_another_stack_are_found_out),
        cmocka_unit_test(damaged_short_batches_are_refused),
        cmocka_unit_test(sizes_are_read_back_or_unknown),
        cmocka_unit_test(damaged_batches_are_refused),
        cmocka_unit_test(the_number_of_types_is_limited),
        cmocka_unit_test(negative_values_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
