/*
 * A socket, between socket.c (TCP) and secure.c (TLS over it). There is one way to read from it and
 * one to write to it, socket.c's; TLS comes between that and the connection.
 */
#ifndef FG_COMMON_NET_HTTP_SOCKET_H
#define FG_COMMON_NET_HTTP_SOCKET_H

#include "common/net/http/impl.h"

struct secure; /* what TLS needs: secure.c */

struct tcp_conn {
    struct http_conn conn;
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    uint64_t given_bytes;      /* passed to tcp_write() since the beginning */
    struct http_reader reader; /* while a write is under way */
    struct secure *secure;     /* NULL: cleartext */
};

static inline struct tcp_conn *tcp_of(struct http_conn *conn)
{
    return fg_container(conn, struct tcp_conn, conn);
}

extern const struct http_io tcp_io, secure_io;

/* Bytes as they are on the wire. These are tcp_io's functions. */
bool tcp_write(struct http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs);
void tcp_read(struct http_conn *conn, bool on);
void tcp_shutdown(struct http_conn *conn);
void tcp_close(struct http_conn *conn);
void tcp_release(struct http_conn *conn);

void secure_open(struct tcp_conn *tcp);
void secure_close(struct tcp_conn *tcp); /* NULL is fine */

/* What the socket tells TLS, instead of the connection. */
void secure_input(struct tcp_conn *tcp, struct fg_slice bytes);
void secure_eof(struct tcp_conn *tcp);
void secure_written(struct tcp_conn *tcp);
/* Cuts who does not come to the end of the handshake. */
void secure_watch(struct tcp_conn *tcp, int64_t now_mono_ns);

#endif
