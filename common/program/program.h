/*
 * What all programs share: settings from file, environment and flags, a log, metrics, loops,
 * workers, two HTTP servers, and an orderly shutdown. A service creates its own parts in start()
 * and destroys them in stop(), so that its main fits on a screen.
 *
 * One server is for clients (`listen`): the routes of the service, and
 *
 *   GET /ready      200 "ready", or 503 until ready() has returned, while unready() gives a reason,
 *                   and during shutdown; then a line for each condition that holds
 *                   (common/runtime/condition.h)
 *   GET /healthz    200 while the process answers
 *   GET /buildinfo  version, revision and compiler as JSON; also at /api/v1/status/buildinfo
 *
 * The other one is for operators (`admin_listen`), by default on this machine only: these three,
 * the service's routes for operators, and
 *
 *   GET /metrics    Prometheus text
 *   GET /config     the running settings as YAML, secrets masked; also at /api/v1/status/config
 *
 * A service manager that sets NOTIFY_SOCKET is told when the program is ready and when it stops,
 * how it is, and that its loops and workers move (watchdog.h).
 *
 * Shutdown (SIGTERM, SIGINT): /ready answers 503, listeners close, received requests are answered,
 * stop() takes the service down, and the program exits with 0.
 */
#ifndef FG_COMMON_PROGRAM_PROGRAM_H
#define FG_COMMON_PROGRAM_PROGRAM_H

#include "common/access/access.h"
#include "common/access/admin/admin_api.h"
#include "common/access/audit/audit.h"
#include "common/access/keys/key_store.h"
#include "common/base/budget.h"
#include "common/base/time.h"
#include "common/model/tenant_limits.h"
#include "common/net/http.h"
#include "common/net/metrics_page.h"
#include "common/net/tls.h"
#include "common/program/presence.h"
#include "common/program/program_routes.h"
#include "common/program/watchdog.h"
#include "common/runtime/cluster_clock.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"
#include "common/runtime/disk.h"
#include "common/runtime/loop.h"
#include "common/runtime/work.h"
#include "common/self_profile/push_http.h"
#include "common/self_profile/self_profile.h"
#include "common/storage/bucket/settings.h"

#include <stdatomic.h>
#include <sys/types.h>

/* Top-level settings, which every program has. */
struct fg_program_settings {
    char *listen;       /* HOST:PORT of HTTP */
    char *admin_listen; /* of the operators' HTTP; "": follows from listen */
    char *allowed_hosts, *allowed_origins;
    bool h2c_upgrade;
    uint64_t loops, workers, ingest_queue_max, query_queue_max;
    uint64_t memory_max_bytes, body_memory_max_bytes, answer_memory_max_bytes, answer_min_per_s;
    unsigned log_level;
    int64_t drain_ns;
    bool multitenancy_enabled;
    char *tenants_file;
    int64_t tenants_reload_ns;
    uint64_t tenants_max;
    uint64_t connections_max, connections_per_address_max, http2_streams_max;
    uint64_t disk_reserve_bytes; /* 0: fg_disk_reserve_of() */
    char *tls_cert_file, *tls_key_file, *tls_client_ca_file;
    unsigned tls_client_auth; /* enum fg_tls_client_auth */
};

struct fg_program;

/* A default of a setting that is another one than in the table of its section. */
struct fg_program_default {
    const char *section, *key, *def;
};

/* Defines a program. sections: its settings in addition to the top-level ones; their values outlive
 * the program. */
