/*
 * What forwarding resends (ingester/forward/past.h), read by a querier of its own: it has no
 * ingesters, and a small cache, so that a resend takes nothing from the cache of queries.
 */
#ifndef FG_DEPLOY_SINGLE_PAST_H
#define FG_DEPLOY_SINGLE_PAST_H

#include "ingester/forward/past.h"
#include "ingester/ingester.h"
#include "querier/querier.h"

struct fg_access;
struct single_past;

/* Creates it. access: says which tenants are deleted, which it leaves out. settings: of the
 * querier. All borrowed. */
struct single_past *single_past_create(struct ingester *ingester, struct fg_bucket *bucket,
                                       struct fg_access *access,
                                       const struct qry_settings *settings);

/* Returns what it reads. Accepts NULL, which has nothing: NULL. */
const struct ing_past *single_past_reader(const struct single_past *past);

/* Destroys it, when nobody reads any more. Accepts NULL. */
void single_past_destroy(struct single_past *past);

#endif
