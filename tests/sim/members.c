/* The ring: who reads it, and the seats that heads have in it (common/cluster/ring). */
#include "tests/sim/world.h"

#include <stdio.h>
#include <stdlib.h>

/* A head's seat, in one life of it: the head has it, and two fibers, which end with that life. */
struct ing_member {
    uint32_t refs;
    struct owner owner;
    struct fg_ring_member_core core;
    struct fg_ring_view *view; /* NULL: the ring was not read yet */
    bool read;                 /* now */
    bool swap;
    struct fg_buf swapped_in;
    int64_t wake_mono_ns, poll_mono_ns;
    uint64_t drain; /* the head is asked to commit; 0: no */
};

/* ---- reading ---- */

static uint64_t newest_read(const struct world *world)
{
    return world->ring == NULL ? 0 : fg_ring_newest(&world->ring->ring);
}

enum io ring_get(struct world *world, struct owner *owner, struct fg_ring_view **ret_view)
{
    struct fg_ring_view *view;
    struct fg_buf bytes;
    struct fg_err err;
    char etag[24] = "";
    enum io io;

    fg_buf_init(&bytes, SIZE_MAX);
    io = bucket_get(world, owner, FG_RING_NAME, "", &bytes, etag);
    if (io == IO_OK || io == IO_MISSING) {
        fg_assert(fg_ring_view_create(fg_buf_slice(&bytes), fg_cstr(io == IO_OK ? etag : ""),
                                      world->ring, &view, &err) == FG_OK);
        if (fg_ring_newest(&view->ring) >= newest_read(world)) {
            fg_ring_view_unref(world->ring);
            world->ring = fg_ring_view_ref(view);
        }
        *ret_view = view;
        io = IO_OK;
    }
    fg_buf_done(&bytes);
    return io;
}

/* ---- a seat ---- */

static void unref(struct ing_member *member)
{
    if (--member->refs > 0)
        return;
    fg_ring_view_unref(member->view);
    fg_buf_done(&member->swapped_in);
    free(member);
}

static bool lives(struct ing_member *member)
{
    return is_alive(head_world(member->owner.head), &member->owner);
}

static void step(struct ing_member *member, struct fg_ring_member_event *event)
{
    struct world *world = head_world(member->owner.head);
    struct fg_ring_member_effects effects;
    struct fg_err err;

    event->mono_ns = fibers_now_ns(world->fibers);
    event->wall_ns = world_wall_ns(world);
    fg_ring_member_step(&member->core, event, &effects);
    member->read |= effects.read;
    member->wake_mono_ns = effects.wake_mono_ns;
    member->drain = FG_MAX(member->drain, effects.drain);
    if (!effects.swap)
        return;
    fg_buf_clear(&member->swapped_in);
    fg_assert(fg_ring_encode(&effects.ring, &member->swapped_in, &err) == FG_OK);
    member->swap = true;
}

/* Which of each shard's owners the head is; now and then it is wrong about some. */
static void rank_head(struct ing_member *member)
{
    struct head *head = member->owner.head;
    struct world *world = head_world(head);
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    uint8_t ranks[SEGMENTS_SHARDS] = {0};

    for (unsigned shard = 0; shard < SHARDS; shard++) {
        unsigned n = fg_ring_view_owners(member->view, (uint16_t)shard, owners);

        for (unsigned i = 0; i < n; i++)
            if (fg_id_eq(owners[i]->store, head_identity(head)->store))
                ranks[shard] = (uint8_t)i;
        if (chance(world, 50))
            ranks[shard] = (uint8_t)draw(world, FG_RING_REPLICAS_MAX);
    }
    head_rank(head, ranks);
}

static void read_ring(struct ing_member *member)
{
    struct head *head = member->owner.head;
    struct world *world = head_world(head);
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_RING};
    struct fg_ring_view *view;

    if (ring_get(world, &member->owner, &view) != IO_OK)
        return;
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    fg_ring_view_unref(member->view);
    member->view = view;
    member->read = false;
    member->poll_mono_ns =
        fibers_now_ns(world->fibers) + (int64_t)draw(world, (uint64_t)FG_MINUTE_NS);
    event.ring = &view->ring;
    event.arena = arena;
    step(member, &event);
    trace(world, "%s: ring of revision %llu, %s", head_identity(head)->name,
          (unsigned long long)fg_ring_newest(&view->ring),
          fg_ring_member_state_name(member->core.state));
    rank_head(member); /* it may die of it */
}

