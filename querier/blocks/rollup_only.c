#include "querier/blocks/rollup_only.h"

#include "querier/blocks/blocks.h"
#include "querier/blocks/rollups.h"

#include <time.h>

#define DAY_NS (24 * FG_HOUR_NS)

enum {
    TIME_BYTES = sizeof "2000-01-01T00:00:00Z" + 16,
    SHARES_MAX = 8192, /* points that a total is spread over; with finer steps some get nothing */
};

/* ---- ranges ---- */

static const struct fg_blocks_entry *next_rollup_only(const struct fg_blocks *blocks, uint32_t *at)
{
    while (blocks != NULL && *at < blocks->n_blocks) {
        const struct fg_blocks_entry *entry = &blocks->blocks[(*at)++];

        if (entry->rollup_only)
            return entry;
    }
    return NULL;
}

static bool overlaps(const struct fg_blocks_entry *entry, int64_t start_ns, int64_t end_ns)
{
    return entry->t_min_ns <= end_ns && entry->t_max_ns >= start_ns;
}

/* Returns the span of the rollup that a time is in: a day of an object of a week, else the whole
 * object. */
static struct fg_time_span span_of(const struct fg_blocks_entry *entry, int64_t time_ns)
{
    struct fg_time_span span = {entry->start_ns, fg_time_add(entry->end_ns, -1)};

    /* Only objects of a week have rollups of single days (compactor/plan_core.h). */
    if (entry->end_ns != fg_time_add(entry->start_ns, 7 * DAY_NS) || time_ns < span.start_ns ||
        time_ns > span.end_ns)
        return span;
    span.start_ns += (time_ns - span.start_ns) / DAY_NS * DAY_NS;
    span.end_ns = span.start_ns + DAY_NS - 1;
    return span;
}

/* Widens a selection to the rollups of one object. Returns true if it changed. */
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

void qry_blocks_widen(struct qry_query *query, struct qry_selection *selection)
{
    int64_t start_ns = selection->start_ns, end_ns = selection->end_ns;
    bool again = true;

    /* Again, because a widened range may reach into the next object. */
    while (again) {
        again = false;
        for (size_t t = 0; t < query->tenants.n; t++) {
            const struct fg_blocks *blocks = qry_blocks_manifest(query, t);
            const struct fg_blocks_entry *entry;
            uint32_t at = 0;

            while ((entry = next_rollup_only(blocks, &at)) != NULL)
                again = widen_by(entry, selection) || again;
        }
    }
    if ((selection->start_ns != start_ns || selection->end_ns != end_ns) &&
        query->n_wide < QUERY_SIDES_MAX)
        query->wide[query->n_wide++] =
            (struct fg_time_span){selection->start_ns, selection->end_ns};
}

/* ---- what rollups cannot answer ---- */

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

enum fg_code qry_blocks_need_profiles(const struct qry_query *query,
                                      const struct qry_selection *selection, const char *what,
                                      struct fg_err *err)
{
    /* The latest of all: from then on the query can be answered as a whole. */
    int64_t end_ns = INT64_MIN;

    for (size_t t = 0; t < query->tenants.n; t++) {
        const struct fg_blocks *blocks = qry_blocks_manifest(query, t);
        const struct fg_blocks_entry *entry;
        uint32_t at = 0;

        while ((entry = next_rollup_only(blocks, &at)) != NULL)
            if (overlaps(entry, selection->start_ns, selection->end_ns))
                end_ns = FG_MAX(end_ns, entry->end_ns);
    }
    return end_ns == INT64_MIN ? FG_OK : refuse_before(end_ns, what, err);
}

uint64_t qry_blocks_lost_profiles(const struct qry_query *query,
                                  const struct qry_selection *selection)
{
    uint64_t profiles = 0;

    for (size_t t = 0; t < query->tenants.n; t++) {
        const struct fg_blocks *blocks = qry_blocks_manifest(query, t);
        const struct fg_blocks_entry *entry;
        uint32_t at = 0;

        while ((entry = next_rollup_only(blocks, &at)) != NULL)
            if (overlaps(entry, selection->start_ns, selection->end_ns))
                profiles += entry->profiles;
    }
    return profiles;
}

