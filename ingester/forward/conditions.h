/*
 * Conditions of forwarding (common/runtime/condition.h): what keeps profiles from their targets for
 * so long that an operator should know. Each names the targets that it is about.
 *
 *   forward_denied    a target refuses our credentials
 *   forward_filling   the queue of a target is more than four fifths full
 *   forward_late      a profile has waited for more than ten minutes
 *   forward_paused    an operator has paused a target
 *   forward_unread    requests fail for a reason of our own
 *
 * Thread: a ticker looks every ten seconds; create and destroy from the program's thread.
 */
#ifndef FG_INGESTER_FORWARD_CONDITIONS_H
#define FG_INGESTER_FORWARD_CONDITIONS_H

#include "common/runtime/condition.h"
#include "ingester/forward/outbox.h"

struct ing_forward_conditions;

#define FORWARD_LATE_NS (10 * FG_MINUTE_NS)

struct ing_forward_conditions_config {
    struct ing_outbox *outbox; /* borrowed, as all of these */
    /* Returns true if the target refuses our credentials. The ticker's thread. */
    bool (*denied)(void *arg, unsigned target);
    /* Returns true if requests to the target fail for a reason of our own. */
    bool (*unread)(void *arg, unsigned target);
    void *arg;
    struct fg_conditions *conditions; /* NULL: none */
    struct fg_clock *clock;
};

/* Looks for the first time, and starts to look again and again. FG_E_LIMIT: no more threads. */
enum fg_code ing_forward_conditions_create(const struct ing_forward_conditions_config *config,
                                           struct ing_forward_conditions **ret_conditions,
                                           struct fg_err *err) fg_must_check;

/* Ends the conditions. Accepts NULL. */
void ing_forward_conditions_destroy(struct ing_forward_conditions *conditions);

/* Looks now, as the ticker does. Any thread that may wait for a moment. */
void ing_forward_conditions_look(struct ing_forward_conditions *conditions);

#endif
