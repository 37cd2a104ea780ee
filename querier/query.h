/*
 * What the files of the querier share. A query is one request under way:
 *
 *     querier.c    from the request to a worker and back; the table of endpoints; headers; the log
 *     select.c     what requests select: time ranges, selectors, limits; texts of errors
 *     fanout.c     one thing that a query needs, from peers and from blocks on one snapshot
 *     plan.c       such things: stacks, series, totals over time, counts
 *     flame graph.c    such things: what is drawn of merged stacks, exactly or with a bound
 *     deletions.c  what is left out: what users deleted, and what is older than tenants keep
 *     replicas/    the ingesters, which hold what is in no block yet
 *     merge.c      label sets and points from several sources
 *     blocks/      segments and blocks in the bucket
 *     api*.c       querier.v1.QuerierService
 *     cut.c        which part of a tree is drawn
 *     diff.c       two trees side by side
 *     render.c     /pyroscope/render, render-diff, label-values
 *     ui.c         the page at /
 *     export.c     queries of this process, which come by a call
 */
#ifndef FG_QUERIER_QUERY_H
#define FG_QUERIER_QUERY_H

#include "common/model/deletion.h"
#include "common/model/flame.h"
#include "common/model/labels.h"
#include "common/model/pprof_write.h"
#include "common/model/selector.h"
#include "common/model/tree.h"
#include "common/net/connect.h"
#include "common/storage/rollup/crown_sum.h"
#include "querier/querier.h"
#include "querier/replicas/calls.h"

enum {
    RENDER_GROUPS_MAX = 16, /* labels to group by; further ones are not looked at */
    QUERY_SIDES_MAX = 2,    /* of a comparison */
};

/* Parameters of the plain GET routes, read on the loop. ptr NULL: not given. */
struct qry_render_params {
    struct fg_slice query, from, until, max_nodes, format;
    struct fg_slice left_query, left_from, left_until, right_query, right_from, right_until;
    struct fg_slice label;
    struct fg_slice group_by[RENDER_GROUPS_MAX];
    size_t n_group_by;
};

struct qry_query;
struct fg_ring_view;

enum { MISSING_MAX_BYTES = 1024 }; /* of a header's text */

struct qry_endpoint {
    const char *path, *name;
    const ProtobufCMessageDescriptor *type; /* of the request; NULL: a plain GET */
    /* On a worker: fills query->body. `in` is of that type. */
    enum fg_code (*answer)(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err);
};

struct qry_query {
    struct fg_job job;
    struct querier *querier;
    struct fg_http_request *req; /* NULL: export.c asks */
    const struct qry_endpoint *endpoint;
    struct fg_connect_call call;     /* of Connect's routes */
    struct qry_render_params params; /* of the others */
    struct fg_slice accept;          /* the header */
    struct fg_tenant_ids tenants;
    int64_t length_max_ns, lookback_ns;      /* the least of the tenants'; 0: any */
    int64_t retention_ns[FG_TENANT_IDS_MAX]; /* of each tenant: as long as something is kept,
                                                profiles or rollups; 0: for ever */
    int64_t start_mono_ns, deadline_mono_ns;
    struct fg_arena *arena;
    struct fg_buf body;               /* of the answer */
    const char *content_type;         /* of plain answers; NULL: application/json */
    uint64_t profiles, bytes, series; /* what the answer was made from */
    /* Of these, what was read in the bucket. */
    uint64_t objects, requests, cache_hits, disk_hits;
    uint64_t rollups; /* that took the place of profiles */
    bool refine;      /* the client wants flame graphs without any bound, whatever they cost */
    bool inexact;     /* some flame graph is not what a full merge would give */
    uint64_t bound;   /* then it is wrong by so much at most */
    struct fg_time_span wide[QUERY_SIDES_MAX]; /* what was answered where it is more than asked */
    unsigned n_wide;
    bool partial;              /* the client takes what there is where not all ingesters answer */
    bool incomplete;           /* then something may be missing: what these would have had, */
    struct fg_buf missing;     /* "NAME: why", one after another */
    struct fg_ring_view *ring; /* replicas/; NULL: none was taken, or there is none */
    struct qry_blocks_snapshot *snapshot; /* blocks/; NULL: none was taken, or there is no bucket */
    struct qry_lost *lost;                /* blocks/; what is left out; NULL: nothing so far */
    /* The bucket could not be read, so the snapshot is an older one; what has to be read in the
     * bucket nevertheless may take until then. */
    bool stale;
    bool fresh; /* the snapshot was to be read anew */
    int64_t stale_until_mono_ns;
    struct fg_deletions *deletions; /* [tenants.n], as of the snapshot; NULL: not known yet */
};

