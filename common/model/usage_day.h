/*
 * What a tenant used on one day, as a value: sums for each service, bytes that were stored, and
 * what queries took. Days are those of UTC, counted from 1970.
 *
 * Sums only grow: two values of the same day are added up, in any order. So late data, and what
 * several programs counted, need no special case. Numbers saturate at INT64_MAX.
 *
 * A row for the service "" has what belongs to no single service (usage of services beyond what a
 * ledger may list).
 */
#ifndef FG_COMMON_MODEL_USAGE_DAY_H
#define FG_COMMON_MODEL_USAGE_DAY_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/base/time.h"
#include "common/model/usage.h"

#define FG_USAGE_DAY_NS (24 * FG_HOUR_NS)

#define FG_USAGE_VERSION_MAX UINT64_C(9999999999) /* seconds since 1970, to 2286 */

enum {
    FG_USAGE_DAY_S = 24 * 3600,
    FG_USAGE_ROWS_MAX = 1 << 20,
    FG_USAGE_SERVICE_MAX_BYTES = 64 * 1024, /* as a block's directory allows */
    FG_USAGE_ROW_BYTES = 48, /* of a row without its name, for limits; most take less */
    FG_USAGE_DATE_BYTES = sizeof "2026-11-27",
};

struct fg_usage_row {
    struct fg_slice service;
    uint64_t profiles;     /* that were stored */
    struct fg_usage usage; /* of those whose sizes are known; of at most `profiles` */
    uint64_t series;       /* distinct ones of the day; the greater number if values are added */
};

/* Bytes times time. Never rounded: the whole is byte_days * FG_USAGE_DAY_S + byte_seconds. */
struct fg_usage_stored {
    uint64_t byte_days;
    uint64_t byte_seconds; /* < FG_USAGE_DAY_S */
};

/* What queries took. */
struct fg_usage_queries {
    uint64_t queries;
    uint64_t requests;   /* to the bucket */
    uint64_t read_bytes; /* of stored data, from the bucket or from caches */
    uint64_t cpu_us;
};

struct fg_usage_day {
    int32_t day;               /* since 1970 */
    struct fg_usage_row *rows; /* by service */
    uint32_t n_rows, cap_rows;
    struct fg_usage_stored stored;
    uint64_t writes; /* objects of the tenant that were written: blocks and manifests */
    struct fg_usage_queries queries;
};

/* Returns the day of a time. */
static inline int32_t fg_usage_day_of(int64_t wall_ns)
{
    return (int32_t)(wall_ns / FG_USAGE_DAY_NS - (wall_ns % FG_USAGE_DAY_NS < 0));
}

/* Returns when a day begins; times that an int64_t cannot hold saturate. */
int64_t fg_usage_day_start_ns(int32_t day);

/* Writes a day as "2026-11-27". */
void fg_usage_day_write(int32_t day, char out[FG_USAGE_DATE_BYTES]);
/* Parses such a text, of the years 1677 to 2262. Returns false if fg_usage_day_write() would not
 * write it. */
bool fg_usage_day_parse(struct fg_slice text, int32_t *ret_day) fg_must_check;

/* Adds `bytes` that were there for `seconds`. */
void fg_usage_stored_add(struct fg_usage_stored *stored, uint64_t bytes, uint64_t seconds);

/* Adds what queries took. */
void fg_usage_queries_add(struct fg_usage_queries *queries, const struct fg_usage_queries *more);

/* Returns true if nothing was used. */
bool fg_usage_day_is_empty(const struct fg_usage_day *day);

/* Finds the row of a service, or adds one; copies its name. Rows move when one is added. NULL: the
 * arena is full. */
struct fg_usage_row *fg_usage_day_row(struct fg_usage_day *day, struct fg_slice service,
                                      struct fg_arena *arena);

/* Adds a row to that of its service. Returns false if the arena is full. */
bool fg_usage_day_add_row(struct fg_usage_day *day, const struct fg_usage_row *row,
                          struct fg_arena *arena) fg_must_check;

/* Adds all that `more` has. Its number does not matter. Returns false if the arena is full; then
 * some of it was added. */
bool fg_usage_day_add(struct fg_usage_day *day, const struct fg_usage_day *more,
                      struct fg_arena *arena) fg_must_check;

/* Does the same for a day whose rows are bounded: services that are not in it yet and would make
 * them exceed rows_max_bytes (fg_usage_day_bytes()) count for the service "", whose row always
 * fits. Equal values give equal ones. */
bool fg_usage_day_add_within(struct fg_usage_day *day, const struct fg_usage_day *more,
                             uint64_t rows_max_bytes, struct fg_arena *arena) fg_must_check;

/* Returns what the rows count for such a limit: FG_USAGE_ROW_BYTES and the name of each. */
uint64_t fg_usage_day_bytes(const struct fg_usage_day *day);

/* Returns the sum of all rows; its series are those of all services together. */
struct fg_usage_row fg_usage_day_total(const struct fg_usage_day *day);

/* Makes a copy with rows of its own; names are shared. Returns false if the arena is full. */
bool fg_usage_day_copy(struct fg_usage_day *ret_copy, const struct fg_usage_day *day,
                       struct fg_arena *arena) fg_must_check;

/*
 * Write and read a day as a record: varint length, then
 *   zigzag day; list of rows, ascending by service: record of varint length, service, varint
 *   profiles, usage (fg_usage_put()), varint series; varint byte days, byte seconds, writes,
 *   queries, requests, read bytes, CPU us
 * The same value gives the same bytes. Reading sets the cursor's error if a number is not valid, or
 * if the arena is full; fields that a newer version added at the end of a record are skipped.
 */
void fg_usage_day_put(struct fg_buf *out, const struct fg_usage_day *day);
struct fg_usage_day fg_usage_day_get(struct fg_cur *cur, struct fg_arena *arena);

#endif
