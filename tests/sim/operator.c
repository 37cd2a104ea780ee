/* Kills, starts, cuts off; members that join, leave, lose their disks, and are given up. */
#include "tests/sim/world.h"

#include <stdio.h>

/* Those that have not ended; those of them that are up. */
static unsigned count_heads(const struct world *world, bool up)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < world->n_heads; i++)
        n += up ? head_is_up(world->heads[i]) : !head_has_ended(world->heads[i]);
    return n;
}

struct head *find_head(struct world *world, struct fg_slice name)
{
    for (uint32_t i = 0; i < world->n_heads; i++)
        if (fg_slice_is(name, head_identity(world->heads[i])->name))
            return world->heads[i];
    return NULL;
}

static struct fg_id new_store(struct world *world)
{
    return (struct fg_id){draw(world, UINT64_MAX), draw(world, UINT64_MAX)};
}

void bear_head(struct world *world)
{
    struct identity identity = {.store = new_store(world)};

    (void)snprintf(identity.name, sizeof identity.name, "m-%u", world->n_heads);
    (void)snprintf(identity.zone, sizeof identity.zone, "z-%u", world->n_heads % 3);
    if (world->n_heads == world->cap_heads) {
        world->cap_heads = FG_MAX(8, world->cap_heads * 2);
        world->heads = fg_realloc(world->heads, world->cap_heads * sizeof(struct head *));
    }
    world->heads[world->n_heads++] = head_create(world, &identity);
}

/* ---- what cannot be undone ---- */

/* The ring as it is, without a request. */
static struct fg_ring look_at_ring(const struct world *world, struct fg_arena *arena)
{
    const struct object *object = bucket_look(world, FG_RING_NAME);
    struct fg_ring ring = fg_ring_none();
    struct fg_err err;

    if (object != NULL)
        fg_assert(fg_ring_decode(fg_bytes(object->bytes, object->len), arena, &ring, &err) ==
                  FG_OK);
    return ring;
}

/* Has somebody lost what it held under a revision that is still there? */
static bool has_losses(const struct fg_ring *ring)
{
    for (uint32_t i = 0; i < ring->n_revisions; i++)
        for (uint32_t k = 0; k < ring->revisions[i].n_places; k++)
            if (ring->members[ring->revisions[i].places[k].member].lost > ring->revisions[i].number)
                return true;
    return false;
}

/* Is the loss of this head's disk in the ring? */
static bool is_told(const struct fg_ring *ring, const struct head *head)
{
    uint32_t number = fg_ring_find(ring, fg_cstr(head_identity(head)->name));

    return number == FG_RING_NO_MEMBER ||
           (head_has_ended(head)
                ? fg_ring_state(ring, number) == FG_RING_GONE
                : fg_id_eq(ring->members[number].store, head_identity(head)->store));
}

/* Two copies of three do not survive two losses: not before what the first one lost has drained
 * elsewhere. */
static bool may_destroy(struct world *world)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = look_at_ring(world, arena);

    if (world->destroyed != NULL && is_told(&ring, world->destroyed))
        world->destroyed = NULL;
    return world->shape.replicas > 1 && world->destroyed == NULL && !has_losses(&ring);
}

/* A change of the ring by hand, until it is seen. */
static void forget(void *arg)
{
    struct head *head = arg;
    struct world *world = head_world(head);
    const struct fg_ring_change change = {.kind = FG_RING_FORGET,
                                          .name = fg_cstr(head_identity(head)->name)};
    struct owner owner = {0};
    bool told = false;

    while (!told) {
        fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
        struct fg_ring_view *view;
        struct fg_ring next;
        struct fg_buf bytes;
        struct fg_err err;
        bool changed = false;

        fibers_sleep(world->fibers, (int64_t)draw(world, (uint64_t)FG_MINUTE_NS));
        if (ring_get(world, &owner, &view) != IO_OK)
            continue;
        told = is_told(&view->ring, head);
        if (!told && fg_ring_apply(&view->ring, &change, arena, &next, &changed, &err) == FG_OK &&
            changed) {
            char etag[24];

            fg_buf_init(&bytes, SIZE_MAX);
            (void)snprintf(etag, sizeof etag, "%.*s", FG_S(view->etag));
            fg_assert(fg_ring_encode(&next, &bytes, &err) == FG_OK);
            (void)bucket_put(world, &owner, FG_RING_NAME, fg_buf_slice(&bytes), IF_MATCH, etag);
            fg_buf_done(&bytes);
        }
        fg_ring_view_unref(view);
    }
    if (world->destroyed == head)
        world->destroyed = NULL;
}

static void destroy_disk(struct world *world, struct head *head)
{
    world->destroyed = head;
    if (draw(world, 2) == 0 || count_heads(world, true) < world->shape.replicas + 1) {
        trace(world, "%s: comes back with an empty disk", head_identity(head)->name);
        world->wiped++;
        head_wipe(head, new_store(world));
        head_start(head);
        return;
    }
    trace(world, "%s: is given up", head_identity(head)->name);
    world->forgotten++;
    head_end(head);
    fibers_spawn(world->fibers, 0, forget, head);
}

/* ---- what goes on ---- */

static void to_one_that_is_down(struct world *world, struct head *head)
{
    uint64_t kind = draw(world, 100);

    if (kind < 6 && may_destroy(world)) {
        destroy_disk(world, head);
    } else if (kind < 70) {
        if (draw(world, 20) == 0) /* it comes up elsewhere */
            head_move(head, draw(world, 2) == 0 ? "z-0" : "z-3");
        head_start(head);
    }
}

static void to_one_that_is_up(struct world *world, struct head *head)
{
    uint64_t kind = draw(world, 100);

    if (kind < 5) {
        head_crash(head);
    } else if (kind < 9) {
        head_cut_off(head, (int64_t)draw(world, 15 * (uint64_t)FG_MINUTE_NS));
    } else if (kind < 13) {
        head_without_bucket(head, (int64_t)draw(world, 15 * (uint64_t)FG_MINUTE_NS));
    } else if (kind < 17) {
        head_make_unfit(head, (int64_t)draw(world, 20 * (uint64_t)FG_MINUTE_NS));
    } else if (kind < 19) {
        head_blur(head, (int64_t)draw(world, 10 * (uint64_t)FG_MINUTE_NS));
    } else if (kind < 21 && count_heads(world, true) > world->shape.heads) {
        trace(world, "%s: is to leave", head_identity(head)->name);
        member_leave(head_member(head));
    }
}

void operate(struct world *world)
{
    struct head *head = world->heads[draw(world, world->n_heads)];

    if (draw(world, 100) < 3 && count_heads(world, false) < world->shape.heads_max)
        bear_head(world);
    else if (head_is_up(head))
        to_one_that_is_up(world, head);
    else if (!head_has_ended(head))
        to_one_that_is_down(world, head);
}
