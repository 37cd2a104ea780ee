#include "common/program/program.h"

#include "common/base/str.h"
#include "common/program/man.h"
#include "common/program/process_metrics.h"
#include "common/program/trim.h"
#include "common/program/version.h"
#include "common/runtime/foreground.h"
#include "common/runtime/log.h"
#include "common/runtime/stop.h"

#include <errno.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGE_MAX_BYTES = 1024 * 1024, /* help and settings */
    BACKGROUND_QUEUE_MAX = 16,    /* it has two jobs: /metrics and trim.h */
    ADMIN_CONNECTIONS_MAX = 256,  /* per loop */
    ADMIN_PORT_ABOVE = 1000,      /* the port of `listen` */
    PATH_MAX_BYTES = 4096,
    SHARED_SECTIONS = 8, /* of settings, before those of the program */
    SMALL_ARENAS = 1,    /* of malloc: each keeps what its threads have freed */
};

#define TLS_CHECK_NS (5 * FG_SECOND_NS) /* between two looks whether certificates have changed */

#define CONF(field) FG_CONF_AT(struct fg_program_settings, field)

/* clang-format off */
static const struct fg_conf_field program_fields[] = {
    {"listen", FG_CONF_STRING, CONF(listen), .def = "127.0.0.1:4040", .min = "1", .max = "300",
     .doc = "HTTP listen address, HOST:PORT. An empty host (:PORT) listens on all addresses; port 0 takes any free port."},
    {"admin_listen", FG_CONF_STRING, CONF(admin_listen), .def = "", .max = "300",
     .doc = "HTTP listen address for operators, HOST:PORT. It serves /metrics, /config, /ring and all routes that change the server. On a loopback address it serves cleartext; on any other address it serves TLS if `listen` does. Empty: 127.0.0.1 and the port of `listen` plus 1000, or any free port if that port is 0."},
    {"allowed_hosts", FG_CONF_STRING, CONF(allowed_hosts), .def = "", .max = "4000",
     .doc = "Host names that clients may send in the Host header, separated by commas; * allows any name. A listener on a loopback address always allows the names and addresses of this machine. It refuses all other names with 421, which protects it from web pages that use DNS rebinding. A listener on any other address allows every name if this setting is empty. /ready and /healthz accept every name."},
    {"allowed_origins", FG_CONF_STRING, CONF(allowed_origins), .def = "", .max = "4000",
     .doc = "Origins (https://app.example) of web pages that may send profiles from a browser, separated by commas; * allows any origin. A request from any other site that would change something is refused with 403. Clients that are not browsers are not affected."},
    {"loops", FG_CONF_UINT, CONF(loops), .def = "0", .max = "64",
     .doc = "Threads that serve connections. 0: one for every two processors."},
    {"workers", FG_CONF_UINT, CONF(workers), .def = "0", .max = "256",
     .doc = "Threads that decode uploads; as many others answer queries. With `multitenancy_enabled`, up to twice as many queries run if they are of so many tenants. 0: one of each kind per processor."},
    {"ingest_queue_max", FG_CONF_UINT, CONF(ingest_queue_max), .def = "1024", .min = "1", .max = "1000000",
     .doc = "Uploads that may wait for a decoding thread. Further uploads are refused with 429."},
    {"query_queue_max", FG_CONF_UINT, CONF(query_queue_max), .def = "1024", .min = "1", .max = "1000000",
     .doc = "Queries that may wait for a worker. Further queries are refused with 429. With `multitenancy_enabled`, the next query is one of the tenant whose queries have read the fewest bytes so far. A tenant may then have at most as many queries waiting as the queue has free slots, so one that is alone gets half of the queue. A tenant that is alone uses all workers. While other tenants ask, and for a second after that, it leaves one worker idle."},
    {"memory_max_bytes", FG_CONF_BYTES, CONF(memory_max_bytes), .def = "1GiB", .min = "64MiB",
     .doc = "Memory budget of the process. Queues, caches and dictionaries without a size of their own get a share of it."},
    {"body_memory_max_bytes", FG_CONF_BYTES, CONF(body_memory_max_bytes), .def = "0",
     .doc = "Memory for request bodies that are being received or processed. Further requests are refused with 429. Ad hoc profiles do not count: they have a sixteenth of `memory_max_bytes` of their own. 0: a sixteenth of `memory_max_bytes`."},
    {"answer_memory_max_bytes", FG_CONF_BYTES, CONF(answer_memory_max_bytes), .def = "0",
     .doc = "Memory for responses that clients have not read yet. When it is exhausted, responses of more than 4 KiB are replaced by 503 with Retry-After, and clients that have read nothing for a second are disconnected. A single response may exceed it. 0: an eighth of `memory_max_bytes`."},
    {"answer_min_per_s", FG_CONF_BYTES, CONF(answer_min_per_s), .def = "8KiB", .max = "1GiB",
     .doc = "Minimum rate at which a client must read a response, in bytes per second averaged over 30 seconds. Slower clients are disconnected. 0: any progress is enough."},
    {"connections_max", FG_CONF_UINT, CONF(connections_max), .def = "4096", .min = "1", .max = "1000000",
     .doc = "Connections per loop, on all loops together at most half of the open files that the process may have. At the limit, a new connection replaces the connection that has been idle longest; if no connection is idle, the new one gets 503."},
    {"connections_per_address_max", FG_CONF_UINT, CONF(connections_per_address_max), .def = "0", .max = "1000000",
     .doc = "Connections per loop from one address (for IPv6: from one /64). At the limit, the rule of `connections_max` applies to the connections of that address. Raise it if all clients connect through one proxy. 0: half of `connections_max`."},
    {"http2_streams_max", FG_CONF_UINT, CONF(http2_streams_max), .def = "128", .min = "1", .max = "10000",
     .doc = "Concurrent requests on one HTTP/2 connection."},
    {"http2_upgrade", FG_CONF_BOOL, CONF(h2c_upgrade), .def = "false",
     .doc = "Lets clients switch from HTTP/1.1 to HTTP/2 with \"Upgrade: h2c\". Clients that start with HTTP/2, or that negotiate it in the TLS handshake, do not need it."},
    {"tls_cert_file", FG_CONF_STRING, CONF(tls_cert_file), .def = "", .max = "4000",
     .doc = "Server certificate chain in PEM format, starting with the certificate of this server. With it and `tls_key_file`, the port accepts TLS only. Changed files are loaded within seconds."},
    {"tls_key_file", FG_CONF_STRING, CONF(tls_key_file), .def = "", .max = "4000",
     .doc = "Private key of `tls_cert_file` in PEM format, not encrypted."},
    {"tls_client_ca_file", FG_CONF_STRING, CONF(tls_client_ca_file), .def = "", .max = "4000",
     .doc = "CA certificates in PEM format that verify client certificates."},
    {"tls_client_auth", FG_CONF_ENUM, CONF(tls_client_auth), .def = "none", .choices = "none|optional|require",
     .doc = "Client certificate policy. none: do not request a certificate. optional: request a certificate and verify it if the client sends one. require: also refuse clients without a certificate with 403, except on /ready and /healthz."},
    {"log_level", FG_CONF_ENUM, CONF(log_level), .def = "info", .choices = "debug|info|warn|error",
     .doc = "Minimum level of log messages."},
    {"multitenancy_enabled", FG_CONF_BOOL, CONF(multitenancy_enabled), .def = "false",
     .doc = "Keeps the data of several tenants apart. With `access.mode` token the token says which tenants a caller may use, and the header X-Scope-OrgID chooses one of several. With none and header that header is mandatory, and the server does not verify it; put a gateway in front that does. Without this setting, all data belongs to the tenant anonymous."},
    {"tenants_file", FG_CONF_STRING, CONF(tenants_file), .def = "", .max = "4096",
     .doc = "YAML file with limits per tenant: overrides: {tenant: {limit: value}}. A changed file is reloaded."},
    {"tenants_reload", FG_CONF_NS, CONF(tenants_reload_ns), .def = "10s", .min = "100ms", .max = "1h",
     .doc = "Interval at which `tenants_file` is checked for changes."},
    {"tenants_max", FG_CONF_UINT, CONF(tenants_max), .def = "10000", .min = "1", .max = "10000000",
     .doc = "Active tenants per distributor, and tenants with series per ingester. Profiles of further tenants are refused with 429 until another tenant becomes idle. On a distributor, a tenant is idle when its whole ingestion_burst_size_mb is available again. On an ingester, a tenant is idle when all of its profiles are in segments."},
    {"disk_reserve_bytes", FG_CONF_BYTES, CONF(disk_reserve_bytes), .def = "0", .max = "1TiB",
     .doc = "Free space to keep on each disk that holds data. Below it, pushes are refused with 503; queries are still answered. Below twice this size, caches on that disk shrink. 0: a twentieth of the disk, at most 1GiB."},
    {"drain", FG_CONF_NS, CONF(drain_ns), .def = "30s", .min = "0", .max = "10m",
     .doc = "Time that a shutdown waits for requests in progress."},
};
/* clang-format on */

