#include "common/base/hash.h"

#define XXH_INLINE_ALL
#include <endian.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <xxhash.h>

struct fg_id fg_hash128(struct fg_slice bytes)
{
    XXH128_hash_t hash = XXH3_128bits(bytes.ptr, bytes.len);

    return (struct fg_id){hash.low64, hash.high64};
}

uint64_t fg_hash64(struct fg_slice bytes)
{
    return XXH3_64bits(bytes.ptr, bytes.len);
}

struct fg_id fg_hash128_seed(struct fg_slice bytes, uint64_t seed)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.ptr, bytes.len, seed);

    return (struct fg_id){hash.low64, hash.high64};
}

uint64_t fg_hash_seed(void)
{
    static _Atomic uint64_t seed; /* 0: not drawn yet */
    uint64_t drawn = atomic_load_explicit(&seed, memory_order_relaxed);
    uint64_t none = 0;

    if (drawn != 0)
        return drawn;
    fg_assert(getrandom(&drawn, sizeof drawn, 0) == (ssize_t)sizeof drawn);
    /* Not 0, which means that nothing was drawn yet. */
    drawn |= 1;
    /* Of threads that come at the same time one wins, and all use its number. */
    return atomic_compare_exchange_strong(&seed, &none, drawn) ? drawn : none;
}

/* Seeded: nobody outside can send keys that all fall into one slot of a table. Never stored or
 * sent, since the seed differs from process to process. */
uint64_t fg_hash64_table(struct fg_slice bytes)
{
    return XXH3_64bits_withSeed(bytes.ptr, bytes.len, fg_hash_seed());
}

void fg_id_put(uint8_t out[FG_ID_BYTES], struct fg_id id)
{
    const uint64_t halves[2] = {htole64(id.lo), htole64(id.hi)};

    memcpy(out, halves, sizeof halves);
}

struct fg_id fg_id_get(const uint8_t in[FG_ID_BYTES])
{
    uint64_t halves[2];

    memcpy(halves, in, sizeof halves);
    return (struct fg_id){le64toh(halves[0]), le64toh(halves[1])};
}
