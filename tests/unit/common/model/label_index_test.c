/* Label indexes: what is in them, their encoded form, and bytes that are none. */
#include "common/model/label_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SERIES = 40, LABELS = 3 };

/* A series of the test: {__name__="cpu", pod="pN", service_name="shop"}. */
struct made {
    char pod[8];
    struct fg_label items[LABELS];
    struct fg_labels labels;
};

static void make(struct made *made, unsigned number)
{
    (void)snprintf(made->pod, sizeof made->pod, "p%u", number % 7);
    made->items[0] = (struct fg_label){FG_LIT("__name__"), FG_LIT("cpu")};
    made->items[1] = (struct fg_label){FG_LIT("pod"), fg_cstr(made->pod)};
    made->items[2] = (struct fg_label){FG_LIT("service_name"), FG_LIT("shop")};
    made->labels = (struct fg_labels){made->items, LABELS};
}

static const char *const types[] = {"cpu:cpu:nanoseconds:cpu:nanoseconds", "cpu:samples:count::"};

/* Series i has type i % 2, every third one both. */
static void index_all(struct made *made, const char *label, struct fg_arena *arena,
                      struct fg_label_index *ret_index)
{
    struct fg_label_indexing indexing;
    struct fg_profile_type type;
    struct fg_err err;

    fg_label_indexing_init(&indexing, label, arena);
    for (unsigned i = 0; i < SERIES; i++) {
        make(&made[i], i);
        assert_true(fg_label_indexing_series(&indexing, &made[i].labels, NULL));
        for (unsigned t = 0; t < FG_COUNT(types); t++) {
            if (i % 2 != t && i % 3 != 0)
                continue;
            assert_int_equal(fg_profile_type_parse(fg_cstr(types[t]), &type, &err), FG_OK);
            assert_true(fg_label_indexing_type(&indexing, &type, fg_cstr(types[t])));
        }
    }
    assert_int_equal(fg_label_indexing_end(&indexing, ret_index, &err), FG_OK);
}

static const struct fg_label_posting *posting_of(const struct fg_label_index *index,
                                                 const char *name, const char *value)
{
    uint32_t at =
        fg_label_posting_find(index->postings, index->n_postings, fg_cstr(name), fg_cstr(value));

    assert_true(at < index->n_postings);
    assert_true(fg_slice_is(index->postings[at].name, name));
    assert_true(fg_slice_is(index->postings[at].value, value));
    return &index->postings[at];
}

static void assert_same(const struct fg_label_index *a, const struct fg_label_index *b)
{
    assert_int_equal(a->n_series, b->n_series);
    assert_int_equal(a->n_prints, b->n_prints);
    assert_int_equal(a->n_postings, b->n_postings);
    assert_int_equal(a->n_of_types, b->n_of_types);
    assert_memory_equal(a->prints, b->prints, a->n_prints * sizeof *a->prints);
    assert_memory_equal(a->marks, b->marks, a->n_prints);
    for (uint32_t i = 0; i < a->n_postings; i++) {
        const struct fg_label_posting *x = &a->postings[i], *y = &b->postings[i];

        assert_true(fg_slice_eq(x->name, y->name) && fg_slice_eq(x->value, y->value));
        assert_int_equal(x->n_series, y->n_series);
        assert_memory_equal(x->series, y->series, x->n_series * sizeof *x->series);
    }
    for (uint32_t i = 0; i < a->n_of_types; i++)
        assert_true(fg_slice_eq(a->of_types[i].name, b->of_types[i].name) &&
                    fg_slice_eq(a->of_types[i].value, b->of_types[i].value));
}

static void check_encoded(const struct fg_label_index *index, struct fg_arena *arena)
{
    struct fg_label_index again;
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, SIZE_MAX);
    fg_label_index_encode(index, &bytes);
    assert_int_equal(fg_label_index_decode(fg_buf_slice(&bytes), arena, &again, &err), FG_OK);
    assert_same(index, &again);
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(fg_label_index_decode(fg_bytes(bytes.ptr, len), arena, &again, &err),
                         FG_E_CORRUPT);
    fg_buf_done(&bytes);
}

static void an_index_of_all_labels_has_every_series(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct made made[SERIES];
    struct fg_label_index index;

    (void)state;
    index_all(made, NULL, arena, &index);
    assert_int_equal(index.n_series, SERIES);
    assert_int_equal(index.n_prints, SERIES);
    assert_int_equal(posting_of(&index, "service_name", "shop")->n_series, SERIES);
    assert_int_equal(posting_of(&index, "pod", "p6")->n_series, 5);
    assert_int_equal(posting_of(&index, "pod", "p6")->series[1], 13);
    for (unsigned i = 0; i < SERIES; i++) {
        struct fg_id id = fg_labels_hash(&made[i].labels);
        /* Only the first type has a period. */
        bool period = i % 2 == 0 || i % 3 == 0;

        assert_true(fg_id_eq(index.prints[i], id));
        assert_int_equal(index.marks[i], FG_LABEL_SELECTED | (period ? 0x3f : 0x27));
    }
    /* Of each name two values, except periods and the service. */
    assert_int_equal(index.n_of_types, 3 * 2 + 3);
    check_encoded(&index, arena);
}

