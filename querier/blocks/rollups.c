#include "querier/blocks/rollups.h"

#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/children.h"
#include "querier/blocks/lost.h"

enum {
    /* A fourth of what a query may use is for indexes that plans need, by the estimate of
     * directories. Parts beyond that are planned without, by their groups alone. */
    INDEXES_SHARE = 4,
    SERIES_BYTES = 512, /* of a series in an index */
    CHUNK_BYTES = sizeof(struct fg_block_chunk) + sizeof(uint32_t),
};

struct rollups_choosing;

/* Uses the plan of a service. */
typedef enum fg_code (*plan_user)(struct rollups_choosing *choosing, struct qry_part *parts,
                                  uint32_t n, const struct fg_plan *plan, struct fg_err *err);

struct rollups_choosing {
    struct qry_reader *reader;
    struct fg_plan_query query;
    struct fg_selector only_type;
    struct fg_arena *arena; /* of plans; what they choose is in the reader's */
};

/* ---- which rollups there are ---- */

static enum fg_code keep_rollups(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    (void)arg, (void)err;
    item->part->rollups_entry = fg_cache_ref(item->entry);
    item->part->rollups = qry_rollups_of(item->entry);
    return FG_OK;
}

/* Returns true if something of the query's range is deleted: then rollups cannot be used. */
static bool is_touched(const struct qry_reader *reader, const struct qry_part *part)
{
    return fg_deletions_touch(&reader->query->deletions[part->tenant], part->entry->service,
                              FG_MAX(part->entry->t_min_ns, reader->start_ns),
                              FG_MIN(part->entry->t_max_ns, reader->end_ns));
}

/* Drops the rollups of a part whose profiles are gone if a deletion affects them. Nothing can be
 * subtracted from such rollups, so the whole part is left out, as it will be removed from the
 * bucket (compactor/rollup_deletion.h). Retention needs no look: the manifest says how long they
 * are kept. */
static enum fg_code skip_named(struct qry_reader *reader, struct qry_part *part, struct fg_err *err)
{
    const struct fg_deletions *deletions = &reader->query->deletions[part->tenant];
    uint32_t n = qry_blocks_manifest(reader->query, part->tenant)->n_tombstones;
    bool named = false;

    for (uint32_t i = 0; i < n && !named; i++) {
        struct fg_arena_mark mark = fg_arena_mark(reader->arena);

        if (fg_rollup_deletion_affects(part->rollups, part->entry, &deletions->items[i],
                                       reader->arena, &named, err) != FG_OK)
            return err->code;
        fg_arena_release(reader->arena, mark);
    }
    if (named)
        part->rollups = NULL;
    return FG_OK;
}

static enum fg_code fetch_rollups(struct qry_reader *reader, struct fg_err *err)
{
    struct qry_fetch_list list = {0};

    for (uint32_t i = 0; i < reader->n_parts; i++) {
        struct qry_part *part = &reader->parts[i];
        struct fg_block_range nod = fg_rollup_ranges(part->entry).nod;

        if (part->rollups != NULL || nod.len == 0 || qry_lost_rollups(reader->query, part) ||
            (!part->object->rollup_only && is_touched(reader, part)) ||
            qry_rollups_are_with(part->object->entry, part->number, &part->rollups))
            continue;
        if (qry_fetch_add(&list, reader->arena,
                          &(struct qry_fetch_item){.type = &qry_cached_rollups,
                                                   .object = part->object,
                                                   .range = nod,
                                                   .part = part},
                          err) != FG_OK)
            return err->code;
    }
    return qry_fetch_all(reader->query, &list, keep_rollups, reader, err);
}

