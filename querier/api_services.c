/* The small services next to querier.v1: settings of a tenant, and what the server can do. */
#include "proto/capabilities_v1.pb-c.h"
#include "querier/api.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/reply.h"
#include "querier/tenant_settings.h"

/* ---- settings.v1 ---- */

static enum fg_code settings_of(const struct qry_query *query, struct qry_tenant_settings *ret,
                                struct fg_err *err)
{
    const struct qry_blocks *blocks = query->querier->blocks;

    if (query->tenants.n != 1)
        return fg_fail(err, FG_E_INVALID, "settings are those of one tenant, not of several");
    *ret = (struct qry_tenant_settings){.bucket = blocks == NULL ? NULL : blocks->bucket,
                                        .tenant = query->tenants.ids[0],
                                        .arena = query->arena,
                                        .deadline_mono_ns = query->deadline_mono_ns};
    return FG_OK;
}

static enum fg_code settings_get(struct qry_query *query, const ProtobufCMessage *in,
                                 struct fg_err *err)
{
    Settings__V1__GetSettingsResponse all;
    struct qry_tenant_settings settings;

    (void)in;
    if (settings_of(query, &settings, err) != FG_OK ||
        qry_tenant_settings_read(&settings, &all, err) != FG_OK)
        return err->code;
    return qry_reply_message(query, &all.base, err);
}

static enum fg_code settings_set(struct qry_query *query, const ProtobufCMessage *in,
                                 struct fg_err *err)
{
    const Settings__V1__Setting *asked = ((const Settings__V1__SetSettingsRequest *)in)->setting;
    Settings__V1__SetSettingsResponse out;
    struct qry_tenant_settings settings;
    Settings__V1__Setting setting;

    if (asked == NULL)
        return fg_fail(err, FG_E_INVALID, "no setting values provided");
    setting = *asked;
    if (setting.modifiedat <= 0)
        setting.modifiedat = fg_wall_ns(query->querier->clock) / FG_MS_NS;
    if (settings_of(query, &settings, err) != FG_OK ||
        qry_tenant_settings_set(&settings, &setting, err) != FG_OK)
        return err->code;
    settings__v1__set_settings_response__init(&out);
    out.setting = &setting;
    return qry_reply_message(query, &out.base, err);
}

static enum fg_code settings_delete(struct qry_query *query, const ProtobufCMessage *in,
                                    struct fg_err *err)
{
    Settings__V1__DeleteSettingsResponse out;
    struct qry_tenant_settings settings;

    if (settings_of(query, &settings, err) != FG_OK ||
        qry_tenant_settings_delete(
            &settings, ((const Settings__V1__DeleteSettingsRequest *)in)->name, err) != FG_OK)
        return err->code;
    settings__v1__delete_settings_response__init(&out);
    return qry_reply_message(query, &out.base, err);
}

/* ---- what the server can do ---- */

/* The names that apps look for. Texts are ours; who reads them is a person. */
static enum fg_code feature_flags(struct qry_query *query, const ProtobufCMessage *in,
                                  struct fg_err *err)
{
    static const struct {
        const char *name, *description;
        bool enabled;
    } known[] = {
        {"pyroscopeRuler", "Recording rules: metrics made from profiles.", true},
        {"pyroscopeRulerFunctions", "Recording rules for single functions.", true},
        {"utf8LabelNames", "Label names beyond letters, digits and underscores.", false},
        {"v2StorageLayer", "The query interface of Pyroscope's second storage.", true},
    };
    Capabilities__V1__GetFeatureFlagsResponse out;

    (void)in;
    capabilities__v1__get_feature_flags_response__init(&out);
    out.n_feature_flags = FG_COUNT(known);
    out.feature_flags = qry_api_messages(query->arena, &capabilities__v1__feature_flag__descriptor,
                                         FG_COUNT(known));
    if (out.feature_flags == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < FG_COUNT(known); i++) {
        out.feature_flags[i]->name = fg_arena_text(query->arena, fg_cstr(known[i].name));
        out.feature_flags[i]->description =
            fg_arena_text(query->arena, fg_cstr(known[i].description));
        out.feature_flags[i]->enabled = known[i].enabled;
        if (out.feature_flags[i]->name == NULL || out.feature_flags[i]->description == NULL)
            return qry_api_too_large(err);
    }
    return qry_reply_message(query, &out.base, err);
}

static enum fg_code version(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    Capabilities__V1__VersionResponse out;

    (void)in;
    capabilities__v1__version_response__init(&out);
    out.querierapi = 1;
    return qry_reply_message(query, &out.base, err);
}

