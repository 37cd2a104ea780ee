/*
 * Flame graphs in JSON, as /pyroscope/render has them (querier/API.md#flame-graphs): names, levels
 * of bars, and the total.
 *
 * Pure. Thread: any.
 */
#ifndef FG_QUERIER_FLAME_JSON_H
#define FG_QUERIER_FLAME_JSON_H

#include "common/base/json_writer.h"

/* A flame graph of one or two sides; borrowed. */
struct qry_flame_parts {
    const struct fg_slice *names;
    size_t n_names;
    const int64_t *values;
    const size_t *level_ends;
    size_t n_levels;
    int64_t ticks, max_self;
};

/* Writes it as the object `key`. */
void qry_flame_json(const struct qry_flame_parts *parts, const char *key,
                    struct fg_json_writer *json);

/* Writes numbers as the array `key`. */
void qry_flame_json_numbers(struct fg_json_writer *json, const char *key, const int64_t *values,
                            size_t n);

/* What clients want to know about a flame graph besides; borrowed. */
struct qry_flame_metadata {
    const char *format;         /* "single" or "double" */
    const char *spy;            /* "unknown" of a file that does not say what it counts, else "" */
    struct fg_slice name, unit; /* of the sample type */
};

/* Writes it as the object "metadata", with the units that clients of /render know. */
void qry_flame_json_metadata(const struct qry_flame_metadata *metadata,
                             struct fg_json_writer *json);

#endif
