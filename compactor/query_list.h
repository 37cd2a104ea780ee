/*
 * What queries of all tenants took on a day: adds up the objects that queriers wrote
 * (common/cluster/usage/query_counts.h). Keeps the last days, since each tenant is asked about in
 * turn.
 *
 * Thread: the compactor's own.
 */
#ifndef FG_COMPACTOR_QUERY_LIST_H
#define FG_COMPACTOR_QUERY_LIST_H

#include "common/cluster/usage/query_counts.h"
#include "compactor/env.h"

enum { QUERY_LIST_DAYS = 8 }; /* a compactor that was off for longer reads them again and again */

struct cmp_query_list_day {
    int32_t day;
    struct fg_arena *arena; /* NULL: none */
    struct fg_query_counts counts;
};

struct cmp_query_list {
    struct cmp_query_list_day days[QUERY_LIST_DAYS];
    uint32_t next; /* the one to replace */
};

/* Frees what it holds. Accepts a zeroed one, which is how it begins. */
void cmp_query_list_done(struct cmp_query_list *list);

/*
 * Finds what a tenant's queries took on a day that has ended for FG_LEDGER_FREEZE_DELAY_NS. Reads
 * the day's objects if it is not known: one request for each 1,000, and one for each. A damaged
 * object is logged and left out. Errors of the bucket.
 */
enum fg_code cmp_query_list_get(struct cmp_query_list *list, struct cmp_env *env, int32_t day,
                                struct fg_slice tenant, struct fg_usage_queries *ret_queries,
                                struct fg_err *err) fg_must_check;

#endif
