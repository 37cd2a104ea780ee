/*
 * Profiles of real agents, and nasty ones, through the decoders alone: what other tools say of them
 * has to come out (totals of every sample type, every stack), and what is to be refused is refused.
 *
 * The least numbers of rows are those of tests/data; there are more where the whole corpus is.
 */
#include "proto/folded.h"
#include "proto/pprof/pprof.h"
#include "proto/tree_formats.h"
#include "tests/lib/batch_folded.h"
#include "tests/lib/corpus.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 512 * 1024 * 1024 };

struct decoded {
    struct fg_arena *arena;
    struct fg_batch batch;
    enum fg_code code;
    struct fg_err err;
};

#define DANGLING "a sample that names what is not there goes alone"

/*
 * Where we differ from the manifest on purpose, as Pyroscope does, and why. totals: what ours are;
 * NULL: refused.
 */
static const struct {
    const char *file, *totals, *why;
} exceptions[] = {
    {"collapsed-nasty/bad-count-negative.folded", "5", "a negative count is no sample"},
    {"pprof-nasty/bad-fn-missing.pb.gz", "25 250000000", DANGLING},
    {"pprof-nasty/bad-fn-name-negative.pb.gz", "25 250000000", DANGLING},
    {"pprof-nasty/bad-fn-name-oob.pb.gz", "25 250000000", DANGLING},
    {"pprof-nasty/bad-label-key-oob.pb.gz", "25 250000000", DANGLING},
    {"pprof-nasty/bad-loc-missing.pb.gz", "100 1000000000", DANGLING},
    {"pprof-nasty/bad-loc-zero-ref.pb.gz", "100 1000000000", DANGLING},
    {"pprof-nasty/fuzz/001.pb", "3 30", DANGLING},
    {"pprof-nasty/fuzz/006.pb", "100 1000000000", DANGLING},
    {"pprof-nasty/fuzz/048.pb", "3 30", DANGLING},
    {"pprof-nasty/fuzz/056.pb", "100 1000000000", DANGLING},
    {"pprof-nasty/ok-negative.pb.gz", "8 80", "samples with a negative value go"},
    {"pprof/parca-alloc_space_delta.pb.gz", "151835635 75731333127 820931 1113745096",
     "samples with a negative value go"},
    {"pprof/pyroscope-invalid_utf8.pb.gz", NULL, "text that is not UTF-8 is refused"},
};

/* ---- decoding ---- */

static struct fg_upload upload(void)
{
    static struct fg_label labels[] = {
        {FG_LIT("__name__"), FG_LIT("process_cpu")},
        {FG_LIT("service_name"), FG_LIT("shop")},
    };

    return (struct fg_upload){
        .labels = {labels, FG_COUNT(labels)},
        .time_ns = 1,
        .limits = FG_DECODE_LIMITS_DEFAULT,
    };
}

static void decode_pprof(struct fg_slice in, const struct corpus_row *row, struct decoded *out)
{
    struct fg_pprof_request request = {.upload = upload(), .quirks = FG_PPROF_NOT_GO};
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;

    if (fg_slice_search(row->file, "dotnet") != SIZE_MAX)
        request.quirks |= FG_PPROF_DOTNET;
    out->code = fg_pprof_decode(in, &request, out->arena, &out->batch, &info, &counts, &out->err);
}

static void decode_text(struct fg_slice in, enum fg_text_format format, struct decoded *out)
{
    struct fg_folded_request request = {.upload = upload(), .format = format, .factor = 1};
    struct fg_decode_counts counts = {0};

    out->batch.types = fg_arena_new(out->arena, struct fg_value_type, 1);
    out->batch.n_types = 1;
    out->code = fg_folded_decode(in, &request, out->arena, &out->batch, &counts, &out->err);
}

static void decode_tree(struct fg_slice in, enum fg_tree_format format, struct decoded *out)
{
    struct fg_tree_request request = {.upload = upload(), .format = format, .factor = 1};
    struct fg_decode_counts counts = {0};

    out->batch.types = fg_arena_new(out->arena, struct fg_value_type, 1);
    out->batch.n_types = 1;
    out->code = fg_tree_format_decode(in, &request, out->arena, &out->batch, &counts, &out->err);
}

static bool decode(struct fg_slice in, const struct corpus_row *row, struct decoded *out)
{
    *out = (struct decoded){.arena = fg_arena_create(ARENA_MAX_BYTES)};
    if (fg_slice_is(row->format, "pprof"))
        decode_pprof(in, row, out);
    else if (fg_slice_is(row->format, "collapsed"))
        decode_text(in, FG_TEXT_FOLDED, out);
    else if (fg_slice_is(row->format, "lines"))
        decode_text(in, FG_TEXT_LINES, out);
    else if (fg_slice_is(row->format, "tree"))
        decode_tree(in, FG_FORMAT_TREE, out);
    else if (fg_slice_is(row->format, "trie"))
        decode_tree(in, FG_FORMAT_TRIE, out);
    else
        return false;
    return true;
}

/* ---- comparing ---- */

static void write_totals(const struct fg_batch *batch, struct fg_buf *out)
{
    for (uint32_t t = 0; t < batch->n_types; t++)
        fg_buf_printf(out, "%s%lld", t > 0 ? " " : "", (long long)batch_total(batch, t));
}

static const char *exception(const struct corpus_row *row, bool *ret_found)
{
    *ret_found = false;
    for (size_t i = 0; i < FG_COUNT(exceptions); i++) {
        *ret_found = fg_slice_is(row->file, exceptions[i].file);
        if (*ret_found)
            return exceptions[i].totals;
    }
    return NULL;
}

static bool is_exception(const struct corpus_row *row)
{
    bool found;

    (void)exception(row, &found);
    return found;
}

