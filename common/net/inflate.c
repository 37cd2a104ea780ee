/*
 * libdeflate is twice as fast as zlib, but wants all of the output in one piece. So we guess its
 * size and double the guess until it fits, which costs at most as much again as the last try; the
 * gzip trailer's ISIZE makes the first guess right for honest senders. zstd streams, into the same
 * buffer.
 */
#include "common/net/inflate.h"

#include "common/base/str.h"

#include <libdeflate.h>
#include <pthread.h>
#include <zstd.h>

enum {
    DEFLATE_RATIO_MAX = 1032, /* 258 bytes from 2 bits, the best that deflate can do */
    GUESS_MIN_BYTES = 1024,
    GUESS_RATIO = 4,            /* usual for profiles */
    GZIP_MEMBER_MIN_BYTES = 18, /* header and trailer */
    ZSTD_WINDOW_LOG_MAX = 23,   /* 8 MiB, what RFC 8878 (3.1.1.1.2) asks decoders to support */
    ZSTD_STEP_BYTES = 64 * 1024,
};

/* --- contexts, one set a thread --- */

struct decoders {
    struct libdeflate_decompressor *deflate;
    ZSTD_DCtx *zstd;
};

static pthread_once_t decoders_once = PTHREAD_ONCE_INIT;
static pthread_key_t decoders_key;

static void decoders_destroy(void *arg)
{
    struct decoders *decoders = arg;

    libdeflate_free_decompressor(decoders->deflate);
    ZSTD_freeDCtx(decoders->zstd);
    free(decoders);
}

static void decoders_init(void)
{
    fg_assert(pthread_key_create(&decoders_key, decoders_destroy) == 0);
}

static struct decoders *decoders_of_thread(void)
{
    struct decoders *decoders;
    size_t failed;

    pthread_once(&decoders_once, decoders_init);
    decoders = pthread_getspecific(decoders_key);
    if (decoders != NULL)
        return decoders;
    decoders = fg_new(struct decoders);
    decoders->deflate = libdeflate_alloc_decompressor();
    decoders->zstd = ZSTD_createDCtx();
    fg_assert(decoders->deflate != NULL && decoders->zstd != NULL);
    failed = ZSTD_DCtx_setParameter(decoders->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
    fg_assert(!ZSTD_isError(failed));
    fg_assert(pthread_setspecific(decoders_key, decoders) == 0);
    return decoders;
}

/*
 * The buffer may hold one byte more than allowed while we work, so that "exactly full" and "more to
 * come" look different: with that byte it is too large.
 */
static enum fg_code too_large(struct fg_buf *out, struct fg_err *err)
{
    fg_assert(out->cap == out->max_bytes);
    out->len = out->max_bytes;
    return fg_fail(err, FG_E_TOO_LARGE, "decompressed size exceeds %zu bytes", out->max_bytes - 1);
}

/* --- gzip and zlib --- */

typedef enum libdeflate_result (*decompress_fn)(struct libdeflate_decompressor *, const void *,
                                                size_t, void *, size_t, size_t *, size_t *);

/* Plausible output of the rest of the input, at least a little. */
static size_t guess(struct fg_slice in, enum fg_coding coding)
{
    size_t most = in.len > SIZE_MAX / DEFLATE_RATIO_MAX ? SIZE_MAX : in.len * DEFLATE_RATIO_MAX;
    size_t isize;

    if (coding != FG_CODING_GZIP || in.len < GZIP_MEMBER_MIN_BYTES)
        return FG_MAX(in.len * GUESS_RATIO, GUESS_MIN_BYTES);
    isize = (size_t)in.ptr[in.len - 4] | (size_t)in.ptr[in.len - 3] << 8 |
            (size_t)in.ptr[in.len - 2] << 16 | (size_t)in.ptr[in.len - 1] << 24;
    return FG_MAX(FG_MIN(isize, most), GUESS_MIN_BYTES);
}

/* One member (gzip) or stream (zlib): appended to out, cut off the front of in. */
static enum fg_code inflate_member(struct fg_slice *in, enum fg_coding coding, struct fg_buf *out,
                                   struct fg_err *err)
{
    decompress_fn decompress =
        coding == FG_CODING_GZIP ? libdeflate_gzip_decompress_ex : libdeflate_zlib_decompress_ex;
    size_t room = FG_MIN(guess(*in, coding), out->max_bytes - out->len);
    size_t used = 0, made = 0;

