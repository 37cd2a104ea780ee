/*
 * A tenant's manifest as bytes; in an envelope (common/base/envelope.h).
 *
 *   varint length, tenant;  varint revision, covered floor, newest
 *   covered     list of: varint generation - that before (of the first: - the floor)
 *   blocks      list of records, ascending: id 16 bytes, varint level, varint patch (0 or 1),
 *                 span of the block, span of its profiles (zigzag from, varint to - from / ns),
 *                 varint first shard, varint last - first,
 *                 varint bytes, directory offset, directory bytes, nodes offset, nodes bytes,
 *                 varint profiles, digest 16 bytes,
 *                 list of: varint segment - that before (of the first: - 0);  list of: id 16 bytes,
 *                 varint derived (0 or 1; 2: and rollup-only; missing: 0),
 *                 usage, as fg_usage_put() writes it (missing: of no profiles)
 *   gone        list of records, ascending: id 16 bytes, zigzag since / ns
 *   tombstones  list of records, ascending: id 16 bytes, varint length, selector,
 *                 span, zigzag asked / ns, varint profiles, varint rewrites, zigzag ended / ns,
 *                 varint awaits, profiles before that, quiet
 *   ended       as tombstones, in the order in which they ended
 *   lost        list of records: varint length, object's name, span of its profiles, varint
 *                 profiles, varint bytes, zigzag since / ns, varint length, why, varint length,
 *                 service (missing: any service)
 *   ledger      as fg_ledger_put() writes it
 * Missing may be: of tombstones the fields from profiles on, or from awaits on; of the whole the
 * lists of those that ended and of what was lost, and the ledger. Older versions do not write them,
 * and a list of what was lost is only written if there is something or a ledger follows.
 */
#include "common/cluster/manifest/blocks.h"
#include "common/cluster/manifest/codec.h"

static const struct fg_envelope envelope = {"manifest", "FGTM", 1, FG_MANIFEST_MAX_BYTES};

/* The least bytes that elements take. fg_envelope_list() refuses a count that the rest of the
 * input has no room for. */
enum {
    COVERED_MIN_BYTES = 1,
    BLOCK_MIN_BYTES = 1 + 48,
    GONE_MIN_BYTES = 1 + 17,
    TOMBSTONE_MIN_BYTES = 1 + 20,
    LOST_MIN_BYTES = 1 + 7,
};

/* ---- writing ---- */

static void put_ascending(struct fg_buf *out, const uint64_t *numbers, uint32_t count,
                          uint64_t before)
{
    fg_buf_varint(out, count);
    for (uint32_t i = 0; i < count; i++) {
        fg_buf_varint(out, numbers[i] - before);
        before = numbers[i];
    }
}

static void put_entry(struct fg_buf *out, const struct fg_blocks_entry *entry)
{
    fg_buf_id(out, entry->id);
    fg_buf_varint(out, entry->level);
    fg_buf_varint(out, entry->patch);
    fg_manifest_put_span(out, entry->start_ns, entry->end_ns);
    fg_manifest_put_span(out, entry->t_min_ns, entry->t_max_ns);
    fg_buf_varint(out, entry->shard_first);
    fg_buf_varint(out, (uint32_t)entry->shard_last - entry->shard_first);
    fg_buf_varint(out, entry->bytes);
    fg_buf_varint(out, entry->directory_offset);
    fg_buf_varint(out, entry->directory_bytes);
    fg_buf_varint(out, entry->rollup_offset);
    fg_buf_varint(out, entry->rollup_bytes);
    fg_buf_varint(out, entry->profiles);
    fg_buf_id(out, entry->digest);
    put_ascending(out, entry->from_segments, entry->n_from_segments, 0);
    fg_buf_varint(out, entry->n_from_blocks);
    for (uint32_t i = 0; i < entry->n_from_blocks; i++)
        fg_buf_id(out, entry->from_blocks[i]);
    fg_buf_varint(out, (uint64_t)entry->derived + entry->rollup_only);
    /* Not written if there is none, as by versions before it; but fields of later versions need
     * it in front of them. */
    if (entry->usage.profiles > 0 || entry->later.len > 0)
        fg_usage_put(out, &entry->usage);
    fg_buf_put(out, entry->later);
}

static void put_blocks(struct fg_buf *out, const struct fg_blocks *blocks, struct fg_buf *record)
{
    fg_buf_varint(out, blocks->n_blocks);
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        fg_buf_clear(record);
        put_entry(record, &blocks->blocks[i]);
        fg_buf_lenbytes(out, fg_buf_slice(record));
    }
}

