/*
 * The L0 manifest as bytes; in an envelope (common/base/envelope.h).
 *
 *   varint revision, generation, floor
 *   tenants    list of: varint length, name; ascending
 *   segments   list of records, ascending by generation:
 *                varint generation - that of the one before (of the first: - 0)
 *                id: writer 16 bytes, varint cut, le64 nonce;  zigzag entered / ns
 *                varint bytes, directory offset, directory bytes, profiles;  digest 16 bytes
 *                span: zigzag least time, varint greatest - least
 *                parts   list of: varint tenant - that before - 1 (of the first: - 0),
 *                          varint least time - the segment's, varint greatest - least, profiles
 *                usage   of each part, in their order: as fg_usage_put() has it; of none where no
 *                          part has any
 *   writers    list of records, ascending: id 16 bytes, varint cut, generation, clean
 *   gone       list of records, ascending by id: id as above, zigzag since / ns
 *   late       varint below, above; list of: varint window - that before (of the first: - below),
 *                varint first shard - last one before where the window is the same, else first
 *                shard, varint last - first
 *   varint asked
 *   retired    list of: varint length, name; varint generation; ascending by name: of tenants for
 *              which there is one. Names, since programs that do not know this list add tenants.
 * Usage, a writer's clean, the manifest's asked and the list of retired are not there if they are 0
 * (no element is more) and nothing follows in their record: it was written before they were
 * invented, or there is nothing to say.
 */
#include "common/cluster/manifest/codec.h"

static const struct fg_envelope envelope = {"manifest", "FGL0", 1, FG_MANIFEST_MAX_BYTES};

/* The least bytes that elements take. fg_envelope_list() refuses a count that the rest of the
 * input has no room for. */
enum {
    TENANT_MIN_BYTES = 2,
    SEGMENT_MIN_BYTES = 1 + 50,
    PART_MIN_BYTES = 4,
    WRITER_MIN_BYTES = 1 + 18,
    GONE_MIN_BYTES = 1 + 26,
    RUN_MIN_BYTES = 3,
};

/* ---- writing ---- */

/* Writes a number that may be missing if nothing follows it. Manifests without it stay as older
 * versions write them. */
static void put_last(struct fg_buf *out, uint64_t number, struct fg_slice later)
{
    if (number != 0 || later.len > 0)
        fg_buf_varint(out, number);
    fg_buf_put(out, later);
}

static void put_usage(struct fg_buf *out, const struct fg_l0_segment *segment)
{
    bool any = segment->later.len > 0;

    for (uint32_t i = 0; i < segment->n_parts && !any; i++)
        any = segment->parts[i].usage.profiles > 0;
    for (uint32_t i = 0; i < segment->n_parts && any; i++)
        fg_usage_put(out, &segment->parts[i].usage);
}

static void put_segment(struct fg_buf *out, const struct fg_l0_segment *segment, uint64_t before)
{
    uint32_t tenant = 0;

    fg_buf_varint(out, segment->generation - before);
    fg_manifest_put_segment_id(out, &segment->id);
    fg_buf_zigzag(out, segment->entered_wall_ns);
    fg_buf_varint(out, segment->bytes);
    fg_buf_varint(out, segment->directory_offset);
    fg_buf_varint(out, segment->directory_bytes);
    fg_buf_varint(out, segment->profiles);
    fg_buf_id(out, segment->digest);
    fg_manifest_put_span(out, segment->t_min_ns, segment->t_max_ns);
    fg_buf_varint(out, segment->n_parts);
    for (uint32_t i = 0; i < segment->n_parts; i++) {
        const struct fg_l0_part *part = &segment->parts[i];

        fg_buf_varint(out, part->tenant - tenant);
        fg_buf_varint(out, (uint64_t)part->t_min_ns - (uint64_t)segment->t_min_ns);
        fg_buf_varint(out, (uint64_t)part->t_max_ns - (uint64_t)part->t_min_ns);
        fg_buf_varint(out, part->profiles);
        tenant = part->tenant + 1;
    }
    put_usage(out, segment);
    fg_buf_put(out, segment->later);
}

