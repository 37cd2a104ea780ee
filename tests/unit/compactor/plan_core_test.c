/*
 * The plan core against a model that carries jobs out: whatever arrives, and whenever, every
 * profile is in one uncovered segment or one block; jobs keep to their bounds; and once nothing
 * more comes, plans come to an end with days of as few blocks as fit.
 */
#include "compactor/plan_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PROFILES_MAX = 4000, PROFILE_BYTES = 1000, OBJECTS_MAX = 8000 };

#define NOW (INT64_C(20000) * PLAN_DAY_NS)

static struct cmp_plan_config config = {.hour_delay_ns = 10 * FG_MINUTE_NS,
                                        .day_delay_ns = 2 * FG_HOUR_NS,
                                        .segment_wait_ns = 2 * FG_HOUR_NS,
                                        .fold_after_ns = PLAN_DAY_NS,
                                        .fold_quiet_ns = FG_HOUR_NS,
                                        .job_max_bytes = 400 * PROFILE_BYTES,
                                        .sources_max = 40,
                                        .rollup_min_bytes = 5 * PROFILE_BYTES,
                                        .whole_max_bytes = 300 * PROFILE_BYTES,
                                        .retention.rollups_ns = 1};

struct profile {
    int64_t time_ns;
    uint16_t shard;
    uint32_t object;
};

/* A segment or block; which, its manifest says. */
struct object {
    bool live;
    uint64_t generation; /* of a segment; 0: a block */
    struct fg_id id;     /* of a block */
};

struct world {
    struct profile profiles[PROFILES_MAX];
    struct object objects[OBJECTS_MAX];
    uint32_t n_profiles, n_objects;
    struct fg_arena *arena;
    struct fg_l0 l0;
    struct fg_blocks blocks;
    int64_t wall_ns;
    uint64_t random, jobs, rewritten_bytes;
    uint64_t nodes[PLAN_MONTH + 1]; /* made, by level */
    uint64_t kept;                  /* jobs that replace blocks by rollups */
};

