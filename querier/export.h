/*
 * Queries of this process, which come by a function call and not over HTTP: what is in a bucket,
 * for a caller that writes it to files. They read like all other queries, within the same bounds
 * (answer_max_bytes). A querier without ingesters sees what they have committed.
 *
 * Limits of tenants do not apply: who may read the bucket may read all of it.
 *
 * Thread: the caller's, which waits. Failures: those of queries; FG_E_LIMIT: more than
 * answer_max_bytes were needed.
 */
#ifndef FG_QUERIER_EXPORT_H
#define FG_QUERIER_EXPORT_H

#include "common/model/batch.h"
#include "common/model/tree.h"
#include "querier/querier.h"

/* What to export. All borrowed for the call. */
struct qry_export {
    struct fg_slice tenant;   /* one that fg_tenant_check() accepts */
    const char *type;         /* id of a profile type; NULL: any, where that is allowed */
    const char *selector;     /* {a="b"} */
    int64_t start_ms, end_ms; /* both inclusive, neither 0 */
    int64_t deadline_mono_ns;
    bool partial;           /* leave out what cannot be read; else that is an error */
    struct fg_buf *missing; /* gets what is left out, or has been given up; NULL: not wanted */
};

/* Lists the ids of the profile types with data, sorted, in the arena. what->type is ignored. */
enum fg_code qry_export_types(struct querier *querier, const struct qry_export *what,
                              struct fg_arena *arena, struct fg_slice **ret_ids, size_t *ret_n,
                              struct fg_err *err) fg_must_check;

/* Merges everything of a type into an empty tree, with function names only or with full
 * locations. */
enum fg_code qry_export_tree(struct querier *querier, const struct qry_export *what,
                             bool names_only, struct fg_tree *into,
                             struct fg_err *err) fg_must_check;

struct qry_export_profile {
    const struct fg_labels *labels; /* as stored: with __name__, without those made from the type */
    struct fg_id id;
    int64_t time_ns;
    struct fg_slice pprof; /* not compressed */
};

/* Receives a profile, which is gone after the call. */
typedef enum fg_code (*qry_export_visit)(void *arg, const struct qry_export_profile *profile,
                                         struct fg_err *err);

/*
 * Visits the profiles one by one, in no order: with the sample types it was sent with, or only that
 * of `type`. If the compactor replaces what is being read it begins again, so a profile may come
 * twice, with the same labels and id; *ret_profiles counts it once. Spans and traces of samples are
 * their labels span_id and trace_id. The querier must have no ingesters.
 */
enum fg_code qry_export_profiles(struct querier *querier, const struct qry_export *what,
                                 qry_export_visit visit, void *arg, uint64_t *ret_profiles,
                                 struct fg_err *err) fg_must_check;

/* Lists the tenants that the bucket has or had data of, sorted, in the arena. */
enum fg_code qry_export_tenants(struct querier *querier, int64_t deadline_mono_ns,
                                struct fg_arena *arena, struct fg_slice **ret_ids, size_t *ret_n,
                                struct fg_err *err) fg_must_check;

/* Receives a profile as a batch of its own, in which all stacks are defined. It is gone after the
 * call. */
typedef enum fg_code (*qry_export_batch_visit)(void *arg, const struct fg_batch *batch,
                                               struct fg_err *err);

/* Visits the profiles like qry_export_profiles(), as what a distributor makes of an upload: with
 * the ids that they have here, and of unknown size. Time of which only rollups are left has no
 * profiles, which is no error. */
enum fg_code qry_export_batches(struct querier *querier, const struct qry_export *what,
                                qry_export_batch_visit visit, void *arg,
                                struct fg_err *err) fg_must_check;

struct qry_export_counts {
    uint64_t profiles; /* in the range; of an object that is partly in it as large a part of all */
    uint64_t lost;     /* of which only rollups are left, of whole objects */
};

/* Counts profiles of the range from manifests alone. what->type and selector are ignored. */
enum fg_code qry_export_count(struct querier *querier, const struct qry_export *what,
                              struct qry_export_counts *ret_counts,
                              struct fg_err *err) fg_must_check;

#endif
