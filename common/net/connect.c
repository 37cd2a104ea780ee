#include "common/net/connect.h"

#include "common/base/cursor.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/net/inflate.h"

enum {
    CONNECT_TIMEOUT_DIGITS_MAX = 10, /* "Timeout", of the protocol reference */
    GRPC_TIMEOUT_DIGITS_MAX = 8,     /* "Timeout", of gRPC over HTTP2 */
    FRAME_HEAD_BYTES = 5,            /* u8 flags, u32 big-endian length */
    FRAME_COMPRESSED = 0x01,
    FRAME_TRAILERS = 0x80,
    STATUS_MAX_BYTES = 4096, /* of a frame of trailers */
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

/* The media types. Only JSON may have a charset. */
static const struct media {
    const char *name;
    enum fg_connect_protocol protocol;
    bool json;
} medias[] = {
    {"application/proto", FG_CONNECT, false},
    {"application/json", FG_CONNECT, true},
    {"application/grpc", FG_CONNECT_GRPC, false},
    {"application/grpc+proto", FG_CONNECT_GRPC, false},
    {"application/grpc+json", FG_CONNECT_GRPC, true},
    {"application/grpc-web", FG_CONNECT_GRPC_WEB, false},
    {"application/grpc-web+proto", FG_CONNECT_GRPC_WEB, false},
    {"application/grpc-web+json", FG_CONNECT_GRPC_WEB, true},
};

static bool check_content_type(struct fg_slice type, struct fg_connect_call *call)
{
    size_t semicolon = fg_slice_find(type, ';');
    struct fg_slice name = fg_trim(fg_slice_sub(type, 0, semicolon));

    for (size_t i = 0; i < FG_COUNT(medias); i++) {
        const struct media *media = &medias[i];

        if (!fg_slice_is_nocase(name, media->name))
            continue;
        call->protocol = media->protocol;
        call->json = media->json;
        call->content_type = name;
        return semicolon == SIZE_MAX ||
               (media->json && is_charset_utf8(fg_slice_sub(type, semicolon + 1, type.len)));
    }
    return false;
}

static enum fg_code check_timeout(struct fg_slice text, int64_t *ret_ns, struct fg_err *err)
{
    int64_t ms;

    *ret_ns = INT64_MAX;
    if (text.len == 0)
        return FG_OK;
    /* So many digits of milliseconds fit 64 bits of nanoseconds. */
    if (text.len > CONNECT_TIMEOUT_DIGITS_MAX)
        return fg_fail(err, FG_E_INVALID, "parse timeout: \"%.*s\" has >10 digits",
                       FG_S(fg_slice_sub(text, 0, 64)));
    if (!fg_parse_i64(text, &ms) || ms < 0)
        return fg_fail(err, FG_E_INVALID, "parse timeout: \"%.*s\" is not a number", FG_S(text));
    *ret_ns = ms * FG_MS_NS;
    return FG_OK;
}

/* Digits and a unit: hours, minutes, seconds, or thousandths of each other downwards. */
static enum fg_code check_grpc_timeout(struct fg_slice text, int64_t *ret_ns, struct fg_err *err)
{
    static const struct {
        char unit;
        int64_t ns;
    } units[] = {{'H', FG_HOUR_NS}, {'M', FG_MINUTE_NS}, {'S', FG_SECOND_NS},
                 {'m', FG_MS_NS},   {'u', 1000},         {'n', 1}};
    uint64_t count;

    *ret_ns = INT64_MAX;
    if (text.len == 0)
        return FG_OK;
    for (size_t i = 0; i < FG_COUNT(units); i++) {
        if (text.ptr[text.len - 1] != (uint8_t)units[i].unit ||
            text.len > GRPC_TIMEOUT_DIGITS_MAX + 1 ||
            !fg_parse_u64(fg_slice_sub(text, 0, text.len - 1), &count))
            continue;
        /* A year is as good as for ever, and adds up without overflow. */
        *ret_ns =
            FG_MIN((int64_t)count, INT64_C(365) * 24 * FG_HOUR_NS / units[i].ns) * units[i].ns;
        return FG_OK;
    }
    return fg_fail(err, FG_E_INVALID, "protocol error: invalid grpc-timeout \"%.*s\"",
                   FG_S(fg_slice_sub(text, 0, 64)));
}

static enum fg_code check_coding(struct fg_slice header, struct fg_connect_call *call,
                                 struct fg_err *err)
{
    struct fg_slice coding = fg_trim(header);

