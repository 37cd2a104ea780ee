#include "deploy/single/pushing.h"

#include "common/base/str.h"
#include "deploy/single/upload_file.h"

#include <time.h>

enum {
    RETRIES_MAX = 5,
    RETRY_AFTER_MAX_S = 60, /* whatever the server says: somebody is waiting */
};

static void add_param(struct fg_buf *path, const char *name, const char *value)
{
    if (value == NULL)
        return;
    fg_buf_printf(path, "%c%s=", fg_slice_find(fg_buf_slice(path), '?') == SIZE_MAX ? '?' : '&',
                  name);
    fg_buf_url(path, fg_cstr(value));
}

/* With a NUL at the end. */
static void write_path(const struct pushing *pushing, const char *format, struct fg_buf *path)
{
    fg_buf_puts(path, "/ingest");
    add_param(path, "name", pushing->name);
    add_param(path, "from", pushing->from);
    add_param(path, "until", pushing->until);
    add_param(path, "format", format);
    add_param(path, "spyName", pushing->spy_name);
    if (pushing->sample_rate > 0)
        fg_buf_printf(path, "&sampleRate=%llu", (unsigned long long)pushing->sample_rate);
    fg_buf_putc(path, '\0');
}

/* Without advice from the server the pauses double, from one second on. */
static time_t pause_s(const struct client_reply *reply, unsigned attempt)
{
    uint64_t wait_s = reply->retry_after_s > 0 ? reply->retry_after_s : UINT64_C(1) << attempt;

    return (time_t)FG_MIN(wait_s, RETRY_AFTER_MAX_S);
}

static enum fg_code send_file(const struct pushing *pushing, const char *path,
                              struct fg_slice content, struct client_reply *ret_reply,
                              struct fg_err *err)
{
    for (unsigned attempt = 0;; attempt++) {
        struct client_reply reply = {0};

        if (client_post(pushing->client, path, "application/octet-stream", content, &reply, err) !=
            FG_OK)
            return err->code;
        if ((reply.status != 429 && reply.status != 503) || attempt == RETRIES_MAX) {
            *ret_reply = reply;
            return FG_OK;
        }
        struct timespec pause = {.tv_sec = pause_s(&reply, attempt)};
        client_reply_done(&reply);
        (void)nanosleep(&pause, NULL);
    }
}

static enum fg_code push_content(const struct pushing *pushing, const char *file,
                                 struct fg_slice content, struct pushed *ret_pushed,
                                 struct fg_err *err)
{
    const char *format =
        pushing->format != NULL ? pushing->format : upload_file_format(file, content);
    struct client_reply reply = {0};
    struct fg_buf path;

    fg_buf_init(&path, SIZE_MAX);
    write_path(pushing, format, &path);
    enum fg_code code = send_file(pushing, (const char *)path.ptr, content, &reply, err);
    fg_buf_done(&path);
    if (code != FG_OK)
        return code;
    code = client_check(&reply, err);
    client_reply_done(&reply);
    if (code == FG_OK)
        *ret_pushed = (struct pushed){content.len, format};
    else
        (void)fg_wrap(err, "%zu bytes of %s", content.len, format);
    return code;
}

enum fg_code push_file(const struct pushing *pushing, const char *file, struct pushed *ret_pushed,
                       struct fg_err *err)
{
    struct fg_buf content;
    enum fg_code code;

    fg_buf_init(&content, UPLOAD_FILE_MAX_BYTES);
    code = upload_file_read(file, &content, err);
    if (code == FG_OK && content.len == 0)
        code = fg_fail(err, FG_E_INVALID, "is empty, not sent");
    if (code == FG_OK)
        code = push_content(pushing, file, fg_buf_slice(&content), ret_pushed, err);
    fg_buf_done(&content);
    return code;
}
