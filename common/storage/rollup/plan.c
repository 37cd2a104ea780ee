/*
 * The plan of all sources. Those made of others stand above them: of each such, either itself is
 * read, or the best of what is below it; what is below but not among the sources cannot be read.
 */
#include "common/base/search.h"
#include "common/storage/rollup/plan_impl.h"

/* A derived source, which can be read in place of its children. */
struct plan_parent {
    uint32_t source;
    uint32_t parent; /* the one above it, or FG_MAP_NONE */
    uint64_t below;  /* what it costs to read what it is made of */
    bool chosen, covered;
};

/* A source; or a child of one that is not among the sources. */
struct ground {
    struct fg_id id;
    uint32_t source; /* or FG_MAP_NONE */
    uint32_t owner;  /* of one with profiles: the lowest above it, or FG_MAP_NONE */
};

struct rollup_planning {
    const struct fg_plan_query *query;
    const struct fg_plan_source *sources;
    uint32_t n_sources;
    struct fg_arena *arena;
    struct fg_plan_work *works; /* [n_sources] */
    struct ground *grounds;     /* by id */
    uint32_t n_grounds;
    struct plan_parent *parents; /* those that come first are above */
    uint32_t n_parents;
};

static bool is_derived(const struct fg_plan_source *source)
{
    return source->rollups != NULL && source->rollups->n_derived_from > 0 && !source->rollup_only;
}

/* ---- grounds ---- */

/* By id; of equal ids the one that is a source comes first. */
static int compare_grounds(const void *left, const void *right)
{
    const struct ground *a = left, *b = right;
    int order = fg_id_cmp(a->id, b->id);

    return order != 0 ? order : (a->source > b->source) - (a->source < b->source);
}

static enum fg_code keep_each_once(struct rollup_planning *planning, struct fg_err *err)
{
    struct ground *grounds = planning->grounds;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < planning->n_grounds; i++) {
        if (kept == 0 || !fg_id_eq(grounds[kept - 1].id, grounds[i].id))
            grounds[kept++] = grounds[i];
        else if (grounds[i].source != FG_MAP_NONE)
            return fg_fail(err, FG_E_INVALID, "the plan has a source twice");
    }
    planning->n_grounds = kept;
    return FG_OK;
}

static void add_ground(struct rollup_planning *planning, struct fg_id id, uint32_t source)
{
    planning->grounds[planning->n_grounds++] = (struct ground){id, source, FG_MAP_NONE};
}

/* The number of children that may have to be read. None, if the query's time does not overlap:
 * nothing is missing of what the query does not ask for. */
static uint32_t n_named_by(const struct rollup_planning *planning,
                           const struct fg_plan_source *source)
{
    return is_derived(source) && source->t_min_ns <= planning->query->end_ns &&
                   source->t_max_ns >= planning->query->start_ns
               ? source->rollups->n_derived_from
               : 0;
}

static enum fg_code find_grounds(struct rollup_planning *planning, struct fg_err *err)
{
    size_t count = planning->n_sources;

    for (uint32_t i = 0; i < planning->n_sources; i++)
        count += n_named_by(planning, &planning->sources[i]);
    planning->grounds =
        count >= FG_MAP_NONE ? NULL : fg_arena_new(planning->arena, struct ground, count);
    if (planning->grounds == NULL)
        return fg_fail(err, FG_E_LIMIT, "plan of %zu objects needs too much memory", count);
    for (uint32_t i = 0; i < planning->n_sources; i++) {
        const struct fg_plan_source *source = &planning->sources[i];

        add_ground(planning, source->id, i);
        for (uint32_t k = 0; k < n_named_by(planning, source); k++)
            add_ground(planning, source->rollups->derived_from[k], FG_MAP_NONE);
    }
    if (planning->n_grounds > 1)
        qsort(planning->grounds, planning->n_grounds, sizeof *planning->grounds, compare_grounds);
    return keep_each_once(planning, err);
}

/* Finds a source with profiles, or a missing one. NULL: the id is that of a derived source. */
static struct ground *find_ground(const struct rollup_planning *planning, struct fg_id id)
{
    struct ground *grounds = planning->grounds;
    uint32_t at = fg_lower_bound(i, 0, planning->n_grounds, fg_id_cmp(grounds[i].id, id) < 0);

    if (at == planning->n_grounds || !fg_id_eq(grounds[at].id, id))
        return NULL;
    return grounds[at].source != FG_MAP_NONE && is_derived(&planning->sources[grounds[at].source])
               ? NULL
               : &grounds[at];
}

static enum fg_code prepare(struct rollup_planning *planning, struct fg_err *err)
{
    uint32_t count = planning->n_sources;

