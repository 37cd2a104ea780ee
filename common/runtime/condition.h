/*
 * A condition is something wrong that lasts and that an operator has to know of, while the program
 * goes on: "3 rounds of the head are set aside". It has a name and, while it holds, a sentence.
 *
 *   GET /ready                              lists the sentences of all conditions that hold
 *   flamegrid_condition{condition="NAME"}   is 1 while it holds, for alerts
 *   the log                                 has a line when it begins, changes and ends
 *
 * What ends by itself within seconds (one failed request) is no condition: count it and log it.
 *
 * Thread: any. One lock for the conditions of a process: they change rarely.
 */
#ifndef FG_COMMON_RUNTIME_CONDITION_H
#define FG_COMMON_RUNTIME_CONDITION_H

#include "common/base/buf.h"
#include "common/runtime/metrics.h"

enum {
    FG_CONDITION_NAME_MAX_BYTES = 48,
    FG_CONDITION_TEXT_MAX_BYTES = 1024, /* of a sentence: a longer one is cut */
};

struct fg_conditions; /* those of a process */
struct fg_condition;

/* Makes an empty list. The registry gets a metric for each condition, and outlives the list. */
struct fg_conditions *fg_conditions_create(struct fg_registry *registry);

/* Frees the list, which has to be empty. NULL is fine. */
void fg_conditions_destroy(struct fg_conditions *conditions);

/* Appends a line "NAME: sentence\n" for each condition that holds, in the order of the names.
 * conditions NULL: nothing. */
void fg_conditions_write(struct fg_conditions *conditions, struct fg_buf *out);

/* Makes a condition that does not hold. name: a literal, unique in the list. conditions NULL (tests
 * and tools): returns NULL, which all functions below take and ignore. */
struct fg_condition *fg_condition_create(struct fg_conditions *conditions, const char *name);

/* Ends the condition, without a line in the log. */
void fg_condition_destroy(struct fg_condition *condition);

/* Says that the condition holds, and why, or that the reason has changed. */
void fg_condition_raise(struct fg_condition *condition, const char *format, ...) fg_printf(2, 3);

/* Says that the condition does not hold, or no longer. */
void fg_condition_clear(struct fg_condition *condition);

#endif
