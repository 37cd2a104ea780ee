#include "distributor/scrape/kubernetes_pod.h"

#include "common/base/str.h"

#define PREFIX "profiles.grafana.com/"
#define META   "__meta_kubernetes_"

enum {
    NAME_MAX_BYTES = 1024,       /* namespace, pod, container and port have less than 500 */
    MESSAGE_MAX_BYTES = 300,     /* of the API, in our log */
    STATUS_GONE = 410,           /* of HTTP: the version is too old */
    ANNOTATION_MAX_BYTES = 1024, /* longer ones are state of tools, as kubectl's last-applied */
    FIXED_LABELS_MAX = 40,       /* all that do not come from the pod's labels and annotations */
};

/* A port of a container at which the pod serves some of its profiles. */
struct pod_place {
    const json_t *container; /* NULL: the pod has none */
    struct fg_slice port;    /* empty: unknown */
    struct fg_slice port_name;
    bool https;
    const struct dist_profile_kind *kinds[KINDS_MAX];
    struct fg_slice paths[KINDS_MAX];
    uint32_t n_kinds;
};

struct pod_reading {
    const json_t *metadata, *spec, *status;
    json_t *annotations;
    struct dist_discovered *discovered;
    struct fg_err *err;
    struct fg_label *items;
    size_t n, cap;
    struct pod_place places[KINDS_MAX];
    uint32_t n_places;
};

/* ---- labels ---- */

static void put_label(struct pod_reading *reading, struct fg_slice name, struct fg_slice value)
{
    fg_assert(reading->n < reading->cap);
    if (value.len > 0)
        reading->items[reading->n++] = (struct fg_label){name, value};
}

static void put_text(struct pod_reading *reading, const char *name, struct fg_slice value)
{
    put_label(reading, fg_cstr(name), value);
}

static bool is_name_char(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Returns prefix and name with all other characters replaced by _, as Prometheus does. */
static struct fg_slice label_name(struct pod_reading *reading, const char *prefix, const char *name)
{
    char *text = fg_arena_printf(reading->discovered->arena, "%s%s", prefix, name);

    if (text == NULL)
        return fg_bytes(NULL, 0);
    for (char *c = text + strlen(prefix); *c != '\0'; c++)
        if (!is_name_char((uint8_t)*c))
            *c = '_';
    return fg_cstr(text);
}

/* Puts two labels for each entry of a map, as Prometheus does: its value, and that it is present.
 * plain: a third one, by its own name. */
static enum fg_code put_map(struct pod_reading *reading, json_t *map, const char *prefix,
                            const char *present_prefix, bool plain)
{
    const char *key;
    json_t *value;

    json_object_foreach(map, key, value)
    {
        struct fg_slice text = fg_document_text(value);
        struct fg_slice name = label_name(reading, prefix, key);
        struct fg_slice present = label_name(reading, present_prefix, key);
        struct fg_slice own = label_name(reading, "", key);

        if (name.ptr == NULL || present.ptr == NULL || own.ptr == NULL)
            return fg_fail(reading->err, FG_E_LIMIT, "labels of pods need too much memory");
        if (text.len > ANNOTATION_MAX_BYTES)
            continue;
        put_label(reading, name, text);
        put_label(reading, present, FG_LIT("true"));
        if (plain && !fg_slice_starts(own, "__"))
            put_label(reading, own, text);
    }
    return FG_OK;
}

static struct fg_slice annotation(const struct pod_reading *reading, const char *name)
{
    return fg_document_get(reading->annotations, name);
}

static bool is_ready(const struct pod_reading *reading)
{
    const json_t *conditions = json_object_get(reading->status, "conditions");

    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);

        if (fg_slice_is(fg_document_get(condition, "type"), "Ready"))
            return fg_slice_is(fg_document_get(condition, "status"), "True");
    }
    return false;
}

static void put_controller(struct pod_reading *reading)
{
    const json_t *owners = json_object_get(reading->metadata, "ownerReferences");

    for (size_t i = 0; i < json_array_size(owners); i++) {
        const json_t *owner = json_array_get(owners, i);

        if (!json_is_true(json_object_get(owner, "controller")))
            continue;
        put_text(reading, META "pod_controller_kind", fg_document_get(owner, "kind"));
        put_text(reading, META "pod_controller_name", fg_document_get(owner, "name"));
        return;
    }
}

