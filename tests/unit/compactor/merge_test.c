/*
 * Merging, against made-up profiles that are kept as paths of names: what comes out is what went
 * in, each profile once; the bytes do not depend on how it was divided.
 */
#include "common/base/time.h"
#include "common/storage/block/verify.h"
#include "common/storage/rollup/verify.h"
#include "compactor/merge/merge.h"
#include "compactor/merge/merge_parent.h"
#include "tests/lib/made.h"
#include "tests/lib/seeds.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PROFILES = 3000, SOURCES_MAX = 6, MEMORY = 64 * 1024 * 1024 };

#define HOUR  FG_HOUR_NS
#define START (INT64_C(480000) * HOUR)

static const uint32_t acme = 0;

struct fixture {
    struct made_profile profiles[PROFILES];
    struct fg_buf objects[SOURCES_MAX];
    struct cmp_merge_source sources[SOURCES_MAX];
    char names[SOURCES_MAX][32];
    struct fg_arena *arena;
    struct cmp_merge merge;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static struct cmp_merge_source source_of(struct fixture *f, struct fg_slice object,
                                         const char *name)
{
    struct fg_block_directory *directory = fg_arena_new(f->arena, struct fg_block_directory, 1);
    uint32_t first, last;
    struct fg_err err;
    uint64_t offset;

    must(fg_block_directory_offset(object, object.len, &offset, &err), &err);
    must(fg_block_directory_parse(fg_slice_sub(object, (size_t)offset, SIZE_MAX), object.len, NULL,
                                  f->arena, directory, &err),
         &err);
    first = last = fg_block_part_find(directory, FG_LIT("acme"), FG_LIT(""));
    while (last < directory->n_parts && fg_slice_is(directory->parts[last].tenant, "acme"))
        last++;
    return (struct cmp_merge_source){
        .name = name, .parts = directory->parts + first, .n_parts = last - first, .bytes = object};
}

/* Divides the profiles among n objects; `how` draws how. */
static void divide(struct fixture *f, uint32_t n, uint64_t how)
{
    struct made_profile *some = fg_calloc(PROFILES, sizeof *some);

    for (uint32_t s = 0; s < n; s++) {
        size_t count = 0;

        for (size_t i = 0; i < PROFILES; i++)
            if (fg_mix64(how + i) % n == s)
                some[count++] = f->profiles[i];
        fg_buf_init(&f->objects[s], SIZE_MAX);
        (void)made_write(some, count, 0, how + s, &f->objects[s]);
        (void)snprintf(f->names[s], sizeof f->names[s], "object %u", s);
        f->sources[s] = source_of(f, fg_buf_slice(&f->objects[s]), f->names[s]);
    }
    free(some);
    f->merge.n_sources = n;
}

static void open_fixture(struct fixture *f, uint64_t seed, uint32_t n)
{
    *f = (struct fixture){.arena = fg_arena_create(SIZE_MAX / 2)};
    for (size_t i = 0; i < PROFILES; i++) {
        int64_t time_ns = START + (int64_t)(fg_mix64(seed * 7 + i) % (uint64_t)(3 * HOUR));

        f->profiles[i] = made_draw(seed, i, time_ns);
    }
    f->merge = (struct cmp_merge){.tenant = FG_LIT("acme"),
                                  .sources = f->sources,
                                  .memory_max_bytes = MEMORY,
                                  .named_stacks = (uint32_t)(seed % 2)};
    divide(f, n, seed);
}

static void close_fixture(struct fixture *f)
{
    for (uint32_t i = 0; i < SOURCES_MAX; i++)
        fg_buf_done(&f->objects[i]);
    fg_arena_destroy(f->arena);
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

static enum fg_code try_write(struct fixture *f, const struct cmp_merge_span *span,
                              struct fg_buf *out, struct fg_err *err)
{
    const struct fg_block_sink sink = {append, out};
    struct cmp_merge_written written;

    fg_buf_init(out, SIZE_MAX);
    return cmp_merge_write(&f->merge, span, 1, &sink, &written, err);
}

static struct cmp_merge_tally write_span(struct fixture *f, const struct cmp_merge_span *span,
                                         struct fg_buf *out)
{
    struct cmp_merge_tally tally;
    struct fg_err err;

    must(try_write(f, span, out, &err), &err);
    must(cmp_merge_read_back(fg_buf_slice(out), NULL, "out", MEMORY, &tally, &err), &err);
    return tally;
}

static void by_hour(const void *arg, int64_t time_ns, int64_t *ret_start_ns, int64_t *ret_end_ns)
{
    (void)arg;
    *ret_start_ns = time_ns / HOUR * HOUR;
    *ret_end_ns = *ret_start_ns + HOUR;
}

static struct cmp_merge_survey survey(struct fixture *f)
{
    const struct cmp_merge_survey_options options = {
        .span_of = by_hour, .bins_max = 16, .keep_from_ns = INT64_MIN};
    struct cmp_merge_survey result;
    struct fg_err err;

    must(cmp_merge_survey(&f->merge, &options, f->arena, &result, &err), &err);
    return result;
}

static void a_merge_keeps_every_profile(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(4); seed++) {
        struct made_found found = {0};
        struct cmp_merge_tally tally;
        struct cmp_merge_survey seen;
        struct fixture f;
        struct fg_buf out;
        struct fg_err err;

        open_fixture(&f, seed, 1 + (uint32_t)(seed % SOURCES_MAX));
        seen = survey(&f);
        tally = write_span(&f, &MERGE_SPAN_ALL, &out);
        must(cmp_merge_tally_check(&seen.kept, &tally, &err), &err);
        made_read(fg_buf_slice(&out), NULL, "acme", &found);
        made_expect(&found, f.profiles, PROFILES, acme);
        made_found_done(&found);
        fg_buf_done(&out);
        close_fixture(&f);
    }
}

static void the_same_profiles_give_the_same_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(3); seed++) {
        struct fixture f;
        struct fg_buf first, again;

        open_fixture(&f, seed, 3);
        (void)write_span(&f, &MERGE_SPAN_ALL, &first);
        for (uint32_t n = 1; n <= SOURCES_MAX; n++) {
            for (uint32_t i = 0; i < SOURCES_MAX; i++)
                fg_buf_done(&f.objects[i]);
            divide(&f, n, seed * 100 + n);
            (void)write_span(&f, &MERGE_SPAN_ALL, &again);
            assert_true(fg_slice_eq(fg_buf_slice(&first), fg_buf_slice(&again)));
            fg_buf_done(&again);
        }
        fg_buf_done(&first);
        close_fixture(&f);
    }
}

