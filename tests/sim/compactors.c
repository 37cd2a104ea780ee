#include "tests/sim/compactors.h"

#include <stdio.h>

enum { TRIES_TO_SETTLE = 60 };

static const struct cmp_gc_config gc = {
    .retire_after_ns = FG_MINUTE_NS / 2,
    .grace_ns = 3 * FG_MINUTE_NS,
    .orphan_after_ns = 10 * FG_MINUTE_NS,
};

struct compactor compactor_begin(struct world *world)
{
    return (struct compactor){
        .world = world,
        .owner = {.mortal = true},
        .arena = fg_arena_create(SIZE_MAX),
        .manifests = fg_manifests_create(TENANTS, 0, FG_RULES_ALL),
    };
}

void compactor_end(struct compactor *compactor)
{
    fg_arena_destroy(compactor->arena);
    fg_manifests_destroy(compactor->manifests);
}

static int64_t wall_ns(struct compactor *compactor)
{
    return world_wall_ns(compactor->world) -
           (int64_t)draw(compactor->world, (uint64_t)FG_MINUTE_NS);
}

enum io fresh(struct compactor *compactor, struct fg_snapshot *snapshot)
{
    return take_snapshot(compactor->world, &compactor->owner, snapshot, 0, true);
}

static enum io swap(struct compactor *compactor, const struct cmp_edit *edit,
                    const struct fg_snapshot *snapshot)
{
    bool l0 = cmp_edit_is_l0(edit->task.kind);
    const struct fg_manifest *base = l0 ? snapshot->l0 : snapshot->blocks[0];
    char name[FG_NAME_MAX_BYTES] = FG_NAME_L0, etag[24];
    struct fg_buf bytes;
    struct fg_err err;
    enum io io;

    fg_buf_init(&bytes, SIZE_MAX);
    if (l0) {
        fg_assert(fg_l0_encode(&edit->l0, &bytes, &err) == FG_OK);
    } else {
        fg_assert(fg_name_blocks(name, snapshot->tenants[0], &err) == FG_OK);
        fg_assert(fg_blocks_encode(&edit->blocks, &bytes, &err) == FG_OK);
    }
    (void)snprintf(etag, sizeof etag, "%.*s", FG_S(base->etag));
    io = bucket_put(compactor->world, &compactor->owner, name, fg_buf_slice(&bytes),
                    etag[0] == '\0' ? IF_ABSENT : IF_MATCH, etag);
    fg_buf_done(&bytes);
    return io;
}

enum cmp_edit_state carry(struct compactor *compactor, uint32_t tenant,
                          const struct cmp_edit_task *task)
{
    struct world *world = compactor->world;
    struct fg_snapshot snapshot;
    struct cmp_edit edit;
    enum io io = IO_OK;

    cmp_edit_init(&edit, task, draw(world, UINT64_MAX));
    fg_snapshot_init(&snapshot, compactor->manifests, &tenant_names[tenant], 1);
    while (edit.state == EDIT_READING && io != IO_DEAD) {
        int64_t pause = edit.not_before_mono_ns - fibers_now_ns(world->fibers);

        fibers_sleep(world->fibers, FG_MAX(pause, 0));
        io = fresh(compactor, &snapshot);
        if (io == IO_UNSURE)
            cmp_edit_read_failed(&edit, &snapshot.err, fibers_now_ns(world->fibers));
        if (io != IO_OK)
            continue;
        cmp_edit_read(&edit, &snapshot.l0->l0, &snapshot.blocks[0]->blocks, wall_ns(compactor),
                      compactor->arena);
        if (edit.state != EDIT_SWAPPING)
            continue;
        io = swap(compactor, &edit, &snapshot);
        if (io != IO_DEAD)
            cmp_edit_swapped(&edit, io == IO_OK, fibers_now_ns(world->fibers));
    }
    fg_snapshot_done(&snapshot);
    return edit.state;
}

