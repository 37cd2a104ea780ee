/*
 * Moves chunks of the head into segments of the bucket: carries out what the step core
 * (segments_core.h) decides. The committer's thread takes the steps, between its batches, and
 * writes what they change in the head. A thread of its own reads manifests and builds, uploads and
 * swaps segments; it may wait for the bucket.
 *
 *   segments' thread     tick, or the end of an effect ---+        +--> the next effect of the
 *                                                  event  v        |    bucket
 *   committer's thread                     step -> effects of the head: seal, mark, evict
 *
 * Thread: as said for each function.
 */
#ifndef FG_INGESTER_SEGMENTS_H
#define FG_INGESTER_SEGMENTS_H

#include "common/runtime/condition.h"
#include "common/runtime/config.h"
#include "common/runtime/disk.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"
#include "ingester/committer.h"
#include "ingester/dedup_index.h"
#include "ingester/forward/outbox.h"
#include "ingester/head_writer.h"
#include "ingester/member.h"
#include "ingester/retire.h"
#include "ingester/segments/build.h"
#include "ingester/segments/segments_core.h"

struct ing_segments;

/* Settings, section "ingester.segments". */
struct ing_segments_settings {
    uint64_t cut_bytes;
    int64_t grace_ns, linger_ns, open_max_ns, evict_after_ns, poll_ns, failover_after_ns;
    uint64_t unchecked_max_bytes;
    unsigned block_version; /* of FG_BLOCK_VERSION_CHOICES */
};
extern const struct fg_conf_field ing_segments_fields[];
extern const size_t ing_segments_n_fields;

/* All borrowed. */
struct ing_segments_config {
    const struct ing_segments_settings *settings;
    struct fg_bucket *bucket;   /* NULL: chunks go into no segment (publish.h) */
    const char *scratch;        /* a folder for segments on their way; its files may be removed.
                                 * NULL without a bucket */
    const struct fg_disk *disk; /* the disk of scratch; NULL: not watched */
    struct ing_build_head head;
    struct ing_head_chunks *chunks;
    struct ing_head_writer *writer;
    struct ing_retire *retire;
    const struct ing_member *member;
    struct ing_dedup *dedup;    /* NULL without a bucket */
    struct ing_outbox *outbox;  /* what it pins stays in the head; NULL: nothing */
    size_t compare_piece_bytes; /* see struct ing_compare_head; 0: 8 MiB; tests choose less */
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    struct fg_clock *clock;
};

/* Creates the core and hands it all chunks of the head. FG_E_UNAVAILABLE, FG_E_CORRUPT: the store;
 * FG_E_LIMIT: more chunks than the core takes. */
enum fg_code ing_segments_create(const struct ing_segments_config *config,
                                 struct ing_segments **ret_segments,
                                 struct fg_err *err) fg_must_check;

/* Starts the thread. The committer outlives it (ing_segments_stop()). FG_E_LIMIT: no more threads.
 */
enum fg_code ing_segments_start(struct ing_segments *segments, struct ing_committer *committer,
                                struct fg_err *err) fg_must_check;

/* Returns true if the head has been compared with what the manifest has since the start, or since
 * segments came and went unseen (settle-on-rejoin): questions are answered from it. Any thread. */
bool ing_segments_is_settled(struct ing_segments *segments) fg_must_check;

/* Ends all waits of ing_segments_wait() and ing_segments_flush() with FG_E_UNAVAILABLE, also
 * later ones. Any thread. */
void ing_segments_hurry(struct ing_segments *segments);

/* Ends the thread and its calls of the bucket. The next start finds what was begun. Accepts NULL.
 */
void ing_segments_stop(struct ing_segments *segments);

/* Destroys the core. Call it after the committer has ended. Accepts NULL. */
void ing_segments_destroy(struct ing_segments *segments);

/* --- the committer's thread: the functions of the same name of the core --- */

