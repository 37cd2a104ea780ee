#include "distributor/scrape/profile_kind.h"

#include "common/base/str.h"
#include "distributor/scrape/discovery.h"

enum {
    TEXTS_MAX_BYTES = 2 * 1024 * 1024, /* the document has at most 1 MiB; the rest is the arena's */
    PATH_MAX_BYTES = 1024,
    NAME_MAX_BYTES = 64, /* kinds are words such as godeltaprof_memory */
};

/* Profiles of godeltaprof are differences since the last fetch already, so nothing of them is
 * cumulative. They are stored under the name of the plain kind. */
/* clang-format off */
static const struct dist_profile_kind built_in[] = {
    {"process_cpu", "cpu", "process_cpu", "/debug/pprof/profile", true, true, {NULL}, 0},
    {"memory", "memory", "memory", "/debug/pprof/allocs", true, false, {"alloc_objects", "alloc_space"}, 2},
    {"goroutine", "goroutine", "goroutine", "/debug/pprof/goroutine", true, false, {NULL}, 0},
    {"mutex", "mutex", "mutex", "/debug/pprof/mutex", true, false, {"contentions", "delay"}, 2},
    {"block", "block", "block", "/debug/pprof/block", true, false, {"contentions", "delay"}, 2},
    {"fgprof", "fgprof", "fgprof", "/debug/fgprof", false, true, {NULL}, 0},
    {"godeltaprof_memory", "godeltaprof_memory", "memory", "/debug/pprof/delta_heap", false, false, {NULL}, 0},
    {"godeltaprof_mutex", "godeltaprof_mutex", "mutex", "/debug/pprof/delta_mutex", false, false, {NULL}, 0},
    {"godeltaprof_block", "godeltaprof_block", "block", "/debug/pprof/delta_block", false, false, {NULL}, 0},
};
/* clang-format on */

const struct dist_profile_kind *dist_profile_kinds_find(const struct dist_profile_kinds *kinds,
                                                        struct fg_slice name)
{
    for (uint32_t i = 0; i < kinds->n; i++)
        if (fg_slice_is(name, kinds->items[i].name))
            return &kinds->items[i];
    return NULL;
}

/* ---- settings ---- */

struct kind_parser {
    struct dist_profile_kinds *kinds;
    const char *name;
    struct fg_err *err;
};

static enum fg_code refuse(const struct kind_parser *parser, const char *kind, const char *what)
{
    return fg_fail(parser->err, FG_E_INVALID, "%s: \"%.100s\": %s", parser->name, kind, what);
}

static const char *keep_text(struct dist_profile_kinds *kinds, struct fg_slice text)
{
    char *copy = fg_arena_text(kinds->arena, text);

    fg_assert(copy != NULL); /* all texts together are shorter than the document */
    return copy;
}

static enum fg_code read_bool(const struct kind_parser *parser, json_t *object, const char *kind,
                              const char *key, bool *value)
{
    struct fg_slice text = fg_document_get(object, key);

    if (json_object_get(object, key) == NULL)
        return FG_OK;
    if (!fg_slice_is(text, "true") && !fg_slice_is(text, "false"))
        return fg_fail(parser->err, FG_E_INVALID,
                       "%s: \"%.100s\": \"%s\" is neither true nor false", parser->name, kind, key);
    *value = fg_slice_is(text, "true");
    return FG_OK;
}

static bool is_path(struct fg_slice text)
{
    if (text.len == 0 || text.len > PATH_MAX_BYTES || text.ptr[0] != '/')
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] >= 0x7f || text.ptr[i] == '#')
            return false;
    return true;
}

/* Refuses a kind without a path: a new one, or a built-in one with a typo. */
static enum fg_code lacks_path(const struct kind_parser *parser, const char *name)
{
    const char *known[FG_COUNT(built_in)], *nearest;

    for (size_t i = 0; i < FG_COUNT(built_in); i++)
        known[i] = built_in[i].name;
    nearest = fg_nearest(fg_cstr(name), known, FG_COUNT(known));
    return fg_fail(parser->err, FG_E_INVALID,
                   "%s: \"%.100s\" is a new profile and needs a \"path\"%s%s%s", parser->name, name,
                   nearest == NULL ? "" : "; did you mean \"", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "\"?");
}

static enum fg_code read_path(const struct kind_parser *parser, json_t *object,
                              struct dist_profile_kind *kind)
{
    struct fg_slice text = fg_document_get(object, "path");

