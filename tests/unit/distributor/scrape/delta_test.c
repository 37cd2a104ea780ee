/* Tests the growth of cumulative profiles. A scrape is a text: "a 3 100, b 1 10" are stacks with
 * objects and bytes allocated, and a third column in use. */
#include "common/base/str.h"
#include "common/base/time.h"
#include "distributor/scrape/delta.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SAMPLES_MAX = 64, TYPES = 3 };

static const struct dist_profile_kind memory = {
    .name = "memory", .cumulative = {"alloc_objects", "alloc_space"}, .n_cumulative = 2};

struct fixture {
    struct fg_arena *arena;
    struct fg_budget budget;
    struct dist_delta *before;
    struct dist_delta_result result;
    struct fg_batch batch;
    int64_t time_ns;
    uint64_t rules;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->arena = fg_arena_create(8 << 20);
    fg_budget_init(&f->budget, 1 << 20);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    dist_delta_destroy(f->before);
    assert_int_equal(fg_budget_used(&f->budget), 0);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

/* ---- batches from text and back ---- */

static int64_t take_number(struct fg_slice *text)
{
    struct fg_slice word;
    int64_t number = 0;
    size_t n = 0;

    *text = fg_trim(*text);
    while (n < text->len && text->ptr[n] != ' ')
        n++;
    word = fg_slice_sub(*text, 0, n);
    *text = fg_slice_sub(*text, n, text->len);
    assert_true(word.len == 0 || fg_parse_i64(word, &number));
    return number;
}

/* "stack objects bytes in-use" */
static void add_sample(struct fixture *f, struct fg_profile *profile, struct fg_slice text)
{
    struct fg_batch *batch = &f->batch;
    uint32_t stack = batch->n_stacks++, i = profile->n_samples++;
    size_t space;

    text = fg_trim(text);
    space = FG_MIN(fg_slice_find(text, ' '), text.len);
    assert_true(stack < SAMPLES_MAX);
    batch->stacks[stack].id = fg_hash128(fg_slice_sub(text, 0, space));
    batch->stacks[stack].first = text.ptr[0]; /* the name, to find it again */
    profile->stacks[i] = stack;
    text = fg_slice_sub(text, space, text.len);
    for (uint32_t t = 0; t < TYPES; t++)
        profile->values[t * SAMPLES_MAX + i] = take_number(&text);
}

/* Columns had room for the largest possible number of samples. */
static void pack(struct fg_profile *profile)
{
    for (uint32_t t = 1; t < TYPES; t++)
        memmove(profile->values + (size_t)t * profile->n_samples,
                profile->values + (size_t)t * SAMPLES_MAX,
                profile->n_samples * sizeof *profile->values);
}

static void add_profile(struct fixture *f, const char *text, struct fg_labels labels)
{
    struct fg_profile *profile = &f->batch.profiles[f->batch.n_profiles++];
    struct fg_slice rest = fg_cstr(text);

    profile->labels = labels;
    profile->stacks = fg_arena_new(f->arena, uint32_t, SAMPLES_MAX);
    profile->values = fg_arena_new(f->arena, int64_t, (size_t)SAMPLES_MAX * TYPES);
    while (rest.len > 0) {
        size_t comma = FG_MIN(fg_slice_find(rest, ','), rest.len);

        add_sample(f, profile, fg_slice_sub(rest, 0, comma));
        rest = fg_slice_sub(rest, comma + 1, rest.len);
    }
    pack(profile);
}

static void begin(struct fixture *f)
{
    static const struct fg_value_type types[TYPES] = {
        {FG_LIT("alloc_objects"), FG_LIT("count")},
        {FG_LIT("alloc_space"), FG_LIT("bytes")},
        {FG_LIT("inuse_space"), FG_LIT("bytes")},
    };

    fg_arena_reset(f->arena);
    f->batch = (struct fg_batch){
        .types = fg_arena_new(f->arena, struct fg_value_type, TYPES),
        .n_types = TYPES,
        .stacks = fg_arena_new(f->arena, struct fg_stack, SAMPLES_MAX),
        .profiles = fg_arena_new(f->arena, struct fg_profile, 4),
    };
    memcpy(f->batch.types, types, sizeof types);
    f->time_ns += 10 * FG_SECOND_NS;
}

static void apply(struct fixture *f)
{
    const struct dist_delta_scrape scrape = {&memory, f->time_ns, f->rules, &f->budget};
    struct fg_err err;

    assert_int_equal(dist_delta_apply(f->before, &scrape, &f->batch, f->arena, &f->result, &err),
                     FG_OK);
    dist_delta_destroy(f->before);
    f->before = f->result.seen;
}

static void write_profile(const struct fg_batch *batch, const struct fg_profile *profile,
                          struct fg_buf *out)
{
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        fg_buf_printf(out, "%s%c", out->len > 0 ? ", " : "",
                      (int)batch->stacks[profile->stacks[i]].first);
        for (uint32_t t = 0; t < TYPES; t++)
            fg_buf_printf(out, " %lld",
                          (long long)profile->values[(size_t)t * profile->n_samples + i]);
    }
}

