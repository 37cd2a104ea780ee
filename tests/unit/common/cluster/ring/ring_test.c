/* The ring as a value: bytes, JSON, and what each change makes of it. */
#include "common/base/crc32c.h"
#include "common/cluster/ring/shard.h"
#include "tests/lib/ring_make.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ann, bob and cat have joined; ann and bob have drained what was before. */
static struct fg_ring example(struct fg_arena *arena)
{
    const struct fg_ring_change changes[] = {
        ring_make_join("bob", "west", 2),
        ring_make_join("ann", "east", 1),
        ring_make_join("cat", "north", 3),
        ring_make_drained("ann", 1, 3),
    };
    struct fg_ring ring = fg_ring_none();

    for (size_t i = 0; i < FG_COUNT(changes); i++)
        ring = ring_make(&ring, changes[i], arena);
    return ring;
}

static void assert_round_trip(const struct fg_ring *ring, struct fg_arena *arena)
{
    struct fg_buf bytes, again;
    struct fg_ring read;
    struct fg_err err;

    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    fg_buf_init(&again, FG_RING_MAX_BYTES);
    assert_int_equal(fg_ring_encode(ring, &bytes, &err), FG_OK);
    if (fg_ring_decode(fg_buf_slice(&bytes), arena, &read, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(fg_ring_encode(&read, &again, &err), FG_OK);
    assert_true(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
    assert_int_equal(read.n_members, ring->n_members);
    assert_int_equal(read.n_revisions, ring->n_revisions);
    assert_int_equal(read.swaps, ring->swaps);
    assert_int_equal(read.generation, ring->generation);
    assert_int_equal(read.n_shard_factors, ring->n_shard_factors);
    assert_int_equal(read.floor, ring->floor);
    assert_int_equal(read.others.n, ring->others.n);
    fg_buf_done(&bytes);
    fg_buf_done(&again);
}

static const struct fg_ring_member *member_of(const struct fg_ring *ring, const char *name)
{
    uint32_t number = fg_ring_find(ring, fg_cstr(name));

    return number == FG_RING_NO_MEMBER ? NULL : &ring->members[number];
}

static enum fg_ring_state state_of(const struct fg_ring *ring, const char *name)
{
    return fg_ring_state(ring, fg_ring_find(ring, fg_cstr(name)));
}

static void assert_unchanged(const struct fg_ring *ring, const struct fg_ring_change *change,
                             struct fg_arena *arena)
{
    struct fg_ring next;
    bool changed = true;
    struct fg_err err;

    assert_int_equal(fg_ring_apply(ring, change, arena, &next, &changed, &err), FG_OK);
    assert_false(changed);
    assert_int_equal(next.swaps, ring->swaps);
}

static void assert_refused(const struct fg_ring *ring, const struct fg_ring_change *change,
                           enum fg_code code, const char *why, struct fg_arena *arena)
{
    struct fg_ring next;
    bool changed;
    struct fg_err err;

    assert_int_equal(fg_ring_apply(ring, change, arena, &next, &changed, &err), code);
    assert_string_equal(err.msg, why);
}

static void a_join_makes_a_revision(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring none = fg_ring_none(), ring = example(arena);
    struct fg_ring_change again = ring_make_join("bob", "west", 2);

    (void)state;
    assert_round_trip(&none, arena);
    assert_round_trip(&ring, arena);
    assert_int_equal(fg_ring_newest(&none), 0);
    assert_int_equal(fg_ring_newest(&ring), 3);
    assert_int_equal(ring.n_members, 3);
    /* bob has not drained what came to him alone, nor to him and ann. */
    assert_int_equal(ring.n_revisions, 3);
    assert_int_equal(ring.revisions[0].n_places, 1);
    assert_int_equal(ring.revisions[2].n_places, 3);
    assert_int_equal(ring.revisions[2].replicas, 3);
    assert_int_equal(member_of(&ring, "ann")->drained, 3);
    assert_int_equal(member_of(&ring, "bob")->drained, 1);
    assert_int_equal(member_of(&ring, "cat")->drained, 3);
    assert_true(fg_slice_is(fg_ring_zone(&ring, 2), "north"));
    assert_int_equal(state_of(&ring, "bob"), FG_RING_ACTIVE);
    assert_unchanged(&ring, &again, arena);

    ring = ring_make(&ring, ring_make_drained("bob", 2, 3), arena);
    assert_int_equal(ring.n_revisions, 1);
    assert_round_trip(&ring, arena);

    /* Another address makes no revision, another zone does. */
    again.address = FG_LIT("tcp://elsewhere:1");
    ring = ring_make(&ring, again, arena);
    assert_int_equal(fg_ring_newest(&ring), 3);
    assert_true(fg_slice_is(member_of(&ring, "bob")->address, "tcp://elsewhere:1"));
    again.zone = FG_LIT("east");
    ring = ring_make(&ring, again, arena);
    assert_int_equal(fg_ring_newest(&ring), 4);
    assert_int_equal(ring.n_revisions, 2);
    assert_true(fg_slice_is(ring.revisions[0].places[1].zone, "west"));
    assert_true(fg_slice_is(ring.revisions[1].places[1].zone, "east"));
    assert_int_equal(member_of(&ring, "bob")->drained, 3);
    fg_arena_destroy(arena);
}

/* A member that leaves is there until all have drained what it was in; it comes back, perhaps. */
static void a_leave_makes_a_revision(void **state)
{
    const struct fg_ring_change leave = ring_make_leave("ann", 1);
    const struct fg_ring_change other = ring_make_leave("ann", 99);
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = example(arena), back;

    (void)state;
    ring = ring_make(&ring, ring_make_drained("bob", 2, 3), arena);
    assert_unchanged(&ring, &other, arena);
    ring = ring_make(&ring, leave, arena);
    assert_int_equal(fg_ring_newest(&ring), 4);
    assert_int_equal(ring.n_revisions, 2);
    assert_int_equal(ring.revisions[1].n_places, 2);
    assert_int_equal(state_of(&ring, "ann"), FG_RING_LEAVING);
    assert_unchanged(&ring, &leave, arena);
    back = ring_make(&ring, ring_make_join("ann", "east", 1), arena);
    assert_int_equal(state_of(&back, "ann"), FG_RING_ACTIVE);
    assert_int_equal(member_of(&back, "ann")->drained, 3); /* it still has something from before */

    ring = ring_make(&ring, ring_make_drained("ann", 1, 4), arena);
    assert_int_equal(state_of(&ring, "ann"), FG_RING_GONE);
    ring = ring_make(&ring, ring_make_drained("bob", 2, 4), arena);
    assert_int_equal(ring.n_revisions, 2);
    ring = ring_make(&ring, ring_make_drained("cat", 3, 4), arena);
    assert_int_equal(ring.n_revisions, 1);
    assert_int_equal(ring.generation, 40); /* where it is now, though who said so has gone */
    assert_null(member_of(&ring, "ann"));
    assert_int_equal(ring.revisions[0].places[0].member, 0); /* bob */
    assert_unchanged(&ring, &leave, arena);
    assert_round_trip(&ring, arena);

    /* All leave; the numbers go on. */
    ring = ring_make(&ring, ring_make_leave("bob", 2), arena);
    ring = ring_make(&ring, ring_make_leave("cat", 3), arena);
    ring = ring_make(&ring, ring_make_drained("cat", 3, 6), arena);
    ring = ring_make(&ring, ring_make_drained("bob", 2, 6), arena);
    assert_int_equal(ring.n_members, 0);
    assert_int_equal(ring.n_revisions, 1);
    assert_round_trip(&ring, arena);
    ring = ring_make(&ring, ring_make_join("dan", "", 4), arena);
    assert_int_equal(fg_ring_newest(&ring), 7);
    assert_int_equal(ring.n_revisions, 1);
    fg_arena_destroy(arena);
}

static void drained_revisions_end(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    const struct fg_ring_change before = ring_make_drained("bob", 2, 1);
    const struct fg_ring_change beyond = ring_make_drained("bob", 2, 4);
    const struct fg_ring_change other = ring_make_drained("bob", 99, 3);
    const struct fg_ring_change nobody = ring_make_drained("eve", 2, 3);
    const struct fg_ring_change half = ring_make_drained("bob", 2, 2);
    struct fg_ring ring = example(arena);

    (void)state;
    assert_unchanged(&ring, &before, arena);
    assert_unchanged(&ring, &other, arena);
    assert_unchanged(&ring, &nobody, arena);
    assert_refused(&ring, &beyond, FG_E_INVALID, "revision 4 was drained, the newest is 3", arena);
    ring = ring_make(&ring, half, arena);
    assert_int_equal(ring.n_revisions, 2); /* the first has ended, the second has not */
    assert_int_equal(ring.revisions[0].number, 2);
    fg_arena_destroy(arena);
}

/* Who is given up takes what it held along, and nobody waits for it. */
static void a_forgotten_member_has_lost_all(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    const struct fg_ring_change bob = ring_make_forget("bob"), ann = ring_make_forget("ann");
    const struct fg_ring_change eve = ring_make_forget("eve");
    struct fg_ring ring = example(arena);

    (void)state;
    assert_unchanged(&ring, &eve, arena);
    ring = ring_make(&ring, bob, arena);
    assert_int_equal(fg_ring_newest(&ring), 4);
    assert_int_equal(ring.n_revisions, 2); /* he was all the older two waited for */
    assert_int_equal(member_of(&ring, "bob")->lost, 4);
    assert_int_equal(state_of(&ring, "bob"), FG_RING_GONE);
    assert_unchanged(&ring, &bob, arena);
    assert_round_trip(&ring, arena);

    /* One that was about to leave: membership is as it was, so there is no new revision. */
    ring = ring_make(&ring, ring_make_leave("ann", 1), arena);
    assert_int_equal(fg_ring_newest(&ring), 5);
    ring = ring_make(&ring, ann, arena);
    assert_int_equal(fg_ring_newest(&ring), 5);
    assert_int_equal(member_of(&ring, "ann")->lost, 5);
    assert_unchanged(&ring, &ann, arena);

    /* Not gone after all. */
    ring = ring_make(&ring, ring_make_join("ann", "east", 1), arena);
    assert_int_equal(state_of(&ring, "ann"), FG_RING_ACTIVE);
    assert_int_equal(member_of(&ring, "ann")->lost, 5);
    fg_arena_destroy(arena);
}

/* The same name with another store: it keeps its place, and what it held is lost. */
static void a_new_store_loses_the_old_one(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    const struct fg_ring_change late = ring_make_drained("bob", 2, 3);
    struct fg_ring ring = example(arena);
    struct fg_ring_change join = ring_make_join("bob", "west", 22);

    (void)state;
    join.wall_ns = 2000;
    ring = ring_make(&ring, join, arena);
    assert_int_equal(fg_ring_newest(&ring), 4);
    assert_int_equal(ring.n_revisions, 2); /* cat and ann have not drained the one before */
    assert_int_equal(ring.revisions[1].n_places, 3);
    assert_int_equal(member_of(&ring, "bob")->lost, 4);
    assert_int_equal(member_of(&ring, "bob")->drained, 4);
    assert_int_equal(member_of(&ring, "bob")->since_wall_ns, 2000);
    assert_int_equal(member_of(&ring, "bob")->store.lo, 22);
    assert_unchanged(&ring, &late, arena); /* of the old one */
    assert_unchanged(&ring, &join, arena);
    assert_round_trip(&ring, arena);
    fg_arena_destroy(arena);
}

static void replicas_change_by_a_revision(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_change two = {.kind = FG_RING_REPLICATE, .replicas = 2};
    struct fg_ring_change none = {.kind = FG_RING_REPLICATE};
    struct fg_ring_change four = {.kind = FG_RING_REPLICATE, .replicas = 4};
    struct fg_ring ring = example(arena), empty = fg_ring_none();

    (void)state;
    ring = ring_make(&ring, two, arena);
    assert_int_equal(fg_ring_newest(&ring), 4);
    assert_int_equal(ring.revisions[ring.n_revisions - 1].replicas, 2);
    assert_int_equal(ring.revisions[ring.n_revisions - 1].n_places, 3);
    assert_int_equal(ring.revisions[0].replicas, 3);
    assert_unchanged(&ring, &two, arena);
    assert_refused(&ring, &none, FG_E_INVALID, "0 replicas; there can be 1 to 3", arena);
    assert_refused(&ring, &four, FG_E_INVALID, "4 replicas; there can be 1 to 3", arena);

    /* Before anyone joins: it is that, whatever who joins brings along. */
    ring = ring_make(&empty, two, arena);
    assert_round_trip(&ring, arena);
    ring = ring_make(&ring, ring_make_join("ann", "", 1), arena);
    assert_int_equal(ring.n_revisions, 1);
    assert_int_equal(ring.revisions[0].replicas, 2);
    fg_arena_destroy(arena);
}

/* A shard factor gets wider and never narrower, and stays when other things change. */
static void shard_factors_only_grow(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_change widen = {
        .kind = FG_RING_WIDEN, .name = FG_LIT("team"), .shard_factor = 3};
    struct fg_ring ring = example(arena);

    (void)state;
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("team")), 0);
    ring = ring_make(&ring, widen, arena);
    assert_int_equal(fg_ring_newest(&ring), 3); /* no revision is made of it */
    assert_unchanged(&ring, &widen, arena);
    widen.shard_factor = 2;
    widen.since_ns = 1000;
    assert_unchanged(&ring, &widen, arena);
    widen.name = FG_LIT("tea");
    ring = ring_make(&ring, widen, arena);
    widen.name = FG_LIT("z");
    ring = ring_make(&ring, widen, arena);
    widen.shard_factor = FG_SHARD_FACTOR_MAX;
    ring = ring_make(&ring, widen, arena);
    ring = ring_make(&ring, ring_make_leave("ann", 1), arena);
    assert_round_trip(&ring, arena);
    assert_int_equal(ring.n_shard_factors, 3);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("tea")), 2);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("team")), 3);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("z")), 12);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("teams")), 0);
    /* Each time has its own, for ever. */
    assert_int_equal(fg_ring_shard_factor_at(&ring, FG_LIT("z"), 999), 0);
    assert_int_equal(fg_ring_shard_factor_at(&ring, FG_LIT("z"), 1000), 12); /* both began then */
    widen = (struct fg_ring_change){
        .kind = FG_RING_WIDEN, .name = FG_LIT("tea"), .shard_factor = 5, .since_ns = 2000};
    ring = ring_make(&ring, widen, arena);
    widen.shard_factor = 7;
    widen.since_ns = 1500; /* not before what others may go by */
    ring = ring_make(&ring, widen, arena);
    assert_int_equal(fg_ring_shard_factor_at(&ring, FG_LIT("tea"), 0), 0);
    assert_int_equal(fg_ring_shard_factor_at(&ring, FG_LIT("tea"), 1999), 2);
    assert_int_equal(fg_ring_shard_factor_at(&ring, FG_LIT("tea"), 2000), 7);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("tea")), 7);
    assert_round_trip(&ring, arena);

    widen.shard_factor = FG_SHARD_FACTOR_MAX + 1;
    assert_refused(&ring, &widen, FG_E_INVALID, "a shard factor of 13; there can be 0 to 12",
                   arena);
    widen.name = FG_LIT("");
    assert_refused(&ring, &widen, FG_E_INVALID, "the name of a tenant is empty", arena);
    fg_arena_destroy(arena);
}