/* Puts a block of these items and makes its entry. */
static enum io make_block(struct compactor *compactor, uint32_t tenant, uint8_t level,
                          const struct items *items, struct fg_blocks_entry *ret_entry)
{
    struct fg_blocks_entry entry = {
        .id = {draw(compactor->world, UINT64_MAX), ++compactor->world->blocks_made},
        .level = level,
        .end_ns = 1,
        .t_max_ns = 1,
        .bytes = items->n * sizeof(struct item),
        .profiles = items->n,
    };
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    for (uint32_t i = 0; i < items->n; i++)
        entry.digest = fg_id_add(entry.digest, item_id(&items->items[i]));
    *ret_entry = entry;
    fg_assert(fg_name_block(name, tenant_names[tenant], entry.id, &err) == FG_OK);
    return bucket_put(compactor->world, &compactor->owner, name,
                      fg_bytes(items->items, items->n * sizeof(struct item)), IF_ABSENT, "");
}

/* Items of one tenant in a segment. */
static enum io read_part(struct compactor *compactor, const struct fg_l0 *l0, uint64_t generation,
                         uint32_t tenant, struct items *out)
{
    char name[FG_NAME_MAX_BYTES];
    struct items all = {0};
    enum io io;

    fg_name_segment(name, &fg_l0_segment(l0, generation)->id);
    io = read_object(compactor->world, &compactor->owner, name, &all);
    for (uint32_t i = 0; io == IO_OK && i < all.n; i++)
        if (all.items[i].group.tenant == tenant)
            items_add(out, all.items[i]);
    items_done(&all);
    return io;
}

void cover(struct compactor *compactor, uint32_t tenant, bool all)
{
    struct fg_snapshot snapshot;
    struct fg_blocks_entry entry;
    struct items items = {0};
    struct cmp_edit_task task = {.kind = EDIT_APPLY};
    uint64_t *generations;
    struct taken taken = {0};
    uint32_t n = 0, kept = 0;
    struct fg_err err;
    enum io io;

    fg_snapshot_init(&snapshot, compactor->manifests, &tenant_names[tenant], 1);
    io = fresh(compactor, &snapshot);
    if (io == IO_OK)
        fg_assert(cmp_gc_uncovered(&snapshot.l0->l0, &snapshot.blocks[0]->blocks, compactor->arena,
                                   &generations, &n, &err) == FG_OK);
    for (uint32_t i = 0; i < n; i++)
        if (all || draw(compactor->world, 4) > 0)
            generations[kept++] = generations[i];
    for (uint32_t i = 0; i < kept && io == IO_OK; i++)
        io = read_part(compactor, &snapshot.l0->l0, generations[i], tenant, &items);
    if (io == IO_OK && kept > 0) {
        leave_out(&snapshot.blocks[0]->blocks, &items, &taken);
        if (items.n > 0)
            io = make_block(compactor, tenant, 1, &items, &entry);
    }
    if (io == IO_OK && kept > 0) {
        task.change = (struct fg_blocks_change){.add = &entry,
                                                .n_add = items.n > 0,
                                                .cover = generations,
                                                .n_cover = kept,
                                                .taken = taken.counts,
                                                .n_taken = taken.n};
        compactor->world->covers += carry(compactor, tenant, &task) == EDIT_DONE;
    }
    fg_snapshot_done(&snapshot);
    items_done(&items);
}

enum io read_block(struct compactor *compactor, uint32_t tenant, struct fg_id id, struct items *out)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    fg_assert(fg_name_block(name, tenant_names[tenant], id, &err) == FG_OK);
    return read_object(compactor->world, &compactor->owner, name, out);
}

void rewrite(struct compactor *compactor, uint32_t tenant, const struct fg_blocks *blocks,
             const struct fg_id *ids, uint32_t n)
{
    struct fg_blocks_entry entry;
    struct items items = {0};
    struct cmp_edit_task task = {.kind = EDIT_APPLY};
    struct taken taken = {0};
    enum io io = IO_OK;

    for (uint32_t i = 0; i < n && io == IO_OK; i++)
        io = read_block(compactor, tenant, ids[i], &items);
    leave_out(blocks, &items, &taken);
    if (io == IO_OK && items.n > 0)
        io = make_block(compactor, tenant, 3, &items, &entry);
    if (io == IO_OK) {
        task.change = (struct fg_blocks_change){.add = &entry,
                                                .n_add = items.n > 0,
                                                .replace = ids,
                                                .n_replace = n,
                                                .taken = taken.counts,
                                                .n_taken = taken.n};
        compactor->world->replaces += carry(compactor, tenant, &task) == EDIT_DONE;
    }
    items_done(&items);
}

