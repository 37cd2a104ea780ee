/*
 * The querier's blocks against a slow model: profiles move from heads to segments to blocks, and at
 * every moment every question has the same answer. Then what goes wrong: objects that are gone,
 * bytes that are spoilt, peers that have forgotten, memory that is small.
 */
#include "common/cache/disk_files.h"
#include "common/net/http/impl.h"
#include "common/tenant/limits.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/impl.h"
#include "tests/unit/querier/world.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA_BYTES = 256 * 1024 * 1024 };

/* A querier on a world. */
struct fixture {
    struct world world;
    struct fg_bucket_faulty *faulty; /* NULL: the world's own bucket */
    struct fg_disk_cache *disk;      /* NULL: none */
    struct fg_registry *registry;
    struct fg_clock_manual clock;
    struct fg_work *work; /* none to three who help the thread that asks */
    struct fg_querier *querier;
    uint64_t random;  /* of questions */
    bool keeps_all;   /* else tenants have retention, as drawn */
    unsigned inexact; /* pictures with a bound */
    uint64_t nodes;   /* that pictures were made from */
};

/* Who help the test's own thread with its questions. */
static struct fg_work *make_workers(unsigned threads)
{
    const struct fg_lane_config lanes[FG_LANES] = {[FG_LANE_QUERY] = {threads, 16}};
    struct fg_work *work = NULL;
    struct fg_err err;

    assert_int_equal(fg_work_create("tst", lanes, &work, &err), FG_OK);
    return work;
}

static void fixture_init(struct fixture *f, uint64_t seed, uint64_t cache_max_bytes,
                         const struct fg_bucket_faults *faults)
{
    world_init(&f->world, seed);
    fg_clock_manual_init(&f->clock, f->world.end_ns);
    f->work = make_workers((unsigned)(seed % 4));
    f->registry = fg_registry_create();
    f->faulty = faults == NULL ? NULL : fg_bucket_faulty_create(f->world.bucket, faults);
    f->querier = fg_querier_create(&(struct fg_querier_config){
        .ingester = &f->world.peer,
        .work = f->work,
        .registry = f->registry,
        .clock = &f->clock.clock,
        .bucket = faults == NULL ? f->world.bucket : fg_bucket_faulty_bucket(f->faulty),
        .cache_max_bytes = cache_max_bytes,
        .fetch_max_bytes = 64 * 1024,
        .manifest_age_ns = 10 * FG_SECOND_NS,
        .disk = f->disk,
    });
    /* Of objects as small as these some are read thing by thing, as large ones are. */
    f->querier->blocks->whole_max_bytes = (uint32_t)(seed % 3 * 3000);
    f->querier->blocks->before_max_bytes = (uint32_t)(seed % 2 * 500);
    f->world.stripes_permille = seed % 2 == 0 ? 0 : 800;
}

static void fixture_done(struct fixture *f)
{
    fg_querier_destroy(f->querier);
    fg_work_destroy(f->work);
    if (f->faulty != NULL)
        fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_registry_destroy(f->registry);
    world_done(&f->world);
}

static struct blocks *blocks_of(const struct fixture *f)
{
    return f->querier->blocks;
}

/* --- questions --- */

static struct question *begin(struct fixture *f, uint32_t tenants)
{
    static struct fg_http_request nobody; /* who never goes away */
    struct question *question = fg_new(struct question);

    question->querier = f->querier;
    question->req = &nobody;
    question->deadline_mono_ns = INT64_MAX;
    question->arena = fg_arena_create(ARENA_BYTES);
    for (uint32_t t = 0; t < WORLD_TENANTS; t++)
        if ((tenants >> t & 1) != 0)
            question->tenants.ids[question->tenants.n++] = f->world.tenants[t];
    return question;
}

static void end(struct question *question)
{
    deletions_drop(question);
    blocks_end(question);
    fg_arena_destroy(question->arena);
    free(question);
}

static uint64_t draw(struct fixture *f, uint64_t below)
{
    f->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(f->random) % below;
}

static const char *const selectors[] = {
    "{}",
    "{service_name=\"api\"}",
    "{service_name=\"shop\"}",
    "{service_name=~\"api|web\"}",
    "{service_name!=\"api\"}",
    "{service_name=\"nowhere\"}",
    "{pod=\"p1\"}",
    "{pod=~\"p[02]\",zone=\"\"}",
    "{zone!=\"\"}",
    "{zone=\"a\",service_name=\"web\"}",
    "{__type__=\"cpu\"}",
    "{__profile_type__=~\"memory:.*\"}",
};

static const char *const types[] = {
    "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
    "process_cpu:samples:count:cpu:nanoseconds",
    "memory:alloc_objects:count:space:bytes",
    "memory:inuse_space:bytes:space:bytes",
    "nothing:of:the:same:kind",
};

/* What a question asks, drawn at random. */
struct ask {
    struct selection selection;
    struct world_query query;
    struct question *question;
    struct fg_deletions deletions[WORLD_TENANTS]; /* the world's, and retention */
};

static int64_t draw_time(struct fixture *f)
{
    int64_t on_grid =
        f->world.start_ns + ((int64_t)draw(f, 380) - 10) * 10 * FG_SECOND_NS; /* as profiles are */

    switch (draw(f, 7)) {
    case 0:
        return on_grid - 1;
    case 1:
        return on_grid + 1;
    default:
        return on_grid;
    }
}

/* The selectors stay the world's. */
static void expect_deletions(struct fixture *f, struct ask *ask)
{
    struct question *question = ask->question;
    struct fg_err err;

    for (uint32_t t = 0, at = 0; t < WORLD_TENANTS; t++) {
        struct fg_deletion old = {.start_ns = INT64_MIN};

        for (uint32_t i = 0; i < f->world.deletions[t].count; i++)
            assert_int_equal(fg_deletions_add(&ask->deletions[t], &f->world.deletions[t].items[i],
                                              question->arena, &err),
                             FG_OK);
        if ((ask->query.tenants >> t & 1) == 0 || draw(f, 3) > 0 || f->keeps_all) {
            at += ask->query.tenants >> t & 1;
            continue;
        }
        question->retention_ns[at++] = FG_MINUTE_NS * (int64_t)(1 + draw(f, 80));
        old.end_ns = fg_wall_ns(&f->clock.clock) - question->retention_ns[at - 1] - 1;
        assert_int_equal(fg_deletions_add(&ask->deletions[t], &old, question->arena, &err), FG_OK);
    }
    ask->query.deletions = ask->deletions;
}

static void ask_begin(struct fixture *f, struct ask *ask)
{
    uint32_t tenants = draw(f, 3) == 0 ? 1 + (uint32_t)draw(f, 7) : 1u << draw(f, WORLD_TENANTS);
    struct fg_err err;

    *ask = (struct ask){.question = begin(f, tenants)};
    assert_int_equal(fg_selector_parse(fg_cstr(selectors[draw(f, FG_COUNT(selectors))]),
                                       ask->question->arena, &ask->selection.selector, &err),
                     FG_OK);
    ask->selection.type_text = types[draw(f, FG_COUNT(types))];
    ask->selection.start_ns = draw_time(f);
    ask->selection.end_ns = draw_time(f);
    if (ask->selection.start_ns > ask->selection.end_ns) {
        int64_t start_ns = ask->selection.end_ns;

        ask->selection.end_ns = ask->selection.start_ns;
        ask->selection.start_ns = start_ns;
    }
    ask->query = (struct world_query){.tenants = tenants,
                                      .selector = &ask->selection.selector,
                                      .type = ask->selection.type_text,
                                      .start_ns = ask->selection.start_ns,
                                      .end_ns = ask->selection.end_ns};
    expect_deletions(f, ask);
}

