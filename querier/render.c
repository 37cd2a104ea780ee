#include "querier/render.h"

#include "common/base/map.h"
#include "common/base/str.h"
#include "common/base/timespec.h"
#include "common/model/dot.h"
#include "common/model/drawing.h"
#include "common/model/flame.h"
#include "common/model/sandwich.h"
#include "querier/collect.h"
#include "querier/flame_json.h"
#include "querier/flamegraph.h"
#include "querier/function_match.h"
#include "querier/pprof.h"
#include "querier/reply.h"

#define RENDER "/pyroscope/render"

enum {
    TIMELINE_POINTS = 1500, /* of a timeline, before its step is rounded */
    RATE_DIGITS = 3,
    TIMELINE_STEP_MIN_S = 15,      /* agents send every 10 s or so: finer steps would have gaps */
    TIMELINE_SAMPLES_MAX = 100000, /* the largest step is a year: bounds ranges of centuries */
};

/* --- parameters --- */

/* Reads the names into the request's arena, since few requests have any. */
static void read_call_site(struct fg_http_request *req, struct qry_render_params *params)
{
    struct fg_slice *names;
    size_t n = fg_http_params(req, "callSite", NULL, 0);

    if (n == 0)
        return;
    params->n_call_site = n;
    names = fg_arena_new(fg_http_arena(req), struct fg_slice, FG_MIN(n, (size_t)CALL_SITE_MAX));
    if (names == NULL || fg_http_params(req, "callSite", names, CALL_SITE_MAX) != n)
        return; /* the arena is full: read_parts() refuses the request */
    params->call_site = names;
}

void qry_render_read_params(struct fg_http_request *req, struct qry_render_params *ret_params)
{
    struct qry_render_params found = {0}, *params = &found;
    const struct {
        const char *name;
        struct fg_slice *into;
    } wanted[] = {
        {"query", &params->query},
        {"from", &params->from},
        {"until", &params->until},
        {"max-nodes", &params->max_nodes},
        {"format", &params->format},
        {"leftQuery", &params->left_query},
        {"leftFrom", &params->left_from},
        {"leftUntil", &params->left_until},
        {"rightQuery", &params->right_query},
        {"rightFrom", &params->right_from},
        {"rightUntil", &params->right_until},
        {"label", &params->label},
        {"limit", &params->limit},
        {"page", &params->page},
        {"function", &params->function},
        {"regex", &params->regex},
        {"sort", &params->sort},
        {"name", &params->name},
        {"type", &params->type},
        {"prefix", &params->prefix},
        {"growth", &params->growth},
        {"counts", &params->counts},
        {"by", &params->by},
        {"instance", &params->instance},
        {"min_share", &params->min_share},
        {"q", &params->q},
        {"show", &params->show},
    };

    for (size_t i = 0; i < FG_COUNT(wanted); i++)
        *wanted[i].into = fg_http_param(req, wanted[i].name);
    params->n_group_by = FG_MIN(fg_http_params(req, "groupBy", params->group_by, RENDER_GROUPS_MAX),
                                (size_t)RENDER_GROUPS_MAX);
    read_call_site(req, params);
    struct fg_slice max_nodes = fg_http_param(req, "maxNodes");
    if (max_nodes.ptr != NULL)
        params->max_nodes = max_nodes;
    params->path = fg_http_path(req);
    params->body = fg_http_body(req);
    params->method = fg_http_method(req);
    *ret_params = found;
}

/* Reads a time; an empty or malformed one is now. */
static int64_t read_time_ms(struct fg_slice text, int64_t now_ns)
{
    int64_t ns = now_ns;

    if (!fg_timespec_parse(text, now_ns, &ns))
        ns = now_ns;
    return ns / FG_MS_NS;
}

/* Reads a number of nodes; a missing or malformed one is 0. */
static int64_t read_nodes(struct fg_slice text)
{
    int64_t asked;

    return fg_parse_i64(text, &asked) ? asked : 0;
}

