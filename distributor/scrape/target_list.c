#include "distributor/scrape/target_list.h"

#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/runtime/config.h"

#include <time.h>

static const char *const health_names[] = {
    [SCRAPE_HEALTH_UNKNOWN] = "unknown",
    [SCRAPE_HEALTH_UP] = "up",
    [SCRAPE_HEALTH_DOWN] = "down",
};

static void put_labels(struct fg_json_writer *json, const char *key, const struct fg_labels *labels)
{
    fg_json_begin_object(json, key);
    for (size_t i = 0; i < labels->count; i++) {
        fg_json_put_key(json, labels->items[i].name);
        fg_json_put_text(json, NULL, labels->items[i].value);
    }
    fg_json_end(json);
}

/* Puts a time in RFC 3339, as Go prints it; without a time, Go's zero time. */
static void put_time(struct fg_buf *out, int64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / FG_SECOND_NS);
    struct tm tm;
    char text[64];

    if (wall_ns == 0 || gmtime_r(&seconds, &tm) == NULL) {
        fg_buf_puts(out, "0001-01-01T00:00:00Z");
        return;
    }
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    fg_buf_printf(out, "%s.%09lldZ", text, (long long)(wall_ns % FG_SECOND_NS));
}

static void put_duration(struct fg_json_writer *json, const char *key, int64_t ns)
{
    struct fg_buf *out = fg_json_value(json, key);

    fg_buf_putc(out, '"');
    fg_conf_write_duration(ns, out);
    fg_buf_putc(out, '"');
}

static void put_scrape(struct fg_json_writer *json, const struct dist_scrape_pool_view *view,
                       const struct dist_scrape_loop_state *state)
{
    struct fg_buf *out;

    fg_json_begin_object(json, NULL);
    put_labels(json, "discoveredLabels", &view->target->discovered);
    put_labels(json, "labels", &state->endpoint->labels);
    fg_json_put_cstr(json, "scrapePool", view->group);
    fg_json_put_cstr(json, "profile", state->endpoint->kind->name);
    fg_json_put_cstr(json, "scrapeUrl", state->endpoint->url);
    /* Clients of Prometheus' API expect it; a distributor has no external URL that would make it
     * differ. */
    fg_json_put_cstr(json, "globalUrl", state->endpoint->url);
    fg_json_put_cstr(json, "lastError", state->error == NULL ? "" : state->error);
    out = fg_json_value(json, "lastScrape");
    fg_buf_putc(out, '"');
    put_time(out, state->last_wall_ns);
    fg_buf_putc(out, '"');
    fg_json_put_fixed(json, "lastScrapeDuration",
                      (double)state->last_duration_ns / (double)FG_SECOND_NS, 9);
    fg_json_put_u64(json, "lastScrapeBytes", state->last_bytes);
    fg_json_put_cstr(json, "health", health_names[state->health]);
    put_duration(json, "scrapeInterval", view->target->interval_ns);
    put_duration(json, "scrapeTimeout", state->endpoint->timeout_ns);
    fg_json_end(json);
}

static void put_active(const struct dist_scrape_pool_view *view, void *arg)
{
    for (uint32_t i = 0; i < view->n_scrapes; i++) {
        struct dist_scrape_loop_state state = dist_scrape_loop_state(view->scrapes[i]);

        put_scrape(arg, view, &state);
    }
}

static void put_dropped(const struct dist_scrape_pool_dropped *dropped, void *arg)
{
    struct fg_json_writer *json = arg;

    fg_json_begin_object(json, NULL);
    put_labels(json, "discoveredLabels", dropped->discovered);
    fg_json_put_cstr(json, "scrapePool", dropped->group);
    fg_json_put_cstr(json, "reason", dropped->why);
    fg_json_end(json);
}

static void put_file_error(const char *path, const char *error, void *arg)
{
    struct fg_json_writer *json = arg;

    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "source", "file");
    fg_json_put_cstr(json, "path", path);
    fg_json_put_cstr(json, "state", "not read");
    fg_json_put_cstr(json, "error", error);
    fg_json_end(json);
}

/* Where targets come from, as far as there is something to say: files with faults, and pods. */
static void put_discovery(struct fg_json_writer *json, const struct dist_target_sources *sources)
{
    const char *state, *error;

    fg_json_begin_array(json, "discovery");
    if (sources->files != NULL)
        dist_file_discovery_each_error(sources->files, put_file_error, json);
    if (sources->kubernetes != NULL) {
        state = dist_kubernetes_discovery_state(sources->kubernetes, &error);
        fg_json_begin_object(json, NULL);
        fg_json_put_cstr(json, "source", "kubernetes");
        fg_json_put_cstr(json, "state", state);
        fg_json_put_cstr(json, "error", error == NULL ? "" : error);
        fg_json_end(json);
    }
    fg_json_end(json);
}

void dist_target_list_write(const struct dist_target_sources *sources, unsigned what,
                            struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);
    size_t elsewhere = 0;

    if (sources->targets != NULL)
        elsewhere = dist_scrape_pool_count(sources->targets).elsewhere;
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "status", "success");
    fg_json_begin_object(&json, "data");
    fg_json_begin_array(&json, "activeTargets");
    if (sources->targets != NULL && (what & TARGETS_ACTIVE) != 0)
        dist_scrape_pool_each(sources->targets, put_active, &json);
    fg_json_end(&json);
    fg_json_begin_array(&json, "droppedTargets");
    if (sources->targets != NULL && (what & TARGETS_DROPPED) != 0)
        dist_scrape_pool_each_dropped(sources->targets, put_dropped, &json);
    fg_json_end(&json);
    fg_json_put_u64(&json, "elsewhere", elsewhere);
    put_discovery(&json, sources);
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
}
