/* What people read: numbers with their units, names that cannot harm a terminal, the top table. */
#ifndef FG_DEPLOY_CLI_SHOW_H
#define FG_DEPLOY_CLI_SHOW_H

#include "common/base/buf.h"
#include "common/model/flame.h"

/* Control characters become blanks: names and messages come from strangers. */
void cli_show_text(struct fg_slice text, struct fg_buf *out);

/* "1.50s", "2.00MiB", "42": unit as in a profile type; one we do not know is left out. */
void cli_show_value(int64_t value, struct fg_slice unit, struct fg_buf *out);

/* The sum of all values. */
int64_t cli_show_whole(const struct fg_tree *tree);

/*
 * Functions of a tree of names, largest self value first, or largest total, with percent of the
 * whole. limit 0: all of them.
 */
void cli_show_table(const struct fg_tree *tree, struct fg_slice unit, bool by_total, size_t limit,
                    struct fg_buf *out);

#endif