static void ask_for_all_time(struct ask *ask)
{
    ask->selection.start_ns = ask->query.start_ns = INT64_MIN;
    ask->selection.end_ns = ask->query.end_ns = INT64_MAX;
}

static void ask_end(struct ask *ask)
{
    selection_done(&ask->selection);
    end(ask->question);
}

/* --- trees as text --- */

struct stack_line {
    char *path;
    int64_t value;
};

static void write_location(const struct fg_symbols *symbols, uint32_t number, struct fg_buf *out)
{
    const struct fg_location *at = &symbols->locations[number];

    fg_buf_printf(out, ";%llx", (unsigned long long)at->address);
    if (at->mapping != FG_NO_MAPPING)
        fg_buf_printf(out, "[%.*s]",
                      FG_S(fg_symbols_text(symbols, symbols->mappings[at->mapping].build_id)));
    for (uint32_t i = 0; i < at->n_lines; i++) {
        const struct fg_line *line = &symbols->lines[at->first_line + i];
        const struct fg_function *function = &symbols->functions[line->function];

        fg_buf_printf(out, " %.*s/%.*s@%.*s:%lld", FG_S(fg_symbols_text(symbols, function->name)),
                      FG_S(fg_symbols_text(symbols, function->system_name)),
                      FG_S(fg_symbols_text(symbols, function->filename)), (long long)line->line);
    }
}

static void write_path(const struct fg_tree *tree, uint32_t node, struct fg_buf *out)
{
    if (node == FG_TREE_ROOT)
        return;
    write_path(tree, tree->parents[node], out);
    write_location(&tree->symbols, tree->locations[node], out);
}

static int line_order(const void *a, const void *b)
{
    return strcmp(((const struct stack_line *)a)->path, ((const struct stack_line *)b)->path);
}

/* Every stack with a value, in order. */
static char *tree_text(const struct fg_tree *tree, struct fg_arena *arena)
{
    struct stack_line *lines = fg_arena_new(arena, struct stack_line, (size_t)tree->n_nodes + 1);
    struct fg_buf path, out;
    size_t n = 0;
    char *text;

    fg_buf_init(&path, SIZE_MAX);
    fg_buf_init(&out, SIZE_MAX);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        fg_buf_clear(&path);
        write_path(tree, i, &path);
        if (tree->self[i] != 0)
            lines[n++] =
                (struct stack_line){fg_arena_text(arena, fg_buf_slice(&path)), tree->self[i]};
    }
    if (n > 1)
        qsort(lines, n, sizeof *lines, line_order);
    fg_buf_printf(&out, "%lld\n", (long long)tree->root_self);
    for (size_t i = 0; i < n; i++)
        fg_buf_printf(&out, "%s %lld\n", lines[i].path, (long long)lines[i].value);
    text = fg_arena_text(arena, fg_buf_slice(&out));
    fg_buf_done(&path);
    fg_buf_done(&out);
    return text;
}

/* --- one question of each kind: FG_OK and as the model says, or the error --- */

static void draw_stacks(struct fixture *f, struct stacks *stacks, struct fg_arena *arena)
{
    const struct world_profile *some = &f->world.profiles[draw(f, f->world.n_profiles)];

    *stacks = (struct stacks){0};
    switch (draw(f, 5)) {
    case 0: { /* as some stack begins */
        static const char *const names[] = {"f0", "f1", "f2", "f3", "f4", "f5"};

        stacks->call_site = fg_arena_new(arena, const char *, 2);
        stacks->call_site[0] = names[draw(f, FG_COUNT(names))];
        stacks->call_site[1] = names[draw(f, FG_COUNT(names))];
        stacks->n_call_site = 1 + draw(f, 2);
        break;
    }
    case 1:
        stacks->n_spans = 1 + draw(f, 2);
        stacks->spans = fg_arena_new(arena, uint64_t, 2);
        stacks->spans[0] = draw(f, 20);
        stacks->spans[1] = 3;
        break;
    case 2:
        stacks->n_traces = 1;
        stacks->traces = fg_arena_new(arena, ProtobufCBinaryData, 1);
        stacks->traces[0].len = FG_ID_BYTES;
        stacks->traces[0].data = fg_arena_new(arena, uint8_t, FG_ID_BYTES);
        stacks->traces[0].data[0] = (uint8_t)draw(f, 5);
        break;
    case 3: /* one that is there, perhaps not in the range, and one that is not */
        stacks->n_profile_ids = 2;
        stacks->profile_ids = fg_arena_new(arena, ProtobufCBinaryData, 2);
        for (size_t i = 0; i < 2; i++) {
            stacks->profile_ids[i].len = FG_ID_BYTES;
            stacks->profile_ids[i].data = fg_arena_new(arena, uint8_t, FG_ID_BYTES);
        }
        fg_id_put(stacks->profile_ids[0].data, some->id);
        break;
    default:
        break;
    }
}

static enum fg_code check_tree(struct fixture *f, struct fg_err *err)
{
    struct fg_tree found, want;
    struct stacks stacks;
    struct ask ask;
    bool names_only = draw(f, 2) == 0;

    ask_begin(f, &ask);
    if (draw(f, 4) == 0)
        ask_for_all_time(&ask);
    draw_stacks(f, &stacks, ask.question->arena);
    fg_tree_init(&found);
    fg_tree_init(&want);
    enum fg_code code = plan_tree(ask.question, &ask.selection, &stacks, names_only, &found, err);
    if (code == FG_OK) {
        world_select(&f->world, &ask.query, &stacks, names_only, &want);
        assert_string_equal(tree_text(&found, ask.question->arena),
                            tree_text(&want, ask.question->arena));
    }
    fg_tree_done(&found);
    fg_tree_done(&want);
    ask_end(&ask);
    return code;
}

/* --- pictures, drawn the slow way --- */

static bool is_other(const struct fg_tree *tree, uint32_t node)
{
    return node != FG_TREE_ROOT && fg_slice_is(fg_tree_name(tree, node), "other");
}

/* What is below an "other" becomes its own value. */
static void fold_others(const struct fg_tree *tree, struct fg_tree *into)
{
    uint32_t placed[4096];

    assert_true(tree->n_nodes <= FG_COUNT(placed));
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t above = tree->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : placed[above];

        placed[i] =
            is_other(into, parent)
                ? parent
                : fg_tree_child(into, parent,
                                fg_symbols_name_location(&into->symbols, fg_tree_name(tree, i)));
        fg_tree_add(into, placed[i], tree->self[i]);
    }
}

static void draw_slowly(const struct fg_tree *tree, size_t max_nodes, bool fold,
                        struct fg_tree *into)
{
    struct fg_tree folded;

    fg_tree_init(&folded);
    if (fold)
        fold_others(tree, &folded);
    fg_tree_truncate(fold ? &folded : tree, max_nodes, into);
    fg_tree_done(&folded);
}

/* The node of the tree that has the path of one in another tree. */
static uint32_t find_path(const struct fg_tree *tree, const struct fg_tree *of, uint32_t node)
{
    uint32_t parent;

    if (node == FG_TREE_ROOT)
        return FG_TREE_ROOT;
    parent = find_path(tree, of, of->parents[node]);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        if (tree->parents[i] == parent &&
            fg_slice_eq(fg_tree_name(tree, i), fg_tree_name(of, node)))
            return i;
    fail_msg("a node that is not there: %.*s", FG_S(fg_tree_name(of, node)));
    return 0;
}

static bool below_other(const struct fg_tree *tree, uint32_t node)
{
    for (; node != FG_TREE_ROOT; node = tree->parents[node])
        if (is_other(tree, node))
            return true;
    return false;
}

