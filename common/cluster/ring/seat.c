#include "common/cluster/ring/seat.h"

const char *fg_ring_seat_state_name(enum fg_ring_seat_state state)
{
    static const char *const names[] = {
        [FG_RING_SEAT_NONE] = "none",     [FG_RING_SEAT_JOINING] = "joining",
        [FG_RING_SEAT_ACTIVE] = "active", [FG_RING_SEAT_LEAVING] = "leaving",
        [FG_RING_SEAT_LEFT] = "left",     [FG_RING_SEAT_REPLACED] = "replaced",
    };

    return names[state];
}

void fg_ring_seat_init(struct fg_ring_seat *seat, const struct fg_ring_seat_config *config)
{
    *seat = (struct fg_ring_seat){
        .config = *config, .state = FG_RING_SEAT_JOINING, .random = config->seed};
}

static bool is_over(const struct fg_ring_seat *seat)
{
    return seat->state == FG_RING_SEAT_LEFT || seat->state == FG_RING_SEAT_REPLACED;
}

/* The ring is to be read, now. */
static void look_now(struct fg_ring_seat *seat)
{
    seat->look = true;
    seat->not_before_mono_ns = INT64_MIN;
}

/* ... after a pause, so that those who lost together do not come back together. */
static void look_later(struct fg_ring_seat *seat, int64_t mono_ns)
{
    int64_t most = seat->config.backoff_min_ns << FG_MIN(seat->failures, 16);

    most = FG_MAX(FG_MIN(most, seat->config.backoff_max_ns), 1);
    seat->failures++;
    seat->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    seat->look = true;
    seat->not_before_mono_ns =
        fg_time_add(mono_ns, (int64_t)(fg_mix64(seat->random) % (uint64_t)most));
}

/* ---- what a ring says ---- */

/* Our member in it, or FG_RING_NO_MEMBER. */
static uint32_t find_own(const struct fg_ring_seat *seat, const struct fg_ring *ring)
{
    uint32_t number = fg_ring_find(ring, seat->config.name);

    return number != FG_RING_NO_MEMBER && fg_id_eq(ring->members[number].store, seat->config.store)
               ? number
               : FG_RING_NO_MEMBER;
}

/*
 * A ring without it says that it has left, if it has been there. Else it joins first, and leaves
 * from there: while a store before this one has its name, of which somebody has to say that it is
 * lost; and while the swap that seats it may still arrive, onto just that ring. Who went then would
 * leave a member behind that nobody is.
 */
static bool may_leave(const struct fg_ring_seat *seat, const struct fg_ring *ring)
{
    return seat->seated || (fg_ring_find(ring, seat->config.name) == FG_RING_NO_MEMBER &&
                            (!seat->tried || ring->swaps > seat->tried_swaps));
}

static void update_state(struct fg_ring_seat *seat, const struct fg_ring *ring, uint32_t own)
{
    bool taken =
        own == FG_RING_NO_MEMBER && fg_ring_find(ring, seat->config.name) != FG_RING_NO_MEMBER;
    enum fg_ring_state state = own == FG_RING_NO_MEMBER ? FG_RING_GONE : fg_ring_state(ring, own);

    if (taken && seat->seated)
        seat->state = FG_RING_SEAT_REPLACED;
    else if (seat->state == FG_RING_SEAT_LEAVING)
        seat->state = state == FG_RING_GONE && may_leave(seat, ring) ? FG_RING_SEAT_LEFT
                                                                     : FG_RING_SEAT_LEAVING;
    else
        seat->state = state == FG_RING_ACTIVE ? FG_RING_SEAT_ACTIVE : FG_RING_SEAT_JOINING;
    seat->seated |= own != FG_RING_NO_MEMBER;
}

/* 0, or the newest revision: there is an older one that we have not drained, nor were asked to. */
static uint64_t has_to_drain(const struct fg_ring_seat *seat, const struct fg_ring *ring,
                             uint32_t own)
{
    uint64_t newest = fg_ring_newest(ring);

    for (uint32_t i = 0; own != FG_RING_NO_MEMBER && i < ring->n_revisions; i++) {
        const struct fg_ring_revision *revision = &ring->revisions[i];

        if (revision->number != newest && revision->number >= seat->draining &&
            fg_ring_place_of(revision, own) != NULL &&
            !fg_ring_is_done(&ring->members[own], revision->number))
            return newest;
    }
    return 0;
}

