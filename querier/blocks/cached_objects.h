/*
 * Cached objects: what the cache holds of segments and blocks. Directories, indexes, stack trees
 * and function trees are kept as they were parsed, pages and rollups as they were stored, since
 * unpacking is cheap and there is room for more of them. All are checked before they are kept.
 *
 * Thread: any; cached objects never change, except that an index gets its roster when a query needs
 * it first.
 */
#ifndef FG_QUERIER_BLOCKS_CACHED_OBJECTS_H
#define FG_QUERIER_BLOCKS_CACHED_OBJECTS_H

#include "common/storage/rollup/crown_layer.h"
#include "querier/blocks/fetch.h"
#include "querier/blocks/roster.h"

/* The number of pieces (pieces.h) in keys of the cache. */
enum { QRY_CACHED_PIECE = 1 };

extern const struct qry_cached_type qry_cached_directory, qry_cached_index, qry_cached_tree,
    qry_cached_function_tree, qry_cached_page;
extern const struct qry_cached_type qry_cached_rollups, qry_cached_rollup_functions,
    qry_cached_rollup;

/* Return what an entry of each type holds; it lives as long as the entry. */
const struct fg_block_directory *qry_directory_of(const struct fg_cache_entry *entry);
const struct fg_block_index *qry_index_of(const struct fg_cache_entry *entry);
const struct fg_block_tree *qry_tree_of(const struct fg_cache_entry *entry);
const struct fg_function_tree *
qry_function_tree_of(const struct fg_cache_entry *entry); /* of rollups, too */
struct fg_crown_names *qry_function_names_of(const struct fg_cache_entry *entry); /* of it */
const struct fg_rollups *qry_rollups_of(const struct fg_cache_entry *entry);
struct fg_slice qry_page_of(const struct fg_cache_entry *entry); /* of a rollup, too */

/* Returns the roster of an index, which lives as long as its entry. The first call makes it. */
const struct qry_roster *qry_roster_of(struct fg_cache_entry *entry);

/* Returns true if the part stores a function tree, and qry_cached_function_tree is made from it. If
 * not, it is made from the stack tree; its nodes are by rank either way. */
bool qry_stacks_are_named(const struct qry_cached_type *stacks, const struct fg_block_part *part);

/* Returns the range that qry_cached_tree or qry_cached_function_tree is made from. */
struct fg_block_range qry_stacks_range(const struct qry_cached_type *stacks,
                                       const struct fg_block_part *part);

/* Returns true if a directory's entry has the rollups of its parts: *ret_rollups are those of the
 * part, NULL if it has none. If false, they have to be fetched (qry_cached_rollups). */
bool qry_rollups_are_with(const struct fg_cache_entry *directory, uint32_t part,
                          const struct fg_rollups **ret_rollups);

/* Add an item to a list: the function tree and the dictionary of a part's rollups; one crown or
 * full rollup; the marked pages of a section. FG_E_LIMIT. */
enum fg_code qry_fetch_add_rollup_functions(struct qry_fetch_list *list, struct fg_arena *arena,
                                            struct qry_part *part,
                                            struct fg_err *err) fg_must_check;
enum fg_code qry_fetch_add_rollup(struct qry_fetch_list *list, struct fg_arena *arena,
                                  struct qry_part *part, const struct fg_plan_pick *pick,
                                  unsigned phase, struct fg_err *err) fg_must_check;
enum fg_code qry_fetch_add_pages(struct qry_fetch_list *list, struct fg_arena *arena,
                                 struct qry_part *part, uint32_t kind, const bool *marks,
                                 unsigned phase, struct fg_err *err) fg_must_check;

#endif
