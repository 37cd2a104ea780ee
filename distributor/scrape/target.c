#include "distributor/scrape/target.h"

#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/config.h"

enum {
    ARENA_MAX_BYTES = 1024 * 1024, /* a pod's annotations may have 256 KiB */
    URL_MAX_BYTES = 8192,
    HOST_MAX_BYTES = 300, /* a DNS name has at most 253 characters; then the port */
};

/* Bounds of __scrape_interval__: ten scrapes a second, and one a day. */
static const int64_t INTERVAL_MIN_NS = FG_SECOND_NS / 10, INTERVAL_MAX_NS = 24 * FG_HOUR_NS;

/* A target that is being created. */
struct target_making {
    struct dist_target *target;
    const struct dist_target_config *config;
    struct fg_err *err;
    struct fg_label *items; /* its labels; added ones come last */
    size_t n, cap;
    bool kept; /* by the rules */
    int64_t timeout_ns;
};

static enum fg_code too_large(struct target_making *making)
{
    return fg_fail(making->err, FG_E_INVALID, "its labels need more than %d bytes",
                   ARENA_MAX_BYTES);
}

/* ---- labels ---- */

static struct fg_slice get_label(const struct target_making *making, const char *name)
{
    const struct fg_labels labels = {making->items, making->n};

    return fg_labels_get(&labels, name);
}

/* Room for the labels that are added below. */
enum { LABELS_ADDED_MAX = 4 };

static void add_label(struct target_making *making, const char *name, struct fg_slice value)
{
    fg_assert(making->n < making->cap);
    making->items[making->n++] = (struct fg_label){fg_cstr(name), value};
}

static enum fg_code copy_labels(const struct fg_labels *from, struct fg_arena *arena,
                                struct target_making *making)
{
    struct fg_label *items = fg_arena_new(arena, struct fg_label, from->count);

    if (items == NULL)
        return too_large(making);
    for (size_t i = 0; i < from->count; i++) {
        items[i].name = fg_arena_copy(arena, from->items[i].name);
        items[i].value = fg_arena_copy(arena, from->items[i].value);
        if (items[i].name.ptr == NULL || items[i].value.ptr == NULL)
            return too_large(making);
    }
    making->target->discovered = (struct fg_labels){items, from->count};
    fg_labels_sort(&making->target->discovered);
    return FG_OK;
}

/* Copies the labels into an array with room for those that are added. */
static enum fg_code start_labels(struct target_making *making, const struct fg_labels *labels)
{
    making->cap = labels->count + LABELS_ADDED_MAX;
    making->items = fg_arena_new(making->target->arena, struct fg_label, making->cap);
    if (making->items == NULL)
        return too_large(making);
    if (labels->count > 0)
        memcpy(making->items, labels->items, labels->count * sizeof *making->items);
    making->n = labels->count;
    return FG_OK;
}

/* Infers the service name from metadata, in the order of Grafana Alloy's pyroscope.scrape;
 * "unspecified" is its default, too. */
static enum fg_code infer_service(struct target_making *making, struct fg_slice *ret_service)
{
    static const char *const others[] = {
        "__meta_docker_container_name",
        "__meta_dockerswarm_container_label_service_name",
        "__meta_dockerswarm_service_name",
    };
    struct fg_slice namespace = get_label(making, "__meta_kubernetes_namespace");
    struct fg_slice container = get_label(making, "__meta_kubernetes_pod_container_name");
    char *joined;

    *ret_service = get_label(making, "__meta_kubernetes_pod_annotation_pyroscope_io_service_name");
    if (ret_service->len > 0)
        return FG_OK;
    if (namespace.len > 0 && container.len > 0) {
        joined =
            fg_arena_printf(making->target->arena, "%.*s/%.*s", FG_S(namespace), FG_S(container));
        if (joined == NULL)
            return too_large(making);
        *ret_service = fg_cstr(joined);
        return FG_OK;
    }
    for (size_t i = 0; i < FG_COUNT(others) && ret_service->len == 0; i++)
        *ret_service = get_label(making, others[i]);
    if (ret_service->len == 0)
        *ret_service = FG_LIT("unspecified");
    return FG_OK;
}

/* Makes the target's labels of the discovered ones. Rules see all of them, including those that
 * begin with "__", and may drop the target; the remaining labels are completed and read below. */
