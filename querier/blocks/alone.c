/*
 * Merged nodes that are alone: all that is left of profiles that were dropped. Pictures take them
 * as they take any (nodes.c); here is what else there is to be had of them.
 *
 *   range    nodes are of whole weeks and of their days (compactor/plan_core.h), or of longer spans
 * that are whole; a picture that begins or ends within one is of all of it, and says so points
 * totals of the shortest spans, spread evenly over their time: so sums stay what they are, whatever
 * the step series   what groups know of labels
 *
 * What needs more than that is refused, with the time from which on there are profiles.
 */
#include "querier/blocks/impl.h"

#include <time.h>

#define DAY_NS (24 * FG_HOUR_NS)

enum {
    TIME_BYTES = sizeof "2000-01-01T00:00:00Z" + 16,
    SHARES_MAX = 8192, /* that a total is spread into; where steps are finer some get nothing */
};

/* ---- ranges ---- */

static const struct fg_blocks_entry *next_alone(const struct fg_blocks *blocks, uint32_t *at)
{
    while (blocks != NULL && *at < blocks->n_blocks) {
        const struct fg_blocks_entry *entry = &blocks->blocks[(*at)++];

        if (entry->alone)
            return entry;
    }
    return NULL;
}

static bool overlaps(const struct fg_blocks_entry *entry, int64_t start_ns, int64_t end_ns)
{
    return entry->t_min_ns <= end_ns && entry->t_max_ns >= start_ns;
}

/* The span of nodes that a time of the object's is in. */
static struct fg_time_span span_of(const struct fg_blocks_entry *entry, int64_t time_ns)
{
    struct fg_time_span span = {entry->start_ns, fg_time_add(entry->end_ns, -1)};

    if (entry->end_ns != fg_time_add(entry->start_ns, 7 * DAY_NS) || time_ns < span.start_ns ||
        time_ns > span.end_ns)
        return span;
    span.start_ns += (time_ns - span.start_ns) / DAY_NS * DAY_NS;
    span.end_ns = span.start_ns + DAY_NS - 1;
    return span;
}

/* Of one object; true: there was something to be done. */
static bool widen_by(const struct fg_blocks_entry *entry, struct qry_selection *selection)
{
    struct fg_time_span before = {selection->start_ns, selection->end_ns};

    if (!overlaps(entry, selection->start_ns, selection->end_ns))
        return false;
    if (before.start_ns > entry->t_min_ns)
        selection->start_ns = FG_MIN(before.start_ns, span_of(entry, before.start_ns).start_ns);
    if (before.end_ns < entry->t_max_ns)
        selection->end_ns = FG_MAX(before.end_ns, span_of(entry, before.end_ns).end_ns);
    return selection->start_ns != before.start_ns || selection->end_ns != before.end_ns;
}

void qry_blocks_widen(struct qry_question *question, struct qry_selection *selection)
{
    int64_t start_ns = selection->start_ns, end_ns = selection->end_ns;
    bool again = true;

    while (again) { /* one may reach into the next */
        again = false;
        for (size_t t = 0; t < question->tenants.n; t++) {
            const struct fg_blocks *blocks = qry_blocks_manifest(question, t);
            const struct fg_blocks_entry *entry;
            uint32_t at = 0;

            while ((entry = next_alone(blocks, &at)) != NULL)
                again = widen_by(entry, selection) || again;
        }
    }
    if ((selection->start_ns != start_ns || selection->end_ns != end_ns) &&
        question->n_wide < QUESTION_SIDES_MAX)
        question->wide[question->n_wide++] =
            (struct fg_time_span){selection->start_ns, selection->end_ns};
}

/* ---- what nodes cannot do ---- */

static enum fg_code refuse_before(int64_t end_ns, const char *what, struct fg_err *err)
{
    time_t seconds = (time_t)(end_ns / FG_SECOND_NS);
    char text[TIME_BYTES] = "";
    struct tm parts;

    if (gmtime_r(&seconds, &parts) != NULL)
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return fg_fail(err, FG_E_INVALID,
                   "profiles before %s were deleted by retention, and their rollups do not have "
                   "%s; query the time from then on",
                   text, what);
}

