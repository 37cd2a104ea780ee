/* The sender with real targets: it sends everything whatever they do, does not let one wait for
 * another, and stops in every state without losing a span. */
#include "common/base/str.h"
#include "ingester/forward/sender.h"
#include "proto/forward_v1.pb-c.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/fake_server.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"
#include "tests/unit/ingester/forward/outbox_run.h"
#include "tests/unit/ingester/forward/past_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { REQUEST_MAX_BYTES = 1 << 20, TARGETS = 2, BODIES_BYTES = 64 << 20 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;
static const int64_t PAUSE_NS = 2 * FG_MS_NS;

/* ---- targets ---- */

struct target {
    struct fake_server *server;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t moved;
    bool hangs, lacks_forward;
    bool heals;          /* the status is 200 again after an answer to push.v1 */
    unsigned status;     /* of each answer */
    const char *headers; /* of each answer */
    const char *denied;  /* a tenant that gets 403; NULL: none */
    uint64_t requests, forwards, pushes, denials;
    uint64_t profiles; /* said to be stored */
};

/* Says that all profiles of a request are stored. */
static void store_all(struct target *target, struct fg_slice body, struct fg_buf *out)
{
    Forward__V1__PushRequest *request = forward__v1__push_request__unpack(NULL, body.len, body.ptr);
    Forward__V1__PushResponse response = FORWARD__V1__PUSH_RESPONSE__INIT;
    Forward__V1__Result *results;

    fg_assert(request != NULL);
    results = fg_calloc(request->n_batches, sizeof *results);
    response.results = fg_calloc(request->n_batches, sizeof(Forward__V1__Result *));
    response.n_results = request->n_batches;
    for (size_t i = 0; i < request->n_batches; i++) {
        forward__v1__result__init(&results[i]);
        results[i].stored = (uint32_t)request->batches[i]->n_sizes / 2;
        target->profiles += results[i].stored;
        response.results[i] = &results[i];
    }
    fg_assert(fg_buf_reserve(out, forward__v1__push_response__get_packed_size(&response) + 1));
    out->len += forward__v1__push_response__pack(&response, out->ptr);
    free(response.results);
    free(results);
    forward__v1__push_request__free_unpacked(request, NULL);
}

static struct fg_slice body_of(const char *request)
{
    const char *length = strstr(request, "Content-Length: "), *body = strstr(request, "\r\n\r\n");
    uint64_t len;
    size_t end;
    struct fg_slice digits;

    fg_assert(length != NULL && body != NULL);
    digits = fg_cstr(length + strlen("Content-Length: "));
    end = fg_slice_find(digits, '\r');
    fg_assert(fg_parse_u64(fg_slice_sub(digits, 0, end), &len));
    return fg_bytes((const uint8_t *)body + 4, (size_t)len);
}

static bool is_denied(const struct target *target, const char *request)
{
    char header[64];

    (void)snprintf(header, sizeof header, "\r\nX-Scope-OrgID: %s\r\n",
                   target->denied == NULL ? "" : target->denied);
    return target->denied != NULL && strstr(request, header) != NULL;
}

/* Locked. Returns the status. */
static unsigned answer(struct target *target, const char *request, struct fg_buf *out)
{
    bool forward = strncmp(request, "POST /base/forward.v1.ForwardService/Push ", 42) == 0;
    unsigned status = target->status;

    if (strncmp(request, "POST /token ", 12) == 0) {
        fg_buf_puts(out, "{\"access_token\":\"abc\",\"token_type\":\"Bearer\"}");
        return 200;
    }
    fg_assert(forward || strncmp(request, "POST /base/push.v1.PusherService/Push ", 38) == 0);
    target->requests++;
    target->forwards += forward;
    target->pushes += !forward;
    if (status != 200) {
        target->status = target->heals && !forward ? 200 : status;
        return status;
    }
    if (is_denied(target, request)) {
        target->denials++;
        return 403;
    }
    if (!forward) {
        target->profiles++;
        return 200;
    }
    if (target->lacks_forward)
        return 404;
    store_all(target, body_of(request), out);
    return 200;
}

