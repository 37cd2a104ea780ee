/* Stacks that Go's profilers have cut. */
#include "common/base/hash.h"
#include "proto/pprof/go_stacks.h"
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/pprof/decoded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STACKS = 40, DEPTH_MAX = 70 };

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

struct slow {
    uint32_t locations[STACKS][DEPTH_MAX + FG_GO_SHIFT_MAX * (FG_GO_CHAIN_MAX + 1)];
    uint32_t depth[STACKS];
    uint32_t count;
};

static const uint32_t *end_of(const struct slow *slow, uint32_t i, uint32_t n)
{
    return slow->locations[i] + slow->depth[i] - n;
}

static bool have_equal(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* The number of a location as bytes, the lowest one first. */
static int order_of(const uint32_t *a, const uint32_t *b)
{
    for (uint32_t i = 0; i < FG_GO_SUFFIX; i++)
        for (unsigned bits = 0; bits < 32; bits += 8) {
            int left = (int)((a[i] + 1) >> bits & 255), right = (int)((b[i] + 1) >> bits & 255);

            if (left != right)
                return left - right;
        }
    return 0;
}

/* Whether stack a comes before stack b, of which both are deep enough. */
static bool is_before(const struct slow *slow, uint32_t a, uint32_t b)
{
    int order = order_of(end_of(slow, a, FG_GO_SUFFIX), end_of(slow, b, FG_GO_SUFFIX));

    if (order == 0)
        order = (int)slow->depth[b] - (int)slow->depth[a];
    return order != 0 ? order < 0 : a < b;
}

/* The stack that stands for those with the same end: of them the one that comes first. */
static uint32_t leader_of(const struct slow *slow, uint32_t of)
{
    uint32_t leader = of;

    for (uint32_t i = 0; i < slow->count; i++)
        if (slow->depth[i] >= FG_GO_SUFFIX &&
            have_equal(end_of(slow, i, FG_GO_SUFFIX), end_of(slow, of, FG_GO_SUFFIX),
                       FG_GO_SUFFIX) &&
            is_before(slow, i, leader))
            leader = i;
    return leader;
}

/* Looks through all others for what stack i lacks. Returns by how many locations they are longer;
 * 0: nothing is missing, or it is missing at that stack itself. */
static uint32_t look(const struct slow *slow, uint32_t i, uint32_t *ret_above)
{
    uint32_t best = 0, above = i;

    for (uint32_t k = 0; k < slow->count; k++)
        for (uint32_t shift = 1; slow->depth[k] >= FG_GO_SUFFIX && shift <= FG_GO_SHIFT_MAX;
             shift++)
            if (leader_of(slow, k) == k &&
                have_equal(end_of(slow, i, FG_GO_TOKEN), end_of(slow, k, FG_GO_TOKEN + shift),
                           FG_GO_TOKEN) &&
                (shift > best || (shift == best && is_before(slow, k, above)))) {
                best = shift;
                above = k;
            }
    *ret_above = above;
    return above == leader_of(slow, i) ? 0 : best;
}

/* Completes them; stops where the walk from a stack does not end, as the rest is left alone. */
static void complete(const struct slow *slow, struct slow *out)
{
    *out = *slow;
    for (uint32_t done = 0; done < slow->count; done++) {
        /* The next leader in order. */
        uint32_t leader = UINT32_MAX;

        for (uint32_t i = 0; i < slow->count; i++)
            if (slow->depth[i] >= FG_GO_SUFFIX && leader_of(slow, i) == i) {
                uint32_t rank = 0;

                for (uint32_t k = 0; k < slow->count; k++)
                    rank += slow->depth[k] >= FG_GO_SUFFIX && leader_of(slow, k) == k &&
                            is_before(slow, k, i);
                if (rank == done)
                    leader = i;
            }
        if (leader == UINT32_MAX)
            return;
        uint32_t top = leader, n = 0, steps = 0, above, more;

        while ((more = look(slow, top, &above)) > 0 && steps++ <= FG_GO_CHAIN_MAX) {
            n += more;
            top = above;
        }
        if (steps > FG_GO_CHAIN_MAX)
            return;
        if (n == 0 || n >= slow->depth[top])
            continue;
        for (uint32_t i = 0; i < slow->count; i++)
            if (slow->depth[i] >= FG_GO_SUFFIX && leader_of(slow, i) == leader) {
                memcpy(out->locations[i] + slow->depth[i], end_of(slow, top, n),
                       n * sizeof *out->locations[i]);
                out->depth[i] += n;
            }
    }
}

static uint32_t assert_as_slow(const struct slow *slow)
{
    struct slow *want = malloc(sizeof *want);
    struct fg_go_stack stacks[STACKS];
    struct fg_arena *arena = fg_arena_create((size_t)1 << 24);
    uint32_t completed, longer = 0;
    struct fg_err err;

    complete(slow, want);
    for (uint32_t i = 0; i < slow->count; i++)
        stacks[i] = (struct fg_go_stack){slow->locations[i], slow->depth[i]};
    assert_int_equal(fg_go_complete(stacks, slow->count, arena, &completed, &err), FG_OK);
    for (uint32_t i = 0; i < slow->count; i++) {
        assert_int_equal(stacks[i].depth, want->depth[i]);
        assert_true(have_equal(stacks[i].locations, want->locations[i], stacks[i].depth));
        longer += stacks[i].depth > slow->depth[i];
    }
    assert_int_equal(completed, longer);
    fg_arena_destroy(arena);
    free(want);
    return longer;
}

/* Adds a piece of a long stack: locations [from, from + n), where higher numbers are nearer to the
 * root. */
static void add(struct slow *slow, uint32_t from, uint32_t n)
{
    uint32_t i = slow->count++;

    slow->depth[i] = n;
    for (uint32_t k = 0; k < n; k++)
        slow->locations[i][k] = from + k;
}

static void cut_stacks_are_completed_from_whole_ones(void **state)
{
    struct slow slow = {.count = 0}, whole = {.count = 0};

    (void)state;
    add(&slow, 8, 40); /* whole: its root is 47 */
    add(&slow, 4, 40); /* cut by four frames */
    add(&slow, 0, 40); /* by eight */
    add(&slow, 0, 30); /* found by way of another one only */
    add(&slow, 0, 23); /* too short to say */
    add(&slow, 300, 40);
    complete(&slow, &whole);
    assert_int_equal(whole.depth[1], 44);
    assert_int_equal(whole.depth[2], 48);
    assert_int_equal(whole.depth[3], 30); /* ten are missing: too many at once */
    assert_int_equal(whole.depth[4], 23);
    assert_int_equal(assert_as_slow(&slow), 2);
    add(&slow, 0, 35); /* but this one is between them */
    complete(&slow, &whole);
    assert_int_equal(whole.depth[3], 48);
    assert_int_equal(whole.locations[3][47], 47);
    assert_int_equal(assert_as_slow(&slow), 4);
}

/* A function that calls itself is below itself for ever: then stacks stay as they are. */
static void recursion_is_left_alone(void **state)
{
    struct slow slow = {.count = 0};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        add(&slow, 0, 40);
        for (uint32_t k = 0; k < 40; k++)
            slow.locations[i][k] = (k + i) % 3;
    }
    assert_int_equal(assert_as_slow(&slow), 0);
}

