/*
 * Tree bytes, the form TREE of SelectMergeStacktraces' answer:
 *
 *   node     = varint name length, name, varint self, varint children, then the children
 *   00 00 01  01 61 00 02  01 62 01 00  01 63 02 00     stacks a;b 1 and a;c 2
 *
 * The first node is a root without a name. Nothing at all is an empty tree.
 */
#ifndef FG_DEPLOY_CLI_TREEBYTES_H
#define FG_DEPLOY_CLI_TREEBYTES_H

#include "common/model/tree.h"

/*
 * Into an empty tree, as a tree of names. FG_E_DECODE: cut short, or more than one root; only
 * fg_tree_done() is of use then. Memory is bounded by the input's length, whatever it says.
 */
enum fg_code cli_treebytes_decode(struct fg_slice in, struct fg_tree *tree,
                                  struct fg_err *err) fg_must_check;

#endif
