#include "tests/lib/made_keys.h"

static void make(const struct made_keys *keys, struct fg_slice tenant, uint32_t number,
                 struct fg_seal_key *ret_key)
{
    memset(ret_key, keys->wrong ? 0x77 : 0, sizeof *ret_key);
    for (size_t i = 0; i < tenant.len; i++)
        ret_key->bytes[i % sizeof ret_key->bytes] ^= tenant.ptr[i];
    ret_key->bytes[31] ^= (uint8_t)number;
}

static bool is_away(const struct made_keys *keys, struct fg_slice tenant, struct fg_err *err)
{
    if (keys->away == NULL || !fg_slice_is(tenant, keys->away))
        return false;
    (void)fg_fail(err, FG_E_UNAVAILABLE, "what encrypts the key is away");
    return true;
}

static enum fg_code find(void *arg, struct fg_slice tenant, uint32_t number,
                         struct fg_seal_key *ret_key, struct fg_err *err)
{
    const struct made_keys *keys = arg;

    if (is_away(keys, tenant, err))
        return err->code;
    if (number == keys->missing &&
        (keys->missing_for == NULL || fg_slice_is(tenant, keys->missing_for)))
        return fg_fail(err, FG_E_UNIMPLEMENTED, "encrypted with key %u, which was shredded",
                       number);
    make(keys, tenant, number, ret_key);
    return FG_OK;
}

static enum fg_code newest(void *arg, struct fg_slice tenant, uint32_t *ret_number,
                           struct fg_seal_key *ret_key, struct fg_err *err)
{
    const struct made_keys *keys = arg;

    if (is_away(keys, tenant, err))
        return err->code;
    *ret_number = keys->plain != NULL && fg_slice_is(tenant, keys->plain) ? 0 : keys->newest;
    make(keys, tenant, *ret_number, ret_key);
    return FG_OK;
}

void made_keys_init(struct made_keys *keys, uint32_t number)
{
    *keys = (struct made_keys){.keys = {find, newest, keys}, .newest = number};
}
