#include "tests/sim/compactors.h"

#include <stdio.h>
#include <stdlib.h>

enum { ATTEMPTS_MAX = 6 };

/* ---- snapshots ---- */

static const char *object_name(const struct fg_snapshot *snapshot, int object,
                               char out[FG_NAME_MAX_BYTES])
{
    struct fg_err err;

    if (object == FG_SNAPSHOT_L0)
        (void)snprintf(out, FG_NAME_MAX_BYTES, "%s", FG_NAME_L0);
    else
        fg_assert(fg_name_blocks(out, snapshot->tenants[object], &err) == FG_OK);
    return out;
}

static struct fg_manifest *decode(const struct fg_snapshot *snapshot, int object,
                                  struct fg_slice bytes, const char *etag)
{
    struct fg_manifest *manifest;
    struct fg_err err;
    enum fg_code code =
        object == FG_SNAPSHOT_L0
            ? fg_manifest_l0(bytes, fg_cstr(etag), &manifest, &err)
            : fg_manifest_blocks(bytes, fg_cstr(etag), snapshot->tenants[object], &manifest, &err);

    fg_assert(code == FG_OK);
    return manifest;
}

/* Reads one object that the snapshot wants, and hands it in. */
static enum io answer(struct world *world, struct owner *owner, struct fg_snapshot *snapshot,
                      int object)
{
    char name[FG_NAME_MAX_BYTES], known[24] = "", etag[24] = "";
    struct fg_slice asked = fg_snapshot_etag(snapshot, object);
    struct fg_manifest *manifest = NULL;
    struct fg_buf bytes;
    struct fg_err err;
    enum io io;

    fg_buf_init(&bytes, SIZE_MAX);
    (void)snprintf(known, sizeof known, "%.*s", FG_S(asked));
    io = bucket_get(world, owner, object_name(snapshot, object, name), known, &bytes, etag);
    if (io == IO_DEAD || io == IO_UNSURE) {
        (void)fg_fail(&err, FG_E_UNAVAILABLE, "%s", name);
        fg_snapshot_failed(snapshot, &err);
    } else {
        if (io != IO_SAME)
            manifest = decode(snapshot, object, fg_buf_slice(&bytes), io == IO_OK ? etag : "");
        fg_snapshot_answer(snapshot, object, manifest, fibers_now_ns(world->fibers));
    }
    fg_buf_done(&bytes);
    return io == IO_DEAD ? IO_DEAD : IO_OK;
}

enum io take_snapshot(struct world *world, struct owner *owner, struct fg_snapshot *snapshot,
                      uint64_t least, bool fresh)
{
    enum io io = IO_OK;

    fg_snapshot_begin(snapshot, least, fresh, fibers_now_ns(world->fibers));
    while (snapshot->waiting > 0 && io == IO_OK) {
        bool l0 = snapshot->want_l0;
        uint32_t tenants = snapshot->want_tenants;

        if (chance(world, 40)) /* much may happen between two manifests */
            fibers_sleep(world->fibers, (int64_t)draw(world, 3 * (uint64_t)FG_MINUTE_NS));
        if (!is_alive(world, owner))
            return IO_DEAD;
        if (l0)
            io = answer(world, owner, snapshot, FG_SNAPSHOT_L0);
        for (uint32_t i = 0; !l0 && i < snapshot->n_tenants; i++)
            if ((tenants >> i & 1) != 0)
                io = answer(world, owner, snapshot, (int)i);
    }
    if (io == IO_OK && snapshot->state != FG_SNAPSHOT_READY)
        io = IO_UNSURE;
    return io;
}

/* ---- contents ---- */

enum io read_object(struct world *world, struct owner *owner, const char *name, struct items *out)
{
    struct fg_buf bytes;
    char etag[24];
    enum io io;

