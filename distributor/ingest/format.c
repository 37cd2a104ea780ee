#include "distributor/ingest/format.h"

#include "distributor/labels.h"

enum fg_code dist_ingest_too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "upload needs more memory than decoding may use");
}

/* Later ones win when the set is sorted, so the client's come last. */
enum fg_code dist_ingest_labels(struct dist_ingest *ingest, struct fg_slice app,
                                const char *app_label, const char *profile_name,
                                struct fg_labels *ret_labels, struct fg_err *err)
{
    const struct fg_labels *sent = &ingest->name.labels;
    struct fg_label *items = fg_arena_new(ingest->arena, struct fg_label, sent->count + 4);
    bool own_service = fg_labels_get(sent, FG_LABEL_SERVICE).len > 0;
    size_t n = 0;

    if (items == NULL)
        return dist_ingest_too_large(err);
    /* A service_name in the name's labels is the client's choice; the application's name becomes a
     * label of its own then, and is not lost. */
    if (!own_service)
        items[n++] = (struct fg_label){FG_LIT(FG_LABEL_SERVICE), app};
    else if (app_label != NULL)
        items[n++] = (struct fg_label){fg_cstr(app_label), app};
    items[n++] = (struct fg_label){FG_LIT("pyroscope_spy"), ingest->spy};
    if (profile_name != NULL)
        items[n++] = (struct fg_label){FG_LIT(FG_LABEL_NAME), fg_cstr(profile_name)};
    if (sent->count > 0)
        memcpy(items + n, sent->items, sent->count * sizeof *items);
    return dist_series_labels(&(struct fg_labels){items, n + sent->count},
                              &ingest->upload.limits->values, ingest->arena, ret_labels, err);
}

struct fg_upload dist_ingest_upload(struct dist_ingest *ingest, struct fg_labels labels)
{
    int64_t duration_ns = 0;

    /* Both times are the client's: their difference may exceed 64 bits. */
    if (ingest->until_ns > ingest->from_ns &&
        __builtin_sub_overflow(ingest->until_ns, ingest->from_ns, &duration_ns))
        duration_ns = 0;
    return (struct fg_upload){
        .labels = labels,
        .time_ns = ingest->from_ns,
        .duration_ns = duration_ns,
        .limits = ingest->upload.decode_limits,
        .rules = &ingest->upload.rules,
    };
}

enum fg_code dist_ingest_inflate_part(struct dist_ingest *ingest, struct fg_slice *body,
                                      struct fg_err *err)
{
    uint64_t max = ingest->upload.limits->values.max_profile_size_bytes;

    if (dist_workspace_inflate(ingest->space, fg_coding_sniff(*body), max, body, err) == FG_OK) {
        ingest->upload.counts.inflated_bytes += body->len;
        return FG_OK;
    }
    if (err->code == FG_E_TOO_LARGE)
        return fg_fail(err, FG_E_DECODE,
                       "decompressed size exceeds maximum allowed size of %llu bytes "
                       "(limits.max_profile_size_bytes)",
                       (unsigned long long)max);
    return err->code;
}

enum fg_code dist_ingest_inflate(struct dist_ingest *ingest, struct fg_slice *body,
                                 struct fg_err *err)
{
    size_t sent_bytes = body->len;

    if (dist_ingest_inflate_part(ingest, body, err) != FG_OK)
        return err->code;
    dist_upload_measure(&ingest->upload, sent_bytes, ingest->body.len, body->len);
    return dist_upload_admit(&ingest->upload, body->len, err);
}

enum fg_code dist_ingest_profile_error(struct fg_err *err)
{
    /* Agents and tests of agents know these sentences: they are Pyroscope's, its spelling and
     * spaces included. */
    if (err->code == FG_E_DECODE || err->code == FG_E_TOO_LARGE) {
        err->code = FG_E_DECODE;
        return fg_wrap(err, "parsing IngestInput-pprof failed");
    }
    if (err->code == FG_E_INVALID) {
        err->code = FG_E_DECODE;
        return fg_wrap(err, "pushing IngestInput-pprof failed push series with index 0 and id  "
                            "failed: invalid_argument");
    }
    return err->code;
}
