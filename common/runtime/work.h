/*
 * Workers: a bounded pool for what takes longer than a loop may (decoding, compression, disk,
 * merging). A job's run() is straight-line code on a worker and may block; its done() comes home to
 * the loop it was submitted from.
 *
 * The pool has lanes. Each lane has its own queue with an end and a highest number of workers it
 * may occupy, so that a flood of one kind leaves room for the others. A full lane is an answer to
 * the client (429 or 503 with Retry-After), never a longer queue.
 *
 * Submissions may be of flows, for instance of tenants, which share a lane fairly: flows take
 * turns, first in first out within each. A flow has fewer jobs waiting than there is room left in
 * the queue, and fewer running than there are workers without a job of any flow. So one flow alone
 * gets half of the queue and half of the workers, another one half of the rest, and a flow that is
 * new finds both room and, unless very many run at the same time, a worker.
 *
 * A pinned submission goes to one worker of the lane, the same for the same pin: what it touches
 * belongs to that worker and needs no lock.
 */
#ifndef FG_COMMON_RUNTIME_WORK_H
#define FG_COMMON_RUNTIME_WORK_H

#include "common/base/err.h"
#include "common/runtime/loop.h"

struct fg_work;

enum fg_lane { FG_LANE_INGEST, FG_LANE_QUERY, FG_LANE_BACKGROUND, FG_LANES };

struct fg_job {
    struct fg_loop *home; /* where done() runs; NULL: on the worker */
    enum fg_code (*run)(struct fg_job *job, struct fg_err *err); /* worker; may block */
    void (*done)(struct fg_job *job); /* at home; must not block; may free */
    enum fg_code code;                /* of run(); FG_OK or err.code */
    struct fg_err err;                /* of run(), when code says so */
    int64_t queued_mono_ns;           /* set by submit */
    struct fg_msg msg;                /* internal */
    struct fg_job *next;              /* internal */
    struct fg_work_flow *flow;        /* internal */
};

struct fg_lane_config {
    unsigned threads;   /* workers of this lane; 0: the lane refuses everything */
    unsigned queue_max; /* jobs waiting, all of the lane's workers together */
};

/* name is a prefix of the threads' names ("ing" gives "ing-ingest-0"); five letters of it are kept.
 */
enum fg_code fg_work_create(const char *name, const struct fg_lane_config lanes[FG_LANES],
                            struct fg_work **ret_work, struct fg_err *err) fg_must_check;

/*
 * Runs what is queued, then ends the threads. NULL is fine. Jobs that are submitted meanwhile are
 * refused. Before the loops are stopped: their done() calls go there.
 */
void fg_work_destroy(struct fg_work *work);
FG_AUTO(fg_work, fg_work_destroy)

/*
 * Any thread. false: the lane is full (or has no threads) and the job is untouched. run and done
 * are set; a job is the pool's until done() is called.
 */
bool fg_work_submit(struct fg_work *work, enum fg_lane lane, struct fg_job *job) fg_must_check;

/* The same for a job of the flow with this id, any number. false also when the flow has too many
 * waiting: others may find room still. */
bool fg_work_submit_flow(struct fg_work *work, enum fg_lane lane, uint64_t flow,
                         struct fg_job *job) fg_must_check;

/* The same as fg_work_submit(), always to worker pin % threads of the lane, in order of submission.
 */
bool fg_work_submit_pinned(struct fg_work *work, enum fg_lane lane, uint64_t pin,
                           struct fg_job *job) fg_must_check;

/*
 * The same for work that can do without: true only while a worker of the lane has nothing to do, so
 * that no job waits that it could run. Several at once are for as many. It does not count as
 * refused.
 */
bool fg_work_submit_helper(struct fg_work *work, enum fg_lane lane,
                           struct fg_job *job) fg_must_check;

/* Does a job wait that a worker of the lane could run? Then who was lent should go back. Any
 * thread. */
bool fg_work_is_wanted(struct fg_work *work, enum fg_lane lane);

struct fg_lane_state {
    unsigned queued, running;
    uint64_t refused;      /* since the start */
    int64_t oldest_age_ns; /* of what is queued; 0 when nothing is */
};
void fg_work_state(struct fg_work *work, enum fg_lane lane, struct fg_lane_state *ret_state);

#endif
