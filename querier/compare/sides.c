#include "querier/compare/sides.h"

#include "common/base/str.h"
#include "querier/collect.h"
#include "querier/coverage.h"

enum {
    GROUPS_MAX = 1000, /* instances of a side; above that a sample of them would do */
    BLOCKS_MAX = 64,   /* blocks of time: each is a query */
    POINTS_MAX = 2000, /* of an instance: the grid of covered time */
};

static const int64_t point_ns = 15 * FG_SECOND_NS, block_ns = 5 * FG_MINUTE_NS;

void qry_change_sides_init(struct qry_change_sides *sides, struct qry_query *query)
{
    *sides = (struct qry_change_sides){0};
    fg_tree_init(&sides->tree);
    for (size_t i = 0; i < QRY_CHANGE_SIDES; i++) {
        struct qry_change_side *side = &sides->sides[i];
        uint64_t max_bytes = query->querier->answer_max_bytes / QRY_CHANGE_SIDES;

        qry_groups_init(&side->groups, &sides->tree, query->arena, GROUPS_MAX, max_bytes);
        qry_groups_init(&side->times, &sides->tree, query->arena, BLOCKS_MAX + 1, max_bytes);
    }
}

void qry_change_sides_done(struct qry_change_sides *sides)
{
    for (size_t i = 0; i < QRY_CHANGE_SIDES; i++) {
        qry_groups_done(&sides->sides[i].groups);
        qry_groups_done(&sides->sides[i].times);
    }
    fg_tree_done(&sides->tree);
}

/* ---- which label ---- */

/* Finds which of the labels profiles of a side have. */
static enum fg_code find_labels(struct qry_query *query, const struct qry_change_params *params,
                                size_t side, bool *has, struct fg_err *err)
{
    struct qry_label_sets sets;
    enum fg_code code;

    qry_label_sets_init(&sets);
    code = qry_collect_series(query, &params->sides[side], params->labels, params->n_labels, &sets,
                              err);
    for (size_t i = 0; code == FG_OK && i < sets.n; i++)
        for (size_t k = 0; k < params->n_labels; k++)
            has[k] = has[k] || fg_labels_get(&sets.items[i], params->labels[k]).len > 0;
    qry_label_sets_done(&sets);
    return code;
}

/* Chooses the first label that both sides have; else the first that one of them has. */
static enum fg_code choose_label(struct qry_query *query, const struct qry_change_params *params,
                                 const char **ret_label, struct fg_err *err)
{
    bool has[QRY_CHANGE_SIDES][QRY_CHANGE_LABELS_MAX] = {{false}};

    for (size_t side = 0; side < QRY_CHANGE_SIDES; side++)
        if (find_labels(query, params, side, has[side], err) != FG_OK)
            return err->code;
    *ret_label = NULL;
    for (size_t i = 0; i < params->n_labels && *ret_label == NULL; i++)
        if (has[0][i] && has[1][i])
            *ret_label = params->labels[i];
    for (size_t i = 0; i < params->n_labels && *ret_label == NULL; i++)
        if (has[0][i] || has[1][i])
            *ret_label = params->labels[i];
    return FG_OK;
}

/* ---- covered time ---- */

/* Returns the length of the range; of longer ones than there are profiles of, a hundred years. */
static int64_t length_ns(const struct qry_selection *selection)
{
    return FG_MIN(fg_value_sub(selection->end_ns, selection->start_ns),
                  INT64_C(36500) * 24 * FG_HOUR_NS);
}

static int64_t grid_ns(const struct qry_selection *selection)
{
    int64_t least = length_ns(selection) / POINTS_MAX;

    return FG_MAX(point_ns, (least / FG_SECOND_NS + 1) * FG_SECOND_NS * (least > point_ns));
}

/* Returns the seconds of an instance that its profiles cover, of those points in [from_ns, to_ns)
 * of the range. */
static double covered(const struct qry_change_points *points, int64_t step_ns, int64_t from_ns,
                      int64_t to_ns)
{
    int64_t steps = 0;

    for (size_t i = 0; i < points->points.n; i++) {
        int64_t at_ns = points->points.items[i].k * step_ns;

        if (at_ns >= from_ns && at_ns < to_ns)
            steps += qry_coverage_of(&points->points, i, points->usual, step_ns);
    }
    return (double)steps * (double)step_ns / FG_SECOND_NS;
}

/* ---- units ---- */

static int by_name(const void *left, const void *right)
{
    const struct qry_change_unit *a = left, *b = right;

    return fg_slice_cmp(a->group->name, b->group->name);
}

static const struct qry_change_points *points_of(const struct qry_change_side *side,
                                                 struct fg_slice name)
{
    for (size_t i = 0; i < side->n_points; i++)
        if (fg_slice_eq(side->points[i].name, name))
            return &side->points[i];
    return NULL;
}

