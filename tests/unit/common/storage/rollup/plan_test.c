/*
 * Plans against a slow model: every profile is known, so is which node has it, and what a plan
 * reads is counted profile by profile.
 */
#include "common/storage/rollup/plan.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    SOURCES_MAX = 8,
    SERIES = 12,
    RAW_SOURCES_MAX = 5,
    PROFILES_MAX = 60, /* of a source with profiles */
    ROWS_MAX = 400,
    UNIT = 64, /* the length of a source's time */
};

struct profile {
    int64_t time_ns;
    uint32_t series;
};

struct model {
    struct profile profiles[RAW_SOURCES_MAX * PROFILES_MAX];
    uint32_t n_profiles;
    struct fg_rollups nodes;
    struct fg_rollup_row rows[ROWS_MAX];
    struct fg_plan_series series[SERIES];
    struct fg_id derived_from[SOURCES_MAX];
    uint32_t parts[SOURCES_MAX]; /* sources it is made of */
};

struct world {
    struct fg_arena *arena;
    struct fg_labels labels[SERIES];
    struct fg_groups groups;
    struct model models[SOURCES_MAX];
    struct fg_plan_source sources[SOURCES_MAX];
    uint32_t n_sources;
    bool absent[SOURCES_MAX]; /* not given to the plan */
    struct fg_plan_query query;
    struct fg_selector selector;
    bool matches[SERIES];
};

static struct fg_profile_type types[] = {
    {FG_LIT("process_cpu"), FG_LIT("cpu"), FG_LIT("nanoseconds"), FG_LIT("cpu"),
     FG_LIT("nanoseconds")},
    {FG_LIT("memory"), FG_LIT("inuse_space"), FG_LIT("bytes"), FG_LIT("space"), FG_LIT("bytes")},
};

static const char *const selectors[] = {
    "{}",
    "{region=\"r0\"}",
    "{region!=\"r0\"}",
    "{region=~\"r0|r1\",zone=\"z1\"}",
    "{pod=\"p3\"}",
    "{region=\"r1\",pod!=\"p4\"}",
    "{service_name=\"shop\"}",
    "{service_name=\"other\"}",
    "{region=\"nowhere\"}",
    "{__profile_type__=~\"process_cpu.*\"}",
};

static struct fg_slice text(struct fg_arena *arena, char letter, unsigned number)
{
    return fg_cstr(fg_arena_printf(arena, "%c%u", letter, number));
}

static void make_labels(struct world *world)
{
    static const struct fg_slice wanted[] = FG_GROUPS_DEFAULT;
    struct fg_err err;

    for (uint32_t i = 0; i < SERIES; i++) {
        struct fg_label *items = fg_arena_new(world->arena, struct fg_label, 5);

        items[0] = (struct fg_label){FG_LIT("__name__"), FG_LIT("process_cpu")};
        items[1] = (struct fg_label){FG_LIT("pod"), text(world->arena, 'p', i)};
        items[2] = (struct fg_label){FG_LIT("region"), text(world->arena, 'r', i % 3)};
        items[3] = (struct fg_label){FG_LIT("service_name"), FG_LIT("shop")};
        items[4] = (struct fg_label){FG_LIT("zone"), text(world->arena, 'z', i / 3 % 2)};
        world->labels[i] = (struct fg_labels){items, 5};
    }
    assert_int_equal(fg_groups_choose(world->labels, SERIES, wanted, FG_COUNT(wanted), world->arena,
                                      &world->groups, &err),
                     FG_OK);
    assert_int_equal(world->groups.n_groups, 6);
}

static bool in_key(const struct world *world, const struct fg_rollup_key *key, uint32_t series)
{
    return key->kind == FG_ROLLUP_ALL ||
           (key->kind == FG_ROLLUP_GROUP && world->groups.of_series[series] == key->number) ||
           (key->kind == FG_ROLLUP_SERIES && series == key->number);
}

static uint64_t count_in(const struct world *world, const struct model *model,
                         const struct fg_rollup_key *key)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < model->n_profiles; i++)
        count += model->profiles[i].time_ns >= key->start_ns &&
                 model->profiles[i].time_ns < key->end_ns &&
                 in_key(world, key, model->profiles[i].series);
    return count;
}

