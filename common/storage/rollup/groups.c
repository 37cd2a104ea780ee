#include "common/storage/rollup/groups.h"

/* The choice of labels to group by: each label that is taken splits the groups so far. */
struct groups_choosing {
    const struct fg_labels *series;
    struct fg_groups *groups;
    struct fg_arena *arena;
    uint32_t *values_of; /* of a series: the value of the label that is looked at */
};

static enum fg_code no_room(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "groups need too much memory");
}

/* ---- labels that all have ---- */

static bool all_have(const struct fg_labels *series, uint32_t n_series,
                     const struct fg_label *label)
{
    for (uint32_t i = 0; i < n_series; i++) {
        size_t at;

        if (!fg_labels_find(&series[i], label->name, &at) ||
            !fg_slice_eq(series[i].items[at].value, label->value))
            return false;
    }
    return true;
}

static bool none_has(const struct fg_labels *series, uint32_t n_series, struct fg_slice name)
{
    for (uint32_t i = 0; i < n_series; i++) {
        size_t at;

        if (fg_labels_find(&series[i], name, &at))
            return false;
    }
    return true;
}

/* Inserts a label at its place by name, unless it is there already. There is room for it. */
static void add_common(struct fg_labels *common, struct fg_label label)
{
    size_t at;

    if (fg_labels_find(common, label.name, &at))
        return;
    for (at = common->count++; at > 0 && fg_slice_cmp(common->items[at - 1].name, label.name) > 0;
         at--)
        common->items[at] = common->items[at - 1];
    common->items[at] = label;
}

static enum fg_code find_common(struct groups_choosing *choosing, const struct fg_slice *wanted,
                                size_t n_wanted, struct fg_err *err)
{
    const struct fg_labels *first = &choosing->series[0];
    struct fg_groups *groups = choosing->groups;

    if (groups->n_series == 0)
        return FG_OK;
    groups->common.items = fg_arena_new(choosing->arena, struct fg_label, first->count + n_wanted);
    if (groups->common.items == NULL)
        return no_room(err);
    for (size_t i = 0; i < first->count; i++)
        if (!fg_slice_is(first->items[i].name, FG_LABEL_NAME) &&
            all_have(choosing->series, groups->n_series, &first->items[i]))
            groups->common.items[groups->common.count++] = first->items[i];
    for (size_t i = 0; i < n_wanted; i++)
        /* A label that no series has is common, too, as the empty one: then a query by it needs
         * no raw data. */
        if (!fg_slice_is(wanted[i], FG_LABEL_NAME) &&
            none_has(choosing->series, groups->n_series, wanted[i]))
            add_common(&groups->common, (struct fg_label){wanted[i], FG_LIT("")});
    return FG_OK;
}

/* ---- labels to group by ---- */

static struct fg_slice value_of(const struct fg_labels *labels, struct fg_slice name)
{
    size_t at;

    return fg_labels_find(labels, name, &at) ? labels->items[at].value : FG_LIT("");
}

/* Returns how many values the label has, and sets values_of[]. 0: they are too many. */
static uint32_t count_values(struct groups_choosing *choosing, struct fg_slice name)
{
    struct fg_slice values[FG_GROUPS_VALUES_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < choosing->groups->n_series; i++) {
        struct fg_slice value = value_of(&choosing->series[i], name);
        uint32_t k = 0;

        while (k < count && !fg_slice_eq(values[k], value))
            k++;
        if (k == FG_GROUPS_VALUES_MAX)
            return 0;
        if (k == count)
            values[count++] = value;
        choosing->values_of[i] = k;
    }
    return count;
}

/* Splits the groups by the values. Returns false, and changes nothing, if there would be too
 * many. */
static bool split_groups(struct groups_choosing *choosing)
{
    static const uint32_t none = FG_GROUPS_MAX;
    struct fg_groups *groups = choosing->groups;
    uint32_t split[FG_GROUPS_MAX][FG_GROUPS_VALUES_MAX], count = 0;

    for (uint32_t g = 0; g < FG_GROUPS_MAX; g++)
        for (uint32_t v = 0; v < FG_GROUPS_VALUES_MAX; v++)
            split[g][v] = none;
    for (uint32_t i = 0; i < groups->n_series; i++) {
        uint32_t *part = &split[groups->of_series[i]][choosing->values_of[i]];

        if (*part != none)
            continue;
        if (count == FG_GROUPS_MAX)
            return false;
        *part = count++;
    }
    for (uint32_t i = 0; i < groups->n_series; i++)
        groups->of_series[i] = split[groups->of_series[i]][choosing->values_of[i]];
    groups->n_groups = count;
    return true;
}

