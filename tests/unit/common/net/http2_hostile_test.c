/*
 * HTTP/2 as a client speaks it that breaks the rules, or keeps them and means harm. For each case:
 * whom it costs what (a stream or the connection, and with which code), and that the server is as
 * it was afterwards.
 */
#include "tests/lib/http2_client.h"
#include "tests/lib/http_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    END_STREAM = NGHTTP2_FLAG_END_STREAM,
    END_HEADERS = NGHTTP2_FLAG_END_HEADERS,
    PADDED = NGHTTP2_FLAG_PADDED,
    ACK = NGHTTP2_FLAG_ACK,
    FLOOD = 4000, /* frames; what is allowed is far less */
};

/* A client that has seen our settings, so that what it does next is no misunderstanding. */
static void open_client(void **state, struct h2_client *client)
{
    h2_open(client, run_client(*state));
    h2_ping(client);
}

static void expect_alive(struct h2_client *client, int32_t stream)
{
    h2_get(client, stream, "/echo");
    h2_expect(client, stream, 200, "1 /echo ");
}

/* --- one frame that ends the connection --- */

#define BYTES(text) text, sizeof(text) - 1 /* NOLINT(bugprone-macro-parentheses): literals */
/* Length, type, flags, stream. */
#define FRAME(length, type, flags, stream) "\0\0" length type flags "\0\0\0" stream

