#include "querier/rules/evaluate.h"

#include "common/model/flame.h"
#include "querier/collect.h"
#include "querier/fanout.h"

/* One evaluation. */
struct evaluation {
    const struct qry_rule *rule;
    struct qry_query query; /* of its own: what one rule needs or lacks is not another's */
    struct qry_selection selection;
    int64_t minute_ns;
    size_t series_max;
    struct qry_rule_values *values;
};

/* Profiles with the same labels of group_by. */
struct rule_group {
    struct fg_labels labels;
    int64_t sum;
    uint64_t profiles, series; /* series: of instant types only */
};

struct rule_groups {
    struct rule_group *items;
    size_t n;
};

void qry_rule_values_destroy(struct qry_rule_values *values)
{
    if (values == NULL)
        return;
    fg_arena_destroy(values->arena);
    free(values);
}

/* ---- groups ---- */

static int by_labels(const void *a, const void *b)
{
    return fg_labels_cmp(&((const struct rule_group *)a)->labels,
                         &((const struct rule_group *)b)->labels);
}

static enum fg_code make_groups(struct evaluation *evaluation, size_t n, struct rule_groups *ret,
                                struct fg_err *err)
{
    ret->items = fg_arena_new(evaluation->query.arena, struct rule_group, n);
    ret->n = n;
    return ret->items == NULL ? qry_query_too_large(err) : FG_OK;
}

/* Sums of the minute: the point at its last millisecond gathers the 60 s up to it. */
static enum fg_code sum_groups(struct evaluation *evaluation, char *const *group_by,
                               size_t n_group_by, struct rule_groups *ret_groups,
                               struct fg_err *err)
{
    struct qry_selection last = evaluation->selection;
    struct qry_points *series = NULL;
    size_t n;

    last.start_ns = last.end_ns - (FG_MS_NS - 1);
    if (qry_collect_points(&evaluation->query, &last, FG_MINUTE_NS, group_by, n_group_by, &series,
                           &n, err) != FG_OK ||
        make_groups(evaluation, n, ret_groups, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n; i++) {
        struct rule_group *group = &ret_groups->items[i];

        group->labels = series[i].labels;
        for (size_t p = 0; p < series[i].n; p++) {
            group->sum = fg_value_add(group->sum, series[i].items[p].sum);
            group->profiles += series[i].items[p].count;
        }
    }
    return FG_OK;
}

static enum fg_code add_rows(struct evaluation *evaluation, const struct fg_profile_rows *rows,
                             struct rule_groups *ret_groups, struct fg_err *err)
{
    bool *counted = fg_arena_new(evaluation->query.arena, bool, rows->sets.n);

    if (counted == NULL || make_groups(evaluation, rows->groups.n, ret_groups, err) != FG_OK)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < rows->groups.n; i++)
        ret_groups->items[i].labels = rows->groups.items[i];
    for (size_t i = 0; i < rows->n; i++) {
        const struct fg_profile_row *row = &rows->items[i];
        struct rule_group *group = &ret_groups->items[row->group];

        group->sum = fg_value_add(group->sum, row->value);
        group->profiles++;
        /* The labels of a set decide its group, so one mark for each set serves all groups. */
        group->series += !counted[row->set];
        counted[row->set] = true;
    }
    return FG_OK;
}

/* Sums of the minute and how many series they are of: of types of which each profile is a moment.
 */
static enum fg_code count_groups(struct evaluation *evaluation, struct rule_groups *ret_groups,
                                 struct fg_err *err)
{
    const Settings__V1__RecordingRule *message = evaluation->rule->message;
    struct qry_query *query = &evaluation->query;
    struct fg_profile_rows rows;
    enum fg_code code;

    fg_profile_rows_init(&rows, &(struct fg_profile_rows_config){
                                    .arena = query->arena,
                                    .max_bytes = query->querier->answer_max_bytes,
                                    .keep = FG_ROWS_ALL,
                                    .group_by = (const char *const *)message->group_by,
                                    .n_group_by = message->n_group_by,
                                });
    code = qry_collect_rows(query, &evaluation->selection, &rows, err);
    if (code == FG_OK)
        code = add_rows(evaluation, &rows, ret_groups, err);
    fg_profile_rows_done(&rows);
    return code;
}

