#include "common/cluster/ring/member_core.h"

/* A rollout waits for each member's maintenance to end, so a second more hardly counts; a read of
 * the ring is one conditional request. */
#define MAINTENANCE_LOOK_NS FG_SECOND_NS
/* Others connect to a restarted member again within 2 s at most (common/net/rpc); by then calls to
 * it succeed. */
#define RESUME_AFTER_NS (5 * FG_SECOND_NS)

const char *fg_ring_member_state_name(enum fg_ring_member_state state)
{
    static const char *const names[] = {
        [FG_RING_MEMBER_NONE] = "none",     [FG_RING_MEMBER_JOINING] = "joining",
        [FG_RING_MEMBER_ACTIVE] = "active", [FG_RING_MEMBER_LEAVING] = "leaving",
        [FG_RING_MEMBER_LEFT] = "left",     [FG_RING_MEMBER_REPLACED] = "replaced",
    };

    return names[state];
}

void fg_ring_member_init(struct fg_ring_member_core *member,
                         const struct fg_ring_member_config *config)
{
    *member = (struct fg_ring_member_core){
        .config = *config, .state = FG_RING_MEMBER_JOINING, .random = config->seed};
}

static bool is_over(const struct fg_ring_member_core *member)
{
    return member->state == FG_RING_MEMBER_LEFT || member->state == FG_RING_MEMBER_REPLACED;
}

/* Asks for a read of the ring, at once. */
static void look_now(struct fg_ring_member_core *member)
{
    member->look = true;
    member->not_before_mono_ns = INT64_MIN;
}

/* Asks for a read after a pause that doubles, with full jitter: members that lost a swap
 * together do not come back together. */
static void look_later(struct fg_ring_member_core *member, int64_t mono_ns)
{
    int64_t most = member->config.backoff_min_ns << FG_MIN(member->failures, 16);

    most = FG_MAX(FG_MIN(most, member->config.backoff_max_ns), 1);
    member->failures++;
    member->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    member->look = true;
    member->not_before_mono_ns =
        fg_time_add(mono_ns, (int64_t)(fg_mix64(member->random) % (uint64_t)most));
}

/* ---- what a ring says ---- */

/* Finds the member with our name and our store, or returns FG_RING_NO_MEMBER. A member with our
 * name and another store is not us. */
static uint32_t find_own(const struct fg_ring_member_core *member, const struct fg_ring *ring)
{
    uint32_t number = fg_ring_find(ring, member->config.name);

    return number != FG_RING_NO_MEMBER &&
                   fg_id_eq(ring->members[number].store, member->config.store)
               ? number
               : FG_RING_NO_MEMBER;
}

/* A member that was in the ring may leave. So may one that has never tried to join, or whose
 * swap cannot arrive any more because the ring has moved on. In two cases the member has to join
 * first and leaves then: an older store has its name, which somebody has to declare lost; or the
 * swap by which it joins may still arrive, onto just this ring. If it ended now, the ring would
 * keep a member that no process is. */
static bool may_leave(const struct fg_ring_member_core *member, const struct fg_ring *ring)
{
    return member->was_member || (fg_ring_find(ring, member->config.name) == FG_RING_NO_MEMBER &&
                                  (!member->tried || ring->swaps > member->tried_swaps));
}

static void update_state(struct fg_ring_member_core *member, const struct fg_ring *ring,
                         uint32_t own)
{
    bool taken =
        own == FG_RING_NO_MEMBER && fg_ring_find(ring, member->config.name) != FG_RING_NO_MEMBER;
    enum fg_ring_state state = own == FG_RING_NO_MEMBER ? FG_RING_GONE : fg_ring_state(ring, own);

    if (taken && member->was_member)
        member->state = FG_RING_MEMBER_REPLACED;
    else if (member->state == FG_RING_MEMBER_LEAVING)
        member->state = state == FG_RING_GONE && may_leave(member, ring) ? FG_RING_MEMBER_LEFT
                                                                         : FG_RING_MEMBER_LEAVING;
    else
        member->state = state == FG_RING_ACTIVE ? FG_RING_MEMBER_ACTIVE : FG_RING_MEMBER_JOINING;
    member->was_member |= own != FG_RING_NO_MEMBER;
    member->paused = member->pausing && own != FG_RING_NO_MEMBER && fg_ring_is_paused(ring, own);
}

/* Returns the newest revision if there is an older one that this member has not drained and was
 * not asked to drain, else 0. */
static uint64_t has_to_drain(const struct fg_ring_member_core *member, const struct fg_ring *ring,
                             uint32_t own)
{
    uint64_t newest = fg_ring_newest(ring);

    for (uint32_t i = 0; own != FG_RING_NO_MEMBER && i < ring->n_revisions; i++) {
        const struct fg_ring_revision *revision = &ring->revisions[i];

        if (revision->number != newest && revision->number >= member->draining &&
            fg_ring_place_of(revision, own) != NULL &&
            !fg_ring_is_done(&ring->members[own], revision->number))
            return newest;
    }
    return 0;
}

/* ---- what is wanted of it ---- */

