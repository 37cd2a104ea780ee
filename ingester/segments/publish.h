/*
 * Publishes a segment: reads the L0 manifest, makes a file of chunks, uploads the file, and swaps
 * an entry for it into the manifest. segments_core.h decides what to do and when.
 *
 * Without a bucket nothing is published: the manifest is empty and stays so, and chunks need no
 * segment. So the core commits chunks as soon as they are cut, and evicts them once nothing pins
 * them.
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
    struct fg_bucket *bucket;   /* NULL: there is none */
    const char *scratch;        /* a folder of its own; files left in it are removed. NULL without a
                                 * bucket */
    const struct fg_disk *disk; /* of scratch; NULL: not watched */
    struct ing_build_head head;
    struct fg_registry *registry;
    struct fg_clock *clock;
    struct fg_bucket_stop *stop; /* ends calls of the bucket with FG_E_CANCELED */
};

/* Creates a publisher and empties the scratch folder. FG_E_UNAVAILABLE and others: the folder
 * cannot be read. */
enum fg_code ing_publish_create(const struct ing_publish_config *config,
                                struct ing_publish **ret_publish, struct fg_err *err) fg_must_check;

/* Destroys the publisher. Accepts NULL. */
void ing_publish_destroy(struct ing_publish *publish);

/*
 * Reads the manifest; *ret_l0 is valid until the next read. If there is none, creates an empty one,
 * provided that the bucket was never used (first_use.h). seen: the greatest generation that this
 * store ever saw. FG_E_CORRUPT: the manifest was lost or cannot be read. FG_E_UNAVAILABLE and other
 * errors of the bucket.
 */
enum fg_code ing_publish_read(struct ing_publish *publish, uint64_t seen,
                              const struct fg_l0 **ret_l0, struct fg_err *err) fg_must_check;

/* How an upload failed. */
struct ing_publish_fault {
    bool unfit;                         /* because of what the chunks hold: it will fail again */
    struct ing_build_suspects suspects; /* valid until the next upload */
};

/* Makes a segment of the chunks and uploads it under this id. salvage: without what cannot be read,
 * which the log counts. *ret_nothing: the chunks have no profiles, and nothing was uploaded.
 * *ret_fault is written after a failure only. Errors of ing_build_segment() and of the bucket. */
enum fg_code ing_publish_upload(struct ing_publish *publish, const struct fg_segment_id *id,
                                const struct ing_segments_chunk *chunks, uint32_t n_chunks,
                                bool salvage, bool *ret_nothing,
                                struct ing_publish_fault *ret_fault,
                                struct fg_err *err) fg_must_check;

/*
 * Swaps the segment that was uploaded last into the manifest that was read last, together with what
 * its writer is clean of. FG_E_PRECONDITION: the manifest has changed, nothing was done. After any
 * other failure it is unknown whether it was done: read the manifest.
 */
enum fg_code ing_publish_swap(struct ing_publish *publish, const struct fg_segment_id *id,
                              uint64_t clean, struct fg_err *err) fg_must_check;

/* Writes only what the writer is clean of into the manifest. Errors as of ing_publish_swap(). */
enum fg_code ing_publish_report(struct ing_publish *publish, struct fg_id writer, uint64_t clean,
                                struct fg_err *err) fg_must_check;

#endif