/* Every bar that is shown and is no remainder is too small by the bound at most. */
static void assert_bound(const struct fg_tree *found, const struct fg_tree *all, uint64_t bound)
{
    int64_t found_totals[4096], totals[4096];

    assert_true(found->n_nodes <= FG_COUNT(found_totals) && all->n_nodes <= FG_COUNT(totals));
    assert_true(fg_tree_totals(found, found_totals) == fg_tree_totals(all, totals));
    for (uint32_t i = 0; i < found->n_nodes; i++) {
        int64_t total;

        if (below_other(found, i))
            continue;
        total = totals[find_path(all, found, i)];
        assert_true(found_totals[i] <= total);
        assert_true((uint64_t)(total - found_totals[i]) <= bound);
    }
}

static enum fg_code check_picture(struct fixture *f, struct fg_err *err)
{
    struct fg_tree found, want, all;
    struct stacks stacks;
    struct ask ask;
    size_t max_nodes = 1 + draw(f, draw(f, 2) == 0 ? 40 : 400);
    bool fold = draw(f, 2) == 0;

    ask_begin(f, &ask);
    if (draw(f, 4) == 0)
        ask_for_all_time(&ask);
    if (draw(f, 3) == 0)
        draw_stacks(f, &stacks, ask.question->arena);
    else
        stacks = (struct stacks){0};
    ask.question->refine = draw(f, 5) == 0;
    fg_tree_init(&found);
    fg_tree_init(&want);
    fg_tree_init(&all);
    enum fg_code code =
        plan_picture(ask.question, &ask.selection, &stacks, max_nodes, fold, &found, err);
    if (code == FG_OK) {
        world_select(&f->world, &ask.query, &stacks, true, &all);
        draw_slowly(&all, max_nodes, fold, &want);
        found.root_self = want.root_self = 0; /* which no picture shows */
        if (ask.question->inexact)
            assert_bound(&found, &all, ask.question->bound);
        else
            assert_string_equal(tree_text(&found, ask.question->arena),
                                tree_text(&want, ask.question->arena));
        assert_false(ask.question->refine && ask.question->inexact);
        f->nodes += ask.question->nodes;
        f->inexact += ask.question->inexact;
    }
    fg_tree_done(&found);
    fg_tree_done(&want);
    fg_tree_done(&all);
    ask_end(&ask);
    return code;
}

static void diff_slowly(struct fixture *f, const struct ask asks[2], size_t max_nodes,
                        struct diff *ret_diff)
{
    static const struct stacks all;
    struct fg_crown_verdict verdict;
    struct fg_crown_sum sums[2];

    for (unsigned i = 0; i < 2; i++) {
        struct fg_tree tree;

        fg_tree_init(&tree);
        world_select(&f->world, &asks[i].query, &all, true, &tree);
        fg_crown_sum_init(&sums[i]);
        fg_crown_sum_take_tree(&sums[i], &tree);
        fg_tree_done(&tree);
    }
    diff_make(&sums[0], &sums[1], max_nodes, ret_diff, &verdict);
    assert_true(verdict.exact);
    fg_crown_sum_done(&sums[0]);
    fg_crown_sum_done(&sums[1]);
}

static void assert_same_diff(const struct diff *found, const struct diff *want)
{
    assert_int_equal(found->n_values, want->n_values);
    assert_int_equal(found->max_self, want->max_self);
    for (size_t i = 0; i < found->n_values; i++)
        if (i % 7 == 6)
            assert_true(fg_slice_eq(found->names[found->values[i]], want->names[want->values[i]]));
        else
            assert_true(found->values[i] == want->values[i]);
}

static enum fg_code check_diff(struct fixture *f, struct fg_err *err)
{
    static const struct stacks all;
    struct ask asks[2];
    struct side sides[2] = {0};
    struct diff found, want;
    size_t max_nodes = 1 + draw(f, draw(f, 2) == 0 ? 40 : 400);

    for (unsigned i = 0; i < 2; i++) {
        ask_begin(f, &asks[i]);
        sides[i] = (struct side){asks[i].selection, &all};
    }
    asks[1].query.tenants = asks[0].query.tenants; /* both sides are one question's */
    asks[1].query.deletions = asks[0].query.deletions;
    enum fg_code code = plan_diff(asks[0].question, &sides[0], &sides[1], max_nodes, &found, err);
    if (code == FG_OK) {
        diff_slowly(f, asks, max_nodes, &want);
        assert_true(found.left_ticks == want.left_ticks);
        assert_true(found.right_ticks == want.right_ticks);
        if (!asks[0].question->inexact)
            assert_same_diff(&found, &want);
        f->inexact += asks[0].question->inexact;
        diff_done(&want);
    }
    diff_done(&found);
    ask_end(&asks[0]);
    ask_end(&asks[1]);
    return code;
}

enum { NAMES_MAX = 2 };

static size_t draw_names(struct fixture *f, char *names[NAMES_MAX])
{
    static char texts[][20] = {"service_name", "pod", "zone", "__profile_type__", "none"};
    size_t n = draw(f, NAMES_MAX + 1);

    for (size_t i = 0; i < n; i++)
        names[i] = texts[draw(f, FG_COUNT(texts))];
    return n;
}

static int points_by_labels(const void *a, const void *b)
{
    return fg_labels_cmp(&((const struct points *)a)->labels, &((const struct points *)b)->labels);
}

static void assert_same_points(struct points *found, size_t n_found, struct points_list *want)
{
    assert_int_equal(n_found, want->n);
    if (n_found > 1) {
        qsort(found, n_found, sizeof *found, points_by_labels);
        qsort(want->items, want->n, sizeof *found, points_by_labels);
    }
    for (size_t i = 0; i < n_found; i++) {
        assert_int_equal(fg_labels_cmp(&found[i].labels, &want->items[i].labels), 0);
        assert_int_equal(found[i].n, want->items[i].n);
        for (size_t k = 0; k < found[i].n; k++) {
            assert_true(found[i].items[k].k == want->items[i].items[k].k);
            assert_true(found[i].items[k].sum == want->items[i].items[k].sum);
            assert_true(found[i].items[k].count == want->items[i].items[k].count);
        }
    }
}

static enum fg_code check_points(struct fixture *f, struct fg_err *err)
{
    static const int64_t steps_ns[] = {FG_SECOND_NS, 10 * FG_SECOND_NS, 15 * FG_SECOND_NS,
                                       FG_MINUTE_NS, 2 * FG_HOUR_NS,    7 * FG_SECOND_NS + 1};
    int64_t step_ns = steps_ns[draw(f, FG_COUNT(steps_ns))];
    char *names[NAMES_MAX];
    size_t n_names = draw_names(f, names), n;
    struct points_list want;
    struct points *found;
    struct ask ask;

    ask_begin(f, &ask);
    enum fg_code code =
        plan_points(ask.question, &ask.selection, step_ns, names, n_names, &found, &n, err);
    if (code == FG_OK) {
        points_list_init(&want);
        world_points(&f->world, &ask.query, step_ns, (const char *const *)names, n_names,
                     ask.question->arena, &want);
        assert_same_points(found, n, &want);
        points_list_done(&want);
    }
    ask_end(&ask);
    return code;
}

static bool has_set(const struct label_sets *sets, const struct fg_labels *labels)
{
    for (size_t i = 0; i < sets->n; i++)
        if (fg_labels_cmp(&sets->items[i], labels) == 0)
            return true;
    return false;
}

static void assert_within(const struct label_sets *inner, const struct label_sets *outer)
{
    for (size_t i = 0; i < inner->n; i++)
        assert_true(has_set(outer, &inner->items[i]));
}

/* fresh: the snapshot is of now, so that places are what they are now. */
static enum fg_code check_series(struct fixture *f, bool fresh, struct fg_err *err)
{
    struct label_sets found, want[3];
    char *texts[NAMES_MAX];
    const char *const *names = (const char *const *)texts;
    size_t n_names = draw_names(f, texts);
    struct ask ask;