enum fg_code qry_blocks_need_profiles(const struct qry_question *question,
                                      const struct qry_selection *selection, const char *what,
                                      struct fg_err *err)
{
    int64_t end_ns = INT64_MIN;

    for (size_t t = 0; t < question->tenants.n; t++) {
        const struct fg_blocks *blocks = qry_blocks_manifest(question, t);
        const struct fg_blocks_entry *entry;
        uint32_t at = 0;

        while ((entry = next_alone(blocks, &at)) != NULL)
            if (overlaps(entry, selection->start_ns, selection->end_ns))
                end_ns = FG_MAX(end_ns, entry->end_ns);
    }
    return end_ns == INT64_MIN ? FG_OK : refuse_before(end_ns, what, err);
}

/* What is alone is in the range of points. */
static enum fg_code refuse(const struct qry_reader *reader, const char *what, struct fg_err *err)
{
    const struct qry_selection range = {.start_ns = reader->start_ns, .end_ns = reader->end_ns};

    return qry_blocks_need_profiles(reader->question, &range, what, err);
}

/* ---- labels of groups ---- */

/* As a series of the group would have them, as far as they are known; items NULL: no room. */
static struct fg_labels labels_of(const struct fg_groups *groups, uint32_t group,
                                  const struct fg_profile_type *type, struct fg_arena *arena)
{
    struct fg_labels labels = {
        fg_arena_new(arena, struct fg_label, groups->common.count + groups->n_names), 0};

    if (labels.items == NULL)
        return labels;
    for (size_t i = 0; i < groups->common.count; i++)
        if (groups->common.items[i].value.len > 0)
            labels.items[labels.count++] = groups->common.items[i];
    for (uint32_t i = 0; i < groups->n_names; i++) {
        struct fg_slice value = groups->values[(size_t)group * groups->n_names + i];

        if (value.len > 0)
            labels.items[labels.count++] = (struct fg_label){groups->names[i], value};
    }
    fg_labels_sort(&labels);
    return fg_labels_with_type(&labels, type, arena);
}

static bool is_of_group(const struct fg_groups *groups, struct fg_slice name)
{
    for (uint32_t i = 0; i < groups->n_names; i++)
        if (fg_slice_eq(groups->names[i], name))
            return true;
    return false;
}

/* Is it known of each group which value a label has? Those made from the type are. */
static bool is_known(const struct fg_groups *groups, struct fg_slice name)
{
    for (size_t i = 0; i < groups->common.count; i++)
        if (fg_slice_eq(groups->common.items[i].name, name))
            return true;
    return is_of_group(groups, name) || fg_slice_starts(name, "__") ||
           fg_slice_is(name, FG_LABEL_SERVICE_COPY);
}

/* ---- points ---- */

struct spreading {
    struct qry_reader reader;
    const struct qry_alone_grid *grid;
    struct fg_profile_type type;
    struct fg_arena *arena; /* of one part */
};

/* A share of a whole that is done from lo to hi evenly: what is done before x. */
static uint64_t done_before(int64_t whole, int64_t lo, int64_t hi, int64_t x)
{
    double share = ((double)x - (double)lo) / ((double)hi - (double)lo + 1);
    double done = (double)whole * share;

    return x > hi || done >= 0x1p63 ? (uint64_t)whole : (uint64_t)(int64_t)done;
}

/* What of the row's total is from `from` to `to`, onto a point. */
static enum fg_code give_share(const struct spreading *spreading, const struct fg_nodes_row *row,
                               struct fg_time_span whole, struct fg_time_span share, uint64_t step,
                               const struct fg_labels *labels, struct fg_err *err)
{
    const struct qry_alone_grid *grid = spreading->grid;
    int64_t lo = whole.start_ns, hi = whole.end_ns, behind = fg_time_add(share.end_ns, 1);
    uint64_t sum =
        done_before(row->total, lo, hi, behind) - done_before(row->total, lo, hi, share.start_ns);
    uint64_t count = done_before((int64_t)row->count, lo, hi, behind) -
                     done_before((int64_t)row->count, lo, hi, share.start_ns);

    return sum == 0 ? FG_OK : grid->each(grid->arg, labels, step, sum, FG_MAX(count, 1), err);
}

