/*
 * A snapshot: which segments and blocks together hold everything that was committed up to one
 * generation, each profile once. What a query reads, what a late id is looked for in, what a head
 * is compared with.
 *
 *   begin --> L0 manifest --> tenants' manifests --> READY
 *               ^  \  (cached, young enough)  \  (read after the L0 manifest was: l0-before-tenant)
 *               |                              |
 *               +------------------------------+  one covers segments newer than the L0 manifest
 *                                                 that was read (retry-covered): read that again
 *
 * A pure step core: it says which objects it wants, the caller reads them and hands in what came.
 * Manifests come from a cache that is shared by all snapshots of a process, and are kept as long as
 * a snapshot holds them.
 *
 * When an ingester says that the snapshot is older than what it has forgotten: begin again with its
 * generation as the least. When an object of the snapshot is not there any more: begin again,
 * fresh.
 *
 * Thread: one at a time for a cache and all its snapshots (a lock around each call is enough: none
 * of them waits); a snapshot that is READY may be read without.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_SNAPSHOT_CORE_H
#define FG_COMMON_CLUSTER_MANIFEST_SNAPSHOT_CORE_H

#include "common/cluster/manifest/manifest.h"
#include "common/cluster/manifest/rules.h"

/* ---- the cache ---- */

struct fg_manifests;

/*
 * tenants_max: manifests of tenants that are kept; the longest unused go. age_max_ns: older ones
 * are asked for again, by etag; 0: every time. rules: enum fg_rule.
 */
struct fg_manifests *fg_manifests_create(uint32_t tenants_max, int64_t age_max_ns, unsigned rules);
void fg_manifests_destroy(struct fg_manifests *manifests);

/* Something was changed that the next snapshot has to see: those that begin from now on ask again
 * for what was asked for before. */
void fg_manifests_expire(struct fg_manifests *manifests);

/* ---- a snapshot ---- */

enum {
    FG_SNAPSHOT_TENANTS_MAX = FG_TENANT_IDS_MAX,
    FG_SNAPSHOT_ATTEMPTS_MAX = 6, /* that often the L0 manifest was too old: something is wrong */
};

enum fg_snapshot_state {
    FG_SNAPSHOT_READING, /* wants something */
    FG_SNAPSHOT_READY,
    FG_SNAPSHOT_FAILED, /* err says why */
};

/* An object of a snapshot: FG_SNAPSHOT_L0, or the number of a tenant. */
enum { FG_SNAPSHOT_L0 = -1 };

struct fg_snapshot {
    struct fg_manifests *manifests;
    enum fg_snapshot_state state;
    struct fg_err err;
    struct fg_manifest *l0;                              /* once READY */
    struct fg_manifest *blocks[FG_SNAPSHOT_TENANTS_MAX]; /* once READY */
    struct fg_slice tenants[FG_SNAPSHOT_TENANTS_MAX];    /* borrowed */
    uint32_t n_tenants;

    /* To be read now. What stands here was not wanted before; its answer has to come. */
    bool want_l0;
    uint32_t want_tenants; /* bit i: tenant i */

    /* The core's own. Moments are counted, not timed. */
    uint64_t least;        /* generation */
    uint64_t begun, asked; /* when it began, when it asked last */
    uint64_t l0_since;     /* when this version of the L0 manifest was first seen */
    int64_t asked_mono_ns;
    bool have_l0, fresh;
    uint32_t have_tenants; /* bit i */
    uint32_t waiting;      /* reads without an answer yet */
    uint32_t attempts;
};

/* tenants: checked names, borrowed; none: only the L0 manifest is wanted. */
void fg_snapshot_init(struct fg_snapshot *snapshot, struct fg_manifests *manifests,
                      const struct fg_slice *tenants, uint32_t n_tenants);
void fg_snapshot_done(struct fg_snapshot *snapshot);

/*
 * Begins, or begins again. least: of no smaller generation. fresh: nothing that was read before
 * now. May be READY at once. Nothing is being read for this snapshot.
 */
void fg_snapshot_begin(struct fg_snapshot *snapshot, uint64_t least, bool fresh, int64_t mono_ns);

/*
 * Completes the snapshot from cached manifests of any age, because the bucket cannot be read. The
 * result lists each profile of its time once, and lacks newer ones. *ret_age_ns: the age of its
 * oldest manifest. FG_E_UNAVAILABLE: a manifest is not cached, or the cached versions contradict
 * each other. No read may be under way for this snapshot.
 */
enum fg_code fg_snapshot_take_known(struct fg_snapshot *snapshot, int64_t mono_ns,
                                    int64_t *ret_age_ns, struct fg_err *err) fg_must_check;

/* The etag to ask with for something else (If-None-Match); empty: ask for whatever there is. */
struct fg_slice fg_snapshot_etag(const struct fg_snapshot *snapshot, int object);

/* What came of a read. manifest: a reference that is taken over; NULL: the etag still holds. */
void fg_snapshot_answer(struct fg_snapshot *snapshot, int object, struct fg_manifest *manifest,
                        int64_t mono_ns);
void fg_snapshot_failed(struct fg_snapshot *snapshot, const struct fg_err *err);

/* Returns true if a FAILED snapshot has the L0 manifest: then a tenant's manifest is the one that
 * failed. */
static inline bool fg_snapshot_has_l0(const struct fg_snapshot *snapshot)
{
    return snapshot->have_l0;
}

/* ---- what is in a snapshot that is READY ---- */

static inline uint64_t fg_snapshot_generation(const struct fg_snapshot *snapshot)
{
    return snapshot->l0->l0.generation;
}

/* Is this segment to be read for the tenant? It holds something of it, and no block covers it. */
bool fg_snapshot_reads(const struct fg_snapshot *snapshot, uint32_t tenant,
                       const struct fg_l0_segment *segment);

#endif
