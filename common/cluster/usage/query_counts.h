/*
 * What queries of tenants took in one process and about an hour: a value that the process writes to
 * the bucket as an object of its own, once. The compactor adds all of a day up.
 *
 * An object counts for the day in its name. A process writes it there until an hour after the end
 * of that day (FG_QUERY_COUNTS_LATE_NS); later it writes it under the day on which it is written.
 * So nothing comes for a day after the compactor has added it up, an hour later.
 *
 * In an envelope (common/base/envelope.h), magic "FGUQ":
 *   list of records, ascending by tenant: varint length, tenant; varint queries, requests, read
 * bytes, CPU us
 *
 * Thread: any; values.
 */
#ifndef FG_COMMON_CLUSTER_USAGE_QUERY_COUNTS_H
#define FG_COMMON_CLUSTER_USAGE_QUERY_COUNTS_H

#include "common/model/usage_day.h"

#define FG_QUERY_COUNTS_LATE_NS FG_HOUR_NS

enum {
    FG_QUERY_COUNTS_TENANTS_MAX = 65536, /* as in the L0 manifest */
    FG_QUERY_COUNTS_MAX_BYTES = 16 * 1024 * 1024,
    FG_QUERY_COUNTS_ARENA_BYTES = 32 * 1024 * 1024, /* enough for that many */
};

struct fg_query_count {
    struct fg_slice tenant;
    struct fg_usage_queries queries;
};

struct fg_query_counts {
    struct fg_query_count *items; /* by tenant */
    uint32_t count, cap;
};

/* Finds a tenant. NULL: it is not there. */
const struct fg_query_count *fg_query_counts_find(const struct fg_query_counts *counts,
                                                  struct fg_slice tenant);

/* Adds what a tenant's queries took; copies a new name. Returns false if there are too many
 * tenants, or if the arena is full. */
bool fg_query_counts_add(struct fg_query_counts *counts, struct fg_slice tenant,
                         const struct fg_usage_queries *more, struct fg_arena *arena) fg_must_check;

/* Encodes them. FG_E_LIMIT: they are too large. */
enum fg_code fg_query_counts_encode(const struct fg_query_counts *counts, struct fg_buf *out,
                                    struct fg_err *err) fg_must_check;

/* Decodes them and adds them. FG_E_CORRUPT: they are damaged, and nothing was added;
 * FG_E_UNIMPLEMENTED: they are of a newer version; FG_E_LIMIT: as false above, and some were
 * added. */
enum fg_code fg_query_counts_add_encoded(struct fg_query_counts *counts, struct fg_slice in,
                                         struct fg_arena *arena, struct fg_err *err) fg_must_check;

/* Returns the day under which counts of queries of this day are written now. */
int32_t fg_query_counts_day(int32_t day, int64_t now_wall_ns);

#endif