/* Some blocks become one. */
static void replace(struct compactor *compactor, uint32_t tenant)
{
    struct fg_snapshot snapshot;
    struct fg_id ids[8];
    uint32_t n = 0;
    enum io io;

    fg_snapshot_init(&snapshot, compactor->manifests, &tenant_names[tenant], 1);
    io = fresh(compactor, &snapshot);
    for (uint32_t i = 0; io == IO_OK && i < snapshot.blocks[0]->blocks.n_blocks; i++) {
        const struct fg_blocks_entry *block = &snapshot.blocks[0]->blocks.blocks[i];

        if (!block->derived && n < FG_COUNT(ids) && draw(compactor->world, 3) > 0)
            ids[n++] = block->id;
    }
    if (n > 1)
        rewrite(compactor, tenant, &snapshot.blocks[0]->blocks, ids, n);
    fg_snapshot_done(&snapshot);
}

/* Adds a parent rollup of some blocks, which stay. */
static void add_nodes(struct compactor *compactor, uint32_t tenant)
{
    struct fg_snapshot snapshot;
    struct fg_blocks_entry entry;
    struct items none = {0};
    struct cmp_edit_task task = {.kind = EDIT_APPLY};
    struct fg_id ids[8];
    uint32_t n = 0;
    enum io io;

    fg_snapshot_init(&snapshot, compactor->manifests, &tenant_names[tenant], 1);
    io = fresh(compactor, &snapshot);
    for (uint32_t i = 0; io == IO_OK && i < snapshot.blocks[0]->blocks.n_blocks; i++) {
        const struct fg_blocks_entry *block = &snapshot.blocks[0]->blocks.blocks[i];

        if (!block->derived && n < FG_COUNT(ids) && draw(compactor->world, 2) == 0)
            ids[n++] = block->id;
    }
    if (io == IO_OK && n > 1)
        io = make_block(compactor, tenant, 4, &none, &entry);
    if (io == IO_OK && n > 1) {
        entry.derived = true;
        entry.from_blocks = ids;
        entry.n_from_blocks = n;
        task.change = (struct fg_blocks_change){.add = &entry, .n_add = 1};
        compactor->world->nodes_made += carry(compactor, tenant, &task) == EDIT_DONE;
    }
    fg_snapshot_done(&snapshot);
}

/* A snapshot of all tenants. */
static enum io read_all(struct compactor *compactor, struct fg_snapshot *snapshot)
{
    fg_snapshot_init(snapshot, compactor->manifests, tenant_names, TENANTS);
    return fresh(compactor, snapshot);
}

/* Covered segments leave the L0 manifest. */
static void retire(struct compactor *compactor)
{
    struct cmp_edit_task task = {.kind = EDIT_RETIRE};
    const struct fg_blocks *blocks[TENANTS] = {NULL};
    struct fg_snapshot snapshot;
    uint64_t *generations;
    struct fg_err err;

    if (read_all(compactor, &snapshot) == IO_OK) {
        const struct fg_l0 *l0 = &snapshot.l0->l0;

        for (uint32_t i = 0; i < TENANTS; i++)
            if (fg_l0_tenant(l0, tenant_names[i]) != FG_L0_NO_TENANT)
                blocks[fg_l0_tenant(l0, tenant_names[i])] = &snapshot.blocks[i]->blocks;
        fg_assert(cmp_gc_retirable(&gc, l0, blocks, wall_ns(compactor), compactor->arena,
                                   &generations, &task.count, &err) == FG_OK);
        task.generations = generations;
        if (task.count > 0)
            compactor->world->retires += carry(compactor, 0, &task) == EDIT_DONE;
    }
    fg_snapshot_done(&snapshot);
}

static void sweep_blocks(struct compactor *compactor, uint32_t tenant)
{
    struct cmp_edit_task task = {.kind = EDIT_DELETED_BLOCKS};
    struct fg_snapshot snapshot;
    struct fg_id *ids = NULL;
    struct fg_err err;
    enum io io;

    fg_snapshot_init(&snapshot, compactor->manifests, &tenant_names[tenant], 1);
    io = fresh(compactor, &snapshot);
    if (io == IO_OK)
        fg_assert(cmp_gc_deletable_blocks(&gc, &snapshot.blocks[0]->blocks, wall_ns(compactor),
                                          compactor->arena, &ids, &task.count, &err) == FG_OK);
    for (uint32_t i = 0; i < task.count && io == IO_OK; i++) {
        char name[FG_NAME_MAX_BYTES];

        fg_assert(fg_name_block(name, tenant_names[tenant], ids[i], &err) == FG_OK);
        io = bucket_delete(compactor->world, &compactor->owner, name);
    }
    task.blocks = ids;
    if (io == IO_OK && task.count > 0)
        (void)carry(compactor, tenant, &task);
    fg_snapshot_done(&snapshot);
}

