#include "common/access/registry/token_uses_object.h"

#include "common/storage/bucket/message_object.h"

enum { OBJECT_MAX_BYTES = 4 * 1024 * 1024 }; /* 65,536 tokens, as the registry has, take 1.2 MB */

static struct fg_message_object object_of(struct fg_bucket *bucket, struct fg_arena *arena,
                                          int64_t deadline_mono_ns)
{
    return (struct fg_message_object){.bucket = bucket,
                                      .name = FG_TOKEN_USES_NAME,
                                      .what = "the uses of tokens",
                                      .type = &access__token_uses__descriptor,
                                      .max_bytes = OBJECT_MAX_BYTES,
                                      .arena = arena,
                                      .deadline_mono_ns = deadline_mono_ns};
}

struct uses_writing {
    struct fg_token_uses *uses;
    const struct fg_access_registry *registry;
    int64_t now_ms;
    const Access__TokenUses *message; /* the last version that was written, or found */
};

static enum fg_code change(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                           bool *ret_changed, struct fg_err *err)
{
    struct uses_writing *writing = arg;
    Access__TokenUses *uses = (Access__TokenUses *)message;

    writing->message = uses;
    if (fg_token_uses_check(uses, err) != FG_OK)
        return fg_wrap(err, "%s", FG_TOKEN_USES_NAME);
    return fg_token_uses_merge(writing->uses, writing->registry, writing->now_ms, arena, uses,
                               ret_changed, err);
}

enum fg_code fg_token_uses_write(struct fg_token_uses *uses, struct fg_bucket *bucket,
                                 const struct fg_access_registry *registry, int64_t now_ms,
                                 int64_t deadline_mono_ns, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = NULL;
    struct uses_writing writing = {uses, registry, now_ms, NULL};
    struct fg_message_object object;

    if (!fg_token_uses_are_new(uses))
        return FG_OK;
    arena = fg_arena_create(FG_TOKEN_USES_ARENA_BYTES);
    object = object_of(bucket, arena, deadline_mono_ns);
    if (fg_message_object_swap(&object, change, &writing, err) != FG_OK)
        return err->code;
    fg_token_uses_stored(uses, writing.message);
    return FG_OK;
}

enum fg_code fg_token_uses_read(struct fg_token_uses *uses, struct fg_bucket *bucket,
                                int64_t deadline_mono_ns, struct fg_arena *arena,
                                const Access__TokenUses **ret_uses, struct fg_err *err)
{
    const struct fg_message_object object = object_of(bucket, arena, deadline_mono_ns);
    ProtobufCMessage *message = NULL;
    bool changed;

    if (fg_message_object_read(&object, &message, err) != FG_OK)
        return err->code;
    if (fg_token_uses_check((Access__TokenUses *)message, err) != FG_OK)
        return fg_wrap(err, "%s", FG_TOKEN_USES_NAME);
    if (fg_token_uses_merge(uses, NULL, 0, arena, (Access__TokenUses *)message, &changed, err) !=
        FG_OK)
        return err->code;
    *ret_uses = (Access__TokenUses *)message;
    return FG_OK;
}
