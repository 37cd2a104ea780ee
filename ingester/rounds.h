/*
 * Rounds: what the head holds of each group (shard, window; protocol.md, Words), in the pieces in
 * which it goes into segments.
 *
 *             arrives              cut                 the segment is in the manifest
 *   profile ----------> OPEN ----------------> SEALED --------------------------------> COMMITTED
 *                        ^                       |  nothing is added any more              |
 *                        |  later arrivals:      v                                         v
 *                        +-- the next round   a segment is made of it                   forgotten
 *
 * So what a segment will hold is fixed before it is made, a crash leaves it as it was, and a commit
 * or forgetting is one mark for many profiles. What becomes of rounds is decided elsewhere
 * (segments/segments.h); this is where they are kept and found.
 *
 * All of it is in memory, and in the store as below; a restart reads it back.
 *
 *   ROUNDS value: varint count, varint bytes, varint born, zigzag opened, zigzag least and greatest
 * time, digest 16 bytes, u8 state, varint cut, varint generation
 *
 * Thread: any may look; one at a time changes (the committer). One lock inside.
 */
#ifndef FG_INGESTER_ROUNDS_H
#define FG_INGESTER_ROUNDS_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/storage/store/store.h"
#include "ingester/catalog/catalog.h"
#include "ingester/segments/segments.h"

struct rounds;

/* Times are those of the profiles, inclusive. */
struct round {
    struct head_round_key key;
    uint64_t count, bytes; /* of profiles, and of their records */
    uint32_t born;         /* how many cuts there were when it began */
    int64_t opened_wall_ns;
    int64_t least_ns, greatest_ns;
    struct fg_id digest; /* sum of the profiles' ids */
    enum round_state state;
    uint32_t cut;        /* by which it was sealed */
    uint64_t generation; /* of the manifest, at which it was committed */
    bool in_doubt;       /* a write that failed may have moved its profiles; not in the store */
};

/*
 * Reads everything back. A round of a tenant that the catalog does not know, or one that cannot be
 * read, is set aside; profiles of a round without a record make one (*damage). max_bytes: memory
 * for rounds, see rounds_have_room(). FG_E_UNAVAILABLE, FG_E_CORRUPT: the store cannot be read.
 */
enum fg_code rounds_open(struct fg_store *store, struct catalog *catalog, uint64_t max_bytes,
                         struct damage *damage, struct rounds **ret_rounds,
                         struct fg_err *err) fg_must_check;
void rounds_close(struct rounds *rounds);
size_t rounds_bytes(struct rounds *rounds);

/* Returns whether a tenant may begin new ones: those there are go on. share: of max_bytes, see
 * common/model/tenant_share.h. */
bool rounds_have_room(struct rounds *rounds, uint32_t tenant, double share);

/* --- one round, by value --- */

/* An open one without profiles. */
struct round round_empty(const struct head_round_key *key);
void round_add(struct round *round, int64_t time_ns, struct fg_id id, size_t bytes);
/* Adds what the other has. */
void round_join(struct round *round, const struct round *other);
void round_put(const struct round *round, struct fg_store_batch *out);

/* Is what it has known to be in no segment? Of an unchecked one nobody knows. */
static inline bool round_is_uncommitted(const struct round *round)
{
    return round->state != ROUND_COMMITTED && round->state != ROUND_UNCHECKED;
}

/* With all its profiles. */
void round_delete(const struct head_round_key *key, struct fg_store_batch *out);

/* --- the committer's side: what was written is taken over --- */

/* How often the head was cut. */
uint32_t rounds_cuts(struct rounds *rounds);
void rounds_put_cuts(uint32_t cuts, struct fg_store_batch *out);
void rounds_set_cuts(struct rounds *rounds, uint32_t cuts);

/* The greatest generation of the manifest that was noted: so an older one is found out after a
 * restart. rounds_put_seen() does not change what rounds_seen() says. */
uint64_t rounds_seen(const struct rounds *rounds);
void rounds_put_seen(uint64_t generation, struct fg_store_batch *out);

/* Puts the round's record as it is here; if there is no such round, deletes its record. Undoes what
 * a write that failed may have made of it. */
void rounds_put_known(struct rounds *rounds, const struct head_round_key *key,
                      struct fg_store_batch *out);

/* Marks a round whose profiles a write that failed may have moved. Until rounds_settle() clears all
 * these marks nobody can answer with the round. */
void rounds_doubt(struct rounds *rounds, const struct head_round_key *key);
void rounds_settle(struct rounds *rounds);

/* Sets or adds. */
void rounds_set(struct rounds *rounds, const struct round *round);
void rounds_remove(struct rounds *rounds, const struct head_round_key *key);

/* --- looking --- */

/* The least number of cuts at which a round that is here began; UINT32_MAX: there is none. */
uint32_t rounds_least_born(struct rounds *rounds);

/* false: there is no such round. */
bool rounds_find(struct rounds *rounds, const struct head_round_key *key, struct round *ret_round);

/* Rounds of a group, up to max of them; how many there are. */
size_t rounds_of_group(struct rounds *rounds, const struct head_group_key *key,
                       struct round *ret_rounds, size_t max);

/* Which rounds are looked for. */
struct rounds_filter {
    bool any_tenant;
    uint32_t tenant;
    int64_t start_ns, end_ns; /* with profiles in this time, inclusive */
    bool any_state;           /* else not those that were committed at or before the generation */
    uint64_t generation;
};

/* Sorted by tenant, shard, window, number; array in the arena. FG_E_LIMIT at its end. */
enum fg_code rounds_select(struct rounds *rounds, const struct rounds_filter *filter,
                           struct fg_arena *arena, struct round **ret_rounds, size_t *ret_count,
                           struct fg_err *err) fg_must_check;

#endif
