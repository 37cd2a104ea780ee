/*
 * Fills a bucket with a service's CPU profiles of many days (stream.h), as an ingester and the
 * compactor leave it: a segment of each ten minutes, committed a minute after their end, and after
 * each of them a round of the compactor, all by a clock that jumps from one to the next.
 *
 *     bench_fill [--days 30] [--instances 20] [--interval 10] [--sparse 10] [--dense 26]
 *                [--backfill DAYS] [--ask MINUTES] [--end UNIX] [--memory 1024] [--segments DIR]
 *                FOLDER FILE...
 *
 * FILEs are pprofs. The bucket is FOLDER/bucket. Profiles end at --end, by default at the last half
 * hour before now, so that the last hour is still segments; each instance has one every 10 s, or as
 * many seconds as --interval says (a multiple of ten minutes if more than that), or with --sparse
 * one in so many seconds, except in the last 26 hours, or as many as --dense says, and two hours
 * before and after the first day's end, where questions of 30 days begin. Every seventh day all
 * instances change to another version. --memory is the compactor's, in MiB; a server of 1 GiB gives
 * it 256.
 * --backfill: all but the last 36 hours arrives at once 36 hours before the end, in segments of so
 * many days, a minute between them.
 * --ask: in the last 24 hours a compactor's round each minute, and every so many minutes questions
 * that end then (ask.h), the last ones at the end.
 * --segments keeps all segments in DIR, too, and takes those that are there: another compactor can
 * have the same ones, in half the time.
 *
 * Can be stopped and started again with the same arguments: FOLDER/fill.json says what it is, the
 * bucket how far it is. FOLDER/jobs.log is the compactor's log. Its clock for durations is the CPU
 * time of this process, so `seconds` there are what a job costs, even when others use the
 * machine.
 */
#include "common/base/time.h"
#include "common/cluster/manifest/manifest.h"
#include "common/runtime/log.h"
#include "common/storage/block/reader.h"
#include "common/storage/bucket/directory.h"
#include "compactor/compaction.h"
#include "tests/bench/ask.h"
#include "tests/bench/stream.h"
#include "tests/lib/tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    WINDOWS_A_DAY = 24 * 6,
    WINDOWS_AFTER_BACKFILL = 36 * 6,
    DAYS_OF_A_VERSION = 7,
    PATH_BYTES = 4096,
    LINE_BYTES = 512,
    ROUNDS_AT_THE_END = 4,
};

#define END_KEY   "\"end_s\": " /* in fill.json */
#define WINDOW_NS (10 * FG_MINUTE_NS)
#define DAY_NS    (24 * FG_HOUR_NS)
#define COMMIT_NS FG_MINUTE_NS /* after a window's end, as ingester.segments.grace is */

static const struct fg_id writer = {1, 1};

struct clock {
    struct fg_clock clock;
    int64_t wall_ns;
    int64_t ahead_ns; /* so that the bucket, which has the real clock, finds no deadline over */
};

struct fill {
    uint32_t days, instances, backfill_days, ask_minutes; /* 0: none */
    int64_t interval_ns, sparse_ns, dense_ns, start_ns, end_ns;
    uint64_t memory_bytes;
    char *folder;
    char *segments; /* folder to keep them in; NULL: none */
    struct stream stream;
    struct fg_bucket *bucket;
    struct clock clock;
    struct fg_registry *registry;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct cmp_settings settings;
    char scratch[PATH_BYTES];
    struct cmp_compaction *compaction;
    /* Since the last line. */
    int64_t draw_ns, write_ns, compact_ns;
    uint64_t profiles;
};

static void fail_errno(const char *what)
{
    struct fg_err err;

    bench_must(fg_fail_errno(&err, errno, "%s", what), &err);
}

static int64_t process_cpu_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * FG_SECOND_NS + now.tv_nsec;
}

/* ---- the compactor ---- */

static int64_t clock_wall(struct fg_clock *clock)
{
    return fg_container(clock, struct clock, clock)->wall_ns;
}

