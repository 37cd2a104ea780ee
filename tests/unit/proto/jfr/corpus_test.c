/*
 * JFR recordings of real profilers, and nasty ones: what Pyroscope and the JDK's own tools say of
 * them has to come out, and what is to be refused is refused, within the memory of one upload.
 *
 * Some of the recordings are not ours, and lie next to the repository or where FG_SHARED says;
 * tests that need these are skipped without.
 */
#include "common/base/cursor.h"
#include "common/base/str.h"
#include "common/net/multipart.h"
#include "proto/jfr/jfr.h"
#include "tests/lib/batch_folded.h"
#include "tests/lib/corpus.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    ARENA_MAX_BYTES = 64 * 1024 * 1024, /* what decoding one upload may use */
    PERIOD_NS = 10000000,
    BATCHES_MAX = 16,
};

#define TWO_CHUNKS "jfr/made-agent-two-chunks.jfr"

/* ---- decoding ---- */

struct decoded {
    struct fg_arena *arena;
    struct fg_batch batches[BATCHES_MAX];
    size_t n_batches;
    enum fg_code code;
    struct fg_err err;
};

static enum fg_code keep(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct decoded *decoded = arg;

    (void)err;
    assert_true(decoded->n_batches < BATCHES_MAX);
    decoded->batches[decoded->n_batches++] = *batch;
    return FG_OK;
}

static void decode(struct fg_slice in, struct fg_slice labels, struct decoded *out)
{
    static struct fg_label series[] = {{FG_LIT("service_name"), FG_LIT("shop")}};
    struct fg_jfr_request request = {
        .upload = {.labels = {series, FG_COUNT(series)},
                   .time_ns = 1,
                   .limits = FG_DECODE_LIMITS_DEFAULT},
        .sample_rate = 100,
        .labels = labels,
    };
    struct fg_decode_counts counts = {0};

    *out = (struct decoded){.arena = fg_arena_create(ARENA_MAX_BYTES)};
    out->code = fg_jfr_decode(in, &request, out->arena, keep, out, &counts, &out->err);
    assert_true(out->code == FG_OK || out->n_batches == 0);
}

static void decoded_done(struct decoded *decoded)
{
    fg_arena_destroy(decoded->arena);
}

/* The batch that has this sample type, and its number; NULL: there is none. */
static struct fg_batch *batch_with(struct decoded *decoded, const char *name, const char *type,
                                   uint32_t *ret_type)
{
    for (size_t i = 0; i < decoded->n_batches; i++) {
        struct fg_batch *batch = &decoded->batches[i];

        for (uint32_t t = 0; t < batch->n_types; t++) {
            *ret_type = t;
            if (fg_slice_is(batch->types[t].type, type) &&
                fg_slice_is(fg_labels_get(&batch->profiles[0].labels, "__name__"), name))
                return batch;
        }
    }
    return NULL;
}

/* ---- totals ---- */

/* What the manifest counts, and where it is found. Other words of it are about what nobody asks
 * for: delays in nanoseconds, which are stored in ticks, and the sizes of objects in new TLABs. */
static const struct {
    const char *word, *name, *type;
    int64_t unit;
} totals[] = {
    {"jdk.ExecutionSample", "process_cpu", "cpu", PERIOD_NS},
    {"jdk.ObjectAllocationInNewTLAB", "memory", "alloc_in_new_tlab_objects", 1},
    {"inTLAB.tlabSize", "memory", "alloc_in_new_tlab_bytes", 1},
    {"jdk.ObjectAllocationOutsideTLAB", "memory", "alloc_outside_tlab_objects", 1},
    {"outTLAB.allocationSize", "memory", "alloc_outside_tlab_bytes", 1},
    {"jdk.ObjectAllocationSample", "memory", "alloc_sample_objects", 1},
    {"allocSample.weight", "memory", "alloc_sample_bytes", 1},
    {"jdk.JavaMonitorEnter", "mutex", "contentions", 1},
    {"jdk.ThreadPark", "block", "contentions", 1},
    {"profiler.LiveObject", "memory", "live", 1},
};

/* "word=number" of the manifest; true also when it is about something else. */
static bool total_fits(struct decoded *decoded, struct fg_slice word, int64_t want)
{
    for (size_t i = 0; i < FG_COUNT(totals); i++) {
        const struct fg_batch *batch;
        uint32_t type = 0;
        int64_t got;

        if (!fg_slice_is(word, totals[i].word))
            continue;
        batch = batch_with(decoded, totals[i].name, totals[i].type, &type);
        got = batch == NULL ? 0 : batch_total(batch, type) / totals[i].unit;
        if (got != want)
            print_message("  %s is %lld, not %lld\n", totals[i].word, (long long)got,
                          (long long)want);
        return got == want;
    }
    return true;
}

