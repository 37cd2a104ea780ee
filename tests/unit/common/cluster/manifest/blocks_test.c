#include "common/cluster/manifest/blocks.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Segments 1 to 4; tenant "t" has something in 1, 2 and 4, "u" in 3. */
static struct fg_l0 segments(struct fg_arena *arena)
{
    struct fg_l0 l0 = fg_l0_none();
    struct fg_err err;

    for (uint64_t cut = 1; cut <= 4; cut++) {
        struct fg_l0_new_part part = {.tenant = cut == 3 ? FG_LIT("u") : FG_LIT("t"),
                                      .profiles = 1};
        struct fg_l0_new new = {.id = {{1, 1}, cut, cut},
                                .profiles = 1,
                                .parts = &part,
                                .n_parts = 1,
                                .groups = fg_late_filter_none()};

        assert_int_equal(fg_l0_commit(&l0, &new, 0, 1, arena, &l0, &err), FG_OK);
    }
    return l0;
}

static struct fg_blocks_entry entry(uint64_t id)
{
    return (struct fg_blocks_entry){.id = {id, 0},
                                    .level = 1,
                                    .start_ns = -10,
                                    .end_ns = 90,
                                    .t_min_ns = -5,
                                    .t_max_ns = 80,
                                    .shard_first = 3,
                                    .shard_last = 9,
                                    .bytes = 1000,
                                    .directory_offset = 900,
                                    .directory_bytes = 100,
                                    .rollup_offset = 500,
                                    .rollup_bytes = 400,
                                    .profiles = 7,
                                    .digest = {id, id},
                                    .usage = id % 2 == 0 ? (struct fg_usage){1, id, 2 * id, 3 * id}
                                                         : (struct fg_usage){0}};
}

static enum fg_code apply(struct fg_blocks *blocks, const struct fg_l0 *l0, uint64_t add,
                          const uint64_t *cover, uint32_t n_cover, const struct fg_id *replace,
                          uint32_t n_replace, struct fg_arena *arena, bool *ret_changed)
{
    struct fg_blocks_entry made = entry(add);
    struct fg_blocks_change change = {.add = &made,
                                      .n_add = add != 0,
                                      .cover = cover,
                                      .n_cover = n_cover,
                                      .replace = replace,
                                      .n_replace = n_replace};
    struct fg_err err;

    return fg_blocks_apply(blocks, l0, &change, 50, arena, blocks, ret_changed, &err);
}

