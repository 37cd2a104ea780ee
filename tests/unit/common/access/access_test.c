/*
 * Access of a process: what it makes of the registry in the bucket, whatever happens to that, and
 * what the guard then says to requests. Time is the test's.
 */
#include "common/access/access.h"
#include "common/base/str.h"
#include "common/net/guard.h"
#include "common/runtime/log.h"
#include "tests/lib/access_make.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/bucket_hold.h"
#include "tests/lib/remove_tree.h"
#include "tests/lib/served.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WALL_MS = 1700000000 };

struct fixture {
    struct fg_clock_manual clock;
    struct fg_access_settings settings;
    char folder[64], copy[96], token_file[96], cidrs[64];
    struct fg_registry *metrics;
    struct fg_conditions *conditions;
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty; /* in front of that */
    struct bucket_hold hold;         /* in front of both */
    struct fg_access *access;
    struct served served;
    struct fg_arena *arena;
    struct access_make make;
    char push[FG_TOKEN_CHARS + 1], read[FG_TOKEN_CHARS + 1], admin[FG_TOKEN_CHARS + 1];
};

static const struct fg_bucket_faults away = {.refuse_permille = 1000}, well = {0};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

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
    f->faulty = fg_bucket_faulty_create(f->memory, &well);
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

static uint64_t metric(struct fixture *f, const char *name)
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

static const char *conditions(struct fixture *f)
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

/* Waits until the thread has looked at the bucket so often in all. */
static void await_looks(struct fixture *f, uint64_t n)
{
    while (fg_bucket_faulty_count(f->faulty) < n)
        (void)usleep(1000);
}

static void create(struct fixture *f)
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

static void serve(struct fixture *f)
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

/* With the first look done, whatever came of it. The next ones are the test's, unless a request
 * wakes the thread. */
static void start(struct fixture *f)
{
    uint64_t before = fg_bucket_faulty_count(f->faulty);

    create(f);
    serve(f);
    await_looks(f, before + 1);
    /* The look goes on behind the request: a registry, or a failure that is counted. */
    for (;;) {
        struct fg_access_registry *known = fg_access_registry(f->access);

        fg_access_registry_unref(known);
        if (known != NULL || metric(f, "flamegrid_access_registry_read_failures_total") > 0)
            return;
        (void)usleep(1000);
    }
}

/* Also its metrics and conditions are gone. */
static void stop(struct fixture *f)
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

static int tear_down(void **state)
{
    struct fixture *f = *state;

    stop(f);
    bucket_hold_done(&f->hold);
    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
    fg_arena_destroy(f->arena);
    (void)remove_tree(f->folder);
    free(f);
    return 0;
}

static unsigned ask(struct fixture *f, const char *path, const char *token)
{
    char text[256];

    (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nAuthorization: Bearer %s", path, token);
    return served_ask(&f->served, text, NULL);
}

static void put_bytes(struct fixture *f, struct fg_slice bytes)
{
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT, .name = FG_ACCESS_REGISTRY_NAME, .content = bytes};

    assert_int_equal(fg_bucket_call(f->memory, &put), FG_OK);
    fg_bucket_clear(&put);
}

/* Removes the registry from the bucket. */
static void lose(struct fixture *f)
{
    struct fg_bucket_request gone = {.verb = FG_BUCKET_DELETE, .name = FG_ACCESS_REGISTRY_NAME};

    assert_int_equal(fg_bucket_call(f->memory, &gone), FG_OK);
    fg_bucket_clear(&gone);
}

/* Returns the generation of the registry in the bucket; 0: there is none. */
static uint64_t stored_generation(struct fixture *f)
{
    struct fg_access_registry *registry = NULL;
    struct fg_err err;
    uint64_t generation;

    assert_int_equal(fg_access_read(f->memory, INT64_MAX, &registry, &err), FG_OK);
    generation = registry->message->generation;
    fg_access_registry_unref(registry);
    return generation;
}

