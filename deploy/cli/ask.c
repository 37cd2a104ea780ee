#include "deploy/cli/ask.h"

#include "common/model/flame.h"
#include "common/net/pbjson.h"
#include "deploy/cli/treebytes.h"
#include "proto/querier_v1.pb-c.h"

static enum fg_code keep_types(const Querier__V1__SeriesResponse *series, struct fg_arena *arena,
                               struct cli_ask_list *ret_types, struct fg_err *err)
{
    struct cli_ask_list types = {fg_arena_new(arena, struct fg_slice, series->n_labels_set), 0};

    /* The arena bounds the list, no matter how many types a server sends. */
    if (types.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many profile types");
    for (size_t i = 0; i < series->n_labels_set; i++)
        /* A series without the label is listed as an empty set. */
        if (series->labels_set[i]->n_labels == 1)
            types.items[types.count++] = fg_cstr(series->labels_set[i]->labels[0]->value);
    fg_assert(types.count <= series->n_labels_set);
    *ret_types = types;
    return FG_OK;
}

enum fg_code cli_ask_types(struct cli_client *client, struct fg_slice selector,
                           const struct cli_selection_range *range, struct fg_arena *arena,
                           struct cli_ask_list *ret_types, struct fg_err *err)
{
    Querier__V1__SeriesRequest request;
    char *name = fg_arena_text(arena, FG_LIT("__profile_type__"));
    char *matcher = fg_arena_text(arena, selector);
    struct cli_client_reply reply = {0};
    ProtobufCMessage *message = NULL;

    if (name == NULL || matcher == NULL)
        return fg_fail(err, FG_E_LIMIT, "the selector is too long");
    querier__v1__series_request__init(&request);
    request.matchers = &matcher;
    request.n_matchers = 1;
    request.label_names = &name;
    request.n_label_names = 1;
    request.start = range->start_ms;
    request.end = range->end_ms;
    if (cli_client_call(client, "querier.v1.QuerierService/Series", &request.base, &reply, err) !=
        FG_OK)
        return err->code;
    enum fg_code code = fg_pb_read(fg_buf_slice(&reply.body),
                                   &querier__v1__series_response__descriptor, arena, &message, err);
    cli_client_reply_done(&reply);
    if (code != FG_OK)
        return code;
    return keep_types((const Querier__V1__SeriesResponse *)message, arena, ret_types, err);
}

/* ---- merges ---- */

/* Unpacks on the heap, not into the arena: an answer has up to 1 GiB, and is freed as soon as the
 * tree is decoded. */
static enum fg_code read_tree(struct fg_slice bytes, struct fg_tree *tree, struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesResponse *answer =
        querier__v1__select_merge_stacktraces_response__unpack(NULL, bytes.len, bytes.ptr);
    enum fg_code code;

    if (answer == NULL)
        return fg_fail(err, FG_E_DECODE, "the answer cannot be read");
    code = cli_treebytes_decode(fg_bytes(answer->tree.data, answer->tree.len), tree, err);
    querier__v1__select_merge_stacktraces_response__free_unpacked(answer, NULL);
    return code;
}

static enum fg_code copy_text(struct fg_arena *arena, struct fg_slice text, char **ret_copy,
                              struct fg_err *err)
{
    *ret_copy = fg_arena_text(arena, text);
    return *ret_copy == NULL ? fg_fail(err, FG_E_LIMIT, "the selector is too long") : FG_OK;
}

enum fg_code cli_ask_tree(struct cli_client *client, struct fg_slice type, struct fg_slice selector,
                          const struct cli_selection_range *range, uint64_t max_nodes,
                          struct fg_arena *arena, struct fg_tree *tree, struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesRequest request;
    struct cli_client_reply reply = {0};

    querier__v1__select_merge_stacktraces_request__init(&request);
    if (copy_text(arena, type, &request.profile_typeid, err) != FG_OK ||
        copy_text(arena, selector, &request.label_selector, err) != FG_OK)
        return err->code;
    request.start = range->start_ms;
    request.end = range->end_ms;
    request.opt_max_nodes_case =
        QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__OPT_MAX_NODES_MAX_NODES;
    /* Without max_nodes the server keeps 8192 nodes (FG_FLAME_NODES_DEFAULT); the user asked for
     * all. */
    request.max_nodes = max_nodes == 0 ? FG_FLAME_NODES_MAX : (int64_t)max_nodes;
    request.format = QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE;
    if (cli_client_call(client, "querier.v1.QuerierService/SelectMergeStacktraces", &request.base,
                        &reply, err) != FG_OK)
        return err->code;
    enum fg_code code = read_tree(fg_buf_slice(&reply.body), tree, err);
    cli_client_reply_done(&reply);
    return code;
}

/* ---- time series ---- */

enum fg_code cli_ask_stats(struct cli_client *client, struct fg_arena *arena,
                           struct cli_ask_stats *ret_stats, struct fg_err *err)
{
    Types__V1__GetProfileStatsRequest request;
    const Types__V1__GetProfileStatsResponse *answer;
    struct cli_client_reply reply = {0};
    ProtobufCMessage *message = NULL;

