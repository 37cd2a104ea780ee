/* The builder against a slow and obvious one: a list of samples searched from the front. */
#include "proto/builder/impl.h"
#include "tests/lib/batch_folded.h"
#include "tests/lib/map_look.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TYPES = 3, SAMPLES = 400, STACKS = 6, GROUPS = 3 };

static struct fg_label upload_labels[] = {
    {FG_LIT("__name__"), FG_LIT("process_cpu")},
    {FG_LIT("service_name"), FG_LIT("shop")},
};

static struct fg_upload plain_upload(void)
{
    return (struct fg_upload){.labels = {upload_labels, 2},
                              .time_ns = 5,
                              .duration_ns = 6,
                              .limits = FG_DECODE_LIMITS_DEFAULT};
}

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

struct slow_sample {
    uint32_t group, stack;
    uint64_t span;
    int64_t values[TYPES];
};

struct slow {
    struct slow_sample samples[SAMPLES];
    uint32_t count;
    uint64_t dropped;
};

static void slow_add(struct slow *slow, const struct slow_sample *sample)
{
    bool any = false, negative = false;
    uint32_t i;

    for (uint32_t t = 0; t < TYPES; t++) {
        any |= sample->values[t] != 0;
        negative |= sample->values[t] < 0;
    }
    if (!any || negative) {
        slow->dropped++;
        return;
    }
    for (i = 0; i < slow->count; i++)
        if (slow->samples[i].group == sample->group && slow->samples[i].stack == sample->stack &&
            slow->samples[i].span == sample->span)
            break;
    if (i == slow->count) {
        slow->samples[slow->count++] = *sample;
        return;
    }
    for (uint32_t t = 0; t < TYPES; t++)
        slow->samples[i].values[t] += sample->values[t];
}

static uint64_t span_of(const struct fg_profile *profile, uint32_t sample)
{
    for (uint32_t i = 0; i < profile->n_links; i++)
        if (profile->links[i].sample == sample)
            return profile->links[i].span_id;
    return 0;
}

/* Which of the slow builder's groups a profile is: by the label "g". */
static uint32_t group_of(const struct fg_profile *profile)
{
    struct fg_slice value = fg_labels_get(&profile->labels, "g");

    return value.len == 0 ? 0 : (uint32_t)(value.ptr[0] - '0');
}

static void assert_same(const struct fg_batch *batch, const struct slow *slow,
                        const uint32_t *stacks, uint64_t seed)
{
    uint32_t n = 0;

    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        const struct fg_profile *profile = &batch->profiles[p];
        uint32_t group = group_of(profile), least = 0;

        for (uint32_t i = 0; i < profile->n_links; i++) {
            assert_true(profile->links[i].sample >= least);
            least = profile->links[i].sample;
        }
        for (uint32_t s = 0; s < profile->n_samples; s++, n++) {
            uint32_t i = 0;

            while (i < slow->count && !(slow->samples[i].group == group &&
                                        stacks[slow->samples[i].stack] == profile->stacks[s] &&
                                        slow->samples[i].span == span_of(profile, s)))
                i++;
            if (i == slow->count)
                fail_msg("seed %llu: a sample nobody gave", (unsigned long long)seed);
            for (uint32_t t = 0; t < TYPES; t++)
                assert_int_equal(profile->values[t * profile->n_samples + s],
                                 slow->samples[i].values[t]);
        }
    }
    assert_int_equal(n, slow->count);
}

