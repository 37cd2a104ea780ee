/* What deletions leave, against asking each moment for itself; and the limits of what is added. */
#include "common/model/deletion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOMENTS = 40, SERIES = 12, ROUNDS = 400 };

static const char *const selectors[] = {
    "{}",
    "{service_name=\"shop\"}",
    "{service_name=\"web\",pod=\"p1\"}",
    "{pod=~\"p[02]\"}",
    "{service_name!=\"shop\"}",
    "{zone=\"\"}",
};

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random) % below;
}

static struct fg_labels labels_of(uint32_t series, struct fg_arena *arena)
{
    static const char *const services[] = {"shop", "web", "api"}, *const pods[] = {"p0", "p1"};
    struct fg_labels labels = {fg_arena_new(arena, struct fg_label, 3), 0};

    labels.items[labels.count++] =
        (struct fg_label){FG_LIT("service_name"), fg_cstr(services[series % 3])};
    labels.items[labels.count++] = (struct fg_label){FG_LIT("pod"), fg_cstr(pods[series / 3 % 2])};
    if (series >= 6)
        labels.items[labels.count++] = (struct fg_label){FG_LIT("zone"), FG_LIT("a")};
    fg_labels_sort(&labels);
    return labels;
}

static void add(struct fg_deletions *deletions, const char *selector, int64_t start_ns,
                int64_t end_ns, struct fg_arena *arena)
{
    struct fg_deletion deletion = {.start_ns = start_ns, .end_ns = end_ns};
    struct fg_err err;

    assert_int_equal(fg_selector_parse(fg_cstr(selector), arena, &deletion.selector, &err), FG_OK);
    assert_int_equal(fg_deletions_add(deletions, &deletion, arena, &err), FG_OK);
}

static void draw_deletions(uint64_t *random, struct fg_deletions *deletions, struct fg_arena *arena)
{
    uint64_t n = draw(random, 6);

    for (uint64_t i = 0; i < n; i++) {
        int64_t start_ns = (int64_t)draw(random, MOMENTS);
        int64_t end_ns = start_ns + (int64_t)draw(random, 8);

        if (draw(random, 8) == 0)
            start_ns = INT64_MIN;
        if (draw(random, 8) == 0)
            end_ns = INT64_MAX;
        add(deletions, selectors[draw(random, FG_COUNT(selectors))], start_ns, end_ns, arena);
    }
}

/* labels NULL: of every series. */
static bool is_deleted(const struct fg_deletions *deletions, const struct fg_labels *labels,
                       int64_t at_ns)
{
    for (uint32_t i = 0; i < deletions->count; i++) {
        const struct fg_deletion *deletion = &deletions->items[i];
        bool names = labels == NULL ? deletion->selector.n_matchers == 0
                                    : fg_selector_matches(&deletion->selector, labels);

        if (names && at_ns >= deletion->start_ns && at_ns <= deletion->end_ns)
            return true;
    }
    return false;
}

static bool has(const struct fg_left *left, int64_t at_ns)
{
    bool found = false;

    for (uint32_t i = 0; i < left->count; i++) {
        assert_true(left->spans[i].start_ns <= left->spans[i].end_ns);
        assert_true(i == 0 || left->spans[i - 1].end_ns < left->spans[i].start_ns - 1);
        found = found || (at_ns >= left->spans[i].start_ns && at_ns <= left->spans[i].end_ns);
    }
    return found;
}

static void check_clip(const struct fg_deletions *deletions, const struct fg_labels *labels,
                       const struct fg_left *left, struct fg_time_span whole, uint64_t *random)
{
    int64_t from_ns = (int64_t)draw(random, MOMENTS), to_ns = from_ns + (int64_t)draw(random, 9);
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;

    for (int64_t at_ns = FG_MAX(from_ns, whole.start_ns); at_ns <= FG_MIN(to_ns, whole.end_ns);
         at_ns++)
        if (!is_deleted(deletions, labels, at_ns)) {
            first_ns = FG_MIN(first_ns, at_ns);
            last_ns = at_ns;
        }
    assert_int_equal(fg_left_clip(left, &from_ns, &to_ns), first_ns <= last_ns);
    if (first_ns <= last_ns) {
        assert_int_equal(from_ns, first_ns);
        assert_int_equal(to_ns, last_ns);
    }
}

