/*
 * The bucket: objects by name, with conditional writes. All that is durable outside of an
 * ingester's head is here: segments, blocks, manifests, the ring. One of the four interfaces
 * between our logic and the world: a directory (directory.h), S3 (s3.h), and those of
 * tests/lib/bucket_doubles.h; settings.h makes one from the settings.
 *
 * What holds for all of them:
 * - A put is whole or not there. Who reads sees one version, the newest that was acknowledged or a
 *   newer one, and what was acknowledged survives kill -9 and loss of power.
 * - Of several conditional writes that cannot all be right exactly one succeeds.
 * - An etag names one version of one object and does not come back with another one's content.
 * - FG_E_PRECONDITION is certain: the write was not done and will not be. After any other failure
 *   `unsure` says whether it may have been done (a lost answer), or may be done yet (a request on
 *   its way): read again and look. So what changes is written with a condition only, and a name
 *   that is written without one always gets the same content.
 *
 * Names: segments of UTF-8 with '/' between them; none is empty, "." or ".."; no control
 * characters. What is an object cannot be a folder of others as well ("a" and "a/b"): S3 would take
 * it, a directory cannot.
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
    FG_BUCKET_NAME_MAX_BYTES = 800, /* S3 has 1,024, and a prefix of the settings goes before it */
    FG_BUCKET_SEGMENT_MAX_BYTES = 200, /* file systems have 255 */
    FG_BUCKET_ETAG_BYTES = 128,        /* with the NUL; S3's have 34 to 42 */
    FG_BUCKET_PAGE_MAX = 1000,         /* entries of a list's page; S3's own limit */
};

struct fg_bucket_etag {
    char text[FG_BUCKET_ETAG_BYTES]; /* opaque, printable; "": none */
};

enum fg_bucket_verb {
    FG_BUCKET_GET,
    FG_BUCKET_HEAD,
    FG_BUCKET_PUT,    /* of `content`, or of the file `path` */
    FG_BUCKET_DELETE, /* what is not there is deleted: FG_OK */
    FG_BUCKET_LIST,
    FG_BUCKET_TIDY, /* remove what writers that died have left: temporary files, unfinished uploads
                     */
    FG_BUCKET_VERBS
};

enum fg_bucket_condition {
    FG_BUCKET_ALWAYS,
    FG_BUCKET_IF_ABSENT,  /* put */
    FG_BUCKET_IF_MATCH,   /* put, get, delete: only while `if_etag` is its etag */
    FG_BUCKET_IF_CHANGED, /* get: FG_OK and `unchanged`, without content, while `if_etag` is its
                             etag */
};

/* One line of a list. */
struct fg_bucket_entry {
    const char *name; /* whole; that of a folder ends with '/' */
    bool folder;      /* stands for all names that begin with it; the rest is zero */
    uint64_t size_bytes;
    int64_t modified_wall_ns; /* by the store's clock; S3 has whole seconds */
};

/*
 * One request. The caller sets the upper part, zeroes the rest, and keeps the whole and what it
 * names until done(). A request may be sent again after fg_bucket_clear().
 */
struct fg_bucket_request {
    enum fg_bucket_verb verb;
    const char *name; /* list: all names that begin with it, "" for all. Not of tidy */

    uint64_t offset, length;  /* get: a range; length 0: to the end. Beyond the end there is less */
    size_t content_max_bytes; /* get: of what is read; more is FG_E_TOO_LARGE */
    bool fresh; /* get: what a cache on the way has was found damaged; the store is to be asked */

    struct fg_slice content; /* put */
    const char *path;        /* put: a local file that nobody changes, any size; NULL: `content` */
    bool in_parts;           /* put: S3 sends parts whatever its size; for the proof only */

    enum fg_bucket_condition condition;
    struct fg_bucket_etag if_etag;

    /* list: by name, in byte order. */
    bool by_folder;    /* a folder below the name is one entry; else all objects are listed */
    unsigned page_max; /* 0: FG_BUCKET_PAGE_MAX, which is also the most */
    const char *after; /* NULL, or `next` of the page before */

