/*
 * A fan-out asks one thing of both places that have the data of a query: the ingesters, for what
 * they have not committed yet, and blocks, for what they have. Both are asked about one snapshot,
 * so each profile counts once, and `into` merges their replies: sums add up, sets unite, nothing is
 * cut.
 *
 * If the snapshot turns out to be too old (an ingester has evicted what was committed after it, or
 * an object of it was deleted), the ring and then the snapshot are taken again, and the whole
 * fan-out starts over.
 *
 * Thread: the query's worker, which waits. Errors: those of querier/blocks/blocks.h and
 * querier/replicas/replicas.h, except that a snapshot that stays too old is FG_E_UNAVAILABLE, and
 * an object that stays missing is FG_E_CORRUPT.
 */
#ifndef FG_QUERIER_FANOUT_H
#define FG_QUERIER_FANOUT_H

#include "common/model/tree.h"
#include "proto/inner.pb-c.h"
#include "querier/replicas/replicas.h"
#include "querier/selection.h"

/* One thing to ask; embedded as the first member of the struct of its kind. */
struct qry_fanout {
    enum fg_rpc_method method;     /* of the calls to ingesters */
    struct qry_replicas_head head; /* their head */
    uint64_t *generation;          /* where the head has the generation of the snapshot */
    qry_replicas_reply take;       /* adds an ingester's reply to `into` */
    /* Adds what blocks have to `into`. */
    enum fg_code (*read)(struct qry_query *query, struct qry_fanout *fanout, struct fg_err *err);
    void (*restart)(struct qry_fanout *fanout); /* empties `into` */
    void *into;
};

/* Takes the ring and a snapshot, and finds the deletions in it, unless the query has them: for
 * callers that need these before they run a fan-out. */
enum fg_code qry_fanout_begin(struct qry_query *query, struct fg_err *err) fg_must_check;

/* Runs a fan-out to its end. Several may run for one query, one after another; they share the
 * snapshot. */
enum fg_code qry_fanout_run(struct qry_query *query, struct qry_fanout *fanout,
                            struct fg_err *err) fg_must_check;

/* Frees the query's ring, snapshot, deletions and list of skipped objects, at its end. */
void qry_fanout_end(struct qry_query *query);

/* ---- parts that fan-outs have in common ---- */

/* Adds what a reply was made from to the query. Errors: those of qry_query_charge(). */
enum fg_code qry_fanout_count(struct qry_query *query, const Fg__Inner__Stats *stats,
                              struct fg_err *err) fg_must_check;

/* Copies texts into the query's arena, since protobuf-c wants strings that may be written to. NULL:
 * the arena is full. */
char **qry_fanout_texts(struct qry_query *query, const char *const *from, size_t n);

/* Makes the selection of a head. FG_E_LIMIT. */
enum fg_code qry_fanout_selection(struct qry_query *query, const struct qry_selection *from,
                                  Fg__Inner__Selection *ret_selection,
                                  struct fg_err *err) fg_must_check;

/* Returns a head that has such a selection. start_ns: the first moment of what is read. */
struct qry_replicas_head qry_fanout_head(const ProtobufCMessage *message,
                                         Fg__Inner__Selection *selection,
                                         const struct qry_selection *from, int64_t start_ns);

/* Makes a head of SELECT, which refers to *selection. FG_E_LIMIT. */
enum fg_code qry_fanout_select_head(struct qry_query *query, const struct qry_selection *from,
                                    const struct qry_stack_filter *stacks, bool names_only,
                                    Fg__Inner__Selection *selection,
                                    Fg__Inner__SelectHead *ret_head,
                                    struct fg_err *err) fg_must_check;

/* Reads the head of a reply to SELECT, and counts what the reply was made from. FG_E_CORRUPT. */
enum fg_code qry_fanout_take_select(struct qry_query *query, const struct fg_call *call,
                                    const Fg__Inner__SelectReply **ret_reply,
                                    struct fg_err *err) fg_must_check;

/* Decodes the tree of a reply to SELECT into an empty tree, and counts what it was made from.
 * FG_E_CORRUPT. */
enum fg_code qry_fanout_take_tree(struct qry_query *query, const struct fg_call *call,
                                  struct fg_tree *into, struct fg_err *err) fg_must_check;

#endif
