/* Records: whatever columns a profile has come back; damage is an error and never more. */
#include "common/base/cursor.h"
#include "ingester/record.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TYPES_MAX = 6, SAMPLES_MAX = 300 };

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

struct made {
    struct fg_profile profile;
    uint32_t n_types;
    int64_t values[TYPES_MAX * SAMPLES_MAX];
    struct fg_link links[SAMPLES_MAX];
    struct fg_keyed samples[SAMPLES_MAX];
};

/* A column of one of the kinds that a record knows, or of none in particular. */
static void make_column(struct made *made, uint32_t type, uint64_t *random)
{
    uint32_t n = made->profile.n_samples;
    int64_t *values = made->values + (size_t)type * n;
    uint64_t kind = next_random(random) % 7, scale = 1 + next_random(random) % 10000000;

    for (uint32_t i = 0; i < n; i++) {
        switch (kind) {
        case 0:
            values[i] = 0;
            break;
        case 1:
            values[i] = (int64_t)(scale * (next_random(random) % 3));
            break;
        case 2: /* a multiple of an earlier one */
            values[i] =
                type == 0 ? 1 : (int64_t)((uint64_t)made->values[i] % (UINT64_C(1) << 40) * 7);
            break;
        case 3:
            values[i] = (int64_t)(next_random(random) >> 1);
            break;
        case 5: /* a multiple except for the first */
            values[i] = type == 0 || i < 2
                            ? 0
                            : (int64_t)((uint64_t)made->values[i] % (UINT64_C(1) << 40) * 7);
            break;
        case 4:
            values[i] = i == 0 ? INT64_MAX : 0;
            break;
        default:
            values[i] = (int64_t)(next_random(random) % 100);
        }
    }
}

static void make(struct made *made, uint64_t seed)
{
    uint64_t random = seed;
    uint32_t n = (uint32_t)(next_random(&random) % SAMPLES_MAX);
    uint64_t nodes = seed % 3 == 0 ? UINT32_MAX : 2 * SAMPLES_MAX;

    memset(made, 0, sizeof *made);
    made->n_types = 1 + (uint32_t)(next_random(&random) % TYPES_MAX);
    made->profile = (struct fg_profile){
        .duration_ns = (int64_t)next_random(&random),
        .period = (int64_t)next_random(&random),
        .n_samples = n,
        .values = made->values,
        .links = made->links,
    };
    if (seed % 2 == 1)
        made->profile.size = (struct fg_profile_size){true, (uint32_t)next_random(&random),
                                                      seed % 5 == 0 ? UINT32_MAX : 0};
    for (uint32_t t = 0; t < made->n_types; t++)
        make_column(made, t, &random);
    for (uint32_t i = 0; i < n; i++) {
        made->samples[i] = (struct fg_keyed){(uint32_t)(next_random(&random) % nodes), i};
        if (i == 5)
            made->samples[i].key = 0; /* the empty stack */
        if (next_random(&random) % 4 == 0) {
            struct fg_link *link = &made->links[made->profile.n_links++];

            *link = (struct fg_link){.sample = i, .span_id = next_random(&random)};
            link->trace_id[15] = (uint8_t)next_random(&random);
        }
    }
}

static void encode(struct made *made, uint32_t generation, struct fg_buf *out)
{
    static struct fg_keyed scratch[SAMPLES_MAX];
    static uint32_t positions[SAMPLES_MAX];

    fg_radix_sort(made->samples, scratch, made->profile.n_samples);
    ing_record_encode(&made->profile, made->n_types, generation, made->samples, positions, out);
}

static void assert_links(const struct made *made, const struct ing_record_columns *columns)
{
    assert_int_equal(columns->n_links, made->profile.n_links);
    for (uint32_t i = 0; i < columns->n_links; i++) {
        const struct fg_link *got = &columns->links[i], *want = &made->links[i];

        assert_int_equal(made->samples[got->sample].index, want->sample);
        assert_int_equal(got->span_id, want->span_id);
        assert_memory_equal(got->trace_id, want->trace_id, FG_ID_BYTES);
    }
}

static void assert_type(const struct made *made, const struct ing_record *record, uint32_t type,
                        struct ing_record_columns *columns)
{
    const int64_t *values = made->values + (size_t)type * made->profile.n_samples;
    uint64_t sum = 0, total;
    struct fg_err err;