/* Each is said at once; then GOAWAY has to come, with the code, and the end. */
static void test_bad_frames(void **state)
{
    static const struct {
        const char *name, *bytes;
        size_t len;
        uint32_t code;
    } cases[] = {
        {"DATA on stream 0", BYTES(FRAME("\1", "\0", "\0", "\0") "x"), NGHTTP2_PROTOCOL_ERROR},
        {"DATA on an idle stream", BYTES(FRAME("\1", "\0", "\0", "\1") "x"),
         NGHTTP2_PROTOCOL_ERROR},
        {"DATA: padding longer than the frame", BYTES(FRAME("\2", "\0", "\x8", "\1") "\2x"),
         NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS on stream 0", BYTES(FRAME("\1", "\1", "\4", "\0") "\x82"),
         NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS on an even stream", BYTES(FRAME("\1", "\1", "\4", "\2") "\x82"),
         NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS: padding longer than the frame", BYTES(FRAME("\2", "\1", "\xc", "\1") "\5\x82"),
         NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS: no room for the padding's length", BYTES(FRAME("\0", "\1", "\xc", "\1")),
         NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS: index 0", BYTES(FRAME("\1", "\1", "\5", "\1") "\x80"),
         NGHTTP2_COMPRESSION_ERROR},
        {"HEADERS: index that is not there",
         BYTES(FRAME("\1", "\1", "\5", "\1") "\xff"
                                             "\0"),
         NGHTTP2_COMPRESSION_ERROR},
        {"HEADERS: index of 40 bits", BYTES(FRAME("\6", "\1", "\5", "\1") "\xff\xff\xff\xff\xff\7"),
         NGHTTP2_COMPRESSION_ERROR},
        {"HEADERS: table larger than we said",
         BYTES(FRAME("\4", "\1", "\5", "\1") "\x3f\xff\xff\3"), NGHTTP2_COMPRESSION_ERROR},
        {"HEADERS: string cut short", BYTES(FRAME("\3", "\1", "\5", "\1") "\0\5x"),
         NGHTTP2_COMPRESSION_ERROR},
        {"HEADERS: Huffman code of EOS",
         BYTES(FRAME("\7", "\1", "\5", "\1") "\0\1x\x84\xff\xff\xff"), NGHTTP2_COMPRESSION_ERROR},
        {"CONTINUATION alone", BYTES(FRAME("\1", "\x9", "\4", "\1") "\x82"),
         NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS, then another frame",
         BYTES(FRAME("\1", "\1", "\1", "\1") "\x82" FRAME("\0", "\0", "\0", "\1")),
         NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS, then CONTINUATION of another stream",
         BYTES(FRAME("\1", "\1", "\1", "\1") "\x82" FRAME("\1", "\x9", "\4", "\3") "\x82"),
         NGHTTP2_PROTOCOL_ERROR},
        {"PRIORITY of 4 bytes", BYTES(FRAME("\4", "\2", "\0", "\1") "\0\0\0\0"),
         NGHTTP2_FRAME_SIZE_ERROR},
        {"RST_STREAM on stream 0", BYTES(FRAME("\4", "\3", "\0", "\0") "\0\0\0\0"),
         NGHTTP2_PROTOCOL_ERROR},
        {"RST_STREAM on an idle stream", BYTES(FRAME("\4", "\3", "\0", "\1") "\0\0\0\0"),
         NGHTTP2_PROTOCOL_ERROR},
        {"RST_STREAM of 3 bytes", BYTES(FRAME("\3", "\3", "\0", "\1") "\0\0\0"),
         NGHTTP2_FRAME_SIZE_ERROR},
        {"SETTINGS of 5 bytes", BYTES(FRAME("\5", "\4", "\0", "\0") "\0\1\0\0\0"),
         NGHTTP2_FRAME_SIZE_ERROR},
        {"SETTINGS on a stream", BYTES(FRAME("\0", "\4", "\0", "\1")), NGHTTP2_PROTOCOL_ERROR},
        {"SETTINGS: acknowledged with payload", BYTES(FRAME("\6", "\4", "\1", "\0") "\0\1\0\0\0\0"),
         NGHTTP2_FRAME_SIZE_ERROR},
        {"SETTINGS: ENABLE_PUSH 2", BYTES(FRAME("\6", "\4", "\0", "\0") "\0\2\0\0\0\2"),
         NGHTTP2_PROTOCOL_ERROR},
        {"SETTINGS: INITIAL_WINDOW_SIZE 2^31",
         BYTES(FRAME("\6", "\4", "\0", "\0") "\0\4\x80\0\0\0"), NGHTTP2_FLOW_CONTROL_ERROR},
        {"SETTINGS: MAX_FRAME_SIZE 100", BYTES(FRAME("\6", "\4", "\0", "\0") "\0\5\0\0\0\x64"),
         NGHTTP2_PROTOCOL_ERROR},
        {"PUSH_PROMISE", BYTES(FRAME("\5", "\5", "\4", "\1") "\0\0\0\2\x82"),
         NGHTTP2_PROTOCOL_ERROR},
        {"PING of 7 bytes", BYTES(FRAME("\7", "\6", "\0", "\0") "1234567"),
         NGHTTP2_FRAME_SIZE_ERROR},
        {"PING on a stream", BYTES(FRAME("\x8", "\6", "\0", "\1") "12345678"),
         NGHTTP2_PROTOCOL_ERROR},
        {"GOAWAY on a stream", BYTES(FRAME("\x8", "\7", "\0", "\1") "\0\0\0\0\0\0\0\0"),
         NGHTTP2_PROTOCOL_ERROR},
        {"GOAWAY of 7 bytes", BYTES(FRAME("\7", "\7", "\0", "\0") "\0\0\0\0\0\0\0"),
         NGHTTP2_FRAME_SIZE_ERROR},
        {"WINDOW_UPDATE of 0", BYTES(FRAME("\4", "\x8", "\0", "\0") "\0\0\0\0"),
         NGHTTP2_PROTOCOL_ERROR},
        {"WINDOW_UPDATE beyond 2^31", BYTES(FRAME("\4", "\x8", "\0", "\0") "\x7f\xff\xff\xff"),
         NGHTTP2_FLOW_CONTROL_ERROR},
        {"WINDOW_UPDATE on an idle stream", BYTES(FRAME("\4", "\x8", "\0", "\1") "\0\0\0\1"),
         NGHTTP2_PROTOCOL_ERROR},
        {"WINDOW_UPDATE of 5 bytes", BYTES(FRAME("\5", "\x8", "\0", "\0") "\0\0\0\1\0"),
         NGHTTP2_FRAME_SIZE_ERROR},
        {"a frame of 16,385 bytes", BYTES("\0\x40\1\0\0\0\0\0\1x"), NGHTTP2_FRAME_SIZE_ERROR},
        {"a frame of 16 MiB", BYTES("\xff\xff\xff\x77\0\0\0\0\0"), NGHTTP2_FRAME_SIZE_ERROR},
    };
    struct http_run *run = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct h2_client client;

        print_message("  %s\n", cases[i].name);
        open_client(state, &client);
        h2_say(&client, cases[i].bytes, cases[i].len);
        h2_expect_goaway(&client, cases[i].code);
        h2_close(&client);
    }
    assert_true(run_metric_becomes(run, "pyroscope_tcp_connections 0\n"));
    assert_true(run_metric_is(run, "flamegrid_http2_closed_total{reason=\"protocol_error\"} 37\n"));
}

