/*
 * Changes of the keys of tenants (tenant_keys.h) in the registry of access, in the manner of
 * registry.h.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_TENANT_KEYS_CHANGE_H
#define FG_COMMON_ACCESS_REGISTRY_TENANT_KEYS_CHANGE_H

#include "common/access/registry/registry.h"
#include "common/access/registry/tenant_keys.h"

/*
 * Adds a version with a wrapped key, which is copied. FG_E_EXISTS: it is not the next version,
 * since somebody else has added one. FG_E_NOT_FOUND: the tenant is being deleted, or was and never
 * had a key; after the end of a deletion a next version is for a new tenant of that name.
 * FG_E_LIMIT: there are too many.
 */
enum fg_code fg_tenant_key_add(const struct fg_access_change *change, struct fg_slice tenant,
                               uint32_t version, struct fg_slice wrapped, const char *wrapped_by,
                               struct fg_err *err) fg_must_check;

/* Removes the keys of all versions of a tenant. FG_E_NOT_FOUND: it never had one. */
enum fg_code fg_tenant_key_shred(const struct fg_access_change *change, struct fg_slice tenant,
                                 struct fg_err *err) fg_must_check;

/* Replaces the wrapped form of a key, unless it was shredded. */
enum fg_code fg_tenant_key_rewrap(const struct fg_access_change *change, struct fg_slice tenant,
                                  uint32_t version, struct fg_slice wrapped, const char *wrapped_by,
                                  struct fg_err *err) fg_must_check;

#endif
