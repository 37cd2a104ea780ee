/* Tests scrape loops with a target that counts what it serves: the stored profiles add up to its
 * growth, whatever the ingester does, and slow or dead targets do not delay others. */
#include "common/runtime/stop.h"
#include "tests/lib/fake_server.h"
#include "tests/lib/pprof_make.h"
#include "tests/unit/distributor/scrape/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { INTERVAL_MS = 20, INTERVAL_IN_RING_MS = 100 /* the ring keeps all pushes */ };
enum { OWNERS = 3, REFUSALS = 40 /* far more than the tries of a profile */ };

struct fixture {
    struct room *room;
    struct push_ring *ring; /* NULL: there is one ingester */
    struct fake_server *server;
    _Atomic int64_t value; /* allocated so far */
    _Atomic int64_t first; /* the value served first; -1 */
    _Atomic unsigned served;
    _Atomic bool hang;
};

/* ---- the target ---- */

/* A memory profile: value objects and ten bytes each, of which three are in use. */
static void make_profile(int64_t value, struct make *make)
{
    static _Atomic int64_t now = 1000000000;
    const uint64_t locations[] = {1, 2};
    const int64_t values[] = {value, 10 * value, 3};

    make_start(make);
    make_type(make, "alloc_objects", "count");
    make_type(make, "alloc_space", "bytes");
    make_type(make, "inuse_objects", "count");
    make_period(make, "space", "bytes", 524288);
    /* A time in 2020, different in each profile. */
    make_time(make, INT64_C(1577836800) * FG_SECOND_NS + atomic_fetch_add(&now, 1), 0);
    make_frame(make, 1, "leaf");
    make_frame(make, 2, "root");
    make_sample(make, &(struct make_sample){.locations = locations,
                                            .n_locations = 2,
                                            .values = values,
                                            .n_values = FG_COUNT(values)});
}

static void serve_profile(struct fake_connection *connection, struct fixture *f)
{
    int64_t value = atomic_load(&f->value), none = -1;
    struct make *make = fg_new(struct make);

    (void)atomic_compare_exchange_strong(&f->first, &none, value);
    make_profile(value, make);
    (void)fake_respond(connection, 200, "", make_finish(make));
    (void)atomic_fetch_add(&f->served, 1);
    make_done(make);
    free(make);
}

static void handle(struct fake_connection *connection, void *arg)
{
    struct fixture *f = arg;
    char request[4096];

    while (fake_read(connection, request, sizeof request)) {
        struct fg_slice text = fg_cstr(request);

        if (fg_slice_search(text, "/hang") != SIZE_MAX || atomic_load(&f->hang)) {
            fake_wait_gone(connection);
            return;
        }
        if (fg_slice_search(text, "/broken") != SIZE_MAX)
            (void)fake_respond(connection, 500, "", FG_LIT("out of\x1b order\nsecond line"));
        else if (fg_slice_search(text, "/page") != SIZE_MAX)
            (void)fake_respond(connection, 200, "", FG_LIT("<html>"));
        else if (fg_slice_search(text, "/empty") != SIZE_MAX)
            (void)fake_respond(connection, 200, "", FG_LIT(""));
        else
            serve_profile(connection, f);
    }
}

/* ---- fixture ---- */

static int set_up_with(void **state, unsigned running_max)
{
    struct fixture *f = fg_new(struct fixture);

    fg_ignore_sigpipe();
    atomic_init(&f->first, -1);
    atomic_init(&f->value, 100);
    f->server = fake_server_start(NULL, false, handle, f);
    f->room = room_create(INTERVAL_MS * FG_MS_NS, running_max);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, 16);
}

static int set_up_narrow(void **state)
{
    return set_up_with(state, 4);
}

/* Every profile has three owners, of which two must store it. */
static int set_up_ring(void **state)
{
    static const struct push_answer well[] = {{.code = FG_OK}};
    struct fixture *f = fg_new(struct fixture);

    fg_ignore_sigpipe();
    atomic_init(&f->first, -1);
    atomic_init(&f->value, 100);
    f->server = fake_server_start(NULL, false, handle, f);
    f->ring = fg_new(struct push_ring);
    push_ring_open(f->ring, 0);
    for (unsigned i = 0; i < OWNERS; i++)
        push_ring_script(f->ring, i, well, 1);
    f->room = room_create_in_ring(INTERVAL_IN_RING_MS * FG_MS_NS, 16, f->ring);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    room_destroy(f->room);
    if (f->ring != NULL)
        push_ring_close(f->ring);
    free(f->ring);
    fake_server_stop(f->server);
    free(f);
    return 0;
}

