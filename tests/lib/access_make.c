#include "tests/lib/access_make.h"

#include "common/access/registry/tenant_deletion.h"
#include "common/base/crc32c.h"
#include "common/base/str.h"
#include "common/net/pbjson.h"

enum { NAMES_MAX = 8, ARENA_MAX_BYTES = 64 * 1024 * 1024, OBJECT_MAX_BYTES = 32 * 1024 * 1024 };

void access_make_init(struct access_make *make, struct fg_arena *arena, int64_t now_ms)
{
    access__registry__init(&make->message);
    make->change = (struct fg_access_change){
        .registry = &make->message, .arena = arena, .by = "test", .now_ms = now_ms};
}

void access_make_tenant(struct access_make *make, const char *id, Access__Tenant__State state)
{
    struct fg_err err;

    fg_assert(fg_access_create_tenant(&make->change, fg_cstr(id), &err) == FG_OK);
    switch (state) {
    case ACCESS__TENANT__STATE__ACTIVE:
        break;
    case ACCESS__TENANT__STATE__DELETING:
        fg_assert(fg_access_delete_tenant(&make->change, fg_cstr(id), &err) == FG_OK);
        break;
    default:
        make->message.tenants[make->message.n_tenants - 1]->state = state;
    }
}

struct fg_token access_make_secret(uint32_t seed, const char *id, char ret_text[FG_TOKEN_CHARS + 1])
{
    uint8_t random[FG_TOKEN_RANDOM_BYTES];
    uint32_t state = seed;
    struct fg_token token;

    for (size_t i = 0; i < sizeof random; i++) {
        state = state * 1664525 + 1013904223;
        random[i] = (uint8_t)(state >> 24);
    }
    fg_assert(fg_token_make(random, id, ret_text, &token));
    return token;
}

void access_make_token(struct access_make *make, const struct access_token *wanted,
                       char ret_text[FG_TOKEN_CHARS + 1])
{
    struct fg_token made = access_make_secret(wanted->seed, NULL, ret_text);
    Access__Token token;
    Access__Secret secret = ACCESS__SECRET__INIT, *secrets[] = {&secret};
    struct fg_slice rest = fg_cstr(wanted->tenants);
    char *tenants[NAMES_MAX], name[] = "test";
    struct fg_err err;

    access__token__init(&token);
    secret.sha256 = (ProtobufCBinaryData){FG_TOKEN_HASH_BYTES, made.hash};
    token.id = made.id;
    token.name = name;
    token.tenants = tenants;
    while (rest.len > 0) {
        size_t comma = FG_MIN(fg_slice_find(rest, ','), rest.len);

        fg_assert(token.n_tenants < NAMES_MAX);
        tenants[token.n_tenants++] =
            fg_arena_text(make->change.arena, fg_slice_sub(rest, 0, comma));
        rest = fg_slice_sub(rest, comma + 1, SIZE_MAX);
    }
    if (wanted->name != NULL)
        token.name = fg_arena_text(make->change.arena, fg_cstr(wanted->name));
    if (wanted->matchers != NULL)
        token.matchers = fg_arena_text(make->change.arena, fg_cstr(wanted->matchers));
    token.scopes = wanted->scopes;
    token.not_before_ms = wanted->not_before_ms;
    token.expires_ms = wanted->expires_ms;
    token.n_secrets = 1;
    token.secrets = secrets;
    fg_assert(fg_access_create_token(&make->change, &token, &err) == FG_OK);
}

void access_make_object(const Access__Registry *message, struct fg_buf *out)
{
    struct fg_buf bytes;

    fg_buf_init(&bytes, OBJECT_MAX_BYTES);
    fg_pb_write(&message->base, &bytes);
    fg_buf_le32(out, fg_crc32c(fg_buf_slice(&bytes)));
    fg_buf_put(out, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

struct fg_access_registry *access_make_registry(const Access__Registry *message)
{
    struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct fg_access_registry *registry;
    ProtobufCMessage *copied;
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, OBJECT_MAX_BYTES);
    fg_pb_write(&message->base, &bytes);
    fg_assert(fg_pb_read(fg_arena_copy(arena, fg_buf_slice(&bytes)), &access__registry__descriptor,
                         arena, &copied, &err) == FG_OK);
    fg_buf_done(&bytes);
    fg_assert(fg_access_registry_create((Access__Registry *)copied, arena, &registry, &err) ==
              FG_OK);
    return registry;
}