static uint64_t draw(struct world *world, uint64_t below)
{
    world->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(world->random) % below;
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void world_open(struct world *world, uint64_t seed)
{
    *world = (struct world){.arena = fg_arena_create(SIZE_MAX / 2), .wall_ns = NOW, .random = seed};
    world->l0 = fg_l0_none();
    world->blocks = fg_blocks_none(FG_LIT("acme"));
}

static uint32_t object_add(struct world *world, uint64_t generation, struct fg_id id)
{
    assert_true(world->n_objects < OBJECTS_MAX);
    world->objects[world->n_objects] = (struct object){true, generation, id};
    return world->n_objects++;
}

/* ---- segments ---- */

/* Mostly of the last minutes; sometimes hours late, sometimes of long ago or from a wrong clock. */
static int64_t draw_time(struct world *world)
{
    switch (draw(world, 40)) {
    case 0:
        return world->wall_ns - (int64_t)draw(world, (uint64_t)PLAN_DAY_NS);
    case 1:
        return world->wall_ns - (int64_t)draw(world, (uint64_t)(20 * PLAN_DAY_NS));
    case 2:
        return world->wall_ns + (int64_t)draw(world, (uint64_t)(2 * PLAN_DAY_NS));
    default:
        return world->wall_ns - (int64_t)draw(world, (uint64_t)(15 * FG_MINUTE_NS));
    }
}

static void commit(struct world *world, const struct fg_l0_new_part *part)
{
    const struct fg_l0_new segment = {.id = {{7, 7}, world->l0.generation + 1, 1},
                                      .bytes = part->profiles * PROFILE_BYTES,
                                      .profiles = part->profiles,
                                      .t_min_ns = part->t_min_ns,
                                      .t_max_ns = part->t_max_ns,
                                      .parts = part,
                                      .n_parts = 1,
                                      .groups = fg_late_filter_none()};
    struct fg_err err;

    must(fg_l0_commit(&world->l0, &segment, world->wall_ns, 1, world->arena, &world->l0, &err),
         &err);
}

static void arrive(struct world *world, uint32_t n, unsigned spread_bits)
{
    struct fg_l0_new_part part = {FG_LIT("acme"), INT64_MAX, INT64_MIN, n, {0}};
    uint32_t object = object_add(world, world->l0.generation + 1, (struct fg_id){0, 0});

    for (uint32_t i = 0; i < n; i++) {
        struct profile *profile = &world->profiles[world->n_profiles++];

        profile->time_ns = draw_time(world);
        profile->shard = (uint16_t)(draw(world, UINT64_C(1) << spread_bits) << (16 - spread_bits));
        profile->object = object;
        part.t_min_ns = FG_MIN(part.t_min_ns, profile->time_ns);
        part.t_max_ns = FG_MAX(part.t_max_ns, profile->time_ns);
    }
    commit(world, &part);
}

/* ---- carrying out ---- */

static bool is_source(const struct world *world, const struct cmp_plan_job *job, uint32_t number)
{
    const struct object *object = &world->objects[number];

    if (!object->live)
        return false;
    for (uint32_t i = 0; i < job->n_segments; i++)
        if (object->generation == job->segments[i])
            return true;
    for (uint32_t i = 0; i < job->n_blocks; i++)
        if (object->generation == 0 && fg_id_eq(object->id, job->blocks[i]))
            return true;
    return false;
}

/* A block of those profiles of the sources that are in span and range. */
static bool make_block(struct world *world, const bool *sources, const struct cmp_plan_span *span,
                       struct cmp_plan_range range, struct fg_blocks_entry *entry)
{
    uint32_t object = world->n_objects;

    *entry =
        (struct fg_blocks_entry){.id = cmp_plan_block_id(world->wall_ns, draw(world, UINT64_MAX)),
                                 .level = (uint8_t)span->level,
                                 .start_ns = span->start_ns,
                                 .end_ns = span->end_ns,
                                 .t_min_ns = INT64_MAX,
                                 .t_max_ns = INT64_MIN,
                                 .shard_first = UINT16_MAX};
    for (uint32_t i = 0; i < world->n_profiles; i++) {
        struct profile *profile = &world->profiles[i];

        if (profile->object >= object || !sources[profile->object] ||
            profile->time_ns < span->start_ns || profile->time_ns >= span->end_ns ||
            profile->shard < range.first || profile->shard > range.last)
            continue;
        profile->object = object;
        entry->profiles++;
        entry->t_min_ns = FG_MIN(entry->t_min_ns, profile->time_ns);
        entry->t_max_ns = FG_MAX(entry->t_max_ns, profile->time_ns);
        entry->shard_first = FG_MIN(entry->shard_first, profile->shard);
        entry->shard_last = FG_MAX(entry->shard_last, profile->shard);
    }
    entry->bytes = entry->profiles * PROFILE_BYTES;
    if (entry->profiles > 0)
        (void)object_add(world, 0, entry->id);
    return entry->profiles > 0;
}

static uint64_t count_in(const struct world *world, const bool *sources,
                         const struct cmp_plan_span *span, struct cmp_plan_range *shards)
{
    uint64_t n = 0;

    *shards = (struct cmp_plan_range){UINT16_MAX, 0};
    for (uint32_t i = 0; i < world->n_profiles; i++) {
        const struct profile *profile = &world->profiles[i];

        if (!sources[profile->object] || profile->time_ns < span->start_ns ||
            profile->time_ns >= span->end_ns)
            continue;
        n++;
        shards->first = FG_MIN(shards->first, profile->shard);
        shards->last = FG_MAX(shards->last, profile->shard);
    }
    return n;
}

static uint32_t make_blocks(struct world *world, const struct cmp_plan_job *job,
                            const bool *sources, struct fg_blocks_entry *entries)
{
    struct cmp_plan_span span = {job->level, job->start_ns, job->end_ns};
    uint32_t n = 0;

    if (job->kind == PLAN_MERGE) {
        for (uint32_t r = 0; r < job->n_ranges; r++)
            n += make_block(world, sources, &span, job->ranges[r], &entries[n]);
        return n;
    }
    for (uint32_t i = 0; i < world->n_profiles; i++) {
        struct cmp_plan_range shards, ranges[PLAN_SHARES_MAX];
        uint32_t n_ranges;
        uint64_t count;

        if (!sources[world->profiles[i].object])
            continue;
        span = cmp_plan_span_of(&config, world->wall_ns, world->profiles[i].time_ns);
        count = count_in(world, sources, &span, &shards);
        n_ranges = cmp_plan_divide(&config, span.level, count * PROFILE_BYTES, shards, ranges);
        for (uint32_t r = 0; r < n_ranges; r++)
            n += make_block(world, sources, &span, ranges[r], &entries[n]);
    }
    return n;
}

/* Adds a parent rollup of blocks, which stay. */
static void carry_out_nodes(struct world *world, const struct cmp_plan_job *job)
{
    struct fg_blocks_entry entry = {
        .id = cmp_plan_block_id(world->wall_ns, draw(world, UINT64_MAX)),
        .level = (uint8_t)job->level,
        .derived = true,
        .start_ns = job->start_ns,
        .end_ns = job->end_ns,
        .from_blocks = job->blocks,
        .n_from_blocks = job->n_blocks,
    };
    const struct fg_blocks_change change = {.add = &entry, .n_add = 1};
    struct fg_err err;
    bool changed;

    for (uint32_t i = 0; i < job->n_blocks; i++) {
        const struct fg_blocks_entry *from = fg_blocks_find(&world->blocks, job->blocks[i]);

        assert_true(from->start_ns >= job->start_ns && from->end_ns <= job->end_ns);
        assert_int_equal(from->level, job->level == PLAN_6_HOURS ? PLAN_HOUR : PLAN_DAY);
        assert_false(from->patch);
    }
    assert_true(job->end_ns <= world->wall_ns);
    must(fg_blocks_apply(&world->blocks, &world->l0, &change, world->wall_ns, world->arena,
                         &world->blocks, &changed, &err),
         &err);
    assert_true(changed);
    world->nodes[job->level]++;
}

/* Replaces blocks by a rollup-only object, which has the sums of all that they had. */
static void carry_out_keep(struct world *world, const struct cmp_plan_job *job)
{
    struct fg_blocks_entry entry = {
        .id = cmp_plan_block_id(world->wall_ns, draw(world, UINT64_MAX)),
        .level = (uint8_t)job->level,
        .derived = true,
        .rollup_only = true,
        .start_ns = job->start_ns,
        .end_ns = job->end_ns,
        .t_min_ns = INT64_MAX,
        .t_max_ns = INT64_MIN,
    };
    const struct fg_blocks_change change = {
        .add = &entry, .n_add = 1, .replace = job->blocks, .n_replace = job->n_blocks};
    uint32_t object = object_add(world, 0, entry.id);
    struct fg_err err;
    bool changed;

    assert_true(job->end_ns <= fg_time_add(world->wall_ns, -config.retention.profiles_ns));
    for (uint32_t i = 0; i < job->n_blocks; i++) {
        const struct fg_blocks_entry *from = fg_blocks_find(&world->blocks, job->blocks[i]);

        assert_true(from->start_ns >= job->start_ns && from->end_ns <= job->end_ns);
        assert_false(from->derived);
        entry.profiles += from->profiles;
        entry.t_min_ns = FG_MIN(entry.t_min_ns, from->t_min_ns);
        entry.t_max_ns = FG_MAX(entry.t_max_ns, from->t_max_ns);
    }
    for (uint32_t i = 0; i < world->n_profiles; i++)
        if (is_source(world, job, world->profiles[i].object))
            world->profiles[i].object = object;
    must(fg_blocks_apply(&world->blocks, &world->l0, &change, world->wall_ns, world->arena,
                         &world->blocks, &changed, &err),
         &err);
    assert_true(changed);
    world->kept++;
}

static void carry_out(struct world *world, const struct cmp_plan_job *job)
{
    static struct fg_blocks_entry entries[OBJECTS_MAX];
    bool *sources = fg_calloc(OBJECTS_MAX + 1, sizeof *sources);
    struct fg_blocks_change change = {.add = entries,
                                      .cover = job->segments,
                                      .n_cover = job->n_segments,
                                      .replace = job->blocks,
                                      .n_replace = job->n_blocks};
    struct fg_err err;
    bool changed;

    if (job->kind == PLAN_ROLLUP || job->kind == PLAN_ROLLUP_ONLY) {
        free(sources);
        (job->kind == PLAN_ROLLUP ? carry_out_nodes : carry_out_keep)(world, job);
        return;
    }
    for (uint32_t i = 0; i < world->n_objects; i++)
        sources[i] = is_source(world, job, i);
    if (job->kind != PLAN_DROP)
        change.n_add = make_blocks(world, job, sources, entries);
    for (uint32_t i = 0; i < OBJECTS_MAX; i++)
        if (sources[i])
            world->objects[i].live = false;
    must(fg_blocks_apply(&world->blocks, &world->l0, &change, world->wall_ns, world->arena,
                         &world->blocks, &changed, &err),
         &err);
    assert_true(changed);
    world->jobs++;
    world->rewritten_bytes += job->bytes;
    free(sources);
}

/* ---- laws ---- */

static void check_jobs(const struct world *world, const struct cmp_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_jobs; i++) {
        const struct cmp_plan_job *job = &plan->jobs[i];

        assert_true(job->n_segments + job->n_blocks > 0);
        if (job->kind == PLAN_ROLLUP)
            continue;
        if (job->kind == PLAN_ROLLUP_ONLY) {
            assert_true(job->bytes <= (PLAN_ROLLUP_ONLY_JOBS + 1) * config.job_max_bytes ||
                        job->n_blocks == 1);
            continue;
        }
        assert_true(job->kind == PLAN_DROP || job->bytes <= config.job_max_bytes ||
                    job->n_segments + job->n_blocks == 1);
        assert_true(job->kind == PLAN_DROP ||
                    job->n_segments + job->n_blocks <= config.sources_max);
        for (uint32_t k = 0; k < i; k++)
            for (uint32_t b = 0; b < job->n_blocks; b++)
                for (uint32_t c = 0; c < plan->jobs[k].n_blocks; c++)
                    assert_false(fg_id_eq(job->blocks[b], plan->jobs[k].blocks[c]));
        for (uint32_t b = 0; b < job->n_blocks; b++)
            assert_non_null(fg_blocks_find(&world->blocks, job->blocks[b]));
    }
}

