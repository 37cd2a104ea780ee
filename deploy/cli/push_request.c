#include "deploy/cli/push_request.h"

#include "proto/push_v1.pb-c.h"

enum { LABELS_MAX_BYTES = 1024 * 1024 }; /* of a request: 64 KiB of text at most */

static Types__V1__LabelPair **make_pairs(struct fg_arena *arena, const struct fg_labels *labels)
{
    Types__V1__LabelPair **pairs = fg_arena_new(arena, Types__V1__LabelPair *, labels->count);

    for (size_t i = 0; pairs != NULL && i < labels->count; i++) {
        pairs[i] = fg_arena_new(arena, Types__V1__LabelPair, 1);
        if (pairs[i] == NULL)
            return NULL;
        types__v1__label_pair__init(pairs[i]);
        pairs[i]->name = fg_arena_text(arena, labels->items[i].name);
        pairs[i]->value = fg_arena_text(arena, labels->items[i].value);
        if (pairs[i]->name == NULL || pairs[i]->value == NULL)
            return NULL;
    }
    return pairs;
}

enum fg_code cli_push_request_write(const struct fg_labels *labels, const char *id,
                                    struct fg_slice pprof, struct fg_buf *out, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(LABELS_MAX_BYTES);
    Push__V1__RawSample sample, *samples[] = {&sample};
    Push__V1__RawProfileSeries series, *all[] = {&series};
    Push__V1__PushRequest request;
    size_t len;

    push__v1__raw_sample__init(&sample);
    push__v1__raw_profile_series__init(&series);
    push__v1__push_request__init(&request);
    /* Borrowed: protobuf-c only reads them when it packs, hence the casts that drop const. */
    sample.raw_profile = (ProtobufCBinaryData){pprof.len, (uint8_t *)(uintptr_t)pprof.ptr};
    if (id != NULL)
        sample.id = (char *)(uintptr_t)id;
    series.samples = samples;
    series.n_samples = 1;
    series.labels = make_pairs(arena, labels);
    series.n_labels = labels->count;
    request.series = all;
    request.n_series = 1;
    if (series.labels == NULL)
        return fg_fail(err, FG_E_LIMIT, "labels of too many bytes");
    len = push__v1__push_request__get_packed_size(&request);
    if (!fg_buf_reserve(out, len))
        return fg_fail(err, FG_E_LIMIT, "a request of %zu bytes", len);
    out->len += push__v1__push_request__pack(&request, out->ptr + out->len);
    return FG_OK;
}
