#include "distributor/scrape/discovery.h"

enum {
    ARENA_MAX_BYTES = 32 * 1024 * 1024, /* texts of a group's labels are shared, arrays are not */
};

/* ---- label sets ---- */

struct dist_discovered *dist_discovered_create(void)
{
    struct dist_discovered *discovered = fg_new(struct dist_discovered);

    discovered->arena = fg_arena_create(ARENA_MAX_BYTES);
    return discovered;
}

void dist_discovered_destroy(struct dist_discovered *discovered)
{
    if (discovered == NULL)
        return;
    fg_arena_destroy(discovered->arena);
    free(discovered->targets);
    free(discovered);
}

static enum fg_code too_many(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "targets and labels need more than %d bytes", ARENA_MAX_BYTES);
}

enum fg_code dist_discovered_copy(struct dist_discovered *discovered, struct fg_slice text,
                                  struct fg_slice *ret_copy, struct fg_err *err)
{
    *ret_copy = fg_arena_copy(discovered->arena, text);
    return ret_copy->ptr == NULL ? too_many(err) : FG_OK;
}

enum fg_code dist_discovered_add(struct dist_discovered *discovered, const struct fg_labels *labels,
                                 struct fg_err *err)
{
    struct fg_labels copy = {fg_arena_new(discovered->arena, struct fg_label, labels->count),
                             labels->count};

    if (copy.items == NULL)
        return too_many(err);
    if (labels->count > 0)
        memcpy(copy.items, labels->items, labels->count * sizeof *copy.items);
    fg_labels_sort(&copy); /* the copy, because the next target uses labels again */
    if (discovered->n_targets == discovered->cap_targets) {
        discovered->cap_targets = FG_MAX(16, discovered->cap_targets * 2);
        discovered->targets =
            fg_realloc(discovered->targets, discovered->cap_targets * sizeof *discovered->targets);
    }
    discovered->targets[discovered->n_targets++] = copy;
    return FG_OK;
}

/* ---- groups ---- */

/* Adds the members of the object to labels, which has room for them. */
static enum fg_code read_labels(struct dist_discovered *discovered, json_t *object,
                                const char *what, struct fg_labels *labels, struct fg_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        struct fg_label *label = &labels->items[labels->count++];

        if (key[0] == '\0' || !json_is_string(value))
            return fg_fail(err, FG_E_INVALID,
                           "%s: label \"%.100s\" must be a label name with a string value", what,
                           key);
        if (dist_discovered_copy(discovered, fg_cstr(key), &label->name, err) != FG_OK ||
            dist_discovered_copy(discovered, fg_document_text(value), &label->value, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Adds a label set for each target: labels, which has room for one more, and its address. */
static enum fg_code read_targets(struct dist_discovered *discovered, json_t *targets,
                                 const char *what, struct fg_labels *labels, struct fg_err *err)
{
    struct fg_label *address = &labels->items[labels->count++];

    address->name = FG_LIT("__address__");
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const json_t *target = json_array_get(targets, i);

        if (!json_is_string(target))
            return fg_fail(err, FG_E_INVALID, "%s: target %zu is not a string", what, i + 1);
        if (dist_discovered_copy(discovered, fg_document_text(target), &address->value, err) !=
                FG_OK ||
            dist_discovered_add(discovered, labels, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code check_group(json_t *group, const char *what, struct fg_err *err)
{
    static const char *const known[] = {"targets", "labels"};
    const json_t *labels = json_object_get(group, "labels");

    if (!json_is_object(group))
        return fg_fail(err, FG_E_INVALID, "%s is not a map with \"targets\"", what);
    if (fg_document_check_keys(group, known, FG_COUNT(known), what, err) != FG_OK)
        return err->code;
    if (!json_is_array(json_object_get(group, "targets")))
        return fg_fail(err, FG_E_INVALID, "%s: \"targets\" is not a list", what);
    if (labels != NULL && !json_is_object(labels) && !json_is_null(labels))
        return fg_fail(err, FG_E_INVALID, "%s: \"labels\" is not a map", what);
    return FG_OK;
}

static enum fg_code read_group(struct dist_discovered *discovered, json_t *group, const char *what,
                               struct fg_err *err)
{
    json_t *object = json_object_get(group, "labels");
    struct fg_labels labels = {
        fg_arena_new(discovered->arena, struct fg_label, json_object_size(object) + 1), 0};

    if (labels.items == NULL)
        return too_many(err);
    if (check_group(group, what, err) != FG_OK ||
        read_labels(discovered, object, what, &labels, err) != FG_OK)
        return err->code;
    return read_targets(discovered, json_object_get(group, "targets"), what, &labels, err);
}

enum fg_code dist_discovered_read_groups(struct dist_discovered *discovered, const json_t *groups,
                                         const char *name, struct fg_err *err)
{
    char what[200];

    if (json_is_null(groups))
        return FG_OK;
    if (!json_is_array(groups))
        return fg_fail(err, FG_E_INVALID, "%.128s: not a list of groups of targets", name);
    for (size_t i = 0; i < json_array_size(groups); i++) {
        (void)snprintf(what, sizeof what, "%.128s: group %zu", name, i + 1);
        if (read_group(discovered, json_array_get(groups, i), what, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}
