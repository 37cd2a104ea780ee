#include "querier/reply.h"

#include "proto/statistics_v1.pb-c.h"

/* Far above the numbers of Pyroscope's messages, so that a field they add does not collide. */
enum { STATISTICS_FIELD = 1000 };

static enum fg_code check_size(const struct qry_query *query, struct fg_err *err)
{
    if (query->body.full)
        return fg_fail(err, FG_E_LIMIT,
                       "the response exceeds %llu bytes (querier.answer_max_bytes)",
                       (unsigned long long)query->querier->answer_max_bytes);
    return FG_OK;
}

/* Reasons are errors of others: nothing in them may look like the end of a header, or be invalid
 * UTF-8 in a message. */
static void write_missing(const struct qry_query *query, char text[MISSING_MAX_BYTES + 1])
{
    struct fg_slice missing = fg_buf_slice(&query->missing);

    if (missing.len > 0)
        memcpy(text, missing.ptr, missing.len);
    text[missing.len] = '\0';
    for (size_t i = 0; i < missing.len; i++)
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
}

static int64_t elapsed_ms(const struct qry_query *query)
{
    return (fg_mono_ns(query->querier->clock) - query->start_mono_ns) / FG_MS_NS;
}

/* ---- in messages ---- */

/* The message of the statistics and what it points to. */
struct statistics {
    Statistics__V1__Statistics message;
    Statistics__V1__TimeRange ranges[QUERY_SIDES_MAX], *range_list[QUERY_SIDES_MAX];
    char missing[MISSING_MAX_BYTES + 1];
    struct fg_pb_extension extension;
};

static const struct fg_pb_extension *make_statistics(const struct qry_query *query,
                                                     struct statistics *made)
{
    Statistics__V1__Statistics *message = &made->message;

    if (!query->statistics)
        return NULL;
    statistics__v1__statistics__init(message);
    write_missing(query, made->missing);
    message->opt_complete_case = STATISTICS__V1__STATISTICS__OPT_COMPLETE_COMPLETE;
    message->opt_exact_case = STATISTICS__V1__STATISTICS__OPT_EXACT_EXACT;
    message->complete = !query->incomplete;
    message->missing = made->missing;
    message->exact = !query->inexact;
    message->bound = query->inexact ? query->bound : 0;
    message->saturated = query->saturated;
    if (query->unit != NULL)
        message->unit = query->unit;
    message->profiles = query->profiles;
    message->series = query->series;
    message->bytes = query->bytes;
    message->rollups = query->rollups;
    message->objects = query->objects;
    message->requests = query->requests;
    message->cache_hits = query->cache_hits;
    message->disk_hits = query->disk_hits;
    message->millis = (uint64_t)elapsed_ms(query);
    for (unsigned i = 0; i < query->n_wide; i++) {
        statistics__v1__time_range__init(&made->ranges[i]);
        made->ranges[i].start = query->wide[i].start_ns / FG_MS_NS;
        made->ranges[i].end = query->wide[i].end_ns / FG_MS_NS;
        made->range_list[i] = &made->ranges[i];
    }
    message->ranges = made->range_list;
    message->n_ranges = query->n_wide;
    made->extension = (struct fg_pb_extension){STATISTICS_FIELD, "statistics", &made->message.base};
    return &made->extension;
}

enum fg_code qry_reply_message(struct qry_query *query, const ProtobufCMessage *message,
                               struct fg_err *err)
{
    struct statistics made;

    fg_connect_write(&query->call, message, make_statistics(query, &made), &query->body);
    return check_size(query, err);
}

enum fg_code qry_reply_end_bytes(struct qry_query *query, size_t start, struct fg_err *err)
{
    struct statistics made;
    const struct fg_pb_extension *extension = make_statistics(query, &made);

    if (extension != NULL)
        fg_pb_write_extension(extension, &query->body);
    fg_connect_end(&query->call, start, &query->body);
    return check_size(query, err);
}

/* ---- in JSON documents ---- */

