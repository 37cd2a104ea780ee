#include "querier/function_match.h"

#include "common/model/regex.h"
#include "common/model/selector.h"
#include "querier/query.h"

enum fg_code qry_function_match_read(struct qry_query *query, struct fg_slice function,
                                     struct fg_slice regex, struct qry_function_match *ret_match,
                                     struct fg_err *err)
{
    char problem[FG_ERR_MSG_MAX_BYTES / 2];
    struct qry_function_match match = {
        .name = function,
        .query = query,
        .asked = fg_arena_new(query->arena, struct qry_function_asked, 1),
    };

    if (match.asked == NULL)
        return qry_query_too_large(err);
    if ((function.len > 0) == (regex.len > 0))
        return fg_fail(err, FG_E_INVALID, "one of function and regex says which function is meant");
    if (regex.len > 0) {
        match.regex = fg_regex_create(regex.ptr, regex.len, problem, sizeof problem);
        if (match.regex == NULL)
            return fg_fail(err, FG_E_INVALID, "regex: %s", problem);
    }
    *ret_match = match;
    return FG_OK;
}

bool qry_function_match_is(const void *match, struct fg_slice name)
{
    const struct qry_function_match *meant = match;
    struct qry_function_asked *asked = meant->asked;
    struct fg_err unused;

    if (meant->regex == NULL)
        return fg_slice_eq(name, meant->name);
    if (++asked->count % FG_SELECTOR_ASK_EVERY == 0)
        asked->over = asked->over || qry_query_check(meant->query, &unused) != FG_OK;
    return !asked->over && fg_regex_matches(meant->regex, name.ptr, name.len);
}

void qry_function_match_done(struct qry_function_match *match)
{
    fg_regex_destroy(match->regex);
    match->regex = NULL;
}
