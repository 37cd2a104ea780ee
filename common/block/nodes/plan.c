/*
 * The plan of all sources. Those made of others stand above them: of each such, either itself is
 * read, or the best of what is below it.
 */
#include "common/block/nodes/plan_impl.h"

/* A source made of others, that could be read in their place. */
struct above {
    uint32_t source;
    uint32_t parent; /* the one above it, or FG_MAP_NONE */
    uint64_t below;  /* what it costs to read what it is made of */
    bool chosen, covered;
};

struct planning {
    const struct fg_plan_query *query;
    const struct fg_plan_source *sources;
    uint32_t n_sources;
    struct fg_arena *arena;
    struct fg_plan_work *works; /* [n_sources] */
    uint32_t *by_id;            /* sources, ascending */
    uint32_t *owners;           /* of a source with profiles: the lowest above it, or FG_MAP_NONE */
    struct above *aboves;       /* those that come first are above */
    uint32_t n_aboves;
};

static bool is_made(const struct fg_plan_source *source)
{
    return source->nodes != NULL && source->nodes->n_made_of > 0;
}

static int compare_ids(const void *left, const void *right, void *arg)
{
    const struct fg_plan_source *sources = arg;

    return fg_id_cmp(sources[*(const uint32_t *)left].id, sources[*(const uint32_t *)right].id);
}

static enum fg_code prepare(struct planning *planning, struct fg_err *err)
{
    uint32_t count = planning->n_sources;

    planning->works = fg_arena_new(planning->arena, struct fg_plan_work, count);
    planning->by_id = fg_arena_new(planning->arena, uint32_t, count);
    planning->owners = fg_arena_new(planning->arena, uint32_t, count);
    planning->aboves = fg_arena_new(planning->arena, struct above, count);
    if (planning->works == NULL || planning->by_id == NULL || planning->owners == NULL ||
        planning->aboves == NULL)
        return fg_fail(err, FG_E_LIMIT, "plan of %u sources needs too much memory", count);
    for (uint32_t i = 0; i < count; i++) {
        planning->by_id[i] = i;
        planning->owners[i] = FG_MAP_NONE;
        planning->works[i] = (struct fg_plan_work){.query = planning->query,
                                                   .source = &planning->sources[i],
                                                   .number = i,
                                                   .arena = planning->arena,
                                                   .raw = !is_made(&planning->sources[i])};
    }
    qsort_r(planning->by_id, count, sizeof *planning->by_id, compare_ids,
            (void *)(uintptr_t)planning->sources);
    for (uint32_t i = 1; i < count; i++)
        if (fg_id_eq(planning->sources[planning->by_id[i - 1]].id,
                     planning->sources[planning->by_id[i]].id))
            return fg_fail(err, FG_E_INVALID, "plan with a source twice");
    return FG_OK;
}

/* The source with profiles of this id, or FG_MAP_NONE. */
static uint32_t find_source(const struct planning *planning, struct fg_id id)
{
    uint32_t from = 0, to = planning->n_sources;

    while (from < to) {
        uint32_t middle = from + (to - from) / 2, source = planning->by_id[middle];
        int order = fg_id_cmp(planning->sources[source].id, id);

        if (order == 0)
            return is_made(&planning->sources[source]) ? FG_MAP_NONE : source;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return FG_MAP_NONE;
}

/* ---- what is made of others ---- */

/* All it is made of is there, and nothing else, and within the query's time. */
static bool is_usable(const struct planning *planning, const struct fg_plan_source *made)
{
    uint64_t n_profiles = 0;
    struct fg_id digest = {0, 0};

    if (made->t_min_ns < planning->query->start_ns || made->t_max_ns > planning->query->end_ns)
        return false;
    for (uint32_t i = 0; i < made->nodes->n_made_of; i++) {
        uint32_t number = find_source(planning, made->nodes->made_of[i]);
        const struct fg_plan_source *source;

        if (number == FG_MAP_NONE)
            return false;
        source = &planning->sources[number];
        if (source->n_profiles > 0 &&
            (source->t_min_ns < made->t_min_ns || source->t_max_ns > made->t_max_ns))
            return false;
        n_profiles += source->n_profiles;
        digest = fg_id_add(digest, source->digest);
    }
    return n_profiles == made->n_profiles && fg_id_eq(digest, made->digest);
}

static int compare_made(const void *left, const void *right, void *arg)
{
    const struct fg_plan_source *sources = arg;
    const struct fg_plan_source *a = &sources[((const struct above *)left)->source];
    const struct fg_plan_source *b = &sources[((const struct above *)right)->source];

    if (a->nodes->n_made_of != b->nodes->n_made_of)
        return a->nodes->n_made_of > b->nodes->n_made_of ? -1 : 1;
    return fg_id_cmp(a->id, b->id);
}

/* Puts it below what is above all its sources; false: it crosses another. */
static bool nest(struct planning *planning, uint32_t number)
{
    struct above *above = &planning->aboves[number];
    const struct fg_nodes *nodes = planning->sources[above->source].nodes;

    above->parent = planning->owners[find_source(planning, nodes->made_of[0])];
    for (uint32_t i = 1; i < nodes->n_made_of; i++)
        if (planning->owners[find_source(planning, nodes->made_of[i])] != above->parent)
            return false;
    for (uint32_t i = 0; i < nodes->n_made_of; i++)
        planning->owners[find_source(planning, nodes->made_of[i])] = number;
    return true;
}

static enum fg_code find_aboves(struct planning *planning, struct fg_err *err)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < planning->n_sources; i++) {
        if (!is_made(&planning->sources[i]) || !is_usable(planning, &planning->sources[i]))
            continue;
        if (fg_plan_source_make(&planning->works[i], err) != FG_OK)
            return err->code;
        if (planning->works[i].bytes != FG_PLAN_NEVER)
            planning->aboves[planning->n_aboves++] = (struct above){.source = i};
    }
    qsort_r(planning->aboves, planning->n_aboves, sizeof *planning->aboves, compare_made,
            (void *)(uintptr_t)planning->sources);
    for (uint32_t i = 0; i < planning->n_aboves; i++) {
        planning->aboves[kept] = planning->aboves[i];
        kept += nest(planning, kept);
    }
    planning->n_aboves = kept;
    return FG_OK;
}

