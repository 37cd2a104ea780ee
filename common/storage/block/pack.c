#include "common/storage/block/pack.h"

#include "common/base/crc32c.h"
#include "common/storage/seal/locked.h"

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

/* ---- sealing ---- */

struct fg_block_sealer {
    struct fg_seal_place place; /* of the part */
    struct fg_id digest;
    struct fg_seal_key *key; /* locked */
    struct fg_buf out;
};

struct fg_block_sealer *fg_block_sealer_create(void)
{
    struct fg_block_sealer *sealer = fg_new(struct fg_block_sealer);
    bool locked; /* if not, the ring of tenants' keys is not either, which is reported */

    sealer->key = fg_locked_alloc(sizeof *sealer->key, &locked);
    fg_buf_init(&sealer->out, SIZE_MAX);
    return sealer;
}

void fg_block_sealer_destroy(struct fg_block_sealer *sealer)
{
    if (sealer == NULL)
        return;
    fg_locked_free(sealer->key, sizeof *sealer->key);
    fg_buf_done(&sealer->out);
    free(sealer);
}

struct fg_seal_key *fg_block_sealer_key(struct fg_block_sealer *sealer)
{
    return sealer->key;
}

void fg_block_sealer_begin(struct fg_block_sealer *sealer, struct fg_slice tenant,
                           struct fg_slice service, uint32_t number)
{
    fg_assert(number > 0);
    sealer->place = (struct fg_seal_place){.tenant = tenant, .service = service, .key = number};
    sealer->digest = (struct fg_id){0, 0};
}

void fg_block_sealer_end(struct fg_block_sealer *sealer)
{
    if (sealer != NULL)
        fg_seal_wipe(sealer->key);
}

void fg_block_sealer_set_digest(struct fg_block_sealer *sealer, struct fg_id digest)
{
    sealer->digest = digest;
}

/* Pages of profiles are written while the profiles come, so nobody knows the digest. They differ
 * from set to set anyway; tables of labels and symbols often do not, and the digest keeps
 * equal ones from having equal bytes in different objects. */
static struct fg_id digest_for(uint32_t kind, struct fg_id digest)
{
    return kind < FG_BLOCK_SCR ? (struct fg_id){0, 0} : digest;
}

enum fg_code fg_block_seal(struct fg_block_sealer *sealer, uint32_t kind, uint64_t number,
                           struct fg_slice packed, size_t raw_bytes,
                           struct fg_block_sealed *ret_sealed, struct fg_err *err)
{
    struct fg_seal_place place;

    fg_assert(raw_bytes <= FG_BLOCK_PAGE_RAW_MAX_BYTES && packed.len <= raw_bytes);
    *ret_sealed = (struct fg_block_sealed){packed, (uint32_t)raw_bytes, 0};
    if (sealer == NULL || raw_bytes == 0)
        return FG_OK;
    if (raw_bytes > FG_BLOCK_PAGE_RAW_MAX_BYTES - FG_SEAL_MORE_BYTES)
        return fg_fail(err, FG_E_LIMIT, "a page of %zu bytes, which encryption makes longer",
                       raw_bytes);
    place = sealer->place;
    place.kind = kind;
    place.number = number;
    place.digest = digest_for(kind, sealer->digest);
    fg_buf_clear(&sealer->out);
    fg_assert(fg_buf_reserve(&sealer->out, packed.len + FG_SEAL_MORE_BYTES));
    fg_seal_page(sealer->key, &place, packed, sealer->out.ptr);
    *ret_sealed =
        (struct fg_block_sealed){fg_bytes(sealer->out.ptr, packed.len + FG_SEAL_MORE_BYTES),
                                 (uint32_t)raw_bytes + (uint32_t)FG_SEAL_MORE_BYTES, place.key};
    return FG_OK;
}

/* ---- unpacking ---- */

struct fg_block_unpacker {
    ZSTD_DCtx *zstd;
    struct fg_buf opened; /* of a sealed page, packed */
};

struct fg_block_unpacker *fg_block_unpacker_create(void)
{
    struct fg_block_unpacker *unpacker = fg_new(struct fg_block_unpacker);

    unpacker->zstd = ZSTD_createDCtx();
    fg_assert(unpacker->zstd != NULL);
    fg_buf_init(&unpacker->opened, SIZE_MAX);
    return unpacker;
}

void fg_block_unpacker_destroy(struct fg_block_unpacker *unpacker)
{
    if (unpacker == NULL)
        return;
    (void)ZSTD_freeDCtx(unpacker->zstd);
    fg_buf_done(&unpacker->opened);
    free(unpacker);
}

enum fg_code fg_block_check_bytes(struct fg_slice stored, struct fg_block_stored said,
                                  struct fg_err *err)
{
    uint32_t crc = fg_crc32c(stored);

