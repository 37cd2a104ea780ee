/*
 * Changes of the ring. Each works on a draft: the old value with room for one more member and
 * revision, members of whom may be added at the end. Then what has ended leaves, and the rest is
 * put in order.
 */
#include "common/cluster/ring/ring.h"
#include "common/cluster/ring/shard.h"

#include <stdlib.h>

struct ring_draft {
    struct fg_ring ring;
    struct fg_arena *arena;
    bool changed;
    bool full; /* the arena is */
};

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the ring is too large to change");
}

static bool draft_init(struct ring_draft *draft, const struct fg_ring *ring, struct fg_arena *arena)
{
    *draft = (struct ring_draft){.ring = *ring, .arena = arena};
    draft->ring.members =
        fg_arena_copy_list(arena, ring->members, ring->n_members, sizeof *ring->members);
    draft->ring.revisions =
        fg_arena_copy_list(arena, ring->revisions, ring->n_revisions, sizeof *ring->revisions);
    return draft->ring.members != NULL && draft->ring.revisions != NULL;
}

/* ---- the newest revision ---- */

static const struct fg_ring_revision *newest_of(const struct ring_draft *draft)
{
    static const struct fg_ring_revision none;

    return draft->ring.n_revisions == 0 ? &none
                                        : &draft->ring.revisions[draft->ring.n_revisions - 1];
}

/* Adds the next revision: the newest one without this member. */
static struct fg_ring_revision *add_revision(struct ring_draft *draft, uint32_t without)
{
    const struct fg_ring_revision *newest = newest_of(draft);
    struct fg_ring_revision next = {.number = newest->number + 1, .replicas = newest->replicas};
    struct fg_ring_revision *added = &draft->ring.revisions[draft->ring.n_revisions];

    next.places = fg_arena_new(draft->arena, struct fg_ring_place, (size_t)newest->n_places + 1);
    draft->full |= next.places == NULL;
    for (uint32_t i = 0; i < newest->n_places && !draft->full; i++)
        if (newest->places[i].member != without)
            next.places[next.n_places++] = newest->places[i];
    *added = next;
    draft->ring.n_revisions++;
    draft->changed = true;
    return added;
}

/* Adds the next revision: the newest one with this member in its (new) zone. */
static void add_revision_with(struct ring_draft *draft, uint32_t member, struct fg_slice zone,
                              unsigned replicas)
{
    struct fg_ring_revision *added = add_revision(draft, member);

    if (added->replicas == 0)
        added->replicas = replicas;
    if (!draft->full)
        added->places[added->n_places++] = (struct fg_ring_place){member, zone};
}

/* ---- each kind of change ---- */

/* Checks the texts of a member that joins. A faulty one would make the ring unreadable for all. */
static enum fg_code check_join(const struct fg_ring_change *change, struct fg_err *err)
{
    const char *name = fg_member_name_fault(change->name),
               *zone = fg_member_zone_fault(change->zone);
    const char *address = fg_ring_address_fault(change->address, false);
    const char *http = fg_ring_address_fault(change->http, true);

    if (name != NULL)
        return fg_fail(err, FG_E_INVALID, "the name of the member %s", name);
    if (zone != NULL)
        return fg_fail(err, FG_E_INVALID, "the zone of the member %s", zone);
    if (address != NULL)
        return fg_fail(err, FG_E_INVALID, "the address of the member %s", address);
    if (http != NULL)
        return fg_fail(err, FG_E_INVALID, "the HTTP address of the member %s", http);
    return FG_OK;
}

static void join_new(struct ring_draft *draft, const struct fg_ring_change *change)
{
    uint32_t number = draft->ring.n_members++;

    add_revision_with(draft, number, change->zone, change->replicas);
    draft->ring.members[number] = (struct fg_ring_member){
        .name = change->name,
        .address = change->address,
        .http = change->http,
        .store = change->store,
        .since_wall_ns = change->wall_ns,
        .drained = newest_of(draft)->number, /* it has nothing from before */
    };
}

