/* The server under TLS, with real sockets and OpenSSL's client. */
#include "tests/lib/http2_client.h"
#include "tests/lib/tls_run.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { LARGE_BYTES = 20000000 };

#define GET(path)        "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(path, more) "POST " path " HTTP/1.1\r\nHost: a\r\n" more

/* --- HTTP/1.1 --- */

static void test_http1(void **state)
{
    struct tls_run *f = *state;
    struct tls_client client;
    char byte;

    assert_true(tls_client_open(f, &client, (struct tls_wish){0}));
    for (int i = 0; i < 3; i++) {
        tls_expect(&client, GET("/echo"), "200", "1 /echo ");
        tls_expect(&client, POST("/echo", "Content-Length: 5\r\n\r\nhello"), "200",
                   "4 /echo hello");
    }
    tls_expect(&client, "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200",
               "1 /echo ");
    /* The end is said, not only made: who is cut off can tell. */
    assert_int_equal(SSL_read(client.ssl, &byte, 1), 0);
    assert_int_equal(SSL_get_error(client.ssl, 0), SSL_ERROR_ZERO_RETURN);
    tls_client_close(&client);
    tls_expect_metric(f, "flamegrid_tls_handshakes_total{version=\"1.3\"} 1\n");
}

static void test_large(void **state)
{
    uint8_t *bytes = fg_calloc(1, RUN_BODY_MAX);
    char *answer = fg_malloc(LARGE_BYTES + 4096);
    struct tls_client client;
    size_t at;

    assert_true(tls_client_open(*state, &client, (struct tls_wish){0}));
    tls_say(&client, POST("/length", "Content-Length: 1048576\r\n\r\n"));
    assert_int_equal(SSL_write(client.ssl, bytes, RUN_BODY_MAX), RUN_BODY_MAX);
    tls_hear(&client, answer, 4096);
    assert_string_equal(strstr(answer, "\r\n\r\n") + 4, "1048576");
    tls_say(&client, GET("/big?n=20000000"));
    (void)usleep(50000); /* the server has to wait for us */
    tls_hear(&client, answer, LARGE_BYTES + 4096);
    at = (size_t)(strstr(answer, "\r\n\r\n") + 4 - answer);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        if (answer[at + i] != (char)('a' + i % 7))
            fail_msg("byte %zu", i);
    tls_client_close(&client);
    free(answer);
    free(bytes);
}

/* What has been decrypted and cannot be taken yet is not lost. */
static void test_back_pressure(void **state)
{
    struct tls_run *f = *state;
    struct tls_client client;
    char answer[1024];

    assert_true(tls_client_open(f, &client, (struct tls_wish){0}));
    tls_say(&client, GET("/hold") GET("/hold") GET("/hold") GET("/hold") GET("/hold"));
    tls_say(&client, GET("/hold"));
    run_wait_held(f->run, 2);
    for (unsigned i = 0; i < 6; i++) {
        run_wait_held(f->run, i < 5 ? i + 2 : 6);
        run_let_go(f->run, i, "x");
        tls_hear(&client, answer, sizeof answer);
    }
    tls_client_close(&client);
}

static void test_half_closed(void **state)
{
    struct tls_run *f = *state;
    struct tls_client client;
    char answer[1024];

    assert_true(tls_client_open(f, &client, (struct tls_wish){0}));
    tls_say(&client, GET("/hold"));
    run_wait_held(f->run, 1);
    assert_int_equal(SSL_shutdown(client.ssl), 0); /* we say the end, and wait for the server's */
    run_wait_gone(f->run, 0);
    run_let_go(f->run, 0, "answer");
    tls_hear(&client, answer, sizeof answer);
    assert_string_equal(strstr(answer, "\r\n\r\n") + 4, "answer");
    assert_int_equal(SSL_shutdown(client.ssl), 1);
    tls_client_close(&client);
}