/* Rounds a step to what people read easily, as Grafana does with its intervals. */
static int64_t timeline_step_s(int64_t start_ms, int64_t end_ms)
{
    static const struct {
        int64_t below_ms, step_s;
    } steps[] = {
        {17500, 15},          {25000, 20},           {45000, 30},       {90000, 60},
        {210000, 120},        {450000, 300},         {750000, 600},     {1050000, 900},
        {1500000, 1200},      {2700000, 1800},       {5400000, 3600},   {9000000, 7200},
        {16200000, 10800},    {32400000, 21600},     {86400000, 43200}, {604800000, 86400},
        {1814400000, 604800}, {3628800000, 2592000},
    };
    int64_t range_ms = end_ms - start_ms;
    int64_t exact_ms = FG_MAX(range_ms / TIMELINE_POINTS, INT64_C(1000) * TIMELINE_STEP_MIN_S);

    for (size_t i = 0; i < FG_COUNT(steps); i++)
        if (exact_ms <= steps[i].below_ms)
            return steps[i].step_s;
    return INT64_C(365) * 86400;
}

/* --- writing --- */

struct timeline {
    int64_t start_ms, end_ms; /* as asked for */
    int64_t step_s;
    struct fg_slice unit;
    const char *rate_unit; /* empty: values have no rates */
    bool statistics;       /* wanted as well: unit, covered time and rates */
};

static int64_t round_down(int64_t value, int64_t step)
{
    int64_t rest = value % step;

    return value - (rest < 0 ? rest + step : rest);
}

/* Writes what the samples are for each second for which there are profiles. */
static void write_rates(struct fg_json_writer *json, const int64_t *samples,
                        const int64_t *covered_ns, size_t n)
{
    fg_json_begin_array(json, "rates");
    for (size_t i = 0; i < n; i++)
        if (covered_ns[i] > 0)
            fg_json_put_fixed(json, NULL,
                              (double)samples[i] / ((double)covered_ns[i] / FG_SECOND_NS),
                              RATE_DIGITS);
        else
            fg_json_put_null(json, NULL);
    fg_json_end(json);
}

/* Says what the samples are of, and for how long there are any. */
static void write_facts(struct fg_json_writer *json, const struct timeline *timeline,
                        const int64_t *samples, const int64_t *covered_ns, size_t n)
{
    double covered_s = 0;

    fg_json_put_text(json, "unit", timeline->unit);
    if (timeline->rate_unit[0] != '\0') {
        write_rates(json, samples, covered_ns, n);
        fg_json_put_cstr(json, "rate_unit", timeline->rate_unit);
    }
    for (size_t i = 0; i < n; i++)
        covered_s += (double)covered_ns[i] / FG_SECOND_NS;
    fg_json_put_fixed(json, "covered", covered_s, RATE_DIGITS);
}

/* Writes a timeline: one value for each step of [start, end), both rounded down. series NULL:
 * zeros. */
static void write_timeline(struct fg_json_writer *json, const char *key,
                           const struct timeline *timeline, const struct qry_points *series)
{
    int64_t step = timeline->step_s;
    int64_t start = round_down(timeline->start_ms / 1000, step);
    int64_t end = round_down(timeline->end_ms / 1000, step);
    int64_t n = FG_MIN((end - start) / step, TIMELINE_SAMPLES_MAX);
    int64_t *samples, *covered_ns;

    fg_assert(n >= 0); /* qry_selection_range() has refused others */
    /* + 1, since n may be 0. */
    samples = fg_calloc((size_t)n + 1, sizeof *samples);
    covered_ns = fg_calloc((size_t)n + 1, sizeof *covered_ns);
    for (size_t i = 0; series != NULL && i < series->n; i++) {
        int64_t at_s = qry_point_ms(&series->items[i], timeline->start_ms, step * 1000) / 1000;
        int64_t index = (at_s - start) / step;

        /* The grid of points begins at the start that was asked for, the timeline at the rounded
         * one: a point at an end may be outside. */
        if (index < 0 || index >= n)
            continue;
        samples[index] = fg_value_add(samples[index], series->items[i].sum);
        if (series->covered_ns != NULL)
            covered_ns[index] = fg_value_add(covered_ns[index], series->covered_ns[i]);
    }
    fg_json_begin_object(json, key);
    fg_json_put_i64(json, "startTime", start);
    qry_flame_json_numbers(json, "samples", samples, (size_t)n);
    fg_json_put_i64(json, "durationDelta", step);
    fg_json_put_null(json, "watermarks");
    if (timeline->statistics)
        write_facts(json, timeline, samples, covered_ns, (size_t)n);
    fg_json_end(json);
    free(samples);
    free(covered_ns);
}

