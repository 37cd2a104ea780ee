/*
 * Reads snapshots from a bucket: the shell of snapshot_core.h. All snapshots of a process share one
 * cache of manifests, so most reads are conditional requests that find nothing new.
 *
 *     fg_snapshots_open(snapshots, &snapshot, tenants, n);
 *     if (fg_snapshots_take(snapshots, &snapshot, &how, err) == FG_OK)
 *         ...read the objects; FG_E_NOT_FOUND: take again with how.fresh
 *     fg_snapshots_close(snapshots, &snapshot);
 *
 * Thread: any that may wait; one at a time for a snapshot.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_SNAPSHOT_H
#define FG_COMMON_CLUSTER_MANIFEST_SNAPSHOT_H

#include "common/cluster/manifest/snapshot_core.h"
#include "common/storage/bucket/bucket.h"

struct fg_snapshots;

/* All borrowed. */
struct fg_snapshots_config {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    uint32_t tenants_max; /* tenants' manifests in the cache */
    int64_t age_max_ns;   /* older manifests are asked for again */
};

struct fg_snapshots *fg_snapshots_create(const struct fg_snapshots_config *config);
/* Frees it. Every snapshot was closed. Accepts NULL. */
void fg_snapshots_destroy(struct fg_snapshots *snapshots);

/* Makes every snapshot taken from now on ask for manifests again: something has changed that it has
 * to show. */
void fg_snapshots_expire(struct fg_snapshots *snapshots);

/* Initialises a snapshot of these tenants (checked names, borrowed until close); none: of the L0
 * manifest alone. */
void fg_snapshots_open(struct fg_snapshots *snapshots, struct fg_snapshot *snapshot,
                       const struct fg_slice *tenants, uint32_t n_tenants);
/* Releases what the snapshot holds. */
void fg_snapshots_close(struct fg_snapshots *snapshots, struct fg_snapshot *snapshot);

/* How a snapshot is taken. */
struct fg_snapshots_how {
    uint64_t least;              /* generation that it has at least */
    bool fresh;                  /* use nothing that was read before this call */
    int64_t deadline_mono_ns;    /* of each request */
    struct fg_bucket_stop *stop; /* ends the wait early; requests go one by one then. NULL: none */
    /* Asked before each round of requests and, without `stop`, at least five times a second while
     * requests are under way; a failure ends the wait. NULL: none. */
    enum fg_code (*check)(void *arg, struct fg_err *err);
    void *arg;
    uint64_t requests, bytes; /* out: added up, after a failure too */
};

/*
 * Takes the snapshot: sends what the core wants, all requests of a round at once, until it is
 * READY. May be called again. FG_E_UNAVAILABLE: no consistent set of manifests was found, or the L0
 * manifest is missing. FG_E_CORRUPT, FG_E_UNIMPLEMENTED: a manifest cannot be decoded, which is
 * reported to the bucket's list of damaged objects. Errors of the bucket and of check().
 */
enum fg_code fg_snapshots_take(struct fg_snapshots *snapshots, struct fg_snapshot *snapshot,
                               struct fg_snapshots_how *how, struct fg_err *err) fg_must_check;

/* Completes the snapshot from the cache alone, of any age: fg_snapshot_take_known(). */
enum fg_code fg_snapshots_take_known(struct fg_snapshots *snapshots, struct fg_snapshot *snapshot,
                                     int64_t *ret_age_ns, struct fg_err *err) fg_must_check;

#endif
