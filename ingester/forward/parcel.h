/*
 * A parcel: the profiles of one span (outbox.h), or of one page of a resend (page.h), on their way
 * to one target. It takes one or more rounds, each of which is a request:
 *
 *   build   reads what is still to be sent, as batches or as a pprof
 *   answer  takes what the target says of each profile: it is there, it is refused for good, its
 *           stacks are to be defined, or it is to be sent again later
 *
 * A request has profiles of one tenant. What a target refuses as a whole is divided, until the
 * profile that is at fault is alone. The span is reported when each profile is decided or has to
 * wait; of a page the profiles before the first one that has to wait are done.
 *
 * Thread: one at a time; build and answer on a worker.
 */
#ifndef FG_INGESTER_FORWARD_PARCEL_H
#define FG_INGESTER_FORWARD_PARCEL_H

#include "common/model/definition_cache.h"
#include "ingester/export.h"
#include "ingester/forward/outbox.h"
#include "ingester/forward/page.h"
#include "ingester/forward/sender_core.h"
#include "ingester/forward/targets.h"

/* What all parcels of a sender share. Borrowed. */
struct ing_parcel_common {
    struct ing_outbox *outbox;
    struct ing_catalog *catalog;
    struct ing_dict_table *dicts;
    struct fg_definition_cache *definition_cache; /* stacks that targets have */
    struct fg_id store;                           /* this server, for `via` */
    bool several;                                 /* tenants, which have names then */
    int64_t hold_ns; /* how long a tenant waits that a target refuses while it takes others */
    int64_t pass_ns; /* ... of which it refuses something for lack, maybe of its own */
};

/* State of a target that all parcels to it share. Any thread. */
struct ing_parcel_peer {
    uint64_t cache_key;       /* a number of the target */
    _Atomic uint32_t version; /* of forward.v1 that it reads; 0: it has not said yet */
    /* A target that often does not know short ids of stacks, such as one of several servers with
     * memories of their own, gets whole ids in so many of the next batches. */
    _Atomic uint32_t whole_left, misses;
};

struct ing_parcel_item;
struct ing_parcel_batch;

/* Created by ing_parcel_create(); the sender reads the upper part. */
struct ing_parcel {
    struct ing_outbox_span span; /* of a page only the target is set */
    struct ing_page page;        /* before.state RESEND_NONE: it is of a span */
    struct fg_slice tenant;      /* of the round; empty: the target has no tenants */
    struct fg_buf body;          /* of the round */
    struct fg_buf login;         /* "user:password" in base64 if the target wants that */
    uint64_t n_filtered;         /* profiles that the target does not want */
    uint64_t n_stored, n_known;
    /* Rounds whose tenant the target refuses, or beyond a limit of the tenant: it is held. */
    uint64_t n_denied, n_limited;
    struct fg_slice held_tenant; /* of the last of them */
    struct fg_err held;          /* what the target said of it */
    int64_t held_ns;             /* ... and for how long */
    int64_t retry_after_ns;      /* as the last answer said, without those; 0: it did not */
    bool push;                   /* by push.v1 instead of forward.v1 */

    /* Internal to parcel.c. */
    const struct ing_parcel_common *common;
    const struct ing_forward_target *target;
    struct ing_parcel_peer *peer;
    struct fg_arena *arena, *round_arena;
    struct ing_outbox_item *outbox_items;
    struct ing_parcel_item *items;
    size_t n_items;
    size_t round_max; /* profiles of a round */
    struct ing_parcel_batch *batches;
    size_t n_batches, n_sent;
    size_t n_chosen;                  /* for the round, with those that the target does not want */
    struct ing_parcel_item *first;    /* of them */
    bool round_denied, round_limited; /* its tenant is held */
    struct fg_forward_message *message;
    uint64_t work;                      /* left for rules */
    struct libdeflate_compressor *gzip; /* of pprofs; NULL until there is one */
};

/* Creates a parcel for a span that was taken. peer: borrowed. */
struct ing_parcel *ing_parcel_create(const struct ing_parcel_common *common,
                                     const struct ing_forward_target *target,
                                     struct ing_parcel_peer *peer,
                                     const struct ing_outbox_span *span);

/* Creates a parcel for a page that was read, which it owns from now on. */
struct ing_parcel *ing_parcel_create_of_page(const struct ing_parcel_common *common,
                                             const struct ing_forward_target *target,
                                             struct ing_parcel_peer *peer, unsigned number,
                                             struct ing_page *page);

/* Builds the next round. *ret_more false: nothing is left to send. FG_E_UNAVAILABLE, FG_E_CORRUPT,
 * FG_E_LIMIT: the store cannot be read now; nothing of the span is lost. */
enum fg_code ing_parcel_build(struct ing_parcel *parcel, bool *ret_more,
                              struct fg_err *err) fg_must_check;

/* An answer, or what became of the request. */
struct ing_parcel_answer {
    bool came;
    unsigned status;
    struct fg_slice body;
    bool is_proto;          /* its Content-Type is application/proto */
    bool of_limit;          /* it names a limit of the tenant (RateLimit) */
    int64_t retry_after_ns; /* 0: not said */
};

/*
 * Takes the answer to a round. SENDER_TAKEN: go on with the next round, which may have nothing to
 * send. Otherwise end the parcel: what is left waits again. err says why, for operators. A tenant
 * that is refused (403, permission_denied), or is beyond a limit of its own (429 with RateLimit,
 * limit_of in the result of a batch), ends it only if all requests are of one tenant there.
 * *ret_unknown: the target has no forward.v1, or another version of it.
 */
enum ing_sender_result ing_parcel_answer(struct ing_parcel *parcel,
                                         const struct ing_parcel_answer *answer, bool *ret_unknown,
                                         struct fg_err *err);

/* Reports the span, or how far the resend has come, and frees the parcel. */
void ing_parcel_end(struct ing_parcel *parcel);

#endif
