#include "ingester/maintenance.h"

#include "common/runtime/log.h"

#include <time.h>

/* A member that serves answers a ping within milliseconds. Those who write do not wait much longer
 * for one that needs seconds. */
static const int64_t PING_TIMEOUT_NS = 2 * FG_SECOND_NS;
/* Between two rounds. */
static const int64_t PAUSE_NS = FG_SECOND_NS;
/* Of the swap that counts an override; a process that is to stop does not wait for a bucket. */
static const int64_t OVERRIDE_TIMEOUT_NS = 5 * FG_SECOND_NS;

/* The members that are asked in a round, n of each. */
struct asked_round {
    const struct fg_ring_member **members;
    struct fg_peer **peers;
    struct fg_call *calls;
    uint32_t n;
    const struct fg_ring_member *away; /* NULL: each has answered so far */
};

static void add_member(struct asked_round *round, struct fg_peers *peers,
                       const struct fg_ring_member *member)
{
    char url[FG_RING_ADDRESS_MAX_BYTES + 1];
    struct fg_err err;

    (void)snprintf(url, sizeof url, "%.*s", FG_S(member->address));
    if (fg_peers_get(peers, url, &round->peers[round->n], &err) != FG_OK) {
        round->away = member;
        return;
    }
    round->members[round->n] = member;
    round->calls[round->n++] = (struct fg_call){
        .method = FG_RPC_PING, .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + PING_TIMEOUT_NS};
}

/* Adds those for which this member has to wait. For members in maintenance it waits in the ring. */
static void add_members(struct asked_round *round, const struct ing_maintenance *maintenance,
                        const struct fg_ring *ring)
{
    const struct fg_ring_revision *newest = &ring->revisions[ring->n_revisions - 1];
    uint32_t own = fg_ring_find(ring, maintenance->name);

    round->members = fg_calloc(newest->n_places, sizeof(struct fg_ring_member *));
    round->peers = fg_calloc(newest->n_places, sizeof(struct fg_peer *));
    round->calls = fg_calloc(newest->n_places, sizeof(struct fg_call));
    for (uint32_t i = 0; i < newest->n_places; i++) {
        uint32_t other = newest->places[i].member;

        if (other != own && !fg_ring_is_paused(ring, other) &&
            !fg_ring_may_be_away_together(ring, own, other))
            add_member(round, maintenance->peers, &ring->members[other]);
    }
}

/* Asks all members once. FG_E_UNAVAILABLE: one does not answer; err names it. */
static enum fg_code ask_others(const struct ing_maintenance *maintenance, struct fg_err *err)
{
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(maintenance->watch);
    struct asked_round round = {0};

    /* Without a place in the ring there is nothing that others would lack. */
    if (view == NULL || fg_ring_find(&view->ring, maintenance->name) == FG_RING_NO_MEMBER)
        return FG_OK;
    add_members(&round, maintenance, &view->ring);
    fg_peer_call_all(round.peers, round.calls, round.n);
    for (uint32_t i = 0; i < round.n; i++) {
        if (round.calls[i].code != FG_OK)
            round.away = round.members[i];
        fg_call_done(round.peers[i], &round.calls[i]);
        fg_peers_put(maintenance->peers, round.peers[i]);
    }
    free(round.members);
    free(round.peers);
    free(round.calls);
    if (round.away == NULL)
        return FG_OK;
    return fg_fail(err, FG_E_UNAVAILABLE, "%.*s does not answer", FG_S(round.away->name));
}

static enum fg_code wait_for_others(const struct ing_maintenance *maintenance,
                                    int64_t deadline_mono_ns, struct fg_err *err)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS % FG_SECOND_NS,
                                   .tv_sec = PAUSE_NS / FG_SECOND_NS};
    bool told = false;

    while (ask_others(maintenance, err) != FG_OK) {
        if (fg_mono_ns(fg_clock_real()) >= deadline_mono_ns)
            return err->code;
        if (!told)
            fg_log_info("waiting with the stop for another ingester", fg_ls("err", err->msg));
        told = true;
        (void)nanosleep(&pause, NULL);
    }
    return FG_OK;
}

void ing_maintenance_begin(const struct ing_maintenance *maintenance)
{
    int64_t deadline_mono_ns = fg_mono_ns(fg_clock_real()) + maintenance->wait_ns;
    struct fg_err err;

    if (wait_for_others(maintenance, deadline_mono_ns, &err) == FG_OK) {
        fg_ring_watch_pause(maintenance->watch, false);
        if (fg_ring_watch_wait_paused(maintenance->watch, deadline_mono_ns, &err) == FG_OK)
            return;
    }
    fg_log_warn("stopping although another ingester is away or the ring cannot be read",
                fg_ls("err", err.msg));
    fg_ring_watch_pause(maintenance->watch, true);
    if (fg_ring_watch_wait_paused(maintenance->watch,
                                  fg_mono_ns(fg_clock_real()) + OVERRIDE_TIMEOUT_NS, &err) != FG_OK)
        fg_log_warn("maintenance could not be written to the ring", fg_ls("err", err.msg));
}