static void assert_round_trip(const struct fg_blocks *blocks, struct fg_arena *arena)
{
    struct fg_buf bytes, again;
    struct fg_blocks read;
    struct fg_err err;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    fg_buf_init(&again, FG_MANIFEST_MAX_BYTES);
    assert_int_equal(fg_blocks_encode(blocks, &bytes, &err), FG_OK);
    if (fg_blocks_decode(fg_buf_slice(&bytes), blocks->tenant, arena, &read, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(fg_blocks_encode(&read, &again, &err), FG_OK);
    assert_true(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
    for (uint32_t i = 0; i < read.n_blocks; i++)
        assert_true(fg_usage_eq(&read.blocks[i].usage, &blocks->blocks[i].usage));
    assert_int_equal(fg_blocks_decode(fg_buf_slice(&bytes), FG_LIT("other"), arena, &read, &err),
                     FG_E_CORRUPT);
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.ptr[i] ^= 1;
        assert_int_not_equal(
            fg_blocks_decode(fg_buf_slice(&bytes), blocks->tenant, arena, &read, &err), FG_OK);
        bytes.ptr[i] ^= 1;
    }
    fg_buf_done(&bytes);
    fg_buf_done(&again);
}

static void covered_segments_raise_the_floor(void **state)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct fg_l0 l0 = segments(arena);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    const uint64_t two[] = {2}, three[] = {3}, one_four[] = {4, 1};
    bool changed;

    (void)state;
    assert_round_trip(&blocks, arena);
    assert_int_equal(apply(&blocks, &l0, 100, two, 1, NULL, 0, arena, &changed), FG_OK);
    assert_true(changed);
    assert_int_equal(blocks.covered_floor, 0); /* 1 is not covered */
    assert_int_equal(blocks.newest, 2);
    assert_true(fg_blocks_covers(&blocks, 2));
    assert_false(fg_blocks_covers(&blocks, 1));
    assert_int_equal(fg_blocks_find(&blocks, (struct fg_id){100, 0})->from_segments[0], 2);
    assert_round_trip(&blocks, arena);

    /* The same again is done already; another one is too late; what is not the tenant's is not. */
    assert_int_equal(apply(&blocks, &l0, 100, two, 1, NULL, 0, arena, &changed), FG_OK);
    assert_false(changed);
    assert_int_equal(apply(&blocks, &l0, 101, two, 1, NULL, 0, arena, &changed), FG_E_ABORTED);
    assert_int_equal(apply(&blocks, &l0, 101, three, 1, NULL, 0, arena, &changed), FG_E_ABORTED);

    assert_int_equal(apply(&blocks, &l0, 102, one_four, 2, NULL, 0, arena, &changed), FG_OK);
    assert_int_equal(blocks.covered_floor, 4);
    assert_int_equal(blocks.n_covered, 0);
    assert_int_equal(blocks.newest, 4);
    assert_int_equal(fg_blocks_find(&blocks, (struct fg_id){102, 0})->from_segments[0], 1);
    assert_round_trip(&blocks, arena);
    fg_arena_destroy(arena);
}

static void replaced_blocks_leave_with_their_rollups(void **state)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct fg_l0 l0 = segments(arena);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    const uint64_t one[] = {1}, two[] = {2};
    const struct fg_id both[] = {{12, 0}, {11, 0}}, merged[] = {{13, 0}};
    bool changed;
    struct fg_err err;

    (void)state;
    assert_int_equal(apply(&blocks, &l0, 12, one, 1, NULL, 0, arena, &changed), FG_OK);
    assert_int_equal(apply(&blocks, &l0, 11, two, 1, NULL, 0, arena, &changed), FG_OK);
    assert_int_equal(apply(&blocks, &l0, 13, NULL, 0, both, 2, arena, &changed), FG_OK);
    assert_int_equal(blocks.n_blocks, 1);
    assert_int_equal(blocks.n_gone, 2);
    assert_int_equal(blocks.gone[0].since_wall_ns, 50);
    assert_int_equal(blocks.blocks[0].n_from_blocks, 2);
    assert_true(fg_blocks_covers(&blocks, 2));
    assert_round_trip(&blocks, arena);
    assert_int_equal(apply(&blocks, &l0, 14, NULL, 0, both, 2, arena, &changed), FG_E_ABORTED);
    assert_int_equal(apply(&blocks, &l0, 12, NULL, 0, merged, 1, arena, &changed), FG_E_ABORTED);

    /* Retention: nothing comes in its place. */
    assert_int_equal(apply(&blocks, &l0, 0, NULL, 0, merged, 1, arena, &changed), FG_OK);
    assert_true(changed);
    assert_int_equal(apply(&blocks, &l0, 0, NULL, 0, merged, 1, arena, &changed), FG_OK);
    assert_false(changed);
    assert_int_equal(blocks.n_blocks, 0);

    assert_int_equal(fg_blocks_deleted(&blocks, both, 2, arena, &blocks, &changed, &err), FG_OK);
    assert_true(changed);
    assert_int_equal(blocks.n_gone, 1);
    assert_int_equal(fg_blocks_deleted(&blocks, both, 2, arena, &blocks, &changed, &err), FG_OK);
    assert_false(changed);
    assert_round_trip(&blocks, arena);
    fg_arena_destroy(arena);
}

