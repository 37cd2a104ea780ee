/*
 * Rules from YAML, and what may be said in them. What Prometheus accepts is accepted: a field that
 * an action does not use may be given its default value even where it may not be given.
 */
#include "common/base/str.h"
#include "common/model/relabel_internal.h"
#include "common/runtime/yaml.h"

#include <stdarg.h>

/* Names that old Go agents gave, and CPU profiles called wall: distributor/API.md#relabelling. */
static const char default_rules[] =
    "- {source_labels: [__name__], regex: godeltaprof_(.*), target_label: __name_replaced__,"
    "   replacement: $0}\n"
    "- {source_labels: [__name_replaced__], regex: godeltaprof_(.*), target_label: __delta__,"
    "   replacement: 'false'}\n"
    "- {source_labels: [__name__], regex: godeltaprof_(.*), target_label: __name__,"
    "   replacement: $1}\n"
    "- {source_labels: [__name__, __type__], separator: /, regex: wall/cpu,"
    "   target_label: __name_replaced__, replacement: wall}\n"
    "- {source_labels: [__name__, __type__], separator: /, regex: wall/cpu,"
    "   target_label: __name__, replacement: process_cpu}\n";

enum { ARENA_MAX_BYTES = 8 * 1024 * 1024 }; /* of a MiB of YAML */

#define SEPARATOR_DEFAULT   ";"
#define REGEX_DEFAULT       "(.*)"
#define REPLACEMENT_DEFAULT "$1"

enum field { SOURCE_LABELS, SEPARATOR, REGEX, MODULUS, TARGET_LABEL, REPLACEMENT, ACTION, FIELDS };

static const char *const fields[FIELDS] = {
    [SOURCE_LABELS] = "source_labels",
    [SEPARATOR] = "separator",
    [REGEX] = "regex",
    [MODULUS] = "modulus",
    [TARGET_LABEL] = "target_label",
    [REPLACEMENT] = "replacement",
    [ACTION] = "action",
};

static const char *const actions[] = {
    [FG_RELABEL_REPLACE] = "replace",     [FG_RELABEL_KEEP] = "keep",
    [FG_RELABEL_DROP] = "drop",           [FG_RELABEL_KEEPEQUAL] = "keepequal",
    [FG_RELABEL_DROPEQUAL] = "dropequal", [FG_RELABEL_HASHMOD] = "hashmod",
    [FG_RELABEL_LABELMAP] = "labelmap",   [FG_RELABEL_LABELDROP] = "labeldrop",
    [FG_RELABEL_LABELKEEP] = "labelkeep", [FG_RELABEL_LOWERCASE] = "lowercase",
    [FG_RELABEL_UPPERCASE] = "uppercase",
};

/* A rule as it is written. */
struct relabel_draft {
    bool given[FIELDS];
    struct fg_slice texts[FIELDS]; /* the list's; not of source_labels */
    struct fg_slice sources[FG_RELABEL_SOURCES_MAX];
    size_t n_sources;
    uint64_t modulus;
    enum fg_relabel_action action;
};

struct relabel_reader {
    struct fg_yaml yaml;
    struct fg_relabel *list;
    size_t number; /* of the current rule in its text, from 1 */
    bool types;    /* rules for sample types */
};

/* "rule 2: <what> at <name>:<line>" */
static enum fg_code refuse(struct relabel_reader *reader, const char *fmt, ...) fg_printf(2, 3);

static enum fg_code refuse(struct relabel_reader *reader, const char *fmt, ...)
{
    char what[FG_ERR_MSG_MAX_BYTES / 2];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return fg_yaml_refuse(&reader->yaml, "rule %zu: %s", reader->number, what);
}

static enum fg_code no_memory(struct relabel_reader *reader)
{
    return refuse(reader, "the list needs more than %d bytes of memory", ARENA_MAX_BYTES);
}

/* A text for an error: names and actions that are wrong may be long. */
#define SHOW(text) FG_S(fg_slice_sub(text, 0, 64))

/* ---- a rule that is whole ---- */

/* A rule may say the default explicitly; it is refused only if it says something else that has no
 * effect. */
static bool is_default(const struct relabel_draft *draft, enum field field, const char *text)
{
    return fg_slice_is(draft->texts[field], text);
}

/* True if the action writes one label, which then has to be named. */
static bool needs_target(enum fg_relabel_action action)
{
    switch (action) {
    case FG_RELABEL_REPLACE:
    case FG_RELABEL_KEEPEQUAL:
    case FG_RELABEL_DROPEQUAL:
    case FG_RELABEL_HASHMOD:
    case FG_RELABEL_LOWERCASE:
    case FG_RELABEL_UPPERCASE:
        return true;
    default:
        return false;
    }
}

