#include "querier/usage.h"

#include "common/base/timespec.h"
#include "common/cluster/usage/documents.h"
#include "common/storage/bucket/message_object.h"
#include "querier/blocks/blocks.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/reply.h"
#include "querier/usage_table.h"

#define REQUEST_TIMEOUT_NS (20 * FG_SECOND_NS) /* within the query's own */

enum {
    DAYS_MAX = 400, /* of one answer, which reads a document for each: a year and its corrections */
    DAYS_DEFAULT = 31,
};

struct usage_asking {
    struct qry_query *query;
    int32_t first, last; /* days */
    bool csv;
    struct fg_usage_documents documents;
    struct fg_usage_reading *readings; /* by tenant and day */
    uint32_t n_readings, cap_readings;
    uint32_t end_of[FG_TENANT_IDS_MAX]; /* where each tenant's readings end */
    struct qry_usage_table table;
};

/* ---- the request ---- */

/* Reads a day, or any time; an empty text is `otherwise`. exclusive: the day before the one that
 * begins at this time. */
static enum fg_code read_day(const struct qry_query *query, struct fg_slice text, const char *name,
                             bool exclusive, int32_t otherwise, int32_t *ret_day,
                             struct fg_err *err)
{
    int64_t ns = 0;
    int32_t day;
    bool has_form_of_day;

    if (text.len == 0) {
        *ret_day = otherwise;
        return FG_OK;
    }
    if (fg_usage_day_parse(text, &day)) {
        *ret_day = day - exclusive;
        return FG_OK;
    }
    /* To the other syntax a day that does not exist (2026-02-30) is some time: a bill has to be
     * asked for again. */
    has_form_of_day = text.len > 7 && text.ptr[4] == '-' && text.ptr[7] == '-';
    if (has_form_of_day || !fg_timespec_parse(text, fg_wall_ns(query->querier->clock), &ns))
        return fg_fail(err, FG_E_INVALID, "%s: \"%.*s\" is no day (2026-11-27) and no time", name,
                       FG_S(text));
    *ret_day = fg_usage_day_of(exclusive && ns > INT64_MIN ? ns - 1 : ns);
    return FG_OK;
}

static enum fg_code read_params(struct usage_asking *asking, struct fg_err *err)
{
    const struct qry_query *query = asking->query;
    const struct qry_render_params *params = &query->params;
    int32_t today = fg_usage_day_of(fg_wall_ns(query->querier->clock));

    if (read_day(query, params->until, "until", true, today, &asking->last, err) != FG_OK ||
        read_day(query, params->from, "from", false, asking->last - DAYS_DEFAULT + 1,
                 &asking->first, err) != FG_OK)
        return err->code;
    if (asking->first > asking->last)
        return fg_fail(err, FG_E_INVALID, "from is not before until");
    if ((int64_t)asking->last - asking->first >= DAYS_MAX)
        return fg_fail(err, FG_E_INVALID, "from and until are more than %d days apart", DAYS_MAX);
    asking->table.by_service = fg_slice_is(params->by, "service");
    if (params->by.len > 0 && !asking->table.by_service && !fg_slice_is(params->by, "day"))
        return fg_fail(err, FG_E_INVALID, "by: \"%.*s\" is neither day nor service",
                       FG_S(params->by));
    asking->csv = params->format.len > 0
                      ? fg_slice_is(params->format, "csv")
                      : fg_http_accept_weight(query->req, "text/csv") >
                            fg_http_accept_weight(query->req, "application/json");
    if (params->format.len > 0 && !asking->csv && !fg_slice_is(params->format, "json"))
        return fg_fail(err, FG_E_INVALID, "format: \"%.*s\" is neither json nor csv",
                       FG_S(params->format));
    return FG_OK;
}

/* ---- a tenant ---- */

/* Finds the tenant's entry of a day; entries before `from` are of other tenants. Adds it if it is
 * not there. NULL: there is no memory. */
