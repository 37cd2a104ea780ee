/*
 * A cluster of distributors in virtual time, of which each divides the rate of a tenant with the
 * others and counts its bytes for the period, by what three places say. Places are away, slow or
 * cut off from single distributors for a while, and restart with what they have saved; distributors
 * restart and forget. Load comes as it likes: through one of them, through all, from one moment to
 * the next.
 */
#include "common/cluster/shares/share_clock.h"
#include "common/cluster/shares/share_core.h"
#include "tests/lib/seeds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum {
    DISTRIBUTORS = 4,
    PLACES = 3,
    MIB = 1024 * 1024,
    ROUND_S = 2,
    SAVE_S = 10,
    PROFILE = 65536, /* bytes of an upload */
    TICKS = 32,      /* of uploads in a second */
    UNHEARD =
        32 * MIB, /* what one that begins takes before its first round: a burst and two seconds */
};

static const int64_t TICK_NS = FG_SECOND_NS / TICKS;
static const int64_t MIDNIGHT_S = 1795737600;

/* 8 MiB a second, 16 at a time. */
static const struct fg_rate_limit limits = {8, 16, "ingestion_rate_mb"};

enum link_state {
    LINK_WELL,
    LINK_AWAY,
    LINK_SLOW
}; /* slow: is heard, and its answer is too late */

struct link {
    enum link_state state;
    int64_t until_s;
};

struct member {
    struct fg_rates *rates;
    struct fg_quotas *quotas;
    struct fg_share_core core;
    uint64_t process;
    struct link links[PLACES];
    struct fg_share_clock clock;
    int64_t ahead_s; /* of its clock */
    double offered_mb_s, due;
    uint64_t passed; /* bytes, since the start of a measurement */
    uint64_t unsaid; /* of them, since the last round */
};

struct cluster {
    uint64_t random, processes;
    int64_t now_s, tick;
    struct member members[DISTRIBUTORS];
    struct fg_meeting *places[PLACES];
    struct fg_buf saved[PLACES];
    struct fg_quota_limit quota; /* bytes 0: none */
    uint64_t acknowledged;       /* in this period, truly */
    /* Of that, by distributors that died before they said it, or have not heard anything yet. */
    uint64_t unknown;
    uint64_t refused_early; /* uploads refused for the period although there was room */
};

static uint64_t draw(struct cluster *cluster, uint64_t below)
{
    cluster->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(cluster->random) % below;
}

static void member_start(struct cluster *cluster, struct member *member)
{
    member->rates = fg_rates_create(100);
    member->quotas = fg_quotas_create("ingestion_limit");
    member->process = ++cluster->processes;
    fg_share_core_init(&member->core);
    member->clock = (struct fg_share_clock){.heard = false};
    member->unsaid = 0;
}

static void member_stop(struct member *member)
{
    fg_rates_destroy(member->rates);
    fg_quotas_destroy(member->quotas);
}

static void cluster_init(struct cluster *cluster, uint64_t seed)
{
    *cluster = (struct cluster){.random = seed};
    for (size_t i = 0; i < DISTRIBUTORS; i++)
        member_start(cluster, &cluster->members[i]);
    for (size_t i = 0; i < PLACES; i++) {
        cluster->places[i] = fg_meeting_create();
        fg_buf_init(&cluster->saved[i], FG_MEETING_MAX_BYTES);
    }
}

static void cluster_done(struct cluster *cluster)
{
    for (size_t i = 0; i < DISTRIBUTORS; i++)
        member_stop(&cluster->members[i]);
    for (size_t i = 0; i < PLACES; i++) {
        fg_meeting_destroy(cluster->places[i]);
        fg_buf_done(&cluster->saved[i]);
    }
}

/* ---- places ---- */

static void save(struct cluster *cluster, size_t place)
{
    struct fg_err err;

    fg_buf_clear(&cluster->saved[place]);
    assert_int_equal(fg_meeting_encode(cluster->places[place], MIDNIGHT_S + cluster->now_s,
                                       &cluster->saved[place], &err),
                     FG_OK);
}

