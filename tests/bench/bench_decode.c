/*
 * What decoding costs, format by format, and what inflating the same file costs.
 *
 *     bench_decode FORMAT FILE...
 *
 * Each file is decoded over and over for half a second of CPU time, in an arena that is used again
 * as a worker's is, and so is inflated if it is packed. The best of many short runs counts: on a
 * shared machine it varies least.
 */
#include "common/net/inflate.h"
#include "proto/folded.h"
#include "proto/jfr/jfr.h"
#include "proto/otlp/otlp.h"
#include "proto/pprof/pprof.h"
#include "proto/speedscope.h"
#include "proto/tree_formats.h"

#include <stdlib.h>
#include <time.h>

enum {
    BODY_MAX_BYTES = 256 * 1024 * 1024,
    ARENA_MAX_BYTES = 1024 * 1024 * 1024,
    RUN_NS = 500 * 1000 * 1000,
};

static int64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- formats ---- */

struct decoded {
    uint64_t profiles, samples;
};

static enum fg_code count(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct decoded *decoded = arg;

    (void)err;
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        decoded->samples += batch->profiles[i].n_samples;
    decoded->profiles += batch->n_profiles;
    return FG_OK;
}

static struct fg_upload upload(void)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                                       {FG_LIT("service_name"), FG_LIT("shop")}};

    return (struct fg_upload){
        .labels = {labels, FG_COUNT(labels)}, .time_ns = 1, .limits = FG_DECODE_LIMITS_DEFAULT};
}

typedef enum fg_code (*decoder)(struct fg_slice in, struct fg_arena *arena, struct decoded *decoded,
                                struct fg_err *err);

static enum fg_code decode_pprof(struct fg_slice in, struct fg_arena *arena,
                                 struct decoded *decoded, struct fg_err *err)
{
    struct fg_pprof_request request = {.upload = upload()};
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_batch batch = {0};

    if (fg_pprof_decode(in, &request, arena, &batch, &info, &counts, err) != FG_OK)
        return err->code;
    return count(&batch, decoded, err);
}

static enum fg_code decode_jfr(struct fg_slice in, struct fg_arena *arena, struct decoded *decoded,
                               struct fg_err *err)
{
    struct fg_jfr_request request = {.upload = upload(), .sample_rate = 100};
    struct fg_decode_counts counts = {0};

    return fg_jfr_decode(in, &request, arena, count, decoded, &counts, err);
}

static enum fg_code decode_folded(struct fg_slice in, struct fg_arena *arena,
                                  struct decoded *decoded, struct fg_err *err)
{
    struct fg_folded_request request = {.upload = upload(), .factor = 1};
    struct fg_value_type type = {FG_LIT("samples"), FG_LIT("count")};
    struct fg_batch batch = {.types = &type, .n_types = 1};
    struct fg_decode_counts counts = {0};

    if (fg_folded_decode(in, &request, arena, &batch, &counts, err) != FG_OK)
        return err->code;
    return count(&batch, decoded, err);
}

static enum fg_code decode_trees(struct fg_slice in, enum fg_tree_format format,
                                 struct fg_arena *arena, struct decoded *decoded,
                                 struct fg_err *err)
{
    struct fg_tree_request request = {.upload = upload(), .format = format, .factor = 1};
    struct fg_value_type type = {FG_LIT("samples"), FG_LIT("count")};
    struct fg_batch batch = {.types = &type, .n_types = 1};
    struct fg_decode_counts counts = {0};

    if (fg_tree_format_decode(in, &request, arena, &batch, &counts, err) != FG_OK)
        return err->code;
    return count(&batch, decoded, err);
}

static enum fg_code decode_tree(struct fg_slice in, struct fg_arena *arena, struct decoded *decoded,
                                struct fg_err *err)
{
    return decode_trees(in, FG_FORMAT_TREE, arena, decoded, err);
}

static enum fg_code decode_trie(struct fg_slice in, struct fg_arena *arena, struct decoded *decoded,
                                struct fg_err *err)
{
    return decode_trees(in, FG_FORMAT_TRIE, arena, decoded, err);
}

static enum fg_code name_series(const struct fg_speedscope_profile *profile, void *arg,
                                struct fg_speedscope_series *ret_series, struct fg_err *err)
{
    (void)profile;
    (void)arg;
    (void)err;
    *ret_series = (struct fg_speedscope_series){
        .labels = upload().labels,
        .type = {FG_LIT("wall"), FG_LIT("nanoseconds")},
        .factor = 1,
    };
    return FG_OK;
}

static enum fg_code decode_speedscope(struct fg_slice in, struct fg_arena *arena,
                                      struct decoded *decoded, struct fg_err *err)
{
    struct fg_speedscope_request request = {.upload = upload(), .namer = name_series};
    struct fg_decode_counts counts = {0};

