/*
 * What the queries have in common: a call becomes a job on the QUERY lane, a selection becomes the
 * records to read, in the order in which they lie on disk.
 */
#ifndef FG_INGESTER_QUERY_H
#define FG_INGESTER_QUERY_H

#include "common/cluster/ring/watch.h"
#include "common/model/deletion.h"
#include "common/net/rpc/rpc.h"
#include "common/runtime/work.h"
#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
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
    struct ing_segments *segments;
    struct fg_work *work;
    struct fg_id store_id;       /* what is asked of another store is not answered */
    struct fg_ring_watch *watch; /* NULL: alone */
    uint64_t memory_max_bytes;   /* of one query */
};

enum { QUERY_LACKS_BYTES = 160 };

/* One call at work. The answers of a kind fill the two buffers. */
struct ing_query {
    struct ing_query_context *context;
    struct fg_rpc_request *req;
    struct fg_arena *arena;
    struct fg_buf head, payload; /* of the reply */
    uint64_t profiles, bytes;    /* read so far */
    uint64_t keys;               /* likewise; more than profiles where only sums are asked for */
    uint64_t series;
    bool behind;         /* this ingester has to catch up first, with: */
    uint64_t generation; /* of the manifest; 0 while it has not read any */
    bool lenient;        /* profiles that cannot be read are left out: */
    uint64_t unreadable; /* so many, the first of them because of this */
    char why_unreadable[FG_ERR_MSG_MAX_BYTES];
    bool lists; /* what there is, and no values: profiles count that may be in the bucket as well */
    char lacks[QUERY_LACKS_BYTES]; /* what the answer says about it; "": it is complete */
};

/* Handlers for fg_rpc_server_handle(); arg is a context that outlives the server. */
void ing_query_handle_select(struct fg_rpc_request *req, void *context);
void ing_query_handle_series(struct fg_rpc_request *req, void *context);
void ing_query_handle_points(struct fg_rpc_request *req, void *context);
void ing_query_handle_stats(struct fg_rpc_request *req, void *context);

/* What a handler does: the kind fills the reply on a worker, inside the catalog. */
void ing_query_submit(struct fg_rpc_request *req, struct ing_query_context *context,
                      enum fg_code (*kind)(struct ing_query *query, struct fg_err *err));

/* The kinds: read the head, fill the reply. On a worker. */
enum fg_code ing_query_select(struct ing_query *query, struct fg_err *err);
enum fg_code ing_query_series(struct ing_query *query, struct fg_err *err);
enum fg_code ing_query_points(struct ing_query *query, struct fg_err *err);
enum fg_code ing_query_stats(struct ing_query *query, struct fg_err *err);

/* What a selection picked. */
struct ing_query_scope {
    struct ing_query_shards shards;    /* that are asked about */
    struct ing_query_ids ids;          /* of the profiles, likewise */
    struct ing_catalog_tenant *tenant; /* NULL: nobody has heard of it, nothing matches */
    struct ing_catalog_match *matches;
    size_t n_matches;
    struct fg_left *left;          /* [n_matches]: of the time, by deletions; something of each */
    struct fg_left every;          /* the same of every series, whatever its labels */
    struct ing_head_chunk *chunks; /* sorted by shard, then window, then number */
    size_t n_chunks;
    int64_t start_ns, end_ns;   /* inclusive */
    struct fg_store_iter *iter; /* of the moment at which the chunks were chosen; NULL: no chunk */
};

/*
 * Finds series and chunks, of shards that are asked about in any way. profile_type: NULL or "" for
 * any. The times are given apart, since a kind may read more than it was asked about.
 * FG_E_PRECONDITION: another store is meant, or the snapshot is too old; nothing was read.
 */
enum fg_code ing_query_scope(struct ing_query *query, const Fg__Inner__Selection *selection,
                             const char *profile_type, int64_t start_ns, int64_t end_ns,
                             struct ing_query_scope *ret_scope, struct fg_err *err) fg_must_check;
/* Lets go of the iterator: the rest is the arena's. */
void ing_query_scope_done(struct ing_query_scope *scope);

/* Called for each record of the scope that is data, with the match it belongs to. */
typedef enum fg_code (*query_visit)(void *arg, const struct ing_catalog_match *match,
                                    const struct ing_head_profile_key *key,
                                    const struct ing_record *record, struct fg_err *err);

/*
 * Reads every record of the scope that is not deleted, once for each type that matched; of shards
 * of which sums are wanted alone, the keys. *sums: initialised, and complete afterwards. A record
 * for which visit() says FG_E_CORRUPT is left out of a lenient query, and ends any other.
 * FG_E_DEADLINE when it is too late.
 */
enum fg_code ing_query_scan(struct ing_query *query, const struct ing_query_scope *scope,
                            query_visit visit, void *arg, struct ing_query_sums *sums,
                            struct fg_err *err) fg_must_check;

/* Borrows from the query. */
void ing_query_stats_fill(struct ing_query *query, Fg__Inner__Stats *stats);

/* The reply's head. */
void ing_query_put_reply(struct ing_query *query, const ProtobufCMessage *reply);

#endif
