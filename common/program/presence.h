/*
 * What a program of a cluster says of itself in the bucket, for the status page: distributors,
 * compactors and queriers take no calls, so an admin could not see which of them run, in which
 * version and with which settings.
 *
 * The object members/<role>/<name>/<started>_<version>_<revision> (common/cluster/manifest/name.h)
 * has the settings in force, secrets masked, as GET /api/settings has them. Neither they nor the
 * name change while a process runs, so the object is written without a condition, every five
 * minutes: the time of its last write, by the clock of the store, says that the process was there.
 * Times are compared only with each other. A process that has not written for a quarter of an hour
 * is not listed; after a day any process of its role removes the object. One that ends in order
 * removes its own.
 *
 * No decision depends on it. A process that may not write to the bucket runs as well, and is not
 * listed; the log says so once.
 *
 * Thread: create, start, stop and destroy from the owner; list and read from any that may wait.
 */
#ifndef FG_COMMON_PROGRAM_PRESENCE_H
#define FG_COMMON_PROGRAM_PRESENCE_H

#include "common/base/arena.h"
#include "common/base/time.h"
#include "common/cluster/manifest/name.h"
#include "common/storage/bucket/bucket.h"

enum {
    FG_PRESENCE_CONTENT_MAX_BYTES = 1024 * 1024, /* a few hundred settings with a sentence each */
    FG_PRESENCE_LIST_MAX = 2000, /* objects that are looked at; further ones are not */
};

struct fg_presence;

/* Copies name and content. Makes no request yet. FG_E_INVALID: the name is not valid. The bucket
 * and the clock are borrowed until destroy. */
enum fg_code fg_presence_create(struct fg_bucket *bucket, struct fg_clock *clock,
                                const struct fg_presence_name *name, struct fg_slice content,
                                struct fg_presence **ret_presence,
                                struct fg_err *err) fg_must_check;

/* Starts the thread that writes the object, the first time at once. FG_E_UNAVAILABLE: no more
 * threads. */
enum fg_code fg_presence_start(struct fg_presence *presence, struct fg_err *err) fg_must_check;

/* Cancels a write under way, ends the thread and removes the object, if the bucket allows it within
 * two seconds. Accepts NULL, and one that was not started. */
void fg_presence_stop(struct fg_presence *presence);

/* Frees it. It was stopped, or never started. Accepts NULL. */
void fg_presence_destroy(struct fg_presence *presence);

/* Writes the object, and once an hour removes those of its role that are a day older: what the
 * thread does periodically. For tests. */
enum fg_code fg_presence_step(struct fg_presence *presence, struct fg_err *err) fg_must_check;

/* A process that was there a quarter of an hour ago or later. */
struct fg_present {
    struct fg_presence_name name;
    int64_t seen_ms; /* by the clock of the store */
};

/* Lists the processes of all roles by role and name, of several starts of one the last, in the
 * arena. Errors of the bucket; FG_E_LIMIT: the arena is full. */
enum fg_code fg_presence_list(struct fg_bucket *bucket, int64_t deadline_mono_ns,
                              struct fg_arena *arena, struct fg_present **ret_present,
                              uint32_t *ret_count, struct fg_err *err) fg_must_check;

/* Appends what the process says of itself. FG_E_NOT_FOUND: no such process is listed. FG_E_INVALID:
 * no process is called so. Errors of the bucket. */
enum fg_code fg_presence_read(struct fg_bucket *bucket, struct fg_slice role, struct fg_slice name,
                              int64_t deadline_mono_ns, struct fg_buf *out,
                              struct fg_err *err) fg_must_check;

#endif
