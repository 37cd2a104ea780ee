#include "common/model/drawing.h"

#include "common/base/hash.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/flame.h"
#include "common/model/function_tree.h"
#include "common/model/value_text.h"

enum {
    FIREFOX_VERSION = 47, /* later ones are read, too; this one has a table of strings per thread */
    SVG_WIDTH = 1200,
    SVG_ROW = 18,
    SVG_TOP = 28,      /* for the title */
    SVG_LETTER = 7,    /* width of one, about */
    SVG_TEXT_MIN = 28, /* narrower bars have no text */
};

/* Sums the values of a tree by the nodes of its function tree. The caller frees the array. */
static int64_t *self_values(const struct fg_function_tree *functions, const struct fg_tree *tree)
{
    int64_t *self = fg_calloc(FG_MAX(functions->n_nodes, 1), sizeof *self);

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        self[functions->nodes[i]] = fg_value_add(self[functions->nodes[i]], tree->self[i]);
    return self;
}

/* ---- speedscope ---- */

/* What speedscope knows by these names. */
static bool is_known_unit(struct fg_slice unit)
{
    static const char *const known[] = {"nanoseconds", "microseconds", "milliseconds", "seconds",
                                        "bytes"};

    for (size_t i = 0; i < FG_COUNT(known); i++)
        if (fg_slice_is(unit, known[i]))
            return true;
    return false;
}

static void put_event(struct fg_json_writer *json, const char *type, uint32_t frame, int64_t at)
{
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "type", type);
    fg_json_put_u64(json, "frame", frame);
    fg_json_put_i64(json, "at", at);
    fg_json_end(json);
}

/* Opens and closes frames from left to right; returns where it ends. Nodes come depth first, and a
 * node's own value stands before its callees. */
static int64_t put_events(const struct fg_function_tree *functions, const int64_t *self,
                          struct fg_json_writer *json)
{
    uint32_t *path = fg_calloc(FG_MAX(functions->n_nodes, 1), sizeof *path), depth = 0;
    int64_t at = 0;

    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        /* speedscope wants events to nest: frames below the new node's parent close first. */
        while (depth > 0 && path[depth - 1] != functions->parents[i])
            put_event(json, "C", functions->functions[path[--depth]], at);
        put_event(json, "O", functions->functions[i], at);
        path[depth++] = i;
        at = fg_value_add(at, self[i]);
    }
    while (depth > 0)
        put_event(json, "C", functions->functions[path[--depth]], at);
    free(path);
    return at;
}

void fg_drawing_speedscope(const struct fg_tree *tree, struct fg_slice title, struct fg_slice unit,
                           struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);
    struct fg_function_tree functions;
    int64_t *self, end;

    fg_function_tree_init(&functions, tree);
    self = self_values(&functions, tree);
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    fg_json_put_text(&json, "name", title);
    fg_json_put_cstr(&json, "exporter", "flamegrid");
    fg_json_begin_object(&json, "shared");
    fg_json_begin_array(&json, "frames");
    for (uint32_t i = 0; i < functions.n_names; i++) {
        fg_json_begin_object(&json, NULL);
        fg_json_put_text(&json, "name", functions.names[i]);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    fg_json_end(&json);
    fg_json_begin_array(&json, "profiles");
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "type", "evented");
    fg_json_put_text(&json, "name", title);
    /* The file format has these units only; others are plain numbers. */
    fg_json_put_text(&json, "unit", is_known_unit(unit) ? unit : FG_LIT("none"));
    fg_json_put_u64(&json, "startValue", 0);
    fg_json_begin_array(&json, "events");
    end = put_events(&functions, self, &json);
    fg_json_end(&json);
    fg_json_put_i64(&json, "endValue", end);
    fg_json_end(&json);
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
    free(self);
    fg_function_tree_done(&functions);
}

/* ---- Firefox Profiler ---- */

/* Writes an array of n times the same value, which the format has for what it knows of frames and
 * we do not. */
static void put_same(struct fg_json_writer *json, const char *key, uint32_t n, const char *literal)
{
    fg_json_begin_array(json, key);
    for (uint32_t i = 0; i < n; i++)
        fg_buf_puts(fg_json_value(json, NULL), literal);
    fg_json_end(json);
}

