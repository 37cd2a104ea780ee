/*
 * The ingester makes profiles durable before it acknowledges them, and serves them until they are
 * in segments of the bucket. Its data is the head: a store of its own on the local disk (keys.h).
 *
 * Thread: calls arrive on transport threads and are handed to workers: a push to the worker its
 * service is pinned to (lane INGEST; BULK if it is forwarded), a query to any worker (QUERY). One
 * committer writes.
 */
#ifndef FG_INGESTER_INGESTER_H
#define FG_INGESTER_INGESTER_H

#include "common/base/budget.h"
#include "common/base/time.h"
#include "common/cluster/ring/watch.h"
#include "common/model/tenant_limits.h"
#include "common/net/rpc/rpc.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"
#include "common/runtime/disk.h"
#include "common/runtime/metrics.h"
#include "common/runtime/work.h"
#include "common/storage/store/store.h"
#include "ingester/forward/sender.h"
#include "ingester/member.h"
#include "ingester/repair/repair.h"
#include "ingester/segments/segments.h"

struct fg_access;
struct ingester;

/* Settings, section "ingester". */
struct ing_settings {
    /* Memory; 0: the share that ing_share() gives. */
    uint64_t dictionary_max_bytes;     /* of dictionaries kept in memory */
    uint64_t function_trees_max_bytes; /* of their stacks by function */
    uint64_t catalog_max_bytes;
    uint64_t commit_queue_max_bytes;
    int64_t commit_delay_ns;
    uint64_t store_cache_bytes, store_write_buffer_bytes, store_wal_max_bytes;
    char *accept_loss;        /* number of the damage to accept, see fg_store_open() */
    uint64_t workers;         /* for pushes; 0: one for each processor */
    uint64_t query_workers;   /* 0: one for each processor */
    uint64_t queue_max;       /* pushes waiting for a worker */
    uint64_t query_queue_max; /* queries waiting for a worker */
    uint64_t query_max_bytes; /* memory of one query */
    uint64_t late_queue_max;  /* pushes that wait for a lookup in the bucket */
    uint64_t late_cache_max_bytes;
};
extern const struct fg_conf_field ing_fields[];
extern const size_t ing_n_fields;

/* Sets memory settings that are 0 to a share of the budget of the process. */
void ing_share(struct ing_settings *settings, uint64_t memory_max_bytes);

/* Returns the settings of the store. forwards: there are targets of forwarding, so the families of
 * the outbox are needed, and created. unread: borrowed by the store. */
struct fg_store_config ing_store_config(const struct ing_settings *settings, bool forwards,
                                        struct fg_unread *unread);

struct ing_config {
    const struct ing_settings *settings;
    const struct ing_segments_settings *segments;
    struct fg_store *store;     /* borrowed, with the families of keys.h */
    const struct fg_disk *disk; /* of the store; borrowed; NULL: not watched */
    /* Borrowed; segments go there. NULL: this is an agent, whose profiles leave the head once they
     * are forwarded (head_mode.h). */
    struct fg_bucket *bucket;
    const char *scratch; /* a folder for files on their way to the bucket; borrowed; NULL without */
    struct fg_tenants *tenants; /* borrowed */
    uint64_t query_pass_bytes;  /* what services of one pass of a query may take before no other is
                                   opened; 0: a quarter of settings->query_max_bytes, so that those
                                   that are open may grow; tests choose less */
    size_t compare_piece_bytes; /* see struct ing_segments_config; 0: the default */
    /* With a member whose store is this one (ing_member_find_store()) and whose on_drain calls
     * ing_drain(). Started later, stopped before the ingester is destroyed. Borrowed; NULL: a
     * single ingester. */
    struct fg_ring_watch *watch;
    /* With a ring: connections to other members; NULL: no repair. Borrowed, as the settings. */
    struct fg_peers *peers;
    const struct ing_repair_settings *repair;
    /* The targets of forwarding; NULL: none. Profiles that wait for other targets are deleted from
     * the queues (forward/outbox.h). With targets the store has the families of the outbox
     * (ing_store_config()). */
    const struct ing_forward *forward;
    struct fg_access *access; /* says which tenants are deleted: their profiles are not forwarded;
                               * borrowed; NULL: none is */
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* borrowed; NULL: none */
    struct fg_clock *clock;
};