    types__v1__get_profile_stats_request__init(&request);
    if (cli_client_call(client, "querier.v1.QuerierService/GetProfileStats", &request.base, &reply,
                        err) != FG_OK)
        return err->code;
    enum fg_code code =
        fg_pb_read(fg_buf_slice(&reply.body), &types__v1__get_profile_stats_response__descriptor,
                   arena, &message, err);
    cli_client_reply_done(&reply);
    if (code != FG_OK)
        return code;
    answer = (const Types__V1__GetProfileStatsResponse *)message;
    /* Both are 0 if the server has no profiles. */
    *ret_stats = (struct cli_ask_stats){answer->oldest_profile_time, answer->newest_profile_time};
    return FG_OK;
}

enum fg_code cli_ask_series(struct cli_client *client, struct fg_slice type,
                            struct fg_slice selector, const struct cli_selection_range *range,
                            double step_s, bool rates, struct fg_arena *arena,
                            const Querier__V1__SelectSeriesResponse **ret_answer,
                            struct fg_err *err)
{
    Querier__V1__SelectSeriesRequest request;
    struct cli_client_reply reply = {0};
    ProtobufCMessage *message = NULL;
    enum fg_code code;

    querier__v1__select_series_request__init(&request);
    code = copy_text(arena, type, &request.profile_typeid, err);
    if (code == FG_OK)
        code = copy_text(arena, selector, &request.label_selector, err);
    request.start = range->start_ms;
    request.end = range->end_ms;
    request.step = step_s;
    if (code == FG_OK)
        code = cli_client_call(client,
                               rates ? "querier.v1.QuerierService/SelectSeries?statistics=true"
                                     : "querier.v1.QuerierService/SelectSeries",
                               &request.base, &reply, err);
    if (code == FG_OK)
        code = fg_pb_read(fg_buf_slice(&reply.body),
                          &querier__v1__select_series_response__descriptor, arena, &message, err);
    cli_client_reply_done(&reply);
    if (code == FG_OK)
        *ret_answer = (const Querier__V1__SelectSeriesResponse *)message;
    return code;
}

/* A point has the milliseconds (T - step, T], and the first T is the start, whose point is of the
 * time before the range. So the grid starts a millisecond earlier, with one step to the end: its
 * second point has the whole range, from its first nanosecond, like a flame graph. */
enum fg_code cli_ask_total(struct cli_client *client, struct fg_slice type,
                           struct fg_slice selector, const struct cli_selection_range *range,
                           struct fg_arena *arena, double *ret_total, struct fg_err *err)
{
    struct cli_selection_range grid = {range->start_ms - 1, range->end_ms};
    const Querier__V1__SelectSeriesResponse *answer;
    double total = 0;

    if (cli_ask_series(client, type, selector, &grid, (double)(grid.end_ms - grid.start_ms) / 1000,
                       false, arena, &answer, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < answer->n_series; i++)
        for (size_t k = 0; k < answer->series[i]->n_points; k++)
            if (answer->series[i]->points[k]->timestamp > grid.start_ms)
                total += answer->series[i]->points[k]->value;
    *ret_total = total;
    return FG_OK;
}
