/*
 * Pull mode: the distributor fetches profiles from targets and handles them like uploads. Targets
 * come from settings, from files, and from the Kubernetes API; without any of these nothing runs.
 *
 *   GET /api/v1/targets   the state of all targets in the form of Prometheus' API;
 *                         ?state=active|dropped|any
 *   GET /targets          the same, on a server without the web page, which shows it otherwise
 *
 * Thread: a loop of its own; create, start, stop and destroy from the program's thread.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_SCRAPE_MANAGER_H
#define FG_DISTRIBUTOR_SCRAPE_SCRAPE_MANAGER_H

#include "distributor/distributor.h"

/* Settings, section "scrape". */
struct dist_scrape_settings {
    char *targets, *files, *profiles, *relabel; /* YAML */
    int64_t interval_ns, timeout_ns, connect_timeout_ns, files_poll_ns;
    uint64_t running_max, targets_max, body_max_bytes, delta_max_bytes;
    uint64_t share_index, share_count;
    char *tenant, *token_file, *ca_file, *cert_file, *key_file;
    bool insecure;
};
extern const struct fg_conf_field dist_scrape_fields[];
extern const size_t dist_scrape_n_fields;

/* Settings, section "scrape.kubernetes". */
struct dist_scrape_kubernetes_settings {
    bool pods;
    char *api, *credentials, *namespace, *node, *selector;
};
extern const struct fg_conf_field dist_scrape_kubernetes_fields[];
extern const size_t dist_scrape_n_kubernetes_fields;

struct dist_scrape_manager;

/* Everything is borrowed and outlives the manager. */
struct dist_scrape_manager_config {
    const struct dist_scrape_settings *settings;
    const struct dist_scrape_kubernetes_settings *kubernetes;
    uint64_t memory_max_bytes; /* of the process; settings that are 0 take a share of it */
    struct distributor *distributor;
    struct fg_budget *bodies; /* for received profiles */
    struct fg_work *work;     /* its INGEST lane */
    struct fg_registry *registry;
    struct fg_clock *clock;
};

/* Creates the manager and checks the settings. FG_E_INVALID: which setting, and why. */
enum fg_code dist_scrape_manager_create(const struct dist_scrape_manager_config *config,
                                        struct dist_scrape_manager **ret_manager,
                                        struct fg_err *err) fg_must_check;

/* Adds its routes to a server that has not started yet. has_page: a page of the server, or nothing,
 * is at /targets; otherwise the list is there, too. */
void dist_scrape_manager_routes(struct dist_scrape_manager *manager, struct fg_http_server *server,
                                bool has_page);

/* Starts discovery and scraping. Call it when profiles can be stored. */
enum fg_code dist_scrape_manager_start(struct dist_scrape_manager *manager,
                                       struct fg_err *err) fg_must_check;

/* Stops fetching and waits until fetched profiles are stored, while workers and the ingester's peer
 * still exist. Does nothing if it was not started; NULL is fine. */
void dist_scrape_manager_stop(struct dist_scrape_manager *manager);

/* Frees it, after stop and after the HTTP server was stopped. NULL is fine. */
void dist_scrape_manager_destroy(struct dist_scrape_manager *manager);

#endif
