/* A bucket that holds back some of its requests until it is opened: what happens meanwhile is the
 * test's. */
#ifndef FG_TESTS_LIB_BUCKET_GATE_H
#define FG_TESTS_LIB_BUCKET_GATE_H

#include "common/storage/bucket/bucket.h"

#include <pthread.h>

struct bucket_gate {
    struct fg_bucket bucket; /* that is to be used */
    struct fg_bucket *inner;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    enum fg_bucket_verb verb;
    const char *prefix;
    bool closed;
    unsigned waiting;
};

/* Open; inner is borrowed. */
void bucket_gate_init(struct bucket_gate *gate, struct fg_bucket *inner);
void bucket_gate_done(struct bucket_gate *gate);

/* From now on requests of this verb, for names that begin so, wait on the thread that sends them.
 */
void bucket_gate_shut(struct bucket_gate *gate, enum fg_bucket_verb verb, const char *prefix);
/* Until one waits. */
void bucket_gate_await(struct bucket_gate *gate);
void bucket_gate_open(struct bucket_gate *gate);

#endif