static void sweep_segments(struct compactor *compactor)
{
    struct cmp_edit_task task = {.kind = EDIT_DELETED_SEGMENTS};
    struct fg_snapshot snapshot;
    struct fg_segment_id *ids = NULL;
    struct fg_err err;
    enum io io = read_all(compactor, &snapshot);

    if (io == IO_OK)
        fg_assert(cmp_gc_deletable_segments(&gc, &snapshot.l0->l0, wall_ns(compactor),
                                            compactor->arena, &ids, &task.count, &err) == FG_OK);
    for (uint32_t i = 0; i < task.count && io == IO_OK; i++) {
        char name[FG_NAME_MAX_BYTES];

        fg_name_segment(name, &ids[i]);
        io = bucket_delete(compactor->world, &compactor->owner, name);
    }
    task.segments = ids;
    if (io == IO_OK && task.count > 0)
        (void)carry(compactor, 0, &task);
    fg_snapshot_done(&snapshot);
}

/* Lists first, reads the manifests then, deletes at last. */
static void sweep_orphans(struct compactor *compactor)
{
    struct world *world = compactor->world;
    uint32_t n = world->n_objects;
    struct object *listed = fg_arena_new(compactor->arena, struct object, n);
    struct fg_snapshot snapshot;
    enum io io;

    for (uint32_t i = 0; i < n; i++) {
        listed[i] = world->objects[i];
        listed[i].name = fg_arena_text(compactor->arena, fg_cstr(listed[i].name));
    }
    io = read_all(compactor, &snapshot);
    for (uint32_t i = 0; i < n && io == IO_OK; i++) {
        struct fg_name name;
        uint32_t tenant;

        fg_assert(fg_name_parse(fg_cstr(listed[i].name), &name));
        tenant = fg_slice_is(tenant_names[0], name.tenant) ? 0 : 1;
        if (cmp_gc_is_orphan(&gc, &name, listed[i].modified_wall_ns, wall_ns(compactor),
                             &snapshot.l0->l0, &snapshot.blocks[tenant]->blocks))
            io = bucket_delete(world, &compactor->owner, listed[i].name);
    }
    fg_snapshot_done(&snapshot);
}

/* ---- segments that no manifest lists ---- */

/* All there are, as the sweep of an erasure finds them (cmp_gc_sweep_tenant()): whatever tenants
 * they have, and also those of cuts that are under way. */
static enum io find_unlisted(struct compactor *compactor)
{
    struct world *world = compactor->world;
    struct cmp_erasure_shared found = {.n = 0};
    uint32_t n = world->n_objects;
    struct cmp_gc_unlisted *listed = fg_arena_new(compactor->arena, struct cmp_gc_unlisted, n);
    uint32_t n_listed = 0;
    struct fg_snapshot snapshot;
    enum io io;

    for (uint32_t i = 0; i < n; i++) {
        struct fg_name name;

        if (fg_name_parse(fg_cstr(world->objects[i].name), &name) &&
            name.kind == FG_NAME_IS_SEGMENT)
            listed[n_listed++] =
                (struct cmp_gc_unlisted){name.segment, world->objects[i].modified_wall_ns};
    }
    io = read_all(compactor, &snapshot);
    for (uint32_t i = 0; i < n_listed && io == IO_OK && found.n < ERASURE_SHARED_MAX; i++)
        if (!fg_l0_knows(&snapshot.l0->l0, &listed[i].id) &&
            !cmp_gc_is_garbage(&snapshot.l0->l0, &listed[i].id))
            found.segments[found.n++] = listed[i];
    if (io == IO_OK) {
        found.awaits = snapshot.l0->l0.asked + 1;
        world->unlisted = found;
    }
    fg_snapshot_done(&snapshot);
    return io;
}

