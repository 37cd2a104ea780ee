#include "common/runtime/document.h"

#include "common/base/str.h"
#include "common/runtime/yaml.h"

/* ---- JSON ---- */

enum fg_code fg_document_from_json(struct fg_slice text, const char *name, json_t **ret_doc,
                                   struct fg_err *err)
{
    json_error_t why;
    json_t *doc;

    doc = json_loadb((const char *)text.ptr, text.len, JSON_REJECT_DUPLICATES, &why);
    if (doc == NULL)
        return fg_fail(err, FG_E_INVALID, "%s at %.128s:%d", why.text, name, why.line);
    *ret_doc = doc;
    return FG_OK;
}

/* ---- YAML ---- */

/* Reads a value to its end; the current event is its beginning. depth: how deep values may be
 * nested inside it. */
static json_t *read_value(struct fg_yaml *yaml, unsigned depth);

static json_t *read_scalar(struct fg_yaml *yaml)
{
    struct fg_slice text = fg_yaml_scalar(yaml);

    if (fg_yaml_is_nothing(yaml))
        return json_null();
    /* jansson's keys and most of our labels end at a NUL, which would hide the rest of the text. */
    if (fg_slice_find(text, '\0') != SIZE_MAX) {
        (void)fg_yaml_refuse(yaml, "a NUL character");
        return NULL;
    }
    return json_stringn((const char *)text.ptr, text.len);
}

static json_t *read_list(struct fg_yaml *yaml, unsigned depth)
{
    json_t *list = json_array();

    for (;;) {
        json_t *value;

        if (fg_yaml_next(yaml) != FG_OK)
            break;
        if (yaml->event.type == YAML_SEQUENCE_END_EVENT)
            return list;
        value = read_value(yaml, depth);
        if (value == NULL)
            break;
        fg_assert(json_array_append_new(list, value) == 0);
    }
    json_decref(list);
    return NULL;
}

/* Reads a key, which is the current event, and its value into the map. */
static enum fg_code read_member(struct fg_yaml *yaml, unsigned depth, json_t *map)
{
    json_t *key = NULL, *value = NULL;

    if (yaml->event.type != YAML_SCALAR_EVENT)
        return fg_yaml_refuse(yaml, "expected a key, found a list or map");
    key = fg_yaml_is_nothing(yaml) ? json_string("null") : read_scalar(yaml);
    if (key == NULL)
        return yaml->err->code;
    /* Refused, as in JSON: which of two values counts would be a guess. */
    if (json_object_get(map, json_string_value(key)) != NULL)
        (void)fg_yaml_refuse(yaml, "%.100s is set a second time", json_string_value(key));
    else if (fg_yaml_next(yaml) == FG_OK)
        value = read_value(yaml, depth);
    if (value != NULL)
        fg_assert(json_object_set_new(map, json_string_value(key), value) == 0);
    json_decref(key);
    return value == NULL ? yaml->err->code : FG_OK;
}

static json_t *read_map(struct fg_yaml *yaml, unsigned depth)
{
    json_t *map = json_object();

    for (;;) {
        if (fg_yaml_next(yaml) != FG_OK)
            break;
        if (yaml->event.type == YAML_MAPPING_END_EVENT)
            return map;
        if (read_member(yaml, depth, map) != FG_OK)
            break;
    }
    json_decref(map);
    return NULL;
}

static json_t *read_value(struct fg_yaml *yaml, unsigned depth)
{
    if (yaml->event.type == YAML_SCALAR_EVENT)
        return read_scalar(yaml);
    if (depth == 0) {
        (void)fg_yaml_refuse(yaml, "lists and maps nested deeper than %d", DOCUMENT_DEPTH_MAX);
        return NULL;
    }
    if (yaml->event.type == YAML_SEQUENCE_START_EVENT)
        return read_list(yaml, depth - 1);
    fg_assert(yaml->event.type == YAML_MAPPING_START_EVENT);
    return read_map(yaml, depth - 1);
}

/* Reads the whole text, which may have one document. */
static json_t *read_stream(struct fg_yaml *yaml)
{
    json_t *doc = NULL;

    while (fg_yaml_next(yaml) == FG_OK) {
        switch (yaml->event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_STREAM_END_EVENT:
            return doc == NULL ? json_null() : doc;
        case YAML_DOCUMENT_START_EVENT:
            if (doc == NULL && fg_yaml_next(yaml) == FG_OK &&
                (doc = read_value(yaml, DOCUMENT_DEPTH_MAX)) != NULL)
                break;
            if (doc != NULL)
                (void)fg_yaml_refuse(yaml, "a second document");
            json_decref(doc);
            return NULL;
        default:
            fg_assert(false); /* no other event is outside of a document */
        }
    }
    json_decref(doc);
    return NULL;
}

enum fg_code fg_document_from_yaml(struct fg_slice text, const char *name, json_t **ret_doc,
                                   struct fg_err *err)
{
    struct fg_yaml yaml;
    json_t *doc;

    if (fg_yaml_init(&yaml, text, name, err) != FG_OK)
        return err->code;
    doc = read_stream(&yaml);
    fg_yaml_done(&yaml);
    if (doc == NULL)
        return err->code;
    *ret_doc = doc;
    return FG_OK;
}

/* ---- reading ---- */

struct fg_slice fg_document_text(const json_t *value)
{
    return json_is_string(value) ? fg_bytes(json_string_value(value), json_string_length(value))
                                 : fg_bytes(NULL, 0);
}

struct fg_slice fg_document_get(const json_t *object, const char *key)
{
    return fg_document_text(json_object_get(object, key));
}

enum fg_code fg_document_check_keys(json_t *object, const char *const *known, size_t n,
                                    const char *what, struct fg_err *err)
{
    const char *key, *nearest;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        size_t i = 0;

        while (i < n && strcmp(known[i], key) != 0)
            i++;
        if (i < n)
            continue;
        nearest = fg_nearest(fg_cstr(key), known, n);
        return fg_fail(err, FG_E_INVALID, "%s: unknown key \"%.100s\"%s%s%s", what, key,
                       nearest == NULL ? "" : "; did you mean \"", nearest == NULL ? "" : nearest,
                       nearest == NULL ? "" : "\"?");
    }
    return FG_OK;
}