static void put_pod(struct pod_reading *reading)
{
    struct fg_slice namespace = fg_document_get(reading->metadata, "namespace");
    struct fg_slice name = fg_document_get(reading->metadata, "name");

    put_text(reading, META "namespace", namespace);
    put_text(reading, META "pod_name", name);
    put_text(reading, META "pod_ip", fg_document_get(reading->status, "podIP"));
    put_text(reading, META "pod_phase", fg_document_get(reading->status, "phase"));
    put_text(reading, META "pod_ready", is_ready(reading) ? FG_LIT("true") : FG_LIT("false"));
    put_text(reading, META "pod_node_name", fg_document_get(reading->spec, "nodeName"));
    put_text(reading, META "pod_host_ip", fg_document_get(reading->status, "hostIP"));
    put_text(reading, META "pod_uid", fg_document_get(reading->metadata, "uid"));
    put_controller(reading);
}

/* Puts the labels that Pyroscope's chart gives. Last, so that they win over the pod's own labels.
 */
static void put_plain(struct pod_reading *reading)
{
    static const char *const sources[] = {"service_repository", "service_git_ref",
                                          "service_root_path"};
    struct fg_slice service = annotation(reading, PREFIX "service_name");
    char name[64];

    put_text(reading, "namespace", fg_document_get(reading->metadata, "namespace"));
    put_text(reading, "pod", fg_document_get(reading->metadata, "name"));
    if (service.len == 0)
        service = annotation(reading, "resource.opentelemetry.io/service.name");
    put_text(reading, FG_LABEL_SERVICE, service);
    for (size_t i = 0; i < FG_COUNT(sources); i++) {
        (void)snprintf(name, sizeof name, PREFIX "%s", sources[i]);
        put_text(reading, sources[i], annotation(reading, name));
    }
}

static enum fg_code put_common(struct pod_reading *reading)
{
    json_t *labels = json_object_get(reading->metadata, "labels");

    reading->cap = FIXED_LABELS_MAX + 2 * KINDS_MAX + 3 * json_object_size(labels) +
                   2 * json_object_size(reading->annotations);
    reading->items = fg_arena_new(reading->discovered->arena, struct fg_label, reading->cap);
    if (reading->items == NULL)
        return fg_fail(reading->err, FG_E_LIMIT, "labels of pods need too much memory");
    put_pod(reading);
    if (put_map(reading, labels, META "pod_label_", META "pod_labelpresent_", true) != FG_OK ||
        put_map(reading, reading->annotations, META "pod_annotation_",
                META "pod_annotationpresent_", false) != FG_OK)
        return reading->err->code;
    put_plain(reading);
    return FG_OK;
}

/* ---- ports ---- */

/* Returns the annotation <kind>.<what>. */
static struct fg_slice wish(const struct pod_reading *reading, const struct dist_profile_kind *kind,
                            const char *what)
{
    char name[128];

    (void)snprintf(name, sizeof name, PREFIX "%s.%s", kind->annotation, what);
    return annotation(reading, name);
}

/* Returns the container's port of that name, or of that number if the name is empty. */
static const json_t *find_port(const json_t *container, uint64_t number, struct fg_slice name)
{
    const json_t *ports = json_object_get(container, "ports");

    for (size_t i = 0; i < json_array_size(ports); i++) {
        const json_t *port = json_array_get(ports, i);
        const json_t *given = json_object_get(port, "containerPort");

        if (name.len > 0 ? fg_slice_eq(fg_document_get(port, "name"), name)
                         : json_is_integer(given) && (uint64_t)json_integer_value(given) == number)
            return port;
    }
    return NULL;
}

static enum fg_code put_port(struct pod_reading *reading, struct pod_place *place,
                             const json_t *port)
{
    const json_t *number = json_object_get(port, "containerPort");
    char *text =
        fg_arena_printf(reading->discovered->arena, "%lld", (long long)json_integer_value(number));

    if (text == NULL)
        return fg_fail(reading->err, FG_E_LIMIT, "labels of pods need too much memory");
    place->port = fg_cstr(text);
    place->port_name = fg_document_get(port, "name");
    return FG_OK;
}