enum fg_code qry_rollups_find(struct qry_reader *reader, struct fg_err *err)
{
    if (fetch_rollups(reader, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < reader->n_parts; i++)
        if (reader->parts[i].object->rollup_only && reader->parts[i].rollups != NULL &&
            skip_named(reader, &reader->parts[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- which series match ---- */

/* Finds out whether groups leave open which series match. */
static enum fg_code is_open(struct rollups_choosing *choosing, const struct qry_part *part,
                            bool *ret_open, struct fg_err *err)
{
    const struct fg_groups *groups = &part->rollups->groups;
    struct fg_arena_mark mark = fg_arena_mark(choosing->arena);
    enum fg_groups_answer *answers =
        fg_arena_new(choosing->arena, enum fg_groups_answer, groups->n_groups);

    if (answers == NULL)
        return qry_query_too_large(err);
    if (fg_groups_match(groups, &choosing->query.type, choosing->query.selector, choosing->arena,
                        answers, err) != FG_OK)
        return err->code;
    *ret_open = false;
    for (uint32_t i = 0; i < groups->n_groups; i++)
        /* Open: some series of the group match and some may not, which only the index tells. */
        *ret_open = *ret_open || answers[i] == FG_GROUPS_OPEN;
    fg_arena_release(choosing->arena, mark);
    return FG_OK;
}

static enum fg_code keep_series(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    (void)arg, (void)err;
    if (item->single) {
        item->part->single_entry = fg_cache_ref(item->entry);
        item->part->rollups = qry_rollups_of(item->entry);
        item->part->single = true;
        return FG_OK;
    }
    item->part->index_entry = fg_cache_ref(item->entry);
    item->part->index = qry_index_of(item->entry);
    return FG_OK;
}

/* Returns what tells which series of a part match, if its groups leave that open: the index; or, of
 * a derived part, the rollups of its single series, which take the place of the others then. len 0:
 * nothing more can be known. */
static struct fg_block_range series_range(const struct qry_part *part)
{
    if (part->entry->n_series > 0 && part->index == NULL)
        return fg_block_part_range(part->entry, FG_BLOCK_WANT_SERIES);
    return part->object->derived != NULL && !part->single ? fg_rollup_single_ranges(part->entry).nod
                                                          : (struct fg_block_range){0, 0};
}

static enum fg_code find_open_series(struct rollups_choosing *choosing, struct fg_err *err)
{
    struct qry_reader *reader = choosing->reader;
    struct qry_fetch_list list = {0};
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < reader->n_parts; i++) {
        struct qry_part *part = &reader->parts[i];
        struct fg_block_range range = series_range(part);
        bool open = false, derived = part->entry->n_series == 0;

        if (part->rollups == NULL || range.len == 0)
            continue;
        if (is_open(choosing, part, &open, err) != FG_OK)
            return err->code;
        bytes += open ? part->entry->n_series * (uint64_t)SERIES_BYTES +
                            fg_block_guess_chunks(part->entry) * (uint64_t)CHUNK_BYTES
                      : 0;
        if (!open || bytes > reader->blocks->memory_max_bytes / INDEXES_SHARE)
            continue;
        if (qry_fetch_add(
                &list, reader->arena,
                &(struct qry_fetch_item){.type = derived ? &qry_cached_rollups : &qry_cached_index,
                                         .object = part->object,
                                         .range = range,
                                         .part = part,
                                         .single = derived},
                err) != FG_OK)
            return err->code;
    }
    return qry_fetch_all(reader->query, &list, keep_series, reader, err);
}

/* Lists all series of the type, and which of them match; ascending. */
static enum fg_code find_series(struct rollups_choosing *choosing, const struct qry_part *part,
                                struct fg_plan_source *source, struct fg_err *err)
{
    struct fg_block_match *all, *matches;
    uint32_t n_all, n_matches;
    struct fg_plan_series *series;

    if (fg_block_select(part->index, &choosing->only_type, choosing->arena, &all, &n_all, err) !=
            FG_OK ||
        fg_block_select(part->index, &choosing->reader->selector, choosing->arena, &matches,
                        &n_matches, err) != FG_OK)
        return fg_wrap(err, "%s", part->object->name);
    series = fg_arena_new(choosing->arena, struct fg_plan_series, n_all);
    if (series == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0, at = 0; i < n_all; i++) {
        while (at < n_matches && matches[at].series < all[i].series)
            at++;
        series[i].number = all[i].series;
        /* Both lists ascend by series, so one pass finds the common ones. */
        series[i].matches = at < n_matches && matches[at].series == all[i].series;
    }
    source->series = series;
    source->n_series = n_all;
    return FG_OK;
}

/* ---- plans ---- */

static int part_order(const void *left, const void *right)
{
    const struct qry_part *a = left, *b = right;
    int order = fg_slice_cmp(a->entry->tenant, b->entry->tenant);

    if (order == 0)
        order = fg_slice_cmp(a->entry->service, b->entry->service);
    return order != 0 ? order : (a->object > b->object) - (a->object < b->object);
}

static uint64_t sample_bytes(const struct fg_block_part *part)
{
    for (uint32_t i = 0; i < part->n_sections; i++)
        if (part->sections[i].kind == FG_BLOCK_SMP)
            return part->sections[i].range.len;
    return 0;
}

static enum fg_code make_source(struct rollups_choosing *choosing, const struct qry_part *part,
                                struct fg_plan_source *source, struct fg_err *err)
{
    *source = (struct fg_plan_source){
        .id = part->object->block_id,
        .rollups = part->rollups,
        .t_min_ns = part->entry->t_min_ns,
        .t_max_ns = part->entry->t_max_ns,
        .n_profiles = part->entry->n_profiles,
        .digest = part->entry->digest,
        .rollup_only = part->object->rollup_only,
        .raw_bytes = sample_bytes(part->entry) * choosing->reader->blocks->sample_weight,
        .tree_bytes = fg_block_part_range(part->entry, FG_BLOCK_WANT_SERIES).len +
                      qry_stacks_range(choosing->reader->stacks, part->entry).len,
    };
    return part->index == NULL ? FG_OK : find_series(choosing, part, source, err);
}

static bool put_pick(struct qry_reader *reader, struct qry_part *part,
                     const struct fg_plan_pick *pick)
{
    struct fg_plan_pick **picks = pick->form == FG_ROLLUP_CROWN ? &part->crowns : &part->fulls;
    uint32_t *n = pick->form == FG_ROLLUP_CROWN ? &part->n_crowns : &part->n_fulls;
    uint32_t *cap = pick->form == FG_ROLLUP_CROWN ? &part->cap_crowns : &part->cap_fulls;
    uint64_t count = part->rollups->rows[pick->row].count;

    if (!fg_arena_grow(reader->arena, picks, *n, 1, cap, sizeof **picks))
        return false;
    (*picks)[(*n)++] = *pick;
    reader->query->rollups++;
    /* A plan may take a large rollup and subtract small ones: profiles count the same way. */
    reader->query->profiles += pick->sign > 0 ? count : 0 - count;
    return true;
}

static bool put_raw(struct qry_reader *reader, struct qry_part *part, const struct fg_plan_raw *raw)
{
    if (!fg_arena_grow(reader->arena, &part->raws, part->n_raws, 1, &part->cap_raws,
                       sizeof *part->raws))
        return false;
    part->raws[part->n_raws++] = *raw;
    return true;
}

static int raw_order(const void *left, const void *right)
{
    const struct fg_plan_raw *a = left, *b = right;

    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static enum fg_code take_plan(struct rollups_choosing *choosing, struct qry_part *parts, uint32_t n,
                              const struct fg_plan *plan, struct fg_err *err)
{
    struct qry_reader *reader = choosing->reader;

    for (uint32_t i = 0; i < plan->n_picks; i++)
        if (!put_pick(reader, &parts[plan->picks[i].source], &plan->picks[i]))
            return qry_query_too_large(err);
    for (uint32_t i = 0; i < plan->n_raws; i++)
        if (!put_raw(reader, &parts[plan->raws[i].source], &plan->raws[i]))
            return qry_query_too_large(err);
    for (uint32_t i = 0; i < n; i++) {
        /* From here on only what the plan names is read of the part. */
        parts[i].chosen = true;
        if (parts[i].n_raws > 1)
            qsort(parts[i].raws, parts[i].n_raws, sizeof *parts[i].raws, raw_order);
    }
    return FG_OK;
}

static enum fg_code open_missing(struct rollups_choosing *choosing, struct qry_part *parts,
                                 uint32_t n, const struct fg_plan *plan, struct fg_err *err)
{
    (void)n;
    return qry_children_open(choosing->reader, parts[0].tenant, plan, err);
}

static enum fg_code plan_service(struct rollups_choosing *choosing, struct qry_part *parts,
                                 uint32_t n, plan_user use, struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(choosing->arena);
    struct fg_plan_source *sources = fg_arena_new(choosing->arena, struct fg_plan_source, n);
    struct fg_plan plan;

    if (sources == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < n; i++)
        if (make_source(choosing, &parts[i], &sources[i], err) != FG_OK)
            return err->code;
    if (fg_plan_make(&choosing->query, sources, n, choosing->arena, &plan, err) != FG_OK)
        return fg_wrap(err, "service %.*s", FG_S(parts[0].entry->service));
    if (use(choosing, parts, n, &plan, err) != FG_OK)
        return err->code;
    fg_arena_release(choosing->arena, mark);
    return FG_OK;
}

static enum fg_code plan_all(struct rollups_choosing *choosing, plan_user use, struct fg_err *err)
{
    struct qry_reader *reader = choosing->reader;

    if (reader->n_parts > 1)
        /* A plan is for one service of one tenant; of all its objects together, since parents
         * replace children. */
        qsort(reader->parts, reader->n_parts, sizeof *reader->parts, part_order);
    for (uint32_t i = 0, next; i < reader->n_parts; i = next) {
        for (next = i + 1;
             next < reader->n_parts &&
             fg_slice_eq(reader->parts[i].entry->tenant, reader->parts[next].entry->tenant) &&
             fg_slice_eq(reader->parts[i].entry->service, reader->parts[next].entry->service);)
            next++;
        if (plan_service(choosing, &reader->parts[i], next - i, use, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Moves the parts that are not kept behind the others. */
static void put_aside(struct qry_reader *reader, bool (*keep)(const struct qry_part *part))
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < reader->n_parts; i++) {
        struct qry_part part = reader->parts[i];

        if (!keep(&part))
            continue;
        reader->parts[i] = reader->parts[kept];
        reader->parts[kept++] = part;
    }
    reader->n_parts = kept;
}

static bool has_anything(const struct qry_part *part)
{
    return part->entry->n_series > 0 || part->rollups != NULL;
}

static bool is_read(const struct qry_part *part)
{
    return part->n_raws + part->n_fulls > 0;
}

/* Finds the rollups of open objects, and the indexes that are needed to know what matches. */
static enum fg_code look(struct rollups_choosing *choosing, struct fg_err *err)
{
    /* Rollups first: their groups decide which indexes are needed. */
    if (qry_rollups_find(choosing->reader, err) != FG_OK)
        return err->code;
    put_aside(choosing->reader, has_anything);
    return find_open_series(choosing, err);
}

/* Opens children until plans lack nothing. */
static enum fg_code open_all(struct rollups_choosing *choosing, struct fg_err *err)
{
    struct qry_reader *reader = choosing->reader;
    uint32_t n_objects;

    do {
        n_objects = reader->n_open;
        if (look(choosing, err) != FG_OK)
            return err->code;
        /* First without plans: children that no parent covers are needed in any case. Then plans
         * say which others are. */
        if (!qry_children_open_uncovered(reader) && qry_children_any_closed(reader) &&
            plan_all(choosing, open_missing, err) != FG_OK)
            return err->code;
        if (qry_reader_extend(reader, err) != FG_OK)
            return err->code;
    } while (reader->n_open > n_objects); /* ends: objects are opened once */
    return FG_OK;
}

/* Each part before n_parts has something to be read, in order and in the query's range; each part
 * behind it has crowns at most. */
static void check_plan(const struct qry_reader *reader)
{
    for (uint32_t i = 0; i < reader->n_found; i++) {
        const struct qry_part *part = &reader->parts[i];

        fg_assert(i < reader->n_parts ? part->chosen && is_read(part) : !is_read(part));
        fg_assert(part->n_crowns + part->n_fulls == 0 || part->rollups != NULL);
        for (uint32_t k = 0; k < part->n_raws; k++) {
            fg_assert(part->raws[k].start_ns <= part->raws[k].end_ns);
            fg_assert(k == 0 || part->raws[k - 1].start_ns <= part->raws[k].start_ns);
        }
    }
}

static enum fg_code choose(struct rollups_choosing *choosing, struct fg_err *err)
{
    struct qry_reader *reader = choosing->reader;

    if (open_all(choosing, err) != FG_OK)
        return err->code;
    put_aside(reader, has_anything);
    if (plan_all(choosing, take_plan, err) != FG_OK)
        return err->code;
    put_aside(reader, is_read);
    check_plan(reader);
    reader->batch = reader->parts;
    reader->mark = fg_arena_mark(reader->arena);
    return qry_query_check(reader->query, err);
}

enum fg_code qry_rollups_choose(struct qry_reader *reader, enum fg_rollup_form what,
                                bool crowns_too, struct fg_err *err)
{
    const struct qry_selection *selection = reader->selection;
    struct fg_matcher type = {.op = FG_MATCH_EQ,
                              .name = FG_LIT(FG_LABEL_PROFILE_TYPE),
                              .value = fg_cstr(selection->type_text)};
    struct rollups_choosing choosing = {
        .reader = reader,
        .query = {.selector = &selection->selector,
                  .start_ns = reader->start_ns,
                  .end_ns = reader->end_ns,
                  .form = what,
                  .crowns_too = crowns_too},
        .only_type = {.matchers = &type, .n_matchers = 1},
    };

    if (fg_profile_type_parse(fg_cstr(selection->type_text), &choosing.query.type, err) != FG_OK)
        return err->code;
    choosing.arena = fg_arena_create(reader->blocks->memory_max_bytes);
    enum fg_code code = choose(&choosing, err);
    fg_arena_destroy(choosing.arena);
    return code;
}
