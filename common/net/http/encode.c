/*
 * Content codings of answers (RFC 9110, 12.5.3). Compression takes milliseconds where a loop has
 * microseconds, so it is done on a worker: by the handler's job, or by a job of its own of the
 * QUERY lane, in the flow that the handler has set. When that lane, or the flow's part of it, is
 * full, the answer goes as it is.
 *
 * A streamed answer is one gzip member (RFC 1952) or one zstd frame (RFC 8878), since browsers read
 * no second one. Its pieces are small and must be readable at once: they go into blocks that store
 * bytes as they are, which needs no compressor that lives as long as the stream, and costs the loop
 * a copy. Only the last piece is compressed, on a worker, from its own bytes alone:
 *
 *   gzip   head, stored block (RFC 1951, 3.2.4) for each piece, deflate of the last one, CRC, size
 *   zstd   magic and head, raw block for each piece, blocks of a frame made of the last one
 */
#include "common/net/http/impl.h"

#include <libdeflate.h>
#include <zstd.h>

enum {
    GZIP_LEVEL = 5,       /* 1 is a fifth larger on our JSON, 9 takes four times as long */
    ZSTD_LEVEL = 3,       /* zstd's default */
    ZSTD_WINDOW_LOG = 21, /* 2 MiB, what that level uses for large input */
    ZSTD_HEAD_BYTES = 6,  /* magic, descriptor, window: nothing else is said */
    ZSTD_BLOCK_MAX_BYTES = 128 * 1024, /* RFC 8878, 3.1.1.2.4 */
    DEFLATE_STORED_MAX_BYTES = 0xffff, /* RFC 1951, 3.2.4: a length of 16 bits */
    CODED_BLOCK_BYTES = 5,             /* before the bytes of a stored block, at most */
    CODED_ENDS_BYTES = 10 + 8,         /* head and trailer of gzip; zstd's head has 6 */
};

static const uint8_t gzip_head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}; /* deflate; no name */
/* No content size, no checksum, no dictionary; the window is 2^(10 + exponent) (3.1.1.1). */
static const uint8_t zstd_head[ZSTD_HEAD_BYTES] = {
    0x28, 0xb5, 0x2f, 0xfd, 0, (ZSTD_WINDOW_LOG - 10) << 3,
};

/* --- what the client takes --- */

/* How much the client wants each coding; 0: not at all. */
struct wishes {
    unsigned gzip, zstd;
};

static struct wishes wishes_of(const struct fg_http_request *req)
{
    struct fg_slice accepted = fg_http_header(req, "Accept-Encoding");
    struct wishes wishes = {0};

    while (accepted.len > 0) {
        size_t end = FG_MIN(fg_slice_find(accepted, ','), accepted.len);
        struct fg_slice item = fg_slice_sub(accepted, 0, end);
        size_t semicolon = FG_MIN(fg_slice_find(item, ';'), item.len);
        struct fg_slice name = fg_trim(fg_slice_sub(item, 0, semicolon));
        struct fg_slice params = fg_slice_sub(item, semicolon + 1, item.len);

        if (fg_slice_is_nocase(name, "gzip"))
            wishes.gzip = fg_http_weight(params);
        else if (fg_slice_is_nocase(name, "zstd"))
            wishes.zstd = fg_http_weight(params);
        accepted = fg_slice_sub(accepted, end + 1, accepted.len);
    }
    return wishes;
}

bool fg_http_takes_gzip(const struct fg_http_request *req)
{
    return wishes_of(req).gzip > 0;
}

/* Returns the coding that the client wants most of those we have. */
static enum fg_http_coding wanted(const struct fg_http_request *req)
{
    struct wishes wishes;

    if (req->no_coding)
        return HTTP_IDENTITY;
    wishes = wishes_of(req);
    if (wishes.gzip == 0 && wishes.zstd == 0)
        return HTTP_IDENTITY;
    return wishes.zstd >= wishes.gzip ? HTTP_ZSTD : HTTP_GZIP;
}