static void join_known(struct ring_draft *draft, const struct fg_ring_change *change,
                       uint32_t number)
{
    struct fg_ring_member *member = &draft->ring.members[number];
    const struct fg_ring_place *place = fg_ring_place_of(newest_of(draft), number);
    bool wiped = !fg_id_eq(member->store, change->store);

    if (!fg_slice_eq(member->address, change->address) ||
        !fg_slice_eq(member->http, change->http)) {
        /* An address is no part of a revision: ownership stays as it is, and callers find the
         * new address. */
        member->address = change->address;
        member->http = change->http;
        draft->changed = true;
    }
    if (place != NULL && !wiped && fg_slice_eq(place->zone, change->zone))
        return;
    add_revision_with(draft, number, change->zone, change->replicas);
    if (place == NULL || wiped)
        member->since_wall_ns = change->wall_ns;
    if (wiped) {
        member->store = change->store;
        /* A disk was lost: all older revisions count as lost, and as drained since nothing will
         * come from it. Readers need the other owners then. */
        member->drained = member->lost = newest_of(draft)->number;
    }
}

static void leave(struct ring_draft *draft, uint32_t number)
{
    if (fg_ring_place_of(newest_of(draft), number) != NULL)
        (void)add_revision(draft, number);
}

static enum fg_code drained(struct ring_draft *draft, uint32_t number,
                            const struct fg_ring_change *change, struct fg_err *err)
{
    struct fg_ring_member *member = &draft->ring.members[number];
    uint64_t revision = change->revision;

    if (revision > newest_of(draft)->number)
        return fg_fail(err, FG_E_INVALID, "revision %llu was drained, the newest is %llu",
                       (unsigned long long)revision, (unsigned long long)newest_of(draft)->number);
    draft->changed = revision > member->drained;
    member->drained = FG_MAX(revision, member->drained);
    draft->ring.generation = FG_MAX(draft->ring.generation, change->generation);
    return FG_OK;
}

static void forget(struct ring_draft *draft, uint32_t number)
{
    if (fg_ring_state(&draft->ring, number) == FG_RING_GONE)
        return;
    leave(draft, number);
    draft->ring.members[number].lost = newest_of(draft)->number;
    draft->changed = true;
}

/* Returns true if another member is in maintenance for which this one has to wait. */
static bool has_to_wait(const struct ring_draft *draft, uint32_t number)
{
    const struct fg_ring_revision *newest = newest_of(draft);

    for (uint32_t i = 0; i < newest->n_places; i++) {
        uint32_t other = newest->places[i].member;

        if (other != number && fg_ring_is_paused(&draft->ring, other) &&
            !fg_ring_may_be_away_together(&draft->ring, number, other))
            return true;
    }
    return false;
}

static void pause_member(struct ring_draft *draft, uint32_t number,
                         const struct fg_ring_change *change)
{
    struct fg_ring_member *member = &draft->ring.members[number];
    bool waits = has_to_wait(draft, number);

    /* A member that has left the newest revision stops whenever it likes. */
    if (fg_ring_state(&draft->ring, number) != FG_RING_ACTIVE || member->paused_wall_ns != 0 ||
        (waits && change->kind == FG_RING_PAUSE))
        return;
    member->paused_wall_ns = FG_MAX(change->wall_ns, 1);
    draft->ring.overrides += waits;
    draft->changed = true;
}

static enum fg_code replicate(struct ring_draft *draft, unsigned replicas, struct fg_err *err)
{
    if (replicas == 0 || replicas > FG_RING_REPLICAS_MAX)
        return fg_fail(err, FG_E_INVALID, "%u replicas; there can be 1 to %d", replicas,
                       FG_RING_REPLICAS_MAX);
    if (newest_of(draft)->replicas != replicas)
        add_revision(draft, FG_RING_NO_MEMBER)->replicas = replicas;
    return FG_OK;
}

/* Finds or adds the tenant's entry, in a list of the draft's own. NULL: there is no room for it. */
static struct fg_ring_shard_factor *add_shard_factor(struct ring_draft *draft,
                                                     struct fg_slice tenant)
{
    struct fg_ring *ring = &draft->ring;
    bool is_there;
    uint32_t place = fg_ring_shard_factor_place(ring, tenant, &is_there);
    struct fg_ring_shard_factor *list;

    if (!is_there && ring->n_shard_factors == FG_RING_SHARD_FACTORS_MAX)
        return NULL;
    list =
        fg_arena_copy_list(draft->arena, ring->shard_factors, ring->n_shard_factors, sizeof *list);
    draft->full |= list == NULL;
    if (list == NULL)
        return NULL;
    if (!is_there) {
        memmove(&list[place + 1], &list[place], (ring->n_shard_factors - place) * sizeof *list);
        list[place] = (struct fg_ring_shard_factor){.tenant = tenant};
        ring->n_shard_factors++;
    }
    ring->shard_factors = list;
    return &list[place];
}