    assert_int_equal(ing_record_read(record, type, true, columns, &err), FG_OK);
    for (uint32_t i = 0; i < made->profile.n_samples; i++) {
        assert_int_equal(columns->nodes[i], made->samples[i].key);
        assert_int_equal(columns->values[i], values[made->samples[i].index]);
        sum = (uint64_t)values[i] > INT64_MAX - sum ? INT64_MAX : sum + (uint64_t)values[i];
    }
    assert_links(made, columns);
    assert_int_equal(columns->size.known, made->profile.size.known);
    assert_int_equal(columns->size.wire_bytes, made->profile.size.wire_bytes);
    assert_int_equal(columns->size.raw_bytes, made->profile.size.raw_bytes);
    assert_int_equal(ing_record_total(record, type, &total, &err), FG_OK);
    assert_int_equal(total, sum);
    assert_int_equal(ing_record_read(record, type, false, columns, &err), FG_OK);
    assert_int_equal(columns->n_links, 0);
}

static void record_round_trip_keeps_the_profile(void **state)
{
    static struct made made;
    struct ing_record_columns columns = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct ing_record record;
        struct fg_buf bytes;
        struct fg_err err;

        make(&made, seed);
        fg_buf_init(&bytes, SIZE_MAX);
        encode(&made, (uint32_t)seed, &bytes);
        for (uint32_t i = 1; i < made.profile.n_samples; i++)
            assert_true(made.samples[i - 1].key <= made.samples[i].key);
        assert_int_equal(ing_record_open(fg_buf_slice(&bytes), &record, &err), FG_OK);
        assert_int_equal(record.generation, seed);
        assert_int_equal(record.n_types, made.n_types);
        assert_int_equal(record.n_samples, made.profile.n_samples);
        assert_int_equal(record.duration_ns, made.profile.duration_ns);
        assert_int_equal(record.period, made.profile.period);
        for (uint32_t t = 0; t < made.n_types; t++)
            assert_type(&made, &record, t, &columns);
        assert_int_equal(ing_record_read(&record, made.n_types, false, &columns, &err),
                         FG_E_CORRUPT);
        assert_int_equal(ing_record_total(&record, made.n_types, &(uint64_t){0}, &err),
                         FG_E_CORRUPT);
        fg_buf_done(&bytes);
    }
    ing_record_columns_done(&columns);
}

/* Sorting keeps the order of equals and puts every node in its place. */
static void sorting_equals_the_slow_model(void **state)
{
    static const unsigned shifts[] = {0, 8, 16, 24, 31};
    uint64_t random = 9;

    (void)state;
    for (size_t s = 0; s < 50; s++) {
        struct fg_keyed samples[200], scratch[200], slow[200];
        uint32_t n = (uint32_t)(next_random(&random) % 200);

        for (uint32_t i = 0; i < n; i++)
            slow[i] = samples[i] = (struct fg_keyed){
                (uint32_t)(next_random(&random) % 7) << shifts[s % FG_COUNT(shifts)], i};
        for (uint32_t i = 1; i < n; i++)
            for (uint32_t k = i; k > 0 && slow[k - 1].key > slow[k].key; k--) {
                struct fg_keyed swap = slow[k];

                slow[k] = slow[k - 1];
                slow[k - 1] = swap;
            }
        fg_radix_sort(samples, scratch, n);
        assert_memory_equal(samples, slow, n * sizeof *slow);
    }
}

/* What most CPU profiles are: one byte for a value, none for the nanoseconds. */
static void columns_are_small(void **state)
{
    static struct made made;
    struct fg_buf bytes;

    (void)state;
    memset(&made, 0, sizeof made);
    made.n_types = 2;
    made.profile = (struct fg_profile){.n_samples = 100, .values = made.values};
    for (uint32_t i = 0; i < 100; i++) {
        made.samples[i] = (struct fg_keyed){i, i};
        made.values[i] = 1 + i % 2;
        made.values[100 + i] = INT64_C(10000000) * (1 + i % 2);
    }
    fg_buf_init(&bytes, SIZE_MAX);
    encode(&made, 0, &bytes);
    assert_true(bytes.len < 100 + 100 + 40);
    fg_buf_done(&bytes);
}

