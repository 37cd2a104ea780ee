/* What relabelling rules make of profiles while they are built. */
#include "common/base/str.h"
#include "proto/builder/builder.h"
#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TYPES = 3, LABELS_MAX = 8 };

struct fixture {
    struct fg_arena *arena;
    struct fg_value_type types[TYPES];
    struct fg_batch batch;
    struct fg_label labels[LABELS_MAX];
    struct fg_upload upload;
    struct fg_relabel *label_rules, *type_rules;
    struct fg_upload_rules rules;
    struct fg_decode_counts counts;
    struct fg_builder *builder;
    struct fg_err err;
};

/* "a=1 b=2" into items; returns how many. */
static size_t read_labels(const char *text, struct fg_label *items)
{
    struct fg_slice rest = fg_cstr(text);
    size_t n = 0;

    while (rest.len > 0) {
        struct fg_slice pair = fg_slice_sub(rest, 0, fg_slice_find(rest, ' '));
        size_t equals = fg_slice_find(pair, '=');

        assert_true(n < LABELS_MAX);
        items[n++] = (struct fg_label){fg_slice_sub(pair, 0, equals),
                                       fg_slice_sub(pair, equals + 1, pair.len)};
        rest = fg_slice_sub(rest, pair.len + 1, rest.len);
    }
    return n;
}

/* label_rules and type_rules: YAML, NULL for none. */
static void start(struct fixture *fixture, const char *labels, const char *label_rules,
                  enum fg_relabel_defaults defaults, const char *type_rules)
{
    *fixture = (struct fixture){
        .arena = fg_arena_create(1 << 22),
        .types = {{FG_LIT("alloc_objects"), FG_LIT("count")},
                  {FG_LIT("alloc_space"), FG_LIT("bytes")},
                  {FG_LIT("inuse_space"), FG_LIT("bytes")}},
        .upload = {.time_ns = 5, .limits = FG_DECODE_LIMITS_DEFAULT},
        .rules = {.work = FG_RELABEL_WORK_MAX},
    };
    fixture->batch.types = fixture->types;
    fixture->batch.n_types = TYPES;
    fixture->upload.labels =
        (struct fg_labels){fixture->labels, read_labels(labels, fixture->labels)};
    if (label_rules != NULL)
        assert_int_equal(fg_relabel_parse(fg_cstr(label_rules), "labels", defaults,
                                          &fixture->label_rules, &fixture->err),
                         FG_OK);
    if (type_rules != NULL)
        assert_int_equal(fg_relabel_parse_types(fg_cstr(type_rules), "types", &fixture->type_rules,
                                                &fixture->err),
                         FG_OK);
    fixture->rules.labels = fixture->label_rules;
    fixture->rules.types = fixture->type_rules;
    fixture->upload.rules = &fixture->rules;
    fixture->builder = fg_builder_create(fixture->arena, &fixture->upload.limits, &fixture->batch,
                                         &fixture->counts);
}

static void end(struct fixture *fixture)
{
    fg_relabel_unref(fixture->label_rules);
    fg_relabel_unref(fixture->type_rules);
    fg_arena_destroy(fixture->arena);
}

/* A sample in a function of that name; span 0: none. */
static void sample(struct fixture *fixture, const char *labels, const char *function, uint64_t span,
                   int64_t a, int64_t b, int64_t c)
{
    const int64_t values[TYPES] = {a, b, c};
    const struct fg_link link = {.span_id = span};
    struct fg_label items[LABELS_MAX];
    struct fg_labels set = {items, read_labels(labels, items)};
    struct fg_builder *builder = fixture->builder;
    uint32_t group, location, stack;

    assert_int_equal(fg_builder_group(builder, &set, &group, &fixture->err), FG_OK);
    assert_int_equal(fg_builder_name(builder, fg_cstr(function), &location, &fixture->err), FG_OK);
    assert_int_equal(fg_builder_stack(builder, &location, 1, &stack, &fixture->err), FG_OK);
    assert_int_equal(
        fg_builder_sample(builder, group, stack, span == 0 ? NULL : &link, values, &fixture->err),
        FG_OK);
}

static enum fg_code finish(struct fixture *fixture)
{
    return fg_builder_finish(fixture->builder, &fixture->upload, 0, &fixture->err);
}

