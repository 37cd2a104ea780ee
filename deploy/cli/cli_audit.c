/*
 * `flamegrid audit list|tail|export|verify`: who did what. The first three ask a server
 * (GET /api/audit), the last one works on the bucket.
 */
#include "common/base/str.h"
#include "common/base/time.h"
#include "deploy/cli/args.h"
#include "deploy/cli/audit_verify.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/client.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/times.h"
#include "deploy/single/server.h"

#include <errno.h>
#include <string.h>

enum { PATH_MAX_BYTES = 4096, PAGE = 1000, TAIL = 20, LINES_MAX = 1000000 };

struct audit_command {
    struct cli_client_config server;
    const char *from, *until, *who, *of, *kind; /* NULL: not given */
    const char *known;                          /* of verify */
    uint64_t lines;                             /* of tail */
    bool json;
    uint64_t n_records; /* that came */
    int64_t from_ms, to_ms;
    struct cli_client *client;
    struct fg_err err;
};

static const char about[] =
    "Shows what the audit has recorded: changes of tenants, tokens, limits and rules, deletions,\n"
    "exports, shared profiles, refused requests and, if audit.reads says so, queries.\n";

static const char notes[] =
    "list, tail and export ask a server and need a token with the scope admin, or tenant-admin,\n"
    "which sees records of its tenants. The server knows what is stored: records of the last\n"
    "minutes (audit.flush) are missing.\n"
    "\n"
    "verify works on the bucket that a server with the same settings has: --config FILE,\n"
    "--data DIR, --bucket.type s3 and so on, or FG_... in the environment. It reads all records.\n"
    "It exits with 1 if there are faults, which it prints with chain, object and line, and with 2\n"
    "if the bucket cannot be read. Keep what --json prints at a safe place: from the second run\n"
    "on, --known finds with it also what somebody cut off the end of a chain, or wrote again with\n"
    "new hashes.\n"
    "\n" CLI_TIMES_HELP "\n"
    "examples:\n"
    "  flamegrid audit list --from 7d --who 4uJc0TqZ\n"
    "  flamegrid audit export --from 2026-01-01 --until 2026-02-01 --kind delete\n"
    "  flamegrid audit verify --config /etc/flamegrid/server.yaml --json >heads.json\n"
    "  flamegrid audit verify --config /etc/flamegrid/server.yaml --known heads.json\n";

/* ---- records from a server ---- */

static void put_param(struct fg_buf *path, const char *name, const char *value)
{
    if (value == NULL)
        return;
    fg_buf_printf(path, "&%s=", name);
    fg_buf_url(path, fg_cstr(value));
}

/* Reads the records from a time on. */
static enum fg_code get_page(struct audit_command *command, int64_t from_ms, json_t **ret_document)
{
    struct cli_client_reply reply = {0};
    struct fg_buf path;
    enum fg_code code;

    fg_buf_init(&path, PATH_MAX_BYTES);
    fg_buf_puts(&path, "/api/audit?from=");
    cli_time_put_ms(from_ms, &path);
    fg_buf_puts(&path, "&to=");
    cli_time_put_ms(command->to_ms, &path);
    fg_buf_printf(&path, "&limit=%d", PAGE);
    put_param(&path, "who", command->who);
    put_param(&path, "tenant", command->of);
    put_param(&path, "kind", command->kind);
    fg_buf_putc(&path, '\0');
    code = path.full
               ? fg_fail(&command->err, FG_E_INVALID, "the options are too long")
               : cli_client_get(command->client, (const char *)path.ptr, &reply, &command->err);
    fg_buf_done(&path);
    return code == FG_OK ? cli_json_reply(&reply, ret_document, &command->err) : code;
}

/* Calls each() with all records, page by page. */
static enum fg_code each_record(struct audit_command *command,
                                void (*each)(const json_t *record, void *arg), void *arg)
{
    int64_t from_ms = command->from_ms;

    do {
        json_t *document = NULL;
        const json_t *record;
        size_t i;

        if (get_page(command, from_ms, &document) != FG_OK)
            return command->err.code;
        json_array_foreach(json_object_get(document, "records"), i, record) each(record, arg);
        command->n_records += json_array_size(json_object_get(document, "records"));
        json_array_foreach(json_object_get(document, "unreadable"), i, record)(void)
            fprintf(stderr, "flamegrid audit: %s cannot be read, its records are missing\n",
                    json_string_value(record));
        from_ms = json_integer_value(json_object_get(document, "nextMs"));
        json_decref(document);
    } while (from_ms != 0);
    return FG_OK;
}

