/*
 * A connection, whatever it speaks: hands events to its protocol and counts who still needs it.
 *
 * Closing a socket while the peer still sends makes TCP reset the connection, and a reset discards
 * what the peer has not read yet: our answer. So where the peer may be sending we end our side only
 * and throw away what comes, for a while (state LINGER), as nginx's lingering_close does.
 */
#include "common/net/http/impl.h"

#define LINGER_NS (2 * FG_SECOND_NS) /* a few round trips, for the peer to read the answer */

void fg_http_conn_init(struct fg_http_conn *conn, struct fg_http_loop *owner,
                       const struct fg_http_io *io, int64_t now_mono_ns)
{
    conn->magic = HTTP_CONN_MAGIC;
    conn->owner = owner;
    conn->io = io;
    conn->refs = 1;
    conn->now_mono_ns = now_mono_ns;
    fg_http_conn_speak(conn, &fg_http1_protocol);
    conn->choosing = true;
}

void fg_http_conn_unref(struct fg_http_conn *conn)
{
    fg_assert(conn->refs > 0);
    if (--conn->refs > 0)
        return;
    conn->magic = 0;
    conn->io->release(conn);
}

/* --- which version --- */

/* RFC 9113, 3.4. */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { PREFACE_BYTES = sizeof preface - 1 };

void fg_http_conn_speak(struct fg_http_conn *conn, const struct fg_http_protocol *protocol)
{
    conn->choosing = false;
    if (conn->protocol != NULL)
        conn->protocol->end(conn);
    conn->protocol = protocol;
    conn->protocol->begin(conn);
}

/* Without TLS the first bytes say which version it is. Bytes that are held back until then equal
 * the preface so far, so they need not be kept. Returns false if more bytes have to come first. */
static bool choose(struct fg_http_conn *conn, struct fg_slice *bytes)
{
    size_t len = FG_MIN(bytes->len, PREFACE_BYTES - conn->preface_len);
    struct fg_slice held = fg_bytes(preface, conn->preface_len);

    if (memcmp(preface + held.len, bytes->ptr, len) != 0) {
        conn->choosing = false;
        if (held.len > 0)
            fg_http_conn_input(conn, held, conn->now_mono_ns);
        return true;
    }
    conn->preface_len += (unsigned)len;
    *bytes = fg_slice_sub(*bytes, len, bytes->len);
    if (conn->preface_len < PREFACE_BYTES)
        return false;
    fg_http_conn_speak(conn, &fg_http2_protocol);
    fg_http_conn_input(conn, fg_bytes(preface, PREFACE_BYTES), conn->now_mono_ns);
    return bytes->len > 0;
}

/* --- events --- */

void fg_http_conn_input(struct fg_http_conn *conn, struct fg_slice bytes, int64_t now_mono_ns)
{
    conn->now_mono_ns = now_mono_ns;
    if (conn->choosing && !choose(conn, &bytes))
        return;
    if (conn->state == HTTP_CONN_OPEN)
        conn->protocol->input(conn, bytes);
    else if (conn->state == HTTP_CONN_LINGER)
        fg_http_conn_discard(conn, bytes.len);
}

uv_buf_t fg_http_conn_room(struct fg_http_conn *conn)
{
    if (conn->state != HTTP_CONN_OPEN)
        return uv_buf_init(NULL, 0);
    return conn->protocol->body_room(conn);
}

void fg_http_conn_eof(struct fg_http_conn *conn)
{
    if (conn->state >= HTTP_CONN_CLOSING)
        return;
    conn->eof = true;
    conn->reading = false;
    if (conn->state == HTTP_CONN_LINGER)
        fg_http_conn_cut(conn);
    else
        conn->protocol->eof(conn);
}

void fg_http_conn_written(struct fg_http_conn *conn)
{
    conn->writing = false;
    if (conn->state == HTTP_CONN_OPEN)
        conn->protocol->written(conn);
}

void fg_http_conn_tick(struct fg_http_conn *conn, int64_t now_mono_ns)
{
    conn->now_mono_ns = now_mono_ns;
    if (conn->opening) /* the transport watches that */
        return;
    if (conn->state == HTTP_CONN_OPEN)
        conn->protocol->tick(conn);
    else if (conn->state == HTTP_CONN_LINGER && (now_mono_ns - conn->linger_mono_ns > LINGER_NS ||
                                                 conn->discarded_bytes >= HTTP_LINGER_MAX_BYTES))
        fg_http_conn_cut(conn);
}

void fg_http_conn_closed(struct fg_http_conn *conn)
{
    conn->state = HTTP_CONN_CLOSED;
    conn->protocol->end(conn);
    fg_http_conn_unref(conn);
}

/* --- what is done with it --- */

void fg_http_conn_refuse(struct fg_http_conn *conn, enum fg_http_refusal why, int64_t now_mono_ns)
{
    conn->now_mono_ns = now_mono_ns;
    conn->choosing = false;
    fg_http1_refuse(conn, why);
}

void fg_http_conn_cut(struct fg_http_conn *conn)
{
    if (conn->state >= HTTP_CONN_CLOSING)
        return;
    fg_http_conn_idle(conn, false);
    conn->state = HTTP_CONN_CLOSING;
    conn->io->close(conn);
}

bool fg_http_conn_write(struct fg_http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs)
{
    conn->writing = !conn->io->write(conn, bufs, n_bufs);
    return !conn->writing;
}

void fg_http_conn_read(struct fg_http_conn *conn, bool want)
{
    if (conn->state >= HTTP_CONN_CLOSING || want == conn->reading)
        return;
    conn->reading = want;
    conn->io->read(conn, want);
}

void fg_http_conn_discard(struct fg_http_conn *conn, size_t len)
{
    conn->unread = true;
    conn->discarded_bytes += len;
    if (conn->discarded_bytes >= HTTP_LINGER_MAX_BYTES)
        fg_http_conn_read(conn, false);
}

void fg_http_conn_leave(struct fg_http_conn *conn)
{
    if (!conn->unread || conn->eof) {
        fg_http_conn_cut(conn);
        return;
    }
    fg_http_conn_idle(conn, false);
    conn->state = HTTP_CONN_LINGER;
    conn->linger_mono_ns = fg_mono_ns(conn->owner->clock);
    conn->io->shutdown(conn);
    fg_http_conn_read(conn, conn->discarded_bytes < HTTP_LINGER_MAX_BYTES);
}
