/*
 * Says in the bucket that this compactor is there, and follows which others are: the thread that
 * keeps the list of mates.h, manifests/compactors. What it costs is a get a quarter of a minute,
 * nearly always without an answer's body, and a put a minute; where others' tenants are asked
 * about, four puts a minute at most.
 *
 * Thread: create, start, stop and destroy from the owner; the rest from any.
 */
#ifndef FG_COMPACTOR_PRESENCE_H
#define FG_COMPACTOR_PRESENCE_H

#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

/* All borrowed. */
struct cmp_presence_config {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    const char *name; /* another one for each compactor of the bucket, as a member's of a ring */
};

struct cmp_presence;

/* FG_E_INVALID: not a name. */
enum fg_code cmp_presence_create(const struct cmp_presence_config *config,
                                 struct cmp_presence **ret_presence,
                                 struct fg_err *err) fg_must_check;

/* Waits until the list was read and has this one in it; then keeps it so. The bucket's errors. */
enum fg_code cmp_presence_start(struct cmp_presence *presence, struct fg_err *err) fg_must_check;

/* Takes this one off the list, if the bucket lets it at once: else it counts as gone later. NULL is
 * fine. */
void cmp_presence_stop(struct cmp_presence *presence);
void cmp_presence_destroy(
    struct cmp_presence *presence); /* stopped, or never started; NULL is fine */

/* Reads the list, and writes it where that is due; what the thread does. For tests. */
enum fg_code cmp_presence_turn(struct cmp_presence *presence, struct fg_err *err) fg_must_check;

/* Is what has that name this one's (cmp_mates_own())? NULL: it is alone, so all is. */
bool cmp_presence_owns(struct cmp_presence *presence, struct fg_slice name) fg_must_check;

/* Somebody asked for something about this tenant: its own compactor, if that is another one, hears
 * of it within half a minute (cmp_presence_heard()). NULL is fine. */
void cmp_presence_ask(struct cmp_presence *presence, struct fg_slice tenant);

enum { PRESENCE_HEARD_MAX = 256 }; /* at a time */

/* Hashes of tenants of this one's that others were asked about; each is given once. NULL: none. */
uint32_t cmp_presence_heard(struct cmp_presence *presence, uint64_t tenants[PRESENCE_HEARD_MAX]);

/* How many there are, this one among them; NULL: 1. */
uint32_t cmp_presence_count(struct cmp_presence *presence);

#endif
