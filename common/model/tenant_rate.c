#include "common/model/tenant_rate.h"

#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/time.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* The content of a bucket is computed when bytes are taken from it, so a changed rate applies at
 * once.
 */
struct bucket {
    char *tenant;
    double tokens; /* bytes, at that time; negative after a profile that exceeds the share */
    int64_t at_mono_ns;
    int64_t full_mono_ns; /* when it is full, if nothing more is taken */
    double rate;          /* of all processes, as it was last */
    double offered;       /* bytes since the last report, refused ones included */
    double demand;        /* the average of that, bytes per second */
    /* Of all processes; valid for FG_RATE_HEARD_NS. */
    double share, all;
    int64_t heard_mono_ns; /* 0: never */
};

struct fg_rates {
    pthread_mutex_t lock; /* of all fields; held for one tenant, a report or a sweep */
    struct bucket *buckets;
    uint32_t n, cap, max;
    uint32_t sweep_at; /* so many are enough to look for full ones */
    struct fg_map map;
    uint32_t processes;
    int64_t reported_mono_ns;
};

enum {
    SWEEP_MIN = 64, /* fewer tenants need no sweep */
    /* Demand below this part of an equal share is not reported: all of it together takes at most
     * 3 % more than the rate. */
    LITTLE = 32,
};

/* Part of a rate that is divided equally among the processes that are offered some of a tenant: one
 * whose load begins is not starved before the others have heard of it. */
static const double FLOOR = 0.05;

static const double MIB = 1024 * 1024;

struct fg_rates *fg_rates_create(uint32_t tenants_max)
{
    struct fg_rates *rates = fg_new(struct fg_rates);

    rates->max = tenants_max;
    rates->sweep_at = SWEEP_MIN;
    rates->processes = 1;
    (void)pthread_mutex_init(&rates->lock, NULL);
    return rates;
}

void fg_rates_destroy(struct fg_rates *rates)
{
    if (rates == NULL)
        return;
    for (uint32_t i = 0; i < rates->n; i++)
        free(rates->buckets[i].tenant);
    free(rates->buckets);
    fg_map_done(&rates->map);
    (void)pthread_mutex_destroy(&rates->lock);
    free(rates);
}

uint32_t fg_rates_count(struct fg_rates *rates)
{
    uint32_t n;

    (void)pthread_mutex_lock(&rates->lock);
    n = rates->n;
    (void)pthread_mutex_unlock(&rates->lock);
    return n;
}

/* ---- shares ---- */

double fg_rate_share(double rate, double own, double all, uint32_t processes)
{
    double equal = 1 / (double)processes;

    if (all <= rate)
        return (own + (rate - all) * equal) / rate;
    return FLOOR * equal + (1 - FLOOR) * own / all;
}

static bool has_heard(const struct bucket *bucket, int64_t now_mono_ns)
{
    return bucket->heard_mono_ns != 0 && now_mono_ns - bucket->heard_mono_ns < FG_RATE_HEARD_NS;
}

/* Of its rate, all processes together, by what this one has heard. */
static double used_of(const struct fg_rates *rates, const struct bucket *bucket,
                      int64_t now_mono_ns)
{
    double all = has_heard(bucket, now_mono_ns) ? FG_MAX(bucket->all, bucket->demand)
                                                : bucket->demand * rates->processes;

    return all / bucket->rate;
}

static bool has_little(const struct fg_rates *rates, const struct bucket *bucket)
{
    return bucket->demand * LITTLE * rates->processes < bucket->rate;
}

/* ---- buckets ---- */

/* Forgets full buckets: a new bucket is full, so nothing is lost. It runs only when as many
 * buckets have come as the last run kept, so its cost for each bucket is constant. */
