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

/* ---- the methods ---- */

#define METHOD(name) "/querier.v1.QuerierService/" name, name

/* clang-format off */
const struct qry_endpoint qry_api_endpoints[] = {
    {METHOD("ProfileTypes"), &querier__v1__profile_types_request__descriptor, qry_api_profile_types},
    {METHOD("LabelNames"), &types__v1__label_names_request__descriptor, qry_api_label_names},
    {METHOD("LabelValues"), &types__v1__label_values_request__descriptor, qry_api_label_values},
    {METHOD("Series"), &querier__v1__series_request__descriptor, qry_api_series},
    {METHOD("SelectMergeStacktraces"),
     &querier__v1__select_merge_stacktraces_request__descriptor, qry_api_select_merge_stacktraces},
    {METHOD("SelectMergeSpanProfile"),
     &querier__v1__select_merge_span_profile_request__descriptor, qry_api_select_merge_span_profile},
    {METHOD("SelectMergeProfile"),
     &querier__v1__select_merge_profile_request__descriptor, qry_api_select_merge_profile},
    {METHOD("SelectSeries"), &querier__v1__select_series_request__descriptor, qry_api_select_series},
    {METHOD("Diff"), &querier__v1__diff_request__descriptor, qry_api_diff_method},
    {METHOD("GetProfileStats"), &types__v1__get_profile_stats_request__descriptor, qry_api_profile_stats},
    {METHOD("AnalyzeQuery"), &querier__v1__analyze_query_request__descriptor, qry_api_analyze_query},
};
/* clang-format on */
const size_t qry_n_api_endpoints = FG_COUNT(qry_api_endpoints);