static void add_row(const struct world *world, struct model *model, struct fg_rollup_key key,
                    uint32_t type, uint64_t *random)
{
    struct fg_rollup_row *row = &model->rows[model->nodes.n_rows];

    if (model->nodes.n_rows == ROWS_MAX)
        return;
    *row = (struct fg_rollup_row){.key = key, .type = type, .factor = 1};
    row->count = count_in(world, model, &key);
    for (unsigned what = 0; what < FG_ROLLUP_FORMS && row->count > 0; what++)
        if (slow_random(random) % 3 > 0)
            row->places[what].bytes = 1 + (uint32_t)(slow_random(random) % 200);
    model->nodes.n_rows++;
}

static int compare_rows(const void *left, const void *right)
{
    const struct fg_rollup_row *a = left, *b = right;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return fg_rollup_key_cmp(&a->key, &b->key);
}

/* Rows of random keys over the time, halves, quarters, eighths of it; some cross others, if so
 * wanted. */
static void add_rows(const struct world *world, struct model *model, int64_t start_ns, int64_t len,
                     bool cross, uint64_t *random)
{
    uint32_t count = (uint32_t)(slow_random(random) % 120), kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        int64_t step = FG_MAX(len >> slow_random(random) % 4, 1);
        struct fg_rollup_key key = {.start_ns =
                                        start_ns + (int64_t)(slow_random(random) % 8) * step % len};

        key.end_ns = key.start_ns + step;
        if (cross && slow_random(random) % 16 == 0)
            key.end_ns += (int64_t)(slow_random(random) % 9);
        key.kind = (enum fg_rollup_kind)(slow_random(random) % 3);
        if (key.kind == FG_ROLLUP_GROUP)
            key.number = (uint32_t)(slow_random(random) % 6);
        else if (key.kind == FG_ROLLUP_SERIES)
            key.number = (uint32_t)(slow_random(random) % SERIES);
        add_row(world, model, key, slow_random(random) % 8 == 0, random);
    }
    qsort(model->rows, model->nodes.n_rows, sizeof *model->rows, compare_rows);
    for (uint32_t i = 0; i < model->nodes.n_rows; i++)
        if (kept == 0 || compare_rows(&model->rows[kept - 1], &model->rows[i]) != 0)
            model->rows[kept++] = model->rows[i];
    model->nodes.n_rows = kept;
}

/* What a source is said to be, from its profiles. */
static void describe(struct world *world, uint32_t number, bool series_known, uint64_t *random)
{
    struct model *model = &world->models[number];
    struct fg_plan_source *source = &world->sources[number];

    *source = (struct fg_plan_source){.id = {number + 1, slow_random(random)},
                                      .n_profiles = model->n_profiles,
                                      .raw_bytes = model->n_profiles * (slow_random(random) % 200),
                                      .tree_bytes = slow_random(random) % 300};
    model->nodes.types = types;
    model->nodes.n_types = FG_COUNT(types);
    model->nodes.groups = world->groups;
    model->nodes.rows = model->rows;
    if (model->nodes.n_rows > 0)
        source->rollups = &model->nodes;
    for (uint32_t i = 0; i < model->n_profiles; i++) {
        int64_t time_ns = model->profiles[i].time_ns;

        source->t_min_ns = i == 0 ? time_ns : FG_MIN(source->t_min_ns, time_ns);
        source->t_max_ns = i == 0 ? time_ns : FG_MAX(source->t_max_ns, time_ns);
        source->digest = fg_id_add(source->digest, fg_hash128(fg_bytes(&time_ns, sizeof time_ns)));
    }
    for (uint32_t i = 0; i < SERIES; i++)
        model->series[i] = (struct fg_plan_series){i, world->matches[i]};
    if (series_known) {
        source->series = model->series;
        source->n_series = SERIES;
    }
}

