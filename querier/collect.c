#include "querier/collect.h"

#include "querier/coverage.h"
#include "querier/fanout.h"

/* --- SELECT --- */

struct tree_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
    const struct qry_stack_filter *stacks;
    bool names_only;
};

static enum fg_code take_tree(struct qry_query *query, const struct fg_call *call, void *arg,
                              struct fg_err *err)
{
    struct fg_tree *into = arg, part;

    fg_tree_init(&part);
    enum fg_code code = qry_fanout_take_tree(query, call, &part, err);
    if (code == FG_OK && into->n_nodes == 0) {
        /* The first reply becomes the result as it is: with one ingester nothing is merged. */
        struct fg_tree empty = *into;

        fg_tree_add(&part, FG_TREE_ROOT, empty.root_self);
        *into = part;
        part = empty;
    } else if (code == FG_OK) {
        fg_tree_merge(into, &part);
    }
    fg_tree_done(&part);
    return code;
}

static enum fg_code read_tree(struct qry_query *query, struct qry_fanout *base, struct fg_err *err)
{
    const struct tree_fanout *fanout = fg_container(base, struct tree_fanout, base);

    return qry_blocks_tree(query, fanout->selection, fanout->stacks, fanout->names_only, base->into,
                           err);
}

/* Restarts empty what was merged so far: a fresh snapshot moves profiles from replies to blocks,
 * and both together would count them twice. */
static void restart_tree(struct qry_fanout *base)
{
    fg_tree_done(base->into);
    fg_tree_init(base->into);
}

enum fg_code qry_collect_tree(struct qry_query *query, const struct qry_selection *selection,
                              const struct qry_stack_filter *stacks, bool names_only,
                              struct fg_tree *into, struct fg_err *err)
{
    Fg__Inner__SelectHead head;
    Fg__Inner__Selection inner;
    struct tree_fanout fanout = {
        .base = {.method = FG_RPC_SELECT,
                 .generation = &inner.generation,
                 .take = take_tree,
                 .read = read_tree,
                 .restart = restart_tree,
                 .into = into},
        .selection = selection,
        .stacks = stacks,
        .names_only = names_only,
    };

    /* Rollups have names of functions only, so the range must still have its profiles. */
    if (qry_fanout_begin(query, err) != FG_OK ||
        qry_blocks_need_profiles(query, selection, "lines and addresses", err) != FG_OK ||
        qry_fanout_select_head(query, selection, stacks, names_only, &inner, &head, err) != FG_OK)
        return err->code;
    fanout.base.head = qry_fanout_head(&head.base, &inner, selection, inner.start_ns);
    if (qry_fanout_run(query, &fanout.base, err) != FG_OK)
        return err->code;
    qry_query_look_at_values(query, into->self, into->n_nodes);
    return FG_OK;
}

/* --- SELECT, divided by a label --- */

struct groups_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
    const char *label;
};

static enum fg_code take_groups(struct qry_query *query, const struct fg_call *call, void *arg,
                                struct fg_err *err)
{
    const Fg__Inner__SelectReply *reply;

    if (qry_fanout_take_select(query, call, &reply, err) != FG_OK)
        return err->code;
    /* A program that does not know of groups gives the sum of all. */
    if (!reply->grouped)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "an ingester of an older version cannot divide profiles by a label");
    if (qry_groups_take(arg, call->reply_payload, err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    return FG_OK;
}

static enum fg_code read_groups(struct qry_query *query, struct qry_fanout *base,
                                struct fg_err *err)
{
    const struct groups_fanout *fanout = fg_container(base, struct groups_fanout, base);

    return qry_blocks_groups(query, fanout->selection, fanout->label, base->into, err);
}

static void restart_groups(struct qry_fanout *base)
{
    qry_groups_clear(base->into);
}

enum fg_code qry_collect_groups(struct qry_query *query, const struct qry_selection *selection,
                                const char *label, struct qry_groups *into, struct fg_err *err)
{
    static const struct qry_stack_filter all;
    Fg__Inner__SelectHead head;
    Fg__Inner__Selection inner;
    struct groups_fanout fanout = {
        .base = {.method = FG_RPC_SELECT,
                 .generation = &inner.generation,
                 .take = take_groups,
                 .read = read_groups,
                 .restart = restart_groups,
                 .into = into},
        .selection = selection,
        .label = label,
    };

    if (qry_fanout_begin(query, err) != FG_OK ||
        qry_blocks_need_profiles(query, selection, "instances", err) != FG_OK ||
        qry_fanout_select_head(query, selection, &all, true, &inner, &head, err) != FG_OK)
        return err->code;
    head.group_by = fg_arena_text(query->arena, fg_cstr(label));
    if (head.group_by == NULL)
        return qry_query_too_large(err);
    fanout.base.head = qry_fanout_head(&head.base, &inner, selection, inner.start_ns);
    return qry_fanout_run(query, &fanout.base, err);
}

/* --- SELECT, as numbers of profiles --- */

struct counts_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
};

