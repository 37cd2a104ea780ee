/* POINTS: totals over time, from the heads of the records alone. */
#include "ingester/query.h"

struct point {
    uint32_t set; /* number of the label set */
    uint64_t step;
    uint64_t sum, count;
};

struct points {
    struct ing_query *query;
    const Fg__Inner__PointsHead *head;
    int64_t start_ns, step_ns;
    uint64_t last_step;

    struct fg_labels *sets; /* distinct values of group_by */
    uint32_t n_sets, cap_sets;
    struct fg_map set_map;
    const struct ing_catalog_match *last; /* of the last profile, whose label set is last_set */
    uint32_t last_set;

    /* In the order of the scan; sorted and summed at the end. */
    struct point *items;
    size_t count, cap, max;
};

/* Collects the labels of group_by that the series has, in that order. */
static struct fg_labels group_labels(const struct points *points,
                                     const struct ing_catalog_match *match)
{
    const Fg__Inner__PointsHead *head = points->head;
    struct fg_labels out = {fg_arena_new(points->query->arena, struct fg_label, head->n_group_by),
                            0};

    for (size_t i = 0; out.items != NULL && i < head->n_group_by; i++) {
        struct fg_slice value =
            ing_series_label(match->series, match->type, fg_cstr(head->group_by[i]));

        if (value.len > 0)
            out.items[out.count++] = (struct fg_label){fg_cstr(head->group_by[i]), value};
    }
    return out;
}

/* A query may take memory_max_bytes for all of: points, twice while they grow or are sorted; ids of
 * sums; the arena, which gets what is left. */
enum { POINTS_PART = 4, SUMS_PART = 4 };

static void limit_arena(const struct points *points)
{
    const uint64_t max_bytes = points->query->context->memory_max_bytes;

    fg_arena_set_limit(points->query->arena,
                       max_bytes - max_bytes / SUMS_PART - 2 * points->cap * sizeof(struct point));
}

static enum fg_code find_set(struct points *points, const struct ing_catalog_match *match,
                             uint32_t *ret_set, struct fg_err *err)
{
    struct fg_labels labels;
    struct fg_map_walk walk;
    uint64_t hash;
    uint32_t i;

    /* The profiles of a series come one after another: do not make its labels again and again. */
    if (match == points->last) {
        *ret_set = points->last_set;
        return FG_OK;
    }
    labels = group_labels(points, match);
    if (labels.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "query needs too much memory");
    hash = fg_id_table(fg_labels_hash(&labels));
    for (i = fg_map_first(&points->set_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&points->set_map, &walk))
        if (fg_labels_cmp(&points->sets[i], &labels) == 0)
            break;
    if (i == FG_MAP_NONE) {
        if (points->n_sets == points->cap_sets) {
            points->cap_sets = FG_MAX(64, points->cap_sets * 2);
            points->sets = fg_realloc(points->sets, points->cap_sets * sizeof *points->sets);
        }
        i = points->n_sets++;
        points->sets[i] = labels;
        fg_map_add(&points->set_map, hash, i);
    }
    points->last = match;
    points->last_set = *ret_set = i;
    return FG_OK;
}