/* Where the list is full one number is for all others. */
static void too_many_tenants_share_one_shard_factor(void **state)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_ring_change widen = {.kind = FG_RING_WIDEN, .shard_factor = 1};
    struct fg_ring ring = example(arena);

    (void)state;
    for (unsigned i = 0; i < FG_RING_SHARD_FACTORS_MAX; i++) {
        widen.name = fg_cstr(fg_arena_printf(arena, "team-%u", i * 7919 % 1024));
        ring = ring_make(&ring, widen, arena);
    }
    assert_int_equal(ring.n_shard_factors, FG_RING_SHARD_FACTORS_MAX);
    widen.name = FG_LIT("one-more");
    widen.shard_factor = 4;
    ring = ring_make(&ring, widen, arena);
    assert_int_equal(ring.n_shard_factors, FG_RING_SHARD_FACTORS_MAX);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("one-more")), 4);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("another")), 4);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("team-5")), 1);
    widen.name = FG_LIT("another");
    assert_unchanged(&ring, &widen, arena);
    widen.name = FG_LIT("team-5");
    ring = ring_make(&ring, widen, arena); /* those that are there go on by themselves */
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("team-5")), 4);
    assert_int_equal(fg_ring_shard_factor(&ring, FG_LIT("team-6")), 1);
    assert_round_trip(&ring, arena);
    fg_arena_destroy(arena);
}

