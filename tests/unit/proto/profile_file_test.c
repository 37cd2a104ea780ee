/* Files of all formats as stack trees: what flame graphs of uploaded files are made of. */
#include "common/model/batch_tree.h"
#include "common/model/flame.h"
#include "proto/profile_file.h"
#include "tests/lib/pprof_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* What came of a file: for each batch and type "kind:type/unit" and the folded stacks. */
struct sunk {
    struct fg_buf text;
    size_t max_bytes; /* of a tree */
};

static void put_tree(const struct fg_tree *tree, struct fg_buf *out)
{
    struct fg_tree names;

    fg_tree_init(&names);
    fg_tree_names(tree, &names);
    fg_flame_write_folded(&names, out);
    fg_tree_done(&names);
}

static enum fg_code sink(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct sunk *sunk = arg;
    enum fg_code code = FG_OK;
    struct fg_tree tree;

    for (uint32_t t = 0; code == FG_OK && t < batch->n_types; t++) {
        struct fg_slice kind = batch->n_profiles == 0
                                   ? FG_LIT("nothing")
                                   : fg_labels_get(&batch->profiles[0].labels, FG_LABEL_NAME);

        fg_buf_printf(&sunk->text, "%.*s:%.*s/%.*s\n", FG_S(kind), FG_S(batch->types[t].type),
                      FG_S(batch->types[t].unit));
        fg_tree_init(&tree);
        code = fg_batch_tree_add(batch, t, sunk->max_bytes, &tree, err);
        if (code == FG_OK)
            put_tree(&tree, &sunk->text);
        fg_tree_done(&tree);
    }
    return code;
}

static enum fg_code decode(enum fg_file_format format, struct fg_slice content, struct sunk *sunk,
                           struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    const struct fg_profile_file file = {
        .content = content,
        .format = format,
        .untyped = {FG_LIT("stacks"), FG_LIT("")},
        .time_ns = 5,
        .limits = FG_DECODE_LIMITS_DEFAULT,
    };
    struct fg_decode_counts counts = {0};

    fg_buf_init(&sunk->text, SIZE_MAX);
    return fg_profile_file_decode(&file, arena, sink, sunk, &counts, err);
}

static void assert_decodes(enum fg_file_format format, struct fg_slice content, const char *want)
{
    struct sunk sunk = {.max_bytes = SIZE_MAX};
    struct fg_err err = {0};

    if (decode(format, content, &sunk, &err) != FG_OK)
        fail_msg("%s: %s", fg_file_format_name(format), err.msg);
    fg_buf_putc(&sunk.text, '\0');
    assert_string_equal((const char *)sunk.text.ptr, want);
    fg_buf_done(&sunk.text);
}

#define SPEEDSCOPE                                                                                 \
    "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","                         \
    "\"shared\":{\"frames\":[{\"name\":\"a\"},{\"name\":\"b\"}]},\"profiles\":["
#define SAMPLED(unit)                                                                              \
    "{\"type\":\"sampled\",\"name\":\"p\",\"unit\":\"" unit "\",\"startValue\":0,\"endValue\":9,"  \
    "\"samples\":[[0],[0,1]],\"weights\":[1,2]}"

static void each_format_becomes_trees(void **state)
{
    (void)state;
    assert_decodes(FG_FILE_FOLDED, FG_LIT("a;b 1\na;c 2\na;b 3\n"), "file:stacks/\na;b 4\na;c 2\n");
    assert_decodes(FG_FILE_LINES, FG_LIT("a;b\na;c\na;b\n"), "file:stacks/\na;b 2\na;c 1\n");
    assert_decodes(FG_FILE_TREE, FG_LIT("\0\0\1\1a\0\2\1b\1\0\1c\2\0"),
                   "file:stacks/\na;b 1\na;c 2\n");
    assert_decodes(FG_FILE_TRIE, FG_LIT("\0\0\1\5main;\0\1\1a\12\1\2;b\5\0"),
                   "file:stacks/\nmain;a 10\nmain;a;b 5\n");
    assert_decodes(FG_FILE_SPEEDSCOPE, FG_LIT(SPEEDSCOPE SAMPLED("milliseconds") "]}"),
                   "file:wall/nanoseconds\na 1000000\na;b 2000000\n");
    assert_decodes(FG_FILE_SPEEDSCOPE, FG_LIT(SPEEDSCOPE SAMPLED("bytes") "]}"),
                   "file:space/bytes\na 1\na;b 2\n");
    assert_decodes(FG_FILE_SPEEDSCOPE, FG_LIT(SPEEDSCOPE SAMPLED("none") "]}"),
                   "file:stacks/\na 1\na;b 2\n");
    assert_decodes(
        FG_FILE_FLAMEBEARER,
        FG_LIT("{\"flamebearer\":{\"names\":[\"total\",\"a\"],\"levels\":[[0,3,1,0],[1,2,2,1]]}}"),
        "file:stacks/\n[no stack] 1\na 2\n");
    assert_decodes(FG_FILE_PERF_SCRIPT, FG_LIT("c 7 1.5: cycles:\n 0f f+0x1 (m)\n\n"),
                   "file:cycles/samples\nc;f 1\n");
    assert_decodes(FG_FILE_FOLDED, FG_LIT(""), "nothing:stacks/\n");
    assert_decodes(FG_FILE_JFR, FG_LIT(""), "");
}

