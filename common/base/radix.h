/* Sorting by small numbers without comparing: the samples of profiles, on their way in and out. */
#ifndef FG_COMMON_BASE_RADIX_H
#define FG_COMMON_BASE_RADIX_H

#include "common/base/def.h"

/* A number to sort by, and where the thing is that it belongs to. */
struct fg_keyed {
    uint32_t key, index;
};

/* By key; equal ones stay in their order. scratch has room for as many. */
void fg_radix_sort(struct fg_keyed *items, struct fg_keyed *scratch, uint32_t count);

#endif