static void sweep(struct fg_rates *rates, int64_t now_mono_ns)
{
    uint32_t kept = 0;

    fg_map_clear(&rates->map);
    for (uint32_t i = 0; i < rates->n; i++) {
        const struct bucket bucket = rates->buckets[i];

        if (bucket.full_mono_ns <= now_mono_ns && has_little(rates, &bucket)) {
            free(bucket.tenant);
            continue;
        }
        fg_map_add(&rates->map, fg_hash64_table(fg_cstr(bucket.tenant)), kept);
        rates->buckets[kept++] = bucket;
    }
    rates->n = kept;
    rates->sweep_at = FG_MAX(2 * kept, (uint32_t)SWEEP_MIN);
    if (rates->max > 0)
        rates->sweep_at = FG_MIN(rates->sweep_at, rates->max);
}

static struct bucket *find(struct fg_rates *rates, struct fg_slice tenant, uint64_t hash)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&rates->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&rates->map, &walk))
        if (fg_slice_is(tenant, rates->buckets[i].tenant))
            return &rates->buckets[i];
    return NULL;
}

/* Finds or adds the tenant's bucket; a new one is full. NULL: there are too many that are not
 * full. A client could otherwise use up the memory with names of tenants. */
static struct bucket *bucket_of(struct fg_rates *rates, struct fg_slice tenant, double burst,
                                int64_t now_mono_ns)
{
    uint64_t hash = fg_hash64_table(tenant);
    struct bucket *bucket = find(rates, tenant, hash);

    if (bucket != NULL)
        return bucket;
    if (rates->n >= rates->sweep_at)
        sweep(rates, now_mono_ns);
    if (rates->max > 0 && rates->n >= rates->max)
        return NULL;
    if (rates->n == rates->cap) {
        rates->cap = FG_MAX(16, rates->cap * 2);
        rates->buckets = fg_realloc(rates->buckets, rates->cap * sizeof *rates->buckets);
    }
    fg_map_add(&rates->map, hash, rates->n);
    bucket = &rates->buckets[rates->n++];
    *bucket = (struct bucket){.tenant = fg_malloc(tenant.len + 1),
                              .tokens = burst / rates->processes,
                              .at_mono_ns = now_mono_ns,
                              .full_mono_ns = now_mono_ns};
    if (tenant.len > 0)
        memcpy(bucket->tenant, tenant.ptr, tenant.len);
    bucket->tenant[tenant.len] = '\0';
    return bucket;
}

enum taken { TAKEN, TOO_FAST, TOO_MANY_TENANTS };

/* Takes the bytes if they are no more than the burst and the bucket has them or is full. A profile
 * larger than a share of the burst so passes, and the next ones wait until it is paid for: dividing
 * a limit does not lower the size of the largest profile. */
static bool take_bytes(struct bucket *bucket, double own_burst, double burst, double bytes)
{
    if (bytes > burst || bucket->tokens < FG_MIN(bytes, own_burst))
        return false;
    bucket->tokens -= bytes;
    return true;
}

/* When it is full, if nothing more is taken. Bounded: a tiny rate would give a time that no int64_t
 * holds. */
static int64_t full_at(const struct bucket *bucket, double rate, double burst)
{
    double ns = (burst - bucket->tokens) / rate * (double)FG_SECOND_NS;

    return fg_time_add(bucket->at_mono_ns, (int64_t)FG_MIN(ns, (double)(INT64_MAX / 2)));
}

/* A tenant's rate and burst in this process. */
struct local_rate {
    double rate, burst; /* bytes per second, bytes */
};

/* Finds or adds the tenant's bucket, under the lock, and fills it up to now. NULL as bucket_of().
 */
static struct bucket *current_bucket(struct fg_rates *rates, struct fg_slice tenant, double rate,
                                     double burst, int64_t now_mono_ns,
                                     struct local_rate *ret_local)
{
    struct bucket *bucket = bucket_of(rates, tenant, burst, now_mono_ns);
    double share;

    if (bucket == NULL)
        return NULL;
    share = has_heard(bucket, now_mono_ns) ? bucket->share : 1 / (double)rates->processes;
    *ret_local = (struct local_rate){rate * share, burst * share};
    bucket->rate = rate;

    /* Callers read the clock before they take the lock, so time may go back here. */
    double seconds = (double)FG_MAX(now_mono_ns - bucket->at_mono_ns, INT64_C(0)) / FG_SECOND_NS;

