/*
 * Buckets for tests: one in memory, and one that passes requests on to another and fails as told.
 *
 * Thread: that of the test, unless requests have homes.
 */
#ifndef FG_TESTS_LIB_BUCKET_DOUBLES_H
#define FG_TESTS_LIB_BUCKET_DOUBLES_H

#include "common/storage/bucket/bucket.h"

/* Does everything within send: where a request has no home, done() is called before it returns, so
 * that a run on one thread is the same every time. */
struct fg_bucket *fg_bucket_memory(void);
/* Objects that are written from now on have the times of this clock, and not of the real one. */
void fg_bucket_memory_tell_time(struct fg_bucket *bucket, struct fg_clock *clock);

/*
 * Passes on to `inner` (borrowed), failing as told; seeded, so that a run can be had again. Each
 * request draws by its number, whatever the others are.
 */
struct fg_bucket_faults {
    uint64_t seed;
    unsigned lose_request_permille; /* never arrives: FG_E_UNAVAILABLE; a write is unsure */
    unsigned lose_answer_permille;  /* is done, and the answer lost: the same */
    unsigned refuse_permille;       /* FG_E_UNAVAILABLE, certainly not done */
    unsigned tear_permille;     /* put: breaks off in the middle: nothing is there, unsure; get: the
                                 * content breaks off, FG_E_UNAVAILABLE */
    unsigned straggle_permille; /* put of content: FG_E_UNAVAILABLE, unsure, and done only then:
                                 * with a delay, some time later */
    unsigned spoil_permille;    /* get: one bit of the content is another, FG_OK */
    const char *refused_put;    /* puts of this object are refused as above; NULL: of none */
    /* With a clock: a request arrives after up to half of this, its answer after up to another
     * half. Nothing happens by itself then, but in fg_bucket_faulty_turn(). */
    int64_t delay_max_ns;
    struct fg_clock *clock;
};

struct fg_bucket_faulty;
struct fg_bucket_faulty *fg_bucket_faulty_create(struct fg_bucket *inner,
                                                 const struct fg_bucket_faults *faults);
struct fg_bucket *fg_bucket_faulty_bucket(struct fg_bucket_faulty *faulty); /* close it, not this */
/* From now on; the numbers go on. */
void fg_bucket_faulty_set(struct fg_bucket_faulty *faulty, const struct fg_bucket_faults *faults);
/* The k-th request from now (1, 2, …; 0: none) fails: refused, or late: done and its answer lost.
 */
void fg_bucket_faulty_fail(struct fg_bucket_faulty *faulty, uint64_t k, bool late);
/* Requests passed on or failed so far. */
uint64_t fg_bucket_faulty_count(struct fg_bucket_faulty *faulty);
/* When something is due next, INT64_MAX: nothing; and does what is due. */
int64_t fg_bucket_faulty_next_mono_ns(struct fg_bucket_faulty *faulty);
void fg_bucket_faulty_turn(struct fg_bucket_faulty *faulty);

#endif