/* ---- what is wanted of it ---- */

static struct fg_ring_change change_of(const struct fg_ring_seat *seat,
                                       enum fg_ring_change_kind kind, int64_t wall_ns)
{
    return (struct fg_ring_change){
        .kind = kind,
        .name = seat->config.name,
        .store = seat->config.store,
        .zone = seat->config.zone,
        .address = seat->config.address,
        .http = seat->config.http,
        .revision = seat->drained,
        .generation = seat->generation,
        .replicas = seat->config.replicas,
        .wall_ns = wall_ns,
    };
}

/* The ring with the change is to be swapped in, if it changes anything. */
static enum fg_code want(struct fg_ring_seat *seat, const struct fg_ring_seat_event *event,
                         enum fg_ring_change_kind kind, struct fg_ring_seat_effects *effects)
{
    const struct fg_ring_change change = change_of(seat, kind, event->wall_ns);

    return fg_ring_apply(event->ring, &change, event->arena, &effects->ring, &effects->swap,
                         &seat->err);
}

static void on_ring(struct fg_ring_seat *seat, const struct fg_ring_seat_event *event,
                    struct fg_ring_seat_effects *effects)
{
    uint32_t own = find_own(seat, event->ring);
    enum fg_code code;

    fg_assert(!seat->swapping);
    if (!is_over(seat))
        update_state(seat, event->ring, own);
    if (is_over(seat))
        return;
    effects->drain = has_to_drain(seat, event->ring, own);
    seat->draining = FG_MAX(seat->draining, effects->drain);
    if (seat->look && event->mono_ns < seat->not_before_mono_ns)
        return; /* somebody else wanted to know */
    /* First what makes room: a ring that is full of revisions takes no other change. */
    code = want(seat, event, FG_RING_DRAINED, effects);
    if (code == FG_OK && !effects->swap)
        code =
            want(seat, event,
                 seat->state == FG_RING_SEAT_LEAVING && may_leave(seat, event->ring) ? FG_RING_LEAVE
                                                                                     : FG_RING_JOIN,
                 effects);
    seat->look = false;
    seat->swapping = effects->swap;
    if (effects->swap) {
        seat->tried = true;
        seat->tried_swaps = event->ring->swaps;
    }
    if (code != FG_OK) {
        look_later(seat, event->mono_ns);
        return;
    }
    seat->err.code = FG_OK;
    if (!effects->swap)
        seat->failures = 0;
}

static void on_swapped(struct fg_ring_seat *seat, const struct fg_ring_seat_event *event)
{
    fg_assert(seat->swapping);
    seat->swapping = false;
    if (event->won)
        look_now(seat);
    else
        look_later(seat, event->mono_ns);
}

void fg_ring_seat_step(struct fg_ring_seat *seat, const struct fg_ring_seat_event *event,
                       struct fg_ring_seat_effects *ret_effects)
{
    struct fg_ring_seat_effects effects = {.wake_mono_ns = INT64_MAX};

    switch (event->kind) {
    case FG_RING_SEAT_TICK:
        break;
    case FG_RING_SEAT_LEAVE:
        if (!is_over(seat))
            seat->state = FG_RING_SEAT_LEAVING;
        look_now(seat);
        break;
    case FG_RING_SEAT_RING:
        on_ring(seat, event, &effects);
        break;
    case FG_RING_SEAT_DRAINED:
        seat->drained = FG_MAX(seat->drained, event->revision);
        seat->generation = FG_MAX(seat->generation, event->generation);
        look_now(seat);
        break;
    case FG_RING_SEAT_SWAPPED:
        on_swapped(seat, event);
        break;
    }
    if (seat->look && !seat->swapping && !is_over(seat)) {
        effects.read = event->mono_ns >= seat->not_before_mono_ns;
        seat->look = !effects.read; /* once: who reads tries until it works */
        effects.wake_mono_ns = effects.read ? INT64_MAX : seat->not_before_mono_ns;
    }
    *ret_effects = effects;
}
