#include "common/model/tenant_limits.h"

#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/time.h"
#include "common/runtime/file.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <pthread.h>
#include <stdatomic.h>

#define CONF(field) FG_CONF_AT(struct fg_limit_settings, field)

/* clang-format off */
const struct fg_conf_field fg_limit_fields[] = {
    {"ingestion_rate_mb", FG_CONF_FLOAT, CONF(ingestion_rate_mb), .def = "0", .min = "0", .max = "1000000",
     .doc = "Ingestion rate of a tenant at all distributors together, in MiB of decompressed profiles per second. Distributors divide it by what each of them is offered. 0: unlimited; in the section `limits` with `multitenancy_enabled`, 0 means 32."},
    {"ingestion_burst_size_mb", FG_CONF_FLOAT, CONF(ingestion_burst_size_mb), .def = "64", .min = "0.001", .max = "1000000",
     .doc = "Burst above `ingestion_rate_mb`, in MiB. If a rate applies, larger profiles are always refused."},
    {"forward_rate_mb", FG_CONF_FLOAT, CONF(forward_rate_mb), .def = "0", .min = "0", .max = "1000000",
     .doc = "Rate of what other servers forward to a tenant, at all distributors together, in MiB of decompressed messages per second; it does not count for `ingestion_rate_mb`. Distributors divide it equally. Beyond it a forwarding server gets 429, waits and loses nothing. 0: unlimited; in the section `limits` with `multitenancy_enabled`, 0 means 32."},
    {"ingestion_limit", FG_CONF_YAML, CONF(ingestion_limit), .def = "", .max = "1000",
     .doc = "Decompressed profiles of a tenant in a period, all distributors together: `{period_type: day, period_limit_mb: 10240}`. `period_type` is `hour` (default), `day`, `week` (from Monday) or `month`, of UTC; `period_limit_mb` is in MiB. Uploads beyond it are refused with 429 until the period ends. Empty, or 0 MiB: unlimited."},
    {"max_label_names_per_series", FG_CONF_UINT, CONF(max_label_names_per_series), .def = "30", .max = "1000",
     .doc = "Labels per series. Profiles of series with more labels are refused."},
    {"max_label_name_length", FG_CONF_UINT, CONF(max_label_name_length), .def = "1024", .max = "65536",
     .doc = "Length of a label name in bytes. Profiles with longer names are refused."},
    {"max_label_value_length", FG_CONF_UINT, CONF(max_label_value_length), .def = "2048", .max = "65536",
     .doc = "Length of a label value in bytes. Profiles with longer values are refused."},
    {"max_sessions_per_series", FG_CONF_UINT, CONF(max_sessions_per_series), .def = "0", .max = "1000000",
     .doc = "Distinct values of the label __session_id__, which SDKs set per process. Session IDs are reduced to this many values (modulo). 0: the label is dropped."},
    {"max_profile_size_bytes", FG_CONF_BYTES, CONF(max_profile_size_bytes), .def = "16MiB", .min = "1KiB", .max = "1GiB",
     .doc = "Size of a profile after decompression. Larger profiles are refused."},
    {"max_profile_stacktrace_samples", FG_CONF_UINT, CONF(max_profile_stacktrace_samples), .def = "1000000", .max = "100000000",
     .doc = "Samples per profile. Profiles with more samples are refused."},
    {"max_profile_stacktrace_sample_labels", FG_CONF_UINT, CONF(max_profile_stacktrace_sample_labels), .def = "100", .max = "10000",
     .doc = "Labels per sample. Profiles with more labels on a sample are refused."},
    {"max_profile_stacktrace_depth", FG_CONF_UINT, CONF(max_profile_stacktrace_depth), .def = "1000", .min = "1", .max = "100000",
     .doc = "Frames per stack trace. Deeper stack traces are truncated to this many frames from the root, and counted."},
    {"max_profile_symbol_value_length", FG_CONF_UINT, CONF(max_profile_symbol_value_length), .def = "65535", .min = "16", .max = "16777216",
     .doc = "Length of a function name or file name in bytes. Longer names keep only their last bytes, and are counted."},
    {"ingestion_body_limit_mb", FG_CONF_FLOAT, CONF(ingestion_body_limit_mb), .def = "0", .min = "0", .max = "1024",
     .doc = "Size of a request body as received, in MiB. Larger requests are refused with 413. 0: `distributor.body_max_bytes` applies."},
    {"max_series_per_tenant", FG_CONF_UINT, CONF(max_series_per_tenant), .def = "0", .max = "1000000000",
     .doc = "Series of a tenant per ingester. Profiles of further series are refused with 429. 0: unlimited; in the section `limits` with `multitenancy_enabled`, 0 means 100000."},
    {"tenant_catalog_share", FG_CONF_FLOAT, CONF(tenant_catalog_share), .def = "0.5", .min = "0.001", .max = "1",
     .doc = "Largest share of `ingester.catalog_max_bytes` that one tenant may use. A tenant may grow while it uses at most share / (1 - share) times the free space. Each further tenant thus gets this share of the space that the others leave, and small tenants find space before large ones. Above it, new series are refused with 429. Without `multitenancy_enabled`, the only tenant may use everything."},
    {"shard_factor", FG_CONF_UINT, CONF(shard_factor), .def = "0", .max = "12",
     .doc = "Shard factor: divides the series of each service among 2^shard_factor shards, and so among at most as many groups of ingesters. Raise it for services that write more than the ingesters of one shard can handle. Queries of a service are sent to all of its shards. A larger value takes effect after a quarter of an hour and is permanent: a later decrease has no effect. A single node without a ring ignores it."},
    {"reject_older_than", FG_CONF_NS, CONF(reject_older_than_ns), .def = "0", .min = "0", .max = "3650d",
     .doc = "Maximum age of a profile, by its start time. Older profiles are refused. 0: no limit."},
    {"reject_newer_than", FG_CONF_NS, CONF(reject_newer_than_ns), .def = "10m", .min = "0", .max = "3650d",
     .doc = "How far in the future a profile may start. Later profiles are refused. 0: no limit."},
    {"max_query_length", FG_CONF_NS, CONF(max_query_length_ns), .def = "0", .min = "0", .max = "36500d",
     .doc = "Maximum time range of a query. Queries of a longer range are refused. 0: unlimited."},
    {"max_query_lookback", FG_CONF_NS, CONF(max_query_lookback_ns), .def = "0", .min = "0", .max = "36500d",
     .doc = "How far back queries may reach. Earlier parts of the queried range are omitted. 0: unlimited."},
    {"max_query_bytes", FG_CONF_BYTES, CONF(max_query_bytes), .def = "0", .max = "1000TiB",
     .doc = "Bytes that one query may read from heads, segments and blocks, cached ones included. Queries that need more are refused with 429. 0: unlimited."},
    {"query_bytes_per_hour", FG_CONF_BYTES, CONF(query_bytes_per_hour), .def = "0", .max = "1000TiB",
     .doc = "Bytes that all queries of a tenant may read in an hour of UTC, on all queriers together, cached ones included. At the limit further queries are refused with 429 until the hour ends; those that run go on, and each is bounded by `max_query_bytes`. 0: unlimited."},
    {"max_concurrent_queries", FG_CONF_UINT, CONF(max_concurrent_queries), .def = "0", .max = "100000",
     .doc = "Queries of a tenant that run at the same time on one querier; further ones wait. Only with `multitenancy_enabled`. 0: as many as there are workers, less one while other tenants ask."},
    {"max_queued_queries", FG_CONF_UINT, CONF(max_queued_queries), .def = "0", .max = "1000000",
     .doc = "Queries of a tenant that wait on one querier. Further ones are refused with 429. Only with `multitenancy_enabled`. 0: as many as `query_queue_max` leaves."},
    {"max_recording_rules", FG_CONF_UINT, CONF(max_recording_rules), .def = "200", .max = "10000",
     .doc = "Recording rules of a tenant. Further ones are refused. 0: a tenant can have none."},
    {"max_recording_rule_series", FG_CONF_UINT, CONF(max_recording_rule_series), .def = "10000", .min = "1", .max = "1000000",
     .doc = "Series that the metrics of all recording rules of a tenant may have together. The excess is added up in one series per rule."},
    {"retention_period", FG_CONF_NS, CONF(retention_period_ns), .def = "0", .min = "0", .max = "36500d",
     .doc = "Retention of profiles, by their own time. Queries omit older profiles, and their blocks are deleted. 0 keeps them forever."},
    {"retention_period_rollups", FG_CONF_NS, CONF(retention_period_rollups_ns), .def = "1s", .min = "0", .max = "36500d",
     .doc = "Retention of rollups, which answer flame graphs of data older than `retention_period`. Must exceed `retention_period` to keep any; 0 keeps them forever."},
    {"adhoc_retention_period", FG_CONF_NS, CONF(adhoc_retention_period_ns), .def = "7d", .min = "0", .max = "36500d",
     .doc = "Retention of ad hoc profiles, the files that are uploaded to look at them, from their upload on. 0 keeps them forever."},
    {"adhoc_profiles_max", FG_CONF_UINT, CONF(adhoc_profiles_max), .def = "1000", .min = "1", .max = "10000",
     .doc = "Ad hoc profiles of a tenant. Further uploads are refused with 429. Uploads at the same moment may exceed it a little."},
    {"adhoc_bytes_max", FG_CONF_BYTES, CONF(adhoc_bytes_max), .def = "1GiB", .min = "0",
     .doc = "Total size of the ad hoc profiles of a tenant. Further uploads are refused with 429. 0: no limit."},
    {"ingestion_relabeling_rules", FG_CONF_YAML, CONF(ingestion_relabeling_rules), .def = "", .max = "1000000",
     .doc = "Rules that rewrite the labels of profiles or drop profiles, in the format of relabel_configs of Prometheus."},
    {"ingestion_relabeling_default_rules_position", FG_CONF_ENUM, CONF(ingestion_relabeling_default_rules_position), .def = "first",
     .choices = "first|last|disabled",
     .doc = "Position of the built-in rules relative to `ingestion_relabeling_rules`. The built-in rules give profiles of godeltaprof the names of the standard profiles. disabled: the built-in rules do not apply."},
    {"sample_type_relabeling_rules", FG_CONF_YAML, CONF(sample_type_relabeling_rules), .def = "", .max = "1000000",
     .doc = "Rules that keep or drop sample types by the labels of the series and by __type__ and __unit__."},
};
/* clang-format on */
const size_t fg_limit_n_fields = FG_COUNT(fg_limit_fields);

