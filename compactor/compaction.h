/*
 * The compactor's thread: passes over all tenants again and again, then collects garbage. It is
 * straight-line code that waits for the bucket. Every pass starts from the manifests alone, so the
 * process may be stopped or killed at any point.
 *
 * Several compactors may run, each for the tenants that it owns (common/cluster/membership). If two
 * of them work on one tenant, they do the same work and a swap lets one win. Work that is done once
 * for all tenants, retiring segments and sweeping for orphans, belongs to the owner of the key "".
 *
 * Thread: create, start, stop and destroy from the owner; the others as said.
 */
#ifndef FG_COMPACTOR_COMPACTION_H
#define FG_COMPACTOR_COMPACTION_H

#include "common/cluster/membership/membership.h"
#include "compactor/config.h"
#include "compactor/tenant.h"

struct cmp_compaction;

/* Creates it, and its scratch folder. membership: borrowed; NULL: there are no other compactors.
 * FG_E_UNAVAILABLE, FG_E_DENIED: the folder cannot be created. */
enum fg_code cmp_compaction_create(const struct cmp_config *config,
                                   struct fg_membership *membership,
                                   struct cmp_compaction **ret_compaction,
                                   struct fg_err *err) fg_must_check;
/* Starts the thread. FG_E_LIMIT: no more threads. */
enum fg_code cmp_compaction_start(struct cmp_compaction *compaction,
                                  struct fg_err *err) fg_must_check;
/* Stops the thread, and abandons the job that is under way. Does not wait for the bucket. */
void cmp_compaction_stop(struct cmp_compaction *compaction);
/* Returns what cmp_compaction_stop() fires, for the requests of others. */
struct fg_bucket_stop *cmp_compaction_bucket_stop(struct cmp_compaction *compaction);
/* Frees it. It was stopped, or never started. Accepts NULL. */
void cmp_compaction_destroy(struct cmp_compaction *compaction);

/* Makes one pass on the caller's thread, as the thread does. For tests. Errors of the bucket. */
enum fg_code cmp_compaction_pass(struct cmp_compaction *compaction,
                                 struct fg_err *err) fg_must_check;

/* Makes the thread look at this tenant at once; gives notice to its owner if that is another
 * compactor. Any thread. */
void cmp_compaction_wake(struct cmp_compaction *compaction, struct fg_slice tenant);

/* Writes the state as JSON. Any thread. */
void cmp_compaction_status(struct cmp_compaction *compaction, struct fg_buf *out);

#endif
