/*
 * The binary forms of old agents, trie and tree, into batches (distributor/API.md#formats). Both
 * are nodes in pre-order, each:
 *
 *   varint length of the name, the name, varint value, varint count of children; then the children
 *
 *   tree: a node is a frame; the first is the root, without a name. The example has a;b 1, a;c 2:
 *         00 00 01  01 61 00 02  01 62 01 00  01 63 02 00
 *   trie: the names from the root down, put together, are a folded stack, "main;a"; they may be cut
 *         anywhere. main;a 10, main;a;b 5:
 *         00 00 01  05 'main;' 00 01  01 'a' 0a 01  02 ';b' 05 00
 *
 * A node with a value is a sample; a root's is of the empty stack. There is one sample type, which
 * the caller has put into batch->types.
 *
 * FG_E_DECODE: a node is truncated, announces more children than can follow, has a name that is not
 * UTF-8 or, in a tree, longer than the limit of symbols; bytes after the last node; a tree without
 * a root (a trie without one is empty); values beyond 63 bits, also after multiplication.
 * FG_E_INVALID: more samples than the limit. FG_E_TOO_LARGE: out of memory, or the stacks have too
 * many frames in total, which small inputs can make quadratic.
 */
#ifndef FG_PROTO_TREE_FORMATS_H
#define FG_PROTO_TREE_FORMATS_H

#include "proto/builder/builder.h"

enum fg_tree_format { FG_FORMAT_TREE, FG_FORMAT_TRIE };

/* factor: multiplies every value (the period of CPU samples). */
struct fg_tree_request {
    struct fg_upload upload;
    enum fg_tree_format format;
    int64_t period; /* kept with the profile; 0: none */
    int64_t factor;
};

/* Decodes the bytes. The caller has set the schema of the batch. Names are borrowed from the input
 * or copied into the arena. */
enum fg_code fg_tree_format_decode(struct fg_slice in, const struct fg_tree_request *request,
                                   struct fg_arena *arena, struct fg_batch *batch,
                                   struct fg_decode_counts *counts,
                                   struct fg_err *err) fg_must_check;

#endif
