#include "querier/tenant_settings.h"

#include "common/base/crc32c.h"
#include "common/base/cursor.h"
#include "common/cluster/manifest/name.h"
#include "common/net/pbjson.h"

enum { SWAPS_MAX = 8, CRC_BYTES = 4 };

/* A version of the object. */
struct settings_version {
    struct fg_bucket_etag etag; /* empty: there is no object */
    Settings__V1__GetSettingsResponse *all;
};

/* ---- the object ---- */

static enum fg_code decode(const struct qry_tenant_settings *settings, struct fg_slice bytes,
                           const char *name, struct settings_version *version, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(bytes);
    uint32_t crc = fg_cur_le32(&cur);
    struct fg_slice content = fg_slice_sub(bytes, CRC_BYTES, SIZE_MAX);
    ProtobufCMessage *message;

    if (cur.bad || fg_crc32c(content) != crc)
        return fg_fail(err, FG_E_CORRUPT, "%s: the checksum is not that of its content", name);
    content = fg_arena_copy(settings->arena, content);
    if (content.ptr == NULL && content.len > 0)
        return fg_fail(err, FG_E_LIMIT, "%s: too large", name);
    if (fg_pb_read(content, &settings__v1__get_settings_response__descriptor, settings->arena,
                   &message, err) != FG_OK) {
        if (err->code == FG_E_INVALID)
            err->code = FG_E_CORRUPT; /* it is not the client's fault */
        return fg_wrap(err, "%s", name);
    }
    version->all = (Settings__V1__GetSettingsResponse *)message;
    return FG_OK;
}

static enum fg_code read_version(const struct qry_tenant_settings *settings, const char *name,
                                 struct settings_version *version, struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = name,
                                    .content_max_bytes = SETTINGS_MAX_BYTES + CRC_BYTES,
                                    .deadline_mono_ns = settings->deadline_mono_ns};
    enum fg_code code = fg_bucket_call(settings->bucket, &get);

    *version = (struct settings_version){0};
    if (code == FG_OK) {
        version->etag = get.etag;
        code = decode(settings, fg_buf_slice(&get.body), name, version, err);
    } else if (code == FG_E_NOT_FOUND) {
        code = FG_OK;
        version->all = fg_arena_new(settings->arena, Settings__V1__GetSettingsResponse, 1);
        if (version->all == NULL)
            code = fg_fail(err, FG_E_LIMIT, "%s: no memory", name);
        else
            settings__v1__get_settings_response__init(version->all);
    } else {
        *err = get.err;
    }
    fg_bucket_clear(&get);
    return code;
}

/* FG_E_PRECONDITION: somebody else was faster. */
static enum fg_code write_version(const struct qry_tenant_settings *settings, const char *name,
                                  const struct settings_version *version, struct fg_err *err)
{
    const ProtobufCMessage *message = &version->all->base;
    bool is_new = version->etag.text[0] == '\0';
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT,
        .name = name,
        .condition = is_new ? FG_BUCKET_IF_ABSENT : FG_BUCKET_IF_MATCH,
        .if_etag = version->etag,
        .deadline_mono_ns = settings->deadline_mono_ns,
    };
    size_t len = protobuf_c_message_get_packed_size(message);
    struct fg_buf bytes;
    enum fg_code code;

    if (len > SETTINGS_MAX_BYTES)
        return fg_fail(err, FG_E_LIMIT, "the settings of a tenant exceed %d bytes",
                       SETTINGS_MAX_BYTES);
    fg_buf_init(&bytes, SIZE_MAX);
    fg_buf_le32(&bytes, 0);
    (void)fg_buf_reserve(&bytes, len + 1);
    bytes.len += protobuf_c_message_pack(message, bytes.ptr + bytes.len);
    uint32_t crc = fg_crc32c(fg_bytes(bytes.ptr + CRC_BYTES, len));
    for (size_t i = 0; i < CRC_BYTES; i++)
        bytes.ptr[i] = (uint8_t)(crc >> 8 * i);
    put.content = fg_buf_slice(&bytes);
    code = fg_bucket_call(settings->bucket, &put);
    if (code != FG_OK)
        *err = put.err;
    fg_bucket_clear(&put);
    fg_buf_done(&bytes);
    return code;
}

