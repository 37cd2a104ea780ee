#include "common/cluster/ring/owners.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = 300 };

/* A revision of members "ingester-0" and on, whose zones are given by number. */
struct made {
    char names[MANY][32], zones[MANY][16];
    struct fg_ring_member members[MANY];
    struct fg_ring_place places[MANY];
    struct fg_ring_revision revision;
    struct fg_ring ring;
};

static struct fg_ring_table *make(struct made *made, const unsigned *ids, const unsigned *zones,
                                  uint32_t n, unsigned replicas)
{
    *made = (struct made){0};
    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(made->names[i], sizeof made->names[i], "ingester-%u", ids[i]);
        (void)snprintf(made->zones[i], sizeof made->zones[i], "zone-%u", zones[i]);
        made->members[i].name = fg_cstr(made->names[i]);
        made->places[i] = (struct fg_ring_place){i, fg_cstr(made->zones[i])};
    }
    made->revision = (struct fg_ring_revision){
        .number = 7, .replicas = replicas, .places = made->places, .n_places = n};
    made->ring = (struct fg_ring){
        .members = made->members, .n_members = n, .revisions = &made->revision, .n_revisions = 1};
    return fg_ring_table_create(&made->ring, &made->revision);
}

/* n members in k zones of equal size. */
static struct fg_ring_table *make_even(struct made *made, uint32_t n, unsigned k, unsigned replicas)
{
    unsigned ids[MANY], zones[MANY];

    for (uint32_t i = 0; i < n; i++) {
        ids[i] = i;
        zones[i] = i % k;
    }
    return make(made, ids, zones, n, replicas);
}

/* The slow and obvious version: everyone sorted, taken as the header says. */
struct ranked {
    uint64_t score;
    uint32_t place;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;

    return (a->score < b->score) - (a->score > b->score);
}

static void take(const struct made *made, const struct ranked *ranked, uint32_t n, bool any_zone,
                 unsigned replicas, unsigned *n_owners, uint32_t owners[FG_RING_REPLICAS_MAX])
{
    for (uint32_t i = 0; i < n && *n_owners < replicas; i++) {
        bool taken = false;

        for (unsigned k = 0; k < *n_owners; k++)
            taken |= owners[k] == ranked[i].place ||
                     (!any_zone && fg_slice_eq(made->places[owners[k]].zone,
                                               made->places[ranked[i].place].zone));
        if (!taken)
            owners[(*n_owners)++] = ranked[i].place;
    }
}

static unsigned slow_owners(const struct made *made, uint32_t shard,
                            uint32_t owners[FG_RING_REPLICAS_MAX])
{
    uint32_t n = made->revision.n_places;
    struct ranked ranked[MANY];
    unsigned n_owners = 0;

    for (uint32_t i = 0; i < n; i++)
        ranked[i] =
            (struct ranked){fg_mix64(fg_hash64(made->members[i].name) ^ fg_mix64(shard + 1)), i};
    qsort(ranked, n, sizeof *ranked, compare_ranked);
    take(made, ranked, n, false, made->revision.replicas, &n_owners, owners);
    take(made, ranked, n, true, made->revision.replicas, &n_owners, owners);
    return n_owners;
}

/* n members, zones, replicas */
static const struct {
    uint32_t n;
    unsigned zones, replicas;
} shapes[] = {
    {0, 1, 3}, {1, 1, 1}, {1, 1, 3}, {2, 1, 3},  {2, 2, 3},  {3, 2, 3},   {3, 3, 3},
    {4, 3, 3}, {5, 1, 3}, {6, 2, 2}, {12, 3, 3}, {12, 4, 3}, {20, 20, 2}, {100, 3, 1},
};

static void owners_equal_those_of_the_slow_version(void **state)
{
    (void)state;
    for (size_t s = 0; s < FG_COUNT(shapes); s++) {
        struct made made;
        struct fg_ring_table *table =
            make_even(&made, shapes[s].n, shapes[s].zones, shapes[s].replicas);

        print_message("  %u members in %u zones, %u replicas\n", shapes[s].n, shapes[s].zones,
                      shapes[s].replicas);
        assert_int_equal(table->n_owners, FG_MIN(shapes[s].n, shapes[s].replicas));
        assert_int_equal(table->revision, 7);
        for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard += 31) {
            uint32_t owners[FG_RING_REPLICAS_MAX] = {0};

            assert_int_equal(slow_owners(&made, shard, owners), table->n_owners);
            for (unsigned i = 0; i < table->n_owners; i++)
                assert_int_equal(owners[i], table->owners[shard][i]);
        }
        fg_ring_table_unref(table);
    }
}

