#include "querier/rules/expose.h"

#include "common/base/str.h"
#include "common/runtime/metrics.h"

#include <math.h>
#include <stdlib.h>

/* A text that is cut ends in '~' and 16 digits of a hash: shorter than the maximum before it is
 * escaped, and still another one for another text. */
enum { TEXT_MAX_BYTES = 1024, TEXT_KEPT_BYTES = 1000 };

static const double MINUTE_S = 60;

/* ---- texts ---- */

void qry_expose_number(double number, struct fg_buf *out)
{
    char text[40];

    /* IEEE 754: 15 digits keep 0.1 short, and 17 are enough for every double. */
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) /* NOLINT(clang-diagnostic-float-equal): exactly */
            break;
    }
    fg_buf_puts(out, text);
}

static void put_escaped(struct fg_slice text, struct fg_buf *out)
{
    while (text.len > 0) {
        uint32_t rune;
        size_t len = 1;
        bool valid = fg_utf8_next(text, &rune, &len);

        /* The format knows three escapes in label values: \\, \" and \n. */
        if (!valid) {
            len = 1;
            fg_buf_putc(out, '?');
        } else if (rune == '\n') {
            fg_buf_puts(out, "\\n");
        } else {
            if (rune == '\\' || rune == '"')
                fg_buf_putc(out, '\\');
            fg_buf_append(out, text.ptr, len);
        }
        text = fg_slice_sub(text, len, SIZE_MAX);
    }
}

void qry_expose_text(struct fg_slice text, struct fg_buf *out)
{
    if (text.len <= TEXT_MAX_BYTES) {
        put_escaped(text, out);
        return;
    }
    put_escaped(fg_slice_sub(text, 0, TEXT_KEPT_BYTES), out);
    fg_buf_printf(out, "~%016llx", (unsigned long long)fg_hash64(text));
}

static void put_label(const char *name, struct fg_slice value, struct fg_buf *out)
{
    fg_buf_putc(out, ',');
    fg_buf_puts(out, name);
    fg_buf_puts(out, "=\"");
    qry_expose_text(value, out);
    fg_buf_putc(out, '"');
}

/* Appends text of a line: HELP, or a comment. */
static void put_line(struct fg_slice text, struct fg_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        /* HELP takes \\ as a backslash; a line break would end the line. */
        if (text.ptr[i] == '\\')
            fg_buf_putc(out, '\\');
        fg_buf_putc(out, text.ptr[i] == '\n' ? ' ' : text.ptr[i]);
    }
}

/* ---- values ---- */

static void put_help(const struct qry_exposed_rule *exposed, struct fg_buf *out)
{
    const struct qry_rule *rule = exposed->rule;
    const char *name = exposed->message->metric_name;

    fg_buf_printf(out, "# HELP %s ", name);
    put_line(fg_cstr(rule->type_id), out);
    if (rule->share) {
        fg_buf_puts(out, ", share");
    } else {
        fg_buf_puts(out, ", ");
        put_line(rule->type.unit, out);
        if (!rule->instant)
            fg_buf_puts(out, " per second");
    }
    if (rule->kind == QRY_RULE_FUNCTIONS)
        fg_buf_puts(out, rule->self ? ", of functions by themselves"
                                    : ", of functions with all that they call");
    if (rule->kind == QRY_RULE_TOP)
        fg_buf_puts(out, rule->self ? ", of the greatest functions by themselves"
                                    : ", of the greatest functions with all that they call");
    fg_buf_printf(out, "\n# TYPE %s gauge\n", name);
}

/* Writes a series, unless it is a share of nothing. */
static void put_series(const struct qry_exposed_rule *exposed, const struct qry_rule_series *series,
                       bool overflow, int64_t end_ms, struct fg_buf *out)
{
    const Settings__V1__RecordingRule *message = exposed->message;
    bool share = exposed->rule->share;

    if (share && !(fabs(series->whole) > 0))
        return;
    /* Ids are letters only (rule.c), so this text needs no escapes. */
    fg_buf_printf(out, "%s{" RULE_LABEL_ID "=\"%s\"", message->metric_name, message->id);
    for (size_t i = 0; i < message->n_external_labels; i++)
        put_label(message->external_labels[i]->name, fg_cstr(message->external_labels[i]->value),
                  out);
    if (overflow)
        put_label(RULE_LABEL_OVERFLOW, FG_LIT("true"), out);
    for (size_t i = 0; !overflow && i < message->n_group_by; i++) {
        struct fg_slice value = fg_labels_get(&series->labels, message->group_by[i]);

        /* For Prometheus an empty label is an absent one. */
        if (value.len > 0)
            put_label(message->group_by[i], value, out);
    }
    if (series->function.ptr != NULL)
        put_label(RULE_LABEL_FUNCTION, series->function, out);
    fg_buf_puts(out, "} ");
    qry_expose_number(share                    ? series->value / series->whole
                      : exposed->rule->instant ? series->value
                                               : series->value / MINUTE_S,
                      out);
    fg_buf_printf(out, " %lld\n", (long long)end_ms);
}

/* ---- what is to say about rules ---- */

static double is_complete(const struct qry_exposed_rule *exposed)
{
    return exposed->values != NULL;
}

static double evaluated_at(const struct qry_exposed_rule *exposed)
{
    int64_t at_ms = exposed->values->at_wall_ns / FG_MS_NS;

    return (double)at_ms / 1000;
}

static double took(const struct qry_exposed_rule *exposed)
{
    return (double)exposed->values->took_ns / (double)FG_SECOND_NS;
}

static double profiles(const struct qry_exposed_rule *exposed)
{
    return (double)exposed->values->profiles;
}

