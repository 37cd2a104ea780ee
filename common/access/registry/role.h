/* A role: what somebody may do in some tenants. */
#ifndef FG_COMMON_ACCESS_REGISTRY_ROLE_H
#define FG_COMMON_ACCESS_REGISTRY_ROLE_H

#include "common/base/slice.h"

/* What somebody may do in the tenants that a pattern matches: a name, or one with '*' at its end.
 */
struct fg_access_role {
    struct fg_slice tenants;
    unsigned scopes;
};

#endif
