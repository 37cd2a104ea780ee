/* Stripes: what is written comes back as runs, and what cannot be is refused, by both sides. */
#include "common/storage/block/verify.h"
#include "common/storage/block/writer.h"
#include "tests/lib/block_repack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BYTES = 1 << 20 };

static const struct fg_value_type type = {FG_LIT("cpu"), FG_LIT("nanoseconds")};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

/* ---- a file ---- */

/* Where profiles of a series begin, or a stripe (NULL): and their times, until a 0. */
struct written {
    const char *series;
    int64_t times_ns[4];
};

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

static enum fg_code write_series(struct fg_block_writer *writer, const struct written *written,
                                 uint64_t *id, struct fg_err *err)
{
    static const uint32_t stack = 1;
    static const uint64_t value = 3;
    struct fg_label label = {FG_LIT("pod"), fg_cstr(written->series)};
    const struct fg_block_series series = {
        .labels = {&label, 1}, .types = &type, .n_types = 1, .period_type = type};

    if (fg_block_series_begin(writer, &series, err) != FG_OK)
        return err->code;
    for (size_t i = 0; written->times_ns[i] != 0; i++) {
        const struct fg_block_profile profile = {.id = {++*id, 0},
                                                 .time_ns = written->times_ns[i],
                                                 .n_samples = 1,
                                                 .stacks = &stack,
                                                 .values = &value};

        if (fg_block_profile_add(writer, &profile, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code write_all(struct fg_block_writer *writer, const struct written *written,
                              size_t n, struct fg_err *err)
{
    struct fg_block_summary summary;
    uint64_t id = 0;

    for (size_t i = 0; i < n; i++)
        if ((written[i].series == NULL ? fg_block_stripe_begin(writer, err)
                                       : write_series(writer, &written[i], &id, err)) != FG_OK)
            return err->code;
    if (fg_block_part_end(writer, err) != FG_OK)
        return err->code;
    return fg_block_writer_finish(writer, &summary, err);
}

static enum fg_code write_file(const struct written *written, size_t n, struct fg_buf *out,
                               struct fg_err *err)
{
    const struct fg_block_sink sink = {append, out};
    fg_auto(fg_block_writer) *writer = fg_block_writer_create(&sink, 0);
    uint32_t uses[2] = {0, 0};
    struct fg_tree tree;
    enum fg_code code;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; written[i].times_ns[k] != 0; k++)
            uses[1]++;
    fg_tree_init(&tree);
    (void)fg_tree_child(&tree, FG_TREE_ROOT, fg_symbols_name_location(&tree.symbols, FG_LIT("f")));
    code = fg_block_part_begin(writer, FG_LIT("t"), FG_LIT("s"), &tree, uses, err);
    if (code == FG_OK)
        code = write_all(writer, written, n, err);
    fg_tree_done(&tree);
    return code;
}

static enum fg_code read_index(struct fg_slice file, struct fg_arena *arena,
                               struct fg_block_index *ret_index, struct fg_err *err)
{
    struct fg_block_directory *directory = fg_arena_new(arena, struct fg_block_directory, 1);
    struct fg_block_range range;
    uint64_t offset;

    must(fg_block_directory_offset(file, file.len, &offset, err), err);
    must(fg_block_directory_parse(fg_slice_sub(file, offset, SIZE_MAX), file.len, NULL, arena,
                                  directory, err),
         err);
    range = fg_block_part_range(&directory->parts[0], FG_BLOCK_WANT_SERIES);
    return fg_block_part_parse(&directory->parts[0], fg_slice_sub(file, range.offset, range.len),
                               arena, ret_index, err);
}

/* Series come and go, one of them between two that were there before; and a stripe has nothing. */
static const struct written good[] = {
    {"a", {10, 12}}, {"b", {11}}, {NULL, {0}}, {"b", {20, 21}}, {"c", {25}},
    {NULL, {0}},     {NULL, {0}}, {"a", {30}}, {"aa", {35}},
};

static void write_good(struct fg_buf *file)
{
    struct fg_err err;

    fg_buf_init(file, MAX_BYTES);
    must(write_file(good, FG_COUNT(good), file, &err), &err);
}

/* ---- the writer ---- */

static void series_chunks_are_read_back(void **state)
{
    static const struct fg_block_chunk want[] = {
        {0, 0, 2, 10, 12}, {2, 2, 1, 11, 12}, {2, 3, 2, 20, 21},
        {3, 5, 1, 25, 25}, {0, 6, 1, 30, 30}, {1, 7, 1, 35, 35},
    };
    static const char *const pods[] = {"a", "aa", "b", "c"};
    static const uint32_t n_chunks[] = {2, 1, 2, 1};
    struct fg_arena *arena = fg_arena_create(MAX_BYTES);
    struct fg_block_verified verified;
    struct fg_block_index index;
    struct fg_buf file;
    struct fg_err err;

    (void)state;
    write_good(&file);
    must(fg_block_verify(fg_buf_slice(&file), NULL, MAX_BYTES, &verified, &err), &err);
    must(read_index(fg_buf_slice(&file), arena, &index, &err), &err);
    assert_int_equal(index.n_series, FG_COUNT(pods));
    for (uint32_t s = 0; s < index.n_series; s++) {
        assert_true(fg_slice_is(index.series[s].labels.items[0].value, pods[s]));
        assert_int_equal(index.series[s].n_chunks, n_chunks[s]);
        for (uint32_t i = 0; i < index.series[s].n_chunks; i++)
            assert_int_equal(index.chunks[index.series[s].chunks[i]].series, s);
    }
    assert_int_equal(index.n_chunks, FG_COUNT(want));
    for (uint32_t r = 0; r < index.n_chunks; r++) {
        assert_int_equal(index.chunks[r].series, want[r].series);
        assert_int_equal(index.chunks[r].first, want[r].first);
        assert_int_equal(index.chunks[r].count, want[r].count);
        assert_int_equal(index.chunks[r].t_min_ns, want[r].t_min_ns);
        assert_int_equal(index.chunks[r].t_max_ns, want[r].t_max_ns);
        for (uint32_t p = want[r].first; p < want[r].first + want[r].count; p++)
            assert_int_equal(fg_block_chunk_of(&index, p), r);
    }
    fg_buf_done(&file);
    fg_arena_destroy(arena);
}

static void the_writer_refuses_stripes_out_of_order(void **state)
{
    static const struct {
        struct written written[4];
        size_t n;
        const char *why;
    } cases[] = {
        {{{"a", {10, 20}}, {NULL, {0}}, {"a", {20}}}, 3, "earlier stripe"},
        {{{"a", {20}}, {"b", {10}}, {NULL, {0}}, {"a", {15}}}, 4, "earlier stripe"},
        {{{"a", {10}}, {NULL, {0}}, {"b", {20}}, {"a", {20}}}, 4, "a series is out of order"},
        {{{"a", {10}}, {NULL, {0}}, {"a", {20}}, {"a", {21}}}, 4, "a series is out of order"},
        {{{"b", {10}}, {NULL, {0}}, {"a", {20}}, {"b", {11}}}, 4, ""}, /* after 10 it is */
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        bool refused = cases[i].why[0] != '\0';
        struct fg_buf file;
        struct fg_err err = {.code = FG_OK};

        print_message("  %zu\n", i);
        fg_buf_init(&file, MAX_BYTES);
        assert_int_equal(write_file(cases[i].written, cases[i].n, &file, &err),
                         refused ? FG_E_INVALID : FG_OK);
        if (refused && strstr(err.msg, cases[i].why) == NULL)
            fail_msg("%s", err.msg);
        fg_buf_done(&file);
    }
}

/* ---- the reader ---- */

/* What stands at the end of SER: stripes, runs; each stripe: runs; each: series, profiles. */
static const uint8_t stripes[] = {3, 6, 2, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1};

static struct repack_page *page_of(struct repack *repack, uint32_t kind, uint32_t number)
{
    uint32_t i = 0;

    while (repack->pages[i].kind != kind || number-- > 0)
        fg_assert(++i < repack->n_pages);
    return &repack->pages[i];
}

static void assert_broken(const struct repack *repack, const char *why)
{
    struct fg_arena *arena = fg_arena_create(MAX_BYTES);
    struct fg_block_index index;
    struct fg_buf file;
    struct fg_err err;

    fg_buf_init(&file, MAX_BYTES);
    repack_write(repack, &file);
    assert_int_equal(read_index(fg_buf_slice(&file), arena, &index, &err), FG_E_CORRUPT);
    if (strstr(err.msg, why) == NULL)
        fail_msg("%s: %s", why, err.msg);
    fg_buf_done(&file);
    fg_arena_destroy(arena);
}

static void the_reader_refuses_bad_stripes(void **state)
{
    static const struct {
        const char *name;
        uint8_t stripes[FG_COUNT(stripes)];
        const char *why;
    } cases[] = {
        {"one too few", {2, 6, 2, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1}, "left over"},
        {"one too many", {4, 6, 2, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1}, "of stripe 3"},
        {"a run too few", {3, 5, 2, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1}, "of stripe 2"},
        {"a run too many", {3, 7, 2, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1}, "left over"},
        {"more runs than bytes",
         {3, 100, 2, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1},
         "of stripe 0"},
        {"without runs", {3, 6, 0, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1}, "of stripe 0"},
        {"a run of nothing", {3, 6, 2, 0, 0, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1}, "of stripe 0"},
        {"more profiles than there are",
         {3, 6, 2, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 2},
         "of stripe 2"},
        {"fewer", {3, 6, 2, 0, 2, 1, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 0}, "of stripe 2"},
        {"no such series", {3, 6, 2, 0, 2, 3, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1}, "of stripe 0"},
        {"across a page", {3, 6, 2, 0, 2, 1, 2, 2, 2, 1, 0, 1, 2, 0, 1, 0, 1}, "pages or times"},
        {"when the series is not",
         {3, 6, 2, 1, 2, 0, 1, 2, 2, 2, 0, 1, 2, 0, 1, 0, 1},
         "times of series 1"},
    };
    struct fg_arena *arena = fg_arena_create(MAX_BYTES);
    struct repack_page *ser;
    struct repack repack;
    struct fg_slice raw;
    struct fg_buf file, changed;

    (void)state;
    write_good(&file);
    repack_take(fg_buf_slice(&file), arena, &repack);
    ser = page_of(&repack, FG_BLOCK_SER, 0);
    raw = ser->raw;
    assert_memory_equal(raw.ptr + raw.len - sizeof stripes, stripes, sizeof stripes);
    fg_buf_init(&changed, MAX_BYTES);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        fg_buf_clear(&changed);
        fg_buf_put(&changed, fg_slice_sub(raw, 0, raw.len - sizeof stripes));
        fg_buf_append(&changed, cases[i].stripes, sizeof stripes);
        ser->raw = fg_buf_slice(&changed);
        assert_broken(&repack, cases[i].why);
    }
    fg_buf_done(&changed);
    fg_buf_done(&file);
    fg_arena_destroy(arena);
}

/* By the page table; the rows themselves are elsewhere. */
static void stripes_ascend(void **state)
{
    static const uint32_t kinds[] = {FG_BLOCK_SMP, FG_BLOCK_PID, FG_BLOCK_IDX};
    struct fg_arena *arena = fg_arena_create(MAX_BYTES);
    struct repack repack;
    struct fg_buf file;

    (void)state;
    write_good(&file);
    repack_take(fg_buf_slice(&file), arena, &repack);
    for (size_t i = 0; i < FG_COUNT(kinds); i++) {
        assert_int_equal(page_of(&repack, kinds[i], 0)->row.t_max_ns, 12);
        page_of(&repack, kinds[i], 1)->row.t_min_ns = 12;
    }
    assert_broken(&repack, "pages or times of stripe 1");
    fg_buf_done(&file);
    fg_arena_destroy(arena);
}

/* A run for each series in each stripe, by the rule that the compactor has for these. */
static void the_number_of_series_chunks_is_estimated(void **state)
{
    struct fg_block_part part = {.n_series = 10,
                                 .n_profiles = 1000 * 1000,
                                 .n_samples = UINT64_C(20) * FG_BLOCK_STRIPE_SAMPLES,
                                 .t_min_ns = 0,
                                 .t_max_ns = 24 * FG_HOUR_NS - 1};

    (void)state;
    assert_in_range(fg_block_guess_chunks(&part), 10 * 20, 10 * 22);
    part.n_samples *= 1000; /* none is shorter than ten minutes */
    assert_in_range(fg_block_guess_chunks(&part), 10 * 144, 10 * 146);
    part.n_profiles = 700; /* none is empty */
    assert_int_equal(fg_block_guess_chunks(&part), 700);
    part.n_samples = 1000; /* one stripe, and what is early */
    assert_in_range(fg_block_guess_chunks(&part), 10, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_series_chunks_is_estimated),
        cmocka_unit_test(series_chunks_are_read_back),
        cmocka_unit_test(the_writer_refuses_stripes_out_of_order),
        cmocka_unit_test(the_reader_refuses_bad_stripes),
        cmocka_unit_test(stripes_ascend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
