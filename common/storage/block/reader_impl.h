/*
 * Internals that the files of the reader share. Private to the block format.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_READER_IMPL_H
#define FG_COMMON_STORAGE_BLOCK_READER_IMPL_H

#include "common/storage/block/column.h"
#include "common/storage/block/pack.h"
#include "common/storage/block/reader.h"

/* Returns the name of a kind for messages: "SMP", or its number if it has no name. */
const char *fg_block_kind_name(uint32_t kind);

/* Returns the section of a part, NULL if it has none. */
const struct fg_block_section *fg_block_section_find(const struct fg_block_part *part,
                                                     uint32_t kind);

/* Returns the row of a page in the form of pack.h. number: of the page in its section. */
static inline struct fg_block_stored fg_block_stored_of(const struct fg_block_page *page,
                                                        uint32_t kind, uint32_t number)
{
    return (struct fg_block_stored){page->raw_bytes, page->crc, page->key, kind, number};
}

/* Checks a page and unpacks it into the arena. bytes: the stored page. */
enum fg_code fg_block_page_open(const struct fg_block_index *index, uint32_t kind, uint32_t page,
                                struct fg_slice bytes, struct fg_arena *arena,
                                struct fg_slice *ret_raw, struct fg_err *err) fg_must_check;

/* Puts "SMP page 3" before the sentence. */
enum fg_code fg_block_page_wrap(struct fg_err *err, uint32_t kind, uint32_t page);

/* Returns the number of the series of a profile. */
static inline uint32_t fg_block_series_of(const struct fg_block_index *index, uint32_t profile)
{
    return index->chunks[fg_block_chunk_of(index, profile)].series;
}

/* Fails with FG_E_LIMIT: no memory for `what`. */
enum fg_code fg_block_no_room(struct fg_err *err, const char *what);

#endif
