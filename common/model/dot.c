#include "common/model/dot.h"

#include "common/base/time.h"
#include "common/model/call_graph.h"
#include "common/model/regex.h"
#include "common/model/value_text.h"

#include <math.h>
#include <time.h>

enum { FONT_MIN = 8, FONT_GROWTH = 16, SHORT_PARTS_MAX = 3 };

/* A drawing on its way. */
struct dot_drawing {
    struct fg_call_graph graph;
    const struct fg_profile_type *type;
    struct fg_regex *versions;   /* of Go modules: two groups around a version */
    struct fg_regex *shorten[3]; /* group 1: what stays of a name in Go, Java and C++ */
    struct fg_buf *out;
};

/* ---- values ---- */

static void put_value(const struct dot_drawing *drawing, int64_t value)
{
    char text[FG_VALUE_TEXT_BYTES];

    fg_value_text(value, drawing->type->unit, text);
    fg_buf_puts(drawing->out, text);
}

/* Two significant digits below 1 %. */
static void put_percentage(const struct dot_drawing *drawing, int64_t value)
{
    double percent =
        drawing->graph.total == 0 ? 0 : fabs((double)value / (double)drawing->graph.total) * 100;

    /* The rounding of pprof, so that both drawings show the same numbers. */
    if (percent >= 99.95 && percent <= 100.05)
        fg_buf_puts(drawing->out, "100%");
    else if (percent >= 1)
        fg_buf_printf(drawing->out, "%.2f%%", percent);
    else
        fg_buf_printf(drawing->out, "%.2g%%", percent);
}

/* ---- colours ---- */

static unsigned channel(double value)
{
    return (unsigned)(uint8_t)(value * 255.0);
}

/* From grey for nothing to red for all of it. */
static void put_colour(const struct dot_drawing *drawing, int64_t value, bool background)
{
    double total = fabs((double)drawing->graph.total);
    double score = total == 0 ? 0 : fmax(-1, fmin(1, (double)value / total));
    double saturation = background ? 0.1 : 1, light = background ? 0.93 : 0.7, red, green;

    if (fabs(score) < 0.2) /* near nothing it would be yellow */
        saturation *= fabs(score) / 0.2;
    score = score < 0 ? -pow(-score, 0.3) : pow(score, 0.3); /* more of the range for small ones */
    red = score < 0 ? light * (1 + saturation * score) : light;
    green = score < 0 ? light : light * (1 - saturation * score);
    fg_buf_printf(drawing->out, "\"#%02x%02x%02x\"", channel(red), channel(green),
                  channel(light * (1 - saturation)));
}

/* ---- names ---- */

/* Within quotes: escapes what would end them. */
static void put_escaped(struct fg_buf *out, struct fg_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '"' || text.ptr[i] == '\\')
            fg_buf_putc(out, '\\');
        if (text.ptr[i] == '\n')
            fg_buf_puts(out, "\\l");
        else
            fg_buf_putc(out, text.ptr[i]);
    }
}

/* Drops the version of a Go module: "example.com/v2/x.F" is "example.com/x.F". */
static void without_version(const struct dot_drawing *drawing, struct fg_slice name,
                            struct fg_buf *out)
{
    struct fg_regex_group groups[SHORT_PARTS_MAX];

    if (!fg_regex_groups(drawing->versions, name.ptr, name.len, groups, FG_COUNT(groups))) {
        fg_buf_put(out, name);
        return;
    }
    fg_buf_append(out, groups[1].ptr, groups[1].len);
    fg_buf_append(out, groups[2].ptr, groups[2].len);
}

/* Appends the name without the path of its package or namespace. */
static void shorten(const struct dot_drawing *drawing, struct fg_slice name, struct fg_buf *out)
{
    static const char anonymous[] = "(anonymous namespace)::";
    struct fg_regex_group groups[2];
    struct fg_buf text;

    if (name.len > strlen(anonymous) && memcmp(name.ptr, anonymous, strlen(anonymous)) == 0)
        name = fg_slice_sub(name, strlen(anonymous), SIZE_MAX);
    fg_buf_init(&text, SIZE_MAX);
    without_version(drawing, name, &text);
    for (size_t i = 0; i < FG_COUNT(drawing->shorten); i++)
        if (fg_regex_groups(drawing->shorten[i], text.ptr, text.len, groups, FG_COUNT(groups))) {
            fg_buf_append(out, groups[1].ptr, groups[1].len);
            fg_buf_done(&text);
            return;
        }
    fg_buf_put(out, fg_buf_slice(&text));
    fg_buf_done(&text);
}

