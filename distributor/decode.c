#include "distributor/decode.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/base/timespec.h"
#include "common/net/inflate.h"
#include "common/net/multipart.h"
#include "distributor/name.h"
#include "proto/folded.h"
#include "proto/pprof.h"

#include <jansson.h>

enum {
    SAMPLE_RATE_DEFAULT = 100,
    CONFIG_MAX_BYTES = 64 * 1024, /* sample_type_config: agents send some hundred */
};

struct ingest {
    const struct ingest_request *request;
    const struct ingest_limits *limits;
    struct fg_slice tenant;
    struct fg_arena *arena;
    struct fg_buf *inflated;
    struct ingest_counts *counts;

    struct app_name name;
    int64_t from_ns, until_ns;
    uint32_t sample_rate;
    struct fg_slice spy;
    json_t *config; /* sample_type_config; NULL: none */
};

static enum fg_code too_large(struct fg_err *err)
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
    const struct ingest_request *request = ingest->request;
    uint64_t rate;

    ingest->from_ns = time_of(request->from, request->now_ns);
    ingest->until_ns = time_of(request->until, request->now_ns);
    ingest->sample_rate = SAMPLE_RATE_DEFAULT;
    if (fg_parse_u64(request->sample_rate, &rate) && rate <= UINT32_MAX)
        ingest->sample_rate = (uint32_t)rate;
    ingest->spy = request->spy_name.len > 0 ? request->spy_name : FG_LIT("unknown");
}

/* ---- labels ---- */

/*
 * The series' labels but for __name__. app_label: where the app's name goes when the client named
 * the service itself; NULL: nowhere. Later ones win when the set is sorted, so the client's come
 * last.
 */
static enum fg_code series_labels(struct ingest *ingest, struct fg_slice app, const char *app_label,
                                  const char *profile_name, struct fg_labels *ret_labels,
                                  struct fg_err *err)
{
    const struct fg_labels *sent = &ingest->name.labels;
    struct fg_label *items = fg_arena_new(ingest->arena, struct fg_label, sent->count + 4);
    bool own_service = fg_labels_get(sent, FG_LABEL_SERVICE).len > 0;
    size_t n = 0;

    if (items == NULL)
        return too_large(err);
    if (!own_service)
        items[n++] = (struct fg_label){FG_LIT(FG_LABEL_SERVICE), app};
    else if (app_label != NULL)
        items[n++] = (struct fg_label){fg_cstr(app_label), app};
    items[n++] = (struct fg_label){FG_LIT("pyroscope_spy"), ingest->spy};
    if (profile_name != NULL)
        items[n++] = (struct fg_label){FG_LIT(FG_LABEL_NAME), fg_cstr(profile_name)};
    if (sent->count > 0)
        memcpy(items + n, sent->items, sent->count * sizeof *items);
    *ret_labels = (struct fg_labels){items, n + sent->count};
    return FG_OK;
}

static struct fg_upload upload_of(const struct ingest *ingest, struct fg_labels labels)
{
    int64_t duration_ns = 0;

    if (ingest->until_ns > ingest->from_ns &&
        __builtin_sub_overflow(ingest->until_ns, ingest->from_ns, &duration_ns))
        duration_ns = 0;
    return (struct fg_upload){
        .labels = labels,
        .time_ns = ingest->from_ns,
        .duration_ns = duration_ns,
        .limits = ingest->limits->decode,
    };
}

/* ---- pprof ---- */

static bool contains(struct fg_slice text, const char *part)
{
    return fg_slice_search(text, part) != SIZE_MAX;
}

/* How the config, or what an agent without one means, calls a sample type. */
static struct fg_slice display_name(const struct ingest *ingest, struct fg_slice type)
{
    static const struct {
        const char *type, *name;
    } defaults[] = {{"samples", "cpu"},
                    {"goroutine", "goroutines"},
                    {"contentions", "mutex_count"},
                    {"delay", "mutex_duration"}};

    if (ingest->config != NULL) {
        json_t *entry = json_object_getn(ingest->config, (const char *)type.ptr, type.len);
        const char *name = json_string_value(json_object_get(entry, "display-name"));

        return name != NULL && name[0] != '\0' ? fg_cstr(name) : type;
    }
    for (size_t i = 0; i < FG_COUNT(defaults); i++)
        if (fg_slice_is(type, defaults[i].type))
            return fg_cstr(defaults[i].name);
    return type;
}

/* __name__ of one sample type by what its display name says; ptr NULL: nothing. */
static struct fg_slice name_by_display(struct fg_slice display)
{
    if (contains(display, "cpu"))
        return FG_LIT("process_cpu");
    if (contains(display, "alloc_") || contains(display, "inuse_") ||
        fg_slice_is(display, "space") || fg_slice_is(display, "objects"))
        return FG_LIT("memory");
    if (contains(display, "mutex_"))
        return FG_LIT("mutex");
    if (contains(display, "block_"))
        return FG_LIT("block");
    if (contains(display, "goroutines"))
        return FG_LIT("goroutines");
    return fg_bytes(NULL, 0);
}

