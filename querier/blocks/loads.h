/*
 * How many requests to the bucket tenants have under way. The bucket takes them first in, first
 * out, bucket.requests_max at a time: a tenant whose queries fill that makes those of others wait
 * for several round trips in each of their waves.
 *
 * So a tenant has at most as many requests under way as are left of LOADS_MAX: one that is alone
 * gets half, the next one half of the rest. Whatever the others have: a query that has none under
 * way may send one. So each makes progress, one request at a time at least, and nobody has to be
 * woken when others' requests end. Without tenancy there is nobody to leave room for, and no limit.
 *
 * Thread: any. Counts are looked at and changed without a lock, so there may be a few more than
 * that.
 */
#ifndef FG_QUERIER_BLOCKS_LOADS_H
#define FG_QUERIER_BLOCKS_LOADS_H

#include "common/base/hash.h"

#include <stdatomic.h>

enum {
    LOADS_MAX = 96,      /* a tenant alone: 48, three quarters of bucket.requests_max */
    LOADS_TENANTS = 256, /* told apart; tenants with the same number share */
};

/* Starts with `shared` set, and all else zero. */
struct qry_loads {
    bool shared; /* there are several tenants; constant */
    atomic_uint all, of[LOADS_TENANTS];
};

static inline atomic_uint *qry_loads_of(struct qry_loads *loads, uint64_t tenant)
{
    return &loads->of[fg_mix64(tenant) % LOADS_TENANTS];
}

/* Returns whether a tenant's query that has so many requests under way may send one more. */
static inline bool qry_loads_may_send(struct qry_loads *loads, uint64_t tenant, unsigned under_way)
{
    return !loads->shared || under_way == 0 ||
           atomic_load(qry_loads_of(loads, tenant)) + atomic_load(&loads->all) < LOADS_MAX;
}

/* Counts requests that are sent. */
static inline void qry_loads_add(struct qry_loads *loads, uint64_t tenant, unsigned n)
{
    (void)atomic_fetch_add(qry_loads_of(loads, tenant), n);
    (void)atomic_fetch_add(&loads->all, n);
}

/* Counts requests that have ended. */
static inline void qry_loads_remove(struct qry_loads *loads, uint64_t tenant, unsigned n)
{
    unsigned of = atomic_fetch_sub(qry_loads_of(loads, tenant), n);
    unsigned all = atomic_fetch_sub(&loads->all, n);

    fg_assert(of >= n && all >= n);
}

#endif
