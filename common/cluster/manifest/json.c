/* Manifests as JSON: one line for each entry, times in nanoseconds, names as in the bucket. Times
 * exceed 2^53, so readers that take numbers for doubles round them to 256 ns. */
#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/cluster/manifest/blocks.h"

/* High half first, as in the names of objects. */
static void put_id(struct fg_json_writer *json, const char *key, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES], turned[FG_ID_BYTES];
    struct fg_buf *out;

    fg_id_put(bytes, id);
    for (size_t i = 0; i < sizeof bytes; i++)
        turned[i] = bytes[sizeof bytes - 1 - i];
    out = fg_json_value(json, key);
    fg_buf_putc(out, '"');
    fg_buf_hex(out, turned, sizeof turned);
    fg_buf_putc(out, '"');
}

static void put_segment_name(struct fg_json_writer *json, const struct fg_segment_id *id)
{
    char name[FG_NAME_MAX_BYTES];

    fg_name_segment(name, id);
    fg_json_put_text(json, "object", fg_cstr(name));
}

/* Usage counts profiles of known size only; their number comes first. */
static void put_usage(struct fg_json_writer *json, const struct fg_usage *usage)
{
    fg_json_put_u64(json, "usage_profiles", usage->profiles);
    fg_json_put_u64(json, "usage_samples", usage->samples);
    fg_json_put_u64(json, "usage_wire_bytes", usage->wire_bytes);
    fg_json_put_u64(json, "usage_raw_bytes", usage->raw_bytes);
}

/* One line for each object of a list. */
static void begin_line(struct fg_json_writer *json)
{
    fg_json_newline(json);
    fg_json_begin_object(json, NULL);
}

