/*
 * The compactor's own thread: round after round over all tenants, then garbage collection.
 * Straight-line code that waits for the bucket; everything is found anew from the manifests, so it
 * may be stopped, or killed, anywhere.
 *
 * Several compactors may run, each for the tenants that are its own (common/cluster/membership):
 * two that work on one do the same work, and the swap lets one of them win. What is done once for
 * all, retiring segments and sweeping, is for the one that "" belongs to.
 *
 * Thread: create, start, stop and destroy from the owner; the rest as said.
 */
#ifndef FG_COMPACTOR_COMPACTION_H
#define FG_COMPACTOR_COMPACTION_H

#include "common/cluster/membership/membership.h"
#include "compactor/config.h"
#include "compactor/tenant.h"

struct cmp_compaction;

/* Creates the scratch folder. membership: borrowed; NULL: there are no other compactors.
 * FG_E_UNAVAILABLE, FG_E_DENIED. */
enum fg_code cmp_compaction_create(const struct cmp_config *config,
                                   struct fg_membership *membership,
                                   struct cmp_compaction **ret_compaction,
                                   struct fg_err *err) fg_must_check;
enum fg_code cmp_compaction_start(struct cmp_compaction *compaction,
                                  struct fg_err *err) fg_must_check;
void cmp_compaction_stop(struct cmp_compaction *compaction);    /* what was begun is broken off */
void cmp_compaction_destroy(struct cmp_compaction *compaction); /* NULL is fine */

/* One round, on the caller's thread; what the thread does. For tests. */
enum fg_code cmp_compaction_round(struct cmp_compaction *compaction,
                                  struct fg_err *err) fg_must_check;

/* There is something new to do for this tenant: looks at it now. Any thread. */
void cmp_compaction_wake(struct cmp_compaction *compaction, struct fg_slice tenant);

/* How it stands, as JSON. Any thread. */
void cmp_compaction_status(struct cmp_compaction *compaction, struct fg_buf *out);

#endif
