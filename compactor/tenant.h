/*
 * What the compactor knows of a tenant from one round to the next, and does for it: plan, carry
 * out, plan again. All of it can be lost: the manifests say everything that matters.
 *
 * Thread: the compactor's own.
 */
#ifndef FG_COMPACTOR_TENANT_H
#define FG_COMPACTOR_TENANT_H

#include "common/base/map.h"
#include "compactor/ingester_list.h"
#include "compactor/job.h"

struct cmp_tenant_counts {
    uint32_t hours, days, others; /* blocks */
    uint64_t bytes, profiles;
    uint32_t uncovered;             /* segments */
    int64_t oldest_entered_wall_ns; /* of these; INT64_MAX: none */
    uint32_t deletions;             /* pending */
    uint32_t aside;                 /* damaged or missing sources that no job takes */
    uint64_t awaits;                /* the least number that one of them waits for; 0: none does */
};

struct cmp_tenant {
    struct fg_slice name;       /* owned */
    struct fg_manifest *blocks; /* as it was read last; NULL: it was let go */
    int64_t look_mono_ns;       /* not before then, unless there are segments to cover */
    int64_t retry_mono_ns;      /* after a failure, not before then */
    unsigned failures;          /* in a row */
    struct fg_err err;          /* of the last */
    uint64_t job_max_bytes;     /* less than the setting after a job was too large */
    struct fg_map clean;        /* (block, deletion) of which is known that they do not meet */
    struct fg_map troubles;     /* blocks that jobs failed with, and since when */
    struct fg_map
        aside; /* damaged or missing segments and blocks, and until when none takes them */
    struct cmp_tenant_counts counts;
    char waits_for[COMPLETION_TEXT_MAX_BYTES]; /* whom deletions wait for; "": for nobody */
};

struct cmp_tenant *cmp_tenant_create(struct fg_slice name, uint64_t job_max_bytes);
void cmp_tenant_destroy(struct cmp_tenant *tenant);

/* Hands the tenant over to another compactor: forgets the plan of its work, which is made again if
 * the tenant comes back. Keeps the manifest. */
void cmp_tenant_disown(struct cmp_tenant *tenant);

/* How a tenant is looked after. */
struct cmp_tenant_rules {
    struct cmp_plan_config plan; /* retention is the tenant's own */
    int64_t look_ns;             /* between two looks where nothing is to be covered */
    int64_t deletion_wait_ns;    /* so long after it was asked for a deletion takes what arrives */
    struct cmp_ingester_list *ingesters; /* not older than the L0 manifest */
    void (*on_job)(void *arg, const struct cmp_tenant *tenant, const struct cmp_plan_job *job);
    void *arg;
};

/*
 * Does everything there is to do now, or as far as it gets. Failures are the tenant's: logged, and
 * tried again later. FG_E_CANCELED: it is time to end.
 */
enum fg_code cmp_tenant_look(struct cmp_tenant *tenant, struct cmp_env *env,
                             const struct cmp_tenant_rules *rules, const struct fg_l0 *l0,
                             struct fg_err *err) fg_must_check;

#endif
