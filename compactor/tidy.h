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

/* Segments leave. blocks: as upkeep_retirable(). */
enum fg_code tidy_retire(struct env *env, const struct upkeep_config *config,
                         const struct fg_l0 *l0, const struct fg_blocks *const *blocks,
                         struct fg_err *err) fg_must_check;

/* Replaced objects. */
enum fg_code tidy_segments(struct env *env, const struct upkeep_config *config,
                           const struct fg_l0 *l0, struct fg_err *err) fg_must_check;
enum fg_code tidy_blocks(struct env *env, const struct upkeep_config *config,
                         const struct fg_blocks *blocks, struct fg_err *err) fg_must_check;

/* Objects that no manifest knows, and uploads that were never completed. Lists all segments and
 * blocks, and reads all manifests: once in some hours. */
enum fg_code tidy_orphans(struct env *env, const struct upkeep_config *config,
                          struct fg_err *err) fg_must_check;

#endif
