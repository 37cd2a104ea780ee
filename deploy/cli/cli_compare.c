#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/labels.h"
#include "deploy/cli/ask.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/output.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"

#include <jansson.h>
#include <math.h>

/* As large as a response may be by default (querier.answer_max_bytes). */
enum { OUTPUT_MAX_BYTES = 256 * 1024 * 1024 };

static const char about[] =
    "Says which functions changed between two selections, by how much, with what confidence,\n"
    "and what could not have been seen.\n";

static const char notes[] =
    "BEFORE and AFTER are SELECTORs as of flamegrid query; with one SELECTOR both sides are the\n"
    "same, at different times (--before-from, --before-until).\n"
    "\n"
    "Instances of a service differ, and samples of one instance depend on each other. So "
    "instances\n"
    "are what is compared: the same ones on both sides if there are five, else four or more on\n"
    "each side, else blocks of time. With less the result is marked weak.\n"
    "\n"
    "STATE of a function is up, down, new, gone, or moved: what one function lost, others with\n"
    "the same caller or of the same package gained. A caller whose change is that of its callees\n"
    "is not told. --all adds what did not change, with the least change that would have been "
    "seen.\n"
    "\n" CLI_TIMES_HELP "\n"
    "examples:\n"
    "  flamegrid compare 'shop{version=\"1\"}' 'shop{version=\"2\"}' --from 2h\n"
    "  flamegrid compare shop --from 1h --before-from 25h --before-until 24h\n"
    "  flamegrid compare 'shop{version=\"1\"}' 'shop{version=\"2\"}' --by rate --json\n";

struct compare {
    struct cli_client_config server;
    const char *words[2]; /* BEFORE and AFTER */
    const char *type, *from, *until, *before_from, *before_until;
    const char *by, *instance, *min_share, *q, *sort, *file;
    uint64_t limit;
    bool json, all;

    struct cli_selection sides[2];
    struct cli_selection_range ranges[2];
    struct fg_slice type_id;
    struct fg_arena *arena;
    struct cli_client *client;
};

/* ---- the command line ---- */

static enum fg_code check(struct compare *compare, int words, struct fg_err *err)
{
    int64_t now_ns = fg_wall_ns(fg_clock_real());

    if (words != 1 && words != 2)
        return fg_fail(err, FG_E_INVALID, "two SELECTORs are needed, or one and --before-from");
    if (words == 1 && compare->before_from == NULL)
        return fg_fail(err, FG_E_INVALID,
                       "with one SELECTOR --before-from says what to compare with");
    for (size_t i = 0; i < 2; i++)
        if (cli_selection_parse(fg_cstr(compare->words[i]), compare->arena, &compare->sides[i],
                                err) != FG_OK)
            return fg_wrap(err, "%s", compare->words[i]);
    /* BEFORE has the range of AFTER, unless it has one of its own. */
    if (cli_selection_range(compare->before_from != NULL ? compare->before_from : compare->from,
                            compare->before_until != NULL ? compare->before_until : compare->until,
                            now_ns, &compare->ranges[0], err) != FG_OK)
        return fg_wrap(err, "before");
    if (cli_selection_range(compare->from, compare->until, now_ns, &compare->ranges[1], err) !=
        FG_OK)
        return err->code;
    return cli_client_create(&compare->server, &compare->client, err);
}

/* Finds the type, by what the later side has. */
static enum fg_code resolve_type(struct compare *compare, struct fg_err *err)
{
    struct fg_slice wanted =
        compare->type != NULL ? fg_cstr(compare->type) : compare->sides[1].type;
    struct cli_ask_list types = {0};
    const char *of;

    compare->type_id = wanted;
    if (cli_selection_is_full_type(wanted))
        return FG_OK;
    if (cli_ask_types(compare->client, compare->sides[1].labels, &compare->ranges[1],
                      compare->arena, &types, err) != FG_OK)
        return err->code;
    if (types.count == 0)
        return cli_selection_fail_side(compare->sides[1].labels, &compare->ranges[1],
                                       cli_client_missing(compare->client) != NULL, err);
    of = fg_arena_printf(compare->arena, " of %.*s from %s until %s",
                         FG_S(compare->sides[1].labels), compare->from, compare->until);
    return cli_selection_choose_type(wanted, types.items, types.count, of == NULL ? "" : of,
                                     &compare->type_id, err);
}

/* ---- the request ---- */

