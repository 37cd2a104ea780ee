/* The compactor's routes, behind a real HTTP server, with its thread running. */
#include "common/base/str.h"
#include "common/cluster/manifest/blocks.h"
#include "common/runtime/log.h"
#include "common/storage/bucket/impl.h"
#include "compactor/compactor.h"
#include "compactor/edit_core.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_hold.h"
#include "tests/lib/l0_make.h"
#include "tests/lib/served.h"
#include "tests/lib/tenants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define HELD "tenants/acme/manifest" /* which only requests read: acme has no data */

/* Refuses to give it, if told so. */
struct refusing {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    _Atomic bool refuses;
    _Atomic unsigned refused;
};

static void refusing_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct refusing *refusing = fg_container(bucket, struct refusing, bucket);

    if (!atomic_load(&refusing->refuses) || strcmp(request->name, HELD) != 0) {
        refusing->inner->ops->send(refusing->inner, request);
        return;
    }
    atomic_fetch_add(&refusing->refused, 1);
    request->code = fg_fail(&request->err, FG_E_UNAVAILABLE, "refused");
    fg_bucket_finish(request);
}

static void refusing_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct refusing *refusing = fg_container(bucket, struct refusing, bucket);

    refusing->inner->ops->cancel(refusing->inner, request);
}

static const struct fg_bucket_ops refusing_ops = {refusing_send, refusing_cancel, NULL};

struct fixture {
    struct served served;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct fg_bucket *bucket;
    struct bucket_hold hold; /* the compactor sees it through this */
    struct refusing refusing;
    struct fg_clock_manual clock;
    struct cmp_settings settings;
    struct compactor *compactor;
    char scratch[64];
    _Atomic unsigned told; /* of deletions */
    bool stopped;          /* the server is */
};

static void on_deletion(void *arg)
{
    struct fixture *f = arg;

    atomic_fetch_add(&f->told, 1);
}

static int setup(void **state)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 2, .queue_max = 16}};
    struct fixture *f = fg_new(struct fixture);
    struct fg_conf_section section = {"compactor", cmp_fields, cmp_n_fields, &f->settings};
    struct fg_err err;

    served_open(&f->served, lanes);
    f->tenants = tenants_make(&f->limits, NULL, true, f->served.registry);
    f->bucket = fg_bucket_memory();
    l0_make(f->bucket);
    f->refusing = (struct refusing){.bucket.ops = &refusing_ops, .inner = f->bucket};
    bucket_hold_init(&f->hold, &f->refusing.bucket);
    fg_clock_manual_init(&f->clock, fg_wall_ns(fg_clock_real()));
    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                           NULL, 0, &err) == FG_OK);
    cmp_share(&f->settings, 0);
    (void)snprintf(f->scratch, sizeof f->scratch, "/tmp/compactor_test_XXXXXX");
    fg_assert(mkdtemp(f->scratch) != NULL);
    fg_assert(cmp_create(&(struct cmp_config){.settings = &f->settings,
                                              .bucket = &f->hold.bucket,
                                              .scratch = f->scratch,
                                              .work = f->served.work,
                                              .tenants = f->tenants,
                                              .registry = f->served.registry,
                                              .clock = &f->clock.clock,
                                              .on_deletion = on_deletion,
                                              .on_deletion_arg = f},
                         &f->compactor, &err) == FG_OK);
    cmp_routes(f->compactor, f->served.server);
    fg_assert(cmp_start(f->compactor, &err) == FG_OK);
    served_start(&f->served);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (!f->stopped)
        served_stop(&f->served);
    cmp_stop(f->compactor);
    cmp_destroy(f->compactor);
    bucket_hold_done(&f->hold);
    fg_bucket_close(f->bucket);
    tenants_free(f->tenants, &f->limits);
    served_close(&f->served);
    (void)rmdir(f->scratch);
    free(f);
    return 0;
}

static unsigned ask(struct fixture *f, const char *line, const char *tenant)
{
    char request[1024];

    (void)snprintf(request, sizeof request, "%s HTTP/1.1\r\nX-Flamegrid-Action: test%s%s", line,
                   tenant == NULL ? "" : "\r\nX-Scope-OrgID: ", tenant == NULL ? "" : tenant);
    return served_ask(&f->served, request, NULL);
}

static void expect(struct fixture *f, const char *line, const char *tenant, unsigned status,
                   const char *part)
{
    print_message("  %s\n", line);
    assert_int_equal(ask(f, line, tenant), status);
    if (strstr(http_ask_body(&f->served.answer), part) == NULL)
        fail_msg("%s", http_ask_body(&f->served.answer));
}

#define SHOP "selector=%7Bservice_name%3D%22shop%22%7D"

/* Nothing that a web page can send deletes anything. */
static void a_deletion_needs_the_action_header(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(served_ask(&f->served,
                                "POST /compactor/delete?" SHOP "&start=1&end=2 HTTP/1.1\r\n"
                                "X-Scope-OrgID: acme",
                                NULL),
                     403);
    expect(f, "GET /compactor/deletions", "acme", 200, "{\"deletions\":[]}");
}

static void a_deletion_is_accepted_and_listed(void **state)
{
    struct fixture *f = *state;

    expect(f, "GET /compactor/deletions", "acme", 200, "{\"deletions\":[]}");
    expect(f, "POST /compactor/delete?" SHOP "&start=1700000000&end=1700000060", "acme", 200,
           "\"selector\":\"{service_name=\\\"shop\\\"}\",\"start_ms\":1700000000000,"
           "\"end_ms\":1700000060000");
    assert_int_equal(atomic_load(&f->told), 1); /* before it was answered */
    expect(f, "GET /compactor/deletions", "acme", 200,
           "\"state\":\"pending\",\"profiles_removed\":0,\"rewrites\":0,\"waits_for\":\"\"}]}");
    expect(f, "GET /compactor/deletions", "zoo", 200, "{\"deletions\":[]}");
}

