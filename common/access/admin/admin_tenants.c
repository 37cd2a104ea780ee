#include "common/access/admin/admin_api_impl.h"
#include "common/access/registry/tenant_deletion.h"
#include "common/base/json.h"
#include "common/base/str.h"
#include "common/runtime/log.h"

enum { LIMITS_MAX = 100 }; /* of a request */

/* ---- tenants ---- */

/* In the order of Access__Tenant__State. */
static const char *const states[] = {"active", "suspended", "deleting", "deleted"};

static void put_deletion(struct fg_json_writer *json, const Access__TenantDeletion *deletion)
{
    fg_json_begin_object(json, "deletion");
    fg_json_put_i64(json, "askedMs", deletion->asked_ms);
    fg_json_put_cstr(json, "askedBy", deletion->asked_by);
    fg_json_put_u64(json, "keysShredded", deletion->keys);
    fg_json_put_u64(json, "tokensRevoked", deletion->tokens);
    fg_json_put_u64(json, "bindingsRemoved", deletion->bindings);
    if (deletion->begun_ms != 0) {
        fg_json_put_i64(json, "begunMs", deletion->begun_ms);
        fg_json_put_u64(json, "blocks", deletion->blocks);
        fg_json_put_u64(json, "blockBytes", deletion->bytes);
        fg_json_put_u64(json, "segments", deletion->segments);
        fg_json_put_u64(json, "profiles", deletion->listed);
    }
    if (deletion->ended_ms != 0) {
        fg_json_put_i64(json, "endedMs", deletion->ended_ms);
        fg_json_put_u64(json, "profilesRemoved", deletion->removed);
    }
    fg_json_end(json);
}

static void put_tenant(struct fg_json_writer *json, const Access__Tenant *tenant)
{

    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "id", tenant->id);
    /* A newer version may have stored a state that this one does not know. */
    fg_json_put_cstr(json, "state",
                     (unsigned)tenant->state < FG_COUNT(states) ? states[tenant->state]
                                                                : "unknown");
    fg_json_put_i64(json, "createdMs", tenant->created_ms);
    fg_json_put_cstr(json, "createdBy", tenant->created_by);
    fg_json_put_i64(json, "changedMs", tenant->changed_ms);
    if (tenant->deletion != NULL)
        put_deletion(json, tenant->deletion);
    fg_json_end(json);
}

static enum fg_code edit_create_tenant(void *arg, const struct fg_access_change *change,
                                       struct fg_err *err)
{
    const struct fg_admin_call *call = arg;

    return fg_access_create_tenant(change, call->id, err);
}

enum fg_code fg_admin_create_tenant(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    Access__Tenant tenant;
    ProtobufCMessage *body;

    if (fg_admin_need_admin(call, "create tenants", err) != FG_OK ||
        fg_admin_read_body(call, &access__create_tenant__descriptor, &body, err) != FG_OK)
        return err->code;
    /* The path names no tenant: the second record of the audit takes it from here. */
    call->id = fg_cstr(((Access__CreateTenant *)body)->id);
    if (fg_admin_swap(call, edit_create_tenant, call, err) != FG_OK)
        return err->code;
    fg_log_info("tenant created", fg_lb("tenant", call->id), fg_ls("by", call->who));
    access__tenant__init(&tenant);
    tenant.id = ((Access__CreateTenant *)body)->id;
    tenant.created_by = call->who;
    tenant.created_ms = tenant.changed_ms = call->now_ms;
    put_tenant(&json, &tenant);
    return FG_OK;
}

struct state_edit {
    struct fg_slice id;
    Access__Tenant__State state;
};

static void say_state(struct fg_admin_call *call, Access__Tenant__State state)
{
    struct fg_json_writer json = fg_json_writer(&call->body);

    fg_log_info("state of a tenant changed", fg_lb("tenant", call->id),
                fg_ls("state", states[state]), fg_ls("by", call->who));
    fg_json_begin_object(&json, NULL);
    fg_json_put_text(&json, "id", call->id);
    fg_json_put_cstr(&json, "state", states[state]);
    fg_json_end(&json);
}