    bucket->tokens = FG_MIN(bucket->tokens + ret_local->rate * seconds, ret_local->burst);
    bucket->at_mono_ns = FG_MAX(bucket->at_mono_ns, now_mono_ns);
    return bucket;
}

static enum taken take_or_refuse(struct fg_rates *rates, struct fg_slice tenant, double rate,
                                 double burst, double bytes, int64_t now_mono_ns, double *ret_used)
{
    struct local_rate local;
    struct bucket *bucket;
    bool enough;

    (void)pthread_mutex_lock(&rates->lock);
    bucket = current_bucket(rates, tenant, rate, burst, now_mono_ns, &local);
    if (bucket == NULL) {
        (void)pthread_mutex_unlock(&rates->lock);
        return TOO_MANY_TENANTS;
    }
    bucket->offered += bytes;
    enough = take_bytes(bucket, local.burst, burst, bytes);
    bucket->full_mono_ns = full_at(bucket, local.rate, local.burst);
    *ret_used = used_of(rates, bucket, now_mono_ns);
    (void)pthread_mutex_unlock(&rates->lock);
    return enough ? TAKEN : TOO_FAST;
}

/* What a forwarder sends at once: the largest request that it makes passes whatever the rate is. */
static const double FORWARD_BURST_MB = 64;

struct fg_rate_limit fg_rate_limit_of_pushes(const struct fg_limit_settings *limits)
{
    return (struct fg_rate_limit){limits->ingestion_rate_mb, limits->ingestion_burst_size_mb,
                                  "ingestion_rate_mb"};
}

struct fg_rate_limit fg_rate_limit_of_forwards(const struct fg_limit_settings *limits)
{
    return (struct fg_rate_limit){limits->forward_rate_mb,
                                  FG_MAX(limits->forward_rate_mb, FORWARD_BURST_MB),
                                  "forward_rate_mb"};
}

enum fg_code fg_rates_take(struct fg_rates *rates, struct fg_slice tenant,
                           const struct fg_rate_limit *limit, uint64_t bytes, int64_t now_mono_ns,
                           double *ret_used, struct fg_err *err)
{
    enum taken taken;

    *ret_used = 0;
    if (limit->rate_mb <= 0)
        return FG_OK;
    taken = take_or_refuse(rates, tenant, limit->rate_mb * MIB, limit->burst_mb * MIB,
                           (double)bytes, now_mono_ns, ret_used);
    if (taken == TAKEN)
        return FG_OK;
    if (taken == TOO_MANY_TENANTS)
        return fg_fail(err, FG_E_LIMIT,
                       "%u other tenants are active, which is the limit (tenants_max)", rates->max);
    return fg_fail(err, FG_E_LIMIT,
                   "push rate limit (%.1f MiB) exceeded while adding %.1f KiB (limits.%s)",
                   limit->rate_mb, (double)bytes / 1024, limit->setting);
}

/* ---- work in vain ---- */

void fg_rates_charge(struct fg_rates *rates, struct fg_slice tenant,
                     const struct fg_rate_limit *limit, uint64_t bytes, int64_t now_mono_ns)
{
    double burst = limit->burst_mb * MIB;
    struct local_rate local;
    struct bucket *bucket;

    if (limit->rate_mb <= 0)
        return;
    (void)pthread_mutex_lock(&rates->lock);
    bucket = current_bucket(rates, tenant, limit->rate_mb * MIB, burst, now_mono_ns, &local);
    if (bucket != NULL) {
        bucket->offered += (double)bytes;
        bucket->tokens = FG_MAX(bucket->tokens - (double)bytes, -burst);
        bucket->full_mono_ns = full_at(bucket, local.rate, local.burst);
    }
    (void)pthread_mutex_unlock(&rates->lock);
}