static void put(struct fixture *f)
{
    struct fg_buf bytes;

    f->make.message.generation++;
    fg_buf_init(&bytes, 32 << 20);
    access_make_object(&f->make.message, &bytes);
    put_bytes(f, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

/* ---- the registry's life ---- */

static void *unfollow(void *arg)
{
    fg_access_unfollow(arg);
    return NULL;
}

static void nothing_is_decided_before_the_registry_was_read(void **state)
{
    struct fixture *f = *state;
    struct fg_buf why;
    pthread_t stopping;

    put(f);
    bucket_hold_next(&f->hold, FG_BUCKET_GET, "access/");
    create(f);
    serve(f);
    bucket_hold_await(&f->hold);
    fg_buf_init(&why, 1024);
    assert_true(fg_access_is_unready(f->access, &why));
    assert_int_equal(ask(f, "/push", f->push), 503);
    assert_int_equal(ask(f, "/read", f->read), 503);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1", NULL), 503);
    /* The end cancels the read, and does not wait for its time to be over. */
    assert_int_equal(pthread_create(&stopping, NULL, unfollow, f->access), 0);
    assert_true(bucket_hold_await_cancel(&f->hold));
    (void)pthread_join(stopping, NULL);
    fg_buf_done(&why);
}

static void without_a_registry_nobody_is_known(void **state)
{
    struct fixture *f = *state;
    struct fg_buf why;

    start(f);
    fg_buf_init(&why, 1024);
    assert_false(fg_access_is_unready(f->access, &why));
    fg_buf_done(&why);
    assert_int_equal(ask(f, "/read", f->read), 401);
    assert_string_equal(conditions(f), "");
}

static void a_change_in_the_bucket_counts_after_the_next_look(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    start(f);
    put(f);
    assert_int_equal(ask(f, "/read", f->read), 401);
    fg_access_look(f->access);
    assert_int_equal(ask(f, "/read", f->read), 200);
    assert_string_equal(http_ask_body(&f->served.answer), "a");
    assert_int_equal(ask(f, "/push", f->read), 403);
    assert_int_equal(ask(f, "/push", f->push), 200);
    assert_int_equal(ask(f, "/known", f->push), 200);
    assert_int_equal(metric(f, "flamegrid_access_registry_generation"), 1);
    assert_int_equal(metric(f, "flamegrid_access_tokens"), 2);
    assert_int_equal(metric(f, "flamegrid_access_tenants"), 1);
    assert_int_equal(
        fg_access_revoke_token(&f->make.change, fg_bytes(f->read + 4, FG_TOKEN_ID_CHARS), &err),
        FG_OK);
    put(f);
    assert_int_equal(ask(f, "/read", f->read), 200);
    fg_access_look(f->access);
    assert_int_equal(ask(f, "/read", f->read), 401);
    assert_int_equal(ask(f, "/push", f->push), 200);
    assert_int_equal(fg_access_set_tenant_state(&f->make.change, FG_LIT("a"),
                                                ACCESS__TENANT__STATE__SUSPENDED, &err),
                     FG_OK);
    put(f);
    fg_access_look(f->access);
    assert_int_equal(ask(f, "/push", f->push), 403);
}

static void a_damaged_registry_is_not_used(void **state)
{
    struct fixture *f = *state;
    struct fg_buf bytes;

    put(f);
    start(f);
    fg_buf_init(&bytes, 1 << 20);
    access_make_object(&f->make.message, &bytes);
    const struct {
        const char *name;
        struct fg_slice bytes;
    } damaged[] = {
        {"empty", FG_LIT("")},
        {"three bytes", FG_LIT("abc")},
        {"only a checksum", FG_LIT("\0\0\0\1")},
        {"cut", fg_slice_sub(fg_buf_slice(&bytes), 0, bytes.len - 1)},
        {"no registry", FG_LIT("<html><body>Bad gateway</body></html>")},
    };

    for (size_t i = 0; i < FG_COUNT(damaged); i++) {
        print_message("  %s\n", damaged[i].name);
        put_bytes(f, damaged[i].bytes);
        fg_access_look(f->access);
        assert_int_equal(ask(f, "/read", f->read), 200);
        assert_non_null(strstr(conditions(f), "access_registry_damaged: "));
        assert_int_equal(metric(f, "flamegrid_access_registry_read_failures_total"), i + 1);
        put(f);
        fg_access_look(f->access);
        assert_string_equal(conditions(f), "");
    }
    fg_buf_done(&bytes);
}

/* It may have the token, and an agent drops what gets a 401. */
static void a_new_token_is_not_refused_by_a_damaged_registry(void **state)
{
    struct fixture *f = *state;
    char fresh[FG_TOKEN_CHARS + 1];

    put(f);
    start(f);
    put_bytes(f, FG_LIT("abc"));
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_READ, .seed = 5},
                      fresh);
    for (unsigned i = 0; i < 3; i++) {
        fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
        fg_access_look(f->access);
        assert_int_equal(ask(f, "/read", fresh), 503);
    }
    put(f);
    fg_access_look(f->access);
    assert_int_equal(ask(f, "/read", fresh), 200);
}

