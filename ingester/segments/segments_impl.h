/*
 * What the files of segments.h share; nobody else includes it.
 *
 *     segments.c        the thread, steps on the committer's thread, effects of the bucket
 *     segments_seal.c   effects that change the head: seal, set aside, mark, evict
 *     segments_wait.c   callers that wait for a step: readers, flushes, drains of the ring
 */
#ifndef FG_INGESTER_SEGMENTS_IMPL_H
#define FG_INGESTER_SEGMENTS_IMPL_H

#include "common/runtime/rwlock.h"
#include "common/runtime/thread.h"
#include "common/runtime/ticker.h"
#include "ingester/segments/segments.h"

/* clang-format off */
#define SEGMENTS_METRICS(M)                                                                          \
    M(COUNTER, METRIC_CUTS, "flamegrid_ingester_segments_cut_total", "Cuts of the head")           \
    M(COUNTER, METRIC_COMMITTED, "flamegrid_ingester_segments_committed_total", "Segments committed to the manifest") \
    M(COUNTER, METRIC_EVICTED, "flamegrid_ingester_head_chunks_evicted_total", "Head chunks evicted after their commit") \
    M(COUNTER, METRIC_FAILED_READ, "flamegrid_ingester_segment_failures_total{step=\"read\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_COMPARE, "flamegrid_ingester_segment_failures_total{step=\"compare\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_TAKE_IN, "flamegrid_ingester_segment_failures_total{step=\"take_in\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_SEAL, "flamegrid_ingester_segment_failures_total{step=\"seal\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_UPLOAD, "flamegrid_ingester_segment_failures_total{step=\"upload\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_SET_ASIDE, "flamegrid_ingester_segment_failures_total{step=\"set_aside\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_SWAP, "flamegrid_ingester_segment_failures_total{step=\"swap\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_MARK, "flamegrid_ingester_segment_failures_total{step=\"mark\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_EVICT, "flamegrid_ingester_segment_failures_total{step=\"evict\"}", "Failed steps of committing a segment, which are retried") \
    M(COUNTER, METRIC_FAILED_REPORT, "flamegrid_ingester_segment_failures_total{step=\"report\"}", "Failed steps of committing a segment, which are retried") \
    M(GAUGE, METRIC_GENERATION, "flamegrid_ingester_manifest_generation", "Newest manifest generation that the head follows") \
    M(GAUGE, METRIC_OPEN_BYTES, "flamegrid_ingester_uncommitted_bytes{state=\"open\"}", "Bytes of the head in no committed segment, by state") \
    M(GAUGE, METRIC_SEALED_BYTES, "flamegrid_ingester_uncommitted_bytes{state=\"sealed\"}", "Bytes of the head in no committed segment, by state") \
    M(GAUGE, METRIC_ASIDE_BYTES, "flamegrid_ingester_uncommitted_bytes{state=\"set_aside\"}", "Bytes of the head in no committed segment, by state") \
    M(GAUGE, METRIC_UNCHECKED_BYTES, "flamegrid_ingester_uncommitted_bytes{state=\"unchecked\"}", "Bytes of the head in no committed segment, by state") \
    M(GAUGE, METRIC_UNCHECKED_PROFILES, "flamegrid_ingester_profiles_unchecked", "Late profiles not yet checked for duplicates in the bucket; queries omit them until then") \
    M(GAUGE, METRIC_ASIDE_CHUNKS, "flamegrid_ingester_head_chunks_set_aside", "Head chunks that cannot be written as a segment and stay in the head") \
    M(GAUGE, METRIC_ASIDE_PROFILES, "flamegrid_ingester_profiles_set_aside", "Profiles in head chunks that cannot be written as a segment") \
    M(GAUGE, METRIC_RETIRED, "flamegrid_ingester_dictionaries_retired", "Old dictionaries that are being deleted from the head store")
/* clang-format on */
FG_METRICS_ENUM(segments_metric, SEGMENTS_METRICS)

/* An effect for the segments' thread, with copies of the chunks: the core's may change. */
struct ing_segments_task {
    struct ing_segments_effect effect;
    struct ing_segments_chunk *chunks; /* UPLOAD */
    uint32_t n_chunks;
};

/* A revision of the ring that waits until this ingester has drained, and the number of that drain.
 */
struct ing_ring_drain {
    uint64_t revision, drain;
};

struct ing_segments {
    struct ing_segments_config config;
    /* The committer's thread changes the core, under the lock; others read it under the lock. Held
     * for a step of the core, never for I/O. */
    pthread_mutex_t core_lock;
    struct ing_segments_core *core;
    struct ing_committer *committer;
    struct fg_metrics *metrics;
    int64_t swept_mono_ns; /* the committer's thread */

    /* Held for writing while a step is taken and its changes of the head are written; for reading
     * between ing_segments_fence() and ing_segments_unfence(). */
    struct fg_rwlock steps;

    /* The start has found chunks whose tenant has lost its name: they are on this disk only, and
     * the core knows nothing of them. */
    bool has_nameless;
    /* Ends waits at their deadlines: the thread may be waiting for the bucket for minutes. */
    struct fg_ticker *deadlines;
    /* Its lock is of the fields below up to `ring_drains`, and held for copies only. */
    struct fg_thread thread;
    pthread_cond_t moved; /* wakes callers that wait: a step was taken */
    bool hurry, salvage;  /* salvage: requested, and not yet an event */
    /* After the last step. Under the thread's lock and not `steps`, which is held while the store
     * writes: a scrape would wait for the disk. */
    struct ing_segments_core_status status;
    /* The greatest generation that a reader waits for, and the one that the core was told, since
     * the last read of the manifest. */
    uint64_t wanted, wanted_known;
    uint64_t n_steps;
    struct ing_segments_waiter *waiters;
    unsigned n_waiters;
    /* Numbers of drains: the last one requested, the last one that the core was told, and the one
     * up to which they are done. */
    uint64_t drain_asked, drain_known, drained,
        tried; /* tried: as of struct ing_segments_core_status */
    /* The first drain that is not done, and the newest, with which those in between end. */
    struct ing_ring_drain ring_drains[2];
    unsigned n_ring_drains;

    /* The thread's own. */
    struct ing_segments_task tasks[SEGMENTS_EFFECTS_MAX];
    uint32_t n_tasks;
    char unfit_why[FG_ERR_MSG_MAX_BYTES];   /* why the last unfit upload failed */
    char keyless_why[FG_ERR_MSG_MAX_BYTES]; /* ... the last one without keys, and a tenant */
    int64_t wake_mono_ns;
    struct ing_publish *publish;
    struct fg_bucket_stop *bucket_stop; /* any thread: ends calls of the bucket */
    struct fg_condition *aside, *keyless, *unchecked, *bucket_went_back, *store_went_back, *copied,
        *failing;
    /* For each kind of effect: since when it fails; 0: the last one succeeded. Used by both
     * threads, one of which waits while the other works. */
    int64_t failing_since_mono_ns[SEGMENTS_EFFECT_KINDS];
    uint64_t ranked; /* revision of the ring of which the core has the ranks */
    uint8_t ranks[SEGMENTS_SHARDS];
};

/* ---- segments_seal.c ---- */

/* Carries out an effect of the head and returns the event that tells how it went. The committer's
 * thread. */
struct ing_segments_event ing_segments_change_head(struct ing_segments *segments,
                                                   const struct ing_segments_effect *effect);

/* Logs and counts a failed effect, and raises a condition if effects of its kind have failed for a
 * minute. The committer's thread or that of segments; one of them waits while the other works. */
void ing_segments_effect_failed(struct ing_segments *segments, enum ing_segments_effect_kind kind,
                                const struct fg_err *err);

/* Notes that an effect succeeded, and clears the condition if no kind fails any more. */
void ing_segments_effect_ended(struct ing_segments *segments, enum ing_segments_effect_kind kind);

/* ---- segments_wait.c ---- */

/* Calls on_end() of every wait that is over. Any thread, without locks: the callbacks may take
 * some. */
void ing_segments_end_waits(struct ing_segments *segments);

#endif
