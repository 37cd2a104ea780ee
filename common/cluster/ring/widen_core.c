#include "common/cluster/ring/widen_core.h"

void fg_ring_widen_init(struct fg_ring_widen *widen, const struct fg_ring_widen_config *config)
{
    *widen = (struct fg_ring_widen){.config = *config, .idle = true, .random = config->seed};
}

/* Asks for a read of the ring, at once. */
static void look_now(struct fg_ring_widen *widen)
{
    widen->look = true;
    widen->not_before_mono_ns = INT64_MIN;
}

/* Asks for a read after `least` plus a random part of `more`: distributors that lost a swap
 * together do not come back together. */
static void look_after(struct fg_ring_widen *widen, int64_t mono_ns, int64_t least, int64_t more)
{
    widen->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    widen->look = true;
    widen->not_before_mono_ns =
        fg_time_add(fg_time_add(mono_ns, least),
                    (int64_t)(fg_mix64(widen->random) % (uint64_t)FG_MAX(more, 1)));
}

static void look_later(struct fg_ring_widen *widen, int64_t mono_ns)
{
    int64_t most = widen->config.backoff_min_ns << FG_MIN(widen->failures, 16);

    widen->failures++;
    look_after(widen, mono_ns, 0, FG_MIN(most, widen->config.backoff_max_ns));
}

static void on_ring(struct fg_ring_widen *widen, const struct fg_ring_widen_event *event,
                    struct fg_ring_widen_effects *effects)
{
    const struct fg_ring_change change = {
        .kind = FG_RING_WIDEN,
        .name = fg_bytes(widen->wish.tenant, widen->wish.tenant_len),
        .shard_factor = widen->wish.shard_factor,
        .since_ns = fg_time_add(event->wall_ns, widen->config.lead_ns),
    };
    struct fg_err err;

    /* The shell carries a swap out before it reads again. */
    fg_assert(!widen->swapping);
    if (widen->look && event->mono_ns < widen->not_before_mono_ns &&
        fg_ring_shard_factor_at(event->ring, change.name, INT64_MAX) < change.shard_factor)
        return; /* somebody else wanted to know */
    widen->look = false;
    if (fg_ring_apply(event->ring, &change, event->arena, &effects->ring, &effects->swap, &err) !=
        FG_OK) {
        look_later(widen, event->mono_ns); /* the ring is full of something, as yet */
        return;
    }
    widen->swapping = effects->swap;
    widen->idle = !effects->swap;
    if (widen->idle)
        widen->failures = 0;
}

static void on_swapped(struct fg_ring_widen *widen, const struct fg_ring_widen_event *event)
{
    fg_assert(widen->swapping);
    widen->swapping = false;
    /* A read either way: only the ring tells if the change was made. A bucket that denies the
     * swap (read-only credentials) is asked rarely. */
    if (event->won)
        look_now(widen);
    else if (event->denied)
        look_after(widen, event->mono_ns, widen->config.denied_ns, widen->config.denied_ns);
    else
        look_later(widen, event->mono_ns);
}

void fg_ring_widen_step(struct fg_ring_widen *widen, const struct fg_ring_widen_event *event,
                        struct fg_ring_widen_effects *ret_effects)
{
    struct fg_ring_widen_effects effects = {.wake_mono_ns = INT64_MAX};

    switch (event->kind) {
    case FG_RING_WIDEN_TICK:
        break;
    case FG_RING_WIDEN_WANT:
        fg_assert(widen->idle);
        widen->wish = *event->wish;
        widen->idle = false;
        look_now(widen);
        break;
    case FG_RING_WIDEN_RING:
        if (!widen->idle)
            on_ring(widen, event, &effects);
        break;
    case FG_RING_WIDEN_SWAPPED:
        on_swapped(widen, event);
        break;
    }
    if (widen->look && !widen->swapping) {
        effects.read = event->mono_ns >= widen->not_before_mono_ns;
        widen->look = !effects.read; /* once: who reads tries until it works */
        effects.wake_mono_ns = effects.read ? INT64_MAX : widen->not_before_mono_ns;
    }
    *ret_effects = effects;
}
