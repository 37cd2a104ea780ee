#include "querier/selection.h"

#include "common/base/str.h"
#include "common/model/flame.h"
#include "common/runtime/config.h"

#define SAMPLED_LABEL "__sampled__" /* "true": a profile that sampling would have dropped */

/* Where a grid may begin. Half of all times before 1970, so that what limits cut off (cut_ns) fits
 * into 64 bits of nanoseconds, too. */
static const int64_t GRID_FIRST_MS = INT64_MIN / 2 / FG_MS_NS, GRID_LAST_MS = INT64_MAX / FG_MS_NS;

void qry_selection_done(struct qry_selection *selection)
{
    fg_selector_done(&selection->selector);
}

/* Times beyond 64 bits of nanoseconds are clamped. */
static int64_t ms_to_ns(int64_t ms)
{
    int64_t ns;

    if (__builtin_mul_overflow(ms, FG_MS_NS, &ns))
        return ms < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

/* Refuses a range that is too long, in Pyroscope's words and with whose limit it is: "actual" as Go
 * prints durations of hours, "limit" as the setting is written. */
static enum fg_code too_long(const struct qry_query *query, int64_t length_ns, struct fg_err *err)
{
    int64_t hours = length_ns / FG_HOUR_NS, rest = length_ns % FG_HOUR_NS;
    struct fg_buf limit;

    fg_buf_init(&limit, FG_ERR_MSG_MAX_BYTES);
    fg_conf_write_duration(query->length_max_ns, &limit);
    (void)fg_fail(err, FG_E_INVALID,
                  "the query time range exceeds the limit (max_query_length, actual: "
                  "%lldh%lldm%llds, limit: %.*s): limits.max_query_length of tenant %.*s",
                  (long long)hours, (long long)(rest / FG_MINUTE_NS),
                  (long long)(rest % FG_MINUTE_NS / FG_SECOND_NS), FG_S(fg_buf_slice(&limit)),
                  FG_S(query->tenants.ids[0]));
    fg_buf_done(&limit);
    return err->code;
}

/* Cuts off what is before the lookback or retention. A range that is before it as a whole becomes
 * empty. */
static void look_back(const struct qry_query *query, struct qry_selection *selection)
{
    int64_t oldest_ns = qry_query_oldest_ns(query);

    if (query->lookback_ns > 0)
        oldest_ns = FG_MAX(oldest_ns, fg_wall_ns(query->querier->clock) - query->lookback_ns);
    if (oldest_ns == INT64_MIN)
        return;
    if (selection->end_ns < oldest_ns) {
        /* No profile has this time, and the range stays a valid one. */
        selection->start_ns = selection->end_ns = INT64_MIN;
        return;
    }
    /* Nothing is cut off. */
    if (selection->start_ns >= oldest_ns)
        return;
    if (__builtin_sub_overflow(oldest_ns, selection->start_ns, &selection->cut_ns))
        selection->cut_ns = 0; /* more than 64 bits: as if the client had asked from here on */
    selection->start_ns = oldest_ns;
}

enum fg_code qry_selection_restrict(const struct qry_query *query, struct qry_selection *selection,
                                    struct fg_err *err)
{
    if (selection->restricted || query->restriction == NULL)
        return FG_OK;
    selection->restricted = true;
    return fg_selector_parse(fg_cstr(query->restriction), query->arena, &selection->selector, err);
}

enum fg_code qry_selection_range(const struct qry_query *query, struct qry_selection *selection,
                                 int64_t start_ms, int64_t end_ms, struct fg_err *err)
{
    int64_t length_ns;

    /* 0 is an absent field (proto3); Pyroscope refuses such queries with this sentence. */
    if (start_ms == 0 || end_ms == 0)
        return fg_fail(err, FG_E_INVALID, "missing time range in the query");
    if (start_ms > end_ms)
        return fg_fail(err, FG_E_INVALID, "query start time is after end time");
    selection->start_ns = ms_to_ns(start_ms);
    selection->end_ns = ms_to_ns(end_ms);
    look_back(query, selection);
    fg_assert(selection->start_ns <= selection->end_ns);
    if (__builtin_sub_overflow(selection->end_ns, selection->start_ns, &length_ns))
        length_ns = INT64_MAX;
    /* After the cut: what is not read does not count. */
    if (query->length_max_ns > 0 && length_ns > query->length_max_ns)
        return too_long(query, length_ns, err);
    return qry_selection_restrict(query, selection, err);
}

enum fg_code qry_selection_check_grid(int64_t start_ms, struct fg_err *err)
{
    if (start_ms >= GRID_FIRST_MS && start_ms <= GRID_LAST_MS)
        return FG_OK;
    return fg_fail(err, FG_E_INVALID,
                   "start %lld is no time that a grid can begin at: these are from %lld (the year "
                   "1823) to %lld (2262), in milliseconds since 1970",
                   (long long)start_ms, (long long)GRID_FIRST_MS, (long long)GRID_LAST_MS);
}

/* "<context> \"<selector>\": <what is wrong with it>" */
static enum fg_code bad_selector(struct fg_err *err, const char *context, const char *selector)
{
    struct fg_buf quoted;

    fg_buf_init(&quoted, FG_ERR_MSG_MAX_BYTES);
    fg_buf_json(&quoted, fg_slice_sub(fg_cstr(selector), 0, FG_ERR_MSG_MAX_BYTES / 4));
    fg_wrap(err, "%s \"%.*s\"", context, FG_S(fg_buf_slice(&quoted)));
    fg_buf_done(&quoted);
    return err->code;
}

enum fg_code qry_selection_matchers(struct qry_query *query, struct qry_selection *selection,
                                    char *const *matchers, size_t n, const char *context,
                                    struct fg_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (fg_selector_parse(fg_cstr(matchers[i]), query->arena, &selection->selector, err) !=
            FG_OK)
            return bad_selector(err, context, matchers[i]);
    return FG_OK;
}

/* Keeps the id's five parts as text; a sixth is ignored. */
static enum fg_code select_type(struct qry_query *query, struct qry_selection *selection,
                                const char *type_id, struct fg_err *err)
{
    struct fg_buf text;

    if (fg_profile_type_parse(fg_cstr(type_id), &selection->type, err) != FG_OK)
        return err->code;
    /* The five parts and their colons are not longer than the id. */
    fg_buf_init(&text, strlen(type_id) + 8);
    fg_profile_type_write(&selection->type, &text);
    selection->type_text = fg_arena_text(query->arena, fg_buf_slice(&text));
    fg_buf_done(&text);
    if (selection->type_text == NULL)
        return fg_fail(err, FG_E_LIMIT, "profile type is too long");
    /* It goes into the response's statistics, which are UTF-8. */
    if (fg_utf8_valid(selection->type.unit))
        query->unit = fg_arena_text(query->arena, selection->type.unit);
    return FG_OK;
}

/* Leaves out profiles that sampling marked, unless the selector names the mark. */
static enum fg_code leave_out_sampled(struct qry_query *query, struct qry_selection *selection,
                                      struct fg_err *err)
{
    for (size_t i = 0; i < selection->selector.n_matchers; i++)
        /* A client that names the label knows about it. */
        if (fg_slice_is(selection->selector.matchers[i].name, SAMPLED_LABEL))
            return FG_OK;
    return fg_selector_add(&selection->selector, query->arena, FG_MATCH_NE, FG_LIT(SAMPLED_LABEL),
                           FG_LIT("true"), err);
}

enum fg_code qry_selection_profiles(struct qry_query *query, struct qry_selection *selection,
                                    const char *type_id, const char *label_selector,
                                    struct fg_err *err)
{
    char *matchers[] = {fg_arena_text(query->arena, fg_cstr(label_selector))};

    if (matchers[0] == NULL)
        return fg_fail(err, FG_E_LIMIT, "selector is too long");
    if (type_id != NULL && select_type(query, selection, type_id, err) != FG_OK)
        return err->code;
    if (qry_selection_matchers(query, selection, matchers, 1, "parsing label selector", err) !=
        FG_OK)
        return err->code;
    return leave_out_sampled(query, selection, err);
}

/* Takes the metric name out of the selector: it stands for the profile type here. */
static bool take_metric_name(struct fg_selector *selector, struct fg_slice *ret_name)
{
    for (size_t i = 0; i < selector->n_matchers; i++) {
        struct fg_matcher *matcher = &selector->matchers[i];

        if (matcher->op != FG_MATCH_EQ || !fg_slice_is(matcher->name, FG_LABEL_NAME))
            continue;
        *ret_name = matcher->value;
        /* The order of matchers does not matter. */
        *matcher = selector->matchers[--selector->n_matchers];
        return true;
    }
    return false;
}

/* Parses a selector, and sets the type if it has a metric name. */
static enum fg_code parse_selector(struct qry_query *query, struct qry_selection *selection,
                                   struct fg_slice text, const char *name, struct fg_err *err)
{
    struct fg_slice type;

    if (fg_selector_parse(text, query->arena, &selection->selector, err) != FG_OK)
        return fg_wrap(err, "failed to parse \"%s\"", name);
    if (!take_metric_name(&selection->selector, &type))
        return FG_OK;
    const char *type_id = fg_arena_text(query->arena, type);
    if (type_id == NULL)
        return fg_fail(err, FG_E_LIMIT, "query is too long");
    if (select_type(query, selection, type_id, err) != FG_OK)
        return fg_fail(err, FG_E_INVALID, "failed to parse \"%s\"", name);
    return FG_OK;
}

enum fg_code qry_selection_parse(struct qry_query *query, struct qry_selection *selection,
                                 struct fg_slice text, const char *name, struct fg_err *err)
{
    if (text.len == 0)
        return fg_fail(err, FG_E_INVALID, "\"%s\" is required", name);
    if (parse_selector(query, selection, text, name, err) != FG_OK)
        return err->code;
    if (selection->type_text == NULL)
        return fg_fail(err, FG_E_INVALID, "\"%s\" must contain a profile-type selection", name);
    return leave_out_sampled(query, selection, err);
}

enum fg_code qry_selection_parse_series(struct qry_query *query, struct qry_selection *selection,
                                        struct fg_slice text, const char *name, struct fg_err *err)
{
    if (text.len > 0 && parse_selector(query, selection, text, name, err) != FG_OK)
        return err->code;
    if (selection->type_text != NULL &&
        fg_selector_add(&selection->selector, query->arena, FG_MATCH_EQ,
                        FG_LIT(FG_LABEL_PROFILE_TYPE), fg_cstr(selection->type_text), err) != FG_OK)
        return err->code;
    return leave_out_sampled(query, selection, err);
}

struct fg_slice qry_selection_service(const struct fg_selector *selector)
{
    for (size_t i = 0; selector != NULL && i < selector->n_matchers; i++)
        if (selector->matchers[i].op == FG_MATCH_EQ &&
            fg_slice_is(selector->matchers[i].name, FG_LABEL_SERVICE))
            return selector->matchers[i].value;
    return fg_bytes(NULL, 0);
}

const char *qry_selection_rate_unit(const struct qry_query *query,
                                    const struct qry_selection *selection)
{
    struct fg_buf text;
    const char *unit;

    if (fg_profile_type_is_moment(&selection->type))
        return "";
    fg_buf_init(&text, SIZE_MAX);
    fg_buf_put(&text, selection->type.unit);
    fg_buf_puts(&text, " per second");
    unit = fg_arena_text(query->arena, fg_buf_slice(&text));
    fg_buf_done(&text);
    return unit;
}

enum fg_code qry_selection_max_nodes(int64_t asked, size_t *ret_max_nodes, struct fg_err *err)
{
    if (asked < 0)
        return fg_fail(err, FG_E_INVALID, "max flamegraph nodes limit must be set (max allowed %d)",
                       FG_FLAME_NODES_MAX);
    if (asked > FG_FLAME_NODES_MAX)
        return fg_fail(err, FG_E_INVALID,
                       "max flamegraph nodes limit %lld is greater than allowed %d",
                       (long long)asked, FG_FLAME_NODES_MAX);
    *ret_max_nodes = asked == 0 ? FG_FLAME_NODES_DEFAULT : (size_t)asked;
    return FG_OK;
}

/* --- label names and the Accept header --- */

bool qry_is_plain_label_name(struct fg_slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

        if (!letter && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return name.len > 0;
}

static bool is_token(struct fg_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] >= 0x7f ||
            fg_slice_find(FG_LIT("()<>@,;:\\\"/[]?="), text.ptr[i]) != SIZE_MAX)
            return false;
    return text.len > 0;
}

