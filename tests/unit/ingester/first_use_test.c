/* A bucket that was used, and lost an object that says so. */
#include "common/cluster/manifest/l0.h"
#include "common/cluster/ring/object.h"
#include "ingester/first_use.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_hold.h"
#include "tests/lib/l0_make.h"
#include "tests/lib/ring_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void put(struct fg_bucket *bucket, const char *name, struct fg_slice content)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    assert_int_equal(fg_bucket_call(bucket, &put), FG_OK);
    fg_bucket_clear(&put);
}

static void put_segment(struct fg_bucket *bucket)
{
    const struct fg_segment_id id = {{1, 2}, 3, 4};
    char name[FG_NAME_MAX_BYTES];

    fg_name_segment(name, &id);
    put(bucket, name, FG_LIT("segment"));
}

static void put_block(struct fg_bucket *bucket)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    assert_int_equal(fg_name_block(name, FG_LIT("a"), (struct fg_id){5, 6}, &err), FG_OK);
    put(bucket, name, FG_LIT("block"));
}

static void put_strange(struct fg_bucket *bucket)
{
    put(bucket, "tenants/notes.txt", FG_LIT("not ours"));
}

/* A ring into which something was drained. */
static void put_drained_ring(struct fg_bucket *bucket)
{
    struct fg_ring ring = fg_ring_none();
    struct fg_buf bytes;
    struct fg_err err;

    ring.swaps = 9;
    ring.generation = 7;
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    assert_int_equal(fg_ring_encode(&ring, &bytes, &err), FG_OK);
    put(bucket, FG_RING_NAME, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

static void put_young_ring(struct fg_bucket *bucket)
{
    struct fg_bucket_wave *wave = fg_bucket_wave_create();
    const struct fg_ring_object object = {
        .bucket = bucket, .wave = wave, .clock = fg_clock_real(), .timeout_ns = FG_MINUTE_NS};
    struct fg_ring_change join = ring_make_join("ann", "", 1);
    struct fg_ring_view *view = NULL;
    struct fg_err err;

    assert_int_equal(fg_ring_object_change(&object, &join, &view, &err), FG_OK);
    fg_ring_view_unref(view);
    fg_bucket_wave_destroy(wave);
}

/* With a writer in it. */
static void put_used_l0(struct fg_bucket *bucket)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_l0_new_part part = {.tenant = FG_LIT("t"), .profiles = 1};
    struct fg_late_filter_run run = {1000, 2, 2};
    const struct fg_l0_new new = {
        .id = {{1, 2}, 1, 1},
        .profiles = 1,
        .parts = &part,
        .n_parts = 1,
        .groups = {.above = FG_LATE_FILTER_ABOVE_NONE, .runs = &run, .n_runs = 1}};
    struct fg_l0 l0 = fg_l0_none();
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    assert_int_equal(fg_l0_commit(&l0, &new, 0, 1000, arena, &l0, &err), FG_OK);
    assert_int_equal(fg_l0_encode(&l0, &bytes, &err), FG_OK);
    put(bucket, FG_NAME_L0, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

static void put_damaged_l0(struct fg_bucket *bucket)
{
    put(bucket, FG_NAME_L0, FG_LIT("no manifest"));
}

static void put_damaged_ring(struct fg_bucket *bucket)
{
    put(bucket, FG_RING_NAME, FG_LIT("no ring"));
}

static void nothing(struct fg_bucket *bucket)
{
    (void)bucket;
}

static void only_an_unused_bucket_gets_manifest_and_ring(void **state)
{
    static const struct {
        const char *name;
        void (*put)(struct fg_bucket *bucket);
        uint64_t seen;
        enum fg_code l0, ring; /* of the one that is missing */
    } cases[] = {
        {"nothing", nothing, 0, FG_OK, FG_OK},
        {"something strange", put_strange, 0, FG_OK, FG_OK},
        {"a ring that others have made just now", put_young_ring, 0, FG_OK, FG_OK},
        {"an L0 manifest that others have made just now", l0_make, 0, FG_OK, FG_OK},
        {"a store that saw a manifest", nothing, 5, FG_E_CORRUPT, FG_OK},
        {"a segment", put_segment, 0, FG_E_CORRUPT, FG_E_CORRUPT},
        {"a block", put_block, 0, FG_E_CORRUPT, FG_E_CORRUPT},
        {"a ring that something was drained under", put_drained_ring, 0, FG_E_CORRUPT, FG_OK},
        {"an L0 manifest with writers", put_used_l0, 0, FG_OK, FG_E_CORRUPT},
        {"an L0 manifest that cannot be read", put_damaged_l0, 0, FG_OK, FG_E_CORRUPT},
        {"a ring that cannot be read", put_damaged_ring, 0, FG_E_CORRUPT, FG_OK},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_bucket) *bucket = fg_bucket_memory();
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        cases[i].put(bucket);
        assert_int_equal(ing_first_use_check_l0(bucket, fg_clock_real(), cases[i].seen, NULL, &err),
                         cases[i].l0);
        assert_int_equal(ing_first_use_check_ring(bucket, fg_clock_real(), NULL, &err),
                         cases[i].ring);
    }
}

static void unreachable_bucket_does_not_count_as_unused(void **state)
{
    static const struct fg_bucket_faults away = {.seed = 1, .refuse_permille = 1000};
    fg_auto(fg_bucket) *memory = fg_bucket_memory();
    struct fg_bucket_faulty *faulty = fg_bucket_faulty_create(memory, &away);
    fg_auto(fg_bucket) *bucket = fg_bucket_faulty_bucket(faulty);
    struct fg_err err;

    (void)state;
    assert_int_equal(ing_first_use_check_l0(bucket, fg_clock_real(), 0, NULL, &err),
                     FG_E_UNAVAILABLE);
    assert_int_equal(ing_first_use_check_ring(bucket, fg_clock_real(), NULL, &err),
                     FG_E_UNAVAILABLE);
}

struct check {
    struct bucket_hold hold;
    struct fg_bucket_stop *stop;
    bool ring;
    enum fg_code code;
};

static void *run_check(void *arg)
{
    struct check *check = arg;
    struct fg_err err;

    check->code =
        check->ring
            ? ing_first_use_check_ring(&check->hold.bucket, fg_clock_real(), check->stop, &err)
            : ing_first_use_check_l0(&check->hold.bucket, fg_clock_real(), 0, check->stop, &err);
    return NULL;
}

static void stop_does_not_wait_for_the_bucket(void **state)
{
    static const struct {
        bool ring;
        enum fg_bucket_verb verb;
        const char *prefix;
    } cases[] = {
        {false, FG_BUCKET_GET, FG_RING_NAME},      {false, FG_BUCKET_LIST, FG_NAME_TENANTS},
        {false, FG_BUCKET_LIST, FG_NAME_SEGMENTS}, {true, FG_BUCKET_GET, FG_NAME_L0},
        {true, FG_BUCKET_LIST, FG_NAME_TENANTS},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_bucket) *memory = fg_bucket_memory();
        struct check check = {.ring = cases[i].ring};
        pthread_t thread;

        bucket_hold_init(&check.hold, memory);
        check.stop = fg_bucket_stop_create();
        bucket_hold_next(&check.hold, cases[i].verb, cases[i].prefix);
        assert_int_equal(pthread_create(&thread, NULL, run_check, &check), 0);
        bucket_hold_await(&check.hold);
        fg_bucket_stop_all(check.stop);
        assert_true(bucket_hold_await_cancel(&check.hold));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(check.code, FG_E_CANCELED);
        fg_bucket_stop_destroy(check.stop);
        bucket_hold_done(&check.hold);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_an_unused_bucket_gets_manifest_and_ring),
        cmocka_unit_test(stop_does_not_wait_for_the_bucket),
        cmocka_unit_test(unreachable_bucket_does_not_count_as_unused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
