#include "querier/tenant_settings.h"

#include "common/cluster/manifest/name.h"
#include "common/storage/bucket/message_object.h"

/* Linear, of at most SETTINGS_MAX. */
static size_t find_setting(const Settings__V1__GetSettingsResponse *all, const char *name)
{
    size_t i = 0;

    while (i < all->n_settings && strcmp(all->settings[i]->name, name) != 0)
        i++;
    return i;
}

static int by_name(const void *left, const void *right)
{
    return strcmp((*(Settings__V1__Setting *const *)left)->name,
                  (*(Settings__V1__Setting *const *)right)->name);
}

static enum fg_code put_setting(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                                bool *ret_changed, struct fg_err *err)
{
    Settings__V1__GetSettingsResponse *all = (Settings__V1__GetSettingsResponse *)message;
    Settings__V1__Setting *setting = arg;
    size_t at = find_setting(all, setting->name);
    Settings__V1__Setting **grown;

    /* As Pyroscope: the time that clients send decides, and an older change is a conflict (409). */
    if (at < all->n_settings && all->settings[at]->modifiedat > setting->modifiedat)
        return fg_fail(err, FG_E_EXISTS, "failed to update %s: newer update already written",
                       setting->name);
    if (at == all->n_settings && at >= SETTINGS_MAX)
        return fg_fail(err, FG_E_TOO_MUCH, "a tenant has at most %d settings", SETTINGS_MAX);
    /* The decoder made the array as long as the list, so one more needs a new one. */
    grown = fg_arena_new(arena, Settings__V1__Setting *, all->n_settings + 1);
    if (grown == NULL)
        return fg_fail(err, FG_E_LIMIT, "settings: no memory");
    if (all->n_settings > 0)
        memcpy(grown, all->settings, all->n_settings * sizeof(void *));
    grown[at] = setting;
    all->n_settings += at == all->n_settings;
    all->settings = grown;
    /* Sorted when it changes, so that reading, which is usual, gives a stable order for nothing. */
    qsort(grown, all->n_settings, sizeof(void *), by_name);
    *ret_changed = true;
    return FG_OK;
}

static enum fg_code remove_setting(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                                   bool *ret_changed, struct fg_err *err)
{
    Settings__V1__GetSettingsResponse *all = (Settings__V1__GetSettingsResponse *)message;
    size_t at = find_setting(all, arg);

    (void)arena;
    (void)err;
    /* Not to be there is what a deletion wants: no error, and nothing is written. */
    *ret_changed = at < all->n_settings;
    for (; at + 1 < all->n_settings; at++)
        all->settings[at] = all->settings[at + 1];
    all->n_settings -= *ret_changed;
    return FG_OK;
}

/* Describes the object. name: has its name afterwards. */
static enum fg_code object_of(const struct qry_tenant_settings *settings,
                              char name[FG_NAME_MAX_BYTES], struct fg_message_object *ret_object,
                              struct fg_err *err)
{
    if (settings->bucket == NULL)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "settings need a bucket");
    if (fg_name_settings(name, settings->tenant, err) != FG_OK)
        return err->code;
    *ret_object = (struct fg_message_object){
        .bucket = settings->bucket,
        .name = name,
        .what = "the settings of a tenant",
        .type = &settings__v1__get_settings_response__descriptor,
        .max_bytes = SETTINGS_MAX_BYTES,
        .arena = settings->arena,
        .deadline_mono_ns = settings->deadline_mono_ns,
    };
    return FG_OK;
}

static enum fg_code swap_settings(const struct qry_tenant_settings *settings,
                                  fg_message_object_change change, const void *what,
                                  struct fg_err *err)
{
    struct fg_message_object object;
    char name[FG_NAME_MAX_BYTES];

    if (object_of(settings, name, &object, err) != FG_OK)
        return err->code;
    return fg_message_object_swap(&object, change, (void *)(uintptr_t)what /* only read */, err);
}

enum fg_code qry_tenant_settings_read(const struct qry_tenant_settings *settings,
                                      Settings__V1__GetSettingsResponse *ret_all,
                                      struct fg_err *err)
{
    struct fg_message_object object;
    char name[FG_NAME_MAX_BYTES];
    ProtobufCMessage *message;

    if (object_of(settings, name, &object, err) != FG_OK ||
        fg_message_object_read(&object, &message, err) != FG_OK)
        return err->code;
    *ret_all = *(Settings__V1__GetSettingsResponse *)message;
    return FG_OK;
}

enum fg_code qry_tenant_settings_set(const struct qry_tenant_settings *settings,
                                     const Settings__V1__Setting *setting, struct fg_err *err)
{
    if (strlen(setting->name) > SETTING_NAME_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "the name of a setting exceeds %d bytes",
                       SETTING_NAME_MAX_BYTES);
    if (strlen(setting->value) > SETTING_VALUE_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "the value of setting %s exceeds %d bytes", setting->name,
                       SETTING_VALUE_MAX_BYTES);
    return swap_settings(settings, put_setting, setting, err);
}

enum fg_code qry_tenant_settings_delete(const struct qry_tenant_settings *settings,
                                        const char *name, struct fg_err *err)
{
    return swap_settings(settings, remove_setting, name, err);
}
