/* Manifests as JSON: one line for each entry, times in nanoseconds, names as in the bucket. */
#include "common/base/str.h"
#include "common/cluster/manifest/blocks.h"

static void put_key(struct fg_buf *out, const char *key)
{
    fg_buf_putc(out, '"');
    fg_buf_puts(out, key);
    fg_buf_puts(out, "\":");
}

static void put_u64(struct fg_buf *out, const char *key, uint64_t value)
{
    put_key(out, key);
    fg_buf_u64(out, value);
    fg_buf_putc(out, ',');
}

static void put_i64(struct fg_buf *out, const char *key, int64_t value)
{
    put_key(out, key);
    fg_buf_i64(out, value);
    fg_buf_putc(out, ',');
}

static void put_text(struct fg_buf *out, const char *key, struct fg_slice text)
{
    put_key(out, key);
    fg_buf_putc(out, '"');
    fg_buf_json(out, text);
    fg_buf_puts(out, "\",");
}

/* High half first, as in the names of objects. */
static void put_id(struct fg_buf *out, const char *key, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES], turned[FG_ID_BYTES];

    fg_id_put(bytes, id);
    for (size_t i = 0; i < sizeof bytes; i++)
        turned[i] = bytes[sizeof bytes - 1 - i];
    put_key(out, key);
    fg_buf_putc(out, '"');
    fg_buf_hex(out, turned, sizeof turned);
    fg_buf_puts(out, "\",");
}

static void put_segment_name(struct fg_buf *out, const struct fg_segment_id *id)
{
    char name[FG_NAME_MAX_BYTES];

    fg_name_segment(name, id);
    put_text(out, "object", fg_cstr(name));
}

/* Of the profiles whose sizes are known, which it says first. */
static void put_usage(struct fg_buf *out, const struct fg_usage *usage)
{
    put_u64(out, "usage_profiles", usage->profiles);
    put_u64(out, "usage_samples", usage->samples);
    put_u64(out, "usage_wire_bytes", usage->wire_bytes);
    put_u64(out, "usage_raw_bytes", usage->raw_bytes);
}

/* The comma behind the last member or element goes. */
static void end(struct fg_buf *out, const char *bracket)
{
    if (!out->full && out->len > 0 && out->ptr[out->len - 1] == ',')
        out->len--;
    fg_buf_puts(out, bracket);
}

static void begin_list(struct fg_buf *out, const char *key)
{
    put_key(out, key);
    fg_buf_putc(out, '[');
}

static void begin_line(struct fg_buf *out)
{
    fg_buf_puts(out, "\n {");
}

static void put_segment(struct fg_buf *out, const struct fg_l0 *l0,
                        const struct fg_l0_segment *segment)
{
    begin_line(out);
    put_u64(out, "generation", segment->generation);
    put_segment_name(out, &segment->id);
    put_i64(out, "entered_ns", segment->entered_wall_ns);
    put_u64(out, "bytes", segment->bytes);
    put_u64(out, "directory_offset", segment->directory_offset);
    put_u64(out, "directory_bytes", segment->directory_bytes);
    put_u64(out, "profiles", segment->profiles);
    put_id(out, "digest", segment->digest);
    put_i64(out, "t_min_ns", segment->t_min_ns);
    put_i64(out, "t_max_ns", segment->t_max_ns);
    begin_list(out, "tenants");
    for (uint32_t i = 0; i < segment->n_parts; i++) {
        fg_buf_putc(out, '{');
        put_text(out, "tenant", l0->tenants[segment->parts[i].tenant].name);
        put_i64(out, "t_min_ns", segment->parts[i].t_min_ns);
        put_i64(out, "t_max_ns", segment->parts[i].t_max_ns);
        put_u64(out, "profiles", segment->parts[i].profiles);
        put_usage(out, &segment->parts[i].usage);
        end(out, "},");
    }
    end(out, "]},");
}

static void put_late_filter(struct fg_buf *out, const struct fg_late_filter *filter)
{
    put_key(out, "ever");
    fg_buf_putc(out, '{');
    put_u64(out, "below", filter->below);
    put_u64(out, "above", filter->above);
    begin_list(out, "runs");
    for (uint32_t i = 0; i < filter->n_runs; i++) {
        begin_line(out);
        put_u64(out, "window", filter->runs[i].window);
        put_u64(out, "first_shard", filter->runs[i].first);
        put_u64(out, "last_shard", filter->runs[i].last);
        end(out, "},");
    }
    end(out, "]},");
}

void fg_l0_json(const struct fg_l0 *l0, struct fg_buf *out)
{
    fg_buf_putc(out, '{');
    put_u64(out, "revision", l0->revision);
    put_u64(out, "generation", l0->generation);
    put_u64(out, "floor", l0->floor);
    put_u64(out, "asked", l0->asked);
    begin_list(out, "segments");
    for (uint32_t i = 0; i < l0->n_segments; i++)
        put_segment(out, l0, &l0->segments[i]);
    end(out, "],\n");
    begin_list(out, "writers");
    for (uint32_t i = 0; i < l0->n_writers; i++) {
        begin_line(out);
        put_id(out, "writer", l0->writers[i].id);
        put_u64(out, "cut", l0->writers[i].cut);
        put_u64(out, "generation", l0->writers[i].generation);
        put_u64(out, "clean", l0->writers[i].clean);
        end(out, "},");
    }
    end(out, "],\n");
    begin_list(out, "gone");
    for (uint32_t i = 0; i < l0->n_gone; i++) {
        begin_line(out);
        put_segment_name(out, &l0->gone[i].id);
        put_i64(out, "since_ns", l0->gone[i].since_wall_ns);
        end(out, "},");
    }
    end(out, "],\n");
    begin_list(out, "tenants");
    for (uint32_t i = 0; i < l0->n_tenants; i++) {
        begin_line(out);
        put_text(out, "tenant", l0->tenants[i].name);
        put_u64(out, "retired", l0->tenants[i].retired);
        end(out, "},");
    }
    end(out, "],\n");
    put_late_filter(out, &l0->late_filter);
    end(out, "}\n");
}