static void test_bad_preface(void **state)
{
    struct h2_client client;

    h2_init(&client, run_client(*state));
    client.silent = true;
    h2_preface(&client);
    h2_get(&client, 1, "/echo"); /* not SETTINGS */
    h2_expect_goaway(&client, NGHTTP2_PROTOCOL_ERROR);
    h2_close(&client);
    h2_init(&client, run_client(*state));
    h2_preface(&client);
    h2_preface(&client);
    h2_expect_goaway(&client, NGHTTP2_PROTOCOL_ERROR);
    h2_close(&client);
    h2_init(&client, run_client(*state)); /* byte by byte, and then nothing */
    for (int i = 0; i < H2_PREFACE_BYTES; i++)
        h2_say(&client, &NGHTTP2_CLIENT_MAGIC[i], 1);
    h2_frame(&client, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    expect_alive(&client, 1);
    h2_close(&client);
}

/* --- streams --- */

static void test_stream_numbers(void **state)
{
    struct h2_client client;

    open_client(state, &client);
    expect_alive(&client, 5);
    h2_get(&client, 3, "/echo"); /* passed over, so closed: nghttp2 takes it for a late frame */
    expect_alive(&client, 7);
    assert_int_equal(h2_of(&client, 3)->status, 0);
    h2_close(&client);
}

static void test_after_the_end(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    open_client(state, &client);
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 1);
    h2_data(&client, 1, "x", 1, false);
    h2_expect_goaway(&client, NGHTTP2_STREAM_CLOSED);
    h2_close(&client);
    run_wait_gone(run, 0);
    run_let_go(run, 0, "x");
    open_client(state, &client);
    h2_get(&client, 1, "/hold");
    run_wait_held(run, 2);
    h2_get(&client, 1, "/echo"); /* the same stream again */
    h2_expect_goaway(&client, NGHTTP2_STREAM_CLOSED);
    h2_close(&client);
    run_wait_gone(run, 1);
    run_let_go(run, 1, "x");
    /* A stream that was reset may see frames that were on their way. */
    open_client(state, &client);
    h2_request(&client, 1, "POST", "/echo", NULL, false);
    h2_reset(&client, 1, NGHTTP2_CANCEL);
    h2_reset(&client, 1, NGHTTP2_CANCEL);
    h2_window(&client, 1, 10);
    expect_alive(&client, 3);
    h2_close(&client);
}

static void test_stream_windows(void **state)
{
    struct h2_client client;

    open_client(state, &client);
    h2_request(&client, 1, "POST", "/length", NULL, false);
    h2_window(&client, 1, INT32_MAX);
    h2_expect_reset(&client, 1, NGHTTP2_FLOW_CONTROL_ERROR);
    expect_alive(&client, 3);
    h2_close(&client);
}

/* Two at a time are allowed here. A peer that may not know it yet is told; one that knows is
 * disconnected. */
static void test_too_many_streams(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    h2_open(&client, run_client(run));
    for (int32_t stream = 1; stream <= 5; stream += 2)
        h2_get(&client, stream, "/hold");
    run_wait_held(run, 2);
    h2_expect_reset(&client, 5, NGHTTP2_REFUSED_STREAM);
    h2_ping(&client);
    h2_get(&client, 7, "/hold");
    h2_expect_goaway(&client, NGHTTP2_PROTOCOL_ERROR);
    h2_close(&client);
    run_wait_gone(run, 1);
    run_let_go(run, 0, "x");
    run_let_go(run, 1, "x");
}