/* ---- maintenance ---- */

static struct fg_ring_change pause_change(enum fg_ring_change_kind kind, const char *name,
                                          uint64_t store)
{
    return (struct fg_ring_change){
        .kind = kind, .name = fg_cstr(name), .store = {store, 1}, .wall_ns = 7};
}

static bool is_paused(const struct fg_ring *ring, const char *name)
{
    return fg_ring_is_paused(ring, fg_ring_find(ring, fg_cstr(name)));
}

static struct fg_ring three_members(const char *const zones[3], struct fg_arena *arena)
{
    struct fg_ring ring = fg_ring_none();

    ring = ring_make(&ring, ring_make_join("ann", zones[0], 1), arena);
    ring = ring_make(&ring, ring_make_join("bob", zones[1], 2), arena);
    return ring_make(&ring, ring_make_join("cat", zones[2], 3), arena);
}

static void one_member_at_a_time_is_in_maintenance(void **state)
{
    static const char *const zones[] = {"", "", ""};
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_change ann = pause_change(FG_RING_PAUSE, "ann", 1);
    struct fg_ring_change bob = pause_change(FG_RING_PAUSE, "bob", 2);
    struct fg_ring_change wrong = pause_change(FG_RING_PAUSE, "ann", 9);
    struct fg_ring_change resume = pause_change(FG_RING_RESUME, "ann", 1);
    struct fg_ring ring = three_members(zones, arena);
    uint64_t revision = fg_ring_newest(&ring);

    (void)state;
    assert_unchanged(&ring, &wrong, arena);
    assert_unchanged(&ring, &resume, arena);
    ring = ring_make(&ring, ann, arena);
    assert_true(is_paused(&ring, "ann"));
    assert_int_equal(fg_ring_newest(&ring), revision); /* nobody has to drain for it */
    assert_round_trip(&ring, arena);
    assert_unchanged(&ring, &ann, arena);
    assert_unchanged(&ring, &bob, arena);
    wrong.kind = FG_RING_RESUME;
    assert_unchanged(&ring, &wrong, arena);

    /* One that cannot wait any longer goes, and it is counted. */
    bob.kind = FG_RING_PAUSE_ANYWAY;
    ring = ring_make(&ring, bob, arena);
    assert_true(is_paused(&ring, "ann") && is_paused(&ring, "bob"));
    assert_int_equal(ring.overrides, 1);
    assert_round_trip(&ring, arena);
    ring = ring_make(&ring, resume, arena);
    assert_false(is_paused(&ring, "ann"));
    assert_true(is_paused(&ring, "bob"));
    assert_unchanged(&ring, &resume, arena);

    /* Nobody waits for a member that was given up or has left. */
    ring = ring_make(&ring, ring_make_forget("bob"), arena);
    assert_false(is_paused(&ring, "bob"));
    ring = ring_make(&ring, ann, arena);
    ring = ring_make(&ring, ring_make_leave("ann", 1), arena);
    assert_false(is_paused(&ring, "ann"));
    assert_unchanged(&ring, &ann, arena);
    ring = ring_make(&ring, pause_change(FG_RING_PAUSE, "cat", 3), arena);
    assert_int_equal(ring.overrides, 1);
    fg_arena_destroy(arena);
}

