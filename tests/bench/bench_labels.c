/*
 * What questions about labels cost if there are very many series.
 *
 *     bench_labels SERIES SERVICES DAYS [MEMORY_MIB [ROW]]
 *
 * SERIES series of SERVICES services are in each of DAYS blocks of a day, in a bucket in memory;
 * nine of ten are the same from one day to the next. Each has a profile a day. Their labels: env
 * (3 values), pod (a tenth of the series), region (5), request (each its own), service_name,
 * version (20). Cold is a querier that was just made, warm one that was asked before: the best of
 * some runs. MEMORY_MIB: querier.answer_max_bytes, by default that of the setting, 256. ROW: only
 * the questions whose name has this text.
 */
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/cluster/manifest/blocks.h"
#include "common/net/http/impl.h"
#include "common/storage/block/writer.h"
#include "querier/blocks/blocks.h"
#include "querier/collect.h"
#include "querier/label_list.h"
#include "querier/querier.h"
#include "tests/lib/bucket_doubles.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum {
    LABELS = 7,
    TEXT_BYTES = 48,
    WARM_RUNS = 7,
    NEW_OF = 10, /* one series in so many is new each day */
};

#define START_NS INT64_C(1699920000000000000) /* midnight */
#define DAY_NS   (24 * FG_HOUR_NS)
#define CPU      "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define TENANT   FG_LIT(FG_TENANT_ONLY)

struct bench {
    uint32_t series, services, days;
    struct fg_bucket *bucket;
    uint64_t bytes, memory_max_bytes;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code == FG_OK)
        return;
    (void)fprintf(stderr, "bench_labels: %s\n", err->msg);
    exit(1); /* NOLINT(concurrency-mt-unsafe): there is one thread */
}

static double now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- blocks ---- */

/* A series and the texts of its labels. */
struct bench_series {
    struct fg_label labels[LABELS];
    char pod[TEXT_BYTES], region[TEXT_BYTES], request[TEXT_BYTES], version[TEXT_BYTES];
    struct fg_block_series series;
};

static const struct fg_value_type value_types[] = {{FG_LIT("cpu"), FG_LIT("nanoseconds")}};