static void put_gone(struct fg_buf *out, const struct fg_blocks *blocks, struct fg_buf *record)
{
    fg_buf_varint(out, blocks->n_gone);
    for (uint32_t i = 0; i < blocks->n_gone; i++) {
        fg_buf_clear(record);
        fg_buf_id(record, blocks->gone[i].id);
        fg_buf_zigzag(record, blocks->gone[i].since_wall_ns);
        fg_buf_put(record, blocks->gone[i].later);
        fg_buf_lenbytes(out, fg_buf_slice(record));
    }
}

static void put_tombstones(struct fg_buf *out, const struct fg_blocks_tombstone *tombstones,
                           uint32_t count, struct fg_buf *record)
{
    fg_buf_varint(out, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct fg_blocks_tombstone *tombstone = &tombstones[i];

        fg_buf_clear(record);
        fg_buf_id(record, tombstone->id);
        fg_buf_lenbytes(record, tombstone->selector);
        fg_manifest_put_span(record, tombstone->start_ns, tombstone->end_ns);
        fg_buf_zigzag(record, tombstone->asked_wall_ns);
        fg_buf_varint(record, tombstone->profiles);
        fg_buf_varint(record, tombstone->rewrites);
        fg_buf_zigzag(record, tombstone->ended_wall_ns);
        fg_buf_varint(record, tombstone->awaits);
        fg_buf_varint(record, tombstone->awaits_profiles);
        fg_buf_varint(record, tombstone->quiet);
        fg_buf_put(record, tombstone->later);
        fg_buf_lenbytes(out, fg_buf_slice(record));
    }
}

/* A ledger that has counted nothing is not written, unless fields of a later version follow. */
static bool has_ledger(const struct fg_blocks *blocks)
{
    return blocks->ledger.stored_wall_ns != 0 || blocks->ledger.version != 0 ||
           blocks->later.len > 0;
}

static void put_lost(struct fg_buf *out, const struct fg_blocks *blocks, struct fg_buf *record)
{
    if (blocks->n_lost == 0 && !has_ledger(blocks))
        return;
    fg_buf_varint(out, blocks->n_lost);
    for (uint32_t i = 0; i < blocks->n_lost; i++) {
        const struct fg_blocks_lost *lost = &blocks->lost[i];

        fg_buf_clear(record);
        fg_buf_lenbytes(record, lost->object);
        fg_manifest_put_span(record, lost->t_min_ns, lost->t_max_ns);
        fg_buf_varint(record, lost->profiles);
        fg_buf_varint(record, lost->bytes);
        fg_buf_zigzag(record, lost->since_wall_ns);
        fg_buf_lenbytes(record, lost->why);
        if (lost->service.len > 0 || lost->later.len > 0)
            fg_buf_lenbytes(record, lost->service);
        fg_buf_put(record, lost->later);
        fg_buf_lenbytes(out, fg_buf_slice(record));
    }
}

enum fg_code fg_blocks_encode(const struct fg_blocks *blocks, struct fg_buf *out,
                              struct fg_err *err)
{
    size_t start = out->len;
    struct fg_buf record;

    fg_buf_init(&record, FG_MANIFEST_MAX_BYTES);
    fg_envelope_begin(&envelope, out);
    fg_buf_lenbytes(out, blocks->tenant);
    fg_buf_varint(out, blocks->revision);
    fg_buf_varint(out, blocks->covered_floor);
    fg_buf_varint(out, blocks->newest);
    put_ascending(out, blocks->covered, blocks->n_covered, blocks->covered_floor);
    put_blocks(out, blocks, &record);
    put_gone(out, blocks, &record);
    put_tombstones(out, blocks->tombstones, blocks->n_tombstones, &record);
    put_tombstones(out, blocks->ended, blocks->n_ended, &record);
    put_lost(out, blocks, &record);
    if (has_ledger(blocks))
        fg_ledger_put(out, &blocks->ledger);
    fg_buf_put(out, blocks->later);
    out->full |= record.full;
    fg_buf_done(&record);
    if (fg_envelope_end(&envelope, out, start, err) != FG_OK)
        return fg_wrap(err, "tenant %.*s", FG_S(blocks->tenant));
    return FG_OK;
}

/* ---- reading ---- */

/* As in l0_codec.c. */
struct blocks_reader {
    struct fg_cur cur;
    struct fg_arena *arena;
    const char *why;
};

static void fail(struct blocks_reader *reader, const char *why)
{
    if (!reader->cur.bad)
        reader->why = why;
    fg_cur_fail(&reader->cur);
}

