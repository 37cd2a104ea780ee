/* z_stream.next_in is const then. */
#define ZLIB_CONST

#include "common/net/inflate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

enum { LIMIT = 1 << 20 };

/* zlib's own compressor, so that libdeflate does not only understand itself. */
static void deflate_to(struct fg_buf *out, struct fg_slice in, bool gzip)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_true(fg_buf_reserve(out, deflateBound(&z, in.len) + 64));
    z.next_in = in.ptr;
    z.avail_in = (uInt)in.len;
    z.next_out = out->ptr + out->len;
    z.avail_out = (uInt)(out->cap - out->len);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->len += z.total_out;
    deflateEnd(&z);
}

/* stream: the frame does not say how large its content is. */
static void zstd_to(struct fg_buf *out, struct fg_slice in, bool stream, int window_log)
{
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    ZSTD_inBuffer src = {in.ptr, in.len, 0};
    ZSTD_outBuffer dst;

    assert_true(fg_buf_reserve(out, ZSTD_compressBound(in.len) + 64));
    dst = (ZSTD_outBuffer){out->ptr, out->cap, out->len};
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, !stream);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
    if (window_log > 0)
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, window_log);
    if (stream) /* a first piece by itself: or it would know the size after all */
        assert_false(ZSTD_isError(
            ZSTD_compressStream2(zstd, &dst, &(ZSTD_inBuffer){NULL, 0, 0}, ZSTD_e_flush)));
    assert_int_equal(ZSTD_compressStream2(zstd, &dst, &src, ZSTD_e_end), 0);
    out->len = dst.pos;
    ZSTD_freeCCtx(zstd);
}

static void encode(struct fg_buf *out, struct fg_slice in, enum fg_coding coding)
{
    if (coding == FG_CODING_ZSTD)
        zstd_to(out, in, false, 0);
    else if (coding == FG_CODING_IDENTITY)
        fg_buf_put(out, in);
    else
        deflate_to(out, in, coding == FG_CODING_GZIP);
}

struct fixture {
    struct fg_buf plain, packed, out;
    struct fg_err err;
};

static int setup(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    fg_buf_init(&f->plain, 64 << 20);
    fg_buf_init(&f->packed, 64 << 20);
    fg_buf_init(&f->out, 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fg_buf_done(&f->plain);
    fg_buf_done(&f->packed);
    fg_buf_done(&f->out);
    free(f);
    return 0;
}

static void fill(struct fg_buf *plain, size_t len)
{
    unsigned seed = 1;

    fg_buf_clear(plain);
    while (plain->len < len) {
        seed = seed * 1103515245 + 12345;
        fg_buf_putc(plain, (uint8_t)(seed >> 16 & 15));
    }
}

static enum fg_code inflate_packed(struct fixture *f, enum fg_coding coding, size_t max)
{
    return fg_inflate(fg_buf_slice(&f->packed), coding, max, &f->out, &f->err);
}

static void test_round_trips(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 1023, 1024, 1025, 65536, 300000, LIMIT};
    struct fixture *f = *state;

    for (enum fg_coding coding = FG_CODING_IDENTITY; coding <= FG_CODING_ZSTD; coding++) {
        for (size_t i = 0; i < FG_COUNT(sizes); i++) {
            print_message("  coding %d, %zu bytes\n", (int)coding, sizes[i]);
            fill(&f->plain, sizes[i]);
            fg_buf_clear(&f->packed);
            encode(&f->packed, fg_buf_slice(&f->plain), coding);
            /* The limit is exact: as large as the content is enough, one less is not. */
            assert_int_equal(inflate_packed(f, coding, sizes[i]), FG_OK);
            assert_true(fg_slice_eq(fg_buf_slice(&f->out), fg_buf_slice(&f->plain)));
            if (sizes[i] > 0)
                assert_int_equal(inflate_packed(f, coding, sizes[i] - 1), FG_E_TOO_LARGE);
        }
    }
}