struct fg_program_def {
    const char *name; /* "flamegrid-ingester" */
    const char *what; /* one line for --help */
    const struct fg_conf_section *sections;
    size_t n_sections;
    const struct fg_program_default *defaults; /* of settings that this program has */
    size_t n_defaults;
    /* Keeps memory low instead of fast: malloc has few arenas and gives free pages back at once. */
    bool small;
    /* Creates the service and adds its routes; must be quick, because nothing listens yet. */
    enum fg_code (*start)(struct fg_program *program, struct fg_err *err);
    /* Prepares the service for its work, which may take long: requests arrive meanwhile. NULL:
     * nothing to do. */
    enum fg_code (*ready)(struct fg_program *program, struct fg_err *err);
    /* Returns true and appends the reason if the service cannot do all of its work although ready()
     * has returned ("joins the ring"). Any thread. NULL: it always can. */
    bool (*unready)(struct fg_program *program, struct fg_buf *why);
    /* Prepares the stop of a service that has started, while all servers still run; it may take
     * minutes. NULL: nothing to do. */
    void (*wind_down)(struct fg_program *program);
    /* Destroys what start() and ready() created, also if they failed halfway. */
    void (*stop)(struct fg_program *program);
};

enum { FG_PROGRAM_DISKS_MAX = 4 };

struct fg_program {
    const struct fg_program_def *def;
    struct fg_program_settings settings;
    struct fg_limit_settings limits; /* of tenants without their own */
    struct fg_access_settings access_settings;
    struct fg_access_login_settings login_settings;
    struct fg_audit_settings audit_settings;
    struct fg_encryption_settings encryption;
    struct fg_self_profile_settings self_profiling;
    struct fg_conf conf;
    struct fg_conf_field *
        *own_fields; /* [n_sections]: tables with defaults of the def; NULL: none */
    struct fg_cluster_clock *cluster_clock; /* corrected by the bucket's time */
    struct fg_clock *clock;                 /* that of cluster_clock */
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* that GET /ready lists */
    struct fg_metrics *metrics;
    struct fg_process_metrics *process_metrics;
    struct fg_budget budget;  /* memory of request bodies, */
    struct fg_budget uploads; /* ... except those of fg_program_uploads() */
    struct fg_budget heads;   /* memory of requests without their bodies */
    struct fg_budget answers; /* memory of answers that clients have not read yet */
    struct fg_work *work;     /* lanes INGEST and QUERY run requests of clients; one BACKGROUND
                               * worker makes /metrics and the like, so these never queue */
    struct fg_loop **loops;
    size_t n_loops;
    struct fg_tls_context *tls;                  /* NULL: cleartext */
    struct fg_budget admin_heads, admin_answers; /* of the server for operators */
    struct fg_http_server *http;                 /* for clients: routes of the service */
    struct fg_http_server *admin;                /* for operators: what they ask of it */
    struct fg_metrics_page *metrics_page;
    struct fg_program_routes routes;
    struct fg_presence *presence; /* NULL: nobody is told */
    struct fg_trim *trim;
    struct fg_notify notify; /* the service manager that started the program */
    struct fg_watchdog *watchdog;
    /* Takes the program's own profiles. start() may set it; it stays in use until stop(). Without
     * it, and without self_profiling.url, the program is not profiled. */
    struct fg_self_profile_sink self_profile_sink;
    struct fg_push_http *self_profile_http; /* a sink, too; NULL: none */
    struct fg_self_profile *self_profile;   /* NULL: none */
    char self_profile_service[64], self_profile_instance[FG_MEMBER_NAME_MAX_BYTES + 1]; /* labels */
    struct fg_tenants *tenants;
    /* Decides who may do what, and records it: fg_program_start_access(). */
    struct fg_access *access;
    struct fg_audit *audit;
    struct fg_disk *disks[FG_PROGRAM_DISKS_MAX]; /* that are watched, each once */
    dev_t devices[FG_PROGRAM_DISKS_MAX];
    unsigned n_disks;
    _Atomic bool ready;
    int stop_signal; /* that came during ready(); 0: none */
    void *service;   /* the def's own */
};

/*
 * Runs the program until it is told to stop. argv: the arguments after the command's name: --config
 * FILE and settings as flags; --help; --help=man, which prints a man page; --docs, which prints the
 * settings as Markdown, and --metrics-docs, which prints the metrics. Returns the exit code: 0, 1
 * when it could not start, 2 for wrong arguments.
 */
int fg_program_run(const struct fg_program_def *def, int argc, char **argv);

/*
 * Returns the budget of bodies with files that people upload to look at them. They have one of
 * their own, so that they keep no profiles out that agents send: a sixteenth of memory_max_bytes,
 * and at least one file of largest_bytes. Before the server starts.
 */
