/* Trie and tree made by hand: what becomes of them, and every refusal. */
#include "proto/tree_formats.h"
#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024 };

struct decoded {
    struct fg_arena *arena;
    struct fg_batch batch;
    struct fg_decode_counts counts;
    enum fg_code code;
    struct fg_err err;
};

static struct fg_value_type samples_type = {FG_LIT("samples"), FG_LIT("count")};

static struct fg_tree_request plain_request(enum fg_tree_format format)
{
    static struct fg_label labels[] = {
        {FG_LIT("__name__"), FG_LIT("process_cpu")},
        {FG_LIT("service_name"), FG_LIT("shop")},
    };

    return (struct fg_tree_request){
        .upload = {.labels = {labels, 2}, .time_ns = 5, .limits = FG_DECODE_LIMITS_DEFAULT},
        .format = format,
        .period = 11,
        .factor = 1,
    };
}

static void decode(struct decoded *out, struct fg_slice in, const struct fg_tree_request *request)
{
    *out = (struct decoded){.arena = fg_arena_create(ARENA_MAX_BYTES)};
    out->batch.types = &samples_type;
    out->batch.n_types = 1;
    out->code =
        fg_tree_format_decode(in, request, out->arena, &out->batch, &out->counts, &out->err);
}

static void assert_text(const struct decoded *decoded, const char *want)
{
    struct fg_buf text;

    if (decoded->code != FG_OK)
        print_message("%s\n", decoded->err.msg);
    assert_int_equal(decoded->code, FG_OK);
    fg_buf_init(&text, SIZE_MAX);
    batch_folded(&decoded->batch, 0, &text);
    fg_buf_putc(&text, 0);
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
}

static void put_node(struct fg_buf *out, const char *name, uint64_t value, uint64_t n_children)
{
    fg_buf_lenbytes(out, fg_cstr(name));
    fg_buf_varint(out, value);
    fg_buf_varint(out, n_children);
}

struct node {
    const char *name;
    uint64_t value, n_children;
};

enum { NODES_MAX = 8 };

static void put_nodes(struct fg_buf *out, const struct node nodes[NODES_MAX])
{
    for (size_t i = 0; i < NODES_MAX && nodes[i].name != NULL; i++)
        put_node(out, nodes[i].name, nodes[i].value, nodes[i].n_children);
}

static void good_trees(void **state)
{
    static const struct {
        const char *name;
        enum fg_tree_format format;
        struct node nodes[NODES_MAX];
        const char *want;
    } cases[] = {
        {"a tree",
         FG_FORMAT_TREE,
         {{"", 0, 1}, {"a", 0, 2}, {"b", 1, 0}, {"c", 2, 0}},
         "a;b 1\na;c 2\n"},
        {"equal stacks of a tree",
         FG_FORMAT_TREE,
         {{"", 0, 3}, {"a", 1, 0}, {"b", 4, 0}, {"a", 2, 0}},
         "a 3\nb 4\n"},
        {"up and down",
         FG_FORMAT_TREE,
         {{"", 0, 2}, {"a", 1, 1}, {"b", 2, 1}, {"c", 4, 0}, {"d", 8, 0}},
         "a 1\na;b 2\na;b;c 4\nd 8\n"},
        {"a root of value", FG_FORMAT_TREE, {{"", 7, 1}, {"a", 1, 0}}, " 7\na 1\n"},
        {"a root of a name", FG_FORMAT_TREE, {{"r", 0, 1}, {"a", 1, 0}}, "r;a 1\n"},
        {"frames without a name",
         FG_FORMAT_TREE,
         {{"", 0, 1}, {"", 0, 1}, {"a", 1, 0}},
         "0x0;a 1\n"},
        {"names with ';'", FG_FORMAT_TREE, {{"", 0, 1}, {"a;b", 1, 0}}, "a;b 1\n"},
        {"nothing but a root", FG_FORMAT_TREE, {{"", 0, 0}}, ""},
        {"a trie",
         FG_FORMAT_TRIE,
         {{"", 0, 1}, {"main;", 0, 2}, {"a", 10, 2}, {";b", 5, 0}, {"c", 3, 0}, {"z", 1, 0}},
         "main;a 10\nmain;a;b 5\nmain;ac 3\nmain;z 1\n"},
        {"cut anywhere",
         FG_FORMAT_TRIE,
         {{"ma", 0, 1}, {"in", 0, 2}, {";wo", 0, 1}, {"rk;x", 2, 0}, {"", 3, 0}},
         "main 3\nmain;work;x 2\n"},
        {"a root of value", FG_FORMAT_TRIE, {{"", 7, 1}, {"a", 1, 0}}, " 7\na 1\n"},
        {"empty frames", FG_FORMAT_TRIE, {{";a;;b;", 1, 0}}, "0x0;a;0x0;b 1\n"},
        {"equal keys", FG_FORMAT_TRIE, {{"", 0, 2}, {"a;b", 1, 0}, {"a;b", 2, 0}}, "a;b 3\n"},
        {"a character cut in two",
         FG_FORMAT_TRIE,
         {{"\xc3", 0, 2}, {"\xa9;x", 1, 0}, {"\xa8", 2, 0}},
         "\xc3\xa8 2\n\xc3\xa9;x 1\n"},
        {"nothing at all", FG_FORMAT_TRIE, {{NULL, 0, 0}}, ""},
    };
    struct decoded decoded;
    struct fg_buf in;

    (void)state;
    fg_buf_init(&in, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_tree_request request = plain_request(cases[i].format);

        print_message("  %s\n", cases[i].name);
        fg_buf_clear(&in);
        put_nodes(&in, cases[i].nodes);
        decode(&decoded, fg_buf_slice(&in), &request);
        assert_text(&decoded, cases[i].want);
        fg_arena_destroy(decoded.arena);
    }
    fg_buf_done(&in);
}

