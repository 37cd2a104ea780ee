#include "distributor/scrape/pods.h"

enum {
    NAME_MAX_BYTES = 1024,
    MESSAGE_MAX_BYTES = 300,
    STATUS_GONE = 410, /* of HTTP: the version is too old */
};

/* The object of a text that is one. */
static enum fg_code read_object(struct fg_slice text, const char *what, json_t **ret_object,
                                struct fg_err *err)
{
    json_t *object;

    if (dist_doc_from_json(text, what, &object, err) != FG_OK)
        return fg_fail(err, FG_E_DECODE, "%s: not JSON", what);
    if (!json_is_object(object)) {
        json_decref(object);
        return fg_fail(err, FG_E_DECODE, "%s: not a JSON object", what);
    }
    *ret_object = object;
    return FG_OK;
}

static struct fg_slice version_of(const json_t *object)
{
    return dist_doc_get(json_object_get(object, "metadata"), "resourceVersion");
}

/* Its name, and its targets if it has any. */
static enum fg_code read_pod(const json_t *pod, const struct dist_kinds *kinds,
                             struct dist_found *found, struct dist_pods_entry *entry,
                             struct fg_err *err)
{
    struct fg_buf name;
    enum fg_code code = FG_OK;

    fg_buf_init(&name, NAME_MAX_BYTES);
    if (!dist_pod_name(pod, &name) || name.full)
        code = fg_fail(err, FG_E_DECODE, "a pod without a name");
    entry->first = found->n_targets;
    if (code == FG_OK)
        code = dist_pod_read(pod, kinds, found, err);
    if (code == FG_OK)
        code = dist_found_copy(found, fg_buf_slice(&name), &entry->name, err);
    entry->n = found->n_targets - entry->first;
    fg_buf_done(&name);
    return code;
}

/* ---- lists ---- */

static enum fg_code read_items(const json_t *items, const struct dist_kinds *kinds,
                               struct dist_pods_page *page, struct fg_err *err)
{
    size_t n = json_array_size(items);

    page->pods = fg_arena_new(page->found->arena, struct dist_pods_entry, n);
    if (page->pods == NULL)
        return fg_fail(err, FG_E_LIMIT, "list of pods needs too much memory");
    for (size_t i = 0; i < n; i++) {
        struct dist_pods_entry *entry = &page->pods[page->n_pods];

        if (read_pod(json_array_get(items, i), kinds, page->found, entry, err) != FG_OK)
            return err->code;
        page->n_pods += entry->n > 0;
    }
    return FG_OK;
}

static enum fg_code read_list(const json_t *list, const struct dist_kinds *kinds,
                              struct dist_pods_page *page, struct fg_err *err)
{
    const json_t *items = json_object_get(list, "items");

    if (version_of(list).len == 0 || (!json_is_array(items) && !json_is_null(items)))
        return fg_fail(err, FG_E_DECODE, "list of pods: no resourceVersion or no items");
    if (dist_found_copy(page->found, version_of(list), &page->version, err) != FG_OK ||
        dist_found_copy(page->found, dist_doc_get(json_object_get(list, "metadata"), "continue"),
                        &page->next, err) != FG_OK)
        return err->code;
    return read_items(items, kinds, page, err);
}

enum fg_code dist_pods_read_page(struct fg_slice text, const struct dist_kinds *kinds,
                                 struct dist_pods_page *ret_page, struct fg_err *err)
{
    struct dist_pods_page page = {0};
    enum fg_code code;
    json_t *list = NULL;

    if (read_object(text, "list of pods", &list, err) != FG_OK)
        return err->code;
    page.found = dist_found_create();
    code = read_list(list, kinds, &page, err);
    json_decref(list);
    if (code == FG_OK)
        *ret_page = page;
    else
        dist_pods_page_done(&page);
    return code;
}

void dist_pods_page_done(struct dist_pods_page *page)
{
    dist_found_destroy(page->found);
    *page = (struct dist_pods_page){0};
}

/* ---- watching ---- */

static enum fg_code read_error(const json_t *status, struct dist_pods_event *event,
                               struct fg_err *err)
{
    struct fg_slice message = fg_slice_sub(dist_doc_get(status, "message"), 0, MESSAGE_MAX_BYTES);

    if (json_integer_value(json_object_get(status, "code")) != STATUS_GONE)
        return fg_fail(err, FG_E_UNAVAILABLE, "watch of pods: %.*s", FG_S(message));
    event->kind = PODS_EXPIRED;
    return FG_OK;
}

static enum fg_code read_event(const json_t *object, const struct dist_kinds *kinds,
                               struct dist_pods_event *event, struct fg_err *err)
{
    const json_t *pod = json_object_get(object, "object");
    struct fg_slice type = dist_doc_get(object, "type");

    if (fg_slice_is(type, "ERROR"))
        return read_error(pod, event, err);
    if (version_of(pod).len == 0)
        return fg_fail(err, FG_E_DECODE, "event of pods: no resourceVersion");
    if (dist_found_copy(event->found, version_of(pod), &event->version, err) != FG_OK)
        return err->code;
    event->kind = PODS_CHANGED;
    if (fg_slice_is(type, "BOOKMARK"))
        event->kind = PODS_BOOKMARK;
    else if (fg_slice_is(type, "DELETED"))
        event->kind = PODS_DELETED;
    else if (!fg_slice_is(type, "ADDED") && !fg_slice_is(type, "MODIFIED"))
        return fg_fail(err, FG_E_DECODE, "event of pods: unknown type \"%.*s\"",
                       FG_S(fg_slice_sub(type, 0, 100)));
    return event->kind == PODS_BOOKMARK ? FG_OK
                                        : read_pod(pod, kinds, event->found, &event->pod, err);
}

enum fg_code dist_pods_read_event(struct fg_slice line, const struct dist_kinds *kinds,
                                  struct dist_pods_event *ret_event, struct fg_err *err)
{
    struct dist_pods_event event = {0};
    enum fg_code code;
    json_t *object = NULL;

    if (read_object(line, "event of pods", &object, err) != FG_OK)
        return err->code;
    event.found = dist_found_create();
    code = read_event(object, kinds, &event, err);
    json_decref(object);
    if (code == FG_OK)
        *ret_event = event;
    else
        dist_pods_event_done(&event);
    return code;
}

void dist_pods_event_done(struct dist_pods_event *event)
{
    dist_found_destroy(event->found);
    *event = (struct dist_pods_event){0};
}

void dist_pods_read_status(struct fg_slice text, struct fg_buf *out)
{
    struct fg_err err;
    json_t *status = NULL;

    if (read_object(text, "status", &status, &err) != FG_OK)
        return;
    fg_buf_put(out, fg_slice_sub(dist_doc_get(status, "message"), 0, MESSAGE_MAX_BYTES));
    json_decref(status);
}
