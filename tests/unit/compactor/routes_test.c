/* The compactor's routes, behind a real HTTP server, with its thread running. */
#include "common/base/str.h"
#include "common/cluster/manifest/blocks.h"
#include "common/runtime/log.h"
#include "compactor/compactor.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/l0_make.h"
#include "tests/lib/served.h"
#include "tests/lib/tenants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct served served;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct fg_bucket *bucket;
    struct cmp_settings settings;
    struct compactor *compactor;
    char scratch[64];
    _Atomic unsigned told; /* of deletions */
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
    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                           NULL, 0, &err) == FG_OK);
    cmp_share(&f->settings, 0);
    (void)snprintf(f->scratch, sizeof f->scratch, "/tmp/compactor_test_XXXXXX");
    fg_assert(mkdtemp(f->scratch) != NULL);
    fg_assert(cmp_create(&(struct cmp_config){.settings = &f->settings,
                                              .bucket = f->bucket,
                                              .scratch = f->scratch,
                                              .work = f->served.work,
                                              .tenants = f->tenants,
                                              .registry = f->served.registry,
                                              .clock = fg_clock_real(),
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

    served_stop(&f->served);
    cmp_stop(f->compactor);
    cmp_destroy(f->compactor);
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
        cmocka_unit_test_setup_teardown(status_shows_tenants_and_jobs, setup, teardown),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