static void put_segment(struct fg_json_writer *json, const struct fg_l0 *l0,
                        const struct fg_l0_segment *segment)
{
    begin_line(json);
    fg_json_put_u64(json, "generation", segment->generation);
    put_segment_name(json, &segment->id);
    fg_json_put_i64(json, "entered_ns", segment->entered_wall_ns);
    fg_json_put_u64(json, "bytes", segment->bytes);
    fg_json_put_u64(json, "directory_offset", segment->directory_offset);
    fg_json_put_u64(json, "directory_bytes", segment->directory_bytes);
    fg_json_put_u64(json, "profiles", segment->profiles);
    put_id(json, "digest", segment->digest);
    fg_json_put_i64(json, "t_min_ns", segment->t_min_ns);
    fg_json_put_i64(json, "t_max_ns", segment->t_max_ns);
    fg_json_begin_array(json, "tenants");
    for (uint32_t i = 0; i < segment->n_parts; i++) {
        fg_json_begin_object(json, NULL);
        /* The decoder has checked the number. */
        fg_json_put_text(json, "tenant", l0->tenants[segment->parts[i].tenant].name);
        fg_json_put_i64(json, "t_min_ns", segment->parts[i].t_min_ns);
        fg_json_put_i64(json, "t_max_ns", segment->parts[i].t_max_ns);
        fg_json_put_u64(json, "profiles", segment->parts[i].profiles);
        put_usage(json, &segment->parts[i].usage);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_end(json);
}

static void put_late_filter(struct fg_json_writer *json, const struct fg_late_filter *filter)
{
    /* "ever", and "nodes_only", "alone" and "nodes_…" below, are keys of earlier versions that
     * scripts may read. */
    fg_json_begin_object(json, "ever");
    fg_json_put_u64(json, "below", filter->below);
    fg_json_put_u64(json, "above", filter->above);
    fg_json_begin_array(json, "runs");
    for (uint32_t i = 0; i < filter->n_runs; i++) {
        begin_line(json);
        fg_json_put_u64(json, "window", filter->runs[i].window);
        fg_json_put_u64(json, "first_shard", filter->runs[i].first);
        fg_json_put_u64(json, "last_shard", filter->runs[i].last);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_end(json);
}

void fg_l0_json(const struct fg_l0 *l0, struct fg_buf *out)
{
    struct fg_json_writer writer = fg_json_writer(out), *json = &writer;

    fg_json_begin_object(json, NULL);
    fg_json_put_u64(json, "revision", l0->revision);
    fg_json_put_u64(json, "generation", l0->generation);
    fg_json_put_u64(json, "floor", l0->floor);
    fg_json_put_u64(json, "asked", l0->asked);
    fg_json_begin_array(json, "segments");
    for (uint32_t i = 0; i < l0->n_segments; i++)
        put_segment(json, l0, &l0->segments[i]);
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "writers");
    for (uint32_t i = 0; i < l0->n_writers; i++) {
        begin_line(json);
        put_id(json, "writer", l0->writers[i].id);
        fg_json_put_u64(json, "cut", l0->writers[i].cut);
        fg_json_put_u64(json, "generation", l0->writers[i].generation);
        fg_json_put_u64(json, "clean", l0->writers[i].clean);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "gone");
    for (uint32_t i = 0; i < l0->n_gone; i++) {
        begin_line(json);
        put_segment_name(json, &l0->gone[i].id);
        fg_json_put_i64(json, "since_ns", l0->gone[i].since_wall_ns);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "tenants");
    for (uint32_t i = 0; i < l0->n_tenants; i++) {
        begin_line(json);
        fg_json_put_text(json, "tenant", l0->tenants[i].name);
        fg_json_put_u64(json, "retired", l0->tenants[i].retired);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_newline(json);
    put_late_filter(json, &l0->late_filter);
    fg_json_end(json);
    fg_buf_putc(out, '\n');
}

static void put_ids(struct fg_json_writer *json, const char *key, const struct fg_id *ids,
                    uint32_t count)
{
    fg_json_begin_array(json, key);
    for (uint32_t i = 0; i < count; i++) {
        fg_json_begin_object(json, NULL);
        put_id(json, "id", ids[i]);
        fg_json_end(json);
    }
    fg_json_end(json);
}

static void put_numbers(struct fg_json_writer *json, const char *key, const uint64_t *numbers,
                        uint32_t count)
{
    fg_json_begin_array(json, key);
    for (uint32_t i = 0; i < count; i++)
        fg_json_put_u64(json, NULL, numbers[i]);
    fg_json_end(json);
}

static void put_object(struct fg_json_writer *json, struct fg_slice tenant, struct fg_id id)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    /* Does not fail: the manifest was read under a name made of this tenant. */
    if (fg_name_block(name, tenant, id, &err) == FG_OK)
        fg_json_put_text(json, "object", fg_cstr(name));
}

static void put_entry(struct fg_json_writer *json, struct fg_slice tenant,
                      const struct fg_blocks_entry *entry)
{
    begin_line(json);
    put_object(json, tenant, entry->id);
    fg_json_put_u64(json, "level", entry->level);
    fg_json_put_u64(json, "patch", entry->patch);
    fg_json_put_u64(json, "nodes_only", entry->derived);
    fg_json_put_u64(json, "alone", entry->rollup_only);
    fg_json_put_i64(json, "start_ns", entry->start_ns);
    fg_json_put_i64(json, "end_ns", entry->end_ns);
    fg_json_put_i64(json, "t_min_ns", entry->t_min_ns);
    fg_json_put_i64(json, "t_max_ns", entry->t_max_ns);
    fg_json_put_u64(json, "first_shard", entry->shard_first);
    fg_json_put_u64(json, "last_shard", entry->shard_last);
    fg_json_put_u64(json, "bytes", entry->bytes);
    fg_json_put_u64(json, "directory_offset", entry->directory_offset);
    fg_json_put_u64(json, "directory_bytes", entry->directory_bytes);
    fg_json_put_u64(json, "nodes_offset", entry->rollup_offset);
    fg_json_put_u64(json, "nodes_bytes", entry->rollup_bytes);
    fg_json_put_u64(json, "profiles", entry->profiles);
    put_id(json, "digest", entry->digest);
    put_usage(json, &entry->usage);
    put_numbers(json, "from_segments", entry->from_segments, entry->n_from_segments);
    put_ids(json, "from_blocks", entry->from_blocks, entry->n_from_blocks);
    fg_json_end(json);
}

static void put_tombstone(struct fg_json_writer *json, const struct fg_blocks_tombstone *tombstone)
{
    begin_line(json);
    put_id(json, "id", tombstone->id);
    fg_json_put_text(json, "selector", tombstone->selector);
    fg_json_put_i64(json, "start_ns", tombstone->start_ns);
    fg_json_put_i64(json, "end_ns", tombstone->end_ns);
    fg_json_put_i64(json, "asked_ns", tombstone->asked_wall_ns);
    fg_json_put_u64(json, "profiles", tombstone->profiles);
    fg_json_put_u64(json, "rewrites", tombstone->rewrites);
    fg_json_put_u64(json, "awaits", tombstone->awaits);
    fg_json_put_u64(json, "quiet", tombstone->quiet);
    fg_json_put_i64(json, "ended_ns", tombstone->ended_wall_ns);
    fg_json_end(json);
}

/* Writes only the total of a day: it may have very many services, and they are in the document of
 * the day once it is final. */
static void put_used_days(struct fg_json_writer *json, const char *key,
                          const struct fg_usage_day *days, uint32_t count)
{
    fg_json_begin_array(json, key);
    for (uint32_t i = 0; i < count; i++) {
        char date[FG_USAGE_DATE_BYTES];
        struct fg_usage_row total = fg_usage_day_total(&days[i]);

        fg_usage_day_write(days[i].day, date);
        begin_line(json);
        fg_json_put_text(json, "day", fg_cstr(date));
        fg_json_put_u64(json, "services", days[i].n_rows);
        fg_json_put_u64(json, "profiles", total.profiles);
        put_usage(json, &total.usage);
        fg_json_put_u64(json, "stored_byte_days", days[i].stored.byte_days);
        fg_json_put_u64(json, "writes", days[i].writes);
        fg_json_end(json);
    }
    fg_json_end(json);
}

static void put_ledger(struct fg_json_writer *json, const struct fg_ledger *ledger)
{
    fg_json_begin_object(json, "ledger");
    fg_json_put_i64(json, "stored_until_ns", ledger->stored_wall_ns);
    fg_json_put_i64(json, "next_day", ledger->next_day);
    fg_json_put_u64(json, "version", ledger->version);
    put_used_days(json, "open", ledger->open, ledger->n_open);
    put_used_days(json, "sealed", ledger->frozen, ledger->n_frozen);
    fg_json_end(json);
}

void fg_blocks_json(const struct fg_blocks *blocks, struct fg_buf *out)
{
    struct fg_json_writer writer = fg_json_writer(out), *json = &writer;

    fg_json_begin_object(json, NULL);
    fg_json_put_text(json, "tenant", blocks->tenant);
    fg_json_put_u64(json, "revision", blocks->revision);
    fg_json_put_u64(json, "covered_floor", blocks->covered_floor);
    fg_json_put_u64(json, "newest", blocks->newest);
    put_numbers(json, "covered", blocks->covered, blocks->n_covered);
    fg_json_newline(json);
    fg_json_begin_array(json, "blocks");
    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        put_entry(json, blocks->tenant, &blocks->blocks[i]);
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "gone");
    for (uint32_t i = 0; i < blocks->n_gone; i++) {
        begin_line(json);
        put_object(json, blocks->tenant, blocks->gone[i].id);
        fg_json_put_i64(json, "since_ns", blocks->gone[i].since_wall_ns);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "tombstones");
    for (uint32_t i = 0; i < blocks->n_tombstones; i++)
        put_tombstone(json, &blocks->tombstones[i]);
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "ended");
    for (uint32_t i = 0; i < blocks->n_ended; i++)
        put_tombstone(json, &blocks->ended[i]);
    fg_json_end(json);
    fg_json_newline(json);
    fg_json_begin_array(json, "lost");
    for (uint32_t i = 0; i < blocks->n_lost; i++) {
        const struct fg_blocks_lost *lost = &blocks->lost[i];

        begin_line(json);
        fg_json_put_text(json, "object", lost->object);
        /* Without this member any service may have lost something. */
        if (lost->service.len > 0)
            fg_json_put_text(json, "service", lost->service);
        fg_json_put_i64(json, "t_min_ns", lost->t_min_ns);
        fg_json_put_i64(json, "t_max_ns", lost->t_max_ns);
        fg_json_put_u64(json, "profiles", lost->profiles);
        fg_json_put_u64(json, "bytes", lost->bytes);
        fg_json_put_i64(json, "since_ns", lost->since_wall_ns);
        fg_json_put_text(json, "why", lost->why);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_newline(json);
    put_ledger(json, &blocks->ledger);
    fg_json_end(json);
    fg_buf_putc(out, '\n');
}