static void put_segments(struct fg_buf *out, const struct fg_l0 *l0, struct fg_buf *record)
{
    uint64_t before = 0;

    fg_buf_varint(out, l0->n_segments);
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        fg_buf_clear(record);
        put_segment(record, &l0->segments[i], before);
        fg_buf_lenbytes(out, fg_buf_slice(record));
        before = l0->segments[i].generation;
    }
}

static void put_writers(struct fg_buf *out, const struct fg_l0 *l0, struct fg_buf *record)
{
    fg_buf_varint(out, l0->n_writers);
    for (uint32_t i = 0; i < l0->n_writers; i++) {
        fg_buf_clear(record);
        fg_buf_id(record, l0->writers[i].id);
        fg_buf_varint(record, l0->writers[i].cut);
        fg_buf_varint(record, l0->writers[i].generation);
        put_last(record, l0->writers[i].clean, l0->writers[i].later);
        fg_buf_lenbytes(out, fg_buf_slice(record));
    }
}

static void put_gone(struct fg_buf *out, const struct fg_l0 *l0, struct fg_buf *record)
{
    fg_buf_varint(out, l0->n_gone);
    for (uint32_t i = 0; i < l0->n_gone; i++) {
        fg_buf_clear(record);
        fg_manifest_put_segment_id(record, &l0->gone[i].id);
        fg_buf_zigzag(record, l0->gone[i].since_wall_ns);
        fg_buf_put(record, l0->gone[i].later);
        fg_buf_lenbytes(out, fg_buf_slice(record));
    }
}

static void put_late_filter(struct fg_buf *out, const struct fg_late_filter *filter)
{
    struct fg_late_filter_run before = {.window = filter->below};

    fg_buf_varint(out, filter->below);
    fg_buf_varint(out, filter->above);
    fg_buf_varint(out, filter->n_runs);
    for (uint32_t i = 0; i < filter->n_runs; i++) {
        struct fg_late_filter_run run = filter->runs[i];
        bool same = i > 0 && run.window == before.window;

        fg_buf_varint(out, run.window - before.window);
        fg_buf_varint(out, same ? (uint32_t)run.first - before.last : run.first);
        fg_buf_varint(out, (uint32_t)run.last - run.first);
        before = run;
    }
}

/* Writes the fields that were added to the format later, if they are not empty. */
static void put_ends(struct fg_buf *out, const struct fg_l0 *l0)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l0->n_tenants; i++)
        n += l0->tenants[i].retired > 0;
    if (n == 0 && l0->later.len == 0) {
        put_last(out, l0->asked, l0->later);
        return;
    }
    fg_buf_varint(out, l0->asked);
    fg_buf_varint(out, n);
    for (uint32_t i = 0; i < l0->n_tenants; i++) {
        if (l0->tenants[i].retired == 0)
            continue;
        fg_buf_lenbytes(out, l0->tenants[i].name);
        fg_buf_varint(out, l0->tenants[i].retired);
    }
    fg_buf_put(out, l0->later);
}

enum fg_code fg_l0_encode(const struct fg_l0 *l0, struct fg_buf *out, struct fg_err *err)
{
    size_t start = out->len;
    struct fg_buf record;

    fg_buf_init(&record, FG_MANIFEST_MAX_BYTES);
    fg_envelope_begin(&envelope, out);
    fg_buf_varint(out, l0->revision);
    fg_buf_varint(out, l0->generation);
    fg_buf_varint(out, l0->floor);
    fg_buf_varint(out, l0->n_tenants);
    for (uint32_t i = 0; i < l0->n_tenants; i++)
        fg_buf_lenbytes(out, l0->tenants[i].name);
    put_segments(out, l0, &record);
    put_writers(out, l0, &record);
    put_gone(out, l0, &record);
    put_late_filter(out, &l0->late_filter);
    put_ends(out, l0);
    out->full |= record.full;
    fg_buf_done(&record);
    if (fg_envelope_end(&envelope, out, start, err) != FG_OK)
        return fg_wrap(err, "L0");
    return FG_OK;
}

