/*
 * What the files of the step core (segments_core.h) share; nobody else includes it.
 *
 *     segments_core.c          events and effects, drains, admission, answers to readers
 *     segments_core_follow.c   the manifest, and comparing with what others have committed
 *     segments_core_cut.c      which chunks are due, and their way into the bucket
 *     segments_core_evict.c    which committed chunks leave the head
 */
#ifndef FG_INGESTER_SEGMENTS_CORE_IMPL_H
#define FG_INGESTER_SEGMENTS_CORE_IMPL_H

#include "ingester/segments/chunk_table.h"
#include "ingester/segments/segments_core.h"

enum ing_follow_state {
    FOLLOW_IDLE,
    FOLLOW_READING,
    FOLLOW_COMPARING,
    FOLLOW_TAKING_IN,
    FOLLOW_REPORTING
};

enum ing_cut_state {
    CUT_IDLE,
    CUT_PINNED, /* its seal failed */
    CUT_SEALING,
    CUT_SEALED,
    CUT_SETTING_ASIDE,
    CUT_UPLOADING,
    CUT_UPLOADED,
    CUT_SWAPPING,
    CUT_SWAPPED,
    CUT_MARKING,
};

/* When something that failed may be tried again. */
struct ing_pause {
    uint32_t failures;
    int64_t until_mono_ns;
    int64_t short_mono_ns; /* the end while a query waits, see ing_core_pause_end() */
};

/* A list of chunks, which it does not own. */
struct ing_chunk_list {
    struct ing_segments_chunk **chunks;
    uint32_t n, cap;
};

struct ing_segments_core {
    struct ing_segments_core_config config;
    struct ing_chunk_table table;
    uint64_t random;
    int64_t wall_ns, mono_ns; /* of the event being handled */
    int64_t manifest_mono_ns; /* when it was read last */
    int64_t next_look_mono_ns;
    uint8_t *ranks;  /* [SEGMENTS_SHARDS]; NULL: all 0 */
    bool look;       /* this step looks through all chunks */
    uint64_t drains; /* number of the last DRAIN */
    bool draining;   /* a DRAIN may wait for some chunk */

    /* What the manifest said last. */
    bool started; /* it was read since the start */
    uint64_t seen;
    uint64_t era;      /* the greatest `asked` of a manifest */
    uint64_t reported; /* what this store is clean of, as the manifest says */
    struct fg_late_filter late_filter;
    struct fg_arena *late_filter_arena;

    /* Following. */
    enum ing_follow_state follow;
    /* Comparisons have a pause of their own, since a read of the manifest in between that succeeds
     * ends follow_pause. */
    struct ing_pause follow_pause, compare_pause, report_pause;
    bool settled; /* false until the first COMPARE, and after segments were missed */
    bool settling;
    uint64_t gen, safe, wanted;
    uint64_t foreign[FG_L0_SEGMENTS_MAX]; /* generations to compare with, ascending */
    uint32_t n_foreign, at_foreign;
    bool compares_all;             /* the COMPARE that is under way */
    bool compare_unsure;           /* ... has found groups that are unsure */
    struct ing_chunk_list checked; /* compared and not in the bucket: to take in */
    int64_t check_mono_ns;         /* unchecked chunks are compared again then */
    bool checks_drain;             /* the COMPARE of all began after the last DRAIN */
    bool read_now, went_back, store_went_back;
    bool copied; /* until the next start: another program runs with a copy of this store */
    int64_t next_read_mono_ns;
    uint64_t read_for;      /* `wanted` when the read that is under way began */
    int64_t wanted_mono_ns; /* no read because of `wanted` before */

    /* The cut that is under way. */
    enum ing_cut_state cut;
    struct ing_pause cut_pause;
    uint64_t last_cut;
    struct ing_chunk_list pinned; /* its chunks */
    struct fg_segment_id upload;
    int64_t uploaded_mono_ns, uploaded_wall_ns;
    /* The last cut that this start has sealed, and the last one that it has begun to swap; 0: none.
     * And under which names it has uploaded the last cut: no other upload of it is ours. */
    uint64_t sealed_cut, swapped_cut, nonces_cut;
    uint64_t *nonces;
    uint32_t n_nonces, cap_nonces;
    bool stale;                    /* the chunks have changed since the upload */
    bool rechecked;                /* the manifest was read since the upload, or the swap */
    uint32_t unfit;                /* how often in a row its chunks could not become a segment */
    struct ing_chunk_list misfits; /* chunks of the cut to set aside */
    bool retry_misfits;            /* at once, since it is unknown which are at fault */
    bool keyless_misfits;          /* they are set aside because a key is missing */
    int64_t retry_mono_ns;         /* chunks that are set aside are tried again then */
    int64_t keyless_mono_ns;       /* ... those without a key then */

    struct ing_chunk_list marking, evicting, empty;
    struct ing_pause evict_pause;
    bool is_evicting;
};

/* ---- segments_core.c ---- */

