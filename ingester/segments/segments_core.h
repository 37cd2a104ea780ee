/*
 * The step core of the way from the head to the bucket: event in, effects out. It knows which
 * chunks the head has and the state of each. It decides when to cut, what to write, when to swap
 * and what to evict, and says for each push and each read what the head may do.
 *
 * Chunks. A group is (tenant, shard, window). A profile goes into the open chunk of its group. A
 * cut seals chunks; profiles that arrive later go into the next chunk. So the content of a segment
 * is fixed before the segment is made, and survives a crash. A sealed chunk is committed as a
 * whole, at one generation of the manifest, and evicted as a whole.
 *
 *             seal                 found in the manifest          five minutes later
 *   OPEN ------------> SEALED(cut) ---------------------> COMMITTED(generation) -----> (evicted)
 *     \                  |     ^                               ^ ^
 *      \                 |     | tried again                   | |
 *       \                `--> ASIDE ---------------------------' |
 *        \____ in a segment of another ingester: COMPARE ________/   its other profiles move to an
 *              (replicas, changes of the ring)                       OPEN chunk; or these stay, and
 *                                                                    those of the segment move to a
 *                                                                    COMMITTED chunk
 *
 * Aside. A cut whose chunks cannot become a segment because of what they hold (FAILED, unfit) must
 * not stop the cuts after it. After SEGMENTS_TRIES such failures the chunks at fault are set aside:
 * they stay in the head and are served. They are tried again in a cut of their own: after a while,
 * at a DRAIN or SALVAGE, and at the next start, which may be that of a version that can build them.
 * If it is unknown which chunks are at fault, half of the cut is set aside and tried again at once,
 * so that in the end only the chunks at fault are left.
 *
 * Keyless. A cut fails, too, if the key with which a tenant's part is to be encrypted cannot be
 * had. Nothing is wrong with the chunks, it is known whose they are, and the other tenants must not
 * wait: so these chunks are set aside at the first such failure, and tried again every minute. They
 * cannot stay out of the cut in another way: a cut is committed as a whole, by its number, so a
 * chunk that is sealed under it and not in its segment would be lost.
 *
 * Unchecked. While the bucket cannot be read, a profile that may be in it already is taken without
 * a lookup, into a chunk that is neither shown nor committed until a COMPARE has checked it
 * (TAKE_IN). A COMPARE that could not read a damaged object also makes the chunks unchecked that
 * the object may contain. A reader that would see such a chunk is told that its answer is
 * incomplete.
 *
 *   (taken without a lookup) --> UNCHECKED --compared: not in the bucket--> ASIDE, tried at once
 *            (unsure) OPEN, SEALED, ASIDE --^   \--in the bucket--> COMMITTED, as above
 *
 * A cut goes through SEAL, UPLOAD, SWAP and MARK. The answer to a swap is never believed: lost, won
 * or unknown, the manifest is read, and it says which cut of this store entered last. So a lost
 * answer, a late swap and a crash at any point are the same case. There is one cut at a time; the
 * next one begins after all chunks of the last one are marked.
 *
 * Ranks. If several heads have the same profiles, one of them is the first for each shard, and the
 * others give it time: they find its segment (COMPARE) and make none. That only saves work: each
 * head may commit all that it has at any time, and heads need not agree about ranks. A DRAIN waits
 * for nobody.
 *
 * Following. `seen` is the newest generation whose manifest was handed in; admission goes by it.
 * `gen` is the newest one that all chunks agree with: no profile of a chunk that is not committed
 * is in an object of a generation <= gen. Reads wait for it (fence-gen). In between the head
 * compares.
 *
 * Clean. The compactor has to know when every head has lost all profiles that it had when a
 * deletion asked for it (compactor/completion_core.h). So the manifest has a number, `asked`, that
 * the compactor raises then. The greatest one seen is the era; a chunk has the era in which it
 * began, or the least era of what it took over. The least era of all chunks, committed ones
 * included, is what this store is clean of. A committed chunk that stays only since its group is
 * pinned counts with what the holder of the pins is clean of, if that is greater: no reader gets
 * it, and it is never committed again. Each commit says it, and a REPORT does if there is nothing
 * to commit.
 *
 * Thread: the one that writes the head (the committer's), between its batches: what
 * ing_segments_core_admit() allows is written before the next event is handed in, and what SEAL,
 * COMPARE and EVICT write is written and answered without a push in between. Memory: bounded by
 * chunks_max. No clock and no I/O. Effects are to be carried out now; each is answered by one
 * event. A crash may come anywhere: what is not durable may be lost.
 */