static enum fg_code check_unused(struct relabel_reader *reader, const struct relabel_draft *draft)
{
    const char *action = actions[draft->action];
    bool own_separator = !is_default(draft, SEPARATOR, SEPARATOR_DEFAULT);
    bool own_replacement = !is_default(draft, REPLACEMENT, REPLACEMENT_DEFAULT);

    switch (draft->action) {
    case FG_RELABEL_KEEPEQUAL:
    case FG_RELABEL_DROPEQUAL:
        if (!is_default(draft, REGEX, REGEX_DEFAULT) || draft->modulus != 0 || own_separator ||
            own_replacement)
            return refuse(reader, "%s takes only source_labels and target_label", action);
        break;
    case FG_RELABEL_LOWERCASE:
    case FG_RELABEL_UPPERCASE:
        if (own_replacement)
            return refuse(reader, "%s takes no replacement", action);
        break;
    case FG_RELABEL_LABELDROP:
    case FG_RELABEL_LABELKEEP:
        if (draft->n_sources > 0 || draft->texts[TARGET_LABEL].len > 0 || draft->modulus != 0 ||
            own_separator || own_replacement)
            return refuse(reader, "%s takes only regex", action);
        break;
    default:
        break;
    }
    return FG_OK;
}

static enum fg_code check_rule(struct relabel_reader *reader, const struct relabel_draft *draft)
{
    const char *action = actions[draft->action];

    if (reader->types && draft->action != FG_RELABEL_KEEP && draft->action != FG_RELABEL_DROP)
        return refuse(reader, "sample types can only be kept or dropped; %s is not available",
                      action);
    if (needs_target(draft->action) && draft->texts[TARGET_LABEL].len == 0)
        return refuse(reader, "%s needs a target_label", action);
    if (draft->action == FG_RELABEL_HASHMOD && draft->modulus == 0)
        return refuse(reader, "hashmod needs a modulus above 0");
    if (draft->action == FG_RELABEL_LABELMAP && draft->texts[REPLACEMENT].len == 0)
        return refuse(reader, "labelmap needs a replacement, which is the new name");
    return check_unused(reader, draft);
}

/* Gets what hashing and changing of case need from libraries, once for each list. */
static enum fg_code equip(struct relabel_reader *reader, enum fg_relabel_action action)
{
    struct fg_relabel *list = reader->list;

    if (action == FG_RELABEL_HASHMOD && list->md5 == NULL) {
        list->md5 = EVP_MD_fetch(NULL, "MD5", NULL);
        if (list->md5 == NULL)
            return refuse(reader, "hashmod needs MD5, which this system's OpenSSL refuses");
    }
    if ((action == FG_RELABEL_LOWERCASE || action == FG_RELABEL_UPPERCASE) &&
        list->locale == (locale_t)0) {
        list->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        if (list->locale == (locale_t)0)
            return refuse(reader, "%s needs the locale C.UTF-8, which this system lacks",
                          actions[action]);
    }
    return FG_OK;
}

/* The pattern is compiled first: a template that refers to a group is checked against its
 * groups. */
static enum fg_code add_template(struct relabel_reader *reader, const struct relabel_draft *draft,
                                 enum field field, const struct fg_pattern *pattern,
                                 struct fg_template *template)
{
    struct fg_err err;

    if (fg_template_init(template, draft->texts[field], pattern, reader->list->arena, &err) ==
        FG_OK)
        return FG_OK;
    return err.code == FG_E_LIMIT ? no_memory(reader)
                                  : refuse(reader, "%s: %s", fields[field], err.msg);
}

static enum fg_code add_rule(struct relabel_reader *reader, const struct relabel_draft *draft)
{
    struct fg_relabel *list = reader->list;

    if (list->n_rules == list->cap_rules) {
        list->cap_rules = FG_MAX(8, 2 * list->cap_rules);
        list->rules = fg_realloc(list->rules, list->cap_rules * sizeof *list->rules);
    }

    struct fg_relabel_rule *rule = &list->rules[list->n_rules];
    size_t n = draft->n_sources;
    struct fg_err err;

    *rule = (struct fg_relabel_rule){
        .action = draft->action,
        .sources = fg_arena_new(list->arena, struct fg_slice, n),
        .n_sources = n,
        .separator = draft->texts[SEPARATOR],
        .modulus = draft->modulus,
        .target = draft->texts[TARGET_LABEL],
    };
    if (rule->sources == NULL)
        return no_memory(reader);
    memcpy(rule->sources, draft->sources, n * sizeof *rule->sources);
    if (fg_pattern_init(&rule->pattern, draft->texts[REGEX], list->arena, &err) != FG_OK)
        return err.code == FG_E_LIMIT ? no_memory(reader) : refuse(reader, "regex: %s", err.msg);
    list->n_rules++; /* the pattern is the list's now */
    if (add_template(reader, draft, TARGET_LABEL, &rule->pattern, &rule->target_template) !=
            FG_OK ||
        add_template(reader, draft, REPLACEMENT, &rule->pattern, &rule->replacement) != FG_OK)
        return reader->yaml.err->code;
    return equip(reader, draft->action);
}