    call->gzip = fg_slice_is(coding, "gzip");
    if (coding.len > 0 && !call->gzip && !fg_slice_is(coding, "identity"))
        return fg_fail(err, FG_E_UNIMPLEMENTED,
                       "unknown compression \"%.*s\": supported encodings are gzip",
                       FG_S(fg_slice_sub(coding, 0, 64)));
    return FG_OK;
}

static enum fg_code check_headers(const struct fg_connect_head *head, struct fg_connect_call *call,
                                  struct fg_err *err)
{
    struct fg_slice version = head->protocol_version;

    if (call->protocol != FG_CONNECT)
        return check_coding(head->grpc_encoding, call, err) == FG_OK
                   ? check_grpc_timeout(head->grpc_timeout, &call->timeout_ns, err)
                   : err->code;
    /* Agents in Rust, Python, Ruby and .NET do not send the version. */
    if (version.len > 0 && !fg_slice_is(version, "1"))
        return fg_fail(err, FG_E_INVALID, "Connect-Protocol-Version must be \"1\": got \"%.*s\"",
                       FG_S(fg_slice_sub(version, 0, 64)));
    return check_coding(head->content_encoding, call, err) == FG_OK
               ? check_timeout(head->timeout_ms, &call->timeout_ns, err)
               : err->code;
}

unsigned fg_connect_check(const struct fg_connect_head *head, struct fg_connect_call *ret_call,
                          struct fg_err *err)
{
    *ret_call = (struct fg_connect_call){0};
    if (head->method != FG_HTTP_POST)
        return 405;
    if (!check_content_type(head->content_type, ret_call))
        return 415;
    if (check_headers(head, ret_call, err) != FG_OK)
        return fg_code_http(err->code);
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
        .grpc_encoding = fg_http_header(req, "grpc-encoding"),
        .grpc_timeout = fg_http_header(req, "grpc-timeout"),
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
        /* The protocol is known by now, so the error has its form. */
        fg_connect_refuse(req, ret_call, &err);
        return false;
    }
    fg_http_respond(req, status, NULL, NULL);
    return false;
}

/* --- bodies --- */

/* The one message of a request; *ret_gzip: it is compressed. */
static enum fg_code unframe(const struct fg_connect_call *call, struct fg_slice *body,
                            bool *ret_gzip, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(*body);
    uint8_t flags;

    *ret_gzip = call->gzip;
    if (call->protocol == FG_CONNECT)
        return FG_OK;
    flags = fg_cur_u8(&cur);
    *body = fg_cur_take(&cur, fg_cur_be32(&cur));
    /* The methods are unary: nobody would read a second message. */
    if (!fg_cur_end(&cur))
        return fg_fail(err, FG_E_INVALID,
                       "protocol error: a request is one frame, and nothing else");
    if ((flags & ~(unsigned)FRAME_COMPRESSED) != 0)
        return fg_fail(err, FG_E_INVALID, "protocol error: invalid frame flags %u", flags);
    *ret_gzip = (flags & FRAME_COMPRESSED) != 0;
    if (*ret_gzip && !call->gzip)
        return fg_fail(err, FG_E_INVALID, "protocol error: compressed frame without grpc-encoding");
    return FG_OK;
}

enum fg_code fg_connect_message(const struct fg_connect_call *call, size_t max_bytes,
                                struct fg_buf *inflated, struct fg_slice *ret_message,
                                struct fg_err *err)
{
    struct fg_slice body = call->body;
    bool gzip = false;
    enum fg_code code;

    if (unframe(call, &body, &gzip, err) != FG_OK)
        return err->code;
    /* The limit holds before and after decompression, since few bytes can inflate to very many. */
    if (body.len > max_bytes)
        return fg_fail(err, FG_E_INVALID, "message size %zu is larger than configured max %zu",
                       body.len, max_bytes);
    /* An empty body is an empty message in any coding. */
    if (gzip && body.len > 0) {
        code = fg_inflate(body, FG_CODING_GZIP, max_bytes, inflated, err);
        if (code != FG_OK)
            return err->code = fg_wrap(err, "decompress") == FG_E_LIMIT ? FG_E_LIMIT : FG_E_INVALID;
        body = fg_buf_slice(inflated);
    }
    *ret_message = body;
    return FG_OK;
}

enum fg_code fg_connect_parse(const struct fg_connect_call *call, struct fg_slice bytes,
                              const ProtobufCMessageDescriptor *type, struct fg_arena *arena,
                              ProtobufCMessage **ret_message, struct fg_err *err)
{
    enum fg_code code = call->json ? fg_pbjson_read(bytes, type, arena, ret_message, err)
                                   : fg_pb_read(bytes, type, arena, ret_message, err);

    return code == FG_OK ? FG_OK : fg_wrap(err, "unmarshal message");
}

enum fg_code fg_connect_read(const struct fg_connect_call *call,
                             const ProtobufCMessageDescriptor *type, size_t max_bytes,
                             struct fg_arena *arena, ProtobufCMessage **ret_message,
                             struct fg_err *err)
{
    struct fg_slice bytes = {NULL, 0};
    struct fg_buf inflated;
    enum fg_code code;

