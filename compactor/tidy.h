/*
 * Upkeep of the bucket: what upkeep.h says is to be done, is done. Segments that are covered leave
 * the L0 manifest; objects that were replaced are deleted once nobody can be reading them; so are
 * objects that no manifest ever knew.
 *
 * Objects are deleted before the manifest forgets them: who is stopped in between deletes again.
 *
 * Thread: one that may wait.
 */
#ifndef FG_COMPACTOR_TIDY_H
#define FG_COMPACTOR_TIDY_H

#include "compactor/manifests.h"
#include "compactor/upkeep.h"

/* Segments leave. blocks: as cmp_upkeep_retirable(). */
enum fg_code cmp_tidy_retire(struct cmp_env *env, const struct cmp_upkeep_config *config,
                             const struct fg_l0 *l0, const struct fg_blocks *const *blocks,
                             struct fg_err *err) fg_must_check;

/* Replaced objects. */
enum fg_code cmp_tidy_segments(struct cmp_env *env, const struct cmp_upkeep_config *config,
                               const struct fg_l0 *l0, struct fg_err *err) fg_must_check;
enum fg_code cmp_tidy_blocks(struct cmp_env *env, const struct cmp_upkeep_config *config,
                             const struct fg_blocks *blocks, struct fg_err *err) fg_must_check;

/* Objects that no manifest knows, and uploads that were never completed. Lists all segments and
 * blocks, and reads all manifests: once in some hours. */
enum fg_code cmp_tidy_orphans(struct cmp_env *env, const struct cmp_upkeep_config *config,
                              struct fg_err *err) fg_must_check;

#endif