static enum fg_code edit_state(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    const struct state_edit *edit = arg;

    return fg_access_set_tenant_state(change, edit->id, edit->state, err);
}

static enum fg_code set_state(struct fg_admin_call *call, Access__Tenant__State state,
                              struct fg_err *err)
{
    struct state_edit edit = {call->id, state};

    if (fg_admin_need_admin(call, "change the state of tenants", err) != FG_OK ||
        fg_admin_swap(call, edit_state, &edit, err) != FG_OK)
        return err->code;
    say_state(call, state);
    return FG_OK;
}

enum fg_code fg_admin_suspend_tenant(struct fg_admin_call *call, struct fg_err *err)
{
    return set_state(call, ACCESS__TENANT__STATE__SUSPENDED, err);
}

enum fg_code fg_admin_resume_tenant(struct fg_admin_call *call, struct fg_err *err)
{
    return set_state(call, ACCESS__TENANT__STATE__ACTIVE, err);
}

static enum fg_code edit_delete(void *arg, const struct fg_access_change *change,
                                struct fg_err *err)
{
    struct state_edit *edit = arg;

    if (fg_access_delete_tenant(change, edit->id, err) != FG_OK)
        return err->code;
    edit->state = fg_access_changed_tenant(change, edit->id)->state; /* it may have ended before */
    return FG_OK;
}

enum fg_code fg_admin_delete_tenant(struct fg_admin_call *call, struct fg_err *err)
{
    struct state_edit edit = {.id = call->id};

    if (fg_admin_need_admin(call, "delete tenants", err) != FG_OK ||
        fg_admin_swap(call, edit_delete, &edit, err) != FG_OK)
        return err->code;
    say_state(call, edit.state);
    return FG_OK;
}

enum fg_code fg_admin_list_tenants(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Registry *message = call->registry->message;

    (void)err;
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "tenants");
    for (size_t i = 0; i < message->n_tenants; i++)
        if (fg_admin_governs(call, message->tenants[i]->id))
            put_tenant(&json, message->tenants[i]);
    fg_json_end(&json);
    fg_json_end(&json);
    return FG_OK;
}

static enum fg_code find_tenant(const struct fg_admin_call *call, const Access__Tenant **ret_tenant,
                                struct fg_err *err)
{
    const char *id = fg_arena_text(call->arena, call->id);

    *ret_tenant = fg_access_find_tenant(call->registry, call->id);
    /* A caller that may not see it does not learn whether it is there. */
    if (id == NULL || *ret_tenant == NULL || !fg_admin_governs(call, id))
        return fg_fail(err, FG_E_NOT_FOUND, "there is no tenant \"%.*s\"",
                       FG_S(fg_slice_sub(call->id, 0, FG_TENANT_MAX_BYTES)));
    return FG_OK;
}

enum fg_code fg_admin_get_tenant(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Tenant *tenant;

    if (find_tenant(call, &tenant, err) != FG_OK)
        return err->code;
    put_tenant(&json, tenant);
    return FG_OK;
}

/* ---- limits ---- */

static bool is_in_registry(const Access__Tenant *tenant, const char *key)
{
    for (size_t i = 0; tenant != NULL && i < tenant->n_limits; i++)
        if (strcmp(tenant->limits[i]->name, key) == 0)
            return true;
    return false;
}

/* Where the value of a limit comes from. */
static const char *source_of(const struct fg_conf_field *field, const Access__Tenant *tenant,
                             struct fg_slice value, const struct fg_limits *defaults)
{
    struct fg_buf shared;
    bool same;

    if (is_in_registry(tenant, field->key))
        return "registry";
    /* A file that repeats a value of the settings changes nothing, so the settings are named. */
    fg_buf_init(&shared, FG_ADMIN_BODY_MAX_BYTES);
    fg_conf_write_value(field, &defaults->values, &shared);
    same = fg_slice_eq(fg_buf_slice(&shared), value);
    fg_buf_done(&shared);
    return same ? "settings" : "tenants_file";
}

