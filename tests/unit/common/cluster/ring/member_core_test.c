/* A seat step by step; what comes of many of them is tests/sim/ring. */
#include "common/cluster/ring/member_core.h"
#include "tests/lib/ring_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct fg_arena *arena;
    struct fg_ring ring;
    struct fg_ring_member_core member;
    struct fg_ring_member_effects effects;
    int64_t mono_ns;
    bool ready;
};

static void init(struct fixture *f, const char *name, uint64_t store)
{
    fg_ring_member_init(&f->member, &(struct fg_ring_member_config){
                                        .name = fg_cstr(name),
                                        .zone = FG_LIT("z"),
                                        .address = FG_LIT("tcp://h:1"),
                                        .http = FG_LIT(""),
                                        .store = {store, 1},
                                        .replicas = 2,
                                        .backoff_min_ns = 100,
                                        .backoff_max_ns = 1000,
                                        .seed = 1,
                                    });
}

static void step(struct fixture *f, enum fg_ring_member_event_kind kind, uint64_t revision,
                 bool won)
{
    const struct fg_ring_member_event event = {
        .kind = kind,
        .mono_ns = f->mono_ns,
        .ring = &f->ring,
        .arena = f->arena,
        .ready = f->ready,
        .wall_ns = 1,
        .revision = revision,
        .won = won,
    };

    fg_ring_member_step(&f->member, &event, &f->effects);
}

/* The ring is read, and swapped if that is wanted; until nothing is wanted any more. */
static void carry_out(struct fixture *f)
{
    step(f, FG_RING_MEMBER_RING, 0, false);
    while (f->effects.swap) {
        ring_make_check(&f->effects.ring);
        f->ring = f->effects.ring;
        step(f, FG_RING_MEMBER_SWAPPED, 0, true);
        assert_true(f->effects.read); /* the answer is not believed */
        step(f, FG_RING_MEMBER_RING, 0, false);
    }
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->arena = fg_arena_create(FG_RING_ARENA_BYTES);
    init(f, "me", 1);
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

static void a_member_joins_drains_and_leaves(void **state)
{
    struct fixture *f = *state;

    step(f, FG_RING_MEMBER_TICK, 0, false);
    assert_false(f->effects.read || f->effects.swap);
    carry_out(f);
    assert_int_equal(f->member.state, FG_RING_MEMBER_ACTIVE);
    assert_int_equal(f->ring.revisions[0].replicas, 2);
    assert_int_equal(f->effects.drain, 0);

    /* Somebody else comes: what came before is to be committed, and that is said. */
    f->ring = ring_make(&f->ring, ring_make_join("other", "", 2), f->arena);
    carry_out(f);
    assert_int_equal(f->effects.drain, 2);
    carry_out(f);
    assert_int_equal(f->effects.drain, 0); /* once */
    step(f, FG_RING_MEMBER_DRAINED, 2, false);
    assert_true(f->effects.read);
    carry_out(f);
    assert_int_equal(f->ring.n_revisions, 1);

    step(f, FG_RING_MEMBER_LEAVE, 0, false);
    assert_true(f->effects.read);
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEAVING);
    carry_out(f);
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEAVING);
    assert_int_equal(f->effects.drain, 3);
    assert_int_equal(fg_ring_newest(&f->ring), 3);
    step(f, FG_RING_MEMBER_DRAINED, 3, false);
    carry_out(f);
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEFT); /* though the other has not drained */
    assert_int_equal(f->ring.n_revisions, 2);
    step(f, FG_RING_MEMBER_TICK, 0, false);
    assert_false(f->effects.read || f->effects.swap);
    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_false(f->effects.read || f->effects.swap);
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEFT);
}

/* A start finds its place as it was, with what is still to be drained. */
/* Nobody knows of the swap that seats it whether it arrives: it is not gone before that is known.
 */
static void a_member_can_leave_while_it_joins(void **state)
{
    struct fixture *f = *state;
    struct fg_ring late;

    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_true(f->effects.swap);
    late = f->effects.ring;
    step(f, FG_RING_MEMBER_SWAPPED, 0, false);
    step(f, FG_RING_MEMBER_LEAVE, 0, false);
    step(f, FG_RING_MEMBER_RING, 0, false); /* which is as it was */
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEAVING);
    assert_true(f->effects.swap);
    step(f, FG_RING_MEMBER_SWAPPED, 0, false);
    f->ring = late; /* one of them has arrived */
    f->mono_ns += 1000;
    carry_out(f);
    step(f, FG_RING_MEMBER_DRAINED, fg_ring_newest(&f->ring), false);
    carry_out(f);
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEFT);
    assert_int_equal(f->ring.n_members, 0);
}

