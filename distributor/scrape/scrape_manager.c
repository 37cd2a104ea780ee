#include "distributor/scrape/scrape_manager.h"

#include "common/base/hash.h"
#include "common/net/kubernetes.h"
#include "common/net/ui_pages.h"
#include "common/runtime/log.h"
#include "distributor/scrape/target_list.h"

#include <semaphore.h>
#include <stdatomic.h>

#define CONF(field)     FG_CONF_AT(struct dist_scrape_settings, field)
#define CONF_K8S(field) FG_CONF_AT(struct dist_scrape_kubernetes_settings, field)

/* clang-format off */
const struct fg_conf_field dist_scrape_fields[] = {
    {"targets", FG_CONF_YAML, CONF(targets), .def = "", .max = "1000000",
     .doc = "Targets to scrape, as a list of groups: [{targets: [HOST:PORT], labels: {service_name: NAME}}]. Labels may also set how a target is scraped (distributor/scrape/README.md)."},
    {"files", FG_CONF_YAML, CONF(files), .def = "", .max = "100000",
     .doc = "Glob patterns of target files in YAML or JSON, as in file_sd_configs of Prometheus: [/etc/flamegrid/targets/*.yaml]. Changed files are reloaded."},
    {"files_poll", FG_CONF_NS, CONF(files_poll_ns), .def = "10s", .min = "100ms", .max = "1h",
     .doc = "Interval at which target files are checked for changes."},
    {"profiles", FG_CONF_YAML, CONF(profiles), .def = "", .max = "100000",
     .doc = "Profile types to scrape and their paths: {block: {enabled: false}, memory: {path: /debug/pprof/heap}}. process_cpu, memory, goroutine, mutex and block are enabled by default; fgprof and godeltaprof_memory, _mutex, _block are disabled."},
    {"relabel", FG_CONF_YAML, CONF(relabel), .def = "", .max = "1000000",
     .doc = "Rules that rewrite the labels of discovered targets, including labels with the prefix __, in the format of relabel_configs of Prometheus. Rules may drop targets."},
    {"interval", FG_CONF_NS, CONF(interval_ns), .def = "15s", .min = "100ms", .max = "1d",
     .doc = "Scrape interval of each profile of a target. A CPU profile records one second less."},
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "10s", .min = "1ms", .max = "1h",
     .doc = "Timeout of a scrape, in addition to the time that the target records."},
    {"connect_timeout", FG_CONF_NS, CONF(connect_timeout_ns), .def = "3s", .min = "1ms", .max = "5m",
     .doc = "Timeout of name resolution and connect."},
    {"running_max", FG_CONF_UINT, CONF(running_max), .def = "512", .min = "1", .max = "100000",
     .doc = "Concurrent scrapes, one connection each. A CPU profile occupies its slot for almost the whole interval, so allow more slots than there are targets."},
    {"targets_max", FG_CONF_UINT, CONF(targets_max), .def = "10000", .min = "1", .max = "1000000",
     .doc = "Targets per distributor, about 16 KiB each. Further targets are dropped."},
    {"body_max_bytes", FG_CONF_BYTES, CONF(body_max_bytes), .def = "16MiB", .min = "1KiB", .max = "1GiB",
     .doc = "Size of a profile as received. Larger profiles are refused."},
    {"delta_max_bytes", FG_CONF_BYTES, CONF(delta_max_bytes), .def = "0",
     .doc = "Memory for the previous values of cumulative profiles (memory, mutex, block), from which deltas are stored: about 24 bytes per stack and target. 0: an eighth of `memory_max_bytes`."},
    {"tenant", FG_CONF_STRING, CONF(tenant), .def = "anonymous", .min = "1", .max = "150",
     .doc = "Tenant of the scraped profiles."},
    {"share_index", FG_CONF_UINT, CONF(share_index), .def = "0", .max = "9999",
     .doc = "Index of this distributor among the distributors that share the targets, starting at 0."},
    {"share_count", FG_CONF_UINT, CONF(share_count), .def = "1", .min = "1", .max = "10000",
     .doc = "Number of distributors that share the targets. Each scrapes its own part."},
    {"token_file", FG_CONF_STRING, CONF(token_file), .def = "", .max = "4000",
     .doc = "File with a bearer token (Authorization: Bearer). It is sent to targets of `scrape.targets` and `scrape.files`, never to pods."},
    {"ca_file", FG_CONF_STRING, CONF(ca_file), .def = "", .max = "4000",
     .doc = "CA certificates that verify targets with https. Empty: the CA certificates of the system."},
    {"cert_file", FG_CONF_STRING, CONF(cert_file), .def = "", .max = "4000",
     .doc = "Client certificate in PEM format. It is presented to targets of `scrape.targets` and `scrape.files`, never to pods."},
    {"key_file", FG_CONF_STRING, CONF(key_file), .def = "", .max = "4000",
     .doc = "Private key of `scrape.cert_file`."},
    {"insecure_skip_verify", FG_CONF_BOOL, CONF(insecure), .def = "false",
     .doc = "Accepts any certificate of a target."},
};
const size_t dist_scrape_n_fields = FG_COUNT(dist_scrape_fields);