static void check_world(const struct world *world)
{
    uint64_t in_blocks = 0, profiles = 0;

    for (uint32_t i = 0; i < world->n_profiles; i++) {
        const struct object *object = &world->objects[world->profiles[i].object];

        assert_true(object->live);
        if (object->generation != 0)
            assert_false(fg_blocks_covers(&world->blocks, object->generation));
        else
            in_blocks++;
    }
    for (uint32_t i = 0; i < world->blocks.n_blocks; i++)
        if (!world->blocks.blocks[i].derived || world->blocks.blocks[i].rollup_only)
            profiles += world->blocks.blocks[i].profiles;
    assert_int_equal(in_blocks, profiles);
}

/* Plans and carries out, all jobs of a plan or only the first few: as if stopped. */
static uint32_t turn(struct world *world, uint32_t jobs_max)
{
    const struct cmp_plan_input input = {&world->l0,     &world->blocks, NULL, NULL,
                                         world->wall_ns, NULL,           NULL};
    struct cmp_plan plan;
    struct fg_err err;

    must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
    check_jobs(world, &plan);
    for (uint32_t i = 0; i < FG_MIN(plan.n_jobs, jobs_max); i++)
        carry_out(world, &plan.jobs[i]);
    check_world(world);
    return plan.n_jobs;
}

