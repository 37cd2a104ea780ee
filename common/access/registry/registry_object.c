#include "common/access/registry/registry_object.h"

struct fg_message_object fg_access_object(struct fg_bucket *bucket, struct fg_arena *arena,
                                          int64_t deadline_mono_ns)
{
    return (struct fg_message_object){.bucket = bucket,
                                      .name = FG_ACCESS_REGISTRY_NAME,
                                      .what = "tenants and tokens",
                                      .type = &access__registry__descriptor,
                                      .max_bytes = FG_ACCESS_REGISTRY_MAX_BYTES,
                                      .arena = arena,
                                      .deadline_mono_ns = deadline_mono_ns};
}

enum fg_code fg_access_read(struct fg_bucket *bucket, int64_t deadline_mono_ns,
                            struct fg_access_registry **ret_registry, struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(FG_ACCESS_ARENA_MAX_BYTES);
    const struct fg_message_object object = fg_access_object(bucket, arena, deadline_mono_ns);
    ProtobufCMessage *message = NULL;

    if (fg_message_object_read(&object, &message, err) != FG_OK) {
        fg_arena_destroy(arena);
        return err->code;
    }
    return fg_access_registry_create((const Access__Registry *)message, arena, ret_registry, err);
}

struct swapping {
    const struct fg_access_writer *writer;
    fg_access_edit edit;
    void *arg;
};

static enum fg_code change_message(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                                   bool *ret_changed, struct fg_err *err)
{
    const struct swapping *swapping = arg;
    const struct fg_access_writer *writer = swapping->writer;
    Access__Registry *registry = (Access__Registry *)message;
    const struct fg_access_change change = {registry, arena, writer->by, writer->now_ms,
                                            writer->bounded};

    /* Without an object the message is empty, and one that is stored has a generation. */
    if (fg_access_check_generation(registry->generation, writer->known, err) != FG_OK ||
        swapping->edit(swapping->arg, &change, err) != FG_OK)
        return err->code;
    /* To revoke, suspend or delete adds a little, and must not fail because of what has ended. */
    fg_access_fit(&change);
    registry->generation++;
    *ret_changed = true;
    return FG_OK;
}

enum fg_code fg_access_swap(const struct fg_access_writer *writer, fg_access_edit edit, void *arg,
                            struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(FG_ACCESS_ARENA_MAX_BYTES);
    struct fg_message_object object =
        fg_access_object(writer->bucket, arena, writer->deadline_mono_ns);
    struct swapping swapping = {writer, edit, arg};
    enum fg_code code = fg_message_object_swap(&object, change_message, &swapping, err);

    fg_arena_destroy(arena);
    return code;
}
