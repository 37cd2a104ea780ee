#include "distributor/delivery/delivery_core.h"

/* Holds after each change. At most FG_RING_REPLICAS_MAX steps. */
static void delivery_check(const struct dist_delivery_core *core)
{
    fg_assert(core->quorum > 0 && core->quorum <= core->n_owners);
    fg_assert(core->n_replicas <= core->n_owners && core->n_owners <= FG_RING_REPLICAS_MAX);
    fg_assert(core->stored <= core->profiles);
    for (unsigned i = 0; i < core->n_replicas; i++) {
        const struct dist_delivery_replica *replica = &core->replicas[i];

        fg_assert(replica->send <= core->last_send);
        fg_assert(replica->state == REPLICA_UNSENT || replica->send > 0);
    }
}

unsigned dist_delivery_core_find(const struct dist_delivery_core *core, uint64_t key)
{
    unsigned i = 0;

    while (i < core->n_replicas && core->replicas[i].key != key)
        i++;
    return i;
}

bool dist_delivery_core_begin(struct dist_delivery_core *core,
                              const struct dist_delivery_owners *owners)
{
    bool restart = core->n_owners == 0 || owners->revision != core->revision;

    fg_assert(!core->in_round);
    if (restart) {
        /* A copy stored under another revision does not count: its owners may be others. */
        core->revision = owners->revision;
        core->quorum = owners->quorum;
        core->n_owners = owners->n_owners;
        core->n_replicas = 0;
        core->stored_before = FG_MAX(core->stored_before, core->stored);
        core->stored = core->profiles = 0;
    }
    for (unsigned i = 0; i < owners->n_keys; i++) {
        if (dist_delivery_core_find(core, owners->keys[i]) < core->n_replicas)
            continue;
        fg_assert(core->n_replicas < FG_RING_REPLICAS_MAX);
        core->replicas[core->n_replicas++] = (struct dist_delivery_replica){.key = owners->keys[i]};
    }
    core->awaits_all = owners->awaits_all;
    /* Per round: an owner that refused is asked again in the next one. */
    core->refused = (struct fg_err){.code = FG_OK};
    /* A client that gets no quorum reads why the peer is missing, even if no call to an owner
     * failed. */
    if (owners->n_keys < owners->n_owners)
        core->unresponsive = owners->err;
    delivery_check(core);
    return restart;
}

bool dist_delivery_core_is_due(const struct dist_delivery_core *core, unsigned replica)
{
    enum dist_replica_state state = core->replicas[replica].state;

    return state != REPLICA_STORED && state != REPLICA_IN_FLIGHT;
}

unsigned dist_delivery_core_send(struct dist_delivery_core *core,
                                 unsigned replicas[FG_RING_REPLICAS_MAX])
{
    unsigned n = 0;

    fg_assert(!core->in_round);
    core->in_round = true;
    for (unsigned i = 0; i < core->n_replicas; i++)
        if (dist_delivery_core_is_due(core, i)) {
            core->replicas[i].state = REPLICA_IN_FLIGHT;
            core->replicas[i].send = ++core->last_send;
            replicas[n++] = i;
        }
    delivery_check(core);
    return n;
}

enum dist_replica_state dist_replica_state_of(const struct dist_delivery_answer *answer)
{
    if (answer->err.code == FG_OK)
        return answer->lacks ? REPLICA_LACKS : REPLICA_STORED;
    /* Without a ring there is one ingester and nobody else to ask: its error goes to the client as
     * it is. Except that it was overtaken by its own segments, which passes: a client that was told
     * of a conflict would drop the profiles. */
    if (answer->revision == 0)
        return answer->err.code == FG_E_ABORTED ? REPLICA_UNRESPONSIVE : REPLICA_REFUSED;
    switch (answer->err.code) {
    case FG_E_PRECONDITION:
        /* Without a newer revision it is another process at the owner's address, such as a host
         * that was installed again: the owner is away, and the others are asked as ever. */
        return answer->newest > answer->revision ? REPLICA_STALE : REPLICA_UNRESPONSIVE;
    case FG_E_ABORTED:
        return REPLICA_EARLY;
    case FG_E_UNAVAILABLE:
    case FG_E_DEADLINE:
    case FG_E_CANCELED:
        return REPLICA_UNRESPONSIVE;
    default:
        return REPLICA_REFUSED;
    }
}

void dist_delivery_core_answer(struct dist_delivery_core *core, uint32_t send,
                               const struct dist_delivery_answer *answer)
{
    enum dist_replica_state state = dist_replica_state_of(answer);
    unsigned i = 0;

    while (i < core->n_replicas && core->replicas[i].send != send)
        i++;
    if (i == core->n_replicas) { /* sent under an earlier revision */
        if (state == REPLICA_STORED)
            core->stored_before = FG_MAX(core->stored_before, answer->stored);
        return;
    }
    fg_assert(core->replicas[i].state == REPLICA_IN_FLIGHT);
    core->replicas[i].state = state;
    if (state == REPLICA_STORED) {
        /* Every replica is sent the same profiles; one that has some of them already is behind. */
        core->stored = FG_MAX(core->stored, answer->stored);
        core->profiles = FG_MAX(core->profiles, answer->stored + answer->duplicates);
    } else if (state == REPLICA_STALE) {
        core->newest = FG_MAX(core->newest, answer->newest);
    } else if (state == REPLICA_UNRESPONSIVE) {
        core->unresponsive = answer->err;
    } else if (state == REPLICA_REFUSED && core->refused.code == FG_OK) {
        core->refused = answer->err;
        core->retry_after_s = answer->retry_after_s;
        core->limit_of = answer->limit_of;
    } else if (state == REPLICA_REFUSED && core->limit_of != answer->limit_of) {
        /* A tenant is at its limit at one owner, and another one is busy: whichever of the two ends
         * first makes the quorum. */
        core->limit_of = FG_LIMIT_OF_UNSAID;
    }
    delivery_check(core);
}

