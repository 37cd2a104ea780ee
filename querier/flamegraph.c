#include "querier/flamegraph.h"

#include "querier/blocks/blocks.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/blocks/lost.h"
#include "querier/fanout.h"
#include "querier/flamegraph_cut.h"

/* ---- sums ---- */

struct sum_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
    const struct qry_stack_filter *stacks;
    const struct qry_crowns_full *full;
    struct qry_flamegraph_facts facts;
};

static enum fg_code take_tree(struct qry_query *query, const struct fg_call *call, void *arg,
                              struct fg_err *err)
{
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = qry_fanout_take_tree(query, call, &tree, err);
    if (code == FG_OK)
        fg_crown_sum_add_tree(arg, &tree);
    fg_tree_done(&tree);
    return code;
}

static enum fg_code read_sum(struct qry_query *query, struct qry_fanout *base, struct fg_err *err)
{
    struct sum_fanout *fanout = fg_container(base, struct sum_fanout, base);
    struct fg_tree tree;
    enum fg_code code;

    if (fanout->stacks->n_call_site == 0)
        return qry_blocks_crowns(query, fanout->selection, fanout->stacks, fanout->full, base->into,
                                 &fanout->facts, err);
    /* Adds up the stacks below a call site. Call sites are compared with locations, which only
     * stack trees have. */
    fg_tree_init(&tree);
    code = qry_blocks_tree(query, fanout->selection, fanout->stacks, true, &tree, err);
    if (code == FG_OK)
        fg_crown_sum_add_tree(base->into, &tree);
    fg_tree_done(&tree);
    return code;
}

static void restart_sum(struct qry_fanout *base)
{
    struct sum_fanout *fanout = fg_container(base, struct sum_fanout, base);

    fanout->facts = (struct qry_flamegraph_facts){0};
    fg_crown_sum_done(base->into);
    fg_crown_sum_init(base->into);
}

/* Adds up a selection, into an empty sum. full: as of qry_blocks_crowns(). */
static enum fg_code add_up(struct qry_query *query, const struct qry_selection *selection,
                           const struct qry_stack_filter *stacks,
                           const struct qry_crowns_full *full, struct fg_crown_sum *into,
                           struct qry_flamegraph_facts *facts, struct fg_err *err)
{
    Fg__Inner__SelectHead head;
    Fg__Inner__Selection inner;
    struct sum_fanout fanout = {
        .base = {.method = FG_RPC_SELECT,
                 .generation = &inner.generation,
                 .take = take_tree,
                 .read = read_sum,
                 .restart = restart_sum,
                 .into = into},
        .selection = selection,
        .stacks = stacks,
        .full = full,
    };

    /* Functions only: a flame graph shows no lines and addresses. */
    if (qry_fanout_select_head(query, selection, stacks, true, &inner, &head, err) != FG_OK)
        return err->code;
    fanout.base.head = qry_fanout_head(&head.base, &inner, selection, inner.start_ns);
    if (qry_fanout_run(query, &fanout.base, err) != FG_OK)
        return err->code;
    /* Of both sides: refine() reads both again. */
    facts->sample_bytes += fanout.facts.sample_bytes;
    facts->negatives = facts->negatives || fanout.facts.negatives;
    fg_crown_sum_finish(into);
    return FG_OK;
}

/* ---- flame graphs of one or two sums ---- */

struct flamegraph_query {
    struct qry_query *query;
    struct qry_selection selections[QUERY_SIDES_MAX];
    const struct qry_stack_filter *stacks[QUERY_SIDES_MAX]; /* NULL: that sum is empty */
    unsigned n_sides;
    size_t max_nodes;
    bool fold;
    struct fg_crown_sum sums[QUERY_SIDES_MAX];
    /* Draws the sums, replacing what was drawn before. */
    void (*draw)(struct flamegraph_query *graph, struct fg_crown_verdict *ret_verdict);
    void *into;
};

static void clear_sums(struct flamegraph_query *graph)
{
    for (unsigned i = 0; i < graph->n_sides; i++)
        fg_crown_sum_done(&graph->sums[i]);
}

/* full NULL: from crowns. Its limit is one of all sides together. */
static enum fg_code add_up_sides(struct flamegraph_query *graph, const struct qry_crowns_full *full,
                                 struct qry_flamegraph_facts *ret_facts, struct fg_err *err)
{
    struct qry_flamegraph_facts facts = {0};

