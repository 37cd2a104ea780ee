/* Blocks: what was written is read back; the same profiles are the same bytes; damage is found. */
#include "common/storage/block/reader.h"
#include "common/storage/block/verify.h"
#include "tests/lib/block_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 256 * 1024 * 1024, SEEDS = 12 };

/* A part that was opened. */
struct opened {
    struct fg_slice file;
    struct fg_arena *arena;
    struct fg_block_directory directory;
    struct fg_block_index index;
    struct fg_block_tree tree;
    struct fg_block_samples *samples;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static struct fg_slice bytes_of(const struct opened *opened, struct fg_block_range range)
{
    return fg_slice_sub(opened->file, range.offset, range.len);
}

static struct fg_slice page_bytes(const struct opened *opened, uint32_t kind, uint32_t page)
{
    const struct fg_block_page *row = &opened->index.pages[kind].pages[page];

    return fg_slice_sub(opened->file, row->offset, row->bytes);
}

static void open_file(struct opened *opened, struct fg_slice file)
{
    struct fg_err err;
    uint64_t offset;

    *opened = (struct opened){.file = file,
                              .arena = fg_arena_create(ARENA_MAX_BYTES),
                              .samples = fg_block_samples_create(ARENA_MAX_BYTES)};
    must(fg_block_directory_offset(fg_slice_sub(file, file.len - FG_BLOCK_TRAILER_BYTES, SIZE_MAX),
                                   file.len, &offset, &err),
         &err);
    must(fg_block_directory_parse(fg_slice_sub(file, offset, SIZE_MAX), file.len, NULL,
                                  opened->arena, &opened->directory, &err),
         &err);
}

static void open_part(struct opened *opened, uint32_t number)
{
    const struct fg_block_part *part = &opened->directory.parts[number];
    struct fg_err err;

    must(fg_block_part_parse(part,
                             bytes_of(opened, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                             opened->arena, &opened->index, &err),
         &err);
    must(fg_block_tree_parse(&opened->index,
                             bytes_of(opened, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                             opened->arena, &opened->tree, &err),
         &err);
}

static void close_file(struct opened *opened)
{
    fg_block_samples_destroy(opened->samples);
    fg_arena_destroy(opened->arena);
}

static void write_block(const struct made_block *block, uint64_t shuffle, struct fg_buf *out)
{
    struct fg_block_summary summary;
    struct fg_err err;

    fg_buf_init(out, 1 << 26);
    must(made_block_write(block, shuffle, out, &summary, &err), &err);
    assert_int_equal(summary.file_bytes, out->len);
    assert_int_equal(summary.n_parts, block->n_parts);
}

/* ---- what was written is read back ---- */

/* Texts of a part's stacks: made once, for making them takes long. */
static struct fg_buf texts[MADE_STACKS];

static void make_texts(const struct made_part *part)
{
    for (size_t i = 0; i < MADE_STACKS; i++) {
        fg_buf_init(&texts[i], 1 << 16);
        made_stack_text(&part->stacks[i], &texts[i]);
    }
}

static void drop_texts(void)
{
    for (size_t i = 0; i < MADE_STACKS; i++)
        fg_buf_done(&texts[i]);
}

/* Values are not negative, and their sums saturate. */
static uint64_t add(uint64_t sum, uint64_t value)
{
    return value > INT64_MAX - sum ? INT64_MAX : sum + value;
}

/* Sum of the values of samples whose stack has this text. */
static uint64_t made_sum(const struct made_profile *profile, uint32_t type, struct fg_slice text)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < profile->n_samples; i++)
        if (fg_slice_eq(fg_buf_slice(&texts[profile->stacks[i]]), text))
            sum = add(sum, profile->values[type * profile->n_samples + i]);
    return sum;
}

static void check_samples(struct opened *opened, const struct made_series *series,
                          const struct made_profile *profile, uint32_t number,
                          const uint64_t *totals)
{
    struct fg_block_sample_set set;
    struct fg_err err;

    must(fg_block_samples_read(opened->samples, number, &set, &err), &err);
    assert_int_equal(set.n_types, series->series.n_types);
    for (uint32_t t = 0; t < set.n_types; t++) {
        uint64_t total = 0, want = 0;

        for (uint32_t i = 0; i < set.count; i++) {
            struct fg_buf text;

            fg_buf_init(&text, 1 << 16);
            tree_stack_text(&opened->tree.tree, opened->tree.nodes[set.ranks[i]], &text);
            assert_int_equal(set.values[t * set.count + i],
                             made_sum(profile, t, fg_buf_slice(&text)));
            fg_buf_done(&text);
            total = add(total, set.values[t * set.count + i]);
        }
        for (uint32_t i = 0; i < profile->n_samples; i++)
            want = add(want, profile->values[t * profile->n_samples + i]);
        assert_int_equal(total, want);
        assert_int_equal(totals[t], want);
    }
}

static void check_rows(struct opened *opened, const struct made_part *part)
{
    struct fg_usage usage = {0};
    uint32_t smp = 0;
    struct fg_err err;

    for (uint32_t i = 0; i < opened->index.pages[FG_BLOCK_IDX].count; i++) {
        struct fg_block_rows rows, totals;
        struct fg_profile_size *sizes;
        struct fg_id *ids;

        must(fg_block_rows_parse(&opened->index, i, page_bytes(opened, FG_BLOCK_IDX, i),
                                 opened->arena, &rows, &err),
             &err);
        must(fg_block_totals_parse(&opened->index, i, page_bytes(opened, FG_BLOCK_IDX, i),
                                   opened->arena, &totals, &err),
             &err);
        assert_int_equal(totals.first, rows.first);
        assert_int_equal(totals.count, rows.count);
        must(fg_block_ids_parse(&opened->index, i, page_bytes(opened, FG_BLOCK_PID, i),
                                opened->arena, &ids, &err),
             &err);
        sizes = fg_arena_new(opened->arena, struct fg_profile_size, rows.count);
        if (opened->index.pages[FG_BLOCK_USE].count > 0) /* else all are unknown */
            must(fg_block_sizes_parse(&opened->index, i, page_bytes(opened, FG_BLOCK_USE, i),
                                      opened->arena, &sizes, &err),
                 &err);
        for (uint32_t k = 0; k < rows.count; k++) {
            const struct made_series *series;
            const struct made_profile *profile = made_profile_at(part, rows.first + k, &series);
            const struct fg_block_pages *pages = &opened->index.pages[FG_BLOCK_SMP];

            assert_true(fg_id_eq(ids[k], profile->id));
            assert_int_equal(rows.series[k], series - part->series);
            assert_int_equal(totals.series[k], rows.series[k]);
            assert_int_equal(rows.times_ns[k], profile->time_ns);
            assert_int_equal(totals.times_ns[k], profile->time_ns);
            for (uint32_t t = 0; t < opened->index.series[rows.series[k]].schema->n_types; t++)
                assert_true(totals.totals[k][t] == rows.totals[k][t]);
            assert_int_equal(rows.durations_ns[k], profile->duration_ns);
            assert_int_equal(rows.periods[k], profile->period);
            assert_int_equal(rows.shards[k], profile->shard);
            assert_int_equal(rows.windows[k], profile->window);
            assert_int_equal(sizes[k].known, profile->size.known);
            assert_int_equal(sizes[k].wire_bytes, profile->size.wire_bytes);
            assert_int_equal(sizes[k].raw_bytes, profile->size.raw_bytes);
            fg_usage_count(&usage, sizes[k], rows.n_samples[k]);
            if (rows.first + k == (smp < pages->count ? pages->pages[smp].first : 0)) {
                must(fg_block_samples_open(opened->samples, &opened->index, smp,
                                           page_bytes(opened, FG_BLOCK_SMP, smp), &err),
                     &err);
                smp++;
            }
            check_samples(opened, series, profile, rows.first + k, rows.totals[k]);
        }
    }
    assert_true(fg_usage_eq(&usage, &opened->index.part->usage));
}

static void check_series(const struct opened *opened, const struct made_part *part)
{
    assert_int_equal(opened->index.n_series, part->n_series);
    for (uint32_t s = 0; s < part->n_series; s++) {
        const struct fg_block_series *want = &part->series[s].series;
        const struct fg_block_series_row *row = &opened->index.series[s];
        struct fg_block_series got = {row->labels, row->schema->types, row->schema->n_types,
                                      row->schema->period_type};

        assert_int_equal(fg_block_series_cmp(&got, want), 0);
        assert_int_equal(row->n_profiles, part->series[s].n_profiles);
    }
}

/* Every link is found; there are as many. */
static void check_links(struct opened *opened, const struct made_part *part)
{
    uint32_t got = 0, want = 0;
    struct fg_err err;

    for (uint32_t i = 0; i < opened->index.pages[FG_BLOCK_EXM].count; i++) {
        struct fg_block_exemplars page;

        must(fg_block_exemplars_parse(&opened->index, i, page_bytes(opened, FG_BLOCK_EXM, i),
                                      opened->arena, &page, &err),
             &err);
        for (uint32_t k = 0; k < page.count; k++) {
            const struct fg_block_exemplar *item = &page.items[k];
            const struct made_series *series;
            const struct made_profile *profile = made_profile_at(part, item->profile, &series);
            bool found = false;

            for (uint32_t n = 0; n < profile->n_links; n++) {
                const struct fg_block_link *link = &profile->links[n];
                struct fg_buf its;

                fg_buf_init(&its, 1 << 16);
                tree_stack_text(&opened->tree.tree, opened->tree.nodes[item->rank], &its);
                found =
                    found || (fg_slice_eq(fg_buf_slice(&texts[link->stack]), fg_buf_slice(&its)) &&
                              link->span_id == item->span_id &&
                              memcmp(link->trace_id, item->trace_id, FG_ID_BYTES) == 0 &&
                              profile->link_values[n] == item->values[0]);
                fg_buf_done(&its);
            }
            assert_true(found);
        }
        got += page.count;
    }
    for (uint32_t s = 0; s < part->n_series; s++)
        for (uint32_t p = 0; p < part->series[s].n_profiles; p++)
            want += part->series[s].profiles[p].n_links;
    assert_int_equal(got, want);
}

static void blocks_are_read_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct made_block *block = made_block_create(seed, false);
        struct opened opened;
        struct fg_buf file;

