/* A comparison of two sums. Both sides get the same shape: a node that one side lacks is zero
 * there. Nodes are laid out level by level, with the left and right extent of each bar. What is too
 * small on both sides becomes one bar "other" for each parent, last among its siblings; so do the
 * remainders that crowns have cut. */
#include "querier/diff.h"

#include "common/base/hash.h"

static const char other_name[] = "other";

enum { BAR_NUMBERS = 7 }; /* querier/API.md#flame-graphs */

/* Sums of a node of the common tree, left and right. */
struct diff_sums {
    int64_t self[2], total[2];
    int64_t rest[2]; /* below it, and in none of its children */
};

/* How far the total of a node may be too small on one side. */
struct doubt {
    bool known;            /* the side has the node */
    uint64_t error, below; /* as in fg_crown_judged */
};

struct bar {
    uint32_t node; /* or FG_TREE_ROOT: a remainder, or the root in level 0 */
    int64_t x[2];
    struct diff_sums sums;
};

struct bars {
    struct bar *items;
    size_t n, cap;
};

struct diff_work {
    struct qry_diff *diff;
    struct diff_sums *sums; /* of each node */
    uint32_t *order;        /* nodes by parent, then name */
    uint32_t *first;        /* of a node's children in order; the root's stand at [n_nodes] */
    int64_t threshold;
    struct bars level, next;
    struct doubt *doubts[2]; /* by node; NULL: there are none on that side */
    uint64_t unseen;         /* what a node that neither side knows weighs at most */
};

static void bars_add(struct bars *bars, const struct bar *bar)
{
    if (bars->n == bars->cap) {
        bars->cap = bars->cap == 0 ? 64 : bars->cap * 2;
        bars->items = fg_realloc(bars->items, bars->cap * sizeof *bars->items);
    }
    bars->items[bars->n++] = *bar;
}

/* --- the common tree --- */

/* Adds the nodes of a side by name. Returns where each node went. */
static uint32_t *place_nodes(struct fg_tree *both, const struct fg_tree *side)
{
    uint32_t *placed = fg_calloc((size_t)side->n_nodes + 1, sizeof *placed);

    for (uint32_t i = 0; i < side->n_nodes; i++) {
        uint32_t parent =
            side->parents[i] == FG_TREE_ROOT ? FG_TREE_ROOT : placed[side->parents[i]];

        placed[i] = fg_tree_child(both, parent,
                                  fg_symbols_name_location(&both->symbols, fg_tree_name(side, i)));
    }
    return placed;
}

static void add_self(struct diff_sums *sums, const struct fg_crown_sum *side,
                     const uint32_t *placed, unsigned which)
{
    for (uint32_t i = 0; i < side->tree.n_nodes; i++) {
        struct diff_sums *to = &sums[placed[i]];

        to->self[which] = fg_value_add(to->self[which], side->tree.self[i]);
        to->rest[which] = fg_value_add(to->rest[which], side->known[i].rest);
    }
}

/* Parents come before their children, so one walk from the end adds everything up. */
static void add_totals(struct diff_sums *sums, const struct fg_tree *tree,
                       struct diff_sums *ret_all)
{
    for (uint32_t i = tree->n_nodes; i-- > 0;) {
        struct diff_sums *parent =
            tree->parents[i] == FG_TREE_ROOT ? ret_all : &sums[tree->parents[i]];

        for (unsigned side = 0; side < 2; side++) {
            sums[i].total[side] = fg_value_add(
                sums[i].total[side], fg_value_add(sums[i].self[side], sums[i].rest[side]));
            parent->total[side] = fg_value_add(parent->total[side], sums[i].total[side]);
        }
    }
    for (unsigned side = 0; side < 2; side++)
        ret_all->total[side] = fg_value_add(ret_all->total[side], ret_all->rest[side]);
}

/* Returns how much each node of the common tree may lack on one side. What a node lacks may be
 * hidden in the nearest node above it that the side has. */