static enum fg_code make_labels(struct target_making *making)
{
    uint64_t work = FG_RELABEL_WORK_MAX;
    struct fg_labels labels;
    struct fg_slice service;

    making->kept = true;
    if (start_labels(making, &making->target->discovered) != FG_OK)
        return making->err->code;
    if (making->config->rules != NULL) {
        labels = (struct fg_labels){making->items, making->n};
        if (fg_relabel_apply(making->config->rules, making->target->arena, &work, &labels,
                             &making->kept, making->err) != FG_OK ||
            start_labels(making, &labels) != FG_OK)
            return making->err->code;
    }
    if (get_label(making, FG_LABEL_SERVICE).len > 0)
        return FG_OK;
    if (infer_service(making, &service) != FG_OK)
        return making->err->code;
    add_label(making, FG_LABEL_SERVICE, service);
    return FG_OK;
}

/* ---- address ---- */

static bool is_host_char(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

/* Returns what is wrong with the host, or NULL. Accepts no character that could end the authority
 * of a URL: an address like "host/path?" would choose the path by itself. */
static const char *check_host(struct fg_slice host)
{
    bool bracketed = fg_slice_starts(host, "[") && fg_slice_ends(host, "]");

    if (host.len == 0)
        return "has no host";
    if (host.len > HOST_MAX_BYTES)
        return "is too long";
    if (bracketed)
        host = fg_slice_sub(host, 1, host.len - 2);
    for (size_t i = 0; i < host.len; i++) {
        if (host.ptr[i] == ':' && !bracketed)
            return "is not HOST:PORT (write an IPv6 address in brackets)";
        if (!is_host_char(host.ptr[i]) && host.ptr[i] != ':')
            return "is not HOST:PORT";
    }
    return NULL;
}

/* Returns the position of the port's colon, or SIZE_MAX if there is none. */
static size_t find_port(struct fg_slice address)
{
    for (size_t i = address.len; i > 0; i--) {
        if (address.ptr[i - 1] == ']')
            return SIZE_MAX;
        if (address.ptr[i - 1] == ':')
            return i - 1;
    }
    return SIZE_MAX;
}

static enum fg_code make_address(struct target_making *making)
{
    struct dist_target *target = making->target;
    struct fg_slice given = get_label(making, "__address__");
    size_t colon = find_port(given);
    struct fg_slice host = fg_slice_sub(given, 0, colon);
    uint64_t port = fg_slice_is(fg_cstr(target->scheme), "https") ? 443 : 80;
    const char *wrong = check_host(host);

    if (given.len == 0)
        return fg_fail(making->err, FG_E_INVALID,
                       "no __address__ (for a pod: its annotations name no port of the pod)");
    if (wrong == NULL && colon != SIZE_MAX &&
        (!fg_parse_u64(fg_slice_sub(given, colon + 1, given.len), &port) || port == 0 ||
         port > UINT16_MAX))
        wrong = "has an invalid port";
    if (wrong != NULL)
        return fg_fail(making->err, FG_E_INVALID, "address \"%.*s\" %s",
                       FG_S(fg_slice_sub(given, 0, 100)), wrong);
    target->address = fg_arena_printf(target->arena, "%.*s:%u", FG_S(host), (unsigned)port);
    if (target->address == NULL)
        return too_large(making);
    if (get_label(making, "instance").len == 0)
        add_label(making, "instance", fg_cstr(target->address));
    return FG_OK;
}

/* ---- times ---- */

static enum fg_code read_time(struct target_making *making, const char *label, int64_t least_ns,
                              int64_t *time_ns)
{
    struct fg_slice text = get_label(making, label);
    const char *wrong;

    if (text.len == 0)
        return FG_OK;
    wrong = fg_conf_read_duration(text, time_ns);
    if (wrong == NULL && (*time_ns < least_ns || *time_ns > INTERVAL_MAX_NS))
        wrong = "is too short or longer than a day";
    if (wrong != NULL)
        return fg_fail(making->err, FG_E_INVALID, "%s \"%.*s\" %s", label,
                       FG_S(fg_slice_sub(text, 0, 100)), wrong);
    return FG_OK;
}

/* Returns how long a target records: the interval without one second, which the request and its
 * answer take. */
static enum fg_code seconds_of(struct target_making *making, uint64_t *ret_seconds)
{
    struct fg_slice given = get_label(making, "__param_seconds");
    int64_t interval_s = making->target->interval_ns / FG_SECOND_NS;

    *ret_seconds = (uint64_t)FG_MAX(interval_s - 1, 1);
    if (given.len > 0 && (!fg_parse_u64(given, ret_seconds) || *ret_seconds == 0 ||
                          *ret_seconds > (uint64_t)(INTERVAL_MAX_NS / FG_SECOND_NS)))
        return fg_fail(making->err, FG_E_INVALID,
                       "__param_seconds \"%.*s\" is not a number of seconds",
                       FG_S(fg_slice_sub(given, 0, 100)));
    return FG_OK;
}

/* ---- which profiles ---- */

static void put_chosen(const struct dist_profile_kind **chosen, uint32_t *n,
                       const struct dist_profile_kind *kind)
{
    for (uint32_t i = 0; i < *n; i++)
        if (chosen[i] == kind)
            return;
    chosen[(*n)++] = kind;
}

/* "process_cpu, memory" */
static enum fg_code choose_named(struct target_making *making, struct fg_slice list,
                                 const struct dist_profile_kind **chosen, uint32_t *n)
{
    while (list.len > 0) {
        size_t comma = FG_MIN(fg_slice_find(list, ','), list.len);
        struct fg_slice name = fg_trim(fg_slice_sub(list, 0, comma));
        const struct dist_profile_kind *kind = dist_profile_kinds_find(making->config->kinds, name);

        if (kind == NULL)
            return fg_fail(making->err, FG_E_INVALID, "__profiles__: there is no profile \"%.*s\"",
                           FG_S(fg_slice_sub(name, 0, 100)));
        put_chosen(chosen, n, kind);
        list = fg_slice_sub(list, comma + 1, list.len);
    }
    return FG_OK;
}

static enum fg_code choose(struct target_making *making, const struct dist_profile_kind **chosen,
                           uint32_t *n)
{
    const struct dist_profile_kinds *kinds = making->config->kinds;
    struct fg_slice list = get_label(making, "__profiles__");

    *n = 0;
    if (list.len > 0)
        return choose_named(making, list, chosen, n);
    for (uint32_t i = 0; i < kinds->n; i++)
        if (kinds->items[i].enabled)
            put_chosen(chosen, n, &kinds->items[i]);
    return FG_OK;
}

/* Refuses two kinds that are stored under one name: with memory and godeltaprof_memory everything
 * would count twice. */
static enum fg_code check_chosen(struct target_making *making,
                                 const struct dist_profile_kind *const *chosen, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(chosen[i]->stored, chosen[j]->stored) == 0)
                return fg_fail(making->err, FG_E_INVALID,
                               "profiles %s and %s are the same: choose one of them",
                               chosen[j]->name, chosen[i]->name);
    return FG_OK;
}

