/*
 * Finds the segments and blocks that a query has to read, by the times and tenants that the
 * manifests list.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_BLOCKS_OBJECTS_H
#define FG_QUERIER_BLOCKS_OBJECTS_H

#include "querier/blocks/part.h"
#include "querier/query.h"

enum qry_objects_which {
    OBJECTS_PROFILES,        /* those with profiles */
    OBJECTS_AND_ROLLUP_ONLY, /* also rollups whose profiles are gone */
    OBJECTS_AND_ROLLUPS,     /* also derived blocks; their children are closed, and so are derived
                                blocks within others (a week within 28 days) */
    OBJECTS_ROLLUP_ONLY,     /* only rollups whose profiles are gone */
};

/* Finds the objects of the query's snapshot that have something of its tenants in the range (both
 * ends inclusive), except those that the query skips (lost.h). In the arena. FG_E_LIMIT. */
enum fg_code qry_objects_find(const struct qry_query *query, int64_t start_ns, int64_t end_ns,
                              enum qry_objects_which which, struct fg_arena *arena,
                              struct qry_objects *ret_objects, struct fg_err *err) fg_must_check;

/* Returns a block of a tenant of the query by its id; NULL: it is not among the objects. */
struct qry_object *qry_objects_block(const struct qry_objects *objects, uint32_t tenant,
                                     struct fg_id id);

/* Returns true if a derived block was made of the block, or of all that the other derived block was
 * made of. */
bool qry_objects_is_child(const struct qry_object *object, const struct qry_object *parent);

#endif
