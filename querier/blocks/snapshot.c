/* Manifests: which objects there are. The core says what is to be read, here it is read. */
#include "common/ring/view.h"
#include "querier/blocks/impl.h"

/* A manifest on its way. */
struct read {
    struct fg_bucket_request request;
    char name[FG_NAME_MAX_BYTES];
    int object; /* FG_SNAPSHOT_L0, or the number of a tenant */
};

static void lock(struct blocks *blocks)
{
    (void)pthread_mutex_lock(&blocks->manifests_lock);
}

static void unlock(struct blocks *blocks)
{
    (void)pthread_mutex_unlock(&blocks->manifests_lock);
}

/* Locked. The etag's text is a copy: the manifest it is of may go meanwhile. */
static enum fg_code prepare(const struct question *question, int object, struct read *read,
                            struct fg_err *err)
{
    const struct fg_snapshot *core = &question->snapshot->core;
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
    request->deadline_mono_ns = question->deadline_mono_ns;
    if (etag.len > 0) {
        fg_assert(etag.len < FG_BUCKET_ETAG_BYTES);
        request->condition = FG_BUCKET_IF_CHANGED;
        memcpy(request->if_etag.text, etag.ptr, etag.len);
    }
    return FG_OK;
}

/* Locked: what the core wants now, which is not wanted twice. */
static enum fg_code take_wishes(struct question *question, struct read *reads, size_t *ret_n,
                                struct fg_err *err)
{
    struct fg_snapshot *core = &question->snapshot->core;
    size_t n = 0;

    if (core->want_l0 && prepare(question, FG_SNAPSHOT_L0, &reads[n++], err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < core->n_tenants; i++)
        if ((core->want_tenants >> i & 1) != 0 &&
            prepare(question, (int)i, &reads[n++], err) != FG_OK)
            return err->code;
    core->want_l0 = false;
    core->want_tenants = 0;
    *ret_n = n;
    return FG_OK;
}

static enum fg_code decode(const struct question *question, const struct read *read,
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
        code = fg_manifest_blocks(bytes, etag, question->snapshot->core.tenants[read->object],
                                  ret_manifest, err);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", read->name);
}

static enum fg_code take_read(struct question *question, struct read *read, struct fg_err *err)
{
    struct blocks *blocks = question->querier->blocks;
    struct fg_bucket_request *request = &read->request;
    struct fg_manifest *manifest = NULL;

    if (request->code != FG_OK && request->code != FG_E_NOT_FOUND)
        return blocks_fail(request, err);
    question->bytes += request->body.len;
    if (!(request->code == FG_OK && request->unchanged) &&
        decode(question, read, &manifest, err) != FG_OK)
        return err->code;
    lock(blocks);
    fg_snapshot_answer(&question->snapshot->core, read->object, manifest,
                       fg_mono_ns(blocks->clock));
    unlock(blocks);
    return FG_OK;
}

/* One round of reads, all at once. */
static enum fg_code read_round(struct question *question, struct read *reads, size_t n,
                               struct fg_err *err)
{
    struct blocks *blocks = question->querier->blocks;
    struct fg_bucket_wave *wave = fg_bucket_wave_create();
    struct fg_bucket_request *request;
    enum fg_code code = FG_OK;

    for (size_t i = 0; i < n; i++)
        fg_bucket_wave_send(wave, blocks->bucket, &reads[i].request);
    question->requests += n;
    fg_metric_add(blocks->metrics, BLOCKS_REQUESTS, n);
    while (code == FG_OK && (request = fg_bucket_wave_next(wave)) != NULL)
        code = take_read(question, fg_container(request, struct read, request), err);
    fg_bucket_wave_destroy(wave);
    return code;
}

static enum fg_code step(struct question *question, struct fg_err *err)
{
    struct read *reads = fg_calloc(1 + FG_SNAPSHOT_TENANTS_MAX, sizeof *reads);
    struct blocks *blocks = question->querier->blocks;
    enum fg_code code;
    size_t n = 0;

    lock(blocks);
    code = take_wishes(question, reads, &n, err);
    unlock(blocks);
    if (code == FG_OK)
        code = read_round(question, reads, n, err);
    for (size_t i = 0; i < 1 + FG_SNAPSHOT_TENANTS_MAX; i++)
        fg_bucket_clear(&reads[i].request);
    free(reads);
    return code;
}

/* What members of the ring have drained is in manifests from there on (as-drained). */
static uint64_t least_generation(const struct question *question)
{
    return question->ring == NULL ? 0 : question->ring->ring.generation;
}

static enum fg_snapshot_state begin(struct question *question, bool fresh)
{
    struct blocks *blocks = question->querier->blocks;
    struct fg_snapshot *core = &question->snapshot->core;

    lock(blocks);
    fg_snapshot_begin(core, least_generation(question), fresh, fg_mono_ns(blocks->clock));
    unlock(blocks);
    fg_metric_add(blocks->metrics, fresh ? BLOCKS_AGAIN : BLOCKS_SNAPSHOTS, 1);
    return core->state;
}

/* The states change under the lock, but only by our own calls. */
static enum fg_code read_all(struct question *question, bool fresh, struct fg_err *err)
{
    struct fg_snapshot *core = &question->snapshot->core;

    (void)begin(question, fresh);
    while (core->state == FG_SNAPSHOT_READING)
        if (question_check(question, err) != FG_OK || step(question, err) != FG_OK)
            return err->code;
    if (core->state == FG_SNAPSHOT_FAILED) {
        *err = core->err;
        return err->code;
    }
    return FG_OK;
}

static void create(struct question *question)
{
    struct blocks *blocks = question->querier->blocks;
    struct blocks_snapshot *snapshot = fg_new(struct blocks_snapshot);

    for (size_t i = 0; i < question->tenants.n; i++)
        snapshot->tenants[i] = question->tenants.ids[i];
    snapshot->crew = fg_crew_create(question->querier->work, FG_LANE_QUERY);
    lock(blocks);
    fg_snapshot_init(&snapshot->core, blocks->manifests, snapshot->tenants,
                     (uint32_t)question->tenants.n);
    unlock(blocks);
    question->snapshot = snapshot;
}

enum fg_code blocks_begin(struct question *question, bool fresh, struct fg_err *err)
{
    if (question->querier->blocks == NULL || (question->snapshot != NULL && !fresh))
        return FG_OK;
    /* Not the old one again: its reads may have failed half way. */
    blocks_end(question);
    create(question);
    if (read_all(question, fresh, err) != FG_OK) {
        blocks_end(question);
        return fg_wrap(err, "snapshot");
    }
    return FG_OK;
}

uint64_t blocks_generation(const struct question *question)
{
    return question->snapshot == NULL ? 0 : fg_snapshot_generation(&question->snapshot->core);
}

const struct fg_blocks *blocks_manifest(const struct question *question, size_t tenant)
{
    return question->snapshot == NULL ? NULL : &question->snapshot->core.blocks[tenant]->blocks;
}

void blocks_refresh(struct blocks *blocks)
{
    lock(blocks);
    fg_manifests_expire(blocks->manifests);
    unlock(blocks);
}

void blocks_end(struct question *question)
{
    struct blocks *blocks = question->querier->blocks;

    if (question->snapshot == NULL)
        return;
    lock(blocks);
    fg_snapshot_done(&question->snapshot->core);
    unlock(blocks);
    fg_crew_destroy(question->snapshot->crew);
    free(question->snapshot);
    question->snapshot = NULL;
}
