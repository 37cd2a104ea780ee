/*
 * `flamegrid import pyroscope URL`: copies what a running Pyroscope has into a flamegrid server. A
 * verb is a row of the table at the end; others could follow.
 */
#include "common/base/time.h"
#include "common/model/value_text.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/importing.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"

#include <math.h>

enum {
    CONNECTIONS_DEFAULT = 4,
    RETRIES_DEFAULT = 8, /* three minutes, with the pauses between them */
    TIMEOUT_DEFAULT_S = 60,
    HOUR_S = 3600,
};

struct import_command {
    struct cli_import_job job;
    const char *from, *until;
    uint64_t step_s, connections, retries, timeout_s;
    bool json;
};

static const char about[] = "Copies the profiles of another server into a flamegrid server.\n";

static const char notes[] =
    "Profiles keep their labels, types and values. Each is stored under its millisecond; the "
    "types\n"
    "of one profile become a profile each. Spans and the time within a millisecond are lost, "
    "since\n"
    "the source does not tell them. With --step S, the profiles of a series within S seconds "
    "become\n"
    "one: fewer requests for long ranges.\n"
    "\n"
    "Whatever is imported again counts once, as long as --step and --source-tenant are the same.\n"
    "With --resume FILE the same command continues after an interruption, and tries again what\n"
    "failed; FILE is removed when everything is imported. Profiles that agents sent to both "
    "servers\n"
    "would count twice: let --until be the time when they began to.\n"
    "\n"
    "Without --from the import begins where the source says that its profiles begin.\n"
    "\n" CLI_TIMES_HELP "\n"
    "The source gets --source-tenant, --source-token or --source-user, or FLAMEGRID_SOURCE_TOKEN "
    "or\n"
    "FLAMEGRID_SOURCE_USER, and nothing that is meant for the target.\n"
    "\n"
    "examples:\n"
    "  flamegrid import pyroscope http://pyroscope:4040 --dry-run\n"
    "  flamegrid import pyroscope http://pyroscope:4040 --from now-7d --resume import.state\n"
    "  flamegrid import pyroscope https://old.example --selector '{namespace=\"shop\"}' --rate "
    "50\n";

/* ---- the command line ---- */

/* Credentials of the command line exclude those of the environment, also of the other kind. */
static const char *or_env(const char *given, const char *other, const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    if (given != NULL || other != NULL)
        return given;
    return value == NULL || value[0] == '\0' ? NULL : value;
}

static enum fg_code check_range(struct import_command *command, struct fg_err *err)
{
    struct cli_import_job *job = &command->job;
    int64_t now_ns = fg_wall_ns(fg_clock_real()), from_ns, until_ns = now_ns;

    if (command->until != NULL &&
        cli_time_parse("--until", command->until, now_ns, &until_ns, err) != FG_OK)
        return err->code;
    if (command->from != NULL) {
        if (cli_time_parse("--from", command->from, now_ns, &from_ns, err) != FG_OK)
            return err->code;
        job->range.start_ms = from_ns / FG_MS_NS;
    } else if (cli_import_oldest(job, &job->range.start_ms, err) != FG_OK) {
        return err->code == FG_E_NOT_FOUND ? fg_fail(err, FG_E_INVALID, "%s; --from does", err->msg)
                                           : err->code;
    }
    job->range.end_ms = until_ns / FG_MS_NS;
    job->range = cli_import_align(&job->range, job->step_ms);
    if (job->range.start_ms >= job->range.end_ms)
        return fg_fail(err, FG_E_INVALID, "--from is not before --until");
    return FG_OK;
}

/* What the import is, for its state. Times as they were given: "now" moves on. */
static void write_about(const struct import_command *command, const char *target,
                        struct fg_buf *out)
{
    const struct cli_import_job *job = &command->job;

    fg_buf_printf(out, "%s tenant %s to %s tenant %s selector %s step %lld from %s until %s",
                  job->source.url, job->source.tenant == NULL ? "-" : job->source.tenant, target,
                  job->target.tenant == NULL ? "-" : job->target.tenant, job->selector,
                  (long long)job->step_ms, command->from == NULL ? "-" : command->from,
                  command->until == NULL ? "-" : command->until);
    /* It becomes one line of the state. */
    for (size_t i = 0; i < out->len; i++)
        if (out->ptr[i] == '\n' || out->ptr[i] == '\r')
            out->ptr[i] = ' ';
    fg_buf_putc(out, '\0');
}

