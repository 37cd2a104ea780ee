/*
 * A snapshot: the segments and blocks that together hold everything that was committed up to one
 * generation, each profile once. A query reads it, a late id is looked for in it, and a head is
 * compared with it.
 *
 *   begin --> L0 manifest --> tenants' manifests --> READY
 *               ^  \  (cached, young enough)  \  (read after the L0 manifest was: l0-before-tenant)
 *               |                              |
 *               +------------------------------+  a tenant covers segments newer than the L0
 *                                                 manifest that was read (retry-covered): read
 *                                                 that again
 *
 * A step core: it says which objects it wants; the shell (snapshot.h) reads them and hands in the
 * results. Manifests come from a cache that all snapshots of a process share, and stay valid as
 * long as a snapshot holds them.
 *
 * If an ingester says that the snapshot is older than what it has forgotten, begin again with its
 * generation as the least. If an object of the snapshot was deleted, begin again, fresh.
 *
 * Thread: one at a time for a cache and all its snapshots (a lock around each call is enough, since
 * none of them waits). A snapshot that is READY may be read without the lock.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_SNAPSHOT_CORE_H
#define FG_COMMON_CLUSTER_MANIFEST_SNAPSHOT_CORE_H

#include "common/cluster/manifest/manifest.h"
#include "common/cluster/manifest/rules.h"

/* ---- the cache ---- */

struct fg_manifests;

/*
 * Creates a cache. tenants_max: tenants' manifests that it keeps; it evicts the least recently
 * used. age_max_ns: older manifests are asked for again, by etag; 0: always. rules: enum fg_rule.
 */
struct fg_manifests *fg_manifests_create(uint32_t tenants_max, int64_t age_max_ns, unsigned rules);
/* Frees the cache; every snapshot of it was done. Accepts NULL. */
void fg_manifests_destroy(struct fg_manifests *manifests);

/* Makes every snapshot that begins from now on ask for manifests again, because something has
 * changed that it has to show. */
void fg_manifests_expire(struct fg_manifests *manifests);

/* ---- a snapshot ---- */

enum {
    FG_SNAPSHOT_TENANTS_MAX = FG_TENANT_IDS_MAX,
    FG_SNAPSHOT_ATTEMPTS_MAX = 6, /* reads of an L0 manifest that stays too old, before it fails */
};

enum fg_snapshot_state {
    FG_SNAPSHOT_READING, /* wants manifests */
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

    /* To be read now. The shell clears what it has sent; each needs an answer. */
    bool want_l0;
    uint32_t want_tenants; /* bit i: tenant i */

    /* The core's own. Moments are numbers that count events of the cache. */
    uint64_t least;        /* generation */
    uint64_t begun, asked; /* when it began, when it asked last */
    uint64_t l0_since;     /* when this version of the L0 manifest was first seen */
    int64_t asked_mono_ns;
    bool have_l0, fresh;
    uint32_t have_tenants; /* bit i */
    uint32_t waiting;      /* reads without an answer yet */
    uint32_t attempts;
};

/* Initialises a snapshot. tenants: checked names, borrowed; none: of the L0 manifest alone. */
void fg_snapshot_init(struct fg_snapshot *snapshot, struct fg_manifests *manifests,
                      const struct fg_slice *tenants, uint32_t n_tenants);
/* Releases the manifests that it holds. */
void fg_snapshot_done(struct fg_snapshot *snapshot);

/*
 * Begins, or begins again. least: the generation that it has at least. fresh: use nothing that was
 * read before this call. It may be READY at once. No read may be under way for this snapshot.
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

/* Returns the etag for a conditional read of the object; empty: read unconditionally. */
struct fg_slice fg_snapshot_etag(const struct fg_snapshot *snapshot, int object);

/* Hands in a manifest that was read, with its reference; NULL: it has not changed. */
void fg_snapshot_answer(struct fg_snapshot *snapshot, int object, struct fg_manifest *manifest,
                        int64_t mono_ns);
/* Hands in that a read failed; the snapshot is FAILED then. */
void fg_snapshot_failed(struct fg_snapshot *snapshot, const struct fg_err *err);

/* Returns true if a FAILED snapshot has the L0 manifest: then a tenant's manifest is the one that
 * failed. */
static inline bool fg_snapshot_has_l0(const struct fg_snapshot *snapshot)
{
    return snapshot->have_l0;
}

/* ---- what is in a snapshot that is READY ---- */

/* Returns the generation of the snapshot. */
static inline uint64_t fg_snapshot_generation(const struct fg_snapshot *snapshot)
{
    return snapshot->l0->l0.generation;
}

/* Returns true if the segment is to be read for the tenant: it holds data of the tenant and no
 * block covers it. */
bool fg_snapshot_reads(const struct fg_snapshot *snapshot, uint32_t tenant,
                       const struct fg_l0_segment *segment);

#endif
