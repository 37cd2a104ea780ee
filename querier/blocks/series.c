/* SERIES and STATS: from series and manifests, without reading a profile. */
#include "querier/blocks/blocks.h"
#include "querier/blocks/rollup_only.h"

struct series_listing {
    struct qry_reader reader;
    const char *const *names;
    size_t n_names;
    struct qry_label_sets *into;
};

/* labels: with those made from the type. */
static enum fg_code add_labels(void *arg, const struct fg_labels *labels, struct fg_err *err)
{
    struct series_listing *listing = arg;
    struct fg_arena *arena = listing->reader.arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct fg_labels shown = fg_labels_restrict(labels, listing->names, listing->n_names, arena);
    enum fg_code code;
    size_t at;

    if (labels->items == NULL || shown.items == NULL)
        code = qry_query_too_large(err);
    else
        code = qry_label_sets_take(listing->into, &shown, listing->reader.query->arena, &at, err);
    fg_arena_release(arena, mark);
    return code;
}

static enum fg_code add_match(struct series_listing *listing, const struct qry_part *part,
                              const struct fg_block_match *match, struct fg_err *err)
{
    const struct fg_block_series_row *series = &part->index->series[match->series];
    struct fg_profile_type type = fg_block_profile_type(series, match->type);
    struct fg_arena *arena = listing->reader.arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);
    /* Labels are made to be looked up and given back; only a new set is copied, into the query's
     * arena. */
    struct fg_labels labels = fg_labels_with_type(&series->labels, &type, arena);
    enum fg_code code = add_labels(listing, &labels, err);

    fg_arena_release(arena, mark);
    return code;
}

/* Lists the series of a part that have a span: a series chunk that may have profiles in what
 * deletions leave of the range. A series may have many chunks, and is listed once. */
static enum fg_code add_part(struct series_listing *listing, const struct qry_part *part,
                             struct fg_err *err)
{
    bool *listed = fg_arena_new(listing->reader.arena, bool, part->n_matches);

    if (listed == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < part->n_spans; i++) {
        const struct qry_span *span = &part->spans[i];

        for (uint32_t k = span->first_match;
             !listed[span->first_match] && k < span->first_match + span->n_matches; k++)
            if (add_match(listing, part, &part->matches[k], err) != FG_OK)
                return err->code;
        /* Spans of one series have the same first match. */
        listed[span->first_match] = true;
    }
    return qry_query_check(listing->reader.query, err);
}

/* Batch by batch: indexes of all parts together may exceed the memory of a query. */
static enum fg_code read_all(struct series_listing *listing, struct fg_err *err)
{
    do {
        if (qry_reader_next(&listing->reader, err) != FG_OK)
            return err->code;
        for (uint32_t i = 0; i < listing->reader.n_batch; i++)
            if (add_part(listing, &listing->reader.batch[i], err) != FG_OK)
                return err->code;
    } while (listing->reader.n_batch > 0);
    return FG_OK;
}

enum fg_code qry_blocks_series(struct qry_query *query, const struct qry_selection *selection,
                               const char *const *names, size_t n_names,
                               struct qry_label_sets *into, struct fg_err *err)
{
    struct series_listing listing = {.names = names, .n_names = n_names, .into = into};
    enum fg_code code;

    /* Without a bucket there is no snapshot, and ingesters have everything. */
    if (query->snapshot == NULL)
        return FG_OK;
    code = qry_reader_open(&listing.reader, query, selection, NULL, selection->start_ns,
                           selection->end_ns, OBJECTS_PROFILES, false, err);
    if (code == FG_OK)
        code = read_all(&listing, err);
    if (code == FG_OK)
        code = qry_rollup_only_series(query, selection, add_labels, &listing, err);
    qry_reader_close(&listing.reader);
    return code;
}

/* ---- counts ---- */

static void count(struct qry_tenant_stats *into, uint64_t profiles, int64_t t_min_ns,
                  int64_t t_max_ns)
{
    if (profiles == 0)
        return;
    into->oldest_ns = into->profiles == 0 ? t_min_ns : FG_MIN(into->oldest_ns, t_min_ns);
    into->newest_ns = into->profiles == 0 ? t_max_ns : FG_MAX(into->newest_ns, t_max_ns);
    into->profiles += profiles;
}

/* Subtracts what is deleted of all series; of single series nothing is read here. */
static void count_left(const struct fg_left *left, uint64_t profiles, int64_t t_min_ns,
                       int64_t t_max_ns, struct qry_tenant_stats *into)
{
    if (fg_left_clip(left, &t_min_ns, &t_max_ns))
        count(into, profiles, t_min_ns, t_max_ns);
}

static void count_tenant(const struct fg_snapshot *snapshot, uint32_t tenant,
                         const struct fg_left *left, struct qry_tenant_stats *into)
{
    const struct fg_blocks *blocks = &snapshot->blocks[tenant]->blocks;
    const struct fg_l0 *l0 = &snapshot->l0->l0;
    uint32_t number = fg_l0_tenant(l0, snapshot->tenants[tenant]);

    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        if (!blocks->blocks[i].derived ||
            blocks->blocks[i].rollup_only) /* their profiles count elsewhere */
            count_left(left, blocks->blocks[i].profiles, blocks->blocks[i].t_min_ns,
                       blocks->blocks[i].t_max_ns, into);
    for (uint32_t i = 0; number != FG_L0_NO_TENANT && i < l0->n_segments; i++) {
        const struct fg_l0_part *part = fg_l0_part(&l0->segments[i], number);

        if (part != NULL && fg_snapshot_reads(snapshot, tenant, &l0->segments[i]))
            count_left(left, part->profiles, part->t_min_ns, part->t_max_ns, into);
    }
}

enum fg_code qry_blocks_stats(struct qry_query *query, struct qry_tenant_stats *into,
                              struct fg_err *err)
{
    if (query->snapshot == NULL)
        return FG_OK;
    for (uint32_t i = 0; i < query->snapshot->core.n_tenants; i++) {
        struct fg_leaving leaving;
        struct fg_left left;

        fg_leaving_init(&leaving, &query->deletions[i], (struct fg_time_span){INT64_MIN, INT64_MAX},
                        query->arena);
        if (fg_leaving_of(&leaving, NULL, &left, err) != FG_OK)
            return err->code;
        count_tenant(&query->snapshot->core, i, &left, into);
    }
    return qry_query_check(query, err);
}
