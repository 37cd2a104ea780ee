#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/flame.h"
#include "common/model/selector.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/output.h"
#include "deploy/cli/query.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"

#include <unistd.h>

enum {
    OUTPUT_MAX_BYTES = 2047 * 1024 * 1024,
    ROWS_DEFAULT = 30,
};

/* Limits are smaller, so this one was not given. */
#define NO_LIMIT UINT64_MAX

static const char about[] =
    "Merges all profiles that SELECTOR matches in the time range, and prints the sum.\n";

static const char notes[] =
    "SELECTOR is one of\n"
    "  shop                            a service\n"
    "  'shop{env=\"prod\"}'              a service and more labels, as in PromQL: = != =~ !~\n"
    "  'shop.alloc_space{...}'         the same, with a type as the ending, as in push\n"
    "  '{env=\"prod\"}'                  labels only\n"
    "  'process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name=\"shop\"}'\n"
    "Select a service whose name ends like a type so: '{service_name=\"shop.cpu\"}'.\n"
    "\n"
    "TYPE is a full id as in the last line, a sample type (cpu, alloc_space, inuse_space,\n"
    "goroutine) or name:sample type (mutex:delay). Default: the only type, if there is one, else\n"
    "process_cpu:cpu. flamegrid labels --types lists them.\n"
    "\n"
    "FORMAT is\n"
    "  table   functions by their own share of the total; the default on a terminal, and with\n"
    "          --sort or --limit\n"
    "  folded  collapsed stacks, \"main;work 30\" a line; the default elsewhere\n"
    "  pprof   gzip'ed, with addresses and lines, for go tool pprof\n"
    "  goPgo   the same with the last five frames of each stack only, for go build -pgo\n"
    "  json    flame graph and timeline, as /pyroscope/render gives them\n"
    "  dot     call graph, for Graphviz; --max-nodes counts functions, default 100\n"
    "  speedscope, firefox  files for speedscope.app and profiler.firefox.com\n"
    "  svg     a flame graph as a picture, for browsers\n"
    "\n"
    "--call-site, --function and --regex show a part of the flame graph. It is taken from all\n"
    "data, before --max-nodes cuts. Not for table; of pprof and goPgo only --call-site.\n"
    "In folded stacks ; and line ends of names become : and blanks.\n"
    "\n"
    "A query fails if data that it needs cannot be read. With --partial it takes what there is,\n"
    "and standard error says what is missing.\n"
    "\n" CLI_TIMES_HELP "\n"
    "examples:\n"
    "  flamegrid query shop\n"
    "  flamegrid query 'shop{env=\"prod\"}' --type alloc_space --from now-6h --limit 50\n"
    "  flamegrid query shop --sort total\n"
    "  flamegrid query shop --series --from 1d --step 3600\n"
    "  flamegrid query 'shop{version=\"2\"}' --diff 'shop{version=\"1\"}'\n"
    "  flamegrid query shop --from 1h --diff shop --diff-from 25h --diff-until 24h\n"
    "  flamegrid query shop --output svg -o shop.svg\n"
    "  flamegrid query shop --output pprof -o shop.pb.gz && go tool pprof -http : shop.pb.gz\n"
    "  flamegrid query shop --from 1d --output goPgo -o default.pgo && go build\n";

/* Chooses a type whose profiles the query may mean: if there are several, the first of them, since
 * a hint needs no more than one. FG_E_NOT_FOUND: no such type. */
static enum fg_code choose_some_type(struct fg_slice wanted, const struct cli_ask_list *types,
                                     struct fg_slice *ret_type, struct fg_err *err)
{
    enum fg_code code =
        cli_selection_choose_type(wanted, types->items, types->count, "", ret_type, err);

    /* A single type is never ambiguous. */
    for (size_t i = 0; code == FG_E_INVALID && i < types->count; i++)
        if (cli_selection_choose_type(wanted, &types->items[i], 1, "", ret_type, err) == FG_OK)
            code = FG_OK;
    return code;
}

/* Finds when there are profiles of the selection, to a thousandth of the time of which the server
 * has any. FG_E_NOT_FOUND: never, or of no wanted type. */
static enum fg_code find_when(const struct cli_query *query, const struct cli_selection_range *all,
                              struct cli_selection_range *ret_when, struct fg_err *err)
{
    /* A thousand points: fine enough for a hint, and one cheap request even for years. */
    int64_t step_ms = FG_MAX((all->end_ms - all->start_ms) / 1000, 1000);
    const Querier__V1__SelectSeriesResponse *answer;
    struct cli_ask_list types = {0};
    struct fg_slice type = query->selection.type;