/* Streams that were reset are no streams any more, but their handlers are at work all the same. */
static void test_abandoned_streams(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    open_client(state, &client);
    for (int32_t stream = 1; stream <= 7; stream += 2) {
        h2_get(&client, stream, "/hold");
        run_wait_held(run, ((unsigned)stream + 1) / 2);
        h2_reset(&client, stream, NGHTTP2_CANCEL);
    }
    h2_get(&client, 9, "/hold");
    h2_expect_reset(&client, 9, NGHTTP2_REFUSED_STREAM);
    assert_true(run_metric_is(run, "flamegrid_http2_streams_refused_total 1\n"));
    for (unsigned i = 0; i < 4; i++)
        run_let_go(run, i, "x");
    expect_alive(&client, 11);
    h2_close(&client);
}

/* --- malformed requests (RFC 9113, 8.1.1): the stream is reset, the connection goes on --- */

struct field {
    const char *name, *value;
};

static void put_case(struct fg_buf *block, const struct field *field, const char **body)
{
    if (strcmp(field->name, "DATA") == 0)
        *body = field->value;
    else if (strcmp(field->name, "NUL") == 0)
        fg_buf_put(block, FG_LIT("\0\1x\3a\0b"));
    else
        h2_put_field(block, field->name, field->value);
}

static void test_malformed(void **state)
{
    static const struct {
        const char *name;
        struct field fields[8]; /* "DATA": a body; "NUL": a field with a NUL */
    } cases[] = {
        {"no :method", {{":path", "/echo"}, {":scheme", "http"}, {":authority", "a"}}},
        {"no :path", {{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}}},
        {"no :scheme", {{":method", "GET"}, {":path", "/echo"}, {":authority", "a"}}},
        {"no authority at all", {{":method", "GET"}, {":path", "/echo"}, {":scheme", "http"}}},
        {"empty :path",
         {{":method", "GET"}, {":path", ""}, {":scheme", "http"}, {":authority", "a"}}},
        {":path without slash",
         {{":method", "GET"}, {":path", "echo"}, {":scheme", "http"}, {":authority", "a"}}},
        {"two :path",
         {{":method", "GET"},
          {":path", "/echo"},
          {":path", "/hold"},
          {":scheme", "http"},
          {":authority", "a"}}},
        {"pseudo-header after a header",
         {{":method", "GET"},
          {":path", "/echo"},
          {":scheme", "http"},
          {"x", "y"},
          {":authority", "a"}}},
        {"unknown pseudo-header",
         {{":method", "GET"},
          {":path", "/echo"},
          {":scheme", "http"},
          {":authority", "a"},
          {":x", "y"}}},
        {":status",
         {{":method", "GET"},
          {":path", "/echo"},
          {":scheme", "http"},
          {":authority", "a"},
          {":status", "200"}}},
        {"CONNECT with :path",
         {{":method", "CONNECT"}, {":path", "/echo"}, {":scheme", "http"}, {":authority", "a"}}},
#define GOOD {":method", "POST"}, {":path", "/echo"}, {":scheme", "http"}, {":authority", "a"}
        {"upper case", {GOOD, {"X-Agent", "y"}}},
        {"blank in a name", {GOOD, {"x y", "z"}}},
        {"empty name", {GOOD, {"", "z"}}},
        {"line end in a value", {GOOD, {"x", "y\r\nz: 1"}}},
        {"NUL in a value", {GOOD, {"NUL", ""}}},
        {"connection", {GOOD, {"connection", "close"}}},
        {"keep-alive", {GOOD, {"keep-alive", "5"}}},
        {"transfer-encoding", {GOOD, {"transfer-encoding", "chunked"}}},
        {"upgrade", {GOOD, {"upgrade", "h2c"}}},
        {"te other than trailers", {GOOD, {"te", "gzip"}}},
        {"length not a number", {GOOD, {"content-length", "x"}, {"DATA", "x"}}},
        {"signed length", {GOOD, {"content-length", "+1"}, {"DATA", "x"}}},
        {"huge length", {GOOD, {"content-length", "99999999999999999999"}, {"DATA", "x"}}},
        {"two lengths", {GOOD, {"content-length", "1"}, {"content-length", "1"}, {"DATA", "x"}}},
        {"body shorter than its length", {GOOD, {"content-length", "2"}, {"DATA", "x"}}},
        {"body longer than its length", {GOOD, {"content-length", "1"}, {"DATA", "xx"}}},
        {"no body and a length", {GOOD, {"content-length", "1"}}},
    };
    struct http_run *run = *state;
    struct h2_client client;
    int32_t stream = 1;
    char metric[100];

    open_client(state, &client);
    for (size_t i = 0; i < FG_COUNT(cases); i++, stream += 2) {
        const char *body = NULL;
        struct fg_buf block;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&block, 4096);
        for (const struct field *field = cases[i].fields; field->name != NULL; field++)
            put_case(&block, field, &body);
        h2_frame(&client, NGHTTP2_HEADERS, END_HEADERS | (body == NULL ? END_STREAM : 0), stream,
                 block.ptr, block.len);
        if (body != NULL)
            h2_data(&client, stream, body, strlen(body), true);
        h2_expect_reset(&client, stream, NGHTTP2_PROTOCOL_ERROR);
        fg_buf_done(&block);
    }
    expect_alive(&client, stream);
    (void)snprintf(metric, sizeof metric,
                   "flamegrid_http_refused_total{reason=\"malformed\"} %zu\n", FG_COUNT(cases));
    assert_true(run_metric_is(run, metric));
    h2_close(&client);
}

