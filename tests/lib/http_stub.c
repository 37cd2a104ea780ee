#include "tests/lib/http_stub.h"

#include "common/net/http/impl.h"

enum {
    BIG_BYTES = 100000, /* more than HTTP/2's first window */
    TICK_EVERY = 11,    /* pieces of input */
};

struct stub {
    struct fg_http_conn conn;
    struct fg_buf *written;
    bool slow; /* writes end later */
    bool writing, closing, released;
    struct fg_http_request *held;
    struct fg_clock_manual clock;
};

/* --- struct fg_http_io --- */

static struct stub *stub_of(struct fg_http_conn *conn)
{
    return fg_container(conn, struct stub, conn);
}

static bool stub_write(struct fg_http_conn *conn, const uv_buf_t *bufs, unsigned n_bufs)
{
    struct stub *stub = stub_of(conn);

    fg_assert(!stub->writing && !stub->closing);
    fg_assert(n_bufs > 0 && n_bufs <= HTTP_WRITE_BUFS);
    for (unsigned i = 0; i < n_bufs; i++)
        fg_buf_append(stub->written, bufs[i].base, bufs[i].len);
    stub->writing = stub->slow;
    return !stub->slow;
}

static void stub_read(struct fg_http_conn *conn, bool on)
{
    (void)conn;
    (void)on;
}

static void stub_shutdown(struct fg_http_conn *conn)
{
    (void)conn;
}

static void stub_close(struct fg_http_conn *conn)
{
    fg_assert(!stub_of(conn)->closing);
    stub_of(conn)->closing = true;
}

static void stub_release(struct fg_http_conn *conn)
{
    stub_of(conn)->released = true;
}

static const struct fg_http_io stub_io = {
    .write = stub_write,
    .read = stub_read,
    .shutdown = stub_shutdown,
    .close = stub_close,
    .release = stub_release,
};

/* --- handlers --- */

static void on_echo(struct fg_http_request *req, void *arg)
{
    struct fg_slice body = fg_http_body(req);
    struct fg_buf out;

    (void)arg;
    (void)fg_http_param(req, "name");
    (void)fg_http_header(req, "Content-Type");
    fg_http_add_trailer(req, "Grpc-Status", "0");
    fg_buf_init(&out, SIZE_MAX);
    fg_buf_put(&out, body);
    fg_http_respond(req, 200, "text/plain", &out);
}

static void on_big(struct fg_http_request *req, void *arg)
{
    struct fg_buf out;

    (void)arg;
    fg_buf_init(&out, BIG_BYTES);
    fg_assert(fg_buf_reserve(&out, BIG_BYTES));
    memset(out.ptr, 'x', BIG_BYTES);
    out.len = BIG_BYTES;
    fg_http_respond(req, 200, "text/plain", &out);
}

static void answer_held(struct fg_http_request *req, unsigned status)
{
    struct fg_buf last;

    if (!req->streaming) {
        fg_http_respond(req, status, NULL, NULL);
        return;
    }
    (void)fg_http_stream_put(req, FG_LIT("another piece"));
    fg_buf_init(&last, 100);
    fg_buf_puts(&last, "the last one");
    fg_assert(fg_http_stream_end(req, &last));
}

/* Answered when the next one comes, or at the end; below /hold/s in pieces. */
static void on_hold(struct fg_http_request *req, void *arg)
{
    struct stub *stub = stub_of(req->conn);
    struct fg_http_request *held = stub->held;

    (void)arg;
    stub->held = req;
    if (fg_slice_starts(fg_http_path(req), "/hold/s") && fg_http_stream_begin(req, "text/plain"))
        (void)fg_http_stream_put(req, FG_LIT("a piece"));
    if (held != NULL)
        answer_held(held, 204);
}

static void let_go(struct stub *stub)
{
    if (stub->held != NULL)
        answer_held(fg_take(stub->held), 200);
}

/* --- a life --- */

static void settle(struct stub *stub)
{
    while (stub->writing && !stub->closing) {
        stub->writing = false;
        fg_http_conn_written(&stub->conn);
    }
}

static int64_t now_of(struct stub *stub)
{
    return fg_mono_ns(&stub->clock.clock);
}

