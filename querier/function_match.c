#include "querier/function_match.h"

#include "common/model/regex.h"

enum fg_code qry_function_match_read(struct fg_slice function, struct fg_slice regex,
                                     struct qry_function_match *ret_match, struct fg_err *err)
{
    char problem[FG_ERR_MSG_MAX_BYTES / 2];
    struct qry_function_match match = {.name = function};

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

    return meant->regex == NULL ? fg_slice_eq(name, meant->name)
                                : fg_regex_matches(meant->regex, name.ptr, name.len);
}

void qry_function_match_done(struct qry_function_match *match)
{
    fg_regex_destroy(match->regex);
    match->regex = NULL;
}