static bool is_taken(const struct fg_groups *groups, struct fg_slice name)
{
    for (uint32_t i = 0; i < groups->n_names; i++)
        if (fg_slice_eq(groups->names[i], name))
            return true;
    return false;
}

static void try_label(struct groups_choosing *choosing, struct fg_slice name)
{
    struct fg_groups *groups = choosing->groups;

    if (groups->n_names == FG_GROUPS_LABELS_MAX || is_taken(groups, name) ||
        fg_slice_is(name, FG_LABEL_NAME) || count_values(choosing, name) < 2 ||
        !split_groups(choosing))
        return;
    groups->names[groups->n_names++] = name;
}

/* ---- groups in order ---- */

static int compare_groups(const struct fg_groups *groups, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < groups->n_names; i++) {
        int order = fg_slice_cmp(groups->values[(size_t)a * groups->n_names + i],
                                 groups->values[(size_t)b * groups->n_names + i]);

        if (order != 0)
            return order;
    }
    return 0;
}

/* Sorts the groups by comparing each with all others: there are 64 at most, and all are
 * different. */
static void sort_groups(struct groups_choosing *choosing, struct fg_slice *sorted)
{
    struct fg_groups *groups = choosing->groups;
    uint32_t places[FG_GROUPS_MAX];

    for (uint32_t g = 0; g < groups->n_groups; g++) {
        places[g] = 0;
        for (uint32_t other = 0; other < groups->n_groups; other++)
            places[g] += compare_groups(groups, other, g) < 0;
        for (uint32_t i = 0; i < groups->n_names; i++)
            sorted[(size_t)places[g] * groups->n_names + i] =
                groups->values[(size_t)g * groups->n_names + i];
    }
    for (uint32_t i = 0; i < groups->n_series; i++)
        groups->of_series[i] = places[groups->of_series[i]];
    groups->values = sorted;
}

static enum fg_code name_groups(struct groups_choosing *choosing, struct fg_err *err)
{
    struct fg_groups *groups = choosing->groups;
    size_t count = (size_t)groups->n_groups * groups->n_names;
    struct fg_slice *sorted = fg_arena_new(choosing->arena, struct fg_slice, count);

    groups->values = fg_arena_new(choosing->arena, struct fg_slice, count);
    if (groups->values == NULL || sorted == NULL)
        return no_room(err);
    for (uint32_t i = 0; i < groups->n_series; i++)
        for (uint32_t k = 0; k < groups->n_names; k++)
            groups->values[(size_t)groups->of_series[i] * groups->n_names + k] =
                value_of(&choosing->series[i], groups->names[k]);
    sort_groups(choosing, sorted);
    return FG_OK;
}

enum fg_code fg_groups_choose(const struct fg_labels *series, uint32_t n_series,
                              const struct fg_slice *wanted, size_t n_wanted,
                              struct fg_arena *arena, struct fg_groups *ret_groups,
                              struct fg_err *err)
{
    struct fg_groups groups = {.n_series = n_series, .n_groups = n_series > 0};
    struct groups_choosing choosing = {.series = series, .groups = &groups, .arena = arena};

    groups.of_series = fg_arena_new(arena, uint32_t, n_series);
    choosing.values_of = fg_arena_new(arena, uint32_t, n_series);
    if (groups.of_series == NULL || choosing.values_of == NULL)
        return no_room(err);
    if (find_common(&choosing, wanted, n_wanted, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n_wanted; i++)
        try_label(&choosing, wanted[i]);
    if (name_groups(&choosing, err) != FG_OK)
        return err->code;
    *ret_groups = groups;
    return FG_OK;
}

/* ---- single series ---- */

/* A label by which single series differ. */
struct differing {
    struct fg_slice name;
    uint32_t n_values;
};

/* Values of a label, sorted. */
static int compare_values(const void *left, const void *right)
{
    return fg_slice_cmp(*(const struct fg_slice *)left, *(const struct fg_slice *)right);
}

static uint32_t count_all_values(const struct groups_choosing *choosing, struct fg_slice name,
                                 struct fg_slice *values)
{
    uint32_t n_series = choosing->groups->n_series, count = 0;

