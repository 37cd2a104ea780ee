/*
 * What the files of the step core (segments.h) share; nobody else includes it.
 *
 *     segments.c   rounds and time; draining, forgetting; a step; what others ask
 *     follow.c     the manifest, and comparing with what others have committed
 *     cut.c        what is due, and its way into the bucket
 */
#ifndef FG_INGESTER_SEGMENTS_IMPL_H
#define FG_INGESTER_SEGMENTS_IMPL_H

#include "ingester/segments/segments.h"
#include "ingester/segments/table.h"

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
    int64_t short_mono_ns; /* until then at least */
};

/* Rounds that an effect is about. */
struct ing_round_list {
    struct ing_segments_round **rounds;
    uint32_t n, cap;
};

struct ing_segments {
    struct ing_segments_config config;
    struct ing_table table;
    uint64_t random;
    int64_t wall_ns, mono_ns; /* of the event being handled */
    int64_t manifest_mono_ns; /* when it was read last */
    int64_t next_look_mono_ns;
    uint8_t *ranks;  /* [SEGMENTS_SHARDS]; NULL: all 0 */
    bool look;       /* through all rounds, in this step */
    uint64_t drains; /* number of the last DRAIN */
    bool draining;   /* some round may be waited for by one */

    /* What the manifest said last. */
    bool started; /* it was read */
    uint64_t seen;
    uint64_t era;      /* the greatest `asked` */
    uint64_t reported; /* this store is clean of, it says */
    struct fg_late_filter late_filter;
    struct fg_arena *late_filter_arena;

    /* Following. */
    enum ing_follow_state follow;
    /* Comparisons have a pause of their own: the manifest is read between two of them, and a read
     * that succeeds ends follow_pause. */
    struct ing_pause follow_pause, compare_pause, report_pause;
    bool settled; /* not before the first time, nor since something was missed */
    bool settling;
    uint64_t gen, safe, wanted;
    uint64_t foreign[FG_L0_SEGMENTS_MAX]; /* generations to be compared with, ascending */
    uint32_t n_foreign, at_foreign;
    bool compares_all;             /* the COMPARE that is under way */
    struct ing_round_list checked; /* held by nobody: to be taken in */
    int64_t check_mono_ns;         /* what is unchecked is compared again from then on */
    bool checks_drain;             /* the COMPARE of all began after the last DRAIN */
    bool read_now, went_back, store_went_back;
    int64_t next_read_mono_ns;
    uint64_t read_for;      /* `wanted` when the read that is under way began */
    int64_t wanted_mono_ns; /* what is wanted is not read for before */

    /* The cut that is under way. */
    enum ing_cut_state cut;
    struct ing_pause cut_pause;
    uint64_t last_cut;
    struct ing_round_list pinned; /* its rounds */
    struct fg_segment_id upload;
    int64_t uploaded_mono_ns;
    bool stale;                    /* what was uploaded is not what the rounds hold */
    bool rechecked;                /* the manifest was read since the upload, or the swap */
    uint32_t unfit;                /* so often in a row its rounds could not become a segment */
    struct ing_round_list misfits; /* of its rounds, those that are to be set aside */
    bool retry_misfits;            /* at once: nobody knows which are at fault */
    int64_t retry_mono_ns;         /* what is set aside is tried again then */

    struct ing_round_list marking, forgetting, empty;
    struct ing_pause forget_pause;
    bool is_forgetting;
};

/* ---- segments.c ---- */

bool ing_segments_keeps(const struct ing_segments *segments, enum fg_rule rule);
/* Of the jitter and of names of uploads. */
uint64_t ing_segments_draw(struct ing_segments *segments);
/* Begins a pause that doubles with each failure, with full jitter. */
void ing_segments_fail(struct ing_segments *segments, struct ing_pause *pause);

/* Return when a pause ends, and whether it is over. */
int64_t ing_segments_pause_end(const struct ing_segments *segments, const struct ing_pause *pause);
bool ing_segments_is_over(const struct ing_segments *segments, const struct ing_pause *pause);
void ing_round_list_add(struct ing_round_list *list, struct ing_segments_round *round);
/* Only those in that state stay; only the others. */
void ing_round_list_keep(struct ing_round_list *list, enum ing_round_state state);
void ing_round_list_drop(struct ing_round_list *list, enum ing_round_state state);
/* Every round gets into the table here. */
struct ing_segments_round *ing_segments_add_round(struct ing_segments *segments,
                                                  struct ing_table_group *group,
                                                  struct ing_segments_round round);
/* The least era of what there is. */
uint64_t ing_segments_clean(const struct ing_segments *segments);
void ing_segments_commit_round(struct ing_segments *segments, struct ing_segments_round *round,
                               uint64_t generation);
/* When the round's window counts as over. */
int64_t ing_segments_closed_wall_ns(const struct ing_segments *segments,
                                    const struct ing_segments_round *round);
bool ing_segments_is_closed(const struct ing_segments *segments,
                            const struct ing_segments_round *round);
/* The DRAIN of that number waits for the round too; 0: none does. */
void ing_segments_wait_for(struct ing_segments_round *round, uint64_t drain);
/* One more effect of this step. */
struct ing_segments_effect *ing_segments_emit(struct ing_segments_effects *effects,
                                              enum ing_segments_effect_kind kind);
void ing_segments_emit_rounds(struct ing_segments_effects *effects,
                              enum ing_segments_effect_kind kind, const struct ing_round_list *list,
                              const struct ing_segments *segments);

/* ---- follow.c: what has come of its effects, and what is next ---- */

void ing_follow_failed(struct ing_segments *segments, enum ing_segments_effect_kind failed);
void ing_follow_manifest(struct ing_segments *segments, const struct fg_l0 *l0);
void ing_follow_compared(struct ing_segments *segments, const struct ing_segments_event *event);
void ing_follow_taken_in(struct ing_segments *segments);
void ing_follow_reported(struct ing_segments *segments);
/* When the next read of the manifest may begin; INT64_MAX: not before another event. */
int64_t ing_follow_due_mono_ns(const struct ing_segments *segments);
void ing_follow_advance(struct ing_segments *segments, struct ing_segments_effects *effects);

/* ---- cut.c: likewise ---- */

void ing_cut_sealed(struct ing_segments *segments);
void ing_cut_is_aside(struct ing_segments *segments);
void ing_cut_marked(struct ing_segments *segments);
void ing_cut_uploaded(struct ing_segments *segments, bool nothing);
void ing_cut_swapped(struct ing_segments *segments);
void ing_cut_failed(struct ing_segments *segments, const struct ing_segments_event *event);
void ing_cut_advance(struct ing_segments *segments, struct ing_segments_effects *effects);

#endif