/* Decides into which chunk a profile goes: see ing_segments_core_admit(). */
enum ing_segments_admission ing_segments_admit(struct ing_segments *segments,
                                               const struct ing_head_group_key *group,
                                               struct ing_segments_lookup lookup,
                                               uint32_t *ret_chunk);

/* Counts profiles that were written: see ing_segments_core_added(). */
void ing_segments_added(struct ing_segments *segments, const struct ing_head_chunk_key *chunk,
                        bool unchecked, uint64_t profiles, uint64_t bytes, int64_t wall_ns);

/* Notes that a profile was found in the bucket: see ing_segments_core_found(). */
void ing_segments_found(struct ing_segments *segments, uint64_t generation);

/* --- any thread --- */

/* Returns true if profiles of this group have to be looked up in the bucket, in a snapshot of
 * *ret_seen or newer. */
bool ing_segments_is_late(struct ing_segments *segments, const struct ing_head_group_key *group,
                          uint64_t *ret_seen);

/*
 * Decides whether a reader with a snapshot of this generation may be served. FG_OK: it may; until
 * ing_segments_unfence() no chunk changes its state, so choose chunks and make an iterator in
 * between, and do nothing else. FG_E_PRECONDITION: the reader needs a newer snapshot. FG_E_ABORTED:
 * this ingester is behind that generation; ing_segments_wait() waits for it. Any thread that may
 * wait for a step.
 */
enum fg_code ing_segments_fence(struct ing_segments *segments, uint64_t generation,
                                struct fg_err *err) fg_must_check;

/* Ends what ing_segments_fence() began with FG_OK. The same thread. */
void ing_segments_unfence(struct ing_segments *segments);

enum { SEGMENTS_WAITERS_MAX = 64 }; /* queries that wait for a newer manifest at a time */

/* The wait of a reader whose snapshot is newer than the manifest read last. The caller owns it;
 * segments use it until they call on_end(). */
struct ing_segments_waiter {
    uint64_t generation;
    int64_t deadline_mono_ns; /* the wait ends a second later at the latest */
    /* err->code FG_OK: ing_segments_fence() no longer returns FG_E_ABORTED. FG_E_UNAVAILABLE: a
     * manifest read since then is older than the generation, or the ingester is stopping.
     * FG_E_DEADLINE. Runs on a thread of segments, or in ing_segments_hurry(); must not block. */
    void (*on_end)(struct ing_segments_waiter *waiter, const struct fg_err *err);

    /* Private. */
    unsigned reads; /* reads of the manifest that ended during the wait */
    struct ing_segments_waiter *next;
};

/* Starts a wait and returns; the manifest is read soon. FG_E_UNAVAILABLE: there are
 * SEGMENTS_WAITERS_MAX waits, or ing_segments_hurry() was called. After an error
 * on_end() is not called. Any thread. */
enum fg_code ing_segments_wait(struct ing_segments *segments, struct ing_segments_waiter *waiter,
                               struct fg_err *err) fg_must_check;

/*
 * Cuts what there is now and waits until it is committed, not for what comes meanwhile.
 * FG_E_DEADLINE: it was not committed in time, and goes on. FG_E_CORRUPT: everything is committed
 * except chunks that are set aside. FG_E_UNAVAILABLE: likewise, some of them only until the keys of
 * their tenants can be had; or the ingester is stopping. Any thread that may wait.
 */
enum fg_code ing_segments_flush(struct ing_segments *segments, int64_t deadline_mono_ns,
                                struct fg_err *err) fg_must_check;

/* Flushes, and commits chunks that are set aside without what cannot be read of them, which is
 * given up. Errors as of ing_segments_flush(). */
enum fg_code ing_segments_salvage(struct ing_segments *segments, int64_t deadline_mono_ns,
                                  struct fg_err *err) fg_must_check;

/*
 * Starts a flush of what came under revisions of the ring below this one, and returns. The ring is
 * told when it is committed (commit-first). The ring refuses pushes of such revisions already, so
 * it covers what the head has now and what the committer is writing. Any thread.
 */
void ing_segments_drain(struct ing_segments *segments, uint64_t revision);

#endif
