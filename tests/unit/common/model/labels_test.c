#include "common/model/labels.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LABEL(name, value)                                                                         \
    {                                                                                              \
        FG_LIT(name), FG_LIT(value)                                                                \
    }

static void assert_written(const struct fg_labels *labels, const char *want)
{
    struct fg_buf buf;

    fg_buf_init(&buf, 1 << 20);
    fg_labels_write(labels, &buf);
    fg_buf_putc(&buf, '\0');
    assert_string_equal((char *)buf.ptr, want);
    fg_buf_done(&buf);
}

static void sort_keeps_the_last_and_drops_empty_values(void **state)
{
    struct fg_label items[] = {LABEL("b", "1"), LABEL("a", "x"), LABEL("b", "2"),
                               LABEL("c", "3"), LABEL("c", ""),  LABEL("", "n")};
    struct fg_labels labels = {items, FG_COUNT(items)};

    (void)state;
    fg_labels_sort(&labels);
    assert_written(&labels, "{=\"n\", a=\"x\", b=\"2\"}");
    assert_int_equal(fg_labels_get(&labels, "b").len, 1);
    assert_null(fg_labels_get(&labels, "c").ptr);
}

static void find_and_remove_in_sorted_sets(void **state)
{
    struct fg_label items[] = {LABEL("b", "1"), LABEL("d", "2"), LABEL("f", "3")};
    struct fg_labels labels = {items, FG_COUNT(items)}, none = {NULL, 0};
    static const char *const absent[] = {"a", "c", "e", "g"};
    size_t at = 9;

    (void)state;
    for (size_t i = 0; i < labels.count; i++) {
        assert_true(fg_labels_find(&labels, items[i].name, &at));
        assert_int_equal(at, i);
    }
    for (size_t i = 0; i < FG_COUNT(absent); i++) {
        assert_false(fg_labels_find(&labels, fg_cstr(absent[i]), &at));
        assert_int_equal(at, i);
        fg_labels_remove(&labels, fg_cstr(absent[i]));
    }
    assert_false(fg_labels_find(&none, FG_LIT("a"), &at));
    assert_int_equal(at, 0);
    fg_labels_remove(&none, FG_LIT("a"));
    fg_labels_remove(&labels, FG_LIT("d"));
    assert_written(&labels, "{b=\"1\", f=\"3\"}");
    fg_labels_remove(&labels, FG_LIT("f"));
    fg_labels_remove(&labels, FG_LIT("b"));
    assert_int_equal(labels.count, 0);
}

/* Long enough for several merges, with lengths around the powers of two. */
static void sort_is_stable_for_many(void **state)
{
    (void)state;
    for (size_t count = 1; count < 300; count += 7) {
        struct fg_label items[300];
        char texts[300][8];
        struct fg_labels labels = {items, count};

        for (size_t i = 0; i < count; i++) {
            (void)snprintf(texts[i], sizeof texts[i], "%zu", i);
            items[i].name = fg_slice_sub(fg_cstr(texts[i]), 0, 1 + i % 2);
            items[i].value = fg_cstr(texts[i]);
        }
        fg_labels_sort(&labels);
        for (size_t i = 0; i < labels.count; i++) {
            assert_true(i == 0 || fg_slice_cmp(items[i - 1].name, items[i].name) < 0);
            for (size_t later = count; later-- > 0;) /* the last of that name */
                if (fg_slice_eq(items[i].name,
                                fg_slice_sub(fg_cstr(texts[later]), 0, 1 + later % 2))) {
                    assert_true(fg_slice_is(items[i].value, texts[later]));
                    break;
                }
        }
    }
}

static void sets_are_ordered_by_name_then_value(void **state)
{
    struct fg_label a[] = {LABEL("a", "1"), LABEL("b", "1")};
    struct fg_label b[] = {LABEL("a", "1"), LABEL("b", "2")};
    struct fg_labels short_a = {a, 1}, long_a = {a, 2}, long_b = {b, 2};

    (void)state;
    assert_true(fg_labels_cmp(&short_a, &long_a) < 0);
    assert_true(fg_labels_cmp(&long_b, &long_a) > 0);
    assert_int_equal(fg_labels_cmp(&long_a, &long_a), 0);
    assert_false(fg_id_eq(fg_labels_hash(&long_a), fg_labels_hash(&long_b)));
}

static void label_sets_are_decoded_as_encoded(void **state)
{
    struct fg_label items[] = {LABEL("a", "1"), LABEL("service_name", "x y"), LABEL("z", "\xff")};
    struct fg_labels labels = {items, FG_COUNT(items)}, back;
    fg_auto(fg_arena) *arena = fg_arena_create(4096);
    struct fg_err err;
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 4096);
    fg_labels_encode(&labels, &buf);
    assert_int_equal(fg_labels_decode(fg_buf_slice(&buf), arena, &back, &err), FG_OK);
    assert_int_equal(fg_labels_cmp(&labels, &back), 0);
    for (size_t len = 0; len < buf.len; len++)
        assert_int_equal(fg_labels_decode(fg_bytes(buf.ptr, len), arena, &back, &err),
                         FG_E_CORRUPT);
    fg_buf_done(&buf);
}

