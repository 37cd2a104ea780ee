/*
 * Writes rollups into a real block, reads them back and compares them with sums of the profiles.
 */
#include "common/base/crc32c.h"
#include "common/model/flame.h"
#include "common/storage/block/verify.h"
#include "common/storage/rollup/crown_sum.h"
#include "common/storage/rollup/verify.h"
#include "common/storage/rollup/writer.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    SERIES = 4,
    PROFILES = 10, /* of a series */
    SAMPLES = 30,
    TYPES = 2,
    FACTOR = 10000000,
    SPAN_NS = 100, /* two of them are all there is */
    CROWN_NODES = 60,
};

static struct fg_profile_type types[] = {
    {FG_LIT("process_cpu"), FG_LIT("samples"), FG_LIT("count"), FG_LIT("cpu"),
     FG_LIT("nanoseconds")},
    {FG_LIT("process_cpu"), FG_LIT("cpu"), FG_LIT("nanoseconds"), FG_LIT("cpu"),
     FG_LIT("nanoseconds")},
};
static const struct fg_value_type value_types[] = {{FG_LIT("samples"), FG_LIT("count")},
                                                   {FG_LIT("cpu"), FG_LIT("nanoseconds")}};

struct made {
    struct fg_arena *arena;
    struct fg_tree tree;
    struct fg_labels labels[SERIES];
    struct fg_groups groups;
    uint32_t stacks[SERIES][PROFILES][SAMPLES];
    uint64_t values[SERIES][PROFILES][TYPES * SAMPLES];
    uint32_t *uses;
    struct fg_buf file;
    uint64_t replaces_bytes; /* of every node */
    uint32_t *ranks, n_ranks;
};

static void make_labels(struct made *made)
{
    static const struct fg_slice wanted[] = FG_GROUPS_DEFAULT;
    struct fg_err err;

    for (uint32_t i = 0; i < SERIES; i++) {
        struct fg_label *items = fg_arena_new(made->arena, struct fg_label, 4);

        items[0] = (struct fg_label){FG_LIT("__name__"), FG_LIT("process_cpu")};
        items[1] =
            (struct fg_label){FG_LIT("pod"), fg_cstr(fg_arena_printf(made->arena, "p%u", i))};
        items[2] = (struct fg_label){FG_LIT("region"), i < 2 ? FG_LIT("eu") : FG_LIT("us")};
        items[3] = (struct fg_label){FG_LIT("service_name"), FG_LIT("shop")};
        made->labels[i] = (struct fg_labels){items, 4};
    }
    assert_int_equal(fg_groups_choose(made->labels, SERIES, wanted, FG_COUNT(wanted), made->arena,
                                      &made->groups, &err),
                     FG_OK);
    assert_int_equal(made->groups.n_groups, 2);
}

/* The same profiles for the same seed, over a tree that came in one order or in another. */
static void make(struct made *made, uint64_t seed, bool other_order, uint64_t replaces_bytes)
{
    struct fg_tree tree;
    uint64_t random = seed;
    uint32_t *news;

    *made = (struct made){.arena = fg_arena_create(64 << 20), .replaces_bytes = replaces_bytes};
    make_labels(made);
    fg_tree_init(&tree);
    for (unsigned i = 0; i < 150; i++) {
        static struct slow_stacks slow;

        slow.count = 0;
        slow_add_random(&slow, &tree, &random);
    }
    /* Nodes without children last: any order will do in which parents come first. */
    fg_tree_init(&made->tree);
    news = fg_arena_new(made->arena, uint32_t, tree.n_nodes);
    for (uint32_t i = 0; i < tree.n_nodes; i++)
        news[i] = FG_TREE_ROOT;
    for (unsigned pass = 0; pass <= SLOW_DEPTH_MAX; pass++)
        for (uint32_t k = 0; k < tree.n_nodes; k++) {
            uint32_t i = other_order ? tree.n_nodes - 1 - k : k, parent = tree.parents[i];

            if (parent != FG_TREE_ROOT && news[parent] == FG_TREE_ROOT)
                continue;
            news[i] = fg_tree_child(
                &made->tree, parent == FG_TREE_ROOT ? FG_TREE_ROOT : news[parent],
                fg_symbols_name_location(&made->tree.symbols, fg_tree_name(&tree, i)));
        }
    assert_int_equal(made->tree.n_nodes, tree.n_nodes);
    made->uses = fg_arena_new(made->arena, uint32_t, (size_t)tree.n_nodes + 1);
    for (uint32_t s = 0; s < SERIES; s++)
        for (uint32_t p = 0; p < PROFILES; p++)
            for (uint32_t i = 0; i < SAMPLES; i++) {
                uint32_t node = (uint32_t)(slow_random(&random) % tree.n_nodes);
                uint64_t value = 1 + slow_random(&random) % 50;
                uint32_t *stack = &made->stacks[s][p][i];
                bool twice = false;

                *stack = i == 0 ? 0 : news[node] + 1;
                for (uint32_t k = 0; k < i; k++)
                    twice = twice || made->stacks[s][p][k] == *stack;
                made->uses[*stack] += !twice;
                made->values[s][p][i] = value;
                made->values[s][p][SAMPLES + i] = value * FACTOR;
            }
    fg_tree_done(&tree);
}

