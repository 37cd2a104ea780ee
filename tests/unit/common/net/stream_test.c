/* Streamed answers, with real sockets: pieces leave at once, and a peer that does not read costs no
 * memory. */
#include "tests/lib/http2_client.h"
#include "tests/lib/http_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

enum {
    LAST_BYTES = 200000,
    PIECE_BYTES = 1000,
    UNREAD_MAX_BYTES = 64 << 20, /* far above what the system's buffers hold */
    WINDOW_BYTES = 65535,        /* of HTTP/2, unless a client says otherwise (RFC 9113, 6.9.2) */
    HELD_BY_US_BYTES = 8 << 10,
    PLAIN_MAX_BYTES = 512 * 1024, /* of an answer in a coding */
    WINDOW_BITS_GZIP = 31,        /* of zlib: a gzip member */
};

/* ---- on the loop ---- */

struct call {
    struct http_run *run;
    unsigned i;
    struct fg_slice piece;
    struct fg_buf *last;
    bool done;
};

static void do_begin(void *arg)
{
    struct call *call = arg;

    fg_http_add_header(call->run->held[call->i], "X-Early", "yes");
    call->done = fg_http_stream_begin(call->run->held[call->i], "text/event-stream");
}

static void do_put(void *arg)
{
    struct call *call = arg;

    call->done = fg_http_stream_put(call->run->held[call->i], call->piece);
}

static void do_end(void *arg)
{
    struct call *call = arg;

    call->done = fg_http_stream_end(call->run->held[call->i], call->last);
}

static bool stream_begin(struct http_run *run, unsigned i)
{
    struct call call = {.run = run, .i = i};

    fg_loop_call(run->loop, do_begin, &call);
    return call.done;
}

static bool stream_put(struct http_run *run, unsigned i, struct fg_slice piece)
{
    struct call call = {.run = run, .i = i, .piece = piece};

    fg_loop_call(run->loop, do_put, &call);
    return call.done;
}

static bool stream_end_with(struct http_run *run, unsigned i, struct fg_slice bytes)
{
    struct fg_buf last;
    struct call call = {.run = run, .i = i, .last = &last};

    fg_buf_init(&last, bytes.len);
    fg_buf_put(&last, bytes);
    fg_loop_call(run->loop, do_end, &call);
    fg_buf_done(&last);
    return call.done;
}

/* As a handler's job compresses the last piece, while the loop leaves the stream alone. */
static bool stream_end_encoded(struct http_run *run, unsigned i, struct fg_slice bytes,
                               bool *ret_encoded)
{
    struct fg_buf last;
    struct call call = {.run = run, .i = i, .last = &last};

    fg_buf_init(&last, bytes.len);
    fg_buf_put(&last, bytes);
    *ret_encoded = fg_http_encode_last(run->held[i], &last);
    fg_loop_call(run->loop, do_end, &call);
    fg_buf_done(&last);
    return call.done;
}

static bool stream_end(struct http_run *run, unsigned i, size_t len, char byte)
{
    uint8_t *bytes = fg_malloc(len + 1);
    bool done;

    memset(bytes, byte, len);
    done = stream_end_with(run, i, fg_bytes(bytes, len));
    free(bytes);
    return done;
}

/* ---- HTTP/1.1 ---- */

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static void read_line(int fd, char line[256])
{
    size_t len = 0;

    while (len < 2 || memcmp(line + len - 2, "\r\n", 2) != 0) {
        assert_true(len < 255);
        assert_int_equal(recv(fd, line + len++, 1, 0), 1);
    }
    line[len - 2] = '\0';
}

static void read_bytes(int fd, uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = recv(fd, bytes, len, 0);

        assert_true(n > 0);
        bytes += n;
        len -= (size_t)n;
    }
}

static void expect_head(int fd)
{
    char line[256];
    bool chunked = false, early = false, typed = false;

    read_line(fd, line);
    assert_string_equal(line, "HTTP/1.1 200 OK");
    do {
        read_line(fd, line);
        chunked = chunked || strcmp(line, "Transfer-Encoding: chunked") == 0;
        early = early || strcmp(line, "X-Early: yes") == 0;
        typed = typed || strcmp(line, "Content-Type: text/event-stream") == 0;
        assert_null(strstr(line, "Content-Length"));
    } while (line[0] != '\0');
    assert_true(chunked && early && typed);
}