/* ---- stripes ---- */

static uint64_t most_samples(struct fixture *f, const struct fg_buf *file)
{
    struct cmp_merge_source source = source_of(f, fg_buf_slice(file), "out");
    uint64_t most = 0;

    for (uint32_t i = 0; i < source.n_parts; i++)
        most = FG_MAX(most, source.parts[i].n_samples);
    return most;
}

/* Of the part with the most of them. */
static uint32_t count_stripes(struct fixture *f, const struct fg_buf *file)
{
    struct cmp_merge_source source = source_of(f, fg_buf_slice(file), "out");
    struct cmp_merge_part part;
    uint32_t most = 0;
    struct fg_err err;

    for (uint32_t i = 0; i < source.n_parts; i++) {
        uint32_t stripes = 1;

        must(cmp_merge_part_open(&source, i, f->arena, &part, &err), &err);
        for (uint32_t r = 1; r < part.index.n_chunks; r++)
            stripes += part.index.chunks[r].series <= part.index.chunks[r - 1].series;
        most = FG_MAX(most, stripes);
    }
    return most;
}

/* Merges what was written, alone, to stripes of another length. */
static void write_again(struct fixture *f, const struct fg_buf *file, uint32_t stripe_samples,
                        const struct cmp_merge_span *span, struct fg_buf *out)
{
    struct cmp_merge merge = f->merge;
    struct cmp_merge_source source = source_of(f, fg_buf_slice(file), "file");

    f->merge.sources = &source;
    f->merge.n_sources = 1;
    f->merge.stripe_samples = stripe_samples;
    (void)write_span(f, span, out);
    f->merge = merge;
}