static struct doubt *doubts_of(const struct fg_crown_sum *side,
                               const struct fg_crown_judged *judged, const struct fg_tree *both,
                               const uint32_t *placed)
{
    struct doubt *doubts = fg_calloc((size_t)both->n_nodes + 1, sizeof *doubts);

    for (uint32_t i = 0; i < side->tree.n_nodes; i++)
        doubts[placed[i]] = (struct doubt){true, judged->errors[i], judged->below[i]};
    for (uint32_t i = 0; i < both->n_nodes; i++) {
        uint32_t parent = both->parents[i];
        uint64_t below = parent == FG_TREE_ROOT ? judged->root_below : doubts[parent].below;

        if (!doubts[i].known)
            doubts[i] = (struct doubt){false, below, below};
    }
    return doubts;
}

static void doubt_side(struct diff_work *work, const struct fg_crown_sum *side,
                       const uint32_t *placed, unsigned which)
{
    struct fg_crown_judged judged;

    if (side->cut == 0)
        return;
    fg_crown_sum_judge(side, &judged);
    work->unseen = FG_MAX(work->unseen, judged.unseen);
    work->doubts[which] = doubts_of(side, &judged, &work->diff->tree, placed);
    fg_crown_judged_done(&judged);
}

static void merge_sides(struct diff_work *work, const struct fg_crown_sum *left,
                        const struct fg_crown_sum *right, struct diff_sums *ret_all)
{
    struct fg_tree *both = &work->diff->tree;
    uint32_t *placed_left = place_nodes(both, &left->tree);
    uint32_t *placed_right = place_nodes(both, &right->tree);

    work->sums = fg_calloc((size_t)both->n_nodes + 1, sizeof *work->sums);
    add_self(work->sums, left, placed_left, 0);
    add_self(work->sums, right, placed_right, 1);
    doubt_side(work, left, placed_left, 0);
    doubt_side(work, right, placed_right, 1);
    free(placed_left);
    free(placed_right);
    *ret_all = (struct diff_sums){.rest = {left->root_rest, right->root_rest}};
    add_totals(work->sums, both, ret_all);
}

/* --- which nodes are shown --- */

static int64_t larger(const struct diff_sums *sums)
{
    return FG_MAX(sums->total[0], sums->total[1]);
}

static int cmp_descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

/* Returns the max_nodes-th largest total, counting the root; 0 if all nodes have room. */
static int64_t find_threshold(const struct diff_work *work, const struct diff_sums *all,
                              size_t max_nodes)
{
    size_t n = (size_t)work->diff->tree.n_nodes + 1;

    if (max_nodes == 0 || n <= max_nodes)
        return 0;
    int64_t *totals = fg_calloc(n, sizeof *totals);
    for (size_t i = 0; i + 1 < n; i++)
        totals[i] = larger(&work->sums[i]);
    totals[n - 1] = larger(all);
    qsort(totals, n, sizeof *totals, cmp_descending);
    int64_t threshold = totals[max_nodes - 1];
    free(totals);
    return threshold;
}

static int cmp_siblings(const void *a, const void *b, void *arg)
{
    const struct fg_tree *tree = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (tree->parents[x] != tree->parents[y])
        return tree->parents[x] < tree->parents[y] ? -1 : 1;
    return fg_slice_cmp(fg_tree_name(tree, x), fg_tree_name(tree, y));
}

/* Sorts nodes by parent, then name. The root's number is the largest, so its children come last. */
static void sort_nodes(struct diff_work *work)
{
    struct fg_tree *tree = &work->diff->tree;
    uint32_t n = tree->n_nodes;

    work->order = fg_calloc((size_t)n + 1, sizeof *work->order);
    work->first = fg_calloc((size_t)n + 1, sizeof *work->first);
    for (uint32_t i = 0; i <= n; i++)
        work->first[i] = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        work->order[i] = i;
    qsort_r(work->order, n, sizeof *work->order, cmp_siblings, tree);
    for (uint32_t i = n; i-- > 0;) {
        uint32_t parent = tree->parents[work->order[i]];

        work->first[parent == FG_TREE_ROOT ? n : parent] = i;
    }
}

