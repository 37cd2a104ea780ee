/*
 * Changes that commands make in a bucket, on the record of the audit (common/access/audit/audit.h):
 * a record before the change and one after it, in a chain of their own, which ends at once.
 *
 * Thread: one that may wait.
 */
#ifndef FG_DEPLOY_CLI_ON_RECORD_H
#define FG_DEPLOY_CLI_ON_RECORD_H

#include "common/access/audit/audit.h"

/* Makes a change. It may add to the event what is known afterwards only. */
typedef enum fg_code (*cli_change)(void *arg, struct fg_audit_event *event, struct fg_err *err);

/* Records the event, changes, and records the event again with the result. program:
 * "flamegrid-access". Errors of the change; FG_E_UNAVAILABLE: the first record cannot be stored,
 * and nothing was changed. */
enum fg_code cli_on_record(struct fg_bucket *bucket, const char *program,
                           struct fg_audit_event event, cli_change change, void *arg,
                           struct fg_err *err) fg_must_check;

#endif
