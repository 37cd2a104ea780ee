#include "common/base/time.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/push_check.h"
#include "deploy/cli/push_dir.h"
#include "deploy/cli/times.h"
#include "proto/file_format.h"

enum {
    NAME_ARENA_MAX_BYTES = 4 * 1024 * 1024, /* a word of a command line has <= 128 KiB */
    CONNECTIONS_DEFAULT = 4,
};

struct cli_push {
    struct fg_arena *arena;
    struct cli_push_name name;
    struct cli_client_config server;
    struct cli_pushing pushing;
    const char *dir, *resume, *from, *until;
    uint64_t connections;
    bool json;
};

static const char about[] = "Sends each FILE as one profile; \"-\" is standard input. With --dir "
                            "it sends all files below a\n"
                            "folder, over several connections.\n";

static const char notes[] =
    "NAME is the service and its labels: 'shop{env=prod,region=eu}', with or without quotes "
    "around\n"
    "the values.\n"
    "\n"
    "Without --format the end of a name decides, before .gz or .zst: .pb and .pprof; .lines, one\n"
    "stack a line; .jfr, a Java recording; .trie and .tree; .json, speedscope's; .folded,\n"
    ".collapsed and .txt, collapsed stacks, \"main;work 30\" a line. Other files are pprof if "
    "they\n"
    "are compressed or no text, and collapsed stacks if they are text.\n"
    "\n"
    "Text has no types, so for text the name of the service may end with one: shop.cpu (the\n"
    "default), shop.wall, shop.alloc_space, shop.inuse_objects, shop.goroutines, shop.mutex_count\n"
    "and so on; the service is shop. For text a service with a dot in its name needs the ending:\n"
    "my.shop.cpu. For pprof the name is used as it is.\n"
    "\n" CLI_TIMES_HELP "A time inside a pprof takes precedence.\n"
    "\n"
    "If the server is busy (429, 503), each file is tried up to six times.\n"
    "\n"
    "--dir DIR sends all files below DIR, of any age, except hidden ones; a profile with a time "
    "of\n"
    "its own is stored under that time. Without --name the folder below DIR is the service:\n"
    "DIR/shop/2024-01-31/cpu.pb.gz belongs to shop. Or a file .series in the folder, or in one\n"
    "above it, has all labels: {__name__=\"process_cpu\", service_name=\"shop\", env=\"prod\"}.\n"
    "flamegrid bucket export --split writes such files. A profile that is sent again counts once.\n"
    "With --resume FILE the same command continues after an interruption; FILE is removed when\n"
    "everything is sent.\n"
    "\n"
    "examples:\n"
    "  flamegrid push cpu.pb.gz heap.pb.gz --name 'shop{env=prod}'\n"
    "  perf script | stackcollapse-perf.pl | flamegrid push - --name shop.cpu\n"
    "  flamegrid push old.folded --name shop --from now-2h --until now-1h\n"
    "  flamegrid push --dir /var/profiles --connections 8\n";

/* Checks what the table of options cannot express: which options exclude or need each other. */
static enum fg_code check_what(const struct cli_push *push, int words, struct fg_err *err)
{
    if (push->dir == NULL && (push->resume != NULL || push->connections != 0))
        return fg_fail(err, FG_E_INVALID, "--resume and --connections need --dir");
    if (push->dir != NULL)
        return words == 0 ? FG_OK : fg_fail(err, FG_E_INVALID, "--dir or files, not both at once");
    if (words == 0)
        return fg_fail(err, FG_E_INVALID, "which files? \"-\" is standard input");
    if (push->pushing.name == NULL || push->pushing.name[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "--name is needed: the service the profiles are of");
    return FG_OK;
}

/* Rewrites the name as the server expects it. */
static enum fg_code read_name(struct cli_push *push, struct fg_err *err)
{
    struct fg_buf text;

