/* An ingester whose store takes no writes: pushes are refused and queries answered. Once the store
 * can be written to, pushes are taken within seconds without help. */
#include "common/cluster/manifest/name.h"
#include "ingester/intake.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_gate.h"
#include "tests/lib/bucket_hold.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 20 * 1000 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

/* A head over a store that a test can make fail. */
struct fixture {
    struct fg_store *inner;
    struct fg_store_faulty faulty;
    struct head head;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->inner = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->inner);
    head_open(&f->head, &f->faulty.store);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    head_close(&f->head);
    fg_store_close(f->inner);
    free(f);
    return 0;
}

static struct head_profile profile_of(unsigned n)
{
    static const struct head_sample samples[] = {{"a;b", {1, 10}, 0}};

    return (struct head_profile){.tenant = "tenant",
                                 .service = "shop",
                                 .time_ns = start_ns + n * FG_SECOND_NS,
                                 .samples = samples,
                                 .n_samples = 1};
}

static enum fg_code push(struct head *head, unsigned n)
{
    struct head_profile profile = profile_of(n);

    return head_push(head, &profile, true).code;
}

static uint64_t stored(struct head *head)
{
    return head_stats(head, "tenant").profiles;
}

/* What /ready says; "" when pushes are taken. */
static void expect_ready(struct head *head, const char *said)
{
    struct fg_buf why;
    bool refuses;

    fg_buf_init(&why, 4096);
    refuses = ing_refuses(head->ingester, &why);
    fg_buf_putc(&why, '\0');
    assert_int_equal(refuses, said[0] != '\0');
    if (strstr((char *)why.ptr, said) == NULL)
        fail_msg("\"%s\" is not in: %s", said, (char *)why.ptr);
    fg_buf_done(&why);
}

static uint64_t metric(struct head *head, const char *name)
{
    struct fg_buf text;
    uint64_t value = UINT64_MAX;
    const char *at;

    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(head->registry, &text);
    fg_buf_putc(&text, '\0');
    at = strstr((char *)text.ptr, name);
    if (at != NULL)
        value = strtoull(at + strlen(name), NULL, 10);
    fg_buf_done(&text);
    return value;
}

static void wait_until_taken(struct head *head)
{
    struct fg_buf why;
    bool refuses = true;

    fg_buf_init(&why, 4096);
    for (unsigned ms = 0; refuses && ms < PATIENCE_MS; ms += 10) {
        (void)usleep(10 * 1000);
        fg_buf_clear(&why);
        refuses = ing_refuses(head->ingester, &why);
    }
    fg_buf_done(&why);
    assert_false(refuses);
}

static void failing_store_refuses_pushes_until_healed(void **state)
{
    struct fixture *f = *state;
    struct head *head = &f->head;

    assert_int_equal(push(head, 0), FG_OK);
    expect_ready(head, "");
    assert_int_equal(metric(head, "\nflamegrid_ingester_takes_pushes "), 1);

    atomic_store(&f->faulty.full, true);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(push(head, 1), FG_E_UNAVAILABLE);
    assert_int_equal(stored(head), 1); /* questions are answered */
    expect_ready(head, "a write failed: write: no room");
    assert_int_equal(metric(head, "\nflamegrid_ingester_takes_pushes "), 0);
    /* The first was found out by writing. */
    assert_int_equal(metric(head, "pushes_refused_total{reason=\"write_failed\"} "), 4);

    atomic_store(&f->faulty.full, false); /* and nobody pushes */
    wait_until_taken(head);
    expect_ready(head, "");
    assert_int_equal(atomic_load(&f->faulty.healed), 2); /* once at the start */
    assert_int_equal(push(head, 1), FG_OK);
    assert_int_equal(stored(head), 2);
    head_close(head);
    head_open(head, f->inner);
    assert_int_equal(stored(head), 2);
}

