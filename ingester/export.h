/*
 * Exports stored profiles as the batches that a distributor would have sent (common/model/batch.h):
 * one for each service, dictionary, schema and shard, with the content of all stacks. For another
 * owner (repair/) and for another server (forward/).
 *
 *     ing_export_sort(catalog, profiles, n);
 *     for (i = 0; i < n; i = end) {
 *         end = ing_export_end(profiles, n, i);
 *         if (profiles[i].series != NULL) ing_export_batch(&from, profiles + i, end - i, ...);
 *     }
 *
 * Thread: any that may wait for the disk, under a guard of the catalog.
 */
#ifndef FG_INGESTER_EXPORT_H
#define FG_INGESTER_EXPORT_H

#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
#include "ingester/record.h"

/* A profile that was read. */
struct ing_export_profile {
    struct ing_head_profile_key key;
    struct ing_record record;
    const struct ing_catalog_series *series; /* set by ing_export_sort(); NULL: it is not known */
    void *owner;                             /* the caller's */
};

/* Finds the series of the profiles, and orders the profiles by the batches that they go into. */
void ing_export_sort(struct ing_catalog *catalog, struct ing_export_profile *profiles, size_t n);

/* Returns the end of the batch that begins with profile i. */
size_t ing_export_end(const struct ing_export_profile *profiles, size_t n, size_t i);

/* Sets define[] for the stacks whose content the batch is to have; it starts all false. The batch
 * has profiles and the ids of stacks. */
typedef enum fg_code (*ing_export_choose)(void *arg, const struct fg_batch *batch,
                                          const struct ing_export_profile *profiles, bool *define,
                                          struct fg_err *err);

struct ing_export_from {
    struct ing_dict_table *dicts;
    struct fg_arena *arena; /* for everything */
    /* NULL: all. The others are undefined in the batch; a receiver that knows them needs no more,
     * and to find their content is most of the work. */
    ing_export_choose choose;
};

/* The stacks of a batch as the dictionary has them. */
struct ing_export_stacks {
    const struct fg_tree *tree;
    const uint32_t *nodes; /* by the batch's numbers: node + 1; 0 is the empty stack */
};

/* Takes a batch, whose profiles are in the order of the array. All is valid until the function
 * returns. */
typedef enum fg_code (*ing_export_take)(void *arg, struct fg_batch *batch,
                                        const struct ing_export_profile *profiles,
                                        const struct ing_export_stacks *stacks, struct fg_err *err);

/* Makes a batch of n profiles, at least one, and calls take(), both with `arg`. FG_E_CORRUPT: a
 * profile or the dictionary cannot be read; FG_E_UNAVAILABLE; FG_E_LIMIT: the arena is full; errors
 * of take(). */
enum fg_code ing_export_batch(const struct ing_export_from *from,
                              const struct ing_export_profile *profiles, size_t n,
                              ing_export_take take, void *arg, struct fg_err *err) fg_must_check;

#endif