static void random_stacks_are_completed_as_slowly(void **state)
{
    uint64_t random = 5, completed = 0;

    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct slow *slow = calloc(1, sizeof *slow);
        uint32_t stacks = 1 + (uint32_t)(next_random(&random) % STACKS);

        while (slow->count < stacks) {
            uint32_t depth = 18 + (uint32_t)(next_random(&random) % 46);
            uint32_t from =
                (uint32_t)(next_random(&random) % 24) + (next_random(&random) % 4 == 0 ? 500 : 0);

            add(slow, from, depth);
            /* Some leave the way at the leaf, and some programs recurse. */
            if (next_random(&random) % 3 == 0)
                slow->locations[slow->count - 1][0] = 100 + (uint32_t)(next_random(&random) % 3);
            if (round % 5 == 0)
                for (uint32_t k = 0; k < depth; k++)
                    slow->locations[slow->count - 1][k] %= 11;
        }
        completed += assert_as_slow(slow);
        free(slow);
    }
    assert_true(completed > 100);
}

static void a_full_arena_is_said(void **state)
{
    struct slow slow = {.count = 0};
    struct fg_err err;

    (void)state;
    for (uint32_t i = 0; i < STACKS; i++)
        add(&slow, i, 40);
    for (size_t bytes = 1; bytes < 100000; bytes += 997) {
        struct fg_arena *arena = fg_arena_create(bytes);
        struct fg_go_stack stacks[STACKS];
        uint32_t completed;

        for (uint32_t i = 0; i < STACKS; i++)
            stacks[i] = (struct fg_go_stack){slow.locations[i], slow.depth[i]};
        enum fg_code code = fg_go_complete(stacks, STACKS, arena, &completed, &err);
        assert_true(code == FG_OK || code == FG_E_TOO_LARGE);
        fg_arena_destroy(arena);
    }
}

