#include "common/access/admin/admin_api_impl.h"
#include "common/access/people/people_change.h"
#include "common/runtime/log.h"

/* ---- bindings ---- */

/* A pattern may become other tenants than those that are meant today, so it is for admins. */
static bool governs_binding(const struct fg_admin_call *call, const Access__Binding *binding)
{
    return fg_admin_is_admin(call) ||
           (strpbrk(binding->tenants, "*{") == NULL && fg_admin_governs(call, binding->tenants));
}

static void put_binding(struct fg_json_writer *json, const Access__Binding *binding)
{
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "id", binding->id);
    fg_json_put_cstr(json, "issuer", binding->issuer);
    fg_json_put_cstr(json, "claim", binding->claim);
    fg_json_put_cstr(json, "value", binding->value);
    fg_json_put_cstr(json, "tenants", binding->tenants);
    fg_json_put_cstr(json, "role", binding->role);
    fg_json_put_i64(json, "createdMs", binding->created_ms);
    fg_json_put_cstr(json, "createdBy", binding->created_by);
    fg_json_end(json);
}

enum fg_code fg_admin_list_bindings(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Registry *message = call->registry->message;

    (void)err;
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "bindings");
    for (size_t i = 0; i < message->n_bindings; i++)
        if (governs_binding(call, message->bindings[i]))
            put_binding(&json, message->bindings[i]);
    fg_json_end(&json);
    fg_json_end(&json);
    return FG_OK;
}

static enum fg_code edit_bind(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    return fg_access_bind(change, arg, err);
}

enum fg_code fg_admin_create_binding(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__CreateBinding *wanted;
    char id[FG_BINDING_ID_CHARS + 1];
    ProtobufCMessage *body;
    Access__Binding binding;

    if (fg_admin_read_body(call, &access__create_binding__descriptor, &body, err) != FG_OK)
        return err->code;
    wanted = (const Access__CreateBinding *)body;
    access__binding__init(&binding);
    binding.issuer = wanted->issuer;
    binding.claim = wanted->claim;
    binding.value = wanted->value;
    binding.tenants = wanted->tenants;
    binding.role = wanted->role;
    if (!fg_access_has_issuer(call->api->access, fg_cstr(binding.issuer)))
        return fg_fail(err, FG_E_INVALID, "issuer \"%.200s\" is not in the setting access.issuers",
                       binding.issuer);
    if (!governs_binding(call, &binding))
        return fg_admin_denied(call, "create such a binding", err);
    if (fg_admin_swap(call, edit_bind, &binding, err) != FG_OK)
        return err->code;
    fg_binding_id(&binding, id);
    binding.id = id;
    binding.created_ms = call->now_ms;
    binding.created_by = call->who;
    fg_log_info("binding created", fg_ls("binding", id), fg_ls("tenants", binding.tenants),
                fg_ls("role", binding.role), fg_ls("by", call->who));
    put_binding(&json, &binding);
    call->made = fg_arena_copy(call->arena, fg_cstr(id));
    return FG_OK;
}

static enum fg_code edit_unbind(void *arg, const struct fg_access_change *change,
                                struct fg_err *err)
{
    const struct fg_admin_call *call = arg;

    return fg_access_unbind(change, call->id, err);
}

enum fg_code fg_admin_delete_binding(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    const Access__Registry *message = call->registry->message;
    bool governed = false;

    for (size_t i = 0; i < message->n_bindings; i++)
        governed |= fg_slice_is(call->id, message->bindings[i]->id) &&
                    governs_binding(call, message->bindings[i]);
    /* A caller that may not see it does not learn whether it is there. */
    if (!governed)
        return fg_fail(err, FG_E_NOT_FOUND, "there is no binding \"%.*s\"",
                       FG_S(fg_slice_sub(call->id, 0, FG_BINDING_ID_CHARS)));
    if (fg_admin_swap(call, edit_unbind, call, err) != FG_OK)
        return err->code;
    fg_log_info("binding deleted", fg_lb("binding", call->id), fg_ls("by", call->who));
    fg_json_begin_object(&json, NULL);
    fg_json_put_text(&json, "id", call->id);
    fg_json_end(&json);
    return FG_OK;
}

/* ---- sessions ---- */

static enum fg_code edit_revoke(void *arg, const struct fg_access_change *change,
                                struct fg_err *err)
{
    return fg_access_revoke_sessions(change, fg_cstr(arg), err);
}

enum fg_code fg_admin_revoke_sessions(struct fg_admin_call *call, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&call->body);
    ProtobufCMessage *body;
    char *subject;

    if (fg_admin_need_admin(call, "end sessions", err) != FG_OK ||
        fg_admin_read_body(call, &access__revoke_sessions__descriptor, &body, err) != FG_OK)
        return err->code;
    subject = ((Access__RevokeSessions *)body)->subject;
    if (fg_admin_swap(call, edit_revoke, subject, err) != FG_OK)
        return err->code;
    fg_log_info("sessions ended", fg_ls("subject", subject), fg_ls("by", call->who));
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "subject", subject);
    fg_json_put_i64(&json, "beforeMs", call->now_ms);
    fg_json_end(&json);
    return FG_OK;
}
