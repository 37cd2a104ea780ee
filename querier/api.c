#include "querier/api.h"

#include "common/base/str.h"

enum fg_code qry_api_too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the response needs more memory than a response may use");
}

char *qry_api_text(struct fg_arena *arena, struct fg_slice from)
{
    char *text = fg_arena_text(arena, from);
    bool valid = fg_utf8_valid(from);

    /* Protobuf strings have to be UTF-8, and C strings end at a NUL; names of functions may be any
     * bytes. One invalid sequence makes all bytes of the text that are not ASCII doubtful. */
    for (size_t i = 0; text != NULL && i < from.len; i++)
        if (text[i] == '\0' || (!valid && (uint8_t)text[i] >= 0x80))
            text[i] = '?';
    return text;
}

void *qry_api_messages(struct fg_arena *arena, const ProtobufCMessageDescriptor *type, size_t n)
{
    char *items = fg_arena_calloc(arena, n, type->sizeof_message);
    ProtobufCMessage **array = fg_arena_new(arena, ProtobufCMessage *, n);

    if (items == NULL || array == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        array[i] = (ProtobufCMessage *)(void *)(items + i * type->sizeof_message);
        protobuf_c_message_init(type, array[i]);
    }
    return array;
}

Types__V1__LabelPair **qry_api_pairs(struct fg_arena *arena, const struct fg_labels *labels)
{
    Types__V1__LabelPair **pairs =
        qry_api_messages(arena, &types__v1__label_pair__descriptor, labels->count);

    for (size_t i = 0; pairs != NULL && i < labels->count; i++) {
        pairs[i]->name = qry_api_text(arena, labels->items[i].name);
        pairs[i]->value = qry_api_text(arena, labels->items[i].value);
        if (pairs[i]->name == NULL || pairs[i]->value == NULL)
            return NULL;
    }
    return pairs;
}

Types__V1__LabelPair **qry_api_group_pairs(struct fg_arena *arena, const struct fg_labels *labels,
                                           char *const *group_by, size_t n_group_by, size_t *ret_n)
{
    struct fg_labels ordered = {.items = fg_arena_new(arena, struct fg_label, n_group_by)};

    if (ordered.items == NULL)
        return NULL;
    for (size_t i = 0; i < n_group_by; i++) {
        struct fg_slice value = fg_labels_get(labels, group_by[i]);

        if (value.len > 0)
            ordered.items[ordered.count++] = (struct fg_label){fg_cstr(group_by[i]), value};
    }
    *ret_n = ordered.count;
    return qry_api_pairs(arena, &ordered);
}

/* ---- exemplars ---- */

/* Returns the labels of a row without those that rows are grouped by; profile type and service
 * first, as Pyroscope has them. items NULL: the arena is full. */
static struct fg_labels other_labels(const struct fg_profile_rows *rows, uint32_t set,
                                     struct fg_arena *arena)
{
    const struct fg_profile_rows_config *config = &rows->config;
    const struct fg_labels *all = &rows->sets.items[set];
    struct fg_labels others = {.items = fg_arena_new(arena, struct fg_label, all->count)};

    for (int round = 0; round < 2; round++)
        for (size_t i = 0; others.items != NULL && i < all->count; i++) {
            struct fg_slice name = all->items[i].name;
            bool is_first =
                fg_slice_is(name, "__profile_type__") || fg_slice_is(name, "__service_name__");
            bool wanted = is_first == (round == 0);

            for (size_t g = 0; g < config->n_group_by && wanted; g++)
                wanted = !fg_slice_is(name, config->group_by[g]);
            if (wanted)
                others.items[others.count++] = all->items[i];
        }
    return others;
}

/* Returns bytes as hex digits. NULL: the arena is full. */
static char *hex_text(struct fg_arena *arena, const uint8_t *bytes, size_t len)
{
    struct fg_buf digits;
    char *text;

    fg_buf_init(&digits, 2 * len);
    fg_buf_hex(&digits, bytes, len);
    text = fg_arena_text(arena, fg_buf_slice(&digits));
    fg_buf_done(&digits);
    return text;
}

