#include "common/base/crc32c.h"
#include "common/cluster/manifest/blocks.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct fg_id ann = {1, 1}, bob = {2, 1};

/* A segment of some tenants' profiles, all of one group. */
struct made {
    struct fg_l0_new new;
    struct fg_l0_new_part parts[3];
    struct fg_late_filter_run run;
};

static const struct fg_l0_new *make(struct made *made, struct fg_id writer, uint64_t cut,
                                    const char *const *tenants, uint32_t n_tenants, uint32_t window)
{
    *made = (struct made){.run = {window, 7, 9}};
    for (uint32_t i = 0; i < n_tenants; i++)
        made->parts[i] = (struct fg_l0_new_part){fg_cstr(tenants[i]), 100 + i, 200, 5,
                                                 i % 2 == 0 ? (struct fg_usage){5, i, 7, 8}
                                                            : (struct fg_usage){0}};
    made->new = (struct fg_l0_new){
        .id = {writer, cut, 0xabc + cut},
        .bytes = 5000,
        .directory_offset = 4000,
        .directory_bytes = 900,
        .profiles = 5 * (uint64_t)n_tenants,
        .digest = {cut, 99},
        .t_min_ns = 100,
        .t_max_ns = 200,
        .parts = made->parts,
        .n_parts = n_tenants,
        .groups = {.above = FG_LATE_FILTER_ABOVE_NONE, .runs = &made->run, .n_runs = 1},
    };
    return &made->new;
}

static struct fg_l0 commit(const struct fg_l0 *l0, struct fg_id writer, uint64_t cut,
                           const char *const *tenants, uint32_t n_tenants, uint32_t window,
                           struct fg_arena *arena)
{
    struct made *made = fg_arena_new(arena, struct made, 1);
    struct fg_l0 next;
    struct fg_err err;

    assert_int_equal(fg_l0_commit(l0, make(made, writer, cut, tenants, n_tenants, window), 1000,
                                  window, arena, &next, &err),
                     FG_OK);
    return next;
}

static const char *const one[] = {"m"};
static const char *const two[] = {"z", "a"};

/* Three segments of two writers and three tenants, one of which has left. */
static struct fg_l0 example(struct fg_arena *arena)
{
    const uint64_t leaving[] = {1};
    struct fg_l0 l0 = fg_l0_none();
    bool changed;
    struct fg_err err;

    l0 = commit(&l0, ann, 1, one, 1, 500, arena);
    l0 = commit(&l0, bob, 4, two, 2, 501, arena);
    l0 = commit(&l0, ann, 2, two, 1, 500, arena);
    assert_int_equal(fg_l0_retire(&l0, leaving, 1, 2000, arena, &l0, &changed, &err), FG_OK);
    assert_true(changed);
    return l0;
}

