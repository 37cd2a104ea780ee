/*
 * Rules for the labels of a series that /ingest and Push have in common
 * (distributor/API.md#what-becomes-of-every-profile): sessions are reduced to as many as the tenant
 * may have, and a series without a service gets one. The builder applies the tenant's own rules.
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
