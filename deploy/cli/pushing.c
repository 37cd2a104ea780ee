#include "deploy/cli/pushing.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "deploy/cli/push_check.h"
#include "deploy/cli/push_request.h"
#include "deploy/cli/retry.h"
#include "deploy/cli/times.h"
#include "deploy/cli/upload_file.h"
#include "proto/file_format.h"

#include <string.h>
#include <time.h>

enum { RETRIES_MAX = 5 };

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
        struct timespec pause = {.tv_sec = cli_retry_pause_s(reply.retry_after_s, attempt)};
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
    if (code != FG_OK && strstr(err->msg, "unknown profile type") != NULL) {
        size_t brace = strcspn(pushing->name, "{");

        return fg_wrap(err,
                       "a name with a dot needs a type at its end if the file is %s, such as "
                       "%.*s.cpu%s",
                       format, (int)brace, pushing->name, pushing->name + brace);
    }
    return code;
}

/* ---- by all labels ---- */

/* Push takes all labels as they are, also __name__; but it takes pprof only. */
static enum fg_code send_by_series(const struct cli_pushing *pushing, struct fg_slice content,
                                   struct fg_err *err)
{
    struct fg_buf body;
    enum fg_code code;

    fg_buf_init(&body, SIZE_MAX);
    code = cli_push_request_write(pushing->series, NULL, content, &body, err);
    if (code == FG_OK)
        code = send_body(pushing, CLI_PUSH_PATH, CLI_PUSH_TYPE, fg_buf_slice(&body), err);
    fg_buf_done(&body);
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