static void quoting_equals_that_of_go(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"", "\"\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\a\b\t\n\v\f\r", "\"\\a\\b\\t\\n\\v\\f\\r\""},
        {"\x01\x7f", "\"\\x01\\x7f\""},
        {"é😀", "\"é😀\""},
        {"\xc3(\xed\xa0\x80", "\"\\xc3(\\xed\\xa0\\x80\""},
        {"\xc2\xa0\xe2\x80\x8b", "\"\\u00a0\\u200b\""},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf buf;

        fg_buf_init(&buf, 4096);
        fg_labels_quote(fg_cstr(cases[i].in), &buf);
        fg_buf_putc(&buf, '\0');
        assert_string_equal((char *)buf.ptr, cases[i].want);
        fg_buf_done(&buf);
    }
}

static void profile_type_has_five_parts(void **state)
{
    static const struct {
        const char *in;
        bool good;
        const char *end; /* of the error */
    } cases[] = {
        {"process_cpu:cpu:nanoseconds:cpu:nanoseconds", true, NULL},
        {"a:b:c:d:e:delta", true, NULL},
        {"::::", true, NULL},
        {"", false, "got(1): \"\""},
        {"a:b:c:d", false, "got(4): \"a:b:c:d\""},
        {"a:b:c:d:e:f:g", false, "got(7): \"a:b:c:d:e:f:g\""},
    };
    struct fg_profile_type type;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        bool good = fg_profile_type_parse(fg_cstr(cases[i].in), &type, &err) == FG_OK;

        assert_int_equal(good, cases[i].good);
        assert_int_equal(good, cases[i].end == NULL);
        if (cases[i].end != NULL)
            assert_true(fg_slice_ends(fg_cstr(err.msg), cases[i].end));
    }
}

static void with_type_adds_the_private_labels(void **state)
{
    struct fg_label items[] = {LABEL("__name__", "memory"), LABEL("service_name", "s")};
    struct fg_labels series = {items, FG_COUNT(items)}, all;
    fg_auto(fg_arena) *arena = fg_arena_create(4096), *small = fg_arena_create(64);
    struct fg_profile_type type;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_profile_type_parse(FG_LIT("memory:space:bytes::"), &type, &err), FG_OK);
    all = fg_labels_with_type(&series, &type, arena);
    assert_written(&all, "{__name__=\"memory\", __profile_type__=\"memory:space:bytes::\", "
                         "__service_name__=\"s\", __type__=\"space\", __unit__=\"bytes\", "
                         "service_name=\"s\"}");
    assert_null(fg_labels_with_type(&series, &type, small).items);
}

static void restrict_and_group_select_labels(void **state)
{
    static const char *const names[] = {"z", "c", "a", "a"};
    struct fg_label items[] = {LABEL("a", "1"), LABEL("b", "2"), LABEL("c", "3")};
    struct fg_labels labels = {items, FG_COUNT(items)}, part;
    struct fg_arena *arena = fg_arena_create(4096), *small = fg_arena_create(16);

    (void)state;
    part = fg_labels_restrict(&labels, names, 3, arena);
    assert_written(&part, "{a=\"1\", c=\"3\"}");
    part = fg_labels_restrict(&labels, names, 0, arena);
    assert_written(&part, "{a=\"1\", b=\"2\", c=\"3\"}");
    part = fg_labels_restrict(&labels, names, 1, arena);
    assert_written(&part, "{}");
    assert_null(fg_labels_restrict(&labels, names, 3, small).items);
    part = fg_labels_group(&labels, names, 4, arena);
    assert_written(&part, "{c=\"3\", a=\"1\", a=\"1\"}");
    part = fg_labels_group(&labels, names, 0, arena);
    assert_written(&part, "{}");
    assert_null(fg_labels_group(&labels, names, 4, small).items);
    part = fg_labels_copy(&labels, arena);
    items[0].value = FG_LIT("other");
    assert_written(&part, "{a=\"1\", b=\"2\", c=\"3\"}");
    assert_null(fg_labels_copy(&labels, small).items);
    fg_arena_destroy(arena);
    fg_arena_destroy(small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_keeps_the_last_and_drops_empty_values),
        cmocka_unit_test(sort_is_stable_for_many),
        cmocka_unit_test(find_and_remove_in_sorted_sets),
        cmocka_unit_test(sets_are_ordered_by_name_then_value),
        cmocka_unit_test(label_sets_are_decoded_as_encoded),
        cmocka_unit_test(quoting_equals_that_of_go),
        cmocka_unit_test(profile_type_has_five_parts),
        cmocka_unit_test(with_type_adds_the_private_labels),
        cmocka_unit_test(restrict_and_group_select_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