    int64_t
        older_than_ns; /* tidy: unfinished uploads only from this age on, by the store's clock */

    int64_t deadline_mono_ns; /* 0: none */
    struct fg_loop *home;     /* where done() runs; NULL: on a thread of the bucket's */
    /* The end, whatever it is; may come before send returns where there is no home; must not
     * block. */
    void (*done)(struct fg_bucket_request *request);

    /*
     * The result.
     * FG_E_NOT_FOUND     get, head: no such object.
     * FG_E_PRECONDITION  the condition does not hold; certain. Also if-match of what is not there.
     * FG_E_TOO_LARGE     get: more than content_max_bytes.
     * FG_E_INVALID       the name, the condition with this verb, a range that begins beyond the
     *                    end, a file that is none; or the store found fault with the request.
     * FG_E_DENIED        credentials or permissions.
     * FG_E_NO_SPACE      the disk or quota is full. Nothing was written.
     * FG_E_LIMIT         too many requests wait already; nothing was sent.
     * FG_E_UNAVAILABLE   store or network, after all retries; FG_E_DEADLINE, FG_E_CANCELED.
     * FG_E_CORRUPT       what came is not what the store said it would be, on every try.
     * FG_E_UNIMPLEMENTED the store cannot do that.
     */
    enum fg_code code;
    struct fg_err err;          /* begins with the verb and the name */
    bool unsure;                /* put, delete that failed: may have been done */
    bool unchanged;             /* get if-changed */
    struct fg_buf body;         /* get */
    struct fg_bucket_etag etag; /* get, head, put: of the version that was read or made */
    uint64_t size_bytes;      /* get, head, put: of the whole object; tidy: how many were removed */
    int64_t modified_wall_ns; /* head */
    int64_t answered_wall_ns; /* get: when, by the store's clock (S3: whole seconds); 0: it has none
                                 but ours, or does not say */
    /* put: a number that it left with the object, the same on every try; head: reads it back. So
     * whose answer was lost can tell whether what is there is its own. Zero: the store needs none.
     */
    struct fg_id tag;
    struct fg_bucket_entry *entries; /* list */
    size_t n_entries;
    char *next; /* list: opaque, for `after` of the next page; NULL: that was the last */

    /* The bucket's own. */
    struct fg_arena *arena; /* of entries and next */
    int64_t begun_mono_ns;
    _Atomic bool cancelled;
    uint64_t serial; /* of the request; the bucket's, to find it by */
    struct fg_msg msg;
    /* A wave's own. */
    struct fg_bucket_wave *wave;
    struct fg_bucket *bucket;
    struct fg_bucket_request *before, *after_it;
};

struct fg_bucket {
    const struct fg_bucket_ops *ops;
    struct fg_damage *damage; /* where it is told of; closed with the bucket; NULL: nowhere */
    struct fg_kept *kept; /* backup copies of objects that change in place (kept.h); NULL: none */
    void (*on_close)(struct fg_bucket *bucket); /* frees what was attached to the bucket and sends
                                                 * requests of its own; NULL: nothing was */
    bool is_local;      /* conditions are kept by us, and a disk that is full proves nothing */
    bool plain_deletes; /* found by the proof: a delete's condition would be passed over, so it is
                         * FG_E_UNIMPLEMENTED */
};

struct fg_bucket_ops {
    void (*send)(struct fg_bucket *bucket, struct fg_bucket_request *request);
    void (*cancel)(struct fg_bucket *bucket, struct fg_bucket_request *request);
    void (*close)(struct fg_bucket *bucket);
};

/* Begins; done() comes in any case. */
void fg_bucket_send(struct fg_bucket *bucket, struct fg_bucket_request *request);

/* A wish: done() comes all the same, soon, with FG_E_CANCELED or with what had been reached. Only
 * between send and done(). */
void fg_bucket_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request);

/* Frees what the result holds; on a zeroed request too. */
void fg_bucket_clear(struct fg_bucket_request *request);

/* No request is under way. Waits for threads: not from a done(). NULL is fine. */
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

/* NULL, or what is wrong with an object's name ("has an empty segment"). */
const char *fg_bucket_name_fault(const char *name) fg_must_check;

