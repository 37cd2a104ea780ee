/* Series of pods that end are retired once their profiles are in segments and evicted: through a
 * whole ingester, with restarts, queries in between and failing writes. */
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PODS_AT_A_TIME = 48, TIMES = 45, PATIENCE = 6000 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;
static const char cpu[] = "cpu:nanoseconds";
static const char *const zone_names[] = {"zone"};

struct fixture {
    struct fg_store *store;
    struct fg_bucket *bucket;
    struct head head;
    struct fg_buf text;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->store = fg_store_memory(HEAD_FAMILIES);
    f->bucket = fg_bucket_memory();
    fg_buf_init(&f->text, SIZE_MAX);
    head_open_evicting(&f->head, f->store, f->bucket, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    head_close(&f->head);
    fg_buf_done(&f->text);
    fg_bucket_close(f->bucket);
    fg_store_close(f->store);
    free(f);
    return 0;
}

static void restart(struct fixture *f)
{
    head_close(&f->head);
    head_open_evicting(&f->head, f->store, f->bucket, 0);
}

static const struct head_sample sample[] = {{"main;work", {1, 10}, 0}};

static struct head_profile profile_of(const char *pod, int64_t time_ns)
{
    return (struct head_profile){.tenant = "tenant",
                                 .service = "shop",
                                 .zone = pod,
                                 .time_ns = time_ns,
                                 .duration_ns = 10 * FG_SECOND_NS,
                                 .samples = sample,
                                 .n_samples = 1};
}

/* The agent repeats failed pushes. */
static struct head_pushed push(struct head *head, const char *pod, int64_t time_ns)
{
    const struct head_profile profile = profile_of(pod, time_ns);
    struct head_pushed pushed;

    for (int tries = 0; tries < 5; tries++) {
        pushed = head_push(head, &profile, true);
        if (pushed.code == FG_OK && pushed.n_undefined == 0)
            break;
    }
    return pushed;
}

static void push_new(struct fixture *f, const char *pod, int64_t time_ns)
{
    struct head_pushed pushed = push(&f->head, pod, time_ns);

    assert_int_equal(pushed.code, FG_OK);
    assert_int_equal(pushed.stored, 1);
}

/* Commits everything; and each time the head takes a few more steps. */
static void flush(struct fixture *f)
{
    struct fg_err err;

    if (ing_flush(f->head.ingester, fg_mono_ns(fg_clock_real()) + 60 * FG_SECOND_NS, &err) != FG_OK)
        fail_msg("%s", err.msg);
}

static size_t count_keys(struct fg_store *store, unsigned family)
{
    struct fg_store_iter *iter = fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""));
    size_t count = 0;

    for (; iter->valid; fg_store_iter_next(iter))
        count++;
    fg_store_iter_destroy(iter);
    return count;
}

static void wait_for_series(struct fixture *f, size_t count)
{
    for (int i = 0; count_keys(f->store, HEAD_SERIES) != count; i++) {
        if (i == PATIENCE)
            fail_msg("%zu series", count_keys(f->store, HEAD_SERIES));
        flush(f);
        (void)usleep(1000); /* so that the next flush is another one */
    }
}

static uint64_t generation(struct fixture *f)
{
    return committed_read(f->bucket, "tenant", cpu, &f->text).generation;
}

/* Pods that are listed, in one line. */
static void list(struct fixture *f, int64_t from_ns, int64_t to_ns, const char *want)
{
    const struct head_query query = {
        .tenant = "tenant", .start_ns = from_ns, .end_ns = to_ns, .generation = generation(f)};

    assert_int_equal(head_series(&f->head, &query, zone_names, FG_COUNT(zone_names), &f->text),
                     FG_OK);
    for (size_t i = 0; i < f->text.len; i++)
        if (f->text.ptr[i] == '\n')
            f->text.ptr[i] = ' ';
    if (!fg_slice_is(fg_buf_slice(&f->text), want))
        fail_msg("%.*s is not %s", FG_S(fg_buf_slice(&f->text)), want);
}

static void series_of_short_pods_are_retired(void **state)
{
    struct fixture *f = *state;
    struct committed committed;
    char pod[32];

    for (int t = 0; t < TIMES; t++) {
        for (int i = 0; i < PODS_AT_A_TIME; i++) {
            (void)snprintf(pod, sizeof pod, "pod-%d-%d", t, i);
            push_new(f, pod, start_ns + t * FG_MINUTE_NS);
        }
        push_new(f, "stays", start_ns + t * FG_MINUTE_NS);
        /* The limit of the tenant is on those that are there. */
        assert_in_range(count_keys(f->store, HEAD_SERIES), PODS_AT_A_TIME + 1, HEAD_SERIES_MAX);
        if (t % 10 == 9)
            restart(f);
        wait_for_series(f, 0);
        list(f, INT64_MIN, INT64_MAX, "");
    }
    committed = committed_read(f->bucket, "tenant", cpu, &f->text);
    assert_int_equal(committed.n_profiles, TIMES * (PODS_AT_A_TIME + 1));
    assert_int_equal(count_keys(f->store, HEAD_PROFILES), 0);
    assert_true(count_keys(f->store, HEAD_META) < 16);
}

