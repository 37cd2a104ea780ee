#include "tests/sim/world.h"

#include <stdio.h>
#include <stdlib.h>

enum { GET_TRIES = 3 };

static struct object *find(const struct world *world, const char *name)
{
    uint64_t hash = fg_hash64(fg_cstr(name));

    for (uint32_t i = 0; i < world->n_objects; i++)
        if (world->objects[i].hash == hash && fg_slice_is(fg_cstr(world->objects[i].name), name))
            return &world->objects[i];
    return NULL;
}

const struct object *bucket_look(const struct world *world, const char *name)
{
    return find(world, name);
}

/* A request goes out: false where it never arrives. */
static bool arrives(struct world *world, struct owner *owner)
{
    delay(world);
    return !chance(world, world->lose_permille) &&
           (owner->head == NULL || !head_is_without_bucket(owner->head));
}

/* Its answer comes home, or what came of it is not known. */
static enum io come_home(struct world *world, struct owner *owner, enum io answer)
{
    delay(world);
    if (!is_alive(world, owner))
        return IO_DEAD;
    return chance(world, world->lose_permille) ? IO_UNSURE : answer;
}

static enum io get(struct world *world, struct owner *owner, const char *name, const char *etag,
                   struct fg_buf *out, char ret_etag[24])
{
    const struct object *object;
    enum io answer = IO_MISSING;

    fg_buf_clear(out);
    if (!arrives(world, owner))
        return come_home(world, owner, IO_UNSURE);
    object = find(world, name);
    if (object != NULL) {
        memcpy(ret_etag, object->etag, sizeof object->etag);
        answer = fg_slice_is(fg_cstr(ret_etag), etag) ? IO_SAME : IO_OK;
        if (answer == IO_OK)
            fg_buf_append(out, object->bytes, object->len);
    }
    return come_home(world, owner, answer);
}

/* A few times, as a client of a bucket does by itself. */
enum io bucket_get(struct world *world, struct owner *owner, const char *name, const char *etag,
                   struct fg_buf *out, char ret_etag[24])
{
    enum io io = IO_UNSURE;

    for (int i = 0; i < GET_TRIES && io == IO_UNSURE; i++)
        io = get(world, owner, name, etag, out, ret_etag);
    return io;
}

static enum io put(struct world *world, const char *name, struct fg_slice bytes, int condition,
                   const char *etag)
{
    struct object *object = find(world, name);
    const char *there = object == NULL ? "" : object->etag;

    if ((condition == IF_ABSENT && object != NULL) ||
        (condition == IF_MATCH && !fg_slice_is(fg_cstr(there), etag)))
        return IO_REFUSED;
    if (object == NULL) {
        if (world->n_objects == world->cap_objects) {
            world->cap_objects = FG_MAX(64, world->cap_objects * 2);
            world->objects =
                fg_realloc(world->objects, world->cap_objects * sizeof *world->objects);
        }
        object = &world->objects[world->n_objects++];
        *object = (struct object){.name = strdup(name), .hash = fg_hash64(fg_cstr(name))};
    }
    free(object->bytes);
    object->bytes = fg_malloc(bytes.len + 1);
    if (bytes.len > 0)
        memcpy(object->bytes, bytes.ptr, bytes.len);
    trace(world, "bucket: %s is written, %zu bytes", name, bytes.len);
    object->len = bytes.len;
    (void)snprintf(object->etag, sizeof object->etag, "%llu", (unsigned long long)++world->etags);
    object->modified_wall_ns = world_wall_ns(world);
    return IO_OK;
}

/* A put that arrives long after who sent it has given up. */
struct straggler {
    struct world *world;
    char name[FG_NAME_MAX_BYTES], etag[24];
    struct fg_buf bytes;
    int condition;
};

static void straggle(void *arg)
{
    struct straggler *late = arg;

    (void)put(late->world, late->name, fg_buf_slice(&late->bytes), late->condition, late->etag);
    fg_buf_done(&late->bytes);
    free(late);
}

static void send_later(struct world *world, const char *name, struct fg_slice bytes, int condition,
                       const char *etag)
{
    struct straggler *late = fg_new(struct straggler);

    late->world = world;
    (void)snprintf(late->name, sizeof late->name, "%s", name);
    (void)snprintf(late->etag, sizeof late->etag, "%s", etag);
    fg_buf_init(&late->bytes, SIZE_MAX);
    fg_buf_put(&late->bytes, bytes);
    late->condition = condition;
    fibers_spawn(world->fibers, (int64_t)draw(world, (uint64_t)FG_MINUTE_NS), straggle, late);
}

enum io bucket_put(struct world *world, struct owner *owner, const char *name,
                   struct fg_slice bytes, int condition, const char *etag)
{
    if (!arrives(world, owner))
        return come_home(world, owner, IO_UNSURE);
    if (chance(world, world->lose_permille / 2)) {
        send_later(world, name, bytes, condition, etag);
        return come_home(world, owner, IO_UNSURE);
    }
    return come_home(world, owner, put(world, name, bytes, condition, etag));
}

enum io bucket_delete(struct world *world, struct owner *owner, const char *name)
{
    struct object *object;

    if (!arrives(world, owner))
        return come_home(world, owner, IO_UNSURE);
    object = find(world, name);
    if (object != NULL) {
        free(object->name);
        free(object->bytes);
        *object = world->objects[--world->n_objects];
        world->deleted++;
    }
    return come_home(world, owner, IO_OK);
}
