/*
 * What compaction costs: segments of ten minutes into blocks of an hour, and these into one of a
 * day, with rollups.
 *
 *     bench_compact INSTANCES HOURS DAYS FILE...   CPU profiles of one service (stream.h)
 *
 * CPU time of the three steps, for each profile and level; what was written is compared with what
 * went in, as the compactor does.
 */
#include "common/base/time.h"
#include "common/model/tenant_id.h"
#include "common/storage/rollup/reader.h"
#include "compactor/merge/merge.h"
#include "compactor/merge/merge_parent.h"
#include "tests/bench/stream.h"

#include <stdlib.h>
#include <sys/resource.h>

enum { SEGMENTS = 6, HOURS_MAX = 24, DAYS_MAX = 28, ROUNDS = 60 };

static const size_t memory_max_bytes = (size_t)1 << 30;

struct costs {
    uint64_t profiles, in_bytes, out_bytes, rollup_bytes;
    int64_t survey_ns, write_ns, check_ns;
};

static struct cmp_merge_source source_of(struct fg_slice object, struct fg_arena *arena)
{
    struct fg_block_directory directory;
    struct fg_err err;
    uint64_t offset;

    bench_must(fg_block_directory_offset(object, object.len, &offset, &err), &err);
    bench_must(fg_block_directory_parse(fg_slice_sub(object, (size_t)offset, SIZE_MAX), object.len,
                                        NULL, arena, &directory, &err),
               &err);
    return (struct cmp_merge_source){
        .name = "source", .parts = directory.parts, .n_parts = directory.n_parts, .bytes = object};
}

static void all_of_it(const void *arg, int64_t time_ns, int64_t *ret_start_ns, int64_t *ret_end_ns)
{
    (void)arg;
    (void)time_ns;
    *ret_start_ns = INT64_MIN;
    *ret_end_ns = INT64_MAX;
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

/* Bytes of all sections of rollups. */
static uint64_t rollup_bytes(struct fg_slice object)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct cmp_merge_source source = source_of(object, arena);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < source.n_parts; i++) {
        struct fg_rollup_ranges ranges = fg_rollup_ranges(&source.parts[i]);

        bytes += ranges.nod.len + ranges.crn.len + ranges.ftb.len + ranges.ful.len;
    }
    fg_arena_destroy(arena);
    return bytes;
}

/* Merges objects into out, and frees them. */
static void compact(struct fg_buf *objects, uint32_t n, uint32_t level,
                    const struct cmp_merge_span *span, struct fg_buf *out, struct costs *costs)
{
    const struct cmp_merge_survey_options options = {
        .span_of = all_of_it, .bins_max = 1, .keep_from_ns = INT64_MIN};
    const struct fg_block_sink sink = {append, out};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct cmp_merge_source sources[HOURS_MAX];
    struct cmp_merge merge = {.tenant = FG_LIT(FG_TENANT_ONLY),
                              .sources = sources,
                              .n_sources = n,
                              .memory_max_bytes = memory_max_bytes};
    struct cmp_merge_written written;
    struct cmp_merge_survey survey;
    struct cmp_merge_tally tally;
    struct fg_err err;
    int64_t begun_ns = bench_cpu_ns(), surveyed_ns, written_ns;

    for (uint32_t i = 0; i < n; i++) {
        sources[i] = source_of(fg_buf_slice(&objects[i]), arena);
        costs->in_bytes += objects[i].len;
    }
    bench_must(cmp_merge_survey(&merge, &options, arena, &survey, &err), &err);
    surveyed_ns = bench_cpu_ns();
    fg_buf_init(out, SIZE_MAX);
    bench_must(cmp_merge_write(&merge, span, level, &sink, &written, &err), &err);
    written_ns = bench_cpu_ns();
    bench_must(cmp_merge_read_back(fg_buf_slice(out), NULL, "out", memory_max_bytes, &tally, &err),
               &err);
    bench_must(cmp_merge_tally_check(&survey.kept, &tally, &err), &err);
    costs->survey_ns += surveyed_ns - begun_ns;
    costs->write_ns += written_ns - surveyed_ns;
    costs->check_ns += bench_cpu_ns() - written_ns;
    costs->profiles += written.summary.n_profiles;
    costs->out_bytes += out->len;
    costs->rollup_bytes += rollup_bytes(fg_buf_slice(out));
    for (uint32_t i = 0; i < n; i++)
        fg_buf_done(&objects[i]);
    fg_arena_destroy(arena);
}

static void show(const char *what, const struct costs *costs)
{
    double n = (double)costs->profiles;

    printf("%s: %llu profiles, %.1f -> %.1f bytes a profile, %.1f of it rollups; survey %.1f, "
           "write %.1f, verify %.1f, "
           "together %.1f us a profile\n",
           what, (unsigned long long)costs->profiles, (double)costs->in_bytes / n,
           (double)costs->out_bytes / n, (double)costs->rollup_bytes / n,
           (double)costs->survey_ns / 1e3 / n, (double)costs->write_ns / 1e3 / n,
           (double)costs->check_ns / 1e3 / n,
           (double)(costs->survey_ns + costs->write_ns + costs->check_ns) / 1e3 / n);
}