/* Nodes that are alone take the place of blocks, to the profile. */
static void a_rollup_replaces_blocks_only_if_it_adds_up(void **state)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct fg_l0 l0 = segments(arena);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    const uint64_t one[] = {1}, two[] = {2};
    const struct fg_id both[] = {{11, 0}, {12, 0}}, thirty[] = {{30, 0}};
    struct fg_blocks_entry bound = entry(20), nodes = entry(30);
    struct fg_blocks_change above = {.add = &bound, .n_add = 1};
    struct fg_blocks_change change = {.add = &nodes, .n_add = 1, .replace = both, .n_replace = 2};
    struct fg_err err;
    bool changed;

    (void)state;
    assert_int_equal(apply(&blocks, &l0, 11, one, 1, NULL, 0, arena, &changed), FG_OK);
    assert_int_equal(apply(&blocks, &l0, 12, two, 1, NULL, 0, arena, &changed), FG_OK);
    bound.level = nodes.level = 4;
    bound.derived = nodes.derived = nodes.rollup_only = true;
    bound.from_blocks = both;
    bound.n_from_blocks = 2;
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &above, 50, arena, &blocks, &changed, &err),
                     FG_OK);

    nodes.profiles = 1;
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_E_INTERNAL);
    nodes.profiles = blocks.blocks[0].profiles + blocks.blocks[1].profiles;
    nodes.digest = fg_id_add(blocks.blocks[0].digest, blocks.blocks[1].digest);
    nodes.digest.hi++;
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_E_INTERNAL);
    nodes.digest.hi--;
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_OK);
    assert_true(changed);
    assert_int_equal(blocks.n_blocks, 1); /* those bound to the blocks have left with them */
    assert_int_equal(blocks.n_gone, 3);
    assert_true(blocks.blocks[0].rollup_only);
    assert_int_equal(blocks.blocks[0].n_from_blocks, 2);
    assert_true(fg_id_eq(blocks.blocks[0].from_blocks[1], both[1]));
    assert_round_trip(&blocks, arena);
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_OK);
    assert_false(changed);

    /* A deletion takes some of it: what is left takes its place in turn. */
    nodes.id.lo = 31;
    nodes.profiles = 1;
    change.replace = thirty;
    change.n_replace = 1;
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 60, arena, &blocks, &changed, &err),
                     FG_OK);
    assert_int_equal(blocks.n_blocks, 1);
    assert_int_equal(blocks.blocks[0].profiles, 1);
    assert_round_trip(&blocks, arena);
    fg_arena_destroy(arena);
}

/* Nodes of other blocks live as long as all of these. */
static void rollups_live_as_long_as_their_sources(void **state)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct fg_l0 l0 = segments(arena);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    const uint64_t one[] = {1}, two[] = {2}, four[] = {4};
    const struct fg_id both[] = {{11, 0}, {12, 0}}, first[] = {{11, 0}}, twenty[] = {{20, 0}};
    struct fg_blocks_entry nodes = entry(20);
    struct fg_blocks_change change = {.add = &nodes, .n_add = 1};
    struct fg_blocks before;
    struct fg_err err;
    bool changed;

    (void)state;
    nodes.level = 4;
    nodes.derived = true;
    nodes.from_blocks = both;
    nodes.n_from_blocks = 2;
    assert_int_equal(apply(&blocks, &l0, 11, one, 1, NULL, 0, arena, &changed), FG_OK);
    /* 12 is not there yet. */
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_E_ABORTED);
    assert_int_equal(apply(&blocks, &l0, 12, two, 1, NULL, 0, arena, &changed), FG_OK);
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_OK);
    assert_true(changed);
    assert_int_equal(blocks.n_blocks, 3);
    assert_int_equal(blocks.n_gone, 0);
    assert_int_equal(fg_blocks_find(&blocks, twenty[0])->n_from_blocks, 2);
    assert_int_equal(fg_blocks_find(&blocks, twenty[0])->n_from_segments, 0);
    assert_round_trip(&blocks, arena);
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_OK);
    assert_false(changed);

    /* Of a level and span there is one; and none is made of others' nodes. */
    nodes.id.lo = 21;
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_E_ABORTED);
    nodes.level = 5;
    nodes.from_blocks = twenty;
    nodes.n_from_blocks = 1;
    assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 50, arena, &blocks, &changed, &err),
                     FG_E_ABORTED);

    /* One of what it is made of goes: so does it. */
    before = blocks;
    assert_int_equal(apply(&blocks, &l0, 13, four, 1, first, 1, arena, &changed), FG_OK);
    assert_int_equal(blocks.n_blocks, 2);
    assert_null(fg_blocks_find(&blocks, twenty[0]));
    assert_int_equal(blocks.n_gone, 2);
    assert_round_trip(&blocks, arena);

    /* It may go by itself; what is left behind without what it is made of is no manifest. */
    assert_int_equal(apply(&before, &l0, 0, NULL, 0, twenty, 1, arena, &changed), FG_OK);
    assert_int_equal(before.n_blocks, 2);
    nodes.from_blocks = both;
    nodes.n_from_blocks = 2;
    assert_int_equal(fg_blocks_apply(&before, &l0, &change, 50, arena, &before, &changed, &err),
                     FG_OK);
    assert_int_equal(before.n_blocks, 3);
    {
        struct fg_buf bytes;

        before.blocks[1] = before.blocks[2];
        before.n_blocks = 2;
        fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
        assert_int_equal(fg_blocks_encode(&before, &bytes, &err), FG_OK);
        assert_int_equal(fg_blocks_decode(fg_buf_slice(&bytes), FG_LIT("t"), arena, &before, &err),
                         FG_E_CORRUPT);
        fg_buf_done(&bytes);
    }
    fg_arena_destroy(arena);
}