/* Whatever stripes sources have: of the same profiles and length come the same bytes. */
static void time_stripes_have_the_chosen_length(void **state)
{
    const struct cmp_merge_span span = {START, START + 3 * HOUR, 0, UINT16_MAX, 0};
    enum { ONE, SHORT, HOURS, LENGTHS };
    uint32_t samples[LENGTHS] = {0, 1, 0};

    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(2); seed++) {
        struct fg_buf files[LENGTHS], again;
        struct fixture f;

        open_fixture(&f, seed, 3);
        for (uint32_t i = 0; i < LENGTHS; i++) {
            if (i == HOURS)
                samples[HOURS] = (uint32_t)most_samples(&f, &files[SHORT]) / 4;
            f.merge.stripe_samples = samples[i];
            (void)write_span(&f, &span, &files[i]);
        }
        assert_int_equal(count_stripes(&f, &files[ONE]), 1);
        assert_int_equal(count_stripes(&f, &files[HOURS]), 3);
        assert_int_equal(count_stripes(&f, &files[SHORT]), 18);
        for (uint32_t from = 0; from < LENGTHS; from++)
            for (uint32_t to = 0; to < LENGTHS; to++) {
                write_again(&f, &files[from], samples[to], &span, &again);
                assert_true(fg_slice_eq(fg_buf_slice(&files[to]), fg_buf_slice(&again)));
                fg_buf_done(&again);
            }
        for (uint32_t i = 0; i < LENGTHS; i++) {
            struct made_found found = {0};

            made_read(fg_buf_slice(&files[i]), NULL, "acme", &found);
            made_expect(&found, f.profiles, PROFILES, acme);
            made_found_done(&found);
            fg_buf_done(&files[i]);
        }
        close_fixture(&f);
    }
}

/* Blocks of hours and halves of the shards: together they are all, and merged again the same. */
static void a_merge_divides_by_shards_and_spans(void **state)
{
    struct cmp_merge_tally sum = {0};
    struct made_found found = {0};
    struct cmp_merge_survey seen;
    struct fixture f;
    struct fg_err err;
    uint32_t n = 0;
    struct fg_buf outs[6];

    (void)state;
    open_fixture(&f, 5, 4);
    seen = survey(&f);
    assert_int_equal(seen.n_bins, 3);
    for (uint32_t b = 0; b < seen.n_bins; b++)
        for (uint32_t half = 0; half < 2; half++) {
            struct cmp_merge_span span = {seen.bins[b].start_ns, seen.bins[b].end_ns,
                                          half == 0 ? 0 : 0x8000, half == 0 ? 0x7fff : UINT16_MAX,
                                          0};
            struct cmp_merge_tally tally = write_span(&f, &span, &outs[n]);

            cmp_merge_tally_add(&sum, &tally);
            made_read(fg_buf_slice(&outs[n++]), NULL, "acme", &found);
        }
    must(cmp_merge_tally_check(&seen.kept, &sum, &err), &err);
    made_expect(&found, f.profiles, PROFILES, acme);
    sum.totals[1]++;
    assert_int_equal(cmp_merge_tally_check(&seen.kept, &sum, &err), FG_E_INTERNAL);
    for (uint32_t i = 0; i < n; i++)
        fg_buf_done(&outs[i]);
    made_found_done(&found);
    close_fixture(&f);
}

static void a_merge_leaves_deleted_profiles_out(void **state)
{
    struct fg_deletion deletions[2] = {
        {.start_ns = START + HOUR, .end_ns = START + 2 * HOUR - 1},
        {.start_ns = INT64_MIN, .end_ns = INT64_MAX},
    };
    static const char *const selectors[] = {"{service_name=\"shop\"}", "{pod=~\"pod-[0x]\"}"};
    struct made_found found = {0};
    struct made_profile left[PROFILES];
    struct cmp_merge_tally tally;
    struct cmp_merge_survey seen;
    struct fixture f;
    struct fg_buf out;
    struct fg_err err;
    size_t n = 0, expected = 0;

    (void)state;
    open_fixture(&f, 9, 3);
    for (size_t i = 0; i < 2; i++)
        must(fg_selector_parse(fg_cstr(selectors[i]), f.arena, &deletions[i].selector, &err), &err);
    f.merge.deletions = (struct fg_deletions){.items = deletions, .count = 2};
    for (size_t i = 0; i < PROFILES; i++) {
        const struct made_profile *p = &f.profiles[i];

        expected += p->tenant == acme;
        if (p->instance != 0 && !(p->service == 2 && p->time_ns >= deletions[0].start_ns &&
                                  p->time_ns <= deletions[0].end_ns))
            left[n++] = *p;
    }
    seen = survey(&f);
    tally = write_span(&f, &MERGE_SPAN_ALL, &out);
    must(cmp_merge_tally_check(&seen.kept, &tally, &err), &err);
    assert_int_equal(seen.deleted, deletions[0].profiles + deletions[1].profiles);
    assert_int_equal(seen.deleted + tally.profiles, expected);
    assert_true(deletions[0].profiles > 0 && deletions[1].profiles > 0);
    made_read(fg_buf_slice(&out), NULL, "acme", &found);
    made_expect(&found, left, n, acme);
    for (size_t i = 0; i < 2; i++)
        fg_selector_done(&deletions[i].selector);
    made_found_done(&found);
    fg_buf_done(&out);
    close_fixture(&f);
}

