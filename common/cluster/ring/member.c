/* An ingester as a member of the ring: the shell of member_core.h. */
#include "common/cluster/ring/watch_impl.h"
#include "common/runtime/log.h"

/* ---- life ---- */

static enum fg_code member_fault(const char *what, const char *fault, struct fg_err *err)
{
    return fault == NULL ? FG_OK : fg_fail(err, FG_E_INVALID, "ring: %s %s", what, fault);
}

enum fg_code fg_ring_watch_check_member(const struct fg_ring_watch_member *member,
                                        struct fg_err *err)
{
    if (member_fault("the name", fg_member_name_fault(fg_cstr(member->name)), err) != FG_OK ||
        member_fault("the zone", fg_member_zone_fault(fg_cstr(member->zone)), err) != FG_OK ||
        member_fault("the address", fg_ring_address_fault(fg_cstr(member->address), false), err) !=
            FG_OK ||
        member_fault("the address of HTTP", fg_ring_address_fault(fg_cstr(member->http), true),
                     err) != FG_OK)
        return err->code;
    if (member->replicas == 0 || member->replicas > FG_RING_REPLICAS_MAX)
        return fg_fail(err, FG_E_INVALID, "ring: %u replicas; there can be 1 to %d",
                       member->replicas, FG_RING_REPLICAS_MAX);
    return FG_OK;
}

void fg_ring_watch_init_member(struct fg_ring_watch *watch, uint64_t seed)
{
    const struct fg_ring_watch_member *member = watch->config.member;

    watch->member_config = *member;
    watch->config.member = &watch->member_config;
    fg_ring_member_init(&watch->member, &(struct fg_ring_member_config){
                                            .name = fg_cstr(member->name),
                                            .zone = fg_cstr(member->zone),
                                            .address = fg_cstr(member->address),
                                            .http = fg_cstr(member->http),
                                            .store = member->store,
                                            .replicas = member->replicas,
                                            .backoff_min_ns = FG_RING_WATCH_BACKOFF_MIN_NS,
                                            .backoff_max_ns = FG_RING_WATCH_BACKOFF_MAX_NS,
                                            .seed = seed,
                                        });
    atomic_store(&watch->member_state, watch->member.state);
}

/* ---- steps ---- */

static void member_step(struct fg_ring_watch *watch, struct fg_ring_member_event *event);

static void on_moved_state(struct fg_ring_watch *watch, enum fg_ring_member_state before)
{
    /* The moves of the drawing in member_core.h. A member may be told to leave before it has
     * joined. */
    static const unsigned moves[] = {
        [FG_RING_MEMBER_JOINING] =
            1 << FG_RING_MEMBER_ACTIVE | 1 << FG_RING_MEMBER_LEAVING | 1 << FG_RING_MEMBER_REPLACED,
        [FG_RING_MEMBER_ACTIVE] = 1 << FG_RING_MEMBER_JOINING | 1 << FG_RING_MEMBER_LEAVING |
                                  1 << FG_RING_MEMBER_REPLACED,
        [FG_RING_MEMBER_LEAVING] = 1 << FG_RING_MEMBER_LEFT | 1 << FG_RING_MEMBER_REPLACED,
        [FG_RING_MEMBER_LEFT] = 0,
        [FG_RING_MEMBER_REPLACED] = 0,
    };
    enum fg_ring_member_state state = watch->member.state;

    if (state == before)
        return;
    /* Only along the drawing: a member that leaves must never become active again. */
    fg_assert((moves[before] >> state & 1) != 0);
    fg_thread_lock(&watch->thread);
    atomic_store(&watch->member_state, state);
    (void)pthread_cond_broadcast(&watch->moved);
    fg_thread_unlock(&watch->thread);
    if (state == FG_RING_MEMBER_REPLACED)
        fg_log_error(
            "ring member replaced by another store with the same name, refusing all pushes",
            fg_lb("member", watch->member.config.name));
    else
        fg_log_info("ring membership changed", fg_lb("member", watch->member.config.name),
                    fg_ls("state", fg_ring_member_state_name(state)),
                    fg_lu("revision", fg_ring_watch_revision(watch)));
}

static void on_moved_paused(struct fg_ring_watch *watch)
{
    bool paused = watch->member.paused;

    if (paused == atomic_load(&watch->member_paused))
        return;
    fg_thread_lock(&watch->thread);
    atomic_store(&watch->member_paused, paused);
    (void)pthread_cond_broadcast(&watch->moved);
    fg_thread_unlock(&watch->thread);
}