const struct fg_conf_field dist_scrape_kubernetes_fields[] = {
    {"pods", FG_CONF_BOOL, CONF_K8S(pods), .def = "false",
     .doc = "Discovers pods with the annotations profiles.grafana.com/cpu.scrape: \"true\" and cpu.port; likewise for memory, goroutine, mutex and block. Requires permission to list and watch pods."},
    {"namespace", FG_CONF_STRING, CONF_K8S(namespace), .def = "", .max = "253",
     .doc = "Namespace of the pods. Empty: all namespaces."},
    {"node", FG_CONF_STRING, CONF_K8S(node), .def = "", .max = "253",
     .doc = "Node of the pods. Empty: all nodes."},
    {"selector", FG_CONF_STRING, CONF_K8S(selector), .def = "", .max = "2000",
     .doc = "Label selector of the pods, for example app=shop,tier!=test."},
    {"api", FG_CONF_STRING, CONF_K8S(api), .def = "", .max = "1000",
     .doc = "URL of the Kubernetes API. Empty: from KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT."},
    {"credentials", FG_CONF_STRING, CONF_K8S(credentials), .def = FG_KUBERNETES_CREDENTIALS, .min = "1", .max = "4000",
     .doc = "Directory with the token (token) and the CA certificate (ca.crt) of the Kubernetes API."},
};
const size_t dist_scrape_n_kubernetes_fields = FG_COUNT(dist_scrape_kubernetes_fields);
/* clang-format on */

enum {
    PATTERNS_MAX = 100,                /* each is a glob() at every check */
    LIST_MAX_BYTES = 64 * 1024 * 1024, /* targets_max of a few hundred bytes each */
};

/* Before the first of three retries of a push: 0.5, 1 and 2 s, in which an ingester restarts. */
static const int64_t STORE_PAUSE_NS = FG_SECOND_NS / 2;
static const int64_t KUBERNETES_PAUSE_NS = FG_SECOND_NS; /* before the API is asked again */

FG_METRICS_TABLE(scrape_metrics, SCRAPE_METRICS)

struct dist_scrape_manager {
    struct dist_scrape_manager_config config;
    struct dist_profile_kinds kinds;
    struct fg_relabel *rules;      /* of targets' labels */
    struct dist_discovered *fixed; /* targets of settings */
    const char *patterns[PATTERNS_MAX];
    size_t n_patterns;
    json_t *files; /* holds the patterns */
    char api[FG_KUBERNETES_URL_MAX_BYTES];

    /* The loop's. NULL if there is nothing to scrape. */
    struct fg_loop *loop;
    _Atomic bool started; /* pages ask the loop from then on */
    bool ending;
    struct dist_scrape_context context;
    struct dist_scrape_pool *targets;
    struct dist_file_discovery *file_source;
    struct dist_kubernetes_discovery *kubernetes;
    unsigned to_stop; /* parts that have not stopped yet: scrapes, files, pods */
    sem_t stopped;
};

/* ---- settings ---- */

static enum fg_code read_fixed(struct dist_scrape_manager *manager, struct fg_err *err)
{
    const char *yaml = manager->config.settings->targets;
    enum fg_code code;
    json_t *doc;

    manager->fixed = dist_discovered_create();
    if (fg_document_from_yaml(fg_cstr(yaml), "scrape.targets", &doc, err) != FG_OK)
        return err->code;
    code = dist_discovered_read_groups(manager->fixed, doc, "scrape.targets", err);
    json_decref(doc);
    return code;
}

static struct dist_target_config target_config(const struct dist_scrape_manager *manager)
{
    return (struct dist_target_config){
        .kinds = &manager->kinds,
        .rules = manager->rules,
        .interval_ns = manager->config.settings->interval_ns,
        .timeout_ns = manager->config.settings->timeout_ns,
    };
}

/* Refuses static targets that can never be scraped: they are a mistake in the settings, which the
 * start reports. */
