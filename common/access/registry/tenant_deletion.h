/*
 * The deletion of a whole tenant in the registry of access, in the manner of registry.h:
 *
 *     ACTIVE, SUSPENDED --ask--> DELETING --begin--> (counts) --end--> DELETED --create--> ACTIVE
 *
 * From the first step on the tenant is refused everywhere within access.poll, and what is encrypted
 * with its keys can be read by nobody. The compactor that owns the tenant removes its data
 * (compactor/erasure_core.h) and takes the two other steps. The entry stays, since it keeps out
 * what arrives late, until somebody creates a tenant of that name again, or for 400 days
 * (FG_ACCESS_DELETED_KEPT_DAYS): the next tenant that is created after that takes its room.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_ACCESS_REGISTRY_TENANT_DELETION_H
#define FG_COMMON_ACCESS_REGISTRY_TENANT_DELETION_H

#include "common/access/registry/registry.h"

/* Begins a deletion: shreds the tenant's keys, revokes tokens that are for this tenant alone, and
 * removes bindings to it by its name. Cannot be undone. FG_E_NOT_FOUND: there is no such tenant. */
enum fg_code fg_access_delete_tenant(const struct fg_access_change *change, struct fg_slice id,
                                     struct fg_err *err) fg_must_check;

/* What manifests list of a tenant. */
struct fg_access_listed {
    uint64_t blocks, bytes, segments, profiles;
};

/* Notes that its data begins to leave, and what there is; the first call counts. FG_E_PRECONDITION:
 * the tenant is not being deleted. */
enum fg_code fg_access_begin_deletion(const struct fg_access_change *change, struct fg_slice id,
                                      const struct fg_access_listed *listed,
                                      struct fg_err *err) fg_must_check;

/* Notes that nothing of the tenant is left, and shreds keys that were made meanwhile. removed:
 * profiles. FG_E_PRECONDITION: as above. */
enum fg_code fg_access_end_deletion(const struct fg_access_change *change, struct fg_slice id,
                                    uint64_t removed, struct fg_err *err) fg_must_check;

#endif