static enum fg_code check(struct import_command *command, struct fg_buf *text, struct fg_err *err)
{
    struct cli_import_job *job = &command->job;
    struct cli_client_config *source = &job->source;
    fg_auto(cli_client) *target = NULL;

    source->shows = CLIENT_SHOWS_GIVEN;
    source->token = or_env(source->token, source->basic, "FLAMEGRID_SOURCE_TOKEN");
    source->basic = or_env(source->basic, source->token, "FLAMEGRID_SOURCE_USER");
    /* Without it a Pyroscope leaves out labels with dots (querier/API.md). */
    source->accept = "*/*;allow-utf8-labelnames=true";
    source->timeout_s = job->target.timeout_s = (unsigned)command->timeout_s;
    job->connections = (unsigned)command->connections;
    job->retries = (unsigned)command->retries;
    /* Windows are hours, and no step may cross the end of one. */
    if (command->step_s != 0 && HOUR_S % command->step_s != 0)
        return fg_fail(err, FG_E_INVALID, "--step %llu: it divides an hour, such as 15, 60 or 300",
                       (unsigned long long)command->step_s);
    job->step_ms = command->step_s == 0 ? 1 : (int64_t)command->step_s * 1000;
    /* Only to check the options, and for the URL as requests will have it. */
    if (cli_client_create(&job->target, &target, err) != FG_OK ||
        check_range(command, err) != FG_OK)
        return err->code;
    write_about(command, cli_client_url(target), text);
    job->about = (const char *)text->ptr;
    return FG_OK;
}

/* ---- the report ---- */

static const char *const whys[IMPORT_FAULTS] = {
    [IMPORT_UNASKED] = "the source failed",
    [IMPORT_UNREADABLE] = "the source's answer cannot be read",
    [IMPORT_UNSTABLE] = "the source's data changed all the time",
    [IMPORT_REFUSED] = "the target refuses it",
    [IMPORT_UNSENT] = "the target failed",
};

/* err NULL: it came to its end. */
static void print_json(const struct import_command *command, const struct cli_import_report *report,
                       int64_t took_ns, const struct fg_err *err)
{
    json_t *types = json_array(), *faults = json_array(), *json;
    const struct cli_selection_range *range = &command->job.range;
    struct fg_err ignored;

    for (size_t i = 0; i < report->n_types; i++)
        (void)json_array_append_new(types,
                                    json_pack("{s:o,s:o,s:o,s:o}", "type",
                                              cli_json_text(fg_cstr(report->types[i].id)), "series",
                                              cli_json_u64(report->types[i].series), "profiles",
                                              cli_json_u64(report->types[i].profiles), "bytes",
                                              cli_json_u64(report->types[i].bytes)));
    for (size_t i = 0; i < IMPORT_FAULTS; i++)
        if (report->faults[i] > 0)
            (void)json_array_append_new(faults,
                                        json_pack("{s:s,s:o,s:o}", "why", whys[i], "count",
                                                  cli_json_u64(report->faults[i]), "example",
                                                  cli_json_text(fg_cstr(report->examples[i]))));
    json = json_pack("{s:b,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:f,s:o,s:o}", "ok",
                     err == NULL && cli_import_report_faults(report) == 0, "dry_run",
                     command->job.dry_run, "from", cli_json_time(range->start_ms * FG_MS_NS),
                     "until", cli_json_time(range->end_ms * FG_MS_NS), "profiles",
                     cli_json_u64(report->profiles), "profiles_before",
                     cli_json_u64(report->profiles_before), "series", cli_json_u64(report->series),
                     "bytes", cli_json_u64(report->bytes), "joined", cli_json_u64(report->joined),
                     "expired", cli_json_u64(report->expired), "requests",
                     cli_json_u64(report->requests), "seconds",
                     round((double)took_ns / FG_MS_NS) / 1000, "types", types, "faults", faults);
    if (report->oldest_ms != 0)
        (void)json_object_set_new(json, "oldest", cli_json_time(report->oldest_ms * FG_MS_NS));
    if (report->newest_ms != 0)
        (void)json_object_set_new(json, "newest", cli_json_time(report->newest_ms * FG_MS_NS));
    if (err != NULL)
        (void)json_object_set_new(json, "error", cli_json_text(fg_cstr(err->msg)));
    if (cli_json_print(json, stdout, &ignored) != FG_OK)
        fprintf(stderr, "flamegrid import: %s\n", ignored.msg);
}