/* {labels} and the folded stacks of each type that has any, a line for each profile. */
static void assert_profiles(struct fixture *fixture, const char *want)
{
    const struct fg_batch *batch = &fixture->batch;
    struct fg_buf out, folded;

    fg_buf_init(&out, 1 << 16);
    fg_buf_init(&folded, 1 << 16);
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        fg_labels_write(&batch->profiles[p].labels, &out);
        for (uint32_t t = 0; t < batch->n_types; t++) {
            fg_buf_clear(&folded);
            profile_folded(batch, &batch->profiles[p], t, &folded);
            for (size_t i = 0; i < folded.len; i++)
                if (folded.ptr[i] == '\n')
                    folded.ptr[i] = ' ';
            fg_buf_printf(&out, " %.*s: %.*s", FG_S(batch->types[t].type),
                          FG_S(fg_trim(fg_buf_slice(&folded))));
        }
        fg_buf_putc(&out, '\n');
    }
    fg_buf_putc(&out, '\0');
    assert_string_equal((char *)out.ptr, want);
    fg_buf_done(&out);
    fg_buf_done(&folded);
}

#define SERIES "__name__=memory service_name=shop"

static void no_rules_change_nothing(void **state)
{
    static const char want[] =
        "{__name__=\"memory\", service_name=\"shop\"} alloc_objects: f 1 alloc_space: f 2 "
        "inuse_space: f 3\n";
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES, NULL, FG_RELABEL_DEFAULTS_FIRST, NULL);
    sample(&fixture, "", "f", 0, 1, 2, 3);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture, want);
    end(&fixture);

    start(&fixture, SERIES, "", FG_RELABEL_DEFAULTS_FIRST, "");
    sample(&fixture, "", "f", 0, 1, 2, 3);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture, want);
    end(&fixture);
}

/* Golden case 044: the name loses its prefix, and how it was sent is not stored. */
static void old_agents_names(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "__name__=godeltaprof_memory __delta__=true __order__=7 service_name=shop", "",
          FG_RELABEL_DEFAULTS_FIRST, NULL);
    sample(&fixture, "__type__=x", "f", 0, 1, 0, 0);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture, "{__name__=\"memory\", __name_replaced__=\"godeltaprof_memory\", "
                              "__type__=\"x\", service_name=\"shop\"} alloc_objects: f 1 "
                              "alloc_space:  inuse_space: \n");
    end(&fixture);
}

static void dropped_groups_leave_nothing_behind(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES, "- {source_labels: [secret], regex: 'yes', action: drop}",
          FG_RELABEL_DEFAULTS_FIRST, NULL);
    sample(&fixture, "", "open", 0, 1, 1, 1);
    sample(&fixture, "secret=yes", "hidden", 0, 1, 1, 1);
    sample(&fixture, "secret=yes", "open", 3, 1, 1, 1);
    sample(&fixture, "secret=yes zone=a", "hidden", 0, 1, 1, 1);
    sample(&fixture, "secret=no", "last", 4, 2, 2, 2);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture,
                    "{__name__=\"memory\", service_name=\"shop\"} alloc_objects: open 1 "
                    "alloc_space: open 1 inuse_space: open 1\n"
                    "{__name__=\"memory\", secret=\"no\", service_name=\"shop\"} alloc_objects: "
                    "last 2 alloc_space: last 2 inuse_space: last 2\n");
    assert_int_equal(fixture.counts.profiles_dropped, 2);
    assert_int_equal(fixture.counts.samples_dropped, 0);
    assert_int_equal(fixture.batch.n_stacks, 2);
    assert_int_equal(fixture.batch.profiles[1].n_links, 1);
    assert_int_equal(fixture.batch.profiles[1].links[0].span_id, 4);
    end(&fixture);
}

static void dropping_all_profiles_is_no_error(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "service_name=", "- {action: drop}", FG_RELABEL_DEFAULTS_DISABLED, NULL);
    sample(&fixture, "", "f", 0, 1, 1, 1);
    assert_int_equal(finish(&fixture), FG_OK); /* also of labels that would be none */
    assert_int_equal(fixture.batch.n_profiles, 0);
    assert_int_equal(fixture.batch.n_stacks, 0);
    assert_int_equal(fixture.counts.profiles_dropped, 1);
    end(&fixture);
}

