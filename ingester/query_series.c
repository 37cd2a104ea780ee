/*
 * SERIES and STATS are answered from the catalog, without reading profiles. So a series is listed
 * that has profiles before and after the range and none in it, if its shard has any; deletions are
 * compared with the first and last time of a series, and of a chunk. SERIES covers the shards whose
 * data is asked for, since lists of replicas unite; STATS covers all asked for in any way.
 */
#include "common/base/search.h"
#include "common/model/label_index.h"
#include "ingester/query.h"

/* Distinct label sets, encoded one after another. */
struct sets {
    struct ing_query *query;
    struct fg_map map; /* hash of the set -> position in ends */
    struct fg_labels *items;
    size_t count, cap;
};

/* Keeps the labels of the set that are asked for; all if none are. */
static struct fg_labels restrict_labels(const struct fg_labels *labels, char *const *names,
                                        size_t n_names, struct fg_arena *arena)
{
    struct fg_labels out = {NULL, 0};

    if (n_names == 0)
        return *labels;
    out.items = fg_arena_new(arena, struct fg_label, FG_MIN(labels->count, n_names));
    for (size_t i = 0; out.items != NULL && i < labels->count; i++) {
        bool wanted = false;

        for (size_t n = 0; n < n_names && !wanted; n++)
            wanted = fg_slice_is(labels->items[i].name, names[n]);
        if (wanted && out.count < FG_MIN(labels->count, n_names))
            out.items[out.count++] = labels->items[i];
    }
    return out;
}

static bool sets_add(struct sets *sets, const struct fg_labels *labels)
{
    uint64_t hash = fg_id_table(fg_labels_hash(labels));
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&sets->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&sets->map, &walk))
        if (fg_labels_cmp(&sets->items[i], labels) == 0)
            return true;
    if (sets->count == sets->cap) {
        size_t cap = FG_MAX(64, sets->cap * 2);
        struct fg_labels *items = fg_arena_alloc(sets->query->arena, cap * sizeof *items);

        if (items == NULL)
            return false;
        if (sets->count > 0)
            memcpy(items, sets->items, sets->count * sizeof *items);
        sets->items = items;
        sets->cap = cap;
    }
    fg_map_add(&sets->map, hash, (uint32_t)sets->count);
    sets->items[sets->count++] = *labels;
    return true;
}

static void write_sets(const struct sets *sets, struct fg_buf *out)
{
    struct fg_buf labels;

    fg_buf_init(&labels, SIZE_MAX);
    fg_buf_varint(out, sets->count);
    for (size_t i = 0; i < sets->count; i++) {
        fg_buf_clear(&labels);
        fg_labels_encode(&sets->items[i], &labels);
        fg_buf_lenbytes(out, fg_buf_slice(&labels));
    }
    fg_buf_done(&labels);
}

/* Returns true if the series of a match has data in the range, and is asked for. */
static bool is_listed(const struct ing_query_scope *scope, const struct ing_catalog_match *match)
{
    uint16_t shard = match->series->shard;
    size_t at; /* the first group of the shard: they are sorted by it */

    if (!ing_query_shards_data(&scope->shards, shard))
        return false;
    at = fg_lower_bound(i, 0, scope->n_chunks, scope->chunks[i].key.group.shard < shard);
    return at < scope->n_chunks && scope->chunks[at].key.group.shard == shard;
}

static void write_reply(struct ing_query *query, bool index, uint64_t series_left)
{
    Fg__Inner__SeriesReply reply = FG__INNER__SERIES_REPLY__INIT;
    Fg__Inner__Stats stats;

    ing_query_stats_fill(query, &stats);
    reply.stats = &stats;
    reply.index = index;
    reply.series_left = series_left;
    ing_query_put_reply(query, &reply.base);
}

static enum fg_code answer_sets(struct ing_query *query, const Fg__Inner__SeriesHead *head,
                                const struct ing_query_scope *scope, struct sets *sets,
                                struct fg_err *err)
{
    for (size_t i = 0; i < scope->n_matches; i++) {
        const struct ing_catalog_match *match = &scope->matches[i];
        struct fg_labels all, labels;

        if (!is_listed(scope, match))
            continue;
        all = ing_series_type_labels(match->series, match->type, query->arena);
        if (all.items == NULL)
            return fg_fail(err, FG_E_LIMIT, "query needs too much memory");
        labels = restrict_labels(&all, head->label_names, head->n_label_names, query->arena);
        if ((labels.items == NULL && labels.count > 0) || !sets_add(sets, &labels))
            return fg_fail(err, FG_E_LIMIT, "more than %zu label sets", sets->count);
    }
    write_sets(sets, &query->payload);
    write_reply(query, false, 0);
    return FG_OK;
}

