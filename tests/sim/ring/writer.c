/* Distributors: their copies of the ring, and the shard factors that each of them wants. */
#include "tests/sim/ring/world.h"

static const int64_t LEAD_NS = FG_SECOND_NS;

void writer_init(struct world *world, struct writer *writer)
{
    *writer = (struct writer){.wake_mono_ns = INT64_MAX};
    fg_ring_widen_init(&writer->widen, &(struct fg_ring_widen_config){
                                           .backoff_min_ns = 10 * FG_MS_NS,
                                           .backoff_max_ns = FG_SECOND_NS,
                                           .seed = world_draw(world),
                                           .lead_ns = LEAD_NS,
                                       });
    fg_buf_init(&writer->swap, FG_RING_MAX_BYTES);
}

void writer_done(struct writer *writer)
{
    fg_ring_view_unref(writer->view);
    fg_ring_view_unref(writer->onto);
    fg_buf_done(&writer->swap);
}

static void step(struct world *world, struct writer *writer, struct fg_ring_widen_event *event)
{
    struct fg_ring_widen_effects effects;
    struct fg_err err;

    event->mono_ns = event->wall_ns = world->mono_ns;
    fg_ring_widen_step(&writer->widen, event, &effects);
    writer->reads |= effects.read;
    writer->wake_mono_ns = effects.wake_mono_ns;
    if (!effects.swap)
        return;
    fg_buf_clear(&writer->swap);
    fg_assert(fg_ring_encode(&effects.ring, &writer->swap, &err) == FG_OK);
    writer->onto = fg_ring_view_ref(writer->view);
}

void writer_see(struct world *world, struct writer *writer)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_widen_event event = {.kind = FG_RING_WIDEN_RING, .arena = arena};

    if (writer->onto != NULL) /* one request at a time */
        return;
    fg_ring_view_unref(writer->view);
    writer->view = fg_ring_view_ref(world->ring);
    event.ring = &writer->view->ring;
    step(world, writer, &event);
}

static void swap(struct world *world, struct writer *writer)
{
    struct fg_ring_widen_event event = {.kind = FG_RING_WIDEN_SWAPPED};

    event.won = bucket_swap(world, writer->onto, fg_buf_slice(&writer->swap));
    fg_ring_view_unref(writer->onto);
    writer->onto = NULL;
    step(world, writer, &event);
}

void writer_turn(struct world *world, struct writer *writer)
{
    struct fg_ring_widen_event tick = {.kind = FG_RING_WIDEN_TICK};

    if (!world->quiet && world_chance(world, 4))
        writer->limits[world_draw(world) % SHARDS] =
            (unsigned)(world_draw(world) % (SHARD_FACTOR_MAX + 1));
    if (writer->onto != NULL && world_chance(world, 500)) {
        swap(world, writer);
    } else if (writer->reads && writer->onto == NULL && world_chance(world, 500)) {
        writer->reads = !world->quiet && world_chance(world, 100); /* it may fail: again */
        if (!writer->reads)
            writer_see(world, writer);
    } else if (world->mono_ns >= writer->wake_mono_ns) {
        step(world, writer, &tick);
    }
}

unsigned writer_shard_factor(struct world *world, struct writer *writer, uint32_t tenant)
{
    struct fg_slice name = world_tenant_name(tenant);
    unsigned limit = writer->limits[tenant];
    unsigned known = fg_ring_shard_factor_at(&writer->view->ring, name, INT64_MAX);
    struct fg_ring_wish wish = {.tenant_len = name.len, .shard_factor = limit};
    struct fg_ring_widen_event want = {.kind = FG_RING_WIDEN_WANT, .wish = &wish};

    memcpy(wish.tenant, name.ptr, name.len);
    if (known < limit && writer->widen.idle)
        step(world, writer, &want);
    return world_keeps(world, RULE_SPREAD_BEFORE_USE)
               ? fg_ring_shard_factor_at(&writer->view->ring, name, world->mono_ns)
               : limit;
}