static struct fg_ring_change change_of(const struct fg_ring_member_core *member,
                                       enum fg_ring_change_kind kind, int64_t wall_ns)
{
    return (struct fg_ring_change){
        .kind = kind,
        .name = member->config.name,
        .store = member->config.store,
        .zone = member->config.zone,
        .address = member->config.address,
        .http = member->config.http,
        .revision = member->drained,
        .generation = member->generation,
        .replicas = member->config.replicas,
        .wall_ns = wall_ns,
    };
}

/* Applies a change to the ring that was read; effects->swap is set if it changes anything. */
static enum fg_code want(struct fg_ring_member_core *member,
                         const struct fg_ring_member_event *event, enum fg_ring_change_kind kind,
                         struct fg_ring_member_effects *effects)
{
    const struct fg_ring_change change = change_of(member, kind, event->wall_ns);

    return fg_ring_apply(event->ring, &change, event->arena, &effects->ring, &effects->swap,
                         &member->err);
}

/* Begins or ends the maintenance of a member that is in the ring. */
static enum fg_code want_maintenance(struct fg_ring_member_core *member,
                                     const struct fg_ring_member_event *event, uint32_t own,
                                     struct fg_ring_member_effects *effects)
{
    bool is_paused = own != FG_RING_NO_MEMBER && event->ring->members[own].paused_wall_ns != 0;
    enum fg_code code = FG_OK;

    if (member->pausing == is_paused || member->state == FG_RING_MEMBER_LEAVING)
        return FG_OK;
    if (member->pausing)
        code = want(member, event, member->anyway ? FG_RING_PAUSE_ANYWAY : FG_RING_PAUSE, effects);
    else if (member->is_ready &&
             event->mono_ns >= fg_time_add(member->ready_mono_ns, RESUME_AFTER_NS))
        code = want(member, event, FG_RING_RESUME, effects);
    return code;
}

static void on_ring(struct fg_ring_member_core *member, const struct fg_ring_member_event *event,
                    struct fg_ring_member_effects *effects)
{
    uint32_t own = find_own(member, event->ring);
    enum fg_code code;

    /* The shell carries a swap out before it reads again. */
    fg_assert(!member->swapping);
    if (!is_over(member))
        update_state(member, event->ring, own);
    if (event->ready && !member->is_ready)
        member->ready_mono_ns = event->mono_ns;
    member->is_ready = event->ready;
    if (is_over(member))
        return;
    effects->drain = has_to_drain(member, event->ring, own);
    member->draining = FG_MAX(member->draining, effects->drain);
    if (member->look && event->mono_ns < member->not_before_mono_ns)
        return; /* somebody else wanted to know */
    /* First what makes room: a ring that is full of revisions takes no other change. */
    code = want(member, event, FG_RING_DRAINED, effects);
    if (code == FG_OK && !effects->swap)
        code = want(member, event,
                    member->state == FG_RING_MEMBER_LEAVING && may_leave(member, event->ring)
                        ? FG_RING_LEAVE
                        : FG_RING_JOIN,
                    effects);
    if (code == FG_OK && !effects->swap)
        code = want_maintenance(member, event, own, effects);
    member->look = false;
    member->swapping = effects->swap;
    if (effects->swap) {
        member->tried = true;
        member->tried_swaps = event->ring->swaps;
    }
    if (code != FG_OK) {
        look_later(member, event->mono_ns);
        return;
    }
    member->err.code = FG_OK;
    if (effects->swap)
        return;
    member->failures = 0;
    if (own != FG_RING_NO_MEMBER &&
        member->pausing != (event->ring->members[own].paused_wall_ns != 0)) {
        /* Members that wait for the end of a maintenance read again after the pause. */
        member->look = true;
        member->not_before_mono_ns = fg_time_add(event->mono_ns, MAINTENANCE_LOOK_NS);
    }
}

void fg_ring_member_step(struct fg_ring_member_core *member,
                         const struct fg_ring_member_event *event,
                         struct fg_ring_member_effects *ret_effects)
{
    struct fg_ring_member_effects effects = {.wake_mono_ns = INT64_MAX};

    switch (event->kind) {
    case FG_RING_MEMBER_TICK:
        break;
    case FG_RING_MEMBER_LEAVE:
        if (!is_over(member))
            member->state = FG_RING_MEMBER_LEAVING;
        look_now(member);
        break;
    case FG_RING_MEMBER_PAUSE:
        member->pausing = true;
        member->anyway |= event->anyway;
        look_now(member);
        break;
    case FG_RING_MEMBER_RING:
        on_ring(member, event, &effects);
        break;
    case FG_RING_MEMBER_DRAINED:
        member->drained = FG_MAX(member->drained, event->revision);
        member->generation = FG_MAX(member->generation, event->generation);
        look_now(member);
        break;
    case FG_RING_MEMBER_SWAPPED:
        fg_assert(member->swapping);
        member->swapping = false;
        /* A read either way: only the ring tells if the change was made. */
        if (event->won)
            look_now(member);
        else
            look_later(member, event->mono_ns);
        break;
    }
    if (member->look && !member->swapping && !is_over(member)) {
        effects.read = event->mono_ns >= member->not_before_mono_ns;
        member->look = !effects.read; /* once: who reads tries until it works */
        effects.wake_mono_ns = effects.read ? INT64_MAX : member->not_before_mono_ns;
    }
    *ret_effects = effects;
}
