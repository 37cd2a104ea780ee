/* How an edit ends. That it is right whatever happens is shown by tests/sim. */
#include "common/base/time.h"
#include "compactor/edit_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A manifest with one segment of tenant "t", and the tenant's. */
struct world {
    struct fg_arena *arena;
    struct fg_l0 l0;
    struct fg_blocks blocks;
};

static struct world begin(void)
{
    struct world world = {fg_arena_create(1 << 20), fg_l0_none(), fg_blocks_none(FG_LIT("t"))};
    struct fg_l0_new_part part = {.tenant = FG_LIT("t"), .profiles = 1};
    struct fg_l0_new new = {.id = {{1, 1}, 1, 1},
                            .profiles = 1,
                            .parts = &part,
                            .n_parts = 1,
                            .groups = fg_late_filter_none()};
    struct fg_err err;

    assert_int_equal(fg_l0_commit(&world.l0, &new, 0, 1, world.arena, &world.l0, &err), FG_OK);
    return world;
}

static void look(struct cmp_edit *edit, struct world *world)
{
    cmp_edit_read(edit, &world->l0, &world->blocks, 7, world->arena);
}

static const uint64_t first[] = {1};

static void blocks_enter_once_whatever_gets_lost(void **state)
{
    const struct fg_blocks_entry entry = {.id = {9, 9}}, other = {.id = {8, 8}};
    struct cmp_edit_task task = {
        .kind = EDIT_APPLY, .change = {.add = &entry, .n_add = 1, .cover = first, .n_cover = 1}};
    struct world world = begin();
    struct cmp_edit edit;

    (void)state;
    assert_false(cmp_edit_is_l0(task.kind));
    cmp_edit_init(&edit, &task, 1);
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_SWAPPING);
    cmp_edit_swapped(&edit, false, 100); /* according to the store; but it is there */
    assert_int_equal(edit.state, EDIT_READING);
    assert_true(edit.not_before_mono_ns >= 100);
    world.blocks = edit.blocks;
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_DONE);

    task.change.add = &other;
    cmp_edit_init(&edit, &task, 1);
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_LOST);
    assert_int_equal(edit.err.code, FG_E_ABORTED);
    fg_arena_destroy(world.arena);
}

static void segments_retire_once_whatever_gets_lost(void **state)
{
    const struct cmp_edit_task retire = {.kind = EDIT_RETIRE, .generations = first, .count = 1};
    struct cmp_edit_task deleted = {.kind = EDIT_DELETED_SEGMENTS, .count = 1};
    struct world world = begin();
    struct cmp_edit edit;

    (void)state;
    assert_true(cmp_edit_is_l0(EDIT_RETIRE));
    cmp_edit_init(&edit, &retire, 1);
    look(&edit, &world);
    assert_int_equal(edit.l0.gone[0].since_wall_ns, 7);
    cmp_edit_swapped(&edit, true, 100);
    assert_int_equal(edit.not_before_mono_ns, 100);
    world.l0 = edit.l0;
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_DONE);

    deleted.segments = &world.l0.gone[0].id;
    cmp_edit_init(&edit, &deleted, 1);
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_SWAPPING);
    assert_int_equal(edit.l0.n_gone, 0);
    fg_arena_destroy(world.arena);
}

static void tombstones_enter_and_leave_once(void **state)
{
    struct cmp_edit_task task = {
        .kind = EDIT_BURY, .tombstone = {.id = {3, 3}, .selector = FG_LIT("{}"), .end_ns = 1}};
    struct world world = begin();
    struct cmp_edit edit;

    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        cmp_edit_init(&edit, &task, 1);
        look(&edit, &world);
        assert_int_equal(edit.state, EDIT_SWAPPING);
        world.blocks = edit.blocks;
        assert_int_equal(world.blocks.n_tombstones, pass == 0 ? 1 : 0);
        cmp_edit_swapped(&edit, true, 0);
        look(&edit, &world);
        assert_int_equal(edit.state, EDIT_DONE);
        task.kind = EDIT_UNBURY;
    }
    task.kind = EDIT_BURY;
    cmp_edit_init(&edit, &task, 1);
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_DONE); /* it has ended: a late attempt changes nothing */
    task.tombstone.id.lo = 4;
    task.tombstone.end_ns = -1;
    cmp_edit_init(&edit, &task, 1);
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_FAILED);
    assert_int_equal(edit.err.code, FG_E_INVALID);
    fg_arena_destroy(world.arena);
}

static void a_number_is_asked_once(void **state)
{
    const struct cmp_edit_task ask = {.kind = EDIT_ASK, .asked = 4};
    const struct fg_blocks_await await = {.tombstone = {3, 3}, .awaits = 4};
    struct cmp_edit_task wait = {.kind = EDIT_AWAIT, .awaits = &await, .count = 1};
    struct fg_blocks_tombstone tombstone = {.id = {3, 3}, .selector = FG_LIT("{}"), .end_ns = 1};
    struct world world = begin();
    struct cmp_edit edit;
    struct fg_err err;
    bool changed;

    (void)state;
    assert_true(cmp_edit_is_l0(EDIT_ASK));
    cmp_edit_init(&edit, &ask, 1);
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_SWAPPING);
    assert_int_equal(edit.l0.asked, 4);
    cmp_edit_swapped(&edit, false, 0);
    world.l0 = edit.l0;
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_DONE);

    assert_int_equal(
        fg_blocks_bury(&world.blocks, &tombstone, world.arena, &world.blocks, &changed, &err),
        FG_OK);
    cmp_edit_init(&edit, &wait, 1);
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_SWAPPING);
    assert_int_equal(edit.blocks.tombstones[0].awaits, 4);
    cmp_edit_swapped(&edit, true, 0);
    world.blocks = edit.blocks;
    look(&edit, &world);
    assert_int_equal(edit.state, EDIT_DONE);
    fg_arena_destroy(world.arena);
}

static void an_edit_gives_up_after_its_attempts(void **state)
{
    const struct cmp_edit_task retire = {.kind = EDIT_RETIRE, .generations = first, .count = 1};
    const struct fg_err away = {.code = FG_E_UNAVAILABLE, .msg = "away"};
    struct world world = begin();
    struct cmp_edit edit;
    int tries = 0;

    (void)state;
    cmp_edit_init(&edit, &retire, 1);
    while (edit.state == EDIT_READING) {
        assert_true(edit.not_before_mono_ns <= 10 * FG_SECOND_NS);
        if (tries++ % 2 == 0) {
            cmp_edit_read_failed(&edit, &away, 0);
            continue;
        }
        look(&edit, &world);
        cmp_edit_swapped(&edit, false, 0);
    }
    assert_int_equal(edit.state, EDIT_FAILED);
    assert_int_equal(tries, EDIT_ATTEMPTS_MAX);
    fg_arena_destroy(world.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_enter_once_whatever_gets_lost),
        cmocka_unit_test(segments_retire_once_whatever_gets_lost),
        cmocka_unit_test(tombstones_enter_and_leave_once),
        cmocka_unit_test(a_number_is_asked_once),
        cmocka_unit_test(an_edit_gives_up_after_its_attempts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