static int64_t clock_mono(struct fg_clock *of)
{
    const struct clock *clock = fg_container(of, struct clock, clock);

    return clock->ahead_ns + clock->wall_ns + process_cpu_ns();
}

static const struct fg_clock_ops clock_ops = {clock_wall, clock_mono};

static void pause_clock(void *arg, int64_t ns)
{
    struct clock *clock = arg;

    clock->wall_ns += ns;
}

static void place(const struct fill *fill, const char *name, char out[PATH_BYTES])
{
    if ((size_t)snprintf(out, PATH_BYTES, "%s/%s", fill->folder, name) >= PATH_BYTES) {
        errno = ENAMETOOLONG;
        fail_errno(fill->folder);
    }
}

static void open_bucket(struct fill *fill)
{
    char path[PATH_BYTES];
    struct fg_err err;

    place(fill, "bucket", path);
    bench_must(fg_bucket_directory_open(
                   &(struct fg_bucket_directory_config){
                       .path = path, .threads = 4, .queue_max = 1000, .registry = fill->registry},
                   &fill->bucket, &err),
               &err);
}

static void open_compaction(struct fill *fill)
{
    struct fg_conf_section section = {"compactor", cmp_fields, cmp_n_fields, &fill->settings};
    struct fg_err err;

    bench_must(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                            NULL, 0, &err),
               &err);
    fill->settings.memory_max_bytes = fill->memory_bytes;
    place(fill, "scratch", fill->scratch);
    fill->clock = (struct clock){.clock = {&clock_ops}, .ahead_ns = DAY_NS};
    bench_must(cmp_compaction_create(&(struct cmp_config){.settings = &fill->settings,
                                                          .bucket = fill->bucket,
                                                          .scratch = fill->scratch,
                                                          .tenants = fill->tenants,
                                                          .registry = fill->registry,
                                                          .clock = &fill->clock.clock,
                                                          .pause = pause_clock,
                                                          .pause_arg = &fill->clock},
                                     NULL, &fill->compaction, &err),
               &err);
}

static void compact(struct fill *fill)
{
    int64_t from = process_cpu_ns();
    struct fg_err err;

    bench_must(cmp_compaction_pass(fill->compaction, &err), &err);
    fill->compact_ns += process_cpu_ns() - from;
}

/* ---- the ingester ---- */

static struct fg_manifest *read_l0(struct fill *fill)
{
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = FG_NAME_L0, .content_max_bytes = FG_MANIFEST_MAX_BYTES};
    struct fg_manifest *manifest;
    struct fg_err err;
    bool none;

    none = fg_bucket_call(fill->bucket, &get) == FG_E_NOT_FOUND;
    if (!none)
        bench_must(get.code, &get.err);
    bench_must(fg_manifest_l0(none ? FG_LIT("") : fg_buf_slice(&get.body),
                              none ? FG_LIT("") : fg_cstr(get.etag.text), &manifest, &err),
               &err);
    fg_bucket_clear(&get);
    return manifest;
}

static void put(struct fill *fill, const char *name, struct fg_slice content, struct fg_slice etag)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT,
                                        .name = name,
                                        .content = content,
                                        .condition = etag.len == 0 ? FG_BUCKET_IF_ABSENT
                                                                   : FG_BUCKET_IF_MATCH};

    memcpy(request.if_etag.text, etag.ptr, etag.len);
    bench_must(fg_bucket_call(fill->bucket, &request), &request.err);
    fg_bucket_clear(&request);
}

/* Windows of ten minutes, counted from the start, that are a segment together. */
struct windows {
    uint32_t first, count;
};

/* Which (shard, window) the segment holds. */
static struct fg_late_filter groups_of(const struct fill *fill, struct windows windows,
                                       struct fg_arena *arena)
{
    struct fg_late_filter_run *runs = fg_arena_new(arena, struct fg_late_filter_run, windows.count);
    uint32_t shards = FG_MIN(fill->instances, (uint32_t)STREAM_SHARDS);
    struct fg_late_filter groups;

