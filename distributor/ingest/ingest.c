#include "distributor/ingest/ingest.h"

#include "common/base/str.h"
#include "common/base/timespec.h"
#include "distributor/ingest/format.h"

enum { SAMPLE_RATE_DEFAULT = 100 };

/* ---- parameters ---- */

/* Empty is now, and so is what cannot be read: a clock is better than a refusal. */
static int64_t time_of(struct fg_slice text, int64_t now_ns)
{
    int64_t time_ns;

    return fg_timespec_parse(text, now_ns, &time_ns) ? time_ns : now_ns;
}

static void read_parameters(struct dist_ingest *ingest)
{
    uint64_t rate;

    ingest->from_ns = time_of(ingest->from, ingest->upload.now_ns);
    ingest->until_ns = time_of(ingest->until, ingest->upload.now_ns);
    ingest->sample_rate = SAMPLE_RATE_DEFAULT;
    /* A value that cannot be read counts as the default, as in Pyroscope: a strange sampleRate is
     * no reason to lose the profile. */
    if (fg_parse_u64(ingest->sample_rate_text, &rate) && rate <= UINT32_MAX)
        ingest->sample_rate = (uint32_t)rate;
}

/* ---- the choice ---- */

static bool is_form(const struct dist_ingest *ingest)
{
    return fg_slice_search(ingest->content_type, "multipart/form-data") != SIZE_MAX;
}

static bool is(struct fg_slice value, const char *text)
{
    return fg_slice_is(value, text);
}

/* The first that applies: distributor/API.md#formats. */
static enum fg_code decode_body(struct dist_ingest *ingest, struct fg_err *err)
{
    struct fg_slice format = ingest->format, type = ingest->content_type;

    if (is(format, "trie") || is(type, "binary/octet-stream+trie"))
        return dist_ingest_tree(ingest, FG_FORMAT_TRIE, err);
    if (is(format, "tree") || is(type, "binary/octet-stream+tree"))
        return dist_ingest_tree(ingest, FG_FORMAT_TREE, err);
    if (is(format, "lines"))
        return dist_ingest_text(ingest, FG_TEXT_LINES, err);
    if (is(format, "jfr"))
        return is_form(ingest) ? dist_ingest_jfr_form(ingest, err) : dist_ingest_jfr(ingest, err);
    if (is(format, "pprof"))
        return dist_ingest_pprof(ingest, err);
    if (is(format, "speedscope"))
        return dist_ingest_speedscope(ingest, err);
    /* Agents that send pprof in a form give no format: the form is how it is known. */
    return is_form(ingest) ? dist_ingest_pprof_form(ingest, err)
                           : dist_ingest_text(ingest, FG_TEXT_FOLDED, err);
}

static enum fg_code decode(struct dist_upload *upload, struct dist_workspace *space,
                           struct fg_err *err)
{
    struct dist_ingest *ingest = fg_container(upload, struct dist_ingest, upload);
    enum fg_coding coding;

    ingest->space = space;
    ingest->arena = space->arena;
    read_parameters(ingest);
    ingest->body = upload->body;
    if (dist_app_name_parse(ingest->name_text, ingest->arena, &ingest->name, err) != FG_OK ||
        fg_coding_parse(ingest->content_encoding, &coding, err) != FG_OK ||
        dist_workspace_inflate(space, coding, upload->distributor->settings->body_max_bytes,
                               &ingest->body, err) != FG_OK)
        return err->code;
    return decode_body(ingest, err);
}

/* ---- the request (loop) ---- */

static void refuse(struct fg_http_request *req, const struct fg_err *err)
{
    fg_http_add_header(req, "X-Content-Type-Options", "nosniff");
    fg_http_respond_error(req, err);
}

static void respond(struct dist_upload *upload)
{
    struct fg_http_request *req = fg_container(upload, struct dist_ingest, upload)->req;
    struct fg_err err = upload->err; /* the upload is gone with the request */

    if (err.code == FG_OK)
        fg_http_respond(req, 200, NULL, NULL);
    else
        refuse(req, &err);
}

void dist_ingest_handle(struct fg_http_request *req, void *distributor)
{
    static const struct dist_upload_interface interface = {.decode = decode, .respond = respond};
    struct dist_ingest *ingest = fg_arena_new(fg_http_arena(req), struct dist_ingest, 1);
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
    if (dist_upload_from(&ingest->upload, req, &err) == FG_OK) {
        dist_upload_start(&ingest->upload);
        return;
    }
    if (err.code == FG_E_INVALID) /* a tenant's name that is none: as Pyroscope, 422 */
        err.code = FG_E_DECODE;
    refuse(req, &err);
}