/* Lists groups with a value as units, without their covered time. */
static enum fg_code list_units(struct qry_query *query, const struct qry_groups *groups,
                               struct qry_change_side *side, struct fg_err *err)
{
    side->units = fg_arena_new(query->arena, struct qry_change_unit, groups->n + 1);
    side->n_units = 0;
    if (side->units == NULL)
        return qry_query_too_large(err);
    for (size_t i = 0; i < groups->n; i++) {
        double total = 0;

        for (size_t k = 0; k < groups->items[i].n; k++)
            total += (double)groups->items[i].items[k].value;
        if (total > 0)
            side->units[side->n_units++] =
                (struct qry_change_unit){.group = &groups->items[i], .total = total};
    }
    if (side->n_units > 0)
        qsort(side->units, side->n_units, sizeof *side->units, by_name);
    return FG_OK;
}

static enum fg_code read_points(struct qry_query *query, const struct qry_selection *selection,
                                const char *label, struct qry_change_side *side, struct fg_err *err)
{
    char *group_by = fg_arena_text(query->arena, fg_cstr(label));
    int64_t step_ns = grid_ns(selection);
    struct qry_selection grid = *selection;
    struct qry_points *series;
    size_t n;

    if (group_by == NULL)
        return qry_query_too_large(err);
    /* A point gathers what is up to its time, and the first one is to begin with the range. */
    grid.start_ns = fg_time_add(selection->start_ns, step_ns - FG_MS_NS);
    grid.cut_ns = 0;
    if (qry_collect_points(query, &grid, step_ns, &group_by, 1, &series, &n, err) != FG_OK)
        return err->code;
    side->points = fg_arena_new(query->arena, struct qry_change_points, n + 1);
    if (side->points == NULL)
        return qry_query_too_large(err);
    for (size_t i = 0; i < n; i++)
        side->points[i] =
            (struct qry_change_points){.name = fg_labels_get(&series[i].labels, label),
                                       .points = series[i],
                                       .usual = qry_coverage_usual(&series[i], step_ns)};
    side->n_points = n;
    return FG_OK;
}

/* Counts the profiles of each instance. */
static enum fg_code count_profiles(struct qry_query *query, const struct qry_selection *selection,
                                   const char *label, struct qry_change_side *side,
                                   struct fg_err *err)
{
    char *group_by = fg_arena_text(query->arena, fg_cstr(label));
    struct qry_points *series;
    size_t n;

    if (group_by == NULL)
        return qry_query_too_large(err);
    if (qry_collect_totals(query, selection, &group_by, 1, &series, &n, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < side->n_units; i++) {
        struct qry_change_unit *unit = &side->units[i];

        for (size_t k = 0; k < n; k++)
            if (fg_slice_eq(fg_labels_get(&series[k].labels, label), unit->group->name))
                for (size_t p = 0; p < series[k].n; p++)
                    unit->profiles += (double)series[k].items[p].count;
        side->profiles += unit->profiles;
    }
    return FG_OK;
}

static enum fg_code read_instances(struct qry_query *query, const struct qry_selection *selection,
                                   const char *label, struct qry_change_side *side,
                                   struct fg_err *err)
{
    int64_t step_ns = grid_ns(selection);
    struct qry_counted counted;

    if (qry_collect_groups(query, selection, label, &side->groups, err) != FG_OK)
        return err->code;
    counted = qry_query_counted(query);
    if (read_points(query, selection, label, side, err) != FG_OK ||
        list_units(query, &side->groups, side, err) != FG_OK)
        return err->code;
    if (fg_profile_type_is_moment(&selection->type) &&
        count_profiles(query, selection, label, side, err) != FG_OK)
        return err->code;
    qry_query_count_back(query, counted); /* points are of the same profiles */
    side->n_instances = side->n_units;
    for (size_t i = 0; i < side->n_units; i++) {
        const struct qry_change_points *points = points_of(side, side->units[i].group->name);

        /* A profile whose values cancel, or that came a moment ago, may have no point. */
        side->units[i].seconds = points == NULL ? (double)step_ns / FG_SECOND_NS
                                                : covered(points, step_ns, INT64_MIN, INT64_MAX);
        side->seconds += side->units[i].seconds;
    }
    return FG_OK;
}

/* ---- blocks of time ---- */

/* Returns the seconds of all instances that are covered in a block. */
static double covered_block(const struct qry_change_side *side,
                            const struct qry_selection *selection, int64_t length, size_t block)
{
    double seconds = 0;

    for (size_t i = 0; i < side->n_points; i++)
        seconds += covered(&side->points[i], grid_ns(selection), (int64_t)block * length,
                           ((int64_t)block + 1) * length);
    return seconds;
}

static size_t count_blocks(const struct qry_change_side *side,
                           const struct qry_selection *selection, int64_t length)
{
    size_t n = 0;

    for (int64_t i = 0; i * length < length_ns(selection); i++)
        n += covered_block(side, selection, length, (size_t)i) > 0;
    return n;
}

static enum fg_code read_block(struct qry_query *query, const struct qry_selection *selection,
                               struct fg_slice name, struct qry_groups *into, struct fg_err *err)
{
    static const struct qry_stack_filter all;
    struct fg_tree tree;
    size_t group;
    enum fg_code code;