/* ---- reading ---- */

/* Why the input is not valid; NULL: it is truncated. */
struct l0_reader {
    struct fg_cur cur;
    struct fg_arena *arena;
    const char *why;
};

static void fail(struct l0_reader *reader, const char *why)
{
    if (!reader->cur.bad)
        reader->why = why;
    fg_cur_fail(&reader->cur);
}

/* Reads what put_last() wrote. */
static uint64_t get_last(struct fg_cur *cur)
{
    return fg_cur_more(cur) ? fg_cur_varint(cur) : 0;
}

/* A record has a cursor of its own; passes its fault on to the reader's. */
static void end_record(struct l0_reader *reader, const struct fg_cur *record)
{
    if (record->bad)
        fg_cur_fail(&reader->cur);
}

static void get_tenants(struct l0_reader *reader, struct fg_l0 *l0)
{
    struct fg_err err;

    l0->tenants = fg_envelope_list(&reader->cur, reader->arena, TENANT_MIN_BYTES, FG_L0_TENANTS_MAX,
                                   sizeof *l0->tenants, &l0->n_tenants);
    for (uint32_t i = 0; i < l0->n_tenants && !reader->cur.bad; i++) {
        struct fg_slice name = fg_cur_lenbytes(&reader->cur);

        if (reader->cur.bad)
            return;
        if (fg_tenant_check(name, &err) != FG_OK)
            fail(reader, "a tenant's name");
        else if (i > 0 && fg_slice_cmp(l0->tenants[i - 1].name, name) >= 0)
            fail(reader, "the order of tenants");
        l0->tenants[i] = (struct fg_l0_tenant){fg_arena_copy(reader->arena, name), 0};
        if (l0->tenants[i].name.ptr == NULL)
            fg_cur_fail(&reader->cur);
    }
}

/* Reads parts and checks that they lie within the segment's times, and that their profiles add
 * up to the segment's. */
static void get_parts(struct l0_reader *reader, struct fg_cur *cur, uint32_t n_tenants,
                      struct fg_l0_segment *segment)
{
    uint64_t next = 0, profiles = 0;

    segment->parts = fg_envelope_list(cur, reader->arena, PART_MIN_BYTES, FG_L0_PARTS_MAX,
                                      sizeof *segment->parts, &segment->n_parts);
    for (uint32_t i = 0; i < segment->n_parts && !cur->bad; i++) {
        struct fg_l0_part *part = &segment->parts[i];
        uint64_t tenant = fg_cur_varint(cur);

        /* Parts ascend by tenant, so that none is there twice; fg_l0_part() searches in this
         * order. */
        if (tenant >= n_tenants - next || next >= n_tenants) {
            fail(reader, "the tenant of a part");
            return;
        }
        tenant += next;
        next = tenant + 1;
        part->tenant = (uint32_t)tenant;
        part->t_min_ns = (int64_t)((uint64_t)segment->t_min_ns + fg_cur_varint(cur));
        part->t_max_ns = (int64_t)((uint64_t)part->t_min_ns + fg_cur_varint(cur));
        part->profiles = fg_cur_varint(cur);
        profiles += part->profiles;
        if (part->t_min_ns < segment->t_min_ns || part->t_max_ns < part->t_min_ns ||
            part->t_max_ns > segment->t_max_ns)
            fail(reader, "the times of a part");
    }
    if (!cur->bad && profiles != segment->profiles)
        fail(reader, "the number of a segment's profiles");
}

static void get_usage(struct l0_reader *reader, struct fg_cur *cur, struct fg_l0_segment *segment)
{
    for (uint32_t i = 0; i < segment->n_parts && fg_cur_more(cur); i++) {
        segment->parts[i].usage = fg_usage_get(cur);
        if (segment->parts[i].usage.profiles > segment->parts[i].profiles)
            fail(reader, "the usage of a part");
    }
}

