#include "querier/export.h"

#include "querier/collect.h"
#include "querier/fanout.h"

static void begin(struct qry_query *query, struct querier *querier, const struct qry_export *what)
{
    /* Limits of the tenant do not apply: an export is of all that is kept. */
    *query = (struct qry_query){
        .querier = querier,
        .tenants = {.ids = {what->tenant}, .n = 1},
        .start_mono_ns = fg_mono_ns(querier->clock),
        .deadline_mono_ns = what->deadline_mono_ns,
        .arena = fg_arena_create(querier->answer_max_bytes),
        .partial = what->partial,
    };
    fg_buf_init(&query->missing, MISSING_MAX_BYTES);
}

static void end(struct qry_query *query, struct qry_selection *selection,
                const struct qry_export *what)
{
    /* Several calls for one export lack the same. */
    if (query->incomplete && what->missing != NULL && what->missing->len == 0)
        fg_buf_put(what->missing, fg_buf_slice(&query->missing));
    qry_selection_done(selection);
    qry_fanout_end(query);
    fg_buf_done(&query->missing);
    fg_arena_destroy(query->arena);
}

static enum fg_code select_what(struct qry_query *query, const struct qry_export *what,
                                const char *type, struct qry_selection *selection,
                                struct fg_err *err)
{
    if (qry_selection_range(query, selection, what->start_ms, what->end_ms, err) != FG_OK)
        return err->code;
    return qry_selection_profiles(query, selection, type, what->selector, err);
}

/* ---- types ---- */

static int cmp_slices(const void *a, const void *b)
{
    return fg_slice_cmp(*(const struct fg_slice *)a, *(const struct fg_slice *)b);
}

static enum fg_code copy_types(const struct qry_label_sets *sets, struct fg_arena *arena,
                               struct fg_slice **ret_ids, size_t *ret_n, struct fg_err *err)
{
    struct fg_slice *ids = fg_arena_new(arena, struct fg_slice, sets->n);
    size_t n = 0;

    for (size_t i = 0; ids != NULL && i < sets->n; i++) {
        ids[n] = fg_arena_copy(arena, fg_labels_get(&sets->items[i], FG_LABEL_PROFILE_TYPE));
        /* The arena is full; the condition ends the loop. */
        if (ids[n++].ptr == NULL)
            ids = NULL;
    }
    if (ids == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many profile types");
    /* Sorted, so that messages that list them are the same each time. */
    qsort(ids, n, sizeof *ids, cmp_slices);
    *ret_ids = ids;
    *ret_n = n;
    return FG_OK;
}

enum fg_code qry_export_types(struct querier *querier, const struct qry_export *what,
                              struct fg_arena *arena, struct fg_slice **ret_ids, size_t *ret_n,
                              struct fg_err *err)
{
    static const char *const names[] = {FG_LABEL_PROFILE_TYPE};
    struct qry_selection selection = {0};
    struct qry_query query;
    struct qry_label_sets sets;

    begin(&query, querier, what);
    qry_label_sets_init(&sets);
    enum fg_code code = select_what(&query, what, NULL, &selection, err);
    if (code == FG_OK)
        code = qry_collect_series(&query, &selection, names, FG_COUNT(names), &sets, err);
    if (code == FG_OK)
        code = copy_types(&sets, arena, ret_ids, ret_n, err);
    qry_label_sets_done(&sets);
    end(&query, &selection, what);
    return code;
}

/* ---- merged ---- */

/* Merges in full, without crowns: an export has exact numbers. */
enum fg_code qry_export_tree(struct querier *querier, const struct qry_export *what,
                             bool names_only, struct fg_tree *into, struct fg_err *err)
{
    static const struct qry_stack_filter all = {0};
    struct qry_selection selection = {0};
    struct qry_query query;

    begin(&query, querier, what);
    enum fg_code code = select_what(&query, what, what->type, &selection, err);
    if (code == FG_OK)
        code = qry_collect_tree(&query, &selection, &all, names_only, into, err);
    end(&query, &selection, what);
    return code;
}

/* ---- one by one ---- */

struct export_writer {
    qry_export_visit visit;
    void *arg;
    struct fg_buf pprof;
};

static enum fg_code write_profile(void *arg, const struct qry_one_profile *profile,
                                  struct fg_err *err)
{
    struct export_writer *writer = arg;

    /* One buffer for all profiles: the visitor copies or writes the bytes before it returns. */
    fg_buf_clear(&writer->pprof);
    fg_pprof_write_samples(profile->tree, &profile->samples, &profile->head, &writer->pprof);
    if (writer->pprof.full)
        return fg_fail(err, FG_E_LIMIT, "a profile of more than %zu bytes",
                       writer->pprof.max_bytes);
    return writer->visit(writer->arg,
                         &(struct qry_export_profile){.labels = profile->labels,
                                                      .id = profile->id,
                                                      .time_ns = profile->head.time_ns,
                                                      .pprof = fg_buf_slice(&writer->pprof)},
                         err);
}

enum fg_code qry_export_profiles(struct querier *querier, const struct qry_export *what,
                                 qry_export_visit visit, void *arg, uint64_t *ret_profiles,
                                 struct fg_err *err)
{
    struct export_writer writer = {.visit = visit, .arg = arg};
    struct qry_selection selection = {0};
    struct qry_query query;

    begin(&query, querier, what);
    fg_buf_init(&writer.pprof, querier->answer_max_bytes);
    enum fg_code code = select_what(&query, what, what->type, &selection, err);
    if (code == FG_OK)
        code = qry_collect_profiles(&query, &selection, write_profile, &writer, err);
    if (code == FG_OK)
        *ret_profiles = query.profiles;
    fg_buf_done(&writer.pprof);
    end(&query, &selection, what);
    return code;
}