/* Adds a step behind the last one. It never begins before that one, since the shard factor of a
 * time that has begun must not change (spread-by-time). */
static void add_step(struct ring_draft *draft, struct fg_ring_steps *steps,
                     const struct fg_ring_change *change)
{
    struct fg_ring_step *items =
        fg_arena_copy_list(draft->arena, steps->items, steps->n, sizeof *items);
    int64_t since_ns = change->since_ns;

    draft->full |= items == NULL;
    if (items == NULL)
        return;
    if (steps->n > 0)
        since_ns = FG_MAX(since_ns, items[steps->n - 1].since_ns);
    items[steps->n] = (struct fg_ring_step){since_ns, change->shard_factor};
    *steps = (struct fg_ring_steps){items, steps->n + 1};
}

static enum fg_code widen(struct ring_draft *draft, const struct fg_ring_change *change,
                          struct fg_err *err)
{
    const char *fault = fg_ring_tenant_fault(change->name);
    struct fg_ring_shard_factor *entry;

    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "the name of a tenant %s", fault);
    if (change->shard_factor > FG_SHARD_FACTOR_MAX)
        return fg_fail(err, FG_E_INVALID, "a shard factor of %u; there can be 0 to %d",
                       change->shard_factor, FG_SHARD_FACTOR_MAX);
    if (fg_ring_shard_factor_at(&draft->ring, change->name, INT64_MAX) >= change->shard_factor)
        return FG_OK;
    draft->changed = true;
    entry = add_shard_factor(draft, change->name);
    add_step(draft, entry == NULL ? &draft->ring.others : &entry->steps, change);
    return FG_OK;
}

static enum fg_code join(struct ring_draft *draft, const struct fg_ring_change *change,
                         struct fg_err *err)
{
    uint32_t number = fg_ring_find(&draft->ring, change->name);

    if (check_join(change, err) != FG_OK)
        return err->code;
    if (change->replicas == 0 || change->replicas > FG_RING_REPLICAS_MAX)
        return fg_fail(err, FG_E_INVALID, "%u replicas; there can be 1 to %d", change->replicas,
                       FG_RING_REPLICAS_MAX);
    if (number == FG_RING_NO_MEMBER)
        join_new(draft, change);
    else
        join_known(draft, change, number);
    return FG_OK;
}

static enum fg_code make_change(struct ring_draft *draft, const struct fg_ring_change *change,
                                struct fg_err *err)
{
    uint32_t number = fg_ring_find(&draft->ring, change->name);
    bool is_it =
        number != FG_RING_NO_MEMBER && fg_id_eq(draft->ring.members[number].store, change->store);

    switch (change->kind) {
    case FG_RING_JOIN:
        return join(draft, change, err);
    case FG_RING_LEAVE:
        if (is_it)
            leave(draft, number);
        return FG_OK;
    case FG_RING_DRAINED:
        return is_it ? drained(draft, number, change, err) : FG_OK;
    case FG_RING_FORGET:
        if (number != FG_RING_NO_MEMBER)
            forget(draft, number);
        return FG_OK;
    case FG_RING_PAUSE:
    case FG_RING_PAUSE_ANYWAY:
        if (is_it)
            pause_member(draft, number, change);
        return FG_OK;
    case FG_RING_RESUME:
        if (is_it) {
            draft->changed = draft->ring.members[number].paused_wall_ns != 0;
            draft->ring.members[number].paused_wall_ns = 0;
        }
        return FG_OK;
    case FG_RING_REPLICATE:
        return replicate(draft, change->replicas, err);
    case FG_RING_WIDEN:
        break;
    }
    return widen(draft, change, err);
}

/* ---- what has ended leaves ---- */

/* A revision has ended when each of its members has drained it or lost what it held; nobody
 * needs to be asked for it then. */
static bool has_ended(const struct fg_ring *ring, const struct fg_ring_revision *revision)
{
    for (uint32_t i = 0; i < revision->n_places; i++)
        if (!fg_ring_is_done(&ring->members[revision->places[i].member], revision->number))
            return false;
    return true;
}

/* A member on its way into order. */
struct moving {
    const struct fg_ring_member *member;
    uint32_t from;
};

static int compare_names(const void *left, const void *right)
{
    const struct moving *a = left, *b = right;

    return fg_slice_cmp(a->member->name, b->member->name);
}

