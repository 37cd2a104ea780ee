/* The methods for metadata: which types, labels and series there are. */
#include "querier/api.h"
#include "querier/collect.h"
#include "querier/reply.h"

static enum fg_code fill_type(struct fg_arena *arena, struct fg_slice id,
                              Types__V1__ProfileType *type, struct fg_err *err)
{
    struct fg_profile_type parts;

    if (fg_profile_type_parse(id, &parts, err) != FG_OK) /* checked when it was stored */
        return fg_fail(err, FG_E_CORRUPT, "stored profile type %.*s", FG_S(id));
    type->id = qry_api_text(arena, id);
    type->name = qry_api_text(arena, parts.name);
    type->sample_type = qry_api_text(arena, parts.type);
    type->sample_unit = qry_api_text(arena, parts.unit);
    type->period_type = qry_api_text(arena, parts.period_type);
    type->period_unit = qry_api_text(arena, parts.period_unit);
    if (type->id == NULL || type->name == NULL || type->sample_type == NULL ||
        type->sample_unit == NULL || type->period_type == NULL || type->period_unit == NULL)
        return qry_api_too_large(err);
    return FG_OK;
}

static enum fg_code reply_types(struct qry_query *query, const struct qry_label_sets *sets,
                                struct fg_err *err)
{
    Querier__V1__ProfileTypesResponse out;

    querier__v1__profile_types_response__init(&out);
    out.profile_types =
        qry_api_messages(query->arena, &types__v1__profile_type__descriptor, sets->n);
    if (out.profile_types == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < sets->n; i++) {
        struct fg_slice id = fg_labels_get(&sets->items[i], FG_LABEL_PROFILE_TYPE);

        if (id.len == 0)
            continue;
        if (fill_type(query->arena, id, out.profile_types[out.n_profile_types], err) != FG_OK)
            return err->code;
        out.n_profile_types++;
    }
    return qry_reply_message(query, &out.base, err);
}

enum fg_code qry_api_profile_types(struct qry_query *query, const ProtobufCMessage *message,
                                   struct fg_err *err)
{
    const Querier__V1__ProfileTypesRequest *in = (const Querier__V1__ProfileTypesRequest *)message;
    static const char *const names[] = {FG_LABEL_PROFILE_TYPE};
    int64_t start_ms = in->start, end_ms = in->end;
    struct qry_selection selection = {0};
    struct qry_label_sets sets;

    /* The range may be left out for the last hour, as in Pyroscope. */
    if (start_ms == 0 && end_ms == 0) {
        end_ms = fg_wall_ns(query->querier->clock) / FG_MS_NS;
        start_ms = end_ms - FG_HOUR_NS / FG_MS_NS;
    }
    if (qry_selection_range(query, &selection, start_ms, end_ms, err) != FG_OK)
        return err->code;
    qry_label_sets_init(&sets);
    enum fg_code code = qry_collect_series(query, &selection, names, FG_COUNT(names), &sets, err);
    if (code == FG_OK)
        code = reply_types(query, &sets, err);
    qry_label_sets_done(&sets);
    qry_selection_done(&selection);
    return code;
}

/* Counts series for a metadata method. FG_E_LIMIT if some did not fit: a list that was cut would
 * look like a whole one. */
static enum fg_code count_labels(struct qry_query *query, struct qry_selection *selection,
                                 char *const *matchers, size_t n_matchers,
                                 struct qry_cardinality *into, struct fg_err *err)
{
    if (qry_selection_matchers(query, selection, matchers, n_matchers,
                               "parsing label selector: failed to parse label selector",
                               err) != FG_OK ||
        qry_collect_labels(query, selection, into, err) != FG_OK)
        return err->code;
    if (into->series_cut || into->values_cut)
        return fg_fail(
            err, FG_E_LIMIT,
            "the list needs more than %llu bytes (querier.answer_max_bytes): select fewer "
            "series, or read it in pages from /api/labels",
            (unsigned long long)query->querier->answer_max_bytes);
    return FG_OK;
}