/* clang-format off */
#define TENANT_METRICS(M)                                                                                     \
    M(GAUGE, TENANT_OVERRIDES, "flamegrid_tenant_overrides", "Tenants with overrides of the limits") \
    M(COUNTER, TENANT_RELOADS, "flamegrid_tenant_limits_reloads_total{result=\"success\"}", "Reloads of tenants_file by result") \
    M(COUNTER, TENANT_RELOAD_FAILURES, "flamegrid_tenant_limits_reloads_total{result=\"failure\"}", "Reloads of tenants_file by result") \
    M(GAUGE, TENANT_RELOAD_FAILED, "flamegrid_reload_failed{file=\"tenants\"}", "1 while the last version of a changed file is invalid and the one before it is in use")
/* clang-format on */
FG_METRICS_ENUM(tenant_metric, TENANT_METRICS)
FG_METRICS_TABLE(tenant_metrics, TENANT_METRICS)

/* The limits of one tenant by name. */
struct override {
    char *tenant;
    struct fg_limits *limits;
};

struct limits_table {
    struct override *items;
    size_t n, cap;
    struct fg_map map;
};

/* What fg_tenants_override() was given. */
struct own_override {
    char *tenant, *yaml;
};

struct fg_tenants {
    struct fg_tenants_config config;
    struct fg_metrics *metrics;
    struct fg_file_version version; /* the ticker's, once it runs */