    ask_begin(f, &ask);
    ask.query.type = NULL;
    label_sets_init(&found);
    enum fg_code code = plan_series(ask.question, &ask.selection, names, n_names, &found, err);
    for (unsigned i = 0; i < FG_COUNT(want); i++) {
        label_sets_init(&want[i]);
        world_list(&f->world, &ask.query, (enum world_presence)i, names, n_names,
                   ask.question->arena, &want[i]);
    }
    if (code == FG_OK) {
        assert_within(&want[WORLD_EXACTLY], &found);
        assert_within(&found, &want[WORLD_ANYWHERE]);
    }
    if (code == FG_OK && fresh) {
        assert_within(&found, &want[WORLD_BY_PLACE]);
        if (f->world.stripes_permille == 0) /* these are places of their own */
            assert_int_equal(found.n, want[WORLD_BY_PLACE].n);
    }
    for (unsigned i = 0; i < FG_COUNT(want); i++)
        label_sets_done(&want[i]);
    label_sets_done(&found);
    ask_end(&ask);
    return code;
}

/* Where the snapshot is older, places are other ones, and what is deleted is counted by places. */
static enum fg_code check_stats(struct fixture *f, bool fresh, struct fg_err *err)
{
    struct ask ask;
    struct tenant_stats found, want;

    ask_begin(f, &ask);
    enum fg_code code = plan_stats(ask.question, &found, err);
    if (code == FG_OK && (fresh || (f->world.deletions_ever == 0 && f->keeps_all))) {
        want = world_stats(&f->world, &ask.query);
        assert_true(found.profiles == want.profiles);
        assert_true(found.oldest_ns == want.oldest_ns);
        assert_true(found.newest_ns == want.newest_ns);
    }
    ask_end(&ask);
    return code;
}

static enum fg_code check_any(struct fixture *f, bool fresh, struct fg_err *err)
{
    switch (draw(f, 7)) {
    case 0:
        return check_points(f, err);
    case 1:
        return check_series(f, fresh, err);
    case 2:
        return check_stats(f, fresh, err);
    case 3:
        return check_picture(f, err);
    case 4:
        return check_diff(f, err);
    default:
        return check_tree(f, err);
    }
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s: %s", fg_code_name(code), err->msg);
}

/* --- profiles one by one --- */

struct visits {
    const struct world *world;
    const struct ask *ask;
    struct fg_tree tree; /* of the first type of each */
    bool *seen;          /* [world->n_profiles]: a profile may come twice */
};

static uint32_t profile_of(const struct world *world, struct fg_id id)
{
    for (uint32_t i = 0; i < world->n_profiles; i++)
        if (fg_id_eq(world->profiles[i].id, id))
            return i;
    fail_msg("a profile nobody has sent");
    return 0;
}

static void merge_profile(const struct one_profile *profile, struct fg_tree *into)
{
    struct fg_tree view = *profile->tree;

    view.root_self = 0;
    view.self = fg_calloc((size_t)view.n_nodes + 1, sizeof *view.self);
    for (uint32_t i = 0; i < profile->samples.count; i++)
        fg_tree_add(&view, profile->samples.nodes[i], profile->samples.values[i]);
    fg_tree_merge_used(into, &view);
    free(view.self);
}

/* Without a type all of its types are there, in their order. */
static void assert_all_types(const struct world_profile *sent, const struct fg_pprof_samples *found)
{
    for (uint32_t t = 0; t < found->n_types; t++) {
        uint64_t sum = 0, want = 0;

        for (uint32_t i = 0; i < found->count; i++)
            sum += (uint64_t)found->values[t * found->count + i];
        for (uint32_t i = 0; i < sent->n_samples; i++)
            want += sent->samples[i].values[t];
        assert_true(sum == want);
    }
}

static enum fg_code visit_profile(void *arg, const struct one_profile *profile, struct fg_err *err)
{
    struct visits *visits = arg;
    uint32_t number = profile_of(visits->world, profile->id);
    const struct world_profile *sent = &visits->world->profiles[number];

    (void)err;
    assert_true(profile->head.time_ns == sent->time_ns);
    assert_true(profile->head.duration_ns == sent->duration_ns);
    assert_int_equal(fg_labels_cmp(profile->labels, &visits->world->series[sent->series].labels),
                     0);
    if (visits->ask->selection.type_text == NULL)
        assert_all_types(sent, &profile->samples);
    else
        assert_int_equal(profile->samples.n_types, 1);
    if (!visits->seen[number])
        merge_profile(profile, &visits->tree);
    visits->seen[number] = true;
    return FG_OK;
}

static void check_visits(const struct visits *visits)
{
    static const struct stacks all;
    struct fg_arena *arena = visits->ask->question->arena;
    struct fg_tree want;

    if (visits->ask->selection.type_text == NULL)
        return;
    fg_tree_init(&want);
    world_select(visits->world, &visits->ask->query, &all, false, &want);
    assert_string_equal(tree_text(&visits->tree, arena), tree_text(&want, arena));
    fg_tree_done(&want);
}

/* All is committed. */
static enum fg_code check_profiles(struct fixture *f, struct fg_err *err)
{
    struct visits visits = {.world = &f->world, .seen = fg_calloc(f->world.n_profiles, 1)};
    struct ask ask;
    enum fg_code code;

    ask_begin(f, &ask);
    if (draw(f, 4) == 0)
        ask_for_all_time(&ask);
    if (draw(f, 4) == 0)
        ask.selection.type_text = NULL;
    visits.ask = &ask;
    fg_tree_init(&visits.tree);
    code = plan_profiles(ask.question, &ask.selection, visit_profile, &visits, err);
    if (code == FG_OK)
        check_visits(&visits);
    fg_tree_done(&visits.tree);
    free(visits.seen);
    ask_end(&ask);
    return code;
}

/* --- tests --- */

static void happen(struct fixture *f, uint64_t what)
{
    struct world *world = &f->world;

    switch (what) {
    case 0:
        world_push(world, 40);
        break;
    case 1:
        world_commit(world, 600);
        break;
    case 2:
        world_compact(world, (uint32_t)world_random(world, WORLD_TENANTS));
        break;
    case 3:
        world_join(world, (uint32_t)world_random(world, WORLD_TENANTS));
        break;
    case 4:
        world_retire(world);
        break;
    case 5:
        world_sweep(world);
        break;
    case 6:
        world_forget(world);
        break;
    case 7: /* whoever writes it into the manifest tells the querier */
        world_delete(world, (uint32_t)world_random(world, WORLD_TENANTS));
        fg_querier_refresh(f->querier);
        break;
    default:
        world_undelete(world, (uint32_t)world_random(world, WORLD_TENANTS));
        break;
    }
}

enum { HAPPENINGS = 9, HAPPENINGS_WITHOUT_DELETIONS = 7 };

/* happenings: those that may be, from the first on. */
static void happen_any(struct fixture *f, uint64_t happenings)
{
    static const unsigned of_blocks[] = {1, 2, 2};
    struct world *world = &f->world;

    if (world->nodes_permille == 0 || world_random(world, 2) == 0)
        happen(f, world_random(world, happenings));
    else if (world_random(world, 4) == 0)
        world_sum(world, (uint32_t)world_random(world, WORLD_TENANTS));
    else
        happen(f, of_blocks[world_random(world, FG_COUNT(of_blocks))]);
}

