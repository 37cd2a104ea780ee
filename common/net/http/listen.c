/*
 * A loop's part of the server: the listening socket, the list of its connections and their clock.
 */
#include "common/net/http/impl.h"
#include "common/runtime/log.h"

enum {
    BACKLOG = 1024,          /* the kernel cuts it to net.core.somaxconn */
    REFUSALS_AT_A_TIME = 64, /* connections over the limit that still get an answer */
    TICK_MIN_MS = 5,         /* with time limits of 20 ms or less */
    TICK_MAX_MS = 500,       /* how late a time limit of seconds may be noticed */
    TICK_DRAIN_MS = 20,      /* a shutdown ends as soon as the last request has */
};

/* --- the list --- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct fg_http_loop *owner = handle->data;
    struct fg_http_server *server = owner->server;

    fg_http_loop_unref(owner);
    fg_http_server_handles(server, -1);
}

static void close_tick_when_done(struct fg_http_loop *owner)
{
    if (uv_is_closing((uv_handle_t *)&owner->listener) && owner->n_conns == 0 &&
        !uv_is_closing((uv_handle_t *)&owner->tick))
        uv_close((uv_handle_t *)&owner->tick, on_handle_closed);
}

void fg_http_loop_add(struct fg_http_loop *owner, struct fg_http_conn *conn)
{
    conn->next = owner->conns;
    if (conn->next != NULL)
        conn->next->prev = conn;
    owner->conns = conn;
    owner->n_conns++;
    atomic_fetch_add(&owner->refs, 1);
    fg_http_stats_connections(owner->stats, 1);
    fg_http_server_handles(owner->server, 1);
}

void fg_http_loop_remove(struct fg_http_loop *owner, struct fg_http_conn *conn)
{
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        owner->conns = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    owner->n_conns--;
    fg_http_stats_connections(owner->stats, -1);
    close_tick_when_done(owner);
}

/* --- accepting --- */

/* Makes room for a new connection if there are too many. Returns why it must be refused. */
static enum fg_http_refusal find_room(struct fg_http_loop *owner, const struct fg_http_conn *conn)
{
    if (fg_http_peers_count(conn) > owner->config.connections_per_address_max)
        return fg_http_peers_make_room(owner, conn, true) ? HTTP_ACCEPTED
                                                          : HTTP_TOO_MANY_OF_ADDRESS;
    if (owner->n_conns > owner->config.connections_max)
        return fg_http_peers_make_room(owner, conn, false) ? HTTP_ACCEPTED
                                                           : HTTP_TOO_MANY_CONNECTIONS;
    return HTTP_ACCEPTED;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct fg_http_loop *owner = listener->data;
    struct fg_http_conn *conn;
    enum fg_http_refusal why;

    if (status != 0) {
        fg_log_warn("cannot accept connections", fg_ls("err", uv_strerror(status)));
        return;
    }
    conn = fg_http_socket_accept(owner);
    if (conn == NULL)
        return;
    why = find_room(owner, conn);
    if (why == HTTP_ACCEPTED) {
        conn->protocol->pump(conn); /* begins to read */
        return;
    }
    fg_log_warn(why == HTTP_TOO_MANY_CONNECTIONS
                    ? "connection refused: connections_max reached"
                    : "connection refused: connections_per_address_max reached",
                fg_ls("peer", conn->peer));
    if (owner->n_conns <= owner->config.connections_max + REFUSALS_AT_A_TIME &&
        !conn->secure) { /* an answer would cost a handshake */
        fg_http_conn_refuse(conn, why, fg_mono_ns(owner->clock));
        return;
    }
    fg_http_stats_refused(owner->stats, why);
    fg_http_conn_cut(conn);
}

/* --- the clock --- */

/*
 * One look at all connections now and then, instead of a timer for each that every request would
 * have to set: some nanoseconds for each connection, twice a second.
 */
static void on_tick(uv_timer_t *timer)
{
    struct fg_http_loop *owner = timer->data;
    int64_t now_mono_ns = fg_mono_ns(owner->clock);
    uint64_t refusals = owner->lent.answers == NULL ? 0 : fg_budget_refusals(owner->lent.answers);

    owner->pressed = refusals != owner->seen_refusals;
    owner->seen_refusals = refusals;
    for (struct fg_http_conn *conn = owner->conns; conn != NULL; conn = conn->next) {
        fg_http_socket_watch(conn, now_mono_ns);
        fg_http_conn_tick(conn, now_mono_ns);
    }
    /* Last: without connections it closes this timer. */
    if (owner->draining) {
        if (uv_is_closing((uv_handle_t *)&owner->listener))
            return;
        uv_close((uv_handle_t *)&owner->listener, on_handle_closed);
        close_tick_when_done(owner);
    }
}

/* --- begin and end, on the loop --- */

void fg_http_loop_listen(struct fg_http_loop *owner, int fd, int *ret_status)
{
    uv_loop_t *uv = fg_loop_uv(owner->loop);
    /* Often enough for the shortest timeout to be a quarter late at most. */
    const struct fg_http_config *config = &owner->config;
    int64_t least_ns = FG_MIN(FG_MIN(config->head_timeout_ns, config->body_timeout_ns),
                              FG_MIN(config->idle_timeout_ns, config->write_timeout_ns));
    int64_t ms = FG_MIN(least_ns, config->handshake_timeout_ns) / FG_MS_NS / 4;
    uint64_t every_ms = (uint64_t)FG_MAX(FG_MIN(ms, (int64_t)TICK_MAX_MS), (int64_t)TICK_MIN_MS);

    fg_assert(uv_tcp_init(uv, &owner->listener) == 0);
    fg_assert(uv_timer_init(uv, &owner->tick) == 0);
    owner->listener.data = owner->tick.data = owner;
    atomic_fetch_add(&owner->refs, 2);
    fg_http_server_handles(owner->server, 2);
    fg_assert(uv_timer_start(&owner->tick, on_tick, every_ms, every_ms) == 0);
    *ret_status = uv_tcp_open(&owner->listener, fd);
    if (*ret_status != 0)
        (void)close(fd);
    else
        *ret_status = uv_listen((uv_stream_t *)&owner->listener, BACKLOG, on_connection);
}

void fg_http_loop_drain(struct fg_http_loop *owner)
{
    if (owner->draining)
        return;
    owner->draining = true;
    /* The first tick closes the listener. Until then the loop accepts the connections that the
     * kernel has made already: closing the socket would reset them, with the requests on them. */
    fg_assert(uv_timer_start(&owner->tick, on_tick, TICK_MIN_MS, TICK_DRAIN_MS) == 0);
}

void fg_http_loop_cut(struct fg_http_loop *owner)
{
    for (struct fg_http_conn *conn = owner->conns; conn != NULL; conn = conn->next)
        fg_http_conn_cut(conn);
}