    if (!cli_selection_is_full_type(type) &&
        (cli_ask_types(query->client, query->selection.labels, all, query->arena, &types, err) !=
             FG_OK ||
         choose_some_type(query->selection.type, &types, &type, err) != FG_OK))
        return err->code;
    if (cli_ask_series(query->client, type, query->selection.labels, all, (double)step_ms / 1000,
                       false, query->arena, &answer, err) != FG_OK)
        return err->code;
    if (answer->n_series == 0 || answer->series[0]->n_points == 0)
        return fg_fail(err, FG_E_NOT_FOUND, "none at all");
    *ret_when = (struct cli_selection_range){
        answer->series[0]->points[0]->timestamp - step_ms,
        answer->series[0]->points[answer->series[0]->n_points - 1]->timestamp};
    return FG_OK;
}

/* Errors on the way are ignored: that there is nothing is the answer, and the hint is only help. */
enum fg_code cli_query_fail_empty(const struct cli_query *query, struct fg_err *err)
{
    enum { SECOND_MS = 1000 };
    char from[CLI_TIME_TEXT_BYTES], until[CLI_TIME_TEXT_BYTES];
    struct cli_ask_stats stats = {0};
    struct cli_selection_range when = {0};
    struct fg_err ignored;

    /* With --partial: then a hint at other times would be wrong. */
    if (cli_client_missing(query->client) != NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "nothing of %.*s from %s until %s can be read",
                       FG_S(query->selection.labels), query->from, query->until);
    if (cli_ask_stats(query->client, query->arena, &stats, &ignored) == FG_OK &&
        stats.newest_ms == 0)
        return fg_fail(err, FG_E_NOT_FOUND, "no profiles of %.*s: the server has none at all",
                       FG_S(query->selection.labels));
    /* A second more on both sides, so that the oldest and the newest profile are inside. */
    if (stats.newest_ms != 0 &&
        find_when(
            query,
            &(struct cli_selection_range){stats.oldest_ms - SECOND_MS, stats.newest_ms + SECOND_MS},
            &when, &ignored) == FG_OK) {
        cli_time_write(when.start_ms * FG_MS_NS, from);
        cli_time_write((when.end_ms + SECOND_MS) * FG_MS_NS, until);
        return fg_fail(err, FG_E_NOT_FOUND,
                       "no profiles of %.*s from %s until %s, but there are some: --from %s "
                       "--until %s",
                       FG_S(query->selection.labels), query->from, query->until, from, until);
    }
    return fg_fail(err, FG_E_NOT_FOUND,
                   "no profiles of %.*s from %s until %s; flamegrid labels service_name lists "
                   "services",
                   FG_S(query->selection.labels), query->from, query->until);
}

/* ---- what comes out ---- */

enum fg_code cli_query_write(const struct cli_query *query, const struct fg_buf *out,
                             struct fg_err *err)
{
    if (out->full)
        return fg_fail(err, FG_E_LIMIT, "more than %d bytes: try a smaller --max-nodes",
                       OUTPUT_MAX_BYTES);
    return cli_output_write(query->file, fg_buf_slice(out), err);
}

/* ---- as /pyroscope/render has it ---- */

/* Writes the query for /pyroscope/render, with the type as a matcher of __name__: before the brace
 * only names of metrics may stand, and a profile type may have other characters. */
static enum fg_code write_render_query(const struct cli_query *query, struct fg_buf *path,
                                       struct fg_err *err)
{
    struct fg_selector selector = {0};
    struct fg_buf text;

    fg_buf_init(&text, FG_SELECTOR_MAX_BYTES);
    enum fg_code code = fg_selector_parse(query->selection.labels, query->arena, &selector, err);
    if (code == FG_OK)
        code = fg_selector_add(&selector, query->arena, FG_MATCH_EQ, FG_LIT(FG_LABEL_NAME),
                               query->type_id, err);
    if (code == FG_OK) {
        fg_selector_write(&selector, &text);
        fg_buf_url(path, fg_buf_slice(&text));
    }
    fg_selector_done(&selector);
    fg_buf_done(&text);
    return code;
}

/* Adds the part that is wanted: the functions of a call site are separated by ';', as in folded
 * stacks. */