    if (push->pushing.name == NULL)
        return FG_OK;
    if (cli_push_name_parse(push->pushing.name, push->arena, &push->name, err) != FG_OK)
        return err->code;
    /* Values lose their quotes here, since the parameter of /ingest has none. */
    fg_buf_init(&text, SIZE_MAX);
    cli_push_name_write(&push->name, &text);
    push->pushing.name = fg_arena_text(push->arena, fg_buf_slice(&text));
    fg_buf_done(&text);
    return FG_OK;
}

/* Reads the times. A time that was not given stays 0. The server counts a profile by its beginning.
 */
static enum fg_code read_times(struct cli_push *push, struct fg_err *err)
{
    struct cli_pushing *pushing = &push->pushing;
    int64_t now_ns = fg_wall_ns(fg_clock_real());

    if (push->from != NULL &&
        cli_time_parse("--from", push->from, now_ns, &pushing->from_ns, err) != FG_OK)
        return err->code;
    if (push->until != NULL &&
        cli_time_parse("--until", push->until, now_ns, &pushing->until_ns, err) != FG_OK)
        return err->code;
    if (pushing->until_ns != 0 && pushing->from_ns > pushing->until_ns)
        return fg_fail(err, FG_E_INVALID, "--from %s is not before --until %s", push->from,
                       push->until);
    return FG_OK;
}

static enum fg_code check(struct cli_push *push, int words, struct fg_err *err)
{
    const char *format = push->pushing.format;
    enum fg_file_format known;

