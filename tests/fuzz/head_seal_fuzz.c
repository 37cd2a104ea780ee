/*
 * An encrypted head reads a stored value, or refuses it as damaged. The input is taken as a value,
 * and as the record of the head's key.
 */
#include "common/storage/store/sealed.h"
#include "ingester/head_seal.h"
#include "ingester/keys.h"
#include "tests/lib/store_doubles.h"

static const struct fg_seal_key key = {{1}};

static void put(struct fg_store *store, unsigned family, struct fg_slice value)
{
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, family, FG_LIT("key"), value);
    fg_assert(fg_store_write(store, &batch, &err) == FG_OK);
    fg_store_batch_done(&batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice input = fg_bytes(data, size);
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_store_iter *iter;
    struct fg_buf value;
    enum fg_code code;
    struct fg_err err;
    bool found;

    put(store, HEAD_PROFILES, input);
    put(store, HEAD_META, input);
    code = ing_head_seal(&store, NULL, &err);
    fg_assert(code == FG_E_CORRUPT || code == FG_E_PRECONDITION);
    fg_assert(fg_store_seal(store, &key, true, &store, &err) == FG_OK);
    fg_buf_init(&value, size + 1);
    code = fg_store_get(store, HEAD_PROFILES, FG_LIT("key"), &value, &found, &err);
    /* Nobody but us can make a value that opens, so what is read was plain. */
    fg_assert(code == FG_E_CORRUPT || (code == FG_OK && fg_slice_eq(fg_buf_slice(&value), input)));
    iter = fg_store_iter_create(store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    fg_assert(iter->valid == (code == FG_OK));
    fg_store_iter_destroy(iter);
    fg_buf_done(&value);
    fg_store_close(store);
    return 0;
}
