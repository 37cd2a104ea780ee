#include "querier/rules/rule.h"

#include "common/base/str.h"
#include "common/model/selector.h"

enum { VALUE_MAX_BYTES = 1024, NAME_MAX_BYTES = 256 };

/* ---- what is wrong ---- */

/* All faults of a rule, a line each: a person corrects them at once. */
struct faults {
    struct fg_buf text;
    struct fg_arena *arena;
};

/* Adds WHAT "VALUE" WHY. value NULL: without. */
static void fault(struct faults *faults, const char *what, const char *value, const char *why)
{
    if (faults->text.len > 0)
        fg_buf_putc(&faults->text, '\n');
    fg_buf_puts(&faults->text, what);
    if (value != NULL) {
        fg_buf_putc(&faults->text, ' ');
        fg_labels_quote(fg_slice_sub(fg_cstr(value), 0, NAME_MAX_BYTES), &faults->text);
    }
    fg_buf_puts(&faults->text, why);
}

static void fault_number(struct faults *faults, const char *what, size_t most)
{
    char why[48];

    (void)snprintf(why, sizeof why, ": at most %zu", most);
    fault(faults, what, NULL, why);
}

/* ---- names ---- */

/* Not isalpha(), which depends on the locale. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Letters, '_', one more character that is allowed, and digits after the first one. */
static bool is_name(const char *name, char also)
{
    for (size_t i = 0; name[i] != '\0'; i++)
        if (!is_letter(name[i]) && name[i] != '_' && name[i] != also &&
            !(i > 0 && name[i] >= '0' && name[i] <= '9'))
            return false;
    return name[0] != '\0';
}

static void check_id(const char *id, struct faults *faults)
{
    size_t i = 0;

    /* As Pyroscope checks ids. */
    while (is_letter(id[i]))
        i++;
    if (i == 0 || id[i] != '\0')
        fault(faults, "id", id, " must match ^[a-zA-Z]+$");
    else if (i > RULE_ID_MAX_BYTES)
        fault_number(faults, "letters of id", RULE_ID_MAX_BYTES);
}

static void check_metric(const char *name, struct faults *faults)
{
    if (name[0] == '\0')
        fault(faults, "metric_name is required", NULL, "");
    /* Prometheus's data model: metrics may have ':', labels may not. */
    else if (!is_name(name, ':'))
        fault(faults, "metric_name", name, " is invalid: must match ^[a-zA-Z_:][a-zA-Z0-9_:]*$");
    else if (strncmp(name, "flamegrid_", strlen("flamegrid_")) == 0)
        fault(faults, "metric_name", name, " is invalid: flamegrid_ begins our own metrics");
    else if (strlen(name) > NAME_MAX_BYTES)
        fault_number(faults, "bytes of metric_name", NAME_MAX_BYTES);
}

/* ---- labels ---- */

static bool is_reserved(const struct qry_rule *rule, const char *name)
{
    return strcmp(name, FG_LABEL_NAME) == 0 || strcmp(name, RULE_LABEL_ID) == 0 ||
           strcmp(name, RULE_LABEL_OVERFLOW) == 0 ||
           /* Only rules of the greatest make this label; for others the name is free. */
           (rule->kind == QRY_RULE_TOP && strcmp(name, RULE_LABEL_FUNCTION) == 0);
}

static void check_label(const struct qry_rule *rule, const char *what, const char *name,
                        struct faults *faults)
{
    if (!is_name(name, '_'))
        fault(faults, what, name, " must match ^[a-zA-Z_][a-zA-Z0-9_]*$");
    else if (is_reserved(rule, name))
        fault(faults, what, name, " is a label that series have by themselves");
    else if (strlen(name) > NAME_MAX_BYTES)
        fault(faults, what, name, " is too long");
}

/* No two labels of a series have the same name. */
static void check_twice(const Settings__V1__RecordingRule *message, const char *name, size_t before,
                        size_t before_external, struct faults *faults)
{
    /* Quadratic, of at most 2 RULE_LABELS_MAX labels, which check_labels() ensures before. */
    bool twice = false;

    for (size_t i = 0; i < before; i++)
        twice = twice || strcmp(message->group_by[i], name) == 0;
    for (size_t i = 0; i < before_external; i++)
        twice = twice || strcmp(message->external_labels[i]->name, name) == 0;
    if (twice)
        fault(faults, "label", name, " is there twice");
}