static enum fg_code reply_names(struct qry_query *query, struct qry_cardinality *found,
                                bool utf8_names, struct fg_err *err)
{
    Types__V1__LabelNamesResponse out;
    size_t n;
    const struct qry_label_name *names = qry_cardinality_names(found, &n);

    types__v1__label_names_response__init(&out);
    out.names = fg_arena_new(query->arena, char *, n);
    if (out.names == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < n; i++) {
        /* Clients of Pyroscope get such names only if they ask for them (querier/API.md). */
        if (!utf8_names && !qry_is_plain_label_name(names[i].text))
            continue;
        out.names[out.n_names] = qry_api_text(query->arena, names[i].text);
        if (out.names[out.n_names++] == NULL)
            return qry_api_too_large(err);
    }
    return qry_reply_message(query, &out.base, err);
}

enum fg_code qry_api_label_names(struct qry_query *query, const ProtobufCMessage *message,
                                 struct fg_err *err)
{
    const Types__V1__LabelNamesRequest *in = (const Types__V1__LabelNamesRequest *)message;
    const struct qry_cardinality_config config = {.names_only = true,
                                                  .max_bytes = query->querier->answer_max_bytes};
    struct qry_selection selection = {0};
    struct qry_cardinality found;
    bool utf8_names;

    if (qry_accept_utf8_names(query->accept, &utf8_names, err) != FG_OK ||
        qry_selection_range(query, &selection, in->start, in->end, err) != FG_OK)
        return err->code;
    qry_cardinality_init(&found, &config);
    enum fg_code code = count_labels(query, &selection, in->matchers, in->n_matchers, &found, err);
    if (code == FG_OK)
        code = reply_names(query, &found, utf8_names, err);
    qry_cardinality_done(&found);
    qry_selection_done(&selection);
    return code;
}

static enum fg_code reply_values(struct qry_query *query, struct qry_cardinality *found,
                                 struct fg_err *err)
{
    Types__V1__LabelValuesResponse out;
    size_t n;
    const struct qry_label_value *values = qry_cardinality_values(found, &n);

    types__v1__label_values_response__init(&out);
    out.names = fg_arena_new(query->arena, char *, n);
    if (out.names == NULL)
        return qry_api_too_large(err);
    for (; out.n_names < n; out.n_names++) {
        out.names[out.n_names] = qry_api_text(query->arena, values[out.n_names].text);
        if (out.names[out.n_names] == NULL)
            return qry_api_too_large(err);
    }
    return qry_reply_message(query, &out.base, err);
}

enum fg_code qry_api_label_values(struct qry_query *query, const ProtobufCMessage *message,
                                  struct fg_err *err)
{
    const Types__V1__LabelValuesRequest *in = (const Types__V1__LabelValuesRequest *)message;
    const struct qry_cardinality_config config = {.label = in->name,
                                                  .max_bytes = query->querier->answer_max_bytes};
    struct qry_selection selection = {0};
    struct qry_cardinality found;

    if (in->name[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "name is required");
    if (qry_selection_range(query, &selection, in->start, in->end, err) != FG_OK)
        return err->code;
    qry_cardinality_init(&found, &config);
    enum fg_code code = count_labels(query, &selection, in->matchers, in->n_matchers, &found, err);
    if (code == FG_OK)
        code = reply_values(query, &found, err);
    qry_cardinality_done(&found);
    qry_selection_done(&selection);
    return code;
}

static enum fg_code reply_series(struct qry_query *query, const struct qry_label_sets *sets,
                                 struct fg_err *err)
{
    Querier__V1__SeriesResponse out;