static void settle(struct world *world)
{
    uint32_t turns = 0;

    while (turn(world, UINT32_MAX) > 0)
        assert_true(++turns < 100);
}

/* Days that are over consist of blocks of which no two would fit into a job. */
static void check_days(const struct world *world)
{
    const struct fg_blocks *blocks = &world->blocks;

    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct fg_blocks_entry *a = &blocks->blocks[i], *b = &blocks->blocks[k];

            if (a->derived || b->derived || a->start_ns / PLAN_DAY_NS != b->start_ns / PLAN_DAY_NS)
                continue;
            assert_true(a->bytes + b->bytes > config.job_max_bytes ||
                        a->shard_first > b->shard_last || b->shard_first > a->shard_last);
        }
}

static void plans_of_any_stream_come_to_an_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct world *world = fg_new(struct world);
        unsigned spread_bits = (unsigned)(seed % 5);

        world_open(world, seed);
        while (world->n_profiles < PROFILES_MAX - 64 && world->wall_ns < NOW + 4 * PLAN_DAY_NS) {
            world->wall_ns += (int64_t)draw(world, (uint64_t)FG_HOUR_NS);
            arrive(world, 1 + (uint32_t)draw(world, 60), spread_bits);
            if (draw(world, 3) == 0)
                (void)turn(world, draw(world, 4) == 0 ? 1 : UINT32_MAX);
        }
        for (int day = 0; day < 6; day++) {
            world->wall_ns += PLAN_DAY_NS;
            settle(world);
        }
        check_days(world);
        fg_arena_destroy(world->arena);
        free(world);
    }
}

/* The usual: six segments an hour, day after day. Each profile is written twice, late ones apart.
 */
static void a_steady_stream_gets_the_expected_jobs(void **state)
{
    struct world *world = fg_new(struct world);

    (void)state;
    world_open(world, 1);
    for (int k = 0; k < 6 * 24 * 3; k++) {
        struct fg_l0_new_part part = {
            FG_LIT("acme"), world->wall_ns - FG_MINUTE_NS, world->wall_ns - FG_MINUTE_NS, 2, {0}};
        uint32_t object = object_add(world, world->l0.generation + 1, (struct fg_id){0, 0});

        for (int i = 0; i < 2; i++)
            world->profiles[world->n_profiles++] =
                (struct profile){world->wall_ns - FG_MINUTE_NS, (uint16_t)(i << 15), object};
        commit(world, &part);
        world->wall_ns += 10 * FG_MINUTE_NS;
        (void)turn(world, UINT32_MAX);
    }
    world->wall_ns += PLAN_DAY_NS;
    settle(world);
    assert_in_range(world->rewritten_bytes, 2 * world->n_profiles * PROFILE_BYTES,
                    2 * world->n_profiles * PROFILE_BYTES);
    assert_in_range(world->blocks.n_blocks, 3, 4);
    fg_arena_destroy(world->arena);
    free(world);
}

static uint32_t count_nodes(const struct world *world, enum cmp_plan_level level)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < world->blocks.n_blocks; i++)
        n += world->blocks.blocks[i].derived && world->blocks.blocks[i].level == level;
    return n;
}

/* Some profiles of one time. */
static void arrive_at(struct world *world, int64_t time_ns, uint32_t n)
{
    const struct fg_l0_new_part part = {FG_LIT("acme"), time_ns, time_ns, n, {0}};
    uint32_t object = object_add(world, world->l0.generation + 1, (struct fg_id){0, 0});

    for (uint32_t i = 0; i < n; i++)
        world->profiles[world->n_profiles++] = (struct profile){time_ns, 0, object};
    commit(world, &part);
}

