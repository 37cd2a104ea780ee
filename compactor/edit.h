/*
 * Carries edits of manifests to their end: the shell of edit_core.h.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMPACTOR_EDIT_H
#define FG_COMPACTOR_EDIT_H

#include "compactor/edit_core.h"
#include "compactor/env.h"

/*
 * Carries out the change of a tenant's manifest, or of the L0 manifest if tenant is empty. Waits
 * between attempts (env->pause). FG_E_ABORTED: another compactor was faster; the change was not
 * made and will not be. FG_E_CANCELED: the compactor is stopping, or env->gone. FG_E_UNAVAILABLE:
 * all attempts have failed, or env->deadline_mono_ns is over. After any failure but FG_E_ABORTED
 * the change may have been made.
 */
enum fg_code cmp_edit_carry_out(struct cmp_env *env, struct fg_slice tenant,
                                const struct cmp_edit_task *task, struct fg_err *err) fg_must_check;

#endif