static bool totals_fit(struct decoded *decoded, struct fg_slice text)
{
    bool fit = true;

    while (text.len > 0) {
        struct fg_slice number = corpus_take(&text, ' ');
        struct fg_slice word = corpus_take(&number, '=');
        int64_t want;

        if (fg_parse_i64(number, &want))
            fit = total_fits(decoded, word, want) && fit;
    }
    return fit;
}

/* ---- stacks ---- */

/* The JDK's tools show names as they are; ours are without what changes from run to run. Pyroscope
 * puts a dot before the name of a frame without a class. */
static void put_frame(struct fg_slice frame, struct fg_buf *out)
{
    size_t lambda = fg_slice_search(frame, "$$Lambda");
    const uint8_t *dot = frame.len == 0 ? NULL : memrchr(frame.ptr, '.', frame.len);

    if (fg_slice_starts(frame, "."))
        frame = fg_slice_sub(frame, 1, SIZE_MAX);
    if (lambda == SIZE_MAX || dot == NULL) {
        fg_buf_put(out, frame);
        return;
    }
    fg_buf_put(out, fg_slice_sub(frame, 0, lambda));
    fg_buf_puts(out, "$$Lambda_");
    fg_buf_put(out, fg_bytes(dot, (size_t)(frame.ptr + frame.len - dot)));
}

struct stack_line {
    struct fg_buf text;
    int64_t count;
};

static int line_order(const void *left, const void *right)
{
    const struct stack_line *a = left, *b = right;

    return fg_slice_cmp(fg_buf_slice(&a->text), fg_buf_slice(&b->text));
}

/* Lines "a;b 3" with the frames of put_frame(), sorted, equal ones summed. */
static void normalise(struct fg_slice text, struct fg_buf *out)
{
    struct stack_line *lines;
    size_t n = 0, max = 1;

    for (size_t i = 0; i < text.len; i++)
        max += text.ptr[i] == '\n';
    lines = fg_calloc(max, sizeof *lines);
    fg_buf_clear(out);
    while (text.len > 0) {
        struct fg_slice line = corpus_take(&text, '\n');
        const uint8_t *blank = memrchr(line.ptr, ' ', line.len);
        struct fg_slice stack = fg_slice_sub(line, 0, (size_t)(blank - line.ptr));

        assert_true(n < max);
        fg_buf_init(&lines[n].text, SIZE_MAX);
        assert_true(fg_parse_i64(fg_slice_sub(line, stack.len + 1, SIZE_MAX), &lines[n].count));
        while (stack.len > 0) {
            put_frame(corpus_take(&stack, ';'), &lines[n].text);
            fg_buf_putc(&lines[n].text, ';');
        }
        n++;
    }
    qsort(lines, n, sizeof *lines, line_order);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && line_order(&lines[i], &lines[i + 1]) == 0) {
            lines[i + 1].count += lines[i].count;
        } else {
            fg_buf_put(out, fg_buf_slice(&lines[i].text));
            fg_buf_printf(out, " %lld\n", (long long)lines[i].count);
        }
        fg_buf_done(&lines[i].text);
    }
    free(lines);
}

static bool same_stacks(const struct fg_buf *want, const struct fg_buf *ours)
{
    struct fg_buf left, right;

    fg_buf_init(&left, SIZE_MAX);
    fg_buf_init(&right, SIZE_MAX);
    normalise(fg_buf_slice(want), &left);
    normalise(fg_buf_slice(ours), &right);
    bool same = fg_slice_eq(fg_buf_slice(&left), fg_buf_slice(&right));
    fg_buf_done(&left);
    fg_buf_done(&right);
    return same;
}

