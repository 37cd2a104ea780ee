/* Tests the comparison of replicas against plain sets. */
#include "querier/replicas/replica_compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { REPLICAS = 4, PROFILES = 60, SHARDS = 5, WINDOWS = 3, ROUNDS = 3000 };

struct profile {
    struct fg_id id;
    uint16_t shard;
    uint32_t window;
    bool recent; /* replicas send its id */
    bool held[REPLICAS];
};

struct world {
    uint64_t random;
    struct fg_arena *arena;
    struct profile profiles[PROFILES]; /* ascending by group, then id */
    uint32_t n, n_replicas;
    uint32_t data_of[SHARDS]; /* a replica; n_replicas: no data counts */
    bool summed[REPLICAS][SHARDS];
    bool by_ids[SHARDS][WINDOWS];
};

static uint64_t draw(struct world *world, uint64_t below)
{
    world->random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(world->random) % below;
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

/* Most profiles are on all replicas. */
static void make_world(struct world *world)
{
    unsigned differ_permille = (unsigned[]){0, 20, 400}[draw(world, 3)];

    world->n = (uint32_t)draw(world, PROFILES + 1);
    world->n_replicas = 1 + (uint32_t)draw(world, REPLICAS);
    memset(world->by_ids, 0, sizeof world->by_ids);
    for (uint32_t i = 0; i < world->n; i++) {
        struct profile *profile = &world->profiles[i];

        *profile = (struct profile){
            .id = {draw(world, UINT64_MAX), draw(world, 3)},
            .shard = (uint16_t)draw(world, SHARDS),
            .window = (uint32_t)draw(world, WINDOWS),
            .recent = draw(world, 3) == 0,
        };
        for (uint32_t r = 0; r < REPLICAS; r++)
            profile->held[r] = r < world->n_replicas && draw(world, 1000) >= differ_permille;
    }
    if (world->n > 1)
        qsort(world->profiles, world->n, sizeof world->profiles[0], cmp_profiles);
    for (uint32_t s = 0; s < SHARDS; s++) {
        world->data_of[s] = (uint32_t)draw(world, world->n_replicas + (draw(world, 8) == 0));
        for (uint32_t r = 0; r < REPLICAS; r++)
            world->summed[r][s] = draw(world, 20) != 0;
    }
}

/* ---- answers ---- */

static void set(uint8_t *bits, unsigned bit)
{
    *bits = (uint8_t)(*bits | 1u << bit);
}

static bool is_by_id(const struct world *world, const struct profile *profile)
{
    return profile->recent || world->by_ids[profile->shard][profile->window];
}

/* Computes the sum of the group, with ids in ascending order. */
static void add_to(struct world *world, Fg__Inner__GroupSum *sum, const struct profile *profile)
{
    uint8_t *bytes;

    if (is_by_id(world, profile)) {
        bytes = fg_arena_alloc(world->arena, sum->ids.len + FG_ID_BYTES);
        if (sum->ids.len > 0)
            memcpy(bytes, sum->ids.data, sum->ids.len);
        fg_id_put(bytes + sum->ids.len, profile->id);
        sum->ids = (ProtobufCBinaryData){sum->ids.len + FG_ID_BYTES, bytes};
        return;
    }
    struct fg_id digest = sum->digest.len == 0 ? (struct fg_id){0} : fg_id_get(sum->digest.data);
    bytes = fg_arena_alloc(world->arena, FG_ID_BYTES);
    fg_id_put(bytes, fg_id_add(digest, profile->id));
    sum->digest = (ProtobufCBinaryData){FG_ID_BYTES, bytes};
    sum->count++;
}

static struct qry_replica_compare_answer answer_of(struct world *world, uint32_t replica)
{
    Fg__Inner__GroupSum **sums = fg_arena_new(world->arena, Fg__Inner__GroupSum *, world->n + 1);
    uint8_t *maps = fg_arena_new(world->arena, uint8_t, 2);
    struct qry_replica_compare_answer answer;
    struct qry_shard_map summed;
    struct fg_err err;
    size_t n = 0;

    for (uint32_t s = 0; s < SHARDS; s++) {
        if (world->data_of[s] == replica)
            set(&maps[0], s);
        if (world->summed[replica][s])
            set(&maps[1], s);
    }
    for (uint32_t i = 0; i < world->n; i++) {
        const struct profile *profile = &world->profiles[i];

        if (!profile->held[replica] || !world->summed[replica][profile->shard])
            continue;
        if (n == 0 || sums[n - 1]->shard != profile->shard ||
            sums[n - 1]->window != profile->window) {
            sums[n] = fg_arena_new(world->arena, Fg__Inner__GroupSum, 1);
            fg__inner__group_sum__init(sums[n]);
            sums[n]->shard = profile->shard;
            sums[n++]->window = profile->window;
        }
        add_to(world, sums[n - 1], profile);
    }
    summed = (struct qry_shard_map){0, fg_bytes(&maps[1], 1)};
    assert_int_equal(qry_replica_compare_read(sums, n, &summed, world->arena, &answer, &err),
                     FG_OK);
    answer.data = (struct qry_shard_map){0, fg_bytes(&maps[0], 1)};
    return answer;
}

static struct qry_replica_compare_result ask(struct world *world)
{
    struct qry_replica_compare_answer answers[REPLICAS];
    struct qry_replica_compare_result result;
    struct fg_err err;

    for (uint32_t r = 0; r < world->n_replicas; r++)
        answers[r] = answer_of(world, r);
    assert_int_equal(
        qry_replica_compare_answers(answers, world->n_replicas, world->arena, &result, &err),
        FG_OK);
    return result;
}

/* ---- what has to come out ---- */

static bool differs(const struct qry_replica_compare_result *result, const struct profile *profile)
{
    for (uint32_t i = 0; i < result->n_differ; i++)
        if (result->differ[i].shard == profile->shard &&
            result->differ[i].window == profile->window)
            return true;
    return false;
}

static unsigned times_missing(const struct qry_replica_compare_result *result,
                              const struct profile *profile)
{
    unsigned times = 0;

    for (uint32_t i = 0; i < result->n_missing; i++)
        if (result->missing[i].shard == profile->shard &&
            fg_id_eq(result->missing[i].id, profile->id)) {
            assert_true(profile->held[result->missing[i].from]);
            times++;
        }
    return times;
}

/* In a group without differences each profile is in the data or missing, and never both. */
static void expect_whole(struct world *world, const struct qry_replica_compare_result *result)
{
    for (uint32_t i = 0; i < world->n; i++) {
        const struct profile *profile = &world->profiles[i];
        uint32_t owner = world->data_of[profile->shard];
        bool in_data = owner < world->n_replicas && profile->held[owner], elsewhere = false;

        if (differs(result, profile))
            continue;
        for (uint32_t r = 0; r < world->n_replicas; r++)
            elsewhere |= profile->held[r] && world->summed[r][profile->shard];
        assert_int_equal(times_missing(result, profile), !in_data && elsewhere);
    }
    for (uint32_t i = 1; i < result->n_missing; i++)
        assert_true(result->missing[i - 1].from <= result->missing[i].from);
}

/* Groups that are equal on all replicas are not requested. */
static bool all_hold_alike(const struct world *world, const struct qry_replica_compare_group *group)
{
    for (uint32_t i = 0; i < world->n; i++) {
        const struct profile *profile = &world->profiles[i];

        if (profile->shard != group->shard || profile->window != group->window)
            continue;
        for (uint32_t r = 0; r < world->n_replicas; r++)
            if (!profile->held[r] || !world->summed[r][profile->shard])
                return false;
    }
    return world->data_of[group->shard] < world->n_replicas;
}

static void comparison_finds_each_profile_once(void **state)
{
    struct world world = {.random = 7};

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct qry_replica_compare_result result;

        world.arena = fg_arena_create(SIZE_MAX);
        make_world(&world);
        result = ask(&world);
        expect_whole(&world, &result);
        for (uint32_t i = 0; i < result.n_differ; i++) {
            assert_false(all_hold_alike(&world, &result.differ[i]));
            world.by_ids[result.differ[i].shard][result.differ[i].window] = true;
        }
        /* Compares again, with the ids of groups that differed and the sums of all data. */
        for (uint32_t s = 0; s < SHARDS; s++)
            if (world.data_of[s] < world.n_replicas)
                world.summed[world.data_of[s]][s] = true;
        result = ask(&world);
        assert_int_equal(result.n_differ, 0);
        expect_whole(&world, &result);
        fg_arena_destroy(world.arena);
    }
}