static void check_labels(const struct qry_rule *rule, struct faults *faults)
{
    const Settings__V1__RecordingRule *message = rule->message;

    if (message->n_group_by > RULE_LABELS_MAX || message->n_external_labels > RULE_LABELS_MAX) {
        fault_number(faults, "labels of group_by, and external_labels", RULE_LABELS_MAX);
        return;
    }
    for (size_t i = 0; i < message->n_group_by; i++) {
        check_label(rule, "group_by label", message->group_by[i], faults);
        check_twice(message, message->group_by[i], i, 0, faults);
    }
    for (size_t i = 0; i < message->n_external_labels; i++) {
        const Types__V1__LabelPair *label = message->external_labels[i];

        check_label(rule, "external_labels name", label->name, faults);
        check_twice(message, label->name, message->n_group_by, i, faults);
        if (!fg_utf8_valid(fg_cstr(label->value)))
            fault(faults, "external_labels value", label->value, " must be a valid utf-8 string");
        else if (strlen(label->value) > VALUE_MAX_BYTES)
            fault(faults, "external_labels value of", label->name, " is too long");
    }
}

/* ---- matchers ---- */

/* Takes the matchers of the profile type out of the selector. Returns how many there were. */
static size_t take_type(struct fg_selector *selector, struct fg_slice *ret_type,
                        struct faults *faults)
{
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < selector->n_matchers; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];

        if (!fg_slice_is(matcher->name, FG_LABEL_PROFILE_TYPE)) {
            selector->matchers[kept++] = *matcher;
            continue;
        }
        n++;
        if (matcher->op != FG_MATCH_EQ)
            fault(faults, "matcher", FG_LABEL_PROFILE_TYPE, " must have type \"=\"");
        else
            *ret_type = matcher->value;
        /* The selector forgets this matcher, so it would not free the expression either. */
        fg_regex_destroy(matcher->regex);
    }
    selector->n_matchers = kept;
    return n;
}

static enum fg_code keep_type(struct qry_rule *rule, struct fg_slice id, struct faults *faults,
                              struct fg_err *err)
{
    char *text = fg_arena_text(faults->arena, id);
    struct fg_buf five;

    if (text == NULL)
        return fg_fail(err, FG_E_LIMIT, "the profile type is too long");
    if (fg_profile_type_parse(fg_cstr(text), &rule->type, err) != FG_OK) {
        fault(faults, "matcher", FG_LABEL_PROFILE_TYPE, " is invalid: ");
        fg_buf_puts(&faults->text, err->msg);
        return FG_OK;
    }
    rule->instant = fg_profile_type_is_moment(&rule->type);
    /* Written in one form, since a type may be written in several ways and queries compare this
     * text. */
    fg_buf_init(&five, SIZE_MAX);
    fg_profile_type_write(&rule->type, &five);
    rule->type_id = fg_arena_text(faults->arena, fg_buf_slice(&five));
    fg_buf_done(&five);
    return rule->type_id == NULL ? fg_fail(err, FG_E_LIMIT, "the profile type is too long") : FG_OK;
}

static enum fg_code read_matchers(struct qry_rule *rule, struct fg_selector *selector,
                                  struct faults *faults, struct fg_err *err)
{
    const Settings__V1__RecordingRule *message = rule->message;
    struct fg_slice type = {0};
    struct fg_buf text;

    for (size_t i = 0; i < message->n_matchers; i++) {
        enum fg_code code =
            fg_selector_parse(fg_cstr(message->matchers[i]), faults->arena, selector, err);

        /* A full arena is no fault of the rule, and later matchers would only fail again. */
        if (code == FG_E_LIMIT)
            return code;
        if (code == FG_OK)
            continue;
        fault(faults, "matcher", message->matchers[i], " is invalid: ");
        fg_buf_puts(&faults->text, err->msg);
    }
    if (selector->n_matchers > RULE_MATCHERS_MAX)
        fault_number(faults, "label matchers", RULE_MATCHERS_MAX);
    if (take_type(selector, &type, faults) != 1)
        fault(faults, "matchers must contain a \"" FG_LABEL_PROFILE_TYPE "\" matcher", NULL, "");
    else if (type.ptr != NULL && keep_type(rule, type, faults, err) != FG_OK)
        return err->code;
    fg_buf_init(&text, SIZE_MAX);
    fg_selector_write(selector, &text);
    rule->selector = fg_arena_text(faults->arena, fg_buf_slice(&text));
    fg_buf_done(&text);
    return rule->selector == NULL ? fg_fail(err, FG_E_LIMIT, "the matchers are too long") : FG_OK;
}