/* One write fails and the next would not: only that push fails. */
static void short_fault_refuses_one_push_only(void **state)
{
    struct fixture *f = *state;
    struct head *head = &f->head;

    f->faulty.writes = 0;
    f->faulty.fail_at = 1;
    assert_int_equal(push(head, 0), FG_E_UNAVAILABLE);
    assert_int_equal(push(head, 0), FG_OK);
    assert_int_equal(stored(head), 1);
}

static void start_without_writes_answers_queries(void **state)
{
    struct fixture *f = *state;
    struct head *head = &f->head;

    assert_int_equal(push(head, 0), FG_OK);
    head_close(head);

    atomic_store(&f->faulty.full, true);
    head_open(head, &f->faulty.store);
    assert_int_equal(stored(head), 1);
    assert_int_equal(push(head, 1), FG_E_UNAVAILABLE);
    expect_ready(head, "pushes are refused, queries are answered");
    atomic_store(&f->faulty.full, false);
    wait_until_taken(head);
    assert_int_equal(push(head, 1), FG_OK);
    assert_int_equal(stored(head), 2);
}

/* The store could still be written to; the room is for what is under way. */
static void disk_below_its_reserve_refuses_pushes(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_disk *full, *roomy;
    struct ing_damage damage = {0};
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_head_writer *writer;
    struct ing_intake *intake;
    struct fg_buf why;
    struct fg_err err;

    (void)state;
    assert_int_equal(
        ing_catalog_open(store, &(struct ing_catalog_bounds){1 << 20, 0}, &damage, &catalog, &err),
        FG_OK);
    assert_int_equal(ing_head_chunks_open(store, catalog, 1 << 20, &damage, &chunks, &err), FG_OK);
    writer =
        ing_head_writer_create(&(struct ing_head_writer_config){store, chunks, NULL, registry});
    assert_int_equal(fg_disk_watch(&(struct fg_disk_config){.path = "/tmp",
                                                            .role = "full",
                                                            .reserve_bytes = UINT64_C(1) << 60},
                                   &full, &err),
                     FG_OK);
    assert_int_equal(
        fg_disk_watch(&(struct fg_disk_config){.path = "/tmp", .role = "roomy", .reserve_bytes = 1},
                      &roomy, &err),
        FG_OK);
    intake = ing_intake_create(&(struct ing_intake_config){writer, full, registry});
    fg_buf_init(&why, 4096);
    assert_int_equal(ing_intake_admits(intake, &err), FG_E_UNAVAILABLE);
    assert_string_equal(err.msg, "the disk of the ingester is full, try again later");
    assert_true(ing_intake_refuses(intake, &why));
    fg_buf_putc(&why, '\0');
    assert_non_null(strstr((char *)why.ptr, "disk full: "));
    fg_buf_done(&why);
    ing_intake_destroy(intake);

    intake = ing_intake_create(&(struct ing_intake_config){writer, roomy, registry});
    assert_int_equal(ing_intake_admits(intake, &err), FG_OK);
    ing_intake_destroy(intake);
    fg_disk_unwatch(full);
    fg_disk_unwatch(roomy);
    ing_head_writer_destroy(writer);
    ing_head_chunks_close(chunks);
    ing_catalog_close(catalog);
    fg_registry_destroy(registry);
    fg_store_close(store);
}

/* ---- on the way into a segment ---- */

static uint64_t shown(struct head *head, uint64_t generation)
{
    struct head_query query = {.tenant = "tenant",
                               .type = "cpu:nanoseconds",
                               .start_ns = INT64_MIN,
                               .end_ns = INT64_MAX,
                               .generation = generation};
    struct fg_buf lines;
    uint64_t n;

    fg_buf_init(&lines, SIZE_MAX);
    assert_int_equal(head_select(head, &query, &lines), FG_OK);
    n = lines.len;
    fg_buf_done(&lines);
    return n;
}

static void *flush(void *arg)
{
    struct head *head = arg;
    struct fg_err err;

    assert_int_equal(
        ing_flush(head->ingester, fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS, &err), FG_OK);
    return NULL;
}

/* The disk becomes full when the segment has just entered the manifest: the store cannot mark its
 * chunks committed. A query that knows the segment does not get them from the head as well. */
