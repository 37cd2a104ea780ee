#include "common/base/radix.h"

#include <string.h>

/* By one byte of the key, keeping the order of equals; false when all have the same byte. */
static bool pass(const struct fg_keyed *from, struct fg_keyed *to, uint32_t count, unsigned shift)
{
    uint32_t places[256] = {0};
    uint32_t at = 0;

    for (uint32_t i = 0; i < count; i++)
        places[(from[i].key >> shift) & 255]++;
    /* Small numbers have upper bytes of zero: those passes are free. */
    if (places[(from[0].key >> shift) & 255] == count)
        return false;
    for (size_t b = 0; b < 256; b++) {
        uint32_t n = places[b];

        places[b] = at;
        at += n;
    }
    for (uint32_t i = 0; i < count; i++)
        to[places[(from[i].key >> shift) & 255]++] = from[i];
    return true;
}

void fg_radix_sort(struct fg_keyed *items, struct fg_keyed *scratch, uint32_t count)
{
    struct fg_keyed *from = items, *to = scratch;

    if (count < 2)
        return;
    /* The least significant byte first: each pass keeps the order of the passes before it. */
    for (unsigned shift = 0; shift < 32; shift += 8) {
        if (pass(from, to, count, shift)) {
            struct fg_keyed *swap = from;

            from = to;
            to = swap;
        }
    }
    /* After an odd number of passes the result is in the scratch. */
    if (from != items)
        memcpy(items, from, count * sizeof *items);
}
