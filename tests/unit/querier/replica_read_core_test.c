/* Tests the state machine of a replica read without threads or a real clock: members fail, are
 * late, or answer after all, at random times. Each acknowledged profile is in the result exactly
 * once, or the read fails. */
#include "common/base/time.h"
#include "querier/replicas/replica_read_core.h"
#include "tests/lib/ring_make.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MEMBERS = 6, FIRST = 100, SHARDS = 20, WINDOWS = 3, PROFILES = 80, ROUNDS = 300 };

static const int64_t HEDGE_NS = FG_SECOND_NS;

struct profile {
    struct fg_id id;
    uint16_t shard;
    uint32_t window;
    bool recent;      /* members always send its id */
    uint32_t held;    /* bits by member */
    unsigned counted; /* in the result */
};

/* What a member will do with a request. */
struct fate {
    struct qry_replica_request *request;
    int64_t due_ns;
    enum fg_code code;
};

struct bench {
    uint64_t random;
    struct fg_arena *arena;
    struct fg_ring_view *view;
    struct profile profiles[PROFILES]; /* ascending by group, then id */
    uint32_t n;
    uint32_t down, bad, hanging; /* bits by member */
    unsigned late_percent, fail_percent;
    struct fate fates[256];
    size_t n_fates, n_sent;
    int64_t now_ns;
};

static uint64_t draw(struct bench *bench, uint64_t below)
{
    bench->random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(bench->random) % below;
}

static struct fg_ring_view *six_members(struct fg_arena *arena)
{
    static const char *const names[] = {"ann", "bob", "cat", "dan", "eve", "fay"};
    static const char *const zones[] = {"x", "y", "z", "x", "y", "z"};
    struct fg_ring ring = fg_ring_none();

    for (unsigned i = 0; i < MEMBERS; i++)
        ring = ring_make(&ring, ring_make_join(names[i], zones[i], i), arena);
    for (unsigned i = 0; i < MEMBERS - 1; i++)
        ring = ring_make(&ring, ring_make_drained(names[i], i, MEMBERS), arena);
    return ring_make_view(&ring);
}

static int cmp_profiles(const void *left, const void *right)
{
    const struct profile *a = left, *b = right;

    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    if (a->window != b->window)
        return a->window < b->window ? -1 : 1;
    return fg_id_cmp(a->id, b->id);
}

/* Each profile is acknowledged: at least two of its three owners hold it. */
static void make_profiles(struct bench *bench)
{
    unsigned all_percent = (unsigned[]){100, 95, 50}[draw(bench, 3)];

    bench->n = (uint32_t)draw(bench, PROFILES + 1);
    for (uint32_t i = 0; i < bench->n; i++) {
        struct profile *profile = &bench->profiles[i];
        unsigned without = draw(bench, 100) < all_percent ? 3 : (unsigned)draw(bench, 3);

        *profile = (struct profile){.id = {draw(bench, UINT64_MAX), i},
                                    .shard = (uint16_t)(FIRST + draw(bench, SHARDS)),
                                    .window = (uint32_t)draw(bench, WINDOWS),
                                    .recent = draw(bench, 4) == 0};
        for (unsigned k = 0; k < 3; k++)
            if (k != without)
                profile->held |= 1u << fg_ring_view_owner(bench->view, 0, profile->shard, k);
    }
    if (bench->n > 1)
        qsort(bench->profiles, bench->n, sizeof *bench->profiles, cmp_profiles);
}

static void begin(struct bench *bench, uint64_t seed, struct qry_replica_read_core *core)
{
    *bench = (struct bench){.random = seed, .arena = fg_arena_create(FG_RING_ARENA_BYTES)};
    bench->view = six_members(bench->arena);
    make_profiles(bench);
    *core = (struct qry_replica_read_core){.hedge_after_ns = HEDGE_NS,
                                           .give_up_late_mono_ns = INT64_MAX};
}

static void end(struct bench *bench)
{
    fg_ring_view_unref(bench->view);
    fg_arena_destroy(bench->arena);
}

static bool is_bad(void *arg, uint32_t member)
{
    const struct bench *bench = arg;

    return (bench->bad >> member & 1) != 0;
}