static enum fg_code find_groups(struct evaluation *evaluation, struct rule_groups *ret_groups,
                                struct fg_err *err)
{
    const Settings__V1__RecordingRule *message = evaluation->rule->message;
    enum fg_code code =
        evaluation->rule->instant
            ? count_groups(evaluation, ret_groups, err)
            : sum_groups(evaluation, message->group_by, message->n_group_by, ret_groups, err);
    size_t kept = 0;

    if (code != FG_OK)
        return code;
    /* Without profiles a group is that of another time: metadata has the grain of what is stored
     * together. */
    for (size_t i = 0; i < ret_groups->n; i++)
        if (ret_groups->items[i].profiles > 0)
            ret_groups->items[kept++] = ret_groups->items[i];
    ret_groups->n = kept;
    if (ret_groups->n > 0)
        /* By labels, so that every querier keeps the same groups within series_max, minute by
         * minute. */
        qsort(ret_groups->items, ret_groups->n, sizeof *ret_groups->items, by_labels);
    for (size_t i = 0; i < ret_groups->n; i++)
        evaluation->values->profiles += ret_groups->items[i].profiles;
    return FG_OK;
}

/*
 * Turns a sum of a group into its value. Of an instant type it is what the series have at a moment:
 * the mean of their profiles, times their number, so that a shorter interval between profiles does
 * not look like more memory.
 */
static double value_of(const struct evaluation *evaluation, const struct rule_group *group,
                       int64_t sum)
{
    if (!evaluation->rule->instant || group->profiles == 0)
        return (double)sum;
    return (double)sum * (double)group->series / (double)group->profiles;
}

/* ---- series ---- */

static enum fg_code add_series(struct evaluation *evaluation, const struct rule_group *group,
                               struct fg_slice function, double value, double whole,
                               struct fg_err *err)
{
    struct qry_rule_values *values = evaluation->values;
    struct qry_rule_series *series = &values->items[values->n];

    *series = (struct qry_rule_series){
        .labels = fg_labels_copy(&group->labels, values->arena), .value = value, .whole = whole};
    if (function.ptr != NULL)
        series->function = fg_arena_copy(values->arena, function);
    if (series->labels.items == NULL || (function.ptr != NULL && series->function.ptr == NULL))
        return qry_query_too_large(err);
    values->n++;
    return FG_OK;
}

static void add_rest(struct qry_rule_values *values, size_t n, double value, double whole)
{
    values->n_rest += n;
    values->rest.value += value;
    values->rest.whole += whole;
}

static enum fg_code give_sums(struct evaluation *evaluation, const struct rule_groups *groups,
                              struct fg_err *err)
{
    double whole = 0;

    for (size_t i = 0; i < groups->n; i++)
        whole += value_of(evaluation, &groups->items[i], groups->items[i].sum);
    for (size_t i = 0; i < groups->n; i++) {
        const struct rule_group *group = &groups->items[i];
        double value = value_of(evaluation, group, group->sum);

        if (i >= evaluation->series_max) {
            add_rest(evaluation->values, 1, value, 0);
            evaluation->values->rest.whole = whole;
        } else if (add_series(evaluation, group, (struct fg_slice){0}, value, whole, err) !=
                   FG_OK) {
            return err->code;
        }
    }
    return FG_OK;
}

/* ---- functions ---- */

/* Merges the stacks of a group, of the whole selection if it is NULL. tree: empty before. */
static enum fg_code read_tree(struct evaluation *evaluation, const struct rule_group *group,
                              struct fg_tree *tree, struct fg_err *err)
{
    static const struct qry_stack_filter all;
    const Settings__V1__RecordingRule *message = evaluation->rule->message;
    /* Matchers that are added are without regular expressions: the selection keeps those of its
     * own. */
    struct qry_selection selection = evaluation->selection;

