/*
 * What crowns are worth: a service's CPU profiles over many hours, resampled (resample.h), an hour
 * a block. Each block gets its rollup; their sum is compared with the merge of everything.
 *
 *     bench_rollup INSTANCES HOURS FILE...
 *
 * Files are pprofs. Prints sizes, times (CPU) and whether pictures and tables are the same. A
 * profile counts as 340 bytes of samples, which is what it is in a block.
 */
#include "common/model/flame.h"
#include "common/storage/rollup/crown_sum.h"
#include "common/storage/rollup/plan.h"
#include "common/storage/rollup/writer.h"
#include "tests/bench/stream.h"

#include <stdlib.h>
#include <time.h>

enum {
    TICKS = 300,
    PROFILES_AN_HOUR = 360,
    PROFILE_BYTES = 340,
    PERIOD_NS = 10 * 1000 * 1000,
    HOURS_MAX = 1000,
    RUNS = 15,
};
#define HOUR_NS (INT64_C(3600) * 1000 * 1000 * 1000)

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
    (void)fprintf(stderr, "bench_rollup: %s\n", err->msg);
    exit(1);
}

/* ---- hours ---- */

/* The sections of one hour's block, as bytes. */
struct hour {
    struct fg_buf nod, crn, ftb, ful;
    uint32_t n_nodes; /* of the tree of all its stacks */
    uint32_t n_stacks;
};

struct bench {
    struct resample *resample;
    uint32_t instances, n_hours;
    struct hour hours[HOURS_MAX];
    uint64_t *all; /* sums of everything, by stack of resample's tree */
    size_t cap_all;
    int64_t write_ns;
};

/* What was drawn in an hour, by stack of resample's tree. */
struct drawn {
    uint64_t *sums;
    uint32_t *uses; /* profiles that have it */
    size_t cap;
};

static void grow(struct drawn *drawn, size_t needed)
{
    size_t cap = needed * 2;

    if (needed <= drawn->cap)
        return;
    drawn->sums = fg_realloc(drawn->sums, cap * sizeof *drawn->sums);
    drawn->uses = fg_realloc(drawn->uses, cap * sizeof *drawn->uses);
    memset(drawn->sums + drawn->cap, 0, (cap - drawn->cap) * sizeof *drawn->sums);
    memset(drawn->uses + drawn->cap, 0, (cap - drawn->cap) * sizeof *drawn->uses);
    drawn->cap = cap;
}

static struct drawn draw_hour(struct bench *bench, uint32_t hour)
{
    uint32_t stacks[TICKS];
    uint64_t counts[TICKS];
    struct drawn drawn = {0};

    for (uint64_t i = 0; i < (uint64_t)bench->instances * PROFILES_AN_HOUR; i++) {
        uint64_t seed = (uint64_t)hour * bench->instances * PROFILES_AN_HOUR + i + 1;
        uint32_t n = resample_draw(bench->resample, seed, TICKS, stacks, counts);

        grow(&drawn, (size_t)resample_tree(bench->resample)->n_nodes + 1);
        for (uint32_t k = 0; k < n; k++) {
            drawn.sums[stacks[k]] += counts[k];
            drawn.uses[stacks[k]]++;
        }
    }
    if (drawn.cap > bench->cap_all) {
        bench->all = fg_realloc(bench->all, drawn.cap * sizeof *bench->all);
        memset(bench->all + bench->cap_all, 0, (drawn.cap - bench->cap_all) * sizeof *bench->all);
        bench->cap_all = drawn.cap;
    }
    for (size_t i = 0; i <= resample_tree(bench->resample)->n_nodes; i++)
        bench->all[i] += drawn.sums[i];
    return drawn;
}

