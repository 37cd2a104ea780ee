/* Raising shard factors: the shell of widen_core.h. */
#include "common/cluster/ring/watch_impl.h"
#include "common/runtime/log.h"

static const int64_t DENIED_NS = 10 * FG_MINUTE_NS; /* permissions change by people's hands */
/* Longer than the age of a copy while the bucket answers, and than the difference between clocks of
 * machines that send profiles: until then every distributor has loaded the ring. */
static const int64_t WIDEN_LEAD_NS = 15 * FG_MINUTE_NS;

void fg_ring_watch_init_widen(struct fg_ring_watch *watch, uint64_t seed)
{
    fg_ring_widen_init(&watch->widen, &(struct fg_ring_widen_config){
                                          .backoff_min_ns = FG_RING_WATCH_BACKOFF_MIN_NS,
                                          .backoff_max_ns = FG_RING_WATCH_BACKOFF_MAX_NS,
                                          .denied_ns = DENIED_NS,
                                          .seed = seed,
                                          .lead_ns = WIDEN_LEAD_NS,
                                      });
}

static void widen_step(struct fg_ring_watch *watch, struct fg_ring_widen_event *event)
{
    struct fg_ring_widen_effects effects;
    bool was_idle = watch->widen.idle;

    event->mono_ns = fg_ring_watch_now(watch);
    fg_ring_widen_step(&watch->widen, event, &effects);
    watch->widen_wake_mono_ns = effects.wake_mono_ns;
    if (watch->widen.idle && !was_idle) {
        /* The ring has the factor: callers may ask for the next one. */
        const struct fg_ring_wish *wish = &watch->widen.wish;

        fg_log_info("the ring has a tenant's new shard factor",
                    fg_lb("tenant", fg_bytes(wish->tenant, wish->tenant_len)),
                    fg_lu("shard_factor", wish->shard_factor));
        fg_thread_lock(&watch->thread);
        watch->widening = false;
        fg_thread_unlock(&watch->thread);
    }
    if (effects.read)
        fg_ring_watch_ask_to_read(watch);
    if (effects.swap) {
        struct fg_ring_widen_event swapped = {.kind = FG_RING_WIDEN_SWAPPED};

        enum fg_code code = fg_ring_watch_swap(watch, &effects.ring);

        swapped.won = code == FG_OK;
        swapped.denied = code == FG_E_DENIED;
        widen_step(watch, &swapped);
    }
}

void fg_ring_watch_show_widen(struct fg_ring_watch *watch)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring_widen_event event = {
        .kind = FG_RING_WIDEN_RING, .ring = &watch->copy->ring, .arena = arena};

    event.wall_ns = watch->read.answered_wall_ns != 0 ? watch->read.answered_wall_ns
                                                      : fg_wall_ns(watch->config.clock);
    widen_step(watch, &event);
}

void fg_ring_watch_tell_widen(struct fg_ring_watch *watch, const struct fg_ring_watch_asked *asked)
{
    struct fg_ring_widen_event event = {.kind = FG_RING_WIDEN_WANT, .wish = &asked->wish};

    if (!asked->wishes)
        event.kind = FG_RING_WIDEN_TICK;
    if (asked->wishes || fg_ring_watch_now(watch) >= watch->widen_wake_mono_ns)
        widen_step(watch, &event);
}
