#include "common/cluster/ring/ring.h"

#include "common/base/search.h"

struct fg_ring fg_ring_none(void)
{
    return (struct fg_ring){0};
}

uint64_t fg_ring_newest(const struct fg_ring *ring)
{
    return ring->n_revisions == 0 ? 0 : ring->revisions[ring->n_revisions - 1].number;
}

uint32_t fg_ring_find(const struct fg_ring *ring, struct fg_slice name)
{
    uint32_t at =
        fg_lower_bound(i, 0, ring->n_members, fg_slice_cmp(ring->members[i].name, name) < 0);

    return at < ring->n_members && fg_slice_eq(ring->members[at].name, name) ? at
                                                                             : FG_RING_NO_MEMBER;
}

const struct fg_ring_place *fg_ring_place_of(const struct fg_ring_revision *revision,
                                             uint32_t member)
{
    uint32_t at = fg_lower_bound(i, 0, revision->n_places, revision->places[i].member < member);

    return at < revision->n_places && revision->places[at].member == member ? &revision->places[at]
                                                                            : NULL;
}

uint32_t fg_ring_shard_factor_place(const struct fg_ring *ring, struct fg_slice tenant,
                                    bool *ret_there)
{
    uint32_t at = fg_lower_bound(i, 0, ring->n_shard_factors,
                                 fg_slice_cmp(ring->shard_factors[i].tenant, tenant) < 0);

    *ret_there = at < ring->n_shard_factors && fg_slice_eq(ring->shard_factors[at].tenant, tenant);
    return at;
}

unsigned fg_ring_shard_factor_at(const struct fg_ring *ring, struct fg_slice tenant,
                                 int64_t time_ns)
{
    bool is_there;
    uint32_t place = fg_ring_shard_factor_place(ring, tenant, &is_there);
    const struct fg_ring_steps *steps =
        is_there ? &ring->shard_factors[place].steps : &ring->others;
    uint32_t n = steps->n;

    /* The step of the profile's own time: a late profile keeps the shard that it would have had
     * then (spread-by-time). */
    while (n > 0 && steps->items[n - 1].since_ns > time_ns)
        n--;
    return n == 0 ? 0 : steps->items[n - 1].shard_factor;
}

unsigned fg_ring_shard_factor(const struct fg_ring *ring, struct fg_slice tenant)
{
    return FG_MAX(ring->floor, fg_ring_shard_factor_at(ring, tenant, INT64_MAX));
}

struct fg_slice fg_ring_zone(const struct fg_ring *ring, uint32_t member)
{
    /* The newest revision that has the member: zones may change between revisions. */
    for (uint32_t i = ring->n_revisions; i-- > 0;) {
        const struct fg_ring_place *place = fg_ring_place_of(&ring->revisions[i], member);

        if (place != NULL)
            return place->zone;
    }
    return FG_LIT("");
}

/* From the newest revision down: a member is gone only if it is done with all of them. */
enum fg_ring_state fg_ring_state(const struct fg_ring *ring, uint32_t member)
{
    for (uint32_t i = ring->n_revisions; i-- > 0;) {
        const struct fg_ring_revision *revision = &ring->revisions[i];

        if (fg_ring_place_of(revision, member) == NULL)
            continue;
        if (i == ring->n_revisions - 1)
            return FG_RING_ACTIVE;
        /* It left the newest revision, but queries still ask it for an older one. */
        if (!fg_ring_is_done(&ring->members[member], revision->number))
            return FG_RING_LEAVING;
    }
    return FG_RING_GONE;
}

bool fg_ring_is_paused(const struct fg_ring *ring, uint32_t member)
{
    return ring->members[member].paused_wall_ns != 0 &&
           fg_ring_state(ring, member) == FG_RING_ACTIVE;
}

/* Returns true if a zone may be away as a whole: the owners of every shard are in different zones
 * then (owners.h), and without one of them they are still a quorum. */
static bool zones_suffice(const struct fg_ring_revision *revision)
{
    unsigned zones = 0;

    for (uint32_t i = 0; i < revision->n_places && zones < revision->replicas; i++) {
        struct fg_slice zone = revision->places[i].zone;
        bool is_first = zone.len > 0;

        for (uint32_t k = 0; k < i && is_first; k++)
            is_first = !fg_slice_eq(revision->places[k].zone, zone);
        zones += is_first;
    }
    return zones >= revision->replicas &&
           revision->replicas - 1 >= fg_ring_writes(revision->replicas);
}

bool fg_ring_may_be_away_together(const struct fg_ring *ring, uint32_t member, uint32_t other)
{
    struct fg_slice zone = fg_ring_zone(ring, member);

    return zone.len > 0 && fg_slice_eq(zone, fg_ring_zone(ring, other)) &&
           zones_suffice(&ring->revisions[ring->n_revisions - 1]);
}

const char *fg_ring_state_name(enum fg_ring_state state)
{
    static const char *const names[] = {
        [FG_RING_ACTIVE] = "active",
        [FG_RING_LEAVING] = "leaving",
        [FG_RING_GONE] = "gone",
    };

    return names[state];
}

/* ---- texts ---- */

const char *fg_ring_tenant_fault(struct fg_slice tenant)
{
    if (tenant.len == 0)
        return "is empty";
    return tenant.len > FG_RING_TENANT_MAX_BYTES ? "is longer than 150 bytes" : NULL;
}

const char *fg_ring_address_fault(struct fg_slice address, bool may_be_empty)
{
    if (address.len == 0 && !may_be_empty)
        return "is empty";
    if (address.len > FG_RING_ADDRESS_MAX_BYTES)
        return "is longer than 256 bytes";
    for (size_t i = 0; i < address.len; i++)
        /* Addresses go to nng and into logs and pages as they are. */
        if (address.ptr[i] <= ' ' || address.ptr[i] >= 0x7f)
            return "contains a blank or a character that is not printable ASCII";
    return NULL;
}