static void write_part(const struct cli_query *query, struct fg_buf *path)
{
    struct fg_slice rest = fg_cstr(query->call_site != NULL ? query->call_site : "");

    while (rest.len > 0) {
        size_t end = FG_MIN(fg_slice_find(rest, ';'), rest.len);

        fg_buf_puts(path, "&callSite=");
        fg_buf_url(path, fg_slice_sub(rest, 0, end));
        rest = fg_slice_sub(rest, end + 1, rest.len);
    }
    if (query->function != NULL) {
        fg_buf_puts(path, "&function=");
        fg_buf_url(path, fg_cstr(query->function));
    }
    if (query->regex != NULL) {
        fg_buf_puts(path, "&regex=");
        fg_buf_url(path, fg_cstr(query->regex));
    }
}

static enum fg_code ask_render(const struct cli_query *query, const char *format,
                               struct cli_client_reply *reply, struct fg_err *err)
{
    struct fg_buf path;

    fg_buf_init(&path, SIZE_MAX);
    fg_buf_printf(&path, "/pyroscope/render?format=%s&from=", format);
    cli_time_put_ms(query->range.start_ms, &path);
    fg_buf_puts(&path, "&until=");
    cli_time_put_ms(query->range.end_ms, &path);
    fg_buf_printf(&path, "&max-nodes=%llu&query=", (unsigned long long)query->max_nodes);
    enum fg_code code = write_render_query(query, &path, err);
    write_part(query, &path);
    /* libcurl wants a C string; the buffer has no terminator of its own. */
    fg_buf_putc(&path, '\0');
    if (code == FG_OK)
        code = cli_client_get(query->client, (const char *)path.ptr, reply, err);
    fg_buf_done(&path);
    return code == FG_OK ? cli_client_check(reply, err) : code;
}

/* ---- parts that are empty ---- */

/* An empty tree is an error of its own: an empty table would look like an idle service. */
static enum fg_code ask_sum(const struct cli_query *query, struct fg_tree *tree, struct fg_err *err)
{
    if (cli_ask_tree(query->client, query->type_id, query->selection.labels, &query->range,
                     query->max_nodes, query->arena, tree, err) != FG_OK)
        return err->code;
    return tree->n_nodes == 0 ? cli_query_fail_empty(query, err) : FG_OK;
}

static bool has_part(const struct cli_query *query)
{
    return query->call_site != NULL || query->function != NULL || query->regex != NULL;
}

/* Fails because no stack has the wanted part: FG_E_NOT_FOUND, as if there were no profiles. */
static enum fg_code fail_no_stack(const struct cli_query *query, struct fg_err *err)
{
    struct cli_query whole = *query;
    struct fg_tree tree;
    const char *site = query->call_site, *wanted = query->function;
    enum fg_code code;

    whole.max_nodes = 1; /* only whether there are profiles */
    fg_tree_init(&tree);
    code = ask_sum(&whole, &tree, err);
    fg_tree_done(&tree);
    if (code != FG_OK)
        return code;
    if (wanted == NULL)
        wanted = query->regex;
    return fg_fail(err, FG_E_NOT_FOUND, "no stack of %.*s%s%s%s%s from %s until %s",
                   FG_S(query->selection.labels),
                   site == NULL     ? ""
                   : wanted == NULL ? " begins with "
                                    : " that begins with ",
                   site == NULL ? "" : site,
                   wanted == NULL            ? ""
                   : query->function != NULL ? " has the function "
                                             : " has a function that matches ",
                   wanted == NULL ? "" : wanted, query->from, query->until);
}

/* ---- the forms of the server ---- */

/* Asks for a form, which some forms show also of nothing: that is an error. */
static enum fg_code ask_form(const struct cli_query *query, const char *format,
                             struct cli_client_reply *reply, struct fg_err *err)
{
    if (ask_render(query, format, reply, err) != FG_OK)
        return err->code;
    return reply->empty ? (has_part(query) ? fail_no_stack : cli_query_fail_empty)(query, err)
                        : FG_OK;
}

static enum fg_code run_render(const struct cli_query *query, const char *format,
                               struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    enum fg_code code = ask_form(query, format, &reply, err);

    if (code == FG_OK)
        code = cli_query_write(query, &reply.body, err);
    cli_client_reply_done(&reply);
    return code;
}

/* ---- table and folded ---- */