static enum fg_code check_fixed(const struct dist_scrape_manager *manager, struct fg_err *err)
{
    const struct dist_target_config config = target_config(manager);

    for (size_t i = 0; i < manager->fixed->n_targets; i++) {
        struct dist_target *target;

        if (dist_target_create(&manager->fixed->targets[i], &config, &target, err) != FG_OK)
            return fg_wrap(err, "scrape.targets");
        dist_target_unref(target);
    }
    return FG_OK;
}

static enum fg_code read_patterns(struct dist_scrape_manager *manager, struct fg_err *err)
{
    if (fg_document_from_yaml(fg_cstr(manager->config.settings->files), "scrape.files",
                              &manager->files, err) != FG_OK)
        return err->code;
    if (json_is_null(manager->files))
        return FG_OK;
    if (!json_is_array(manager->files) || json_array_size(manager->files) > PATTERNS_MAX)
        return fg_fail(err, FG_E_INVALID, "scrape.files: not a list of up to %d patterns",
                       PATTERNS_MAX);
    for (size_t i = 0; i < json_array_size(manager->files); i++) {
        const char *pattern = json_string_value(json_array_get(manager->files, i));

        if (pattern == NULL)
            return fg_fail(err, FG_E_INVALID, "scrape.files: pattern %zu is not a string", i + 1);
        if (dist_file_discovery_check_pattern(pattern, err) != FG_OK)
            return err->code;
        manager->patterns[manager->n_patterns++] = pattern;
    }
    return FG_OK;
}

static enum fg_code read_settings(struct dist_scrape_manager *manager, struct fg_err *err)
{
    const struct dist_scrape_settings *settings = manager->config.settings;
    const struct dist_scrape_kubernetes_settings *kubernetes = manager->config.kubernetes;

    if (dist_profile_kinds_init(&manager->kinds, fg_cstr(settings->profiles), "scrape.profiles",
                                err) != FG_OK ||
        fg_relabel_parse(fg_cstr(settings->relabel), "scrape.relabel", FG_RELABEL_DEFAULTS_DISABLED,
                         &manager->rules, err) != FG_OK ||
        read_fixed(manager, err) != FG_OK || check_fixed(manager, err) != FG_OK ||
        read_patterns(manager, err) != FG_OK)
        return err->code;
    if (kubernetes->pods &&
        fg_kubernetes_url(kubernetes->api, "scrape.kubernetes.api", manager->api, err) != FG_OK)
        return err->code;
    if (settings->share_index >= settings->share_count)
        return fg_fail(err, FG_E_INVALID,
                       "scrape.share_index: %llu is not below scrape.share_count",
                       (unsigned long long)settings->share_index);
    return FG_OK;
}

/* ---- life ---- */

static void on_scrape(void *arg)
{
    struct dist_scrape_manager *manager = arg;
    struct fg_metrics *metrics = manager->context.metrics;

    fg_metric_set(metrics, SCRAPE_DELTA_BYTES, (int64_t)fg_budget_used(&manager->context.deltas));
}

static const char *or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

static void on_all_gone(struct dist_scrape_context *context);

static void make_context(struct dist_scrape_manager *manager)
{
    const struct dist_scrape_settings *settings = manager->config.settings;
    struct dist_scrape_context *context = &manager->context;

    context->distributor = manager->config.distributor;
    context->clock = manager->config.clock;
    context->tenant = fg_cstr(settings->tenant);
    context->tls_for_all = (struct fg_client_tls){.ca_file = or_null(settings->ca_file),
                                                  .insecure = settings->insecure};
    /* Pods choose their address by themselves: our certificate and token, sent to them, would go to
     * anyone who may annotate a pod. */
    context->tls = context->tls_for_all;
    context->tls.cert_file = or_null(settings->cert_file);
    context->tls.key_file = or_null(settings->key_file);
    context->token_file = or_null(settings->token_file);
    context->connect_timeout_ns = settings->connect_timeout_ns;
    context->pause_ns = STORE_PAUSE_NS;
    context->body_max_bytes = (size_t)settings->body_max_bytes;
    context->on_gone = on_all_gone;
    dist_scrape_slots_init(&context->slots, (unsigned)settings->running_max);
    fg_budget_init(&context->deltas, settings->delta_max_bytes > 0
                                         ? settings->delta_max_bytes
                                         : manager->config.memory_max_bytes / 8);
    context->metrics =
        fg_metrics_register(manager->config.registry, scrape_metrics, FG_COUNT(scrape_metrics));
    fg_registry_on_scrape(manager->config.registry, on_scrape, manager);
}