static void make_source(struct world *world, uint64_t *random)
{
    uint32_t number = world->n_sources++;
    struct model *model = &world->models[number];
    /* Late data lies at the time of others. */
    int64_t start_ns = (int64_t)(slow_random(random) % 4) * UNIT;

    *model = (struct model){.n_profiles = (uint32_t)(slow_random(random) % PROFILES_MAX)};
    for (uint32_t i = 0; i < model->n_profiles; i++)
        model->profiles[i] = (struct profile){start_ns + (int64_t)(slow_random(random) % UNIT),
                                              (uint32_t)(slow_random(random) % SERIES)};
    if (slow_random(random) % 6 > 0)
        add_rows(world, model, start_ns, UNIT, true, random);
    describe(world, number, slow_random(random) % 2, random);
}

/* A source made of some of the others, sometimes wrongly. */
static void make_made(struct world *world, uint32_t n_raw, uint64_t *random)
{
    uint32_t number = world->n_sources++, n = 0;
    struct model *model = &world->models[number];
    struct fg_rollup_key all = {.start_ns = 0, .end_ns = 8 * UNIT};

    *model = (struct model){0};
    for (uint32_t i = 0; i < n_raw; i++) {
        if (slow_random(random) % 2 == 0)
            continue;
        model->parts[n] = i;
        model->derived_from[n++] = world->sources[i].id;
        for (uint32_t k = 0; k < world->models[i].n_profiles; k++)
            model->profiles[model->n_profiles++] = world->models[i].profiles[k];
    }
    add_row(world, model, all, 0, random);
    if (slow_random(random) % 2 == 0)
        add_rows(world, model, 0, 4 * UNIT, true, random);
    describe(world, number, false, random);
    model->nodes.derived_from = model->derived_from;
    model->nodes.n_derived_from = n;
    if (n > 0 && slow_random(random) % 8 == 0)
        world->sources[number].n_profiles++; /* it is not what it is made of now */
    for (uint32_t i = 0; i < n && world->sources[number].n_profiles == model->n_profiles; i++)
        world->absent[model->parts[i]] = slow_random(random) % 3 > 0;
    if (n == 0)
        world->n_sources--;
}

/* ---- counting ---- */

/* How often each profile of a source is in what the plan reads. */
static void count_row(const struct world *world, uint32_t number, const struct fg_rollup_row *row,
                      int sign, int counts[SOURCES_MAX][PROFILES_MAX])
{
    const struct model *model = &world->models[number];

    if (model->nodes.n_derived_from > 0) {
        for (uint32_t i = 0; i < model->nodes.n_derived_from; i++) {
            const struct model *part = &world->models[model->parts[i]];

            for (uint32_t k = 0; k < part->n_profiles; k++)
                if (part->profiles[k].time_ns >= row->key.start_ns &&
                    part->profiles[k].time_ns < row->key.end_ns &&
                    in_key(world, &row->key, part->profiles[k].series))
                    counts[model->parts[i]][k] += sign;
        }
        return;
    }
    for (uint32_t k = 0; k < model->n_profiles; k++)
        if (model->profiles[k].time_ns >= row->key.start_ns &&
            model->profiles[k].time_ns < row->key.end_ns &&
            in_key(world, &row->key, model->profiles[k].series))
            counts[number][k] += sign;
}

static void count_raw(const struct world *world, const struct fg_plan_raw *raw,
                      int counts[SOURCES_MAX][PROFILES_MAX])
{
    const struct model *model = &world->models[raw->source];
    struct fg_rollup_key key = {.kind = raw->kind, .number = raw->number};

    assert_int_equal(model->nodes.n_derived_from, 0);
    assert_true(raw->start_ns <= raw->end_ns && raw->start_ns >= world->query.start_ns &&
                raw->end_ns <= world->query.end_ns);
    for (uint32_t k = 0; k < model->n_profiles; k++)
        if (model->profiles[k].time_ns >= raw->start_ns &&
            model->profiles[k].time_ns <= raw->end_ns && world->matches[model->profiles[k].series])
            counts[raw->source][k] += in_key(world, &key, model->profiles[k].series);
}