static void made_done(struct made *made)
{
    fg_tree_done(&made->tree);
    fg_buf_done(&made->file);
    fg_arena_destroy(made->arena);
}

static bool in_key(const struct made *made, const struct fg_rollup_key *key, uint32_t series,
                   uint32_t profile)
{
    int64_t time_ns = profile * 20;

    return time_ns >= key->start_ns && time_ns < key->end_ns &&
           (key->kind == FG_ROLLUP_ALL ||
            (key->kind == FG_ROLLUP_GROUP && made->groups.of_series[series] == key->number) ||
            (key->kind == FG_ROLLUP_SERIES && key->number == series));
}

/* Sums over the tree of all profiles of the key. */
static uint64_t *sum_key(const struct made *made, const struct fg_rollup_key *key, uint32_t type,
                         uint64_t *ret_count)
{
    uint64_t *sums = fg_calloc((size_t)made->tree.n_nodes + 1, sizeof *sums);

    *ret_count = 0;
    for (uint32_t s = 0; s < SERIES; s++)
        for (uint32_t p = 0; p < PROFILES; p++) {
            if (!in_key(made, key, s, p))
                continue;
            ++*ret_count;
            for (uint32_t i = 0; i < SAMPLES; i++)
                sums[made->stacks[s][p][i]] += made->values[s][p][type * SAMPLES + i];
        }
    return sums;
}

static void add_key(const struct made *made, struct fg_rollup_writer *writer,
                    const struct fg_rollup_key *key)
{
    const struct fg_function_tree *names = fg_rollup_writer_functions(writer);
    struct fg_rollup_value values[TYPES];
    int64_t *self[TYPES];
    uint64_t *full[TYPES];
    struct fg_err err;

    for (uint32_t type = 0; type < TYPES; type++) {
        uint64_t *sums;

        values[type] = (struct fg_rollup_value){.type = type,
                                                .digest = {key->number, key->kind},
                                                .replaces_bytes = made->replaces_bytes};
        sums = sum_key(made, key, type, &values[type].count);
        self[type] = fg_calloc((size_t)names->n_nodes + 1, sizeof(int64_t));
        full[type] = fg_calloc((size_t)made->n_ranks + 1, sizeof(uint64_t));
        for (uint32_t i = 0; i < made->tree.n_nodes; i++)
            self[type][names->nodes[i]] += (int64_t)sums[i + 1];
        self[type][names->no_stack] += (int64_t)sums[0];
        for (uint32_t i = 0; i < made->n_ranks; i++)
            full[type][i] = sums[made->ranks[i]];
        if (values[type].count > 0) {
            values[type].self = self[type];
            values[type].full = made->n_ranks == 0 ? NULL : full[type];
        }
        free(sums);
    }
    assert_int_equal(fg_rollup_add(writer, key, values, TYPES, &err), FG_OK);
    for (uint32_t type = 0; type < TYPES; type++) {
        free(self[type]);
        free(full[type]);
    }
}

/* All, groups and series over the whole time and its halves; and one span without profiles. */
static void add_keys(const struct made *made, struct fg_rollup_writer *writer)
{
    static const struct {
        int64_t start_ns, end_ns;
    } spans[] = {
        {0, 2 * SPAN_NS}, {0, SPAN_NS}, {SPAN_NS, 2 * SPAN_NS}, {2 * SPAN_NS, 3 * SPAN_NS}};

    for (size_t span = 0; span < FG_COUNT(spans); span++) {
        struct fg_rollup_key key = {.start_ns = spans[span].start_ns, .end_ns = spans[span].end_ns};

        add_key(made, writer, &key);
        key.kind = FG_ROLLUP_GROUP;
        for (key.number = 0; key.number < made->groups.n_groups; key.number++)
            add_key(made, writer, &key);
        key.kind = FG_ROLLUP_SERIES;
        for (key.number = 0; key.number < SERIES; key.number++)
            add_key(made, writer, &key);
    }
}

