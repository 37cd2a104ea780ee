/*
 * What all queries have in common: a call becomes a job on the QUERY lane, and a selection becomes
 * a list of records to read, in their order on disk.
 *
 * Thread: the worker of the query, unless a function says otherwise.
 */
#ifndef FG_INGESTER_QUERY_H
#define FG_INGESTER_QUERY_H

#include "common/cluster/ring/watch.h"
#include "common/model/deletion.h"
#include "common/net/rpc/rpc.h"
#include "common/runtime/work.h"
#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
#include "ingester/dict_functions.h"
#include "ingester/head_chunks.h"
#include "ingester/query_shards.h"
#include "ingester/record.h"
#include "ingester/segments/segments.h"
#include "proto/inner.pb-c.h"

struct ing_query_context {
    struct fg_store *store;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_dict_table *dicts;
    struct ing_functions_table *functions;
    struct ing_segments *segments;
    struct fg_work *work;
    struct fg_id store_id;       /* calls for another store are refused */
    struct fg_ring_watch *watch; /* NULL: no ring */
    uint64_t memory_max_bytes;   /* of one query */
    uint64_t pass_max_bytes;     /* a pass of SELECT opens no more services beyond it */
};

enum { QUERY_LACKS_BYTES = 160 }; /* one header line that names what is missing */

/* A query. The function of its kind fills the two buffers. */
struct ing_query {
    struct ing_query_context *context;
    struct fg_rpc_request *req;
    struct fg_arena *arena;
    struct fg_buf head, payload; /* of the reply */
    uint64_t profiles, bytes;    /* read so far */
    uint64_t keys;               /* likewise; more than profiles if only sums are asked for */
    uint64_t charged;            /* of `bytes`, to the tenant's flow */
    uint64_t series;
    bool behind;         /* this ingester has to catch up with `generation` first */
    uint64_t generation; /* of the manifest; 0: none was read yet */
    bool lenient;        /* leave out profiles that cannot be read */
    uint64_t unreadable; /* how many were left out */
    char why_unreadable[FG_ERR_MSG_MAX_BYTES]; /* the first of them */
    bool fronts; /* reads totals of records, and nothing behind them */
    bool lists;  /* lists series, without values: profiles that may be in the bucket count, too */
    char lacks[QUERY_LACKS_BYTES]; /* what the answer says is missing; "": it is complete */
};

enum { CHECK_WANTED_EVERY = 1024 }; /* records or series: about a millisecond */

/* Checks that the answer is still wanted, and charges the tenant for what was read so far.
 * FG_E_CANCELED: the caller has disconnected or cancelled; FG_E_DEADLINE. */
enum fg_code ing_query_check_wanted(struct ing_query *query, struct fg_err *err) fg_must_check;

/* Handle calls, for fg_rpc_server_handle(). context: a struct ing_query_context that outlives the
 * server. Transport threads. */
void ing_query_handle_select(struct fg_rpc_request *req, void *context);
void ing_query_handle_series(struct fg_rpc_request *req, void *context);
void ing_query_handle_points(struct fg_rpc_request *req, void *context);
void ing_query_handle_rows(struct fg_rpc_request *req, void *context);
void ing_query_handle_stats(struct fg_rpc_request *req, void *context);

/* Queues a query; the function of its kind fills the reply on a worker, under a guard of the
 * catalog. tenant: whose queries it shares the lane with, as one flow (work.h). Transport threads.
 */
void ing_query_submit(struct fg_rpc_request *req, struct ing_query_context *context,
                      struct fg_slice tenant,
                      enum fg_code (*kind)(struct ing_query *query, struct fg_err *err));

/* The kinds: read the head and fill the reply. */
enum fg_code ing_query_select(struct ing_query *query, struct fg_err *err);
enum fg_code ing_query_series(struct ing_query *query, struct fg_err *err);
enum fg_code ing_query_points(struct ing_query *query, struct fg_err *err);
enum fg_code ing_query_rows(struct ing_query *query, struct fg_err *err);
enum fg_code ing_query_stats(struct ing_query *query, struct fg_err *err);

/* What a selection has picked. */
struct ing_query_scope {
    struct ing_query_shards shards;    /* that the query is about */
    struct ing_query_ids ids;          /* of the profiles that it is about */
    struct ing_catalog_tenant *tenant; /* NULL: unknown, nothing matches */
    struct ing_catalog_match *matches;
    size_t n_matches;
    struct fg_left *left;          /* [n_matches]: the time that deletions leave; not empty */
    struct fg_left every;          /* what deletions of all series leave */
    struct ing_head_chunk *chunks; /* sorted by shard, then window, then number */
    size_t n_chunks;
    int64_t start_ns, end_ns;   /* inclusive */
    struct fg_store_iter *iter; /* made when the chunks were chosen; NULL: no chunk */
};

/*
 * Finds the series and chunks of a selection. profile_type: NULL or "" for any. The times are given
 * separately, since a kind may read more than the selection says. FG_E_PRECONDITION: the call is
 * for another store, or the snapshot is too old; nothing was read.
 */
enum fg_code ing_query_scope(struct ing_query *query, const Fg__Inner__Selection *selection,
                             const char *profile_type, int64_t start_ns, int64_t end_ns,
                             struct ing_query_scope *ret_scope, struct fg_err *err) fg_must_check;

/* Destroys the iterator; the rest is in the arena. */
void ing_query_scope_done(struct ing_query_scope *scope);

/* Takes a record of the scope whose data is asked for, with the match it belongs to. */
typedef enum fg_code (*query_visit)(void *arg, const struct ing_catalog_match *match,
                                    const struct ing_head_profile_key *key,
                                    const struct ing_record *record, struct fg_err *err);

/*
 * Calls visit() for every record of the scope that is not deleted, once for each type that matched.
 * Reads only the keys in shards whose sums alone are asked for. *sums: initialized; complete
 * afterwards. If visit() returns FG_E_CORRUPT, a lenient query leaves the record out, and any other
 * query fails. FG_E_DEADLINE: the deadline of the call has passed.
 *
 * takes: asked before the records of a series are read; of one that is not taken only the keys are.
 * NULL: all are. ing_query_scan_rest() reads the records of series that were not taken before, as
 * often as there are such. They are in the sums already: what a lenient query leaves out is taken
 * out of these, so that another replica supplies it. Each series has to be taken in one scan only.
 */
typedef bool (*query_takes)(void *arg, const struct ing_catalog_match *match);
enum fg_code ing_query_scan(struct ing_query *query, const struct ing_query_scope *scope,
                            query_visit visit, query_takes takes, void *arg,
                            struct ing_query_sums *sums, struct fg_err *err) fg_must_check;
enum fg_code ing_query_scan_rest(struct ing_query *query, const struct ing_query_scope *scope,
                                 query_visit visit, query_takes takes, void *arg,
                                 struct ing_query_sums *sums, struct fg_err *err) fg_must_check;

/* Fills the statistics of a reply, which borrow from the query. */
void ing_query_stats_fill(struct ing_query *query, Fg__Inner__Stats *stats);

/* Packs the head of the reply. */
void ing_query_put_reply(struct ing_query *query, const ProtobufCMessage *reply);

#endif
