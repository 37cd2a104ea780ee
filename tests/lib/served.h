/*
 * What a service's routes need to be asked over HTTP: a server on a free port of 127.0.0.1, with
 * one loop, and a pool. Calls that must not fail are asserted.
 *
 *     served_open(&served, lanes);
 *     …create the service with served.work and served.registry, and its routes…
 *     served_start(&served);
 *     served_ask(&served, "GET /ring HTTP/1.1", NULL);
 *     served_stop(&served);     no request is under way any more
 *     …destroy the service…
 *     served_close(&served);
 */
#ifndef FG_TESTS_LIB_SERVED_H
#define FG_TESTS_LIB_SERVED_H

#include "common/net/http.h"
#include "tests/lib/http_ask.h"

struct served {
    struct fg_budget budget;
    struct fg_registry *registry;
    struct fg_work *work;
    struct fg_loop *loop;
    struct fg_http_server *server;
    struct fg_buf answer; /* the last: http_ask.h */
};

/* Not started yet: routes come first. */
void served_open(struct served *served, const struct fg_lane_config lanes[FG_LANES]);
/* guard: as of struct fg_http_lent. */
void served_open_guarded(struct served *served, const struct fg_lane_config lanes[FG_LANES],
                         const struct fg_http_guard *guard);
void served_start(struct served *served);
/* http_ask() into served->answer. */
unsigned served_ask(struct served *served, const char *request, const char *body);
/* Server, pool and loop are gone; the registry is there, and the answer. */
void served_stop(struct served *served);
void served_close(struct served *served);

#endif