    for (uint32_t i = 0; i < n_series; i++)
        values[i] = value_of(&choosing->series[i], name);
    qsort(values, n_series, sizeof *values, compare_values);
    for (uint32_t i = 0; i < n_series; i++)
        count += i == 0 || !fg_slice_eq(values[i - 1], values[i]);
    return count;
}

static bool is_listed(const struct differing *labels, uint32_t count, struct fg_slice name)
{
    for (uint32_t i = 0; i < count; i++)
        if (fg_slice_eq(labels[i].name, name))
            return true;
    return false;
}

/* Lists all labels that are not common. Returns their number, FG_GROUPS_SINGLE_LABELS_MAX + 1 if
 * there are more than there may be. */
static uint32_t list_differing(const struct groups_choosing *choosing, struct fg_slice *values,
                               struct differing labels[FG_GROUPS_SINGLE_LABELS_MAX])
{
    uint32_t count = 0;
    size_t at;

    for (uint32_t i = 0; i < choosing->groups->n_series; i++)
        for (size_t k = 0; k < choosing->series[i].count; k++) {
            struct fg_slice name = choosing->series[i].items[k].name;

            if (fg_slice_is(name, FG_LABEL_NAME) || is_listed(labels, count, name) ||
                fg_labels_find(&choosing->groups->common, name, &at))
                continue;
            if (count == FG_GROUPS_SINGLE_LABELS_MAX)
                return count + 1;
            labels[count++] = (struct differing){name, count_all_values(choosing, name, values)};
        }
    return count;
}

static int compare_differing(const void *left, const void *right)
{
    const struct differing *a = left, *b = right;

    if (a->n_values != b->n_values)
        return a->n_values > b->n_values ? -1 : 1;
    return fg_slice_cmp(a->name, b->name);
}

static int compare_series(const void *left, const void *right, void *arg)
{
    const struct groups_choosing *choosing = arg;
    const struct fg_labels *a = &choosing->series[*(const uint32_t *)left];
    const struct fg_labels *b = &choosing->series[*(const uint32_t *)right];

    for (uint32_t i = 0; i < choosing->groups->n_names; i++) {
        struct fg_slice name = choosing->groups->names[i];
        int order = fg_slice_cmp(value_of(a, name), value_of(b, name));

        if (order != 0)
            return order;
    }
    return 0;
}

/* Numbers the groups in the order of their values. order: the series in that order. */
static enum fg_code name_single(struct groups_choosing *choosing, const uint32_t *order,
                                struct fg_err *err)
{
    struct fg_groups *groups = choosing->groups;

    groups->values =
        fg_arena_new(choosing->arena, struct fg_slice, (size_t)groups->n_groups * groups->n_names);
    if (groups->values == NULL)
        return no_room(err);
    for (uint32_t i = 0, g = 0; i < groups->n_series; i++) {
        g += i > 0 && compare_series(&order[i - 1], &order[i], choosing) != 0;
        groups->of_series[order[i]] = g;
        for (uint32_t k = 0; k < groups->n_names; k++)
            groups->values[(size_t)g * groups->n_names + k] =
                value_of(&choosing->series[order[i]], groups->names[k]);
    }
    return FG_OK;
}

static enum fg_code make_single(struct groups_choosing *choosing, struct fg_err *err)
{
    struct fg_groups *groups = choosing->groups;
    struct differing labels[FG_GROUPS_SINGLE_LABELS_MAX];
    struct fg_slice *values = fg_arena_new(choosing->arena, struct fg_slice, groups->n_series);
    uint32_t *order = fg_arena_new(choosing->arena, uint32_t, groups->n_series), n_groups = 1;