/* Scrapes the memory profile at this path, in a group of its own. */
static void scrape(struct fixture *f, const char *group, const char *path)
{
    char yaml[400];

    (void)snprintf(yaml, sizeof yaml,
                   "- targets: [\"127.0.0.1:%u\"]\n"
                   "  labels: {service_name: shop, g: %s, __profiles__: memory, "
                   "__profile_path__: \"%s\"}",
                   fake_server_port(f->server), group, path);
    room_update(f->room, group, yaml);
}

/* Waits for n more scrapes that begin from now on. */
static void wait_scrapes(struct fixture *f, unsigned n)
{
    unsigned until = atomic_load(&f->served) + n + 1;

    while (atomic_load(&f->served) < until)
        (void)usleep(1000);
}

static void set(unsigned *value, struct fixture *f, unsigned to)
{
    (void)pthread_mutex_lock(&f->room->ingester.lock);
    *value = to;
    (void)pthread_mutex_unlock(&f->room->ingester.lock);
}

/* Stops the growth of the target until everything is stored; then the stored sum must be the growth
 * since the first scrape. */
static void assert_growth_stored(struct fixture *f)
{
    int64_t grown;

    wait_scrapes(f, 2);
    grown = atomic_load(&f->value) - atomic_load(&f->first);
    while (room_sum(f->room, "memory:alloc_objects") < grown)
        (void)usleep(1000);
    assert_int_equal(room_sum(f->room, "memory:alloc_objects"), grown);
    assert_int_equal(room_sum(f->room, "memory:alloc_space"), 10 * grown);
}

static void grow(struct fixture *f, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        (void)atomic_fetch_add(&f->value, 7);
        wait_scrapes(f, 1);
    }
}

/* ---- tests ---- */

static void profiles_are_stored_with_the_targets_labels(void **state)
{
    struct fixture *f = *state;
    char want[256];

    scrape(f, "a", "/heap");
    grow(f, 3);
    (void)snprintf(
        want, sizeof want,
        "{__name__=\"memory\", g=\"a\", instance=\"127.0.0.1:%u\", service_name=\"shop\"}",
        fake_server_port(f->server));
    (void)pthread_mutex_lock(&f->room->ingester.lock);
    assert_string_equal(f->room->ingester.labels, want);
    (void)pthread_mutex_unlock(&f->room->ingester.lock);
    assert_true(room_sum(f->room, "memory:inuse_objects") >= 3);
}

static void growth_is_stored_once(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a", "/heap");
    wait_scrapes(f, 1);
    grow(f, 5);
    assert_growth_stored(f);
    (void)pthread_mutex_lock(&f->room->ingester.lock);
    assert_true(f->room->ingester.duration_ns > 0);
    (void)pthread_mutex_unlock(&f->room->ingester.lock);
}

static void a_dead_connection_costs_one_retry(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a", "/heap");
    wait_scrapes(f, 1);
    set(&f->room->ingester.lost, f, 2);
    grow(f, 3);
    assert_growth_stored(f);
    assert_true(fg_metric_get(f->room->metrics, SCRAPE_RETRIES) >= 2);
}

/* The ingester stored the profile, but its answer was lost. */
static void a_profile_stored_without_an_answer_counts_once(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a", "/heap");
    wait_scrapes(f, 1);
    set(&f->room->ingester.stored_and_lost, f, 2);
    grow(f, 3);
    assert_growth_stored(f);
}

static void definitions_are_sent_again_with_the_same_growth(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a", "/heap");
    wait_scrapes(f, 1);
    set(&f->room->ingester.lacking, f, 1);
    grow(f, 3);
    assert_growth_stored(f);
}

/* The profile was certainly not stored, so the next scrape has its growth. */
static void growth_of_a_refused_profile_is_in_the_next(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a", "/heap");
    wait_scrapes(f, 1);
    set(&f->room->ingester.refused, f, 5);
    (void)atomic_fetch_add(&f->value, 7);
    room_wait_metric(f->room, SCRAPE_NOT_STORED, 1);
    assert_growth_stored(f);
}