static uint64_t seeds(uint64_t otherwise)
{
    const char *text = getenv("FG_TEST_SEEDS");

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* Manifests are asked for at every question: each profile counts once wherever it is. */
static void every_question_at_every_moment(void **state)
{
    uint64_t nodes = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= seeds(6); seed++) {
        struct fixture f = {.random = seed};
        struct fg_err err;

        fixture_init(&f, seed, seed % 2 == 0 ? UINT64_C(64) << 20 : 100 * 1024, NULL);
        f.world.nodes_permille = 750;
        blocks_of(&f)->sample_weight = (uint32_t)(1 + seed % 3 * 100);
        world_push(&f.world, 150);
        for (unsigned i = 0; i < 60; i++) {
            happen_any(&f, HAPPENINGS);
            fg_clock_manual_advance(&f.clock, FG_MINUTE_NS);
            for (unsigned k = 0; k < 6; k++)
                must(check_any(&f, true, &err), &err);
        }
        nodes += f.nodes;
        fixture_done(&f);
    }
    print_message("  %llu merged nodes in pictures\n", (unsigned long long)nodes);
    assert_true(nodes > 50);
}

/* Crowns of a few nodes only: what is said to be exact is, and else the bound holds. */
static void pictures_that_are_not_exact(void **state)
{
    static const uint32_t crowns[] = {0, 1, 5, 20, 60};
    unsigned inexact = 0, pictures = 0;
    uint64_t nodes = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= seeds(5); seed++) {
        struct fixture f = {.random = seed};
        struct fg_err err;

        fixture_init(&f, seed, seed % 2 == 0 ? UINT64_C(64) << 20 : 100 * 1024, NULL);
        blocks_of(&f)->crown_nodes = crowns[seed % FG_COUNT(crowns)];
        f.querier->refine_max_bytes = seed % 4 == 3 ? 3000 : 0;
        f.world.nodes_permille = seed % 3 != 0 ? 750 : 0;
        blocks_of(&f)->sample_weight = 100;
        world_push(&f.world, 150);
        for (unsigned i = 0; i < 60; i++) {
            happen_any(&f, HAPPENINGS);
            fg_clock_manual_advance(&f.clock, FG_MINUTE_NS);
            for (unsigned k = 0; k < 6; k++, pictures++)
                must(k % 3 == 2 ? check_diff(&f, &err) : check_picture(&f, &err), &err);
        }
        inexact += f.inexact;
        nodes += f.nodes;
        fixture_done(&f);
    }
    print_message("  %u of %u pictures with a bound, %llu merged nodes\n", inexact, pictures,
                  (unsigned long long)nodes);
    assert_true(inexact > pictures / 20 && inexact < pictures / 2);
}

/* Asks for a picture of a service over all of time. */
static struct question *draw_all(struct fixture *f, const char *selector)
{
    static const struct stacks all;
    struct question *question = begin(f, 1);
    struct selection selection = {
        .type_text = types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fg_tree tree;
    struct fg_err err;

    assert_int_equal(
        fg_selector_parse(fg_cstr(selector), question->arena, &selection.selector, &err), FG_OK);
    fg_tree_init(&tree);
    must(plan_picture(question, &selection, &all, 100, true, &tree, &err), &err);
    fg_tree_done(&tree);
    selection_done(&selection);
    return question;
}

/* What nodes answer costs two requests an object: what there is of them, and crowns with names; or
 * one, if it is small. Of objects that others sum up nothing is read, unless it is asked for what
 * these cannot answer. */
static void nodes_cost_two_requests(void **state)
{
    enum { MANIFESTS = 2 };
    struct fixture f = {.random = 1};
    struct question *question;
    uint64_t n_objects, profiles;

    (void)state;
    fixture_init(&f, 21, 0, NULL);
    f.world.nodes_permille = 1000;
    blocks_of(&f)->sample_weight = 1000;
    for (unsigned i = 0; i < 5; i++) {
        world_push(&f.world, 200);
        world_commit(&f.world, 1000);
        for (unsigned k = 0; k < 10; k++)
            world_compact(&f.world, 0);
    }
    question = draw_all(&f, "{service_name=\"api\"}");
    n_objects = question->objects;
    profiles = question->profiles;
    assert_true(n_objects >= 5);
    assert_true(question->nodes >= n_objects);
    assert_true(question->requests > MANIFESTS + n_objects);
    assert_true(question->requests <= MANIFESTS + 2 * n_objects);
    end(question);

    blocks_of(&f)->whole_max_bytes = UINT32_MAX;
    question = draw_all(&f, "{service_name=\"api\"}");
    assert_int_equal(question->requests, n_objects);
    end(question);
    blocks_of(&f)->whole_max_bytes = 0;

    world_sum(&f.world, 0);
    fg_clock_manual_advance(&f.clock, FG_MINUTE_NS);
    question = draw_all(&f, "{service_name=\"api\"}");
    assert_int_equal(question->objects, 1);
    assert_int_equal(question->profiles, profiles);
    assert_true(question->requests <= MANIFESTS + 2);
    end(question);

    question = draw_all(&f, "{service_name=\"api\", pod=~\"p[1-3]\"}");
    assert_int_equal(question->objects, n_objects + 1);
    end(question);
    fixture_done(&f);
}

/* Manifests are up to ten seconds old: what has gone since is found out by asking for it. */
static void snapshots_that_are_too_old(void **state)
{
    uint64_t again = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= seeds(6); seed++) {
        uint64_t happenings = seed % 2 == 0 ? HAPPENINGS_WITHOUT_DELETIONS : HAPPENINGS;
        struct fixture f = {.random = seed, .keeps_all = seed % 2 == 0};
        struct fg_err err;

        fixture_init(&f, seed, 0, NULL);
        world_push(&f.world, 150);
        for (unsigned i = 0; i < 60; i++) {
            happen_any(&f, happenings);
            fg_clock_manual_advance(&f.clock, FG_SECOND_NS);
            for (unsigned k = 0; k < 4; k++)
                must(check_any(&f, false, &err), &err);
        }
        again += fg_metric_get(blocks_of(&f)->metrics, BLOCKS_AGAIN);
        fixture_done(&f);
    }
    assert_true(again > 0);
}

/* Without peers, while segments become blocks; manifests are new, or old enough to be wrong. */
static void profiles_by_themselves(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(6); seed++) {
        struct fixture f = {.random = seed};
        struct fg_err err;

        fixture_init(&f, seed, seed % 3 == 0 ? UINT64_C(64) << 20 : 100 * 1024, NULL);
        f.querier->ingester = NULL;
        for (unsigned i = 0; i < 30; i++) {
            world_push(&f.world, 20);
            world_commit(&f.world, 1000);
            fg_clock_manual_advance(&f.clock, seed % 2 == 0 ? FG_MINUTE_NS : 10 * FG_SECOND_NS);
            must(check_profiles(&f, &err), &err);
            happen(&f, 2 + world_random(&f.world, HAPPENINGS - 2));
            must(check_profiles(&f, &err), &err);
        }
        fixture_done(&f);
    }
}

/* --- a disk below the cache --- */

enum { DISK_BYTES = 8 * 1024 * 1024 };

static char disk_folder[64];

static struct fg_disk_cache *open_disk(struct fg_registry *registry)
{
    struct fg_disk_cache *disk;
    struct fg_err err;

    must(fg_disk_cache_open(&(struct fg_disk_cache_config){disk_folder, DISK_BYTES, 0, registry},
                            &disk, &err),
         &err);
    fg_disk_cache_settle(disk);
    return disk;
}

static void ask_some(struct fixture *f, unsigned count)
{
    struct fg_err err;

    for (unsigned i = 0; i < count; i++)
        must(check_any(f, true, &err), &err);
    fg_disk_cache_settle(f->disk);
}

/* In the place of each thing bytes of its length that have a checksum and mean something else. */
static void put_other_bytes(struct fg_disk_cache *disk)
{
    struct disk_file *files[DISK_FILES_MAX];
    struct disk_entry entry;
    struct fg_err err;
    unsigned n;

    must(disk_files_open(disk_folder, files, &n, &err), &err);
    for (unsigned i = 0; i < n; i++) {
        for (uint64_t at = 0; disk_file_next(files[i], &at, &entry);) {
            uint8_t *bytes = fg_calloc(1, (size_t)entry.key.len);

            fg_disk_cache_drop(disk, &entry.key);
            fg_disk_cache_put(disk, &entry.key, fg_bytes(bytes, (size_t)entry.key.len));
            free(bytes);
        }
        disk_file_close(files[i]);
    }
    fg_disk_cache_settle(disk);
}

