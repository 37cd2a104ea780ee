/*
 * A store whose values are encrypted before another store writes them. Keys stay as they are, since
 * their order is needed.
 *
 *   sealed value   magic 8 B, salt 16 B, le64 count, ciphertext, tag 16 B
 *   salt           random, drawn when the store is opened
 *   key of a salt  HKDF-Expand-SHA256(the store's key, "flamegrid store" and the salt)
 *   nonce          count, which grows with each value of this opening, and four zero bytes
 *   associated     u8 family, and the key: a value under another key is refused
 *
 * AES-256-GCM. An empty value stays empty. A value without the magic is one that was written before
 * encryption was turned on, and is returned as it is: the magic is random, so that none begins with
 * it by chance.
 *
 * The beginnings of 65,536 values that were opened are kept in 4 MiB, for iterators that need no
 * more (fg_store_iter_prefer_fronts()).
 *
 * Thread: as of store.h.
 */
#ifndef FG_COMMON_STORAGE_STORE_SEALED_H
#define FG_COMMON_STORAGE_STORE_SEALED_H

#include "common/storage/seal/seal.h"
#include "common/storage/store/store.h"

enum {
    FG_STORE_SALT_BYTES = 16,
    FG_STORE_SEAL_MORE_BYTES = 8 + FG_STORE_SALT_BYTES + 8 + FG_SEAL_TAG_BYTES,
};

/*
 * Makes a store of `inner`, which it owns from then on, unless this fails. key: copied into locked
 * memory. write: values are encrypted from now on; false: only those that were are decrypted.
 * FG_E_UNAVAILABLE: there are no random numbers.
 */
enum fg_code fg_store_seal(struct fg_store *inner, const struct fg_seal_key *key, bool write,
                           struct fg_store **ret_store, struct fg_err *err) fg_must_check;

#endif
