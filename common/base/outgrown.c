#include "common/base/outgrown.h"

struct fg_outgrown_array {
    struct fg_outgrown_array *next;
    void *array;
};

void *fg_outgrow(struct fg_outgrown *outgrown, void *array, size_t used_bytes, size_t new_bytes)
{
    struct fg_outgrown_array *old;
    void *grown;

    fg_assert(used_bytes <= new_bytes);
    /* Without readers in other threads the array may move in place. */
    if (outgrown == NULL || array == NULL)
        return fg_realloc(array, new_bytes);
    /* Readers may still use the old array, so it is kept until its owner knows that none does. */
    grown = fg_malloc(new_bytes);
    memcpy(grown, array, used_bytes);
    old = fg_new(struct fg_outgrown_array);
    *old = (struct fg_outgrown_array){outgrown->arrays, array};
    outgrown->arrays = old;
    outgrown->bytes += used_bytes;
    return grown;
}

void fg_outgrown_move(struct fg_outgrown *into, struct fg_outgrown *from)
{
    struct fg_outgrown_array **end = &from->arrays;

    /* Walks the chain, which has an entry for each doubling, so it is short. */
    while (*end != NULL)
        end = &(*end)->next;
    *end = into->arrays;
    into->arrays = from->arrays;
    into->bytes += from->bytes;
    *from = (struct fg_outgrown){0};
}

void fg_outgrown_free(struct fg_outgrown *outgrown)
{
    struct fg_outgrown_array *old = outgrown->arrays;

    while (old != NULL) {
        struct fg_outgrown_array *next = old->next;

        free(old->array);
        free(old);
        old = next;
    }
    *outgrown = (struct fg_outgrown){0};
}