    struct fg_ticker *ticker; /* reads the file again; NULL: there is none */

    pthread_mutex_t loading;  /* held by who makes a new table, from its sources: */
    struct limits_table file; /* what the file says; read by the one who holds `loading` */
    struct own_override *overrides;
    size_t n_overrides;

    pthread_mutex_t lock; /* of all below */
    struct fg_limits *defaults;
    struct limits_table table;
};

/* ---- limits ---- */

struct fg_limits *fg_limits_ref(struct fg_limits *limits)
{
    (void)atomic_fetch_add(&limits->refs, 1);
    return limits;
}

/* The settings' section, whose values may be anywhere. */
static struct fg_conf_section section_of(const char *name, struct fg_limit_settings *values)
{
    return (struct fg_conf_section){name, fg_limit_fields, fg_limit_n_fields, values};
}

void fg_limits_unref(struct fg_limits *limits)
{
    struct fg_conf_section section;

    /* Pushes and queries hold references while a reload replaces the table. */
    if (limits == NULL || atomic_fetch_sub(&limits->refs, 1) != 1)
        return;
    fg_relabel_unref(limits->rules);
    fg_relabel_unref(limits->type_rules);
    section = section_of("limits", &limits->values);
    fg_conf_done(&(struct fg_conf){.sections = &section, .n_sections = 1});
    free(limits);
}

