/*
 * Carries out a job of the plan: fetches its sources, surveys and merges them, verifies and uploads
 * the result, and swaps it into the manifest if the tallies of input and output are equal.
 *
 * No state outlives a step except in the bucket. A compactor that is stopped leaves blocks that no
 * manifest lists; garbage collection deletes them, and the next plan has the job again.
 *
 * Thread: one that may wait. Disk: the sources, and one block.
 */
#ifndef FG_COMPACTOR_JOB_H
#define FG_COMPACTOR_JOB_H

#include "compactor/edit.h"
#include "compactor/plan_core.h"

/* The source because of which a job failed. */
struct cmp_job_culprit {
    bool found;
    uint64_t generation; /* of a segment; 0: a block */
    struct fg_id block;
    char name[FG_NAME_MAX_BYTES]; /* of the object */
    struct fg_err why;
};

struct cmp_job {
    struct cmp_env *env;
    const struct cmp_plan_config *config;
    const struct fg_l0 *l0;         /* that the plan was made from */
    const struct fg_blocks *blocks; /* that the plan was made from */
    struct fg_deletions deletions;  /* of `blocks`, in its order; the job sets their counts */
    const struct cmp_plan_job *plan;
};

struct cmp_job_result {
    uint64_t profiles;                  /* of the sources */
    uint64_t written, deleted, expired; /* profiles: together as many */
    uint64_t read_bytes, written_bytes;
    uint32_t n_blocks;       /* written */
    uint32_t without_rollup; /* services in them without a rollup, for lack of memory */
};

/*
 * Runs the job. FG_E_ABORTED: another compactor was faster; FG_E_NOT_FOUND: a source was deleted,
 * for the same reason: plan again. FG_E_LIMIT: the job needs more memory than it may use: plan
 * smaller jobs. FG_E_NO_SPACE: the scratch folder is full. FG_E_CORRUPT: a source is damaged.
 * FG_E_INTERNAL: input and output differ; nothing was swapped. FG_E_CANCELED: the compactor stops.
 */
enum fg_code cmp_job_run(struct cmp_job *job, struct cmp_job_result *ret_result,
                         struct fg_err *err) fg_must_check;

/*
 * Finds the source because of which a job failed with FG_E_CORRUPT, FG_E_NOT_FOUND or
 * FG_E_UNIMPLEMENTED: reads all sources completely, one after the other, up to the first that is
 * missing or damaged. Finds nothing if every source is valid by itself (two of them have the same
 * profile) or if the bucket is unavailable.
 */
void cmp_job_find_culprit(const struct cmp_job *job, struct cmp_job_culprit *ret_culprit);

#endif
