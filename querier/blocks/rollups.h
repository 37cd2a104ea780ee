/*
 * Chooses which rollups take the place of profiles. The parts of a service are the sources of one
 * plan (common/storage/rollup/plan.h). Groups of series mostly say which rollups match; if they do
 * not, indexes are fetched first, up to a share of the memory of a query.
 *
 * Thread: the query's. Errors: those of blocks.h.
 */
#ifndef FG_QUERIER_BLOCKS_ROLLUPS_H
#define FG_QUERIER_BLOCKS_ROLLUPS_H

#include "querier/blocks/reader.h"

/*
 * Says of each part what is to be read of it (part->chosen and below), so that together it is every
 * profile of the query once: rollups, and the profiles they do not cover. Parts of which only
 * crowns are read move behind n_parts, up to n_found. what: the kind of rollup that the caller
 * needs. crowns_too: accepts crowns for parts whose profiles are gone and that have no full rollup.
 * FG_E_INVALID: some rollups whose profiles are gone cannot answer at all.
 */
enum fg_code qry_rollups_choose(struct qry_reader *reader, enum fg_rollup_form what,
                                bool crowns_too, struct fg_err *err) fg_must_check;

/* Finds the rollups of the parts that can be used, since nothing in them is deleted:
 * part->rollups. */
enum fg_code qry_rollups_find(struct qry_reader *reader, struct fg_err *err) fg_must_check;

#endif
