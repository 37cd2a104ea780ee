#include "tests/bench/stream.h"

#include "common/net/inflate.h"
#include "proto/pprof.h"

#include <stdlib.h>
#include <time.h>

enum { FILE_MAX_BYTES = 256 * 1024 * 1024 };

int64_t bench_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void bench_must(enum fg_code code, const struct fg_err *err)
{
    if (code == FG_OK)
        return;
    (void)fprintf(stderr, "bench: %s\n", err->msg);
    exit(1);
}

/* ---- files ---- */

static void read_file(const char *path, struct fg_buf *out)
{
    uint8_t chunk[65536];
    FILE *file = fopen(path, "rb");
    struct fg_buf packed;
    struct fg_err err;
    size_t got;

    if (file == NULL) {
        (void)fprintf(stderr, "bench: %s cannot be read\n", path);
        exit(1);
    }
    fg_buf_init(&packed, FILE_MAX_BYTES);
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        fg_buf_append(&packed, chunk, got);
    (void)fclose(file);
    bench_must(fg_inflate(fg_buf_slice(&packed), fg_coding_sniff(fg_buf_slice(&packed)),
                          FILE_MAX_BYTES, out, &err),
               &err);
    fg_buf_done(&packed);
}

void bench_decode(const char *path, struct fg_arena *arena, struct fg_buf *body,
                  struct fg_batch *ret_batch)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("profile")},
                                       {FG_LIT("service_name"), FG_LIT("bench")}};
    struct fg_pprof_request request = {.upload = {.labels = {labels, FG_COUNT(labels)},
                                                  .time_ns = STREAM_START_NS,
                                                  .limits = FG_DECODE_LIMITS_DEFAULT}};
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_err err;

    read_file(path, body);
    *ret_batch = (struct fg_batch){0};
    bench_must(
        fg_pprof_decode(fg_buf_slice(body), &request, arena, ret_batch, &info, &counts, &err),
        &err);
}

/* ---- what is written ---- */

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

struct fg_block_writer *written_start(struct written *written)
{
    struct fg_block_sink sink = {append, &written->file};

    fg_buf_init(&written->file, SIZE_MAX);
    written->write_ns = 0;
    return fg_block_writer_create(&sink, 0);
}

/* ---- resampled CPU profiles ---- */

void stream_open(struct stream *stream, char **paths, int count)
{
    stream->resample = resample_create();
    for (int i = 0; i < count; i++) {
        struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
        struct fg_batch batch;
        struct fg_buf body;

        fg_buf_init(&body, SIZE_MAX);
        bench_decode(paths[i], arena, &body, &batch);
        resample_learn(stream->resample, &batch);
        fg_buf_done(&body);
        fg_arena_destroy(arena);
    }
}

void stream_close(struct stream *stream)
{
    resample_destroy(stream->resample);
}

static uint64_t seed_of(const struct stream *stream, uint32_t instance, uint32_t round)
{
    return (uint64_t)(stream->first_round + round) * stream->instances + instance + 1;
}

static uint32_t *count_uses(const struct stream *stream)
{
    uint32_t stacks[STREAM_TICKS], cap = 1 << 16;
    uint32_t *uses = fg_calloc(cap, sizeof *uses);
    uint64_t counts[STREAM_TICKS];

    for (uint32_t i = 0; i < stream->instances; i++)
        for (uint32_t k = 0; k < stream->rounds; k++) {
            uint32_t n = resample_draw(stream->resample, seed_of(stream, i, k), STREAM_TICKS,
                                       stacks, counts);
            uint32_t needed = resample_tree(stream->resample)->n_nodes + 1;

            if (needed > cap) {
                uses = fg_realloc(uses, (size_t)needed * 2 * sizeof *uses);
                memset(uses + cap, 0, ((size_t)needed * 2 - cap) * sizeof *uses);
                cap = needed * 2;
            }
            for (uint32_t s = 0; s < n; s++)
                uses[stacks[s]]++;
        }
    return uses;
}

static void write_series(const struct stream *stream, struct fg_block_writer *writer,
                         uint32_t instance, struct written *written)
{
    static const struct fg_value_type types[] = {{FG_LIT("samples"), FG_LIT("count")},
                                                 {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    char pod[64];
    struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                                {FG_LIT("namespace"), FG_LIT("shop")},
                                {FG_LIT("pod"), {NULL, 0}},
                                {FG_LIT("region"), FG_LIT("eu-west-1")},
                                {FG_LIT("service_name"), FG_LIT("bench")},
                                {FG_LIT("version"), FG_LIT("v1.42.0")},
                                {FG_LIT("zone"), FG_LIT("eu-west-1a")}};
    struct fg_block_series series = {
        {labels, FG_COUNT(labels)}, types, 2, {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    uint32_t stacks[STREAM_TICKS];
    uint64_t values[2 * STREAM_TICKS];
    struct fg_err err;
    uint64_t noise = instance;

    (void)snprintf(pod, sizeof pod, "bench-6c9f7b8d5-%05u", instance);
    labels[2].value = fg_cstr(pod);
    bench_must(fg_block_series_begin(writer, &series, &err), &err);
    for (uint32_t k = 0; k < stream->rounds; k++) {
        uint64_t seed = seed_of(stream, instance, k);
        uint32_t n = resample_draw(stream->resample, seed, STREAM_TICKS, stacks, values);
        struct fg_block_profile profile = {.stacks = stacks, .values = values, .n_samples = n};
        int64_t from;

        noise = fg_mix64(noise + 1);
        profile.id = fg_hash128(fg_bytes(&seed, sizeof seed));
        profile.time_ns = STREAM_START_NS + (stream->first_round + k) * STREAM_INTERVAL_NS +
                          (int64_t)(noise % 20000000);
        profile.duration_ns = STREAM_INTERVAL_NS + (int64_t)((noise >> 32) % 5000000);
        profile.period = 10000000;
        profile.shard = (uint16_t)(0x1230 | (instance & 3));
        profile.window =
            (uint32_t)((profile.time_ns + profile.duration_ns) / (60 * STREAM_INTERVAL_NS));
        for (uint32_t i = 0; i < n; i++)
            values[n + i] = values[i] * 10000000;
        from = bench_cpu_ns();
        bench_must(fg_block_profile_add(writer, &profile, &err), &err);
        written->write_ns += bench_cpu_ns() - from;
    }
}

void stream_write(const struct stream *stream, struct written *written)
{
    struct fg_block_writer *writer = written_start(written);
    uint32_t *uses = count_uses(stream);
    struct fg_block_summary summary;
    struct fg_err err;
    int64_t from = bench_cpu_ns();

    bench_must(fg_block_part_begin(writer, FG_LIT("tenant"), FG_LIT("bench"),
                                   resample_tree(stream->resample), uses, &err),
               &err);
    written->write_ns += bench_cpu_ns() - from;
    for (uint32_t i = 0; i < stream->instances; i++)
        write_series(stream, writer, i, written);
    from = bench_cpu_ns();
    bench_must(fg_block_part_end(writer, &err), &err);
    bench_must(fg_block_writer_finish(writer, &summary, &err), &err);
    written->write_ns += bench_cpu_ns() - from;
    fg_block_writer_destroy(writer);
    free(uses);
}
