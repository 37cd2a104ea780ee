/*
 * Heads of the calls to ingesters: what a query asks of all, with what is filled in for each
 * tenant, and for each call.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_REPLICAS_HEADS_H
#define FG_QUERIER_REPLICAS_HEADS_H

#include "common/model/selector.h"
#include "proto/inner.pb-c.h"
#include "querier/query.h"

/* A head, and where in it those things stand. */
struct qry_replicas_head {
    const ProtobufCMessage *message;
    char **tenant;
    size_t *n_deletions;
    Fg__Inner__Deletion ***deletions;
    ProtobufCBinaryData *store;
    Fg__Inner__Shards **shards;
    ProtobufCBinaryData *only_ids;      /* NULL: there is no such thing in it, */
    protobuf_c_boolean *lenient;        /* likewise */
    int64_t start_ns, end_ns;           /* deletions that meet this time are sent; inclusive */
    const struct fg_selector *selector; /* which series it is about; NULL: any */
};

/* A selector's matchers as messages; in the arena. FG_E_LIMIT. */
enum fg_code qry_heads_matchers(struct fg_arena *arena, const struct fg_selector *selector,
                                size_t *ret_n, Fg__Inner__Matcher ***ret_matchers,
                                struct fg_err *err) fg_must_check;

/* What is asked about one tenant of the query. */
struct qry_heads_tenant {
    char *name;
    size_t n_deletions; /* what was deleted of it */
    Fg__Inner__Deletion **deletions;
};
enum fg_code qry_heads_tenant(const struct qry_query *query, size_t tenant,
                              const struct qry_replicas_head *head,
                              struct qry_heads_tenant *ret_tenant,
                              struct fg_err *err) fg_must_check;

/* What one call asks. */
struct qry_heads_request {
    const struct qry_heads_tenant *tenant;
    const struct fg_id *store; /* NULL: whoever it is */
    Fg__Inner__Shards *shards; /* NULL: all, without sums */
    ProtobufCBinaryData only_ids;
    bool lenient; /* what cannot be read is left out */
};

/* The head as bytes in the arena. FG_E_LIMIT. */
enum fg_code qry_heads_pack(const struct qry_replicas_head *head,
                            const struct qry_heads_request *request, struct fg_arena *arena,
                            struct fg_slice *ret_bytes, struct fg_err *err) fg_must_check;

#endif
