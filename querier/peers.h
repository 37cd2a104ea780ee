/*
 * Calls to the peers that hold data, all at once. They go on while the question does other things;
 * each ask ends with peers_take() or peers_drop(), which wait for all of them.
 *
 * Thread: the question's.
 */
#ifndef FG_QUERIER_PEERS_H
#define FG_QUERIER_PEERS_H

#include "querier/question.h"

struct asked;

/* Takes one peer's reply; its slices are gone afterwards. */
typedef enum fg_code (*peers_reply)(struct question *question, const struct fg_call *call,
                                    void *arg, struct fg_err *err);

/*
 * A call for each tenant and peer. tenant: where the head has its tenant, which is filled in here.
 * *ret_asked lives in the question's arena.
 */
enum fg_code peers_ask(struct question *question, enum fg_rpc_method method,
                       const ProtobufCMessage *head, char **tenant, struct asked **ret_asked,
                       struct fg_err *err) fg_must_check;

/* Waits, then takes all replies; the first failure is that of the whole. */
enum fg_code peers_take(struct question *question, struct asked *asked, peers_reply take, void *arg,
                        struct fg_err *err) fg_must_check;

/* Waits; nobody wants the replies. */
void peers_drop(struct question *question, struct asked *asked);

#endif
