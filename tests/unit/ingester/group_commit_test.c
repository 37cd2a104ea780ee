/* Group commits, through a whole ingester: every push answered OK is there after a restart, a
 * failed push is not counted, and a repeated one is stored once. Faults: the k-th write fails for k
 * = 1, 2, 3, ... until the scenario passes untouched. */
#include "ingester/group_commit.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PUSHES = 12, MINUTE = 60 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

/* The scenario's n-th push: services, zones and windows change, stacks come again and new. */
static struct head_profile profile_of(unsigned n)
{
    static const char *const stacks[] = {"a;b", "a;c", "a", "d;e;f", "", "a;b;g"};
    static struct head_sample samples[PUSHES][2];

    samples[n][0] = (struct head_sample){stacks[n % 6], {1, 10 + n}, 0};
    /* From the sixth on the second type has no value, or is new to the series. */
    samples[n][1] = (struct head_sample){stacks[(n * n + 1) % 6], {n % 3 != 0, n % 5}, 0};
    return (struct head_profile){
        .tenant = n % 4 == 3 ? "other" : "tenant",
        .service = n % 3 == 0 ? "shop" : "archive",
        .zone = n % 2 == 0 ? "n" : "s",
        .time_ns = start_ns + (int64_t)(n % 5) * 7 * MINUTE * FG_SECOND_NS + n,
        .samples = samples[n],
        .n_samples = 2,
    };
}

static const struct head_query everything = {
    .tenant = "tenant", .type = "cpu:nanoseconds", .start_ns = INT64_MIN, .end_ns = INT64_MAX};

/* Sum of all cpu values that the tenant's profiles have. */
static int64_t total(struct head *head, const char *tenant)
{
    struct head_query query = everything;
    struct fg_slice rest;
    struct fg_buf text;
    int64_t sum = 0;

    query.tenant = tenant;
    fg_buf_init(&text, SIZE_MAX);
    assert_int_equal(head_select(head, &query, &text), FG_OK);
    for (rest = fg_buf_slice(&text); rest.len > 0;) {
        size_t end = fg_slice_find(rest, '\n'), blank = end;
        int64_t value = 0;

        while (rest.ptr[blank - 1] != ' ')
            blank--;
        for (size_t i = blank; i < end; i++)
            value = value * 10 + (rest.ptr[i] - '0');
        sum += value;
        rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
    }
    fg_buf_done(&text);
    return sum;
}

static int64_t value_of(unsigned n)
{
    struct head_profile profile = profile_of(n);

    return profile.samples[0].values[1] + profile.samples[1].values[1];
}

/* Counts and sums are those of the pushes that are there. */
static void assert_there(struct head *head, const bool *there)
{
    static const char *const tenants[] = {"tenant", "other"};

    for (size_t t = 0; t < 2; t++) {
        uint64_t count = 0;
        int64_t sum = 0;

        for (unsigned n = 0; n < PUSHES; n++)
            if (there[n] && strcmp(profile_of(n).tenant, tenants[t]) == 0) {
                count++;
                sum += value_of(n);
            }
        assert_int_equal(head_stats(head, tenants[t]).profiles, count);
        assert_int_equal(total(head, tenants[t]), sum);
    }
}

/* Pushes all; there[n] says which were stored. Returns how many failed. */
static unsigned push_all(struct head *head, bool *there)
{
    unsigned failed = 0;

    for (unsigned n = 0; n < PUSHES; n++) {
        struct head_profile profile = profile_of(n);
        struct head_pushed pushed = head_push(head, &profile, true);

        if (pushed.code == FG_OK) {
            assert_int_equal(pushed.n_undefined, 0);
            assert_int_equal(pushed.stored + pushed.duplicates, 1);
            assert_int_equal(pushed.duplicates, there[n]);
            there[n] = true;
        } else {
            assert_int_equal(pushed.code, FG_E_UNAVAILABLE);
            failed++;
        }
    }
    return failed;
}

/* late: the write was done all the same, and the push is not repeated. What it left, profiles and
 * numbers of their chunks, is gone with the next write, and stays so. */