static void drop(struct world *world, const struct cmp_plan_job *job)
{
    const struct fg_blocks_change change = {.replace = job->blocks, .n_replace = job->n_blocks};
    struct fg_err err;
    bool changed;

    assert_int_equal(job->kind, PLAN_DROP);
    must(fg_blocks_apply(&world->blocks, &world->l0, &change, world->wall_ns, world->arena,
                         &world->blocks, &changed, &err),
         &err);
}

/* A span that is over gets one parent rollup, which lives as long as its blocks. */
static void parent_rollups_are_planned_when_settled(void **state)
{
    struct world *world = fg_new(struct world);
    const int64_t week = 7 * PLAN_DAY_NS, month = 4 * week, first = (NOW / month + 1) * month;

    (void)state;
    world_open(world, 1);
    world->wall_ns = first;
    for (int hour = 0; hour < 24 * 60; hour++) {
        arrive_at(world, world->wall_ns, hour % 24 == 5 ? 4 : 1);
        world->wall_ns += FG_HOUR_NS;
        if (hour % 24 < 12 || hour % 24 == 23)
            (void)turn(world, UINT32_MAX);
        (void)turn(world, UINT32_MAX);
    }
    settle(world);
    print_message("  made: 6 h %u, weeks %u, 28 days %u\n", (unsigned)world->nodes[PLAN_6_HOURS],
                  (unsigned)world->nodes[PLAN_WEEK], (unsigned)world->nodes[PLAN_MONTH]);
    assert_in_range(world->nodes[PLAN_6_HOURS], 4 * 59, 4 * 60);
    assert_int_equal(world->nodes[PLAN_WEEK], 8);
    assert_int_equal(world->nodes[PLAN_MONTH], 2);
    assert_int_equal(count_nodes(world, PLAN_WEEK), 8);
    assert_int_equal(count_nodes(world, PLAN_MONTH), 2);
    assert_true(count_nodes(world, PLAN_6_HOURS) <= 4);

    /* Late data: a patch changes nothing. Folding it takes the nodes along, and new ones are made
     * at once, since the folded block has nothing that was not there before. */
    arrive_at(world, first + 3 * PLAN_DAY_NS, 1);
    world->wall_ns += 3 * FG_HOUR_NS;
    settle(world);
    assert_int_equal(count_nodes(world, PLAN_WEEK), 8);
    world->wall_ns += config.fold_quiet_ns;
    settle(world);
    assert_int_equal(count_nodes(world, PLAN_WEEK), 8);
    assert_int_equal(count_nodes(world, PLAN_MONTH), 2);
    assert_int_equal(world->nodes[PLAN_WEEK], 9);

    /* What retention has begun to take gets none any more. */
    config.retention.profiles_ns = world->wall_ns - first - PLAN_DAY_NS - FG_HOUR_NS;
    for (int i = 0; i < 2; i++) {
        const struct cmp_plan_input input = {&world->l0,     &world->blocks, NULL, NULL,
                                             world->wall_ns, NULL,           NULL};
        struct cmp_plan plan;
        struct fg_err err;

        must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
        assert_int_equal(plan.n_jobs, 1 - i);
        if (i == 0)
            drop(world, &plan.jobs[0]);
        assert_int_equal(count_nodes(world, PLAN_WEEK), 7);
        assert_int_equal(count_nodes(world, PLAN_MONTH), 1);
    }
    config.retention.profiles_ns = 0;
    fg_arena_destroy(world->arena);
    free(world);
}

static uint32_t count_blocks(const struct world *world, enum cmp_plan_level level)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < world->blocks.n_blocks; i++)
        n += !world->blocks.blocks[i].derived && world->blocks.blocks[i].level == level;
    return n;
}