    for (uint32_t i = 0; i < windows.count; i++)
        runs[i] =
            (struct fg_late_filter_run){(uint32_t)(fill->start_ns / WINDOW_NS) + windows.first + i,
                                        STREAM_SHARD, (uint16_t)(STREAM_SHARD + shards - 1)};
    fg_assert(fg_late_filter_make(runs, windows.count, arena, &groups));
    return groups;
}

static void swap_in(struct fill *fill, struct windows windows, const struct fg_segment_id *id,
                    const struct fg_block_summary *summary)
{
    struct fg_manifest *manifest = read_l0(fill);
    struct fg_arena *arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES);
    const struct fg_l0_new_part part = {FG_LIT(FG_TENANT_ONLY), summary->t_min_ns,
                                        summary->t_max_ns, summary->n_profiles, summary->usage};
    const struct fg_l0_new segment = {
        .id = *id,
        .bytes = summary->file_bytes,
        .directory_offset = summary->directory_offset,
        .directory_bytes = summary->file_bytes - summary->directory_offset,
        .profiles = summary->n_profiles,
        .digest = summary->digest,
        .t_min_ns = summary->t_min_ns,
        .t_max_ns = summary->t_max_ns,
        .parts = &part,
        .n_parts = 1,
        .groups = groups_of(fill, windows, arena),
    };
    struct fg_buf bytes;
    struct fg_err err;
    struct fg_l0 l0;

    bench_must(fg_l0_commit(&manifest->l0, &segment, fill->clock.wall_ns,
                            (uint32_t)(fill->clock.wall_ns / WINDOW_NS), arena, &l0, &err),
               &err);
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    bench_must(fg_l0_encode(&l0, &bytes, &err), &err);
    put(fill, FG_NAME_L0, fg_buf_slice(&bytes), manifest->etag);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
    fg_manifest_unref(manifest);
}

/* Not where a question of a day, or the beginning of one of all days but one, reads raw profiles.
 */
static bool is_sparse(const struct fill *fill, int64_t from_ns)
{
    int64_t after_first_ns = from_ns - (fill->start_ns + DAY_NS);

    return (after_first_ns < -2 * FG_HOUR_NS || after_first_ns >= 2 * FG_HOUR_NS) &&
           from_ns < fill->end_ns - fill->dense_ns;
}

/* If there are more windows between two profiles of an instance than in the segment, every so
 * manieth instance has a profile in it. */
static void prepare_stream(struct fill *fill, struct windows windows)
{
    struct stream *stream = &fill->stream;
    int64_t from_ns = fill->start_ns + windows.first * WINDOW_NS;
    int64_t interval_ns = is_sparse(fill, from_ns) ? fill->sparse_ns : fill->interval_ns;
    uint32_t step = (uint32_t)(interval_ns / WINDOW_NS);
    bool some = step > windows.count;

    stream->start_ns = from_ns;
    stream->interval_ns = some ? WINDOW_NS : interval_ns;
    stream->rounds = (uint32_t)(windows.count * WINDOW_NS / stream->interval_ns);
    stream->instance_step = some ? step : 1;
    stream->first_instance = some ? windows.first % step : 0;
    stream->instances = (fill->instances - stream->first_instance + stream->instance_step - 1) /
                        stream->instance_step;
    stream->version = (uint32_t)(from_ns / DAY_NS / DAYS_OF_A_VERSION);
}

static void draw_segment(struct fill *fill, struct written *written)
{
    int64_t from = bench_cpu_ns();

    stream_write(&fill->stream, written);
    fill->write_ns += written->write_ns;
    fill->draw_ns += bench_cpu_ns() - from - written->write_ns;
}

