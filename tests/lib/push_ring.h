/*
 * A ring of ingesters for tests of who pushes to them: the ring is a real one on a bucket in
 * memory, that is read only when somebody wants to; ingesters are servers of calls that store
 * nothing and answer what the test tells them, when it tells them. A test can store what they
 * should have: on_stored().
 */
#ifndef FG_TESTS_LIB_PUSH_RING_H
#define FG_TESTS_LIB_PUSH_RING_H

#include "common/cluster/ring/object.h"
#include "common/cluster/ring/watch.h"
#include "common/net/rpc/peers.h"

#include <pthread.h>

enum { PUSH_RING_MEMBERS = 4, PUSH_RING_REQUESTS = 64, PUSH_RING_CALLS = 8 /* of a peer */ };

/* What an ingester says to a push of one item. */
struct push_answer {
    enum fg_code code;
    bool lacks;      /* stack 0 */
    bool duplicate;  /* else one profile was stored */
    uint64_t newest; /* revision it knows */
};

struct push_ring;

/* A push that an ingester got. */
struct push_asked {
    struct fg_rpc_request *req; /* NULL: it was answered */
    uint64_t revision;
    uint32_t shards[PUSH_RING_REQUESTS]; /* of the items */
    size_t n_items;
    uint32_t bytes; /* of the first batch */
    bool scripted;  /* a script answers it */
    bool taken;     /* by the test or a script */
};

struct push_ingester {
    struct push_ring *ring;
    struct fg_rpc_server *server; /* NULL: nobody is at its address */
    char name[8], url[64];
    struct push_asked asked[PUSH_RING_REQUESTS];
    unsigned n_asked;
    /* Answers that are given at once, in this order; then OK. NULL: all wait for the test. */
    const struct push_answer *script;
    unsigned n_script, next;
};

struct push_ring {
    struct fg_bucket *bucket;
    struct fg_bucket_wave *wave;
    struct fg_ring_object object;
    struct fg_registry *registry;
    struct fg_ring_watch *watch;
    struct fg_peers *peers;
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct push_ingester ingesters[PUSH_RING_MEMBERS];
    /* Called with each batch that a script is about to answer with OK, on any thread. NULL: not. */
    void (*on_stored)(void *arg, struct fg_slice batch);
    void *arg;
};

/* Three members, ann, bob and cat, under revision 3, which the watch knows; those of the bits in
 * `dead` are not there. The fourth, dan, is there and has not joined. */
void push_ring_open(struct push_ring *ring, unsigned dead);
/* Answers every push that was not answered, and each one that comes from now on, so that nobody
 * waits for an answer after a test that failed. */
void push_ring_answer_all(struct push_ring *ring);
/* What was asked is answered by now, and no peer in hand. */
void push_ring_close(struct push_ring *ring);

/* Joins, with this store; nobody tells the watch. */
void push_ring_join(struct push_ring *ring, unsigned member, uint64_t store);
/* The member is at the address of another from now on, which the watch knows. */
void push_ring_move(struct push_ring *ring, unsigned member, unsigned to);
/* The watch has the revision. */
void push_ring_until(struct push_ring *ring, uint64_t revision);

/* From now on its pushes are answered at once. */
void push_ring_script(struct push_ring *ring, unsigned member, const struct push_answer *answers,
                      unsigned n);

/* Waits for the member's next push; the test fails if none comes. */
struct push_asked *push_ring_take(struct push_ring *ring, unsigned member);
void push_ring_answer(struct push_asked *asked, const struct push_answer *answer);
/* Both. */
void push_ring_say(struct push_ring *ring, unsigned member, struct push_answer answer);

/* How many pushes it got. */
unsigned push_ring_count(struct push_ring *ring, unsigned member);

#endif