/* With three zones for three replicas, each shard has one owner in the zone at most. */
static void members_of_one_zone_are_in_maintenance_together(void **state)
{
    static const char *const zones[][3] = {
        {"x", "x", "y"}, /* of two zones with three replicas, one may have two owners */
        {"x", "y", ""},
        {"x", "y", "z"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(zones); i++) {
        struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
        struct fg_ring ring = three_members(zones[i], arena);
        struct fg_ring_change bob = pause_change(FG_RING_PAUSE, "bob", 2);
        struct fg_ring_change dan = pause_change(FG_RING_PAUSE, "dan", 4);

        ring = ring_make(&ring, ring_make_join("dan", "x", 4), arena);
        ring = ring_make(&ring, pause_change(FG_RING_PAUSE, "ann", 1), arena);
        assert_unchanged(&ring, &bob, arena);
        if (i == 2) {
            ring = ring_make(&ring, dan, arena);
            assert_int_equal(ring.overrides, 0);
            assert_unchanged(&ring, &bob, arena);
        } else {
            assert_unchanged(&ring, &dan, arena);
        }
        fg_arena_destroy(arena);
    }
}

/* A ring of before shard factors were in it says nothing of them: everything may be in use. */
static void an_old_ring_has_the_greatest_floor(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = example(arena), read;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    assert_int_equal(fg_ring_encode(&ring, &bytes, &err), FG_OK);
    bytes.len -= 4 + 4; /* checksum; floor, others, shard factors, overrides */
    fg_buf_le32(&bytes, fg_crc32c(fg_buf_slice(&bytes)));
    assert_int_equal(fg_ring_decode(fg_buf_slice(&bytes), arena, &read, &err), FG_OK);
    assert_int_equal(fg_ring_shard_factor(&read, FG_LIT("team")), FG_SHARD_FACTOR_MAX);
    assert_int_equal(fg_ring_shard_factor_at(&read, FG_LIT("team"), INT64_MAX), 0);
    assert_round_trip(&read, arena);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

static void invalid_texts_are_refused(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring none = fg_ring_none();
    struct fg_ring_change join = ring_make_join("", "", 1);
    char longer[300];

    (void)state;
    memset(longer, 'a', sizeof longer);
    assert_refused(&none, &join, FG_E_INVALID, "the name of the member is empty", arena);
    join.name = FG_LIT("a b");
    assert_refused(&none, &join, FG_E_INVALID,
                   "the name of the member contains a character other than letters, digits and -._",
                   arena);
    join.name = fg_bytes(longer, 129);
    assert_refused(&none, &join, FG_E_INVALID, "the name of the member is longer than 128 bytes",
                   arena);
    join.name = FG_LIT("a-b_c.9");
    join.zone = FG_LIT("<b>");
    assert_refused(&none, &join, FG_E_INVALID,
                   "the zone of the member contains a character other than letters, digits and -._",
                   arena);
    join.zone = FG_LIT("");
    join.address = FG_LIT("");
    assert_refused(&none, &join, FG_E_INVALID, "the address of the member is empty", arena);
    join.address = fg_bytes(longer, 257);
    assert_refused(&none, &join, FG_E_INVALID, "the address of the member is longer than 256 bytes",
                   arena);
    join.address = FG_LIT("tcp://a:1");
    join.http = FG_LIT("a\n");
    assert_refused(&none, &join, FG_E_INVALID,
                   "the HTTP address of the member contains a blank or a character that is not "
                   "printable ASCII",
                   arena);
    join.http = FG_LIT("");
    join.replicas = 4;
    assert_refused(&none, &join, FG_E_INVALID, "4 replicas; there can be 1 to 3", arena);
    fg_arena_destroy(arena);
}

static void limits_are_kept(void **state)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX), *small = fg_arena_create(600);
    struct fg_ring ring = fg_ring_none(), next;
    struct fg_ring_change join = ring_make_join("x", "", 1);
    char name[32], zone[32];
    bool changed;
    struct fg_err err;

    (void)state;
    ring = ring_make(&ring, join, arena);
    for (unsigned i = 0; i < FG_RING_REVISIONS_MAX - 1; i++) {
        (void)snprintf(zone, sizeof zone, "zone-%u", i);
        join.zone = fg_arena_copy(arena, fg_cstr(zone));
        ring = ring_make(&ring, join, arena);
    }
    join.zone = FG_LIT("one-more");
    assert_refused(&ring, &join, FG_E_LIMIT,
                   "32 ring revisions have not drained yet: wait, or forget dead members", arena);
    assert_int_equal(fg_ring_apply(&ring, &join, small, &next, &changed, &err), FG_E_LIMIT);

    ring = fg_ring_none();
    for (unsigned i = 0; i < FG_RING_MEMBERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "m-%u", i);
        join.name = fg_arena_copy(arena, fg_cstr(name));
        ring.n_revisions = FG_MIN(ring.n_revisions, 1); /* all has drained */
        if (ring.n_revisions > 0)
            ring.revisions[0].number = i;
        assert_int_equal(fg_ring_apply(&ring, &join, arena, &ring, &changed, &err), FG_OK);
        ring.revisions = &ring.revisions[ring.n_revisions - 1];
    }
    ring.n_revisions = 1;
    assert_round_trip(&ring, arena);
    join.name = FG_LIT("z");
    assert_refused(&ring, &join, FG_E_LIMIT,
                   "the ring would have 1025 members; the maximum is 1024", arena);
    fg_arena_destroy(arena);
    fg_arena_destroy(small);
}