static void test_several_members(void **state)
{
    struct fixture *f = *state;

    fill(&f->plain, 5000);
    for (int i = 0; i < 3; i++)
        deflate_to(&f->packed, fg_slice_sub(fg_buf_slice(&f->plain), 0, 5000), true);
    assert_int_equal(inflate_packed(f, FG_CODING_GZIP, LIMIT), FG_OK);
    assert_int_equal(f->out.len, 15000);
    assert_memory_equal(f->out.ptr + 10000, f->plain.ptr, 5000);
    assert_int_equal(inflate_packed(f, FG_CODING_GZIP, 14999), FG_E_TOO_LARGE);

    fg_buf_clear(&f->packed);
    zstd_to(&f->packed, fg_buf_slice(&f->plain), false, 0);
    fg_buf_append(&f->packed, "\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11); /* skippable frame */
    zstd_to(&f->packed, fg_buf_slice(&f->plain), true, 0);
    assert_int_equal(inflate_packed(f, FG_CODING_ZSTD, 10000), FG_OK);
    assert_int_equal(f->out.len, 10000);
    assert_int_equal(inflate_packed(f, FG_CODING_ZSTD, 9999), FG_E_TOO_LARGE);
}

/* 32 MiB of zeros, and a limit of 1 MiB: refused, and no more memory than the limit was asked for.
 */
static void test_bombs(void **state)
{
    struct fixture *f = *state;

    assert_true(fg_buf_reserve(&f->plain, 32 << 20));
    memset(f->plain.ptr, 0, 32 << 20);
    f->plain.len = 32 << 20;
    for (enum fg_coding coding = FG_CODING_GZIP; coding <= FG_CODING_ZSTD; coding++) {
        fg_buf_clear(&f->packed);
        encode(&f->packed, fg_buf_slice(&f->plain), coding);
        print_message("  coding %d: %zu bytes\n", (int)coding, f->packed.len);
        assert_int_equal(inflate_packed(f, coding, LIMIT), FG_E_TOO_LARGE);
        assert_true(f->out.cap <= LIMIT + 1);
        assert_int_equal(f->out.len, LIMIT + 1); /* what it has cost */
    }
    fg_buf_clear(&f->packed);
    zstd_to(&f->packed, fg_buf_slice(&f->plain), true, 0);
    assert_int_equal(inflate_packed(f, FG_CODING_ZSTD, LIMIT), FG_E_TOO_LARGE);
    assert_true(f->out.cap <= LIMIT + 1);
}

/* The trailer's size is the sender's word. */
static void test_lying_isize(void **state)
{
    struct fixture *f = *state;

    fill(&f->plain, 100000);
    deflate_to(&f->packed, fg_buf_slice(&f->plain), true);
    memcpy(f->packed.ptr + f->packed.len - 4, "\xff\xff\xff\xff", 4);
    assert_int_equal(inflate_packed(f, FG_CODING_GZIP, LIMIT), FG_E_DECODE);
    memcpy(f->packed.ptr + f->packed.len - 4, "\x01\x00\x00\x00", 4);
    assert_int_equal(inflate_packed(f, FG_CODING_GZIP, LIMIT), FG_E_DECODE);
}

static void test_truncated(void **state)
{
    struct fixture *f = *state;

    fill(&f->plain, 700);
    for (enum fg_coding coding = FG_CODING_GZIP; coding <= FG_CODING_ZSTD; coding++) {
        fg_buf_clear(&f->packed);
        encode(&f->packed, fg_buf_slice(&f->plain), coding);
        for (size_t len = 0; len < f->packed.len; len++) {
            uint8_t *copy = fg_malloc(FG_MAX(len, 1));

            memcpy(copy, f->packed.ptr, len);
            assert_int_equal(fg_inflate(fg_bytes(copy, len), coding, LIMIT, &f->out, &f->err),
                             FG_E_DECODE);
            free(copy);
        }
    }
}

static void test_trailing_garbage(void **state)
{
    struct fixture *f = *state;

    fill(&f->plain, 700);
    for (enum fg_coding coding = FG_CODING_GZIP; coding <= FG_CODING_ZSTD; coding++) {
        fg_buf_clear(&f->packed);
        encode(&f->packed, fg_buf_slice(&f->plain), coding);
        fg_buf_puts(&f->packed, "garbage that is longer than any header of a member");
        assert_int_equal(inflate_packed(f, coding, LIMIT), FG_E_DECODE);
    }
}

/* A window of 128 MiB costs that much memory wherever the frame does not say it needs less. */
static void test_large_window(void **state)
{
    struct fixture *f = *state;

    fill(&f->plain, 3000);
    zstd_to(&f->packed, fg_buf_slice(&f->plain), true, 27);
    assert_int_equal(inflate_packed(f, FG_CODING_ZSTD, LIMIT), FG_E_DECODE);
}

static void test_coding_names(void **state)
{
    enum fg_coding coding;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_coding_parse(fg_bytes(NULL, 0), &coding, &err), FG_OK);
    assert_int_equal(coding, FG_CODING_IDENTITY);
    assert_int_equal(fg_coding_parse(FG_LIT(" GZip "), &coding, &err), FG_OK);
    assert_int_equal(coding, FG_CODING_GZIP);
    assert_int_equal(fg_coding_parse(FG_LIT("zstd"), &coding, &err), FG_OK);
    assert_int_equal(coding, FG_CODING_ZSTD);
    assert_int_equal(fg_coding_parse(FG_LIT("gzip, gzip"), &coding, &err), FG_E_UNIMPLEMENTED);
    assert_int_equal(fg_coding_parse(FG_LIT("br"), &coding, &err), FG_E_UNIMPLEMENTED);
    assert_int_equal(fg_coding_sniff(FG_LIT("\x1f\x8b\x08")), FG_CODING_GZIP);
    assert_int_equal(fg_coding_sniff(FG_LIT("\x28\xb5\x2f\xfd")), FG_CODING_ZSTD);
    assert_int_equal(fg_coding_sniff(FG_LIT("\x0a")), FG_CODING_IDENTITY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_round_trips),  TEST(test_several_members), TEST(test_bombs),
        TEST(test_lying_isize),  TEST(test_truncated),       TEST(test_trailing_garbage),
        TEST(test_large_window), TEST(test_coding_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
