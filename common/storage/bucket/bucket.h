/*
 * A bucket stores objects by name, with conditional writes. It has all durable data outside of the
 * heads of ingesters: segments, blocks, manifests, the ring. It is one of the four interfaces
 * between our logic and the world. Implementations are a directory (directory.h), S3 (s3.h), and
 * those of tests/lib/bucket_doubles.h; settings.h opens the one that the settings name.
 *
 * Every implementation guarantees:
 * - A put is atomic. A reader sees the newest acknowledged version or a newer one, and an
 *   acknowledged write survives kill -9 and loss of power.
 * - Of several conditional writes that exclude each other, exactly one succeeds.
 * - An etag names one version of one object and is never reused for other content.
 * - FG_E_PRECONDITION is certain: the write was not done and will not be. After any other failure,
 *   `unsure` tells whether the write may have been done (the response was lost) or may still be
 *   done (the request is under way). Read the object then. So objects that change are written with
 *   a condition only, and a write without a condition always has the same content for a name.
 *
 * Names are segments of UTF-8 separated by '/'. A segment is not empty, "." or "..", and has no
 * control characters. An object cannot be a folder of other objects as well ("a" and "a/b"): S3
 * would allow it, a directory cannot.
 *
 * Thread: send and cancel from any.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_BUCKET_H
#define FG_COMMON_STORAGE_BUCKET_BUCKET_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/runtime/loop.h"
#include "common/storage/bucket/damage.h"

#include <stdatomic.h>

enum {
    FG_BUCKET_NAME_MAX_BYTES = 800,    /* S3 allows 1,024, including the prefix of the settings */
    FG_BUCKET_SEGMENT_MAX_BYTES = 200, /* file systems allow 255 */
    FG_BUCKET_ETAG_BYTES = 128,        /* with the NUL; those of S3 have 34 to 42 */
    FG_BUCKET_PAGE_MAX = 1000,         /* entries of a list's page; S3's own limit */
};

struct fg_bucket_etag {
    char text[FG_BUCKET_ETAG_BYTES]; /* opaque, printable; "": none */
};

enum fg_bucket_verb {
    FG_BUCKET_GET,
    FG_BUCKET_HEAD,
    FG_BUCKET_PUT,    /* writes `content`, or the file `path` */
    FG_BUCKET_DELETE, /* FG_OK if the object does not exist */
    FG_BUCKET_LIST,
    FG_BUCKET_CLEAN_UP, /* removes temporary files and unfinished uploads of writers that died */
    FG_BUCKET_VERBS
};

enum fg_bucket_condition {
    FG_BUCKET_ALWAYS,
    FG_BUCKET_IF_ABSENT,  /* put */
    FG_BUCKET_IF_MATCH,   /* put, get, delete: only if the etag is `if_etag` */
    FG_BUCKET_IF_CHANGED, /* get: FG_OK and `unchanged` without content if the etag is `if_etag` */
};

/* One entry of a list. */
struct fg_bucket_entry {
    const char *name; /* the whole name; that of a folder ends with '/' */
    bool folder;      /* stands for all names with this prefix; all other fields are zero */
    uint64_t size_bytes;
    int64_t modified_wall_ns; /* by the clock of the store; S3 has whole seconds */
};

/*
 * A request. The caller sets the upper part, zeroes the rest, and keeps the struct and all that it
 * points to until done(). A request may be sent again after fg_bucket_clear().
 */
struct fg_bucket_request {
    enum fg_bucket_verb verb;
    const char *name; /* list: the prefix of names, "" for all. Not used by clean-up */

    uint64_t offset,
        length; /* get: a range; length 0: to the end. A range beyond the end returns less */
    size_t content_max_bytes; /* get: more is FG_E_TOO_LARGE */
    bool fresh;               /* get: bypass caches, since a cached copy was damaged */

    struct fg_slice content; /* put */
    const char *path; /* put: a local file of any size that does not change; NULL: `content` */
    bool in_parts;    /* put: S3 sends parts even if it is small; for the startup check only */

    enum fg_bucket_condition condition;
    struct fg_bucket_etag if_etag;

    /* list: by name, in byte order. */
    bool by_folder;    /* a folder below the name is one entry; false: lists all objects */
    unsigned page_max; /* 0: FG_BUCKET_PAGE_MAX, which is also the maximum */
    const char *after; /* NULL, or `next` of the previous page */

    int64_t older_than_ns; /* clean-up: minimum age of unfinished uploads, by the store's clock */

    int64_t deadline_mono_ns; /* 0: none */
    struct fg_loop *home;     /* where done() runs; NULL: on a thread of the bucket */
    /* Called once at the end, in any case. Must not block. Without a home it may be called before
     * send returns. */
    void (*done)(struct fg_bucket_request *request);

