/*
 * "Upgrade: h2c": a connection that began with HTTP/1.1 goes on with HTTP/2, its first request
 * being stream 1 (RFC 7540, 3.2; RFC 9113 has dropped it, but curl --http2 and old clients ask for
 * it). Whatever is not right about the wish is no error: the request is answered in HTTP/1.1.
 */
#include "common/base/base64url.h"
#include "common/net/http/http2.h"

enum {
    SETTINGS_MAX_BYTES = 6 * 32, /* what nghttp2 takes: 32 entries of 6 bytes */
};

/* Decodes the header HTTP2-Settings. Returns false if it is missing, is no base64url of whole
 * entries, or is longer than SETTINGS_MAX_BYTES. */
static bool read_settings(struct fg_slice text, uint8_t out[SETTINGS_MAX_BYTES], size_t *ret_len)
{
    *ret_len = fg_base64url_size(text.len);
    return text.ptr != NULL && *ret_len <= SETTINGS_MAX_BYTES && *ret_len % 6 == 0 &&
           fg_base64url_parse(text, out);
}

bool fg_http2_upgrade_wanted(const struct fg_http_request *req)
{
    const struct fg_http_conn *conn = req->conn;
    uint8_t settings[SETTINGS_MAX_BYTES];
    size_t len;

    return conn->owner->config.h2c_upgrade && !conn->secure && !conn->eof &&
           !conn->owner->draining && !req->http10 && fg_http_header_has(req, "Upgrade", "h2c") &&
           fg_http_header_has(req, "Connection", "Upgrade") &&
           fg_http_header_has(req, "Connection", "HTTP2-Settings") &&
           read_settings(fg_http_header(req, "HTTP2-Settings"), settings, &len);
}

void fg_http2_upgrade(struct fg_http_request *req, struct fg_slice rest)
{
    struct fg_http_conn *conn = req->conn;
    uint8_t settings[SETTINGS_MAX_BYTES];
    size_t len = 0;

    fg_assert(read_settings(fg_http_header(req, "HTTP2-Settings"), settings, &len));
    fg_http_conn_speak(conn, &fg_http2_protocol);
    fg_http2_begin_upgraded(req, fg_bytes(settings, len));
    if (rest.len > 0)
        fg_http_conn_input(conn, rest, conn->now_mono_ns);
}
