/*
 * The keys of tenants in the registry of access: each tenant has versions 1, 2, ... of its key,
 * wrapped (key_wrap.h). New blocks are encrypted with the newest version, and blocks say with which
 * one they were. A version that is shredded stays as a record without the key: blocks that need it
 * can never be read again, and the answer says since when and by whom.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_TENANT_KEYS_H
#define FG_COMMON_ACCESS_REGISTRY_TENANT_KEYS_H

#include "common/access/registry/registry.pb-c.h"
#include "common/base/err.h"
#include "common/base/slice.h"

enum {
    FG_TENANT_KEY_VERSIONS_MAX = 1000, /* of a tenant: one a day for years */
    FG_TENANT_KEYS_MAX = 65536,
    FG_TENANT_KEY_WRAPPED_MAX_BYTES = 4096,
};

/* Checks the keys of a message. FG_E_INVALID says what is wrong. */
enum fg_code fg_tenant_keys_check(const Access__Registry *message,
                                  struct fg_err *err) fg_must_check;

/* Returns the index of the first key that is not before the place of (tenant, version). */
size_t fg_tenant_key_place(const Access__Registry *message, struct fg_slice tenant,
                           uint32_t version);

/* Return a version of a tenant's key, or the newest one; NULL: there is none. */
const Access__TenantKey *fg_tenant_key_find(const Access__Registry *message, struct fg_slice tenant,
                                            uint32_t version);
const Access__TenantKey *fg_tenant_key_newest(const Access__Registry *message,
                                              struct fg_slice tenant);

/* Returns whether a version was shredded: nobody can read what is encrypted with it any more. */
bool fg_tenant_key_is_shredded(const Access__Registry *message, struct fg_slice tenant,
                               uint32_t version);

/* Fails with FG_E_NOT_FOUND: the tenant never had a key. */
enum fg_code fg_tenant_key_none(struct fg_slice tenant, struct fg_err *err);

#endif
