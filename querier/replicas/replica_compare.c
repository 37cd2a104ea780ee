#include "querier/replicas/replica_compare.h"

#include <stdlib.h>

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(
        err, FG_E_LIMIT,
        "the query needs more memory than a query may use: ingesters differ in too many profiles");
}

static int cmp_groups(uint16_t a_shard, uint32_t a_window, uint16_t b_shard, uint32_t b_window)
{
    if (a_shard != b_shard)
        return a_shard < b_shard ? -1 : 1;
    return (a_window > b_window) - (a_window < b_window);
}

/* ---- reading ---- */

static struct fg_id id_at(struct fg_slice ids, size_t i)
{
    return fg_id_get(ids.ptr + i * FG_ID_BYTES);
}

static bool are_ascending(struct fg_slice ids)
{
    for (size_t i = 1; i < ids.len / FG_ID_BYTES; i++)
        if (fg_id_cmp(id_at(ids, i - 1), id_at(ids, i)) >= 0)
            return false;
    return true;
}

static enum fg_code read_sum(const Fg__Inner__GroupSum *from, const struct qry_shard_map *summed,
                             struct qry_replica_compare_sum *ret_sum, struct fg_err *err)
{
    struct fg_slice ids = fg_bytes(from->ids.data, from->ids.len);

    /* Maps and the exactly-once check rely on it: a sum of a shard that was not asked for would be
     * compared with nothing. */
    if (from->shard > UINT16_MAX || !qry_shard_map_has(summed, (uint16_t)from->shard))
        return fg_fail(err, FG_E_CORRUPT, "sum of shard %u, which was not asked for", from->shard);
    if (from->digest.len != 0 && from->digest.len != FG_ID_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "sum of shard %u: %zu bytes", from->shard,
                       from->digest.len);
    /* add_others() merges two ascending lists; ids out of order would count as missing. */
    if (ids.len % FG_ID_BYTES != 0 || !are_ascending(ids))
        return fg_fail(err, FG_E_CORRUPT, "ids of shard %u: %zu bytes, or not ascending",
                       from->shard, ids.len);
    *ret_sum = (struct qry_replica_compare_sum){
        .shard = (uint16_t)from->shard,
        .window = from->window,
        .count = from->count,
        .digest = from->digest.len == 0 ? (struct fg_id){0} : fg_id_get(from->digest.data),
        .ids = ids,
    };
    return FG_OK;
}

enum fg_code qry_replica_compare_read(Fg__Inner__GroupSum *const *sums, size_t n,
                                      const struct qry_shard_map *summed, struct fg_arena *arena,
                                      struct qry_replica_compare_answer *ret_answer,
                                      struct fg_err *err)
{
    struct qry_replica_compare_sum *read = fg_arena_new(arena, struct qry_replica_compare_sum, n);

    if (read == NULL)
        return too_large(err);
    for (size_t i = 0; i < n; i++) {
        if (read_sum(sums[i], summed, &read[i], err) != FG_OK)
            return err->code;
        if (i > 0 &&
            /* One sum of a group from each answer: compare_group() expects no second one. */
            cmp_groups(read[i - 1].shard, read[i - 1].window, read[i].shard, read[i].window) >= 0)
            return fg_fail(err, FG_E_CORRUPT, "sums of groups are not in order");
    }
    *ret_answer = (struct qry_replica_compare_answer){.sums = read, .n = n, .summed = *summed};
    return FG_OK;
}

/* ---- group after group ---- */

struct compare_entry {
    const struct qry_replica_compare_sum *sum;
    uint32_t from;
};

static int cmp_entries(const void *left, const void *right)
{
    const struct compare_entry *a = left, *b = right;
    int order = cmp_groups(a->sum->shard, a->sum->window, b->sum->shard, b->sum->window);

    return order != 0 ? order : (a->from > b->from) - (a->from < b->from);
}

/* Lists the sums of all answers, group by group. */
static enum fg_code list_entries(const struct qry_replica_compare_answer *answers, uint32_t n,
                                 struct fg_arena *arena, struct compare_entry **ret_entries,
                                 size_t *ret_n, struct fg_err *err)
{
    struct compare_entry *entries;
    size_t total = 0, at = 0;

    for (uint32_t i = 0; i < n; i++)
        total += answers[i].n;
    entries = fg_arena_new(arena, struct compare_entry, total);
    if (entries == NULL)
        return too_large(err);
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; k < answers[i].n; k++)
            entries[at++] = (struct compare_entry){&answers[i].sums[k], i};
    if (total > 1)
        qsort(entries, total, sizeof *entries, cmp_entries);
    *ret_entries = entries;
    *ret_n = total;
    return FG_OK;
}

/* Returns the end of the entries of the same group. */
static size_t group_end(const struct compare_entry *entries, size_t n, size_t from)
{
    const struct qry_replica_compare_sum *first = entries[from].sum;
    size_t end = from + 1;

    while (end < n && cmp_groups(first->shard, first->window, entries[end].sum->shard,
                                 entries[end].sum->window) == 0)
        end++;
    return end;
}

/* ---- comparing ---- */

struct compare_work {
    const struct qry_replica_compare_answer *answers;
    uint32_t n;
    struct fg_arena *arena;
    struct qry_replica_compare_result *result;
};

/* Returns true if an answer counts something else than the one that gives the data. An answer that
 * counts nothing has nothing that could be missing. */
static bool differs(const struct compare_entry *entries, size_t n,
                    const struct qry_replica_compare_sum *own)
{
    for (size_t i = 0; i < n; i++) {
        const struct qry_replica_compare_sum *sum = entries[i].sum;

        if (sum->count > 0 &&
            (sum->count != own->count || fg_id_cmp(sum->digest, own->digest) != 0))
            return true;
    }
    return false;
}

