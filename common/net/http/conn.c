/* Connections over TCP: what http1.c wants done, done with libuv; and the loop's list of them. */
#include "common/net/http/impl.h"
#include "common/run/log.h"

enum {
    BACKLOG = 1024,          /* the kernel cuts it to net.core.somaxconn */
    REFUSALS_AT_A_TIME = 64, /* connections over the limit that still get an answer */
    TICK_MIN_MS = 5,
    TICK_MAX_MS = 500,
    TICK_DRAIN_MS = 20,
};

struct tcp_conn {
    struct http_conn conn;
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    size_t unsent_bytes;      /* when we last looked */
    int64_t progress_mono_ns; /* when that had changed */
};

static struct tcp_conn *tcp_of(struct http_conn *conn)
{
    return fg_container(conn, struct tcp_conn, conn);
}

static struct http_conn *conn_of(void *data)
{
    return fg_obj(data, http_conn, HTTP_CONN_MAGIC);
}

static int64_t now_of(const struct http_conn *conn)
{
    return fg_mono_ns(conn->owner->clock);
}

/* --- struct http_io --- */

static void on_written(uv_write_t *write, int status)
{
    struct http_conn *conn = conn_of(write->data);

    if (status != 0) /* also when we close while writing */
        http1_cut(conn);
    else
        http1_written(conn);
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

static bool tcp_write(struct http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs)
{
    struct tcp_conn *tcp = tcp_of(conn);
    uv_stream_t *stream = (uv_stream_t *)&tcp->tcp;
    uv_buf_t left[16];
    unsigned n_left;
    int sent = uv_try_write(stream, bufs, n_bufs);

    if (sent < 0 && sent != UV_EAGAIN) {
        http1_cut(conn);
        return false;
    }
    fg_assert(n_bufs <= FG_COUNT(left));
    memcpy(left, bufs, n_bufs * sizeof *bufs);
    n_left = skip_sent(left, n_bufs, sent < 0 ? 0 : (size_t)sent);
    if (n_left == 0)
        return true;
    tcp->write.data = conn;
    if (uv_write(&tcp->write, stream, left + (n_bufs - n_left), n_left, on_written) != 0)
        http1_cut(conn);
    tcp->unsent_bytes = uv_stream_get_write_queue_size(stream);
    tcp->progress_mono_ns = now_of(conn);
    return false;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct http_conn *conn = conn_of(handle->data);

    (void)suggested;
    *ret_buf = http1_body_room(conn);
    /* One buffer for all connections: http1_input() copies what has to stay. */
    if (ret_buf->len == 0)
        *ret_buf = uv_buf_init((char *)conn->owner->read_buf, HTTP_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct http_conn *conn = conn_of(stream->data);

    if (n > 0)
        http1_input(conn, fg_bytes(buf->base, (size_t)n), now_of(conn));
    else if (n == UV_EOF)
        http1_eof(conn);
    else if (n < 0)
        http1_cut(conn);
}

static void tcp_read(struct http_conn *conn, bool on)
{
    uv_stream_t *stream = (uv_stream_t *)&tcp_of(conn)->tcp;

    if (!on)
        (void)uv_read_stop(stream);
    else if (uv_read_start(stream, on_alloc, on_read) != 0)
        http1_cut(conn);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown;
    (void)status; /* a failure shows when reading */
}

static void tcp_shutdown(struct http_conn *conn)
{
    struct tcp_conn *tcp = tcp_of(conn);

    if (uv_shutdown(&tcp->shutdown, (uv_stream_t *)&tcp->tcp, on_shutdown) != 0)
        http1_cut(conn);
}

static void close_tick_when_done(struct http_loop *owner);

static void on_closed(uv_handle_t *handle)
{
    struct http_conn *conn = conn_of(handle->data);
    struct http_loop *owner = conn->owner;
    struct fg_http_server *server = owner->server;

    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        owner->conns = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    owner->n_conns--;
    http_stats_connections(owner->stats, -1);
    close_tick_when_done(owner);
    http1_closed(conn); /* may free it */
    /* Last: whoever waits for this in stop may free what the server was lent, the budget too. */
    http_server_handles(server, -1);
}

static void tcp_close(struct http_conn *conn)
{
    uv_close((uv_handle_t *)&tcp_of(conn)->tcp, on_closed);
}

static void tcp_release(struct http_conn *conn)
{
    struct http_loop *owner = conn->owner;

    free(tcp_of(conn));
    http_loop_unref(owner);
}

static const struct http_io tcp_io = {
    .write = tcp_write,
    .read = tcp_read,
    .shutdown = tcp_shutdown,
    .close = tcp_close,
    .release = tcp_release,
};

/* --- accepting --- */

static void name_peer(struct tcp_conn *tcp)
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

static struct tcp_conn *conn_create(struct http_loop *owner)
{
    struct tcp_conn *tcp = fg_new(struct tcp_conn);
    struct http_conn *conn = &tcp->conn;

    http1_init(conn, owner, &tcp_io, fg_mono_ns(owner->clock));
    fg_assert(uv_tcp_init(fg_loop_uv(owner->loop), &tcp->tcp) == 0);
    tcp->tcp.data = conn;
    conn->next = owner->conns;
    if (conn->next != NULL)
        conn->next->prev = conn;
    owner->conns = conn;
    owner->n_conns++;
    atomic_fetch_add(&owner->refs, 1);
    http_stats_connections(owner->stats, 1);
    http_server_handles(owner->server, 1);
    return tcp;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct http_loop *owner = listener->data;
    struct tcp_conn *tcp;

    if (status != 0) {
        fg_log_warn("cannot accept connections", fg_ls("err", uv_strerror(status)));
        return;
    }
    tcp = conn_create(owner);
    if (uv_accept(listener, (uv_stream_t *)&tcp->tcp) != 0) {
        http1_cut(&tcp->conn);
        return;
    }
    (void)uv_tcp_nodelay(&tcp->tcp, 1);
    name_peer(tcp);
    if (owner->n_conns <= owner->config.connections_max)
        http1_pump(&tcp->conn); /* begins to read */
    else if (owner->n_conns <= owner->config.connections_max + REFUSALS_AT_A_TIME)
        http1_refuse(&tcp->conn, HTTP_TOO_MANY_CONNECTIONS, now_of(&tcp->conn));
    else
        http1_cut(&tcp->conn);
}

/* --- the clock --- */

static void watch_write(struct tcp_conn *tcp, int64_t now_mono_ns)
{
    size_t unsent = uv_stream_get_write_queue_size((uv_stream_t *)&tcp->tcp);

    if (unsent != tcp->unsent_bytes) {
        tcp->unsent_bytes = unsent;
        tcp->progress_mono_ns = now_mono_ns;
    } else if (now_mono_ns - tcp->progress_mono_ns > tcp->conn.owner->config.write_timeout_ns) {
        http1_cut(&tcp->conn);
    }
}

/*
 * One look at all connections now and then, instead of a timer for each that every request would
 * have to set: some nanoseconds for each connection, twice a second.
 */
static void on_tick(uv_timer_t *timer)
{
    struct http_loop *owner = timer->data;
    int64_t now_mono_ns = fg_mono_ns(owner->clock);

    for (struct http_conn *conn = owner->conns; conn != NULL; conn = conn->next) {
        if (conn->writing)
            watch_write(tcp_of(conn), now_mono_ns);
        http1_tick(conn, now_mono_ns);
    }
}

/* Often enough for the shortest timeout to be a quarter late at most. */
static uint64_t tick_ms(const struct fg_http_config *config)
{
    int64_t least_ns = FG_MIN(FG_MIN(config->head_timeout_ns, config->body_timeout_ns),
                              FG_MIN(config->idle_timeout_ns, config->write_timeout_ns));
    int64_t ms = least_ns / FG_MS_NS / 4;

    return (uint64_t)FG_MAX(FG_MIN(ms, (int64_t)TICK_MAX_MS), (int64_t)TICK_MIN_MS);
}

/* --- begin and end, on the loop --- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct http_loop *owner = handle->data;
    struct fg_http_server *server = owner->server;

    http_loop_unref(owner);
    http_server_handles(server, -1);
}

static void close_tick_when_done(struct http_loop *owner)
{
    if (owner->draining && owner->n_conns == 0 && !uv_is_closing((uv_handle_t *)&owner->tick))
        uv_close((uv_handle_t *)&owner->tick, on_handle_closed);
}

void http_loop_listen(struct http_loop *owner, int fd, int *ret_status)
{
    uv_loop_t *uv = fg_loop_uv(owner->loop);
    uint64_t every_ms = tick_ms(&owner->config);

    fg_assert(uv_tcp_init(uv, &owner->listener) == 0);
    fg_assert(uv_timer_init(uv, &owner->tick) == 0);
    owner->listener.data = owner->tick.data = owner;
    atomic_fetch_add(&owner->refs, 2);
    http_server_handles(owner->server, 2);
    fg_assert(uv_timer_start(&owner->tick, on_tick, every_ms, every_ms) == 0);
    *ret_status = uv_tcp_open(&owner->listener, fd);
    if (*ret_status != 0)
        (void)close(fd);
    else
        *ret_status = uv_listen((uv_stream_t *)&owner->listener, BACKLOG, on_connection);
}

void http_loop_drain(struct http_loop *owner)
{
    if (owner->draining)
        return;
    owner->draining = true;
    uv_close((uv_handle_t *)&owner->listener, on_handle_closed);
    fg_assert(uv_timer_start(&owner->tick, on_tick, TICK_MIN_MS, TICK_DRAIN_MS) == 0);
    close_tick_when_done(owner);
}

void http_loop_cut(struct http_loop *owner)
{
    for (struct http_conn *conn = owner->conns; conn != NULL; conn = conn->next)
        http1_cut(conn);
}