/* ---- URLs ---- */

static void put_parameter(struct fg_buf *url, struct fg_slice name, struct fg_slice value)
{
    fg_buf_putc(url, fg_slice_find(fg_buf_slice(url), '?') == SIZE_MAX ? '?' : '&');
    fg_buf_url(url, name);
    fg_buf_putc(url, '=');
    fg_buf_url(url, value);
}

static void put_parameters(const struct target_making *making, struct fg_buf *url)
{
    static const char prefix[] = "__param_";

    for (size_t i = 0; i < making->n; i++) {
        const struct fg_label *label = &making->items[i];

        if (fg_slice_starts(label->name, prefix) && !fg_slice_is(label->name, "__param_seconds"))
            put_parameter(url, fg_slice_sub(label->name, sizeof prefix - 1, label->name.len),
                          label->value);
    }
}

/* Puts a path. Escapes what cannot stand in a URL: the path may come from a pod's annotation. */
static void put_path(struct fg_buf *url, struct fg_slice path)
{
    if (path.len > 0 && path.ptr[0] != '/')
        fg_buf_putc(url, '/');
    for (size_t i = 0; i < path.len; i++) {
        uint8_t c = path.ptr[i];

        if (c <= ' ' || c >= 0x7f || c == '#')
            fg_buf_printf(url, "%%%02X", (unsigned)c);
        else
            fg_buf_putc(url, c);
    }
}