static int compare_places(const void *left, const void *right)
{
    const struct fg_ring_place *a = left, *b = right;

    return (a->member > b->member) - (a->member < b->member);
}

/* Lists the members that are in some revision, sorted by name. The others leave. */
static uint32_t sort_members(const struct fg_ring *ring, struct moving *moving, bool *placed)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ring->n_revisions; i++)
        for (uint32_t k = 0; k < ring->revisions[i].n_places; k++)
            placed[ring->revisions[i].places[k].member] = true;
    for (uint32_t i = 0; i < ring->n_members; i++)
        if (placed[i])
            moving[n++] = (struct moving){&ring->members[i], i};
    if (n > 0)
        qsort(moving, n, sizeof *moving, compare_names);
    return n;
}

/* Copies the places with the new numbers of members; the old ones belong to the old value. */
static bool renumber(struct fg_ring_revision *revision, const uint32_t *numbers,
                     struct fg_arena *arena)
{
    struct fg_ring_place *places =
        fg_arena_copy_list(arena, revision->places, revision->n_places, sizeof *revision->places);

    if (places == NULL)
        return false;
    for (uint32_t i = 0; i < revision->n_places; i++)
        places[i].member = numbers[places[i].member];
    if (revision->n_places > 0)
        qsort(places, revision->n_places, sizeof *places, compare_places);
    revision->places = places;
    return true;
}

/* Drops members that are in no revision and sorts the others. Returns false if the arena is
 * full. */
static bool put_in_order(struct fg_ring *ring, struct fg_arena *arena)
{
    struct moving *moving = fg_arena_new(arena, struct moving, ring->n_members);
    bool *placed = fg_arena_new(arena, bool, ring->n_members);
    uint32_t *numbers = fg_arena_new(arena, uint32_t, ring->n_members);
    struct fg_ring_member *members;
    uint32_t n;

    if (moving == NULL || placed == NULL || numbers == NULL)
        return false;
    n = sort_members(ring, moving, placed);
    members = fg_arena_new(arena, struct fg_ring_member, n);
    if (members == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        members[i] = *moving[i].member;
        numbers[moving[i].from] = i;
    }
    ring->members = members;
    ring->n_members = n;
    for (uint32_t i = 0; i < ring->n_revisions; i++)
        if (!renumber(&ring->revisions[i], numbers, arena))
            return false;
    return true;
}

static enum fg_code check_limits(const struct fg_ring *ring, struct fg_err *err)
{
    if (ring->n_members > FG_RING_MEMBERS_MAX)
        return fg_fail(err, FG_E_LIMIT, "the ring would have %u members; the maximum is %d",
                       ring->n_members, FG_RING_MEMBERS_MAX);
    if (ring->n_revisions > FG_RING_REVISIONS_MAX)
        return fg_fail(err, FG_E_LIMIT,
                       "%d ring revisions have not drained yet: wait, or forget dead members",
                       ring->n_revisions - 1);
    if (ring->swaps > FG_RING_NUMBER_MAX || fg_ring_newest(ring) > FG_RING_NUMBER_MAX)
        return fg_fail(err, FG_E_LIMIT, "the ring has reached the maximum number of changes");
    return FG_OK;
}

enum fg_code fg_ring_apply(const struct fg_ring *ring, const struct fg_ring_change *change,
                           struct fg_arena *arena, struct fg_ring *ret_ring, bool *ret_changed,
                           struct fg_err *err)
{
    struct ring_draft draft;

    if (!draft_init(&draft, ring, arena))
        return no_memory(err);
    if (make_change(&draft, change, err) != FG_OK)
        return err->code;
    if (!draft.changed) {
        *ret_ring = *ring;
        *ret_changed = false;
        return FG_OK;
    }
    draft.ring.swaps++;
    if (draft.full)
        return no_memory(err);

    uint32_t n = 0;

    for (uint32_t i = 0; i < draft.ring.n_revisions; i++)
        /* The newest revision stays in any case: writes go by it. */
        if (i == draft.ring.n_revisions - 1 || !has_ended(&draft.ring, &draft.ring.revisions[i]))
            draft.ring.revisions[n++] = draft.ring.revisions[i];
    draft.ring.n_revisions = n;
    if (!put_in_order(&draft.ring, arena))
        return no_memory(err);
    if (check_limits(&draft.ring, err) != FG_OK)
        return err->code;
    *ret_ring = draft.ring;
    *ret_changed = true;
    return FG_OK;
}