static void handle(struct fake_connection *connection, void *arg)
{
    struct target *target = arg;
    char *request = fg_malloc(REQUEST_MAX_BYTES);
    bool goes_on = true;

    while (goes_on && fake_read(connection, request, REQUEST_MAX_BYTES)) {
        struct fg_buf out;
        char headers[128];
        unsigned status;
        bool hangs;

        fg_buf_init(&out, REQUEST_MAX_BYTES);
        (void)pthread_mutex_lock(&target->lock);
        hangs = target->hangs;
        (void)snprintf(headers, sizeof headers, "Content-Type: application/proto\r\n%s",
                       target->headers);
        if (hangs)
            target->requests++;
        status = hangs ? 0 : answer(target, request, &out);
        (void)pthread_cond_broadcast(&target->moved);
        (void)pthread_mutex_unlock(&target->lock);
        if (hangs)
            fake_wait_gone(connection);
        goes_on = !hangs && fake_respond(connection, status, headers, fg_buf_slice(&out));
        fg_buf_done(&out);
    }
    free(request);
}

/* Waits until a number of the target has reached this. */
static void wait_for(struct target *target, const uint64_t *number, uint64_t least)
{
    (void)pthread_mutex_lock(&target->lock);
    while (*number < least)
        (void)pthread_cond_wait(&target->moved, &target->lock);
    (void)pthread_mutex_unlock(&target->lock);
}

static uint64_t number_of(struct target *target, const uint64_t *number)
{
    uint64_t value;

    (void)pthread_mutex_lock(&target->lock);
    value = *number;
    (void)pthread_mutex_unlock(&target->lock);
    return value;
}

static void set_hangs(struct target *target, bool hangs)
{
    (void)pthread_mutex_lock(&target->lock);
    target->hangs = hangs;
    (void)pthread_mutex_unlock(&target->lock);
}

static void set_status(struct target *target, unsigned status, const char *headers)
{
    (void)pthread_mutex_lock(&target->lock);
    target->status = status;
    target->headers = headers;
    (void)pthread_mutex_unlock(&target->lock);
}

/* ---- fixture ---- */

struct fixture {
    struct target targets[TARGETS];
    unsigned n_targets;
    struct fg_store *store;
    struct fg_bucket *bucket;
    struct ing_forward_targets *settings;
    struct head head;
    struct fg_budget bodies;
    struct fg_registry *registry;
    struct fg_clock_manual clock;
    struct past_run past;
    bool several;
    int64_t hold_ns; /* 0: as by default */
    struct ing_sender *sender;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fg_assert_failed(err->msg, __FILE__, __LINE__);
}

/* Has the YAML of a target ask the target itself for tokens, with the secret of a file. */
static void put_oauth2(struct fg_buf *yaml, unsigned port, const char *secret_file)
{
    fg_buf_printf(yaml,
                  "  oauth2: {token_url: 'http://127.0.0.1:%u/token', client_id: a, "
                  "client_secret_file: '%s'}\n",
                  port, secret_file);
}

/* secret_file: for OAuth 2; NULL: none. */
static void open_all(struct fixture *f, unsigned n_targets, const char *more,
                     const char *secret_file)
{
    struct ing_forward forward;
    struct fg_buf yaml;
    struct fg_err err;

    *f = (struct fixture){.n_targets = n_targets,
                          .store = fg_store_memory(HEAD_FAMILIES),
                          .bucket = fg_bucket_memory(),
                          .registry = fg_registry_create()};
    outbox_clock_init(&f->clock);
    past_run_init(&f->past);
    fg_budget_init(&f->bodies, BODIES_BYTES);
    fg_buf_init(&yaml, SIZE_MAX);
    for (unsigned i = 0; i < n_targets; i++) {
        struct target *target = &f->targets[i];

        target->status = 200;
        target->headers = "";
        (void)pthread_mutex_init(&target->lock, NULL);
        (void)pthread_cond_init(&target->moved, NULL);
        target->server = fake_server_start(NULL, false, handle, target);
        if (secret_file == NULL) {
            fg_buf_printf(&yaml, "- {name: t%u, url: 'http://127.0.0.1:%u/base/'%s}\n", i,
                          fake_server_port(target->server), more);
        } else {
            fg_buf_printf(&yaml, "- name: t%u\n  url: 'http://127.0.0.1:%u/base/'\n", i,
                          fake_server_port(target->server));
            put_oauth2(&yaml, fake_server_port(target->server), secret_file);
        }
    }
    fg_buf_putc(&yaml, '\0');
    must(ing_forward_targets_read((const char *)yaml.ptr, &f->settings, &err), &err);
    fg_buf_done(&yaml);
    forward = (struct ing_forward){f->settings->queues, f->settings->n};
    head_open_forwarding(&f->head, f->store, f->bucket, FG_MINUTE_NS, &forward);
}