/* ---- members ---- */

static bool gives_id(const struct qry_replica_read_core *core, const struct profile *profile)
{
    if (profile->recent || core->ids.since_ns == INT64_MIN)
        return true;
    for (uint32_t i = 0; i < core->ids.n_of; i++)
        if (core->ids.of[i]->shard == profile->shard && core->ids.of[i]->window == profile->window)
            return true;
    return false;
}

static void add_to_sum(Fg__Inner__GroupSum *sum, const struct profile *profile, bool by_id)
{
    if (by_id) {
        fg_id_put(sum->ids.data + sum->ids.len, profile->id);
        sum->ids.len += FG_ID_BYTES;
        return;
    }
    sum->count++;
    fg_id_put(sum->digest.data, sum->digest.len == 0
                                    ? profile->id
                                    : fg_id_add(fg_id_get(sum->digest.data), profile->id));
    sum->digest.len = FG_ID_BYTES;
}

/* The head of a member's reply. */
static struct fg_slice reply_of(struct bench *bench, const struct qry_replica_read_core *core,
                                const struct qry_replica_request *request)
{
    Fg__Inner__SelectReply reply = FG__INNER__SELECT_REPLY__INIT;
    Fg__Inner__Stats stats = FG__INNER__STATS__INIT;
    Fg__Inner__GroupSum **sums = fg_arena_new(bench->arena, Fg__Inner__GroupSum *, bench->n);
    const struct profile *last = NULL;
    uint8_t *bytes;

    reply.stats = &stats;
    reply.sums = sums;
    stats.profiles = request->n_ids;
    for (uint32_t i = 0; i < bench->n && request->n_ids == 0; i++) {
        const struct profile *profile = &bench->profiles[i];
        Fg__Inner__GroupSum *sum;

        if ((profile->held >> request->member & 1) == 0 ||
            !qry_shard_map_has(&request->sums, profile->shard))
            continue;
        if (last == NULL || last->shard != profile->shard || last->window != profile->window) {
            sum = fg_arena_new(bench->arena, Fg__Inner__GroupSum, 1);
            fg__inner__group_sum__init(sum);
            sum->shard = profile->shard;
            sum->window = profile->window;
            sum->ids.data = fg_arena_alloc(bench->arena, (size_t)bench->n * FG_ID_BYTES);
            sum->digest.data = fg_arena_alloc(bench->arena, FG_ID_BYTES);
            sums[reply.n_sums++] = sum;
        }
        add_to_sum(sums[reply.n_sums - 1], profile, gives_id(core, profile));
        last = profile;
    }
    bytes = fg_arena_alloc(bench->arena, fg__inner__select_reply__get_packed_size(&reply) + 1);
    return fg_bytes(bytes, fg__inner__select_reply__pack(&reply, bytes));
}

/* Sends the planned requests and decides what happens to each. */
static void send_planned(struct bench *bench, struct qry_replica_read_core *core)
{
    core->past = NULL;
    for (struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        struct fate fate = {.request = r,
                            .due_ns = bench->now_ns + (int64_t)draw(bench, (uint64_t)HEDGE_NS)};

        if (r->state != REQUEST_PLANNED)
            continue;
        r->state = REQUEST_SENT;
        r->sent_mono_ns = bench->now_ns;
        if (draw(bench, 100) < bench->late_percent)
            fate.due_ns += HEDGE_NS * (int64_t)(1 + draw(bench, 4));
        if ((bench->down >> r->member & 1) != 0 || draw(bench, 100) < bench->fail_percent)
            fate.code = FG_E_UNAVAILABLE;
        if ((bench->hanging >> r->member & 1) != 0)
            fate.due_ns = INT64_MAX;
        assert_true(bench->n_fates < FG_COUNT(bench->fates));
        bench->fates[bench->n_fates++] = fate;
        bench->n_sent++;
    }
}

