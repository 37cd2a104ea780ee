#include "deploy/single/ask.h"

#include "common/net/pbjson.h"
#include "proto/querier_v1.pb-c.h"

static enum fg_code keep_types(const Querier__V1__SeriesResponse *series, struct fg_arena *arena,
                               struct ask_list *ret_types, struct fg_err *err)
{
    struct ask_list types = {fg_arena_new(arena, struct fg_slice, series->n_labels_set), 0};

    if (types.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many profile types");
    for (size_t i = 0; i < series->n_labels_set; i++)
        if (series->labels_set[i]->n_labels == 1) /* one that lacks the label is listed without */
            types.items[types.count++] = fg_cstr(series->labels_set[i]->labels[0]->value);
    *ret_types = types;
    return FG_OK;
}

enum fg_code ask_types(struct client *client, struct fg_slice selector,
                       const struct selection_range *range, struct fg_arena *arena,
                       struct ask_list *ret_types, struct fg_err *err)
{
    Querier__V1__SeriesRequest request;
    char *name = fg_arena_text(arena, FG_LIT("__profile_type__"));
    char *matcher = fg_arena_text(arena, selector);
    struct client_reply reply = {0};
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
    if (client_call(client, "querier.v1.QuerierService/Series", &request.base, &reply, err) !=
        FG_OK)
        return err->code;
    enum fg_code code = fg_pb_read(fg_buf_slice(&reply.body),
                                   &querier__v1__series_response__descriptor, arena, &message, err);
    client_reply_done(&reply);
    if (code != FG_OK)
        return code;
    return keep_types((const Querier__V1__SeriesResponse *)message, arena, ret_types, err);
}