struct querier {
    struct fg_ring_watch *ring; /* with peers; or one ingester; or none of both */
    struct fg_peers *peers;
    struct fg_peer *ingester;
    int64_t hedge_after_ns;
    atomic_uint round_robin;          /* who of several is asked: another one each time */
    struct qry_calls_pending pending; /* calls to ingesters */
    struct fg_work *work;
    struct fg_tenants *tenants;
    struct fg_clock *clock;
    struct fg_metrics *metrics, *replicas_metrics;
    struct binding *bindings;  /* of the routes */
    struct qry_blocks *blocks; /* NULL: there is no bucket */
    int64_t timeout_ns;
    uint64_t answer_max_bytes, refine_max_bytes;
};

extern const struct qry_endpoint qry_api_endpoints[];
extern const size_t qry_n_api_endpoints;
extern const struct qry_endpoint qry_render_endpoints[];
extern const size_t qry_n_render_endpoints;

void qry_ui_routes(struct fg_http_server *server);

/* Writes a Connect answer. FG_E_LIMIT when it exceeds the largest answer. */
enum fg_code qry_query_reply(struct qry_query *query, const ProtobufCMessage *message,
                             struct fg_err *err) fg_must_check;

/* The answer is not all there is: why is told once. */
void qry_query_lacks(struct qry_query *query, struct fg_slice why);

/* The same of what could not be read, so that an older copy answers: "ring of 12 s ago: why". */
void qry_query_lacks_since(struct qry_query *query, const char *what, int64_t age_ns,
                           const struct fg_err *why);

/* Until when a query waits for something of the bucket of which an older copy is at hand. */
int64_t qry_query_patience_mono_ns(const struct qry_query *query);

/* Is it still worth working on? FG_E_CANCELED, FG_E_DEADLINE. */
enum fg_code qry_query_check(struct qry_query *query, struct fg_err *err) fg_must_check;

/* --- select.c --- */

struct qry_selection {
    struct fg_selector selector;
    struct fg_profile_type type; /* of what has one */
    const char *type_text;       /* its five parts; NULL: any */
    int64_t start_ns, end_ns;    /* both inclusive */
    int64_t cut_ns;              /* start_ns is so much later than was asked for */
};
void qry_selection_done(struct qry_selection *selection);

/* Milliseconds into nanoseconds, as far as the tenants may look; with what is wrong with them. */
enum fg_code qry_selection_range(const struct qry_query *query, struct qry_selection *selection,
                                 int64_t start_ms, int64_t end_ms,
                                 struct fg_err *err) fg_must_check;

/* The profile type's id (NULL: any), and the selector that goes with it. */
enum fg_code qry_selection_profiles(struct qry_query *query, struct qry_selection *selection,
                                    const char *type_id, const char *label_selector,
                                    struct fg_err *err) fg_must_check;

/* The same from one selector whose metric name is the type's id; name is the parameter's, for
 * errors. */
enum fg_code qry_selection_parse(struct qry_query *query, struct qry_selection *selection,
                                 struct fg_slice text, const char *name,
                                 struct fg_err *err) fg_must_check;

/* Several selectors, and-ed. context comes before the error's text. */
enum fg_code qry_selection_matchers(struct qry_query *query, struct qry_selection *selection,
                                    char *const *matchers, size_t n, const char *context,
                                    struct fg_err *err) fg_must_check;

/* 0 is the default; beyond the bounds is an error. */
enum fg_code qry_selection_max_nodes(int64_t asked, size_t *ret_max_nodes,
                                     struct fg_err *err) fg_must_check;

