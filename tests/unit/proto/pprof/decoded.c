#include "tests/unit/proto/pprof/decoded.h"

#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024 };

struct fg_label decode_series[2] = {
    {FG_LIT("__name__"), FG_LIT("process_cpu")},
    {FG_LIT("service_name"), FG_LIT("shop")},
};

struct fg_pprof_request decode_plain_request(void)
{
    return (struct fg_pprof_request){
        .upload = {.labels = {decode_series, FG_COUNT(decode_series)},
                   .time_ns = 7000,
                   .duration_ns = 70,
                   .limits = FG_DECODE_LIMITS_DEFAULT},
    };
}

void decode_by(struct decoded *out, struct fg_slice in, const struct fg_pprof_request *request)
{
    *out = (struct decoded){.arena = fg_arena_create(ARENA_MAX_BYTES)};
    out->err.code = FG_OK;
    out->code =
        fg_pprof_decode(in, request, out->arena, &out->batch, &out->info, &out->counts, &out->err);
    if (out->code != FG_OK)
        assert_int_equal(out->err.code, out->code);
    else
        fg_batch_identify(&out->batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT(""));
}

void decode(struct decoded *out, struct fg_slice in)
{
    struct fg_pprof_request request = decode_plain_request();

    decode_by(out, in, &request);
    if (out->code != FG_OK)
        print_message("decode: %s\n", out->err.msg);
    assert_int_equal(out->code, FG_OK);
}

void decoded_done(struct decoded *decoded)
{
    fg_arena_destroy(decoded->arena);
}

void decode_expect_error(struct fg_slice in, const struct fg_pprof_request *request,
                         enum fg_code code, const char *text)
{
    struct decoded decoded;

    decode_by(&decoded, in, request);
    if (decoded.code != FG_OK && strstr(decoded.err.msg, text) == NULL)
        print_message("\"%s\" is not in \"%s\"\n", text, decoded.err.msg);
    assert_int_equal(decoded.code, code);
    assert_non_null(strstr(decoded.err.msg, text));
    decoded_done(&decoded);
}

void decoded_expect_folded(const struct decoded *decoded, uint32_t profile, uint32_t type,
                           const char *want)
{
    const struct fg_batch *batch = &decoded->batch;
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    assert_true(profile < batch->n_profiles);
    profile_folded(batch, &batch->profiles[profile], type, &text);
    fg_buf_putc(&text, 0);
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
}

void decoded_expect_text(struct fg_slice text, const char *want)
{
    if (!fg_slice_is(text, want))
        print_message("\"%.*s\" is not \"%s\"\n", FG_S(text), want);
    assert_true(fg_slice_is(text, want));
}