static void put_counted(struct fg_json_writer *json, const char *key, uint32_t n)
{
    fg_json_begin_array(json, key);
    for (uint32_t i = 0; i < n; i++)
        fg_json_put_u64(json, NULL, i);
    fg_json_end(json);
}

static void put_empty_table(struct fg_json_writer *json, const char *key,
                            const char *const *columns, size_t n_columns)
{
    fg_json_begin_object(json, key);
    for (size_t i = 0; i < n_columns; i++)
        put_same(json, columns[i], 0, "");
    fg_json_put_u64(json, "length", 0);
    fg_json_end(json);
}

static void put_firefox_meta(const struct fg_drawing_range *range, double interval_ms,
                             struct fg_json_writer *json)
{
    fg_json_begin_object(json, "meta");
    fg_json_put_fixed(json, "interval", interval_ms, 6);
    fg_json_put_i64(json, "startTime", FG_MAX(range->start_ns, 0) / FG_MS_NS);
    /* 0: the default process, in the numbers of Gecko. */
    fg_json_put_u64(json, "processType", 0);
    fg_json_put_text(json, "product", range->title);
    fg_json_put_cstr(json, "importedFrom", "flamegrid");
    fg_json_put_u64(json, "stackwalk", 0);
    fg_json_put_bool(json, "debug", false);
    fg_json_put_u64(json, "version", 27); /* of Gecko's own format, which this is derived from */
    fg_json_put_u64(json, "preprocessedProfileVersion", FIREFOX_VERSION);
    fg_json_put_bool(json, "symbolicated", true);
    fg_json_begin_array(json, "categories");
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "name", "Other");
    fg_json_put_cstr(json, "color", "grey");
    fg_json_begin_array(json, "subcategories");
    fg_json_put_cstr(json, NULL, "Other");
    fg_json_end(json);
    fg_json_end(json);
    fg_json_end(json);
    fg_json_begin_array(json, "markerSchema");
    fg_json_end(json);
    fg_json_end(json);
}

/* Writes a sample for each stack that has a value. Their places in time mean nothing: a merged
 * profile knows none, and the program needs some that rise. */
static void put_firefox_samples(const struct fg_function_tree *functions, const int64_t *self,
                                uint32_t n, double interval_ms, struct fg_slice unit,
                                struct fg_json_writer *json)
{
    bool time = fg_slice_is(unit, "nanoseconds"), bytes = fg_slice_is(unit, "bytes");
    uint32_t at = 0;

    fg_json_begin_object(json, "samples");
    fg_json_put_cstr(json, "weightType", time ? "tracing-ms" : bytes ? "bytes" : "samples");
    fg_json_begin_array(json, "weight");
    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        if (self[i] == 0)
            continue;
        if (time) /* in milliseconds; exact below 2^53 ns, which are 104 days */
            fg_json_put_fixed(json, NULL, (double)self[i] / FG_MS_NS, 6);
        else
            fg_json_put_i64(json, NULL, self[i]);
    }
    fg_json_end(json);
    fg_json_begin_array(json, "stack");
    for (uint32_t i = 0; i < functions->n_nodes; i++)
        if (self[i] != 0)
            fg_json_put_u64(json, NULL, i);
    fg_json_end(json);
    fg_json_begin_array(json, "time");
    for (; at < n; at++)
        fg_json_put_fixed(json, NULL, at * interval_ms, 6);
    fg_json_end(json);
    fg_json_put_u64(json, "length", n);
    fg_json_end(json);
}

/* A stack is a node of the function tree, a frame is a function. */
static void put_firefox_tables(const struct fg_function_tree *functions,
                               struct fg_json_writer *json)
{
    uint32_t n = functions->n_nodes, n_names = functions->n_names;

    fg_json_begin_object(json, "stackTable");
    fg_json_begin_array(json, "frame");
    for (uint32_t i = 0; i < n; i++)
        fg_json_put_u64(json, NULL, functions->functions[i]);
    fg_json_end(json);
    fg_json_begin_array(json, "prefix");
    for (uint32_t i = 0; i < n; i++) {
        if (functions->parents[i] == FG_TREE_ROOT)
            fg_json_put_null(json, NULL);
        else
            fg_json_put_u64(json, NULL, functions->parents[i]);
    }
    fg_json_end(json);
    /* Columns of a table have to be equally long, also those that say nothing. */
    put_same(json, "category", n, "0");
    put_same(json, "subcategory", n, "0");
    fg_json_put_u64(json, "length", n);
    fg_json_end(json);