    if (check_what(push, words, err) != FG_OK || read_name(push, err) != FG_OK ||
        read_times(push, err) != FG_OK)
        return err->code;
    /* Here and not at the server, which would refuse each file of a folder one by one. */
    if (format != NULL &&
        (!fg_file_format_parse(fg_cstr(format), &known) || !fg_file_format_is_ingested(known)))
        return fg_fail(err, FG_E_INVALID,
                       "--format %s: it is pprof, folded, lines, jfr, trie, "
                       "tree or speedscope",
                       format);
    return cli_client_create(&push->server, &push->pushing.client, err);
}

/* Prints the command that finds a profile of another time: a query without times asks about the
 * last hour. */
static void tell_time(const struct cli_push *push, const struct cli_pushed *pushed)
{
    int64_t now_ns = fg_wall_ns(fg_clock_real());
    char at[CLI_TIME_TEXT_BYTES], until[CLI_TIME_TEXT_BYTES];
    struct fg_buf selector;

    if (pushed->time_ns == 0 ||
        (pushed->time_ns > now_ns - FG_HOUR_NS && pushed->time_ns <= now_ns))
        return;
    fg_buf_init(&selector, SIZE_MAX);
    cli_push_name_write_selector(&push->name, strcmp(pushed->format, "pprof") != 0, &selector);
    cli_time_write(pushed->time_ns, at);
    /* A second later, since the time is written in full seconds and `until` must be after
     * `from`. */
    cli_time_write(fg_time_add(pushed->time_ns, FG_SECOND_NS), until);
    printf("  its time is %s: flamegrid query '%.*s' --from %s --until %s\n", at,
           FG_S(fg_buf_slice(&selector)), at, until);
    fg_buf_done(&selector);
}

static json_t *json_of_file(const char *file, const struct cli_pushed *pushed,
                            const struct fg_err *err)
{
    json_t *json = json_pack("{s:o,s:b}", "file", cli_json_text(fg_cstr(file)), "ok", err == NULL);

    if (err != NULL) {
        (void)json_object_set_new(json, "error", cli_json_text(fg_cstr(err->msg)));
        return json;
    }
    (void)json_object_set_new(json, "bytes", cli_json_u64(pushed->bytes));
    (void)json_object_set_new(json, "format", json_string(pushed->format));
    if (pushed->time_ns != 0)
        (void)json_object_set_new(json, "time", cli_json_time(pushed->time_ns));
    return json;
}

/* Sends the files. A file that fails does not stop the others. */
static int push_files(const struct cli_push *push, int words, char **files)
{
    const struct cli_pushing *pushing = &push->pushing;
    json_t *results = push->json ? json_array() : NULL;
    int code = CLI_OK;
    struct fg_err err;

    for (int i = 0; i < words; i++) {
        struct cli_pushed pushed;
        bool good = cli_push_file(pushing, files[i], &pushed, &err) == FG_OK;

        if (results != NULL)
            (void)json_array_append_new(results,
                                        json_of_file(files[i], &pushed, good ? NULL : &err));
        if (!good) {
            fprintf(stderr, "%s: failed, %s\n", files[i], err.msg);
            code = CLI_FAILED;
        } else if (results == NULL) {
            printf("%s: ok 200, %zu bytes of %s\n", files[i], pushed.bytes, pushed.format);
            tell_time(push, &pushed);
        }
    }
    if (results != NULL &&
        cli_json_print(json_pack("{s:b,s:o}", "ok", code == CLI_OK, "files", results), stdout,
                       &err) != FG_OK) {
        fprintf(stderr, "flamegrid push: %s\n", err.msg);
        code = CLI_FAILED;
    }
    return code;
}

int cli_push(int argc, char **argv)
{
    struct cli_push push = {0};
    struct cli_pushing *pushing = &push.pushing;
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"name",        'n', ARGS_TEXT,   &pushing->name,        "NAME",   "store under this service and labels: 'shop{env=prod}'", 0, 0},
        {"format",      'f', ARGS_TEXT,   &pushing->format,      "FORMAT", "read files as pprof, folded, lines, jfr, trie, tree or speedscope; see below", 0, 0},
        {"from",        0,   ARGS_TEXT,   &push.from,            "TIME",   "give the profile this start time; default now", 0, 0},
        {"until",       0,   ARGS_TEXT,   &push.until,           "TIME",   "give the profile this end time; default now", 0, 0},
        {"sample-rate", 0,   ARGS_NUMBER, &pushing->sample_rate, "HZ",     "read counts in texts as samples taken HZ times a second; default 100", 1, UINT32_MAX},
        {"spy-name",    0,   ARGS_TEXT,   &pushing->spy_name,    "NAME",   "name the profiler, for the label pyroscope_spy", 0, 0},
        {"dir",         0,   ARGS_TEXT,   &push.dir,             "DIR",    "send all files below this folder", 0, 0},
        {"connections", 'c', ARGS_NUMBER, &push.connections,     "N",      "send over N connections with --dir; default 4", 1, 256},
        {"resume",      0,   ARGS_TEXT,   &push.resume,          "FILE",   "note in FILE what --dir has sent; send only the rest", 0, 0},
        {"json",        0,   ARGS_FLAG,   &push.json,            NULL,     "print what was sent as JSON", 0, 0},
        CLIENT_OPTIONS(push.server),
    };
    /* clang-format on */
    const struct cli_args_command command = {"push",  "FILE... --name NAME | --dir DIR [options]",
                                             about,   notes,
                                             options, FG_COUNT(options),
                                             NULL};
    struct fg_err err;
    int words, code;

    if (!cli_args_begin(&command, argc, argv, &words, &code))
        return code;
    push.arena = fg_arena_create(NAME_ARENA_MAX_BYTES);
    if (check(&push, words, &err) != FG_OK)
        code = cli_args_refuse(&command, &err);
    else if (push.dir == NULL)
        code = push_files(&push, words, argv);
    else if (cli_push_dir(
                 pushing, &push.server, push.dir,
                 (unsigned)(push.connections == 0 ? CONNECTIONS_DEFAULT : push.connections),
                 push.resume, push.json, &code, &err) != FG_OK)
        code = cli_args_fail(&command, &err);
    cli_client_destroy(pushing->client);
    fg_arena_destroy(push.arena);
    return code;
}
