/*
 * Limits of tenants. The section "limits" of the settings applies to all tenants, and a file
 * overrides it for some (deploy/operations/tenants.md#limits-of-single-tenants):
 *
 *     overrides:
 *       team-a:
 *         max_label_names_per_series: 50
 *
 * The file is checked every few seconds and loaded again if it has changed, without a restart. If
 * it is invalid, that is logged and counted, and the limits stay as they were.
 *
 * The registry of access (common/access) may have further limits of tenants, which override those
 * of the file.
 */
#ifndef FG_COMMON_MODEL_TENANT_LIMITS_H
#define FG_COMMON_MODEL_TENANT_LIMITS_H

#include "common/model/relabel.h"
#include "common/model/tenant_id.h"
#include "common/model/tenant_quota.h"
#include "common/runtime/config.h"
#include "common/runtime/metrics.h"

/*
 * The settings. 0 means no limit, unless it is out of range. If tenancy is enabled, rates and a
 * number of series of 0 in the section become FG_TENANT_RATE_MB and FG_TENANT_SERIES_MAX; if it is
 * not, tenant_catalog_share is 1. fg_tenants_create() applies that to the limits that it returns.
 */
enum { FG_TENANT_RATE_MB = 32, FG_TENANT_SERIES_MAX = 100000 };
struct fg_limit_settings {
    double ingestion_rate_mb, ingestion_burst_size_mb; /* MiB of decompressed profiles */
    double forward_rate_mb;                            /* MiB of batches that servers forward */
    char *ingestion_limit;                             /* YAML, see tenant_quota.h */
    uint64_t max_label_names_per_series, max_label_name_length, max_label_value_length;
    uint64_t max_sessions_per_series;
    uint64_t max_profile_size_bytes; /* decompressed */
    uint64_t max_profile_stacktrace_samples, max_profile_stacktrace_sample_labels;
    uint64_t max_profile_stacktrace_depth, max_profile_symbol_value_length;
    uint64_t max_series_per_tenant;
    double tenant_catalog_share; /* see common/model/tenant_share.h */
    uint64_t shard_factor; /* bits of the label hash in a shard (common/cluster/ring/shard.h) */
    double ingestion_body_limit_mb;
    int64_t reject_older_than_ns, reject_newer_than_ns;
    int64_t max_query_length_ns, max_query_lookback_ns;
    uint64_t max_query_bytes, query_bytes_per_hour, max_concurrent_queries, max_queued_queries;
    uint64_t max_recording_rules, max_recording_rule_series;
    int64_t retention_period_ns, retention_period_rollups_ns;
    int64_t adhoc_retention_period_ns;
    uint64_t adhoc_profiles_max, adhoc_bytes_max;
    char *ingestion_relabeling_rules, *sample_type_relabeling_rules; /* YAML, see relabel.h */
    unsigned ingestion_relabeling_default_rules_position;            /* enum fg_relabel_defaults */
};
/* Returns how long a profile or a rollup of it is kept; 0: forever. */
static inline int64_t fg_limits_longest_kept_ns(const struct fg_limit_settings *limits)
{
    if (limits->retention_period_ns == 0 || limits->retention_period_rollups_ns == 0)
        return 0;
    return FG_MAX(limits->retention_period_ns, limits->retention_period_rollups_ns);
}

extern const struct fg_conf_field fg_limit_fields[];
extern const size_t fg_limit_n_fields;

/* The limits of one tenant: immutable and reference counted, since they may be replaced while a
 * request uses them. */
struct fg_limits {
    struct fg_limit_settings values;
    struct fg_quota_limit quota;           /* the parsed ingestion_limit */
    struct fg_relabel *rules, *type_rules; /* the parsed rules of the values */
    _Atomic unsigned refs;
};

struct fg_tenants;

struct fg_tenants_config {
    bool enabled;                             /* false: there is one tenant */
    const struct fg_limit_settings *defaults; /* borrowed */
    const char *file;                         /* borrowed; "" for none */
    int64_t reload_ns;                        /* between two checks of the file */
    uint32_t max;                             /* see fg_tenants_max() */
    struct fg_registry *registry;
};

/*
 * Reads the file, if there is one, and starts a ticker that checks it. FG_E_INVALID has file and
 * line.
 */
enum fg_code fg_tenants_create(const struct fg_tenants_config *config,
                               struct fg_tenants **ret_tenants, struct fg_err *err) fg_must_check;

/* Frees it. Limits that are still referenced stay valid. Accepts NULL. */
void fg_tenants_destroy(struct fg_tenants *tenants);

/* Returns whether tenancy is enabled. Any thread. */
bool fg_tenants_are_several(const struct fg_tenants *tenants);

/* Returns for how many tenants at a time this process keeps state; 0: any number. Any thread. */
uint32_t fg_tenants_max(const struct fg_tenants *tenants);

/* Returns the limits of a tenant, never NULL. Release them with fg_limits_unref(). Any thread. */
struct fg_limits *fg_tenants_limits(struct fg_tenants *tenants, struct fg_slice tenant);
/* Returns the limits of tenants without their own; as fg_tenants_limits(). */
struct fg_limits *fg_tenants_defaults(struct fg_tenants *tenants);

/* Limits of a tenant from elsewhere than the file. */
struct fg_tenant_override {
    struct fg_slice tenant;
    struct fg_slice yaml; /* a map, "max_query_length: 7d\n" */
};

/* Sets them, in place of those that were set before; copied. An invalid item is logged and left
 * out, since a newer version may have written it. From one thread at a time. */
void fg_tenants_override(struct fg_tenants *tenants, const struct fg_tenant_override *items,
                         size_t n);

/* Checks such a map. FG_E_INVALID names the key and the fault. Any thread. */
enum fg_code fg_tenants_check_override(const struct fg_tenants *tenants, struct fg_slice yaml,
                                       struct fg_err *err) fg_must_check;

/* Adds a reference. */
struct fg_limits *fg_limits_ref(struct fg_limits *limits);

/* Removes a reference. Accepts NULL. */
void fg_limits_unref(struct fg_limits *limits);

/* Checks the file now, as the ticker does; for tests. */
void fg_tenants_look(struct fg_tenants *tenants);

#endif