/* Each byte is a packet of its own, if possible. */
static void test_byte_by_byte(void **state)
{
    struct tls_run *f = *state;
    BIO *from = BIO_new(BIO_s_mem()), *to = BIO_new(BIO_s_mem());
    struct tls_client client;
    char byte, answer[4096];
    int n;

    tls_client_init(f, &client, &(struct tls_wish){0});
    SSL_set_bio(client.ssl, from, to);
    SSL_set_connect_state(client.ssl);
    while ((n = SSL_do_handshake(client.ssl)) != 1) {
        assert_int_equal(SSL_get_error(client.ssl, n), SSL_ERROR_WANT_READ);
        while (BIO_read(to, &byte, 1) == 1)
            run_say_bytes(client.fd, &byte, 1);
        n = (int)recv(client.fd, answer, sizeof answer, 0);
        assert_true(n > 0 && BIO_write(from, answer, n) == n);
    }
    tls_say(&client, GET("/echo"));
    while (BIO_read(to, &byte, 1) == 1)
        run_say_bytes(client.fd, &byte, 1);
    while ((n = SSL_read(client.ssl, answer, sizeof answer)) <= 0) {
        assert_int_equal(SSL_get_error(client.ssl, n), SSL_ERROR_WANT_READ);
        n = (int)recv(client.fd, answer, sizeof answer, 0);
        assert_true(n > 0 && BIO_write(from, answer, n) == n);
    }
    assert_memory_equal(answer, "HTTP/1.1 200", 12);
    tls_client_close(&client);
}

/* --- HTTP/2 --- */

static void test_alpn(void **state)
{
    static const struct {
        const char *name, *offered, *want; /* want NULL: no connection */
    } cases[] = {
        {"both", "\x8http/1.1\2h2", "h2"},
        {"HTTP/1.1", "\x8http/1.1", "http/1.1"},
        {"HTTP/2", "\2h2", "h2"},
        {"unknown ones too", "\4spdy\x8http/1.1", "http/1.1"},
        {"none that we know", "\4spdy", NULL},
        {"none at all", NULL, ""},
    };
    struct tls_run *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        const unsigned char *chosen;
        struct tls_client client;
        unsigned len;
        bool open = tls_client_open(f, &client, (struct tls_wish){.alpn = cases[i].offered});

        print_message("  %s\n", cases[i].name);
        assert_int_equal(open, cases[i].want != NULL);
        SSL_get0_alpn_selected(client.ssl, &chosen, &len);
        if (open) {
            assert_int_equal(len, strlen(cases[i].want));
            assert_memory_equal(chosen, cases[i].want, len);
        }
        tls_client_close(&client);
    }
    tls_expect_metric(f, "flamegrid_tls_handshake_failures_total{reason=\"protocol\"} 1\n");
}

static ssize_t send_tls(struct h2_client *client, const void *bytes, size_t len)
{
    return SSL_write(client->tls, bytes, (int)len);
}

static ssize_t recv_tls(struct h2_client *client, void *bytes, size_t len)
{
    return SSL_read(client->tls, bytes, (int)len);
}

