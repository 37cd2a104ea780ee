/* Snapshots of the manifests: reads what the core (common/cluster/manifest/snapshot_core.h) wants. */
#include "common/cluster/ring/view.h"
#include "common/storage/bucket/damage.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/blocks/lost.h"

/* While the bucket is away a query tries to read manifests once in this time; those between use
 * what is known at once. */
static const int64_t AWAY_NS = 2 * FG_SECOND_NS;
/* What an older snapshot lists and no cache has may take so long to come. */
static const int64_t STALE_FETCH_NS = 2 * FG_SECOND_NS;

/* A manifest on its way. */
struct snapshot_read {
    struct fg_bucket_request request;
    char name[FG_NAME_MAX_BYTES];
    int object; /* FG_SNAPSHOT_L0, or the number of a tenant */
};

static void lock(struct qry_blocks *blocks)
{
    (void)pthread_mutex_lock(&blocks->manifests_lock);
}

static void unlock(struct qry_blocks *blocks)
{
    (void)pthread_mutex_unlock(&blocks->manifests_lock);
}

/* Locked. The etag's text is a copy: the manifest it is of may go meanwhile. */
static enum fg_code prepare(const struct qry_query *query, int64_t until_mono_ns, int object,
                            struct snapshot_read *read, struct fg_err *err)
{
    const struct fg_snapshot *core = &query->snapshot->core;
    struct fg_slice etag = fg_snapshot_etag(core, object);
    struct fg_bucket_request *request = &read->request;

    if (object == FG_SNAPSHOT_L0)
        memcpy(read->name, FG_NAME_L0, sizeof FG_NAME_L0);
    else if (fg_name_blocks(read->name, core->tenants[object], err) != FG_OK)
        return err->code;
    read->object = object;
    request->verb = FG_BUCKET_GET;
    request->name = read->name;
    request->content_max_bytes = FG_MANIFEST_MAX_BYTES;
    request->deadline_mono_ns = until_mono_ns;
    if (etag.len > 0) {
        fg_assert(etag.len < FG_BUCKET_ETAG_BYTES);
        request->condition = FG_BUCKET_IF_CHANGED;
        memcpy(request->if_etag.text, etag.ptr, etag.len);
    }
    return FG_OK;
}

/* Locked. Takes what the core wants now; it wants it once. */
static enum fg_code take_wishes(struct qry_query *query, int64_t until_mono_ns,
                                struct snapshot_read *reads, size_t *ret_n, struct fg_err *err)
{
    struct fg_snapshot *core = &query->snapshot->core;
    size_t n = 0;

    if (core->want_l0 && prepare(query, until_mono_ns, FG_SNAPSHOT_L0, &reads[n++], err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < core->n_tenants; i++)
        if ((core->want_tenants >> i & 1) != 0 &&
            prepare(query, until_mono_ns, (int)i, &reads[n++], err) != FG_OK)
            return err->code;
    core->want_l0 = false;
    core->want_tenants = 0;
    *ret_n = n;
    return FG_OK;
}

static enum fg_code decode(const struct qry_query *query, const struct snapshot_read *read,
                           struct fg_manifest **ret_manifest, struct fg_err *err)
{
    const struct fg_bucket_request *request = &read->request;
    bool there = request->code == FG_OK;
    struct fg_slice bytes = there ? fg_buf_slice(&request->body) : fg_bytes(NULL, 0);
    struct fg_slice etag = there ? fg_cstr(request->etag.text) : fg_bytes(NULL, 0);
    enum fg_code code;

    if (there && bytes.len == 0)
        code = fg_fail(err, FG_E_CORRUPT, "is empty");
    else if (!there && read->object == FG_SNAPSHOT_L0)
        return fg_manifest_l0_missing(err);
    else if (read->object == FG_SNAPSHOT_L0)
        code = fg_manifest_l0(bytes, etag, ret_manifest, err);
    else
        code = fg_manifest_blocks(bytes, etag, query->snapshot->core.tenants[read->object],
                                  ret_manifest, err);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", read->name);
}

static enum fg_code take_read(struct qry_query *query, struct snapshot_read *read,
                              struct fg_err *err)
{
    struct qry_blocks *blocks = query->querier->blocks;
    struct fg_bucket_request *request = &read->request;
    struct fg_manifest *manifest = NULL;

    if (request->code != FG_OK && request->code != FG_E_NOT_FOUND)
        return qry_blocks_fail(request, err);
    query->bytes += request->body.len;
    if (!(request->code == FG_OK && request->unchanged) &&
        decode(query, read, &manifest, err) != FG_OK) {
        if (fg_damage_unusable(err->code))
            fg_damage_met(blocks->bucket->damage, read->name, err->code, err->msg);
        return err->code;
    }
    lock(blocks);
    fg_snapshot_answer(&query->snapshot->core, read->object, manifest, fg_mono_ns(blocks->clock));
    unlock(blocks);
    return FG_OK;
}

/* Reads everything that is wanted, at once. */
static enum fg_code read_round(struct qry_query *query, struct snapshot_read *reads, size_t n,
                               struct fg_err *err)
{
    struct qry_blocks *blocks = query->querier->blocks;
    struct fg_bucket_wave *wave = fg_bucket_wave_create();
    struct fg_bucket_request *request;
    enum fg_code code = FG_OK;