    /*
     * The result.
     * FG_E_NOT_FOUND     get, head: no such object.
     * FG_E_PRECONDITION  the condition does not hold, for certain; also if-match of no object.
     * FG_E_TOO_LARGE     get: more than content_max_bytes.
     * FG_E_INVALID       bad name, a condition that the verb does not have, a range that begins
     *                    beyond the end, a file that is not regular; or the store refused the
     *                    request as invalid.
     * FG_E_DENIED        credentials or permissions.
     * FG_E_NO_SPACE      the disk or quota is full. Nothing was written.
     * FG_E_LIMIT         too many requests wait; nothing was sent.
     * FG_E_UNAVAILABLE   store or network, after all retries; FG_E_DEADLINE, FG_E_CANCELED.
     * FG_E_CORRUPT       the response did not match its own length or range on every try.
     * FG_E_UNIMPLEMENTED the store cannot do that.
     */
    enum fg_code code;
    struct fg_err err;          /* begins with the verb and the name */
    bool unsure;                /* put, delete that failed: it may have been done */
    bool unchanged;             /* get if-changed */
    struct fg_buf body;         /* get */
    struct fg_bucket_etag etag; /* get, head, put: of the version that was read or written */
    uint64_t size_bytes; /* get, head, put: of the whole object; clean-up: number of removed files
                            and uploads */
    int64_t modified_wall_ns; /* head */
    int64_t answered_wall_ns; /* get: time of the response by the clock of the store (S3: whole
                                 seconds); 0: unknown, or it is this machine's clock */
    /* put: a random number that is stored with the object, the same on every try; head: returns
     * it. So a writer whose response was lost can tell whether the object is its own. Zero: the
     * store does not need it. */
    struct fg_id tag;
    struct fg_bucket_entry *entries; /* list */
    size_t n_entries;
    char *next; /* list: opaque, for `after` of the next page; NULL: this was the last page */

    /* Private to the bucket. */
    struct fg_arena *arena; /* of entries and next */
    int64_t begun_mono_ns;
    _Atomic bool cancelled;
    uint64_t serial; /* identifies the request in the bucket */
    struct fg_msg msg;
    /* Private to the wave. */
    struct fg_bucket_wave *wave;
    struct fg_bucket *bucket;
    struct fg_bucket_request *before, *after_it;
};

struct fg_bucket {
    const struct fg_bucket_ops *ops;
    /* The bucket to which this one passes its requests on; borrowed. What follows is then that
     * one's: code that may be given such a bucket reads it by fg_bucket_base(). NULL: this one
     * passes on to none. */
    struct fg_bucket *wraps;
    /* Keys of the tenants whose blocks are encrypted (common/storage/seal/keys.h), for those who
     * read and write blocks; borrowed. NULL: there are none. */
    const struct fg_keys *keys;
    struct fg_damage *damage; /* records unusable objects; closed with the bucket; NULL: none */
    struct fg_kept *kept; /* backup copies of objects that change in place (kept.h); NULL: none */
    void (*on_close)(struct fg_bucket *bucket); /* frees what was attached to the bucket and sends
                                                 * requests of its own; NULL: nothing was */
    bool is_local; /* our own code checks conditions; a full disk does not fail the startup check */
    bool plain_deletes; /* set by the startup check: the store ignores conditions of deletes, so
                         * they are FG_E_UNIMPLEMENTED */
};

struct fg_bucket_ops {
    void (*send)(struct fg_bucket *bucket, struct fg_bucket_request *request);
    void (*cancel)(struct fg_bucket *bucket, struct fg_bucket_request *request);
    void (*close)(struct fg_bucket *bucket);
};

/* Returns the bucket that has the keys and all else that is attached: the innermost of those that
 * wrap each other; a bucket that wraps none itself. Any thread. */
static inline struct fg_bucket *fg_bucket_base(struct fg_bucket *bucket)
{
    while (bucket->wraps != NULL)
        bucket = bucket->wraps;
    return bucket;
}

/* Sends a request. done() is called in any case. */
void fg_bucket_send(struct fg_bucket *bucket, struct fg_bucket_request *request);

/* Asks to cancel a request between send and done(). done() is called soon, with FG_E_CANCELED or
 * with the result that was reached. */
void fg_bucket_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request);

/* Frees the memory of the result. Accepts a zeroed request. */
void fg_bucket_clear(struct fg_bucket_request *request);

/* Closes the bucket, when no request is under way. Waits for its threads, so do not call it from
 * done(). Accepts NULL. */
static inline void fg_bucket_close(struct fg_bucket *bucket)
{
    struct fg_damage *damage = bucket == NULL ? NULL : bucket->damage;

    if (bucket != NULL) {
        if (bucket->on_close != NULL)
            bucket->on_close(bucket);
        bucket->ops->close(bucket);
    }
    fg_damage_destroy(damage);
}
FG_AUTO(fg_bucket, fg_bucket_close)

/* Returns NULL, or the fault of an object's name ("has an empty segment"). */
const char *fg_bucket_name_fault(const char *name) fg_must_check;

/* --- straight-line code on a worker's thread: never on a loop --- */

/* Sends a request and waits for it. Sets home and done. Returns request->code. */
enum fg_code fg_bucket_call(struct fg_bucket *bucket, struct fg_bucket_request *request);

