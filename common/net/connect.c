#include "common/net/connect.h"

#include "common/base/str.h"
#include "common/net/inflate.h"

enum {
    CONNECT_TIMEOUT_DIGITS_MAX = 10, /* "Timeout", of the protocol reference */
};

/* The forms that a server of these services is known to speak, gRPC's included. */
static const char accept_post[] =
    "application/grpc, application/grpc+json, application/grpc+json; charset=utf-8, "
    "application/grpc+proto, application/grpc-web, application/grpc-web+json, "
    "application/grpc-web+json; charset=utf-8, application/grpc-web+proto, application/json, "
    "application/json; charset=utf-8, application/proto";

/* --- the rules --- */

static bool is_charset_utf8(struct fg_slice param)
{
    size_t equals = fg_slice_find(param, '=');

    if (equals == SIZE_MAX ||
        !fg_slice_is_nocase(fg_trim(fg_slice_sub(param, 0, equals)), "charset"))
        return false;
    struct fg_slice value = fg_trim(fg_slice_sub(param, equals + 1, param.len));
    return fg_slice_is_nocase(value, "utf-8") || fg_slice_is_nocase(value, "\"utf-8\"");
}

/* application/proto, application/json and the latter with charset=utf-8; nothing else. */
static bool check_content_type(struct fg_slice type, bool *ret_json)
{
    size_t semicolon = fg_slice_find(type, ';');
    struct fg_slice media = fg_trim(fg_slice_sub(type, 0, semicolon));

    if (fg_slice_is_nocase(media, "application/proto") && semicolon == SIZE_MAX) {
        *ret_json = false;
        return true;
    }
    if (!fg_slice_is_nocase(media, "application/json"))
        return false;
    *ret_json = true;
    return semicolon == SIZE_MAX || is_charset_utf8(fg_slice_sub(type, semicolon + 1, type.len));
}

static enum fg_code check_timeout(struct fg_slice text, int64_t *ret_ns, struct fg_err *err)
{
    int64_t ms;

    *ret_ns = INT64_MAX;
    if (text.len == 0)
        return FG_OK;
    if (text.len > CONNECT_TIMEOUT_DIGITS_MAX)
        return fg_fail(err, FG_E_INVALID, "parse timeout: \"%.*s\" has >10 digits",
                       FG_S(fg_slice_sub(text, 0, 64)));
    if (!fg_parse_i64(text, &ms) || ms < 0)
        return fg_fail(err, FG_E_INVALID, "parse timeout: \"%.*s\" is not a number", FG_S(text));
    *ret_ns = ms * FG_MS_NS;
    return FG_OK;
}

static enum fg_code check_headers(const struct fg_connect_head *head, struct fg_connect_call *call,
                                  struct fg_err *err)
{
    struct fg_slice version = head->protocol_version, coding = fg_trim(head->content_encoding);

    /* Agents in Rust, Python, Ruby and .NET do not send the version. */
    if (version.len > 0 && !fg_slice_is(version, "1"))
        return fg_fail(err, FG_E_INVALID, "Connect-Protocol-Version must be \"1\": got \"%.*s\"",
                       FG_S(fg_slice_sub(version, 0, 64)));
    call->gzip = fg_slice_is(coding, "gzip");
    if (coding.len > 0 && !call->gzip && !fg_slice_is(coding, "identity"))
        return fg_fail(err, FG_E_UNIMPLEMENTED,
                       "unknown compression \"%.*s\": supported encodings are gzip",
                       FG_S(fg_slice_sub(coding, 0, 64)));
    return check_timeout(head->timeout_ms, &call->timeout_ns, err);
}

unsigned fg_connect_check(const struct fg_connect_head *head, struct fg_connect_call *ret_call,
                          struct fg_err *err)
{
    struct fg_connect_call call = {0};

