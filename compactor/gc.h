/*
 * Garbage collection in the bucket: the shell of gc_core.h. Covered segments leave the L0 manifest;
 * replaced objects are deleted when no query can be reading them any more; objects that no manifest
 * lists are deleted, too.
 *
 * Objects are deleted before a manifest forgets them, so a compactor that was stopped in between
 * deletes them again.
 *
 * Thread: one that may wait.
 */
#ifndef FG_COMPACTOR_GC_H
#define FG_COMPACTOR_GC_H

#include "common/access/audit/audit.h"
#include "common/model/tenant_limits.h"
#include "compactor/edit.h"
#include "compactor/erasure_core.h"

/* Removes covered segments from the L0 manifest. blocks: as of cmp_gc_retirable(). Errors of
 * cmp_edit_carry_out(). */
enum fg_code cmp_gc_retire(struct cmp_env *env, const struct cmp_gc_config *config,
                           const struct fg_l0 *l0, const struct fg_blocks *const *blocks,
                           struct fg_err *err) fg_must_check;

/* Delete retired segments, or replaced blocks, and their entries. Errors of the bucket and of
 * cmp_edit_carry_out(). */
enum fg_code cmp_gc_delete_segments(struct cmp_env *env, const struct cmp_gc_config *config,
                                    const struct fg_l0 *l0, struct fg_err *err) fg_must_check;
enum fg_code cmp_gc_delete_blocks(struct cmp_env *env, const struct cmp_gc_config *config,
                                  const struct fg_blocks *blocks, struct fg_err *err) fg_must_check;

/* Deletes objects that no manifest lists, uploads that were never completed, and ad hoc profiles
 * that have expired by the limits of their tenants. Lists all segments and blocks and reads all
 * manifests, so call it once in some hours. Errors of the bucket. */
enum fg_code cmp_gc_sweep_orphans(struct cmp_env *env, const struct cmp_gc_config *config,
                                  struct fg_tenants *tenants, struct fg_err *err) fg_must_check;

/* Deletes all objects of a tenant that was deleted, except its manifest: blocks, files, settings,
 * rules, documents of usage, and kept versions of its manifest. Deletes segments that no manifest
 * lists, however young: all that are garbage (cmp_gc_is_garbage()), and others that have nothing
 * but the tenant's. Those that have others' as well are in *ret_shared, as many as there is room
 * for. A segment that is damaged so that it does not tell its tenants stays until it is garbage.
 * *ret_count: how many objects were deleted. Errors of the bucket. */
enum fg_code cmp_gc_sweep_tenant(struct cmp_env *env, struct fg_slice tenant, uint64_t *ret_count,
                                 struct cmp_erasure_shared *ret_shared,
                                 struct fg_err *err) fg_must_check;

/* Deletes the objects of segments that no manifest lists and no commit can list any more. Errors of
 * the bucket. */
enum fg_code cmp_gc_delete_unlisted(struct cmp_env *env, const struct cmp_gc_unlisted *segments,
                                    uint32_t count, struct fg_err *err) fg_must_check;

/*
 * Deletes objects of the audit, of all processes, if audit.retention has passed since the end of
 * their hour, and since they were stored by the store's clock. A record says so before anything is
 * deleted: without it `flamegrid audit verify` would report the objects as missing. Errors of the
 * bucket and of fg_audit_record().
 */
enum fg_code cmp_gc_sweep_audit(struct cmp_env *env, struct fg_audit *audit,
                                struct fg_err *err) fg_must_check;

#endif
