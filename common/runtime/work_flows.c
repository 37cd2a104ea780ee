#include "common/runtime/work_flows.h"

void fg_work_queue_push(struct fg_work_queue *queue, struct fg_job *job)
{
    job->next = NULL;
    if (queue->first == NULL)
        queue->first = job;
    else
        queue->last->next = job;
    queue->last = job;
}

struct fg_job *fg_work_queue_pop(struct fg_work_queue *queue)
{
    struct fg_job *job = queue->first;

    /* `last` is stale once the queue is empty: push looks at `first`. */
    queue->first = job->next;
    return job;
}

/* ---- the ring ---- */

static bool is_idle(const struct fg_work_flow *flow)
{
    return flow->queued + flow->running == 0;
}

/* Returns NULL if there is none of that id. A walk of the ring: it has FLOWS_IDLE_MAX flows more
 * than jobs at most. */
static struct fg_work_flow *find(const struct fg_work_flows *flows, uint64_t id)
{
    struct fg_work_flow *flow = flows->turn;

    if (flow == NULL)
        return NULL;
    do {
        if (flow->flow.id == id)
            return flow;
        flow = flow->next;
    } while (flow != flows->turn);
    return NULL;
}

/* Inserts a flow before `turn`, so of flows with the same cost it is served last. It counts as idle
 * until its first job is added. */
static struct fg_work_flow *insert(struct fg_work_flows *flows)
{
    struct fg_work_flow *flow = fg_new(struct fg_work_flow);

    flow->spent = flows->started;
    flows->n_idle++;
    if (flows->turn == NULL) {
        flow->next = flow->prev = flows->turn = flow;
        return flow;
    }
    flow->next = flows->turn;
    flow->prev = flows->turn->prev;
    flow->prev->next = flow->next->prev = flow;
    return flow;
}

static void delete_idle(struct fg_work_flows *flows, struct fg_work_flow *flow)
{
    fg_assert(is_idle(flow) && flows->n_idle > 0);
    flows->n_idle--;
    if (flows->turn == flow)
        flows->turn = flow->next == flow ? NULL : flow->next;
    flow->prev->next = flow->next;
    flow->next->prev = flow->prev;
    free(flow);
}

/* Forgets idle flows that are not ahead any more: made again, they would start at the same cost. */
static void forget_idle(struct fg_work_flows *flows)
{
    struct fg_work_flow *flow = flows->turn, *next;
    /* Counts down instead of comparing with `turn`, which changes when that flow is deleted. */
    unsigned left = flows->n_idle;

    for (; left > 0; flow = next) {
        next = flow->next;
        if (!is_idle(flow))
            continue;
        left--;
        if (flow->spent <= flows->started)
            delete_idle(flows, flow);
    }
}

/* Notes that a flow has or had a job now. */
static void note_active(struct fg_work_flows *flows, uint64_t id, int64_t now_mono_ns)
{
    if (flows->recent[0].id != id)
        flows->recent[1] = flows->recent[0];
    flows->recent[0] = (struct fg_work_recent){id, fg_time_add(now_mono_ns, FLOW_RECENT_NS)};
}

/* Makes room for one more idle flow: of those that are ahead, the least is forgiven. */
static void limit_idle(struct fg_work_flows *flows)
{
    struct fg_work_flow *flow = flows->turn, *least = NULL;

    if (flows->n_idle <= FLOWS_IDLE_MAX)
        return;
    do {
        if (is_idle(flow) && (least == NULL || flow->spent < least->spent))
            least = flow;
        flow = flow->next;
    } while (flow != flows->turn);
    fg_assert(least != NULL);
    delete_idle(flows, least);
}

/* ---- jobs ---- */

unsigned fg_work_flows_queued(const struct fg_work_flows *flows, uint64_t id)
{
    const struct fg_work_flow *flow = find(flows, id);

    return flow == NULL ? 0 : flow->queued;
}

void fg_work_flows_add(struct fg_work_flows *flows, const struct fg_flow *flow, struct fg_job *job)
{
    struct fg_work_flow *to = find(flows, flow->id);

    if (to == NULL)
        to = insert(flows);
    /* Limits may have changed since the last job; the newest ones count. */
    to->flow = *flow;
    if (is_idle(to)) {
        flows->n_idle--;
        flows->n_busy++;
        /* A flow does not save up the share that it did not use while it was idle. */
        to->spent = FG_MAX(to->spent, flows->started);
    }
    note_active(flows, flow->id, job->queued_mono_ns);
    fg_work_queue_push(&to->queue, job);
    to->queued++;
    job->flow = to;
}

/* Returns until when flows that have no jobs are active, other than `flow`; 0: none is. Two recent
 * flows are enough: of two one is another one than `flow`. */
static int64_t others_until_mono_ns(const struct fg_work_flows *flows,
                                    const struct fg_work_flow *flow)
{
    int64_t until = 0;

    for (size_t i = 0; i < FG_COUNT(flows->recent); i++)
        if (flows->recent[i].id != flow->flow.id)
            until = FG_MAX(until, flows->recent[i].until_mono_ns);
    return until;
}

/* Returns how many workers the flow may use, with its jobs and their helpers. */
static unsigned share(const struct fg_work_flows *flows, const struct fg_work_flow *flow,
                      int64_t now_mono_ns)
{
    return flows->workers > 1 && !flows->whole &&
                   (flows->n_busy > !is_idle(flow) ||
                    others_until_mono_ns(flows, flow) > now_mono_ns)
               ? flows->workers - 1
               : flows->workers;
}

