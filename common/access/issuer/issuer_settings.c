#include "common/access/issuer/issuer_settings.h"

#include "common/base/str.h"
#include "common/runtime/yaml.h"

enum { FIELDS_MAX = 6 };

/* A list of maps from the names of fields to texts. */
struct reader {
    struct fg_yaml yaml;
    const char *const *fields;
    size_t n_fields;
    struct fg_arena *arena;
    const char *values[FIELDS_MAX]; /* of the current map; "": not given */
    /* Takes the current map. */
    enum fg_code (*take)(struct reader *reader);
    void *arg;
};

/* A key, which is the current event, and its value. */
static enum fg_code read_member(struct reader *reader)
{
    struct fg_slice text;
    size_t field;

    if (reader->yaml.event.type != YAML_SCALAR_EVENT)
        return fg_yaml_refuse(&reader->yaml, "expected a key");
    text = fg_yaml_scalar(&reader->yaml);
    field = 0;
    while (field < reader->n_fields && !fg_slice_is(text, reader->fields[field]))
        field++;
    if (field == reader->n_fields) {
        const char *nearest = fg_nearest(text, reader->fields, reader->n_fields);

        return fg_yaml_refuse(&reader->yaml, "unknown key \"%.*s\"%s%s%s",
                              FG_S(fg_slice_sub(text, 0, 64)),
                              nearest == NULL ? "" : "; did you mean \"",
                              nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
    }
    if (reader->values[field][0] != '\0')
        return fg_yaml_refuse(&reader->yaml, "%s is set a second time", reader->fields[field]);
    if (fg_yaml_next(&reader->yaml) != FG_OK)
        return reader->yaml.err->code;
    if (reader->yaml.event.type != YAML_SCALAR_EVENT || fg_yaml_is_nothing(&reader->yaml))
        return fg_yaml_refuse(&reader->yaml, "%s needs a text", reader->fields[field]);
    text = fg_yaml_scalar(&reader->yaml);
    if (fg_slice_find(text, '\0') != SIZE_MAX)
        return fg_yaml_refuse(&reader->yaml, "%s has a NUL character", reader->fields[field]);
    reader->values[field] = fg_arena_text(reader->arena, text);
    if (reader->values[field] == NULL)
        return fg_yaml_refuse(&reader->yaml, "the list is too long");
    return FG_OK;
}

static enum fg_code read_map(struct reader *reader)
{
    if (reader->yaml.event.type != YAML_MAPPING_START_EVENT)
        return fg_yaml_refuse(&reader->yaml, "expected a map with %s", reader->fields[0]);
    for (size_t i = 0; i < reader->n_fields; i++)
        reader->values[i] = "";
    for (;;) {
        if (fg_yaml_next(&reader->yaml) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_MAPPING_END_EVENT)
            return reader->take(reader);
        if (read_member(reader) != FG_OK)
            return reader->yaml.err->code;
    }
}

/* The value of the only document; the event after it is the document's end. */
static enum fg_code read_list(struct reader *reader)
{
    if (reader->yaml.event.type == YAML_SCALAR_EVENT && fg_yaml_is_nothing(&reader->yaml))
        return FG_OK;
    if (reader->yaml.event.type != YAML_SEQUENCE_START_EVENT)
        return fg_yaml_refuse(&reader->yaml, "expected a list");
    for (;;) {
        if (fg_yaml_next(&reader->yaml) != FG_OK)
            return reader->yaml.err->code;
        if (reader->yaml.event.type == YAML_SEQUENCE_END_EVENT)
            return FG_OK;
        if (read_map(reader) != FG_OK)
            return reader->yaml.err->code;
    }
}

static enum fg_code read_stream(struct reader *reader)
{
    unsigned documents = 0;