static void test_bad_trailers(void **state)
{
    struct h2_client client;
    struct fg_buf block;

    open_client(state, &client);
    fg_buf_init(&block, 1024);
    h2_put_field(&block, "x", "y");
    h2_request(&client, 1, "POST", "/echo", NULL, false);
    h2_frame(&client, NGHTTP2_HEADERS, END_HEADERS, 1, block.ptr, block.len); /* not the end */
    h2_expect_reset(&client, 1, NGHTTP2_PROTOCOL_ERROR);
    fg_buf_clear(&block);
    h2_put_field(&block, ":path", "/hold");
    h2_request(&client, 3, "POST", "/echo", NULL, false);
    h2_frame(&client, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 3, block.ptr, block.len);
    h2_expect_reset(&client, 3, NGHTTP2_PROTOCOL_ERROR);
    expect_alive(&client, 5);
    fg_buf_done(&block);
    h2_close(&client);
}

/* --- floods: each frame costs the client nothing, and is allowed --- */

static void expect_calm_down(void **state, struct h2_client *client)
{
    h2_expect_goaway(client, NGHTTP2_ENHANCE_YOUR_CALM);
    h2_close(client);
    assert_true(run_metric_is(*state, "flamegrid_http2_closed_total{reason=\"flood\"} 1\n"));
}

static void flood(void **state, unsigned type, unsigned flags, int32_t stream, size_t len)
{
    static const uint8_t payload[64] = {0, 0, 0, 1};
    struct h2_client client;

    open_client(state, &client);
    h2_request(&client, 1, "POST", "/echo", NULL, false);
    for (int i = 0; i < FLOOD; i++)
        h2_frame(&client, type, flags, stream, payload, len);
    expect_calm_down(state, &client);
}

static void test_settings_flood(void **state)
{
    flood(state, NGHTTP2_SETTINGS, 0, 0, 0);
}

static void test_ack_flood(void **state)
{
    flood(state, NGHTTP2_PING, ACK, 0, 8);
}

static void test_ping_flood(void **state)
{
    flood(state, NGHTTP2_PING, 0, 0, 8);
}

static void test_priority_flood(void **state)
{
    flood(state, NGHTTP2_PRIORITY, 0, 3, 5);
}

