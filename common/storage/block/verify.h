/*
 * Looks at all of a block: every checksum, order, index, count, total and digest. Whatever may have
 * happened to the bytes since they were written is found.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_VERIFY_H
#define FG_COMMON_STORAGE_BLOCK_VERIFY_H

#include "common/storage/block/reader.h"

/* What was looked at. */
struct fg_block_verified {
    uint32_t n_parts, n_series;
    uint64_t n_profiles, n_samples, n_pages;
    struct fg_usage usage;
};

/*
 * file: all of it, in memory or mapped. max_bytes: memory it may take, for one part at a time.
 * FG_E_CORRUPT: the first fault and its place ("part acme/shop: IDX page 3: ..."). FG_E_LIMIT.
 * FG_E_UNIMPLEMENTED: a newer version wrote it, or it is encrypted.
 */
enum fg_code fg_block_verify(struct fg_slice file, size_t max_bytes,
                             struct fg_block_verified *ret_verified,
                             struct fg_err *err) fg_must_check;

/* How much of a part is looked at. */
enum fg_block_verify_depth {
    FG_BLOCK_VERIFY_ALL,
    FG_BLOCK_VERIFY_PROFILES, /* without groups, names and pages of merged nodes, which a merge
                                 makes again from the rest */
};

/*
 * Verifies one part by itself, whatever happened to the others. part: of the file's directory.
 * Memory and errors as above.
 */
enum fg_code fg_block_verify_part(struct fg_slice file, const struct fg_block_part *part,
                                  enum fg_block_verify_depth depth, size_t max_bytes,
                                  struct fg_err *err) fg_must_check;

#endif