static struct fg_slice group_key(const struct qry_points *series, const char *label)
{
    struct fg_slice value = fg_labels_get(&series->labels, label);

    return value.len > 0 ? value : FG_LIT("*");
}

/* Returns whether no series that was noted has the value of this one, and notes it. */
static bool note_key(struct fg_map *noted, const struct qry_points *series, uint32_t number,
                     const char *label)
{
    struct fg_slice key = group_key(&series[number], label);
    uint64_t hash = fg_hash64_table(key);
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(noted, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(noted, &walk))
        if (fg_slice_eq(group_key(&series[i], label), key))
            return false;
    fg_map_add(noted, hash, number);
    return true;
}

/* Writes a timeline for each value of the first label. Of several series with one value the last
 * counts, as clients expect. */
static void write_groups(struct fg_json_writer *json, const struct timeline *timeline,
                         const struct qry_points *series, size_t n, const char *label)
{
    bool *is_last = fg_calloc(FG_MAX(n, (size_t)1), sizeof *is_last);
    struct fg_map last;

    /* Backwards, so that the first one of a value that is found is its last. */
    fg_map_init(&last);
    for (size_t i = n; i-- > 0;)
        is_last[i] = note_key(&last, series, (uint32_t)i, label);
    fg_map_done(&last);
    fg_json_begin_object(json, "groups");
    for (size_t i = 0; i < n && !json->out->full; i++) {
        if (!is_last[i])
            continue;
        fg_json_put_key(json, group_key(&series[i], label));
        write_timeline(json, NULL, timeline, &series[i]);
    }
    fg_json_end(json);
    free(is_last);
}

static enum fg_code finish(struct qry_query *query, struct fg_err *err)
{
    if (query->body.full)
        return fg_fail(err, FG_E_LIMIT,
                       "the response exceeds %llu bytes (querier.answer_max_bytes)",
                       (unsigned long long)query->querier->answer_max_bytes);
    return FG_OK;
}

/* --- /pyroscope/render --- */

/* Which nodes a form shows. */
enum form_nodes {
    FORM_CUT_NODES, /* max-nodes, or the default */
    FORM_ALL_NODES, /* all, unless max-nodes says fewer: a file for other programs */
    FORM_FUNCTIONS, /* it chooses functions by itself, from all nodes; max-nodes is their number */
};

struct render;

/* A form other than flamebearer JSON. */
struct render_form {
    const char *name; /* of the parameter `format` */
    const char *content_type;
    enum form_nodes nodes;
    bool located; /* with addresses, lines and files */
    void (*write)(const struct render *render, const struct qry_query *query, struct fg_buf *out);
};

struct render {
    const struct render_form *form; /* NULL: flamebearer JSON */
    struct qry_selection selection;
    struct timeline timeline;
    struct fg_tree tree; /* to be drawn */
    struct qry_points *series;
    size_t n_series;
    size_t max_nodes; /* 0: all, or of functions as many as the form has by itself */
    char *group_by[RENDER_GROUPS_MAX];
    size_t n_group_by;
    struct qry_stack_filter stacks; /* only those below a call site */
    bool focused;                   /* only what the functions of `focus` call, and they */
    struct qry_function_match focus;
};

/* Reads which part of the flame graph is meant. */
static enum fg_code read_parts(struct qry_query *query, struct render *render, struct fg_err *err)
{
    const struct qry_render_params *params = &query->params;
    struct qry_stack_filter *stacks = &render->stacks;