static void test_empty_data_flood(void **state)
{
    flood(state, NGHTTP2_DATA, 0, 1, 0);
}

static void test_padding_flood(void **state)
{
    flood(state, NGHTTP2_DATA, PADDED, 1, 1);
}

static void test_window_flood(void **state)
{
    flood(state, NGHTTP2_WINDOW_UPDATE, 0, 0, 4);
}

static void test_unknown_frame_flood(void **state)
{
    flood(state, 0x77, 0, 1, 0);
}

/* HEADERS and RST_STREAM, again and again (CVE-2023-44487). */
static void test_rapid_reset(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;

    open_client(state, &client);
    for (int32_t i = 0; i < FLOOD; i++) {
        h2_request(&client, 2 * i + 1, "POST", "/hold", NULL, false);
        h2_reset(&client, 2 * i + 1, NGHTTP2_CANCEL);
    }
    expect_calm_down(state, &client);
    assert_int_equal(atomic_load(&run->n_held), 0);
}

/* The same with complete requests: what is at work is bounded by more than open streams. */
static void test_rapid_reset_at_work(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;
    unsigned held;

    open_client(state, &client);
    for (int32_t i = 0; i < FLOOD; i++) {
        h2_get(&client, 2 * i + 1, "/hold");
        h2_reset(&client, 2 * i + 1, NGHTTP2_CANCEL);
    }
    expect_calm_down(state, &client);
    held = atomic_load(&run->n_held);
    assert_true(held <= 2 * run->config.streams_max);
    for (unsigned i = 0; i < held; i++)
        run_let_go(run, i, "x");
}

/* The server resets what is malformed: the client need not (CVE-2025-8671). */
static void test_made_you_reset(void **state)
{
    struct h2_client client;

    open_client(state, &client);
    for (int32_t i = 0; i < FLOOD && client.goaway == H2_STILL_OPEN; i++) {
        h2_request(&client, 2 * i + 1, "POST", "/hold", NULL, false);
        h2_window(&client, 2 * i + 1, INT32_MAX);
        while (h2_of(&client, 2 * i + 1)->reset == H2_STILL_OPEN && h2_hear(&client))
            continue;
        client.n_answers = 0;
    }
    expect_calm_down(state, &client);
}

static void test_continuation_flood(void **state)
{
    struct h2_client client;

    open_client(state, &client);
    h2_frame(&client, NGHTTP2_HEADERS, END_STREAM, 1, NULL, 0);
    for (int i = 0; i < FLOOD; i++)
        h2_frame(&client, NGHTTP2_CONTINUATION, 0, 1, NULL, 0);
    expect_calm_down(state, &client);
}

/* The bytes that were sent pay for the windows that are opened for them, and for nothing else. */
static void flood_after_data(void **state, unsigned type, size_t len)
{
    static const uint8_t payload[8] = {0, 0, 0, 1};
    struct h2_client client;

    open_client(state, &client);
    h2_window(&client, 0, 1 << 30);
    h2_setting(&client, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 30);
    client.stingy = true;
    h2_get(&client, 1, "/big?n=10000000"); /* 611 DATA */
    assert_int_equal(h2_answer(&client, 1)->body.len, 10000000);
    for (int i = 0; i < FLOOD; i++)
        h2_frame(&client, type, 0, 0, payload, len);
    expect_calm_down(state, &client);
}

static void test_window_flood_after_data(void **state)
{
    flood_after_data(state, NGHTTP2_WINDOW_UPDATE, 4);
}

static void test_ping_flood_after_data(void **state)
{
    flood_after_data(state, NGHTTP2_PING, 8);
}

static void test_settings_flood_after_data(void **state)
{
    flood_after_data(state, NGHTTP2_SETTINGS, 0);
}

