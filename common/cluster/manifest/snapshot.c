#include "common/cluster/manifest/snapshot.h"

#include "common/cluster/manifest/object.h"

#include <pthread.h>

struct fg_snapshots {
    struct fg_snapshots_config config;
    pthread_mutex_t
        lock; /* around every call of a core: cores share the cache. None of them waits */
    struct fg_manifests *manifests;
};

/* A manifest on its way. */
struct snapshot_read {
    struct fg_manifest_read read;
    int object; /* FG_SNAPSHOT_L0, or the number of a tenant */
};

enum { READS_MAX = 1 + FG_SNAPSHOT_TENANTS_MAX };

static const int64_t CHECK_EVERY_NS = 200 * FG_MS_NS; /* while the bucket does not respond */

static int64_t now_ns(const struct fg_snapshots *snapshots)
{
    return fg_mono_ns(snapshots->config.clock);
}

static void lock(struct fg_snapshots *snapshots)
{
    (void)pthread_mutex_lock(&snapshots->lock);
}

static void unlock(struct fg_snapshots *snapshots)
{
    (void)pthread_mutex_unlock(&snapshots->lock);
}

struct fg_snapshots *fg_snapshots_create(const struct fg_snapshots_config *config)
{
    struct fg_snapshots *snapshots = fg_new(struct fg_snapshots);

    snapshots->config = *config;
    snapshots->manifests =
        fg_manifests_create(config->tenants_max, config->age_max_ns, FG_RULES_ALL);
    (void)pthread_mutex_init(&snapshots->lock, NULL);
    return snapshots;
}

void fg_snapshots_destroy(struct fg_snapshots *snapshots)
{
    if (snapshots == NULL)
        return;
    fg_manifests_destroy(snapshots->manifests);
    (void)pthread_mutex_destroy(&snapshots->lock);
    free(snapshots);
}

void fg_snapshots_expire(struct fg_snapshots *snapshots)
{
    lock(snapshots);
    fg_manifests_expire(snapshots->manifests);
    unlock(snapshots);
}

void fg_snapshots_open(struct fg_snapshots *snapshots, struct fg_snapshot *snapshot,
                       const struct fg_slice *tenants, uint32_t n_tenants)
{
    lock(snapshots);
    fg_snapshot_init(snapshot, snapshots->manifests, tenants, n_tenants);
    unlock(snapshots);
}

void fg_snapshots_close(struct fg_snapshots *snapshots, struct fg_snapshot *snapshot)
{
    lock(snapshots);
    fg_snapshot_done(snapshot);
    unlock(snapshots);
}

/* Prepares a read for each object that the core wants now; it does not want them twice. Locked. */
static enum fg_code prepare(struct fg_snapshot *core, int64_t deadline_mono_ns,
                            struct snapshot_read *reads, size_t *ret_n, struct fg_err *err)
{
    size_t n = 0;

    for (int object = FG_SNAPSHOT_L0; object < (int)core->n_tenants; object++) {
        bool is_l0 = object == FG_SNAPSHOT_L0;
        struct fg_slice tenant = is_l0 ? FG_LIT("") : core->tenants[object];

        if (is_l0 ? !core->want_l0 : (core->want_tenants >> object & 1) == 0)
            continue;
        reads[n].object = object;
        if (fg_manifest_read_init(&reads[n++].read, tenant, fg_snapshot_etag(core, object),
                                  deadline_mono_ns, err) != FG_OK)
            return err->code;
    }
    fg_assert(n > 0); /* a core that is READING wants something */
    /* Taken over: an answer that begins another read must not find the old wishes. */
    core->want_l0 = false;
    core->want_tenants = 0;
    *ret_n = n;
    return FG_OK;
}

/* Decodes outside of the lock, since manifests are large, and hands the result to the core. */
static enum fg_code answer(struct fg_snapshots *snapshots, struct fg_snapshot *core,
                           struct snapshot_read *read, struct fg_err *err)
{
    struct fg_manifest *manifest = NULL;
    enum fg_code code = fg_manifest_read_take(&read->read, &manifest, err);