/* --- drawing --- */

static void *grow(void *items, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap)
        return items;
    *cap = FG_MAX(n, *cap * 2);
    return fg_realloc(items, *cap * size);
}

static uint32_t name_number(struct qry_diff *diff, struct fg_slice name)
{
    uint64_t hash = fg_hash64_table(name);
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&diff->name_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&diff->name_map, &walk))
        if (fg_slice_eq(diff->names[i], name))
            return i;
    diff->names = grow(diff->names, &diff->cap_names, diff->n_names + 1, sizeof *diff->names);
    diff->names[diff->n_names] = name;
    fg_map_add(&diff->name_map, hash, (uint32_t)diff->n_names);
    return (uint32_t)diff->n_names++;
}

/* Puts a bar. Offsets count from the end of the bar before it in the level: *ends. */
static void put_bar(struct qry_diff *diff, const struct bar *bar, struct fg_slice name,
                    int64_t ends[2])
{
    diff->values =
        grow(diff->values, &diff->cap_values, diff->n_values + BAR_NUMBERS, sizeof *diff->values);
    for (unsigned side = 0; side < 2; side++) {
        diff->values[diff->n_values++] = fg_value_sub(bar->x[side], ends[side]);
        diff->values[diff->n_values++] = bar->sums.total[side];
        diff->values[diff->n_values++] = bar->sums.self[side];
        diff->max_self = FG_MAX(diff->max_self, bar->sums.self[side]);
        ends[side] = fg_value_add(bar->x[side], bar->sums.total[side]);
    }
    diff->values[diff->n_values++] = name_number(diff, name);
}

/* Adds a bar and moves x over it. Adds a node that is too small to *rest instead. */
static void add_child(struct diff_work *work, uint32_t node, int64_t x[2], struct diff_sums *rest)
{
    const struct diff_sums *sums = &work->sums[node];

    if (larger(sums) < work->threshold) {
        for (unsigned side = 0; side < 2; side++)
            rest->total[side] = fg_value_add(rest->total[side], sums->total[side]);
        return;
    }
    bars_add(&work->next, &(struct bar){.node = node, .x = {x[0], x[1]}, .sums = *sums});
    x[0] = fg_value_add(x[0], sums->total[0]);
    x[1] = fg_value_add(x[1], sums->total[1]);
}

/* Adds the children of a node (n_nodes: of the root) to the next level. */
static void add_children(struct diff_work *work, const struct bar *bar, uint32_t node)
{
    const struct fg_tree *tree = &work->diff->tree;
    uint32_t parent = node == tree->n_nodes ? (uint32_t)FG_TREE_ROOT : node;
    int64_t x[2] = {fg_value_add(bar->x[0], bar->sums.self[0]),
                    fg_value_add(bar->x[1], bar->sums.self[1])};
    struct diff_sums rest = {.total = {bar->sums.rest[0], bar->sums.rest[1]}};

    for (uint32_t i = work->first[node];
         i < tree->n_nodes && tree->parents[work->order[i]] == parent; i++)
        add_child(work, work->order[i], x, &rest);
    if (rest.total[0] != 0 || rest.total[1] != 0) {
        rest.self[0] = rest.total[0];
        rest.self[1] = rest.total[1];
        bars_add(&work->next, &(struct bar){.node = FG_TREE_ROOT, .x = {x[0], x[1]}, .sums = rest});
    }
}

static void end_level(struct qry_diff *diff)
{
    diff->level_ends =
        grow(diff->level_ends, &diff->cap_levels, diff->n_levels + 1, sizeof *diff->level_ends);
    diff->level_ends[diff->n_levels++] = diff->n_values;
}