/* The tree of an hour alone, as its block has it; what was drawn becomes that over it. */
static void cut_out(const struct fg_tree *tree, struct drawn *drawn, struct fg_tree *into)
{
    uint32_t *nodes = fg_calloc((size_t)tree->n_nodes + 1, sizeof *nodes);
    struct fg_symbols_import import;

    for (uint32_t i = tree->n_nodes; i-- > 0;) {
        nodes[i] = nodes[i] != 0 || drawn->sums[i + 1] != 0;
        if (nodes[i] != 0 && tree->parents[i] != FG_TREE_ROOT)
            nodes[tree->parents[i]] = 1;
    }
    fg_tree_init(into);
    fg_symbols_import_init(&import, &into->symbols, &tree->symbols);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t parent = tree->parents[i];

        if (nodes[i] == 0)
            continue;
        nodes[i] = fg_tree_child(into, parent == FG_TREE_ROOT ? FG_TREE_ROOT : nodes[parent],
                                 fg_symbols_import_location(&import, tree->locations[i]));
        drawn->sums[nodes[i] + 1] = drawn->sums[i + 1]; /* never after i + 1 */
        drawn->uses[nodes[i] + 1] = drawn->uses[i + 1];
    }
    fg_symbols_import_done(&import);
    free(nodes);
}

/* As the writer of blocks gives them; among equals in another order. */
static const uint32_t *by_uses;
static int compare_ranks(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    if (by_uses[a] != by_uses[b])
        return by_uses[a] > by_uses[b] ? -1 : 1;
    return (a > b) - (a < b);
}

static uint32_t make_ranks(const uint32_t *uses, uint32_t n_nodes, uint32_t *ranks)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i <= n_nodes; i++)
        if (uses[i] > 0)
            ranks[count++] = i;
    by_uses = uses;
    qsort(ranks, count, sizeof *ranks, compare_ranks);
    return count;
}

static void keep(struct fg_buf *buf, struct fg_slice bytes)
{
    fg_buf_init(buf, SIZE_MAX);
    fg_buf_put(buf, bytes);
}

/* Sums by name and by rank: samples, and nanoseconds of them. */
static void sum(const struct fg_function_tree *names, const struct fg_tree *tree,
                const struct drawn *drawn, const uint32_t *ranks, uint32_t n_ranks,
                struct fg_rollup_value values[2])
{
    int64_t *self[2];
    uint64_t *full[2];

    for (uint32_t type = 0; type < 2; type++) {
        uint64_t scale = type == 0 ? 1 : PERIOD_NS;

        self[type] = fg_calloc((size_t)names->n_nodes + 1, sizeof(int64_t));
        full[type] = fg_calloc((size_t)n_ranks + 1, sizeof(uint64_t));
        for (uint32_t i = 0; i < tree->n_nodes; i++)
            self[type][names->nodes[i]] += (int64_t)(drawn->sums[i + 1] * scale);
        self[type][names->no_stack] += (int64_t)(drawn->sums[0] * scale);
        for (uint32_t i = 0; i < n_ranks; i++)
            full[type][i] = drawn->sums[ranks[i]] * scale;
        values[type].self = self[type];
        values[type].full = full[type];
    }
}

static void write_hour(struct bench *bench, uint32_t number, const struct fg_tree *tree,
                       const struct drawn *drawn)
{
    static const struct fg_profile_type types[] = {
        {FG_LIT("process_cpu"), FG_LIT("samples"), FG_LIT("count"), FG_LIT("cpu"),
         FG_LIT("nanoseconds")},
        {FG_LIT("process_cpu"), FG_LIT("cpu"), FG_LIT("nanoseconds"), FG_LIT("cpu"),
         FG_LIT("nanoseconds")},
    };
    uint64_t profiles = (uint64_t)bench->instances * PROFILES_AN_HOUR;
    uint32_t *ranks = fg_calloc((size_t)tree->n_nodes + 1, sizeof *ranks);
    struct fg_groups groups = {0};
    struct fg_rollup_options options = {
        .tree = tree, .groups = &groups, .types = types, .n_types = FG_COUNT(types)};
    struct fg_rollup_key key = {.start_ns = number * HOUR_NS, .end_ns = (number + 1) * HOUR_NS};
    struct fg_rollup_value values[] = {
        {.type = 0, .count = profiles, .replaces_bytes = profiles * PROFILE_BYTES},
        {.type = 1, .count = profiles, .replaces_bytes = profiles * PROFILE_BYTES}};
    struct hour *hour = &bench->hours[number];
    struct fg_rollup_sections sections;
    struct fg_rollup_writer *writer;
    struct fg_err err;
    int64_t from;

    options.n_ranks = make_ranks(drawn->uses, tree->n_nodes, ranks);
    from = cpu_ns();
    must(fg_rollup_writer_create(&options, &writer, &err), &err);
    sum(fg_rollup_writer_functions(writer), tree, drawn, ranks, options.n_ranks, values);
    must(fg_rollup_add(writer, &key, values, FG_COUNT(values), &err), &err);
    must(fg_rollup_finish(writer, NULL, &sections, &err), &err);
    bench->write_ns += cpu_ns() - from;
    keep(&hour->nod, sections.nod);
    keep(&hour->crn, sections.crn);
    keep(&hour->ftb, sections.ftb);
    keep(&hour->ful, sections.ful);
    hour->n_nodes = tree->n_nodes;
    hour->n_stacks = options.n_ranks;
    fg_rollup_writer_destroy(writer);
    for (size_t i = 0; i < FG_COUNT(values); i++) {
        free((void *)(uintptr_t)values[i].self);
        free((void *)(uintptr_t)values[i].full);
    }
    free(ranks);
}

