/*
 * The ring as bytes; in an envelope (common/base/envelope.h).
 *
 *   varint swaps, generation
 *   members    list of records, ascending by name:
 *                varint length, name;  varint length, address;  varint length, address of HTTP
 *                store 16 bytes;  zigzag since / ns;  varint drained, lost
 *                zigzag in maintenance since / ns, 0: it is not
 *   revisions  list of records, ascending by number:
 *                varint number - that of the one before (of the first: - 0), replicas
 *                places  list of: varint member - that before - 1 (of the first: - 0),
 *                          varint length, zone
 *   floor      varint
 *   others     steps of tenants that are not listed: list, ascending, of
 *                zigzag since - that of the one before (of the first: - 0) / ns;
 *                varint shard factor
 *   shard factors    list of records, ascending by tenant: varint length, tenant;  steps
 *   overrides  varint
 *
 * `floor` and the fields behind it were added later. Without them it is not known which shard
 * factors are in use, so `floor` is the largest. Maintenance and `overrides` were added after that;
 * without them they are 0.
 */
#include "common/base/envelope.h"
#include "common/cluster/ring/ring.h"
#include "common/cluster/ring/shard.h"

static const struct fg_envelope envelope = {"ring", "FGRG", 1, FG_RING_MAX_BYTES};

/* The least bytes that elements take. fg_envelope_list() refuses a count that the rest of the
 * input has no room for. */
enum {
    MEMBER_MIN_BYTES = 1 + 24,
    REVISION_MIN_BYTES = 1 + 3,
    PLACE_MIN_BYTES = 2,
    SHARD_FACTOR_MIN_BYTES = 1 + 3,
    STEP_MIN_BYTES = 2,
};

/* ---- writing ---- */

static void put_member(struct fg_buf *out, const struct fg_ring_member *member)
{
    uint8_t store[FG_ID_BYTES];

    fg_id_put(store, member->store);
    fg_buf_lenbytes(out, member->name);
    fg_buf_lenbytes(out, member->address);
    fg_buf_lenbytes(out, member->http);
    fg_buf_append(out, store, sizeof store);
    fg_buf_zigzag(out, member->since_wall_ns);
    fg_buf_varint(out, member->drained);
    fg_buf_varint(out, member->lost);
    fg_buf_zigzag(out, member->paused_wall_ns);
    /* Fields of a later version, which come behind ours, are kept here and below. */
    fg_buf_put(out, member->later);
}

static void put_revision(struct fg_buf *out, const struct fg_ring_revision *revision,
                         uint64_t before)
{
    uint32_t next = 0;

    fg_buf_varint(out, revision->number - before);
    fg_buf_varint(out, revision->replicas);
    fg_buf_varint(out, revision->n_places);
    for (uint32_t i = 0; i < revision->n_places; i++) {
        fg_buf_varint(out, revision->places[i].member - next);
        fg_buf_lenbytes(out, revision->places[i].zone);
        next = revision->places[i].member + 1;
    }
    fg_buf_put(out, revision->later);
}

static void put_steps(struct fg_buf *out, const struct fg_ring_steps *steps)
{
    uint64_t before = 0;

    fg_buf_varint(out, steps->n);
    for (uint32_t i = 0; i < steps->n; i++) {
        uint64_t since_ns = (uint64_t)steps->items[i].since_ns;

        fg_buf_zigzag(out, (int64_t)(since_ns - before));
        fg_buf_varint(out, steps->items[i].shard_factor);
        before = since_ns;
    }
}

static void put_shard_factors(struct fg_buf *out, struct fg_buf *record, const struct fg_ring *ring)
{
    fg_buf_varint(out, ring->floor);
    put_steps(out, &ring->others);
    fg_buf_varint(out, ring->n_shard_factors);
    for (uint32_t i = 0; i < ring->n_shard_factors; i++) {
        fg_buf_clear(record);
        fg_buf_lenbytes(record, ring->shard_factors[i].tenant);
        put_steps(record, &ring->shard_factors[i].steps);
        fg_buf_put(record, ring->shard_factors[i].later);
        fg_buf_lenbytes(out, fg_buf_slice(record));
    }
}

enum fg_code fg_ring_encode(const struct fg_ring *ring, struct fg_buf *out, struct fg_err *err)
{
    size_t start = out->len;
    uint64_t before = 0;
    struct fg_buf record;

