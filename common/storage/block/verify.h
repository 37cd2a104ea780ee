/*
 * Verifies blocks: every checksum, order, index, count, total and digest. It detects every change
 * of the bytes since they were written.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_VERIFY_H
#define FG_COMMON_STORAGE_BLOCK_VERIFY_H

#include "common/storage/block/reader.h"

/* What was verified. */
struct fg_block_verified {
    uint32_t n_parts, n_series;
    uint64_t n_profiles, n_samples, n_pages;
    struct fg_usage usage;
};

/*
 * Verifies a block. file: the whole file, in memory or mapped. max_bytes: memory for one part at a
 * time. FG_E_CORRUPT names the first fault and its place ("part acme/shop: IDX page 3: ...").
 * FG_E_LIMIT: max_bytes do not suffice. FG_E_UNIMPLEMENTED: a newer version wrote it, or it is
 * encrypted with a key that is not in `keys` (NULL: there are none).
 */
enum fg_code fg_block_verify(struct fg_slice file, const struct fg_keys *keys, size_t max_bytes,
                             struct fg_block_verified *ret_verified,
                             struct fg_err *err) fg_must_check;

/* Which sections of a part are verified. */
enum fg_block_verify_depth {
    FG_BLOCK_VERIFY_ALL,
    FG_BLOCK_VERIFY_PROFILES, /* without groups, function tree and rollups, which a merge makes
                                 again from the other sections */
};

/*
 * Verifies one part, even if others are damaged. part: of the directory of the file.
 * Memory and errors as above.
 */
enum fg_code fg_block_verify_part(struct fg_slice file, const struct fg_block_part *part,
                                  enum fg_block_verify_depth depth, size_t max_bytes,
                                  struct fg_err *err) fg_must_check;

#endif