/* A copy of these values, to be changed before anybody sees it. */
static struct fg_limits *limits_create(const struct fg_limit_settings *values)
{
    struct fg_limits *limits = fg_new(struct fg_limits);
    struct fg_limit_settings copied = *values;
    struct fg_conf_section from = section_of("limits", &copied);

    limits->refs = 1;
    fg_conf_copy(&from, &limits->values);
    return limits;
}

static enum fg_code read_label_rules(struct fg_limits *limits, const struct fg_limits *defaults,
                                     struct fg_err *err)
{
    const struct fg_limit_settings *values = &limits->values, *shared = &defaults->values;

    if (limits != defaults &&
        strcmp(values->ingestion_relabeling_rules, shared->ingestion_relabeling_rules) == 0 &&
        values->ingestion_relabeling_default_rules_position ==
            shared->ingestion_relabeling_default_rules_position) {
        limits->rules = fg_relabel_ref(defaults->rules);
        return FG_OK;
    }
    return fg_relabel_parse(
        fg_cstr(values->ingestion_relabeling_rules), "ingestion_relabeling_rules",
        (enum fg_relabel_defaults)values->ingestion_relabeling_default_rules_position,
        &limits->rules, err);
}

static enum fg_code read_type_rules(struct fg_limits *limits, const struct fg_limits *defaults,
                                    struct fg_err *err)
{
    const char *rules = limits->values.sample_type_relabeling_rules;

    if (limits != defaults && strcmp(rules, defaults->values.sample_type_relabeling_rules) == 0) {
        limits->type_rules = fg_relabel_ref(defaults->type_rules);
        return FG_OK;
    }
    return fg_relabel_parse_types(fg_cstr(rules), "sample_type_relabeling_rules",
                                  &limits->type_rules, err);
}

/*
 * Most tenants with limits of their own have the rules of all. These are shared: twenty patterns
 * take 55 KB before they match anything, and 0.2 ms to read. The defaults' own are read first.
 */
static enum fg_code read_rules(struct fg_limits *limits, const struct fg_limits *defaults,
                               const char *name, struct fg_err *err)
{
    if (fg_quota_parse(fg_cstr(limits->values.ingestion_limit), "ingestion_limit", &limits->quota,
                       err) != FG_OK ||
        read_label_rules(limits, defaults, err) != FG_OK ||
        read_type_rules(limits, defaults, err) != FG_OK)
        return fg_wrap(err, "%s", name);
    return FG_OK;
}

/* ---- the table ---- */

static void table_done(struct limits_table *table)
{
    for (size_t i = 0; i < table->n; i++) {
        free(table->items[i].tenant);
        fg_limits_unref(table->items[i].limits);
    }
    free(table->items);
    fg_map_done(&table->map);
}

