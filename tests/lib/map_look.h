/*
 * What a map in memory looks like from inside: whether keys that a client has chosen meet in its
 * slots.
 */
#ifndef FG_TESTS_LIB_MAP_LOOK_H
#define FG_TESTS_LIB_MAP_LOOK_H

#include "common/base/map.h"

/* Returns the number whose fg_mix64() is this one. */
uint64_t map_look_unmix(uint64_t mixed);

/* Returns by how many slots the values stand behind the slots of their hashes, on average. It
 * is 1.5 at most if the hashes are spread evenly. */
double map_look_distance(const struct fg_map *map);

#endif