static void print_types(const struct cli_import_report *report)
{
    struct fg_buf name;

    fg_buf_init(&name, SIZE_MAX);
    if (report->n_types > 0)
        printf("%12s  %8s  %s\n", "profiles", "series", "type");
    for (size_t i = 0; i < report->n_types; i++) {
        const struct cli_import_type *type = &report->types[i];

        fg_buf_clear(&name);
        cli_show_text(fg_cstr(type->id), &name);
        printf("%12llu  %8llu  %.*s\n", (unsigned long long)type->profiles,
               (unsigned long long)type->series, FG_S(fg_buf_slice(&name)));
    }
    fg_buf_done(&name);
}

static const char *ending(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_total(const struct import_command *command,
                        const struct cli_import_report *report, int64_t took_ns)
{
    struct fg_buf bytes;

    fg_buf_init(&bytes, SIZE_MAX);
    fg_value_scaled((int64_t)FG_MIN(report->bytes, (uint64_t)INT64_MAX), FG_LIT("bytes"), &bytes);
    /* Each profile is fetched by a request of its own. */
    if (command->job.dry_run)
        printf("%llu profile%s of %llu series; the import sends at least %llu request%s to the "
               "source\n",
               (unsigned long long)report->profiles, ending(report->profiles),
               (unsigned long long)report->series, (unsigned long long)report->profiles,
               ending(report->profiles));
    else
        printf("%llu profile%s of %llu series imported, %.*s, %llu request%s to the source, %.1f "
               "s\n",
               (unsigned long long)report->profiles, ending(report->profiles),
               (unsigned long long)report->series, FG_S(fg_buf_slice(&bytes)),
               (unsigned long long)report->requests, ending(report->requests),
               (double)took_ns / FG_SECOND_NS);
    fg_buf_done(&bytes);
    if (report->profiles_before > 0)
        printf("%llu profile%s imported before\n", (unsigned long long)report->profiles_before,
               report->profiles_before == 1 ? " was" : "s were");
}

/* Facts about the copy that may surprise its reader. */
static void print_remarks(const struct import_command *command,
                          const struct cli_import_report *report)
{
    const struct cli_selection_range *range = &command->job.range;
    char oldest[CLI_TIME_TEXT_BYTES];

    if (report->joined > 0)
        printf("%llu profiles are of several milliseconds in a row, which the source cannot tell "
               "apart\n",
               (unsigned long long)report->joined);
    if (report->expired > 0)
        printf("%llu profiles are older than limits.retention_period of the target, and will not "
               "be kept\n",
               (unsigned long long)report->expired);
    if (report->profiles_before == 0 &&
        report->oldest_ms > range->start_ms + CLI_IMPORT_WINDOW_MS) {
        cli_time_write(report->oldest_ms * FG_MS_NS, oldest);
        printf("the oldest profile is of %s; if the source had older ones, its limits hide them "
               "(max_query_lookback)\n",
               oldest);
    }
}

static void print_text(const struct import_command *command, const struct cli_import_report *report,
                       int64_t took_ns)
{
    char from[CLI_TIME_TEXT_BYTES], until[CLI_TIME_TEXT_BYTES];

    cli_time_write(command->job.range.start_ms * FG_MS_NS, from);
    cli_time_write(command->job.range.end_ms * FG_MS_NS, until);
    printf("from %s until %s\n", from, until);
    print_types(report);
    print_total(command, report, took_ns);
    print_remarks(command, report);
    for (size_t i = 0; i < IMPORT_FAULTS; i++)
        if (report->faults[i] > 0)
            fprintf(stderr, "%llu not imported, since %s; such as %s\n",
                    (unsigned long long)report->faults[i], whys[i], report->examples[i]);
}

/* ---- the command ---- */

static int import(struct import_command *command, const struct cli_args_command *args)
{
    int64_t start_ns = fg_mono_ns(fg_clock_real());
    struct cli_import_report report;
    struct fg_err err;
    enum fg_code code = cli_import_run(&command->job, &report, &err);
    int64_t took_ns = fg_mono_ns(fg_clock_real()) - start_ns;
    bool good = code == FG_OK && cli_import_report_faults(&report) == 0;

    /* An import that ended before it found anything has nothing to report but its error. */
    if (command->json)
        print_json(command, &report, took_ns, code == FG_OK ? NULL : &err);
    else if (code == FG_OK || report.series > 0 || report.profiles_before > 0)
        print_text(command, &report, took_ns);
    /* After the report, since all that was imported until then counts. */
    if (code != FG_OK)
        (void)cli_args_fail(args, &err);
    if (!good && report.goes_on)
        fprintf(stderr, "the same command goes on where this one ended\n");
    cli_import_report_done(&report);
    return good ? CLI_OK : CLI_FAILED;
}

static const struct cli_args_verb verbs[] = {
    {"pyroscope", "URL", 1, 1, NULL,
     "copies the profiles of the Pyroscope at URL, by its query API: everything that it\n"
     "has, or what the options select. It goes on running meanwhile\n"},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

int cli_import(int argc, char **argv)
{
    struct import_command command = {.job = {.selector = "{}"},
                                     .connections = CONNECTIONS_DEFAULT,
                                     .retries = RETRIES_DEFAULT,
                                     .timeout_s = TIMEOUT_DEFAULT_S};
    struct cli_import_job *job = &command.job;
    struct cli_client_config *source = &job->source;
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"selector",    's', ARGS_TEXT,   &job->selector,        "SEL", "import these series only: '{namespace=\"shop\"}'", 0, 0},
        {"from",        0,   ARGS_TEXT,   &command.from,         "TIME",   "import profiles from this time on", 0, 0},
        {"until",       0,   ARGS_TEXT,   &command.until,        "TIME",   "import profiles before this time; default now", 0, 0},
        {"step",        0,   ARGS_NUMBER, &command.step_s,       "S",      "make one profile of all within S seconds", 1, HOUR_S},
        {"dry-run",     0,   ARGS_FLAG,   &job->dry_run,         NULL,     "say how much there is, and import nothing", 0, 0},
        {"resume",      0,   ARGS_TEXT,   &job->resume,          "FILE",   "note in FILE what is done; do only the rest", 0, 0},
        {"rate",        0,   ARGS_NUMBER, &job->rate_per_s,      "N",      "send at most N requests a second to the source", 1, 1000000},
        {"connections", 'c', ARGS_NUMBER, &command.connections,  "N",      "use N connections; default 4", 1, 64},
        {"retries",     0,   ARGS_NUMBER, &command.retries,      "N",      "repeat a request N times that failed; default 8", 0, 1000},
        {"timeout",     0,   ARGS_NUMBER, &command.timeout_s,    "S",      "wait S seconds for an answer; default 60", 1, HOUR_S},
        {"json",        0,   ARGS_FLAG,   &command.json,         NULL,     "print the report as JSON", 0, 0},
        {"source-tenant",    0, ARGS_TEXT, &source->tenant,    "TENANT", "import this tenant of the source", 0, 0},
        {"source-token",     0, ARGS_TEXT, &source->token,     "TOKEN",  "send this bearer token to the source", 0, 0},
        {"source-user",      0, ARGS_TEXT, &source->basic,     "USER:PASSWORD", "log in at the source with this user (Basic)", 0, 0},
        {"source-ca-file",   0, ARGS_TEXT, &source->ca_file,   "FILE",   "trust the authorities in this PEM file for the source", 0, 0},
        {"source-cert-file", 0, ARGS_TEXT, &source->cert_file, "FILE",   "present this certificate to the source", 0, 0},
        {"source-key-file",  0, ARGS_TEXT, &source->key_file,  "FILE",   "its key, if in another file", 0, 0},
        CLIENT_OPTIONS(job->target),
        {"user",        0,   ARGS_TEXT,   &job->target.basic,    "USER:PASSWORD", "log in at the target with this user (Basic)", 0, 0},
    };
    /* clang-format on */
    const struct cli_args_command args = {"import", "[options]",       about,     notes,
                                          options,  FG_COUNT(options), &all_verbs};
    struct fg_buf text;
    struct fg_err err;
    int words, code;

    if (cli_args_begin_verb(&args, argc, argv, &words, &code) == NULL)
        return code;
    source->url = argv[1];
    fg_buf_init(&text, SIZE_MAX);
    if (check(&command, &text, &err) != FG_OK)
        code = cli_args_end(&args, &err);
    else
        code = import(&command, &args);
    fg_buf_done(&text);
    return code;
}