/* Numbers that ascend from one that is not in the list. */
static uint64_t *get_ascending(struct blocks_reader *reader, struct fg_cur *cur, uint32_t max,
                               uint64_t before, uint32_t *ret_count)
{
    uint64_t *numbers =
        fg_envelope_list(cur, reader->arena, COVERED_MIN_BYTES, max, sizeof *numbers, ret_count);

    for (uint32_t i = 0; i < *ret_count && !cur->bad; i++) {
        uint64_t step = fg_cur_varint(cur);

        if (step == 0 || step > UINT64_MAX - before)
            fail(reader, "the order of segments");
        before += step;
        numbers[i] = before;
    }
    return numbers;
}

static struct fg_id *get_ids(struct blocks_reader *reader, struct fg_cur *cur, uint32_t *ret_count)
{
    struct fg_id *ids = fg_envelope_list(cur, reader->arena, FG_ID_BYTES, FG_BLOCKS_FROM_MAX,
                                         sizeof *ids, ret_count);

    for (uint32_t i = 0; i < *ret_count && !cur->bad; i++) {
        ids[i] = fg_cur_id(cur);
        if (i > 0 && fg_id_cmp(ids[i - 1], ids[i]) >= 0)
            fail(reader, "the order of a block's sources");
    }
    return ids;
}

static bool lies_within(uint64_t offset, uint64_t len, uint64_t bytes)
{
    return offset <= bytes && len <= bytes - offset;
}

static void get_place(struct blocks_reader *reader, struct fg_cur *cur,
                      struct fg_blocks_entry *entry)
{
    uint64_t level = fg_cur_varint(cur), patch = fg_cur_varint(cur), first, more;

    fg_manifest_get_span(cur, &entry->start_ns, &entry->end_ns);
    fg_manifest_get_span(cur, &entry->t_min_ns, &entry->t_max_ns);
    first = fg_cur_varint(cur);
    more = fg_cur_varint(cur);
    if (level > UINT8_MAX || patch > 1)
        fail(reader, "the level of a block");
    if (first > UINT16_MAX || more > UINT16_MAX - first)
        fail(reader, "the shards of a block");
    entry->level = (uint8_t)level;
    entry->patch = patch == 1;
    entry->shard_first = (uint16_t)first;
    entry->shard_last = (uint16_t)(first + more);
}

static void get_derived(struct blocks_reader *reader, struct fg_cur *cur,
                        struct fg_blocks_entry *entry)
{
    uint64_t derived = fg_cur_more(cur) ? fg_cur_varint(cur) : 0;

    entry->derived = derived >= 1;
    entry->rollup_only = derived == 2;
    if (derived > 2 ||
        (derived >= 1 && (entry->patch || entry->n_from_segments > 0 || entry->n_from_blocks == 0)))
        fail(reader, "a derived block");
}

static void get_entry(struct blocks_reader *reader, struct fg_blocks_entry *entry)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));

    entry->id = fg_cur_id(&cur);
    get_place(reader, &cur, entry);
    entry->bytes = fg_cur_varint(&cur);
    entry->directory_offset = fg_cur_varint(&cur);
    entry->directory_bytes = fg_cur_varint(&cur);
    entry->rollup_offset = fg_cur_varint(&cur);
    entry->rollup_bytes = fg_cur_varint(&cur);
    entry->profiles = fg_cur_varint(&cur);
    entry->digest = fg_cur_id(&cur);
    entry->from_segments =
        get_ascending(reader, &cur, FG_BLOCKS_FROM_MAX, 0, &entry->n_from_segments);
    entry->from_blocks = get_ids(reader, &cur, &entry->n_from_blocks);
    get_derived(reader, &cur, entry);
    if (fg_cur_more(&cur))
        entry->usage = fg_usage_get(&cur);
    if (entry->usage.profiles > entry->profiles)
        fail(reader, "the usage of a block");
    entry->later = fg_envelope_later(&cur, reader->arena);
    if (cur.bad)
        fg_cur_fail(&reader->cur);
    /* The rollup directory ends where the directory begins, so that one read gets both. */
    if (!lies_within(entry->directory_offset, entry->directory_bytes, entry->bytes) ||
        !lies_within(entry->rollup_offset, entry->rollup_bytes, entry->directory_offset) ||
        (entry->rollup_bytes > 0 &&
         entry->rollup_offset + entry->rollup_bytes != entry->directory_offset))
        fail(reader, "a place in a block");
}

