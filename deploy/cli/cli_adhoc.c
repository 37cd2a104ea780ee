#include "common/base/str.h"
#include "common/base/time.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/client.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/output.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"
#include "deploy/cli/upload_file.h"

#include <limits.h>
#include <string.h>

#define ROOT "/api/adhoc"

struct adhoc_command {
    struct cli_client_config server;
    struct cli_client *client;
    const char *type, *output;
    bool json;
    int n_words; /* after the verb */
    char **words;
    bool failed; /* in part, which was said */
};

struct adhoc_verb {
    struct cli_args_verb verb;
    enum fg_code (*run)(struct adhoc_command *command, struct fg_err *err);
};

static const char about[] = "Ad hoc profiles are files that are uploaded to look at them, without "
                            "storing them as series.\n";

static const char notes[] =
    "Formats are found as flamegrid push finds them. Files are deleted after a while\n"
    "(limits.adhoc_retention_period).\n"
    "\n"
    "examples:\n"
    "  flamegrid adhoc upload cpu.pb.gz\n"
    "  flamegrid adhoc list\n"
    "  flamegrid adhoc get ID -o cpu.pb.gz\n"
    "  flamegrid adhoc get ID --json --type cpu\n";

/* ---- requests ---- */

/* Reads a reply as a JSON object, which the caller frees. */
static enum fg_code read_object(const struct cli_client_reply *reply, json_t **ret_object,
                                struct fg_err *err)
{
    json_t *object;

    if (cli_client_check(reply, err) != FG_OK)
        return err->code;
    object = json_loadb((const char *)reply->body.ptr, reply->body.len, 0, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        return fg_fail(err, FG_E_UNKNOWN, "the server's answer is no JSON object");
    }
    *ret_object = object;
    return FG_OK;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "" : text;
}

/* A time in milliseconds as documents of commands have it; NULL: there is none. */
static json_t *time_of(const json_t *object, const char *key)
{
    const json_t *ms = json_object_get(object, key);
    int64_t ns;

    /* A server may send any integer; one that is no time is left out. */
    if (!json_is_integer(ms) || __builtin_mul_overflow(json_integer_value(ms), FG_MS_NS, &ns))
        return NULL;
    return cli_json_time(ns);
}

static void set_time(json_t *document, const json_t *from, const char *key)
{
    json_t *time = time_of(from, key);

    if (time != NULL)
        (void)json_object_set_new(document, key, time);
}

/* ---- upload ---- */

static enum fg_code send_file(struct adhoc_command *command, const char *file, json_t **ret_made,
                              struct fg_err *err)
{
    const char *slash = strrchr(file, '/'), *name = slash == NULL ? file : slash + 1;
    struct cli_client_reply reply = {0};
    struct fg_buf content, path;
    enum fg_code code;

    fg_buf_init(&content, UPLOAD_FILE_MAX_BYTES);
    fg_buf_init(&path, SIZE_MAX);
    /* The name alone: the server has no use for the folders of this machine. */
    fg_buf_puts(&path, ROOT "?name=");
    fg_buf_url(&path, strcmp(file, "-") == 0 ? FG_LIT("stdin") : fg_cstr(name));
    fg_buf_putc(&path, '\0');
    code = cli_upload_file_read(file, &content, err);
    if (code == FG_OK)
        /* The server finds the format by the name and the content. */
        code = cli_client_post(command->client, (const char *)path.ptr, "application/octet-stream",
                               fg_buf_slice(&content), &reply, err);
    if (code == FG_OK) {
        code = read_object(&reply, ret_made, err);
        cli_client_reply_done(&reply);
    }
    fg_buf_done(&content);
    fg_buf_done(&path);
    return code;
}

static json_t *json_of_upload(const struct adhoc_command *command, const char *file,
                              const json_t *made, const struct fg_err *err)
{
    json_t *json = json_pack("{s:o,s:b}", "file", cli_json_text(fg_cstr(file)), "ok", made != NULL);

    if (made == NULL) {
        (void)json_object_set_new(json, "error", cli_json_text(fg_cstr(err->msg)));
        return json;
    }
    (void)json_object_set_new(json, "id", json_string(text_of(made, "id")));
    (void)json_object_set_new(
        json, "url",
        json_sprintf("%s" ROOT "/%s", cli_client_url(command->client), text_of(made, "id")));
    set_time(json, made, "expires");
    return json;
}

/* A file that fails does not stop the others. */
static enum fg_code upload(struct adhoc_command *command, struct fg_err *err)
{
    json_t *results = command->json ? json_array() : NULL;

    for (int i = 0; i < command->n_words; i++) {
        const char *file = command->words[i];
        json_t *made = NULL;
        struct fg_err fault;

        if (send_file(command, file, &made, &fault) != FG_OK) {
            (void)fprintf(stderr, "%s: failed, %s\n", file, fault.msg);
            command->failed = true;
        } else if (results == NULL) {
            printf("%s\n", text_of(made, "id"));
        }
        if (results != NULL)
            /* The fault is read only if nothing was made. */
            (void)json_array_append_new(results, json_of_upload(command, file, made, &fault));
        json_decref(made);
    }
    if (results == NULL)
        return FG_OK;
    return cli_json_print(json_pack("{s:b,s:o}", "ok", !command->failed, "files", results), stdout,
                          err);
}

/* ---- list ---- */

