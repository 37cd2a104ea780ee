/*
 * The interface of this folder to the rest of the querier: creation, metrics, and what errors of
 * the bucket mean for a query.
 */
#include "querier/blocks/blocks.h"

#include "querier/blocks/blocks_impl.h"

enum { TENANTS_MAX = 4096 }; /* whose manifests are kept at a time */

FG_METRICS_TABLE(blocks_metrics, BLOCKS_METRICS)

static void on_scrape(void *arg)
{
    struct qry_blocks *blocks = arg;
    struct fg_cache_stats stats = fg_cache_stats(blocks->cache);

    fg_metric_set(blocks->metrics, BLOCKS_CACHE_BYTES, (int64_t)stats.bytes);
    fg_metric_set(blocks->metrics, BLOCKS_CACHE_ENTRIES, (int64_t)stats.entries);
}

struct qry_blocks *qry_blocks_create(const struct qry_blocks_config *config)
{
    struct qry_blocks *blocks = fg_new(struct qry_blocks);

    blocks->bucket = config->bucket;
    blocks->disk = config->disk;
    blocks->clock = config->clock;
    blocks->fetch_max_bytes = config->fetch_max_bytes;
    blocks->memory_max_bytes = config->memory_max_bytes;
    blocks->cache_max_bytes = config->cache_max_bytes;
    blocks->loads.shared = config->shared;
    blocks->crown_nodes = FG_CROWN_NODES;
    blocks->sample_weight = 1;
    blocks->whole_max_bytes = 1024 * 1024;
    blocks->before_max_bytes = 64 * 1024;
    blocks->batch_bytes = UINT64_C(64) * 1024 * 1024;
    blocks->cache = fg_cache_create(config->cache_max_bytes, config->clock);
    blocks->snapshots =
        fg_snapshots_create(&(struct fg_snapshots_config){.bucket = config->bucket,
                                                          .clock = config->clock,
                                                          .tenants_max = TENANTS_MAX,
                                                          .age_max_ns = config->manifest_age_ns});
    (void)pthread_mutex_init(&blocks->away_lock, NULL);
    blocks->unread = fg_condition_create(config->conditions, "manifests_unread");
    blocks->metrics =
        fg_metrics_register(config->registry, blocks_metrics, FG_COUNT(blocks_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, blocks);
    return blocks;
}

void qry_blocks_destroy(struct qry_blocks *blocks)
{
    if (blocks == NULL)
        return;
    fg_snapshots_destroy(blocks->snapshots);
    (void)pthread_mutex_destroy(&blocks->away_lock);
    fg_condition_destroy(blocks->unread);
    fg_cache_destroy(blocks->cache);
    free(blocks);
}

enum fg_code qry_blocks_fail(const struct fg_bucket_request *request, struct fg_err *err)
{
    *err = request->err;
    return qry_blocks_read_fault(err);
}

enum fg_code qry_blocks_read_fault(struct fg_err *err)
{
    switch (err->code) {
    case FG_E_INVALID: /* a range beyond the end */
    case FG_E_TOO_LARGE:
        err->code = FG_E_CORRUPT;
        break;
    case FG_E_DENIED: /* our credentials, not the client's */
        err->code = FG_E_UNAVAILABLE;
        break;
    default:
        break;
    }
    return err->code;
}