    if (params->n_call_site > CALL_SITE_MAX)
        return fg_fail(err, FG_E_INVALID, "callSite: %zu functions are more than %d",
                       params->n_call_site, CALL_SITE_MAX);
    if (params->n_call_site > 0) {
        stacks->call_site = fg_arena_new(query->arena, const char *, params->n_call_site);
        if (stacks->call_site == NULL || params->call_site == NULL)
            return qry_query_too_large(err);
    }
    for (size_t i = 0; i < params->n_call_site; i++) {
        const char *name = fg_arena_text(query->arena, params->call_site[i]);

        if (name == NULL)
            return qry_query_too_large(err);
        stacks->call_site[stacks->n_call_site++] = name;
    }
    if (params->function.len == 0 && params->regex.len == 0)
        return FG_OK;
    render->focused = true;
    return qry_function_match_read(query, params->function, params->regex, &render->focus, err);
}

static enum fg_code read_max_nodes(struct qry_query *query, struct render *render,
                                   struct fg_err *err)
{
    int64_t asked = read_nodes(query->params.max_nodes);

    if (render->form != NULL && render->form->nodes == FORM_ALL_NODES)
        return qry_pprof_max_nodes(asked, &render->max_nodes, err);
    if (qry_selection_max_nodes(asked, &render->max_nodes, err) != FG_OK)
        return err->code;
    if (render->form != NULL && render->form->nodes == FORM_FUNCTIONS)
        render->max_nodes = (size_t)asked;
    return FG_OK;
}

static enum fg_code read_render(struct qry_query *query, struct render *render, struct fg_err *err)
{
    const struct qry_render_params *params = &query->params;
    int64_t now_ns = fg_wall_ns(query->querier->clock);
    struct timeline *timeline = &render->timeline;

    if (qry_selection_parse(query, &render->selection, params->query, "query", err) != FG_OK ||
        read_max_nodes(query, render, err) != FG_OK || read_parts(query, render, err) != FG_OK)
        return err->code;
    timeline->start_ms = read_time_ms(params->from, now_ns);
    timeline->end_ms = read_time_ms(params->until, now_ns);
    for (size_t i = 0; i < params->n_group_by; i++) {
        render->group_by[i] = fg_arena_text(query->arena, params->group_by[i]);
        if (render->group_by[i] == NULL)
            return fg_fail(err, FG_E_LIMIT, "query is too long");
    }
    render->n_group_by = params->n_group_by;
    if (qry_selection_range(query, &render->selection, timeline->start_ms, timeline->end_ms, err) !=
        FG_OK)
        return err->code;
    timeline->step_s = timeline_step_s(timeline->start_ms, timeline->end_ms);
    timeline->unit = render->selection.type.unit;
    timeline->statistics = query->statistics;
    timeline->rate_unit = qry_selection_rate_unit(query, &render->selection);
    return timeline->rate_unit == NULL ? qry_query_too_large(err) : FG_OK;
}

static enum fg_code write_render(const struct render *render, struct qry_query *query,
                                 struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&query->body);
    struct fg_flame flame;

    fg_flame_make(&render->tree, render->max_nodes, &flame);
    fg_json_begin_object(&json, NULL);
    fg_json_put_u64(&json, "version", 1);
    qry_flame_json(&(struct qry_flame_parts){flame.names, flame.n_names, flame.values,
                                             flame.level_ends, flame.n_levels, flame.total,
                                             flame.max_self},
                   "flamebearer", &json);
    fg_flame_done(&flame);
    qry_flame_json_metadata(&(struct qry_flame_metadata){"single", "", render->selection.type.type,
                                                         render->selection.type.unit},
                            &json);
    write_timeline(&json, "timeline", &render->timeline,
                   render->n_series == 1 ? render->series : NULL);
    if (render->n_group_by > 0)
        write_groups(&json, &render->timeline, render->series, render->n_series,
                     render->group_by[0]);
    else
        fg_json_put_null(&json, "groups");
    fg_json_put_null(&json, "heatmap");
    return qry_reply_end_json(query, &json, err);
}

/* ---- forms other than flamebearer JSON ---- */