/* --- straight-line code on a worker's thread: never on a loop --- */

/* Sends and waits. Returns request->code; home and done are set by this function. */
enum fg_code fg_bucket_call(struct fg_bucket *bucket, struct fg_bucket_request *request);

/*
 * Lets one thread cancel the calls of another. A service that has to end uses it, because its
 * threads may be waiting for a bucket that is slow or hangs.
 */
struct fg_bucket_stop;
struct fg_bucket_stop *fg_bucket_stop_create(void);
/* Frees it. Call it when no call uses it any more. Accepts NULL. */
void fg_bucket_stop_destroy(struct fg_bucket_stop *stop);
/* Cancels the call that is under way, and each one from now on: they return FG_E_CANCELED, or what
 * was reached before. Does not wait for them. Any thread. */
void fg_bucket_stop_all(struct fg_bucket_stop *stop);

/* As fg_bucket_call(), for one thread at a time; NULL: it cannot be stopped. */
enum fg_code fg_bucket_call_until(struct fg_bucket *bucket, struct fg_bucket_request *request,
                                  struct fg_bucket_stop *stop);

/*
 * A wave: many requests under way at once, and taken as they end.
 *
 *     fg_auto(fg_bucket_wave) *wave = fg_bucket_wave_create();
 *     for (...)
 *         fg_bucket_wave_send(wave, bucket, &reads[i]);
 *     while ((request = fg_bucket_wave_next(wave)) != NULL)
 *         ...
 *
 * Each has its own deadline. One thread at a time, but cancel, which may come from any while the
 * wave lives.
 */
struct fg_bucket_wave;
struct fg_bucket_wave *fg_bucket_wave_create(void);
/* Cancels what is under way and waits for it. NULL is fine. */
void fg_bucket_wave_destroy(struct fg_bucket_wave *wave);
FG_AUTO(fg_bucket_wave, fg_bucket_wave_destroy)
void fg_bucket_wave_send(struct fg_bucket_wave *wave, struct fg_bucket *bucket,
                         struct fg_bucket_request *request);
/* Waits for one that has ended and was not given yet; NULL: there is none any more. */
struct fg_bucket_request *fg_bucket_wave_next(struct fg_bucket_wave *wave);
/* The same without waiting; NULL: there is none now. */
struct fg_bucket_request *fg_bucket_wave_poll(struct fg_bucket_wave *wave);
/* For who waits elsewhere: on_end is called for each that ends, on any thread and under the wave's
 * lock, so it only hands over. Before anything is sent. */
void fg_bucket_wave_on_end(struct fg_bucket_wave *wave, void (*on_end)(void *arg), void *arg);
/* Waits for all. FG_OK, or the code and sentence of one that failed; then the others were
 * cancelled. Those that ended are still given by next. */
enum fg_code fg_bucket_wave_wait(struct fg_bucket_wave *wave, struct fg_err *err) fg_must_check;
/* Cancels all that are under way, and those that are sent from now on. */
void fg_bucket_wave_cancel(struct fg_bucket_wave *wave);

/*
 * Everything that begins with prefix, page by page, until each() says false; by_folder as in a
 * request. FG_OK at the end of either kind.
 */
enum fg_code fg_bucket_each(struct fg_bucket *bucket, const char *prefix, bool by_folder,
                            int64_t deadline_mono_ns,
                            bool (*each)(const struct fg_bucket_entry *entry, void *arg), void *arg,
                            struct fg_err *err) fg_must_check;

/*
 * Proves that conditional writes work here, with objects below "proof/" that it removes again: our
 * protocol stands on them, and there are stores that pass over conditions they do not know.
 * FG_E_UNIMPLEMENTED: they do not, and which one how; anything else: it could not be found out,
 * which for a directory whose disk is full is FG_OK: what is there can be read. Some thirty
 * requests. Before others use the bucket.
 */
enum fg_code fg_bucket_startup_check(struct fg_bucket *bucket, int64_t deadline_mono_ns,
                                     struct fg_err *err) fg_must_check;

#endif