static const char *text_of(const json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));

    return text == NULL ? "" : text;
}

/* Texts come from outside: control characters must not reach the terminal. */
static void print_text(const char *before, const char *text)
{
    if (text[0] == '\0')
        return;
    (void)fputs(before, stdout);
    for (; *text != '\0'; text++)
        (void)putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

static void print_number(const char *before, const json_t *record, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(record, key));

    if (number != 0)
        printf("%s%lld", before, (long long)number);
}

static void print_record(const json_t *record, void *arg)
{
    char time[CLI_TIME_TEXT_BYTES];

    (void)arg;
    cli_time_write(json_integer_value(json_object_get(record, "ms")) * FG_MS_NS, time);
    printf("%s %-9s", time, text_of(record, "kind"));
    print_text(" ", text_of(record, "phase"));
    print_number(" ", record, "status");
    print_text(" ", text_of(record, "who"));
    if (json_object_get(record, "who") == NULL) /* of a refusal nobody is proven */
        print_text(" token ", text_of(record, "token"));
    print_text(" from ", text_of(record, "source"));
    print_text(" tenant ", text_of(record, "tenant"));
    print_text(" ", text_of(record, "method"));
    print_text(" ", text_of(record, "route"));
    print_number(" times ", record, "count");
    print_number(" bytes ", record, "bytes");
    print_text(": ", text_of(record, "detail"));
    printf("\n");
}

static void print_json(const json_t *record, void *arg)
{
    (void)arg;
    (void)json_dumpf(record, stdout, JSON_COMPACT);
    printf("\n");
}

static enum fg_code list(struct audit_command *command)
{
    return each_record(command, command->json ? print_json : print_record, NULL);
}

static enum fg_code export(struct audit_command *command) {
    return each_record(command, print_json, NULL);
}

/* The last records that came, in a circle. */
struct last_records {
    json_t **records;
    uint64_t n, cap;
};

static void keep_record(const json_t *record, void *arg)
{
    struct last_records *last = arg;
    json_t **place = &last->records[last->n++ % last->cap];

    json_decref(*place);
    *place = json_deep_copy(record);
}

static enum fg_code tail(struct audit_command *command)
{
    struct last_records last = {.records = fg_calloc(command->lines, sizeof(json_t *)),
                                .cap = command->lines};
    enum fg_code code = each_record(command, keep_record, &last);

    for (uint64_t i = last.n < last.cap ? 0 : last.n - last.cap; i < last.n; i++) {
        if (code == FG_OK)
            (command->json ? print_json : print_record)(last.records[i % last.cap], NULL);
        json_decref(last.records[i % last.cap]);
    }
    free(last.records);
    return code;
}

static enum fg_code read_range(struct audit_command *command)
{
    int64_t now_ns = fg_wall_ns(fg_clock_real()), from_ns, to_ns = now_ns;

    if (cli_time_parse("--from", command->from == NULL ? "1d" : command->from, now_ns, &from_ns,
                       &command->err) != FG_OK ||
        (command->until != NULL &&
         cli_time_parse("--until", command->until, now_ns, &to_ns, &command->err) != FG_OK))
        return command->err.code;
    command->from_ms = from_ns / FG_MS_NS;
    command->to_ms = to_ns / FG_MS_NS;
    return FG_OK;
}

/* ---- verify ---- */

static int verify(const struct fg_program_def *def, struct audit_command *command,
                  const struct cli_args_command *args, int n_settings, char **settings)
{
    struct fg_bucket *bucket = NULL;
    struct fg_program program;
    int code = CLI_UNKNOWN;

    if (fg_program_configure(def, n_settings, settings, &program, &command->err) != FG_OK ||
        single_open_bucket(&bucket, &command->err) != FG_OK) {
        (void)cli_args_refuse(args, &command->err);
    } else if (cli_audit_verify(bucket, command->known, command->json, stdout, &command->err) ==
               FG_OK) {
        code = CLI_OK;
    } else {
        (void)cli_args_fail(args, &command->err);
        code = command->err.code == FG_E_CORRUPT ? CLI_FAILED : CLI_UNKNOWN;
    }
    fg_bucket_close(bucket);
    fg_program_forget(&program);
    return code;
}