/* ---- functions ---- */

static void read_functions(struct qry_rule *rule, const Settings__V1__RuleFunctions *functions,
                           struct faults *faults)
{
    char problem[FG_ERR_MSG_MAX_BYTES / 2];

    rule->kind = QRY_RULE_FUNCTIONS;
    rule->self = functions->metric_type == SETTINGS__V1__METRIC_TYPE__SELF;
    rule->names = functions->names;
    rule->n_names = functions->n_names;
    /* Both, or none of them. */
    if ((functions->n_names > 0) == (functions->regex[0] != '\0'))
        fault(faults, "functions: one of names and regex says which functions are meant", NULL, "");
    if (functions->n_names > RULE_NAMES_MAX)
        fault_number(faults, "functions: names", RULE_NAMES_MAX);
    if (functions->regex[0] == '\0')
        return;
    rule->regex =
        fg_regex_create(functions->regex, strlen(functions->regex), problem, sizeof problem);
    if (rule->regex != NULL)
        return;
    fault(faults, "functions: regex", functions->regex, " is invalid: ");
    fg_buf_puts(&faults->text, problem);
}

static void read_kind(struct qry_rule *rule, struct faults *faults)
{
    const Settings__V1__RecordingRule *message = rule->message;
    const Settings__V1__StacktraceFilterFunctionName *one =
        message->stacktrace_filter == NULL ? NULL : message->stacktrace_filter->function_name;

    rule->share = message->value == SETTINGS__V1__RULE_VALUE__SHARE;
    if ((one != NULL) + (message->functions != NULL) + (message->top != NULL) > 1)
        fault(faults, "only one of stacktrace_filter, functions and top is possible", NULL, "");
    if (one != NULL) {
        rule->kind = QRY_RULE_FUNCTIONS;
        rule->self = one->metric_type == SETTINGS__V1__METRIC_TYPE__SELF;
        rule->names = (char *const *)&one->function_name;
        rule->n_names = 1;
        if (one->function_name[0] == '\0')
            fault(faults, "stacktrace_filter: function_name is required", NULL, "");
    } else if (message->functions != NULL) {
        read_functions(rule, message->functions, faults);
    } else if (message->top != NULL) {
        rule->kind = QRY_RULE_TOP;
        rule->self = message->top->metric_type == SETTINGS__V1__METRIC_TYPE__SELF;
        rule->n_top = message->top->functions;
        if (rule->n_top < 1 || rule->n_top > RULE_TOP_MAX)
            fault_number(faults, "top: functions: at least 1", RULE_TOP_MAX);
    }
}

/* ---- rules ---- */

static enum fg_code read_all(struct qry_rule *rule, struct faults *faults, struct fg_err *err)
{
    const Settings__V1__RecordingRule *message = rule->message;
    struct fg_selector selector = {0};
    enum fg_code code;

    /* First of all checks, since it bounds the loops of the others. */
    if (protobuf_c_message_get_packed_size(&message->base) > RULE_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "a rule has at most %d bytes", RULE_MAX_BYTES);
    check_id(message->id, faults);
    check_metric(message->metric_name, faults);
    read_kind(rule, faults);
    code = read_matchers(rule, &selector, faults, err);
    fg_selector_done(&selector);
    if (code != FG_OK)
        return code;
    check_labels(rule, faults);
    if (message->generation < 0)
        fault(faults, "generation must be positive", NULL, "");
    return faults->text.len == 0
               ? FG_OK
               : fg_fail(err, FG_E_INVALID, "%.*s", FG_S(fg_buf_slice(&faults->text)));
}

