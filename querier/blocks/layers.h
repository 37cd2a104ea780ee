/*
 * Adds up the layers of a query (common/storage/rollup/crown_layer.h) as tasks of its task group.
 * Layers are numbered; two neighbours become one as soon as both are there, then two of these, and
 * so on:
 *
 *   0   1   2   3   4
 *    \ /     \ /    |
 *     *       *     |
 *      \     /      |
 *       `-*-'       |
 *          \       /
 *           `--*--'
 *
 * So which layers are added to which depends on their numbers alone, not on threads or on the order
 * in which they come.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_BLOCKS_LAYERS_H
#define FG_QUERIER_BLOCKS_LAYERS_H

#include "common/runtime/task_group.h"
#include "common/storage/rollup/crown_layer.h"

enum { QRY_LAYERS_LEVELS_MAX = 33 };

struct layers_place {
    struct fg_crown_layer *layer; /* NULL: nothing */
    bool is_set;
};

struct qry_layers {
    struct fg_task_group *group;
    struct layers_place *levels[QRY_LAYERS_LEVELS_MAX]; /* [0]: by number; each half of the last */
    uint32_t counts[QRY_LAYERS_LEVELS_MAX];
    unsigned n_levels;
    uint64_t bytes, max_bytes; /* of the layers that are here or being added */
};

/* Begins without layers. count: numbers are less. Needs qry_layers_done() once the group has no
 * tasks. */
void qry_layers_init(struct qry_layers *layers, struct fg_task_group *group, uint32_t count,
                     uint64_t max_bytes);
/* Frees what was not taken. */
void qry_layers_done(struct qry_layers *layers);

/* Puts the layer of a number that has none, and takes it over, after a failure too. FG_E_LIMIT: all
 * of them need more than max_bytes. */
enum fg_code qry_layers_put(struct qry_layers *layers, uint32_t number,
                            struct fg_crown_layer *layer, struct fg_err *err) fg_must_check;

/* Runs all tasks of the group. Sets *ret_sum to the sum of all layers, NULL if there are none; the
 * caller destroys it. Errors: those of the tasks, FG_E_LIMIT. */
enum fg_code qry_layers_finish(struct qry_layers *layers, struct fg_crown_layer **ret_sum,
                               struct fg_err *err) fg_must_check;

#endif