        print_message("  seed %u\n", (unsigned)seed);
        write_block(block, 0, &file);
        open_file(&opened, fg_buf_slice(&file));
        assert_int_equal(opened.directory.level, 1);
        assert_int_equal(opened.directory.n_parts, block->n_parts);
        for (uint32_t i = 0; i < block->n_parts; i++) {
            open_part(&opened, i);
            make_texts(&block->parts[i]);
            check_series(&opened, &block->parts[i]);
            check_rows(&opened, &block->parts[i]);
            check_links(&opened, &block->parts[i]);
            drop_texts();
        }
        close_file(&opened);
        fg_buf_done(&file);
        free(block);
    }
}

static void same_profiles_are_the_same_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct made_block *block = made_block_create(seed, false);
        struct fg_buf first, second;

        print_message("  seed %u\n", (unsigned)seed);
        write_block(block, 0, &first);
        for (uint64_t shuffle = 1; shuffle <= 5; shuffle++) {
            write_block(block, shuffle, &second);
            assert_int_equal(first.len, second.len);
            assert_memory_equal(first.ptr, second.ptr, first.len);
            fg_buf_done(&second);
        }
        fg_buf_done(&first);
        free(block);
    }
}

/* ---- sums ---- */

/* Sums over any range of profiles are those of its profiles read one by one, in any order. */
static void check_sum(struct opened *opened, uint32_t page, uint32_t first, uint32_t count,
                      uint32_t type)
{
    const struct fg_block_page *row = &opened->index.pages[FG_BLOCK_SMP].pages[page];
    uint32_t n = opened->tree.n_stacks;
    uint64_t *sums = fg_calloc(FG_MAX(n, 1), sizeof *sums);
    uint64_t *want = fg_calloc(FG_MAX(n, 1), sizeof *want);
    struct fg_err err;

    must(fg_block_samples_sum(opened->samples, first, count, type, sums, &err), &err);
    for (uint32_t i = row->items; i-- > 0;) {
        struct fg_block_sample_set set;
        uint32_t profile = row->first + i;

        if (profile < first || profile >= first + count)
            continue;
        must(fg_block_samples_read(opened->samples, profile, &set, &err), &err);
        for (uint32_t k = 0; type < set.n_types && k < set.count; k++)
            want[set.ranks[k]] = add(want[set.ranks[k]], set.values[type * set.count + k]);
    }
    assert_memory_equal(sums, want, n * sizeof *sums);
    free(sums);
    free(want);
}

