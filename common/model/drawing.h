/*
 * Function trees as files for other programs: speedscope's format and pictures.
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

/*
 * Writes a flame graph as one SVG that needs nothing else: root above, bars coloured by name, each
 * with its name, value and share as a tooltip. max_nodes: as in fg_flame_make(). Bars that are too
 * narrow to be seen are left out.
 */
void fg_drawing_svg(const struct fg_tree *tree, struct fg_slice title, struct fg_slice unit,
                    size_t max_nodes, struct fg_buf *out);

#endif
