/*
 * The stacks of dictionaries (dict.h) by functions, for flame graphs: which node of a function tree
 * (common/model/function_tree.h) a stack ends in. It has no lines and addresses, no ids of stacks
 * and nothing to look stacks up with, so it is a tenth of the dictionary, and stays in memory when
 * the dictionary is evicted: queries of the head read every dictionary of it.
 *
 * It is made of a view of the dictionary, so it lacks the stacks that came later. A query that
 * meets one of these opens it again.
 *
 * Thread: any. Memory: bounded, the least recently used are evicted.
 */
#ifndef FG_INGESTER_DICT_FUNCTIONS_H
#define FG_INGESTER_DICT_FUNCTIONS_H

#include "common/storage/cache/cache.h"
#include "common/storage/rollup/crown_layer.h"
#include "ingester/dict.h"

struct ing_dict_functions {
    /* nodes[n_from]: by node of the dictionary. With no_stack. Names are numbers of those below. */
    struct fg_function_tree tree;
    struct fg_crown_names *names; /* mostly shared by all dictionaries of the service */
};

struct ing_functions_table;

/* Creates an empty table. The dictionaries outlive it. */
struct ing_functions_table *ing_functions_table_create(struct ing_dict_table *dicts,
                                                       uint64_t memory_max_bytes);
/* Destroys the table; nobody has a reference. Accepts NULL. */
void ing_functions_table_destroy(struct ing_functions_table *table);

/* Returns the memory of all of them in bytes. */
uint64_t ing_functions_table_bytes(struct ing_functions_table *table);

/*
 * Sets *ret_entry to the functions of a dictionary; fg_cache_unref() drops it. Those in memory are
 * used if they know at least so many nodes, else they are read again. timeout_ns: how long to wait
 * for another thread that makes them. FG_E_CORRUPT, FG_E_UNAVAILABLE: of the dictionary;
 * FG_E_DEADLINE.
 */
enum fg_code ing_functions_open(struct ing_functions_table *table, uint32_t service,
                                uint32_t generation, uint32_t least_nodes, int64_t timeout_ns,
                                struct fg_cache_entry **ret_entry,
                                struct fg_err *err) fg_must_check;

/* Returns what an entry has. */
const struct ing_dict_functions *ing_functions_of(const struct fg_cache_entry *entry);

#endif