    if (code != FG_OK) {
        /* The object arrived and cannot be used; a request that failed says nothing about the
         * object. */
        if (read->read.request.code == FG_OK && fg_damage_unusable(code))
            fg_damage_met(fg_bucket_base(snapshots->config.bucket)->damage, read->read.name, code,
                          err->msg);
        return code;
    }
    lock(snapshots);
    fg_snapshot_answer(core, read->object, manifest, now_ns(snapshots));
    unlock(snapshots);
    return FG_OK;
}

/* Sends the reads one by one, so that `stop` can end each of them. */
static enum fg_code read_in_turn(struct fg_snapshots *snapshots, struct fg_snapshot *core,
                                 struct snapshot_read *reads, size_t n,
                                 struct fg_snapshots_how *how, struct fg_err *err)
{
    for (size_t i = 0; i < n; i++) {
        (void)fg_bucket_call_until(snapshots->config.bucket, &reads[i].read.request, how->stop);
        how->bytes += reads[i].read.request.body.len;
        if (answer(snapshots, core, &reads[i], err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code check(const struct fg_snapshots_how *how, struct fg_err *err)
{
    return how->check == NULL ? FG_OK : how->check(how->arg, err);
}

static enum fg_code read_at_once(struct fg_snapshots *snapshots, struct fg_snapshot *core,
                                 struct snapshot_read *reads, size_t n,
                                 struct fg_snapshots_how *how, struct fg_err *err)
{
    /* Destroying the wave cancels the other reads when one has failed. */
    fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create();
    struct fg_bucket_request *request;
    enum fg_code code = FG_OK;

    for (size_t i = 0; i < n; i++)
        fg_bucket_wave_send(wave, snapshots->config.bucket, &reads[i].read.request);
    while (n > 0 && code == FG_OK) {
        request = fg_bucket_wave_next_within(wave, CHECK_EVERY_NS);
        if (request == NULL) { /* the bucket is slow */
            code = check(how, err);
            continue;
        }
        n--;
        how->bytes += request->body.len;
        code =
            answer(snapshots, core, fg_container(request, struct snapshot_read, read.request), err);
    }
    return code;
}

/* Reads everything that the core wants now. */
static enum fg_code read_round(struct fg_snapshots *snapshots, struct fg_snapshot *core,
                               struct fg_snapshots_how *how, struct fg_err *err)
{
    /* On the heap: a request is large, and there may be one for each of many tenants. */
    struct snapshot_read *reads = fg_calloc(READS_MAX, sizeof *reads);
    enum fg_code code;
    size_t n = 0;

    lock(snapshots);
    code = prepare(core, how->deadline_mono_ns, reads, &n, err);
    unlock(snapshots);
    if (code == FG_OK) {
        how->requests += n;
        code =
            (how->stop != NULL ? read_in_turn : read_at_once)(snapshots, core, reads, n, how, err);
    }
    for (size_t i = 0; i < READS_MAX; i++)
        fg_manifest_read_done(&reads[i].read);
    free(reads);
    return code;
}

enum fg_code fg_snapshots_take(struct fg_snapshots *snapshots, struct fg_snapshot *snapshot,
                               struct fg_snapshots_how *how, struct fg_err *err)
{
    lock(snapshots);
    fg_snapshot_begin(snapshot, how->least, how->fresh, now_ns(snapshots));
    unlock(snapshots);
    /* The state changes under the lock, but only by calls of this thread. */
    while (snapshot->state == FG_SNAPSHOT_READING)
        if (check(how, err) != FG_OK || read_round(snapshots, snapshot, how, err) != FG_OK) {
            lock(snapshots);
            /* The core counts answers. Without these the next take() would wait for ever. */
            while (snapshot->waiting > 0)
                fg_snapshot_failed(snapshot, err);
            unlock(snapshots);
            return err->code;
        }
    if (snapshot->state == FG_SNAPSHOT_READY)
        return FG_OK;
    *err = snapshot->err;
    return err->code;
}

enum fg_code fg_snapshots_take_known(struct fg_snapshots *snapshots, struct fg_snapshot *snapshot,
                                     int64_t *ret_age_ns, struct fg_err *err)
{
    enum fg_code code;

    lock(snapshots);
    code = fg_snapshot_take_known(snapshot, now_ns(snapshots), ret_age_ns, err);
    unlock(snapshots);
    return code;
}
