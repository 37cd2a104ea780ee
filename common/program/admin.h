/*
 * The routes that every program has; program.h describes them.
 *
 * Thread: fg_admin_routes() before the servers start; the handlers run on any loop.
 */
#ifndef FG_COMMON_PROGRAM_ADMIN_H
#define FG_COMMON_PROGRAM_ADMIN_H

#include "common/net/http.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"

/* Everything is borrowed and outlives the servers. */
struct fg_admin {
    const struct fg_conf *conf;       /* that GET /config shows */
    struct fg_conditions *conditions; /* that GET /ready lists */
    /* Returns true and appends the reason if GET /ready has to answer 503. Any thread. */
    bool (*unready)(void *arg, struct fg_buf *why);
    void *arg;
    /* Set by fg_admin_routes(); GET /routes lists their routes. */
    const struct fg_http_server *clients, *operators;
};

/* Adds /ready, /healthz, /buildinfo and gRPC's health check to both servers, /config and /routes to
 * that of the operators. */
void fg_admin_routes(struct fg_admin *admin, struct fg_http_server *clients,
                     struct fg_http_server *operators);

#endif
