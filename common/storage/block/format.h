/*
 * What writer and reader of blocks agree on; README.md has the bytes.
 *
 *   object    header, parts, groups of all parts, what merged nodes there are of all parts,
 *             directory, trailer
 *   part      all of one (tenant, service): its sections, each a row of pages
 *   stripe    of a part's profiles: all those of a stretch of time, series by series; they ascend
 *   page      bytes under zstd or raw; lengths, checksum and first row stand in the part's page
 *             table, not beside the bytes, so that a reader knows what to fetch before it fetches
 */
#ifndef FG_COMMON_STORAGE_BLOCK_FORMAT_H
#define FG_COMMON_STORAGE_BLOCK_FORMAT_H

#include "common/base/time.h"
#include "common/model/batch.h"

#define FG_BLOCK_MAGIC "FGB1"

enum {
    FG_BLOCK_VERSION = 3, /* the newest, which is written unless told otherwise */
    FG_BLOCK_VERSION_LEAST = 2,
    FG_BLOCK_SYMBOLS_VERSION = 1, /* of the sections from MAP to NMS; a part says its own */
    FG_BLOCK_HEADER_BYTES = 16,
    FG_BLOCK_TRAILER_BYTES = 32,
};

/* For settings: which version is written. */
#define FG_BLOCK_VERSION_CHOICES "newest|2|3"

/* The version for fg_block_writer_set_version() of the choice with this index. */
static inline uint32_t fg_block_version_chosen(unsigned choice)
{
    return choice == 0 ? 0 : FG_BLOCK_VERSION_LEAST + choice - 1;
}

/* Bounds of what a file may say of itself; the writer keeps to them too (FG_E_LIMIT). */
enum {
    FG_BLOCK_PAGE_RAW_MAX_BYTES = 64 * 1024 * 1024, /* a profile is never cut in two */
    FG_BLOCK_DIRECTORY_MAX_BYTES = 64 * 1024 * 1024,
    FG_BLOCK_NAME_MAX_BYTES = 64 * 1024, /* tenant, service */
    FG_BLOCK_PARTS_MAX = 1024 * 1024,
    FG_BLOCK_PAGES_MAX = 4 * 1024 * 1024,   /* of a part */
    FG_BLOCK_ITEMS_MAX = 256 * 1024 * 1024, /* profiles, series, nodes, ... of a part */
    FG_BLOCK_KINDS_MAX = 64,                /* numbers of kinds are below */
};

/*
 * How the compactor divides a part into stripes (compactor/merge/merge.c): none is shorter, and
 * they have so many samples on the average. Any others can be read, too; who has to know beforehand
 * how many there are guesses by these.
 */
enum { FG_BLOCK_STRIPE_SAMPLES = 1024 * 1024 };
#define FG_BLOCK_STRIPE_MIN_NS (10 * FG_MINUTE_NS)

/*
 * Kinds of sections, by their number in the file; they stand in this order in a part, but for NOD
 * and GRP, which stand behind all parts. A reader skips kinds it does not know.
 */
enum fg_block_kind {
    FG_BLOCK_SMP = 1,  /* samples: stacks by rank, columns of values */
    FG_BLOCK_EXM = 2,  /* samples with a span or trace */
    FG_BLOCK_PID = 3,  /* profile ids, in the rows of IDX */
    FG_BLOCK_IDX = 4,  /* profiles: time, duration, totals, number of samples, ... */
    FG_BLOCK_USE = 5,  /* sizes of profiles as they were sent, in the rows of IDX */
    FG_BLOCK_NOD = 16, /* merged nodes (../rollup): what there is; right before the directory */
    FG_BLOCK_CRN = 17, /* crowns, before them names and their dictionary */
    FG_BLOCK_FTB = 18, /* tables of functions */
    FG_BLOCK_FUL = 19, /* values of all stacks */
    FG_BLOCK_MAP = 32, /* rank -> node */
    FG_BLOCK_TRI = 33, /* stack tree */
    FG_BLOCK_FRM = 34, /* locations */
    FG_BLOCK_MPG = 35, /* mappings */
    FG_BLOCK_FUN = 36, /* functions */
    FG_BLOCK_STR = 37, /* strings of the symbols */
    /* 38 to 40: a function tree without frames that have only an address; is skipped. */
    FG_BLOCK_NMR = 41, /* rank -> node of the function tree, where there is one */
    FG_BLOCK_NMT = 42, /* function tree */
    FG_BLOCK_NMS = 43, /* these names */
    FG_BLOCK_LBL = 48, /* strings of labels and types, and which series have a label */
    FG_BLOCK_SER = 49, /* series */
    FG_BLOCK_PAG = 50, /* the page table: all pages of the sections above */
    FG_BLOCK_GRP = 63, /* (shard, window): count and digest of its profiles; behind all parts */
};

/* Their pages count profiles, and know their times. */
static inline bool fg_block_kind_has_times(uint32_t kind)
{
    return kind >= FG_BLOCK_SMP && kind <= FG_BLOCK_IDX;
}

#endif
