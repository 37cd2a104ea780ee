/*
 * Drives the step core of the segments (ingester/segments/segments_core.h) by hand: a test hands in
 * events and looks at the effects of the last step. Asserts instead of returning errors. One
 * thread.
 */
#ifndef FG_TESTS_UNIT_INGESTER_SEGMENTS_CORE_RUN_H
#define FG_TESTS_UNIT_INGESTER_SEGMENTS_CORE_RUN_H

#include "ingester/segments/segments_core.h"

/* The middle of a window; a minute is left for grace and linger to differ. */
#define RUN_START_WALL_NS (1000 * HEAD_WINDOW_NS + HEAD_WINDOW_NS / 2)

struct run {
    struct ing_segments_core *core;
    struct ing_segments_effects effects; /* of the last step */
    struct fg_arena *arena;              /* of l0 */
    struct fg_l0 l0;                     /* what a read of the manifest returns */
    int64_t now_ns;                      /* since the start, on both clocks */
    int64_t slept_ns;                    /* so much more on that of the wall */
};

extern const struct ing_segments_core_config run_config;

/* Creates a core that has read nothing yet; n_cuts: how many cuts an earlier life made. End with
 * run_end(). */
struct run run_create(uint32_t n_cuts);

/* Creates a core that has read the empty manifest. End with run_end(). */
struct run run_begin(void);
void run_end(struct run *run);

/* Hands in an event at the time of the run. */
void run_step(struct run *run, struct ing_segments_event event);

/* Moves the time and hands in a tick. */
void run_tick(struct run *run, int64_t after_ns);

/* Hands in an event of this kind with the manifest as it is now. */
void run_event(struct run *run, enum ing_segments_event_kind kind);

/* Hands in that an effect of this kind failed. */
void run_failed(struct run *run, enum ing_segments_effect_kind kind);

/* Returns the effect of that kind of the last step, or NULL. */
const struct ing_segments_effect *run_wants(const struct run *run,
                                            enum ing_segments_effect_kind kind);

/* Moves the time, and answers the read of the manifest that falls due; other effects stay in
 * run->effects. */
void run_wait(struct run *run, int64_t ns);

/* Returns the group of tenant 1 and shard 2 with this window. */
struct ing_head_group_key group_of(uint32_t window);

/* Asks for a chunk of the group. generation: the newest that blocks were searched up to; 0: none
 * were. */
enum ing_segments_admission run_admit(struct ing_segments_core *core,
                                      const struct ing_head_group_key *key, uint64_t generation,
                                      uint32_t *ret_chunk);

/* Adds one profile to the window, if it is admitted without a search. */
enum ing_segments_admission run_push(struct run *run, uint32_t window, uint64_t bytes);

/* Adds the segment to the manifest, with one profile of the window. */
void run_enter(struct run *run, const struct fg_segment_id *id, uint32_t window);

/* Answers every effect from UPLOAD on, until the cut is in the manifest and marked. */
void run_commit_upload(struct run *run, uint32_t window);

/* The same from SEAL on. */
void run_commit(struct run *run, uint32_t window);

#endif