static int64_t hour_ns(uint32_t number)
{
    return STREAM_START_NS + number * FG_HOUR_NS;
}

/* ---- nodes over days ---- */

static struct cmp_merge_parent_part above_part(struct cmp_merge_source *source, uint32_t day,
                                               struct fg_arena *arena)
{
    struct cmp_merge_parent_part part = {.id = {day + 1, 0}};
    struct fg_block_range nod = fg_rollup_ranges(&source->parts[0]).nod;
    struct fg_err err;

    bench_must(cmp_merge_part_open(source, 0, arena, &part.part, &err), &err);
    bench_must(fg_rollups_parse(&source->parts[0],
                                fg_slice_sub(source->bytes, (size_t)nod.offset, (size_t)nod.len),
                                arena, &part.rollups, &err),
               &err);
    return part;
}

static void nodes_over_days(const struct fg_buf *days, uint32_t n, uint64_t profiles)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct cmp_merge_source sources[DAYS_MAX];
    struct cmp_merge_parent_part parts[DAYS_MAX];
    struct cmp_merge_parent parent = {.tenant = FG_LIT("tenant"),
                                      .parts = parts,
                                      .n_parts = n,
                                      .start_ns = hour_ns(0),
                                      .end_ns = hour_ns(n * 24),
                                      .max_bytes = memory_max_bytes,
                                      .arena = arena};
    struct fg_block_writer *block;
    struct fg_block_summary summary;
    struct fg_buf out;
    uint32_t raws = 0;
    bool left_out;
    struct fg_err err;
    int64_t begun_ns = bench_cpu_ns();

    for (uint32_t i = 0; i < n; i++) {
        sources[i] = source_of(fg_buf_slice(&days[i]), arena);
        parts[i] = above_part(&sources[i], i, arena);
    }
    parent.service = sources[0].parts[0].service;
    fg_buf_init(&out, SIZE_MAX);
    block = fg_block_writer_create(&(struct fg_block_sink){append, &out}, 4);
    bench_must(cmp_merge_parent_plan(&parent, &err), &err);
    for (uint32_t i = 0; i < n; i++)
        raws += cmp_merge_parent_is_raw(&parts[i]);
    bench_must(cmp_merge_parent_write(&parent, block, &left_out, &err), &err);
    bench_must(fg_block_writer_finish(block, &summary, &err), &err);
    printf("nodes over %u days (%u by profiles): %zu bytes, %.2f us a profile\n", n, raws, out.len,
           (double)(bench_cpu_ns() - begun_ns) / 1e3 / (double)profiles);
    fg_block_writer_destroy(block);
    fg_buf_done(&out);
    fg_arena_destroy(arena);
}

static void make_day(struct stream *stream, uint32_t day, uint32_t n_hours, struct costs *hour,
                     struct costs *all, struct fg_buf *out)
{
    struct fg_buf hours[HOURS_MAX];

    for (uint32_t h = 0; h < n_hours; h++) {
        uint32_t number = day * 24 + h;
        const struct cmp_merge_span span = {hour_ns(number), hour_ns(number + 1), 0, UINT16_MAX, 0};
        struct fg_buf segments[SEGMENTS];

        stream->first_round = number * SEGMENTS * ROUNDS;
        for (uint32_t s = 0; s < SEGMENTS; s++, stream->first_round += ROUNDS) {
            struct written written;

            stream_write(stream, &written);
            segments[s] = written.file;
        }
        compact(segments, SEGMENTS, 1, &span, &hours[h], hour);
    }
    compact(hours, n_hours, 3,
            &(struct cmp_merge_span){hour_ns(day * 24), hour_ns(day * 24 + 24), 0, UINT16_MAX, 0},
            out, all);
}

int main(int argc, char **argv)
{
    struct stream stream = {.rounds = ROUNDS};
    struct fg_buf days[DAYS_MAX];
    struct costs hour = {0}, all = {0};
    struct rusage usage;
    uint32_t n_hours, n_days;

    if (argc < 5) {
        (void)fprintf(stderr, "usage: bench_compact INSTANCES HOURS DAYS FILE...\n");
        return 2;
    }
    stream.instances = (uint32_t)strtoul(argv[1], NULL, 10);
    n_hours = FG_MIN((uint32_t)strtoul(argv[2], NULL, 10), HOURS_MAX);
    n_days = FG_MIN((uint32_t)strtoul(argv[3], NULL, 10), DAYS_MAX);
    stream_open(&stream, argv + 4, argc - 4);
    for (uint32_t d = 0; d < n_days; d++)
        make_day(&stream, d, n_hours, &hour, &all, &days[d]);
    show("segments to hours", &hour);
    show("hours to a day", &all);
    if (n_days > 1)
        nodes_over_days(days, n_days, all.profiles);
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("most memory, with objects and the stream: %ld MiB\n", usage.ru_maxrss / 1024);
    for (uint32_t d = 0; d < n_days; d++)
        fg_buf_done(&days[d]);
    stream_close(&stream);
    return 0;
}