/* Each part of a dotted name has a line of its own; Go's type parameters [...] stay together. */
static void put_lines(const struct dot_drawing *drawing, struct fg_slice name)
{
    struct fg_buf text, escaped;

    fg_buf_init(&text, SIZE_MAX);
    fg_buf_init(&escaped, SIZE_MAX);
    shorten(drawing, name, &text);
    put_escaped(&escaped, fg_buf_slice(&text));
    for (size_t i = 0; i < escaped.len; i++) {
        struct fg_slice rest = fg_slice_sub(fg_buf_slice(&escaped), i, SIZE_MAX);

        fg_assert(rest.ptr != NULL);
        if (rest.len >= 5 && memcmp(rest.ptr, "[...]", 5) == 0) {
            fg_buf_puts(drawing->out, "[…]");
            i += 4;
        } else if (rest.len >= 2 && memcmp(rest.ptr, "::", 2) == 0) {
            fg_buf_puts(drawing->out, "\\n");
            i++;
        } else if (rest.ptr[0] == '.') {
            fg_buf_puts(drawing->out, "\\n");
        } else {
            fg_buf_putc(drawing->out, rest.ptr[0]);
        }
    }
    fg_buf_puts(drawing->out, "\\n");
    fg_buf_done(&escaped);
    fg_buf_done(&text);
}

/* ---- what is drawn ---- */

static void put_heading(const struct dot_drawing *drawing, int64_t time_ns)
{
    const struct fg_call_graph *graph = &drawing->graph;
    time_t seconds = (time_t)(time_ns / FG_SECOND_NS);
    struct fg_buf *out = drawing->out;
    char day[32], clock[32];
    int64_t flat = 0;
    struct tm utc;

    fg_buf_puts(out, "subgraph cluster_L { \"Type: ");
    put_escaped(out, drawing->type->type);
    fg_buf_puts(out, "\" [shape=box fontsize=16 label=\"Type: ");
    put_escaped(out, drawing->type->type);
    fg_buf_puts(out, "\\l");
    if (time_ns > 0 && gmtime_r(&seconds, &utc) != NULL &&
        strftime(day, sizeof day, "%b", &utc) > 0 && strftime(clock, sizeof clock, "%Y", &utc) > 0)
        fg_buf_printf(out, "Time: %s %d, %s at %d:%02d%s (UTC)\\l", day, utc.tm_mday, clock,
                      utc.tm_hour % 12 == 0 ? 12 : utc.tm_hour % 12, utc.tm_min,
                      utc.tm_hour < 12 ? "am" : "pm");
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        flat = fg_value_add(flat, graph->nodes[i].flat);
    fg_buf_puts(out, "Showing nodes accounting for ");
    put_value(drawing, flat);
    fg_buf_puts(out, ", ");
    put_percentage(drawing, flat);
    fg_buf_puts(out, " of ");
    put_value(drawing, graph->total);
    fg_buf_puts(out, " total\\l");
    if (graph->n_nodes < graph->n_functions)
        fg_buf_printf(out, "Showing top %u nodes out of %u\\l", graph->n_nodes, graph->n_functions);
    fg_buf_puts(out, "\\lSee https://git.io/JfYMW for how to read the graph\\l\"] }\n");
}

/* Larger letters for more time, not linearly, so that the differences show. */
static int font_size(int64_t flat, int64_t greatest)
{
    if (greatest == 0 || flat == 0)
        return FONT_MIN;
    return FONT_MIN + (int)ceil(FONT_GROWTH * sqrt(fabs((double)flat) / (double)greatest));
}

static void put_node(const struct dot_drawing *drawing, uint32_t number, int64_t greatest)
{
    const struct fg_call_node *node = &drawing->graph.nodes[number];
    struct fg_buf *out = drawing->out;

    fg_buf_printf(out, "N%u [label=\"", number + 1);
    put_lines(drawing, node->name);
    if (node->flat == 0) {
        fg_buf_puts(out, "0");
    } else {
        put_value(drawing, node->flat);
        fg_buf_puts(out, " (");
        put_percentage(drawing, node->flat);
        fg_buf_puts(out, ")");
    }
    if (node->cum != node->flat) {
        fg_buf_puts(out, node->flat == 0 ? " of " : "\\nof ");
        put_value(drawing, node->cum);
        fg_buf_puts(out, " (");
        put_percentage(drawing, node->cum);
        fg_buf_puts(out, ")");
    }
    fg_buf_printf(out, "\" id=\"node%u\" fontsize=%d shape=box tooltip=\"", number + 1,
                  font_size(node->flat, greatest));
    put_escaped(out, node->name);
    fg_buf_puts(out, " (");
    put_value(drawing, node->cum);
    fg_buf_puts(out, ")\" color=");
    put_colour(drawing, node->cum, false);
    fg_buf_puts(out, " fillcolor=");
    put_colour(drawing, node->cum, true);
    fg_buf_puts(out, "]\n");
}

