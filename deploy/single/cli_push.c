#include "common/base/str.h"
#include "deploy/single/cli.h"
#include "deploy/single/client.h"
#include "deploy/single/show.h"
#include "deploy/single/upload_file.h"

#include <time.h>

enum {
    RETRIES_MAX = 5,
    RETRY_AFTER_MAX_S = 60, /* whatever the server says: somebody is waiting */
};

struct push {
    struct client_config server;
    const char *name, *from, *until, *format, *spy_name;
    uint64_t sample_rate; /* 0: the server's default */

    struct client *client;
};

static const char about[] = "Sends each FILE as one profile; \"-\" is standard input.\n";

static const char notes[] =
    "NAME is the service and its labels, without quotes: 'shop{env=prod,region=eu}'.\n"
    "\n"
    "Without --format: files that are gzip, or end in .pb, .pb.gz or .pprof, are pprof; .lines "
    "has\n"
    "one stack a line; .jfr is a Java recording; .folded, .collapsed, .txt and all else are\n"
    "collapsed stacks, \"main;work 30\" a line.\n"
    "\n"
    "Text has no types in it, so for text the service's name may end with one: shop.cpu (the\n"
    "default), shop.wall, shop.alloc_space, shop.inuse_objects, shop.goroutines, shop.mutex_count\n"
    "and so on; the service is shop. A service that has a dot in its name therefore needs the\n"
    "ending: my.shop.cpu. With pprof the name is taken as it is.\n"
    "\n"
    "Times are written now-1h, 20240131, 1700000000 (seconds). A time inside a pprof comes first.\n"
    "A server that is busy (429, 503) is asked again up to five times.\n"
    "\n"
    "examples:\n"
    "  flamegrid push cpu.pb.gz heap.pb.gz --name 'shop{env=prod}'\n"
    "  perf script | stackcollapse-perf.pl | flamegrid push - --name shop.cpu\n"
    "  flamegrid push old.folded --name shop --from now-2h --until now-1h\n";

/* ---- one file ---- */

static void add_param(struct fg_buf *path, const char *name, const char *value)
{
    if (value == NULL)
        return;
    fg_buf_printf(path, "%c%s=", fg_slice_find(fg_buf_slice(path), '?') == SIZE_MAX ? '?' : '&',
                  name);
    fg_buf_url(path, fg_cstr(value));
}

/* With a NUL at the end. */
static void write_path(const struct push *push, const char *format, struct fg_buf *path)
{
    fg_buf_puts(path, "/ingest");
    add_param(path, "name", push->name);
    add_param(path, "from", push->from);
    add_param(path, "until", push->until);
    add_param(path, "format", format);
    add_param(path, "spyName", push->spy_name);
    if (push->sample_rate > 0)
        fg_buf_printf(path, "&sampleRate=%llu", (unsigned long long)push->sample_rate);
    fg_buf_putc(path, '\0');
}

/* Without advice from the server the pauses double, from one second on. */
static time_t pause_s(const struct client_reply *reply, unsigned attempt)
{
    uint64_t wait_s = reply->retry_after_s > 0 ? reply->retry_after_s : UINT64_C(1) << attempt;

    return (time_t)FG_MIN(wait_s, RETRY_AFTER_MAX_S);
}

static enum fg_code send_file(const struct push *push, const char *path, struct fg_slice content,
                              struct client_reply *ret_reply, struct fg_err *err)
{
    for (unsigned attempt = 0;; attempt++) {
        struct client_reply reply = {0};

        if (client_post(push->client, path, "application/octet-stream", content, &reply, err) !=
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

static enum fg_code push_content(const struct push *push, const char *file, struct fg_slice content,
                                 struct fg_err *err)
{
    const char *format = push->format != NULL ? push->format : upload_file_format(file, content);
    struct client_reply reply = {0};
    struct fg_buf path;

    fg_buf_init(&path, SIZE_MAX);
    write_path(push, format, &path);
    enum fg_code code = send_file(push, (const char *)path.ptr, content, &reply, err);
    fg_buf_done(&path);
    if (code != FG_OK)
        return code;
    code = client_check(&reply, err);
    client_reply_done(&reply);
    if (code == FG_OK)
        printf("%s: ok 200, %zu bytes of %s\n", file, content.len, format);
    else
        (void)fg_wrap(err, "%zu bytes of %s", content.len, format);
    return code;
}

static enum fg_code push_file(const struct push *push, const char *file, struct fg_err *err)
{
    struct fg_buf content;
    enum fg_code code;

    fg_buf_init(&content, UPLOAD_FILE_MAX_BYTES);
    code = upload_file_read(file, &content, err);
    if (code == FG_OK && content.len == 0)
        code = fg_fail(err, FG_E_INVALID, "is empty, not sent");
    if (code == FG_OK)
        code = push_content(push, file, fg_buf_slice(&content), err);
    fg_buf_done(&content);
    return code;
}

/* ---- the command ---- */

static enum fg_code check(struct push *push, int words, struct fg_err *err)
{
    if (words == 0)
        return fg_fail(err, FG_E_INVALID, "which files? \"-\" is standard input");
    if (push->name == NULL || push->name[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "--name is needed: the service the profiles are of");
    if (push->format != NULL && !upload_file_is_format(push->format))
        return fg_fail(err, FG_E_INVALID,
                       "--format %s: it is pprof, folded, lines, jfr, trie, "
                       "tree or speedscope",
                       push->format);
    return client_create(&push->server, &push->client, err);
}

/* A file that fails does not keep the others from being sent. */
static int push_files(const struct push *push, int words, char **files)
{
    int code = CLI_OK;

    for (int i = 0; i < words; i++) {
        struct fg_err err;

        if (push_file(push, files[i], &err) == FG_OK)
            continue;
        fprintf(stderr, "%s: failed, %s\n", files[i], err.msg);
        code = CLI_FAILED;
    }
    return code;
}

int cli_push(int argc, char **argv)
{
    struct push push = {0};
    /* clang-format off */
    const struct args_option options[] = {
        {"name",        'n', ARGS_TEXT,   &push.name,        "NAME",   "service and labels, needed: 'shop{env=prod}'", 0, 0},
        {"format",      'f', ARGS_TEXT,   &push.format,      "FORMAT", "pprof, folded, lines, jfr, trie, tree, speedscope", 0, 0},
        {"from",        0,   ARGS_TEXT,   &push.from,        "TIME",   "start of the profile, default now", 0, 0},
        {"until",       0,   ARGS_TEXT,   &push.until,       "TIME",   "its end, default now", 0, 0},
        {"sample-rate", 0,   ARGS_NUMBER, &push.sample_rate, "HZ",     "of text: counts a second, default 100", 1, UINT32_MAX},
        {"spy-name",    0,   ARGS_TEXT,   &push.spy_name,    "NAME",   "what took the profile; label pyroscope_spy", 0, 0},
        CLIENT_OPTIONS(push.server),
    };
    /* clang-format on */
    const struct args_command command = {
        "push", "FILE... --name NAME [options]", about, notes, options, FG_COUNT(options)};
    struct fg_err err;
    int words, code;

    if (!args_begin(&command, argc, argv, &words, &code))
        return code;
    if (check(&push, words, &err) != FG_OK)
        return args_refuse(&command, &err);
    code = push_files(&push, words, argv);
    client_destroy(push.client);
    return code;
}
