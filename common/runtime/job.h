/* A job of the worker pool, and the flow that it may belong to; work.h says what is done with them.
 */
#ifndef FG_COMMON_RUNTIME_JOB_H
#define FG_COMMON_RUNTIME_JOB_H

#include "common/base/err.h"
#include "common/runtime/loop.h"

/* A flow, and its own limits: the most jobs of it that may wait and run. 0: none. */
struct fg_flow {
    uint64_t id; /* any number; that of jobs without a flow is 0 */
    unsigned queued_max, running_max;
};

struct fg_job {
    struct fg_loop *home; /* where done() runs; NULL: on the worker */
    enum fg_code (*run)(struct fg_job *job, struct fg_err *err); /* worker; may block */
    void (*done)(struct fg_job *job); /* at home; must not block; may free */
    enum fg_code code;                /* of run(); FG_OK or err.code */
    struct fg_err err;                /* of run(), when code says so */
    int64_t queued_mono_ns;           /* set by submit */
    struct fg_msg msg;                /* internal */
    struct fg_job *next;              /* internal */
    struct fg_work_flow *flow;        /* internal; NULL: pinned, or a helper */
    const struct fg_job *owner;       /* internal; of a helper, the job that it helps, or NULL */
    bool helps;                       /* internal */
};

#endif