    if (values == NULL || order == NULL)
        return no_room(err);
    groups->n_names = list_differing(choosing, values, labels);
    if (groups->n_names > FG_GROUPS_SINGLE_LABELS_MAX)
        return FG_OK;
    qsort(labels, groups->n_names, sizeof *labels, compare_differing);
    for (uint32_t i = 0; i < groups->n_names; i++)
        groups->names[i] = labels[i].name;
    for (uint32_t i = 0; i < groups->n_series; i++)
        order[i] = i;
    qsort_r(order, groups->n_series, sizeof *order, compare_series, choosing);
    for (uint32_t i = 1; i < groups->n_series; i++)
        n_groups += compare_series(&order[i - 1], &order[i], choosing) != 0;
    if (n_groups > FG_GROUPS_SINGLE_MAX)
        return FG_OK;
    groups->n_groups = n_groups;
    return name_single(choosing, order, err);
}

enum fg_code fg_groups_single(const struct fg_labels *series, uint32_t n_series,
                              const struct fg_slice *wanted, size_t n_wanted,
                              struct fg_arena *arena, struct fg_groups *ret_groups,
                              struct fg_err *err)
{
    struct fg_groups groups = {.n_series = n_series};
    struct groups_choosing choosing = {.series = series, .groups = &groups, .arena = arena};

    groups.of_series = fg_arena_new(arena, uint32_t, n_series);
    if (groups.of_series == NULL)
        return no_room(err);
    if (n_series > 0 && (find_common(&choosing, wanted, n_wanted, err) != FG_OK ||
                         make_single(&choosing, err) != FG_OK))
        return err->code;
    *ret_groups = groups;
    return FG_OK;
}

/* ---- what a selector says of them ---- */

/* Returns the labels that queries see of a group. items is NULL at the limit of the arena. */
static struct fg_labels labels_of(const struct fg_groups *groups, uint32_t group,
                                  const struct fg_profile_type *type, struct fg_arena *arena)
{
    struct fg_labels labels = {NULL, 0};

    labels.items = fg_arena_new(arena, struct fg_label, groups->common.count + groups->n_names);
    if (labels.items == NULL)
        return labels;
    for (size_t i = 0; i < groups->common.count; i++)
        labels.items[labels.count++] = groups->common.items[i];
    for (uint32_t i = 0; i < groups->n_names; i++)
        labels.items[labels.count++] = (struct fg_label){
            groups->names[i], groups->values[(size_t)group * groups->n_names + i]};
    fg_labels_sort(&labels);
    return fg_labels_with_type(&labels, type, arena);
}

/* True if a group has one value of the label: because it is common to all or divides the groups
 * (an absent label is the empty value), or because it is made of the type. */
static bool is_known(const struct fg_groups *groups, const struct fg_labels *labels,
                     struct fg_slice name)
{
    static const char *const made[] = {FG_LABEL_PROFILE_TYPE, FG_LABEL_NAME,
                                       FG_LABEL_TYPE,         FG_LABEL_UNIT,
                                       FG_LABEL_PERIOD_TYPE,  FG_LABEL_PERIOD_UNIT};
    size_t at;

    for (size_t i = 0; i < FG_COUNT(made); i++)
        if (fg_slice_is(name, made[i]))
            return true;
    return is_taken(groups, name) || fg_labels_find(labels, name, &at) ||
           fg_labels_find(&groups->common, name, &at);
}

static enum fg_groups_answer match(const struct fg_groups *groups, const struct fg_labels *labels,
                                   const struct fg_selector *selector)
{
    enum fg_groups_answer answer = FG_GROUPS_EVERY;

    for (size_t i = 0; i < selector->n_matchers; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];

        if (!is_known(groups, labels, matcher->name))
            answer = FG_GROUPS_OPEN;
        else if (!fg_matcher_matches(matcher, value_of(labels, matcher->name)))
            return FG_GROUPS_NONE;
    }
    return answer;
}

enum fg_code fg_groups_match(const struct fg_groups *groups, const struct fg_profile_type *type,
                             const struct fg_selector *selector, struct fg_arena *arena,
                             enum fg_groups_answer *ret_answers, struct fg_err *err)
{
    for (uint32_t g = 0; g < groups->n_groups; g++) {
        struct fg_arena_mark mark = fg_arena_mark(arena);
        struct fg_labels labels = labels_of(groups, g, type, arena);

        if (labels.items == NULL)
            return no_room(err);
        ret_answers[g] = match(groups, &labels, selector);
        fg_arena_release(arena, mark);
    }
    return FG_OK;
}