/* Returns the coding of a body of that size. */
static enum fg_http_coding coding_of(const struct fg_http_request *req, size_t len)
{
    return len < HTTP_CODING_MIN_BYTES || req->method == FG_HTTP_HEAD ? HTTP_IDENTITY : wanted(req);
}

enum fg_http_coding fg_http_coding_for(const struct fg_http_request *req)
{
    if (req->status < 200 || req->status == 204 || req->status == 206 || req->status == 304 ||
        req->conn->owner->lent.work == NULL)
        return HTTP_IDENTITY;
    return coding_of(req, req->out.len);
}

/* --- streams --- */

void fg_http_coding_stream(struct fg_http_request *req)
{
    req->coding = req->conn->owner->lent.work == NULL ? HTTP_IDENTITY : wanted(req);
    req->coded = (struct fg_http_coded){0};
    if (req->coding != HTTP_IDENTITY)
        fg_http_coding_vary(req);
}

static void put_stream_head(enum fg_http_coding coding, struct fg_http_coded *coded,
                            struct fg_buf *out)
{
    if (coded->begun)
        return;
    coded->begun = true;
    if (coding == HTTP_GZIP)
        fg_buf_append(out, gzip_head, sizeof gzip_head);
    else
        fg_buf_append(out, zstd_head, sizeof zstd_head);
}

/* Counts bytes for the trailer. */
static void count(struct fg_http_coded *coded, struct fg_slice bytes)
{
    if (bytes.len == 0)
        return; /* NULL would begin the checksum again */
    coded->crc = libdeflate_crc32(coded->crc, bytes.ptr, bytes.len);
    coded->bytes += (uint32_t)bytes.len; /* modulo 2^32 (RFC 1952, 2.3.1) */
}

static void put_trailer(enum fg_http_coding coding, const struct fg_http_coded *coded,
                        struct fg_buf *out)
{
    if (coding != HTTP_GZIP)
        return;
    fg_buf_le32(out, coded->crc);
    fg_buf_le32(out, coded->bytes);
}

/* Before bytes that are stored as they are. */
static void put_block_head(enum fg_http_coding coding, size_t len, bool final, struct fg_buf *out)
{
    /* deflate: BFINAL and BTYPE 00, the rest of the byte is unused, LEN, NLEN, little endian.
     * zstd: Last_Block, Block_Type 00 in two bits, Block_Size in 21. */
    uint32_t zstd = (uint32_t)len << 3 | final;
    uint8_t head[CODED_BLOCK_BYTES] = {(uint8_t) final};

    if (coding == HTTP_GZIP) {
        head[1] = (uint8_t)len;
        head[2] = (uint8_t)(len >> 8);
        head[3] = (uint8_t)~len;
        head[4] = (uint8_t)(~len >> 8);
        fg_buf_append(out, head, 5);
    } else {
        head[0] = (uint8_t)zstd;
        head[1] = (uint8_t)(zstd >> 8);
        head[2] = (uint8_t)(zstd >> 16);
        fg_buf_append(out, head, 3);
    }
}

static size_t stored_max(enum fg_http_coding coding)
{
    return coding == HTTP_GZIP ? DEFLATE_STORED_MAX_BYTES : ZSTD_BLOCK_MAX_BYTES;
}

void fg_http_coding_store(enum fg_http_coding coding, struct fg_http_coded *coded,
                          struct fg_slice piece, bool last, struct fg_buf *out)
{
    size_t blocks = piece.len / stored_max(coding) + 1;

    (void)fg_buf_reserve(out, piece.len + blocks * CODED_BLOCK_BYTES + CODED_ENDS_BYTES);
    put_stream_head(coding, coded, out);
    count(coded, piece);
    do {
        struct fg_slice part = fg_slice_sub(piece, 0, stored_max(coding));

        piece = fg_slice_sub(piece, part.len, SIZE_MAX);
        put_block_head(coding, part.len, last && piece.len == 0, out);
        fg_buf_put(out, part);
    } while (piece.len > 0);
    if (last)
        put_trailer(coding, coded, out);
}

