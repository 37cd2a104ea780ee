/*
 * Usage for billing: bytes and samples that a tenant sent for a service.
 *
 * A distributor measures each profile once (struct fg_profile_size); the numbers stay with the
 * profile through heads, segments and blocks, so sums over stored profiles are exact even if a
 * profile was sent several times. Profiles that an older program stored have unknown sizes; a sum
 * has the number of profiles whose sizes are known.
 */
#ifndef FG_COMMON_MODEL_USAGE_H
#define FG_COMMON_MODEL_USAGE_H

#include "common/base/buf.h"
#include "common/base/cursor.h"

/* The size of one profile as its sender sent it. Several profiles of one request share its size
 * (fg_profile_sizes_share()). */
struct fg_profile_size {
    bool known;          /* false: the other fields are 0 */
    uint32_t wire_bytes; /* as received: compressed if the sender compressed it */
    uint32_t raw_bytes;  /* uncompressed */
};

/* The sum of some profiles whose sizes are known; profiles of unknown size count in no field. */
struct fg_usage {
    uint64_t profiles;
    uint64_t samples;    /* of these profiles, as stored: a profile has each stack once */
    uint64_t wire_bytes; /* of these profiles */
    uint64_t raw_bytes;
};

/* Returns a + b, at most INT64_MAX. */
uint64_t fg_usage_sum(uint64_t a, uint64_t b);

/* Adds a profile. A profile of unknown size changes nothing. Sums saturate at INT64_MAX. */
void fg_usage_count(struct fg_usage *usage, struct fg_profile_size size, uint64_t samples);

/* Adds a sum to a sum. Saturates at INT64_MAX. */
void fg_usage_add(struct fg_usage *usage, const struct fg_usage *more);

/* Returns whether both are equal. */
bool fg_usage_eq(const struct fg_usage *a, const struct fg_usage *b);

/* Write and read four varints: profiles, samples, wire bytes, raw bytes. Reading sets the error of
 * the cursor if a number exceeds INT64_MAX, or if there are no profiles and another number is not
 * 0. */
void fg_usage_put(struct fg_buf *out, const struct fg_usage *usage);
struct fg_usage fg_usage_get(struct fg_cur *cur);

/* Returns the share of `bytes` for [from, to) of `of` > 0. Shares of adjacent ranges add up
 * exactly. */
uint64_t fg_usage_share(uint64_t bytes, uint64_t from, uint64_t to, uint64_t of);

/*
 * Divides a size among n > 0 profiles by their weights (for example their numbers of samples), so
 * that the shares add up to the whole. With weights of 0 all shares are equal. Shares above
 * UINT32_MAX become UINT32_MAX.
 */
void fg_profile_sizes_share(uint64_t wire_bytes, uint64_t raw_bytes, const uint64_t *weights,
                            size_t n, struct fg_profile_size *ret_sizes);

#endif
