/*
 * Content codings of answers (RFC 9110, 12.5.3). Compression takes milliseconds where a loop has
 * microseconds, so it is done on a worker: by the handler's job, or by a job of its own of the
 * QUERY lane. When that lane is full, the answer goes as it is.
 */
#include "common/net/http/impl.h"

#include <libdeflate.h>
#include <zstd.h>

enum {
    GZIP_LEVEL = 5, /* 1 is a fifth larger on our JSON, 9 takes four times as long */
    ZSTD_LEVEL = 3, /* zstd's default */
};

/* --- what the client takes --- */

/* Reads the weight in "gzip;q=0.5", in thousandths; 1000: there is none, 0: it cannot be read. */
static unsigned weight(struct fg_slice params)
{
    size_t equals = fg_slice_find(params, '=');
    double q;

    if (equals == SIZE_MAX || !fg_slice_is_nocase(fg_trim(fg_slice_sub(params, 0, equals)), "q"))
        return 1000;
    if (!fg_parse_f64(fg_trim(fg_slice_sub(params, equals + 1, params.len)), &q) || q <= 0)
        return 0;
    return q >= 1 ? 1000 : (unsigned)(q * 1000);
}

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
            wishes.gzip = weight(params);
        else if (fg_slice_is_nocase(name, "zstd"))
            wishes.zstd = weight(params);
        accepted = fg_slice_sub(accepted, end + 1, accepted.len);
    }
    return wishes;
}

bool fg_http_takes_gzip(const struct fg_http_request *req)
{
    return wishes_of(req).gzip > 0;
}

/* Returns the coding of a body of that size. */
static enum fg_http_coding coding_of(const struct fg_http_request *req, size_t len)
{
    struct wishes wishes;

    if (req->no_coding || len < HTTP_CODING_MIN_BYTES || req->method == FG_HTTP_HEAD)
        return HTTP_IDENTITY;
    wishes = wishes_of(req);
    if (wishes.gzip == 0 && wishes.zstd == 0)
        return HTTP_IDENTITY;
    return wishes.zstd >= wishes.gzip ? HTTP_ZSTD : HTTP_GZIP;
}

enum fg_http_coding fg_http_coding_for(const struct fg_http_request *req)
{
    if (req->status < 200 || req->status == 204 || req->status == 206 || req->status == 304 ||
        req->conn->owner->lent.work == NULL)
        return HTTP_IDENTITY;
    return coding_of(req, req->out.len);
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

/* Encodes the body by req->coding, which becomes HTTP_IDENTITY if that does not make it smaller. */
static void encode_body(struct fg_http_request *req, struct fg_buf *body)
{
    uint8_t *out;
    size_t len;

    if (fg_http_gone(req))
        return;
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

static enum fg_code coding_run(struct fg_job *job, struct fg_err *err)
{
    struct fg_http_request *req = fg_container(job, struct fg_http_request, job);

    (void)err;
    encode_body(req, &req->out);
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

    fg_http_coding_vary(req);
    req->job = (struct fg_job){.home = owner->loop, .run = coding_run, .done = coding_done};
    req->state = HTTP_CODING;
    return fg_work_submit(owner->lent.work, FG_LANE_QUERY, &req->job);
}