static void check_plan(const struct world *world, const struct fg_plan *plan)
{
    int counts[SOURCES_MAX][PROFILES_MAX] = {0};

    for (uint32_t i = 0; i < plan->n_picks; i++) {
        const struct fg_plan_pick *pick = &plan->picks[i];
        const struct fg_rollup_row *row = &world->models[pick->source].rows[pick->row];

        assert_true(row->places[pick->form].bytes > 0);
        assert_true(pick->form == world->query.form || pick->form == FG_ROLLUP_FULL ||
                    (world->query.crowns_too && world->sources[pick->source].rollup_only));
        assert_true(pick->sign == 1 || pick->form != FG_ROLLUP_CROWN);
        assert_int_equal(row->type, 0);
        count_row(world, pick->source, row, pick->sign, counts);
    }
    for (uint32_t i = 0; i < plan->n_raws; i++)
        count_raw(world, &plan->raws[i], counts);
    for (uint32_t i = 0; i < world->n_sources; i++) {
        const struct model *model = &world->models[i];

        for (uint32_t k = 0; k < model->n_profiles && model->nodes.n_derived_from == 0; k++)
            assert_int_equal(counts[i][k], model->profiles[k].time_ns >= world->query.start_ns &&
                                               model->profiles[k].time_ns <= world->query.end_ns &&
                                               world->matches[model->profiles[k].series]);
    }
}

static void ask(struct world *world, uint64_t *random)
{
    struct fg_err err;

    world->query = (struct fg_plan_query){.type = types[0], .selector = &world->selector};
    world->query.start_ns = (int64_t)(slow_random(random) % (4 * UNIT)) - 10;
    world->query.end_ns = world->query.start_ns + (int64_t)(slow_random(random) % (5 * UNIT));
    if (slow_random(random) % 4 == 0) {
        world->query.start_ns = INT64_MIN;
        world->query.end_ns = INT64_MAX;
    }
    world->query.form = (enum fg_rollup_form)(slow_random(random) % FG_ROLLUP_FORMS);
    world->selector = (struct fg_selector){0};
    assert_int_equal(
        fg_selector_parse(fg_cstr(selectors[slow_random(random) % FG_COUNT(selectors)]),
                          world->arena, &world->selector, &err),
        FG_OK);
    for (uint32_t i = 0; i < SERIES; i++) {
        struct fg_labels seen = fg_labels_with_type(&world->labels[i], &types[0], world->arena);

        world->matches[i] = fg_selector_matches(&world->selector, &seen);
    }
}

/* As a caller does it: what is missing is added until nothing is. How much that was. */
static unsigned make_plan(struct world *world, struct fg_plan *ret_plan)
{
    struct fg_plan_source sources[SOURCES_MAX];
    uint32_t given[SOURCES_MAX], n;
    unsigned missing = 0;
    struct fg_err err;

    for (;; missing += ret_plan->n_missing) {
        n = 0;
        for (uint32_t i = 0; i < world->n_sources; i++)
            if (!world->absent[i]) {
                given[n] = i;
                sources[n++] = world->sources[i];
            }
        assert_int_equal(fg_plan_make(&world->query, sources, n, world->arena, ret_plan, &err),
                         FG_OK);
        if (ret_plan->n_missing == 0)
            break;
        for (uint32_t i = 0; i < ret_plan->n_missing; i++) {
            uint32_t source = 0;

            while (!fg_id_eq(world->sources[source].id, ret_plan->missing[i]))
                source++;
            assert_true(source < world->n_sources && world->absent[source]);
            world->absent[source] = false;
        }
    }
    for (uint32_t i = 0; i < ret_plan->n_picks; i++)
        ret_plan->picks[i].source = given[ret_plan->picks[i].source];
    for (uint32_t i = 0; i < ret_plan->n_raws; i++)
        ret_plan->raws[i].source = given[ret_plan->raws[i].source];
    return missing;
}

/* A rollup-only object has no profiles: a plan has each one in one of its rollups, or is refused.
 */