static int remove_one(const char *path, const struct stat *stat_buf, int kind, struct FTW *at)
{
    (void)stat_buf, (void)kind, (void)at;
    return remove(path);
}

static uint64_t fetched_bytes(const struct fixture *f)
{
    return fg_metric_get(blocks_of(f)->metrics, BLOCKS_FETCHED_BYTES);
}

/* What the disk has is not asked for again, and what it has wrong is. */
static void a_disk_below_the_cache(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    uint64_t hits, faults, fetched;
    struct fixture f = {.random = 3};

    (void)state;
    (void)snprintf(disk_folder, sizeof disk_folder, "/tmp/flamegrid-blocks-test.XXXXXX");
    assert_non_null(mkdtemp(disk_folder));
    f.disk = open_disk(registry);
    fixture_init(&f, 3, 0, NULL);
    for (unsigned i = 0; i < 30; i++) {
        world_push(&f.world, 20);
        happen(&f, 1 + i % 3);
        fg_clock_manual_advance(&f.clock, FG_MINUTE_NS);
        ask_some(&f, 10);
    }
    hits = fg_disk_cache_stats(f.disk).hits;
    assert_true(hits > 100);

    fg_disk_cache_close(f.disk); /* a restart, as far as the disk sees */
    f.disk = f.querier->blocks->disk = open_disk(registry);
    f.random = 3;
    ask_some(&f, 100);
    f.random = 3;
    fetched = fetched_bytes(&f);
    ask_some(&f, 100); /* the same ones */
    assert_true(fetched_bytes(&f) == fetched);

    put_other_bytes(f.disk);
    faults = fg_disk_cache_stats(f.disk).faults;
    ask_some(&f, 100);
    assert_true(fg_disk_cache_stats(f.disk).faults > faults);
    assert_true(fetched_bytes(&f) > fetched);
    fixture_done(&f);
    fg_disk_cache_close(f.disk);
    fg_registry_destroy(registry);
    (void)nftw(disk_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static size_t stacks_between(struct fixture *f, int64_t start_ns, int64_t end_ns)
{
    static const struct stacks all;
    struct question *question = begin(f, 7);
    struct selection selection = {.start_ns = start_ns, .end_ns = end_ns};
    struct fg_tree tree;
    struct fg_err err;
    size_t n = 0;

    fg_tree_init(&tree);
    for (size_t i = 0; i < FG_COUNT(types); i++) {
        selection.type_text = types[i];
        must(plan_tree(question, &selection, &all, false, &tree, &err), &err);
    }
    for (uint32_t i = 0; i < tree.n_nodes; i++)
        n += tree.self[i] != 0;
    n += tree.root_self != 0;
    fg_tree_done(&tree);
    end(question);
    return n;
}

/* One profile, and ranges that end or begin beside it and on it. */
static void ranges_have_both_their_ends(void **state)
{
    (void)state;
    for (unsigned place = 0; place < 3; place++) {
        struct fixture f = {.random = 1};
        int64_t at_ns;

        fixture_init(&f, 20, 0, NULL);
        do {
            f.world.n_profiles = 0;
            world_push(&f.world, 1);
        } while (f.world.profiles[0].n_samples == 0 || f.world.profiles[0].series % 4 == 1);
        if (place > 0)
            world_commit(&f.world, 1000);
        while (place > 1 && f.world.n_blocks == 0)
            world_compact(&f.world, f.world.profiles[0].tenant);
        at_ns = f.world.profiles[0].time_ns;
        assert_true(stacks_between(&f, at_ns, at_ns) > 0);
        assert_true(stacks_between(&f, INT64_MIN, at_ns) > 0);
        assert_true(stacks_between(&f, at_ns, INT64_MAX) > 0);
        assert_int_equal(stacks_between(&f, INT64_MIN, at_ns - 1), 0);
        assert_int_equal(stacks_between(&f, at_ns + 1, INT64_MAX), 0);
        fixture_done(&f);
    }
}

/* All kinds of places have something. */
static void settle_world(struct world *world)
{
    world_push(world, 300);
    for (unsigned i = 0; i < 6; i++) {
        world_commit(world, 300);
        world_forget(world);
        if (i == 3)
            for (uint32_t t = 0; t < 2; t++)
                world_compact(world, t);
    }
}

static struct fg_cache_stats cache_of(const struct fixture *f)
{
    return fg_cache_stats(blocks_of(f)->cache);
}

static void a_cache_with_an_end(void **state)
{
    static const uint64_t bounds[] = {0, 20000, 200000, UINT64_C(64) << 20};
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(bounds); i++) {
        struct fixture f = {.random = 7};
        uint64_t before;

        fixture_init(&f, 3, bounds[i], NULL);
        settle_world(&f.world);
        for (unsigned k = 0; k < 200; k++) {
            must(check_any(&f, true, &err), &err);
            assert_true(cache_of(&f).bytes <= bounds[i]);
        }
        if (bounds[i] == 0)
            assert_int_equal(cache_of(&f).entries, 0);
        /* What fits is not asked for again. */
        before = fg_metric_get(blocks_of(&f)->metrics, BLOCKS_CACHE_MISSES);
        f.random = 7;
        for (unsigned k = 0; k < 200; k++)
            must(check_any(&f, true, &err), &err);
        if (i + 1 == FG_COUNT(bounds))
            assert_true(fg_metric_get(blocks_of(&f)->metrics, BLOCKS_CACHE_MISSES) == before);
        fixture_done(&f);
    }
}

/* --- what goes wrong --- */

static bool is_honest(enum fg_code code)
{
    return code == FG_OK || code == FG_E_CORRUPT || code == FG_E_UNAVAILABLE;
}

/* Requests that are lost and bytes that change on the way: an error or the right answer, and all
 * is well once they stop. */
static void a_bucket_that_fails(void **state)
{
    static const struct fg_bucket_faults faults[] = {
        {.seed = 1, .spoil_permille = 100},
        {.seed = 2, .lose_answer_permille = 60, .lose_request_permille = 60},
        {.seed = 3, .tear_permille = 100},
        {.seed = 4, .refuse_permille = 50, .spoil_permille = 50},
    };
    const struct fg_bucket_faults none = {0};
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(faults); i++) {
        struct fixture f = {.random = i};
        unsigned failed = 0;

        fixture_init(&f, 11 + i, UINT64_C(1) << 20, &faults[i]);
        settle_world(&f.world);
        for (unsigned k = 0; k < 300; k++) {
            enum fg_code code = check_any(&f, true, &err);

            assert_true(is_honest(code));
            failed += code != FG_OK;
            fg_clock_manual_advance(&f.clock, FG_MINUTE_NS);
        }
        assert_true(failed > 5);
        fg_bucket_faulty_set(f.faulty, &none);
        for (unsigned k = 0; k < 100; k++)
            must(check_any(&f, true, &err), &err);
        fixture_done(&f);
    }
}

struct objects_list {
    char *names[64];
    size_t n;
};

static bool note_object(const struct fg_bucket_entry *entry, void *arg)
{
    struct objects_list *list = arg;

    fg_assert(list->n < FG_COUNT(list->names));
    list->names[list->n++] = strdup(entry->name);
    return true;
}

static void list_objects(struct world *world, const char *prefix, struct objects_list *list)
{
    struct fg_err err;

    assert_int_equal(fg_bucket_each(world->bucket, prefix, false, 0, note_object, list, &err),
                     FG_OK);
}

static void free_objects(struct objects_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
}