static void a_write_fails(bool late)
{
    uint64_t k;

    for (k = 1;; k++) {
        struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
        struct fg_store_faulty faulty;
        bool there[PUSHES] = {false};
        struct head head;
        unsigned failed;

        fg_store_faulty_init(&faulty, inner);
        faulty.fail_late = late;
        head_open(&head, &faulty.store);
        faulty.fail_at = k;
        faulty.writes = 0;
        failed = push_all(&head, there);
        assert_true(failed <= 1);
        assert_there(&head, there);
        head_close(&head);

        head_open(&head, inner); /* a restart */
        assert_there(&head, there);
        assert_int_equal(push_all(&head, there), 0); /* those that are there are duplicates */
        assert_there(&head, there);
        head_close(&head);
        head_open(&head, inner);
        assert_there(&head, there);
        head_close(&head);
        fg_store_close(inner);
        if (failed == 0)
            break;
    }
    assert_int_equal(k, PUSHES + 1);
}

static void failed_write_fails_only_its_own_push(void **state)
{
    (void)state;
    a_write_fails(false);
}

static void write_done_but_reported_failed_fails_only_its_push(void **state)
{
    (void)state;
    a_write_fails(true);
}

/* The same without a restart: failed pushes are repeated at once. */
static void profile_sent_twice_is_stored_once(void **state)
{
    uint64_t k;

    (void)state;
    for (k = 1;; k++) {
        struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
        struct fg_store_faulty faulty;
        bool there[PUSHES] = {false};
        struct head head;
        unsigned failed;

        fg_store_faulty_init(&faulty, inner);
        head_open(&head, &faulty.store);
        faulty.fail_at = k;
        faulty.writes = 0;
        failed = push_all(&head, there);
        assert_int_equal(push_all(&head, there), 0);
        assert_int_equal(push_all(&head, there), 0);
        assert_there(&head, there);
        head_close(&head);
        head_open(&head, inner);
        assert_there(&head, there);
        head_close(&head);
        fg_store_close(inner);
        if (failed == 0)
            break;
    }
    assert_int_equal(k, PUSHES + 1);
}

/* The write was done and reported as failed, so the push was not acknowledged. When it is repeated
 * it is answered OK, and its profiles are there once, at once and after a restart. */
static void write_done_but_reported_failed_is_stored_once(void **state)
{
    uint64_t k;

    (void)state;
    for (k = 1;; k++) {
        struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
        bool there[PUSHES] = {false};
        struct fg_store_faulty faulty;
        struct head head;
        unsigned failed = 0;

        fg_store_faulty_init(&faulty, inner);
        faulty.fail_late = true;
        head_open(&head, &faulty.store);
        faulty.fail_at = k;
        faulty.writes = 0;
        failed = push_all(&head, there);
        for (unsigned n = 0; n < PUSHES; n++) {
            struct head_profile profile = profile_of(n);
            struct head_pushed pushed = head_push(&head, &profile, true);

            assert_int_equal(pushed.code, FG_OK);
            assert_int_equal(pushed.stored + pushed.duplicates, 1);
            there[n] = true;
        }
        assert_there(&head, there);
        head_close(&head);
        head_open(&head, inner);
        assert_there(&head, there);
        head_close(&head);
        fg_store_close(inner);
        if (failed == 0)
            break;
    }
    assert_int_equal(k, PUSHES + 1);
}

static void unreadable_store_fails_only_the_push_that_reads_it(void **state)
{
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct fg_store_faulty faulty;
    bool there[PUSHES] = {false};
    struct head head;

    (void)state;
    fg_store_faulty_init(&faulty, inner);
    head_open(&head, &faulty.store);
    faulty.fail_reads = true;
    assert_int_equal(push_all(&head, there), PUSHES);
    faulty.fail_reads = false;
    assert_there(&head, there);
    assert_int_equal(push_all(&head, there), 0);
    assert_there(&head, there);
    head_close(&head);
    head_open(&head, inner);
    assert_there(&head, there);
    head_close(&head);
    fg_store_close(inner);
}