/* ---- the command ---- */

struct audit_verb {
    struct cli_args_verb verb;
    enum fg_code (*run)(struct audit_command *command); /* NULL: verify(), which has settings */
};

#define OF_SERVER "from until who of-tenant kind url ca-file token"

static const struct audit_verb verbs[] = {
    {{"list", NULL, 0, 0, OF_SERVER,
      "prints the records of a time, a line each; of a day unless --from says otherwise\n"},
     list},
    {{"tail", NULL, 0, 0, OF_SERVER " lines", "prints the last records\n"}, tail},
    {{"export", NULL, 0, 0, OF_SERVER, "prints the records as they are stored, as lines of JSON\n"},
     export},
    {{"verify", NULL, 0, 0, "known",
      "checks on the bucket that no record was changed, removed or moved\n"},
     NULL},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

static int run(struct audit_command *command, const struct cli_args_command *args,
               const struct audit_verb *verb)
{
    enum fg_code code;

    if (read_range(command) != FG_OK ||
        cli_client_create(&command->server, &command->client, &command->err) != FG_OK)
        return cli_args_refuse(args, &command->err);
    code = verb->run(command);
    cli_client_destroy(command->client);
    if (code == FG_OK && command->n_records == 0)
        (void)fprintf(stderr, "flamegrid: no records of this time are stored; those of the last "
                              "minutes (audit.flush) come later\n");
    if (code == FG_OK && fflush(stdout) != 0)
        code = fg_fail_errno(&command->err, errno, "standard output");
    return code == FG_OK ? CLI_OK : cli_args_fail(args, &command->err);
}

static int with_def(const struct fg_program_def *def, int argc, char **argv)
{
    struct audit_command command = {.lines = TAIL};
    const struct cli_args_option options[] = {
        {"from", 0, ARGS_TEXT, &command.from, "TIME", "begin the range here; default 1d", 0, 0},
        {"until", 0, ARGS_TEXT, &command.until, "TIME", "end the range here; default now", 0, 0},
        {"who", 0, ARGS_TEXT, &command.who, "WHO",
         "show records of this token or person, or of a part of the name", 0, 0},
        {"of-tenant", 0, ARGS_TEXT, &command.of, "ID", "show records about this tenant", 0, 0},
        {"kind", 0, ARGS_TEXT, &command.kind, "KIND",
         "show records of this kind: admin, delete, export, refused and so on", 0, 0},
        {"lines", 'n', ARGS_NUMBER, &command.lines, "N", "show the last N records; default 20", 1,
         LINES_MAX},
        {"json", 0, ARGS_FLAG, &command.json, NULL,
         "print records as lines of JSON; of verify, one document", 0, 0},
        {"known", 0, ARGS_TEXT, &command.known, "FILE",
         "compare with earlier output of verify --json in FILE", 0, 0},
        CLIENT_ADMIN_OPTIONS(command.server),
    };
    const struct cli_args_command args = {"audit", "[options]",       about,     notes,
                                          options, FG_COUNT(options), &all_verbs};
    int at = cli_args_first_word(&args, argc, argv), words, n_settings = 0, code;
    /* Only what works on the bucket has settings; for the others unknown options are errors. */
    const struct audit_verb *verb =
        at < argc && strcmp(argv[at], "verify") == 0
            ? cli_args_begin_on_bucket(&args, argc, argv, &words, &n_settings, &code)
            : cli_args_begin_verb(&args, argc, argv, &words, &code);

    if (verb == NULL)
        return code;
    if (verb->run == NULL)
        return verify(def, &command, &args, n_settings, argv + words);
    return run(&command, &args, verb);
}

int cli_audit(int argc, char **argv)
{
    return single_with_def(with_def, argc, argv);
}
