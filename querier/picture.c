/*
 * Pictures: sums of crowns, and when they have to be made again in full. What blocks hold comes as
 * crowns, what peers hold as trees; where nothing was cut the sum is simply that of trees.
 */
#include "querier/errand.h"

/* ---- sums ---- */

struct sum_errand {
    struct qry_errand base;
    const struct qry_selection *selection;
    const struct qry_stacks *stacks;
    bool full;
    struct qry_picture_facts facts;
};

static enum fg_code take_tree(struct qry_query *query, const struct fg_call *call, void *arg,
                              struct fg_err *err)
{
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = qry_errand_take_tree(query, call, &tree, err);
    if (code == FG_OK)
        fg_crown_sum_take_tree(arg, &tree);
    fg_tree_done(&tree);
    return code;
}

/* Call sites are compared with locations: they need the tree itself. */
static enum fg_code read_site(struct qry_query *query, const struct sum_errand *errand,
                              struct fg_err *err)
{
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = qry_blocks_tree(query, errand->selection, errand->stacks, true, &tree, err);
    if (code == FG_OK)
        fg_crown_sum_take_tree(errand->base.into, &tree);
    fg_tree_done(&tree);
    return code;
}

static enum fg_code read_sum(struct qry_query *query, struct qry_errand *base, struct fg_err *err)
{
    struct sum_errand *errand = fg_container(base, struct sum_errand, base);

    if (errand->stacks->n_call_site > 0)
        return read_site(query, errand, err);
    return qry_blocks_picture(query, errand->selection, errand->stacks, errand->full, base->into,
                              &errand->facts, err);
}

static void restart_sum(struct qry_errand *base)
{
    struct sum_errand *errand = fg_container(base, struct sum_errand, base);

    errand->facts = (struct qry_picture_facts){0};
    fg_crown_sum_done(base->into);
    fg_crown_sum_init(base->into);
}

/* Into an empty sum. */
static enum fg_code add_up(struct qry_query *query, const struct qry_selection *selection,
                           const struct qry_stacks *stacks, bool full, struct fg_crown_sum *into,
                           struct qry_picture_facts *facts, struct fg_err *err)
{
    Fg__Inner__SelectHead head;
    Fg__Inner__Selection inner;
    struct sum_errand errand = {
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

    if (qry_errand_select_head(query, selection, stacks, true, &inner, &head, err) != FG_OK)
        return err->code;
    errand.base.head = qry_errand_head(&head.base, &inner, selection, inner.start_ns);
    if (qry_errand_run(query, &errand.base, err) != FG_OK)
        return err->code;
    facts->sample_bytes += errand.facts.sample_bytes;
    facts->negatives = facts->negatives || errand.facts.negatives;
    return FG_OK;
}

/* ---- pictures of one or two sums ---- */

struct picture_query {
    struct qry_query *query;
    struct qry_selection selections[QUERY_SIDES_MAX];
    const struct qry_stacks *stacks[QUERY_SIDES_MAX]; /* NULL: that sum is empty */
    unsigned n_sides;
    size_t max_nodes;
    bool fold;
    struct fg_crown_sum sums[QUERY_SIDES_MAX];
    /* Draws the sums, in place of what was drawn before. */
    void (*draw)(struct picture_query *picture, struct fg_crown_verdict *ret_verdict);
    void *into;
};

static void clear_sums(struct picture_query *picture)
{
    for (unsigned i = 0; i < picture->n_sides; i++)
        fg_crown_sum_done(&picture->sums[i]);
}

static enum fg_code add_up_sides(struct picture_query *picture, bool full,
                                 struct qry_picture_facts *ret_facts, struct fg_err *err)
{
    struct qry_picture_facts facts = {0};

    for (unsigned i = 0; i < picture->n_sides; i++)
        fg_crown_sum_init(&picture->sums[i]);
    for (unsigned i = 0; i < picture->n_sides; i++)
        if (picture->stacks[i] != NULL &&
            add_up(picture->query, &picture->selections[i], picture->stacks[i], full,
                   &picture->sums[i], &facts, err) != FG_OK) {
            clear_sums(picture);
            return err->code;
        }
    *ret_facts = facts;
    return FG_OK;
}

/*
 * Once more, in full. It may take half of the time that is left: should that not do, or memory, the
 * picture with its bound is there.
 */
static enum fg_code refine(struct picture_query *picture, struct fg_crown_verdict *verdict,
                           struct fg_err *err)
{
    struct qry_query *query = picture->query;
    int64_t deadline_mono_ns = query->deadline_mono_ns;
    int64_t now_ns = fg_mono_ns(query->querier->clock);
    uint64_t profiles = query->profiles, series = query->series;
    struct qry_picture_facts facts;

