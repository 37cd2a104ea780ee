/*
 * Deletes whole tenants: the shell of erasure_core.h.
 *
 * Thread: the compactor's own.
 */
#ifndef FG_COMPACTOR_ERASURE_H
#define FG_COMPACTOR_ERASURE_H

#include "common/access/audit/audit.h"
#include "compactor/completion.h"
#include "compactor/env.h"
#include "compactor/erasure_core.h"

/* All borrowed. The L0 manifest was read before the tenant's. */
struct cmp_erasure {
    struct cmp_env *env;
    const struct fg_l0 *l0;
    const struct fg_blocks *blocks;
    struct cmp_ingester_list *ingesters;
    struct fg_audit *audit; /* NULL: none */
    bool ended;             /* as this process knew last: then only what came since is looked at */
    struct cmp_erasure_memory *memory;
    struct fg_arena *arena;
};

/*
 * Takes the next step. It reads the registry of access in the bucket first, after the manifests: a
 * tenant that somebody has created again meanwhile keeps what came since. Reads nothing if the
 * erasure has ended and nothing came. *ret_more: another step
 * may be possible at once, with manifests that are read again. Errors of the bucket, of
 * cmp_edit_carry_out() and of the audit.
 */
enum fg_code cmp_erasure_advance(const struct cmp_erasure *erasure, bool *ret_more,
                                 struct fg_err *err) fg_must_check;

#endif
