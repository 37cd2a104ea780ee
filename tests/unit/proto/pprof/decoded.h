/*
 * What a pprof made for a test is decoded to.
 *
 * What goes wrong fails the test, unless it is the decoder's answer.
 */
#ifndef FG_TESTS_UNIT_PROTO_PPROF_DECODED_H
#define FG_TESTS_UNIT_PROTO_PPROF_DECODED_H

#include "proto/pprof/pprof.h"

struct decoded {
    struct fg_arena *arena; /* all of the batch is in it, or in the input */
    struct fg_batch batch;
    struct fg_pprof_info info;
    struct fg_decode_counts counts;
    enum fg_code code;
    struct fg_err err;
};

/* __name__="process_cpu" and service_name="shop". */
extern struct fg_label decode_series[2];

/* Of that series, at 7000 for 70 ns where the pprof does not say, with the usual limits. */
struct fg_pprof_request decode_plain_request(void);

/* Whatever the code; where it is FG_OK profiles and stacks have their ids, as of "tenant". */
void decode_by(struct decoded *out, struct fg_slice in, const struct fg_pprof_request *request);

/* By the plain request, without an error. */
void decode(struct decoded *out, struct fg_slice in);
void decoded_done(struct decoded *decoded);

/* The error has this text in it. */
void decode_expect_error(struct fg_slice in, const struct fg_pprof_request *request,
                         enum fg_code code, const char *text);

/* Stacks of one of the profiles, as profile_folded() writes them. */
void decoded_expect_folded(const struct decoded *decoded, uint32_t profile, uint32_t type,
                           const char *want);
void decoded_expect_text(struct fg_slice text, const char *want);

#endif
