/*
 * Calls to the peers that hold data, all at once. They go on while the question does other things;
 * each ask ends with peers_take() or peers_drop(), which wait for all of them.
 *
 * Thread: the question's.
 */
#ifndef FG_QUERIER_PEERS_H
#define FG_QUERIER_PEERS_H

#include "proto/inner.pb-c.h"
#include "querier/question.h"

struct asked;

/* A head that is about a tenant: what is filled in for each of them. */
struct peers_head {
    const ProtobufCMessage *message;
    char **tenant;
    size_t *n_deletions;
    Fg__Inner__Deletion ***deletions;
    int64_t start_ns, end_ns; /* deletions that meet this time are sent; inclusive */
};

/* Takes one peer's reply; its slices are gone afterwards. */
typedef enum fg_code (*peers_reply)(struct question *question, const struct fg_call *call,
                                    void *arg, struct fg_err *err);

/* A selector's matchers as messages; in the arena. FG_E_LIMIT. */
enum fg_code peers_matchers(struct fg_arena *arena, const struct fg_selector *selector,
                            size_t *ret_n, Fg__Inner__Matcher ***ret_matchers,
                            struct fg_err *err) fg_must_check;

/* A call for each tenant and peer, with the tenant's deletions. *ret_asked lives in the question's
 * arena. */
enum fg_code peers_ask(struct question *question, enum fg_rpc_method method,
                       const struct peers_head *head, struct asked **ret_asked,
                       struct fg_err *err) fg_must_check;

/* Waits, then takes all replies; the first failure is that of the whole. */
enum fg_code peers_take(struct question *question, struct asked *asked, peers_reply take, void *arg,
                        struct fg_err *err) fg_must_check;

/* Waits; nobody wants the replies. */
void peers_drop(struct question *question, struct asked *asked);

#endif