/* Refuses: rollups without profiles are in the range of points. */
static enum fg_code refuse(const struct qry_reader *reader, const char *what, struct fg_err *err)
{
    const struct qry_selection range = {.start_ns = reader->start_ns, .end_ns = reader->end_ns};

    return qry_blocks_need_profiles(reader->query, &range, what, err);
}

/* ---- labels of groups ---- */

/* Returns the labels that a series of the group is known to have. items NULL: the arena is full. */
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

/* Returns true if the value of a label is known for each group. Labels made from the type are. */
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
    const struct qry_rollup_only_grid *grid;
    struct fg_profile_type type;
    struct fg_arena *arena; /* of one part */
};

/* Returns how much of a whole, spread evenly from lo to hi, is before x. */
static uint64_t done_before(int64_t whole, int64_t lo, int64_t hi, int64_t x)
{
    double share = ((double)x - (double)lo) / ((double)hi - (double)lo + 1);
    double done = (double)whole * share;

    /* The conversion of a larger double is undefined. */
    return x > hi || done >= 0x1p63 ? (uint64_t)whole : (uint64_t)(int64_t)done;
}

/* Spreads a row's total over the points of its time; rounded so that they add up to it. */
static enum fg_code spread(const struct spreading *spreading, const struct fg_rollup_row *row,
                           struct fg_time_span whole, const struct fg_labels *labels,
                           struct fg_err *err)
{
    const struct qry_rollup_only_grid *grid = spreading->grid;
    struct fg_time_span share = {FG_MAX(whole.start_ns, spreading->reader.start_ns),
                                 FG_MIN(whole.end_ns, spreading->reader.end_ns)};
    int64_t end_ns = share.end_ns;
    int64_t first_ns = fg_time_ms_end(grid->start_ns); /* the last moment of the first point */
    uint64_t step = fg_time_grid(first_ns, grid->step_ns, share.start_ns);
    uint64_t last = FG_MIN(fg_time_grid(first_ns, grid->step_ns, end_ns), grid->last_step);
    uint64_t stride = 1;

    if (share.start_ns > end_ns || step > last)
        return FG_OK;
    /* Beyond SHARES_MAX points only every stride-th gets a share, so the time for a row is
     * bounded. */
    stride += (last - step) / SHARES_MAX;
    for (step = FG_MIN(step + stride - 1, last);; step = FG_MIN(step + stride, last)) {
        share.end_ns =
            FG_MIN(end_ns, (int64_t)((uint64_t)first_ns + step * (uint64_t)grid->step_ns));

        int64_t lo = whole.start_ns, hi = whole.end_ns, behind = fg_time_add(share.end_ns, 1);
        uint64_t sum = done_before(row->total, lo, hi, behind) -
                       done_before(row->total, lo, hi, share.start_ns);
        uint64_t count = done_before((int64_t)row->count, lo, hi, behind) -
                         done_before((int64_t)row->count, lo, hi, share.start_ns);

        if (sum != 0 && grid->each(grid->arg, labels, step, sum, FG_MAX(count, 1), err) != FG_OK)
            return err->code;
        if (step == last)
            return FG_OK;
        share.start_ns = share.end_ns + 1;
    }
}

static uint64_t length_of(const struct fg_rollup_row *row)
{
    return (uint64_t)row->key.end_ns - (uint64_t)row->key.start_ns;
}

/* Spreads the rows of a key. Rows exist for several lengths of time, each of which is everything:
 * the shortest are the most precise. */
static enum fg_code spread_key(struct spreading *spreading, const struct qry_part *part,
                               enum fg_rollup_kind kind, uint32_t group,
                               const struct fg_labels *labels, struct fg_err *err)
{
    const struct fg_rollups *rollups = part->rollups;
    uint64_t shortest_ns = UINT64_MAX;
    bool any = false;

    for (uint32_t i = 0; i < rollups->n_rows; i++)
        shortest_ns = FG_MIN(shortest_ns, length_of(&rollups->rows[i]));
    for (uint32_t i = 0; i < rollups->n_rows; i++) {
        const struct fg_rollup_row *row = &rollups->rows[i];
        struct fg_time_span whole = {FG_MAX(row->key.start_ns, part->entry->t_min_ns),
                                     FG_MIN(row->key.end_ns - 1, part->entry->t_max_ns)};

        if (row->key.kind != kind || row->key.number != group ||
            !fg_profile_type_eq(&rollups->types[row->type], &spreading->type))
            continue;
        any = true;
        if (length_of(row) != shortest_ns || row->count == 0)
            continue;
        spreading->reader.query->rollups++;
        if (spread(spreading, row, whole, labels, err) != FG_OK)
            return err->code;
    }
    return any || kind == FG_ROLLUP_ALL ? FG_OK
                                        : refuse(&spreading->reader, "groups of series", err);
}

