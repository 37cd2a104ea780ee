#include "common/access/people/people_change.h"

#include "common/access/people/sealed_cookie.h"
#include "common/access/registry/bindings.h"
#include "common/base/hash.h"

enum { BINDINGS_RESERVED = 256 }; /* for those who govern all tenants */

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the registry of access is too large");
}

/* ---- bindings ---- */

void fg_binding_id(const Access__Binding *binding, char out[FG_BINDING_ID_CHARS + 1])
{
    const char *const texts[] = {binding->issuer, binding->claim, binding->value, binding->tenants,
                                 binding->role};
    uint64_t id = 0;

    for (size_t i = 0; i < FG_COUNT(texts); i++)
        id = fg_mix64(id ^ fg_hash64(fg_cstr(texts[i])));
    (void)snprintf(out, FG_BINDING_ID_CHARS + 1, "%016llx", (unsigned long long)id);
}

static Access__Binding *make_binding(const struct fg_access_change *change,
                                     const Access__Binding *wanted, const char *id)
{
    Access__Binding *binding = fg_arena_new(change->arena, Access__Binding, 1);

    if (binding == NULL)
        return NULL;
    access__binding__init(binding);
    binding->id = fg_arena_text(change->arena, fg_cstr(id));
    binding->issuer = fg_arena_text(change->arena, fg_cstr(wanted->issuer));
    binding->claim = fg_arena_text(change->arena, fg_cstr(wanted->claim));
    binding->value = fg_arena_text(change->arena, fg_cstr(wanted->value));
    binding->tenants = fg_arena_text(change->arena, fg_cstr(wanted->tenants));
    binding->role = fg_arena_text(change->arena, fg_cstr(wanted->role));
    binding->created_ms = change->now_ms;
    binding->created_by = fg_arena_text(change->arena, fg_cstr(change->by));
    return binding->id == NULL || binding->issuer == NULL || binding->claim == NULL ||
                   binding->value == NULL || binding->tenants == NULL || binding->role == NULL ||
                   binding->created_by == NULL
               ? NULL
               : binding;
}

static size_t place_of(const Access__Registry *registry, struct fg_slice id)
{
    size_t at = 0;

    while (at < registry->n_bindings && !fg_slice_is(id, registry->bindings[at]->id))
        at++;
    return at;
}

enum fg_code fg_access_bind(const struct fg_access_change *change, const Access__Binding *wanted,
                            struct fg_err *err)
{
    const struct fg_binding checked = {fg_cstr(wanted->issuer), fg_cstr(wanted->claim),
                                       fg_cstr(wanted->value), fg_cstr(wanted->tenants),
                                       fg_role_scopes(fg_cstr(wanted->role))};
    Access__Registry *registry = change->registry;
    Access__Binding **grown, *binding;
    const size_t max = FG_BINDINGS_MAX - (change->bounded ? BINDINGS_RESERVED : 0);
    char id[FG_BINDING_ID_CHARS + 1];

    if (fg_binding_check(&checked, err) != FG_OK)
        return err->code;
    if (checked.issuer.len + checked.claim.len + checked.value.len + checked.tenants.len >
        FG_BINDING_TEXTS_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "the texts of a binding have at most %d bytes",
                       FG_BINDING_TEXTS_MAX_BYTES);
    fg_binding_id(wanted, id);
    if (place_of(registry, fg_cstr(id)) < registry->n_bindings)
        return FG_OK;
    if (registry->n_bindings >= max)
        return fg_fail(err, FG_E_LIMIT, "there are %zu bindings, no more are possible", max);
    binding = make_binding(change, wanted, id);
    grown = fg_arena_new(change->arena, Access__Binding *, registry->n_bindings + 1);
    if (binding == NULL || grown == NULL)
        return no_memory(err);

    const size_t bytes = protobuf_c_message_get_packed_size(&binding->base);

    if (fg_access_check_share(change, binding->tenants, 0, 1, bytes, err) != FG_OK ||
        fg_access_make_room(change, bytes, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < registry->n_bindings; i++)
        grown[i] = registry->bindings[i];
    grown[registry->n_bindings++] = binding;
    registry->bindings = grown;
    return FG_OK;
}

enum fg_code fg_access_unbind(const struct fg_access_change *change, struct fg_slice id,
                              struct fg_err *err)
{
    Access__Registry *registry = change->registry;
    size_t at = place_of(registry, id);

    if (at == registry->n_bindings)
        return fg_fail(err, FG_E_NOT_FOUND, "there is no binding \"%.*s\"",
                       FG_S(fg_slice_sub(id, 0, FG_ACCESS_NAME_MAX_BYTES)));
    registry->n_bindings--;
    for (size_t i = at; i < registry->n_bindings; i++)
        registry->bindings[i] = registry->bindings[i + 1];
    return FG_OK;
}

/* ---- sessions ---- */

/* Forgets those that have ended by themselves, and those of the subject. */
static void forget(const struct fg_access_change *change, struct fg_slice subject)
{
    Access__Registry *registry = change->registry;
    int64_t over_ms = change->now_ms - (int64_t)FG_SESSION_MAX_S * 1000;
    size_t kept = 0;

    for (size_t i = 0; i < registry->n_revoked_sessions; i++) {
        Access__RevokedSession *revoked = registry->revoked_sessions[i];

        if (revoked->before_ms > over_ms && !fg_slice_is(subject, revoked->subject))
            registry->revoked_sessions[kept++] = revoked;
    }
    registry->n_revoked_sessions = kept;
}

enum fg_code fg_access_revoke_sessions(const struct fg_access_change *change,
                                       struct fg_slice subject, struct fg_err *err)
{
    Access__Registry *registry = change->registry;
    Access__RevokedSession **grown, *revoked;

    if (subject.len == 0 || subject.len > FG_SUBJECT_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "subject has to have 1 to %d bytes",
                       FG_SUBJECT_MAX_BYTES);
    forget(change, subject);
    if (registry->n_revoked_sessions >= FG_REVOKED_SESSIONS_MAX)
        return fg_fail(err, FG_E_LIMIT, "the sessions of %d people were ended within a day",
                       FG_REVOKED_SESSIONS_MAX);
    revoked = fg_arena_new(change->arena, Access__RevokedSession, 1);
    grown = fg_arena_new(change->arena, Access__RevokedSession *, registry->n_revoked_sessions + 1);
    if (revoked == NULL || grown == NULL)
        return no_memory(err);
    access__revoked_session__init(revoked);
    revoked->subject = fg_arena_text(change->arena, subject);
    revoked->before_ms = change->now_ms;
    if (revoked->subject == NULL)
        return no_memory(err);
    for (size_t i = 0; i < registry->n_revoked_sessions; i++)
        grown[i] = registry->revoked_sessions[i];
    grown[registry->n_revoked_sessions++] = revoked;
    registry->revoked_sessions = grown;
    return FG_OK;
}
