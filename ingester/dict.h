/*
 * A dictionary numbers the stacks of one service: a stack tree (common/model/tree.h) that only
 * grows, and the ids of the stacks it knows. Records name stacks by node number + 1; 0 is the empty
 * stack.
 *
 * On disk a dictionary is the chunks by which it grew, in order (keys.h, DICT):
 *   symbols since the chunk before (symbols.h)
 *   varint first node, varint n, nodes: varint number - parent (0: root), varint location
 *   varint n, stacks: id 16 bytes, varint node + 1
 * A chunk stands in the same batch as the first records that need it.
 *
 * Generations: after a write that failed nobody knows how much of it a restart will find. So the
 * dictionary is left as it is on disk and a new generation begins: what the failed batch may have
 * numbered stays consistent with itself and nothing else uses these numbers. Cutting the head into
 * segments begins a new generation too, so that old ones can go, and so does a start (retire.h).
 *
 * Thread: only who holds the lock of a service (push.h) changes its newest generation, and readers
 * never block it: queries and segment builds read a view, a snapshot of the dictionary. All
 * memory that a view points to is append-only. When an array must grow, the writer continues in a
 * copy, and the old array is kept while a view may point to it (common/base/outgrown.h). A lock is
 * held only to copy a view, never while a tree is merged.
 *
 *   writer    append ... append  publish           append ...
 *                                   | counts and addresses, under the lock
 *   reader               view <-----+  merge ... merge  end
 */
#ifndef FG_INGESTER_DICT_H
#define FG_INGESTER_DICT_H

#include "common/model/batch.h"
#include "common/model/tree.h"
#include "common/storage/store/store.h"
#include "ingester/catalog/catalog.h"

struct ing_dict;
struct ing_dict_table;

/* A stack of a dictionary. */
struct ing_dict_stack {
    struct fg_id id;
    uint32_t node; /* + 1 */
};

/*
 * A snapshot of a dictionary. Of the tree only arrays and counts are set: nothing can be looked up
 * or added, and self is NULL, because callers merge the tree with their own values. Later views
 * keep the numbers of this one and continue them.
 */
struct ing_dict_view {
    struct fg_tree tree;
    const struct ing_dict_stack *stacks;
    uint32_t n_stacks;
};

/* Creates an empty table. memory_max_bytes: beyond it dictionaries that are not in use are evicted,
 * the least recently used first. */
struct ing_dict_table *ing_dict_table_create(struct fg_store *store, uint64_t memory_max_bytes);

/* Destroys the table; nobody has a reference. Accepts NULL. */
void ing_dict_table_destroy(struct ing_dict_table *table);

/* Returns the memory of all dictionaries in bytes. */
uint64_t ing_dict_table_bytes(struct ing_dict_table *table);

/*
 * Takes a reference to the dictionary of a service and generation; reads it from the store if it is
 * not in memory. It is empty if the store has none. Waits if another thread is reading the same
 * one. ing_dict_unref() drops the reference. FG_E_CORRUPT, FG_E_UNAVAILABLE.
 */
enum fg_code ing_dict_ref(struct ing_dict_table *table, uint32_t service, uint32_t generation,
                          struct ing_dict **ret_dict, struct fg_err *err) fg_must_check;

/* Drops a reference. */
void ing_dict_unref(struct ing_dict_table *table, struct ing_dict *dict);

/* Calls each() for every dictionary that the store has, ascending by service and generation. */
enum fg_code ing_dict_each(struct fg_store *store,
                           void (*each)(uint32_t service, uint32_t generation, void *arg),
                           void *arg, struct fg_err *err) fg_must_check;

/* Sets *ret_stored if the store has chunks of the dictionary. */
enum fg_code ing_dict_stored(struct fg_store *store, uint32_t service, uint32_t generation,
                             bool *ret_stored, struct fg_err *err) fg_must_check;

/* Sets *ret_stored if the store has chunks of dictionaries of the service whose generation is at
 * least `least`, and *ret_generation to the least of them. */
enum fg_code ing_dict_next_stored(struct fg_store *store, uint32_t service, uint32_t least,
                                  bool *ret_stored, uint32_t *ret_generation,
                                  struct fg_err *err) fg_must_check;

/* Adds a dictionary without stacks to a batch, which nothing names: it marks that its generation
 * was given. */
void ing_dict_put_mark(uint32_t service, uint32_t generation, struct fg_store_batch *out);

/* Returns true if somebody has a reference. */
bool ing_dict_in_use(struct ing_dict_table *table, uint32_t service, uint32_t generation);

/*
 * Adds deletes of a dictionary to a batch and evicts it; nothing names it any more. Returns false,
 * and does nothing, if somebody has a reference.
 */
bool ing_dict_delete(struct ing_dict_table *table, uint32_t service, uint32_t generation,
                     struct fg_store_batch *out) fg_must_check;

/*
 * Returns true if the dictionary is larger than its share while memory is short, even without those
 * that were not used for long, which it evicts. Then begin a new generation: the old one can be
 * evicted once its pushes are done, and queries read it again.
 */
bool ing_dict_outgrown(struct ing_dict_table *table, const struct ing_dict *dict);

/* --- under the lock of the service --- */

/*
 * Sets nodes[batch->n_stacks] to node + 1 of every stack of the batch, and adds those that the
 * batch defines. Returns the number of stacks that are neither known nor defined. If it is not 0,
 * none was added, and nothing of the batch may be stored.
 */
uint32_t ing_dict_resolve(struct ing_dict *dict, const struct fg_wire_batch *batch,
                          uint32_t *nodes) fg_must_check;

/* Adds a put of what was added since the last chunk to a batch, if anything was. */
void ing_dict_put_chunk(struct ing_dict *dict, struct fg_store_batch *out);

/* --- readers: any thread that has a reference --- */

/* Takes a snapshot with all stacks resolved so far. It is valid until ing_dict_view_end(), which
 * the caller calls before ing_dict_unref(). Never waits for the writer. */
void ing_dict_view_begin(struct ing_dict *dict, struct ing_dict_view *ret_view);

/* Ends the view; frees outgrown arrays that no other view may point to. */
void ing_dict_view_end(struct ing_dict *dict, struct ing_dict_view *view);

/*
 * Sets ids[] to the ids of a set of n stacks, ascending by their numbers (node + 1). marks: the
 * set, with a bit for each number up to that of the view's last node; ranks[w]: how many of it are
 * before word w. Looks at each stack of the view once. Returns false if the view lacks one of the
 * set.
 */
bool ing_dict_view_ids(const struct ing_dict_view *view, const uint64_t *marks,
                       const uint32_t *ranks, uint32_t n, struct fg_id *ids) fg_must_check;

#endif