static void sums_of_samples_are_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct made_block *block = made_block_create(seed, false);
        uint64_t random = seed;
        struct opened opened;
        struct fg_buf file;
        struct fg_err err;

        write_block(block, 0, &file);
        open_file(&opened, fg_buf_slice(&file));
        open_part(&opened, 0);
        for (uint32_t i = 0; i < opened.index.pages[FG_BLOCK_SMP].count; i++) {
            const struct fg_block_page *page = &opened.index.pages[FG_BLOCK_SMP].pages[i];

            must(fg_block_samples_open(opened.samples, &opened.index, i,
                                       page_bytes(&opened, FG_BLOCK_SMP, i), &err),
                 &err);
            for (uint32_t n = 0; n < 10; n++) {
                random = fg_mix64(random + 1);
                check_sum(&opened, i, page->first + (uint32_t)(random % page->items),
                          1 + (uint32_t)(random >> 40) % page->items, (uint32_t)(random >> 20) % 5);
            }
        }
        close_file(&opened);
        fg_buf_done(&file);
        free(block);
    }
}

static void sums_give_the_values_of_the_tree(void **state)
{
    struct made_block *block = made_block_create(3, false);
    struct opened opened;
    struct fg_tree view, used;
    struct fg_buf file;
    struct fg_err err;
    uint64_t *sums, want = 0;
    int64_t *totals, got;

    (void)state;
    write_block(block, 0, &file);
    open_file(&opened, fg_buf_slice(&file));
    open_part(&opened, 0);
    sums = fg_arena_new(opened.arena, uint64_t, opened.tree.n_stacks);
    for (uint32_t i = 0; i < opened.tree.n_stacks; i++)
        want += sums[i] = i + 1;
    must(fg_block_tree_values(&opened.tree, sums, opened.arena, &view, &err), &err);
    totals = fg_arena_new(opened.arena, int64_t, view.n_nodes);
    got = fg_tree_totals(&view, totals);
    assert_int_equal(got + view.root_self, want);
    memset(view.self, 0, view.n_nodes * sizeof *view.self);
    view.self[view.n_nodes - 1] = 5;
    fg_tree_init(&used);
    fg_tree_merge_used(&used, &view);
    assert_in_range(used.n_nodes, 1, MADE_DEPTH_MAX);
    assert_int_equal(used.self[used.n_nodes - 1], 5);
    fg_tree_done(&used);
    close_file(&opened);
    fg_buf_done(&file);
    free(block);
}