static void committed_chunk_that_cannot_be_marked_is_shown_once(void **state)
{
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    struct fg_store_faulty faulty;
    struct bucket_gate gate;
    struct committed committed;
    struct fg_buf lines;
    struct head head;
    pthread_t flusher;

    (void)state;
    fg_buf_init(&lines, SIZE_MAX);
    fg_store_faulty_init(&faulty, inner);
    bucket_gate_init(&gate, bucket);
    head_open_evicting(&head, &faulty.store, &gate.bucket, FG_HOUR_NS);
    assert_int_equal(push(&head, 0), FG_OK);
    bucket_gate_shut(&gate, FG_BUCKET_PUT, FG_NAME_L0);
    assert_int_equal(pthread_create(&flusher, NULL, flush, &head), 0);
    bucket_gate_await(&gate);
    atomic_store(&faulty.full, true);
    bucket_gate_open(&gate);
    do {
        (void)usleep(1000);
        committed = committed_read(bucket, "tenant", "cpu:nanoseconds", &lines);
    } while (committed.n_profiles == 0);
    assert_int_equal(shown(&head, committed.generation), 0);
    assert_true(shown(&head, committed.generation - 1) > 0);
    assert_int_equal(push(&head, 1), FG_E_UNAVAILABLE);

    atomic_store(&faulty.full, false);
    assert_int_equal(pthread_join(flusher, NULL), 0);
    assert_int_equal(shown(&head, committed.generation), 0);
    head_close(&head);
    head_open_evicting(&head, inner, bucket, FG_HOUR_NS);
    assert_int_equal(shown(&head, committed.generation), 0);
    head_close(&head);
    bucket_gate_done(&gate);
    fg_buf_done(&lines);
    fg_bucket_close(bucket);
    fg_store_close(inner);
}

static void *push_late(void *arg)
{
    assert_int_equal(push(arg, 1), FG_OK);
    return NULL;
}

/* The bucket has not answered whether it has a late profile: the profile is taken unchecked. */
static void stop_does_not_wait_for_a_lookup(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_bucket *bucket = fg_bucket_memory();
    struct bucket_hold hold;
    struct fg_buf lines;
    struct head head;
    pthread_t pusher;

    (void)state;
    fg_buf_init(&lines, SIZE_MAX);
    bucket_hold_init(&hold, bucket);
    head_open_evicting(&head, store, &hold.bucket, FG_HOUR_NS);
    assert_int_equal(push(&head, 0), FG_OK);
    (void)flush(&head);
    head_close(&head);
    fg_store_close(store);
    store = fg_store_memory(HEAD_FAMILIES); /* another ingester, which has nothing of the group */
    head_open_evicting(&head, store, &hold.bucket, FG_HOUR_NS);
    (void)flush(&head); /* it has read the manifest */
    bucket_hold_next(&hold, FG_BUCKET_GET, "segments/");
    assert_int_equal(pthread_create(&pusher, NULL, push_late, &head), 0);
    bucket_hold_await(&hold);
    ing_hurry(head.ingester);
    assert_true(bucket_hold_await_cancel(&hold));
    assert_int_equal(pthread_join(pusher, NULL), 0);
    head_close(&head);
    head_open_evicting(&head, store, bucket, FG_HOUR_NS);
    (void)flush(&head); /* it is compared and committed now */
    assert_int_equal(committed_read(bucket, "tenant", "cpu:nanoseconds", &lines).n_profiles, 2);
    head_close(&head);
    bucket_hold_done(&hold);
    fg_buf_done(&lines);
    fg_bucket_close(bucket);
    fg_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(failing_store_refuses_pushes_until_healed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(short_fault_refuses_one_push_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(start_without_writes_answers_queries, set_up, tear_down),
        cmocka_unit_test(disk_below_its_reserve_refuses_pushes),
        cmocka_unit_test(stop_does_not_wait_for_a_lookup),
        cmocka_unit_test(committed_chunk_that_cannot_be_marked_is_shown_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
