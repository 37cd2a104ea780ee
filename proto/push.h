/*
 * push.v1.PushRequest (distributor/API.md#push): series, each with its labels and the pprofs that
 * were recorded under them, plain or compressed. One bounds-checked pass; slices are borrowed from
 * the input.
 *
 * Thread: one at a time. Memory: in the arena.
 */
#ifndef FG_PROTO_PUSH_H
#define FG_PROTO_PUSH_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/model/labels.h"

struct fg_push_series {
    struct fg_labels labels; /* as sent: not sorted, perhaps repeated or empty */
    struct fg_slice *profiles;
    uint32_t n_profiles;
};

struct fg_push {
    struct fg_push_series *series;
    uint32_t n_series;
    uint32_t n_profiles; /* of all series */
};

/* Reads a request. FG_E_INVALID: it is no such message, or truncated. FG_E_TOO_LARGE: the arena is
 * full. */
enum fg_code fg_push_read(struct fg_slice in, struct fg_arena *arena, struct fg_push *ret_push,
                          struct fg_err *err) fg_must_check;

#endif
