/*
 * One tenant of the compactor: plans its work, carries the plan out, and plans again. The shell of
 * plan_core.h. Its memory between passes may be lost at any time; the manifests have everything
 * that matters.
 *
 * Thread: the compactor's own.
 */
#ifndef FG_COMPACTOR_TENANT_H
#define FG_COMPACTOR_TENANT_H

#include "common/base/map.h"
#include "compactor/erasure_core.h"
#include "compactor/ingester_list.h"
#include "compactor/job.h"
#include "compactor/query_list.h"

struct cmp_tenant_counts {
    uint32_t hours, days, others; /* blocks */
    uint64_t bytes, profiles;
    uint32_t uncovered;             /* segments */
    int64_t oldest_entered_wall_ns; /* of these; INT64_MAX: none */
    uint32_t deletions;             /* pending */
    int64_t oldest_asked_wall_ns;   /* of these; INT64_MAX: none */
    uint32_t aside;                 /* damaged or missing sources that jobs leave out */
    uint64_t awaits; /* the least number that a deletion waits for, or an erasure; 0: none */
};

/* Failures to write documents of usage. Compaction has failures of its own, since neither waits for
 * the other. */
struct cmp_tenant_bills {
    unsigned failures;     /* in a row */
    struct fg_err err;     /* of the last failure */
    int64_t retry_mono_ns; /* not before then */
};

struct cmp_tenant {
    struct fg_slice name;       /* owned */
    struct fg_manifest *blocks; /* as read last; NULL: it was released */
    int64_t look_mono_ns;       /* the next look, unless segments wait to be covered */
    int64_t retry_mono_ns;      /* the next look after a failure */
    unsigned failures;          /* in a row */
    struct fg_err err;          /* of the last failure */
    uint64_t job_max_bytes;     /* halved after a job was too large */
    struct fg_map verdicts;     /* of pairs (block, deletion): NONE or NAMES */
    struct fg_id search_from;   /* the block with which a search for what deletions name goes on */
    struct fg_map troubles;     /* blocks with which jobs failed, and since when */
    struct fg_map
        aside; /* damaged or missing segments and blocks, and until when jobs leave them out */
    struct cmp_tenant_bills bills;
    struct cmp_erasure_memory erasure; /* if it is deleted as a whole */
    struct cmp_tenant_counts counts;
    char waits_for[COMPLETION_TEXT_MAX_BYTES]; /* the ingesters that deletions wait for; "": none */
};

/* Creates a tenant that was never looked at. name: copied. Never fails. */
struct cmp_tenant *cmp_tenant_create(struct fg_slice name, uint64_t job_max_bytes);
/* Frees it. Accepts NULL. */
void cmp_tenant_destroy(struct cmp_tenant *tenant);

/* Hands the tenant over to another compactor: forgets the plan of its work, which is made again if
 * the tenant comes back. Keeps the manifest. */
void cmp_tenant_disown(struct cmp_tenant *tenant);

/* How a tenant is compacted. */
struct cmp_tenant_rules {
    struct cmp_plan_config plan;         /* retention is the tenant's own */
    int64_t look_ns;                     /* between two looks while no segment waits */
    int64_t deletion_wait_ns;            /* a deletion covers data that arrives within this time */
    struct cmp_ingester_list *ingesters; /* not older than the L0 manifest */
    struct cmp_query_list *queries;
    bool erased;            /* its data has to go: the look takes steps of its erasure */
    bool erasure_ended;     /* and all had gone when this was known */
    struct fg_audit *audit; /* of erasures; NULL: none */
    void (*on_job)(void *arg, const struct cmp_tenant *tenant, const struct cmp_plan_job *job);
    void *arg;
};

/*
 * Does everything that is due for the tenant: plans and runs jobs until the plan is empty, then
 * completes deletions; then writes documents of usage, also if the former failed. Reads only so
 * much in search of what deletions name; the next look goes on. Of a tenant that is erased: takes
 * all steps of that which are possible now, and does nothing else. Logs failures and schedules a
 * retry; they do not affect other tenants. FG_E_CANCELED, the only error: the compactor stops.
 */
enum fg_code cmp_tenant_look(struct cmp_tenant *tenant, struct cmp_env *env,
                             const struct cmp_tenant_rules *rules, const struct fg_l0 *l0,
                             struct fg_err *err) fg_must_check;

#endif
