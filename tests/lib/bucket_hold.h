/* A bucket that does not answer some of its requests: what a caller does then is the test's. */
#ifndef FG_TESTS_LIB_BUCKET_HOLD_H
#define FG_TESTS_LIB_BUCKET_HOLD_H

#include "common/storage/bucket/bucket.h"

#include <pthread.h>

struct bucket_hold {
    struct fg_bucket bucket; /* that is to be used */
    struct fg_bucket *inner;
    pthread_mutex_t lock;
    enum fg_bucket_verb verb;
    const char *prefix; /* NULL: all are answered */
    unsigned nth;       /* the n-th from now is not answered, whatever it is; 0: none is counted */
    struct fg_bucket_request *held;
    bool cancelled;
};

/* Answers all; inner is borrowed. */
void bucket_hold_init(struct bucket_hold *hold, struct fg_bucket *inner);
void bucket_hold_done(struct bucket_hold *hold);

/* The next request of this verb, for a name that begins so, is not answered; those after it are. */
void bucket_hold_next(struct bucket_hold *hold, enum fg_bucket_verb verb, const char *prefix);
/* The n-th request (1, 2, ...) is not answered; those after it are. */
void bucket_hold_nth(struct bucket_hold *hold, unsigned n);
/* Waits until there is such a request. */
void bucket_hold_await(struct bucket_hold *hold);
/* Ends it with this code. Returns whether it was cancelled before. */
bool bucket_hold_end(struct bucket_hold *hold, enum fg_code code);
/* Waits until its caller has cancelled it, for ten seconds at most, and ends it in any case.
 * Returns false if it was not cancelled. */
bool bucket_hold_await_cancel(struct bucket_hold *hold);

#endif