static enum fg_code run_table(const struct cli_query *query, struct fg_err *err)
{
    struct fg_profile_type type = {0};
    struct fg_tree tree;
    struct fg_buf out;

    if (fg_profile_type_parse(query->type_id, &type, err) != FG_OK)
        return err->code;
    fg_tree_init(&tree);
    fg_buf_init(&out, OUTPUT_MAX_BYTES);
    if (ask_sum(query, &tree, err) == FG_OK) {
        cli_show_text(query->type_id, &out);
        fg_buf_putc(&out, ' ');
        cli_show_text(query->selection.labels, &out);
        fg_buf_puts(&out, "\n\n");
        cli_show_table(&tree, type.unit, strcmp(query->sort, "total") == 0, query->limit, &out);
        err->code = cli_query_write(query, &out, err);
    }
    fg_buf_done(&out);
    fg_tree_done(&tree);
    return err->code;
}

static enum fg_code run_folded(const struct cli_query *query, struct fg_err *err)
{
    struct fg_tree tree;
    struct fg_buf out;

    /* The server takes parts out of all data; a tree from it may be cut. */
    if (has_part(query))
        return run_render(query, "folded", err);
    fg_tree_init(&tree);
    fg_buf_init(&out, OUTPUT_MAX_BYTES);
    if (ask_sum(query, &tree, err) == FG_OK) {
        fg_flame_write_folded(&tree, &out);
        err->code = cli_query_write(query, &out, err);
    }
    fg_buf_done(&out);
    fg_tree_done(&tree);
    return err->code;
}

/* ---- pprof ---- */

/* Passes the bytes of the server on, without decoding them: nothing of the profile is lost on the
 * way. */
static enum fg_code run_samples(const struct cli_query *query, const char *format,
                                struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    enum fg_code code = ask_form(query, format, &reply, err);

    if (code == FG_OK)
        code = cli_output_write_gzip(query->file, fg_buf_slice(&reply.body), err);
    cli_client_reply_done(&reply);
    return code;
}

static enum fg_code run_pprof(const struct cli_query *query, struct fg_err *err)
{
    return run_samples(query, "pprof", err);
}

static enum fg_code run_go_pgo(const struct cli_query *query, struct fg_err *err)
{
    return run_samples(query, "goPgo", err);
}

/* ---- the server's other forms ---- */

static enum fg_code run_json(const struct cli_query *query, struct fg_err *err)
{
    return run_render(query, "json", err);
}

static enum fg_code run_dot(const struct cli_query *query, struct fg_err *err)
{
    return run_render(query, "dot", err);
}

static enum fg_code run_speedscope(const struct cli_query *query, struct fg_err *err)
{
    return run_render(query, "speedscope", err);
}

static enum fg_code run_firefox(const struct cli_query *query, struct fg_err *err)
{
    return run_render(query, "firefox", err);
}

static enum fg_code run_svg(const struct cli_query *query, struct fg_err *err)
{
    return run_render(query, "svg", err);
}

/* ---- the command ---- */

#define OUTPUTS "table, folded, pprof, goPgo, json, dot, speedscope, firefox or svg"

/* --series and --diff are rows, too, so that one table decides what runs; users choose them by
 * their own options. */
static const struct {
    const char *name;
    enum fg_code (*run)(const struct cli_query *query, struct fg_err *err);
    bool binary;
    bool below, called; /* it may be of what is below a call site; of what functions call */
    bool rows;          /* has rows, which are sorted and limited */
} outputs[] = {
    {"table", run_table, false, false, false, true},
    {"folded", run_folded, false, true, true, false},
    {"pprof", run_pprof, true, true, false, false},
    {"goPgo", run_go_pgo, true, true, false, false},
    {"json", run_json, false, true, true, false},
    {"dot", run_dot, false, true, true, false},
    {"speedscope", run_speedscope, false, true, true, false},
    {"firefox", run_firefox, false, true, true, false},
    {"svg", run_svg, false, true, true, false},
    {"series", cli_query_series, false, false, false, false},
    {"diff", cli_query_diff, false, false, false, true},
};

/* Rows are what one can sort or limit. */
static bool wants_rows(const struct cli_query *query)
{
    return query->sort != NULL || query->limit != NO_LIMIT;
}