/* more: keys of each target. */
static void open_with(struct fixture *f, unsigned n_targets, const char *more)
{
    open_all(f, n_targets, more, NULL);
}

static void start_by(struct fixture *f, struct fg_clock *clock)
{
    struct ing_sender_config config = {.common = ing_parcel_common(f->head.ingester),
                                       .targets = f->settings,
                                       .past = &f->past.past,
                                       .bodies = &f->bodies,
                                       .registry = f->registry,
                                       .clock = clock,
                                       .definition_cache_max = 1000,
                                       .collect_ns = 0};
    struct fg_err err;

    config.common.several = f->several;
    if (f->hold_ns != 0)
        config.common.hold_ns = f->hold_ns;
    f->sender = ing_sender_create(&config);
    must(ing_sender_start(f->sender, &err), &err);
}

static void start(struct fixture *f)
{
    start_by(f, fg_clock_real());
}

static void stop(struct fixture *f)
{
    ing_sender_stop(f->sender);
    ing_sender_destroy(fg_take(f->sender));
}

static void close_all(struct fixture *f)
{
    stop(f);
    for (unsigned i = 0; i < f->n_targets; i++) {
        fake_server_stop(f->targets[i].server);
        (void)pthread_cond_destroy(&f->targets[i].moved);
        (void)pthread_mutex_destroy(&f->targets[i].lock);
    }
    head_close(&f->head);
    ing_forward_targets_destroy(f->settings);
    fg_bucket_close(f->bucket);
    fg_store_close(f->store);
    fg_registry_destroy(f->registry);
    assert_int_equal(fg_budget_used(&f->bodies), 0);
}

static void push_of(struct fixture *f, const char *tenant, unsigned first, unsigned n)
{
    static const struct head_sample samples[] = {{"a;b", {1, 10}, 0}, {"a;c", {2, 20}, 0}};

    for (unsigned i = first; i < first + n; i++) {
        const struct head_profile profile = {.tenant = tenant,
                                             .service = "shop",
                                             .time_ns = start_ns + (int64_t)i * FG_SECOND_NS,
                                             .samples = samples,
                                             .n_samples = FG_COUNT(samples)};

        assert_int_equal(head_push(&f->head, &profile, true).stored, 1);
    }
}

static void push(struct fixture *f, unsigned first, unsigned n)
{
    push_of(f, "tenant", first, n);
}

static struct ing_outbox_numbers numbers(struct fixture *f, unsigned target)
{
    return ing_outbox_numbers(ing_outbox(f->head.ingester), target);
}

static void pause_a_little(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static void wait_done(struct fixture *f, unsigned target, uint64_t done)
{
    while (numbers(f, target).done < done)
        pause_a_little();
}

/* Waits until the page shows an error of the only target. */
static void wait_shown(struct fixture *f)
{
    struct fg_buf out;
    bool shown = false;

    fg_buf_init(&out, SIZE_MAX);
    while (!shown) {
        struct fg_json_writer json = fg_json_writer(&out);

        pause_a_little();
        fg_buf_clear(&out);
        fg_json_begin_array(&json, NULL);
        ing_sender_write(f->sender, &json);
        fg_json_end(&json);
        shown = fg_slice_search(fg_buf_slice(&out), "\"error\":\"\"") == SIZE_MAX;
    }
    fg_buf_done(&out);
}

/* Nothing is with the sender any more, and all waits. */
static void assert_waits(struct fixture *f, uint64_t profiles)
{
    assert_int_equal(numbers(f, 0).pending_profiles, profiles);
    assert_int_equal(numbers(f, 0).taken_profiles, 0);
}

/* ---- tests ---- */

static void everything_is_sent(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 1, "");
    push(&f, 0, 10); /* before the start */
    start(&f);
    wait_done(&f, 0, 10);
    push(&f, 10, 10); /* and after it */
    wait_done(&f, 0, 20);
    assert_int_equal(number_of(&f.targets[0], &f.targets[0].profiles), 20);
    assert_int_equal(number_of(&f.targets[0], &f.targets[0].pushes), 0);
    close_all(&f);
}

