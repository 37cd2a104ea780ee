/*
 * What the querier reads itself: segments and blocks in the bucket, as the manifests list them. The
 * answers are the same, to the integer, as an ingester's would be that held the same profiles
 * (proto/inner.proto); plan.c merges them with those of ingesters.
 *
 * Everything that is read once and cannot change stays in a cache that all queries share, and on
 * a disk where there is one for it. What is fetched goes in waves: manifests, directories, parts,
 * pages; each with a bounded number of bytes under way.
 *
 * Thread: a query is straight-line code on one worker; the cache and the manifests are shared
 * and locked.
 *
 * Errors: FG_E_NOT_FOUND: an object of the snapshot was deleted; take a fresh snapshot and repeat.
 * FG_E_CORRUPT: an object is damaged; the error names the object and the place. After both,
 * qry_blocks_leave_out() says whether to repeat without the object. FG_E_UNAVAILABLE,
 * FG_E_DEADLINE, FG_E_CANCELED, FG_E_LIMIT. Whatever a query skips is reported with
 * qry_query_lacks().
 */
#ifndef FG_QUERIER_BLOCKS_BLOCKS_H
#define FG_QUERIER_BLOCKS_BLOCKS_H

#include "common/cluster/manifest/blocks.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/cache/disk_cache.h"
#include "querier/query.h"

struct qry_blocks_config {
    struct fg_bucket *bucket; /* borrowed */
    struct fg_clock *clock;
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    uint64_t cache_max_bytes;
    uint64_t fetch_max_bytes;   /* under way and not worked on yet, of one query */
    uint64_t memory_max_bytes;  /* of one query, beside the cache */
    int64_t manifest_age_ns;    /* manifests are asked for again when they are older */
    struct fg_disk_cache *disk; /* borrowed; NULL: there is none */
};

struct qry_blocks *qry_blocks_create(const struct qry_blocks_config *config);
void qry_blocks_destroy(struct qry_blocks *blocks); /* no query is left; NULL is fine */

/* Manifests that were read until now are not used for snapshots that are taken from now on. Any
 * thread. */
void qry_blocks_refresh(struct qry_blocks *blocks);

/*
 * Takes a snapshot for the query's tenants, or keeps the one it has; fresh: reads the manifests
 * and takes a new one. Does nothing without a bucket. If the bucket cannot be read, or a manifest
 * is damaged and the query accepts a partial answer, uses the manifests that were read last:
 * sets query->stale, and the answer says that it lacks newer profiles.
 */
enum fg_code qry_blocks_begin(struct qry_query *query, bool fresh,
                              struct fg_err *err) fg_must_check;

/* Of the snapshot; 0 without a bucket: nothing is in blocks. */
uint64_t qry_blocks_generation(const struct qry_query *query);

/* The manifest of a tenant of the query (its number there) in the snapshot; NULL without a
 * bucket. */
const struct fg_blocks *qry_blocks_manifest(const struct qry_query *query, size_t tenant);

void qry_blocks_end(struct qry_query *query);

/* Returns true after a failed attempt if the query should repeat it on the same snapshot and
 * skip something that this attempt could not read. fresh: this query took the snapshot with
 * `fresh`. If it returns false, *err may have been replaced by the error for the client. */
bool qry_blocks_leave_out(struct qry_query *query, bool fresh, struct fg_err *err);

/* Frees the query's list of skipped objects, at its end. */
void qry_blocks_forget(struct qry_query *query);

/*
 * Of profiles that were dropped there may be rollups, over days of weeks. A selection that
 * begins or ends within what has one only is widened to its ends; the query notes it.
 */
void qry_blocks_widen(struct qry_query *query, struct qry_selection *selection);

/* FG_E_INVALID: some of the time has rollups only, which have no such thing (for people). */
enum fg_code qry_blocks_need_profiles(const struct qry_query *query,
                                      const struct qry_selection *selection, const char *what,
                                      struct fg_err *err) fg_must_check;

/* --- between the two; nothing without a bucket. What they are asked is in query.h. --- */

enum fg_code qry_blocks_tree(struct qry_query *query, const struct qry_selection *selection,
                             const struct qry_stack_filter *stacks, bool names_only,
                             struct fg_tree *into, struct fg_err *err) fg_must_check;

/* What is good to know of how a flame graph was made; added to what was known before. */
struct qry_flamegraph_facts {
    uint64_t sample_bytes; /* stored of samples in the range: to be read for a full answer, about */
    bool negatives;        /* crowns with values below zero, which say too little of them */
};

/*
 * The same by names, for flame graphs: of each part its crown, or that of rollups; or all of
 * it (full). Stacks are not narrowed by call sites.
 */
enum fg_code qry_blocks_crowns(struct qry_query *query, const struct qry_selection *selection,
                               const struct qry_stack_filter *stacks, bool full,
                               struct fg_crown_sum *into, struct qry_flamegraph_facts *facts,
                               struct fg_err *err) fg_must_check;
enum fg_code qry_blocks_series(struct qry_query *query, const struct qry_selection *selection,
                               const char *const *names, size_t n_names,
                               struct qry_label_sets *into, struct fg_err *err) fg_must_check;
enum fg_code qry_blocks_points(struct qry_query *query, const struct qry_selection *selection,
                               int64_t step_ns, const char *const *group_by, size_t n_group_by,
                               struct qry_points_list *into, struct fg_err *err) fg_must_check;
enum fg_code qry_blocks_stats(struct qry_query *query, struct qry_tenant_stats *into,
                              struct fg_err *err) fg_must_check;
enum fg_code qry_blocks_profiles(struct qry_query *query, const struct qry_selection *selection,
                                 qry_profile_visit visit, void *arg,
                                 struct fg_err *err) fg_must_check;

#endif
