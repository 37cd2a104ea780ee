/*
 * The labels that come with a recording: the agent keeps what a thread was labelled with under a
 * number, the context, which the profiler writes into each event. Message LabelsSnapshot
 * (distributor/API.md#jfr), its maps as protobuf has them, entries of key (1) and value (2):
 *
 *   1 contexts  map<int64, Context>   Context: 1 labels, map<int64, int64>, numbers of strings
 *   2 strings   map<int64, string>
 *
 * Memory: in the arena; texts are borrowed from the input.
 */
#ifndef FG_PROTO_JFR_LABELS_H
#define FG_PROTO_JFR_LABELS_H

#include "common/base/err.h"
#include "common/model/labels.h"
#include "proto/ids.h"

struct fg_jfr_labels {
    struct fg_ids contexts, strings;   /* fg_ids_find() gives their numbers */
    struct fg_slice *context_messages; /* [contexts.count] */
    struct fg_slice *texts;            /* [strings.count] */
};

/* Reads the message; `in` may be empty. FG_E_DECODE, FG_E_TOO_LARGE. */
enum fg_code fg_jfr_labels_read(struct fg_jfr_labels *labels, struct fg_slice in,
                                struct fg_arena *arena, struct fg_err *err) fg_must_check;

/*
 * Returns the labels of a context (a number, not FG_IDS_NONE) in their order, with room for `more`
 * behind them. Leaves out names and values whose strings are missing.
 */
enum fg_code fg_jfr_labels_of(const struct fg_jfr_labels *labels, uint32_t context, size_t more,
                              struct fg_arena *arena, struct fg_labels *ret_labels,
                              struct fg_err *err) fg_must_check;

#endif
