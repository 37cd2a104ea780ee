/*
 * Counts what queries of each tenant take, and writes it to the bucket about every hour, as objects
 * of their own (common/cluster/usage/query_counts.h). The compactor adds them up for bills.
 *
 * Counts are written to a folder first, if there is one, and from there to the bucket
 * until that has succeeded. So a bucket that is away loses nothing, a restart loses nothing, and a
 * crash at most one interval. Without a folder it waits in memory. Files that a newer version wrote
 * stay in the folder until a program that can read them starts; only damaged ones are deleted.
 *
 * Thread: qry_usage_counts_add() from any; a ticker of its own writes.
 * Memory: FG_QUERY_COUNTS_ARENA_BYTES at most, and one object. Tenants beyond
 * FG_QUERY_COUNTS_TENANTS_MAX in one interval are not counted, which a metric says.
 */
#ifndef FG_QUERIER_USAGE_COUNTS_H
#define FG_QUERIER_USAGE_COUNTS_H

#include "common/cluster/usage/query_counts.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

struct qry_usage_counts;

struct qry_usage_counts_config {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    struct fg_registry *registry;
    const char *spool;   /* folder, of this process alone; NULL: none */
    int64_t interval_ns; /* at multiples of it by the wall clock */
};

/* Creates it and its folder, and starts its thread. config is copied, except for what it points to.
 * FG_E_LIMIT: no more threads; FG_E_UNAVAILABLE, FG_E_DENIED: the folder. */
enum fg_code qry_usage_counts_create(const struct qry_usage_counts_config *config,
                                     struct qry_usage_counts **ret_counts,
                                     struct fg_err *err) fg_must_check;

/* Writes what was counted, to the folder and to the bucket or to one of them, and frees it. Waits
 * for the bucket for some seconds. Accepts NULL. */
void qry_usage_counts_destroy(struct qry_usage_counts *counts);

/* Adds what a query took. counts NULL: does nothing. */
void qry_usage_counts_add(struct qry_usage_counts *counts, struct fg_slice tenant,
                          const struct fg_usage_queries *took);

#endif