/* Under the lock, as a reload replaces the table. */
static struct fg_limits *table_find(const struct limits_table *table, struct fg_slice tenant)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&table->map, fg_hash64_table(tenant), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&table->map, &walk)) {
        fg_assert(i < table->n && table->items != NULL); /* the map has numbers of items */
        if (fg_slice_is(tenant, table->items[i].tenant))
            return table->items[i].limits;
    }
    return NULL;
}

struct limits_reading {
    struct limits_table *table;
    const struct fg_limit_settings *defaults;
};

/* prefix and name, NUL-terminated; the caller frees it. */
static char *join(const char *prefix, struct fg_slice name)
{
    size_t len = strlen(prefix);
    char *text = fg_malloc(len + name.len + 1);

    memcpy(text, prefix, len);
    memcpy(text + len, name.ptr, name.len);
    text[len + name.len] = '\0';
    return text;
}

/* Takes over the reference. */
static void add_limits(struct limits_table *table, struct fg_slice tenant, struct fg_limits *limits)
{
    if (table->n == table->cap) {
        table->cap = FG_MAX(16, table->cap * 2);
        table->items = fg_realloc(table->items, table->cap * sizeof *table->items);
    }
    fg_map_add(&table->map, fg_hash64_table(tenant), (uint32_t)table->n);
    table->items[table->n++] = (struct override){
        .tenant = join("", tenant),
        .limits = limits,
    };
}

static void add_tenant(struct fg_slice tenant, void *arg)
{
    const struct limits_reading *reading = arg;

    add_limits(reading->table, tenant, limits_create(reading->defaults));
}

/* Each tenant is a section of settings whose values begin as the defaults. */
static enum fg_code read_values(struct limits_table *table, const struct fg_limits *defaults,
                                struct fg_slice yaml, const char *name, struct fg_err *err)
{
    struct fg_conf conf = {.sections = fg_calloc(table->n, sizeof *conf.sections),
                           .n_sections = table->n};
    char **names = fg_calloc(table->n, sizeof(char *));
    enum fg_code code;

    for (size_t i = 0; i < table->n; i++) {
        names[i] = join("overrides.", fg_cstr(table->items[i].tenant));
        conf.sections[i] = section_of(names[i], &table->items[i].limits->values);
    }
    code = fg_conf_parse_yaml(&conf, yaml, name, err);
    for (size_t i = 0; i < table->n && code == FG_OK; i++)
        code = read_rules(table->items[i].limits, defaults, names[i], err);
    for (size_t i = 0; i < table->n; i++)
        free(names[i]);
    free(names);
    free(conf.sections);
    return code;
}

static enum fg_code read_table(const struct fg_tenants *tenants, struct limits_table *table,
                               struct fg_err *err)
{
    const struct limits_reading reading = {table, &tenants->defaults->values};
    const char *file = tenants->config.file;
    struct fg_buf yaml;
    enum fg_code code;

    fg_buf_init(&yaml, (size_t)2 * 1024 * 1024); /* the parser refuses half of that */
    code = fg_conf_read_file(file, &yaml, err);
    if (code == FG_OK)
        code = fg_conf_yaml_keys(fg_buf_slice(&yaml), file, "overrides", add_tenant,
                                 (void *)(uintptr_t)&reading, err);
    if (code == FG_OK && table->n > 0)
        code = read_values(table, tenants->defaults, fg_buf_slice(&yaml), file, err);
    fg_buf_done(&yaml);
    return code;
}

/* ---- reading it again ---- */

/* Applies the map of one tenant. */
static enum fg_code read_override(struct fg_limits *limits, const struct fg_limits *defaults,
                                  struct fg_slice yaml, const char *name, struct fg_err *err)
{
    struct fg_conf_section section = section_of("", &limits->values);
    struct fg_conf conf = {.sections = &section, .n_sections = 1};

    if (fg_conf_parse_yaml(&conf, yaml, name, err) != FG_OK)
        return err->code;
    return read_rules(limits, defaults, name, err);
}

