/* A wider shard factor: when it begins, and how often it is tried. That several writers win in the
 * end is watch_test.c's, and tests/sim/ring. */
#include "common/cluster/ring/widen_core.h"
#include "tests/lib/ring_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct fg_ring_widen_config config = {.backoff_min_ns = 100,
                                                   .backoff_max_ns = 300,
                                                   .denied_ns = 10 * FG_MINUTE_NS,
                                                   .seed = 1,
                                                   .lead_ns = 15 * FG_MINUTE_NS};
static const struct fg_ring_wish wish = {.tenant = "team", .tenant_len = 4, .shard_factor = 2};

struct fixture {
    struct fg_ring_widen widen;
    struct fg_arena *arena;
    struct fg_ring ring;
    struct fg_ring_widen_effects effects; /* of the last step */
};

static void step(struct fixture *f, struct fg_ring_widen_event event)
{
    event.ring = &f->ring;
    event.arena = f->arena;
    fg_ring_widen_step(&f->widen, &event, &f->effects);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_ring none = fg_ring_none();

    f->arena = fg_arena_create(FG_RING_ARENA_BYTES);
    f->ring = ring_make(&none, ring_make_join("ann", "", 1), f->arena);
    fg_ring_widen_init(&f->widen, &config);
    step(f, (struct fg_ring_widen_event){.kind = FG_RING_WIDEN_WANT, .wish = &wish});
    assert_true(f->effects.read);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

static void begins_after_the_read_by_its_clock(void **state)
{
    struct fixture *f = *state;
    const int64_t read_ns = 1000 * FG_HOUR_NS;

    step(f, (struct fg_ring_widen_event){
                .kind = FG_RING_WIDEN_RING, .mono_ns = 5, .wall_ns = read_ns});
    assert_true(f->effects.swap);
    assert_int_equal(
        fg_ring_shard_factor_at(&f->effects.ring, FG_LIT("team"), read_ns + config.lead_ns - 1), 0);
    assert_int_equal(
        fg_ring_shard_factor_at(&f->effects.ring, FG_LIT("team"), read_ns + config.lead_ns), 2);
    f->ring = f->effects.ring;
    step(f, (struct fg_ring_widen_event){.kind = FG_RING_WIDEN_SWAPPED, .mono_ns = 6, .won = true});
    assert_true(f->effects.read); /* the answer to a swap is not believed */
    assert_false(f->widen.idle);
    step(f, (struct fg_ring_widen_event){
                .kind = FG_RING_WIDEN_RING, .mono_ns = 7, .wall_ns = read_ns});
    assert_true(f->widen.idle);
    assert_false(f->effects.swap);
}

static void denied_swaps_are_retried_seldom(void **state)
{
    struct fixture *f = *state;
    int64_t now_ns = 0, woken_ns;

    for (int i = 0; i < 20; i++) {
        step(f, (struct fg_ring_widen_event){.kind = FG_RING_WIDEN_RING, .mono_ns = now_ns});
        assert_true(f->effects.swap);
        step(f, (struct fg_ring_widen_event){
                    .kind = FG_RING_WIDEN_SWAPPED, .mono_ns = now_ns, .denied = true});
        assert_false(f->effects.read);
        woken_ns = f->effects.wake_mono_ns;
        assert_in_range(woken_ns, now_ns + config.denied_ns, now_ns + 2 * config.denied_ns);
        /* Others read the ring all the time. */
        step(f, (struct fg_ring_widen_event){.kind = FG_RING_WIDEN_RING, .mono_ns = woken_ns - 1});
        assert_false(f->effects.swap);
        now_ns = woken_ns;
        step(f, (struct fg_ring_widen_event){.kind = FG_RING_WIDEN_TICK, .mono_ns = now_ns});
        assert_true(f->effects.read);
    }
    /* Somebody who may has done it. */
    f->ring = ring_make(
        &f->ring,
        (struct fg_ring_change){.kind = FG_RING_WIDEN, .name = FG_LIT("team"), .shard_factor = 2},
        f->arena);
    step(f, (struct fg_ring_widen_event){.kind = FG_RING_WIDEN_RING, .mono_ns = now_ns});
    assert_true(f->widen.idle);
}

static void lost_swaps_are_retried_soon(void **state)
{
    struct fixture *f = *state;

    step(f, (struct fg_ring_widen_event){.kind = FG_RING_WIDEN_RING});
    assert_true(f->effects.swap);
    step(f, (struct fg_ring_widen_event){.kind = FG_RING_WIDEN_SWAPPED});
    assert_true(f->effects.read || f->effects.wake_mono_ns < config.backoff_max_ns);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(begins_after_the_read_by_its_clock),
        TEST(denied_swaps_are_retried_seldom),
        TEST(lost_swaps_are_retried_soon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