static void get_segment(struct l0_reader *reader, const struct fg_l0 *l0, uint64_t before,
                        struct fg_l0_segment *segment)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));
    uint64_t step = fg_cur_varint(&cur);

    segment->generation = before + step;
    segment->id = fg_manifest_get_segment_id(&cur);
    segment->entered_wall_ns = fg_cur_zigzag(&cur);
    segment->bytes = fg_cur_varint(&cur);
    segment->directory_offset = fg_cur_varint(&cur);
    segment->directory_bytes = fg_cur_varint(&cur);
    segment->profiles = fg_cur_varint(&cur);
    segment->digest = fg_cur_id(&cur);
    fg_manifest_get_span(&cur, &segment->t_min_ns, &segment->t_max_ns);
    get_parts(reader, &cur, l0->n_tenants, segment);
    get_usage(reader, &cur, segment);
    segment->later = fg_envelope_later(&cur, reader->arena);
    end_record(reader, &cur);
    if (step == 0 || step > l0->generation - before)
        fail(reader, "the generation of a segment");
    if (segment->directory_offset > segment->bytes ||
        segment->directory_bytes > segment->bytes - segment->directory_offset)
        fail(reader, "the place of a segment's directory");
}

static void get_segments(struct l0_reader *reader, struct fg_l0 *l0)
{
    uint64_t before = 0, parts = 0;

    l0->segments = fg_envelope_list(&reader->cur, reader->arena, SEGMENT_MIN_BYTES,
                                    FG_L0_SEGMENTS_MAX, sizeof *l0->segments, &l0->n_segments);
    for (uint32_t i = 0; i < l0->n_segments && !reader->cur.bad; i++) {
        get_segment(reader, l0, before, &l0->segments[i]);
        before = l0->segments[i].generation;
        parts += l0->segments[i].n_parts;
        if (parts > FG_L0_PARTS_MAX)
            fail(reader, "the number of parts");
    }
}

static void get_writers(struct l0_reader *reader, struct fg_l0 *l0)
{
    l0->writers = fg_envelope_list(&reader->cur, reader->arena, WRITER_MIN_BYTES, FG_L0_WRITERS_MAX,
                                   sizeof *l0->writers, &l0->n_writers);
    for (uint32_t i = 0; i < l0->n_writers && !reader->cur.bad; i++) {
        struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));
        struct fg_l0_writer *writer = &l0->writers[i];

        writer->id = fg_cur_id(&cur);
        writer->cut = fg_cur_varint(&cur);
        writer->generation = fg_cur_varint(&cur);
        writer->clean = get_last(&cur);
        writer->later = fg_envelope_later(&cur, reader->arena);
        end_record(reader, &cur);
        if (writer->generation > l0->generation)
            fail(reader, "the generation of a writer");
        if (i > 0 && fg_id_cmp(l0->writers[i - 1].id, writer->id) >= 0)
            fail(reader, "the order of writers");
    }
}

static void get_gone(struct l0_reader *reader, struct fg_l0 *l0)
{
    l0->gone = fg_envelope_list(&reader->cur, reader->arena, GONE_MIN_BYTES, FG_L0_GONE_MAX,
                                sizeof *l0->gone, &l0->n_gone);
    for (uint32_t i = 0; i < l0->n_gone && !reader->cur.bad; i++) {
        struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));

        l0->gone[i].id = fg_manifest_get_segment_id(&cur);
        l0->gone[i].since_wall_ns = fg_cur_zigzag(&cur);
        l0->gone[i].later = fg_envelope_later(&cur, reader->arena);
        end_record(reader, &cur);
        if (i > 0 && fg_segment_id_cmp(&l0->gone[i - 1].id, &l0->gone[i].id) >= 0)
            fail(reader, "the order of deleted objects");
    }
}

static void get_run(struct l0_reader *reader, const struct fg_late_filter *filter, bool first,
                    const struct fg_late_filter_run *before, struct fg_late_filter_run *run)
{
    uint64_t step = fg_cur_varint(&reader->cur);
    bool same = step == 0 && !first;
    uint64_t from = fg_cur_varint(&reader->cur), len = fg_cur_varint(&reader->cur);

    if (same && from < 2) /* it would touch the one before */
        fail(reader, "the order of groups");
    if (step >= filter->above - before->window || from > UINT16_MAX || len > UINT16_MAX) {
        fail(reader, "a group");
        return;
    }
    from += same ? before->last : 0;
    if (from + len > UINT16_MAX)
        fail(reader, "a shard");
    *run = (struct fg_late_filter_run){(uint32_t)(before->window + step), (uint16_t)from,
                                       (uint16_t)(from + len)};
}