    fg_json_begin_object(json, "frameTable");
    put_same(json, "address", n_names, "-1");
    put_same(json, "inlineDepth", n_names, "0");
    put_same(json, "category", n_names, "0");
    put_same(json, "subcategory", n_names, "0");
    put_counted(json, "func", n_names);
    put_same(json, "nativeSymbol", n_names, "null");
    put_same(json, "innerWindowID", n_names, "0");
    put_same(json, "implementation", n_names, "null");
    put_same(json, "line", n_names, "null");
    put_same(json, "column", n_names, "null");
    fg_json_put_u64(json, "length", n_names);
    fg_json_end(json);

    fg_json_begin_object(json, "funcTable");
    put_counted(json, "name", n_names);
    put_same(json, "isJS", n_names, "false");
    put_same(json, "relevantForJS", n_names, "false");
    put_same(json, "resource", n_names, "-1");
    put_same(json, "fileName", n_names, "null");
    put_same(json, "lineNumber", n_names, "null");
    put_same(json, "columnNumber", n_names, "null");
    fg_json_put_u64(json, "length", n_names);
    fg_json_end(json);

    fg_json_begin_array(json, "stringArray");
    for (uint32_t i = 0; i < n_names; i++)
        fg_json_put_text(json, NULL, functions->names[i]);
    fg_json_end(json);
}

static void put_firefox_thread(const struct fg_function_tree *functions, const int64_t *self,
                               uint32_t n_samples, double interval_ms,
                               const struct fg_profile_type *type, struct fg_json_writer *json)
{
    static const char *const markers[] = {"data",    "name",  "startTime",
                                          "endTime", "phase", "category"};
    static const char *const resources[] = {"lib", "name", "host", "type"};
    static const char *const symbols[] = {"libIndex", "address", "name", "functionSize"};

    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "processType", "default");
    fg_json_put_u64(json, "processStartupTime", 0);
    fg_json_put_null(json, "processShutdownTime");
    fg_json_put_u64(json, "registerTime", 0);
    fg_json_put_null(json, "unregisterTime");
    put_same(json, "pausedRanges", 0, "");
    fg_json_put_text(json, "name", type->type);
    fg_json_put_bool(json, "isMainThread", true);
    fg_json_put_cstr(json, "pid", "0");
    fg_json_put_u64(json, "tid", 0);
    put_firefox_samples(functions, self, n_samples, interval_ms, type->unit, json);
    put_empty_table(json, "markers", markers, FG_COUNT(markers));
    put_firefox_tables(functions, json);
    put_empty_table(json, "resourceTable", resources, FG_COUNT(resources));
    put_empty_table(json, "nativeSymbols", symbols, FG_COUNT(symbols));
    fg_json_end(json);
}

void fg_drawing_firefox(const struct fg_tree *tree, const struct fg_drawing_range *range,
                        const struct fg_profile_type *type, struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);
    struct fg_function_tree functions;
    uint32_t n_samples = 0;
    double interval_ms;
    int64_t *self;

    fg_function_tree_init(&functions, tree);
    self = self_values(&functions, tree);
    for (uint32_t i = 0; i < functions.n_nodes; i++)
        n_samples += self[i] != 0;
    interval_ms = ((double)range->end_ns - (double)range->start_ns) / FG_MS_NS;
    /* An interval of 0 makes the program divide by it. */
    interval_ms = FG_MAX(interval_ms / FG_MAX(n_samples, 1U), 0.001);
    fg_json_begin_object(&json, NULL);
    put_firefox_meta(range, interval_ms, &json);
    fg_json_begin_array(&json, "libs");
    fg_json_end(&json);
    fg_json_begin_array(&json, "threads");
    put_firefox_thread(&functions, self, n_samples, interval_ms, type, &json);
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
    free(self);
    fg_function_tree_done(&functions);
}

