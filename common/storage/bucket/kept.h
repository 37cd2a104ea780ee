/*
 * Kept versions: copies of the last versions of objects that change in place (the L0 manifest, the
 * ring, tenants' manifests), for `flamegrid bucket rebuild` to use if the object is lost. Each has
 * two places that are written in turn:
 *
 *   manifests/kept/l0/0, .../1     manifests/kept/ring/0     manifests/kept/tenants/acme/manifest/1
 *
 * A process that swapped an object offers the new bytes. It writes a copy in the background, at
 * most every FG_KEPT_EVERY_NS per object: an offer copies the bytes and returns. A failed copy is
 * not repeated, because the next offer is newer anyway. So commits neither wait for copies nor fail
 * because of them.
 *
 * Copies are written unconditionally, so a late one may overwrite a newer one. Both are valid
 * versions, and the counters inside tell which is newer.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_KEPT_H
#define FG_COMMON_STORAGE_BUCKET_KEPT_H

#include "common/base/slice.h"
#include "common/base/time.h"
#include "common/runtime/metrics.h"

struct fg_bucket;
struct fg_kept;

enum {
    FG_KEPT_PLACES = 2,
    FG_KEPT_NAME_MAX_BYTES = 512, /* with the NUL */
};

#define FG_KEPT_EVERY_NS (10 * FG_MINUTE_NS)
#define FG_KEPT_PREFIX   "manifests/kept/"

/* Sets bucket->kept, once per bucket. All arguments are borrowed until the bucket is closed, which
 * cancels copies under way and waits for them. */
void fg_kept_attach(struct fg_bucket *bucket, struct fg_registry *registry, struct fg_clock *clock);

/* Offers the new bytes of an object; copies them if a copy is due. Never waits. kept NULL (tests
 * and tools): does nothing. */
void fg_kept_offer(struct fg_kept *kept, const char *object, struct fg_slice bytes);

/* Writes the name of a copy to out, NUL-terminated: FG_KEPT_PREFIX, the object's name without its
 * "manifests/", and place ("0", "1", or another distinct suffix). */
void fg_kept_name(char out[FG_KEPT_NAME_MAX_BYTES], const char *object, const char *place);

#endif