/* Hours that are too small for a parent rollup become one block, once six of them are over. */
static void small_hours_become_a_block(void **state)
{
    const int64_t first = (NOW / PLAN_DAY_NS + 1) * PLAN_DAY_NS;
    const uint64_t before = config.rollup_min_bytes;
    struct world *world = fg_new(struct world);

    (void)state;
    config.rollup_min_bytes = 10 * PROFILE_BYTES;
    world_open(world, 1);
    world->wall_ns = first;
    for (uint32_t hour = 0; hour < 24; hour++) {
        uint32_t over = (hour + 1) / 6, rest = (hour + 1) % 6;

        /* In the third quarter there is more. */
        arrive_at(world, world->wall_ns, hour / 6 == 2 ? 2 : 1);
        world->wall_ns += FG_HOUR_NS + config.hour_delay_ns;
        settle(world);
        assert_int_equal(count_blocks(world, PLAN_6_HOURS), over < 3 ? over : over - 1);
        assert_int_equal(count_blocks(world, PLAN_HOUR), over < 3 ? rest : rest + 6);
        assert_int_equal(count_nodes(world, PLAN_6_HOURS), over >= 3);
        world->wall_ns -= config.hour_delay_ns;
    }

    /* Late data stays apart until the day is over. */
    arrive_at(world, first + FG_HOUR_NS, 1);
    world->wall_ns += FG_HOUR_NS;
    settle(world);
    assert_int_equal(count_blocks(world, PLAN_6_HOURS), 3);
    assert_int_equal(count_blocks(world, PLAN_HOUR), 7);
    world->wall_ns += config.day_delay_ns;
    settle(world);
    assert_int_equal(world->blocks.n_blocks, 1);
    assert_int_equal(count_blocks(world, PLAN_DAY), 1);
    config.rollup_min_bytes = before;
    fg_arena_destroy(world->arena);
    free(world);
}

/* Of a block of a day that is read in parts there is a parent rollup, which is read as a whole. */
static void large_days_get_rollups_of_their_own(void **state)
{
    const int64_t first = (NOW / PLAN_DAY_NS + 1) * PLAN_DAY_NS;
    struct world *world = fg_new(struct world);

    (void)state;
    world_open(world, 1);
    world->wall_ns = first;
    arrive_at(world, first, 300);
    arrive_at(world, first + PLAN_DAY_NS, 301);
    world->wall_ns = first + 2 * PLAN_DAY_NS + config.day_delay_ns;
    settle(world);
    assert_int_equal(count_blocks(world, PLAN_DAY), 2);
    assert_int_equal(count_nodes(world, PLAN_DAY), 0); /* not settled yet */

    /* A patch that is too small to be folded now is a part of it. */
    arrive_at(world, first + PLAN_DAY_NS, 1);
    world->wall_ns += config.hour_delay_ns;
    settle(world);
    assert_int_equal(count_blocks(world, PLAN_DAY), 3);
    assert_int_equal(count_nodes(world, PLAN_DAY), 0);
    world->wall_ns += config.fold_quiet_ns;
    settle(world);
    assert_int_equal(count_blocks(world, PLAN_DAY), 3);
    assert_int_equal(count_nodes(world, PLAN_DAY), 1);
    for (uint32_t i = 0; i < world->blocks.n_blocks; i++)
        assert_true(!world->blocks.blocks[i].derived || world->blocks.blocks[i].n_from_blocks == 2);
    fg_arena_destroy(world->arena);
    free(world);
}

static void expired_blocks_are_dropped(void **state)
{
    struct world *world = fg_new(struct world);
    struct cmp_plan_input input;
    struct cmp_plan plan;
    struct fg_err err;

    (void)state;
    world_open(world, 2);
    arrive(world, 50, 4);
    world->wall_ns += 2 * PLAN_DAY_NS;
    settle(world);
    assert_true(world->blocks.n_blocks > 0);
    config.retention.profiles_ns = 40 * PLAN_DAY_NS;
    world->wall_ns += 30 * PLAN_DAY_NS;
    input =
        (struct cmp_plan_input){&world->l0, &world->blocks, NULL, NULL, world->wall_ns, NULL, NULL};
    must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
    for (uint32_t i = 0; i < plan.n_jobs; i++) {
        assert_int_equal(plan.jobs[i].kind, PLAN_DROP);
        for (uint32_t b = 0; b < plan.jobs[i].n_blocks; b++)
            assert_true(fg_blocks_find(&world->blocks, plan.jobs[i].blocks[b])->t_max_ns <
                        cmp_retention_keep_from_ns(&config.retention, world->wall_ns));
    }
    world->wall_ns += 30 * PLAN_DAY_NS;
    input.wall_ns = world->wall_ns;
    must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
    assert_int_equal(plan.n_jobs, 1);
    assert_int_equal(plan.jobs[0].n_blocks, world->blocks.n_blocks);
    config.retention.profiles_ns = 0;
    fg_arena_destroy(world->arena);
    free(world);
}

static uint32_t count_alone(const struct world *world)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < world->blocks.n_blocks; i++)
        n += world->blocks.blocks[i].rollup_only;
    return n;
}

/* Rollups are kept for longer than profiles: weeks replace their days whatever comes late, and no
 * profile is lost until it is older than the retention of rollups. */