char *qry_api_uuid(struct fg_arena *arena, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES];
    const char *hex;

    fg_id_put(bytes, id);
    hex = hex_text(arena, bytes, sizeof bytes);
    return hex == NULL ? NULL
                       : fg_arena_printf(arena, "%.8s-%.4s-%.4s-%.4s-%s", hex, hex + 8, hex + 12,
                                         hex + 16, hex + 20);
}

/* Makes the texts of a span and, unless it is zero, of its trace. */
static bool put_span(struct fg_arena *arena, const struct fg_profile_row *row,
                     Types__V1__Exemplar *exemplar)
{
    static const uint8_t none[FG_ID_BYTES];
    uint8_t span[8];

    for (size_t i = 0; i < sizeof span; i++) /* as it was read: distributor/API.md#sample-labels */
        span[i] = (uint8_t)(row->span_id >> 8 * i);
    exemplar->span_id = hex_text(arena, span, sizeof span);
    if (memcmp(row->trace_id, none, sizeof none) != 0)
        exemplar->trace_id = hex_text(arena, row->trace_id, sizeof row->trace_id);
    return exemplar->span_id != NULL && exemplar->trace_id != NULL;
}

Types__V1__Exemplar **qry_api_exemplars(struct fg_arena *arena, const struct fg_profile_rows *rows,
                                        const struct fg_profile_row *const *picked, size_t n)
{
    Types__V1__Exemplar **exemplars = qry_api_messages(arena, &types__v1__exemplar__descriptor, n);

    for (size_t i = 0; exemplars != NULL && i < n; i++) {
        const struct fg_profile_row *row = picked[i];
        struct fg_labels labels = other_labels(rows, row->set, arena);

        exemplars[i]->timestamp = row->time_ns / FG_MS_NS;
        exemplars[i]->value = row->value;
        if (labels.items == NULL)
            return NULL;
        exemplars[i]->labels = qry_api_pairs(arena, &labels);
        exemplars[i]->n_labels = labels.count;
        if (exemplars[i]->labels == NULL)
            return NULL;
        if (rows->config.spans) {
            if (!put_span(arena, row, exemplars[i]))
                return NULL;
            continue;
        }
        exemplars[i]->profile_id = qry_api_uuid(arena, row->id);
        if (exemplars[i]->profile_id == NULL)
            return NULL;
    }
    return exemplars;
}

/* ---- the methods ---- */

#define METHOD(name) "/querier.v1.QuerierService/" name, name

/* clang-format off */
const struct qry_endpoint qry_api_endpoints[] = {
    {METHOD("ProfileTypes"), &querier__v1__profile_types_request__descriptor, qry_api_profile_types, 0, false},
    {METHOD("LabelNames"), &types__v1__label_names_request__descriptor, qry_api_label_names, 0, false},
    {METHOD("LabelValues"), &types__v1__label_values_request__descriptor, qry_api_label_values, 0, false},
    {METHOD("Series"), &querier__v1__series_request__descriptor, qry_api_series, 0, false},
    {METHOD("SelectMergeStacktraces"),
     &querier__v1__select_merge_stacktraces_request__descriptor, qry_api_select_merge_stacktraces, 0, false},
    {METHOD("SelectMergeSpanProfile"),
     &querier__v1__select_merge_span_profile_request__descriptor, qry_api_select_merge_span_profile, 0, false},
    {METHOD("SelectMergeProfile"),
     &querier__v1__select_merge_profile_request__descriptor, qry_api_select_merge_profile, 0, false},
    {METHOD("SelectSeries"), &querier__v1__select_series_request__descriptor, qry_api_select_series, 0, false},
    {METHOD("SelectHeatmap"), &querier__v1__select_heatmap_request__descriptor, qry_api_select_heatmap, 0, false},
    {METHOD("Diff"), &querier__v1__diff_request__descriptor, qry_api_diff_method, 0, false},
    {METHOD("GetProfileStats"), &types__v1__get_profile_stats_request__descriptor, qry_api_profile_stats, 0, true},
    {METHOD("AnalyzeQuery"), &querier__v1__analyze_query_request__descriptor, qry_api_analyze_query, 0, false},
};
/* clang-format on */
const size_t qry_n_api_endpoints = FG_COUNT(qry_api_endpoints);
