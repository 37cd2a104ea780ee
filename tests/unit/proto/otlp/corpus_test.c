/*
 * OTLP requests of real senders, and nasty ones: totals of every type and every stack are what
 * other tools say, and what is to be refused is refused.
 */
#include "common/base/str.h"
#include "proto/otlp/otlp.h"
#include "tests/lib/batch_folded.h"
#include "tests/lib/corpus.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024, TYPES_MAX = 8 };

/* All batches of one sample type, as the request had it. */
struct type {
    char name[64]; /* "samples/count" */
    int64_t total;
    struct fg_buf stacks; /* folded, batch after batch */
};

struct decoded {
    struct fg_arena *arena;
    struct type types[TYPES_MAX];
    size_t n_types;
    uint64_t n_profiles;
    struct fg_otlp_result result;
    enum fg_code code;
    struct fg_err err;
};

static struct type *find_type(struct decoded *decoded, const char *name)
{
    size_t i;

    for (i = 0; i < decoded->n_types; i++)
        if (strcmp(decoded->types[i].name, name) == 0)
            return &decoded->types[i];
    assert_true(i < TYPES_MAX);
    (void)snprintf(decoded->types[i].name, sizeof decoded->types[i].name, "%s", name);
    fg_buf_init(&decoded->types[i].stacks, SIZE_MAX);
    decoded->n_types++;
    return &decoded->types[i];
}

/* Counts of samples come out as nanoseconds: here they are counts again, as the oracle has them. */
static void divide(struct fg_batch *batch)
{
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        struct fg_profile *profile = &batch->profiles[p];

        for (uint32_t i = 0; i < profile->n_samples; i++) {
            assert_int_equal(profile->values[i] % profile->period, 0);
            profile->values[i] /= profile->period;
        }
    }
}

static enum fg_code on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct fg_slice name = fg_labels_get(&batch->profiles[0].labels, "__name__");
    struct decoded *decoded = arg;
    struct type *type;
    char text[64];

    (void)err;
    (void)snprintf(text, sizeof text, "%.*s/%.*s", FG_S(batch->types[0].type),
                   FG_S(batch->types[0].unit));
    if (fg_slice_is(name, "process_cpu")) {
        assert_string_equal(text, "cpu/nanoseconds");
        (void)snprintf(text, sizeof text, "samples/count");
        divide(batch);
    }
    type = find_type(decoded, text);
    type->total += batch_total(batch, 0);
    batch_folded(batch, 0, &type->stacks);
    decoded->n_profiles += batch->n_profiles;
    return FG_OK;
}

static void decode(struct fg_slice in, struct decoded *out)
{
    struct fg_otlp_request request = {
        .upload = {.time_ns = 1, .limits = FG_DECODE_LIMITS_DEFAULT},
        .form = in.len > 0 && in.ptr[0] == '{' ? FG_OTLP_JSON : FG_OTLP_PROTOBUF,
    };
    struct fg_decode_counts counts = {0};

    *out = (struct decoded){.arena = fg_arena_create(ARENA_MAX_BYTES)};
    out->code =
        fg_otlp_decode(in, &request, out->arena, on_batch, out, &out->result, &counts, &out->err);
}

static void forget(struct decoded *decoded)
{
    for (size_t i = 0; i < decoded->n_types; i++)
        fg_buf_done(&decoded->types[i].stacks);
    fg_arena_destroy(decoded->arena);
}

/* "shop:cpu/nanoseconds shop:off_cpu/nanoseconds" and "100 9": what each type adds up to. */
static bool totals_fit(struct decoded *decoded, struct fg_slice types, struct fg_slice totals)
{
    int64_t wanted[TYPES_MAX] = {0}, total;
    bool fit = true;

    while (types.len > 0 && totals.len > 0) {
        struct fg_slice type = corpus_take(&types, ' ');
        char name[64];

        type = fg_slice_sub(type, fg_slice_find(type, ':') + 1, type.len);
        (void)snprintf(name, sizeof name, "%.*s", FG_S(type));
        assert_true(fg_parse_i64(corpus_take(&totals, ' '), &total));
        if (total != 0)
            wanted[find_type(decoded, name) - decoded->types] += total;
    }
    for (size_t i = 0; i < decoded->n_types; i++) {
        fit = fit && decoded->types[i].total == wanted[i];
        if (decoded->types[i].total != wanted[i])
            print_message("  %s: %lld, not %lld\n", decoded->types[i].name,
                          (long long)decoded->types[i].total, (long long)wanted[i]);
    }
    return fit;
}