    fg_buf_init(&bytes, SIZE_MAX);
    io = bucket_get(world, owner, name, "", &bytes, etag);
    if (io == IO_OK)
        items_append(out, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    return io;
}

/* What was added since `from` is of this tenant, and adds up to what the manifest says. */
static void keep_tenant(struct world *world, struct items *items, uint32_t from, uint32_t tenant,
                        uint64_t profiles, const struct fg_id *digest)
{
    uint32_t kept = from;
    struct fg_id sum = {0};

    for (uint32_t i = from; i < items->n; i++) {
        sum = fg_id_add(sum, item_id(&items->items[i]));
        if (items->items[i].group.tenant == tenant)
            items->items[kept++] = items->items[i];
    }
    items->n = kept;
    if (kept - from != profiles || !fg_id_eq(sum, *digest))
        found_fault(world, "an object does not hold what its manifest says");
}

static uint32_t tenant_number(struct fg_slice name)
{
    return fg_slice_eq(name, tenant_names[0]) ? 0 : 1;
}

static enum io read_segments(struct world *world, struct owner *owner,
                             const struct fg_snapshot *snapshot, uint32_t tenant, struct items *out)
{
    const struct fg_l0 *l0 = &snapshot->l0->l0;
    enum io io = IO_OK;

    for (uint32_t i = 0; i < l0->n_segments && io == IO_OK; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        uint32_t from = out->n, number = fg_l0_tenant(l0, snapshot->tenants[tenant]);
        char name[FG_NAME_MAX_BYTES];

        if (!fg_snapshot_reads(snapshot, tenant, segment))
            continue;
        fg_name_segment(name, &segment->id);
        io = read_object(world, owner, name, out);
        if (io == IO_OK)
            keep_tenant(world, out, from, tenant_number(snapshot->tenants[tenant]),
                        fg_l0_part(segment, number)->profiles, &segment->digest);
    }
    return io;
}

static enum io read_blocks(struct world *world, struct owner *owner,
                           const struct fg_snapshot *snapshot, uint32_t tenant, struct items *out)
{
    const struct fg_blocks *blocks = &snapshot->blocks[tenant]->blocks;
    enum io io = IO_OK;

    for (uint32_t i = 0; i < blocks->n_blocks && io == IO_OK; i++) {
        const struct fg_blocks_entry *entry = &blocks->blocks[i];
        char name[FG_NAME_MAX_BYTES];
        uint32_t from = out->n;
        struct fg_err err;

        if (entry->derived) /* what it sums up is in others */
            continue;
        fg_assert(fg_name_block(name, blocks->tenant, entry->id, &err) == FG_OK);
        io = read_object(world, owner, name, out);
        if (io == IO_OK)
            keep_tenant(world, out, from, tenant_number(blocks->tenant), entry->profiles,
                        &entry->digest);
    }
    return io;
}

enum io read_contents(struct world *world, struct owner *owner, const struct fg_snapshot *snapshot,
                      uint32_t tenant, struct items *out)
{
    enum io io = read_segments(world, owner, snapshot, tenant, out);

    return io == IO_OK ? read_blocks(world, owner, snapshot, tenant, out) : io;
}

/* ---- a read ---- */

/* Of a profile that was sent when the read began. */
enum want { WANT_MAYBE, WANT_IT, WANT_NOT };

static void check(struct world *world, uint32_t tenant, const enum want *wants, uint32_t n_wants,
                  const struct items *blocks, const struct items *heads, uint64_t generation)
{
    uint32_t *times = fg_calloc((size_t)world->n_sent + 1, sizeof *times);

    for (uint32_t i = 0; i < blocks->n; i++)
        times[blocks->items[i].profile]++;
    for (uint32_t i = 0; i < heads->n; i++)
        times[heads->items[i].profile]++;
    for (uint32_t i = 0; i < world->n_sent; i++) {
        bool named = is_named(world, &world->sent[i].item);

        if (times[i] > 1)
            trace(world, "profile %u: in blocks %d, in heads %d", i,
                  items_has(blocks, &world->sent[i].item), items_has(heads, &world->sent[i].item));
        /* What was taken out of blocks and is sent again is new to a head, and an answer that began
         * before may have both. */
        if (times[i] > 1 && !named)
            found_fault(world, "read at generation %llu: profile %u %u times",
                        (unsigned long long)generation, i, times[i]);
        if (i < n_wants && wants[i] == WANT_IT && times[i] == 0 && !named)
            found_fault(world, "read at generation %llu: profile %u is lost",
                        (unsigned long long)generation, i);
        if (i < n_wants && wants[i] == WANT_NOT && times[i] > 0)
            found_fault(world, "read at generation %llu: profile %u is back",
                        (unsigned long long)generation, i);
        if (times[i] > 0 && world->sent[i].item.group.tenant != tenant)
            found_fault(world, "read: profile %u is another tenant's", i);
    }
    free(times);
}

/* What of the tenant is acknowledged by now, and not deleted; what is. */
static enum want *find_wants(const struct world *world, uint32_t tenant)
{
    enum want *wants = fg_calloc((size_t)world->n_sent + 1, sizeof *wants);

