/*
 * The world outside of a machine that runs production shells: a bucket, a store and calls to other
 * machines that fail for a while, are slow for a while, or fill up. What is wrong now is one
 * struct, which the test's operator changes as virtual time passes; requests that are on their way
 * keep what they have drawn.
 *
 * Thread: any of tests/lib/threads.h.
 */
#ifndef FG_TESTS_SIM_SHELLS_FAULTS_H
#define FG_TESTS_SIM_SHELLS_FAULTS_H

#include "common/net/rpc/rpc.h"
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

    /* Calls. Permille; the first that strikes counts. */
    unsigned call_refuse;      /* FG_E_UNAVAILABLE, and not done */
    unsigned call_lose;        /* the request is lost: no answer before the deadline */
    unsigned call_lose_answer; /* done, but no answer before the deadline */
    unsigned call_late;        /* the request takes up to half a minute, as with a busy machine */
    unsigned call_cut;         /* bits 1 << machine: calls to it and from it are lost */
    int64_t call_max_ns;       /* each way; 0: 20 ms */
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

/* --- calls --- */

/*
 * How machines call each other: what fg_peer_dial() makes, in a test that is linked with
 * LINKER:--wrap=fg_peer_dial. A peer belongs to the machine of the thread that dials, and brings
 * the bytes of a request to the server at its URL, on a thread of that server's machine; done()
 * runs on a thread of the caller's. One network in a process.
 */
struct sim_calls_watch {
    /* A machine makes a call; a request reaches its server, before it is handled. NULL is fine. */
    void (*on_send)(void *arg, unsigned machine, const struct fg_call *call);
    void (*on_arrive)(void *arg, const char *url, struct fg_slice payload);
    void *arg;
};
void sim_calls_init(const struct faults *faults, const struct sim_calls_watch *watch);

/* Brings calls of this URL to the server from now on; on the machine of the calling thread. */
void sim_calls_listen(const char *url, struct fg_rpc_server *server);
/* Brings no more calls, and waits until those under way are answered, as fg_rpc_server_stop(). */
void sim_calls_stop(const char *url);
/* The machine was killed: calls to it fail or end at their deadlines, and calls of it are
 * forgotten. */
void sim_calls_kill(unsigned machine);
/* Returns how many calls of a kind were made, and how many of all have failed on their way. */
uint64_t sim_calls_made(enum fg_rpc_method method);
uint64_t sim_calls_failed(void);

#endif