/* Feeds one scrape and expects this growth. */
static void scrape(struct fixture *f, const char *text, const char *want)
{
    struct fg_buf got;

    begin(f);
    add_profile(f, text, (struct fg_labels){NULL, 0});
    apply(f);
    fg_buf_init(&got, 4096);
    for (uint32_t p = 0; p < f->batch.n_profiles; p++)
        write_profile(&f->batch, &f->batch.profiles[p], &got);
    if (!fg_slice_is(fg_buf_slice(&got), want))
        fail_msg("%s: \"%.*s\", not \"%s\"", text, FG_S(fg_buf_slice(&got)), want);
    fg_buf_done(&got);
}

/* ---- tests ---- */

static void the_first_scrape_has_nothing_to_compare_with(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a 3 300 7, b 1 10", "a 0 0 7");
    assert_true(f->result.first);
    assert_false(f->result.reset);
}

static void growth_is_stored(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a 3 300, b 1 10", "");
    scrape(f, "a 5 500, b 1 10", "a 2 200 0");
    assert_false(f->result.first);
    assert_int_equal(f->batch.profiles[0].duration_ns, 10 * FG_SECOND_NS);
    scrape(f, "a 5 500, b 1 10", "");
    scrape(f, "c 1 5, b 2 20 9, a 5 500 1", "c 1 5 0, b 1 10 9, a 0 0 1");
}

static void an_empty_first_profile_counts_as_first_scrape(void **state)
{
    struct fixture *f = *state;

    scrape(f, "", "");
    assert_true(f->result.first);
    scrape(f, "a 2 5", "a 2 5 0");
    assert_false(f->result.reset);
}

static void a_restarted_process_counts_from_zero(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a 30 3000, b 10 1000", "");
    scrape(f, "a 1 100, c 2 50", "a 1 100 0, c 2 50 0");
    assert_true(f->result.reset);
    scrape(f, "a 2 200, c 2 50", "a 1 100 0");
    assert_false(f->result.reset);
}

/* The new process has already allocated more than the old one, but in other stacks. */
static void a_restart_of_a_busy_process_is_detected(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a 30 3000, b 10 1000", "");
    scrape(f, "a 5 500, c 90 9000", "a 5 500 0, c 90 9000 0");
    assert_true(f->result.reset);
}

/* Numbers of objects are estimates, which fall when a stack allocates larger objects. */
static void one_stack_that_falls_is_no_restart(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a 500000 500000, b 10 1000", "");
    scrape(f, "a 3 900000, b 11 1100", "a 0 400000 0, b 1 100 0");
    assert_false(f->result.reset);
    scrape(f, "a 4 900100, b 11 1100", "a 1 100 0");
}

/* A program that reports only its largest stacks omits small ones now and then. */
static void a_small_stack_that_disappears_is_no_restart(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a 50 5000, b 1 10", "");
    scrape(f, "a 60 6000", "a 10 1000 0");
    assert_false(f->result.reset);
}

static void equal_stacks_with_different_labels_are_kept_apart(void **state)
{
    struct fixture *f = *state;
    struct fg_label one = {FG_LIT("l"), FG_LIT("1")}, two = {FG_LIT("l"), FG_LIT("2")};

    for (int64_t i = 0; i < 2; i++) {
        begin(f);
        add_profile(f, i == 0 ? "a 1 10" : "a 2 20", (struct fg_labels){&one, 1});
        add_profile(f, "a 5 50", (struct fg_labels){&two, 1});
        apply(f);
    }
    assert_int_equal(f->batch.n_profiles, 1); /* the other profile has no growth */
    assert_true(fg_slice_is(f->batch.profiles[0].labels.items[0].value, "1"));
    assert_int_equal(f->batch.profiles[0].values[0], 1);
}