/* Finds container and port of a kind. A number need not be among the declared ports, as in
 * Kubernetes itself. */
static enum fg_code find_place(struct pod_reading *reading, const struct dist_profile_kind *kind,
                               struct pod_place *place)
{
    const json_t *containers = json_object_get(reading->spec, "containers");
    struct fg_slice name = wish(reading, kind, "port_name"), port = wish(reading, kind, "port");
    uint64_t number = 0;
    bool is_number = fg_parse_u64(port, &number);

    *place = (struct pod_place){.https = fg_slice_is(wish(reading, kind, "scheme"), "https"),
                                .container = json_array_get(containers, 0)};
    for (size_t i = 0; (name.len > 0 || is_number) && i < json_array_size(containers); i++) {
        const json_t *discovered = find_port(json_array_get(containers, i), number, name);

        if (discovered == NULL)
            continue;
        place->container = json_array_get(containers, i);
        return put_port(reading, place, discovered);
    }
    if (name.len == 0 && is_number)
        place->port = port;
    return FG_OK;
}

static bool same_place(const struct pod_place *a, const struct pod_place *b)
{
    return a->container == b->container && a->https == b->https && fg_slice_eq(a->port, b->port);
}

static enum fg_code add_kind(struct pod_reading *reading, const struct dist_profile_kind *kind)
{
    struct pod_place wanted, *place;
    uint32_t i = 0;

    if (!fg_slice_is(wish(reading, kind, "scrape"), "true"))
        return FG_OK;
    if (find_place(reading, kind, &wanted) != FG_OK)
        return reading->err->code;
    while (i < reading->n_places && !same_place(&reading->places[i], &wanted))
        i++;
    fg_assert(i < KINDS_MAX); /* at most one place for each kind */
    place = &reading->places[i];
    if (i == reading->n_places) {
        *place = wanted;
        reading->n_places++;
    }
    place->kinds[place->n_kinds] = kind;
    place->paths[place->n_kinds++] = wish(reading, kind, "path");
    return FG_OK;
}

/* ---- targets ---- */

static enum fg_code put_address(struct pod_reading *reading, const struct pod_place *place)
{
    struct fg_slice ip = fg_document_get(reading->status, "podIP");
    bool bracket = fg_slice_find(ip, ':') != SIZE_MAX; /* IPv6 */
    char *address;

    if (place->port.len == 0)
        return FG_OK;
    address = fg_arena_printf(reading->discovered->arena, "%s%.*s%s:%.*s", bracket ? "[" : "",
                              FG_S(ip), bracket ? "]" : "", FG_S(place->port));
    if (address == NULL)
        return fg_fail(reading->err, FG_E_LIMIT, "labels of pods need too much memory");
    put_text(reading, "__address__", fg_cstr(address));
    return FG_OK;
}

/* Puts __profiles__ and the paths. */
static enum fg_code put_kinds(struct pod_reading *reading, const struct pod_place *place)
{
    struct fg_buf list;
    struct fg_slice copy;

    fg_buf_init(&list, SIZE_MAX);
    for (uint32_t i = 0; i < place->n_kinds; i++)
        fg_buf_printf(&list, "%s%s", i == 0 ? "" : ",", place->kinds[i]->name);
    copy = fg_arena_copy(reading->discovered->arena, fg_buf_slice(&list));
    fg_buf_done(&list);
    if (copy.ptr == NULL)
        return fg_fail(reading->err, FG_E_LIMIT, "labels of pods need too much memory");
    put_text(reading, "__profiles__", copy);
    for (uint32_t i = 0; i < place->n_kinds; i++) {
        char *name = fg_arena_printf(reading->discovered->arena, "__profile_path_%s__",
                                     place->kinds[i]->name);

        if (name == NULL)
            return fg_fail(reading->err, FG_E_LIMIT, "labels of pods need too much memory");
        put_text(reading, name, place->paths[i]);
    }
    return FG_OK;
}

static enum fg_code add_target(struct pod_reading *reading, const struct pod_place *place)
{
    struct fg_slice container = fg_document_get(place->container, "name");
    size_t common = reading->n;

