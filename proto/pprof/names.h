/* Names of functions as users want to see them, where a runtime's profiler gives others. */
#ifndef FG_PROTO_PPROF_NAMES_H
#define FG_PROTO_PPROF_NAMES_H

#include "common/base/arena.h"
#include "common/model/batch.h"

/* Returns whether a Go program made the profile, by the quirks or else by the files of the
 * functions. */
bool fg_pprof_is_go(const struct fg_batch *batch, unsigned quirks);

/*
 * Changes the batch's function names as the quirks (enum fg_pprof_quirk) and, for Go, the files of
 * the functions say. New text lives in the arena; FG_E_TOO_LARGE at its end.
 */
enum fg_code fg_pprof_rename(struct fg_batch *batch, unsigned quirks, struct fg_arena *arena,
                             struct fg_err *err) fg_must_check;

/*
 * Cuts every "[go.shape.…]" out of a name, brackets inside it included: one function of a generic
 * type then has one name. Into `out`, which holds at least text.len bytes; returns the new length.
 */
size_t fg_go_drop_shapes(struct fg_slice text, uint8_t *out);

#endif
