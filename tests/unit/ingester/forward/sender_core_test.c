/* When a target's next request begins, and of which lane: with one to sixteen connections, while it
 * answers, while it refuses, and while it does not know us. */
#include "ingester/forward/sender_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int64_t start_ns = FG_HOUR_NS; /* of a monotonic clock */

static struct ing_sender_core core_of(unsigned connections, double fresh_share, uint64_t seed)
{
    struct ing_sender_core core;

    ing_sender_core_init(
        &core,
        &(struct ing_sender_core_config){.connections = connections, .fresh_share = fresh_share},
        seed);
    return core;
}

static bool may_begin(const struct ing_sender_core *core, int64_t now_ns)
{
    int64_t when_ns;

    return ing_sender_core_may_begin(core, now_ns, &when_ns);
}

/* When the next request may begin; INT64_MAX: when one ends. */
static int64_t when(const struct ing_sender_core *core, int64_t now_ns)
{
    int64_t when_ns;

    return ing_sender_core_may_begin(core, now_ns, &when_ns) ? now_ns : when_ns;
}

static unsigned begin_all(struct ing_sender_core *core, int64_t now_ns)
{
    unsigned n = 0;

    for (; may_begin(core, now_ns); n++)
        ing_sender_core_begin(core, OUTBOX_BACKLOG);
    return n;
}

static void end(struct ing_sender_core *core, enum ing_sender_result result, int64_t began_ns,
                int64_t now_ns)
{
    ing_sender_core_end(
        core, OUTBOX_BACKLOG,
        &(struct ing_sender_core_outcome){.result = result, .began_mono_ns = began_ns}, now_ns);
}

/* One request that ends at once. Returns how long the target is left alone after it. */
static int64_t pause_after(struct ing_sender_core *core, enum ing_sender_result result,
                           int64_t retry_after_ns, int64_t now_ns)
{
    assert_true(may_begin(core, now_ns));
    ing_sender_core_begin(core, OUTBOX_BACKLOG);
    ing_sender_core_end(core, OUTBOX_BACKLOG,
                        &(struct ing_sender_core_outcome){.result = result,
                                                          .began_mono_ns = now_ns,
                                                          .retry_after_ns = retry_after_ns},
                        now_ns);
    return when(core, now_ns) - now_ns;
}

/* ---- requests at a time ---- */

static void good_answers_add_requests_up_to_the_connections(void **state)
{
    static const unsigned connections[] = {1, 2, 4, 16};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(connections); i++) {
        struct ing_sender_core core = core_of(connections[i], 0.5, 1);
        unsigned before = 0;

        print_message("  %u connections\n", connections[i]);
        for (unsigned round = 0; round < 40; round++) {
            unsigned n = begin_all(&core, start_ns);

            /* After as many answers as are allowed, about one more; and never more than one. */
            assert_true(n >= before && n <= before + 1);
            assert_true(n >= 1 && n <= connections[i]);
            assert_int_equal(when(&core, start_ns), INT64_MAX);
            before = n;
            for (unsigned k = 0; k < n; k++)
                end(&core, SENDER_TAKEN, start_ns, start_ns);
        }
        assert_int_equal(before, connections[i]);
    }
}

static struct ing_sender_core grown(unsigned connections)
{
    struct ing_sender_core core = core_of(connections, 0.5, 7);

    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(pause_after(&core, SENDER_TAKEN, 0, start_ns), 0);
    return core;
}

static void failure_halves_requests_once_for_all_that_were_under_way(void **state)
{
    struct ing_sender_core core = grown(16);
    int64_t now_ns = start_ns + FG_SECOND_NS;
    unsigned n = begin_all(&core, now_ns);

    (void)state;
    assert_int_equal(n, 16);
    for (unsigned i = 0; i < n; i++) {
        now_ns += FG_MS_NS;
        end(&core, i % 2 == 0 ? SENDER_AWAY : SENDER_BUSY, start_ns + FG_SECOND_NS, now_ns);
    }
    assert_int_equal(core.failures, 1);
    /* One asks whether it is over, ... */
    now_ns = when(&core, now_ns);
    assert_true(now_ns < INT64_MAX);
    assert_int_equal(begin_all(&core, now_ns), 1);
    /* ... and then half of them go on. */
    end(&core, SENDER_TAKEN, now_ns, now_ns);
    assert_int_equal(begin_all(&core, now_ns), 8);
}

