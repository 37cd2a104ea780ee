#include "common/model/pprof_write.h"
#include "ingester/forward/parcel_impl.h"
#include "proto/push_v1.pb-c.h"

#include <libdeflate.h>

/* Half of a pprof's bytes for 3 ns of CPU each; 2 leaves 47 % and takes twice as long, 6 45 % and
 * four times. */
enum { GZIP_LEVEL = 1 };

static void put_labels(const struct fg_labels *labels, Types__V1__LabelPair *pairs,
                       Types__V1__LabelPair **pointers, struct fg_arena *arena)
{
    for (size_t i = 0; i < labels->count; i++) {
        types__v1__label_pair__init(&pairs[i]);
        pairs[i].name = fg_arena_text(arena, labels->items[i].name);
        pairs[i].value = fg_arena_text(arena, labels->items[i].value);
        pointers[i] = &pairs[i];
    }
}

static enum fg_code put_push(struct ing_parcel *parcel, const struct fg_profile *profile,
                             struct fg_slice pprof, struct fg_err *err)
{
    Push__V1__PushRequest request = PUSH__V1__PUSH_REQUEST__INIT;
    Push__V1__RawProfileSeries series = PUSH__V1__RAW_PROFILE_SERIES__INIT, *one = &series;
    Push__V1__RawSample sample = PUSH__V1__RAW_SAMPLE__INIT, *first = &sample;
    size_t n = profile->labels.count;
    Types__V1__LabelPair *pairs = fg_arena_new(parcel->round_arena, Types__V1__LabelPair, n);
    Types__V1__LabelPair **pointers = fg_arena_new(parcel->round_arena, Types__V1__LabelPair *, n);
    char id[37];

    if (pairs == NULL || pointers == NULL)
        return fg_fail(err, FG_E_LIMIT, "labels of a profile");
    put_labels(&profile->labels, pairs, pointers, parcel->round_arena);
    for (size_t i = 0; i < n; i++)
        if (pairs[i].name == NULL || pairs[i].value == NULL)
            return fg_fail(err, FG_E_LIMIT, "labels of a profile");
    /* The same at every try, for receivers that look at it. */
    (void)snprintf(id, sizeof id, "%08x-%04x-%04x-%04x-%012llx", (uint32_t)(profile->id.hi >> 32),
                   (unsigned)(profile->id.hi >> 16 & 0xffff), (unsigned)(profile->id.hi & 0xffff),
                   (unsigned)(profile->id.lo >> 48),
                   (unsigned long long)(profile->id.lo & UINT64_C(0xffffffffffff)));
    sample.raw_profile = (ProtobufCBinaryData){pprof.len, (uint8_t *)(uintptr_t)pprof.ptr};
    sample.id = id;
    series.labels = pointers;
    series.n_labels = n;
    series.samples = &first;
    series.n_samples = 1;
    request.series = &one;
    request.n_series = 1;
    if (!fg_buf_reserve(&parcel->body, push__v1__push_request__get_packed_size(&request)))
        return fg_fail(err, FG_E_TOO_LARGE, "a pprof of %zu bytes is too large to be pushed",
                       pprof.len);
    parcel->body.len += push__v1__push_request__pack(&request, parcel->body.ptr);
    return FG_OK;
}

/* Pushes a pprof as agents send it. */
static enum fg_code put_gzip(struct ing_parcel *parcel, const struct fg_profile *profile,
                             struct fg_slice pprof, struct fg_err *err)
{
    struct fg_buf packed;
    enum fg_code code;
    size_t bound;

    if (parcel->gzip == NULL)
        parcel->gzip = libdeflate_alloc_compressor(GZIP_LEVEL);
    fg_assert(parcel->gzip != NULL);
    bound = libdeflate_gzip_compress_bound(parcel->gzip, pprof.len);
    fg_buf_init(&packed, SIZE_MAX);
    fg_assert(fg_buf_reserve(&packed, bound));
    packed.len = libdeflate_gzip_compress(parcel->gzip, pprof.ptr, pprof.len, packed.ptr, bound);
    fg_assert(packed.len > 0); /* it fits the bound */
    code = put_push(parcel, profile, fg_buf_slice(&packed), err);
    fg_buf_done(&packed);
    return code;
}

enum fg_code ing_parcel_put_pprof(struct ing_parcel *parcel, const struct fg_batch *batch,
                                  const struct ing_export_stacks *stacks, struct fg_err *err)
{
    const struct fg_profile *profile = &batch->profiles[0];
    uint32_t *nodes = fg_arena_new(parcel->round_arena, uint32_t, profile->n_samples);
    const struct fg_pprof_head head = {
        .type = {.period_type = batch->period_type.type, .period_unit = batch->period_type.unit},
        .period = profile->period,
        .time_ns = profile->time_ns,
        .duration_ns = profile->duration_ns,
    };
    struct fg_buf pprof;
    enum fg_code code;

    if (nodes == NULL)
        return fg_fail(err, FG_E_LIMIT, "samples of a profile");
    for (uint32_t i = 0; i < profile->n_samples; i++)
        nodes[i] = stacks->nodes[profile->stacks[i]] - 1; /* 0 - 1 is FG_TREE_ROOT */
    fg_buf_init(&pprof, PARCEL_BODY_MAX_BYTES);
    fg_pprof_write_samples(stacks->tree,
                           &(struct fg_pprof_samples){
                               .types = batch->types,
                               .nodes = nodes,
                               .values = profile->values,
                               .n_types = batch->n_types,
                               .count = profile->n_samples,
                               .links = profile->links,
                               .n_links = profile->n_links,
                           },
                           &head, &pprof);
    code = pprof.full
               ? fg_fail(err, FG_E_TOO_LARGE, "the pprof exceeds %d bytes", PARCEL_BODY_MAX_BYTES)
               : put_gzip(parcel, profile, fg_buf_slice(&pprof), err);
    fg_buf_done(&pprof);
    return code;
}
