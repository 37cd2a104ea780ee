/*
 * A block taken apart and put together again, with nothing packed and all checksums right: so that
 * a fuzzer gets behind them. One part.
 */
#ifndef FG_TESTS_LIB_BLOCK_REPACK_H
#define FG_TESTS_LIB_BLOCK_REPACK_H

#include "common/storage/block/reader.h"

enum { REPACK_PAGES_MAX = 64 };

struct repack_page {
    uint32_t kind;
    struct fg_block_page row;
    struct fg_slice raw; /* a test may replace it */
};

struct repack {
    struct fg_block_part part;
    struct repack_page pages[REPACK_PAGES_MAX]; /* in the order of the file */
    uint32_t n_pages;
    struct fg_slice groups;
    /* Instead of what follows from the above; ptr NULL: what follows. */
    struct fg_slice table, directory;
};

/* Of the first part of a good file; all in the arena. */
void repack_take(struct fg_slice file, struct fg_arena *arena, struct repack *ret_repack);

void repack_write(const struct repack *repack, struct fg_buf *out);

/* The page table and the directory as repack_write() makes them. */
void repack_table(const struct repack *repack, struct fg_buf *out);
void repack_directory(const struct repack *repack, struct fg_buf *out);

#endif