static void type_first_seen_in_a_failed_push_is_defined_later(void **state)
{
    static const struct head_sample first[] = {{"a", {1, 0}, 0}}, second[] = {{"b", {0, 5}, 0}},
                                    third[] = {{"c", {0, 7}, 0}};
    struct head_profile profile = {.tenant = "tenant",
                                   .service = "shop",
                                   .time_ns = start_ns,
                                   .samples = first,
                                   .n_samples = 1};
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct fg_store_faulty faulty;
    struct head head;

    (void)state;
    fg_store_faulty_init(&faulty, inner);
    head_open(&head, &faulty.store);
    assert_int_equal(head_push(&head, &profile, true).code, FG_OK);
    faulty.fail_at = 1;
    faulty.writes = 0;
    profile.samples = second;
    assert_int_equal(head_push(&head, &profile, true).code, FG_E_UNAVAILABLE);
    profile.samples = third;
    assert_int_equal(head_push(&head, &profile, true).code, FG_OK);
    assert_int_equal(total(&head, "tenant"), 7);
    head_close(&head);
    head_open(&head, inner);
    assert_int_equal(total(&head, "tenant"), 7);
    head_close(&head);
    fg_store_close(inner);
}

/* ---- many in one batch ---- */

/* A store whose writes wait until the gate opens. */
struct gate {
    struct fg_store store;
    struct fg_store *inner;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool closed;
    unsigned waiting, writes, fail_at;
};

static enum fg_code gate_write(struct fg_store *store, struct fg_store_batch *batch,
                               struct fg_err *err)
{
    struct gate *gate = fg_container(store, struct gate, store);
    bool fails;

    (void)pthread_mutex_lock(&gate->lock);
    gate->waiting++;
    (void)pthread_cond_broadcast(&gate->moved);
    while (gate->closed)
        (void)pthread_cond_wait(&gate->moved, &gate->lock);
    gate->waiting--;
    fails = ++gate->writes == gate->fail_at;
    (void)pthread_mutex_unlock(&gate->lock);
    return fails ? fg_fail(err, FG_E_UNAVAILABLE, "gate") : fg_store_write(gate->inner, batch, err);
}

static enum fg_code gate_heal(struct fg_store *store, struct fg_err *err)
{
    return fg_store_heal(fg_container(store, struct gate, store)->inner, err);
}

static enum fg_code gate_get(struct fg_store *store, unsigned family, struct fg_slice key,
                             struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    return fg_store_get(fg_container(store, struct gate, store)->inner, family, key, out, ret_found,
                        err);
}

static enum fg_code gate_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                  bool *ret_found, struct fg_err *err)
{
    return fg_store_contains(fg_container(store, struct gate, store)->inner, family, key, ret_found,
                             err);
}

static struct fg_store_iter *gate_iter(struct fg_store *store, unsigned family,
                                       struct fg_slice from, struct fg_slice to)
{
    return fg_store_iter_create(fg_container(store, struct gate, store)->inner, family, from, to);
}

static uint64_t gate_bytes(struct fg_store *store)
{
    (void)store;
    return 0;
}

static void gate_close(struct fg_store *store)
{
    (void)store;
}

static void gate_init(struct gate *gate, struct fg_store *inner)
{
    static const struct fg_store_ops ops = {gate_write,    gate_heal,  gate_get,
                                            gate_contains, gate_iter,  gate_bytes,
                                            gate_bytes,    gate_close, NULL};

    *gate = (struct gate){.store = {.ops = &ops}, .inner = inner};
    (void)pthread_mutex_init(&gate->lock, NULL);
    (void)pthread_cond_init(&gate->moved, NULL);
}

static void gate_set(struct gate *gate, bool closed)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->closed = closed;
    (void)pthread_cond_broadcast(&gate->moved);
    (void)pthread_mutex_unlock(&gate->lock);
}

static void gate_wait(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    while (gate->waiting == 0)
        (void)pthread_cond_wait(&gate->moved, &gate->lock);
    (void)pthread_mutex_unlock(&gate->lock);
}

/* Counts answers. */
static pthread_mutex_t answers_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answers_moved = PTHREAD_COND_INITIALIZER;
static unsigned answers;

static void on_answer(struct fg_call *call)
{
    (void)call;
    (void)pthread_mutex_lock(&answers_lock);
    answers++;
    (void)pthread_cond_broadcast(&answers_moved);
    (void)pthread_mutex_unlock(&answers_lock);
}

