/*
 * The plain GET routes /pyroscope/render, render-diff and label-values: flamebearer JSON for flame
 * graphs and their timeline (querier/API.md#plain-routes).
 */
#ifndef FG_QUERIER_RENDER_H
#define FG_QUERIER_RENDER_H

#include "querier/query.h"

extern const struct qry_endpoint qry_render_endpoints[];
extern const size_t qry_n_render_endpoints;

/* Reads the parameters of a request; they are borrowed from it. "maxNodes" wins over "max-nodes".
 * Thread: the loop. */
void qry_render_read_params(struct fg_http_request *req, struct qry_render_params *ret_params);

/* Returns whether the answer is bytes, which events of progress cannot have. */
bool qry_render_is_binary(const struct qry_render_params *params) fg_must_check;

#endif