    fg_buf_init(&record, FG_RING_MAX_BYTES);
    fg_envelope_begin(&envelope, out);
    fg_buf_varint(out, ring->swaps);
    fg_buf_varint(out, ring->generation);
    fg_buf_varint(out, ring->n_members);
    for (uint32_t i = 0; i < ring->n_members; i++) {
        fg_buf_clear(&record);
        put_member(&record, &ring->members[i]);
        fg_buf_lenbytes(out, fg_buf_slice(&record));
    }
    fg_buf_varint(out, ring->n_revisions);
    for (uint32_t i = 0; i < ring->n_revisions; i++) {
        fg_buf_clear(&record);
        put_revision(&record, &ring->revisions[i], before);
        fg_buf_lenbytes(out, fg_buf_slice(&record));
        before = ring->revisions[i].number;
    }
    put_shard_factors(out, &record, ring);
    fg_buf_varint(out, ring->overrides);
    fg_buf_put(out, ring->later);
    out->full |= record.full;
    fg_buf_done(&record);
    return fg_envelope_end(&envelope, out, start, err);
}

/* ---- reading ---- */

/* What is being read, and what is wrong with it. The first fault counts. */
struct ring_reader {
    struct fg_cur cur;
    struct fg_arena *arena;
    const char *why;
};

static void fail(struct ring_reader *reader, const char *why)
{
    if (!reader->cur.bad)
        reader->why = why;
    fg_cur_fail(&reader->cur);
}

static struct fg_slice get_text(struct ring_reader *reader, struct fg_cur *cur)
{
    struct fg_slice text = fg_cur_lenbytes(cur);
    struct fg_slice copy = cur->bad ? text : fg_arena_copy(reader->arena, text);

    if (copy.ptr == NULL)
        fg_cur_fail(cur);
    return copy;
}

static void get_members(struct ring_reader *reader, struct fg_ring *ring)
{
    ring->members = fg_envelope_list(&reader->cur, reader->arena, MEMBER_MIN_BYTES,
                                     FG_RING_MEMBERS_MAX, sizeof *ring->members, &ring->n_members);
    for (uint32_t i = 0; i < ring->n_members && !reader->cur.bad; i++) {
        struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));
        struct fg_ring_member *member = &ring->members[i];
        struct fg_slice store;

        member->name = get_text(reader, &cur);
        member->address = get_text(reader, &cur);
        member->http = get_text(reader, &cur);
        store = fg_cur_take(&cur, FG_ID_BYTES);
        member->store = cur.bad ? (struct fg_id){0} : fg_id_get(store.ptr);
        member->since_wall_ns = fg_cur_zigzag(&cur);
        member->drained = fg_cur_varint(&cur);
        member->lost = fg_cur_varint(&cur);
        member->paused_wall_ns = fg_cur_more(&cur) ? fg_cur_zigzag(&cur) : 0;
        member->later = fg_envelope_later(&cur, reader->arena);
        if (cur.bad) {
            fail(reader, "the fields of a member");
        } else {
            if (fg_member_name_fault(member->name) != NULL)
                fail(reader, "the name of a member");
            if (fg_ring_address_fault(member->address, false) != NULL ||
                fg_ring_address_fault(member->http, true) != NULL)
                fail(reader, "the address of a member");
            if (i > 0 && fg_slice_cmp((member - 1)->name, member->name) >= 0)
                fail(reader, "the order of members");
        }
    }
}

static void get_places(struct ring_reader *reader, struct fg_cur *cur, const struct fg_ring *ring,
                       struct fg_ring_revision *revision)
{
    uint64_t next = 0;

    revision->places = fg_envelope_list(cur, reader->arena, PLACE_MIN_BYTES, FG_RING_MEMBERS_MAX,
                                        sizeof *revision->places, &revision->n_places);
    for (uint32_t i = 0; i < revision->n_places && !cur->bad; i++) {
        uint64_t step = fg_cur_varint(cur);

        if (next >= ring->n_members || step >= ring->n_members - next) {
            fail(reader, "the member of a place");
            return;
        }
        revision->places[i].member = (uint32_t)(next + step);
        revision->places[i].zone = get_text(reader, cur);
        next += step + 1;
        if (!cur->bad && fg_member_zone_fault(revision->places[i].zone) != NULL)
            fail(reader, "the zone of a member");
    }
}

static void get_revision(struct ring_reader *reader, const struct fg_ring *ring, uint64_t before,
                         struct fg_ring_revision *revision)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));
    uint64_t step = fg_cur_varint(&cur), replicas = fg_cur_varint(&cur);

    if (step == 0 || step > FG_RING_NUMBER_MAX - before)
        fail(reader, "the number of a revision");
    if (replicas == 0 || replicas > FG_RING_REPLICAS_MAX)
        fail(reader, "the replicas of a revision");
    revision->number = before + step;
    revision->replicas = (unsigned)replicas;
    get_places(reader, &cur, ring, revision);
    revision->later = fg_envelope_later(&cur, reader->arena);
    if (cur.bad)
        fail(reader, "the fields of a revision");
}

