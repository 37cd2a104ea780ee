#include "deploy/cli/pushing.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "deploy/cli/push_check.h"
#include "deploy/cli/times.h"
#include "deploy/cli/upload_file.h"
#include "proto/file_format.h"
#include "proto/push_v1.pb-c.h"

#include <string.h>
#include <time.h>

enum {
    SERIES_ARENA_MAX_BYTES = 1024 * 1024, /* of a request's labels: 64 KiB of text at most */
    RETRIES_MAX = 5,
    RETRY_AFTER_MAX_S = 60, /* at most, even if the server asks for more: a user is waiting */
};

static void add_param(struct fg_buf *path, const char *name, const char *value)
{
    if (value == NULL)
        return;
    fg_buf_printf(path, "%c%s=", fg_slice_find(fg_buf_slice(path), '?') == SIZE_MAX ? '?' : '&',
                  name);
    fg_buf_url(path, fg_cstr(value));
}

static void add_time(struct fg_buf *path, const char *name, int64_t ns)
{
    if (ns == 0)
        return;
    add_param(path, name, "");
    cli_time_put_ns(ns, path);
}

/* Writes the path of the request, with a NUL at the end. */
static void write_path(const struct cli_pushing *pushing, const char *format, struct fg_buf *path)
{
    fg_buf_puts(path, "/ingest");
    add_param(path, "name", pushing->name);
    add_time(path, "from", pushing->from_ns);
    add_time(path, "until", pushing->until_ns);
    add_param(path, "format", format);
    add_param(path, "spyName", pushing->spy_name);
    if (pushing->sample_rate > 0)
        fg_buf_printf(path, "&sampleRate=%llu", (unsigned long long)pushing->sample_rate);
    fg_buf_putc(path, '\0');
}

/* Returns the pause before another attempt. Without advice from the server it doubles, from one
 * second on. */
static time_t pause_s(const struct cli_client_reply *reply, unsigned attempt)
{
    uint64_t wait_s = reply->retry_after_s > 0 ? reply->retry_after_s : UINT64_C(1) << attempt;

    return (time_t)FG_MIN(wait_s, RETRY_AFTER_MAX_S);
}

static enum fg_code send_body(const struct cli_pushing *pushing, const char *path, const char *type,
                              struct fg_slice body, struct fg_err *err)
{
    for (unsigned attempt = 0;; attempt++) {
        struct cli_client_reply reply = {0};

        if (cli_client_post(pushing->client, path, type, body, &reply, err) != FG_OK)
            return err->code;
        /* Only these two say that a retry can help; profiles have ids, so a retry stores nothing
         * twice. */
        if ((reply.status != 429 && reply.status != 503) || attempt == RETRIES_MAX) {
            enum fg_code code = cli_client_check(&reply, err);

            cli_client_reply_done(&reply);
            return code;
        }
        struct timespec pause = {.tv_sec = pause_s(&reply, attempt)};
        cli_client_reply_done(&reply);
        (void)nanosleep(&pause, NULL);
    }
}

/* The body goes as it is in the file: /ingest unpacks gzip itself. */
static enum fg_code send_by_name(const struct cli_pushing *pushing, const char *format,
                                 struct fg_slice content, struct fg_err *err)
{
    enum fg_code code;
    struct fg_buf path;

    fg_buf_init(&path, SIZE_MAX);
    write_path(pushing, format, &path);
    code = send_body(pushing, (const char *)path.ptr, "application/octet-stream", content, err);
    fg_buf_done(&path);
    /* A trap of the interface: of text, what follows the last dot of a name is the type. */
    if (code != FG_OK && strstr(err->msg, "unknown profile type") != NULL)
        return fg_wrap(err, "the name of %s ends in its type, as shop.cpu does", format);
    return code;
}

/* ---- by all labels ---- */

