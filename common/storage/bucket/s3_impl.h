/* Internals that the files of the S3 bucket share. */
#ifndef FG_COMMON_STORAGE_BUCKET_S3_IMPL_H
#define FG_COMMON_STORAGE_BUCKET_S3_IMPL_H

#include "common/net/aws/credentials.h"
#include "common/net/aws/request.h"
#include "common/net/client.h"
#include "common/runtime/work.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/bucket/meter.h"
#include "common/storage/bucket/s3.h"
#include "common/storage/bucket/s3_answer.h"

#include <semaphore.h>

enum {
    S3_ANSWER_MAX_BYTES = 4 * 1024 * 1024, /* a page of the longest keys has 3 MB, encoded */
    S3_ERROR_MAX_BYTES = 64 * 1024,        /* the body of an error response */
};

/* The keys. Only the loop uses them, except for the job. */
struct fg_s3_auth {
    struct fg_aws_credentials credentials;
    bool looking; /* the job runs */
    struct fg_job job;
};

struct fg_s3 {
    struct fg_bucket bucket;
    struct fg_bucket_s3_config config; /* its texts are owned and never NULL */
    struct fg_bucket_meter meter;
    struct fg_loop *loop;
    struct fg_client *client;
    struct fg_work *work;
    struct fg_client_tls tls;
    char *origin; /* "https://bucket.host:port" */
    char *host;   /* of the header, and signed */
    char *root;   /* path of an object: root, then its name, encoded */
    char *bucket_path;
    char *prefix; /* of all keys: "" or with '/' at its end */

    /* Only the loop uses these. */
    bool closing;
    struct fg_s3_auth auth;
    struct fg_s3_call *first, *last; /* under way */
    unsigned n_calls;
    uv_timer_t timer;
    int64_t timer_mono_ns; /* when it is due; INT64_MAX: it does not run */
    double retries_left;   /* of the budget */
    int64_t retries_mono_ns;
    uint64_t draws;
};

enum fg_s3_call_state { S3_CALL_NEW, S3_CALL_NO_KEYS, S3_CALL_RUNNING, S3_CALL_ASLEEP };

/*
 * One call to the store, with all its tries.
 *
 *   NEW --> NO_KEYS --> RUNNING --> done()
 *     \----------------^  |  ^
 *                         v  |
 *                        ASLEEP       before the next try
 */
struct fg_s3_call {
    /* Set by the caller, which keeps all that these point to until done(). */
    struct fg_s3 *s3;
    const char *method;
    const char *path, *query; /* encoded; the query's parameters in order, each with '=' */
    struct fg_aws_header headers[FG_AWS_HEADERS_MAX - FG_AWS_HEADERS_ADDED];
    size_t n_headers;
    struct fg_slice body;
    enum fg_bucket_class class;
    bool once;          /* see fg_client_request */
    bool ranged;        /* a 200 instead of a 206 is an error */
    unsigned tries_max; /* 0: as configured */
    int64_t deadline_mono_ns;
    uint64_t serial;               /* of the request that can be cancelled; 0: none */
    const _Atomic bool *cancelled; /* NULL: never */
    struct fg_buf *into;           /* of a 2xx; initialised with its limit, cleared for each try */
    /* Checks a 2xx: FG_OK, or the error that it contains (S3 may send one with a 200). On the loop.
     */
    enum fg_code (*check)(struct fg_s3_call *call, struct fg_aws_error *error);
    void (*done)(struct fg_s3_call *call); /* on the loop */

    /*
     * The result. FG_OK: 2xx or 304. Else by status and the error's code: FG_E_NOT_FOUND,
     * FG_E_PRECONDITION, …; FG_E_ABORTED: start again (the store removed the upload).
     */
    enum fg_code code;
    struct fg_err err;
    unsigned status; /* of the last try; 0: no answer */
    bool unsure;     /* a try had no response or an inconclusive one, so it may have been done */
    struct fg_aws_error error;
    struct fg_client_request http; /* the head of the last answer */

