/*
 * An encrypted page is opened, or there is a clear reason why not. The input: u8 how, le32 raw
 * length as the page table says it, bytes.
 *
 *   how 0   the bytes are what is stored: nobody but us can make a page that opens
 *   how 1   the bytes are sealed first, so that what is behind the encryption is reached
 */
#include "common/base/crc32c.h"
#include "common/storage/block/pack.h"

enum { MAX_BYTES = 16 * 1024 * 1024, HEAD_BYTES = 5 };

/* That of tests/unit/common/storage/seal/vectors.py, whose first page is in the corpus. */
static enum fg_code find(void *arg, struct fg_slice tenant, uint32_t number,
                         struct fg_seal_key *ret_key, struct fg_err *err)
{
    (void)arg, (void)tenant, (void)number, (void)err;
    for (size_t i = 0; i < sizeof ret_key->bytes; i++)
        ret_key->bytes[i] = (uint8_t)i;
    return FG_OK;
}

static const struct fg_keys keys = {.find = find};
static const struct fg_seal_part seal = {
    .keys = &keys, .tenant = {(const uint8_t *)"acme", 4}, .service = {(const uint8_t *)"shop", 4}};

static struct fg_slice seal_up(struct fg_slice content, struct fg_arena *arena)
{
    const struct fg_seal_place place = {
        .tenant = seal.tenant, .service = seal.service, .key = 1, .kind = FG_BLOCK_SMP};
    size_t len = content.len + FG_SEAL_MORE_BYTES;
    uint8_t *out = fg_arena_alloc(arena, len);
    struct fg_seal_key key;
    struct fg_err err;

    fg_assert(out != NULL && find(NULL, seal.tenant, 1, &key, &err) == FG_OK);
    fg_seal_page(&key, &place, content, out);
    return fg_bytes(out, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fg_auto(fg_arena) *arena = fg_arena_create(MAX_BYTES);
    struct fg_cur cur = fg_cur(fg_bytes(data, size));
    bool sealing = fg_cur_u8(&cur) == 1;
    struct fg_block_stored said = {.raw_bytes = fg_cur_le32(&cur), .key = 1, .kind = FG_BLOCK_SMP};
    struct fg_slice content = fg_slice_sub(fg_bytes(data, size), HEAD_BYTES, SIZE_MAX), stored, raw;
    struct fg_err err;
    enum fg_code code;

    if (cur.bad || content.len > MAX_BYTES / 4 || said.raw_bytes > FG_BLOCK_PAGE_RAW_MAX_BYTES)
        return 0;
    stored = sealing ? seal_up(content, arena) : content;
    said.crc = fg_crc32c(stored);
    code = fg_block_unpack_in(&seal, stored, said, arena, &raw, &err);
    fg_assert(code == FG_OK || code == FG_E_CORRUPT || code == FG_E_LIMIT);
    if (code == FG_OK)
        fg_assert(raw.len == said.raw_bytes - FG_SEAL_MORE_BYTES);
    if (sealing && said.raw_bytes == stored.len)
        fg_assert(code == FG_OK && fg_slice_eq(raw, content));
    return 0;
}
