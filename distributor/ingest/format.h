/* What the formats of /ingest have in common: the request as ingest.c has read it, and what they
 * make of it alike. */
#ifndef FG_DISTRIBUTOR_INGEST_FORMAT_H
#define FG_DISTRIBUTOR_INGEST_FORMAT_H

#include "distributor/ingest/name.h"
#include "distributor/upload.h"
#include "proto/folded.h"
#include "proto/tree_formats.h"

/* An upload through /ingest. Slices are borrowed from the request; ptr NULL: not given. */
struct dist_ingest {
    struct dist_upload upload;
    struct fg_http_request *req;
    struct fg_slice name_text, from, until, sample_rate_text, format; /* parameters */
    struct fg_slice content_type, content_encoding;

    /* Of the decoding that is under way, on a worker. */
    struct dist_workspace *space;
    struct fg_arena *arena; /* the workspace's */
    struct fg_slice body;   /* without content coding */
    struct dist_app_name name;
    int64_t from_ns, until_ns;
    uint32_t sample_rate; /* samples a second; 100 where the client does not say */
    struct fg_slice spy;
};

/*
 * The series' labels but for __name__ (profile_name NULL), or with it. app_label: where the app's
 * name goes when the client named the service itself; NULL: nowhere.
 */
enum fg_code dist_ingest_labels(struct dist_ingest *ingest, struct fg_slice app,
                                const char *app_label, const char *profile_name,
                                struct fg_labels *ret_labels, struct fg_err *err) fg_must_check;

/* Times, limits and these labels, for a decoder. */
struct fg_upload dist_ingest_upload(struct dist_ingest *ingest, struct fg_labels labels);

/* A profile's bytes, decompressed if their beginning says so: as large as the tenant may send, and
 * admitted by its rate. */
enum fg_code dist_ingest_inflate(struct dist_ingest *ingest, struct fg_slice *body,
                                 struct fg_err *err) fg_must_check;

/* The same of what belongs to a profile: not by the rate. */
enum fg_code dist_ingest_inflate_part(struct dist_ingest *ingest, struct fg_slice *body,
                                      struct fg_err *err) fg_must_check;

/* A decoder that ran out of its memory. */
enum fg_code dist_ingest_too_large(struct fg_err *err);

/* As the route says what is wrong with a pprof or a recording: all of it is 422. Returns the code.
 */
enum fg_code dist_ingest_profile_error(struct fg_err *err);

/* ---- the formats ---- */

enum fg_code dist_ingest_pprof(struct dist_ingest *ingest, struct fg_err *err) fg_must_check;
enum fg_code dist_ingest_pprof_form(struct dist_ingest *ingest, struct fg_err *err) fg_must_check;
enum fg_code dist_ingest_jfr(struct dist_ingest *ingest, struct fg_err *err) fg_must_check;
enum fg_code dist_ingest_jfr_form(struct dist_ingest *ingest, struct fg_err *err) fg_must_check;
enum fg_code dist_ingest_text(struct dist_ingest *ingest, enum fg_text_format format,
                              struct fg_err *err) fg_must_check;
enum fg_code dist_ingest_tree(struct dist_ingest *ingest, enum fg_tree_format format,
                              struct fg_err *err) fg_must_check;
enum fg_code dist_ingest_speedscope(struct dist_ingest *ingest, struct fg_err *err) fg_must_check;

#endif