static void add_below(struct planning *planning, uint32_t owner, uint64_t bytes)
{
    planning->aboves[owner].below = fg_plan_add(planning->aboves[owner].below, bytes);
}

/* From below: what each costs, and whether reading it is less. Then from above: what is read in
 * place of what. */
static void choose(struct planning *planning)
{
    for (uint32_t i = 0; i < planning->n_sources; i++)
        if (planning->owners[i] != FG_MAP_NONE)
            add_below(planning, planning->owners[i], planning->works[i].bytes);
    for (uint32_t i = planning->n_aboves; i-- > 0;) {
        struct above *above = &planning->aboves[i];
        uint64_t bytes = planning->works[above->source].bytes;

        above->chosen = bytes < above->below;
        if (above->parent != FG_MAP_NONE)
            add_below(planning, above->parent, FG_MIN(bytes, above->below));
    }
    for (uint32_t i = 0; i < planning->n_aboves; i++) {
        struct above *above = &planning->aboves[i];

        above->covered = above->parent != FG_MAP_NONE && (planning->aboves[above->parent].chosen ||
                                                          planning->aboves[above->parent].covered);
        above->chosen = above->chosen && !above->covered;
    }
}

/* ---- the plan ---- */

static void emit_source(const struct planning *planning, uint32_t source, struct fg_plan_out *out)
{
    out->plan.bytes = fg_plan_add(out->plan.bytes, planning->works[source].bytes);
    fg_plan_source_emit(&planning->works[source], out);
}

static void emit_all(const struct planning *planning, struct fg_plan_out *out)
{
    for (uint32_t i = 0; i < planning->n_aboves; i++)
        if (planning->aboves[i].chosen)
            emit_source(planning, planning->aboves[i].source, out);
    for (uint32_t i = 0; i < planning->n_sources; i++) {
        uint32_t owner = planning->owners[i];

        if (!is_made(&planning->sources[i]) &&
            (owner == FG_MAP_NONE ||
             !(planning->aboves[owner].chosen || planning->aboves[owner].covered)))
            emit_source(planning, i, out);
    }
}

enum fg_code fg_plan_make(const struct fg_plan_query *query, const struct fg_plan_source *sources,
                          uint32_t n_sources, struct fg_arena *arena, struct fg_plan *ret_plan,
                          struct fg_err *err)
{
    struct planning planning = {
        .query = query, .sources = sources, .n_sources = n_sources, .arena = arena};
    struct fg_plan_out out = {.arena = arena};

    if (query->start_ns > query->end_ns)
        return fg_fail(err, FG_E_INVALID, "plan of a time that ends before it begins");
    if (prepare(&planning, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < n_sources; i++)
        if (!is_made(&sources[i]) && fg_plan_source_make(&planning.works[i], err) != FG_OK)
            return err->code;
    if (find_aboves(&planning, err) != FG_OK)
        return err->code;
    choose(&planning);
    emit_all(&planning, &out);
    if (out.no_room)
        return fg_fail(err, FG_E_LIMIT, "plan needs too much memory");
    *ret_plan = out.plan;
    return FG_OK;
}