/* As socket.c does: into the body or into the loop's buffer. Returns how much was taken. */
static size_t say(struct stub *stub, struct fg_slice piece)
{
    uv_buf_t room = fg_http_conn_room(&stub->conn);

    if (room.len == 0)
        room = uv_buf_init((char *)stub->conn.owner->read_buf, HTTP_READ_BYTES);
    piece = fg_slice_sub(piece, 0, room.len);
    memcpy(room.base, piece.ptr, piece.len);
    fg_http_conn_input(&stub->conn, fg_bytes(room.base, piece.len), now_of(stub));
    return piece.len;
}

static void feed(struct stub *stub, struct fg_slice in, size_t step)
{
    for (unsigned n = 1; in.len > 0 && stub->conn.reading && !stub->closing; n++) {
        size_t said = say(stub, fg_slice_sub(in, 0, step));

        in = fg_slice_sub(in, said, in.len);
        if (n % 3 == 0)
            settle(stub);
        if (n % 5 == 0)
            let_go(stub);
        fg_clock_manual_advance(&stub->clock, n % TICK_EVERY == 0 ? FG_SECOND_NS : 1000);
        if (n % TICK_EVERY == 0 && !stub->closing)
            fg_http_conn_tick(&stub->conn, now_of(stub));
    }
}

static void finish(struct stub *stub)
{
    if (!stub->closing)
        fg_http_conn_eof(&stub->conn);
    let_go(stub);
    settle(stub);
    if (!stub->closing)
        fg_http_conn_cut(&stub->conn);
    fg_assert(stub->closing);
    fg_http_conn_closed(&stub->conn);
    let_go(stub); /* the room made above has let one more in */
    fg_assert(stub->released);
}

bool http_stub_run(struct fg_slice before, struct fg_slice input, struct fg_buf *ret_written)
{
    static const size_t steps[] = {1, 2, 7, 100, 1000, HTTP_READ_BYTES};
    struct fg_http_route routes[] = {
        {FG_HTTP_GET | FG_HTTP_POST | FG_HTTP_HEAD, "/", false, 4096, on_echo, NULL, NULL,
         FG_HTTP_CHANGES, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET | FG_HTTP_POST, "/hold", true, 100000, on_hold, NULL, NULL, FG_HTTP_CHANGES,
         FG_SCOPE_READ, NULL},
        {FG_HTTP_GET, "/big", false, 0, on_big, NULL, NULL, FG_HTTP_READS, FG_SCOPE_READ, NULL},
        {FG_HTTP_POST, "/act", false, 0, on_big, NULL, NULL, FG_HTTP_OPERATES, FG_SCOPE_READ, NULL},
        {FG_HTTP_GET, "/probe", false, 0, on_echo, NULL, NULL, FG_HTTP_PROBE, FG_SCOPE_READ, NULL},
    };
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;
    struct fg_http_server server = {.routes = routes, .n_routes = FG_COUNT(routes)};
    struct stub *stub;
    struct fg_budget heads, bodies, answers;
    struct fg_http_loop *owner;

    if (input.len == 0)
        return false;
    stub = fg_new(struct stub);
    config.head_max_bytes = 2000;
    config.pipeline_max = config.streams_max = 3;
    config.allowed_hosts = "a.example, b.example";
    config.allowed_origins = "https://app.example";
    config.h2c_upgrade = true;
    server.config = config;
    fg_budget_init(&heads, 50000); /* three small requests at a time */
    fg_budget_init(&bodies, 150000);
    fg_budget_init(&answers, 150000); /* one large one at a time */
    server.lent = (struct fg_http_lent){.heads = &heads, .bodies = &bodies, .answers = &answers};
    owner = fg_http_loop_create(&server, NULL);
    owner->loopback = input.ptr[0] & 0x40;
    fg_clock_manual_init(&stub->clock, 0);
    owner->clock = &stub->clock.clock;
    fg_buf_init(ret_written, SIZE_MAX);
    stub->written = ret_written;
    stub->slow = input.ptr[0] & 0x80;
    fg_http_conn_init(&stub->conn, owner, &stub_io, now_of(stub));
    stub->conn.protocol->pump(&stub->conn);
    if (before.len > 0)
        (void)say(stub, before);
    feed(stub, fg_slice_sub(input, 1, input.len), steps[input.ptr[0] % FG_COUNT(steps)]);
    finish(stub);
    fg_assert(fg_budget_used(&heads) == 0 && fg_budget_used(&bodies) == 0 &&
              fg_budget_used(&answers) == 0);
    free(stub);
    fg_http_loop_unref(owner);
    return true;
}