static void stop_without_work_and_without_start(void **state)
{
    struct fixture f;

    (void)state;
    ing_sender_stop(NULL);
    ing_sender_destroy(NULL);
    open_with(&f, 2, "");
    start(&f);
    close_all(&f);
}

static void stop_while_a_request_hangs_loses_nothing(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 1, "");
    set_hangs(&f.targets[0], true);
    push(&f, 0, 20);
    start(&f);
    wait_for(&f.targets[0], &f.targets[0].requests, 1);
    stop(&f);
    assert_waits(&f, 20);
    set_hangs(&f.targets[0], false);
    start(&f);
    wait_done(&f, 0, 20);
    close_all(&f);
}

/* The request for a token hangs, or its secret cannot be read. */
static void stop_while_there_is_no_token_loses_nothing(void **state)
{
    static const char *const secrets[] = {"/etc/hostname", "/nowhere/secret"};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(secrets); i++) {
        struct fixture f;

        open_all(&f, 1, "", secrets[i]);
        set_hangs(&f.targets[0], true);
        push(&f, 0, 10);
        start(&f);
        if (i == 0)
            wait_for(&f.targets[0], &f.targets[0].requests, 1);
        else
            while (!ing_sender_is_unread(f.sender, 0))
                pause_a_little();
        ing_sender_stop(f.sender);
        assert_waits(&f, 10);
        assert_int_equal(f.targets[0].profiles, 0);
        close_all(&f);
    }
}

/* The target has stored everything, or has made a token, and says so in vain. */
static void answer_without_memory_is_our_own_trouble(void **state)
{
    static const char *const secrets[] = {NULL, "/etc/hostname"};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(secrets); i++) {
        struct fixture f;

        open_all(&f, 1, "", secrets[i]);
        assert_true(fg_budget_take(&f.bodies, BODIES_BYTES));
        push(&f, 0, 10);
        start(&f);
        wait_shown(&f);
        assert_true(ing_sender_is_unread(f.sender, 0));
        stop(&f);
        assert_waits(&f, 10);
        fg_budget_give(&f.bodies, BODIES_BYTES);
        start(&f);
        wait_done(&f, 0, 10);
        close_all(&f);
    }
}

static void stop_while_paused_loses_nothing(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 1, "");
    set_status(&f.targets[0], 503, "Retry-After: 600\r\n");
    push(&f, 0, 20);
    start(&f);
    wait_for(&f.targets[0], &f.targets[0].requests, 1);
    while (numbers(&f, 0).taken_profiles > 0)
        pause_a_little();
    stop(&f);
    assert_waits(&f, 20);
    assert_int_equal(number_of(&f.targets[0], &f.targets[0].requests), 1);
    set_status(&f.targets[0], 200, "");
    start(&f);
    wait_done(&f, 0, 20);
    close_all(&f);
}

/* At any moment: while it builds, sends, or takes an answer. */
static void stop_at_any_moment_loses_nothing(void **state)
{
    enum { ROUNDS = 60 };
    struct fixture f;

    (void)state;
    open_with(&f, 1, ", connections: 4");
    for (unsigned i = 0; i < ROUNDS; i++) {
        push(&f, i * 4, 4);
        start(&f);
        (void)nanosleep(&(struct timespec){.tv_nsec = (int64_t)i * 50000}, NULL);
        stop(&f);
        assert_int_equal(numbers(&f, 0).dropped[OUTBOX_BY_REFUSED], 0);
    }
    start(&f);
    while (numbers(&f, 0).pending_profiles > 0)
        pause_a_little();
    assert_int_equal(numbers(&f, 0).done, ROUNDS * 4);
    assert_true(number_of(&f.targets[0], &f.targets[0].profiles) >= ROUNDS * 4);
    close_all(&f);
}

static void target_that_never_answers_slows_no_other(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 2, ", connections: 16");
    set_hangs(&f.targets[0], true);
    push(&f, 0, 10);
    start(&f);
    wait_for(&f.targets[0], &f.targets[0].requests, 1);
    for (unsigned i = 1; i <= 20; i++) {
        push(&f, i * 10, 10);
        wait_done(&f, 1, (uint64_t)i * 10);
    }
    assert_int_equal(numbers(&f, 0).done, 0);
    assert_int_equal(numbers(&f, 0).pending_profiles, 210);
    close_all(&f);
}