static void place_restart(struct cluster *cluster, size_t place)
{
    struct fg_err err;

    fg_meeting_destroy(cluster->places[place]);
    cluster->places[place] = fg_meeting_create();
    if (cluster->saved[place].len > 0)
        assert_int_equal(fg_meeting_decode(cluster->places[place],
                                           fg_buf_slice(&cluster->saved[place]),
                                           MIDNIGHT_S + cluster->now_s, &err),
                         FG_OK);
}

/* ---- a round, as distributor/shares.c has it ---- */

static bool ask(struct cluster *cluster, struct member *member, size_t place,
                const struct fg_rate_demand *demand, struct fg_rate_demand *all, uint32_t n_demands,
                struct fg_quota_count *count, uint32_t n_counts)
{
    int64_t now_ns = cluster->now_s * FG_SECOND_NS, wall_s = MIDNIGHT_S + cluster->now_s;
    struct fg_meeting *meeting = cluster->places[place];
    struct link *link = &member->links[place];
    struct fg_meeting_use use = {.tenant = FG_LIT("a")};

    if (link->state != LINK_WELL && cluster->now_s >= link->until_s)
        link->state = LINK_WELL;
    if (link->state == LINK_AWAY)
        return false;
    fg_meeting_join(meeting, member->process, now_ns);
    if (n_demands > 0)
        use.demand = demand->bytes_per_s;
    if (n_counts > 0) {
        use.span = count->span;
        use.bytes = count->own;
    }
    fg_meeting_hear(meeting, member->process, &use, now_ns, wall_s);
    use = fg_meeting_sum(meeting, FG_LIT("a"), &use.span, now_ns);
    if (link->state == LINK_SLOW)
        return false;
    fg_share_clock_hear(&member->clock, wall_s + member->ahead_s, wall_s);
    fg_share_core_hear(&member->core, fg_meeting_processes(meeting, now_ns));
    if (n_demands > 0)
        fg_share_take_demand(all, &use);
    if (n_counts > 0)
        fg_share_take_count(count, &use);
    return true;
}

static void round_of(struct cluster *cluster, struct member *member)
{
    int64_t now_ns = cluster->now_s * FG_SECOND_NS;
    struct fg_rate_demand demand, all;
    struct fg_quota_count count;
    uint32_t n_demands = fg_rates_report(member->rates, now_ns, &demand, 1);
    uint32_t n_counts = fg_quotas_report(member->quotas, &count, 1), processes;
    bool heard = false;

    all = demand;
    fg_share_core_begin(&member->core);
    fg_share_clock_begin(&member->clock);
    for (size_t i = 0; i < PLACES; i++)
        heard |= ask(cluster, member, i, &demand, &all, n_demands, &count, n_counts);
    processes = fg_share_core_end(&member->core, now_ns);
    (void)fg_share_clock_end(&member->clock);
    fg_rates_apply(member->rates, processes, &all, heard ? n_demands : 0, now_ns);
    fg_quotas_apply(member->quotas, &count, heard ? n_counts : 0);
    member->unsaid = 0;
}

/* ---- load ---- */

static bool within_quota(struct cluster *cluster, struct member *member, int64_t wall_ns)
{
    struct fg_quota_use use;
    struct fg_err err;

    if (cluster->quota.bytes == 0 ||
        fg_quotas_check(member->quotas, FG_LIT("a"), &cluster->quota, wall_ns, &use, &err) == FG_OK)
        return true;
    cluster->refused_early += cluster->acknowledged < cluster->quota.bytes;
    return false;
}

static void upload(struct cluster *cluster, struct member *member, int64_t now_ns)
{
    int64_t wall_ns = (MIDNIGHT_S + member->ahead_s) * FG_SECOND_NS + now_ns;
    struct fg_err err;
    double used;

    if (!within_quota(cluster, member, wall_ns) ||
        fg_rates_take(member->rates, FG_LIT("a"), &limits, PROFILE, now_ns, &used, &err) != FG_OK)
        return;
    member->passed += PROFILE;
    member->unsaid += PROFILE;
    cluster->acknowledged += PROFILE;
    if (cluster->quota.bytes > 0)
        fg_quotas_add(member->quotas, FG_LIT("a"), &cluster->quota, PROFILE, wall_ns);
}

