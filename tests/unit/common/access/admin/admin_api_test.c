/* The HTTP interface for those who govern: who waits for whom. */
#include "common/access/admin/admin_api.h"
#include "common/net/guard.h"
#include "common/runtime/log.h"
#include "common/storage/bucket/impl.h"
#include "tests/lib/access_make.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/served.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORKERS = 2, QUEUE_MAX = 64, SEARCHES = 20, REQUEST_MAX_BYTES = 512 };

static const int64_t WALL_NS = INT64_C(1764194400) * FG_SECOND_NS;

/* A bucket that lists the audit only when it is told to. */
struct slow {
    struct fg_bucket bucket; /* that is to be used */
    struct fg_bucket *inner;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool released;
    unsigned lists; /* of the audit that were begun */
};

struct fixture {
    struct fg_clock_manual clock;
    struct fg_access_settings settings;
    char none[1];
    struct slow slow;
    struct fg_registry *metrics;
    struct fg_access *access;
    struct fg_admin_api api;
    struct served served;
    struct fg_arena *arena;
    struct access_make make;
    char admin[FG_TOKEN_CHARS + 1], of_a[FG_TOKEN_CHARS + 1], push[FG_TOKEN_CHARS + 1];
};

static void slow_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct slow *slow = fg_container(bucket, struct slow, bucket);

    if (request->verb == FG_BUCKET_LIST && strncmp(request->name, "audit/", 6) == 0) {
        (void)pthread_mutex_lock(&slow->lock);
        slow->lists++;
        (void)pthread_cond_broadcast(&slow->changed);
        while (!slow->released)
            (void)pthread_cond_wait(&slow->changed, &slow->lock);
        (void)pthread_mutex_unlock(&slow->lock);
    }
    slow->inner->ops->send(slow->inner, request);
}

static void slow_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct slow *slow = fg_container(bucket, struct slow, bucket);

    slow->inner->ops->cancel(slow->inner, request);
}

static void slow_close(struct fg_bucket *bucket)
{
    (void)bucket;
}

static void release(struct slow *slow)
{
    (void)pthread_mutex_lock(&slow->lock);
    slow->released = true;
    (void)pthread_cond_broadcast(&slow->changed);
    (void)pthread_mutex_unlock(&slow->lock);
}

static unsigned lists_begun(struct slow *slow)
{
    unsigned lists;

    (void)pthread_mutex_lock(&slow->lock);
    lists = slow->lists;
    (void)pthread_mutex_unlock(&slow->lock);
    return lists;
}

static void await_first_list(struct slow *slow)
{
    (void)pthread_mutex_lock(&slow->lock);
    while (slow->lists == 0)
        (void)pthread_cond_wait(&slow->changed, &slow->lock);
    (void)pthread_mutex_unlock(&slow->lock);
}

static void put_registry(struct fixture *f)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = FG_ACCESS_REGISTRY_NAME};
    struct fg_buf bytes;

    access_make_init(&f->make, f->arena, WALL_NS / FG_MS_NS);
    access_make_tenant(&f->make, "a", ACCESS__TENANT__STATE__ACTIVE);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "*",
                                             .scopes = FG_SCOPE_ADMIN | FG_SCOPE_TENANT_ADMIN,
                                             .seed = 1},
                      f->admin);
    access_make_token(
        &f->make,
        &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_TENANT_ADMIN, .seed = 2},
        f->of_a);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = 3},
                      f->push);
    f->make.message.generation = 1;
    fg_buf_init(&bytes, 1 << 20);
    access_make_object(&f->make.message, &bytes);
    put.content = fg_buf_slice(&bytes);
    assert_int_equal(fg_bucket_call(f->slow.inner, &put), FG_OK);
    fg_bucket_clear(&put);
    fg_buf_done(&bytes);
}

static int set_up(void **state)
{
    static const struct fg_bucket_ops ops = {slow_send, slow_cancel, slow_close};
    static const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = WORKERS, .queue_max = QUEUE_MAX}};
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    fg_clock_manual_init(&f->clock, WALL_NS);
    f->settings = (struct fg_access_settings){.mode = FG_ACCESS_TOKEN,
                                              .trusted_cidrs = f->none,
                                              .poll_ns = FG_HOUR_NS,
                                              .stale_max_ns = 24 * FG_HOUR_NS,
                                              .bootstrap_token_file = f->none,
                                              .copy = f->none,
                                              .failures_per_minute = 20};
    f->slow = (struct slow){.bucket.ops = &ops, .inner = fg_bucket_memory()};
    (void)pthread_mutex_init(&f->slow.lock, NULL);
    (void)pthread_cond_init(&f->slow.changed, NULL);
    f->arena = fg_arena_create(64 << 20);
    put_registry(f);
    f->metrics = fg_registry_create();
    fg_log_set_level(FG_LOG_ERROR);
    assert_int_equal(fg_access_create(&(struct fg_access_config){.settings = &f->settings,
                                                                 .listen = "0.0.0.0:4040",
                                                                 .clock = &f->clock.clock,
                                                                 .registry = f->metrics},
                                      &f->access, &err),
                     FG_OK);
    served_open_guarded(&f->served, lanes, fg_access_guard(f->access));
    f->api = (struct fg_admin_api){.access = f->access,
                                   .bucket = &f->slow.bucket,
                                   .work = f->served.work,
                                   .clock = &f->clock.clock};
    fg_admin_api_routes(&f->api, f->served.server);
    served_start(&f->served);
    assert_int_equal(fg_access_follow(f->access, &f->slow.bucket, &err), FG_OK);
    fg_access_refresh(f->access);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    release(&f->slow);
    served_stop(&f->served);
    served_close(&f->served);
    fg_access_destroy(f->access);
    fg_registry_destroy(f->metrics);
    (void)pthread_cond_destroy(&f->slow.changed);
    (void)pthread_mutex_destroy(&f->slow.lock);
    fg_bucket_close(f->slow.inner);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

