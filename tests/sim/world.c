#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const struct fg_slice tenant_names[TENANTS] = {
    {(const uint8_t *)"alpha", 5},
    {(const uint8_t *)"beta", 4},
};

/* ---- small things ---- */

static void make_room(struct items *items, uint32_t n)
{
    if (items->cap - items->n >= n)
        return;
    items->cap = FG_MAX(FG_MAX(64, items->cap * 2), items->n + n);
    items->items = fg_realloc(items->items, items->cap * sizeof *items->items);
}

void items_add(struct items *items, struct item item)
{
    make_room(items, 1);
    items->items[items->n++] = item;
}

void items_append(struct items *items, struct fg_slice bytes)
{
    uint32_t n = (uint32_t)(bytes.len / sizeof *items->items);

    fg_assert(n * sizeof *items->items == bytes.len);
    if (n == 0)
        return;
    make_room(items, n);
    memcpy(&items->items[items->n], bytes.ptr, bytes.len);
    items->n += n;
}

void items_done(struct items *items)
{
    free(items->items);
    *items = (struct items){0};
}

bool items_has(const struct items *items, const struct item *item)
{
    for (uint32_t i = 0; i < items->n; i++)
        if (items->items[i].profile == item->profile)
            return true;
    return false;
}

uint64_t draw(struct world *world, uint64_t below)
{
    world->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    return fg_mix64(world->random) % below;
}

bool chance(struct world *world, unsigned permille)
{
    return !world->quiet && draw(world, 1000) < permille;
}

void found_fault(struct world *world, const char *fmt, ...)
{
    va_list args;

    if (world->fault[0] != '\0')
        return;
    va_start(args, fmt);
    (void)vsnprintf(world->fault, sizeof world->fault, fmt, args);
    va_end(args);
    trace(world, "FAULT: %s", world->fault);
}

void trace(const struct world *world, const char *fmt, ...)
{
    va_list args;

    if (!world->shape.trace)
        return;
    va_start(args, fmt);
    printf("%9.3f ", (double)fibers_now_ns(world->fibers) / 1e9);
    (void)vprintf(fmt, args);
    (void)putchar('\n');
    va_end(args);
}

void delay(struct world *world)
{
    bool slow = chance(world, 10);
    uint64_t most = slow ? (uint64_t)FG_MINUTE_NS : (uint64_t)world->slow_ns;

    fibers_sleep(world->fibers, (int64_t)draw(world, most));
}

bool is_alive(struct world *world, struct owner *owner)
{
    if (owner->head != NULL && (!head_is_up(owner->head) || head_life(owner->head) != owner->life))
        owner->dead = true;
    if (owner->mortal && chance(world, 5))
        owner->dead = true;
    return !owner->dead;
}

/* ---- the other actors ---- */

static void read_once(void *arg)
{
    (void)read_and_check(arg);
}

static void readers(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        fibers_spawn(world->fibers, 0, read_once, world);
        fibers_sleep(world->fibers, (int64_t)draw(world, 30 * (uint64_t)FG_SECOND_NS));
    }
}

static void compactor(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        compact_once(world);
        fibers_sleep(world->fibers, (int64_t)draw(world, 90 * (uint64_t)FG_SECOND_NS));
    }
}

static void settler(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        settle_once(world);
        fibers_sleep(world->fibers, (int64_t)draw(world, 30 * (uint64_t)FG_SECOND_NS));
    }
}

static void operator(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        operate(world);
        fibers_sleep(world->fibers, (int64_t)draw(world, 2 * (uint64_t)FG_MINUTE_NS));
    }
}

/* ---- the end ---- */

static void check_end(struct world *world)
{
    uint32_t *times = fg_calloc((size_t)world->n_sent + 1, sizeof *times);
    struct owner owner = {0};

    for (uint32_t t = 0; t < TENANTS; t++) {
        struct fg_snapshot snapshot;
        struct items items = {0};

        fg_snapshot_init(&snapshot, world->reader_cache, &tenant_names[t], 1);
        if (take_snapshot(world, &owner, &snapshot, 0, true) != IO_OK ||
            read_contents(world, &owner, &snapshot, 0, &items) != IO_OK)
            found_fault(world, "nothing can be read when all is over");
        else if (snapshot.l0->l0.n_segments + snapshot.l0->l0.n_gone +
                     snapshot.blocks[0]->blocks.n_gone >
                 0)
            found_fault(world, "segments or objects are left when all is over");
        for (uint32_t i = 0; i < items.n; i++)
            times[items.items[i].profile]++;
        fg_snapshot_done(&snapshot);
        items_done(&items);
    }
    for (uint32_t i = 0; i < world->n_sent; i++)
        if (times[i] > 1 || (times[i] > 0 && world->sent[i].doomed) ||
            (times[i] == 0 && world->sent[i].acked && !is_named(world, &world->sent[i].item)))
            found_fault(world, "at the end: profile %u %u times in blocks", i, times[i]);
    free(times);
}

