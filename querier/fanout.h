/*
 * A fan-out is one thing that a query wants to know, in two places: with the ingesters, what
 * they have not committed yet, and in blocks, what they have. Both are asked about one snapshot, so
 * that each profile counts once, and their answers meet in `into`. Each holds a part of its own:
 * sums add up and sets unite; nothing is cut.
 *
 * Where the snapshot turns out to be too old (an ingester has forgotten what was committed after
 * it, or an object of it is gone) it is taken anew, after the ring, and all of the fan-out begins
 * again.
 */
#ifndef FG_QUERIER_FANOUT_H
#define FG_QUERIER_FANOUT_H

#include "proto/inner.pb-c.h"
#include "querier/blocks/blocks.h"
#include "querier/replicas/replicas.h"

/* First in the struct of its kind. */
struct qry_fanout {
    enum fg_rpc_method method;
    struct qry_replicas_head head;
    uint64_t *generation;    /* where the head has it */
    qry_replicas_reply take; /* adds a peer's reply to `into` */
    enum fg_code (*read)(struct qry_query *query, struct qry_fanout *fanout, struct fg_err *err);
    void (*restart)(struct qry_fanout *fanout); /* empties `into` */
    void *into;
};
/* Takes a snapshot, unless there is one: for who has to look at it before the fan-out. */
enum fg_code qry_fanout_begin(struct qry_query *query, struct fg_err *err) fg_must_check;
enum fg_code qry_fanout_run(struct qry_query *query, struct qry_fanout *fanout,
                            struct fg_err *err) fg_must_check;

/* ---- what fan-outs have in common ---- */

enum fg_code qry_fanout_too_large(struct fg_err *err);

/* What a reply says that it was made from. */
void qry_fanout_count(struct qry_query *query, const Fg__Inner__Stats *stats);

/* In the query's arena; NULL: it is full. protobuf-c's messages want strings that may be written
 * to; packing does not. */
char **qry_fanout_texts(struct qry_query *query, const char *const *from, size_t n);

enum fg_code qry_fanout_selection(struct qry_query *query, const struct qry_selection *from,
                                  Fg__Inner__Selection *ret_selection,
                                  struct fg_err *err) fg_must_check;

/* A head with such a selection; what is read of it begins at start_ns. */
struct qry_replicas_head qry_fanout_head(const ProtobufCMessage *message,
                                         Fg__Inner__Selection *selection,
                                         const struct qry_selection *from, int64_t start_ns);

/* Of SELECT. The head refers to *selection. */
enum fg_code qry_fanout_select_head(struct qry_query *query, const struct qry_selection *from,
                                    const struct qry_stack_filter *stacks, bool names_only,
                                    Fg__Inner__Selection *selection,
                                    Fg__Inner__SelectHead *ret_head,
                                    struct fg_err *err) fg_must_check;

/* A peer's tree, and counts what it was made from; an empty one where it has nothing. */
enum fg_code qry_fanout_take_tree(struct qry_query *query, const struct fg_call *call,
                                  struct fg_tree *into, struct fg_err *err) fg_must_check;

#endif
