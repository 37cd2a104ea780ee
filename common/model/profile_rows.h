/*
 * A list of single profiles: time, id, value and labels of each, without its stacks. Exemplars,
 * heatmaps and lists of profiles are made of it. Ingesters and the reader of blocks fill such a
 * list, and the querier adds the lists up.
 *
 * A row is a profile of one type, or, if spans are asked for, a span of such a profile. The
 * list drops unwanted rows while rows are added, so memory stays small for any time range.
 *
 * Encoded (the payload of ROWS in proto/inner.proto):
 *   varint n, n times a varint-length label set (labels.h)
 *   varint n, n times a row: varint number of its label set, zigzag difference of its time to that
 *     of the row before, id 16 bytes, zigzag value, and, with spans, le64 span, trace 16 bytes
 *
 * Thread: one at a time. Memory: rows are on the heap, labels in the arena of the configuration.
 */
#ifndef FG_COMMON_MODEL_PROFILE_ROWS_H
#define FG_COMMON_MODEL_PROFILE_ROWS_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/err.h"
#include "common/base/map.h"
#include "common/model/labels.h"

struct fg_profile_row {
    int64_t time_ns;
    struct fg_id id;
    int64_t value;
    uint64_t span_id; /* as a link of common/model/batch.h; 0: a whole profile */
    uint8_t trace_id[FG_ID_BYTES];
    uint32_t set;   /* its label set: an index into sets */
    uint32_t group; /* its labels of group_by: an index into groups */
    uint64_t step;  /* of the grid; 0 without one */
};

enum fg_profile_rows_keep {
    FG_ROWS_ALL,
    FG_ROWS_GREATEST, /* the row of the greatest value for each group and step */
    FG_ROWS_NEWEST,   /* the newest rows */
};

struct fg_profile_rows_config {
    struct fg_arena *arena;
    size_t max_bytes; /* of the rows */
    enum fg_profile_rows_keep keep;
    bool spans; /* rows are spans */
    const char *const *group_by;
    size_t n_group_by;
    int64_t start_ns, step_ns; /* GREATEST: the grid start + k * step, as in POINTS */
    uint64_t last_step;        /* rows behind it are dropped */
    size_t n_newest;           /* NEWEST: how many */
    bool has_before;           /* NEWEST: only rows behind this place of the order */
    int64_t before_ns;
    struct fg_id before_id;
};

/* Label sets, each once. */
struct fg_profile_rows_sets {
    struct fg_labels *items;
    uint32_t n, cap;
    struct fg_map map; /* hash of the labels -> item */
};

struct fg_profile_rows {
    struct fg_profile_rows_config config;
    struct fg_profile_rows_sets sets, groups;
    uint32_t *group_of; /* [sets.cap]: the group of each set */
    struct fg_profile_row *items;
    size_t n, cap;
};

/* Makes an empty list. The texts of group_by are borrowed. */
void fg_profile_rows_init(struct fg_profile_rows *rows,
                          const struct fg_profile_rows_config *config);
/* Frees the rows and the hash tables, which leaves an empty list of the same configuration. */
void fg_profile_rows_done(struct fg_profile_rows *rows);

/* Returns the number of a label set in *ret_set, and copies the set if it is new. FG_E_LIMIT: the
 * arena is full. */
enum fg_code fg_profile_rows_set(struct fg_profile_rows *rows, const struct fg_labels *labels,
                                 uint32_t *ret_set, struct fg_err *err) fg_must_check;

/* Adds a row unless the configuration drops it. Sets group and step of the copy. FG_E_LIMIT: too
 * many rows are wanted. */
enum fg_code fg_profile_rows_add(struct fg_profile_rows *rows, const struct fg_profile_row *row,
                                 struct fg_err *err) fg_must_check;

/*
 * Drops the rest of what is not wanted, and sorts: GREATEST by group and step, NEWEST the newest
 * first, then by id, ALL by group, time, id and span. To be called once all rows are added.
 */
void fg_profile_rows_finish(struct fg_profile_rows *rows);

/* Returns the number of a group of the list; FG_MAP_NONE: there is none with these labels. */
uint32_t fg_profile_rows_group(const struct fg_profile_rows *rows, const struct fg_labels *labels);

/* Returns the row of a group and step of a finished list of GREATEST; NULL: there is none. */
const struct fg_profile_row *fg_profile_rows_find(const struct fg_profile_rows *rows,
                                                  uint32_t group, uint64_t step);

/* Appends a finished list. */
void fg_profile_rows_encode(const struct fg_profile_rows *rows, struct fg_buf *out);

/* Adds an encoded list, of the same `spans`, to rows. FG_E_CORRUPT, FG_E_LIMIT. */
enum fg_code fg_profile_rows_decode(struct fg_profile_rows *rows, struct fg_slice in,
                                    struct fg_err *err) fg_must_check;

#endif