/* The sources of rollups are there, except of those that are rollup-only. */
static void check_made(struct blocks_reader *reader, const struct fg_blocks *blocks)
{
    for (uint32_t i = 0; i < blocks->n_blocks && !reader->cur.bad; i++) {
        const struct fg_blocks_entry *entry = &blocks->blocks[i];

        for (uint32_t k = 0; fg_blocks_sums_others(entry) && k < entry->n_from_blocks; k++) {
            const struct fg_blocks_entry *from = fg_blocks_find(blocks, entry->from_blocks[k]);

            if (from == NULL || from->derived)
                fail(reader, "the sources of a derived block");
        }
    }
}

static void get_blocks(struct blocks_reader *reader, struct fg_blocks *blocks)
{
    blocks->blocks = fg_envelope_list(&reader->cur, reader->arena, BLOCK_MIN_BYTES, FG_BLOCKS_MAX,
                                      sizeof *blocks->blocks, &blocks->n_blocks);
    for (uint32_t i = 0; i < blocks->n_blocks && !reader->cur.bad; i++) {
        get_entry(reader, &blocks->blocks[i]);
        if (i > 0 && fg_id_cmp(blocks->blocks[i - 1].id, blocks->blocks[i].id) >= 0)
            fail(reader, "the order of blocks");
    }
    check_made(reader, blocks);
}

static void get_gone(struct blocks_reader *reader, struct fg_blocks *blocks)
{
    blocks->gone = fg_envelope_list(&reader->cur, reader->arena, GONE_MIN_BYTES, FG_BLOCKS_GONE_MAX,
                                    sizeof *blocks->gone, &blocks->n_gone);
    for (uint32_t i = 0; i < blocks->n_gone && !reader->cur.bad; i++) {
        struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));
        struct fg_blocks_gone *gone = &blocks->gone[i];

        gone->id = fg_cur_id(&cur);
        gone->since_wall_ns = fg_cur_zigzag(&cur);
        gone->later = fg_envelope_later(&cur, reader->arena);
        if (cur.bad)
            fg_cur_fail(&reader->cur);
        if (i > 0 && fg_id_cmp(blocks->gone[i - 1].id, gone->id) >= 0)
            fail(reader, "the order of deleted objects");
        if (fg_blocks_find(blocks, gone->id) != NULL)
            fail(reader, "a block that is both live and deleted");
    }
}

static void get_tombstone(struct blocks_reader *reader, struct fg_blocks_tombstone *tombstone)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));
    struct fg_slice selector;

    tombstone->id = fg_cur_id(&cur);
    selector = fg_cur_lenbytes(&cur);
    fg_manifest_get_span(&cur, &tombstone->start_ns, &tombstone->end_ns);
    tombstone->asked_wall_ns = fg_cur_zigzag(&cur);
    if (fg_cur_more(&cur)) {
        tombstone->profiles = fg_cur_varint(&cur);
        tombstone->rewrites = fg_cur_varint(&cur);
        tombstone->ended_wall_ns = fg_cur_zigzag(&cur);
    }
    if (fg_cur_more(&cur)) {
        tombstone->awaits = fg_cur_varint(&cur);
        tombstone->awaits_profiles = fg_cur_varint(&cur);
        tombstone->quiet = fg_cur_varint(&cur);
    }
    tombstone->selector = fg_arena_copy(reader->arena, selector);
    tombstone->later = fg_envelope_later(&cur, reader->arena);
    if (cur.bad || tombstone->selector.ptr == NULL)
        fg_cur_fail(&reader->cur);
    if (selector.len > FG_BLOCKS_SELECTOR_MAX_BYTES)
        fail(reader, "the selector of a deletion");
}

static void get_tombstones(struct blocks_reader *reader, struct fg_blocks *blocks)
{
    blocks->tombstones =
        fg_envelope_list(&reader->cur, reader->arena, TOMBSTONE_MIN_BYTES, FG_BLOCKS_TOMBSTONES_MAX,
                         sizeof *blocks->tombstones, &blocks->n_tombstones);
    for (uint32_t i = 0; i < blocks->n_tombstones && !reader->cur.bad; i++) {
        get_tombstone(reader, &blocks->tombstones[i]);
        if (i > 0 && fg_id_cmp(blocks->tombstones[i - 1].id, blocks->tombstones[i].id) >= 0)
            fail(reader, "the order of deletions");
    }
}