/* Does the header allow label names beyond [a-zA-Z_][a-zA-Z0-9_]*? FG_E_INVALID: malformed. */
enum fg_code qry_accept_utf8_names(struct fg_slice accept, bool *ret_allowed,
                                   struct fg_err *err) fg_must_check;
bool qry_is_plain_label_name(struct fg_slice name);

/* --- merge.c --- */

/* Distinct label sets, sorted; in the query's arena. */
struct qry_label_sets {
    struct fg_labels *items;
    size_t n, cap;
    struct fg_map map; /* hash -> item */
};
void qry_label_sets_init(struct qry_label_sets *sets);
void qry_label_sets_done(struct qry_label_sets *sets);
/* FG_E_LIMIT. The labels' memory is borrowed. */
enum fg_code qry_label_sets_add(struct qry_label_sets *sets, const struct fg_labels *labels,
                                struct fg_arena *arena, struct fg_err *err) fg_must_check;
/* The same with a copy of the labels, where they are new; *ret_at: which one they are. */
enum fg_code qry_label_sets_take(struct qry_label_sets *sets, const struct fg_labels *labels,
                                 struct fg_arena *arena, size_t *ret_at,
                                 struct fg_err *err) fg_must_check;
void qry_label_sets_sort(struct qry_label_sets *sets);

/* Values on the grid start + k * step. */
struct qry_point {
    int64_t k, sum;
    uint64_t count;
};
struct qry_points {
    struct fg_labels labels;
    struct qry_point *items; /* ascending by k */
    size_t n;
    double total; /* of all points, set by qry_points_order() */
};

/* When the point is; steps and k come from outside, so far away is as far as it gets. */
static inline int64_t qry_point_ms(const struct qry_point *point, int64_t start_ms, int64_t step_ms)
{
    int64_t ms;

    if (__builtin_mul_overflow(point->k, step_ms, &ms) || __builtin_add_overflow(start_ms, ms, &ms))
        return INT64_MAX;
    return ms;
}

/* Of each label set once. */
struct qry_points_list {
    struct qry_points *items;
    size_t n, cap;
    struct fg_map map; /* hash of the labels -> item */
};
void qry_points_list_init(struct qry_points_list *list);
void qry_points_list_done(struct qry_points_list *list); /* the items stay the arena's */
/* What has the same labels is summed, clamped to 64 bits. Labels and points are borrowed. */
enum fg_code qry_points_list_add(struct qry_points_list *list, const struct qry_points *points,
                                 struct fg_arena *arena, struct fg_err *err) fg_must_check;

/* --- deletions.c --- */

/* Finds the deletions of each tenant, in the snapshot at hand. FG_E_CORRUPT, FG_E_LIMIT. */
enum fg_code qry_deletions_take(struct qry_query *query, struct fg_err *err) fg_must_check;

/* Does nothing where none were taken. */
void qry_deletions_drop(struct qry_query *query);

/* What nobody answers for any more, as far as it is the same for all tenants of the query: all
 * that is before it; INT64_MIN: nothing. */
int64_t qry_deletions_oldest_ns(const struct qry_query *query);

/* --- plan.c --- */

/* A narrower choice of stacks; all arrays may be empty. */
struct qry_stack_filter {
    const char **call_site; /* root first */
    size_t n_call_site;
    uint64_t *spans;
    size_t n_spans;
    ProtobufCBinaryData *traces, *profile_ids;
    size_t n_traces, n_profile_ids;
};

/* Merged stacks, with names only or with full locations. into is empty before. */
enum fg_code qry_collect_tree(struct qry_query *query, const struct qry_selection *selection,
                              const struct qry_stack_filter *stacks, bool names_only,
                              struct fg_tree *into, struct fg_err *err) fg_must_check;

/* names: restricted to these, where there are any. Into initialised sets. */
enum fg_code qry_collect_series(struct qry_query *query, const struct qry_selection *selection,
                                const char *const *names, size_t n_names,
                                struct qry_label_sets *into, struct fg_err *err) fg_must_check;

/* Returns the first moment of what POINTS is made from: the millisecond after the point that would
 * precede the first one. */
static inline int64_t qry_points_from_ns(const struct qry_selection *selection, int64_t step_ns)
{
    return fg_time_add(selection->start_ns, FG_MS_NS - step_ns);
}

