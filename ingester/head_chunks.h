/*
 * Head chunks: what the head has of each group (shard, window; common/cluster/README.md#words), in
 * the pieces in which it goes into segments.
 *
 *             arrives              cut                 the segment is in the manifest
 *   profile ----------> OPEN ----------------> SEALED --------------------------------> COMMITTED
 *                        ^                       |  no profile is added any more           |
 *                        |  later arrivals:      v                                         v
 *                        +-- the next chunk   a segment is built                        evicted
 *
 * So the content of a segment is fixed before it is built, a crash leaves it as it was, and a
 * commit or an eviction is one mark for many profiles. segments/segments_core.h decides what
 * becomes of chunks; this module keeps and finds them.
 *
 * All chunks are in memory, and in the store as below; a restart reads them back.
 *
 *   value in family "rounds":
 *     varint count, varint bytes, varint born, zigzag opened, zigzag least and greatest time,
 *     digest 16 bytes, u8 state, varint cut, varint generation
 *
 * Thread: any may read; one at a time changes (the committer). One lock inside, held for look-ups
 * and copies.
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
    uint32_t born;         /* the number of cuts when it began */
    int64_t opened_wall_ns;
    int64_t least_ns, greatest_ns;
    struct fg_id digest; /* sum of the profiles' ids */
    enum ing_chunk_state state;
    uint32_t cut;        /* that sealed it */
    uint64_t generation; /* of the manifest, at which it was committed */
    bool in_doubt;       /* a failed write may have moved its profiles; not in the store */
};

/*
 * Reads all chunks. A chunk of a tenant that the catalog does not know, or that cannot be read, is
 * set aside; profiles without a chunk get a new one; *damage counts both. max_bytes: memory for
 * chunks, see ing_head_chunks_have_room(). FG_E_UNAVAILABLE, FG_E_CORRUPT: the store cannot be
 * read.
 */
enum fg_code ing_head_chunks_open(struct fg_store *store, struct ing_catalog *catalog,
                                  uint64_t max_bytes, struct ing_damage *damage,
                                  struct ing_head_chunks **ret_chunks,
                                  struct fg_err *err) fg_must_check;

/* Frees the chunks in memory. Accepts NULL. */
void ing_head_chunks_close(struct ing_head_chunks *chunks);

/* Returns the memory of all chunks in bytes. */
size_t ing_head_chunks_bytes(struct ing_head_chunks *chunks);

/* Returns true if a tenant may begin new chunks; existing ones are not affected. share: of
 * max_bytes, see common/model/tenant_share.h. */
bool ing_head_chunks_have_room(struct ing_head_chunks *chunks, uint32_t tenant, double share);

/* Returns the chunks that the start has set aside, since their tenants have no name: they stay in
 * the store, and are in no answer. They do not change until ing_head_chunks_close(). Any thread. */
const struct ing_head_chunk *ing_head_chunks_nameless(const struct ing_head_chunks *chunks,
                                                      size_t *ret_count);
/* Returns true if one of them is not committed. Any thread. */
bool ing_head_chunks_has_nameless(const struct ing_head_chunks *chunks);

/* --- one chunk, by value --- */

/* Returns an open chunk without profiles. */
struct ing_head_chunk ing_head_chunk_empty(const struct ing_head_chunk_key *key);

/* Counts a profile. bytes: of its record. */
void ing_head_chunk_add(struct ing_head_chunk *chunk, int64_t time_ns, struct fg_id id,
                        size_t bytes);

/* Counts all profiles of another chunk. */
void ing_head_chunk_join(struct ing_head_chunk *chunk, const struct ing_head_chunk *other);

/* Adds a put of the chunk's record to a batch. */
void ing_head_chunk_put(const struct ing_head_chunk *chunk, struct fg_store_batch *out);

/* Returns true if no segment has its profiles. Of an unchecked chunk nobody knows. */
static inline bool ing_head_chunk_is_uncommitted(const struct ing_head_chunk *chunk)
{
    return chunk->state != CHUNK_COMMITTED && chunk->state != CHUNK_UNCHECKED;
}

/* Adds deletes of a chunk's record and all its profiles to a batch. */
void ing_head_chunk_delete(const struct ing_head_chunk_key *key, struct fg_store_batch *out);

/* --- the committer's thread: changes in memory follow those in the store --- */

/* Returns how often the head was cut. */
uint32_t ing_head_chunks_cuts(struct ing_head_chunks *chunks);

/* Reads how often the head of a store was cut; UINT32_MAX: that cannot be read. Any thread. Errors
 * of the store. */
enum fg_code ing_head_chunks_stored_cuts(struct fg_store *store, uint32_t *ret_cuts,
                                         struct fg_err *err) fg_must_check;

/* Adds a put of the number of cuts to a batch. */
void ing_head_chunks_put_cuts(uint32_t cuts, struct fg_store_batch *out);

/* Sets the number of cuts in memory. */
void ing_head_chunks_set_cuts(struct ing_head_chunks *chunks, uint32_t cuts);

/* Returns the greatest generation of the manifest that earlier starts have stored: so a restart
 * notices an older manifest. */
uint64_t ing_head_chunks_seen(const struct ing_head_chunks *chunks);

/* Adds a put of the greatest generation to a batch; ing_head_chunks_seen() does not change. */
void ing_head_chunks_put_seen(uint64_t generation, struct fg_store_batch *out);

/* Adds a put of the chunk's record as it is in memory, or its delete if there is no such chunk:
 * undoes what a failed write may have made of it. */
void ing_head_chunks_put_known(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key,
                               struct fg_store_batch *out);

/* Marks a chunk whose profiles a failed write may have moved. It answers no reader until
 * ing_head_chunks_settle(). */
void ing_head_chunks_doubt(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key);

/* Clears the marks of ing_head_chunks_doubt(): the failed writes were undone. */
void ing_head_chunks_settle(struct ing_head_chunks *chunks);

/* Adds or replaces a chunk. */
void ing_head_chunks_set(struct ing_head_chunks *chunks, const struct ing_head_chunk *chunk);

/* Removes a chunk, if it is there. */
void ing_head_chunks_remove(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key);

/* --- readers: any thread --- */

/* Returns the least number of cuts at which a chunk began; UINT32_MAX: there is none. */
uint32_t ing_head_chunks_least_born(struct ing_head_chunks *chunks);

/* Copies a chunk. Returns false if there is none. */
bool ing_head_chunks_find(struct ing_head_chunks *chunks, const struct ing_head_chunk_key *key,
                          struct ing_head_chunk *ret_chunk);

/* Copies up to max chunks of a group; returns how many there are. */
size_t ing_head_chunks_of_group(struct ing_head_chunks *chunks,
                                const struct ing_head_group_key *key,
                                struct ing_head_chunk *ret_chunks, size_t max);

/* Selects chunks. */
struct ing_head_chunks_filter {
    bool any_tenant;
    uint32_t tenant;
    int64_t start_ns, end_ns; /* with profiles in this time, inclusive */
    bool any_state;           /* false: not those committed at or before the generation */
    uint64_t generation;
};

/* Passes all chunks. */
extern const struct ing_head_chunks_filter ing_head_chunks_all;

/* Copies the chunks that pass, sorted by tenant, shard, window, number, into an array in the arena.
 * FG_E_LIMIT: the arena is full. */
enum fg_code ing_head_chunks_select(struct ing_head_chunks *chunks,
                                    const struct ing_head_chunks_filter *filter,
                                    struct fg_arena *arena, struct ing_head_chunk **ret_chunks,
                                    size_t *ret_count, struct fg_err *err) fg_must_check;

#endif
