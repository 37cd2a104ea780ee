/* Manifests: which objects there are, and what to do while the bucket does not answer. */
#include "common/cluster/ring/view.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/blocks/lost.h"

/* While the bucket is unavailable, one query in this time tries to read manifests. All others use
 * the last copies at once, so that they do not all wait for a timeout. */
static const int64_t AWAY_NS = 2 * FG_SECOND_NS;
/* How long a query with an older snapshot waits for an object that no cache has. */
static const int64_t STALE_FETCH_NS = 2 * FG_SECOND_NS;

static void lock(struct qry_blocks *blocks)
{
    (void)pthread_mutex_lock(&blocks->away_lock);
}

static void unlock(struct qry_blocks *blocks)
{
    (void)pthread_mutex_unlock(&blocks->away_lock);
}

static enum fg_code check(void *arg, struct fg_err *err)
{
    return qry_query_check(arg, err);
}

static enum fg_code read_all(struct qry_query *query, int64_t until_mono_ns, bool fresh,
                             struct fg_err *err)
{
    struct qry_blocks *blocks = query->querier->blocks;
    /* Manifests from this generation on have all that members of the ring have drained
     * (as-drained). */
    struct fg_snapshots_how how = {.least = query->ring == NULL ? 0 : query->ring->ring.generation,
                                   .fresh = fresh,
                                   .deadline_mono_ns = until_mono_ns,
                                   .check = check,
                                   .arg = query};
    enum fg_code code;

    fg_metric_add(blocks->metrics, fresh ? BLOCKS_AGAIN : BLOCKS_SNAPSHOTS, 1);
    code = fg_snapshots_take(blocks->snapshots, &query->snapshot->core, &how, err);
    fg_metric_add(blocks->metrics, BLOCKS_REQUESTS, how.requests);
    query->requests += how.requests;
    query->bytes += how.bytes;
    return code == FG_OK ? FG_OK : qry_blocks_read_fault(err);
}

static void create(struct qry_query *query)
{
    struct qry_blocks *blocks = query->querier->blocks;
    struct qry_blocks_snapshot *snapshot = fg_new(struct qry_blocks_snapshot);

    for (size_t i = 0; i < query->tenants.n; i++)
        snapshot->tenants[i] = query->tenants.ids[i];
    snapshot->task_group =
        fg_task_group_create(query->querier->work, FG_LANE_QUERY, qry_query_job(query));
    fg_snapshots_open(blocks->snapshots, &snapshot->core, snapshot->tenants,
                      (uint32_t)query->tenants.n);
    query->snapshot = snapshot;
}

/* ---- if manifests cannot be read ---- */

static bool is_away(enum fg_code code)
{
    return code == FG_E_UNAVAILABLE || code == FG_E_DEADLINE;
}

/* Returns true if the answer can say that it is incomplete. An export, which is written profile by
 * profile, cannot. */
static bool may_be_stale(const struct qry_query *query)
{
    return query->req != NULL;
}

static bool take_known(struct qry_query *query, int64_t *ret_age_ns)
{
    struct qry_blocks *blocks = query->querier->blocks;
    struct fg_err err;

    return fg_snapshots_take_known(blocks->snapshots, &query->snapshot->core, ret_age_ns, &err) ==
           FG_OK;
}

/* Falls back to the last copies of the manifests, after the bucket could not be read. Returns the
 * error if the query may not use them, or there are none. */
static enum fg_code fall_back(struct qry_query *query, struct fg_err *err)
{
    struct qry_blocks *blocks = query->querier->blocks;
    struct fg_err gone;
    int64_t age_ns;

    if (!may_be_stale(query) || qry_query_check(query, &gone) != FG_OK ||
        !(is_away(err->code) || (err->code == FG_E_CORRUPT && query->partial)))
        return err->code;
    qry_blocks_end(query);
    create(query);
    if (!take_known(query, &age_ns))
        return err->code;
    qry_query_lacks_since(query, "manifests", age_ns, err);
    query->stale = true;
    query->stale_until_mono_ns =
        FG_MIN(query->deadline_mono_ns, fg_time_add(fg_mono_ns(blocks->clock), STALE_FETCH_NS));
    return FG_OK;
}

/* Returns how long manifests may take: the time of the query, if there is no older copy to fall
 * back to. */