static void get_revisions(struct ring_reader *reader, struct fg_ring *ring)
{
    uint64_t before = 0;

    ring->revisions =
        fg_envelope_list(&reader->cur, reader->arena, REVISION_MIN_BYTES, FG_RING_REVISIONS_MAX,
                         sizeof *ring->revisions, &ring->n_revisions);
    for (uint32_t i = 0; i < ring->n_revisions && !reader->cur.bad; i++) {
        get_revision(reader, ring, before, &ring->revisions[i]);
        before = ring->revisions[i].number;
    }
}

static unsigned get_shard_factor(struct ring_reader *reader, struct fg_cur *cur)
{
    uint64_t shard_factor = fg_cur_varint(cur);

    if (shard_factor > FG_SHARD_FACTOR_MAX)
        fail(reader, "a shard factor");
    return (unsigned)shard_factor;
}

static void get_steps(struct ring_reader *reader, struct fg_cur *cur, struct fg_ring_steps *steps)
{
    uint64_t since_ns = 0;

    steps->items = fg_envelope_list(cur, reader->arena, STEP_MIN_BYTES, FG_SHARD_FACTOR_MAX,
                                    sizeof *steps->items, &steps->n);
    for (uint32_t i = 0; i < steps->n && !cur->bad; i++) {
        struct fg_ring_step *step = &steps->items[i];

        since_ns += (uint64_t)fg_cur_zigzag(cur);
        step->since_ns = (int64_t)since_ns;
        step->shard_factor = get_shard_factor(reader, cur);
        if (step->shard_factor == 0 || (i > 0 && (step->shard_factor <= step[-1].shard_factor ||
                                                  step->since_ns < step[-1].since_ns)))
            fail(reader, "the order of a tenant's shard factors");
    }
}

static void get_shard_factors(struct ring_reader *reader, struct fg_ring *ring)
{
    if (!fg_cur_more(&reader->cur)) {
        ring->floor = FG_SHARD_FACTOR_MAX;
        return;
    }
    ring->floor = get_shard_factor(reader, &reader->cur);
    get_steps(reader, &reader->cur, &ring->others);
    ring->shard_factors = fg_envelope_list(&reader->cur, reader->arena, SHARD_FACTOR_MIN_BYTES,
                                           FG_RING_SHARD_FACTORS_MAX, sizeof *ring->shard_factors,
                                           &ring->n_shard_factors);
    for (uint32_t i = 0; i < ring->n_shard_factors && !reader->cur.bad; i++) {
        struct fg_cur cur = fg_cur(fg_cur_lenbytes(&reader->cur));
        struct fg_ring_shard_factor *entry = &ring->shard_factors[i];

        entry->tenant = get_text(reader, &cur);
        get_steps(reader, &cur, &entry->steps);
        entry->later = fg_envelope_later(&cur, reader->arena);
        if (cur.bad || fg_ring_tenant_fault(entry->tenant) != NULL)
            fail(reader, "the tenant of a shard factor");
        else if (i > 0 && fg_slice_cmp(entry[-1].tenant, entry->tenant) >= 0)
            fail(reader, "the order of shard factors");
    }
}

static bool has_place(const struct fg_ring *ring, uint32_t member)
{
    for (uint32_t i = 0; i < ring->n_revisions; i++)
        if (fg_ring_place_of(&ring->revisions[i], member) != NULL)
            return true;
    return false;
}

static void check_revisions(struct ring_reader *reader, const struct fg_ring *ring)
{
    uint64_t newest = fg_ring_newest(ring);

    for (uint32_t i = 0; i < ring->n_members; i++) {
        if (ring->members[i].drained > newest || ring->members[i].lost > newest)
            fail(reader, "the drained or lost revisions of a member");
        /* A member of no revision would never be asked for anything, nor leave. */
        if (!has_place(ring, i))
            fail(reader, "the places of a member");
    }
}

enum fg_code fg_ring_decode(struct fg_slice in, struct fg_arena *arena, struct fg_ring *ret_ring,
                            struct fg_err *err)
{
    struct ring_reader reader = {.arena = arena, .why = "its fields"};
    struct fg_ring ring = fg_ring_none();

    if (fg_envelope_open(&envelope, in, &reader.cur, err) != FG_OK)
        return err->code;
    ring.swaps = fg_cur_varint(&reader.cur);
    if (ring.swaps > FG_RING_NUMBER_MAX)
        fail(&reader, "the number of swaps");
    ring.generation = fg_cur_varint(&reader.cur);
    get_members(&reader, &ring);
    get_revisions(&reader, &ring);
    if (!reader.cur.bad)
        check_revisions(&reader, &ring);
    get_shard_factors(&reader, &ring);
    ring.overrides = fg_cur_more(&reader.cur) ? fg_cur_varint(&reader.cur) : 0;
    ring.later = fg_envelope_later(&reader.cur, arena);
    if (reader.cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "ring of %zu bytes is broken in %s", in.len, reader.why);
    *ret_ring = ring;
    return FG_OK;
}
