/* Formats of one sample type, whose kind the application's name says: text, trie and tree. */
#include "distributor/ingest/format.h"
#include "proto/tree_formats.h"

/* What the application's name makes of the upload: series, schema and what a count is worth. */
struct text_kind {
    struct fg_upload upload;
    struct fg_batch batch;
    int64_t period; /* 0: none */
    int64_t factor;
};

static enum fg_code read_kind(struct dist_ingest *ingest, struct text_kind *kind,
                              struct fg_err *err)
{
    struct fg_labels labels;
    struct dist_app_kind app;

    if (dist_app_kind_parse(ingest->name.app, ingest->sample_rate, &app, err) != FG_OK ||
        dist_ingest_labels(ingest, app.app, "app_name", app.name, &labels, err) != FG_OK)
        return err->code;
    *kind = (struct text_kind){
        .upload = dist_ingest_upload(ingest, labels),
        .batch = {.types = fg_arena_new(ingest->arena, struct fg_value_type, 1), .n_types = 1},
        .factor = 1,
    };
    if (kind->batch.types == NULL)
        return dist_ingest_too_large(err);
    kind->batch.types[0] = (struct fg_value_type){fg_cstr(app.type), fg_cstr(app.unit)};
    if (app.timed) {
        fg_assert(ingest->sample_rate > 0); /* without a rate nothing is timed */
        kind->batch.period_type = (struct fg_value_type){FG_LIT("cpu"), FG_LIT("nanoseconds")};
        kind->period = kind->factor = FG_SECOND_NS / ingest->sample_rate;
    }
    return FG_OK;
}

enum fg_code dist_ingest_text(struct dist_ingest *ingest, enum fg_text_format format,
                              struct fg_err *err)
{
    struct fg_slice body = ingest->body;
    struct text_kind kind;

    if (body.len == 0)
        return FG_OK;
    if (read_kind(ingest, &kind, err) != FG_OK ||
        dist_ingest_inflate(ingest, &body, err) != FG_OK ||
        fg_folded_decode(body,
                         &(struct fg_folded_request){.upload = kind.upload,
                                                     .format = format,
                                                     .period = kind.period,
                                                     .factor = kind.factor},
                         ingest->arena, &kind.batch, &ingest->upload.counts.decode, err) != FG_OK)
        return err->code;
    return dist_upload_add(&ingest->upload, &kind.batch, false, err);
}

enum fg_code dist_ingest_tree(struct dist_ingest *ingest, enum fg_tree_format format,
                              struct fg_err *err)
{
    struct fg_slice body = ingest->body;
    struct text_kind kind;

    if (read_kind(ingest, &kind, err) != FG_OK ||
        dist_ingest_inflate(ingest, &body, err) != FG_OK ||
        fg_tree_format_decode(body,
                              &(struct fg_tree_request){.upload = kind.upload,
                                                        .format = format,
                                                        .period = kind.period,
                                                        .factor = kind.factor},
                              ingest->arena, &kind.batch, &ingest->upload.counts.decode,
                              err) != FG_OK)
        return err->code;
    return dist_upload_add(&ingest->upload, &kind.batch, false, err);
}
