/* The message that says when tokens were used last: what is taken is merged into, and is taken
 * again. */
#include "common/access/registry/token_uses.h"
#include "common/net/guard.h"
#include "common/net/pbjson.h"
#include "tests/lib/access_make.h"

enum { TOKENS = 3 };

static const int64_t NOW_MS = INT64_C(1700000000000);

static struct fg_access_registry *make_registry(struct fg_arena *arena)
{
    struct access_make make;
    char text[FG_TOKEN_CHARS + 1];

    access_make_init(&make, arena, NOW_MS);
    for (uint32_t i = 0; i < TOKENS; i++)
        access_make_token(
            &make, &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = i},
            text);
    return access_make_registry(&make.message);
}

static void merge(Access__TokenUses *message, struct fg_arena *arena)
{
    struct fg_token_uses *uses = fg_token_uses_create(NOW_MS);
    struct fg_access_registry *registry = make_registry(arena);
    struct fg_err err;
    bool changed;

    fg_assert(fg_token_uses_bind(uses, registry, &err) == FG_OK);
    for (size_t i = 0; i < TOKENS; i++)
        fg_token_use_note(registry->uses[i], NOW_MS);
    fg_assert(fg_token_uses_merge(uses, registry, NOW_MS, arena, message, &changed, &err) == FG_OK);
    fg_assert(fg_token_uses_check(message, &err) == FG_OK);
    for (size_t i = 0; i < TOKENS; i++)
        fg_assert(fg_token_uses_last_ms(message, registry->message->tokens[i]->id) >=
                  NOW_MS - FG_TOKEN_USE_PRECISION_MS);
    fg_token_uses_stored(uses, message);
    fg_assert(!fg_token_uses_are_new(uses));
    fg_assert(fg_token_uses_merge(uses, registry, NOW_MS, arena, message, &changed, &err) ==
                  FG_OK &&
              !changed);
    fg_access_registry_unref(registry);
    fg_token_uses_destroy(uses);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fg_auto(fg_arena) *arena = fg_arena_create(32 << 20);
    ProtobufCMessage *message;
    struct fg_err err;

    if (fg_pb_read(fg_bytes(data, size), &access__token_uses__descriptor, arena, &message, &err) !=
        FG_OK)
        return 0;
    if (fg_token_uses_check((Access__TokenUses *)message, &err) == FG_OK)
        merge((Access__TokenUses *)message, arena);
    else
        fg_assert(err.code == FG_E_CORRUPT);
    return 0;
}