static void bad_trees(void **state)
{
    static const struct {
        const char *name;
        enum fg_tree_format format;
        struct fg_slice in;
        const char *text;
    } cases[] = {
        {"no root", FG_FORMAT_TREE, FG_LIT(""), "the input ends where a node"},
        {"cut in a name", FG_FORMAT_TREE,
         FG_LIT("\x00\x00\x01\x05"
                "ab"),
         "node at byte 3 is cut short"},
        {"cut before the value", FG_FORMAT_TRIE, FG_LIT("\x00"), "node at byte 0 is cut short"},
        {"a number of 70 bits", FG_FORMAT_TREE,
         FG_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "node at byte 0 is cut short"},
        {"a name of 2^40 bytes", FG_FORMAT_TRIE, FG_LIT("\x80\x80\x80\x80\x80\x20\x00\x00"),
         "node at byte 0 is cut short"},
        {"2^40 children", FG_FORMAT_TREE, FG_LIT("\x00\x00\x80\x80\x80\x80\x80\x20\x00\x00\x00"),
         "node at byte 0 has 1099511627776 children, but 3 bytes follow"},
        {"one child too few", FG_FORMAT_TRIE, FG_LIT("\x00\x00\x02\x01\x61\x01\x00\x61\x62"),
         "node at byte 7 is cut short"},
        {"no child", FG_FORMAT_TRIE, FG_LIT("\x00\x00\x01"), "has 1 children, but 0 bytes"},
        {"more bytes", FG_FORMAT_TREE, FG_LIT("\x00\x00\x00\x00"), "1 bytes follow the last node"},
        {"a value of 64 bits", FG_FORMAT_TREE,
         FG_LIT("\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00"),
         "node at byte 0: value 9223372036854775808 times the period exceeds 63 bits"},
        {"not UTF-8", FG_FORMAT_TREE, FG_LIT("\x00\x00\x01\x01\xff\x00\x00"),
         "node at byte 3: a frame's name is not UTF-8"},
        {"not UTF-8", FG_FORMAT_TRIE, FG_LIT("\x02\xff;\x00\x00"), "is not UTF-8"},
    };
    struct decoded decoded;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_tree_request request = plain_request(cases[i].format);

        print_message("  %s\n", cases[i].name);
        decode(&decoded, cases[i].in, &request);
        assert_int_equal(decoded.code, FG_E_DECODE);
        if (strstr(decoded.err.msg, cases[i].text) == NULL)
            print_message("%s\n", decoded.err.msg);
        assert_non_null(strstr(decoded.err.msg, cases[i].text));
        fg_arena_destroy(decoded.arena);
    }
}

static void the_factor_multiplies(void **state)
{
    struct fg_tree_request request = plain_request(FG_FORMAT_TRIE);
    struct decoded decoded;

    (void)state;
    request.factor = 10000000;
    decode(&decoded, FG_LIT("\x01\x61\x03\x00"), &request);
    assert_text(&decoded, "a 30000000\n");
    assert_int_equal(decoded.batch.profiles[0].period, 11);
    assert_int_equal(decoded.batch.profiles[0].time_ns, 5);
    fg_arena_destroy(decoded.arena);
    decode(&decoded, FG_LIT("\x01\x61\x80\x80\x80\x80\x80\x80\x01\x00"), &request);
    assert_int_equal(decoded.code, FG_E_DECODE);
    assert_non_null(strstr(decoded.err.msg, "times the period"));
    fg_arena_destroy(decoded.arena);
}