static void delete_unlisted(struct compactor *compactor)
{
    struct world *world = compactor->world;
    struct cmp_erasure_shared shared = world->unlisted;
    enum io io = IO_OK;

    world->unlisted.n = 0;
    for (uint32_t i = 0; i < shared.n && io == IO_OK; i++) {
        char name[FG_NAME_MAX_BYTES];

        fg_name_segment(name, &shared.segments[i].id);
        trace(world, "%s is given up", name);
        io = bucket_delete(world, &compactor->owner, name);
        world->settled++;
    }
}

/* Decides by the manifest, and by the ring that is read after it. However young they are: nobody
 * runs here who was given up, or on a copy of a disk. */
static enum cmp_erasure_settling decide_unlisted(struct compactor *compactor)
{
    enum cmp_erasure_settling settling = SETTLING_WAIT;
    struct fg_snapshot snapshot;
    struct cmp_ingesters ingesters;
    struct fg_ring_view *view;
    struct fg_err err;

    if (read_all(compactor, &snapshot) == IO_OK &&
        ring_get(compactor->world, &compactor->owner, &view) == IO_OK) {
        fg_assert(cmp_ingesters_of(&view->ring, compactor->arena, &ingesters, &err) == FG_OK);
        settling = cmp_erasure_settle(&compactor->world->unlisted, &snapshot.l0->l0, &ingesters, 0,
                                      wall_ns(compactor));
        fg_ring_view_unref(view);
    }
    fg_snapshot_done(&snapshot);
    return settling;
}

/* A step of what the erasure of a tenant does to them. */
static void settle_unlisted(struct compactor *compactor)
{
    struct world *world = compactor->world;
    struct cmp_edit_task ask = {.kind = EDIT_ASK};

    if (world->unlisted.n == 0 && (find_unlisted(compactor) != IO_OK || world->unlisted.n == 0))
        return;
    ask.asked = world->unlisted.awaits;
    if (!keeps(world, CLUSTER_RULE_UNLISTED_UNTIL_CLEAN)) {
        delete_unlisted(compactor);
        return;
    }
    switch (decide_unlisted(compactor)) {
    case SETTLING_ASK:
        (void)carry(compactor, 0, &ask);
        break;
    case SETTLING_DELETE:
        delete_unlisted(compactor);
        break;
    case SETTLING_WAIT:
    case SETTLING_SWEEP:
        break;
    }
}

/* Faults have stopped, so all answer. */
static void settle_all_unlisted(struct compactor *compactor)
{
    struct world *world = compactor->world;

    for (int i = 0; i < TRIES_TO_SETTLE; i++) {
        settle_unlisted(compactor);
        if (world->unlisted.n == 0)
            return;
        fibers_sleep(world->fibers, FG_MINUTE_NS);
    }
    found_fault(world, "a segment that no manifest lists stays when the faults have stopped");
}

void compact_once(struct world *world)
{
    struct compactor compactor = compactor_begin(world);
    uint32_t tenant = (uint32_t)draw(world, TENANTS);

    switch (draw(world, 10)) {
    case 0:
    case 1:
    case 2:
        cover(&compactor, tenant, false);
        break;
    case 3:
        if (draw(world, 2) == 0)
            add_nodes(&compactor, tenant);
        replace(&compactor, tenant);
        break;
    case 4:
    case 5:
        retire(&compactor);
        break;
    case 6:
        sweep_blocks(&compactor, tenant);
        sweep_segments(&compactor);
        break;
    case 7:
        sweep_orphans(&compactor);
        break;
    default:
        end_deletions(&compactor, tenant);
        break;
    }
    compactor_end(&compactor);
}

void settle_once(struct world *world)
{
    struct compactor compactor = compactor_begin(world);

    settle_unlisted(&compactor);
    compactor_end(&compactor);
}

void compact_all(struct world *world)
{
    struct compactor compactor = compactor_begin(world);

    for (uint32_t t = 0; t < TENANTS; t++) {
        cover(&compactor, t, true);
        end_all_deletions(&compactor, t);
    }
    settle_all_unlisted(&compactor);
    fibers_sleep(world->fibers, 20 * FG_MINUTE_NS);
    retire(&compactor);
    fibers_sleep(world->fibers, 20 * FG_MINUTE_NS);
    for (uint32_t t = 0; t < TENANTS; t++)
        sweep_blocks(&compactor, t);
    sweep_segments(&compactor);
    sweep_orphans(&compactor);
    compactor_end(&compactor);
}