/* Every second time rules make two of the groups one. */
static void samples_equal_the_slow_ones(void **state)
{
    static struct slow slow;
    struct fg_relabel *merge;
    struct fg_err parse_err;

    (void)state;
    assert_int_equal(fg_relabel_parse(FG_LIT("- {source_labels: [g], regex: '2', target_label: g,"
                                             "   replacement: '1'}"),
                                      "", FG_RELABEL_DEFAULTS_LAST, &merge, &parse_err),
                     FG_OK);
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct fg_value_type types[TYPES] = {
            {FG_LIT("a"), FG_LIT("")}, {FG_LIT("b"), FG_LIT("")}, {FG_LIT("c"), FG_LIT("")}};
        struct fg_batch batch = {.types = types, .n_types = TYPES};
        struct fg_arena *arena = fg_arena_create(1 << 24);
        struct fg_upload upload = plain_upload();
        struct fg_upload_rules rules = {.labels = merge, .work = FG_RELABEL_WORK_MAX};
        struct fg_decode_counts counts = {0};
        struct fg_builder *builder = fg_builder_create(arena, &upload.limits, &batch, &counts);
        uint32_t stacks[STACKS], groups[GROUPS];
        uint64_t random = seed;
        struct fg_err err;

        for (uint32_t i = 0; i < STACKS; i++) {
            uint32_t locations[2];

            assert_int_equal(
                fg_builder_name(builder, fg_cstr(i % 2 == 0 ? "even" : "odd"), &locations[0], &err),
                FG_OK);
            assert_int_equal(fg_builder_name(builder,
                                             fg_cstr(i % 3 == 0   ? "x"
                                                     : i % 3 == 1 ? "y"
                                                                  : "z"),
                                             &locations[1], &err),
                             FG_OK);
            assert_int_equal(fg_builder_stack(builder, locations, 2, &stacks[i], &err), FG_OK);
        }
        for (uint32_t g = 0; g < GROUPS; g++) {
            struct fg_label label = {FG_LIT("g"), fg_cstr(g == 1 ? "1" : "2")};
            struct fg_labels labels = {&label, g > 0};

            /* The labels are this block's: the builder keeps a copy. */
            assert_int_equal(fg_builder_group(builder, &labels, &groups[g], &err), FG_OK);
        }
        memset(&slow, 0, sizeof slow);
        for (uint32_t i = 0; i < next_random(&random) % SAMPLES; i++) {
            struct slow_sample sample = {
                .group = (uint32_t)(next_random(&random) % GROUPS),
                .stack = (uint32_t)(next_random(&random) % STACKS),
                .span = next_random(&random) % 3,
            };
            struct fg_link link = {.span_id = sample.span};

            for (uint32_t t = 0; t < TYPES; t++)
                sample.values[t] = (int64_t)(next_random(&random) % 5) - (i % 7 == 0);
            assert_int_equal(fg_builder_sample(builder, groups[sample.group], stacks[sample.stack],
                                               sample.span != 0 ? &link : NULL, sample.values,
                                               &err),
                             FG_OK);
            if (seed % 2 == 0 && sample.group == 2)
                sample.group = 1;
            slow_add(&slow, &sample);
        }
        if (seed % 2 == 0)
            upload.rules = &rules;
        assert_int_equal(fg_builder_finish(builder, &upload, 9, &err), FG_OK);
        assert_int_equal(counts.samples_dropped, slow.dropped);
        assert_same(&batch, &slow, stacks, seed);
        fg_arena_destroy(arena);
    }
    fg_relabel_unref(merge);
}

/* More than a few buffers full: tables and maps grow. */
static void many_of_everything(void **state)
{
    enum { MANY = 20000 };
    struct fg_value_type type = {FG_LIT("a"), FG_LIT("")};
    struct fg_batch batch = {.types = &type, .n_types = 1};
    struct fg_arena *arena = fg_arena_create(1 << 28);
    struct fg_upload upload = plain_upload();
    struct fg_decode_counts counts = {0};
    struct fg_builder *builder = fg_builder_create(arena, &upload.limits, &batch, &counts);
    struct fg_labels none = {0};
    uint32_t group;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_builder_group(builder, &none, &group, &err), FG_OK);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            char *name = fg_arena_printf(arena, "function%u", i);
            uint32_t location, stack;
            int64_t value = i + 1;

            assert_int_equal(fg_builder_name(builder, fg_cstr(name), &location, &err), FG_OK);
            assert_int_equal(location, i);
            assert_int_equal(fg_builder_stack(builder, &location, 1, &stack, &err), FG_OK);
            assert_int_equal(stack, i);
            assert_int_equal(fg_builder_sample(builder, group, stack, NULL, &value, &err), FG_OK);
        }
    }
    assert_int_equal(fg_builder_finish(builder, &upload, 0, &err), FG_OK);
    assert_int_equal(batch.n_functions, MANY);
    assert_int_equal(batch.profiles[0].n_samples, MANY);
    assert_int_equal(batch_total(&batch, 0), (int64_t)MANY * (MANY + 1));
    fg_arena_destroy(arena);
}

