/*
 * Function trees as files for other programs: the formats of speedscope and Firefox Profiler, and
 * pictures.
 *
 * Pure. Thread: any.
 */
#ifndef FG_COMMON_MODEL_DRAWING_H
#define FG_COMMON_MODEL_DRAWING_H

#include "common/model/labels.h"
#include "common/model/tree.h"

/*
 * Writes a function tree (fg_tree_names()) as a file of speedscope (its file-format-schema.json):
 * one evented profile, in which the stacks follow one another, siblings by name. title: the
 * profile's name. unit: of the values; "nanoseconds" and "bytes" are known there, anything else is
 * "none".
 */
void fg_drawing_speedscope(const struct fg_tree *tree, struct fg_slice title, struct fg_slice unit,
                           struct fg_buf *out);

/* What a file says about the query that it answers. */
struct fg_drawing_range {
    struct fg_slice title;
    int64_t start_ns, end_ns; /* wall clock */
};

/*
 * Writes a function tree as a file of Firefox Profiler (its processed profile format, version 47):
 * one thread, in which each stack with a value is one sample with that weight. Weights are
 * milliseconds for nanoseconds, and bytes; anything else counts as samples.
 */
void fg_drawing_firefox(const struct fg_tree *tree, const struct fg_drawing_range *range,
                        const struct fg_profile_type *type, struct fg_buf *out);

/*
 * Writes a flame graph as one SVG that needs nothing else: root above, bars coloured by name, each
 * with its name, value and share as a tooltip. max_nodes: as in fg_flame_make(). Bars that are too
 * narrow to be seen are left out.
 */
void fg_drawing_svg(const struct fg_tree *tree, struct fg_slice title, struct fg_slice unit,
                    size_t max_nodes, struct fg_buf *out);

#endif