/* For fg_pprof_decode(): __name__ from the sample types (ingest.md, 2.5). */
static struct fg_slice pprof_name(const struct fg_batch *batch, void *arg)
{
    const struct ingest *ingest = arg;
    struct fg_slice display = FG_LIT("");

    for (uint32_t t = 0; t < batch->n_types; t++)
        if (fg_slice_is(batch->types[t].type, "wall"))
            return FG_LIT("wall");
    for (uint32_t t = 0; t < batch->n_types; t++) {
        struct fg_slice name;

        display = display_name(ingest, batch->types[t].type);
        name = name_by_display(display);
        if (name.ptr != NULL)
            return name;
    }
    return display;
}

static unsigned quirks_of(const struct ingest *ingest)
{
    struct fg_slice spy = ingest->spy;
    bool old_dotnet = fg_slice_is(spy, "unknown") && ingest->config != NULL &&
                      json_object_get(ingest->config, "inuse-space") != NULL;

    if (fg_slice_is(spy, "pyspy"))
        return FG_PPROF_SCRIPT_NAMES | FG_PPROF_SCRIPT_RELATIVE | FG_PPROF_NOT_GO;
    if (fg_slice_is(spy, "rbspy") || fg_slice_is(spy, "scripting"))
        return FG_PPROF_SCRIPT_NAMES | FG_PPROF_NOT_GO;
    if (fg_slice_is(spy, "dotnetspy") || old_dotnet)
        return FG_PPROF_DOTNET | FG_PPROF_NOT_GO;
    if (fg_slice_is(spy, "gospy"))
        return FG_PPROF_GO;
    return 0;
}

static enum fg_code inflate(struct ingest *ingest, struct fg_slice *body, struct fg_err *err)
{
    uint64_t max = ingest->limits->profile_max_bytes;
    enum fg_coding coding = fg_coding_sniff(*body);

    if (coding != FG_CODING_IDENTITY) {
        enum fg_code code = fg_inflate(*body, coding, (size_t)max, ingest->inflated, err);

        if (code == FG_E_TOO_LARGE)
            return fg_fail(err, FG_E_DECODE,
                           "decompressed size exceeds maximum allowed size of %llu bytes",
                           (unsigned long long)max);
        if (code != FG_OK)
            return code;
        *body = fg_buf_slice(ingest->inflated);
    } else if (body->len > max) {
        return fg_fail(err, FG_E_DECODE,
                       "profile of %zu bytes exceeds maximum allowed size of %llu "
                       "bytes",
                       body->len, (unsigned long long)max);
    }
    ingest->counts->inflated_bytes = body->len;
    return FG_OK;
}

/* Everything wrong with a pprof upload is 422 on this route. */
static enum fg_code pprof_error(struct fg_err *err)
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

static enum fg_code decode_pprof(struct ingest *ingest, struct fg_slice body,
                                 struct fg_batch *ret_batch, bool *ret_has_time, struct fg_err *err)
{
    struct fg_pprof_request request = {
        .quirks = quirks_of(ingest), .name = pprof_name, .arg = ingest};
    struct fg_pprof_info info = {0};
    struct fg_labels labels;

    if (body.len == 0)
        return FG_OK; /* an agent with nothing to say */
    if (series_labels(ingest, ingest->name.app, NULL, NULL, &labels, err) != FG_OK ||
        inflate(ingest, &body, err) != FG_OK)
        return err->code;
    request.upload = upload_of(ingest, labels);
    if (fg_pprof_decode(body, &request, ingest->arena, ret_batch, &info, &ingest->counts->decode,
                        err) != FG_OK)
        return err->code;
    *ret_has_time = info.has_time;
    return FG_OK;
}

static enum fg_code read_config(struct ingest *ingest, struct fg_slice text, struct fg_err *err)
{
    json_error_t error;

    if (text.len == 0 || ingest->config != NULL)
        return FG_OK;
    if (text.len > CONFIG_MAX_BYTES)
        return fg_fail(err, FG_E_DECODE, "sample_type_config of %zu bytes", text.len);
    ingest->config = json_loadb((const char *)text.ptr, text.len, 0, &error);
    if (!json_is_object(ingest->config))
        return fg_fail(err, FG_E_DECODE, "sample_type_config is not a JSON object: %s", error.text);
    return FG_OK;
}

/* The parts of the form that agents send; only file parts count (ingest.md, 2.5). */
static enum fg_code read_form(struct ingest *ingest, struct fg_slice *ret_profile,
                              struct fg_err *err)
{
    struct fg_multipart form;
    struct fg_multipart_part part;

    *ret_profile = fg_bytes(NULL, 0);
    if (fg_multipart_init(&form, ingest->request->content_type, ingest->request->body, err) !=
        FG_OK)
        return err->code;
    for (;;) {
        if (fg_multipart_next(&form, &part, err) != FG_OK)
            return err->code;
        if (form.ended)
            return FG_OK;
        if (!part.is_file)
            continue;
        if (fg_slice_is(part.name, "profile") && ret_profile->ptr == NULL)
            *ret_profile = part.data;
        else if (fg_slice_is(part.name, "prev_profile") && part.data.len > 0)
            return fg_fail(err, FG_E_DECODE,
                           "unsupported client version. Please update "
                           "github.com/grafana/pyroscope-go to the latest version");
        else if (fg_slice_is(part.name, "sample_type_config") &&
                 read_config(ingest, part.data, err) != FG_OK)
            return err->code;
    }
}