/* A newer program's fields come through, also where something else changes. */
static void fields_of_newer_versions_are_kept(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = example(arena), read;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    ring = ring_make(
        &ring,
        (struct fg_ring_change){.kind = FG_RING_WIDEN, .name = FG_LIT("team"), .shard_factor = 1},
        arena);
    ring.later = FG_LIT("whole");
    ring.shard_factors[0].later = FG_LIT("team's");
    ring.members[1].later = FG_LIT("bob's");
    ring.revisions[2].later = FG_LIT("third");
    assert_round_trip(&ring, arena);
    ring = ring_make(&ring, ring_make_join("abe", "", 4), arena);
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    assert_int_equal(fg_ring_encode(&ring, &bytes, &err), FG_OK);
    assert_int_equal(fg_ring_decode(fg_buf_slice(&bytes), arena, &read, &err), FG_OK);
    assert_true(fg_slice_is(read.later, "whole"));
    assert_true(fg_slice_is(member_of(&read, "bob")->later, "bob's"));
    assert_true(fg_slice_is(read.revisions[2].later, "third"));
    assert_int_equal(read.revisions[3].later.len, 0);
    assert_true(fg_slice_is(read.shard_factors[0].later, "team's"));
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* Every length cut, every byte another one with the checksum put right: read or refused. */
static void damaged_bytes_are_refused(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    const struct fg_ring_change widen = {
        .kind = FG_RING_WIDEN, .name = FG_LIT("team"), .shard_factor = 2};
    struct fg_ring ring = example(arena), read;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    ring = ring_make(&ring, widen, arena);
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    assert_int_equal(fg_ring_encode(&ring, &bytes, &err), FG_OK);
    for (size_t i = 0; i < bytes.len; i++) {
        struct fg_slice whole = fg_buf_slice(&bytes);
        uint32_t crc;

        assert_int_equal(fg_ring_decode(fg_slice_sub(whole, 0, i), arena, &read, &err),
                         FG_E_CORRUPT);
        bytes.ptr[i] ^= 0x5a;
        assert_int_equal(fg_ring_decode(whole, arena, &read, &err), FG_E_CORRUPT);
        crc = fg_crc32c(fg_slice_sub(whole, 0, whole.len - 4));
        for (size_t k = 0; k < 4; k++)
            bytes.ptr[bytes.len - 4 + k] = (uint8_t)(crc >> 8 * k);
        (void)!fg_ring_decode(whole, arena, &read, &err);
        bytes.ptr[i] ^= 0x5a;
        fg_buf_clear(&bytes);
        assert_int_equal(fg_ring_encode(&ring, &bytes, &err), FG_OK);
    }
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

static void json_has_every_field(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    const struct fg_ring_change widen = {
        .kind = FG_RING_WIDEN, .name = FG_LIT("team"), .shard_factor = 2};
    struct fg_ring ring = example(arena);
    json_t *root, *members, *revisions, *shard_factor;
    struct fg_buf text;

    (void)state;
    ring = ring_make(&ring, widen, arena);
    fg_buf_init(&text, 1 << 20);
    fg_ring_json(&ring, &text);
    root = json_loadb((const char *)text.ptr, text.len, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "revision")), 3);
    members = json_object_get(root, "members");
    assert_int_equal(json_array_size(members), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(members, 1), "zone")),
                        "west");
    assert_string_equal(json_string_value(json_object_get(json_array_get(members, 1), "state")),
                        "active");
    assert_string_equal(json_string_value(json_object_get(json_array_get(members, 1), "store")),
                        "00000000000000010000000000000002");
    revisions = json_object_get(root, "revisions");
    assert_int_equal(json_array_size(revisions), 3);
    assert_int_equal(json_array_size(json_object_get(json_array_get(revisions, 1), "waits_for")),
                     1);
    assert_null(json_object_get(json_array_get(revisions, 2), "waits_for"));
    shard_factor = json_array_get(json_object_get(root, "shard_factors"), 0);
    assert_string_equal(json_string_value(json_object_get(shard_factor, "tenant")), "team");
    shard_factor = json_array_get(json_object_get(shard_factor, "steps"), 0);
    assert_int_equal(json_integer_value(json_object_get(shard_factor, "shard_factor")), 2);
    assert_int_equal(json_array_size(json_object_get(root, "shard_factor_of_others")), 0);
    json_decref(root);
    fg_buf_clear(&text);
    ring = fg_ring_none();
    fg_ring_json(&ring, &text);
    root = json_loadb((const char *)text.ptr, text.len, 0, NULL);
    assert_non_null(root);
    json_decref(root);
    fg_buf_done(&text);
    fg_arena_destroy(arena);
}

