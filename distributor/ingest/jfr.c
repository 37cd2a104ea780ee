/* JFR recordings of Java agents: a body, or a form with the labels of contexts:
 * distributor/API.md#jfr. */
#include "proto/jfr/jfr.h"

#include "common/net/multipart.h"
#include "distributor/ingest/format.h"

enum { SAMPLE_RATE_DEFAULT = 100 };

struct recording {
    struct fg_slice jfr, labels; /* as sent; ptr NULL: not there */
};

static enum fg_code read_form(struct dist_ingest *ingest, struct recording *recording,
                              struct fg_err *err)
{
    struct fg_multipart form;
    struct fg_multipart_part part;

    if (fg_multipart_init(&form, ingest->content_type, ingest->body, err) != FG_OK)
        return err->code;
    for (;;) {
        if (fg_multipart_next(&form, &part, err) != FG_OK)
            return err->code;
        if (form.ended)
            break;
        /* The first part of a name counts; fields that are no files are ignored, as in Pyroscope.
         */
        if (part.is_file && fg_slice_is(part.name, "jfr") && recording->jfr.ptr == NULL)
            recording->jfr = part.data;
        else if (part.is_file && fg_slice_is(part.name, "labels") && recording->labels.ptr == NULL)
            recording->labels = part.data;
    }
    return recording->jfr.len > 0 ? FG_OK : fg_fail(err, FG_E_DECODE, "jfr field is required");
}

static enum fg_code decode(struct dist_ingest *ingest, struct recording *recording,
                           struct fg_err *err)
{
    struct fg_jfr_request request = {.sample_rate = ingest->sample_rate};
    size_t sent_bytes = recording->jfr.len + recording->labels.len;
    struct fg_labels labels;

    /* A period is a second divided by the rate. */
    if (request.sample_rate == 0)
        request.sample_rate = SAMPLE_RATE_DEFAULT;
    /* An agent that has recorded nothing. */
    if (recording->jfr.len == 0)
        return FG_OK;
    if (dist_ingest_labels(ingest, ingest->name.app, "app_name", NULL, &labels, err) != FG_OK ||
        dist_ingest_inflate(ingest, &recording->jfr, err) != FG_OK ||
        (recording->labels.len > 0 &&
         dist_ingest_inflate_part(ingest, &recording->labels, err) != FG_OK))
        return err->code;
    /* Again, with the labels: dist_ingest_inflate() has measured the recording alone. */
    dist_upload_measure(&ingest->upload, sent_bytes, ingest->body.len,
                        recording->jfr.len + recording->labels.len);
    request.upload = dist_ingest_upload(ingest, labels);
    request.labels = recording->labels;
    return fg_jfr_decode(recording->jfr, &request, ingest->arena, dist_upload_sink, &ingest->upload,
                         &ingest->upload.counts.decode, err);
}

enum fg_code dist_ingest_jfr(struct dist_ingest *ingest, struct fg_err *err)
{
    struct recording recording = {.jfr = ingest->body};

    return decode(ingest, &recording, err) == FG_OK ? FG_OK : dist_ingest_profile_error(err);
}

enum fg_code dist_ingest_jfr_form(struct dist_ingest *ingest, struct fg_err *err)
{
    struct recording recording = {0};

    if (read_form(ingest, &recording, err) != FG_OK) {
        err->code = FG_E_DECODE;
        (void)fg_wrap(err, "failed to parse jfr /ingest multipart form");
        return dist_ingest_profile_error(err);
    }
    return decode(ingest, &recording, err) == FG_OK ? FG_OK : dist_ingest_profile_error(err);
}
