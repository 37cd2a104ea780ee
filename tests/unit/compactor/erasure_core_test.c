/* The order of the steps of an erasure, by what manifests list. */
#include "compactor/erasure_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct fg_id erasure = {7, 7};

struct fixture {
    struct fg_arena *arena;
    struct fg_l0 l0;
    struct fg_blocks blocks;
    struct cmp_erasure_memory memory;
    bool ended;
    struct fg_err err;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->arena = fg_arena_create(16 << 20);
    f->l0 = fg_l0_none();
    f->blocks = fg_blocks_none(FG_LIT("a"));
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

static void commit(struct fixture *f, uint64_t cut, const char *tenant, uint64_t profiles)
{
    struct fg_l0_new_part part = {.tenant = fg_cstr(tenant), .profiles = profiles};
    struct fg_l0_new segment = {.id = {{1, 1}, cut, 1},
                                .profiles = profiles,
                                .parts = &part,
                                .n_parts = 1,
                                .groups = fg_late_filter_none()};

    assert_int_equal(fg_l0_commit(&f->l0, &segment, 10, 1, f->arena, &f->l0, &f->err), FG_OK);
}

static void retire(struct fixture *f, uint64_t generation, int64_t wall_ns)
{
    bool changed;

    assert_int_equal(
        fg_l0_retire(&f->l0, &generation, 1, wall_ns, f->arena, &f->l0, &changed, &f->err), FG_OK);
    assert_true(changed);
}

static void gone(struct fixture *f, uint64_t cut)
{
    const struct fg_segment_id id = {{1, 1}, cut, 1};
    bool changed;

    assert_int_equal(fg_l0_deleted(&f->l0, &id, 1, f->arena, &f->l0, &changed, &f->err), FG_OK);
    assert_true(changed);
}

static void apply(struct fixture *f, const struct fg_blocks_change *change)
{
    bool changed;

    assert_int_equal(
        fg_blocks_apply(&f->blocks, &f->l0, change, 20, f->arena, &f->blocks, &changed, &f->err),
        FG_OK);
    assert_true(changed);
}

/* A block of segment `generation`, and a rollup of that block. */
static void compact(struct fixture *f, uint64_t generation, uint64_t profiles)
{
    static const struct fg_id from = {1, 1};
    const struct fg_blocks_entry block = {
        .id = from, .level = 3, .bytes = 100, .profiles = profiles, .end_ns = 1};
    const struct fg_blocks_entry rollup = {.id = {2, 2},
                                           .level = 4,
                                           .bytes = 10,
                                           .derived = true,
                                           .profiles = profiles,
                                           .end_ns = 1,
                                           .from_blocks = &from,
                                           .n_from_blocks = 1};

    apply(f, &(struct fg_blocks_change){
                 .add = &block, .n_add = 1, .cover = &generation, .n_cover = 1});
    apply(f, &(struct fg_blocks_change){.add = &rollup, .n_add = 1});
}

static void bury(struct fixture *f)
{
    const struct fg_blocks_tombstone all = {
        .id = erasure, .selector = FG_LIT("{}"), .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    bool changed;

    assert_int_equal(fg_blocks_bury(&f->blocks, &all, f->arena, &f->blocks, &changed, &f->err),
                     FG_OK);
}

static void unbury(struct fixture *f)
{
    bool changed;

    assert_int_equal(
        fg_blocks_unbury(&f->blocks, erasure, 30, f->arena, &f->blocks, &changed, &f->err), FG_OK);
    assert_true(changed);
}

static enum cmp_erasure_step next(struct fixture *f)
{
    return cmp_erasure_next(&f->l0, &f->blocks, erasure, f->ended, &f->memory);
}

/* Carries out the change that the core makes; returns how many profiles it took. */
static uint64_t drop(struct fixture *f)
{
    struct cmp_erasure_drop made;

    assert_int_equal(cmp_erasure_make_drop(&f->l0, &f->blocks, erasure, f->arena, &made, &f->err),
                     FG_OK);
    apply(f, &made.change);
    return made.taken.profiles;
}

static void objects_are_deleted(struct fixture *f)
{
    bool changed;

    for (uint32_t i = f->blocks.n_gone; i > 0; i--)
        assert_int_equal(fg_blocks_deleted(&f->blocks, &f->blocks.gone[0].id, 1, f->arena,
                                           &f->blocks, &changed, &f->err),
                         FG_OK);
}

static void a_tenant_leaves_step_by_step(void **state)
{
    struct fixture *f = *state;
    struct cmp_erasure_listed listed;
    bool changed;

    commit(f, 1, "a", 5);
    compact(f, 1, 5);
    commit(f, 2, "a", 3);
    commit(f, 3, "b", 9);
    listed = cmp_erasure_listed(&f->l0, &f->blocks);
    assert_int_equal(listed.blocks, 2);
    assert_int_equal(listed.bytes, 110);
    assert_int_equal(listed.segments, 1);
    assert_int_equal(listed.profiles, 8); /* the rollup's are the block's */
    assert_int_equal(next(f), ERASURE_BURY);
    bury(f);
    assert_int_equal(next(f), ERASURE_DROP);
    assert_int_equal(drop(f), 8);
    assert_int_equal(f->blocks.n_blocks, 0); /* the rollup went with its block */
    assert_int_equal(f->blocks.tombstones[0].profiles, 8);
    assert_int_equal(next(f), ERASURE_ASK);
    unbury(f);
    assert_int_equal(next(f), ERASURE_WAIT); /* for the objects of blocks */
    objects_are_deleted(f);
    assert_int_equal(next(f), ERASURE_WAIT); /* segments are still listed */
    retire(f, 1, 100);
    retire(f, 2, 101);
    assert_int_equal(next(f), ERASURE_WAIT); /* their objects are still there */
    retire(f, 3, 200);
    gone(f, 1);
    assert_int_equal(next(f), ERASURE_WAIT);
    gone(f, 2);
    assert_int_equal(next(f), ERASURE_CLEAR); /* the last one left later, so it is not waited for */
    assert_int_equal(fg_blocks_clear(&f->blocks, erasure, f->arena, &f->blocks, &changed, &f->err),
                     FG_OK);
    assert_true(changed);
    assert_true(fg_blocks_is_clear(&f->blocks, erasure));
    assert_int_equal(f->blocks.n_ended, 1); /* what says that it was done */
    assert_int_equal(fg_blocks_check(&f->blocks, &f->l0, &f->err), FG_OK);
    assert_int_equal(next(f), ERASURE_SWEEP);
    assert_int_equal(next(f), ERASURE_SWEEP);
    f->memory.swept = true;
    assert_int_equal(next(f), ERASURE_END);
    f->ended = true;
    assert_int_equal(next(f), ERASURE_NOTHING);
}

static void late_events_are_dropped(void **state)
{
    struct fixture *f = *state;

    commit(f, 1, "b", 1);
    bury(f);
    unbury(f);
    f->memory.swept = true;
    commit(f, 2, "a", 4);
    assert_int_equal(next(f), ERASURE_DROP);
    assert_int_equal(drop(f), 4);
    assert_int_equal(next(f), ERASURE_WAIT); /* from the beginning, sweep included */
    retire(f, 2, 100);
    gone(f, 2);
    assert_int_not_equal(next(f), ERASURE_END);
    f->ended = true;
    commit(f, 3, "a", 4);
    assert_int_equal(next(f), ERASURE_DROP); /* also when it has ended */
    assert_int_equal(drop(f), 4);
    assert_int_equal(next(f), ERASURE_NOTHING);
}

/* A compactor that stopped may remember nothing: it waits for all that has left by then. */
static void a_new_compactor_waits_longer(void **state)
{
    struct fixture *f = *state;

    commit(f, 1, "a", 1);
    commit(f, 2, "b", 1);
    commit(f, 3, "b", 1);
    bury(f);
    (void)drop(f);
    unbury(f);
    retire(f, 1, 100);
    assert_int_equal(next(f), ERASURE_WAIT);
    retire(f, 2, 150);
    gone(f, 1);
    assert_int_equal(next(f), ERASURE_CLEAR);
    f->memory = (struct cmp_erasure_memory){.unlisted = false};
    assert_int_equal(next(f), ERASURE_WAIT);
    retire(f, 3, 160);
    gone(f, 2);
    assert_int_equal(next(f), ERASURE_CLEAR);
}

static void a_manifest_with_data_is_not_cleared(void **state)
{
    struct fixture *f = *state;
    struct fg_blocks cleared;
    bool changed;

    commit(f, 1, "a", 5);
    compact(f, 1, 5);
    assert_int_equal(fg_blocks_clear(&f->blocks, erasure, f->arena, &cleared, &changed, &f->err),
                     FG_E_ABORTED);
    bury(f);
    (void)drop(f);
    assert_int_equal(fg_blocks_clear(&f->blocks, erasure, f->arena, &cleared, &changed, &f->err),
                     FG_E_ABORTED);
}

/* A late attempt to bury an ended erasure would hide what a new tenant of that name sends. */
static void an_erasure_begins_once(void **state)
{
    struct fixture *f = *state;

    bury(f);
    unbury(f);
    bury(f);
    assert_int_equal(f->blocks.n_tombstones, 0);
}

/* ---- segments that others share and no manifest lists ---- */

enum { OLD_AFTER_NS = 1000 };

static const struct cmp_ingester_store stores[] = {{{1, 1}, FG_LIT("i-1")},
                                                   {{2, 2}, FG_LIT("i-2")}};

static const struct cmp_ingesters both = {.items = stores, .n = 2, .known = true};

/* As a sweep saw them: the next cut of the first store, and a cut of a store that nobody knows. */
static struct cmp_erasure_shared seen(uint64_t awaits)
{
    return (struct cmp_erasure_shared){
        .segments = {{{{1, 1}, 1, 1}, 100}, {{{9, 9}, 4, 1}, 50}}, .n = 2, .awaits = awaits};
}

static void ask(struct fixture *f, uint64_t number)
{
    bool changed;

    fg_l0_ask(&f->l0, number, &f->l0, &changed);
    assert_true(changed);
}

static void answer(struct fixture *f, size_t store, uint64_t number)
{
    bool changed;

    assert_int_equal(
        fg_l0_clean(&f->l0, stores[store].id, number, f->arena, &f->l0, &changed, &f->err), FG_OK);
    assert_true(changed);
}

static enum cmp_erasure_settling settle(struct fixture *f, struct cmp_erasure_shared *shared,
                                        int64_t wall_ns)
{
    return cmp_erasure_settle(shared, &f->l0, &both, OLD_AFTER_NS, wall_ns);
}

static void unlisted_segments_go_when_all_have_answered_and_they_are_old(void **state)
{
    struct cmp_erasure_shared shared = seen(3);
    struct fixture *f = *state;

    ask(f, 2);
    answer(f, 0, 2);
    answer(f, 1, 2);
    assert_int_equal(settle(f, &shared, INT64_MAX), SETTLING_ASK); /* that was before */
    ask(f, 3);
    assert_int_equal(settle(f, &shared, INT64_MAX), SETTLING_WAIT);
    answer(f, 0, 3);
    assert_int_equal(settle(f, &shared, INT64_MAX), SETTLING_WAIT);
    answer(f, 1, 3);
    assert_int_equal(settle(f, &shared, 100 + OLD_AFTER_NS - 1), SETTLING_WAIT);
    assert_int_equal(settle(f, &shared, 100 + OLD_AFTER_NS), SETTLING_DELETE);
    assert_int_equal(shared.n, 2);
    assert_int_equal(cmp_erasure_settle(&shared, &f->l0, &(struct cmp_ingesters){.known = false},
                                        OLD_AFTER_NS, INT64_MAX),
                     SETTLING_WAIT); /* nobody knows who has to answer */
}

/* The manifest is one of a backup: what was asked is lost, and answers with it. */
static void unlisted_segments_are_asked_about_again_in_an_older_manifest(void **state)
{
    struct cmp_erasure_shared shared = seen(3);
    struct fixture *f = *state;

    ask(f, 3);
    answer(f, 0, 3);
    answer(f, 1, 3);
    assert_int_equal(settle(f, &shared, INT64_MAX), SETTLING_DELETE);
    f->l0 = fg_l0_none();
    assert_int_equal(settle(f, &shared, INT64_MAX), SETTLING_ASK);
}

static void segments_whose_cut_was_decided_are_not_waited_for(void **state)
{
    struct cmp_erasure_shared shared = seen(1);
    struct fixture *f = *state;

    shared.segments[1].id = (struct fg_segment_id){{1, 1}, 2, 7};
    commit(f, 1, "b", 1); /* the first one was listed */
    assert_int_equal(settle(f, &shared, INT64_MAX), SETTLING_ASK);
    assert_int_equal(shared.n, 1);
    assert_int_equal(shared.segments[0].id.cut, 2);
    commit(f, 2, "b", 1); /* the cut of the second one, under another name */
    assert_int_equal(settle(f, &shared, INT64_MAX), SETTLING_SWEEP);
    assert_int_equal(shared.n, 0);
}

static void an_erasure_does_not_end_before_they_are_settled(void **state)
{
    struct fixture *f = *state;

    bury(f);
    unbury(f);
    assert_int_equal(next(f), ERASURE_SWEEP);
    f->memory.shared = fg_new(struct cmp_erasure_shared);
    assert_int_equal(next(f), ERASURE_SETTLE);
    assert_int_equal(next(f), ERASURE_SETTLE);
    commit(f, 1, "a", 4);
    assert_int_equal(next(f), ERASURE_DROP); /* what was listed goes first */
    cmp_erasure_forget(&f->memory);
    assert_null(f->memory.shared);
}

static void ids_are_the_same_for_all_compactors(void **state)
{
    (void)state;
    assert_true(fg_id_eq(cmp_erasure_id(FG_LIT("a"), 5), cmp_erasure_id(FG_LIT("a"), 5)));
    assert_false(fg_id_eq(cmp_erasure_id(FG_LIT("a"), 5), cmp_erasure_id(FG_LIT("a"), 6)));
    assert_false(fg_id_eq(cmp_erasure_id(FG_LIT("a"), 5), cmp_erasure_id(FG_LIT("b"), 5)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tenant_leaves_step_by_step),
        TEST(late_events_are_dropped),
        TEST(a_new_compactor_waits_longer),
        TEST(a_manifest_with_data_is_not_cleared),
        TEST(an_erasure_begins_once),
        TEST(unlisted_segments_go_when_all_have_answered_and_they_are_old),
        TEST(unlisted_segments_are_asked_about_again_in_an_older_manifest),
        TEST(segments_whose_cut_was_decided_are_not_waited_for),
        TEST(an_erasure_does_not_end_before_they_are_settled),
        TEST(ids_are_the_same_for_all_compactors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
