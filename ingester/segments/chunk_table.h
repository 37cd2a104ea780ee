/*
 * The table of groups and their chunks, for the step core: finds both, and keeps sums by state. It
 * knows nothing of the protocol.
 *
 * Thread: one at a time.
 */
#ifndef FG_INGESTER_SEGMENTS_CHUNK_TABLE_H
#define FG_INGESTER_SEGMENTS_CHUNK_TABLE_H

#include "common/base/map.h"
#include "ingester/segments/chunk.h"

struct ing_chunk_table_group {
    struct ing_head_group_key key;
    struct ing_segments_chunk *open;      /* or NULL */
    struct ing_segments_chunk *unchecked; /* the newest unchecked chunk, or NULL */
    uint32_t next;                        /* number of the next chunk */
    uint32_t n_chunks;
    /* Every profile of the group that a segment ever had is in a live chunk here: so an id that is
     * in none of them is new, and needs no lookup in the bucket. false: unknown, or all chunks are
     * empty. */
    bool whole;
};

struct ing_chunk_table {
    struct ing_chunk_table_group **groups;
    struct ing_segments_chunk **chunks;
    uint32_t n_groups, cap_groups, n_chunks, cap_chunks;
    struct fg_map group_map, chunk_map; /* to places in the two arrays */
    uint32_t by_state[CHUNK_STATES];
    uint64_t open_bytes, sealed_bytes, aside_bytes, aside_profiles;
    uint64_t unchecked_bytes, unchecked_profiles;
    uint64_t first_bytes; /* of open_bytes, those of shards of which we are the first */
};

/* Initializes an empty table. */
void ing_chunk_table_init(struct ing_chunk_table *table);

/* Frees the table with its groups and chunks. */
void ing_chunk_table_done(struct ing_chunk_table *table);

/* Returns a group, or NULL. Valid until its last chunk is removed. */
struct ing_chunk_table_group *ing_chunk_table_group(const struct ing_chunk_table *table,
                                                    const struct ing_head_group_key *key);

/* Returns a chunk, or NULL. Valid until it is removed. */
struct ing_segments_chunk *ing_chunk_table_chunk(const struct ing_chunk_table *table,
                                                 const struct ing_head_group_key *key,
                                                 uint32_t number);

/* Adds a group without chunks; the caller adds a chunk to it. */
struct ing_chunk_table_group *ing_chunk_table_add_group(struct ing_chunk_table *table,
                                                        const struct ing_head_group_key *key);

/* Adds a copy of a chunk. An OPEN one becomes the group's open chunk, which it must not have; an
 * UNCHECKED one its unchecked chunk. */
struct ing_segments_chunk *ing_chunk_table_add_chunk(struct ing_chunk_table *table,
                                                     struct ing_chunk_table_group *group,
                                                     const struct ing_segments_chunk *chunk);

/* Moves a chunk to another state. Every change of a state goes through here, so that sums and open
 * chunks are right. */
void ing_chunk_table_set_state(struct ing_chunk_table *table, struct ing_segments_chunk *chunk,
                               enum ing_chunk_state state);

/* Sets the rank of a chunk. */
void ing_chunk_table_set_rank(struct ing_chunk_table *table, struct ing_segments_chunk *chunk,
                              uint8_t rank);

/* Counts profiles that come into a chunk, or, negative, leave it. */
void ing_chunk_table_count(struct ing_chunk_table *table, struct ing_segments_chunk *chunk,
                           int64_t profiles, int64_t bytes);

/* Removes and frees chunks, and groups that have none left. Takes time for each chunk of the table.
 */
void ing_chunk_table_remove(struct ing_chunk_table *table, struct ing_segments_chunk *const *chunks,
                            uint32_t count);

/* Asserts that sums, groups and maps agree with the chunks. Takes time for each chunk. */
void ing_chunk_table_check(const struct ing_chunk_table *table);

#endif
