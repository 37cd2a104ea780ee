#include "querier/usage_table.h"

#include <inttypes.h>

/* ---- JSON ---- */

static void put_row(struct fg_json_writer *json, const struct fg_usage_row *row)
{
    fg_json_put_u64(json, "profiles", row->profiles);
    /* From programs that did not measure: of these, only their number is known. */
    fg_json_put_u64(json, "unmeasured_profiles", row->profiles - row->usage.profiles);
    fg_json_put_u64(json, "samples", row->usage.samples);
    fg_json_put_u64(json, "wire_bytes", row->usage.wire_bytes);
    fg_json_put_u64(json, "raw_bytes", row->usage.raw_bytes);
    fg_json_put_u64(json, "series", row->series);
}

static void put_services(struct fg_json_writer *json, const struct fg_usage_day *sums)
{
    fg_json_begin_array(json, "services");
    for (uint32_t i = 0; i < sums->n_rows; i++) {
        fg_json_newline(json);
        fg_json_begin_object(json, NULL);
        fg_json_put_text(json, "service", sums->rows[i].service);
        put_row(json, &sums->rows[i]);
        fg_json_end(json);
    }
    fg_json_end(json);
}

static void put_entry(struct fg_json_writer *json, const struct qry_usage_entry *entry,
                      bool by_service)
{
    const struct fg_usage_row total = fg_usage_day_total(&entry->sums);
    char date[FG_USAGE_DATE_BYTES];

    fg_usage_day_write(entry->sums.day, date);
    fg_json_newline(json);
    fg_json_begin_object(json, NULL);
    fg_json_put_text(json, "tenant", entry->tenant);
    fg_json_put_cstr(json, "day", date);
    fg_json_put_u64(json, "version", entry->version);
    fg_json_put_u64(json, "revision", entry->revision);
    fg_json_put_bool(json, "preliminary", entry->preliminary);
    put_row(json, &total);
    fg_json_put_u64(json, "stored_byte_days", entry->sums.stored.byte_days);
    fg_json_put_u64(json, "stored_byte_seconds", entry->sums.stored.byte_seconds);
    fg_json_put_u64(json, "writes", entry->sums.writes);
    fg_json_put_u64(json, "queries", entry->sums.queries.queries);
    fg_json_put_u64(json, "reads", entry->sums.queries.requests);
    fg_json_put_u64(json, "read_bytes", entry->sums.queries.read_bytes);
    fg_json_put_u64(json, "cpu_ms", entry->sums.queries.cpu_us / 1000);
    if (by_service)
        put_services(json, &entry->sums);
    fg_json_end(json);
}

void qry_usage_table_json(const struct qry_usage_table *table, struct fg_json_writer *json)
{
    fg_json_begin_array(json, "days");
    for (uint32_t i = 0; i < table->n_entries; i++)
        put_entry(json, &table->entries[i], table->by_service);
    fg_json_end(json);
}

/* ---- CSV ---- */

static void put_field(struct fg_buf *out, struct fg_slice text)
{
    bool quoted = false;

    for (size_t i = 0; i < text.len; i++)
        quoted = quoted || text.ptr[i] == ',' || text.ptr[i] == '"' || text.ptr[i] == '\r' ||
                 text.ptr[i] == '\n';
    if (!quoted) {
        fg_buf_put(out, text);
        return;
    }
    fg_buf_putc(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '"')
            fg_buf_putc(out, '"');
        fg_buf_putc(out, text.ptr[i]);
    }
    fg_buf_putc(out, '"');
}

/* The columns that all rows have. */
static void put_head(struct fg_buf *out, const struct qry_usage_entry *entry,
                     const struct fg_usage_row *row)
{
    char date[FG_USAGE_DATE_BYTES];

    fg_usage_day_write(entry->sums.day, date);
    put_field(out, entry->tenant);
    fg_buf_printf(out, ",%s,", date);
    put_field(out, row->service);
    fg_buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",%s", entry->version, entry->revision,
                  entry->preliminary ? "true" : "false");
    fg_buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
                  row->profiles, row->profiles - row->usage.profiles, row->usage.samples,
                  row->usage.wire_bytes, row->usage.raw_bytes, row->series);
}

static void put_day(struct fg_buf *out, const struct qry_usage_entry *entry)
{
    const struct fg_usage_row total = fg_usage_day_total(&entry->sums);
    const struct fg_usage_day *sums = &entry->sums;

    put_head(out, entry, &total);
    fg_buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, sums->stored.byte_days,
                  sums->stored.byte_seconds, sums->writes);
    fg_buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, sums->queries.queries,
                  sums->queries.requests, sums->queries.read_bytes, sums->queries.cpu_us / 1000);
    fg_buf_puts(out, "\r\n");
}

void qry_usage_table_csv(const struct qry_usage_table *table, struct fg_buf *out)
{
    fg_buf_puts(out, "tenant,day,service,version,revision,preliminary,profiles,unmeasured_profiles,"
                     "samples,wire_bytes,raw_bytes,series,stored_byte_days,stored_byte_seconds,"
                     "writes,queries,reads,read_bytes,cpu_ms\r\n");
    for (uint32_t i = 0; i < table->n_entries; i++) {
        const struct qry_usage_entry *entry = &table->entries[i];

        if (!table->by_service)
            put_day(out, entry);
        for (uint32_t k = 0; table->by_service && k < entry->sums.n_rows; k++) {
            put_head(out, entry, &entry->sums.rows[k]);
            fg_buf_puts(out, ",,,,,,,\r\n");
        }
    }
}
