#include "common/base/str.h"
#include "common/base/time.h"
#include "common/net/pbjson.h"
#include "deploy/cli/ask.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/label_rows.h"
#include "deploy/cli/output.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"
#include "proto/querier_v1.pb-c.h"

struct labels {
    struct cli_client_config server;
    const char *from, *until, *match;
    bool types, json;
    const char *name; /* NULL: names are asked for, not values */
    const char *prefix, *regex, *sort;
    bool cardinality, growth;
    uint64_t limit; /* 0: all */

    struct cli_selection_range range;
    struct fg_arena *arena;
    struct cli_client *client;
    char *matcher;         /* NULL: none */
    struct fg_slice query; /* the same with the type in front, if it is a whole one */
};

static const char about[] =
    "Lists label names; with NAME the values of that label; with --types the profile types.\n"
    "Prints those of profiles in the time range, one a line; with --cardinality also how many "
    "series\n"
    "have each of them, and with a whole profile type in --match their total.\n";

static const char notes[] =
    CLI_TIMES_HELP "\n"
                   "examples:\n"
                   "  flamegrid labels\n"
                   "  flamegrid labels service_name\n"
                   "  flamegrid labels env --match 'shop{version=~\"2.*\"}' --from now-6h\n"
                   "  flamegrid labels --types --match shop\n"
                   "  flamegrid labels --cardinality --sort values\n"
                   "  flamegrid labels pod --prefix shop- --sort series --limit 20 --cardinality\n"
                   "  flamegrid labels service_name --growth --from now-1d --json\n";

/* ---- requests ---- */

static enum fg_code read_names(struct labels *labels, const char *method,
                               const ProtobufCMessage *request,
                               const ProtobufCMessageDescriptor *answer,
                               ProtobufCMessage **ret_message, struct fg_err *err)
{
    struct cli_client_reply reply = {0};

    enum fg_code code = cli_client_call(labels->client, method, request, &reply, err);
    if (code != FG_OK)
        return code;
    code = fg_pb_read(fg_buf_slice(&reply.body), answer, labels->arena, ret_message, err);
    cli_client_reply_done(&reply);
    return code;
}

/* The names stay in the arena, where the message was decoded; only the slices are new. */
static enum fg_code list_of_names(struct labels *labels, char **names, size_t n_names,
                                  struct cli_ask_list *ret_list, struct fg_err *err)
{
    struct cli_ask_list list = {fg_arena_new(labels->arena, struct fg_slice, n_names), n_names};

    if (list.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "the list is too long");
    for (size_t i = 0; i < n_names; i++)
        list.items[i] = fg_cstr(names[i]);
    *ret_list = list;
    return FG_OK;
}

static enum fg_code ask_names(struct labels *labels, struct cli_ask_list *ret_list,
                              struct fg_err *err)
{
    Types__V1__LabelNamesRequest request;
    const Types__V1__LabelNamesResponse *answer;
    ProtobufCMessage *message = NULL;

    types__v1__label_names_request__init(&request);
    request.matchers = &labels->matcher;
    /* The address of a NULL pointer is harmless as long as the count is 0. */
    request.n_matchers = labels->matcher != NULL;
    request.start = labels->range.start_ms;
    request.end = labels->range.end_ms;
    enum fg_code code = read_names(labels, "querier.v1.QuerierService/LabelNames", &request.base,
                                   &types__v1__label_names_response__descriptor, &message, err);
    if (code != FG_OK)
        return code;
    answer = (const Types__V1__LabelNamesResponse *)message;
    return list_of_names(labels, answer->names, answer->n_names, ret_list, err);
}

static enum fg_code ask_values(struct labels *labels, struct cli_ask_list *ret_list,
                               struct fg_err *err)
{
    Types__V1__LabelValuesRequest request;
    const Types__V1__LabelValuesResponse *answer;
    ProtobufCMessage *message = NULL;

    types__v1__label_values_request__init(&request);
    request.name = fg_arena_text(labels->arena, fg_cstr(labels->name));
    if (request.name == NULL)
        return fg_fail(err, FG_E_LIMIT, "the name is too long");
    request.matchers = &labels->matcher;
    request.n_matchers = labels->matcher != NULL;
    request.start = labels->range.start_ms;
    request.end = labels->range.end_ms;
    enum fg_code code = read_names(labels, "querier.v1.QuerierService/LabelValues", &request.base,
                                   &types__v1__label_values_response__descriptor, &message, err);
    if (code != FG_OK)
        return code;
    answer = (const Types__V1__LabelValuesResponse *)message;
    return list_of_names(labels, answer->names, answer->n_names, ret_list, err);
}