/* Returns false if the arena is full. */
static bool index_series(struct fg_label_indexing *indexing, const struct ing_query_scope *scope,
                         size_t from, size_t to)
{
    const struct ing_catalog_series *series = scope->matches[from].series;

    if (!fg_label_indexing_series(indexing, &series->labels, NULL))
        return false;
    for (size_t i = from; i < to; i++) {
        const struct ing_series_type *type = &series->kind->types[scope->matches[i].type];

        if (!fg_label_indexing_type(indexing, &type->parts, type->text))
            return false;
    }
    return true;
}

/* Returns true if a series of the same kind and types was noted before; else notes it. Such series
 * have the same label names. */
static bool is_noted(struct fg_map *noted, const struct ing_query_scope *scope, size_t from,
                     size_t to)
{
    uint64_t hash = fg_mix64((uint64_t)(uintptr_t)scope->matches[from].series->kind);
    struct fg_map_walk walk;

    for (size_t i = from; i < to; i++)
        hash ^= fg_mix64(hash + scope->matches[i].type + 1);
    /* Two kinds with the same hash of 64 bits: practically never. */
    if (fg_map_first(noted, hash, &walk) != FG_MAP_NONE)
        return true;
    fg_map_add(noted, hash, 0);
    return false;
}

/* Series for which the arena has no room are counted and left out: the querier says so. The last
 * one that was begun may lack some of its labels. */
static enum fg_code answer_index(struct ing_query *query, const Fg__Inner__SeriesHead *head,
                                 const struct ing_query_scope *scope, struct fg_err *err)
{
    const char *label = head->index->label[0] == '\0' ? NULL : head->index->label;
    const size_t limit = fg_arena_limit_bytes(query->arena);
    struct fg_label_indexing indexing;
    struct fg_label_index index;
    enum fg_code code = FG_OK;
    uint64_t left = 0, n = 0;
    struct fg_map noted;
    size_t to;

    fg_map_init(&noted);
    fg_label_indexing_init(&indexing, label, query->arena);
    /* What fg_label_indexing_end() makes of it takes at most as much again. */
    fg_arena_set_limit(query->arena, limit / 2 + fg_arena_used_bytes(query->arena) / 2);
    for (size_t from = 0; code == FG_OK && from < scope->n_matches; from = to) {
        to = from + 1; /* matches of a series are neighbours */
        while (to < scope->n_matches && scope->matches[to].series == scope->matches[from].series)
            to++;
        if (is_listed(scope, &scope->matches[from]) &&
            !(head->index->names_only && is_noted(&noted, scope, from, to)) &&
            (left > 0 || !index_series(&indexing, scope, from, to)))
            left++;
        if (++n % CHECK_WANTED_EVERY == 0)
            code = ing_query_check_wanted(query, err);
    }
    fg_map_done(&noted);
    fg_arena_set_limit(query->arena, limit);
    if (code != FG_OK || fg_label_indexing_end(&indexing, &index, err) != FG_OK)
        return err->code;
    fg_label_index_encode(&index, &query->payload);
    write_reply(query, true, left);
    return FG_OK;
}

static enum fg_code answer(struct ing_query *query, const Fg__Inner__SeriesHead *head,
                           struct sets *sets, struct fg_err *err)
{
    struct ing_query_scope scope;

    if (head->selection == NULL)
        return fg_fail(err, FG_E_INVALID, "query without a selection");
    /* A list of series may be too long, but not too short: chunks count although their profiles may
     * be in the bucket as well. */
    query->lists = true;
    if (ing_query_scope(query, head->selection, NULL, head->selection->start_ns,
                        head->selection->end_ns, &scope, err) != FG_OK)
        return err->code;
    ing_query_scope_done(&scope); /* no profile is read */
    if (head->index != NULL)
        return answer_index(query, head, &scope, err);
    return answer_sets(query, head, &scope, sets, err);
}

