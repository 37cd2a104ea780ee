#include "tests/lib/map_look.h"

/* Undoes x ^= x >> bits. */
static uint64_t unshift(uint64_t x, unsigned bits)
{
    uint64_t out = x;

    for (unsigned done = bits; done < 64; done += bits)
        out = x ^ out >> bits;
    return out;
}

/* Returns the inverse of an odd number modulo 2^64 (Newton's method: each step doubles the bits).
 */
static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;

    for (unsigned i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

uint64_t map_look_unmix(uint64_t mixed)
{
    uint64_t x = unshift(mixed, 31) * inverse(UINT64_C(0x94d049bb133111eb));

    x = unshift(x, 27) * inverse(UINT64_C(0xbf58476d1ce4e5b9));
    return unshift(x, 30);
}

double map_look_distance(const struct fg_map *map)
{
    uint64_t sum = 0;

    fg_assert(map->count > 0);
    for (uint32_t i = 0; i <= map->mask; i++)
        if (map->slots[i].value != FG_MAP_NONE)
            sum += (i - (uint32_t)map->slots[i].hash) & map->mask;
    return (double)sum / map->count;
}