/* Reads a chunk; returns its length, 0 at the end. The bytes are the caller's to free. */
static size_t read_chunk(int fd, uint8_t **ret_bytes)
{
    char line[256];
    size_t len;

    read_line(fd, line);
    len = strtoul(line, NULL, 16);
    *ret_bytes = fg_calloc(1, len + 1);
    read_bytes(fd, *ret_bytes, len);
    read_line(fd, line);
    assert_string_equal(line, "");
    return len;
}

static void expect_chunk(int fd, const char *want)
{
    uint8_t *bytes;

    (void)read_chunk(fd, &bytes);
    assert_string_equal((char *)bytes, want);
    free(bytes);
}

static void expect_last(int fd, size_t want, char byte)
{
    uint8_t *bytes;

    assert_int_equal(read_chunk(fd, &bytes), want);
    for (size_t i = 0; i < want; i++)
        assert_int_equal(bytes[i], byte);
    free(bytes);
    expect_chunk(fd, "");
}

static void pieces_leave_at_once(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold") GET("/echo"));
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    expect_head(fd); /* before anything else is known */
    assert_true(stream_put(run, 0, FG_LIT("one")));
    expect_chunk(fd, "one");
    assert_true(stream_put(run, 0, FG_LIT("two")));
    assert_true(stream_put(run, 0, FG_LIT("three")));
    expect_chunk(fd, "two");
    expect_chunk(fd, "three");
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
    expect_last(fd, LAST_BYTES, 'x');
    run_expect(fd, 200, "1 /echo "); /* the connection goes on */
    (void)close(fd);
}

static void pieces_wait_for_answers_before_them(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold") GET("/hold"));
    run_wait_held(run, 2);
    assert_true(stream_begin(run, 1));
    assert_true(stream_put(run, 1, FG_LIT("early")));
    run_expect_silence(fd, 50);
    run_let_go(run, 0, "first");
    run_expect(fd, 200, "first");
    expect_head(fd);
    expect_chunk(fd, "early");
    /* An empty end, too, is one. */
    assert_true(stream_end(run, 1, 0, 'x'));
    expect_chunk(fd, "");
    (void)close(fd);
}

static void slow_readers_cost_nothing(void **state)
{
    struct http_run *run = *state;
    char piece[PIECE_BYTES];
    int fd = run_client(run);
    unsigned n = 0, more = 0;

    memset(piece, 'p', sizeof piece);
    run_say(fd, GET("/hold"));
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    while (stream_put(run, 0, fg_bytes(piece, sizeof piece)))
        assert_true(++n * PIECE_BYTES < UNREAD_MAX_BYTES);
    assert_int_equal(fg_budget_used(&run->answers), 0);
    assert_false(stream_put(run, 0, fg_bytes(piece, sizeof piece)));
    /* Accepted pieces arrive whole and in order. Once they are read, there is room again. */
    expect_head(fd);
    for (unsigned i = 0; i < n; i++) {
        uint8_t *bytes;

        assert_int_equal(read_chunk(fd, &bytes), PIECE_BYTES);
        free(bytes);
    }
    for (; more < 1000 && !stream_put(run, 0, FG_LIT("again")); more++)
        (void)usleep(1000);
    expect_chunk(fd, "again");
    assert_true(stream_end(run, 0, 3, 'e'));
    expect_last(fd, 3, 'e');
    (void)close(fd);
}

static void peers_that_leave_are_noticed(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold"));
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    assert_true(stream_put(run, 0, FG_LIT("one")));
    (void)close(fd);
    run_wait_gone(run, 0);
    assert_false(stream_put(run, 0, FG_LIT("two")));
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
}