enum fg_code qry_rule_read(const Settings__V1__RecordingRule *message, struct fg_arena *arena,
                           struct qry_rule *ret_rule, struct fg_err *err)
{
    struct qry_rule rule = {.message = message};
    struct faults faults = {.arena = arena};
    enum fg_code code;

    /* A list that is full is longer than what an error can have. */
    fg_buf_init(&faults.text, (size_t)4 * FG_ERR_MSG_MAX_BYTES);
    code = read_all(&rule, &faults, err);
    fg_buf_done(&faults.text);
    if (code == FG_OK)
        *ret_rule = rule;
    else
        qry_rule_done(&rule);
    return code;
}

void qry_rule_done(struct qry_rule *rule)
{
    fg_regex_destroy(rule->regex);
    rule->regex = NULL;
}

bool qry_rule_means(const struct qry_rule *rule, struct fg_slice function)
{
    if (rule->regex != NULL)
        return fg_regex_matches(rule->regex, function.ptr, function.len);
    for (size_t i = 0; i < rule->n_names; i++)
        if (fg_slice_is(function, rule->names[i]))
            return true;
    return false;
}

/* ---- requests ---- */

struct fg_id qry_rule_content(const Settings__V1__RecordingRule *rule)
{
    Settings__V1__RecordingRule content = *rule;
    struct fg_buf bytes;
    struct fg_id id;
    size_t len;

    content.id = "";
    content.generation = 0;
    len = protobuf_c_message_get_packed_size(&content.base);
    fg_buf_init(&bytes, len + 1);
    fg_assert(fg_buf_reserve(&bytes, len + 1));
    bytes.len = protobuf_c_message_pack(&content.base, bytes.ptr);
    id = fg_hash128(fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    return id;
}

void qry_rule_make_id(struct fg_id content, uint64_t attempt, char id[RULE_ID_LETTERS + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t bits = fg_mix64(content.lo ^ fg_mix64(content.hi + attempt));

    /* 52^10 is below 2^58. */
    for (size_t i = 0; i < RULE_ID_LETTERS; i++, bits /= sizeof letters - 1)
        id[i] = letters[bits % (sizeof letters - 1)];
    id[RULE_ID_LETTERS] = '\0';
}

enum fg_code qry_rule_of_request(const Settings__V1__UpsertRecordingRuleRequest *request,
                                 struct fg_arena *arena, Settings__V1__RecordingRule *ret_message,
                                 struct fg_err *err)
{
    bool is_new = request->id[0] == '\0';
    char *made = fg_arena_alloc(arena, RULE_ID_LETTERS + 1);
    struct qry_rule rule;

    if (made == NULL)
        return fg_fail(err, FG_E_LIMIT, "the rule is too large");
    (void)snprintf(made, RULE_ID_LETTERS + 1, "new"); /* until the content is known */

    settings__v1__recording_rule__init(ret_message);
    ret_message->id = is_new ? made : request->id;
    ret_message->metric_name = fg_arena_text(arena, fg_trim(fg_cstr(request->metric_name)));
    ret_message->matchers = request->matchers;
    ret_message->n_matchers = request->n_matchers;
    ret_message->group_by = request->group_by;
    ret_message->n_group_by = request->n_group_by;
    ret_message->external_labels = request->external_labels;
    ret_message->n_external_labels = request->n_external_labels;
    ret_message->generation = is_new ? 1 : request->generation;
    ret_message->stacktrace_filter = request->stacktrace_filter;
    ret_message->functions = request->functions;
    ret_message->top = request->top;
    ret_message->value = request->value;
    if (ret_message->metric_name == NULL)
        return fg_fail(err, FG_E_LIMIT, "the rule is too large");
    if (qry_rule_read(ret_message, arena, &rule, err) != FG_OK)
        return err->code == FG_E_INVALID ? fg_wrap(err, "invalid request") : err->code;
    ret_message->profile_type = fg_arena_text(arena, fg_cstr(rule.type_id));
    qry_rule_done(&rule);
    if (ret_message->profile_type == NULL)
        return fg_fail(err, FG_E_LIMIT, "the rule is too large");
    if (is_new)
        qry_rule_make_id(qry_rule_content(ret_message), 0, made);
    return FG_OK;
}
