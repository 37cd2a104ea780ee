#include "tests/unit/common/access/access_run.h"

#include "common/base/str.h"
#include "common/net/guard.h"
#include "common/runtime/log.h"
#include "tests/lib/remove_tree.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const struct fg_bucket_faults access_run_away = {.refuse_permille = 1000}, access_run_well = {0};

int access_run_set_up(void **state)
{
    struct access_run *f = fg_new(struct access_run);

    fg_clock_manual_init(&f->clock, WALL_MS * FG_MS_NS);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/fg_access_test_XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->copy, sizeof f->copy, "%s/copy", f->folder);
    (void)snprintf(f->token_file, sizeof f->token_file, "%s/token", f->folder);
    (void)snprintf(f->cidrs, sizeof f->cidrs, "127.0.0.0/8");
    f->settings = (struct fg_access_settings){.mode = FG_ACCESS_TOKEN,
                                              .trusted_cidrs = f->cidrs,
                                              .poll_ns = FG_HOUR_NS, /* the test looks */
                                              .stale_max_ns = 24 * FG_HOUR_NS,
                                              .bootstrap_token_file = f->token_file + 95,
                                              .copy = f->token_file + 95,
                                              .failures_per_minute = 20};
    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &access_run_well);
    bucket_hold_init(&f->hold, fg_bucket_faulty_bucket(f->faulty));
    f->arena = fg_arena_create(64 << 20);
    access_make_init(&f->make, f->arena, WALL_MS);
    access_make_tenant(&f->make, "a", ACCESS__TENANT__STATE__ACTIVE);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_PUSH, .seed = 1},
                      f->push);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_READ, .seed = 2},
                      f->read);
    fg_log_set_level(FG_LOG_ERROR);
    *state = f;
    return 0;
}

uint64_t access_run_metric(struct access_run *f, const char *name)
{
    struct fg_buf text;
    const char *at;
    uint64_t value = 0;
    char line[128];

    (void)snprintf(line, sizeof line, "\n%s ", name);
    fg_buf_init(&text, 1 << 20);
    fg_registry_write(f->metrics, &text);
    fg_buf_putc(&text, '\0');
    at = strstr((const char *)text.ptr, line);
    assert_non_null(at);
    at += strlen(line);
    assert_true(fg_parse_u64(fg_bytes(at, strcspn(at, "\n")), &value));
    fg_buf_done(&text);
    return value;
}

const char *access_run_conditions(struct access_run *f)
{
    static char text[2048];
    struct fg_buf out;

    fg_buf_init(&out, sizeof text - 1);
    fg_conditions_write(f->conditions, &out);
    (void)snprintf(text, sizeof text, "%.*s", FG_S(fg_buf_slice(&out)));
    fg_buf_done(&out);
    return text;
}

/* ---- a server with it ---- */

static void answer(struct fg_http_request *req, void *arg)
{
    struct fg_slice tenant;
    struct fg_buf body;
    struct fg_err err;

    (void)arg;
    if (fg_access_tenant(req, true, &tenant, &err) != FG_OK) {
        fg_http_respond_error(req, &err);
        return;
    }
    fg_buf_init(&body, 1024);
    fg_buf_put(&body, tenant);
    fg_http_respond(req, 200, "text/plain", &body);
}

void access_run_await_looks(struct access_run *f, uint64_t n)
{
    while (fg_bucket_faulty_count(f->faulty) < n)
        (void)usleep(1000);
}

void access_run_create(struct access_run *f)
{
    f->metrics = fg_registry_create();
    f->conditions = fg_conditions_create(f->metrics);

    const struct fg_access_config config = {.settings = &f->settings,
                                            .listen = "0.0.0.0:4040",
                                            .clock = &f->clock.clock,
                                            .registry = f->metrics,
                                            .conditions = f->conditions};
    struct fg_err err;

    assert_int_equal(fg_access_create(&config, &f->access, &err), FG_OK);
}

