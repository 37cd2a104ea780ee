/* Agents, and distributors: each sends a profile to its owners under the ring that it knows. */
#include "tests/sim/world.h"

#include <stdlib.h>

/* To the owners; lives until all have answered, or never will. */
struct push {
    struct world *world;
    uint32_t profile;
    struct fg_ring_view *view;
    unsigned waiting, stored;
};

struct copy {
    struct push *push;
    unsigned nth; /* owner */
};

/* Request and answer may be lost. */
static bool send_copy(const struct copy *copy)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    const struct push *push = copy->push;
    struct world *world = push->world;
    struct item item = world->sent[push->profile].item;
    struct head *head;
    bool stored;

    delay(world);
    fg_assert(copy->nth < fg_ring_view_owners(push->view, item.group.shard, owners));
    head = find_head(world, owners[copy->nth]->name);
    stored = head != NULL && !chance(world, world->lose_permille) &&
             fg_id_eq(head_identity(head)->store, owners[copy->nth]->store) &&
             head_write(head, &item, fg_ring_newest(&push->view->ring)) == HEAD_STORED;
    delay(world);
    return stored && !chance(world, world->lose_permille);
}

static void push_copy(void *arg)
{
    struct copy *copy = arg;
    struct push *push = copy->push;
    struct world *world = push->world;

    push->stored += send_copy(copy);
    free(copy);
    if (push->stored >= fg_ring_view_writes(push->view)) { /* so the agent is told */
        world->acked += !world->sent[push->profile].acked;
        world->sent[push->profile].acked = true;
    }
    if (--push->waiting > 0)
        return;
    world->refused_writes += push->stored < fg_ring_view_writes(push->view);
    world->sent[push->profile].pushes--;
    fg_ring_view_unref(push->view);
    free(push);
}

/* One of the distributors' copies, which may be old. */
static struct fg_ring_view *take_copy(struct world *world)
{
    struct fg_ring_view **copy = &world->copies[draw(world, DISTRIBUTORS)];
    struct owner owner = {0};
    struct fg_ring_view *fresh;

    if ((*copy == NULL || draw(world, 5) == 0) && ring_get(world, &owner, &fresh) == IO_OK) {
        fg_ring_view_unref(*copy);
        *copy = fresh;
    }
    return fg_ring_view_ref(*copy);
}

static void push_profile(struct world *world, uint32_t profile)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    struct fg_ring_view *view = take_copy(world);
    unsigned n =
        view == NULL ? 0 : fg_ring_view_owners(view, world->sent[profile].item.group.shard, owners);
    struct push *push;

    if (n == 0) {
        fg_ring_view_unref(view);
        world->refused_writes++;
        return;
    }
    world->sent[profile].pushes++;
    push = fg_new(struct push);
    *push = (struct push){.world = world, .profile = profile, .view = view, .waiting = n};
    for (unsigned i = 0; i < n; i++) {
        struct copy *copy = fg_new(struct copy);

        *copy = (struct copy){push, i};
        fibers_spawn(world->fibers, 0, push_copy, copy);
    }
}

void pushes_done(struct world *world)
{
    for (unsigned i = 0; i < DISTRIBUTORS; i++)
        fg_ring_view_unref(world->copies[i]);
}

/* Mostly of now; some late, some by a clock that is ahead. */
static int64_t profile_time(struct world *world)
{
    uint64_t kind = draw(world, 100);
    int64_t now = world_wall_ns(world);

    if (kind < 15)
        return now - (int64_t)draw(world, 2 * (uint64_t)FG_HOUR_NS);
    if (kind < 18)
        return now + (int64_t)draw(world, (uint64_t)FG_HOUR_NS);
    return now - (int64_t)draw(world, (uint64_t)FG_MINUTE_NS);
}

static uint32_t new_profile(struct world *world)
{
    struct sent *sent;

    if (world->n_sent == world->cap_sent) {
        world->cap_sent = FG_MAX(256, world->cap_sent * 2);
        world->sent = fg_realloc(world->sent, world->cap_sent * sizeof *world->sent);
    }
    sent = &world->sent[world->n_sent];
    *sent = (struct sent){.item = {.profile = world->n_sent}};
    sent->item.group.tenant = draw(world, 4) == 0;
    sent->item.group.shard = (uint16_t)draw(world, SHARDS);
    sent->item.time_ns = profile_time(world);
    sent->item.group.window = ing_head_window(sent->item.time_ns, 0);
    return world->n_sent++;
}

/* Now and then an agent sends again what it sent before, answered or not. */
static uint32_t old_profile(struct world *world)
{
    uint32_t recent = FG_MIN(world->n_sent, 100);

    return draw(world, 2) == 0 ? (uint32_t)draw(world, world->n_sent)
                               : world->n_sent - 1 - (uint32_t)draw(world, recent);
}

void push_agents(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        bool again = world->n_sent > 0 && draw(world, 5) == 0;
        uint32_t profile = again ? old_profile(world) : new_profile(world);

        if (!world->sent[profile].doomed)
            push_profile(world, profile);
        fibers_sleep(world->fibers, (int64_t)draw(world, 8 * (uint64_t)FG_SECOND_NS));
    }
}
