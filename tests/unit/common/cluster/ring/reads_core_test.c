#include "common/cluster/ring/reads_core.h"
#include "tests/lib/ring_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const names[] = {"ann", "bob", "cat", "dan", "eve", "fay"};

/* Six members in three zones, all drained but the last revision. */
static struct fg_ring six(struct fg_arena *arena)
{
    static const char *const zones[] = {"x", "y", "z", "x", "y", "z"};
    struct fg_ring ring = fg_ring_none();

    for (unsigned i = 0; i < FG_COUNT(names); i++)
        ring = ring_make(&ring, ring_make_join(names[i], zones[i], i), arena);
    for (unsigned i = 0; i < FG_COUNT(names) - 1; i++)
        ring = ring_make(&ring, ring_make_drained(names[i], i, 6), arena);
    assert_int_equal(ring.n_revisions, 1);
    return ring;
}

static unsigned count_asked(const uint32_t *members, uint32_t n, const uint32_t *owners,
                            unsigned n_owners)
{
    unsigned found = 0;

    for (uint32_t i = 0; i < n; i++)
        for (unsigned k = 0; k < n_owners; k++)
            found += members[i] == owners[k];
    return found;
}

static void two_of_three_owners_are_enough(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = six(arena);
    struct fg_ring_view *view = ring_make_view(&ring);

    (void)state;
    for (uint32_t turn = 0; turn < 3; turn++) {
        uint32_t members[FG_RING_MEMBERS_MAX], n, owners[3];
        struct fg_ring_reads reads;
        uint64_t revision;
        uint16_t shard;

        for (unsigned i = 0; i < 3; i++)
            owners[i] = fg_ring_view_owner(view, 0, 77, i);
        fg_ring_reads_init(&reads, view, 77, 77);
        n = fg_ring_reads_ask(&reads, turn, members);
        assert_int_equal(n, 2);
        assert_int_equal(members[0], owners[turn]); /* another one each time */
        assert_int_equal(count_asked(members, n, owners, 3), 2);
        assert_int_equal(fg_ring_reads_ask(&reads, turn, members), 0);
        fg_ring_reads_heard(&reads, members[0]);
        assert_false(fg_ring_reads_is_enough(&reads));
        fg_ring_reads_failed(&reads, members[1]);
        assert_int_equal(fg_ring_reads_ask(&reads, turn, members), 1);
        assert_int_equal(count_asked(members, 1, owners, 3), 1);
        assert_false(fg_ring_reads_is_hopeless(&reads, &shard, &revision));
        fg_ring_reads_failed(&reads, members[0]);
        assert_int_equal(fg_ring_reads_ask(&reads, turn, members), 0);
        assert_true(fg_ring_reads_is_hopeless(&reads, &shard, &revision));
        assert_int_equal(shard, 77);
        assert_int_equal(revision, 6);
        assert_false(fg_ring_reads_is_enough(&reads));
    }
    fg_ring_view_unref(view);
    fg_arena_destroy(arena);
}

/* One that was avoided is asked once it is admitted. */
static void whom_one_avoids_can_be_admitted(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = six(arena);
    struct fg_ring_view *view = ring_make_view(&ring);
    uint32_t members[FG_RING_MEMBERS_MAX], avoided = fg_ring_view_owner(view, 0, 77, 0);
    struct fg_ring_reads reads;
    uint64_t revision;
    uint16_t shard;

    (void)state;
    fg_ring_reads_init(&reads, view, 77, 77);
    fg_ring_reads_avoid(&reads, avoided);
    assert_int_equal(fg_ring_reads_ask(&reads, 0, members), 2);
    fg_ring_reads_failed(&reads, members[0]);
    assert_int_equal(fg_ring_reads_ask(&reads, 0, members), 0);
    assert_true(fg_ring_reads_is_hopeless(&reads, &shard, &revision));
    fg_ring_reads_admit(&reads, avoided);
    assert_false(fg_ring_reads_is_hopeless(&reads, &shard, &revision));
    assert_int_equal(fg_ring_reads_ask(&reads, 0, members), 1);
    assert_int_equal(members[0], avoided);
    fg_ring_view_unref(view);
    fg_arena_destroy(arena);
}