static void print_row(const json_t *profile)
{
    json_t *uploaded = time_of(profile, "uploaded");
    struct fg_buf line;

    fg_buf_init(&line, SIZE_MAX);
    cli_show_text(fg_cstr(text_of(profile, "id")), &line);
    fg_buf_printf(&line, "  %lld bytes  ",
                  (long long)json_integer_value(json_object_get(profile, "bytes")));
    if (uploaded != NULL)
        fg_buf_puts(&line, json_string_value(uploaded));
    fg_buf_putc(&line, '\n');
    (void)fwrite(line.ptr, 1, line.len, stdout);
    json_decref(uploaded);
    fg_buf_done(&line);
}

static json_t *json_of_row(const json_t *profile)
{
    json_t *row =
        json_pack("{s:s,s:s}", "id", text_of(profile, "id"), "name", text_of(profile, "name"));

    (void)json_object_set_new(row, "size_bytes",
                              json_integer(json_integer_value(json_object_get(profile, "bytes"))));
    set_time(row, profile, "uploaded");
    set_time(row, profile, "expires");
    return row;
}

static enum fg_code list(struct adhoc_command *command, struct fg_err *err)
{
    json_t *answer = NULL, *profile, *rows = command->json ? json_array() : NULL;
    struct cli_client_reply reply = {0};
    enum fg_code code = cli_client_get(command->client, ROOT, &reply, err);
    size_t i;

    if (code == FG_OK)
        code = read_object(&reply, &answer, err);
    cli_client_reply_done(&reply);
    /* After a failure there is no answer: jansson takes NULL for an empty array. */
    json_array_foreach(json_object_get(answer, "profiles"), i, profile)
    {
        if (rows == NULL)
            print_row(profile);
        else
            (void)json_array_append_new(rows, json_of_row(profile));
    }
    json_decref(answer);
    if (code == FG_OK && rows != NULL)
        return cli_json_print(rows, stdout, err);
    json_decref(rows);
    return code;
}

/* ---- get, delete ---- */

static void put_path(const struct adhoc_command *command, struct fg_buf *path)
{
    fg_buf_puts(path, ROOT "/");
    fg_buf_url(path, fg_cstr(command->words[0]));
}

static enum fg_code get(struct adhoc_command *command, struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    struct fg_buf path;
    enum fg_code code;

    if (command->type != NULL && !command->json)
        return fg_fail(err, FG_E_INVALID, "--type needs --json: the file has all types");
    fg_buf_init(&path, SIZE_MAX);
    put_path(command, &path);
    /* An empty type means the first one of the file. */
    fg_buf_puts(&path, command->json ? "?type=" : "/raw");
    if (command->json && command->type != NULL)
        fg_buf_url(&path, fg_cstr(command->type));
    fg_buf_putc(&path, '\0');
    code = cli_client_get(command->client, (const char *)path.ptr, &reply, err);
    if (code == FG_OK)
        code = cli_client_check(&reply, err);
    if (code == FG_OK)
        code = cli_output_write(command->output, fg_buf_slice(&reply.body), err);
    cli_client_reply_done(&reply);
    fg_buf_done(&path);
    return code;
}

static enum fg_code delete_one(struct adhoc_command *command, struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    json_t *gone = NULL;
    struct fg_buf path;
    enum fg_code code;

    fg_buf_init(&path, SIZE_MAX);
    put_path(command, &path);
    fg_buf_putc(&path, '\0');
    code = cli_client_delete(command->client, (const char *)path.ptr, &reply, err);
    if (code == FG_OK)
        code = read_object(&reply, &gone, err);
    cli_client_reply_done(&reply);
    fg_buf_done(&path);
    if (code == FG_OK && command->json)
        code = cli_json_print(json_pack("{s:s}", "id", text_of(gone, "id")), stdout, err);
    else if (code == FG_OK)
        printf("%s deleted\n", text_of(gone, "id"));
    json_decref(gone);
    return code;
}

/* ---- the command ---- */

static const struct adhoc_verb verbs[] = {
    {{"upload", "FILE...", 1, INT_MAX, NULL,
      "uploads files and prints the id of each; \"-\" is standard input\n"},
     upload},
    {{"list", NULL, 0, 0, NULL, "lists the files of the tenant, newest first\n"}, list},
    {{"get", "ID", 1, 1, "output type",
      "writes a file as it was sent; with --json its flame graph\n"},
     get},
    {{"delete", "ID", 1, 1, NULL, "deletes a file\n"}, delete_one},
};

static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

static int run(struct adhoc_command *command, const struct cli_args_command *args,
               const struct adhoc_verb *verb)
{
    struct fg_err err;

    if (cli_client_create(&command->server, &command->client, &err) != FG_OK)
        return cli_args_refuse(args, &err);
    if (verb->run(command, &err) != FG_OK)
        return cli_args_end(args, &err);
    /* Other files were uploaded, but scripts have to learn that one was not. */
    return command->failed ? CLI_FAILED : CLI_OK;
}

int cli_adhoc(int argc, char **argv)
{
    struct adhoc_command command = {0};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"output", 'o', ARGS_TEXT, &command.output, "FILE", "write to FILE, not to standard output", 0, 0},
        {"type",   't', ARGS_TEXT, &command.type,   "TYPE", "show this sample type with --json; default the first", 0, 0},
        {"json",   0,   ARGS_FLAG, &command.json,   NULL,   "print the result as JSON; of get, the flame graph", 0, 0},
        CLIENT_OPTIONS(command.server),
    };
    /* clang-format on */
    const struct cli_args_command args = {"adhoc", "[options]",       about,     notes,
                                          options, FG_COUNT(options), &all_verbs};
    const struct adhoc_verb *verb;
    int words, code;

    verb = cli_args_begin_verb(&args, argc, argv, &words, &code);
    if (verb == NULL)
        return code;
    command.n_words = words - 1;
    command.words = argv + 1;
    code = run(&command, &args, verb);
    cli_client_destroy(command.client);
    return code;
}
