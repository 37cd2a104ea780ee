/*
 * What a request made for a test is decoded to, as text.
 *
 * What goes wrong fails the test, unless it is the decoder's answer. Requests are text as request.h
 * makes them: JSON with single quotes, so that it can stand in C.
 */
#ifndef FG_TESTS_UNIT_PROTO_OTLP_DECODED_H
#define FG_TESTS_UNIT_PROTO_OTLP_DECODED_H

#include "proto/otlp/otlp.h"

enum { DECODE_ARENA_MAX_BYTES = 64 * 1024 * 1024 }; /* what decoding one upload may use */

struct decoded {
    struct fg_arena *arena;
    struct fg_buf text; /* of all batches, as batch_describe() writes it; ends with a zero */
    struct fg_otlp_result result;
    struct fg_decode_counts counts;
    enum fg_code code;
    struct fg_err err;
    unsigned batches, fail_at; /* fail_at: the sink fails at that batch; 0: never */
    enum fg_code fail_code;
};

/* Without labels; at 7000 where a profile does not say, with the usual limits. */
struct fg_otlp_request decode_plain_request(enum fg_otlp_form form);

/* What *out has before is fail_at and fail_code, or zeros. The decoder's answer is in it after. */
void decode_by(struct decoded *out, struct fg_slice in, const struct fg_otlp_request *request);
void decode_limited(struct decoded *out, const char *text, const struct fg_decode_limits *limits);
void decode(struct decoded *out, const char *text); /* within the usual limits */
void decoded_done(struct decoded *decoded);

/* The sink of all these; arg is a struct decoded. */
enum fg_code decoded_on_batch(struct fg_batch *batch, void *arg, struct fg_err *err);

/* The same with double quotes; the caller frees it. */
char *decode_json_of(const char *text);

void decoded_expect_text(const struct decoded *decoded, const char *want);
void decode_expect_text(const char *text, const char *want);

/* Nothing is handed over, and the error has `why` in it. */
void decode_expect_error(const char *text, enum fg_code code, const char *why);

#endif