static void second(struct cluster *cluster)
{
    for (int tick = 0; tick < TICKS; tick++)
        for (size_t i = 0; i < DISTRIBUTORS; i++) {
            struct member *member = &cluster->members[i];

            member->due += member->offered_mb_s * MIB / TICKS;
            while (member->due >= PROFILE) {
                member->due -= PROFILE;
                upload(cluster, member, cluster->now_s * FG_SECOND_NS + tick * TICK_NS);
            }
        }
    cluster->now_s++;
    /* Their rounds are not at the same time. */
    for (size_t i = 0; i < DISTRIBUTORS; i++)
        if ((cluster->now_s + (int64_t)i) % ROUND_S == 0)
            round_of(cluster, &cluster->members[i]);
    for (size_t i = 0; i < PLACES; i++)
        if ((cluster->now_s + (int64_t)i) % SAVE_S == 0)
            save(cluster, i);
}

/* Runs, and returns the MiB per second that pass. */
static double run(struct cluster *cluster, int64_t seconds)
{
    uint64_t passed = 0;

    for (size_t i = 0; i < DISTRIBUTORS; i++)
        cluster->members[i].passed = 0;
    for (int64_t i = 0; i < seconds; i++)
        second(cluster);
    for (size_t i = 0; i < DISTRIBUTORS; i++)
        passed += cluster->members[i].passed;
    return (double)passed / MIB / (double)seconds;
}

static void offer(struct cluster *cluster, double a, double b, double c, double d)
{
    const double offered[DISTRIBUTORS] = {a, b, c, d};

    for (size_t i = 0; i < DISTRIBUTORS; i++)
        cluster->members[i].offered_mb_s = offered[i];
}

static bool is_near(double value, double wanted, double by)
{
    if (fabs(value - wanted) <= by * wanted)
        return true;
    print_error("%f, not %f\n", value, wanted);
    return false;
}

/* ---- rates ---- */

static void a_rate_holds_however_load_is_divided(void **state)
{
    static const double loads[][DISTRIBUTORS] = {
        {20, 0, 0, 0}, {5, 5, 5, 5}, {12, 4, 0, 0}, {0.5, 0.5, 0.5, 40}, {7, 3, 2, 1},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(loads); i++) {
        struct cluster cluster;

        cluster_init(&cluster, i);
        offer(&cluster, loads[i][0], loads[i][1], loads[i][2], loads[i][3]);
        (void)run(&cluster, 60);
        assert_true(is_near(run(&cluster, 120), 8, 0.03));
        cluster_done(&cluster);
    }
}

/* Nobody is refused anything while all together are within the rate, wherever the load is. */
static void demand_within_the_rate_passes(void **state)
{
    static const double loads[][DISTRIBUTORS] = {
        {7.5, 0, 0, 0},
        {1.9, 1.9, 1.9, 1.9},
        {5, 2, 0.5, 0},
        {0.05, 0.05, 0.05, 7},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(loads); i++) {
        struct cluster cluster;
        double all = loads[i][0] + loads[i][1] + loads[i][2] + loads[i][3];

        cluster_init(&cluster, i);
        offer(&cluster, loads[i][0], loads[i][1], loads[i][2], loads[i][3]);
        (void)run(&cluster, 60);
        assert_true(is_near(run(&cluster, 240), all, 0.001));
        cluster_done(&cluster);
    }
}

static void load_that_moves_is_followed(void **state)
{
    struct cluster cluster;

    (void)state;
    cluster_init(&cluster, 1);
    offer(&cluster, 20, 0, 0, 0);
    (void)run(&cluster, 60);
    offer(&cluster, 0, 20, 0, 0);
    assert_true(run(&cluster, 30) > 5); /* nobody has heard of it at first */
    assert_true(is_near(run(&cluster, 60), 8, 0.03));
    cluster_done(&cluster);
}

static void without_a_place_each_has_an_equal_part(void **state)
{
    struct cluster cluster;

    (void)state;
    cluster_init(&cluster, 1);
    offer(&cluster, 20, 20, 0, 0);
    (void)run(&cluster, 60);
    for (size_t i = 0; i < DISTRIBUTORS; i++)
        for (size_t place = 0; place < PLACES; place++)
            cluster.members[i].links[place] = (struct link){LINK_AWAY, 1000};
    (void)run(&cluster, 60);
    assert_true(is_near(run(&cluster, 120), 4, 0.03));
    cluster_done(&cluster);
}

