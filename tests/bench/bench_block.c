/*
 * How large blocks are, and what writing and reading them costs.
 *
 *     bench_block cpu INSTANCES MINUTES FILE...   a service's CPU profiles, one of 10 s after the
 *                                                 other for each instance, resampled from the files
 *                                                 (resample.h)
 *     bench_block steps STEPS FILE...             the files themselves: those of one name up to the
 *                                                 second "-" are a service, one series in the order
 *                                                 given. From one file to the next it takes STEPS
 *                                                 profiles, in one of which each stack changes
 *
 * Files are pprofs. Costs are CPU time; decoding and drawing are not in it.
 */
#include "common/base/time.h"
#include "common/block/reader.h"
#include "common/block/verify.h"
#include "common/block/writer.h"
#include "common/net/inflate.h"
#include "proto/pprof.h"
#include "tests/bench/resample.h"

#include <stdlib.h>
#include <time.h>

enum {
    FILE_MAX_BYTES = 256 * 1024 * 1024,
    TICKS = 300,
    FILES_MAX = 64, /* of a service, in steps */
};

#define START_NS    INT64_C(1700000000000000000)
#define INTERVAL_NS (INT64_C(10) * 1000 * 1000 * 1000)

static int64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code == FG_OK)
        return;
    (void)fprintf(stderr, "bench_block: %s\n", err->msg);
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
        (void)fprintf(stderr, "bench_block: %s cannot be read\n", path);
        exit(1);
    }
    fg_buf_init(&packed, FILE_MAX_BYTES);
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        fg_buf_append(&packed, chunk, got);
    (void)fclose(file);
    must(fg_inflate(fg_buf_slice(&packed), fg_coding_sniff(fg_buf_slice(&packed)), FILE_MAX_BYTES,
                    out, &err),
         &err);
    fg_buf_done(&packed);
}

static void decode(const char *path, struct fg_arena *arena, struct fg_buf *body,
                   struct fg_batch *ret_batch)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("profile")},
                                       {FG_LIT("service_name"), FG_LIT("bench")}};
    struct fg_pprof_request request = {.upload = {.labels = {labels, FG_COUNT(labels)},
                                                  .time_ns = START_NS,
                                                  .limits = FG_DECODE_LIMITS_DEFAULT}};
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_err err;

    read_file(path, body);
    *ret_batch = (struct fg_batch){0};
    must(fg_pprof_decode(fg_buf_slice(body), &request, arena, ret_batch, &info, &counts, &err),
         &err);
}

/* ---- what is written ---- */

struct written {
    struct fg_buf file;
    int64_t write_ns;
};

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

static struct fg_block_writer *start(struct written *written)
{
    struct fg_block_sink sink = {append, &written->file};

    fg_buf_init(&written->file, SIZE_MAX);
    written->write_ns = 0;
    return fg_block_writer_create(&sink, 0);
}

/* ---- resampled CPU profiles ---- */

struct stream {
    struct resample *resample;
    uint32_t instances, rounds;
};

static uint64_t seed_of(const struct stream *stream, uint32_t instance, uint32_t round)
{
    return (uint64_t)round * stream->instances + instance + 1;
}

