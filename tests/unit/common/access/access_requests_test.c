/* What the guard says to requests: of those it does not know yet, of those nobody knows, and in
 * each mode. */
#include "common/base/str.h"
#include "tests/unit/common/access/access_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- strangers ---- */

static void wait_for_looks(struct access_run *f, uint64_t n)
{
    access_run_await_looks(f, n);
    while (access_run_ask(f, "/known", f->read) == 503) /* behind the request the look goes on */
        (void)usleep(1000);
}

/* It may be new, and agents drop what gets a 401. */
static void an_unknown_token_is_asked_to_come_again_once(void **state)
{
    struct access_run *f = *state;
    char stranger[FG_TOKEN_CHARS + 1], other[FG_TOKEN_CHARS + 1];
    uint64_t looks;

    (void)access_make_secret(77, NULL, stranger);
    (void)access_make_secret(78, NULL, other);
    access_run_put(f);
    access_run_start(f);
    looks = fg_bucket_faulty_count(f->faulty);
    assert_int_equal(access_run_ask(f, "/read", other), 401); /* the bucket was just read */
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(access_run_ask(f, "/read", "nonsense"), 401);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
    assert_int_equal(access_run_ask(f, "/read", stranger), 503);
    wait_for_looks(f, looks + 1);
    while (access_run_ask(f, "/read", stranger) == 503)
        (void)usleep(1000);
    assert_int_equal(access_run_ask(f, "/read", stranger), 401);
    /* From then on it is no news, however long ago the last look was. */
    looks = fg_bucket_faulty_count(f->faulty);
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    assert_int_equal(access_run_ask(f, "/read", stranger), 401);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
}

/* Its token lists a tenant that is made only then. */
static void a_new_tenant_is_asked_to_come_again_once(void **state)
{
    struct access_run *f = *state;
    char early[FG_TOKEN_CHARS + 1];

    access_make_token(&f->make,
                      &(struct access_token){.tenants = "soon", .scopes = FG_SCOPE_PUSH, .seed = 5},
                      early);
    access_run_put(f);
    access_run_start(f);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    access_make_tenant(&f->make, "soon", ACCESS__TENANT__STATE__ACTIVE);
    access_run_put(f);
    assert_int_equal(access_run_ask(f, "/push", early), 503);
    while (access_run_ask(f, "/push", early) == 503)
        (void)usleep(1000);
    assert_int_equal(access_run_ask(f, "/push", early), 200);
}

static void a_tenant_that_does_not_exist_is_refused_after_a_read(void **state)
{
    struct access_run *f = *state;
    char never[FG_TOKEN_CHARS + 1];
    uint64_t looks;

    access_make_token(
        &f->make, &(struct access_token){.tenants = "never", .scopes = FG_SCOPE_PUSH, .seed = 5},
        never);
    access_run_put(f);
    access_run_start(f);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(access_run_ask(f, "/push", never), 503);
    while (access_run_ask(f, "/push", never) == 503)
        (void)usleep(1000);
    assert_int_equal(access_run_ask(f, "/push", never), 403);
    looks = fg_bucket_faulty_count(f->faulty);
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    assert_int_equal(access_run_ask(f, "/push", never), 403);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
}

/* Asks until the registry has been read, which happens at the same time. */
static unsigned ask_when_read(struct access_run *f, const char *token)
{
    unsigned status;

    while ((status = access_run_ask(f, "/read", token)) == 503)
        ;
    return status;
}

static void a_new_token_and_a_new_secret_work_as_soon_as_they_are_used(void **state)
{
    struct access_run *f = *state;
    char fresh[FG_TOKEN_CHARS + 1], rotated[FG_TOKEN_CHARS + 1], id[FG_TOKEN_ID_CHARS + 1];
    struct fg_token secret;
    struct fg_err err;

    access_run_put(f);
    access_run_start(f);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_READ, .seed = 5},
                      fresh);
    access_run_put(f);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(access_run_ask(f, "/read", fresh), 503);
    assert_int_equal(ask_when_read(f, fresh), 200);
    (void)snprintf(id, sizeof id, "%.8s", f->read + 4);
    /* Many, since a request may take the registry just before it is replaced. */
    for (uint32_t round = 0; round < 100; round++) {
        secret = access_make_secret(6 + round, id, rotated);
        assert_int_equal(
            fg_access_rotate_token(&f->make.change, fg_cstr(id), secret.hash, 1000, &err), FG_OK);
        access_run_put(f);
        fg_clock_manual_advance(&f->clock, 8 * FG_SECOND_NS); /* or these were too many failures */
        assert_int_equal(ask_when_read(f, rotated), 200);
    }
}