void fg_http_coding_store_last(const struct fg_http_request *req, struct fg_buf *last)
{
    struct fg_http_coded coded = req->coded;
    struct fg_buf out;

    fg_buf_init(&out, SIZE_MAX);
    fg_http_coding_store(req->coding, &coded, fg_buf_slice(last), true, &out);
    fg_buf_done(last);
    *last = out;
}

/* --- on a worker: one set of contexts a thread, as they are large --- */

struct coders {
    struct libdeflate_compressor *gzip;
    ZSTD_CCtx *zstd;
};

static pthread_once_t coders_once = PTHREAD_ONCE_INIT;
static pthread_key_t coders_key;

static void coders_destroy(void *arg)
{
    struct coders *coders = arg;

    libdeflate_free_compressor(coders->gzip);
    ZSTD_freeCCtx(coders->zstd);
    free(coders);
}

static void coders_init(void)
{
    fg_assert(pthread_key_create(&coders_key, coders_destroy) == 0);
}

static struct coders *coders_of_thread(void)
{
    struct coders *coders;

    pthread_once(&coders_once, coders_init);
    coders = pthread_getspecific(coders_key);
    if (coders == NULL) {
        coders = fg_new(struct coders);
        coders->gzip = libdeflate_alloc_compressor(GZIP_LEVEL);
        coders->zstd = ZSTD_createCCtx();
        fg_assert(coders->gzip != NULL && coders->zstd != NULL);
        fg_assert(pthread_setspecific(coders_key, coders) == 0);
    }
    return coders;
}

/* Encodes into less than the original's length. Returns 0 if it does not get smaller. */
static size_t encode(enum fg_http_coding coding, struct fg_slice in, uint8_t *out)
{
    struct coders *coders = coders_of_thread();
    size_t len;

    if (coding == HTTP_GZIP)
        return libdeflate_gzip_compress(coders->gzip, in.ptr, in.len, out, in.len - 1);
    len = ZSTD_compressCCtx(coders->zstd, out, in.len - 1, in.ptr, in.len, ZSTD_LEVEL);
    return ZSTD_isError(len) ? 0 : len;
}

