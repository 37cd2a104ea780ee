/*
 * Callers and the routes that they may call: client certificates apart (tls_test.c), for each kind
 * of route, in both versions of HTTP.
 */
#include "tests/lib/http2_client.h"
#include "tests/lib/http_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned status_of_1(void **state, const char *method, const char *path, const char *host,
                            const char *const *headers)
{
    struct run_answer answer;
    struct fg_buf text;
    int fd = run_client(*state);
    unsigned status;

    fg_buf_init(&text, 4096);
    fg_buf_printf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host);
    for (; headers[0] != NULL; headers += 2)
        fg_buf_printf(&text, "%s: %s\r\n", headers[0], headers[1]);
    fg_buf_puts(&text, "Content-Length: 0\r\n\r\n");
    run_say_bytes(fd, text.ptr, text.len);
    assert_true(run_hear(fd, &answer));
    status = answer.status;
    free(answer.body);
    fg_buf_done(&text);
    (void)close(fd);
    return status;
}

static unsigned status_of_2(void **state, const char *method, const char *path, const char *host,
                            const char *const *headers)
{
    struct h2_client client;
    struct fg_buf block;
    unsigned status;
    char name[64];

    h2_open(&client, run_client(*state));
    fg_buf_init(&block, 4096);
    h2_put_field(&block, ":method", method);
    h2_put_field(&block, ":path", path);
    h2_put_field(&block, ":scheme", "http");
    h2_put_field(&block, ":authority", host);
    for (; headers[0] != NULL; headers += 2) {
        size_t len = 0;

        for (; headers[0][len] != '\0'; len++)
            name[len] = (char)(headers[0][len] | 0x20); /* lower case; '-' stays */
        name[len] = '\0';
        h2_put_field(&block, name, headers[1]);
    }
    h2_frame(&client, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
             block.ptr, block.len);
    status = h2_answer(&client, 1)->status;
    fg_buf_done(&block);
    h2_close(&client);
    return status;
}

static void expect(void **state, const char *method, const char *path, const char *host,
                   const char *const *headers, unsigned status)
{
    print_message("  %s %s of %s, %s: %s\n", method, path, host,
                  headers[0] == NULL ? "" : headers[0], headers[0] == NULL ? "" : headers[1]);
    assert_int_equal(status_of_1(state, method, path, host, headers), status);
    assert_int_equal(status_of_2(state, method, path, host, headers), status);
}

static const char *const nothing[] = {NULL};

/* --- names --- */

static const struct {
    const char *host;
    bool own;    /* of this machine */
    bool number; /* an IP address */
} hosts[] = {
    {"localhost", true, false},
    {"localhost:4040", true, false},
    {"LocalHost.:1", true, false},
    {"page.localhost", true, false},
    {"127.0.0.1:4040", true, true},
    {"127.9.9.9", true, true},
    {"[::1]:4040", true, true},
    {"[::ffff:127.0.0.1]", true, true},
    {"evil.example:4040", false, false},
    {"localhost.evil.example", false, false},
    {"evillocalhost", false, false},
    {".localhost", false, false},
    {"127.0.0.1.evil.example", false, false},
    {"0x7f000001", false, false},
    {"user@localhost", false, false},
    {"[::1", false, false},
    {"128.0.0.1", false, true},
    {"10.0.0.1:4040", false, true},
    {"[2001:db8::1]:80", false, true},
};