static void a_request_that_cannot_be_streamed_is_refused(void **state)
{
    struct http_run *run = *state;
    int old = run_client(run), head = run_client(run), gone = run_client(run);

    run_say(old, "GET /hold HTTP/1.0\r\n\r\n");
    run_wait_held(run, 1);
    assert_false(stream_begin(run, 0));
    run_let_go(run, 0, "whole");
    run_expect(old, 200, "whole");
    (void)close(old);
    run_say(head, "HEAD /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    run_wait_held(run, 2);
    assert_false(stream_begin(run, 1));
    run_let_go(run, 1, "whole");
    (void)close(head);
    run_say(gone, GET("/hold"));
    run_wait_held(run, 3);
    (void)close(gone);
    run_wait_gone(run, 2);
    assert_false(stream_begin(run, 2));
    run_let_go(run, 2, "nobody hears it");
}

static void a_last_piece_needs_memory(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    run_say(fd, GET("/hold"));
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    fg_budget_force(&run->answers, RUN_ANSWERS);
    assert_false(stream_end(run, 0, LAST_BYTES, 'x'));
    assert_true(run_metric_is(run, "flamegrid_http_answers_refused_total 1\n"));
    assert_true(stream_put(run, 0, FG_LIT("still there")));
    assert_true(stream_end(run, 0, 4000, 's'));
    expect_head(fd);
    expect_chunk(fd, "still there");
    expect_last(fd, 4000, 's');
    fg_budget_give(&run->answers, RUN_ANSWERS);
    (void)close(fd);
}

/* ---- codings ---- */

/* What a browser makes of an answer that comes in parts: everything that it can read so far. */
struct reader {
    bool gzip;
    z_stream z;
    ZSTD_DCtx *zstd;
    uint8_t *plain;
    size_t len;
    bool ended; /* the coding says that this is all, and its checksum is right */
};

static void reader_init(struct reader *reader, bool gzip)
{
    *reader = (struct reader){.gzip = gzip, .plain = fg_calloc(1, PLAIN_MAX_BYTES)};
    if (gzip)
        assert_int_equal(inflateInit2(&reader->z, WINDOW_BITS_GZIP), Z_OK);
    else
        reader->zstd = ZSTD_createDCtx();
}

static void reader_done(struct reader *reader)
{
    if (reader->gzip)
        inflateEnd(&reader->z);
    else
        ZSTD_freeDCtx(reader->zstd);
    free(reader->plain);
}

static void reader_take(struct reader *reader, struct fg_slice bytes)
{
    ZSTD_inBuffer in = {bytes.ptr, bytes.len, 0};
    ZSTD_outBuffer out = {reader->plain, PLAIN_MAX_BYTES, reader->len};
    int z;

    assert_false(reader->ended);
    if (reader->gzip) {
        reader->z.next_in = (uint8_t *)(uintptr_t)bytes.ptr;
        reader->z.avail_in = (uInt)bytes.len;
        reader->z.next_out = reader->plain + reader->len;
        reader->z.avail_out = (uInt)(PLAIN_MAX_BYTES - reader->len);
        z = inflate(&reader->z, Z_SYNC_FLUSH);
        assert_true(z == Z_OK || z == Z_STREAM_END || (z == Z_BUF_ERROR && bytes.len == 0));
        assert_int_equal(reader->z.avail_in, 0);
        reader->len = PLAIN_MAX_BYTES - reader->z.avail_out;
        reader->ended = z == Z_STREAM_END;
        return;
    }
    while (in.pos < in.size) {
        size_t more = ZSTD_decompressStream(reader->zstd, &out, &in);

        assert_false(ZSTD_isError(more));
        reader->ended = more == 0;
        assert_true(!reader->ended || in.pos == in.size);
    }
    reader->len = out.pos;
}

static void reader_expect(const struct reader *reader, const char *want)
{
    assert_int_equal(reader->len, strlen(want));
    assert_memory_equal(reader->plain, want, reader->len);
}

static const char *const codings[] = {"zstd", "gzip"};

static void ask_coded(int fd, const char *path, const char *coding)
{
    char text[256];

    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\nAccept-Encoding: %s\r\n\r\n",
                   path, coding);
    run_say(fd, text);
}

static void expect_coded_head(int fd, const char *coding)
{
    char line[256], want[256];
    bool coded = false, varies = false;

    (void)snprintf(want, sizeof want, "Content-Encoding: %s", coding);
    do {
        read_line(fd, line);
        coded = coded || strcmp(line, want) == 0;
        varies = varies || strcmp(line, "Vary: Accept-Encoding") == 0;
    } while (line[0] != '\0');
    assert_true(coded && varies);
}

