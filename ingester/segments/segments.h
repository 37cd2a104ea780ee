/*
 * The step core of the ingester's way from head to segments: event in, effects out. It knows which
 * rounds the head has and what became of each; it decides when to cut, what to write, when to swap,
 * what may be forgotten, and answers for each push and each read what the head may do.
 *
 * Rounds. A group is (tenant, shard, window). What arrives goes into the group's open round; a cut
 * seals rounds, what arrives later goes into the next one. So what a segment will hold is fixed,
 * and survives a crash. A sealed round is committed as a whole, at one generation, and forgotten as
 * a whole.
 *
 *             seal                 found in the manifest          five minutes later
 *   OPEN ------------> SEALED(cut) ---------------------> COMMITTED(generation) -----> (forgotten)
 *     \                  |     ^                               ^ ^
 *      \                 |     | tried again                   | |
 *       \                `--> ASIDE ---------------------------' |
 *        \____ held by a segment of another ingester ____________/   its other profiles go to a new
 *              (only where two hold the same: RF 3, ring changes)    OPEN round: COMPARE
 *
 * Aside. A cut whose rounds cannot become a segment, because of what they hold (FAILED, unfit),
 * must not stop those after it. After SEGMENTS_TRIES such failures the rounds at fault are set
 * aside: they stay in the head and are served, and are tried again in a cut of their own: after a
 * while, at a DRAIN or SALVAGE, and at the next start, which may be that of a version that can
 * build them. If nobody knows which rounds are at fault, half of the cut is set aside and tried
 * again at once, so that in the end only these are left.
 *
 * Unchecked. A profile that may be held already is taken without a look while the bucket cannot be
 * asked, into a round that is neither shown nor committed until it was compared (TAKE_IN). So do
 * rounds of which a COMPARE could not tell, because an object is damaged. A reader that would see
 * such a round has to be told that its answer lacks something.
 *
 *   (taken without a look) --> UNCHECKED --compared: held by nobody--> ASIDE, and tried at once
 *            (unsure) OPEN, SEALED, ASIDE --^   \--held--> COMMITTED, as above
 *
 * A cut goes through SEAL, UPLOAD, SWAP and MARK. The answer to a swap is never believed: lost, won
 * or unknown, the manifest is read, and it says which cut of ours entered last. So an answer that
 * was lost, a swap that is late, and a crash at any point are one and the same case. One cut at a
 * time, and the next one only after all of its rounds are marked.
 *
 * Ranks. Where several heads hold the same, one is the first for each shard, and the others give it
 * time: they find it committed (COMPARE), and make no segment of it. That saves work and nothing
 * else: each may commit whatever it holds at any time, and heads need not agree about ranks. A
 * DRAIN waits for nobody.
 *
 * Following. `seen` is the newest generation whose manifest was handed in: admission looks at it.
 * `gen` is the newest that all rounds agree with: no profile of a round that is not committed is in
 * a block of a generation <= gen. Reads wait for it (fence-gen). Between the two lies comparing.
 *
 * Clean. Who deletes has to know when no head holds anything any more that it held when it was
 * asked for (compactor/completion_core.h), so the manifest has a number, `asked`, that is raised
 * for that. The greatest that was seen is the era; a round has that in which it was born, or of
 * what it took over the least. The least of all rounds, also of those that are committed and not
 * forgotten, is what this store is clean of. Each commit says it, and where there is none to come,
 * a REPORT.
 *
 * Thread: one, and it has to be the one that writes the head (the committer), between its batches:
 * what ing_segments_admit() allows is written before the next event is handed in, and what SEAL,
 * COMPARE and FORGET write is written and answered with no push in between. Memory: bounded by
 * rounds_max. No clock, no I/O; effects are what is to be done now, each is answered by one event,
 * and a crash may come anywhere: what is not durable may be lost.
 */
#ifndef FG_INGESTER_SEGMENTS_H
#define FG_INGESTER_SEGMENTS_H

#include "common/cluster/manifest/l0.h"
#include "common/cluster/manifest/rules.h"
#include "ingester/keys.h"

struct ing_segments;

