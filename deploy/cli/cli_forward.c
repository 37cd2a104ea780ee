/* `flamegrid forward VERB [TARGET]`: what a server forwards to others, over /api/forward. A verb is
 * a row of the table at the end. */
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/value_text.h"
#include "deploy/cli/admin.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"

#define ROOT "/api/forward"

enum { REST_MAX_BYTES = 64, CELL_MAX_BYTES = 64 };

static const char about[] =
    "Shows and controls what a server forwards to the targets of its settings (forward.targets).\n"
    "Needs a token with the scope admin.\n";

static const char notes[] = "examples:\n"
                            "  flamegrid forward ls\n"
                            "  flamegrid forward pause central\n"
                            "  flamegrid forward dead central --json\n"
                            "  flamegrid forward resend central --from 2026-01-31 --dry-run\n"
                            "  flamegrid forward resend central --from 2026-01-31 --until now-1h\n"
                            "\n" CLI_TIMES_HELP;

/* Options of single verbs. */
struct forward_options {
    const char *from, *until; /* of resend */
    bool dry_run, end;
};

/* ---- texts ---- */

static struct fg_slice text_of(const json_t *object, const char *key)
{
    const json_t *text = json_object_get(object, key);

    return fg_bytes(json_string_value(text), json_string_length(text));
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Texts come from agents and targets, so none goes to the terminal as it is. */
static void put_text(const json_t *object, const char *key, struct fg_buf *out)
{
    cli_show_text(text_of(object, key), out);
}

/* Prints all of a buffer and frees it. */
static void print(struct fg_buf *out)
{
    if (out->len > 0)
        (void)fwrite(out->ptr, 1, out->len, stdout);
    fg_buf_done(out);
}

/* ---- ls ---- */

/* Returns how many profiles will not be sent, for whatever reason. */
static json_int_t count_dropped(const json_t *target)
{
    const json_t *number;
    json_int_t sum = 0;
    const char *reason;

    json_object_foreach(json_object_get(target, "droppedProfiles"), reason, number)
    {
        sum += json_integer_value(number);
    }
    return sum;
}

/* "5.00min", "-" if nothing is pending. */
static void put_age(const json_t *target, struct fg_buf *out)
{
    double seconds = json_number_value(json_object_get(target, "oldestPendingSeconds"));

    if (number_of(target, "pendingProfiles") == 0)
        fg_buf_puts(out, "-");
    else
        fg_value_scaled((int64_t)(seconds * 1e9), FG_LIT("nanoseconds"), out);
}

/* "resending: at 2026-01-31T10:00:00Z, 1200 sent". */
static void put_resend(const json_t *target, struct fg_buf *out)
{
    const json_t *resend = json_object_get(target, "resend");
    const char *state = json_string_value(json_object_get(resend, "state"));
    char at[CLI_TIME_TEXT_BYTES];

    if (state == NULL || strcmp(state, "done") == 0)
        return;
    if (text_of(target, "error").len > 0)
        fg_buf_puts(out, "; ");
    fg_buf_puts(out, "resending");
    if (json_object_get(resend, "atMs") != NULL) {
        cli_time_write(number_of(resend, "atMs") * FG_MS_NS, at);
        fg_buf_printf(out, ": at %s", at);
    }
    fg_buf_printf(out, ", %lld sent", (long long)number_of(resend, "sentProfiles"));
    if (number_of(resend, "heldTenants") > 0)
        fg_buf_printf(out, ", %lld tenants not taken now",
                      (long long)number_of(resend, "heldTenants"));
}

static void put_target(const json_t *target, int name_width, struct fg_buf *out)
{
    struct fg_buf name, age;

    fg_buf_init(&name, SIZE_MAX);
    fg_buf_init(&age, CELL_MAX_BYTES);
    put_text(target, "name", &name);
    put_age(target, &age);
    fg_buf_printf(out, "%-*.*s  ", name_width, FG_S(fg_buf_slice(&name)));
    fg_buf_printf(out, "%-8s %10lld %10.*s %10lld %10lld  ",
                  json_string_value(json_object_get(target, "state")),
                  (long long)number_of(target, "pendingProfiles"), FG_S(fg_buf_slice(&age)),
                  (long long)number_of(target, "sentProfiles"), (long long)count_dropped(target));
    put_text(target, "error", out);
    put_resend(target, out);
    /* Without an error the line would end in blanks. */
    while (out->len > 0 && out->ptr[out->len - 1] == ' ')
        out->len--;
    fg_buf_putc(out, '\n');
    fg_buf_done(&name);
    fg_buf_done(&age);
}

static enum fg_code ls(struct cli_admin *admin)
{
    json_t *document = NULL, *targets;
    const json_t *target;
    struct fg_buf out;
    int width = (int)strlen("TARGET");
    size_t i;