static struct qry_usage_entry *entry_of(struct usage_asking *asking, uint32_t from, size_t tenant,
                                        int32_t day)
{
    struct qry_usage_table *table = &asking->table;
    uint32_t at = table->n_entries;

    while (at > from && table->entries[at - 1].sums.day >= day)
        at--;
    if (at < table->n_entries && table->entries[at].sums.day == day)
        return &table->entries[at];
    if (!fg_arena_grow(asking->query->arena, &table->entries, table->n_entries, 1,
                       &table->cap_entries, sizeof *table->entries))
        return NULL;
    memmove(&table->entries[at + 1], &table->entries[at],
            (table->n_entries - at) * sizeof *table->entries);
    table->entries[at] = (struct qry_usage_entry){.tenant = asking->query->tenants.ids[tenant],
                                                  .sums = {.day = day}};
    table->n_entries++;
    return &table->entries[at];
}

/* Finds the newest documents of a tenant. */
static enum fg_code list_documents(struct usage_asking *asking, size_t tenant, struct fg_err *err)
{
    struct qry_query *query = asking->query;
    const struct fg_blocks *blocks = qry_blocks_manifest(query, tenant);
    struct fg_slice name = query->tenants.ids[tenant];
    struct fg_usage_newest *newest;
    uint64_t below;
    uint32_t n = 0;

    if (blocks != NULL) {
        /* The ledger keeps frozen days until all documents of its version are stored. */
        below = blocks->ledger.version + (blocks->ledger.n_frozen == 0);
        if (qry_query_check(query, err) != FG_OK ||
            fg_usage_documents_list(&asking->documents, name, asking->first, asking->last, below,
                                    query->arena, &newest, &n, err) != FG_OK)
            return err->code;
        query->requests++;
        if (!fg_arena_grow(query->arena, &asking->readings, asking->n_readings, n,
                           &asking->cap_readings, sizeof *asking->readings))
            return qry_query_too_large(err);
    }
    for (uint32_t i = 0; i < n; i++)
        asking->readings[asking->n_readings++] =
            (struct fg_usage_reading){.tenant = name, .newest = newest[i]};
    asking->end_of[tenant] = asking->n_readings;
    return FG_OK;
}

static enum fg_code check_query(void *arg, struct fg_err *err)
{
    return qry_query_check(arg, err);
}

/* Reads the documents of all tenants and days. */
static enum fg_code read_documents(struct usage_asking *asking, struct fg_err *err)
{
    struct qry_query *query = asking->query;

    asking->documents = (struct fg_usage_documents){.bucket = query->querier->blocks->bucket,
                                                    .clock = query->querier->clock,
                                                    .timeout_ns = REQUEST_TIMEOUT_NS,
                                                    .deadline_mono_ns = query->deadline_mono_ns};
    for (size_t i = 0; i < query->tenants.n; i++)
        if (list_documents(asking, i, err) != FG_OK)
            return err->code;
    query->requests += asking->n_readings;
    return fg_usage_documents_read_all(&asking->documents, asking->readings, asking->n_readings,
                                       query->arena, check_query, query, err);
}

static enum fg_code add_documents(struct usage_asking *asking, uint32_t from, size_t tenant,
                                  struct fg_err *err)
{
    for (uint32_t i = tenant == 0 ? 0 : asking->end_of[tenant - 1]; i < asking->end_of[tenant];
         i++) {
        const struct fg_usage_document *document = &asking->readings[i].document;
        struct qry_usage_entry *entry = entry_of(asking, from, tenant, document->sums.day);

        if (entry == NULL)
            return qry_query_too_large(err);
        entry->version = document->version;
        entry->revision = document->revision;
        entry->sums = document->sums;
    }
    return FG_OK;
}

/* Adds sums that no document has. */
static enum fg_code add_days(struct usage_asking *asking, uint32_t from, size_t tenant,
                             const struct fg_usage_day *days, uint32_t n, struct fg_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        struct qry_usage_entry *entry;

        if (days[i].day < asking->first || days[i].day > asking->last ||
            fg_usage_day_is_empty(&days[i]))
            continue;
        entry = entry_of(asking, from, tenant, days[i].day);
        if (entry == NULL || !fg_usage_day_add(&entry->sums, &days[i], asking->query->arena))
            return qry_query_too_large(err);
        entry->preliminary = true;
    }
    return FG_OK;
}

