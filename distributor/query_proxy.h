/*
 * Passes queries on to queriers, so that one URL, the distributor's, serves agents, Grafana and the
 * command line. Without querier URLs it adds no routes and starts no thread.
 *
 *     handler (loop of the request) --> proxy loop: querier 1, 2, ... --> answer (its loop)
 *
 * Queriers take turns. A request goes to the next one if a querier cannot be reached or answers
 * 503; a querier that failed so is asked last for ten seconds. Queries change nothing, so they may
 * be sent twice; an ad hoc profile may be stored twice if the first answer is lost, which does no
 * harm. If none answers, the client gets 503 with Retry-After. Everything else a querier
 * says is passed on as it is: status, body and headers, except those that belong to a connection.
 * Passed on to queriers are the headers that they read, X-Scope-OrgID among them.
 *
 * Of answers as server-sent events (querier/API.md#progress) those of progress are passed on as
 * they come, and left out while the client does not read; the last one is a response like any
 * other.
 *
 * gRPC is refused with 415, because the client of queriers speaks HTTP/1.1: Connect and gRPC-web
 * have the same methods.
 *
 * Memory: at most running_max responses of answer_max_bytes, and all together a share of the
 * process's memory; above it the client gets 503. Bodies of requests count in the server's budget,
 * those with ad hoc profiles in one of their own.
 *
 * Thread: a loop of its own; create, start, stop and destroy from the program's thread.
 */
#ifndef FG_DISTRIBUTOR_QUERY_PROXY_H
#define FG_DISTRIBUTOR_QUERY_PROXY_H

#include "common/net/http.h"
#include "common/runtime/config.h"

/* Settings, section "query_proxy". */
struct dist_query_proxy_settings {
    char *urls; /* separated by commas; "": no proxy */
    int64_t timeout_ns, connect_timeout_ns;
    uint64_t running_max, answer_max_bytes, upload_max_bytes;
    char *ca_file, *cert_file, *key_file; /* in PEM; "": none */
};
extern const struct fg_conf_field dist_query_proxy_fields[];
extern const size_t dist_query_proxy_n_fields;

struct dist_query_proxy;
struct fg_tenants;

/* Everything is borrowed and outlives the proxy. */
struct dist_query_proxy_config {
    const struct dist_query_proxy_settings *settings;
    uint64_t memory_max_bytes;        /* of the process: an eighth is for responses */
    struct fg_budget *uploads;        /* for bodies with ad hoc profiles; NULL: the server's */
    const struct fg_tenants *tenants; /* NULL: there is one */
    struct fg_registry *registry;
};

/* Reads the settings. FG_E_INVALID: an entry of urls is no http or https URL. */
enum fg_code dist_query_proxy_create(const struct dist_query_proxy_config *config,
                                     struct dist_query_proxy **ret_proxy,
                                     struct fg_err *err) fg_must_check;

/* Returns whether there are URLs, so that the server has the routes of queriers and the web page.
 */
bool dist_query_proxy_is_on(const struct dist_query_proxy *proxy);

/* Adds the routes of queriers to a server that has not started yet; none if there are no URLs. */
void dist_query_proxy_routes(struct dist_query_proxy *proxy, struct fg_http_server *server);

/* Starts the loop, before the server. */
enum fg_code dist_query_proxy_start(struct dist_query_proxy *proxy,
                                    struct fg_err *err) fg_must_check;

/* Answers what is under way with 503. After the server was stopped, and while its loops run. Does
 * nothing if it was not started; NULL is fine. */
void dist_query_proxy_stop(struct dist_query_proxy *proxy);

/* After stop. NULL is fine. */
void dist_query_proxy_destroy(struct dist_query_proxy *proxy);

#endif