/* A majority to write, and as many to read as share one with every majority. */
static void quorums_of_writers_and_readers_meet(void **state)
{
    (void)state;
    for (unsigned replicas = 1; replicas <= 3; replicas++)
        for (unsigned owners = 0; owners <= replicas; owners++) {
            unsigned writes = fg_ring_writes(replicas), reads = fg_ring_reads(replicas, owners);

            assert_true(writes * 2 > replicas);
            if (owners >= writes)
                assert_int_equal(writes + reads, owners + 1);
            else
                assert_int_equal(reads, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_join_makes_a_revision),
        cmocka_unit_test(a_leave_makes_a_revision),
        cmocka_unit_test(drained_revisions_end),
        cmocka_unit_test(a_forgotten_member_has_lost_all),
        cmocka_unit_test(a_new_store_loses_the_old_one),
        cmocka_unit_test(replicas_change_by_a_revision),
        cmocka_unit_test(shard_factors_only_grow),
        cmocka_unit_test(too_many_tenants_share_one_shard_factor),
        cmocka_unit_test(an_old_ring_has_the_greatest_floor),
        cmocka_unit_test(one_member_at_a_time_is_in_maintenance),
        cmocka_unit_test(members_of_one_zone_are_in_maintenance_together),
        cmocka_unit_test(invalid_texts_are_refused),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(fields_of_newer_versions_are_kept),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(json_has_every_field),
        cmocka_unit_test(quorums_of_writers_and_readers_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