    planning->works = fg_arena_new(planning->arena, struct fg_plan_work, count);
    planning->parents = fg_arena_new(planning->arena, struct plan_parent, count);
    if (planning->works == NULL || planning->parents == NULL)
        return fg_fail(err, FG_E_LIMIT, "plan of %u sources needs too much memory", count);
    for (uint32_t i = 0; i < count; i++)
        planning->works[i] = (struct fg_plan_work){.query = planning->query,
                                                   .source = &planning->sources[i],
                                                   .number = i,
                                                   .arena = planning->arena,
                                                   .raw = !is_derived(&planning->sources[i]) &&
                                                          !planning->sources[i].rollup_only};
    return find_grounds(planning, err);
}

/* ---- what is made of others ---- */

/* True if a derived source lies within the query's time and agrees, in number and digest of
 * profiles, with those of its children that are there. */
static bool is_usable(const struct rollup_planning *planning, const struct fg_plan_source *derived)
{
    uint64_t n_profiles = 0;
    struct fg_id digest = {0, 0};
    bool all = true;

    if (derived->t_min_ns < planning->query->start_ns ||
        derived->t_max_ns > planning->query->end_ns)
        return false;
    for (uint32_t i = 0; i < derived->rollups->n_derived_from; i++) {
        const struct ground *ground = find_ground(planning, derived->rollups->derived_from[i]);
        const struct fg_plan_source *source;

        if (ground == NULL)
            return false;
        all = all && ground->source != FG_MAP_NONE;
        if (ground->source == FG_MAP_NONE)
            continue;
        source = &planning->sources[ground->source];
        if (source->n_profiles > 0 &&
            (source->t_min_ns < derived->t_min_ns || source->t_max_ns > derived->t_max_ns))
            return false;
        n_profiles += source->n_profiles;
        digest = fg_id_add(digest, source->digest);
    }
    return !all || (n_profiles == derived->n_profiles && fg_id_eq(digest, derived->digest));
}

static int compare_derived(const void *left, const void *right, void *arg)
{
    const struct fg_plan_source *sources = arg;
    const struct fg_plan_source *a = &sources[((const struct plan_parent *)left)->source];
    const struct fg_plan_source *b = &sources[((const struct plan_parent *)right)->source];

    if (a->rollups->n_derived_from != b->rollups->n_derived_from)
        return a->rollups->n_derived_from > b->rollups->n_derived_from ? -1 : 1;
    return fg_id_cmp(a->id, b->id);
}

/* Puts a derived source below the one that has all its children. Returns false if it crosses
 * another one: then it is not used, since a profile would count twice. */
static bool nest(struct rollup_planning *planning, uint32_t number)
{
    struct plan_parent *parent = &planning->parents[number];
    const struct fg_rollups *rollups = planning->sources[parent->source].rollups;

    parent->parent = find_ground(planning, rollups->derived_from[0])->owner;
    for (uint32_t i = 1; i < rollups->n_derived_from; i++)
        if (find_ground(planning, rollups->derived_from[i])->owner != parent->parent)
            return false;
    for (uint32_t i = 0; i < rollups->n_derived_from; i++)
        find_ground(planning, rollups->derived_from[i])->owner = number;
    return true;
}

static enum fg_code find_parents(struct rollup_planning *planning, struct fg_err *err)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < planning->n_sources; i++) {
        if (!is_derived(&planning->sources[i]) || !is_usable(planning, &planning->sources[i]))
            continue;
        if (fg_plan_source_make(&planning->works[i], err) != FG_OK)
            return err->code;
        if (planning->works[i].bytes != FG_PLAN_NEVER)
            planning->parents[planning->n_parents++] = (struct plan_parent){.source = i};
    }
    qsort_r(planning->parents, planning->n_parents, sizeof *planning->parents, compare_derived,
            (void *)(uintptr_t)planning->sources);
    for (uint32_t i = 0; i < planning->n_parents; i++) {
        planning->parents[kept] = planning->parents[i];
        kept += nest(planning, kept);
    }
    planning->n_parents = kept;
    return FG_OK;
}

static void add_below(struct rollup_planning *planning, uint32_t owner, uint64_t bytes)
{
    planning->parents[owner].below = fg_plan_add(planning->parents[owner].below, bytes);
}

/* First from the bottom up: what each subtree costs, and whether reading the parent costs less.
 * Then from the top down: what is read in place of what. */
