/*
 * Chunks: what the head holds of each group (shard, window; common/cluster/README.md#words), in the
 * pieces in which it goes into segments.
 *
 *             arrives              cut                 the segment is in the manifest
 *   profile ----------> OPEN ----------------> SEALED --------------------------------> COMMITTED
 *                        ^                       |  nothing is added any more              |
 *                        |  later arrivals:      v                                         v
 *                        +-- the next chunk   a segment is made of it                   evicted
 *
 * So what a segment will hold is fixed before it is made, a crash leaves it as it was, and a commit
 * or evicting is one mark for many profiles. What becomes of chunks is decided elsewhere
 * (segments/segments.h); this is where they are kept and found.
 *
 * All of it is in memory, and in the store as below; a restart reads it back.
 *
 *   CHUNKS value: varint count, varint bytes, varint born, zigzag opened, zigzag least and greatest
 * time, digest 16 bytes, u8 state, varint cut, varint generation
 *
 * Thread: any may look; one at a time changes (the committer). One lock inside.
 */
#ifndef FG_INGESTER_HEAD_CHUNKS_H
#define FG_INGESTER_HEAD_CHUNKS_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/storage/store/store.h"
#include "ingester/catalog/catalog.h"
#include "ingester/damage.h"
#include "ingester/segments/chunk.h"

struct ing_head_chunks;

/* Times are those of the profiles, inclusive. */
struct ing_head_chunk {
    struct ing_head_chunk_key key;
    uint64_t count, bytes; /* of profiles, and of their records */
    uint32_t born;         /* how many cuts there were when it began */
    int64_t opened_wall_ns;
    int64_t least_ns, greatest_ns;
    struct fg_id digest; /* sum of the profiles' ids */
    enum ing_chunk_state state;
    uint32_t cut;        /* by which it was sealed */
    uint64_t generation; /* of the manifest, at which it was committed */
    bool in_doubt;       /* a write that failed may have moved its profiles; not in the store */
};

/*
 * Reads everything back. A chunk of a tenant that the catalog does not know, or one that cannot be
 * read, is set aside; profiles of a chunk without a record make one (*damage). max_bytes: memory
 * for chunks, see ing_head_chunks_have_room(). FG_E_UNAVAILABLE, FG_E_CORRUPT: the store cannot be
 * read.
 */
enum fg_code ing_head_chunks_open(struct fg_store *store, struct ing_catalog *catalog,
                                  uint64_t max_bytes, struct ing_damage *damage,
                                  struct ing_head_chunks **ret_chunks,
                                  struct fg_err *err) fg_must_check;
void ing_head_chunks_close(struct ing_head_chunks *chunks);
size_t ing_head_chunks_bytes(struct ing_head_chunks *chunks);

/* Returns whether a tenant may begin new ones: those there are go on. share: of max_bytes, see
 * common/model/tenant_share.h. */
bool ing_head_chunks_have_room(struct ing_head_chunks *chunks, uint32_t tenant, double share);

/* --- one chunk, by value --- */

/* An open one without profiles. */
struct ing_head_chunk ing_head_chunk_empty(const struct ing_head_chunk_key *key);
void ing_head_chunk_add(struct ing_head_chunk *chunk, int64_t time_ns, struct fg_id id,
                        size_t bytes);
/* Adds what the other has. */
void ing_head_chunk_join(struct ing_head_chunk *chunk, const struct ing_head_chunk *other);
void ing_head_chunk_put(const struct ing_head_chunk *chunk, struct fg_store_batch *out);

/* Is what it has known to be in no segment? Of an unchecked one nobody knows. */
static inline bool ing_head_chunk_is_uncommitted(const struct ing_head_chunk *chunk)
{
    return chunk->state != CHUNK_COMMITTED && chunk->state != CHUNK_UNCHECKED;
}

/* With all its profiles. */
void ing_head_chunk_delete(const struct ing_head_chunk_key *key, struct fg_store_batch *out);

/* --- the committer's side: what was written is taken over --- */

/* How often the head was cut. */
uint32_t ing_head_chunks_cuts(struct ing_head_chunks *chunks);
void ing_head_chunks_put_cuts(uint32_t cuts, struct fg_store_batch *out);
void ing_head_chunks_set_cuts(struct ing_head_chunks *chunks, uint32_t cuts);

/* The greatest generation of the manifest that was noted: so an older one is found out after a
 * restart. ing_head_chunks_put_seen() does not change what ing_head_chunks_seen() says. */
uint64_t ing_head_chunks_seen(const struct ing_head_chunks *chunks);
void ing_head_chunks_put_seen(uint64_t generation, struct fg_store_batch *out);

/* Puts the chunk's record as it is here; if there is no such chunk, deletes its record. Undoes what
 * a write that failed may have made of it. */
void ing_head_chunks_put_known(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key,
                               struct fg_store_batch *out);

/* Marks a chunk whose profiles a write that failed may have moved. Until ing_head_chunks_settle()
 * clears all these marks nobody can answer with the chunk. */
void ing_head_chunks_doubt(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key);
void ing_head_chunks_settle(struct ing_head_chunks *chunks);

/* Sets or adds. */
void ing_head_chunks_set(struct ing_head_chunks *chunks, const struct ing_head_chunk *chunk);
void ing_head_chunks_remove(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key);

/* --- looking --- */

/* The least number of cuts at which a chunk that is here began; UINT32_MAX: there is none. */
uint32_t ing_head_chunks_least_born(struct ing_head_chunks *chunks);

/* false: there is no such chunk. */
bool ing_head_chunks_find(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key,
                          struct ing_head_chunk *ret_chunk);

/* Chunks of a group, up to max of them; how many there are. */
size_t ing_head_chunks_of_group(struct ing_head_chunks *chunks,
                                const struct ing_head_group_key *key,
                                struct ing_head_chunk *ret_chunks, size_t max);

/* Which chunks are looked for. */
struct ing_head_chunks_filter {
    bool any_tenant;
    uint32_t tenant;
    int64_t start_ns, end_ns; /* with profiles in this time, inclusive */
    bool any_state;           /* else not those that were committed at or before the generation */
    uint64_t generation;
};

/* Sorted by tenant, shard, window, number; array in the arena. FG_E_LIMIT at its end. */
enum fg_code ing_head_chunks_select(struct ing_head_chunks *chunks,
                                    const struct ing_head_chunks_filter *filter,
                                    struct fg_arena *arena, struct ing_head_chunk **ret_chunks,
                                    size_t *ret_count, struct fg_err *err) fg_must_check;

#endif