    for (;;) {
        enum libdeflate_result result;

        fg_assert(fg_buf_reserve(out, room));
        /* The buffer may have grown by more than what was asked: use all of it. */
        room = out->cap - out->len;
        result = decompress(decoders_of_thread()->deflate, in->ptr, in->len, out->ptr + out->len,
                            room, &used, &made);
        if (result == LIBDEFLATE_SUCCESS)
            break;
        if (result != LIBDEFLATE_INSUFFICIENT_SPACE)
            return fg_fail(err, FG_E_DECODE, "damaged or truncated %s data",
                           coding == FG_CODING_GZIP ? "gzip" : "zlib");
        if (out->cap == out->max_bytes)
            return too_large(out, err);
        room = FG_MIN(room * 2, out->max_bytes - out->len);
    }
    out->len += made;
    *in = fg_slice_sub(*in, used, in->len);
    return FG_OK;
}

static enum fg_code inflate_deflate(struct fg_slice in, enum fg_coding coding, struct fg_buf *out,
                                    struct fg_err *err)
{
    do {
        if (inflate_member(&in, coding, out, err) != FG_OK)
            return err->code;
        if (out->len == out->max_bytes)
            return too_large(out, err);
    } while (in.len > 0 && coding == FG_CODING_GZIP);
    if (in.len > 0)
        return fg_fail(err, FG_E_DECODE, "%zu bytes after the end of the zlib data", in.len);
    return FG_OK;
}

/* --- zstd --- */

/* Room for the next piece; the claimed size of a frame when it is plausible. */
static bool zstd_room(struct fg_slice in, struct fg_buf *out)
{
    unsigned long long claimed = ZSTD_getFrameContentSize(in.ptr, in.len);
    size_t left = out->max_bytes - out->len;
    size_t room = FG_MAX(out->len, (size_t)ZSTD_STEP_BYTES);

    if (claimed != ZSTD_CONTENTSIZE_UNKNOWN && claimed != ZSTD_CONTENTSIZE_ERROR)
        room = (size_t)FG_MIN((unsigned long long)left, FG_MAX(claimed, 1ULL));
    return left > 0 && fg_buf_reserve(out, FG_MIN(room, left));
}

/* One frame, or a skippable one. */
static enum fg_code inflate_frame(struct fg_slice *in, struct fg_buf *out, struct fg_err *err)
{
    ZSTD_DCtx *zstd = decoders_of_thread()->zstd;
    ZSTD_inBuffer src = {in->ptr, in->len, 0};
    size_t hint;

    (void)ZSTD_DCtx_reset(zstd, ZSTD_reset_session_only);
    do {
        struct fg_slice rest = fg_slice_sub(*in, src.pos, in->len);
        ZSTD_outBuffer dst;

        if (out->len == out->cap && !zstd_room(rest, out))
            return too_large(out, err);
        dst = (ZSTD_outBuffer){out->ptr, out->cap, out->len};
        size_t before_in = src.pos, before_out = dst.pos;
        hint = ZSTD_decompressStream(zstd, &dst, &src);
        if (ZSTD_isError(hint))
            return fg_fail(err, FG_E_DECODE, "zstd data: %s", ZSTD_getErrorName(hint));
        out->len = dst.pos;
        if (hint > 0 && src.pos == before_in && dst.pos == before_out)
            return fg_fail(err, FG_E_DECODE, "truncated zstd data");
    } while (hint > 0);
    *in = fg_slice_sub(*in, src.pos, in->len);
    return FG_OK;
}

static enum fg_code inflate_zstd(struct fg_slice in, struct fg_buf *out, struct fg_err *err)
{
    do {
        if (inflate_frame(&in, out, err) != FG_OK)
            return err->code;
        if (out->len == out->max_bytes)
            return too_large(out, err);
    } while (in.len > 0);
    return FG_OK;
}

/* --- the whole --- */

enum fg_code fg_coding_parse(struct fg_slice header, enum fg_coding *ret_coding, struct fg_err *err)
{
    static const struct {
        const char *name;
        enum fg_coding coding;
    } names[] = {
        {"", FG_CODING_IDENTITY},   {"identity", FG_CODING_IDENTITY}, {"gzip", FG_CODING_GZIP},
        {"x-gzip", FG_CODING_GZIP}, {"deflate", FG_CODING_DEFLATE},   {"zstd", FG_CODING_ZSTD},
    };
    struct fg_slice name = fg_trim(header);

    for (size_t i = 0; i < FG_COUNT(names); i++) {
        if (fg_slice_is_nocase(name, names[i].name)) {
            *ret_coding = names[i].coding;
            return FG_OK;
        }
    }
    return fg_fail(err, FG_E_UNIMPLEMENTED, "unknown content coding \"%.*s\"",
                   FG_S(fg_slice_sub(name, 0, 64)));
}

enum fg_coding fg_coding_sniff(struct fg_slice bytes)
{
    if (fg_slice_starts(bytes, "\x1f\x8b"))
        return FG_CODING_GZIP;
    if (fg_slice_starts(bytes, "\x28\xb5\x2f\xfd"))
        return FG_CODING_ZSTD;
    return FG_CODING_IDENTITY;
}

enum fg_code fg_inflate(struct fg_slice in, enum fg_coding coding, size_t max_bytes,
                        struct fg_buf *out, struct fg_err *err)
{
    fg_assert(max_bytes < SIZE_MAX);
    fg_buf_clear(out);
    /* Memory from an earlier use may be larger than what is allowed now. */
    if (out->cap > max_bytes)
        fg_buf_done(out);
    out->max_bytes = max_bytes + (coding == FG_CODING_IDENTITY ? 0 : 1);
    switch (coding) {
    case FG_CODING_IDENTITY:
        fg_buf_put(out, in);
        if (out->full)
            return fg_fail(err, FG_E_TOO_LARGE, "size exceeds %zu bytes", max_bytes);
        return FG_OK;
    case FG_CODING_GZIP:
    case FG_CODING_DEFLATE:
        return inflate_deflate(in, coding, out, err);
    case FG_CODING_ZSTD:
        return inflate_zstd(in, out, err);
    }
    return fg_fail(err, FG_E_INTERNAL, "content coding %d", (int)coding);
}