    for (size_t i = 0; group != NULL && i < message->n_group_by; i++)
        if (fg_selector_add(&selection.selector, evaluation->query.arena, FG_MATCH_EQ,
                            fg_cstr(message->group_by[i]),
                            fg_labels_get(&group->labels, message->group_by[i]), err) != FG_OK)
            return err->code;
    return qry_collect_tree(&evaluation->query, &selection, &all, true, tree, err);
}

/* Sums what the rule's functions have in a tree, and what all have. A stack counts once. */
static enum fg_code sum_functions(struct evaluation *evaluation, const struct fg_tree *tree,
                                  int64_t *ret_sum, int64_t *ret_whole, struct fg_err *err)
{
    const struct qry_rule *rule = evaluation->rule;
    uint32_t n_locations = 0, n_matched = 0;
    int64_t sum = 0, whole = tree->root_self;

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        n_locations = FG_MAX(n_locations, tree->locations[i] + 1);
    /* Of locations 0: not looked at, 1: not meant, 2: meant. Of nodes: below one that is meant. */
    struct fg_arena_mark mark = fg_arena_mark(evaluation->query.arena);
    uint8_t *meant = fg_arena_new(evaluation->query.arena, uint8_t, n_locations);
    bool *below = fg_arena_new(evaluation->query.arena, bool, tree->n_nodes);
    if (meant == NULL || below == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint8_t *known = &meant[tree->locations[i]];
        uint32_t parent = tree->parents[i];

        /* A location is on many stacks: each name is matched once, however large the expression.
         * Even so a name may take a millisecond, and nobody may wait for the values any more. */
        if (*known == 0 && ++n_matched % FG_SELECTOR_ASK_EVERY == 0 &&
            qry_query_check(&evaluation->query, err) != FG_OK)
            return err->code;
        if (*known == 0)
            *known = qry_rule_means(rule, fg_tree_name(tree, i)) ? 2 : 1;
        /* Parents come before their children, so below[parent] is known. */
        below[i] = *known == 2 || (!rule->self && parent != FG_TREE_ROOT && below[parent]);
        whole = fg_value_add(whole, tree->self[i]);
        if (below[i])
            sum = fg_value_add(sum, tree->self[i]);
    }
    fg_arena_release(evaluation->query.arena, mark);
    *ret_sum = sum;
    *ret_whole = whole;
    return FG_OK;
}

static int by_self(const void *left, const void *right)
{
    const struct fg_top_row *a = left, *b = right;

    if (a->self != b->self)
        return a->self > b->self ? -1 : 1;
    return fg_slice_cmp(a->name, b->name);
}

static enum fg_code add_rows_of(struct evaluation *evaluation, const struct rule_group *group,
                                const struct fg_top_row *rows, size_t n, int64_t whole,
                                struct fg_err *err)
{
    const struct qry_rule *rule = evaluation->rule;

