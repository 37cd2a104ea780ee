/*
 * The compactor merges what ingesters commit to the bucket, builds the pre-merged tree, and applies
 * retention and deletion. As long as there is no bucket the heads keep everything, and it has
 * nothing to do: it runs, says so once, and answers the operator's routes.
 */
#ifndef FG_COMPACTOR_COMPACTOR_H
#define FG_COMPACTOR_COMPACTOR_H

struct compactor;

struct compactor *compactor_create(void);
void compactor_destroy(struct compactor *compactor); /* NULL is fine */

#endif
