/* `flamegrid usage` and `flamegrid cost`: what tenants used, and what that costs in an object
 * store. */
#include "common/model/value_text.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/cost.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/output.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"
#include "deploy/cli/usage_ask.h"

#include <inttypes.h>

struct usage_command {
    struct cli_client_config server;
    struct cli_usage_question question;
    bool csv, json;
    const char *gb_month, *writes, *reads; /* prices, as text */

    struct cli_client *client;
    struct cli_cost_prices prices;
};

static const char usage_about[] =
    "Prints what the tenant used, day by day: profiles, bytes as sent and uncompressed, samples,\n"
    "series, bytes stored over time, and queries. Days are those of UTC and of the profiles' own\n"
    "times. A day is final about two hours after its end; * marks days whose numbers still grow, "
    "and\n"
    "the last line says what is not in yet.\n";

static const char usage_notes[] =
    CLI_TIMES_HELP "\n"
                   "examples:\n"
                   "  flamegrid usage --tenant acme --from 2026-11-01 --until 2026-12-01\n"
                   "  flamegrid usage --by service --csv >november.csv\n"
                   "  flamegrid usage --json\n";

static const char cost_about[] =
    "Prints what the tenant costs in an object store: stored bytes and requests times prices.\n"
    "Counted are blocks over time; writes of blocks, manifests and documents; reads by queries.\n"
    "Not counted are segments and the ring, which tenants share, reads by the compactor, traffic,\n"
    "and machines. A month has 730 hours, a GB 2^30 bytes.\n";

static const char cost_notes[] =
    "Default prices are those of S3 Standard in us-east-1 (first 50 TB).\n"
    "\n" CLI_TIMES_HELP "\n"
    "examples:\n"
    "  flamegrid cost --tenant acme --from 2026-11-01 --until 2026-12-01\n"
    "  flamegrid cost --gb-month 0.006 --thousand-writes 0 --thousand-reads 0\n";

/* ---- usage ---- */

static void put_bytes(uint64_t bytes, struct fg_buf *out)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    /* Sums of usage saturate at INT64_MAX, so this is not negative. */
    fg_value_scaled((int64_t)bytes, FG_LIT("bytes"), &text);
    fg_buf_printf(out, " %10.*s", FG_S(fg_buf_slice(&text)));
    fg_buf_done(&text);
}

static void put_numbers(const json_t *row, struct fg_buf *out)
{
    fg_buf_printf(out, " %10" PRIu64 " %12" PRIu64 " %8" PRIu64, cli_usage_number(row, "profiles"),
                  cli_usage_number(row, "samples"), cli_usage_number(row, "series"));
    put_bytes(cli_usage_number(row, "wire_bytes"), out);
    put_bytes(cli_usage_number(row, "raw_bytes"), out);
}

static void put_name(const json_t *row, const char *key, struct fg_buf *out)
{
    const json_t *name = json_object_get(row, key);

    cli_show_text(fg_bytes((const uint8_t *)json_string_value(name), json_string_length(name)),
                  out);
}

static void put_day(const json_t *day, struct fg_buf *out)
{
    put_name(day, "day", out);
    fg_buf_puts(out, json_is_true(json_object_get(day, "preliminary")) ? "*" : " ");
    put_numbers(day, out);
    put_bytes(cli_usage_number(day, "stored_byte_days"), out);
    fg_buf_printf(out, " %8" PRIu64, cli_usage_number(day, "queries"));
    put_bytes(cli_usage_number(day, "read_bytes"), out);
    fg_buf_printf(out, " %8.1fs  ", (double)cli_usage_number(day, "cpu_ms") / 1000);
    put_name(day, "tenant", out);
    fg_buf_putc(out, '\n');
}

static void put_services(const json_t *day, struct fg_buf *out)
{
    const json_t *services = json_object_get(day, "services");

    for (size_t i = 0; i < json_array_size(services); i++) {
        const json_t *service = json_array_get(services, i);

        put_name(day, "day", out);
        fg_buf_puts(out, json_is_true(json_object_get(day, "preliminary")) ? "*" : " ");
        put_numbers(service, out);
        fg_buf_puts(out, "  ");
        put_name(day, "tenant", out);
        fg_buf_putc(out, ' ');
        put_name(service, "service", out);
        fg_buf_putc(out, '\n');
    }
}

static enum fg_code print_table(const struct usage_command *command, const json_t *answer,
                                struct fg_err *err)
{
    const json_t *days = json_object_get(answer, "days");
    bool by_service = command->question.by != NULL && strcmp(command->question.by, "service") == 0;
    struct fg_buf out;
    enum fg_code code;

