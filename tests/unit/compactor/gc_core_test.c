#include "compactor/gc_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct cmp_gc_config config = {
    .retire_after_ns = 100, .grace_ns = 1000, .orphan_after_ns = 10000};

/* Segment 1 of "a" and "b", entered at 0; segment 2 of "a", entered at 50. */
static struct fg_l0 segments(struct fg_arena *arena)
{
    struct fg_l0_new_part parts[] = {{.tenant = FG_LIT("a"), .profiles = 1},
                                     {.tenant = FG_LIT("b"), .profiles = 1}};
    struct fg_l0 l0 = fg_l0_none();
    struct fg_err err;

    for (uint32_t i = 0; i < 2; i++) {
        struct fg_l0_new new = {.id = {{1, 1}, i + 1, 1},
                                .profiles = 2 - i,
                                .parts = parts,
                                .n_parts = 2 - i,
                                .groups = fg_late_filter_none()};

        assert_int_equal(fg_l0_commit(&l0, &new, 50 * (int64_t)i, 1, arena, &l0, &err), FG_OK);
    }
    return l0;
}

static struct fg_blocks cover(const struct fg_l0 *l0, struct fg_slice tenant, uint64_t generation,
                              struct fg_arena *arena)
{
    struct fg_blocks blocks = fg_blocks_none(tenant);
    struct fg_blocks_change change = {.cover = &generation, .n_cover = 1};
    struct fg_err err;
    bool changed;

    assert_int_equal(fg_blocks_apply(&blocks, l0, &change, 0, arena, &blocks, &changed, &err),
                     FG_OK);
    return blocks;
}

static void uncovered_segments_are_listed(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 l0 = segments(arena);
    struct fg_blocks none = fg_blocks_none(FG_LIT("a")), other = fg_blocks_none(FG_LIT("c"));
    struct fg_blocks first = cover(&l0, FG_LIT("a"), 1, arena);
    uint64_t *generations;
    uint32_t n;
    struct fg_err err;

    (void)state;
    assert_int_equal(cmp_gc_uncovered(&l0, &none, arena, &generations, &n, &err), FG_OK);
    assert_int_equal(n, 2);
    assert_int_equal(cmp_gc_uncovered(&l0, &first, arena, &generations, &n, &err), FG_OK);
    assert_int_equal(n, 1);
    assert_int_equal(generations[0], 2);
    assert_int_equal(cmp_gc_uncovered(&l0, &other, arena, &generations, &n, &err), FG_OK);
    assert_int_equal(n, 0);
    fg_arena_destroy(arena);
}

/* Old enough, and covered by all of its tenants. */
static void only_covered_old_segments_retire(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 l0 = segments(arena);
    struct fg_blocks a = cover(&l0, FG_LIT("a"), 1, arena), b = cover(&l0, FG_LIT("b"), 1, arena);
    const struct fg_blocks *blocks[] = {&a, NULL};
    uint64_t *generations;
    uint32_t n;
    struct fg_err err;

    (void)state;
    assert_int_equal(cmp_gc_retirable(&config, &l0, blocks, 500, arena, &generations, &n, &err),
                     FG_OK);
    assert_int_equal(n, 0);
    blocks[1] = &b;
    assert_int_equal(cmp_gc_retirable(&config, &l0, blocks, 99, arena, &generations, &n, &err),
                     FG_OK);
    assert_int_equal(n, 0);
    assert_int_equal(cmp_gc_retirable(&config, &l0, blocks, 100, arena, &generations, &n, &err),
                     FG_OK);
    assert_int_equal(n, 1);
    assert_int_equal(generations[0], 1);
    fg_arena_destroy(arena);
}

static void objects_are_deleted_after_their_grace_period(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0_gone left[] = {{.id = {{1, 1}, 1, 1}, .since_wall_ns = 5},
                                {.id = {{1, 1}, 2, 1}, .since_wall_ns = 50}};
    struct fg_blocks_gone replaced[] = {{.id = {1, 1}, .since_wall_ns = 50},
                                        {.id = {2, 1}, .since_wall_ns = 5}};
    struct fg_l0 l0 = {.gone = left, .n_gone = 2};
    struct fg_blocks blocks = {.gone = replaced, .n_gone = 2};
    struct fg_segment_id *segments_;
    struct fg_id *ids;
    uint32_t n;
    struct fg_err err;

    (void)state;
    assert_int_equal(cmp_gc_deletable_segments(&config, &l0, 1005, arena, &segments_, &n, &err),
                     FG_OK);
    assert_int_equal(n, 1);
    assert_int_equal(segments_[0].cut, 1);
    assert_int_equal(cmp_gc_deletable_blocks(&config, &blocks, 1005, arena, &ids, &n, &err), FG_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0].lo, 2);
    fg_arena_destroy(arena);
}

static void only_unlisted_old_objects_are_orphans(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 l0 = segments(arena);
    struct fg_blocks_entry entry = {.id = {7, 7}};
    struct fg_blocks_gone gone = {.id = {8, 8}};
    struct fg_blocks blocks = {.blocks = &entry, .n_blocks = 1, .gone = &gone, .n_gone = 1};
    struct fg_name segment = {.kind = FG_NAME_IS_SEGMENT, .segment = {{1, 1}, 1, 1}};
    struct fg_name block = {.kind = FG_NAME_IS_BLOCK, .block = {7, 7}};
    struct fg_name manifest = {.kind = FG_NAME_IS_BLOCKS}, first = {.kind = FG_NAME_IS_L0};
    int64_t later = 1000000;

    (void)state;
    assert_false(cmp_gc_is_orphan(&config, &segment, 0, later, &l0, NULL));
    segment.segment.nonce = 2; /* another upload of the same cut */
    assert_true(cmp_gc_is_orphan(&config, &segment, 0, later, &l0, NULL));
    assert_false(cmp_gc_is_orphan(&config, &segment, later - 9999, later, &l0, NULL));
    assert_false(cmp_gc_is_orphan(&config, &block, 0, later, &l0, &blocks));
    /* A cut that the manifest has not heard of, or a store: it may be from a backup. */
    segment.segment.cut = 1000;
    assert_false(cmp_gc_is_orphan(&config, &segment, 0, later, &l0, NULL));
    assert_true(cmp_gc_is_unlisted(&config, &segment, 0, later, &l0));
    assert_false(cmp_gc_is_unlisted(&config, &segment, later - 9999, later, &l0));
    segment.segment.cut = 1;
    assert_false(cmp_gc_is_unlisted(&config, &segment, 0, later, &l0));
    segment.segment.writer.lo = 77;
    assert_false(cmp_gc_is_orphan(&config, &segment, 0, later, &l0, NULL));
    assert_true(cmp_gc_is_unlisted(&config, &segment, 0, later, &l0));
    block.block.lo = block.block.hi = 8;
    assert_false(cmp_gc_is_orphan(&config, &block, 0, later, &l0, &blocks));
    block.block.lo = 9;
    assert_true(cmp_gc_is_orphan(&config, &block, 0, later, &l0, &blocks));
    assert_false(cmp_gc_is_orphan(&config, &manifest, 0, later, &l0, &blocks));
    assert_false(cmp_gc_is_orphan(&config, &first, 0, later, &l0, &blocks));
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uncovered_segments_are_listed),
        cmocka_unit_test(only_covered_old_segments_retire),
        cmocka_unit_test(objects_are_deleted_after_their_grace_period),
        cmocka_unit_test(only_unlisted_old_objects_are_orphans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