/* Somebody cleaned up, or mounted another bucket: agents would drop their profiles. */
static void a_registry_that_is_gone_is_still_used(void **state)
{
    struct fixture *f = *state;

    put(f);
    start(f);
    lose(f);
    fg_access_look(f->access);
    assert_int_equal(ask(f, "/read", f->read), 200);
    assert_non_null(strstr(conditions(f), "access/registry is gone from the bucket"));
    put(f);
    fg_access_look(f->access);
    assert_string_equal(conditions(f), "");
}

/* A backup, or what began where the registry was lost: it lacks tokens that agents have. */
static void an_older_registry_is_not_used(void **state)
{
    struct fixture *f = *state;
    char fresh[FG_TOKEN_CHARS + 1];

    put(f);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_READ, .seed = 5},
                      fresh);
    put(f);
    start(f);
    assert_int_equal(ask(f, "/read", fresh), 200);
    f->make.message.n_tokens--;
    f->make.message.generation = 0;
    for (unsigned i = 0; i < 3; i++) {
        lose(f); /* the new one may come before this process has noticed that there is none */
        if (i > 0)
            fg_access_look(f->access);
        f->make.message.generation = 0;
        put(f);
        fg_access_look(f->access);
        assert_int_equal(ask(f, "/read", fresh), 200);
        assert_non_null(strstr(conditions(f), "access_registry_damaged: "));
        assert_non_null(strstr(conditions(f), "older than the known one"));
        assert_int_equal(metric(f, "flamegrid_access_registry_generation"), 2);
    }
    /* Somebody restarts on purpose. */
    stop(f);
    start(f);
    assert_string_equal(conditions(f), "");
    assert_int_equal(ask(f, "/read", f->read), 200);
    assert_int_not_equal(ask(f, "/read", fresh), 200);
}

/* The copy is the only one that is left, and whoever repairs the bucket needs it. */
static void a_lost_registry_is_known_from_the_copy(void **state)
{
    struct fixture *f = *state;

    f->settings.copy = f->copy;
    put(f);
    put(f);
    start(f);
    assert_int_equal(ask(f, "/read", f->read), 200);
    stop(f);
    for (unsigned round = 0; round < 2; round++) {
        lose(f);
        if (round == 1) { /* an older one */
            f->make.message.generation = 0;
            put(f);
        }
        for (unsigned i = 0; i < 2; i++) {
            start(f);
            fg_access_look(f->access);
            assert_int_equal(ask(f, "/read", f->read), 200);
            assert_int_equal(metric(f, "flamegrid_access_registry_generation"), 2);
            assert_non_null(strstr(conditions(f), "access_registry_damaged: "));
            stop(f);
        }
    }
    /* Without the copy the one in the bucket counts, on purpose. */
    assert_int_equal(remove_tree(f->copy), 0);
    start(f);
    assert_string_equal(conditions(f), "");
    assert_int_equal(metric(f, "flamegrid_access_registry_generation"), 1);
}

