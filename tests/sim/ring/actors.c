/* Who writes, who reads, and who operates. */
#include "tests/sim/ring/world.h"

#include <stdio.h>

/* ---- writing ---- */

static void write_begin(struct world *world, struct write *write)
{
    struct writer *writer = &world->writers[world_draw(world) % WRITERS];
    uint32_t profile = world->n_profiles;
    unsigned shard_factor;

    if (writer->view == NULL || world->quiet || world_chance(world, 100))
        writer_see(world, writer);
    if (profile == PROFILES || writer->view == NULL || world_chance(world, 700))
        return;
    shard_factor = writer_shard_factor(world, writer, world_tenant(profile));
    world->n_wide += shard_factor > 0;
    world->shards[profile] = (uint16_t)(world_shard(world_tenant(profile), shard_factor) +
                                        profile / SHARDS % (1u << shard_factor));
    world->n_profiles++;
    *write =
        (struct write){.busy = true, .profile = profile, .view = fg_ring_view_ref(writer->view)};
}

static void write_end(struct world *world, struct write *write)
{
    unsigned writes = fg_ring_view_writes(write->view);

    if (writes > 0 && write->oks >= writes) {
        world->acked[write->profile] = true;
        world->n_acked++;
    } else {
        world->n_refused++;
    }
    fg_ring_view_unref(write->view);
    *write = (struct write){0};
}

/* To one owner; request and answer may be lost. */
static bool send(struct world *world, const struct fg_ring_view *view, uint32_t profile,
                 unsigned nth)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    struct node *node;

    fg_assert(nth < fg_ring_view_owners(view, world->shards[profile], owners));
    node = world_node(world, owners[nth]->name);
    if (node == NULL || !node->up || (!world->quiet && world_chance(world, 100)))
        return false;
    return node_takes(world, node, profile, fg_ring_newest(&view->ring)) &&
           (world->quiet || !world_chance(world, 50));
}

void write_turn(struct world *world, struct write *write)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];

    if (!write->busy)
        write_begin(world, write);
    else if (write->next < fg_ring_view_owners(write->view, world->shards[write->profile], owners))
        write->oks += send(world, write->view, write->profile, write->next++);
    else
        write_end(world, write);
}

/* ---- reading ---- */

/* The ring as a reader sees it that does not keep some rule. */
static struct fg_ring_view *distort(struct world *world, struct fg_ring_view *view)
{
    struct fg_ring ring = view->ring;
    struct fg_ring_view *told;
    struct fg_buf bytes;
    struct fg_err err;

    if (ring.n_revisions == 0 ||
        (world_keeps(world, RULE_RING_HISTORY) && world_keeps(world, RULE_LOST_IS_NO_ANSWER)))
        return fg_ring_view_ref(view);
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    fg_assert(fg_ring_encode(&ring, &bytes, &err) == FG_OK &&
              fg_ring_view_create(fg_buf_slice(&bytes), FG_LIT("x"), view, &told, &err) == FG_OK);
    fg_buf_done(&bytes);
    for (uint32_t i = 0; i < told->ring.n_members; i++)
        if (!world_keeps(world, RULE_LOST_IS_NO_ANSWER))
            told->ring.members[i].lost = 0;
    for (uint32_t i = 0; i + 1 < told->ring.n_revisions; i++)
        if (!world_keeps(world, RULE_RING_HISTORY))
            for (uint32_t m = 0; m < told->ring.n_members; m++)
                told->ring.members[m].drained = fg_ring_newest(&told->ring);
    return told;
}

static void ask_more(struct world *world, struct read *read)
{
    read->n_waiting +=
        fg_ring_reads_ask(&read->set, (uint32_t)world_draw(world), read->waiting + read->n_waiting);
}

