#include "common/access/registry/tenant_keys_change.h"

#include "common/model/tenant_id.h"

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the registry of access is too large");
}

/* Copies a wrapped key and the name of what wraps it into a key of the message. */
static enum fg_code set_wrapped(const struct fg_access_change *change, Access__TenantKey *key,
                                struct fg_slice wrapped, const char *wrapped_by, struct fg_err *err)
{
    uint8_t *bytes;
    char *by;

    if (wrapped.len == 0 || wrapped.len > FG_TENANT_KEY_WRAPPED_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "a wrapped key of %zu bytes", wrapped.len);
    bytes = fg_arena_alloc(change->arena, wrapped.len);
    by = fg_arena_text(change->arena, fg_cstr(wrapped_by));
    if (bytes == NULL || by == NULL)
        return no_memory(err);
    memcpy(bytes, wrapped.ptr, wrapped.len);
    key->wrapped = (ProtobufCBinaryData){wrapped.len, bytes};
    key->wrapped_by = by;
    return FG_OK;
}

static Access__TenantKey *make_key(const struct fg_access_change *change, struct fg_slice tenant,
                                   uint32_t version)
{
    Access__TenantKey *key = fg_arena_new(change->arena, Access__TenantKey, 1);

    if (key == NULL)
        return NULL;
    access__tenant_key__init(key);
    key->tenant = fg_arena_text(change->arena, tenant);
    key->version = version;
    key->created_ms = change->now_ms;
    key->created_by = fg_arena_text(change->arena, fg_cstr(change->by));
    return key->tenant == NULL || key->created_by == NULL ? NULL : key;
}

/* Puts a key at its place. */
static bool insert(const struct fg_access_change *change, Access__TenantKey *key)
{
    Access__Registry *registry = change->registry;
    size_t at = fg_tenant_key_place(registry, fg_cstr(key->tenant), key->version);
    Access__TenantKey **keys =
        fg_arena_alloc(change->arena, (registry->n_keys + 1) * sizeof(Access__TenantKey *));

    if (keys == NULL)
        return false;
    for (size_t i = 0; i < registry->n_keys; i++)
        keys[i + (i >= at)] = registry->keys[i];
    keys[at] = key;
    registry->keys = keys;
    registry->n_keys++;
    return true;
}

enum fg_code fg_tenant_key_add(const struct fg_access_change *change, struct fg_slice tenant,
                               uint32_t version, struct fg_slice wrapped, const char *wrapped_by,
                               struct fg_err *err)
{
    const Access__TenantKey *newest = fg_tenant_key_newest(change->registry, tenant);
    const Access__Tenant *owner = fg_access_changed_tenant(change, tenant);
    Access__TenantKey *key;

    if (fg_tenant_check(tenant, err) != FG_OK)
        return err->code;
    if (version != (newest == NULL ? 0 : newest->version) + 1)
        return fg_fail(err, FG_E_EXISTS, "there is a newer key of tenant %.*s", FG_S(tenant));
    /* The deletion has shredded what there was, and nobody would shred this one. */
    if (fg_access_is_deleted(owner) &&
        (newest == NULL || owner->state == ACCESS__TENANT__STATE__DELETING))
        return fg_fail(err, FG_E_NOT_FOUND, "tenant \"%.*s\" %s, so it gets no key", FG_S(tenant),
                       owner->state == ACCESS__TENANT__STATE__DELETING ? "is being deleted"
                                                                       : "was deleted");
    if (version > FG_TENANT_KEY_VERSIONS_MAX || change->registry->n_keys >= FG_TENANT_KEYS_MAX)
        return fg_fail(err, FG_E_LIMIT, "there are too many keys of tenants");
    key = make_key(change, tenant, version);
    if (key == NULL)
        return no_memory(err);
    if (set_wrapped(change, key, wrapped, wrapped_by, err) != FG_OK)
        return err->code;
    return insert(change, key) ? FG_OK : no_memory(err);
}

enum fg_code fg_tenant_key_shred(const struct fg_access_change *change, struct fg_slice tenant,
                                 struct fg_err *err)
{
    Access__Registry *registry = change->registry;
    char *by = fg_arena_text(change->arena, fg_cstr(change->by));
    bool any = false;

    if (by == NULL)
        return no_memory(err);
    for (size_t i = fg_tenant_key_place(registry, tenant, 0);
         i < registry->n_keys && fg_slice_is(tenant, registry->keys[i]->tenant); i++) {
        Access__TenantKey *key = registry->keys[i];

        any = true;
        if (key->shredded_ms != 0)
            continue;
        key->wrapped = (ProtobufCBinaryData){0, NULL};
        key->shredded_ms = FG_MAX(change->now_ms, 1);
        key->shredded_by = by;
    }
    return any ? FG_OK : fg_tenant_key_none(tenant, err);
}

enum fg_code fg_tenant_key_rewrap(const struct fg_access_change *change, struct fg_slice tenant,
                                  uint32_t version, struct fg_slice wrapped, const char *wrapped_by,
                                  struct fg_err *err)
{
    size_t at = fg_tenant_key_place(change->registry, tenant, version);
    Access__TenantKey *key;

    if (fg_tenant_key_find(change->registry, tenant, version) == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "key %u of tenant %.*s is gone", version, FG_S(tenant));
    key = change->registry->keys[at];
    if (key->shredded_ms != 0)
        return FG_OK;
    return set_wrapped(change, key, wrapped, wrapped_by, err);
}