    fg_buf_init(&inflated, max_bytes);
    code = fg_connect_message(call, max_bytes, &inflated, &bytes, err);
    if (code == FG_OK)
        code = fg_connect_parse(call, bytes, type, arena, ret_message, err);
    fg_buf_done(&inflated);
    return code;
}

/* A frame's head, once the length of what follows is known. */
static void put_frame_head(uint8_t head[FRAME_HEAD_BYTES], uint8_t flags, size_t len)
{
    head[0] = flags;
    for (unsigned i = 0; i < 4; i++)
        head[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

size_t fg_connect_begin(const struct fg_connect_call *call, struct fg_buf *out)
{
    static const uint8_t head[FRAME_HEAD_BYTES];
    size_t start = out->len;

    if (call->protocol != FG_CONNECT)
        fg_buf_append(out, head, sizeof head);
    return start;
}

void fg_connect_end(const struct fg_connect_call *call, size_t start, struct fg_buf *out)
{
    /* A buffer that is full may lack even the head, and is not sent. */
    if (call->protocol != FG_CONNECT && !out->full)
        put_frame_head(out->ptr + start, 0, out->len - start - FRAME_HEAD_BYTES);
}

void fg_connect_write(const struct fg_connect_call *call, const ProtobufCMessage *message,
                      const struct fg_pb_extension *extension, struct fg_buf *out)
{
    size_t start = fg_connect_begin(call, out);

    if (call->json) {
        fg_pbjson_write(message, extension, out);
    } else {
        fg_pb_write(message, out);
        if (extension != NULL)
            fg_pb_write_extension(extension, out);
    }
    fg_connect_end(call, start, out);
}

/* --- answers --- */

static void respond(struct fg_http_request *req, const struct fg_connect_call *call,
                    struct fg_buf *body)
{
    char type[64];

    if (call->protocol != FG_CONNECT) {
        fg_http_no_coding(req); /* frames have a coding of their own */
        fg_http_add_header(req, "grpc-accept-encoding", "gzip");
    }
    /* The slice is the request's and has no NUL; names of media types are shorter than 64 bytes. */
    (void)snprintf(type, sizeof type, "%.*s", FG_S(call->content_type));
    fg_http_respond(req, 200, type, body);
}

void fg_connect_respond(struct fg_http_request *req, const struct fg_connect_call *call,
                        struct fg_buf *body)
{
    if (call->protocol == FG_CONNECT) {
        fg_http_add_header(req, "Accept-Encoding", "gzip");
    } else if (call->protocol == FG_CONNECT_GRPC) {
        fg_http_add_trailer(req, "grpc-status", "0");
    } else {
        static const char status[] = "grpc-status: 0\r\n";
        uint8_t head[FRAME_HEAD_BYTES];

        put_frame_head(head, FRAME_TRAILERS, sizeof status - 1);
        fg_buf_append(body, head, sizeof head);
        fg_buf_puts(body, status);
    }
    respond(req, call, body);
}

static void refuse_grpc(struct fg_http_request *req, const struct fg_connect_call *call,
                        const struct fg_err *err)
{
    struct fg_buf message;
    char number[16];

    fg_buf_init(&message, STATUS_MAX_BYTES);
    /* Percent-encoded, "Status-Message" of gRPC over HTTP2. */
    for (const char *c = err->msg; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~' || *c == '%')
            fg_buf_printf(&message, "%%%02X", (unsigned)(uint8_t)*c);
        else
            fg_buf_putc(&message, (uint8_t)*c);
    }
    fg_buf_putc(&message, '\0');
    /* The status of HTTP is 200 all the same: gRPC has the error in these fields. */
    (void)snprintf(number, sizeof number, "%u", fg_code_grpc(err->code));
    /* "Trailers-Only": nothing but headers, which is how an error may come in both. */
    fg_http_add_header(req, "grpc-status", number);
    if (!message.full)
        fg_http_add_header(req, "grpc-message", (const char *)message.ptr);
    fg_buf_done(&message);
    respond(req, call, NULL);
}

struct fg_err fg_connect_known(const struct fg_err *err)
{
    struct fg_err known = *err;

    if (known.code == FG_E_DECODE || known.code == FG_E_TOO_LARGE)
        known.code = FG_E_INVALID;
    return known;
}

void fg_connect_refuse(struct fg_http_request *req, const struct fg_connect_call *call,
                       const struct fg_err *err)
{
    const struct fg_err known = fg_connect_known(err);

    if (call->protocol == FG_CONNECT)
        fg_http_respond_error(req, &known);
    else
        refuse_grpc(req, call, &known);
}