static void make_series(struct bench_series *made, struct fg_slice service, uint32_t number,
                        uint32_t first_day)
{
    static const char *const envs[] = {"dev", "prod", "test"};

    (void)snprintf(made->pod, sizeof made->pod, "pod-%07u", number / 10);
    (void)snprintf(made->region, sizeof made->region, "region-%u", number % 5);
    (void)snprintf(made->request, sizeof made->request, "request-%02u-%08u", first_day, number);
    (void)snprintf(made->version, sizeof made->version, "v%02u", number % 20);
    made->labels[0] = (struct fg_label){FG_LIT("__name__"), FG_LIT("process_cpu")};
    made->labels[1] = (struct fg_label){FG_LIT("env"), fg_cstr(envs[number % 3])};
    made->labels[2] = (struct fg_label){FG_LIT("pod"), fg_cstr(made->pod)};
    made->labels[3] = (struct fg_label){FG_LIT("region"), fg_cstr(made->region)};
    made->labels[4] = (struct fg_label){FG_LIT("request"), fg_cstr(made->request)};
    made->labels[5] = (struct fg_label){FG_LIT("service_name"), service};
    made->labels[6] = (struct fg_label){FG_LIT("version"), fg_cstr(made->version)};
    made->series = (struct fg_block_series){
        {made->labels, LABELS}, value_types, 1, {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
}

static int series_order(const void *left, const void *right)
{
    const struct bench_series *const *a = left, *const *b = right;

    return fg_block_series_cmp(&(*a)->series, &(*b)->series);
}

static void write_series(struct fg_block_writer *writer, const struct bench_series *made,
                         uint32_t number, uint32_t day)
{
    static const uint32_t stacks[] = {1};
    uint64_t seed = (uint64_t)number << 32 | day, value = number % 1000 + 1;
    struct fg_block_profile profile = {
        .id = fg_hash128(fg_bytes(&seed, sizeof seed)),
        .time_ns = START_NS + day * DAY_NS + number % 86400 * FG_SECOND_NS,
        .period = 10000000,
        .n_samples = 1,
        .stacks = stacks,
        .values = &value,
    };
    struct fg_err err;

    must(fg_block_series_begin(writer, &made->series, &err), &err);
    must(fg_block_profile_add(writer, &profile, &err), &err);
}

static void write_service(const struct bench *bench, struct fg_block_writer *writer,
                          uint32_t service, uint32_t day)
{
    uint32_t n = bench->series / bench->services, uses[] = {0, n};
    struct bench_series *made = fg_calloc(n, sizeof *made);
    struct bench_series **sorted = fg_calloc(n, sizeof(void *));
    char name[TEXT_BYTES];
    struct fg_tree tree;
    struct fg_err err;

    (void)snprintf(name, sizeof name, "service-%05u", service);
    fg_tree_init(&tree);
    (void)fg_tree_child(&tree, FG_TREE_ROOT,
                        fg_symbols_name_location(&tree.symbols, FG_LIT("main")));
    must(fg_block_part_begin(writer, TENANT, fg_cstr(name), &tree, uses, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        make_series(&made[i], fg_cstr(name), service * n + i, i % NEW_OF == 0 ? day : 0);
        sorted[i] = &made[i];
    }
    qsort(sorted, n, sizeof(void *), series_order);
    for (uint32_t i = 0; i < n; i++)
        write_series(writer, sorted[i], service * n + (uint32_t)(sorted[i] - made), day);
    must(fg_block_part_end(writer, &err), &err);
    fg_tree_done(&tree);
    free(sorted);
    free(made);
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

static void put(struct fg_bucket *bucket, const char *name, struct fg_slice content)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    must(fg_bucket_call(bucket, &request), &request.err);
    fg_bucket_clear(&request);
}

static void commit_day(struct bench *bench, uint32_t day, struct fg_blocks *blocks,
                       const struct fg_l0 *l0, struct fg_arena *arena)
{
    struct fg_blocks_entry entry = {.id = {day + 1, 3}, .level = 3, .shard_last = UINT16_MAX};
    struct fg_blocks_change change = {.add = &entry, .n_add = 1};
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf file;
    struct fg_block_sink sink = {append, &file};
    struct fg_block_writer *writer = fg_block_writer_create(&sink, 3);
    struct fg_block_summary summary;
    struct fg_err err;
    bool changed;

    fg_buf_init(&file, SIZE_MAX);
    for (uint32_t i = 0; i < bench->services; i++)
        write_service(bench, writer, i, day);
    must(fg_block_writer_finish(writer, &summary, &err), &err);
    fg_block_writer_destroy(writer);
    must(fg_name_block(name, TENANT, entry.id, &err), &err);
    put(bench->bucket, name, fg_buf_slice(&file));
    bench->bytes += file.len;
    entry.start_ns = START_NS + day * DAY_NS;
    entry.end_ns = entry.start_ns + DAY_NS;
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

static void fill(struct bench *bench)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_blocks blocks = fg_blocks_none(TENANT);
    struct fg_l0 l0 = fg_l0_none();
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf out;
    struct fg_err err;

    for (uint32_t i = 0; i < bench->days; i++)
        commit_day(bench, i, &blocks, &l0, arena);
    fg_buf_init(&out, SIZE_MAX);
    must(fg_name_blocks(name, TENANT, &err), &err);
    must(fg_blocks_encode(&blocks, &out, &err), &err);
    put(bench->bucket, name, fg_buf_slice(&out));
    fg_buf_clear(&out);
    must(fg_l0_encode(&l0, &out, &err), &err);
    put(bench->bucket, FG_NAME_L0, fg_buf_slice(&out));
    fg_buf_done(&out);
    fg_arena_destroy(arena);
}

/* ---- questions ---- */

enum kind { LIST, NAMES_ONLY, SETS };

struct row {
    const char *name;
    enum kind kind;
    const char *path;
    struct qry_render_params params;
};

static const struct row rows[] = {
    {"label sets of request (what LabelValues was made from)",
     SETS,
     NULL,
     {.label = FG_LIT("request")}},
    {"LabelNames", NAMES_ONLY, NULL, {.query = {NULL, 0}}},
    {"names with numbers", LIST, "/api/labels", {.query = {NULL, 0}}},
    {"request, the first 100 by name", LIST, "/api/labels/request", {.sort = FG_LIT("name")}},
    {"request, the top 100 by series", LIST, "/api/labels/request", {.sort = FG_LIT("series")}},
    {"request, a prefix", LIST, "/api/labels/request", {.prefix = FG_LIT("request-00-0001")}},
    {"request, a regular expression",
     LIST,
     "/api/labels/request",
     {.regex = FG_LIT("request-.*77")}},
    {"request, growth",
     LIST,
     "/api/labels/request",
     {.sort = FG_LIT("series"), .growth = FG_LIT("true")}},
    {"request, the top 100 by value",
     LIST,
     "/api/labels/request",
     {.sort = FG_LIT("value"), .query = FG_LIT(CPU "{}")}},
    {"pod, the top 100 by series", LIST, "/api/labels/pod", {.sort = FG_LIT("series")}},
    {"pod of one env and region",
     LIST,
     "/api/labels/pod",
     {.sort = FG_LIT("series"), .query = FG_LIT("{env=\"prod\", region=\"region-1\"}")}},
    {"service_name, the top 100 by series",
     LIST,
     "/api/labels/service_name",
     {.sort = FG_LIT("series")}},
    {"__profile_type__", LIST, "/api/labels/__profile_type__", {.sort = FG_LIT("series")}},
};

static enum fg_code answer(struct qry_query *question, const struct row *row, struct fg_err *err)
{
    struct qry_cardinality_config config = {.names_only = true,
                                            .max_bytes = question->querier->answer_max_bytes};
    struct qry_selection selection = {.start_ns = START_NS, .end_ns = INT64_MAX / 2};
    struct qry_cardinality found;
    struct qry_label_sets sets;
    enum fg_code code;

    if (row->kind == LIST)
        return qry_label_endpoints[strlen(row->path) > strlen("/api/labels")].answer(question, NULL,
                                                                                     err);
    if (row->kind == SETS) {
        const char *names[] = {fg_arena_text(question->arena, row->params.label)};

        qry_label_sets_init(&sets);
        code = qry_collect_series(question, &selection, names, 1, &sets, err);
        qry_label_sets_done(&sets);
        return code;
    }
    qry_cardinality_init(&found, &config);
    code = qry_collect_labels(question, &selection, &found, err);
    qry_cardinality_done(&found);
    return code;
}

/* Returns the CPU time, or less than 0 if it fails. */
static double ask(const struct bench *bench, struct querier *querier, const struct row *row,
                  size_t *ret_bytes, struct fg_err *err)
{
    static struct fg_http_request nobody;
    struct qry_query *question = fg_new(struct qry_query);
    uint32_t from_day = row->params.growth.len > 0 ? bench->days / 2 : 0;
    double since = now_ms();
    enum fg_code code;

    question->querier = querier;
    question->req = &nobody;
    question->endpoint = &qry_label_endpoints[0];
    question->params = row->params;
    question->params.path = fg_cstr(row->path == NULL ? "" : row->path);
    question->deadline_mono_ns = INT64_MAX;
    question->arena = fg_arena_create(bench->memory_max_bytes);
    question->tenants.ids[question->tenants.n++] = TENANT;
    fg_buf_init(&question->body, bench->memory_max_bytes);
    fg_buf_init(&question->missing, MISSING_MAX_BYTES);
    question->params.from = fg_cstr(fg_arena_printf(
        question->arena, "%lld", (long long)((START_NS + from_day * DAY_NS) / FG_MS_NS)));
    question->params.until = fg_cstr(fg_arena_printf(
        question->arena, "%lld", (long long)((START_NS + bench->days * DAY_NS) / FG_MS_NS - 1)));
    code = answer(question, row, err);
    *ret_bytes = question->body.len;
    since = now_ms() - since;
    qry_blocks_end(question);
    fg_buf_done(&question->body);
    fg_buf_done(&question->missing);
    fg_arena_destroy(question->arena);
    free(question);
    return code == FG_OK ? since : -1;
}

static void show(const struct bench *bench, const struct row *row)
{
    struct fg_registry *registry = fg_registry_create();
    struct querier *querier = qry_create(&(struct qry_config){
        .registry = registry,
        .clock = fg_clock_real(),
        .bucket = bench->bucket,
        .answer_max_bytes = bench->memory_max_bytes,
        .cache_max_bytes = UINT64_C(16) << 30,
        .fetch_max_bytes = UINT64_C(32) << 20,
        .manifest_age_ns = FG_HOUR_NS,
    });
    struct rusage usage;
    struct fg_err err;
    size_t bytes = 0;
    double cold = ask(bench, querier, row, &bytes, &err), warm = 0;

    for (int i = 0; i < WARM_RUNS && cold >= 0; i++) {
        double took = ask(bench, querier, row, &bytes, &err);

        warm = i == 0 ? took : FG_MIN(warm, took);
    }
    (void)getrusage(RUSAGE_SELF, &usage);
    if (cold < 0)
        printf("| %s | %s | | | |\n", row->name, err.msg);
    else
        printf("| %s | %.1f | %.1f | %zu | %ld |\n", row->name, cold, warm, bytes,
               usage.ru_maxrss / 1024);
    (void)fflush(stdout);
    qry_destroy(querier);
    fg_registry_destroy(registry);
}

int main(int argc, char **argv)
{
    struct bench bench = {.bucket = fg_bucket_memory(), .memory_max_bytes = UINT64_C(256) << 20};

    if (argc < 4) {
        (void)fprintf(stderr, "usage: bench_labels SERIES SERVICES DAYS [MEMORY_MIB [ROW]]\n");
        return 2;
    }
    bench.series = (uint32_t)strtoul(argv[1], NULL, 10);
    bench.services = FG_MAX((uint32_t)strtoul(argv[2], NULL, 10), 1U);
    bench.days = FG_MAX((uint32_t)strtoul(argv[3], NULL, 10), 1U);
    if (argc > 4)
        bench.memory_max_bytes = (uint64_t)strtoul(argv[4], NULL, 10) << 20;
    fill(&bench);
    printf("%u series, %u services, %u days: %.1f MB\n\n", bench.series, bench.services, bench.days,
           (double)bench.bytes / 1e6);
    printf("| question | cold ms | warm ms | answer bytes | memory at most so far, MiB |\n"
           "|---|---|---|---|---|\n");
    for (size_t i = 0; i < FG_COUNT(rows); i++)
        if (argc <= 5 || strstr(rows[i].name, argv[5]) != NULL)
            show(&bench, &rows[i]);
    fg_bucket_close(bench.bucket);
    return 0;
}
