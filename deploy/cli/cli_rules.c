/* `flamegrid rules VERB [WORD]`: the recording rules of a tenant, over settings.v1. A verb is a row
 * of the table at the end. */
#include "common/base/str.h"
#include "common/net/pbjson.h"
#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/client.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/selection.h"
#include "deploy/cli/show.h"
#include "deploy/cli/upload_file.h"
#include "proto/settings_v1.pb-c.h"

#include <string.h>

enum {
    ARENA_MAX_BYTES = 256 * 1024 * 1024, /* the largest list of rules has 16 MiB */
    FILE_MAX_BYTES = 1024 * 1024,        /* of a rule; servers take far less */
    PARTS_MAX = 64,                      /* of an option that is a list */
};

struct rules_command {
    struct cli_client_config server;
    const char *word; /* what follows the verb; NULL: nothing */
    bool json;
    const char *metric, *match, *group_by, *label, *function, *regex, *id; /* of create */
    uint64_t top, generation;
    bool self, share;

    struct fg_arena *arena;
    struct cli_client *client;
    struct fg_err err;
};

struct rules_verb {
    struct cli_args_verb verb;
    enum fg_code (*run)(struct rules_command *command);
};

static const char about[] =
    "Recording rules make metrics of profiles, which Prometheus scrapes at /api/metrics.\n";

static const char notes[] =
    "examples:\n"
    "  cpu=process_cpu:cpu:nanoseconds:cpu:nanoseconds\n"
    "  flamegrid rules create --metric shop_cpu --match $cpu'{service_name=\"shop\"}' --group-by "
    "pod\n"
    "  flamegrid rules create --metric gc_share --match $cpu --regex 'runtime[.]gc.*' --share\n"
    "  flamegrid rules get JvLdNpYsXa --json >rule.json\n"
    "  flamegrid rules create rule.json\n";

/* ---- requests ---- */

static enum fg_code call(struct rules_command *command, const char *method,
                         const ProtobufCMessage *request, const ProtobufCMessageDescriptor *answer,
                         ProtobufCMessage **ret_message)
{
    struct cli_client_reply reply = {0};
    enum fg_code code = cli_client_call(command->client, method, request, &reply, &command->err);

    if (code != FG_OK)
        return code;
    code =
        fg_pb_read(fg_buf_slice(&reply.body), answer, command->arena, ret_message, &command->err);
    cli_client_reply_done(&reply);
    return code;
}

/* ---- what is shown ---- */

static json_t *text(const char *value)
{
    return cli_json_text(fg_cstr(value));
}

static json_t *texts(char *const *values, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(array, text(values[i]));
    return array;
}

static const char *metric_type(Settings__V1__MetricType type)
{
    return type == SETTINGS__V1__METRIC_TYPE__SELF ? "SELF" : "TOTAL";
}

static void put_functions(json_t *document, const Settings__V1__RecordingRule *rule)
{
    const Settings__V1__StacktraceFilterFunctionName *one =
        rule->stacktrace_filter == NULL ? NULL : rule->stacktrace_filter->function_name;

    if (one != NULL)
        (void)json_object_set_new(document, "stacktrace_filter",
                                  json_pack("{s:{s:o,s:s}}", "function_name", "function_name",
                                            text(one->function_name), "metric_type",
                                            metric_type(one->metric_type)));
    if (rule->functions != NULL)
        (void)json_object_set_new(document, "functions",
                                  json_pack("{s:o,s:o,s:s}", "names",
                                            texts(rule->functions->names, rule->functions->n_names),
                                            "regex", text(rule->functions->regex), "metric_type",
                                            metric_type(rule->functions->metric_type)));
    if (rule->top != NULL)
        (void)json_object_set_new(document, "top",
                                  json_pack("{s:I,s:s}", "functions",
                                            (json_int_t)rule->top->functions, "metric_type",
                                            metric_type(rule->top->metric_type)));
}