    /* Private to the call. */
    enum fg_s3_call_state state;
    unsigned tries;
    int64_t sent_mono_ns, wake_mono_ns;
    uint64_t generation; /* of the keys it was signed with */
    bool renewed, misfit;
    struct fg_arena *arena;
    struct fg_msg msg;
    sem_t ended;
    struct fg_s3_call *before, *after;
};

/* Returns the clock for signatures. */
static inline struct fg_clock *fg_s3_clock(const struct fg_s3 *s3)
{
    return s3->config.clock == NULL ? fg_clock_real() : fg_cluster_clock(s3->config.clock);
}

/* Returns the time in a header of the last response; 0: missing or invalid. */
int64_t fg_s3_time_of(const struct fg_s3_call *call, const char *header);

/* ---- s3_call.c ---- */

/* All of these run on the loop, except fg_s3_call_start() and fg_s3_call_run(). */

/* Start and end the handling of calls. */
void fg_s3_calls_init(struct fg_s3 *s3);
void fg_s3_calls_done(struct fg_s3 *s3);

/* Adds a header that is signed. The value is borrowed. */
void fg_s3_call_header(struct fg_s3_call *call, const char *name, const char *value);

/* Starts a call on the loop. Any thread. */
void fg_s3_call_start(struct fg_s3_call *call);
/* Starts a call and waits for it. On a worker. Returns call->code. */
enum fg_code fg_s3_call_run(struct fg_s3_call *call);
/* The two halves of fg_s3_call_run(). */
void fg_s3_call_begin(struct fg_s3_call *call);
enum fg_code fg_s3_call_wait(struct fg_s3_call *call);

/* Ends the calls of a request that was cancelled. */
void fg_s3_calls_cancel(struct fg_s3 *s3, uint64_t serial);
/* Continues the calls that wait for keys, if there are none (usable) with an error. */
void fg_s3_calls_with_keys(struct fg_s3 *s3, bool usable);
/* Sets the timer to that time, unless it is due earlier. */
void fg_s3_wake_at(struct fg_s3 *s3, int64_t mono_ns);

/* Frees the memory of the result. */
void fg_s3_call_clear(struct fg_s3_call *call);

/* ---- s3_keys.c ---- */

/* Reads the keys. Those of a role are requested by the first call. */
enum fg_code fg_s3_auth_init(struct fg_s3 *s3, struct fg_err *err) fg_must_check;
/* Returns whether there are keys, and gets new ones when it is time. On the loop. */
bool fg_s3_auth_ready(struct fg_s3 *s3);

/* ---- s3_write.c: on workers ---- */

/* Do the request and finish it. */
void fg_s3_put(struct fg_s3 *s3, struct fg_bucket_request *request);
void fg_s3_delete(struct fg_s3 *s3, struct fg_bucket_request *request);
void fg_s3_clean_up(struct fg_s3 *s3, struct fg_bucket_request *request);

/* ---- s3.c ---- */

/* Makes a call for the object of the request or, without a name, for the bucket. The path is in the
 * arena. */
void fg_s3_call_init(struct fg_s3_call *call, struct fg_s3 *s3, struct fg_bucket_request *request,
                     const char *method, const char *name, struct fg_arena *arena);
/* Fails the request with the error of the call. */
void fg_s3_fail_by(struct fg_bucket_request *request, const struct fg_s3_call *call);
/* Adds If-Match or If-None-Match according to the request. Texts are in the arena. */
void fg_s3_add_condition(struct fg_s3_call *call, const struct fg_bucket_request *request,
                         struct fg_arena *arena);
/* Reads etag, size and time from the head of the response. Returns false if they are missing. */
bool fg_s3_read_head(struct fg_bucket_request *request, const struct fg_s3_call *call);
/* Counts the request and finishes it. */
void fg_s3_finish(struct fg_s3 *s3, struct fg_bucket_request *request);

#endif