/* Links to source code need an app at a code host, which is not there. */
static enum fg_code no_source_code(struct qry_query *query, const ProtobufCMessage *in,
                                   struct fg_err *err)
{
    (void)query;
    (void)in;
    return fg_fail(err, FG_E_UNIMPLEMENTED, "GitHub integration is not configured");
}

/* As Pyroscope: without a session at a code host nobody may read files there. */
static enum fg_code no_session(struct qry_query *query, const ProtobufCMessage *in,
                               struct fg_err *err)
{
    (void)query;
    (void)in;
    return fg_fail(err, FG_E_NO_TENANT, "invalid token");
}

/* Agents ask before they send the debug information of a program, and send none then. */
static enum fg_code no_debug_info(struct qry_query *query, const ProtobufCMessage *in,
                                  struct fg_err *err)
{
    Capabilities__V1__ShouldInitiateUploadResponse out;

    (void)in;
    capabilities__v1__should_initiate_upload_response__init(&out);
    out.reason = fg_arena_text(query->arena, FG_LIT("DebugInfo upload disabled"));
    return out.reason == NULL ? qry_api_too_large(err) : qry_reply_message(query, &out.base, err);
}

/* Debug information is not kept, so there is none to list, to end or to delete. */
static enum fg_code no_debug_info_store(struct qry_query *query, const ProtobufCMessage *in,
                                        struct fg_err *err)
{
    (void)query;
    (void)in;
    return fg_fail(err, FG_E_UNIMPLEMENTED, "debug information is not stored here");
}

#define ANY &capabilities__v1__any_request__descriptor

/* clang-format off */
const struct qry_endpoint qry_service_endpoints[] = {
    {"/settings.v1.SettingsService/Get", "SettingsGet", &settings__v1__get_settings_request__descriptor, settings_get, 0, true},
    {"/settings.v1.SettingsService/Set", "SettingsSet", &settings__v1__set_settings_request__descriptor, settings_set, FG_SCOPE_RULES, true},
    {"/settings.v1.SettingsService/Delete", "SettingsDelete", &settings__v1__delete_settings_request__descriptor, settings_delete, FG_SCOPE_RULES, true},
    {"/capabilities.v1.FeatureFlagsService/GetFeatureFlags", "GetFeatureFlags", &capabilities__v1__get_feature_flags_request__descriptor, feature_flags, 0, false},
    {"/version.v1.Version/Version", "Version", &capabilities__v1__version_request__descriptor, version, 0, false},
    {"/vcs.v1.VCSService/GithubApp", "GithubApp", ANY, no_source_code, 0, false},
    {"/vcs.v1.VCSService/GithubLogin", "GithubLogin", ANY, no_source_code, 0, false},
    {"/vcs.v1.VCSService/GithubRefresh", "GithubRefresh", ANY, no_source_code, 0, false},
    {"/vcs.v1.VCSService/GetFile", "GetFile", ANY, no_session, 0, false},
    {"/vcs.v1.VCSService/GetCommit", "GetCommit", ANY, no_session, 0, false},
    {"/vcs.v1.VCSService/GetCommits", "GetCommits", ANY, no_session, 0, false},
    {"/debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload", "ShouldInitiateUpload", ANY, no_debug_info, FG_SCOPE_DEBUGINFO, false},
    {"/debuginfo.v1alpha1.DebuginfoService/UploadFinished", "UploadFinished", ANY, no_debug_info_store, FG_SCOPE_DEBUGINFO, false},
    {"/debuginfo.v1alpha1.DebuginfoService/ListDebuginfo", "ListDebuginfo", ANY, no_debug_info_store, FG_SCOPE_DEBUGINFO, false},
    {"/debuginfo.v1alpha1.DebuginfoService/DeleteDebuginfo", "DeleteDebuginfo", ANY, no_debug_info_store, FG_SCOPE_DEBUGINFO, false},
};
const size_t qry_n_service_endpoints = FG_COUNT(qry_service_endpoints);

/* The body is the file itself, in no message. */
const struct qry_endpoint qry_file_endpoints[] = {
    {"/debuginfo.v1alpha1.DebuginfoService/Upload/", "UploadDebuginfo", NULL, no_debug_info_store, FG_SCOPE_DEBUGINFO, false},
};
/* clang-format on */
const size_t qry_n_file_endpoints = FG_COUNT(qry_file_endpoints);