enum fg_code dist_scrape_manager_create(const struct dist_scrape_manager_config *config,
                                        struct dist_scrape_manager **ret_manager,
                                        struct fg_err *err)
{
    struct dist_scrape_manager *manager = fg_new(struct dist_scrape_manager);

    manager->config = *config;
    if (read_settings(manager, err) != FG_OK) {
        dist_scrape_manager_destroy(manager);
        return err->code;
    }
    make_context(manager);
    *ret_manager = manager;
    return FG_OK;
}

void dist_scrape_manager_destroy(struct dist_scrape_manager *manager)
{
    if (manager == NULL)
        return;
    dist_kubernetes_discovery_destroy(manager->kubernetes);
    fg_client_destroy(manager->context.client);
    dist_scrape_pool_destroy(manager->targets);
    fg_loop_destroy(manager->loop);
    dist_discovered_destroy(manager->fixed);
    fg_relabel_unref(manager->rules);
    json_decref(manager->files);
    dist_profile_kinds_done(&manager->kinds);
    free(manager);
}

/* ---- start (on the loop) ---- */

static void start_files(struct dist_scrape_manager *manager)
{
    if (manager->n_patterns > 0)
        manager->file_source = dist_file_discovery_start(&(struct dist_file_discovery_config){
            .loop = manager->loop,
            .work = manager->config.work,
            .targets = manager->targets,
            .metrics = manager->context.metrics,
            .patterns = manager->patterns,
            .n_patterns = manager->n_patterns,
            .look_ns = manager->config.settings->files_poll_ns,
        });
}

static void start_kubernetes(struct dist_scrape_manager *manager)
{
    const struct dist_scrape_kubernetes_settings *settings = manager->config.kubernetes;

    if (settings->pods)
        manager->kubernetes =
            dist_kubernetes_discovery_start(&(struct dist_kubernetes_discovery_config){
                .loop = manager->loop,
                .work = manager->config.work,
                .targets = manager->targets,
                .metrics = manager->context.metrics,
                .kinds = &manager->kinds,
                .api = manager->api,
                .credentials = settings->credentials,
                .namespace = settings->namespace,
                .node = settings->node,
                .selector = settings->selector,
                .pause_ns = KUBERNETES_PAUSE_NS,
            });
}

static void start_all(void *arg)
{
    struct dist_scrape_manager *manager = arg;
    const struct dist_scrape_settings *settings = manager->config.settings;

    manager->context.client = fg_client_create(&(struct fg_client_config){
        .loop = manager->loop,
        .running_max = (unsigned)settings->running_max,
        .budget = manager->config.bodies,
    });
    manager->targets = dist_scrape_pool_create(&(struct dist_scrape_pool_config){
        .context = &manager->context,
        .target = target_config(manager),
        .share_index = (uint32_t)settings->share_index,
        .share_count = (uint32_t)settings->share_count,
        .targets_max = (size_t)settings->targets_max,
    });
    if (manager->fixed->n_targets > 0)
        dist_scrape_pool_update(manager->targets, "settings", manager->fixed, true);
    start_files(manager);
    start_kubernetes(manager);
}

enum fg_code dist_scrape_manager_start(struct dist_scrape_manager *manager, struct fg_err *err)
{
    if (manager->fixed->n_targets == 0 && manager->n_patterns == 0 &&
        !manager->config.kubernetes->pods)
        return FG_OK; /* nothing to scrape */
    manager->loop = manager->context.loop = fg_loop_create("scrape");
    if (fg_loop_start(manager->loop, err) != FG_OK)
        return err->code;
    fg_assert(sem_init(&manager->stopped, 0, 0) == 0);
    fg_loop_call(manager->loop, start_all, manager);
    /* After start_all(): pages of other loops ask this one from now on. */
    atomic_store(&manager->started, true);
    return FG_OK;
}

/* ---- stop (on the loop) ---- */

static void on_stopped(void *arg)
{
    struct dist_scrape_manager *manager = arg;

    if (--manager->to_stop == 0)
        fg_assert(sem_post(&manager->stopped) == 0);
}

static void on_all_gone(struct dist_scrape_context *context)
{
    struct dist_scrape_manager *manager =
        fg_container(context, struct dist_scrape_manager, context);

    if (manager->ending)
        on_stopped(manager);
}

/* Stops the sources before the pool: they would bring new targets. The 1 in to_stop is for this
 * function, so that parts that stop at once do not end the count. */