/* ---- SVG ---- */

/* XML 1.0 has no control characters, not even escaped; bytes that are no UTF-8 end the picture. */
static void put_xml(struct fg_buf *out, struct fg_slice text, size_t max)
{
    /* Looked at as a whole: a text that is broken anywhere shows '?' for all its higher bytes. */
    bool valid = fg_utf8_valid(text);

    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.ptr[i];

        if (i >= max && (byte & 0xc0) != 0x80) { /* between two letters */
            fg_buf_puts(out, "…");
            return;
        }
        if (byte == '<')
            fg_buf_puts(out, "&lt;");
        else if (byte == '&')
            fg_buf_puts(out, "&amp;");
        else if (byte == '"')
            fg_buf_puts(out, "&quot;");
        else
            fg_buf_putc(out, byte < ' ' || byte == 0x7f || (byte >= 0x80 && !valid) ? '?' : byte);
    }
}

static void put_bar(struct fg_buf *out, const struct fg_flame *flame, const int64_t *bar, double x,
                    double y, double width, struct fg_slice unit)
{
    struct fg_slice name = flame->names[bar[3]];
    /* The color is the name's, so that a function looks the same in every picture. */
    uint64_t hash = fg_hash64(name);

    fg_buf_puts(out, "<g><title>");
    put_xml(out, name, SIZE_MAX);
    fg_buf_puts(out, " (");
    fg_value_scaled(bar[1], unit, out);
    fg_buf_printf(out, ", %.2f%%)</title>", (double)bar[1] / (double)flame->total * 100);
    fg_buf_printf(out,
                  "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" "
                  "fill=\"hsl(%u,%u%%,%u%%)\"/>",
                  x, y, width, SVG_ROW - 1, (unsigned)(hash % 50), 70 + (unsigned)(hash >> 8 & 15),
                  58 + (unsigned)(hash >> 16 & 7));
    if (width >= SVG_TEXT_MIN) {
        fg_buf_printf(out, "<text x=\"%.2f\" y=\"%.0f\">", x + 3, y + SVG_ROW - 5);
        put_xml(out, name, (size_t)((width - 6) / SVG_LETTER));
        fg_buf_puts(out, "</text>");
    }
    fg_buf_puts(out, "</g>\n");
}

static void put_bars(struct fg_buf *out, const struct fg_flame *flame, struct fg_slice unit)
{
    double scale = (double)SVG_WIDTH / (double)flame->total;
    size_t from = 0;

    for (size_t level = 0; level < flame->n_levels && !out->full; level++) {
        double at = 0;

        for (size_t i = from; i < flame->level_ends[level]; i += 4) {
            const int64_t *bar = &flame->values[i];
            double width = (double)bar[1] * scale;

            /* Values of a level are offsets from the end of the bar before (flamebearer). */
            at += (double)bar[0];
            /* Narrower bars cannot be seen, and only make the file larger. */
            if (width >= 0.1)
                put_bar(out, flame, bar, at * scale, SVG_TOP + (double)level * SVG_ROW, width,
                        unit);
            at += (double)bar[1];
        }
        from = flame->level_ends[level];
    }
}

void fg_drawing_svg(const struct fg_tree *tree, struct fg_slice title, struct fg_slice unit,
                    size_t max_nodes, struct fg_buf *out)
{
    struct fg_flame flame;
    size_t height;

    fg_flame_make(tree, max_nodes, &flame);
    height = SVG_TOP + flame.n_levels * SVG_ROW + 4;
    fg_buf_printf(out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
                  "viewBox=\"0 0 %d %zu\" font-family=\"monospace\" font-size=\"11\">\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                  "<text x=\"3\" y=\"18\" font-size=\"13\">",
                  SVG_WIDTH, height, SVG_WIDTH, height);
    put_xml(out, title, SIZE_MAX);
    fg_buf_puts(out, ", total ");
    fg_value_scaled(flame.total, unit, out);
    fg_buf_puts(out, "</text>\n");
    /* Without values there is no scale. */
    if (flame.total > 0)
        put_bars(out, &flame, unit);
    fg_buf_puts(out, "</svg>\n");
    fg_flame_done(&flame);
}
