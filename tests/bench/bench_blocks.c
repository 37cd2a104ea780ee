/*
 * What questions cost that are answered from segments, and from blocks with rollups.
 *
 *     bench_blocks [--encrypted] SEGMENTS INSTANCES DAYS FILE...
 *
 * FILEs are pprofs, from which CPU profiles are resampled (resample.h): one of 10 s for each
 * instance of one service, in a segment for each 10 minutes, in a bucket in memory. Before these
 * there are blocks of a day, each with a rollup of the day. They have an hour's profiles only,
 * one in four minutes of each instance: nodes are no larger for that, but what is read raw is. Cold
 * is a querier that was just made, warm one that was asked before; each the best of some runs. CPU
 * time is that of all who answer, so a network would come on top. Time on the wall is given for the
 * thread that asks alone, and with one worker to help it; the two take turns, so that who else uses
 * the machine disturbs both.
 */
#include "common/base/time.h"
#include "common/cluster/manifest/blocks.h"
#include "common/model/flame.h"
#include "common/net/http/impl.h"
#include "common/net/inflate.h"
#include "common/storage/rollup/writer.h"
#include "proto/pprof/pprof.h"
#include "querier/blocks/blocks.h"
#include "querier/collect.h"
#include "querier/flamegraph.h"
#include "querier/querier.h"
#include "tests/bench/resample.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/made_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
    FILE_MAX_BYTES = 256 * 1024 * 1024,
    TICKS = 300,
    ROUNDS = 60, /* profiles of an instance in a segment */
    DAY_ROUNDS = 360,
    TYPES = 2,
    PROFILE_BYTES = 340, /* of samples, as nodes count what they save */
    COLD_RUNS = 3,
    WARM_RUNS = 9,
    HELPERS = 2, /* none, and one: columns of tables */
};

#define START_NS    INT64_C(1700000000000000000)
#define INTERVAL_NS (INT64_C(10) * 1000 * 1000 * 1000)
#define SEGMENT_NS  (ROUNDS * INTERVAL_NS)
#define DAY_NS      (24 * FG_HOUR_NS)
#define CPU         "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define TENANT      FG_LIT(FG_TENANT_ONLY)

struct cost {
    int64_t cpu_ns, wall_ns;
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return now.tv_sec * FG_SECOND_NS + now.tv_nsec;
}

static struct cost cost_now(void)
{
    return (struct cost){clock_ns(CLOCK_PROCESS_CPUTIME_ID), clock_ns(CLOCK_MONOTONIC)};
}

/* The least of both. */
static void cost_take(struct cost *best, struct cost since)
{
    struct cost now = cost_now();

    best->cpu_ns = FG_MIN(best->cpu_ns, now.cpu_ns - since.cpu_ns);
    best->wall_ns = FG_MIN(best->wall_ns, now.wall_ns - since.wall_ns);
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code == FG_OK)
        return;
    (void)fprintf(stderr, "bench_blocks: %s\n", err->msg);
    exit(1); /* NOLINT(concurrency-mt-unsafe): there is one thread */
}

/* ---- profiles ---- */

static void read_file(const char *path, struct fg_buf *out)
{
    uint8_t chunk[65536];
    FILE *file = fopen(path, "rbe");
    struct fg_buf packed;
    struct fg_err err;
    size_t got;

    if (file == NULL)
        must(fg_fail_errno(&err, errno, "%s", path), &err);
    fg_buf_init(&packed, FILE_MAX_BYTES);
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        fg_buf_append(&packed, chunk, got);
    (void)fclose(file);
    must(fg_inflate(fg_buf_slice(&packed), fg_coding_sniff(fg_buf_slice(&packed)), FILE_MAX_BYTES,
                    out, &err),
         &err);
    fg_buf_done(&packed);
}