/* Reads a chunk into the reader. Returns its length as it came. */
static size_t take_chunk(int fd, struct reader *reader)
{
    uint8_t *bytes;
    size_t len = read_chunk(fd, &bytes);

    if (len > 0)
        reader_take(reader, fg_bytes(bytes, len));
    free(bytes);
    return len;
}

/* Numbers that no coding makes smaller. */
static struct fg_slice noise(size_t len)
{
    uint8_t *bytes = fg_malloc(len);
    uint64_t state = 1;

    for (size_t i = 0; i < len; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        bytes[i] = (uint8_t)(state >> 56);
    }
    return fg_bytes(bytes, len);
}

static void coded_pieces_are_readable_at_once(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);

    for (unsigned i = 0; i < FG_COUNT(codings); i++) {
        struct reader reader;

        reader_init(&reader, strcmp(codings[i], "gzip") == 0);
        ask_coded(fd, "/hold", codings[i]);
        run_wait_held(run, i + 1);
        assert_true(stream_begin(run, i));
        expect_coded_head(fd, codings[i]);
        assert_true(stream_put(run, i, FG_LIT("one ")));
        (void)take_chunk(fd, &reader);
        reader_expect(&reader, "one ");
        assert_true(stream_put(run, i, FG_LIT("two ")));
        (void)take_chunk(fd, &reader);
        reader_expect(&reader, "one two ");
        assert_false(reader.ended);
        assert_true(stream_end(run, i, LAST_BYTES, 'x'));
        assert_in_range(take_chunk(fd, &reader), 1, LAST_BYTES / 100);
        assert_true(reader.ended);
        assert_int_equal(reader.len, 8 + LAST_BYTES);
        for (size_t k = 8; k < reader.len; k++)
            assert_int_equal(reader.plain[k], 'x');
        assert_int_equal(take_chunk(fd, &reader), 0);
        reader_done(&reader);
    }
    run_say(fd, GET("/echo"));
    run_expect(fd, 200, "1 /echo "); /* the connection goes on */
    assert_int_equal(fg_budget_used(&run->answers), 0);
    (void)close(fd);
}

/* Last pieces that no worker compresses, or that do not get smaller, end the coding as well;
 * whoever compresses them, the server or the handler. */
static void every_last_piece_ends_the_coding(void **state)
{
    struct http_run *run = *state;
    struct fg_slice large = noise(300000); /* several blocks of either coding */
    uint8_t same[20000];
    const struct fg_slice lasts[] = {FG_LIT(""), FG_LIT("end"), large, fg_bytes(same, sizeof same)};
    int fd = run_client(run);
    unsigned n = 0;

    memset(same, 's', sizeof same);
    for (unsigned i = 0; i < FG_COUNT(codings); i++)
        for (size_t k = 0; k < 4 * FG_COUNT(lasts); k++) {
            struct fg_slice last = lasts[k / 4];
            bool has_pieces = k % 2 == 1, by_handler = k % 4 >= 2, encoded;
            size_t before = has_pieces ? 4 : 0;
            struct reader reader;

            reader_init(&reader, strcmp(codings[i], "gzip") == 0);
            ask_coded(fd, "/hold", codings[i]);
            run_wait_held(run, n + 1);
            assert_true(stream_begin(run, n));
            expect_coded_head(fd, codings[i]);
            if (has_pieces) {
                assert_true(stream_put(run, n, FG_LIT("one ")));
                (void)take_chunk(fd, &reader);
            }
            if (by_handler) {
                assert_true(stream_end_encoded(run, n++, last, &encoded));
                assert_int_equal(encoded, last.len >= sizeof same);
            } else {
                assert_true(stream_end_with(run, n++, last));
            }
            size_t sent = take_chunk(fd, &reader);
            assert_true(last.ptr != same || sent < sizeof same / 100);
            assert_true(reader.ended);
            assert_int_equal(reader.len, before + last.len);
            assert_memory_equal(reader.plain, "one ", before);
            assert_memory_equal(reader.plain + before, last.ptr, last.len);
            assert_int_equal(take_chunk(fd, &reader), 0);
            reader_done(&reader);
        }
    run_say(fd, GET("/echo"));
    run_expect(fd, 200, "1 /echo ");
    assert_int_equal(fg_budget_used(&run->answers), 0);
    free((void *)(uintptr_t)large.ptr);
    (void)close(fd);
}

