#include "common/model/tenant_rate.h"

#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/time.h"

#include <pthread.h>

/* The content of a bucket is computed when bytes are taken from it, so a changed rate applies at
 * once.
 */
struct bucket {
    char *tenant;
    double tokens; /* bytes, at that time */
    int64_t at_mono_ns;
    int64_t full_mono_ns; /* when it is full, if nothing more is taken */
};

struct fg_rates {
    pthread_mutex_t lock;
    struct bucket *buckets;
    uint32_t n, cap, max;
    uint32_t sweep_at; /* so many are enough to look for full ones */
    struct fg_map map;
};

enum { SWEEP_MIN = 64 };

struct fg_rates *fg_rates_create(uint32_t tenants_max)
{
    struct fg_rates *rates = fg_new(struct fg_rates);

    rates->max = tenants_max;
    rates->sweep_at = SWEEP_MIN;

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

/* Forgets full buckets: a new bucket is full, so nothing is lost. It runs only when as many
 * buckets have come as the last run kept, so its cost for each bucket is constant. */
static void sweep(struct fg_rates *rates, int64_t now_mono_ns)
{
    uint32_t kept = 0;

    fg_map_clear(&rates->map);
    for (uint32_t i = 0; i < rates->n; i++) {
        const struct bucket bucket = rates->buckets[i];

        if (bucket.full_mono_ns <= now_mono_ns) {
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

/* Finds or adds the tenant's bucket; a new one is full. NULL: there are too many that are not
 * full. A client could otherwise use up the memory with names of tenants. */
static struct bucket *bucket_of(struct fg_rates *rates, struct fg_slice tenant, double burst,
                                int64_t now_mono_ns)
{
    uint64_t hash = fg_hash64_table(tenant);
    struct fg_map_walk walk;
    struct bucket *bucket;

    for (uint32_t i = fg_map_first(&rates->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&rates->map, &walk))
        if (fg_slice_is(tenant, rates->buckets[i].tenant))
            return &rates->buckets[i];
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
    *bucket = (struct bucket){fg_malloc(tenant.len + 1), burst, now_mono_ns, now_mono_ns};
    if (tenant.len > 0)
        memcpy(bucket->tenant, tenant.ptr, tenant.len);
    bucket->tenant[tenant.len] = '\0';
    return bucket;
}

enum taken { TAKEN, TOO_FAST, TOO_MANY_TENANTS };

static enum taken take(struct fg_rates *rates, struct fg_slice tenant, double rate, double burst,
                       double bytes, int64_t now_mono_ns)
{
    struct bucket *bucket;
    double tokens;
    bool enough;

    (void)pthread_mutex_lock(&rates->lock);
    bucket = bucket_of(rates, tenant, burst, now_mono_ns);
    if (bucket == NULL) {
        (void)pthread_mutex_unlock(&rates->lock);
        return TOO_MANY_TENANTS;
    }
    /* Callers read the clock before they take the lock, so time may go back here. */
    tokens = bucket->tokens +
             rate * (double)FG_MAX(now_mono_ns - bucket->at_mono_ns, INT64_C(0)) / FG_SECOND_NS;
    tokens = FG_MIN(tokens, burst);
    enough = bytes <= tokens;
    bucket->tokens = enough ? tokens - bytes : tokens;
    bucket->at_mono_ns = FG_MAX(bucket->at_mono_ns, now_mono_ns);
    /* Bounded: a tiny rate would give a time that no int64_t holds. */
    bucket->full_mono_ns = fg_time_add(
        bucket->at_mono_ns,
        (int64_t)FG_MIN((burst - bucket->tokens) / rate * FG_SECOND_NS, (double)(INT64_MAX / 2)));
    (void)pthread_mutex_unlock(&rates->lock);
    return enough ? TAKEN : TOO_FAST;
}

enum fg_code fg_rates_take(struct fg_rates *rates, struct fg_slice tenant,
                           const struct fg_limit_settings *limits, uint64_t bytes,
                           int64_t now_mono_ns, struct fg_err *err)
{
    const double mib = 1024 * 1024;
    enum taken taken;

    if (limits->ingestion_rate_mb <= 0)
        return FG_OK;
    taken = take(rates, tenant, limits->ingestion_rate_mb * mib,
                 limits->ingestion_burst_size_mb * mib, (double)bytes, now_mono_ns);
    if (taken == TAKEN)
        return FG_OK;
    if (taken == TOO_MANY_TENANTS)
        return fg_fail(err, FG_E_LIMIT,
                       "%u other tenants are active, which is the limit (tenants_max)", rates->max);
    return fg_fail(err, FG_E_LIMIT,
                   "push rate limit (%.1f MiB) exceeded while adding %.1f KiB "
                   "(limits.ingestion_rate_mb, limits.ingestion_burst_size_mb)",
                   limits->ingestion_rate_mb, (double)bytes / 1024);
}