/* What well-behaved clients do is far from that. */
static void test_no_flood(void **state)
{
    struct h2_client client;
    int32_t stream = 1;

    open_client(state, &client);
    for (int i = 0; i < 300; i++)
        h2_ping(&client);
    for (int i = 0; i < 1500; i++, stream += 2) {
        h2_get(&client, stream, "/echo");
        h2_expect(&client, stream, 200, NULL);
        client.n_answers = 0;
        fg_buf_done(&client.answers[0].body);
    }
    h2_get(&client, stream, "/big?n=30000000"); /* 1,832 DATA, and two WINDOW_UPDATEs for each */
    assert_int_equal(h2_answer(&client, stream)->body.len, 30000000);
    h2_close(&client);
}

/* --- header lists --- */

static void put_big_block(struct fg_buf *block)
{
    char value[3900];

    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = '\0';
    h2_put_request(block, "GET", "/echo", NULL);
    /* Literal with incremental indexing: goes into the table. */
    fg_buf_putc(block, 0x40);
    fg_buf_put(block, FG_LIT("\1x"));
    fg_buf_putc(block, 127);
    fg_buf_varint(block, sizeof value - 1 - 127);
    fg_buf_puts(block, value);
}

/* References to a field of 4 kB: a byte of them on the wire is 4 kB of headers. */
static void put_references(struct fg_buf *block, unsigned n)
{
    while (n-- > 0)
        fg_buf_putc(block, 0x80 | 62); /* the newest entry of the table */
}

/* A list somewhat over the limit of 32 KiB costs the request; one of several times as much the
 * connection, wherever it is: in a head, or in trailers. */
static void test_hpack_bomb(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;
    struct fg_buf block;

    fg_buf_init(&block, 1 << 16);
    open_client(state, &client);
    put_big_block(&block);
    put_references(&block, 20);
    for (int32_t stream = 1; stream <= 9; stream += 2) {
        h2_frame(&client, NGHTTP2_HEADERS, END_STREAM | END_HEADERS, stream, block.ptr, block.len);
        h2_expect(&client, stream, 431, NULL);
    }
    expect_alive(&client, 11);
    put_references(&block, 20);
    h2_frame(&client, NGHTTP2_HEADERS, END_STREAM | END_HEADERS, 13, block.ptr, block.len);
    h2_expect_goaway(&client, NGHTTP2_ENHANCE_YOUR_CALM);
    h2_close(&client);
    open_client(state, &client);
    put_references(&block, 8000); /* and all that is left of the input is not looked at */
    h2_frame(&client, NGHTTP2_HEADERS, END_STREAM, 1, block.ptr, block.len);
    h2_expect_goaway(&client, NGHTTP2_ENHANCE_YOUR_CALM);
    h2_close(&client);
    open_client(state, &client);
    fg_buf_clear(&block);
    put_big_block(&block);
    h2_frame(&client, NGHTTP2_HEADERS, END_HEADERS, 1, block.ptr, block.len);
    fg_buf_clear(&block);
    put_references(&block, 50);
    h2_frame(&client, NGHTTP2_HEADERS, END_STREAM | END_HEADERS, 1, block.ptr, block.len);
    h2_expect_goaway(&client, NGHTTP2_ENHANCE_YOUR_CALM);
    h2_close(&client);
    assert_true(run_metric_is(run, "flamegrid_http2_closed_total{reason=\"flood\"} 3\n"));
    fg_buf_done(&block);
}

/* --- answers that nobody reads --- */