static void learn(struct resample *resample, const char *path)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("profile")},
                                       {FG_LIT("service_name"), FG_LIT("bench")}};
    struct fg_pprof_request request = {.upload = {.labels = {labels, FG_COUNT(labels)},
                                                  .time_ns = START_NS,
                                                  .limits = FG_DECODE_LIMITS_DEFAULT}};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_decode_counts counts = {0};
    struct fg_batch batch = {0};
    struct fg_pprof_info info;
    struct fg_buf body;
    struct fg_err err;

    fg_buf_init(&body, SIZE_MAX);
    read_file(path, &body);
    must(fg_pprof_decode(fg_buf_slice(&body), &request, arena, &batch, &info, &counts, &err), &err);
    resample_learn(resample, &batch);
    fg_buf_done(&body);
    fg_arena_destroy(arena);
}

/* ---- segments ---- */

struct stream {
    struct resample *resample;
    struct fg_bucket *bucket;
    uint32_t segments, instances, days;
    uint64_t samples, profiles, bytes;
};

/* A segment or a block on its way. */
struct bench_object {
    uint32_t first_round, rounds; /* of each instance, of all there are */
    int64_t start_ns, interval_ns;
    bool nodes;
    uint64_t *sums[TYPES]; /* by stack; of nodes */
    struct fg_id digest;
};

static struct bench_object segment_object(uint32_t number)
{
    return (struct bench_object){.first_round = number * ROUNDS,
                                 .rounds = ROUNDS,
                                 .start_ns = START_NS + number * SEGMENT_NS,
                                 .interval_ns = INTERVAL_NS};
}

/* Number 0 is the last one before the segments. */
static struct bench_object day_object(const struct stream *stream, uint32_t number)
{
    return (struct bench_object){.first_round = stream->segments * ROUNDS + number * DAY_ROUNDS,
                                 .rounds = DAY_ROUNDS,
                                 .start_ns = START_NS - (number + 1) * DAY_NS,
                                 .interval_ns = DAY_NS / DAY_ROUNDS,
                                 .nodes = true};
}

