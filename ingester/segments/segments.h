/*
 * Carries out what the step core (segments.h) decides. Steps are taken on the committer's thread,
 * between its batches, and with them what they want written to the head; reading manifests,
 * building, uploading and swapping segments is done by a thread of the driver's own, which may
 * wait.
 *
 *   driver's thread     tick, or an effect of the bucket's ----+        +--> the next such effect
 *                                                       event  v        |
 *   committer's thread                        step -> effects of the head: seal, mark, evict
 *
 * Thread: as said with each function.
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
#include "ingester/head_writer.h"
#include "ingester/member.h"
#include "ingester/retire.h"
#include "ingester/segments/build.h"
#include "ingester/segments/segments_core.h"

struct ing_segments;

/* Settings, section "ingester.segments". */
struct ing_segments_settings {
    uint64_t cut_bytes;
    int64_t grace_ns, linger_ns, open_max_ns, evict_after_ns, poll_ns, turn_ns;
    uint64_t unchecked_max_bytes;
    unsigned block_version; /* of FG_BLOCK_VERSION_CHOICES */
};
extern const struct fg_conf_field ing_segments_fields[];
extern const size_t ing_segments_n_fields;

/* All borrowed. */
struct ing_segments_config {
    const struct ing_segments_settings *settings;
    struct fg_bucket *bucket;
    const char *scratch;        /* a folder for segments on their way; what is in it may go */
    const struct fg_disk *disk; /* the disk of scratch; NULL: not watched */
    struct ing_build_head head;
    struct ing_head_chunks *chunks;
    struct ing_head_writer *writer;
    struct ing_retire *retire;
    const struct ing_member *member;
    struct ing_dedup *dedup;
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    struct fg_clock *clock;
};

/* Makes the core and tells it of the chunks there are. FG_E_UNAVAILABLE, FG_E_CORRUPT: the store;
 * FG_E_LIMIT: more chunks than the core takes. */
enum fg_code ing_segments_create(const struct ing_segments_config *config,
                                 struct ing_segments **ret_segments,
                                 struct fg_err *err) fg_must_check;

/* --- the committer's thread: see ing_segments_core_admit() and ing_segments_core_added() --- */

enum ing_segments_admission ing_segments_admit(struct ing_segments *segments,
                                               const struct ing_head_group_key *group,
                                               struct ing_segments_looked looked,
                                               uint32_t *ret_chunk);
void ing_segments_added(struct ing_segments *segments, const struct ing_head_chunk_key *chunk,
                        bool unchecked, uint64_t profiles, uint64_t bytes, int64_t wall_ns);

/* See ing_segments_core_found(). */
void ing_segments_found(struct ing_segments *segments, uint64_t generation);

/* --- any thread --- */

/* Have profiles of this group to be looked for, in blocks of *ret_seen or newer? */
bool ing_segments_is_late(struct ing_segments *segments, const struct ing_head_group_key *group,
                          uint64_t *ret_seen);

/* Begins; committer outlives the driver's end. */
enum fg_code ing_segments_start(struct ing_segments *segments, struct ing_committer *committer,
                                struct fg_err *err) fg_must_check;

/* Ends all waits of ing_segments_wait() and ing_segments_flush() with FG_E_CANCELED, also future
 * ones.
 */
void ing_segments_hurry(struct ing_segments *segments);

/* Ends the thread, and what it waits for; what was begun is found again at the next start. */
void ing_segments_stop(struct ing_segments *segments);

/* After the committer has ended. NULL is fine. */
void ing_segments_destroy(struct ing_segments *segments);

/*
 * May a reader whose snapshot is of this generation be served? FG_OK: yes; until
 * ing_segments_unfence() no chunk changes its state, so chunks are chosen and an iterator is made
 * in between, and nothing else is done. FG_E_PRECONDITION: it needs a newer snapshot. FG_E_ABORTED:
 * this ingester is behind that generation, which ing_segments_wait() waits for. Any thread that may
 * wait for a step.
 */
enum fg_code ing_segments_fence(struct ing_segments *segments, uint64_t generation,
                                struct fg_err *err) fg_must_check;

enum {
    SEGMENTS_WAITERS_MAX = 64
}; /* queries whose manifest is newer than the driver's, at a time */

/* The wait of a reader whose snapshot is newer than the manifest that the driver has read. The
 * caller owns it; the driver uses it until it calls on_end(). */
struct ing_segments_waiter {
    uint64_t generation;
    int64_t deadline_mono_ns; /* it ends a second later at the latest */
    /* err->code FG_OK: ing_segments_fence() no longer returns FG_E_ABORTED. FG_E_UNAVAILABLE: a
     * manifest read since then is older than the generation. FG_E_DEADLINE, FG_E_CANCELED. Runs on
     * a thread of the driver, or in ing_segments_hurry(); must not block. */
    void (*on_end)(struct ing_segments_waiter *waiter, const struct fg_err *err);

    /* The driver's own. */
    unsigned reads; /* reads of the manifest that ended during the wait */
    struct ing_segments_waiter *next;
};

/* Starts a wait and returns; the driver reads the manifest soon. FG_E_UNAVAILABLE: there are
 * SEGMENTS_WAITERS_MAX waits; FG_E_CANCELED: ing_segments_hurry() was called. After an error
 * on_end() is not called. Any thread. */
enum fg_code ing_segments_wait(struct ing_segments *segments, struct ing_segments_waiter *waiter,
                               struct fg_err *err) fg_must_check;

/* Ends what ing_segments_fence() began with FG_OK. */
void ing_segments_unfence(struct ing_segments *segments);

/*
 * Cuts what there is now and waits until it is committed; what comes meanwhile is not waited for.
 * FG_E_DEADLINE: it goes on, and did not come to an end in time. FG_E_CORRUPT: all but chunks that
 * were set aside. Any thread that may wait.
 */
enum fg_code ing_segments_flush(struct ing_segments *segments, int64_t deadline_mono_ns,
                                struct fg_err *err) fg_must_check;

/* As ing_segments_flush(), for what is set aside: it is committed without what cannot be read of
 * it, which is given up. */
enum fg_code ing_segments_salvage(struct ing_segments *segments, int64_t deadline_mono_ns,
                                  struct fg_err *err) fg_must_check;

/*
 * As ing_segments_flush() for what came under revisions of the ring below this one, and does not
 * wait: it is said to the ring when it is committed (commit-first). The ring refuses such revisions
 * already, so what the head has now, and what the committer is writing, is all there will ever be.
 * Any thread.
 */
void ing_segments_drain(struct ing_segments *segments, uint64_t revision);

#endif
