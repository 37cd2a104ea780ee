/*
 * Lists the profiles that a response leaves out: those that users deleted, which the tenants'
 * manifests list until no block has them any more, and those older than a tenant's retention, which
 * the compactor drops block by block. Both are deletions (common/model/deletion.h), so readers of
 * profiles know one mechanism.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_DELETIONS_H
#define FG_QUERIER_DELETIONS_H

#include "querier/query.h"

/* Finds the deletions of each tenant in the query's snapshot, replacing those it had.
 * FG_E_CORRUPT, FG_E_LIMIT. */
enum fg_code qry_deletions_take(struct qry_query *query, struct fg_err *err) fg_must_check;

/* Frees them, if there are any. */
void qry_deletions_drop(struct qry_query *query);

#endif
