/* `flamegrid canary`: see canary/README.md. */
#include "common/base/str.h"
#include "common/runtime/config.h"
#include "common/runtime/stop.h"
#include "deploy/canary/canary.h"
#include "deploy/canary/page.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"

enum {
    SENDERS = 4,
    ASKERS = 2,
    RATE_MAX = 500, /* of each kind, a second */
    SERVICES_MAX = 16,
    PODS_MAX = 64,
    LAG_PROFILES_MAX = 1000000, /* 32 MB of them */
    PUSH_TIMEOUT_S = 10,        /* as agents have it */
    QUERY_TIMEOUT_S = 30,
};

struct canary_command {
    struct canary_config canary;
    const char *ask, *rate, *reads, *lasts, *settle, *window, *lag, *listen;
    uint64_t services, pods;
    int64_t lasts_ns, settle_ns;
    bool json;
};

static const char about[] =
    "Sends small profiles of known values and queries them all the time. Every acknowledged\n"
    "profile has to be in every answer exactly once; reports those that are missing or double.\n";

static const char notes[] =
    "Profiles go to the services flamegrid-canary-0, -1, ... with a label canary_run that is new\n"
    "for each run. A profile without a 2xx is sent again, with the same bytes, until there is "
    "one.\n"
    "Queries ask for the whole time, the last minute and random ranges, for services and single\n"
    "series, as flame graphs and as sums over time. A query without an answer counts as\n"
    "unavailable, not as wrong.\n"
    "\n"
    "If a server asks for tokens, the canary needs one with the scopes push and read.\n"
    "With --for it ends at once if the server refuses it. Without --for it goes on trying,\n"
    "and logs one line a minute.\n"
    "\n"
    "The run ends after --for, on SIGINT or SIGTERM. Then nothing new is sent, the rest gets\n"
    "--settle to be acknowledged and --lag to arrive, everything is checked once more, and the\n"
    "counts are printed. It waits no longer than until answers have all. A signal meanwhile ends\n"
    "it at once.\n"
    "If no server has answered during --for, it does not wait for --settle.\n"
    "Exit code 1: a profile was lost, double or foreign, or the last check had no answer.\n"
    "\n"
    "If profiles are deleted after a while (retention), --window has to be shorter than that.\n"
    "RATE is a number per second, 20/s, or per minute, 6/m. Metrics are called "
    "flamegrid_canary_...\n"
    "\n"
    "examples:\n"
    "  flamegrid canary --for 1m\n"
    "  flamegrid canary --through http://distributor:4040 --ask http://querier:4040\n"
    "  flamegrid canary --through http://node:4040 --ask http://cluster:4040 --lag 10s\n"
    "  flamegrid canary --window 12h --listen :9090\n";

/* ---- the command line ---- */

/* "20/s", "6/m", "20". */
static enum fg_code read_rate(const char *option, const char *text, int64_t *ret_interval_ns,
                              struct fg_err *err)
{
    size_t slash = fg_slice_find(fg_cstr(text), '/');
    struct fg_slice unit = fg_slice_sub(fg_cstr(text), slash, SIZE_MAX);
    int64_t of_ns = fg_slice_is(unit, "/m") ? FG_MINUTE_NS : FG_SECOND_NS;
    uint64_t rate;

    if (!fg_parse_u64(fg_slice_sub(fg_cstr(text), 0, slash), &rate) || rate == 0 ||
        rate > RATE_MAX || (unit.len > 0 && !fg_slice_is(unit, "/m") && !fg_slice_is(unit, "/s")))
        return fg_fail(err, FG_E_INVALID, "--%s %s: 1 to %d a second or a minute, such as 20/s",
                       option, text, RATE_MAX);
    /* rate is at least 1 and at most RATE_MAX, so the interval is never 0. */
    *ret_interval_ns = of_ns / (int64_t)rate;
    return FG_OK;
}

static enum fg_code read_duration(const char *option, const char *text, int64_t *ns,
                                  struct fg_err *err)
{
    const char *fault = text == NULL ? NULL : fg_conf_read_duration(fg_cstr(text), ns);

    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "--%s %s %s", option, text, fault);
    return FG_OK;
}

static enum fg_code check(struct canary_command *command, int words, struct fg_err *err)
{
    struct canary_config *canary = &command->canary;
    int64_t interval_ns = 0;