/* Those that are there: who has left or was given up is not. */
static struct head *living(const struct world *world, uint32_t number)
{
    struct head *head = world->heads[number];

    return head_has_ended(head) ? NULL : head;
}

/* Nobody has anything left that came under an older revision. */
static bool ring_has_settled(struct world *world)
{
    struct owner owner = {0};
    struct fg_ring_view *view;
    bool settled;

    fg_assert(ring_get(world, &owner, &view) == IO_OK);
    settled = view->ring.n_revisions == 1;
    fg_ring_view_unref(view);
    return settled;
}

static void start_all(struct world *world)
{
    for (uint32_t i = 0; i < world->n_heads; i++) {
        if (living(world, i) == NULL)
            continue;
        head_cut_off(world->heads[i], 0);
        head_make_unfit(world->heads[i], 0);
        head_blur(world->heads[i], 0);
        if (!head_is_up(world->heads[i]))
            head_start(world->heads[i]);
    }
}

static void drain_one(struct world *world, struct head *head)
{
    uint64_t drain = head_drain(head);
    int tries = 0;

    while (!head_is_drained(head, drain) && tries++ < 600)
        fibers_sleep(world->fibers, FG_SECOND_NS);
    if (!head_is_drained(head, drain))
        found_fault(world, "a head does not drain when the faults have stopped");
}

static void drain_all(struct world *world)
{
    int tries = 0;

    while (!ring_has_settled(world) && tries++ < 600)
        fibers_sleep(world->fibers, FG_SECOND_NS);
    if (!ring_has_settled(world))
        found_fault(world, "the ring does not settle when the faults have stopped");
    for (uint32_t i = 0; i < world->n_heads; i++)
        if (living(world, i) != NULL)
            drain_one(world, world->heads[i]);
}

void end_heads(struct world *world)
{
    for (uint32_t i = 0; i < world->n_heads; i++)
        if (living(world, i) != NULL)
            head_end(world->heads[i]);
}

/* The faults stop, everything is committed and compacted, and looked at. */
static void finish(void *arg)
{
    struct world *world = arg;

    fibers_sleep(world->fibers, world->shape.length_ns);
    world->ending = true;
    fibers_sleep(world->fibers, 10 * FG_MINUTE_NS);
    world->quiet = true;
    start_all(world);
    fibers_sleep(world->fibers, 2 * FG_MINUTE_NS);
    drain_all(world);
    compact_all(world);
    if (!read_and_check(world))
        found_fault(world, "no read succeeds when the faults have stopped");
    check_end(world);
    end_heads(world);
}

static void start_actors(struct world *world)
{
    fibers_spawn(world->fibers, 0, push_agents, world);
    fibers_spawn(world->fibers, 0, readers, world);
    fibers_spawn(world->fibers, 0, compactor, world);
    fibers_spawn(world->fibers, 0, compactor, world);
    fibers_spawn(world->fibers, 0, settler, world);
    if (!world->shape.calm) {
        fibers_spawn(world->fibers, 0, operator, world);
        fibers_spawn(world->fibers, 0, delete_all_the_time, world);
    }
    fibers_spawn(world->fibers, 0, finish, world);
}

struct world *world_run(uint64_t seed, const struct shape *shape)
{
    struct world *world = fg_new(struct world);

    world->shape = *shape;
    world->random = fg_mix64(seed + 1);
    world->fibers = fibers_create();
    world->quiet = shape->calm;
    world->lose_permille = (unsigned)draw(world, 150);
    world->crash_permille = (unsigned)draw(world, 8);
    world->slow_ns = 10 * FG_MS_NS << draw(world, 8);
    world->reader_cache = fg_manifests_create(TENANTS, 20 * FG_SECOND_NS, shape->rules);
    for (uint32_t i = 0; i < shape->heads; i++)
        bear_head(world);
    if (shape->script != NULL)
        fibers_spawn(world->fibers, 0, shape->script, world);
    else
        start_actors(world);
    while (fibers_turn(world->fibers))
        if (world->fault[0] != '\0')
            world->ending = true; /* the rest runs out */
    return world;
}

void world_destroy(struct world *world)
{
    for (uint32_t i = 0; i < world->n_heads; i++)
        head_destroy(world->heads[i]);
    for (uint32_t i = 0; i < world->n_objects; i++) {
        free(world->objects[i].name);
        free(world->objects[i].bytes);
    }
    pushes_done(world);
    fg_ring_view_unref(world->ring);
    fg_manifests_destroy(world->reader_cache);
    fibers_destroy(world->fibers);
    free(world->heads);
    free(world->objects);
    free(world->sent);
    free(world);
}