    for (uint32_t i = 0; i < world->n_sent; i++)
        if (world->sent[i].acked && world->sent[i].item.group.tenant == tenant)
            wants[i] = is_gone(world, i) ? WANT_NOT : WANT_IT;
    return wants;
}

/* One try under a ring. IO_OK: blocks and heads are read, at *least. IO_MISSING: take a fresh
 * snapshot; IO_REFUSED: one of *least. */
static enum io read_parts(struct world *world, const struct fg_ring_view *view,
                          struct fg_snapshot *snapshot, uint32_t tenant, bool fresh,
                          uint64_t *least, struct items *blocks, struct items *heads)
{
    struct owner owner = {0};
    enum io io = take_snapshot(world, &owner, snapshot, *least, fresh);
    bool blocks_first = draw(world, 2) == 0;
    enum head_read got;

    if (io != IO_OK)
        return io;
    if (draw(world, 20) == 0) /* a reader that takes its time */
        fibers_sleep(world->fibers, (int64_t)draw(world, 5 * (uint64_t)FG_MINUTE_NS));
    if (blocks_first && (io = read_contents(world, &owner, snapshot, 0, blocks)) != IO_OK)
        return io;
    got = ask_heads(world, view, tenant, fg_snapshot_generation(snapshot), heads, least);
    if (got != HEAD_ANSWERED)
        return got == HEAD_STALE ? IO_REFUSED : IO_UNSURE;
    return blocks_first ? IO_OK : read_contents(world, &owner, snapshot, 0, blocks);
}

/* What the snapshot's tombstones name is left out, wherever it is. */
static enum io read_under(struct world *world, const struct fg_ring_view *view,
                          struct fg_snapshot *snapshot, uint32_t tenant, bool fresh,
                          uint64_t *least, struct items *blocks, struct items *heads)
{
    enum io io = read_parts(world, view, snapshot, tenant, fresh, least, blocks, heads);

    if (io == IO_OK) {
        leave_out(&snapshot->blocks[0]->blocks, blocks, NULL);
        leave_out(&snapshot->blocks[0]->blocks, heads, NULL);
    }
    return io;
}

/* The ring comes first: who has drained is not asked, and has it in the snapshot. (as-drained) */
static enum io try_read(struct world *world, struct fg_snapshot *snapshot, uint32_t tenant,
                        bool fresh, uint64_t *least, struct items *blocks, struct items *heads)
{
    struct owner owner = {0};
    struct fg_ring_view *view;
    enum io io = ring_get(world, &owner, &view);

    if (io != IO_OK)
        return io;
    if (keeps(world, CLUSTER_RULE_AS_DRAINED))
        *least = FG_MAX(*least, view->ring.generation);
    io = read_under(world, view, snapshot, tenant, fresh, least, blocks, heads);
    fg_ring_view_unref(view);
    return io;
}

bool read_and_check(struct world *world)
{
    uint32_t tenant = (uint32_t)draw(world, TENANTS), n_wants = world->n_sent;
    enum want *wants = find_wants(world, tenant);
    struct fg_snapshot snapshot;
    uint64_t least = 0;
    bool fresh = false, done = false;

    fg_snapshot_init(&snapshot, world->reader_cache, &tenant_names[tenant], 1);
    for (int i = 0; i < ATTEMPTS_MAX && !done; i++) {
        struct items blocks = {0}, heads = {0};
        enum io io = try_read(world, &snapshot, tenant, fresh, &least, &blocks, &heads);

        done = io == IO_OK;
        fresh = io == IO_MISSING;
        if (done)
            check(world, tenant, wants, n_wants, &blocks, &heads,
                  fg_snapshot_generation(&snapshot));
        items_done(&blocks);
        items_done(&heads);
    }
    fg_snapshot_done(&snapshot);
    free(wants);
    if (done)
        world->reads++;
    else
        world->refused_reads++;
    return done;
}