static int point_order(const void *left, const void *right)
{
    const struct point *a = left, *b = right;

    if (a->set != b->set)
        return a->set < b->set ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

/* Sorts and joins points of one place. */
static void settle(struct points *points)
{
    size_t kept = 0;

    if (points->count == 0)
        return;
    qsort(points->items, points->count, sizeof *points->items, point_order);
    for (size_t i = 1; i < points->count; i++) {
        struct point *last = &points->items[kept];

        if (point_order(last, &points->items[i]) == 0) {
            fg_value_sum(&last->sum, points->items[i].sum);
            last->count += points->items[i].count;
        } else {
            points->items[++kept] = points->items[i];
        }
    }
    points->count = kept + 1;
}

static enum fg_code make_room(struct points *points, struct fg_err *err)
{
    if (points->count < points->cap)
        return FG_OK;
    settle(points); /* many series share points: often that makes room */
    if (points->count <= points->cap / 2 && points->cap > 0)
        return FG_OK;
    if (points->cap * 2 > points->max)
        return fg_fail(err, FG_E_LIMIT, "query gives more than %zu points", points->cap);
    /* Grow only if sorting has freed less than half, or the next points would sort everything
     * again. */
    points->cap = FG_MAX(1024, points->cap * 2);
    limit_arena(points);
    points->items = fg_realloc(points->items, points->cap * sizeof *points->items);
    return FG_OK;
}

static enum fg_code add_point(struct points *points, struct point point, struct fg_err *err)
{
    struct point *last = points->count == 0 ? NULL : &points->items[points->count - 1];

    /* The profiles of a series come in the order of time. */
    if (last != NULL && point_order(last, &point) == 0) {
        fg_value_sum(&last->sum, point.sum);
        last->count += point.count;
        return FG_OK;
    }
    if (make_room(points, err) != FG_OK)
        return err->code;
    fg_assert(points->items != NULL);
    points->items[points->count++] = point;
    return FG_OK;
}

static enum fg_code visit(void *arg, const struct ing_catalog_match *match,
                          const struct ing_head_profile_key *key, const struct ing_record *record,
                          struct fg_err *err)
{
    struct points *points = arg;
    struct point point = {
        .step = fg_time_grid(fg_time_ms_end(points->start_ns), points->step_ns, key->time_ns),
        .count = 1};

    if (point.step > points->last_step)
        return FG_OK;
    if (ing_record_total(record, match->type, &point.sum, err) != FG_OK)
        return err->code;
    if (point.sum == 0) /* there is no profile of this type then */
        return FG_OK;
    if (find_set(points, match, &point.set, err) != FG_OK)
        return err->code;
    return add_point(points, point, err);
}

static void write_points(const struct points *points, struct fg_buf *out)
{
    struct fg_buf labels;
    size_t at = 0;

    fg_buf_init(&labels, SIZE_MAX);
    fg_buf_varint(out, points->n_sets);
    for (uint32_t set = 0; set < points->n_sets; set++) {
        uint64_t before = 0;
        size_t end = at;

        while (end < points->count && points->items[end].set == set)
            end++;
        fg_buf_clear(&labels);
        fg_labels_encode(&points->sets[set], &labels);
        fg_buf_lenbytes(out, fg_buf_slice(&labels));
        fg_buf_varint(out, end - at);
        for (; at < end; at++) {
            fg_buf_varint(out, points->items[at].step - before);
            fg_buf_zigzag(out, (int64_t)points->items[at].sum);
            fg_buf_varint(out, points->items[at].count);
            before = points->items[at].step;
        }
    }
    fg_buf_done(&labels);
}

static enum fg_code answer(struct points *points, struct fg_err *err)
{
    const Fg__Inner__PointsHead *head = points->head;
    struct ing_query *query = points->query;
    Fg__Inner__PointsReply reply = FG__INNER__POINTS_REPLY__INIT;
    Fg__Inner__Stats stats;
    struct ing_query_scope scope;
    struct ing_query_sums sums;
    enum fg_code code;

    if (head->selection == NULL || head->step_ns <= 0 ||
        head->selection->end_ns < head->selection->start_ns)
        return fg_fail(err, FG_E_INVALID, "points without a selection, step or range");
    limit_arena(points);
    query->fronts = true;
    points->start_ns = head->selection->start_ns;
    points->step_ns = head->step_ns;
    points->last_step =
        ((uint64_t)head->selection->end_ns - (uint64_t)points->start_ns) / (uint64_t)head->step_ns;
    /* A point sums up the step that ends at it, so the first one reaches back before the start.
     * Clients give whole milliseconds. */
    if (ing_query_scope(query, head->selection, head->profile_type,
                        fg_time_add(points->start_ns, FG_MS_NS - head->step_ns),
                        head->selection->end_ns, &scope, err) != FG_OK)
        return err->code;
    ing_query_sums_init(&sums, &scope.shards, query->arena,
                        query->context->memory_max_bytes / SUMS_PART);
    code = ing_query_scan(query, &scope, visit, NULL, points, &sums, err);
    ing_query_scope_done(&scope);
    if (code == FG_OK) {
        /* Once more, for the points that were added since the last time. */
        settle(points);
        write_points(points, &query->payload);
        ing_query_stats_fill(query, &stats);
        reply.stats = &stats;
        reply.sums = sums.items;
        reply.n_sums = sums.n;
        ing_query_put_reply(query, &reply.base);
    }
    ing_query_sums_done(&sums);
    return code;
}

enum fg_code ing_query_points(struct ing_query *query, struct fg_err *err)
{
    struct fg_slice bytes = fg_rpc_head(query->req);
    Fg__Inner__PointsHead *head = fg__inner__points_head__unpack(NULL, bytes.len, bytes.ptr);
    struct points points = {
        .query = query,
        .head = head,
        .max = query->context->memory_max_bytes / POINTS_PART / sizeof(struct point),
    };
    enum fg_code code;

    if (head == NULL)
        return fg_fail(err, FG_E_INVALID, "points: head cannot be read");
    code = answer(&points, err);
    free(points.items);
    free(points.sets);
    fg_map_done(&points.set_map);
    fg__inner__points_head__free_unpacked(head, NULL);
    return code;
}