/* One distributor is cut off from all places: the others find it gone, and it goes on with a part.
 */
static void one_that_is_cut_off_takes_a_part(void **state)
{
    struct cluster cluster;

    (void)state;
    cluster_init(&cluster, 1);
    offer(&cluster, 5, 5, 5, 5);
    (void)run(&cluster, 60);
    for (size_t place = 0; place < PLACES; place++)
        cluster.members[3].links[place] = (struct link){LINK_SLOW, 1000};
    assert_true(run(&cluster, 120) < 8 * 1.26);
    for (size_t place = 0; place < PLACES; place++)
        cluster.members[3].links[place] = (struct link){LINK_WELL, 0};
    (void)run(&cluster, 30);
    assert_true(is_near(run(&cluster, 60), 8, 0.03));
    cluster_done(&cluster);
}

/* ---- faults ---- */

/* Faults of up to a minute. At each time every distributor reaches a place that all reach. */
static void break_something(struct cluster *cluster, size_t sound)
{
    struct member *member = &cluster->members[draw(cluster, DISTRIBUTORS)];
    size_t place = (sound + 1 + draw(cluster, PLACES - 1)) % PLACES;
    int64_t until_s = cluster->now_s + 1 + (int64_t)draw(cluster, 60);
    enum link_state how = draw(cluster, 2) == 0 ? LINK_AWAY : LINK_SLOW;

    switch (draw(cluster, 4)) {
    case 0:
        member->links[place] = (struct link){how, until_s};
        break;
    case 1: /* for all */
        for (size_t i = 0; i < DISTRIBUTORS; i++)
            cluster->members[i].links[place] = (struct link){how, until_s};
        break;
    case 2:
        place_restart(cluster, place);
        break;
    default:
        if (draw(cluster, 8) == 0) {
            cluster->unknown += member->unsaid + UNHEARD;
            member_stop(member);
            member_start(cluster, member);
        }
        break;
    }
}

static void move_load(struct cluster *cluster)
{
    static const double loads[] = {0, 0, 2, 5, 20};

    for (size_t i = 0; i < DISTRIBUTORS; i++)
        cluster->members[i].offered_mb_s = loads[draw(cluster, FG_COUNT(loads))];
    cluster->members[draw(cluster, DISTRIBUTORS)].offered_mb_s = 20; /* more than the rate */
}

/* Runs for a while with faults, and returns the MiB per second that pass. */
static double run_broken(struct cluster *cluster, int64_t seconds)
{
    size_t sound = draw(cluster, PLACES);
    uint64_t before = cluster->acknowledged;

    for (int64_t i = 0; i < seconds; i++) {
        if (draw(cluster, 5) == 0)
            break_something(cluster, sound);
        if (draw(cluster, 120) == 0)
            move_load(cluster);
        second(cluster);
    }
    return (double)(cluster->acknowledged - before) / MIB / (double)seconds;
}

static void a_rate_holds_under_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < test_seeds(3); seed++) {
        struct cluster cluster;
        double rate;

        cluster_init(&cluster, seed);
        move_load(&cluster);
        rate = run_broken(&cluster, 900);
        if (rate < 8 * 0.85 || rate > 8 * 1.15)
            fail_msg("seed %llu: %f MiB/s", (unsigned long long)seed, rate);
        cluster_done(&cluster);
    }
}

/* ---- the limit of a period ---- */