static void must_bury(struct fg_blocks *blocks, const struct fg_blocks_tombstone *stone,
                      struct fg_arena *arena)
{
    bool changed;
    struct fg_err err;

    if (fg_blocks_bury(blocks, stone, arena, blocks, &changed, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_true(changed);
}

static void must_unbury(struct fg_blocks *blocks, struct fg_id id, bool is_there,
                        struct fg_arena *arena)
{
    bool changed;
    struct fg_err err;

    assert_int_equal(fg_blocks_unbury(blocks, id, 7, arena, blocks, &changed, &err), FG_OK);
    assert_int_equal(changed, is_there);
}

static void tombstones_are_added_and_ended_once(void **state)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    struct fg_blocks_tombstone stone = {
        .id = {5, 5}, .selector = FG_LIT("{pod=\"x\"}"), .end_ns = 9, .asked_wall_ns = 3};
    struct fg_buf text;
    json_t *root;
    bool changed;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_blocks_bury(&blocks, &stone, arena, &blocks, &changed, &err), FG_OK);
    assert_true(changed);
    assert_int_equal(fg_blocks_bury(&blocks, &stone, arena, &blocks, &changed, &err), FG_OK);
    assert_false(changed);
    stone.id.lo = 4;
    stone.end_ns = -1;
    assert_int_equal(fg_blocks_bury(&blocks, &stone, arena, &blocks, &changed, &err), FG_E_INVALID);
    blocks.blocks = (struct fg_blocks_entry[]){entry(1)};
    blocks.n_blocks = 1;
    blocks.later = FG_LIT("more");
    blocks.blocks[0].later = FG_LIT("more of it");
    assert_round_trip(&blocks, arena);

    fg_buf_init(&text, 1 << 20);
    fg_blocks_json(&blocks, &text);
    root = json_loadb((const char *)text.ptr, text.len, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(root, "tombstones"), 0), "selector")),
                        "{pod=\"x\"}");
    json_decref(root);
    fg_buf_done(&text);

    must_unbury(&blocks, (struct fg_id){5, 5}, true, arena);
    assert_int_equal(blocks.n_tombstones, 0);
    assert_int_equal(blocks.n_ended, 1);
    must_unbury(&blocks, (struct fg_id){5, 5}, false, arena);
    assert_round_trip(&blocks, arena);
    fg_arena_destroy(arena);
}

