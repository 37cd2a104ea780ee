/*
 * The samples of a batch (batch.h) as a stack tree, without the way over an ingester.
 *
 * Thread: one at a time.
 */
#ifndef FG_COMMON_MODEL_BATCH_TREE_H
#define FG_COMMON_MODEL_BATCH_TREE_H

#include "common/model/batch.h"
#include "common/model/tree.h"

/*
 * Adds the values of one sample type, of all profiles of the batch, to a tree of locations. type:
 * less than batch->n_types. FG_E_TOO_LARGE: the tree has more than max_bytes; only fg_tree_done()
 * may be called on it then.
 */
enum fg_code fg_batch_tree_add(const struct fg_batch *batch, uint32_t type, size_t max_bytes,
                               struct fg_tree *tree, struct fg_err *err) fg_must_check;

#endif
