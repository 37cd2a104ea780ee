/*
 * Flamebearer JSON, the answer of /pyroscope/render (querier/API.md#plain-routes), into a batch of
 * one profile: what somebody has saved and looks at again.
 *
 * A level is a flat list of bars, each of four numbers: the distance from the end of the bar
 * before, total, self, and the index of its name. A bar belongs to the bar above it that spans its
 * beginning. Level 0 is the root, which is no frame. Values are kept as they are. The type is
 * `metadata.name`, or the caller's; the unit is `metadata.units`, of which Pyroscope has words of
 * its own: "samples" at a rate of 1e9 are nanoseconds, "objects" are count.
 *
 * FG_E_DECODE: invalid JSON, no names or levels, a comparison (seven numbers), bars that are
 * negative, incomplete or outside those above them, names that are not there. FG_E_INVALID: more
 * samples than the limit. FG_E_TOO_LARGE: out of memory, or stacks of more than FRAMES_MAX frames
 * together: a chain of n bars is n stacks of 1 to n frames.
 */
#ifndef FG_PROTO_FLAMEBEARER_H
#define FG_PROTO_FLAMEBEARER_H

#include "proto/builder/builder.h"

struct fg_flamebearer_request {
    struct fg_upload upload;
    struct fg_value_type untyped; /* of a file without a name of its type */
};

/* Decodes the file into the batch, and sets batch->types. Names are borrowed from the input or are
 * in the arena. */
enum fg_code fg_flamebearer_decode(struct fg_slice in, const struct fg_flamebearer_request *request,
                                   struct fg_arena *arena, struct fg_batch *batch,
                                   struct fg_decode_counts *counts,
                                   struct fg_err *err) fg_must_check;

/* Returns whether a JSON object is one, by its members. */
bool fg_flamebearer_is(struct fg_slice in) fg_must_check;

#endif