/* ---- rollups ---- */

struct seen_rows {
    uint32_t kinds[3], spans, halves, tens, zeros, fulls, multiples, named;
    uint32_t before, itself, both; /* of spans with something early */
};

/* Every node is what the profiles add up to, however they came. */
static void look_at_nodes(struct fg_slice file, const struct cmp_merge_span *span,
                          struct seen_rows *seen)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_block_directory directory;
    struct fg_block_verified verified;
    struct fg_err err;
    uint64_t offset;

    must(fg_block_verify(file, NULL, MEMORY, &verified, &err), &err);
    must(fg_block_directory_offset(file, file.len, &offset, &err), &err);
    must(fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, NULL,
                                  arena, &directory, &err),
         &err);
    for (uint32_t i = 0; i < directory.n_parts; i++) {
        struct fg_block_range nod = fg_rollup_ranges(&directory.parts[i]).nod;
        struct fg_rollups nodes = {0};

        must(fg_rollup_verify(&directory.parts[i], file, MEMORY, &err), &err);
        must(fg_rollup_verify_sums(&directory.parts[i], file, MEMORY, &err), &err);
        seen->named +=
            fg_block_part_range(&directory.parts[i], FG_BLOCK_WANT_FUNCTION_TREE).len > 0;
        if (nod.len > 0)
            must(fg_rollups_parse(&directory.parts[i], fg_slice_sub(file, nod.offset, nod.len),
                                  arena, &nodes, &err),
                 &err);
        for (uint32_t k = 0; k < nodes.n_rows; k++) {
            const struct fg_rollup_row *row = &nodes.rows[k];
            int64_t len = row->key.end_ns - row->key.start_ns;

            seen->kinds[row->key.kind]++;
            seen->spans += len < (span->end_ns - span->start_ns) / 10;
            seen->halves += len == 6 * HOUR;
            seen->tens += len == HOUR / 6;
            seen->zeros += row->count == 0;
            seen->fulls += row->places[FG_ROLLUP_FULL].bytes > 0;
            seen->multiples += row->factor > 1;
            if (span->early_ns > 0) {
                bool early = row->key.start_ns == span->start_ns - span->early_ns;

                seen->before += early && row->key.end_ns == span->start_ns;
                seen->itself += len == span->end_ns - span->start_ns;
                seen->both += early && row->key.end_ns == span->end_ns;
            }
        }
    }
    fg_arena_destroy(arena);
}

static void rollups_are_the_sums_of_their_profiles(void **state)
{
    static const struct cmp_merge_span spans[] = {
        {START, START + HOUR, 0, UINT16_MAX, 0},
        {START + HOUR, START + 2 * HOUR, 0, UINT16_MAX, HOUR / 2},
        {START, START + 24 * HOUR, 0, UINT16_MAX, 0},
        {START + HOUR, START + 25 * HOUR, 0, UINT16_MAX, HOUR / 2},
        {START, START + 24 * HOUR, 0x1000, 0xcfff, 0},
        {START, START + 672 * HOUR, 0, UINT16_MAX, 0},
        {START + 2 * HOUR, START + 672 * HOUR, 0, UINT16_MAX, HOUR}};
    struct seen_rows seen = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(3); seed++)
        for (size_t i = 0; i < FG_COUNT(spans); i++) {
            struct fg_buf first, again;
            struct fixture f;

            open_fixture(&f, seed, 1 + (uint32_t)(seed % SOURCES_MAX));
            f.merge.stripe_samples = seed % 3 == 0 ? 0 : (uint32_t)(1 + seed * 10);
            (void)write_span(&f, &spans[i], &first);
            look_at_nodes(fg_buf_slice(&first), &spans[i], &seen);
            for (uint32_t k = 0; k < SOURCES_MAX; k++)
                fg_buf_done(&f.objects[k]);
            divide(&f, 1 + (uint32_t)((seed + 2) % SOURCES_MAX), seed * 31);
            (void)write_span(&f, &spans[i], &again);
            assert_true(fg_slice_eq(fg_buf_slice(&first), fg_buf_slice(&again)));
            fg_buf_done(&again);
            write_again(&f, &first, f.merge.stripe_samples, &spans[i], &again);
            assert_true(fg_slice_eq(fg_buf_slice(&first), fg_buf_slice(&again)));
            fg_buf_done(&first);
            fg_buf_done(&again);
            close_fixture(&f);
        }
    print_message("  all %u, groups %u, series %u; short %u, 6 h %u, 10 min %u, of nothing %u; "
                  "full %u; multiples %u\n",
                  seen.kinds[0], seen.kinds[1], seen.kinds[2], seen.spans, seen.halves, seen.tens,
                  seen.zeros, seen.fulls, seen.multiples);
    assert_true(seen.kinds[0] > 0 && seen.kinds[1] > 0 && seen.kinds[2] > 0 && seen.named > 0);
    assert_true(seen.spans > 0 && seen.halves > 0 && seen.zeros > 0 && seen.fulls > 0);
    assert_true(seen.tens > 0);
    assert_true(seen.before > 0 && seen.itself > 0 && seen.both > seen.before);
}