/* Owners of each shard and revision, whoever they are: of many shards nearly everyone. */
static void one_member_serves_all_its_shards(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = six(arena);
    struct fg_ring_reads reads;
    struct fg_ring_view *view;
    uint32_t members[FG_RING_MEMBERS_MAX], n;

    (void)state;
    ring = ring_make(&ring, ring_make_leave("ann", 0), arena);
    ring = ring_make(&ring, ring_make_join("gil", "x", 7), arena);
    view = ring_make_view(&ring);
    fg_ring_reads_init(&reads, view, 0, UINT16_MAX);
    n = fg_ring_reads_ask(&reads, 0, members);
    assert_in_range(n, 5, 7);
    for (uint32_t i = 0; i < n; i++) {
        assert_false(fg_ring_reads_is_enough(&reads));
        fg_ring_reads_heard(&reads, members[i]);
    }
    assert_true(fg_ring_reads_is_enough(&reads));
    for (uint32_t revision = 0; revision < view->ring.n_revisions; revision++)
        for (uint32_t shard = 0; shard < FG_RING_SHARDS; shard += 97) {
            uint32_t owners[3];

            for (unsigned i = 0; i < 3; i++)
                owners[i] = fg_ring_view_owner(view, revision, (uint16_t)shard, i);
            assert_true(count_asked(members, n, owners, 3) >= 2);
        }
    fg_ring_view_unref(view);
    fg_arena_destroy(arena);
}

/* How many are asked for a shard under the oldest revision alone. */
static uint32_t asked_of(const struct fg_ring *ring, uint16_t shard, bool *ret_enough)
{
    struct fg_ring_view *view = ring_make_view(ring);
    uint32_t members[FG_RING_MEMBERS_MAX], n;
    struct fg_ring_reads reads;

    view->ring.n_revisions = 1;
    fg_ring_reads_init(&reads, view, shard, shard);
    n = fg_ring_reads_ask(&reads, 0, members);
    *ret_enough = fg_ring_reads_is_enough(&reads);
    view->ring.n_revisions = ring->n_revisions;
    fg_ring_view_unref(view);
    return n;
}

/* A member that has drained has answered; one that has lost its disk has not, and cannot. */
static void drained_counts_and_lost_does_not(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = six(arena), after;
    struct fg_ring_view *view;
    uint32_t owners[3];
    bool enough;

    (void)state;
    view = ring_make_view(&ring);
    for (unsigned i = 0; i < 3; i++)
        owners[i] = fg_ring_view_owner(view, 0, 5, i);
    ring = ring_make(&ring, ring_make_join("gil", "x", 7), arena);
    assert_int_equal(asked_of(&ring, 5, &enough), 2);

    after = ring_make(&ring, ring_make_drained(names[owners[0]], owners[0], 7), arena);
    assert_int_equal(asked_of(&after, 5, &enough), 1);
    assert_false(enough);
    after = ring_make(&after, ring_make_drained(names[owners[1]], owners[1], 7), arena);
    assert_int_equal(asked_of(&after, 5, &enough), 0);
    assert_true(enough);

    after = ring_make(&ring, ring_make_forget(names[owners[0]]), arena);
    assert_int_equal(asked_of(&after, 5, &enough), 2); /* both others, and there is no third */
    after = ring_make(&after, ring_make_drained(names[owners[1]], owners[1], 8), arena);
    assert_int_equal(asked_of(&after, 5, &enough), 1);
    assert_false(enough);
    after = ring_make(&after, ring_make_forget(names[owners[2]]), arena);
    assert_int_equal(asked_of(&after, 5, &enough), 0); /* nobody is left */
    assert_true(enough);
    fg_ring_view_unref(view);
    fg_arena_destroy(arena);
}

/* A read of all shards but the last one looks at each of them, and one of all at some: they ask and
 * judge alike, whoever fails. */
static void a_read_of_the_whole_ring_is_like_one_of_its_shards(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = six(arena);
    struct fg_ring_view *view;

    (void)state;
    ring = ring_make(&ring, ring_make_join("gil", "x", 7), arena);
    ring = ring_make(&ring, ring_make_forget(names[2]), arena);
    view = ring_make_view(&ring);
    assert_true(view->ring.n_revisions > 1);
    for (unsigned failing = 0; failing < 1u << FG_COUNT(names); failing++) {
        uint32_t members[2][FG_RING_MEMBERS_MAX], n[2] = {1, 1};
        uint64_t revisions[2] = {0};
        uint16_t shards[2] = {0};
        struct fg_ring_reads reads[2];

        fg_ring_reads_init(&reads[0], view, 0, UINT16_MAX);
        fg_ring_reads_init(&reads[1], view, 0, UINT16_MAX - 1);
        while (n[0] > 0) {
            for (unsigned i = 0; i < 2; i++)
                n[i] = fg_ring_reads_ask(&reads[i], failing, members[i]);
            assert_int_equal(n[0], n[1]);
            assert_memory_equal(members[0], members[1], n[0] * sizeof members[0][0]);
            for (uint32_t k = 0; k < n[0]; k++)
                for (unsigned i = 0; i < 2; i++) {
                    uint32_t member = members[i][k];

                    if (member < FG_COUNT(names) && (failing >> member & 1) != 0)
                        fg_ring_reads_failed(&reads[i], member);
                    else
                        fg_ring_reads_heard(&reads[i], member);
                }
            assert_int_equal(fg_ring_reads_is_enough(&reads[0]),
                             fg_ring_reads_is_enough(&reads[1]));
            assert_int_equal(fg_ring_reads_is_hopeless(&reads[0], &shards[0], &revisions[0]),
                             fg_ring_reads_is_hopeless(&reads[1], &shards[1], &revisions[1]));
            assert_int_equal(shards[0], shards[1]);
            assert_int_equal(revisions[0], revisions[1]);
        }
    }
    fg_ring_view_unref(view);
    fg_arena_destroy(arena);
}

