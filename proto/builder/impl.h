/* What the builder's files share; builder.h is the interface. */
#ifndef FG_PROTO_BUILDER_IMPL_H
#define FG_PROTO_BUILDER_IMPL_H

#include "proto/builder/builder.h"

/* A sample before its profile is made. */
struct fg_builder_row {
    uint32_t group; /* NO_GROUP: its values moved to another row or were dropped */
    uint32_t stack;
    uint32_t link; /* into links, or NO_LINK */
};

enum {
    NO_LINK = UINT32_MAX,
    NO_GROUP = UINT32_MAX,
    NO_ROW = FG_MAP_NONE,
    NO_FUNCTION = FG_MAP_NONE,
    NO_LOCATION = FG_MAP_NONE,
};

struct fg_builder_group {
    struct fg_labels labels;
    struct fg_labels joined; /* with the upload's, at the end */
    uint32_t into;           /* the first group with these joined labels, usually itself;
                              * NO_GROUP: dropped by a rule */
    uint32_t n_rows, n_links;
};

struct fg_builder {
    struct fg_arena *arena;
    struct fg_decode_limits limits;
    struct fg_batch *batch;
    struct fg_decode_counts *counts;

    uint64_t *location_hashes;
    uint32_t cap_location_hashes;
    uint32_t cap_functions, cap_locations, cap_lines, cap_stacks, cap_stack_locations;

    /* Of functions that the builder made, and their first locations, usually their only ones. */
    uint64_t *function_hashes;
    uint32_t *first_locations;
    struct fg_map names, more_lines;
    uint64_t mapping_hash; /* of the mapping that their locations are in */
    uint64_t seed;

    /* First row of each stack, or NO_ROW; usually its only one, so few need the map of rows. */
    uint32_t *first_rows;
    struct fg_builder_row *rows;
    int64_t *values; /* n_types for each row */
    struct fg_link *links;
    struct fg_builder_group *groups;
    uint32_t n_rows, n_links, n_groups;
    uint32_t cap_rows, cap_links, cap_groups;

    struct fg_map stacks, samples, group_map;
};

static inline enum fg_code fg_builder_too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
}

/* ---- builder_labels.c ---- */

static inline bool fg_builder_is_over(size_t len, uint32_t max) /* 0: no limit */
{
    return max != 0 && len > max;
}

/* Checks the lengths of names and values. FG_E_INVALID. */
enum fg_code fg_builder_check_lengths(const struct fg_labels *labels,
                                      const struct fg_decode_limits *limits,
                                      struct fg_err *err) fg_must_check;

/* ---- builder_samples.c ---- */

/* Indexes a row for fg_builder_row_find(). Returns false if the arena is full. */
bool fg_builder_row_index(struct fg_builder *builder, uint32_t row) fg_must_check;

/* Returns the row of a group, stack and link, or NO_ROW. link NULL: none. */
uint32_t fg_builder_row_find(const struct fg_builder *builder, uint32_t group, uint32_t stack,
                             const struct fg_link *link);

/* Adds the values, one of each type, to those of the row. FG_E_INVALID: the sum is too large. */
enum fg_code fg_builder_row_sum(struct fg_builder *builder, uint32_t row, const int64_t *values,
                                struct fg_err *err) fg_must_check;

#endif