    fg_buf_init(&out, SIZE_MAX);
    fg_buf_printf(&out, "DAY         %10s %12s %8s %10s %10s", "PROFILES", "SAMPLES", "SERIES",
                  "SENT", "RAW");
    if (by_service)
        fg_buf_puts(&out, "  TENANT SERVICE\n");
    else
        fg_buf_printf(&out, " %10s %8s %10s %9s  TENANT\n", "STORED", "QUERIES", "READ", "CPU");
    for (size_t i = 0; i < json_array_size(days); i++)
        (by_service ? put_services : put_day)(json_array_get(days, i), &out);
    code = cli_output_write(NULL, fg_buf_slice(&out), err);
    fg_buf_done(&out);
    return code;
}

/* Not on standard output, where programs read rows. */
static void print_missing(const json_t *answer)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    cli_usage_missing(answer, &text);
    if (text.len > 0)
        (void)fprintf(stderr, "flamegrid: %.*s\n", FG_S(fg_buf_slice(&text)));
    fg_buf_done(&text);
}

static enum fg_code usage(struct usage_command *command, struct fg_err *err)
{
    struct cli_client_reply reply;
    json_t *answer;
    enum fg_code code;

    if (command->csv && command->json)
        return fg_fail(err, FG_E_INVALID, "--csv and --json do not go together");
    if (command->csv) {
        if (cli_usage_ask_csv(command->client, &command->question, &reply, err) != FG_OK)
            return err->code;
        code = cli_output_write(NULL, fg_buf_slice(&reply.body), err);
        cli_client_reply_done(&reply);
        return code;
    }
    if (cli_usage_ask_json(command->client, &command->question, &answer, err) != FG_OK)
        return err->code;
    (void)json_object_del(answer, "statistics"); /* of the query, not of the tenant */
    if (command->json)
        return cli_json_print(answer, stdout, err);
    code = print_table(command, answer, err);
    if (code == FG_OK)
        print_missing(answer);
    json_decref(answer);
    return code;
}

/* ---- cost ---- */

/* Sums stay whole numbers; cli_cost_of() makes fractions of them. */
static struct cli_cost_used add_up(const json_t *days, const char *tenant)
{
    struct cli_cost_used used = {0};

    for (size_t i = 0; i < json_array_size(days); i++) {
        const json_t *day = json_array_get(days, i);
        const char *of = json_string_value(json_object_get(day, "tenant"));

        /* The server may be of another version, so no member is taken for granted. */
        if (of == NULL || strcmp(of, tenant) != 0)
            continue;
        used.days++;
        used.stored_byte_days += cli_usage_number(day, "stored_byte_days");
        used.stored_byte_seconds += cli_usage_number(day, "stored_byte_seconds");
        used.writes += cli_usage_number(day, "writes");
        used.reads += cli_usage_number(day, "reads");
    }
    return used;
}

static json_t *cost_json(const char *tenant, const struct cli_cost_used *used,
                         const struct cli_cost *cost)
{
    return json_pack("{s:o,s:I,s:f,s:I,s:I,s:f,s:f,s:f,s:f,s:f}", "tenant",
                     cli_json_text(fg_cstr(tenant)), "days", (json_int_t)used->days, "gb_months",
                     cost->gb_months, "writes", (json_int_t)used->writes, "reads",
                     (json_int_t)used->reads, "storage_usd", cost->storage, "writes_usd",
                     cost->writes, "reads_usd", cost->reads, "total_usd", cost->total, "month_usd",
                     cost->month);
}

static void put_cost(const char *tenant, const struct cli_cost_used *used,
                     const struct cli_cost *cost, struct fg_buf *out)
{
    fg_buf_printf(
        out, "%4" PRIu64 " %10.4f %10.4f %10" PRIu64 " %10.4f %10" PRIu64 " %10.4f %10.4f %10.4f  ",
        used->days, cost->gb_months, cost->storage, used->writes, cost->writes, used->reads,
        cost->reads, cost->total, cost->month);
    cli_show_text(fg_cstr(tenant), out);
    fg_buf_putc(out, '\n');
}

/* Days are in order of tenants, so each tenant begins once. */
static enum fg_code print_costs(const struct usage_command *command, const json_t *answer,
                                struct fg_err *err)
{
    const json_t *days = json_object_get(answer, "days");
    json_t *costs = json_array();
    const char *before = "";
    struct fg_buf out;
    enum fg_code code;