    put_text(reading, META "pod_container_name", container);
    put_text(reading, META "pod_container_image", fg_document_get(place->container, "image"));
    put_text(reading, META "pod_container_port_number", place->port);
    put_text(reading, META "pod_container_port_name", place->port_name);
    put_text(reading, "container", container);
    put_text(reading, "__scheme__", place->https ? FG_LIT("https") : FG_LIT("http"));
    if (put_address(reading, place) != FG_OK || put_kinds(reading, place) != FG_OK ||
        dist_discovered_add(reading->discovered, &(struct fg_labels){reading->items, reading->n},
                            reading->err) != FG_OK)
        return reading->err->code;
    reading->n = common; /* the labels of the pod stay for its next target */
    return FG_OK;
}

static bool is_running(const struct pod_reading *reading)
{
    struct fg_slice phase = fg_document_get(reading->status, "phase");

    return fg_document_get(reading->status, "podIP").len > 0 && !fg_slice_is(phase, "Pending") &&
           !fg_slice_is(phase, "Succeeded") && !fg_slice_is(phase, "Failed");
}

/* Copies the texts of the targets: the JSON document is freed after reading, the targets stay. */
static enum fg_code copy_texts(struct dist_discovered *discovered, size_t from, struct fg_err *err)
{
    for (size_t t = from; t < discovered->n_targets; t++) {
        struct fg_labels *labels = &discovered->targets[t];

        for (size_t i = 0; i < labels->count; i++)
            if (dist_discovered_copy(discovered, labels->items[i].name, &labels->items[i].name,
                                     err) != FG_OK ||
                dist_discovered_copy(discovered, labels->items[i].value, &labels->items[i].value,
                                     err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

enum fg_code dist_pod_read(const json_t *pod, const struct dist_profile_kinds *kinds,
                           struct dist_discovered *discovered, struct fg_err *err)
{
    struct pod_reading reading = {.metadata = json_object_get(pod, "metadata"),
                                  .spec = json_object_get(pod, "spec"),
                                  .status = json_object_get(pod, "status"),
                                  .discovered = discovered,
                                  .err = err};
    size_t before = discovered->n_targets;

    reading.annotations = json_object_get(reading.metadata, "annotations");
    if (!is_running(&reading))
        return FG_OK;
    for (uint32_t i = 0; i < kinds->n; i++)
        if (add_kind(&reading, &kinds->items[i]) != FG_OK)
            return err->code;
    if (reading.n_places == 0 || put_common(&reading) != FG_OK)
        return reading.n_places == 0 ? FG_OK : err->code;
    for (uint32_t i = 0; i < reading.n_places; i++)
        if (add_target(&reading, &reading.places[i]) != FG_OK)
            return err->code;
    return copy_texts(discovered, before, err);
}

bool dist_pod_name(const json_t *pod, struct fg_buf *out)
{
    const json_t *metadata = json_object_get(pod, "metadata");
    struct fg_slice namespace = fg_document_get(metadata, "namespace"),
                    name = fg_document_get(metadata, "name");

    if (namespace.len == 0 || name.len == 0)
        return false;
    fg_buf_put(out, namespace);
    fg_buf_putc(out, '/');
    fg_buf_put(out, name);
    return true;
}

/* ---- pages and events ---- */

/* Parses a JSON object. */
static enum fg_code read_object(struct fg_slice text, const char *what, json_t **ret_object,
                                struct fg_err *err)
{
    json_t *object;

    if (fg_document_from_json(text, what, &object, err) != FG_OK)
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
    return fg_document_get(json_object_get(object, "metadata"), "resourceVersion");
}

/* Reads the name of a pod, and its targets if it has any. */
static enum fg_code read_pod(const json_t *pod, const struct dist_profile_kinds *kinds,
                             struct dist_discovered *discovered, struct dist_pods_entry *entry,
                             struct fg_err *err)
{
    struct fg_buf name;
    enum fg_code code = FG_OK;

    fg_buf_init(&name, NAME_MAX_BYTES);
    if (!dist_pod_name(pod, &name) || name.full)
        code = fg_fail(err, FG_E_DECODE, "a pod without a name");
    entry->first = discovered->n_targets;
    if (code == FG_OK)
        code = dist_pod_read(pod, kinds, discovered, err);
    if (code == FG_OK)
        code = dist_discovered_copy(discovered, fg_buf_slice(&name), &entry->name, err);
    entry->n = discovered->n_targets - entry->first;
    fg_buf_done(&name);
    return code;
}

/* ---- lists ---- */

static enum fg_code read_items(const json_t *items, const struct dist_profile_kinds *kinds,
                               struct dist_pods_page *page, struct fg_err *err)
{
    size_t n = json_array_size(items);

    page->pods = fg_arena_new(page->discovered->arena, struct dist_pods_entry, n);
    if (page->pods == NULL)
        return fg_fail(err, FG_E_LIMIT, "list of pods needs too much memory");
    for (size_t i = 0; i < n; i++) {
        struct dist_pods_entry *entry = &page->pods[page->n_pods];

        if (read_pod(json_array_get(items, i), kinds, page->discovered, entry, err) != FG_OK)
            return err->code;
        /* The entry of a pod without targets is used for the next one: most pods have none. */
        page->n_pods += entry->n > 0;
    }
    return FG_OK;
}

static enum fg_code read_list(const json_t *list, const struct dist_profile_kinds *kinds,
                              struct dist_pods_page *page, struct fg_err *err)
{
    const json_t *items = json_object_get(list, "items");

    if (version_of(list).len == 0 || (!json_is_array(items) && !json_is_null(items)))
        return fg_fail(err, FG_E_DECODE, "list of pods: no resourceVersion or no items");
    if (dist_discovered_copy(page->discovered, version_of(list), &page->version, err) != FG_OK ||
        dist_discovered_copy(page->discovered,
                             fg_document_get(json_object_get(list, "metadata"), "continue"),
                             &page->next, err) != FG_OK)
        return err->code;
    return read_items(items, kinds, page, err);
}

enum fg_code dist_pods_read_page(struct fg_slice text, const struct dist_profile_kinds *kinds,
                                 struct dist_pods_page *ret_page, struct fg_err *err)
{
    struct dist_pods_page page = {0};
    enum fg_code code;
    json_t *list = NULL;

    if (read_object(text, "list of pods", &list, err) != FG_OK)
        return err->code;
    page.discovered = dist_discovered_create();
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
    dist_discovered_destroy(page->discovered);
    *page = (struct dist_pods_page){0};
}

/* ---- watching ---- */

static enum fg_code read_event(const json_t *object, const struct dist_profile_kinds *kinds,
                               struct dist_pods_event *event, struct fg_err *err)
{
    const json_t *pod = json_object_get(object, "object");
    struct fg_slice type = fg_document_get(object, "type");

    if (fg_slice_is(type, "ERROR")) { /* of a Status, where the pod would be */
        struct fg_slice message =
            fg_slice_sub(fg_document_get(pod, "message"), 0, MESSAGE_MAX_BYTES);

        if (json_integer_value(json_object_get(pod, "code")) != STATUS_GONE)
            return fg_fail(err, FG_E_UNAVAILABLE, "watch of pods: %.*s", FG_S(message));
        event->kind = PODS_EXPIRED;
        return FG_OK;
    }
    if (version_of(pod).len == 0)
        return fg_fail(err, FG_E_DECODE, "event of pods: no resourceVersion");
    if (dist_discovered_copy(event->discovered, version_of(pod), &event->version, err) != FG_OK)
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
                                        : read_pod(pod, kinds, event->discovered, &event->pod, err);
}

enum fg_code dist_pods_read_event(struct fg_slice line, const struct dist_profile_kinds *kinds,
                                  struct dist_pods_event *ret_event, struct fg_err *err)
{
    struct dist_pods_event event = {0};
    enum fg_code code;
    json_t *object = NULL;

    if (read_object(line, "event of pods", &object, err) != FG_OK)
        return err->code;
    event.discovered = dist_discovered_create();
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
    dist_discovered_destroy(event->discovered);
    *event = (struct dist_pods_event){0};
}

void dist_pods_read_status(struct fg_slice text, struct fg_buf *out)
{
    struct fg_err err;
    json_t *status = NULL;

    if (read_object(text, "status", &status, &err) != FG_OK)
        return;
    fg_buf_put(out, fg_slice_sub(fg_document_get(status, "message"), 0, MESSAGE_MAX_BYTES));
    json_decref(status);
}