static void a_bucket_that_is_away_stops_queries_after_a_day_and_no_pushes(void **state)
{
    struct fixture *f = *state;

    put(f);
    start(f);
    fg_bucket_faulty_set(f->faulty, &away);
    fg_clock_manual_advance(&f->clock, 59 * FG_SECOND_NS);
    fg_access_look(f->access);
    assert_string_equal(conditions(f), "");
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    fg_access_look(f->access);
    assert_non_null(strstr(conditions(f), "access_registry_away: "));
    assert_int_equal(ask(f, "/read", f->read), 200);
    assert_int_equal(ask(f, "/push", f->push), 200);
    fg_clock_manual_advance(&f->clock, 23 * FG_HOUR_NS);
    fg_access_look(f->access);
    assert_int_equal(ask(f, "/read", f->read), 503);
    assert_int_equal(ask(f, "/known", f->read), 503);
    assert_int_equal(ask(f, "/push", f->push), 200);
    assert_int_equal(ask(f, "/push", f->read), 403); /* still decided */
    fg_bucket_faulty_set(f->faulty, &well);
    fg_access_look(f->access);
    assert_string_equal(conditions(f), "");
    assert_int_equal(ask(f, "/read", f->read), 200);
}

/* ---- the copy ---- */

static void a_restart_without_the_bucket_uses_the_copy(void **state)
{
    struct fixture *f = *state;
    char path[128];
    FILE *file;

    f->settings.copy = f->copy;
    put(f);
    start(f);
    assert_int_equal(ask(f, "/read", f->read), 200);
    stop(f);
    fg_bucket_faulty_set(f->faulty, &away);
    start(f);
    while (ask(f, "/push", f->push) == 503)
        (void)usleep(1000);
    assert_int_equal(ask(f, "/read", f->read), 200);
    assert_int_equal(metric(f, "flamegrid_access_registry_generation"), 1);
    /* What the bucket says replaces it. */
    f->make.message.tokens[1]->revoked_ms = 1;
    put(f);
    fg_bucket_faulty_set(f->faulty, &well);
    fg_access_look(f->access);
    assert_int_equal(ask(f, "/read", f->read), 401);
    stop(f);
    /* A damaged one is none. */
    (void)snprintf(path, sizeof path, "%s/objects/access/registry", f->copy);
    file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    fg_bucket_faulty_set(f->faulty, &away);
    start(f);
    assert_int_equal(ask(f, "/push", f->push), 503);
}

/* ---- the first token ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static enum fg_code state_of_admin(struct fixture *f)
{
    struct fg_access_registry *registry = fg_access_registry(f->access);
    const Access__Token *token =
        fg_access_find_token(registry, fg_bytes(f->admin + 4, FG_TOKEN_ID_CHARS), NULL);
    bool good = token != NULL && token->scopes == (FG_SCOPE_ADMIN | FG_SCOPE_TENANT_ADMIN);

    fg_access_registry_unref(registry);
    return good ? FG_OK : FG_E_NOT_FOUND;
}

static void a_token_in_a_file_is_the_admin_until_there_is_one(void **state)
{
    struct fixture *f = *state;
    char with_line_end[FG_TOKEN_CHARS + 2], other[FG_TOKEN_CHARS + 1];

    (void)access_make_secret(3, NULL, f->admin);
    f->settings.bootstrap_token_file = f->token_file;
    start(f);
    assert_int_equal(state_of_admin(f), FG_E_NOT_FOUND); /* there is no file yet */
    write_file(f->token_file, "fgt_mistyped");
    fg_access_look(f->access);
    assert_int_equal(state_of_admin(f), FG_E_NOT_FOUND);
    (void)snprintf(with_line_end, sizeof with_line_end, "%s\n", f->admin);
    write_file(f->token_file, with_line_end);
    fg_access_look(f->access);
    assert_int_equal(state_of_admin(f), FG_OK);
    assert_int_equal(ask(f, "/read", f->admin), 403); /* it is known, and does not read */
    /* A registry without an admin changes nothing. */
    put(f);
    fg_access_look(f->access);
    assert_int_equal(state_of_admin(f), FG_OK);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "*", .scopes = FG_SCOPE_ADMIN, .seed = 9},
                      other);
    put(f);
    fg_access_look(f->access);
    assert_int_equal(state_of_admin(f), FG_E_NOT_FOUND);
    assert_int_equal(ask(f, "/known", f->admin), 401);
}

/* ---- strangers ---- */