/* Whether it was stored is unknown: the growth is dropped rather than counted twice. */
static void growth_with_an_unknown_outcome_is_not_counted_twice(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a", "/heap");
    wait_scrapes(f, 1);
    set(&f->room->ingester.stored_and_lost, f, 4);
    (void)atomic_fetch_add(&f->value, 7);
    room_wait_metric(f->room, SCRAPE_NOT_STORED, 1);
    assert_growth_stored(f);
}

/* While bob and cat refuse everything and the target grows, ann gives these answers in turn. */
static void assert_counted_once_if(struct fixture *f, const enum fg_code ann[], size_t n)
{
    static const struct push_answer well[] = {{.code = FG_OK}};
    struct push_answer answers[REFUSALS], refusals[REFUSALS];

    for (size_t i = 0; i < REFUSALS; i++) {
        answers[i] = (struct push_answer){.code = ann[i % n]};
        refusals[i] = (struct push_answer){.code = FG_E_LIMIT};
    }
    scrape(f, "a", "/heap");
    wait_scrapes(f, 1);
    for (unsigned i = 1; i < OWNERS; i++)
        push_ring_script(f->ring, i, refusals, REFUSALS);
    push_ring_script(f->ring, 0, answers, REFUSALS);
    for (unsigned i = 0; i < 3; i++) {
        (void)atomic_fetch_add(&f->value, 7);
        /* The next one may have been fetched before. */
        room_wait_metric(f->room, SCRAPE_NOT_STORED, 2 + i);
    }
    for (unsigned i = 0; i < OWNERS; i++)
        push_ring_script(f->ring, i, well, 1);
    assert_growth_stored(f);
}

/* A copy that is no quorum is a copy that queries find. */
static void growth_that_one_of_three_owners_stored_is_not_counted_twice(void **state)
{
    static const enum fg_code ann[] = {FG_OK};

    assert_counted_once_if(*state, ann, FG_COUNT(ann));
}

/* One of four answers is OK: one of the four tries of a profile, the last or another. */
static void growth_that_one_owner_stored_at_any_try_is_not_counted_twice(void **state)
{
    static const enum fg_code ann[] = {FG_OK, FG_E_LIMIT, FG_E_LIMIT, FG_E_LIMIT};

    assert_counted_once_if(*state, ann, FG_COUNT(ann));
}

/* Two refusals decide it; the third owner's answer says that nobody has the profile. */
static void growth_that_all_owners_refused_is_in_the_next(void **state)
{
    static const enum fg_code ann[] = {FG_E_LIMIT};

    assert_counted_once_if(*state, ann, FG_COUNT(ann));
}

static void a_restart_counts_from_zero(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->value, 1000000);
    scrape(f, "a", "/heap");
    wait_scrapes(f, 2);
    atomic_store(&f->value, 5);
    room_wait_metric(f->room, SCRAPE_RESETS, 1);
    (void)atomic_fetch_add(&f->value, 7);
    while (room_sum(f->room, "memory:alloc_objects") < 12)
        (void)usleep(1000);
    wait_scrapes(f, 2);
    assert_int_equal(room_sum(f->room, "memory:alloc_objects"), 12);
}

/* A target that is discovered again together with others keeps its scrape loop. */
static void an_update_keeps_running_scrape_loops(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a", "/heap");
    wait_scrapes(f, 1);
    for (unsigned i = 0; i < 5; i++) {
        grow(f, 1);
        scrape(f, "a", "/heap");
        scrape(f, "b", i % 2 == 0 ? "/broken" : "/empty");
    }
    assert_growth_stored(f);
}

static void write_error(const struct dist_scrape_pool_view *view, void *arg)
{
    const char *error = dist_scrape_loop_state(view->scrapes[0]).error;

    fg_buf_puts(arg, error == NULL ? "" : error);
}

struct look {
    struct fixture *f;
    struct fg_buf errors;
};

static void look_on_loop(void *arg)
{
    struct look *look = arg;

    dist_scrape_pool_each(look->f->room->targets, write_error, &look->errors);
}

/* Scrapes one target at the path and expects this error on the targets page. */
static void assert_error(struct fixture *f, unsigned metric, const char *path, const char *want)
{
    struct look look = {.f = f};

    fg_buf_init(&look.errors, 4096);
    scrape(f, "b", path);
    room_wait_metric(f->room, metric, fg_metric_get(f->room->metrics, metric) + 2);
    fg_loop_call(f->room->loop, look_on_loop, &look);
    if (fg_slice_search(fg_buf_slice(&look.errors), want) == SIZE_MAX)
        fail_msg("%.*s, not %s", FG_S(fg_buf_slice(&look.errors)), want);
    fg_buf_done(&look.errors);
    room_update(f->room, "b", "[]");
}

