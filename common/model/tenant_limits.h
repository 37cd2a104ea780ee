/*
 * Limits of a tenant: the settings' section "limits" holds for all, and a file names what is other
 * for some of them (deploy/operations/tenants.md#limits-of-single-tenants):
 *
 *     overrides:
 *       team-a:
 *         max_label_names_per_series: 50
 *
 * The file is looked at every few seconds and read again when it has changed, so nothing has to be
 * restarted; a broken one is logged and counted, and what held goes on to hold.
 */
#ifndef FG_COMMON_MODEL_TENANT_LIMITS_H
#define FG_COMMON_MODEL_TENANT_LIMITS_H

#include "common/model/relabel.h"
#include "common/model/tenant_id.h"
#include "common/runtime/config.h"
#include "common/runtime/metrics.h"

/*
 * The settings. 0 is no limit where it is not forbidden. With tenancy the section's 0 becomes
 * FG_TENANT_RATE_MB and FG_TENANT_SERIES_MAX, and without it tenant_catalog_share is 1:
 * fg_tenants_create() does that to the limits it gives out.
 */
enum { FG_TENANT_RATE_MB = 32, FG_TENANT_SERIES_MAX = 100000 };
struct fg_limit_settings {
    double ingestion_rate_mb, ingestion_burst_size_mb; /* MiB of decompressed profiles */
    uint64_t max_label_names_per_series, max_label_name_length, max_label_value_length;
    uint64_t max_sessions_per_series;
    uint64_t max_profile_size_bytes; /* decompressed */
    uint64_t max_profile_stacktrace_samples, max_profile_stacktrace_sample_labels;
    uint64_t max_profile_stacktrace_depth, max_profile_symbol_value_length;
    uint64_t max_series_per_tenant;
    double tenant_catalog_share; /* see common/model/tenant_share.h */
    uint64_t spread; /* bits of the label hash in a shard (common/cluster/ring/shard.h) */
    double ingestion_body_limit_mb;
    int64_t reject_older_than_ns, reject_newer_than_ns;
    int64_t max_query_length_ns, max_query_lookback_ns;
    int64_t retention_period_ns, retention_period_nodes_ns;
    char *ingestion_relabeling_rules, *sample_type_relabeling_rules; /* YAML, see relabel.h */
    unsigned ingestion_relabeling_default_rules_position;            /* enum fg_relabel_defaults */
};
/* Returns how long anything of a profile is kept, the profile or merged nodes; 0: for ever. */
static inline int64_t fg_limits_longest_kept_ns(const struct fg_limit_settings *limits)
{
    if (limits->retention_period_ns == 0 || limits->retention_period_nodes_ns == 0)
        return 0;
    return FG_MAX(limits->retention_period_ns, limits->retention_period_nodes_ns);
}

extern const struct fg_conf_field fg_limit_fields[];
extern const size_t fg_limit_n_fields;

/* What holds for one tenant; immutable, and counted: it may change while somebody goes by it. */
struct fg_limits {
    struct fg_limit_settings values;
    struct fg_relabel *rules, *type_rules; /* what the values' rules say */
    _Atomic unsigned refs;
};

struct fg_tenants;

struct fg_tenants_config {
    bool enabled; /* else there is one tenant, and the header means nothing */
    const struct fg_limit_settings *defaults; /* borrowed */
    const char *file;                         /* borrowed; "" for none */
    int64_t reload_ns;                        /* between two looks at the file */
    uint32_t max;                             /* see fg_tenants_max() */
    struct fg_registry *registry;
};

/*
 * Reads the file, if there is one, and starts the thread that looks at it. FG_E_INVALID with file
 * and line.
 */
enum fg_code fg_tenants_create(const struct fg_tenants_config *config,
                               struct fg_tenants **ret_tenants, struct fg_err *err) fg_must_check;

/* NULL is fine. Limits that were given out stay good. */
void fg_tenants_destroy(struct fg_tenants *tenants);

/* Any thread. Returns whether there may be several: tenancy is enabled. */
bool fg_tenants_are_several(const struct fg_tenants *tenants);

/* Any thread. Returns of how many tenants at a time this process keeps what they need; 0: any
 * number. */
uint32_t fg_tenants_max(const struct fg_tenants *tenants);

/* Any thread. Whom a request with that header is for; errors of fg_tenant_ids_parse(). */
enum fg_code fg_tenants_identify(const struct fg_tenants *tenants, struct fg_slice header,
                                 struct fg_tenant_ids *ret_ids, struct fg_err *err) fg_must_check;

/* The same for what can be for one only; FG_E_INVALID "multiple org IDs present". */
enum fg_code fg_tenants_identify_one(const struct fg_tenants *tenants, struct fg_slice header,
                                     struct fg_slice *ret_id, struct fg_err *err) fg_must_check;

/* Any thread. Never NULL; fg_limits_unref() it. */
struct fg_limits *fg_tenants_limits(struct fg_tenants *tenants, struct fg_slice tenant);
struct fg_limits *fg_limits_ref(struct fg_limits *limits);

/* NULL is fine. */
void fg_limits_unref(struct fg_limits *limits);

/* Looks at the file now. What the thread does; for tests. */
void fg_tenants_look(struct fg_tenants *tenants);

#endif
