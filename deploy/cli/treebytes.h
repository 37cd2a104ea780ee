/*
 * Tree bytes, the form TREE of SelectMergeStacktraces' answer:
 *
 *   node     = varint name length, name, varint self, varint children, then the children
 *   00 00 01  01 61 00 02  01 62 01 00  01 63 02 00     stacks a;b 1 and a;c 2
 *
 * The first node is a root without a name. An empty input is an empty tree.
 */
#ifndef FG_DEPLOY_CLI_TREEBYTES_H
#define FG_DEPLOY_CLI_TREEBYTES_H

#include "common/model/tree.h"

/*
 * Decodes into an empty tree, as a tree of function names. FG_E_DECODE: truncated, or more than one
 * root; call fg_tree_done() then. Memory is proportional to the input, not to the counts in it.
 */
enum fg_code cli_treebytes_decode(struct fg_slice in, struct fg_tree *tree,
                                  struct fg_err *err) fg_must_check;

#endif