static void read_all(struct fg_slice in, struct ing_record_columns *columns)
{
    uint8_t *copy = fg_malloc(in.len + 1); /* of its own, so that reading past the end is seen */
    struct ing_record record;
    struct fg_err err;

    if (in.len > 0)
        memcpy(copy, in.ptr, in.len);
    if (ing_record_open(fg_bytes(copy, in.len), &record, &err) == FG_OK)
        for (uint32_t t = 0; t <= record.n_types; t++) {
            uint64_t total;

            if (ing_record_total(&record, t, &total, &err) != FG_OK)
                assert_int_equal(err.code, FG_E_CORRUPT);
            if (ing_record_read(&record, t, true, columns, &err) != FG_OK)
                assert_int_equal(err.code, FG_E_CORRUPT);
        }
    else
        assert_int_equal(err.code, FG_E_CORRUPT);
    free(copy);
}

static void damaged_records_are_errors(void **state)
{
    static struct made made;
    struct ing_record_columns columns = {0};
    uint64_t random = 4;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fg_buf bytes;

        make(&made, seed);
        fg_buf_init(&bytes, SIZE_MAX);
        encode(&made, 1, &bytes);
        for (size_t i = 0; i < 300; i++) {
            size_t at = next_random(&random) % bytes.len;
            uint8_t was = bytes.ptr[at];

            read_all(fg_bytes(bytes.ptr, at), &columns);
            bytes.ptr[at] = (uint8_t)next_random(&random);
            read_all(fg_buf_slice(&bytes), &columns);
            bytes.ptr[at] = was;
        }
        fg_buf_done(&bytes);
    }
    ing_record_columns_done(&columns);
}

/* Cut anywhere, the whole of a record is never read as if it were there. */
static void truncated_record_is_corrupt(void **state)
{
    static struct made made;
    struct ing_record_columns columns = {0};
    struct fg_buf bytes;

    (void)state;
    make(&made, 2);
    fg_buf_init(&bytes, SIZE_MAX);
    encode(&made, 1, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        struct ing_record record;
        struct fg_err err;

        if (ing_record_open(fg_bytes(bytes.ptr, len), &record, &err) == FG_OK)
            assert_int_equal(ing_record_read(&record, 0, true, &columns, &err), FG_E_CORRUPT);
        else
            assert_int_equal(err.code, FG_E_CORRUPT);
    }
    ing_record_columns_done(&columns);
    fg_buf_done(&bytes);
}

/* However short: it has all totals, or says that it does not. */
static void the_front_of_a_record_has_its_totals(void **state)
{
    static struct made made;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct ing_record record, front;
        struct fg_buf bytes;
        struct fg_err err;
        bool fits = false;

        make(&made, seed);
        fg_buf_init(&bytes, SIZE_MAX);
        encode(&made, 7, &bytes);
        assert_int_equal(ing_record_open(fg_buf_slice(&bytes), &record, &err), FG_OK);
        for (size_t len = 0; len <= bytes.len; len++) {
            bool before = fits;

            fits = ing_record_open_front(fg_bytes(bytes.ptr, len), &front);
            assert_true(fits || !before);
            for (uint32_t type = 0; fits && type < made.n_types; type++) {
                uint64_t got, want;

                assert_int_equal(ing_record_total(&front, type, &got, &err), FG_OK);
                assert_int_equal(ing_record_total(&record, type, &want, &err), FG_OK);
                assert_int_equal(got, want);
            }
        }
        assert_true(fits);
        fg_buf_done(&bytes);
    }
}

/* Programs of before stored no sizes, and those that have them say the same otherwise. */
static void the_size_is_at_the_end(void **state)
{
    static struct made made;
    struct fg_buf without, with;

    (void)state;
    make(&made, 2);
    fg_buf_init(&without, SIZE_MAX);
    fg_buf_init(&with, SIZE_MAX);
    encode(&made, 1, &without);
    made.profile.size = (struct fg_profile_size){true, 300, 70000};
    encode(&made, 1, &with);
    assert_int_equal(with.len, without.len + 2 + 3);
    assert_memory_equal(with.ptr, without.ptr, without.len);
    fg_buf_done(&with);
    fg_buf_done(&without);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_round_trip_keeps_the_profile),
        cmocka_unit_test(sorting_equals_the_slow_model),
        cmocka_unit_test(columns_are_small),
        cmocka_unit_test(the_front_of_a_record_has_its_totals),
        cmocka_unit_test(the_size_is_at_the_end),
        cmocka_unit_test(damaged_records_are_errors),
        cmocka_unit_test(truncated_record_is_corrupt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