static void choose(struct rollup_planning *planning)
{
    for (uint32_t i = 0; i < planning->n_grounds; i++) {
        const struct ground *ground = &planning->grounds[i];

        if (ground->owner != FG_MAP_NONE)
            add_below(planning, ground->owner,
                      ground->source == FG_MAP_NONE ? FG_PLAN_NEVER
                                                    : planning->works[ground->source].bytes);
    }
    for (uint32_t i = planning->n_parents; i-- > 0;) {
        struct plan_parent *parent = &planning->parents[i];
        uint64_t bytes = planning->works[parent->source].bytes;

        parent->chosen = bytes < parent->below;
        if (parent->parent != FG_MAP_NONE)
            add_below(planning, parent->parent, FG_MIN(bytes, parent->below));
    }
    for (uint32_t i = 0; i < planning->n_parents; i++) {
        struct plan_parent *parent = &planning->parents[i];

        parent->covered =
            parent->parent != FG_MAP_NONE &&
            (planning->parents[parent->parent].chosen || planning->parents[parent->parent].covered);
        parent->chosen = parent->chosen && !parent->covered;
    }
}

/* ---- the plan ---- */

static void emit_source(const struct rollup_planning *planning, uint32_t source,
                        struct fg_plan_out *out)
{
    out->plan.bytes = fg_plan_add(out->plan.bytes, planning->works[source].bytes);
    fg_plan_source_emit(&planning->works[source], out);
}

/* True if it is read as a part of a parent. */
static bool is_covered(const struct rollup_planning *planning, const struct ground *ground)
{
    const struct plan_parent *parent =
        ground->owner == FG_MAP_NONE ? NULL : &planning->parents[ground->owner];

    return parent != NULL && (parent->chosen || parent->covered);
}

static void emit_all(const struct rollup_planning *planning, struct fg_plan_out *out)
{
    for (uint32_t i = 0; i < planning->n_parents; i++)
        if (planning->parents[i].chosen)
            emit_source(planning, planning->parents[i].source, out);
    for (uint32_t i = 0; i < planning->n_grounds; i++) {
        uint32_t source = planning->grounds[i].source;

        if (source != FG_MAP_NONE && !is_derived(&planning->sources[source]) &&
            !is_covered(planning, &planning->grounds[i]))
            emit_source(planning, source, out);
    }
}

static enum fg_code find_missing(const struct rollup_planning *planning, struct fg_plan *plan,
                                 struct fg_err *err)
{
    uint32_t count = 0;

    plan->missing = fg_arena_new(planning->arena, struct fg_id, planning->n_grounds);
    if (plan->missing == NULL)
        return fg_fail(err, FG_E_LIMIT, "plan needs too much memory");
    for (uint32_t i = 0; i < planning->n_grounds; i++)
        if (planning->grounds[i].source == FG_MAP_NONE &&
            !is_covered(planning, &planning->grounds[i]))
            plan->missing[count++] = planning->grounds[i].id;
    plan->n_missing = count;
    return FG_OK;
}

/* True if a rollup-only source has the type. It has all types that its profiles had. */
static bool has_type(const struct fg_plan_source *source, const struct fg_profile_type *type)
{
    for (uint32_t t = 0; source->rollups != NULL && t < source->rollups->n_types; t++)
        if (fg_profile_type_eq(&source->rollups->types[t], type))
            return true;
    return false;
}

/* Finds the cheapest way to read one source by itself. */
static enum fg_code plan_ground(struct rollup_planning *planning, uint32_t number,
                                struct fg_err *err)
{
    const struct fg_plan_source *source = &planning->sources[number];

    if (source->rollup_only && !has_type(source, &planning->query->type))
        return FG_OK;
    if (fg_plan_source_make(&planning->works[number], err) != FG_OK)
        return err->code;
    if (source->rollup_only && planning->works[number].bytes == FG_PLAN_NEVER)
        return fg_fail(err, FG_E_INVALID,
                       "the profiles were deleted by retention, and their rollups do not "
                       "distinguish what the query selects");
    return FG_OK;
}

enum fg_code fg_plan_make(const struct fg_plan_query *query, const struct fg_plan_source *sources,
                          uint32_t n_sources, struct fg_arena *arena, struct fg_plan *ret_plan,
                          struct fg_err *err)
{
    struct rollup_planning planning = {
        .query = query, .sources = sources, .n_sources = n_sources, .arena = arena};
    struct fg_plan_out out = {.arena = arena};

    if (query->start_ns > query->end_ns)
        return fg_fail(err, FG_E_INVALID, "the plan ends before it starts");
    if (prepare(&planning, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < n_sources; i++)
        if (!is_derived(&sources[i]) && plan_ground(&planning, i, err) != FG_OK)
            return err->code;
    if (find_parents(&planning, err) != FG_OK)
        return err->code;
    choose(&planning);
    emit_all(&planning, &out);
    if (out.no_room)
        return fg_fail(err, FG_E_LIMIT, "plan needs too much memory");
    if (find_missing(&planning, &out.plan, err) != FG_OK)
        return err->code;
    *ret_plan = out.plan;
    return FG_OK;
}