enum fg_code fg_tenants_check_override(const struct fg_tenants *tenants, struct fg_slice yaml,
                                       struct fg_err *err)
{
    struct fg_limits *limits = limits_create(&tenants->defaults->values);
    enum fg_code code = read_override(limits, tenants->defaults, yaml, "limits", err);

    fg_limits_unref(limits);
    return code;
}

/* Returns a table of the limits of the file and of the overrides. */
static struct limits_table make_table(const struct fg_tenants *tenants)
{
    struct limits_table table = {0};

    for (size_t i = 0; i < tenants->n_overrides; i++) {
        const struct own_override *own = &tenants->overrides[i];
        struct fg_limits *below = table_find(&tenants->file, fg_cstr(own->tenant)), *limits;
        struct fg_err err;

        if (below == NULL)
            below = tenants->defaults;
        limits = limits_create(&below->values);
        if (read_override(limits, tenants->defaults, fg_cstr(own->yaml), own->tenant, &err) !=
            FG_OK) {
            fg_log_error("limits of a tenant in the registry of access are not used",
                         fg_ls("tenant", own->tenant), fg_ls("err", err.msg));
            fg_limits_unref(limits);
            limits = fg_limits_ref(below);
        }
        add_limits(&table, fg_cstr(own->tenant), limits);
    }
    for (size_t i = 0; i < tenants->file.n; i++) {
        struct fg_slice tenant = fg_cstr(tenants->file.items[i].tenant);

        if (table_find(&table, tenant) == NULL)
            add_limits(&table, tenant, fg_limits_ref(tenants->file.items[i].limits));
    }
    return table;
}

/* Under `loading`. */
static void use_sources(struct fg_tenants *tenants)
{
    struct limits_table table = make_table(tenants), old;

    (void)pthread_mutex_lock(&tenants->lock);
    /* Freed outside of the lock: pushes and queries wait for it. Those that hold limits of the
     * old table have references of their own. */
    old = tenants->table;
    tenants->table = table;
    (void)pthread_mutex_unlock(&tenants->lock);
    table_done(&old);
    fg_metric_set(tenants->metrics, TENANT_OVERRIDES, (int64_t)table.n);
}

static void free_overrides(struct fg_tenants *tenants)
{
    for (size_t i = 0; i < tenants->n_overrides; i++) {
        free(tenants->overrides[i].tenant);
        free(tenants->overrides[i].yaml);
    }
    free(tenants->overrides);
    tenants->overrides = NULL;
    tenants->n_overrides = 0;
}

void fg_tenants_override(struct fg_tenants *tenants, const struct fg_tenant_override *items,
                         size_t n)
{
    (void)pthread_mutex_lock(&tenants->loading);
    free_overrides(tenants);
    tenants->overrides = fg_calloc(FG_MAX(n, 1), sizeof *tenants->overrides);
    tenants->n_overrides = n;
    for (size_t i = 0; i < n; i++)
        tenants->overrides[i] =
            (struct own_override){join("", items[i].tenant), join("", items[i].yaml)};
    use_sources(tenants);
    (void)pthread_mutex_unlock(&tenants->loading);
}

static enum fg_code reload(struct fg_tenants *tenants, struct fg_err *err)
{
    struct limits_table table = {0}, old;

    /* Before reading: what is written meanwhile is seen at the next look. */
    tenants->version = fg_file_version(tenants->config.file);
    if (read_table(tenants, &table, err) != FG_OK) {
        table_done(&table);
        fg_metric_add(tenants->metrics, TENANT_RELOAD_FAILURES, 1);
        fg_metric_set(tenants->metrics, TENANT_RELOAD_FAILED, 1);
        return err->code;
    }
    (void)pthread_mutex_lock(&tenants->loading);
    old = tenants->file;
    tenants->file = table;
    use_sources(tenants);
    (void)pthread_mutex_unlock(&tenants->loading);
    table_done(&old);
    fg_metric_add(tenants->metrics, TENANT_RELOADS, 1);
    fg_metric_set(tenants->metrics, TENANT_RELOAD_FAILED, 0);
    return FG_OK;
}

