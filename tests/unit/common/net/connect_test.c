#include "common/net/connect.h"
#include "proto/querier_v1.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct given {
    enum fg_http_method method;
    const char *type, *coding, *version, *timeout;
    const char *grpc_coding, *grpc_timeout;
};

static struct fg_slice header(const char *text)
{
    return text == NULL ? fg_bytes(NULL, 0) : fg_cstr(text);
}

static unsigned check(const struct given *given, struct fg_connect_call *call, struct fg_err *err)
{
    struct fg_connect_head head = {
        .method = given->method,
        .content_type = header(given->type),
        .content_encoding = header(given->coding),
        .protocol_version = header(given->version),
        .timeout_ms = header(given->timeout),
        .grpc_encoding = header(given->grpc_coding),
        .grpc_timeout = header(given->grpc_timeout),
    };

    return fg_connect_check(&head, call, err);
}

/* clang-format off */
static const struct {
    const char *name;
    struct given given;
    unsigned want;
    bool json, gzip;
} cases[] = {
    {"json",              {FG_HTTP_POST, "application/json", NULL, NULL, NULL, NULL, NULL}, 200, true, false},
    {"json, utf-8",       {FG_HTTP_POST, "application/json; charset=utf-8", NULL, NULL, NULL, NULL, NULL}, 200, true, false},
    {"letters",           {FG_HTTP_POST, "Application/JSON;Charset=UTF-8", NULL, NULL, NULL, NULL, NULL}, 200, true, false},
    {"proto",             {FG_HTTP_POST, "application/proto", NULL, "1", NULL, NULL, NULL}, 200, false, false},
    {"gzip",              {FG_HTTP_POST, "application/proto", "gzip", "1", NULL, NULL, NULL}, 200, false, true},
    {"identity",          {FG_HTTP_POST, "application/proto", "identity", NULL, NULL, NULL, NULL}, 200, false, false},
    {"get",               {FG_HTTP_GET, "application/json", NULL, NULL, NULL, NULL, NULL}, 405, false, false},
    {"no type",           {FG_HTTP_POST, NULL, NULL, NULL, NULL, NULL, NULL}, 415, false, false},
    {"latin1",            {FG_HTTP_POST, "application/json; charset=latin1", NULL, NULL, NULL, NULL, NULL}, 415, false, false},
    {"text",              {FG_HTTP_POST, "text/plain", NULL, NULL, NULL, NULL, NULL}, 415, false, false},
    {"protobuf",          {FG_HTTP_POST, "application/protobuf", NULL, NULL, NULL, NULL, NULL}, 415, false, false},
    {"version 2",         {FG_HTTP_POST, "application/json", NULL, "2", NULL, NULL, NULL}, 400, false, false},
    {"brotli",            {FG_HTTP_POST, "application/json", "br", NULL, NULL, NULL, NULL}, 501, false, false},
    {"long timeout",      {FG_HTTP_POST, "application/json", NULL, NULL, "12345678901", NULL, NULL}, 400, false, false},
    {"odd timeout",       {FG_HTTP_POST, "application/json", NULL, NULL, "5s", NULL, NULL}, 400, false, false},
    {"grpc",              {FG_HTTP_POST, "application/grpc", NULL, NULL, NULL, NULL, "5S"}, 200, false, false},
    {"grpc, json",        {FG_HTTP_POST, "application/grpc+json", "br", "2", NULL, "gzip", NULL}, 200, true, true},
    {"grpc, thrift",      {FG_HTTP_POST, "application/grpc+thrift", NULL, NULL, NULL, NULL, NULL}, 415, false, false},
    {"web",               {FG_HTTP_POST, "application/grpc-web", NULL, NULL, NULL, NULL, NULL}, 200, false, false},
    {"web, json",         {FG_HTTP_POST, "application/grpc-web+json", NULL, NULL, NULL, "gzip", "99999999H"}, 200, true, true},
    {"web, odd timeout",  {FG_HTTP_POST, "application/grpc-web+proto", NULL, NULL, NULL, NULL, "5s"}, 400, false, false},
    {"web, long timeout", {FG_HTTP_POST, "application/grpc-web+proto", NULL, NULL, NULL, NULL, "123456789S"}, 400, false, false},
    {"web, brotli",       {FG_HTTP_POST, "application/grpc-web+proto", NULL, NULL, NULL, "br", NULL}, 501, false, false},
    {"negative timeout",  {FG_HTTP_POST, "application/json", NULL, NULL, "-5", NULL, NULL}, 400, false, false},
};
/* clang-format on */