static enum fg_code ask_list(struct labels *labels, struct cli_ask_list *ret_list,
                             struct fg_err *err)
{
    if (labels->types)
        return cli_ask_types(labels->client,
                             labels->matcher == NULL ? FG_LIT("{}") : fg_cstr(labels->matcher),
                             &labels->range, labels->arena, ret_list, err);
    if (labels->name == NULL)
        return ask_names(labels, ret_list, err);
    return ask_values(labels, ret_list, err);
}

/* ---- the command ---- */

/* Returns true if something is asked for that lists over Connect do not have. */
static bool wants_rows(const struct labels *labels)
{
    return labels->prefix != NULL || labels->regex != NULL || labels->sort != NULL ||
           labels->cardinality || labels->growth || labels->limit > 0;
}

/* Returns true if less than all labels is asked for. Then an empty list means that nothing matches,
 * and in silence that would look like success. */
static bool is_selection(const struct labels *labels)
{
    return labels->name != NULL || labels->matcher != NULL || labels->prefix != NULL ||
           labels->regex != NULL;
}

static enum fg_code fail_nothing(const struct labels *labels, struct fg_err *err)
{
    bool filtered = labels->prefix != NULL || labels->regex != NULL;
    const char *of = labels->matcher == NULL ? "" : " of ";
    const char *matcher = labels->matcher == NULL ? "" : labels->matcher;
    const char *by = labels->prefix == NULL  ? " that matches --regex"
                     : labels->regex == NULL ? " that begins with --prefix"
                                             : " that --prefix and --regex match";

    /* With --partial: then it may be there. */
    if (cli_client_missing(labels->client) != NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "nothing%s%s from %s until %s can be read", of, matcher,
                       labels->from, labels->until);
    if (filtered && labels->name != NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "no value of %s%s%s%s from %s until %s", labels->name,
                       by, of, matcher, labels->from, labels->until);
    if (filtered)
        return fg_fail(err, FG_E_NOT_FOUND, "no label%s%s%s from %s until %s", by, of, matcher,
                       labels->from, labels->until);
    if (labels->name != NULL)
        return fg_fail(err, FG_E_NOT_FOUND,
                       "no label %s%s%s from %s until %s; flamegrid labels lists the names",
                       labels->name, of, matcher, labels->from, labels->until);
    return fg_fail(err, FG_E_NOT_FOUND,
                   "no profiles%s%s from %s until %s; flamegrid labels service_name lists services",
                   of, matcher, labels->from, labels->until);
}

static bool is_empty_json(const struct fg_buf *out)
{
    return fg_slice_is(fg_trim(fg_buf_slice(out)), "[]");
}

static enum fg_code print_rows(const struct labels *labels, struct fg_err *err)
{
    const struct cli_label_rows rows = {.label = labels->name,
                                        .query = labels->query,
                                        .range = labels->range,
                                        .prefix = labels->prefix,
                                        .regex = labels->regex,
                                        .sort = labels->sort,
                                        .growth = labels->growth,
                                        .numbers = labels->cardinality || labels->growth,
                                        .limit = labels->limit};
    char *truncated = NULL;
    struct fg_buf out;

    fg_buf_init(&out, SIZE_MAX);
    enum fg_code code =
        cli_label_rows_print(labels->client, &rows, labels->json, &out, &truncated, err);
    if (code == FG_OK)
        code = cli_output_write(NULL, fg_buf_slice(&out), err);
    if (code == FG_OK && is_selection(labels) && (out.len == 0 || is_empty_json(&out)))
        code = fail_nothing(labels, err);
    /* On standard error: the list that goes to standard output may be read by a program. */
    if (truncated != NULL)
        (void)fprintf(stderr, "flamegrid labels: the list is not complete: %s\n", truncated);
    free(truncated);
    fg_buf_done(&out);
    return code;
}

static enum fg_code read_match(struct labels *labels, struct fg_err *err)
{
    struct cli_selection selection;
    struct fg_slice matcher;

    if (labels->match == NULL)
        return FG_OK;
    if (cli_selection_parse(fg_cstr(labels->match), labels->arena, &selection, err) != FG_OK ||
        cli_selection_with_type(&selection, labels->arena, &matcher, err) != FG_OK)
        return fg_wrap(err, "--match");
    labels->matcher = fg_arena_text(labels->arena, matcher);
    /* The server sums values of the type in front of a selector; as a matcher it only selects. */
    labels->query = matcher;
    if (cli_selection_is_full_type(selection.type)) {
        const char *text = fg_arena_printf(labels->arena, "%.*s%.*s", FG_S(selection.type),
                                           FG_S(selection.labels));

        if (text == NULL)
            return fg_fail(err, FG_E_LIMIT, "--match is too long");
        labels->query = fg_cstr(text);
    }
    return labels->matcher == NULL ? fg_fail(err, FG_E_LIMIT, "--match is too long") : FG_OK;
}

