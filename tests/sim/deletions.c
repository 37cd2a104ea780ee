/*
 * Users delete some of what was sent; compactors take it out of blocks, and end it as the decision
 * of production says (compactor/completion_core.h). What was acknowledged before it was asked for
 * is in no answer from then on, and nothing else is missing.
 *
 * A deletion names a shard and a time of a tenant: its selector is {shard="2"}.
 */
#include "compactor/completion_core.h"
#include "tests/sim/compactors.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRIES_TO_END = 60 };

static const int64_t WAIT_NS = 2 * FG_MINUTE_NS;

/* A reader's manifests may be that old. */
static const int64_t CACHED_NS = 20 * FG_SECOND_NS;

static const char selector_begin[] = "{shard=\"";

static bool names(const struct fg_blocks_tombstone *tombstone, const struct item *item)
{
    return tombstone->selector.ptr[sizeof selector_begin - 1] == '0' + item->group.shard &&
           item->time_ns >= tombstone->start_ns && item->time_ns < tombstone->end_ns;
}

/* ---- asking for it ---- */

static void mark_named(struct world *world, uint32_t tenant,
                       const struct fg_blocks_tombstone *tombstone)
{
    for (uint32_t i = 0; i < world->n_sent; i++) {
        struct sent *sent = &world->sent[i];

        if (sent->item.group.tenant == tenant && names(tombstone, &sent->item) && sent->acked &&
            sent->pushes == 0)
            sent->doomed = true;
    }
}

static void mark_gone(struct world *world)
{
    for (uint32_t i = 0; i < world->n_sent; i++)
        if (world->sent[i].doomed && world->sent[i].gone_mono_ns == 0)
            world->sent[i].gone_mono_ns = fibers_now_ns(world->fibers);
}

bool is_named(const struct world *world, const struct item *item)
{
    for (uint32_t i = 0; i < world->n_deletions; i++)
        if (world->deletions[i].tenant == item->group.tenant &&
            names(&world->deletions[i].tombstone, item))
            return true;
    return false;
}

bool is_gone(const struct world *world, uint32_t profile)
{
    const struct sent *sent = &world->sent[profile];

    return sent->gone_mono_ns != 0 &&
           fibers_now_ns(world->fibers) >= sent->gone_mono_ns + CACHED_NS;
}

/* One at a time is asked for: marks are of the last one. */
static void delete_from(struct world *world, uint32_t tenant, uint32_t shard, int64_t since_ns)
{
    struct deletion *deletion = &world->deletions[world->n_deletions];
    struct compactor compactor = compactor_begin(world);
    int64_t now_ns = world_wall_ns(world);
    struct cmp_edit_task task = {.kind = EDIT_BURY};

    compactor.owner.mortal = false;
    (void)snprintf(deletion->selector, sizeof deletion->selector, "%s%u\"}", selector_begin, shard);
    deletion->tenant = tenant;
    deletion->tombstone = (struct fg_blocks_tombstone){
        .id = {draw(world, UINT64_MAX), world->n_deletions},
        .selector = fg_cstr(deletion->selector),
        .start_ns = now_ns - since_ns,
        .end_ns = now_ns + (int64_t)draw(world, (uint64_t)FG_MINUTE_NS),
        .asked_wall_ns = now_ns};
    task.tombstone = deletion->tombstone;
    world->n_deletions++;
    mark_named(world, tenant, &deletion->tombstone);
    trace(world, "deletion of tenant %u, shard %u is asked for", tenant, shard);
    while (carry(&compactor, tenant, &task) != EDIT_DONE)
        continue;
    mark_gone(world);
    compactor_end(&compactor);
}

void delete_all_the_time(void *arg)
{
    struct world *world = arg;

    while (!world->ending && world->n_deletions < DELETIONS_MAX) {
        fibers_sleep(world->fibers, (int64_t)draw(world, 20 * (uint64_t)FG_MINUTE_NS));
        if (!world->ending)
            delete_from(world, (uint32_t)draw(world, TENANTS), (uint32_t)draw(world, SHARDS),
                        (int64_t)draw(world, (uint64_t)FG_HOUR_NS));
    }
}

/* ---- taking out ---- */

void leave_out(const struct fg_blocks *blocks, struct items *items, struct taken *taken)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < items->n; i++) {
        uint32_t by = 0;

        while (by < blocks->n_tombstones && !names(&blocks->tombstones[by], &items->items[i]))
            by++;
        if (by == blocks->n_tombstones)
            items->items[kept++] = items->items[i];
        else if (taken != NULL)
            taken->counts[by].profiles++;
    }
    for (uint32_t i = 0; taken != NULL && i < blocks->n_tombstones; i++)
        taken->counts[i].tombstone = blocks->tombstones[i].id;
    if (taken != NULL)
        taken->n = blocks->n_tombstones;
    items->n = kept;
}

