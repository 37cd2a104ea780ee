#include "distributor/scrape/status_page.h"

#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/runtime/config.h"

#include <time.h>

enum { LABELS_MAX_BYTES = 64 * 1024 }; /* of a set in HTML; more are cut off */

static const char *const health_names[] = {
    [SCRAPE_HEALTH_UNKNOWN] = "unknown",
    [SCRAPE_HEALTH_UP] = "up",
    [SCRAPE_HEALTH_DOWN] = "down",
};

/* ---- JSON ---- */

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

void dist_status_write_json(const struct dist_status_sources *sources, unsigned what,
                            struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);

    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "status", "success");
    fg_json_begin_object(&json, "data");
    fg_json_begin_array(&json, "activeTargets");
    if (sources->targets != NULL && (what & STATUS_ACTIVE) != 0)
        dist_scrape_pool_each(sources->targets, put_active, &json);
    fg_json_end(&json);
    fg_json_begin_array(&json, "droppedTargets");
    if (sources->targets != NULL && (what & STATUS_DROPPED) != 0)
        dist_scrape_pool_each_dropped(sources->targets, put_dropped, &json);
    fg_json_end(&json);
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
}

/* ---- HTML ---- */

struct html {
    struct fg_buf *out;
    int64_t wall_ns;
    unsigned by_health[FG_COUNT(health_names)];
};

static void put_text(struct fg_buf *out, const char *text)
{
    fg_buf_html(out, fg_cstr(text));
}

static void put_cell(struct fg_buf *out, const char *text)
{
    fg_buf_puts(out, "<td>");
    put_text(out, text);
}

static void put_label_set(struct fg_buf *out, const struct fg_labels *labels)
{
    struct fg_buf text;

    fg_buf_init(&text, LABELS_MAX_BYTES);
    fg_labels_write(labels, &text);
    fg_buf_html(out, fg_buf_slice(&text));
    fg_buf_done(&text);
}

static void put_ago(struct fg_buf *out, int64_t now_ns, int64_t then_ns)
{
    if (then_ns == 0)
        fg_buf_puts(out, "<td>never");
    else
        fg_buf_printf(out, "<td>%.1f s ago", (double)(now_ns - then_ns) / (double)FG_SECOND_NS);
}

static void put_row(struct html *html, const struct dist_scrape_loop_state *state)
{
    struct fg_buf *out = html->out;

    fg_buf_printf(out, "<tr class=%s>", health_names[state->health]);
    put_cell(out, state->endpoint->kind->name);
    /* The scheme is http or https, so that the link cannot be a script. */
    fg_buf_puts(out, "<td><a rel=noreferrer href=\"");
    put_text(out, state->endpoint->url);
    fg_buf_puts(out, "\">");
    put_text(out, state->endpoint->url);
    fg_buf_puts(out, "</a>");
    put_cell(out, health_names[state->health]);
    put_ago(out, html->wall_ns, state->last_wall_ns);
    fg_buf_printf(out, "<td>%.3f s<td>%llu", (double)state->last_duration_ns / (double)FG_SECOND_NS,
                  (unsigned long long)state->last_bytes);
    put_cell(out, state->error == NULL ? "" : state->error);
    fg_buf_putc(out, '\n');
}

static void put_target(const struct dist_scrape_pool_view *view, void *arg)
{
    struct html *html = arg;
    struct fg_buf *out = html->out;

    fg_buf_puts(out, "<h2>");
    put_text(out, view->target->address);
    fg_buf_puts(out, "</h2>\n<p>");
    put_text(out, view->group);
    fg_buf_puts(out, " &middot; every ");
    fg_conf_write_duration(view->target->interval_ns, out);
    fg_buf_puts(out, " &middot; ");
    put_label_set(out, &view->target->labels);
    fg_buf_puts(out, "\n<table>\n<tr><th>profile<th>URL<th>health<th>last scrape<th>duration"
                     "<th>bytes<th>error\n");
    for (uint32_t i = 0; i < view->n_scrapes; i++) {
        struct dist_scrape_loop_state state = dist_scrape_loop_state(view->scrapes[i]);

        put_row(html, &state);
    }
    fg_buf_puts(out, "</table>\n");
}