/* The registry that was read last says that it is revoked, so no read of the bucket is needed. */
static void a_revoked_token_is_refused_at_once(void **state)
{
    struct access_run *f = *state;
    uint64_t looks;

    f->make.message.tokens[1]->revoked_ms = 1;
    access_run_put(f);
    access_run_start(f);
    looks = fg_bucket_faulty_count(f->faulty);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(access_run_ask(f, "/read", f->read), 401);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
}

/* A stranger cannot make a process ask a bucket that has trouble again and again. */
static void strangers_make_it_look_once_a_second_at_most(void **state)
{
    struct access_run *f = *state;
    char stranger[FG_TOKEN_CHARS + 1];
    uint64_t looks;

    (void)access_make_secret(77, NULL, stranger);
    access_run_put(f);
    access_run_start(f);
    fg_bucket_faulty_set(f->faulty, &access_run_away);
    looks = fg_bucket_faulty_count(f->faulty);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(access_run_ask(f, "/read", stranger), 503);
    access_run_await_looks(f, looks + 1);
    while (access_run_metric(f, "flamegrid_access_registry_read_failures_total") == 0)
        (void)usleep(1000);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(access_run_ask(f, "/read", stranger), 503);
    /* One more: a request while the look was under way may have asked for another. */
    assert_true(fg_bucket_faulty_count(f->faulty) <= looks + 2);
}

static void too_many_wrong_ones_lock_only_wrong_ones(void **state)
{
    struct access_run *f = *state;

    access_run_put(f);
    access_run_start(f);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(access_run_ask(f, "/read", "nonsense"), 401);
    assert_int_equal(access_run_ask(f, "/read", "nonsense"), 429);
    assert_non_null(strstr(http_ask_body(&f->served.answer), "access.failures_per_minute"));
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    /* A person without any begins to log in. */
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1", NULL), 401);
    fg_clock_manual_advance(&f->clock, 4 * FG_SECOND_NS);
    assert_int_equal(access_run_ask(f, "/read", "nonsense"), 401);
    assert_int_equal(
        access_run_metric(f, "flamegrid_access_refused_total{reason=\"bad_credentials\"}"), 21);
    assert_int_equal(
        access_run_metric(f, "flamegrid_access_refused_total{reason=\"too_many_failures\"}"), 1);
    assert_int_equal(
        access_run_metric(f, "flamegrid_access_refused_total{reason=\"no_credentials\"}"), 1);
    assert_int_equal(access_run_ask(f, "/push", f->read), 403);
    assert_int_equal(access_run_metric(f, "flamegrid_access_refused_total{reason=\"no_scope\"}"),
                     1);
}

/* Not everybody can be new: the first use of each unknown token is an attempt of its address. */
static void ever_new_strangers_are_wrong_ones(void **state)
{
    struct access_run *f = *state;
    char stranger[FG_TOKEN_CHARS + 1];

    (void)access_make_secret(77, NULL, stranger);
    access_run_put(f);
    access_run_start(f);
    fg_bucket_faulty_set(f->faulty, &access_run_away);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    for (unsigned i = 0; i < 100; i++) /* one of them may come as often as it likes */
        assert_int_equal(access_run_ask(f, "/read", stranger), 503);
    for (unsigned i = 1; i < 20; i++) {
        (void)access_make_secret(100 + i, NULL, stranger);
        assert_int_equal(access_run_ask(f, "/read", stranger), 503);
    }
    (void)access_make_secret(200, NULL, stranger);
    assert_int_equal(access_run_ask(f, "/read", stranger), 429);
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
}

/* ---- modes ---- */

static enum fg_code try_mode(struct access_run *f, unsigned mode, const char *listen,
                             enum fg_access_mode *ret_mode, struct fg_err *err)
{
    const struct fg_access_config config = {.settings = &f->settings,
                                            .listen = listen,
                                            .clock = &f->clock.clock,
                                            .registry = f->metrics};
    struct fg_access *access;

    f->settings.mode = mode;
    if (fg_access_create(&config, &access, err) != FG_OK)
        return err->code;
    *ret_mode = fg_access_mode(access);
    fg_access_destroy(access);
    return FG_OK;
}

