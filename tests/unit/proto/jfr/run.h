/*
 * A run of the JFR decoder over a recording made for it: the whole of what comes out is text,
 *
 *     # process_cpu:cpu:nanoseconds:cpu:nanoseconds {jfr_event="cpu", service_name="shop"}
 *     A.main;A.work 10000000
 *
 * a block for each profile and sample type, with "@span/trace" where a sample has them.
 *
 * What goes wrong fails the test, unless a function returns a code.
 */
#ifndef FG_TESTS_UNIT_PROTO_JFR_RUN_H
#define FG_TESTS_UNIT_PROTO_JFR_RUN_H

#include "proto/jfr/jfr.h"
#include "tests/lib/jfr_make.h"

/* Parts of that text, of one profile each. */
#define CPU        "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define WALL       "wall:wall:nanoseconds:wall:nanoseconds"
#define SHOP       "service_name=\"shop\"}\n"
#define JFR(value) "{jfr_event=\"" value "\", " SHOP

enum { RUN_ARENA_MAX_BYTES = 64 * 1024 * 1024 }; /* what decoding one upload may use */

/* The settings may be changed between init and any decoding; the rest is of the last decoding. */
struct run {
    struct fg_jfr_request request; /* of service "shop", 100 samples a second */
    size_t arena_max_bytes;
    bool refuse; /* the sink does */

    struct fg_decode_counts counts;
    struct fg_err err;
    struct fg_buf out;
    size_t used_bytes; /* of the arena */
    uint32_t n_batches;
};

void run_init(struct run *run);
void run_done(struct run *run);

/* The code is the decoder's. The text in `out` does not end with a zero. */
enum fg_code run_decode(struct run *run, struct fg_slice in);
void run_expect_text(struct run *run, struct fg_slice in, const char *want);

/* Nothing is handed over, and the error has this text in it. */
void run_expect_error(struct run *run, struct fg_slice in, enum fg_code code, const char *text);

/* --- the same for a recording of which no more is wanted: it is done with --- */

void run_check(struct jfr_make *make, const char *want);
void run_check_error(struct jfr_make *make, enum fg_code code, const char *text);

#endif