/* Stacks longer than the buffer that hashes them; a prefix is another stack. */
static void long_stacks_have_ids(void **state)
{
    struct fg_value_type type = {FG_LIT("a"), FG_LIT("")};
    struct fg_batch batch = {.types = &type, .n_types = 1};
    struct fg_arena *arena = fg_arena_create(1 << 24);
    struct fg_upload upload = plain_upload();
    struct fg_decode_counts counts = {0};
    struct fg_builder *builder = fg_builder_create(arena, &upload.limits, &batch, &counts);
    uint32_t locations[600] = {0};
    uint32_t stack;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_builder_name(builder, FG_LIT("a"), &locations[0], &err), FG_OK);
    for (uint32_t depth = 0; depth < FG_COUNT(locations); depth++) {
        assert_int_equal(fg_builder_stack(builder, locations, depth, &stack, &err), FG_OK);
        assert_int_equal(stack, depth);
    }
    for (uint32_t depth = 0; depth < FG_COUNT(locations); depth++) {
        assert_int_equal(fg_builder_stack(builder, locations, depth, &stack, &err), FG_OK);
        assert_int_equal(stack, depth);
    }
    fg_arena_destroy(arena);
}

/* Lines 0 to 3 of "a" and "b", each twice, in the order in which they come. */
static void lines_of_functions_are_locations(void **state)
{
    struct fg_batch_mapping mapping = {.flags = FG_MAPPING_FUNCTIONS};
    struct fg_batch_function functions[] = {{.name = FG_LIT("a")}, {.name = FG_LIT("b")}};
    struct fg_batch_location locations[8];
    struct fg_line lines[8];
    struct fg_batch made = {.mappings = &mapping, .n_mappings = 1, .n_types = 1};
    struct fg_batch given = {.mappings = &mapping, .n_mappings = 1, .n_types = 1};
    struct fg_decode_limits limits = FG_DECODE_LIMITS_DEFAULT;
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_decode_counts counts = {0};
    struct fg_builder *by_name = fg_builder_create(arena, &limits, &made, &counts), *by_table;
    uint32_t function, location, stack, same;
    char name[2] = "?";
    struct fg_err err;

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        lines[i] = (struct fg_line){i % 2, i / 2};
        locations[i] = (struct fg_batch_location){.mapping = 0, .first_line = i, .n_lines = 1};
    }
    given.functions = functions;
    given.locations = locations;
    given.lines = lines;
    given.n_functions = 2;
    given.n_locations = given.n_lines = 8;
    by_table = fg_builder_create(arena, &limits, &given, &counts);
    assert_int_equal(fg_builder_hash_locations(by_table, &err), FG_OK);
    for (uint32_t i = 0; i < 16; i++) {
        name[0] = i % 2 == 0 ? 'a' : 'b'; /* is copied: it changes under the builder */
        assert_int_equal(fg_builder_function(by_name, fg_cstr(name), &function, &err), FG_OK);
        assert_int_equal(function, i % 2);
        assert_int_equal(fg_builder_line(by_name, function, i % 8 / 2, &location, &err), FG_OK);
        assert_int_equal(location, i % 8);
        assert_int_equal(fg_builder_stack(by_name, &location, 1, &stack, &err), FG_OK);
        assert_int_equal(fg_builder_stack(by_table, &location, 1, &same, &err), FG_OK);
        assert_true(fg_id_eq(made.stacks[stack].id, given.stacks[same].id));
    }
    assert_int_equal(made.n_functions, 2);
    assert_int_equal(made.n_locations, 8);
    assert_true(fg_slice_is(made.functions[1].name, "b"));
    assert_int_equal(made.locations[7].mapping, 0);
    fg_arena_destroy(arena);
}