enum fg_code fg_rates_in_debt(struct fg_rates *rates, struct fg_slice tenant,
                              const struct fg_rate_limit *limit, uint64_t bytes,
                              int64_t now_mono_ns, int64_t *ret_ns, struct fg_err *err)
{
    struct local_rate local = {0};
    struct bucket *bucket;
    double debt = 0;

    if (limit->rate_mb <= 0)
        return FG_OK;
    (void)pthread_mutex_lock(&rates->lock);
    bucket = find(rates, tenant, fg_hash64_table(tenant));
    /* A new one has none. */
    if (bucket != NULL && bucket->tokens < 0) {
        bucket = current_bucket(rates, tenant, limit->rate_mb * MIB, limit->burst_mb * MIB,
                                now_mono_ns, &local);
        debt = -bucket->tokens;
        if (debt > 0)
            bucket->offered += (double)bytes;
    }
    (void)pthread_mutex_unlock(&rates->lock);
    if (debt <= 0)
        return FG_OK;
    *ret_ns = (int64_t)FG_MIN(debt / local.rate * (double)FG_SECOND_NS, (double)FG_HOUR_NS);
    return fg_fail(
        err, FG_E_LIMIT,
        "push rate limit (%.1f MiB) exceeded by earlier uploads, which were too large or "
        "could not be decompressed (limits.%s)",
        limit->rate_mb, limit->setting);
}

/* ---- what processes tell each other ---- */

/* Under the lock. */
static void average(struct fg_rates *rates, int64_t now_mono_ns)
{
    double ns = (double)(now_mono_ns - rates->reported_mono_ns);
    double kept = exp(-ns / (double)FG_RATE_AVERAGE_NS);

    rates->reported_mono_ns = now_mono_ns;
    if (ns <= 0)
        return;
    for (uint32_t i = 0; i < rates->n; i++) {
        struct bucket *bucket = &rates->buckets[i];

        bucket->demand =
            kept * bucket->demand + (1 - kept) * bucket->offered / ns * (double)FG_SECOND_NS;
        bucket->offered = 0;
    }
}

struct candidate {
    double used;
    const struct bucket *bucket;
};

static int by_use(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;

    return (left->used < right->used) - (left->used > right->used);
}

uint32_t fg_rates_report(struct fg_rates *rates, int64_t now_mono_ns,
                         struct fg_rate_demand *demands, uint32_t max)
{
    struct candidate *candidates;
    uint32_t n = 0;

    (void)pthread_mutex_lock(&rates->lock);
    average(rates, now_mono_ns);
    candidates = fg_calloc(FG_MAX(rates->n, 1), sizeof *candidates);
    for (uint32_t i = 0; i < rates->n; i++) {
        const struct bucket *bucket = &rates->buckets[i];

        if (!has_little(rates, bucket))
            candidates[n++] = (struct candidate){used_of(rates, bucket, now_mono_ns), bucket};
    }
    if (n > max)
        qsort(candidates, n, sizeof *candidates, by_use);
    n = FG_MIN(n, max);
    for (uint32_t i = 0; i < n; i++) {
        demands[i] = (struct fg_rate_demand){.bytes_per_s = candidates[i].bucket->demand,
                                             .used = candidates[i].used,
                                             .processes = 1};
        (void)snprintf(demands[i].tenant, sizeof demands[i].tenant, "%s",
                       candidates[i].bucket->tenant);
    }
    (void)pthread_mutex_unlock(&rates->lock);
    free(candidates);
    return n;
}

void fg_rates_apply(struct fg_rates *rates, uint32_t processes,
                    const struct fg_rate_demand *demands, uint32_t n, int64_t now_mono_ns)
{
    (void)pthread_mutex_lock(&rates->lock);
    rates->processes = FG_MAX(processes, 1);
    for (uint32_t i = 0; i < n; i++) {
        struct fg_slice tenant = fg_cstr(demands[i].tenant);
        struct bucket *bucket = find(rates, tenant, fg_hash64_table(tenant));

        if (bucket != NULL) {
            /* The counts of the others about this process may be older than its own. */
            double all = FG_MAX(demands[i].bytes_per_s, bucket->demand);

            if (all <= 0)
                continue;
            bucket->all = all;
            bucket->share =
                fg_rate_share(bucket->rate, bucket->demand, all, FG_MAX(demands[i].processes, 1));
            bucket->heard_mono_ns = now_mono_ns;
        }
    }
    (void)pthread_mutex_unlock(&rates->lock);
}
