/*
 * From the head to the wire: stored profiles become batches (common/model/batch.h), one for each
 * series and dictionary they are of, with the definitions of all their stacks.
 *
 * Thread: a query's, inside the catalog.
 */
#ifndef FG_INGESTER_REPAIR_EXPORT_H
#define FG_INGESTER_REPAIR_EXPORT_H

#include "ingester/query.h"

/* One that was read; in the query's arena. */
struct ing_export_profile {
    struct ing_head_profile_key key;
    struct ing_record record;
};

/* Reorders the profiles, all of one tenant. Batches go to the end of the query's payload, items
 * into its arena. FG_E_CORRUPT, FG_E_UNAVAILABLE; FG_E_LIMIT: more than a query may take. */
enum fg_code ing_export_profiles(struct ing_query *query, struct ing_catalog_tenant *tenant,
                                 struct ing_export_profile *profiles, size_t n,
                                 Fg__Inner__PushItem ***ret_items, size_t *ret_n_items,
                                 struct fg_err *err) fg_must_check;

#endif