static void a_server_that_others_can_reach_wants_a_mode(void **state)
{
    static const char *const local[] = {"127.0.0.1:4040", "127.1.2.3:80", "localhost:4040",
                                        "[::1]:4040"},
                             *const open[] = {"0.0.0.0:4040",
                                              ":4040",
                                              "[::]:4040",
                                              "10.0.0.1:4040",
                                              "example.com:4040",
                                              "[::ffff:10.0.0.1]:4040",
                                              ""};
    struct access_run *f = *state;
    enum fg_access_mode mode = FG_ACCESS_UNSET;
    struct fg_err err;

    f->metrics = fg_registry_create();
    for (size_t i = 0; i < FG_COUNT(local); i++) {
        assert_int_equal(try_mode(f, FG_ACCESS_UNSET, local[i], &mode, &err), FG_OK);
        assert_int_equal(mode, FG_ACCESS_NONE);
    }
    for (size_t i = 0; i < FG_COUNT(open); i++) {
        assert_int_equal(try_mode(f, FG_ACCESS_UNSET, open[i], &mode, &err), FG_E_INVALID);
        assert_non_null(strstr(err.msg, "access.mode"));
        for (unsigned m = FG_ACCESS_NONE; m <= FG_ACCESS_TOKEN; m++) {
            assert_int_equal(try_mode(f, m, open[i], &mode, &err), FG_OK);
            assert_int_equal(mode, m);
        }
    }
    (void)snprintf(f->cidrs, sizeof f->cidrs, "10.0.0.0/99");
    assert_int_equal(try_mode(f, FG_ACCESS_HEADER, "0.0.0.0:1", &mode, &err), FG_E_INVALID);
    assert_non_null(strstr(err.msg, "access.trusted_cidrs"));
}

static void the_mode_header_believes_trusted_networks_only(void **state)
{
    struct access_run *f = *state;

    f->settings.mode = FG_ACCESS_HEADER;
    access_run_put(f);
    access_run_start(f);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1\r\nX-Scope-OrgID: zoo", NULL), 200);
    assert_string_equal(http_ask_body(&f->served.answer), "zoo");
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1", NULL), 401);
    access_run_stop(f);
    (void)snprintf(f->cidrs, sizeof f->cidrs, "10.0.0.0/8");
    access_run_start(f);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1\r\nX-Scope-OrgID: zoo", NULL), 401);
    /* Tokens are not asked for, so they prove nothing either. */
    assert_int_equal(access_run_ask(f, "/read", f->read), 401);
}

/* The bucket does not answer yet, so there is no registry. */
static void the_mode_header_refuses_strangers_from_the_first_moment(void **state)
{
    struct access_run *f = *state;

    f->settings.mode = FG_ACCESS_HEADER;
    (void)snprintf(f->cidrs, sizeof f->cidrs, "10.0.0.0/8");
    bucket_hold_next(&f->hold, FG_BUCKET_GET, "access/");
    access_run_create(f);
    access_run_serve(f);
    bucket_hold_await(&f->hold);
    assert_int_equal(served_ask(&f->served, "GET /known HTTP/1.1\r\nX-Scope-OrgID: zoo", NULL),
                     401);
    assert_int_equal(access_run_ask(f, "/read", f->read), 401);
    access_run_unfollow_held(f);
}

static void without_a_mode_a_suspended_tenant_is_refused_too(void **state)
{
    struct access_run *f = *state;
    struct fg_err err;

    f->settings.mode = FG_ACCESS_NONE;
    assert_int_equal(fg_access_set_tenant_state(&f->make.change, FG_LIT("a"),
                                                ACCESS__TENANT__STATE__SUSPENDED, &err),
                     FG_OK);
    access_run_put(f);
    access_run_start(f);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1\r\nX-Scope-OrgID: a", NULL), 403);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1\r\nX-Scope-OrgID: b", NULL), 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, access_run_set_up, access_run_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unknown_token_is_asked_to_come_again_once),
        TEST(a_new_tenant_is_asked_to_come_again_once),
        TEST(a_tenant_that_does_not_exist_is_refused_after_a_read),
        TEST(a_new_token_and_a_new_secret_work_as_soon_as_they_are_used),
        TEST(a_revoked_token_is_refused_at_once),
        TEST(strangers_make_it_look_once_a_second_at_most),
        TEST(too_many_wrong_ones_lock_only_wrong_ones),
        TEST(ever_new_strangers_are_wrong_ones),
        TEST(a_server_that_others_can_reach_wants_a_mode),
        TEST(the_mode_header_believes_trusted_networks_only),
        TEST(the_mode_header_refuses_strangers_from_the_first_moment),
        TEST(without_a_mode_a_suspended_tenant_is_refused_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