struct ing_segments_config {
    struct fg_id writer;       /* born with the store (common/cluster/manifest/name.h) */
    uint64_t seed;             /* another one at each start: jitter and names of uploads */
    uint64_t cut_bytes;        /* seal everything when that much is open of which we are the first,
                                  or four times that of all: 64 MiB */
    int64_t grace_ns;          /* a window is due that long after its end: 1 min */
    int64_t linger_ns;         /* late profiles wait that long for others: 10 min */
    int64_t open_max_ns;       /* no round is open longer, whatever its window: 2 h */
    int64_t forget_after_ns;   /* committed rounds stay that long: 5 min */
    int64_t turn_ns;           /* time for each head of a better rank: 5 min */
    int64_t poll_ns;           /* the manifest is read at least that often: 15 s */
    int64_t upload_max_age_ns; /* older uploads are done again before they are swapped in, since
                                  what no manifest lists is deleted after a day: 1 h */
    int64_t aside_retry_ns;    /* rounds that were set aside are tried again after so long: 1 h */
    int64_t check_retry_ns;    /* so are those that are unchecked because of damage: 5 min */
    uint64_t unchecked_max_bytes;           /* taken without a look: 1 GiB */
    int64_t backoff_min_ns, backoff_max_ns; /* after failures, doubled, with full jitter */
    uint32_t rounds_max;
    unsigned rules; /* enum fg_rule */
};

/* As stored (rounds.h): numbers stay. */
enum ing_round_state { ROUND_OPEN, ROUND_SEALED, ROUND_COMMITTED, ROUND_ASIDE, ROUND_UNCHECKED };
enum { ROUND_STATES = ROUND_UNCHECKED + 1 };

enum { SEGMENTS_TRIES = 3 }; /* of a cut whose rounds are unfit, before any are set aside */

struct ing_segments_round {
    struct ing_head_group_key group;
    uint32_t number; /* in its group; never one that the store still has */
    enum ing_round_state state;
    uint64_t cut;        /* SEALED */
    uint64_t generation; /* COMMITTED */
    uint64_t profiles, bytes;
    int64_t opened_wall_ns;    /* of its first profile */
    int64_t committed_mono_ns; /* 0 where it was before this start */
    bool marked;               /* COMMITTED: the store says so too; else it says SEALED */
    bool retry;     /* ASIDE: the next cut of such rounds takes it; UNCHECKED: a DRAIN waits
                       for a COMPARE that tells whether it is unsure */
    bool salvage;   /* and gives up what of it cannot be read */
    bool checking;  /* UNCHECKED: the COMPARE under way tells of all that it has */
    uint64_t drain; /* the first DRAIN that waits for it; 0: none does */
    uint8_t rank;   /* of its shard */
    uint64_t era;   /* what it holds was received in this one or later; 0: nobody knows */
};

/* last_cut: the greatest number a SEAL ever had in this store. seen: the greatest generation that
 * is known to have been read, by earlier starts; a manifest that is older is not the one of then.
 */
struct ing_segments *ing_segments_create(const struct ing_segments_config *config,
                                         uint64_t last_cut, uint64_t seen);
void ing_segments_destroy(struct ing_segments *segments);

/* A round that the store has, before the first event; once each. false: more than rounds_max. */
bool ing_segments_restore(struct ing_segments *segments,
                          const struct ing_segments_round *round) fg_must_check;

/* ---- events and effects ---- */

enum ing_segments_event_kind {
    SEGMENTS_TICK,      /* time has passed; also to begin with */
    SEGMENTS_WANTED,    /* somebody knows of this generation and waits for it */
    SEGMENTS_DRAIN,     /* what there is now is cut at once; what comes later is not waited for */
    SEGMENTS_SALVAGE,   /* what is set aside is committed without what cannot be read of it */
    SEGMENTS_RANKS,     /* whose turn it is first; to begin with it is always ours */
    SEGMENTS_MANIFEST,  /* READ: as it is now */
    SEGMENTS_COMPARED,  /* COMPARE: written, and these are the outcomes */
    SEGMENTS_SEALED,    /* SEAL: written */
    SEGMENTS_IS_ASIDE,  /* SET_ASIDE: written */
    SEGMENTS_TAKEN_IN,  /* TAKE_IN: written */
    SEGMENTS_UPLOADED,  /* UPLOAD: the object is whole and durable */
    SEGMENTS_SWAPPED,   /* SWAP: ended, one way or the other */
    SEGMENTS_MARKED,    /* MARK: written */
    SEGMENTS_FORGOTTEN, /* FORGET: written */
    SEGMENTS_REPORTED,  /* REPORT: ended, one way or the other */
    SEGMENTS_FAILED,    /* the effect named in `failed` did not work, or nobody knows */
};