static void write_dot(const struct render *render, const struct qry_query *query,
                      struct fg_buf *out)
{
    (void)query;
    fg_dot_write(&render->tree, &render->selection.type, render->selection.end_ns,
                 render->max_nodes, out);
}

static void write_folded(const struct render *render, const struct qry_query *query,
                         struct fg_buf *out)
{
    (void)query;
    fg_flame_write_folded(&render->tree, out);
}

static void write_speedscope(const struct render *render, const struct qry_query *query,
                             struct fg_buf *out)
{
    fg_drawing_speedscope(&render->tree, query->params.query, render->selection.type.unit, out);
}

static void write_firefox(const struct render *render, const struct qry_query *query,
                          struct fg_buf *out)
{
    fg_drawing_firefox(&render->tree,
                       &(struct fg_drawing_range){query->params.query, render->selection.start_ns,
                                                  render->selection.end_ns},
                       &render->selection.type, out);
}

static void write_svg(const struct render *render, const struct qry_query *query,
                      struct fg_buf *out)
{
    fg_drawing_svg(&render->tree, query->params.query, render->selection.type.unit,
                   render->max_nodes, out);
}

static void write_pprof(const struct render *render, const struct qry_query *query,
                        struct fg_buf *out)
{
    (void)query;
    qry_pprof_write(&render->tree, &render->selection, NULL, render->max_nodes, out);
}

static void write_go_pgo(const struct render *render, const struct qry_query *query,
                         struct fg_buf *out)
{
    /* As `profilecli query go-pgo` asks for it. */
    static const struct qry_go_pgo pgo = {.keep_locations = 5, .aggregate_callees = true};

    (void)query;
    qry_pprof_write(&render->tree, &render->selection, &pgo, render->max_nodes, out);
}

static const struct render_form render_forms[] = {
    {"dot", "text/plain; charset=utf-8", FORM_FUNCTIONS, false, write_dot},
    {"firefox", "application/json", FORM_ALL_NODES, false, write_firefox},
    {"folded", "text/plain; charset=utf-8", FORM_ALL_NODES, false, write_folded},
    {"goPgo", "application/octet-stream", FORM_ALL_NODES, true, write_go_pgo},
    {"pprof", "application/octet-stream", FORM_ALL_NODES, true, write_pprof},
    {"speedscope", "application/json", FORM_ALL_NODES, false, write_speedscope},
    {"svg", "image/svg+xml", FORM_CUT_NODES, false, write_svg},
};

/* NULL: flamebearer JSON, which is also the answer to a form that is unknown, as in Pyroscope. */
static const struct render_form *find_form(struct fg_slice name)
{
    for (size_t i = 0; i < FG_COUNT(render_forms); i++)
        if (fg_slice_is(name, render_forms[i].name))
            return &render_forms[i];
    return NULL;
}

bool qry_render_is_binary(const struct qry_render_params *params)
{
    const struct render_form *form = find_form(params->format);

    return fg_slice_is(params->path, RENDER) && form != NULL && form->located;
}

/* Collects the stacks of functions. A focus looks at all nodes, since the functions
 * that are meant may be anywhere. */
static enum fg_code collect_functions(struct qry_query *query, struct render *render,
                                      struct fg_err *err)
{
    enum form_nodes nodes = render->form != NULL ? render->form->nodes : FORM_CUT_NODES;
    bool all = nodes != FORM_CUT_NODES || render->focused;
    /* Only flamebearer JSON is to be as in Pyroscope. */
    bool fold = render->form == NULL && !render->focused;

    if (qry_flamegraph_make(query, &render->selection, &render->stacks,
                            all ? FG_FLAME_NODES_MAX : render->max_nodes, fold, &render->tree,
                            err) != FG_OK)
        return err->code;
    if (render->focused) {
        struct fg_tree whole = render->tree;
        struct fg_sandwich sandwich;

        /* Leaves only the functions that are meant and what they call. */
        fg_sandwich_make(&whole, qry_function_match_is, &render->focus, &sandwich);
        render->tree = sandwich.callees;
        fg_tree_init(&sandwich.callees);
        fg_sandwich_done(&sandwich);
        fg_tree_done(&whole);
    }
    if (nodes == FORM_ALL_NODES && render->max_nodes > 0) {
        struct fg_tree whole = render->tree;

        fg_tree_init(&render->tree);
        fg_tree_truncate(&whole, render->max_nodes, &render->tree);
        fg_tree_done(&whole);
    }
    return FG_OK;
}