static void equal_stacks_with_different_spans_are_kept_apart(void **state)
{
    struct fixture *f = *state;

    for (int64_t i = 0; i < 2; i++) {
        struct fg_profile *profile;

        begin(f);
        add_profile(f, i == 0 ? "a 1 1, a 5 50" : "a 1 1, a 7 70", (struct fg_labels){NULL, 0});
        profile = &f->batch.profiles[0];
        profile->links = fg_arena_new(f->arena, struct fg_link, 2);
        profile->n_links = 2;
        profile->links[0] = (struct fg_link){.sample = 0, .span_id = 11};
        profile->links[1] = (struct fg_link){.sample = 1, .span_id = 12};
        apply(f);
    }
    assert_int_equal(f->batch.profiles[0].n_samples, 1);
    assert_int_equal(f->batch.profiles[0].values[0], 2);
    assert_int_equal(f->batch.profiles[0].n_links, 1);
    assert_int_equal(f->batch.profiles[0].links[0].sample, 0);
    assert_int_equal(f->batch.profiles[0].links[0].span_id, 12);
}

static void changed_types_start_a_first_scrape(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a 3 300", "");
    begin(f);
    add_profile(f, "a 5 500", (struct fg_labels){NULL, 0});
    f->batch.types[1].unit = FG_LIT("kilobytes");
    apply(f);
    assert_true(f->result.first);
    assert_int_equal(f->batch.n_profiles, 0);
}

/* The rules of a tenant may give every stack another label; that is not a new process. */
static void changed_rules_start_a_first_scrape(void **state)
{
    struct fixture *f = *state;
    struct fg_label label = {FG_LIT("l"), FG_LIT("1")};

    scrape(f, "a 3 300", "");
    f->rules++;
    begin(f);
    add_profile(f, "a 5 500", (struct fg_labels){&label, 1});
    apply(f);
    assert_true(f->result.first);
    assert_int_equal(f->batch.n_profiles, 0);
}

static void without_cumulative_types_nothing_changes(void **state)
{
    static const struct dist_profile_kind cpu = {.name = "process_cpu"};
    struct fixture *f = *state;
    const struct dist_delta_scrape scrape = {&cpu, 1, 0, &f->budget};
    struct fg_err err;

    begin(f);
    add_profile(f, "a 3 300", (struct fg_labels){NULL, 0});
    assert_int_equal(dist_delta_apply(NULL, &scrape, &f->batch, f->arena, &f->result, &err), FG_OK);
    assert_null(f->result.seen);
    assert_int_equal(f->batch.profiles[0].values[0], 3);
}

static void without_memory_the_next_scrape_is_a_first_one(void **state)
{
    struct fixture *f = *state;

    scrape(f, "a 3 300 1", "a 0 0 1");
    f->budget.limit_bytes = fg_budget_used(&f->budget); /* leaves no memory for another scrape */
    scrape(f, "a 5 500 2", "a 0 0 2");
    assert_true(f->result.forgotten);
    assert_null(f->before);
    scrape(f, "a 6 600 3", "a 0 0 3");
    assert_true(f->result.first);
    assert_false(f->result.forgotten);
    f->budget.limit_bytes = 1 << 20;
    scrape(f, "a 7 800 3", "a 1 200 3");
}

/* The invariant: the first scrape plus all stored growth equals the last scrape. */
static void growth_over_scrapes_adds_up(void **state)
{
    struct fixture *f = *state;
    int64_t objects = 1000, stored = 0;
    uint64_t random = 7;

    for (int i = 0; i < 200; i++) {
        char text[64];

        (void)snprintf(text, sizeof text, "a %lld %lld", (long long)objects,
                       (long long)objects * 10);
        begin(f);
        add_profile(f, text, (struct fg_labels){NULL, 0});
        apply(f);
        if (f->batch.n_profiles > 0)
            stored += f->batch.profiles[0].values[0];
        assert_int_equal(1000 + stored, objects);
        random = fg_mix64(random + 1);
        objects += (int64_t)(random % 50);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_first_scrape_has_nothing_to_compare_with),
        TEST(growth_is_stored),
        TEST(an_empty_first_profile_counts_as_first_scrape),
        TEST(a_restarted_process_counts_from_zero),
        TEST(a_restart_of_a_busy_process_is_detected),
        TEST(one_stack_that_falls_is_no_restart),
        TEST(a_small_stack_that_disappears_is_no_restart),
        TEST(equal_stacks_with_different_labels_are_kept_apart),
        TEST(equal_stacks_with_different_spans_are_kept_apart),
        TEST(changed_types_start_a_first_scrape),
        TEST(changed_rules_start_a_first_scrape),
        TEST(without_cumulative_types_nothing_changes),
        TEST(without_memory_the_next_scrape_is_a_first_one),
        TEST(growth_over_scrapes_adds_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