static void get_ended(struct blocks_reader *reader, struct fg_blocks *blocks)
{
    if (!fg_cur_more(&reader->cur))
        return;
    blocks->ended = fg_envelope_list(&reader->cur, reader->arena, TOMBSTONE_MIN_BYTES,
                                     FG_BLOCKS_ENDED_MAX, sizeof *blocks->ended, &blocks->n_ended);
    for (uint32_t i = 0; i < blocks->n_ended && !reader->cur.bad; i++)
        get_tombstone(reader, &blocks->ended[i]);
}

static void get_head(struct blocks_reader *reader, struct fg_blocks *blocks)
{
    blocks->revision = fg_cur_varint(&reader->cur);
    blocks->covered_floor = fg_cur_varint(&reader->cur);
    blocks->newest = fg_cur_varint(&reader->cur);
    blocks->covered = get_ascending(reader, &reader->cur, FG_BLOCKS_COVERED_MAX,
                                    blocks->covered_floor, &blocks->n_covered);
    if (blocks->n_covered > 0 && blocks->newest != blocks->covered[blocks->n_covered - 1])
        fail(reader, "the newest segment");
    if (blocks->n_covered == 0 && blocks->newest > blocks->covered_floor)
        fail(reader, "the newest segment");
}

static void get_lost(struct blocks_reader *reader, struct fg_blocks *blocks)
{
    if (!fg_cur_more(&reader->cur))
        return;
    blocks->lost = fg_envelope_list(&reader->cur, reader->arena, LOST_MIN_BYTES, FG_BLOCKS_LOST_MAX,
                                    sizeof *blocks->lost, &blocks->n_lost);
    for (uint32_t i = 0; i < blocks->n_lost && !reader->cur.bad; i++) {
        struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));
        struct fg_blocks_lost *lost = &blocks->lost[i];
        struct fg_slice object = fg_cur_lenbytes(&cur), why, service = FG_LIT("");

        fg_manifest_get_span(&cur, &lost->t_min_ns, &lost->t_max_ns);
        lost->profiles = fg_cur_varint(&cur);
        lost->bytes = fg_cur_varint(&cur);
        lost->since_wall_ns = fg_cur_zigzag(&cur);
        why = fg_cur_lenbytes(&cur);
        if (fg_cur_more(&cur))
            service = fg_cur_lenbytes(&cur);
        lost->later = fg_envelope_later(&cur, reader->arena);
        if (cur.bad)
            fg_cur_fail(&reader->cur);
        if (object.len > FG_NAME_MAX_BYTES || why.len > FG_BLOCKS_WHY_MAX_BYTES ||
            service.len > FG_BLOCKS_SERVICE_MAX_BYTES || lost->t_max_ns < lost->t_min_ns)
            fail(reader, "the list of lost objects");
        lost->object = fg_arena_copy(reader->arena, object);
        lost->why = fg_arena_copy(reader->arena, why);
        lost->service = fg_arena_copy(reader->arena, service);
        if (lost->object.ptr == NULL || lost->why.ptr == NULL || lost->service.ptr == NULL)
            fg_cur_fail(&reader->cur);
    }
}

static void get_ledger(struct blocks_reader *reader, struct fg_blocks *blocks)
{
    if (!fg_cur_more(&reader->cur))
        return;
    reader->why = "the ledger";
    blocks->ledger = fg_ledger_get(&reader->cur, reader->arena);
    if (!reader->cur.bad)
        reader->why = "its fields";
}

enum fg_code fg_blocks_decode(struct fg_slice in, struct fg_slice tenant, struct fg_arena *arena,
                              struct fg_blocks *ret_blocks, struct fg_err *err)
{
    struct blocks_reader reader = {.arena = arena, .why = "its fields"};
    struct fg_blocks blocks = {.tenant = fg_arena_copy(arena, tenant)};
    struct fg_slice name;

    if (fg_envelope_open(&envelope, in, &reader.cur, err) != FG_OK)
        return fg_wrap(err, "tenant %.*s", FG_S(tenant));
    name = fg_cur_lenbytes(&reader.cur);
    if (blocks.tenant.ptr == NULL || (!reader.cur.bad && !fg_slice_eq(name, tenant)))
        fail(&reader, "the tenant name, which belongs to another tenant");
    get_head(&reader, &blocks);
    get_blocks(&reader, &blocks);
    get_gone(&reader, &blocks);
    get_tombstones(&reader, &blocks);
    get_ended(&reader, &blocks);
    get_lost(&reader, &blocks);
    get_ledger(&reader, &blocks);
    blocks.later = fg_envelope_later(&reader.cur, arena);
    if (reader.cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "tenant %.*s: manifest of %zu bytes is broken in %s",
                       FG_S(tenant), in.len, reader.why);
    *ret_blocks = blocks;
    return FG_OK;
}
