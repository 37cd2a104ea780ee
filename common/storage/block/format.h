/*
 * Constants of the format that writer and reader of blocks share; README.md describes the bytes.
 *
 *   object    header, parts, groups of all parts, rollup directories of all parts, directory,
 *             trailer
 *   part      the data of one (tenant, service): sections, each of which is a row of pages
 *   stripe    a time stripe: the profiles of a part in one span of time, series by series; stripes
 *             ascend by time
 *   chunk     a series chunk: the profiles of one series in one time stripe
 *   page      bytes, packed by zstd or raw; the page table of the part has lengths, checksum and
 *             first row, so a reader knows which bytes to fetch before it fetches them
 */
#ifndef FG_COMMON_STORAGE_BLOCK_FORMAT_H
#define FG_COMMON_STORAGE_BLOCK_FORMAT_H

#include "common/base/time.h"
#include "common/model/batch.h"

#define FG_BLOCK_MAGIC "FGB1"

enum {
    FG_BLOCK_VERSION = 3, /* the newest one, which is written by default */
    FG_BLOCK_VERSION_LEAST = 2,
    FG_BLOCK_SYMBOLS_VERSION = 1, /* of the sections from MAP to NMS; each part has its own */
    FG_BLOCK_HEADER_BYTES = 16,
    FG_BLOCK_TRAILER_BYTES = 32,
};

/* The choices of the settings for the version to write. */
#define FG_BLOCK_VERSION_CHOICES "newest|2|3"

/* Returns the version for fg_block_writer_set_version() of the choice with this index. */
static inline uint32_t fg_block_version_chosen(unsigned choice)
{
    return choice == 0 ? 0 : FG_BLOCK_VERSION_LEAST + choice - 1;
}

/* Bounds of a file. Readers refuse a larger one as corrupt, and the writer fails with FG_E_LIMIT.
 */
enum {
    FG_BLOCK_PAGE_RAW_MAX_BYTES = 64 * 1024 * 1024, /* a profile is never split */
    FG_BLOCK_DIRECTORY_MAX_BYTES = 64 * 1024 * 1024,
    FG_BLOCK_NAME_MAX_BYTES = 64 * 1024, /* tenant, service */
    FG_BLOCK_PARTS_MAX = 1024 * 1024,
    FG_BLOCK_PAGES_MAX = 4 * 1024 * 1024,   /* of a part */
    FG_BLOCK_ITEMS_MAX = 256 * 1024 * 1024, /* profiles, series, nodes, ... of a part */
    FG_BLOCK_KINDS_MAX = 64,                /* numbers of kinds are less */
};

/*
 * How the compactor divides a part into time stripes (compactor/merge/merge.c): the least length
 * and the average number of samples. Readers accept any others; fg_block_guess_chunks() estimates
 * the number of stripes with these.
 */
enum { FG_BLOCK_STRIPE_SAMPLES = 1024 * 1024 };
#define FG_BLOCK_STRIPE_MIN_NS (10 * FG_MINUTE_NS)

/*
 * Kinds of sections, by their number in the file. A part has them in this order, except NOD and
 * GRP, which follow all parts. A reader skips kinds that it does not know. NOD is short for
 * "nodes", the old word for rollups.
 */
enum fg_block_kind {
    FG_BLOCK_SMP = 1,  /* samples: stacks by rank, columns of values */
    FG_BLOCK_EXM = 2,  /* samples with a span or trace */
    FG_BLOCK_PID = 3,  /* profile ids, in the rows of IDX */
    FG_BLOCK_IDX = 4,  /* profiles: time, duration, totals, number of samples, ... */
    FG_BLOCK_USE = 5,  /* sizes of profiles as they were sent, in the rows of IDX */
    FG_BLOCK_SCR = 15, /* crowns of single series of a derived part */
    FG_BLOCK_NOD = 16, /* directory of rollups (../rollup); right before the directory */
    FG_BLOCK_CRN = 17, /* crowns, after names and their dictionary */
    FG_BLOCK_FTB = 18, /* function totals */
    FG_BLOCK_FUL = 19, /* values of all stacks */
    FG_BLOCK_SND = 20, /* directory of the rollups of single series */
    FG_BLOCK_MAP = 32, /* rank -> node */
    FG_BLOCK_TRI = 33, /* stack tree */
    FG_BLOCK_FRM = 34, /* locations */
    FG_BLOCK_MPG = 35, /* mappings */
    FG_BLOCK_FUN = 36, /* functions */
    FG_BLOCK_STR = 37, /* strings of the symbols */
    /* 38 to 40: an old form of the function tree, which is skipped. */
    FG_BLOCK_NMR = 41, /* rank -> node of the function tree, if there is one */
    FG_BLOCK_NMT = 42, /* function tree */
    FG_BLOCK_NMS = 43, /* names of its functions */
    FG_BLOCK_LBL = 48, /* strings of labels and types, and which series have a label */
    FG_BLOCK_SER = 49, /* series */
    FG_BLOCK_PAG = 50, /* the page table: all pages of the sections above */
    FG_BLOCK_GRP = 63, /* (shard, window): count and digest of its profiles; after all parts */
};

/* Returns whether the section has rollups. */
static inline bool fg_block_kind_is_rollup(uint32_t kind)
{
    return kind >= FG_BLOCK_SCR && kind <= FG_BLOCK_SND;
}

/* Returns whether pages of the kind count profiles and have their times. */
static inline bool fg_block_kind_has_times(uint32_t kind)
{
    return kind >= FG_BLOCK_SMP && kind <= FG_BLOCK_IDX;
}

/* The sample types of a series, which are stored once for all series that have the same. */
struct fg_block_schema {
    const struct fg_value_type *types;
    uint32_t n_types;
    struct fg_value_type period_type;
};

/* Compares schemas in the order in which a part stores them: less than, equal to, or greater than
 * 0. */
int fg_block_schema_cmp(const struct fg_block_schema *a, const struct fg_block_schema *b);

#endif
