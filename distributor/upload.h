/*
 * An upload on its way through the distributor, whatever interface it came by; see the drawing in
 * upload.c. An interface embeds struct dist_upload in its own, fills it from the request, and calls
 * dist_upload_start().
 */
#ifndef FG_DISTRIBUTOR_UPLOAD_H
#define FG_DISTRIBUTOR_UPLOAD_H

#include "common/base/map.h"
#include "common/net/connect.h"
#include "common/net/inflate.h"
#include "distributor/state.h"
#include "proto/builder/builder.h"

#include <uv.h>

/* What a decoder left behind, for the metrics. */
struct dist_ingest_counts {
    struct fg_decode_counts decode;
    uint64_t inflated_bytes;
    uint64_t expired; /* profiles that are older than anything is kept of them */
};

struct dist_upload;

/* What makes an interface. */
struct dist_upload_interface {
    /*
     * On a worker: reads the request and gives its batches to dist_upload_add(). Called again, with
     * the same outcome, when ingesters lacked definitions. What goes wrong with one profile of
     * several is dist_upload_note()d; an error ends the upload.
     */
    enum fg_code (*decode)(struct dist_upload *upload, struct dist_workspace *space,
                           struct fg_err *err);
    /* On the upload's loop: the end of it, where a request is answered. upload->err has the first
     * that went wrong, or FG_OK. */
    void (*respond)(struct dist_upload *upload);
};

struct dist_upload_item; /* a batch on its way to its ingesters */

/* Zeroed; lives until respond(). */
struct dist_upload {
    /* Set before dist_upload_start(). */
    const struct dist_upload_interface *interface;
    struct distributor *distributor;
    struct fg_loop *home;
    struct fg_http_request *req; /* NULL: nobody is told what came of it */
    struct fg_slice body;        /* as received; borrowed, as are those below */
    struct fg_slice tenant;
    struct fg_slice sender;          /* address */
    struct fg_slice idempotency_key; /* that the client gave, whole; empty: none */

    /* Set by dist_upload_start(). */
    int64_t now_ns;                        /* when it arrived, wall clock */
    struct fg_id key;                      /* hash of the client's key */
    struct fg_limits *limits;              /* the tenant's */
    struct fg_upload_rules rules;          /* the tenant's */
    struct fg_decode_limits decode_limits; /* those of them that decoders need */
    struct fg_ring_view *ring; /* of spreads; in all attempts the same, so that batches are */

    struct dist_ingest_counts counts; /* for the decoder to add to */
    struct fg_err err;
    uint32_t failed; /* profiles that were refused, when others were not */

    /* upload.c's own. */
    unsigned magic, attempt; /* of decoding */
    struct fg_job job;
    struct fg_msg ended;             /* a round, to the loop */
    _Atomic uint32_t under_way;      /* batches whose round is not over, and the decoding */
    int64_t begun_mono_ns;           /* the first batch was sent; 0: none was yet */
    uv_timer_t pause;                /* before another round */
    uint64_t awaited;                /* revision, before another round; 0: none */
    bool lacks;                      /* definitions: the other round begins with decoding */
    struct dist_upload_item **items; /* all batches so far, by number */
    uint32_t n_items, cap_items;
    uint32_t next_item, next_profile; /* of this attempt */
    uint64_t wire_bytes, raw_bytes;   /* of what is being decoded: dist_upload_measure() */
    uint32_t n_admitted;              /* profiles, by the rate */
    bool over_rate;
    struct dist_workspace *space;
    struct fg_id *ids; /* of the profiles of this attempt so far */
    uint32_t n_ids, cap_ids;
    struct fg_map id_map;
};

/* Loop: begins; respond() comes in any case, perhaps before this returns. */
void dist_upload_start(struct dist_upload *upload);

/*
 * Loop: what of the upload is the request's own: body, sender, key, tenant. FG_E_NO_TENANT and
 * FG_E_INVALID for the tenant, FG_E_TOO_LARGE for a body larger than the tenant may send.
 */
enum fg_code dist_upload_from(struct dist_upload *upload, struct fg_http_request *req,
                              struct fg_err *err) fg_must_check;

/*
 * Worker, from decode(): one more profile, of so many bytes after decompression. FG_E_LIMIT when it
 * exceeds the tenant's rate; then so do all that follow.
 */
enum fg_code dist_upload_admit(struct dist_upload *upload, uint64_t bytes,
                               struct fg_err *err) fg_must_check;

/*
 * Worker, from decode(): says how large what is decoded next is, for bills: part_bytes of the
 * whole_bytes of the body, without the body's own coding, and raw_bytes once decompressed. The
 * batches that follow divide it (struct fg_batch_share).
 */
void dist_upload_measure(struct dist_upload *upload, uint64_t part_bytes, uint64_t whole_bytes,
                         uint64_t raw_bytes);

/*
 * Worker, from decode(): gives the profiles of a batch their ids and sends them; nothing of the
 * batch is needed afterwards. has_time: their time is the profile's own, so that equal content is
 * the same profile wherever it comes from. Equal ones within one upload are as many profiles as
 * there are: idle processes look alike. An upload sent again has the same ids. A time of 1970 is
 * repaired; FG_E_INVALID for one outside the tenant's window.
 */
enum fg_code dist_upload_add(struct dist_upload *upload, struct fg_batch *batch, bool has_time,
                             struct fg_err *err) fg_must_check;

/* The same as a fg_batch_sink, for formats without a time of their own; upload is the argument. */
enum fg_code dist_upload_sink(struct fg_batch *batch, void *upload,
                              struct fg_err *err) fg_must_check;

/* Worker, from decode(): one profile was refused and the others go on. The first one's error is the
 * upload's. */
void dist_upload_note(struct dist_upload *upload, const struct fg_err *err);

#endif