/* Two profiles are far less than a node of them; but who reads them needs all stacks of the day. */
static void small_groups_and_series_have_rollups(void **state)
{
    static const struct cmp_merge_span day = {START, START + 24 * HOUR, 0, UINT16_MAX, 0};
    enum { RARE = 2, FEW = 2 };
    uint32_t n_rare = 0, small[3] = {0, 0, 0};
    struct fg_block_directory directory;
    struct fg_buf file;
    struct fixture f;
    struct fg_err err;
    uint64_t offset;

    (void)state;
    open_fixture(&f, 1, 1);
    for (size_t i = 0; i < PROFILES; i++)
        if (f.profiles[i].instance == RARE && n_rare++ >= FEW)
            f.profiles[i].instance = 0;
    fg_buf_done(&f.objects[0]);
    divide(&f, 2, 1);
    (void)write_span(&f, &day, &file);
    must(fg_block_directory_offset(fg_buf_slice(&file), file.len, &offset, &err), &err);
    must(fg_block_directory_parse(fg_slice_sub(fg_buf_slice(&file), (size_t)offset, SIZE_MAX),
                                  file.len, NULL, f.arena, &directory, &err),
         &err);
    for (uint32_t i = 0; i < directory.n_parts; i++) {
        struct fg_block_range nod = fg_rollup_ranges(&directory.parts[i]).nod;
        struct fg_rollups nodes = {0};

        must(fg_rollup_verify_sums(&directory.parts[i], fg_buf_slice(&file), MEMORY, &err), &err);
        if (nod.len > 0)
            must(fg_rollups_parse(&directory.parts[i],
                                  fg_slice_sub(fg_buf_slice(&file), nod.offset, nod.len), f.arena,
                                  &nodes, &err),
                 &err);
        for (uint32_t k = 0; k < nodes.n_rows; k++)
            small[nodes.rows[k].key.kind] += nodes.rows[k].count > 0 &&
                                             nodes.rows[k].count <= FEW &&
                                             nodes.rows[k].places[FG_ROLLUP_CROWN].bytes > 0;
    }
    assert_true(n_rare > FEW && small[FG_ROLLUP_GROUP] + small[FG_ROLLUP_SERIES] > 0);
    fg_buf_done(&file);
    close_fixture(&f);
}

/* ---- parent rollups ---- */

struct parent_source {
    struct fg_buf file;
    struct fg_block_directory directory;
    struct cmp_merge_source source;
};

static void open_object(struct fixture *f, struct fg_slice file, struct fg_block_directory *ret)
{
    struct fg_err err;
    uint64_t offset;

    must(fg_block_directory_offset(file, file.len, &offset, &err), &err);
    must(fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, NULL,
                                  f->arena, ret, &err),
         &err);
}

static void parse_nodes(struct fixture *f, struct fg_slice file, const struct fg_block_part *part,
                        struct fg_block_range nod, struct fg_rollups *ret_nodes)
{
    struct fg_err err;

    *ret_nodes = (struct fg_rollups){0};
    if (nod.len > 0)
        must(fg_rollups_parse(part, fg_slice_sub(file, nod.offset, nod.len), f->arena, ret_nodes,
                              &err),
             &err);
}

