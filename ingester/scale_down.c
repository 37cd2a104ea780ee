#include "ingester/scale_down.h"

#include "common/base/str.h"
#include "common/net/client_run.h"
#include "common/net/kubernetes.h"
#include "common/runtime/document.h"
#include "common/runtime/log.h"

#define CONF(field) FG_CONF_AT(struct ing_scale_down_settings, field)

/* clang-format off */
const struct fg_conf_field ing_scale_down_fields[] = {
    {"statefulset", FG_CONF_STRING, CONF(statefulset), .def = "", .max = "253",
     .doc = "StatefulSet that this ingester is a pod of. At shutdown the ingester reads it from the Kubernetes API. If its number of replicas excludes this pod, the ingester leaves the ring and hands over its profiles, as after POST /ingester/prepare-shutdown. If the StatefulSet was deleted, the ingester does not wait for others (`ring.maintenance_wait`). `ring.name` must be the name of the pod, which it is by default. Requires permission to get this StatefulSet. Empty: the ingester always keeps its place."},
    {"namespace", FG_CONF_STRING, CONF(namespace), .def = "", .max = "253",
     .doc = "Namespace of the StatefulSet. Empty: the file namespace in `credentials`."},
    {"api", FG_CONF_STRING, CONF(api), .def = "", .max = "1000",
     .doc = "URL of the Kubernetes API. Empty: from KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT."},
    {"credentials", FG_CONF_STRING, CONF(credentials), .def = FG_KUBERNETES_CREDENTIALS, .min = "1", .max = "4000",
     .doc = "Directory with the token (token), the CA certificate (ca.crt) and the namespace (namespace) of the Kubernetes API."},
};
/* clang-format on */
const size_t ing_scale_down_n_fields = FG_COUNT(ing_scale_down_fields);

enum {
    ANSWER_MAX_BYTES = 2 * 1024 * 1024, /* etcd stores no larger object by default */
    FILE_MAX_BYTES = 2 * 1024 * 1024,   /* what fg_conf_read_file() reads, and room for one read */
    PATH_MAX_BYTES = 4096,              /* PATH_MAX of Linux */
    URL_MAX_BYTES = FG_KUBERNETES_URL_MAX_BYTES + 700,
    STATUS_OK = 200,
    STATUS_UNAUTHENTICATED = 401, /* the service account has been deleted */
    STATUS_FORBIDDEN = 403,       /* its role has been deleted */
    STATUS_NOT_FOUND = 404,
};

/* The API is in the same network; the process is to stop, and has a time of grace. */
static const int64_t TIMEOUT_NS = 10 * FG_SECOND_NS;

/* ---- the answer ---- */

/* NAME-ORDINAL, of the set NAME. */
static bool read_ordinal(struct fg_slice pod, struct fg_slice set, uint64_t *ret_ordinal)
{
    return set.len > 0 && pod.len > set.len + 1 &&
           fg_slice_eq(fg_slice_sub(pod, 0, set.len), set) && pod.ptr[set.len] == '-' &&
           fg_parse_u64(fg_slice_sub(pod, set.len + 1, SIZE_MAX), ret_ordinal);
}

static enum fg_code read_set(const json_t *set, struct fg_slice pod, enum ing_pod_fate *ret_fate,
                             struct fg_err *err)
{
    const json_t *metadata = json_object_get(set, "metadata"), *spec = json_object_get(set, "spec");
    const json_t *replicas = json_object_get(spec, "replicas");
    json_int_t start =
        json_integer_value(json_object_get(json_object_get(spec, "ordinals"), "start"));
    struct fg_slice name = fg_document_get(metadata, "name");
    uint64_t ordinal;

    if (!fg_slice_is(fg_document_get(set, "kind"), "StatefulSet") || !json_is_integer(replicas) ||
        json_integer_value(replicas) < 0 || start < 0)
        return fg_fail(err, FG_E_INVALID, "the answer is no StatefulSet");
    if (!read_ordinal(pod, name, &ordinal))
        return fg_fail(err, FG_E_INVALID, "%.*s is no pod of the StatefulSet %.*s", FG_S(pod),
                       FG_S(name));
    /* Below `start` as well: a set that is renumbered gives such a pod up. */
    if (json_object_get(metadata, "deletionTimestamp") != NULL)
        *ret_fate = ING_POD_SET_DELETED;
    else if (ordinal < (uint64_t)start ||
             ordinal - (uint64_t)start >= (uint64_t)json_integer_value(replicas))
        *ret_fate = ING_POD_GOES;
    else
        *ret_fate = ING_POD_RETURNS;
    return FG_OK;
}

enum fg_code ing_scale_down_read(struct fg_slice document, struct fg_slice pod,
                                 enum ing_pod_fate *ret_fate, struct fg_err *err)
{
    json_t *set = NULL;
    enum fg_code code = fg_document_from_json(document, "StatefulSet", &set, err);

    if (code == FG_OK)
        code = read_set(set, pod, ret_fate, err);
    json_decref(set);
    return code;
}