    if (head->method != FG_HTTP_POST)
        return 405;
    if (!check_content_type(head->content_type, &call.json))
        return 415;
    if (check_headers(head, &call, err) != FG_OK)
        return fg_code_http(err->code);
    *ret_call = call;
    return 200;
}

bool fg_connect_accept(struct fg_http_request *req, int64_t now_mono_ns, int64_t timeout_ns,
                       struct fg_connect_call *ret_call)
{
    struct fg_connect_head head = {
        .method = fg_http_method(req),
        .content_type = fg_http_header(req, "content-type"),
        .content_encoding = fg_http_header(req, "content-encoding"),
        .protocol_version = fg_http_header(req, "connect-protocol-version"),
        .timeout_ms = fg_http_header(req, "connect-timeout-ms"),
    };
    struct fg_err err;
    unsigned status = fg_connect_check(&head, ret_call, &err);

    if (status == 200) {
        ret_call->body = fg_http_body(req);
        ret_call->deadline_mono_ns = now_mono_ns + FG_MIN(timeout_ns, ret_call->timeout_ns);
        return true;
    }
    if (status == 405)
        fg_http_add_header(req, "Allow", "POST");
    else if (status == 415)
        fg_http_add_header(req, "Accept-Post", accept_post);
    else {
        fg_connect_refuse(req, &err);
        return false;
    }
    fg_http_respond(req, status, NULL, NULL);
    return false;
}

/* --- bodies --- */

static enum fg_code read_body(const struct fg_connect_call *call, struct fg_slice body,
                              const ProtobufCMessageDescriptor *type, size_t max_bytes,
                              struct fg_arena *arena, ProtobufCMessage **ret_message,
                              struct fg_err *err)
{
    if (body.len > max_bytes)
        return fg_fail(err, FG_E_INVALID, "message size %zu is larger than configured max %zu",
                       body.len, max_bytes);
    enum fg_code code = call->json ? fg_pbjson_read(body, type, arena, ret_message, err)
                                   : fg_pb_read(body, type, arena, ret_message, err);
    if (code != FG_OK)
        return fg_wrap(err, "unmarshal message");
    return FG_OK;
}

enum fg_code fg_connect_read(const struct fg_connect_call *call,
                             const ProtobufCMessageDescriptor *type, size_t max_bytes,
                             struct fg_arena *arena, ProtobufCMessage **ret_message,
                             struct fg_err *err)
{
    struct fg_buf inflated;

    /* An empty body is an empty message in any coding. */
    if (!call->gzip || call->body.len == 0)
        return read_body(call, call->body, type, max_bytes, arena, ret_message, err);
    fg_buf_init(&inflated, max_bytes);
    enum fg_code code = fg_inflate(call->body, FG_CODING_GZIP, max_bytes, &inflated, err);
    if (code != FG_OK)
        code = err->code = fg_wrap(err, "decompress") == FG_E_LIMIT ? FG_E_LIMIT : FG_E_INVALID;
    else
        code = read_body(call, fg_buf_slice(&inflated), type, max_bytes, arena, ret_message, err);
    fg_buf_done(&inflated);
    return code;
}

void fg_connect_write(const struct fg_connect_call *call, const ProtobufCMessage *message,
                      struct fg_buf *out)
{
    if (call->json)
        fg_pbjson_write(message, out);
    else
        fg_pb_write(message, out);
}

/* --- answers --- */

void fg_connect_respond(struct fg_http_request *req, const struct fg_connect_call *call,
                        struct fg_buf *body)
{
    fg_http_add_header(req, "Accept-Encoding", "gzip");
    fg_http_respond(req, 200, call->json ? "application/json" : "application/proto", body);
}

void fg_connect_refuse(struct fg_http_request *req, const struct fg_err *err)
{
    struct fg_err known = *err;

    if (known.code == FG_E_DECODE || known.code == FG_E_TOO_LARGE)
        known.code = FG_E_INVALID;
    fg_http_respond_error(req, &known);
}