/* The part of a service over some blocks. single_at_once 0: single series are only listed. */
static void write_above(struct fixture *f, struct parent_source *sources, uint32_t n,
                        struct fg_slice service, int64_t start_ns, int64_t end_ns,
                        uint32_t single_at_once, struct fg_block_writer *block, uint32_t *raws)
{
    struct cmp_merge_parent_part parts[SOURCES_MAX];
    struct cmp_merge_parent parent = {.tenant = FG_LIT("acme"),
                                      .service = service,
                                      .parts = parts,
                                      .start_ns = start_ns,
                                      .end_ns = end_ns,
                                      .only_list_single = single_at_once == 0,
                                      .single_at_once = single_at_once,
                                      .max_bytes = MEMORY,
                                      .arena = f->arena};
    bool left_out = true;
    struct fg_err err;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = fg_block_part_find(&sources[i].directory, FG_LIT("acme"), service);
        struct cmp_merge_parent_part *part = &parts[parent.n_parts];

        if (number == sources[i].directory.n_parts ||
            !fg_slice_eq(sources[i].directory.parts[number].service, service))
            continue;
        *part = (struct cmp_merge_parent_part){.id = {i + 1, 0}};
        must(cmp_merge_part_open(&sources[i].source, number, f->arena, &part->part, &err), &err);
        if (i != 1 || !fg_slice_is(service, "shop")) /* else as if it had none: profiles are read */
            parse_nodes(f, fg_buf_slice(&sources[i].file), part->part.part,
                        fg_rollup_ranges(part->part.part).nod, &part->rollups);
        parent.n_parts++;
    }
    must(cmp_merge_parent_plan(&parent, &err), &err);
    for (uint32_t i = 0; i < parent.n_parts; i++)
        raws[parts[i].raw[MERGE_GROUPS]]++;
    must(cmp_merge_parent_write(&parent, block, &left_out, &err), &err);
    assert_false(left_out);
}

struct looked {
    struct fg_slice file;
    const struct fg_block_part *part;
    struct fg_rollup_ranges ranges;
    struct fg_rollups nodes;
    struct fg_function_tree names;
    uint64_t *paths; /* of a node: hash of its path */
};

static void look(struct fixture *f, struct fg_slice file, const struct fg_block_part *part,
                 struct fg_rollup_ranges ranges, struct looked *looked)
{
    struct fg_slice bytes = fg_slice_sub(file, ranges.crn.offset, ranges.crn.len);
    struct fg_err err;

    *looked = (struct looked){.file = file, .part = part, .ranges = ranges};
    parse_nodes(f, file, part, ranges.nod, &looked->nodes);
    must(fg_rollup_functions_parse(
             &looked->nodes, fg_slice_sub(bytes, 0, looked->nodes.names.bytes),
             fg_slice_sub(bytes, looked->nodes.names.bytes, looked->nodes.dict.bytes), f->arena,
             &looked->names, &err),
         &err);
    looked->paths = fg_arena_new(f->arena, uint64_t, looked->names.n_nodes);
    for (uint32_t i = 0; i < looked->names.n_nodes; i++) {
        uint32_t parent = looked->names.parents[i];
        uint64_t path = parent == FG_TREE_ROOT ? 1 : looked->paths[parent];

        looked->paths[i] =
            fg_hash128_seed(looked->names.names[looked->names.functions[i]], path).lo;
    }
}

static void read_crown(struct fixture *f, const struct looked *looked,
                       const struct fg_rollup_row *row, struct fg_crown *ret_crown)
{
    struct fg_block_range crn = looked->ranges.crn;
    const struct fg_rollup_place *place = &row->places[FG_ROLLUP_CROWN];
    struct fg_err err;

    must(fg_rollup_crown_parse(row, &looked->names,
                               fg_slice_sub(looked->file, crn.offset + place->offset, place->bytes),
                               f->arena, ret_crown, &err),
         &err);
}

/* The same node in the one and in the other, however it came there. */
static void same_row(struct fixture *f, const struct looked *a, const struct fg_rollup_row *x,
                     const struct looked *b, const struct fg_rollup_row *y)
{
    struct fg_crown left, right;

    assert_int_equal(x->count, y->count);
    assert_true(fg_id_eq(x->digest, y->digest));
    assert_int_equal(x->total, y->total);
    if (x->places[FG_ROLLUP_CROWN].bytes == 0 || y->places[FG_ROLLUP_CROWN].bytes == 0)
        return;
    read_crown(f, a, x, &left);
    read_crown(f, b, y, &right);
    assert_int_equal(left.n_nodes, right.n_nodes);
    assert_int_equal(left.cut_max, right.cut_max);
    assert_int_equal(left.root_rest, right.root_rest);
    for (uint32_t i = 0; i < left.n_nodes; i++) {
        assert_int_equal(a->paths[left.nodes[i]], b->paths[right.nodes[i]]);
        assert_int_equal(left.self[i], right.self[i]);
        assert_int_equal(left.rest[i], right.rest[i]);
    }
}

static const struct fg_rollup_row *find_same(const struct looked *in, const struct looked *of,
                                             const struct fg_rollup_row *row)
{
    for (uint32_t i = 0; i < in->nodes.n_rows; i++)
        if (fg_rollup_key_cmp(&in->nodes.rows[i].key, &row->key) == 0 &&
            fg_profile_type_eq(&in->nodes.types[in->nodes.rows[i].type],
                               &of->nodes.types[row->type]))
            return &in->nodes.rows[i];
    return NULL;
}