/* The row's total onto the points of its time: rounded so that all of them are the whole. */
static enum fg_code spread(const struct spreading *spreading, const struct fg_nodes_row *row,
                           struct fg_time_span whole, const struct fg_labels *labels,
                           struct fg_err *err)
{
    const struct qry_alone_grid *grid = spreading->grid;
    struct fg_time_span share = {FG_MAX(whole.start_ns, spreading->reader.start_ns),
                                 FG_MIN(whole.end_ns, spreading->reader.end_ns)};
    int64_t end_ns = share.end_ns;
    int64_t first_ns = fg_time_ms_end(grid->start_ns); /* the last moment of the first point */
    uint64_t step = fg_time_grid(first_ns, grid->step_ns, share.start_ns);
    uint64_t last = FG_MIN(fg_time_grid(first_ns, grid->step_ns, end_ns), grid->last_step);
    uint64_t stride = 1;

    if (share.start_ns > end_ns || step > last)
        return FG_OK;
    stride += (last - step) / SHARES_MAX;
    for (step = FG_MIN(step + stride - 1, last);; step = FG_MIN(step + stride, last)) {
        share.end_ns =
            FG_MIN(end_ns, (int64_t)((uint64_t)first_ns + step * (uint64_t)grid->step_ns));
        if (give_share(spreading, row, whole, share, step, labels, err) != FG_OK)
            return err->code;
        if (step == last)
            return FG_OK;
        share.start_ns = share.end_ns + 1;
    }
}

static uint64_t length_of(const struct fg_nodes_row *row)
{
    return (uint64_t)row->key.end_ns - (uint64_t)row->key.start_ns;
}

/* Rows that together are all of a key, over the shortest spans there are. */
static enum fg_code spread_key(struct spreading *spreading, const struct qry_part *part,
                               enum fg_nodes_kind kind, uint32_t group,
                               const struct fg_labels *labels, struct fg_err *err)
{
    const struct fg_nodes *nodes = part->nodes;
    uint64_t shortest_ns = UINT64_MAX;
    bool any = false;

    for (uint32_t i = 0; i < nodes->n_rows; i++)
        shortest_ns = FG_MIN(shortest_ns, length_of(&nodes->rows[i]));
    for (uint32_t i = 0; i < nodes->n_rows; i++) {
        const struct fg_nodes_row *row = &nodes->rows[i];
        struct fg_time_span whole = {FG_MAX(row->key.start_ns, part->entry->t_min_ns),
                                     FG_MIN(row->key.end_ns - 1, part->entry->t_max_ns)};

        if (row->key.kind != kind || row->key.number != group ||
            !fg_profile_type_eq(&nodes->types[row->type], &spreading->type))
            continue;
        any = true;
        if (length_of(row) != shortest_ns || row->count == 0)
            continue;
        spreading->reader.question->nodes++;
        if (spread(spreading, row, whole, labels, err) != FG_OK)
            return err->code;
    }
    return any || kind == FG_NODES_ALL ? FG_OK
                                       : refuse(&spreading->reader, "groups of series", err);
}

/* Are points told apart by what groups differ in? *ret_what: by what is not known. */
static bool needs_groups(const struct qry_alone_grid *grid, const struct fg_groups *groups,
                         const char **ret_what)
{
    bool needs = false;

    *ret_what = NULL;
    for (size_t i = 0; i < grid->n_group_by; i++) {
        if (!is_known(groups, fg_cstr(grid->group_by[i])))
            *ret_what = grid->group_by[i];
        needs = needs || is_of_group(groups, fg_cstr(grid->group_by[i]));
    }
    return needs;
}

static enum fg_code spread_part(struct spreading *spreading, const struct qry_part *part,
                                struct fg_err *err)
{
    const struct fg_groups *groups = &part->nodes->groups;
    enum fg_groups_answer *answers =
        fg_arena_new(spreading->arena, enum fg_groups_answer, groups->n_groups);
    const char *unknown;
    bool apart = needs_groups(spreading->grid, groups, &unknown);

