/*
 * The message of the registry of access. What is accepted is found again, and is accepted again
 * after changes: nobody can be made to store what locks all out.
 */
#include "common/access/people/people_change.h"
#include "common/access/registry/registry.h"
#include "common/access/registry/tenant_deletion.h"
#include "common/net/guard.h"
#include "common/net/pbjson.h"
#include "tests/lib/access_make.h"

/* NULL: it was refused. */
static struct fg_access_registry *create(struct fg_slice bytes, enum fg_code *ret_code)
{
    struct fg_arena *arena = fg_arena_create(32 << 20);
    struct fg_access_registry *registry = NULL;
    ProtobufCMessage *message;
    struct fg_err err;

    *ret_code = fg_pb_read(bytes, &access__registry__descriptor, arena, &message, &err);
    if (*ret_code != FG_OK) {
        fg_arena_destroy(arena);
        return NULL;
    }
    *ret_code =
        fg_access_registry_create((const Access__Registry *)message, arena, &registry, &err);
    fg_assert(*ret_code == FG_OK || *ret_code == FG_E_CORRUPT || *ret_code == FG_E_LIMIT);
    return registry;
}

static void look_up(const struct fg_access_registry *registry)
{
    const Access__Registry *message = registry->message;
    uint32_t at;

    for (size_t i = 0; i < message->n_tenants; i++)
        fg_assert(fg_access_find_tenant(registry, fg_cstr(message->tenants[i]->id)) ==
                  message->tenants[i]);
    for (size_t i = 0; i < message->n_tokens; i++) {
        const Access__Token *token = message->tokens[i];

        fg_assert(fg_access_find_token(registry, fg_cstr(token->id), &at) == token && at == i);
        (void)fg_selector_matches(&registry->matchers[at], &(struct fg_labels){0});
        (void)fg_access_token_is_valid(token, token->secrets[0]->sha256.data, 1);
    }
}

/* One of each. Those that cannot be made fail. */
static void change_all(const struct fg_access_change *change, struct fg_slice input)
{
    const uint8_t hash[FG_TOKEN_HASH_BYTES] = {1};
    const struct fg_access_listed listed = {1, 2, 3, 4};
    Access__Registry *message = change->registry;
    struct fg_buf yaml;
    struct fg_err err;

    (void)!fg_access_create_tenant(change, input, &err);
    (void)!fg_access_create_tenant(change, FG_LIT("new"), &err);
    (void)!fg_access_set_limit(change, FG_LIT("new"), "limit", "1", &err);
    if (message->n_tenants > 0) {
        struct fg_slice id = fg_cstr(message->tenants[0]->id);

        (void)!fg_access_set_limit(change, id, "limit", "2", &err);
        fg_buf_init(&yaml, 1 << 20);
        fg_access_limits_yaml(message->tenants[0], &yaml);
        fg_buf_done(&yaml);
        (void)!fg_access_set_tenant_state(change, id, ACCESS__TENANT__STATE__SUSPENDED, &err);
        (void)!fg_access_delete_tenant(change, id, &err);
        (void)!fg_access_begin_deletion(change, id, &listed, &err);
        (void)!fg_access_end_deletion(change, id, 1, &err);
        (void)!fg_access_create_tenant(change, id, &err);
    }
    if (message->n_tokens > 0) {
        struct fg_slice id = fg_cstr(message->tokens[0]->id);

        (void)!fg_access_create_token(change, message->tokens[0], &err);
        (void)!fg_access_rotate_token(change, id, hash, 1, &err);
        (void)!fg_access_revoke_token(change, id, &err);
    }
    if (message->n_bindings > 0) {
        (void)!fg_access_bind(change, message->bindings[0], &err);
        (void)!fg_access_unbind(change, fg_cstr(message->bindings[0]->id), &err);
    }
    (void)!fg_access_revoke_sessions(change, input, &err);
    (void)fg_access_has_admin(message, change->now_ms);
}

/* What is stored is only replaced by what can be read back (message_object.h). A field of the
 * number 0, which is none, is taken once and not again. */
static bool is_read_back(const ProtobufCMessage *message, bool changed)
{
    struct fg_access_registry *registry;
    struct fg_buf bytes;
    enum fg_code code;

    fg_buf_init(&bytes, 32 << 20);
    fg_pb_write(message, &bytes);
    registry = create(fg_buf_slice(&bytes), &code);
    fg_assert(registry != NULL || code == FG_E_LIMIT || !changed);
    fg_access_registry_unref(registry);
    fg_buf_done(&bytes);
    return registry != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_access_registry *registry;
    struct fg_arena *arena;
    ProtobufCMessage *message;
    enum fg_code code;
    struct fg_err err;

    registry = create(fg_bytes(data, size), &code);
    if (registry == NULL)
        return 0;
    look_up(registry);
    fg_access_registry_unref(registry);

    arena = fg_arena_create(32 << 20);
    fg_assert(fg_pb_read(fg_bytes(data, size), &access__registry__descriptor, arena, &message,
                         &err) == FG_OK);
    if (is_read_back(message, false)) {
        change_all(&(struct fg_access_change){.registry = (Access__Registry *)message,
                                              .arena = arena,
                                              .by = "fuzz",
                                              .now_ms = 1000,
                                              .bounded = true},
                   fg_slice_sub(fg_bytes(data, size), 0, 40));
        (void)is_read_back(message, true);
    }
    fg_arena_destroy(arena);
    return 0;
}