    fg_tree_init(&tree);
    code = qry_collect_tree(query, selection, &all, true, &tree, err);
    if (code == FG_OK && tree.n_nodes > 0) {
        code = qry_groups_find(into, name, &group, err);
        if (code == FG_OK)
            code = qry_groups_take_one(into, group, &tree, err);
    }
    fg_tree_done(&tree);
    return code;
}

/* Reads the blocks of a side one after another. Names are their numbers, of equal length. */
static enum fg_code read_blocks(struct qry_query *query, const struct qry_selection *selection,
                                int64_t length, struct qry_change_side *side, struct fg_err *err)
{
    struct qry_selection part = *selection;
    int64_t n = (length_ns(selection) + length - 1) / length;
    uint64_t profiles[BLOCKS_MAX + 1], before = query->profiles;

    fg_assert((uint64_t)n <= FG_COUNT(profiles)); /* so `length` was chosen */
    for (int64_t i = 0; i < n; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "%06d", (int)i);
        part.start_ns = selection->start_ns + i * length;
        part.end_ns = i == n - 1 ? selection->end_ns : part.start_ns + length - 1;
        if (read_block(query, &part, fg_cstr(name), &side->times, err) != FG_OK)
            return err->code;
        profiles[i] = query->profiles - before;
        before = query->profiles;
    }
    if (list_units(query, &side->times, side, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < side->n_units; i++) {
        int64_t block = 0;

        fg_assert(fg_parse_i64(side->units[i].group->name, &block)); /* ours, above */
        /* A block that has but the last profile of an instance is covered by it. */
        side->units[i].seconds = FG_MAX(covered_block(side, selection, length, (size_t)block), 1.0);
        side->units[i].profiles = (double)profiles[block];
    }
    return FG_OK;
}

/* ---- both sides ---- */

/* Units are sorted by name, so both sides are walked side by side. */
static enum fg_code find_partners(struct qry_query *query, struct qry_change_sides *sides,
                                  struct fg_err *err)
{
    const struct qry_change_side *a = &sides->sides[0], *b = &sides->sides[1];
    size_t k = 0;

    sides->partners = fg_arena_new(query->arena, uint32_t, a->n_units + 1);
    if (sides->partners == NULL)
        return qry_query_too_large(err);
    for (size_t i = 0; i < a->n_units; i++) {
        while (k < b->n_units && by_name(&b->units[k], &a->units[i]) < 0)
            k++;
        sides->partners[i] = QRY_CHANGE_ALONE;
        if (k < b->n_units && by_name(&b->units[k], &a->units[i]) == 0) {
            sides->partners[i] = (uint32_t)k;
            sides->n_same++;
        }
    }
    return FG_OK;
}

/* Decides what varies. Blocks of time are counted only if instances do not do. */
static void choose_design(const struct qry_change_params *params, struct qry_change_sides *sides)
{
    const size_t instances[] = {sides->sides[0].n_units, sides->sides[1].n_units};
    size_t times[QRY_CHANGE_SIDES] = {0};
    int64_t longest = FG_MAX(length_ns(&params->sides[0]), length_ns(&params->sides[1]));

    sides->design = qry_changes_design(instances, sides->n_same, times);
    if (sides->design != QRY_CHANGE_COUNTS)
        return;
    sides->block_ns = (longest / BLOCKS_MAX / block_ns + 1) * block_ns;
    for (size_t i = 0; i < QRY_CHANGE_SIDES; i++)
        times[i] = count_blocks(&sides->sides[i], &params->sides[i], sides->block_ns);
    sides->design = qry_changes_design(instances, sides->n_same, times);
}

enum fg_code qry_change_sides_read(struct qry_query *query, const struct qry_change_params *params,
                                   struct qry_change_sides *sides, struct fg_err *err)
{
    struct qry_counted counted = qry_query_counted(query);

    if (choose_label(query, params, &sides->label, err) != FG_OK)
        return err->code;
    qry_query_count_back(query, counted); /* of the profiles below */
    for (size_t i = 0; i < QRY_CHANGE_SIDES; i++)
        /* Without any label all profiles are of one instance without a name. */
        if (read_instances(query, &params->sides[i],
                           sides->label != NULL ? sides->label : params->labels[0],
                           &sides->sides[i], err) != FG_OK)
            return err->code;
    if (find_partners(query, sides, err) != FG_OK)
        return err->code;
    choose_design(params, sides);
    counted = qry_query_counted(query);
    for (size_t i = 0; sides->design == QRY_CHANGE_TIMES && i < QRY_CHANGE_SIDES; i++)
        if (read_blocks(query, &params->sides[i], sides->block_ns, &sides->sides[i], err) != FG_OK)
            return err->code;
    qry_query_count_back(query, counted); /* blocks of time are of the same profiles */
    return FG_OK;
}