    if (unknown != NULL)
        return refuse(&spreading->reader, unknown, err);
    if (answers == NULL)
        return qry_blocks_too_large(err);
    if (fg_groups_match(groups, &spreading->type, &spreading->reader.selection->selector,
                        spreading->arena, answers, err) != FG_OK)
        return err->code;
    for (uint32_t g = 0; g < groups->n_groups; g++) {
        if (answers[g] == FG_GROUPS_OPEN)
            return refuse(&spreading->reader, "all labels of the selector", err);
        apart = apart || answers[g] != answers[0];
    }
    apart = apart && groups->n_groups > 1;
    for (uint32_t g = 0; g < (apart ? groups->n_groups : FG_MIN(groups->n_groups, 1)); g++) {
        struct fg_labels labels = labels_of(groups, g, &spreading->type, spreading->arena);

        if (labels.items == NULL)
            return qry_blocks_too_large(err);
        if (answers[g] == FG_GROUPS_EVERY &&
            spread_key(spreading, part, apart ? FG_NODES_GROUP : FG_NODES_ALL, g, &labels, err) !=
                FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code spread_all(struct spreading *spreading, struct fg_err *err)
{
    struct qry_reader *reader = &spreading->reader;

    if (qry_nodes_find(reader, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < reader->n_parts; i++) {
        if (reader->parts[i].nodes == NULL)
            continue;
        fg_arena_reset(spreading->arena);
        if (spread_part(spreading, &reader->parts[i], err) != FG_OK)
            return fg_wrap(err, "service %.*s", FG_S(reader->parts[i].entry->service));
    }
    return qry_question_check(reader->question, err);
}

enum fg_code qry_alone_points(struct qry_question *question, const struct qry_selection *selection,
                              const struct qry_alone_grid *grid, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(question->querier->blocks->memory_max_bytes);
    struct spreading spreading = {.grid = grid, .arena = arena};
    enum fg_code code;

    if (fg_profile_type_parse(fg_cstr(selection->type_text), &spreading.type, err) != FG_OK)
        return err->code;
    code = qry_reader_open(&spreading.reader, question, selection, NULL,
                           qry_points_from_ns(selection, grid->step_ns), selection->end_ns,
                           OBJECTS_ALONE, false, err);
    if (code == FG_OK)
        code = spread_all(&spreading, err);
    qry_reader_close(&spreading.reader);
    return code;
}

/* ---- series ---- */

static enum fg_code list_part(const struct qry_reader *reader, const struct qry_part *part,
                              struct fg_arena *arena, alone_labels each, void *arg,
                              struct fg_err *err)
{
    const struct fg_nodes *nodes = part->nodes;

    for (uint32_t t = 0; t < nodes->n_types; t++)
        for (uint32_t g = 0; g < nodes->groups.n_groups; g++) {
            struct fg_arena_mark mark = fg_arena_mark(arena);
            struct fg_labels labels = labels_of(&nodes->groups, g, &nodes->types[t], arena);

            if (labels.items == NULL)
                return qry_blocks_too_large(err);
            if (fg_selector_matches(&reader->selector, &labels) && each(arg, &labels, err) != FG_OK)
                return err->code;
            fg_arena_release(arena, mark);
        }
    return FG_OK;
}

enum fg_code qry_alone_series(struct qry_question *question, const struct qry_selection *selection,
                              alone_labels each, void *arg, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(question->querier->blocks->memory_max_bytes);
    struct qry_reader reader;
    enum fg_code code = qry_reader_open(&reader, question, selection, NULL, selection->start_ns,
                                        selection->end_ns, OBJECTS_ALONE, false, err);

    if (code == FG_OK)
        code = qry_nodes_find(&reader, err);
    for (uint32_t i = 0; code == FG_OK && i < reader.n_parts; i++)
        if (reader.parts[i].nodes != NULL)
            code = list_part(&reader, &reader.parts[i], arena, each, arg, err);
    qry_reader_close(&reader);
    return code;
}
