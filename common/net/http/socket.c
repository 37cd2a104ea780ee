/*
 * TCP: what a connection wants done (struct fg_http_io), done with libuv. With TLS, secure.c stands
 * between: what is read goes there first, and what is written comes from there.
 */
#include "common/net/http/socket.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    /* Unsent bytes that the system accepts per socket. By default it takes megabytes, which no
     * budget of ours counts, but a control group's memory limit does. */
    UNSENT_BY_SYSTEM_BYTES = 128 * 1024,
};

static struct fg_http_conn *conn_of(void *data)
{
    return fg_obj(data, fg_http_conn, HTTP_CONN_MAGIC);
}

/* --- struct fg_http_io --- */

static void on_written(uv_write_t *write, int status)
{
    struct fg_http_conn *conn = conn_of(write->data);

    if (status != 0) /* also when we close while writing */
        fg_http_conn_cut(conn);
    else if (fg_tcp_of(conn)->secure != NULL)
        fg_secure_written(fg_tcp_of(conn));
    else
        fg_http_conn_written(conn);
}

/* Skips what was sent; returns how many buffers are left, at the end of bufs. */
static unsigned skip_sent(uv_buf_t *bufs, unsigned n_bufs, size_t sent)
{
    unsigned i = 0;

    while (i < n_bufs && sent >= bufs[i].len)
        sent -= bufs[i++].len;
    if (i < n_bufs) {
        bufs[i].base += sent;
        bufs[i].len -= sent;
    }
    return n_bufs - i;
}

