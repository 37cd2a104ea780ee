/*
 * An upload on its way through the distributor, from any interface; upload.c has the drawing. An
 * interface embeds struct dist_upload in a struct of its own, fills it from the request, and calls
 * dist_upload_start().
 */
#ifndef FG_DISTRIBUTOR_UPLOAD_H
#define FG_DISTRIBUTOR_UPLOAD_H

#include "common/base/map.h"
#include "common/net/connect.h"
#include "common/net/inflate.h"
#include "distributor/limit_headers.h"
#include "distributor/state.h"
#include "proto/builder/builder.h"

#include <uv.h>

/* What decoders count, for the metrics. */
struct dist_ingest_counts {
    struct fg_decode_counts decode;
    uint64_t inflated_bytes;
    uint64_t expired; /* profiles older than any retention of the tenant */
};

struct dist_upload;

/* What an interface implements. */
struct dist_upload_interface {
    /*
     * Reads the request and passes its batches to dist_upload_add(). Runs on a worker; runs again,
     * with the same outcome, if ingesters lacked definitions. Reports a profile that is refused
     * while others go on with dist_upload_note(); an error ends the upload.
     */
    enum fg_code (*decode)(struct dist_upload *upload, struct dist_workspace *space,
                           struct fg_err *err);
    /* Takes what became of a batch that dist_upload_forward() was given, or of a part of it; on the
     * loop or the worker, one at a time. NULL: only the upload's error counts. */
    void (*settled)(struct dist_upload *upload, uint32_t tag,
                    const struct dist_delivery_result *result);
    /* Ends the upload, on its loop: answers the request and frees the upload. upload->err is the
     * first error, or FG_OK. */
    void (*respond)(struct dist_upload *upload);
};

struct dist_upload_item; /* a batch on its way to its ingesters */

/* What an upload takes from the limits of one tenant. */
struct dist_upload_account {
    struct fg_slice tenant;
    struct fg_limits *limits;
    struct fg_rate_limit rate_limit;
    uint32_t next;       /* profiles, or parts of batches, of this attempt */
    uint32_t n_admitted; /* of them: those that the limits let pass */
    bool refuses;        /* all that follow */
    struct dist_limit_use use;
    uint64_t stored_bytes; /* raw, of what was not stored before: counts for ingestion_limit */
    struct dist_upload_account *next_account;
};

/* Starts zeroed. Lives until respond(). */
struct dist_upload {
    /* Set before dist_upload_start(). */
    const struct dist_upload_interface *interface;
    struct distributor *distributor;
    struct fg_loop *home;
    struct fg_http_request *req;     /* NULL: no request waits for the result, as in pull mode */
    struct fg_slice body;            /* as received; borrowed, as the next three */
    struct fg_slice tenant;          /* of the profiles that are sent just now */
    struct fg_slice asked_tenant;    /* of the request; limits are of this one */
    struct fg_slice sender;          /* address */
    struct fg_slice idempotency_key; /* as the client sent it; empty: none */
    bool forwards;                   /* another server forwards its profiles */
    struct fg_slice via;             /* then, PushItem.via of the batches; set by decode() */
    uint32_t tag;                    /* likewise, given to settled() */
    bool awaits_all; /* a refusal waits for all owners, so that maybe_stored is exact */

    /* Set by dist_upload_start(). */
    int64_t now_ns;               /* when it arrived, wall clock */
    struct fg_id key;             /* hash of the client's key */
    struct fg_limits *limits;     /* the tenant's */
    struct fg_upload_rules rules; /* the tenant's */
    struct fg_rates *rates;       /* that the upload takes from */
    /* Labels say which tenant a profile goes to (fg_grant_splits()): each pays for its own. */
    bool splits;
    struct fg_decode_limits decode_limits; /* the part of the limits that decoders need */
    /* Says the shard factor. The same ring in all attempts, so that the batches are the same. */
    struct fg_ring_view *ring;

    struct dist_ingest_counts counts; /* for the decoder to add to */
    struct fg_err err;
    uint32_t failed; /* profiles that were refused */
    /* An ingester has stored some of the profiles, or may have, whatever err says: a quorum of the
     * owners of a batch may refuse what another one has stored. */
    bool maybe_stored;

