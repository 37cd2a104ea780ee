/*
 * TLS between a socket and its connection: fg_secure_io is a struct fg_http_io over that of
 * socket.c.
 *
 * Received bytes go into the session, and as long as the connection wants input, plaintext comes
 * out; what it does not want yet stays encrypted, and the socket is not read meanwhile. A write is
 * encrypted some records at a time, each time the socket has taken those before, so that what
 * waits in memory is bounded however large the answer is.
 *
 * The connection knows nothing of the handshake: until it is complete it is one that is idle.
 */
#include "common/net/http/socket.h"
#include "common/net/tls.h"

enum {
    OUTPUT_ENOUGH_BYTES = 64 * 1024, /* encrypted ahead of the socket */
    OUTPUT_KEEP_BYTES = 20 * 1024,   /* of an idle connection: room for an answer's record */
};

struct fg_http_secure {
    struct fg_tls *tls;
    int64_t begin_mono_ns;
    bool ready;      /* the handshake is complete */
    bool wanted;     /* the connection wants input */
    bool delivering; /* it is being given some */
    bool sending;    /* the socket has `cipher` */
    bool ending;     /* shut the socket down when all is sent */
    struct fg_buf cipher;
    uv_buf_t plain[HTTP_WRITE_BUFS]; /* the rest of the connection's write, not encrypted yet */
    unsigned n_plain, at_plain;
};

void fg_secure_open(struct fg_tcp_conn *tcp)
{
    struct fg_http_loop *owner = tcp->conn.owner;
    struct fg_http_secure *secure = fg_new(struct fg_http_secure);

    secure->tls = fg_tls_create(owner->config.tls);
    secure->begin_mono_ns = fg_mono_ns(owner->clock);
    fg_buf_init(&secure->cipher, SIZE_MAX);
    tcp->secure = secure;
    tcp->conn.io = &fg_secure_io;
    tcp->conn.secure = true;
    tcp->conn.choosing = false; /* the handshake says which version */
    tcp->conn.opening = true;
}

void fg_secure_close(struct fg_tcp_conn *tcp)
{
    struct fg_http_secure *secure = tcp->secure;

    if (secure == NULL)
        return;
    fg_tls_gave_up(secure->tls, false);
    fg_tls_destroy(secure->tls);
    fg_buf_done(&secure->cipher);
    free(secure);
    tcp->secure = NULL;
}

/* --- writing --- */

/* Takes the next record: of one large piece, or of several small ones put together. */
static struct fg_slice next_record(struct fg_http_secure *secure, uint8_t *room)
{
    size_t len = 0;

    while (secure->at_plain < secure->n_plain && len < HTTP_RECORD_BYTES) {
        uv_buf_t *piece = &secure->plain[secure->at_plain];
        size_t n = FG_MIN(piece->len, HTTP_RECORD_BYTES - len);
        const char *from = piece->base;

        piece->base += n;
        piece->len -= n;
        if (piece->len == 0)
            secure->at_plain++;
        if (len == 0 && n == HTTP_RECORD_BYTES)
            return fg_bytes(from, n);
        memcpy(room + len, from, n);
        len += n;
    }
    return fg_bytes(room, len);
}

static bool has_plain(const struct fg_http_secure *secure)
{
    return secure->at_plain < secure->n_plain;
}

/* Encrypts records ahead of the socket. Returns false if the session is broken. */
static bool make_records(struct fg_tcp_conn *tcp)
{
    struct fg_http_secure *secure = tcp->secure;

    while (has_plain(secure) && fg_tls_output_len(secure->tls) < OUTPUT_ENOUGH_BYTES)
        if (!fg_tls_write(secure->tls, next_record(secure, tcp->conn.owner->record_buf)))
            return false;
    return true;
}

/* Called when the socket has taken `cipher`. */
static void output_sent(struct fg_http_secure *secure)
{
    secure->sending = false;
    fg_buf_clear(&secure->cipher);
    if (secure->cipher.cap > OUTPUT_KEEP_BYTES) {
        fg_buf_done(&secure->cipher);
        fg_buf_init(&secure->cipher, SIZE_MAX);
    }
}

/* Sends what is encrypted. Returns true if all of it is gone. */
static bool send_output(struct fg_tcp_conn *tcp)
{
    struct fg_http_secure *secure = tcp->secure;
    uv_buf_t buf;

    if (fg_tls_output_len(secure->tls) == 0)
        return true;
    fg_tls_take_output(secure->tls, &secure->cipher);
    buf = (uv_buf_t){.base = (char *)secure->cipher.ptr, .len = secure->cipher.len};
    secure->sending = true;
    if (!fg_tcp_write(&tcp->conn, &buf, 1))
        return false;
    output_sent(secure);
    return true;
}

/* Encrypts and sends as much as the socket takes. Returns true if nothing is left to be sent. */
static bool push(struct fg_tcp_conn *tcp)
{
    struct fg_http_secure *secure = tcp->secure;

    while (!secure->sending && tcp->conn.state < HTTP_CONN_CLOSING) {
        if (!make_records(tcp)) {
            fg_http_conn_cut(&tcp->conn);
            return false;
        }
        if (send_output(tcp) && !has_plain(secure))
            return true;
    }
    return false;
}

static void end_when_sent(struct fg_tcp_conn *tcp)
{
    if (tcp->secure->ending && !tcp->secure->sending && tcp->conn.state < HTTP_CONN_CLOSING) {
        tcp->secure->ending = false;
        fg_tcp_shutdown(&tcp->conn);
    }
}

