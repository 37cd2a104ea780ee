/*
 * Keeps this process in a list of members in the bucket and follows who else is there: the shell of
 * membership_core.h. A thread reads the list every 15 s, mostly unchanged and without a body, and
 * writes it once a minute; notices may raise that to four writes a minute.
 *
 * Thread: create, start, stop and destroy from the owner; all others from any thread.
 */
#ifndef FG_COMMON_CLUSTER_MEMBERSHIP_MEMBERSHIP_H
#define FG_COMMON_CLUSTER_MEMBERSHIP_MEMBERSHIP_H

#include "common/base/time.h"
#include "common/storage/bucket/bucket.h"

/* Copied; the texts are borrowed until destroy. */
struct fg_membership_config {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    const char *object; /* the list's name in the bucket */
    const char *kind;   /* what the members are, for error texts: "compactor" */
    const char *name;   /* of this member, unique in the list */
};

struct fg_membership;

/* Creates it; makes no request yet. FG_E_INVALID: the name is not valid. */
enum fg_code fg_membership_create(const struct fg_membership_config *config,
                                  struct fg_membership **ret_membership,
                                  struct fg_err *err) fg_must_check;

/* Waits until the list was read and has this member in it, then starts the thread. Errors of the
 * bucket. */
enum fg_code fg_membership_start(struct fg_membership *membership,
                                 struct fg_err *err) fg_must_check;

/* Stops the thread and removes this member from the list, if the bucket allows it within 5 s;
 * otherwise the others find it gone some minutes later. Accepts NULL. */
void fg_membership_stop(struct fg_membership *membership);

/* Frees it. It was stopped, or never started. Accepts NULL. */
void fg_membership_destroy(struct fg_membership *membership);

/* Reads the list, and writes it if that is due: what the thread does periodically. For tests. */
enum fg_code fg_membership_step(struct fg_membership *membership, struct fg_err *err) fg_must_check;

/* Returns true if this member owns the key (fg_membership_core_owns()). NULL, a process without
 * other members, owns everything. */
bool fg_membership_owns(struct fg_membership *membership, struct fg_slice key) fg_must_check;

/* Gives notice of the key to its owner, if that is another member: it learns of it within half a
 * minute, by fg_membership_notices(). Accepts NULL. */
void fg_membership_notify(struct fg_membership *membership, struct fg_slice key);

enum { FG_MEMBERSHIP_NOTICES_MAX = 256 }; /* returned at once */

/* Takes the notices that others gave of keys of this member: writes the keys' hashes and returns
 * how many. Each is returned once. NULL: 0. */
uint32_t fg_membership_notices(struct fg_membership *membership,
                               uint64_t keys[FG_MEMBERSHIP_NOTICES_MAX]);

/* Returns how many members there are, this one included; NULL: 1. */
uint32_t fg_membership_count(struct fg_membership *membership);

#endif