/* Inlined lines, an address in a mapped file, a sample without a stack, labels of samples. */
static void a_pprof_becomes_a_tree_for_each_type(void **state)
{
    static const uint64_t deep[] = {2, 1}, address[] = {3, 1};
    static const int64_t one[] = {1, 10}, two[] = {2, 0}, three[] = {3, 30};
    static const struct make_label label = {.key = "thread", .str = "7"};
    struct make make;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_type(&make, "cpu", "nanoseconds");
    make_function(&make, 1, "main", "", "", 0);
    make_function(&make, 2, "outer", "", "", 0);
    make_function(&make, 3, "inner", "", "", 0);
    make_mapping(&make, 1, 0x1000, "/lib/libc.so", false);
    make_location(&make, 1, 0, 0, (const struct make_line[]){{1, 1}}, 1);
    make_location(&make, 2, 0, 0, (const struct make_line[]){{3, 1}, {2, 1}}, 2);
    make_location(&make, 3, 1, 0x1234, NULL, 0);
    make_sample(&make, &(struct make_sample){deep, 2, one, 2, NULL, 0});
    make_sample(&make, &(struct make_sample){deep, 2, one, 2, &label, 1});
    make_sample(&make, &(struct make_sample){address, 2, two, 2, NULL, 0});
    make_sample(&make, &(struct make_sample){NULL, 0, three, 2, NULL, 0});
    make_strings(&make);
    assert_decodes(FG_FILE_PPROF, fg_buf_slice(&make.out),
                   "file:samples/count\n[no stack] 3\nmain;libc.so+0x274 2\nmain;outer;inner 2\n"
                   "file:cpu/nanoseconds\n[no stack] 30\nmain;outer;inner 20\n");
    make_done(&make);
}

static void unreadable_files_are_refused(void **state)
{
    static const struct {
        enum fg_file_format format;
        struct fg_slice content;
        enum fg_code want;
    } cases[] = {
        {FG_FILE_PPROF, {(const uint8_t *)"\0\0\0", 3}, FG_E_DECODE},
        {FG_FILE_FOLDED, {(const uint8_t *)"a x\n", 4}, FG_E_DECODE},
        {FG_FILE_JFR, {(const uint8_t *)"FLR", 3}, FG_E_DECODE},
        {FG_FILE_TREE, {(const uint8_t *)"\0\0", 2}, FG_E_DECODE},
        {FG_FILE_TRIE, {(const uint8_t *)"\5a", 2}, FG_E_DECODE},
        {FG_FILE_SPEEDSCOPE, {(const uint8_t *)"{}", 2}, FG_E_DECODE},
        {FG_FILE_FLAMEBEARER, {(const uint8_t *)"{}", 2}, FG_E_DECODE},
        {FG_FILE_PERF_SCRIPT, {(const uint8_t *)"c 7\n", 4}, FG_E_DECODE},
    };
    struct sunk sunk = {.max_bytes = SIZE_MAX};
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        assert_int_equal(decode(cases[i].format, cases[i].content, &sunk, &err), cases[i].want);
        print_message("  %s: %s\n", fg_file_format_name(cases[i].format), err.msg);
        fg_buf_done(&sunk.text);
    }
}

static void a_tree_is_bounded(void **state)
{
    struct sunk sunk = {.max_bytes = 100};
    struct fg_err err;

    (void)state;
    assert_int_equal(decode(FG_FILE_FOLDED, FG_LIT("a;b;c 1\n"), &sunk, &err), FG_E_TOO_LARGE);
    fg_buf_done(&sunk.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_format_becomes_trees),
        cmocka_unit_test(a_pprof_becomes_a_tree_for_each_type),
        cmocka_unit_test(unreadable_files_are_refused),
        cmocka_unit_test(a_tree_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
