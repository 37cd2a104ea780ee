#include "common/net/connect.h"
#include "proto/querier_v1.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct given {
    enum fg_http_method method;
    const char *type, *coding, *version, *timeout;
};

static unsigned check(const struct given *given, struct fg_connect_call *call, struct fg_err *err)
{
    struct fg_connect_head head = {
        .method = given->method,
        .content_type = given->type == NULL ? fg_bytes(NULL, 0) : fg_cstr(given->type),
        .content_encoding = given->coding == NULL ? fg_bytes(NULL, 0) : fg_cstr(given->coding),
        .protocol_version = given->version == NULL ? fg_bytes(NULL, 0) : fg_cstr(given->version),
        .timeout_ms = given->timeout == NULL ? fg_bytes(NULL, 0) : fg_cstr(given->timeout),
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
    {"json",              {FG_HTTP_POST, "application/json", NULL, NULL, NULL}, 200, true, false},
    {"json, utf-8",       {FG_HTTP_POST, "application/json; charset=utf-8", NULL, NULL, NULL}, 200, true, false},
    {"letters",           {FG_HTTP_POST, "Application/JSON;Charset=UTF-8", NULL, NULL, NULL}, 200, true, false},
    {"proto",             {FG_HTTP_POST, "application/proto", NULL, "1", NULL}, 200, false, false},
    {"gzip",              {FG_HTTP_POST, "application/proto", "gzip", "1", NULL}, 200, false, true},
    {"identity",          {FG_HTTP_POST, "application/proto", "identity", NULL, NULL}, 200, false, false},
    {"get",               {FG_HTTP_GET, "application/json", NULL, NULL, NULL}, 405, false, false},
    {"no type",           {FG_HTTP_POST, NULL, NULL, NULL, NULL}, 415, false, false},
    {"latin1",            {FG_HTTP_POST, "application/json; charset=latin1", NULL, NULL, NULL}, 415, false, false},
    {"text",              {FG_HTTP_POST, "text/plain", NULL, NULL, NULL}, 415, false, false},
    {"protobuf",          {FG_HTTP_POST, "application/protobuf", NULL, NULL, NULL}, 415, false, false},
    {"version 2",         {FG_HTTP_POST, "application/json", NULL, "2", NULL}, 400, false, false},
    {"brotli",            {FG_HTTP_POST, "application/json", "br", NULL, NULL}, 501, false, false},
    {"long timeout",      {FG_HTTP_POST, "application/json", NULL, NULL, "12345678901"}, 400, false, false},
    {"odd timeout",       {FG_HTTP_POST, "application/json", NULL, NULL, "5s"}, 400, false, false},
    {"negative timeout",  {FG_HTTP_POST, "application/json", NULL, NULL, "-5"}, 400, false, false},
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
        assert_int_equal(call.json, cases[i].json);
        assert_int_equal(call.gzip, cases[i].gzip);
    }
}

static void reads_timeouts(void **state)
{
    struct given given = {FG_HTTP_POST, "application/json", NULL, NULL, "1500"};
    struct fg_connect_call call;
    struct fg_err err;

    (void)state;
    assert_int_equal(check(&given, &call, &err), 200);
    assert_true(call.timeout_ns == 1500 * FG_MS_NS);
    given.timeout = NULL;
    assert_int_equal(check(&given, &call, &err), 200);
    assert_true(call.timeout_ns == INT64_MAX);
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
        cmocka_unit_test(checks_headers),
        cmocka_unit_test(reads_timeouts),
        cmocka_unit_test(reads_bodies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