/* Compares the rollups of single series with those of a block of all profiles, in which they have
 * the numbers of series. Returns how many there were in both. */
static uint32_t compare_single(struct fixture *f, struct fg_slice file,
                               const struct fg_block_part *part, const struct looked *direct)
{
    struct fg_block_range range = fg_block_part_range(direct->part, FG_BLOCK_WANT_SERIES);
    struct fg_rollup_ranges ranges = fg_rollup_single_ranges(part);
    struct fg_block_index index;
    struct fg_labels *labels;
    struct fg_groups groups;
    struct looked looked;
    uint32_t compared = 0;
    struct fg_err err;

    if (ranges.nod.len == 0)
        return 0;
    look(f, file, part, ranges, &looked);
    must(fg_block_part_parse(direct->part,
                             fg_slice_sub(direct->file, (size_t)range.offset, (size_t)range.len),
                             f->arena, &index, &err),
         &err);
    labels = fg_arena_new(f->arena, struct fg_labels, index.n_series);
    for (uint32_t i = 0; i < index.n_series; i++)
        labels[i] = index.series[i].labels;
    must(fg_groups_single(labels, index.n_series, NULL, 0, f->arena, &groups, &err), &err);
    assert_int_equal(looked.nodes.groups.n_groups, groups.n_groups);
    for (uint32_t i = 0; i < looked.nodes.n_rows; i++) {
        const struct fg_rollup_row *row = &looked.nodes.rows[i];

        assert_int_equal(row->key.kind, FG_ROLLUP_GROUP);
        for (uint32_t k = 0; k < direct->nodes.n_rows; k++) {
            const struct fg_rollup_row *other = &direct->nodes.rows[k];

            if (other->key.kind != FG_ROLLUP_SERIES || other->count == 0 ||
                groups.of_series[other->key.number] != row->key.number ||
                !fg_profile_type_eq(&looked.nodes.types[row->type],
                                    &direct->nodes.types[other->type]))
                continue;
            same_row(f, &looked, row, direct, other);
            compared++;
        }
    }
    return compared;
}

/* Parent rollups of three hourly blocks equal the rollups of one block of all their profiles. */
static void parent_rollups_are_the_sums_of_all_profiles(void **state)
{
    static const struct cmp_merge_span all = {START, START + 3 * HOUR, 0, UINT16_MAX, 0};
    uint32_t raws[2] = {0, 0}, compared = 0, single = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(4); seed++) {
        struct parent_source sources[3];
        struct fg_block_directory made, direct;
        struct fg_block_summary summary;
        struct fg_buf file, wanted;
        struct fg_block_writer *block;
        struct fixture f;
        struct fg_err err;

        open_fixture(&f, seed, 4);
        for (uint32_t i = 0; i < 3; i++) {
            /* Every other time the second one has what begins late in the first. */
            int64_t early_ns = seed % 2 == 0 ? 0 : HOUR / 3;
            const struct cmp_merge_span span = {.start_ns = START + i * HOUR,
                                                .end_ns = START + (i + 1) * HOUR -
                                                          (i == 0 ? early_ns : 0),
                                                .shard_last = UINT16_MAX,
                                                .early_ns = i == 1 ? early_ns : 0};

            (void)write_span(&f, &span, &sources[i].file);
            open_object(&f, fg_buf_slice(&sources[i].file), &sources[i].directory);
            sources[i].source = (struct cmp_merge_source){.name = "an hour",
                                                          .parts = sources[i].directory.parts,
                                                          .n_parts = sources[i].directory.n_parts,
                                                          .bytes = fg_buf_slice(&sources[i].file)};
        }
        (void)write_span(&f, &all, &wanted);
        open_object(&f, fg_buf_slice(&wanted), &direct);
        fg_buf_init(&file, SIZE_MAX);
        block = fg_block_writer_create(&(struct fg_block_sink){append, &file}, 2);
        for (uint32_t p = 0; p < direct.n_parts; p++)
            write_above(&f, sources, 3, direct.parts[p].service, all.start_ns, all.end_ns,
                        (uint32_t)seed - 1, block, raws);
        must(fg_block_writer_finish(block, &summary, &err), &err);
        fg_block_writer_destroy(block);
        open_object(&f, fg_buf_slice(&file), &made);
        for (uint32_t p = 0; p < made.n_parts; p++) {
            const struct fg_block_part *of;
            struct looked a, b;
            uint32_t n;

            of = &direct.parts[fg_block_part_find(&direct, FG_LIT("acme"), made.parts[p].service)];
            look(&f, fg_buf_slice(&file), &made.parts[p], fg_rollup_ranges(&made.parts[p]), &a);
            look(&f, fg_buf_slice(&wanted), of, fg_rollup_ranges(of), &b);
            n = compare_single(&f, fg_buf_slice(&file), &made.parts[p], &b);
            assert_true(seed > 1 || n == 0);
            single += n;
            must(fg_rollup_verify(&made.parts[p], fg_buf_slice(&file), MEMORY, &err), &err);
            assert_int_equal(a.part->n_profiles, b.part->n_profiles);
            assert_true(fg_id_eq(a.part->digest, b.part->digest));
            assert_int_equal(a.part->t_max_ns, b.part->t_max_ns);
            assert_int_equal(a.nodes.groups.n_groups, b.nodes.groups.n_groups);
            for (uint32_t k = 0; k < a.nodes.n_rows; k++) {
                const struct fg_rollup_row *other = find_same(&b, &a, &a.nodes.rows[k]);

                if (other != NULL)
                    same_row(&f, &a, &a.nodes.rows[k], &b, other);
                compared += other != NULL;
            }
        }
        for (uint32_t i = 0; i < 3; i++)
            fg_buf_done(&sources[i].file);
        fg_buf_done(&file);
        fg_buf_done(&wanted);
        close_fixture(&f);
    }
    print_message(
        "  %u rollups compared, %u of single series; blocks by rollups %u, by profiles %u\n",
        compared, single, raws[0], raws[1]);
    assert_true(compared > 50 && single > 20 && raws[0] > 0 && raws[1] > 0);
}