/*
 * In no order; in the query's arena. The grid is that of the start that was asked for: where the
 * tenants may not look so far back, points before that have nothing.
 */
enum fg_code qry_collect_points(struct qry_query *query, const struct qry_selection *selection,
                                int64_t step_ns, char *const *group_by, size_t n_group_by,
                                struct qry_points **ret_series, size_t *ret_n,
                                struct fg_err *err) fg_must_check;

struct qry_tenant_stats {
    uint64_t profiles;
    int64_t oldest_ns, newest_ns;
};
enum fg_code qry_collect_stats(struct qry_query *query, struct qry_tenant_stats *ret_stats,
                               struct fg_err *err) fg_must_check;

/* A profile as it was sent. */
struct qry_one_profile {
    const struct fg_labels *labels; /* as stored: with __name__, without those made from the type */
    struct fg_id id;
    struct fg_pprof_head head;
    const struct fg_tree *tree; /* what the samples' nodes are of */
    struct fg_pprof_samples samples;
};

/* What it is given is gone afterwards. */
typedef enum fg_code (*qry_profile_visit)(void *arg, const struct qry_one_profile *profile,
                                          struct fg_err *err);

/*
 * The profiles one by one, in no order, without those that have no values. type_text NULL: with all
 * their sample types, else with those that match. Where the snapshot turns out to be too old it
 * begins again, so a profile may come twice. Blocks only: there are no peers.
 */
enum fg_code qry_collect_profiles(struct qry_query *query, const struct qry_selection *selection,
                                  qry_profile_visit visit, void *arg,
                                  struct fg_err *err) fg_must_check;

/* --- api.c, used by render.c too --- */

/* Series in the order of answers: by descending sum, then labels; cut to limit (0: all). */
void qry_points_order(struct qry_points *series, size_t *n, int64_t limit);

/* --- flame graph.c --- */

/*
 * What is drawn of merged stacks: a tree of names, truncated to max_nodes; drawing with the same
 * max_nodes cuts once more. fold: as flame graphs have it (cut.c). into is empty before.
 *
 * It is made from crowns first, which is many times cheaper, and mostly all that there is to see.
 * Where it is not, all is read in full, if that is little enough (querier.refine_max_bytes) and
 * there is time; else query->inexact and bound say how far it may be off.
 */
enum fg_code qry_flamegraph_make(struct qry_query *query, const struct qry_selection *selection,
                                 const struct qry_stack_filter *stacks, size_t max_nodes, bool fold,
                                 struct fg_tree *into, struct fg_err *err) fg_must_check;

/* A side of a comparison. stacks NULL: it is empty. */
struct qry_side {
    struct qry_selection selection;
    const struct qry_stack_filter *stacks;
};
struct qry_diff;

/* The same of two sides. ret_diff: qry_diff_done(), after a failure too. */
enum fg_code qry_flamegraph_diff(struct qry_query *query, const struct qry_side *left,
                                 const struct qry_side *right, size_t max_nodes,
                                 struct qry_diff *ret_diff, struct fg_err *err) fg_must_check;

/* --- cut.c --- */

/* What of a sum of names is drawn. into is empty before. */
void qry_flamegraph_cut(const struct fg_crown_sum *sum, size_t max_nodes, bool fold,
                        struct fg_tree *into, struct fg_crown_verdict *ret_verdict);

/* --- diff.c --- */

/* Bars of seven numbers (querier/API.md#flame-graphs), names[0] "total". Owned. */
struct qry_diff {
    struct fg_slice *names; /* into the merged tree below */
    size_t n_names, cap_names;
    int64_t *values;
    size_t n_values, cap_values;
    size_t *level_ends; /* of level i in values */
    size_t n_levels, cap_levels;
    int64_t left_ticks, right_ticks, max_self;
    struct fg_tree tree; /* both sides' nodes; keeps the names */
    struct fg_map name_map;
};
/* Sums of names. */
void qry_diff_make(const struct fg_crown_sum *left, const struct fg_crown_sum *right,
                   size_t max_nodes, struct qry_diff *ret_diff,
                   struct fg_crown_verdict *ret_verdict);
void qry_diff_done(struct qry_diff *diff);

#endif