/* clang-format off */
#define PROGRAM_METRICS(M)                                                                                    \
    M(GAUGE, PROGRAM_BODIES, "flamegrid_body_memory_bytes", "Memory of request bodies that are being received or processed") \
    M(GAUGE, PROGRAM_UPLOADS, "flamegrid_upload_memory_bytes", "Memory of ad hoc profiles that are being received or processed, as they were sent") \
    M(GAUGE, PROGRAM_HEADS, "flamegrid_head_memory_bytes", "Memory of requests that are being received or processed, without bodies") \
    M(GAUGE, PROGRAM_ANSWERS, "flamegrid_answer_memory_bytes", "Memory of responses that clients have not read yet") \
    M(FRACTION, PROGRAM_LAG, "flamegrid_loop_lag_seconds", "Longest delay of a message to an event loop since the last scrape") \
    M(GAUGE, PROGRAM_INGEST_QUEUED, "flamegrid_worker_queue_jobs{lane=\"ingest\"}", "Jobs that wait for a worker") \
    M(GAUGE, PROGRAM_QUERY_QUEUED, "flamegrid_worker_queue_jobs{lane=\"query\"}", "Jobs that wait for a worker") \
    M(GAUGE, PROGRAM_BULK_QUEUED, "flamegrid_worker_queue_jobs{lane=\"bulk\"}", "Jobs that wait for a worker") \
    M(FRACTION, PROGRAM_INGEST_AGE, "flamegrid_worker_queue_age_seconds{lane=\"ingest\"}", "Age of the oldest waiting job") \
    M(FRACTION, PROGRAM_QUERY_AGE, "flamegrid_worker_queue_age_seconds{lane=\"query\"}", "Age of the oldest waiting job") \
    M(FRACTION, PROGRAM_BULK_AGE, "flamegrid_worker_queue_age_seconds{lane=\"bulk\"}", "Age of the oldest waiting job") \
    M(COUNTER, PROGRAM_INGEST_REFUSED, "flamegrid_worker_refused_jobs_total{lane=\"ingest\"}", "Jobs refused because the queue was full") \
    M(COUNTER, PROGRAM_QUERY_REFUSED, "flamegrid_worker_refused_jobs_total{lane=\"query\"}", "Jobs refused because the queue was full") \
    M(COUNTER, PROGRAM_BULK_REFUSED, "flamegrid_worker_refused_jobs_total{lane=\"bulk\"}", "Jobs refused because the queue was full") \
    M(FRACTION_TOTAL, PROGRAM_PAUSED, "flamegrid_worker_paused_seconds_total", "Time that workers for what servers forward let pushes of agents pass, of all these workers together")