    fg_buf_init(&out, SIZE_MAX);
    fg_buf_printf(&out, "%4s %10s %10s %10s %10s %10s %10s %10s %10s  TENANT\n", "DAYS",
                  "GB-MONTHS", "USD", "WRITES", "USD", "READS", "USD", "TOTAL USD", "USD/MONTH");
    for (size_t i = 0; i < json_array_size(days); i++) {
        const char *tenant = json_string_value(json_object_get(json_array_get(days, i), "tenant"));
        struct cli_cost_used used;
        struct cli_cost cost;

        if (tenant == NULL || strcmp(tenant, before) == 0)
            continue;
        used = add_up(days, tenant);
        cost = cli_cost_of(&command->prices, &used);
        (void)json_array_append_new(costs, cost_json(tenant, &used, &cost));
        put_cost(tenant, &used, &cost, &out);
        before = tenant;
    }
    if (command->json)
        code = cli_json_print(json_incref(costs), stdout, err);
    else
        code = cli_output_write(NULL, fg_buf_slice(&out), err);
    json_decref(costs);
    fg_buf_done(&out);
    return code;
}

static enum fg_code cost(struct usage_command *command, struct fg_err *err)
{
    json_t *answer;
    enum fg_code code;

    /* Prices first: a typing error costs no request. */
    if (cli_cost_read_price("--gb-month", command->gb_month, &command->prices.gb_month, err) !=
            FG_OK ||
        cli_cost_read_price("--thousand-writes", command->writes, &command->prices.thousand_writes,
                            err) != FG_OK ||
        cli_cost_read_price("--thousand-reads", command->reads, &command->prices.thousand_reads,
                            err) != FG_OK ||
        cli_usage_ask_json(command->client, &command->question, &answer, err) != FG_OK)
        return err->code;
    code = print_costs(command, answer, err);
    if (code == FG_OK && !command->json)
        print_missing(answer);
    json_decref(answer);
    return code;
}

/* ---- the commands ---- */

static int run(const struct cli_args_command *args, struct usage_command *command,
               enum fg_code (*answer)(struct usage_command *command, struct fg_err *err), int argc,
               char **argv)
{
    struct fg_err err;
    int words, code;

    if (!cli_args_begin(args, argc, argv, &words, &code))
        return code;
    if (words > 0) {
        (void)fg_fail(&err, FG_E_INVALID, "\"%s\" is one word too many", argv[0]);
        return cli_args_refuse(args, &err);
    }
    if (cli_client_create(&command->server, &command->client, &err) != FG_OK)
        return cli_args_refuse(args, &err);
    code = CLI_OK;
    if (answer(command, &err) != FG_OK)
        code = cli_args_end(args, &err);
    cli_client_destroy(command->client);
    return code;
}

/* clang-format off */
#define RANGE_OPTIONS(question)                                                              \
    {"from",  0, ARGS_TEXT, &(question).from,  "TIME", "begin with the day of this time; default 31 days", 0, 0}, \
    {"until", 0, ARGS_TEXT, &(question).until, "TIME", "end before the day that begins here; default now", 0, 0}
/* clang-format on */

int cli_usage(int argc, char **argv)
{
    struct usage_command command = {0};
    /* clang-format off */
    const struct cli_args_option options[] = {
        RANGE_OPTIONS(command.question),
        {"by",   0, ARGS_TEXT, &command.question.by, "WHAT", "print a row for each day (default) or for each service: day, service", 0, 0},
        {"csv",  0, ARGS_FLAG, &command.csv,  NULL, "print CSV", 0, 0},
        {"json", 0, ARGS_FLAG, &command.json, NULL, "print the server's JSON", 0, 0},
        CLIENT_OPTIONS(command.server),
    };
    /* clang-format on */
    const struct cli_args_command args = {"usage", "[options]",       usage_about, usage_notes,
                                          options, FG_COUNT(options), NULL};

    return run(&args, &command, usage, argc, argv);
}

int cli_cost(int argc, char **argv)
{
    struct usage_command command = {
        .prices = {CLI_COST_GB_MONTH, CLI_COST_THOUSAND_WRITES, CLI_COST_THOUSAND_READS}};
    /* clang-format off */
    const struct cli_args_option options[] = {
        RANGE_OPTIONS(command.question),
        {"gb-month",        0, ARGS_TEXT, &command.gb_month, "USD", "take this price of a stored GB for a month; default 0.023", 0, 0},
        {"thousand-writes", 0, ARGS_TEXT, &command.writes,   "USD", "take this price of 1,000 PUT requests; default 0.005", 0, 0},
        {"thousand-reads",  0, ARGS_TEXT, &command.reads,    "USD", "take this price of 1,000 GET requests; default 0.0004", 0, 0},
        {"json", 0, ARGS_FLAG, &command.json, NULL, "print a JSON array", 0, 0},
        CLIENT_OPTIONS(command.server),
    };
    /* clang-format on */
    const struct cli_args_command args = {"cost",  "[options]",       cost_about, cost_notes,
                                          options, FG_COUNT(options), NULL};

    return run(&args, &command, cost, argc, argv);
}
