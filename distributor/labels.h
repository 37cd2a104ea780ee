/*
 * Rules for the labels of a series that /ingest and Push share
 * (distributor/API.md#what-becomes-of-every-profile): session ids are mapped to as many values as
 * the tenant may have, and a series without a service name gets one. The builder applies the
 * tenant's relabeling rules.
 */
#ifndef FG_DISTRIBUTOR_LABELS_H
#define FG_DISTRIBUTOR_LABELS_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/model/labels.h"
#include "common/model/tenant_limits.h"

#define LABEL_SESSION "__session_id__" /* of a process's life; 16 hex digits, little-endian */

/* Applies the rules to `sent`. The array and new values live in the arena. FG_E_TOO_LARGE: the
 * arena is full. */
enum fg_code dist_series_labels(const struct fg_labels *sent,
                                const struct fg_limit_settings *limits, struct fg_arena *arena,
                                struct fg_labels *ret_labels, struct fg_err *err) fg_must_check;

#endif
