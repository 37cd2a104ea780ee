/*
 * Constants of the format that writer and reader of rollups share; README.md describes the bytes.
 *
 *   rollup    the sum of many profiles: of one key (all series of a part, the series of a group, or
 *             one series), one profile type and one span of time. It has up to three forms:
 *   crown     the heaviest nodes of its function tree, for flame graphs
 *   totals    function totals: self and total of every function, exact
 *   full      the values of all stacks by rank. They are linear: rollups can be added to and
 *             subtracted from each other and from sums of profiles
 *
 * A rollup has the forms that are worth their bytes (fg_rollup_worth()). In the format rollups are
 * called nodes ("FGN1", NOD), and function totals tables (FTB).
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_FORMAT_H
#define FG_COMMON_STORAGE_ROLLUP_FORMAT_H

#include "common/storage/block/format.h"

/* Version 1 has no names of frames that are only an address, nor of the empty stack: values of
 * stacks without names are in no crown and in no totals. It is still read. */
enum { FG_ROLLUP_VERSION = 2, FG_ROLLUP_VERSION_LEAST = 1 };

/* Bounds of the rollups of a part. */
enum {
    FG_ROLLUP_MAX = 256 * 1024, /* rows */
    FG_ROLLUP_TYPES_MAX = 4096,
    FG_ROLLUP_LABELS_MAX = 1024,        /* labels that all series have */
    FG_ROLLUP_DERIVED_FROM_MAX = 65536, /* objects */
    FG_ROLLUP_WORTH = 8, /* bytes are worth storing if they replace this many times as many */
    FG_ROLLUP_DICT_MAX = 8 * 1024 * 1024, /* nodes of the function tree of crowns */
};

/* The head before the directory: magic, version, raw length, stored length and checksum of the
 * directory, checksum of the head. */
enum { FG_ROLLUP_HEAD_BYTES = 24, FG_ROLLUP_MAGIC = 0x314e4746 /* "FGN1" */ };

/* The profiles that a rollup sums. */
enum fg_rollup_kind {
    FG_ROLLUP_ALL,    /* of all series of the part */
    FG_ROLLUP_GROUP,  /* number: of the group */
    FG_ROLLUP_SERIES, /* number: of the series in its part */
};

struct fg_rollup_key {
    enum fg_rollup_kind kind;
    uint32_t number;          /* 0 for all */
    int64_t start_ns, end_ns; /* the profiles' times, [start, end) */
};

/* Compares keys by kind, number, start; longer spans sort first. */
int fg_rollup_key_cmp(const struct fg_rollup_key *a, const struct fg_rollup_key *b);

enum fg_rollup_form { FG_ROLLUP_CROWN, FG_ROLLUP_TOTALS, FG_ROLLUP_FULL, FG_ROLLUP_FORMS };

/* Returns whether a form of so many bytes is worth storing if it can be read instead of
 * replaces_bytes. */
static inline bool fg_rollup_worth(uint64_t bytes, uint64_t replaces_bytes)
{
    return bytes <= replaces_bytes / FG_ROLLUP_WORTH;
}

#endif