static void member_swap(struct fg_ring_watch *watch, const struct fg_ring *ring)
{
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_SWAPPED};

    event.won = fg_ring_watch_swap(watch, ring) == FG_OK;
    member_step(watch, &event);
}

static void member_step(struct fg_ring_watch *watch, struct fg_ring_member_event *event)
{
    enum fg_ring_member_state before = watch->member.state;
    enum fg_code fault = watch->member.err.code;
    struct fg_ring_member_effects effects;

    event->mono_ns = fg_ring_watch_now(watch);
    event->wall_ns = fg_wall_ns(watch->config.clock);
    fg_ring_member_step(&watch->member, event, &effects);
    watch->member_wake_mono_ns = effects.wake_mono_ns;
    on_moved_state(watch, before);
    on_moved_paused(watch);
    /* Once for each fault: the core retries until it succeeds, and the log would fill up. */
    if (watch->member.err.code != FG_OK && fault == FG_OK)
        fg_log_warn("cannot join the ring yet, retrying", fg_ls("err", watch->member.err.msg));
    if (effects.drain > 0)
        watch->member_config.on_drain(watch->member_config.arg, effects.drain);
    if (effects.read)
        fg_ring_watch_ask_to_read(watch);
    if (effects.swap)
        member_swap(watch, &effects.ring);
}

void fg_ring_watch_show_member(struct fg_ring_watch *watch)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_member_event event = {
        .kind = FG_RING_MEMBER_RING, .ring = &watch->copy->ring, .arena = arena};
    const struct fg_ring_watch_member *member = &watch->member_config;

    event.ready = watch->member.state == FG_RING_MEMBER_ACTIVE &&
                  (member->is_ready == NULL || member->is_ready(member->arg));
    member_step(watch, &event);
}

void fg_ring_watch_tell_member(struct fg_ring_watch *watch, const struct fg_ring_watch_asked *asked)
{
    struct fg_ring_member_event event = {.kind = FG_RING_MEMBER_TICK};

    if (asked->leave) {
        event.kind = FG_RING_MEMBER_LEAVE;
        member_step(watch, &event);
    }
    event =
        (struct fg_ring_member_event){.kind = FG_RING_MEMBER_PAUSE, .anyway = asked->pause_anyway};
    if (asked->pause)
        member_step(watch, &event);
    event = (struct fg_ring_member_event){.kind = FG_RING_MEMBER_DRAINED,
                                          .revision = asked->drained,
                                          .generation = asked->generation};
    if (asked->drained > 0)
        member_step(watch, &event);
    event = (struct fg_ring_member_event){.kind = FG_RING_MEMBER_TICK};
    if (fg_ring_watch_now(watch) >= watch->member_wake_mono_ns)
        member_step(watch, &event);
}

/* ---- waiting ---- */

/* Waits for a change of the member. FG_E_PRECONDITION: it is in a state that no move leads out of,
 * so waiting would last until the deadline. With the lock held. */
static enum fg_code wait_for_move(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                  struct fg_err *err)
{
    enum fg_ring_member_state state = fg_ring_watch_member_state(watch);

    if (state == FG_RING_MEMBER_LEFT || state == FG_RING_MEMBER_REPLACED)
        return fg_fail(err, FG_E_PRECONDITION, "the ring membership is permanently %s",
                       fg_ring_member_state_name(state));
    return fg_ring_watch_wait(watch, deadline_mono_ns, err);
}

enum fg_code fg_ring_watch_wait_member(struct fg_ring_watch *watch, enum fg_ring_member_state state,
                                       int64_t deadline_mono_ns, struct fg_err *err)
{
    enum fg_code code = FG_OK;

    fg_thread_lock(&watch->thread);
    while (code == FG_OK && fg_ring_watch_member_state(watch) != state)
        code = wait_for_move(watch, deadline_mono_ns, err);
    fg_thread_unlock(&watch->thread);
    return code;
}

enum fg_code fg_ring_watch_wait_paused(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                       struct fg_err *err)
{
    enum fg_code code = FG_OK;

    fg_thread_lock(&watch->thread);
    while (code == FG_OK && !atomic_load(&watch->member_paused))
        code = wait_for_move(watch, deadline_mono_ns, err);
    fg_thread_unlock(&watch->thread);
    return code;
}