/* All windows are shut: what the answers hold is counted, and beyond the budget they are 503. */
static void test_shut_windows(void **state)
{
    enum { STREAMS = 60, BIG = 1000000 };
    struct http_run *run = *state;
    unsigned n_200 = 0, n_503 = 0;
    struct h2_client client;

    h2_init(&client, run_client(run));
    client.stingy = true;
    h2_preface(&client);
    h2_setting(&client, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    for (int32_t stream = 1; stream < 2 * STREAMS; stream += 2)
        h2_get(&client, stream, "/big?n=1000000");
    for (int32_t stream = 1; stream < 2 * STREAMS; stream += 2) {
        while (h2_of(&client, stream)->status == 0)
            assert_true(h2_hear(&client));
        n_200 += h2_of(&client, stream)->status == 200;
        n_503 += h2_of(&client, stream)->status == 503;
        assert_true(fg_budget_used(&run->answers) <= RUN_ANSWERS);
    }
    assert_int_equal(n_200, RUN_ANSWERS / BIG);
    assert_int_equal(n_503, STREAMS - n_200);
    h2_reset(&client, 1, NGHTTP2_CANCEL); /* makes room for one more */
    h2_get(&client, 2 * STREAMS + 1, "/big?n=1000000");
    while (h2_of(&client, 2 * STREAMS + 1)->status == 0)
        assert_true(h2_hear(&client));
    assert_int_equal(h2_of(&client, 2 * STREAMS + 1)->status, 200);
    /* And while others want the memory, streams that take nothing are reset. */
    for (int32_t stream = 2 * STREAMS + 3;
         run_metric_is(run, "flamegrid_http_slow_readers_total{reason=\"stalled\"} 0\n");
         stream += 2) {
        assert_true(stream < 2 * STREAMS + 200); /* write_timeout is 30 s */
        h2_get(&client, stream, "/big?n=1000000");
        (void)usleep(100000);
    }
    h2_close(&client);
}

/* Eight CONTINUATIONs are taken, with whatever is in them; more are not. */
static void test_many_continuations(void **state)
{
    struct h2_client client;
    struct fg_buf block;

    open_client(state, &client);
    fg_buf_init(&block, 1 << 16);
    put_big_block(&block);
    for (int n = 8; n <= 9; n++) {
        int32_t stream = 2 * n + 1;

        h2_frame(&client, NGHTTP2_HEADERS, END_STREAM, stream, block.ptr, block.len);
        for (int i = 1; i <= n; i++)
            h2_frame(&client, NGHTTP2_CONTINUATION, i == n ? END_HEADERS : 0, stream, "\x82", 0);
        if (n == 8)
            h2_expect(&client, stream, 200, NULL);
    }
    fg_buf_done(&block);
    expect_calm_down(state, &client);
}

/* Random frames: whatever comes of it, the server lives and has given back all it took. */
static void test_noise(void **state)
{
    uint64_t random = 88172645463325252ULL;

    for (int round = 0; round < 200; round++) {
        struct h2_client client;

        h2_open(&client, run_client(*state));
        for (int i = 0; i < 50; i++) {
            uint8_t payload[64];

            for (size_t n = 0; n < sizeof payload; n++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                payload[n] = (uint8_t)random;
            }
            if (random % 3 == 0)
                h2_request(&client, 2 * i + 1, "POST", "/echo", NULL, random % 2 == 0);
            h2_frame(&client, (unsigned)(random >> 8) % 11, (unsigned)(random >> 16) & 0x2d,
                     2 * i + (int)(random >> 24) % 2, payload, (random >> 32) % sizeof payload);
        }
        h2_close(&client);
    }
    assert_true(run_metric_becomes(*state, "pyroscope_tcp_connections 0\n"));
}

#define TEST(name)        cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)
#define TEST_NARROW(name) cmocka_unit_test_setup_teardown(name, run_setup_narrow, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bad_frames),
        TEST(test_bad_preface),
        TEST(test_stream_numbers),
        TEST(test_after_the_end),
        TEST(test_stream_windows),
        TEST(test_shut_windows),
        TEST_NARROW(test_too_many_streams),
        TEST_NARROW(test_abandoned_streams),
        TEST(test_malformed),
        TEST(test_bad_trailers),
        TEST(test_settings_flood),
        TEST(test_ack_flood),
        TEST(test_ping_flood),
        TEST(test_priority_flood),
        TEST(test_empty_data_flood),
        TEST(test_padding_flood),
        TEST(test_window_flood),
        TEST(test_unknown_frame_flood),
        TEST(test_rapid_reset),
        TEST(test_rapid_reset_at_work),
        TEST(test_made_you_reset),
        TEST(test_continuation_flood),
        TEST(test_window_flood_after_data),
        TEST(test_ping_flood_after_data),
        TEST(test_settings_flood_after_data),
        TEST(test_no_flood),
        TEST(test_hpack_bomb),
        TEST(test_many_continuations),
        TEST(test_noise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