static void write_hours(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->n_hours; i++) {
        struct drawn drawn = draw_hour(bench, i);
        struct fg_tree tree;

        cut_out(resample_tree(bench->resample), &drawn, &tree);
        write_hour(bench, i, &tree, &drawn);
        fg_tree_done(&tree);
        free(drawn.sums);
        free(drawn.uses);
    }
}

/* ---- sums ---- */

struct answer {
    struct fg_crown_sum sum;
    int64_t parse_ns, add_ns, read_bytes;
    uint64_t n_nodes;       /* of all crowns */
    int64_t *self, *totals; /* of functions, by name of the full merge */
};

static uint32_t find_name(const struct fg_function_tree *names, struct fg_slice name)
{
    uint32_t from = 0, to = names->n_names;

    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (fg_slice_cmp(names->names[middle], name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void add_table(const struct fg_rollup_row *row, const struct fg_function_tree *names,
                      struct fg_slice bytes, const struct fg_function_tree *full,
                      struct fg_arena *arena, struct answer *answer)
{
    int64_t *self = fg_arena_new(arena, int64_t, names->n_names);
    int64_t *totals = fg_arena_new(arena, int64_t, names->n_names);
    struct fg_err err;

    must(fg_rollup_totals_add(row, names, bytes, 1, arena, self, totals, &err), &err);
    for (uint32_t i = 0; i < names->n_names; i++) {
        uint32_t to = find_name(full, names->names[i]);

        answer->self[to] += self[i];
        answer->totals[to] += totals[i];
    }
}

static void add_hour(const struct hour *hour, const struct fg_function_tree *full,
                     struct answer *answer)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    int64_t from = cpu_ns();
    const struct fg_rollup_row *row;
    struct fg_function_tree names;
    struct fg_crown crown;
    struct fg_rollups nodes;
    struct fg_err err;

    must(fg_rollups_parse(&(const struct fg_block_part){0}, fg_buf_slice(&hour->nod), arena, &nodes,
                          &err),
         &err);
    must(fg_rollup_functions_parse(
             &nodes, fg_slice_sub(fg_buf_slice(&hour->crn), 0, nodes.names.bytes),
             fg_slice_sub(fg_buf_slice(&hour->crn), nodes.names.bytes, nodes.dict.bytes), arena,
             &names, &err),
         &err);
    row = &nodes.rows[1]; /* nanoseconds */
    must(fg_rollup_crown_parse(row, &names,
                               fg_slice_sub(fg_buf_slice(&hour->crn),
                                            row->places[FG_ROLLUP_CROWN].offset,
                                            row->places[FG_ROLLUP_CROWN].bytes),
                               arena, &crown, &err),
         &err);
    answer->parse_ns += cpu_ns() - from;
    from = cpu_ns();
    fg_crown_sum_add_crown(&answer->sum, &names, &crown);
    answer->add_ns += cpu_ns() - from;
    answer->n_nodes += crown.n_nodes;
    answer->read_bytes += (int64_t)(hour->nod.len + hour->crn.len + hour->ftb.len);
    add_table(row, &names, fg_buf_slice(&hour->ftb), full, arena, answer);
    fg_arena_destroy(arena);
}

static bool same_bytes(const struct fg_tree *a, const struct fg_tree *b)
{
    struct fg_buf left, right;
    bool same;

    fg_buf_init(&left, SIZE_MAX);
    fg_buf_init(&right, SIZE_MAX);
    fg_flame_write_tree(a, 0, &left);
    fg_flame_write_tree(b, 0, &right);
    same = fg_slice_eq(fg_buf_slice(&left), fg_buf_slice(&right));
    fg_buf_done(&left);
    fg_buf_done(&right);
    return same;
}

static int64_t least_shown(const struct fg_tree *cut)
{
    int64_t *totals = fg_calloc((size_t)cut->n_nodes + 1, sizeof *totals), least = INT64_MAX;

    (void)fg_tree_totals(cut, totals);
    for (uint32_t i = 0; i < cut->n_nodes; i++)
        if (!fg_slice_is(fg_tree_name(cut, i), "other"))
            least = FG_MIN(least, totals[i]);
    free(totals);
    return least;
}

static void show_picture(const struct answer *answer, const struct fg_tree *full, size_t max_nodes)
{
    struct fg_crown_verdict verdict;
    struct fg_tree have, want;
    int64_t from, ns;

    fg_tree_init(&have);
    fg_tree_init(&want);
    from = cpu_ns();
    fg_crown_sum_truncate(&answer->sum, max_nodes, &have, &verdict);
    ns = cpu_ns() - from;
    fg_tree_truncate(full, max_nodes, &want);
    printf("| %zu nodes | %s | %s | %.4g %% | %.4g %% | %.1f |\n", max_nodes,
           same_bytes(&have, &want) ? "the same" : "not the same",
           verdict.exact ? "exact" : "bounded",
           100.0 * (double)verdict.bound / (double)verdict.total,
           100.0 * (double)least_shown(&want) / (double)verdict.total, (double)ns / 1e6);
    fg_tree_done(&have);
    fg_tree_done(&want);
}

static void show_hour(const struct bench *bench)
{
    const struct hour *hour = &bench->hours[bench->n_hours / 2];
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_rollups nodes;
    struct fg_err err;

    must(fg_rollups_parse(&(const struct fg_block_part){0}, fg_buf_slice(&hour->nod), arena, &nodes,
                          &err),
         &err);
    printf(
        "an hour: %u stacks, %u nodes; crown of %u nodes %.1f kB, %.1f kB dictionary, %.1f kB "
        "names; table of %u functions %.1f kB; full rollup %.1f kB (%.2f B a stack); all but that "
        "%.1f kB for two types; made in %.1f ms\n",
        hour->n_stacks, hour->n_nodes, nodes.rows[0].places[FG_ROLLUP_CROWN].items,
        nodes.rows[0].places[FG_ROLLUP_CROWN].bytes / 1e3, nodes.dict.bytes / 1e3,
        nodes.names.bytes / 1e3, nodes.rows[0].places[FG_ROLLUP_TOTALS].items,
        nodes.rows[0].places[FG_ROLLUP_TOTALS].bytes / 1e3,
        nodes.rows[0].places[FG_ROLLUP_FULL].bytes / 1e3,
        (double)nodes.rows[0].places[FG_ROLLUP_FULL].bytes / hour->n_stacks,
        (double)(hour->nod.len + hour->crn.len + hour->ftb.len) / 1e3,
        (double)bench->write_ns / 1e6 / bench->n_hours);
    fg_arena_destroy(arena);
}

/* Several times: on a shared machine the best varies least. */
static void sum_hours(const struct bench *bench, const struct fg_function_tree *names,
                      struct answer *answer)
{
    int64_t parse_ns = INT64_MAX, add_ns = INT64_MAX;

    for (unsigned run = 0; run < RUNS; run++) {
        if (run > 0)
            fg_crown_sum_done(&answer->sum);
        fg_crown_sum_init(&answer->sum);
        answer->parse_ns = answer->add_ns = answer->read_bytes = 0;
        answer->n_nodes = 0;
        memset(answer->self, 0, names->n_names * sizeof *answer->self);
        memset(answer->totals, 0, names->n_names * sizeof *answer->totals);
        for (uint32_t i = 0; i < bench->n_hours; i++)
            add_hour(&bench->hours[i], names, answer);

        int64_t from = cpu_ns();
        fg_crown_sum_finish(&answer->sum);
        answer->add_ns += cpu_ns() - from;
        parse_ns = FG_MIN(parse_ns, answer->parse_ns);
        add_ns = FG_MIN(add_ns, answer->add_ns);
    }
    answer->parse_ns = parse_ns;
    answer->add_ns = add_ns;
}

static void run(struct bench *bench)
{
    struct answer answer = {0};
    struct fg_function_values values;
    struct fg_function_tree names;
    struct fg_tree full, view;

    write_hours(bench);
    show_hour(bench);
    for (size_t i = 0; i < bench->cap_all; i++)
        bench->all[i] *= PERIOD_NS;
    view = *resample_tree(bench->resample);
    view.self = (int64_t *)(bench->all + 1);
    fg_tree_init(&full);
    fg_tree_names(&view, &full);
    fg_function_tree_init(&names, &full);
    fg_function_values_init(&values, &names);
    fg_function_values_set(&values, &names, full.self);
    answer.self = fg_calloc((size_t)names.n_names + 1, sizeof *answer.self);
    answer.totals = fg_calloc((size_t)names.n_names + 1, sizeof *answer.totals);
    sum_hours(bench, &names, &answer);
    printf("%u crowns, %.2f MB read: parsed in %.1f ms (%.1f ns a node), added in %.1f ms (%.1f ns "
           "a node); full merge has %u nodes, the sum %u; table %s\n\n",
           bench->n_hours, (double)answer.read_bytes / 1e6, (double)answer.parse_ns / 1e6,
           (double)answer.parse_ns / (double)answer.n_nodes, (double)answer.add_ns / 1e6,
           (double)answer.add_ns / (double)answer.n_nodes, full.n_nodes, answer.sum.tree.n_nodes,
           memcmp(answer.self, values.function_self, names.n_names * sizeof *answer.self) == 0 &&
                   memcmp(answer.totals, values.function_totals,
                          names.n_names * sizeof *answer.totals) == 0
               ? "the same"
               : "not the same");
    printf("| picture | it is | it says it is | bound | least shown | ms "
           "|\n|---|---|---|---|---|---|\n");
    for (size_t max_nodes = 2048; max_nodes <= 16384; max_nodes *= 2)
        show_picture(&answer, &full, max_nodes);
    fg_crown_sum_done(&answer.sum);
    free(answer.self);
    free(answer.totals);
    fg_function_values_done(&values);
    fg_function_tree_done(&names);
    fg_tree_done(&full);
}

static int run_sum(int argc, char **argv)
{
    static struct bench bench;
    struct stream stream = {0};

    bench.instances = (uint32_t)strtoul(argv[2], NULL, 10);
    bench.n_hours = (uint32_t)FG_MIN(strtoul(argv[3], NULL, 10), (unsigned long)HOURS_MAX);
    stream_open(&stream, argv + 4, argc - 4);
    bench.resample = stream.resample;
    run(&bench);
    for (uint32_t i = 0; i < bench.n_hours; i++) {
        fg_buf_done(&bench.hours[i].nod);
        fg_buf_done(&bench.hours[i].crn);
        fg_buf_done(&bench.hours[i].ftb);
        fg_buf_done(&bench.hours[i].ful);
    }
    free(bench.all);
    stream_close(&stream);
    return 0;
}

/* ---- plans ---- */

enum { DAYS = 30, GROUPS = 8, SERIES = 1000, DAY_ROWS = 25 * (1 + GROUPS) + SERIES };

/* The rows of a day: all and groups for the day and its hours, series for the day. */
static void make_day(uint32_t day, struct fg_groups *groups, struct fg_rollup_row *rows,
                     struct fg_rollups *nodes)
{
    static struct fg_profile_type type = {FG_LIT("process_cpu"), FG_LIT("cpu"),
                                          FG_LIT("nanoseconds"), FG_LIT("cpu"),
                                          FG_LIT("nanoseconds")};
    static const uint32_t keys[] = {
        [FG_ROLLUP_ALL] = 1, [FG_ROLLUP_GROUP] = GROUPS, [FG_ROLLUP_SERIES] = SERIES};

    *nodes = (struct fg_rollups){.types = &type, .n_types = 1, .groups = *groups, .rows = rows};
    for (unsigned kind = 0; kind < FG_COUNT(keys); kind++)
        for (uint32_t number = 0; number < keys[kind]; number++)
            for (uint32_t span = 0; span < (kind == FG_ROLLUP_SERIES ? 1 : 25); span++) {
                struct fg_rollup_row *row = &rows[nodes->n_rows++];
                int64_t start_ns = (day * 24 + (span == 0 ? 0 : span - 1)) * HOUR_NS;

                row->key = (struct fg_rollup_key){(enum fg_rollup_kind)kind, number, start_ns,
                                                  start_ns + (span == 0 ? 24 : 1) * HOUR_NS};
                row->count = (span == 0 ? 8640 : 360) * (SERIES / keys[kind]);
                for (unsigned what = 0; what < FG_ROLLUP_FORMS; what++)
                    row->places[what].bytes = 60000;
            }
}

static void show_plan(const struct fg_plan_source *sources, const char *text)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_selector selector = {0};
    struct fg_plan_query query = {.type = sources[0].rollups->types[0],
                                  .selector = &selector,
                                  .start_ns = HOUR_NS * 3 / 2,
                                  .end_ns = HOUR_NS * (DAYS * 24 - 2)};
    int64_t best = INT64_MAX;
    struct fg_plan plan;
    struct fg_err err;

    must(fg_selector_parse(fg_cstr(text), arena, &selector, &err), &err);
    for (unsigned i = 0; i < RUNS; i++) {
        struct fg_arena_mark mark = fg_arena_mark(arena);
        int64_t from = cpu_ns();

        must(fg_plan_make(&query, sources, DAYS, arena, &plan, &err), &err);
        best = FG_MIN(best, cpu_ns() - from);
        fg_arena_release(arena, mark);
    }
    printf("| `%s` | %u | %u | %.1f |\n", text, plan.n_picks, plan.n_raws, (double)best / 1e6);
    fg_selector_done(&selector);
    fg_arena_destroy(arena);
}

static int run_plan(void)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_rollups *nodes = fg_arena_new(arena, struct fg_rollups, DAYS);
    struct fg_plan_series *series = fg_arena_new(arena, struct fg_plan_series, SERIES);
    struct fg_plan_source sources[DAYS];
    struct fg_groups groups = {.names = {FG_LIT("region")}, .n_names = 1, .n_groups = GROUPS};

    groups.values = fg_arena_new(arena, struct fg_slice, GROUPS);
    groups.of_series = fg_arena_new(arena, uint32_t, SERIES);
    groups.n_series = SERIES;
    for (uint32_t g = 0; g < GROUPS; g++)
        groups.values[g] = fg_cstr(fg_arena_printf(arena, "r%u", g));
    for (uint32_t i = 0; i < SERIES; i++) {
        groups.of_series[i] = i % GROUPS;
        series[i] = (struct fg_plan_series){i, i % 100 == 0};
    }
    for (uint32_t day = 0; day < DAYS; day++) {
        make_day(day, &groups, fg_arena_new(arena, struct fg_rollup_row, DAY_ROWS), &nodes[day]);
        sources[day] =
            (struct fg_plan_source){.id = {day + 1, 0},
                                    .rollups = &nodes[day],
                                    .t_min_ns = day * 24 * HOUR_NS,
                                    .t_max_ns = (day + 1) * 24 * HOUR_NS - 1,
                                    .n_profiles = 8640 * SERIES,
                                    .raw_bytes = UINT64_C(8640) * SERIES * PROFILE_BYTES};
    }
    printf("\n| plan of %d days, %d groups, %d series | nodes | raw | ms |\n|---|---|---|---|\n",
           (int)DAYS, (int)GROUPS, (int)SERIES);
    show_plan(sources, "{}");
    show_plan(sources, "{region=\"r3\"}");
    show_plan(sources, "{region!=\"r3\"}");
    for (uint32_t day = 0; day < DAYS; day++) {
        sources[day].series = series;
        sources[day].n_series = SERIES;
    }
    show_plan(sources, "{pod=~\"ten of a thousand\"}");
    fg_arena_destroy(arena);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "sum") == 0)
        return run_sum(argc, argv);
    if (argc == 2 && strcmp(argv[1], "plan") == 0)
        return run_plan();
    (void)fprintf(stderr, "usage: bench_rollup sum INSTANCES HOURS FILE...\n"
                          "       bench_rollup plan\n");
    return 2;
}