static void wait_for_answers(unsigned count)
{
    (void)pthread_mutex_lock(&answers_lock);
    while (answers < count)
        (void)pthread_cond_wait(&answers_moved, &answers_lock);
    (void)pthread_mutex_unlock(&answers_lock);
}

struct in_flight {
    struct head_call call;
    struct fg_buf batch;
};

static void send_push(struct head *head, struct in_flight *flight,
                      const struct head_profile *profile, unsigned copies)
{
    fg_buf_init(&flight->batch, SIZE_MAX);
    (void)head_encode(profile, true, copies, &flight->batch);
    head_call_push(&flight->call, profile, fg_buf_slice(&flight->batch));
    flight->call.call.done = on_answer;
    fg_peer_send(head->peer, &flight->call.call);
}

static struct head_pushed answer(struct head *head, struct in_flight *flight)
{
    fg_buf_done(&flight->batch);
    return head_call_done(head->peer, &flight->call);
}

/* Waits until the committer has this many items before it. */
static void wait_for_queue(struct head *head, const char *line)
{
    struct fg_buf text;
    bool found = false;

    fg_buf_init(&text, SIZE_MAX);
    while (!found) {
        fg_buf_clear(&text);
        fg_registry_write(head->registry, &text);
        found = fg_slice_search(fg_buf_slice(&text), line) != SIZE_MAX;
    }
    fg_buf_done(&text);
}

static void waiting_pushes_share_one_batch(void **state)
{
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct in_flight flights[4];
    bool there[PUSHES] = {false};
    struct head_pushed pushed[4];
    struct head_profile profile;
    struct head head;
    struct gate gate;
    unsigned before;

    (void)state;
    gate_init(&gate, inner);
    head_open(&head, &gate.store);
    before = gate.writes;
    answers = 0;
    gate_set(&gate, true);
    profile = profile_of(0);
    send_push(&head, &flights[0], &profile, 1);
    gate_wait(&gate);
    /* While the first is being written: the same again, and one that comes twice by two calls. */
    send_push(&head, &flights[1], &profile, 1);
    profile = profile_of(1);
    send_push(&head, &flights[2], &profile, 2);
    send_push(&head, &flights[3], &profile, 1);
    wait_for_queue(&head, "flamegrid_ingester_commit_queue_items 3");
    gate_set(&gate, false);
    wait_for_answers(4);
    for (size_t i = 0; i < 4; i++) {
        pushed[i] = answer(&head, &flights[i]);
        assert_int_equal(pushed[i].code, FG_OK);
    }
    assert_int_equal(gate.writes - before, 2);
    assert_int_equal(pushed[0].stored, 1);
    assert_int_equal(pushed[1].stored, 0);
    assert_int_equal(pushed[1].duplicates, 1);
    assert_int_equal(pushed[2].stored + pushed[3].stored, 1);
    assert_int_equal(pushed[2].duplicates + pushed[3].duplicates, 2);
    there[0] = there[1] = true;
    assert_there(&head, there);
    head_close(&head);
    fg_store_close(inner);
}

/* Pushes behind a failed batch that use its numbers are refused, and repeated. */
static void pushes_behind_a_failed_batch_succeed_when_sent_again(void **state)
{
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct in_flight flights[3];
    bool there[PUSHES] = {false};
    struct head_profile profile;
    struct head head;
    struct gate gate;

    (void)state;
    gate_init(&gate, inner);
    head_open(&head, &gate.store);
    gate.fail_at = gate.writes + 1;
    answers = 0;
    gate_set(&gate, true);
    profile = profile_of(0); /* shop */
    send_push(&head, &flights[0], &profile, 1);
    gate_wait(&gate);
    profile = profile_of(6); /* shop */
    send_push(&head, &flights[1], &profile, 1);
    profile = profile_of(1); /* archive: another dictionary */
    send_push(&head, &flights[2], &profile, 1);
    wait_for_queue(&head, "flamegrid_ingester_commit_queue_items 2");
    gate_set(&gate, false);
    wait_for_answers(3);
    assert_int_equal(answer(&head, &flights[0]).code, FG_E_UNAVAILABLE);
    assert_int_equal(answer(&head, &flights[1]).code, FG_E_UNAVAILABLE);
    assert_int_equal(answer(&head, &flights[2]).stored, 1);
    there[1] = true;
    assert_there(&head, there);
    assert_int_equal(push_all(&head, there), 0);
    assert_there(&head, there);
    head_close(&head);
    head_open(&head, inner);
    assert_there(&head, there);
    head_close(&head);
    fg_store_close(inner);
}