static void put_side(const struct compare *compare, size_t side, const char *const names[3],
                     struct fg_json_writer *json)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    fg_buf_printf(&text, "%.*s%.*s", FG_S(compare->type_id), FG_S(compare->sides[side].labels));
    fg_json_put_text(json, names[0], fg_buf_slice(&text));
    fg_buf_clear(&text);
    cli_time_put_ms(compare->ranges[side].start_ms, &text);
    fg_json_put_text(json, names[1], fg_buf_slice(&text));
    fg_buf_clear(&text);
    cli_time_put_ms(compare->ranges[side].end_ms, &text);
    fg_json_put_text(json, names[2], fg_buf_slice(&text));
    fg_buf_done(&text);
}

static void put_text(struct fg_json_writer *json, const char *name, const char *text)
{
    if (text != NULL)
        fg_json_put_cstr(json, name, text);
}

static void write_request(const struct compare *compare, struct fg_buf *out)
{
    static const char *const left[] = {"leftQuery", "leftFrom", "leftUntil"}, *const right[] = {
                                                                                  "rightQuery",
                                                                                  "rightFrom",
                                                                                  "rightUntil"};
    struct fg_json_writer json = fg_json_writer(out);

    fg_json_begin_object(&json, NULL);
    put_side(compare, 0, left, &json);
    put_side(compare, 1, right, &json);
    put_text(&json, "by", compare->by);
    put_text(&json, "instance", compare->instance);
    /* Numbers go as texts: the server takes both, and its errors name the parameter. */
    put_text(&json, "min_share", compare->min_share);
    put_text(&json, "q", compare->q);
    put_text(&json, "sort", compare->sort);
    put_text(&json, "show", compare->all ? "all" : "changed");
    /* The most that the server gives. */
    fg_json_put_u64(&json, "limit", compare->limit == 0 ? 100000 : compare->limit);
    fg_json_end(&json);
}

static enum fg_code ask_server(struct compare *compare, struct cli_client_reply *ret_reply,
                               struct fg_err *err)
{
    struct fg_buf request;
    enum fg_code code;

    fg_buf_init(&request, OUTPUT_MAX_BYTES);
    write_request(compare, &request);
    /* A body, since two selectors may be too long for a URL. */
    code = cli_client_post(compare->client, "/api/compare", "application/json",
                           fg_buf_slice(&request), ret_reply, err);
    fg_buf_done(&request);
    return code == FG_OK ? cli_client_check(ret_reply, err) : code;
}

/* ---- the table ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "" : text;
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Appends a relative change as a percentage; one that is none as a dash. */
static void put_percent(const json_t *value, struct fg_buf *out)
{
    double percent = 100 * json_number_value(value);

    if (!json_is_number(value))
        fg_buf_puts(out, "       -");
    /* Columns keep their width: a function that was next to nothing may grow a millionfold. */
    else if (fabs(percent) < 1000)
        fg_buf_printf(out, "%+7.1f%%", percent);
    else
        fg_buf_printf(out, "%+7.0f%%", FG_MIN(percent, 999999.0));
}

static void put_names(const json_t *names, struct fg_buf *out)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        fg_buf_puts(out, i == 0 ? "" : ", ");
        cli_show_text(fg_cstr(name == NULL ? "" : name), out);
    }
}

static void put_row(const json_t *row, bool all, struct fg_buf *out)
{
    const json_t *interval = json_object_get(row, "interval"),
                 *moved = json_object_get(row, "moved");

    /* Long names of states that are no finding would widen the column for what is of least
     * interest. */
    fg_buf_printf(out, "%-8s ",
                  strcmp(text_of(row, "state"), "not_significant") == 0   ? "-"
                  : strcmp(text_of(row, "state"), "too_little_data") == 0 ? "?"
                                                                          : text_of(row, "state"));
    put_percent(json_object_get(row, "change"), out);
    put_percent(json_array_get(interval, 0), out);
    put_percent(json_array_get(interval, 1), out);
    fg_buf_printf(out, " %7.2f%% %7.2f%%", 100 * number_of(json_object_get(row, "a"), "share"),
                  100 * number_of(json_object_get(row, "b"), "share"));
    if (all) {
        fg_buf_putc(out, ' ');
        put_percent(json_object_get(row, "detectable"), out);
    }
    fg_buf_puts(out, "  ");
    /* With --all each function of a move has a row, so names of the others would only repeat. */
    if (moved != NULL && !all) {
        put_names(json_object_get(moved, "from"), out);
        fg_buf_puts(out, " -> ");
        put_names(json_object_get(moved, "to"), out);
    } else {
        cli_show_text(fg_cstr(text_of(row, "name")), out);
    }
    fg_buf_puts(out, strcmp(text_of(row, "of"), "self") == 0 ? "\n" : " (with callees)\n");
}