static void probe_that_fails_halves_again_down_to_one(void **state)
{
    struct ing_sender_core core = grown(4);
    int64_t now_ns = start_ns + FG_SECOND_NS;

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        now_ns += pause_after(&core, SENDER_AWAY, 0, now_ns);
    assert_int_equal(core.failures, 5);
    assert_int_equal(begin_all(&core, now_ns), 1);
    end(&core, SENDER_TAKEN, now_ns, now_ns);
    assert_int_equal(core.failures, 0);
    assert_int_equal(begin_all(&core, now_ns), 2); /* 1 + 1/1 */
}

/* A parcel of which the target wants nothing says nothing about the target. */
static void end_without_an_answer_is_no_success(void **state)
{
    struct ing_sender_core core = core_of(4, 0.5, 3);
    int64_t now_ns = start_ns;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        now_ns += pause_after(&core, SENDER_DENIED, 0, now_ns);
    assert_int_equal(pause_after(&core, SENDER_UNASKED, 0, now_ns), 0);
    assert_int_equal(core.failures, 3);
    assert_true(core.denied);
    assert_int_equal(begin_all(&core, now_ns), 1);
}

/* An unreadable profile is tried again after five seconds, and says nothing about the target. */
static void request_that_cannot_be_made_is_no_failure(void **state)
{
    struct ing_sender_core core = core_of(4, 0.5, 3);

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pause_after(&core, SENDER_UNREAD, 0, start_ns + i * FG_MINUTE_NS),
                         5 * FG_SECOND_NS);
    assert_int_equal(core.failures, 0);
    assert_false(core.denied);
}

/* ---- pauses ---- */

static void pauses_are_jittered_and_their_bound_doubles(void **state)
{
    enum { SEEDS = 2000, FAILURES = 12 };
    int64_t least_ns[FAILURES], most_ns[FAILURES];
    double sum_ns[FAILURES] = {0};

    (void)state;
    for (unsigned i = 0; i < FAILURES; i++) {
        least_ns[i] = INT64_MAX;
        most_ns[i] = 0;
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct ing_sender_core core = core_of(4, 0.5, seed);
        int64_t now_ns = start_ns;

        for (unsigned i = 0; i < FAILURES; i++) {
            int64_t pause_ns =
                pause_after(&core, i % 2 == 0 ? SENDER_AWAY : SENDER_BUSY, 0, now_ns);

            least_ns[i] = FG_MIN(least_ns[i], pause_ns);
            most_ns[i] = FG_MAX(most_ns[i], pause_ns);
            sum_ns[i] += (double)pause_ns;
            now_ns += pause_ns;
        }
    }
    for (unsigned i = 0; i < FAILURES; i++) {
        int64_t bound_ns = FG_MIN(FG_SECOND_NS / 5 << i, 30 * FG_SECOND_NS);

        /* Between 0.1 s and the bound, all over it. */
        assert_true(least_ns[i] >= FG_SECOND_NS / 10 && most_ns[i] <= bound_ns);
        assert_true((double)least_ns[i] <= FG_MAX(0.01 * (double)bound_ns, 1e8));
        assert_true((double)most_ns[i] >= 0.98 * (double)bound_ns);
        if (i >= 4) /* where the least pause hardly counts */
            assert_true(sum_ns[i] / SEEDS > 0.46 * (double)bound_ns &&
                        sum_ns[i] / SEEDS < 0.54 * (double)bound_ns);
    }
}

static void retry_after_is_obeyed_up_to_ten_minutes(void **state)
{
    static const int64_t asked_s[] = {0, 1, 7, 600, 601, 100000};
    static const int64_t obeyed_s[] = {0, 1, 7, 600, 600, 600};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(asked_s); i++)
        for (uint64_t seed = 0; seed < 50; seed++) {
            struct ing_sender_core core = core_of(4, 0.5, seed);
            int64_t pause_ns = pause_after(&core, SENDER_BUSY, asked_s[i] * FG_SECOND_NS, start_ns);

            assert_true(pause_ns >= obeyed_s[i] * FG_SECOND_NS);
            assert_true(pause_ns <= obeyed_s[i] * FG_SECOND_NS + FG_SECOND_NS / 5);
        }
}