/* ... or somebody else has changed the ring, so that it cannot arrive any more. */
static void a_member_can_leave_before_it_has_joined(void **state)
{
    struct fixture *f = *state;

    step(f, FG_RING_MEMBER_RING, 0, false);
    step(f, FG_RING_MEMBER_SWAPPED, 0, false);
    step(f, FG_RING_MEMBER_LEAVE, 0, false);
    f->ring = ring_make(&f->ring, ring_make_join("other", "", 2), f->arena);
    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEFT);
}

/* It has come with an empty disk, and says so before it goes. */
static void a_member_with_an_empty_disk_can_leave(void **state)
{
    struct fixture *f = *state;

    carry_out(f);
    f->ring = ring_make(&f->ring, ring_make_join("other", "", 2), f->arena);
    init(f, "me", 2);
    step(f, FG_RING_MEMBER_LEAVE, 0, false);
    carry_out(f);
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEAVING);
    step(f, FG_RING_MEMBER_DRAINED, fg_ring_newest(&f->ring), false);
    carry_out(f);
    assert_int_equal(f->member.state, FG_RING_MEMBER_LEFT);
    f->ring = ring_make(&f->ring,
                        (struct fg_ring_change){
                            .kind = FG_RING_DRAINED,
                            .name = FG_LIT("other"),
                            .store = f->ring.members[fg_ring_find(&f->ring, FG_LIT("other"))].store,
                            .revision = fg_ring_newest(&f->ring)},
                        f->arena);
    assert_int_equal(f->ring.n_revisions, 1);
    assert_int_equal(f->ring.n_members, 1);
}

static void a_restart_keeps_the_membership(void **state)
{
    struct fixture *f = *state;

    carry_out(f);
    f->ring = ring_make(&f->ring, ring_make_join("other", "", 2), f->arena);
    init(f, "me", 1);
    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_int_equal(f->member.state, FG_RING_MEMBER_ACTIVE);
    assert_false(f->effects.swap);
    assert_int_equal(f->effects.drain, 2);
}

static void lost_swaps_back_off(void **state)
{
    struct fixture *f = *state;

    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_true(f->effects.swap);
    step(f, FG_RING_MEMBER_SWAPPED, 0, false); /* lost, or nobody knows */
    for (int i = 0; i < 10; i++) {
        assert_false(f->effects.read);
        assert_in_range(f->effects.wake_mono_ns, f->mono_ns + 1, f->mono_ns + 1000);
        step(f, FG_RING_MEMBER_RING, 0, false); /* somebody else has read it */
        assert_false(f->effects.swap);
        f->mono_ns = f->effects.wake_mono_ns;
        step(f, FG_RING_MEMBER_TICK, 0, false);
        assert_true(f->effects.read);
        step(f, FG_RING_MEMBER_TICK, 0, false);
        assert_false(f->effects.read); /* it is being read */
        step(f, FG_RING_MEMBER_RING, 0, false);
        assert_true(f->effects.swap);
        step(f, FG_RING_MEMBER_SWAPPED, 0, false);
        while (f->effects.read) { /* a pause of nothing */
            step(f, FG_RING_MEMBER_RING, 0, false);
            step(f, FG_RING_MEMBER_SWAPPED, 0, false);
        }
    }
}

static void a_second_store_replaces_the_first(void **state)
{
    struct fixture *f = *state;

    carry_out(f);
    f->ring = ring_make(&f->ring, ring_make_join("me", "z", 99), f->arena);
    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_int_equal(f->member.state, FG_RING_MEMBER_REPLACED);
    assert_false(f->effects.swap || f->effects.read);
    step(f, FG_RING_MEMBER_LEAVE, 0, false);
    assert_int_equal(f->member.state, FG_RING_MEMBER_REPLACED);
    assert_false(f->effects.read);
}

/* With an empty disk: the place is taken over. */
static void a_new_store_takes_the_name_over(void **state)
{
    struct fixture *f = *state;

    carry_out(f);
    init(f, "me", 99);
    carry_out(f);
    assert_int_equal(f->member.state, FG_RING_MEMBER_ACTIVE);
    assert_int_equal(f->ring.n_members, 1);
    assert_int_equal(f->ring.members[0].store.lo, 99);
    assert_int_equal(fg_ring_newest(&f->ring), 2);
    assert_int_equal(f->effects.drain, 0);
}

static void a_forgotten_member_joins_again(void **state)
{
    struct fixture *f = *state;

    carry_out(f);
    f->ring = ring_make(&f->ring, ring_make_forget("me"), f->arena);
    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_int_equal(f->member.state, FG_RING_MEMBER_JOINING);
    assert_true(f->effects.swap);
    f->ring = f->effects.ring;
    step(f, FG_RING_MEMBER_SWAPPED, 0, true);
    carry_out(f);
    assert_int_equal(f->member.state, FG_RING_MEMBER_ACTIVE);
}

/* Where the ring takes no more revisions, what is drained is said all the same. */
static void wake(struct fixture *f)
{
    f->mono_ns = f->effects.wake_mono_ns;
    assert_int_not_equal(f->mono_ns, INT64_MAX);
    step(f, FG_RING_MEMBER_TICK, 0, false);
    assert_true(f->effects.read);
    carry_out(f);
}

