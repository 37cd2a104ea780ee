/*
 * Manifests in the bucket: reading them, and carrying edits (edit.h) to their end.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMPACTOR_EDIT_H
#define FG_COMPACTOR_EDIT_H

#include "common/cluster/manifest/snapshot_core.h"
#include "compactor/edit_core.h"
#include "compactor/env.h"

/*
 * What there is now. *manifest: what was known before, or NULL; replaced only if it has changed.
 * What is not there is the empty manifest.
 */
enum fg_code cmp_manifests_l0(struct cmp_env *env, struct fg_manifest **manifest,
                              struct fg_err *err) fg_must_check;
enum fg_code cmp_manifests_blocks(struct cmp_env *env, struct fg_slice tenant,
                                  struct fg_manifest **manifest, struct fg_err *err) fg_must_check;

/*
 * Carries the change out. tenant: whose manifest, empty for the L0 manifest. FG_E_ABORTED: somebody
 * else was faster, it is not there and will not be. After other errors it may be.
 */
enum fg_code cmp_edit_carry_out(struct cmp_env *env, struct fg_slice tenant,
                                const struct cmp_edit_task *task, struct fg_err *err) fg_must_check;

#endif