static void expired_weeks_are_replaced_by_rollups(void **state)
{
    const int64_t week = 7 * PLAN_DAY_NS, first = (NOW / week + 1) * week;
    struct world *world = fg_new(struct world);

    (void)state;
    world_open(world, 4);
    config.retention.profiles_ns = 10 * PLAN_DAY_NS;
    config.retention.rollups_ns = 60 * PLAN_DAY_NS;
    world->wall_ns = first;
    for (int half = 0; half < 2 * 7 * 6; half++) {
        arrive_at(world, world->wall_ns, 1 + (uint32_t)draw(world, 4));
        world->wall_ns += PLAN_DAY_NS / 2;
        (void)turn(world, draw(world, 5) == 0 ? 1 : UINT32_MAX);
    }
    settle(world);
    /* Of six weeks the last ten days are there, and what of their week is older. */
    assert_int_equal(count_alone(world), 4);
    assert_int_equal(world->kept, 4);

    /* Late data lives like other data of its day: after a while it has a rollup of its own. */
    arrive_at(world, first + PLAN_DAY_NS, 3);
    world->wall_ns += 3 * FG_HOUR_NS;
    settle(world);
    assert_int_equal(count_alone(world), 4);
    world->wall_ns += FG_HOUR_NS;
    settle(world);
    assert_int_equal(count_alone(world), 5);

    /* What a deletion names goes first. */
    arrive_at(world, first + PLAN_DAY_NS, 3);
    world->wall_ns += 3 * FG_HOUR_NS;
    settle(world);
    world->wall_ns += FG_HOUR_NS;
    bool *deleted = fg_calloc(world->blocks.n_blocks, sizeof *deleted);
    const struct cmp_plan_input input = {&world->l0,     &world->blocks, deleted, NULL,
                                         world->wall_ns, NULL,           NULL};
    struct cmp_plan plan;
    struct fg_err err;
    for (uint32_t i = 0; i < world->blocks.n_blocks; i++)
        deleted[i] = world->blocks.blocks[i].start_ns < first + week;
    must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
    assert_int_equal(plan.n_jobs, 3);
    for (uint32_t i = 0; i < plan.n_jobs; i++) {
        assert_string_equal(plan.jobs[i].why, "deletion");
        assert_int_equal(plan.jobs[i].n_blocks, 1);
        assert_int_equal(plan.jobs[i].kind == PLAN_ROLLUP_DELETION,
                         fg_blocks_find(&world->blocks, plan.jobs[i].blocks[0])->rollup_only);
    }
    free(deleted);

    /* For ever is for ever; else they are too old themselves one day. */
    config.retention.rollups_ns = 0;
    world->wall_ns += 500 * PLAN_DAY_NS;
    settle(world);
    assert_int_equal(count_alone(world), world->blocks.n_blocks);
    config.retention.rollups_ns = 7 * PLAN_DAY_NS;
    const struct cmp_plan_input later = {&world->l0,     &world->blocks, NULL, NULL,
                                         world->wall_ns, NULL,           NULL};
    must(cmp_plan_make(&config, &later, world->arena, &plan, &err), &err);
    assert_int_equal(plan.n_jobs, 1);
    drop(world, &plan.jobs[0]);
    assert_int_equal(world->blocks.n_blocks, 0);
    config.retention.profiles_ns = 0;
    config.retention.rollups_ns = 1;
    fg_arena_destroy(world->arena);
    free(world);
}

static const struct cmp_plan_job *job_of(const struct cmp_plan *plan, struct fg_id block)
{
    for (uint32_t i = 0; i < plan->n_jobs; i++)
        for (uint32_t b = 0; b < plan->jobs[i].n_blocks; b++)
            if (fg_id_eq(plan->jobs[i].blocks[b], block))
                return &plan->jobs[i];
    fail_msg("nothing is planned for it");
    return NULL;
}

/* A block that no rollup can be built of delays no other block of its week; it is dropped two weeks
 * late. */
static void broken_blocks_get_jobs_of_their_own(void **state)
{
    const int64_t week = 7 * PLAN_DAY_NS, first = (NOW / week + 1) * week;
    enum cmp_plan_trouble troubles[7] = {[1] = PLAN_SUSPECT, [4] = PLAN_BROKEN};
    struct world *world = fg_new(struct world);
    struct cmp_plan_input input;
    struct cmp_plan plan;
    struct fg_err err;

    (void)state;
    world_open(world, 6);
    for (int day = 0; day < 7; day++)
        arrive_at(world, first + day * PLAN_DAY_NS, 3);
    world->wall_ns = first + 9 * PLAN_DAY_NS;
    settle(world);
    config.retention.profiles_ns = 10 * PLAN_DAY_NS;
    config.retention.rollups_ns = 0;
    world->wall_ns = first + week + config.retention.profiles_ns;
    input = (struct cmp_plan_input){&world->l0,     &world->blocks, NULL, troubles,
                                    world->wall_ns, NULL,           NULL};
    must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
    assert_int_equal(world->blocks.n_blocks, 7);
    for (uint32_t i = 0; i < 7; i++) {
        const struct cmp_plan_job *job = job_of(&plan, world->blocks.blocks[i].id);

        assert_int_equal(job->kind, PLAN_ROLLUP_ONLY);
        assert_int_equal(job->n_blocks, troubles[i] == PLAN_SOUND ? 5 : 1);
    }

    input.wall_ns =
        world->blocks.blocks[4].t_max_ns + config.retention.profiles_ns + RETENTION_LOST_NS + 1;
    must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
    assert_int_equal(plan.jobs[0].kind, PLAN_DROP);
    assert_true(plan.jobs[0].lost);
    assert_int_equal(plan.jobs[0].n_blocks, 1);
    assert_true(fg_id_eq(plan.jobs[0].blocks[0], world->blocks.blocks[4].id));
    config.retention.profiles_ns = 0; /* what is kept for ever is not lost either */
    must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
    for (uint32_t i = 0; i < plan.n_jobs; i++)
        assert_int_equal(plan.jobs[i].kind, PLAN_ROLLUP);
    config.retention.rollups_ns = 1;
    fg_arena_destroy(world->arena);
    free(world);
}