static enum fg_code collect_tree(struct qry_query *query, struct render *render, struct fg_err *err)
{
    if (render->form == NULL || !render->form->located)
        return collect_functions(query, render, err);
    /* Inlined functions have no place of their own in a location. */
    if (render->focused)
        return fg_fail(err, FG_E_INVALID,
                       "function and regex: not with format=%s, whose stacks are of locations",
                       render->form->name);
    query->exported = true;
    return qry_collect_tree(query, &render->selection, &render->stacks, false, &render->tree, err);
}

/* Collects the timeline, which is one of the same profiles once more. */
static enum fg_code collect_timeline(struct qry_query *query, struct render *render,
                                     struct fg_err *err)
{
    const struct qry_counted counted = qry_query_counted(query);

    if (qry_collect_rates(query, &render->selection, render->timeline.step_s * FG_SECOND_NS,
                          render->group_by, render->n_group_by, &render->series, &render->n_series,
                          err) != FG_OK)
        return err->code;
    qry_query_count_back(query, counted);
    qry_points_order(render->series, &render->n_series, 0);
    return FG_OK;
}

static enum fg_code answer_render(struct qry_query *query, struct render *render,
                                  struct fg_err *err)
{
    const struct render_form *form = render->form = find_form(query->params.format);

    if (read_render(query, render, err) != FG_OK || collect_tree(query, render, err) != FG_OK ||
        qry_query_check(query, err) != FG_OK)
        return err->code;
    query->empty = render->tree.n_nodes == 0;
    if (form != NULL) {
        form->write(render, query, &query->body);
        query->content_type = query->body.len > 0 ? form->content_type : "text/plain";
        return finish(query, err);
    }
    if (collect_timeline(query, render, err) != FG_OK)
        return err->code;
    return write_render(render, query, err);
}

static enum fg_code render(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    struct render render = {0};

    (void)in;
    fg_tree_init(&render.tree);
    enum fg_code code = answer_render(query, &render, err);
    fg_tree_done(&render.tree);
    qry_function_match_done(&render.focus);
    qry_selection_done(&render.selection);
    return code;
}

/* --- /pyroscope/render-diff --- */

struct side_params {
    struct fg_slice query, from, until;
    const char *name; /* of the parameter */
};

static enum fg_code read_side(struct qry_query *query, const struct side_params *params,
                              struct qry_side *side, struct fg_err *err)
{
    static const struct qry_stack_filter all;
    int64_t now_ns = fg_wall_ns(query->querier->clock);

    side->stacks = &all;
    if (qry_selection_parse(query, &side->selection, params->query, params->name, err) != FG_OK)
        return err->code;
    return qry_selection_range(query, &side->selection, read_time_ms(params->from, now_ns),
                               read_time_ms(params->until, now_ns), err);
}

static enum fg_code write_diff(const struct fg_profile_type *type, const struct qry_diff *diff,
                               struct qry_query *query, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&query->body);

    fg_json_begin_object(&json, NULL);
    fg_json_put_u64(&json, "version", 1);
    qry_flame_json(&(struct qry_flame_parts){diff->names, diff->n_names, diff->values,
                                             diff->level_ends, diff->n_levels,
                                             fg_value_add(diff->left_ticks, diff->right_ticks),
                                             diff->max_self},
                   "flamebearer", &json);
    qry_flame_json_metadata(&(struct qry_flame_metadata){"double", "", type->type, type->unit},
                            &json);
    fg_json_put_null(&json, "timeline");
    fg_json_put_null(&json, "groups");
    fg_json_put_null(&json, "heatmap");
    /* As Pyroscope: a tick count of 0 is left out. */
    if (diff->left_ticks != 0)
        fg_json_put_i64(&json, "leftTicks", diff->left_ticks);
    if (diff->right_ticks != 0)
        fg_json_put_i64(&json, "rightTicks", diff->right_ticks);
    return qry_reply_end_json(query, &json, err);
}

