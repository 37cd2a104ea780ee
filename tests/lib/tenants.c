#include "tests/lib/tenants.h"

struct fg_tenants *tenants_make(struct fg_limit_settings *limits,
                                void (*change)(struct fg_limit_settings *limits), bool enabled,
                                struct fg_registry *registry)
{
    struct fg_conf_section section = {"limits", fg_limit_fields, fg_limit_n_fields, limits};
    struct fg_tenants *tenants;
    struct fg_err err;

    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                           NULL, 0, &err) == FG_OK);
    if (change != NULL)
        change(limits);
    fg_assert(fg_tenants_create(
                  &(struct fg_tenants_config){
                      .enabled = enabled, .defaults = limits, .file = "", .registry = registry},
                  &tenants, &err) == FG_OK);
    return tenants;
}

void tenants_free(struct fg_tenants *tenants, struct fg_limit_settings *limits)
{
    struct fg_conf_section section = {"limits", fg_limit_fields, fg_limit_n_fields, limits};

    fg_tenants_destroy(tenants);
    fg_conf_done(&(struct fg_conf){.sections = &section, .n_sections = 1});
}