static void an_index_of_one_label_has_only_that(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct made made[SERIES];
    struct fg_label_index index;

    (void)state;
    index_all(made, "pod", arena, &index);
    assert_int_equal(index.n_prints, SERIES);
    assert_int_equal(index.n_postings, 7);
    assert_int_equal(index.n_of_types, 0);
    check_encoded(&index, arena);
    index_all(made, "none", arena, &index);
    assert_int_equal(index.n_series, SERIES);
    assert_int_equal(index.n_postings, 0);
    check_encoded(&index, arena);
}

static void an_index_of_a_label_of_types_has_pairs(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct made made[SERIES];
    struct fg_label_index index;
    const struct fg_label_posting *cpu;
    unsigned n_pairs = 0;

    (void)state;
    for (unsigned i = 0; i < SERIES; i++)
        n_pairs += i % 3 == 0 ? 2 : 1;
    index_all(made, "__type__", arena, &index);
    assert_int_equal(index.n_series, SERIES);
    assert_int_equal(index.n_prints, SERIES + n_pairs);
    assert_int_equal(index.n_postings, 2);
    cpu = posting_of(&index, "__type__", "cpu");
    assert_int_equal(cpu->n_series + posting_of(&index, "__type__", "samples")->n_series, n_pairs);
    for (uint32_t i = 0; i < cpu->n_series; i++) {
        struct fg_id pair = index.prints[cpu->series[i]];
        bool found = false;

        for (unsigned s = 0; s < SERIES && !found; s++)
            found = fg_id_eq(pair, fg_label_pair_print(index.prints[s], FG_LIT("cpu")));
        assert_true(found && cpu->series[i] >= SERIES);
    }
    check_encoded(&index, arena);
}

static void a_full_arena_leaves_whole_series(void **state)
{
    struct made made[SERIES];
    unsigned fewest = SERIES, most = 0;

    (void)state;
    for (size_t limit = 256; limit < 8192; limit += 64) {
        fg_auto(fg_arena) *arena = fg_arena_create(limit);
        struct fg_label_indexing indexing;
        struct fg_label_index index;
        struct fg_err err;
        unsigned n = 0;

        fg_label_indexing_init(&indexing, NULL, arena);
        for (; n < SERIES; n++) {
            make(&made[n], n);
            if (!fg_label_indexing_series(&indexing, &made[n].labels, NULL))
                break;
        }
        fg_arena_set_limit(arena, SIZE_MAX);
        assert_int_equal(fg_label_indexing_end(&indexing, &index, &err), FG_OK);
        assert_int_equal(index.n_series, n);
        for (uint32_t i = 0; i < index.n_postings; i++)
            for (uint32_t k = 0; k < index.postings[i].n_series; k++)
                assert_true(index.postings[i].series[k] < n);
        fewest = FG_MIN(fewest, n);
        most = FG_MAX(most, n);
    }
    assert_true(fewest == 0 && most == SERIES);
}

static void a_label_set_is_split_into_series_and_type(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct fg_label_indexing indexing;
    struct fg_label_index index, want;
    struct made made[SERIES];
    struct fg_profile_type type;
    struct fg_labels set;
    struct fg_err err;

    (void)state;
    make(&made[0], 0);
    assert_int_equal(fg_profile_type_parse(fg_cstr(types[0]), &type, &err), FG_OK);
    set = fg_labels_with_type(&made[0].labels, &type, arena);
    fg_label_indexing_init(&indexing, NULL, arena);
    assert_true(fg_label_indexing_set(&indexing, &set));
    assert_int_equal(fg_label_indexing_end(&indexing, &index, &err), FG_OK);
    fg_label_indexing_init(&indexing, NULL, arena);
    assert_true(fg_label_indexing_series(&indexing, &made[0].labels, NULL));
    assert_true(fg_label_indexing_type(&indexing, &type, fg_cstr(types[0])));
    assert_int_equal(fg_label_indexing_end(&indexing, &want, &err), FG_OK);
    assert_same(&index, &want);
}