static void wait_for_looks(struct fixture *f, uint64_t n)
{
    await_looks(f, n);
    while (ask(f, "/known", f->read) == 503) /* behind the request the look goes on */
        (void)usleep(1000);
}

/* It may be new, and agents drop what gets a 401. */
static void an_unknown_token_is_asked_to_come_again_once(void **state)
{
    struct fixture *f = *state;
    char stranger[FG_TOKEN_CHARS + 1], other[FG_TOKEN_CHARS + 1];
    uint64_t looks;

    (void)access_make_secret(77, NULL, stranger);
    (void)access_make_secret(78, NULL, other);
    put(f);
    start(f);
    looks = fg_bucket_faulty_count(f->faulty);
    assert_int_equal(ask(f, "/read", other), 401); /* the bucket was just read */
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(ask(f, "/read", "nonsense"), 401);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
    assert_int_equal(ask(f, "/read", stranger), 503);
    wait_for_looks(f, looks + 1);
    while (ask(f, "/read", stranger) == 503)
        (void)usleep(1000);
    assert_int_equal(ask(f, "/read", stranger), 401);
    /* From then on it is no news, however long ago the last look was. */
    looks = fg_bucket_faulty_count(f->faulty);
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    assert_int_equal(ask(f, "/read", stranger), 401);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
}

/* Its token lists a tenant that is made only then. */
static void a_new_tenant_is_asked_to_come_again_once(void **state)
{
    struct fixture *f = *state;
    char early[FG_TOKEN_CHARS + 1];

    access_make_token(&f->make,
                      &(struct access_token){.tenants = "soon", .scopes = FG_SCOPE_PUSH, .seed = 5},
                      early);
    put(f);
    start(f);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    access_make_tenant(&f->make, "soon", ACCESS__TENANT__STATE__ACTIVE);
    put(f);
    assert_int_equal(ask(f, "/push", early), 503);
    while (ask(f, "/push", early) == 503)
        (void)usleep(1000);
    assert_int_equal(ask(f, "/push", early), 200);
}

static void a_tenant_that_does_not_exist_is_refused_after_a_read(void **state)
{
    struct fixture *f = *state;
    char never[FG_TOKEN_CHARS + 1];
    uint64_t looks;

    access_make_token(
        &f->make, &(struct access_token){.tenants = "never", .scopes = FG_SCOPE_PUSH, .seed = 5},
        never);
    put(f);
    start(f);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(ask(f, "/push", never), 503);
    while (ask(f, "/push", never) == 503)
        (void)usleep(1000);
    assert_int_equal(ask(f, "/push", never), 403);
    looks = fg_bucket_faulty_count(f->faulty);
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    assert_int_equal(ask(f, "/push", never), 403);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
}

/* Asks until the registry has been read, which happens at the same time. */
static unsigned ask_when_read(struct fixture *f, const char *token)
{
    unsigned status;

    while ((status = ask(f, "/read", token)) == 503)
        ;
    return status;
}

static void a_new_token_and_a_new_secret_work_as_soon_as_they_are_used(void **state)
{
    struct fixture *f = *state;
    char fresh[FG_TOKEN_CHARS + 1], rotated[FG_TOKEN_CHARS + 1], id[FG_TOKEN_ID_CHARS + 1];
    struct fg_token secret;
    struct fg_err err;

    put(f);
    start(f);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_READ, .seed = 5},
                      fresh);
    put(f);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(ask(f, "/read", fresh), 503);
    assert_int_equal(ask_when_read(f, fresh), 200);
    (void)snprintf(id, sizeof id, "%.8s", f->read + 4);
    /* Many, since a request may take the registry just before it is replaced. */
    for (uint32_t round = 0; round < 100; round++) {
        secret = access_make_secret(6 + round, id, rotated);
        assert_int_equal(
            fg_access_rotate_token(&f->make.change, fg_cstr(id), secret.hash, 1000, &err), FG_OK);
        put(f);
        fg_clock_manual_advance(&f->clock, 8 * FG_SECOND_NS); /* or these were too many failures */
        assert_int_equal(ask_when_read(f, rotated), 200);
    }
}