static bool totals_fit(const struct corpus_row *row, const struct fg_batch *batch)
{
    const char *known;
    bool found = false, fit;
    struct fg_buf ours;

    known = exception(row, &found);
    fg_buf_init(&ours, SIZE_MAX);
    write_totals(batch, &ours);
    fit = fg_slice_eq(fg_buf_slice(&ours), known != NULL ? fg_cstr(known) : row->totals);
    if (!fit)
        print_message("  totals are %.*s, not %.*s\n", FG_S(fg_buf_slice(&ours)),
                      FG_S(row->totals));
    fg_buf_done(&ours);
    return fit;
}

/* Is what we said of the row what the manifest expects? */
static bool verdict_fits(const struct corpus_row *row, const struct decoded *decoded)
{
    struct fg_slice expect = row->expect;
    bool found = false;

    if (exception(row, &found) == NULL && found)
        return decoded->code == FG_E_INVALID;
    if (decoded->code != FG_OK)
        return fg_slice_starts(expect, "reject") && fg_code_http(decoded->code) / 100 == 4;
    if (fg_slice_is(expect, "reject") && !found)
        return false;
    if (fg_slice_is(expect, "reject-or-empty"))
        return decoded->batch.n_profiles == 0;
    return !row->has_totals || totals_fit(row, &decoded->batch);
}

/* Every stack of every type that the oracle wrote down. Returns how many types those were. */
static size_t compare_stacks(const struct corpus_row *row, const struct fg_batch *batch,
                             bool *ret_fit)
{
    struct fg_buf want, ours;
    size_t compared = 0;

    fg_buf_init(&want, SIZE_MAX);
    fg_buf_init(&ours, SIZE_MAX);
    for (uint32_t t = 0; t < batch->n_types; t++) {
        char type[16];

        (void)snprintf(type, sizeof type, "%u", t);
        if (!corpus_expected(row->file, type, &want) &&
            (batch->n_types > 1 || !corpus_expected(row->file, "", &want)))
            continue;
        fg_buf_clear(&ours);
        batch_folded(batch, t, &ours);
        if (!fg_slice_eq(fg_buf_slice(&want), fg_buf_slice(&ours))) {
            print_message("  stacks of type %u differ\n", t);
            *ret_fit = false;
        }
        compared++;
    }
    fg_buf_done(&want);
    fg_buf_done(&ours);
    return compared;
}

struct tally {
    size_t rows, refused, compared, bad;
};

static void try_row(const struct corpus_row *row, struct tally *tally)
{
    struct fg_buf file, body;
    struct decoded decoded = {.code = FG_E_DECODE};
    char name[512];
    bool fit = true;

    fg_buf_init(&file, SIZE_MAX);
    fg_buf_init(&body, SIZE_MAX);
    (void)snprintf(name, sizeof name, "%.*s", FG_S(row->file));
    assert_true(corpus_read(name, &file));
    if (!corpus_unpack(&file, &body))
        (void)fg_fail(&decoded.err, FG_E_DECODE, "cannot be unpacked");
    else if (!decode(fg_buf_slice(&body), row, &decoded))
        fail_msg("format of %s", name);
    fit = verdict_fits(row, &decoded);
    if (decoded.code == FG_OK && !is_exception(row))
        tally->compared += compare_stacks(row, &decoded.batch, &fit);
    if (!fit)
        print_message("%s: expected %.*s, got %s %s\n", name, FG_S(row->expect),
                      fg_code_name(decoded.code), decoded.code == FG_OK ? "" : decoded.err.msg);
    tally->rows++;
    tally->refused += decoded.code != FG_OK;
    tally->bad += !fit;
    fg_arena_destroy(decoded.arena);
    fg_buf_done(&file);
    fg_buf_done(&body);
}

static void rows_of(const char *format, struct tally *tally)
{
    struct fg_buf manifest;
    struct corpus_row row;
    struct fg_slice rest;

    *tally = (struct tally){0};
    fg_buf_init(&manifest, SIZE_MAX);
    assert_true(corpus_read("manifest.tsv", &manifest));
    for (rest = fg_buf_slice(&manifest); corpus_next_row(&rest, &row);)
        if (fg_slice_is(row.format, format))
            try_row(&row, tally);
    fg_buf_done(&manifest);
    print_message("%s: %zu rows, %zu refused, %zu compared stack by stack, %zu wrong\n", format,
                  tally->rows, tally->refused, tally->compared, tally->bad);
}

static void pprof_rows(void **state)
{
    struct tally tally;

    (void)state;
    rows_of("pprof", &tally);
    assert_int_equal(tally.bad, 0);
    assert_true(tally.rows > 180 && tally.compared > 10);
}

static void collapsed_rows(void **state)
{
    struct tally tally;

    (void)state;
    rows_of("collapsed", &tally);
    assert_int_equal(tally.bad, 0);
    assert_true(tally.rows > 20);
}

static void lines_rows(void **state)
{
    struct tally tally;

    (void)state;
    rows_of("lines", &tally);
    assert_int_equal(tally.bad, 0);
    assert_true(tally.rows >= 5);
}

static void tree_rows(void **state)
{
    struct tally tally;

    (void)state;
    rows_of("tree", &tally);
    assert_int_equal(tally.bad, 0);
    assert_true(tally.rows > 10 && tally.compared > 0);
}

static void trie_rows(void **state)
{
    struct tally tally;

    (void)state;
    rows_of("trie", &tally);
    assert_int_equal(tally.bad, 0);
    assert_true(tally.rows > 10 && tally.compared > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pprof_rows), cmocka_unit_test(collapsed_rows),
        cmocka_unit_test(lines_rows), cmocka_unit_test(tree_rows),
        cmocka_unit_test(trie_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
