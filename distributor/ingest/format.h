/* What the formats of /ingest share: the request as ingest.c has read it, and steps that several
 * formats need. */
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

    /* Set for each decoding, on a worker. */
    struct dist_workspace *space;
    struct fg_arena *arena; /* the workspace's */
    struct fg_slice body;   /* without content coding */
    struct dist_app_name name;
    int64_t from_ns, until_ns;
    uint32_t sample_rate; /* samples per second; default 100 */
    struct fg_slice spy;
};

/*
 * Makes the labels of the series, with __name__ unless profile_name is NULL. app_label: the label
 * that the application's name is stored as if the client also named a service; NULL: none.
 */
enum fg_code dist_ingest_labels(struct dist_ingest *ingest, struct fg_slice app,
                                const char *app_label, const char *profile_name,
                                struct fg_labels *ret_labels, struct fg_err *err) fg_must_check;

/* Returns times, limits and these labels, as decoders take them. */
struct fg_upload dist_ingest_upload(struct dist_ingest *ingest, struct fg_labels labels);

/* Decompresses a profile if its first bytes say that it is compressed, checks it against the
 * tenant's size limit, and takes it from the tenant's push rate. */
enum fg_code dist_ingest_inflate(struct dist_ingest *ingest, struct fg_slice *body,
                                 struct fg_err *err) fg_must_check;

/* Does the same with a part that belongs to a profile, except for the push rate. */
enum fg_code dist_ingest_inflate_part(struct dist_ingest *ingest, struct fg_slice *body,
                                      struct fg_err *err) fg_must_check;

/* Returns FG_E_TOO_LARGE: the decoder ran out of memory. */
enum fg_code dist_ingest_too_large(struct fg_err *err);

/* Changes the error of a pprof or a recording into one with status 422, and returns its code. */
enum fg_code dist_ingest_profile_error(struct fg_err *err);

/* ---- the formats: each decodes ingest->body and passes its batches to dist_upload_add() ---- */

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