static void retired_series_are_listed_for_their_time(void **state)
{
    struct fixture *f = *state;
    int64_t later_ns = start_ns + 2 * FG_MINUTE_NS;

    push_new(f, "a", start_ns);
    push_new(f, "b", start_ns);
    push_new(f, "b", later_ns);
    push_new(f, "c", later_ns);
    list(f, start_ns, later_ns, "{zone=\"a\"} {zone=\"b\"} {zone=\"c\"} ");
    list(f, start_ns, later_ns - 1, "{zone=\"a\"} {zone=\"b\"} ");
    list(f, start_ns + 1, later_ns, "{zone=\"b\"} {zone=\"c\"} ");
    list(f, later_ns + 1, INT64_MAX, "");
    restart(f);
    list(f, start_ns, later_ns, "{zone=\"a\"} {zone=\"b\"} {zone=\"c\"} ");
    wait_for_series(f, 0);
    list(f, start_ns, later_ns, "");
    /* One that comes back is new. */
    push_new(f, "a", later_ns);
    list(f, INT64_MIN, INT64_MAX, "{zone=\"a\"} ");
    restart(f);
    list(f, INT64_MIN, INT64_MAX, "{zone=\"a\"} ");
    /* Its profile of the first time is in a block: a series without profiles, which leaves again.
     */
    wait_for_series(f, 0);
    assert_int_equal(push(&f->head, "a", start_ns).duplicates, 1);
    list(f, INT64_MIN, INT64_MAX, "");
    wait_for_series(f, 0);
}

/* After a restart, whose first write proves that it can, the k-th write fails; 0: none. */
static void restart_failing(struct fixture *f, struct fg_store_faulty *faulty, uint64_t k)
{
    head_close(&f->head);
    faulty->writes = 0;
    faulty->fail_at = k == 0 ? 0 : k + 1;
    head_open_evicting(&f->head, f->store, f->bucket, 0);
}

static void live_with_failures(struct fixture *f, struct fg_store_faulty *faulty, uint64_t k)
{
    for (int life = 0; life < 2; life++) {
        restart_failing(f, faulty, k);
        assert_int_equal(push(&f->head, "a", start_ns + life).code, FG_OK);
        assert_int_equal(push(&f->head, "b", start_ns + life).code, FG_OK);
        flush(f);
        wait_for_series(f, 0);
    }
    restart_failing(f, faulty, 0);
    wait_for_series(f, 0);
    assert_int_equal(committed_read(f->bucket, "tenant", cpu, &f->text).n_profiles, 4);
}

/* Any write fails, or is done and said to have failed. */
static void retirement_survives_failed_writes(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= 8; k++)
        for (int late = 0; late < 2; late++) {
            struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
            struct fg_store_faulty faulty;
            struct fixture f = {.store = &faulty.store, .bucket = fg_bucket_memory()};

            fg_store_faulty_init(&faulty, inner);
            faulty.fail_late = late == 1;
            fg_buf_init(&f.text, SIZE_MAX);
            head_open_evicting(&f.head, f.store, f.bucket, 0);
            live_with_failures(&f, &faulty, k);
            head_close(&f.head);
            fg_buf_done(&f.text);
            fg_bucket_close(f.bucket);
            fg_store_close(inner);
        }
}

/* ---- threads ---- */

enum { PUSHERS = 3, PUSHES = 150, PODS = 12 };

struct pusher {
    struct head *head;
    int number;
    unsigned stored;
};

static void *push_many(void *arg)
{
    struct pusher *pusher = arg;

    for (int i = 0; i < PUSHES; i++) {
        char pod[16];

        /* Pods rest for a while and come back. */
        (void)snprintf(pod, sizeof pod, "%d", (i / 5 + pusher->number) % PODS);
        pusher->stored +=
            push(pusher->head, pod, start_ns + i * FG_SECOND_NS + pusher->number).stored;
    }
    return NULL;
}

static void *query_many(void *arg)
{
    struct fixture *f = arg;
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    for (int i = 0; i < PUSHES; i++) {
        const struct head_query query = {.tenant = "tenant",
                                         .type = cpu,
                                         .start_ns = INT64_MIN,
                                         .end_ns = INT64_MAX,
                                         .generation = 0};

        /* Nothing is left at generation 0, but chunks that were chosen before are read. */
        (void)head_select(&f->head, &query, &text);
        (void)head_series(&f->head, &query, zone_names, FG_COUNT(zone_names), &text);
    }
    fg_buf_done(&text);
    return NULL;
}

/* A push may have found its series at any moment of a sweep. */
static void push_never_loses_its_series_to_retirement(void **state)
{
    struct fixture *f = *state;
    struct pusher pushers[PUSHERS];
    pthread_t threads[PUSHERS], reader;
    struct committed committed;
    unsigned stored = 0;

    for (int i = 0; i < PUSHERS; i++) {
        pushers[i] = (struct pusher){&f->head, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, push_many, &pushers[i]), 0);
    }
    assert_int_equal(pthread_create(&reader, NULL, query_many, f), 0);
    for (int i = 0; i < 40; i++)
        flush(f);
    for (int i = 0; i < PUSHERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        stored += pushers[i].stored;
    }
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_int_equal(stored, PUSHERS * PUSHES);
    restart(f); /* what it reads back needs all definitions */
    wait_for_series(f, 0);
    committed = committed_read(f->bucket, "tenant", cpu, &f->text);
    assert_int_equal(committed.n_profiles, PUSHERS * PUSHES);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(series_of_short_pods_are_retired),
        TEST(retired_series_are_listed_for_their_time),
        TEST(retirement_survives_failed_writes),
        TEST(push_never_loses_its_series_to_retirement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
