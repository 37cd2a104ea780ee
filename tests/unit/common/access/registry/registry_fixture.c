#include "tests/unit/common/access/registry/registry_fixture.h"

#include "common/net/pbjson.h"

int registry_set_up(void **state)
{
    struct registry_fixture *f = fg_new(struct registry_fixture);

    f->arena = fg_arena_create(256 << 20);
    access_make_init(&f->make, f->arena, NOW_MS);
    *state = f;
    return 0;
}

int registry_tear_down(void **state)
{
    struct registry_fixture *f = *state;

    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

void registry_add_tenant(struct registry_fixture *f, const char *id)
{
    access_make_tenant(&f->make, id, ACCESS__TENANT__STATE__ACTIVE);
}

char *registry_text(struct registry_fixture *f, const char *text)
{
    return fg_arena_text(f->arena, fg_cstr(text));
}

enum fg_code registry_load(struct registry_fixture *f)
{
    struct fg_arena *arena = fg_arena_create(64 << 20);
    struct fg_access_registry *registry = NULL;
    ProtobufCMessage *copied;
    struct fg_buf bytes;

    fg_buf_init(&bytes, 32 << 20);
    fg_pb_write(&f->make.message.base, &bytes);
    fg_assert(fg_pb_read(fg_arena_copy(arena, fg_buf_slice(&bytes)), &access__registry__descriptor,
                         arena, &copied, &f->err) == FG_OK);
    fg_buf_done(&bytes);
    if (fg_access_registry_create((Access__Registry *)copied, arena, &registry, &f->err) != FG_OK)
        return f->err.code;
    fg_access_registry_unref(registry);
    return FG_OK;
}