static void open_h2(struct tls_run *f, struct tls_client *client, struct h2_client *h2)
{
    assert_true(tls_client_open(f, client, (struct tls_wish){.alpn = "\2h2"}));
    h2_init(h2, -1);
    h2->tls = client->ssl;
    h2->send = send_tls;
    h2->recv = recv_tls;
    h2->silent = true;
    while (!h2->settings_heard) /* the server need not wait for us to speak */
        assert_true(h2_hear(h2));
    h2->silent = false;
    h2_preface(h2);
    h2_frame(h2, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    h2_frame(h2, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
}

static void test_http2(void **state)
{
    struct tls_run *f = *state;
    uint8_t *bytes = fg_calloc(1, RUN_BODY_MAX);
    struct tls_client client;
    struct h2_client h2;

    open_h2(f, &client, &h2);
    h2_get(&h2, 1, "/hold");
    run_wait_held(f->run, 1);
    h2_request(&h2, 3, "POST", "/length", NULL, false);
    h2_upload(&h2, 3, bytes, RUN_BODY_MAX, true);
    h2_expect(&h2, 3, 200, "1048576");
    h2_get(&h2, 5, "/big?n=20000000");
    assert_int_equal(h2_answer(&h2, 5)->body.len, LARGE_BYTES);
    run_let_go(f->run, 0, "x");
    h2_expect(&h2, 1, 200, "x");
    h2_frame(&h2, NGHTTP2_DATA, 0, 0, NULL, 0);
    h2_expect_goaway(&h2, NGHTTP2_PROTOCOL_ERROR);
    h2_close(&h2);
    tls_client_close(&client);
    free(bytes);
}

/* --- handshakes that come to nothing --- */

static void test_versions(void **state)
{
    struct tls_run *f = *state;

    tls_expect_refused(f, (struct tls_wish){.version = TLS1_VERSION});
    tls_expect_refused(f, (struct tls_wish){.version = TLS1_1_VERSION});
    tls_expect_works(f, (struct tls_wish){.version = TLS1_2_VERSION});
    tls_expect_works(f, (struct tls_wish){.version = TLS1_3_VERSION});
    tls_expect_metric(f, "flamegrid_tls_handshakes_total{version=\"1.2\"} 1\n");
    tls_expect_metric(f, "flamegrid_tls_handshakes_total{version=\"1.3\"} 1\n");
    tls_expect_metric(f, "flamegrid_tls_handshake_failures_total{reason=\"protocol\"} 2\n");
}

static void test_ciphers(void **state)
{
    static const char *const bad[] = {"AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256", "aNULL"};
    struct tls_run *f = *state;

    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        struct tls_client client;

        print_message("  %s\n", bad[i]);
        tls_client_init(f, &client, &(struct tls_wish){.version = TLS1_2_VERSION});
        assert_int_equal(SSL_set_cipher_list(client.ssl, bad[i]), 1);
        assert_int_not_equal(SSL_connect(client.ssl), 1);
        tls_client_close(&client);
    }
}

static void test_renegotiation(void **state)
{
    struct tls_run *f = *state;
    struct tls_client client;

    assert_true(tls_client_open(f, &client, (struct tls_wish){.version = TLS1_2_VERSION}));
    tls_expect(&client, GET("/echo"), "200", "1 /echo ");
    assert_int_equal(SSL_renegotiate(client.ssl), 1);
    assert_int_not_equal(SSL_do_handshake(client.ssl), 1);
    tls_client_close(&client);
    tls_expect_works(f, (struct tls_wish){0});
}

static void test_cleartext(void **state)
{
    struct tls_run *f = *state;
    int fd = run_client(f->run);
    char answer[1024];
    size_t len = 0;
    ssize_t n;

    run_say(fd, GET("/echo"));
    while ((n = recv(fd, answer + len, sizeof answer - 1 - len, 0)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    assert_memory_equal(answer, "HTTP/1.1 400 Bad Request\r\n", 26);
    assert_non_null(strstr(answer, "this port accepts only TLS"));
    (void)close(fd);
    tls_expect_metric(f, "flamegrid_tls_handshake_failures_total{reason=\"cleartext\"} 1\n");
    assert_true(run_metric_is(f->run, "flamegrid_http_refused_total{reason=\"cleartext\"} 1\n"));
}

/* Answered by an alert at most, and closed; nothing is left of it. */
static void test_garbage(void **state)
{
    static const struct {
        const char *name, *bytes;
        size_t len;
    } cases[] = {
        {"text", "hello, is anybody there?\r\n\r\n", 28},
        {"HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24},
        {"zeros", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15},
        {"a record of data", "\x17\3\3\0\5hello", 10},
        {"a record that is too long", "\x16\3\1\xff\xff\1\0\0\0\0", 10},
        {"a hello that is none", "\x16\3\1\0\5\1\0\0\1\0", 10},
        {"an alert", "\x15\3\1\0\2\2\x28", 7},
    };
    struct tls_run *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        int fd = run_client(f->run);
        char byte;

        print_message("  %s\n", cases[i].name);
        run_say_bytes(fd, cases[i].bytes, cases[i].len);
        for (int n = 0; recv(fd, &byte, 1, 0) > 0; n++)
            assert_true(n < 7); /* an alert */
        (void)close(fd);
    }
    tls_expect_metric(f, "flamegrid_tls_handshake_failures_total{reason=\"protocol\"} 7\n");
    assert_true(run_metric_becomes(f->run, "pyroscope_tcp_connections 0\n"));
}

/* After the handshake: noise where a record should be. */
static void test_broken_record(void **state)
{
    struct tls_run *f = *state;
    struct tls_client client;
    char bytes[64];

    assert_true(tls_client_open(f, &client, (struct tls_wish){0}));
    tls_say(&client, GET("/hold"));
    run_wait_held(f->run, 1);
    run_say_bytes(client.fd,
                  "\x17\3\3\0\x14"
                  "abcdefghijklmnopqrst",
                  25);
    while (recv(client.fd, bytes, sizeof bytes, 0) > 0)
        continue;
    tls_client_close(&client);
    run_wait_gone(f->run, 0);
    run_let_go(f->run, 0, "nobody listens");
}

static void test_handshake_ends(void **state)
{
    struct tls_run *f = *state;
    int silent = run_client(f->run), half = run_client(f->run), gone = run_client(f->run);

    run_say_bytes(half, "\x16\3\1\2\0\1\0", 7); /* the first bytes of a hello */
    run_say_bytes(gone, "\x16\3\1", 3);
    (void)close(gone);
    run_expect_closed(silent);
    run_expect_closed(half);
    tls_expect_metric(f, "flamegrid_tls_handshake_failures_total{reason=\"timeout\"} 2\n");
    tls_expect_metric(f, "flamegrid_tls_handshake_failures_total{reason=\"closed\"} 1\n");
}

static void test_timeouts(void **state)
{
    struct tls_run *f = *state;
    struct tls_client client;
    char byte;

    assert_true(tls_client_open(f, &client, (struct tls_wish){0}));
    tls_expect(&client, GET("/echo"), "200", "1 /echo ");
    assert_int_equal(SSL_read(client.ssl, &byte, 1), 0); /* idle */
    tls_client_close(&client);
    assert_true(tls_client_open(f, &client, (struct tls_wish){0}));
    tls_say(&client, GET("/big?n=20000000")); /* and never read */
    assert_true(run_metric_becomes(f->run, "pyroscope_tcp_connections 1\n"));
    assert_true(run_metric_becomes(f->run, "pyroscope_tcp_connections 0\n"));
    tls_client_close(&client);
}

static void test_too_many_connections(void **state)
{
    struct tls_run *f = *state;
    struct tls_client clients[2];
    char answer[4096];
    int third;

    for (unsigned i = 0; i < 2; i++) {
        assert_true(tls_client_open(f, &clients[i], (struct tls_wish){0}));
        tls_say(&clients[i], GET("/hold"));
        run_wait_held(f->run, i + 1);
    }
    third = run_client(f->run);
    run_expect_closed(third); /* an answer would cost a handshake */
    assert_true(run_metric_becomes(
        f->run, "flamegrid_http_refused_total{reason=\"too_many_of_address\"} 1\n"));
    for (unsigned i = 0; i < 2; i++) {
        run_let_go(f->run, i, "done");
        tls_hear(&clients[i], answer, sizeof answer);
        tls_client_close(&clients[i]);
    }
}

/* --- clients' certificates --- */

static void test_client_optional(void **state)
{
    struct tls_run *f = *state;

    tls_expect_works(f, (struct tls_wish){0});
    tls_expect_works(f, (struct tls_wish){.cert = &f->client});
    tls_expect_refused(f, (struct tls_wish){.cert = &f->stranger});
    tls_expect_refused(f, (struct tls_wish){.cert = &f->stranger, .version = TLS1_2_VERSION});
    tls_expect_metric(f,
                      "flamegrid_tls_handshake_failures_total{reason=\"client_certificate\"} 2\n");
}

static void test_client_required(void **state)
{
    struct tls_run *f = *state;
    struct cert old = cert_make("old", &f->ca, -1);

    tls_expect_works(f, (struct tls_wish){.cert = &f->client});
    tls_expect_works(f, (struct tls_wish){.cert = &f->client, .version = TLS1_2_VERSION});
    tls_expect_refused(f, (struct tls_wish){.cert = &f->stranger});
    tls_expect_refused(f, (struct tls_wish){.cert = &old});
    tls_expect_metric(f,
                      "flamegrid_tls_handshake_failures_total{reason=\"client_certificate\"} 2\n");
    cert_free(&old);
}

/* Those without a certificate get no further than probes, whatever there is. */
static void test_client_without_certificate(void **state)
{
    static const char refused[] =
        "{\"code\":\"permission_denied\",\"message\":\"a client certificate is required "
        "(setting tls_client_auth)\"}";
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct tls_run *f = *state;
    struct tls_client client;
    struct h2_client h2;

    for (size_t i = 0; i < FG_COUNT(versions); i++) {
        assert_true(tls_client_open(f, &client, (struct tls_wish){.version = versions[i]}));
        tls_expect(&client, GET("/probe"), "200", "done");
        tls_expect(&client, GET("/echo"), "403", refused);
        tls_expect(&client, GET("/nowhere"), "403", refused);
        tls_expect(&client, POST("/change", "Content-Length: 0\r\n\r\n"), "403", refused);
        tls_expect(&client, GET("/probe"), "200", "done");
        tls_client_close(&client);
    }
    open_h2(f, &client, &h2);
    h2_get(&h2, 1, "/probe");
    h2_expect(&h2, 1, 200, "done");
    h2_get(&h2, 3, "/echo");
    h2_expect(&h2, 3, 403, refused);
    h2_close(&h2);
    tls_client_close(&client);
    assert_true(run_metric_is(
        f->run, "flamegrid_http_refused_total{reason=\"no_client_certificate\"} 7\n"));
}

/* Browsers that came by TLS once come so always, but not to what this machine calls itself. */
static void test_strict_transport(void **state)
{
    static const struct {
        const char *host;
        bool strict;
    } cases[] = {
        {"a", true}, {"a.test:4040", true}, {"localhost:4040", false}, {"127.0.0.1", false}};
    struct tls_run *f = *state;
    struct tls_client client;
    char request[256], answer[4096];

    assert_true(tls_client_open(f, &client, (struct tls_wish){0}));
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        (void)snprintf(request, sizeof request, "GET /echo HTTP/1.1\r\nHost: %s\r\n\r\n",
                       cases[i].host);
        tls_say(&client, request);
        tls_hear(&client, answer, sizeof answer);
        assert_int_equal(strstr(answer, "\r\nStrict-Transport-Security: max-age=") != NULL,
                         cases[i].strict);
    }
    tls_client_close(&client);
}

/* Tickets work, also where a client has to show who it is. */
static void test_resumption(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct tls_run *f = *state;

    for (size_t i = 0; i < FG_COUNT(versions); i++) {
        struct tls_wish wish = {.cert = &f->client, .version = versions[i]};
        struct tls_client client;

        assert_true(tls_client_open(f, &client, wish));
        tls_expect(&client, GET("/echo"), "200", "1 /echo ");
        assert_false(SSL_session_reused(client.ssl));
        wish.session = SSL_get1_session(client.ssl);
        (void)SSL_shutdown(client.ssl); /* without it, OpenSSL does not resume */
        tls_client_close(&client);
        assert_true(tls_client_open(f, &client, wish));
        tls_expect(&client, GET("/echo"), "200", "1 /echo ");
        assert_true(SSL_session_reused(client.ssl));
        tls_client_close(&client);
        SSL_SESSION_free(wish.session);
    }
}

/* --- the end --- */

static void *stop_server(void *arg)
{
    struct http_run *run = arg;

    fg_http_server_stop(run->server);
    return NULL;
}

static void test_drain(void **state)
{
    struct tls_run *f = *state;
    struct tls_client idle, busy;
    int silent = run_client(f->run); /* in the middle of its handshake */
    pthread_t thread;
    char answer[1024];

    assert_true(tls_client_open(f, &idle, (struct tls_wish){0}));
    assert_true(tls_client_open(f, &busy, (struct tls_wish){0}));
    tls_say(&busy, GET("/hold"));
    run_wait_held(f->run, 1);
    assert_int_equal(pthread_create(&thread, NULL, stop_server, f->run), 0);
    assert_true(SSL_read(idle.ssl, answer, 1) <= 0);
    run_expect_closed(silent);
    run_let_go(f->run, 0, "done");
    tls_hear(&busy, answer, sizeof answer);
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    assert_int_equal(SSL_read(busy.ssl, answer, 1), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    tls_client_close(&idle);
    tls_client_close(&busy);
}

#define TEST(name)          cmocka_unit_test_setup_teardown(name, tls_setup, tls_teardown)
#define TEST_HASTY(name)    cmocka_unit_test_setup_teardown(name, tls_setup_hasty, tls_teardown)
#define TEST_NARROW(name)   cmocka_unit_test_setup_teardown(name, tls_setup_narrow, tls_teardown)
#define TEST_OPTIONAL(name) cmocka_unit_test_setup_teardown(name, tls_setup_optional, tls_teardown)
#define TEST_REQUIRE(name)  cmocka_unit_test_setup_teardown(name, tls_setup_require, tls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_http1),
        TEST(test_large),
        TEST_NARROW(test_back_pressure),
        TEST(test_half_closed),
        TEST(test_byte_by_byte),
        TEST(test_alpn),
        TEST(test_http2),
        TEST(test_versions),
        TEST(test_ciphers),
        TEST(test_renegotiation),
        TEST(test_cleartext),
        TEST(test_garbage),
        TEST(test_broken_record),
        TEST_HASTY(test_handshake_ends),
        TEST_HASTY(test_timeouts),
        TEST_NARROW(test_too_many_connections),
        TEST_OPTIONAL(test_client_optional),
        TEST_REQUIRE(test_client_required),
        TEST_REQUIRE(test_client_without_certificate),
        TEST(test_strict_transport),
        TEST_REQUIRE(test_resumption),
        TEST(test_drain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
