/* speedscope's JSON: each of its profiles says in its unit what it counts
 * (distributor/API.md#formats). */
#include "proto/speedscope.h"

#include "distributor/ingest/format.h"

enum {
    RATE_DEFAULT = 100,   /* samples a second, where the client does not say */
    RATE_NONE = 10000,    /* of weights without a unit, then */
    WEIGHT_SAMPLES = 100, /* a weight without a unit counts as so many samples */
};

/* What a weight is worth in the series' unit, where it does not become nanoseconds by its own. */
static int64_t factor_of(const struct dist_ingest *ingest, enum fg_speedscope_unit unit,
                         const struct dist_app_kind *kind)
{
    uint32_t rate = ingest->sample_rate == RATE_DEFAULT ? RATE_NONE : ingest->sample_rate;

    if (unit != FG_SPEEDSCOPE_NONE || !kind->timed)
        return 1;
    fg_assert(rate > 0); /* without a rate nothing is timed */
    return WEIGHT_SAMPLES * (FG_SECOND_NS / rate);
}

static enum fg_code name_series(const struct fg_speedscope_profile *profile, void *arg,
                                struct fg_speedscope_series *ret_series, struct fg_err *err)
{
    struct dist_ingest *ingest = arg;
    /* Bytes are no samples of a clock. */
    uint32_t rate = profile->unit == FG_SPEEDSCOPE_BYTES ? 0 : ingest->sample_rate;
    char *app = fg_arena_printf(ingest->arena, "%.*s%s", FG_S(ingest->name.app), profile->suffix);
    struct dist_app_kind kind;

    if (app == NULL)
        return dist_ingest_too_large(err);
    if (dist_app_kind_parse(fg_cstr(app), rate, &kind, err) != FG_OK)
        return err->code;
    *ret_series = (struct fg_speedscope_series){
        .type = {fg_cstr(kind.type), fg_cstr(kind.unit)},
        .factor = factor_of(ingest, profile->unit, &kind),
    };
    if (kind.timed) {
        fg_assert(rate > 0);
        ret_series->period_type = (struct fg_value_type){FG_LIT("cpu"), FG_LIT("nanoseconds")};
        ret_series->period = FG_SECOND_NS / rate;
    }
    return dist_ingest_labels(ingest, kind.app, "app_name", kind.name, &ret_series->labels, err);
}

enum fg_code dist_ingest_speedscope(struct dist_ingest *ingest, struct fg_err *err)
{
    const struct fg_speedscope_request request = {
        .upload = dist_ingest_upload(ingest, (struct fg_labels){0}),
        .namer = name_series,
        .namer_arg = ingest,
    };
    struct fg_slice body = ingest->body;

    if (dist_ingest_inflate(ingest, &body, err) != FG_OK)
        return err->code;
    return fg_speedscope_decode(body, &request, ingest->arena, dist_upload_sink, &ingest->upload,
                                &ingest->upload.counts.decode, err);
}