static bool may_run(const struct fg_work_flows *flows, const struct fg_work_flow *flow,
                    int64_t now_mono_ns)
{
    if (flow->queued == 0 ||
        (flow->flow.running_max > 0 && flow->running >= flow->flow.running_max))
        return false;
    /* Without helpers: those in its place return once this says yes. */
    if (flow->running == 0)
        return flows->running < flows->workers + flows->guests;
    return flows->running < flows->workers && flow->running < share(flows, flow, now_mono_ns);
}

struct fg_work_flow *fg_work_flows_next(const struct fg_work_flows *flows, int64_t now_mono_ns)
{
    struct fg_work_flow *flow = flows->turn, *best = NULL;

    if (flow == NULL)
        return NULL;
    /* `<` keeps the first of equals, which is the one that waits longest for its turn. */
    do {
        if (may_run(flows, flow, now_mono_ns) && (best == NULL || flow->spent < best->spent))
            best = flow;
        flow = flow->next;
    } while (flow != flows->turn);
    return best;
}

int64_t fg_work_flows_ripe_mono_ns(const struct fg_work_flows *flows, int64_t now_mono_ns)
{
    const struct fg_work_flow *flow = flows->turn;
    int64_t ripe = INT64_MAX;

    if (flow == NULL)
        return ripe;
    do {
        int64_t until = others_until_mono_ns(flows, flow);

        if (until < ripe && !may_run(flows, flow, now_mono_ns) && may_run(flows, flow, until))
            ripe = until;
        flow = flow->next;
    } while (flow != flows->turn);
    return ripe;
}

struct fg_job *fg_work_flows_start(struct fg_work_flows *flows, struct fg_work_flow *flow)
{
    struct fg_job *job = fg_work_queue_pop(&flow->queue);

    flow->queued--;
    flow->running++;
    flows->running++;
    /* Before the job runs: of flows that have spent the same, the one that was served is served
     * last again. */
    flows->turn = flow->next;
    /* It may be less: a flow that had to wait for a worker has kept its place. */
    flows->started = FG_MAX(flows->started, flow->spent);
    fg_work_flows_charge(flows, flow, FLOW_JOB_COST);
    forget_idle(flows);
    return job;
}

void fg_work_flows_charge(struct fg_work_flows *flows, struct fg_work_flow *flow, uint64_t cost)
{
    uint64_t limit = flows->started + FLOW_AHEAD_MAX;

    fg_assert(flow->running > 0);
    /* Compares with the difference, since the sum may overflow: a cost comes from the caller. */
    flow->spent = flow->spent >= limit || cost > limit - flow->spent ? FG_MAX(limit, flow->spent)
                                                                     : flow->spent + cost;
}

void fg_work_flows_ended(struct fg_work_flows *flows, struct fg_work_flow *flow,
                         int64_t now_mono_ns)
{
    fg_assert(flow->running > 0 && flows->running > 0);
    note_active(flows, flow->flow.id, now_mono_ns);
    flow->running--;
    flows->running--;
    if (!is_idle(flow))
        return;
    fg_assert(flow->helping == 0 && flows->n_busy > 0);
    flows->n_busy--;
    flows->n_idle++;
    if (flow->spent <= flows->started)
        delete_idle(flows, flow);
    else
        limit_idle(flows);
}

/* ---- helpers ---- */

static unsigned used(const struct fg_work_flows *flows)
{
    return flows->running + flows->helping;
}

bool fg_work_flows_lend(struct fg_work_flows *flows, struct fg_work_flow *flow, int64_t now_mono_ns)
{
    fg_assert(flow == NULL || flow->running > 0);
    if (used(flows) >= flows->workers || fg_work_flows_next(flows, now_mono_ns) != NULL ||
        (flow != NULL && flow->running + flow->helping >= share(flows, flow, now_mono_ns)))
        return false;
    flows->helping++;
    if (flow != NULL)
        flow->helping++;
    return true;
}

bool fg_work_flows_recalls(const struct fg_work_flows *flows, const struct fg_work_flow *flow,
                           int64_t now_mono_ns)
{
    return used(flows) > flows->workers || fg_work_flows_next(flows, now_mono_ns) != NULL ||
           (flow != NULL && flow->running + flow->helping > share(flows, flow, now_mono_ns));
}

void fg_work_flows_returned(struct fg_work_flows *flows, struct fg_work_flow *flow)
{
    fg_assert(flows->helping > 0);
    flows->helping--;
    if (flow == NULL)
        return;
    fg_assert(flow->helping > 0 && flow->running > 0);
    flow->helping--;
}

int64_t fg_work_flows_oldest_mono_ns(const struct fg_work_flows *flows, int64_t otherwise_mono_ns)
{
    const struct fg_work_flow *flow = flows->turn;
    int64_t oldest = otherwise_mono_ns;

    if (flow == NULL)
        return oldest;
    do {
        if (flow->queue.first != NULL)
            oldest = FG_MIN(oldest, flow->queue.first->queued_mono_ns);
        flow = flow->next;
    } while (flow != flows->turn);
    return oldest;
}

void fg_work_flows_done(struct fg_work_flows *flows)
{
    while (flows->turn != NULL)
        delete_idle(flows, flows->turn);
    fg_assert(flows->n_idle == 0 && flows->n_busy == 0 && flows->helping == 0);
}