static void write_profiles(const struct made *made, struct fg_block_writer *block)
{
    struct fg_err err;

    for (uint32_t s = 0; s < SERIES; s++) {
        struct fg_block_series series = {.labels = made->labels[s],
                                         .types = value_types,
                                         .n_types = TYPES,
                                         .period_type = {FG_LIT("cpu"), FG_LIT("nanoseconds")}};

        assert_int_equal(fg_block_series_begin(block, &series, &err), FG_OK);
        for (uint32_t p = 0; p < PROFILES; p++) {
            struct fg_block_profile profile = {.id = {s * PROFILES + p, 1},
                                               .time_ns = p * 20,
                                               .n_samples = SAMPLES,
                                               .stacks = made->stacks[s][p],
                                               .values = made->values[s][p]};

            assert_int_equal(fg_block_profile_add(block, &profile, &err), FG_OK);
        }
    }
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

static struct fg_rollup_writer *make_nodes(struct made *made, struct fg_block_writer *block)
{
    uint32_t n_ranks = fg_block_part_n_stacks(block);
    struct fg_rollup_options options = {.tree = &made->tree,
                                        .groups = &made->groups,
                                        .types = types,
                                        .n_types = TYPES,
                                        .n_ranks = n_ranks,
                                        .crown_nodes = CROWN_NODES};
    struct fg_rollup_writer *writer;
    struct fg_err err;

    made->ranks = fg_arena_new(made->arena, uint32_t, n_ranks);
    made->n_ranks = n_ranks;
    fg_block_part_stacks(block, made->ranks);
    assert_int_equal(fg_rollup_writer_create(&options, &writer, &err), FG_OK);
    add_keys(made, writer);
    return writer;
}

static void write_block(struct made *made)
{
    struct fg_block_sink sink = {append, &made->file};
    struct fg_block_writer *block;
    struct fg_rollup_writer *nodes;
    struct fg_block_summary summary;
    struct fg_err err;

    fg_buf_init(&made->file, 64 << 20);
    block = fg_block_writer_create(&sink, 1);
    assert_int_equal(
        fg_block_part_begin(block, FG_LIT("acme"), FG_LIT("shop"), &made->tree, made->uses, &err),
        FG_OK);
    write_profiles(made, block);
    nodes = make_nodes(made, block);
    assert_int_equal(fg_rollup_write(nodes, block, &err), FG_OK);
    assert_int_equal(fg_block_part_end(block, &err), FG_OK);
    assert_int_equal(fg_block_writer_finish(block, &summary, &err), FG_OK);
    fg_rollup_writer_destroy(nodes);
    fg_block_writer_destroy(block);
}

/* ---- reading ---- */

struct opened {
    struct fg_slice file;
    struct fg_block_directory directory;
    struct fg_block_index index;
    struct fg_block_tree tree;
    struct fg_rollup_ranges ranges;
    struct fg_rollups nodes;
    struct fg_function_tree names;
};

static struct fg_slice range(const struct opened *opened, struct fg_block_range range)
{
    return fg_slice_sub(opened->file, range.offset, range.len);
}

static struct fg_slice place_bytes(const struct opened *opened, const struct fg_rollup_row *row,
                                   enum fg_rollup_form what)
{
    const struct fg_block_range *section = what == FG_ROLLUP_CROWN    ? &opened->ranges.crn
                                           : what == FG_ROLLUP_TOTALS ? &opened->ranges.ftb
                                                                      : &opened->ranges.ful;

    return fg_slice_sub(range(opened, *section), row->places[what].offset, row->places[what].bytes);
}

static void open_block(const struct made *made, struct opened *opened)
{
    const struct fg_block_part *part;
    struct fg_slice crn;
    struct fg_err err;
    uint64_t offset;

    *opened = (struct opened){.file = fg_buf_slice(&made->file)};
    assert_int_equal(fg_block_directory_offset(opened->file, opened->file.len, &offset, &err),
                     FG_OK);
    assert_int_equal(fg_block_directory_parse(fg_slice_sub(opened->file, offset, SIZE_MAX),
                                              opened->file.len, NULL, made->arena,
                                              &opened->directory, &err),
                     FG_OK);
    part = &opened->directory.parts[0];
    assert_int_equal(
        fg_block_part_parse(part, range(opened, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                            made->arena, &opened->index, &err),
        FG_OK);
    if (part->n_series > 0)
        assert_int_equal(
            fg_block_tree_parse(&opened->index,
                                range(opened, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                                made->arena, &opened->tree, &err),
            FG_OK);
    opened->ranges = fg_rollup_ranges(part);
    if (opened->ranges.nod.len == 0)
        return;
    assert_int_equal(fg_rollups_parse(part, range(opened, opened->ranges.nod), made->arena,
                                      &opened->nodes, &err),
                     FG_OK);
    crn = range(opened, opened->ranges.crn);
    assert_int_equal(fg_rollup_functions_parse(
                         &opened->nodes, fg_slice_sub(crn, 0, opened->nodes.names.bytes),
                         fg_slice_sub(crn, opened->nodes.names.bytes, opened->nodes.dict.bytes),
                         made->arena, &opened->names, &err),
                     FG_OK);
}

/* The names and values that a row should have. */
static void want_tree(const struct made *made, const struct fg_rollup_row *row,
                      struct fg_tree *into)
{
    uint64_t count, *sums = sum_key(made, &row->key, row->type, &count);
    struct fg_tree view = made->tree;

    assert_int_equal(count, row->count);
    view.self = (int64_t *)(sums + 1);
    view.root_self = (int64_t)sums[0];
    fg_tree_init(into);
    fg_tree_names(&view, into);
    free(sums);
}

static void check_crown(const struct made *made, const struct opened *opened,
                        const struct fg_rollup_row *row, const struct fg_tree *want)
{
    struct fg_crown_verdict verdict;
    struct fg_crown_sum sum;
    struct fg_function_values values;
    struct fg_function_tree names;
    struct fg_crown crown, made_crown;
    struct fg_tree have;
    struct fg_err err;

    assert_int_equal(fg_rollup_crown_parse(row, &opened->names,
                                           place_bytes(opened, row, FG_ROLLUP_CROWN), made->arena,
                                           &crown, &err),
                     FG_OK);
    fg_function_tree_init(&names, want);
    fg_function_values_init(&values, &names);
    fg_function_values_set(&values, &names, want->self);
    fg_crown_make(&names, &values, CROWN_NODES, &made_crown);
    assert_int_equal(crown.n_nodes, made_crown.n_nodes);
    assert_int_equal(crown.cut_max, made_crown.cut_max);
    assert_int_equal(crown.root_rest, made_crown.root_rest);
    assert_memory_equal(crown.self, made_crown.self, crown.n_nodes * sizeof *crown.self);
    assert_memory_equal(crown.rest, made_crown.rest, crown.n_nodes * sizeof *crown.rest);
    fg_crown_sum_init(&sum);
    fg_crown_sum_add_crown(&sum, &opened->names, &crown);
    fg_crown_sum_finish(&sum);
    fg_tree_init(&have);
    fg_crown_sum_truncate(&sum, 0, &have, &verdict);
    assert_int_equal(verdict.total, values.all);
    assert_int_equal(verdict.total, row->total);
    fg_tree_done(&have);
    fg_crown_sum_done(&sum);
    fg_crown_done(&made_crown);
    fg_function_values_done(&values);
    fg_function_tree_done(&names);
}

static void check_table(const struct made *made, const struct opened *opened,
                        const struct fg_rollup_row *row, const struct fg_tree *want)
{
    int64_t *self = fg_calloc(opened->names.n_names, sizeof *self);
    int64_t *totals = fg_calloc(opened->names.n_names, sizeof *totals);
    struct fg_top_row *rows;
    struct fg_err err;
    size_t n_rows;

    assert_int_equal(fg_rollup_totals_add(row, &opened->names,
                                          place_bytes(opened, row, FG_ROLLUP_TOTALS), 1,
                                          made->arena, self, totals, &err),
                     FG_OK);
    rows = fg_flame_top(want, &n_rows);
    assert_int_equal(n_rows, row->places[FG_ROLLUP_TOTALS].items);
    for (size_t i = 0; i < n_rows; i++) {
        uint32_t name = 0;

        while (!fg_slice_eq(opened->names.names[name], rows[i].name))
            name++;
        assert_int_equal(self[name], rows[i].self);
        assert_int_equal(totals[name], rows[i].total);
    }
    free(rows);
    free(totals);
    free(self);
}

static void check_full(const struct made *made, const struct opened *opened,
                       const struct fg_rollup_row *row)
{
    uint32_t n_stacks = opened->directory.parts[0].n_stacks;
    uint64_t *have = fg_calloc(n_stacks, sizeof *have), *want = fg_calloc(n_stacks, sizeof *want);
    struct fg_block_samples *samples = fg_block_samples_create(64 << 20);
    const struct fg_block_pages *pages = &opened->index.pages[FG_BLOCK_SMP];
    struct fg_err err;

    assert_int_equal(fg_rollup_full_add(row, place_bytes(opened, row, FG_ROLLUP_FULL), 1,
                                        made->arena, have, n_stacks, &err),
                     FG_OK);
    for (uint32_t page = 0; page < pages->count; page++) {
        struct fg_block_range where = {pages->pages[page].offset, pages->pages[page].bytes};

        assert_int_equal(
            fg_block_samples_open(samples, &opened->index, page, range(opened, where), &err),
            FG_OK);
        for (uint32_t s = 0; s < SERIES; s++)
            for (uint32_t p = 0; p < PROFILES; p++)
                if (in_key(made, &row->key, s, p))
                    assert_int_equal(
                        fg_block_samples_sum(samples, s * PROFILES + p, 1, row->type, want, &err),
                        FG_OK);
    }
    assert_memory_equal(have, want, n_stacks * sizeof *have);
    assert_int_equal(fg_rollup_full_add(row, place_bytes(opened, row, FG_ROLLUP_FULL), -1,
                                        made->arena, have, n_stacks, &err),
                     FG_OK);
    for (uint32_t i = 0; i < n_stacks; i++)
        assert_int_equal(have[i], 0);
    fg_block_samples_destroy(samples);
    free(want);
    free(have);
}

static void rollups_are_read_back(void **state)
{
    struct fg_block_verified verified;
    struct opened opened;
    struct made made;
    struct fg_err err;

    (void)state;
    make(&made, 1, false, 1 << 20);
    write_block(&made);
    open_block(&made, &opened);
    assert_int_equal(fg_block_verify(opened.file, NULL, 64 << 20, &verified, &err), FG_OK);
    assert_int_equal(opened.nodes.n_types, TYPES);
    assert_int_equal(opened.nodes.groups.n_groups, 2);
    assert_true(fg_slice_is(opened.nodes.groups.names[0], "region"));
    assert_true(fg_slice_is(opened.nodes.groups.values[1], "us"));
    assert_int_equal(opened.nodes.groups.of_series[2], 1);
    assert_true(fg_slice_is(fg_labels_get(&opened.nodes.groups.common, "service_name"), "shop"));
    assert_int_equal(opened.nodes.n_rows, 4 * 7 * TYPES);
    for (uint32_t i = 0; i < opened.nodes.n_rows; i++) {
        const struct fg_rollup_row *row = &opened.nodes.rows[i];
        struct fg_tree want;

        assert_int_equal(row->count == 0, row->key.start_ns == 2 * SPAN_NS);
        assert_int_equal(row->factor, row->type == 1 && row->count > 0 ? FACTOR : 1);
        if (row->count == 0)
            continue;
        assert_true(fg_id_eq(row->digest, (struct fg_id){row->key.number, row->key.kind}));
        want_tree(&made, row, &want);
        check_crown(&made, &opened, row, &want);
        check_table(&made, &opened, row, &want);
        check_full(&made, &opened, row);
        fg_tree_done(&want);
    }
    made_done(&made);
}

static void the_same_profiles_give_the_same_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 10; seed++) {
        struct made one, other;

        make(&one, seed, false, 1 << 20);
        make(&other, seed, true, 1 << 20);
        write_block(&one);
        write_block(&other);
        assert_true(fg_slice_eq(fg_buf_slice(&one.file), fg_buf_slice(&other.file)));
        made_done(&one);
        made_done(&other);
    }
}

static void only_forms_worth_their_bytes_are_kept(void **state)
{
    static const struct {
        const char *name;
        uint64_t replaces_bytes;
        bool some, all;
    } cases[] = {
        {"nothing is saved", 0, false, false},
        {"some would be", 2600, true, false},
        {"all would be", 1 << 20, true, true},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct opened opened;
        struct made made;
        uint32_t kept = 0, rows = 0;

        print_message("  %s\n", cases[i].name);
        make(&made, 3, false, cases[i].replaces_bytes);
        write_block(&made);
        open_block(&made, &opened);
        for (uint32_t k = 0; k < opened.nodes.n_rows; k++) {
            rows += opened.nodes.rows[k].count > 0;
            for (unsigned what = 0; what < FG_ROLLUP_FORMS; what++) {
                uint32_t bytes = opened.nodes.rows[k].places[what].bytes;

                kept += bytes > 0;
                assert_true(bytes == 0 || fg_rollup_worth(bytes, cases[i].replaces_bytes));
            }
        }
        print_message("    %u of %u\n", kept, 3 * 7 * TYPES * FG_ROLLUP_FORMS);
        assert_int_equal(rows > 0, cases[i].some);
        assert_int_equal(opened.ranges.nod.len > 0, cases[i].some);
        assert_int_equal(kept > 0, cases[i].some);
        assert_int_equal(kept == 3 * 7 * TYPES * FG_ROLLUP_FORMS, cases[i].all);
        made_done(&made);
    }
}

/* ---- what is spoilt ---- */

/* Both look at all checksums. */
static bool verifies(const struct made *made, const struct opened *opened)
{
    struct fg_block_verified verified;
    struct fg_err err;
    bool good =
        fg_block_verify(fg_buf_slice(&made->file), NULL, 64 << 20, &verified, &err) == FG_OK;

    assert_int_equal(good, fg_rollup_verify(&opened->directory.parts[0], fg_buf_slice(&made->file),
                                            64 << 20, &err) == FG_OK);
    return good;
}

static void every_flipped_byte_is_detected(void **state)
{
    struct fg_block_range sections[FG_ROLLUP_FORMS + 1];
    struct opened opened;
    struct made made;
    struct fg_err err;

    (void)state;
    make(&made, 5, false, 1 << 20);
    write_block(&made);
    open_block(&made, &opened);
    sections[0] = opened.ranges.nod;
    sections[1] = opened.ranges.crn;
    sections[2] = opened.ranges.ftb;
    sections[3] = opened.ranges.ful;
    assert_true(verifies(&made, &opened));
    for (size_t section = 0; section < FG_COUNT(sections); section++)
        for (uint64_t i = 0; i < sections[section].len; i += section == 0 ? 3 : 29) {
            uint8_t *byte = made.file.ptr + sections[section].offset + i;

            *byte ^= (uint8_t)(1 + i % 255);
            assert_false(verifies(&made, &opened));
            *byte ^= (uint8_t)(1 + i % 255);
        }
    for (size_t len = 0; len < sections[0].len; len++) {
        struct fg_rollups nodes;

        assert_int_not_equal(fg_rollups_parse(opened.index.part,
                                              fg_slice_sub(range(&opened, sections[0]), 0, len),
                                              made.arena, &nodes, &err),
                             FG_OK);
    }
    made_done(&made);
}

/* Version 1 had fewer names; what comes after ours is not ours to read. */
static void older_versions_are_read_and_newer_ones_refused(void **state)
{
    static const struct {
        uint32_t version;
        enum fg_code want;
    } cases[] = {{0, FG_E_UNIMPLEMENTED}, {1, FG_OK}, {2, FG_OK}, {3, FG_E_UNIMPLEMENTED}};
    enum { VERSION_AT = 4, CRC_AT = 20 };
    struct opened opened;
    struct made made;
    uint8_t *head;

    (void)state;
    make(&made, 5, false, 1 << 20);
    write_block(&made);
    open_block(&made, &opened);
    assert_int_equal(opened.nodes.version, 2);
    head = made.file.ptr + opened.ranges.nod.offset;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_rollups nodes = {0};
        struct fg_err err;
        struct fg_buf bytes;

        fg_buf_init(&bytes, SIZE_MAX);
        fg_buf_le32(&bytes, cases[i].version);
        memcpy(head + VERSION_AT, bytes.ptr, sizeof(uint32_t));
        fg_buf_clear(&bytes);
        fg_buf_le32(&bytes, fg_crc32c(fg_bytes(head, CRC_AT)));
        memcpy(head + CRC_AT, bytes.ptr, sizeof(uint32_t));
        fg_buf_done(&bytes);
        assert_int_equal(fg_rollups_parse(opened.index.part, range(&opened, opened.ranges.nod),
                                          made.arena, &nodes, &err),
                         cases[i].want);
        if (cases[i].want == FG_OK)
            assert_int_equal(nodes.version, cases[i].version);
    }
    made_done(&made);
}