static void begin_stop(void *arg)
{
    struct dist_scrape_manager *manager = arg;
    bool any = manager->context.n_scrapes > 0;

    manager->ending = true;
    manager->to_stop = 1u + any + (manager->file_source != NULL) + (manager->kubernetes != NULL);
    if (manager->file_source != NULL)
        dist_file_discovery_stop(fg_take(manager->file_source), on_stopped, manager);
    if (manager->kubernetes != NULL)
        dist_kubernetes_discovery_stop(manager->kubernetes, on_stopped, manager);
    dist_scrape_pool_end(manager->targets);
    on_stopped(manager); /* this one */
}

static void close_client(void *arg)
{
    struct dist_scrape_manager *manager = arg;

    fg_client_close(manager->context.client);
}

void dist_scrape_manager_stop(struct dist_scrape_manager *manager)
{
    if (manager == NULL || !atomic_load(&manager->started))
        return;
    fg_loop_call(manager->loop, begin_stop, manager);
    /* A signal interrupts sem_wait(). */
    while (sem_wait(&manager->stopped) != 0)
        continue;
    /* Only now: scrapes in progress used the client until they ended. */
    fg_loop_call(manager->loop, close_client, manager);
    fg_loop_stop(manager->loop);
    (void)sem_destroy(&manager->stopped);
    atomic_store(&manager->started, false);
}

/* ---- the list of targets ---- */

/* A request for the list. It goes to the scrape loop, which writes it, and back to its own loop,
 * which answers. It lives in the request's arena. */
struct list_request {
    struct fg_msg there, back;
    struct dist_scrape_manager *manager;
    struct fg_http_request *req;
    struct fg_loop *home;
    unsigned what;
    struct fg_buf body;
};

static void answer(struct list_request *list)
{
    struct fg_buf body = list->body; /* the request frees its arena */
    struct fg_err err;

    if (body.full) {
        fg_buf_done(&body);
        (void)fg_fail(&err, FG_E_TOO_LARGE, "the list of targets exceeds %d bytes", LIST_MAX_BYTES);
        fg_http_respond_error(list->req, &err);
        return;
    }
    fg_http_add_header(list->req, "X-Content-Type-Options", "nosniff");
    fg_http_respond(list->req, 200, "application/json", &body);
}

static void on_back(struct fg_msg *msg)
{
    answer(fg_container(msg, struct list_request, back));
}

static void on_there(struct fg_msg *msg)
{
    struct list_request *list = fg_container(msg, struct list_request, there);
    const struct dist_scrape_manager *manager = list->manager;

    dist_target_list_write(
        &(struct dist_target_sources){manager->targets, manager->file_source, manager->kubernetes},
        list->what, &list->body);
    list->back.run = on_back;
    fg_loop_post(list->home, &list->back);
}

static unsigned what_of(struct fg_http_request *req)
{
    struct fg_slice state = fg_http_param(req, "state");

    if (fg_slice_is(state, "active"))
        return TARGETS_ACTIVE;
    return fg_slice_is(state, "dropped") ? TARGETS_DROPPED : TARGETS_ACTIVE | TARGETS_DROPPED;
}

static void get_list(struct fg_http_request *req, void *arg)
{
    struct dist_scrape_manager *manager = arg;
    struct list_request *list = fg_arena_new(fg_http_arena(req), struct list_request, 1);

    fg_assert(list != NULL); /* the first thing in an arena of a MiB */
    list->manager = manager;
    list->req = req;
    list->home = fg_http_loop(req);
    list->what = what_of(req);
    fg_buf_init(&list->body, LIST_MAX_BYTES);
    if (atomic_load(&manager->started)) {
        list->there.run = on_there;
        fg_loop_post(manager->loop, &list->there);
    } else {
        /* Nothing runs: a list without targets. */
        dist_target_list_write(&(struct dist_target_sources){NULL, NULL, NULL}, list->what,
                               &list->body);
        answer(list);
    }
}

void dist_scrape_manager_routes(struct dist_scrape_manager *manager, struct fg_http_server *server,
                                bool has_page)
{
    struct fg_http_route route = {.methods = FG_HTTP_GET,
                                  .path = "/api/v1/targets",
                                  .handler = get_list,
                                  .arg = manager,
                                  .kind = FG_HTTP_READS,
                                  .scopes = FG_SCOPE_ADMIN};

    fg_http_server_route(server, &route);
    if (has_page)
        return;
    route.path = FG_UI_TARGETS;
    fg_http_server_route(server, &route);
}
