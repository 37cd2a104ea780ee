#include "ingester/head_seal.h"

#include "common/runtime/log.h"
#include "common/storage/store/sealed.h"
#include "ingester/catalog/catalog.h"
#include "ingester/keys.h"

#include <openssl/rand.h>

enum { RECORD_MAX_BYTES = 16 * 1024 }; /* a wrapped key has at most 4 KiB */

#define OWNER FG_LIT("head of an ingester") /* no name of a tenant: it has blanks */

static const struct fg_slice meta_key = {(const uint8_t *)"key", 3};

/* Stores the key, wrapped as new keys are. fresh: nothing is encrypted with it yet. */
static enum fg_code store_key(struct fg_store *store, struct fg_key_store *keys,
                              const struct fg_seal_key *key, bool fresh, struct fg_err *err)
{
    struct fg_store_batch batch;
    struct fg_buf wrapped, record;
    const char *name;
    enum fg_code code;

    fg_buf_init(&wrapped, RECORD_MAX_BYTES);
    fg_buf_init(&record, RECORD_MAX_BYTES);
    fg_store_batch_init(&batch);
    code = fg_key_store_wrap(keys, OWNER, key, &wrapped, &name, err);
    if (code == FG_OK) {
        fg_buf_lenbytes(&record, fg_cstr(name));
        fg_buf_put(&record, fg_buf_slice(&wrapped));
        fg_store_put(&batch, HEAD_META, meta_key, fg_buf_slice(&record));
        /* It is written again, encrypted, before anything else is. So a program that knows no
         * encryption refuses the head, and does not take encrypted values for damaged ones. */
        if (fresh)
            fg_store_delete(&batch, HEAD_META, HEAD_FORMAT_KEY);
        code = fg_store_write(store, &batch, err);
    }
    fg_store_batch_done(&batch);
    fg_buf_done(&record);
    fg_buf_done(&wrapped);
    if (code == FG_OK)
        fg_log_info("key of the head stored", fg_ls("encrypted_with", name));
    return code;
}

static enum fg_code make_key(struct fg_store *store, struct fg_key_store *keys,
                             struct fg_seal_key *ret_key, struct fg_err *err)
{
    bool found;

    if (ing_catalog_check_format(store, &found, err) != FG_OK)
        return err->code;
    if (RAND_priv_bytes(ret_key->bytes, sizeof ret_key->bytes) != 1)
        return fg_fail(err, FG_E_UNAVAILABLE, "no random numbers for a key");
    return store_key(store, keys, ret_key, true, err);
}

static enum fg_code unwrap_key(struct fg_store *store, struct fg_key_store *keys,
                               struct fg_slice record, struct fg_seal_key *ret_key,
                               struct fg_err *err)
{
    struct fg_cur cur = fg_cur(record);
    struct fg_slice name = fg_cur_lenbytes(&cur);
    struct fg_slice wrapped = fg_cur_take(&cur, cur.left);

    if (cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "its key cannot be read");
    if (keys == NULL)
        return fg_fail(err, FG_E_PRECONDITION,
                       "it is encrypted with %.*s: encryption.key_file, vault_address or kms.key "
                       "has to be set. Without that nobody can read it; move its folder away to "
                       "give it up",
                       FG_S(fg_slice_sub(name, 0, FG_ERR_MSG_MAX_BYTES / 4)));
    if (fg_key_store_unwrap(keys, OWNER, name, wrapped, ret_key, err) != FG_OK)
        return err->code;
    if (!fg_key_store_encrypts(keys))
        return FG_OK;
    if (!fg_key_store_wraps_with(keys, name))
        return store_key(store, keys, ret_key, false, err);
    /* With the newest version of Vault's key, since Vault may refuse old ones some day. Without it
     * the head is as readable as before. */
    if (fg_key_store_has_versions(keys) && store_key(store, keys, ret_key, false, err) != FG_OK)
        fg_log_warn("key of the head was not encrypted again", fg_ls("err", err->msg));
    return FG_OK;
}

/* *ret_has false: the head has no key, and needs none. */
static enum fg_code get_key(struct fg_store *store, struct fg_key_store *keys, bool *ret_has,
                            struct fg_seal_key *ret_key, struct fg_err *err)
{
    struct fg_buf record;
    enum fg_code code;

    fg_buf_init(&record, RECORD_MAX_BYTES);
    code = fg_store_get(store, HEAD_META, meta_key, &record, ret_has, err);
    if (code == FG_OK && *ret_has) {
        code = unwrap_key(store, keys, fg_buf_slice(&record), ret_key, err);
    } else if (code == FG_OK && keys != NULL && fg_key_store_encrypts(keys)) {
        *ret_has = true;
        code = make_key(store, keys, ret_key, err);
    }
    fg_buf_done(&record);
    return code;
}

enum fg_code ing_head_seal(struct fg_store **store, struct fg_key_store *keys, struct fg_err *err)
{
    struct fg_seal_key key;
    enum fg_code code;
    bool has = false;

    code = get_key(*store, keys, &has, &key, err);
    if (code == FG_OK && has)
        code = fg_store_seal(*store, &key, fg_key_store_encrypts(keys), store, err);
    fg_seal_wipe(&key);
    return code == FG_OK ? FG_OK : fg_wrap(err, "head");
}
