/*
 * A table of what tenants used, as JSON and as CSV. Pure.
 *
 * Thread: any; no state.
 */
#ifndef FG_QUERIER_USAGE_TABLE_H
#define FG_QUERIER_USAGE_TABLE_H

#include "common/base/json_writer.h"
#include "common/model/usage_day.h"

/* What a tenant used on a day. */
struct qry_usage_entry {
    struct fg_slice tenant;
    uint64_t version, revision; /* of the newest document; 0: there is none */
    bool preliminary;           /* sums has more than the document: it will have another version */
    struct fg_usage_day sums;
};

struct qry_usage_table {
    struct qry_usage_entry *entries; /* by tenant and day */
    uint32_t n_entries, cap_entries;
    bool by_service; /* a row for each service; else one for each day */
};

/* Writes the member "days" of an object that is open. */
void qry_usage_table_json(const struct qry_usage_table *table, struct fg_json_writer *json);

/* Writes a header and rows as RFC 4180 has it. The columns of a service's row that are of the whole
 * day are empty. */
void qry_usage_table_csv(const struct qry_usage_table *table, struct fg_buf *out);

#endif