static double series(const struct qry_exposed_rule *exposed)
{
    return (double)exposed->values->n;
}

static double dropped(const struct qry_exposed_rule *exposed)
{
    return (double)exposed->values->n_rest;
}

static double late(const struct qry_exposed_rule *exposed)
{
    return (double)exposed->values->late;
}

static bool has_values(const struct qry_exposed_rule *exposed)
{
    return exposed->values != NULL;
}

static bool knows_late(const struct qry_exposed_rule *exposed)
{
    return exposed->values != NULL && exposed->values->knows_late;
}

/* clang-format off */
#define HEALTH_METRICS(M)                                                                          \
    M(GAUGE, HEALTH_COMPLETE, HEALTH_NAME("complete"), "1: the rule has values of the minute; 0: it has none, since something was missing") \
    M(GAUGE, HEALTH_TIME,     HEALTH_NAME("last_evaluation_timestamp_seconds"), "When the values of the minute were computed") \
    M(GAUGE, HEALTH_DURATION, HEALTH_NAME("evaluation_duration_seconds"), "Duration of the computation of the values of the minute") \
    M(GAUGE, HEALTH_PROFILES, HEALTH_NAME("profiles"), "Profiles of the minute that the values are made of") \
    M(GAUGE, HEALTH_SERIES,   HEALTH_NAME("series"), "Series of the rule")                          \
    M(GAUGE, HEALTH_DROPPED,  HEALTH_NAME("series_dropped"), "Series that exceed the budget of the tenant or of a rule") \
    M(GAUGE, HEALTH_LATE,     HEALTH_NAME("profiles_late"), "Profiles of the minute ten minutes before that arrived after its values were computed")

#define MINUTE_METRICS(M) \
    M(GAUGE, MINUTE_END, "flamegrid_rule_minute_end_timestamp_seconds", "End of the minute that all values are of")
/* clang-format on */
#define HEALTH_NAME(what) "flamegrid_rule_" what "{" RULE_LABEL_ID "=\"%s\",metric=\"%s\"}"
FG_METRICS_ENUM(health_metric, HEALTH_METRICS)
FG_METRICS_TABLE(health_metrics, HEALTH_METRICS) /* templates */
FG_METRICS_TABLE(minute_metrics, MINUTE_METRICS)

static void put_gauge(int name_len, const struct fg_metric_def *def, struct fg_buf *out)
{
    fg_buf_printf(out, "# HELP %.*s %s\n# TYPE %.*s gauge\n", name_len, def->name, def->help,
                  name_len, def->name);
}

static void put_health(const struct qry_exposed_rule *rules, size_t n, struct fg_buf *out)
{
    static const struct {
        double (*of)(const struct qry_exposed_rule *exposed);
        bool (*is_known)(const struct qry_exposed_rule *exposed); /* NULL: always */
    } gauges[health_metric_count] = {
        [HEALTH_COMPLETE] = {is_complete, NULL}, [HEALTH_TIME] = {evaluated_at, has_values},
        [HEALTH_DURATION] = {took, has_values},  [HEALTH_PROFILES] = {profiles, has_values},
        [HEALTH_SERIES] = {series, has_values},  [HEALTH_DROPPED] = {dropped, has_values},
        [HEALTH_LATE] = {late, knows_late},
    };

    /* Rules in the inner loop: the format wants all lines of a metric together. */
    for (size_t g = 0; g < FG_COUNT(gauges); g++) {
        const int name_len = (int)fg_slice_find(fg_cstr(health_metrics[g].name), '{');

        put_gauge(name_len, &health_metrics[g], out);
        for (size_t i = 0; i < n; i++) {
            if (gauges[g].is_known != NULL && !gauges[g].is_known(&rules[i]))
                continue;
            fg_buf_printf(out, "%.*s{" RULE_LABEL_ID "=\"", name_len, health_metrics[g].name);
            qry_expose_text(fg_cstr(rules[i].message->id), out);
            fg_buf_putc(out, '"');
            put_label("metric", fg_cstr(rules[i].message->metric_name), out);
            fg_buf_puts(out, "} ");
            qry_expose_number(gauges[g].of(&rules[i]), out);
            fg_buf_putc(out, '\n');
        }
    }
}

void qry_expose(const struct qry_exposed_rule *rules, size_t n, int64_t minute_ns,
                struct fg_buf *out)
{
    int64_t end_ms = (minute_ns + FG_MINUTE_NS) / FG_MS_NS, end_s = end_ms / 1000;
    const char *last = "";

    for (size_t i = 0; i < n; i++) {
        const struct qry_rule_values *values;

        if (rules[i].values == NULL) {
            fg_buf_puts(out, "# ");
            put_line(fg_cstr(rules[i].error), out);
            fg_buf_putc(out, '\n');
            continue;
        }
        /* Several rules may share a metric, and HELP and TYPE may stand only once. */
        if (strcmp(last, rules[i].message->metric_name) != 0)
            put_help(&rules[i], out);
        last = rules[i].message->metric_name;
        values = rules[i].values;
        for (size_t s = 0; s < values->n; s++)
            put_series(&rules[i], &values->items[s], false, end_ms, out);
        /* The rest of a rule of the greatest has a number of groups, but no value (evaluate.h). */
        if (values->n_rest > 0 && rules[i].rule->kind != QRY_RULE_TOP)
            put_series(&rules[i], &values->rest, true, end_ms, out);
    }
    put_gauge((int)strlen(minute_metrics[0].name), &minute_metrics[0], out);
    fg_buf_printf(out, "%s ", minute_metrics[0].name);
    qry_expose_number((double)end_s, out);
    fg_buf_putc(out, '\n');
    put_health(rules, n, out);
}
