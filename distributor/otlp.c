#include "distributor/otlp.h"

#include "common/base/str.h"
#include "common/net/connect.h"
#include "common/runtime/log.h"
#include "distributor/metrics.h"
#include "distributor/upload.h"
#include "proto/otlp/otlp.h"
#include "proto/otlp_v1.pb-c.h"

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceResponse
    Response;
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesPartialSuccess
    PartialSuccess;

enum { ANSWER_MAX_BYTES = 4096 }; /* a status and one message, which is cut */

struct otlp {
    struct dist_upload upload;
    struct fg_http_request *req;
    struct fg_connect_call call; /* of calls */
    bool is_call;                /* else plain HTTP */
    bool json;
    enum fg_coding coding; /* of a plain body */
    struct fg_otlp_result result;
};

/* ---- decode (worker) ---- */

/* A profile's time is its own, or that of its arrival, which no other upload has. */
static enum fg_code add_batch(struct fg_batch *batch, void *upload, struct fg_err *err)
{
    return dist_upload_add(upload, batch, true, err);
}

static enum fg_code decode(struct dist_upload *upload, struct dist_workspace *space,
                           struct fg_err *err)
{
    struct otlp *otlp = fg_container(upload, struct otlp, upload);
    const struct fg_otlp_request request = {
        .upload = {.time_ns = upload->now_ns,
                   .limits = upload->decode_limits,
                   .rules = &upload->rules},
        .form = otlp->json ? FG_OTLP_JSON : FG_OTLP_PROTOBUF,
    };
    uint64_t max = upload->distributor->settings->body_max_bytes;
    struct fg_slice message = upload->body;
    enum fg_code code;

    /* Connect and gRPC compress messages by their own header, plain HTTP by Content-Encoding. */
    code = otlp->is_call ? dist_workspace_message(space, &otlp->call, max, &message, err)
                         : dist_workspace_inflate(space, otlp->coding, max, &message, err);
    if (code != FG_OK || dist_upload_admit(upload, message.len, err) != FG_OK)
        return err->code;
    upload->counts.inflated_bytes += message.len;
    dist_upload_measure(upload, 1, 1, message.len);
    return fg_otlp_decode(message, &request, space->arena, add_batch, upload, &otlp->result,
                          &upload->counts.decode, err);
}

/* ---- the answer (loop) ---- */

/* What the sender should know of profiles that were stored, as message of the result. */
static bool warn(struct otlp *otlp)
{
    unsigned long long expired = otlp->upload.counts.expired;
    unsigned long long lost = otlp->upload.counts.decode.samples_dangling;
    char *message = otlp->result.message;
    size_t size = sizeof otlp->result.message;

    /* The message has room for one sentence: that nothing is kept matters more than that samples
     * are lost. */
    if (expired > 0)
        (void)snprintf(message, size,
                       "%llu profiles are older than limits.retention_period and will not be kept",
                       expired);
    else if (lost > 0)
        (void)snprintf(message, size,
                       "%llu samples are lost: they name entries that the dictionary does not have",
                       lost);
    return expired + lost > 0;
}

static void fill_response(struct otlp *otlp, Response *response, PartialSuccess *partial)
{
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_response__init(
        response);
    opentelemetry__proto__collector__profiles__v1development__export_profiles_partial_success__init(
        partial);
    /* OTLP, "Partial Success": rejected_profiles 0 with a message is a warning. */
    if (otlp->result.rejected == 0) {
        if (warn(otlp)) {
            partial->error_message = otlp->result.message;
            response->partial_success = partial;
        }
        return;
    }
    partial->rejected_profiles = (int64_t)otlp->result.rejected;
    partial->error_message = otlp->result.message;
    response->partial_success = partial;
}

static void refuse_http(struct fg_http_request *req, const struct fg_err *err)
{
    unsigned status = fg_code_http(err->code);
    struct fg_buf text;

    if (err->code == FG_E_NO_TENANT) {
        fg_http_respond_error(req, err);
        return;
    }
    if (err->code == FG_E_DECODE)
        /* OTLP/HTTP: a body that cannot be decoded is 400, which exporters must not retry; 422 is
         * Pyroscope's. */
        status = 400;
    fg_buf_init(&text, ANSWER_MAX_BYTES);
    fg_buf_printf(&text, "%s\n", err->msg);
    fg_http_respond(req, status, "text/plain; charset=utf-8", &text);
}

static void refuse(struct otlp *otlp, const struct fg_err *err)
{
    if (otlp->is_call)
        fg_connect_refuse(otlp->req, &otlp->call, err);
    else
        refuse_http(otlp->req, err);
}

