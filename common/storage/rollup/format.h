/*
 * What writer and reader of merged nodes agree on; README.md has the bytes.
 *
 *   merged node   the sum of many profiles: of one key (all series of a part, those of a group, one
 *                 series), one profile type, one span of time
 *   crown         its heaviest nodes by function names; what flame graphs are drawn of
 *   table         self and total of every function, exact
 *   full          the values of all stacks by rank: linear, so that nodes can be added to and
 *                 subtracted from each other and from what was read raw
 *
 * A node has those of the three that are worth their bytes (fg_rollup_worth()).
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_FORMAT_H
#define FG_COMMON_STORAGE_ROLLUP_FORMAT_H

#include "common/storage/block/format.h"

/* Version 1 has no names of frames that are only an address, nor of the empty stack: what stacks
 * without any name have is in no crown, no table and no total. It is still read. */
enum { FG_ROLLUP_VERSION = 2, FG_ROLLUP_VERSION_LEAST = 1 };

/* Bounds of what a part may say of its nodes. */
enum {
    FG_ROLLUP_MAX = 256 * 1024, /* rows */
    FG_ROLLUP_TYPES_MAX = 4096,
    FG_ROLLUP_LABELS_MAX = 1024,        /* common ones */
    FG_ROLLUP_DERIVED_FROM_MAX = 65536, /* objects */
    FG_ROLLUP_WORTH =
        8, /* bytes are worth keeping where they take the place of as many times more */
    FG_ROLLUP_DICT_MAX = 8 * 1024 * 1024, /* nodes of the dictionary of crowns */
};

/* What stands before the directory: magic, version, its raw length, stored length, checksum, and
 * the checksum of these. */
enum { FG_ROLLUP_HEAD_BYTES = 24, FG_ROLLUP_MAGIC = 0x314e4746 /* "FGN1" */ };

/* Whose profiles a node sums up. */
enum fg_rollup_kind {
    FG_ROLLUP_ALL,
    FG_ROLLUP_GROUP,  /* number: of the group */
    FG_ROLLUP_SERIES, /* number: of the series in its part */
};

struct fg_rollup_key {
    enum fg_rollup_kind kind;
    uint32_t number;          /* 0 for all */
    int64_t start_ns, end_ns; /* the profiles' times, [start, end) */
};

/* All before groups before series; by number, start; longer spans first. */
int fg_rollup_key_cmp(const struct fg_rollup_key *a, const struct fg_rollup_key *b);

enum fg_rollup_form { FG_ROLLUP_CROWN, FG_ROLLUP_TOTALS, FG_ROLLUP_FULL, FG_ROLLUP_FORMS };

/* Is something of so many bytes worth keeping that can be read instead of replaces_bytes? */
static inline bool fg_rollup_worth(uint64_t bytes, uint64_t replaces_bytes)
{
    return bytes <= replaces_bytes / FG_ROLLUP_WORTH;
}

#endif
