/*
 * The compactor makes blocks of what ingesters commit: segments become blocks of an hour, these
 * blocks of a day; it drops what retention says, takes out what users delete, and removes objects
 * that nobody needs any more. It works on the bucket alone, and knows nothing that is not there.
 *
 *   GET  /compactor/status      the state, as JSON
 *   POST /compactor/delete      deletes profiles (deletion.h): selector, start, end. Needs the
 *                               header X-Flamegrid-Action
 *   GET  /compactor/deletions   pending deletions and the last completed ones, with counts
 *
 * Thread: one of its own, which waits for the bucket most of the time. Handlers run on the loops of
 * the server and hand over to the pool's QUERY lane.
 */
#ifndef FG_COMPACTOR_COMPACTOR_H
#define FG_COMPACTOR_COMPACTOR_H

#include "common/net/http.h"
#include "compactor/config.h"

struct compactor;

/* FG_E_UNAVAILABLE, FG_E_DENIED: the scratch folder cannot be made. */
enum fg_code cmp_create(const struct cmp_config *config, struct compactor **ret_compactor,
                        struct fg_err *err) fg_must_check;

/* Begins to work. */
enum fg_code cmp_start(struct compactor *compactor, struct fg_err *err) fg_must_check;

/* Breaks off what it is at. NULL is fine. */
void cmp_stop(struct compactor *compactor);

/* Stopped, or never started; the server and the pool have stopped before. NULL is fine. */
void cmp_destroy(struct compactor *compactor);

/* Adds its routes to a server of operators' (admin_listen) that has not started yet. */
void cmp_routes(struct compactor *compactor, struct fg_http_server *server);

#endif