/* Advances the time to the next event and steps the core. */
static void pass_time(struct bench *bench, struct qry_replica_read_core *core)
{
    int64_t next_ns = qry_replica_read_core_wake_mono_ns(core);
    size_t kept = 0;

    for (size_t i = 0; i < bench->n_fates; i++)
        next_ns = FG_MIN(next_ns, bench->fates[i].due_ns);
    assert_true(next_ns < INT64_MAX); /* the read must not hang */
    bench->now_ns = FG_MAX(bench->now_ns, next_ns);
    for (size_t i = 0; i < bench->n_fates; i++) {
        struct fate fate = bench->fates[i];

        if (fate.due_ns > bench->now_ns) {
            bench->fates[kept++] = fate;
        } else if (qry_replica_request_is_open(fate.request) && fate.code == FG_OK) {
            qry_replica_read_core_answered(core, fate.request, reply_of(bench, core, fate.request));
            bench->bad &= ~(1u << fate.request->member);
        } else if (qry_replica_request_is_open(fate.request)) {
            struct fg_err err;

            (void)fg_fail(&err, fate.code, "down");
            qry_replica_read_core_failed(core, fate.request, &err);
        }
    }
    bench->n_fates = kept;
}

static enum fg_code run(struct bench *bench, struct qry_replica_read_core *core, struct fg_err *err)
{
    enum fg_code code;

    core->requests.view = bench->view;
    core->requests.arena = bench->arena;
    core->requests.method = FG_RPC_SELECT;
    core->requests.first = FIRST;
    core->requests.last = FIRST + SHARDS - 1;
    core->requests.round_robin = (uint32_t)draw(bench, 100);
    core->requests.is_bad = is_bad;
    core->requests.arg = bench;
    code = qry_replica_read_core_start(core, FG_HOUR_NS, err);
    while (code == FG_OK && core->state != REPLICA_READ_DONE) {
        bool moved = false;

        send_planned(bench, core);
        code = qry_replica_read_core_step(core, bench->now_ns, &moved, err);
        if (code == FG_OK && !moved)
            pass_time(bench, core);
    }
    return code;
}

/* ---- the result ---- */

/* Counts the profiles in the parts of the result. */
static void count_profiles(struct bench *bench, const struct qry_replica_read_core *core)
{
    for (const struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next)
        for (uint32_t i = 0; i < bench->n && qry_replica_read_core_is_part(core, r); i++) {
            struct profile *profile = &bench->profiles[i];

            if ((profile->held >> r->member & 1) == 0)
                continue;
            if (r->n_ids == 0)
                profile->counted += qry_shard_map_has(&r->data, profile->shard);
            for (uint64_t k = 0; k < r->n_ids; k++)
                profile->counted += fg_id_eq(fg_id_get(r->ids.ptr + k * FG_ID_BYTES), profile->id);
        }
}

static void assert_exactly_once(struct bench *bench, const struct qry_replica_read_core *core)
{
    count_profiles(bench, core);
    for (uint32_t i = 0; i < bench->n; i++)
        assert_int_equal(bench->profiles[i].counted, 1);
}

static void each_profile_counts_once_whatever_fails(void **state)
{
    unsigned n_ok = 0, n_failed_over = 0, n_again = 0, n_fetched = 0;

    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct qry_replica_read_core core;
        struct bench bench;
        struct fg_err err;

        begin(&bench, seed, &core);
        bench.late_percent = (unsigned[]){0, 20, 60}[draw(&bench, 3)];
        bench.fail_percent = (unsigned[]){0, 0, 15}[draw(&bench, 3)];
        bench.down = draw(&bench, 3) == 0 ? (uint32_t)draw(&bench, 1 << MEMBERS) : 0;
        bench.bad = draw(&bench, 3) == 0 ? (uint32_t)draw(&bench, 1 << MEMBERS) : 0;
        if (run(&bench, &core, &err) == FG_OK) {
            assert_exactly_once(&bench, &core);
            assert_int_equal(core.lacks.len, 0);
            n_ok++;
        } else {
            assert_int_equal(err.code, FG_E_UNAVAILABLE);
            assert_true(bench.down != 0 || bench.fail_percent > 0);
        }
        n_failed_over += core.counts[REPLICAS_REPLACED] > 0;
        n_again += core.attempts > 1;
        n_fetched += core.counts[REPLICAS_FETCHED] > 0;
        end(&bench);
    }
    print_message("  %u of %d reads complete, %u with failover, %u repeated, %u fetched\n", n_ok,
                  ROUNDS, n_failed_over, n_again, n_fetched);
    assert_true(n_ok > ROUNDS / 2 && n_failed_over > ROUNDS / 20 && n_again > ROUNDS / 20 &&
                n_fetched > ROUNDS / 20);
}