static Types__V1__LabelPair **make_pairs(struct fg_arena *arena, const struct fg_labels *labels)
{
    Types__V1__LabelPair **pairs = fg_arena_new(arena, Types__V1__LabelPair *, labels->count);

    for (size_t i = 0; pairs != NULL && i < labels->count; i++) {
        pairs[i] = fg_arena_new(arena, Types__V1__LabelPair, 1);
        if (pairs[i] == NULL)
            return NULL;
        types__v1__label_pair__init(pairs[i]);
        pairs[i]->name = fg_arena_text(arena, labels->items[i].name);
        pairs[i]->value = fg_arena_text(arena, labels->items[i].value);
        if (pairs[i]->name == NULL || pairs[i]->value == NULL)
            return NULL;
    }
    return pairs;
}

/* Push takes all labels as they are, also __name__; but it takes pprof only. */
static enum fg_code send_by_series(const struct cli_pushing *pushing, struct fg_slice content,
                                   struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(SERIES_ARENA_MAX_BYTES);
    Push__V1__RawSample sample, *samples[] = {&sample};
    Push__V1__RawProfileSeries series, *all[] = {&series};
    Push__V1__PushRequest request;
    enum fg_code code;
    uint8_t *bytes;
    size_t len;

    push__v1__raw_sample__init(&sample);
    push__v1__raw_profile_series__init(&series);
    push__v1__push_request__init(&request);
    /* Borrowed: protobuf-c only reads it when it packs, hence the cast that drops const. */
    sample.raw_profile = (ProtobufCBinaryData){content.len, (uint8_t *)(uintptr_t)content.ptr};
    series.samples = samples;
    series.n_samples = 1;
    series.labels = make_pairs(arena, pushing->series);
    series.n_labels = pushing->series->count;
    request.series = all;
    request.n_series = 1;
    if (series.labels == NULL)
        return fg_fail(err, FG_E_LIMIT, "labels of too many bytes");
    len = push__v1__push_request__get_packed_size(&request);
    bytes = fg_malloc(len);
    (void)push__v1__push_request__pack(&request, bytes);
    code = send_body(pushing, "/push.v1.PusherService/Push", "application/proto",
                     fg_bytes(bytes, len), err);
    free(bytes);
    return code;
}

/* ---- a file ---- */

static enum fg_code push_content(const struct cli_pushing *pushing, const char *file,
                                 struct fg_slice content, struct cli_pushed *ret_pushed,
                                 struct fg_err *err)
{
    enum fg_file_format found = fg_file_format_find(fg_cstr(file), content);
    const char *format = pushing->format != NULL ? pushing->format : fg_file_format_name(found);
    int64_t time_ns;
    enum fg_code code;

    if (pushing->format == NULL && !fg_file_format_is_ingested(found))
        return fg_fail(err, FG_E_INVALID,
                       "%zu bytes of %s, which is stored as no series: flamegrid adhoc upload "
                       "takes it to look at",
                       content.len, format);
    code = cli_push_content_check(format, content, &time_ns, err);
    if (code != FG_OK)
        return fg_wrap(err, "%zu bytes of %s", content.len, format);
    /* Labels of a file .series are complete; a name may lack some of them. */
    if (pushing->series == NULL)
        code = send_by_name(pushing, format, content, err);
    else if (strcmp(format, "pprof") == 0)
        code = send_by_series(pushing, content, err);
    else
        code = fg_fail(err, FG_E_INVALID, "with labels of its own only pprof can be sent");
    if (code != FG_OK)
        return fg_wrap(err, "%zu bytes of %s", content.len, format);
    *ret_pushed =
        (struct cli_pushed){content.len, format, time_ns != 0 ? time_ns : pushing->from_ns};
    return FG_OK;
}

enum fg_code cli_push_file(const struct cli_pushing *pushing, const char *file,
                           struct cli_pushed *ret_pushed, struct fg_err *err)
{
    struct fg_buf content;
    enum fg_code code;

    fg_buf_init(&content, UPLOAD_FILE_MAX_BYTES);
    code = cli_upload_file_read(file, &content, err);
    if (code == FG_OK && content.len == 0)
        code = fg_fail(err, FG_E_INVALID, "is empty, not sent");
    if (code == FG_OK)
        code = push_content(pushing, file, fg_buf_slice(&content), ret_pushed, err);
    fg_buf_done(&content);
    return code;
}
