/*
 * What /ingest means: query parameters and a body become a batch (ingest.md, 2). Straight-line code
 * for a worker; knows nothing of sockets.
 */
#ifndef FG_DISTRIBUTOR_DECODE_H
#define FG_DISTRIBUTOR_DECODE_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "proto/builder.h"

/* As the request has it; ptr NULL: not given. Borrowed. */
struct ingest_request {
    struct fg_slice name, from, until, sample_rate, spy_name, format;
    struct fg_slice content_type;
    struct fg_slice idempotency_key;
    struct fg_slice sender; /* address */
    struct fg_slice body;
    int64_t now_ns;
};

struct ingest_limits {
    uint64_t profile_max_bytes; /* of a profile after decompression */
    struct fg_decode_limits decode;
};

/* What a decoder left behind, for the metrics. */
struct ingest_counts {
    struct fg_decode_counts decode;
    uint64_t inflated_bytes;
};

/*
 * inflated: scratch that has to live as long as the batch, which borrows from it. The batch's
 * profiles have their ids. A batch without profiles is fine: there was nothing to store.
 *
 * Errors have the code whose status /ingest answers with (2.7): FG_E_INVALID 400 for the name and
 * for text formats' series, FG_E_DECODE 422 for what cannot be read and for pprof that is refused.
 */
enum fg_code ingest_decode(const struct ingest_request *request, const struct ingest_limits *limits,
                           struct fg_slice tenant, struct fg_arena *arena, struct fg_buf *inflated,
                           struct fg_batch *ret_batch, struct ingest_counts *counts,
                           struct fg_err *err) fg_must_check;

#endif