/* false: it is not kept. */
static bool load_segment(const char *path, struct written *written)
{
    struct fg_arena *arena;
    struct fg_block_directory directory;
    struct fg_slice file;
    struct fg_err err;
    uint64_t offset;

    fg_buf_init(&written->file, SIZE_MAX);
    if (!bench_read(path, &written->file))
        return false;
    arena = fg_arena_create(SIZE_MAX / 2);
    file = fg_buf_slice(&written->file);
    bench_must(fg_block_directory_offset(file, file.len, &offset, &err), &err);
    bench_must(fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len,
                                        NULL, arena, &directory, &err),
               &err);
    written->summary = (struct fg_block_summary){.file_bytes = file.len,
                                                 .directory_offset = offset,
                                                 .n_profiles = directory.n_profiles,
                                                 .n_parts = directory.n_parts,
                                                 .t_min_ns = directory.t_min_ns,
                                                 .t_max_ns = directory.t_max_ns,
                                                 .digest = directory.digest};
    fg_arena_destroy(arena);
    return true;
}

/* Whole or not at all: this may be killed. */
static void keep_segment(const char *path, const struct written *written)
{
    char making[PATH_BYTES + 8];
    FILE *file;

    (void)snprintf(making, sizeof making, "%s.making", path);
    file = fopen(making, "we");
    if (file == NULL ||
        fwrite(written->file.ptr, 1, written->file.len, file) != written->file.len ||
        fclose(file) != 0 || rename(making, path) != 0)
        fail_errno(path);
}

static void make_segment(struct fill *fill, struct windows windows, struct written *written)
{
    const struct stream *stream = &fill->stream;
    char path[PATH_BYTES];

    prepare_stream(fill, windows);
    if (fill->segments == NULL) {
        draw_segment(fill, written);
        return;
    }
    if ((size_t)snprintf(path, sizeof path, "%s/%lld-%u-%lld-%u", fill->segments,
                         (long long)(stream->start_ns / FG_SECOND_NS), stream->instances,
                         (long long)(stream->interval_ns / FG_SECOND_NS),
                         stream->rounds) >= sizeof path) {
        errno = ENAMETOOLONG;
        fail_errno(fill->segments);
    }
    if (!load_segment(path, written)) {
        draw_segment(fill, written);
        keep_segment(path, written);
    }
}

static void commit(struct fill *fill, struct windows windows)
{
    uint32_t end = windows.first + windows.count;
    const struct fg_segment_id id = {writer, end, end};
    char name[FG_NAME_MAX_BYTES];
    struct written written;

    make_segment(fill, windows, &written);
    fill->profiles += written.summary.n_profiles;
    fg_name_segment(name, &id);
    put(fill, name, fg_buf_slice(&written.file), FG_LIT(""));
    swap_in(fill, windows, &id, &written.summary);
    fg_buf_done(&written.file);
}

/* How many windows are in the bucket. */
static uint32_t committed(struct fill *fill)
{
    struct fg_manifest *manifest = read_l0(fill);
    const struct fg_l0_writer *of = fg_l0_writer(&manifest->l0, writer);
    uint32_t windows = of == NULL ? 0 : (uint32_t)of->cut;

    fg_manifest_unref(manifest);
    return windows;
}

/* ---- all of it ---- */

static void show_day(struct fill *fill, uint32_t window)
{
    double n = (double)fill->profiles;

    (void)fprintf(stderr,
                  "day %.1f of %u: %llu profiles, %u nodes drawn; CPU us a profile: drawn %.1f, "
                  "segments %.1f, compacted %.1f\n",
                  (double)(window + 1) / WINDOWS_A_DAY, fill->days,
                  (unsigned long long)fill->profiles, resample_tree(fill->stream.resample)->n_nodes,
                  (double)fill->draw_ns / n / 1e3, (double)fill->write_ns / n / 1e3,
                  (double)fill->compact_ns / n / 1e3);
    fill->draw_ns = fill->write_ns = fill->compact_ns = 0;
    fill->profiles = 0;
}

/* What arrived late, in segments of some days; one minute after the other. */
static void run_backfill(struct fill *fill, uint32_t end)
{
    uint32_t step = fill->backfill_days * WINDOWS_A_DAY;

    for (uint32_t w = committed(fill), minutes = 0; w < end; w += step) {
        fill->clock.wall_ns =
            fill->start_ns + end * WINDOW_NS + COMMIT_NS + minutes++ * FG_MINUTE_NS;
        commit(fill, (struct windows){w, FG_MIN(step, end - w)});
        compact(fill);
        show_day(fill, w);
    }
}

