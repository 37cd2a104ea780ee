/* What the formats of /ingest have in common: the request as ingest.c has read it. */
#ifndef FG_DISTRIBUTOR_INGEST_FORMAT_H
#define FG_DISTRIBUTOR_INGEST_FORMAT_H

#include "distributor/name.h"
#include "distributor/upload.h"

/* An upload through /ingest. Slices are borrowed from the request; ptr NULL: not given. */
struct ingest {
    struct upload upload;
    struct fg_http_request *req;
    struct fg_slice name_text, from, until, sample_rate_text, format; /* parameters */
    struct fg_slice content_type, content_encoding;

    /* Of the decoding that is under way, on a worker. */
    struct workspace *space;
    struct fg_arena *arena; /* the workspace's */
    struct fg_slice body;   /* without content coding */
    struct app_name name;
    int64_t from_ns, until_ns;
    uint32_t sample_rate; /* samples a second; 100 where the client does not say */
    struct fg_slice spy;
};

/*
 * The series' labels but for __name__ (profile_name NULL), or with it. app_label: where the app's
 * name goes when the client named the service itself; NULL: nowhere.
 */
enum fg_code ingest_labels(struct ingest *ingest, struct fg_slice app, const char *app_label,
                           const char *profile_name, struct fg_labels *ret_labels,
                           struct fg_err *err) fg_must_check;

/* Times, limits and these labels, for a decoder. */
struct fg_upload ingest_upload(const struct ingest *ingest, struct fg_labels labels);

/* A profile's bytes, decompressed if their beginning says so: as large as the tenant may send, and
 * admitted by its rate. */
enum fg_code ingest_inflate(struct ingest *ingest, struct fg_slice *body,
                            struct fg_err *err) fg_must_check;

/* A decoder that ran out of its memory. */
enum fg_code ingest_too_large(struct fg_err *err);

/* ---- the formats ---- */

/* Body or form of a pprof. Everything wrong with it is 422. */
enum fg_code ingest_pprof(struct ingest *ingest, struct fg_err *err) fg_must_check;
enum fg_code ingest_pprof_form(struct ingest *ingest, struct fg_err *err) fg_must_check;

#endif