static int64_t wait_until(struct qry_query *query)
{
    int64_t age_ns;

    return may_be_stale(query) && take_known(query, &age_ns) ? qry_query_patience_mono_ns(query)
                                                             : query->deadline_mono_ns;
}

/* Returns true if the bucket is known to be unavailable, and this query need not try it: another
 * one does, or the next attempt is not due. */
static bool is_known_away(struct qry_query *query, struct fg_err *ret_why)
{
    struct qry_blocks *blocks = query->querier->blocks;
    int64_t now_ns = fg_mono_ns(blocks->clock);
    bool known;

    lock(blocks);
    known = now_ns < blocks->away_until_mono_ns;
    if (known)
        *ret_why = blocks->away;
    else if (blocks->away_until_mono_ns > 0)
        /* The attempt is due, and this query makes it; others meanwhile use the last copies. */
        blocks->away_until_mono_ns = fg_time_add(now_ns, AWAY_NS);
    unlock(blocks);
    return known && may_be_stale(query);
}

static void note_away(struct qry_blocks *blocks, enum fg_code code, const struct fg_err *err)
{
    lock(blocks);
    if (code == FG_OK) {
        blocks->away_until_mono_ns = 0;
    } else if (is_away(code)) {
        blocks->away_until_mono_ns = fg_time_add(fg_mono_ns(blocks->clock), AWAY_NS);
        blocks->away = *err;
    }
    unlock(blocks);
    if (code == FG_OK)
        fg_condition_clear(blocks->unread);
    else if (is_away(code))
        fg_condition_raise(blocks->unread,
                           "manifests cannot be read, queries use the last copies: %s", err->msg);
}

enum fg_code qry_blocks_begin(struct qry_query *query, bool fresh, struct fg_err *err)
{
    struct qry_blocks *blocks = query->querier->blocks;
    struct fg_err gone;
    enum fg_code code;

    if (blocks == NULL || (query->snapshot != NULL && !fresh))
        return FG_OK;
    qry_lost_open(query);
    query->fresh = fresh;
    query->stale = false;
    /* Always a new snapshot: reads of the old one may have failed half-way. */
    qry_blocks_end(query);
    create(query);
    if (!fresh && is_known_away(query, err)) {
        code = err->code;
    } else {
        code = read_all(query, wait_until(query), fresh, err);
        /* A query that was cancelled, or whose time is over, says nothing about the bucket. */
        if (qry_query_check(query, &gone) == FG_OK)
            note_away(blocks, code, err);
    }
    if (code != FG_OK && fall_back(query, err) != FG_OK) {
        qry_blocks_end(query);
        /* Not the client's fault, and an operator can mend it. */
        if (err->code == FG_E_CORRUPT || err->code == FG_E_UNIMPLEMENTED)
            err->code = FG_E_UNAVAILABLE;
        return fg_wrap(err, "snapshot");
    }
    fg_assert(query->snapshot != NULL);
    return FG_OK;
}

uint64_t qry_blocks_generation(const struct qry_query *query)
{
    return query->snapshot == NULL ? 0 : fg_snapshot_generation(&query->snapshot->core);
}

const struct fg_blocks *qry_blocks_manifest(const struct qry_query *query, size_t tenant)
{
    return query->snapshot == NULL ? NULL : &query->snapshot->core.blocks[tenant]->blocks;
}

const struct fg_l0 *qry_blocks_l0(const struct qry_query *query)
{
    return query->snapshot == NULL ? NULL : &query->snapshot->core.l0->l0;
}

void qry_blocks_refresh(struct qry_blocks *blocks)
{
    fg_snapshots_expire(blocks->snapshots);
}

void qry_blocks_settle(struct qry_query *query)
{
    if (query->snapshot != NULL)
        fg_task_group_settle(query->snapshot->task_group);
}

void qry_blocks_end(struct qry_query *query)
{
    struct qry_blocks *blocks = query->querier->blocks;

    if (query->snapshot == NULL)
        return;
    fg_snapshots_close(blocks->snapshots, &query->snapshot->core);
    query->cpu_ns += fg_task_group_helpers_cpu_ns(query->snapshot->task_group);
    fg_task_group_destroy(query->snapshot->task_group);
    free(query->snapshot);
    query->snapshot = NULL;
}
