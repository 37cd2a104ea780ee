/*
 * A socket, between socket.c (TCP) and secure.c (TLS over it). There is one way to read from it and
 * one to write to it, socket.c's; TLS comes between that and the connection.
 */
#ifndef FG_COMMON_NET_HTTP_SOCKET_H
#define FG_COMMON_NET_HTTP_SOCKET_H

#include "common/net/http/impl.h"

struct fg_http_secure; /* what TLS needs: secure.c */

struct fg_tcp_conn {
    struct fg_http_conn conn;
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    uint64_t given_bytes;          /* passed to fg_tcp_write() since the beginning */
    struct fg_http_reader reader;  /* while a write is under way */
    struct fg_http_secure *secure; /* NULL: cleartext */
};

static inline struct fg_tcp_conn *fg_tcp_of(struct fg_http_conn *conn)
{
    return fg_container(conn, struct fg_tcp_conn, conn);
}

extern const struct fg_http_io fg_tcp_io, fg_secure_io;

/* Bytes as they are on the wire. These are fg_tcp_io's functions. */
bool fg_tcp_write(struct fg_http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs);
void fg_tcp_read(struct fg_http_conn *conn, bool on);
void fg_tcp_shutdown(struct fg_http_conn *conn);
void fg_tcp_close(struct fg_http_conn *conn);
void fg_tcp_release(struct fg_http_conn *conn);

void fg_secure_open(struct fg_tcp_conn *tcp);
void fg_secure_close(struct fg_tcp_conn *tcp); /* NULL is fine */

/* What the socket tells TLS, instead of the connection. */
void fg_secure_input(struct fg_tcp_conn *tcp, struct fg_slice bytes);
void fg_secure_eof(struct fg_tcp_conn *tcp);
void fg_secure_written(struct fg_tcp_conn *tcp);
/* Cuts who does not come to the end of the handshake. */
void fg_secure_watch(struct fg_tcp_conn *tcp, int64_t now_mono_ns);

#endif