    for (unsigned i = 0; i < graph->n_sides; i++)
        fg_crown_sum_init(&graph->sums[i]);
    for (unsigned i = 0; i < graph->n_sides; i++) {
        struct qry_crowns_full rest;

        if (graph->stacks[i] == NULL)
            continue;
        if (full != NULL)
            rest.max_sample_bytes =
                full->max_sample_bytes - FG_MIN(full->max_sample_bytes, facts.sample_bytes);
        if (add_up(graph->query, &graph->selections[i], graph->stacks[i],
                   full == NULL ? NULL : &rest, &graph->sums[i], &facts, err) != FG_OK) {
            clear_sums(graph);
            return err->code;
        }
    }
    *ret_facts = facts;
    return FG_OK;
}

/* What a query has counted, and what it lacks. */
struct flamegraph_tally {
    struct qry_counted counted;
    uint64_t planned_bytes;
    size_t missing;
    bool incomplete;
    unsigned lost;
};

static struct flamegraph_tally tally_of(const struct qry_query *query)
{
    return (struct flamegraph_tally){qry_query_counted(query), query->planned_bytes,
                                     query->missing.len, query->incomplete, qry_lost_count(query)};
}

static void take_back(struct qry_query *query, const struct flamegraph_tally *to)
{
    qry_query_count_back(query, to->counted);
    /* If that was the limit, crowns may still fit (limits.max_query_bytes). */
    query->planned_bytes = to->planned_bytes;
    query->missing.len = to->missing;
    query->incomplete = to->incomplete;
    qry_lost_count_back(query, to->lost);
}

/* Returns true if the full sum lacks something that crowns may have, or that the earlier drawing
 * had. An object that cannot be read is in crowns mostly, in those of other objects or pages. */
static bool lacks_more(const struct qry_query *query, const struct flamegraph_tally *before,
                       bool drawn)
{
    return qry_lost_costs_since(query, before->lost) ||
           (drawn &&
            (query->missing.len > before->missing || (query->incomplete && !before->incomplete)));
}

/* Adds everything up in full, for an exact flame graph, if the samples are few enough. It may take
 * half of the time that is left. If that or the memory is not enough, or something cannot be read,
 * the flame graph with its bound is the answer: a refinement costs no answer, nor any profile of
 * it. drawn: there is an earlier drawing. *refined: whether it was drawn in full. */
static enum fg_code refine(struct flamegraph_query *graph, bool drawn,
                           struct fg_crown_verdict *verdict, bool *refined, struct fg_err *err)
{
    struct qry_query *query = graph->query;
    int64_t deadline_mono_ns = query->deadline_mono_ns;
    int64_t now_ns = fg_mono_ns(query->querier->clock);
    const struct flamegraph_tally before = tally_of(query);
    struct qry_flamegraph_facts facts;

    query->deadline_mono_ns = now_ns + (deadline_mono_ns - now_ns) / 2;
    qry_query_count_back(query, (struct qry_counted){0}); /* the same profiles are counted again */
    enum fg_code code = add_up_sides(
        graph, &(struct qry_crowns_full){query->querier->refine_max_bytes}, &facts, err);
    query->deadline_mono_ns = deadline_mono_ns;
    if (code == FG_OK) {
        *refined = !lacks_more(query, &before, drawn);
        if (*refined)
            graph->draw(graph, verdict);
        clear_sums(graph);
    }
    /* The earlier drawing is still in `into`: draw() replaces it only after a success. */
    if (!*refined)
        take_back(query, &before);
    return code == FG_E_CANCELED ? code : FG_OK;
}