    while (fg_yaml_next(&reader->yaml) == FG_OK) {
        switch (reader->yaml.event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_STREAM_END_EVENT:
            return FG_OK;
        case YAML_DOCUMENT_START_EVENT:
            if (documents++ > 0)
                return fg_yaml_refuse(&reader->yaml, "a second document");
            if (fg_yaml_next(&reader->yaml) != FG_OK || read_list(reader) != FG_OK)
                return reader->yaml.err->code;
            break;
        default:
            fg_assert(false); /* no other event is outside of a document */
        }
    }
    return reader->yaml.err->code;
}

static enum fg_code read_all(struct reader *reader, struct fg_slice yaml, const char *name,
                             struct fg_err *err)
{
    enum fg_code code;

    if (yaml.len == 0)
        return FG_OK;
    if (fg_yaml_init(&reader->yaml, yaml, name, err) != FG_OK)
        return err->code;
    code = read_stream(reader);
    fg_yaml_done(&reader->yaml);
    return code;
}

/* ---- issuers ---- */

struct issuers {
    struct fg_issuer_config *list;
    size_t n;
};

static enum fg_code take_issuer(struct reader *reader)
{
    struct issuers *issuers = reader->arg;

    if (issuers->n == FG_ISSUERS_MAX)
        return fg_yaml_refuse(&reader->yaml, "more than %d issuers", FG_ISSUERS_MAX);
    issuers->list[issuers->n++] = (struct fg_issuer_config){
        .issuer = reader->values[0],
        .audience = reader->values[1],
        .keys_url = reader->values[2],
        .ca_file = reader->values[3],
        .token_file = reader->values[4],
        .tenant_claim = reader->values[5],
    };
    return FG_OK;
}

enum fg_code fg_issuer_settings_read(struct fg_slice yaml, struct fg_arena *arena,
                                     struct fg_issuer_config list[FG_ISSUERS_MAX], size_t *ret_n,
                                     struct fg_err *err)
{
    static const char *const fields[] = {"issuer",  "audience",   "keys_url",
                                         "ca_file", "token_file", "tenant_claim"};
    struct issuers issuers = {.list = list};
    struct reader reader = {.fields = fields,
                            .n_fields = FG_COUNT(fields),
                            .arena = arena,
                            .take = take_issuer,
                            .arg = &issuers};

    if (read_all(&reader, yaml, "access.issuers", err) != FG_OK)
        return err->code;
    *ret_n = issuers.n;
    return FG_OK;
}

/* ---- bindings ---- */

struct bindings {
    struct fg_binding *list;
    uint32_t n, cap;
};

static enum fg_code take_binding(struct reader *reader)
{
    struct bindings *bindings = reader->arg;
    struct fg_binding binding = {.issuer = fg_cstr(reader->values[0]),
                                 .claim = fg_cstr(reader->values[1]),
                                 .value = fg_cstr(reader->values[2]),
                                 .tenants = fg_cstr(reader->values[3]),
                                 .scopes = fg_role_scopes(fg_cstr(reader->values[4]))};
    struct fg_err why;

    if (fg_binding_check(&binding, &why) != FG_OK)
        return fg_yaml_refuse(&reader->yaml, "%.300s", why.msg);
    if (bindings->n == FG_BINDINGS_MAX ||
        !fg_arena_grow(reader->arena, &bindings->list, bindings->n, 1, &bindings->cap,
                       sizeof *bindings->list))
        return fg_yaml_refuse(&reader->yaml, "the list is too long");
    bindings->list[bindings->n++] = binding;
    return FG_OK;
}

enum fg_code fg_binding_settings_read(struct fg_slice yaml, struct fg_arena *arena,
                                      struct fg_binding **ret_list, uint32_t *ret_n,
                                      struct fg_err *err)
{
    static const char *const fields[] = {"issuer", "claim", "value", "tenants", "role"};
    struct bindings bindings = {NULL, 0, 0};
    struct reader reader = {.fields = fields,
                            .n_fields = FG_COUNT(fields),
                            .arena = arena,
                            .take = take_binding,
                            .arg = &bindings};

    if (read_all(&reader, yaml, "access.bindings", err) != FG_OK)
        return err->code;
    *ret_list = bindings.list;
    *ret_n = bindings.n;
    return FG_OK;
}