static void checks_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_connect_call call = {0};
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        assert_int_equal(check(&cases[i].given, &call, &err), cases[i].want);
        if (cases[i].want != 200)
            continue;
        assert_int_equal(call.json, cases[i].json);
        assert_int_equal(call.gzip, cases[i].gzip);
    }
}

static void reads_timeouts(void **state)
{
    struct given given = {FG_HTTP_POST, "application/json", NULL, NULL, "1500", NULL, NULL};
    struct fg_connect_call call;
    struct fg_err err;

    (void)state;
    assert_int_equal(check(&given, &call, &err), 200);
    assert_true(call.timeout_ns == 1500 * FG_MS_NS);
    given.timeout = NULL;
    assert_int_equal(check(&given, &call, &err), 200);
    assert_true(call.timeout_ns == INT64_MAX);
    given = (struct given){FG_HTTP_POST, "application/grpc-web", NULL, NULL, NULL, NULL, "250m"};
    assert_int_equal(check(&given, &call, &err), 200);
    assert_true(call.timeout_ns == 250 * FG_MS_NS);
}

/* Requests by gRPC-web: {start: 7}, 2 bytes. */
static void reads_frames(void **state)
{
    static const struct {
        const char *name;
        const char *bytes;
        size_t len;
        bool gzip;
        enum fg_code want;
    } frames[] = {
        {"one message", "\0\0\0\0\2\x08\7", 7, false, FG_OK},
        {"none", "", 0, false, FG_E_INVALID},
        {"cut in the head", "\0\0\0", 3, false, FG_E_INVALID},
        {"cut", "\0\0\0\0\2\x08", 6, false, FG_E_INVALID},
        {"longer than there is", "\0\xff\xff\xff\xff\x08\7", 7, false, FG_E_INVALID},
        {"two", "\0\0\0\0\0\0\0\0\0\0", 10, false, FG_E_INVALID},
        {"trailers", "\x80\0\0\0\2\x08\7", 7, false, FG_E_INVALID},
        {"compressed, unannounced", "\1\0\0\0\2\x08\7", 7, false, FG_E_INVALID},
        {"compressed, and not", "\1\0\0\0\2\x08\7", 7, true, FG_E_INVALID},
        {"plain all the same", "\0\0\0\0\2\x08\7", 7, true, FG_OK},
    };
    struct fg_arena *arena = fg_arena_create((size_t)1 << 20);
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(frames); i++) {
        struct fg_connect_call call = {.protocol = FG_CONNECT_GRPC_WEB,
                                       .gzip = frames[i].gzip,
                                       .body = fg_bytes(frames[i].bytes, frames[i].len)};
        ProtobufCMessage *message = NULL;

        print_message("  %s\n", frames[i].name);
        assert_int_equal(fg_connect_read(&call, &querier__v1__profile_types_request__descriptor,
                                         1024, arena, &message, &err),
                         frames[i].want);
        if (frames[i].want == FG_OK)
            assert_int_equal(((Querier__V1__ProfileTypesRequest *)message)->start, 7);
    }
    fg_arena_destroy(arena);
}

static void writes_frames(void **state)
{
    const struct fg_connect_call call = {.protocol = FG_CONNECT_GRPC_WEB};
    Querier__V1__ProfileTypesRequest message;
    struct fg_buf out;

    (void)state;
    querier__v1__profile_types_request__init(&message);
    message.start = 7;
    fg_buf_init(&out, 1024);
    fg_connect_write(&call, &message.base, NULL, &out);
    assert_int_equal(out.len, 7);
    assert_memory_equal(out.ptr, "\0\0\0\0\2\x08\7", 7);
    fg_buf_done(&out);
}