/*
 * Lets one thread cancel the calls and waves of others. A service that has to end uses it, because
 * its threads may be waiting for a bucket that is slow or hangs.
 */
struct fg_bucket_stop;
/* Creates it. */
struct fg_bucket_stop *fg_bucket_stop_create(void);
/* Frees it, when no call and no wave uses it. Accepts NULL. */
void fg_bucket_stop_destroy(struct fg_bucket_stop *stop);
/* Cancels all calls and waves under way and all later ones: they return FG_E_CANCELED, or the
 * result that was reached. Does not wait for them. Any thread. */
void fg_bucket_stop_all(struct fg_bucket_stop *stop);
/* Returns whether that was called. Any thread. NULL: false. */
bool fg_bucket_stopped(const struct fg_bucket_stop *stop);

/* Does fg_bucket_call() so that `stop` can cancel it. stop NULL: cannot be stopped. */
enum fg_code fg_bucket_call_until(struct fg_bucket *bucket, struct fg_bucket_request *request,
                                  struct fg_bucket_stop *stop);

/*
 * A wave has many requests under way at once and returns them as they end.
 *
 *     fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create();
 *     for (...)
 *         fg_bucket_wave_send(wave, bucket, &reads[i]);
 *     while ((request = fg_bucket_wave_next(wave)) != NULL)
 *         ...
 *
 * Each request has its own deadline. Thread: one at a time, except cancel, which any thread may
 * call.
 */
struct fg_bucket_wave;
struct fg_keys;
/* Creates an empty wave. */
struct fg_bucket_wave *fg_bucket_wave_create(void);
/* Creates an empty wave that `stop` cancels, as by fg_bucket_wave_cancel(). The wave is destroyed
 * first. stop NULL: as fg_bucket_wave_create(). */
struct fg_bucket_wave *fg_bucket_wave_create_until(struct fg_bucket_stop *stop);
/* Cancels all requests under way, waits for them and frees the wave. Accepts NULL. */
void fg_bucket_wave_destroy(struct fg_bucket_wave *wave);
FG_AUTO(fg_bucket_wave, fg_bucket_wave_destroy)
/* Sends a request in the wave. Sets home and done. */
void fg_bucket_wave_send(struct fg_bucket_wave *wave, struct fg_bucket *bucket,
                         struct fg_bucket_request *request);
/* Waits for a request to end and returns it. Returns NULL if none is left. */
struct fg_bucket_request *fg_bucket_wave_next(struct fg_bucket_wave *wave);
/* Does so for timeout_ns at most. Returns NULL also if no request has ended by then. */
struct fg_bucket_request *fg_bucket_wave_next_within(struct fg_bucket_wave *wave,
                                                     int64_t timeout_ns);
/* Returns a request that has ended, or NULL, without waiting. */
struct fg_bucket_request *fg_bucket_wave_poll(struct fg_bucket_wave *wave);
/* Sets a callback for each request that ends, for callers that wait elsewhere. It runs on any
 * thread under the lock of the wave, so it may only wake another thread. Call it before the first
 * send. */
void fg_bucket_wave_on_end(struct fg_bucket_wave *wave, void (*on_end)(void *arg), void *arg);
/* Waits for all requests. If one fails, cancels the others and returns its code and sentence.
 * fg_bucket_wave_next() still returns all of them. */
enum fg_code fg_bucket_wave_wait(struct fg_bucket_wave *wave, struct fg_err *err) fg_must_check;
/* Cancels all requests under way and those that are sent later. Any thread. */
void fg_bucket_wave_cancel(struct fg_bucket_wave *wave);

/*
 * Lists all names with that prefix, page by page, and calls each() for every entry until it returns
 * false. by_folder is that of a request. Returns FG_OK also if each() stopped it.
 */
enum fg_code fg_bucket_each(struct fg_bucket *bucket, const char *prefix, bool by_folder,
                            int64_t deadline_mono_ns,
                            bool (*each)(const struct fg_bucket_entry *entry, void *arg), void *arg,
                            struct fg_err *err) fg_must_check;

/* Does fg_bucket_each() so that `stop` can cancel it, as of fg_bucket_call_until(). */
enum fg_code fg_bucket_each_until(struct fg_bucket *bucket, const char *prefix, bool by_folder,
                                  int64_t deadline_mono_ns, struct fg_bucket_stop *stop,
                                  bool (*each)(const struct fg_bucket_entry *entry, void *arg),
                                  void *arg, struct fg_err *err) fg_must_check;

/*
 * Checks that conditional writes work, with objects below "proof/" that it removes again. Our
 * protocols depend on them, and some stores ignore conditions that they do not know. Call it before
 * other threads use the bucket. It sends about thirty requests. FG_E_UNIMPLEMENTED names the
 * request that showed the fault. All other errors mean that the check could not be completed; for a
 * directory on a full disk that is FG_OK, since its objects can be read.
 */
enum fg_code fg_bucket_startup_check(struct fg_bucket *bucket, int64_t deadline_mono_ns,
                                     struct fg_err *err) fg_must_check;

#endif