/* Every sample type that Pyroscope made of the recording; how many those were. */
static size_t compare_peer(struct fg_slice file, struct decoded *decoded, bool *ret_fit)
{
    struct fg_buf name, type, want, ours;
    size_t compared = 0;

    fg_buf_init(&name, SIZE_MAX);
    fg_buf_init(&type, SIZE_MAX);
    fg_buf_init(&want, SIZE_MAX);
    fg_buf_init(&ours, SIZE_MAX);
    fg_buf_puts(&name, "jfr-expected/");
    fg_buf_put(&name, fg_slice_sub(file, strlen("jfr/pyroscope-"), SIZE_MAX));
    for (size_t i = 0; i < decoded->n_batches; i++) {
        const struct fg_batch *batch = &decoded->batches[i];

        for (uint32_t t = 0; t < batch->n_types; t++) {
            fg_buf_clear(&type);
            fg_buf_printf(&type, "%.*s_%.*s_%.*s_%.*s_%.*s.17241709254077376921.pb.gz.0%c",
                          FG_S(fg_labels_get(&batch->profiles[0].labels, "__name__")),
                          FG_S(batch->types[t].type), FG_S(batch->types[t].unit),
                          FG_S(batch->period_type.type), FG_S(batch->period_type.unit), '\0');
            if (!corpus_expected(fg_buf_slice(&name), (const char *)type.ptr, &want)) {
                print_message("  %s is not expected\n", (const char *)type.ptr);
                *ret_fit = false;
                continue;
            }
            fg_buf_clear(&ours);
            batch_folded(batch, t, &ours);
            if (!same_stacks(&want, &ours)) {
                print_message("  stacks differ from %s\n", (const char *)type.ptr);
                *ret_fit = false;
            }
            compared++;
        }
    }
    fg_buf_done(&name);
    fg_buf_done(&type);
    fg_buf_done(&want);
    fg_buf_done(&ours);
    return compared;
}

/* ---- the JDK's stacks ---- */

/* As compare_peer(), with what the JDK's tools print. */
static size_t compare_jdk(struct fg_slice file, struct decoded *decoded, bool *ret_fit)
{
    static const struct {
        const char *event, *name, *type;
        int64_t unit;
    } events[] = {
        {"jdk.ExecutionSample.STATE_DEFAULT.count", "process_cpu", "cpu", PERIOD_NS},
        {"jdk.ExecutionSample.STATE_RUNNABLE.count", "process_cpu", "cpu", PERIOD_NS},
        {"jdk.ObjectAllocationInNewTLAB.count", "memory", "alloc_in_new_tlab_objects", 1},
        {"jdk.ObjectAllocationOutsideTLAB.count", "memory", "alloc_outside_tlab_objects", 1},
        {"jdk.ObjectAllocationSample.count", "memory", "alloc_sample_objects", 1},
    };
    struct fg_buf want, ours;
    size_t compared = 0;

    /* They look ids of the second chunk up in the first: two_chunks_are_two_recordings(). */
    if (fg_slice_is(file, TWO_CHUNKS))
        return 0;
    fg_buf_init(&want, SIZE_MAX);
    fg_buf_init(&ours, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(events); i++) {
        uint32_t type = 0;
        struct fg_batch *batch = batch_with(decoded, events[i].name, events[i].type, &type);

        if (batch == NULL || !corpus_expected(file, events[i].event, &want))
            continue;
        for (uint32_t s = 0; s < batch->profiles[0].n_samples; s++)
            batch->profiles[0].values[type * batch->profiles[0].n_samples + s] /= events[i].unit;
        fg_buf_clear(&ours);
        batch_folded(batch, type, &ours);
        if (!same_stacks(&want, &ours)) {
            print_message("  stacks differ from %s\n", events[i].event);
            *ret_fit = false;
        }
        compared++;
    }
    fg_buf_done(&want);
    fg_buf_done(&ours);
    return compared;
}

/* ---- rows ---- */

struct tally {
    size_t rows, refused, compared, bad;
};

static bool verdict_fits(const struct corpus_row *row, struct decoded *decoded)
{
    if (decoded->code != FG_OK)
        return fg_slice_starts(row->expect, "reject") && fg_code_http(decoded->code) / 100 == 4;
    if (fg_slice_is(row->expect, "reject"))
        return false;
    if (fg_slice_is(row->expect, "reject-or-empty"))
        return decoded->n_batches == 0;
    return totals_fit(decoded, row->totals);
}

static void try_row(const struct corpus_row *row, struct tally *tally)
{
    struct fg_buf file, body;
    struct decoded decoded;
    char name[512];
    bool fit;

    fg_buf_init(&file, SIZE_MAX);
    fg_buf_init(&body, SIZE_MAX);
    (void)snprintf(name, sizeof name, "%.*s", FG_S(row->file));
    assert_true(corpus_read(name, &file));
    assert_true(corpus_unpack(&file, &body));
    decode(fg_buf_slice(&body), FG_LIT(""), &decoded);
    fit = verdict_fits(row, &decoded);
    if (fg_slice_starts(row->file, "jfr/pyroscope-"))
        tally->compared += compare_peer(row->file, &decoded, &fit);
    else if (fg_slice_starts(row->file, "jfr/made-"))
        tally->compared += compare_jdk(row->file, &decoded, &fit);
    if (!fit || decoded.code != FG_OK)
        print_message("%s: expected %.*s, got %s %s\n", name, FG_S(row->expect),
                      fg_code_name(decoded.code), decoded.code == FG_OK ? "" : decoded.err.msg);
    tally->rows++;
    tally->refused += decoded.code != FG_OK;
    tally->bad += !fit;
    decoded_done(&decoded);
    fg_buf_done(&file);
    fg_buf_done(&body);
}