/* Refuses options that the output would ignore. */
static enum fg_code check_output(const struct cli_query *query, size_t output, struct fg_err *err)
{
    if (query->call_site != NULL && !outputs[output].below)
        return fg_fail(err, FG_E_INVALID,
                       "--call-site needs --output folded, pprof, goPgo, json, dot, speedscope, "
                       "firefox or svg");
    if ((query->function != NULL || query->regex != NULL) && !outputs[output].called)
        return fg_fail(err, FG_E_INVALID,
                       "--function and --regex need --output folded, json, dot, speedscope, "
                       "firefox or svg");
    if (wants_rows(query) && !outputs[output].rows)
        return fg_fail(err, FG_E_INVALID, "--sort and --limit need --output table or --diff");
    if (query->json && query->output != NULL && outputs[output].run != run_json)
        return fg_fail(err, FG_E_INVALID, "--json and --output %s do not go together",
                       query->output);
    if (query->step_s != 0 && !query->series)
        return fg_fail(err, FG_E_INVALID, "--step needs --series");
    if (query->max_nodes != 0 && query->series)
        return fg_fail(err, FG_E_INVALID, "--max-nodes and --series do not go together");
    return FG_OK;
}

static enum fg_code choose_output(const struct cli_query *query, size_t *ret_output,
                                  struct fg_err *err)
{
    bool terminal = query->file == NULL && isatty(STDOUT_FILENO) == 1;
    const char *name = query->output;

    if (query->series + (query->diff != NULL) + (name != NULL) > 1)
        return fg_fail(err, FG_E_INVALID, "one of --output, --series and --diff");
    if (query->series)
        name = "series";
    if (query->diff != NULL)
        name = "diff";
    if (name == NULL && query->json)
        name = "json";
    if (name == NULL)
        name = terminal || wants_rows(query) ? "table" : "folded";
    for (size_t i = 0; i < FG_COUNT(outputs); i++) {
        if (strcmp(name, outputs[i].name) != 0)
            continue;
        /* Control bytes of a pprof could change the state of the terminal. */
        if (terminal && outputs[i].binary)
            return fg_fail(err, FG_E_INVALID, "--output %s is not for a terminal: add -o FILE",
                           name);
        *ret_output = i;
        return check_output(query, i, err);
    }
    return fg_fail(err, FG_E_INVALID, "--output %s: it is " OUTPUTS, name);
}

/* Reads the other side of --diff. Its time is that of the query, unless it was given. */
static enum fg_code check_base(struct cli_query *query, struct fg_err *err)
{
    const char *from = query->diff_from != NULL ? query->diff_from : query->from;
    const char *until = query->diff_until != NULL ? query->diff_until : query->until;

    if (cli_selection_parse(fg_cstr(query->diff), query->arena, &query->base, err) != FG_OK)
        return fg_wrap(err, "--diff %s", query->diff);
    return cli_selection_range(from, until, fg_wall_ns(fg_clock_real()), &query->base_range, err);
}

static enum fg_code check(struct cli_query *query, int words, size_t *ret_output,
                          struct fg_err *err)
{
    if (words != 1)
        return fg_fail(err, FG_E_INVALID,
                       words == 0 ? "a SELECTOR is needed, {} for all" : "one SELECTOR at a time");
    if (choose_output(query, ret_output, err) != FG_OK)
        return err->code;
    if (query->sort == NULL)
        query->sort = "self";
    if (query->limit == NO_LIMIT)
        query->limit = ROWS_DEFAULT;
    if (strcmp(query->sort, "self") != 0 && strcmp(query->sort, "total") != 0)
        return fg_fail(err, FG_E_INVALID, "--sort %s: it is self or total", query->sort);
    if (query->diff == NULL && (query->diff_from != NULL || query->diff_until != NULL))
        return fg_fail(err, FG_E_INVALID, "--diff-from and --diff-until need --diff");
    if (cli_selection_parse(fg_cstr(query->selector), query->arena, &query->selection, err) !=
        FG_OK)
        return fg_wrap(err, "%s", query->selector);
    if (query->type != NULL)
        query->selection.type = fg_cstr(query->type);
    if (cli_selection_range(query->from, query->until, fg_wall_ns(fg_clock_real()), &query->range,
                            err) != FG_OK)
        return err->code;
    if (query->diff != NULL && check_base(query, err) != FG_OK)
        return err->code;
    return cli_client_create(&query->server, &query->client, err);
}

static enum fg_code resolve_type(struct cli_query *query, struct fg_err *err)
{
    struct cli_ask_list types = {0};
    const char *of;