/* Bytes after "no series and no pairs": names, then labels of types. */
static void bytes_that_are_no_index_are_refused(void **state)
{
    static const struct {
        const char *name, *bytes;
        size_t len;
        enum fg_code want;
    } cases[] = {
        {"nothing in it", "\0\0\0\0", 4, FG_OK},
        {"a byte too many", "\0\0\0\0\0", 5, FG_E_CORRUPT},
        {"a count beyond the bytes", "\x7f\0\0\0", 4, FG_E_CORRUPT},
        {"a huge count", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0", 13, FG_E_CORRUPT},
        {"a value of no series", "\0\0\1\1a\1\1b\0\0", 10, FG_OK},
        {"a value of a series that is not there", "\0\0\1\1a\1\1b\1\0\0", 11, FG_E_CORRUPT},
        {"an empty value", "\0\0\1\1a\1\0\0\0", 9, FG_E_CORRUPT},
        {"values out of order", "\0\0\1\1a\2\1b\0\1a\0\0", 13, FG_E_CORRUPT},
        {"a value twice", "\0\0\1\1a\2\1b\0\1b\0\0", 13, FG_E_CORRUPT},
        {"names out of order", "\0\0\2\1b\1\1b\0\1a\1\1b\0\0", 16, FG_E_CORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 16);
        struct fg_label_index index;
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        assert_int_equal(
            fg_label_index_decode(fg_bytes(cases[i].bytes, cases[i].len), arena, &index, &err),
            cases[i].want);
    }
}

static void a_series_twice_in_a_value_is_refused(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 16);
    struct fg_label_index index;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, 256);
    fg_buf_puts(&bytes, "\2");
    for (unsigned i = 0; i < 2 * FG_ID_BYTES + 2; i++)
        fg_buf_putc(&bytes, 0);
    fg_buf_append(&bytes, "\0\1\1a\1\1b\2\0\0\0", 11); /* series 0 and 0 + 0 */
    assert_int_equal(fg_label_index_decode(fg_buf_slice(&bytes), arena, &index, &err),
                     FG_E_CORRUPT);
    bytes.ptr[bytes.len - 2] = 1; /* 0 and 1 */
    assert_int_equal(fg_label_index_decode(fg_buf_slice(&bytes), arena, &index, &err), FG_OK);
    assert_int_equal(index.postings[0].n_series, 2);
    fg_buf_done(&bytes);
}

/* Postings that do not fit are left out from the end; what is there is right. */
static void postings_that_do_not_fit_are_left_out(void **state)
{
    enum { N = 5000, NAMED = 100 };
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct fg_profile_type type = {.type = FG_LIT("cpu"), .unit = FG_LIT("nanoseconds")};
    size_t limits[] = {1 << 24, 400000, 300000, 200000, 120000};
    struct fg_label_indexing indexing;
    struct fg_label_index whole, part;
    uint32_t last = UINT32_MAX;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    fg_label_indexing_init(&indexing, NULL, arena);
    for (unsigned i = 0; i < N; i++) {
        struct fg_label *label = fg_arena_new(arena, struct fg_label, 1);

        /* Names in any order: "a" with most values, and others before and after it. */
        label->name = i % (N / NAMED) == 0 ? FG_LIT("zone") : FG_LIT("a");
        label->value = fg_cstr(fg_arena_printf(arena, "%05u", i * 7919 % N));
        assert_true(fg_label_indexing_series(&indexing, &(struct fg_labels){label, 1}, NULL));
        assert_true(fg_label_indexing_type(&indexing, &type, FG_LIT("cpu:x")));
    }
    assert_int_equal(fg_label_indexing_end(&indexing, &whole, &err), FG_OK);
    fg_buf_init(&bytes, SIZE_MAX);
    fg_label_index_encode(&whole, &bytes);
    for (size_t i = 0; i < FG_COUNT(limits); i++) {
        fg_auto(fg_arena) *small = fg_arena_create(limits[i]);

        assert_int_equal(fg_label_index_decode(fg_buf_slice(&bytes), small, &part, &err), FG_OK);
        assert_true(part.n_postings < last || i == 0);
        last = part.n_postings;
        assert_int_equal(part.n_of_types, whole.n_of_types);
        if (i == 0) {
            assert_int_equal(last, N);
            assert_null(part.left.value.ptr);
        } else {
            assert_true(fg_slice_eq(part.left.name, whole.postings[last].name));
            assert_true(fg_slice_eq(part.left.value, whole.postings[last].value));
        }
        /* The decoded postings are the first ones of the whole index. */
        whole.n_postings = last;
        assert_same(&whole, &part);
    }
    /* Prints alone need 17 bytes each. */
    fg_auto(fg_arena) *none = fg_arena_create((size_t)N * 16);
    assert_int_equal(fg_label_index_decode(fg_buf_slice(&bytes), none, &part, &err), FG_E_LIMIT);
    /* The decoder also checks the postings that it leaves out. */
    fg_auto(fg_arena) *tiny = fg_arena_create(120000);
    assert_int_equal(fg_label_index_decode(fg_bytes(bytes.ptr, bytes.len - 1), tiny, &part, &err),
                     FG_E_CORRUPT);
    fg_buf_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_of_all_labels_has_every_series),
        cmocka_unit_test(an_index_of_one_label_has_only_that),
        cmocka_unit_test(an_index_of_a_label_of_types_has_pairs),
        cmocka_unit_test(a_full_arena_leaves_whole_series),
        cmocka_unit_test(a_label_set_is_split_into_series_and_type),
        cmocka_unit_test(bytes_that_are_no_index_are_refused),
        cmocka_unit_test(a_series_twice_in_a_value_is_refused),
        cmocka_unit_test(postings_that_do_not_fit_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
