/* Parses the XML responses of object stores. No I/O. */
#ifndef FG_COMMON_STORAGE_BUCKET_S3_ANSWER_H
#define FG_COMMON_STORAGE_BUCKET_S3_ANSWER_H

#include "common/net/aws/answer.h"
#include "common/storage/bucket/bucket.h"

enum { S3_ID_BYTES = 1100 }; /* upload ids are opaque and have about 150 bytes */

/*
 * Copies the text of the element `name` that is a child of the root element `document`: UploadId of
 * InitiateMultipartUploadResult, ETag of CompleteMultipartUploadResult. FG_E_CORRUPT: it is missing
 * or longer than size.
 */
enum fg_code fg_s3_read_field(struct fg_slice xml, const char *document, const char *name,
                              char *out, size_t size, struct fg_err *err) fg_must_check;

/*
 * Parses a page of ListObjectsV2 (requested with encoding-type=url) into the entries of the
 * request, sorted, and `next`. prefix: the prefix of all names in the store, "" or ending with '/'.
 * Skips keys that are not valid names. FG_E_CORRUPT.
 */
enum fg_code fg_s3_read_list(struct fg_slice xml, struct fg_slice prefix,
                             struct fg_bucket_request *request, struct fg_err *err) fg_must_check;

/* An entry of ListMultipartUploads (requested with encoding-type=url). */
struct fg_s3_upload {
    const char *key; /* whole */
    const char *id;
    int64_t initiated_wall_ns;
};
struct fg_s3_uploads {
    struct fg_arena *arena; /* of all fields below; set by the caller */
    struct fg_s3_upload *items;
    size_t n;
    const char *next_key, *next_id; /* NULL: that was the last page */
};
/* Parses a page of ListMultipartUploads. FG_E_CORRUPT. */
enum fg_code fg_s3_read_uploads(struct fg_slice xml, struct fg_s3_uploads *ret_uploads,
                                struct fg_err *err) fg_must_check;

/* Removes the quotes of an etag. An etag that is too long or has unprintable characters becomes "".
 */
void fg_s3_read_etag(struct fg_slice text, struct fg_bucket_etag *ret_etag);

#endif
