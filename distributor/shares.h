/*
 * Makes the limits of tenants hold for all distributors together: the shell of
 * common/cluster/shares. Every two seconds a thread tells the ingesters at which distributors meet
 * what this one is offered and has acknowledged, hears what all have, and divides.
 *
 * Distributors meet at the owners of shard 0, up to three ingesters in different zones: whoever can
 * store profiles can meet, there is nothing more to configure or to fail, and an ingester that
 * joins, leaves or is away is made up for by the other two. A distributor that reaches none goes on
 * with an equal part of each rate, by the number of distributors that it heard last.
 *
 * No request waits for any of this.
 *
 * Thread: create, stop and destroy from the owner.
 */
#ifndef FG_DISTRIBUTOR_SHARES_H
#define FG_DISTRIBUTOR_SHARES_H

#include "common/model/tenant_quota.h"
#include "common/model/tenant_rate.h"
#include "common/runtime/metrics.h"
#include "distributor/delivery/owners.h"

struct dist_shares;

/* Everything is borrowed. */
struct dist_shares_config {
    struct dist_owners *owners;
    struct fg_rates *rates;
    struct fg_rates *forward_rates; /* divided equally, whatever each distributor is offered */
    struct fg_quotas *quotas;
    struct fg_registry *registry;
    struct fg_clock *clock;
};

/* Creates it and starts its thread. Never fails. */
struct dist_shares *dist_shares_create(const struct dist_shares_config *config);

/* Ends the thread, after at most a second: no call is in flight then. Accepts NULL. */
void dist_shares_stop(struct dist_shares *shares);

/* Frees it. Accepts NULL. */
void dist_shares_destroy(struct dist_shares *shares);

#endif