static void swap_ring(struct ing_member *member)
{
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_SWAPPED};
    char etag[24];
    enum io io;

    (void)snprintf(etag, sizeof etag, "%.*s", FG_S(member->view->etag));
    io =
        bucket_put(head_world(member->owner.head), &member->owner, FG_RING_NAME,
                   fg_buf_slice(&member->swapped_in), etag[0] == '\0' ? IF_ABSENT : IF_MATCH, etag);
    if (io == IO_DEAD)
        return;
    member->swap = false;
    event.won = io == IO_OK;
    step(member, &event);
}

/* What is in the head now has to be committed; what comes meanwhile need not. (commit-first) */
static void drain_head(struct ing_member *member)
{
    struct head *head = member->owner.head;
    struct world *world = head_world(head);
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_DRAINED, .revision = member->drain};
    uint64_t drain = head_drain(head);

    member->drain = 0;
    while (lives(member) && keeps(world, CLUSTER_RULE_COMMIT_FIRST) &&
           !head_is_drained(head, drain))
        fibers_sleep(world->fibers, FG_SECOND_NS);
    if (!lives(member))
        return;
    event.generation = head_status(head).drained_at;
    step(member, &event);
}

static void turn(struct ing_member *member)
{
    int64_t now = fibers_now_ns(head_world(member->owner.head)->fibers);
    struct fg_ring_member_event tick = {.kind = FG_RING_MEMBER_TICK};

    if (member->swap)
        swap_ring(member);
    else if (member->read || now >= member->poll_mono_ns)
        read_ring(member);
    else if (now >= member->wake_mono_ns)
        step(member, &tick);
}

/* Drains while the ring is followed. */
static void drainer(void *arg)
{
    struct ing_member *member = arg;
    struct world *world = head_world(member->owner.head);

    while (lives(member)) {
        if (member->drain > 0)
            drain_head(member);
        fibers_sleep(world->fibers, FG_SECOND_NS);
    }
    unref(member);
}

static void sitter(void *arg)
{
    struct ing_member *member = arg;
    struct world *world = head_world(member->owner.head);

    while (lives(member) && member->core.state != FG_RING_MEMBER_LEFT &&
           member->core.state != FG_RING_MEMBER_REPLACED) {
        turn(member);
        fibers_sleep(world->fibers, (int64_t)draw(world, (uint64_t)FG_SECOND_NS));
    }
    if (lives(member)) {
        head_world(member->owner.head)->left++;
        head_end(member->owner.head);
    }
    unref(member);
}

struct ing_member *member_start(struct head *head, const struct identity *identity)
{
    struct world *world = head_world(head);
    struct ing_member *member = fg_new(struct ing_member);

    member->refs = 3;
    member->owner = (struct owner){.head = head, .life = head_life(head)};
    fg_buf_init(&member->swapped_in, SIZE_MAX);
    fg_ring_member_init(&member->core, &(struct fg_ring_member_config){
                                           .name = fg_cstr(identity->name),
                                           .zone = fg_cstr(identity->zone),
                                           .address = fg_cstr(identity->name),
                                           .http = FG_LIT(""),
                                           .store = identity->store,
                                           .replicas = world->shape.replicas,
                                           .backoff_min_ns = 100 * FG_MS_NS,
                                           .backoff_max_ns = 10 * FG_SECOND_NS,
                                           .seed = draw(world, UINT64_MAX),
                                       });
    fibers_spawn(world->fibers, 0, sitter, member);
    fibers_spawn(world->fibers, 0, drainer, member);
    return member;
}

void member_end(struct ing_member *member)
{
    unref(member);
}

void member_leave(struct ing_member *member)
{
    step(member, &(struct fg_ring_member_event){.kind = FG_RING_MEMBER_LEAVE});
}

bool member_is_active(const struct ing_member *member)
{
    return member->core.state == FG_RING_MEMBER_ACTIVE;
}

struct fg_ring_view *member_view(const struct ing_member *member)
{
    return member->view;
}

bool ing_member_admits(struct ing_member *member, uint64_t revision)
{
    uint64_t known = member->view == NULL ? 0 : fg_ring_newest(&member->view->ring);
    bool seated =
        member->core.state == FG_RING_MEMBER_ACTIVE || member->core.state == FG_RING_MEMBER_LEAVING;

    member->read |= revision > known;
    if (!keeps(head_world(member->owner.head), CLUSTER_RULE_STALE_RING_REJECT))
        return seated && revision <= known;
    return seated && revision == known;
}