static void malformed_deletions_are_refused(void **state)
{
    static const struct {
        const char *query, *tenant;
        unsigned status;
        const char *part;
    } cases[] = {
        {"start=1&end=2", "acme", 400, "selector is missing"},
        {SHOP "&end=2", "acme", 400, "start is missing"},
        {SHOP "&start=1", "acme", 400, "end is missing"},
        {SHOP "&start=3&end=2", "acme", 400, "start is not before end"},
        {"selector=%7B&start=1&end=2", "acme", 400, "selector: 1:"},
        {"selector=%7B__type__%3D%22cpu%22%7D&start=1&end=2", "acme", 400, "whole profiles"},
        {SHOP "&start=1&end=2", "../x", 400, "invalid"},
        {SHOP "&start=1&end=2", NULL, 401, "no org id"},
    };

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char line[512];

        (void)snprintf(line, sizeof line, "POST /compactor/delete?%s", cases[i].query);
        expect(*state, line, cases[i].tenant, cases[i].status, cases[i].part);
    }
    expect(*state, "GET /compactor/delete", "acme", 405, "");
    assert_int_equal(atomic_load(&((struct fixture *)*state)->told), 0);
}

/* What a question has to look at has an end; other tenants are no worse off. */
static void too_many_deletions_are_refused(void **state)
{
    const char *regex = "POST /compactor/delete?selector=%7Bpod%3D~%22x.%2B%22%7D&start=1&end=2";
    const char *line = "POST /compactor/delete?" SHOP "&start=1&end=2";

    for (unsigned i = 0; i < FG_DELETIONS_REGEX_MAX; i++)
        assert_int_equal(ask(*state, regex, "acme"), 200);
    expect(*state, regex, "acme", 429, "64 regular expressions");
    for (unsigned i = FG_DELETIONS_REGEX_MAX; i < FG_BLOCKS_TOMBSTONES_MAX; i++)
        assert_int_equal(ask(*state, line, "acme"), 200);
    expect(*state, line, "acme", 429, "256 deletions are pending");
    expect(*state, line, "zoo", 200, "pending");
}

/* ---- while the bucket does not answer ---- */

static int send_deletion(struct fixture *f)
{
    return http_ask_send(fg_http_server_port(f->served.server),
                         "POST /compactor/delete?" SHOP "&start=1&end=2 HTTP/1.1\r\n"
                         "X-Flamegrid-Action: test\r\nX-Scope-OrgID: acme",
                         FG_LIT(""));
}

static void expect_unavailable(struct fixture *f, int fd, const char *part)
{
    assert_int_equal(http_ask_receive(fd, &f->served.answer), 503);
    if (strstr(http_ask_body(&f->served.answer), part) == NULL)
        fail_msg("%s", http_ask_body(&f->served.answer));
}

/* It holds a worker of queries. */
static void a_deletion_has_a_deadline(void **state)
{
    struct fixture *f = *state;
    int64_t begun_ns = fg_mono_ns(&f->clock.clock);
    int fd;

    bucket_hold_next(&f->hold, FG_BUCKET_GET, HELD);
    fd = send_deletion(f);
    bucket_hold_await(&f->hold);
    assert_in_range(f->hold.held->deadline_mono_ns - begun_ns, 1, 30 * FG_SECOND_NS);
    fg_clock_manual_advance(&f->clock, 30 * FG_SECOND_NS);
    (void)bucket_hold_end(&f->hold, FG_E_DEADLINE);
    expect_unavailable(f, fd, "the bucket does not answer in time");
}

static void *stop_compactor(void *arg)
{
    cmp_stop(arg);
    return NULL;
}

static void a_stop_ends_deletions(void **state)
{
    struct fixture *f = *state;
    pthread_t stopper;
    int fd;

    bucket_hold_next(&f->hold, FG_BUCKET_GET, HELD);
    fd = send_deletion(f);
    bucket_hold_await(&f->hold);
    assert_int_equal(pthread_create(&stopper, NULL, stop_compactor, f->compactor), 0);
    assert_true(bucket_hold_await_cancel(&f->hold));
    assert_int_equal(pthread_join(stopper, NULL), 0);
    expect_unavailable(f, fd, "the compactor is stopping");
    expect(f, "GET /compactor/deletions", "acme", 503, "");
}

/* Nobody waits for the answer any more, and the next attempt may be ten seconds away. */
static void a_client_that_leaves_ends_its_deletion(void **state)
{
    struct fixture *f = *state;
    int fd;

    bucket_hold_next(&f->hold, FG_BUCKET_GET, HELD);
    fd = send_deletion(f);
    bucket_hold_await(&f->hold);
    atomic_store(&f->refusing.refuses, true);
    (void)close(fd);
    (void)bucket_hold_end(&f->hold, FG_E_UNAVAILABLE);
    served_stop(&f->served); /* waits for the request */
    f->stopped = true;
    assert_in_range(atomic_load(&f->refusing.refused), 0, EDIT_ATTEMPTS_MAX - 3);
}

static void status_shows_tenants_and_jobs(void **state)
{
    expect(*state, "GET /compactor/status", NULL, 200, "\"tenants\":[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_deletion_needs_the_action_header, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deletion_is_accepted_and_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed_deletions_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_deletions_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deletion_has_a_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_ends_deletions, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_ends_its_deletion, setup, teardown),
        cmocka_unit_test_setup_teardown(status_shows_tenants_and_jobs, setup, teardown),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