static enum fg_code answer_diff(struct qry_query *query, struct qry_side sides[2],
                                struct fg_err *err)
{
    const struct qry_render_params *params = &query->params;
    struct side_params left = {params->left_query, params->left_from, params->left_until,
                               "leftQuery"};
    struct side_params right = {params->right_query, params->right_from, params->right_until,
                                "rightQuery"};
    struct qry_diff diff;
    size_t max_nodes;

    if (read_side(query, &left, &sides[0], err) != FG_OK ||
        read_side(query, &right, &sides[1], err) != FG_OK)
        return err->code;
    /* Nanoseconds and bytes have nothing to compare. */
    if (!fg_profile_type_eq(&sides[0].selection.type, &sides[1].selection.type))
        return fg_fail(err, FG_E_INVALID, "profile types must match");
    if (qry_selection_max_nodes(read_nodes(params->max_nodes), &max_nodes, err) != FG_OK)
        return err->code;
    enum fg_code code = qry_flamegraph_diff(query, &sides[0], &sides[1], max_nodes, &diff, err);
    if (code == FG_OK)
        code = write_diff(&sides[0].selection.type, &diff, query, err);
    qry_diff_done(&diff);
    return code;
}

static enum fg_code render_diff(struct qry_query *query, const ProtobufCMessage *in,
                                struct fg_err *err)
{
    struct qry_side sides[2] = {0};
    enum fg_code code = answer_diff(query, sides, err);

    (void)in;
    qry_selection_done(&sides[0].selection);
    qry_selection_done(&sides[1].selection);
    return code;
}

/* --- /pyroscope/label-values --- */

static void write_types(const struct qry_label_sets *sets, struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);
    bool any = false;

    for (size_t i = 0; i < sets->n; i++) {
        struct fg_slice id = fg_labels_get(&sets->items[i], FG_LABEL_PROFILE_TYPE);

        if (id.len == 0)
            continue;
        if (!any)
            fg_json_begin_array(&json, NULL);
        any = true;
        fg_json_put_text(&json, NULL, id);
    }
    if (any)
        fg_json_end(&json);
    else
        fg_json_put_null(&json, NULL);
    fg_buf_putc(out, '\n');
}

/* Answers with the profile types of the last hour. The route has no parameters for a time range, so
 * other labels are refused. */
static enum fg_code render_label_values(struct qry_query *query, const ProtobufCMessage *in,
                                        struct fg_err *err)
{
    static const char *const names[] = {FG_LABEL_PROFILE_TYPE};
    struct qry_selection selection = {.end_ns = fg_wall_ns(query->querier->clock)};
    struct qry_label_sets sets;

    (void)in;
    if (query->params.label.len == 0)
        return fg_fail(err, FG_E_INVALID, "label parameter is required");
    if (!fg_slice_is(query->params.label, FG_LABEL_NAME))
        return fg_fail(err, FG_E_INVALID, "missing time range in the query");
    selection.start_ns = selection.end_ns - FG_HOUR_NS;
    qry_label_sets_init(&sets);
    enum fg_code code = qry_selection_restrict(query, &selection, err);
    if (code == FG_OK)
        code = qry_collect_series(query, &selection, names, FG_COUNT(names), &sets, err);
    qry_selection_done(&selection);
    if (code == FG_OK)
        write_types(&sets, &query->body);
    qry_label_sets_done(&sets);
    return code != FG_OK ? code : finish(query, err);
}

const struct qry_endpoint qry_render_endpoints[] = {
    {RENDER, "render", NULL, render, 0, false},
    {"/pyroscope/render-diff", "render_diff", NULL, render_diff, 0, false},
    {"/pyroscope/label-values", "render_label_values", NULL, render_label_values, 0, false},
};
const size_t qry_n_render_endpoints = FG_COUNT(qry_render_endpoints);