static void plans_read_no_deleted_profiles(void **state)
{
    static struct world world;
    unsigned answered = 0, refused = 0, crowns = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        uint64_t random = seed;
        uint32_t n_raw = 1 + (uint32_t)(slow_random(&random) % RAW_SOURCES_MAX);
        struct fg_plan plan = {0};
        struct fg_err err;

        world = (struct world){.arena = fg_arena_create(16 << 20)};
        make_labels(&world);
        ask(&world, &random);
        world.query.crowns_too = seed % 2 == 0;
        for (uint32_t i = 0; i < n_raw; i++) {
            make_source(&world, &random);
            world.sources[i].rollup_only =
                world.sources[i].rollups != NULL && slow_random(&random) % 2 == 0;
            if (world.sources[i].rollup_only)
                world.sources[i].series = NULL;
        }
        if (fg_plan_make(&world.query, world.sources, n_raw, world.arena, &plan, &err) == FG_OK) {
            check_plan(&world, &plan);
            for (uint32_t i = 0; i < plan.n_raws; i++)
                assert_false(world.sources[plan.raws[i].source].rollup_only);
            for (uint32_t i = 0; i < plan.n_picks; i++) {
                bool rollup_only = world.sources[plan.picks[i].source].rollup_only;

                answered += rollup_only;
                crowns += rollup_only && plan.picks[i].form != world.query.form;
            }
        } else {
            assert_int_equal(err.code, FG_E_INVALID);
            refused++;
        }
        fg_selector_done(&world.selector);
        fg_arena_destroy(world.arena);
    }
    print_message("  %u rollups of rollup-only objects, %u others, %u plans refused\n", answered,
                  crowns, refused);
    assert_true(answered > 100 && refused > 100 && crowns > 10);
}

static void plans_count_each_profile_once(void **state)
{
    static struct world world;
    unsigned picks = 0, minus = 0, raws = 0, derived = 0, missing = 0, believed = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        uint64_t random = seed;
        uint32_t n_raw = 1 + (uint32_t)(slow_random(&random) % RAW_SOURCES_MAX);
        struct fg_plan plan;

        world = (struct world){.arena = fg_arena_create(16 << 20)};
        make_labels(&world);
        ask(&world, &random);
        for (uint32_t i = 0; i < n_raw; i++)
            make_source(&world, &random);
        while (world.n_sources < SOURCES_MAX && slow_random(&random) % 4 > 0)
            make_made(&world, n_raw, &random);
        missing += make_plan(&world, &plan);
        check_plan(&world, &plan);
        picks += plan.n_picks;
        raws += plan.n_raws;
        for (uint32_t i = 0; i < plan.n_picks; i++) {
            minus += plan.picks[i].sign < 0;
            derived += world.models[plan.picks[i].source].nodes.n_derived_from > 0;
        }
        for (uint32_t i = 0; i < n_raw; i++)
            believed += world.absent[i];
        fg_selector_done(&world.selector);
        fg_arena_destroy(world.arena);
    }
    print_message(
        "  %u nodes, %u subtracted, %u of sources made of others, %u raw; %u sources were "
        "missing, %u not needed\n",
        picks, minus, derived, raws, missing, believed);
    assert_true(picks > 3000 && minus > 50 && derived > 200 && raws > 2000);
    assert_true(missing > 500 && believed > 200);
}

/* ---- the fewest bytes ---- */

enum { CELL_SERIES = 3, CELL_TIMES = 4, CELLS = CELL_SERIES * CELL_TIMES };

/* Cells that a row is about, as bits. */
static unsigned cells_of(const struct world *world, const struct fg_rollup_key *key)
{
    unsigned cells = 0;

    for (uint32_t s = 0; s < CELL_SERIES; s++)
        for (int64_t t = 0; t < CELL_TIMES; t++)
            if (in_key(world, key, s) && t >= key->start_ns && t < key->end_ns)
                cells |= 1u << (s * CELL_TIMES + (unsigned)t);
    return cells;
}

/* The fewest bytes of rows that together are exactly these cells; UINT64_MAX: it cannot be. */
static uint64_t cheapest(const struct world *world, const struct model *model, unsigned wanted)
{
    static uint64_t best[1 << CELLS];

    best[0] = 0;
    for (unsigned cells = 1; cells <= wanted; cells++) {
        best[cells] = UINT64_MAX;
        for (uint32_t i = 0; i < model->nodes.n_rows; i++) {
            unsigned of_row = cells_of(world, &model->rows[i].key);
            uint32_t bytes = model->rows[i].places[FG_ROLLUP_CROWN].bytes;

            if (model->rows[i].type != 0 || bytes == 0 || (of_row & ~cells) != 0 ||
                (of_row & cells & -cells) == 0 || best[cells & ~of_row] == UINT64_MAX)
                continue;
            best[cells] = FG_MIN(best[cells], best[cells & ~of_row] + bytes);
        }
    }
    return best[wanted];
}