/* ---- YAML ---- */

/* Copies the value of a field, which is the current event. A missing value is refused, because
 * readers of YAML differ about it: some take it for the empty text, some for the default. */
static enum fg_code read_text(struct relabel_reader *reader, enum field field,
                              struct fg_slice *ret_text)
{
    struct fg_slice text;

    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return refuse(reader, "%s must be a string, not a list or map", fields[field]);
    if (fg_yaml_is_nothing(&reader->yaml))
        return refuse(reader, "%s has no value; an empty text is ''", fields[field]);
    text = fg_yaml_scalar(&reader->yaml);
    if (text.len > FG_RELABEL_TEXT_MAX_BYTES)
        return refuse(reader, "%s of %zu bytes is longer than %d", fields[field], text.len,
                      FG_RELABEL_TEXT_MAX_BYTES);
    *ret_text = fg_arena_copy(reader->list->arena, text);
    return ret_text->ptr == NULL ? no_memory(reader) : FG_OK;
}

/* The event is the value of source_labels; reads to its end. */
static enum fg_code read_sources(struct relabel_reader *reader, struct relabel_draft *draft)
{
    if (reader->yaml.event.type != YAML_SEQUENCE_START_EVENT)
        return refuse(reader, "source_labels must be a list, such as [namespace, pod]");
    for (;;) {
        struct fg_slice *source = &draft->sources[draft->n_sources];

        if (fg_yaml_next(&reader->yaml) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_SEQUENCE_END_EVENT)
            return FG_OK;
        if (draft->n_sources == FG_RELABEL_SOURCES_MAX)
            return refuse(reader, "more than %d source_labels", FG_RELABEL_SOURCES_MAX);
        if (read_text(reader, SOURCE_LABELS, source) != FG_OK)
            return reader->yaml.err->code;
        if (source->len == 0)
            return refuse(reader, "source_labels has a label without a name");
        draft->n_sources++;
    }
}

static enum fg_code read_modulus(struct relabel_reader *reader, struct relabel_draft *draft)
{
    struct fg_slice text = draft->texts[MODULUS];

    if (!fg_parse_u64(text, &draft->modulus))
        return refuse(reader, "modulus \"%.*s\" is not a whole number", SHOW(text));
    return FG_OK;
}

static enum fg_code read_action(struct relabel_reader *reader, struct relabel_draft *draft)
{
    struct fg_slice text = draft->texts[ACTION];
    /* Most unknown actions are typos. */
    const char *nearest = fg_nearest(text, actions, FG_COUNT(actions));

    for (size_t i = 0; i < FG_COUNT(actions); i++) {
        if (fg_slice_is_nocase(text, actions[i])) {
            draft->action = (enum fg_relabel_action)i;
            return FG_OK;
        }
    }
    if (nearest == NULL)
        return refuse(reader, "unknown action \"%.*s\"", SHOW(text));
    return refuse(reader, "unknown action \"%.*s\" (did you mean \"%s\"?)", SHOW(text), nearest);
}

static enum fg_code read_value(struct relabel_reader *reader, enum field field,
                               struct relabel_draft *draft)
{
    if (field == SOURCE_LABELS)
        return read_sources(reader, draft);
    if (read_text(reader, field, &draft->texts[field]) != FG_OK)
        return reader->yaml.err->code;
    if (field == MODULUS)
        return read_modulus(reader, draft);
    return field == ACTION ? read_action(reader, draft) : FG_OK;
}

/* The event is a key; FIELDS: of nothing we know. */
static enum field field_of(const struct fg_yaml *yaml)
{
    size_t i = 0;

    while (i < FIELDS &&
           (yaml->event.type != YAML_SCALAR_EVENT || !fg_slice_is(fg_yaml_scalar(yaml), fields[i])))
        i++;
    return (enum field)i;
}

static enum fg_code refuse_key(struct relabel_reader *reader)
{
    struct fg_slice key;
    const char *nearest;

    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return refuse(reader, "expected a key, found a list or map");
    key = fg_yaml_scalar(&reader->yaml);
    nearest = fg_nearest(key, fields, FIELDS);
    if (nearest == NULL)
        return refuse(reader, "unknown key \"%.*s\"", SHOW(key));
    return refuse(reader, "unknown key \"%.*s\" (did you mean \"%s\"?)", SHOW(key), nearest);
}