void access_run_serve(struct access_run *f)
{
    static const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 1, .queue_max = 16}};
    static const struct {
        const char *path;
        unsigned scopes;
    } routes[] = {{"/push", FG_SCOPE_PUSH}, {"/read", FG_SCOPE_READ}, {"/known", FG_SCOPE_KNOWN}};
    struct fg_err err;

    served_open_guarded(&f->served, lanes, fg_access_guard(f->access));
    for (size_t i = 0; i < FG_COUNT(routes); i++)
        fg_http_server_route(f->served.server, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                                       .path = routes[i].path,
                                                                       .handler = answer,
                                                                       .kind = FG_HTTP_READS,
                                                                       .scopes = routes[i].scopes});
    served_start(&f->served);
    assert_int_equal(fg_access_follow(f->access, &f->hold.bucket, &err), FG_OK);
}

void access_run_start(struct access_run *f)
{
    uint64_t before = fg_bucket_faulty_count(f->faulty);

    access_run_create(f);
    access_run_serve(f);
    access_run_await_looks(f, before + 1);
    /* The look goes on behind the request: a registry, or a failure that is counted. */
    for (;;) {
        struct fg_access_registry *known = fg_access_registry(f->access);

        fg_access_registry_unref(known);
        if (known != NULL ||
            access_run_metric(f, "flamegrid_access_registry_read_failures_total") > 0)
            return;
        (void)usleep(1000);
    }
}

void access_run_stop(struct access_run *f)
{
    if (f->access != NULL) {
        served_stop(&f->served);
        served_close(&f->served);
    }
    fg_access_destroy(f->access);
    f->access = NULL;
    fg_conditions_destroy(f->conditions);
    fg_registry_destroy(f->metrics);
    f->conditions = NULL;
    f->metrics = NULL;
}

static void *unfollow(void *arg)
{
    fg_access_unfollow(arg);
    return NULL;
}

void access_run_unfollow_held(struct access_run *f)
{
    pthread_t stopping;

    assert_int_equal(pthread_create(&stopping, NULL, unfollow, f->access), 0);
    assert_true(bucket_hold_await_cancel(&f->hold));
    (void)pthread_join(stopping, NULL);
}

int access_run_tear_down(void **state)
{
    struct access_run *f = *state;

    access_run_stop(f);
    bucket_hold_done(&f->hold);
    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
    fg_arena_destroy(f->arena);
    (void)remove_tree(f->folder);
    free(f);
    return 0;
}

unsigned access_run_ask(struct access_run *f, const char *path, const char *token)
{
    char text[256];

    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nAuthorization: Bearer %s", path, token);
    return served_ask(&f->served, text, NULL);
}

void access_run_put_bytes(struct access_run *f, struct fg_slice bytes)
{
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT, .name = FG_ACCESS_REGISTRY_NAME, .content = bytes};

    assert_int_equal(fg_bucket_call(f->memory, &put), FG_OK);
    fg_bucket_clear(&put);
}

void access_run_lose(struct access_run *f)
{
    struct fg_bucket_request gone = {.verb = FG_BUCKET_DELETE, .name = FG_ACCESS_REGISTRY_NAME};

    assert_int_equal(fg_bucket_call(f->memory, &gone), FG_OK);
    fg_bucket_clear(&gone);
}

uint64_t access_run_stored_generation(struct access_run *f)
{
    struct fg_access_registry *registry = NULL;
    struct fg_err err;
    uint64_t generation;

    assert_int_equal(fg_access_read(f->memory, INT64_MAX, &registry, &err), FG_OK);
    generation = registry->message->generation;
    fg_access_registry_unref(registry);
    return generation;
}

void access_run_put(struct access_run *f)
{
    struct fg_buf bytes;

    f->make.message.generation++;
    fg_buf_init(&bytes, 32 << 20);
    access_make_object(&f->make.message, &bytes);
    access_run_put_bytes(f, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}