    if (cli_admin_get(admin, ROOT, NULL, "", &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    targets = json_object_get(document, "targets");
    json_array_foreach(targets, i, target)
    {
        width = FG_MAX(width, (int)text_of(target, "name").len);
    }
    fg_buf_init(&out, SIZE_MAX);
    fg_buf_printf(&out, "%-*s  %-8s %10s %10s %10s %10s  ERROR\n", width, "TARGET", "STATE",
                  "PENDING", "OLDEST", "SENT", "DROPPED");
    json_array_foreach(targets, i, target)
    {
        put_target(target, width, &out);
    }
    print(&out);
    json_decref(document);
    return FG_OK;
}

/* ---- changes ---- */

/* Posts the verb. before, after: what the person reads then, around the target's name. */
static enum fg_code change(struct cli_admin *admin, const char *verb, const char *before,
                           const char *after)
{
    json_t *document = NULL;

    if (cli_admin_act(admin, ROOT, admin->words[0], verb, &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    json_decref(document);
    printf("%s%s%s\n", before, admin->words[0], after);
    return FG_OK;
}

static enum fg_code pause_target(struct cli_admin *admin)
{
    return change(admin, "/pause", "nothing is sent to ", " until it is resumed");
}

static enum fg_code resume_target(struct cli_admin *admin)
{
    return change(admin, "/resume", "", " is resumed");
}

static enum fg_code drop_pending(struct cli_admin *admin)
{
    json_t *document = NULL;
    json_int_t n;

    if (cli_admin_act(admin, ROOT, admin->words[0], "/drop", &document) != FG_OK)
        return admin->err.code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    n = number_of(document, "droppedProfiles");
    json_decref(document);
    printf("%lld profile%s will not be sent to %s\n", (long long)n, n == 1 ? "" : "s",
           admin->words[0]);
    return FG_OK;
}

/* ---- resend ---- */

static enum fg_code read_times(struct cli_admin *admin, const struct forward_options *options,
                               int64_t *ret_from_ns, int64_t *ret_until_ns)
{
    int64_t now_ns = fg_wall_ns(fg_clock_real());
    const char *until = options->until == NULL ? "now" : options->until;

    if (options->from == NULL)
        return fg_fail(&admin->err, FG_E_INVALID,
                       "--from TIME is missing: profiles since when are to be resent?");
    if (cli_time_parse("--from", options->from, now_ns, ret_from_ns, &admin->err) != FG_OK)
        return admin->err.code;
    return cli_time_parse("--until", until, now_ns, ret_until_ns, &admin->err);
}

/* "about 12 profiles in blocks would be resent to central" */
static void print_preview(const char *target, const json_t *preview)
{
    json_int_t n = number_of(preview, "profiles"), lost = number_of(preview, "lostProfiles");

    printf("about %lld profile%s in blocks would be resent to %s, before its selector and rules\n",
           (long long)n, n == 1 ? "" : "s", target);
    if (lost > 0)
        printf("%lld more %s only in rollups and cannot be resent\n", (long long)lost,
               lost == 1 ? "is" : "are");
}

static enum fg_code resend(struct cli_admin *admin)
{
    const struct forward_options *options = admin->options;
    int64_t from_ns = 0, until_ns = 0;
    json_t *document = NULL;
    struct fg_buf rest;
    enum fg_code code;

    if (options->end && (options->dry_run || options->from != NULL || options->until != NULL))
        return fg_fail(&admin->err, FG_E_INVALID, "--end allows no other option of resend");
    if (options->end)
        return change(admin, "/end-resend", "nothing more of the past is sent to ", "");
    if (read_times(admin, options, &from_ns, &until_ns) != FG_OK)
        return admin->err.code;
    /* As numbers, so that "now" is the same moment for the server as for this command. */
    fg_buf_init(&rest, REST_MAX_BYTES + 2 * CLI_TIME_TEXT_BYTES);
    fg_buf_puts(&rest, "/resend?from=");
    cli_time_put_ns(from_ns, &rest);
    fg_buf_puts(&rest, "&until=");
    cli_time_put_ns(until_ns, &rest);
    fg_buf_putc(&rest, '\0');
    code = (options->dry_run ? cli_admin_get : cli_admin_act)(admin, ROOT, admin->words[0],
                                                              (const char *)rest.ptr, &document);
    fg_buf_done(&rest);
    if (code != FG_OK)
        return code;
    if (admin->json)
        return cli_json_print(document, stdout, &admin->err);
    if (options->dry_run)
        print_preview(admin->words[0], document);
    else
        printf("profiles are resent to %s; flamegrid forward ls shows how far that is\n",
               admin->words[0]);
    json_decref(document);
    return FG_OK;
}

/* ---- dead ---- */

/* Adds the entries from a number on to a list, page by page. */
static enum fg_code read_dead(struct cli_admin *admin, json_t *list)
{
    /* The server gives no more than 500 at a time. */
    char rest[REST_MAX_BYTES] = "/dead?limit=500";

    for (;;) {
        json_t *document = NULL;
        const json_t *next;

        if (cli_admin_get(admin, ROOT, admin->words[0], rest, &document) != FG_OK)
            return admin->err.code;
        (void)json_array_extend(list, json_object_get(document, "dead"));
        next = json_object_get(document, "next");
        if (next != NULL)
            (void)snprintf(rest, sizeof rest, "/dead?limit=500&from=%lld",
                           (long long)json_integer_value(next));
        json_decref(document);
        if (next == NULL)
            return FG_OK;
    }
}

static void put_labels(json_t *labels, struct fg_buf *out)
{
    const char *name, *separator = "";
    json_t *value;

    fg_buf_putc(out, '{');
    json_object_foreach(labels, name, value)
    {
        fg_buf_puts(out, separator);
        cli_show_text(fg_cstr(name), out);
        fg_buf_puts(out, "=\"");
        cli_show_text(fg_bytes(json_string_value(value), json_string_length(value)), out);
        fg_buf_putc(out, '"');
        separator = ",";
    }
    fg_buf_putc(out, '}');
}

/* A line of when, whose, which series, and why. */
static void put_dead(const json_t *dead, struct fg_buf *out)
{
    json_t *time = cli_json_time(number_of(dead, "refusedMs") * FG_MS_NS);

    fg_buf_printf(out, "%.19sZ  ", json_string_value(time));
    put_text(dead, "tenant", out);
    fg_buf_puts(out, "  ");
    put_labels(json_object_get(dead, "labels"), out);
    fg_buf_puts(out, "  ");
    put_text(dead, "reason", out);
    fg_buf_putc(out, '\n');
    json_decref(time);
}

static enum fg_code list_dead(struct cli_admin *admin)
{
    json_t *list = json_array();
    const json_t *dead;
    struct fg_buf out;
    size_t i;

    /* All pages before anything is printed, since --json prints one document. */
    if (read_dead(admin, list) != FG_OK) {
        json_decref(list);
        return admin->err.code;
    }
    if (admin->json)
        return cli_json_print(json_pack("{s:o}", "dead", list), stdout, &admin->err);
    fg_buf_init(&out, SIZE_MAX);
    json_array_foreach(list, i, dead)
    {
        put_dead(dead, &out);
    }
    print(&out);
    json_decref(list);
    return FG_OK;
}

/* ---- the command ---- */

static const struct cli_admin_verb verbs[] = {
    {{"ls", NULL, 0, 0, NULL,
      "lists the targets: how many profiles are pending, how long the oldest has waited,\n"
      "what was sent and dropped since the server started, and the error of the last request\n"},
     ls},
    {{"pause", "TARGET", 1, 1, NULL,
      "sends nothing more to the target, also after a restart; what comes is pending\n"},
     pause_target},
    {{"resume", "TARGET", 1, 1, NULL, "ends the pause\n"}, resume_target},
    {{"drop", "TARGET", 1, 1, NULL,
      "gives up all that is pending for the target, and says how many profiles that are;\n"
      "they stay in this server\n"},
     drop_pending},
    {{"resend", "TARGET", 1, 1, NULL,
      "sends what this server has of a time once more, --from TIME until now or --until TIME;\n"
      "a flamegrid there drops what it has already. With --dry-run it says how many profiles\n"
      "that are and sends nothing, with --end it ends what was begun\n"},
     resend},
    {{"dead", "TARGET", 1, 1, NULL,
      "lists the profiles of the last 24 hours that the target has refused for good: when,\n"
      "tenant, labels and reason\n"},
     list_dead},
};
static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

int cli_forward(int argc, char **argv)
{
    struct forward_options forward = {0};
    struct cli_admin admin = {.options = &forward};
    const struct cli_args_option options[] = {
        {"from", 0, ARGS_TEXT, &forward.from, "TIME", "resend profiles since this time", 0, 0},
        {"until", 0, ARGS_TEXT, &forward.until, "TIME",
         "resend profiles before this time; default now", 0, 0},
        {"dry-run", 0, ARGS_FLAG, &forward.dry_run, NULL,
         "say how many profiles would be resent, and send nothing", 0, 0},
        {"end", 0, ARGS_FLAG, &forward.end, NULL, "end a resend that is under way", 0, 0},
        {"json", 0, ARGS_FLAG, &admin.json, NULL, "print JSON", 0, 0},
        CLIENT_ADMIN_OPTIONS(admin.server),
    };
    const struct cli_args_command args = {"forward", "[options]",       about,     notes,
                                          options,   FG_COUNT(options), &all_verbs};

    return cli_admin_main(&admin, &args, argc, argv);
}