static void draw_level(struct diff_work *work)
{
    int64_t ends[2] = {0, 0};

    work->next.n = 0;
    for (size_t i = 0; i < work->level.n; i++) {
        const struct bar *bar = &work->level.items[i];
        bool remainder = bar->node == FG_TREE_ROOT;

        put_bar(work->diff, bar,
                remainder ? fg_cstr(other_name) : fg_tree_name(&work->diff->tree, bar->node), ends);
        if (!remainder)
            add_children(work, bar, bar->node);
    }
    end_level(work->diff);
    /* The two arrays take turns, so that levels cost no allocations. */
    struct bars drawn = work->level;
    work->level = work->next;
    work->next = drawn;
}

/* Returns true if the node might be shown if everything doubtful were its own. */
static bool could_show(const struct diff_work *work, uint32_t node)
{
    for (unsigned side = 0; side < 2; side++) {
        uint64_t error = work->doubts[side] == NULL ? 0 : work->doubts[side][node].error;
        int64_t could;

        if (error > INT64_MAX ||
            __builtin_add_overflow(work->sums[node].total[side], (int64_t)error, &could) ||
            could >= work->threshold)
            return true;
    }
    return false;
}

/* Returns whether the comparison is exact, as crown_sum.c does for one sum: no node that is in
 * doubt may be shown. Threshold 0: all nodes are shown. */
static struct fg_crown_verdict verdict_of(const struct diff_work *work)
{
    struct fg_crown_verdict verdict = {.exact = true};

    for (uint32_t i = 0; i < work->diff->tree.n_nodes; i++) {
        uint64_t error = 0;

        for (unsigned side = 0; side < 2; side++)
            if (work->doubts[side] != NULL)
                error = FG_MAX(error, work->doubts[side][i].error);
        verdict.bound = FG_MAX(verdict.bound, error);
        if (error > 0 && could_show(work, i))
            verdict.exact = false;
    }
    if (work->unseen > 0 && (work->unseen > INT64_MAX || (int64_t)work->unseen >= work->threshold))
        verdict.exact = false;
    verdict.bound = verdict.exact ? 0 : FG_MAX(verdict.bound, work->unseen);
    return verdict;
}

void qry_diff_make(const struct fg_crown_sum *left, const struct fg_crown_sum *right,
                   size_t max_nodes, struct qry_diff *ret_diff,
                   struct fg_crown_verdict *ret_verdict)
{
    struct diff_work work = {.diff = ret_diff};
    struct diff_sums all = {0};
    int64_t ends[2] = {0, 0};

    *ret_diff = (struct qry_diff){0};
    fg_map_init(&ret_diff->name_map);
    fg_tree_init(&ret_diff->tree);
    merge_sides(&work, left, right, &all);
    work.threshold = find_threshold(&work, &all, max_nodes);
    sort_nodes(&work);

    struct bar root = {.sums = all};
    put_bar(ret_diff, &root, FG_LIT("total"), ends);
    end_level(ret_diff);
    add_children(&work, &root, ret_diff->tree.n_nodes);
    work.level = work.next;
    work.next = (struct bars){0};
    while (work.level.n > 0)
        draw_level(&work);

    ret_diff->left_ticks = all.total[0];
    ret_diff->right_ticks = all.total[1];
    *ret_verdict = verdict_of(&work);
    ret_verdict->total = fg_value_add(all.total[0], all.total[1]);
    free(work.doubts[0]);
    free(work.doubts[1]);
    free(work.sums);
    free(work.order);
    free(work.first);
    free(work.level.items);
    free(work.next.items);
}

void qry_diff_done(struct qry_diff *diff)
{
    free(diff->names);
    free(diff->values);
    free(diff->level_ends);
    fg_map_done(&diff->name_map);
    fg_tree_done(&diff->tree);
}
