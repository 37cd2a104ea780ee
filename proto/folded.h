/*
 * Text formats of stacks into batches: folded (also called collapsed, or groups) and lines. Names
 * are borrowed from the input. One sample type, which the caller has put into batch->types.
 *
 *   folded: "main;work;hash 30" a line, root first; what follows the last blank is the count. Lines
 *           without a blank are skipped, as Pyroscope does.
 *   lines:  "main;work;hash" a line, each counts 1.
 *
 * CRLF, a missing last line end and a ';' at the end of a stack are fine.
 *
 * FG_E_DECODE, with the line: a count is not a number of 63 bits.
 */
#ifndef FG_PROTO_FOLDED_H
#define FG_PROTO_FOLDED_H

#include "proto/builder/builder.h"

enum fg_text_format { FG_TEXT_FOLDED, FG_TEXT_LINES };

/* factor: multiplies every count (the period of CPU samples). The caller has set the schema of the
 * batch. */
struct fg_folded_request {
    struct fg_upload upload;
    enum fg_text_format format;
    int64_t period; /* kept with the profile; 0: none */
    int64_t factor;
};

/* Decodes the text into the batch. */
enum fg_code fg_folded_decode(struct fg_slice in, const struct fg_folded_request *request,
                              struct fg_arena *arena, struct fg_batch *batch,
                              struct fg_decode_counts *counts, struct fg_err *err) fg_must_check;

#endif