/* clang-format on */
FG_METRICS_ENUM(program_metric, PROGRAM_METRICS)
FG_METRICS_TABLE(program_metrics, PROGRAM_METRICS)

/* ---- settings ---- */

/*
 * Settings that only some programs have: a cluster may share one file. These are whole sections,
 * except for the ring's, of which programs that only follow the ring have a part.
 */
static const char *const members_keys[] = {"data",         "scratch",       "name", "rpc_listen",
                                           "requests_max", "leave_timeout", NULL};
static const char *const members_ring_keys[] = {"name",     "zone",      "address",          "http",
                                                "replicas", "allow_new", "maintenance_wait", NULL};
static const struct fg_conf_other others[] = {
    {"", members_keys},
    {"ring", members_ring_keys},
    {"rpc", NULL},
    {"bucket", NULL},
    {"distributor", NULL},
    {"scrape", NULL},
    {"ingester", NULL},
    {"ingester.repair", NULL},
    {"ingester.segments", NULL},
    {"ingester.kubernetes", NULL},
    {"compactor", NULL},
    {"querier", NULL},
    {"querier.ingesters", NULL},
    {"querier.share", NULL},
    {"query_proxy", NULL},
    {"forward", NULL},
};

/* Puts a default in place of the one that the section's table has: in a copy of that table. */
static void set_default(struct fg_program *program, const struct fg_program_default *to)
{
    for (size_t i = 0; i < program->conf.n_sections; i++) {
        struct fg_conf_section *section = &program->conf.sections[i];

        for (size_t k = 0; strcmp(section->name, to->section) == 0 && k < section->n_fields; k++) {
            if (strcmp(section->fields[k].key, to->key) != 0)
                continue;
            if (program->own_fields[i] == NULL) {
                program->own_fields[i] = fg_calloc(section->n_fields, sizeof *section->fields);
                memcpy(program->own_fields[i], section->fields,
                       section->n_fields * sizeof *section->fields);
                section->fields = program->own_fields[i];
            }
            program->own_fields[i][k].def = to->def;
            return;
        }
    }
    fg_assert(false); /* no such setting */
}

static void make_conf(struct fg_program *program)
{
    const struct fg_program_def *def = program->def;

    program->conf.others = others;
    program->conf.n_others = FG_COUNT(others);
    program->conf.n_sections = SHARED_SECTIONS + def->n_sections;
    program->conf.sections = fg_calloc(program->conf.n_sections, sizeof *program->conf.sections);
    program->conf.sections[0] =
        (struct fg_conf_section){"", program_fields, FG_COUNT(program_fields), &program->settings};
    program->conf.sections[1] =
        (struct fg_conf_section){"limits", fg_limit_fields, fg_limit_n_fields, &program->limits};
    program->conf.sections[2] = (struct fg_conf_section){
        "access", fg_access_fields, fg_access_n_fields, &program->access_settings};
    program->conf.sections[3] = (struct fg_conf_section){
        "access.login", fg_access_login_fields, fg_access_login_n_fields, &program->login_settings};
    program->conf.sections[4] = (struct fg_conf_section){
        "audit", fg_audit_fields, fg_audit_n_fields, &program->audit_settings};
    program->conf.sections[5] = (struct fg_conf_section){
        "encryption", fg_encryption_fields, fg_encryption_n_fields, &program->encryption};
    program->conf.sections[6] =
        (struct fg_conf_section){"encryption.kms", fg_encryption_kms_fields,
                                 fg_encryption_kms_n_fields, &program->encryption.kms};
    program->conf.sections[7] =
        (struct fg_conf_section){"self_profiling", fg_self_profile_fields, fg_self_profile_n_fields,
                                 &program->self_profiling};
    if (def->n_sections > 0)
        memcpy(program->conf.sections + SHARED_SECTIONS, def->sections,
               def->n_sections * sizeof *def->sections);
    program->own_fields = fg_calloc(program->conf.n_sections, sizeof(struct fg_conf_field *));
    for (size_t i = 0; i < def->n_defaults; i++)
        set_default(program, &def->defaults[i]);
}

/* The tables of deploy/settings.md. */
static void print_docs(const struct fg_program *program)
{
    struct fg_buf text;

    fg_buf_init(&text, PAGE_MAX_BYTES);
    fg_conf_write_docs(&program->conf, &text);
    (void)fwrite(text.ptr, 1, text.len, stdout);
    fg_buf_done(&text);
}

/* The rows of deploy/operations/metrics.md. */
static int print_metrics(void)
{
    struct fg_buf text;

    fg_buf_init(&text, PAGE_MAX_BYTES);
    fg_metrics_write_docs(&text);
    (void)fwrite(text.ptr, 1, text.len, stdout);
    fg_buf_done(&text);
    return 0;
}

static void print_help(const struct fg_program *program)
{
    struct fg_buf text;

    fg_buf_init(&text, PAGE_MAX_BYTES);
    fg_buf_printf(&text, "%s: %s\n\nUsage: %s [--config FILE.yaml] [--KEY=VALUE ...]\n\n",
                  program->def->name, program->def->what, program->def->name);
    fg_conf_write_help(&program->conf, &text);
    (void)fwrite(text.ptr, 1, text.len, stdout);
    fg_buf_done(&text);
}

