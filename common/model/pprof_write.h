/*
 * Writes pprof (google.v1.Profile) with full locations: of a tree (querier/API.md#pprof), or of one
 * profile whose stacks are in a tree.
 */
#ifndef FG_COMMON_MODEL_PPROF_WRITE_H
#define FG_COMMON_MODEL_PPROF_WRITE_H

#include "common/model/batch.h"
#include "common/model/labels.h"
#include "common/model/tree.h"

struct fg_pprof_head {
    struct fg_profile_type type;
    int64_t period; /* 0: by the type's name, querier/API.md#pprof */
    int64_t time_ns, duration_ns;
};

/* Appends a tree as uncompressed protobuf; out->full tells if it did not fit. A tree without values
 * gives a profile without samples that has type, period and time, as readers refuse one without
 * them. */
void fg_pprof_write(const struct fg_tree *tree, const struct fg_pprof_head *head,
                    struct fg_buf *out);

/* Stacks of a tree, each with a value per type. The values of the tree itself are ignored. */
struct fg_pprof_samples {
    const struct fg_value_type *types;
    const uint32_t *nodes; /* [count]; FG_TREE_ROOT: the empty stack */
    const int64_t *values; /* [n_types][count] */
    uint32_t n_types, count;
    const struct fg_link *links; /* written as labels of their samples: span_id, trace_id */
    uint32_t n_links;            /* ascending by sample, one of each at most */
};

/* Appends one profile. Of head->type it uses the period type and unit only; a period of 0 is
 * written as it is. */
void fg_pprof_write_samples(const struct fg_tree *tree, const struct fg_pprof_samples *samples,
                            const struct fg_pprof_head *head, struct fg_buf *out);

#endif
