#include "proto/pprof/pprof.h"

#include "common/base/str.h"
#include "common/net/multipart.h"
#include "distributor/ingest/format.h"

#include <jansson.h>

enum { CONFIG_MAX_BYTES = 64 * 1024 }; /* sample_type_config: agents send some hundred */

struct pprof {
    struct dist_ingest *ingest;
    json_t *config; /* sample_type_config; NULL: none */
};

static bool contains(struct fg_slice text, const char *part)
{
    return fg_slice_search(text, part) != SIZE_MAX;
}

/* How the config, or what an agent without one means, calls a sample type. */
static struct fg_slice display_name(const struct pprof *pprof, struct fg_slice type)
{
    static const struct {
        const char *type, *name;
    } defaults[] = {{"samples", "cpu"},
                    {"goroutine", "goroutines"},
                    {"contentions", "mutex_count"},
                    {"delay", "mutex_duration"}};

    if (pprof->config != NULL) {
        json_t *entry = json_object_getn(pprof->config, (const char *)type.ptr, type.len);
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

/* For fg_pprof_decode(): __name__ from the sample types (distributor/API.md#pprof). */
static struct fg_slice pprof_name(const struct fg_batch *batch, void *arg)
{
    const struct pprof *pprof = arg;
    struct fg_slice display = FG_LIT("");

    for (uint32_t t = 0; t < batch->n_types; t++)
        /* Before the display names: a profile with wall and cpu columns is a wall profile, whatever
         * its first column is. */
        if (fg_slice_is(batch->types[t].type, "wall"))
            return FG_LIT("wall");
    for (uint32_t t = 0; t < batch->n_types; t++) {
        struct fg_slice name;

        display = display_name(pprof, batch->types[t].type);
        name = name_by_display(display);
        if (name.ptr != NULL)
            return name;
    }
    return display;
}

static unsigned quirks_of(const struct pprof *pprof)
{
    struct fg_slice spy = pprof->ingest->spy;
    bool old_dotnet = fg_slice_is(spy, "unknown") && pprof->config != NULL &&
                      json_object_get(pprof->config, "inuse-space") != NULL;

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

static enum fg_code decode(struct pprof *pprof, struct fg_slice body, struct fg_err *err)
{
    struct dist_ingest *ingest = pprof->ingest;
    struct fg_pprof_request request = {
        .quirks = quirks_of(pprof), .name = pprof_name, .arg = pprof};
    struct fg_pprof_info info = {0};
    struct fg_labels labels;
    struct fg_batch batch;

    if (body.len == 0)
        return FG_OK; /* an agent with nothing to say */
    if (dist_ingest_labels(ingest, ingest->name.app, NULL, NULL, &labels, err) != FG_OK ||
        dist_ingest_inflate(ingest, &body, err) != FG_OK)
        return err->code;
    request.upload = dist_ingest_upload(ingest, labels);
    if (fg_pprof_decode(body, &request, ingest->arena, &batch, &info, &ingest->upload.counts.decode,
                        err) != FG_OK)
        return err->code;
    return dist_upload_add(&ingest->upload, &batch, info.has_time, err);
}

static enum fg_code read_config(struct pprof *pprof, struct fg_slice text, struct fg_err *err)
{
    json_error_t error;

    if (text.len == 0 || pprof->config != NULL)
        return FG_OK;
    if (text.len > CONFIG_MAX_BYTES)
        return fg_fail(err, FG_E_DECODE, "sample_type_config of %zu bytes", text.len);
    /* Duplicate keys are refused, since which of them counts would depend on the parser. */
    pprof->config = json_loadb((const char *)text.ptr, text.len, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(pprof->config))
        return fg_fail(err, FG_E_DECODE,
                       "sample_type_config is not a JSON object: %s, line %d, column %d",
                       error.text, error.line, error.column);
    return FG_OK;
}

/* The parts of the form that agents send; only file parts count (distributor/API.md#pprof). */
static enum fg_code read_form(struct pprof *pprof, struct fg_slice *ret_profile, struct fg_err *err)
{
    struct fg_multipart form;
    struct fg_multipart_part part;

    *ret_profile = fg_bytes(NULL, 0);
    if (fg_multipart_init(&form, pprof->ingest->content_type, pprof->ingest->body, err) != FG_OK)
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
        /* Agents of old sent cumulative profiles with the previous one next to it, to be
         * subtracted. Stored as it is, such a profile would count everything again and again. */
        else if (fg_slice_is(part.name, "prev_profile") && part.data.len > 0)
            return fg_fail(err, FG_E_DECODE,
                           "unsupported client version. Please update "
                           "github.com/grafana/pyroscope-go to the latest version");
        else if (fg_slice_is(part.name, "sample_type_config") &&
                 read_config(pprof, part.data, err) != FG_OK)
            return err->code;
    }
}

enum fg_code dist_ingest_pprof(struct dist_ingest *ingest, struct fg_err *err)
{
    struct pprof pprof = {.ingest = ingest};

    return decode(&pprof, ingest->body, err) == FG_OK ? FG_OK : dist_ingest_profile_error(err);
}

enum fg_code dist_ingest_pprof_form(struct dist_ingest *ingest, struct fg_err *err)
{
    struct pprof pprof = {.ingest = ingest};
    struct fg_slice profile;
    enum fg_code code = read_form(&pprof, &profile, err);

    if (code != FG_OK) {
        err->code = FG_E_DECODE;
        code = fg_wrap(err, "failed to parse pprof /ingest multipart form");
    } else {
        code = decode(&pprof, profile, err);
    }
    json_decref(pprof.config);
    return code == FG_OK ? FG_OK : dist_ingest_profile_error(err);
}