/* Takes --config out of the arguments; what remains are settings. NULL: there is none. */
static const char *take_config(char **argv, size_t *argc)
{
    const char *path = NULL;
    size_t kept = 0;

    for (size_t i = 0; i < *argc; i++) {
        struct fg_slice arg = fg_cstr(argv[i]);

        if (fg_slice_is(arg, "--config") && i + 1 < *argc)
            path = argv[++i];
        else if (fg_slice_starts(arg, "--config="))
            path = argv[i] + strlen("--config=");
        else
            argv[kept++] = argv[i];
    }
    *argc = kept;
    return path;
}

static bool has_flag(char *const *argv, size_t argc, const char *flag)
{
    for (size_t i = 0; i < argc; i++)
        if (fg_slice_is(fg_cstr(argv[i]), flag))
            return true;
    return false;
}

/* ---- start ---- */

static unsigned processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : (unsigned)n;
}

static enum fg_code start_loops(struct fg_program *program, struct fg_err *err)
{
    size_t want = program->settings.loops;

    if (want == 0)
        /* Loops only move bytes, TLS apart; half of the processors is plenty. */
        want = FG_MAX(1, processors() / 2);
    program->loops = fg_calloc(want, sizeof(struct fg_loop *));
    for (size_t i = 0; i < want; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "http-%zu", i);
        program->loops[i] = fg_loop_create(name);
        /* Before the start, which may fail: stop() destroys as many as are counted. */
        program->n_loops++;
        if (fg_loop_start(program->loops[i], err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static void on_scrape(void *arg)
{
    struct fg_program *program = arg;
    struct fg_metrics *metrics = program->metrics;
    struct fg_lane_state ingest, query, bulk;
    int64_t lag_ns = 0;

    for (size_t i = 0; i < program->n_loops; i++)
        lag_ns = FG_MAX(lag_ns, fg_loop_take_lag_ns(program->loops[i]));
    fg_work_state(program->work, FG_LANE_INGEST, &ingest);
    fg_work_state(program->work, FG_LANE_QUERY, &query);
    fg_work_state(program->work, FG_LANE_BULK, &bulk);
    fg_metric_set(metrics, PROGRAM_BODIES, (int64_t)fg_budget_used(&program->budget));
    fg_metric_set(metrics, PROGRAM_UPLOADS, (int64_t)fg_budget_used(&program->uploads));
    fg_metric_set(metrics, PROGRAM_HEADS, (int64_t)fg_budget_used(&program->heads));
    fg_metric_set(metrics, PROGRAM_ANSWERS, (int64_t)fg_budget_used(&program->answers));
    fg_metric_set_fraction(metrics, PROGRAM_LAG, lag_ns);
    fg_metric_set(metrics, PROGRAM_INGEST_QUEUED, ingest.queued);
    fg_metric_set(metrics, PROGRAM_QUERY_QUEUED, query.queued);
    fg_metric_set(metrics, PROGRAM_BULK_QUEUED, bulk.queued);
    fg_metric_set_fraction(metrics, PROGRAM_INGEST_AGE, ingest.oldest_age_ns);
    fg_metric_set_fraction(metrics, PROGRAM_QUERY_AGE, query.oldest_age_ns);
    fg_metric_set_fraction(metrics, PROGRAM_BULK_AGE, bulk.oldest_age_ns);
    fg_metric_set_total(metrics, PROGRAM_INGEST_REFUSED, ingest.refused);
    fg_metric_set_total(metrics, PROGRAM_QUERY_REFUSED, query.refused);
    fg_metric_set_total(metrics, PROGRAM_BULK_REFUSED, bulk.refused);
    fg_metric_set_fraction(metrics, PROGRAM_PAUSED, fg_foreground_waited_ns());
}

/* Any of its settings asks for TLS, so that none is passed over in silence. */
static enum fg_code start_tls(struct fg_program *program, struct fg_err *err)
{
    const struct fg_program_settings *settings = &program->settings;
    const struct fg_tls_config config = {
        .cert_file = settings->tls_cert_file,
        .key_file = settings->tls_key_file,
        .client_ca_file = settings->tls_client_ca_file,
        .client_auth = (enum fg_tls_client_auth)settings->tls_client_auth,
        .check_ns = TLS_CHECK_NS,
    };

    if (config.cert_file[0] == '\0' && config.key_file[0] == '\0' &&
        config.client_ca_file[0] == '\0' && config.client_auth == FG_TLS_CLIENT_NONE)
        return FG_OK;
    return fg_tls_context_create(&config, program->registry, &program->tls, err);
}

/* Connections have half of the process's descriptors at most: whoever opens many must not take
 * those of the store and the bucket. */
static unsigned connections_max(const struct fg_program *program)
{
    struct rlimit files;
    uint64_t setting = program->settings.connections_max, share;

    fg_assert(getrlimit(RLIMIT_NOFILE, &files) == 0);
    share = FG_MAX((uint64_t)files.rlim_cur / 2 / program->n_loops, UINT64_C(1));
    if (share >= setting)
        return (unsigned)setting;
    fg_log_warn("connections_max lowered: half of the open files that the process may have",
                fg_lu("open_files_max", files.rlim_cur), fg_lu("connections_max", share),
                fg_lu("setting", setting));
    return (unsigned)share;
}

static void make_servers(struct fg_program *program)
{
    const struct fg_program_settings *settings = &program->settings;
    struct fg_http_lent lent = {.heads = &program->heads,
                                .bodies = &program->budget,
                                .answers = &program->answers,
                                .work = program->work,
                                .registry = program->registry,
                                .guard = fg_access_guard(program->access)};
    struct fg_http_config http = FG_HTTP_CONFIG_DEFAULT;

    http.drain_ns = settings->drain_ns;
    http.connections_max = connections_max(program);
    http.connections_per_address_max = (unsigned)settings->connections_per_address_max;
    http.answer_min_per_s = settings->answer_min_per_s;
    http.streams_max = (unsigned)settings->http2_streams_max;
    http.tls = program->tls;
    http.allowed_hosts = settings->allowed_hosts;
    http.allowed_origins = settings->allowed_origins;
    http.h2c_upgrade = settings->h2c_upgrade;
    program->http = fg_http_server_create(&http, &lent);
    /* Small budgets of its own: operators are few, and a flood of clients must not keep them out.
     */
    fg_budget_init(&program->admin_heads, settings->memory_max_bytes / 64);
    fg_budget_init(&program->admin_answers, settings->memory_max_bytes / 32);
    lent.heads = &program->admin_heads;
    lent.answers = &program->admin_answers;
    /* Probes and the command line on the same machine reach operators' pages without
     * certificates. */
    http.cleartext_on_loopback = true;
    http.connections_max = FG_MIN(http.connections_max, ADMIN_CONNECTIONS_MAX);
    http.connections_per_address_max = 0;
    /* An address that only this machine can reach is the operator's. */
    lent.guard = settings->admin_listen[0] == '\0' || fg_access_is_local(settings->admin_listen)
                     ? NULL
                     : fg_access_operators_guard(program->access);
    program->admin = fg_http_server_create(&http, &lent);
}

struct fg_budget *fg_program_uploads(struct fg_program *program, uint64_t largest_bytes)
{
    program->uploads.limit_bytes = FG_MAX(program->uploads.limit_bytes, largest_bytes);
    return &program->uploads;
}

struct fg_http_server *fg_program_admins_server(const struct fg_program *program)
{
    return fg_access_mode(program->access) == FG_ACCESS_HEADER ? program->admin : NULL;
}

/* Why GET /ready answers 503. */
static bool is_unready(void *arg, struct fg_buf *why)
{
    struct fg_program *program = arg;

    if (!atomic_load(&program->ready)) {
        fg_buf_puts(why, "starting or stopping");
        return true;
    }
    if (fg_access_is_unready(program->access, why))
        return true;
    return program->def->unready != NULL && program->def->unready(program, why);
}

/* What `systemctl status` shows: the first line of GET /ready, and the conditions that hold. */
static void put_status(void *arg, struct fg_buf *out)
{
    struct fg_program *program = arg;

    if (!is_unready(program, out))
        fg_buf_puts(out, "ready");
    fg_buf_putc(out, '\n');
    fg_conditions_write(program->conditions, out);
}

/* The manager's socket is no part of our work: a program that cannot reach it goes on. */
static void notify_service_manager(struct fg_program *program, const char *lines)
{
    struct fg_err err;

    if (fg_notify_send(&program->notify, lines, &err) != FG_OK)
        fg_log_warn("the service manager was not told", fg_ls("lines", lines),
                    fg_ls("err", err.msg));
}

static enum fg_code check_addresses(const struct fg_program_settings *settings, struct fg_err *err)
{
    if (fg_http_check_listen("listen", settings->listen, err) != FG_OK)
        return err->code;
    return settings->admin_listen[0] == '\0'
               ? FG_OK
               : fg_http_check_listen("admin_listen", settings->admin_listen, err);
}

static enum fg_code start_base(struct fg_program *program, struct fg_err *err)
{
    const struct fg_program_settings *settings = &program->settings;
    unsigned workers = settings->workers > 0 ? (unsigned)settings->workers : processors();
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = workers,
                            .queue_max = (unsigned)settings->ingest_queue_max,
                            .guests = workers,
                            .whole = true},
        [FG_LANE_QUERY] = {.threads = workers,
                           .queue_max = (unsigned)settings->query_queue_max,
                           .guests = workers},
        [FG_LANE_BACKGROUND] = {.threads = 1, .queue_max = BACKGROUND_QUEUE_MAX},
        [FG_LANE_BULK] = {.threads = FG_MAX(workers / 2, 1),
                          .queue_max = (unsigned)settings->ingest_queue_max,
                          .whole = true},
    };

    program->registry = fg_registry_create();
    program->conditions = fg_conditions_create(program->registry);
    program->cluster_clock =
        fg_cluster_clock_create(fg_clock_real(), program->registry, program->conditions);
    program->clock = fg_cluster_clock(program->cluster_clock);
    fg_budget_init(&program->budget, settings->body_memory_max_bytes > 0
                                         ? settings->body_memory_max_bytes
                                         : settings->memory_max_bytes / 16);
    fg_budget_init(&program->uploads, settings->memory_max_bytes / 16);
    fg_budget_init(&program->heads, settings->memory_max_bytes / 16);
    fg_budget_init(&program->answers, settings->answer_memory_max_bytes > 0
                                          ? settings->answer_memory_max_bytes
                                          : settings->memory_max_bytes / 8);
    /* Certificates first: a wrong file is reported before anything else was started. */
    if (start_tls(program, err) != FG_OK || start_loops(program, err) != FG_OK ||
        fg_work_create("front", lanes, &program->work, err) != FG_OK)
        return err->code;
    program->metrics =
        fg_metrics_register(program->registry, program_metrics, FG_COUNT(program_metrics));
    fg_registry_on_scrape(program->registry, on_scrape, program);
    program->process_metrics =
        fg_process_metrics_create(program->registry, settings->memory_max_bytes);
    if (fg_tenants_create(&(struct fg_tenants_config){.enabled = settings->multitenancy_enabled,
                                                      .defaults = &program->limits,
                                                      .file = settings->tenants_file,
                                                      .reload_ns = settings->tenants_reload_ns,
                                                      .max = (uint32_t)settings->tenants_max,
                                                      .registry = program->registry},
                          &program->tenants, err) != FG_OK)
        return err->code;
    program->audit = fg_audit_create(&(struct fg_audit_config){.settings = &program->audit_settings,
                                                               .program = program->def->name,
                                                               .clock = program->clock,
                                                               .registry = program->registry,
                                                               .conditions = program->conditions});
    /* Before the mode of access is chosen, which depends on who reaches the address. */
    if (check_addresses(settings, err) != FG_OK)
        return err->code;
    if (fg_access_create(&(struct fg_access_config){.settings = &program->access_settings,
                                                    .login = &program->login_settings,
                                                    .listen = settings->listen,
                                                    .clock = program->clock,
                                                    .tenants = program->tenants,
                                                    .audit = program->audit,
                                                    .registry = program->registry,
                                                    .conditions = program->conditions,
                                                    .encryption = &program->encryption},
                         &program->access, err) != FG_OK)
        return err->code;
    make_servers(program);
    program->metrics_page = fg_metrics_page_create(program->registry, program->work);
    program->routes =
        (struct fg_program_routes){.program = program->def->name,
                                   .conf = &program->conf,
                                   .conditions = program->conditions,
                                   .started_ms = fg_wall_ns(program->clock) / FG_MS_NS,
                                   .unready = is_unready,
                                   .arg = program};
    fg_program_routes_add(&program->routes, program->http, program->admin);
    fg_metrics_page_route(program->metrics_page, program->admin);
    program->trim = fg_new(struct fg_trim);
    *program->trim =
        (struct fg_trim){.budgets = {&program->budget, &program->uploads, &program->answers},
                         .loop = program->loops[0],
                         .work = program->work,
                         .small = program->def->small};
    fg_trim_start(program->trim);
    return fg_watchdog_create(&(struct fg_watchdog_config){.notify = &program->notify,
                                                           .loops = program->loops,
                                                           .n_loops = program->n_loops,
                                                           .work = program->work,
                                                           .put_status = put_status,
                                                           .arg = program},
                              &program->watchdog, err);
}

/* Follows from the port of `listen`, so that several programs on one machine have different ones.
 */
static void default_admin_listen(const char *listen, char *out, size_t size)
{
    const char *colon = strrchr(listen, ':');
    uint64_t port = 0;

    if (colon != NULL && fg_parse_u64(fg_cstr(colon + 1), &port) && port > 0)
        port = port + ADMIN_PORT_ABOVE <= UINT16_MAX ? port + ADMIN_PORT_ABOVE
                                                     : port - ADMIN_PORT_ABOVE;
    (void)snprintf(out, size, "127.0.0.1:%u", (unsigned)port);
}

static enum fg_code listen_for_both(struct fg_program *program, struct fg_err *err)
{
    const struct fg_program_settings *settings = &program->settings;
    const char *admin_listen = settings->admin_listen;
    char made[32];

