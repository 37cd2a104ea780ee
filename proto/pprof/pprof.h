/*
 * pprof profiles (google.v1.Profile of pprof's profile.proto) into batches: one bounds-checked pass
 * over the bytes to find the tables, one over each table. Strings are borrowed from the input.
 *
 * It refuses with FG_E_INVALID (distributor/API.md#limits): no sample types, string 0 not empty,
 * indexes out of range, location or function ids that are 0 or missing, values that do not match
 * the types, a '-' in a sample type, text that is not UTF-8, more than 1024 lines in a location.
 * It fails with FG_E_DECODE if the bytes are no message. It repairs: in a mapping with functions,
 * addresses of named locations and the mapping's address range become 0; samples that are negative
 * or empty go; a mapping that is missing is none; stacks that Go's profilers have cut are completed
 * (go_stacks.h). Unlike Pyroscope we keep every value: a location without lines keeps its address
 * and a mapping with addresses, no matter what its mapping says of functions; a location without
 * lines and address leaves its stacks, but not its samples.
 */
#ifndef FG_PROTO_PPROF_PPROF_H
#define FG_PROTO_PPROF_PPROF_H

#include "proto/builder/builder.h"
#include "proto/pprof/quirks.h"

/* What a decoder's caller wants to know besides the batch. */
struct fg_pprof_info {
    int64_t period;
    bool has_time; /* time_nanos of its own, not in 1970: upload->time_ns was not used */
};

/*
 * in: uncompressed. upload->labels: of the series; where __name__ is not among them, `name` is
 * called with the sample types and gives it (borrowed, in the arena or constant).
 */
struct fg_pprof_request {
    struct fg_upload upload;
    unsigned quirks;
    struct fg_slice (*name)(const struct fg_batch *batch, void *arg); /* may be NULL */
    void *arg;
};

enum fg_code fg_pprof_decode(struct fg_slice in, const struct fg_pprof_request *request,
                             struct fg_arena *arena, struct fg_batch *ret_batch,
                             struct fg_pprof_info *ret_info, struct fg_decode_counts *counts,
                             struct fg_err *err) fg_must_check;

#endif