static uint64_t seed_of(const struct stream *stream, const struct bench_object *object,
                        uint32_t instance, uint32_t round)
{
    return ((uint64_t)object->first_round + round) * stream->instances + instance + 1;
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

/* All stacks of an object are drawn before its tree is complete. */
static uint32_t *count_uses(const struct stream *stream, const struct bench_object *object)
{
    uint32_t stacks[TICKS], cap = 1;
    uint32_t *uses = fg_calloc(cap, sizeof *uses);
    uint64_t counts[TICKS];

    for (uint32_t i = 0; i < stream->instances; i++)
        for (uint32_t k = 0; k < object->rounds; k++) {
            uint32_t n = resample_draw(stream->resample, seed_of(stream, object, i, k), TICKS,
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

static void write_profile(struct stream *stream, struct fg_block_writer *writer,
                          struct bench_object *object, uint32_t instance, uint32_t round)
{
    uint64_t seed = seed_of(stream, object, instance, round), values[2 * TICKS];
    uint32_t stacks[TICKS];
    uint32_t n = resample_draw(stream->resample, seed, TICKS, stacks, values);
    struct fg_block_profile profile = {
        .id = fg_hash128(fg_bytes(&seed, sizeof seed)),
        .time_ns = object->start_ns + round * object->interval_ns,
        .duration_ns = INTERVAL_NS,
        .period = 10000000,
        .n_samples = n,
        .stacks = stacks,
        .values = values,
    };
    struct fg_err err;

    for (uint32_t i = 0; i < n; i++)
        values[n + i] = values[i] * 10000000;
    for (uint32_t i = 0; object->nodes && i < TYPES * n; i++)
        object->sums[i / n][stacks[i % n]] += values[i];
    object->digest = fg_id_add(object->digest, profile.id);
    stream->samples += n;
    stream->profiles++;
    must(fg_block_profile_add(writer, &profile, &err), &err);
}

static const struct fg_value_type value_types[TYPES] = {{FG_LIT("samples"), FG_LIT("count")},
                                                        {FG_LIT("cpu"), FG_LIT("nanoseconds")}};

static struct fg_labels instance_labels(uint32_t instance, struct fg_arena *arena)
{
    struct fg_label *labels = fg_arena_new(arena, struct fg_label, 3);

    labels[0] = (struct fg_label){FG_LIT("__name__"), FG_LIT("process_cpu")};
    labels[1] =
        (struct fg_label){FG_LIT("pod"), fg_cstr(fg_arena_printf(arena, "bench-%05u", instance))};
    labels[2] = (struct fg_label){FG_LIT("service_name"), FG_LIT("bench")};
    return (struct fg_labels){labels, 3};
}

static void write_instance(struct stream *stream, struct fg_block_writer *writer,
                           struct bench_object *object, uint32_t instance, struct fg_arena *arena)
{
    struct fg_block_series series = {instance_labels(instance, arena),
                                     value_types,
                                     TYPES,
                                     {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    struct fg_err err;

    must(fg_block_series_begin(writer, &series, &err), &err);
    for (uint32_t k = 0; k < object->rounds; k++)
        write_profile(stream, writer, object, instance, k);
}

/* The node of all series over the object's time. */
static struct fg_rollup_writer *write_nodes(const struct stream *stream,
                                            struct fg_block_writer *writer,
                                            struct bench_object *object, struct fg_arena *arena)
{
    static const struct fg_profile_type types[TYPES] = {
        {FG_LIT("process_cpu"), FG_LIT("samples"), FG_LIT("count"), FG_LIT("cpu"),
         FG_LIT("nanoseconds")},
        {FG_LIT("process_cpu"), FG_LIT("cpu"), FG_LIT("nanoseconds"), FG_LIT("cpu"),
         FG_LIT("nanoseconds")}};
    struct fg_rollup_key key = {.start_ns = object->start_ns, .end_ns = object->start_ns + DAY_NS};
    uint64_t count = (uint64_t)object->rounds * stream->instances;
    struct fg_labels *labels = fg_arena_new(arena, struct fg_labels, stream->instances);
    struct fg_groups *groups = fg_arena_new(arena, struct fg_groups, 1);
    struct fg_rollup_options options = {.tree = resample_tree(stream->resample),
                                        .groups = groups,
                                        .types = types,
                                        .n_types = TYPES,
                                        .n_ranks = fg_block_part_n_stacks(writer)};
    uint32_t *ranks = fg_arena_new(arena, uint32_t, options.n_ranks);
    const struct fg_function_tree *names;
    struct fg_rollup_value values[TYPES];
    struct fg_rollup_writer *nodes;
    struct fg_err err;

    for (uint32_t i = 0; i < stream->instances; i++)
        labels[i] = instance_labels(i, arena);
    must(fg_groups_choose(labels, stream->instances, NULL, 0, arena, groups, &err), &err);
    fg_block_part_stacks(writer, ranks);
    must(fg_rollup_writer_create(&options, &nodes, &err), &err);
    names = fg_rollup_writer_functions(nodes);
    for (uint32_t i = 0; i < TYPES; i++) {
        int64_t *self = fg_arena_new(arena, int64_t, names->n_nodes);
        uint64_t *full = fg_arena_new(arena, uint64_t, options.n_ranks);

        for (uint32_t k = 0; k < options.tree->n_nodes; k++)
            self[names->nodes[k]] += (int64_t)object->sums[i][k + 1];
        self[names->no_stack] += (int64_t)object->sums[i][0];
        for (uint32_t k = 0; k < options.n_ranks; k++)
            full[k] = object->sums[i][ranks[k]];
        values[i] =
            (struct fg_rollup_value){i, self, full, count, object->digest, count * PROFILE_BYTES};
    }
    must(fg_rollup_add(nodes, &key, values, TYPES, &err), &err);
    must(fg_rollup_write(nodes, writer, &err), &err);
    return nodes;
}

static struct fg_block_summary write_object(struct stream *stream, struct bench_object *object,
                                            struct fg_buf *out)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_block_sink sink = {append, out};
    struct fg_block_writer *writer = fg_block_writer_create(&sink, object->nodes ? 3 : 0);
    struct fg_rollup_writer *nodes = NULL;
    uint32_t *uses = count_uses(stream, object);
    struct fg_block_summary summary;
    struct fg_err err;

    fg_block_writer_set_keys(writer, stream->bucket->keys);
    for (uint32_t i = 0; object->nodes && i < TYPES; i++)
        object->sums[i] =
            fg_arena_new(arena, uint64_t, (size_t)resample_tree(stream->resample)->n_nodes + 1);
    must(fg_block_part_begin(writer, TENANT, FG_LIT("bench"), resample_tree(stream->resample), uses,
                             &err),
         &err);
    for (uint32_t i = 0; i < stream->instances; i++)
        write_instance(stream, writer, object, i, arena);
    if (object->nodes)
        nodes = write_nodes(stream, writer, object, arena);
    must(fg_block_part_end(writer, &err), &err);
    must(fg_block_writer_finish(writer, &summary, &err), &err);
    fg_rollup_writer_destroy(nodes);
    fg_block_writer_destroy(writer);
    fg_arena_destroy(arena);
    free(uses);
    return summary;
}

static void put(struct fg_bucket *bucket, const char *name, struct fg_slice content)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    must(fg_bucket_call(bucket, &request), &request.err);
    fg_bucket_clear(&request);
}

/* Into the bucket, and into the manifest. */
static void commit_segment(struct stream *stream, uint32_t segment, struct fg_l0 *l0,
                           struct fg_arena *arena)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf file;
    struct fg_err err;

    fg_buf_init(&file, SIZE_MAX);
    struct bench_object object = segment_object(segment);
    struct fg_block_summary summary = write_object(stream, &object, &file);
    struct fg_l0_new_part part = {TENANT, summary.t_min_ns, summary.t_max_ns, summary.n_profiles,
                                  summary.usage};
    struct fg_l0_new entry = {
        .id = {{1, 1}, segment + 1, segment},
        .bytes = summary.file_bytes,
        .directory_offset = summary.directory_offset,
        .directory_bytes = summary.file_bytes - summary.directory_offset,
        .profiles = summary.n_profiles,
        .digest = summary.digest,
        .t_min_ns = summary.t_min_ns,
        .t_max_ns = summary.t_max_ns,
        .parts = &part,
        .n_parts = 1,
        .groups = fg_late_filter_none(),
    };
    fg_name_segment(name, &entry.id);
    put(stream->bucket, name, fg_buf_slice(&file));
    stream->bytes += file.len;
    must(fg_l0_commit(l0, &entry, START_NS, 0, arena, l0, &err), &err);
    fg_buf_done(&file);
}

static void commit_day(struct stream *stream, uint32_t day, struct fg_blocks *blocks,
                       const struct fg_l0 *l0, struct fg_arena *arena)
{
    struct bench_object object = day_object(stream, day);
    struct fg_blocks_entry entry = {.id = {day + 1, 3}, .level = 3, .shard_last = UINT16_MAX};
    struct fg_blocks_change change = {.add = &entry, .n_add = 1};
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf file;
    struct fg_err err;
    bool changed;

    fg_buf_init(&file, SIZE_MAX);
    struct fg_block_summary summary = write_object(stream, &object, &file);
    must(fg_name_block(name, TENANT, entry.id, &err), &err);
    put(stream->bucket, name, fg_buf_slice(&file));
    stream->bytes += file.len;
    entry.start_ns = object.start_ns;
    entry.end_ns = object.start_ns + DAY_NS;
    entry.t_min_ns = summary.t_min_ns;
    entry.t_max_ns = summary.t_max_ns;
    entry.bytes = summary.file_bytes;
    entry.directory_offset = summary.directory_offset;
    entry.directory_bytes = summary.file_bytes - summary.directory_offset;
    entry.rollup_offset = summary.rollup_offset;
    entry.rollup_bytes = summary.directory_offset - summary.rollup_offset;
    entry.profiles = summary.n_profiles;
    entry.digest = summary.digest;
    must(fg_blocks_apply(blocks, l0, &change, START_NS, arena, blocks, &changed, &err), &err);
    fg_buf_done(&file);
}

static void fill_days(struct stream *stream, const struct fg_l0 *l0, struct fg_arena *arena)
{
    struct fg_blocks blocks = fg_blocks_none(TENANT);
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf out;
    struct fg_err err;

    for (uint32_t i = 0; i < stream->days; i++)
        commit_day(stream, i, &blocks, l0, arena);
    fg_buf_init(&out, SIZE_MAX);
    must(fg_name_blocks(name, TENANT, &err), &err);
    must(fg_blocks_encode(&blocks, &out, &err), &err);
    put(stream->bucket, name, fg_buf_slice(&out));
    fg_buf_done(&out);
}

static void fill(struct stream *stream)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_l0 l0 = fg_l0_none();
    struct fg_buf out;
    struct fg_err err;

    for (uint32_t i = 0; i < stream->segments; i++)
        commit_segment(stream, i, &l0, arena);
    fg_buf_init(&out, SIZE_MAX);
    must(fg_l0_encode(&l0, &out, &err), &err);
    put(stream->bucket, FG_NAME_L0, fg_buf_slice(&out));
    fg_buf_done(&out);
    if (stream->days > 0)
        fill_days(stream, &l0, arena);
    fg_arena_destroy(arena);
}

/* ---- questions ---- */

enum kind { PICTURE, REFINED, TREE, POINTS, SERIES };

struct row {
    const char *name;
    enum kind kind;
    const char *selector;
    int64_t inset_ns; /* off both ends of the range */
};

static const struct row rows[] = {
    {"flame graph", PICTURE, "{service_name=\"bench\"}", 0},
    {"flame graph, but a second at both ends", PICTURE, "{service_name=\"bench\"}", FG_SECOND_NS},
    {"flame graph, all of it added up", REFINED, "{service_name=\"bench\"}", 0},
    {"flame graph, one instance", PICTURE, "{pod=\"bench-00001\"}", 0},
    {"pprof", TREE, "{service_name=\"bench\"}", 0},
    {"time series by pod, step 15 s", POINTS, "{service_name=\"bench\"}", 0},
    {"Series", SERIES, "{}", 0},
};

static struct qry_query *question_create(struct querier *querier)
{
    static struct fg_http_request nobody;
    struct qry_query *question = fg_new(struct qry_query);

    question->querier = querier;
    question->req = &nobody;
    question->deadline_mono_ns = INT64_MAX;
    question->arena = fg_arena_create(SIZE_MAX / 2);
    question->tenants.ids[question->tenants.n++] = TENANT;
    return question;
}

static enum fg_code answer(struct qry_query *question, const struct row *row,
                           const struct qry_selection *selection, struct fg_err *err)
{
    static const struct qry_stack_filter all;
    static char pod[] = "pod";
    char *group_by[] = {pod};
    struct qry_label_sets sets;
    struct qry_points *points;
    struct fg_tree tree;
    enum fg_code code;
    size_t n;

    if (row->kind == POINTS)
        return qry_collect_points(question, selection, 15 * FG_SECOND_NS, group_by, 1, &points, &n,
                                  err);
    qry_label_sets_init(&sets);
    fg_tree_init(&tree);
    question->refine = row->kind == REFINED;
    if (row->kind == SERIES)
        code = qry_collect_series(question, selection, NULL, 0, &sets, err);
    else if (row->kind == TREE)
        code = qry_collect_tree(question, selection, &all, false, &tree, err);
    else
        code = qry_flamegraph_make(question, selection, &all, FG_FLAME_NODES_DEFAULT, true, &tree,
                                   err);
    fg_tree_done(&tree);
    qry_label_sets_done(&sets);
    return code;
}

static void ask(struct querier *querier, const struct stream *stream, const struct row *row,
                struct qry_query *ret_counts, struct cost *best)
{
    struct qry_query *question = question_create(querier);
    struct qry_selection selection = {
        .type_text = CPU,
        .start_ns = START_NS - stream->days * DAY_NS + row->inset_ns,
        .end_ns = START_NS + stream->segments * SEGMENT_NS - INTERVAL_NS - row->inset_ns,
    };
    struct cost since;
    struct fg_err err;

    must(fg_selector_parse(fg_cstr(row->selector), question->arena, &selection.selector, &err),
         &err);
    since = cost_now();
    must(answer(question, row, &selection, &err), &err);
    cost_take(best, since);
    *ret_counts = *question;
    qry_selection_done(&selection);
    qry_blocks_end(question);
    fg_arena_destroy(question->arena);
    free(question);
}

/* What a row is about, while it is measured. */
struct measured {
    struct qry_query cold_counts, counts;
    struct cost cold[HELPERS], warm[HELPERS];
};

static void measure(const struct stream *stream, const struct row *row, unsigned helpers,
                    struct fg_work *work, int warm_runs, struct measured *measured)
{
    struct fg_registry *registry = fg_registry_create();
    struct querier *querier = qry_create(&(struct qry_config){
        .registry = registry,
        .clock = fg_clock_real(),
        .work = work,
        .bucket = stream->bucket,
        .answer_max_bytes = UINT64_C(4) << 30,
        .cache_max_bytes = UINT64_C(16) << 30,
        .fetch_max_bytes = UINT64_C(32) << 20,
        .manifest_age_ns = FG_HOUR_NS,
    });

    ask(querier, stream, row, &measured->cold_counts, &measured->cold[helpers]);
    for (int i = 0; i < warm_runs; i++)
        ask(querier, stream, row, &measured->counts, &measured->warm[helpers]);
    qry_destroy(querier);
    fg_registry_destroy(registry);
}

static void show_row(const struct stream *stream, const struct row *row, struct fg_work *work)
{
    const struct cost most = {INT64_MAX, INT64_MAX};
    struct measured is = {.cold = {most, most}, .warm = {most, most}};

    for (int i = 0; i < COLD_RUNS; i++)
        for (unsigned helpers = 0; helpers < HELPERS; helpers++)
            measure(stream, row, helpers, helpers == 0 ? NULL : work, WARM_RUNS / COLD_RUNS, &is);
    printf("| %s | %llu | %llu | %.1f | %.1f | %.1f | ", row->name,
           (unsigned long long)is.counts.profiles, (unsigned long long)is.cold_counts.requests,
           (double)is.cold_counts.bytes / 1e6, (double)is.cold[0].cpu_ns / 1e6,
           (double)is.warm[0].cpu_ns / 1e6);
    if (row->kind <= TREE)
        printf("%.2f",
               (double)is.warm[0].cpu_ns / ((double)is.counts.profiles * (double)stream->samples /
                                            (double)stream->profiles));
    printf(" | %s | %.1f, %.1f | %.1f, %.1f |\n", is.counts.inexact ? "no" : "yes",
           (double)is.cold[0].wall_ns / 1e6, (double)is.cold[1].wall_ns / 1e6,
           (double)is.warm[0].wall_ns / 1e6, (double)is.warm[1].wall_ns / 1e6);
}

int main(int argc, char **argv)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 1, .queue_max = 1}};
    struct stream stream = {.resample = resample_create(), .bucket = fg_bucket_memory()};
    struct made_keys keys;
    struct fg_work *work;
    struct fg_err err;

    made_keys_init(&keys, 1);
    if (argc > 1 && strcmp(argv[1], "--encrypted") == 0) {
        stream.bucket->keys = &keys.keys;
        argc--;
        argv++;
    }
    if (argc < 5) {
        (void)fprintf(stderr,
                      "usage: bench_blocks [--encrypted] SEGMENTS INSTANCES DAYS FILE...\n");
        return 2;
    }
    stream.segments = (uint32_t)strtoul(argv[1], NULL, 10);
    stream.instances = (uint32_t)strtoul(argv[2], NULL, 10);
    stream.days = (uint32_t)strtoul(argv[3], NULL, 10);
    for (int i = 4; i < argc; i++)
        learn(stream.resample, argv[i]);
    fill(&stream);
    printf("%u segments, %u days, %u instances: %llu profiles, %llu samples, %.1f MB\n\n",
           stream.segments, stream.days, stream.instances, (unsigned long long)stream.profiles,
           (unsigned long long)stream.samples, (double)stream.bytes / 1e6);
    printf("| question | profiles | requests, cold | MB read | cold ms | warm ms | ns a sample | "
           "exact | cold ms on the wall: alone, helped | warm |\n"
           "|---|---|---|---|---|---|---|---|---|---|\n");
    must(fg_work_create("bench", lanes, &work, &err), &err);
    for (size_t i = 0; i < FG_COUNT(rows); i++)
        show_row(&stream, &rows[i], work);
    fg_work_destroy(work);
    fg_bucket_close(stream.bucket);
    resample_destroy(stream.resample);
    return 0;
}