    querier__v1__series_response__init(&out);
    out.labels_set = qry_api_messages(query->arena, &types__v1__labels__descriptor, sets->n);
    if (out.labels_set == NULL)
        return qry_api_too_large(err);
    out.n_labels_set = sets->n;
    for (size_t i = 0; i < sets->n; i++) {
        out.labels_set[i]->labels = qry_api_pairs(query->arena, &sets->items[i]);
        out.labels_set[i]->n_labels = sets->items[i].count;
        if (out.labels_set[i]->labels == NULL)
            return qry_api_too_large(err);
    }
    return qry_reply_message(query, &out.base, err);
}

/* Removes labels whose names are not plain; sets that become equal become one. */
static enum fg_code plain_names_only(struct qry_query *query, const struct qry_label_sets *from,
                                     struct qry_label_sets *into, struct fg_err *err)
{
    for (size_t i = 0; i < from->n; i++) {
        struct fg_labels labels = from->items[i];
        size_t kept = 0;

        for (size_t j = 0; j < labels.count; j++)
            if (qry_is_plain_label_name(labels.items[j].name))
                /* In place: nobody reads the labels of `from` afterwards. */
                labels.items[kept++] = labels.items[j];
        labels.count = kept;
        if (qry_label_sets_add(into, &labels, query->arena, err) != FG_OK)
            return err->code;
    }
    qry_label_sets_sort(into);
    return FG_OK;
}

static enum fg_code series_answer(struct qry_query *query, const Querier__V1__SeriesRequest *in,
                                  struct qry_selection *selection, bool utf8_names,
                                  struct qry_label_sets sets[2], struct fg_err *err)
{
    /* The second set is filled only if names have to be left out. */
    struct qry_label_sets *shown = &sets[0];

    if (qry_selection_matchers(query, selection, in->matchers, in->n_matchers,
                               "failed to parse label selector", err) != FG_OK ||
        qry_collect_series(query, selection, (const char *const *)in->label_names,
                           in->n_label_names, &sets[0], err) != FG_OK)
        return err->code;
    if (!utf8_names) {
        shown = &sets[1];
        if (plain_names_only(query, &sets[0], shown, err) != FG_OK)
            return err->code;
    }
    return reply_series(query, shown, err);
}

enum fg_code qry_api_series(struct qry_query *query, const ProtobufCMessage *message,
                            struct fg_err *err)
{
    const Querier__V1__SeriesRequest *in = (const Querier__V1__SeriesRequest *)message;
    struct qry_selection selection = {0};
    struct qry_label_sets sets[2]; /* as they came, and with plain names only */
    bool utf8_names;

    if (qry_accept_utf8_names(query->accept, &utf8_names, err) != FG_OK ||
        qry_selection_range(query, &selection, in->start, in->end, err) != FG_OK)
        return err->code;
    qry_label_sets_init(&sets[0]);
    qry_label_sets_init(&sets[1]);
    enum fg_code code = series_answer(query, in, &selection, utf8_names, sets, err);
    qry_label_sets_done(&sets[0]);
    qry_label_sets_done(&sets[1]);
    qry_selection_done(&selection);
    return code;
}

enum fg_code qry_api_profile_stats(struct qry_query *query, const ProtobufCMessage *message,
                                   struct fg_err *err)
{
    Types__V1__GetProfileStatsResponse out;
    struct qry_tenant_stats stats;

    (void)message;
    /* As Pyroscope: the answer is about one tenant. */
    if (query->tenants.n > 1)
        return fg_fail(err, FG_E_INVALID, "multiple org IDs present");
    if (qry_collect_stats(query, &stats, err) != FG_OK)
        return err->code;
    types__v1__get_profile_stats_response__init(&out);
    if (stats.profiles > 0) {
        out.data_ingested = true;
        out.oldest_profile_time = stats.oldest_ns / FG_MS_NS;
        out.newest_profile_time = stats.newest_ns / FG_MS_NS;
    }
    return qry_reply_message(query, &out.base, err);
}

enum fg_code qry_api_analyze_query(struct qry_query *query, const ProtobufCMessage *message,
                                   struct fg_err *err)
{
    Querier__V1__AnalyzeQueryResponse out;

    /* Pyroscope's estimates are about its own storage. An empty response is valid. */
    (void)message;
    querier__v1__analyze_query_response__init(&out);
    return qry_reply_message(query, &out.base, err);
}
