/*
 * The keys of tenants in the registry of access: each tenant has versions 1, 2, ... of its key,
 * wrapped (key_wrap.h). New blocks are encrypted with the newest version, and blocks say with which
 * one they were. A version that is shredded stays as a record without the key: blocks that need it
 * can never be read again, and the answer says since when and by whom.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_ACCESS_TENANT_KEYS_H
#define FG_COMMON_ACCESS_TENANT_KEYS_H

#include "common/access/registry.h"

enum {
    FG_TENANT_KEY_VERSIONS_MAX = 1000, /* of a tenant: one a day for years */
    FG_TENANT_KEYS_MAX = 65536,
    FG_TENANT_KEY_WRAPPED_MAX_BYTES = 4096,
};

/* Checks the keys of a message. FG_E_INVALID says what is wrong. */
enum fg_code fg_tenant_keys_check(const Access__Registry *message,
                                  struct fg_err *err) fg_must_check;

/* Return a version of a tenant's key, or the newest one; NULL: there is none. */
const Access__TenantKey *fg_tenant_key_find(const Access__Registry *message, struct fg_slice tenant,
                                            uint32_t version);
const Access__TenantKey *fg_tenant_key_newest(const Access__Registry *message,
                                              struct fg_slice tenant);

/*
 * Changes (registry.h).
 *
 * Adds a version with a wrapped key, which is copied. FG_E_EXISTS: it is not the next version,
 * since somebody else has added one. FG_E_LIMIT: there are too many.
 */
enum fg_code fg_tenant_key_add(const struct fg_access_change *change, struct fg_slice tenant,
                               uint32_t version, struct fg_slice wrapped, const char *wrapped_by,
                               struct fg_err *err) fg_must_check;

/* Removes the keys of all versions of a tenant. FG_E_NOT_FOUND: it never had one. */
enum fg_code fg_tenant_key_shred(const struct fg_access_change *change, struct fg_slice tenant,
                                 struct fg_err *err) fg_must_check;

/* Replaces the wrapped form of a key, unless it was shredded or is wrapped so already. */
enum fg_code fg_tenant_key_rewrap(const struct fg_access_change *change, struct fg_slice tenant,
                                  uint32_t version, struct fg_slice wrapped, const char *wrapped_by,
                                  struct fg_err *err) fg_must_check;

#endif