static bool secure_write(struct fg_http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs)
{
    struct fg_tcp_conn *tcp = fg_tcp_of(conn);
    struct fg_http_secure *secure = tcp->secure;

    fg_assert(n_bufs <= FG_COUNT(secure->plain) && !has_plain(secure));
    memcpy(secure->plain, bufs, n_bufs * sizeof *bufs);
    secure->n_plain = n_bufs;
    secure->at_plain = 0;
    return push(tcp);
}

void fg_secure_written(struct fg_tcp_conn *tcp)
{
    output_sent(tcp->secure);
    if (push(tcp) && tcp->conn.writing)
        fg_http_conn_written(&tcp->conn);
    end_when_sent(tcp);
}

static void secure_shutdown(struct fg_http_conn *conn)
{
    struct fg_tcp_conn *tcp = fg_tcp_of(conn);

    fg_tls_shutdown(tcp->secure->tls);
    tcp->secure->ending = true;
    (void)push(tcp);
    end_when_sent(tcp);
}

/* Sends close_notify, unless that would cut a record short. */
static void secure_close_socket(struct fg_http_conn *conn)
{
    struct fg_tcp_conn *tcp = fg_tcp_of(conn);
    struct fg_http_secure *secure = tcp->secure;

    if (!secure->sending && !has_plain(secure)) {
        fg_tls_shutdown(secure->tls);
        (void)send_output(tcp);
    }
    fg_tcp_close(conn);
}

/* --- reading --- */

static void handshake_complete(struct fg_tcp_conn *tcp)
{
    struct fg_http_conn *conn = &tcp->conn;

    tcp->secure->ready = true;
    conn->opening = false;
    conn->certified = fg_tls_has_certificate(tcp->secure->tls);
    conn->uncertified = !conn->certified && fg_tls_needs_certificate(tcp->secure->tls);
    conn->now_mono_ns = fg_mono_ns(conn->owner->clock); /* what follows has its own time */
    fg_http_conn_speak(conn,
                       fg_tls_is_http2(tcp->secure->tls) ? &fg_http2_protocol : &fg_http1_protocol);
    conn->protocol->pump(conn);
}

/* Decrypts as long as the connection wants input and there is some. Returns why it stopped. */
static enum fg_tls_status decrypt(struct fg_tcp_conn *tcp)
{
    struct fg_http_conn *conn = &tcp->conn;
    struct fg_http_secure *secure = tcp->secure;
    enum fg_tls_status status = FG_TLS_OK;

    while (conn->state < HTTP_CONN_CLOSING && (secure->wanted || !secure->ready)) {
        uv_buf_t room = fg_http_conn_room(conn);
        size_t len = 0;

        if (room.len == 0)
            room = uv_buf_init((char *)conn->owner->plain_buf, HTTP_RECORD_BYTES);
        status = fg_tls_read(secure->tls, room.base, room.len, &len);
        if (status == FG_TLS_OK)
            fg_http_conn_input(conn, fg_bytes(room.base, len), fg_mono_ns(conn->owner->clock));
        else if (status == FG_TLS_READY)
            handshake_complete(tcp);
        else
            return status;
    }
    return FG_TLS_OK;
}

/* Reads on: first from what is here, then from the socket. */
static void deliver(struct fg_tcp_conn *tcp)
{
    struct fg_http_conn *conn = &tcp->conn;
    struct fg_http_secure *secure = tcp->secure;
    enum fg_tls_status status;

    if (secure->delivering)
        return;
    secure->delivering = true;
    status = decrypt(tcp);
    secure->delivering = false;
    if (status == FG_TLS_CLEARTEXT) {
        /* The client speaks HTTP where TLS is expected. It is told so in HTTP, since everything
         * else would look like noise to it. */
        fg_secure_close(tcp);
        conn->io = &fg_tcp_io;
        conn->opening = conn->secure = false;
        fg_http_conn_refuse(conn, HTTP_CLEARTEXT, fg_mono_ns(conn->owner->clock));
        return;
    }
    fg_tls_keep(secure->tls);
    (void)push(tcp);
    if (status == FG_TLS_END) {
        secure->wanted = false;
        fg_tcp_read(conn, false);
        fg_http_conn_eof(conn);
    } else if (status == FG_TLS_FAILED && conn->state == HTTP_CONN_OPEN) {
        conn->unread = true; /* so that the alert arrives */
        fg_http_conn_leave(conn);
    }
}

void fg_secure_input(struct fg_tcp_conn *tcp, struct fg_slice bytes)
{
    if (tcp->conn.state == HTTP_CONN_LINGER) { /* nobody wants to know what it says */
        fg_http_conn_discard(&tcp->conn, bytes.len);
        return;
    }
    fg_tls_feed(tcp->secure->tls, bytes);
    deliver(tcp);
}

void fg_secure_eof(struct fg_tcp_conn *tcp)
{
    fg_tls_gave_up(tcp->secure->tls, false);
    fg_http_conn_eof(&tcp->conn);
}

static void secure_read(struct fg_http_conn *conn, bool on)
{
    struct fg_tcp_conn *tcp = fg_tcp_of(conn);

    tcp->secure->wanted = on;
    fg_tcp_read(conn, on);
    if (on)
        deliver(tcp);
}

void fg_secure_watch(struct fg_tcp_conn *tcp, int64_t now_mono_ns)
{
    struct fg_http_secure *secure = tcp->secure;

    if (secure->ready ||
        now_mono_ns - secure->begin_mono_ns <= tcp->conn.owner->config.handshake_timeout_ns)
        return;
    fg_tls_gave_up(secure->tls, true);
    fg_http_conn_cut(&tcp->conn);
}

const struct fg_http_io fg_secure_io = {
    .write = secure_write,
    .read = secure_read,
    .shutdown = secure_shutdown,
    .close = secure_close_socket,
    .release = fg_tcp_release,
};
