/* Tests what a querier answers another one that asks it for the metrics of a tenant's minute: only
 * minutes that are over by its own clock, whatever the head says. */
#include "proto/inner.pb-c.h"
#include "querier/rules/rule_store.h"
#include "querier/share/share.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/l0_make.h"
#include "tests/unit/querier/querier_served.h"

enum { RULES_DELAY_S = 30, START_S = 1700000040 /* a whole minute */ };

#define METRIC "profiles_recorded_shop_cpu"

struct fixture {
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct fg_work *work;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct fg_bucket *bucket;
    struct qry_share_settings share_settings;
    struct qry_share *share;
    struct querier *querier;
    struct fg_rpc_server *server;
    struct fg_peer *peer; /* to the server */
    struct fake_peer ingester;
    struct fg_peer *to_ingester;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

/* Stores one rule of tenant acme. */
static void put_rule(struct fixture *f)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    const struct qry_rule_store store = {.bucket = f->bucket,
                                         .tenant = FG_LIT("acme"),
                                         .arena = arena,
                                         .rules_max = 1,
                                         .deadline_mono_ns = INT64_MAX};
    Settings__V1__RecordingRule rule = SETTINGS__V1__RECORDING_RULE__INIT;
    char matcher[] = "{__profile_type__=\"" CPU "\"}", id[] = "shop", metric[] = METRIC;
    char *matchers[] = {matcher};
    struct fg_err err;

    rule.id = id;
    rule.metric_name = metric;
    rule.matchers = matchers;
    rule.n_matchers = 1;
    must(qry_rule_store_put(&store, &rule, &err), &err);
    fg_arena_destroy(arena);
}

static void open_share(struct fixture *f)
{
    static char nobody[] = "", nowhere[] = "";
    struct fg_err err;

    f->share_settings = (struct qry_share_settings){.queriers = nobody,
                                                    .listen = nowhere,
                                                    .cache_max_bytes = 1 << 20,
                                                    .requests_max = 4,
                                                    .resolve_interval_ns = FG_MINUTE_NS,
                                                    .timeout_ns = FG_SECOND_NS};
    must(qry_share_create(&(struct qry_share_config){.settings = &f->share_settings,
                                                     .bucket = f->bucket,
                                                     .registry = f->registry,
                                                     .clock = &f->clock.clock},
                          &f->share, &err),
         &err);
}

static int set_up(void **state)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 2, .queue_max = 16}};
    static const struct querier_point point = {.sum = 90, .count = 1}; /* 1.5 a second */
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    fg_clock_manual_init(&f->clock, START_S * FG_SECOND_NS);
    f->clock.mono_ns = fg_mono_ns(fg_clock_real()); /* deadlines of calls are real */
    f->registry = fg_registry_create();
    f->bucket = fg_bucket_memory();
    l0_make(f->bucket);
    f->tenants = tenants_make(&f->limits, NULL, true, f->registry);
    put_rule(f);
    fake_peer_init(&f->ingester, "inproc://rule-calls-ingester");
    fg_buf_varint(&f->ingester.payloads[FG_RPC_POINTS], 1);
    querier_add_points(&f->ingester, "service_name=shop", &point, 1);
    f->to_ingester = fg_peer_direct(f->ingester.server);
    must(fg_work_create("test", lanes, &f->work, &err), &err);
    open_share(f);
    f->querier = qry_create(&(struct qry_config){.ingester = f->to_ingester,
                                                 .work = f->work,
                                                 .tenants = f->tenants,
                                                 .registry = f->registry,
                                                 .clock = &f->clock.clock,
                                                 .bucket = f->bucket,
                                                 .cache_max_bytes = 1 << 20,
                                                 .fetch_max_bytes = 1 << 20,
                                                 .rules_delay_ns = RULES_DELAY_S * FG_SECOND_NS});
    f->server = fg_rpc_server_create(NULL, 4);
    must(qry_start(f->querier, f->share, f->server, f->registry, &err), &err);
    f->peer = fg_peer_direct(f->server);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    qry_stop(f->querier);
    fg_work_destroy(f->work);
    fg_peer_destroy(f->peer);
    fg_rpc_server_destroy(f->server);
    qry_destroy(f->querier);
    qry_share_destroy(f->share);
    fg_peer_destroy(f->to_ingester);
    fake_peer_done(&f->ingester);
    tenants_free(f->tenants, &f->limits);
    fg_bucket_close(f->bucket);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