    default_admin_listen(settings->listen, made, sizeof made);
    if (admin_listen[0] == '\0')
        admin_listen = made;
    if (fg_http_server_start(program->http, settings->listen, program->loops, program->n_loops,
                             err) != FG_OK)
        return fg_wrap(err, "setting listen");
    if (fg_http_server_start(program->admin, admin_listen, program->loops, program->n_loops, err) !=
        FG_OK)
        return fg_wrap(err, "setting admin_listen");
    fg_log_info("listening", fg_ls("program", program->def->name),
                fg_ls("version", fg_program_version()), fg_ls("listen", settings->listen),
                fg_lu("port", fg_http_server_port(program->http)),
                fg_ls("admin_listen", admin_listen),
                fg_lu("admin_port", fg_http_server_port(program->admin)));
    return FG_OK;
}

enum fg_code fg_program_start_access(struct fg_program *program, struct fg_bucket *bucket,
                                     const char *data, struct fg_err *err)
{
    const char *folder = program->audit_settings.folder;
    char made[PATH_MAX_BYTES] = "";

    if (data != NULL)
        (void)snprintf(made, sizeof made, "%s/audit", data);
    if (fg_audit_open(program->audit, bucket, folder[0] != '\0' ? folder : made, err) != FG_OK ||
        fg_audit_start(program->audit, err) != FG_OK)
        return err->code;
    return fg_access_follow(program->access, bucket, err);
}

void fg_program_stop_access(struct fg_program *program)
{
    fg_access_unfollow(program->access);
    fg_audit_close(program->audit);
}

/* The host's name and the port tell programs apart that share a machine. */
static enum fg_code default_presence_name(const struct fg_program *program,
                                          char out[FG_MEMBER_NAME_MAX_BYTES + 1],
                                          struct fg_err *err)
{
    char *host = fg_calloc(1, 1);
    enum fg_code code = fg_conf_default_host(&host, "the name of this host", err);
    int len = code == FG_OK ? snprintf(out, FG_MEMBER_NAME_MAX_BYTES + 1, "%s_%u", host,
                                       fg_http_server_port(program->http))
                            : 0;