#ifndef FG_INGESTER_SEGMENTS_CORE_H
#define FG_INGESTER_SEGMENTS_CORE_H

#include "common/cluster/manifest/l0.h"
#include "common/cluster/manifest/rules.h"
#include "ingester/segments/chunk.h"

struct ing_segments_core;

struct ing_segments_core_config {
    struct fg_id writer;       /* born with the store (common/cluster/manifest/name.h) */
    uint64_t seed;             /* different at each start: jitter and names of uploads */
    uint64_t cut_bytes;        /* cut everything when so much is open of shards of which we are
                                  the first, or four times as much of all: 64 MiB */
    int64_t grace_ns;          /* a window is due that long after its end: 1 min */
    int64_t linger_ns;         /* late profiles wait that long for others: 10 min */
    int64_t open_max_ns;       /* no chunk is open longer, whatever its window: 2 h */
    int64_t evict_after_ns;    /* committed chunks stay that long: 5 min */
    int64_t failover_after_ns; /* time for each head of a better rank: 5 min */
    int64_t poll_ns;           /* the manifest is read at least that often: 15 s */
    int64_t upload_max_age_ns; /* older uploads are repeated before a swap, since an object that
                                  no manifest lists is deleted after a day: 1 h */
    int64_t aside_retry_ns;    /* chunks that were set aside are tried again after so long: 1 h */
    int64_t keyless_retry_ns;  /* chunks whose tenants' keys could not be had likewise: 1 min */
    int64_t check_retry_ns;    /* chunks that are unchecked because of damage likewise: 5 min */
    uint64_t unchecked_max_bytes;           /* of profiles taken without a lookup: 1 GiB */
    int64_t backoff_min_ns, backoff_max_ns; /* after failures, doubled, with full jitter */
    uint32_t chunks_max;
    unsigned rules; /* enum fg_rule */
    /* Returns true if something else needs the profiles of a group in the head, though they are
     * committed: then its chunks are not evicted. NULL: nothing does. The answer may become false
     * at any time, but true only between two steps. */
    bool (*pins)(void *arg, const struct ing_head_group_key *group);
    /* Returns the number of which that is clean, as below: it does not need what deletions name
     * that wait for the number. asked: the era. NULL: nothing is known. */
    uint64_t (*pins_clean)(void *arg, uint64_t asked);
    void *pins_arg;
};

enum { SEGMENTS_TRIES = 3 }; /* of a cut whose chunks are unfit, before any are set aside */

/*
 * Creates a core without chunks. last_cut: the greatest number that a SEAL ever had in this store.
 * seen: the greatest generation that earlier starts have read; an older manifest is not the one of
 * this store's bucket.
 */
struct ing_segments_core *ing_segments_core_create(const struct ing_segments_core_config *config,
                                                   uint64_t last_cut, uint64_t seen);

/* Destroys the core. Accepts NULL. */
void ing_segments_core_destroy(struct ing_segments_core *core);

/* Adds a chunk that the store has. Call it once for each, before the first event. Returns false if
 * there are more than chunks_max. */
bool ing_segments_core_restore(struct ing_segments_core *core,
                               const struct ing_segments_chunk *chunk) fg_must_check;

/* ---- events and effects ---- */

enum ing_segments_event_kind {
    SEGMENTS_TICK,     /* time has passed; also the first event */
    SEGMENTS_WANTED,   /* somebody knows this generation and waits for it */
    SEGMENTS_DRAIN,    /* commit what there is now at once, not what comes later */
    SEGMENTS_SALVAGE,  /* commit chunks that are set aside without what cannot be read of them */
    SEGMENTS_RANKS,    /* ranks of the shards; before the first such event all are ours */
    SEGMENTS_MANIFEST, /* READ: the manifest as it is now */
    SEGMENTS_COMPARED, /* COMPARE: written, with these outcomes */
    SEGMENTS_SEALED,   /* SEAL: written */
    SEGMENTS_IS_ASIDE, /* SET_ASIDE: written */
    SEGMENTS_TAKEN_IN, /* TAKE_IN: written */
    SEGMENTS_UPLOADED, /* UPLOAD: the object is whole and durable */
    SEGMENTS_SWAPPED,  /* SWAP: done, or another writer was first; the manifest tells */
    SEGMENTS_MARKED,   /* MARK: written */
    SEGMENTS_EVICTED,  /* EVICT: written */
    SEGMENTS_REPORTED, /* REPORT: ended, whatever the result */
    SEGMENTS_FAILED,   /* the effect named in `failed` failed, or nobody knows */
};

