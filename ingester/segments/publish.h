/*
 * A segment's way into the bucket: the L0 manifest is read, chunks become a file, the file an
 * object, the object an entry of the manifest. What is to be done when is decided elsewhere
 * (segments.h).
 *
 * Thread: one that may wait.
 */
#ifndef FG_INGESTER_SEGMENTS_PUBLISH_H
#define FG_INGESTER_SEGMENTS_PUBLISH_H

#include "common/runtime/disk.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"
#include "ingester/segments/build.h"
#include "ingester/segments/segments_core.h"

struct ing_publish;

/* All borrowed. */
struct ing_publish_config {
    struct fg_bucket *bucket;
    const char *scratch;        /* a folder of its own: what is left in it from before is removed */
    const struct fg_disk *disk; /* it is on; NULL: it is not watched */
    struct ing_build_head head;
    struct fg_registry *registry;
    struct fg_clock *clock;
    struct fg_bucket_stop *stop; /* ends what waits for the bucket: FG_E_CANCELED */
};

/* FG_E_UNAVAILABLE and others: the scratch folder cannot be read. */
enum fg_code ing_publish_create(const struct ing_publish_config *config,
                                struct ing_publish **ret_publish, struct fg_err *err) fg_must_check;
void ing_publish_destroy(struct ing_publish *publish); /* NULL is fine */

/*
 * The manifest as it is now; *ret_l0 lives until the next read.
 *
 * If there is none it is made, empty, provided that the bucket was never used (first_use.h).
 * seen: the greatest generation that this store ever saw. FG_E_CORRUPT: it was lost, or cannot be
 * read; FG_E_UNAVAILABLE, ...
 */
enum fg_code ing_publish_read(struct ing_publish *publish, uint64_t seen,
                              const struct fg_l0 **ret_l0, struct fg_err *err) fg_must_check;

/* How an upload failed. */
struct ing_publish_fault {
    bool unfit;                         /* because of what the chunks hold: it would fail again */
    struct ing_build_suspects suspects; /* until the next upload */
};

/* Makes a segment of the chunks and uploads it under this id; salvage: without what cannot be read,
 * which a line in the log counts. *ret_nothing: they hold no profile,
 * and nothing was uploaded. *ret_fault is written after a failure only. Errors as of
 * ing_build_segment(), and those of the bucket. */
enum fg_code ing_publish_upload(struct ing_publish *publish, const struct fg_segment_id *id,
                                const struct ing_segments_chunk *chunks, uint32_t n_chunks,
                                bool salvage, bool *ret_nothing,
                                struct ing_publish_fault *ret_fault,
                                struct fg_err *err) fg_must_check;

/*
 * Swaps what was uploaded last into the manifest that was read last, and with it what its writer is
 * clean of. FG_E_PRECONDITION: there is another one by now. After no failure but that is it known
 * whether it was done: the next read tells.
 */
enum fg_code ing_publish_swap(struct ing_publish *publish, const struct fg_segment_id *id,
                              uint64_t clean, struct fg_err *err) fg_must_check;

/* Only what the writer is clean of, likewise. */
enum fg_code ing_publish_report(struct ing_publish *publish, struct fg_id writer, uint64_t clean,
                                struct fg_err *err) fg_must_check;

#endif
