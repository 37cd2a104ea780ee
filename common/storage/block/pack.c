#include "common/storage/block/pack.h"

#include "common/base/crc32c.h"

#include <pthread.h>
#include <zstd.h>

enum {
    LEVEL = 3,           /* columns of small numbers: 6 gains 2 %, 15 gains 4 % at twice the work */
    PACK_MIN_BYTES = 16, /* less never gets smaller: a frame's head has 6 bytes at least */
};

struct fg_block_packer {
    ZSTD_CCtx *zstd;
    struct fg_buf out;
};

struct fg_block_packer *fg_block_packer_create(void)
{
    struct fg_block_packer *packer = fg_new(struct fg_block_packer);

    packer->zstd = ZSTD_createCCtx();
    fg_assert(packer->zstd != NULL);
    fg_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_compressionLevel, LEVEL)));
    /* Our checksum covers the stored bytes, and lengths are in the page table: zstd's would be a
     * second of each. */
    fg_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_checksumFlag, 0)));
    fg_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_contentSizeFlag, 0)));
    fg_buf_init(&packer->out, SIZE_MAX);
    return packer;
}

void fg_block_packer_destroy(struct fg_block_packer *packer)
{
    if (packer == NULL)
        return;
    (void)ZSTD_freeCCtx(packer->zstd);
    fg_buf_done(&packer->out);
    free(packer);
}

struct fg_slice fg_block_pack(struct fg_block_packer *packer, struct fg_slice raw)
{
    size_t bound = ZSTD_compressBound(raw.len), len;

    fg_assert(raw.len <= FG_BLOCK_PAGE_RAW_MAX_BYTES);
    if (raw.len < PACK_MIN_BYTES)
        return raw;
    fg_buf_clear(&packer->out);
    fg_assert(fg_buf_reserve(&packer->out, bound));
    len = ZSTD_compress2(packer->zstd, packer->out.ptr, bound, raw.ptr, raw.len);
    fg_assert(!ZSTD_isError(len)); /* there is room, and nothing else can fail */
    /* Bytes that do not get smaller are stored as they are: equal lengths tell the reader so. */
    return len < raw.len ? fg_bytes(packer->out.ptr, len) : raw;
}

/* ---- unpacking ---- */

struct fg_block_unpacker {
    ZSTD_DCtx *zstd;
};

struct fg_block_unpacker *fg_block_unpacker_create(void)
{
    struct fg_block_unpacker *unpacker = fg_new(struct fg_block_unpacker);

    unpacker->zstd = ZSTD_createDCtx();
    fg_assert(unpacker->zstd != NULL);
    return unpacker;
}

void fg_block_unpacker_destroy(struct fg_block_unpacker *unpacker)
{
    if (unpacker == NULL)
        return;
    (void)ZSTD_freeDCtx(unpacker->zstd);
    free(unpacker);
}

enum fg_code fg_block_check_key(uint32_t key, struct fg_err *err)
{
    if (key == 0)
        return FG_OK;
    return fg_fail(err, FG_E_UNIMPLEMENTED, "encrypted with key %u, which this version cannot read",
                   key);
}

enum fg_code fg_block_check(struct fg_slice stored, struct fg_block_stored said, struct fg_err *err)
{
    uint32_t crc = fg_crc32c(stored);

    if (crc != said.crc)
        return fg_fail(err, FG_E_CORRUPT, "checksum %08x of %zu bytes, stored is %08x", crc,
                       stored.len, said.crc);
    if (stored.len > said.raw_bytes)
        return fg_fail(err, FG_E_CORRUPT, "%zu bytes for %u", stored.len, said.raw_bytes);
    return fg_block_check_key(said.key, err);
}

enum fg_code fg_block_unpack(struct fg_block_unpacker *unpacker, struct fg_slice stored,
                             struct fg_block_stored said, uint8_t *out, struct fg_err *err)
{
    /* At once and into its place: zstd needs no window of its own, whatever the frame asks for. */
    size_t len = ZSTD_decompressDCtx(unpacker->zstd, out, said.raw_bytes, stored.ptr, stored.len);

    if (ZSTD_isError(len))
        return fg_fail(err, FG_E_CORRUPT, "zstd: %s", ZSTD_getErrorName(len));
    if (len != said.raw_bytes)
        return fg_fail(err, FG_E_CORRUPT, "zstd gives %zu bytes, not %u", len, said.raw_bytes);
    return FG_OK;
}

/* One for each thread, 160 kB: pages come by the thousand, and some are quicker to unpack than this
 * is to set up. */
static pthread_once_t unpackers_once = PTHREAD_ONCE_INIT;
static pthread_key_t unpackers_key;

static void unpacker_drop(void *arg)
{
    fg_block_unpacker_destroy(arg);
}

static void unpackers_init(void)
{
    fg_assert(pthread_key_create(&unpackers_key, unpacker_drop) == 0);
}

static struct fg_block_unpacker *unpacker_of_thread(void)
{
    struct fg_block_unpacker *unpacker;

    pthread_once(&unpackers_once, unpackers_init);
    unpacker = pthread_getspecific(unpackers_key);
    if (unpacker == NULL) {
        unpacker = fg_block_unpacker_create();
        fg_assert(pthread_setspecific(unpackers_key, unpacker) == 0);
    }
    return unpacker;
}

enum fg_code fg_block_unpack_in(struct fg_slice stored, struct fg_block_stored said,
                                struct fg_arena *arena, struct fg_slice *ret_raw,
                                struct fg_err *err)
{
    uint8_t *out;

    if (fg_block_check(stored, said, err) != FG_OK)
        return err->code;
    out = fg_arena_alloc(arena, said.raw_bytes);
    if (out == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for a page of %u bytes", said.raw_bytes);
    if (stored.len < said.raw_bytes) {
        if (fg_block_unpack(unpacker_of_thread(), stored, said, out, err) != FG_OK)
            return err->code;
    } else if (stored.len > 0) {
        memcpy(out, stored.ptr, stored.len);
    }
    *ret_raw = fg_bytes(out, said.raw_bytes);
    return FG_OK;
}