void fg_tenants_look(struct fg_tenants *tenants)
{
    struct fg_file_version now = fg_file_version(tenants->config.file);
    struct fg_err err;

    /* Size, inode and time of change: one stat() every reload_ns, and no read while nothing has
     * changed. */
    if (fg_file_version_eq(&now, &tenants->version))
        return;
    if (reload(tenants, &err) != FG_OK)
        fg_log_error("tenants_file could not be reloaded, keeping the old limits",
                     fg_ls("err", err.msg));
    else
        fg_log_info("tenants_file reloaded", fg_ls("file", tenants->config.file));
}

static void tick(void *arg)
{
    fg_tenants_look(arg);
}

/* ---- all of it ---- */

/* Sets limits that the operator has left open: one tenant's carelessness must not be another's
 * outage. */
static void set_defaults(struct fg_limit_settings *values, bool enabled)
{
    if (!enabled) {
        /* The only tenant may have all of it. */
        values->tenant_catalog_share = 1;
        return;
    }
    if (values->ingestion_rate_mb <= 0)
        values->ingestion_rate_mb = FG_TENANT_RATE_MB;
    if (values->forward_rate_mb <= 0)
        values->forward_rate_mb = FG_TENANT_RATE_MB;
    if (values->max_series_per_tenant == 0)
        values->max_series_per_tenant = FG_TENANT_SERIES_MAX;
}

static enum fg_code start(struct fg_tenants *tenants, struct fg_err *err)
{
    const struct fg_ticker_config ticker = {
        .name = "tenants", .period_ns = tenants->config.reload_ns, .tick = tick, .arg = tenants};

    if (read_rules(tenants->defaults, tenants->defaults, "limits", err) != FG_OK)
        return err->code;
    if (tenants->config.file[0] == '\0')
        return FG_OK;
    if (reload(tenants, err) != FG_OK)
        return err->code;
    return fg_ticker_create(&ticker, &tenants->ticker, err);
}

enum fg_code fg_tenants_create(const struct fg_tenants_config *config,
                               struct fg_tenants **ret_tenants, struct fg_err *err)
{
    struct fg_tenants *tenants = fg_new(struct fg_tenants);

    tenants->config = *config;
    tenants->defaults = limits_create(config->defaults);
    set_defaults(&tenants->defaults->values, config->enabled);
    tenants->metrics =
        fg_metrics_register(config->registry, tenant_metrics, FG_COUNT(tenant_metrics));
    (void)pthread_mutex_init(&tenants->lock, NULL);
    (void)pthread_mutex_init(&tenants->loading, NULL);
    if (start(tenants, err) != FG_OK) {
        fg_tenants_destroy(tenants);
        return err->code;
    }
    *ret_tenants = tenants;
    return FG_OK;
}

void fg_tenants_destroy(struct fg_tenants *tenants)
{
    if (tenants == NULL)
        return;
    fg_ticker_destroy(tenants->ticker);
    table_done(&tenants->table);
    table_done(&tenants->file);
    free_overrides(tenants);
    fg_limits_unref(tenants->defaults);
    (void)pthread_mutex_destroy(&tenants->loading);
    (void)pthread_mutex_destroy(&tenants->lock);
    free(tenants);
}

bool fg_tenants_are_several(const struct fg_tenants *tenants)
{
    return tenants->config.enabled;
}

uint32_t fg_tenants_max(const struct fg_tenants *tenants)
{
    return tenants->config.max;
}

struct fg_limits *fg_tenants_defaults(struct fg_tenants *tenants)
{
    return fg_limits_ref(tenants->defaults);
}

struct fg_limits *fg_tenants_limits(struct fg_tenants *tenants, struct fg_slice tenant)
{
    struct fg_limits *limits;

    (void)pthread_mutex_lock(&tenants->lock);
    limits = table_find(&tenants->table, tenant);
    /* Under the lock: a reload may drop the table's reference right after. */
    limits = fg_limits_ref(limits == NULL ? tenants->defaults : limits);
    (void)pthread_mutex_unlock(&tenants->lock);
    return limits;
}