/* ---- whole profiles ---- */

/* A profile of two stacks: one of `depth` frames, and one of which the last four are cut. Returns
 * how many were completed. */
static uint64_t completed_of(const char *type, const char *file, uint64_t depth, unsigned quirks)
{
    struct make make;
    struct decoded decoded;
    struct fg_pprof_request request = decode_plain_request();
    uint64_t locations[200], completed;

    request.quirks = quirks;
    make_start(&make);
    make_type(&make, type, "count");
    for (uint64_t id = 1; id <= depth + 4; id++) {
        char name[16];

        (void)snprintf(name, sizeof name, "f%u", (unsigned)id);
        make_function(&make, id, name, name, file, 0);
        make_location(&make, id, 0, id, (struct make_line[]){{id, 1}}, 1);
        locations[id - 1] = id;
    }
    make_sample_of(&make, locations + 4, depth, 1, NULL, 0);
    make_sample_of(&make, locations, depth, 2, NULL, 0);
    decode_by(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    completed = decoded.counts.stacks_completed;
    for (uint32_t i = 0; i < decoded.batch.n_stacks; i++)
        assert_int_equal(decoded.batch.stacks[i].depth, depth + (i == 1 && completed > 0 ? 4 : 0));
    decoded_done(&decoded);
    make_done(&make);
    return completed;
}

static void only_what_may_be_cut_is_completed(void **state)
{
    (void)state;
    assert_int_equal(completed_of("cpu", "main.go", 64, 0), 1);
    assert_int_equal(completed_of("cpu", "main.go", 60, 0), 1);
    assert_int_equal(completed_of("cpu", "main.go", 59, 0), 0);  /* nothing is that deep */
    assert_int_equal(completed_of("cpu", "main.go", 128, 0), 1); /* another limit */
    assert_int_equal(completed_of("alloc_space", "main.go", 32, 0), 1);
    assert_int_equal(completed_of("alloc_space", "main.go", 27, 0), 0);
    assert_int_equal(completed_of("inuse_objects", "main.go", 33, 0), 0); /* Go 1.23 cuts later */
    assert_int_equal(completed_of("goroutine", "main.go", 64, 0), 0);
    assert_int_equal(completed_of("cpu", "main.py", 64, 0), 0);
    assert_int_equal(completed_of("cpu", "main.py", 64, FG_PPROF_GO), 1);
    assert_int_equal(completed_of("cpu", "main.go", 64, FG_PPROF_NOT_GO), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_stacks_are_completed_from_whole_ones),
        cmocka_unit_test(recursion_is_left_alone),
        cmocka_unit_test(random_stacks_are_completed_as_slowly),
        cmocka_unit_test(a_full_arena_is_said),
        cmocka_unit_test(only_what_may_be_cut_is_completed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
