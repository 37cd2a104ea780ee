/* Decodes what services that wrap keys answer: those of Vault and of AWS KMS. No I/O, any thread.
 */
#ifndef FG_COMMON_ACCESS_KEYS_KEY_ANSWER_H
#define FG_COMMON_ACCESS_KEYS_KEY_ANSWER_H

#include "common/base/arena.h"
#include "common/storage/seal/seal.h"

/* What an answer that is no success says. */
enum fg_key_fault {
    FG_KEY_FAULT_REFUSED, /* it refuses this key, or us; another request may succeed */
    FG_KEY_FAULT_AWAY,    /* nothing of what was asked: it has too much to do, or is in trouble */
    FG_KEY_FAULT_CREDENTIALS, /* it does not know the credentials, or they have expired */
};

/* Finds a text by its key, at any depth; of an array the first one. ptr NULL: it is not there, or
 * what comes before it is no JSON. The result is in the document or in the arena. */
struct fg_slice fg_key_answer_text(struct fg_slice document, const char *key,
                                   struct fg_arena *arena) fg_must_check;

/* Decodes a key in base64. Returns false for everything else. */
bool fg_key_answer_key(struct fg_slice text, struct fg_seal_key *ret_key) fg_must_check;

/* Read an error. *ret_why: a text for people, in the document or in the arena. */
enum fg_key_fault fg_key_answer_vault_fault(unsigned status, struct fg_slice document,
                                            struct fg_arena *arena, struct fg_slice *ret_why);
enum fg_key_fault fg_key_answer_kms_fault(unsigned status, struct fg_slice document,
                                          struct fg_arena *arena, struct fg_slice *ret_why);

#endif
