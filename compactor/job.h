/*
 * Carries out a job of the plan: fetches its sources, surveys and merges them, verifies what was
 * written, uploads it, and swaps it in once the tallies of what went in and of what came out are
 * the same.
 *
 * Nothing is kept between the steps but in the bucket: whoever is stopped leaves blocks that no
 * manifest knows, which garbage collection deletes, and the plan finds the job again.
 *
 * Thread: one that may wait. Disk: the sources, and one block.
 */
#ifndef FG_COMPACTOR_JOB_H
#define FG_COMPACTOR_JOB_H

#include "compactor/edit.h"
#include "compactor/plan_core.h"

/* The source that a job failed with. */
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
    const struct fg_l0 *l0;         /* as the plan was made of */
    const struct fg_blocks *blocks; /* too */
    struct fg_deletions deletions;  /* those of blocks, in its order; their counts are set anew */
    const struct cmp_plan_job *plan;
};

struct cmp_job_result {
    uint64_t profiles;                  /* of the sources */
    uint64_t written, deleted, expired; /* profiles: together as many */
    uint64_t read_bytes, written_bytes;
    uint32_t n_blocks;       /* written */
    uint32_t without_rollup; /* services of these that lack merged nodes: no memory */
};

/*
 * FG_E_ABORTED: somebody else was faster; FG_E_NOT_FOUND: an object is gone, by the same: plan
 * anew. FG_E_LIMIT: it needs more memory than it may have: plan smaller ones. FG_E_CORRUPT: a
 * source is broken. FG_E_INTERNAL: what came out is not what went in; nothing was swapped.
 */
enum fg_code cmp_job_run(struct cmp_job *job, struct cmp_job_result *ret_result,
                         struct fg_err *err) fg_must_check;

/*
 * After a job failed with FG_E_CORRUPT, FG_E_NOT_FOUND or FG_E_UNIMPLEMENTED: reads its sources,
 * whole, one after the other, and finds the first that is missing or damaged. Nothing is found if
 * each is right by itself (two of them have the same profile), or if the bucket is away.
 */
void cmp_job_find_culprit(const struct cmp_job *job, struct cmp_job_culprit *ret_culprit);

#endif
