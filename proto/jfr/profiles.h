/*
 * The profiles that a recording becomes: samples of nine kinds, each kind a batch of its own.
 * Stacks and methods are constants of the chunk at hand; each is looked up once for each kind that
 * has it, and means something else in the next chunk.
 */
#ifndef FG_PROTO_JFR_PROFILES_H
#define FG_PROTO_JFR_PROFILES_H

#include "proto/jfr/chunk.h"
#include "proto/jfr/labels.h"
#include "proto/jfr/request.h"

enum fg_jfr_kind {
    JFR_CPU,
    JFR_WALL,
    JFR_IN_NEW_TLAB,
    JFR_OUTSIDE_TLAB,
    JFR_ALLOC_SAMPLE,
    JFR_MUTEX,
    JFR_BLOCK,
    JFR_LIVE,
    JFR_MALLOC,
    JFR_KINDS,
};

enum { JFR_TYPES_MAX = 2 }; /* sample types of a kind */

struct fg_jfr_sample {
    uint64_t stack;              /* id of a constant */
    uint64_t context, span_name; /* ids of the labels' */
    uint64_t span, trace_hi, trace_lo;
    int64_t values[JFR_TYPES_MAX];
};

struct fg_jfr_profile; /* of one kind */

struct fg_jfr_profiles {
    const struct fg_jfr_request *request;
    struct fg_arena *arena;
    struct fg_decode_counts *counts;
    struct fg_jfr_chunk *chunk;
    struct fg_jfr_labels labels;
    struct fg_jfr_profile *kinds[JFR_KINDS]; /* NULL: no samples so far */
    struct fg_buf name;
    uint32_t *frames; /* of the stack at hand, leaf first */
    uint32_t cap_frames;
};

/* All borrowed. Reads the labels. Done also after a failure. */
enum fg_code fg_jfr_profiles_init(struct fg_jfr_profiles *profiles,
                                  const struct fg_jfr_request *request, struct fg_jfr_chunk *chunk,
                                  struct fg_arena *arena, struct fg_decode_counts *counts,
                                  struct fg_err *err) fg_must_check;
void fg_jfr_profiles_done(struct fg_jfr_profiles *profiles);

/* The chunk is another one now. */
void fg_jfr_profiles_next_chunk(struct fg_jfr_profiles *profiles);

/* Sums the sample up with those of the same stack, labels and span. */
enum fg_code fg_jfr_profiles_add(struct fg_jfr_profiles *profiles, enum fg_jfr_kind kind,
                                 const struct fg_jfr_sample *sample,
                                 struct fg_err *err) fg_must_check;

/* Makes the batches, with that value of jfr_event (empty: none), and hands them over. */
enum fg_code fg_jfr_profiles_finish(struct fg_jfr_profiles *profiles, struct fg_slice event,
                                    int64_t period_ns, fg_batch_sink sink, void *arg,
                                    struct fg_err *err) fg_must_check;

#endif