static void put_statistics(const struct qry_query *query, struct fg_json_writer *json)
{
    char missing[MISSING_MAX_BYTES + 1];

    fg_json_begin_object(json, "statistics");
    fg_json_put_bool(json, "complete", !query->incomplete);
    if (query->incomplete) {
        write_missing(query, missing);
        fg_json_put_cstr(json, "missing", missing);
    }
    fg_json_put_bool(json, "exact", !query->inexact);
    if (query->inexact)
        fg_json_put_u64(json, "bound", query->bound);
    if (query->saturated)
        fg_json_put_bool(json, "saturated", true);
    if (query->unit != NULL)
        fg_json_put_cstr(json, "unit", query->unit);
    fg_json_put_u64(json, "profiles", query->profiles);
    fg_json_put_u64(json, "series", query->series);
    fg_json_put_u64(json, "bytes", query->bytes);
    if (query->querier->blocks != NULL) {
        fg_json_put_u64(json, "rollups", query->rollups);
        fg_json_put_u64(json, "objects", query->objects);
        fg_json_put_u64(json, "requests", query->requests);
        fg_json_put_u64(json, "cache_hits", query->cache_hits);
        fg_json_put_u64(json, "disk_hits", query->disk_hits);
    }
    fg_json_put_i64(json, "millis", elapsed_ms(query));
    if (query->n_wide > 0)
        fg_json_begin_array(json, "ranges");
    for (unsigned i = 0; i < query->n_wide; i++) {
        fg_json_begin_object(json, NULL);
        fg_json_put_i64(json, "from", query->wide[i].start_ns / FG_MS_NS);
        fg_json_put_i64(json, "until", query->wide[i].end_ns / FG_MS_NS);
        fg_json_end(json);
    }
    if (query->n_wide > 0)
        fg_json_end(json);
    fg_json_end(json);
}

enum fg_code qry_reply_end_json(struct qry_query *query, struct fg_json_writer *json,
                                struct fg_err *err)
{
    /* Documents of Pyroscope's routes get members of ours only on demand: a client may be strict.
     */
    if (query->statistics || strncmp(query->endpoint->path, "/api/", strlen("/api/")) == 0)
        put_statistics(query, json);
    fg_json_end(json);
    fg_buf_putc(&query->body, '\n');
    return check_size(query, err);
}

/* ---- in headers ---- */

static void add_number(struct fg_http_request *req, const char *name, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    fg_http_add_header(req, name, text);
}

/* Says which time ranges were answered although less was asked for: rollups do not tell moments
 * apart. */
static void add_ranges(const struct qry_query *query)
{
    char text[QUERY_SIDES_MAX * 48] = ""; /* two numbers of at most 20 characters each */
    size_t len = 0;

    for (unsigned i = 0; i < query->n_wide; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld-%lld", i == 0 ? "" : ", ",
                                (long long)(query->wide[i].start_ns / FG_MS_NS),
                                (long long)(query->wide[i].end_ns / FG_MS_NS));
    if (len > 0)
        fg_http_add_header(query->req, "X-Flamegrid-Range", text);
}

void qry_reply_headers(struct qry_query *query, int64_t took_ns)
{
    char missing[MISSING_MAX_BYTES + 1];

    if (query->job.code == FG_OK)
        fg_http_add_header(query->req, "X-Flamegrid-Complete",
                           query->incomplete ? "false" : "true");
    if (query->job.code == FG_OK && query->incomplete) {
        write_missing(query, missing);
        fg_http_add_header(query->req, "X-Flamegrid-Missing", missing);
    }
    fg_http_add_header(query->req, "X-Flamegrid-Exact", query->inexact ? "no" : "yes");
    if (query->inexact)
        add_number(query->req, "X-Flamegrid-Bound", query->bound);
    if (query->saturated)
        fg_http_add_header(query->req, "X-Flamegrid-Saturated", "true");
    if (query->empty)
        fg_http_add_header(query->req, "X-Flamegrid-Empty", "true");
    add_ranges(query);
    if (query->unit != NULL)
        fg_http_add_header(query->req, "X-Flamegrid-Unit", query->unit);
    add_number(query->req, "X-Flamegrid-Profiles", query->profiles);
    add_number(query->req, "X-Flamegrid-Bytes", query->bytes);
    add_number(query->req, "X-Flamegrid-Series", query->series);
    if (query->querier->blocks != NULL) {
        add_number(query->req, "X-Flamegrid-Objects", query->objects);
        add_number(query->req, "X-Flamegrid-Nodes", query->rollups);
        add_number(query->req, "X-Flamegrid-Requests", query->requests);
        add_number(query->req, "X-Flamegrid-Cache-Hits", query->cache_hits);
        add_number(query->req, "X-Flamegrid-Disk-Hits", query->disk_hits);
    }
    if (query->together.joined)
        fg_http_add_header(query->req, "X-Flamegrid-Joined", "true");
    add_number(query->req, "X-Flamegrid-Millis", (uint64_t)(took_ns / FG_MS_NS));
}