enum fg_code ing_query_series(struct ing_query *query, struct fg_err *err)
{
    struct fg_slice bytes = fg_rpc_head(query->req);
    Fg__Inner__SeriesHead *head = fg__inner__series_head__unpack(NULL, bytes.len, bytes.ptr);
    struct sets sets = {.query = query};
    enum fg_code code;

    if (head == NULL)
        return fg_fail(err, FG_E_INVALID, "series: head cannot be read");
    code = answer(query, head, &sets, err);
    fg_map_done(&sets.map);
    fg__inner__series_head__free_unpacked(head, NULL);
    return code;
}

/* Counts a chunk unless a deletion covers all of it. */
static enum fg_code count_chunk(const struct ing_query_scope *scope,
                                const struct ing_head_chunk *chunk, struct ing_query_sums *sums,
                                Fg__Inner__StatsReply *reply, struct fg_err *err)
{
    int64_t least_ns = chunk->least_ns, greatest_ns = chunk->greatest_ns;
    bool first = reply->profiles == 0;

    if (!fg_left_clip(&scope->every, &least_ns, &greatest_ns))
        return FG_OK;
    reply->oldest_ns = first ? least_ns : FG_MIN(reply->oldest_ns, least_ns);
    reply->newest_ns = first ? greatest_ns : FG_MAX(reply->newest_ns, greatest_ns);
    reply->profiles += chunk->count;
    if (!ing_query_shards_sums(&scope->shards, chunk->key.group.shard))
        return FG_OK;
    if (ing_query_sums_group(sums, &chunk->key.group, err) != FG_OK)
        return err->code;
    ing_query_sums_add_all(sums, chunk->count, chunk->digest);
    return FG_OK;
}

static enum fg_code count_chunks(struct ing_query *query, const struct ing_query_scope *scope,
                                 struct ing_query_sums *sums, struct fg_err *err)
{
    Fg__Inner__StatsReply reply;

    fg__inner__stats_reply__init(&reply);
    for (size_t i = 0; i < scope->n_chunks; i++)
        if (count_chunk(scope, &scope->chunks[i], sums, &reply, err) != FG_OK)
            return err->code;
    if (ing_query_sums_finish(sums, err) != FG_OK)
        return err->code;
    if (scope->tenant != NULL)
        reply.series = ing_catalog_count_series(query->context->catalog, scope->tenant);
    reply.sums = sums->items;
    reply.n_sums = sums->n;
    reply.lacks = query->lacks; /* of chunks that are unchecked or in doubt, and so not counted */
    ing_query_put_reply(query, &reply.base);
    return FG_OK;
}

static enum fg_code stats_of(struct ing_query *query, const Fg__Inner__StatsHead *head,
                             struct fg_err *err)
{
    Fg__Inner__Selection selection;
    struct ing_query_scope scope;
    struct ing_query_sums sums;
    enum fg_code code;

    fg__inner__selection__init(&selection);
    selection.tenant = head->tenant;
    selection.generation = head->generation;
    selection.deletions = head->deletions;
    selection.n_deletions = head->n_deletions;
    selection.store = head->store;
    selection.shards = head->shards;
    selection.lenient = true; /* no profile is read; the reply says which chunks do not count */
    if (ing_query_scope(query, &selection, NULL, INT64_MIN, INT64_MAX, &scope, err) != FG_OK)
        return err->code;
    ing_query_scope_done(&scope);
    /* No memory for ids: chunks are counted as wholes, by their digests. */
    ing_query_sums_init(&sums, &scope.shards, query->arena, 0);
    code = count_chunks(query, &scope, &sums, err);
    ing_query_sums_done(&sums);
    return code;
}

enum fg_code ing_query_stats(struct ing_query *query, struct fg_err *err)
{
    struct fg_slice bytes = fg_rpc_head(query->req);
    Fg__Inner__StatsHead *head = fg__inner__stats_head__unpack(NULL, bytes.len, bytes.ptr);
    enum fg_code code;

    if (head == NULL)
        return fg_fail(err, FG_E_INVALID, "stats: head cannot be read");
    code = stats_of(query, head, err);
    fg__inner__stats_head__free_unpacked(head, NULL);
    return code;
}
