#include "tests/sim/ring/world.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t world_draw(struct world *world)
{
    world->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(world->random);
}

bool world_chance(struct world *world, unsigned permille)
{
    return world_draw(world) % 1000 < permille;
}

void world_fault(struct world *world, const char *what, uint32_t profile)
{
    if (world->fault[0] == '\0')
        (void)snprintf(world->fault, sizeof world->fault, "%s, profile %u of shard %u", what,
                       profile, world->shards[profile]);
}

struct fg_slice world_tenant_name(uint32_t tenant)
{
    static const char names[SHARDS + 1] = "abcd";

    return fg_bytes(&names[tenant], 1);
}

uint16_t world_shard(uint32_t tenant, unsigned shard_factor)
{
    return (uint16_t)((30000 + tenant) >>
                      shard_factor << shard_factor); /* as common/cluster/ring/shard.h has it */
}

struct node *world_node(struct world *world, struct fg_slice name)
{
    for (unsigned i = 0; i < NODES; i++)
        if (world->nodes[i].born && fg_slice_eq(fg_cstr(world->nodes[i].name), name))
            return &world->nodes[i];
    return NULL;
}

/* ---- the object ---- */

/* A revision that leaves has ended: each of its members was done with it, if it still says
 * so. */
static void check_ended(struct world *world, const struct fg_ring *now)
{
    const struct fg_ring *before = &world->ring->ring;

    for (uint32_t i = 0, k = 0; i < before->n_revisions; i++) {
        const struct fg_ring_revision *revision = &before->revisions[i];

        while (k < now->n_revisions && now->revisions[k].number < revision->number)
            k++;
        if (k < now->n_revisions && now->revisions[k].number == revision->number)
            continue;
        for (uint32_t p = 0; p < revision->n_places; p++) {
            uint32_t number = fg_ring_find(now, before->members[revision->places[p].member].name);

            if (number != FG_RING_NO_MEMBER &&
                !fg_ring_is_done(&now->members[number], revision->number))
                world_fault(world, "a revision left that had not ended", 0);
        }
    }
    if (fg_ring_newest(now) < fg_ring_newest(before) || now->swaps != before->swaps + 1)
        world_fault(world, "the ring went back", 0);
}

static bool do_swap(struct world *world, uint64_t onto, struct fg_slice bytes)
{
    struct fg_ring_view *next;
    struct fg_err err;
    char etag[24];

    if (onto != world->etag)
        return false;
    (void)snprintf(etag, sizeof etag, "%llu", (unsigned long long)++world->etag);
    fg_assert(fg_ring_view_create(bytes, fg_cstr(etag), world->ring, &next, &err) == FG_OK);
    check_ended(world, &next->ring);
    fg_ring_view_unref(world->ring);
    world->ring = next;
    return true;
}

static uint64_t etag_of(const struct fg_ring_view *view)
{
    uint64_t etag = 0;

    for (size_t i = 0; i < view->etag.len; i++)
        etag = etag * 10 + (uint64_t)(view->etag.ptr[i] - '0');
    return etag;
}

static void put_late(struct world *world, uint64_t onto, struct fg_slice bytes)
{
    struct late *late = &world->late[world_draw(world) % LATE];

    late->onto = onto;
    fg_buf_clear(&late->bytes);
    fg_buf_put(&late->bytes, bytes);
}

bool bucket_swap(struct world *world, const struct fg_ring_view *onto, struct fg_slice bytes)
{
    uint64_t etag = etag_of(onto);

    if (!world->quiet && world_chance(world, 100)) {
        put_late(world, etag, bytes);
        return false;
    }
    return do_swap(world, etag, bytes) && (world->quiet || !world_chance(world, 100));
}

void bucket_turn(struct world *world)
{
    struct late *late = &world->late[world_draw(world) % LATE];

    if (late->bytes.len > 0)
        (void)do_swap(world, late->onto, fg_buf_slice(&late->bytes));
    fg_buf_clear(&late->bytes);
}

/* ---- what goes on ---- */

static void turn(struct world *world)
{
    world->mono_ns += (int64_t)(world_draw(world) % (20 * FG_MS_NS));
    switch (world_draw(world) % 9) {
    case 0:
    case 1:
    case 2:
        node_turn(world, &world->nodes[world_draw(world) % NODES]);
        break;
    case 3:
    case 4:
        write_turn(world, &world->writes[world_draw(world) % WRITES]);
        break;
    case 5:
    case 6:
        read_turn(world, &world->reads[world_draw(world) % READS]);
        break;
    case 7:
        writer_turn(world, &world->writers[world_draw(world) % WRITERS]);
        break;
    default:
        bucket_turn(world);
        if (world_chance(world, 300))
            operator_turn(world);
    }
}

static bool is_at_rest(const struct world *world)
{
    const struct fg_ring *ring = &world->ring->ring;

    if (ring->n_revisions != 1)
        return false;
    for (unsigned i = 0; i < NODES; i++) {
        const struct node *node = &world->nodes[i];

        if (node->born && !node->gone && node->member.state != FG_RING_MEMBER_ACTIVE &&
            node->member.state != FG_RING_MEMBER_LEFT)
            return false;
    }
    for (uint32_t i = 0; i < ring->n_members; i++)
        if (fg_ring_state(ring, i) != FG_RING_ACTIVE)
            return false;
    return true;
}

/* No more faults: everyone comes up, and everything drains. */
static void settle(struct world *world)
{
    world->quiet = true;
    for (unsigned i = 0; i < NODES; i++)
        if (world->nodes[i].born && !world->nodes[i].gone && !world->nodes[i].up)
            node_start(world, &world->nodes[i]);
    for (uint32_t i = 0; i < 20000 && world->fault[0] == '\0' && !is_at_rest(world); i++)
        turn(world);
    if (!is_at_rest(world))
        world_fault(world, "it does not come to rest", 0);
    for (uint32_t i = 0; i < 5000 && world->fault[0] == '\0'; i++) /* reads go on */
        turn(world);
}

struct world *world_run(uint64_t seed, unsigned rules, uint32_t steps)
{
    struct world *world = fg_new(struct world);
    struct fg_err err;

    world->rules = rules;
    world->random = seed * 1000003;
    world->mono_ns = FG_SECOND_NS;
    fg_assert(fg_ring_view_create(FG_LIT(""), FG_LIT(""), NULL, &world->ring, &err) == FG_OK);
    for (unsigned i = 0; i < LATE; i++)
        fg_buf_init(&world->late[i].bytes, FG_RING_MAX_BYTES);
    for (unsigned i = 0; i < NODES; i++)
        fg_buf_init(&world->nodes[i].swap, FG_RING_MAX_BYTES);
    for (unsigned i = 0; i < WRITERS; i++)
        writer_init(world, &world->writers[i]);
    for (uint32_t i = 0; i < steps && world->fault[0] == '\0'; i++)
        turn(world);
    if (world->fault[0] == '\0')
        settle(world);
    return world;
}

void world_destroy(struct world *world)
{
    for (unsigned i = 0; i < NODES; i++) {
        node_crash(&world->nodes[i]);
        fg_buf_done(&world->nodes[i].swap);
    }
    for (unsigned i = 0; i < LATE; i++)
        fg_buf_done(&world->late[i].bytes);
    for (unsigned i = 0; i < WRITERS; i++)
        writer_done(&world->writers[i]);
    for (unsigned i = 0; i < WRITES; i++)
        fg_ring_view_unref(world->writes[i].view);
    for (unsigned i = 0; i < READS; i++)
        read_end(&world->reads[i]);
    fg_ring_view_unref(world->ring);
    free(world);
}
