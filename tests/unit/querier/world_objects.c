#include "tests/unit/querier/world.h"

#include <stdlib.h>
#include <string.h>

static bool note_object(const struct fg_bucket_entry *entry, void *arg)
{
    struct world_objects *list = arg;

    fg_assert(list->n < FG_COUNT(list->names));
    list->names[list->n++] = strdup(entry->name);
    return true;
}

void world_objects_list(struct world *world, const char *prefix, struct world_objects *list)
{
    struct fg_err err;

    fg_assert(fg_bucket_each(world->bucket, prefix, false, 0, note_object, list, &err) == FG_OK);
}

void world_objects_free(struct world_objects *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
}