enum ing_segments_effect_kind {
    /* Read the L0 manifest (a conditional read is fine; the event gets what is known then). */
    SEGMENTS_READ,
    /*
     * Find out which profiles of chunks that are not committed are in the bucket: in the segment of
     * this generation, or (all) in any live object of a snapshot of this or a later generation.
     * Only groups for which ing_segments_core_may_hold() is true have to be looked up. For each
     * chunk with such a profile: move its other profiles to the chunk that
     * ing_segments_core_leftover() names, and mark the chunk committed at the generation of the
     * segment or the snapshot. Or move such profiles, all or some, to the chunk that
     * ing_segments_core_split() names, which is committed at that generation; the chunk stays what
     * it is. A segment that is gone: FAILED. Unchecked chunks are looked up with `all` only, since
     * another object may have what one segment lacks. If a damaged object may contain profiles of a
     * group, the group is unsure: mark its chunks that are not committed as unchecked.
     *
     * All in one durable batch, or in several, each answered by a COMPARED of its own before the
     * next one is made: all but the last with `more`. In between pushes and other steps may come.
     * FAILED may follow them instead of the last: what was answered stays.
     */
    SEGMENTS_COMPARE,
    /* Mark the chunks, which are unchecked, as set aside: one durable batch. */
    SEGMENTS_TAKE_IN,
    /* Mark the chunks sealed under this cut, and store it as the last cut: one durable batch. */
    SEGMENTS_SEAL,
    /* Make a segment of the profiles of the chunks and upload it under this id, if absent. salvage:
     * without profiles that cannot be read. */
    SEGMENTS_UPLOAD,
    /* Mark the chunks set aside: one durable batch. */
    SEGMENTS_SET_ASIDE,
    /* Swap the segment into the manifest that was handed in last: fg_l0_commit(), if its etag still
     * holds. */
    SEGMENTS_SWAP,
    /* Mark the chunks committed, each at its generation: one durable batch. */
    SEGMENTS_MARK,
    /* Delete the chunks. Reads of older snapshots are refused from now on. */
    SEGMENTS_EVICT,
    /* Tell the manifest what this store is clean of: fg_l0_clean(), conditional as SWAP. */
    SEGMENTS_REPORT,
    SEGMENTS_EFFECT_KINDS, /* the number of kinds */
};

/* What a COMPARE found about a chunk, and what it has moved to another one. */
struct ing_segments_outcome {
    struct ing_head_group_key group;
    uint32_t number;
    /* false: the profiles of the chunk are in the bucket, except those that moved, to the chunk of
     * ing_segments_core_leftover(). true: those that moved are, to that of
     * ing_segments_core_split(). */
    bool split;
    uint32_t to; /* the number that the function said; unused if none moved */
    uint64_t moved_profiles, moved_bytes;
};

struct ing_segments_event {
    enum ing_segments_event_kind kind;
    int64_t wall_ns, mono_ns;
    uint64_t generation;    /* WANTED; COMPARED: of the segment or the snapshot */
    const struct fg_l0 *l0; /* MANIFEST; valid until the step returns */
    const struct ing_segments_outcome *outcomes; /* COMPARED */
    uint32_t n_outcomes;
    bool more; /* COMPARED: this is a part, and another COMPARED or a FAILED follows */
    /* COMPARED: groups of which the segment has profiles that no live chunk here has. With `more`
     * also groups that are not compared to the end, though some chunk of theirs is. */
    const struct ing_head_group_key *missing;
    uint32_t n_missing;
    const struct ing_head_group_key *unsure; /* COMPARED: groups, ascending */
    uint32_t n_unsure;
    enum ing_segments_effect_kind failed; /* FAILED */
    /* FAILED, of UPLOAD: it failed because of what the chunks hold, and will fail again. suspects:
     * the chunks at fault; none: unknown. */
    bool unfit;
    /* FAILED, of UPLOAD: it failed because the keys of the suspects' tenants cannot be had now.
     * There are some suspects. */
    bool keyless;
    const struct ing_head_chunk_key *suspects;
    uint32_t n_suspects;
    uint64_t drain;       /* DRAIN: its number, greater than all before */
    const uint8_t *ranks; /* RANKS: [SEGMENTS_SHARDS], 0 is the first; copied */
    bool nothing;         /* UPLOADED: the chunks are empty, so nothing was uploaded */
};