static enum fg_code ask_all(struct fixture *f, struct fg_err *err)
{
    static const struct stacks all;
    struct question *question = begin(f, 7);
    struct selection selection = {
        .type_text = types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = plan_tree(question, &selection, &all, true, &tree, err);
    fg_tree_done(&tree);
    end(question);
    return code;
}

static void erase_object(struct world *world, const char *name)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_DELETE, .name = name};

    assert_int_equal(fg_bucket_call(world->bucket, &request), FG_OK);
    fg_bucket_clear(&request);
}

/* A manifest lists what is not there, and goes on doing so: the data is lost, and is said to be. */
static void an_object_that_is_lost(void **state)
{
    struct fixture f = {.random = 5};
    struct objects_list list = {.n = 0};
    struct fg_err err;

    (void)state;
    fixture_init(&f, 5, 0, NULL);
    settle_world(&f.world);
    must(ask_all(&f, &err), &err);
    list_objects(&f.world, FG_NAME_SEGMENTS, &list);
    for (size_t i = 0; i < list.n; i++)
        erase_object(&f.world, list.names[i]);
    assert_int_equal(ask_all(&f, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, FG_NAME_SEGMENTS));
    free_objects(&list);
    fixture_done(&f);
}

/* Whole objects, but not those that the manifest means. */
static void objects_that_were_swapped(void **state)
{
    struct fixture f = {.random = 5};
    struct objects_list list = {.n = 0};
    struct fg_bucket_request read = {.verb = FG_BUCKET_GET, .content_max_bytes = 1 << 20};
    struct fg_bucket_request write = {.verb = FG_BUCKET_PUT};
    struct fg_err err;

    (void)state;
    fixture_init(&f, 6, 0, NULL);
    settle_world(&f.world);
    list_objects(&f.world, FG_NAME_SEGMENTS, &list);
    assert_true(list.n > 2);
    read.name = list.names[list.n - 1];
    assert_int_equal(fg_bucket_call(f.world.bucket, &read), FG_OK);
    write.name = list.names[list.n - 2];
    write.content = fg_buf_slice(&read.body);
    assert_int_equal(fg_bucket_call(f.world.bucket, &write), FG_OK);
    assert_int_equal(ask_all(&f, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, write.name));
    fg_bucket_clear(&read);
    fg_bucket_clear(&write);
    free_objects(&list);
    fixture_done(&f);
}

/* Bytes all over an object, spoilt one at a time: an error, or the byte was not needed. */
static void bytes_that_are_spoilt(void **state)
{
    struct fixture f = {.random = 5};
    struct objects_list list = {.n = 0};
    struct fg_bucket_request read = {.verb = FG_BUCKET_GET, .content_max_bytes = 1 << 20};
    unsigned found = 0;
    struct fg_err err;

    (void)state;
    fixture_init(&f, 8, 0, NULL);
    world_push(&f.world, 40);
    world_commit(&f.world, 1000);
    list_objects(&f.world, FG_NAME_SEGMENTS, &list);
    assert_int_equal(list.n, 1);
    read.name = list.names[0];
    assert_int_equal(fg_bucket_call(f.world.bucket, &read), FG_OK);
    for (size_t i = 0; i < read.body.len; i += 13) {
        struct fg_bucket_request write = {
            .verb = FG_BUCKET_PUT, .name = read.name, .content = fg_buf_slice(&read.body)};
        enum fg_code code = FG_OK;

        read.body.ptr[i] ^= 0x20;
        assert_int_equal(fg_bucket_call(f.world.bucket, &write), FG_OK);
        for (unsigned k = 0; k < 4 && code == FG_OK; k++)
            code = check_any(&f, true, &err);
        assert_true(code == FG_OK || code == FG_E_CORRUPT);
        found += code != FG_OK;
        read.body.ptr[i] ^= 0x20;
        fg_bucket_clear(&write);
    }
    assert_true(found > read.body.len / 13 / 4);
    fg_bucket_clear(&read);
    free_objects(&list);
    fixture_done(&f);
}

static void a_peer_that_always_refuses(void **state)
{
    struct fixture f = {.random = 5};
    struct fg_err err;

    (void)state;
    fixture_init(&f, 9, 0, NULL);
    settle_world(&f.world);
    f.world.peer_code = FG_E_PRECONDITION;
    assert_int_equal(ask_all(&f, &err), FG_E_UNAVAILABLE);
    assert_true(f.world.calls > 3 && f.world.calls < 30);
    f.world.peer_code = FG_E_UNAVAILABLE; /* of all else it is the first that counts */
    f.world.calls = 0;
    assert_int_equal(ask_all(&f, &err), FG_E_UNAVAILABLE);
    assert_int_equal(f.world.calls, WORLD_TENANTS);
    fixture_done(&f);
}