/* Returns the text before the next stop outside of quotes; *rest: what follows it. */
static struct fg_slice cut(struct fg_slice text, uint8_t stop, struct fg_slice *rest)
{
    bool quoted = false;
    size_t i;

    for (i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\\' && quoted)
            i++;
        else if (text.ptr[i] == '"')
            quoted = !quoted;
        else if (text.ptr[i] == stop && !quoted)
            break;
    }
    *rest = fg_slice_sub(text, i + 1, text.len);
    return fg_trim(fg_slice_sub(text, 0, i));
}

/* type "/" subtype, or "*" */
static bool is_media_type(struct fg_slice text)
{
    struct fg_slice subtype, type = cut(text, '/', &subtype);

    return is_token(type) && (subtype.len == 0 ? type.len == text.len : is_token(subtype));
}

/* name "=" value */
static bool read_param(struct fg_slice param, bool *allowed)
{
    struct fg_slice value, name = cut(param, '=', &value);

    value = fg_trim(value);
    bool quoted = value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"';
    if (!is_token(name) || !(quoted || is_token(value)))
        return false;
    if (quoted)
        value = fg_slice_sub(value, 1, value.len - 2);
    if (fg_slice_is_nocase(name, "allow-utf8-labelnames"))
        *allowed = *allowed || fg_slice_is(value, "true");
    return true;
}

static bool read_media_range(struct fg_slice range, bool *allowed)
{
    struct fg_slice params;

    if (!is_media_type(cut(range, ';', &params)))
        return false;
    while (params.len > 0) {
        struct fg_slice param = cut(params, ';', &params);

        if (param.len == 0 && params.len == 0) /* a last semicolon does no harm */
            break;
        if (!read_param(param, allowed))
            return false;
    }
    return true;
}

enum fg_code qry_accept_utf8_names(struct fg_slice accept, bool *ret_allowed, struct fg_err *err)
{
    bool allowed = false;
    struct fg_slice rest = accept;

    while (rest.len > 0) {
        struct fg_slice range = cut(rest, ',', &rest);

        if (range.len > 0 && !read_media_range(range, &allowed))
            return fg_fail(err, FG_E_INVALID, "Invalid header format: Accept: %.*s",
                           FG_S(fg_slice_sub(range, 0, 128)));
    }
    *ret_allowed = allowed;
    return FG_OK;
}