static void the_largest_count_of_each_window_is_added(void **state)
{
    struct qry_replica_compare_sum a[] = {{.shard = 1, .window = 1, .count = 3},
                                          {.shard = 1, .window = 2, .count = 5}};
    struct qry_replica_compare_sum b[] = {{.shard = 1, .window = 2, .count = 6},
                                          {.shard = 2, .window = 1, .count = 1}};
    const struct qry_replica_compare_answer answers[] = {{.sums = a, .n = 2}, {.sums = b, .n = 2}};
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_err err;
    uint64_t count;

    (void)state;
    assert_int_equal(qry_replica_compare_greatest(answers, 2, arena, &count, &err), FG_OK);
    assert_int_equal(count, 3 + 6 + 1);
}

/* ---- what cannot be ---- */

static void expect_corrupt(Fg__Inner__GroupSum *const *sums, size_t n, const char *text)
{
    static const uint8_t bits = 0x06;
    const struct qry_shard_map summed = {8, fg_bytes(&bits, 1)}; /* shards 9 and 10 */
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct qry_replica_compare_answer answer;
    struct fg_err err;

    assert_int_equal(qry_replica_compare_read(sums, n, &summed, arena, &answer, &err),
                     FG_E_CORRUPT);
    assert_string_equal(err.msg, text);
}

static void malformed_answers_are_refused(void **state)
{
    uint8_t ids[2 * FG_ID_BYTES] = {0};
    Fg__Inner__GroupSum a = FG__INNER__GROUP_SUM__INIT, b = FG__INNER__GROUP_SUM__INIT;
    Fg__Inner__GroupSum *const sums[] = {&a, &b};

    (void)state;
    a.shard = 8;
    expect_corrupt(sums, 1, "sum of shard 8, which was not asked for");
    a.shard = 65536 + 9;
    expect_corrupt(sums, 1, "sum of shard 65545, which was not asked for");
    a.shard = b.shard = 9;
    expect_corrupt(sums, 2, "sums of groups are not in order");
    a.shard = 10;
    expect_corrupt(sums, 2, "sums of groups are not in order");
    a.digest = (ProtobufCBinaryData){15, ids};
    expect_corrupt(sums, 1, "sum of shard 10: 15 bytes");
    a.digest.len = 0;
    a.ids = (ProtobufCBinaryData){17, ids};
    expect_corrupt(sums, 1, "ids of shard 10: 17 bytes, or not ascending");
    a.ids.len = sizeof ids;
    expect_corrupt(sums, 1, "ids of shard 10: 32 bytes, or not ascending");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparison_finds_each_profile_once),
        cmocka_unit_test(the_largest_count_of_each_window_is_added),
        cmocka_unit_test(malformed_answers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