static void get_late_filter(struct l0_reader *reader, struct fg_late_filter *filter)
{
    uint64_t below = fg_cur_varint(&reader->cur), above = fg_cur_varint(&reader->cur);
    struct fg_late_filter_run before = {.window = (uint32_t)below};

    if (above > FG_LATE_FILTER_ABOVE_NONE || below > above)
        fail(reader, "the windows that are complete");
    filter->below = (uint32_t)below;
    filter->above = (uint32_t)above;
    filter->runs = fg_envelope_list(&reader->cur, reader->arena, RUN_MIN_BYTES,
                                    FG_LATE_FILTER_RUNS_MAX, sizeof *filter->runs, &filter->n_runs);
    for (uint32_t i = 0; i < filter->n_runs && !reader->cur.bad; i++) {
        get_run(reader, filter, i == 0, &before, &filter->runs[i]);
        before = filter->runs[i];
    }
}

/* Checks that every live segment is of a writer that knows of it, and that no writer has
 * answered more than was asked. */
static void check_writers(struct l0_reader *reader, const struct fg_l0 *l0)
{
    for (uint32_t i = 0; i < l0->n_segments && !reader->cur.bad; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        const struct fg_l0_writer *writer = fg_l0_writer(l0, segment->id.writer);

        if (writer == NULL || segment->id.cut > writer->cut ||
            segment->generation > writer->generation)
            fail(reader, "the writer of a segment");
    }
    for (uint32_t i = 0; i < l0->n_writers && !reader->cur.bad; i++)
        if (l0->writers[i].clean > l0->asked)
            fail(reader, "the deletion number of a writer");
}

static void get_retired(struct l0_reader *reader, struct fg_l0 *l0)
{
    uint64_t n = get_last(&reader->cur);
    uint32_t number = 0;

    for (uint64_t i = 0; i < n && !reader->cur.bad; i++) {
        struct fg_slice name = fg_cur_lenbytes(&reader->cur);
        uint64_t retired = fg_cur_varint(&reader->cur);

        while (number < l0->n_tenants && fg_slice_cmp(l0->tenants[number].name, name) < 0)
            number++;
        if (number == l0->n_tenants || !fg_slice_eq(l0->tenants[number].name, name) ||
            retired == 0 || retired > l0->floor)
            fail(reader, "the retired generation of a tenant");
        else
            l0->tenants[number++].retired = retired;
    }
}

enum fg_code fg_l0_decode(struct fg_slice in, struct fg_arena *arena, struct fg_l0 *ret_l0,
                          struct fg_err *err)
{
    struct l0_reader reader = {.arena = arena, .why = "its fields"};
    struct fg_l0 l0 = fg_l0_none();

    if (fg_envelope_open(&envelope, in, &reader.cur, err) != FG_OK)
        return fg_wrap(err, "L0");
    l0.revision = fg_cur_varint(&reader.cur);
    l0.generation = fg_cur_varint(&reader.cur);
    l0.floor = fg_cur_varint(&reader.cur);
    if (l0.floor > l0.generation)
        fail(&reader, "the floor");
    get_tenants(&reader, &l0);
    get_segments(&reader, &l0);
    get_writers(&reader, &l0);
    get_gone(&reader, &l0);
    get_late_filter(&reader, &l0.late_filter);
    l0.asked = get_last(&reader.cur);
    get_retired(&reader, &l0);
    check_writers(&reader, &l0);
    l0.later = fg_envelope_later(&reader.cur, arena);
    if (reader.cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "L0: manifest of %zu bytes is broken in %s", in.len,
                       reader.why);
    *ret_l0 = l0;
    return FG_OK;
}
