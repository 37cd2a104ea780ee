#include "tests/sim/shells/objects.h"

#include "common/base/str.h"
#include "tests/lib/committed.h"
#include "tests/lib/threads.h"
#include "tests/sim/shells/run.h"

#include <stdio.h>

enum { OBJECTS_MAX = 2000 };

/* A segment or block that was read. */
struct qry_object {
    char name[FG_NAME_MAX_BYTES];
    bool holds[PROFILES_MAX];
};

struct qry_objects {
    struct fg_bucket *bucket;
    const char *tenant, *type;
    struct qry_object *items[OBJECTS_MAX];
    uint32_t n;
};

struct qry_objects *objects_create(struct fg_bucket *bucket, const char *tenant, const char *type)
{
    struct qry_objects *objects = fg_new(struct qry_objects);

    objects->bucket = bucket;
    objects->tenant = tenant;
    objects->type = type;
    return objects;
}

void objects_count_lines(struct fg_slice text, uint8_t *found)
{
    while (text.len > 0) {
        size_t end = fg_slice_find(text, '\n'), space = fg_slice_find(text, ' ');
        uint64_t n, value;

        if (space < 2 || !fg_parse_u64(fg_slice_sub(text, 1, space - 1), &n) ||
            !fg_parse_u64(fg_slice_sub(text, space + 1, end - space - 1), &value) ||
            n >= PROFILES_MAX)
            run_fault("an answer has the line %.*s", (int)end, (const char *)text.ptr);
        found[n] = (uint8_t)FG_MIN(found[n] + value, 255);
        text = fg_slice_sub(text, end + 1, SIZE_MAX);
    }
}

static const struct qry_object *find_object(struct qry_objects *objects, const char *name)
{
    uint8_t found[PROFILES_MAX] = {0};
    struct qry_object *object;
    struct fg_buf lines;

    for (uint32_t i = 0; i < objects->n; i++)
        if (strcmp(objects->items[i]->name, name) == 0)
            return objects->items[i];
    fg_buf_init(&lines, SIZE_MAX);
    committed_read_object(objects->bucket, name, objects->tenant, objects->type, &lines);
    objects_count_lines(fg_buf_slice(&lines), found);
    fg_buf_done(&lines);
    object = fg_new(struct qry_object);
    (void)snprintf(object->name, sizeof object->name, "%s", name);
    for (uint32_t i = 0; i < PROFILES_MAX; i++) {
        if (found[i] > 1)
            run_fault("p%u is %u times in %s", i, found[i], name);
        object->holds[i] = found[i] == 1;
    }
    fg_assert(objects->n < OBJECTS_MAX);
    objects->items[objects->n++] = object;
    return object;
}

static void add_object(struct qry_objects *objects, const char *name, uint8_t *found)
{
    const struct qry_object *object = find_object(objects, name);

    for (uint32_t p = 0; p < PROFILES_MAX; p++)
        found[p] = (uint8_t)(found[p] + object->holds[p]);
}

struct snapshot objects_snapshot(const struct qry_objects *objects)
{
    struct snapshot snapshot;

    threads_pin();
    snapshot.l0 = committed_manifest(objects->bucket);
    snapshot.blocks = committed_blocks(objects->bucket, objects->tenant);
    threads_unpin();
    return snapshot;
}

uint64_t objects_read(struct qry_objects *objects, struct snapshot *snapshot, uint8_t *found)
{
    const struct fg_l0 *l0 = &snapshot->l0->l0;
    const struct fg_blocks *blocks = &snapshot->blocks->blocks;
    uint64_t generation = l0->generation;
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    threads_pin();
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        fg_name_segment(name, &l0->segments[i].id);
        if (!fg_blocks_covers(blocks, l0->segments[i].generation))
            add_object(objects, name, found);
    }
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        fg_assert(fg_name_block(name, blocks->tenant, blocks->blocks[i].id, &err) == FG_OK);
        if (!blocks->blocks[i].derived)
            add_object(objects, name, found);
    }
    fg_manifest_unref(snapshot->l0);
    fg_manifest_unref(snapshot->blocks);
    threads_unpin();
    return generation;
}

uint64_t objects_read_now(struct qry_objects *objects, uint8_t *found)
{
    struct snapshot snapshot = objects_snapshot(objects);

    return objects_read(objects, &snapshot, found);
}

uint32_t objects_count(const struct qry_objects *objects)
{
    return objects->n;
}