/* The shards of one tenant's service, by the ring; or all. */
static void choose_shards(struct world *world, struct read *read)
{
    uint32_t tenant = (uint32_t)(world_draw(world) % (SHARDS + 1));
    unsigned shard_factor = SHARD_FACTOR_MAX;

    if (tenant < SHARDS)
        shard_factor = fg_ring_shard_factor(&read->view->ring, world_tenant_name(tenant));
    read->first = world_shard(tenant % SHARDS, shard_factor);
    read->last = (uint16_t)(read->first + (1u << shard_factor) - 1);
    for (uint32_t i = 0; i < world->n_profiles; i++)
        read->must[i] = world->acked[i] && (tenant == SHARDS || tenant == world_tenant(i));
}

static void read_begin(struct world *world, struct read *read)
{
    struct fg_ring_view *copy = world->writers[world_draw(world) % WRITERS].view;
    bool fresh = world_keeps(world, RULE_FRESH_RING) || copy == NULL;

    *read = (struct read){.busy = true, .view = fg_ring_view_ref(fresh ? world->ring : copy)};
    read->told = distort(world, read->view);
    choose_shards(world, read);
    fg_ring_reads_init(&read->set, read->told, read->first, read->last);
    ask_more(world, read);
    if (!world_keeps(world, RULE_QUORUM_READ) && read->n_waiting > 1)
        fg_ring_reads_heard(&read->set, read->waiting[--read->n_waiting]);
}

void read_end(struct read *read)
{
    fg_ring_view_unref(read->view);
    fg_ring_view_unref(read->told);
    *read = (struct read){0};
}

static void snapshot(const struct world *world, struct read *read)
{
    memcpy(read->found, world->committed, sizeof read->found);
    read->snapped = true;
}

/* One of those that were asked, answers or not. */
static void hear(struct world *world, struct read *read)
{
    uint32_t at = (uint32_t)(world_draw(world) % read->n_waiting), number = read->waiting[at];
    const struct fg_ring_member *member = &read->told->ring.members[number];
    const struct node *node = world_node(world, member->name);
    bool answers = node != NULL && node->up && (world->quiet || !world_chance(world, 50)) &&
                   (!world_keeps(world, RULE_SAME_STORE) || node->store == member->store.lo);

    read->waiting[at] = read->waiting[--read->n_waiting];
    if (!answers) {
        fg_ring_reads_failed(&read->set, number);
        ask_more(world, read);
        return;
    }
    fg_ring_reads_heard(&read->set, number);
    for (uint32_t i = 0; i < PROFILES; i++)
        read->found[i] |=
            node->held[i] > 0 && world->shards[i] >= read->first && world->shards[i] <= read->last;
}

static void check(struct world *world, const struct read *read)
{
    for (uint32_t i = 0; i < PROFILES; i++)
        if (read->must[i] && !read->found[i])
            world_fault(world, "acknowledged, and not in the answer", i);
    world->n_reads++;
}

void read_turn(struct world *world, struct read *read)
{
    uint16_t shard;
    uint64_t revision;

    if (!read->busy) {
        read_begin(world, read);
    } else if (!read->snapped) {
        snapshot(world, read);
    } else if (fg_ring_reads_is_enough(&read->set)) {
        check(world, read);
        read_end(read);
    } else if (read->n_waiting > 0) {
        hear(world, read);
    } else {
        fg_assert(fg_ring_reads_is_hopeless(&read->set, &shard, &revision));
        world->n_hopeless++;
        read_end(read);
    }
}

/* ---- operating ---- */

static unsigned count_up(const struct world *world)
{
    unsigned n = 0;

    for (unsigned i = 0; i < NODES; i++)
        n += world->nodes[i].up;
    return n;
}

static void bear(struct world *world, struct node *node)
{
    struct fg_buf swap = node->swap;

    *node = (struct node){.born = true, .store = ++world->stores, .swap = swap};
    (void)snprintf(node->name, sizeof node->name, "n-%llu", (unsigned long long)world->names);
    (void)snprintf(node->zone, sizeof node->zone, "z-%llu", (unsigned long long)world->names % 3);
    (void)snprintf(node->address, sizeof node->address, "tcp://n-%llu",
                   (unsigned long long)world->names);
    world->names++;
    node_start(world, node);
}

