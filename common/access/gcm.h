/* AES-256-GCM with OpenSSL, for cookies and for keys in the bucket. Pure: nonces come from outside.
 */
#ifndef FG_COMMON_ACCESS_GCM_H
#define FG_COMMON_ACCESS_GCM_H

#include "common/base/slice.h"

enum { FG_GCM_KEY_BYTES = 32, FG_GCM_NONCE_BYTES = 12, FG_GCM_TAG_BYTES = 16 };

/* Encrypts len bytes in place and writes the tag. `known` is authenticated and not encrypted. */
void fg_gcm_seal(const uint8_t key[FG_GCM_KEY_BYTES], const uint8_t nonce[FG_GCM_NONCE_BYTES],
                 struct fg_slice known, uint8_t *bytes, size_t len, uint8_t tag[FG_GCM_TAG_BYTES]);

/* Decrypts len bytes in place. Returns false if bytes, tag or `known` are not those that were
 * sealed; the bytes are of no use then. */
bool fg_gcm_open(const uint8_t key[FG_GCM_KEY_BYTES], const uint8_t nonce[FG_GCM_NONCE_BYTES],
                 struct fg_slice known, uint8_t *bytes, size_t len,
                 const uint8_t tag[FG_GCM_TAG_BYTES]) fg_must_check;

#endif
