/*
 * The seam behind which readers and writers of blocks find the keys of tenants. Versions of a
 * tenant's key are numbered from 1; pages say the number of theirs, and 0 means "not encrypted".
 *
 * Thread: any that may wait, since a key may have to be fetched first.
 */
#ifndef FG_COMMON_STORAGE_SEAL_KEYS_H
#define FG_COMMON_STORAGE_SEAL_KEYS_H

#include "common/storage/seal/seal.h"

struct fg_keys {
    /*
     * Copies a key. FG_E_UNIMPLEMENTED: this program does not have it, and says why ("shredded on
     * ..."): what is encrypted with it cannot be read, but is not damaged. FG_E_UNAVAILABLE: it
     * cannot be had now.
     */
    enum fg_code (*find)(void *arg, struct fg_slice tenant, uint32_t number,
                         struct fg_seal_key *ret_key, struct fg_err *err);
    /*
     * Copies the key for new pages of a tenant. *ret_number 0: they are not to be encrypted.
     * FG_E_NOT_FOUND: the keys of the tenant were shredded, or it was deleted before it had one, so
     * nothing of it is to be written.
     * FG_E_UNAVAILABLE: it cannot be had now.
     */
    enum fg_code (*newest)(void *arg, struct fg_slice tenant, uint32_t *ret_number,
                           struct fg_seal_key *ret_key, struct fg_err *err);
    void *arg;
};

/* With what the pages of a part were sealed; texts are borrowed. */
struct fg_seal_part {
    const struct fg_keys *keys; /* NULL: there are none */
    struct fg_slice tenant, service;
    struct fg_id digest; /* of its profiles */
};

/* Calls find(). keys NULL: a program without keys. */
enum fg_code fg_keys_find(const struct fg_keys *keys, struct fg_slice tenant, uint32_t number,
                          struct fg_seal_key *ret_key, struct fg_err *err) fg_must_check;

/* Returns whether a key can be had, as find() does. */
enum fg_code fg_keys_check(const struct fg_keys *keys, struct fg_slice tenant, uint32_t number,
                           struct fg_err *err) fg_must_check;

/* Calls newest(). keys NULL: nothing is encrypted. */
enum fg_code fg_keys_newest(const struct fg_keys *keys, struct fg_slice tenant,
                            uint32_t *ret_number, struct fg_seal_key *ret_key,
                            struct fg_err *err) fg_must_check;

#endif