static void put_tooltip(const struct dot_drawing *drawing, const char *key,
                        const struct fg_call_edge *edge)
{
    struct fg_buf *out = drawing->out;

    fg_buf_printf(out, " %s=\"", key);
    put_escaped(out, drawing->graph.nodes[edge->from].name);
    fg_buf_puts(out, edge->residual ? " ... " : " -> ");
    put_escaped(out, drawing->graph.nodes[edge->to].name);
    fg_buf_puts(out, " (");
    put_value(drawing, edge->weight);
    fg_buf_puts(out, ")\"");
}

/* Returns 1 and the share of the total in so many parts. */
static int parts_of(const struct dot_drawing *drawing, int64_t weight, int parts)
{
    /* 128 bits: a weight near 2^63 times 100 does not fit into 64. */
    __int128 share = (__int128)weight * parts / drawing->graph.total;

    return 1 + (int)FG_MIN(share < 0 ? -share : share, parts);
}

static void put_edge(const struct dot_drawing *drawing, const struct fg_call_edge *edge)
{
    struct fg_buf *out = drawing->out;

    fg_buf_printf(out, "N%u -> N%u [label=\" ", edge->from + 1, edge->to + 1);
    put_value(drawing, edge->weight);
    fg_buf_puts(out, "\"");
    /* A difference of two profiles may have a total of 0. */
    if (drawing->graph.total != 0) {
        int weight = parts_of(drawing, edge->weight, 100),
            width = parts_of(drawing, edge->weight, 5);

        if (weight > 1)
            fg_buf_printf(out, " weight=%d", weight);
        if (width > 1)
            fg_buf_printf(out, " penwidth=%d", width);
        fg_buf_puts(out, " color=");
        put_colour(drawing, edge->weight, false);
    }
    put_tooltip(drawing, "tooltip", edge);
    put_tooltip(drawing, "labeltooltip", edge);
    if (edge->residual)
        fg_buf_puts(out, " style=\"dotted\"");
    fg_buf_puts(out, "]\n");
}

static struct fg_regex *pattern(const char *text)
{
    char error[64];
    struct fg_regex *regex = fg_regex_create(text, strlen(text), error, sizeof error);

    fg_assert(regex != NULL); /* the texts below are valid */
    return regex;
}

void fg_dot_write(const struct fg_tree *tree, const struct fg_profile_type *type, int64_t time_ns,
                  size_t max_nodes, struct fg_buf *out)
{
    struct dot_drawing drawing = {.type = type, .out = out};
    int64_t greatest;

    if (tree->n_nodes == 0)
        return;
    drawing.versions = pattern("(.*?)/v(?:[2-9]|[1-9][0-9]+)([./].*)");
    drawing.shorten[0] = pattern("(?:[\\w\\-\\.]+/)+([^.]+\\..+)");
    drawing.shorten[1] = pattern("(?:[a-z]\\w*\\.)*([A-Z][\\w\\$]*\\.(?:<init>|[a-z][\\w\\$]*"
                                 "(?:\\$\\d+)?))(?:\\(.*)?");
    drawing.shorten[2] = pattern("(?:[_a-zA-Z]\\w*::)+(_*[A-Z]\\w*::~?[_a-zA-Z]\\w*(?:<.*>)?).*");
    if (max_nodes == 0)
        max_nodes = FG_DOT_NODES_DEFAULT;
    fg_call_graph_make(tree, (uint32_t)FG_MIN(max_nodes, (size_t)FG_DOT_NODES_MAX), &drawing.graph);
    greatest = 0;
    for (uint32_t i = 0; i < drawing.graph.n_nodes; i++)
        greatest = FG_MAX(greatest, drawing.graph.nodes[i].flat);
    fg_buf_puts(out, "digraph \"unnamed\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n");
    put_heading(&drawing, time_ns);
    for (uint32_t i = 0; i < drawing.graph.n_nodes; i++)
        put_node(&drawing, i, greatest);
    for (uint32_t i = 0; i < drawing.graph.n_edges; i++)
        put_edge(&drawing, &drawing.graph.edges[i]);
    fg_buf_puts(out, "}\n");
    fg_call_graph_done(&drawing.graph);
    fg_regex_destroy(drawing.versions);
    for (size_t i = 0; i < FG_COUNT(drawing.shorten); i++)
        fg_regex_destroy(drawing.shorten[i]);
}
