#include "deploy/cli/label_rows.h"

#include "common/base/str.h"
#include "common/model/value_text.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"

#include <inttypes.h>

enum {
    PAGE_ROWS = 10000, /* the most that the server gives at a time */
    PATH_MAX_BYTES = 1024 * 1024,
};

/* The key of a row's text. */
static const char *text_key(const struct cli_label_rows *rows)
{
    return rows->label == NULL ? "name" : "value";
}

/* ---- asking ---- */

static void put_param(struct fg_buf *out, const char *name, struct fg_slice value)
{
    /* The server takes an absent parameter for its default. */
    if (value.len == 0)
        return;
    fg_buf_printf(out, "&%s=", name);
    fg_buf_url(out, value);
}

static void put_path(const struct cli_label_rows *rows, uint64_t from, uint64_t n,
                     struct fg_buf *out)
{
    fg_buf_puts(out, "/api/labels");
    if (rows->label != NULL) {
        fg_buf_putc(out, '/');
        fg_buf_url(out, fg_cstr(rows->label));
    }
    fg_buf_puts(out, "?from=");
    cli_time_put_ms(rows->range.start_ms, out);
    fg_buf_puts(out, "&until=");
    cli_time_put_ms(rows->range.end_ms, out);
    fg_buf_printf(out, "&limit=%" PRIu64 "&page=%" PRIu64, n, from);
    put_param(out, "query", rows->query);
    put_param(out, "prefix", fg_cstr(rows->prefix == NULL ? "" : rows->prefix));
    put_param(out, "regex", fg_cstr(rows->regex == NULL ? "" : rows->regex));
    put_param(out, "sort", fg_cstr(rows->sort == NULL ? "" : rows->sort));
    put_param(out, "growth", fg_cstr(rows->growth ? "true" : ""));
    fg_buf_putc(out, '\0');
}

/* Gets a page. *ret_answer: to be freed with json_decref(). */
static enum fg_code ask_page(struct cli_client *client, const struct cli_label_rows *rows,
                             uint64_t from, uint64_t n, json_t **ret_answer, struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    json_t *answer = NULL;
    struct fg_buf path;

    fg_buf_init(&path, PATH_MAX_BYTES);
    put_path(rows, from, n, &path);
    enum fg_code code = path.full ? fg_fail(err, FG_E_LIMIT, "the selector is too long")
                                  : cli_client_get(client, (const char *)path.ptr, &reply, err);
    fg_buf_done(&path);
    if (code == FG_OK)
        code = cli_client_check(&reply, err);
    if (code == FG_OK) {
        answer = json_loadb((const char *)reply.body.ptr, reply.body.len, 0, NULL);
        if (!json_is_array(json_object_get(answer, rows->label == NULL ? "labels" : "values"))) {
            json_decref(answer);
            code = fg_fail(err, FG_E_CORRUPT, "the server's answer is no list of labels");
        }
    }
    cli_client_reply_done(&reply);
    if (code == FG_OK)
        *ret_answer = answer;
    return code;
}

/* Gets all pages into one array. *first: the first answer, without its rows. */
static enum fg_code ask_all(struct cli_client *client, const struct cli_label_rows *rows,
                            json_t *all, json_t **ret_first, struct fg_err *err)
{
    uint64_t wanted = rows->limit == 0 ? UINT64_MAX : rows->limit;
    bool more = true;

    while (more && json_array_size(all) < wanted) {
        uint64_t n = FG_MIN(wanted - json_array_size(all), (uint64_t)PAGE_ROWS);
        /* The server counts rows, not pages: the next page begins with the first row that is
         * missing. */
        size_t before = json_array_size(all);
        json_t *answer = NULL;

        if (ask_page(client, rows, before, n, &answer, err) != FG_OK)
            return err->code;
        (void)json_array_extend(all,
                                json_object_get(answer, rows->label == NULL ? "labels" : "values"));
        /* A page without rows that says there are more would be asked for for ever. */
        more = json_object_get(answer, "next") != NULL && json_array_size(all) > before;
        /* The first answer has what is said once: the unit, and what was cut. */
        if (*ret_first == NULL)
            *ret_first = answer;
        else
            json_decref(answer);
    }
    return FG_OK;
}

