/*
 * Packs pages with zstd and unpacks them. A page that does not get smaller is stored as it is, so
 * that its two lengths say which it is. Private to the block format.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_PACK_H
#define FG_COMMON_STORAGE_BLOCK_PACK_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/err.h"
#include "common/storage/block/format.h"

struct fg_block_packer; /* a zstd context and a buffer, used again from page to page */

struct fg_block_packer *fg_block_packer_create(void);
void fg_block_packer_destroy(struct fg_block_packer *packer);

/* What to store for raw, at most FG_BLOCK_PAGE_RAW_MAX_BYTES (asserted). Valid until the next call
 * or, where it is raw itself, as long as that. */
struct fg_slice fg_block_pack(struct fg_block_packer *packer, struct fg_slice raw);

/* What a page table says of one page. */
struct fg_block_stored {
    uint32_t raw_bytes, crc;
    uint32_t key; /* with which it is encrypted; 0: it is not */
};

struct fg_block_unpacker;
struct fg_block_unpacker *fg_block_unpacker_create(void);
void fg_block_unpacker_destroy(struct fg_block_unpacker *unpacker);
FG_AUTO(fg_block_unpacker, fg_block_unpacker_destroy)

/* FG_E_UNIMPLEMENTED: encrypted, which this program cannot read. */
enum fg_code fg_block_check_key(uint32_t key, struct fg_err *err) fg_must_check;

/* Is it what was stored, and could it be a page? FG_E_CORRUPT; then as fg_block_check_key(). */
enum fg_code fg_block_check(struct fg_slice stored, struct fg_block_stored said,
                            struct fg_err *err) fg_must_check;

/* Unpacks a page that is packed into out[said.raw_bytes], after fg_block_check(). */
enum fg_code fg_block_unpack(struct fg_block_unpacker *unpacker, struct fg_slice stored,
                             struct fg_block_stored said, uint8_t *out,
                             struct fg_err *err) fg_must_check;

/* Both, into an arena, also of a page that is not packed; with a context of its own, for what is
 * read once. FG_E_CORRUPT, FG_E_UNIMPLEMENTED, FG_E_LIMIT. */
enum fg_code fg_block_unpack_in(struct fg_slice stored, struct fg_block_stored said,
                                struct fg_arena *arena, struct fg_slice *ret_raw,
                                struct fg_err *err) fg_must_check;

#endif