/* ---- changes ---- */

static size_t find(const Settings__V1__GetSettingsResponse *all, const char *name)
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

/* Changes a version in place; *ret_changed false: it is as wanted. */
typedef enum fg_code (*settings_change)(const void *what, struct fg_arena *arena,
                                        Settings__V1__GetSettingsResponse *all, bool *ret_changed,
                                        struct fg_err *err);

static enum fg_code put_setting(const void *what, struct fg_arena *arena,
                                Settings__V1__GetSettingsResponse *all, bool *ret_changed,
                                struct fg_err *err)
{
    const Settings__V1__Setting *setting = what;
    size_t at = find(all, setting->name);
    Settings__V1__Setting **grown;

    if (at < all->n_settings && all->settings[at]->modifiedat > setting->modifiedat)
        return fg_fail(err, FG_E_EXISTS, "failed to update %s: newer update already written",
                       setting->name);
    if (at == all->n_settings && at >= SETTINGS_MAX)
        return fg_fail(err, FG_E_LIMIT, "a tenant has at most %d settings", SETTINGS_MAX);
    grown = fg_arena_new(arena, Settings__V1__Setting *, all->n_settings + 1);
    if (grown == NULL)
        return fg_fail(err, FG_E_LIMIT, "settings: no memory");
    if (all->n_settings > 0)
        memcpy(grown, all->settings, all->n_settings * sizeof(void *));
    grown[at] = (Settings__V1__Setting *)(uintptr_t)setting; /* it is only read */
    all->n_settings += at == all->n_settings;
    all->settings = grown;
    qsort(grown, all->n_settings, sizeof(void *), by_name);
    *ret_changed = true;
    return FG_OK;
}

static enum fg_code remove_setting(const void *what, struct fg_arena *arena,
                                   Settings__V1__GetSettingsResponse *all, bool *ret_changed,
                                   struct fg_err *err)
{
    size_t at = find(all, what);

    (void)arena;
    (void)err;
    *ret_changed = at < all->n_settings;
    for (; at + 1 < all->n_settings; at++)
        all->settings[at] = all->settings[at + 1];
    all->n_settings -= *ret_changed;
    return FG_OK;
}

static enum fg_code name_of(const struct qry_tenant_settings *settings,
                            char name[FG_NAME_MAX_BYTES], struct fg_err *err)
{
    if (settings->bucket == NULL)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "settings need a bucket");
    return fg_name_settings(name, settings->tenant, err);
}

/* A write whose answer was lost may have been done: the next read shows it, and a change that is
 * there already is made again without harm. */
static enum fg_code swap(const struct qry_tenant_settings *settings, settings_change change,
                         const void *what, struct fg_err *err)
{
    struct settings_version version;
    char name[FG_NAME_MAX_BYTES];
    bool changed = false;
    enum fg_code code;

    if (name_of(settings, name, err) != FG_OK)
        return err->code;
    for (unsigned i = 0; i < SWAPS_MAX; i++) {
        if (read_version(settings, name, &version, err) != FG_OK ||
            change(what, settings->arena, version.all, &changed, err) != FG_OK)
            return err->code;
        if (!changed)
            return FG_OK;
        code = write_version(settings, name, &version, err);
        if (code != FG_E_PRECONDITION)
            return code;
    }
    return fg_fail(err, FG_E_ABORTED, "%s: others change it all the time, try again", name);
}

enum fg_code qry_tenant_settings_read(const struct qry_tenant_settings *settings,
                                      Settings__V1__GetSettingsResponse *ret_all,
                                      struct fg_err *err)
{
    struct settings_version version;
    char name[FG_NAME_MAX_BYTES];

    if (name_of(settings, name, err) != FG_OK ||
        read_version(settings, name, &version, err) != FG_OK)
        return err->code;
    *ret_all = *version.all;
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
    return swap(settings, put_setting, setting, err);
}

enum fg_code qry_tenant_settings_delete(const struct qry_tenant_settings *settings,
                                        const char *name, struct fg_err *err)
{
    return swap(settings, remove_setting, name, err);
}