/* Fits the selections to time ranges for which there are only rollups. */
static enum fg_code fit_sides(struct flamegraph_query *graph, struct fg_err *err)
{
    if (qry_fanout_begin(graph->query, err) != FG_OK)
        return err->code;
    for (unsigned i = 0; i < graph->n_sides; i++) {
        const struct qry_stack_filter *stacks = graph->stacks[i];

        if (stacks == NULL)
            continue;
        if (stacks->n_call_site + stacks->n_spans + stacks->n_traces + stacks->n_profile_ids == 0)
            /* After the snapshot was taken, which says where there are only rollups. */
            qry_blocks_widen(graph->query, &graph->selections[i]);
        else if (qry_blocks_need_profiles(graph->query, &graph->selections[i],
                                          "call sites, spans and traces", err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Draws what crowns have. */
static enum fg_code draw_crowns(struct flamegraph_query *graph, struct fg_crown_verdict *verdict,
                                uint64_t *ret_sample_bytes, struct fg_err *err)
{
    static const struct qry_crowns_full all = {UINT64_MAX};
    struct qry_flamegraph_facts facts;

    if (add_up_sides(graph, graph->query->refine ? &all : NULL, &facts, err) != FG_OK)
        return err->code;
    graph->draw(graph, verdict);
    /* Before refine(), which needs the memory. */
    clear_sums(graph);
    verdict->exact = verdict->exact && !facts.negatives; /* bounds hold for positive values only */
    *ret_sample_bytes = facts.sample_bytes;
    return FG_OK;
}

static enum fg_code make_flamegraph(struct flamegraph_query *graph, struct fg_err *err)
{
    struct qry_query *query = graph->query;
    const struct qry_blocks *blocks = query->querier->blocks;
    /* Crowns have fewer nodes than are to be shown, so they would be read for nothing if all
     * samples can be read, too. */
    bool beyond = blocks != NULL && !query->refine && graph->max_nodes > blocks->crown_nodes;
    bool refined = false;
    struct fg_crown_verdict verdict = {0};
    uint64_t sample_bytes = 0;

    if (fit_sides(graph, err) != FG_OK)
        return err->code;
    if (beyond && refine(graph, false, &verdict, &refined, err) != FG_OK)
        return err->code;
    if (!refined && draw_crowns(graph, &verdict, &sample_bytes, err) != FG_OK)
        return err->code;
    /* An exact result reads all samples; querier.refine_max_bytes says how much that may be. */
    if (!refined && !beyond && !verdict.exact && sample_bytes <= query->querier->refine_max_bytes &&
        refine(graph, true, &verdict, &refined, err) != FG_OK)
        return err->code;
    query->inexact = query->inexact || !verdict.exact;
    query->bound = FG_MAX(query->bound, verdict.bound);
    return FG_OK;
}

static void draw_tree(struct flamegraph_query *graph, struct fg_crown_verdict *ret_verdict)
{
    struct fg_tree *into = graph->into;

    fg_tree_done(into);
    fg_tree_init(into);
    qry_flamegraph_cut(&graph->sums[0], graph->max_nodes, graph->fold, into, ret_verdict);
    qry_query_look_at_values(graph->query, into->self, into->n_nodes);
}

enum fg_code qry_flamegraph_make(struct qry_query *query, const struct qry_selection *selection,
                                 const struct qry_stack_filter *stacks, size_t max_nodes, bool fold,
                                 struct fg_tree *into, struct fg_err *err)
{
    struct flamegraph_query graph = {
        .query = query,
        .selections = {*selection},
        .stacks = {stacks},
        .n_sides = 1,
        .max_nodes = max_nodes,
        .fold = fold,
        .draw = draw_tree,
        .into = into,
    };

    return make_flamegraph(&graph, err);
}

static void draw_diff(struct flamegraph_query *graph, struct fg_crown_verdict *ret_verdict)
{
    struct qry_diff *into = graph->into;

    qry_diff_done(into);
    qry_diff_make(&graph->sums[0], &graph->sums[1], graph->max_nodes, into, ret_verdict);
    qry_query_look_at_sum(graph->query, into->left_ticks);
    qry_query_look_at_sum(graph->query, into->right_ticks);
}

enum fg_code qry_flamegraph_diff(struct qry_query *query, const struct qry_side *left,
                                 const struct qry_side *right, size_t max_nodes,
                                 struct qry_diff *ret_diff, struct fg_err *err)
{
    struct flamegraph_query graph = {
        .query = query,
        .selections = {left->selection, right->selection},
        .stacks = {left->stacks, right->stacks},
        .n_sides = 2,
        .max_nodes = max_nodes,
        .draw = draw_diff,
        .into = ret_diff,
    };

    *ret_diff = (struct qry_diff){0};
    return make_flamegraph(&graph, err);
}