    for (size_t i = 0; i < n; i++)
        fg_bucket_wave_send(wave, blocks->bucket, &reads[i].request);
    query->requests += n;
    fg_metric_add(blocks->metrics, BLOCKS_REQUESTS, n);
    while (code == FG_OK && (request = fg_bucket_wave_next(wave)) != NULL)
        code = take_read(query, fg_container(request, struct snapshot_read, request), err);
    fg_bucket_wave_destroy(wave);
    return code;
}

static enum fg_code step(struct qry_query *query, int64_t until_mono_ns, struct fg_err *err)
{
    struct snapshot_read *reads = fg_calloc(1 + FG_SNAPSHOT_TENANTS_MAX, sizeof *reads);
    struct qry_blocks *blocks = query->querier->blocks;
    enum fg_code code;
    size_t n = 0;

    lock(blocks);
    code = take_wishes(query, until_mono_ns, reads, &n, err);
    unlock(blocks);
    if (code == FG_OK)
        code = read_round(query, reads, n, err);
    for (size_t i = 0; i < 1 + FG_SNAPSHOT_TENANTS_MAX; i++)
        fg_bucket_clear(&reads[i].request);
    free(reads);
    return code;
}

/* What members of the ring have drained is in manifests from there on (as-drained). */
static enum fg_snapshot_state begin(struct qry_query *query, bool fresh)
{
    struct qry_blocks *blocks = query->querier->blocks;
    struct fg_snapshot *core = &query->snapshot->core;
    uint64_t least = query->ring == NULL ? 0 : query->ring->ring.generation;

    lock(blocks);
    fg_snapshot_begin(core, least, fresh, fg_mono_ns(blocks->clock));
    unlock(blocks);
    fg_metric_add(blocks->metrics, fresh ? BLOCKS_AGAIN : BLOCKS_SNAPSHOTS, 1);
    return core->state;
}

/* The states change under the lock, but only by our own calls. */
static enum fg_code read_all(struct qry_query *query, int64_t until_mono_ns, bool fresh,
                             struct fg_err *err)
{
    struct fg_snapshot *core = &query->snapshot->core;

    (void)begin(query, fresh);
    while (core->state == FG_SNAPSHOT_READING)
        if (qry_query_check(query, err) != FG_OK || step(query, until_mono_ns, err) != FG_OK)
            return err->code;
    if (core->state == FG_SNAPSHOT_FAILED) {
        *err = core->err;
        return err->code;
    }
    return FG_OK;
}

static void create(struct qry_query *query)
{
    struct qry_blocks *blocks = query->querier->blocks;
    struct qry_blocks_snapshot *snapshot = fg_new(struct qry_blocks_snapshot);

    for (size_t i = 0; i < query->tenants.n; i++)
        snapshot->tenants[i] = query->tenants.ids[i];
    snapshot->task_group = fg_task_group_create(query->querier->work, FG_LANE_QUERY);
    lock(blocks);
    fg_snapshot_init(&snapshot->core, blocks->manifests, snapshot->tenants,
                     (uint32_t)query->tenants.n);
    unlock(blocks);
    query->snapshot = snapshot;
}

/* ---- where manifests cannot be read ---- */

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
    enum fg_code code;

    lock(blocks);
    code =
        fg_snapshot_take_known(&query->snapshot->core, fg_mono_ns(blocks->clock), ret_age_ns, &err);
    unlock(blocks);
    return code == FG_OK;
}

/* The snapshot of what is known already, after others could not be read. */
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

/* Returns how long manifests may take: as long as the query if there is no older copy. */
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
        blocks->away_until_mono_ns = fg_time_add(now_ns, AWAY_NS); /* it is ours */
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
    /* Not the same one again: its reads may have failed half way. */
    qry_blocks_end(query);
    create(query);
    if (!fresh && is_known_away(query, err)) {
        code = err->code;
    } else {
        code = read_all(query, wait_until(query), fresh, err);
        if (qry_query_check(query, &gone) == FG_OK) /* else its end says nothing of the bucket */
            note_away(blocks, code, err);
    }
    if (code != FG_OK && fall_back(query, err) != FG_OK) {
        qry_blocks_end(query);
        if (err->code == FG_E_CORRUPT ||
            err->code == FG_E_UNIMPLEMENTED) /* our trouble, which may pass */
            err->code = FG_E_UNAVAILABLE;
        return fg_wrap(err, "snapshot");
    }
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

void qry_blocks_refresh(struct qry_blocks *blocks)
{
    lock(blocks);
    fg_manifests_expire(blocks->manifests);
    unlock(blocks);
}

void qry_blocks_end(struct qry_query *query)
{
    struct qry_blocks *blocks = query->querier->blocks;

    if (query->snapshot == NULL)
        return;
    lock(blocks);
    fg_snapshot_done(&query->snapshot->core);
    unlock(blocks);
    fg_task_group_destroy(query->snapshot->task_group);
    free(query->snapshot);
    query->snapshot = NULL;
}