static void a_period_ends_at_its_limit_under_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < test_seeds(3); seed++) {
        struct cluster cluster;
        double over;

        cluster_init(&cluster, seed);
        cluster.quota = (struct fg_quota_limit){(uint64_t)3000 * MIB, FG_QUOTA_HOUR};
        move_load(&cluster);
        (void)run_broken(&cluster, 1500); /* 12,000 MiB are offered at least */
        /* Never too early; and no more than what passes while others have not heard. */
        over = ((double)cluster.acknowledged - (double)cluster.quota.bytes) / MIB;
        if (cluster.refused_early > 0 || over < 0 || over - (double)cluster.unknown / MIB > 64)
            fail_msg("seed %llu: %f MiB over, %llu refused early", (unsigned long long)seed, over,
                     (unsigned long long)cluster.refused_early);
        /* All processes restart, the places with what they have saved. */
        for (size_t i = 0; i < PLACES; i++) {
            save(&cluster, i);
            place_restart(&cluster, i);
        }
        for (size_t i = 0; i < DISTRIBUTORS; i++) {
            memset(cluster.members[i].links, 0, sizeof cluster.members[i].links);
            member_stop(&cluster.members[i]);
            member_start(&cluster, &cluster.members[i]);
        }
        offer(&cluster, 4, 4, 4, 4);
        assert_true(run(&cluster, 300) * 300 < 100);
        /* The next hour. */
        cluster.now_s = 3600;
        cluster.acknowledged = 0;
        assert_true(run(&cluster, 60) > 7);
        assert_true(cluster.refused_early == 0);
        cluster_done(&cluster);
    }
}

/* Runs until the limit is reached, and returns the MiB that passed beyond it. */
static double over_the_limit(struct cluster *cluster, int64_t seconds)
{
    (void)run(cluster, seconds);
    return ((double)cluster->acknowledged - (double)cluster->quota.bytes) / MIB;
}

/* The new period begins before the old one, or with it, or ends before it. */
static void a_limit_of_another_period_holds_for_all_together(void **state)
{
    static const enum fg_quota_period periods[] = {FG_QUOTA_WEEK, FG_QUOTA_MONTH, FG_QUOTA_DAY,
                                                   FG_QUOTA_HOUR, FG_QUOTA_DAY};
    struct cluster cluster;

    (void)state;
    cluster_init(&cluster, 1);
    for (size_t i = 0; i < FG_COUNT(periods); i++) {
        double over;

        cluster.quota = (struct fg_quota_limit){(uint64_t)600 * MIB, periods[i]};
        cluster.acknowledged = 0;
        offer(&cluster, 4, 4, 4, 4);
        over = over_the_limit(&cluster, 150); /* 1,200 MiB at the rate */
        /* It was a limit of days before: what the places know of them holds again. */
        if (i + 1 == FG_COUNT(periods))
            assert_true(cluster.acknowledged <= (uint64_t)64 * MIB);
        else if (over < 0 || over > 64)
            fail_msg("period %d: %f MiB over", (int)periods[i], over);
    }
    cluster_done(&cluster);
}

/* One distributor whose clock is ahead of the others' is in the next hour already. */
static void a_clock_that_is_ahead_leaves_the_others_their_counts(void **state)
{
    struct cluster cluster;
    double over;

    (void)state;
    cluster_init(&cluster, 1);
    cluster.members[3].ahead_s = 50 * 60;
    cluster.now_s = 20 * 60;
    cluster.quota = (struct fg_quota_limit){(uint64_t)600 * MIB, FG_QUOTA_HOUR};
    offer(&cluster, 4, 4, 4, 0.01);
    over = over_the_limit(&cluster, 150);
    assert_true(over >= 0 && over < 64);
    assert_true(cluster.members[3].clock.apart && !cluster.members[0].clock.apart);
    /* It counts with the others as soon as they are in that hour. */
    cluster.now_s = 3600;
    cluster.acknowledged = 0;
    offer(&cluster, 4, 4, 4, 4);
    over = over_the_limit(&cluster, 150);
    assert_true(over > -16 && over < 64);
    cluster_done(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_holds_however_load_is_divided),
        cmocka_unit_test(demand_within_the_rate_passes),
        cmocka_unit_test(load_that_moves_is_followed),
        cmocka_unit_test(without_a_place_each_has_an_equal_part),
        cmocka_unit_test(one_that_is_cut_off_takes_a_part),
        cmocka_unit_test(a_rate_holds_under_faults),
        cmocka_unit_test(a_period_ends_at_its_limit_under_faults),
        cmocka_unit_test(a_limit_of_another_period_holds_for_all_together),
        cmocka_unit_test(a_clock_that_is_ahead_leaves_the_others_their_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
