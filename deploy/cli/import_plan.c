#include "deploy/cli/import_plan.h"

#include "common/base/str.h"
#include "common/model/selector.h"

#include <math.h>

enum { MINUTE_MS = 60 * 1000 };

/* ---- windows ---- */

/* Rounds down, also before 1970. */
static int64_t floor_to(int64_t ms, int64_t step_ms)
{
    int64_t rest = ms % step_ms;

    return ms - (rest < 0 ? rest + step_ms : rest);
}

struct cli_selection_range cli_import_window(const struct cli_selection_range *range,
                                             int64_t start_ms)
{
    fg_assert(start_ms < range->end_ms);
    return (struct cli_selection_range){
        start_ms,
        FG_MIN(range->end_ms, floor_to(start_ms, CLI_IMPORT_WINDOW_MS) + CLI_IMPORT_WINDOW_MS)};
}

uint64_t cli_import_minutes(const struct cli_selection_range *window, size_t n_done, size_t n)
{
    uint64_t minutes = (uint64_t)(window->end_ms - window->start_ms) / MINUTE_MS;

    return n == 0 ? minutes : minutes * n_done / n;
}

struct cli_selection_range cli_import_align(const struct cli_selection_range *range,
                                            int64_t step_ms)
{
    return (struct cli_selection_range){floor_to(range->start_ms, step_ms),
                                        floor_to(range->end_ms, step_ms)};
}

/* ---- series ---- */

/* Labels that servers make of the type and the service (distributor/API.md), or do not store. */
static bool is_made(struct fg_slice name)
{
    static const char *const made[] = {
        FG_LABEL_PROFILE_TYPE, FG_LABEL_TYPE,         FG_LABEL_UNIT,  FG_LABEL_PERIOD_TYPE,
        FG_LABEL_PERIOD_UNIT,  FG_LABEL_SERVICE_COPY, FG_LABEL_DELTA, FG_LABEL_ORDER};

    for (size_t i = 0; i < FG_COUNT(made); i++)
        if (fg_slice_is(name, made[i]))
            return true;
    return false;
}

static struct fg_id identify(const struct cli_import_series *series,
                             const struct cli_import_scope *scope)
{
    struct fg_buf text;
    struct fg_id id;

    fg_buf_init(&text, SIZE_MAX);
    fg_buf_varint(&text, scope->tenant.len);
    fg_buf_put(&text, scope->tenant);
    fg_buf_varint(&text, (uint64_t)scope->step_ms);
    fg_buf_varint(&text, series->type.len);
    fg_buf_put(&text, series->type);
    fg_labels_encode(&series->labels, &text);
    id = fg_hash128(fg_buf_slice(&text));
    fg_buf_done(&text);
    return id;
}

/* Borrows the texts of the set. */
static enum fg_code make_series(const struct fg_labels *set, const struct cli_import_scope *scope,
                                struct fg_arena *arena, struct cli_import_series *series,
                                struct fg_err *err)
{
    struct fg_profile_type type;

    series->type = fg_labels_get(set, FG_LABEL_PROFILE_TYPE);
    if (series->type.len == 0)
        return fg_fail(err, FG_E_DECODE, "a series has no label " FG_LABEL_PROFILE_TYPE);
    if (fg_profile_type_parse(series->type, &type, err) != FG_OK) {
        err->code = FG_E_DECODE;
        return err->code;
    }
    series->labels.items = fg_arena_new(arena, struct fg_label, set->count);
    series->pushed.items = fg_arena_new(arena, struct fg_label, set->count + 1);
    if (series->labels.items == NULL || series->pushed.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many series in an hour");
    for (size_t i = 0; i < set->count; i++) {
        if (!fg_slice_is(set->items[i].name, FG_LABEL_PROFILE_TYPE))
            series->labels.items[series->labels.count++] = set->items[i];
        if (!is_made(set->items[i].name))
            series->pushed.items[series->pushed.count++] = set->items[i];
    }
    if (fg_labels_get(&series->pushed, FG_LABEL_NAME).len == 0)
        series->pushed.items[series->pushed.count++] =
            (struct fg_label){FG_LIT(FG_LABEL_NAME), type.name};
    series->id = identify(series, scope);
    return FG_OK;
}

static int cmp_slices(const void *a, const void *b)
{
    return fg_slice_cmp(*(const struct fg_slice *)a, *(const struct fg_slice *)b);
}

/* Collects the names of all labels, each once. */
static bool collect_names(struct cli_import_list *list, struct fg_arena *arena)
{
    size_t total = 0, n = 0;

    for (size_t i = 0; i < list->count; i++)
        total += list->items[i].labels.count;
    list->names = fg_arena_new(arena, struct fg_slice, total);
    if (list->names == NULL)
        return false;
    for (size_t i = 0; i < list->count; i++)
        for (size_t j = 0; j < list->items[i].labels.count; j++)
            list->names[n++] = list->items[i].labels.items[j].name;
    fg_assert(n == total);
    if (n > 1)
        qsort(list->names, n, sizeof *list->names, cmp_slices);
    for (size_t i = 0; i < n; i++)
        if (list->n_names == 0 || !fg_slice_eq(list->names[list->n_names - 1], list->names[i]))
            list->names[list->n_names++] = list->names[i];
    return true;
}

enum fg_code cli_import_list_make(struct fg_labels *sets, size_t n_sets,
                                  const struct cli_import_scope *scope, struct fg_arena *arena,
                                  struct cli_import_list *ret_list, struct fg_err *err)
{
    struct cli_import_list list = {.items = fg_arena_new(arena, struct cli_import_series, n_sets)};