/* Rewrites the first block that has some of it. *ret_found: there was one. */
static enum io rewrite_one(struct compactor *compactor, uint32_t tenant,
                           const struct fg_blocks *blocks, bool *ret_found)
{
    enum io io = IO_OK;

    *ret_found = false;
    for (uint32_t i = 0; i < blocks->n_blocks && io == IO_OK && !*ret_found; i++) {
        struct items items = {0};
        uint32_t n;

        if (blocks->blocks[i].derived)
            continue;
        io = read_block(compactor, tenant, blocks->blocks[i].id, &items);
        n = items.n;
        leave_out(blocks, &items, NULL);
        *ret_found = io == IO_OK && items.n < n;
        items_done(&items);
        if (*ret_found)
            rewrite(compactor, tenant, blocks, &blocks->blocks[i].id, 1);
    }
    return io;
}

/* ---- ending ---- */

static void advance(struct compactor *compactor, uint32_t tenant,
                    const struct fg_blocks_tombstone *tombstone, const struct fg_l0 *l0,
                    const struct cmp_ingesters *ingesters)
{
    const uint64_t number = FG_MAX(l0->asked, tombstone->awaits) + 1;
    struct cmp_completion next = cmp_completion_next(tombstone, l0, ingesters, number);
    const struct cmp_edit_task ask = {.kind = EDIT_ASK, .asked = number};
    const struct cmp_edit_task await = {.kind = EDIT_AWAIT, .awaits = &next.await, .count = 1};
    const struct cmp_edit_task unbury = {.kind = EDIT_UNBURY, .tombstone = *tombstone};

    if (!keeps(compactor->world, CLUSTER_RULE_END_WHEN_CLEAN) ||
        (!keeps(compactor->world, CLUSTER_RULE_QUIET_TWICE) && next.await.quiet > 0))
        next.step = COMPLETION_END;
    if (next.step == COMPLETION_ASK && carry(compactor, tenant, &ask) == EDIT_DONE)
        (void)carry(compactor, tenant, &await);
    if (next.step == COMPLETION_END) {
        compactor->world->undone += carry(compactor, tenant, &unbury) == EDIT_DONE;
        trace(compactor->world, "a deletion of tenant %u ends, of %llu profiles", tenant,
              (unsigned long long)tombstone->profiles);
    }
}

/* The ring is read after the manifests. */
static void end_some(struct compactor *compactor, uint32_t tenant,
                     const struct fg_snapshot *snapshot)
{
    const struct fg_blocks *blocks = &snapshot->blocks[0]->blocks;
    struct fg_ring_view *view;
    struct cmp_ingesters ingesters;
    struct fg_err err;

    if (ring_get(compactor->world, &compactor->owner, &view) != IO_OK)
        return;
    fg_assert(cmp_ingesters_of(&view->ring, compactor->arena, &ingesters, &err) == FG_OK);
    for (uint32_t i = 0; i < blocks->n_tombstones; i++)
        if (world_wall_ns(compactor->world) >= blocks->tombstones[i].asked_wall_ns + WAIT_NS)
            advance(compactor, tenant, &blocks->tombstones[i], &snapshot->l0->l0, &ingesters);
    fg_ring_view_unref(view);
}

void end_deletions(struct compactor *compactor, uint32_t tenant)
{
    struct fg_snapshot snapshot;
    uint64_t *generations;
    uint32_t n_uncovered;
    struct fg_err err;
    bool found;
    enum io io;

    fg_snapshot_init(&snapshot, compactor->manifests, &tenant_names[tenant], 1);
    io = fresh(compactor, &snapshot);
    if (io == IO_OK && snapshot.blocks[0]->blocks.n_tombstones > 0) {
        cover(compactor, tenant, true);
        io = fresh(compactor, &snapshot);
        if (io == IO_OK)
            io = rewrite_one(compactor, tenant, &snapshot.blocks[0]->blocks, &found);
        fg_assert(io != IO_OK ||
                  cmp_gc_uncovered(&snapshot.l0->l0, &snapshot.blocks[0]->blocks, compactor->arena,
                                   &generations, &n_uncovered, &err) == FG_OK);
        if (io == IO_OK && !found && n_uncovered == 0)
            end_some(compactor, tenant, &snapshot);
    }
    fg_snapshot_done(&snapshot);
}

