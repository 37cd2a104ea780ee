#include "tests/unit/proto/otlp/decoded.h"

#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum fg_code decoded_on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct decoded *decoded = arg;

    if (++decoded->batches == decoded->fail_at)
        return fg_fail(err, decoded->fail_code, "the sink says no");
    fg_batch_identify(batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT(""));
    batch_describe(batch, &decoded->text);
    return FG_OK;
}

struct fg_otlp_request decode_plain_request(enum fg_otlp_form form)
{
    return (struct fg_otlp_request){
        .upload = {.time_ns = 7000, .limits = FG_DECODE_LIMITS_DEFAULT},
        .form = form,
    };
}

void decode_by(struct decoded *out, struct fg_slice in, const struct fg_otlp_request *request)
{
    struct decoded fresh = {.arena = fg_arena_create(DECODE_ARENA_MAX_BYTES),
                            .fail_at = out->fail_at,
                            .fail_code = out->fail_code};

    *out = fresh;
    out->err.code = FG_OK;
    fg_buf_init(&out->text, SIZE_MAX);
    out->code = fg_otlp_decode(in, request, out->arena, decoded_on_batch, out, &out->result,
                               &out->counts, &out->err);
    if (out->code != FG_OK)
        assert_int_equal(out->err.code, out->code);
    fg_buf_putc(&out->text, 0);
}

void decoded_done(struct decoded *decoded)
{
    fg_arena_destroy(decoded->arena);
    fg_buf_done(&decoded->text);
}

char *decode_json_of(const char *text)
{
    size_t len = strlen(text);
    char *json = memcpy(fg_malloc(len + 1), text, len + 1);

    for (size_t i = 0; i < len; i++)
        if (json[i] == '\'')
            json[i] = '"';
    return json;
}

void decode_limited(struct decoded *out, const char *text, const struct fg_decode_limits *limits)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_JSON);
    char *json = decode_json_of(text);

    request.upload.limits = *limits;
    decode_by(out, fg_cstr(json), &request);
    free(json);
}

void decode(struct decoded *out, const char *text)
{
    decode_limited(out, text, &(struct fg_decode_limits)FG_DECODE_LIMITS_DEFAULT);
}

void decoded_expect_text(const struct decoded *decoded, const char *want)
{
    if (decoded->code != FG_OK)
        print_message("%s\n", decoded->err.msg);
    assert_int_equal(decoded->code, FG_OK);
    assert_string_equal((const char *)decoded->text.ptr, want);
}

void decode_expect_text(const char *text, const char *want)
{
    struct decoded decoded = {0};

    decode(&decoded, text);
    decoded_expect_text(&decoded, want);
    decoded_done(&decoded);
}

void decode_expect_error(const char *text, enum fg_code code, const char *why)
{
    struct decoded decoded = {0};

    decode(&decoded, text);
    if (decoded.code != FG_OK && strstr(decoded.err.msg, why) == NULL)
        print_message("\"%s\" is not in \"%s\"\n", why, decoded.err.msg);
    assert_int_equal(decoded.code, code);
    assert_non_null(strstr(decoded.err.msg, why));
    assert_int_equal(decoded.batches, 0);
    decoded_done(&decoded);
}