    free(host);
    if (len > FG_MEMBER_NAME_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "the name of this host is too long");
    return code;
}

static enum fg_code create_presence(struct fg_program *program, struct fg_bucket *bucket,
                                    const char *role, const char *name, struct fg_err *err)
{
    struct fg_presence_name full = {.started_ms = program->routes.started_ms};
    struct fg_buf content;
    enum fg_code code = FG_OK;

    (void)snprintf(full.role, sizeof full.role, "%s", role);
    (void)snprintf(full.version, sizeof full.version, "%s", fg_program_version());
    (void)snprintf(full.revision, sizeof full.revision, "%s", fg_program_revision());
    if (name == NULL)
        code = default_presence_name(program, full.name, err);
    else
        (void)snprintf(full.name, sizeof full.name, "%s", name);
    if (code != FG_OK)
        return code;
    fg_buf_init(&content, FG_PRESENCE_CONTENT_MAX_BYTES);
    fg_program_routes_write_settings(&program->routes, NULL, NULL, &content);
    code = fg_presence_create(bucket, program->clock, &full, fg_buf_slice(&content),
                              &program->presence, err);
    fg_buf_done(&content);
    return code == FG_OK ? fg_presence_start(program->presence, err) : code;
}

void fg_program_announce(struct fg_program *program, struct fg_bucket *bucket, const char *role,
                         const char *name)
{
    struct fg_err err;

    if (create_presence(program, bucket, role, name, &err) != FG_OK)
        fg_log_warn("presence not written, the status page does not show this process",
                    fg_ls("err", err.msg));
}

void fg_program_unannounce(struct fg_program *program)
{
    fg_presence_stop(program->presence);
    fg_presence_destroy(fg_take(program->presence));
}

struct fg_admin_api fg_program_admin_api(const struct fg_program *program, struct fg_bucket *bucket)
{
    return (struct fg_admin_api){.access = program->access,
                                 .audit = program->audit,
                                 .bucket = bucket,
                                 .tenants = program->tenants,
                                 .work = program->work,
                                 .clock = program->clock};
}

enum fg_code fg_program_disk(struct fg_program *program, const char *path, const char *role,
                             const struct fg_disk **ret_disk, struct fg_err *err)
{
    struct fg_disk **disk = &program->disks[program->n_disks];
    struct stat info;

    if (stat(path, &info) != 0)
        return fg_fail_errno(err, errno, "%s", path);
    for (unsigned i = 0; i < program->n_disks; i++)
        /* Folders on one disk share one watch, or their states could differ. */
        if (program->devices[i] == info.st_dev) {
            *ret_disk = program->disks[i];
            return FG_OK;
        }
    fg_assert(program->n_disks < FG_PROGRAM_DISKS_MAX);
    if (fg_disk_watch(
            &(struct fg_disk_config){.path = path,
                                     .role = role,
                                     .reserve_bytes = program->settings.disk_reserve_bytes,
                                     .registry = program->registry},
            disk, err) != FG_OK)
        return err->code;
    program->devices[program->n_disks++] = info.st_dev;
    *ret_disk = *disk;
    return FG_OK;
}

struct fg_bucket_host fg_program_bucket_host(const struct fg_program *program, const char *data)
{
    return (struct fg_bucket_host){.data = data,
                                   .disk_reserve_bytes = program->settings.disk_reserve_bytes,
                                   .registry = program->registry,
                                   .clock = program->cluster_clock,
                                   .conditions = program->conditions};
}

/* ---- self-profiling ---- */

/* The service that the program is in profiles: "flamegrid server" is flamegrid. */
static void self_profile_service(const char *program, char *out, size_t size)
{
    struct fg_slice name = fg_cstr(program);

    if (fg_slice_ends(name, " server"))
        name.len -= strlen(" server");
    (void)snprintf(out, size, "%.*s", FG_S(name));
    for (char *at = strchr(out, ' '); at != NULL; at = strchr(at, ' '))
        *at = '-';
}

/* A program that cannot be profiled works all the same. */
static void start_self_profile(struct fg_program *program)
{
    struct fg_self_profile_config config = {.settings = &program->self_profiling,
                                            .service = program->self_profile_service,
                                            .instance = program->self_profile_instance,
                                            .version = fg_program_version(),
                                            .sink = program->self_profile_sink,
                                            .registry = program->registry,
                                            .clock = program->clock};
    struct fg_err err;

    if (!program->self_profiling.enabled)
        return;
    if (program->self_profiling.url[0] != '\0') {
        program->self_profile_http =
            fg_push_http_create(&program->self_profiling, program->loops[0]);
        config.sink = fg_push_http_sink(program->self_profile_http);
    }
    if (config.sink.send == NULL)
        return;
    self_profile_service(program->def->name, program->self_profile_service,
                         sizeof program->self_profile_service);
    if (default_presence_name(program, program->self_profile_instance, &err) != FG_OK ||
        fg_self_profile_start(&config, &program->self_profile, &err) != FG_OK)
        fg_log_warn("this process is not profiled", fg_ls("err", err.msg));
}

static void stop_self_profile(struct fg_program *program)
{
    fg_self_profile_stop(fg_take(program->self_profile));
    fg_push_http_close(program->self_profile_http);
}

/* ---- start and stop ---- */

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    if (start_base(program, err) != FG_OK || program->def->start(program, err) != FG_OK)
        return err->code;
    if (listen_for_both(program, err) != FG_OK)
        return err->code;
    if (program->def->ready != NULL && program->def->ready(program, err) != FG_OK)
        return err->code;
    /* Only now: a load balancer sends nothing before this. The port is open earlier, so that
     * /healthz and /ready answer while the bucket is awaited. */
    start_self_profile(program);
    atomic_store(&program->ready, true);
    fg_log_info("ready", fg_ls("program", program->def->name));
    notify_service_manager(program, "READY=1");
    return FG_OK;
}