/* Loads the head. Repairs damaged records or sets them aside, and raises conditions for them. If
 * the store takes no writes, for example because the disk is full, the ingester answers queries and
 * refuses pushes until it does (intake.h). FG_E_PRECONDITION: the head cannot become an agent's
 * (head_mode.h). FG_E_CORRUPT: the store cannot be read. FG_E_UNAVAILABLE: not now; call it again.
 */
enum fg_code ing_create(const struct ing_config *config, struct ingester **ret_ingester,
                        struct fg_err *err) fg_must_check;

/* Commits everything in the head to segments, and waits for that. FG_E_DEADLINE; FG_E_CORRUPT: some
 * chunks are set aside; FG_E_UNAVAILABLE: the ingester is stopping. Any thread that may wait. */
enum fg_code ing_flush(struct ingester *ingester, int64_t deadline_mono_ns,
                       struct fg_err *err) fg_must_check;

/* Flushes, and commits chunks that are set aside without what cannot be read of them, which is
 * given up: for an operator who knows that it will not come back. Errors as of ing_flush(). */
enum fg_code ing_salvage(struct ingester *ingester, int64_t deadline_mono_ns,
                         struct fg_err *err) fg_must_check;

/* Starts to commit what came under revisions of the ring below this one; tells the watch when it is
 * done. Does not wait. Any thread. */
void ing_drain(struct ingester *ingester, uint64_t revision);

/* Appends why pushes are refused, as a sentence for operators, and returns true; returns false if
 * they are taken. Any thread. Accepts NULL. */
bool ing_refuses(struct ingester *ingester, struct fg_buf *why) fg_must_check;

/* Returns true if the ingester takes pushes and answers questions from its whole head. Any
 * thread. */
bool ing_is_ready(struct ingester *ingester) fg_must_check;

/* Returns the queues of what is to be forwarded; NULL: there are no targets. It lives as long as
 * the ingester. */
struct ing_outbox *ing_outbox(struct ingester *ingester);

/* Returns what parcels of this ingester share (forward/parcel.h), without a definition cache. There
 * are targets. */
struct ing_parcel_common ing_parcel_common(struct ingester *ingester);

/*
 * Starts to forward. targets: those of config->forward, in the same order; borrowed, as `bodies`,
 * the budget for answers, and `past`, what can be resent (NULL: nothing). definition_cache_max:
 * stacks that are remembered of all targets. Once. FG_E_LIMIT: no more threads.
 */
enum fg_code ing_start_forwarding(struct ingester *ingester, struct ing_forward_targets *targets,
                                  struct fg_budget *bodies, uint64_t definition_cache_max,
                                  const struct ing_past *past, struct fg_err *err) fg_must_check;

/* Returns what can be resent to the targets of this ingester; NULL: nothing. */
const struct ing_past *ing_past(const struct ingester *ingester);

/* Stops it; requests that are under way end, and their profiles wait again. Accepts NULL. */
void ing_stop_forwarding(struct ingester *ingester);

/* Has profiles that users have deleted dropped from the queues soon: after a deletion was asked
 * for. Does not wait. Any thread. Accepts NULL. */
void ing_drop_deleted(struct ingester *ingester);

/* Writes the state of all targets as elements of a JSON list; nothing if there are none. Any thread
 * except a loop's. */
void ing_write_forwarding(struct ingester *ingester, struct fg_json_writer *out);

/* Ends all waits for the bucket, also later ones: the ingester is about to stop. Accepts NULL. */
void ing_hurry(struct ingester *ingester);

/* Answers what it has taken, then stops. The server that feeds it has stopped before. Accepts NULL.
 */
void ing_destroy(struct ingester *ingester);

/* Sets the handlers of a server, before it starts. */
void ing_serve(struct ingester *ingester, struct fg_rpc_server *server);

#endif
