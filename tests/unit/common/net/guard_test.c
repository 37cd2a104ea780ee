/*
 * The server asks its guard about each request before it reads the body, in both versions of HTTP,
 * and gives back what the guard attached exactly once.
 */
#include "common/base/arena.h"
#include "tests/lib/http2_client.h"
#include "tests/lib/http_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAGIC = 0x67726e74, FILL_BYTES = 200000 };

/* In the arena of the request, as that of common/access. */
struct grant {
    uint32_t magic;
    char who[16];
};

static struct counts {
    _Atomic unsigned asked, admitted, released, scopes;
} counts;

/* Authorization names who it is, or the error. */
static bool admit(void *arg, struct fg_http_request *req, unsigned scopes, struct fg_err *err)
{
    static const struct {
        const char *text;
        enum fg_code code;
    } refused[] = {{"nobody", FG_E_NO_TENANT},
                   {"denied", FG_E_DENIED},
                   {"often", FG_E_LIMIT},
                   {"away", FG_E_UNAVAILABLE}};
    struct fg_slice who = fg_http_header(req, "Authorization");
    struct grant *grant;

    assert_ptr_equal(arg, &counts);
    atomic_fetch_add(&counts.asked, 1);
    atomic_store(&counts.scopes, scopes);
    for (size_t i = 0; i < FG_COUNT(refused); i++)
        if (who.ptr == NULL ? i == 0 : fg_slice_is(who, refused[i].text)) {
            (void)fg_fail(err, refused[i].code, "because it is %s", refused[i].text);
            return false;
        }
    grant = fg_arena_alloc(fg_http_arena(req), sizeof *grant);
    assert_non_null(grant);
    *grant = (struct grant){.magic = MAGIC};
    memcpy(grant->who, who.ptr, FG_MIN(who.len, sizeof grant->who - 1));
    /* The block of the arena with the grant is no longer its newest. */
    assert_non_null(fg_arena_alloc(fg_http_arena(req), FILL_BYTES));
    atomic_fetch_add(&counts.admitted, 1);
    fg_http_set_grant(req, grant);
    return true;
}

static void release(void *arg, void *granted)
{
    struct grant *grant = granted;

    assert_ptr_equal(arg, &counts);
    assert_int_equal(grant->magic, MAGIC); /* its memory is still there, and it comes once */
    grant->magic = 0;
    atomic_fetch_add(&counts.released, 1);
}

static const struct fg_http_guard guard = {admit, release, NULL, &counts, "/auth/login"};

static int set_up(void **state)
{
    atomic_store(&counts.asked, 0);
    atomic_store(&counts.admitted, 0);
    atomic_store(&counts.released, 0);
    return run_setup_guarded(state, &guard);
}

/* Whatever happened, nothing that was attached is left. */
static int tear_down(void **state)
{
    int code = run_teardown(state);

    assert_int_equal(atomic_load(&counts.released), atomic_load(&counts.admitted));
    return code;
}

static void say(int fd, const char *line, const char *who, const char *rest)
{
    char text[1024];

    (void)snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: a\r\n%s%s%s%s\r\n", line,
                   who == NULL ? "" : "Authorization: ", who == NULL ? "" : who,
                   who == NULL ? "" : "\r\n", rest);
    run_say(fd, text);
}

static const struct {
    const char *who;
    unsigned status;
    const char *body;
} refusals[] = {
    {NULL, 401,
     "{\"code\":\"unauthenticated\",\"message\":\"because it is "
     "nobody\",\"login\":\"/auth/login\"}"},
    {"denied", 403, "{\"code\":\"permission_denied\",\"message\":\"because it is denied\"}"},
    {"often", 429, "{\"code\":\"resource_exhausted\",\"message\":\"because it is often\"}"},
    {"away", 503, "{\"code\":\"unavailable\",\"message\":\"because it is away\"}"},
};

