/* Tenants with default limits, without a file. */
#ifndef FG_TESTS_LIB_TENANTS_H
#define FG_TESTS_LIB_TENANTS_H

#include "common/model/tenant_limits.h"

/* Fills the limits with their defaults, and then with what `change` does to them (NULL: nothing).
 */
struct fg_tenants *tenants_make(struct fg_limit_settings *limits,
                                void (*change)(struct fg_limit_settings *limits), bool enabled,
                                struct fg_registry *registry);

void tenants_free(struct fg_tenants *tenants, struct fg_limit_settings *limits);

#endif