struct ing_segments_effect {
    enum ing_segments_effect_kind kind;
    bool all;                /* COMPARE */
    bool salvage;            /* UPLOAD */
    uint64_t generation;     /* COMPARE */
    uint64_t cut;            /* SEAL */
    struct fg_segment_id id; /* UPLOAD, SWAP */
    uint64_t clean;          /* SWAP, REPORT: goes into the manifest with it */
    /* SEAL, UPLOAD, SET_ASIDE, TAKE_IN, MARK, EVICT; valid until the next step. */
    const struct ing_segments_chunk *const *chunks;
    uint32_t n_chunks;
};

/* A read of the manifest, a COMPARE, a TAKE_IN or a REPORT; one step of a cut; an EVICT. */
enum { SEGMENTS_EFFECTS_MAX = 3, SEGMENTS_SHARDS = 1 << 16 };

struct ing_segments_effects {
    struct ing_segments_effect effects[SEGMENTS_EFFECTS_MAX];
    uint32_t n;
    int64_t wake_mono_ns; /* a TICK is due then at the latest */
};

/* Takes an event and returns what is to be done now. */
void ing_segments_core_step(struct ing_segments_core *core, const struct ing_segments_event *event,
                            struct ing_segments_effects *ret_effects);

/* Asserts what always holds of all chunks and sums. Takes time for each chunk: for tests and the
 * simulator; each step asserts what it can in constant time. */
void ing_segments_core_check(const struct ing_segments_core *core);

/* ---- writing ---- */

enum ing_segments_admission {
    SEGMENTS_ADMIT,           /* write it into this chunk */
    SEGMENTS_ADMIT_UNCHECKED, /* likewise; if the chunk is new it is marked unchecked */
    SEGMENTS_LOOK_UP,         /* first look the id up in the live objects of a snapshot of
                                 ing_segments_core_seen() */
    SEGMENTS_FULL,            /* too many chunks: FG_E_LIMIT */
    SEGMENTS_COPIED,          /* another program runs with a copy of this store: take nothing */
};

/* The result of a lookup in the bucket for profiles that are to be stored. */
struct ing_segments_lookup {
    uint64_t generation; /* of the snapshot whose objects lack the id; 0: no lookup */
    bool failed;         /* the bucket is unavailable, or an object is damaged */
};

/*
 * Decides whether a profile may be written whose id is in no live chunk of its group, and into
 * which chunk (check-late-ids). A profile that was found in the bucket is stored already and is not
 * asked about. SEGMENTS_LOOK_UP after a failed lookup: there are unchecked_max_bytes already.
 */
enum ing_segments_admission ing_segments_core_admit(struct ing_segments_core *core,
                                                    const struct ing_head_group_key *group,
                                                    struct ing_segments_lookup lookup,
                                                    uint32_t *ret_chunk) fg_must_check;

/* Returns true if profiles of this group have to be looked up in the bucket. */
bool ing_segments_core_is_late(const struct ing_segments_core *core,
                               const struct ing_head_group_key *group);

/*
 * Counts profiles that were written into a chunk of ing_segments_core_admit(). unchecked: the
 * admission was SEGMENTS_ADMIT_UNCHECKED. wall_ns: when the first of them was received.
 */
void ing_segments_core_added(struct ing_segments_core *core, const struct ing_head_group_key *group,
                             uint32_t chunk, bool unchecked, uint64_t profiles, uint64_t bytes,
                             int64_t wall_ns);