/* What they wait for is changed by who knows what they waited for, and by nobody else. */
static void deletions_remember_what_they_wait_for(void **state)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    struct fg_blocks_await awaits[] = {{{5, 5}, 0, 7, 40, 1}, {{4, 4}, 6, 8, 0, 0}};
    struct fg_blocks_tombstone stone = {.selector = FG_LIT("{}"), .end_ns = 9};
    uint64_t revision;
    bool changed;
    struct fg_err err;

    (void)state;
    for (uint64_t i = 4; i <= 5; i++) {
        stone.id = (struct fg_id){i, i};
        must_bury(&blocks, &stone, arena);
    }
    assert_int_equal(fg_blocks_wait(&blocks, awaits, 2, arena, &blocks, &changed, &err), FG_OK);
    assert_true(changed);
    assert_int_equal(blocks.tombstones[0].awaits, 0); /* it waits for something else than 6 */
    assert_int_equal(blocks.tombstones[1].awaits, 7);
    assert_int_equal(blocks.tombstones[1].awaits_profiles, 40);
    assert_int_equal(blocks.tombstones[1].quiet, 1);
    assert_round_trip(&blocks, arena);
    revision = blocks.revision;
    assert_int_equal(fg_blocks_wait(&blocks, awaits, 2, arena, &blocks, &changed, &err), FG_OK);
    assert_false(changed);
    assert_int_equal(blocks.revision, revision);
    fg_arena_set_limit(arena, fg_arena_used_bytes(arena));
    assert_int_equal(fg_blocks_wait(&blocks, awaits, 2, arena, &blocks, &changed, &err),
                     FG_E_LIMIT);
    fg_arena_destroy(arena);
}

/* What swaps took is counted with them, once, and the last that ended are kept. */
static void counts_of_deletions(void **state)
{
    struct fg_arena *arena = fg_arena_create(64 << 20);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    const struct fg_l0 l0 = fg_l0_none();
    struct fg_blocks_tombstone stone = {.selector = FG_LIT("{}"), .end_ns = 9};
    struct fg_blocks_entry block = entry(1);
    const struct fg_blocks_taken taken[] = {{{.lo = 3}, 40}, {{.lo = 999}, 1}};
    const struct fg_blocks_change change = {
        .add = &block, .n_add = 1, .taken = taken, .n_taken = FG_COUNT(taken)};
    bool changed;
    struct fg_err err;

    (void)state;
    for (uint32_t i = FG_BLOCKS_ENDED_MAX + 5; i > 0; i--) {
        stone.id.lo = i - 1;
        must_bury(&blocks, &stone, arena);
    }
    for (int i = 0; i < 2; i++) /* the second time it is there already */
        assert_int_equal(fg_blocks_apply(&blocks, &l0, &change, 0, arena, &blocks, &changed, &err),
                         FG_OK);
    assert_int_equal(blocks.tombstones[3].profiles, 40);
    assert_int_equal(blocks.tombstones[3].rewrites, 1);
    assert_int_equal(blocks.tombstones[4].profiles, 0);
    while (blocks.n_tombstones > 0) {
        must_unbury(&blocks, blocks.tombstones[blocks.n_tombstones - 1].id, true, arena);
        assert_round_trip(&blocks, arena);
    }
    assert_int_equal(blocks.n_ended, FG_BLOCKS_ENDED_MAX);
    assert_int_equal(blocks.ended[FG_BLOCKS_ENDED_MAX - 1].id.lo, 0);
    assert_int_equal(blocks.ended[FG_BLOCKS_ENDED_MAX - 4].profiles, 40);
    assert_int_equal(blocks.ended[FG_BLOCKS_ENDED_MAX - 4].ended_wall_ns, 7);
    fg_arena_destroy(arena);
}