static void need_corpus(const char *name, struct fg_buf *out)
{
    fg_buf_init(out, SIZE_MAX);
    if (corpus_read(name, out))
        return;
    print_message("no %s in %s\n", name, corpus_folder());
    fg_buf_done(out);
    skip();
}

static void rows(void **state)
{
    struct tally tally = {0};
    struct fg_buf manifest;
    struct corpus_row row;
    struct fg_slice rest;

    (void)state;
    need_corpus("manifest.tsv", &manifest);
    for (rest = fg_buf_slice(&manifest); corpus_next_row(&rest, &row);)
        if (fg_slice_ends(row.file, ".jfr") || fg_slice_ends(row.file, ".jfr.gz"))
            try_row(&row, &tally);
    fg_buf_done(&manifest);
    print_message("%zu rows, %zu refused, %zu compared stack by stack, %zu wrong\n", tally.rows,
                  tally.refused, tally.compared, tally.bad);
    assert_int_equal(tally.bad, 0);
    assert_true(tally.rows > 30 && tally.compared > 0);
}

/* ---- chunks ---- */

/* "a;b 3" lines of what was recorded in both. */
static void put_cpu(struct fg_slice in, struct fg_buf *out)
{
    struct decoded decoded;
    uint32_t type = 0;

    decode(in, FG_LIT(""), &decoded);
    assert_int_equal(decoded.code, FG_OK);
    batch_folded(batch_with(&decoded, "process_cpu", "cpu", &type), type, out);
    decoded_done(&decoded);
}

/*
 * Two recordings of one agent, one after the other: ids of the second mean other methods and stacks
 * than those of the first. Pyroscope and the JDK's tools mix them up.
 */
static void two_chunks_are_two_recordings(void **state)
{
    struct fg_buf file, apart, together, left, right;
    struct fg_cur cur;
    uint64_t size;

    (void)state;
    need_corpus(TWO_CHUNKS, &file);
    fg_buf_init(&apart, SIZE_MAX);
    fg_buf_init(&together, SIZE_MAX);
    fg_buf_init(&left, SIZE_MAX);
    fg_buf_init(&right, SIZE_MAX);
    cur = fg_cur(fg_slice_sub(fg_buf_slice(&file), 8, SIZE_MAX));
    size = fg_cur_be64(&cur);
    put_cpu(fg_slice_sub(fg_buf_slice(&file), 0, size), &apart);
    put_cpu(fg_slice_sub(fg_buf_slice(&file), size, SIZE_MAX), &apart);
    put_cpu(fg_buf_slice(&file), &together);
    normalise(fg_buf_slice(&apart), &left);
    normalise(fg_buf_slice(&together), &right);
    assert_true(fg_slice_eq(fg_buf_slice(&left), fg_buf_slice(&right)));
    assert_true(fg_slice_search(fg_buf_slice(&left), "Burn.main;Burn.burn_alpha; ") != SIZE_MAX);
    fg_buf_done(&file);
    fg_buf_done(&apart);
    fg_buf_done(&together);
    fg_buf_done(&left);
    fg_buf_done(&right);
}

/* ---- labels ---- */

/*
 * The agent's own example, and what Pyroscope made of it: a profile without labels and one for each
 * of four threads, each in a file whose name has a hash of its labels.
 */
