/*
 * What the audit records of queries: changes before they are made and with their result, queries
 * when they have ended (common/access/audit/audit.h).
 *
 * Thread: that of the query at the time.
 */
#ifndef FG_QUERIER_AUDITED_H
#define FG_QUERIER_AUDITED_H

#include "querier/query.h"

/* Keeps what the query asks for: selectors and time range of a message, or the parameters of a
 * plain route. in: NULL for those. */
void qry_audited_asks(struct qry_query *query, const ProtobufCMessage *in);

/* Records a change before it is made. Blocks. FG_E_UNAVAILABLE: it must not be made. */
enum fg_code qry_audited_begin(struct qry_query *query, struct fg_err *err) fg_must_check;

/* Records the query, or the result of a change, before the answer. */
void qry_audited_end(struct qry_query *query);

#endif