static void put_title(const json_t *answer, struct fg_buf *out)
{
    const json_t *a = json_object_get(answer, "a"), *b = json_object_get(answer, "b");
    const char *instance = text_of(answer, "instance");

    fg_buf_printf(out, "%.0f and %.0f instances", number_of(a, "instances"),
                  number_of(b, "instances"));
    if (instance[0] != '\0') {
        fg_buf_puts(out, " (");
        cli_show_text(fg_cstr(instance), out);
        fg_buf_printf(out, "%s)",
                      strcmp(text_of(answer, "replicates"), "same instances") == 0 ? ", the same"
                                                                                   : "");
    }
    if (strcmp(text_of(answer, "replicates"), "over time") == 0)
        fg_buf_printf(out, ", over time: %.0f and %.0f blocks of %.0f s",
                      number_of(a, "blocks_of_time"), number_of(b, "blocks_of_time"),
                      number_of(answer, "block_seconds"));
    if (json_is_true(json_object_get(answer, "weak")))
        fg_buf_puts(out, ", weak: too few instances and too little time to know how they vary");
    fg_buf_printf(out, "; by %s\n", text_of(answer, "by"));
}

static bool is_of_moments(const json_t *answer)
{
    struct fg_profile_type type;
    struct fg_err err;

    return fg_profile_type_parse(fg_cstr(text_of(answer, "type")), &type, &err) == FG_OK &&
           fg_profile_type_is_moment(&type);
}

static void put_end(const json_t *answer, struct fg_buf *out)
{
    const json_t *detectable = json_object_get(answer, "detectable"),
                 *whole = json_object_get(json_object_get(answer, "whole"), "change");
    /* The server counts all rows, also those behind the limit. */
    double more =
        number_of(answer, "count") - (double)json_array_size(json_object_get(answer, "changes"));

    if (more > 0)
        fg_buf_printf(out, "%.0f more; --limit 0 shows all\n", more);
    /* The server leaves it out if no function that both sides have was tested. */
    if (detectable != NULL)
        fg_buf_printf(out,
                      "\n%.0f figures of functions with at least %.3g %% were tested. No change "
                      "above %.1f %% could hide here, of half of them none above %.1f %%.\n",
                      number_of(answer, "tests"), 100 * number_of(answer, "min_share"),
                      100 * number_of(detectable, "largest"),
                      100 * number_of(detectable, "median"));
    else
        fg_buf_puts(out, "\nnothing could be tested: there are too few profiles\n");
    if (json_is_number(whole))
        fg_buf_printf(out, "All of it, by %s: %+.1f %%.\n",
                      is_of_moments(answer) ? "the mean of its profiles" : "covered time",
                      100 * json_number_value(whole));
}

/* Fails if a side has no profiles: then everything would look new, or gone. */
static enum fg_code check_sides(const struct compare *compare, const json_t *answer,
                                struct fg_err *err)
{
    static const char *const names[] = {"a", "b"};
    const json_t *empty = json_object_get(answer, "empty");

    for (size_t side = 0; side < FG_COUNT(names); side++)
        for (size_t i = 0; i < json_array_size(empty); i++) {
            const char *name = json_string_value(json_array_get(empty, i));

            if (name != NULL && strcmp(name, names[side]) == 0)
                return cli_selection_fail_side(compare->sides[side].labels, &compare->ranges[side],
                                               cli_client_missing(compare->client) != NULL, err);
        }
    return FG_OK;
}

static enum fg_code write_table(const struct compare *compare, struct fg_slice body,
                                struct fg_buf *out, struct fg_err *err)
{
    json_t *answer = json_loadb((const char *)body.ptr, body.len, 0, NULL);
    const json_t *changes = json_object_get(answer, "changes");