enum ing_segments_effect_kind {
    /* Read the L0 manifest (a conditional read is fine, the event gets what is known then). */
    SEGMENTS_READ,
    /*
     * Find out which profiles of rounds that are not committed are held: by the segment of this
     * generation, or (all) by any live block of a snapshot whose generation is not less. Only
     * groups for which ing_segments_may_hold() says so have to be looked at. For each such round
     * with a held profile: the other profiles move to the round ing_segments_leftover() names, the
     * round is marked committed, at the generation of the segment or the snapshot; in one durable
     * batch; then COMPARED. A segment that is not there any more: FAILED. Unchecked rounds are
     * looked at with `all` only: what one segment does not hold another may. Where a damaged object
     * does not tell what it holds of a group, the group is unsure, and its rounds that are not
     * committed are marked unchecked in the same batch.
     */
    SEGMENTS_COMPARE,
    /* Mark the rounds, which are unchecked, set aside: one durable batch. */
    SEGMENTS_TAKE_IN,
    /* Mark the rounds sealed, under this cut, and remember it as the last: one durable batch. */
    SEGMENTS_SEAL,
    /* Make a segment of the rounds' profiles, upload it under this id, if absent. salvage: without
     * profiles that cannot be read. */
    SEGMENTS_UPLOAD,
    /* Mark the rounds set aside: one durable batch. */
    SEGMENTS_SET_ASIDE,
    /* Swap it in, onto the manifest that was handed in last: fg_l0_commit(), if its etag holds. */
    SEGMENTS_SWAP,
    /* Mark the rounds committed, each at its generation: one durable batch. */
    SEGMENTS_MARK,
    /* Delete the rounds. Reads of older snapshots are refused from now on. */
    SEGMENTS_FORGET,
    /* Say what this store is clean of: fg_l0_clean(), onto the manifest as SWAP. */
    SEGMENTS_REPORT,
    SEGMENTS_EFFECT_KINDS, /* none: so many there are */
};

/* What a COMPARE found of a round: its profiles but `moved_…` are held. */
struct ing_segments_outcome {
    struct ing_head_group_key group;
    uint32_t number;
    uint64_t moved_profiles, moved_bytes; /* to the round ing_segments_leftover() named */
};

struct ing_segments_event {
    enum ing_segments_event_kind kind;
    int64_t wall_ns, mono_ns;
    uint64_t generation;    /* WANTED; COMPARED: of the segment or the snapshot */
    const struct fg_l0 *l0; /* MANIFEST; until the step returns */
    const struct ing_segments_outcome *outcomes; /* COMPARED */
    uint32_t n_outcomes;
    /* COMPARED: groups of which the segment holds profiles that none of our live rounds has. */
    const struct ing_head_group_key *missing;
    uint32_t n_missing;
    const struct ing_head_group_key *unsure; /* COMPARED; of all rounds, ascending */
    uint32_t n_unsure;
    enum ing_segments_effect_kind failed; /* FAILED */
    /* FAILED, of UPLOAD: it is because of what the rounds hold, and will fail again. suspects:
     * those at fault; none: nobody knows. */
    bool unfit;
    const struct ing_head_round_key *suspects;
    uint32_t n_suspects;
    uint64_t drain;       /* DRAIN: its number, greater than all before */
    const uint8_t *ranks; /* RANKS: [SEGMENTS_SHARDS], 0 is the first; copied */
    bool nothing;         /* UPLOADED: the rounds are empty, and so nothing was uploaded */
};

struct ing_segments_effect {
    enum ing_segments_effect_kind kind;
    bool all;                /* COMPARE */
    bool salvage;            /* UPLOAD */
    uint64_t generation;     /* COMPARE */
    uint64_t cut;            /* SEAL */
    struct fg_segment_id id; /* UPLOAD, SWAP */
    uint64_t clean;          /* SWAP, REPORT: goes into the manifest with it */
    /* SEAL, UPLOAD, SET_ASIDE, TAKE_IN, MARK, FORGET; until the next step. */
    const struct ing_segments_round *const *rounds;
    uint32_t n_rounds;
};

/* A read of the manifest, a COMPARE, a TAKE_IN or a REPORT; one step of a cut; a FORGET. */
enum { SEGMENTS_EFFECTS_MAX = 3, SEGMENTS_SHARDS = 1 << 16 };

struct ing_segments_effects {
    struct ing_segments_effect effects[SEGMENTS_EFFECTS_MAX];
    uint32_t n;
    int64_t wake_mono_ns; /* a TICK is due then at the latest */
};

void ing_segments_step(struct ing_segments *segments, const struct ing_segments_event *event,
                       struct ing_segments_effects *ret_effects);

/* ---- writing ---- */

enum ing_segments_admission {
    SEGMENTS_ADMIT,           /* write it into this round */
    SEGMENTS_ADMIT_UNCHECKED, /* likewise; if the round is new it is marked unchecked */
    SEGMENTS_LOOK, /* first look for the id in the live blocks of a snapshot of ing_segments_seen()
                    */
    SEGMENTS_FULL, /* too many rounds: FG_E_LIMIT */
};

