/*
 * Sums of stacks by group: one function tree for all groups, and for each group the values of those
 * nodes that it has. Groups are what a selection is divided into: instances of a service, or blocks
 * of time.
 *
 * Values are lists of (node, value) in which a node may stand several times; a list that has grown
 * twofold is summed up. So adding costs a few nanoseconds, whatever the number of groups and nodes,
 * and memory follows what groups have, not the product of both.
 *
 * Thread: one at a time. Memory: bounded by max_bytes, with the tree; names are in the arena.
 */
#ifndef FG_QUERIER_GROUPS_H
#define FG_QUERIER_GROUPS_H

#include "common/base/arena.h"
#include "common/model/tree.h"

struct qry_group_value {
    uint32_t node; /* of the tree */
    int64_t value;
};

struct qry_group {
    struct fg_slice name;
    struct qry_group_value *items;
    size_t n, cap;
};

struct qry_groups {
    struct fg_tree *tree; /* shared with others, which only add nodes */
    struct qry_group *items;
    size_t n, cap;
    struct fg_map map; /* hash of the name -> item */
    struct fg_arena *arena;
    size_t max_groups;
    uint64_t max_bytes, bytes; /* of the lists and the tree; of the lists */
    int64_t *sums;             /* by node, all zeros: scratch */
    size_t cap_sums;
};

/* Init and free a set of groups. tree: a function tree, borrowed, as is the arena. */
void qry_groups_init(struct qry_groups *groups, struct fg_tree *tree, struct fg_arena *arena,
                     size_t max_groups, uint64_t max_bytes);
void qry_groups_done(struct qry_groups *groups);

/* Removes all groups. Nodes of the tree stay. */
void qry_groups_clear(struct qry_groups *groups);

/* Finds or adds a group by its name, which is copied. FG_E_INVALID: there are more than max_groups,
 * which the client should not have asked for; FG_E_LIMIT. */
enum fg_code qry_groups_find(struct qry_groups *groups, struct fg_slice name, size_t *ret_group,
                             struct fg_err *err) fg_must_check;

/* Adds to the value of a node in a group. FG_E_LIMIT: max_bytes. */
enum fg_code qry_groups_add(struct qry_groups *groups, size_t group, uint32_t node, int64_t value,
                            struct fg_err *err) fg_must_check;

/* Adds the groups of a reply to SELECT (proto/inner.proto, SelectHead.group_by). FG_E_CORRUPT: the
 * payload is none; the groups may have a part of it then. */
enum fg_code qry_groups_take(struct qry_groups *groups, struct fg_slice payload,
                             struct fg_err *err) fg_must_check;

/* Adds a function tree to one group. FG_E_LIMIT. */
enum fg_code qry_groups_take_one(struct qry_groups *groups, size_t group,
                                 const struct fg_tree *tree, struct fg_err *err) fg_must_check;

/* Adds a group's values to a dense array, by node of the tree. */
void qry_group_sum(const struct qry_group *group, int64_t *into);

#endif