/* Has somebody lost what it held under a revision that is still there? */
static bool has_losses(const struct world *world)
{
    const struct fg_ring *ring = &world->ring->ring;

    for (uint32_t i = 0; i < ring->n_revisions; i++)
        for (uint32_t k = 0; k < ring->revisions[i].n_places; k++)
            if (ring->members[ring->revisions[i].places[k].member].lost > ring->revisions[i].number)
                return true;
    return false;
}

/* Is the loss of this node's store in the ring? */
static bool is_told(const struct world *world, const struct node *node)
{
    uint32_t number = fg_ring_find(&world->ring->ring, fg_cstr(node->name));

    return number == FG_RING_NO_MEMBER ||
           (node->gone ? fg_ring_state(&world->ring->ring, number) == FG_RING_GONE
                       : world->ring->ring.members[number].store.lo == node->store);
}

/* May a store be destroyed now? */
static bool may_destroy(struct world *world)
{
    if (world->destroyed != NULL && is_told(world, world->destroyed))
        world->destroyed = NULL;
    return world->destroyed == NULL && !has_losses(world);
}

static void wipe(struct world *world, struct node *node)
{
    memset(node->held, 0, sizeof node->held);
    node->store = ++world->stores;
    world->destroyed = node;
    world->n_wiped++;
}

/* A change by hand, again and again until it is seen. */
static void change(struct world *world, const struct fg_ring_change *change)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring next;
    struct fg_buf bytes;
    struct fg_err err;
    bool changed;

    if (fg_ring_apply(&world->ring->ring, change, arena, &next, &changed, &err) != FG_OK ||
        !changed)
        return;
    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    fg_assert(fg_ring_encode(&next, &bytes, &err) == FG_OK);
    (void)bucket_swap(world, world->ring, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

static void forget(struct world *world, const struct node *node)
{
    world->forgetting = node;
    change(world, &(struct fg_ring_change){.kind = FG_RING_FORGET, .name = fg_cstr(node->name)});
}

static void to_a_dead_one(struct world *world, struct node *node)
{
    switch (world_draw(world) % 8) {
    case 0:
        if (may_destroy(world))
            wipe(world, node);
        break;
    case 1:
        if (!may_destroy(world) || count_up(world) < 4)
            break;
        node->gone = true;
        world->destroyed = node;
        world->n_forgotten++;
        forget(world, node);
        break;
    default:
        if (world_chance(world, 200)) /* it comes up elsewhere */
            (void)snprintf(node->zone, sizeof node->zone, "z-%llu",
                           (unsigned long long)(world_draw(world) % 4));
        node_start(world, node);
    }
}

static void to_a_live_one(struct world *world, struct node *node)
{
    struct fg_ring_member_event leave = {
        .kind = FG_RING_MEMBER_LEAVE, .mono_ns = world->mono_ns, .wall_ns = world->mono_ns};
    struct fg_ring_member_effects effects;

    if (world_chance(world, 150) && count_up(world) > 4 &&
        node->member.state == FG_RING_MEMBER_ACTIVE && node->onto == NULL) {
        fg_ring_member_step(&node->member, &leave, &effects);
        node->reads |= effects.read;
    } else if (world_chance(world, 120)) {
        node_crash(node);
        world->n_crashes++;
    }
}

void operator_turn(struct world *world)
{
    struct node *node = &world->nodes[world_draw(world) % NODES];

    if (world->forgetting != NULL && !is_told(world, world->forgetting)) {
        forget(world, world->forgetting);
        return;
    }
    world->forgetting = NULL;
    if (world->quiet)
        return;
    if (!node->born || (node->gone && node != world->destroyed))
        bear(world, node);
    else if (!node->up && !node->gone)
        to_a_dead_one(world, node);
    else if (node->up)
        to_a_live_one(world, node);
}
