/*
 * The keys of sessions (sealed_cookie.h), which all queriers share: access/session-keys in the
 * bucket, changed by compare-and-swap. There are two. Every week somebody adds one, and the older
 * one goes. A new key seals only when it is 10 minutes old: by then every process has read it,
 * since each looks every 5 minutes, and at once when a cookie names a key that it does not know.
 *
 * With a master key (a file, `access.master_key_file`) the object has the keys encrypted, and
 * whoever can read the bucket cannot make sessions.
 *
 * Thread: create and destroy from the owner's; a thread of its own reads and writes; the rest from
 * any.
 */
#ifndef FG_COMMON_ACCESS_PEOPLE_SESSION_KEYS_H
#define FG_COMMON_ACCESS_PEOPLE_SESSION_KEYS_H

#include "common/access/keys/key_wrap.h"
#include "common/access/people/sealed_cookie.h"
#include "common/base/time.h"
#include "common/runtime/condition.h"
#include "common/storage/bucket/bucket.h"

#define FG_SESSION_KEYS_NAME "access/session-keys"

struct fg_session_keys;

struct fg_session_keys_config {
    struct fg_clock *clock;           /* borrowed; wall time */
    struct fg_conditions *conditions; /* borrowed; NULL: none */
    struct fg_key_wrap *master; /* wraps the keys; borrowed; NULL: they are stored as they are */
};

/* Creates it, without a thread and without keys. */
struct fg_session_keys *fg_session_keys_create(const struct fg_session_keys_config *config);
/* Frees it, after fg_session_keys_stop(). Accepts NULL. */
void fg_session_keys_destroy(struct fg_session_keys *keys);

/* Starts the thread, which reads the keys at once. The bucket is borrowed until
 * fg_session_keys_stop(). FG_E_UNAVAILABLE: no more threads. */
enum fg_code fg_session_keys_start(struct fg_session_keys *keys, struct fg_bucket *bucket,
                                   struct fg_err *err) fg_must_check;
/* Ends the thread; the keys stay known. Does nothing if it was not started. No
 * fg_session_keys_want() meanwhile. */
void fg_session_keys_stop(struct fg_session_keys *keys);

/* Returns the keys that are known; none at first. */
struct fg_cookie_keys fg_session_keys_get(struct fg_session_keys *keys);

/* Looks at the bucket soon, since a cookie has a key that is not known; at most every 10 seconds,
 * because strangers can name any key. */
void fg_session_keys_want(struct fg_session_keys *keys);

/* Reads the keys, and adds one if it is time, as the thread does; for tests. FG_E_CORRUPT: the
 * object is damaged, or was written with another master key. Errors of the bucket. */
enum fg_code fg_session_keys_look(struct fg_session_keys *keys, struct fg_bucket *bucket,
                                  struct fg_err *err);

#endif
