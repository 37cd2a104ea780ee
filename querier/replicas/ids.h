/*
 * Of which profiles a replica read asks ids, in addition to sums: of those so young that they may
 * still be on their way to some replica, and of all in groups whose sums were seen to differ.
 *
 * Groups that differ in a second attempt have changed in between, so the third is likely to be the
 * last. A fourth asks everything by ids, which cannot differ from themselves.
 *
 * A pure value. Thread: one at a time.
 */
#ifndef FG_QUERIER_REPLICAS_IDS_H
#define FG_QUERIER_REPLICAS_IDS_H

#include "querier/replicas/replica_compare.h"

struct qry_ids_wanted {
    int64_t since_ns;      /* ids of profiles that are not older; INT64_MIN: of all */
    Fg__Inner__Group **of; /* and of these groups */
    uint32_t n_of, cap_of;
    unsigned differed; /* attempts that found differences */
};

/* Asks ids of the profiles of the last two minutes before wall_ns. */
void qry_ids_wanted_init(struct qry_ids_wanted *wanted, int64_t wall_ns);

/* Adds the groups that differ, in the arena. FG_E_LIMIT. */
enum fg_code qry_ids_wanted_add(struct qry_ids_wanted *wanted,
                                const struct qry_replica_compare_result *result,
                                struct fg_arena *arena, struct fg_err *err) fg_must_check;

#endif