/* Counts the version of a request that was decoded, and logs senders of older ones. */
static void note_version(struct otlp *otlp)
{
    static const struct {
        unsigned metric;
        const char *name;
    } versions[] = {
        [FG_OTLP_1_8] = {DIST_OTLP_1_8, "1.8"},
        [FG_OTLP_1_9] = {DIST_OTLP_1_9, "1.9"},
        [FG_OTLP_1_10] = {DIST_OTLP_1_10, "1.10"},
    };
    const struct dist_upload *upload = &otlp->upload;
    struct distributor *distributor = upload->distributor;
    enum fg_otlp_version version = otlp->result.version;

    if (version == FG_OTLP_ANY) /* it was refused */
        return;
    fg_metric_add(distributor->metrics, versions[version].metric, 1);
    /* The current release needs no line in the log. */
    if (version == FG_OTLP_1_10 ||
        !dist_otlp_senders_admit(distributor->otlp_senders, upload->tenant, upload->sender,
                                 fg_mono_ns(distributor->clock)))
        return;
    fg_log_warn("sender uses an older release of OTLP profiles, which is still supported",
                fg_lb("tenant", upload->tenant), fg_lb("sender", upload->sender),
                fg_ls("version", versions[version].name),
                fg_lb("agent", fg_http_header(otlp->req, "User-Agent")));
}

static void respond(struct dist_upload *upload)
{
    struct otlp *otlp = fg_container(upload, struct otlp, upload);
    struct fg_err err = upload->err; /* the upload is gone with the request */
    PartialSuccess partial;
    Response response;
    struct fg_buf body;

    note_version(otlp);
    if (err.code != FG_OK) {
        refuse(otlp, &err);
        return;
    }
    fill_response(otlp, &response, &partial);
    fg_buf_init(&body, ANSWER_MAX_BYTES);
    if (otlp->is_call) {
        fg_connect_write(&otlp->call, &response.base, NULL, &body);
        fg_connect_respond(otlp->req, &otlp->call, &body);
        return;
    }
    fg_pb_write(&response.base, &body); /* also to JSON, as Pyroscope: collectors go by the type */
    fg_http_respond(otlp->req, 200, "application/x-protobuf", &body);
}

/* ---- the request (loop) ---- */

static struct otlp *create(struct fg_http_request *req, struct distributor *distributor)
{
    static const struct dist_upload_interface interface = {.decode = decode, .respond = respond};
    struct otlp *otlp = fg_arena_new(fg_http_arena(req), struct otlp, 1);

    fg_assert(otlp != NULL); /* the first thing in an arena of a MiB */
    otlp->upload.interface = &interface;
    otlp->upload.distributor = distributor;
    otlp->req = req;
    return otlp;
}

static void start(struct otlp *otlp)
{
    struct fg_err err;

    if (dist_upload_from(&otlp->upload, otlp->req, &err) == FG_OK) {
        dist_upload_start(&otlp->upload);
        return;
    }
    if (err.code == FG_E_INVALID) /* a tenant's name that is none */
        err.code = FG_E_NO_TENANT;
    refuse(otlp, &err);
}

void dist_otlp_handle_rpc(struct fg_http_request *req, void *arg)
{
    struct distributor *distributor = arg;
    struct otlp *otlp = create(req, distributor);

    if (!fg_connect_accept(req, fg_mono_ns(distributor->clock),
                           distributor->settings->push_timeout_ns, &otlp->call))
        return;
    otlp->is_call = true;
    otlp->json = otlp->call.json;
    start(otlp);
}

/* false: it is none that profiles come in. */
static bool check_type(struct fg_slice type, bool *ret_json)
{
    *ret_json = fg_slice_is_nocase(type, "application/json");
    return *ret_json || fg_slice_is_nocase(type, "application/x-protobuf") ||
           fg_slice_is_nocase(type, "application/protobuf");
}

void dist_otlp_handle_http(struct fg_http_request *req, void *arg)
{
    struct otlp *otlp = create(req, arg);
    struct fg_slice type = fg_http_header(req, "Content-Type");
    struct fg_err err;

    /* A charset says nothing about protobuf, and JSON has but one. */
    if (!check_type(fg_trim(fg_slice_sub(type, 0, fg_slice_find(type, ';'))), &otlp->json)) {
        struct fg_buf text;

        fg_buf_init(&text, ANSWER_MAX_BYTES);
        fg_buf_printf(&text, "Unsupported content type: %.*s\n", FG_S(fg_slice_sub(type, 0, 200)));
        fg_http_respond(req, 415, "text/plain; charset=utf-8", &text);
        return;
    }
    if (fg_coding_parse(fg_http_header(req, "Content-Encoding"), &otlp->coding, &err) != FG_OK)
        refuse_http(req, &err);
    else
        start(otlp);
}