    if (crc != said.crc)
        return fg_fail(err, FG_E_CORRUPT, "checksum %08x of %zu bytes, stored is %08x", crc,
                       stored.len, said.crc);
    if (stored.len > said.raw_bytes)
        return fg_fail(err, FG_E_CORRUPT, "%zu bytes for %u", stored.len, said.raw_bytes);
    return FG_OK;
}

enum fg_code fg_block_check(const struct fg_seal_part *seal, struct fg_slice stored,
                            struct fg_block_stored said, struct fg_err *err)
{
    if (fg_block_check_bytes(stored, said, err) != FG_OK)
        return err->code;
    return said.key == 0 ? FG_OK : fg_keys_check(seal->keys, seal->tenant, said.key, err);
}

/* Opens a sealed page to out, which has room for what is in it. */
static enum fg_code open_sealed(const struct fg_seal_part *seal, struct fg_slice stored,
                                struct fg_block_stored said, uint8_t *out, struct fg_err *err)
{
    const struct fg_seal_place place = {.tenant = seal->tenant,
                                        .service = seal->service,
                                        .key = said.key,
                                        .kind = said.kind,
                                        .number = said.number,
                                        .digest = digest_for(said.kind, seal->digest)};
    struct fg_seal_key key;
    enum fg_code code;

    fg_assert(stored.len >= FG_SEAL_MORE_BYTES);
    if (fg_keys_find(seal->keys, seal->tenant, said.key, &key, err) != FG_OK)
        return err->code;
    code = fg_seal_open(&key, &place, stored, out, err);
    fg_seal_wipe(&key);
    return code;
}

static enum fg_code inflate(struct fg_block_unpacker *unpacker, struct fg_slice packed,
                            uint32_t bytes, uint8_t *out, struct fg_err *err)
{
    /* At once and into its place: zstd needs no window of its own, whatever the frame asks for. */
    size_t len = ZSTD_decompressDCtx(unpacker->zstd, out, bytes, packed.ptr, packed.len);

    if (ZSTD_isError(len))
        return fg_fail(err, FG_E_CORRUPT, "zstd: %s", ZSTD_getErrorName(len));
    if (len != bytes)
        return fg_fail(err, FG_E_CORRUPT, "zstd gives %zu bytes, not %u", len, bytes);
    return FG_OK;
}

/* Unpacks a sealed page. */
static enum fg_code unpack_sealed(const struct fg_seal_part *seal,
                                  struct fg_block_unpacker *unpacker, struct fg_slice stored,
                                  struct fg_block_stored said, uint8_t *out, struct fg_err *err)
{
    size_t packed_bytes = stored.len - FG_SEAL_MORE_BYTES;
    struct fg_buf *opened = &unpacker->opened;

    if (stored.len < FG_SEAL_MORE_BYTES) {
        /* A missing key is reported first: then the bytes need not be damaged. */
        if (fg_block_check(seal, stored, said, err) != FG_OK)
            return err->code;
        return fg_fail(err, FG_E_CORRUPT, "%zu bytes are no encrypted page", stored.len);
    }
    if (stored.len == said.raw_bytes)
        return open_sealed(seal, stored, said, out, err);
    fg_buf_clear(opened);
    fg_assert(fg_buf_reserve(opened, packed_bytes));
    if (open_sealed(seal, stored, said, opened->ptr, err) != FG_OK)
        return err->code;
    return inflate(unpacker, fg_bytes(opened->ptr, packed_bytes), fg_block_content_bytes(said), out,
                   err);
}

enum fg_code fg_block_unpack(const struct fg_seal_part *seal, struct fg_block_unpacker *unpacker,
                             struct fg_slice stored, struct fg_block_stored said, uint8_t *out,
                             struct fg_err *err)
{
    if (said.key != 0)
        return unpack_sealed(seal, unpacker, stored, said, out, err);
    if (stored.len < said.raw_bytes)
        return inflate(unpacker, stored, said.raw_bytes, out, err);
    if (stored.len > 0)
        memcpy(out, stored.ptr, stored.len);
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

enum fg_code fg_block_unpack_in(const struct fg_seal_part *seal, struct fg_slice stored,
                                struct fg_block_stored said, struct fg_arena *arena,
                                struct fg_slice *ret_raw, struct fg_err *err)
{
    uint32_t bytes = fg_block_content_bytes(said);
    uint8_t *out;

    if (fg_block_check_bytes(stored, said, err) != FG_OK)
        return err->code;
    out = fg_arena_alloc(arena, bytes);
    if (out == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for a page of %u bytes", bytes);
    if (fg_block_unpack(seal, unpacker_of_thread(), stored, said, out, err) != FG_OK)
        return err->code;
    *ret_raw = fg_bytes(out, bytes);
    return FG_OK;
}