/* The event is the start of a rule's map; reads to its end. */
static enum fg_code read_fields(struct relabel_reader *reader, struct relabel_draft *draft)
{
    for (;;) {
        enum field field;

        if (fg_yaml_next(&reader->yaml) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_MAPPING_END_EVENT)
            return FG_OK;
        field = field_of(&reader->yaml);
        if (field == FIELDS)
            return refuse_key(reader);
        if (draft->given[field])
            return refuse(reader, "%s is given twice", fields[field]);
        draft->given[field] = true;
        if (fg_yaml_next(&reader->yaml) != FG_OK || read_value(reader, field, draft) != FG_OK)
            return reader->yaml.err->code;
    }
}

/* The event is a member of the list. */
static enum fg_code read_rule(struct relabel_reader *reader)
{
    struct relabel_draft draft = {
        .texts =
            {
                [SEPARATOR] = FG_LIT(SEPARATOR_DEFAULT),
                [REGEX] = FG_LIT(REGEX_DEFAULT),
                [REPLACEMENT] = FG_LIT(REPLACEMENT_DEFAULT),
            },
        .action = FG_RELABEL_REPLACE,
    };
    size_t line = reader->yaml.line;

    reader->number++;
    if (reader->number > FG_RELABEL_RULES_MAX)
        return fg_yaml_refuse(&reader->yaml, "more than %d rules", FG_RELABEL_RULES_MAX);
    if (reader->yaml.event.type != YAML_MAPPING_START_EVENT)
        return refuse(reader, "must be a map with keys such as source_labels and regex");
    if (read_fields(reader, &draft) != FG_OK)
        return reader->yaml.err->code;
    reader->yaml.line = line; /* what is wrong with the whole */
    if (check_rule(reader, &draft) != FG_OK)
        return reader->yaml.err->code;
    return add_rule(reader, &draft);
}

/* The event is what the document is. */
static enum fg_code read_rules(struct relabel_reader *reader)
{
    if (fg_yaml_is_nothing(&reader->yaml))
        return FG_OK;
    if (reader->yaml.event.type != YAML_SEQUENCE_START_EVENT)
        return fg_yaml_refuse(&reader->yaml, "rules must be a list");
    for (;;) {
        if (fg_yaml_next(&reader->yaml) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_SEQUENCE_END_EVENT)
            return FG_OK;
        if (read_rule(reader) != FG_OK)
            return reader->yaml.err->code;
    }
}

static enum fg_code read_stream(struct relabel_reader *reader)
{
    bool had_document = false;

    for (;;) {
        if (fg_yaml_next(&reader->yaml) != FG_OK)
            return reader->yaml.err->code;
        switch (reader->yaml.event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_DOCUMENT_START_EVENT:
            if (had_document)
                return fg_yaml_refuse(&reader->yaml, "a second document");
            had_document = true;
            break;
        case YAML_STREAM_END_EVENT:
            return FG_OK;
        default:
            if (read_rules(reader) != FG_OK)
                return reader->yaml.err->code;
        }
    }
}

static enum fg_code append(struct fg_relabel *list, struct fg_slice yaml, const char *name,
                           bool types, struct fg_err *err)
{
    struct relabel_reader reader = {.list = list, .types = types};
    enum fg_code code;

    if (fg_yaml_init(&reader.yaml, yaml, name, err) != FG_OK)
        return err->code;
    code = read_stream(&reader);
    fg_yaml_done(&reader.yaml);
    return code;
}

static struct fg_relabel *create(void)
{
    struct fg_relabel *list = fg_new(struct fg_relabel);

    list->refs = 1;
    list->arena = fg_arena_create(ARENA_MAX_BYTES);
    return list;
}

static void append_default(struct fg_relabel *list)
{
    struct fg_err err;

    fg_assert(append(list, fg_cstr(default_rules), "default rules", false, &err) == FG_OK);
}

enum fg_code fg_relabel_parse(struct fg_slice yaml, const char *name,
                              enum fg_relabel_defaults defaults, struct fg_relabel **ret_rules,
                              struct fg_err *err)
{
    fg_auto(fg_relabel) *list = create();

    if (defaults == FG_RELABEL_DEFAULTS_FIRST)
        append_default(list);
    if (append(list, yaml, name, false, err) != FG_OK)
        return err->code;
    if (defaults == FG_RELABEL_DEFAULTS_LAST)
        append_default(list);
    *ret_rules = fg_take(list);
    return FG_OK;
}

enum fg_code fg_relabel_parse_types(struct fg_slice yaml, const char *name,
                                    struct fg_relabel **ret_rules, struct fg_err *err)
{
    fg_auto(fg_relabel) *list = create();

    if (append(list, yaml, name, true, err) != FG_OK)
        return err->code;
    *ret_rules = fg_take(list);
    return FG_OK;
}
