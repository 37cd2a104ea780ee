/*
 * Flame graphs of one file with a profile, or of two side by side, as flamebearer JSON. Nothing is
 * stored as a series: the file is decoded each time.
 *
 * A file has sample types, such as "samples" and "cpu". Of several with one name each is called by
 * three parts, "mutex:contentions:count". A file that does not say what it counts has one type,
 * which is called like the file.
 *
 * Thread: a worker. Memory: names of types are in the caller's arena. All else counts in `memory`,
 * which all workers share: at most decode_max_bytes while a file is decoded, and what the flame
 * graph has until it is freed.
 */
#ifndef FG_QUERIER_ADHOC_FLAME_H
#define FG_QUERIER_ADHOC_FLAME_H

#include "common/base/arena.h"
#include "common/base/budget.h"
#include "common/model/batch.h"
#include "common/model/tenant_limits.h"
#include "common/model/tree.h"
#include "proto/file_format.h"

enum { ADHOC_TYPES_MAX = 256 };

/* A file, and what of it is wanted. */
struct qry_adhoc_file {
    struct fg_slice name;
    struct fg_slice content;                /* perhaps compressed */
    struct fg_slice type;                   /* as it is called; empty: the first one */
    const struct fg_limit_settings *limits; /* the tenant's */
    uint64_t decode_max_bytes;
    struct fg_budget *memory; /* outlives the flame graph */
    int64_t now_ns;
    struct fg_arena *arena;
};

struct qry_adhoc_type {
    struct fg_slice kind, type, unit;
    struct fg_slice called;
};

/* Starts zeroed. */
struct qry_adhoc_flame {
    enum fg_file_format format;
    struct qry_adhoc_type types[ADHOC_TYPES_MAX];
    size_t n_types, chosen;
    bool is_decoded;     /* set even if the type that is asked for is not there */
    struct fg_tree tree; /* a function tree with the values of the chosen type */
    struct fg_budget *memory;
    uint64_t held_bytes; /* taken from it */
};

/*
 * Decodes a file. FG_E_DECODE: it cannot be read, in words that name the format; FG_E_INVALID: it
 * does not have the type, or no samples at all; FG_E_TOO_LARGE: a limit, which is named;
 * FG_E_LIMIT: other files have all memory that there is for decoding. The caller frees the flame
 * graph in any case.
 */
enum fg_code qry_adhoc_flame_make(const struct qry_adhoc_file *file,
                                  struct qry_adhoc_flame *ret_flame,
                                  struct fg_err *err) fg_must_check;

/* Frees it. Accepts a zeroed one. */
void qry_adhoc_flame_done(struct qry_adhoc_flame *flame);

struct fg_json_writer;

/* Writes the members of a flamebearer document: version, flamebearer, metadata, timeline, groups,
 * heatmap. */
void qry_adhoc_flame_write(const struct qry_adhoc_flame *flame, size_t max_nodes,
                           struct fg_json_writer *json);

/* Does the same for two. FG_E_INVALID: their units differ, so there is nothing to compare. */
enum fg_code qry_adhoc_flame_write_diff(const struct qry_adhoc_flame *left,
                                        const struct qry_adhoc_flame *right, size_t max_nodes,
                                        struct fg_json_writer *json,
                                        struct fg_err *err) fg_must_check;

#endif
