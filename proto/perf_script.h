/*
 * The text that `perf script` prints, into a batch of one profile with a sample type for each
 * event.
 *
 *     java 12688/12700 [002] 6544038.708352:     250000 cpu-clock:
 *             7f2c0a01b3c4 Interpreter+0x1c4 (/tmp/perf-12688.map)
 *             7f2c13f1d0aa [unknown] (/usr/lib/libjvm.so)
 *
 * A sample is a head, which ends with the name of the event and a colon, and its frames, leaf
 * first, up to an empty line. It counts 1. As in stackcollapse-perf.pl the command is the outermost
 * frame, offsets of symbols are left out, and a frame without a symbol is called after its file,
 * "[libjvm.so]". Lines that begin with '#' are comments.
 *
 * FG_E_DECODE, with the line: a line is none of these, a name is not UTF-8, or there are more than
 * FG_PERF_EVENTS_MAX events. FG_E_INVALID: more samples than the limit. FG_E_TOO_LARGE: out of
 * memory.
 */
#ifndef FG_PROTO_PERF_SCRIPT_H
#define FG_PROTO_PERF_SCRIPT_H

#include "proto/builder/builder.h"

enum { FG_PERF_EVENTS_MAX = 16 }; /* machines have fewer counters */

/* Decodes the text into the batch, and sets batch->types. Names are borrowed from the input or are
 * in the arena. */
enum fg_code fg_perf_script_decode(struct fg_slice in, const struct fg_upload *upload,
                                   struct fg_arena *arena, struct fg_batch *batch,
                                   struct fg_decode_counts *counts,
                                   struct fg_err *err) fg_must_check;

/* Returns whether a text is one, by its first sample. */
bool fg_perf_script_is(struct fg_slice in) fg_must_check;

#endif