/* A service of one series has nothing to be grouped by; and a tree may have no names at all. */
static void the_smallest_rollup_is_read_back(void **state)
{
    const int64_t self[1] = {0};
    const uint64_t full[1] = {7};
    const struct fg_rollup_value value = {
        .self = self, .full = full, .count = 1, .replaces_bytes = 9999};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_rollup_key key = {.end_ns = 1};
    struct fg_groups groups;
    struct fg_tree tree;
    struct fg_rollup_options options = {
        .tree = &tree, .groups = &groups, .types = types, .n_types = 1, .n_ranks = 1};
    struct fg_rollup_sections sections;
    struct fg_rollup_writer *writer;
    struct fg_labels one = {NULL, 0};
    struct fg_rollups nodes;
    struct fg_err err;
    uint64_t back = 0;

    (void)state;
    assert_int_equal(fg_groups_choose(&one, 1, NULL, 0, arena, &groups, &err), FG_OK);
    fg_tree_init(&tree);
    assert_int_equal(fg_rollup_writer_create(&options, &writer, &err), FG_OK);
    assert_int_equal(fg_rollup_add(writer, &key, &value, 1, &err), FG_OK);
    assert_int_equal(fg_rollup_finish(writer, NULL, &sections, &err), FG_OK);
    assert_int_equal(
        fg_rollups_parse(&(const struct fg_block_part){0}, sections.nod, arena, &nodes, &err),
        FG_OK);
    assert_int_equal(nodes.groups.n_groups, 1);
    assert_int_equal(nodes.n_rows, 1);
    assert_int_equal(nodes.rows[0].total, 0);
    assert_int_equal(fg_rollup_full_add(&nodes.rows[0], sections.ful, 1, arena, &back, 1, &err),
                     FG_OK);
    assert_int_equal(back, 7);
    fg_rollup_writer_destroy(writer);
    fg_tree_done(&tree);
    fg_arena_destroy(arena);
}

