/* Formats results for people: numbers with units, names that cannot harm a terminal, tables. */
#ifndef FG_DEPLOY_CLI_SHOW_H
#define FG_DEPLOY_CLI_SHOW_H

#include "common/base/buf.h"
#include "common/model/flame.h"

/* Appends text with control characters as blanks, because names and messages come from outside. */
void cli_show_text(struct fg_slice text, struct fg_buf *out);

/* Returns the sum of all values. */
int64_t cli_show_whole(const struct fg_tree *tree);

/*
 * Appends a table of the functions of a tree, by self value or, with by_total, by total, largest
 * first, with percentages. limit 0: all functions.
 */
void cli_show_table(const struct fg_tree *tree, struct fg_slice unit, bool by_total, size_t limit,
                    struct fg_buf *out);

#endif