/* ---- printing ---- */

/* A column of numbers. */
struct label_column {
    const char *key, *title;
};

static const struct label_column columns[] = {
    {"series", "SERIES"}, {"series_before", "BEFORE"}, {"series_new", "NEW"},
    {"values", "VALUES"}, {"values_before", "BEFORE"}, {"values_new", "NEW"},
};

/* The first row speaks for all: rows of one answer have the same members. */
static bool has(const json_t *all, const char *key)
{
    return json_object_get(json_array_get(all, 0), key) != NULL;
}

static void put_row(const struct cli_label_rows *rows, const json_t *all, const json_t *row,
                    struct fg_slice unit, struct fg_buf *out)
{
    const json_t *total = json_object_get(row, "total");
    struct fg_buf text;

    for (size_t i = 0; rows->numbers && i < FG_COUNT(columns); i++)
        if (has(all, columns[i].key))
            fg_buf_printf(out, "%10" JSON_INTEGER_FORMAT "  ",
                          json_integer_value(json_object_get(row, columns[i].key)));
    if (rows->numbers && total != NULL) {
        fg_buf_init(&text, SIZE_MAX);
        fg_value_scaled(json_integer_value(total), unit, &text);
        fg_buf_printf(out, "%12.*s %6.2f%%  ", FG_S(fg_buf_slice(&text)),
                      100 * json_number_value(json_object_get(row, "share")));
        fg_buf_done(&text);
    }
    cli_show_text(fg_cstr(json_string_value(json_object_get(row, text_key(rows)))), out);
    fg_buf_putc(out, '\n');
}

static void put_lines(const struct cli_label_rows *rows, const json_t *all, const json_t *first,
                      struct fg_buf *out)
{
    const char *unit = json_string_value(json_object_get(first, "unit"));

    if (rows->numbers && json_array_size(all) > 0) {
        for (size_t i = 0; i < FG_COUNT(columns); i++)
            if (has(all, columns[i].key))
                fg_buf_printf(out, "%10s  ", columns[i].title);
        if (has(all, "total"))
            fg_buf_printf(out, "%12s %7s  ", "TOTAL", "");
        fg_buf_puts(out, rows->label == NULL ? "NAME\n" : "VALUE\n");
    }
    for (size_t i = 0; i < json_array_size(all); i++)
        put_row(rows, all, json_array_get(all, i), fg_cstr(unit == NULL ? "" : unit), out);
}

static void put_json(const struct cli_label_rows *rows, json_t *all, struct fg_buf *out)
{
    json_t *texts = json_array();
    char *text;

    for (size_t i = 0; i < json_array_size(all); i++)
        /* Without _new: the rows belong to `all`. */
        (void)json_array_append(
            texts, rows->numbers ? json_array_get(all, i)
                                 : json_object_get(json_array_get(all, i), text_key(rows)));
    text = json_dumps(texts, JSON_INDENT(2));
    if (text != NULL)
        fg_buf_puts(out, text);
    fg_buf_putc(out, '\n');
    free(text);
    json_decref(texts);
}

enum fg_code cli_label_rows_print(struct cli_client *client, const struct cli_label_rows *rows,
                                  bool json, struct fg_buf *out, char **ret_truncated,
                                  struct fg_err *err)
{
    json_t *all = json_array(), *first = NULL;
    enum fg_code code = ask_all(client, rows, all, &first, err);

    if (code == FG_OK) {
        const json_t *truncated = json_object_get(first, "truncated");

        if (json)
            put_json(rows, all, out);
        else
            put_lines(rows, all, first, out);
        *ret_truncated = truncated == NULL ? NULL : json_dumps(truncated, JSON_COMPACT);
    }
    json_decref(all);
    json_decref(first);
    return code;
}