/* One page at a time is read: the targets take turns. */
static void resend_to_one_target_lets_that_to_another_go_on(void **state)
{
    enum { TENANTS = 40 };
    static char names[TENANTS][8];
    const char *tenants[TENANTS];
    struct past_profile profiles[TENANTS];
    struct ing_resend other;
    struct fixture f;
    struct fg_err err;

    (void)state;
    open_with(&f, 2, "");
    for (unsigned i = 0; i < TENANTS; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%02u", i);
        tenants[i] = names[i];
        profiles[i] = (struct past_profile){names[i], start_ns, NULL};
    }
    f.past.tenants = tenants;
    f.past.profiles = profiles;
    f.past.n_tenants = f.past.n = TENANTS;
    for (unsigned i = 0; i < 2; i++)
        must(ing_outbox_resend(ing_outbox(f.head.ingester), i, start_ns - FG_HOUR_NS,
                               start_ns + FG_HOUR_NS, &err),
             &err);
    start(&f);
    while (numbers(&f, 0).resend.state != RESEND_DONE)
        pause_a_little();
    other = numbers(&f, 1).resend;
    assert_in_range(other.sent, TENANTS - 2, TENANTS);
    while (numbers(&f, 1).resend.state != RESEND_DONE)
        pause_a_little();
    assert_int_equal(numbers(&f, 1).resend.sent, TENANTS);
    close_all(&f);
}

/* The first tenant is refused: the others are resent meanwhile, and it when it is taken again. */
static void resend_passes_a_tenant_that_the_target_refuses(void **state)
{
    static const char *const tenants[] = {"t0", "t1", "t2"};
    static const struct past_profile profiles[] = {
        {"t0", start_ns, NULL}, {"t1", start_ns, NULL}, {"t2", start_ns, NULL}};
    struct fixture f;
    struct fg_err err;

    (void)state;
    open_with(&f, 1, "");
    f.several = true;
    f.hold_ns = 50 * FG_MS_NS;
    f.targets[0].denied = "t0";
    f.past.tenants = tenants;
    f.past.profiles = profiles;
    f.past.n_tenants = f.past.n = FG_COUNT(tenants);
    must(ing_outbox_resend(ing_outbox(f.head.ingester), 0, start_ns - FG_HOUR_NS,
                           start_ns + FG_HOUR_NS, &err),
         &err);
    start(&f);
    wait_for(&f.targets[0], &f.targets[0].profiles, 2);
    wait_for(&f.targets[0], &f.targets[0].denials, 3); /* it is asked again when its hold ends */
    assert_int_equal(numbers(&f, 0).resend.state, RESEND_READS);
    (void)pthread_mutex_lock(&f.targets[0].lock);
    f.targets[0].denied = NULL;
    (void)pthread_mutex_unlock(&f.targets[0].lock);
    while (numbers(&f, 0).resend.state != RESEND_DONE)
        pause_a_little();
    assert_int_equal(numbers(&f, 0).resend.sent, 3);
    assert_int_equal(number_of(&f.targets[0], &f.targets[0].profiles), 3);
    close_all(&f);
}

static void target_that_fails_is_asked_until_it_answers(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 1, "");
    set_status(&f.targets[0], 500, "");
    push(&f, 0, 10);
    start(&f);
    wait_for(&f.targets[0], &f.targets[0].requests, 3);
    set_status(&f.targets[0], 200, "");
    wait_done(&f, 0, 10);
    close_all(&f);
}

/* A manual clock: nothing passes but what the test says. */
static void target_without_forward_is_asked_for_it_every_hour(void **state)
{
    struct target *target;
    struct fixture f;

    (void)state;
    open_with(&f, 1, "");
    target = &f.targets[0];
    target->lacks_forward = true;
    start_by(&f, &f.clock.clock);
    push(&f, 0, 1);
    wait_done(&f, 0, 1);
    assert_int_equal(number_of(target, &target->forwards), 1);
    assert_int_equal(number_of(target, &target->pushes), 1);
    fg_clock_manual_advance(&f.clock, FG_HOUR_NS - FG_SECOND_NS);
    push(&f, 1, 1);
    wait_done(&f, 0, 2);
    assert_int_equal(number_of(target, &target->forwards), 1);
    fg_clock_manual_advance(&f.clock, 2 * FG_SECOND_NS);
    push(&f, 2, 1);
    wait_done(&f, 0, 3); /* it still has none */
    assert_int_equal(number_of(target, &target->forwards), 2);
    assert_int_equal(number_of(target, &target->pushes), 3);
    (void)pthread_mutex_lock(&target->lock);
    target->lacks_forward = false;
    (void)pthread_mutex_unlock(&target->lock);
    fg_clock_manual_advance(&f.clock, FG_HOUR_NS + FG_SECOND_NS);
    push(&f, 3, 1);
    wait_done(&f, 0, 4);
    push(&f, 4, 1);
    wait_done(&f, 0, 5);
    assert_int_equal(number_of(target, &target->forwards), 4);
    assert_int_equal(number_of(target, &target->pushes), 3);
    close_all(&f);
}