/* Inside of the frame, after the fields of the message. */
static void writes_extensions(void **state)
{
    struct fg_connect_call call = {.protocol = FG_CONNECT_GRPC_WEB};
    Querier__V1__ProfileTypesRequest message;
    struct fg_pb_extension extension = {1000, "more", &message.base};
    struct fg_buf out;

    (void)state;
    querier__v1__profile_types_request__init(&message);
    message.start = 7;
    fg_buf_init(&out, 1024);
    fg_connect_write(&call, &message.base, &extension, &out);
    assert_int_equal(out.len, 12);
    assert_memory_equal(out.ptr, "\0\0\0\0\7\x08\7\xc2\x3e\2\x08\7", 12);
    fg_buf_clear(&out);
    call = (struct fg_connect_call){.json = true};
    fg_connect_write(&call, &message.base, &extension, &out);
    assert_int_equal(out.len, strlen("{\"start\":\"7\",\"more\":{\"start\":\"7\"}}"));
    assert_memory_equal(out.ptr, "{\"start\":\"7\",\"more\":{\"start\":\"7\"}}", out.len);
    message.start = 0; /* a default is left out: no comma comes before the extension */
    fg_buf_clear(&out);
    fg_connect_write(&call, &message.base, &extension, &out);
    assert_int_equal(out.len, strlen("{\"more\":{}}"));
    assert_memory_equal(out.ptr, "{\"more\":{}}", out.len);
    fg_buf_done(&out);
}

/* A gzip member whose checksum is missing. */
static const uint8_t gzipped[] = {0x1f, 0x8b, 0x08, 0,    0,    0,    0,    0,    2,
                                  3,    0xab, 0x56, 0x2a, 0x2e, 0x49, 0x2c, 0x2a, 0x51,
                                  0xb2, 0x52, 0x32, 0x57, 0xaa, 0x05, 0};

static void reads_bodies(void **state)
{
    struct fg_arena *arena = fg_arena_create((size_t)1 << 20);
    struct fg_connect_call call = {.json = true, .body = FG_LIT("{\"start\":\"7\"}")};
    ProtobufCMessage *message;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_connect_read(&call, &querier__v1__profile_types_request__descriptor, 1024,
                                     arena, &message, &err),
                     FG_OK);
    assert_int_equal(((Querier__V1__ProfileTypesRequest *)message)->start, 7);

    /* Too long, by one byte. */
    assert_int_equal(fg_connect_read(&call, &querier__v1__profile_types_request__descriptor,
                                     call.body.len - 1, arena, &message, &err),
                     FG_E_INVALID);

    /* Damaged gzip, and something that is none. */
    call.gzip = true;
    assert_int_equal(fg_connect_read(&call, &querier__v1__profile_types_request__descriptor, 1024,
                                     arena, &message, &err),
                     FG_E_INVALID);
    call.body = fg_bytes(gzipped, sizeof gzipped);
    assert_int_equal(fg_connect_read(&call, &querier__v1__profile_types_request__descriptor, 1024,
                                     arena, &message, &err),
                     FG_E_INVALID);
    assert_non_null(strstr(err.msg, "decompress"));

    /* Nothing at all: the empty message as protobuf, an error as JSON. */
    call = (struct fg_connect_call){.json = false};
    assert_int_equal(fg_connect_read(&call, &querier__v1__profile_types_request__descriptor, 1024,
                                     arena, &message, &err),
                     FG_OK);
    call.json = true;
    assert_int_equal(fg_connect_read(&call, &querier__v1__profile_types_request__descriptor, 1024,
                                     arena, &message, &err),
                     FG_E_INVALID);
    assert_string_equal(err.msg,
                        "unmarshal message: zero-length payload is not a valid JSON object");
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_headers), cmocka_unit_test(reads_timeouts),
        cmocka_unit_test(reads_bodies),   cmocka_unit_test(reads_frames),
        cmocka_unit_test(writes_frames),  cmocka_unit_test(writes_extensions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
