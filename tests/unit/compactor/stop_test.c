/* The end of a compactor while the bucket does not answer. */
#include "common/cluster/manifest/name.h"
#include "common/cluster/ring/ring.h"
#include "common/runtime/log.h"
#include "tests/lib/bucket_hold.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROUND_REQUESTS = 60 };

/* In which time passes with each request, so that all kinds of work come up soon. */
struct ticking {
    struct fg_bucket bucket;
    struct bucket_hold hold;
    struct fg_clock_manual *clock;
};

static void ticking_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct ticking *ticking = fg_container(bucket, struct ticking, bucket);

    fg_clock_manual_advance(ticking->clock, 20 * FG_MINUTE_NS);
    ticking->hold.bucket.ops->send(&ticking->hold.bucket, request);
}

static void ticking_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct ticking *ticking = fg_container(bucket, struct ticking, bucket);

    ticking->hold.bucket.ops->cancel(&ticking->hold.bucket, request);
}

static void *stop_compaction(void *arg)
{
    cmp_compaction_stop(arg);
    return NULL;
}

static void open_ticking(struct world *world, struct ticking *ticking)
{
    static const struct fg_bucket_ops ops = {ticking_send, ticking_cancel, NULL};

    world_open(world, 21);
    *ticking = (struct ticking){.bucket.ops = &ops, .clock = &world->clock};
    bucket_hold_init(&ticking->hold, &world->mortal.bucket);
    world->config.bucket = &ticking->bucket;
    world->config.store = NULL; /* the ring says which ingesters there are */
    world->settings.interval_ns = 0;
}

static void close_ticking(struct world *world, struct ticking *ticking)
{
    bucket_hold_done(&ticking->hold);
    world_close(world);
}

/* Runs a new compactor until its bucket holds a request, and stops it then. */
static void stop_within(struct world *world, struct ticking *ticking, const char *what)
{
    pthread_t stopper;
    struct fg_err err;

    print_message("  %s\n", what);
    world_must(cmp_compaction_start(world->compaction, &err), &err);
    bucket_hold_await(&ticking->hold);
    assert_int_equal(pthread_create(&stopper, NULL, stop_compaction, world->compaction), 0);
    if (!bucket_hold_await_cancel(&ticking->hold))
        fail_msg("not cancelled");
    assert_int_equal(pthread_join(stopper, NULL), 0);
    world_restart(world);
    world_check(world);
}

/* A process that does not end within a minute or two is killed, and what it has to end in order
 * with it. */
static void each_request_ends_with_the_compactor(void **state)
{
    struct world *world = fg_new(struct world);
    struct ticking ticking;

    (void)state;
    open_ticking(world, &ticking);
    world_restart(world);
    for (unsigned n = 1; n <= ROUND_REQUESTS; n++) {
        char what[32];

        if (n % 8 == 1)
            world_arrive(world, 20, world->clock.wall_ns, PLAN_DAY_NS);
        (void)snprintf(what, sizeof what, "request %u", n);
        bucket_hold_nth(&ticking.hold, n);
        stop_within(world, &ticking, what);
    }
    close_ticking(world, &ticking);
    free(world);
}

static void each_kind_of_request_ends_with_the_compactor(void **state)
{
    static const struct {
        const char *what;
        enum fg_bucket_verb verb;
        const char *prefix;
    } cases[] = {
        {"reads the L0 manifest", FG_BUCKET_GET, FG_NAME_L0},
        {"reads a tenant's manifest", FG_BUCKET_GET, "tenants/acme/manifest"},
        {"reads a segment", FG_BUCKET_GET, FG_NAME_SEGMENTS},
        {"uploads a block", FG_BUCKET_PUT, "tenants/acme/blocks/"},
        {"swaps a tenant's manifest", FG_BUCKET_PUT, "tenants/acme/manifest"},
        {"retires segments", FG_BUCKET_PUT, FG_NAME_L0},
        {"deletes segments", FG_BUCKET_DELETE, FG_NAME_SEGMENTS},
        {"reads a block", FG_BUCKET_GET, "tenants/acme/blocks/"},
        {"deletes blocks", FG_BUCKET_DELETE, FG_NAME_TENANTS},
        {"reads the ring", FG_BUCKET_GET, FG_RING_NAME},
        {"lists documents of usage", FG_BUCKET_LIST, "usage/"},
        {"writes a document of usage", FG_BUCKET_PUT, "usage/"},
        {"lists counts of queries", FG_BUCKET_LIST, FG_NAME_QUERY_COUNTS},
        {"sweeps", FG_BUCKET_LIST, FG_NAME_SEGMENTS},
        {"cleans up", FG_BUCKET_CLEAN_UP, ""},
    };
    struct world *world = fg_new(struct world);
    struct ticking ticking;

    (void)state;
    open_ticking(world, &ticking);
    world_restart(world);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        world_arrive(world, 50, world->clock.wall_ns, PLAN_DAY_NS);
        world_bury(world, "{pod=\"nobody\"}", INT64_MIN, INT64_MAX);
        bucket_hold_next(&ticking.hold, cases[i].verb, cases[i].prefix);
        stop_within(world, &ticking, cases[i].what);
    }
    close_ticking(world, &ticking);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_ends_with_the_compactor),
        cmocka_unit_test(each_kind_of_request_ends_with_the_compactor),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