static void put_ids(struct fg_buf *out, const char *key, const struct fg_id *ids, uint32_t count)
{
    begin_list(out, key);
    for (uint32_t i = 0; i < count; i++) {
        fg_buf_putc(out, '{');
        put_id(out, "id", ids[i]);
        end(out, "},");
    }
    end(out, "],");
}

static void put_numbers(struct fg_buf *out, const char *key, const uint64_t *numbers,
                        uint32_t count)
{
    begin_list(out, key);
    for (uint32_t i = 0; i < count; i++) {
        fg_buf_u64(out, numbers[i]);
        fg_buf_putc(out, ',');
    }
    end(out, "],");
}

static void put_object(struct fg_buf *out, struct fg_slice tenant, struct fg_id id)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    if (fg_name_block(name, tenant, id, &err) == FG_OK)
        put_text(out, "object", fg_cstr(name));
}

static void put_entry(struct fg_buf *out, struct fg_slice tenant,
                      const struct fg_blocks_entry *entry)
{
    begin_line(out);
    put_object(out, tenant, entry->id);
    put_u64(out, "level", entry->level);
    put_u64(out, "patch", entry->patch);
    put_u64(out, "nodes_only", entry->nodes_only);
    put_u64(out, "alone", entry->alone);
    put_i64(out, "start_ns", entry->start_ns);
    put_i64(out, "end_ns", entry->end_ns);
    put_i64(out, "t_min_ns", entry->t_min_ns);
    put_i64(out, "t_max_ns", entry->t_max_ns);
    put_u64(out, "first_shard", entry->shard_first);
    put_u64(out, "last_shard", entry->shard_last);
    put_u64(out, "bytes", entry->bytes);
    put_u64(out, "directory_offset", entry->directory_offset);
    put_u64(out, "directory_bytes", entry->directory_bytes);
    put_u64(out, "nodes_offset", entry->nodes_offset);
    put_u64(out, "nodes_bytes", entry->nodes_bytes);
    put_u64(out, "profiles", entry->profiles);
    put_id(out, "digest", entry->digest);
    put_usage(out, &entry->usage);
    put_numbers(out, "from_segments", entry->from_segments, entry->n_from_segments);
    put_ids(out, "from_blocks", entry->from_blocks, entry->n_from_blocks);
    end(out, "},");
}

static void put_tombstone(struct fg_buf *out, const struct fg_blocks_tombstone *tombstone)
{
    begin_line(out);
    put_id(out, "id", tombstone->id);
    put_text(out, "selector", tombstone->selector);
    put_i64(out, "start_ns", tombstone->start_ns);
    put_i64(out, "end_ns", tombstone->end_ns);
    put_i64(out, "asked_ns", tombstone->asked_wall_ns);
    put_u64(out, "profiles", tombstone->profiles);
    put_u64(out, "rewrites", tombstone->rewrites);
    put_u64(out, "awaits", tombstone->awaits);
    put_u64(out, "quiet", tombstone->quiet);
    put_i64(out, "ended_ns", tombstone->ended_wall_ns);
    end(out, "},");
}

void fg_blocks_json(const struct fg_blocks *blocks, struct fg_buf *out)
{
    fg_buf_putc(out, '{');
    put_text(out, "tenant", blocks->tenant);
    put_u64(out, "revision", blocks->revision);
    put_u64(out, "covered_floor", blocks->covered_floor);
    put_u64(out, "newest", blocks->newest);
    put_numbers(out, "covered", blocks->covered, blocks->n_covered);
    fg_buf_putc(out, '\n');
    begin_list(out, "blocks");
    for (uint32_t i = 0; i < blocks->n_blocks; i++)
        put_entry(out, blocks->tenant, &blocks->blocks[i]);
    end(out, "],\n");
    begin_list(out, "gone");
    for (uint32_t i = 0; i < blocks->n_gone; i++) {
        begin_line(out);
        put_object(out, blocks->tenant, blocks->gone[i].id);
        put_i64(out, "since_ns", blocks->gone[i].since_wall_ns);
        end(out, "},");
    }
    end(out, "],\n");
    begin_list(out, "tombstones");
    for (uint32_t i = 0; i < blocks->n_tombstones; i++)
        put_tombstone(out, &blocks->tombstones[i]);
    end(out, "],\n");
    begin_list(out, "ended");
    for (uint32_t i = 0; i < blocks->n_ended; i++)
        put_tombstone(out, &blocks->ended[i]);
    end(out, "],\n");
    begin_list(out, "lost");
    for (uint32_t i = 0; i < blocks->n_lost; i++) {
        const struct fg_blocks_lost *lost = &blocks->lost[i];

        begin_line(out);
        put_text(out, "object", lost->object);
        if (lost->service.len > 0)
            put_text(out, "service", lost->service);
        put_i64(out, "t_min_ns", lost->t_min_ns);
        put_i64(out, "t_max_ns", lost->t_max_ns);
        put_u64(out, "profiles", lost->profiles);
        put_u64(out, "bytes", lost->bytes);
        put_i64(out, "since_ns", lost->since_wall_ns);
        put_text(out, "why", lost->why);
        end(out, "},");
    }
    end(out, "]}\n");
}