/* ---- which pages, which series ---- */

static void only_pages_of_the_time_are_marked(void **state)
{
    struct fg_block_page rows[5];
    struct fg_block_pages pages = {rows, 5};
    bool marks[5] = {false};

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        rows[i] = (struct fg_block_page){
            .first = 20 * i, .items = 20, .t_min_ns = 1000 * i, .t_max_ns = 1000 * i + 900};
    fg_block_pages_mark(&pages, 25, 60, 1950, 3000, marks);
    assert_false(marks[0] || marks[1] || marks[4]);
    assert_true(marks[2] && marks[3]);
}

static const char *const selectors[] = {
    "{}",
    "{pod=\"pod-1\"}",
    "{pod!=\"pod-1\"}",
    "{region=\"\"}",
    "{region=~\"eu|\"}",
    "{region!~\"eu|\",pod=~\"pod-.\"}",
    "{__profile_type__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\"}",
    "memory{__type__=~\"inuse.*\",region=\"us\"}",
    "{nothing=\"here\"}",
    "{nothing!=\"here\",__service_name__=\"s0\"}",
    "{__period_type__=\"\"}",
};

/* The slow way: every series and type, with all its labels. */
static uint32_t count_matches(const struct opened *opened, const struct fg_selector *selector,
                              const struct fg_block_match *got)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < opened->index.n_series; s++)
        for (uint32_t t = 0; t < opened->index.series[s].schema->n_types; t++) {
            const struct fg_block_series_row *row = &opened->index.series[s];
            struct fg_profile_type type = fg_block_profile_type(row, t);
            struct fg_labels labels = fg_labels_with_type(&row->labels, &type, opened->arena);

            if ((row->seen >> t & 1) == 0 || !fg_selector_matches(selector, &labels))
                continue;
            assert_int_equal(got[n].series, s);
            assert_int_equal(got[n].type, t);
            n++;
        }
    return n;
}

