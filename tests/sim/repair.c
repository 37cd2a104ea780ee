/*
 * Repair between heads: one pass after another of ingester/repair/repair_core, whose links are
 * messages that get lost and come late, and pushes that come twice. Pages have room for a few
 * groups.
 */
#include "ingester/repair/repair_core.h"
#include "tests/sim/world.h"

#include <stdlib.h>

enum { PAGE_GROUPS = 5, ANSWER_PROFILES = 7 };

struct repairer {
    struct owner owner;
    struct fg_ring_view *view;          /* of this pass */
    const struct fg_ring_member *other; /* who is asked */
};

static struct world *world_of(const struct repairer *repairer)
{
    return head_world(repairer->owner.head);
}

static enum fg_code lost(struct fg_err *err)
{
    return fg_fail(err, FG_E_UNAVAILABLE, "no answer");
}

/* A request reaches the other one; NULL: nobody hears it. */
static struct head *reach(struct repairer *repairer)
{
    struct world *world = world_of(repairer);
    struct head *head = find_head(world, repairer->other->name);

    delay(world);
    if (head == NULL || !head_is_up(head) || head_is_cut_off(head) ||
        chance(world, world->lose_permille))
        return NULL;
    return fg_id_eq(head_identity(head)->store, repairer->other->store) ? head : NULL;
}

/* The answer comes home, to one that is still there. */
static enum fg_code come_home(struct repairer *repairer, struct fg_err *err)
{
    struct world *world = world_of(repairer);

    delay(world);
    if (!is_alive(world, &repairer->owner) || chance(world, world->lose_permille))
        return lost(err);
    return FG_OK;
}

static bool owns(const struct fg_ring_view *view, struct fg_id store, uint16_t shard)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    unsigned n = fg_ring_view_owners(view, shard, owners);

    for (unsigned i = 0; i < n; i++)
        if (fg_id_eq(owners[i]->store, store))
            return true;
    return false;
}

static struct ing_head_group_key key_of(const struct ing_repair_group *group)
{
    return (struct ing_head_group_key){fg_slice_eq(group->tenant, tenant_names[0]) ? 0 : 1,
                                       group->shard, group->window};
}

static bool same_group(const struct ing_head_group_key *a, const struct ing_head_group_key *b)
{
    return a->tenant == b->tenant && a->shard == b->shard && a->window == b->window;
}

static bool is_after(const struct ing_head_group_key *key, const struct ing_head_group_key *place)
{
    if (key->tenant != place->tenant)
        return key->tenant > place->tenant;
    return key->shard != place->shard ? key->shard > place->shard : key->window > place->window;
}

static struct ing_group_sum sum_of(const struct item *items, uint32_t n)
{
    struct ing_group_sum sum = {.count = n};

    for (uint32_t i = 0; i < n; i++)
        sum.digest = fg_id_add(sum.digest, item_id(&items[i]));
    return sum;
}

/* ---- what the other one says ---- */

static void say_groups(struct head *head, struct fg_id asker, const struct ing_repair_group *after,
                       struct fg_arena *arena, struct ing_repair_page *page)
{
    const struct fg_ring_view *view = member_view(head_member(head));
    struct ing_head_group_key place = {0};
    struct items own = {0};

    page->groups = fg_arena_new(arena, struct ing_repair_group, PAGE_GROUPS);
    if (after != NULL)
        place = key_of(after);
    head_list(head, NULL, false, &own);
    for (uint32_t i = 0, end; i < own.n && view != NULL && !page->more; i = end) {
        const struct ing_head_group_key *key = &own.items[i].group;

        for (end = i + 1; end < own.n && same_group(&own.items[end].group, key);)
            end++;
        if ((after != NULL && !is_after(key, &place)) || !owns(view, asker, key->shard))
            continue;
        page->more = page->n == PAGE_GROUPS;
        if (!page->more)
            page->groups[page->n++] = (struct ing_repair_group){
                tenant_names[key->tenant], key->shard, key->window, sum_of(&own.items[i], end - i)};
    }
    items_done(&own);
}

static enum fg_code link_groups(void *arg, const struct ing_repair_group *after,
                                struct fg_arena *arena, struct ing_repair_page *ret_page,
                                struct fg_err *err)
{
    struct repairer *repairer = arg;
    struct head *head = reach(repairer);

    if (head == NULL)
        return lost(err);
    *ret_page = (struct ing_repair_page){0};
    say_groups(head, head_identity(repairer->owner.head)->store, after, arena, ret_page);
    return come_home(repairer, err);
}

/* What is younger than a minute by the asker's clock may be on its way. */
static enum fg_code link_ids(void *arg, const struct ing_repair_group *group,
                             struct ing_group_ids *out, struct fg_err *err)
{
    struct repairer *repairer = arg;
    int64_t before_ns = head_wall_ns(repairer->owner.head) - FG_MINUTE_NS;
    struct ing_head_group_key key = key_of(group);
    struct head *head = reach(repairer);
    struct items own = {0};

    if (head == NULL)
        return lost(err);
    head_list(head, &key, false, &own);
    for (uint32_t i = 0; i < own.n; i++)
        if (own.items[i].time_ns < before_ns)
            ing_group_ids_add(out, item_id(&own.items[i]));
    items_done(&own);
    return come_home(repairer, err);
}

/* Some of these, at the place or behind it: a profile's number. What finds no room in the answer
 * goes to the front. */
