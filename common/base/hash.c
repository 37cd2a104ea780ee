#include "common/base/hash.h"

#define XXH_INLINE_ALL
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

void fg_id_put(uint8_t out[FG_ID_BYTES], struct fg_id id)
{
    for (size_t i = 0; i < 8; i++) {
        out[i] = (uint8_t)(id.lo >> (8 * i));
        out[8 + i] = (uint8_t)(id.hi >> (8 * i));
    }
}

struct fg_id fg_id_get(const uint8_t in[FG_ID_BYTES])
{
    struct fg_id id = {0, 0};

    for (size_t i = 0; i < 8; i++) {
        id.lo |= (uint64_t)in[i] << (8 * i);
        id.hi |= (uint64_t)in[8 + i] << (8 * i);
    }
    return id;
}
