/*
 * Answers queries from blocks: segments and blocks in the bucket, as the manifests list them. The
 * results are the same, to the integer, as those of an ingester that holds the same profiles
 * (proto/inner.proto); collect.c and flamegraph.c merge both.
 *
 * Objects never change, so their parts stay in a cache that all queries share, and in the disk
 * cache if there is one. Reads go in waves: manifests, directories, parts, pages; each with a
 * bounded number of bytes under way.
 *
 * Thread: a query is straight-line code on one worker; the cache and the manifests are shared and
 * locked.
 *
 * Errors: FG_E_NOT_FOUND: an object of the snapshot was deleted; take a fresh snapshot and repeat.
 * FG_E_CORRUPT: an object is damaged; the error names the object and the place. After both,
 * qry_blocks_leave_out() says whether to repeat without the object. FG_E_UNAVAILABLE,
 * FG_E_DEADLINE, FG_E_CANCELED, FG_E_LIMIT. The reader reports all that a query skips
 * with qry_query_lacks().
 */
#ifndef FG_QUERIER_BLOCKS_BLOCKS_H
#define FG_QUERIER_BLOCKS_BLOCKS_H

#include "common/cluster/manifest/blocks.h"
#include "common/model/pprof_write.h"
#include "common/model/profile_rows.h"
#include "common/model/tree.h"
#include "common/runtime/condition.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/cache/disk_cache.h"
#include "common/storage/rollup/crown_sum.h"
#include "querier/cardinality.h"
#include "querier/groups.h"
#include "querier/merge.h"
#include "querier/query.h"
#include "querier/selection.h"
#include "querier/value_totals.h"

struct qry_blocks_config {
    struct fg_bucket *bucket; /* borrowed */
    struct fg_clock *clock;
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    uint64_t cache_max_bytes;
    uint64_t fetch_max_bytes;   /* of one query, under way and not visited yet */
    uint64_t memory_max_bytes;  /* of one query, in addition to the cache */
    int64_t manifest_age_ns;    /* older manifests are read again */
    struct fg_disk_cache *disk; /* borrowed; NULL: there is none */
    bool shared;                /* by several tenants, which leave each other room (loads.h) */
};

/* Never fails. Destroy accepts NULL; no query is left. */
struct qry_blocks *qry_blocks_create(const struct qry_blocks_config *config);
void qry_blocks_destroy(struct qry_blocks *blocks);

/* Makes snapshots taken from now on read the manifests again. Any thread. */
void qry_blocks_refresh(struct qry_blocks *blocks);

/*
 * Takes a snapshot for the query's tenants, or keeps the one it has; fresh: reads the manifests and
 * takes a new one. Does nothing without a bucket. If the bucket cannot be read, or a manifest is
 * damaged and the query accepts a partial response, uses the manifests that were read last: sets
 * query->stale, and the response says that it lacks newer profiles.
 */
enum fg_code qry_blocks_begin(struct qry_query *query, bool fresh,
                              struct fg_err *err) fg_must_check;

/* Frees the query's snapshot, if it has one. */
void qry_blocks_end(struct qry_query *query);

/* Waits for workers that help the query, at the end of its job. */
void qry_blocks_settle(struct qry_query *query);

/* Returns the generation of the snapshot; 0 without a bucket: nothing is in blocks. */
uint64_t qry_blocks_generation(const struct qry_query *query);

/* Returns the manifest in the snapshot of the query's tenant of that number; NULL without a
 * bucket. */
const struct fg_blocks *qry_blocks_manifest(const struct qry_query *query, size_t tenant);

/* What a tenant has of one level: 0 are segments that are in no block yet, 1 to 5 blocks (struct
 * fg_blocks_entry). */
struct qry_level {
    uint64_t objects, profiles;
    uint64_t bytes;               /* 0 of segments, which tenants share */
    int64_t oldest_ns, newest_ns; /* valid if there are objects */
};
enum { QRY_LEVELS = 6 };

/* Sums up what the snapshot's manifests say of the query's tenant of that number; nothing without a
 * bucket. */
void qry_blocks_levels(const struct qry_query *query, uint32_t tenant,
                       struct qry_level levels[QRY_LEVELS]);

/* Sums up what the tenant has in segments that are in no block yet; nothing without a bucket. */
struct fg_usage_row qry_blocks_waiting(const struct qry_query *query, uint32_t tenant);

/* Returns true after a failed attempt if the query should repeat it on the same snapshot and skip
 * something that this attempt could not read. fresh: this query took the snapshot with `fresh`. If
 * it returns false, *err may have been replaced by the error for the client. */
bool qry_blocks_leave_out(struct qry_query *query, bool fresh, struct fg_err *err);

/* Frees the query's list of skipped objects, at its end. */
void qry_blocks_forget(struct qry_query *query);

/* Widens a selection that begins or ends inside a rollup whose profiles are gone, to the ends of
 * the rollup, and notes that in the query. */