static enum fg_code add_tenant(struct usage_asking *asking, size_t tenant, struct fg_err *err)
{
    struct qry_query *query = asking->query;
    const struct fg_blocks *blocks = qry_blocks_manifest(query, tenant);
    uint32_t from = asking->table.n_entries;
    struct fg_ledger ledger;

    if (blocks == NULL)
        return FG_OK;
    /* Stored bytes until now, as the next swap will count them. */
    if (!fg_ledger_copy(&ledger, &blocks->ledger, query->arena) ||
        (ledger.stored_wall_ns != 0 &&
         !fg_ledger_store(&ledger, fg_blocks_stored_bytes(blocks),
                          fg_wall_ns(query->querier->clock), query->arena)))
        return qry_query_too_large(err);
    if (add_documents(asking, from, tenant, err) != FG_OK ||
        add_days(asking, from, tenant, ledger.frozen, ledger.n_frozen, err) != FG_OK ||
        add_days(asking, from, tenant, ledger.open, ledger.n_open, err) != FG_OK)
        return err->code;
    return FG_OK;
}

/* ---- the answer ---- */

static void put_waiting(struct fg_json_writer *json, const struct qry_query *query, size_t tenant)
{
    const struct fg_usage_row waiting = qry_blocks_waiting(query, (uint32_t)tenant);

    fg_json_begin_object(json, NULL);
    fg_json_put_text(json, "tenant", query->tenants.ids[tenant]);
    fg_json_put_u64(json, "profiles", waiting.profiles);
    fg_json_put_u64(json, "samples", waiting.usage.samples);
    fg_json_put_u64(json, "wire_bytes", waiting.usage.wire_bytes);
    fg_json_put_u64(json, "raw_bytes", waiting.usage.raw_bytes);
    fg_json_end(json);
}

static enum fg_code write_answer(struct usage_asking *asking, struct fg_err *err)
{
    struct qry_query *query = asking->query;
    struct fg_json_writer json = fg_json_writer(&query->body);
    char date[FG_USAGE_DATE_BYTES];

    if (asking->csv) {
        query->content_type = "text/csv; charset=utf-8; header=present";
        qry_usage_table_csv(&asking->table, &query->body);
        return query->body.full ? qry_query_too_large(err) : FG_OK;
    }
    fg_json_begin_object(&json, NULL);
    fg_usage_day_write(asking->first, date);
    fg_json_put_cstr(&json, "from", date);
    fg_usage_day_write(asking->last + 1, date);
    fg_json_put_cstr(&json, "until", date);
    fg_json_put_cstr(&json, "by", asking->table.by_service ? "service" : "day");
    qry_usage_table_json(&asking->table, &json);
    fg_json_newline(&json);
    fg_json_begin_array(&json, "waiting");
    for (size_t i = 0; i < query->tenants.n; i++)
        put_waiting(&json, query, i);
    fg_json_end(&json);
    return qry_reply_end_json(query, &json, err);
}

static enum fg_code usage(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    struct usage_asking asking = {.query = query};
    enum fg_code code;

    (void)in;
    if (read_params(&asking, err) != FG_OK)
        return err->code;
    /* A bill is of what is there now, not of ten seconds ago: the snapshot is fresh. */
    if (qry_blocks_begin(query, true, err) != FG_OK)
        return err->code;
    code = read_documents(&asking, err);
    for (size_t i = 0; i < query->tenants.n && code == FG_OK; i++)
        code = add_tenant(&asking, i, err);
    if (code == FG_OK)
        return write_answer(&asking, err);
    return code == FG_E_CANCELED || code == FG_E_DEADLINE ? code : fg_message_object_fault(err);
}

const struct qry_endpoint qry_usage_endpoints[] = {
    {"/api/usage", "usage", NULL, usage, 0, true},
};
const size_t qry_n_usage_endpoints = FG_COUNT(qry_usage_endpoints);