static struct fg_call ask_with(struct fixture *f, struct fg_slice head)
{
    struct fg_call call = {.method = FG_RPC_RULES,
                           .head = head,
                           .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS,
                           .reply_max_bytes = 1 << 20};

    (void)!fg_peer_call(f->peer, &call);
    return call;
}

static struct fg_call ask(struct fixture *f, struct fg_slice tenant, int64_t minute_ns)
{
    Fg__Inner__RulesHead head = FG__INNER__RULES_HEAD__INIT;
    uint8_t bytes[512];

    head.tenant = (ProtobufCBinaryData){tenant.len, (uint8_t *)(uintptr_t)tenant.ptr};
    head.minute_ns = minute_ns;
    assert_in_range(fg__inner__rules_head__get_packed_size(&head), 0, sizeof bytes);
    return ask_with(f, fg_bytes(bytes, fg__inner__rules_head__pack(&head, bytes)));
}

/* Asserts that the minute is answered, with the metric and its value. */
static void expect_values(struct fixture *f, int64_t minute_ns)
{
    struct fg_call call = ask(f, FG_LIT("acme"), minute_ns);
    static const char value[] = METRIC "{rule_id=\"shop\"} 1.5 ";
    Fg__Inner__RulesReply *reply;

    must(call.code, &call.err);
    reply = fg__inner__rules_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
    assert_non_null(reply);
    assert_true(reply->start_id == qry_share_start_id(f->share));
    if (reply->missing.len > 0)
        fail_msg("%.*s", (int)reply->missing.len, (const char *)reply->missing.data);
    assert_false(reply->unavailable);
    if (memmem(call.reply_payload.ptr, call.reply_payload.len, value, strlen(value)) == NULL)
        fail_msg("%.*s", FG_S(call.reply_payload));
    fg__inner__rules_reply__free_unpacked(reply, NULL);
    fg_call_done(f->peer, &call);
}

static void expect_refused(struct fixture *f, struct fg_call call, enum fg_code code,
                           const char *error)
{
    assert_int_equal(call.code, code);
    if (strstr(call.err.msg, error) == NULL)
        fail_msg("%s", call.err.msg);
    assert_int_equal(call.reply_payload.len, 0);
    fg_call_done(f->peer, &call);
}

/* The clock of the querier that asks may be ahead. Values of half a minute would stay in the cache:
 * the ingester has to be left alone until the minute is over, and rules_delay with it. */
static void a_minute_is_evaluated_when_it_is_over_here(void **state)
{
    struct fixture *f = *state;
    int64_t minute_ns = START_S * FG_SECOND_NS, over_ns = minute_ns + FG_MINUTE_NS;

    expect_refused(f, ask(f, FG_LIT("acme"), minute_ns), FG_E_UNAVAILABLE,
                   "the minute is not over");
    f->clock.wall_ns += FG_MINUTE_NS + RULES_DELAY_S * FG_SECOND_NS - 1;
    expect_refused(f, ask(f, FG_LIT("acme"), minute_ns), FG_E_UNAVAILABLE,
                   "the minute is not over");
    assert_int_equal(f->ingester.calls[FG_RPC_POINTS], 0);
    f->clock.wall_ns += 1;
    expect_values(f, minute_ns);
    assert_int_equal(f->ingester.calls[FG_RPC_POINTS], 1);
    expect_values(f, minute_ns); /* of the cache */
    assert_int_equal(f->ingester.calls[FG_RPC_POINTS], 1);
    expect_refused(f, ask(f, FG_LIT("acme"), over_ns), FG_E_UNAVAILABLE, "the minute is not over");
}