static void failures_are_counted_by_kind(void **state)
{
    struct fixture *f = *state;

    assert_error(f, SCRAPE_STATUS, "/broken", "the target responds with status 500: out of. order");
    assert_error(f, SCRAPE_INVALID, "/page", "");
    assert_error(f, SCRAPE_INVALID, "/empty", "the target responds with an empty body");
    room_update(f->room, "c", "[{targets: [\"127.0.0.1:1\"]}]");
    room_wait_metric(f->room, SCRAPE_UNREACHABLE, 1);
}

/* Four slots, two dozen targets that never answer, and one that does. */
static void hanging_targets_do_not_stop_others(void **state)
{
    struct fixture *f = *state;
    struct fg_buf yaml;

    fg_buf_init(&yaml, 65536);
    for (unsigned i = 0; i < 24; i++)
        fg_buf_printf(&yaml,
                      "- targets: [\"127.0.0.1:%u\"]\n"
                      "  labels: {n: %u, __profiles__: memory, __profile_path__: /hang, "
                      "__scrape_timeout__: 50ms}\n",
                      fake_server_port(f->server), i);
    fg_buf_putc(&yaml, '\0');
    room_update(f->room, "hanging", (const char *)yaml.ptr);
    fg_buf_done(&yaml);
    room_wait_metric(f->room, SCRAPE_TIMEOUT, 24);
    scrape(f, "a", "/heap");
    grow(f, 10);
    assert_growth_stored(f);
    assert_true(fg_metric_get(f->room->metrics, SCRAPE_MISSED) > 0);
}

/* Stopping does not wait for a hanging target; tear_down() would time out. */
static void stopping_does_not_wait_for_targets(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->hang, true);
    scrape(f, "a", "/hang");
    scrape(f, "b", "/hang");
    room_wait_metric(f->room, SCRAPE_RUNNING, 2);
}

/* The ingester answers slowly. */
static void stopping_waits_for_pushes_in_progress(void **state)
{
    struct fixture *f = *state;

    set(&f->room->ingester.lost, f, 1000);
    scrape(f, "a", "/heap");
    room_wait_metric(f->room, SCRAPE_RETRIES, 1);
}

static void the_offset_of_the_first_scrape_follows_from_the_hash(void **state)
{
    int64_t interval = 15 * FG_SECOND_NS, first = dist_scrape_loop_first_ns(12345, interval, 0);

    (void)state;
    assert_int_equal(first, 12345);
    for (int64_t now = 0; now < 100; now++) {
        int64_t wall_ns = now * FG_SECOND_NS + 7;
        int64_t wait_ns = dist_scrape_loop_first_ns(12345, interval, wall_ns);

        assert_in_range(wait_ns, 0, interval - 1);
        assert_int_equal((wall_ns + wait_ns) % interval, first);
    }
}

int main(void)
{
#define TEST(name)    cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define IN_RING(name) cmocka_unit_test_setup_teardown(name, set_up_ring, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(profiles_are_stored_with_the_targets_labels),
        TEST(growth_is_stored_once),
        TEST(a_dead_connection_costs_one_retry),
        TEST(a_profile_stored_without_an_answer_counts_once),
        TEST(definitions_are_sent_again_with_the_same_growth),
        TEST(growth_of_a_refused_profile_is_in_the_next),
        TEST(growth_with_an_unknown_outcome_is_not_counted_twice),
        IN_RING(growth_that_one_of_three_owners_stored_is_not_counted_twice),
        IN_RING(growth_that_one_owner_stored_at_any_try_is_not_counted_twice),
        IN_RING(growth_that_all_owners_refused_is_in_the_next),
        TEST(a_restart_counts_from_zero),
        TEST(an_update_keeps_running_scrape_loops),
        TEST(failures_are_counted_by_kind),
        cmocka_unit_test_setup_teardown(hanging_targets_do_not_stop_others, set_up_narrow,
                                        tear_down),
        TEST(stopping_does_not_wait_for_targets),
        TEST(stopping_waits_for_pushes_in_progress),
        cmocka_unit_test(the_offset_of_the_first_scrape_follows_from_the_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
