/*
 * What a query selects: a time range, series and, of their samples, some stacks. The functions read
 * it from requests and apply the tenants' limits (querier/API.md#common-rules).
 *
 * The texts of errors are interface: clients show them and compare them.
 *
 * Thread: the query's. Memory: the query's arena, except for compiled regular expressions, which
 * qry_selection_done() frees.
 */
#ifndef FG_QUERIER_SELECTION_H
#define FG_QUERIER_SELECTION_H

#include "common/model/labels.h"
#include "common/model/selector.h"
#include "querier/query.h"

struct qry_selection {
    struct fg_selector selector;
    struct fg_profile_type type; /* if type_text is not NULL */
    const char *type_text;       /* its five parts; NULL: any type */
    int64_t start_ns, end_ns;    /* both inclusive */
    bool restricted;             /* the selector has query->restriction, too */
    int64_t cut_ns;              /* by so much later than the client asked does start_ns begin */
};

/* Narrows the samples of a selection; all arrays may be empty. */
struct qry_stack_filter {
    const char **call_site; /* function names, root first */
    size_t n_call_site;
    uint64_t *spans;
    size_t n_spans;
    ProtobufCBinaryData *traces, *profile_ids;
    size_t n_traces, n_profile_ids;
};

/* Returns the first moment that points are made from: the millisecond after the grid point that
 * precedes the range. */
static inline int64_t qry_points_from_ns(const struct qry_selection *selection, int64_t step_ns)
{
    return fg_time_add(selection->start_ns, FG_MS_NS - step_ns);
}

/* Frees what the selection owns. A zeroed selection is fine. */
void qry_selection_done(struct qry_selection *selection);

/* Adds what the caller may see to the selector, once. Every selection needs it before it is used;
 * qry_selection_range() does it. */
enum fg_code qry_selection_restrict(const struct qry_query *query, struct qry_selection *selection,
                                    struct fg_err *err) fg_must_check;

/* Sets the time range. Cuts off what is before the tenants' retention and max_query_lookback.
 * FG_E_INVALID: no range, its start is after its end, or it exceeds max_query_length. */
enum fg_code qry_selection_range(const struct qry_query *query, struct qry_selection *selection,
                                 int64_t start_ms, int64_t end_ms,
                                 struct fg_err *err) fg_must_check;

/* Checks that a grid may begin at a time. Others do not fit into 64 bits of nanoseconds, so points
 * would be those of another grid, with the times of this one. FG_E_INVALID. */
enum fg_code qry_selection_check_grid(int64_t start_ms, struct fg_err *err) fg_must_check;

/* Sets the profile type by its id (NULL: any type), and the selector {a="b"}. FG_E_INVALID. */
enum fg_code qry_selection_profiles(struct qry_query *query, struct qry_selection *selection,
                                    const char *type_id, const char *label_selector,
                                    struct fg_err *err) fg_must_check;

/* Sets both from one selector whose metric name is the type's id: TYPE{a="b"}. name: the HTTP
 * parameter, for errors. FG_E_INVALID. */
enum fg_code qry_selection_parse(struct qry_query *query, struct qry_selection *selection,
                                 struct fg_slice text, const char *name,
                                 struct fg_err *err) fg_must_check;

/* Does the same if there is a metric name; without one, or without any text, sets only the
 * selector: any type. With a type, the selector asks for it as well. FG_E_INVALID. */
enum fg_code qry_selection_parse_series(struct qry_query *query, struct qry_selection *selection,
                                        struct fg_slice text, const char *name,
                                        struct fg_err *err) fg_must_check;

/* Adds selectors; series have to match all of them. context: precedes the error's text.
 * FG_E_INVALID. */
enum fg_code qry_selection_matchers(struct qry_query *query, struct qry_selection *selection,
                                    char *const *matchers, size_t n, const char *context,
                                    struct fg_err *err) fg_must_check;

/* Returns the service that all matching series are of, if an "=" matcher names it; empty: none
 * does. selector may be NULL. */
struct fg_slice qry_selection_service(const struct fg_selector *selector);

/* Returns what values by time are in, in the arena: "<unit> per second"; empty for a type whose
 * values are of moments, which have no rates. NULL: the arena is full. */
const char *qry_selection_rate_unit(const struct qry_query *query,
                                    const struct qry_selection *selection);

/* Returns the number of nodes that a flame graph may have; asked 0: the default. FG_E_INVALID:
 * negative, or above the limit. */
enum fg_code qry_selection_max_nodes(int64_t asked, size_t *ret_max_nodes,
                                     struct fg_err *err) fg_must_check;

/* Reads from an Accept header whether the client takes label names beyond
 * [a-zA-Z_][a-zA-Z0-9_]*. FG_E_INVALID: the header is malformed. */
enum fg_code qry_accept_utf8_names(struct fg_slice accept, bool *ret_allowed,
                                   struct fg_err *err) fg_must_check;

/* Returns true if the name is of the form [a-zA-Z_][a-zA-Z0-9_]*. */
bool qry_is_plain_label_name(struct fg_slice name);

#endif
