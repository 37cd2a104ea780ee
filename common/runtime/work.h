/*
 * A bounded pool of workers for work that a loop must not do: decoding, compression, disk, merging.
 * The run() of a job is straight-line code on a worker and may block. Its done() runs on the loop
 * that the job came from.
 *
 * The pool has lanes. Each lane has a bounded queue and its own workers, so that many jobs of one
 * kind leave room for the others. If a lane is full, the client gets 429 or 503 with Retry-After.
 *
 * Jobs may belong to flows, for example one per tenant, which share a lane fairly: the next job is
 * one of the flow whose jobs have cost least so far, first in first out within each flow, and a
 * flow leaves a worker idle for others that are active, unless the lane says otherwise
 * (work_flows.h). Jobs without a flow are one
 * of their own. A flow may have fewer jobs waiting than there is room left in the queue: a single
 * flow gets half of the queue, the next one half of the rest, and so a new flow finds room. A flow
 * may have limits of its own besides.
 *
 * A pinned job goes to one worker of the lane, the same one for the same pin. Data that only such
 * jobs use needs no lock.
 */
#ifndef FG_COMMON_RUNTIME_WORK_H
#define FG_COMMON_RUNTIME_WORK_H

#include "common/runtime/job.h"

struct fg_work;

enum fg_lane {
    FG_LANE_INGEST,
    FG_LANE_QUERY,
    FG_LANE_BACKGROUND,
    FG_LANE_BULK, /* nobody waits for single jobs: its threads have a low priority, and let
                     foreground work pass (foreground.h) */
    FG_LANES
};

struct fg_lane_config {
    unsigned threads;   /* workers of this lane; 0: the lane refuses everything */
    unsigned queue_max; /* jobs waiting, all of the lane's workers together */
    unsigned guests;    /* further threads, for flows that have no job running (work_flows.h) */
    bool whole;         /* a flow leaves no worker idle for others; with guests */
};

/* Starts the workers. name is a prefix of the names of threads ("ing" gives "ing-ingest-0"), of
 * which five letters are used. FG_E_UNAVAILABLE: no more threads. */
enum fg_code fg_work_create(const char *name, const struct fg_lane_config lanes[FG_LANES],
                            struct fg_work **ret_work, struct fg_err *err) fg_must_check;

/*
 * Runs the queued jobs, then ends the threads and frees the pool. It refuses jobs that are
 * submitted meanwhile. Call it before the loops stop, because done() runs on them. Accepts NULL.
 */
void fg_work_destroy(struct fg_work *work);
FG_AUTO(fg_work, fg_work_destroy)

/*
 * Submits a job, whose run and done are set. The job belongs to the pool until done() is called.
 * Returns false if the lane is full or has no threads; the job is unchanged then. Any thread.
 */
bool fg_work_submit(struct fg_work *work, enum fg_lane lane, struct fg_job *job) fg_must_check;

enum fg_submit {
    FG_SUBMIT_QUEUED,
    FG_SUBMIT_LANE_FULL, /* the lane, or the flow's share of it */
    FG_SUBMIT_FLOW_FULL, /* queued_max jobs of the flow wait */
};

/* Submits a job of a flow. The flow's limits are those of the job that was submitted last. Unless
 * the job is queued, it is unchanged. Any thread. */
enum fg_submit fg_work_submit_flow(struct fg_work *work, enum fg_lane lane,
                                   const struct fg_flow *flow, struct fg_job *job) fg_must_check;

/* Adds to what a running job costs its flow (work_flows.h), in bytes that it reads. Does nothing if
 * the job has no flow. From run(). */
void fg_work_charge(struct fg_work *work, enum fg_lane lane, struct fg_job *job, uint64_t cost);

/* Submits a job to worker pin % threads of the lane. That worker runs such jobs in order. */
bool fg_work_submit_pinned(struct fg_work *work, enum fg_lane lane, uint64_t pin,
                           struct fg_job *job) fg_must_check;

/*
 * Submits a job that only helps a running one, `owner` (task_group.h), and ends before it. Returns
 * false unless a worker of the lane is idle that the owner's flow may use, so that a helper never
 * delays a job. Each helper takes one idle worker. A refused helper does not count as refused.
 * owner NULL: it helps a thread that is no worker.
 */
bool fg_work_submit_helper(struct fg_work *work, enum fg_lane lane, const struct fg_job *owner,
                           struct fg_job *job) fg_must_check;

/* Returns whether helpers of the owner should return: a job waits that a worker of the lane could
 * run, or the owner's flow is to leave the worker idle. Any thread. */
bool fg_work_recalls(struct fg_work *work, enum fg_lane lane, const struct fg_job *owner);

/* Returns the number of workers of a lane, without guests. Any thread. */
unsigned fg_work_threads(const struct fg_work *work, enum fg_lane lane);

struct fg_lane_state {
    unsigned queued, running;
    uint64_t ended;        /* jobs whose run() has returned, since the start */
    uint64_t refused;      /* since the start */
    int64_t oldest_age_ns; /* of what is queued; 0 when nothing is */
};
/* Returns the state of a lane for metrics. Any thread. */
void fg_work_state(struct fg_work *work, enum fg_lane lane, struct fg_lane_state *ret_state);

#endif
