/*
 * Kept versions: copies of the last versions of objects that change in place (the L0 manifest, the
 * ring, tenants' manifests), for `flamegrid bucket rebuild` to use if the object is lost. Each has
 * two places that are written in turn:
 *
 *   manifests/kept/l0/0, .../1     manifests/kept/ring/0     manifests/kept/tenants/acme/manifest/1
 *
 * Whoever swapped an object offers the new bytes. A copy is written at most every FG_KEPT_EVERY_NS
 * for each object and process, in the background: an offer copies the bytes and returns. A copy
 * that fails is not tried again; the next offer is a newer version anyway. So a commit never waits
 * for one, and never fails because of one.
 *
 * A copy is written without a condition, so one that arrives late may take the place of a newer
 * one: both are right versions of their time, and their own counters tell which is newer.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_BUCKET_KEPT_H
#define FG_COMMON_BUCKET_KEPT_H

#include "common/base/slice.h"
#include "common/base/time.h"
#include "common/run/metrics.h"

struct fg_bucket;
struct fg_kept;

enum {
    FG_KEPT_PLACES = 2,
    FG_KEPT_NAME_MAX_BYTES = 512, /* with the NUL */
};

#define FG_KEPT_EVERY_NS (10 * FG_MINUTE_NS)
#define FG_KEPT_PREFIX   "manifests/kept/"

/* All borrowed. */
struct fg_kept *fg_kept_create(struct fg_bucket *bucket, struct fg_registry *registry,
                               struct fg_clock *clock);
/* Cancels copies that are under way and waits for their end. NULL is fine. */
void fg_kept_destroy(struct fg_kept *kept);

/* Offers the bytes that the object of that name has since a moment ago; they are copied if they are
 * written at all. Never waits. kept NULL (tests and tools): nothing. */
void fg_kept_offer(struct fg_kept *kept, const char *object, struct fg_slice bytes);

/* Writes the name of a copy of the object to out, NUL-terminated. place: "0", "1", or what else
 * tells it apart. FG_KEPT_PREFIX and the object's name without its own "manifests/". */
void fg_kept_name(char out[FG_KEPT_NAME_MAX_BYTES], const char *object, const char *place);

#endif