static unsigned ask(struct fixture *f, const char *line, const char *token)
{
    char text[REQUEST_MAX_BYTES];

    (void)snprintf(text, sizeof text,
                   "%s HTTP/1.1\r\nAuthorization: Bearer %s\r\nX-Flamegrid-Action: test", line,
                   token);
    return served_ask(&f->served, text, strncmp(line, "POST", 4) == 0 ? "{}" : NULL);
}

static struct fg_lane_state lane(struct fixture *f)
{
    struct fg_lane_state lane;

    fg_work_state(f->served.work, FG_LANE_QUERY, &lane);
    return lane;
}

/* Sends searches of the last days, and returns when the lane has seen all of them. */
static void send_searches(struct fixture *f, int searches[], unsigned n, const char *token)
{
    const struct fg_lane_state before = lane(f);
    struct fg_lane_state now;
    char text[REQUEST_MAX_BYTES];

    (void)snprintf(text, sizeof text,
                   "GET /api/audit?from=now-20d HTTP/1.1\r\nAuthorization: Bearer %s", token);
    for (unsigned i = 0; i < n; i++)
        searches[i] = http_ask_send(fg_http_server_port(f->served.server), text, fg_bytes(NULL, 0));
    do {
        (void)usleep(1000);
        now = lane(f);
    } while (now.queued + now.running + now.refused <
             before.queued + before.running + before.refused + n);
    await_first_list(&f->slow);
}

static void a_revocation_does_not_wait_for_searches_of_a_tenant_admin(void **state)
{
    struct fixture *f = *state;
    int searches[SEARCHES];
    char path[64];
    unsigned found = 0, refused = 0;

    send_searches(f, searches, SEARCHES, f->of_a);
    assert_int_equal(lane(f).running, 1);
    (void)snprintf(path, sizeof path, "POST /api/tokens/%.*s:revoke", FG_TOKEN_ID_CHARS,
                   f->push + 4);
    assert_int_equal(ask(f, path, f->admin), 200);
    assert_int_equal(ask(f, "GET /api/tenants", f->of_a), 200);
    assert_int_equal(lists_begun(&f->slow), 1);
    release(&f->slow);
    for (unsigned i = 0; i < SEARCHES; i++) {
        unsigned status = http_ask_receive(searches[i], &f->served.answer);

        found += status == 200;
        refused += status == 429;
    }
    assert_int_equal(found + refused, SEARCHES);
    assert_in_range(found, 2, SEARCHES / 2);
}

/* An admin who searches, too, waits for one search of a tenant's admins at most. */
static void searches_of_others_have_room(void **state)
{
    struct fixture *f = *state;
    int searches[SEARCHES], own;

    send_searches(f, searches, SEARCHES, f->of_a);
    send_searches(f, &own, 1, f->admin);
    while (lane(f).running < 2)
        (void)usleep(1000);
    release(&f->slow);
    assert_int_equal(http_ask_receive(own, &f->served.answer), 200);
    for (unsigned i = 0; i < SEARCHES; i++)
        (void)http_ask_receive(searches[i], &f->served.answer);
}

static void a_search_ends_with_its_client(void **state)
{
    enum { N = 3 };
    struct fixture *f = *state;
    int searches[N];

    send_searches(f, searches, N, f->admin);
    for (unsigned i = 0; i < N; i++)
        (void)close(searches[i]);
    /* The loop has seen that before it takes another connection. */
    assert_int_equal(ask(f, "GET /api/tenants", f->of_a), 200);
    assert_int_equal(lists_begun(&f->slow), 1);
    release(&f->slow);
    while (lane(f).queued + lane(f).running > 0)
        (void)usleep(1000);
    assert_int_equal(lists_begun(&f->slow), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_revocation_does_not_wait_for_searches_of_a_tenant_admin),
        TEST(searches_of_others_have_room),
        TEST(a_search_ends_with_its_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