    query->deadline_mono_ns = now_ns + (deadline_mono_ns - now_ns) / 2;
    query->profiles = 0; /* they are the same ones */
    query->series = 0;
    enum fg_code code = add_up_sides(picture, true, &facts, err);
    query->deadline_mono_ns = deadline_mono_ns;
    if (code == FG_OK) {
        picture->draw(picture, verdict);
        clear_sums(picture);
        return FG_OK;
    }
    query->profiles = profiles;
    query->series = series;
    return code == FG_E_DEADLINE || code == FG_E_LIMIT ? FG_OK : code;
}

/* Of what is older than profiles are kept there are merged nodes, if anything. */
static enum fg_code fit_sides(struct picture_query *picture, struct fg_err *err)
{
    if (qry_errand_begin(picture->query, err) != FG_OK)
        return err->code;
    for (unsigned i = 0; i < picture->n_sides; i++) {
        const struct qry_stacks *stacks = picture->stacks[i];

        if (stacks == NULL)
            continue;
        if (stacks->n_call_site + stacks->n_spans + stacks->n_traces + stacks->n_profile_ids == 0)
            qry_blocks_widen(picture->query, &picture->selections[i]);
        else if (qry_blocks_need_profiles(picture->query, &picture->selections[i],
                                          "call sites, spans and traces", err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code make_picture(struct picture_query *picture, struct fg_err *err)
{
    struct qry_query *query = picture->query;
    struct fg_crown_verdict verdict;
    struct qry_picture_facts facts;

    if (fit_sides(picture, err) != FG_OK)
        return err->code;
    if (add_up_sides(picture, query->refine, &facts, err) != FG_OK)
        return err->code;
    picture->draw(picture, &verdict);
    clear_sums(picture);
    verdict.exact = verdict.exact && !facts.negatives;
    if (!verdict.exact && facts.sample_bytes <= query->querier->refine_max_bytes &&
        refine(picture, &verdict, err) != FG_OK)
        return err->code;
    query->inexact = query->inexact || !verdict.exact;
    query->bound = FG_MAX(query->bound, verdict.bound);
    return FG_OK;
}

static void draw_tree(struct picture_query *picture, struct fg_crown_verdict *ret_verdict)
{
    struct fg_tree *into = picture->into;

    fg_tree_done(into);
    fg_tree_init(into);
    qry_cut_make(&picture->sums[0], picture->max_nodes, picture->fold, into, ret_verdict);
}

enum fg_code qry_plan_picture(struct qry_query *query, const struct qry_selection *selection,
                              const struct qry_stacks *stacks, size_t max_nodes, bool fold,
                              struct fg_tree *into, struct fg_err *err)
{
    struct picture_query picture = {
        .query = query,
        .selections = {*selection},
        .stacks = {stacks},
        .n_sides = 1,
        .max_nodes = max_nodes,
        .fold = fold,
        .draw = draw_tree,
        .into = into,
    };

    return make_picture(&picture, err);
}

static void draw_diff(struct picture_query *picture, struct fg_crown_verdict *ret_verdict)
{
    struct qry_diff *into = picture->into;

    qry_diff_done(into);
    qry_diff_make(&picture->sums[0], &picture->sums[1], picture->max_nodes, into, ret_verdict);
}

enum fg_code qry_plan_diff(struct qry_query *query, const struct qry_side *left,
                           const struct qry_side *right, size_t max_nodes,
                           struct qry_diff *ret_diff, struct fg_err *err)
{
    struct picture_query picture = {
        .query = query,
        .selections = {left->selection, right->selection},
        .stacks = {left->stacks, right->stacks},
        .n_sides = 2,
        .max_nodes = max_nodes,
        .draw = draw_diff,
        .into = ret_diff,
    };

    *ret_diff = (struct qry_diff){0};
    return make_picture(&picture, err);
}
