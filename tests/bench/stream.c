#include "tests/bench/stream.h"

#include "common/model/tenant_id.h"
#include "common/net/inflate.h"
#include "common/storage/rollup/whole.h"
#include "proto/pprof/pprof.h"

#include <stdlib.h>
#include <time.h>

enum {
    FILE_MAX_BYTES = 256 * 1024 * 1024,
    CUT_DEPTH_MAX = 2048,
    TICK_NS = 10 * 1000 * 1000,      /* 100 Hz */
    LONGER_MAX_NS = 5 * 1000 * 1000, /* than 10 s, which profiles are by so much */
};

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

bool bench_read(const char *path, struct fg_buf *out)
{
    uint8_t chunk[65536];
    FILE *file = fopen(path, "re");
    size_t got;

    if (file == NULL)
        return false;
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        fg_buf_append(out, chunk, got);
    (void)fclose(file);
    return true;
}

static void read_profile(const char *path, struct fg_buf *out)
{
    struct fg_buf packed;
    struct fg_err err;

    fg_buf_init(&packed, FILE_MAX_BYTES);
    if (!bench_read(path, &packed)) {
        (void)fprintf(stderr, "bench: %s cannot be read\n", path);
        exit(1);
    }
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

    read_profile(path, body);
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

/* ---- the stacks of one write ---- */

struct stream_cut {
    uint32_t *locals; /* of a node of all stacks, its number in the tree + 1; 0: it is not there */
    uint32_t cap_locals;
    uint32_t *globals; /* and back: [tree.n_nodes] */
    uint32_t cap_globals;
    struct fg_tree tree;
    struct fg_symbols_import import;
    uint32_t *uses; /* [1 + tree.n_nodes] */
    uint32_t cap_uses;
    uint32_t n_before; /* nodes of the write before: this one's are about as many */
};

static void cut_begin(struct stream *stream)
{
    const struct fg_tree *all = resample_tree(stream->resample);
    struct stream_cut *cut = stream->cut;

    if (all->n_nodes > cut->cap_locals) {
        cut->locals = fg_realloc(cut->locals, (size_t)all->n_nodes * 2 * sizeof *cut->locals);
        memset(cut->locals + cut->cap_locals, 0,
               ((size_t)all->n_nodes * 2 - cut->cap_locals) * sizeof *cut->locals);
        cut->cap_locals = all->n_nodes * 2;
    }
    fg_tree_init(&cut->tree);
    fg_tree_reserve(&cut->tree, cut->n_before);
    fg_symbols_import_init(&cut->import, &cut->tree.symbols, &all->symbols);
}

static void cut_end(struct stream_cut *cut)
{
    cut->n_before = cut->tree.n_nodes;
    for (uint32_t i = 0; i < cut->tree.n_nodes; i++)
        cut->locals[cut->globals[i]] = 0;
    memset(cut->uses, 0, ((size_t)cut->tree.n_nodes + 1) * sizeof *cut->uses);
    fg_symbols_import_done(&cut->import);
    fg_tree_done(&cut->tree);
}

static void cut_reserve(struct stream_cut *cut, uint32_t count)
{
    if (count > cut->cap_globals) {
        cut->cap_globals = count * 2;
        cut->globals = fg_realloc(cut->globals, cut->cap_globals * sizeof *cut->globals);
    }
    if (count + 1 > cut->cap_uses) {
        uint32_t cap = (count + 1) * 2;

        cut->uses = fg_realloc(cut->uses, cap * sizeof *cut->uses);
        memset(cut->uses + cut->cap_uses, 0, (cap - cut->cap_uses) * sizeof *cut->uses);
        cut->cap_uses = cap;
    }
}

/* The number of a stack in the tree of this write. */
static uint32_t cut_take(struct stream_cut *cut, const struct fg_tree *all, uint32_t stack)
{
    uint32_t path[CUT_DEPTH_MAX], depth = 0, node = stack - 1, local;

    for (; node != FG_TREE_ROOT && cut->locals[node] == 0; node = all->parents[node]) {
        fg_assert(depth < CUT_DEPTH_MAX);
        path[depth++] = node;
    }
    local = node == FG_TREE_ROOT ? FG_TREE_ROOT : cut->locals[node] - 1;
    while (depth > 0) {
        node = path[--depth];
        local = fg_tree_child(&cut->tree, local,
                              fg_symbols_import_location(&cut->import, all->locations[node]));
        cut->locals[node] = local + 1;
        cut_reserve(cut, local + 1);
        cut->globals[local] = node;
    }
    cut->uses[local + 1]++;
    return local + 1;
}

/* ---- resampled CPU profiles ---- */

void stream_open(struct stream *stream, char **paths, int count)
{
    if (stream->start_ns == 0)
        stream->start_ns = STREAM_START_NS + STREAM_INTERVAL_NS + LONGER_MAX_NS;
    stream->interval_ns = stream->interval_ns == 0 ? STREAM_INTERVAL_NS : stream->interval_ns;
    stream->cut = fg_new(struct stream_cut);
    cut_reserve(stream->cut, 1);
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
    free(stream->cut->locals);
    free(stream->cut->globals);
    free(stream->cut->uses);
    free(stream->cut);
}

/* A write numbers its instances from 0 on. */
static uint32_t number_of(const struct stream *stream, uint32_t instance)
{
    return stream->first_instance + instance * FG_MAX(stream->instance_step, 1);
}

/* When the profile ends; another one for each. */
static int64_t until_of(const struct stream *stream, uint32_t instance, uint32_t round)
{
    int64_t phase_ns = (int64_t)(fg_mix64(number_of(stream, instance) + 1) %
                                 (uint64_t)(stream->interval_ns - STREAM_INTERVAL_NS / 50));

    return stream->start_ns + (int64_t)(stream->first_round + round) * stream->interval_ns +
           phase_ns;
}

/* Everything of a profile but its samples comes from that. */
static uint64_t seed_of(const struct stream *stream, uint32_t instance, uint32_t round)
{
    return fg_mix64((uint64_t)until_of(stream, instance, round)) + number_of(stream, instance);
}

/* All profiles of a write: for each `ticks` places for samples, of which it takes the first n. */
struct drawn {
    uint32_t *n;      /* [profiles] */
    uint32_t *stacks; /* [profiles][STREAM_TICKS]; numbered in the tree of the write */
    uint16_t *counts; /* [profiles][STREAM_TICKS] */
};

static void drawn_init(struct drawn *drawn, const struct stream *stream)
{
    size_t profiles = (size_t)stream->instances * stream->rounds;

    drawn->n = fg_malloc(profiles * sizeof *drawn->n);
    drawn->stacks = fg_malloc(profiles * STREAM_TICKS * sizeof *drawn->stacks);
    drawn->counts = fg_malloc(profiles * STREAM_TICKS * sizeof *drawn->counts);
}

static void drawn_done(struct drawn *drawn)
{
    free(drawn->n);
    free(drawn->stacks);
    free(drawn->counts);
}

static void draw(const struct stream *stream, struct drawn *drawn)
{
    size_t profile = 0;

    for (uint32_t i = 0; i < stream->instances; i++)
        for (uint32_t k = 0; k < stream->rounds; k++, profile++) {
            uint64_t counts[STREAM_TICKS];

            drawn->n[profile] = resample_draw(stream->resample, seed_of(stream, i, k), STREAM_TICKS,
                                              drawn->stacks + profile * STREAM_TICKS, counts);
            for (uint32_t s = 0; s < drawn->n[profile]; s++)
                drawn->counts[profile * STREAM_TICKS + s] = (uint16_t)counts[s];
        }
}

static void cut_out(const struct stream *stream, struct drawn *drawn)
{
    const struct fg_tree *all = resample_tree(stream->resample);

    for (size_t p = 0; p < (size_t)stream->instances * stream->rounds; p++)
        for (uint32_t s = 0; s < drawn->n[p]; s++) {
            uint32_t *stack = &drawn->stacks[p * STREAM_TICKS + s];

            *stack = cut_take(stream->cut, all, *stack);
        }
}

struct fg_profile_size stream_profile_size(uint32_t n_samples, uint64_t seed)
{
    uint64_t random = fg_mix64(seed), n = n_samples;

    return (struct fg_profile_size){.known = true,
                                    .wire_bytes = (uint32_t)(60 * n + random % (8 * n + 1)),
                                    .raw_bytes =
                                        (uint32_t)(180 * n + (random >> 32) % (16 * n + 1))};
}

static void write_profile(const struct stream *stream, struct fg_block_writer *writer,
                          struct fg_rollup_whole *whole, uint32_t instance, uint32_t round,
                          const struct drawn *drawn)
{
    size_t number = (size_t)instance * stream->rounds + round;
    uint32_t n = drawn->n[number];
    uint64_t seed = seed_of(stream, instance, round), values[2 * STREAM_TICKS];
    int64_t until_ns = until_of(stream, instance, round);
    int64_t duration_ns = STREAM_INTERVAL_NS + (int64_t)(fg_mix64(seed) % LONGER_MAX_NS);
    struct fg_block_profile profile = {
        .id = fg_hash128(fg_bytes(&seed, sizeof seed)),
        .time_ns = until_ns - duration_ns,
        .duration_ns = duration_ns,
        .period = TICK_NS,
        .shard = (uint16_t)(STREAM_SHARD + number_of(stream, instance) % STREAM_SHARDS),
        .window = (uint32_t)(until_ns / (60 * STREAM_INTERVAL_NS)),
        .size = stream_profile_size(n, seed),
        .n_samples = n,
        .stacks = drawn->stacks + number * STREAM_TICKS,
        .values = values,
    };
    struct fg_err err;

    for (uint32_t i = 0; i < n; i++) {
        values[i] = drawn->counts[number * STREAM_TICKS + i];
        values[n + i] = values[i] * TICK_NS;
    }
    bench_must(fg_block_profile_add(writer, &profile, &err), &err);
    fg_rollup_whole_add(whole, instance, &profile);
}

/* A series and what its strings are in. */
struct instance {
    struct fg_block_series series;
    struct fg_label labels[7];
    char pod[64], version[32], zone[32];
};

static void make_instance(const struct stream *stream, uint32_t number, struct instance *instance)
{
    static const struct fg_value_type types[] = {{FG_LIT("samples"), FG_LIT("count")},
                                                 {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    static const char *const regions[] = {"ap-south-1", "eu-west-1", "us-east-1"};
    const char *region = regions[number % FG_COUNT(regions)];

    (void)snprintf(instance->pod, sizeof instance->pod, "bench-6c9f7b8d5-%05u", number);
    (void)snprintf(instance->version, sizeof instance->version, "v1.%u.0", stream->version);
    (void)snprintf(instance->zone, sizeof instance->zone, "%sa", region);
    const struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                                      {FG_LIT("namespace"), FG_LIT("shop")},
                                      {FG_LIT("pod"), fg_cstr(instance->pod)},
                                      {FG_LIT("region"), fg_cstr(region)},
                                      {FG_LIT("service_name"), FG_LIT("bench")},
                                      {FG_LIT("version"), fg_cstr(instance->version)},
                                      {FG_LIT("zone"), fg_cstr(instance->zone)}};
    memcpy(instance->labels, labels, sizeof labels);
    instance->series = (struct fg_block_series){{instance->labels, FG_COUNT(labels)},
                                                types,
                                                FG_COUNT(types),
                                                {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
}

/* As an ingester does (ingester/segments/build.c). */
static void write_part(const struct stream *stream, struct fg_block_writer *writer,
                       const struct fg_block_series *series, const struct drawn *drawn)
{
    fg_auto(fg_rollup_whole) *whole = NULL;
    struct fg_err err;

    bench_must(fg_block_part_begin(writer, FG_LIT(FG_TENANT_ONLY), FG_LIT("bench"),
                                   &stream->cut->tree, stream->cut->uses, &err),
               &err);
    whole = fg_rollup_whole_create(writer, &stream->cut->tree, stream->cut->uses, series,
                                   stream->instances);
    for (uint32_t i = 0; i < stream->instances; i++) {
        bench_must(fg_block_series_begin(writer, &series[i], &err), &err);
        for (uint32_t k = 0; k < stream->rounds; k++)
            write_profile(stream, writer, whole, i, k, drawn);
    }
    bench_must(fg_rollup_whole_write(whole, &err), &err);
    bench_must(fg_block_part_end(writer, &err), &err);
}

static void write_all(const struct stream *stream, const struct drawn *drawn,
                      struct written *written)
{
    struct fg_block_writer *writer = written_start(written);
    struct instance *instances = fg_calloc(stream->instances, sizeof *instances);
    struct fg_block_series *series = fg_calloc(stream->instances, sizeof *series);
    int64_t from = bench_cpu_ns();
    struct fg_err err;

    for (uint32_t i = 0; i < stream->instances; i++) {
        make_instance(stream, number_of(stream, i), &instances[i]);
        series[i] = instances[i].series;
    }
    fg_block_writer_set_keys(writer, stream->keys);
    write_part(stream, writer, series, drawn);
    bench_must(fg_block_writer_finish(writer, &written->summary, &err), &err);
    written->write_ns = bench_cpu_ns() - from;
    fg_block_writer_destroy(writer);
    free(instances);
    free(series);
}

void stream_write(struct stream *stream, struct written *written)
{
    struct drawn drawn;

    drawn_init(&drawn, stream);
    draw(stream, &drawn);
    cut_begin(stream);
    cut_out(stream, &drawn);
    write_all(stream, &drawn, written);
    cut_end(stream->cut);
    drawn_done(&drawn);
}
