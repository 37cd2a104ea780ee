/*
 * For tests: a peer that loses, doubles, delays and cuts off what it passes on to another; seeded,
 * so that a run can be had again. Each call draws by its number, whatever the others are; the parts
 * of a large answer are calls of their own.
 *
 * Thread: any.
 */
#ifndef FG_TESTS_LIB_PEER_FAULTY_H
#define FG_TESTS_LIB_PEER_FAULTY_H

#include "common/base/time.h"
#include "common/net/rpc/rpc.h"

struct fg_peer_faults {
    uint64_t seed;
    unsigned drop_request_permille; /* never arrives; FG_E_UNAVAILABLE */
    unsigned drop_reply_permille;   /* arrives, and the answer is lost; FG_E_UNAVAILABLE */
    unsigned duplicate_permille;    /* arrives twice */
    /* With a clock: a request arrives after up to half of this, its answer after up to another
     * half, so that calls overtake each other. Nothing happens by itself then, but in
     * fg_peer_faulty_turn(). */
    int64_t delay_max_ns;
    struct fg_clock *clock;
};

struct fg_peer_faulty;

/* inner is borrowed. */
struct fg_peer_faulty *fg_peer_faulty_create(struct fg_peer *inner,
                                             const struct fg_peer_faults *faults);
struct fg_peer *fg_peer_faulty_peer(struct fg_peer_faulty *faulty); /* destroy it, not this */

/* From now on; the numbers go on. */
void fg_peer_faulty_set(struct fg_peer_faulty *faulty, const struct fg_peer_faults *faults);

/* A partition, of one direction or both: what arrives while it lasts is FG_E_UNAVAILABLE. */
void fg_peer_faulty_cut(struct fg_peer_faulty *faulty, bool requests, bool replies);

/* The k-th call from now (1, 2, …; 0: none) fails: it does not arrive, or late: its answer is lost.
 */
void fg_peer_faulty_fail(struct fg_peer_faulty *faulty, uint64_t k, bool late);

/* Calls passed on or failed so far. */
uint64_t fg_peer_faulty_count(struct fg_peer_faulty *faulty);

/* When something is due next, INT64_MAX: nothing; and does what is due. */
int64_t fg_peer_faulty_next_mono_ns(struct fg_peer_faulty *faulty);
void fg_peer_faulty_turn(struct fg_peer_faulty *faulty);

#endif