/* What the handler has compressed is refused for lack of memory: another last piece ends the
 * stream, in its coding. */
static void a_refused_last_piece_leaves_the_coding_whole(void **state)
{
    struct http_run *run = *state;
    struct fg_slice large = noise(LAST_BYTES); /* which is stored, and counted, as it is */
    int fd = run_client(run);

    for (unsigned i = 0; i < FG_COUNT(codings); i++) {
        struct reader reader;
        bool encoded;

        reader_init(&reader, strcmp(codings[i], "gzip") == 0);
        ask_coded(fd, "/hold", codings[i]);
        run_wait_held(run, i + 1);
        assert_true(stream_begin(run, i));
        expect_coded_head(fd, codings[i]);
        fg_budget_force(&run->answers, RUN_ANSWERS);
        assert_false(stream_end_encoded(run, i, large, &encoded));
        assert_true(encoded);
        assert_true(stream_put(run, i, FG_LIT("sorry ")));
        (void)take_chunk(fd, &reader);
        assert_true(stream_end_with(run, i, FG_LIT("no memory")));
        (void)take_chunk(fd, &reader);
        assert_true(reader.ended);
        reader_expect(&reader, "sorry no memory");
        assert_int_equal(take_chunk(fd, &reader), 0);
        fg_budget_give(&run->answers, RUN_ANSWERS);
        reader_done(&reader);
    }
    free((void *)(uintptr_t)large.ptr);
    (void)close(fd);
}

/* Jobs that keep the only worker, and the queue behind it, until the test lets them go. */
struct jam {
    struct fg_job job;
    atomic_bool *go;
    atomic_uint *running, *done;
};

static enum fg_code jam_run(struct fg_job *job, struct fg_err *err)
{
    struct jam *jam = fg_container(job, struct jam, job);

    (void)err;
    atomic_fetch_add(jam->running, 1);
    while (!atomic_load(jam->go))
        (void)usleep(1000);
    return FG_OK;
}

static void jam_done(struct fg_job *job)
{
    atomic_fetch_add(fg_container(job, struct jam, job)->done, 1);
}

/* The stream has begun in a coding, so it stays in it when no worker has time. */
static void full_lanes_leave_the_coding_whole(void **state)
{
    enum { JAMS_MAX = 64 };
    struct http_run *run = *state;
    struct jam jams[JAMS_MAX];
    atomic_bool go = false;
    atomic_uint running = 0, done = 0;
    int fd = run_client(run);
    unsigned n = 0;

    do {
        jams[n] = (struct jam){.job = {.home = run->loop, .run = jam_run, .done = jam_done},
                               .go = &go,
                               .running = &running,
                               .done = &done};
        assert_true(n < JAMS_MAX - 1);
        while (n == 1 && atomic_load(&running) == 0)
            (void)usleep(1000); /* or it would leave its place in the queue later */
    } while (fg_work_submit(run->work, FG_LANE_QUERY, &jams[n].job) && ++n > 0);
    for (unsigned i = 0; i < FG_COUNT(codings); i++) {
        struct reader reader;

        reader_init(&reader, strcmp(codings[i], "gzip") == 0);
        ask_coded(fd, "/hold", codings[i]);
        run_wait_held(run, i + 1);
        assert_true(stream_begin(run, i));
        expect_coded_head(fd, codings[i]);
        assert_true(stream_end(run, i, LAST_BYTES, 'x'));
        assert_true(take_chunk(fd, &reader) > LAST_BYTES);
        assert_true(reader.ended);
        assert_int_equal(reader.len, LAST_BYTES);
        assert_int_equal(take_chunk(fd, &reader), 0);
        reader_done(&reader);
    }
    atomic_store(&go, true);
    while (atomic_load(&done) < n)
        (void)usleep(1000);
    (void)close(fd);
}

