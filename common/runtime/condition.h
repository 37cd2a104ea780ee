/*
 * A condition is a lasting fault that an operator has to know of while the program continues, for
 * example "3 head chunks are set aside". It has a name and, while it holds, a sentence.
 *
 *   GET /ready                              lists the sentences of all conditions that hold
 *   flamegrid_condition{condition="NAME"}   is 1 while it holds, for alerts
 *   the log                                 has a line when it begins, changes and ends
 *
 * A fault that ends by itself within seconds (one failed request) is not a condition: count it and
 * log it.
 *
 * Thread: any. One lock for the conditions of a process: they change rarely.
 */
#ifndef FG_COMMON_RUNTIME_CONDITION_H
#define FG_COMMON_RUNTIME_CONDITION_H

#include "common/base/buf.h"
#include "common/runtime/metrics.h"

enum {
    FG_CONDITION_NAME_MAX_BYTES = 48,   /* names are literals of two or three words */
    FG_CONDITION_TEXT_MAX_BYTES = 1024, /* of a sentence; a longer one is cut */
};

struct fg_conditions; /* the conditions of a process */
struct fg_condition;

/* Creates an empty list. The registry gets a metric for each condition, and outlives the list. */
struct fg_conditions *fg_conditions_create(struct fg_registry *registry);

/* Frees the list, which has to be empty. Accepts NULL. */
void fg_conditions_destroy(struct fg_conditions *conditions);

/* Appends a line "NAME: sentence\n" for each condition that holds, in the order of the names.
 * conditions NULL: nothing. */
void fg_conditions_write(struct fg_conditions *conditions, struct fg_buf *out);

/* Creates a condition that does not hold. name: a literal, unique in the list. conditions NULL
 * (tests and tools): returns NULL, which all functions below take and ignore. */
struct fg_condition *fg_condition_create(struct fg_conditions *conditions, const char *name);

/* Removes the condition from the list and frees it, without a line in the log. */
void fg_condition_destroy(struct fg_condition *condition);

/* Sets the condition, with the reason, or changes the reason. */
void fg_condition_raise(struct fg_condition *condition, const char *format, ...) fg_printf(2, 3);

/* Clears the condition. */
void fg_condition_clear(struct fg_condition *condition);

#endif