/* Returns true if groups know all labels of group_by. *ret_what: the first they do not know. */
static bool needs_groups(const struct qry_rollup_only_grid *grid, const struct fg_groups *groups,
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
    const struct fg_groups *groups = &part->rollups->groups;
    enum fg_groups_answer *answers =
        fg_arena_new(spreading->arena, enum fg_groups_answer, groups->n_groups);
    const char *unknown;
    bool apart = needs_groups(spreading->grid, groups, &unknown);

    if (unknown != NULL)
        return refuse(&spreading->reader, unknown, err);
    if (answers == NULL)
        return qry_query_too_large(err);
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
            return qry_query_too_large(err);
        if (answers[g] == FG_GROUPS_EVERY &&
            spread_key(spreading, part, apart ? FG_ROLLUP_GROUP : FG_ROLLUP_ALL, g, &labels, err) !=
                FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code spread_all(struct spreading *spreading, struct fg_err *err)
{
    struct qry_reader *reader = &spreading->reader;

    if (qry_rollups_find(reader, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < reader->n_parts; i++) {
        if (reader->parts[i].rollups == NULL)
            continue;
        fg_arena_reset(spreading->arena);
        if (spread_part(spreading, &reader->parts[i], err) != FG_OK)
            return fg_wrap(err, "service %.*s", FG_S(reader->parts[i].entry->service));
    }
    return qry_query_check(reader->query, err);
}

enum fg_code qry_rollup_only_points(struct qry_query *query, const struct qry_selection *selection,
                                    const struct qry_rollup_only_grid *grid, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(query->querier->blocks->memory_max_bytes);
    struct spreading spreading = {.grid = grid, .arena = arena};
    enum fg_code code;

    if (fg_profile_type_parse(fg_cstr(selection->type_text), &spreading.type, err) != FG_OK)
        return err->code;
    code = qry_reader_open(&spreading.reader, query, selection, NULL,
                           qry_points_from_ns(selection, grid->step_ns), selection->end_ns,
                           OBJECTS_ROLLUP_ONLY, false, err);
    if (code == FG_OK)
        code = spread_all(&spreading, err);
    qry_reader_close(&spreading.reader);
    return code;
}

/* ---- series ---- */

static enum fg_code list_part(const struct qry_reader *reader, const struct qry_part *part,
                              struct fg_arena *arena, qry_rollup_only_labels each, void *arg,
                              struct fg_err *err)
{
    const struct fg_rollups *rollups = part->rollups;

    for (uint32_t t = 0; t < rollups->n_types; t++)
        for (uint32_t g = 0; g < rollups->groups.n_groups; g++) {
            struct fg_arena_mark mark = fg_arena_mark(arena);
            struct fg_labels labels = labels_of(&rollups->groups, g, &rollups->types[t], arena);

            if (labels.items == NULL)
                return qry_query_too_large(err);
            if (fg_selector_matches(&reader->selector, &labels) && each(arg, &labels, err) != FG_OK)
                return err->code;
            fg_arena_release(arena, mark);
        }
    return FG_OK;
}

enum fg_code qry_rollup_only_series(struct qry_query *query, const struct qry_selection *selection,
                                    qry_rollup_only_labels each, void *arg, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(query->querier->blocks->memory_max_bytes);
    struct qry_reader reader;
    enum fg_code code = qry_reader_open(&reader, query, selection, NULL, selection->start_ns,
                                        selection->end_ns, OBJECTS_ROLLUP_ONLY, false, err);

    if (code == FG_OK)
        code = qry_rollups_find(&reader, err);
    for (uint32_t i = 0; code == FG_OK && i < reader.n_parts; i++)
        if (reader.parts[i].rollups != NULL)
            code = list_part(&reader, &reader.parts[i], arena, each, arg, err);
    qry_reader_close(&reader);
    return code;
}
