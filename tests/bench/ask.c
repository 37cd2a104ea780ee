#include "tests/bench/ask.h"

#include "common/base/time.h"
#include "common/model/flame.h"
#include "common/net/http/impl.h"
#include "querier/blocks/blocks.h"
#include "querier/flamegraph.h"
#include "querier/querier.h"
#include "tests/bench/stream.h"

#include <stdlib.h>

#define DAY_NS (24 * FG_HOUR_NS)
#define CPU    "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

static const uint32_t spans_days[] = {1, 7, 30, 90, 365};
static const char *const selectors[][2] = {
    {"the service", "{service_name=\"bench\"}"},
    {"one pod", "{service_name=\"bench\", pod=\"bench-6c9f7b8d5-00003\"}"}};

/* What the answers to a question took. */
struct asked {
    uint64_t answers, requests, requests_max, bytes, bytes_max, inexact;
    int64_t cpu_ns, requests_max_at_ns;
};

struct ask {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    struct asked asked[FG_COUNT(selectors)][FG_COUNT(spans_days)];
};

struct ask *ask_create(struct fg_bucket *bucket, struct fg_clock *clock)
{
    struct ask *ask = fg_new(struct ask);

    ask->bucket = bucket;
    ask->clock = clock;
    return ask;
}

void ask_destroy(struct ask *ask)
{
    free(ask);
}

static void answer(struct querier *querier, const char *selector, int64_t start_ns, int64_t end_ns,
                   struct asked *asked)
{
    static struct fg_http_request nobody;
    static const struct qry_stack_filter all;
    struct qry_query query = {.querier = querier,
                              .req = &nobody,
                              .deadline_mono_ns = INT64_MAX,
                              .arena = fg_arena_create(SIZE_MAX / 2)};
    struct qry_selection selection = {.type_text = CPU, .start_ns = start_ns, .end_ns = end_ns};
    int64_t from_ns = bench_cpu_ns();
    struct fg_tree tree;
    struct fg_err err;

    query.tenants.ids[query.tenants.n++] = FG_LIT(FG_TENANT_ONLY);
    fg_tree_init(&tree);
    bench_must(fg_selector_parse(fg_cstr(selector), query.arena, &selection.selector, &err), &err);
    bench_must(
        qry_flamegraph_make(&query, &selection, &all, FG_FLAME_NODES_DEFAULT, true, &tree, &err),
        &err);
    asked->answers++;
    asked->requests += query.requests;
    asked->bytes += query.bytes;
    asked->bytes_max = FG_MAX(asked->bytes_max, query.bytes);
    asked->inexact += query.inexact;
    asked->cpu_ns += bench_cpu_ns() - from_ns;
    if (query.requests > asked->requests_max) {
        asked->requests_max = query.requests;
        asked->requests_max_at_ns = end_ns;
    }
    fg_tree_done(&tree);
    qry_selection_done(&selection);
    qry_blocks_end(&query);
    fg_arena_destroy(query.arena);
}

static void ask_cold(struct ask *ask, const char *selector, int64_t start_ns, int64_t end_ns,
                     struct asked *asked)
{
    struct fg_registry *registry = fg_registry_create();
    struct querier *querier = qry_create(&(struct qry_config){
        .registry = registry,
        .clock = ask->clock,
        .bucket = ask->bucket,
        .answer_max_bytes = UINT64_C(1) << 30,
        .cache_max_bytes = UINT64_C(1) << 30,
        .fetch_max_bytes = UINT64_C(32) << 20,
        .refine_max_bytes = UINT64_C(256) << 20,
        .manifest_age_ns = FG_HOUR_NS,
    });

    answer(querier, selector, start_ns, end_ns, asked);
    qry_destroy(querier);
    fg_registry_destroy(registry);
}

void ask_now(struct ask *ask, int64_t first_ns, int64_t now_ns)
{
    for (size_t s = 0; s < FG_COUNT(selectors); s++)
        for (size_t d = 0; d < FG_COUNT(spans_days); d++)
            if (now_ns - spans_days[d] * DAY_NS >= first_ns)
                ask_cold(ask, selectors[s][1], now_ns - spans_days[d] * DAY_NS, now_ns,
                         &ask->asked[s][d]);
}

void ask_show(const struct ask *ask)
{
    printf("| question | asked | requests, mean | most | at | MB read, mean | most | CPU ms, cold, "
           "mean | not exact |\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t s = 0; s < FG_COUNT(selectors); s++)
        for (size_t d = 0; d < FG_COUNT(spans_days); d++) {
            const struct asked *asked = &ask->asked[s][d];
            double n = (double)asked->answers;
            int64_t at = asked->requests_max_at_ns / FG_MINUTE_NS % (24 * 60);

            if (asked->answers > 0)
                printf(
                    "| %u d to now, %s | %llu | %.1f | %llu | %02lld:%02lld | %.1f | %.1f | %.1f "
                    "| %llu |\n",
                    spans_days[d], selectors[s][0], (unsigned long long)asked->answers,
                    (double)asked->requests / n, (unsigned long long)asked->requests_max,
                    (long long)(at / 60), (long long)(at % 60), (double)asked->bytes / n / 1e6,
                    (double)asked->bytes_max / 1e6, (double)asked->cpu_ns / n / 1e6,
                    (unsigned long long)asked->inexact);
        }
}
