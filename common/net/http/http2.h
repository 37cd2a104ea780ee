/*
 * HTTP/2 (RFC 9113) among its files, on nghttp2, which reads and writes frames, keeps windows and
 * HPACK's tables, and refuses what breaks the rules. We do what it cannot know: memory,
 * time, floods, and the fate of a request.
 *
 *     http2.c          the connection: events, timeouts, the end
 *     http2_in.c       requests, as nghttp2's callbacks bring them
 *     http2_out.c      answers, and what of them leaves in one write
 *     http2_meter.c    counts frames that cost the peer nothing
 *     http2_upgrade.c  "Upgrade: h2c": from HTTP/1.1 in the middle of a connection
 *
 * A request belongs to the connection's list from its first header until its stream is closed and
 * nobody has it any more: no handler, no worker, no write under way. A stream that the peer resets
 * leaves its request behind (stream_id 0) with its handler or worker, and fg_http_gone() tells
 * them.
 *
 * Flow control is the back-pressure: we always read, but a stream's window is only opened again by
 * as many bytes as the budget of requests has admitted. The first window of a stream
 * (STREAM_WINDOW) is given unasked, as a round trip for each upload would cost more: what comes
 * into it without being admitted is thrown away, never kept.
 */
#ifndef FG_COMMON_NET_HTTP2_H
#define FG_COMMON_NET_HTTP2_H

#include "common/net/http/impl.h"

#include <nghttp2/nghttp2.h>

/* Frames on the wire, seen before nghttp2 sees them. */
struct fg_http2_meter {
    uint8_t head[9]; /* of the frame that is arriving */
    unsigned n_head;
    size_t skip; /* bytes until the next frame's head: payload, or the preface */
    double tokens;
    uint64_t updates, pings; /* that the peer owes us */
    int64_t refilled_mono_ns;
};

void fg_http2_meter_init(struct fg_http2_meter *meter, int64_t now_mono_ns);
/* false: too many cheap frames. */
bool fg_http2_meter_count(struct fg_http2_meter *meter, struct fg_slice bytes, int64_t now_mono_ns);
/* A request was answered: the next one is welcome. */
void fg_http2_meter_answered(struct fg_http2_meter *meter);
/* A DATA frame with bytes was given to the peer, which opens windows for it. */
void fg_http2_meter_sent_data(struct fg_http2_meter *meter);

/* A part of a write: bytes of an answer's body, or of the control buffer (req NULL). */
struct fg_http2_piece {
    struct fg_http_request *req;
    bool of_stream; /* of req->stream, not of req->out */
    size_t at, len; /* in that, or in control */
};

/* How the server's end reaches the peer (RFC 9113, 6.8), one after the other. */
enum fg_http2_stage {
    HTTP2_RUNNING,
    HTTP2_NOTICED, /* it knows that we stop; streams that it opened meanwhile are served */
    HTTP2_ENDING,  /* no new streams; closed when the last one is done */
};

struct fg_http2 {
    nghttp2_session *session;
    enum fg_http2_stage stage;
    int64_t notice_mono_ns;
    bool pumping; /* who began will write */
    bool broken;  /* the last GOAWAY is on its way; nothing is read any more */
    bool left;    /* the peer took leave, in words that nghttp2 takes for an error */
    struct fg_http2_meter meter;

    struct fg_http_request *first; /* all requests, newest first */
    unsigned n_requests;
    int64_t idle_mono_ns;             /* since when there is none */
    struct fg_http_request *complete; /* those to be handed over, oldest first */
    struct fg_http_request **complete_last;
    unsigned n_bodies;      /* being received, */
    int64_t bodies_mono_ns; /* since when without a pause, */
    uint64_t bodies_bytes;  /* and what came meanwhile */

    size_t list_bytes;     /* of the header list being received, as RFC 9113, 6.5.2 counts */
    struct fg_buf control; /* frames of the write under way, without the bodies */
    struct fg_http2_piece pieces[HTTP_WRITE_BUFS];
    unsigned n_pieces;
    size_t batch_bytes;
};

/* --- http2.c --- */

/* Forgets a request that nobody has any more. */
void fg_http2_drop(struct fg_http_conn *conn, struct fg_http_request *req);
/* The body is complete, or will not be waited for. */
void fg_http2_body_end(struct fg_http_conn *conn, struct fg_http_request *req);
/* Says that HTTP/2 is spoken from here on, and works on the request as stream 1. */
void fg_http2_begin_upgraded(struct fg_http_request *req, struct fg_slice settings);
/* A last GOAWAY, then the connection is closed. */
void fg_http2_break(struct fg_http_conn *conn, uint32_t error_code);

/* --- http2_in.c --- */

void fg_http2_in_callbacks(nghttp2_session_callbacks *callbacks);
/* Takes the request into the connection's list. */
void fg_http2_request_begin(struct fg_http_conn *conn, struct fg_http_request *req,
                            int32_t stream_id);
/* Nothing more comes of it: it is handed over when nghttp2 has returned. */
void fg_http2_request_complete(struct fg_http_request *req);
/* Answers a request whose body may still come; what comes of it is thrown away. */
void fg_http2_refuse(struct fg_http_request *req, enum fg_http_refusal why);

/* --- http2_out.c --- */

void fg_http2_out_callbacks(nghttp2_session_callbacks *callbacks);
void fg_http2_submit_continue(struct fg_http_request *req);
void fg_http2_submit_answer(struct fg_http_request *req);
/* The same of an answer that is streamed: it begins; there is more of it, or its end. */
void fg_http2_submit_stream(struct fg_http_request *req);
void fg_http2_resume_stream(struct fg_http_request *req);
void fg_http2_control_put(struct fg_http2 *h2, struct fg_slice bytes);
/* Writes what nghttp2 and the windows let us; false: nothing more now. */
bool fg_http2_write_batch(struct fg_http_conn *conn);
/* Notes that all bytes given to the socket have left. */
void fg_http2_release_batch(struct fg_http_conn *conn);

#endif
