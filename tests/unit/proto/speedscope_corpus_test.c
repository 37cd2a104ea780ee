/* speedscope files of real tools, and nasty ones: totals and stacks are what another reader says.
 */
#include "common/base/str.h"
#include "proto/speedscope.h"
#include "tests/lib/batch_folded.h"
#include "tests/lib/corpus.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024 };

static const struct {
    const char *name;
    double ns; /* 1 where it is no time */
} units[] = {
    {"none", 1},           {"nanoseconds", 1}, {"microseconds", 1e3},
    {"milliseconds", 1e6}, {"seconds", 1e9},   {"bytes", 1},
};

struct decoded {
    struct fg_arena *arena;
    struct fg_buf stacks; /* folded, of all batches */
    int64_t total;        /* nanoseconds, where it is time */
    uint64_t batches;
    enum fg_code code;
    struct fg_err err;
};

static enum fg_code name_series(const struct fg_speedscope_profile *profile, void *arg,
                                struct fg_speedscope_series *ret_series, struct fg_err *err)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("wall")},
                                       {FG_LIT("service_name"), FG_LIT("shop")}};

    (void)profile;
    (void)arg;
    (void)err;
    *ret_series = (struct fg_speedscope_series){
        .labels = {labels, 2},
        .type = {FG_LIT("wall"), FG_LIT("nanoseconds")},
        .factor = 1,
    };
    return FG_OK;
}

static enum fg_code on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct decoded *decoded = arg;

    (void)err;
    decoded->batches++;
    decoded->total += batch_total(batch, 0);
    batch_folded(batch, 0, &decoded->stacks);
    return FG_OK;
}

static void decode(struct fg_slice in, struct decoded *out)
{
    struct fg_speedscope_request request = {
        .upload = {.limits = FG_DECODE_LIMITS_DEFAULT},
        .namer = name_series,
    };
    struct fg_decode_counts counts = {0};

    *out = (struct decoded){.arena = fg_arena_create(ARENA_MAX_BYTES)};
    fg_buf_init(&out->stacks, SIZE_MAX);
    out->code = fg_speedscope_decode(in, &request, out->arena, on_batch, out, &counts, &out->err);
}

/* What a number of that unit is for us; false: no unit we know. */
static bool scale(struct fg_slice unit, double number, int64_t *ret_value)
{
    for (size_t i = 0; i < FG_COUNT(units); i++) {
        if (fg_slice_is(unit, units[i].name)) {
            *ret_value = (int64_t)llround(number * units[i].ns);
            return true;
        }
    }
    return false;
}

/* "10 milliseconds", or "0.04 3.61" with types "sampled/seconds sampled/seconds". */
static bool total_fits(const struct decoded *decoded, const struct corpus_row *row)
{
    struct fg_slice totals = row->totals, types = row->types;
    int64_t total = 0, value;

    while (totals.len > 0) {
        struct fg_slice text = corpus_take(&totals, ' '), type = corpus_take(&types, ' ');
        double number;

        if (!fg_parse_f64(text, &number))
            return false;
        type = type.len == 0 ? corpus_take(&totals, ' ')
                             : fg_slice_sub(type, fg_slice_find(type, '/') + 1, type.len);
        if (number == 0 && type.len == 0)
            continue;
        if (!scale(type, number, &value))
            return false;
        total += value;
    }
    if (total != decoded->total)
        print_message("  total is %lld, not %lld\n", (long long)decoded->total, (long long)total);
    return total == decoded->total;
}

static bool verdict_fits(const struct decoded *decoded, const struct corpus_row *row)
{
    if (decoded->code != FG_OK)
        return fg_slice_starts(row->expect, "reject") && fg_code_http(decoded->code) / 100 == 4;
    if (fg_slice_is(row->expect, "reject"))
        return false;
    if (fg_slice_is(row->expect, "reject-or-empty"))
        return decoded->batches == 0;
    return row->totals.len == 0 || total_fits(decoded, row);
}

/* The oracle's values are in the file's unit, with fractions. */
static void scale_folded(struct fg_slice text, const char *unit, struct fg_buf *out)
{
    while (text.len > 0) {
        struct fg_slice line = corpus_take(&text, '\n');
        size_t blank = line.len;
        double number;
        int64_t value;

        while (blank > 0 && line.ptr[blank - 1] != ' ')
            blank--;
        assert_true(fg_parse_f64(fg_slice_sub(line, blank, line.len), &number));
        assert_true(scale(fg_cstr(unit), number, &value));
        fg_buf_put(out, fg_slice_sub(line, 0, blank));
        fg_buf_printf(out, "%lld\n", (long long)value);
    }
}

static size_t compare_stacks(const struct decoded *decoded, const struct corpus_row *row,
                             bool *ret_fit)
{
    struct fg_buf expected, want, ours;
    size_t compared = 0;

    fg_buf_init(&expected, SIZE_MAX);
    fg_buf_init(&want, SIZE_MAX);
    fg_buf_init(&ours, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(units); i++) {
        if (!corpus_expected(row->file, units[i].name, &expected))
            continue;
        scale_folded(fg_buf_slice(&expected), units[i].name, &want);
        corpus_merge(fg_buf_slice(&decoded->stacks), &ours);
        if (!fg_slice_eq(fg_buf_slice(&want), fg_buf_slice(&ours))) {
            print_message("  stacks differ\n");
            *ret_fit = false;
        }
        compared++;
    }
    fg_buf_done(&expected);
    fg_buf_done(&want);
    fg_buf_done(&ours);
    return compared;
}

struct tally {
    size_t rows, refused, compared, bad;
};

static void try_row(const struct corpus_row *row, struct tally *tally)
{
    struct decoded decoded;
    struct fg_buf body;
    char name[512];
    bool fit;

    fg_buf_init(&body, SIZE_MAX);
    (void)snprintf(name, sizeof name, "%.*s", FG_S(row->file));
    assert_true(corpus_read(name, &body));
    decode(fg_buf_slice(&body), &decoded);
    fit = verdict_fits(&decoded, row);
    if (decoded.code == FG_OK)
        tally->compared += compare_stacks(&decoded, row, &fit);
    if (!fit)
        print_message("%s: expected %.*s, got %s %s\n", name, FG_S(row->expect),
                      fg_code_name(decoded.code), decoded.code == FG_OK ? "" : decoded.err.msg);
    tally->rows++;
    tally->refused += decoded.code != FG_OK;
    tally->bad += !fit;
    fg_buf_done(&decoded.stacks);
    fg_arena_destroy(decoded.arena);
    fg_buf_done(&body);
}

static void rows(void **state)
{
    struct tally tally = {0};
    struct corpus_row row;
    struct fg_buf manifest;
    struct fg_slice rest;

    (void)state;
    fg_buf_init(&manifest, SIZE_MAX);
    assert_true(corpus_read("manifest.tsv", &manifest));
    rest = fg_buf_slice(&manifest);
    while (corpus_next_row(&rest, &row))
        if (fg_slice_is(row.format, "speedscope"))
            try_row(&row, &tally);
    fg_buf_done(&manifest);
    print_message("speedscope: %zu rows, %zu refused, %zu compared stack by stack, %zu wrong\n",
                  tally.rows, tally.refused, tally.compared, tally.bad);
    assert_int_equal(tally.bad, 0);
    assert_true(tally.rows >= 30 && tally.compared > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
