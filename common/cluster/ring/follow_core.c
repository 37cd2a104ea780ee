#include "common/cluster/ring/follow_core.h"

void fg_ring_follow_init(struct fg_ring_follow *follow, const struct fg_ring_follow_config *config)
{
    *follow = (struct fg_ring_follow){.config = *config, .random = config->seed};
}

/* Schedules the next read after a failure: twice the pause of the last one, with full jitter, so
 * that processes do not come back together when the bucket does. */
static void fail(struct fg_ring_follow *follow, int64_t mono_ns)
{
    int64_t most = follow->config.backoff_min_ns << FG_MIN(follow->failures, 16);

    most = FG_MAX(FG_MIN(most, follow->config.backoff_max_ns), 1);
    follow->failures++;
    follow->random += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    follow->due_mono_ns =
        fg_time_add(mono_ns, (int64_t)(fg_mix64(follow->random) % (uint64_t)most));
    follow->wanted_due_mono_ns = follow->due_mono_ns;
}

static void end_read(struct fg_ring_follow *follow)
{
    fg_assert(follow->reading);
    follow->reading = false;
    follow->ended = follow->begun;
}

/* Takes a ring that was read over. Returns false if it is older than the copy: `swaps` counts
 * changes, and only another bucket or a restored backup has fewer. */
static bool accept_ring(struct fg_ring_follow *follow, const struct fg_ring_follow_event *event)
{
    end_read(follow);
    if (event->swaps < follow->swaps) {
        fail(follow, event->mono_ns);
        return false;
    }
    follow->ended_well = follow->ended;
    follow->swaps = event->swaps;
    follow->revision = event->revision;
    follow->failures = 0;
    follow->due_mono_ns = fg_time_add(event->mono_ns, follow->config.poll_ns);
    /* A wanted revision that is still missing may never come, if the peer that named it is
     * wrong. So it is looked for again after a pause. */
    follow->wanted_due_mono_ns = fg_time_add(
        event->mono_ns, follow->wanted > follow->revision ? follow->config.backoff_min_ns : 0);
    return true;
}

/* When the next read begins; INT64_MIN: at once. A caller with a ticket waits for no pause: it
 * causes one read, and no loop of them. */
static int64_t next_mono_ns(const struct fg_ring_follow *follow)
{
    if (follow->ticket > follow->begun)
        return INT64_MIN;
    return follow->wanted > follow->revision
               ? FG_MIN(follow->due_mono_ns, follow->wanted_due_mono_ns)
               : follow->due_mono_ns;
}

void fg_ring_follow_step(struct fg_ring_follow *follow, const struct fg_ring_follow_event *event,
                         struct fg_ring_follow_effects *ret_effects)
{
    struct fg_ring_follow_effects effects = {.wake_mono_ns = INT64_MAX};

    switch (event->kind) {
    case FG_RING_FOLLOW_TICK:
        break;
    case FG_RING_FOLLOW_WANTED:
        follow->wanted = FG_MAX(follow->wanted, event->revision);
        break;
    case FG_RING_FOLLOW_READ:
        effects.take = accept_ring(follow, event);
        follow->wanted = 0; /* who still knows of a newer one says so again */
        break;
    case FG_RING_FOLLOW_FAILED:
        end_read(follow);
        fail(follow, event->mono_ns);
        break;
    }
    /* One read at a time. A ticket counts reads that have begun, so a read that is under way now
     * does not serve a caller who asks now. */
    if (!follow->reading && event->mono_ns >= next_mono_ns(follow)) {
        follow->reading = effects.read = true;
        follow->begun++;
    }
    if (!follow->reading)
        effects.wake_mono_ns = next_mono_ns(follow);
    *ret_effects = effects;
}

uint64_t fg_ring_follow_ticket(struct fg_ring_follow *follow)
{
    follow->ticket = follow->begun + 1;
    return follow->ticket;
}