    /* Internal to upload.c. */
    unsigned magic, attempt; /* of decoding */
    struct fg_job job;
    struct fg_msg ended;             /* posted to the loop at the end of a round */
    _Atomic uint32_t under_way;      /* batches whose round has not ended, plus the decoding */
    int64_t begun_mono_ns;           /* when the first batch was sent; 0: none was */
    uv_timer_t pause;                /* before another round */
    uint64_t awaited;                /* ring revision to wait for before the next round; 0: none */
    bool lacks;                      /* ingesters lack definitions: the next round decodes again */
    struct dist_upload_item **items; /* all batches so far, by number */
    uint32_t n_items, cap_items;
    uint32_t next_item, n_batches;  /* of this attempt; batches: that dist_upload_add() was given */
    uint64_t wire_bytes, raw_bytes; /* of the part at hand: dist_upload_measure() */
    struct dist_upload_account account; /* of the tenant of the request; the first of a list */
    struct dist_upload_account *payer;  /* of the profiles that are sent just now */
    struct dist_workspace *space;
    struct fg_id *ids; /* of the profiles of this attempt so far */
    uint32_t n_ids, cap_ids;
    struct fg_map id_map;
};

/* Starts the upload, on its loop. respond() is called in any case, perhaps before this returns. */
void dist_upload_start(struct dist_upload *upload);

/*
 * Fills body, sender, key and tenant from the request, on its loop. FG_E_NO_TENANT and FG_E_INVALID
 * for the tenant; FG_E_TOO_LARGE: the body exceeds limits.ingestion_body_limit_mb.
 */
enum fg_code dist_upload_from(struct dist_upload *upload, struct fg_http_request *req,
                              struct fg_err *err) fg_must_check;

/*
 * Takes one profile of so many decompressed bytes from the tenant's push rate. From decode(), on
 * the worker. FG_E_LIMIT: the rate is exceeded, or the limit of a period is reached, and so it is
 * for all profiles that follow. If labels say the tenants of profiles, takes nothing: each tenant
 * pays for its own when dist_upload_add() or dist_upload_forward() knows them.
 */
enum fg_code dist_upload_admit(struct dist_upload *upload, uint64_t bytes,
                               struct fg_err *err) fg_must_check;

/*
 * Sets the size that the next batches are billed for: part_bytes of the whole_bytes of the body,
 * both without the body's content coding, and raw_bytes after decompression. The batches divide it
 * (struct fg_batch_share). From decode(), on the worker.
 */
void dist_upload_measure(struct dist_upload *upload, uint64_t part_bytes, uint64_t whole_bytes,
                         uint64_t raw_bytes);

/*
 * Gives the profiles of a batch their ids and sends them. From decode(), on the worker; the batch
 * may be freed afterwards. has_time: the profiles have times of their own, so equal content is the
 * same profile from any sender. Equal profiles within one upload stay separate: idle processes look
 * alike. An upload that is sent again has the same ids. Replaces times in 1970 with the time of
 * arrival. FG_E_INVALID: a time is outside the tenant's window; nothing was sent. FG_E_DENIED: some
 * profiles belong to no tenant of the token, or to one that is suspended. FG_E_LIMIT: labels say
 * the tenants of profiles, and one of these is beyond its rate or the limit of a period. After
 * these two the others were sent.
 */
enum fg_code dist_upload_add(struct dist_upload *upload, struct fg_batch *batch, bool has_time,
                             struct fg_err *err) fg_must_check;

/* Checks the time of a profile that another server forwards, which keeps it: however old it is,
 * since it has waited there. FG_E_INVALID: it is in 1970, or newer than the tenant's window. */
enum fg_code dist_upload_check_time(struct dist_upload *upload, const struct fg_profile *profile,
                                    struct fg_err *err) fg_must_check;

/*
 * Sends the profiles of a batch with the ids, times and sizes that they have. From decode(), on the
 * worker. If an ingester lacks a stack that is undefined in the batch, the outcome of the batch is
 * DELIVERY_LACKS. Errors as of dist_upload_add(), without FG_E_INVALID.
 */
enum fg_code dist_upload_forward(struct dist_upload *upload, struct fg_batch *batch,
                                 struct fg_err *err) fg_must_check;

/* Does the same as a fg_batch_sink, for formats without times. upload: the struct dist_upload.
 * Notes FG_E_DENIED and FG_E_LIMIT and returns FG_OK, so that the format's other batches are sent.
 */
enum fg_code dist_upload_sink(struct fg_batch *batch, void *upload,
                              struct fg_err *err) fg_must_check;

/* Notes that one profile was refused while the others go on. The first error becomes the upload's.
 * From decode(), on the worker. */
void dist_upload_note(struct dist_upload *upload, const struct fg_err *err);

#endif
