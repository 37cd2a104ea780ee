/*
 * Which functions a request means: one by its name, or those whose whole name matches a regular
 * expression.
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_FUNCTION_MATCH_H
#define FG_QUERIER_FUNCTION_MATCH_H

#include "common/base/err.h"
#include "common/base/slice.h"

struct fg_regex;
struct qry_query;

/* How many names an expression was asked about, and whether the answer is wanted no more. */
struct qry_function_asked {
    uint64_t count;
    bool over;
};

struct qry_function_match {
    struct fg_slice name;
    struct fg_regex *regex; /* NULL: by name */
    struct qry_query *query;
    struct qry_function_asked *asked; /* in the query's arena */
};

/*
 * Reads the parameters `function` and `regex` of the query, of which one has to be given; name is
 * borrowed. FG_E_INVALID: both or none are given, or the expression is malformed. FG_E_LIMIT. Done
 * with qry_function_match_done() after success.
 */
enum fg_code qry_function_match_read(struct qry_query *query, struct fg_slice function,
                                     struct fg_slice regex, struct qry_function_match *ret_match,
                                     struct fg_err *err) fg_must_check;

/*
 * Says whether a function is meant. match: a struct qry_function_match (for fg_sandwich_make()). An
 * expression may take a millisecond for a name: if the query's time is over meanwhile, no further
 * function is meant, and the caller finds out with qry_query_check().
 */
bool qry_function_match_is(const void *match, struct fg_slice name);

/* Frees the expression. A zeroed match is fine. */
void qry_function_match_done(struct qry_function_match *match);

#endif
