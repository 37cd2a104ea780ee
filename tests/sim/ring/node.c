/* Ingesters: what they hold, and the effects of their seats. */
#include "tests/sim/ring/world.h"

void node_start(struct world *world, struct node *node)
{
    fg_ring_member_init(&node->member, &(struct fg_ring_member_config){
                                           .name = fg_cstr(node->name),
                                           .zone = fg_cstr(node->zone),
                                           .address = fg_cstr(node->address),
                                           .http = FG_LIT(""),
                                           .store = {node->store, 7},
                                           .replicas = FG_RING_REPLICAS_MAX,
                                           .backoff_min_ns = 10 * FG_MS_NS,
                                           .backoff_max_ns = FG_SECOND_NS,
                                           .seed = world_draw(world),
                                       });
    node->up = true;
    node->reads = true; /* everyone who starts reads the ring */
}

void node_crash(struct node *node)
{
    node->up = node->reads = false;
    fg_ring_view_unref(node->view);
    fg_ring_view_unref(node->onto);
    node->view = node->onto = NULL;
    node->drain = 0;
    node->wake_mono_ns = INT64_MAX;
    fg_buf_clear(&node->swap);
}

static void step(struct world *world, struct node *node, struct fg_ring_member_event *event)
{
    struct fg_ring_member_effects effects;
    struct fg_err err;

    event->mono_ns = world->mono_ns;
    event->wall_ns = world->mono_ns;
    fg_ring_member_step(&node->member, event, &effects);
    node->reads |= effects.read;
    node->wake_mono_ns = effects.wake_mono_ns;
    node->drain = FG_MAX(node->drain, effects.drain);
    if (!effects.swap)
        return;
    fg_buf_clear(&node->swap);
    fg_assert(fg_ring_encode(&effects.ring, &node->swap, &err) == FG_OK);
    node->onto = fg_ring_view_ref(node->view);
}

void node_see(struct world *world, struct node *node)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_RING, .arena = arena};

    if (node->onto != NULL) /* one request at a time */
        return;
    fg_ring_view_unref(node->view);
    node->view = fg_ring_view_ref(world->ring);
    event.ring = &node->view->ring;
    step(world, node, &event);
}

static void swap(struct world *world, struct node *node)
{
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_SWAPPED};

    event.won = bucket_swap(world, node->onto, fg_buf_slice(&node->swap));
    fg_ring_view_unref(node->onto);
    node->onto = NULL;
    step(world, node, &event);
}

static void commit(struct world *world, const struct node *node)
{
    for (uint32_t i = 0; i < PROFILES; i++)
        if (node->held[i] > 0)
            world->committed[i] = true;
}

static void drain(struct world *world, struct node *node)
{
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_DRAINED, .revision = node->drain};

    if (world_keeps(world, RULE_COMMIT_FIRST))
        commit(world, node);
    node->drain = 0;
    step(world, node, &event);
}

void node_turn(struct world *world, struct node *node)
{
    struct fg_ring_member_event tick = {.kind = FG_RING_MEMBER_TICK};

    if (!node->up)
        return;
    if (node->onto != NULL && world_chance(world, 500)) {
        swap(world, node);
    } else if (node->reads && node->onto == NULL &&
               world_chance(world, node->view == NULL && !world->quiet ? 60 : 500)) {
        node->reads = !world->quiet && world_chance(world, 100); /* it may fail: again */
        if (!node->reads)
            node_see(world, node);
    } else if (node->drain > 0 && world_chance(world, world->quiet ? 500 : 30)) {
        drain(world, node);
    } else if (world->mono_ns >= node->wake_mono_ns) {
        step(world, node, &tick);
    } else if (world_chance(world, 50)) {
        node->reads = true; /* its copy is old */
    } else if (!world->quiet && world_chance(world, 2)) {
        commit(world, node);
    }
    if (node->member.state == FG_RING_MEMBER_LEFT ||
        node->member.state == FG_RING_MEMBER_REPLACED) {
        world->n_left += node->member.state == FG_RING_MEMBER_LEFT;
        node->gone = true;
        node_crash(node);
    }
}

bool node_takes(struct world *world, struct node *node, uint32_t profile, uint64_t revision)
{
    uint64_t known;

    if (node->view != NULL && revision > fg_ring_newest(&node->view->ring))
        node_see(world, node);
    known = node->view == NULL ? 0 : fg_ring_newest(&node->view->ring);
    if (world_keeps(world, RULE_READ_FIRST) ? node->member.state != FG_RING_MEMBER_ACTIVE &&
                                                  node->member.state != FG_RING_MEMBER_LEAVING
                                            : node->member.state == FG_RING_MEMBER_LEFT)
        return false;
    if (revision > known && world_keeps(world, RULE_READ_FIRST))
        return false;
    if (revision < known && world_keeps(world, RULE_STALE_RING_REJECT))
        return false;
    node->held[profile] = FG_MAX(node->held[profile], revision);
    return true;
}
