/* When a deletion may end, and whom it waits for. */
#include "compactor/completion_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct fg_id ann = {1, 1}, bob = {2, 2};
static const struct cmp_ingester_store both[] = {{{1, 1}, {(const uint8_t *)"ann", 3}},
                                                 {{2, 2}, {(const uint8_t *)"bob", 3}}};

struct world {
    struct fg_arena *arena;
    struct fg_l0 l0;
    struct cmp_ingesters ingesters;
    struct fg_blocks_tombstone tombstone;
};

static struct world begin(void)
{
    return (struct world){.arena = fg_arena_create(FG_RING_ARENA_BYTES),
                          .l0 = fg_l0_none(),
                          .ingesters = {.items = both, .n = 2, .known = true},
                          .tombstone = {.id = {7, 7}, .profiles = 10}};
}

static struct cmp_completion next(const struct world *world)
{
    return cmp_completion_next(&world->tombstone, &world->l0, &world->ingesters,
                               world->l0.asked + 1);
}

/* As the compactor does it. */
static void ask(struct world *world)
{
    struct cmp_completion completion = next(world);
    bool changed;

    assert_int_equal(completion.step, COMPLETION_ASK);
    assert_true(fg_id_eq(completion.await.tombstone, world->tombstone.id));
    assert_int_equal(completion.await.before, world->tombstone.awaits);
    fg_l0_ask(&world->l0, completion.await.awaits, &world->l0, &changed);
    assert_true(changed);
    world->tombstone.awaits = completion.await.awaits;
    world->tombstone.awaits_profiles = completion.await.awaits_profiles;
    world->tombstone.quiet = completion.await.quiet;
}

static void be_clean(struct world *world, struct fg_id store, uint64_t number)
{
    struct fg_err err;
    bool changed;

    assert_int_equal(
        fg_l0_clean(&world->l0, store, number, world->arena, &world->l0, &changed, &err), FG_OK);
    assert_true(changed);
}

static void assert_waits_for(const struct world *world, const char *who)
{
    char text[COMPLETION_TEXT_MAX_BYTES];

    assert_int_equal(next(world).step, COMPLETION_WAIT);
    cmp_completion_waits_for(&world->ingesters, &world->l0, world->tombstone.awaits, text);
    assert_string_equal(text, who);
}

static void all_answer(struct world *world)
{
    be_clean(world, ann, world->tombstone.awaits);
    be_clean(world, bob, world->tombstone.awaits);
}

static void a_deletion_ends_after_two_quiet_times(void **state)
{
    struct world world = begin();

    (void)state;
    ask(&world);
    assert_waits_for(&world, "ann and 1 more");
    be_clean(&world, ann, 1);
    assert_waits_for(&world, "bob");
    be_clean(&world, bob, 1);
    ask(&world);
    assert_int_equal(world.tombstone.quiet, 1);
    assert_waits_for(&world, "ann and 1 more");
    all_answer(&world);
    assert_int_equal(next(&world).step, COMPLETION_END);
    fg_arena_destroy(world.arena);
}

/* One that was not quiet starts it again. */
static void a_removal_restarts_the_quiet_times(void **state)
{
    struct world world = begin();

    (void)state;
    ask(&world);
    world.tombstone.profiles++;
    all_answer(&world);
    ask(&world);
    assert_int_equal(world.tombstone.quiet, 0);
    all_answer(&world);
    ask(&world);
    assert_int_equal(world.tombstone.quiet, 1);
    world.tombstone.profiles++;
    all_answer(&world);
    ask(&world);
    assert_int_equal(world.tombstone.quiet, 0);
    fg_arena_destroy(world.arena);
}

static void a_deletion_waits_for_manifests_and_members(void **state)
{
    struct world world = begin();

    (void)state;
    world.ingesters.known = false;
    assert_waits_for(&world, "ingesters: the list of ingesters is not known yet");
    world.ingesters.known = true;
    ask(&world);
    all_answer(&world);
    world.ingesters.generation = 1; /* what somebody drained is in a manifest newer than this one */
    assert_waits_for(&world, "");
    world.ingesters.generation = 0;
    ask(&world);
    world.l0.asked = 1; /* the bucket was put back */
    ask(&world);
    assert_int_equal(world.tombstone.quiet, 0);
    fg_arena_destroy(world.arena);
}

/* Nobody is left: all have drained. */
static void without_ingesters_a_deletion_ends(void **state)
{
    struct world world = begin();

    (void)state;
    world.ingesters.n = 0;
    ask(&world);
    ask(&world);
    assert_int_equal(next(&world).step, COMPLETION_END);
    fg_arena_destroy(world.arena);
}

static void change(struct world *world, struct fg_ring *ring, struct fg_ring_change wanted)
{
    struct fg_err err;
    bool changed;

    if (fg_ring_apply(ring, &wanted, world->arena, ring, &changed, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_true(changed);
}

/* A member that has left matters until it has drained; one that was given up does not. */
static void members_that_drained_or_lost_do_not_count(void **state)
{
    struct world world = begin();
    struct fg_ring ring = fg_ring_none();
    struct cmp_ingesters ingesters;
    struct fg_err err;

    (void)state;
    assert_int_equal(cmp_ingesters_of(&ring, world.arena, &ingesters, &err), FG_OK);
    assert_false(ingesters.known);
    for (uint32_t i = 0; i < 3; i++)
        change(&world, &ring,
               (struct fg_ring_change){.kind = FG_RING_JOIN,
                                       .name = fg_cstr((const char *[]){"a", "b", "c"}[i]),
                                       .address = FG_LIT("tcp://x:1"),
                                       .store = {i, 9},
                                       .replicas = 2});
    change(&world, &ring,
           (struct fg_ring_change){.kind = FG_RING_LEAVE, .name = FG_LIT("a"), .store = {0, 9}});
    assert_int_equal(cmp_ingesters_of(&ring, world.arena, &ingesters, &err), FG_OK);
    assert_true(ingesters.known);
    assert_int_equal(ingesters.n, 3);
    change(&world, &ring,
           (struct fg_ring_change){.kind = FG_RING_DRAINED,
                                   .name = FG_LIT("a"),
                                   .store = {0, 9},
                                   .revision = fg_ring_newest(&ring),
                                   .generation = 17});
    assert_int_equal(cmp_ingesters_of(&ring, world.arena, &ingesters, &err), FG_OK);
    assert_int_equal(ingesters.n, 2);
    assert_int_equal(ingesters.generation, 17);
    change(&world, &ring, (struct fg_ring_change){.kind = FG_RING_FORGET, .name = FG_LIT("b")});
    assert_int_equal(cmp_ingesters_of(&ring, world.arena, &ingesters, &err), FG_OK);
    assert_int_equal(ingesters.n, 1);
    assert_true(fg_slice_is(ingesters.items[0].name, "c"));
    fg_arena_destroy(world.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deletion_ends_after_two_quiet_times),
        cmocka_unit_test(a_removal_restarts_the_quiet_times),
        cmocka_unit_test(a_deletion_waits_for_manifests_and_members),
        cmocka_unit_test(without_ingesters_a_deletion_ends),
        cmocka_unit_test(members_that_drained_or_lost_do_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
