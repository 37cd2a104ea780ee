/*
 * The compactor: merges segments into hourly blocks and those into daily blocks, with rollups;
 * drops what retention says (retention.h), removes what users delete (deletion.h), and deletes
 * objects that are not needed any more (gc.h). All its state is in the bucket.
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

/* Creates a compactor. FG_E_UNAVAILABLE, FG_E_DENIED: the scratch folder cannot be created.
 * FG_E_INVALID: its name is not valid. */
enum fg_code cmp_create(const struct cmp_config *config, struct compactor **ret_compactor,
                        struct fg_err *err) fg_must_check;

/* Joins the other compactors, if there may be any, and starts the thread. Errors of the bucket. */
enum fg_code cmp_start(struct compactor *compactor, struct fg_err *err) fg_must_check;

/* Stops the thread, abandons its job, ends requests of routes, and leaves the other compactors.
 * Accepts NULL. */
void cmp_stop(struct compactor *compactor);

/* Frees it. It was stopped or never started, and server and pool were stopped. Accepts NULL. */
void cmp_destroy(struct compactor *compactor);

/* Adds its routes to a server of operators' (admin_listen) that has not started yet. */
void cmp_routes(struct compactor *compactor, struct fg_http_server *server);

#endif
