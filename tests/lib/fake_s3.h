/*
 * An object store that speaks the part of S3's protocol that we use, keeps its objects in memory,
 * and does wrong what a test asks for. Requests with bodies of up to 32 KiB. STS answers at POST /.
 */
#ifndef FG_TESTS_LIB_FAKE_S3_H
#define FG_TESTS_LIB_FAKE_S3_H

#include "common/base/buf.h"

enum fake_fault {
    FAULT_NONE,
    FAULT_RESET,         /* nothing is done, and the connection ends */
    FAULT_LOSE,          /* done, and the connection ends */
    FAULT_LOSE_REPLACED, /* the same, and somebody else has put another since */
    FAULT_LOSE_DELETED,  /* the same, and it is deleted */
    FAULT_500_DONE,      /* done, and the answer is InternalError */
    FAULT_502,           /* nothing is done; a proxy's page */
    FAULT_503,           /* nothing is done; SlowDown */
    FAULT_409,           /* nothing is done; ConditionalRequestConflict */
    FAULT_403,           /* nothing is done; AccessDenied */
    FAULT_EXPIRED,       /* nothing is done; ExpiredToken */
    FAULT_FULL,          /* nothing is done; 507 */
    FAULT_200_ERROR,     /* nothing is done; 200 with InternalError in the body */
    FAULT_200_NO_UPLOAD, /* nothing is done, the upload is forgotten; 404 NoSuchUpload */
    FAULT_JUNK,          /* done; 200 with a body that is none */
    FAULT_CUT,           /* done, and the answer's body breaks off in the middle */
    FAULT_OTHER_RANGE,   /* a range is given as another one */
    FAULT_NO_ETAG,       /* done, and the answer does not say its etag */
    FAULT_SILENT,        /* nothing is done, and there is no answer */
};

struct fake_s3_rules {
    bool no_if_none_match, no_if_match; /* passed over */
    bool no_multipart_conditions, no_delete_conditions;
    bool no_metadata, no_ranges;
    bool wants_role;  /* takes only the keys that STS gave last */
    int64_t role_ns;  /* how long they are good for */
    int64_t ahead_ns; /* its clock is of ours: in times of uploads and of lists of them; 0: not told
                       * with lists */
    bool sts_fails;
};

struct fake_s3;
struct fake_s3 *fake_s3_start(void);
void fake_s3_stop(struct fake_s3 *s3);
unsigned fake_s3_port(const struct fake_s3 *s3);
void fake_s3_set(struct fake_s3 *s3, const struct fake_s3_rules *rules);

/* The next `count` requests whose first line has the text in it. A second one is for those after.
 */
void fake_s3_fail(struct fake_s3 *s3, const char *line_has, enum fake_fault fault, unsigned count);

/* How many requests' first lines had the text in them. */
unsigned fake_s3_count(struct fake_s3 *s3, const char *line_has);
/* Was there a request whose head had the text in it? */
bool fake_s3_saw(struct fake_s3 *s3, const char *head_has);

/* What is there by now. */
unsigned fake_s3_uploads(struct fake_s3 *s3); /* unfinished */
/* The content, copied; false: none. */
bool fake_s3_get(struct fake_s3 *s3, const char *key, struct fg_buf *out);
/* As if others had put it; uploads as if begun that long ago. */
void fake_s3_put(struct fake_s3 *s3, const char *key, const char *content);
void fake_s3_age_uploads(struct fake_s3 *s3, int64_t by_ns);

#endif