/* Returns true if a rule of the protocol is in force: the simulator switches each off. */
bool ing_core_keeps(const struct ing_segments_core *core, enum fg_rule rule);

/* Returns a random number, for jitter and names of uploads. */
uint64_t ing_core_draw(struct ing_segments_core *core);

/* Begins a pause that doubles with each failure, with full jitter. */
void ing_core_fail(struct ing_segments_core *core, struct ing_pause *pause);

/* Returns when a pause ends. */
int64_t ing_core_pause_end(const struct ing_segments_core *core, const struct ing_pause *pause);

/* Returns true if a pause is over. */
bool ing_core_is_over(const struct ing_segments_core *core, const struct ing_pause *pause);

/* Adds a chunk at the end of the list. */
void ing_chunk_list_add(struct ing_chunk_list *list, struct ing_segments_chunk *chunk);

/* Removes all chunks that are not in this state. */
void ing_chunk_list_keep(struct ing_chunk_list *list, enum ing_chunk_state state);

/* Removes all chunks that are in this state. */
void ing_chunk_list_drop(struct ing_chunk_list *list, enum ing_chunk_state state);

/* Adds a chunk with the rank of its shard. Every chunk comes into the table here. */
struct ing_segments_chunk *ing_core_add_chunk(struct ing_segments_core *core,
                                              struct ing_chunk_table_group *group,
                                              struct ing_segments_chunk chunk);

/* Returns what this store is clean of: the least era of all chunks. Takes time for each. */
uint64_t ing_core_clean(const struct ing_segments_core *core);

/* Marks a chunk committed at this generation, now. */
void ing_core_commit_chunk(struct ing_segments_core *core, struct ing_segments_chunk *chunk,
                           uint64_t generation);

/* Returns when the window of the chunk counts as over. */
int64_t ing_core_closed_wall_ns(const struct ing_segments_core *core,
                                const struct ing_segments_chunk *chunk);

/* Returns true if the window of the chunk is over. */
bool ing_core_is_closed(const struct ing_segments_core *core,
                        const struct ing_segments_chunk *chunk);

/* Makes the DRAIN of that number wait for the chunk, too. 0: does nothing. */
void ing_core_wait_for(struct ing_segments_chunk *chunk, uint64_t drain);

/* Adds an effect to this step. */
struct ing_segments_effect *ing_core_emit(struct ing_segments_effects *effects,
                                          enum ing_segments_effect_kind kind);

/* Adds an effect about chunks of a list to this step. */
void ing_core_emit_chunks(struct ing_segments_effects *effects, enum ing_segments_effect_kind kind,
                          const struct ing_chunk_list *list, const struct ing_segments_core *core);

/* ---- segments_core_follow.c ---- */

/* Take the results of READ, COMPARE, TAKE_IN and REPORT. */
void ing_follow_failed(struct ing_segments_core *core, enum ing_segments_effect_kind failed);
void ing_follow_manifest(struct ing_segments_core *core, const struct fg_l0 *l0);
void ing_follow_compared(struct ing_segments_core *core, const struct ing_segments_event *event);
void ing_follow_taken_in(struct ing_segments_core *core);
void ing_follow_reported(struct ing_segments_core *core);

/* Returns when the next read of the manifest may begin; INT64_MAX: not before another event. */
int64_t ing_follow_due_mono_ns(const struct ing_segments_core *core);

/* Emits the next effect of this lane, if one is due. */
void ing_follow_advance(struct ing_segments_core *core, struct ing_segments_effects *effects);

/* ---- segments_core_cut.c ---- */

/* Take the results of SEAL, SET_ASIDE, MARK, UPLOAD and SWAP. */
void ing_cut_sealed(struct ing_segments_core *core);
void ing_cut_is_aside(struct ing_segments_core *core);
void ing_cut_marked(struct ing_segments_core *core);
void ing_cut_uploaded(struct ing_segments_core *core, bool nothing);
void ing_cut_swapped(struct ing_segments_core *core);
void ing_cut_failed(struct ing_segments_core *core, const struct ing_segments_event *event);

/* Returns false if the manifest has a cut of this store that this program and its earlier starts
 * cannot have made. writer: the store's entry. */
bool ing_cut_is_ours(const struct ing_segments_core *core, const struct fg_l0 *l0,
                     const struct fg_l0_writer *writer);

/* Emits the next effect of this lane, if one is due. */
void ing_cut_advance(struct ing_segments_core *core, struct ing_segments_effects *effects);

/* ---- segments_core_evict.c ---- */

/* Removes chunks that no profile came into: of pushes that were duplicates, or failed. */
void ing_evict_empty(struct ing_segments_core *core);
/* Removes the chunks that were evicted. */
void ing_evict_done(struct ing_segments_core *core);
/* Begins a pause after a failed EVICT. */
void ing_evict_failed(struct ing_segments_core *core);
/* Emits an EVICT if chunks may go. */
void ing_evict_advance(struct ing_segments_core *core, struct ing_segments_effects *effects);

#endif