/* What is certainly over is said at once, and costs no read. */
static void a_revoked_token_is_refused_at_once(void **state)
{
    struct fixture *f = *state;
    uint64_t looks;

    f->make.message.tokens[1]->revoked_ms = 1;
    put(f);
    start(f);
    looks = fg_bucket_faulty_count(f->faulty);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(ask(f, "/read", f->read), 401);
    assert_int_equal(fg_bucket_faulty_count(f->faulty), looks);
}

/* A stranger cannot make a process ask a bucket that has trouble again and again. */
static void strangers_make_it_look_once_a_second_at_most(void **state)
{
    struct fixture *f = *state;
    char stranger[FG_TOKEN_CHARS + 1];
    uint64_t looks;

    (void)access_make_secret(77, NULL, stranger);
    put(f);
    start(f);
    fg_bucket_faulty_set(f->faulty, &away);
    looks = fg_bucket_faulty_count(f->faulty);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    assert_int_equal(ask(f, "/read", stranger), 503);
    await_looks(f, looks + 1);
    while (metric(f, "flamegrid_access_registry_read_failures_total") == 0)
        (void)usleep(1000);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(ask(f, "/read", stranger), 503);
    /* One more: a request while the look was under way may have asked for another. */
    assert_true(fg_bucket_faulty_count(f->faulty) <= looks + 2);
}

static void too_many_wrong_ones_lock_only_wrong_ones(void **state)
{
    struct fixture *f = *state;

    put(f);
    start(f);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(ask(f, "/read", "nonsense"), 401);
    assert_int_equal(ask(f, "/read", "nonsense"), 429);
    assert_non_null(strstr(http_ask_body(&f->served.answer), "access.failures_per_minute"));
    assert_int_equal(ask(f, "/read", f->read), 200);
    /* A person without any begins to log in. */
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1", NULL), 401);
    fg_clock_manual_advance(&f->clock, 4 * FG_SECOND_NS);
    assert_int_equal(ask(f, "/read", "nonsense"), 401);
    assert_int_equal(metric(f, "flamegrid_access_refused_total{reason=\"bad_credentials\"}"), 21);
    assert_int_equal(metric(f, "flamegrid_access_refused_total{reason=\"too_many_failures\"}"), 1);
    assert_int_equal(metric(f, "flamegrid_access_refused_total{reason=\"no_credentials\"}"), 1);
    assert_int_equal(ask(f, "/push", f->read), 403);
    assert_int_equal(metric(f, "flamegrid_access_refused_total{reason=\"no_scope\"}"), 1);
}

/* Not everybody can be new: the first use of each unknown token is an attempt of its address. */
static void ever_new_strangers_are_wrong_ones(void **state)
{
    struct fixture *f = *state;
    char stranger[FG_TOKEN_CHARS + 1];

    (void)access_make_secret(77, NULL, stranger);
    put(f);
    start(f);
    fg_bucket_faulty_set(f->faulty, &away);
    fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
    for (unsigned i = 0; i < 100; i++) /* one of them may come as often as it likes */
        assert_int_equal(ask(f, "/read", stranger), 503);
    for (unsigned i = 1; i < 20; i++) {
        (void)access_make_secret(100 + i, NULL, stranger);
        assert_int_equal(ask(f, "/read", stranger), 503);
    }
    (void)access_make_secret(200, NULL, stranger);
    assert_int_equal(ask(f, "/read", stranger), 429);
    assert_int_equal(ask(f, "/read", f->read), 200);
}

/* ---- modes ---- */

static enum fg_code try_mode(struct fixture *f, unsigned mode, const char *listen,
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
    struct fixture *f = *state;
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
    struct fixture *f = *state;

    f->settings.mode = FG_ACCESS_HEADER;
    put(f);
    start(f);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1\r\nX-Scope-OrgID: zoo", NULL), 200);
    assert_string_equal(http_ask_body(&f->served.answer), "zoo");
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1", NULL), 401);
    stop(f);
    (void)snprintf(f->cidrs, sizeof f->cidrs, "10.0.0.0/8");
    start(f);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1\r\nX-Scope-OrgID: zoo", NULL), 401);
    /* Tokens are not asked for, so they prove nothing either. */
    assert_int_equal(ask(f, "/read", f->read), 401);
}

