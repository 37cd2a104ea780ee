#include "common/tenant/rate.h"

#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/time.h"

#include <pthread.h>

/* What a bucket holds is worked out when somebody takes from it; so a changed rate applies at once.
 */
struct bucket {
    char *tenant;
    double tokens; /* bytes, at that time */
    int64_t at_mono_ns;
};

struct fg_rates {
    pthread_mutex_t lock;
    struct bucket *buckets;
    uint32_t n, cap;
    struct fg_map map;
};

struct fg_rates *fg_rates_create(void)
{
    struct fg_rates *rates = fg_new(struct fg_rates);

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

/* Find or add; a new one is full. */
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
    if (rates->n == rates->cap) {
        rates->cap = FG_MAX(16, rates->cap * 2);
        rates->buckets = fg_realloc(rates->buckets, rates->cap * sizeof *rates->buckets);
    }
    fg_map_add(&rates->map, hash, rates->n);
    bucket = &rates->buckets[rates->n++];
    *bucket = (struct bucket){fg_malloc(tenant.len + 1), burst, now_mono_ns};
    if (tenant.len > 0)
        memcpy(bucket->tenant, tenant.ptr, tenant.len);
    bucket->tenant[tenant.len] = '\0';
    return bucket;
}

static bool take(struct fg_rates *rates, struct fg_slice tenant, double rate, double burst,
                 double bytes, int64_t now_mono_ns)
{
    struct bucket *bucket;
    double tokens;
    bool enough;

    (void)pthread_mutex_lock(&rates->lock);
    bucket = bucket_of(rates, tenant, burst, now_mono_ns);
    tokens = bucket->tokens +
             rate * (double)FG_MAX(now_mono_ns - bucket->at_mono_ns, INT64_C(0)) / FG_SECOND_NS;
    tokens = FG_MIN(tokens, burst);
    enough = bytes <= tokens;
    bucket->tokens = enough ? tokens - bytes : tokens;
    bucket->at_mono_ns = FG_MAX(bucket->at_mono_ns, now_mono_ns);
    (void)pthread_mutex_unlock(&rates->lock);
    return enough;
}

enum fg_code fg_rates_take(struct fg_rates *rates, struct fg_slice tenant,
                           const struct fg_limit_settings *limits, uint64_t bytes,
                           int64_t now_mono_ns, struct fg_err *err)
{
    const double mib = 1024 * 1024;

    if (limits->ingestion_rate_mb <= 0 ||
        take(rates, tenant, limits->ingestion_rate_mb * mib, limits->ingestion_burst_size_mb * mib,
             (double)bytes, now_mono_ns))
        return FG_OK;
    return fg_fail(err, FG_E_LIMIT,
                   "push rate limit (%.1f MiB) exceeded while adding %.1f KiB "
                   "(limits.ingestion_rate_mb, limits.ingestion_burst_size_mb)",
                   limits->ingestion_rate_mb, (double)bytes / 1024);
}
