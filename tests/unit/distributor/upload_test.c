/* Tests the limits of tenants with a whole distributor behind a real HTTP server and an ingester
 * that stores everything. */
#include "common/runtime/foreground.h"
#include "distributor/distributor.h"
#include "proto/inner.pb-c.h"
#include "tests/lib/served.h"
#include "tests/lib/tenants.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RESULTS_MAX = 16 };

#define NOW    INT64_C(1700003600)
#define STACKS "main;work;hash 30\nmain;work;sort 10\n"
#define INGEST "POST /ingest?name=app.cpu&from="
#define NEWEST "1700003600"

struct fixture {
    struct served served;
    struct dist_settings settings;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct distributor *distributor;
    struct fg_clock_manual clock;
    struct fg_peer peer;
};

/* --- fixture --- */

static void answer_push(struct fg_call *call)
{
    Fg__Inner__PushHead *head = fg__inner__push_head__unpack(NULL, call->head.len, call->head.ptr);
    Fg__Inner__PushReply reply = FG__INNER__PUSH_REPLY__INIT;
    Fg__Inner__PushResult results[RESULTS_MAX], *pointers[RESULTS_MAX];
    uint8_t *bytes;

    fg_assert(head != NULL && head->n_items <= RESULTS_MAX);
    reply.n_results = head->n_items;
    reply.results = pointers;
    fg__inner__push_head__free_unpacked(head, NULL);
    for (size_t i = 0; i < reply.n_results; i++) {
        fg__inner__push_result__init(&results[i]);
        results[i].stored = 1;
        pointers[i] = &results[i];
    }
    bytes = fg_malloc(fg__inner__push_reply__get_packed_size(&reply));
    call->reply_head = fg_bytes(bytes, fg__inner__push_reply__pack(&reply, bytes));
    call->code = FG_OK;
}

static void peer_send(struct fg_peer *peer, struct fg_call *call)
{
    (void)peer;
    if (call->method == FG_RPC_PUSH) {
        fg_assert(fg_foreground_is_under_way()); /* an agent waits for it */
        answer_push(call);
    } else { /* USE, as ingesters of before */
        call->code = fg_fail(&call->err, FG_E_UNIMPLEMENTED, "unknown method");
    }
    call->done(call);
}

static void peer_release(struct fg_call *call)
{
    free((void *)(uintptr_t)call->reply_head.ptr);
}

static const struct fg_peer_ops peer_ops = {peer_send, peer_release, NULL};

static void load_settings(struct dist_settings *settings)
{
    struct fg_conf_section section = {"distributor", dist_fields, dist_n_fields, settings};
    struct fg_err err;

    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                           NULL, 0, &err) == FG_OK);
}

static int setup_with(void **state, bool tenants, void (*change)(struct fg_limit_settings *limits))
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_INGEST] = {.threads = 1, .queue_max = 16}};
    struct fixture *f = fg_new(struct fixture);

    load_settings(&f->settings);
    fg_clock_manual_init(&f->clock, NOW * FG_SECOND_NS);
    f->peer.ops = &peer_ops;
    served_open(&f->served, lanes);
    f->tenants = tenants_make(&f->limits, change, tenants, f->served.registry);
    f->distributor = dist_create(&(struct dist_config){.settings = &f->settings,
                                                       .ingester = &f->peer,
                                                       .work = f->served.work,
                                                       .tenants = f->tenants,
                                                       .registry = f->served.registry,
                                                       .clock = &f->clock.clock});
    dist_routes(f->distributor, f->served.server);
    served_start(&f->served);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    served_stop(&f->served);
    dist_stop(f->distributor);
    dist_destroy(f->distributor);
    tenants_free(f->tenants, &f->limits);
    served_close(&f->served);
    assert_false(fg_foreground_is_under_way());
    free(f);
    return 0;
}

static void expect(struct fixture *f, const char *request, const char *body, unsigned status,
                   const char *text)
{
    print_message("  %s\n", request);
    assert_int_equal(served_ask(&f->served, request, body), status);
    if (strstr(http_ask_body(&f->served.answer), text) == NULL)
        fail_msg("%s\nwithout: %s", http_ask_body(&f->served.answer), text);
}

/* --- tests --- */

static int setup(void **state)
{
    return setup_with(state, false, NULL);
}

static void without_limits_only_future_profiles_are_refused(void **state)
{
    struct fixture *f = *state;

    expect(f, INGEST NEWEST " HTTP/1.1", STACKS, 200, "");
    expect(f, INGEST "1600000000 HTTP/1.1", STACKS, 200, "");
    expect(f, INGEST "1700007200 HTTP/1.1", STACKS, 400, "is outside of ingestion window");
}

static void limit_rate(struct fg_limit_settings *limits)
{
    limits->ingestion_rate_mb = limits->ingestion_burst_size_mb = 0.001;
}

static int setup_rate(void **state)
{
    return setup_with(state, true, limit_rate);
}

/* 576 of the 1048 bytes that each tenant may send at once; the bytes come back within a second. */
static void each_tenant_has_a_rate(void **state)
{
    struct fixture *f = *state;
#define FOUR(text) text text text text
#define MANY       FOUR(FOUR(STACKS))
#define AS(tenant) INGEST NEWEST " HTTP/1.1\r\nX-Scope-OrgID: " tenant

    expect(f, AS("a"), MANY, 200, "");
    expect(f, AS("a"), MANY, 429, "resource_exhausted");
    expect(f, AS("a"), MANY, 429, "push rate limit");
    expect(f, AS("b"), MANY, 200, "");
    fg_clock_manual_advance(&f->clock, FG_SECOND_NS);
    expect(f, AS("a"), MANY, 200, "");
    expect(f, INGEST NEWEST " HTTP/1.1", MANY, 401, "no org id");
}

static void limit_others(struct fg_limit_settings *limits)
{
    limits->ingestion_body_limit_mb = 30.0 / 1024 / 1024;
    limits->reject_older_than_ns = FG_HOUR_NS;
}

static int setup_others(void **state)
{
    return setup_with(state, false, limit_others);
}

static void body_size_and_profile_time_have_limits(void **state)
{
    struct fixture *f = *state;

    expect(f, INGEST NEWEST " HTTP/1.1", STACKS, 413, "request body too large: 36 bytes, limit 30");
    expect(f, INGEST NEWEST " HTTP/1.1", "main;work 1\n", 200, "");
    expect(f, INGEST "1700000000 HTTP/1.1", "main;work 1\n", 200, "");
    expect(f, INGEST "1699999999 HTTP/1.1", "main;work 1\n", 400, "is outside of ingestion window");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_limits_only_future_profiles_are_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(each_tenant_has_a_rate, setup_rate, teardown),
        cmocka_unit_test_setup_teardown(body_size_and_profile_time_have_limits, setup_others,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
