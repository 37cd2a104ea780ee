#include "common/access/registry/tenant_keys.h"

#include "common/base/search.h"
#include "common/model/tenant_id.h"

static int cmp(const Access__TenantKey *key, struct fg_slice tenant, uint32_t version)
{
    int order = fg_slice_cmp(fg_cstr(key->tenant), tenant);

    return order != 0 ? order : (key->version > version) - (key->version < version);
}

size_t fg_tenant_key_place(const Access__Registry *message, struct fg_slice tenant,
                           uint32_t version)
{
    return fg_lower_bound(i, 0, message->n_keys, cmp(message->keys[i], tenant, version) < 0);
}

const Access__TenantKey *fg_tenant_key_find(const Access__Registry *message, struct fg_slice tenant,
                                            uint32_t version)
{
    size_t at = fg_tenant_key_place(message, tenant, version);

    return at < message->n_keys && cmp(message->keys[at], tenant, version) == 0 ? message->keys[at]
                                                                                : NULL;
}

const Access__TenantKey *fg_tenant_key_newest(const Access__Registry *message,
                                              struct fg_slice tenant)
{
    size_t behind = fg_tenant_key_place(message, tenant, UINT32_MAX);

    return behind > 0 && fg_slice_is(tenant, message->keys[behind - 1]->tenant)
               ? message->keys[behind - 1]
               : NULL;
}

bool fg_tenant_key_is_shredded(const Access__Registry *message, struct fg_slice tenant,
                               uint32_t version)
{
    const Access__TenantKey *key = fg_tenant_key_find(message, tenant, version);

    return key != NULL && key->shredded_ms != 0;
}

enum fg_code fg_tenant_key_none(struct fg_slice tenant, struct fg_err *err)
{
    return fg_fail(err, FG_E_NOT_FOUND,
                   "tenant \"%.*s\" has no key; a tenant gets one when its first segment is "
                   "encrypted",
                   FG_S(fg_slice_sub(tenant, 0, FG_TENANT_MAX_BYTES)));
}

static enum fg_code check_key(const Access__TenantKey *key, struct fg_err *err)
{
    if (fg_tenant_check(fg_cstr(key->tenant), err) != FG_OK)
        return err->code;
    if (key->version == 0 || key->version > FG_TENANT_KEY_VERSIONS_MAX)
        return fg_fail(err, FG_E_INVALID, "version %u", key->version);
    if (key->wrapped.len > FG_TENANT_KEY_WRAPPED_MAX_BYTES ||
        (key->wrapped.len == 0) != (key->shredded_ms != 0))
        return fg_fail(err, FG_E_INVALID, "%zu bytes of a key, shredded at %lld", key->wrapped.len,
                       (long long)key->shredded_ms);
    return FG_OK;
}

enum fg_code fg_tenant_keys_check(const Access__Registry *message, struct fg_err *err)
{
    if (message->n_keys > FG_TENANT_KEYS_MAX)
        return fg_fail(err, FG_E_LIMIT, "too many keys of tenants");
    for (size_t i = 0; i < message->n_keys; i++) {
        const Access__TenantKey *key = message->keys[i];

        if (check_key(key, err) != FG_OK)
            return fg_wrap(err, "key of tenant %s", key->tenant);
        if (i > 0 && cmp(message->keys[i - 1], fg_cstr(key->tenant), key->version) >= 0)
            return fg_fail(err, FG_E_INVALID, "key of tenant %s: version %u is out of order",
                           key->tenant, key->version);
    }
    return FG_OK;
}