static struct fg_slice path_of(const struct target_making *making,
                               const struct dist_profile_kind *kind, bool only)
{
    char label[128];
    struct fg_slice path;

    (void)snprintf(label, sizeof label, "__profile_path_%s__", kind->name);
    path = get_label(making, label);
    if (path.len == 0 && only)
        path = get_label(making, "__profile_path__");
    return path.len > 0 ? path : fg_cstr(kind->path);
}

/* Returns true for the paths of godeltaprof and for the parameter that makes net/http/pprof return
 * a difference: annotations of pods often name such a path for the plain kind. */
static bool is_difference(struct fg_slice url)
{
    return fg_slice_search(url, "/delta_") != SIZE_MAX ||
           fg_slice_search(url, "?seconds=") != SIZE_MAX ||
           fg_slice_search(url, "&seconds=") != SIZE_MAX;
}

static enum fg_code make_url(struct target_making *making, struct dist_endpoint *endpoint,
                             bool only)
{
    struct dist_target *target = making->target;
    const struct dist_profile_kind *kind = endpoint->kind;
    uint64_t seconds;
    struct fg_buf url;
    char text[32];

    if (seconds_of(making, &seconds) != FG_OK)
        return making->err->code;
    fg_buf_init(&url, URL_MAX_BYTES);
    fg_buf_printf(&url, "%s://%s", target->scheme, target->address);
    put_path(&url, fg_cstr(target->prefix));
    put_path(&url, path_of(making, kind, only));
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)seconds);
    if (kind->seconds)
        put_parameter(&url, FG_LIT("seconds"), fg_cstr(text));
    put_parameters(making, &url);
    if (!url.full)
        endpoint->url = fg_arena_text(target->arena, fg_buf_slice(&url));
    endpoint->cumulative = kind->n_cumulative > 0 && !is_difference(fg_buf_slice(&url));
    fg_buf_done(&url);
    endpoint->timeout_ns =
        making->timeout_ns + (kind->seconds ? (int64_t)seconds * FG_SECOND_NS : 0);
    return endpoint->url != NULL ? FG_OK : too_large(making);
}

/* ---- endpoints ---- */

static enum fg_code make_endpoint_labels(struct target_making *making,
                                         struct dist_endpoint *endpoint)
{
    const struct fg_labels *common = &making->target->labels;
    struct fg_labels *labels = &endpoint->labels;

    labels->items = fg_arena_new(making->target->arena, struct fg_label, common->count + 1);
    if (labels->items == NULL)
        return too_large(making);
    labels->items[labels->count++] =
        (struct fg_label){FG_LIT(FG_LABEL_NAME), fg_cstr(endpoint->kind->stored)};
    memcpy(labels->items + 1, common->items, common->count * sizeof *labels->items);
    labels->count += common->count;
    fg_labels_sort(labels); /* the target's __name__, if it has one, comes later and stays */
    return FG_OK;
}

/* Makes the endpoints with their URLs, while the private labels are still there. */
static enum fg_code make_endpoints(struct target_making *making)
{
    struct dist_target *target = making->target;
    struct fg_slice prefix = get_label(making, "__profile_path_prefix__");
    const struct dist_profile_kind *chosen[KINDS_MAX];

    while (fg_slice_ends(prefix, "/"))
        prefix.len--;
    target->prefix = fg_arena_text(target->arena, prefix);
    if (target->prefix == NULL)
        return too_large(making);
    if (choose(making, chosen, &target->n_endpoints) != FG_OK ||
        check_chosen(making, chosen, target->n_endpoints) != FG_OK)
        return making->err->code;
    if (target->n_endpoints == 0)
        return fg_fail(making->err, FG_E_INVALID, "no profile is enabled");
    if (target->n_endpoints > 1 && get_label(making, "__profile_path__").len > 0)
        return fg_fail(making->err, FG_E_INVALID,
                       "__profile_path__ requires one profile, but %u are enabled",
                       target->n_endpoints);
    target->endpoints = fg_arena_new(target->arena, struct dist_endpoint, target->n_endpoints);
    if (target->endpoints == NULL)
        return too_large(making);
    for (uint32_t i = 0; i < target->n_endpoints; i++) {
        target->endpoints[i].kind = chosen[i];
        if (make_url(making, &target->endpoints[i], target->n_endpoints == 1) != FG_OK)
            return making->err->code;
    }
    return FG_OK;
}

/* ---- all of it ---- */