    if (!json_is_array(changes)) {
        json_decref(answer);
        return fg_fail(err, FG_E_CORRUPT, "the server's response is no comparison");
    }
    if (check_sides(compare, answer, err) != FG_OK) {
        json_decref(answer);
        return err->code;
    }
    put_title(answer, out);
    if (json_array_size(changes) > 0)
        fg_buf_printf(out, "\nSTATE      CHANGE     FROM      TO   BEFORE    AFTER %s FUNCTION\n",
                      compare->all ? "    SEEN" : "");
    else
        fg_buf_puts(out, "\nno function changed\n");
    for (size_t i = 0; i < json_array_size(changes); i++)
        put_row(json_array_get(changes, i), compare->all, out);
    put_end(answer, out);
    json_decref(answer);
    return FG_OK;
}

/* ---- all ---- */

static enum fg_code answer(struct compare *compare, struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    struct fg_buf table;
    enum fg_code code;

    if (resolve_type(compare, err) != FG_OK)
        return err->code;
    fg_buf_init(&table, OUTPUT_MAX_BYTES);
    code = ask_server(compare, &reply, err);
    if (code == FG_OK && compare->json)
        code = cli_output_write(compare->file, fg_buf_slice(&reply.body), err);
    else if (code == FG_OK &&
             (code = write_table(compare, fg_buf_slice(&reply.body), &table, err)) == FG_OK)
        code = cli_output_write(compare->file, fg_buf_slice(&table), err);
    fg_buf_done(&table);
    cli_client_reply_done(&reply);
    return code;
}

int cli_compare(int argc, char **argv)
{
    struct compare compare = {.from = "now-1h", .until = "now", .limit = 30};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"type",      't', ARGS_TEXT,   &compare.type,      "TYPE",   "select this profile type, in full or short", 0, 0},
        {"from",      0,   ARGS_TEXT,   &compare.from,      "TIME",   "begin the range here; default now-1h", 0, 0},
        {"until",     0,   ARGS_TEXT,   &compare.until,     "TIME",   "end the range here; default now", 0, 0},
        {"before-from", 0, ARGS_TEXT,   &compare.before_from, "TIME", "begin the range of BEFORE here; default as --from", 0, 0},
        {"before-until", 0, ARGS_TEXT,  &compare.before_until, "TIME", "end the range of BEFORE here; default as --until", 0, 0},
        {"by",        0,   ARGS_TEXT,   &compare.by,        "FIGURE", "compare share (default), or rate by covered second", 0, 0},
        {"instance",  0,   ARGS_TEXT,   &compare.instance,  "LABELS", "take the first of these labels as instance", 0, 0},
        {"min-share", 0,   ARGS_TEXT,   &compare.min_share, "SHARE",  "test functions of this share; default 0.001", 0, 0},
        {"q",         0,   ARGS_TEXT,   &compare.q,         "RATE",   "accept this rate of false findings; default 0.05", 0, 0},
        {"sort",      0,   ARGS_TEXT,   &compare.sort,      "COLUMN", "sort by delta, change, p or name; default delta", 0, 0},
        {"all",       0,   ARGS_FLAG,   &compare.all,       NULL,     "print all functions, not only what changed", 0, 0},
        {"json",      0,   ARGS_FLAG,   &compare.json,      NULL,     "print the server's JSON", 0, 0},
        {"file",      'o', ARGS_TEXT,   &compare.file,      "FILE",   "write to this file, not to standard output", 0, 0},
        {"limit",     0,   ARGS_NUMBER, &compare.limit,     "ROWS",   "print ROWS rows; default 30, 0 prints all", 0, 100000},
        CLIENT_PARTIAL_OPTION(compare.server),
        CLIENT_OPTIONS(compare.server),
    };
    /* clang-format on */
    const struct cli_args_command command = {"compare", "BEFORE [AFTER] [options]", about, notes,
                                             options,   FG_COUNT(options),          NULL};
    struct fg_err err;
    int words, code;

    if (!cli_args_begin(&command, argc, argv, &words, &code))
        return code;
    compare.words[0] = words > 0 ? argv[0] : "";
    compare.words[1] = words > 1 ? argv[1] : compare.words[0];
    compare.arena = fg_arena_create(ASK_ARENA_MAX_BYTES);
    if (check(&compare, words, &err) != FG_OK)
        code = cli_args_refuse(&command, &err);
    else
        code = answer(&compare, &err) == FG_OK ? CLI_OK : cli_args_fail(&command, &err);
    /* On standard error, so that the output stays parseable. */
    cli_client_warn_missing(compare.client);
    cli_client_destroy(compare.client);
    fg_arena_destroy(compare.arena);
    return code;
}
