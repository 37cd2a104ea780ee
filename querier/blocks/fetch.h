/*
 * Gets things for a question: from the cache, from the disk, or from the bucket by as few requests
 * as possible, what lies near each other by one. The wave goes on while things are visited, so that
 * network and CPU work at the same time; bytes that are under way or wait for their visit are
 * bounded.
 *
 * Thread: the question's. Visits come on it, in the order of the phases; what a visit wants to be
 * done beside others it puts in the snapshot's task group, and qry_fetch_all() ends that, too. Of
 * what comes as bytes the question's task group makes things.
 */
#ifndef FG_QUERIER_BLOCKS_FETCH_H
#define FG_QUERIER_BLOCKS_FETCH_H

#include "querier/blocks/impl.h"

enum { FETCH_PHASES = 2 };

struct qry_fetch;
struct qry_fetch_item;
struct qry_load;

/* A kind of thing. */
struct qry_thing {
    uint32_t what; /* in keys */
    /*
     * Makes what is kept of the bytes. Checks them: nothing is kept that was not. bytes: how much
     * memory it takes. Any thread, while others make other things.
     */
    enum fg_code (*make)(const struct qry_fetch_item *item, struct fg_slice bytes, size_t max_bytes,
                         void **ret_value, size_t *ret_bytes, struct fg_err *err);
    void (*destroy)(void *value);
};

struct qry_fetch_item {
    const struct qry_thing *thing;
    const struct qry_object *object;
    struct fg_block_range range;
    struct qry_part *part; /* NULL: of the object as a whole */
    uint32_t kind, number; /* of a page; what and row of a node */
    unsigned phase;        /* all of the phases before are visited first */

    /* The fetch's own; the entry is there in visits. */
    struct fg_cache_entry *entry;
    struct qry_fetch_item *next;
    struct fg_task task;     /* makes it */
    struct qry_fetch *fetch; /* which it is of */
    struct fg_slice bytes;   /* what it is made of; in the load, in the object's tail, or... */
    struct fg_buf read;      /* ...what the disk had */
    struct qry_load *load;   /* NULL: none brought it */
    bool of_disk;
    bool again; /* what was at hand, or in a cache on the way, will not do: the bucket is asked */
};

struct qry_fetch_list {
    struct qry_fetch_item *items;
    uint32_t n, cap;
};

/* In the arena. FG_E_LIMIT. */
enum fg_code qry_fetch_add(struct qry_fetch_list *list, struct fg_arena *arena,
                           const struct qry_fetch_item *item, struct fg_err *err) fg_must_check;

/* Called once for each item. The entry is let go afterwards, unless the visit keeps it with
 * fg_cache_ref(). */
typedef enum fg_code (*fetch_visit)(void *arg, const struct qry_fetch_item *item,
                                    struct fg_err *err);

/* Visits all; the list is sorted on the way, and of no use afterwards. */
enum fg_code qry_fetch_all(struct qry_question *question, struct qry_fetch_list *list,
                           fetch_visit visit, void *arg, struct fg_err *err) fg_must_check;

/* Puts before the error's text which thing it was that failed. If it is damaged, the question's
 * next try leaves it out (lost.h). Any thread. */
enum fg_code qry_fetch_fail(const struct qry_fetch_item *item, struct fg_err *err);

/* ---- things.c ---- */

extern const struct qry_thing qry_thing_directory, qry_thing_index, qry_thing_tree, qry_thing_names,
    qry_thing_page;
extern const struct qry_thing qry_thing_nodes, qry_thing_node_names, qry_thing_node;

/* What their entries hold. */
const struct fg_block_directory *qry_directory_of(const struct fg_cache_entry *entry);
const struct fg_block_index *qry_index_of(const struct fg_cache_entry *entry);
const struct fg_block_tree *qry_tree_of(const struct fg_cache_entry *entry);
const struct fg_function_tree *
qry_names_of(const struct fg_cache_entry *entry); /* and of merged nodes */
const struct fg_rollups *qry_nodes_of(const struct fg_cache_entry *entry);
struct fg_slice qry_page_of(const struct fg_cache_entry *entry); /* and of a node */

/* What qry_thing_tree or qry_thing_names is made of: the latter of the part's names, if it has any.
 * Its nodes are by rank. */
bool qry_stacks_are_named(const struct qry_thing *stacks, const struct fg_block_part *part);
struct fg_block_range qry_stacks_range(const struct qry_thing *stacks,
                                       const struct fg_block_part *part);

/* What merged nodes a part of a directory has, NULL for none; false: they have to be asked for
 * themselves (qry_thing_nodes). */
bool qry_nodes_are_with(const struct fg_cache_entry *directory, uint32_t part,
                        const struct fg_rollups **ret_nodes);

/* Of merged nodes: names and dictionary; a crown or a full node, as it was stored (qry_page_of()).
 */
enum fg_code qry_fetch_add_node_names(struct qry_fetch_list *list, struct fg_arena *arena,
                                      struct qry_part *part, struct fg_err *err) fg_must_check;
enum fg_code qry_fetch_add_node(struct qry_fetch_list *list, struct fg_arena *arena,
                                struct qry_part *part, const struct fg_plan_pick *pick,
                                unsigned phase, struct fg_err *err) fg_must_check;

/* Adds the marked pages of a kind of the part to the list. */
enum fg_code qry_fetch_add_pages(struct qry_fetch_list *list, struct fg_arena *arena,
                                 struct qry_part *part, uint32_t kind, const bool *marks,
                                 unsigned phase, struct fg_err *err) fg_must_check;

#endif