    if (words > 0)
        return fg_fail(err, FG_E_INVALID, "only options are expected");
    if (read_rate("rate", command->rate, &interval_ns, err) != FG_OK ||
        read_rate("reads", command->reads, &canary->read_interval_ns, err) != FG_OK ||
        read_duration("for", command->lasts, &command->lasts_ns, err) != FG_OK ||
        read_duration("settle", command->settle, &command->settle_ns, err) != FG_OK ||
        read_duration("window", command->window, &canary->window_ns, err) != FG_OK ||
        read_duration("lag", command->lag, &canary->lag_ns, err) != FG_OK)
        return err->code;
    canary->interval_ms = interval_ns / FG_MS_NS;
    if (canary->lag_ns / interval_ns > LAG_PROFILES_MAX)
        return fg_fail(err, FG_E_INVALID, "--lag of %lld profiles at this --rate, at most %d",
                       (long long)(canary->lag_ns / interval_ns), LAG_PROFILES_MAX);
    /* Each asker keeps the interval; together they have the rate. */
    canary->read_interval_ns *= ASKERS;
    canary->services = (uint32_t)command->services;
    canary->pods = (uint32_t)command->pods;
    canary->push.url_option = "through";
    canary->query = canary->push;
    if (command->ask != NULL) {
        canary->query.url = command->ask;
        canary->query.url_option = "ask";
    }
    canary->push.timeout_s = PUSH_TIMEOUT_S;
    canary->query.timeout_s = QUERY_TIMEOUT_S;
    return FG_OK;
}

/* ---- the run ---- */

/* Prints the counts. run_name NULL: as lines of text. */
static enum fg_code print_sums(const struct canary_sums *sums, const char *run_name,
                               struct fg_err *err)
{
    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"pushed", sums->pushed},   {"acknowledged", sums->acknowledged},
        {"unknown", sums->pending}, {"skipped", sums->skipped},
        {"refused", sums->refused}, {"unanswered", sums->unanswered},
        {"reads", sums->reads},     {"unavailable", sums->unavailable},
        {"wrong", sums->wrong},     {"lost", sums->lost},
        {"double", sums->twice},    {"foreign", sums->foreign},
    };

    json_t *document;

    if (run_name == NULL) {
        for (size_t i = 0; i < FG_COUNT(lines); i++)
            printf("%-14s%llu\n", lines[i].name, (unsigned long long)lines[i].value);
        return FG_OK;
    }
    document = json_pack("{s:s}", "canary_run", run_name);
    for (size_t i = 0; i < FG_COUNT(lines); i++)
        (void)json_object_set_new(document, lines[i].name, cli_json_u64(lines[i].value));
    return cli_json_print(document, stdout, err);
}

static enum fg_code end(struct canary *canary, const struct canary_command *command,
                        struct fg_err *err)
{
    bool in_vain = command->lasts_ns > 0 && !canary_was_answered(canary);
    int64_t settle_ns = in_vain ? 0 : command->settle_ns;
    int64_t lag_ns = in_vain ? 0 : command->canary.lag_ns;
    struct canary_sums sums;
    struct fg_err print_err;
    enum fg_code code;

    if (in_vain)
        fprintf(stderr, "flamegrid canary: no server has answered, so it does not wait for "
                        "acknowledgements (--settle)\n");
    else
        fprintf(stderr, "flamegrid canary: sends nothing new, and waits until all is acknowledged "
                        "and in answers; a signal ends it at once\n");
    /* Askers go on while the rest is acknowledged: that is when most goes wrong. */
    canary_hold(canary);
    if (!canary_settle(canary, fg_mono_ns(fg_clock_real()) + settle_ns) && !in_vain)
        fprintf(stderr, "flamegrid canary: not everything was acknowledged in the end\n");
    canary_stop(canary);
    /* After the threads have ended: no push is under way that an answer might have or lack. */
    code = canary_last_check(
        canary, fg_time_add(fg_mono_ns(fg_clock_real()), fg_time_add(settle_ns, lag_ns)), err);
    sums = canary_sums(canary);
    if (print_sums(&sums, command->json ? canary_run_name(canary) : NULL, &print_err) != FG_OK &&
        code == FG_OK) {
        *err = print_err;
        return err->code;
    }
    if (code == FG_OK && sums.lost + sums.twice + sums.foreign > 0)
        return fg_fail(err, FG_E_CORRUPT, "answers were wrong, see above");
    return code;
}