/* Also that of a request whose failure does not count, since another one has failed before. */
static void retry_after_of_any_request_is_obeyed(void **state)
{
    struct ing_sender_core core = grown(2);

    (void)state;
    assert_int_equal(begin_all(&core, start_ns), 2);
    end(&core, SENDER_AWAY, start_ns, start_ns + 1);
    ing_sender_core_end(&core, OUTBOX_BACKLOG,
                        &(struct ing_sender_core_outcome){.result = SENDER_BUSY,
                                                          .began_mono_ns = start_ns,
                                                          .retry_after_ns = FG_MINUTE_NS},
                        start_ns + 2);
    assert_int_equal(core.failures, 1);
    assert_int_equal(when(&core, start_ns + 2), start_ns + 2 + FG_MINUTE_NS);
}

static void target_that_does_not_know_us_is_asked_every_minute(void **state)
{
    struct ing_sender_core core = core_of(4, 0.5, 11);
    int64_t now_ns = start_ns;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        int64_t pause_ns = pause_after(&core, SENDER_DENIED, 0, now_ns);

        /* It does not double: a token that was renewed is found soon. */
        assert_true(pause_ns >= FG_MINUTE_NS && pause_ns <= FG_MINUTE_NS + 30 * FG_SECOND_NS);
        assert_true(core.denied);
        assert_false(may_begin(&core, now_ns + FG_MINUTE_NS - 1));
        now_ns += pause_ns;
    }
    assert_int_equal(pause_after(&core, SENDER_TAKEN, 0, now_ns), 0);
    assert_false(core.denied);
}

static void rate_holds_over_many_requests(void **state)
{
    struct ing_sender_core core;
    int64_t now_ns = start_ns;
    uint64_t bytes = 0;

    (void)state;
    ing_sender_core_init(
        &core, &(struct ing_sender_core_config){.connections = 4, .rate_max_bytes = 100000}, 5);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t size = (i * 37) % 50 * 1000;

        now_ns = when(&core, now_ns);
        assert_true(now_ns < INT64_MAX);
        ing_sender_core_begin(&core, OUTBOX_BACKLOG);
        ing_sender_core_sent(&core, size, now_ns);
        end(&core, SENDER_TAKEN, now_ns, now_ns);
        bytes += size;
    }
    now_ns = when(&core, now_ns);
    assert_true((double)(now_ns - start_ns) / 1e9 > 0.999 * (double)bytes / 100000);
    assert_true((double)(now_ns - start_ns) / 1e9 < 1.001 * (double)bytes / 100000);
    /* Idle time is not saved up. */
    now_ns += FG_HOUR_NS;
    ing_sender_core_begin(&core, OUTBOX_BACKLOG);
    ing_sender_core_sent(&core, 100000, now_ns);
    end(&core, SENDER_TAKEN, now_ns, now_ns);
    assert_int_equal(when(&core, now_ns), now_ns + FG_SECOND_NS);
}

static void no_rate_delays_nothing(void **state)
{
    struct ing_sender_core core = core_of(4, 0.5, 5);

    (void)state;
    ing_sender_core_sent(&core, UINT64_MAX, start_ns);
    assert_true(may_begin(&core, start_ns));
}

/* ---- lanes ---- */

/* The share of fresh requests while both lanes have enough, over many ends in an order by chance.
 */