    return fg_speedscope_decode(in, &request, arena, count, decoded, &counts, err);
}

static enum fg_code decode_otlp(struct fg_slice in, struct fg_arena *arena, struct decoded *decoded,
                                struct fg_err *err)
{
    struct fg_otlp_request request = {.upload = upload(),
                                      .form = in.len > 0 && in.ptr[0] == '{' ? FG_OTLP_JSON
                                                                             : FG_OTLP_PROTOBUF};
    struct fg_decode_counts counts = {0};
    struct fg_otlp_result result;

    return fg_otlp_decode(in, &request, arena, count, decoded, &result, &counts, err);
}

static const struct {
    const char *name;
    decoder decode;
} formats[] = {
    {"pprof", decode_pprof},
    {"jfr", decode_jfr},
    {"folded", decode_folded},
    {"otlp", decode_otlp},
    {"speedscope", decode_speedscope},
    {"tree", decode_tree},
    {"trie", decode_trie},
};

/* ---- measuring ---- */

static bool read_file(const char *path, struct fg_buf *out)
{
    uint8_t chunk[65536];
    FILE *file = fopen(path, "rb");
    size_t got;

    fg_buf_clear(out);
    if (file == NULL)
        return false;
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        fg_buf_append(out, chunk, got);
    (void)fclose(file);
    return true;
}

/* Best time of one decoding, in ns; 0: it is refused. */
static int64_t time_decode(decoder decode, struct fg_slice in, struct decoded *ret_decoded,
                           struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
    int64_t start = cpu_ns(), from, best = INT64_MAX;

    for (from = start; from - start < RUN_NS; from = cpu_ns()) {
        *ret_decoded = (struct decoded){0};
        if (decode(in, arena, ret_decoded, err) != FG_OK) {
            best = 0;
            break;
        }
        best = FG_MIN(best, cpu_ns() - from);
        fg_arena_reset(arena);
    }
    fg_arena_destroy(arena);
    return best;
}

static int64_t time_inflate(struct fg_slice in, enum fg_coding coding, struct fg_buf *out)
{
    int64_t start = cpu_ns(), from, best = INT64_MAX;
    struct fg_err err;

    for (from = start; from - start < RUN_NS; from = cpu_ns()) {
        if (fg_inflate(in, coding, BODY_MAX_BYTES, out, &err) != FG_OK)
            return 0;
        best = FG_MIN(best, cpu_ns() - from);
    }
    return best;
}

static bool measure(decoder decode, const char *path, struct fg_buf *file, struct fg_buf *body)
{
    enum fg_coding coding;
    int64_t decode_ns, inflate_ns = 0;
    struct decoded decoded;
    struct fg_slice in;
    struct fg_err err;

    if (!read_file(path, file)) {
        (void)fprintf(stderr, "%s: cannot be read\n", path);
        return false;
    }
    in = fg_buf_slice(file);
    coding = fg_coding_sniff(in);
    if (coding != FG_CODING_IDENTITY) {
        inflate_ns = time_inflate(in, coding, body);
        in = fg_buf_slice(body);
    }
    decode_ns = time_decode(decode, in, &decoded, &err);
    if (decode_ns == 0) {
        (void)fprintf(stderr, "%s: %s\n", path, err.msg);
        return false;
    }
    printf("| %s | %zu | %llu | %llu | %.1f | %.1f | %.0f |", path, in.len,
           (unsigned long long)decoded.profiles, (unsigned long long)decoded.samples,
           (double)decode_ns / 1e3,
           decoded.profiles == 0 ? 0 : (double)decode_ns / 1e3 / (double)decoded.profiles,
           (double)in.len * 1e3 / (double)decode_ns);
    if (inflate_ns > 0)
        printf(" %.1f | %.2f |\n", (double)inflate_ns / 1e3,
               (double)decode_ns / (double)inflate_ns);
    else
        printf(" | |\n");
    return true;
}

int main(int argc, char **argv)
{
    struct fg_buf file, body;
    decoder decode = NULL;
    bool good = true;

    for (size_t i = 0; argc > 2 && i < FG_COUNT(formats); i++)
        if (strcmp(argv[1], formats[i].name) == 0)
            decode = formats[i].decode;
    if (decode == NULL) {
        (void)fprintf(stderr,
                      "usage: bench_decode pprof|jfr|folded|otlp|speedscope|tree|trie FILE...\n");
        return 2;
    }
    fg_buf_init(&file, SIZE_MAX);
    fg_buf_init(&body, SIZE_MAX);
    printf("| file | bytes | profiles | samples | decode us | us a profile | MB/s | inflate us | "
           "decode / inflate |\n|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 2; i < argc; i++)
        good = measure(decode, argv[i], &file, &body) && good;
    fg_buf_done(&file);
    fg_buf_done(&body);
    return good ? 0 : 1;
}