static enum fg_code check(struct labels *labels, int words, struct fg_err *err)
{
    if (words > 1)
        return fg_fail(err, FG_E_INVALID, "one label at a time");
    if (labels->types && words > 0)
        return fg_fail(err, FG_E_INVALID, "--types and a label's name do not go together");
    /* Types have no numbers of series: they come from another method. */
    if (labels->types && wants_rows(labels))
        return fg_fail(err, FG_E_INVALID, "--types lists names only");
    if (cli_selection_range(labels->from, labels->until, fg_wall_ns(fg_clock_real()),
                            &labels->range, err) != FG_OK ||
        read_match(labels, err) != FG_OK)
        return err->code;
    return cli_client_create(&labels->server, &labels->client, err);
}

static enum fg_code print_json(const struct cli_ask_list *list, struct fg_err *err)
{
    json_t *array = json_array();

    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(array, cli_json_text(list->items[i]));
    return cli_json_print(array, stdout, err);
}

/* Values come from outside: control characters must not reach the terminal. */
static void print_lines(const struct cli_ask_list *list)
{
    struct fg_buf out;

    fg_buf_init(&out, SIZE_MAX);
    for (size_t i = 0; i < list->count; i++) {
        cli_show_text(list->items[i], &out);
        fg_buf_putc(&out, '\n');
    }
    if (out.len > 0)
        (void)fwrite(out.ptr, 1, out.len, stdout);
    fg_buf_done(&out);
}

static int run(struct labels *labels, const struct cli_args_command *command, int words)
{
    struct cli_ask_list list = {0};
    struct fg_err err;

    if (check(labels, words, &err) != FG_OK)
        return cli_args_refuse(command, &err);
    /* Only if it is needed: Connect lists also come from servers without /api/labels. */
    if (wants_rows(labels))
        return print_rows(labels, &err) == FG_OK ? CLI_OK : cli_args_fail(command, &err);
    if (ask_list(labels, &list, &err) != FG_OK)
        return cli_args_fail(command, &err);
    if (!labels->json)
        print_lines(&list);
    else if (print_json(&list, &err) != FG_OK)
        return cli_args_fail(command, &err);
    return list.count == 0 && is_selection(labels) && fail_nothing(labels, &err) != FG_OK
               ? cli_args_fail(command, &err)
               : CLI_OK;
}

int cli_labels(int argc, char **argv)
{
    struct labels labels = {.from = "now-1h", .until = "now"};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"match", 0, ARGS_TEXT, &labels.match, "SELECTOR", "use only profiles that match (see flamegrid query --help)", 0, 0},
        {"types", 0, ARGS_FLAG, &labels.types, NULL,       "list profile types", 0, 0},
        {"prefix", 0, ARGS_TEXT, &labels.prefix, "TEXT",   "list only those that begin with TEXT", 0, 0},
        {"regex",  0, ARGS_TEXT, &labels.regex,  "REGEX",  "list only those that match REGEX as a whole (RE2)", 0, 0},
        {"sort",   0, ARGS_TEXT, &labels.sort,   "ORDER",  "sort by name (default), series, values (of names), or value (of values)", 0, 0},
        {"limit",  0, ARGS_NUMBER, &labels.limit, "N",     "list N rows; default all", 1, UINT32_MAX},
        {"cardinality", 0, ARGS_FLAG, &labels.cardinality, NULL, "print how many series and values there are", 0, 0},
        {"growth", 0, ARGS_FLAG, &labels.growth, NULL,     "print also how many there were in the equally long range before", 0, 0},
        {"from",  0, ARGS_TEXT, &labels.from,  "TIME",     "begin the range here; default now-1h", 0, 0},
        {"until", 0, ARGS_TEXT, &labels.until, "TIME",     "end the range here; default now", 0, 0},
        {"json",  0, ARGS_FLAG, &labels.json,  NULL,       "print a JSON array", 0, 0},
        CLIENT_PARTIAL_OPTION(labels.server),
        CLIENT_OPTIONS(labels.server),
    };
    /* clang-format on */
    const struct cli_args_command command = {"labels", "[NAME] [options]", about, notes,
                                             options,  FG_COUNT(options),  NULL};
    int words, code;

    if (!cli_args_begin(&command, argc, argv, &words, &code))
        return code;
    labels.name = words > 0 ? argv[0] : NULL;
    labels.arena = fg_arena_create(ASK_ARENA_MAX_BYTES);
    code = run(&labels, &command, words);
    /* On standard error, so that the output stays parseable. */
    cli_client_warn_missing(labels.client);
    cli_client_destroy(labels.client);
    fg_arena_destroy(labels.arena);
    return code;
}