static enum fg_code take_counts(struct qry_query *query, const struct fg_call *call, void *arg,
                                struct fg_err *err)
{
    const Fg__Inner__SelectReply *reply;
    struct fg_tree part;
    enum fg_code code;

    if (qry_fanout_take_select(query, call, &reply, err) != FG_OK)
        return err->code;
    if (!reply->counted)
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "an ingester of an older version cannot count the profiles of functions");
    if (call->reply_payload.len == 0)
        return FG_OK;
    fg_tree_init(&part);
    code = fg_tree_decode(&part, call->reply_payload, err);
    if (code == FG_OK)
        fg_tree_merge(arg, &part);
    fg_tree_done(&part);
    return code == FG_OK ? FG_OK : fg_wrap(err, "response of an ingester");
}

static enum fg_code read_counts(struct qry_query *query, struct qry_fanout *base,
                                struct fg_err *err)
{
    const struct counts_fanout *fanout = fg_container(base, struct counts_fanout, base);

    return qry_blocks_function_counts(query, fanout->selection, base->into, err);
}

enum fg_code qry_collect_function_counts(struct qry_query *query,
                                         const struct qry_selection *selection,
                                         struct fg_tree *into, struct fg_err *err)
{
    static const struct qry_stack_filter all;
    Fg__Inner__SelectHead head;
    Fg__Inner__Selection inner;
    struct counts_fanout fanout = {
        .base = {.method = FG_RPC_SELECT,
                 .generation = &inner.generation,
                 .take = take_counts,
                 .read = read_counts,
                 .restart = restart_tree,
                 .into = into},
        .selection = selection,
    };

    if (qry_fanout_begin(query, err) != FG_OK ||
        qry_blocks_need_profiles(query, selection, "numbers of profiles", err) != FG_OK ||
        qry_fanout_select_head(query, selection, &all, true, &inner, &head, err) != FG_OK)
        return err->code;
    head.count_profiles = true;
    fanout.base.head = qry_fanout_head(&head.base, &inner, selection, inner.start_ns);
    return qry_fanout_run(query, &fanout.base, err);
}

/* --- SERIES --- */

struct series_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
    const char *const *names;
    size_t n_names;
};

static enum fg_code read_sets(struct qry_query *query, struct fg_slice payload,
                              struct qry_label_sets *into, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(payload);
    /* At least one byte for each set: a count that the payload cannot hold is refused before memory
     * is allocated. */
    uint64_t n = fg_cur_count(&cur, 1);

    for (uint64_t i = 0; i < n; i++) {
        struct fg_slice encoded = fg_cur_lenbytes(&cur);
        struct fg_labels labels;

        if (cur.bad)
            break;
        if (fg_labels_decode(encoded, query->arena, &labels, err) != FG_OK ||
            qry_label_sets_add(into, &labels, query->arena, err) != FG_OK)
            return err->code;
    }
    if (!fg_cur_end(&cur))
        return fg_fail(err, FG_E_CORRUPT, "label sets cut short");
    return FG_OK;
}

/* Counts what the ingester did, and copies the payload of its response into the query's memory:
 * labels borrow from it, and the call frees the original. */
static enum fg_code keep_payload(struct qry_query *query, const struct fg_call *call,
                                 const Fg__Inner__Stats *stats, struct fg_slice *payload,
                                 struct fg_err *err)
{
    *payload = fg_arena_copy(query->arena, call->reply_payload);
    if (qry_fanout_count(query, stats, err) != FG_OK)
        return err->code;
    if (payload->ptr == NULL && call->reply_payload.len > 0)
        return qry_query_too_large(err);
    return FG_OK;
}

