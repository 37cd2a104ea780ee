/*
 * Packs pages with zstd and unpacks them; seals what is packed, and opens it. A page that does not
 * get smaller is stored unchanged, so its two lengths tell whether it is packed. Sealing makes both
 * lengths larger by FG_SEAL_MORE_BYTES, so that they go on telling. Private to the block format and
 * to rollups.
 */
#ifndef FG_COMMON_STORAGE_BLOCK_PACK_H
#define FG_COMMON_STORAGE_BLOCK_PACK_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/err.h"
#include "common/storage/block/format.h"
#include "common/storage/seal/keys.h"

/* A zstd context and a buffer that are reused for each page. */
struct fg_block_packer;

/* Create and free one. */
struct fg_block_packer *fg_block_packer_create(void);
void fg_block_packer_destroy(struct fg_block_packer *packer);

/* Returns the bytes to store for raw, which has at most FG_BLOCK_PAGE_RAW_MAX_BYTES (asserted).
 * They are raw itself, or valid until the next call. */
struct fg_slice fg_block_pack(struct fg_block_packer *packer, struct fg_slice raw);

/* Seals the pages of parts, one part after the other. Its key is in locked memory
 * (common/storage/seal/locked.h). */
struct fg_block_sealer;

/* Create and free one. Its key is overwritten in the end; NULL is accepted. */
struct fg_block_sealer *fg_block_sealer_create(void);
void fg_block_sealer_destroy(struct fg_block_sealer *sealer);

/* Returns the place of the key, for whoever copies one there before fg_block_sealer_begin(). */
struct fg_seal_key *fg_block_sealer_key(struct fg_block_sealer *sealer);

/* Begins a part with the key of that number. The names are borrowed until the next one. */
void fg_block_sealer_begin(struct fg_block_sealer *sealer, struct fg_slice tenant,
                           struct fg_slice service, uint32_t number);

/* Overwrites the key. sealer NULL: does nothing. */
void fg_block_sealer_end(struct fg_block_sealer *sealer);

/* Sets the digest of the part, which pages of later sections are bound to. */
void fg_block_sealer_set_digest(struct fg_block_sealer *sealer, struct fg_id digest);

/* A page as it is stored. */
struct fg_block_sealed {
    struct fg_slice bytes;
    uint32_t raw_bytes, key;
};

/* Seals bytes that fg_block_pack() has made of a page of raw_bytes. sealer NULL: they stay as they
 * are, and so does an empty page. The result is valid until the next call. FG_E_LIMIT: they get
 * longer than a page may be. */
enum fg_code fg_block_seal(struct fg_block_sealer *sealer, uint32_t kind, uint64_t number,
                           struct fg_slice packed, size_t raw_bytes,
                           struct fg_block_sealed *ret_sealed, struct fg_err *err) fg_must_check;

/* The row of a page in the page table, and where it is. */
struct fg_block_stored {
    uint32_t raw_bytes, crc;
    uint32_t key;    /* of its encryption; 0: not encrypted, and the place means nothing */
    uint32_t kind;   /* of its section */
    uint64_t number; /* in the section: of the page; of a packed run of rollups, its offset */
};

/* Returns the length of the content; 0 for lengths that no encrypted page has. */
static inline uint32_t fg_block_content_bytes(struct fg_block_stored said)
{
    uint32_t more = said.key == 0 ? 0 : FG_SEAL_MORE_BYTES;

    return said.raw_bytes < more ? 0 : said.raw_bytes - more;
}

struct fg_block_unpacker;
/* Create and free a zstd context for unpacking. */
struct fg_block_unpacker *fg_block_unpacker_create(void);
void fg_block_unpacker_destroy(struct fg_block_unpacker *unpacker);
FG_AUTO(fg_block_unpacker, fg_block_unpacker_destroy)

/* Checks the checksum and lengths of a page. FG_E_CORRUPT. */
enum fg_code fg_block_check_bytes(struct fg_slice stored, struct fg_block_stored said,
                                  struct fg_err *err) fg_must_check;

/* Does the same, and then checks that there is its key: errors of fg_keys_find(). */
enum fg_code fg_block_check(const struct fg_seal_part *seal, struct fg_slice stored,
                            struct fg_block_stored said, struct fg_err *err) fg_must_check;

/* Opens and unpacks a page to out[fg_block_content_bytes(said)], after fg_block_check_bytes().
 * FG_E_CORRUPT; errors of fg_keys_find(). */
enum fg_code fg_block_unpack(const struct fg_seal_part *seal, struct fg_block_unpacker *unpacker,
                             struct fg_slice stored, struct fg_block_stored said, uint8_t *out,
                             struct fg_err *err) fg_must_check;

/* Checks, opens and unpacks a page into an arena, with a context of the thread. FG_E_LIMIT: the
 * arena is full. */
enum fg_code fg_block_unpack_in(const struct fg_seal_part *seal, struct fg_slice stored,
                                struct fg_block_stored said, struct fg_arena *arena,
                                struct fg_slice *ret_raw, struct fg_err *err) fg_must_check;

#endif