static void groups_that_end_equal_are_merged(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES, "- {regex: request_.*, action: labeldrop}", FG_RELABEL_DEFAULTS_FIRST,
          NULL);
    sample(&fixture, "request_id=1", "f", 0, 1, 10, 100);
    sample(&fixture, "request_id=2", "f", 0, 2, 20, 200);
    sample(&fixture, "request_id=2", "f", 7, 4, 40, 400);
    sample(&fixture, "request_id=3 zone=a", "f", 0, 8, 80, 800);
    sample(&fixture, "request_id=3", "f", 7, 16, 160, 1600);
    sample(&fixture, "request_id=4", "g", 0, 32, 320, 3200);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture,
                    "{__name__=\"memory\", service_name=\"shop\"} alloc_objects: f 23 g 32 "
                    "alloc_space: f 230 g 320 inuse_space: f 2300 g 3200\n"
                    "{__name__=\"memory\", service_name=\"shop\", zone=\"a\"} alloc_objects: f 8 "
                    "alloc_space: f 80 inuse_space: f 800\n");
    assert_int_equal(fixture.batch.profiles[0].n_samples, 3); /* f, f in the span, g */
    assert_int_equal(fixture.batch.profiles[0].n_links, 1);
    assert_int_equal(fixture.counts.profiles_dropped, 0);
    end(&fixture);
}

static void sums_of_merged_groups_may_overflow(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES, "- {regex: id, action: labeldrop}", FG_RELABEL_DEFAULTS_FIRST, NULL);
    sample(&fixture, "id=1", "f", 0, INT64_MAX, 0, 0);
    sample(&fixture, "id=2", "f", 0, 1, 0, 0);
    assert_int_equal(finish(&fixture), FG_E_INVALID);
    assert_string_equal(fixture.err.msg, "sum of a stack's values exceeds 64 bits");
    end(&fixture);
}

static void each_group_may_get_a_service_of_its_own(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES,
          "- {source_labels: [service_name, tenant], regex: (.*);(.+), replacement: $1-$2,"
          "   target_label: service_name}\n"
          "- {regex: tenant, action: labeldrop}",
          FG_RELABEL_DEFAULTS_FIRST, NULL);
    sample(&fixture, "", "f", 0, 1, 0, 0);
    sample(&fixture, "tenant=a", "f", 0, 2, 0, 0);
    sample(&fixture, "tenant=b", "f", 0, 3, 0, 0);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture, "{__name__=\"memory\", service_name=\"shop\"} alloc_objects: f 1 "
                              "alloc_space:  inuse_space: \n"
                              "{__name__=\"memory\", service_name=\"shop-a\"} alloc_objects: f 2 "
                              "alloc_space:  inuse_space: \n"
                              "{__name__=\"memory\", service_name=\"shop-b\"} alloc_objects: f 3 "
                              "alloc_space:  inuse_space: \n");
    end(&fixture);
}

/* Labels are checked as the rules leave them. */
static void rules_may_mend_and_break_labels(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES " query=select", "- {regex: query, action: labeldrop}",
          FG_RELABEL_DEFAULTS_FIRST, NULL);
    fixture.upload.limits.label_value_max_bytes = 6;
    sample(&fixture, "", "f", 0, 1, 0, 0);
    fixture.labels[2].value = FG_LIT("select everything");
    assert_int_equal(finish(&fixture), FG_OK);
    end(&fixture);

    start(&fixture, SERIES, "- {target_label: service_name, replacement: ''}",
          FG_RELABEL_DEFAULTS_FIRST, NULL);
    sample(&fixture, "", "f", 0, 1, 0, 0);
    assert_int_equal(finish(&fixture), FG_E_INVALID);
    assert_string_equal(fixture.err.msg, "service name is not provided");
    end(&fixture);
}

static void sample_types_go_with_their_values(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES, NULL, FG_RELABEL_DEFAULTS_FIRST,
          "- {source_labels: [__type__, __unit__], regex: alloc_.*;bytes, action: drop}");
    sample(&fixture, "", "f", 0, 1, 2, 3);
    sample(&fixture, "", "gone", 5, 0, 2, 0);
    sample(&fixture, "", "g", 6, 4, 0, 0);
    sample(&fixture, "zone=a", "gone", 0, 0, 2, 0);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture, "{__name__=\"memory\", service_name=\"shop\"} alloc_objects: f 1 g 4 "
                              "inuse_space: f 3\n");
    assert_int_equal(fixture.batch.n_stacks, 2);
    assert_int_equal(fixture.batch.profiles[0].n_links, 1);
    assert_int_equal(fixture.batch.profiles[0].links[0].span_id, 6);
    assert_int_equal(fixture.counts.types_dropped, 1);
    assert_int_equal(fixture.counts.profiles_dropped, 0);
    assert_true(fg_slice_is(fixture.types[1].type, "alloc_space")); /* the caller's stay */
    end(&fixture);
}