static void count_health(const struct dist_scrape_pool_view *view, void *arg)
{
    struct html *html = arg;

    for (uint32_t i = 0; i < view->n_scrapes; i++)
        html->by_health[dist_scrape_loop_state(view->scrapes[i]).health]++;
}

static void put_dropped_row(const struct dist_scrape_pool_dropped *dropped, void *arg)
{
    struct html *html = arg;

    fg_buf_puts(html->out, "<tr>");
    put_cell(html->out, dropped->group);
    put_cell(html->out, dropped->why);
    fg_buf_puts(html->out, "<td>");
    put_label_set(html->out, dropped->discovered);
    fg_buf_putc(html->out, '\n');
}

static void put_file_error(const char *path, const char *error, void *arg)
{
    struct html *html = arg;

    (void)path; /* the error names it */
    fg_buf_puts(html->out, "<p class=down>");
    put_text(html->out, error);
    fg_buf_putc(html->out, '\n');
}

static void put_sources(struct html *html, const struct dist_status_sources *sources)
{
    const char *state, *error;

    if (sources->files != NULL)
        dist_file_discovery_each_error(sources->files, put_file_error, html);
    if (sources->kubernetes == NULL)
        return;
    state = dist_kubernetes_discovery_state(sources->kubernetes, &error);
    fg_buf_puts(html->out, error == NULL ? "<p>Kubernetes: " : "<p class=down>Kubernetes: ");
    put_text(html->out, state);
    if (error != NULL) {
        fg_buf_puts(html->out, "; ");
        put_text(html->out, error);
    }
    fg_buf_putc(html->out, '\n');
}

static void put_targets(struct html *html, struct dist_scrape_pool *targets)
{
    struct dist_scrape_pool_counts counts = dist_scrape_pool_count(targets);

    dist_scrape_pool_each(targets, count_health, html);
    fg_buf_printf(html->out,
                  "<p>%zu targets with %u profiles up, %u down and %u unknown. "
                  "%zu targets are dropped, %zu are scraped by other distributors.\n",
                  counts.active, html->by_health[SCRAPE_HEALTH_UP],
                  html->by_health[SCRAPE_HEALTH_DOWN], html->by_health[SCRAPE_HEALTH_UNKNOWN],
                  counts.dropped, counts.elsewhere);
    dist_scrape_pool_each(targets, put_target, html);
    if (counts.dropped == 0)
        return;
    fg_buf_puts(html->out,
                "<h2>Dropped</h2>\n<table>\n<tr><th>source<th>reason<th>discovered labels\n");
    dist_scrape_pool_each_dropped(targets, put_dropped_row, html);
    fg_buf_puts(html->out, "</table>\n");
}

void dist_status_write_html(const struct dist_status_sources *sources, int64_t wall_ns,
                            struct fg_buf *out)
{
    struct html html = {.out = out, .wall_ns = wall_ns};

    fg_buf_puts(out,
                "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n"
                "<meta name=viewport content=\"width=device-width\">\n<title>Targets</title>\n"
                "<style>:root{color-scheme:light dark}body{font:14px sans-serif;margin:1em 2em}"
                "table{border-collapse:collapse}"
                "th,td{text-align:left;padding:.2em .8em .2em 0;vertical-align:top;"
                "border-bottom:1px solid #8884}"
                "h2{font-size:1.1em;margin:1.5em 0 .2em}p{margin:.3em 0}"
                ".down{color:#d33}.unknown{opacity:.7}</style>\n<h1>Targets</h1>\n");
    put_sources(&html, sources);
    if (sources->targets != NULL)
        put_targets(&html, sources->targets);
    else
        fg_buf_puts(out, "<p>Nothing is scraped: set scrape.targets, scrape.files or "
                         "scrape.kubernetes.pods. If one is set, the server is not ready yet.\n");
}