static bool verdict_fits(struct decoded *decoded, const struct corpus_row *row)
{
    if (decoded->code != FG_OK)
        return fg_slice_starts(row->expect, "reject") && fg_code_http(decoded->code) / 100 == 4;
    if (fg_slice_is(row->expect, "reject"))
        return false;
    if (fg_slice_is(row->expect, "reject-or-empty"))
        return decoded->n_profiles == 0;
    /* What a mutation did to the values the oracle says, but not to what its indexes lead to. */
    if (fg_slice_search(row->file, "fuzz") != SIZE_MAX)
        return true;
    return !row->has_totals || totals_fit(decoded, row->types, row->totals);
}

static size_t compare_stacks(const struct decoded *decoded, const struct corpus_row *row,
                             bool *ret_fit)
{
    struct fg_buf want, ours;
    size_t compared = 0;

    fg_buf_init(&want, SIZE_MAX);
    fg_buf_init(&ours, SIZE_MAX);
    for (size_t i = 0; i < decoded->n_types; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "%s", decoded->types[i].name);
        *strchr(name, '/') = '_';
        if (!corpus_expected(row->file, name, &want))
            continue;
        fg_buf_clear(&ours);
        corpus_merge(fg_buf_slice(&decoded->types[i].stacks), &ours);
        if (!fg_slice_eq(fg_buf_slice(&want), fg_buf_slice(&ours))) {
            print_message("  stacks of %s differ\n", name);
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
    forget(&decoded);
    fg_buf_done(&body);
}

static void read_manifest(struct fg_buf *manifest)
{
    fg_buf_init(manifest, SIZE_MAX);
    assert_true(corpus_read("manifest.tsv", manifest));
}

static void rows(void **state)
{
    struct tally tally = {0};
    struct corpus_row row;
    struct fg_buf manifest;
    struct fg_slice rest;

    (void)state;
    read_manifest(&manifest);
    rest = fg_buf_slice(&manifest);
    while (corpus_next_row(&rest, &row))
        if (fg_slice_is(row.format, "otlp"))
            try_row(&row, &tally);
    fg_buf_done(&manifest);
    print_message("otlp: %zu rows, %zu refused, %zu compared stack by stack, %zu wrong\n",
                  tally.rows, tally.refused, tally.compared, tally.bad);
    assert_int_equal(tally.bad, 0);
    assert_true(tally.rows > 50 && tally.compared > 1);
}

/* What the collector's exporters sent: gzip or not, protobuf or JSON, the truth in the manifest. */
static void clients(void **state)
{
    static const struct {
        const char *file;
        struct {
            const char *name;
            int64_t total;
        } types[4];
        size_t n_types;
    } files[] = {
        {"clients/otlp-grpc/0000.body",
         {{"samples/count", 698}, {"cpu/nanoseconds", 6980000000}},
         2},
        {"clients/otlp-http/0000.body",
         {{"samples/count", 698}, {"cpu/nanoseconds", 6980000000}},
         2},
        {"clients/otlp-http/0001.body",
         {{"samples/count", 698}, {"cpu/nanoseconds", 6980000000}},
         2},
        {"clients/otlp-http/0002.body",
         {{"alloc_objects/count", 17434},
          {"alloc_space/bytes", 347504623},
          {"inuse_objects/count", 1216},
          {"inuse_space/bytes", 10138113}},
         4},
    };
    struct fg_buf manifest;

    (void)state;
    read_manifest(&manifest);
    fg_buf_done(&manifest);
    for (size_t i = 0; i < FG_COUNT(files); i++) {
        struct fg_buf packed, body;
        struct decoded decoded;

        print_message("  %s\n", files[i].file);
        fg_buf_init(&packed, SIZE_MAX);
        fg_buf_init(&body, SIZE_MAX);
        assert_true(corpus_read(files[i].file, &packed) && corpus_unpack(&packed, &body));
        decode(fg_buf_slice(&body), &decoded);
        assert_int_equal(decoded.code, FG_OK);
        assert_int_equal(decoded.result.rejected, 0);
        assert_int_equal(decoded.n_types, files[i].n_types);
        for (size_t t = 0; t < files[i].n_types; t++)
            assert_int_equal(find_type(&decoded, files[i].types[t].name)->total,
                             files[i].types[t].total);
        assert_int_equal(decoded.n_types, files[i].n_types);
        forget(&decoded);
        fg_buf_done(&packed);
        fg_buf_done(&body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(clients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