static void invalid_rollups_are_refused(void **state)
{
    struct fg_tree tree;
    struct fg_groups groups = {.n_groups = 1, .n_series = 1};
    struct fg_rollup_options options = {
        .tree = &tree, .groups = &groups, .types = types, .n_types = TYPES};
    const int64_t self[1] = {0};
    const struct fg_rollup_value one = {
        .type = 0, .self = self, .count = 1, .replaces_bytes = 9999};
    const struct fg_rollup_value twice[] = {one, one};
    const struct fg_rollup_value wrong = {.type = TYPES};
    struct fg_rollup_key key = {.end_ns = 1};
    uint32_t series = 0;
    struct fg_rollup_sections sections;
    struct fg_rollup_writer *writer;
    struct fg_err err;

    (void)state;
    groups.of_series = &series;
    fg_tree_init(&tree);
    assert_int_equal(fg_rollup_writer_create(&options, &writer, &err), FG_OK);
    assert_int_equal(fg_rollup_add(writer, &key, twice, 2, &err), FG_E_INVALID);
    assert_int_equal(fg_rollup_add(writer, &key, &wrong, 1, &err), FG_E_INVALID);
    key.number = 1;
    assert_int_equal(fg_rollup_add(writer, &key, &one, 1, &err), FG_E_INVALID);
    key = (struct fg_rollup_key){0};
    assert_int_equal(fg_rollup_add(writer, &key, &one, 1, &err), FG_E_INVALID);
    key.end_ns = 1;
    assert_int_equal(fg_rollup_add(writer, &key, &one, 1, &err), FG_OK);
    assert_int_equal(fg_rollup_add(writer, &key, &one, 1, &err), FG_OK);
    assert_int_equal(fg_rollup_finish(writer, NULL, &sections, &err), FG_E_INVALID);
    fg_rollup_writer_destroy(writer);
    fg_tree_done(&tree);
}