    for (size_t i = 0; i < FG_MIN(n, rule->n_top); i++) {
        int64_t sum = rule->self ? rows[i].self : rows[i].total;

        if (sum == 0)
            continue;
        if (evaluation->values->n >= evaluation->series_max) {
            evaluation->values->n_rest++;
            continue;
        }
        if (add_series(evaluation, group, rows[i].name, value_of(evaluation, group, sum),
                       value_of(evaluation, group, whole), err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code give_greatest(struct evaluation *evaluation, const struct rule_group *group,
                                  const struct fg_tree *tree, struct fg_err *err)
{
    struct fg_top_row *rows;
    int64_t whole = tree->root_self;
    enum fg_code code;
    size_t n;

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        whole = fg_value_add(whole, tree->self[i]);
    rows = fg_flame_top(tree, &n);
    /* They come sorted by total. */
    if (evaluation->rule->self && n > 0)
        qsort(rows, n, sizeof *rows, by_self);
    code = add_rows_of(evaluation, group, rows, n, whole, err);
    free(rows);
    return code;
}

/* What functions have, in sums of profiles. */
struct function_sums {
    int64_t sum, whole;
};

/* Gives the series of one group. done: gets what its functions have added. */
static enum fg_code give_group(struct evaluation *evaluation, const struct rule_group *group,
                               struct function_sums *done, struct fg_err *err)
{
    struct fg_tree tree;
    int64_t sum = 0, whole = 0;
    enum fg_code code;

    fg_tree_init(&tree);
    code = read_tree(evaluation, group, &tree, err);
    if (code == FG_OK && evaluation->rule->kind == QRY_RULE_TOP) {
        code = give_greatest(evaluation, group, &tree, err);
    } else if (code == FG_OK) {
        code = sum_functions(evaluation, &tree, &sum, &whole, err);
        if (code == FG_OK)
            code = add_series(evaluation, group, (struct fg_slice){0},
                              value_of(evaluation, group, sum), value_of(evaluation, group, whole),
                              err);
        if (code == FG_OK) {
            done->sum = fg_value_add(done->sum, sum);
            done->whole = fg_value_add(done->whole, whole);
        }
    }
    fg_tree_done(&tree);
    return code;
}

/* The rest is what all have without what was done: one question, however many groups it is of. */
static enum fg_code give_rest(struct evaluation *evaluation, const struct rule_groups *groups,
                              size_t from, const struct function_sums *done, struct fg_err *err)
{
    struct rule_group rest = {0};
    struct fg_tree tree;
    int64_t sum = 0, whole = 0;
    enum fg_code code;

    for (size_t i = from; i < groups->n; i++) {
        rest.profiles += groups->items[i].profiles;
        rest.series += groups->items[i].series;
    }
    fg_tree_init(&tree);
    code = read_tree(evaluation, NULL, &tree, err);
    if (code == FG_OK)
        code = sum_functions(evaluation, &tree, &sum, &whole, err);
    fg_tree_done(&tree);
    if (code == FG_OK)
        add_rest(evaluation->values, groups->n - from,
                 value_of(evaluation, &rest, fg_value_sub(sum, done->sum)),
                 value_of(evaluation, &rest, fg_value_sub(whole, done->whole)));
    return code;
}

static enum fg_code give_functions(struct evaluation *evaluation, const struct rule_groups *groups,
                                   struct fg_err *err)
{
    size_t n = FG_MIN(groups->n, (size_t)RULE_GROUPS_MAX);
    struct function_sums done = {0};

    n = FG_MIN(n, evaluation->series_max);
    for (size_t i = 0; i < n; i++)
        if (give_group(evaluation, &groups->items[i], &done, err) != FG_OK)
            return err->code;
    if (n == groups->n)
        return FG_OK;
    if (evaluation->rule->kind == QRY_RULE_FUNCTIONS)
        return give_rest(evaluation, groups, n, &done, err);
    /* Without their stacks nobody knows the greatest functions of these groups: they only count. */
    evaluation->values->n_rest += groups->n - n;
    return FG_OK;
}

/* ---- a rule ---- */

static void begin_query(struct evaluation *evaluation, struct qry_query *parent)
{
    /* Without a request it has no stale copies and no missing parts, and fails instead. */
    evaluation->query = (struct qry_query){
        .parent = parent,
        .querier = parent->querier,
        .tenants = parent->tenants,
        .flow = parent->flow,
        .start_mono_ns = fg_mono_ns(parent->querier->clock),
        .deadline_mono_ns = parent->deadline_mono_ns,
        .bytes_max = parent->bytes_max,
        .quota = parent->quota,
        .arena = fg_arena_create(parent->querier->answer_max_bytes),
    };
    fg_buf_init(&evaluation->query.missing, MISSING_MAX_BYTES);
    evaluation->values = fg_new(struct qry_rule_values);
    evaluation->values->arena = fg_arena_create(parent->querier->answer_max_bytes);
}

static void end_query(struct evaluation *evaluation, struct qry_query *parent)
{
    struct qry_query *query = &evaluation->query;

    parent->planned_bytes += query->planned_bytes;
    parent->profiles += query->profiles;
    parent->bytes += query->bytes;
    parent->series += query->series;
    parent->objects += query->objects;
    parent->requests += query->requests;
    parent->cache_hits += query->cache_hits;
    parent->disk_hits += query->disk_hits;
    parent->rollups += query->rollups;
    qry_selection_done(&evaluation->selection);
    qry_fanout_end(query);
    parent->cpu_ns += query->cpu_ns; /* after the end of its helpers */
    fg_buf_done(&query->missing);
    fg_arena_destroy(query->arena);
    qry_rule_values_destroy(evaluation->values);
}

static enum fg_code select_minute(struct evaluation *evaluation, struct fg_err *err)
{
    const struct qry_rule *rule = evaluation->rule;

    if (qry_selection_profiles(&evaluation->query, &evaluation->selection, rule->type_id,
                               rule->selector, err) != FG_OK)
        return err->code;
    evaluation->selection.start_ns = evaluation->minute_ns;
    evaluation->selection.end_ns = evaluation->minute_ns + FG_MINUTE_NS - 1;
    return FG_OK;
}

static enum fg_code check_complete(const struct evaluation *evaluation, struct fg_err *err)
{
    const struct qry_query *query = &evaluation->query;

    if (query->incomplete)
        return fg_fail(err, FG_E_UNAVAILABLE, "incomplete: %.*s",
                       FG_S(fg_buf_slice(&query->missing)));
    if (query->saturated)
        return fg_fail(err, FG_E_LIMIT, "a sum of its profiles does not fit into 64 bits");
    return FG_OK;
}

static enum fg_code evaluate(struct evaluation *evaluation, struct fg_err *err)
{
    const struct qry_rule *rule = evaluation->rule;
    struct qry_rule_values *values = evaluation->values;
    struct rule_groups groups = {0};
    size_t each, most = evaluation->series_max;
    enum fg_code code;

    if (select_minute(evaluation, err) != FG_OK)
        return err->code;
    if (find_groups(evaluation, &groups, err) != FG_OK)
        return err->code;
    /* The division keeps the product from overflowing. */
    each = FG_MAX(rule->n_top, (size_t)1);
    most = groups.n > most / each ? most : groups.n * each;
    values->items = fg_arena_new(values->arena, struct qry_rule_series, most);
    if (values->items == NULL)
        return qry_query_too_large(err);
    code = rule->kind == QRY_RULE_ALL ? give_sums(evaluation, &groups, err)
                                      : give_functions(evaluation, &groups, err);
    return code == FG_OK ? check_complete(evaluation, err) : code;
}

enum fg_code qry_rule_evaluate(struct qry_query *query, const struct qry_rule *rule,
                               int64_t minute_ns, size_t series_max,
                               struct qry_rule_values **ret_values, struct fg_err *err)
{
    struct evaluation evaluation = {.rule = rule, .minute_ns = minute_ns, .series_max = series_max};
    enum fg_code code;

    begin_query(&evaluation, query);
    code = evaluate(&evaluation, err);
    if (code == FG_OK) {
        *ret_values = fg_take(evaluation.values);
        (*ret_values)->at_wall_ns = fg_wall_ns(query->querier->clock);
        (*ret_values)->took_ns = fg_mono_ns(query->querier->clock) - evaluation.query.start_mono_ns;
    }
    end_query(&evaluation, query);
    return code;
}

enum fg_code qry_rule_count(struct qry_query *query, const struct qry_rule *rule, int64_t minute_ns,
                            uint64_t *ret_profiles, struct fg_err *err)
{
    struct evaluation evaluation = {.rule = rule, .minute_ns = minute_ns};
    struct rule_groups groups = {0};
    uint64_t profiles = 0;
    enum fg_code code;

    begin_query(&evaluation, query);
    code = select_minute(&evaluation, err);
    if (code == FG_OK)
        code = sum_groups(&evaluation, NULL, 0, &groups, err);
    if (code == FG_OK)
        code = check_complete(&evaluation, err);
    for (size_t i = 0; i < groups.n; i++)
        profiles += groups.items[i].profiles;
    if (code == FG_OK)
        *ret_profiles = profiles;
    end_query(&evaluation, query);
    return code;
}