static enum fg_code decode_multipart(struct ingest *ingest, struct fg_batch *ret_batch,
                                     bool *ret_has_time, struct fg_err *err)
{
    struct fg_slice profile;

    if (read_form(ingest, &profile, err) != FG_OK) {
        err->code = FG_E_DECODE;
        return fg_wrap(err, "failed to parse pprof /ingest multipart form");
    }
    return decode_pprof(ingest, profile, ret_batch, ret_has_time, err);
}

/* ---- text ---- */

static enum fg_code text_batch(struct ingest *ingest, const struct app_kind *kind,
                               struct fg_batch *batch, struct fg_err *err)
{
    *batch = (struct fg_batch){
        .types = fg_arena_new(ingest->arena, struct fg_value_type, 1),
        .n_types = 1,
    };
    if (batch->types == NULL)
        return too_large(err);
    batch->types[0] = (struct fg_value_type){fg_cstr(kind->type), fg_cstr(kind->unit)};
    if (kind->timed)
        batch->period_type = (struct fg_value_type){FG_LIT("cpu"), FG_LIT("nanoseconds")};
    return FG_OK;
}

static enum fg_code decode_text(struct ingest *ingest, enum fg_text_format format,
                                struct fg_batch *ret_batch, struct fg_err *err)
{
    struct fg_folded_request request = {.format = format, .factor = 1};
    struct fg_batch *batch = fg_arena_new(ingest->arena, struct fg_batch, 1);
    struct fg_slice body = ingest->request->body;
    struct fg_labels labels;
    struct app_kind kind;

    if (batch == NULL)
        return too_large(err);
    if (body.len == 0)
        return FG_OK;
    if (app_kind_parse(ingest->name.app, ingest->sample_rate, &kind, err) != FG_OK ||
        series_labels(ingest, kind.app, "app_name", kind.name, &labels, err) != FG_OK ||
        text_batch(ingest, &kind, batch, err) != FG_OK || inflate(ingest, &body, err) != FG_OK)
        return err->code;
    request.upload = upload_of(ingest, labels);
    if (kind.timed)
        request.period = request.factor = FG_SECOND_NS / ingest->sample_rate;
    if (fg_folded_decode(body, &request, ingest->arena, batch, &ingest->counts->decode, err) !=
        FG_OK)
        return err->code;
    *ret_batch = *batch;
    return FG_OK;
}

/* ---- the choice ---- */

static enum fg_code decode_body(struct ingest *ingest, struct fg_batch *ret_batch,
                                bool *ret_has_time, struct fg_err *err)
{
    static const char *const later[] = {"jfr", "trie", "tree", "speedscope"};
    struct fg_slice format = ingest->request->format;

    for (size_t i = 0; i < FG_COUNT(later); i++)
        if (fg_slice_is(format, later[i]))
            return fg_fail(err, FG_E_UNIMPLEMENTED, "format %s is not supported", later[i]);
    if (fg_slice_is(format, "lines"))
        return decode_text(ingest, FG_TEXT_LINES, ret_batch, err);
    if (fg_slice_is(format, "pprof"))
        return decode_pprof(ingest, ingest->request->body, ret_batch, ret_has_time, err) == FG_OK
                   ? FG_OK
                   : pprof_error(err);
    if (contains(ingest->request->content_type, "multipart/form-data"))
        return decode_multipart(ingest, ret_batch, ret_has_time, err) == FG_OK ? FG_OK
                                                                               : pprof_error(err);
    return decode_text(ingest, FG_TEXT_FOLDED, ret_batch, err);
}

enum fg_code ingest_decode(const struct ingest_request *request, const struct ingest_limits *limits,
                           struct fg_slice tenant, struct fg_arena *arena, struct fg_buf *inflated,
                           struct fg_batch *ret_batch, struct ingest_counts *counts,
                           struct fg_err *err)
{
    struct ingest ingest = {
        .request = request,
        .limits = limits,
        .tenant = tenant,
        .arena = arena,
        .inflated = inflated,
        .counts = counts,
    };
    bool has_time = false;
    enum fg_code code;

    *ret_batch = (struct fg_batch){0};
    read_parameters(&ingest);
    code = app_name_parse(request->name, arena, &ingest.name, err);
    if (code == FG_OK)
        code = decode_body(&ingest, ret_batch, &has_time, err);
    json_decref(ingest.config);
    if (code != FG_OK)
        return code;
    /* Two hosts may well send the same text for the same ten seconds: these are two profiles. */
    fg_batch_identify(ret_batch, tenant, has_time ? FG_LIT("") : request->sender,
                      request->idempotency_key);
    return FG_OK;
}