/* Those answers come although not a byte of the body was sent. HTTP/1.1 reads a short body, and
 * drops it, so that the connection can be used again. */
static void a_refusal_does_not_wait_for_the_body(void **state)
{
    for (size_t i = 0; i < FG_COUNT(refusals); i++) {
        int fd = run_client(*state);

        say(fd, "POST /echo", refusals[i].who, "Content-Length: 100000000\r\n");
        run_expect(fd, refusals[i].status, refusals[i].body);
        (void)close(fd);
    }
    assert_int_equal(atomic_load(&counts.admitted), 0);
}

static void a_refusal_does_not_ask_for_the_body(void **state)
{
    int fd = run_client(*state);

    say(fd, "POST /echo", "denied", "Content-Length: 100000\r\nExpect: 100-continue\r\n");
    run_expect(fd, 403, refusals[1].body); /* and no 100 before it */
    (void)close(fd);
}

static void http2_refuses_the_same_without_the_body(void **state)
{
    struct h2_client client;

    h2_open(&client, run_client(*state));
    for (size_t i = 0; i < FG_COUNT(refusals); i++) {
        const char *const with[] = {"authorization", refusals[i].who, NULL}, *const none[] = {NULL};
        int32_t stream = (int32_t)(2 * i + 1);

        h2_request(&client, stream, "POST", "/echo", refusals[i].who == NULL ? none : with, false);
        h2_expect(&client, stream, refusals[i].status, refusals[i].body);
    }
    h2_close(&client);
}

static void only_401_says_how_to_authenticate(void **state)
{
    struct run_answer answer;

    for (size_t i = 0; i < FG_COUNT(refusals); i++) {
        int fd = run_client(*state);

        say(fd, "GET /echo", refusals[i].who, "");
        assert_true(run_hear(fd, &answer));
        free(answer.body);
        assert_int_equal(answer.status, refusals[i].status);
        assert_int_equal(strstr(answer.head, "WWW-Authenticate: Bearer realm=\"flamegrid\"") !=
                             NULL,
                         answer.status == 401);
        /* Of a Basic challenge browsers make a dialog. */
        assert_null(strstr(answer.head, "Basic"));
        (void)close(fd);
    }
}

static void the_guard_learns_what_the_route_demands(void **state)
{
    static const struct {
        const char *line;
        unsigned status, scopes; /* 0: it is not asked */
    } cases[] = {
        {"GET /echo", 200, FG_SCOPE_READ},
        {"HEAD /echo", 200, FG_SCOPE_READ},
        {"GET /assets/x", 200, FG_SCOPE_READ},
        {"GET /probe", 200, 0},
        /* A stranger does not learn which routes and methods exist. */
        {"GET /nothing", 404, FG_SCOPE_KNOWN},
        {"DELETE /echo", 405, FG_SCOPE_KNOWN},
    };

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct run_answer answer;
        int fd = run_client(*state);

        print_message("  %s\n", cases[i].line);
        atomic_store(&counts.scopes, 0);
        say(fd, cases[i].line, "somebody", "Connection: close\r\n");
        if (fg_slice_starts(fg_cstr(cases[i].line), "HEAD")) {
            char head[64] = "";

            assert_true(read(fd, head, sizeof head - 1) > 0);
            assert_non_null(strstr(head, "200"));
        } else {
            assert_true(run_hear(fd, &answer));
            assert_int_equal(answer.status, cases[i].status);
            free(answer.body);
        }
        (void)close(fd);
        assert_int_equal(atomic_load(&counts.scopes), cases[i].scopes);
    }
}

static void a_stranger_does_not_learn_which_routes_exist(void **state)
{
    static const char *const lines[] = {"GET /nothing", "DELETE /echo", "GET /echo"};

    for (size_t i = 0; i < FG_COUNT(lines); i++) {
        int fd = run_client(*state);

        say(fd, lines[i], NULL, "");
        run_expect(fd, 401, refusals[0].body);
        (void)close(fd);
    }
}