/* Returns the rule in the form that create reads. */
static json_t *as_json(const Settings__V1__RecordingRule *rule)
{
    /* jansson's "o" and _new() take the reference over, so nothing here is freed by itself. */
    json_t *document = json_object(), *labels = json_array();

    for (size_t i = 0; i < rule->n_external_labels; i++)
        (void)json_array_append_new(labels, json_pack("{s:o,s:o}", "name",
                                                      text(rule->external_labels[i]->name), "value",
                                                      text(rule->external_labels[i]->value)));
    (void)json_object_set_new(document, "id", text(rule->id));
    (void)json_object_set_new(document, "metric_name", text(rule->metric_name));
    (void)json_object_set_new(document, "profile_type", text(rule->profile_type));
    (void)json_object_set_new(document, "matchers", texts(rule->matchers, rule->n_matchers));
    (void)json_object_set_new(document, "group_by", texts(rule->group_by, rule->n_group_by));
    (void)json_object_set_new(document, "external_labels", labels);
    (void)json_object_set_new(document, "generation", json_integer(rule->generation));
    put_functions(document, rule);
    (void)json_object_set_new(
        document, "value",
        json_string(rule->value == SETTINGS__V1__RULE_VALUE__SHARE ? "SHARE" : "SUM"));
    return document;
}

static void put_list(const char *before, char *const *values, size_t n, struct fg_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        fg_buf_puts(out, i == 0 ? before : ", ");
        cli_show_text(fg_cstr(values[i]), out);
    }
}

static void put_type(Settings__V1__MetricType type, struct fg_buf *out)
{
    fg_buf_puts(out, type == SETTINGS__V1__METRIC_TYPE__SELF ? " (self)" : " (total)");
}

static void put_what(const Settings__V1__RecordingRule *rule, struct fg_buf *out)
{
    const Settings__V1__StacktraceFilterFunctionName *one =
        rule->stacktrace_filter == NULL ? NULL : rule->stacktrace_filter->function_name;

    if (one != NULL) {
        put_list(" of ", (char *const *)&one->function_name, 1, out);
        put_type(one->metric_type, out);
    } else if (rule->functions != NULL) {
        put_list(" of ", rule->functions->names, rule->functions->n_names, out);
        if (rule->functions->regex[0] != '\0')
            put_list(" of regex ", &rule->functions->regex, 1, out);
        put_type(rule->functions->metric_type, out);
    } else if (rule->top != NULL) {
        fg_buf_printf(out, " of the top %u", rule->top->functions);
        put_type(rule->top->metric_type, out);
    }
}

/* "JvLdNpYsXa  gc_share  share of regex runtime[.]gc.* (total) by service_name  {…}" */
static void put_line(const Settings__V1__RecordingRule *rule, struct fg_buf *out)
{
    cli_show_text(fg_cstr(rule->id), out);
    fg_buf_puts(out, "  ");
    cli_show_text(fg_cstr(rule->metric_name), out);
    fg_buf_puts(out, rule->value == SETTINGS__V1__RULE_VALUE__SHARE ? "  share" : "  sum");
    put_what(rule, out);
    put_list(" by ", rule->group_by, rule->n_group_by, out);
    put_list("  ", rule->matchers, rule->n_matchers, out);
    fg_buf_putc(out, '\n');
}