/* Writes how much of a limit is used, in the unit of its value. Writes nothing for a limit whose
 * use is not counted. */
static void put_use(struct fg_json_writer *json, const struct fg_conf_field *field,
                    const struct fg_limits *limits, const struct fg_admin_limit_use *use)
{
    const double mib = 1024 * 1024;

    if (!use->known)
        return;
    if (strcmp(field->key, "ingestion_rate_mb") == 0 && limits->values.ingestion_rate_mb > 0)
        fg_json_put_fixed(json, "used", use->bytes_per_s / mib, 3);
    if (strcmp(field->key, "max_series_per_tenant") == 0)
        fg_json_put_u64(json, "used", use->series);
    if (strcmp(field->key, "ingestion_limit") == 0 && limits->quota.bytes > 0) {
        fg_json_put_fixed(json, "used", (double)use->stored.bytes / mib, 3);
        fg_json_put_i64(json, "resetMs", use->stored.span.end_s * 1000);
    }
    if (strcmp(field->key, "query_bytes_per_hour") == 0 &&
        limits->values.query_bytes_per_hour > 0) {
        fg_json_put_u64(json, "used", use->read.bytes);
        fg_json_put_i64(json, "resetMs", use->read.span.end_s * 1000);
    }
}

static void put_limits(struct fg_json_writer *json, const struct fg_admin_call *call,
                       const Access__Tenant *tenant, const struct fg_limits *limits,
                       const struct fg_limits *defaults)
{
    const int64_t now_s = call->now_ms / 1000;
    struct fg_admin_limit_use use = {
        .stored.span = fg_quota_span(limits->quota.period, now_s),
        .read.span = fg_quota_span(FG_QUOTA_HOUR, now_s),
    };

    /* Once for all limits: this may ask other processes and wait for them. */
    if (call->api->use != NULL)
        call->api->use(call->api->use_arg, call->id, &use);

    fg_json_begin_object(json, NULL);
    for (size_t i = 0; i < fg_limit_n_fields; i++) {
        const struct fg_conf_field *field = &fg_limit_fields[i];
        struct fg_buf value;

        fg_buf_init(&value, FG_ADMIN_BODY_MAX_BYTES);
        fg_conf_write_value(field, &limits->values, &value);
        fg_json_begin_object(json, field->key);
        fg_json_put_text(json, "value", fg_trim(fg_buf_slice(&value)));
        fg_json_put_cstr(json, "source", source_of(field, tenant, fg_buf_slice(&value), defaults));
        fg_json_put_cstr(json, "meaning", field->doc);
        put_use(json, field, limits, &use);
        fg_json_end(json);
        fg_buf_done(&value);
    }
    fg_json_end(json);
}

enum fg_code fg_admin_get_limits(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Tenant *tenant;
    struct fg_limits *limits, *defaults;

    if (find_tenant(call, &tenant, err) != FG_OK)
        return err->code;
    limits = fg_tenants_limits(call->api->tenants, call->id);
    defaults = fg_tenants_defaults(call->api->tenants);
    put_limits(&json, call, tenant, limits, defaults);
    fg_limits_unref(defaults);
    fg_limits_unref(limits);
    return FG_OK;
}

/* {"max_query_length": "7d", "shard_factor": 2, "max_query_bytes": null}: null removes a limit. */
struct limits_edit {
    const struct fg_admin_call *call;
    const struct fg_conf_field *fields[LIMITS_MAX];
    const char *values[LIMITS_MAX]; /* "": to be removed */
    size_t n;
};

static const struct fg_conf_field *limit_of(struct fg_slice name)
{
    for (size_t i = 0; i < fg_limit_n_fields; i++)
        if (fg_slice_is(name, fg_limit_fields[i].key))
            return &fg_limit_fields[i];
    return NULL;
}

/* Most names that are none are typos of one. */
static enum fg_code fail_unknown(struct fg_slice name, struct fg_err *err)
{
    const char *known[LIMITS_MAX], *nearest;
    size_t n = FG_MIN(fg_limit_n_fields, (size_t)LIMITS_MAX);

