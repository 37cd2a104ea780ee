/*
 * Encrypts and decrypts pages, each by itself, with AES-256-GCM.
 *
 *   sealed page   iv 24 B, ciphertext as long as the content, tag 16 B
 *   iv            the first 24 bytes of HMAC-SHA256(iv key, place, content)
 *   page key      HKDF-Expand-SHA256(tenant's key, "flamegrid page" and the first 12 bytes of iv)
 *   iv key        HKDF-Expand-SHA256(tenant's key, "flamegrid iv")
 *   nonce         the last 12 bytes of iv
 *   associated    the place: whose page it is and where it belongs
 *
 * The same content at the same place gives the same bytes, so files stay functions of what is in
 * them, and no counter, random number or name of an object has to be unique. Two different pages
 * get the same key and nonce only if 192 bits of a hash collide.
 *
 * Thread: any. No I/O. If OpenSSL has no memory, the program ends.
 */
#ifndef FG_COMMON_STORAGE_SEAL_SEAL_H
#define FG_COMMON_STORAGE_SEAL_SEAL_H

#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/base/slice.h"

enum {
    FG_SEAL_KEY_BYTES = 32,
    FG_SEAL_NONCE_BYTES = 12, /* of AES-GCM */
    FG_SEAL_IV_BYTES = 24,
    FG_SEAL_TAG_BYTES = 16,
    FG_SEAL_MORE_BYTES = FG_SEAL_IV_BYTES + FG_SEAL_TAG_BYTES, /* by which a page grows */
};

struct fg_seal_key {
    uint8_t bytes[FG_SEAL_KEY_BYTES];
};

/* Overwrites a key. */
void fg_seal_wipe(struct fg_seal_key *key);

/* Where a page belongs. A page that is opened for another place is refused. */
struct fg_seal_place {
    struct fg_slice tenant, service;
    uint32_t key;        /* the number of the tenant's key */
    uint32_t kind;       /* of the section */
    uint64_t number;     /* in the section */
    struct fg_id digest; /* of the profiles; zero where it is not known when the page is written */
};

/* HKDF-Expand of RFC 5869 with SHA-256. key: the pseudorandom key. len: at most 255 * 32. */
void fg_seal_expand(const struct fg_seal_key *key, struct fg_slice info, uint8_t *out, size_t len);

/* Encrypts by AES-256-GCM (NIST SP 800-38D). out has the length of `content`, and may be the same
 * memory. */
void fg_seal_gcm(const struct fg_seal_key *key, const uint8_t nonce[FG_SEAL_NONCE_BYTES],
                 struct fg_slice associated, struct fg_slice content, uint8_t *out,
                 uint8_t ret_tag[FG_SEAL_TAG_BYTES]);
/* Decrypts it. out as above. Returns false if the tag is not that of these bytes; out is zeroed
 * then. */
bool fg_seal_gcm_open(const struct fg_seal_key *key, const uint8_t nonce[FG_SEAL_NONCE_BYTES],
                      struct fg_slice associated, struct fg_slice ciphertext,
                      const uint8_t tag[FG_SEAL_TAG_BYTES], uint8_t *out) fg_must_check;

/*
 * The same for many texts with one key, whose schedule is computed once: several times as fast for
 * texts of a kilobyte. One thread at a time.
 */
struct fg_seal_cipher;

/* Makes one that encrypts, or one that decrypts. */
struct fg_seal_cipher *fg_seal_cipher_create(const struct fg_seal_key *key, bool encrypt);
/* Overwrites and frees it. Accepts NULL. */
void fg_seal_cipher_destroy(struct fg_seal_cipher *cipher);

/* As fg_seal_gcm(), of one that encrypts, and fg_seal_gcm_open(), of one that decrypts. */
void fg_seal_cipher_seal(struct fg_seal_cipher *cipher, const uint8_t nonce[FG_SEAL_NONCE_BYTES],
                         struct fg_slice associated, struct fg_slice content, uint8_t *out,
                         uint8_t ret_tag[FG_SEAL_TAG_BYTES]);
bool fg_seal_cipher_open(struct fg_seal_cipher *cipher, const uint8_t nonce[FG_SEAL_NONCE_BYTES],
                         struct fg_slice associated, struct fg_slice ciphertext,
                         const uint8_t tag[FG_SEAL_TAG_BYTES], uint8_t *out) fg_must_check;

/* Seals a page. out has room for content.len + FG_SEAL_MORE_BYTES. */
void fg_seal_page(const struct fg_seal_key *key, const struct fg_seal_place *place,
                  struct fg_slice content, uint8_t *out);

/* Opens a page. sealed.len >= FG_SEAL_MORE_BYTES (asserted); out has room for FG_SEAL_MORE_BYTES
 * less. FG_E_CORRUPT: it was changed, or sealed for another place or with another key. */
enum fg_code fg_seal_open(const struct fg_seal_key *key, const struct fg_seal_place *place,
                          struct fg_slice sealed, uint8_t *out, struct fg_err *err) fg_must_check;

#endif