static void count_states(const struct dist_delivery_core *core, unsigned tally[REPLICA_STATES])
{
    memset(tally, 0, REPLICA_STATES * sizeof *tally);
    for (unsigned i = 0; i < core->n_replicas; i++)
        tally[core->replicas[i].state]++;
    tally[REPLICA_UNRESPONSIVE] += core->n_owners - core->n_replicas; /* owners without a peer */
}

/* Returns true and the state if the answers so far decide it. Adds up the replicas that have stored
 * the batch or still can, from the best state to the worst, until they are a quorum; the state that
 * completes the quorum is the result. */
static bool decide(const struct dist_delivery_core *core, enum dist_delivery_state *ret_state)
{
    unsigned tally[REPLICA_STATES], possible;

    fg_assert(core->quorum > 0);
    count_states(core, tally);
    possible = tally[REPLICA_STORED];
    if (possible >= core->quorum) {
        *ret_state = DELIVERY_STORED;
        return true;
    }
    if (tally[REPLICA_STALE] > 0) {
        /* Do not wait for the others: this revision has ended, and the count will start over. */
        *ret_state = DELIVERY_STALE;
        return true;
    }
    possible += tally[REPLICA_LACKS];
    if (possible >= core->quorum) {
        *ret_state = DELIVERY_LACKS;
        return true;
    }
    possible += tally[REPLICA_IN_FLIGHT];
    /* Wait: the sends in flight may still complete the quorum. */
    if (possible >= core->quorum)
        return false;
    possible += tally[REPLICA_EARLY];
    if (possible >= core->quorum)
        *ret_state = DELIVERY_EARLY;
    else
        *ret_state = possible + tally[REPLICA_UNRESPONSIVE] >= core->quorum ? DELIVERY_UNRESPONSIVE
                                                                            : DELIVERY_REFUSED;
    return true;
}

static bool has_replica(const struct dist_delivery_core *core, enum dist_replica_state state)
{
    for (unsigned i = 0; i < core->n_replicas; i++)
        if (core->replicas[i].state == state)
            return true;
    return false;
}

bool dist_delivery_core_end_round(struct dist_delivery_core *core)
{
    enum dist_delivery_state state;

    if (!core->in_round || !decide(core, &state))
        return false;
    if (state == DELIVERY_REFUSED && core->awaits_all && has_replica(core, REPLICA_IN_FLIGHT))
        return false;
    core->in_round = false;
    return true;
}

void dist_delivery_core_result(const struct dist_delivery_core *core,
                               struct dist_delivery_result *ret_result)
{
    struct dist_delivery_result result = {0};
    unsigned tally[REPLICA_STATES];
    bool decided;

    fg_assert(!core->in_round);
    /* Answers that came after the end of the round count, too; they cannot undecide it. */
    decided = decide(core, &result.state);
    fg_assert(decided);
    switch (result.state) {
    case DELIVERY_STORED:
        /* A profile that this delivery has stored in an earlier round is no duplicate, although all
         * owners that answered now had it. */
        result.stored = FG_MIN(core->profiles, FG_MAX(core->stored, core->stored_before));
        result.duplicates = core->profiles - result.stored;
        break;
    case DELIVERY_LACKS:
        result.stored = FG_MAX(core->stored, core->stored_before);
        (void)fg_fail(&result.err, FG_E_UNAVAILABLE, "ingester keeps asking for definitions");
        break;
    case DELIVERY_STALE:
        result.revision = core->newest;
        (void)fg_fail(
            &result.err, FG_E_UNAVAILABLE,
            "the ring has changed: revision %llu has ended, and revision %llu is not loaded yet",
            (unsigned long long)core->revision, (unsigned long long)core->newest);
        break;
    case DELIVERY_EARLY:
        (void)fg_fail(&result.err, FG_E_UNAVAILABLE,
                      "the ring has changed: ingesters have not loaded revision %llu yet",
                      (unsigned long long)core->revision);
        break;
    case DELIVERY_UNRESPONSIVE:
        count_states(core, tally);
        (void)fg_fail(&result.err, FG_E_UNAVAILABLE,
                      "%u of the %u ingesters that own this series must acknowledge, %u did: %s",
                      core->quorum, core->n_owners,
                      core->n_owners - tally[REPLICA_UNRESPONSIVE] - tally[REPLICA_IN_FLIGHT],
                      core->unresponsive.msg);
        break;
    case DELIVERY_REFUSED:
        result.err = core->refused;
        result.retry_after_s = core->retry_after_s;
        result.limit_of = core->limit_of;
        break;
    }
    /* Of the replicas alone: an owner without a peer was sent nothing. */
    result.maybe_stored = has_replica(core, REPLICA_STORED) ||
                          has_replica(core, REPLICA_IN_FLIGHT) ||
                          has_replica(core, REPLICA_UNRESPONSIVE);
    *ret_result = result;
}