void qry_blocks_widen(struct qry_query *query, struct qry_selection *selection);

/* FG_E_INVALID: for some of the selected time there are only rollups, which do not have `what` (a
 * noun for people). */
enum fg_code qry_blocks_need_profiles(const struct qry_query *query,
                                      const struct qry_selection *selection, const char *what,
                                      struct fg_err *err) fg_must_check;

/* Sums up the profiles of the selected time of which only rollups are left, of whole objects. */
uint64_t qry_blocks_lost_profiles(const struct qry_query *query,
                                  const struct qry_selection *selection);

/* Returns the L0 manifest of the snapshot; NULL without a bucket. */
const struct fg_l0 *qry_blocks_l0(const struct qry_query *query);

/* ---- queries, between qry_blocks_begin() and _end(); without a bucket they add nothing ---- */

/* Adds the selected stacks to a tree. As qry_collect_tree(). */
enum fg_code qry_blocks_tree(struct qry_query *query, const struct qry_selection *selection,
                             const struct qry_stack_filter *stacks, bool names_only,
                             struct fg_tree *into, struct fg_err *err) fg_must_check;

/* What a flame graph's exactness depends on. */
struct qry_flamegraph_facts {
    uint64_t
        sample_bytes; /* stored size of the samples in the range: the cost of an exact answer */
    bool negatives;   /* some crown has values below zero, for which its bound does not hold */
};

/* Asks for all of each part. */
struct qry_crowns_full {
    uint64_t max_sample_bytes; /* if the samples in the range have more, none is read: FG_E_LIMIT */
};

/* Adds the selected stacks by function names to a sum of crowns: of each part a crown, made from
 * samples or stored as a rollup, or, unless `full` is NULL, all of the part. Call sites in `stacks`
 * are ignored. Adds to *facts. */
enum fg_code qry_blocks_crowns(struct qry_query *query, const struct qry_selection *selection,
                               const struct qry_stack_filter *stacks,
                               const struct qry_crowns_full *full, struct fg_crown_sum *into,
                               struct qry_flamegraph_facts *facts,
                               struct fg_err *err) fg_must_check;

/* Adds the selected stacks to groups, one for each value of a label. As qry_collect_groups(). */
enum fg_code qry_blocks_groups(struct qry_query *query, const struct qry_selection *selection,
                               const char *label, struct qry_groups *into,
                               struct fg_err *err) fg_must_check;

/* Adds the numbers of profiles in which functions appear. As qry_collect_function_counts(). */
enum fg_code qry_blocks_function_counts(struct qry_query *query,
                                        const struct qry_selection *selection, struct fg_tree *into,
                                        struct fg_err *err) fg_must_check;

/* Add series, points, single profiles and counts. As qry_collect_series(), _points(), _rows() and
 * _stats(). */
enum fg_code qry_blocks_series(struct qry_query *query, const struct qry_selection *selection,
                               const char *const *names, size_t n_names,
                               struct qry_label_sets *into, struct fg_err *err) fg_must_check;
enum fg_code qry_blocks_points(struct qry_query *query, const struct qry_selection *selection,
                               int64_t step_ns, const char *const *group_by, size_t n_group_by,
                               struct qry_points_list *into, struct fg_err *err) fg_must_check;
/* Adds the one step of step_ns that ends at both ends of the selection, to the values of a stored
 * label (not fg_label_is_of_type()). As qry_collect_value_totals(). */
enum fg_code qry_blocks_value_totals(struct qry_query *query, const struct qry_selection *selection,
                                     int64_t step_ns, const char *label,
                                     struct qry_value_totals *into,
                                     struct fg_err *err) fg_must_check;
enum fg_code qry_blocks_rows(struct qry_query *query, const struct qry_selection *selection,
                             struct fg_profile_rows *into, struct fg_err *err) fg_must_check;
enum fg_code qry_blocks_stats(struct qry_query *query, struct qry_tenant_stats *into,
                              struct fg_err *err) fg_must_check;

/* Adds the selected series to a cardinality. As qry_collect_labels(). */
enum fg_code qry_blocks_labels(struct qry_query *query, const struct qry_selection *selection,
                               struct qry_cardinality *into, struct fg_err *err) fg_must_check;

/* A profile as it was sent. */
struct qry_one_profile {
    const struct fg_labels *labels; /* as stored: with __name__, without those made from the type */
    struct fg_id id;
    struct fg_pprof_head head;
    const struct fg_tree *tree; /* that the samples' nodes are in */
    struct fg_pprof_samples samples;
};

/* Receives a profile, which is gone after the call. */
typedef enum fg_code (*qry_profile_visit)(void *arg, const struct qry_one_profile *profile,
                                          struct fg_err *err);

/* Visits the selected profiles. As qry_collect_profiles(). */
enum fg_code qry_blocks_profiles(struct qry_query *query, const struct qry_selection *selection,
                                 qry_profile_visit visit, void *arg,
                                 struct fg_err *err) fg_must_check;

#endif