/* Faults have stopped, so nothing holds them for long. */
void end_all_deletions(struct compactor *compactor, uint32_t tenant)
{
    struct world *world = compactor->world;
    struct fg_snapshot snapshot;
    uint32_t pending = 1;

    for (int i = 0; i < TRIES_TO_END && pending > 0; i++) {
        end_deletions(compactor, tenant);
        fibers_sleep(world->fibers, FG_MINUTE_NS);
        fg_snapshot_init(&snapshot, compactor->manifests, &tenant_names[tenant], 1);
        fg_assert(fresh(compactor, &snapshot) == IO_OK);
        pending = snapshot.blocks[0]->blocks.n_tombstones;
        fg_snapshot_done(&snapshot);
    }
    if (pending > 0)
        found_fault(world, "a deletion does not end when the faults have stopped");
}

/* ---- a script ---- */

/* The only profile there is; of long ago, so that nobody waits for more of its window. */
static struct item only_profile(struct world *world)
{
    struct item item = {.time_ns = world_wall_ns(world) - 50 * FG_MINUTE_NS};

    item.group.window = ing_head_window(item.time_ns, 0);
    world->sent = fg_new(struct sent);
    world->sent[0] = (struct sent){.item = item, .acked = true};
    world->n_sent = world->cap_sent = 1;
    return item;
}

static void must_store(struct head *head, const struct item *item)
{
    uint64_t revision = fg_ring_newest(&member_view(head_member(head))->ring);

    fg_assert(head_write(head, item, revision) == HEAD_STORED);
}

/* A compactor comes by every minute. It retires nothing. */
static void pass_minutes(struct world *world, int n)
{
    for (int i = 0; i < n; i++) {
        struct compactor compactor = compactor_begin(world);

        end_deletions(&compactor, 0);
        compactor_end(&compactor);
        fibers_sleep(world->fibers, FG_MINUTE_NS);
    }
}

/* Stores the profile in both heads, once they have their seats. Returns it. */
static struct item store_in_both(struct world *world)
{
    struct item item;

    fibers_sleep(world->fibers, 5 * FG_MINUTE_NS);
    item = only_profile(world);
    must_store(world->heads[0], &item);
    must_store(world->heads[1], &item);
    return item;
}

void copy_after_answer(void *arg)
{
    struct world *world = arg;
    struct head *first = world->heads[0], *second = world->heads[1];
    struct item item = store_in_both(world);

    head_without_bucket(first, FG_HOUR_NS);
    (void)head_drain(second);
    fibers_sleep(world->fibers, 5 * FG_MINUTE_NS);
    fg_assert(head_n_stored(second) == 0); /* it is in a segment, and evicted */
    delete_from(world, 0, 0, 2 * FG_HOUR_NS);
    pass_minutes(world, 5);
    fg_assert(world->undone == 0); /* the first one has not answered */
    must_store(second, &item);     /* as repair does: it is in no block any more */
    head_without_bucket(first, 0);
    pass_minutes(world, 30);
    if (world->undone != 1)
        found_fault(world, "the deletion does not end");
    (void)head_drain(second);
    pass_minutes(world, 5);
    for (int i = 0; i < 20; i++) /* of either tenant, by chance */
        if (!read_and_check(world))
            found_fault(world, "a read is refused");
    end_heads(world);
}

static uint32_t count_segments(const struct world *world)
{
    struct fg_name name;
    uint32_t n = 0;

    for (uint32_t i = 0; i < world->n_objects; i++)
        n += fg_name_parse(fg_cstr(world->objects[i].name), &name) &&
             name.kind == FG_NAME_IS_SEGMENT;
    return n;
}

/* A compactor settles what is not listed, every minute, until so many segments are left. */
static void settle_minutes(struct world *world, int n, uint32_t left)
{
    for (int i = 0; i < n && count_segments(world) > left; i++) {
        settle_once(world);
        fibers_sleep(world->fibers, FG_MINUTE_NS);
    }
}

void leave_unlisted(void *arg)
{
    struct world *world = arg;
    struct head *first = world->heads[0], *second = world->heads[1];

    (void)store_in_both(world);
    (void)head_drain(first);
    while (count_segments(world) == 0)
        fibers_sleep(world->fibers, FG_MS_NS);
    head_crash(first); /* between upload and commit */
    (void)head_drain(second);
    fibers_sleep(world->fibers, 5 * FG_MINUTE_NS);
    fg_assert(count_segments(world) == 2);
    settle_minutes(world, 60, 1);
    if (world->settled > 0)
        found_fault(world, "a segment is given up that its head may commit");
    head_start(first); /* it finds that the other one has committed the same, and commits nothing */
    settle_minutes(world, 60, 1);
    if (world->settled != 1 || count_segments(world) != 1)
        found_fault(world, "a segment that nobody can commit stays");
    for (int i = 0; i < 20; i++) /* of either tenant, by chance */
        if (!read_and_check(world))
            found_fault(world, "a read is refused");
    end_heads(world);
}
