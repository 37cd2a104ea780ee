/*
 * The objects that a query skips because it cannot read them: damaged and missing objects, objects
 * that need a newer program and, while the bucket is unavailable, objects that no cache has. The
 * first attempt calls qry_lost_add() and fails; qry_blocks_leave_out() decides whether to repeat
 * it, and the repetition asks the functions below what to skip.
 *
 * Skipping rollups costs nothing: the query reads what they were made of, and the response is
 * complete. Skipping profiles makes it incomplete: with partial=true the response names what it
 * lacks, else the query fails with 503. If the object's directory is readable, only a part (one
 * service) is skipped, else the whole object.
 *
 * Thread: the query's, unless a function says otherwise.
 */
#ifndef FG_QUERIER_BLOCKS_LOST_H
#define FG_QUERIER_BLOCKS_LOST_H

#include "querier/blocks/part.h"
#include "querier/query.h"

/* Creates the query's list if it has none. */
void qry_lost_open(struct qry_query *query);

/* Returns how many entries the list has; removes all later ones, after reads whose result is not
 * used. No thread reads for the query meanwhile. */
unsigned qry_lost_count(const struct qry_query *query);
void qry_lost_count_back(struct qry_query *query, unsigned count);

/* Returns true if the query skips something since that count that its response lacks. */
bool qry_lost_costs_since(const struct qry_query *query, unsigned count);

/* Adds something that this attempt could not read. part NULL: the whole object. rollups: only
 * rollups, those of the part or, if part is NULL, those before the directory. err: the reason,
 * which names the object. Any thread. */
void qry_lost_add(struct qry_query *query, const struct qry_object *object,
                  const struct qry_part *part, bool rollups, const struct fg_err *err);

/* Return true if the query skips the whole object, the rollups before its directory, or the rollups
 * of a part. */
bool qry_lost_object(const struct qry_query *query, const struct qry_object *object);
bool qry_lost_head(const struct qry_query *query, const struct qry_object *object);
bool qry_lost_rollups(const struct qry_query *query, const struct qry_part *part);

/* Return true if the query skips the object or the part, and note that the response lacks it. */
bool qry_lost_lacks_object(struct qry_query *query, const struct qry_object *object);
bool qry_lost_lacks_part(struct qry_query *query, const struct qry_object *object, uint32_t part);

#endif