static void assert_round_trip(const struct fg_l0 *l0, struct fg_arena *arena)
{
    struct fg_buf bytes, again;
    struct fg_l0 read;
    struct fg_err err;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    fg_buf_init(&again, FG_MANIFEST_MAX_BYTES);
    assert_int_equal(fg_l0_encode(l0, &bytes, &err), FG_OK);
    if (fg_l0_decode(fg_buf_slice(&bytes), arena, &read, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(fg_l0_encode(&read, &again, &err), FG_OK);
    assert_true(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
    assert_int_equal(read.n_segments, l0->n_segments);
    for (uint32_t i = 0; i < read.n_segments; i++)
        for (uint32_t p = 0; p < read.segments[i].n_parts; p++)
            assert_true(
                fg_usage_eq(&read.segments[i].parts[p].usage, &l0->segments[i].parts[p].usage));
    assert_int_equal(read.generation, l0->generation);
    fg_buf_done(&bytes);
    fg_buf_done(&again);
}

static uint64_t retired_of(const struct fg_l0 *l0, const char *tenant)
{
    uint32_t number = fg_l0_tenant(l0, fg_cstr(tenant));

    assert_int_not_equal(number, FG_L0_NO_TENANT);
    return l0->tenants[number].retired;
}

/* What has left for blocks is remembered of each tenant: it tells that a manifest was lost. */
static void retired_segments_stay_known(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 l0 = example(arena), read; /* generation 1, of tenants[0], has left */
    struct fg_blocks lost, other, covers;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    assert_int_equal(fg_l0_encode(&l0, &bytes, &err), FG_OK);
    assert_int_equal(fg_l0_decode(fg_buf_slice(&bytes), arena, &read, &err), FG_OK);
    for (uint32_t t = 0; t < read.n_tenants; t++) {
        const struct fg_l0_tenant *tenant = &read.tenants[t];
        bool had = fg_slice_is(tenant->name, one[0]);

        assert_int_equal(tenant->retired, had ? 1 : 0);
        lost = fg_blocks_none(tenant->name);
        assert_int_equal(fg_blocks_check(&lost, &read, &err), had ? FG_E_CORRUPT : FG_OK);
        covers = lost;
        covers.revision = 1;
        covers.covered_floor = 1;
        assert_int_equal(fg_blocks_check(&covers, &read, &err), FG_OK);
    }
    other = fg_blocks_none(FG_LIT("nobody"));
    assert_int_equal(fg_blocks_check(&other, &read, &err), FG_OK);

    /* A program that does not know the list keeps it, and adds tenants before and between. */
    l0 = commit(&read, ann, 7, (const char *const[]){"0-first"}, 1, 900, arena);
    assert_int_equal(retired_of(&l0, "0-first"), 0);
    assert_int_equal(retired_of(&l0, one[0]), 1);
    assert_round_trip(&l0, arena);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

static void commits_count_generations_and_cuts(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 none = fg_l0_none(), l0 = example(arena);
    const struct fg_l0_segment *segment;
    struct fg_l0 next;
    struct made made;
    struct fg_err err;

    (void)state;
    assert_round_trip(&none, arena);
    assert_round_trip(&l0, arena);
    assert_int_equal(l0.revision, 4);
    assert_int_equal(l0.generation, 3);
    assert_int_equal(l0.floor, 1);
    assert_int_equal(l0.n_segments, 2);
    assert_int_equal(l0.n_gone, 1);
    assert_int_equal(l0.gone[0].since_wall_ns, 2000);
    assert_null(fg_l0_segment(&l0, 1));

    /* Tenants came in between, and the numbers of those that were there went up. */
    assert_int_equal(l0.n_tenants, 3);
    assert_int_equal(fg_l0_tenant(&l0, FG_LIT("a")), 0);
    assert_int_equal(fg_l0_tenant(&l0, FG_LIT("m")), 1);
    assert_int_equal(fg_l0_tenant(&l0, FG_LIT("z")), 2);
    assert_int_equal(fg_l0_tenant(&l0, FG_LIT("b")), FG_L0_NO_TENANT);
    segment = fg_l0_segment(&l0, 2);
    assert_non_null(segment);
    assert_int_equal(fg_l0_part(segment, 0)->t_min_ns, 101);
    assert_int_equal(fg_l0_part(segment, 2)->t_min_ns, 100);
    assert_null(fg_l0_part(segment, 1));

    assert_int_equal(fg_l0_writer(&l0, ann)->cut, 2);
    assert_int_equal(fg_l0_writer(&l0, ann)->generation, 3);
    assert_int_equal(fg_l0_writer(&l0, bob)->cut, 4);

    /* A group stays in the filter after its segments leave; a group without segments is known
     * exactly. */
    assert_true(fg_late_filter_has(&l0.late_filter, 8, 500));
    assert_true(fg_late_filter_has(&l0.late_filter, 8, 501));
    assert_false(fg_late_filter_has(&l0.late_filter, 10, 501));
    assert_false(fg_late_filter_has(&l0.late_filter, 8, 502));
    assert_true(fg_late_filter_has(&l0.late_filter, 8, 501 - FG_LATE_FILTER_EXACT_WINDOWS - 1));
    assert_false(fg_late_filter_has(&l0.late_filter, 8, 501 - FG_LATE_FILTER_EXACT_WINDOWS));

    /* A cut enters once, and none that is older. */
    assert_int_equal(
        fg_l0_commit(&l0, make(&made, bob, 4, one, 1, 501), 0, 501, arena, &next, &err),
        FG_E_EXISTS);
    assert_int_equal(
        fg_l0_commit(&l0, make(&made, bob, 3, one, 1, 501), 0, 501, arena, &next, &err),
        FG_E_EXISTS);
    fg_arena_destroy(arena);
}

/* A clock that is ahead does not make all that comes late, nor does a profile that is. */
static void wrong_clocks_keep_the_late_filter_exact(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 none = fg_l0_none(), l0;
    struct made made;
    struct fg_err err;

    (void)state;
    assert_int_equal(
        fg_l0_commit(&none, make(&made, ann, 1, one, 1, 500), 0, 90000, arena, &l0, &err), FG_OK);
    assert_int_equal(l0.late_filter.below, 500 - FG_LATE_FILTER_EXACT_WINDOWS);
    assert_int_equal(
        fg_l0_commit(&none, make(&made, ann, 1, one, 1, 90000), 0, 500, arena, &l0, &err), FG_OK);
    assert_int_equal(l0.late_filter.below, 500 - FG_LATE_FILTER_EXACT_WINDOWS);
    assert_true(fg_late_filter_has(&l0.late_filter, 7, 90000));
    assert_false(fg_late_filter_has(&l0.late_filter, 7, 501));
    fg_arena_destroy(arena);
}

static void invalid_changes_are_refused(void **state)
{
    static const char *const bad[] = {"../x"}, *const same[] = {"a", "a"};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 none = fg_l0_none(), next;
    struct made made;
    struct fg_err err;

    (void)state;
    (void)make(&made, ann, 1, bad, 1, 1);
    assert_int_equal(fg_l0_commit(&none, &made.new, 0, 1, arena, &next, &err), FG_E_INVALID);
    (void)make(&made, ann, 1, same, 2, 1);
    assert_int_equal(fg_l0_commit(&none, &made.new, 0, 1, arena, &next, &err), FG_E_INVALID);
    (void)make(&made, ann, 1, one, 0, 1);
    assert_int_equal(fg_l0_commit(&none, &made.new, 0, 1, arena, &next, &err), FG_E_INVALID);
    (void)make(&made, ann, 1, one, 1, 1);
    made.parts[0].t_max_ns = 201;
    assert_int_equal(fg_l0_commit(&none, &made.new, 0, 1, arena, &next, &err), FG_E_INVALID);
    (void)make(&made, ann, 1, one, 1, 1);
    made.parts[0].profiles++;
    assert_int_equal(fg_l0_commit(&none, &made.new, 0, 1, arena, &next, &err), FG_E_INVALID);
    fg_arena_set_limit(arena, fg_arena_used_bytes(arena) + 100);
    (void)make(&made, ann, 1, one, 1, 1);
    assert_int_equal(fg_l0_commit(&none, &made.new, 0, 1, arena, &next, &err), FG_E_LIMIT);
    fg_arena_destroy(arena);
}

static void segments_leave_once(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    const uint64_t leaving[] = {3, 1, 99};
    struct fg_l0 l0 = example(arena), next;
    bool changed;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_l0_retire(&l0, leaving, 3, 3000, arena, &next, &changed, &err), FG_OK);
    assert_true(changed);
    assert_int_equal(next.floor, 3);
    assert_int_equal(next.n_segments, 1);
    assert_int_equal(next.n_gone, 2);
    assert_round_trip(&next, arena);
    assert_int_equal(fg_l0_retire(&next, leaving, 3, 3000, arena, &l0, &changed, &err), FG_OK);
    assert_false(changed);
    assert_int_equal(l0.revision, next.revision);

    assert_int_equal(fg_l0_deleted(&next, &next.gone[1].id, 1, arena, &l0, &changed, &err), FG_OK);
    assert_true(changed);
    assert_int_equal(l0.n_gone, 1);
    assert_round_trip(&l0, arena);
    assert_int_equal(fg_l0_deleted(&l0, &next.gone[1].id, 1, arena, &next, &changed, &err), FG_OK);
    assert_false(changed);
    fg_arena_destroy(arena);
}

/* When there are too many writers the longest silent of those go of whom nothing is live. */
/* A rebuilt manifest has uploads among what is gone that somebody commits after all. */
static void a_segment_that_enters_is_not_gone(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_l0_gone gone[] = {{.id = {ann, 1, 0xabd}}, {.id = {ann, 2, 0xabe}}};
    struct fg_l0 l0 = fg_l0_none();

    (void)state;
    l0.gone = gone;
    l0.n_gone = 2;
    l0 = commit(&l0, ann, 1, one, 1, 5, arena);
    assert_int_equal(l0.n_gone, 1);
    assert_int_equal(l0.gone[0].id.cut, 2);
    assert_int_equal(gone[0].id.cut, 1); /* values are never changed */
    l0 = commit(&l0, bob, 2, one, 1, 5, arena);
    assert_int_equal(l0.n_gone, 1);
    assert_round_trip(&l0, arena);
}

static void silent_writers_are_removed_when_there_are_many(void **state)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_l0 l0 = fg_l0_none();
    uint64_t generations[FG_L0_WRITERS_MAX];
    struct made made;
    bool changed;
    struct fg_err err;

    (void)state;
    for (uint32_t i = 0; i < FG_L0_WRITERS_MAX; i++) {
        generations[i] = i + 1;
        l0.segments = NULL;
        l0.n_segments = 0;
        assert_int_equal(fg_l0_commit(&l0, make(&made, (struct fg_id){i, 5}, 1, one, 1, 1), 0, 1,
                                      arena, &l0, &err),
                         FG_OK);
    }
    assert_int_equal(
        fg_l0_commit(&l0, make(&made, (struct fg_id){9, 9}, 1, one, 1, 1), 0, 1, arena, &l0, &err),
        FG_E_LIMIT);
    assert_int_equal(
        fg_l0_retire(&l0, generations, FG_L0_WRITERS_MAX, 0, arena, &l0, &changed, &err), FG_OK);
    assert_int_equal(l0.n_writers, FG_L0_WRITERS_MAX / 4 * 3);
    assert_null(fg_l0_writer(&l0, (struct fg_id){0, 5}));
    assert_non_null(fg_l0_writer(&l0, (struct fg_id){FG_L0_WRITERS_MAX - 1, 5}));
    assert_round_trip(&l0, arena);
    fg_arena_destroy(arena);
}

/* Somebody asks, writers answer: with a commit, or alone, and never less than before. */
static void a_writers_clean_number_never_falls(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 l0 = example(arena), read;
    struct fg_id eve = {3, 1};
    struct made made;
    struct fg_buf bytes;
    bool changed;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_l0_clean(&l0, ann, 5, arena, &l0, &changed, &err), FG_OK);
    assert_false(changed); /* nobody asked */
    fg_l0_ask(&l0, 3, &l0, &changed);
    assert_true(changed);
    assert_int_equal(l0.revision, 5);
    fg_l0_ask(&l0, 3, &l0, &changed);
    assert_false(changed);

    assert_int_equal(fg_l0_clean(&l0, eve, 2, arena, &l0, &changed, &err), FG_OK);
    assert_true(changed);
    assert_int_equal(fg_l0_writer(&l0, eve)->clean, 2);
    assert_int_equal(fg_l0_writer(&l0, eve)->cut, 0); /* so its first one is still to come */
    assert_int_equal(fg_l0_clean(&l0, eve, 1, arena, &l0, &changed, &err), FG_OK);
    assert_false(changed);
    (void)make(&made, eve, 1, one, 1, 501);
    made.new.clean = 1;
    assert_int_equal(fg_l0_commit(&l0, &made.new, 0, 501, arena, &l0, &err), FG_OK);
    assert_int_equal(fg_l0_writer(&l0, eve)->clean, 2);
    (void)make(&made, bob, 5, one, 1, 501);
    made.new.clean = 9; /* beyond what was asked: of a bucket that was put back */
    assert_int_equal(fg_l0_commit(&l0, &made.new, 0, 501, arena, &l0, &err), FG_OK);
    assert_int_equal(fg_l0_writer(&l0, bob)->clean, 3);
    assert_int_equal(fg_l0_writer(&l0, ann)->clean, 0);

    assert_round_trip(&l0, arena);
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    assert_int_equal(fg_l0_encode(&l0, &bytes, &err), FG_OK);
    assert_int_equal(fg_l0_decode(fg_buf_slice(&bytes), arena, &read, &err), FG_OK);
    assert_int_equal(read.asked, 3);
    assert_int_equal(fg_l0_writer(&read, eve)->clean, 2);
    l0.asked = 1; /* writers answer what nobody asked */
    fg_buf_clear(&bytes);
    assert_int_equal(fg_l0_encode(&l0, &bytes, &err), FG_OK);
    assert_int_equal(fg_l0_decode(fg_buf_slice(&bytes), arena, &read, &err), FG_E_CORRUPT);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* A newer program's fields come through. */
static void fields_of_newer_versions_are_kept(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 l0 = example(arena), next;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    l0.later = FG_LIT("whole");
    l0.segments[0].later = FG_LIT("segment");
    l0.writers[1].later = FG_LIT("writer");
    l0.gone[0].later = FG_LIT("gone");
    assert_round_trip(&l0, arena);
    next = commit(&l0, bob, 9, two, 2, 502, arena);
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    assert_int_equal(fg_l0_encode(&next, &bytes, &err), FG_OK);
    assert_int_equal(fg_l0_decode(fg_buf_slice(&bytes), arena, &l0, &err), FG_OK);
    assert_true(fg_slice_is(l0.later, "whole"));
    assert_true(fg_slice_is(l0.segments[0].later, "segment"));
    assert_true(fg_slice_is(l0.writers[1].later, "writer"));
    assert_true(fg_slice_is(l0.gone[0].later, "gone"));
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* Every byte flipped, every length cut: found by the checksum; with the checksum put right, read or
 * refused, and never anything worse. */
static void damaged_bytes_are_refused(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 l0 = example(arena), read;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    assert_int_equal(fg_l0_encode(&l0, &bytes, &err), FG_OK);
    for (size_t i = 0; i < bytes.len; i++) {
        struct fg_slice whole = fg_buf_slice(&bytes);
        uint32_t crc;

        assert_int_equal(fg_l0_decode(fg_slice_sub(whole, 0, i), arena, &read, &err), FG_E_CORRUPT);
        bytes.ptr[i] ^= 0x5a;
        assert_int_equal(fg_l0_decode(whole, arena, &read, &err), FG_E_CORRUPT);
        crc = fg_crc32c(fg_slice_sub(whole, 0, whole.len - 4));
        for (size_t k = 0; k < 4; k++)
            bytes.ptr[bytes.len - 4 + k] = (uint8_t)(crc >> 8 * k);
        (void)!fg_l0_decode(whole, arena, &read, &err);
        bytes.ptr[i] ^= 0x5a;
        fg_buf_clear(&bytes);
        assert_int_equal(fg_l0_encode(&l0, &bytes, &err), FG_OK);
    }
    bytes.ptr[4] = 2;
    bytes.len -= 4;
    fg_buf_le32(&bytes, fg_crc32c(fg_buf_slice(&bytes)));
    assert_int_equal(fg_l0_decode(fg_buf_slice(&bytes), arena, &read, &err), FG_E_UNIMPLEMENTED);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

static void json_has_every_field(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_l0 l0 = example(arena);
    struct fg_buf text;
    json_t *root, *segments;

    (void)state;
    fg_buf_init(&text, 1 << 20);
    fg_l0_json(&l0, &text);
    root = json_loadb((const char *)text.ptr, text.len, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "generation")), 3);
    segments = json_object_get(root, "segments");
    assert_int_equal(json_array_size(segments), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(segments, 0), "object")),
        "segments/00000000000000010000000000000002/0000000000000004-0000000000000ac0");
    assert_int_equal(json_array_size(json_object_get(root, "tenants")), 3);
    json_decref(root);
    fg_buf_clear(&text);
    l0 = fg_l0_none();
    fg_l0_json(&l0, &text);
    root = json_loadb((const char *)text.ptr, text.len, 0, NULL);
    assert_non_null(root);
    json_decref(root);
    fg_buf_done(&text);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retired_segments_stay_known),
        cmocka_unit_test(commits_count_generations_and_cuts),
        cmocka_unit_test(wrong_clocks_keep_the_late_filter_exact),
        cmocka_unit_test(invalid_changes_are_refused),
        cmocka_unit_test(segments_leave_once),
        cmocka_unit_test(a_segment_that_enters_is_not_gone),
        cmocka_unit_test(silent_writers_are_removed_when_there_are_many),
        cmocka_unit_test(a_writers_clean_number_never_falls),
        cmocka_unit_test(fields_of_newer_versions_are_kept),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(json_has_every_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
