/*
 * The layout of the head's store: families, keys and small values. Numbers in keys are big-endian,
 * so that their order is the order of reading.
 *
 * META
 *   "format"               -> varint version
 *   "cut"                  -> varint: how often the head was cut (head_chunks.h)
 *   "key"                  -> the wrapped key that encrypts the head (head_seal.h)
 *   "manifest"             -> varint: a generation of the L0 manifest that was read (head_chunks.h)
 *   "counts"               -> what tenants have sent in a period
 *                             (common/cluster/shares/meeting_core.h)
 *   "query_counts"         -> likewise, what their queries have read
 *   'o', 'o' name          -> targets of forwarding (forward/entry.h)
 *   "agent"                -> empty: the head is an agent's (head_mode.h)
 *   'r' name, 'p' name     -> what is resent to a target (forward/entry.h)
 *   't' tenant             -> varint tenant number
 *   's' be32 tenant, name  -> varint service number
 *   'l' be32 tenant, be32 tenant -> varint: how often the head had been cut when series of these
 *                             and of tenants in between were lost (mend.h)
 *   'n'                    -> varint: retired services had lesser numbers
 *   'n' be32 tenant        -> varint: retired series of the tenant had lesser numbers
 * SERIES
 *   be32 tenant, be32 series -> varint service, shard, varint-length labels, schema (batch.h),
 *                               varint types seen
 * DICT
 *   be32 service, be32 generation, be32 seq -> a chunk of the dictionary (dict.h)
 * CHUNKS (family "rounds")
 *   a chunk's key: be32 tenant, be16 shard, be32 window, be32 chunk -> its state (head_chunks.h)
 * PROFILES
 *   a chunk's key, be32 series, be64 time (sign flipped), id 16 bytes -> a record (record.h)
 * OUTBOX, OUTBOX_DEAD
 *   be16 target, be64 number -> a profile that is to be sent there, or was refused there
 *                               (forward/entry.h)
 *
 * The window is until / 10 minutes; shard and window are a group
 * (common/cluster/README.md#words). The key of a profile follows from its content, except for the
 * chunk, so the few chunks of its group tell whether it is there already.
 */
#ifndef FG_INGESTER_KEYS_H
#define FG_INGESTER_KEYS_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/hash.h"
#include "common/base/time.h"

enum ing_head_family {
    HEAD_META,
    HEAD_SERIES,
    HEAD_DICT,
    HEAD_CHUNKS,
    HEAD_PROFILES,
    HEAD_OUTBOX,
    HEAD_OUTBOX_DEAD,
    HEAD_FAMILIES,
};

enum {
    HEAD_FORMAT = 2,
    HEAD_CHUNK_KEY_BYTES = 4 + 2 + 4 + 4,
    HEAD_PROFILE_KEY_BYTES = HEAD_CHUNK_KEY_BYTES + 4 + 8 + FG_ID_BYTES,
};

#define HEAD_WINDOW_NS (10 * FG_MINUTE_NS) /* stored: common/cluster/README.md#words */

/* The key of META under which the version of the format is. */
#define HEAD_FORMAT_KEY FG_LIT("format")

/* Names of the families by number, for fg_store_open(). They never change. */
extern const char *const ing_head_families[HEAD_FAMILIES];

struct ing_head_group_key {
    uint32_t tenant;
    uint16_t shard;
    uint32_t window;
};

struct ing_head_chunk_key {
    struct ing_head_group_key group;
    uint32_t number;
};

struct ing_head_profile_key {
    struct ing_head_chunk_key chunk;
    uint32_t series;
    int64_t time_ns;
    struct fg_id id;
};

/* The window of a profile is found from its time and its duration, of which at most so much counts:
 * so the times of a window's profiles are bounded. */
#define HEAD_DURATION_MAX_NS (24 * FG_HOUR_NS)

/* Returns the window of a profile. Times before 1970 and after 83,000 AD share the first and the
 * last. */
uint32_t ing_head_window(int64_t time_ns, int64_t duration_ns);

/* Return the bounds of the times of a window's profiles: [first, end). */
int64_t ing_head_window_first_ns(uint32_t window);
int64_t ing_head_window_end_ns(uint32_t window);

/* Return true if the keys are equal. */
bool ing_head_same_group(const struct ing_head_group_key *a, const struct ing_head_group_key *b);
bool ing_head_same_chunk(const struct ing_head_chunk_key *a, const struct ing_head_chunk_key *b);

/* Compare keys in the order in which they are stored: less than, equal to, or greater than 0. */
int ing_head_group_cmp(const struct ing_head_group_key *a, const struct ing_head_group_key *b);
int ing_head_chunk_cmp(const struct ing_head_chunk_key *a, const struct ing_head_chunk_key *b);

/* Append a key. */
void ing_head_put_chunk_key(struct fg_buf *out, const struct ing_head_chunk_key *key);
void ing_head_put_profile_key(struct fg_buf *out, const struct ing_head_profile_key *key);

/* Read a key. Return false if it is none. */
bool ing_head_get_chunk_key(struct fg_slice in, struct ing_head_chunk_key *ret_key) fg_must_check;
bool ing_head_get_profile_key(struct fg_slice in,
                              struct ing_head_profile_key *ret_key) fg_must_check;

/* Appends the key of the first profile of a series in a chunk at or after a time. */
void ing_head_put_series_seek(struct fg_buf *out, const struct ing_head_chunk_key *chunk,
                              uint32_t series, int64_t time_ns);

/* Sets the prefix to the least key that follows all keys which begin with it, for seeks: adding 1
 * to its last number would wrap around and lead back. Returns false if there is no such key. */
bool ing_head_next_prefix(struct fg_buf *prefix) fg_must_check;

#endif