static void do_set_flow(void *arg)
{
    struct call *call = arg;

    fg_http_set_flow(call->run->held[call->i], call->i + 1);
}

/* One flow has filled its part of the lane: its answers go as they are, and those of another one
 * are compressed. */
static void full_flows_leave_others_their_coding(void **state)
{
    enum { JAMS_MAX = 64, FULL = 0, OTHER = 1 };
    const struct fg_flow full = {.id = FULL + 1};
    struct http_run *run = *state;
    struct jam jams[JAMS_MAX];
    atomic_bool go = false;
    atomic_uint running = 0, done = 0;
    struct reader readers[2];
    int fds[2];
    unsigned n = 0;

    do {
        jams[n] = (struct jam){.job = {.home = run->loop, .run = jam_run, .done = jam_done},
                               .go = &go,
                               .running = &running,
                               .done = &done};
        assert_true(n < JAMS_MAX - 1);
        while (n == 1 && atomic_load(&running) == 0)
            (void)usleep(1000);
    } while (fg_work_submit_flow(run->work, FG_LANE_QUERY, &full, &jams[n].job) ==
                 FG_SUBMIT_QUEUED &&
             ++n > 0);
    for (unsigned i = 0; i < 2; i++) {
        struct call call = {.run = run, .i = i};

        fds[i] = run_client(run);
        reader_init(&readers[i], true);
        ask_coded(fds[i], "/hold", "gzip");
        run_wait_held(run, i + 1);
        fg_loop_call(run->loop, do_set_flow, &call);
        assert_true(stream_begin(run, i));
        expect_coded_head(fds[i], "gzip");
        assert_true(stream_end(run, i, LAST_BYTES, 'x'));
    }
    assert_true(take_chunk(fds[FULL], &readers[FULL]) > LAST_BYTES);
    atomic_store(&go, true);
    assert_in_range(take_chunk(fds[OTHER], &readers[OTHER]), 1, LAST_BYTES / 100);
    while (atomic_load(&done) < n)
        (void)usleep(1000);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(readers[i].ended);
        assert_int_equal(readers[i].len, LAST_BYTES);
        reader_done(&readers[i]);
        (void)close(fds[i]);
    }
}

/* A peer may leave while a worker has the last piece, or before. */
static void peers_may_leave_a_coded_stream(void **state)
{
    struct http_run *run = *state;

    for (unsigned i = 0; i < 20; i++) {
        int fd = run_client(run);

        ask_coded(fd, "/hold", codings[i % 2]);
        run_wait_held(run, i + 1);
        assert_true(stream_begin(run, i));
        assert_true(stream_put(run, i, FG_LIT("one")));
        if (i % 4 < 2) {
            (void)close(fd);
            assert_true(stream_end(run, i, LAST_BYTES, 'x'));
        } else {
            assert_true(stream_end(run, i, LAST_BYTES, 'x'));
            (void)close(fd);
        }
    }
}

/* ---- HTTP/2 ---- */

static void frames_leave_at_once(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    assert_true(stream_put(run, 0, FG_LIT("one ")));
    while (h2_of(&client, 1)->body.len < 4)
        assert_true(h2_hear(&client));
    assert_int_equal(h2_of(&client, 1)->status, 200);
    assert_non_null(strstr(h2_of(&client, 1)->fields, "\nx-early: yes\n"));
    assert_null(strstr(h2_of(&client, 1)->fields, "content-length"));
    /* Others are not kept waiting meanwhile. */
    h2_get(&client, 3, "/echo");
    h2_expect(&client, 3, 200, "1 /echo ");
    assert_true(stream_put(run, 0, FG_LIT("two ")));
    assert_true(stream_end(run, 0, 3, 'x'));
    h2_expect(&client, 1, 200, "one two xxx");
    h2_close(&client);
}