    if (list.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many series in an hour");
    for (size_t i = 0; i < n_sets; i++) {
        fg_labels_sort(&sets[i]);
        if (sets[i].count == 0) /* listed for series without any of the labels asked for */
            continue;
        if (make_series(&sets[i], scope, arena, &list.items[list.count++], err) != FG_OK)
            return err->code;
    }
    if (!collect_names(&list, arena))
        return fg_fail(err, FG_E_LIMIT, "too many labels in an hour");
    *ret_list = list;
    return FG_OK;
}

void cli_import_write_selector(const struct cli_import_list *list,
                               const struct cli_import_series *series, struct fg_buf *out)
{
    struct fg_selector selector = {
        .matchers = fg_calloc(FG_MAX(list->n_names, 1), sizeof(struct fg_matcher)),
        .n_matchers = list->n_names};

    for (size_t i = 0; i < list->n_names; i++) {
        size_t at;
        bool has = fg_labels_find(&series->labels, list->names[i], &at);

        selector.matchers[i] = (struct fg_matcher){
            .op = FG_MATCH_EQ,
            .name = list->names[i],
            .value = has ? series->labels.items[at].value : FG_LIT(""),
        };
    }
    fg_selector_write(&selector, out);
    free(selector.matchers);
}

/* ---- units ---- */

enum fg_code cli_import_units(const struct cli_import_point *points, size_t n_points,
                              int64_t step_ms, struct fg_arena *arena,
                              struct cli_import_unit **ret_units, size_t *ret_n, struct fg_err *err)
{
    struct cli_import_unit *units = fg_arena_new(arena, struct cli_import_unit, n_points);
    size_t n = 0;

    if (units == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many profiles in an hour");
    for (size_t i = 0; i < n_points; i++) {
        const struct cli_import_point *point = &points[i];
        int64_t time_ms = floor_to(point->ms, step_ms);

        if ((i > 0 && point->ms <= points[i - 1].ms) || !(point->value > 0) ||
            !isfinite(point->value))
            return fg_fail(err, FG_E_DECODE, "points over time that cannot be");
        if (n > 0 && units[n - 1].time_ms == time_ms) {
            units[n - 1].last_ms = point->ms;
            units[n - 1].value += point->value;
        } else {
            units[n++] = (struct cli_import_unit){time_ms, point->ms, point->ms, point->value};
        }
    }
    *ret_units = units;
    *ret_n = n;
    return FG_OK;
}

void cli_import_id(const struct cli_import_series *series, const struct cli_import_unit *unit,
                   char id[CLI_IMPORT_ID_BYTES])
{
    uint8_t bytes[FG_ID_BYTES];
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    fg_id_put(bytes, series->id);
    fg_buf_append(&text, bytes, sizeof bytes);
    fg_buf_zigzag(&text, unit->time_ms);
    fg_id_put(bytes, fg_hash128(fg_buf_slice(&text)));
    bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x80); /* version 8 */
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80); /* variant */
    fg_buf_clear(&text);
    for (size_t i = 0; i < sizeof bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            fg_buf_putc(&text, '-');
        fg_buf_hex(&text, &bytes[i], 1);
    }
    fg_assert(text.len == CLI_IMPORT_ID_BYTES - 1);
    memcpy(id, text.ptr, text.len);
    id[text.len] = '\0';
    fg_buf_done(&text);
}

/* ---- answers ---- */

/* Sums of points are doubles: exact up to 2^53, and rounded a few times above. */
static bool same_sum(double a, double b)
{
    double larger = fmax(a, b);

    return a == b || (larger >= 0x1p53 && fabs(a - b) <= larger * 0x1p-48);
}

/* Returns whether there is a unit that begins a millisecond after the end of unit i. */
static bool touches(const struct cli_import_unit *units, size_t n, size_t i)
{
    return i + 1 < n && units[i + 1].first_ms == units[i].last_ms + 1;
}

struct cli_import_group cli_import_group(const struct cli_import_unit *units, size_t n)
{
    return (struct cli_import_group){.unit = units[0], .n = 1, .units = units, .n_units = n};
}

struct cli_selection_range cli_import_group_range(const struct cli_import_group *group)
{
    return (struct cli_selection_range){group->unit.first_ms,
                                        group->unit.last_ms + (group->narrow ? 0 : 1)};
}

enum cli_import_verdict cli_import_group_answer(struct cli_import_group *group, double sum)
{
    if (same_sum(sum, group->unit.value))
        return IMPORT_TAKE;
    if (!group->narrow) {
        /* Only what is at the beginning of the next millisecond may be too much. */
        if (sum < group->unit.value || !touches(group->units, group->n_units, group->n - 1))
            return IMPORT_CHANGED;
        group->narrow = true;
        return IMPORT_ASK;
    }
    if (sum > group->unit.value)
        return IMPORT_CHANGED;
    group->narrow = false;
    group->unit.last_ms = group->units[group->n].last_ms;
    group->unit.value += group->units[group->n].value;
    group->n++;
    return IMPORT_ASK;
}

size_t cli_import_first(const struct cli_import_unit *units, size_t n, int64_t start_ms)
{
    size_t first = 0;

    while (first < n && units[first].time_ms < start_ms)
        first++;
    while (first > 0 && first < n && touches(units, n, first - 1))
        first--;
    return first;
}
