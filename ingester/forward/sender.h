/*
 * The sender forwards what is in the outbox to its targets.
 *
 *   committer          loop                        worker              target
 *   on_ready  ----->  take a span, after a while
 *                     of collecting     ----->     build a round
 *                     send             <-----
 *                         ------------------------------------------>  answer
 *                     <-----------------------------------------------
 *                                       ----->     take the answer,
 *                                                  report, or build
 *                                                  the next round
 *
 * A resend reads a page from the bucket in place of a span, if none waits: one page at a time, of
 * all targets, so that memory is bounded and the bucket is read at the pace at which the target
 * takes it.
 *
 * Targets do not wait for each other: each has its own connections and pauses (sender_core.h).
 * Nobody waits for a target, neither agents nor the committer.
 *
 * Thread: a loop and workers of its own; create, start, stop and destroy from the program's thread.
 */
#ifndef FG_INGESTER_FORWARD_SENDER_H
#define FG_INGESTER_FORWARD_SENDER_H

#include "common/base/budget.h"
#include "common/base/json_writer.h"
#include "ingester/forward/parcel.h"

struct ing_sender;

/* All borrowed. */
struct ing_sender_config {
    struct ing_parcel_common common;     /* without the definition cache; copied */
    struct ing_forward_targets *targets; /* the same as the outbox's, in the same order */
    struct fg_budget *bodies;            /* for answers */
    const struct ing_past *past;         /* what is resent; NULL: nothing can be */
    struct fg_registry *registry;
    struct fg_clock *clock;
    uint64_t definition_cache_max; /* stacks */
    int64_t collect_ns;            /* how long the first profile waits for others of its request */
};

/* Creates it. */
struct ing_sender *ing_sender_create(const struct ing_sender_config *config);

/* Starts to send. FG_E_LIMIT: no more threads. Accepts NULL. */
enum fg_code ing_sender_start(struct ing_sender *sender, struct fg_err *err) fg_must_check;

/* Ends requests that are under way, whose profiles wait again, and stops the threads. Call it
 * before ing_outbox_stop(). Accepts NULL. */
void ing_sender_stop(struct ing_sender *sender);

/* Destroys it. Accepts NULL. */
void ing_sender_destroy(struct ing_sender *sender);

/* Returns true if the target refuses our credentials. Any thread except a loop's. */
bool ing_sender_is_denied(struct ing_sender *sender, unsigned target);

/* Returns true if requests fail for a reason of our own: the store, or files of credentials, cannot
 * be read, or there is no memory for answers. Any thread except a loop's. */
bool ing_sender_is_unread(struct ing_sender *sender, unsigned target);

/* Returns what can be resent; NULL: nothing. */
const struct ing_past *ing_sender_past(const struct ing_sender *sender);

/* Writes the state of all targets as a JSON list, with the numbers of the outbox. Any thread except
 * a loop's. */
void ing_sender_write(struct ing_sender *sender, struct fg_json_writer *out);

#endif
