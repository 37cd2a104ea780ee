/*
 * Small blocks out of a seed, for tests: what is in them as plain lists, and the file. Everything
 * that may be in a part is there in some seed: frames with inlined lines, without names, the empty
 * stack, equal samples, spans, cumulative values, several schemas, pages of one and of many series,
 * one stripe and several.
 */
#ifndef FG_TESTS_LIB_BLOCK_MAKE_H
#define FG_TESTS_LIB_BLOCK_MAKE_H

#include "common/storage/block/writer.h"

enum {
    MADE_PARTS_MAX = 4,
    MADE_SERIES_MAX = 6,
    MADE_PROFILES_MAX = 70,
    MADE_STACKS = 40,
    MADE_DEPTH_MAX = 8,
    MADE_SAMPLES_MAX = 30,
    MADE_TYPES_MAX = 4,
    MADE_LINKS_MAX = 3,
};

/* A stack is frames, root first; frame numbers mean the same in all parts. */
struct made_stack {
    uint32_t frames[MADE_DEPTH_MAX], depth;
};

struct made_profile {
    struct fg_id id;
    int64_t time_ns, duration_ns, period;
    uint16_t shard;
    uint32_t window, n_samples, n_links;
    struct fg_profile_size size;       /* of one in four unknown */
    uint32_t stacks[MADE_SAMPLES_MAX]; /* into the part's */
    uint64_t values[MADE_TYPES_MAX * MADE_SAMPLES_MAX];
    struct fg_block_link links[MADE_LINKS_MAX]; /* their stack is one of the part's too */
    uint64_t link_values[MADE_TYPES_MAX * MADE_LINKS_MAX];
};

struct made_series {
    struct fg_label labels[8];
    char pod[16];
    struct fg_block_series series;
    struct made_profile profiles[MADE_PROFILES_MAX];
    uint32_t n_profiles;
};

struct made_part {
    char tenant[16], service[16];
    struct made_stack stacks[MADE_STACKS];
    struct made_series series[MADE_SERIES_MAX];
    uint32_t n_series;
    int64_t stripe_ns; /* 0: one stripe */
    bool named;        /* it has its stacks as names, too */
};

struct made_block {
    uint32_t version;           /* of the format; 0: the newest */
    const struct fg_keys *keys; /* NULL: it is not encrypted */
    struct made_part parts[MADE_PARTS_MAX];
    uint32_t n_parts;
};

/* Large: to be freed. `small` makes a block of about a kilobyte. */
struct made_block *made_block_create(uint64_t seed, bool small);

/* Writes it. shuffle: another order of everything whose order means nothing; 0: as it is. */
enum fg_code made_block_write(const struct made_block *block, uint64_t shuffle, struct fg_buf *out,
                              struct fg_block_summary *ret_summary,
                              struct fg_err *err) fg_must_check;

/* Profiles as they are numbered in a file: stripe by stripe, series by series. */
const struct made_profile *made_profile_at(const struct made_part *part, uint32_t number,
                                           const struct made_series **ret_series);

/* The text of a stack, "a;b;c" with all there is to a frame. */
void made_stack_text(const struct made_stack *stack, struct fg_buf *out);

/* The same of a node of a tree that was read; node + 1, 0: the empty stack. */
void tree_stack_text(const struct fg_tree *tree, uint32_t stack, struct fg_buf *out);

#endif
