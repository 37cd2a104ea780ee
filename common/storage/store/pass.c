/*
 * Passes over what cannot be read.
 *
 * RocksDB does not tell where a damaged block ends: any seek into it fails, and a seek behind its
 * last key does not. So the end is searched with seeks, and keys are taken for numbers of 64 bytes
 * for that: first behind the last key that was read in steps that double, then by halves. Two
 * damaged blocks that are closer to each other than the first is long may count as one.
 */
#include "common/storage/store/store.h"

enum { PLACE_BYTES = 64 }; /* no key of the head is longer, names apart */

/* A place in the order of keys: the first bytes of a key, and zeros. */
struct pass_place {
    uint8_t bytes[PLACE_BYTES];
};

/* Adds 256 to the power of `byte`, which counts from the end. Returns false if that is behind all
 * places. */
static bool add_at(struct pass_place *place, size_t byte)
{
    for (size_t i = PLACE_BYTES - byte; i-- > 0;)
        if (++place->bytes[i] != 0)
            return true;
    return false;
}

/* Returns the middle of two places, whose bytes behind the first `len` are zeros, as a place of
 * that kind: `low` if they are next to each other. */
static struct pass_place middle(const struct pass_place *low, const struct pass_place *high,
                                size_t len)
{
    unsigned carry = 0, sums[PLACE_BYTES] = {0};
    struct pass_place place = {{0}};

    for (size_t i = len; i-- > 0;) {
        sums[i] = carry + low->bytes[i] + high->bytes[i];
        carry = sums[i] >> 8;
    }
    for (size_t i = 0; i < len; i++) { /* half of the sum, from its first bit on */
        unsigned with = carry << 8 | (sums[i] & 0xff);

        place.bytes[i] = (uint8_t)(with / 2);
        carry = with % 2;
    }
    return place;
}

enum found { READABLE, DAMAGED, FAILED };

static enum found seek(struct fg_store_iter *iter, const struct pass_place *place)
{
    fg_store_iter_seek(iter, fg_bytes(place->bytes, PLACE_BYTES));
    if (iter->valid || iter->err.code == FG_OK)
        return READABLE;
    return iter->err.code == FG_E_CORRUPT ? DAMAGED : FAILED;
}

/* Finds a place behind the damage, in steps that grow. *low: the last one that is in it. */
static enum found find_behind(struct fg_store_iter *iter, struct pass_place *low, size_t len,
                              struct pass_place *ret_high)
{
    const struct pass_place base = *low;
    enum found found = DAMAGED;

    for (size_t byte = PLACE_BYTES - len; found == DAMAGED && byte <= PLACE_BYTES; byte++) {
        *ret_high = base;
        /* The last step is to the end of all keys, which has to be readable. */
        if (byte == PLACE_BYTES || !add_at(ret_high, byte)) {
            memset(ret_high->bytes, 0xff, len);
            byte = PLACE_BYTES;
        }
        found = seek(iter, ret_high);
        if (found == DAMAGED)
            *low = *ret_high;
    }
    return found;
}

bool fg_store_iter_pass(struct fg_store_iter *iter, struct fg_slice after)
{
    /* Before the first key nobody knows how long keys are. */
    size_t len = after.len == 0 ? PLACE_BYTES : FG_MIN(after.len + 1, (size_t)PLACE_BYTES);
    struct pass_place low = {{0}}, high, place;
    enum found found;

    fg_assert(!iter->valid && iter->err.code == FG_E_CORRUPT);
    if (after.len > 0)
        memcpy(low.bytes, after.ptr, FG_MIN(after.len, (size_t)PLACE_BYTES));
    found = find_behind(iter, &low, len, &high);
    while (found == READABLE) {
        place = middle(&low, &high, len);
        if (memcmp(place.bytes, low.bytes, PLACE_BYTES) == 0)
            return seek(iter, &high) == READABLE;
        switch (seek(iter, &place)) {
        case READABLE:
            high = place;
            break;
        case DAMAGED:
            low = place;
            break;
        case FAILED:
            found = FAILED;
            break;
        }
    }
    return false;
}