/* The bucket does not answer yet, so there is no registry. */
static void the_mode_header_refuses_strangers_from_the_first_moment(void **state)
{
    struct fixture *f = *state;
    pthread_t stopping;

    f->settings.mode = FG_ACCESS_HEADER;
    (void)snprintf(f->cidrs, sizeof f->cidrs, "10.0.0.0/8");
    bucket_hold_next(&f->hold, FG_BUCKET_GET, "access/");
    create(f);
    serve(f);
    bucket_hold_await(&f->hold);
    assert_int_equal(served_ask(&f->served, "GET /known HTTP/1.1\r\nX-Scope-OrgID: zoo", NULL),
                     401);
    assert_int_equal(ask(f, "/read", f->read), 401);
    assert_int_equal(pthread_create(&stopping, NULL, unfollow, f->access), 0);
    assert_true(bucket_hold_await_cancel(&f->hold));
    (void)pthread_join(stopping, NULL);
}

static void without_a_mode_a_suspended_tenant_is_refused_too(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    f->settings.mode = FG_ACCESS_NONE;
    assert_int_equal(fg_access_set_tenant_state(&f->make.change, FG_LIT("a"),
                                                ACCESS__TENANT__STATE__SUSPENDED, &err),
                     FG_OK);
    put(f);
    start(f);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1\r\nX-Scope-OrgID: a", NULL), 403);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1\r\nX-Scope-OrgID: b", NULL), 200);
}

/* ---- writers ---- */

struct writer {
    struct fg_bucket *bucket;
    const char *prefix;
    unsigned n, aborted;
};

static enum fg_code add_tenant(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    return fg_access_create_tenant(change, fg_cstr(arg), err);
}

/* By a writer that has read the registry of that generation. */
static enum fg_code swap_known(struct fg_bucket *bucket, uint64_t known, char *id,
                               struct fg_err *err)
{
    return fg_access_swap(
        &(struct fg_access_writer){.bucket = bucket,
                                   .by = "test",
                                   .now_ms = WALL_MS,
                                   .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS,
                                   .known = known},
        add_tenant, id, err);
}

static enum fg_code swap(struct fg_bucket *bucket, char *id, struct fg_err *err)
{
    return swap_known(bucket, 0, id, err);
}

static void *write_tenants(void *arg)
{
    struct writer *writer = arg;
    struct fg_err err;
    char id[32];

    for (unsigned i = 0; i < writer->n; i++) {
        (void)snprintf(id, sizeof id, "%s-%u", writer->prefix, i);
        while (swap(writer->bucket, id, &err) != FG_OK) {
            assert_int_equal(err.code, FG_E_ABORTED); /* others were faster again and again */
            writer->aborted++;
        }
    }
    return NULL;
}

static void writers_at_the_same_time_lose_no_change(void **state)
{
    struct fixture *f = *state;
    struct writer writers[3] = {
        {f->memory, "x", 40, 0}, {f->memory, "y", 40, 0}, {f->memory, "z", 40, 0}};
    struct fg_access_registry *registry;
    pthread_t threads[3];
    char id[32];

    for (size_t i = 0; i < FG_COUNT(writers); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_tenants, &writers[i]), 0);
    for (size_t i = 0; i < FG_COUNT(writers); i++)
        (void)pthread_join(threads[i], NULL);
    start(f);
    registry = fg_access_registry(f->access);
    assert_int_equal(registry->message->n_tenants, 120);
    assert_int_equal(registry->message->generation, 120);
    for (size_t w = 0; w < FG_COUNT(writers); w++)
        for (unsigned i = 0; i < writers[w].n; i++) {
            (void)snprintf(id, sizeof id, "%s-%u", writers[w].prefix, i);
            assert_non_null(fg_access_find_tenant(registry, fg_cstr(id)));
        }
    fg_access_registry_unref(registry);
}