static void check_series(struct fg_leaving *leaving, const struct fg_labels *labels,
                         uint64_t *random)
{
    struct fg_left left;
    struct fg_err err;

    assert_int_equal(fg_leaving_of(leaving, labels, &left, &err), FG_OK);
    for (int64_t at_ns = -2; at_ns < MOMENTS + 12; at_ns++) {
        bool inside = at_ns >= leaving->whole.start_ns && at_ns <= leaving->whole.end_ns;

        assert_int_equal(has(&left, at_ns),
                         inside && !is_deleted(leaving->deletions, labels, at_ns));
    }
    check_clip(leaving->deletions, labels, &left, leaving->whole, random);
}

static void times_that_are_left_are_exact(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct fg_arena *arena = fg_arena_create(1 << 20);
        struct fg_deletions deletions = {0};
        struct fg_time_span whole = {(int64_t)draw(&random, MOMENTS), 0};
        struct fg_leaving leaving;

        whole.end_ns = whole.start_ns + (int64_t)draw(&random, MOMENTS);
        if (draw(&random, 4) == 0)
            whole = (struct fg_time_span){INT64_MIN, INT64_MAX};
        draw_deletions(&random, &deletions, arena);
        fg_leaving_init(&leaving, &deletions, whole, arena);
        for (uint32_t series = 0; series < SERIES; series++) {
            struct fg_labels labels = labels_of((uint32_t)draw(&random, SERIES), arena);

            check_series(&leaving, series % 5 == 4 ? NULL : &labels, &random);
        }
        fg_deletions_done(&deletions);
        fg_arena_destroy(arena);
    }
}

/* Where it says no, no series of the service and no moment of the time is deleted. */
static void touch_finds_services_and_times(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_deletions deletions = {0};

    (void)state;
    assert_false(fg_deletions_touch(&deletions, FG_LIT("shop"), INT64_MIN, INT64_MAX));
    add(&deletions, "{service_name=\"shop\",pod=\"p1\"}", 10, 20, arena);
    add(&deletions, "{service_name=~\"a.*\"}", 30, 40, arena);
    assert_true(fg_deletions_touch(&deletions, FG_LIT("shop"), 0, 10));
    assert_true(fg_deletions_touch(&deletions, FG_LIT("shop"), 20, 25));
    assert_false(fg_deletions_touch(&deletions, FG_LIT("shop"), 21, 50));
    assert_false(fg_deletions_touch(&deletions, FG_LIT("web"), INT64_MIN, INT64_MAX));
    assert_true(fg_deletions_touch(&deletions, FG_LIT("api"), 35, 36));
    assert_true(fg_deletions_touch(&deletions, fg_bytes(NULL, 0), 15, 15));
    assert_false(fg_deletions_touch(&deletions, fg_bytes(NULL, 0), 21, 29));
    add(&deletions, "{pod=\"p1\"}", 21, 21, arena);
    assert_true(fg_deletions_touch(&deletions, FG_LIT("web"), INT64_MIN, INT64_MAX));
    fg_deletions_done(&deletions);
    fg_arena_destroy(arena);
}

static void deletions_are_limited(void **state)
{
    struct fg_arena *arena = fg_arena_create(16 << 20);
    struct fg_deletions deletions = {0};
    struct fg_deletion deletion = {.start_ns = 2, .end_ns = 1};
    uint8_t *much = fg_arena_alloc(arena, FG_DELETIONS_MAX_BYTES);
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_deletions_add(&deletions, &deletion, arena, &err), FG_E_INVALID);
    for (int i = 0; i < FG_DELETIONS_REGEX_MAX; i++)
        add(&deletions, "{pod=~\"p.*\"}", 1, 2, arena);
    deletion.end_ns = 3;
    assert_int_equal(fg_selector_parse(FG_LIT("{pod!~\"p\"}"), arena, &deletion.selector, &err),
                     FG_OK);
    assert_int_equal(fg_deletions_add(&deletions, &deletion, arena, &err), FG_E_LIMIT);
    fg_selector_done(&deletion.selector); /* it was not taken over */

    memset(much, 'x', FG_DELETIONS_MAX_BYTES);
    assert_int_equal(fg_selector_add(&deletion.selector, arena, FG_MATCH_EQ, FG_LIT("pod"),
                                     fg_bytes(much, FG_DELETIONS_MAX_BYTES), &err),
                     FG_OK);
    assert_int_equal(fg_deletions_add(&deletions, &deletion, arena, &err), FG_E_LIMIT);
    fg_selector_done(&deletion.selector);

    while (deletions.count < FG_DELETIONS_MAX)
        add(&deletions, "{}", 1, 2, arena);
    assert_int_equal(fg_deletions_add(&deletions, &deletion, arena, &err), FG_E_LIMIT);
    fg_deletions_done(&deletions);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_that_are_left_are_exact),
        cmocka_unit_test(touch_finds_services_and_times),
        cmocka_unit_test(deletions_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
