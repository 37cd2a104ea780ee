/* The rollup of a whole part is built while the part is written: it is the sum of its profiles. */
#include "common/storage/block/verify.h"
#include "common/storage/rollup/reader.h"
#include "common/storage/rollup/verify.h"
#include "common/storage/rollup/whole.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    FUNCTIONS = 150,
    SERIES = 3,
    PROFILES = 400,
    SAMPLES = 100,
    TYPES = 2,
    MAX_BYTES = 64 << 20
};

/* Two schemas; the second series has no value of its first type. */
static const struct fg_value_type cpu[] = {{FG_LIT("samples"), FG_LIT("count")},
                                           {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
static const struct fg_value_type twice[] = {{FG_LIT("cpu"), FG_LIT("nanoseconds")},
                                             {FG_LIT("cpu"), FG_LIT("nanoseconds")}};

struct fixture {
    struct fg_tree tree;
    uint32_t *uses;
    struct fg_label labels[SERIES][2];
    struct fg_block_series series[SERIES];
    struct fg_buf file;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void make_series(struct fixture *f)
{
    static const struct fg_slice pods[SERIES] = {FG_LIT("a"), FG_LIT("b"), FG_LIT("c")};

    for (uint32_t s = 0; s < SERIES; s++) {
        f->labels[s][0] =
            (struct fg_label){FG_LIT("__name__"), s < 2 ? FG_LIT("process_cpu") : FG_LIT("wall")};
        f->labels[s][1] = (struct fg_label){FG_LIT("pod"), pods[s]};
        f->series[s] = (struct fg_block_series){
            {f->labels[s], 2}, cpu, s < 2 ? TYPES : 1, {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    }
}

/* Functions call the one before, or begin again; each twice, as two lines of it. */
static void make_tree(struct fixture *f)
{
    char name[16];

    fg_tree_init(&f->tree);
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        uint32_t parent = i % 7 == 0 ? FG_TREE_ROOT : i - 1;

        (void)snprintf(name, sizeof name, "f%u", i / 2);
        (void)fg_tree_child(&f->tree, parent,
                            fg_symbols_name_location(&f->tree.symbols, fg_cstr(name)));
    }
}

/* The stack of a profile's sample; 0 is the empty one. Each once in a profile. */
static uint32_t stack_of(const struct fixture *f, uint32_t profile, uint32_t sample)
{
    return (profile * 13 + sample) % (f->tree.n_nodes + 1);
}

static void set_up(struct fixture *f, uint32_t n_profiles)
{
    *f = (struct fixture){.uses = NULL};
    make_series(f);
    make_tree(f);
    fg_buf_init(&f->file, MAX_BYTES);
    f->uses = fg_calloc((size_t)f->tree.n_nodes + 1, sizeof *f->uses);
    for (uint32_t p = 0; p < n_profiles * SERIES; p++)
        for (uint32_t i = 0; i < SAMPLES; i++)
            f->uses[stack_of(f, p, i)]++;
}

static void tear_down(struct fixture *f)
{
    fg_tree_done(&f->tree);
    fg_buf_done(&f->file);
    free(f->uses);
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

static void write_profile(struct fixture *f, struct fg_block_writer *writer,
                          struct fg_rollup_whole *whole, uint32_t series, uint32_t number,
                          uint32_t n_profiles)
{
    uint32_t stacks[SAMPLES], all = series * n_profiles + number;
    uint64_t values[TYPES * SAMPLES];
    struct fg_block_profile profile = {.id = {all, 1},
                                       .time_ns = 1000 + number,
                                       .n_samples = SAMPLES,
                                       .stacks = stacks,
                                       .values = values};
    struct fg_err err;

    for (uint32_t i = 0; i < SAMPLES; i++) {
        stacks[i] = stack_of(f, all, i);
        values[i] = series == 1 ? 0 : 1 + (all + i) % 9;
        values[SAMPLES + i] = (all * 31 + i) % 1000;
    }
    must(fg_block_profile_add(writer, &profile, &err), &err);
    fg_rollup_whole_add(whole, series, &profile);
}

/* Whether a node was made. */
static bool write_file(struct fixture *f, uint32_t n_profiles)
{
    const struct fg_block_sink sink = {append, &f->file};
    fg_auto(fg_block_writer) *writer = fg_block_writer_create(&sink, 0);
    fg_auto(fg_rollup_whole) *whole = NULL;
    struct fg_block_summary summary;
    struct fg_err err;

    must(fg_block_part_begin(writer, FG_LIT("t"), FG_LIT("s"), &f->tree, f->uses, &err), &err);
    whole = fg_rollup_whole_create(writer, &f->tree, f->uses, f->series, SERIES);
    for (uint32_t s = 0; s < SERIES; s++) {
        must(fg_block_series_begin(writer, &f->series[s], &err), &err);
        for (uint32_t p = 0; p < n_profiles; p++)
            write_profile(f, writer, whole, s, p, n_profiles);
    }
    must(fg_rollup_whole_write(whole, &err), &err);
    must(fg_block_part_end(writer, &err), &err);
    must(fg_block_writer_finish(writer, &summary, &err), &err);
    return whole != NULL;
}

/* Verifies the file and returns the rollups of its one part. */
static struct fg_rollups read_file(const struct fixture *f, struct fg_arena *arena)
{
    struct fg_slice file = fg_buf_slice(&f->file);
    struct fg_block_directory *directory = fg_arena_new(arena, struct fg_block_directory, 1);
    struct fg_rollups nodes = {.n_rows = 0};
    struct fg_block_verified verified;
    struct fg_block_range nod;
    struct fg_err err;
    uint64_t offset;

    must(fg_block_verify(file, NULL, MAX_BYTES, &verified, &err), &err);
    must(fg_block_directory_offset(file, file.len, &offset, &err), &err);
    must(fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, NULL,
                                  arena, directory, &err),
         &err);
    must(fg_rollup_verify(&directory->parts[0], file, MAX_BYTES, &err), &err);
    must(fg_rollup_verify_sums(&directory->parts[0], file, MAX_BYTES, &err), &err);
    nod = fg_rollup_ranges(&directory->parts[0]).nod;
    if (nod.len > 0)
        must(fg_rollups_parse(&directory->parts[0],
                              fg_slice_sub(file, (size_t)nod.offset, (size_t)nod.len), arena,
                              &nodes, &err),
             &err);
    return nodes;
}

static void the_rollup_of_a_part_is_the_sum_of_its_profiles(void **state)
{
    /* Series with a value of the type, by types in the order they came. */
    static const uint64_t counts[] = {PROFILES, 2 * (uint64_t)PROFILES, PROFILES};
    struct fg_arena *arena = fg_arena_create(MAX_BYTES);
    struct fg_rollups nodes;
    struct fixture f;

    (void)state;
    set_up(&f, PROFILES);
    assert_true(write_file(&f, PROFILES));
    nodes = read_file(&f, arena);
    assert_int_equal(nodes.n_rows, FG_COUNT(counts));
    for (uint32_t i = 0; i < FG_COUNT(counts); i++) {
        const struct fg_rollup_row *row = &nodes.rows[i];

        assert_int_equal(row->key.kind, FG_ROLLUP_ALL);
        assert_int_equal(row->key.start_ns, 1000);
        assert_int_equal(row->key.end_ns, 1000 + PROFILES);
        assert_int_equal(row->count, counts[i]);
        assert_true(row->places[FG_ROLLUP_CROWN].bytes > 0);
        assert_int_equal(row->places[FG_ROLLUP_FULL].bytes, 0);
    }
    tear_down(&f);
    fg_arena_destroy(arena);
}

static void a_small_part_has_no_rollup(void **state)
{
    struct fg_arena *arena = fg_arena_create(MAX_BYTES);
    struct fixture f;

    (void)state;
    set_up(&f, PROFILES / 4);
    assert_false(write_file(&f, PROFILES / 4));
    assert_int_equal(read_file(&f, arena).n_rows, 0);
    tear_down(&f);
    fg_arena_destroy(arena);
}

static void a_duplicate_type_has_no_rollup(void **state)
{
    const struct fg_block_sink sink = {append, NULL};
    struct fg_block_writer *writer = fg_block_writer_create(&sink, 0);
    struct fixture f;

    (void)state;
    set_up(&f, PROFILES);
    f.series[1].types = twice;
    assert_null(fg_rollup_whole_create(writer, &f.tree, f.uses, f.series, SERIES));
    fg_block_writer_destroy(writer);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rollup_of_a_part_is_the_sum_of_its_profiles),
        cmocka_unit_test(a_small_part_has_no_rollup),
        cmocka_unit_test(a_duplicate_type_has_no_rollup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