static void a_profile_in_two_sources_is_refused(void **state)
{
    struct fixture f;
    struct fg_buf out;
    struct fg_err err;

    (void)state;
    open_fixture(&f, 3, 2);
    f.sources[2] = f.sources[0];
    f.sources[2].name = "its copy";
    f.merge.n_sources = 3;
    assert_int_equal(try_write(&f, &MERGE_SPAN_ALL, &out, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, " is in object 0 and in its copy"));
    fg_buf_done(&out);
    close_fixture(&f);
}

/* Any broken byte of a source ends in an error, or is one that nobody reads here. */
static void damaged_sources_are_refused(void **state)
{
    struct cmp_merge_tally good, tally;
    struct fixture f;
    struct fg_buf out;

    (void)state;
    open_fixture(&f, 4, 2);
    good = write_span(&f, &MERGE_SPAN_ALL, &out);
    fg_buf_done(&out);
    for (size_t i = 16; i < f.objects[0].len; i += 331) {
        struct fg_err err = {.code = FG_OK};

        f.objects[0].ptr[i] ^= 0x40;
        if (try_write(&f, &MERGE_SPAN_ALL, &out, &err) == FG_OK) {
            must(cmp_merge_read_back(fg_buf_slice(&out), NULL, "out", MEMORY, &tally, &err), &err);
            assert_true(cmp_merge_tally_eq(&good, &tally));
        } else {
            assert_int_equal(err.code, FG_E_CORRUPT);
            assert_non_null(strstr(err.msg, "object 0"));
        }
        fg_buf_done(&out);
        f.objects[0].ptr[i] ^= 0x40;
    }
    close_fixture(&f);
}

static void too_little_memory_is_an_error(void **state)
{
    struct fixture f;
    struct fg_buf out;
    struct fg_err err;

    (void)state;
    open_fixture(&f, 6, 2);
    f.merge.memory_max_bytes = 4096;
    assert_int_equal(try_write(&f, &MERGE_SPAN_ALL, &out, &err), FG_E_LIMIT);
    fg_buf_done(&out);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merge_keeps_every_profile),
        cmocka_unit_test(the_same_profiles_give_the_same_bytes),
        cmocka_unit_test(time_stripes_have_the_chosen_length),
        cmocka_unit_test(a_merge_divides_by_shards_and_spans),
        cmocka_unit_test(a_merge_leaves_deleted_profiles_out),
        cmocka_unit_test(rollups_are_the_sums_of_their_profiles),
        cmocka_unit_test(small_groups_and_series_have_rollups),
        cmocka_unit_test(parent_rollups_are_the_sums_of_all_profiles),
        cmocka_unit_test(a_profile_in_two_sources_is_refused),
        cmocka_unit_test(damaged_sources_are_refused),
        cmocka_unit_test(too_little_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
