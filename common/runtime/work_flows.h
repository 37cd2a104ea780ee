/*
 * The flows of a lane (work.h): which job is next. Pure: the lane's lock is around every call, and
 * workers are numbers here.
 *
 * Flows share the lane by what their jobs cost, as start-time fair queueing does (P. Goyal, H. Vin,
 * H. Cheng, "Start-Time Fair Queuing", 1996). Each flow counts the cost of its jobs so far, and the
 * flow with the least goes first. A job costs FLOW_JOB_COST at its start; what it costs besides is
 * charged while it runs, since a query knows its cost only once it is planned. A new flow starts
 * at the cost that the flow of the last started job had before that job. So it neither catches up
 * on what it did not use nor pays for others. A flow without jobs is kept while it is ahead of
 * that, or it would lose its costs by waiting for each answer before it asks the next question.
 *
 * A flow is never further ahead than FLOW_AHEAD_MAX: one giant job is not held against it for long.
 *
 * Order alone is not enough, since a job that runs is not interrupted. So threads are shared as
 * well. A flow that is alone uses all workers, with its jobs and with their helpers. While another
 * flow is active, it leaves one of them idle, so a job of the other one finds a processor without
 * work and not just a thread. A flow is active from its first job until FLOW_RECENT_NS after its
 * last one: the next job of a client that asks now and then is the one to keep the worker for. So
 * jobs also become startable by time alone, which fg_work_flows_ripe_mono_ns() foretells.
 *
 * That costs a flow a worker, half of two. A lane whose jobs are short may do without (`whole`):
 * there another flow's job waits for a processor, not for a worker.
 *
 * The lane has more threads than workers, the guests. They run a job only of a flow that has none
 * running. So a flow's first job waits for no job of another flow, even if these were alone until
 * now and use all workers; the operating system divides the processors then. Jobs of all flows that
 * run at a time are at most workers + guests.
 *
 * Thread: one at a time. Memory: a flow for each that has jobs, and FLOWS_IDLE_MAX others.
 */
#ifndef FG_COMMON_RUNTIME_WORK_FLOWS_H
#define FG_COMMON_RUNTIME_WORK_FLOWS_H

#include "common/base/time.h"
#include "common/runtime/job.h"

enum {
    FLOW_JOB_COST = 64 * 1024, /* in bytes read, which is how the querier counts: about 0.1 ms */
    FLOWS_IDLE_MAX = 256,      /* each start of a job walks over them */
};
#define FLOW_AHEAD_MAX (UINT64_C(1) << 30) /* bytes read, like FLOW_JOB_COST */
#define FLOW_RECENT_NS FG_SECOND_NS        /* somebody at a screen asks again within it */

struct fg_work_queue {
    struct fg_job *first, *last; /* oldest first */
};
/* Appends a job. */
void fg_work_queue_push(struct fg_work_queue *queue, struct fg_job *job);
/* Removes the oldest job. The queue must not be empty. */
struct fg_job *fg_work_queue_pop(struct fg_work_queue *queue);

struct fg_work_flow {
    struct fg_work_flow *next, *prev; /* in the ring */
    struct fg_flow flow;              /* limits as of the last job */
    struct fg_work_queue queue;
    unsigned queued, running;
    unsigned helping; /* workers that help its jobs */
    uint64_t spent;   /* cost so far, on the lane's scale */
};

/* A flow that had a job, by its id: it may be gone. */
struct fg_work_recent {
    uint64_t id;
    int64_t until_mono_ns; /* it is active until then, unless it has jobs; 0: none */
};

/* Starts with the numbers of threads set, and all else zero. */
struct fg_work_flows {
    unsigned workers, guests;
    bool whole;                /* flows leave no worker idle */
    struct fg_work_flow *turn; /* a ring; the flow that is first among equals; NULL: none */
    unsigned running, helping; /* of all flows; helpers also of callers that have none */
    unsigned n_busy, n_idle;   /* flows in the ring with jobs, and without */
    uint64_t started;          /* `spent` of the flow whose job started last, before that job */
    struct fg_work_recent recent[2]; /* the last flows that were active; the last one first */
};

/* Returns the number of waiting jobs of a flow, by its id. */
unsigned fg_work_flows_queued(const struct fg_work_flows *flows, uint64_t id);

/* Adds a job, whose time is set, to its flow, and takes over the flow's limits. */
void fg_work_flows_add(struct fg_work_flows *flows, const struct fg_flow *flow, struct fg_job *job);

/* Returns the flow whose job is next; NULL: none may start one. */
struct fg_work_flow *fg_work_flows_next(const struct fg_work_flows *flows, int64_t now_mono_ns);

/* Returns when a job that may not start now may start although nothing else changes, since other
 * flows are not active any more; INT64_MAX: never. Somebody has to look for a job then. */
int64_t fg_work_flows_ripe_mono_ns(const struct fg_work_flows *flows, int64_t now_mono_ns);

/* Takes the first job of a flow from fg_work_flows_next(). */
struct fg_job *fg_work_flows_start(struct fg_work_flows *flows, struct fg_work_flow *flow);

/* Adds to the cost of a flow that has a job running. */
void fg_work_flows_charge(struct fg_work_flows *flows, struct fg_work_flow *flow, uint64_t cost);

/* Counts that a job has ended. The flow may be gone afterwards. */
void fg_work_flows_ended(struct fg_work_flows *flows, struct fg_work_flow *flow,
                         int64_t now_mono_ns);

/* Counts one more helper of a flow that has a job running, or of a caller that has no flow (NULL).
 * Returns false if it gets none: a worker would not be idle, or the flow is to leave it idle. */
bool fg_work_flows_lend(struct fg_work_flows *flows, struct fg_work_flow *flow,
                        int64_t now_mono_ns) fg_must_check;

/* Returns whether a helper of the flow should return: a job may start, or the helper would not be
 * lent any more. */
bool fg_work_flows_recalls(const struct fg_work_flows *flows, const struct fg_work_flow *flow,
                           int64_t now_mono_ns);

/* Counts that a helper has returned. */
void fg_work_flows_returned(struct fg_work_flows *flows, struct fg_work_flow *flow);

/* Returns when the oldest waiting job was queued, or otherwise_mono_ns if none waits. */
int64_t fg_work_flows_oldest_mono_ns(const struct fg_work_flows *flows, int64_t otherwise_mono_ns);

/* Frees the flows, none of which has jobs. */
void fg_work_flows_done(struct fg_work_flows *flows);

#endif