/* What is drawn is part of the ring's version: these never change. */
static void owners_never_change(void **state)
{
    static const struct {
        uint32_t shard;
        uint16_t owners[3];
    } wanted[] = {
        {0, {9, 10, 8}}, {1, {1, 5, 6}}, {2, {11, 7, 0}}, {4711, {11, 1, 0}}, {65535, {7, 0, 2}}};
    struct made made;
    struct fg_ring_table *table = make_even(&made, 12, 3, 3);

    (void)state;
    for (size_t i = 0; i < FG_COUNT(wanted); i++)
        assert_memory_equal(table->owners[wanted[i].shard], wanted[i].owners,
                            sizeof wanted[i].owners);
    fg_ring_table_unref(table);
}

static void owners_are_in_different_zones(void **state)
{
    struct made made;
    struct fg_ring_table *table = make_even(&made, 20, 4, 3);

    (void)state;
    for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard++)
        for (unsigned i = 0; i < 3; i++)
            for (unsigned k = 0; k < i; k++)
                assert_int_not_equal(table->owners[shard][i] % 4, table->owners[shard][k] % 4);
    fg_ring_table_unref(table);
}

/* How many shards each place owns; in all, and as first of the owners. */
static void count(const struct fg_ring_table *table, uint32_t counts[MANY], uint32_t firsts[MANY])
{
    memset(counts, 0, MANY * sizeof *counts);
    memset(firsts, 0, MANY * sizeof *firsts);
    for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard++) {
        firsts[table->owners[shard][0]]++;
        for (unsigned i = 0; i < table->n_owners; i++)
            counts[table->owners[shard][i]]++;
    }
}

static void assert_near(double value, double mean)
{
    if (fabs(value - mean) > 6 * sqrt(mean))
        fail_msg("%.0f, not %.0f give or take %.0f", value, mean, 6 * sqrt(mean));
}

static void members_own_equal_shares(void **state)
{
    static const struct {
        uint32_t n;
        unsigned zones, replicas;
    } even[] = {{3, 1, 1}, {4, 1, 3}, {12, 3, 3}, {12, 4, 3}, {30, 3, 2}, {300, 3, 3}, {300, 1, 3}};

    (void)state;
    for (size_t s = 0; s < FG_COUNT(even); s++) {
        uint32_t n = even[s].n, counts[MANY], firsts[MANY];
        struct made made;
        struct fg_ring_table *table = make_even(&made, n, even[s].zones, even[s].replicas);

        print_message("  %u members in %u zones, %u replicas\n", n, even[s].zones,
                      even[s].replicas);
        count(table, counts, firsts);
        for (uint32_t i = 0; i < n; i++) {
            assert_near(counts[i], (double)FG_RING_SHARDS * even[s].replicas / n);
            assert_near(firsts[i], (double)FG_RING_SHARDS / n);
        }
        fg_ring_table_unref(table);
    }
}

/* Neighbouring shards, as one service has them, are spread as well as any others. */
static void neighbouring_shards_are_spread_evenly(void **state)
{
    struct made made;
    struct fg_ring_table *table = make_even(&made, 16, 1, 1);

    (void)state;
    for (uint32_t first = 0; first < FG_RING_SHARDS; first += 4096) {
        uint32_t counts[16] = {0};

        for (uint32_t shard = first; shard < first + 4096; shard++)
            counts[table->owners[shard][0]]++;
        for (uint32_t i = 0; i < 16; i++)
            assert_near(counts[i], 256);
    }
    fg_ring_table_unref(table);
}

static bool owns(const struct fg_ring_table *table, uint32_t shard, uint32_t place)
{
    for (unsigned i = 0; i < table->n_owners; i++)
        if (table->owners[shard][i] == place)
            return true;
    return false;
}

