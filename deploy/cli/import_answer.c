#include "deploy/cli/import_answer.h"

#include "common/base/cursor.h"
#include "common/base/time.h"
#include "common/net/pbjson.h"
#include "proto/pprof/pprof.h"
#include "proto/querier_v1.pb-c.h"

/* Fields of google.v1.Profile (pprof's profile.proto). */
enum { PPROF_TIME_NANOS = 9, PPROF_DURATION_NANOS = 10 };

static enum fg_code read_message(struct fg_slice in, const ProtobufCMessageDescriptor *type,
                                 struct fg_arena *arena, ProtobufCMessage **ret_message,
                                 struct fg_err *err)
{
    if (fg_pb_read(in, type, arena, ret_message, err) == FG_OK)
        return FG_OK;
    return err->code == FG_E_LIMIT ? err->code
                                   : fg_fail(err, FG_E_DECODE, "the answer is no %s", type->name);
}

enum fg_code cli_import_read_series(struct fg_slice in, struct fg_arena *arena,
                                    struct fg_labels **ret_sets, size_t *ret_n, struct fg_err *err)
{
    const Querier__V1__SeriesResponse *answer;
    ProtobufCMessage *message = NULL;
    struct fg_labels *sets;

    if (read_message(in, &querier__v1__series_response__descriptor, arena, &message, err) != FG_OK)
        return err->code;
    answer = (const Querier__V1__SeriesResponse *)message;
    sets = fg_arena_new(arena, struct fg_labels, answer->n_labels_set);
    for (size_t i = 0; sets != NULL && i < answer->n_labels_set; i++) {
        const Types__V1__Labels *set = answer->labels_set[i];

        sets[i].items = fg_arena_new(arena, struct fg_label, set->n_labels);
        if (sets[i].items == NULL)
            return fg_fail(err, FG_E_LIMIT, "too many series in an hour");
        for (size_t j = 0; j < set->n_labels; j++)
            sets[i].items[sets[i].count++] =
                (struct fg_label){fg_cstr(set->labels[j]->name), fg_cstr(set->labels[j]->value)};
    }
    if (sets == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many series in an hour");
    *ret_sets = sets;
    *ret_n = answer->n_labels_set;
    return FG_OK;
}

enum fg_code cli_import_read_points(struct fg_slice in, struct fg_arena *arena,
                                    struct cli_import_point **ret_points, size_t *ret_n,
                                    struct fg_err *err)
{
    const Querier__V1__SelectSeriesResponse *answer;
    const Types__V1__Series *series;
    struct cli_import_point *points;
    ProtobufCMessage *message = NULL;

    if (read_message(in, &querier__v1__select_series_response__descriptor, arena, &message, err) !=
        FG_OK)
        return err->code;
    answer = (const Querier__V1__SelectSeriesResponse *)message;
    if (answer->n_series > 1)
        return fg_fail(err, FG_E_DECODE, "the answer has %zu series instead of one",
                       answer->n_series);
    if (answer->n_series == 0) {
        *ret_points = NULL;
        *ret_n = 0;
        return FG_OK;
    }
    series = answer->series[0];
    points = fg_arena_new(arena, struct cli_import_point, series->n_points);
    if (points == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many profiles in an hour");
    for (size_t i = 0; i < series->n_points; i++)
        points[i] =
            (struct cli_import_point){series->points[i]->timestamp, series->points[i]->value};
    *ret_points = points;
    *ret_n = series->n_points;
    return FG_OK;
}

enum fg_code cli_import_read_oldest(struct fg_slice in, struct fg_arena *arena,
                                    int64_t *ret_oldest_ms, struct fg_err *err)
{
    ProtobufCMessage *message = NULL;

    if (read_message(in, &types__v1__get_profile_stats_response__descriptor, arena, &message,
                     err) != FG_OK)
        return err->code;
    *ret_oldest_ms = ((const Types__V1__GetProfileStatsResponse *)message)->oldest_profile_time;
    return FG_OK;
}

/* ---- pprof ---- */

enum fg_code cli_import_read_profile(struct fg_slice in, const struct cli_import_series *series,
                                     struct fg_arena *arena, double *ret_sum, struct fg_err *err)
{
    const struct fg_pprof_request request = {
        .upload = {.labels = series->pushed, .time_ns = FG_SECOND_NS},
        .quirks = FG_PPROF_NOT_GO, /* what it repairs was repaired when it was stored */
    };
    struct fg_decode_counts counts = {0};
    struct fg_profile_type type;
    struct fg_pprof_info info;
    struct fg_batch batch;
    double sum = 0;

    if (in.len == 0) {
        *ret_sum = 0;
        return FG_OK;
    }
    if (fg_pprof_decode(in, &request, arena, &batch, &info, &counts, err) != FG_OK) {
        err->code = err->code == FG_E_TOO_LARGE ? FG_E_LIMIT : FG_E_DECODE;
        return err->code;
    }
    if (fg_profile_type_parse(series->type, &type, err) != FG_OK)
        return err->code;
    if (batch.n_types != 1 || !fg_slice_eq(batch.types[0].type, type.type) ||
        !fg_slice_eq(batch.types[0].unit, type.unit))
        return fg_fail(err, FG_E_DECODE, "the answer is a profile of another type");
    for (uint32_t i = 0; i < batch.n_profiles; i++)
        for (uint32_t j = 0; j < batch.profiles[i].n_samples; j++)
            sum += (double)batch.profiles[i].values[j];
    *ret_sum = sum;
    return FG_OK;
}

void cli_import_write_profile(struct fg_slice in, int64_t time_ms, struct fg_buf *out)
{
    struct fg_cur cur = fg_cur(in);

    while (fg_cur_more(&cur)) {
        struct fg_slice rest = fg_bytes(cur.ptr, cur.left);
        uint64_t tag = fg_cur_varint(&cur);

        fg_pb_skip(&cur, tag);
        if (tag != FG_PB_TAG(PPROF_TIME_NANOS, FG_PB_VARINT) &&
            tag != FG_PB_TAG(PPROF_DURATION_NANOS, FG_PB_VARINT) && !cur.bad)
            fg_buf_put(out, fg_slice_sub(rest, 0, rest.len - cur.left));
    }
    fg_buf_varint(out, FG_PB_TAG(PPROF_TIME_NANOS, FG_PB_VARINT));
    fg_buf_varint(out, (uint64_t)(time_ms * FG_MS_NS));
}