    /* A full id needs no request: the query itself shows whether there are such profiles. */
    query->type_id = query->selection.type;
    if (cli_selection_is_full_type(query->type_id))
        return FG_OK;
    if (cli_ask_types(query->client, query->selection.labels, &query->range, query->arena, &types,
                      err) != FG_OK)
        return err->code;
    if (types.count == 0)
        return cli_query_fail_empty(query, err);
    of = fg_arena_printf(query->arena, " of %.*s from %s until %s", FG_S(query->selection.labels),
                         query->from, query->until);
    return cli_selection_choose_type(query->selection.type, types.items, types.count,
                                     of == NULL ? "" : of, &query->type_id, err);
}

int cli_query(int argc, char **argv)
{
    struct cli_query query = {.from = "now-1h", .until = "now", .limit = NO_LIMIT};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"type",      't', ARGS_TEXT,   &query.type,      "TYPE",   "select this profile type, in full or short", 0, 0},
        {"from",      0,   ARGS_TEXT,   &query.from,      "TIME",   "begin the range here; default now-1h", 0, 0},
        {"until",     0,   ARGS_TEXT,   &query.until,     "TIME",   "end the range here; default now", 0, 0},
        {"output",    0,   ARGS_TEXT,   &query.output,    "FORMAT", "print one of " OUTPUTS, 0, 0},
        {"json",      0,   ARGS_FLAG,   &query.json,      NULL,     "print JSON: as --output json, or of --series and --diff", 0, 0},
        {"call-site", 0,   ARGS_TEXT,   &query.call_site, "STACK",  "show only stacks that begin with STACK, as in 'main;work'", 0, 0},
        {"function",  0,   ARGS_TEXT,   &query.function,  "NAME",   "show only this function and what it calls", 0, 0},
        {"regex",     0,   ARGS_TEXT,   &query.regex,     "REGEX",  "show only functions whose whole name matches, and what they call", 0, 0},
        {"sort",      0,   ARGS_TEXT,   &query.sort,      "COLUMN", "sort a table or --diff by self or total; default self", 0, 0},
        {"series",    0,   ARGS_FLAG,   &query.series,    NULL,     "print totals over time and for each covered second, a line for the start of each step with profiles", 0, 0},
        {"step",      0,   ARGS_NUMBER, &query.step_s,    "SECONDS", "use this step for --series; default about 60 steps", 1, UINT32_MAX},
        {"diff",      0,   ARGS_TEXT,   &query.diff,      "SELECTOR", "compare with these profiles: print how shares of functions differ", 0, 0},
        {"diff-from", 0,   ARGS_TEXT,   &query.diff_from, "TIME",   "begin the range of --diff here; default as --from", 0, 0},
        {"diff-until", 0,  ARGS_TEXT,   &query.diff_until, "TIME",  "end the range of --diff here; default as --until", 0, 0},
        {"file",      'o', ARGS_TEXT,   &query.file,      "FILE",   "write to this file, not to standard output", 0, 0},
        {"limit",     0,   ARGS_NUMBER, &query.limit,     "ROWS",   "print ROWS rows of a table or --diff; default 30, 0 prints all", 0, UINT32_MAX},
        {"max-nodes", 0,   ARGS_NUMBER, &query.max_nodes, "N",      "keep the N largest nodes; default all, for json and svg 8192", 1, FG_FLAME_NODES_MAX},
        CLIENT_PARTIAL_OPTION(query.server),
        CLIENT_OPTIONS(query.server),
    };
    /* clang-format on */
    const struct cli_args_command command = {"query", "SELECTOR [options]", about, notes,
                                             options, FG_COUNT(options),    NULL};
    struct fg_err err;
    size_t output = 0;
    int words, code;

    if (!cli_args_begin(&command, argc, argv, &words, &code))
        return code;
    query.selector = words > 0 ? argv[0] : "";
    query.arena = fg_arena_create(ASK_ARENA_MAX_BYTES);
    if (check(&query, words, &output, &err) != FG_OK)
        code = cli_args_refuse(&command, &err);
    else if (resolve_type(&query, &err) != FG_OK || outputs[output].run(&query, &err) != FG_OK)
        code = cli_args_fail(&command, &err);
    else
        code = CLI_OK;
    /* On standard error, so that the output stays parseable. */
    cli_client_warn_missing(query.client);
    cli_client_destroy(query.client);
    fg_arena_destroy(query.arena);
    return code;
}
