/* What together.h keeps in each query. Apart, since a query has it and together.h reads queries. */
#ifndef FG_QUERIER_TOGETHER_PART_H
#define FG_QUERIER_TOGETHER_PART_H

#include "common/base/slice.h"
#include "common/runtime/loop.h"

struct qry_query;
struct qry_together_answer;

/* A query's part in it. Zero: the query is alone. */
struct qry_together_part {
    struct fg_slice key; /* what it asks, and on what the answer depends; empty: nobody joins */
    bool joined;         /* another query answered it, so it took nothing itself */
    unsigned coding;     /* if it joined: fg_http_coding() of the answer */

    /* Internal. */
    unsigned n_followers;   /* that have joined it */
    unsigned place;         /* of its key in the table */
    struct qry_query *next; /* in the list of leaders that wait, or of followers */
    struct qry_query *followers;
    bool listed;                        /* it may be joined */
    struct qry_together_answer *answer; /* NULL: its own body */
    struct fg_msg msg;
};

#endif