static void an_empty_ring_has_nobody_to_ask(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = fg_ring_none();
    struct fg_ring_view *view = ring_make_view(&ring);
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    uint32_t members[FG_RING_MEMBERS_MAX];
    struct fg_ring_reads reads;

    (void)state;
    assert_int_equal(fg_ring_view_owners(view, 9, owners), 0);
    assert_int_equal(fg_ring_view_writes(view), 0);
    fg_ring_reads_init(&reads, view, 0, UINT16_MAX);
    assert_int_equal(fg_ring_reads_ask(&reads, 0, members), 0);
    assert_true(fg_ring_reads_is_enough(&reads));
    fg_ring_view_unref(view);

    /* One of three: it cannot take anything yet, so there is nothing to ask it for. */
    ring = ring_make(&ring, ring_make_join("ann", "x", 0), arena);
    view = ring_make_view(&ring);
    assert_int_equal(fg_ring_view_owners(view, 9, owners), 1);
    assert_int_equal(fg_ring_view_writes(view), 2);
    assert_true(fg_slice_is(owners[0]->name, "ann"));
    fg_ring_reads_init(&reads, view, 0, UINT16_MAX);
    assert_int_equal(fg_ring_reads_ask(&reads, 0, members), 0);
    assert_true(fg_ring_reads_is_enough(&reads));
    fg_ring_view_unref(view);
    fg_arena_destroy(arena);
}

/* Views share the tables of the revisions that both have. */
static void views_share_tables_of_equal_revisions(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = six(arena);
    struct fg_ring_view *before = ring_make_view(&ring), *after = NULL;
    uint32_t counts[16], all = 0;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    ring = ring_make(&ring, ring_make_join("abe", "x", 7), arena);
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    assert_int_equal(fg_ring_encode(&ring, &bytes, &err), FG_OK);
    assert_int_equal(fg_ring_view_create(fg_buf_slice(&bytes), FG_LIT("e"), before, &after, &err),
                     FG_OK);
    assert_ptr_equal(after->tables[0], before->tables[0]);
    assert_int_equal(after->tables[1]->revision, 7);
    /* Members have other numbers by now, and own what they owned. */
    assert_true(fg_slice_eq(before->ring.members[fg_ring_view_owner(before, 0, 123, 0)].name,
                            after->ring.members[fg_ring_view_owner(after, 0, 123, 0)].name));
    fg_ring_view_unref(before);
    fg_ring_view_count(after, counts);
    for (uint32_t i = 0; i < after->ring.n_members; i++)
        all += counts[i];
    assert_int_equal(all, 3 * FG_RING_SHARDS);
    fg_ring_view_unref(after);

    bytes.ptr[bytes.len - 1] ^= 1;
    assert_int_equal(fg_ring_view_create(fg_buf_slice(&bytes), FG_LIT("e"), NULL, &after, &err),
                     FG_E_CORRUPT);
    assert_int_equal(fg_ring_view_create(FG_LIT(""), FG_LIT("e"), NULL, &after, &err),
                     FG_E_CORRUPT); /* an object without content is not the same as none */
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_of_three_owners_are_enough),
        cmocka_unit_test(whom_one_avoids_can_be_admitted),
        cmocka_unit_test(one_member_serves_all_its_shards),
        cmocka_unit_test(drained_counts_and_lost_does_not),
        cmocka_unit_test(a_read_of_the_whole_ring_is_like_one_of_its_shards),
        cmocka_unit_test(an_empty_ring_has_nobody_to_ask),
        cmocka_unit_test(views_share_tables_of_equal_revisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