/*
 * A definition that waits must not count as written because an older one was: the second push
 * brings a new type while the first is on its way, and fails.
 */
static void older_definition_does_not_replace_a_newer(void **state)
{
    static const struct head_sample first[] = {{"a", {1, 0}, 0}}, second[] = {{"b", {0, 5}, 0}},
                                    third[] = {{"a", {0, 7}, 0}};
    struct head_profile profile = {.tenant = "tenant",
                                   .service = "shop",
                                   .time_ns = start_ns,
                                   .samples = first,
                                   .n_samples = 1};
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct in_flight flights[2];
    struct head head;
    struct gate gate;

    (void)state;
    gate_init(&gate, inner);
    head_open(&head, &gate.store);
    gate.fail_at = gate.writes + 2;
    answers = 0;
    gate_set(&gate, true);
    send_push(&head, &flights[0], &profile, 1);
    gate_wait(&gate);
    profile.samples = second;
    send_push(&head, &flights[1], &profile, 1);
    wait_for_queue(&head, "flamegrid_ingester_commit_queue_items 1");
    gate_set(&gate, false);
    wait_for_answers(2);
    assert_int_equal(answer(&head, &flights[0]).stored, 1);
    assert_int_equal(answer(&head, &flights[1]).code, FG_E_UNAVAILABLE);
    profile.samples = third;
    assert_int_equal(head_push(&head, &profile, true).stored, 1);
    assert_int_equal(total(&head, "tenant"), 7);
    head_close(&head);
    head_open(&head, inner);
    assert_int_equal(total(&head, "tenant"), 7);
    head_close(&head);
    fg_store_close(inner);
}

/* A push that failed leaves no series that anybody could see. */
static void series_of_failed_pushes_are_not_shown(void **state)
{
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    struct head_query query = everything;
    struct head_profile good = profile_of(1), lost = profile_of(4);
    struct fg_store_faulty faulty;
    struct fg_buf before, after;
    struct head head;

    (void)state;
    lost.service = good.service; /* the same shard's group, so that there is data in the range */
    lost.zone = "elsewhere";
    query.type = NULL;
    fg_buf_init(&before, SIZE_MAX);
    fg_buf_init(&after, SIZE_MAX);
    fg_store_faulty_init(&faulty, inner);
    head_open(&head, &faulty.store);
    assert_int_equal(head_push(&head, &good, true).stored, 1);
    assert_int_equal(head_series(&head, &query, NULL, 0, &before), FG_OK);
    faulty.fail_at = 1;
    faulty.writes = 0;
    assert_int_equal(head_push(&head, &lost, true).code, FG_E_UNAVAILABLE);
    assert_int_equal(head_series(&head, &query, NULL, 0, &after), FG_OK);
    assert_true(after.len > 0 && fg_slice_eq(fg_buf_slice(&before), fg_buf_slice(&after)));
    assert_int_equal(head_stats(&head, "tenant").series, 1);
    head_close(&head);
    fg_buf_done(&before);
    fg_buf_done(&after);
    fg_store_close(inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_write_fails_only_its_own_push),
        cmocka_unit_test(write_done_but_reported_failed_fails_only_its_push),
        cmocka_unit_test(profile_sent_twice_is_stored_once),
        cmocka_unit_test(write_done_but_reported_failed_is_stored_once),
        cmocka_unit_test(unreadable_store_fails_only_the_push_that_reads_it),
        cmocka_unit_test(type_first_seen_in_a_failed_push_is_defined_later),
        cmocka_unit_test(older_definition_does_not_replace_a_newer),
        cmocka_unit_test(series_of_failed_pushes_are_not_shown),
        cmocka_unit_test(waiting_pushes_share_one_batch),
        cmocka_unit_test(pushes_behind_a_failed_batch_succeed_when_sent_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
