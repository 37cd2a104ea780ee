#include "querier/profile_list.h"

#include "common/base/str.h"
#include "common/model/pprof_write.h"
#include "querier/api.h"
#include "querier/collect.h"
#include "querier/params.h"
#include "querier/reply.h"

#define PATH "/api/profiles/"

enum {
    LIMIT_DEFAULT = 100, /* a page of a table */
    LIMIT_MAX = 10000,   /* an answer of a few MiB */
    ID_DIGITS = 2 * FG_ID_BYTES,
    PAGE_MAX_BYTES = 80, /* a number of 64 bits, '-', an id */
};

/* ---- parameters ---- */

/* Reads 32 hex digits, or a UUID. */
static bool read_id(struct fg_slice text, struct fg_id *ret_id)
{
    uint8_t digits[ID_DIGITS], bytes[FG_ID_BYTES];
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        fg_assert(text.ptr != NULL);
        /* The dashes of a UUID (RFC 9562 4): 8-4-4-4-12 digits. */
        if (text.ptr[i] == '-' && text.len == ID_DIGITS + 4 &&
            (i == 8 || i == 13 || i == 18 || i == 23))
            continue;
        if (n == ID_DIGITS)
            return false;
        digits[n++] = text.ptr[i];
    }
    if (n != ID_DIGITS || !fg_parse_hex(fg_bytes(digits, n), bytes, sizeof bytes))
        return false;
    *ret_id = fg_id_get(bytes);
    return true;
}

/* A page is named by the last profile of the one before: its time and its id. */
static enum fg_code read_page(struct fg_slice text, struct fg_profile_rows_config *config,
                              struct fg_err *err)
{
    const uint8_t *dash;
    size_t len;

    if (text.len == 0)
        return FG_OK;
    dash = text.len > PAGE_MAX_BYTES ? NULL : memchr(text.ptr, '_', text.len);
    len = dash == NULL ? 0 : (size_t)(dash - text.ptr);
    if (dash == NULL || !fg_parse_i64(fg_bytes(text.ptr, len), &config->before_ns) ||
        !read_id(fg_bytes(dash + 1, text.len - len - 1), &config->before_id))
        return fg_fail(err, FG_E_INVALID, "page: it is not the \"next\" of a response");
    config->has_before = true;
    return FG_OK;
}

/* ---- the list ---- */

static enum fg_code write_row(const struct fg_profile_rows *rows, const struct fg_profile_row *row,
                              struct fg_arena *arena, struct fg_json_writer *json,
                              struct fg_err *err)
{
    const struct fg_labels *labels = &rows->sets.items[row->set];
    const char *id = qry_api_uuid(arena, row->id);
    const char *time = fg_arena_printf(arena, "%lld", (long long)row->time_ns);

    if (id == NULL || time == NULL)
        return qry_api_too_large(err);
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "id", id);
    fg_json_put_i64(json, "time_ms", row->time_ns / FG_MS_NS);
    fg_json_put_cstr(json, "time_ns", time); /* a text: many readers round numbers above 2^53 */
    fg_json_put_i64(json, "value", row->value);
    fg_json_begin_object(json, "labels");
    for (size_t i = 0; i < labels->count; i++) {
        fg_json_put_key(json, labels->items[i].name);
        fg_json_put_text(json, NULL, labels->items[i].value);
    }
    fg_json_end(json);
    fg_json_end(json);
    return FG_OK;
}

/* rows: one more than the page has, if there are more. */
static enum fg_code write_list(struct qry_query *query, const struct qry_selection *selection,
                               const struct fg_profile_rows *rows, size_t limit, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&query->body);
    size_t n = FG_MIN(rows->n, limit);

    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "type", selection->type_text);
    fg_json_put_text(&json, "unit", selection->type.unit);
    fg_json_begin_array(&json, "profiles");
    for (size_t i = 0; i < n; i++)
        if (write_row(rows, &rows->items[i], query->arena, &json, err) != FG_OK)
            return err->code;
    fg_json_end(&json);
    if (rows->n > limit) {
        const struct fg_profile_row *last = &rows->items[n - 1];
        const char *id = qry_api_uuid(query->arena, last->id);
        const char *next =
            id == NULL ? NULL
                       : fg_arena_printf(query->arena, "%lld_%s", (long long)last->time_ns, id);

        if (next == NULL)
            return qry_api_too_large(err);
        fg_json_put_cstr(&json, "next", next);
    }
    return qry_reply_end_json(query, &json, err);
}

