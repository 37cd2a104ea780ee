/*
 * Unary calls over our HTTP server, POST /package.Service/Method, in the three protocols that a
 * Connect server speaks on the same path ("Connect Protocol Reference", "gRPC over HTTP2",
 * "gRPC-Web"; querier/API.md#connect):
 *
 *   Connect   the body is the bare message, protobuf or JSON; errors are JSON with a status
 *   gRPC-web  the message in a frame, the status in a last one; errors in headers alone
 *   gRPC      the same with trailers in place of the last frame; over HTTP/2
 *
 *     handler, on the loop:  if (!fg_connect_accept(req, now, timeout, &call)) return;  (answered)
 *     on a worker:           fg_connect_read() or fg_connect_message(), work, fg_connect_write()
 *     back on the loop:      fg_connect_respond() or fg_connect_refuse()
 *
 * Routes are registered for all methods, so that 405 gets the Allow header that clients expect.
 */
#ifndef FG_COMMON_NET_CONNECT_H
#define FG_COMMON_NET_CONNECT_H

#include "common/net/http.h"
#include "common/net/pbjson.h"

enum fg_connect_protocol { FG_CONNECT, FG_CONNECT_GRPC, FG_CONNECT_GRPC_WEB };

/* The headers that the protocols read. */
struct fg_connect_head {
    enum fg_http_method method;
    struct fg_slice content_type;
    struct fg_slice content_encoding, protocol_version, timeout_ms; /* Connect */
    struct fg_slice grpc_encoding, grpc_timeout;                    /* gRPC, gRPC-web */
};

struct fg_connect_call {
    enum fg_connect_protocol protocol;
    struct fg_slice content_type; /* the answer's too */
    struct fg_slice body;         /* as received */
    bool json;                    /* else protobuf; the answer is in the same */
    bool gzip;                    /* the body is compressed, or frames that say so are */
    int64_t timeout_ns;           /* the client's; INT64_MAX: none */
    int64_t deadline_mono_ns;
};

/* All methods a Connect route is registered for. */
enum {
    FG_CONNECT_METHODS =
        FG_HTTP_GET | FG_HTTP_POST | FG_HTTP_PUT | FG_HTTP_DELETE | FG_HTTP_OPTIONS | FG_HTTP_OTHER,
};

/*
 * Applies the rules of the protocols. Returns the status of the answer: 200 to go on, 405 and 415
 * without a body, otherwise the status of err. Pure.
 */
unsigned fg_connect_check(const struct fg_connect_head *head, struct fg_connect_call *ret_call,
                          struct fg_err *err) fg_must_check;

/*
 * Checks a request, on its loop. Returns false if the request was refused and answered. The
 * deadline is the client's or timeout_ns from now, whichever is earlier.
 */
bool fg_connect_accept(struct fg_http_request *req, int64_t now_mono_ns, int64_t timeout_ns,
                       struct fg_connect_call *ret_call) fg_must_check;

/*
 * Returns the bytes of the message, without frame and coding. At most max_bytes before and after
 * decompression. They are borrowed from the call's body or stored in `inflated`, which is
 * initialised. Any thread. FG_E_INVALID, FG_E_LIMIT.
 */
enum fg_code fg_connect_message(const struct fg_connect_call *call, size_t max_bytes,
                                struct fg_buf *inflated, struct fg_slice *ret_message,
                                struct fg_err *err) fg_must_check;

/* Parses the bytes of a message into the arena, which may need twenty times their size. Any thread.
 */
enum fg_code fg_connect_parse(const struct fg_connect_call *call, struct fg_slice bytes,
                              const ProtobufCMessageDescriptor *type, struct fg_arena *arena,
                              ProtobufCMessage **ret_message, struct fg_err *err) fg_must_check;

/* Does both. Any thread. */
enum fg_code fg_connect_read(const struct fg_connect_call *call,
                             const ProtobufCMessageDescriptor *type, size_t max_bytes,
                             struct fg_arena *arena, ProtobufCMessage **ret_message,
                             struct fg_err *err) fg_must_check;

/* Writes the body of the answer, with one more field unless `extension` is NULL. out->full: it did
 * not fit. Any thread. */
void fg_connect_write(const struct fg_connect_call *call, const ProtobufCMessage *message,
                      const struct fg_pb_extension *extension, struct fg_buf *out);

/*
 * Does the same for a message that the caller appends to `out` in the binary form, between the two
 * calls. fg_connect_begin() returns what fg_connect_end() takes. Not for calls in JSON.
 */
size_t fg_connect_begin(const struct fg_connect_call *call, struct fg_buf *out) fg_must_check;
void fg_connect_end(const struct fg_connect_call *call, size_t start, struct fg_buf *out);

/* Answers 200 with the body from fg_connect_write(), which is taken over. On the loop. */
void fg_connect_respond(struct fg_http_request *req, const struct fg_connect_call *call,
                        struct fg_buf *body);

/* Returns the error as clients know it: with the nearest of Connect's codes. */
struct fg_err fg_connect_known(const struct fg_err *err);

/* Answers with an error in the form of the protocol. Codes without a Connect code become the
 * nearest one. On the loop. */
void fg_connect_refuse(struct fg_http_request *req, const struct fg_connect_call *call,
                       const struct fg_err *err);

#endif