/* A proxy whose server is away knows neither route: afterwards forward.v1 is used as before. */
static void target_that_knows_no_route_is_away(void **state)
{
    struct target *target;
    struct fixture f;

    (void)state;
    open_with(&f, 1, "");
    target = &f.targets[0];
    target->heals = true;
    set_status(target, 404, "");
    push(&f, 0, 5);
    start(&f);
    wait_done(&f, 0, 5);
    assert_int_equal(number_of(target, &target->profiles), 5);
    push(&f, 5, 5);
    wait_done(&f, 0, 10);
    assert_int_equal(number_of(target, &target->pushes), 1);
    assert_int_equal(numbers(&f, 0).dead, 0);
    close_all(&f);
}

static void set_denied(struct target *target, const char *tenant)
{
    (void)pthread_mutex_lock(&target->lock);
    target->denied = tenant;
    (void)pthread_mutex_unlock(&target->lock);
}

/* It is asked for once, and not again within the minute. */
static void tenant_that_is_refused_stops_no_other(void **state)
{
    struct target *target;
    struct fixture f;

    (void)state;
    open_with(&f, 1, "");
    f.several = true;
    target = &f.targets[0];
    set_denied(target, "b");
    push_of(&f, "a", 0, 5);
    push_of(&f, "b", 5, 5);
    start(&f);
    wait_done(&f, 0, 5);
    for (unsigned i = 1; i <= 10; i++) {
        push_of(&f, "b", 5 + i * 10, 5);
        push_of(&f, "a", 10 + i * 10, 5);
        wait_done(&f, 0, 5 + (uint64_t)i * 5);
    }
    stop(&f);
    assert_int_equal(number_of(target, &target->denials), 1);
    assert_int_equal(numbers(&f, 0).held_tenants, 1);
    while (numbers(&f, 0).pending_profiles > 55) /* reports are written later */
        pause_a_little();
    assert_waits(&f, 55);
    close_all(&f);
}

static void tenant_that_is_taken_again_is_caught_up(void **state)
{
    struct target *target;
    struct fixture f;

    (void)state;
    open_with(&f, 1, "");
    f.several = true;
    f.hold_ns = 20 * FG_MS_NS;
    target = &f.targets[0];
    set_denied(target, "b");
    push_of(&f, "a", 0, 5);
    push_of(&f, "b", 5, 5);
    start(&f);
    wait_for(target, &target->denials, 3); /* nobody but the hold wakes the sender */
    set_denied(target, NULL);
    wait_done(&f, 0, 10);
    assert_int_equal(number_of(target, &target->profiles), 10);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_sent),
        cmocka_unit_test(stop_without_work_and_without_start),
        cmocka_unit_test(stop_while_a_request_hangs_loses_nothing),
        cmocka_unit_test(stop_while_there_is_no_token_loses_nothing),
        cmocka_unit_test(answer_without_memory_is_our_own_trouble),
        cmocka_unit_test(stop_while_paused_loses_nothing),
        cmocka_unit_test(stop_at_any_moment_loses_nothing),
        cmocka_unit_test(target_that_never_answers_slows_no_other),
        cmocka_unit_test(resend_to_one_target_lets_that_to_another_go_on),
        cmocka_unit_test(resend_passes_a_tenant_that_the_target_refuses),
        cmocka_unit_test(target_that_fails_is_asked_until_it_answers),
        cmocka_unit_test(target_without_forward_is_asked_for_it_every_hour),
        cmocka_unit_test(target_that_knows_no_route_is_away),
        cmocka_unit_test(tenant_that_is_refused_stops_no_other),
        cmocka_unit_test(tenant_that_is_taken_again_is_caught_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