static void selection_equals_the_slow_one(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct made_block *block = made_block_create(seed, false);
        struct opened opened;
        struct fg_buf file;

        write_block(block, 0, &file);
        open_file(&opened, fg_buf_slice(&file));
        open_part(&opened, 0);
        for (size_t i = 0; i < FG_COUNT(selectors); i++) {
            struct fg_selector selector = {0};
            struct fg_block_match *matches;
            struct fg_err err;
            uint32_t count;

            must(fg_selector_parse(fg_cstr(selectors[i]), opened.arena, &selector, &err), &err);
            must(fg_block_select(&opened.index, &selector, opened.arena, &matches, &count, &err),
                 &err);
            assert_int_equal(count_matches(&opened, &selector, matches), count);
            fg_selector_done(&selector);
        }
        close_file(&opened);
        fg_buf_done(&file);
        free(block);
    }
}

static enum fg_code unwanted(void *arg, struct fg_err *err)
{
    ++*(unsigned *)arg;
    return fg_fail(err, FG_E_DEADLINE, "nobody waits any more");
}

/* Values of a label: enough of them that somebody is asked. */
static void a_selection_ends_when_nobody_waits_for_it(void **state)
{
    enum { VALUES = 2 * FG_SELECTOR_ASK_EVERY };
    struct fg_label_posting postings[VALUES];
    const struct fg_block_index index = {.postings = postings, .n_postings = VALUES};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_selector selector = {0};
    struct fg_block_match *matches;
    unsigned asked = 0;
    struct fg_err err;
    uint32_t count;

    (void)state;
    for (unsigned i = 0; i < VALUES; i++) {
        char *value = fg_arena_printf(arena, "%04u", i);

        assert_non_null(value);
        postings[i] = (struct fg_label_posting){.name = FG_LIT("pod"), .value = fg_cstr(value)};
    }
    must(fg_selector_parse(FG_LIT("{pod=~\"0.*\"}"), arena, &selector, &err), &err);
    must(fg_block_select(&index, &selector, arena, &matches, &count, &err), &err);
    selector.wanted = unwanted;
    selector.wanted_arg = &asked;
    assert_int_equal(fg_block_select(&index, &selector, arena, &matches, &count, &err),
                     FG_E_DEADLINE);
    assert_int_equal(asked, 1);
    fg_selector_done(&selector);
    fg_arena_destroy(arena);
}

static void parts_are_found_by_name(void **state)
{
    struct made_block *block;
    struct opened opened;
    struct fg_buf file;
    uint64_t seed = 1;

    (void)state;
    for (block = made_block_create(seed, false); block->n_parts < 4;) {
        free(block);
        block = made_block_create(++seed, false);
    }
    write_block(block, 0, &file);
    open_file(&opened, fg_buf_slice(&file));
    assert_int_equal(fg_block_part_find(&opened.directory, FG_LIT(""), FG_LIT("")), 0);
    assert_int_equal(fg_block_part_find(&opened.directory, FG_LIT("t0"), FG_LIT("s1")), 1);
    assert_int_equal(fg_block_part_find(&opened.directory, FG_LIT("t1"), FG_LIT("")), 2);
    assert_int_equal(fg_block_part_find(&opened.directory, FG_LIT("t1"), FG_LIT("s1")), 3);
    assert_int_equal(fg_block_part_find(&opened.directory, FG_LIT("u"), FG_LIT("")), 4);
    close_file(&opened);
    fg_buf_done(&file);
    free(block);
}

/* ---- verification and damage ---- */

static enum fg_code verify(struct fg_slice file, struct fg_err *err)
{
    struct fg_block_verified verified;

    return fg_block_verify(file, NULL, ARENA_MAX_BYTES, &verified, err);
}

