/*
 * The agent: the single-node server without local storage. It takes profiles in all formats, pulls
 * targets, and forwards everything. Its head is the queue, and a profile leaves it once every
 * target has it. It makes no blocks and answers no queries. This is what sets it apart from the
 * server; server.h runs both.
 */
#ifndef FG_DEPLOY_SINGLE_AGENT_H
#define FG_DEPLOY_SINGLE_AGENT_H

#include "common/net/http.h"
#include "common/program/program.h"
#include "ingester/forward/targets.h"
#include "ingester/segments/segments.h"

/* When chunks leave the head. Nobody reads them, so they go as soon as nothing is to be sent. */
extern const struct ing_segments_settings single_agent_segments;

/* Smaller than those of a server: an agent runs on every node, next to what it is there for. */
extern const struct fg_program_default single_agent_defaults[];
extern const size_t single_agent_n_defaults;

/* Checks the targets. FG_E_INVALID: there is none, and the sentence says which lines to add; or one
 * is to get what an agent does not have. */
enum fg_code single_agent_check(const struct ing_forward_targets *targets,
                                struct fg_err *err) fg_must_check;

/* Adds a route for all paths that no other route has, which answers that an agent has none of it,
 * and where to ask. Before the server starts; targets outlive it. */
void single_agent_routes(struct ing_forward_targets *targets, struct fg_http_server *server);

#endif
