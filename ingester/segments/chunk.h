/*
 * A head chunk as the step core (segments_core.h) knows it, and the states of its life. The counts,
 * times and digest of what it holds are kept elsewhere (head_chunks.h).
 */
#ifndef FG_INGESTER_SEGMENTS_CHUNK_H
#define FG_INGESTER_SEGMENTS_CHUNK_H

#include "ingester/keys.h"

/* States as stored (head_chunks.h): the numbers never change. */
enum ing_chunk_state { CHUNK_OPEN, CHUNK_SEALED, CHUNK_COMMITTED, CHUNK_ASIDE, CHUNK_UNCHECKED };
enum { CHUNK_STATES = CHUNK_UNCHECKED + 1 };

/* Returns true if a chunk of one state may move to the other; segments_core.h has the drawing. */
static inline bool ing_chunk_may_become(enum ing_chunk_state from, enum ing_chunk_state to)
{
    static const unsigned moves[CHUNK_STATES] = {
        [CHUNK_OPEN] = 1 << CHUNK_SEALED | 1 << CHUNK_COMMITTED | 1 << CHUNK_UNCHECKED,
        [CHUNK_SEALED] = 1 << CHUNK_COMMITTED | 1 << CHUNK_ASIDE | 1 << CHUNK_UNCHECKED,
        [CHUNK_ASIDE] = 1 << CHUNK_SEALED | 1 << CHUNK_COMMITTED | 1 << CHUNK_UNCHECKED,
        [CHUNK_UNCHECKED] = 1 << CHUNK_ASIDE | 1 << CHUNK_COMMITTED,
    };

    return (moves[from] >> to & 1) != 0;
}

struct ing_segments_chunk {
    struct ing_head_group_key group;
    uint32_t number; /* in its group; never one that the store still has */
    enum ing_chunk_state state;
    uint64_t cut;        /* SEALED: by which it was sealed */
    uint64_t generation; /* COMMITTED: of the manifest */
    uint64_t profiles, bytes;
    int64_t opened_wall_ns;    /* when its first profile was received */
    int64_t committed_mono_ns; /* 0: before this start */
    bool marked;               /* COMMITTED: the store says so, too; else it says SEALED */
    bool kept;                 /* COMMITTED: only a pin keeps it */
    bool retry;     /* ASIDE: the next cut of such chunks takes it. UNCHECKED: a DRAIN waits for a
                       COMPARE that tells whether it is unsure */
    bool salvage;   /* ASIDE: commit it without what cannot be read of it */
    bool keyless;   /* its last cut failed since the key of its tenant could not be had */
    bool checking;  /* UNCHECKED: the COMPARE under way covers all that it has */
    uint64_t drain; /* the first DRAIN that waits for it; 0: none */
    uint8_t rank;   /* of its shard */
    uint64_t era;   /* all that it has was received in this era or later; 0: unknown */
};

#endif