static void sample_types_go_by_the_series_labels(void **state)
{
    static const char rules[] = "- {source_labels: [service_name, __type__], action: keep,"
                                "   regex: shop;inuse_.*}";
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES, NULL, FG_RELABEL_DEFAULTS_FIRST, rules);
    sample(&fixture, "", "f", 0, 1, 2, 3);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture, "{__name__=\"memory\", service_name=\"shop\"} inuse_space: f 3\n");
    end(&fixture);

    start(&fixture, "__name__=memory service_name=bank", NULL, FG_RELABEL_DEFAULTS_FIRST, rules);
    sample(&fixture, "", "f", 0, 1, 2, 3);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_int_equal(fixture.batch.n_profiles, 0);
    assert_int_equal(fixture.batch.n_stacks, 0);
    assert_int_equal(fixture.batch.n_types, TYPES);
    assert_int_equal(fixture.counts.types_dropped, TYPES);
    end(&fixture);
}

static void types_and_labels_together(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, SERIES,
          "- {source_labels: [id], regex: '3', action: drop}\n- {regex: id, action: labeldrop}",
          FG_RELABEL_DEFAULTS_FIRST,
          "- {source_labels: [__type__], regex: alloc_objects, action: drop}");
    sample(&fixture, "id=1", "f", 0, 9, 0, 0); /* nothing left of it: no profile is dropped */
    sample(&fixture, "id=2", "f", 0, 9, 1, 0);
    sample(&fixture, "id=3", "f", 0, 9, 2, 0);
    sample(&fixture, "id=4", "f", 0, 9, 4, 8);
    assert_int_equal(finish(&fixture), FG_OK);
    assert_profiles(&fixture, "{__name__=\"memory\", service_name=\"shop\"} alloc_space: f 5 "
                              "inuse_space: f 8\n");
    assert_int_equal(fixture.counts.profiles_dropped, 1);
    assert_int_equal(fixture.counts.types_dropped, 1);
    end(&fixture);
}

/* The work is the upload's: what one profile took, the next one does not have. */
static void work_is_counted_over_profiles(void **state)
{
    struct fixture fixture;
    uint64_t left;

    (void)state;
    start(&fixture, SERIES, "- {source_labels: [service_name], regex: '[a-z]+', action: keep}",
          FG_RELABEL_DEFAULTS_DISABLED, NULL);
    fixture.rules.work = 100;
    sample(&fixture, "", "f", 0, 1, 0, 0);
    assert_int_equal(finish(&fixture), FG_OK);
    left = fixture.rules.work;
    assert_in_range(left, 1, 99);
    end(&fixture);

    start(&fixture, SERIES, "- {source_labels: [service_name], regex: '[a-z]+', action: keep}",
          FG_RELABEL_DEFAULTS_DISABLED, NULL);
    fixture.rules.work = left;
    sample(&fixture, "a=1", "f", 0, 1, 0, 0);
    sample(&fixture, "a=2", "f", 0, 1, 0, 0);
    assert_int_equal(finish(&fixture), FG_E_TOO_LARGE);
    assert_string_equal(fixture.err.msg,
                        "relabeling the labels of this upload needs too much work");
    end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rules_change_nothing),
        cmocka_unit_test(old_agents_names),
        cmocka_unit_test(dropped_groups_leave_nothing_behind),
        cmocka_unit_test(dropping_all_profiles_is_no_error),
        cmocka_unit_test(groups_that_end_equal_are_merged),
        cmocka_unit_test(sums_of_merged_groups_may_overflow),
        cmocka_unit_test(each_group_may_get_a_service_of_its_own),
        cmocka_unit_test(rules_may_mend_and_break_labels),
        cmocka_unit_test(sample_types_go_with_their_values),
        cmocka_unit_test(sample_types_go_by_the_series_labels),
        cmocka_unit_test(types_and_labels_together),
        cmocka_unit_test(work_is_counted_over_profiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