    name = fg_slice_sub(name, 0, FG_ADMIN_WHO_MAX_BYTES);
    for (size_t i = 0; i < n; i++)
        known[i] = fg_limit_fields[i].key;
    nearest = fg_nearest(name, known, n);
    return fg_fail(err, FG_E_INVALID, "there is no limit \"%.*s\"%s%s%s", FG_S(name),
                   nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "?");
}

static bool read_value(struct fg_json *json, struct fg_arena *arena, const char **ret_value)
{
    switch (fg_json_next(json)) {
    case FG_JSON_STRING:
        *ret_value = fg_arena_text(arena, fg_json_text(json, arena));
        break;
    case FG_JSON_NUMBER:
        *ret_value = fg_arena_text(arena, json->text);
        break;
    case FG_JSON_TRUE:
        *ret_value = "true";
        break;
    case FG_JSON_FALSE:
        *ret_value = "false";
        break;
    case FG_JSON_NULL:
        *ret_value = "";
        break;
    default:
        return false;
    }
    return *ret_value != NULL;
}

/* Reads the members one by one, since no message has them: their names are those of the settings,
 * and a value may be of any simple type. */
static enum fg_code read_limits(struct fg_admin_call *call, struct limits_edit *edit,
                                struct fg_err *err)
{
    struct fg_json json = fg_json(fg_http_body(call->req));
    enum fg_json_token token;

    if (fg_json_next(&json) != FG_JSON_OBJECT)
        return fg_json_fail(&json, "expected an object", err);
    while ((token = fg_json_next(&json)) == FG_JSON_KEY) {
        struct fg_slice name = fg_json_text(&json, call->arena);
        const struct fg_conf_field *field = limit_of(name);

        if (field == NULL)
            return fail_unknown(name, err);
        if (edit->n == LIMITS_MAX)
            return fg_fail(err, FG_E_INVALID, "more than %d limits", LIMITS_MAX);
        edit->fields[edit->n] = field;
        if (!read_value(&json, call->arena, &edit->values[edit->n++]))
            return fg_json_fail(&json, "expected a string, a number, true, false or null", err);
    }
    if (token != FG_JSON_OBJECT_END || fg_json_next(&json) != FG_JSON_END)
        return fg_json_fail(&json, "expected a limit", err);
    return FG_OK;
}

static enum fg_code edit_limits(void *arg, const struct fg_access_change *change,
                                struct fg_err *err)
{
    const struct limits_edit *edit = arg;
    const Access__Tenant *tenant;
    struct fg_buf yaml;
    enum fg_code code = FG_OK;

    /* On a copy of the registry that is stored only if all limits are valid, so a request is never
     * carried out in part. */
    for (size_t i = 0; i < edit->n; i++)
        if (fg_access_set_limit(change, edit->call->id, edit->fields[i]->key, edit->values[i],
                                err) != FG_OK)
            return err->code;
    /* All together, since limits may contradict each other. */
    fg_buf_init(&yaml, FG_ADMIN_BODY_MAX_BYTES);
    tenant = fg_access_changed_tenant(change, edit->call->id);
    if (tenant != NULL)
        fg_access_limits_yaml(tenant, &yaml);
    if (yaml.full)
        code = fg_fail(err, FG_E_LIMIT, "the limits of a tenant exceed 1 MiB");
    else if (yaml.len > 0)
        code = fg_tenants_check_override(edit->call->api->tenants, fg_buf_slice(&yaml), err);
    fg_buf_done(&yaml);
    return code;
}

enum fg_code fg_admin_set_limits(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    struct limits_edit edit = {.call = call};

    if (fg_admin_need_admin(call, "change limits", err) != FG_OK ||
        read_limits(call, &edit, err) != FG_OK ||
        fg_admin_swap(call, edit_limits, &edit, err) != FG_OK)
        return err->code;
    fg_log_info("limits of a tenant changed", fg_lb("tenant", call->id), fg_ls("by", call->who));
    fg_json_begin_object(&json, NULL);
    fg_json_put_text(&json, "id", call->id);
    fg_json_end(&json);
    return FG_OK;
}