/* The rest of a stream's member or frame, to its end. Returns 0 if it does not get smaller. */
static size_t encode_rest(enum fg_http_coding coding, struct fg_slice in, uint8_t *out)
{
    struct coders *coders = coders_of_thread();
    size_t len;

    if (coding == HTTP_GZIP)
        return libdeflate_deflate_compress(coders->gzip, in.ptr, in.len, out, in.len - 1);
    fg_assert(ZSTD_isError(ZSTD_CCtx_reset(coders->zstd, ZSTD_reset_session_and_parameters)) == 0);
    (void)ZSTD_CCtx_setParameter(coders->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    (void)ZSTD_CCtx_setParameter(coders->zstd, ZSTD_c_windowLog, ZSTD_WINDOW_LOG);
    (void)ZSTD_CCtx_setParameter(coders->zstd, ZSTD_c_contentSizeFlag, 0);
    len = ZSTD_compress2(coders->zstd, out, in.len - 1, in.ptr, in.len);
    if (ZSTD_isError(len))
        return 0;
    /* The head was sent with the first piece. It promises no less than this one: its window, which
     * is as large, and no fields behind it. */
    fg_assert(len > ZSTD_HEAD_BYTES && memcmp(out, zstd_head, 5) == 0 && out[5] <= zstd_head[5]);
    memmove(out, out + ZSTD_HEAD_BYTES, len - ZSTD_HEAD_BYTES);
    return len - ZSTD_HEAD_BYTES;
}

/* Encodes the last piece of a stream, to the end of the coding. What the stream has had stays as it
 * is: the piece may still be refused, and another one be the last. */
static void code_last(const struct fg_http_request *req, struct fg_buf *last)
{
    struct fg_http_coded coded = req->coded;
    struct fg_slice in = fg_buf_slice(last);
    struct fg_buf out;
    size_t len;

    fg_buf_init(&out, SIZE_MAX);
    fg_assert(fg_buf_reserve(&out, CODED_ENDS_BYTES + in.len));
    put_stream_head(req->coding, &coded, &out);
    len = encode_rest(req->coding, in, out.ptr + out.len);
    if (len == 0) {
        fg_buf_done(&out);
        fg_http_coding_store_last(req, last);
        return;
    }
    out.len += len;
    count(&coded, in);
    put_trailer(req->coding, &coded, &out);
    fg_buf_done(last);
    out.ptr = fg_realloc(out.ptr, out.len);
    out.cap = out.len;
    *last = out;
}

/* Encodes the body by req->coding, which becomes HTTP_IDENTITY if that does not make it smaller, or
 * nobody is there any more. */
static void encode_body(struct fg_http_request *req, struct fg_buf *body)
{
    uint8_t *out;
    size_t len;

    if (fg_http_gone(req)) {
        req->coding = HTTP_IDENTITY;
        return;
    }
    out = fg_malloc(body->len);
    len = encode(req->coding, fg_buf_slice(body), out);
    if (len == 0) {
        free(out);
        req->coding = HTTP_IDENTITY;
        return;
    }
    free(body->ptr);
    *body =
        (struct fg_buf){.ptr = fg_realloc(out, len), .len = len, .cap = len, .max_bytes = SIZE_MAX};
}

bool fg_http_encode(struct fg_http_request *req, struct fg_buf *body)
{
    req->coding = coding_of(req, body->len);
    if (req->coding == HTTP_IDENTITY)
        return false;
    req->encoded = true;
    encode_body(req, body);
    return true;
}

unsigned fg_http_coding(const struct fg_http_request *req)
{
    return req->encoded ? req->coding : HTTP_IDENTITY;
}

void fg_http_set_coding(struct fg_http_request *req, unsigned coding)
{
    req->coding = (enum fg_http_coding)coding;
    req->encoded = coding != HTTP_IDENTITY;
}

bool fg_http_encode_last(struct fg_http_request *req, struct fg_buf *last)
{
    /* Small ones the loop frames as they are. */
    if (req->coding == HTTP_IDENTITY || last->len < HTTP_CODING_MIN_BYTES || fg_http_gone(req))
        return false;
    code_last(req, last);
    req->encoded = true;
    return true;
}

static enum fg_code coding_run(struct fg_job *job, struct fg_err *err)
{
    struct fg_http_request *req = fg_container(job, struct fg_http_request, job);

    (void)err;
    if (!req->streaming)
        encode_body(req, &req->out);
    else if (!fg_http_gone(req))
        code_last(req, &req->out);
    return FG_OK;
}

static void coding_done(struct fg_job *job)
{
    fg_http_finish(fg_container(job, struct fg_http_request, job));
}

void fg_http_coding_vary(struct fg_http_request *req)
{
    fg_buf_put(&req->extra, FG_LIT("Vary: Accept-Encoding\r\n"));
}

bool fg_http_coding_start(struct fg_http_request *req)
{
    struct fg_http_loop *owner = req->conn->owner;
    const struct fg_flow flow = {.id = req->flow};

    if (!req->streaming)
        fg_http_coding_vary(req);
    req->job = (struct fg_job){.home = owner->loop, .run = coding_run, .done = coding_done};
    req->state = HTTP_CODING;
    if (req->flow == 0)
        return fg_work_submit(owner->lent.work, FG_LANE_QUERY, &req->job);
    return fg_work_submit_flow(owner->lent.work, FG_LANE_QUERY, &flow, &req->job) ==
           FG_SUBMIT_QUEUED;
}
