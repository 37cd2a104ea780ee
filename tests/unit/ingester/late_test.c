/* Lookups of late profiles: what agents send does not wait for what another server forwards. */
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_gate.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { FORWARDED = 4, LIVE = 4 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

struct fixture {
    struct fg_store *store;
    struct fg_bucket *memory;
    struct bucket_gate gate;
    struct head head;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned answers;
};

struct in_flight {
    struct head_call call;
    struct fg_buf batch;
    struct fixture *fixture;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->store = fg_store_memory(HEAD_FAMILIES);
    f->memory = fg_bucket_memory();
    bucket_gate_init(&f->gate, f->memory);
    head_open_evicting(&f->head, f->store, &f->gate.bucket, 0);
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->moved, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    bucket_gate_open(&f->gate); /* the test may have failed before */
    head_close(&f->head);
    bucket_gate_done(&f->gate);
    fg_bucket_close(f->memory);
    fg_store_close(f->store);
    (void)pthread_cond_destroy(&f->moved);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
    return 0;
}

/* A profile of a window that is in a segment once `at` 0 has been committed. */
static struct head_profile profile_of(const char *tenant, unsigned at)
{
    static const struct head_sample sample[] = {{"shop;buy", {1, 10}, 0}};

    return (struct head_profile){.tenant = tenant,
                                 .service = "shop",
                                 .time_ns = start_ns + at,
                                 .samples = sample,
                                 .n_samples = FG_COUNT(sample)};
}

static void stored(struct fixture *f, const char *tenant, unsigned at)
{
    const struct head_profile profile = profile_of(tenant, at);
    struct head_pushed pushed = head_push(&f->head, &profile, true);

    assert_int_equal(pushed.code, FG_OK);
    assert_int_equal(pushed.stored, 1);
}

/* Commits, and waits until the head has nothing of the tenant: then its window is late. */
static void commit(struct fixture *f, const char *tenant)
{
    const struct head_query old = {
        .tenant = tenant, .type = "cpu:nanoseconds", .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fg_buf text;
    struct fg_err err;

    if (ing_flush(f->head.ingester, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS, &err) != FG_OK)
        fail_msg("%s", err.msg);
    fg_buf_init(&text, SIZE_MAX);
    while (head_select(&f->head, &old, &text) != FG_E_PRECONDITION)
        usleep(10000);
    fg_buf_done(&text);
}

static void on_answer(struct fg_call *call)
{
    struct fixture *f = fg_container(call, struct in_flight, call.call)->fixture;

    (void)pthread_mutex_lock(&f->lock);
    f->answers++;
    (void)pthread_cond_broadcast(&f->moved);
    (void)pthread_mutex_unlock(&f->lock);
}

static unsigned answers(struct fixture *f, unsigned at_least)
{
    unsigned n;

    (void)pthread_mutex_lock(&f->lock);
    while (f->answers < at_least)
        (void)pthread_cond_wait(&f->moved, &f->lock);
    n = f->answers;
    (void)pthread_mutex_unlock(&f->lock);
    return n;
}

static void forward(struct fixture *f, struct in_flight *flight, unsigned at)
{
    struct head_profile profile = profile_of("node", at);

    profile.via = FG_LIT("sixteen bytes...");
    flight->fixture = f;
    fg_buf_init(&flight->batch, SIZE_MAX);
    (void)head_encode(&profile, true, 1, &flight->batch);
    head_call_push(&flight->call, &profile, fg_buf_slice(&flight->batch));
    flight->call.call.done = on_answer;
    fg_peer_send(f->head.peer, &flight->call.call);
}

/* A lookup does not end, and others of what is forwarded wait behind it. */
static void late_profiles_of_agents_do_not_wait_for_forwarded_ones(void **state)
{
    struct fixture *f = *state;
    struct in_flight flights[FORWARDED];

    stored(f, "node", 0);
    stored(f, "agents", 0);
    commit(f, "node");
    commit(f, "agents");
    bucket_gate_shut(&f->gate, FG_BUCKET_GET, "tenants/node/");
    for (unsigned i = 0; i < FORWARDED; i++)
        forward(f, &flights[i], 1 + i);
    bucket_gate_await(&f->gate);
    for (unsigned i = 0; i < LIVE; i++)
        stored(f, "agents", 1 + i);
    assert_int_equal(answers(f, 0), 0);
    bucket_gate_open(&f->gate);
    (void)answers(f, FORWARDED);
    for (unsigned i = 0; i < FORWARDED; i++) {
        struct head_pushed pushed = head_call_done(f->head.peer, &flights[i].call);

        fg_buf_done(&flights[i].batch);
        assert_int_equal(pushed.code, FG_OK);
        assert_int_equal(pushed.stored, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(late_profiles_of_agents_do_not_wait_for_forwarded_ones,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
