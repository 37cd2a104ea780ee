/*
 * How large blocks are, and what writing and reading them costs.
 *
 *     bench_block cpu INSTANCES MINUTES FILE...   a service's CPU profiles, one of 10 s after the
 *                                                 other for each instance, resampled from the files
 *                                                 (resample.h)
 *     bench_block encrypted PAIRS INSTANCES MINUTES FILE...
 *                                                 the first again, plain and encrypted in turn:
 *                                                 what each costs
 *     bench_block steps STEPS FILE...             the files themselves: those of one name up to the
 *                                                 second "-" are a service, one series in the order
 *                                                 given. From one file to the next it takes STEPS
 *                                                 profiles, in one of which each stack changes
 *
 * Files are pprofs. Costs are CPU time; decoding and drawing are not in it.
 */
#include "common/base/time.h"
#include "common/storage/block/reader.h"
#include "common/storage/block/verify.h"
#include "common/storage/block/writer.h"
#include "tests/bench/stream.h"
#include "tests/lib/made_keys.h"

#include <stdlib.h>

enum {
    FILES_MAX = 64, /* of a service, in steps */
};

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

    bench_must(fg_block_part_parse(part,
                                   range(block, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                                   block->arena, &block->index, &err),
               &err);
    bench_must(fg_block_tree_parse(&block->index,
                                   range(block, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                                   block->arena, &block->tree, &err),
               &err);
}

static void open_block(struct fg_slice file, const struct fg_keys *keys, struct block *block)
{
    struct fg_err err;
    uint64_t offset;

    *block = (struct block){.file = file, .arena = fg_arena_create(SIZE_MAX / 2)};
    bench_must(fg_block_directory_offset(file, file.len, &offset, &err), &err);
    bench_must(fg_block_directory_parse(fg_slice_sub(file, offset, SIZE_MAX), file.len, keys,
                                        block->arena, &block->directory, &err),
               &err);
}

/* CPU time of adding up one type of all profiles, once. */
static int64_t sum_all(struct block *block, struct fg_block_samples *samples, uint32_t type,
                       uint64_t *sums)
{
    const struct fg_block_pages *pages = &block->index.pages[FG_BLOCK_SMP];
    int64_t from = bench_cpu_ns();
    struct fg_err err;

    for (uint32_t i = 0; i < pages->count; i++) {
        struct fg_block_range where = {pages->pages[i].offset, pages->pages[i].bytes};

        bench_must(fg_block_samples_open(samples, &block->index, i, range(block, where), &err),
                   &err);
        bench_must(
            fg_block_samples_sum(samples, 0, block->index.part->n_profiles, type, sums, &err),
            &err);
    }
    return bench_cpu_ns() - from;
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
    int64_t from = bench_cpu_ns(), open_ns, best = INT64_MAX;
    uint64_t *sums;

    open_part(block, number);
    open_ns = bench_cpu_ns() - from;
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

    open_block(fg_buf_slice(&written->file), NULL, &block);
    profiles = block.directory.n_profiles;
    printf("%llu profiles, %zu bytes, %.1f bytes a profile, written in %.1f us a profile\n",
           (unsigned long long)profiles, written->file.len,
           (double)written->file.len / (double)profiles,
           (double)written->write_ns / 1e3 / (double)profiles);
    for (uint32_t i = 0; i < FG_MIN(block.directory.n_parts, 12u); i++)
        show_part(&block, i);
    from = bench_cpu_ns();
    bench_must(fg_block_verify(block.file, NULL, SIZE_MAX / 4, &verified, &err), &err);
    printf("  verified in %.1f us a profile\n",
           (double)(bench_cpu_ns() - from) / 1e3 / (double)profiles);
    fg_arena_destroy(block.arena);
    fg_buf_done(&written->file);
}

static int run_cpu(int argc, char **argv)
{
    struct stream stream = {.instances = (uint32_t)strtoul(argv[2], NULL, 10),
                            .rounds = (uint32_t)strtoul(argv[3], NULL, 10) * 6};
    struct written written;

    stream_open(&stream, argv + 4, argc - 4);
    stream_write(&stream, &written);
    show(&written);
    stream_close(&stream);
    return 0;
}

/* ---- with and without encryption ---- */

/* CPU time of one block: of writing it, opening its part, adding up all samples. */
struct cost {
    int64_t write_ns, open_ns, sum_ns;
    uint64_t bytes;
};

static void measure(struct stream *stream, const struct fg_keys *keys, struct cost *sum)
{
    struct written written;
    struct block block;
    struct fg_block_samples *samples = fg_block_samples_create(SIZE_MAX);
    uint64_t *sums;
    int64_t from;

    stream->keys = keys;
    stream_write(stream, &written);
    open_block(fg_buf_slice(&written.file), keys, &block);
    from = bench_cpu_ns();
    open_part(&block, 0);
    sum->open_ns += bench_cpu_ns() - from;
    sums = fg_arena_new(block.arena, uint64_t, block.directory.parts[0].n_stacks);
    (void)sum_all(&block, samples, 0, sums); /* buffers grow */
    for (int i = 0; i < 5; i++)
        sum->sum_ns += sum_all(&block, samples, 0, sums) / 5;
    sum->write_ns += written.write_ns;
    sum->bytes = written.file.len;
    fg_block_samples_destroy(samples);
    fg_arena_destroy(block.arena);
    fg_buf_done(&written.file);
}

static void show_pair(const char *what, int64_t plain_ns, int64_t encrypted_ns, unsigned pairs)
{
    printf("  %-8s %10.3f ms %10.3f ms  %+.1f %%\n", what, (double)plain_ns / 1e6 / pairs,
           (double)encrypted_ns / 1e6 / pairs, 100 * ((double)encrypted_ns / (double)plain_ns - 1));
}

static int run_encrypted(int argc, char **argv)
{
    unsigned pairs = (unsigned)strtoul(argv[2], NULL, 10);
    struct stream stream = {.instances = (uint32_t)strtoul(argv[3], NULL, 10),
                            .rounds = (uint32_t)strtoul(argv[4], NULL, 10) * 6};
    struct cost plain = {0}, encrypted = {0}, warm = {0};
    struct made_keys keys;

    made_keys_init(&keys, 1);
    stream_open(&stream, argv + 5, argc - 5);
    measure(&stream, NULL, &warm);
    for (unsigned i = 0; i < pairs; i++) {
        measure(&stream, NULL, &plain);
        measure(&stream, &keys.keys, &encrypted);
    }
    stream_close(&stream);
    printf("%u profiles: %llu bytes, encrypted %llu (%+.2f %%); means of %u pairs\n",
           stream.instances * stream.rounds, (unsigned long long)plain.bytes,
           (unsigned long long)encrypted.bytes,
           100 * ((double)encrypted.bytes / (double)plain.bytes - 1), pairs);
    show_pair("written", plain.write_ns, encrypted.write_ns, pairs);
    show_pair("opened", plain.open_ns, encrypted.open_ns, pairs);
    show_pair("summed", plain.sum_ns, encrypted.sum_ns, pairs);
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
    bench_decode(path, service->arena, &body, &batch);
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
    from = bench_cpu_ns();
    bench_must(fg_block_part_begin(writer, FG_LIT("tenant"), labels[2].value,
                                   resample_tree(service->resample), uses, &err),
               &err);
    bench_must(fg_block_series_begin(writer, &series, &err), &err);
    written->write_ns += bench_cpu_ns() - from;
    for (uint32_t p = 0; p < n_profiles; p++) {
        struct fg_block_profile profile = {.stacks = stacks, .values = values, .period = 524288};

        profile.n_samples = service_profile(service, p / steps, p % steps, steps, stacks, values);
        profile.time_ns = STREAM_START_NS + p * STREAM_INTERVAL_NS;
        profile.window = (uint32_t)(profile.time_ns / (60 * STREAM_INTERVAL_NS));
        profile.size = stream_profile_size(profile.n_samples, p);
        profile.id = fg_hash128(fg_bytes(&profile.time_ns, sizeof profile.time_ns));
        from = bench_cpu_ns();
        bench_must(fg_block_profile_add(writer, &profile, &err), &err);
        written->write_ns += bench_cpu_ns() - from;
    }
    from = bench_cpu_ns();
    bench_must(fg_block_part_end(writer, &err), &err);
    written->write_ns += bench_cpu_ns() - from;
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
    struct fg_block_writer *writer = written_start(&written);
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
    bench_must(fg_block_writer_finish(writer, &summary, &err), &err);
    fg_block_writer_destroy(writer);
    show(&written);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "cpu") == 0)
        return run_cpu(argc, argv);
    if (argc > 5 && strcmp(argv[1], "encrypted") == 0)
        return run_encrypted(argc, argv);
    if (argc > 3 && strcmp(argv[1], "steps") == 0)
        return run_steps(argc, argv);
    (void)fprintf(stderr, "usage: bench_block cpu INSTANCES MINUTES FILE...\n"
                          "       bench_block encrypted PAIRS INSTANCES MINUTES FILE...\n"
                          "       bench_block steps STEPS FILE...\n");
    return 2;
}
