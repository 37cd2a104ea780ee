/*
 * Garbage collection in the bucket: what gc_core.h says is to be done, is done. Segments that are
 * covered leave the L0 manifest; objects that were replaced are deleted once nobody can be reading
 * them; so are objects that no manifest ever knew.
 *
 * Objects are deleted before the manifest forgets them: who is stopped in between deletes again.
 *
 * Thread: one that may wait.
 */
#ifndef FG_COMPACTOR_GC_H
#define FG_COMPACTOR_GC_H

#include "compactor/edit.h"
#include "compactor/gc_core.h"

/* Segments leave. blocks: as cmp_gc_retirable(). */
enum fg_code cmp_gc_retire(struct cmp_env *env, const struct cmp_gc_config *config,
                           const struct fg_l0 *l0, const struct fg_blocks *const *blocks,
                           struct fg_err *err) fg_must_check;

/* Replaced objects. */
enum fg_code cmp_gc_delete_segments(struct cmp_env *env, const struct cmp_gc_config *config,
                                    const struct fg_l0 *l0, struct fg_err *err) fg_must_check;
enum fg_code cmp_gc_delete_blocks(struct cmp_env *env, const struct cmp_gc_config *config,
                                  const struct fg_blocks *blocks, struct fg_err *err) fg_must_check;

/* Objects that no manifest knows, and uploads that were never completed. Lists all segments and
 * blocks, and reads all manifests: once in some hours. */
enum fg_code cmp_gc_sweep_orphans(struct cmp_env *env, const struct cmp_gc_config *config,
                                  struct fg_err *err) fg_must_check;

#endif