/* Each request of a change fails once, before or after it was done; made again, it is made once. */
static void a_change_with_a_lost_answer_is_made_once(void **state)
{
    struct fixture *f = *state;
    struct fg_access_registry *registry;
    unsigned tenants = 0;
    char id[32];

    for (unsigned late = 0; late < 2; late++) {
        bool failed = true;

        for (uint64_t k = 1; failed; k++) {
            uint64_t before = fg_bucket_faulty_count(f->faulty);
            struct fg_err err;

            assert_true(k < 20);
            fg_bucket_faulty_fail(f->faulty, k, late);
            (void)snprintf(id, sizeof id, "t%u", tenants++);
            if (swap(&f->hold.bucket, id, &err) != FG_OK) {
                assert_int_equal(err.code, FG_E_UNAVAILABLE);
                fg_bucket_faulty_fail(f->faulty, 0, false);
                assert_int_equal(swap(&f->hold.bucket, id, &err), FG_OK);
            }
            failed = fg_bucket_faulty_count(f->faulty) - before >= k;
            fg_bucket_faulty_fail(f->faulty, 0, false);
        }
    }
    start(f);
    registry = fg_access_registry(f->access);
    assert_int_equal(registry->message->n_tenants, tenants);
    fg_access_registry_unref(registry);
}

/* A damaged registry is somebody's to look at: a change must not overwrite it. */
static void a_change_of_a_damaged_registry_fails(void **state)
{
    struct fixture *f = *state;
    char id[] = "t";
    struct fg_err err;

    put_bytes(f, FG_LIT("garbage"));
    assert_int_equal(swap(f->memory, id, &err), FG_E_CORRUPT);
}

/* It would end all that the lost one has. */
static void a_change_makes_no_registry_in_the_place_of_a_lost_one(void **state)
{
    struct fixture *f = *state;
    char id[] = "t";
    struct fg_err err;

    for (unsigned i = 0; i < 3; i++)
        put(f);
    assert_int_equal(swap_known(f->memory, 3, id, &err), FG_OK);
    lose(f);
    assert_int_equal(swap_known(f->memory, 4, id, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, "access/registry is gone from the bucket"));
    assert_int_equal(stored_generation(f), 0);
    f->make.message.generation = 0;
    put(f);
    assert_int_equal(swap_known(f->memory, 4, id, &err), FG_E_CORRUPT);
    assert_int_equal(stored_generation(f), 1);
    /* The first one of all: nobody has read any. */
    lose(f);
    assert_int_equal(swap_known(f->memory, 0, id, &err), FG_OK);
    assert_int_equal(stored_generation(f), 1);
}

/* ---- secrets ---- */

static void secrets_are_random(void **state)
{
    char one[FG_TOKEN_CHARS + 1], two[FG_TOKEN_CHARS + 1];
    struct fg_token token;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_access_make_secret(NULL, one, &token, &err), FG_OK);
    assert_int_equal(fg_access_make_secret(NULL, two, &token, &err), FG_OK);
    assert_memory_not_equal(one + 4, two + 4, FG_TOKEN_ID_CHARS);
    assert_memory_not_equal(one + 13, two + 13, FG_TOKEN_SECRET_CHARS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_decided_before_the_registry_was_read),
        TEST(without_a_registry_nobody_is_known),
        TEST(a_change_in_the_bucket_counts_after_the_next_look),
        TEST(a_damaged_registry_is_not_used),
        TEST(a_new_token_is_not_refused_by_a_damaged_registry),
        TEST(a_registry_that_is_gone_is_still_used),
        TEST(an_older_registry_is_not_used),
        TEST(a_lost_registry_is_known_from_the_copy),
        TEST(a_bucket_that_is_away_stops_queries_after_a_day_and_no_pushes),
        TEST(a_restart_without_the_bucket_uses_the_copy),
        TEST(a_token_in_a_file_is_the_admin_until_there_is_one),
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
        TEST(writers_at_the_same_time_lose_no_change),
        TEST(a_change_with_a_lost_answer_is_made_once),
        TEST(a_change_of_a_damaged_registry_fails),
        TEST(a_change_makes_no_registry_in_the_place_of_a_lost_one),
        cmocka_unit_test(secrets_are_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