    if (json_object_get(object, "path") == NULL)
        return kind->path != NULL ? FG_OK : lacks_path(parser, kind->name);
    if (!is_path(text))
        return refuse(parser, kind->name, "\"path\" must be a path that begins with /");
    kind->path = keep_text(parser->kinds, text);
    return FG_OK;
}

static enum fg_code read_cumulative(const struct kind_parser *parser, json_t *object,
                                    struct dist_profile_kind *kind)
{
    const json_t *types = json_object_get(object, "cumulative");

    if (types == NULL)
        return FG_OK;
    if (!json_is_array(types) || json_array_size(types) > KIND_TYPES_MAX)
        return refuse(parser, kind->name, "\"cumulative\" is not a list of up to 8 sample types");
    kind->n_cumulative = 0;
    for (size_t i = 0; i < json_array_size(types); i++) {
        struct fg_slice type = fg_document_text(json_array_get(types, i));

        if (type.len == 0)
            return refuse(parser, kind->name, "\"cumulative\" lists no sample type");
        kind->cumulative[kind->n_cumulative++] = keep_text(parser->kinds, type);
    }
    return FG_OK;
}

static bool is_word(struct fg_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_')
            return false;
    }
    return text.len > 0 && text.len <= NAME_MAX_BYTES;
}

/* Returns the kind of that name and adds it if there is none. NULL: the name is invalid, or there
 * are too many. */
static struct dist_profile_kind *find_or_add(const struct kind_parser *parser, const char *name)
{
    struct dist_profile_kinds *kinds = parser->kinds;
    struct dist_profile_kind *kind;

    for (uint32_t i = 0; i < kinds->n; i++)
        if (strcmp(kinds->items[i].name, name) == 0)
            return &kinds->items[i];
    if (!is_word(fg_cstr(name))) {
        (void)refuse(parser, name, "a name may contain only lower-case letters, digits and _");
        return NULL;
    }
    if (kinds->n == KINDS_MAX) {
        (void)refuse(parser, name, "too many profile types");
        return NULL;
    }
    kind = &kinds->items[kinds->n++];
    name = keep_text(kinds, fg_cstr(name));
    *kind = (struct dist_profile_kind){
        .name = name, .annotation = name, .stored = name, .enabled = true};
    return kind;
}

static enum fg_code read_kind(const struct kind_parser *parser, const char *name, json_t *object)
{
    static const char *const known[] = {"enabled", "path", "seconds", "cumulative"};
    struct dist_profile_kind *kind;
    char what[200];

    if (!json_is_object(object))
        return refuse(parser, name, "is not a map");
    (void)snprintf(what, sizeof what, "%.128s: \"%.50s\"", parser->name, name);
    if (fg_document_check_keys(object, known, FG_COUNT(known), what, parser->err) != FG_OK)
        return parser->err->code;
    kind = find_or_add(parser, name);
    if (kind == NULL || read_bool(parser, object, name, "enabled", &kind->enabled) != FG_OK ||
        read_bool(parser, object, name, "seconds", &kind->seconds) != FG_OK ||
        read_path(parser, object, kind) != FG_OK)
        return parser->err->code;
    return read_cumulative(parser, object, kind);
}

static enum fg_code read_kinds(const struct kind_parser *parser, json_t *object)
{
    const char *name;
    json_t *value;

    if (json_is_null(object))
        return FG_OK;
    if (!json_is_object(object))
        return fg_fail(parser->err, FG_E_INVALID, "%s: not a map of profiles", parser->name);
    json_object_foreach(object, name, value)
    {
        if (read_kind(parser, name, value) != FG_OK)
            return parser->err->code;
    }
    return FG_OK;
}

enum fg_code dist_profile_kinds_init(struct dist_profile_kinds *kinds, struct fg_slice yaml,
                                     const char *name, struct fg_err *err)
{
    const struct kind_parser parser = {kinds, name, err};
    enum fg_code code;
    json_t *doc;

    *kinds = (struct dist_profile_kinds){.arena = fg_arena_create(TEXTS_MAX_BYTES),
                                         .n = FG_COUNT(built_in)};
    memcpy(kinds->items, built_in, sizeof built_in);
    code = fg_document_from_yaml(yaml, name, &doc, err);
    if (code == FG_OK) {
        code = read_kinds(&parser, doc);
        json_decref(doc);
    }
    if (code != FG_OK)
        dist_profile_kinds_done(kinds);
    return code;
}

void dist_profile_kinds_done(struct dist_profile_kinds *kinds)
{
    fg_arena_destroy(kinds->arena);
    *kinds = (struct dist_profile_kinds){0};
}
