/* The stop of an ingester that comes back, next to others that are there, dead or in maintenance.
 */
#include "ingester/maintenance.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/ring_bucket.h"
#include "tests/lib/rpc_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Ann stops; Bob, and Cat if there is one, are other members, of which Bob has a server. */
struct fixture {
    struct fg_bucket *bucket;
    struct fg_registry *registry;
    struct fg_ring_watch *ann;
    struct fg_peers *peers;
    struct fg_rpc_server *bob;
    char url[RPC_RUN_URL_BYTES];
};

static int64_t soon(void)
{
    return fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS;
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void on_drain(void *arg, uint64_t revision)
{
    struct fixture *f = arg;

    fg_ring_watch_drained(f->ann, revision, 1);
}

static void join(struct fixture *f, const char *name, const char *zone, const char *address,
                 uint64_t store)
{
    ring_bucket_change(f->bucket, &(struct fg_ring_change){.kind = FG_RING_JOIN,
                                                           .name = fg_cstr(name),
                                                           .zone = fg_cstr(zone),
                                                           .address = fg_cstr(address),
                                                           .store = {store, 1},
                                                           .replicas = 3,
                                                           .wall_ns = 1});
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->bucket = fg_bucket_memory();
    f->registry = fg_registry_create();
    f->peers =
        fg_peers_create(&(struct fg_peers_config){.calls_max = 2, .peers_max = 8, .idle_ns = 0});
    rpc_run_url("tcp", f->url);
    *state = f;
    return 0;
}

static void start_bob(struct fixture *f)
{
    struct fg_err err;

    f->bob = fg_rpc_server_create(NULL, 4);
    must(fg_rpc_server_start(f->bob, f->url, &err), &err);
}

static void start_ann(struct fixture *f)
{
    const struct fg_ring_watch_member member = {.name = "ann",
                                                .zone = "x",
                                                .address = "tcp://127.0.0.1:1",
                                                .http = "",
                                                .store = {1, 1},
                                                .replicas = 3,
                                                .on_drain = on_drain,
                                                .arg = f};
    struct fg_err err;

    must(fg_ring_watch_create(&(struct fg_ring_watch_config){.bucket = f->bucket,
                                                             .clock = fg_clock_real(),
                                                             .registry = f->registry,
                                                             .poll_ns = FG_MINUTE_NS,
                                                             .member = &member},
                              &f->ann, &err),
         &err);
    must(fg_ring_watch_start(f->ann, &err), &err);
    must(fg_ring_watch_wait_member(f->ann, FG_RING_MEMBER_ACTIVE, soon(), &err), &err);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_ring_watch_destroy(f->ann);
    fg_peers_destroy(f->peers);
    fg_rpc_server_destroy(f->bob);
    fg_bucket_close(f->bucket);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

static bool is_paused(struct fixture *f)
{
    struct fg_ring_view *view;
    struct fg_err err;
    bool paused;

    must(fg_ring_watch_fresh(f->ann, soon(), &view, &err), &err);
    paused = fg_ring_is_paused(&view->ring, fg_ring_find(&view->ring, FG_LIT("ann")));
    fg_ring_view_unref(view);
    return paused;
}

static void begin(struct fixture *f, int64_t wait_ns)
{
    ing_maintenance_begin(&(struct ing_maintenance){
        .watch = f->ann, .peers = f->peers, .name = FG_LIT("ann"), .wait_ns = wait_ns});
}

static void *begin_in_thread(void *arg)
{
    begin(arg, FG_HOUR_NS);
    return NULL;
}

/* With an hour to wait: it must not need it. */
static void all_others_are_there(void **state)
{
    struct fixture *f = *state;

    join(f, "bob", "y", f->url, 2);
    start_bob(f);
    start_ann(f);
    begin(f, FG_HOUR_NS);
    assert_true(is_paused(f));
}

static void a_lone_member_waits_for_nobody(void **state)
{
    struct fixture *f = *state;

    start_ann(f);
    begin(f, FG_HOUR_NS);
    assert_true(is_paused(f));
}

/* It serves until the dead one is back, however long that takes. */
static void a_dead_one_is_waited_for(void **state)
{
    const struct timespec while_dead = {.tv_sec = 3};
    struct fixture *f = *state;
    pthread_t thread;

    join(f, "bob", "y", f->url, 2);
    start_ann(f);
    assert_int_equal(pthread_create(&thread, NULL, begin_in_thread, f), 0);
    (void)nanosleep(&while_dead, NULL);
    assert_false(is_paused(f));
    start_bob(f);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(is_paused(f));
}

static void when_the_time_is_over_it_stops_anyway(void **state)
{
    struct fixture *f = *state;

    join(f, "bob", "y", f->url, 2);
    start_ann(f);
    begin(f, FG_SECOND_NS);
    assert_true(is_paused(f));
}

/* Where a whole zone may be away, its members do not wait for each other. */
static void a_dead_one_of_the_same_zone_is_not_waited_for(void **state)
{
    struct fixture *f = *state;

    join(f, "bob", "y", f->url, 2);
    join(f, "cat", "z", f->url, 3);
    join(f, "dan", "x", "tcp://127.0.0.1:1", 4);
    start_bob(f);
    start_ann(f);
    begin(f, FG_HOUR_NS);
    assert_true(is_paused(f));
}

/* A member that has stopped is away by what the ring says, and is not asked: its time is over
 * by the same clock. */
static void one_in_maintenance_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct fg_ring_view *view;
    struct fg_err err;

    join(f, "bob", "y", f->url, 2);
    ring_bucket_change(f->bucket, &(struct fg_ring_change){.kind = FG_RING_PAUSE,
                                                           .name = FG_LIT("bob"),
                                                           .store = {2, 1},
                                                           .wall_ns = 1});
    start_ann(f);
    begin(f, FG_SECOND_NS);
    assert_true(is_paused(f));
    must(fg_ring_watch_fresh(f->ann, soon(), &view, &err), &err);
    assert_int_equal(view->ring.overrides, 1);
    fg_ring_view_unref(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_others_are_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lone_member_waits_for_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dead_one_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(when_the_time_is_over_it_stops_anyway, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dead_one_of_the_same_zone_is_not_waited_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_in_maintenance_is_waited_for, set_up, tear_down),
    };

    fg_rpc_init(2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
