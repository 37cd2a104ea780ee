#include "common/model/drawing.h"

#include "common/base/hash.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/model/flame.h"
#include "common/model/function_tree.h"
#include "common/model/value_text.h"

enum {
    SVG_WIDTH = 1200,
    SVG_ROW = 18,
    SVG_TOP = 28,      /* for the title */
    SVG_LETTER = 7,    /* width of one, about */
    SVG_TEXT_MIN = 28, /* narrower bars have no text */
};

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
    self = fg_calloc(FG_MAX(functions.n_nodes, 1), sizeof *self);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        self[functions.nodes[i]] = fg_value_add(self[functions.nodes[i]], tree->self[i]);
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

/* ---- SVG ---- */

/* XML 1.0 has no control characters, not even escaped; bytes that are no UTF-8 end the picture. */
static void put_xml(struct fg_buf *out, struct fg_slice text, size_t max)
{
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
    uint64_t hash = fg_hash64(name);
    char value[FG_VALUE_TEXT_BYTES];

    fg_value_text(bar[1], unit, value);
    fg_buf_puts(out, "<g><title>");
    put_xml(out, name, SIZE_MAX);
    fg_buf_printf(out, " (%s, %.2f%%)</title>", value, (double)bar[1] / (double)flame->total * 100);
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

            at += (double)bar[0];
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
    char value[FG_VALUE_TEXT_BYTES];
    struct fg_flame flame;
    size_t height;

    fg_flame_make(tree, max_nodes, &flame);
    height = SVG_TOP + flame.n_levels * SVG_ROW + 4;
    fg_value_text(flame.total, unit, value);
    fg_buf_printf(out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
                  "viewBox=\"0 0 %d %zu\" font-family=\"monospace\" font-size=\"11\">\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                  "<text x=\"3\" y=\"18\" font-size=\"13\">",
                  SVG_WIDTH, height, SVG_WIDTH, height);
    put_xml(out, title, SIZE_MAX);
    fg_buf_printf(out, ", total %s</text>\n", value);
    if (flame.total > 0)
        put_bars(out, &flame, unit);
    fg_buf_puts(out, "</svg>\n");
    fg_flame_done(&flame);
}