static double fresh_share_of(unsigned connections, double share)
{
    enum { ENDS = 20000 };
    struct ing_sender_core core = core_of(connections, share, 99);
    enum ing_outbox_lane running[16];
    uint64_t random = 12345, fresh = 0, n_running = 0;

    for (unsigned i = 0; i < 400; i++)
        assert_int_equal(pause_after(&core, SENDER_TAKEN, 0, start_ns), 0);
    for (unsigned i = 0; i < ENDS; i++) {
        size_t out;

        while (may_begin(&core, start_ns)) {
            running[n_running] = ing_sender_core_lane(&core);
            ing_sender_core_begin(&core, running[n_running]);
            fresh += running[n_running++] == OUTBOX_FRESH;
        }
        assert_int_equal(n_running, connections);
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        out = (random >> 33) % n_running;
        ing_sender_core_end(
            &core, running[out],
            &(struct ing_sender_core_outcome){.result = SENDER_TAKEN, .began_mono_ns = start_ns},
            start_ns);
        running[out] = running[--n_running];
    }
    return (double)fresh / (ENDS + connections - 1);
}

static void lanes_have_their_share(void **state)
{
    static const unsigned connections[] = {1, 2, 4, 16};
    static const double shares[] = {0.1, 0.25, 0.5, 0.75, 0.9};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(connections); i++) {
        assert_true(fresh_share_of(connections[i], 0) == 0);
        assert_true(fresh_share_of(connections[i], 1) == 1);
        for (size_t k = 0; k < FG_COUNT(shares); k++) {
            double share = fresh_share_of(connections[i], shares[k]);

            print_message("  %u connections, %.2f: %.3f\n", connections[i], shares[k], share);
            assert_true(share > shares[k] - 0.12 && share < shares[k] + 0.12);
        }
    }
}

/* Ends a request of a lane that took so long. Returns how many may run then. */
static unsigned allowed_after(struct ing_sender_core *core, enum ing_outbox_lane lane,
                              int64_t took_ns, int64_t now_ns)
{
    ing_sender_core_begin(core, lane);
    ing_sender_core_end(core, lane,
                        &(struct ing_sender_core_outcome){
                            .result = SENDER_TAKEN, .began_mono_ns = now_ns, .took_ns = took_ns},
                        now_ns);
    return (unsigned)core->allowed;
}

static void slow_answers_take_requests_away(void **state)
{
    struct ing_sender_core core = core_of(8, 0.5, 1);
    int64_t now_ns = start_ns;
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        n = allowed_after(&core, OUTBOX_BACKLOG, 20 * FG_MS_NS, now_ns++);
    assert_int_equal(n, 8);
    /* Twice as long and a little more is no sign. */
    assert_int_equal(allowed_after(&core, OUTBOX_BACKLOG, 90 * FG_MS_NS, now_ns++), 8);
    /* Sizes of fresh ones differ. */
    assert_int_equal(allowed_after(&core, OUTBOX_FRESH, FG_SECOND_NS, now_ns++), 8);
    for (unsigned i = 0; i < 20; i++)
        n = allowed_after(&core, OUTBOX_BACKLOG, 200 * FG_MS_NS, now_ns++);
    assert_int_equal(n, 1); /* one always goes on */
    for (unsigned i = 0; i < 100; i++)
        n = allowed_after(&core, OUTBOX_BACKLOG, 20 * FG_MS_NS, now_ns++);
    assert_int_equal(n, 8);
    /* After a minute without faster ones they are what the target takes now. */
    now_ns += 2 * FG_MINUTE_NS;
    for (unsigned i = 0; i < 100; i++)
        n = allowed_after(&core, OUTBOX_BACKLOG, 200 * FG_MS_NS, now_ns++);
    assert_int_equal(n, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_answers_take_requests_away),
        cmocka_unit_test(good_answers_add_requests_up_to_the_connections),
        cmocka_unit_test(failure_halves_requests_once_for_all_that_were_under_way),
        cmocka_unit_test(probe_that_fails_halves_again_down_to_one),
        cmocka_unit_test(end_without_an_answer_is_no_success),
        cmocka_unit_test(request_that_cannot_be_made_is_no_failure),
        cmocka_unit_test(pauses_are_jittered_and_their_bound_doubles),
        cmocka_unit_test(retry_after_is_obeyed_up_to_ten_minutes),
        cmocka_unit_test(retry_after_of_any_request_is_obeyed),
        cmocka_unit_test(target_that_does_not_know_us_is_asked_every_minute),
        cmocka_unit_test(rate_holds_over_many_requests),
        cmocka_unit_test(no_rate_delays_nothing),
        cmocka_unit_test(lanes_have_their_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