/* Everything still works, so that operators and peers see how far the service is. */
static void wind_down(struct fg_program *program)
{
    atomic_store(&program->ready, false);
    if (program->def->wind_down != NULL)
        program->def->wind_down(program);
}

/* Stops in the opposite order of the start, which may have failed halfway. */
static void stop(struct fg_program *program)
{
    atomic_store(&program->ready, false);
    stop_self_profile(program); /* its last push needs all that follows */
    if (program->http != NULL)
        /* Servers first: they drain, and requests under way still find all that they use. */
        fg_http_server_stop(program->http);
    if (program->admin != NULL)
        fg_http_server_stop(program->admin);
    fg_metrics_page_stop(program->metrics_page);
    if (program->trim != NULL)
        fg_trim_stop(program->trim);
    /* Then the service, and the workers after it: its last jobs run on them. */
    fg_watchdog_hush(program->watchdog);
    program->def->stop(program);
    fg_watchdog_destroy(program->watchdog);
    fg_work_destroy(program->work);
    fg_metrics_page_destroy(program->metrics_page);
    free(program->trim);
    fg_http_server_destroy(program->admin);
    fg_http_server_destroy(program->http);
    fg_tenants_destroy(program->tenants);
    for (size_t i = 0; i < program->n_loops; i++) {
        fg_loop_stop(program->loops[i]);
        fg_loop_destroy(program->loops[i]);
    }
    free(program->loops);
    fg_push_http_destroy(program->self_profile_http);
    for (unsigned i = 0; i < program->n_disks; i++)
        fg_disk_unwatch(program->disks[i]);
    fg_access_destroy(program->access); /* requests that outlive the servers refer to it */
    fg_audit_destroy(program->audit);
    fg_tls_context_destroy(program->tls);
    fg_cluster_clock_destroy(program->cluster_clock);
    fg_conditions_destroy(program->conditions);
    fg_process_metrics_destroy(program->process_metrics);
    fg_registry_destroy(program->registry);
}

