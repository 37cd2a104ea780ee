/*
 * Heads of the calls to ingesters: the message of a fan-out, in which some fields are filled in for
 * each tenant and for each request.
 *
 * Thread: the query's. Memory: the arena that is named.
 */
#ifndef FG_QUERIER_REPLICAS_HEADS_H
#define FG_QUERIER_REPLICAS_HEADS_H

#include "common/model/selector.h"
#include "proto/inner.pb-c.h"
#include "querier/query.h"

/* A head, and where it has the fields that are filled in. */
struct qry_replicas_head {
    const ProtobufCMessage *message;
    char **tenant;
    size_t *n_deletions;
    Fg__Inner__Deletion ***deletions;
    ProtobufCBinaryData *store;
    Fg__Inner__Shards **shards;
    ProtobufCBinaryData *only_ids;      /* NULL: the message has no such field */
    protobuf_c_boolean *lenient;        /* likewise */
    uint64_t *cancel_key;               /* likewise */
    int64_t start_ns, end_ns;           /* sends deletions that meet this time; inclusive */
    const struct fg_selector *selector; /* the series it is about; NULL: any */
};

/* Makes the messages of a selector's matchers. FG_E_LIMIT. */
enum fg_code qry_heads_matchers(struct fg_arena *arena, const struct fg_selector *selector,
                                size_t *ret_n, Fg__Inner__Matcher ***ret_matchers,
                                struct fg_err *err) fg_must_check;

/* What is filled in for a tenant. */
struct qry_heads_tenant {
    char *name;
    size_t n_deletions;
    Fg__Inner__Deletion **deletions;
};

/* Makes it for the query's tenant of that number, in the query's arena. FG_E_LIMIT. */
enum fg_code qry_heads_tenant(const struct qry_query *query, size_t tenant,
                              const struct qry_replicas_head *head,
                              struct qry_heads_tenant *ret_tenant,
                              struct fg_err *err) fg_must_check;

/* What is filled in for a request. */
struct qry_heads_request {
    const struct qry_heads_tenant *tenant;
    const struct fg_id *store; /* the store that has to answer; NULL: any */
    Fg__Inner__Shards *shards; /* NULL: all, without sums */
    ProtobufCBinaryData only_ids;
    bool lenient;        /* the ingester leaves out what it cannot read, and says so */
    uint64_t cancel_key; /* under which the call may be canceled (calls.h) */
};

/* Packs a head into the arena. FG_E_LIMIT. */
enum fg_code qry_heads_pack(const struct qry_replicas_head *head,
                            const struct qry_heads_request *request, struct fg_arena *arena,
                            struct fg_slice *ret_bytes, struct fg_err *err) fg_must_check;

#endif