bool fg_tcp_write(struct fg_http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs)
{
    struct fg_tcp_conn *tcp = fg_tcp_of(conn);
    uv_stream_t *stream = (uv_stream_t *)&tcp->tcp;
    uv_buf_t left[HTTP_WRITE_BUFS];
    unsigned n_left;
    int sent = uv_try_write(stream, bufs, n_bufs);

    if (sent < 0 && sent != UV_EAGAIN) {
        fg_http_conn_cut(conn);
        return false;
    }
    fg_assert(n_bufs <= FG_COUNT(left));
    for (unsigned i = 0; i < n_bufs; i++)
        tcp->given_bytes += bufs[i].len;
    memcpy(left, bufs, n_bufs * sizeof *bufs);
    n_left = skip_sent(left, n_bufs, sent < 0 ? 0 : (size_t)sent);
    if (n_left == 0)
        return true;
    tcp->write.data = conn;
    if (uv_write(&tcp->write, stream, left + (n_bufs - n_left), n_left, on_written) != 0)
        fg_http_conn_cut(conn);
    return false;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct fg_http_conn *conn = conn_of(handle->data);

    (void)suggested;
    *ret_buf = fg_tcp_of(conn)->secure == NULL ? fg_http_conn_room(conn) : uv_buf_init(NULL, 0);
    /* One buffer for all connections: fg_http_conn_input() copies what has to stay. */
    if (ret_buf->len == 0)
        *ret_buf = uv_buf_init((char *)conn->owner->read_buf, HTTP_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct fg_http_conn *conn = conn_of(stream->data);
    struct fg_tcp_conn *tcp = fg_tcp_of(conn);

    if (n < 0 && n != UV_EOF)
        fg_http_conn_cut(conn);
    else if (n > 0 && tcp->secure != NULL)
        fg_secure_input(tcp, fg_bytes(buf->base, (size_t)n));
    else if (n > 0)
        fg_http_conn_input(conn, fg_bytes(buf->base, (size_t)n), fg_mono_ns(conn->owner->clock));
    else if (n == UV_EOF && tcp->secure != NULL)
        fg_secure_eof(tcp);
    else if (n == UV_EOF)
        fg_http_conn_eof(conn);
}

void fg_tcp_read(struct fg_http_conn *conn, bool on)
{
    uv_stream_t *stream = (uv_stream_t *)&fg_tcp_of(conn)->tcp;

    if (!on)
        (void)uv_read_stop(stream);
    else if (uv_read_start(stream, on_alloc, on_read) != 0)
        fg_http_conn_cut(conn);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown;
    (void)status; /* a failure shows when reading */
}

void fg_tcp_shutdown(struct fg_http_conn *conn)
{
    struct fg_tcp_conn *tcp = fg_tcp_of(conn);

    if (uv_shutdown(&tcp->shutdown, (uv_stream_t *)&tcp->tcp, on_shutdown) != 0)
        fg_http_conn_cut(conn);
}

static void on_closed(uv_handle_t *handle)
{
    struct fg_http_conn *conn = conn_of(handle->data);
    struct fg_http_loop *owner = conn->owner;
    struct fg_http_server *server = owner->server;

    fg_http_peers_leave(owner, conn);
    fg_http_loop_remove(owner, conn);
    fg_secure_close(fg_tcp_of(conn));
    fg_http_conn_closed(conn); /* may free it */
    /* Last: a thread that waits for this in stop() may then free what the server was lent,
     * including the budget. */
    fg_http_server_handles(server, -1);
}

void fg_tcp_close(struct fg_http_conn *conn)
{
    uv_close((uv_handle_t *)&fg_tcp_of(conn)->tcp, on_closed);
}

void fg_tcp_release(struct fg_http_conn *conn)
{
    struct fg_http_loop *owner = conn->owner;

    free(fg_tcp_of(conn));
    fg_http_loop_unref(owner);
}

const struct fg_http_io fg_tcp_io = {
    .write = fg_tcp_write,
    .read = fg_tcp_read,
    .shutdown = fg_tcp_shutdown,
    .close = fg_tcp_close,
    .release = fg_tcp_release,
};

/* --- the beginning --- */

static void name_peer(struct fg_tcp_conn *tcp)
{
    struct sockaddr_storage addr;
    int len = sizeof addr;

    if (uv_tcp_getpeername(&tcp->tcp, (struct sockaddr *)&addr, &len) != 0)
        return;
    (void)uv_ip_name((struct sockaddr *)&addr, tcp->conn.peer, sizeof tcp->conn.peer);
    /* "::ffff:10.0.0.1": IPv4 on a socket for both. */
    if (strncmp(tcp->conn.peer, "::ffff:", 7) == 0 && strchr(tcp->conn.peer, '.') != NULL)
        memmove(tcp->conn.peer, tcp->conn.peer + 7, strlen(tcp->conn.peer + 7) + 1);
}

struct fg_http_conn *fg_http_socket_accept(struct fg_http_loop *owner)
{
    struct fg_tcp_conn *tcp = fg_new(struct fg_tcp_conn);
    struct fg_http_conn *conn = &tcp->conn;

    fg_http_conn_init(conn, owner, &fg_tcp_io, fg_mono_ns(owner->clock));
    fg_assert(uv_tcp_init(fg_loop_uv(owner->loop), &tcp->tcp) == 0);
    tcp->tcp.data = conn;
    if (owner->config.tls != NULL)
        fg_secure_open(tcp);
    fg_http_loop_add(owner, conn);
    if (uv_accept((uv_stream_t *)&owner->listener, (uv_stream_t *)&tcp->tcp) != 0) {
        fg_http_conn_cut(conn);
        return NULL;
    }
    (void)uv_tcp_nodelay(&tcp->tcp, 1);

    const int most = UNSENT_BY_SYSTEM_BYTES;
    int fd;

    if (uv_fileno((const uv_handle_t *)&tcp->tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
    name_peer(tcp);
    fg_http_peers_enter(owner, conn);
    return conn;
}

/*
 * Returns how many bytes the peer has acknowledged. The number of bytes that the system has
 * accepted would not do: a full socket accepts more only in large steps, which may be seconds
 * apart.
 */
static uint64_t taken_bytes(const struct fg_tcp_conn *tcp)
{
    uint64_t taken =
        tcp->given_bytes - uv_stream_get_write_queue_size((const uv_stream_t *)&tcp->tcp);
    int fd, unacknowledged = 0;

    if (uv_fileno((const uv_handle_t *)&tcp->tcp, &fd) != 0 ||
        ioctl(fd, SIOCOUTQ, &unacknowledged) != 0)
        return taken;
    return taken - FG_MIN((uint64_t)unacknowledged, taken);
}

void fg_http_socket_watch(struct fg_http_conn *conn, int64_t now_mono_ns)
{
    struct fg_tcp_conn *tcp = fg_tcp_of(conn);

    if (!conn->writing)
        tcp->reader = (struct fg_http_reader){0};
    else if (fg_http_reader_too_slow(&tcp->reader, conn->owner, taken_bytes(tcp), now_mono_ns))
        fg_http_conn_cut(conn);
    if (tcp->secure != NULL)
        fg_secure_watch(tcp, now_mono_ns);
}