static void windows_bound_what_is_unread(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;
    char piece[PIECE_BYTES];
    unsigned n = 0;

    memset(piece, 'p', sizeof piece);
    h2_open(&client, run_client(run));
    client.stingy = true;
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    while (stream_put(run, 0, fg_bytes(piece, sizeof piece)))
        n++;
    assert_in_range(n * PIECE_BYTES, WINDOW_BYTES - PIECE_BYTES, WINDOW_BYTES + HELD_BY_US_BYTES);
    assert_int_equal(fg_budget_used(&run->answers), 0);
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
    h2_window(&client, 0, 1 << 20);
    h2_window(&client, 1, 1 << 20);
    h2_expect(&client, 1, 200, NULL);
    struct fg_buf *body = &h2_of(&client, 1)->body;
    assert_int_equal(body->len, n * PIECE_BYTES + LAST_BYTES);
    for (size_t i = 0; i < body->len; i++)
        assert_int_equal(body->ptr[i], i < n * PIECE_BYTES ? 'p' : 'x');
    h2_close(&client);
}

/* A peer that reads nothing for a while has thousands of small frames before it. Then it answers
 * each of them, as clients of gRPC do, faster than tokens of the meter come back. */
static void slow_readers_may_answer_each_frame(void **state)
{
    enum { BACKLOG = 3000, WINDOW = 1 << 30 };
    static const uint8_t ping[8] = {0};
    struct http_run *run = *state;
    struct h2_client client;
    const struct h2_answer *answer;
    unsigned n_pings = 0;

    h2_open(&client, run_client(run));
    h2_window(&client, 0, WINDOW);
    h2_setting(&client, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW);
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    for (unsigned i = 0; i < BACKLOG; i++)
        while (!stream_put(run, 0, FG_LIT("piece ")))
            (void)usleep(1000);
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
    answer = h2_of(&client, 1);
    for (unsigned heard = 0; !answer->ended; heard = answer->n_frames) {
        assert_true(h2_hear(&client)); /* and opens both windows */
        if (answer->n_frames > heard && client.n_pongs == n_pings) {
            h2_frame(&client, NGHTTP2_PING, 0, 0, ping, sizeof ping);
            n_pings++;
        }
        answer = h2_of(&client, 1);
    }
    assert_int_equal(answer->body.len, BACKLOG * strlen("piece ") + LAST_BYTES);
    assert_true(answer->n_frames > BACKLOG / 2); /* or it would have been no backlog */
    while (client.n_pongs < n_pings)
        assert_true(h2_hear(&client));
    assert_int_equal(client.goaway, H2_STILL_OPEN);
    h2_close(&client);
}

static void h2_get_coded(struct h2_client *client, int32_t stream, const char *coding)
{
    const char *more[] = {"accept-encoding", coding, NULL};

    h2_request(client, stream, "GET", "/hold", more, true);
}

static void coded_frames_are_readable_at_once(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    for (unsigned i = 0; i < FG_COUNT(codings); i++) {
        int32_t stream = (int32_t)(2 * i + 1);
        struct h2_answer *answer;
        struct reader reader;
        size_t first;

        reader_init(&reader, strcmp(codings[i], "gzip") == 0);
        h2_get_coded(&client, stream, codings[i]);
        run_wait_held(run, i + 1);
        assert_true(stream_begin(run, i));
        assert_true(stream_put(run, i, FG_LIT("one ")));
        while (h2_of(&client, stream)->body.len == 0)
            assert_true(h2_hear(&client));
        answer = h2_of(&client, stream);
        first = answer->body.len;
        reader_take(&reader, fg_bytes(answer->body.ptr, first));
        reader_expect(&reader, "one ");
        assert_non_null(strstr(answer->fields, "\ncontent-encoding: "));
        assert_non_null(strstr(answer->fields, codings[i]));
        assert_true(stream_end(run, i, LAST_BYTES, 'x'));
        answer = h2_answer(&client, stream);
        assert_true(answer->body.len < LAST_BYTES / 100);
        reader_take(&reader, fg_bytes(answer->body.ptr + first, answer->body.len - first));
        assert_true(reader.ended);
        assert_int_equal(reader.len, 4 + LAST_BYTES);
        reader_done(&reader);
    }
    h2_close(&client);
}

