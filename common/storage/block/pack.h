/*
 * Packs pages with zstd and unpacks them. A page that does not get smaller is stored unchanged, so
 * its two lengths tell whether it is packed. Private to the block format.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_PACK_H
#define FG_COMMON_STORAGE_BLOCK_PACK_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/err.h"
#include "common/storage/block/format.h"

/* A zstd context and a buffer that are reused for each page. */
struct fg_block_packer;

/* Create and free one. */
struct fg_block_packer *fg_block_packer_create(void);
void fg_block_packer_destroy(struct fg_block_packer *packer);

/* Returns the bytes to store for raw, which has at most FG_BLOCK_PAGE_RAW_MAX_BYTES (asserted).
 * They are raw itself, or valid until the next call. */
struct fg_slice fg_block_pack(struct fg_block_packer *packer, struct fg_slice raw);

/* The row of a page in the page table. */
struct fg_block_stored {
    uint32_t raw_bytes, crc;
    uint32_t key; /* of its encryption; 0: not encrypted */
};

struct fg_block_unpacker;
/* Create and free a zstd context for unpacking. */
struct fg_block_unpacker *fg_block_unpacker_create(void);
void fg_block_unpacker_destroy(struct fg_block_unpacker *unpacker);
FG_AUTO(fg_block_unpacker, fg_block_unpacker_destroy)

/* Checks the key. FG_E_UNIMPLEMENTED: the data is encrypted, which this program cannot read. */
enum fg_code fg_block_check_key(uint32_t key, struct fg_err *err) fg_must_check;

/* Checks the checksum and lengths of a page (FG_E_CORRUPT), then its key. */
enum fg_code fg_block_check(struct fg_slice stored, struct fg_block_stored said,
                            struct fg_err *err) fg_must_check;

/* Unpacks a packed page to out[said.raw_bytes], after fg_block_check(). FG_E_CORRUPT. */
enum fg_code fg_block_unpack(struct fg_block_unpacker *unpacker, struct fg_slice stored,
                             struct fg_block_stored said, uint8_t *out,
                             struct fg_err *err) fg_must_check;

/* Checks a page, packed or not, and unpacks it into an arena. It creates a context for the call, so
 * use it for pages that are read once. FG_E_CORRUPT, FG_E_UNIMPLEMENTED, FG_E_LIMIT. */
enum fg_code fg_block_unpack_in(struct fg_slice stored, struct fg_block_stored said,
                                struct fg_arena *arena, struct fg_slice *ret_raw,
                                struct fg_err *err) fg_must_check;

#endif
