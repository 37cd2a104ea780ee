/*
 * The keys of tenants of a process: finds them in the registry of access, unwraps each once, and
 * keeps them in locked memory (common/storage/seal). It is what bucket->keys refers to.
 *
 * With the setting encryption.mode per_tenant new blocks are encrypted, and a tenant without a key
 * gets one when its first block is written. With off, new blocks are not encrypted. Blocks that
 * were encrypted before can still be read while what wraps their keys (a key file, Vault, KMS) is
 * there.
 *
 * Thread: any that may wait for the bucket and for what wraps keys, unless said otherwise.
 */
#ifndef FG_COMMON_ACCESS_KEYS_KEY_STORE_H
#define FG_COMMON_ACCESS_KEYS_KEY_STORE_H

#include "common/access/registry/registry.h"
#include "common/net/aws/settings.h"
#include "common/runtime/config.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/seal/keys.h"

enum fg_encryption_mode { FG_ENCRYPTION_OFF, FG_ENCRYPTION_PER_TENANT };
enum fg_encryption_wrap {
    FG_ENCRYPTION_WRAP_AUTO, /* the only one that is set */
    FG_ENCRYPTION_WRAP_KEY_FILE,
    FG_ENCRYPTION_WRAP_VAULT,
    FG_ENCRYPTION_WRAP_KMS,
};

struct fg_encryption_settings {
    unsigned mode;       /* enum fg_encryption_mode */
    char *key_file;      /* "": none */
    char *old_key_files; /* separated by commas */
    char *vault_address; /* "": none */
    char *vault_mount, *vault_key, *vault_token_file, *vault_ca_file;
    unsigned wrap_with; /* enum fg_encryption_wrap */
    struct fg_encryption_kms_settings {
        char *key;      /* "": none */
        char *old_keys; /* separated by commas */
        char *region, *endpoint, *ca_file;
        struct fg_aws_settings keys;
    } kms;
};

extern const struct fg_conf_field fg_encryption_fields[];
extern const size_t fg_encryption_n_fields;
extern const struct fg_conf_field fg_encryption_kms_fields[]; /* the section encryption.kms */
extern const size_t fg_encryption_kms_n_fields;

struct fg_key_store;

struct fg_key_store_config {
    const struct fg_encryption_settings *settings; /* borrowed */
    struct fg_bucket *bucket;                      /* has the registry; borrowed */
    const char *by;                                /* who makes keys, for the registry */
    struct fg_clock *clock;       /* for signatures of KMS; NULL: the machine's. Borrowed */
    struct fg_registry *registry; /* of metrics; NULL: none */
};

/* Creates a store, and sets bucket->keys; does neither and sets *ret_store to NULL with mode off
 * and without anything that wraps keys. FG_E_INVALID: a setting is wrong. */
enum fg_code fg_key_store_create(const struct fg_key_store_config *config,
                                 struct fg_key_store **ret_store, struct fg_err *err) fg_must_check;

/* Resets bucket->keys, overwrites all keys and frees the store. Nobody uses the keys any more.
 * Accepts NULL. */
void fg_key_store_destroy(struct fg_key_store *store);

/* Takes note of a newer registry: keys that were shredded are overwritten. Takes a reference of its
 * own. Never waits. store NULL: does nothing. */
void fg_key_store_see(struct fg_key_store *store, struct fg_access_registry *registry);

/* Makes the next version of a tenant's key, also if the ones before were shredded. FG_E_NOT_FOUND:
 * it never had one, and gets the first with its first segment; or it is being deleted. */
enum fg_code fg_key_store_rotate(struct fg_key_store *store, struct fg_slice tenant,
                                 uint32_t *ret_version, struct fg_err *err) fg_must_check;

/*
 * Wrap a key that is stored elsewhere than in the registry, with what wraps new keys of tenants,
 * and unwrap it. owner: a text that is no name of a tenant, for which alone it can be unwrapped.
 * name: of what wrapped it. *ret_name lives as long as the store. FG_E_PRECONDITION: the settings
 * do not have that any more; errors of key_wrap.h.
 */
enum fg_code fg_key_store_wrap(struct fg_key_store *store, struct fg_slice owner,
                               const struct fg_seal_key *key, struct fg_buf *out,
                               const char **ret_name, struct fg_err *err) fg_must_check;
enum fg_code fg_key_store_unwrap(struct fg_key_store *store, struct fg_slice owner,
                                 struct fg_slice name, struct fg_slice wrapped,
                                 struct fg_seal_key *ret_key, struct fg_err *err) fg_must_check;

/* Returns whether new keys are wrapped by what has that name. */
bool fg_key_store_wraps_with(const struct fg_key_store *store, struct fg_slice name);

/* Returns whether what wraps new keys has versions, of which it uses the newest and may refuse the
 * oldest: Vault. */
bool fg_key_store_has_versions(const struct fg_key_store *store);

/* Returns whether new data are to be encrypted. */
bool fg_key_store_encrypts(const struct fg_key_store *store);

/* Removes all keys of a tenant, versions 1 to *ret_newest, from the registry of the bucket. Needs
 * no store. */
enum fg_code fg_key_store_shred(struct fg_bucket *bucket, const char *by, struct fg_slice tenant,
                                uint32_t *ret_newest, struct fg_err *err) fg_must_check;

/* Wraps all keys with what wraps new ones, and its newest version, that are wrapped otherwise.
 * *ret_count: how many. */
enum fg_code fg_key_store_rewrap(struct fg_key_store *store, uint32_t *ret_count,
                                 struct fg_err *err) fg_must_check;

#endif