static void good_blocks_verify(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        struct made_block *block = made_block_create(seed, seed % 2 == 0);
        struct fg_block_verified verified;
        struct fg_buf file;
        struct fg_err err;
        uint64_t profiles = 0;

        write_block(block, seed, &file);
        must(fg_block_verify(fg_buf_slice(&file), NULL, ARENA_MAX_BYTES, &verified, &err), &err);
        for (uint32_t i = 0; i < block->n_parts; i++)
            for (uint32_t s = 0; s < block->parts[i].n_series; s++)
                profiles += block->parts[i].series[s].n_profiles;
        assert_int_equal(verified.n_profiles, profiles);
        assert_int_equal(verified.n_parts, block->n_parts);
        fg_buf_done(&file);
        free(block);
    }
}

/* Every byte counts: whichever is changed, and in whatever way, it is found. */
static void every_changed_byte_is_detected(void **state)
{
    static const uint8_t flips[] = {0x01, 0x80};

    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct made_block *block = made_block_create(seed, true);
        struct fg_buf file;
        struct fg_err err;

        write_block(block, 0, &file);
        for (size_t i = 0; i < file.len; i++)
            for (size_t k = 0; k < FG_COUNT(flips); k++) {
                file.ptr[i] ^= flips[k];
                if (verify(fg_buf_slice(&file), &err) == FG_OK)
                    fail_msg("byte %zu of %zu", i, file.len);
                file.ptr[i] ^= flips[k];
            }
        must(verify(fg_buf_slice(&file), &err), &err);
        fg_buf_done(&file);
        free(block);
    }
}

static void every_truncation_is_detected(void **state)
{
    struct made_block *block = made_block_create(2, true);
    struct fg_buf file;
    struct fg_err err;

    (void)state;
    write_block(block, 0, &file);
    for (size_t len = 0; len < file.len; len++) {
        assert_int_not_equal(verify(fg_slice_sub(fg_buf_slice(&file), 0, len), &err), FG_OK);
        assert_int_not_equal(verify(fg_slice_sub(fg_buf_slice(&file), len + 1, SIZE_MAX), &err),
                             FG_OK);
    }
    fg_buf_putc(&file, 0);
    assert_int_not_equal(verify(fg_buf_slice(&file), &err), FG_OK);
    fg_buf_done(&file);
    free(block);
}

static void too_little_memory_is_an_error(void **state)
{
    struct made_block *block = made_block_create(1, false);
    size_t limit = 64;
    struct fg_buf file;

    (void)state;
    write_block(block, 0, &file);
    for (;; limit += limit / 8) {
        struct fg_block_verified verified;
        struct fg_err err;

        if (fg_block_verify(fg_buf_slice(&file), NULL, limit, &verified, &err) == FG_OK)
            break;
        if (err.code != FG_E_LIMIT)
            fail_msg("%zu: %s", limit, err.msg);
    }
    assert_in_range(limit, 10000, 10000000);
    fg_buf_done(&file);
    free(block);
}

static void empty_blocks_are_valid(void **state)
{
    struct made_block *block = fg_new(struct made_block);
    struct fg_buf file;
    struct fg_err err;

    (void)state;
    write_block(block, 0, &file);
    must(verify(fg_buf_slice(&file), &err), &err);
    fg_buf_done(&file);
    free(block);
}

/* ---- what a writer refuses ---- */

static void a_full_sink_is_an_error(void **state)
{
    struct made_block *block = made_block_create(1, true);
    struct fg_buf file;
    size_t len;

    (void)state;
    write_block(block, 0, &file);
    len = file.len;
    fg_buf_done(&file);
    for (size_t max = 0; max < len; max += 7) {
        struct fg_block_summary summary;
        struct fg_err err;

        fg_buf_init(&file, max);
        assert_int_equal(made_block_write(block, 0, &file, &summary, &err), FG_E_LIMIT);
        fg_buf_done(&file);
    }
    free(block);
}

static void assert_refused(const struct made_block *block, const char *why)
{
    struct fg_block_summary summary;
    struct fg_buf file;
    struct fg_err err;

    fg_buf_init(&file, 1 << 26);
    assert_int_equal(made_block_write(block, 0, &file, &summary, &err), FG_E_INVALID);
    if (strstr(err.msg, why) == NULL)
        fail_msg("%s: %s", why, err.msg);
    fg_buf_done(&file);
}