/* No more than readers have room for, of whatever kind. */
static void too_many_deletions(void **state)
{
    static const struct {
        const char *selector;
        uint32_t most;
    } cases[] = {{"{}", FG_BLOCKS_TOMBSTONES_MAX}, {"{pod=~\"x.*\"}", FG_DELETIONS_REGEX_MAX}};
    struct fg_err err;
    bool changed;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_arena *arena = fg_arena_create((size_t)256 << 20);
        struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
        struct fg_blocks_tombstone stone = {.selector = fg_cstr(cases[i].selector), .end_ns = 9};
        struct fg_deletions deletions;

        for (; stone.id.lo < cases[i].most; stone.id.lo++)
            must_bury(&blocks, &stone, arena);
        assert_int_equal(fg_blocks_bury(&blocks, &stone, arena, &blocks, &changed, &err),
                         FG_E_LIMIT);
        assert_int_equal(blocks.n_tombstones, cases[i].most);
        assert_int_equal(fg_blocks_deletions(&blocks, arena, &deletions, &err), FG_OK);
        assert_int_equal(deletions.count, cases[i].most);
        assert_int_equal(deletions.items[0].end_ns, 8);
        fg_deletions_done(&deletions);
        fg_arena_destroy(arena);
    }
}

/* It takes the place of as many as there may be, also of one that nobody can read. */
static void deletion_of_everything_is_never_refused(void **state)
{
    struct fg_arena *arena = fg_arena_create((size_t)16 << 20);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    struct fg_blocks_tombstone stone = {.selector = FG_LIT("{}"), .end_ns = 9};
    const struct fg_blocks_tombstone all = {
        .id = {1, 1}, .selector = FG_LIT("{}"), .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fg_err err;
    bool changed;

    (void)state;
    for (; stone.id.lo < FG_BLOCKS_TOMBSTONES_MAX; stone.id.lo++)
        must_bury(&blocks, &stone, arena);
    blocks.tombstones[3].selector = FG_LIT("{a=");
    assert_int_equal(fg_blocks_bury_all(&blocks, &all, arena, &blocks, &changed, &err), FG_OK);
    assert_true(changed);
    assert_int_equal(blocks.n_tombstones, 1);
    assert_true(fg_id_eq(blocks.tombstones[0].id, all.id));
    assert_round_trip(&blocks, arena);
    /* Deletions that came since stay: a retry whose answer was lost changes nothing. */
    stone.id.hi = 2;
    must_bury(&blocks, &stone, arena);
    assert_int_equal(fg_blocks_bury_all(&blocks, &all, arena, &blocks, &changed, &err), FG_OK);
    assert_false(changed);
    assert_int_equal(blocks.n_tombstones, 2);
    must_unbury(&blocks, all.id, true, arena);
    assert_int_equal(fg_blocks_bury_all(&blocks, &all, arena, &blocks, &changed, &err), FG_OK);
    assert_false(changed);
    fg_arena_destroy(arena);
}

/* A selector nobody would have let in. */
static void a_deletion_with_a_bad_selector_is_refused(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    struct fg_blocks_tombstone stones[2] = {{.selector = FG_LIT("{a=~\"b\"}"), .end_ns = 1},
                                            {.selector = FG_LIT("{a="), .end_ns = 1}};
    struct fg_deletions deletions;
    struct fg_err err;

    (void)state;
    blocks.tombstones = stones;
    blocks.n_tombstones = 2;
    assert_int_equal(fg_blocks_deletions(&blocks, arena, &deletions, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, "tenant t: deletion {a="));
    stones[1] = (struct fg_blocks_tombstone){.selector = FG_LIT("{}")}; /* of no time */
    assert_int_equal(fg_blocks_deletions(&blocks, arena, &deletions, &err), FG_E_CORRUPT);
    fg_arena_destroy(arena);
}

/* Without a service the record is as it was before there were any. */
static enum fg_code lose(struct fg_blocks *blocks, const struct fg_l0 *l0, const char *object,
                         const char *service, const uint64_t *generation, const struct fg_id *block,
                         struct fg_arena *arena, bool *ret_changed)
{
    const struct fg_blocks_lost lost = {.object = fg_cstr(object),
                                        .service = fg_cstr(service),
                                        .t_min_ns = -5,
                                        .t_max_ns = 80,
                                        .profiles = 7,
                                        .bytes = 1000,
                                        .since_wall_ns = 60,
                                        .why = FG_LIT("it is missing"),
                                        .later = fg_cstr(service[0] == '\0' ? "" : "more")};
    const struct fg_blocks_giving_up giving_up = {.change = {.cover = generation,
                                                             .n_cover = generation != NULL,
                                                             .replace = block,
                                                             .n_replace = block != NULL},
                                                  .lost = &lost,
                                                  .n_lost = 1};
    struct fg_err err;

    return fg_blocks_give_up(blocks, l0, &giving_up, 60, arena, blocks, ret_changed, &err);
}

/* A segment counts as covered and a block goes; what each held is remembered, once. */
static void objects_that_are_given_up_leave_a_record(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(16 << 20);
    struct fg_l0 l0 = segments(arena);
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t"));
    const uint64_t one = 1, two = 2, three = 3;
    const struct fg_id block = {100, 0}, other = {101, 0};
    struct fg_buf text;
    json_t *root, *lost;
    bool changed;

    (void)state;
    assert_int_equal(apply(&blocks, &l0, 100, &two, 1, NULL, 0, arena, &changed), FG_OK);
    assert_int_equal(lose(&blocks, &l0, "segments/1", "", &one, NULL, arena, &changed), FG_OK);
    assert_true(changed && fg_blocks_covers(&blocks, 1));
    assert_int_equal(blocks.covered_floor, 3); /* 4 is to come */
    assert_int_equal(lose(&blocks, &l0, "segments/1", "", &one, NULL, arena, &changed), FG_OK);
    assert_false(changed);
    assert_int_equal(
        lose(&blocks, &l0, "tenants/t/blocks/100", "shop", NULL, &block, arena, &changed), FG_OK);
    assert_true(changed && fg_blocks_find(&blocks, block) == NULL);
    assert_int_equal(blocks.n_gone, 1); /* its object is deleted in time */
    assert_int_equal(blocks.n_lost, 2);
    assert_int_equal(blocks.revision, 3);
    assert_round_trip(&blocks, arena);

    assert_int_equal(lose(&blocks, &l0, "segments/3", "", &three, NULL, arena, &changed),
                     FG_E_ABORTED); /* of another tenant */
    assert_int_equal(lose(&blocks, &l0, "tenants/t/blocks/101", "", NULL, &other, arena, &changed),
                     FG_E_ABORTED);
    assert_int_equal(blocks.n_lost, 2);

    fg_buf_init(&text, 1 << 20);
    fg_blocks_json(&blocks, &text);
    root = json_loadb((const char *)text.ptr, text.len, 0, NULL);
    lost = json_array_get(json_object_get(root, "lost"), 1);
    assert_string_equal(json_string_value(json_object_get(lost, "object")), "tenants/t/blocks/100");
    assert_int_equal(json_integer_value(json_object_get(lost, "profiles")), 7);
    assert_string_equal(json_string_value(json_object_get(lost, "service")), "shop");
    assert_null(json_object_get(json_array_get(json_object_get(root, "lost"), 0), "service"));
    json_decref(root);
    fg_buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covered_segments_raise_the_floor),
        cmocka_unit_test(replaced_blocks_leave_with_their_rollups),
        cmocka_unit_test(rollups_live_as_long_as_their_sources),
        cmocka_unit_test(a_rollup_replaces_blocks_only_if_it_adds_up),
        cmocka_unit_test(tombstones_are_added_and_ended_once),
        cmocka_unit_test(counts_of_deletions),
        cmocka_unit_test(deletions_remember_what_they_wait_for),
        cmocka_unit_test(too_many_deletions),
        cmocka_unit_test(deletion_of_everything_is_never_refused),
        cmocka_unit_test(a_deletion_with_a_bad_selector_is_refused),
        cmocka_unit_test(objects_that_are_given_up_leave_a_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