static void labels_make_profiles(void **state)
{
    static const char *const hashes[] = {"15666661103234080825", "16370823494798218517",
                                         "2539015855607244867", "5571933481434853072"};
    struct fg_buf file, body, packed, labels, want, ours;
    struct decoded decoded;
    unsigned found = 0;

    (void)state;
    need_corpus("jfr/pyroscope-dump1.jfr.gz", &file);
    fg_buf_init(&packed, SIZE_MAX);
    fg_buf_init(&body, SIZE_MAX);
    fg_buf_init(&labels, SIZE_MAX);
    fg_buf_init(&want, SIZE_MAX);
    fg_buf_init(&ours, SIZE_MAX);
    assert_true(corpus_read("jfr/pyroscope-dump1.labels.pb.gz", &packed));
    assert_true(corpus_unpack(&file, &body) && corpus_unpack(&packed, &labels));
    decode(fg_buf_slice(&body), fg_buf_slice(&labels), &decoded);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.n_batches, 1);
    assert_int_equal(decoded.batches[0].n_profiles, 1 + FG_COUNT(hashes));
    for (uint32_t p = 0; p < decoded.batches[0].n_profiles; p++) {
        const struct fg_profile *profile = &decoded.batches[0].profiles[p];
        bool labelled = fg_labels_get(&profile->labels, "thread_name").len > 0;

        fg_buf_clear(&ours);
        profile_folded(&decoded.batches[0], profile, 0, &ours);
        for (size_t i = 0; labelled && i < FG_COUNT(hashes); i++) {
            char type[200];

            (void)snprintf(type, sizeof type,
                           "process_cpu_cpu_nanoseconds_cpu_nanoseconds.%s.pb.gz.0", hashes[i]);
            assert_true(corpus_expected(FG_LIT("jfr-expected/dump1.jfr.gz"), type, &want));
            if (same_stacks(&want, &ours))
                found |= 1u << i;
        }
    }
    assert_int_equal(found, (1u << FG_COUNT(hashes)) - 1);
    decoded_done(&decoded);
    fg_buf_done(&file);
    fg_buf_done(&body);
    fg_buf_done(&packed);
    fg_buf_done(&labels);
    fg_buf_done(&want);
    fg_buf_done(&ours);
}

/* The part of that name, unpacked; empty when there is none. */
static void read_part(struct fg_slice form, const char *name, struct fg_buf *out)
{
    char type[100] = "multipart/form-data; boundary=";
    struct fg_multipart_part part;
    struct fg_multipart parts;
    struct fg_buf packed;
    struct fg_err err;

    assert_true(fg_slice_starts(form, "--"));
    (void)snprintf(type + strlen(type), sizeof type - strlen(type), "%.*s",
                   FG_S(fg_slice_sub(form, 2, fg_slice_find(form, '\r') - 2)));
    assert_int_equal(fg_multipart_init(&parts, fg_cstr(type), form, &err), FG_OK);
    for (;;) {
        assert_int_equal(fg_multipart_next(&parts, &part, &err), FG_OK);
        if (parts.ended)
            return;
        if (!fg_slice_is(part.name, name))
            continue;
        fg_buf_init(&packed, SIZE_MAX);
        fg_buf_put(&packed, part.data);
        assert_true(corpus_unpack(&packed, out));
        fg_buf_done(&packed);
    }
}

/* What an agent really sent, with labels that change while the program runs. */
static void uploads_of_the_agent(void **state)
{
    static const struct {
        const char *file;
        int64_t samples;
    } uploads[] = {{"clients/java-a/0000.body", 175},
                   {"clients/java-a/0001.body", 196},
                   {"clients/java-a/0002.body", 409},
                   {"clients/java-a/0003.body", 179}};
    struct fg_buf file, body, labels;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(uploads); i++) {
        struct decoded decoded;
        uint32_t labelled = 0;

        need_corpus(uploads[i].file, &file);
        fg_buf_init(&body, SIZE_MAX);
        fg_buf_init(&labels, SIZE_MAX);
        read_part(fg_buf_slice(&file), "jfr", &body);
        read_part(fg_buf_slice(&file), "labels", &labels);
        assert_true(labels.len > 0);
        decode(fg_buf_slice(&body), fg_buf_slice(&labels), &decoded);
        assert_int_equal(decoded.code, FG_OK);
        assert_int_equal(decoded.n_batches, 1);
        assert_int_equal(batch_total(&decoded.batches[0], 0), uploads[i].samples * PERIOD_NS);
        for (uint32_t p = 0; p < decoded.batches[0].n_profiles; p++) {
            const struct fg_labels *set = &decoded.batches[0].profiles[p].labels;

            assert_true(fg_slice_is(fg_labels_get(set, "jfr_event"), "itimer"));
            labelled += set->count > 3; /* __name__, jfr_event, service_name */
        }
        assert_true(labelled > 0);
        decoded_done(&decoded);
        fg_buf_done(&file);
        fg_buf_done(&body);
        fg_buf_done(&labels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(two_chunks_are_two_recordings),
        cmocka_unit_test(labels_make_profiles),
        cmocka_unit_test(uploads_of_the_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
