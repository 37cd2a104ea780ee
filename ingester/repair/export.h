/*
 * Exports stored profiles as batches (common/model/batch.h), one for each series and dictionary,
 * with the definitions of all their stacks.
 *
 * Thread: the query's, under a guard of the catalog.
 */
#ifndef FG_INGESTER_REPAIR_EXPORT_H
#define FG_INGESTER_REPAIR_EXPORT_H

#include "ingester/query.h"

/* A profile that was read; in the arena of the query. */
struct ing_export_profile {
    struct ing_head_profile_key key;
    struct ing_record record;
};

/* Reorders the profiles, which are all of one tenant, and appends batches to the payload of the
 * query; items are in its arena. FG_E_CORRUPT, FG_E_UNAVAILABLE; FG_E_LIMIT: more than a query may
 * take. */
enum fg_code ing_export_profiles(struct ing_query *query, struct ing_catalog_tenant *tenant,
                                 struct ing_export_profile *profiles, size_t n,
                                 Fg__Inner__PushItem ***ret_items, size_t *ret_n_items,
                                 struct fg_err *err) fg_must_check;

#endif
