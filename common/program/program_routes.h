/*
 * The routes that every program has; program.h describes them.
 *
 * Thread: fg_program_routes_add() before the servers start; the handlers run on any loop.
 */
#ifndef FG_COMMON_PROGRAM_PROGRAM_ROUTES_H
#define FG_COMMON_PROGRAM_PROGRAM_ROUTES_H

#include "common/base/json_writer.h"
#include "common/net/http.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"

/* Everything is borrowed and outlives the servers. */
struct fg_program_routes {
    const char *program;              /* its name, for GET /api/settings */
    const struct fg_conf *conf;       /* that GET /config and /api/settings show */
    struct fg_conditions *conditions; /* that GET /ready lists */
    /* Returns true and appends the reason if GET /ready has to answer 503. Any thread. */
    bool (*unready)(void *arg, struct fg_buf *why);
    void *arg;
    /* Set by fg_program_routes_add(); GET /routes lists their routes. */
    struct fg_http_server *clients;
    const struct fg_http_server *operators;
    int64_t started_ms; /* when the process began, since 1970 */
    /* Answers GET /api/settings of a program that knows other members: with what ?member=NAME says,
     * or without a name with its own settings and the members. On a loop; must not block. NULL: the
     * program knows no others. Set before the servers start. */
    void (*answer_settings)(void *arg, struct fg_slice member, struct fg_http_request *req);
    void *answer_arg;
};

/* Adds /ready, /healthz, /buildinfo and gRPC's health check to both servers, /config and /routes to
 * that of the operators. */
void fg_program_routes_add(struct fg_program_routes *routes, struct fg_http_server *clients,
                           struct fg_http_server *operators);

/* Appends the settings in force as GET /api/settings has them, secrets masked, and further members
 * of the object: those that put_more() puts. NULL: none. Any thread. */
void fg_program_routes_write_settings(const struct fg_program_routes *routes,
                                      void (*put_more)(void *arg, struct fg_json_writer *json),
                                      void *arg, struct fg_buf *out);

/* Adds GET /api/settings, for the page, to the server for clients: of programs that serve the page.
 * After fg_program_routes_add(). */
void fg_program_routes_add_settings(struct fg_program_routes *routes);

#endif
