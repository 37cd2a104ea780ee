/* Radix sort of pairs by a 32-bit key, for the samples of profiles. */
#ifndef FG_COMMON_BASE_RADIX_H
#define FG_COMMON_BASE_RADIX_H

#include "common/base/def.h"

/* A sort key and the index of the element that has it. */
struct fg_keyed {
    uint32_t key, index;
};

/* Sorts items by key; items with equal keys keep their order. scratch has room for count items. */
void fg_radix_sort(struct fg_keyed *items, struct fg_keyed *scratch, uint32_t count);

#endif