static enum fg_code answer_list(struct qry_query *query, struct qry_selection *selection,
                                struct fg_profile_rows *rows, struct fg_err *err)
{
    struct fg_profile_rows_config config = {
        .arena = query->arena,
        .max_bytes = query->querier->answer_max_bytes,
        .keep = FG_ROWS_NEWEST,
    };
    size_t limit;

    if (qry_params_selection(query, selection, err) != FG_OK ||
        qry_params_number(query->params.limit, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX, &limit, err) !=
            FG_OK ||
        read_page(query->params.page, &config, err) != FG_OK)
        return err->code;
    /* One more than the page has: it tells whether there is a next page. */
    config.n_newest = limit + 1;
    fg_profile_rows_init(rows, &config);
    if (qry_collect_rows(query, selection, rows, err) != FG_OK)
        return err->code;
    return write_list(query, selection, rows, limit, err);
}

static enum fg_code list_profiles(struct qry_query *query, const ProtobufCMessage *in,
                                  struct fg_err *err)
{
    struct qry_selection selection = {0};
    struct fg_profile_rows rows = {0};
    enum fg_code code = answer_list(query, &selection, &rows, err);

    (void)in;
    fg_profile_rows_done(&rows);
    qry_selection_done(&selection);
    return code;
}

/* ---- one ---- */

static enum fg_code answer_one(struct qry_query *query, struct qry_selection *selection,
                               struct fg_tree *tree, struct fg_err *err)
{
    struct fg_slice text = fg_slice_sub(query->params.path, strlen(PATH), SIZE_MAX);
    uint8_t bytes[FG_ID_BYTES];
    ProtobufCBinaryData wanted = {sizeof bytes, bytes};
    struct qry_stack_filter stacks = {.profile_ids = &wanted, .n_profile_ids = 1};
    struct fg_pprof_head head = {0};
    struct fg_id id;

    if (!read_id(text, &id))
        return fg_fail(err, FG_E_INVALID, "\"%.*s\" is no id of a profile: it takes a UUID",
                       (int)FG_MIN(text.len, (size_t)64),
                       text.len == 0 ? "" : (const char *)text.ptr);
    fg_id_put(bytes, id);
    if (qry_params_selection(query, selection, err) != FG_OK ||
        qry_collect_tree(query, selection, &stacks, false, tree, err) != FG_OK)
        return err->code;
    if (tree->n_nodes == 0 && tree->root_self == 0)
        return fg_fail(err, FG_E_NOT_FOUND,
                       "there is no profile %.*s of this type, selector and time range",
                       FG_S(text));
    head.type = selection->type;
    /* A merged tree has no time of its own; the range was chosen to contain the profile's. */
    head.time_ns = FG_MAX(selection->start_ns, 0);
    fg_pprof_write(tree, &head, &query->body);
    query->content_type = "application/octet-stream";
    query->exported = true;
    return query->body.full ? qry_api_too_large(err) : FG_OK;
}

static enum fg_code one(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    struct qry_selection selection = {0};
    struct fg_tree tree;
    enum fg_code code;

    (void)in;
    fg_tree_init(&tree);
    code = answer_one(query, &selection, &tree, err);
    fg_tree_done(&tree);
    qry_selection_done(&selection);
    return code;
}

const struct qry_endpoint qry_profile_endpoints[] = {
    {"/api/profiles", "profiles", NULL, list_profiles, 0, false},
    {PATH, "profile", NULL, one, 0, false},
};
const size_t qry_n_profile_endpoints = FG_COUNT(qry_profile_endpoints);
