#include "distributor/scrape/scraper.h"

#include "common/base/hash.h"
#include "common/runtime/log.h"
#include "distributor/scrape/page.h"

#include <semaphore.h>
#include <stdatomic.h>

#define CONF(field)     FG_CONF_AT(struct dist_scraper_settings, field)
#define CONF_K8S(field) FG_CONF_AT(struct dist_scraper_kubernetes_settings, field)

/* clang-format off */
const struct fg_conf_field dist_scraper_fields[] = {
    {"targets", FG_CONF_YAML, CONF(targets), .def = "", .max = "1000000",
     .doc = "Targets to scrape, as a list of groups: [{targets: [HOST:PORT], labels: {service_name: NAME}}]. Labels may also set how a target is scraped (distributor/scrape/README.md)."},
    {"files", FG_CONF_YAML, CONF(files), .def = "", .max = "100000",
     .doc = "Glob patterns of target files in YAML or JSON, as in file_sd_configs of Prometheus: [/etc/flamegrid/targets/*.yaml]. Changed files are reloaded."},
    {"files_look", FG_CONF_NS, CONF(files_look_ns), .def = "10s", .min = "100ms", .max = "1h",
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
const size_t dist_scraper_n_fields = FG_COUNT(dist_scraper_fields);

const struct fg_conf_field dist_scraper_kubernetes_fields[] = {
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
    {"credentials", FG_CONF_STRING, CONF_K8S(credentials), .def = "/var/run/secrets/kubernetes.io/serviceaccount", .min = "1", .max = "4000",
     .doc = "Directory with the token (token) and the CA certificate (ca.crt) of the Kubernetes API."},
};
const size_t dist_scraper_n_kubernetes_fields = FG_COUNT(dist_scraper_kubernetes_fields);
/* clang-format on */

enum {
    PATTERNS_MAX = 100,
    PAGE_MAX_BYTES = 64 * 1024 * 1024,
    API_MAX_BYTES = 1100,
};

/* An ingester that restarts is back within three or four of them. */
static const int64_t STORE_PAUSE_NS = FG_SECOND_NS / 2;
static const int64_t KUBERNETES_PAUSE_NS = FG_SECOND_NS;

static const struct fg_metric_def scrape_metrics[] = FG_METRICS_DEFS(SCRAPE_METRICS);

struct dist_scraper {
    struct dist_scraper_config config;
    struct dist_kinds kinds;
    struct fg_relabel *rules; /* of targets' labels */
    struct dist_found *fixed; /* targets of settings */
    const char *patterns[PATTERNS_MAX];
    size_t n_patterns;
    json_t *files; /* holds the patterns */
    char api[API_MAX_BYTES];

    /* The loop's; NULL where nothing runs. */
    struct fg_loop *loop;
    _Atomic bool started; /* pages ask the loop from then on */
    bool ending;
    struct dist_scrape_context context;
    struct dist_targets *targets;
    struct dist_files *file_source;
    struct dist_kubernetes *kubernetes;
    unsigned to_stop; /* of scrapes, files, and pods */
    sem_t stopped;
};

/* ---- settings ---- */

static enum fg_code read_fixed(struct dist_scraper *scraper, struct fg_err *err)
{
    const char *yaml = scraper->config.settings->targets;
    enum fg_code code;
    json_t *doc;

    scraper->fixed = dist_found_create();
    if (dist_doc_from_yaml(fg_cstr(yaml), "scrape.targets", &doc, err) != FG_OK)
        return err->code;
    code = dist_found_read_groups(scraper->fixed, doc, "scrape.targets", err);
    json_decref(doc);
    return code;
}

static struct dist_target_config target_config(const struct dist_scraper *scraper)
{
    return (struct dist_target_config){
        .kinds = &scraper->kinds,
        .rules = scraper->rules,
        .interval_ns = scraper->config.settings->interval_ns,
        .timeout_ns = scraper->config.settings->timeout_ns,
    };
}

/* One that can never be a target is a mistake in the settings, and said at once. */
static enum fg_code check_fixed(const struct dist_scraper *scraper, struct fg_err *err)
{
    const struct dist_target_config config = target_config(scraper);

    for (size_t i = 0; i < scraper->fixed->n_targets; i++) {
        struct dist_target *target;

        if (dist_target_create(&scraper->fixed->targets[i], &config, &target, err) != FG_OK)
            return fg_wrap(err, "scrape.targets");
        dist_target_unref(target);
    }
    return FG_OK;
}

static enum fg_code read_patterns(struct dist_scraper *scraper, struct fg_err *err)
{
    if (dist_doc_from_yaml(fg_cstr(scraper->config.settings->files), "scrape.files",
                           &scraper->files, err) != FG_OK)
        return err->code;
    if (json_is_null(scraper->files))
        return FG_OK;
    if (!json_is_array(scraper->files) || json_array_size(scraper->files) > PATTERNS_MAX)
        return fg_fail(err, FG_E_INVALID, "scrape.files: not a list of up to %d patterns",
                       PATTERNS_MAX);
    for (size_t i = 0; i < json_array_size(scraper->files); i++) {
        const char *pattern = json_string_value(json_array_get(scraper->files, i));

        if (pattern == NULL)
            return fg_fail(err, FG_E_INVALID, "scrape.files: pattern %zu is not a string", i + 1);
        if (dist_files_check_pattern(pattern, err) != FG_OK)
            return err->code;
        scraper->patterns[scraper->n_patterns++] = pattern;
    }
    return FG_OK;
}

static enum fg_code find_api(struct dist_scraper *scraper, struct fg_err *err)
{
    const char *given = scraper->config.kubernetes->api;
    /* NOLINTBEGIN(concurrency-mt-unsafe): nobody sets the environment */
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    /* NOLINTEND(concurrency-mt-unsafe) */
    bool bracket;

    if (!scraper->config.kubernetes->pods)
        return FG_OK;
    if (given[0] != '\0') {
        (void)snprintf(scraper->api, sizeof scraper->api, "%s", given);
        return fg_slice_starts(fg_cstr(given), "https://")
                   ? FG_OK
                   : fg_fail(err, FG_E_INVALID, "scrape.kubernetes.api: %.200s is not an https URL",
                             given);
    }
    if (host == NULL || port == NULL)
        return fg_fail(err, FG_E_INVALID,
                       "scrape.kubernetes.pods: not in a pod (KUBERNETES_SERVICE_HOST is not "
                       "set), so scrape.kubernetes.api is needed");
    bracket = strchr(host, ':') != NULL;
    (void)snprintf(scraper->api, sizeof scraper->api, "https://%s%.500s%s:%.100s",
                   bracket ? "[" : "", host, bracket ? "]" : "", port);
    return FG_OK;
}

static enum fg_code check_share(const struct dist_scraper_settings *settings, struct fg_err *err)
{
    if (settings->share_index < settings->share_count)
        return FG_OK;
    return fg_fail(err, FG_E_INVALID, "scrape.share_index: %llu is not below scrape.share_count",
                   (unsigned long long)settings->share_index);
}

static enum fg_code read_settings(struct dist_scraper *scraper, struct fg_err *err)
{
    const struct dist_scraper_settings *settings = scraper->config.settings;

    if (dist_kinds_init(&scraper->kinds, fg_cstr(settings->profiles), "scrape.profiles", err) !=
            FG_OK ||
        fg_relabel_parse(fg_cstr(settings->relabel), "scrape.relabel", FG_RELABEL_DEFAULTS_DISABLED,
                         &scraper->rules, err) != FG_OK ||
        read_fixed(scraper, err) != FG_OK || check_fixed(scraper, err) != FG_OK ||
        read_patterns(scraper, err) != FG_OK || find_api(scraper, err) != FG_OK)
        return err->code;
    return check_share(settings, err);
}

static bool has_sources(const struct dist_scraper *scraper)
{
    return scraper->fixed->n_targets > 0 || scraper->n_patterns > 0 ||
           scraper->config.kubernetes->pods;
}

/* ---- life ---- */

static void on_scrape(void *arg)
{
    struct dist_scraper *scraper = arg;
    struct fg_metrics *metrics = scraper->context.metrics;

    fg_metric_set(metrics, SCRAPE_DELTA_BYTES, (int64_t)fg_budget_used(&scraper->context.deltas));
}

static const char *or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

static void on_all_gone(struct dist_scrape_context *context);

static void make_context(struct dist_scraper *scraper)
{
    const struct dist_scraper_settings *settings = scraper->config.settings;
    struct dist_scrape_context *context = &scraper->context;

    context->distributor = scraper->config.distributor;
    context->clock = scraper->config.clock;
    context->tenant = fg_cstr(settings->tenant);
    context->tls_for_all = (struct fg_client_tls){.ca_file = or_null(settings->ca_file),
                                                  .insecure = settings->insecure};
    context->tls = context->tls_for_all;
    context->tls.cert_file = or_null(settings->cert_file);
    context->tls.key_file = or_null(settings->key_file);
    context->token_file = or_null(settings->token_file);
    context->connect_timeout_ns = settings->connect_timeout_ns;
    context->pause_ns = STORE_PAUSE_NS;
    context->body_max_bytes = (size_t)settings->body_max_bytes;
    context->on_gone = on_all_gone;
    dist_places_init(&context->places, (unsigned)settings->running_max);
    fg_budget_init(&context->deltas, settings->delta_max_bytes > 0
                                         ? settings->delta_max_bytes
                                         : scraper->config.memory_max_bytes / 8);
    context->metrics =
        fg_metrics_register(scraper->config.registry, scrape_metrics, FG_COUNT(scrape_metrics));
    fg_registry_on_scrape(scraper->config.registry, on_scrape, scraper);
}

enum fg_code dist_scraper_create(const struct dist_scraper_config *config,
                                 struct dist_scraper **ret_scraper, struct fg_err *err)
{
    struct dist_scraper *scraper = fg_new(struct dist_scraper);

    scraper->config = *config;
    if (read_settings(scraper, err) != FG_OK) {
        dist_scraper_destroy(scraper);
        return err->code;
    }
    make_context(scraper);
    *ret_scraper = scraper;
    return FG_OK;
}

void dist_scraper_destroy(struct dist_scraper *scraper)
{
    if (scraper == NULL)
        return;
    dist_kubernetes_destroy(scraper->kubernetes);
    fg_client_destroy(scraper->context.client);
    dist_targets_destroy(scraper->targets);
    fg_loop_destroy(scraper->loop);
    dist_found_destroy(scraper->fixed);
    fg_relabel_unref(scraper->rules);
    json_decref(scraper->files);
    dist_kinds_done(&scraper->kinds);
    free(scraper);
}

/* ---- start (on the loop) ---- */

static void start_files(struct dist_scraper *scraper)
{
    if (scraper->n_patterns > 0)
        scraper->file_source = dist_files_start(&(struct dist_files_config){
            .loop = scraper->loop,
            .work = scraper->config.work,
            .targets = scraper->targets,
            .metrics = scraper->context.metrics,
            .patterns = scraper->patterns,
            .n_patterns = scraper->n_patterns,
            .look_ns = scraper->config.settings->files_look_ns,
        });
}

static void start_kubernetes(struct dist_scraper *scraper)
{
    const struct dist_scraper_kubernetes_settings *settings = scraper->config.kubernetes;

    if (settings->pods)
        scraper->kubernetes = dist_kubernetes_start(&(struct dist_kubernetes_config){
            .loop = scraper->loop,
            .work = scraper->config.work,
            .targets = scraper->targets,
            .metrics = scraper->context.metrics,
            .kinds = &scraper->kinds,
            .api = scraper->api,
            .credentials = settings->credentials,
            .namespace = settings->namespace,
            .node = settings->node,
            .selector = settings->selector,
            .pause_ns = KUBERNETES_PAUSE_NS,
        });
}

static void start_all(void *arg)
{
    struct dist_scraper *scraper = arg;
    const struct dist_scraper_settings *settings = scraper->config.settings;

    scraper->context.client = fg_client_create(&(struct fg_client_config){
        .loop = scraper->loop,
        .running_max = (unsigned)settings->running_max,
        .budget = scraper->config.bodies,
    });
    scraper->targets = dist_targets_create(&(struct dist_targets_config){
        .context = &scraper->context,
        .target = target_config(scraper),
        .share_index = (uint32_t)settings->share_index,
        .share_count = (uint32_t)settings->share_count,
        .targets_max = (size_t)settings->targets_max,
    });
    if (scraper->fixed->n_targets > 0)
        dist_targets_update(scraper->targets, "settings", scraper->fixed, true);
    start_files(scraper);
    start_kubernetes(scraper);
}

enum fg_code dist_scraper_start(struct dist_scraper *scraper, struct fg_err *err)
{
    if (!has_sources(scraper))
        return FG_OK;
    scraper->loop = scraper->context.loop = fg_loop_create("scrape");
    if (fg_loop_start(scraper->loop, err) != FG_OK)
        return err->code;
    fg_assert(sem_init(&scraper->stopped, 0, 0) == 0);
    fg_loop_call(scraper->loop, start_all, scraper);
    atomic_store(&scraper->started, true);
    return FG_OK;
}

/* ---- stop (on the loop) ---- */

static void on_stopped(void *arg)
{
    struct dist_scraper *scraper = arg;

    if (--scraper->to_stop == 0)
        fg_assert(sem_post(&scraper->stopped) == 0);
}

static void on_all_gone(struct dist_scrape_context *context)
{
    struct dist_scraper *scraper = fg_container(context, struct dist_scraper, context);

    if (scraper->ending)
        on_stopped(scraper);
}

/* Sources first: they would bring new targets. */
static void begin_stop(void *arg)
{
    struct dist_scraper *scraper = arg;
    bool any = scraper->context.n_scrapes > 0;

    scraper->ending = true;
    scraper->to_stop = 1u + any + (scraper->file_source != NULL) + (scraper->kubernetes != NULL);
    if (scraper->file_source != NULL)
        dist_files_stop(fg_take(scraper->file_source), on_stopped, scraper);
    if (scraper->kubernetes != NULL)
        dist_kubernetes_stop(scraper->kubernetes, on_stopped, scraper);
    dist_targets_end(scraper->targets);
    on_stopped(scraper); /* this one */
}

static void close_client(void *arg)
{
    struct dist_scraper *scraper = arg;

    fg_client_close(scraper->context.client);
}

void dist_scraper_stop(struct dist_scraper *scraper)
{
    if (scraper == NULL || !atomic_load(&scraper->started))
        return;
    fg_loop_call(scraper->loop, begin_stop, scraper);
    while (sem_wait(&scraper->stopped) != 0)
        continue;
    fg_loop_call(scraper->loop, close_client, scraper);
    fg_loop_stop(scraper->loop);
    (void)sem_destroy(&scraper->stopped);
    atomic_store(&scraper->started, false);
}

/* ---- pages ---- */

/* A request on its way to the scraper's loop and back; in the request's arena. */
struct scraper_look {
    struct fg_msg there, back;
    struct dist_scraper *scraper;
    struct fg_http_request *req;
    struct fg_loop *home;
    bool html;
    unsigned what;
    struct fg_buf body;
};

static void answer(struct scraper_look *look)
{
    struct fg_buf body = look->body; /* the look is gone with the request */
    struct fg_err err;

    if (body.full) {
        fg_buf_done(&body);
        (void)fg_fail(&err, FG_E_TOO_LARGE, "the list of targets exceeds %d bytes", PAGE_MAX_BYTES);
        fg_http_respond_error(look->req, &err);
        return;
    }
    fg_http_add_header(look->req, "X-Content-Type-Options", "nosniff");
    if (look->html)
        fg_http_add_header(look->req, "Content-Security-Policy",
                           "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    fg_http_respond(look->req, 200, look->html ? "text/html; charset=utf-8" : "application/json",
                    &body);
}

static void on_back(struct fg_msg *msg)
{
    answer(fg_container(msg, struct scraper_look, back));
}

static void write_page(struct scraper_look *look, const struct dist_page_sources *sources)
{
    if (look->html)
        dist_page_write_html(sources, fg_wall_ns(look->scraper->config.clock), &look->body);
    else
        dist_page_write_json(sources, look->what, &look->body);
}

static void on_there(struct fg_msg *msg)
{
    struct scraper_look *look = fg_container(msg, struct scraper_look, there);
    const struct dist_scraper *scraper = look->scraper;

    write_page(look, &(struct dist_page_sources){scraper->targets, scraper->file_source,
                                                 scraper->kubernetes});
    look->back.run = on_back;
    fg_loop_post(look->home, &look->back);
}

static unsigned what_of(struct fg_http_request *req)
{
    struct fg_slice state = fg_http_param(req, "state");

    if (fg_slice_is(state, "active"))
        return PAGE_ACTIVE;
    return fg_slice_is(state, "dropped") ? PAGE_DROPPED : PAGE_ACTIVE | PAGE_DROPPED;
}

static void handle(struct fg_http_request *req, struct dist_scraper *scraper, bool html)
{
    struct scraper_look *look = fg_arena_new(fg_http_arena(req), struct scraper_look, 1);

    fg_assert(look != NULL); /* the first thing in an arena of a MiB */
    look->scraper = scraper;
    look->req = req;
    look->home = fg_http_loop(req);
    look->html = html;
    look->what = what_of(req);
    fg_buf_init(&look->body, PAGE_MAX_BYTES);
    if (atomic_load(&scraper->started)) {
        look->there.run = on_there;
        fg_loop_post(scraper->loop, &look->there);
    } else {
        write_page(look, &(struct dist_page_sources){NULL, NULL, NULL});
        answer(look);
    }
}

static void get_html(struct fg_http_request *req, void *scraper)
{
    handle(req, scraper, true);
}

static void get_json(struct fg_http_request *req, void *scraper)
{
    handle(req, scraper, false);
}

void dist_scraper_routes(struct dist_scraper *scraper, struct fg_http_server *server)
{
    fg_http_server_route(server, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                         .path = "/targets",
                                                         .handler = get_html,
                                                         .arg = scraper,
                                                         .kind = FG_HTTP_READS});
    fg_http_server_route(server, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                         .path = "/api/v1/targets",
                                                         .handler = get_json,
                                                         .arg = scraper,
                                                         .kind = FG_HTTP_READS});
}