/* What is refused for lack of room leaves no trace in the coding. */
static void refused_pieces_leave_the_coding_whole(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;
    char piece[PIECE_BYTES];

    memset(piece, 'p', sizeof piece);
    h2_open(&client, run_client(run));
    client.stingy = true;
    h2_window(&client, 0, 1 << 20);
    for (unsigned i = 0; i < FG_COUNT(codings); i++) {
        int32_t stream = (int32_t)(2 * i + 1);
        struct reader reader;
        struct fg_buf *body;
        unsigned n = 0;

        reader_init(&reader, strcmp(codings[i], "gzip") == 0);
        h2_get_coded(&client, stream, codings[i]);
        run_wait_held(run, i + 1);
        assert_true(stream_begin(run, i));
        while (stream_put(run, i, fg_bytes(piece, sizeof piece)))
            n++;
        assert_false(stream_put(run, i, fg_bytes(piece, sizeof piece)));
        assert_true(stream_end(run, i, 3, 'x'));
        h2_window(&client, stream, 1 << 20);
        body = &h2_answer(&client, stream)->body;
        reader_take(&reader, fg_bytes(body->ptr, body->len));
        assert_true(reader.ended);
        assert_int_equal(reader.len, n * PIECE_BYTES + 3);
        for (size_t k = 0; k < reader.len; k++)
            assert_int_equal(reader.plain[k], k < n * PIECE_BYTES ? 'p' : 'x');
        reader_done(&reader);
    }
    h2_close(&client);
}

static void streams_may_be_reset(void **state)
{
    static uint8_t
        piece[PIECE_BYTES]; /* few frames: the client answers each, perhaps all at once */
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    /* With something unread, and without. */
    for (unsigned i = 0; i < 2; i++) {
        int32_t stream = (int32_t)(2 * i + 1);

        client.stingy = i == 0;
        h2_get(&client, stream, "/hold");
        run_wait_held(run, i + 1);
        assert_true(stream_begin(run, i));
        while (stream_put(run, i, fg_bytes(piece, sizeof piece)) && i == 0)
            continue;
        h2_reset(&client, stream, NGHTTP2_CANCEL);
        run_wait_gone(run, i);
        assert_false(stream_put(run, i, FG_LIT("two")));
        assert_true(stream_end(run, i, LAST_BYTES, 'x'));
        h2_window(&client, 0, 1 << 20);
    }
    h2_get(&client, 5, "/echo");
    h2_expect(&client, 5, 200, "1 /echo ");
    h2_close(&client);
}

static void connections_may_end(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    client.stingy = true;
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    while (stream_put(run, 0, FG_LIT("piece of a long answer, ")))
        continue;
    h2_close(&client);
    run_wait_gone(run, 0);
    assert_false(stream_put(run, 0, FG_LIT("two")));
    assert_true(stream_end(run, 0, LAST_BYTES, 'x'));
}

/* A peer that keeps its window shut is cut off in time, and its handler learns it. */
static void shut_windows_are_cut_off(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    client.stingy = true;
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    assert_true(stream_begin(run, 0));
    while (stream_put(run, 0, FG_LIT("piece of a long answer, ")))
        continue;
    run_wait_gone(run, 0);
    assert_true(stream_end(run, 0, 3, 'x'));
    h2_close(&client);
}

#define TEST(name)       cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)
#define TEST_HASTY(name) cmocka_unit_test_setup_teardown(name, run_setup_hasty, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pieces_leave_at_once),
        TEST(pieces_wait_for_answers_before_them),
        TEST(slow_readers_cost_nothing),
        TEST(peers_that_leave_are_noticed),
        TEST(a_request_that_cannot_be_streamed_is_refused),
        TEST(a_last_piece_needs_memory),
        TEST(coded_pieces_are_readable_at_once),
        TEST(every_last_piece_ends_the_coding),
        TEST(a_refused_last_piece_leaves_the_coding_whole),
        TEST(full_lanes_leave_the_coding_whole),
        TEST(full_flows_leave_others_their_coding),
        TEST(peers_may_leave_a_coded_stream),
        TEST(frames_leave_at_once),
        TEST(coded_frames_are_readable_at_once),
        TEST(refused_pieces_leave_the_coding_whole),
        TEST(windows_bound_what_is_unread),
        TEST(slow_readers_may_answer_each_frame),
        TEST(streams_may_be_reset),
        TEST(connections_may_end),
        TEST_HASTY(shut_windows_are_cut_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