static void say_profiles(struct head *head, const struct ing_head_group_key *key, struct fg_id *ids,
                         size_t *n, struct ing_repair_place *place, struct items *out)
{
    struct items own = {0};
    uint32_t from = 0;
    size_t left = 0;

    if (place->len > 0)
        memcpy(&from, place->bytes, sizeof from);
    head_list(head, key, false, &own);
    for (size_t i = 0; i < *n; i++)
        for (uint32_t k = 0; k < own.n; k++) {
            if (own.items[k].profile < from || !fg_id_eq(item_id(&own.items[k]), ids[i]))
                continue;
            if (out->n < ANSWER_PROFILES)
                items_add(out, own.items[k]);
            else
                ids[left++] = ids[i];
        }
    *n = left;
    if (out->n > 0) {
        memcpy(place->bytes, &out->items[out->n - 1].profile, sizeof from);
        place->len = sizeof from;
    }
    items_done(&own);
}

/* As if a distributor had sent it. (repair-is-a-push) */
static enum fg_code push(struct repairer *repairer, const struct item *item, struct fg_err *err)
{
    struct world *world = world_of(repairer);
    struct head *head = repairer->owner.head;
    uint32_t before = head_n_stored(head);
    bool stored;

    if (keeps(world, CLUSTER_RULE_REPAIR_IS_A_PUSH))
        stored = head_write(head, item, fg_ring_newest(&repairer->view->ring)) == HEAD_STORED;
    else
        stored = head_write_unchecked(head, item);
    if (!stored || !is_alive(world, &repairer->owner))
        return lost(err);
    world->repaired += head_n_stored(head) > before;
    return FG_OK;
}

static enum fg_code push_all(struct repairer *repairer, const struct items *items,
                             struct fg_err *err)
{
    for (uint32_t i = 0; i < items->n; i++)
        if (push(repairer, &items->items[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code link_take(void *arg, const struct ing_repair_group *group, struct fg_id *ids,
                              size_t *n, struct ing_repair_place *place, struct fg_err *err)
{
    struct repairer *repairer = arg;
    struct world *world = world_of(repairer);
    struct ing_head_group_key key = key_of(group);
    struct head *head = reach(repairer);
    struct items items = {0};
    enum fg_code code;

    if (head == NULL)
        return lost(err);
    say_profiles(head, &key, ids, n, place, &items);
    code = come_home(repairer, err);
    if (code == FG_OK)
        code = push_all(repairer, &items, err);
    if (code == FG_OK && chance(world, 50)) /* it comes twice */
        code = push_all(repairer, &items, err);
    items_done(&items);
    return code;
}

/* ---- what is here ---- */

static bool link_owns(void *arg, uint16_t shard)
{
    struct repairer *repairer = arg;

    return owns(repairer->view, head_identity(repairer->owner.head)->store, shard);
}

/* Between two links that wait the head lives, if it did after the first. */
static struct ing_group_sum link_own_sum(void *arg, const struct ing_repair_group *group)
{
    struct repairer *repairer = arg;
    struct ing_head_group_key key = key_of(group);
    struct items own = {0};
    struct ing_group_sum sum;

    head_list(repairer->owner.head, &key, false, &own);
    sum = sum_of(own.items, own.n);
    items_done(&own);
    return sum;
}

static enum fg_code link_own_ids(void *arg, const struct ing_repair_group *group,
                                 struct ing_group_ids *out, struct fg_err *err)
{
    struct repairer *repairer = arg;
    struct ing_head_group_key key = key_of(group);
    struct items own = {0};

    (void)err;
    head_list(repairer->owner.head, &key, true, &own);
    for (uint32_t i = 0; i < own.n; i++)
        ing_group_ids_add(out, item_id(&own.items[i]));
    items_done(&own);
    return FG_OK;
}

/* All errors of this world end the pass. */
static void link_group_failed(void *arg, const struct ing_repair_group *group)
{
    (void)arg;
    (void)group;
    fg_assert(false);
}

/* ---- passes ---- */

static void pass(struct repairer *repairer)
{
    const struct ing_repair_links links = {
        .arg = repairer,
        .groups = link_groups,
        .ids = link_ids,
        .take = link_take,
        .owns = link_owns,
        .own_sum = link_own_sum,
        .own_ids = link_own_ids,
        .group_failed = link_group_failed,
    };
    const struct fg_ring *ring = &repairer->view->ring;

    for (uint32_t i = 0; i < ring->n_members && is_alive(world_of(repairer), &repairer->owner);
         i++) {
        struct fg_err err;

        repairer->other = &ring->members[i];
        if (!fg_id_eq(repairer->other->store, head_identity(repairer->owner.head)->store) &&
            fg_ring_state(ring, i) != FG_RING_GONE && ing_repair_core_pass(&links, &err) == FG_OK)
            world_of(repairer)->passes++;
    }
}

static void repair(void *arg)
{
    struct repairer *repairer = arg;
    struct world *world = world_of(repairer);

    while (is_alive(world, &repairer->owner)) {
        struct fg_ring_view *view = member_view(head_member(repairer->owner.head));

        if (view != NULL && member_is_active(head_member(repairer->owner.head))) {
            repairer->view = fg_ring_view_ref(view);
            pass(repairer);
            fg_ring_view_unref(repairer->view);
        }
        fibers_sleep(world->fibers, (int64_t)draw(world, 4 * (uint64_t)FG_MINUTE_NS));
    }
    free(repairer);
}

void repair_start(struct head *head)
{
    struct repairer *repairer = fg_new(struct repairer);

    repairer->owner = (struct owner){.head = head, .life = head_life(head)};
    fibers_spawn(head_world(head)->fibers, 0, repair, repairer);
}
