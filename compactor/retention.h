/*
 * Decides retention: how long profiles and rollups are kept, and what happens to a block when its
 * time is over. The planner (plan_core.h) makes jobs of these decisions; queries leave out older
 * profiles at once, by the same limits, so that dropping whole blocks is exact enough.
 *
 *     profiles          |<--------- retention_period ---------|
 *     rollups   |<------------ retention_period_rollups --------|
 *               keep_from                 profiles_from       now
 *
 *   older than keep_from                    dropped, with its rollups
 *   between the two, a whole week of it     replaced by its rollups in one swap
 *   the same, but unreadable                kept for RETENTION_LOST_NS so that somebody can repair
 *                                           it, then dropped as lost
 *   newer than profiles_from                kept
 *
 * Thread: any; pure functions.
 */
#ifndef FG_COMPACTOR_RETENTION_H
#define FG_COMPACTOR_RETENTION_H

#include "common/base/time.h"
#include "common/cluster/manifest/blocks.h"

/* Whole weeks are replaced, so a block waits up to a week for its turn; another week is for an
 * operator to repair it. */
#define RETENTION_LOST_NS (INT64_C(14) * 24 * FG_HOUR_NS)

/* A tenant's limits. 0: for ever. */
struct cmp_retention {
    int64_t profiles_ns; /* limits.retention_period */
    int64_t rollups_ns;  /* limits.retention_period_rollups; up to profiles_ns: not kept longer */
};

enum cmp_retention_fate {
    RETENTION_KEPT,    /* nothing to do, or cmp_retention_replaces() its span */
    RETENTION_EXPIRED, /* drop it */
    RETENTION_LOST,    /* drop it: rollups of it should stay, but cannot be made */
};

/* Returns the time before which profiles are not kept as such; INT64_MIN: all are. */
int64_t cmp_retention_profiles_from_ns(const struct cmp_retention *retention, int64_t wall_ns);

/* Returns the time before which nothing is kept, not even rollups; INT64_MIN: everything is. */
int64_t cmp_retention_keep_from_ns(const struct cmp_retention *retention, int64_t wall_ns);

/* Decides about one block. broken: jobs have failed with it alone for a day (PLAN_BROKEN). */
enum cmp_retention_fate cmp_retention_of(const struct cmp_retention *retention,
                                         const struct fg_blocks_entry *block, bool broken,
                                         int64_t wall_ns);

/* Returns true if blocks of a span that ends at end_ns are to be replaced by their rollups:
 * rollups are kept longer than profiles, and the whole span is older than profiles are kept. */
bool cmp_retention_replaces(const struct cmp_retention *retention, int64_t end_ns, int64_t wall_ns);

#endif
