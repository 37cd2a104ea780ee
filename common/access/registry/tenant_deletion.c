#include "common/access/registry/tenant_deletion.h"

#include "common/access/registry/tenant_keys.h"
#include "common/access/registry/tenant_keys_change.h"

/* ---- ask ---- */

static uint32_t revoke_tokens(const struct fg_access_change *change, const char *tenant, char *by)
{
    uint32_t n = 0;

    for (size_t i = 0; i < change->registry->n_tokens; i++) {
        Access__Token *token = change->registry->tokens[i];

        if (token->n_tenants != 1 || strcmp(token->tenants[0], tenant) != 0 ||
            token->revoked_ms != 0)
            continue;
        token->revoked_ms = change->now_ms;
        token->revoked_by = by;
        n++;
    }
    return n;
}

/* *ret_n: versions that had a key until now. */
static enum fg_code shred_keys(const struct fg_access_change *change, struct fg_slice id,
                               uint32_t *ret_n, struct fg_err *err)
{
    const Access__Registry *registry = change->registry;
    const Access__TenantKey *newest = fg_tenant_key_newest(registry, id);

    *ret_n = 0;
    if (newest == NULL)
        return FG_OK;
    for (uint32_t version = 1; version <= newest->version; version++)
        *ret_n += !fg_tenant_key_is_shredded(registry, id, version);
    return fg_tenant_key_shred(change, id, err);
}

enum fg_code fg_access_delete_tenant(const struct fg_access_change *change, struct fg_slice id,
                                     struct fg_err *err)
{
    Access__TenantDeletion *deletion;
    Access__Tenant *tenant;

    if (fg_access_find_changed_tenant(change, id, &tenant, err) != FG_OK)
        return err->code;
    if (fg_access_is_deleted(tenant))
        return FG_OK;
    deletion = fg_arena_new(change->arena, Access__TenantDeletion, 1);
    if (deletion == NULL)
        return fg_fail(err, FG_E_LIMIT, "the registry of access is too large");
    access__tenant_deletion__init(deletion);
    deletion->asked_ms = change->now_ms;
    deletion->asked_by = fg_arena_text(change->arena, fg_cstr(change->by));
    if (deletion->asked_by == NULL)
        return fg_fail(err, FG_E_LIMIT, "the registry of access is too large");
    if (shred_keys(change, id, &deletion->keys, err) != FG_OK)
        return err->code;
    deletion->tokens = revoke_tokens(change, tenant->id, deletion->asked_by);
    deletion->bindings = fg_access_remove_bindings(change, tenant->id);
    tenant->deletion = deletion;
    tenant->state = ACCESS__TENANT__STATE__DELETING;
    tenant->changed_ms = change->now_ms;
    return FG_OK;
}

/* ---- begin and end ---- */

static enum fg_code check_deleting(const Access__Tenant *tenant, struct fg_err *err)
{
    return tenant->state == ACCESS__TENANT__STATE__DELETING && tenant->deletion != NULL
               ? FG_OK
               : fg_fail(err, FG_E_PRECONDITION, "tenant \"%s\" is not being deleted", tenant->id);
}

enum fg_code fg_access_begin_deletion(const struct fg_access_change *change, struct fg_slice id,
                                      const struct fg_access_listed *listed, struct fg_err *err)
{
    Access__TenantDeletion *deletion;
    Access__Tenant *tenant;

    if (fg_access_find_changed_tenant(change, id, &tenant, err) != FG_OK ||
        check_deleting(tenant, err) != FG_OK)
        return err->code;
    deletion = tenant->deletion;
    if (deletion->begun_ms != 0)
        return FG_OK;
    deletion->begun_ms = change->now_ms;
    deletion->blocks = listed->blocks;
    deletion->bytes = listed->bytes;
    deletion->segments = listed->segments;
    deletion->listed = listed->profiles;
    return FG_OK;
}

enum fg_code fg_access_end_deletion(const struct fg_access_change *change, struct fg_slice id,
                                    uint64_t removed, struct fg_err *err)
{
    Access__Tenant *tenant;
    uint32_t keys;

    if (fg_access_find_changed_tenant(change, id, &tenant, err) != FG_OK)
        return err->code;
    if (tenant->state == ACCESS__TENANT__STATE__DELETED)
        return FG_OK;
    /* A program of an older version may have made keys since the deletion began. */
    if (check_deleting(tenant, err) != FG_OK || shred_keys(change, id, &keys, err) != FG_OK)
        return err->code;
    tenant->deletion->keys += keys;
    tenant->deletion->ended_ms = change->now_ms;
    tenant->deletion->removed = removed;
    tenant->state = ACCESS__TENANT__STATE__DELETED;
    tenant->changed_ms = change->now_ms;
    tenant->n_limits = 0;
    return FG_OK;
}