/* What a look in the bucket has found about a profile that is to be stored. */
struct ing_segments_looked {
    uint64_t generation; /* of the snapshot whose blocks do not have its id; 0: not looked for */
    bool cannot;         /* the bucket is unavailable, or an object is damaged */
};

/*
 * May a profile be written whose id is in no live round of its group? A profile that was found in
 * blocks is stored already: done. (check-late-ids) SEGMENTS_LOOK to one that cannot be looked for:
 * there are unchecked_max_bytes already.
 */
enum ing_segments_admission ing_segments_admit(struct ing_segments *segments,
                                               const struct ing_head_group_key *group,
                                               struct ing_segments_looked looked,
                                               uint32_t *ret_round) fg_must_check;

/* Would a profile of this group have to be looked for? */
bool ing_segments_is_late(const struct ing_segments *segments,
                          const struct ing_head_group_key *group);

/*
 * Counts profiles that were, or may have been, written into a round of ing_segments_admit().
 * unchecked: the admission was SEGMENTS_ADMIT_UNCHECKED. A failed write may become visible later,
 * even after a restart, when the round was uploaded without it and committed. So the next batch
 * that is written deletes what the failed one was to put.
 */
void ing_segments_added(struct ing_segments *segments, const struct ing_head_group_key *group,
                        uint32_t round, bool unchecked, uint64_t profiles, uint64_t bytes,
                        int64_t wall_ns);

/* A snapshot for looking has to be of this generation at least. */
uint64_t ing_segments_seen(const struct ing_segments *segments);

/*
 * An id was found in the blocks of a snapshot of that generation, and so its push is answered OK:
 * before it is. A reader with an older snapshot that relies on this answer would find the profile
 * neither there nor here, so it is refused from now on.
 */
void ing_segments_found(struct ing_segments *segments, uint64_t generation);

/* ---- reading ---- */

enum ing_segments_fence {
    SEGMENTS_SERVE,  /* what ing_segments_shows() */
    SEGMENTS_BEHIND, /* hand in WANTED, and ask again after the next steps */
    SEGMENTS_STALE,  /* the reader needs a snapshot of *ret_least or newer (drop-after-safe) */
};

/*
 * May a reader with a snapshot of that generation be served? This call, the calls of
 * ing_segments_shows() and the making of the iterator that is read through belong together: no step
 * in between, since a COMPARE moves profiles and a FORGET deletes them.
 */
enum ing_segments_fence ing_segments_fence(const struct ing_segments *segments, uint64_t generation,
                                           uint64_t *ret_least) fg_must_check;

/* Are the profiles of this round part of the answer for that generation? (fence-gen) Those of an
 * unchecked one may be: an answer that covers it is not complete. */
bool ing_segments_shows(const struct ing_segments *segments, const struct ing_head_group_key *group,
                        uint32_t round, uint64_t generation);

/* ---- comparing (only where another ingester may hold the same profiles) ---- */

/* Can the segments up to seen hold profiles of this group? */
bool ing_segments_may_hold(const struct ing_segments *segments,
                           const struct ing_head_group_key *group);

/* Where profiles of this round go that are not held. Nothing is changed before COMPARED. */
uint32_t ing_segments_leftover(const struct ing_segments *segments,
                               const struct ing_head_group_key *group, uint32_t round);

/* ---- looking at it ---- */

struct ing_segments_status {
    uint64_t gen, seen, safe, era;
    uint64_t last_cut;
    uint32_t rounds[ROUND_STATES]; /* by state */
    uint64_t open_bytes, sealed_bytes, aside_bytes, aside_profiles;
    uint64_t unchecked_bytes, unchecked_profiles;
    bool misfits; /* some are ASIDE and were tried; not only waiting for their turn */
    int64_t oldest_open_wall_ns; /* INT64_MAX: none */
    bool settled;
    bool went_back; /* the manifest is older than one that was read: not our bucket any more */
    bool store_went_back; /* the store is older than what the manifest says of it: from a backup */
    /* DRAINs up to this number are done: what they found is committed, with all marks written.
     * They come to an end however much is pushed meanwhile. */
    uint64_t drained;
    /* DRAINs up to this number have done what can be done: all that they found is committed, except
     * rounds that are set aside or unchecked and failed again since. */
    uint64_t tried;
};
struct ing_segments_status ing_segments_status(const struct ing_segments *segments);

/* All rounds, in no order; the array until the next call, a round until it is forgotten. */
const struct ing_segments_round *const *ing_segments_rounds(const struct ing_segments *segments,
                                                            uint32_t *ret_count);

#endif
