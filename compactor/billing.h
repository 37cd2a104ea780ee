/*
 * Writes what tenants used into documents (common/cluster/usage/document.h), out of the ledgers of
 * their manifests (common/cluster/manifest/ledger.h), which decide everything:
 *
 *   a freeze is due      adds what is known of its days only now, series and queries, and freezes
 *                        the ledger: one swap
 *   it is frozen         adds the frozen sums to the newest documents, writes the next versions,
 *                        and takes the sums out of the ledger: another swap
 *
 * Each step starts from the manifest alone. A compactor that is stopped in between, or a second one
 * that does the same, writes the same bytes under the same names.
 *
 * Requests for a tenant and day: two swaps of the manifest (six requests), and for each day with
 * something new (usually one) one list, one read if it has a document already, one write, and one
 * read for each of its blocks, usually one. The counts of queries are read once for all tenants.
 *
 * Thread: the compactor's own.
 */
#ifndef FG_COMPACTOR_BILLING_H
#define FG_COMPACTOR_BILLING_H

#include "compactor/edit.h"
#include "compactor/query_list.h"

enum { BILLING_BLOCKS_MAX = 64 }; /* of a day, whose series are counted */

/* A freeze counts the series of blocks that jobs make and has to have what they merge, so it comes
 * after them. If they fail, or do not come to an end, it comes so much later: what they merge then
 * is a correction. */
#define BILLING_PATIENCE_NS (6 * FG_HOUR_NS)

struct cmp_billing {
    struct cmp_env *env;
    const struct fg_blocks *blocks; /* as read now */
    bool settled; /* all jobs that were due are done; else a freeze waits (BILLING_PATIENCE_NS) */
    struct cmp_query_list *queries;
    struct fg_arena *arena;
};

/* Takes the next step. *ret_changed: it changed the manifest, and there may be another one. Errors
 * of the bucket, of cmp_edit_carry_out(), and FG_E_CORRUPT: the newest document of a day is
 * damaged. */
enum fg_code cmp_billing_advance(const struct cmp_billing *billing, bool *ret_changed,
                                 struct fg_err *err) fg_must_check;

#endif