static void deadlines_and_clients_that_leave(void **state)
{
    static const struct stacks all;
    struct fixture f = {.random = 5};
    struct selection selection = {
        .type_text = types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct question *question;
    struct fg_http_request gone = {.gone = true};
    struct fg_tree tree;
    struct fg_err err;

    (void)state;
    fixture_init(&f, 10, 0, NULL);
    settle_world(&f.world);
    question = begin(&f, 1);
    fg_tree_init(&tree);
    question->deadline_mono_ns = fg_mono_ns(&f.clock.clock);
    assert_int_equal(plan_tree(question, &selection, &all, true, &tree, &err), FG_E_DEADLINE);
    question->deadline_mono_ns = INT64_MAX;
    question->req = &gone;
    assert_int_equal(plan_tree(question, &selection, &all, true, &tree, &err), FG_E_CANCELED);
    fg_tree_done(&tree);
    end(question);
    assert_int_equal(cache_of(&f).entries, 0);
    fixture_done(&f);
}

/* --- one question, several workers --- */

static void help_with(struct fixture *f, unsigned threads)
{
    fg_work_destroy(f->work);
    f->work = f->querier->work = make_workers(threads);
}

/* Nothing of a question is left when it has ended, so workers may be exchanged between two. */
static const unsigned helpers[] = {0, 1, 3};

/* What is drawn: the order of the sum's nodes is not. */
static void write_picture(const struct ask *ask, struct fg_buf *out)
{
    static const struct stacks all;
    struct question *question = ask->question;
    struct fg_tree tree;
    struct fg_err err;

    fg_tree_init(&tree);
    must(plan_picture(question, &ask->selection, &all, 30, true, &tree, &err), &err);
    fg_flame_write_tree(&tree, 30, out);
    fg_buf_printf(out, "%d %llu", question->inexact, (unsigned long long)question->bound);
    fg_tree_done(&tree);
}

static void write_tree(struct fixture *f, const struct ask *ask, struct fg_buf *out)
{
    struct stacks stacks;
    struct fg_tree tree;
    struct fg_err err;

    draw_stacks(f, &stacks, ask->question->arena);
    fg_tree_init(&tree);
    must(plan_tree(ask->question, &ask->selection, &stacks, draw(f, 2) == 0, &tree, &err), &err);
    fg_tree_encode(&tree, out);
    fg_tree_done(&tree);
}

/* In the order of answers. */
static void write_points(const struct ask *ask, struct fg_buf *out)
{
    static char pod[] = "pod";
    char *group_by[] = {pod};
    struct points *series;
    struct fg_err err;
    size_t n;

    must(plan_points(ask->question, &ask->selection, FG_MINUTE_NS, group_by, 1, &series, &n, &err),
         &err);
    points_order(series, &n, 0);
    for (size_t i = 0; i < n; i++) {
        fg_labels_encode(&series[i].labels, out);
        for (size_t k = 0; k < series[i].n; k++)
            fg_buf_printf(out, " %lld: %lld, %llu", (long long)series[i].items[k].k,
                          (long long)series[i].items[k].sum,
                          (unsigned long long)series[i].items[k].count);
    }
}

static char *answer_bytes(struct fixture *f, struct fg_arena *arena)
{
    struct fg_buf out;
    struct ask ask;
    char *text;

    fg_buf_init(&out, SIZE_MAX);
    ask_begin(f, &ask);
    switch (draw(f, 3)) {
    case 0:
        write_picture(&ask, &out);
        break;
    case 1:
        write_tree(f, &ask, &out);
        break;
    default:
        write_points(&ask, &out);
        break;
    }
    fg_buf_printf(&out, " of %llu", (unsigned long long)ask.question->profiles);
    text = fg_arena_printf(arena, "%zu bytes, %016llx", out.len,
                           (unsigned long long)fg_hash64(fg_buf_slice(&out)));
    ask_end(&ask);
    fg_buf_done(&out);
    return text;
}

/* With nothing in the cache, and with all that the question before has left there. */
static void however_many_help(void **state)
{
    enum { QUESTIONS = 120 };

    (void)state;
    for (uint64_t cold = 0; cold < 2; cold++) {
        struct fixture f = {.random = 0};
        fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
        char *first[QUESTIONS];

        fixture_init(&f, 20 + cold, cold == 1 ? 0 : UINT64_C(64) << 20, NULL);
        f.world.nodes_permille = 750;
        blocks_of(&f)->crown_nodes = 40;
        settle_world(&f.world);
        world_sum(&f.world, 0);
        for (size_t h = 0; h < FG_COUNT(helpers); h++) {
            help_with(&f, helpers[h]);
            f.random = 77;
            for (unsigned i = 0; i < QUESTIONS; i++) {
                char *found = answer_bytes(&f, arena);

                if (h == 0)
                    first[i] = found;
                assert_string_equal(found, first[i]);
            }
        }
        fixture_done(&f);
    }
}

/* A segment with two bytes that are not what they should be, asked for all there is. */
static enum fg_code ask_spoilt(struct fixture *f, struct fg_err *err)
{
    static const struct stacks all;
    struct selection selection = {
        .type_text = types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct question *question = begin(f, 7);
    struct fg_tree tree;
    enum fg_code code;

    fg_tree_init(&tree);
    code = plan_tree(question, &selection, &all, false, &tree, err);
    fg_tree_done(&tree);
    end(question);
    return code;
}

/* The same error, whoever comes upon it, and whatever else is wrong. */
static void the_first_of_several_errors(void **state)
{
    struct fixture f = {.random = 5};
    struct objects_list list = {.n = 0};
    struct fg_bucket_request read = {.verb = FG_BUCKET_GET, .content_max_bytes = 1 << 20};
    unsigned found = 0;

    (void)state;
    fixture_init(&f, 9, 0, NULL);
    world_push(&f.world, 40);
    world_commit(&f.world, 1000);
    list_objects(&f.world, FG_NAME_SEGMENTS, &list);
    read.name = list.names[0];
    assert_int_equal(fg_bucket_call(f.world.bucket, &read), FG_OK);
    for (size_t i = 0; i < read.body.len / 2; i += 97) {
        struct fg_bucket_request write = {
            .verb = FG_BUCKET_PUT, .name = read.name, .content = fg_buf_slice(&read.body)};
        struct fg_err first, err;
        enum fg_code code = FG_OK;

        read.body.ptr[i] ^= 0x20;
        read.body.ptr[read.body.len / 2 + i] ^= 0x20;
        assert_int_equal(fg_bucket_call(f.world.bucket, &write), FG_OK);
        for (size_t h = 0; h < FG_COUNT(helpers); h++) {
            help_with(&f, helpers[h]);
            if (h == 0)
                code = ask_spoilt(&f, &first);
            else
                assert_int_equal(ask_spoilt(&f, &err), code);
            if (h > 0 && code != FG_OK)
                assert_string_equal(err.msg, first.msg);
        }
        found += code == FG_E_CORRUPT;
        read.body.ptr[i] ^= 0x20;
        read.body.ptr[read.body.len / 2 + i] ^= 0x20;
        fg_bucket_clear(&write);
    }
    assert_true(found > read.body.len / 2 / 97 / 4);
    fg_bucket_clear(&read);
    free_objects(&list);
    fixture_done(&f);
}

/* A clock that goes on by one whenever somebody looks at it. */
struct counting_clock {
    struct fg_clock clock;
    _Atomic int64_t looks;
};

static int64_t count_look(struct fg_clock *clock)
{
    return atomic_fetch_add(&fg_container(clock, struct counting_clock, clock)->looks, 1);
}

/* The deadline is over at each moment at which a question looks, in whose task ever. Nothing stays
 * behind that another one waits for. */
static void deadlines_at_any_moment(void **state)
{
    static const struct fg_clock_ops ops = {.wall_ns = count_look, .mono_ns = count_look};
    static const struct stacks all;

    (void)state;
    for (size_t h = 0; h < FG_COUNT(helpers); h++) {
        struct fixture f = {.random = 5};
        struct counting_clock clock = {.clock = {&ops}};
        struct selection selection = {
            .type_text = types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
        enum fg_code code = FG_E_DEADLINE;
        int64_t k = 0;

        fixture_init(&f, 30, 0, NULL);
        help_with(&f, helpers[h]);
        settle_world(&f.world);
        f.querier->clock = &clock.clock;
        for (; code == FG_E_DEADLINE; k++) {
            struct question *question = begin(&f, 7);
            struct fg_tree tree;
            struct fg_err err;

            fg_tree_init(&tree);
            question->deadline_mono_ns = atomic_load(&clock.looks) + k;
            code = plan_tree(question, &selection, &all, false, &tree, &err);
            fg_tree_done(&tree);
            end(question);
            assert_int_equal(cache_of(&f).entries, 0);
        }
        assert_int_equal(code, FG_OK);
        assert_true(k > 30);
        f.querier->clock = &f.clock.clock;
        fixture_done(&f);
    }
}

/* --- several at a time --- */

static void *ask_many(void *arg)
{
    struct fg_err err;

    for (unsigned i = 0; i < 60; i++)
        must(check_tree(arg, &err), &err);
    return NULL;
}

/* On one cache, which is too small for all. */
static void many_questions_at_once(void **state)
{
    struct fixture f = {.random = 5};
    struct fixture crowd[4]; /* on one world, which is only read */
    pthread_t threads[4];

    (void)state;
    fixture_init(&f, 12, 150000, NULL);
    settle_world(&f.world);
    for (size_t i = 0; i < FG_COUNT(crowd); i++) {
        crowd[i] = f;
        crowd[i].random = i / 2; /* two ask the same */
    }
    for (size_t i = 0; i < FG_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, &crowd[i]), 0);
    for (size_t i = 0; i < FG_COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(cache_of(&f).bytes <= 150000);
    fixture_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_question_at_every_moment),
        cmocka_unit_test(pictures_that_are_not_exact),
        cmocka_unit_test(nodes_cost_two_requests),
        cmocka_unit_test(snapshots_that_are_too_old),
        cmocka_unit_test(profiles_by_themselves),
        cmocka_unit_test(a_disk_below_the_cache),
        cmocka_unit_test(ranges_have_both_their_ends),
        cmocka_unit_test(a_cache_with_an_end),
        cmocka_unit_test(a_bucket_that_fails),
        cmocka_unit_test(an_object_that_is_lost),
        cmocka_unit_test(objects_that_were_swapped),
        cmocka_unit_test(bytes_that_are_spoilt),
        cmocka_unit_test(a_peer_that_always_refuses),
        cmocka_unit_test(deadlines_and_clients_that_leave),
        cmocka_unit_test(however_many_help),
        cmocka_unit_test(the_first_of_several_errors),
        cmocka_unit_test(deadlines_at_any_moment),
        cmocka_unit_test(many_questions_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
