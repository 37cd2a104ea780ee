/*
 * What the files of this folder share: the state of qry_blocks, and the snapshot of a query.
 */
#ifndef FG_QUERIER_BLOCKS_BLOCKS_IMPL_H
#define FG_QUERIER_BLOCKS_BLOCKS_IMPL_H

#include "common/cluster/manifest/snapshot.h"
#include "common/runtime/condition.h"
#include "common/runtime/task_group.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/cache/cache.h"
#include "common/storage/cache/disk_cache.h"
#include "querier/blocks/loads.h"
#include "querier/query.h"

#include <pthread.h>

#define BLOCKS_METRICS(M)                                                                          \
    M(COUNTER, BLOCKS_SNAPSHOTS, "flamegrid_querier_snapshots_total",                              \
      "Manifest snapshots taken by queries")                                                       \
    M(COUNTER, BLOCKS_AGAIN, "flamegrid_querier_snapshots_retaken_total",                          \
      "Manifest snapshots retaken because the previous one was outdated")                          \
    M(COUNTER, BLOCKS_OBJECTS, "flamegrid_querier_objects_read_total",                             \
      "Segments and blocks read by queries")                                                       \
    M(COUNTER, BLOCKS_REQUESTS, "flamegrid_querier_bucket_requests_total",                         \
      "Read requests to the bucket")                                                               \
    M(COUNTER, BLOCKS_FETCHED_BYTES, "flamegrid_querier_bucket_bytes_total",                       \
      "Bytes of segments and blocks read from the bucket")                                         \
    M(COUNTER, BLOCKS_CACHE_HITS, "flamegrid_querier_cache_hits_total",                            \
      "Cache lookups of segment and block data that hit, or joined a read in progress")            \
    M(COUNTER, BLOCKS_CACHE_MISSES, "flamegrid_querier_cache_misses_total",                        \
      "Cache lookups of segment and block data that missed")                                       \
    M(COUNTER, BLOCKS_PIECES_CACHED, "flamegrid_querier_pieces_total{result=\"cached\"}",          \
      "Pieces of flame graphs, each the sum of the segments and blocks that lie in a range as a "  \
      "whole, by where they came from")                                                            \
    M(COUNTER, BLOCKS_PIECES_MADE, "flamegrid_querier_pieces_total{result=\"read\"}",              \
      "Pieces of flame graphs, each the sum of the segments and blocks that lie in a range as a "  \
      "whole, by where they came from")                                                            \
    M(COUNTER, BLOCKS_PIECES_JOINED, "flamegrid_querier_pieces_joined_total",                      \
      "Waits of a query for a piece of a flame graph that another query was making")               \
    M(GAUGE, BLOCKS_CACHE_BYTES, "flamegrid_querier_cache_bytes",                                  \
      "Memory of the cache of segment and block data")                                             \
    M(GAUGE, BLOCKS_CACHE_ENTRIES, "flamegrid_querier_cache_entries",                              \
      "Objects in the cache of segment and block data")
FG_METRICS_ENUM(blocks_metric, BLOCKS_METRICS)

/* All but the manifests and what is said of the bucket is read-only after qry_blocks_create(). */
struct qry_blocks {
    struct fg_bucket *bucket;
    struct fg_disk_cache *disk; /* NULL: there is none */
    struct fg_clock *clock;
    struct fg_cache *cache; /* cached objects (cached_objects.h) */
    struct fg_metrics *metrics;
    struct fg_snapshots *snapshots;

    pthread_mutex_t away_lock;  /* of the next two */
    int64_t away_until_mono_ns; /* manifests could not be read, and are not asked for before then;
                                 * 0: they could */
    struct fg_err away;         /* why not */
    struct fg_condition *unread;

    uint64_t fetch_max_bytes, memory_max_bytes, cache_max_bytes;
    struct qry_loads loads; /* requests under way, of all queries */

    /* Constants, which tests change. */
    uint32_t crown_nodes;      /* FG_CROWN_NODES: nodes of a crown that is made here */
    uint32_t sample_weight;    /* 1: what a byte of samples costs in a plan */
    uint32_t whole_max_bytes;  /* 1 MiB: smaller objects are read as a whole, which takes no longer
                                * than a round trip */
    uint32_t before_max_bytes; /* 64 KiB: read before a head, where mostly the index is */
    uint64_t batch_bytes;      /* 64 MiB of parts are read together, about what one busy service has
                                * in a day block: some queries at a time fit in memory, and waves
                                * are still wide */
};

/* A query's snapshot of the manifests. */
struct qry_blocks_snapshot {
    struct fg_snapshot core;
    struct fg_slice tenants[FG_SNAPSHOT_TENANTS_MAX];
    /* The threads that read it. It has tasks in qry_fetch_all() and qry_samples_sum() only. */
    struct fg_task_group *task_group;
};

/* Returns the error that a failed request means for a query: errors that are ours do not look like
 * the client's. */
enum fg_code qry_blocks_fail(const struct fg_bucket_request *request, struct fg_err *err);

/* Does the same for an error that a read of the bucket left. Returns the code. */
enum fg_code qry_blocks_read_fault(struct fg_err *err);

#endif
