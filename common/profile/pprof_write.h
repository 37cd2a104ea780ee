/*
 * pprof output (google.v1.Profile) from a tree with full locations: query.md, 8.
 */
#ifndef FG_COMMON_PROFILE_PPROF_WRITE_H
#define FG_COMMON_PROFILE_PPROF_WRITE_H

#include "common/profile/labels.h"
#include "common/profile/tree.h"

struct fg_pprof_head {
    struct fg_profile_type type;
    int64_t period; /* 0: by the type's name, query.md, 8 */
    int64_t time_ns, duration_ns;
};

/* Uncompressed protobuf bytes. Nothing at all for a tree without values. */
void fg_pprof_write(const struct fg_tree *tree, const struct fg_pprof_head *head,
                    struct fg_buf *out);

#endif