/* The registry outlives both users of it: the canary counts in it, and the page reads it. */
static enum fg_code run(struct canary_command *command, struct fg_err *err)
{
    struct fg_registry *registry = fg_registry_create();
    struct canary *canary = NULL;
    struct canary_page *page = NULL;
    enum fg_code code = FG_OK;

    command->canary.registry = registry;
    /* Not without --for: a canary that runs for ever may start before its token is known to the
     * server, and has to outlast that. */
    if (command->lasts_ns > 0)
        code = canary_check_scopes(&command->canary, err);
    if (code == FG_OK)
        code = canary_start(&command->canary, &canary, err);
    if (code == FG_OK && command->listen != NULL)
        code = canary_page_open(command->listen, registry, &page, err);
    if (code == FG_OK) {
        fprintf(stderr, "flamegrid canary: canary_run=\"%s\"\n", canary_run_name(canary));
        if (command->lasts_ns == 0)
            (void)fg_stop_wait();
        else if (fg_stop_wait_for(command->lasts_ns) == 0)
            fg_stop_at_next(); /* what follows may take as long as --settle and --lag */
        code = end(canary, command, err);
    }
    canary_page_close(page);
    canary_destroy(canary);
    fg_registry_destroy(registry);
    return code;
}

int cli_canary(int argc, char **argv)
{
    struct canary_command command = {.rate = "20/s",
                                     .reads = "4/s",
                                     .settle_ns = 30 * FG_SECOND_NS,
                                     .services = 2,
                                     .pods = 4,
                                     .canary = {.senders = SENDERS, .askers = ASKERS}};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"json",      0,   ARGS_FLAG,   &command.json,      NULL,       "print the counts at the end as JSON", 0, 0},
        {"through",   0,   ARGS_TEXT,   &command.canary.push.url, "URL", "send profiles through this server; else FLAMEGRID_URL, else http://127.0.0.1:4040", 0, 0},
        {"ask",       0,   ARGS_TEXT,   &command.ask,       "URL",      "ask this server; default: the same", 0, 0},
        {"for",       0,   ARGS_TEXT,   &command.lasts,     "DURATION", "end after this time, such as 10m; default: run until stopped", 0, 0},
        {"rate",      'r', ARGS_TEXT,   &command.rate,      "RATE",     "send profiles at this rate; default 20/s", 0, 0},
        {"reads",     0,   ARGS_TEXT,   &command.reads,     "RATE",     "send queries at this rate; default 4/s", 0, 0},
        {"services",  0,   ARGS_NUMBER, &command.services,  "N",        "send profiles of N services; default 2", 1, SERVICES_MAX},
        {"series",    0,   ARGS_NUMBER, &command.pods,      "N",        "send N series for each service; default 4", 1, PODS_MAX},
        {"window",    0,   ARGS_TEXT,   &command.window,    "DURATION", "query no further back than this; default to the beginning", 0, 0},
        {"lag",       0,   ARGS_TEXT,   &command.lag,       "DURATION", "answers may lack what was acknowledged so recently, as behind a server that forwards; default 0", 0, 0},
        {"settle",    0,   ARGS_TEXT,   &command.settle,    "DURATION", "wait this long for acknowledgements at the end; default 30s", 0, 0},
        {"listen",    0,   ARGS_TEXT,   &command.listen,    "ADDRESS",  "serve GET /metrics at this address, such as :9090", 0, 0},
        CLIENT_TLS_OPTIONS(command.canary.push),
        CLIENT_TOKEN_OPTION(command.canary.push),
        CLIENT_TENANT_OPTION(command.canary.push),
    };
    /* clang-format on */
    const struct cli_args_command args = {"canary", "[options]",       about, notes,
                                          options,  FG_COUNT(options), NULL};
    struct fg_err err;
    int words, code;

    if (!cli_args_begin(&args, argc, argv, &words, &code))
        return code;
    if (check(&command, words, &err) != FG_OK)
        return cli_args_refuse(&args, &err);
    /* Before threads exist: they inherit the mask of signals. */
    fg_stop_init();
    fg_ignore_sigpipe();
    return run(&command, &err) == FG_OK ? CLI_OK : cli_args_fail(&args, &err);
}
