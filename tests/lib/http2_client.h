/*
 * An HTTP/2 client that sends whatever a test wants, frame by frame, over a blocking socket; only
 * HPACK is nghttp2's. What is heard is sorted by stream. For cmocka: what must not fail is
 * asserted.
 */
#ifndef FG_TESTS_LIB_HTTP2_CLIENT_H
#define FG_TESTS_LIB_HTTP2_CLIENT_H

#include "common/base/buf.h"

#include <nghttp2/nghttp2.h>
#include <sys/types.h>

enum {
    H2_PREFACE_BYTES = 24,
    H2_FRAME_MAX_BYTES = 16384,
    H2_STREAMS_MAX = 512, /* that one client hears of */
    H2_STILL_OPEN = -1,   /* of struct h2_answer */
};

struct h2_answer {
    int32_t stream;
    unsigned status;   /* 0: none came; of the last head that was no 1xx */
    unsigned n_100;    /* "100 Continue" */
    char fields[2048]; /* "name: value\n", pseudo-headers too */
    char trailers[1024];
    struct fg_buf body;
    bool ended;        /* END_STREAM */
    int64_t reset;     /* code of RST_STREAM, or H2_STILL_OPEN */
    unsigned n_frames; /* of DATA */
    int64_t opened;    /* sum of its WINDOW_UPDATEs */
    int64_t sent;      /* by h2_upload() */
};

struct h2_client {
    int fd;
    /* Over the socket unless a test replaces them (TLS). */
    ssize_t (*send)(struct h2_client *client, const void *bytes, size_t len);
    ssize_t (*recv)(struct h2_client *client, void *bytes, size_t len);
    void *tls;
    bool stingy; /* opens no windows for what it hears */
    bool silent; /* nor acknowledges settings */
    nghttp2_hd_inflater *inflater;
    struct h2_answer *answers;
    unsigned n_answers;
    bool settings_heard, settings_acked;
    int64_t goaway; /* code of the last one, or H2_STILL_OPEN */
    int32_t goaway_last;
    unsigned n_pongs;
    int64_t window, first_window; /* what we may send: on the connection; on a new stream */
    int32_t last_stream;          /* of the last frame heard */
};

/* Preface and an empty SETTINGS; the answers are heard later. */
void h2_open(struct h2_client *client, int fd);
/* The same without a byte sent. */
void h2_init(struct h2_client *client, int fd);
void h2_close(struct h2_client *client);

void h2_say(struct h2_client *client, const void *bytes, size_t len);
void h2_preface(struct h2_client *client);
void h2_frame(struct h2_client *client, unsigned type, unsigned flags, int32_t stream,
              const void *payload, size_t len);
/* Frames of 16 KiB at most, the last one with END_STREAM if so wanted. */
void h2_data(struct h2_client *client, int32_t stream, const void *bytes, size_t len, bool end);
/* Sends what the windows allow and reads until they allow more; ends early once it is answered. */
void h2_upload(struct h2_client *client, int32_t stream, const void *bytes, size_t len, bool end);
void h2_reset(struct h2_client *client, int32_t stream, uint32_t code);
void h2_window(struct h2_client *client, int32_t stream, uint32_t by);
/* One setting. */
void h2_setting(struct h2_client *client, unsigned id, uint32_t value);

/* A field, literally and not for the table (RFC 7541, 6.2.2). */
void h2_put_field(struct fg_buf *block, const char *name, const char *value);
/* :method, :path, :scheme and :authority, then name, value, name, value, NULL. */
void h2_put_request(struct fg_buf *block, const char *method, const char *path,
                    const char *const *more);
/* In one HEADERS frame with END_HEADERS. */
void h2_request(struct h2_client *client, int32_t stream, const char *method, const char *path,
                const char *const *more, bool end);
void h2_get(struct h2_client *client, int32_t stream, const char *path);

/* Hears one frame; false: the peer has closed. */
bool h2_hear(struct h2_client *client);
/* What came on the stream so far; never NULL. */
struct h2_answer *h2_of(struct h2_client *client, int32_t stream);
/* Hears until the stream has ended or was reset. */
struct h2_answer *h2_answer(struct h2_client *client, int32_t stream);
/* Status and body of a complete answer; body NULL: any. */
void h2_expect(struct h2_client *client, int32_t stream, unsigned status, const char *body);
void h2_expect_reset(struct h2_client *client, int32_t stream, uint32_t code);
/* GOAWAY with this code, then the connection's end. */
void h2_expect_goaway(struct h2_client *client, uint32_t code);
/* Hears until the peer has answered a PING of ours: what it sent before is heard. */
void h2_ping(struct h2_client *client);

#endif
