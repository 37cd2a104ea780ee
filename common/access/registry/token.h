/*
 * The text of a token: fgt_ID_SECRET, where ID has 8 and SECRET 32 random characters out of 62
 * (190 bits), followed by 6 characters of CRC-32 over all that precedes them.
 *
 *     fgt_4uJc0TqZ_sXr7m1L9bV5kWn3pQ8yD2eG6hT0aZcRf0kbin7
 *
 * By the prefix and the checksum, programs that look for leaked secrets find tokens and pass over
 * what only looks like one, and a mistyped token is refused before any look-up. The registry stores
 * the id and the SHA-256 of the whole text. A slow hash as for passwords would add nothing to 190
 * random bits.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_TOKEN_H
#define FG_COMMON_ACCESS_REGISTRY_TOKEN_H

#include "common/base/slice.h"

#define FG_TOKEN_PREFIX "fgt_"
enum {
    FG_TOKEN_ID_CHARS = 8,
    FG_TOKEN_SECRET_CHARS = 32,
    FG_TOKEN_CRC_CHARS = 6,
    FG_TOKEN_CHARS = 4 + FG_TOKEN_ID_CHARS + 1 + FG_TOKEN_SECRET_CHARS + FG_TOKEN_CRC_CHARS,
    FG_TOKEN_HASH_BYTES = 32,
    FG_TOKEN_RANDOM_BYTES = 96, /* that making one takes */
};

struct fg_token {
    char id[FG_TOKEN_ID_CHARS + 1];
    uint8_t hash[FG_TOKEN_HASH_BYTES];
};

/* Reads a token. Returns false if the text is none, or has a typing error. Allocates nothing. */
bool fg_token_read(struct fg_slice text, struct fg_token *ret_token) fg_must_check;

/*
 * Makes a token of random bytes, which the caller forgets afterwards. id: of a token that gets a
 * new secret; NULL: a new one. Returns false if too few of the bytes are in the range of the
 * alphabet, which happens only if the source of randomness is broken.
 */
bool fg_token_make(const uint8_t random[FG_TOKEN_RANDOM_BYTES], const char *id,
                   char ret_text[FG_TOKEN_CHARS + 1], struct fg_token *ret_token) fg_must_check;

/* Returns whether two hashes are equal, in a time that does not depend on them. */
bool fg_token_hash_eq(const uint8_t a[FG_TOKEN_HASH_BYTES], const uint8_t b[FG_TOKEN_HASH_BYTES]);

#endif
