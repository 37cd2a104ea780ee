/*
 * A whole ingester over any store, without sockets: pushes of profiles written as "a;b;c" stacks,
 * and queries whose answers come back as text. Every push has the sample types samples/count and
 * cpu/nanoseconds.
 */
#ifndef FG_TESTS_LIB_HEAD_RUN_H
#define FG_TESTS_LIB_HEAD_RUN_H

#include "common/model/batch.h"
#include "common/model/deletion.h"
#include "common/model/limit_of.h"
#include "common/storage/bucket/bucket.h"
#include "ingester/ingester.h"
#include "ingester/keys.h"

enum { HEAD_SCRATCH_MAX_BYTES = 64 };
enum { HEAD_SPREAD = 2 /* of all tenants */ };
enum { HEAD_TYPES = 2, HEAD_SERIES_MAX = 64 /* of a tenant */ };

struct head {
    struct fg_bucket *bucket;
    bool owns_bucket;
    char scratch[HEAD_SCRATCH_MAX_BYTES]; /* a folder */
    struct fg_registry *registry;
    struct fg_conditions *conditions;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct fg_id store_id;
    struct fg_ring_watch *watch; /* NULL: there is no ring */
    struct fg_peers *peers;
    struct ing_repair_settings repair;
    char url[HEAD_SCRATCH_MAX_BYTES];
    struct ingester *ingester;
    struct fg_rpc_server *server;
    struct fg_peer *peer;
    bool lacks; /* the last SELECT said that its answer is not complete */
};

/* Bounds of the heads that are opened from now on. A test that changes them sets them back. */
struct head_bounds {
    uint64_t catalog_max_bytes;
    uint64_t series_max;                /* of a tenant; 0: none */
    double tenant_catalog_share;        /* below 1: tenancy is enabled */
    unsigned queue_max, late_queue_max; /* jobs that may wait; 0: there is no room for any */
};
extern struct head_bounds head_bounds;

/* ing_config.query_pass_bytes and compare_piece_bytes of the heads that are opened from now on. */
extern uint64_t head_query_pass_bytes;
extern size_t head_compare_piece_bytes;

/* The store is borrowed. A bucket in memory comes and goes with the head. */
void head_open(struct head *head, struct fg_store *store);
/* With a bucket that outlives it. */
void head_open_on(struct head *head, struct fg_store *store, struct fg_bucket *bucket);
/* evict_after: how long what is committed stays. */
void head_open_evicting(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                        int64_t evict_after_ns);
/* ... and forwards to these targets; NULL: nowhere. */
void head_open_forwarding(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                          int64_t evict_after_ns, const struct ing_forward *forward);
/* With a seat in the bucket's ring of so many replicas, under this name; it is still to be started:
 * fg_ring_watch_start(). Others call it at "inproc://NAME"; what it lacks of theirs it asks for
 * once, when it has the seat. Nothing of the ring happens by itself, in time. */
void head_open_seated(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                      const char *name, unsigned replicas);
/* ... which asks the others once for what it lacks, when it has the seat. */
void head_open_repairing(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                         const char *name, unsigned replicas);

/* A member of a ring that runs by itself. */
struct head_member {
    const char *name;
    unsigned replicas;
    const char *url; /* where others call it; NULL: the head listens at "inproc://NAME" */
    int64_t poll_ns; /* of the ring */
    int64_t evict_after_ns;
    int64_t repair_every_ns; /* 0: it does not repair */
};
/* ... whose watch is still to be started. With a url the head does not listen: the caller brings
 * calls to head->server, and makes fg_peer_dial() reach the others. */
void head_open_member(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                      const struct head_member *member);
void head_close(struct head *head);

struct head_sample {
    const char *stack; /* "root;leaf", "" is the empty stack */
    int64_t values[HEAD_TYPES];
    uint64_t span; /* 0: none */
};

struct head_profile {
    const char *tenant, *service, *zone; /* zone: a label; NULL: none */
    int64_t time_ns, duration_ns;
    const struct head_sample *samples;
    uint32_t n_samples;
    struct fg_slice via; /* stores that have forwarded it, FG_ID_BYTES each */
    bool
        narrow; /* sent before the tenant's spread became HEAD_SPREAD: to the service's one shard */
};

/* The profile as a batch on the wire, `copies` times in it; returns its id. */
struct fg_id head_encode(const struct head_profile *profile, bool define, unsigned copies,
                         struct fg_buf *out);

uint16_t head_shard(const struct head_profile *profile);

struct head_pushed {
    enum fg_code code;
    uint32_t stored, duplicates, n_undefined;
    enum fg_limit_of limit_of; /* of a refusal */
    uint64_t revision;
};

/* Where there is a ring: for this store, under the newest revision it knows. */
struct head_pushed head_push_bytes(struct head *head, const struct head_profile *profile,
                                   struct fg_slice batch);
struct head_pushed head_push(struct head *head, const struct head_profile *profile, bool define);

/* Fills a call; head_call_done() when it was answered. */
struct head_call {
    struct fg_call call;
    uint8_t bytes[320];
};
void head_call_push(struct head_call *call, const struct head_profile *profile,
                    struct fg_slice batch);
/* Under a revision of the ring, for a store (as in PushHead). */
void head_call_push_under(struct head_call *call, const struct head_profile *profile,
                          struct fg_slice batch, uint64_t revision, struct fg_slice store);
/* The reply of a push that the peer has answered; frees it. */
struct head_pushed head_call_done(struct fg_peer *peer, struct head_call *call);

struct head_query {
    const char *tenant, *service, *zone; /* NULL: any */
    const char *type;                    /* "samples:count", "cpu:nanoseconds" */
    int64_t start_ns, end_ns, step_ns;
    uint64_t generation; /* of the manifest that is known */
    bool names_only;
    bool lenient; /* what cannot be read is left out */
    const char *call_site[4];
    size_t n_call_site;
    uint64_t spans[4];
    size_t n_spans;
    struct fg_id ids[4];
    size_t n_ids;
    const struct fg_deletions *without; /* NULL: no deletions */
};

/* SELECT: folded lines in byte order, that of the empty stack (" 5") first. */
enum fg_code head_select(struct head *head, const struct head_query *query, struct fg_buf *out);
/* SERIES: a line for each label set, in byte order. */
enum fg_code head_series(struct head *head, const struct head_query *query,
                         const char *const *names, size_t n_names, struct fg_buf *out);

/* POINTS by zone: "{labels} k sum count" lines in byte order. */
enum fg_code head_points(struct head *head, const struct head_query *query, struct fg_buf *out);

struct head_stats {
    uint64_t profiles, series;
    int64_t oldest_ns, newest_ns;
    bool lacks; /* it said that the answer is not complete */
};
struct head_stats head_stats(struct head *head, const char *tenant);
/* For a reader who knows the manifest of this generation. */
struct head_stats head_stats_at(struct head *head, const char *tenant, uint64_t generation);
struct head_stats head_stats_without(struct head *head, const char *tenant,
                                     const struct fg_deletions *without);

/* The lines of text in byte order. */
void head_sort_lines(struct fg_buf *text);

#endif