/* Parts with rollups of other objects, next to each other. */
static void derived_parts_have_no_profiles(void **state)
{
    static const struct fg_slice services[] = {FG_LIT("a"), FG_LIT("b")};
    const struct fg_id derived_from[] = {{1, 1}, {2, 1}};
    const struct fg_block_derived sums = {
        .n_profiles = 80, .t_min_ns = 0, .t_max_ns = 180, .digest = {7, 7}};
    struct fg_block_verified verified;
    struct fg_block_summary summary;
    struct fg_block_writer *block;
    struct fg_rollups nodes[2];
    struct opened opened;
    struct made made;
    struct fg_err err;

    (void)state;
    make(&made, 5, false, 1 << 20);
    fg_buf_init(&made.file, 64 << 20);
    block = fg_block_writer_create(&(struct fg_block_sink){append, &made.file}, 4);
    assert_int_equal(fg_block_part_begin_derived(block, FG_LIT("acme"), FG_LIT("0"),
                                                 &(struct fg_block_derived){0}, &err),
                     FG_E_INVALID);
    for (size_t i = 0; i < FG_COUNT(services); i++) {
        struct fg_rollup_options options = {.tree = &made.tree,
                                            .groups = &made.groups,
                                            .types = types,
                                            .n_types = TYPES,
                                            .derived_from = derived_from,
                                            .n_derived_from = FG_COUNT(derived_from)};
        struct fg_rollup_writer *writer;

        assert_int_equal(
            fg_block_part_begin_derived(block, FG_LIT("acme"), services[i], &sums, &err), FG_OK);
        assert_int_equal(fg_rollup_writer_create(&options, &writer, &err), FG_OK);
        add_keys(&made, writer);
        assert_int_equal(fg_rollup_write(writer, block, &err), FG_OK);
        assert_int_equal(fg_block_part_end(block, &err), FG_OK);
        fg_rollup_writer_destroy(writer);
    }
    /* A part without rollups is left out; one with profiles is refused. */
    assert_int_equal(fg_block_part_begin_derived(block, FG_LIT("acme"), FG_LIT("c"), &sums, &err),
                     FG_OK);
    assert_int_equal(fg_block_part_end(block, &err), FG_OK);
    assert_int_equal(
        fg_block_part_begin(block, FG_LIT("acme"), FG_LIT("d"), &made.tree, made.uses, &err),
        FG_E_INVALID);
    assert_int_equal(fg_block_writer_finish(block, &summary, &err), FG_OK);
    fg_block_writer_destroy(block);
    assert_int_equal(summary.n_profiles, 160);
    assert_int_equal(summary.n_parts, 2);

    open_block(&made, &opened);
    assert_true(opened.directory.derived);
    assert_int_equal(opened.directory.rollup_offset, summary.rollup_offset);
    assert_int_equal(opened.directory.n_parts, 2);
    assert_int_equal(opened.directory.n_profiles, 160);
    assert_int_equal(opened.directory.parts[1].t_max_ns, 180);
    assert_int_equal(opened.index.n_series, 0);
    assert_int_equal(fg_block_verify(fg_buf_slice(&made.file), NULL, 64 << 20, &verified, &err),
                     FG_OK);
    for (uint32_t i = 0; i < 2; i++) {
        struct fg_rollup_ranges ranges = fg_rollup_ranges(&opened.directory.parts[i]);

        assert_true(ranges.nod.offset >= summary.rollup_offset);
        assert_true(ranges.nod.offset + ranges.nod.len <= summary.directory_offset);
        assert_int_equal(fg_rollups_parse(&opened.directory.parts[i], range(&opened, ranges.nod),
                                          made.arena, &nodes[i], &err),
                         FG_OK);
        assert_int_equal(nodes[i].n_derived_from, 2);
        assert_int_equal(nodes[i].n_rows, opened.nodes.n_rows);
        assert_int_equal(nodes[i].rows[0].places[FG_ROLLUP_FULL].bytes, 0);
        assert_int_equal(
            fg_rollup_verify(&opened.directory.parts[i], fg_buf_slice(&made.file), 64 << 20, &err),
            FG_OK);
    }
    made_done(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rollups_are_read_back),
        cmocka_unit_test(the_same_profiles_give_the_same_bytes),
        cmocka_unit_test(only_forms_worth_their_bytes_are_kept),
        cmocka_unit_test(every_flipped_byte_is_detected),
        cmocka_unit_test(older_versions_are_read_and_newer_ones_refused),
        cmocka_unit_test(the_smallest_rollup_is_read_back),
        cmocka_unit_test(invalid_rollups_are_refused),
        cmocka_unit_test(derived_parts_have_no_profiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