/* It serves while it waits; after the restart others go on only when it has been ready for a
 * while. */
static void a_restart_waits_for_the_maintenance_of_others(void **state)
{
    struct fixture *f = *state;
    struct fg_ring_change other = {
        .kind = FG_RING_PAUSE, .name = FG_LIT("other"), .store = {2, 1}, .wall_ns = 1};

    f->ready = true;
    carry_out(f);
    f->ring = ring_make(&f->ring, ring_make_join("other", "", 2), f->arena);
    f->ring = ring_make(&f->ring, other, f->arena);
    carry_out(f);
    step(f, FG_RING_MEMBER_PAUSE, 0, false);
    assert_true(f->effects.read);
    for (unsigned i = 0; i < 3; i++) {
        carry_out(f);
        assert_false(f->member.paused);
        assert_int_equal(f->member.state, FG_RING_MEMBER_ACTIVE);
        assert_int_equal(f->effects.wake_mono_ns - f->mono_ns, FG_SECOND_NS);
        wake(f);
    }
    other.kind = FG_RING_RESUME;
    f->ring = ring_make(&f->ring, other, f->arena);
    wake(f);
    assert_true(f->member.paused);
    assert_true(fg_ring_is_paused(&f->ring, fg_ring_find(&f->ring, FG_LIT("me"))));
    assert_int_equal(f->effects.wake_mono_ns, INT64_MAX);

    /* Another process of the same store. */
    init(f, "me", 1);
    f->ready = false;
    carry_out(f);
    wake(f);
    assert_true(fg_ring_is_paused(&f->ring, fg_ring_find(&f->ring, FG_LIT("me"))));
    f->ready = true;
    for (unsigned i = 0; i < 5; i++) {
        wake(f);
        assert_true(fg_ring_is_paused(&f->ring, fg_ring_find(&f->ring, FG_LIT("me"))));
    }
    wake(f);
    assert_false(fg_ring_is_paused(&f->ring, fg_ring_find(&f->ring, FG_LIT("me"))));
    assert_int_equal(f->effects.wake_mono_ns, INT64_MAX);
    assert_int_equal(f->ring.overrides, 0);
}

static void a_member_that_cannot_wait_stops_anyway(void **state)
{
    struct fixture *f = *state;
    const struct fg_ring_change other = {
        .kind = FG_RING_PAUSE, .name = FG_LIT("other"), .store = {2, 1}, .wall_ns = 1};
    struct fg_ring_member_event anyway = {.kind = FG_RING_MEMBER_PAUSE, .anyway = true};

    carry_out(f);
    f->ring = ring_make(&f->ring, ring_make_join("other", "", 2), f->arena);
    f->ring = ring_make(&f->ring, other, f->arena);
    step(f, FG_RING_MEMBER_PAUSE, 0, false);
    carry_out(f);
    assert_false(f->member.paused);
    fg_ring_member_step(&f->member, &anyway, &f->effects);
    assert_true(f->effects.read); /* now, and not in a second */
    carry_out(f);
    assert_true(f->member.paused);
    assert_int_equal(f->ring.overrides, 1);
}

static void a_full_ring_is_retried(void **state)
{
    struct fixture *f = *state;
    char zone[16];

    carry_out(f);
    f->ring = ring_make(&f->ring, ring_make_join("other", "", 2), f->arena);
    for (unsigned i = 0; f->ring.n_revisions < FG_RING_REVISIONS_MAX; i++) {
        (void)snprintf(zone, sizeof zone, "z-%u", i);
        f->ring = ring_make(&f->ring, ring_make_join("other", zone, 2), f->arena);
        f->ring.revisions[f->ring.n_revisions - 1].places[1].zone =
            fg_arena_copy(f->arena, fg_cstr(zone));
    }
    init(f, "new", 3);
    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_false(f->effects.swap);
    assert_int_equal(f->member.err.code, FG_E_LIMIT);
    assert_int_equal(f->member.state, FG_RING_MEMBER_JOINING);
    assert_true(f->effects.read || f->effects.wake_mono_ns < INT64_MAX);

    init(f, "me", 1);
    f->member.config.zone = FG_LIT("elsewhere");
    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_false(f->effects.swap);
    assert_int_equal(f->effects.drain, fg_ring_newest(&f->ring));
    step(f, FG_RING_MEMBER_DRAINED, f->effects.drain, false);
    step(f, FG_RING_MEMBER_RING, 0, false);
    assert_true(f->effects.swap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_member_joins_drains_and_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_can_leave_while_it_joins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_can_leave_before_it_has_joined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_with_an_empty_disk_can_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restart_keeps_the_membership, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lost_swaps_back_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_store_replaces_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_store_takes_the_name_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_forgotten_member_joins_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restart_waits_for_the_maintenance_of_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_cannot_wait_stops_anyway, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_ring_is_retried, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