/* ---- the question ---- */

static enum fg_code put_namespace(const struct ing_scale_down_settings *settings,
                                  struct fg_buf *url, struct fg_err *err)
{
    char path[PATH_MAX_BYTES];
    struct fg_buf text;
    enum fg_code code;

    if (settings->namespace[0] != '\0') {
        fg_buf_puts(url, settings->namespace);
        return FG_OK;
    }
    (void)snprintf(path, sizeof path, "%s/namespace", settings->credentials);
    fg_buf_init(&text, FILE_MAX_BYTES);
    code = fg_conf_read_file(path, &text, err);
    if (code == FG_OK && fg_trim(fg_buf_slice(&text)).len == 0)
        code = fg_fail(err, FG_E_INVALID, "%s: no namespace", path);
    fg_buf_put(url, fg_trim(fg_buf_slice(&text)));
    fg_buf_done(&text);
    return code;
}

static enum fg_code put_url(const struct ing_scale_down_settings *settings, struct fg_buf *url,
                            struct fg_err *err)
{
    char api[FG_KUBERNETES_URL_MAX_BYTES];

    if (fg_kubernetes_url(settings->api, "ingester.kubernetes.api", api, err) != FG_OK)
        return err->code;
    fg_buf_printf(url, "%s/apis/apps/v1/namespaces/", api);
    if (put_namespace(settings, url, err) != FG_OK)
        return err->code;
    fg_buf_printf(url, "/statefulsets/%s", settings->statefulset);
    fg_buf_putc(url, '\0');
    return url->full ? fg_fail(err, FG_E_INVALID, "the URL of the API is too long") : FG_OK;
}

/* *ret_status: of the answer, or 0 without one. */
static enum fg_code get_stateful_set(const struct ing_scale_down_settings *settings,
                                     const char *pod, unsigned *ret_status,
                                     enum ing_pod_fate *ret_fate, struct fg_err *err)
{
    char ca_file[PATH_MAX_BYTES], token_file[PATH_MAX_BYTES];
    const struct fg_client_tls tls = {.ca_file = ca_file};
    struct fg_client_request request = {
        .tls = &tls,
        .token_file = token_file,
        .connect_timeout_ns = TIMEOUT_NS,
        .timeout_ns = TIMEOUT_NS,
        .body_max_bytes = ANSWER_MAX_BYTES,
    };
    struct fg_buf url;
    enum fg_code code;

    (void)snprintf(ca_file, sizeof ca_file, "%s/ca.crt", settings->credentials);
    (void)snprintf(token_file, sizeof token_file, "%s/token", settings->credentials);
    fg_buf_init(&url, URL_MAX_BYTES);
    code = put_url(settings, &url, err);
    if (code == FG_OK) {
        request.url = (const char *)url.ptr;
        fg_client_run(&request);
        *ret_status = request.code == FG_OK ? request.status : 0;
        if (request.code != FG_OK)
            code = fg_fail(err, request.code, "%s", request.err.msg);
        else if (request.status != STATUS_OK)
            code = fg_fail(err, FG_E_UNAVAILABLE, "%s: status %u", request.url, request.status);
        else
            code = ing_scale_down_read(fg_buf_slice(&request.answer), fg_cstr(pod), ret_fate, err);
    }
    fg_client_clear(&request);
    fg_buf_done(&url);
    return code;
}

bool ing_scale_down_may_ask(const struct ing_scale_down_settings *settings, const char *pod)
{
    enum ing_pod_fate fate;
    unsigned status = 0;
    struct fg_err err;

    if (settings->statefulset[0] == '\0')
        return false;
    if (get_stateful_set(settings, pod, &status, &fate, &err) == FG_OK)
        return true;
    fg_log_warn("cannot read the StatefulSet, so this ingester would not notice a scale-down",
                fg_ls("err", err.msg));
    return false;
}

enum ing_pod_fate ing_scale_down_ask(const struct ing_scale_down_settings *settings,
                                     const char *pod, bool may_ask)
{
    enum ing_pod_fate fate = ING_POD_RETURNS;
    unsigned status = 0;
    struct fg_err err;
    enum fg_code code;

    if (settings->statefulset[0] == '\0')
        return ING_POD_RETURNS;
    code = get_stateful_set(settings, pod, &status, &fate, &err);
    if (may_ask && (status == STATUS_NOT_FOUND || status == STATUS_UNAUTHENTICATED ||
                    status == STATUS_FORBIDDEN))
        fate = ING_POD_SET_DELETED;
    else if (code != FG_OK)
        fg_log_error("cannot tell whether this pod is scaled down, keeping its place in the ring",
                     fg_ls("err", err.msg));
    if (fate == ING_POD_GOES)
        fg_log_info("the StatefulSet is scaled down, leaving the ring",
                    fg_ls("statefulset", settings->statefulset));
    if (fate == ING_POD_SET_DELETED)
        fg_log_info("the StatefulSet is deleted, stopping without waiting for other ingesters",
                    fg_ls("statefulset", settings->statefulset));
    return fate;
}
