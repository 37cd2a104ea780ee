/*
 * Settings of a tenant, which apps keep on the server: names with values. They are one object in
 * the bucket, tenants/<tenant>/settings, a settings.v1.GetSettingsResponse (tenant_object.h).
 *
 * Thread: any that may wait for the bucket. Memory: the arena of the caller.
 * Errors: those of tenant_object.h. FG_E_UNIMPLEMENTED: there is no bucket.
 */
#ifndef FG_QUERIER_TENANT_SETTINGS_H
#define FG_QUERIER_TENANT_SETTINGS_H

#include "common/base/arena.h"
#include "common/storage/bucket/bucket.h"
#include "proto/settings_v1.pb-c.h"

enum {
    SETTINGS_MAX = 1000,          /* all are one object, which each change reads and writes */
    SETTING_NAME_MAX_BYTES = 256, /* names are words of apps */
    SETTING_VALUE_MAX_BYTES = 256 * 1024, /* apps keep JSON of some kilobytes */
    SETTINGS_MAX_BYTES = 8 * 1024 * 1024, /* all of a tenant */
};

struct qry_tenant_settings {
    struct fg_bucket *bucket; /* NULL: there is none */
    struct fg_slice tenant;
    struct fg_arena *arena;
    int64_t deadline_mono_ns;
};

/* Reads all settings, sorted by name. */
enum fg_code qry_tenant_settings_read(const struct qry_tenant_settings *settings,
                                      Settings__V1__GetSettingsResponse *ret_all,
                                      struct fg_err *err) fg_must_check;

/* Sets one. FG_E_EXISTS: what is stored was modified later. FG_E_INVALID: a name or value that is
 * too long. FG_E_LIMIT: the tenant has too many. */
enum fg_code qry_tenant_settings_set(const struct qry_tenant_settings *settings,
                                     const Settings__V1__Setting *setting,
                                     struct fg_err *err) fg_must_check;

/* Deletes one; FG_OK also if there is none of that name. */
enum fg_code qry_tenant_settings_delete(const struct qry_tenant_settings *settings,
                                        const char *name, struct fg_err *err) fg_must_check;

#endif