static void blocks_of_a_deletion_are_rewritten(void **state)
{
    struct world *world = fg_new(struct world);
    bool *deleted;
    struct cmp_plan_input input;
    struct cmp_plan plan;
    struct fg_err err;

    (void)state;
    world_open(world, 3);
    arrive(world, 60, 4);
    world->wall_ns += 3 * PLAN_DAY_NS;
    settle(world);
    deleted = fg_calloc(world->blocks.n_blocks, sizeof *deleted);
    deleted[1] = true;
    input = (struct cmp_plan_input){&world->l0,     &world->blocks, deleted, NULL,
                                    world->wall_ns, NULL,           NULL};
    must(cmp_plan_make(&config, &input, world->arena, &plan, &err), &err);
    assert_int_equal(plan.n_jobs, 1);
    assert_string_equal(plan.jobs[0].why, "deletion");
    assert_true(fg_id_eq(plan.jobs[0].blocks[0], world->blocks.blocks[1].id));
    assert_int_equal(plan.jobs[0].start_ns, world->blocks.blocks[1].start_ns);
    free(deleted);
    fg_arena_destroy(world->arena);
    free(world);
}

static void spans_cover_all_time(void **state)
{
    static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1,       0, 1,
                                    NOW,       INT64_MAX - 1, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(times); i++) {
        struct cmp_plan_span spans[] = {cmp_plan_span_of(&config, NOW, times[i]),
                                        cmp_plan_month_of(times[i])};

        for (size_t s = 0; s < FG_COUNT(spans); s++) {
            assert_true(spans[s].start_ns <= times[i] && spans[s].start_ns < spans[s].end_ns);
            assert_true(times[i] < spans[s].end_ns || spans[s].end_ns == INT64_MAX);
        }
    }
    assert_int_equal(
        cmp_plan_span_of(&config, NOW, INT64_MIN).end_ns,
        cmp_plan_span_of(&config, NOW, cmp_plan_span_of(&config, NOW, INT64_MIN).end_ns).start_ns);
}

static void large_days_are_divided_by_shards(void **state)
{
    struct cmp_plan_range ranges[PLAN_SHARES_MAX];
    const struct cmp_plan_range all = {0, UINT16_MAX}, one = {77, 77}, some = {100, 300};

    (void)state;
    assert_int_equal(cmp_plan_divide(&config, PLAN_DAY, config.job_max_bytes, all, ranges), 1);
    assert_int_equal(cmp_plan_divide(&config, PLAN_DAY, 3 * config.job_max_bytes, all, ranges), 4);
    assert_int_equal(ranges[1].first, 0x4000);
    assert_int_equal(ranges[3].last, UINT16_MAX);
    assert_int_equal(cmp_plan_divide(&config, PLAN_HOUR, config.job_max_bytes, one, ranges), 1);
    assert_int_equal(cmp_plan_divide(&config, PLAN_DAY, 2 * config.job_max_bytes, some, ranges), 2);
    assert_int_equal(ranges[0].first, 100);
    assert_int_equal(ranges[0].last, 255);
    assert_int_equal(ranges[1].first, 256);
    assert_int_equal(cmp_plan_divide(&config, PLAN_DAY, UINT64_MAX, all, ranges), PLAN_SHARES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_any_stream_come_to_an_end),
        cmocka_unit_test(a_steady_stream_gets_the_expected_jobs),
        cmocka_unit_test(parent_rollups_are_planned_when_settled),
        cmocka_unit_test(small_hours_become_a_block),
        cmocka_unit_test(large_days_get_rollups_of_their_own),
        cmocka_unit_test(expired_blocks_are_dropped),
        cmocka_unit_test(expired_weeks_are_replaced_by_rollups),
        cmocka_unit_test(broken_blocks_get_jobs_of_their_own),
        cmocka_unit_test(blocks_of_a_deletion_are_rewritten),
        cmocka_unit_test(spans_cover_all_time),
        cmocka_unit_test(large_days_are_divided_by_shards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