static void limits_cut_and_refuse(void **state)
{
    static const struct node nodes[NODES_MAX] = {
        {"", 0, 2}, {"main", 1, 1}, {"work", 0, 1}, {"leaf", 2, 0}, {"x", 4, 0}};
    struct fg_tree_request request = plain_request(FG_FORMAT_TREE);
    struct decoded decoded;
    struct fg_buf in;

    (void)state;
    fg_buf_init(&in, SIZE_MAX);
    put_nodes(&in, nodes);
    request.upload.limits.stack_depth_max = 2;
    decode(&decoded, fg_buf_slice(&in), &request);
    assert_text(&decoded, "main 1\nmain;work 2\nx 4\n");
    assert_int_equal(decoded.counts.stacks_cut, 1);
    fg_arena_destroy(decoded.arena);

    request.upload.limits.symbol_max_bytes = 3;
    decode(&decoded, fg_buf_slice(&in), &request);
    assert_int_equal(decoded.code, FG_E_DECODE);
    assert_non_null(strstr(decoded.err.msg, "name of 4 bytes; limit 3"));
    fg_arena_destroy(decoded.arena);

    request.format = FG_FORMAT_TRIE; /* whose names are made of pieces: they are cut */
    decode(&decoded, FG_LIT("\x09main;work\x01\x00"), &request);
    assert_text(&decoded, "ain;ork 1\n");
    assert_int_equal(decoded.counts.symbols_cut, 2);
    fg_arena_destroy(decoded.arena);

    request = plain_request(FG_FORMAT_TREE);
    request.upload.limits.samples_max = 2;
    decode(&decoded, fg_buf_slice(&in), &request);
    assert_int_equal(decoded.code, FG_E_INVALID);
    assert_non_null(strstr(decoded.err.msg, "max_profile_stacktrace_samples, limit: 2"));
    fg_arena_destroy(decoded.arena);
    fg_buf_done(&in);
}

/* Whatever the depth there is no recursion; and what would be quadratic ends. */
static void deep_chains_need_no_recursion(void **state)
{
    static const struct {
        enum fg_tree_format format;
        const char *name, *text; /* text: of the error; NULL: none */
        uint64_t value;
        size_t count;
    } cases[] = {
        {FG_FORMAT_TREE, "", NULL, 0, 500000},
        {FG_FORMAT_TRIE, "", NULL, 0, 500000},
        {FG_FORMAT_TRIE, ";", NULL, 0, 500000},
        {FG_FORMAT_TREE, "a", "frames of all stacks add up to more", 1, 500000},
        {FG_FORMAT_TRIE, ";", "frames of all stacks add up to more", 1, 500000},
        {FG_FORMAT_TRIE, "a", "needs more memory", 1, 500000},
    };
    struct decoded decoded;
    struct fg_buf in;

    (void)state;
    fg_buf_init(&in, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_tree_request request = plain_request(cases[i].format);

        fg_buf_clear(&in);
        for (size_t k = 0; k < cases[i].count; k++)
            put_node(&in, cases[i].name, cases[i].value, k + 1 < cases[i].count);
        decode(&decoded, fg_buf_slice(&in), &request);
        assert_int_equal(decoded.code, cases[i].text == NULL ? FG_OK : FG_E_TOO_LARGE);
        if (cases[i].text != NULL && strstr(decoded.err.msg, cases[i].text) == NULL)
            print_message("%zu: %s\n", i, decoded.err.msg);
        assert_true(cases[i].text == NULL || strstr(decoded.err.msg, cases[i].text) != NULL);
        fg_arena_destroy(decoded.arena);
    }
    fg_buf_done(&in);
}

/* One long name, asked for again and again. */
static void long_names_are_bounded(void **state)
{
    enum { NAME_BYTES = 60000, NODES = 10000 };
    struct fg_tree_request request = plain_request(FG_FORMAT_TRIE);
    struct decoded decoded;
    struct fg_buf in;

    (void)state;
    fg_buf_init(&in, SIZE_MAX);
    fg_buf_varint(&in, NAME_BYTES);
    for (int i = 0; i < NAME_BYTES; i++)
        fg_buf_putc(&in, 'x');
    fg_buf_varint(&in, 0);
    fg_buf_varint(&in, NODES);
    for (int i = 0; i < NODES; i++)
        put_node(&in, "", 1, 0);
    decode(&decoded, fg_buf_slice(&in), &request);
    assert_int_equal(decoded.code, FG_E_TOO_LARGE);
    assert_non_null(strstr(decoded.err.msg, "names of frames add up to more than 256 MiB"));
    fg_arena_destroy(decoded.arena);
    fg_buf_done(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_trees),
        cmocka_unit_test(bad_trees),
        cmocka_unit_test(the_factor_multiplies),
        cmocka_unit_test(limits_cut_and_refuse),
        cmocka_unit_test(deep_chains_need_no_recursion),
        cmocka_unit_test(long_names_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