/* What only this machine reaches answers to its own names; all kinds of routes but probes. */
static void names_of_a_loopback_listener(void **state)
{
    static const char *const action[] = {"X-Flamegrid-Action", "1", NULL};
    struct run_answer answer;
    int fd;

    for (size_t i = 0; i < FG_COUNT(hosts); i++) {
        unsigned status = hosts[i].own ? 200 : 421;

        if (strcmp(hosts[i].host, "[::1") == 0) {
            assert_true(status_of_1(state, "GET", "/echo", hosts[i].host, nothing) == 200 ||
                        status_of_1(state, "GET", "/echo", hosts[i].host, nothing) == 421);
            continue;
        }
        expect(state, "GET", "/probe", hosts[i].host, nothing, 200);
        expect(state, "GET", "/echo", hosts[i].host, nothing, status);
        expect(state, "POST", "/change", hosts[i].host, nothing, status);
        expect(state, "POST", "/operate", hosts[i].host, action, status);
        expect(state, "GET", "/nowhere", hosts[i].host, nothing, hosts[i].own ? 404 : 421);
    }
    expect(state, "GET", "/echo", "a.test", nothing, 200); /* allowed_hosts */
    fd = run_client(*state);
    run_say(fd, "GET /echo HTTP/1.0\r\n\r\n"); /* no browser */
    run_expect(fd, 200, NULL);
    (void)close(fd);
    fd = run_client(*state);
    run_say(fd, "GET http://evil.example/echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
    run_expect(fd, 421, NULL);
    run_say(fd, "GET http://localhost/echo HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    run_expect(fd, 200, NULL);
    run_say(fd, "GET /echo HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_true(run_hear(fd, &answer));
    assert_int_equal(answer.status, 421);
    assert_non_null(strstr((char *)answer.body, "allowed_hosts"));
    free(answer.body);
    (void)close(fd);
    assert_false(run_metric_is(*state, "flamegrid_http_refused_total{reason=\"host\"} 0\n"));
}

/* Where others reach it any name goes, unless there is a list of them; addresses always do. */
static void names_of_another_listener(void **state)
{
    struct http_run *run = *state;
    bool listed = run->config.allowed_hosts[0] != '\0';

    for (size_t i = 0; i < FG_COUNT(hosts); i++)
        if (strcmp(hosts[i].host, "[::1") != 0)
            expect(state, "GET", "/echo", hosts[i].host, nothing,
                   !listed || hosts[i].own || hosts[i].number ? 200 : 421);
    expect(state, "GET", "/echo", "profiles.example:4040", nothing, 200);
    expect(state, "GET", "/echo", "Profiles.Example", nothing, 200);
    expect(state, "GET", "/echo", "flamegrid", nothing, listed ? 421 : 200);
}

static void a_star_allows_any_host(void **state)
{
    expect(state, "GET", "/echo", "evil.example", nothing, 200);
}

/* Two that differ are how to be seen as two sites; a proxy may send both. */
static void authority_and_host(void **state)
{
    static const char *const same[] = {"Host", "localhost", NULL};
    static const char *const other[] = {"Host", "evil.example", NULL};

    assert_int_equal(status_of_2(state, "GET", "/echo", "localhost", same), 200);
    assert_int_equal(status_of_2(state, "GET", "/echo", "localhost", other), 400);
}

/* --- sites --- */

static void pages_of_other_sites(void **state)
{
    static const struct {
        const char *headers[5];
        bool allowed;
    } cases[] = {
        {{NULL}, true},                           /* an agent */
        {{"Sec-Fetch-Mode", "cors", NULL}, true}, /* that of Node.js */
        {{"Sec-Fetch-Site", "same-origin", NULL}, true},
        {{"Sec-Fetch-Site", "none", NULL}, true},
        {{"Sec-Fetch-Site", "same-site", NULL}, false}, /* localhost at another port */
        {{"Sec-Fetch-Site", "cross-site", NULL}, false},
        {{"Sec-Fetch-Site", "", NULL}, false},
        {{"Origin", "http://localhost:4040", NULL}, true},
        {{"Origin", "https://localhost:4040", NULL}, true}, /* a proxy undid its TLS */
        {{"Origin", "http://LOCALHOST:4040", NULL}, true},
        {{"Origin", "http://localhost:3000", NULL}, false},
        {{"Origin", "http://localhost", NULL}, false},
        {{"Origin", "https://evil.example", NULL}, false},
        {{"Origin", "null", NULL}, false},
        {{"Origin", "", NULL}, false},
        {{"Origin", "localhost:4040", NULL}, false},
        {{"Origin", "https://app.example", NULL}, true}, /* allowed_origins */
        {{"Origin", "https://app.example", "Sec-Fetch-Site", "cross-site", NULL}, true},
        {{"Origin", "https://app.example:8443", NULL}, false},
        /* Behind a proxy that asks by another name; the browser knows better. */
        {{"Origin", "https://profiles.example", "Sec-Fetch-Site", "same-origin", NULL}, true},
    };
    const char *headers[7];

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        unsigned status = cases[i].allowed ? 200 : 403;
        size_t n = 0;

        for (; cases[i].headers[n] != NULL; n++)
            headers[n] = cases[i].headers[n];
        headers[n] = NULL;
        expect(state, "POST", "/change", "localhost:4040", headers, status);
        expect(state, "POST", "/echo", "localhost:4040", headers, 200); /* asks only */
        expect(state, "GET", "/change", "localhost:4040", headers, 200);
        headers[n] = "X-Flamegrid-Action";
        headers[n + 1] = "1";
        headers[n + 2] = NULL;
        expect(state, "POST", "/operate", "localhost:4040", headers, status);
        expect(state, "DELETE", "/operate", "localhost:4040", headers, status);
    }
    assert_false(run_metric_is(*state, "flamegrid_http_refused_total{reason=\"cross_site\"} 0\n"));
}

/* Ports that go without saying. */
static void origins_at_default_ports(void **state)
{
    static const struct {
        const char *host, *origin;
        unsigned status;
    } cases[] = {
        {"localhost", "http://localhost", 200},     {"localhost:80", "http://localhost", 200},
        {"localhost", "http://localhost:80", 200},  {"localhost:443", "https://localhost", 200},
        {"localhost:443", "http://localhost", 403},
    };

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        const char *const headers[] = {"Origin", cases[i].origin, NULL};

        expect(state, "POST", "/change", cases[i].host, headers, cases[i].status);
    }
}

/* --- what operators do --- */

static void operators_send_a_header(void **state)
{
    static const char *const form[] = {"Content-Type", "text/plain", NULL};
    static const char *const empty[] = {"X-Flamegrid-Action", "", NULL};
    static const char *const action[] = {"X-Flamegrid-Action", "flush", NULL};
    struct run_answer answer;
    int fd = run_client(*state);

    expect(state, "POST", "/operate", "localhost", form, 403);
    expect(state, "POST", "/operate", "localhost", empty, 403);
    expect(state, "DELETE", "/operate", "localhost", nothing, 403);
    expect(state, "POST", "/operate", "localhost", action, 200);
    expect(state, "DELETE", "/operate", "localhost", action, 200);
    expect(state, "GET", "/operate", "localhost", nothing, 200);
    expect(state, "PUT", "/operate", "localhost", nothing, 405);
    run_say(fd, "POST /operate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_true(run_hear(fd, &answer));
    assert_non_null(strstr((char *)answer.body, "X-Flamegrid-Action"));
    free(answer.body);
    (void)close(fd);
    assert_false(
        run_metric_is(*state, "flamegrid_http_refused_total{reason=\"no_action_header\"} 0\n"));
}

/* --- headers that are there twice --- */

static void two_of_one_header(void **state)
{
    static const char *const cases[][7] = {
        {"X-Scope-OrgID", "a", "X-Scope-OrgID", "b", NULL},
        {"X-Scope-OrgID", "a", "X-Scope-OrgID", "a", NULL},
        {"Authorization", "Basic eDp5", "Accept", "*", "Authorization", "Basic eDp5", NULL},
    };

    for (size_t i = 0; i < FG_COUNT(cases); i++)
        expect(state, "GET", "/echo", "localhost", cases[i], 400);
    expect(state, "GET", "/echo", "localhost", &cases[0][2], 200);
    assert_true(run_metric_is(*state, "flamegrid_http_refused_total{reason=\"ambiguous\"} 6\n"));
}

/* --- setups --- */

static int setup_loopback(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.allowed_origins = "https://other.example , https://app.example";
    return run_setup_with(state, &config);
}

static int setup_elsewhere(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.allowed_hosts = "";
    return run_setup_on(state, &config, "0.0.0.0:0");
}

static int setup_listed(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.allowed_hosts = "other.example, profiles.example";
    return run_setup_on(state, &config, "0.0.0.0:0");
}

static int setup_star(void **state)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;

    config.allowed_hosts = "*";
    return run_setup_with(state, &config);
}

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_of_a_loopback_listener, setup_loopback),
        TEST(names_of_another_listener, setup_elsewhere),
        TEST(names_of_another_listener, setup_listed),
        TEST(a_star_allows_any_host, setup_star),
        TEST(authority_and_host, setup_loopback),
        TEST(pages_of_other_sites, setup_loopback),
        TEST(origins_at_default_ports, setup_loopback),
        TEST(operators_send_a_header, setup_loopback),
        TEST(two_of_one_header, setup_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
