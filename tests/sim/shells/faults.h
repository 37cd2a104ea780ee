/*
 * The world outside of a machine that runs production shells: a bucket and a store that fail for a
 * while, are slow for a while, or fill up. What is wrong now is one struct, which the test's
 * operator changes as virtual time passes; requests that are on their way keep what they have
 * drawn.
 *
 * Thread: any of tests/lib/threads.h.
 */
#ifndef FG_TESTS_SIM_SHELLS_FAULTS_H
#define FG_TESTS_SIM_SHELLS_FAULTS_H

#include "common/storage/bucket/bucket.h"
#include "common/storage/store/store.h"
#include "tests/lib/bucket_doubles.h"

/* Zeroed: all is well, and answers take some milliseconds. */
struct faults {
    /* The bucket. Permille of requests; the first that strikes counts. */
    unsigned refuse;      /* FG_E_UNAVAILABLE, and certainly not done */
    unsigned lose;        /* the request is lost: no answer before the deadline, or a minute */
    unsigned lose_answer; /* done, but no answer */
    unsigned late;        /* no answer, and done up to two minutes later */
    unsigned verbs;       /* bits 1 << enum fg_bucket_verb; 0: all of them */
    int64_t delay_max_ns; /* each way; 0: 20 ms */
    bool bucket_full;     /* puts: FG_E_NO_SPACE, not done */

    /* The store. */
    bool store_fails;      /* writes: FG_E_UNAVAILABLE until it can be healed */
    bool store_full;       /* writes: FG_E_NO_SPACE, likewise */
    bool store_unreadable; /* reads: FG_E_UNAVAILABLE */
    int64_t write_max_ns;  /* a write takes up to so long; 0: 5 ms */
};

/* --- the bucket --- */

struct sim_net;

/* How one life of one machine reaches `inner`, which does all within send (fg_bucket_memory()).
 * Called on the machine's thread; answers come on one of its own threads. */
struct sim_net *sim_net_create(unsigned machine, struct fg_bucket *inner,
                               const struct faults *faults);
struct fg_bucket *sim_net_bucket(struct sim_net *net);
/* The machine was killed: answers go nowhere; requests that are on their way may arrive. */
void sim_net_kill(struct sim_net *net);
/* Ends its thread; no request is under way. A killed one is not closed. */
void sim_net_close(struct sim_net *net);
uint64_t sim_net_requests(const struct sim_net *net);
uint64_t sim_net_failed(const struct sim_net *net);

/* --- the store --- */

struct sim_disk;

/* What a machine keeps over its lives. */
struct sim_disk *sim_disk_create(unsigned families, const struct faults *faults);
struct fg_store *sim_disk_store(struct sim_disk *disk);
/* What is durable, without faults. */
struct fg_store *sim_disk_inner(struct sim_disk *disk);
/* The machine starts again: of a write that failed or was under way all or nothing is there. */
void sim_disk_restart(struct sim_disk *disk);
void sim_disk_destroy(struct sim_disk *disk);
uint64_t sim_disk_failed(const struct sim_disk *disk);

#endif