/* On one connection, as that of a proxy. */
static void each_request_of_a_connection_is_decided(void **state)
{
    int fd = run_client(*state);

    say(fd, "GET /echo", "first", "");
    run_expect(fd, 200, "1 /echo ");
    say(fd, "GET /echo", NULL, "");
    run_expect(fd, 401, NULL);
    say(fd, "GET /echo", "second", "");
    run_expect(fd, 200, "1 /echo ");
    assert_int_equal(atomic_load(&counts.asked), 3);
    (void)close(fd);
}

static void two_callers_in_one_request_are_nobody(void **state)
{
    static const char *const twice[] = {"Authorization: a\r\nAuthorization: b\r\n",
                                        "X-Scope-OrgID: a\r\nx-scope-orgid: b\r\n"};

    for (size_t i = 0; i < FG_COUNT(twice); i++) {
        int fd = run_client(*state);

        say(fd, "GET /echo", NULL, twice[i]);
        run_expect(fd, 400, NULL);
        (void)close(fd);
    }
    assert_int_equal(atomic_load(&counts.asked), 0);
}

static void a_grant_stays_until_the_answer(void **state)
{
    struct http_run *run = *state;
    int fd = run_client(run);
    const struct grant *grant;

    say(fd, "GET /hold", "patient", "");
    run_wait_held(run, 1);
    grant = fg_http_grant(run->held[0]);
    assert_string_equal(grant->who, "patient");
    assert_int_equal(atomic_load(&counts.released), 0);
    run_let_go(run, 0, "done");
    run_expect(fd, 200, "done");
    (void)close(fd);
}

/* The handler works on, so it may still look at it. */
static void a_disconnect_does_not_take_it_from_the_handler(void **state)
{
    struct http_run *run = *state;
    struct h2_client client;
    int fd = run_client(run);
    const char *const headers[] = {"authorization", "two", NULL};

    say(fd, "GET /hold", "one", "");
    run_wait_held(run, 1);
    h2_open(&client, run_client(run));
    h2_request(&client, 1, "GET", "/hold", headers, true);
    run_wait_held(run, 2);
    (void)close(fd);
    h2_reset(&client, 1, NGHTTP2_CANCEL);
    run_wait_gone(run, 0);
    run_wait_gone(run, 1);
    assert_int_equal(atomic_load(&counts.released), 0);
    assert_string_equal(((const struct grant *)fg_http_grant(run->held[0]))->who, "one");
    assert_string_equal(((const struct grant *)fg_http_grant(run->held[1]))->who, "two");
    run_let_go(run, 0, "late");
    run_let_go(run, 1, "late");
    h2_close(&client);
}

/* Before its handler was called: the body never comes. */
static void a_disconnect_within_the_body_releases_it(void **state)
{
    int fd = run_client(*state);

    say(fd, "POST /echo", "hasty", "Content-Length: 10\r\n");
    run_say(fd, "12345");
    while (atomic_load(&counts.admitted) == 0)
        (void)usleep(1000);
    (void)close(fd);
    while (atomic_load(&counts.released) == 0)
        (void)usleep(1000);
}

static void a_refusal_is_counted(void **state)
{
    int fd = run_client(*state);

    say(fd, "GET /echo", NULL, "");
    run_expect(fd, 401, NULL);
    (void)close(fd);
    assert_true(run_metric_becomes(*state, "flamegrid_http_refused_total{reason=\"denied\"} 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_refusal_does_not_wait_for_the_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_does_not_ask_for_the_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(http2_refuses_the_same_without_the_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_401_says_how_to_authenticate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_guard_learns_what_the_route_demands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stranger_does_not_learn_which_routes_exist, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_request_of_a_connection_is_decided, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_callers_in_one_request_are_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_grant_stays_until_the_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_disconnect_does_not_take_it_from_the_handler, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_disconnect_within_the_body_releases_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_is_counted, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
