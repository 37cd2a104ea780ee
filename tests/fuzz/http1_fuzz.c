/*
 * A connection without sockets. The first byte says how the rest is cut into pieces, and how
 * answers are written; what has been written must be whole answers, one for each request that was
 * taken.
 */
#include "common/net/http/impl.h"

struct stub {
    struct http_conn conn;
    struct fg_buf written;
    bool slow; /* writes end later */
    bool writing, closing, released;
    struct fg_http_request *held;
};

static bool stub_write(struct http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs)
{
    struct stub *stub = fg_container(conn, struct stub, conn);

    fg_assert(!stub->writing && !stub->closing);
    for (unsigned i = 0; i < n_bufs; i++)
        fg_buf_append(&stub->written, bufs[i].base, bufs[i].len);
    stub->writing = stub->slow;
    return !stub->slow;
}

static void stub_read(struct http_conn *conn, bool on)
{
    (void)conn;
    (void)on;
}

static void stub_shutdown(struct http_conn *conn)
{
    (void)conn;
}

static void stub_close(struct http_conn *conn)
{
    fg_container(conn, struct stub, conn)->closing = true;
}

static void stub_release(struct http_conn *conn)
{
    fg_container(conn, struct stub, conn)->released = true;
}

static const struct http_io stub_io = {
    .write = stub_write,
    .read = stub_read,
    .shutdown = stub_shutdown,
    .close = stub_close,
    .release = stub_release,
};

static void on_echo(struct fg_http_request *req, void *arg)
{
    struct fg_slice body = fg_http_body(req);
    struct fg_buf out;

    (void)arg;
    (void)fg_http_param(req, "name");
    (void)fg_http_header(req, "Content-Type");
    fg_buf_init(&out, SIZE_MAX);
    fg_buf_put(&out, body);
    fg_http_respond(req, 200, "text/plain", &out);
}

/* Answered when the next one comes, or at the end. */
static void on_hold(struct fg_http_request *req, void *arg)
{
    struct stub *stub = fg_container(req->conn, struct stub, conn);
    struct fg_http_request *held = stub->held;

    (void)arg;
    stub->held = req;
    if (held != NULL)
        fg_http_respond(held, 204, NULL, NULL);
}

static void settle(struct stub *stub)
{
    while (stub->writing && !stub->closing) {
        stub->writing = false;
        http_conn_written(&stub->conn);
    }
}

static void feed(struct stub *stub, struct http_loop *owner, struct fg_slice in, size_t step)
{
    int64_t now_ns = 1;

    stub->conn.protocol->pump(&stub->conn);
    while (in.len > 0 && stub->conn.reading && !stub->closing) {
        uv_buf_t room = http_conn_room(&stub->conn);
        struct fg_slice piece = fg_slice_sub(in, 0, step);

        /* As conn.c does: into the body or into the loop's buffer. */
        if (room.len == 0)
            room = uv_buf_init((char *)owner->read_buf, HTTP_READ_BYTES);
        piece = fg_slice_sub(piece, 0, room.len);
        memcpy(room.base, piece.ptr, piece.len);
        in = fg_slice_sub(in, piece.len, in.len);
        http_conn_input(&stub->conn, fg_bytes(room.base, piece.len), now_ns++);
        if (now_ns % 3 == 0)
            settle(stub);
        if (now_ns % 5 == 0 && stub->held != NULL)
            fg_http_respond(fg_take(stub->held), 200, NULL, NULL);
    }
}

static void finish(struct stub *stub)
{
    if (!stub->closing)
        http_conn_eof(&stub->conn);
    if (stub->held != NULL)
        fg_http_respond(fg_take(stub->held), 200, NULL, NULL);
    settle(stub);
    if (!stub->closing)
        http_conn_cut(&stub->conn);
    fg_assert(stub->closing);
    http_conn_closed(&stub->conn);
    if (stub->held != NULL) /* the room made above has let one more in */
        fg_http_respond(fg_take(stub->held), 200, NULL, NULL);
    fg_assert(stub->released);
    fg_assert(stub->written.len == 0 || fg_slice_starts(fg_buf_slice(&stub->written), "HTTP/1.1 "));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 2, 7, 100, 1000, HTTP_READ_BYTES};
    struct fg_http_route routes[] = {
        {FG_HTTP_GET | FG_HTTP_POST | FG_HTTP_HEAD, "/", false, 4096, on_echo, NULL, NULL},
        {FG_HTTP_GET | FG_HTTP_POST, "/hold", true, 100000, on_hold, NULL, NULL},
    };
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;
    struct fg_http_server server = {.routes = routes, .n_routes = FG_COUNT(routes)};
    struct stub *stub = fg_new(struct stub);
    struct fg_budget budget;
    struct http_loop *owner;

    if (size == 0) {
        free(stub);
        return 0;
    }
    config.head_max_bytes = 2000;
    config.pipeline_max = 3;
    server.config = config;
    fg_budget_init(&budget, 150000);
    server.budget = &budget;
    owner = http_loop_create(&server, NULL);
    fg_buf_init(&stub->written, SIZE_MAX);
    stub->slow = data[0] & 0x80;
    http_conn_init(&stub->conn, owner, &stub_io, 0);
    feed(stub, owner, fg_bytes(data + 1, size - 1), steps[data[0] % FG_COUNT(steps)]);
    finish(stub);
    fg_assert(fg_budget_used(&budget) == 0);
    fg_buf_done(&stub->written);
    free(stub);
    http_loop_unref(owner);
    return 0;
}