static void labels_check(void **state)
{
    const struct fg_decode_limits limits = {
        .label_names_max = 3, .label_name_max_bytes = 12, .label_value_max_bytes = 5};
    static const struct {
        const char *name, *value, *text;
    } cases[] = {
        {"zone", "12345", NULL},
        {"exactlytwelv", "x", NULL},
        {"exactlytwelve", "x", "label name too long: 'exactlytwelve'"},
        {"zone", "123456", "has label value too long: '123456'"},
        {"zone", "\xff", "invalid label value"},
        {"zo\xc3", "x", "invalid label name"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_label items[] = {{FG_LIT("__name__"), FG_LIT("cpu")},
                                   {FG_LIT("service_name"), FG_LIT("shop")},
                                   {fg_cstr(cases[i].name), fg_cstr(cases[i].value)}};
        struct fg_labels labels = {items, 3};
        struct fg_err err;
        enum fg_code code = fg_labels_check(&labels, &limits, &err);

        print_message("  %s\n", cases[i].name);
        assert_int_equal(code, cases[i].text == NULL ? FG_OK : FG_E_INVALID);
        if (cases[i].text != NULL)
            assert_non_null(strstr(err.msg, cases[i].text));
    }
}

/* Spans are the sender's choice, and groups are numbered as they come: each span is chosen so that,
 * without a secret, all samples of a stack would have one hash. */
static void chosen_spans_do_not_meet_in_the_map(void **state)
{
    enum { ROWS = 4000, MOST = 10, ARENA_BYTES = 16 * 1024 * 1024 };
    const struct fg_upload upload = plain_upload();
    const int64_t values[TYPES] = {1, 1, 1};
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    struct fg_value_type types[TYPES] = {{FG_LIT("a"), FG_LIT("count")}};
    struct fg_batch batch = {.types = types, .n_types = TYPES};
    struct fg_decode_counts counts = {0};
    struct fg_builder *builder = fg_builder_create(arena, &upload.limits, &batch, &counts);
    uint32_t stack = 0;
    struct fg_err err;

    (void)state;
    assert_non_null(builder);
    assert_int_equal(fg_builder_stack(builder, NULL, 0, &stack, &err), FG_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        uint64_t of_group = (uint64_t)i * 0x9e3779b97f4a7c15u;
        struct fg_link link = {.span_id = map_look_unmix(of_group ^ 5) - 1};
        struct fg_label label = {FG_LIT("g"), FG_LIT("")};
        char text[16];
        uint32_t group;

        (void)snprintf(text, sizeof text, "%u", i);
        label.value = fg_arena_copy(arena, fg_cstr(text));
        assert_int_equal(fg_builder_group(builder, &(struct fg_labels){&label, 1}, &group, &err),
                         FG_OK);
        assert_int_equal(group, i);
        assert_int_equal(fg_builder_sample(builder, group, stack, &link, values, &err), FG_OK);
    }
    assert_int_equal(builder->n_rows, ROWS);
    print_message("  %.1f slots away\n", map_look_distance(&builder->samples));
    assert_true(map_look_distance(&builder->samples) < MOST);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_equal_the_slow_ones),
        cmocka_unit_test(many_of_everything),
        cmocka_unit_test(long_stacks_have_ids),
        cmocka_unit_test(lines_of_functions_are_locations),
        cmocka_unit_test(labels_check),
        cmocka_unit_test(chosen_spans_do_not_meet_in_the_map),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
