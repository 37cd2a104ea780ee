/*
 * Encrypts the head: every value of its store (common/storage/store/sealed.h) with a key of its
 * own. The key is in the store itself, wrapped by what wraps the keys of tenants
 * (common/access/keys/key_store.h), so it needs no other file, and moves with the head.
 *
 *   META "key" -> varint-length name of what wrapped it, the wrapped key
 *
 * With encryption turned on later, values from before stay as they are until they are evicted; with
 * it turned off, those that are encrypted are read for as long as they are there.
 *
 * Thread: one, before the ingester starts. Waits for Vault and KMS.
 */
#ifndef FG_INGESTER_HEAD_SEAL_H
#define FG_INGESTER_HEAD_SEAL_H

#include "common/access/keys/key_store.h"
#include "common/storage/store/store.h"

/*
 * Replaces *store by one that encrypts and owns it; or leaves it as it is, if the head has no key
 * and encryption is off or keys is NULL, and after an error. A key that was wrapped by something
 * else than new keys are, or that an older version of Vault's key may have wrapped, is wrapped
 * again. FG_E_UNAVAILABLE: what wraps keys cannot be reached; try
 * again. FG_E_PRECONDITION: the head is encrypted, and the settings lack what wrapped its key.
 * FG_E_CORRUPT: the key was changed. Errors of the store.
 */
enum fg_code ing_head_seal(struct fg_store **store, struct fg_key_store *keys,
                           struct fg_err *err) fg_must_check;

#endif
