#include "distributor/ingest.h"

#include "common/base/str.h"
#include "common/base/timespec.h"
#include "distributor/ingest_format.h"
#include "distributor/labels.h"

enum { SAMPLE_RATE_DEFAULT = 100 };

enum fg_code ingest_too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "upload needs more memory than decoding may use");
}

/* ---- parameters ---- */

/* Empty is now, and so is what cannot be read: a clock is better than a refusal. */
static int64_t time_of(struct fg_slice text, int64_t now_ns)
{
    int64_t time_ns;

    return fg_timespec_parse(text, now_ns, &time_ns) ? time_ns : now_ns;
}

static void read_parameters(struct ingest *ingest)
{
    uint64_t rate;

    ingest->from_ns = time_of(ingest->from, ingest->upload.now_ns);
    ingest->until_ns = time_of(ingest->until, ingest->upload.now_ns);
    ingest->sample_rate = SAMPLE_RATE_DEFAULT;
    if (fg_parse_u64(ingest->sample_rate_text, &rate) && rate <= UINT32_MAX)
        ingest->sample_rate = (uint32_t)rate;
}

static enum fg_code undo_content_coding(struct ingest *ingest, struct fg_err *err)
{
    uint64_t max = ingest->upload.distributor->config.settings->body_max_bytes;
    enum fg_coding coding;

    ingest->body = ingest->upload.body;
    if (fg_coding_parse(ingest->content_encoding, &coding, err) != FG_OK)
        return err->code;
    return workspace_inflate(ingest->space, coding, max, &ingest->body, err);
}

/* ---- for the formats ---- */

/* Later ones win when the set is sorted, so the client's come last. */
enum fg_code ingest_labels(struct ingest *ingest, struct fg_slice app, const char *app_label,
                           const char *profile_name, struct fg_labels *ret_labels,
                           struct fg_err *err)
{
    const struct fg_labels *sent = &ingest->name.labels;
    struct fg_label *items = fg_arena_new(ingest->arena, struct fg_label, sent->count + 4);
    bool own_service = fg_labels_get(sent, FG_LABEL_SERVICE).len > 0;
    size_t n = 0;

    if (items == NULL)
        return ingest_too_large(err);
    if (!own_service)
        items[n++] = (struct fg_label){FG_LIT(FG_LABEL_SERVICE), app};
    else if (app_label != NULL)
        items[n++] = (struct fg_label){fg_cstr(app_label), app};
    items[n++] = (struct fg_label){FG_LIT("pyroscope_spy"), ingest->spy};
    if (profile_name != NULL)
        items[n++] = (struct fg_label){FG_LIT(FG_LABEL_NAME), fg_cstr(profile_name)};
    if (sent->count > 0)
        memcpy(items + n, sent->items, sent->count * sizeof *items);
    return series_labels(&(struct fg_labels){items, n + sent->count},
                         &ingest->upload.limits->values, ingest->arena, ret_labels, err);
}

struct fg_upload ingest_upload(struct ingest *ingest, struct fg_labels labels)
{
    int64_t duration_ns = 0;

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

enum fg_code ingest_inflate_part(struct ingest *ingest, struct fg_slice *body, struct fg_err *err)
{
    uint64_t max = ingest->upload.limits->values.max_profile_size_bytes;

    if (workspace_inflate(ingest->space, fg_coding_sniff(*body), max, body, err) == FG_OK) {
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

enum fg_code ingest_inflate(struct ingest *ingest, struct fg_slice *body, struct fg_err *err)
{
    return ingest_inflate_part(ingest, body, err) == FG_OK
               ? upload_admit(&ingest->upload, body->len, err)
               : err->code;
}

enum fg_code ingest_profile_error(struct fg_err *err)
{
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

/* ---- the choice ---- */

static bool is_form(const struct ingest *ingest)
{
    return fg_slice_search(ingest->content_type, "multipart/form-data") != SIZE_MAX;
}

static bool is(struct fg_slice value, const char *text)
{
    return fg_slice_is(value, text);
}

/* The first that applies (ingest.md, 2.4). */
static enum fg_code decode_body(struct ingest *ingest, struct fg_err *err)
{
    struct fg_slice format = ingest->format, type = ingest->content_type;

    if (is(format, "trie") || is(type, "binary/octet-stream+trie"))
        return ingest_tree(ingest, FG_FORMAT_TRIE, err);
    if (is(format, "tree") || is(type, "binary/octet-stream+tree"))
        return ingest_tree(ingest, FG_FORMAT_TREE, err);
    if (is(format, "lines"))
        return ingest_text(ingest, FG_TEXT_LINES, err);
    if (is(format, "jfr"))
        return is_form(ingest) ? ingest_jfr_form(ingest, err) : ingest_jfr(ingest, err);
    if (is(format, "pprof"))
        return ingest_pprof(ingest, err);
    if (is(format, "speedscope"))
        return ingest_speedscope(ingest, err);
    return is_form(ingest) ? ingest_pprof_form(ingest, err)
                           : ingest_text(ingest, FG_TEXT_FOLDED, err);
}

static enum fg_code decode(struct upload *upload, struct workspace *space, struct fg_err *err)
{
    struct ingest *ingest = fg_container(upload, struct ingest, upload);

    ingest->space = space;
    ingest->arena = space->arena;
    read_parameters(ingest);
    if (app_name_parse(ingest->name_text, ingest->arena, &ingest->name, err) != FG_OK ||
        undo_content_coding(ingest, err) != FG_OK)
        return err->code;
    return decode_body(ingest, err);
}

/* ---- the request (loop) ---- */

static void refuse(struct fg_http_request *req, const struct fg_err *err)
{
    fg_http_add_header(req, "X-Content-Type-Options", "nosniff");
    fg_http_respond_error(req, err);
}

static void respond(struct upload *upload)
{
    struct fg_http_request *req = fg_container(upload, struct ingest, upload)->req;
    struct fg_err err = upload->err; /* the upload is gone with the request */

    if (err.code == FG_OK)
        fg_http_respond(req, 200, NULL, NULL);
    else
        refuse(req, &err);
}

void ingest_handle(struct fg_http_request *req, void *distributor)
{
    static const struct upload_interface interface = {decode, respond};
    struct ingest *ingest = fg_arena_new(fg_http_arena(req), struct ingest, 1);
    struct fg_err err;

    fg_assert(ingest != NULL); /* the first thing in an arena of a MiB */
    ingest->upload.interface = &interface;
    ingest->upload.distributor = distributor;
    ingest->req = req;
    ingest->name_text = fg_http_param(req, "name");
    ingest->from = fg_http_param(req, "from");
    ingest->until = fg_http_param(req, "until");
    ingest->sample_rate_text = fg_http_param(req, "sampleRate");
    ingest->spy = fg_http_param(req, "spyName");
    if (ingest->spy.len == 0)
        ingest->spy = FG_LIT("unknown");
    ingest->format = fg_http_param(req, "format");
    ingest->content_type = fg_http_header(req, "Content-Type");
    ingest->content_encoding = fg_http_header(req, "Content-Encoding");
    if (upload_from(&ingest->upload, req, &err) == FG_OK) {
        upload_start(&ingest->upload);
        return;
    }
    if (err.code == FG_E_INVALID) /* a tenant's name that is none: as Pyroscope, 422 */
        err.code = FG_E_DECODE;
    refuse(req, &err);
}