static int run(struct fg_program *program)
{
    struct fg_err err;
    int signal;
    bool started;

    fg_log_set_level((enum fg_log_level)program->settings.log_level);
    if (fg_notify_init(&program->notify, &err) != FG_OK)
        fg_log_warn("the service manager is not told how the program is", fg_ls("err", err.msg));
    started = start(program, &err) == FG_OK;
    if (!started && program->stop_signal == 0) {
        fg_log_error("could not start", fg_ls("program", program->def->name),
                     fg_ls("err", err.msg));
        stop(program);
        return 1;
    }
    signal = program->stop_signal != 0 ? program->stop_signal : fg_stop_wait();
    fg_log_info("stopping", fg_li("signal", signal));
    notify_service_manager(program, "STOPPING=1");
    if (started)
        wind_down(program);
    stop(program);
    fg_log_info("stopped", fg_ls("program", program->def->name));
    return 0;
}

/*
 * glibc gives large blocks back to the system at each free and pays with page faults at each
 * malloc; bodies and decoders' blocks come and go thousands of times a second. A small program pays
 * them: few requests come to it, and what it keeps for the next one others on the machine lack.
 */
static void tune_malloc(bool small)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): there is one thread yet */
    if (small) {
        (void)mallopt(M_ARENA_MAX, SMALL_ARENAS);
        (void)mallopt(M_MMAP_THRESHOLD, 64 * 1024);
        (void)mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
        return;
    }
    (void)mallopt(M_MMAP_THRESHOLD, 4 * 1024 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

/* The usual 1024 are for programs that might use select(); connections and files need more. */
static void raise_file_limit(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

enum fg_code fg_program_configure(const struct fg_program_def *def, int argc, char **argv,
                                  struct fg_program *ret_program, struct fg_err *err)
{
    size_t n_flags = argc < 0 ? 0 : (size_t)argc;
    const char *path = take_config(argv, &n_flags);

    *ret_program = (struct fg_program){.def = def};
    make_conf(ret_program);
    return fg_conf_load(&ret_program->conf, path, environ, argv, n_flags, err);
}

void fg_program_forget(struct fg_program *program)
{
    fg_conf_done(&program->conf);
    for (size_t i = 0; i < program->conf.n_sections; i++)
        free(program->own_fields[i]);
    free(program->own_fields);
    free(program->conf.sections);
}

/* For completion in shells: the flags alone, a line each. */
static void print_words(const struct fg_program *program)
{
    struct fg_buf text;
    struct fg_slice rest;
    size_t end;

    fg_buf_init(&text, SIZE_MAX);
    fg_conf_write_help(&program->conf, &text);
    rest = fg_buf_slice(&text);
    while ((end = fg_slice_find(rest, '\n')) != SIZE_MAX) {
        struct fg_slice line = fg_trim(fg_slice_sub(rest, 0, end));

        if (fg_slice_starts(line, "--"))
            printf("%.*s\n", (int)FG_MIN(fg_slice_find(line, ' '), line.len),
                   (const char *)line.ptr);
        rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
    }
    puts("--config");
    fg_buf_done(&text);
}

static void print_man(const struct fg_program *program)
{
    struct fg_buf text;

    fg_buf_init(&text, PAGE_MAX_BYTES);
    fg_man_program(program->def->name, program->def->what, &program->conf, &text);
    (void)fwrite(text.ptr, 1, text.len, stdout);
    fg_buf_done(&text);
}

/* Prints a page about the settings, without reading any. */
static int print(const struct fg_program_def *def, void (*page)(const struct fg_program *program))
{
    struct fg_program program = {.def = def};

    make_conf(&program);
    page(&program);
    fg_program_forget(&program);
    return 0;
}

int fg_program_run(const struct fg_program_def *def, int argc, char **argv)
{
    size_t n_flags = argc < 0 ? 0 : (size_t)argc;
    struct fg_program program;
    struct fg_err err;
    int code = 2;

    /* While there is one thread: signal masks are inherited, and mallopt() is not safe later. */
    fg_stop_init();
    fg_ignore_sigpipe();
    tune_malloc(def->small);
    raise_file_limit();
    if (has_flag(argv, n_flags, "--help") || has_flag(argv, n_flags, "-h"))
        return print(def, print_help);
    if (has_flag(argv, n_flags, "--help=words"))
        return print(def, print_words);
    if (has_flag(argv, n_flags, "--help=man"))
        return print(def, print_man);
    if (has_flag(argv, n_flags, "--docs"))
        return print(def, print_docs);
    if (has_flag(argv, n_flags, "--metrics-docs"))
        return print_metrics();
    if (fg_program_configure(def, argc, argv, &program, &err) == FG_OK)
        code = run(&program);
    else
        (void)fprintf(stderr, "%s: %s\n", def->name, err.msg);
    fg_program_forget(&program);
    return code;
}