/* The minutes until the next window, each with a round of the compactor and questions. */
static void run_minutes(struct fill *fill, struct ask *ask)
{
    for (int minutes = 0; minutes < WINDOW_NS / FG_MINUTE_NS; minutes++) {
        if (fill->clock.wall_ns / FG_MINUTE_NS % fill->ask_minutes == 0)
            ask_now(ask, fill->start_ns, fill->clock.wall_ns);
        fill->clock.wall_ns += FG_MINUTE_NS;
        compact(fill);
    }
}

static void run(struct fill *fill)
{
    uint32_t windows = (uint32_t)((fill->end_ns - fill->start_ns) / WINDOW_NS);
    uint32_t late = fill->backfill_days == 0 ? 0 : windows - WINDOWS_AFTER_BACKFILL;
    struct ask *ask = ask_create(fill->bucket, &fill->clock.clock);

    run_backfill(fill, late);
    for (uint32_t w = committed(fill); w < windows; w++) {
        fill->clock.wall_ns = fill->start_ns + (w + 1) * WINDOW_NS + COMMIT_NS;
        commit(fill, (struct windows){w, 1});
        compact(fill);
        if ((w + 1) % WINDOWS_A_DAY == 0 || w + 1 == windows)
            show_day(fill, w);
        if (fill->ask_minutes > 0 && w + WINDOWS_A_DAY >= windows)
            run_minutes(fill, ask);
    }
    fill->clock.wall_ns = fill->end_ns + COMMIT_NS;
    for (int i = 0; i < ROUNDS_AT_THE_END; i++)
        compact(fill);
    if (fill->ask_minutes > 0) {
        ask_now(ask, fill->start_ns, fill->clock.wall_ns);
        ask_show(ask);
    }
    ask_destroy(ask);
}

/* The line of fill.json of a folder that was begun before; false: it is a new one. */
static bool read_line(const char *path, char line[LINE_BYTES])
{
    FILE *file = fopen(path, "re");
    bool there = file != NULL && fgets(line, LINE_BYTES, file) != NULL;

    if (file != NULL)
        (void)fclose(file);
    return there;
}

/* What the folder is, or is to be: of what is there already the end is kept. */
static void describe(struct fill *fill)
{
    char path[PATH_BYTES], line[LINE_BYTES], before[LINE_BYTES];
    FILE *file;
    bool there;

    place(fill, "fill.json", path);
    there = read_line(path, before);
    if (there && strstr(before, END_KEY) != NULL)
        fill->end_ns = strtoll(strstr(before, END_KEY) + strlen(END_KEY), NULL, 10) * FG_SECOND_NS;
    fill->start_ns = fill->end_ns - fill->days * DAY_NS;
    (void)snprintf(line, sizeof line,
                   "{\"days\": %u, \"instances\": %u, \"interval_s\": %lld, \"sparse_s\": %lld, "
                   "\"backfill_days\": %u, \"start_s\": %lld, " END_KEY "%lld}\n",
                   fill->days, fill->instances, (long long)(fill->interval_ns / FG_SECOND_NS),
                   (long long)(fill->sparse_ns / FG_SECOND_NS), fill->backfill_days,
                   (long long)(fill->start_ns / FG_SECOND_NS),
                   (long long)(fill->end_ns / FG_SECOND_NS));
    if (there && strcmp(line, before) != 0) {
        (void)fprintf(stderr, "bench_fill: %s was begun as %s", fill->folder, before);
        exit(1);
    }
    file = fopen(path, "we");
    if (file == NULL || fputs(line, file) < 0 || fclose(file) != 0)
        fail_errno(path);
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: bench_fill [--days N] [--instances N] [--interval SECONDS] "
                          "[--sparse SECONDS] [--dense HOURS] [--backfill DAYS] [--ask MINUTES] "
                          "[--end UNIX] [--memory MIB] [--segments DIR] FOLDER FILE...\n");
    return 2;
}