/* Returns the least generation that a snapshot for lookups must have. */
uint64_t ing_segments_core_seen(const struct ing_segments_core *core);

/*
 * Notes that an id was found in the objects of a snapshot of that generation. Call it before the
 * push is answered OK: a reader with an older snapshot that relies on this answer would find the
 * profile neither there nor here, so it is refused from now on.
 */
void ing_segments_core_found(struct ing_segments_core *core, uint64_t generation);

/* ---- reading ---- */

enum ing_segments_readiness {
    SEGMENTS_SERVE,  /* answer with what ing_segments_core_shows() */
    SEGMENTS_BEHIND, /* hand in WANTED, and ask again after the next steps */
    SEGMENTS_STALE,  /* the reader needs a snapshot of *ret_least or newer (drop-after-safe) */
};

/*
 * Decides whether a reader with a snapshot of that generation may be served. This call, the calls
 * of ing_segments_core_shows() and the making of the iterator that is read through belong together:
 * no step may come in between, since a COMPARE moves profiles and an EVICT deletes them.
 */
enum ing_segments_readiness ing_segments_core_fence(const struct ing_segments_core *core,
                                                    uint64_t generation,
                                                    uint64_t *ret_least) fg_must_check;

/* Returns true if the profiles of this chunk are part of the answer for that generation
 * (fence-gen). Those of an unchecked chunk may be: an answer that covers it is incomplete. */
bool ing_segments_core_shows(const struct ing_segments_core *core,
                             const struct ing_head_group_key *group, uint32_t chunk,
                             uint64_t generation);

/* ---- comparing (only if another ingester may have the same profiles) ---- */

/* Returns true if the segments up to `seen` may contain profiles of this group. */
bool ing_segments_core_may_hold(const struct ing_segments_core *core,
                                const struct ing_head_group_key *group);

/* Returns the number of the chunk that profiles of this chunk move to if the bucket lacks them.
 * Changes nothing before COMPARED. */
uint32_t ing_segments_core_leftover(const struct ing_segments_core *core,
                                    const struct ing_head_group_key *group, uint32_t chunk);

/* Returns the number of a new chunk of the group, for profiles that the bucket has; never one of
 * ing_segments_core_leftover() before the next COMPARED. Changes nothing before COMPARED. */
uint32_t ing_segments_core_split(const struct ing_segments_core *core,
                                 const struct ing_head_group_key *group);

/* ---- inspection ---- */

struct ing_segments_core_status {
    uint64_t gen, seen, safe, era;
    uint64_t last_cut;
    uint32_t chunks[CHUNK_STATES]; /* by state */
    uint64_t open_bytes, sealed_bytes, aside_bytes, aside_profiles;
    uint64_t unchecked_bytes, unchecked_profiles;
    bool misfits; /* some chunks are ASIDE and failed again; they do not only wait for their turn */
    /* Of chunks that are not committed since the keys of their tenants cannot be had. */
    uint64_t keyless_profiles, keyless_bytes;
    uint32_t keyless;            /* so many chunks */
    int64_t oldest_open_wall_ns; /* INT64_MAX: none */
    bool settled;
    bool went_back; /* the manifest is older than one that was read: not our bucket any more */
    bool store_went_back; /* the store is older than what the manifest says of it: from a backup */
    bool copied;          /* another program runs with a copy of this store */
    /* DRAINs up to this number are done: what they found is committed, with all marks written, and
     * the manifest was read since the start. They end however much is pushed meanwhile. */
    uint64_t drained;
    /* A reader with a snapshot of this generation or a newer one finds what these DRAINs waited for
     * in objects. Greater than `gen` while the core compares: what it has committed itself is
     * marked before it agrees with the segments that others have swapped in meanwhile. */
    uint64_t drained_at;
    /* DRAINs up to this number have done what can be done: all that they found is committed, except
     * chunks that are set aside or unchecked and failed again since. */
    uint64_t tried;
};

/* Returns counts and positions. Takes time for each chunk. */
struct ing_segments_core_status ing_segments_core_status(const struct ing_segments_core *core);

/* Returns all chunks, in no order. The array is valid until the next call, a chunk until it is
 * evicted. */
const struct ing_segments_chunk *const *
ing_segments_core_chunks(const struct ing_segments_core *core, uint32_t *ret_count);

#endif
