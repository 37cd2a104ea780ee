/* What object stores and STS answer, read from their XML; nothing here talks to them. */
#ifndef FG_COMMON_STORAGE_BUCKET_S3_ANSWER_H
#define FG_COMMON_STORAGE_BUCKET_S3_ANSWER_H

#include "common/storage/bucket/bucket.h"
#include "common/storage/bucket/s3_sign.h"

enum {
    S3_CODE_BYTES = 64,
    S3_ID_BYTES = 1100, /* upload ids have some 150 bytes; they are opaque */
};

/* <Error><Code>NoSuchKey</Code><Message>…</Message></Error>, STS has it in an <ErrorResponse> */
struct fg_s3_error {
    char code[S3_CODE_BYTES];               /* "": the answer was none of this form */
    char message[FG_ERR_MSG_MAX_BYTES / 2]; /* without control characters */
};
void fg_s3_read_error(struct fg_slice xml, struct fg_s3_error *ret_error);

/*
 * The text of the element `name` directly in the document's own, which is called `document`:
 * UploadId of InitiateMultipartUploadResult, ETag of CompleteMultipartUploadResult. FG_E_CORRUPT:
 * there is none, or no room for it.
 */
enum fg_code fg_s3_read_field(struct fg_slice xml, const char *document, const char *name,
                              char *out, size_t size, struct fg_err *err) fg_must_check;

/*
 * A page of ListObjectsV2 (asked for with encoding-type=url) into the request's entries, sorted,
 * and `next`. prefix: what all names of ours have before them, "" or with '/' at the end. What
 * cannot be a name of ours is left out. FG_E_CORRUPT.
 */
enum fg_code fg_s3_read_list(struct fg_slice xml, struct fg_slice prefix,
                             struct fg_bucket_request *request, struct fg_err *err) fg_must_check;

/* One of ListMultipartUploads (asked for with encoding-type=url). */
struct fg_s3_upload {
    const char *key; /* whole */
    const char *id;
    int64_t initiated_wall_ns;
};
struct fg_s3_uploads {
    struct fg_arena *arena; /* of all below; the caller's */
    struct fg_s3_upload *items;
    size_t n;
    const char *next_key, *next_id; /* NULL: that was the last page */
};
enum fg_code fg_s3_read_uploads(struct fg_slice xml, struct fg_s3_uploads *ret_uploads,
                                struct fg_err *err) fg_must_check;

/* AssumeRoleWithWebIdentityResponse. The texts are malloc's; the caller frees them. */
enum fg_code fg_s3_read_role(struct fg_slice xml, struct fg_s3_keys *ret_keys,
                             int64_t *ret_end_wall_ns, struct fg_err *err) fg_must_check;

/* "2024-01-31T12:00:00.000Z", the fraction may be missing; false: it is none. */
bool fg_s3_read_time(struct fg_slice text, int64_t *ret_wall_ns) fg_must_check;

/* An etag without its quotes, as it is kept; one that is too long or has others than printable
 * characters is "". */
void fg_s3_read_etag(struct fg_slice text, struct fg_bucket_etag *ret_etag);

#endif