/* Windows have as many profiles of each instance, or there is one in as many windows. */
static bool is_interval(int64_t interval_ns)
{
    return interval_ns > WINDOW_NS
               ? interval_ns % WINDOW_NS == 0 && DAY_NS % interval_ns == 0
               : interval_ns % STREAM_INTERVAL_NS == 0 && WINDOW_NS % interval_ns == 0;
}

static bool parse(struct fill *fill, int argc, char **argv)
{
    static const struct option options[] = {{"days", required_argument, NULL, 'd'},
                                            {"instances", required_argument, NULL, 'i'},
                                            {"sparse", required_argument, NULL, 's'},
                                            {"dense", required_argument, NULL, 'D'},
                                            {"end", required_argument, NULL, 'e'},
                                            {"memory", required_argument, NULL, 'm'},
                                            {"segments", required_argument, NULL, 'k'},
                                            {"interval", required_argument, NULL, 'I'},
                                            {"backfill", required_argument, NULL, 'b'},
                                            {"ask", required_argument, NULL, 'a'},
                                            {0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        long long value = option == '?' ? 0 : strtoll(optarg, NULL, 10);

        if (option == 'k')
            fill->segments = optarg;
        else if (value <= 0)
            return false;
        fill->days = option == 'd' ? (uint32_t)value : fill->days;
        fill->instances = option == 'i' ? (uint32_t)value : fill->instances;
        fill->backfill_days = option == 'b' ? (uint32_t)value : fill->backfill_days;
        fill->ask_minutes = option == 'a' ? (uint32_t)value : fill->ask_minutes;
        fill->interval_ns = option == 'I' ? value * FG_SECOND_NS : fill->interval_ns;
        fill->sparse_ns = option == 's' ? value * FG_SECOND_NS : fill->sparse_ns;
        fill->dense_ns = option == 'D' ? value * FG_HOUR_NS : fill->dense_ns;
        fill->end_ns = option == 'e' ? value * FG_SECOND_NS : fill->end_ns;
        fill->memory_bytes = option == 'm' ? (uint64_t)value << 20 : fill->memory_bytes;
    }
    if (fill->sparse_ns == 0)
        fill->sparse_ns = fill->interval_ns;
    return argc - optind >= 2 && fill->end_ns % WINDOW_NS == 0 && is_interval(fill->interval_ns) &&
           is_interval(fill->sparse_ns) &&
           (fill->backfill_days == 0 ||
            fill->days * WINDOWS_A_DAY > (uint32_t)WINDOWS_AFTER_BACKFILL);
}

int main(int argc, char **argv)
{
    int64_t half_ns = fg_wall_ns(fg_clock_real()) - FG_HOUR_NS / 2;
    struct fill fill = {.days = 30,
                        .instances = 20,
                        .interval_ns = STREAM_INTERVAL_NS,
                        .dense_ns = 26 * FG_HOUR_NS,
                        .memory_bytes = UINT64_C(1) << 30,
                        .end_ns = half_ns - half_ns % FG_HOUR_NS + FG_HOUR_NS / 2};
    char path[PATH_BYTES];
    int fd;

    if (!parse(&fill, argc, argv))
        return usage();
    fill.folder = argv[optind];
    if (mkdir(fill.folder, 0700) != 0 && errno != EEXIST)
        fail_errno(fill.folder);
    if (fill.segments != NULL && mkdir(fill.segments, 0700) != 0 && errno != EEXIST)
        fail_errno(fill.segments);
    describe(&fill);
    place(&fill, "jobs.log", path);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        fail_errno(path);
    fg_log_set_fd(fd);
    fill.registry = fg_registry_create();
    fill.tenants = tenants_make(&fill.limits, NULL, false, fill.registry);
    open_bucket(&fill);
    open_compaction(&fill);
    fill.stream.instances = fill.instances;
    stream_open(&fill.stream, argv + optind + 1, argc - optind - 1);
    run(&fill);
    stream_close(&fill.stream);
    cmp_compaction_destroy(fill.compaction);
    fg_bucket_close(fill.bucket);
    tenants_free(fill.tenants, &fill.limits);
    fg_registry_destroy(fill.registry);
    return 0;
}