static void plans_read_the_fewest_bytes(void **state)
{
    static struct world world;
    unsigned possible = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        uint64_t random = seed, want;
        struct model *model = &world.models[0];
        unsigned wanted = 0;
        struct fg_plan plan;
        struct fg_err err;

        world = (struct world){.arena = fg_arena_create(16 << 20), .n_sources = 1};
        make_labels(&world);
        ask(&world, &random);
        world.query.form = FG_ROLLUP_CROWN;
        world.query.start_ns = (int64_t)(slow_random(&random) % 3);
        world.query.end_ns = 3;
        world.groups.n_series = SERIES;
        for (uint32_t s = 0; s < CELL_SERIES; s++)
            for (int64_t t = 0; t < CELL_TIMES; t++) {
                model->profiles[model->n_profiles++] = (struct profile){t, s};
                if (t >= world.query.start_ns && world.matches[s])
                    wanted |= 1u << (s * CELL_TIMES + (unsigned)t);
            }
        add_rows(&world, model, 0, CELL_TIMES, false, &random);
        for (uint32_t i = 0; i < model->nodes.n_rows; i++)
            model->rows[i].places[FG_ROLLUP_FULL].bytes = 0;
        describe(&world, 0, true, &random);
        world.sources[0].raw_bytes = UINT64_C(1) << 50;
        world.sources[0].n_series = CELL_SERIES;
        assert_int_equal(fg_plan_make(&world.query, world.sources, 1, world.arena, &plan, &err),
                         FG_OK);
        want = cheapest(&world, model, wanted);
        if (want == UINT64_MAX || world.sources[0].rollups == NULL) {
            assert_true(wanted == 0 || plan.n_raws > 0);
        } else {
            possible += wanted != 0;
            assert_int_equal(plan.bytes, want);
        }
        fg_selector_done(&world.selector);
        fg_arena_destroy(world.arena);
    }
    print_message("  possible with nodes alone: %u\n", possible);
    assert_true(possible > 200);
}

/* Two groups: a node of most profiles, and a few others, whose node is more than they are. */
static void plans_read_no_stacks_for_a_few_profiles(void **state)
{
    static struct world world;
    static const struct {
        uint64_t tree_bytes;
        uint32_t n_raws;
    } cases[] = {{0, 1}, {100, 1}, {1000, 0}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct model *model = &world.models[0];
        uint64_t random = 1;
        struct fg_plan plan;
        struct fg_err err;

        world = (struct world){.arena = fg_arena_create(16 << 20), .n_sources = 1};
        make_labels(&world);
        world.query = (struct fg_plan_query){.type = types[0],
                                             .selector = &world.selector,
                                             .start_ns = 0,
                                             .end_ns = UNIT,
                                             .form = FG_ROLLUP_CROWN};
        for (uint32_t k = 0; k < PROFILES_MAX; k++)
            model->profiles[model->n_profiles++] = (struct profile){k, k == 0 ? 1 : 0};
        for (uint32_t g = 0; g < world.groups.n_groups; g++) {
            struct fg_rollup_row *row = &model->rows[model->nodes.n_rows++];

            *row = (struct fg_rollup_row){.key = {FG_ROLLUP_GROUP, g, 0, UNIT}, .factor = 1};
            row->count = count_in(&world, model, &row->key);
            row->places[FG_ROLLUP_CROWN].bytes = 500;
        }
        describe(&world, 0, false, &random);
        world.sources[0].raw_bytes = 100 * PROFILES_MAX;
        world.sources[0].tree_bytes = cases[i].tree_bytes;
        assert_int_equal(fg_plan_make(&world.query, world.sources, 1, world.arena, &plan, &err),
                         FG_OK);
        assert_int_equal(plan.n_raws, cases[i].n_raws);
        assert_int_equal(plan.n_picks, 2 - cases[i].n_raws);
        fg_arena_destroy(world.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_count_each_profile_once),
        cmocka_unit_test(plans_read_no_deleted_profiles),
        cmocka_unit_test(plans_read_the_fewest_bytes),
        cmocka_unit_test(plans_read_no_stacks_for_a_few_profiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
