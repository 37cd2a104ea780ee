#include "querier/params.h"

#include "common/base/str.h"
#include "common/base/timespec.h"

enum fg_code qry_params_time(const struct qry_query *query, struct fg_slice text, const char *name,
                             int64_t otherwise_ns, int64_t *ret_ms, struct fg_err *err)
{
    int64_t ns = otherwise_ns;

    if (text.len > 0 && !fg_timespec_parse(text, fg_wall_ns(query->querier->clock), &ns))
        return fg_fail(err, FG_E_INVALID, "%s: \"%.*s\" is no time", name, FG_S(text));
    /* Milliseconds, as in the Connect API, so that both interfaces select the same profiles. */
    *ret_ms = ns / FG_MS_NS;
    return FG_OK;
}

static enum fg_code read_range(struct qry_query *query, struct qry_selection *selection,
                               struct fg_err *err)
{
    const struct qry_render_params *params = &query->params;
    int64_t now_ns = fg_wall_ns(query->querier->clock), start_ms = 0, end_ms = 0;

    if (qry_params_time(query, params->from, "from", now_ns - FG_HOUR_NS, &start_ms, err) !=
            FG_OK ||
        qry_params_time(query, params->until, "until", now_ns, &end_ms, err) != FG_OK)
        return err->code;
    return qry_selection_range(query, selection, start_ms, end_ms, err);
}

enum fg_code qry_params_selection(struct qry_query *query, struct qry_selection *selection,
                                  struct fg_err *err)
{
    if (qry_selection_parse(query, selection, query->params.query, "query", err) != FG_OK)
        return err->code;
    return read_range(query, selection, err);
}

enum fg_code qry_params_series(struct qry_query *query, struct qry_selection *selection,
                               struct fg_err *err)
{
    if (qry_selection_parse_series(query, selection, query->params.query, "query", err) != FG_OK)
        return err->code;
    return read_range(query, selection, err);
}

enum fg_code qry_params_flag(struct fg_slice text, const char *name, bool *ret_flag,
                             struct fg_err *err)
{
    /* No "1" or "yes": a flag that is not understood has to be an error, and not false. */
    bool flag = fg_slice_is(text, "true");

    if (text.len > 0 && !flag && !fg_slice_is(text, "false"))
        return fg_fail(err, FG_E_INVALID, "%s: \"%.*s\" is neither true nor false", name,
                       FG_S(text));
    *ret_flag = flag;
    return FG_OK;
}

enum fg_code qry_params_number(struct fg_slice text, const char *name, int64_t otherwise,
                               int64_t min, int64_t max, size_t *ret_number, struct fg_err *err)
{
    int64_t number = otherwise;

    /* An absent parameter and an empty one mean the default. */
    if (text.len > 0 && (!fg_parse_i64(text, &number) || number < min || number > max))
        return fg_fail(err, FG_E_INVALID, "%s: \"%.*s\" is no number from %lld to %lld", name,
                       FG_S(text), (long long)min, (long long)max);
    *ret_number = (size_t)number;
    return FG_OK;
}