/* Prints rules, one a line, or as JSON: with a list an array. */
static enum fg_code print(struct rules_command *command, Settings__V1__RecordingRule *const *rules,
                          size_t n, bool list)
{
    json_t *array;
    struct fg_buf out;

    if (command->json && !list)
        return cli_json_print(as_json(rules[0]), stdout, &command->err);
    if (command->json) {
        array = json_array();
        for (size_t i = 0; i < n; i++)
            (void)json_array_append_new(array, as_json(rules[i]));
        return cli_json_print(array, stdout, &command->err);
    }
    fg_buf_init(&out, SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        put_line(rules[i], &out);
    if (out.len > 0)
        (void)fwrite(out.ptr, 1, out.len, stdout);
    fg_buf_done(&out);
    return FG_OK;
}

/* ---- list, get, delete ---- */

static enum fg_code list(struct rules_command *command)
{
    Settings__V1__ListRecordingRulesRequest request;
    const Settings__V1__ListRecordingRulesResponse *answer;
    ProtobufCMessage *message = NULL;

    settings__v1__list_recording_rules_request__init(&request);
    if (call(command, "settings.v1.RecordingRulesService/ListRecordingRules", &request.base,
             &settings__v1__list_recording_rules_response__descriptor, &message) != FG_OK)
        return command->err.code;
    answer = (const Settings__V1__ListRecordingRulesResponse *)message;
    return print(command, answer->rules, answer->n_rules, true);
}

/* An answer without a rule is not one of a server that knows rules. */
static enum fg_code print_one(struct rules_command *command, Settings__V1__RecordingRule *rule)
{
    if (rule == NULL)
        return fg_fail(&command->err, FG_E_INTERNAL, "the answer of the server has no rule");
    return print(command, &rule, 1, false);
}

static enum fg_code get(struct rules_command *command)
{
    Settings__V1__GetRecordingRuleRequest request;
    ProtobufCMessage *message = NULL;

    settings__v1__get_recording_rule_request__init(&request);
    request.id = (char *)(uintptr_t)command->word;
    if (call(command, "settings.v1.RecordingRulesService/GetRecordingRule", &request.base,
             &settings__v1__get_recording_rule_response__descriptor, &message) != FG_OK)
        return command->err.code;
    return print_one(command, ((Settings__V1__GetRecordingRuleResponse *)message)->rule);
}

static enum fg_code delete (struct rules_command *command) {
    Settings__V1__DeleteRecordingRuleRequest request; ProtobufCMessage *message = NULL;

    settings__v1__delete_recording_rule_request__init(&request);
    request.id = (char *)(uintptr_t)command->word;
    if (call(command, "settings.v1.RecordingRulesService/DeleteRecordingRule", &request.base,
             &settings__v1__delete_recording_rule_response__descriptor,
             &message) != FG_OK) return command->err.code;
    return command->json ? cli_json_print(json_pack("{s:b}", "ok", 1), stdout, &command->err)
                         : FG_OK;
}

/* ---- create ---- */

static enum fg_code no_memory(struct rules_command *command)
{
    return fg_fail(&command->err, FG_E_LIMIT, "the rule is too large");
}

static enum fg_code read_file(struct rules_command *command,
                              Settings__V1__UpsertRecordingRuleRequest **ret_request)
{
    ProtobufCMessage *message = NULL;
    struct fg_buf content;
    enum fg_code code;

    /* JSON of settings.v1, so that what get --json prints needs no reader of its own. */
    fg_buf_init(&content, FILE_MAX_BYTES);
    code = cli_upload_file_read(command->word, &content, &command->err);
    if (code == FG_OK && fg_pbjson_read(fg_buf_slice(&content),
                                        &settings__v1__upsert_recording_rule_request__descriptor,
                                        command->arena, &message, &command->err) != FG_OK)
        code = fg_wrap(&command->err, "%s", command->word);
    fg_buf_done(&content);
    *ret_request = (Settings__V1__UpsertRecordingRuleRequest *)message;
    return code;
}

/* Splits "a,b" into texts in the arena. */
static enum fg_code split(struct rules_command *command, const char *option, const char *list_text,
                          char ***ret_parts, size_t *ret_n)
{
    struct fg_slice rest = fg_cstr(list_text == NULL ? "" : list_text);
    char **parts = fg_arena_new(command->arena, char *, PARTS_MAX);
    size_t n = 0;

    while (parts != NULL && rest.len > 0) {
        size_t at = fg_slice_find(rest, ',');

        if (n == PARTS_MAX)
            return fg_fail(&command->err, FG_E_INVALID, "--%s: more than %d", option, PARTS_MAX);
        parts[n] = fg_arena_text(command->arena, fg_trim(fg_slice_sub(rest, 0, at)));
        if (parts[n++] == NULL)
            return no_memory(command);
        rest = at == SIZE_MAX ? (struct fg_slice){0} : fg_slice_sub(rest, at + 1, SIZE_MAX);
    }
    if (parts == NULL)
        return no_memory(command);
    *ret_parts = parts;
    *ret_n = n;
    return FG_OK;
}

static enum fg_code read_labels(struct rules_command *command,
                                Settings__V1__UpsertRecordingRuleRequest *request)
{
    char **parts = NULL;
    size_t n = 0;

    if (split(command, "label", command->label, &parts, &n) != FG_OK)
        return command->err.code;
    request->external_labels = fg_arena_new(command->arena, Types__V1__LabelPair *, n);
    if (request->external_labels == NULL)
        return no_memory(command);
    for (size_t i = 0; i < n; i++) {
        Types__V1__LabelPair *pair = fg_arena_new(command->arena, Types__V1__LabelPair, 1);
        /* The first one: values may have '=', names may not. */
        char *equals = strchr(parts[i], '=');

        if (pair == NULL)
            return no_memory(command);
        if (equals == NULL)
            return fg_fail(&command->err, FG_E_INVALID, "--label: %s is not NAME=VALUE", parts[i]);
        types__v1__label_pair__init(pair);
        *equals = '\0';
        pair->name = parts[i];
        pair->value = equals + 1;
        request->external_labels[request->n_external_labels++] = pair;
    }
    return FG_OK;
}

static enum fg_code read_functions(struct rules_command *command,
                                   Settings__V1__UpsertRecordingRuleRequest *request)
{
    Settings__V1__RuleFunctions *functions =
        fg_arena_new(command->arena, Settings__V1__RuleFunctions, 1);
    Settings__V1__RuleTop *top = fg_arena_new(command->arena, Settings__V1__RuleTop, 1);
    Settings__V1__MetricType type =
        command->self ? SETTINGS__V1__METRIC_TYPE__SELF : SETTINGS__V1__METRIC_TYPE__TOTAL;

    if (functions == NULL || top == NULL)
        return no_memory(command);
    settings__v1__rule_functions__init(functions);
    settings__v1__rule_top__init(top);
    functions->metric_type = top->metric_type = type;
    /* 0 is not given: the option begins at 1. */
    top->functions = (uint32_t)command->top;
    if (command->top > 0)
        request->top = top;
    if (command->function == NULL && command->regex == NULL)
        return FG_OK;
    request->functions = functions;
    if (command->regex != NULL)
        functions->regex = (char *)(uintptr_t)command->regex;
    /* One name, since names have commas. */
    functions->n_names = command->function != NULL;
    functions->names = (char **)(uintptr_t)&command->function;
    return FG_OK;
}

static enum fg_code read_match(struct rules_command *command,
                               Settings__V1__UpsertRecordingRuleRequest *request)
{
    struct cli_selection selection;
    struct fg_slice matcher;

    if (cli_selection_parse(fg_cstr(command->match), command->arena, &selection, &command->err) !=
            FG_OK ||
        cli_selection_with_type(&selection, command->arena, &matcher, &command->err) != FG_OK)
        return fg_wrap(&command->err, "--match");
    /* Types are not asked for, as other commands do: a rule has to mean the same type for ever. */
    if (selection.type.len > 0 && !cli_selection_is_full_type(selection.type))
        return fg_fail(&command->err, FG_E_INVALID,
                       "--match: a rule needs the whole profile type; flamegrid labels --types "
                       "lists them");
    /* One matcher has all: a server reads each as a whole selector. */
    request->n_matchers = 1;
    request->matchers = fg_arena_new(command->arena, char *, 1);
    if (request->matchers == NULL)
        return no_memory(command);
    request->matchers[0] = fg_arena_text(command->arena, matcher);
    return request->matchers[0] == NULL ? no_memory(command) : FG_OK;
}

static enum fg_code read_options(struct rules_command *command,
                                 Settings__V1__UpsertRecordingRuleRequest **ret_request)
{
    Settings__V1__UpsertRecordingRuleRequest *request =
        fg_arena_new(command->arena, Settings__V1__UpsertRecordingRuleRequest, 1);

    if (request == NULL)
        return no_memory(command);
    settings__v1__upsert_recording_rule_request__init(request);
    /* protobuf-c has no const texts; requests are only packed, never written to. */
    request->metric_name = (char *)(uintptr_t)command->metric;
    if (command->id != NULL)
        request->id = (char *)(uintptr_t)command->id;
    request->generation = (int64_t)command->generation;
    if (command->share)
        request->value = SETTINGS__V1__RULE_VALUE__SHARE;
    if (read_match(command, request) != FG_OK || read_labels(command, request) != FG_OK ||
        read_functions(command, request) != FG_OK ||
        split(command, "group-by", command->group_by, &request->group_by, &request->n_group_by) !=
            FG_OK)
        return command->err.code;
    *ret_request = request;
    return FG_OK;
}

static enum fg_code create(struct rules_command *command)
{
    Settings__V1__UpsertRecordingRuleRequest *request = NULL;
    ProtobufCMessage *message = NULL;
    enum fg_code code =
        command->word != NULL ? read_file(command, &request) : read_options(command, &request);

    if (code != FG_OK)
        return code;
    if (call(command, "settings.v1.RecordingRulesService/UpsertRecordingRule", &request->base,
             &settings__v1__upsert_recording_rule_response__descriptor, &message) != FG_OK)
        return command->err.code;
    return print_one(command, ((Settings__V1__UpsertRecordingRuleResponse *)message)->rule);
}

/* ---- the command ---- */

static const struct rules_verb verbs[] = {
    {{"list", NULL, 0, 0, NULL, "lists the rules\n"}, list},
    {{"get", "ID", 1, 1, NULL, "shows a rule\n"}, get},
    {{"create", "[FILE]", 0, 1,
      "metric match group-by label function regex top self share id generation",
      "adds a rule, from options or from a FILE (- is standard input) with what get --json\n"
      "prints; with an id, and the generation of now, it replaces a rule\n"},
     create},
    {{"delete", "ID", 1, 1, NULL, "deletes a rule\n"}, delete},
};

static const struct cli_args_verbs all_verbs = CLI_ARGS_VERBS(verbs);

static int run(struct rules_command *command, const struct cli_args_command *args,
               const struct rules_verb *verb, int words, char **argv)
{
    bool is_create = verb->run == create;
    enum fg_code code = FG_OK;

    if (is_create && words == 1 && (command->metric == NULL || command->match == NULL))
        code = fg_fail(&command->err, FG_E_INVALID, "create: --metric and --match, or a FILE");
    else if (is_create && words == 2 && (command->metric != NULL || command->match != NULL))
        code =
            fg_fail(&command->err, FG_E_INVALID, "create: options and a FILE do not go together");
    if (code != FG_OK ||
        cli_client_create(&command->server, &command->client, &command->err) != FG_OK)
        return cli_args_refuse(args, &command->err);
    command->word = words > 1 ? argv[1] : NULL;
    if (verb->run(command) != FG_OK)
        return cli_args_fail(args, &command->err);
    return CLI_OK;
}

int cli_rules(int argc, char **argv)
{
    struct rules_command command = {0};
    /* clang-format off */
    const struct cli_args_option options[] = {
        {"metric",   0, ARGS_TEXT,   &command.metric,   "NAME",     "give the metric this name", 0, 0},
        {"match",    0, ARGS_TEXT,   &command.match,    "SELECTOR", "use these profiles: TYPE{labels}", 0, 0},
        {"group-by", 0, ARGS_TEXT,   &command.group_by, "A,B",      "make a series for each value of these labels", 0, 0},
        {"label",    0, ARGS_TEXT,   &command.label,    "A=B,C=D",  "add these labels to all series", 0, 0},
        {"function", 0, ARGS_TEXT,   &command.function, "NAME",     "count this function only", 0, 0},
        {"regex",    0, ARGS_TEXT,   &command.regex,    "RE",       "count functions whose whole name matches", 0, 0},
        {"top",      0, ARGS_NUMBER, &command.top,      "N",        "make a series for each of the top N functions", 1, 100},
        {"self",     0, ARGS_FLAG,   &command.self,     NULL,       "leave out what functions call", 0, 0},
        {"share",    0, ARGS_FLAG,   &command.share,    NULL,       "store the share of the whole, not the sum", 0, 0},
        {"id",       0, ARGS_TEXT,   &command.id,       "ID",       "give the rule this id of letters; default random ones", 0, 0},
        {"generation", 0, ARGS_NUMBER, &command.generation, "N",    "replace the rule --id of this generation", 1, INT64_MAX},
        {"json",     0, ARGS_FLAG,   &command.json,     NULL,       "print JSON", 0, 0},
        CLIENT_OPTIONS(command.server),
    };
    /* clang-format on */
    const struct cli_args_command args = {"rules", "[options]",       about,     notes,
                                          options, FG_COUNT(options), &all_verbs};
    int words, code;

    const struct rules_verb *verb = cli_args_begin_verb(&args, argc, argv, &words, &code);

    if (verb == NULL)
        return code;
    command.arena = fg_arena_create(ARENA_MAX_BYTES);
    code = run(&command, &args, verb, words, argv);
    cli_client_destroy(command.client);
    fg_arena_destroy(command.arena);
    return code;
}