/* The absence of one member costs only a failover. */
static void other_members_answer_for_one_that_is_down(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        struct qry_replica_read_core core;
        struct bench bench;
        struct fg_err err;

        begin(&bench, 7 + m, &core);
        bench.down = 1u << m;
        assert_int_equal(run(&bench, &core, &err), FG_OK);
        assert_exactly_once(&bench, &core);
        end(&bench);
    }
}

/* All members are late, one of them for ever: the answers of the others count when they come, and
 * nothing is requested a third time. */
static void late_members_count_when_they_answer(void **state)
{
    struct qry_replica_read_core core;
    struct bench bench;
    struct fg_err err;

    (void)state;
    begin(&bench, 1, &core);
    bench.late_percent = 100;
    assert_int_equal(run(&bench, &core, &err), FG_OK);
    assert_exactly_once(&bench, &core);
    assert_true(core.counts[REPLICAS_LATE] > 0);
    end(&bench);
}

/* One member hangs and another was late a moment ago: nothing waits for the one that hangs, and it
 * is not asked again. */
static void slow_members_answer_for_one_that_hangs(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t slow = 0; slow < MEMBERS; slow++) {
            struct qry_replica_read_core core;
            struct bench bench;
            struct fg_err err;

            begin(&bench, 11 + m, &core);
            bench.hanging = 1u << m;
            bench.bad = 1u << slow;
            assert_int_equal(run(&bench, &core, &err), FG_OK);
            assert_exactly_once(&bench, &core);
            assert_true(core.counts[REPLICAS_LATE] <= 1);
            end(&bench);
        }
}

/* With every member down the read fails by default; with `partial` the result is empty and says so.
 */
static void partial_result_says_what_it_lacks(void **state)
{
    (void)state;
    for (unsigned partial = 0; partial < 2; partial++) {
        struct qry_replica_read_core core;
        struct bench bench;
        struct fg_err err;

        begin(&bench, 3, &core);
        bench.down = (1u << MEMBERS) - 1;
        core.partial = partial;
        assert_int_equal(run(&bench, &core, &err), partial ? FG_OK : FG_E_UNAVAILABLE);
        if (partial) {
            assert_true(fg_slice_search(core.lacks, "ann: down") != SIZE_MAX);
            assert_int_equal(core.counts[REPLICAS_INCOMPLETE], 1);
        } else {
            assert_non_null(strstr(err.msg, "required ingesters responded"));
            assert_int_equal(core.counts[REPLICAS_REFUSED], 1);
        }
        end(&bench);
    }
}

/* An error that every replica would return is the error of the query, and no other replica is
 * asked. */
static void error_of_the_query_is_not_retried(void **state)
{
    struct qry_replica_read_core core;
    struct bench bench;
    struct fg_err err, why;
    bool moved = false;

    (void)state;
    begin(&bench, 5, &core);
    core.requests.view = bench.view;
    core.requests.arena = bench.arena;
    core.requests.method = FG_RPC_SELECT;
    core.requests.first = FIRST;
    core.requests.last = FIRST + SHARDS - 1;
    core.requests.is_bad = is_bad;
    core.requests.arg = &bench;
    assert_int_equal(qry_replica_read_core_start(&core, FG_HOUR_NS, &err), FG_OK);
    send_planned(&bench, &core);
    (void)fg_fail(&why, FG_E_INVALID, "no such thing");
    qry_replica_read_core_failed(&core, core.requests.items, &why);
    assert_int_equal(qry_replica_read_core_step(&core, 0, &moved, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "no such thing");
    end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_profile_counts_once_whatever_fails),
        cmocka_unit_test(other_members_answer_for_one_that_is_down),
        cmocka_unit_test(late_members_count_when_they_answer),
        cmocka_unit_test(slow_members_answer_for_one_that_hangs),
        cmocka_unit_test(partial_result_says_what_it_lacks),
        cmocka_unit_test(error_of_the_query_is_not_retried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
