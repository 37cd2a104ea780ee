/* ROWS: single profiles, from the heads of the records; with spans also from their samples. */
#include "common/base/value.h"
#include "common/model/profile_rows.h"
#include "ingester/query.h"

struct rows_query {
    struct ing_query *query;
    const Fg__Inner__RowsHead *head;
    struct fg_profile_rows rows;
    struct ing_record_columns columns;
    /* The match at hand, since profiles come in the order of series. */
    const struct ing_catalog_match *match;
    uint32_t set;
};

static enum fg_code find_set(struct rows_query *rows, const struct ing_catalog_match *match,
                             struct fg_err *err)
{
    struct fg_labels labels;

    if (match == rows->match)
        return FG_OK;
    labels = ing_series_type_labels(match->series, match->type, rows->query->arena);
    if (labels.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "query needs too much memory");
    if (fg_profile_rows_set(&rows->rows, &labels, &rows->set, err) != FG_OK)
        return err->code;
    rows->match = match;
    return FG_OK;
}

static int link_order(const void *left, const void *right)
{
    const struct fg_link *a = left, *b = right;

    if (a->span_id != b->span_id)
        return a->span_id < b->span_id ? -1 : 1;
    return memcmp(a->trace_id, b->trace_id, FG_ID_BYTES);
}

/* Adds a row for each span and trace, with the sum of its samples. */
static enum fg_code add_spans(struct rows_query *rows, struct fg_profile_row *row,
                              struct fg_err *err)
{
    struct ing_record_columns *columns = &rows->columns;

    if (columns->n_links > 1)
        qsort(columns->links, columns->n_links, sizeof *columns->links, link_order);
    for (uint32_t i = 0, next; i < columns->n_links; i = next) {
        const struct fg_link *link = &columns->links[i];
        uint64_t sum = 0;

        for (next = i; next < columns->n_links && link_order(link, &columns->links[next]) == 0;
             next++)
            fg_value_sum(&sum, columns->values[columns->links[next].sample]);
        if (link->span_id == 0 || sum == 0)
            continue;
        row->value = (int64_t)sum;
        row->span_id = link->span_id;
        memcpy(row->trace_id, link->trace_id, FG_ID_BYTES);
        if (fg_profile_rows_add(&rows->rows, row, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code visit(void *arg, const struct ing_catalog_match *match,
                          const struct ing_head_profile_key *key, const struct ing_record *record,
                          struct fg_err *err)
{
    struct rows_query *rows = arg;
    struct fg_profile_row row = {.time_ns = key->time_ns, .id = key->id};
    uint64_t total;

    if (ing_record_total(record, match->type, &total, err) != FG_OK)
        return err->code;
    if (total == 0) /* there is no profile of this type then */
        return FG_OK;
    if (find_set(rows, match, err) != FG_OK)
        return err->code;
    row.set = rows->set;
    if (!rows->head->spans) {
        row.value = (int64_t)total;
        return fg_profile_rows_add(&rows->rows, &row, err);
    }
    if (ing_record_read(record, match->type, true, &rows->columns, err) != FG_OK)
        return err->code;
    return add_spans(rows, &row, err);
}

/* Reads from the head what is wanted. */
static enum fg_code configure(struct rows_query *rows, struct fg_err *err)
{
    const Fg__Inner__RowsHead *head = rows->head;
    struct fg_profile_rows_config config = {
        .arena = rows->query->arena,
        .max_bytes = rows->query->context->memory_max_bytes / 2,
        .spans = head->spans,
        .group_by = (const char *const *)head->group_by,
        .n_group_by = head->n_group_by,
    };

    if (head->selection == NULL || head->step_ns < 0 ||
        head->selection->end_ns < head->selection->start_ns)
        return fg_fail(err, FG_E_INVALID, "rows without a selection or range");
    if (head->before_id.len != 0 && head->before_id.len != FG_ID_BYTES)
        return fg_fail(err, FG_E_INVALID, "rows: an id of %zu bytes", head->before_id.len);
    if (head->step_ns > 0) {
        config.keep = FG_ROWS_GREATEST;
        config.start_ns = head->selection->start_ns;
        config.step_ns = head->step_ns;
        config.last_step = ((uint64_t)head->selection->end_ns - (uint64_t)config.start_ns) /
                           (uint64_t)head->step_ns;
    } else if (head->newest > 0) {
        config.keep = FG_ROWS_NEWEST;
        config.n_newest = (size_t)head->newest;
        config.has_before = head->before_id.len > 0;
        config.before_ns = head->before_ns;
        if (config.has_before)
            config.before_id = fg_id_get(head->before_id.data);
    }
    fg_profile_rows_init(&rows->rows, &config);
    return FG_OK;
}

static enum fg_code answer(struct rows_query *rows, struct fg_err *err)
{
    const Fg__Inner__RowsHead *head = rows->head;
    struct ing_query *query = rows->query;
    Fg__Inner__RowsReply reply = FG__INNER__ROWS_REPLY__INIT;
    Fg__Inner__Stats stats;
    struct ing_query_scope scope;
    struct ing_query_sums sums;
    enum fg_code code;

    if (configure(rows, err) != FG_OK)
        return err->code;
    /* The step of the first grid point reaches back before the start, as in POINTS. */
    if (ing_query_scope(query, head->selection, head->profile_type,
                        head->step_ns == 0
                            ? head->selection->start_ns
                            : fg_time_add(head->selection->start_ns, FG_MS_NS - head->step_ns),
                        head->selection->end_ns, &scope, err) != FG_OK)
        return err->code;
    ing_query_sums_init(&sums, &scope.shards, query->arena, query->context->memory_max_bytes / 2);
    code = ing_query_scan(query, &scope, visit, NULL, rows, &sums, err);
    ing_query_scope_done(&scope);
    if (code == FG_OK) {
        fg_profile_rows_finish(&rows->rows);
        fg_profile_rows_encode(&rows->rows, &query->payload);
        ing_query_stats_fill(query, &stats);
        reply.stats = &stats;
        reply.sums = sums.items;
        reply.n_sums = sums.n;
        ing_query_put_reply(query, &reply.base);
    }
    ing_query_sums_done(&sums);
    return code;
}

enum fg_code ing_query_rows(struct ing_query *query, struct fg_err *err)
{
    struct fg_slice bytes = fg_rpc_head(query->req);
    Fg__Inner__RowsHead *head = fg__inner__rows_head__unpack(NULL, bytes.len, bytes.ptr);
    struct rows_query rows = {.query = query, .head = head};
    enum fg_code code;

    if (head == NULL)
        return fg_fail(err, FG_E_INVALID, "rows: head cannot be read");
    code = answer(&rows, err);
    fg_profile_rows_done(&rows.rows);
    ing_record_columns_done(&rows.columns);
    fg__inner__rows_head__free_unpacked(head, NULL);
    return code;
}