static enum fg_code take_series(struct qry_query *query, const struct fg_call *call, void *arg,
                                struct fg_err *err)
{
    struct fg_slice payload;
    ProtobufCMessage *head;

    if (fg_pb_read(call->reply_head, &fg__inner__series_reply__descriptor, query->arena, &head,
                   err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    if (keep_payload(query, call, ((Fg__Inner__SeriesReply *)head)->stats, &payload, err) != FG_OK)
        return err->code;
    if (payload.len > 0 && read_sets(query, payload, arg, err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    return FG_OK;
}

static enum fg_code read_series(struct qry_query *query, struct qry_fanout *base,
                                struct fg_err *err)
{
    const struct series_fanout *fanout = fg_container(base, struct series_fanout, base);

    return qry_blocks_series(query, fanout->selection, fanout->names, fanout->n_names, base->into,
                             err);
}

static void restart_series(struct qry_fanout *base)
{
    qry_label_sets_done(base->into);
    qry_label_sets_init(base->into);
}

enum fg_code qry_collect_series(struct qry_query *query, const struct qry_selection *selection,
                                const char *const *names, size_t n_names,
                                struct qry_label_sets *into, struct fg_err *err)
{
    Fg__Inner__SeriesHead head;
    Fg__Inner__Selection inner;
    struct series_fanout fanout = {
        .base = {.method = FG_RPC_SERIES,
                 .generation = &inner.generation,
                 .take = take_series,
                 .read = read_series,
                 .restart = restart_series,
                 .into = into},
        .selection = selection,
        .names = names,
        .n_names = n_names,
    };

    fg__inner__series_head__init(&head);
    if (qry_fanout_selection(query, selection, &inner, err) != FG_OK)
        return err->code;
    fanout.base.head = qry_fanout_head(&head.base, &inner, selection, inner.start_ns);
    head.selection = &inner;
    head.label_names = qry_fanout_texts(query, names, n_names);
    head.n_label_names = n_names;
    if (head.label_names == NULL)
        return qry_query_too_large(err);
    if (qry_fanout_run(query, &fanout.base, err) != FG_OK)
        return err->code;
    /* Replies come in any order, and the response must not depend on it. */
    qry_label_sets_sort(into);
    return FG_OK;
}

/* --- SERIES as label indexes --- */

struct labels_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
};

/* Makes an index of label sets, which an ingester of an earlier version answers with. */
static enum fg_code index_sets(struct fg_slice payload, const char *label, struct fg_arena *arena,
                               struct fg_label_index *ret_index, struct fg_err *err)
{
    struct fg_label_indexing indexing;
    struct fg_cur cur = fg_cur(payload);
    uint64_t n = payload.len == 0 ? 0 : fg_cur_count(&cur, 1);

    fg_label_indexing_init(&indexing, label, arena);
    for (uint64_t i = 0; i < n; i++) {
        struct fg_slice encoded = fg_cur_lenbytes(&cur);
        struct fg_labels labels;

        if (cur.bad)
            break;
        if (fg_labels_decode(encoded, arena, &labels, err) != FG_OK)
            return err->code;
        if (!fg_label_indexing_set(&indexing, &labels))
            return qry_query_too_large(err);
    }
    if (!fg_cur_end(&cur))
        return fg_fail(err, FG_E_CORRUPT, "label sets cut short");
    return fg_label_indexing_end(&indexing, ret_index, err);
}

static enum fg_code take_labels(struct qry_query *query, const struct fg_call *call, void *arg,
                                struct fg_err *err)
{
    struct qry_cardinality *into = arg;
    fg_auto(fg_arena) *arena = fg_arena_create(query->querier->answer_max_bytes);
    const Fg__Inner__SeriesReply *reply;
    struct fg_label_index index;
    ProtobufCMessage *head;
    enum fg_code code;

    if (fg_pb_read(call->reply_head, &fg__inner__series_reply__descriptor, query->arena, &head,
                   err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    reply = (const Fg__Inner__SeriesReply *)head;
    if (qry_fanout_count(query, reply->stats, err) != FG_OK)
        return err->code;
    into->series_cut = into->series_cut || reply->series_left > 0;
    if (reply->index)
        code = fg_label_index_decode(call->reply_payload, arena, &index, err);
    else
        code = index_sets(call->reply_payload, into->config.label, arena, &index, err);
    if (code == FG_E_LIMIT) {
        /* Not one series of it fits: said in the response, like any that is left out. */
        into->series_cut = true;
        return FG_OK;
    }
    if (code != FG_OK)
        return fg_wrap(err, "response of an ingester");
    qry_cardinality_add(into, &index);
    return FG_OK;
}

static enum fg_code read_labels(struct qry_query *query, struct qry_fanout *base,
                                struct fg_err *err)
{
    const struct labels_fanout *fanout = fg_container(base, struct labels_fanout, base);

    return qry_blocks_labels(query, fanout->selection, base->into, err);
}

static void restart_labels(struct qry_fanout *base)
{
    qry_cardinality_restart(base->into);
}

enum fg_code qry_collect_labels(struct qry_query *query, const struct qry_selection *selection,
                                struct qry_cardinality *into, struct fg_err *err)
{
    Fg__Inner__SeriesHead head;
    Fg__Inner__SeriesIndex index;
    Fg__Inner__Selection inner;
    struct labels_fanout fanout = {
        .base = {.method = FG_RPC_SERIES,
                 .generation = &inner.generation,
                 .take = take_labels,
                 .read = read_labels,
                 .restart = restart_labels,
                 .into = into},
        .selection = selection,
    };
    const char *label = into->config.label;

    fg__inner__series_head__init(&head);
    fg__inner__series_index__init(&index);
    if (qry_fanout_selection(query, selection, &inner, err) != FG_OK)
        return err->code;
    fanout.base.head = qry_fanout_head(&head.base, &inner, selection, inner.start_ns);
    head.selection = &inner;
    head.index = &index;
    index.names_only = into->config.names_only;
    if (label != NULL)
        index.label = fg_arena_text(query->arena, fg_cstr(label));
    if (index.label == NULL)
        return qry_query_too_large(err);
    return qry_fanout_run(query, &fanout.base, err);
}

/* --- POINTS --- */

struct points_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
    int64_t step_ns;
    const char *const *group_by;
    size_t n_group_by;
    struct qry_value_totals *values; /* blocks add to these, not to `into`; NULL: to `into` */
};

static enum fg_code decode_points(struct fg_cur *cur, struct fg_arena *arena,
                                  struct qry_points *series, struct fg_err *err)
{
    /* A point has at least three bytes: step, sum and count. */
    uint64_t n = fg_cur_count(cur, 3), k = 0;

    series->items = fg_arena_new(arena, struct qry_point, n);
    if (series->items == NULL)
        return qry_query_too_large(err);
    for (uint64_t i = 0; i < n && !cur->bad; i++) {
        uint64_t step = fg_cur_varint(cur);

        /* From another process: k must not wrap around, since points have to ascend. */
        if (step > INT64_MAX - k)
            fg_cur_fail(cur);
        k += step;
        series->items[i].k = (int64_t)k;
        series->items[i].sum = fg_cur_zigzag(cur);
        series->items[i].count = fg_cur_varint(cur);
    }
    series->n = n;
    return FG_OK;
}

static enum fg_code decode_series(struct qry_query *query, struct fg_slice payload,
                                  struct qry_points_list *list, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(payload);
    /* A series has at least two bytes: the length of its labels and its number of points. */
    uint64_t n = fg_cur_count(&cur, 2);

    for (uint64_t i = 0; i < n; i++) {
        struct fg_slice encoded = fg_cur_lenbytes(&cur);
        struct qry_points series = {0};

        if (cur.bad)
            break;
        if (fg_labels_decode(encoded, query->arena, &series.labels, err) != FG_OK ||
            decode_points(&cur, query->arena, &series, err) != FG_OK)
            return err->code;
        if (cur.bad)
            break;
        if (qry_points_list_add(list, &series, query->arena, err) != FG_OK)
            return err->code;
    }
    if (!fg_cur_end(&cur))
        return fg_fail(err, FG_E_CORRUPT, "points cut short");
    return FG_OK;
}

static enum fg_code take_points(struct qry_query *query, const struct fg_call *call, void *arg,
                                struct fg_err *err)
{
    struct fg_slice payload;
    ProtobufCMessage *head;

    if (fg_pb_read(call->reply_head, &fg__inner__points_reply__descriptor, query->arena, &head,
                   err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    if (keep_payload(query, call, ((Fg__Inner__PointsReply *)head)->stats, &payload, err) != FG_OK)
        return err->code;
    if (payload.len > 0 && decode_series(query, payload, arg, err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    return FG_OK;
}

static enum fg_code read_points(struct qry_query *query, struct qry_fanout *base,
                                struct fg_err *err)
{
    const struct points_fanout *fanout = fg_container(base, struct points_fanout, base);

    if (fanout->values != NULL)
        return qry_blocks_value_totals(query, fanout->selection, fanout->step_ns,
                                       fanout->group_by[0], fanout->values, err);
    return qry_blocks_points(query, fanout->selection, fanout->step_ns, fanout->group_by,
                             fanout->n_group_by, base->into, err);
}

static void restart_points(struct qry_fanout *base)
{
    const struct points_fanout *fanout = fg_container(base, struct points_fanout, base);

    if (fanout->values != NULL)
        qry_value_totals_clear(fanout->values);
    qry_points_list_done(base->into);
    qry_points_list_init(base->into);
}

/* Moves the start of a selection whose range was cut to the first grid point after the cut: the
 * grid stays that of the start that the client asked for. Returns how many points are before it. */
static int64_t keep_grid(const struct qry_selection *selection, int64_t step_ns,
                         struct qry_selection *ret_kept)
{
    /* The first step that ends at the cut or after it. */
    int64_t n_cut = (int64_t)fg_time_grid(0, step_ns, selection->cut_ns), skipped_ns;

    *ret_kept = *selection;
    if (__builtin_mul_overflow(n_cut, step_ns, &skipped_ns))
        ret_kept->start_ns = INT64_MAX;
    else
        ret_kept->start_ns = fg_time_add(selection->start_ns - selection->cut_ns, skipped_ns);
    return n_cut;
}

static void look_at_points(struct qry_query *query, const struct qry_points *series, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < series[i].n; p++)
            qry_query_look_at_sum(query, series[i].items[p].sum);
}

/* values: what blocks have is added to these. NULL: it is among the series, as what ingesters have
 * always is. */
static enum fg_code collect_points(struct qry_query *query, const struct qry_selection *selection,
                                   int64_t step_ns, char *const *group_by, size_t n_group_by,
                                   struct qry_value_totals *values, struct qry_points **ret_series,
                                   size_t *ret_n, struct fg_err *err)
{
    Fg__Inner__PointsHead head;
    Fg__Inner__Selection inner;
    struct qry_points_list list;
    struct qry_selection kept;
    int64_t n_cut = keep_grid(selection, step_ns, &kept);
    struct points_fanout fanout = {
        .base = {.method = FG_RPC_POINTS,
                 .generation = &inner.generation,
                 .take = take_points,
                 .read = read_points,
                 .restart = restart_points,
                 .into = &list},
        .selection = &kept,
        .step_ns = step_ns,
        .group_by = (const char *const *)group_by,
        .n_group_by = n_group_by,
        .values = values,
    };

    *ret_series = NULL;
    *ret_n = 0;
    if (kept.start_ns > kept.end_ns) /* no grid point is in what is left */
        return FG_OK;
    fg__inner__points_head__init(&head);
    if (qry_fanout_selection(query, &kept, &inner, err) != FG_OK)
        return err->code;
    fanout.base.head =
        qry_fanout_head(&head.base, &inner, &kept, qry_points_from_ns(&kept, step_ns));
    head.selection = &inner;
    head.profile_type = fg_arena_text(query->arena, fg_cstr(selection->type_text));
    head.step_ns = step_ns;
    head.group_by = qry_fanout_texts(query, fanout.group_by, n_group_by);
    head.n_group_by = n_group_by;
    if (head.profile_type == NULL || head.group_by == NULL)
        return qry_query_too_large(err);
    qry_points_list_init(&list);
    enum fg_code code = qry_fanout_run(query, &fanout.base, err);
    for (size_t i = 0; code == FG_OK && i < list.n; i++)
        for (size_t p = 0; p < list.items[i].n; p++)
            list.items[i].items[p].k =
                fg_time_add(list.items[i].items[p].k, n_cut); /* numbers of the client's grid */
    if (code == FG_OK) {
        look_at_points(query, list.items, list.n);
        *ret_series = list.items;
        *ret_n = list.n;
    }
    qry_points_list_done(&list);
    return code;
}

enum fg_code qry_collect_points(struct qry_query *query, const struct qry_selection *selection,
                                int64_t step_ns, char *const *group_by, size_t n_group_by,
                                struct qry_points **ret_series, size_t *ret_n, struct fg_err *err)
{
    return collect_points(query, selection, step_ns, group_by, n_group_by, NULL, ret_series, ret_n,
                          err);
}

/* Makes a selection whose one grid point, at its end, has all of the range. Returns false if the
 * range exceeds 64 bits. */
static bool whole_range(const struct qry_selection *selection, struct qry_selection *ret_whole,
                        int64_t *ret_step_ns)
{
    int64_t step_ns;

    /* Both ends are inclusive, and whole milliseconds. */
    if (__builtin_sub_overflow(selection->end_ns, selection->start_ns, &step_ns) ||
        __builtin_add_overflow(step_ns, FG_MS_NS, &step_ns))
        return false;
    *ret_whole = *selection;
    ret_whole->start_ns = ret_whole->end_ns;
    ret_whole->cut_ns = 0;
    *ret_step_ns = step_ns;
    return true;
}

static enum fg_code range_too_long(struct fg_err *err)
{
    return fg_fail(err, FG_E_INVALID, "the time range is too long for totals");
}

enum fg_code qry_collect_totals(struct qry_query *query, const struct qry_selection *selection,
                                char *const *group_by, size_t n_group_by,
                                struct qry_points **ret_series, size_t *ret_n, struct fg_err *err)
{
    struct qry_selection whole;
    int64_t step_ns;

    if (!whole_range(selection, &whole, &step_ns))
        return range_too_long(err);
    return qry_collect_points(query, &whole, step_ns, group_by, n_group_by, ret_series, ret_n, err);
}

enum fg_code qry_collect_value_totals(struct qry_query *query,
                                      const struct qry_selection *selection, const char *label,
                                      struct qry_value_totals *into, struct fg_err *err)
{
    char *group_by[] = {fg_arena_text(query->arena, fg_cstr(label))};
    bool of_type = fg_label_is_of_type(fg_cstr(label));
    struct qry_selection whole;
    struct qry_points *series;
    int64_t step_ns;
    size_t n;

    if (group_by[0] == NULL)
        return qry_query_too_large(err);
    if (!whole_range(selection, &whole, &step_ns))
        return range_too_long(err);
    if (collect_points(query, &whole, step_ns, group_by, 1, of_type ? NULL : into, &series, &n,
                       err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < series[i].n; p++) {
            into->total = fg_value_add(into->total, series[i].items[p].sum);
            qry_value_totals_add(into, fg_labels_get(&series[i].labels, label),
                                 series[i].items[p].sum);
        }
    qry_query_look_at_sum(query, into->total);
    for (size_t i = 0; i < into->n; i++)
        qry_query_look_at_sum(query, into->totals[i]);
    return FG_OK;
}

enum fg_code qry_collect_rates(struct qry_query *query, const struct qry_selection *selection,
                               int64_t step_ns, char *const *group_by, size_t n_group_by,
                               struct qry_points **ret_series, size_t *ret_n, struct fg_err *err)
{
    struct qry_selection fine = *selection;
    int64_t length_ns = fg_value_sub(selection->end_ns, selection->start_ns), parts = 1;

    /* A range that limits have cut begins within a step of the grid, and parts of that step would
     * be there that the whole grid leaves out. */
    if (query->statistics && selection->cut_ns == 0)
        parts = qry_coverage_parts(step_ns, length_ns);
    if (parts > 1) {
        /* The first point of the grid, at the start, has the step before it; after the last one
         * there is nothing. */
        fine.start_ns = fg_time_add(selection->start_ns, -(step_ns - step_ns / parts));
        fine.end_ns =
            FG_MIN(fine.end_ns, fg_time_add(selection->start_ns,
                                            length_ns / step_ns * step_ns + (FG_MS_NS - 1)));
    }
    if (qry_collect_points(query, &fine, step_ns / parts, group_by, n_group_by, ret_series, ret_n,
                           err) != FG_OK)
        return err->code;
    for (size_t i = 0; query->statistics && i < *ret_n; i++) {
        struct qry_points *points = &(*ret_series)[i];

        if (qry_coverage_join(points, parts, step_ns / parts, query->arena, &points->covered_ns,
                              err) != FG_OK)
            return err->code;
        look_at_points(query, points, 1);
    }
    return FG_OK;
}

/* --- ROWS --- */

struct rows_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
};

static enum fg_code take_rows(struct qry_query *query, const struct fg_call *call, void *arg,
                              struct fg_err *err)
{
    ProtobufCMessage *head;

    if (fg_pb_read(call->reply_head, &fg__inner__rows_reply__descriptor, query->arena, &head,
                   err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    if (qry_fanout_count(query, ((Fg__Inner__RowsReply *)head)->stats, err) != FG_OK)
        return err->code;
    if (fg_profile_rows_decode(arg, call->reply_payload, err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    return FG_OK;
}

static enum fg_code read_rows(struct qry_query *query, struct qry_fanout *base, struct fg_err *err)
{
    return qry_blocks_rows(query, fg_container(base, struct rows_fanout, base)->selection,
                           base->into, err);
}

static void restart_rows(struct qry_fanout *base)
{
    fg_profile_rows_done(base->into);
}

/* Makes the head that asks for what the configuration says. *inner: the selection. */
static enum fg_code rows_head(struct qry_query *query, const struct qry_selection *selection,
                              const struct fg_profile_rows_config *config,
                              Fg__Inner__Selection *inner, Fg__Inner__RowsHead *ret_head,
                              struct fg_err *err)
{
    fg__inner__rows_head__init(ret_head);
    if (qry_fanout_selection(query, selection, inner, err) != FG_OK)
        return err->code;
    ret_head->selection = inner;
    ret_head->profile_type = fg_arena_text(query->arena, fg_cstr(selection->type_text));
    ret_head->spans = config->spans;
    ret_head->group_by = qry_fanout_texts(query, config->group_by, config->n_group_by);
    ret_head->n_group_by = config->n_group_by;
    ret_head->step_ns = config->step_ns;
    ret_head->newest = config->keep == FG_ROWS_NEWEST ? config->n_newest : 0;
    if (config->has_before) {
        ret_head->before_ns = config->before_ns;
        ret_head->before_id.data = fg_arena_alloc(query->arena, FG_ID_BYTES);
        ret_head->before_id.len = FG_ID_BYTES;
        if (ret_head->before_id.data == NULL)
            return qry_query_too_large(err);
        fg_id_put(ret_head->before_id.data, config->before_id);
    }
    return ret_head->profile_type == NULL || ret_head->group_by == NULL ? qry_query_too_large(err)
                                                                        : FG_OK;
}

enum fg_code qry_collect_rows(struct qry_query *query, const struct qry_selection *selection,
                              struct fg_profile_rows *into, struct fg_err *err)
{
    struct fg_profile_rows_config *config = &into->config;
    Fg__Inner__RowsHead head;
    Fg__Inner__Selection inner;
    struct qry_selection kept = *selection;
    int64_t n_cut = 0;
    struct rows_fanout fanout = {
        .base = {.method = FG_RPC_ROWS,
                 .generation = &inner.generation,
                 .take = take_rows,
                 .read = read_rows,
                 .restart = restart_rows,
                 .into = into},
        .selection = &kept,
    };

    if (config->keep == FG_ROWS_GREATEST)
        n_cut = keep_grid(selection, config->step_ns, &kept);
    if (kept.start_ns > kept.end_ns) /* the next grid point is after the range */
        return FG_OK;
    if (config->keep == FG_ROWS_GREATEST) {
        /* Steps of rows count from the kept start while they are collected; n_cut is added at the
         * end. */
        config->start_ns = kept.start_ns;
        config->last_step =
            ((uint64_t)kept.end_ns - (uint64_t)kept.start_ns) / (uint64_t)config->step_ns;
    }
    if (rows_head(query, &kept, config, &inner, &head, err) != FG_OK)
        return err->code;
    fanout.base.head = qry_fanout_head(
        &head.base, &inner, &kept,
        config->step_ns == 0 ? kept.start_ns : qry_points_from_ns(&kept, config->step_ns));
    if (qry_fanout_run(query, &fanout.base, err) != FG_OK)
        return err->code;
    /* Once, after all replies and blocks: which row is the greatest or newest is known only now. */
    fg_profile_rows_finish(into);
    for (size_t i = 0; i < into->n; i++) {
        into->items[i].step += (uint64_t)n_cut; /* of the whole grid */
        qry_query_look_at_sum(query, into->items[i].value);
    }
    return FG_OK;
}

/* --- STATS --- */

static enum fg_code take_stats(struct qry_query *query, const struct fg_call *call, void *arg,
                               struct fg_err *err)
{
    struct qry_tenant_stats *into = arg;
    ProtobufCMessage *message;

    if (fg_pb_read(call->reply_head, &fg__inner__stats_reply__descriptor, query->arena, &message,
                   err) != FG_OK)
        return fg_wrap(err, "response of an ingester");
    const Fg__Inner__StatsReply *reply = (Fg__Inner__StatsReply *)message;
    if (reply->lacks[0] != '\0')
        qry_query_lacks(query, fg_cstr(reply->lacks));
    /* Without profiles the times of the reply have no meaning. */
    if (reply->profiles == 0)
        return FG_OK;
    into->oldest_ns =
        into->profiles == 0 ? reply->oldest_ns : FG_MIN(into->oldest_ns, reply->oldest_ns);
    into->newest_ns =
        into->profiles == 0 ? reply->newest_ns : FG_MAX(into->newest_ns, reply->newest_ns);
    into->profiles += reply->profiles;
    return FG_OK;
}

static enum fg_code read_stats(struct qry_query *query, struct qry_fanout *base, struct fg_err *err)
{
    return qry_blocks_stats(query, base->into, err);
}

static void restart_stats(struct qry_fanout *base)
{
    *(struct qry_tenant_stats *)base->into = (struct qry_tenant_stats){0};
}

enum fg_code qry_collect_stats(struct qry_query *query, struct qry_tenant_stats *ret_stats,
                               struct fg_err *err)
{
    Fg__Inner__StatsHead head;
    struct qry_tenant_stats stats = {0};
    struct qry_fanout fanout = {.method = FG_RPC_STATS,
                                .head = {.message = &head.base,
                                         .tenant = &head.tenant,
                                         .n_deletions = &head.n_deletions,
                                         .deletions = &head.deletions,
                                         .store = &head.store,
                                         .shards = &head.shards,
                                         /* All of time: stats say since when there are profiles. */
                                         .start_ns = INT64_MIN,
                                         .end_ns = INT64_MAX},
                                .generation = &head.generation,
                                .take = take_stats,
                                .read = read_stats,
                                .restart = restart_stats,
                                .into = &stats};

    fg__inner__stats_head__init(&head);
    if (qry_fanout_run(query, &fanout, err) != FG_OK)
        return err->code;
    *ret_stats = stats;
    return FG_OK;
}

/* --- profiles --- */

struct profiles_fanout {
    struct qry_fanout base;
    const struct qry_selection *selection;
    qry_profile_visit visit;
};

static enum fg_code read_profiles(struct qry_query *query, struct qry_fanout *base,
                                  struct fg_err *err)
{
    const struct profiles_fanout *fanout = fg_container(base, struct profiles_fanout, base);

    return qry_blocks_profiles(query, fanout->selection, fanout->visit, base->into, err);
}

static void restart_profiles(struct qry_fanout *base)
{
    (void)base; /* visitors accept a profile twice: exports name files by profile ids */
}

enum fg_code qry_collect_profiles(struct qry_query *query, const struct qry_selection *selection,
                                  qry_profile_visit visit, void *arg, struct fg_err *err)
{
    uint64_t generation; /* for ingesters, of which there are none */
    struct profiles_fanout fanout = {
        .base = {.generation = &generation,
                 .read = read_profiles,
                 .restart = restart_profiles,
                 .into = arg},
        .selection = selection,
        .visit = visit,
    };

    fg_assert(query->querier->ring == NULL && query->querier->ingester == NULL);
    return qry_fanout_run(query, &fanout.base, err);
}