/* The last of `after` joins those of `before`: it replaces one owner of a shard, or none. Returns
 * how many of the owners are others. */
static uint32_t compare(const struct fg_ring_table *before, const struct fg_ring_table *after,
                        uint32_t joins)
{
    uint32_t moved = 0;

    for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard++) {
        uint32_t left = 0;

        for (unsigned i = 0; i < before->n_owners; i++)
            left += !owns(after, shard, before->owners[shard][i]);
        assert_true(left <= 1);
        if (before->n_owners == after->n_owners)
            assert_int_equal(left, owns(after, shard, joins));
        for (unsigned i = 0; i < after->n_owners; i++)
            assert_true(after->owners[shard][i] == joins ||
                        owns(before, shard, after->owners[shard][i]));
        moved += owns(after, shard, joins);
    }
    return moved;
}

static bool same_owners(const struct fg_ring_table *table, uint32_t a, uint32_t b)
{
    return memcmp(table->owners[a], table->owners[b],
                  table->n_owners * sizeof table->owners[a][0]) == 0;
}

static void distinct_has_the_first_shard_of_each_list_of_owners(void **state)
{
    static const struct {
        uint32_t members, lists;
    } cases[] = {{0, 1}, {1, 1}, {2, 2}, {3, 6}, {6, 48}, {12, 384}};

    (void)state;
    for (size_t c = 0; c < FG_COUNT(cases); c++) {
        struct made made;
        struct fg_ring_table *table = make_even(&made, cases[c].members, 3, 3);
        uint32_t listed = 0;

        assert_int_equal(table->n_distinct, cases[c].lists);
        for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard++) {
            uint32_t like = 0;

            for (uint32_t i = 0; i < listed; i++)
                like += same_owners(table, shard, table->distinct[i]);
            if (listed < table->n_distinct && table->distinct[listed] == shard) {
                assert_int_equal(like, 0);
                listed++;
            } else {
                assert_int_equal(like, 1);
            }
        }
        assert_int_equal(listed, table->n_distinct);
        fg_ring_table_unref(table);
    }
}

/* Members come one after another; backwards it is how they leave. */
static void a_new_member_moves_only_its_share(void **state)
{
    static const unsigned zones[] = {1, 2, 3, 5};

    (void)state;
    for (size_t z = 0; z < FG_COUNT(zones); z++) {
        struct made made;
        struct fg_ring_table *before = make_even(&made, 1, zones[z], 3);

        for (uint32_t n = 2; n <= 25; n++) {
            struct fg_ring_table *after = make_even(&made, n, zones[z], 3);
            uint32_t moved = compare(before, after, n - 1);

            /* Of what is owned 1 / n: once all zones are the same size with it. */
            if (n > zones[z] && n > 3 && n % zones[z] == 0)
                assert_true(moved <= 1.1 * after->n_owners * FG_RING_SHARDS / n);
            fg_ring_table_unref(before);
            before = after;
        }
        fg_ring_table_unref(before);
    }
}

/* Any member may leave, any set of zones. */
static void a_leaving_member_moves_only_its_share(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < 20; round++) {
        unsigned ids[12], zones[12];
        struct made made;
        struct fg_ring_table *all, *fewer;
        uint32_t n = 2 + (uint32_t)(fg_mix64(random++) % 10);

        for (uint32_t i = 0; i < n; i++) {
            ids[i] = (unsigned)(fg_mix64(random++) >> 8);
            zones[i] = (unsigned)(fg_mix64(random++) % 4);
        }
        all = make(&made, ids, zones, n, 3);
        fewer = make(&made, ids, zones, n - 1, 3);
        (void)compare(fewer, all, n - 1);
        fg_ring_table_unref(all);
        fg_ring_table_unref(fewer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_equal_those_of_the_slow_version),
        cmocka_unit_test(owners_never_change),
        cmocka_unit_test(owners_are_in_different_zones),
        cmocka_unit_test(members_own_equal_shares),
        cmocka_unit_test(neighbouring_shards_are_spread_evenly),
        cmocka_unit_test(distinct_has_the_first_shard_of_each_list_of_owners),
        cmocka_unit_test(a_new_member_moves_only_its_share),
        cmocka_unit_test(a_leaving_member_moves_only_its_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
