/*
 * The Connect protocol's unary calls over our HTTP server ("Connect Protocol Reference"; query.md,
 * 12): POST /package.Service/Method, the body a bare message in protobuf or JSON.
 *
 *     handler, on the loop:   if (!fg_connect_accept(req, now, timeout, &call)) return;   it has
 * answered on a worker:            fg_connect_read(), work, fg_connect_write() back on the loop:
 * fg_connect_respond() or fg_connect_refuse()
 *
 * Routes are registered for all methods, so that 405 gets the Allow header that clients expect.
 */
#ifndef FG_COMMON_NET_CONNECT_H
#define FG_COMMON_NET_CONNECT_H

#include "common/net/http.h"
#include "common/net/pbjson.h"

/* What of a request the protocol looks at. */
struct fg_connect_head {
    enum fg_http_method method;
    struct fg_slice content_type, content_encoding, protocol_version, timeout_ms; /* headers */
};

struct fg_connect_call {
    struct fg_slice body; /* as received */
    bool json;            /* else protobuf; the answer is in the same */
    bool gzip;            /* the body is compressed */
    int64_t timeout_ns;   /* Connect-Timeout-Ms, INT64_MAX without */
    int64_t deadline_mono_ns;
};

/* All methods a Connect route is registered for. */
enum {
    FG_CONNECT_METHODS =
        FG_HTTP_GET | FG_HTTP_POST | FG_HTTP_PUT | FG_HTTP_DELETE | FG_HTTP_OPTIONS | FG_HTTP_OTHER,
};

/*
 * The rules, apart from any connection. Returns the status to answer with: 200 to go on; 405 and
 * 415 without a body; anything else is that of err.
 */
unsigned fg_connect_check(const struct fg_connect_head *head, struct fg_connect_call *ret_call,
                          struct fg_err *err) fg_must_check;

/*
 * Loop. false: the request was answered and is gone. The deadline is the client's, or timeout_ns
 * from now, whichever comes first.
 */
bool fg_connect_accept(struct fg_http_request *req, int64_t now_mono_ns, int64_t timeout_ns,
                       struct fg_connect_call *ret_call) fg_must_check;

/*
 * Any thread: the message, of at most max_bytes before and after decompression, in the arena (which
 * may need twenty times as much). FG_E_INVALID, FG_E_LIMIT.
 */
enum fg_code fg_connect_read(const struct fg_connect_call *call,
                             const ProtobufCMessageDescriptor *type, size_t max_bytes,
                             struct fg_arena *arena, ProtobufCMessage **ret_message,
                             struct fg_err *err) fg_must_check;

/* Any thread: the body of the answer. out->full says whether it fitted. */
void fg_connect_write(const struct fg_connect_call *call, const ProtobufCMessage *message,
                      struct fg_buf *out);

/* Loop: 200 with the body that fg_connect_write() made; taken over. */
void fg_connect_respond(struct fg_http_request *req, const struct fg_connect_call *call,
                        struct fg_buf *body);

/* Loop: the error as Connect's JSON. Codes that Connect has no status for become the nearest it
 * has. */
void fg_connect_refuse(struct fg_http_request *req, const struct fg_err *err);

#endif