static void put_number(struct fg_buf *out, int64_t number)
{
    fg_buf_le64(out, (uint64_t)number);
}

static void make_hash(struct dist_target *target)
{
    struct fg_buf content;

    fg_buf_init(&content, SIZE_MAX);
    fg_labels_encode(&target->labels, &content);
    put_number(&content, target->interval_ns);
    for (uint32_t i = 0; i < target->n_endpoints; i++) {
        fg_buf_lenbytes(&content, fg_cstr(target->endpoints[i].kind->name));
        fg_buf_lenbytes(&content, fg_cstr(target->endpoints[i].url));
        put_number(&content, target->endpoints[i].timeout_ns);
    }
    /* Unseeded: all distributors compute the same hash, which says whose target it is and when it
     * is scraped. */
    target->hash = fg_hash64(fg_buf_slice(&content));
    fg_buf_done(&content);
}

static enum fg_code make_target(struct target_making *making)
{
    struct dist_target *target = making->target;
    struct fg_slice scheme;

    if (make_labels(making) != FG_OK)
        return making->err->code;
    if (!making->kept)
        return FG_OK;
    scheme = get_label(making, "__scheme__");
    if (scheme.len > 0 && !fg_slice_is(scheme, "http") && !fg_slice_is(scheme, "https"))
        return fg_fail(making->err, FG_E_INVALID, "scheme \"%.*s\" is neither http nor https",
                       FG_S(fg_slice_sub(scheme, 0, 100)));
    target->scheme = fg_slice_is(scheme, "https") ? "https" : "http";
    target->interval_ns = making->config->interval_ns;
    making->timeout_ns = making->config->timeout_ns;
    if (make_address(making) != FG_OK ||
        read_time(making, "__scrape_interval__", INTERVAL_MIN_NS, &target->interval_ns) != FG_OK ||
        read_time(making, "__scrape_timeout__", FG_MS_NS, &making->timeout_ns) != FG_OK ||
        make_endpoints(making) != FG_OK)
        return making->err->code;
    /* The labels that are stored with every profile: all that are not private. */
    target->labels = (struct fg_labels){making->items, 0};
    for (size_t i = 0; i < making->n; i++)
        if (!fg_slice_starts(making->items[i].name, "__") ||
            fg_slice_is(making->items[i].name, FG_LABEL_NAME))
            target->labels.items[target->labels.count++] = making->items[i];
    fg_labels_sort(&target->labels);
    for (uint32_t i = 0; i < target->n_endpoints; i++)
        if (make_endpoint_labels(making, &target->endpoints[i]) != FG_OK)
            return making->err->code;
    make_hash(target);
    return FG_OK;
}

enum fg_code dist_target_create(const struct fg_labels *discovered,
                                const struct dist_target_config *config,
                                struct dist_target **ret_target, struct fg_err *err)
{
    struct dist_target *target = fg_new(struct dist_target);
    struct target_making making = {.target = target, .config = config, .err = err};

    target->refs = 1;
    target->arena = fg_arena_create(ARENA_MAX_BYTES);
    if (copy_labels(discovered, target->arena, &making) != FG_OK || make_target(&making) != FG_OK) {
        dist_target_unref(target);
        return err->code;
    }
    if (!making.kept)
        dist_target_unref(fg_take(target));
    *ret_target = target;
    return FG_OK;
}

struct dist_target *dist_target_ref(struct dist_target *target)
{
    target->refs++;
    return target;
}

void dist_target_unref(struct dist_target *target)
{
    if (target == NULL || --target->refs > 0)
        return;
    fg_arena_destroy(target->arena);
    free(target);
}

/* Jump consistent hash (Lamping and Veach, 2014, "A Fast, Minimal Memory, Consistent Hash
 * Algorithm"): as the number of places grows to n, the target jumps to the new place with
 * probability 1/n, and never between old ones. Its place is where the last jump below n led. */
bool dist_target_is_ours(uint64_t hash, uint32_t index, uint32_t n)
{
    uint64_t place = 0, next = 0;

    while (next < n) {
        place = next;
        hash = hash * UINT64_C(2862933555777941757) + 1; /* their generator's factor */
        next = (uint64_t)((double)(place + 1) *
                          ((double)(UINT64_C(1) << 31) / (double)((hash >> 33) + 1)));
    }
    return place == index;
}
