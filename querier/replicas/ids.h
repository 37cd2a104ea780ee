/*
 * Of which profiles a reading asks replicas for ids, besides sums: those that are so young that
 * they may be on their way to one of them, and all of groups whose sums were seen to differ.
 *
 * What differs in a second attempt came in between, so the third is likely to be the last; a fourth
 * takes all by ids, which do not differ from themselves.
 *
 * A pure value. Thread: any.
 */
#ifndef FG_QUERIER_REPLICAS_IDS_H
#define FG_QUERIER_REPLICAS_IDS_H

#include "querier/replicas/compare.h"

struct qry_ids_wanted {
    int64_t since_ns;      /* of profiles that are not older */
    Fg__Inner__Group **of; /* and of these groups */
    uint32_t n_of, cap_of;
    unsigned differed; /* attempts that did */
};

void qry_ids_wanted_init(struct qry_ids_wanted *wanted, int64_t wall_ns);

/* These groups differ, too. In the arena. FG_E_LIMIT. */
enum fg_code qry_ids_wanted_add(struct qry_ids_wanted *wanted,
                                const struct qry_compare_result *result, struct fg_arena *arena,
                                struct fg_err *err) fg_must_check;

#endif