static void a_greeting_tells_which_run_this_is(void **state)
{
    struct fixture *f = *state;
    struct fg_call call = ask(f, FG_LIT(""), 0);
    Fg__Inner__RulesReply *reply;

    must(call.code, &call.err);
    reply = fg__inner__rules_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
    assert_non_null(reply);
    assert_true(reply->start_id == qry_share_start_id(f->share));
    assert_int_equal(call.reply_payload.len, 0);
    fg__inner__rules_reply__free_unpacked(reply, NULL);
    fg_call_done(f->peer, &call);
}

static void heads_that_are_wrong_are_refused(void **state)
{
    struct fixture *f = *state;
    char long_tenant[300];

    memset(long_tenant, 'a', sizeof long_tenant);
    expect_refused(f, ask_with(f, FG_LIT("\x0a\xff")), FG_E_INVALID, "not a minute");
    expect_refused(f, ask_with(f, FG_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
                   FG_E_INVALID, "not a minute");
    expect_refused(f, ask(f, FG_LIT("acme"), -FG_MINUTE_NS), FG_E_INVALID, "not a minute");
    expect_refused(f, ask(f, FG_LIT("acme"), INT64_MIN), FG_E_INVALID, "not a minute");
    expect_refused(f, ask(f, FG_LIT("acme"), START_S * FG_SECOND_NS + 1), FG_E_INVALID,
                   "not a minute");
    expect_refused(f, ask(f, FG_LIT("acme"), INT64_MAX / FG_MINUTE_NS * FG_MINUTE_NS),
                   FG_E_UNAVAILABLE, "the minute is not over");
    expect_refused(f, ask(f, FG_LIT("../acme"), 0), FG_E_INVALID, "");
    expect_refused(f, ask(f, fg_bytes(long_tenant, sizeof long_tenant), 0), FG_E_INVALID, "");
    assert_int_equal(f->ingester.calls[FG_RPC_POINTS], 0);
}

/* The other querier evaluates the minute itself then. */
static void a_querier_that_stops_evaluates_for_no_other(void **state)
{
    struct fixture *f = *state;

    f->clock.wall_ns += FG_MINUTE_NS + RULES_DELAY_S * FG_SECOND_NS;
    qry_stop(f->querier);
    expect_refused(f, ask(f, FG_LIT("acme"), START_S * FG_SECOND_NS), FG_E_UNAVAILABLE,
                   "the querier stops");
    assert_int_equal(f->ingester.calls[FG_RPC_POINTS], 0);
}

/* Its scraper has disconnected: the work ends before an ingester is asked. */
static void a_canceled_minute_is_not_evaluated(void **state)
{
    struct fixture *f = *state;
    Fg__Inner__RulesHead head = FG__INNER__RULES_HEAD__INIT;
    uint8_t tenant[] = "acme", bytes[64], key[FG_RPC_CANCEL_BYTES];
    struct fg_call cancel = {.method = FG_RPC_CANCEL,
                             .head = fg_bytes(key, sizeof key),
                             .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS};

    f->clock.wall_ns += FG_MINUTE_NS + RULES_DELAY_S * FG_SECOND_NS;
    head.tenant = (ProtobufCBinaryData){strlen("acme"), tenant};
    head.minute_ns = START_S * FG_SECOND_NS;
    head.cancel_key = 77;
    fg_rpc_put_cancel(head.cancel_key, key);
    assert_int_equal(fg_peer_call(f->peer, &cancel), FG_OK);
    fg_call_done(f->peer, &cancel);
    expect_refused(f, ask_with(f, fg_bytes(bytes, fg__inner__rules_head__pack(&head, bytes))),
                   FG_E_UNAVAILABLE, "client has disconnected");
    assert_int_equal(f->ingester.calls[FG_RPC_POINTS], 0);
    expect_values(f, START_S * FG_SECOND_NS); /* for others */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_minute_is_evaluated_when_it_is_over_here, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_greeting_tells_which_run_this_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(heads_that_are_wrong_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_querier_that_stops_evaluates_for_no_other, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_canceled_minute_is_not_evaluated, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
