/*
 * Rules for the labels of a series that hold whatever interface it came by (ingest.md, 3): sessions
 * are cut down to as many as the tenant may have, and who names no service gets one. What the
 * tenant's own rules make of them, the builder does.
 */
#ifndef FG_DISTRIBUTOR_LABELS_H
#define FG_DISTRIBUTOR_LABELS_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/model/labels.h"
#include "common/model/tenant_limits.h"

#define LABEL_SESSION "__session_id__" /* of a process's life; 16 hex digits, little-endian */

/* New array and values in the arena. FG_E_TOO_LARGE at its end. */
enum fg_code dist_series_labels(const struct fg_labels *sent,
                                const struct fg_limit_settings *limits, struct fg_arena *arena,
                                struct fg_labels *ret_labels, struct fg_err *err) fg_must_check;

#endif