static enum fg_code add_differ(struct compare_work *work, const struct qry_replica_compare_sum *sum,
                               struct fg_err *err)
{
    struct qry_replica_compare_result *result = work->result;

    if (!fg_arena_grow(work->arena, &result->differ, result->n_differ, 1, &result->cap_differ,
                       sizeof *result->differ))
        return too_large(err);
    result->differ[result->n_differ++] =
        (struct qry_replica_compare_group){sum->shard, sum->window};
    return FG_OK;
}

/* Adds the ids of the entry that the data lacks. Both lists are ascending. */
static enum fg_code add_others(struct compare_work *work, const struct compare_entry *entry,
                               struct fg_slice own, struct fg_err *err)
{
    struct qry_replica_compare_result *result = work->result;
    size_t n = entry->sum->ids.len / FG_ID_BYTES, n_own = own.len / FG_ID_BYTES, k = 0;

    for (size_t i = 0; i < n; i++) {
        struct fg_id id = id_at(entry->sum->ids, i);

        while (k < n_own && fg_id_cmp(id_at(own, k), id) < 0)
            k++;
        if (k < n_own && fg_id_cmp(id_at(own, k), id) == 0)
            continue;
        if (!fg_arena_grow(work->arena, &result->missing, result->n_missing, 1,
                           &result->cap_missing, sizeof *result->missing))
            return too_large(err);
        result->missing[result->n_missing++] =
            (struct qry_replica_compare_missing){entry->from, entry->sum->shard, id};
    }
    return FG_OK;
}

static int cmp_by_id(const void *left, const void *right)
{
    const struct qry_replica_compare_missing *a = left, *b = right;
    int order = fg_id_cmp(a->id, b->id);

    return order != 0 ? order : (a->from > b->from) - (a->from < b->from);
}

/* Keeps one holder of each missing profile: fetched from two, it would count twice. */
static void drop_doubles(struct qry_replica_compare_result *result, uint32_t from)
{
    uint32_t kept = from;

    if (result->n_missing - from < 2)
        return;
    qsort(result->missing + from, result->n_missing - from, sizeof *result->missing, cmp_by_id);
    for (uint32_t i = from; i < result->n_missing; i++)
        if (kept == from || fg_id_cmp(result->missing[kept - 1].id, result->missing[i].id) != 0)
            result->missing[kept++] = result->missing[i];
    result->n_missing = kept;
}

static enum fg_code compare_group(struct compare_work *work, const struct compare_entry *entries,
                                  size_t n, struct fg_err *err)
{
    static const struct qry_replica_compare_sum nothing;
    uint16_t shard = entries[0].sum->shard;
    uint32_t owner = 0, before = work->result->n_missing;
    const struct qry_replica_compare_sum *own = &nothing;

    /* The answer whose data counts for the shard; n: none. */
    while (owner < work->n && !qry_shard_map_has(&work->answers[owner].data, shard))
        owner++;
    for (size_t i = 0; i < n; i++)
        if (entries[i].from == owner)
            own = entries[i].sum;
    /* Data without sums, from a single owner when it was planned: what it is made of is unknown, so
     * ids are needed. */
    if ((owner < work->n && !qry_shard_map_has(&work->answers[owner].summed, shard)) ||
        differs(entries, n, own))
        return add_differ(work, entries[0].sum, err);
    for (size_t i = 0; i < n; i++)
        if (entries[i].from != owner && add_others(work, &entries[i], own->ids, err) != FG_OK)
            return err->code;
    drop_doubles(work->result, before);
    return FG_OK;
}

static int cmp_by_from(const void *left, const void *right)
{
    const struct qry_replica_compare_missing *a = left, *b = right;

    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return fg_id_cmp(a->id, b->id);
}

enum fg_code qry_replica_compare_answers(const struct qry_replica_compare_answer *answers,
                                         uint32_t n, struct fg_arena *arena,
                                         struct qry_replica_compare_result *ret_result,
                                         struct fg_err *err)
{
    struct qry_replica_compare_result result = {0};
    struct compare_work work = {answers, n, arena, &result};
    struct compare_entry *entries = NULL;
    size_t n_entries = 0;

    if (list_entries(answers, n, arena, &entries, &n_entries, err) != FG_OK)
        return err->code;
    for (size_t i = 0, end; i < n_entries; i = end) {
        end = group_end(entries, n_entries, i);
        if (compare_group(&work, entries + i, end - i, err) != FG_OK)
            return err->code;
    }
    if (result.n_missing > 1)
        /* By holder, for the requests that fetch them. */
        qsort(result.missing, result.n_missing, sizeof *result.missing, cmp_by_from);
    *ret_result = result;
    return FG_OK;
}

enum fg_code qry_replica_compare_greatest(const struct qry_replica_compare_answer *answers,
                                          uint32_t n, struct fg_arena *arena, uint64_t *ret_count,
                                          struct fg_err *err)
{
    struct compare_entry *entries = NULL;
    size_t n_entries = 0;
    uint64_t count = 0;

    if (list_entries(answers, n, arena, &entries, &n_entries, err) != FG_OK)
        return err->code;
    for (size_t i = 0, end; i < n_entries; i = end) {
        uint64_t greatest = 0;

        end = group_end(entries, n_entries, i);
        for (size_t k = i; k < end; k++)
            greatest = FG_MAX(greatest, entries[k].sum->count);
        count += greatest;
    }
    *ret_count = count;
    return FG_OK;
}