struct fg_budget *fg_program_uploads(struct fg_program *program, uint64_t largest_bytes);

/*
 * Returns the server that also serves what needs an admin, besides that for clients: that for
 * operators, if access.mode is header, where no client is known to be an admin; otherwise NULL. On
 * a loopback address operators need no token, and whoever gets there must not be able to make one.
 * From start().
 */
struct fg_http_server *fg_program_admins_server(const struct fg_program *program);

/*
 * Loads only the settings into the sections' values, for commands that work on the program's data
 * without running it: argv as above. Free them with fg_program_forget(), also after a failure.
 */
enum fg_code fg_program_configure(const struct fg_program_def *def, int argc, char **argv,
                                  struct fg_program *ret_program, struct fg_err *err) fg_must_check;
void fg_program_forget(struct fg_program *program);

/*
 * Watches the disk of a folder, which exists, until the program ends, after stop(). Several folders
 * of one disk share a watch. role: the label of its metrics, if the disk is not watched yet. From
 * start() and ready().
 */
enum fg_code fg_program_disk(struct fg_program *program, const char *path, const char *role,
                             const struct fg_disk **ret_disk, struct fg_err *err) fg_must_check;

/*
 * Returns what fg_bucket_open() takes from a program: its metrics, conditions, clock and disk
 * reserve. They live until the program ends, after stop(). data: the folder of a bucket directory
 * without a path of its own, borrowed; NULL: there is none. From start() and ready().
 */
struct fg_bucket_host fg_program_bucket_host(const struct fg_program *program, const char *data);

/*
 * Lets access follow its registry in the bucket, and the audit store its records there. data: the
 * folder for what has to outlive the process, borrowed; NULL: there is none. From start(), and
 * ended in stop() before the bucket is closed.
 */
enum fg_code fg_program_start_access(struct fg_program *program, struct fg_bucket *bucket,
                                     const char *data, struct fg_err *err) fg_must_check;
/* Ends both. Does nothing if they were not started. */
void fg_program_stop_access(struct fg_program *program);

/*
 * Tells the status page of the cluster that this process is there, and its settings, by an object
 * in the bucket (presence.h). role: "distributor". name: unique in its role; NULL: made of the
 * host's name and the port of `listen`. A failure is logged: nothing depends on it. From ready();
 * fg_program_unannounce() ends it, in stop() before the bucket is closed, and does nothing if it
 * was not begun.
 */
void fg_program_announce(struct fg_program *program, struct fg_bucket *bucket, const char *role,
                         const char *name);
void fg_program_unannounce(struct fg_program *program);

/* Returns what the HTTP interface to tenants and tokens takes from a program. The service keeps it.
 */
struct fg_admin_api fg_program_admin_api(const struct fg_program *program,
                                         struct fg_bucket *bucket);

/* What a program waits for before it is ready: the bucket (condition bucket_away), what encrypts
 * the key of its head (keys_away), or the disk of its head (disk_away). */
enum fg_program_awaited { FG_PROGRAM_BUCKET, FG_PROGRAM_KEYS, FG_PROGRAM_DISK };

/*
 * Calls attempt(arg) until it succeeds. While it fails with FG_E_UNAVAILABLE or FG_E_DEADLINE the
 * program stays up and is not ready, the condition has the reason, and the pause between two calls
 * doubles up to ten seconds. Returns any other error at once. From ready() only. FG_E_CANCELED: the
 * program was told to stop.
 */
enum fg_code fg_program_await(struct fg_program *program, enum fg_program_awaited awaited,
                              enum fg_code (*attempt)(void *arg, int64_t deadline_mono_ns,
                                                      struct fg_err *err),
                              void *arg, struct fg_err *err) fg_must_check;

/* Runs the startup check of the bucket (fg_bucket_startup_check()), and waits for it as above. */
enum fg_code fg_program_check_bucket(struct fg_program *program, struct fg_bucket *bucket,
                                     struct fg_err *err) fg_must_check;

#endif