static void wrong_order_is_refused(void **state)
{
    uint64_t seed = 1;
    struct made_block *block = made_block_create(seed, false);
    struct made_series *series, swap;

    (void)state;
    while (block->n_parts < 3 || block->parts[0].n_series < 3 ||
           block->parts[0].series[0].n_profiles < 3 || block->parts[0].stripe_ns != 0) {
        free(block);
        block = made_block_create(++seed, false);
    }
    series = block->parts[0].series;
    series[0].profiles[2].time_ns = 5;
    assert_refused(block, "a profile is out of order");
    series[0].profiles[2] = series[0].profiles[1];
    assert_refused(block, "a profile is out of order");
    series[0].n_profiles = 1;
    swap = series[0];
    series[0] = series[1];
    series[1] = swap;
    for (int i = 0; i < 2; i++) { /* what points into its own struct */
        series[i].series.labels.items = series[i].labels;
        series[i].labels[1].value = fg_cstr(series[i].pod);
    }
    assert_refused(block, "a series is out of order");
    block->parts[0].n_series = 1;
    series[0].labels[1].name = FG_LIT("zz");
    assert_refused(block, "not sorted");
    block->parts[0].n_series = 0;
    (void)snprintf(block->parts[2].tenant, sizeof block->parts[2].tenant, "t0");
    (void)snprintf(block->parts[2].service, sizeof block->parts[2].service, "s1");
    assert_refused(block, "part t0/s1 is out of order");
    free(block);
}

static enum fg_code forget(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)arg;
    (void)bytes;
    (void)err;
    return FG_OK;
}

static void wrong_uses_are_refused(void **state)
{
    static const struct fg_value_type type = {FG_LIT("a"), FG_LIT("b")};
    const struct fg_block_sink sink = {forget, NULL};
    const uint32_t stack = 1, none = 7;
    const uint64_t value = 3;
    struct fg_block_profile profile = {
        .n_samples = 1, .stacks = &stack, .values = &value, .time_ns = 1};
    struct fg_block_series series = {.types = &type, .n_types = 1};
    uint32_t uses[2] = {0, 2};
    struct fg_block_writer *writer;
    struct fg_tree tree;
    struct fg_err err;

    (void)state;
    fg_tree_init(&tree);
    (void)fg_tree_child(&tree, FG_TREE_ROOT, fg_symbols_name_location(&tree.symbols, FG_LIT("f")));
    for (int c = 0; c < 4; c++) {
        writer = fg_block_writer_create(&sink, 0);
        must(fg_block_part_begin(writer, FG_LIT("t"), FG_LIT("s"), &tree, uses, &err), &err);
        must(fg_block_series_begin(writer, &series, &err), &err);
        profile.stacks = c == 1 ? &none : &stack;
        if (c == 1) {
            assert_int_equal(fg_block_profile_add(writer, &profile, &err), FG_E_INVALID);
        } else {
            must(fg_block_profile_add(writer, &profile, &err), &err);
            profile.time_ns++;
        }
        if (c == 0)
            assert_int_equal(fg_block_part_end(writer, &err), FG_E_INVALID);
        if (c >= 2)
            must(fg_block_profile_add(writer, &profile, &err), &err);
        profile.time_ns++;
        if (c == 2)
            assert_int_equal(fg_block_profile_add(writer, &profile, &err), FG_E_INVALID);
        if (c == 3)
            must(fg_block_part_end(writer, &err), &err);
        fg_block_writer_destroy(writer);
    }
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_read_back),
        cmocka_unit_test(same_profiles_are_the_same_bytes),
        cmocka_unit_test(sums_of_samples_are_exact),
        cmocka_unit_test(sums_give_the_values_of_the_tree),
        cmocka_unit_test(only_pages_of_the_time_are_marked),
        cmocka_unit_test(selection_equals_the_slow_one),
        cmocka_unit_test(a_selection_ends_when_nobody_waits_for_it),
        cmocka_unit_test(parts_are_found_by_name),
        cmocka_unit_test(good_blocks_verify),
        cmocka_unit_test(every_changed_byte_is_detected),
        cmocka_unit_test(every_truncation_is_detected),
        cmocka_unit_test(too_little_memory_is_an_error),
        cmocka_unit_test(empty_blocks_are_valid),
        cmocka_unit_test(a_full_sink_is_an_error),
        cmocka_unit_test(wrong_order_is_refused),
        cmocka_unit_test(wrong_uses_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