static uint32_t *count_uses(const struct stream *stream)
{
    uint32_t stacks[TICKS], cap = 1 << 16;
    uint32_t *uses = fg_calloc(cap, sizeof *uses);
    uint64_t counts[TICKS];

    for (uint32_t i = 0; i < stream->instances; i++)
        for (uint32_t k = 0; k < stream->rounds; k++) {
            uint32_t n =
                resample_draw(stream->resample, seed_of(stream, i, k), TICKS, stacks, counts);
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
    uint32_t stacks[TICKS];
    uint64_t values[2 * TICKS];
    struct fg_err err;
    uint64_t noise = instance;

    (void)snprintf(pod, sizeof pod, "bench-6c9f7b8d5-%05u", instance);
    labels[2].value = fg_cstr(pod);
    must(fg_block_series_begin(writer, &series, &err), &err);
    for (uint32_t k = 0; k < stream->rounds; k++) {
        uint64_t seed = seed_of(stream, instance, k);
        uint32_t n = resample_draw(stream->resample, seed, TICKS, stacks, values);
        struct fg_block_profile profile = {.stacks = stacks, .values = values, .n_samples = n};
        int64_t from;

        noise = fg_mix64(noise + 1);
        profile.id = fg_hash128(fg_bytes(&seed, sizeof seed));
        profile.time_ns = START_NS + k * INTERVAL_NS + (int64_t)(noise % 20000000);
        profile.duration_ns = INTERVAL_NS + (int64_t)((noise >> 32) % 5000000);
        profile.period = 10000000;
        profile.shard = (uint16_t)(0x1230 | (instance & 3));
        profile.window = (uint32_t)((profile.time_ns + profile.duration_ns) / (60 * INTERVAL_NS));
        for (uint32_t i = 0; i < n; i++)
            values[n + i] = values[i] * 10000000;
        from = cpu_ns();
        must(fg_block_profile_add(writer, &profile, &err), &err);
        written->write_ns += cpu_ns() - from;
    }
}

static void write_stream(const struct stream *stream, struct written *written)
{
    struct fg_block_writer *writer = start(written);
    uint32_t *uses = count_uses(stream);
    struct fg_block_summary summary;
    struct fg_err err;
    int64_t from = cpu_ns();

    must(fg_block_part_begin(writer, FG_LIT("tenant"), FG_LIT("bench"),
                             resample_tree(stream->resample), uses, &err),
         &err);
    written->write_ns += cpu_ns() - from;
    for (uint32_t i = 0; i < stream->instances; i++)
        write_series(stream, writer, i, written);
    from = cpu_ns();
    must(fg_block_part_end(writer, &err), &err);
    must(fg_block_writer_finish(writer, &summary, &err), &err);
    written->write_ns += cpu_ns() - from;
    fg_block_writer_destroy(writer);
    free(uses);
}

/* ---- reading ---- */

struct block {
    struct fg_slice file;
    struct fg_arena *arena;
    struct fg_block_directory directory;
    struct fg_block_index index;
    struct fg_block_tree tree;
    int64_t open_ns;
};

static struct fg_slice range(const struct block *block, struct fg_block_range range)
{
    return fg_slice_sub(block->file, range.offset, range.len);
}

static void open_part(struct block *block, uint32_t number)
{
    const struct fg_block_part *part = &block->directory.parts[number];
    struct fg_err err;

    must(fg_block_part_parse(part, range(block, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                             block->arena, &block->index, &err),
         &err);
    must(fg_block_tree_parse(&block->index,
                             range(block, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                             block->arena, &block->tree, &err),
         &err);
}

static void open_block(struct fg_slice file, struct block *block)
{
    struct fg_err err;
    uint64_t offset;

    *block = (struct block){.file = file, .arena = fg_arena_create(SIZE_MAX / 2)};
    must(fg_block_directory_offset(file, file.len, &offset, &err), &err);
    must(fg_block_directory_parse(fg_slice_sub(file, offset, SIZE_MAX), file.len, block->arena,
                                  &block->directory, &err),
         &err);
}

/* CPU time of adding up one type of all profiles, once. */
static int64_t sum_all(struct block *block, struct fg_block_samples *samples, uint32_t type,
                       uint64_t *sums)
{
    const struct fg_block_pages *pages = &block->index.pages[FG_BLOCK_SMP];
    int64_t from = cpu_ns();
    struct fg_err err;

    for (uint32_t i = 0; i < pages->count; i++) {
        struct fg_block_range where = {pages->pages[i].offset, pages->pages[i].bytes};

        must(fg_block_samples_open(samples, &block->index, i, range(block, where), &err), &err);
        must(fg_block_samples_sum(samples, 0, block->index.part->n_profiles, type, sums, &err),
             &err);
    }
    return cpu_ns() - from;
}

static void show_sections(const struct fg_block_part *part)
{
    static const struct {
        uint32_t kind;
        const char *name;
    } kinds[] = {{FG_BLOCK_SMP, "SMP"}, {FG_BLOCK_EXM, "EXM"}, {FG_BLOCK_PID, "PID"},
                 {FG_BLOCK_IDX, "IDX"}, {FG_BLOCK_MAP, "MAP"}, {FG_BLOCK_TRI, "TRI"},
                 {FG_BLOCK_FRM, "FRM"}, {FG_BLOCK_MPG, "MPG"}, {FG_BLOCK_FUN, "FUN"},
                 {FG_BLOCK_STR, "STR"}, {FG_BLOCK_LBL, "LBL"}, {FG_BLOCK_SER, "SER"},
                 {FG_BLOCK_PAG, "PAG"}, {FG_BLOCK_GRP, "GRP"}};

    for (uint32_t i = 0; i < part->n_sections; i++)
        for (size_t k = 0; k < FG_COUNT(kinds); k++)
            if (kinds[k].kind == part->sections[i].kind)
                printf(" %s %.1f", kinds[k].name,
                       (double)part->sections[i].range.len / part->n_profiles);
    printf("\n");
}

static void show_part(struct block *block, uint32_t number)
{
    const struct fg_block_part *part = &block->directory.parts[number];
    struct fg_block_samples *samples = fg_block_samples_create(SIZE_MAX);
    int64_t from = cpu_ns(), open_ns, best = INT64_MAX;
    uint64_t *sums;

    open_part(block, number);
    open_ns = cpu_ns() - from;
    sums = fg_arena_new(block->arena, uint64_t, part->n_stacks);
    for (int run = 0; run < 5; run++)
        best = FG_MIN(best, sum_all(block, samples, block->index.schemas[0].n_types - 1, sums));
    printf("  %.*s: %u profiles, %llu samples, %u stacks, %u nodes, %u locations; opened in %.1f "
           "ms, summed in %.2f ns a sample\n   bytes a profile:",
           FG_S(part->service), part->n_profiles, (unsigned long long)part->n_samples,
           part->n_stacks, part->n_nodes, block->tree.tree.symbols.n_locations,
           (double)open_ns / 1e6, (double)best / (double)part->n_samples);
    show_sections(part);
    fg_block_samples_destroy(samples);
}

static void show(struct written *written)
{
    struct fg_block_verified verified;
    struct block block;
    struct fg_err err;
    uint64_t profiles;
    int64_t from;

    open_block(fg_buf_slice(&written->file), &block);
    profiles = block.directory.n_profiles;
    printf("%llu profiles, %zu bytes, %.1f bytes a profile, written in %.1f us a profile\n",
           (unsigned long long)profiles, written->file.len,
           (double)written->file.len / (double)profiles,
           (double)written->write_ns / 1e3 / (double)profiles);
    for (uint32_t i = 0; i < FG_MIN(block.directory.n_parts, 12u); i++)
        show_part(&block, i);
    from = cpu_ns();
    must(fg_block_verify(block.file, SIZE_MAX / 4, &verified, &err), &err);
    printf("  verified in %.1f us a profile\n", (double)(cpu_ns() - from) / 1e3 / (double)profiles);
    fg_arena_destroy(block.arena);
    fg_buf_done(&written->file);
}

static int run_cpu(int argc, char **argv)
{
    struct stream stream = {.resample = resample_create()};
    struct written written;

    stream.instances = (uint32_t)strtoul(argv[2], NULL, 10);
    stream.rounds = (uint32_t)strtoul(argv[3], NULL, 10) * 6;
    for (int i = 4; i < argc; i++) {
        struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
        struct fg_batch batch;
        struct fg_buf body;

        fg_buf_init(&body, SIZE_MAX);
        decode(argv[i], arena, &body, &batch);
        resample_learn(stream.resample, &batch);
        fg_buf_done(&body);
        fg_arena_destroy(arena);
    }
    write_stream(&stream, &written);
    show(&written);
    resample_destroy(stream.resample);
    return 0;
}

/* ---- profiles as they are, and steps between them ---- */

struct service {
    struct resample *resample;
    const char *name;
    size_t name_len;
    struct fg_value_type types[8];
    struct fg_value_type period_type;
    uint32_t n_types, n_files, n_stacks;
    uint64_t *values[FILES_MAX]; /* [n_types][cap_stacks] */
    uint32_t cap_stacks;
    struct fg_arena *arena;
};

static void service_add(struct service *service, const char *path)
{
    struct fg_batch batch;
    struct fg_buf body;
    uint64_t *values;

    fg_assert(service->n_files < FILES_MAX);
    fg_buf_init(&body, SIZE_MAX);
    decode(path, service->arena, &body, &batch);
    fg_assert(batch.n_types <= FG_COUNT(service->types));
    service->n_types = batch.n_types;
    for (uint32_t t = 0; t < batch.n_types; t++)
        service->types[t] =
            (struct fg_value_type){fg_arena_copy(service->arena, batch.types[t].type),
                                   fg_arena_copy(service->arena, batch.types[t].unit)};
    values = fg_calloc((size_t)service->cap_stacks * batch.n_types, sizeof *values);
    for (uint32_t p = 0; p < batch.n_profiles; p++)
        for (uint32_t i = 0; i < batch.profiles[p].n_samples; i++) {
            const struct fg_profile *profile = &batch.profiles[p];
            uint32_t stack =
                resample_stack(service->resample, &batch, &batch.stacks[profile->stacks[i]]);

            fg_assert(stack < service->cap_stacks);
            for (uint32_t t = 0; t < batch.n_types; t++)
                values[(size_t)t * service->cap_stacks + stack] +=
                    (uint64_t)profile->values[(size_t)t * profile->n_samples + i];
        }
    service->values[service->n_files++] = values;
    fg_buf_done(&body);
}

/* The samples at a step after a file; returns how many. */
static uint32_t service_profile(const struct service *service, uint32_t file, uint32_t at,
                                uint32_t steps, uint32_t *stacks, uint64_t *values)
{
    uint32_t n_stacks = resample_tree(service->resample)->n_nodes + 1, n = 0;

    for (uint32_t s = 0; s < n_stacks; s++) {
        bool later = at > 0 && fg_mix64((uint64_t)file << 32 | s) % steps < at;
        const uint64_t *from = service->values[file + later];
        uint64_t any = 0;

        for (uint32_t t = 0; t < service->n_types; t++)
            any |= from[(size_t)t * service->cap_stacks + s];
        if (any == 0)
            continue;
        for (uint32_t t = 0; values != NULL && t < service->n_types; t++)
            values[(size_t)t * service->cap_stacks + n] = from[(size_t)t * service->cap_stacks + s];
        stacks[n++] = s;
    }
    for (uint32_t t = 1; values != NULL && t < service->n_types; t++)
        memmove(values + (size_t)t * n, values + (size_t)t * service->cap_stacks,
                n * sizeof *values);
    return n;
}

static void service_write(const struct service *service, uint32_t steps,
                          struct fg_block_writer *writer, struct written *written)
{
    struct fg_label labels[] = {
        {FG_LIT("__name__"), FG_LIT("memory")},
        {FG_LIT("pod"), FG_LIT("pod-7c9b8d")},
        {FG_LIT("service_name"), fg_bytes(service->name, service->name_len)}};
    struct fg_block_series series = {
        {labels, FG_COUNT(labels)}, service->types, service->n_types, service->period_type};
    uint32_t n_profiles = (service->n_files - 1) * steps + 1;
    uint32_t *stacks = fg_malloc(service->cap_stacks * sizeof *stacks);
    uint32_t *uses = fg_calloc(service->cap_stacks, sizeof *uses);
    uint64_t *values = fg_malloc((size_t)service->cap_stacks * service->n_types * sizeof *values);
    int64_t from;
    struct fg_err err;

    for (uint32_t p = 0; p < n_profiles; p++) {
        uint32_t n = service_profile(service, p / steps, p % steps, steps, stacks, NULL);

        for (uint32_t i = 0; i < n; i++)
            uses[stacks[i]]++;
    }
    from = cpu_ns();
    must(fg_block_part_begin(writer, FG_LIT("tenant"), labels[2].value,
                             resample_tree(service->resample), uses, &err),
         &err);
    must(fg_block_series_begin(writer, &series, &err), &err);
    written->write_ns += cpu_ns() - from;
    for (uint32_t p = 0; p < n_profiles; p++) {
        struct fg_block_profile profile = {.stacks = stacks, .values = values, .period = 524288};

        profile.n_samples = service_profile(service, p / steps, p % steps, steps, stacks, values);
        profile.time_ns = START_NS + p * INTERVAL_NS;
        profile.window = (uint32_t)(profile.time_ns / (60 * INTERVAL_NS));
        profile.id = fg_hash128(fg_bytes(&profile.time_ns, sizeof profile.time_ns));
        from = cpu_ns();
        must(fg_block_profile_add(writer, &profile, &err), &err);
        written->write_ns += cpu_ns() - from;
    }
    from = cpu_ns();
    must(fg_block_part_end(writer, &err), &err);
    written->write_ns += cpu_ns() - from;
    free(stacks);
    free(uses);
    free(values);
}

/* "shop-heap" of "/load/shop-heap-00.pb.gz" */
static size_t service_name(const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const char *end = strrchr(name, '-');

    *ret_name = name;
    return end == NULL ? strlen(name) : (size_t)(end - name);
}

static bool is_of(const struct service *service, const char *path)
{
    const char *name;
    size_t len = service_name(path, &name);

    return len == service->name_len && memcmp(name, service->name, len) == 0;
}

static int run_steps(int argc, char **argv)
{
    uint32_t steps = FG_MAX((uint32_t)strtoul(argv[2], NULL, 10), 1);
    struct fg_block_summary summary;
    struct written written;
    struct fg_block_writer *writer = start(&written);
    struct fg_err err;

    for (int i = 3; i < argc;) {
        struct service service = {.resample = resample_create(), .cap_stacks = 1 << 18};

        service.arena = fg_arena_create(SIZE_MAX / 2);
        service.name_len = service_name(argv[i], &service.name);
        for (; i < argc && is_of(&service, argv[i]); i++)
            service_add(&service, argv[i]);
        service_write(&service, steps, writer, &written);
        for (uint32_t f = 0; f < service.n_files; f++)
            free(service.values[f]);
        fg_arena_destroy(service.arena);
        resample_destroy(service.resample);
    }
    must(fg_block_writer_finish(writer, &summary, &err), &err);
    fg_block_writer_destroy(writer);
    show(&written);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "cpu") == 0)
        return run_cpu(argc, argv);
    if (argc > 3 && strcmp(argv[1], "steps") == 0)
        return run_steps(argc, argv);
    (void)fprintf(stderr, "usage: bench_block cpu INSTANCES MINUTES FILE...\n"
                          "       bench_block steps STEPS FILE...\n");
    return 2;
}
