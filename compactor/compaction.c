#include "compactor/compaction.h"

#include "common/base/hash.h"
#include "common/base/json_writer.h"
#include "common/runtime/log.h"
#include "common/runtime/thread.h"
#include "compactor/fetch.h"
#include "compactor/gc.h"
#include "compactor/metrics.h"
#include "compactor/tenant.h"

#include <sys/random.h>
#include <time.h>

FG_METRICS_TABLE(compactor_metrics, COMPACTOR_METRICS)

/* Deletions and retention become due without a new segment, so a tenant is looked at even if the
 * L0 manifest shows nothing new of it. */
static const int64_t LOOK_NS = 10 * FG_MINUTE_NS; /* at a tenant without segments to cover */
/* A sweep lists the whole bucket, which S3 bills by the request; orphans are a day old before
 * they may go, so a quarter of a day adds little. */
static const int64_t SWEEP_NS = 6 * FG_HOUR_NS; /* for orphans */
/* Data of the future would keep its segment in the L0 manifest until its hour is over; after
 * this time it is merged anyway. */
static const int64_t SEGMENT_WAIT_NS = 2 * FG_HOUR_NS;

enum {
    FAILURES_TO_TELL = 3,          /* in a row, before operators are told */
    WHOLE_MAX_BYTES = 1024 * 1024, /* of an object that queriers read as a whole */
};

/* The state of a tenant that other threads may see: a copy, so that they need not wait for a job to
 * end. */
struct shown {
    struct fg_slice name; /* the tenant's, which lives as long as the compaction */
    bool own;             /* not another compactor's */
    struct cmp_tenant_counts counts;
    unsigned failures;
    struct fg_err err, unbilled;
    char waits_for[COMPLETION_TEXT_MAX_BYTES];
    bool hurry; /* not copied: the next pass has to look at the tenant */
};

struct cmp_compaction {
    struct cmp_config config;
    struct fg_membership *membership;
    struct fg_condition *failing, *tenants_failing, *usage_undocumented;
    struct cmp_env env;
    struct cmp_gc_config gc;

    struct fg_thread thread; /* its lock is of `hurry` and what describe() shows */
    bool hurry;

    /* The thread's own. */
    struct fg_manifest *l0;
    struct cmp_ingester_list ingesters; /* not older */
    struct cmp_query_list queries;
    struct fg_access_registry *access; /* as known when the round began; NULL: it is not */
    struct cmp_tenant **tenants;       /* by name, as in the L0 manifest */
    uint32_t n_tenants;
    struct cmp_tenant **erased; /* not in the L0 manifest, and their erasures wait for ingesters */
    uint32_t n_erased;
    unsigned failures;                           /* of rounds, in a row */
    uint64_t notices[FG_MEMBERSHIP_NOTICES_MAX]; /* hashes of our tenants that other compactors were
                                                    asked about */
    uint32_t n_notices;
    int64_t sweep_mono_ns; /* the next sweep for orphans */

    /* Under lock: what status shows. */
    struct shown *shown; /* [n_shown], by name */
    uint32_t n_shown;
    int64_t round_begun_wall_ns, round_ended_wall_ns; /* 0: none yet */
    uint64_t rounds;
    struct fg_err round_err;
    char job[64];
    char job_tenant[FG_TENANT_MAX_BYTES + 1];
    int64_t job_begun_wall_ns; /* 0: none is under way */
};

/* ---- waiting ---- */

/* Waits on the condition, so that stop() and wake() end the pause at once. The clock is the real
 * one even if config has another: the condition variable knows no virtual time (tests set
 * config.pause). */
static void wait_until(struct cmp_compaction *compaction, int64_t ns)
{
    int64_t until_ns = fg_time_add(fg_mono_ns(fg_clock_real()), ns);

    fg_thread_lock(&compaction->thread);
    /* Both flags are checked under the lock that wake() holds when it sets `hurry`, so no
     * wake-up falls between the check and the wait. */
    while (!cmp_env_stopping(&compaction->env) && !compaction->hurry)
        if (!fg_thread_sleep(&compaction->thread, until_ns))
            break;
    fg_thread_unlock(&compaction->thread);
}

static void pause_env(struct cmp_env *env, int64_t ns)
{
    struct cmp_compaction *compaction = fg_container(env, struct cmp_compaction, env);

    if (compaction->config.pause != NULL)
        compaction->config.pause(compaction->config.pause_arg, ns);
    else
        wait_until(compaction, ns);
}

/* With the lock held. */
static void wake(struct cmp_compaction *compaction)
{
    compaction->hurry = true;
    fg_thread_wake(&compaction->thread);
}

/* An unknown tenant has no blocks, so there is nothing to do for it. Marks the tenant here and
 * also gives notice to its owner: who owns it may change until the next pass. */
void cmp_compaction_wake(struct cmp_compaction *compaction, struct fg_slice tenant)
{
    fg_thread_lock(&compaction->thread);
    for (uint32_t i = 0; i < compaction->n_shown; i++)
        if (fg_slice_eq(compaction->shown[i].name, tenant))
            compaction->shown[i].hurry = true;
    wake(compaction);
    fg_thread_unlock(&compaction->thread);
    /* After our lock was released: the membership has a lock of its own, and two locks are never
     * held at once here. */
    fg_membership_notify(compaction->membership, tenant);
}

/* Compares hashes: a notice carries no name. Equal hashes of two tenants cost one look too many. */
static bool was_notified(const struct cmp_compaction *compaction, struct fg_slice tenant)
{
    uint64_t hash = compaction->n_notices == 0 ? 0 : fg_hash64(tenant);

    for (uint32_t i = 0; i < compaction->n_notices; i++)
        if (compaction->notices[i] == hash)
            return true;
    return false;
}

/* ---- tenants ---- */

/* Returns the tenant's entry in the registry of access; NULL: it has none, or nobody knows. */
static const Access__Tenant *entry_of(const struct cmp_compaction *compaction,
                                      struct fg_slice tenant)
{
    return compaction->access == NULL ? NULL : fg_access_find_tenant(compaction->access, tenant);
}

static void on_job(void *arg, const struct cmp_tenant *tenant, const struct cmp_plan_job *job)
{
    struct cmp_compaction *compaction = arg;

    fg_thread_lock(&compaction->thread);
    (void)snprintf(compaction->job, sizeof compaction->job, "%s", job->why);
    (void)snprintf(compaction->job_tenant, sizeof compaction->job_tenant, "%.*s",
                   FG_S(tenant->name));
    compaction->job_begun_wall_ns = fg_wall_ns(compaction->env.clock);
    fg_thread_unlock(&compaction->thread);
}

static struct cmp_tenant_rules rules_of(struct cmp_compaction *compaction,
                                        const struct cmp_tenant *tenant)
{
    const struct cmp_settings *settings = compaction->config.settings;
    /* Read for each look, so a changed limit holds from the next one on. */
    struct fg_limits *limits = fg_tenants_limits(compaction->config.tenants, tenant->name);
    const Access__Tenant *entry = entry_of(compaction, tenant->name);
    struct cmp_tenant_rules rules = {
        .plan = {.hour_delay_ns = settings->hour_delay_ns,
                 .day_delay_ns = settings->day_delay_ns,
                 .segment_wait_ns = SEGMENT_WAIT_NS,
                 .fold_after_ns = settings->fold_after_ns,
                 .fold_quiet_ns = settings->fold_quiet_ns,
                 .job_max_bytes = settings->job_max_bytes,
                 .sources_max = (uint32_t)settings->job_max_sources,
                 .rollup_min_bytes = settings->rollup_min_bytes,
                 .whole_max_bytes = WHOLE_MAX_BYTES,
                 .retention.profiles_ns = limits->values.retention_period_ns,
                 .retention.rollups_ns = limits->values.retention_period_rollups_ns},
        .look_ns = LOOK_NS,
        .deletion_wait_ns = settings->deletion_wait_ns,
        .ingesters = &compaction->ingesters,
        .queries = &compaction->queries,
        .erased = fg_access_is_deleted(entry),
        .erasure_ended = entry != NULL && entry->state == ACCESS__TENANT__STATE__DELETED,
        .audit = compaction->config.audit,
        .on_job = on_job,
        .arg = compaction};

    fg_limits_unref(limits);
    return rules;
}

/* Copies what status shows. The tenant itself changes during a job without any lock; only the
 * compaction thread may read it. */
static void show_tenant(struct cmp_compaction *compaction, uint32_t number)
{
    const struct cmp_tenant *tenant = compaction->tenants[number];
    struct shown *shown = &compaction->shown[number];
    /* Before the lock: the membership takes a lock of its own. */
    bool own = fg_membership_owns(compaction->membership, tenant->name);

    fg_thread_lock(&compaction->thread);
    shown->own = own;
    shown->counts = tenant->counts;
    shown->failures = tenant->failures;
    shown->err = tenant->err;
    shown->unbilled = tenant->bills.err;
    memcpy(shown->waits_for, tenant->waits_for, sizeof shown->waits_for);
    compaction->job_begun_wall_ns = 0;
    fg_thread_unlock(&compaction->thread);
}

/* Both lists are sorted by name, so one walk finds the tenants that stay. Under the lock. */
static void keep_hurry(const struct cmp_compaction *compaction, struct shown *shown, uint32_t n)
{
    uint32_t old = 0;

    for (uint32_t i = 0; i < n; i++) {
        while (old < compaction->n_shown &&
               fg_slice_cmp(compaction->shown[old].name, shown[i].name) < 0)
            old++;
        if (old < compaction->n_shown && fg_slice_eq(compaction->shown[old].name, shown[i].name))
            shown[i].hurry = compaction->shown[old].hurry;
    }
}

static void show_tenants(struct cmp_compaction *compaction)
{
    struct shown *shown = fg_calloc(compaction->n_tenants, sizeof *shown);

    for (uint32_t i = 0; i < compaction->n_tenants; i++)
        shown[i].name = compaction->tenants[i]->name;
    fg_thread_lock(&compaction->thread);
    /* A tenant that was woken since its last look is not to wait until the next one is due. */
    keep_hurry(compaction, shown, compaction->n_tenants);
    free(compaction->shown);
    compaction->shown = shown;
    compaction->n_shown = compaction->n_tenants;
    fg_thread_unlock(&compaction->thread);
    for (uint32_t i = 0; i < compaction->n_tenants; i++)
        show_tenant(compaction, i);
}

static bool same_tenants(const struct cmp_compaction *compaction)
{
    const struct fg_l0 *l0 = &compaction->l0->l0;
    bool same = l0->n_tenants == compaction->n_tenants;

    for (uint32_t i = 0; same && i < l0->n_tenants; i++)
        same = fg_slice_eq(compaction->tenants[i]->name, l0->tenants[i].name);
    return same;
}

static void destroy_tenants(struct cmp_tenant **tenants, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cmp_tenant_destroy(tenants[i]);
    free(tenants);
}

/* Both lists are sorted by name. Tenants leave the manifest only if an old one was restored. */
static void follow_tenants(struct cmp_compaction *compaction)
{
    const struct fg_l0 *l0 = &compaction->l0->l0;
    struct cmp_tenant **before = compaction->tenants;
    uint32_t n_before = compaction->n_tenants, old = 0;

    if (same_tenants(compaction))
        return;
    /* Tenants that stay keep their state: failures, objects set aside and the times of their
     * next look. */
    compaction->tenants = fg_calloc(l0->n_tenants, sizeof(void *));
    compaction->n_tenants = l0->n_tenants;
    for (uint32_t i = 0; i < l0->n_tenants; i++) {
        while (old < n_before && fg_slice_cmp(before[old]->name, l0->tenants[i].name) < 0)
            old++;
        if (old < n_before && fg_slice_eq(before[old]->name, l0->tenants[i].name)) {
            compaction->tenants[i] = before[old];
            before[old++] = NULL;
        } else {
            compaction->tenants[i] =
                cmp_tenant_create(l0->tenants[i].name, compaction->config.settings->job_max_bytes);
        }
    }
    fg_assert(same_tenants(compaction));
    show_tenants(compaction); /* which borrows names */
    destroy_tenants(before, n_before);
}

/* Looks for data of the tenant in live segments, and for data that no block that we know of
 * has. */
static void live_segments(const struct cmp_compaction *compaction, uint32_t number, bool *ret_any,
                          bool *ret_uncovered)
{
    const struct fg_l0 *l0 = &compaction->l0->l0;
    const struct fg_manifest *blocks = compaction->tenants[number]->blocks;

    *ret_any = *ret_uncovered = false;
    for (uint32_t i = 0; i < l0->n_segments && !*ret_uncovered; i++) {
        if (fg_l0_part(&l0->segments[i], number) == NULL)
            continue;
        *ret_any = true;
        *ret_uncovered =
            blocks == NULL || !fg_blocks_covers(&blocks->blocks, l0->segments[i].generation);
    }
}

/* True if this compactor does the work that is done once for all tenants. No tenant is named
 * "". */
static bool is_keeper(struct cmp_compaction *compaction)
{
    return fg_membership_owns(compaction->membership, fg_cstr(""));
}

/* True if all ingesters are clean of the least number that a deletion waits for. If the list of
 * ingesters cannot be read, the tenant's look reports why. */
static bool may_deletion_end(struct cmp_compaction *compaction, struct cmp_tenant *tenant)
{
    const struct cmp_ingesters *ingesters;
    struct fg_err err;

    tenant->waits_for[0] = '\0';
    if (tenant->counts.awaits == 0 ||
        cmp_ingester_list_get(&compaction->ingesters, &compaction->env, &ingesters, &err) != FG_OK)
        return false;
    cmp_completion_waits_for(ingesters, &compaction->l0->l0, tenant->counts.awaits,
                             tenant->waits_for);
    return tenant->waits_for[0] == '\0';
}

/* Does everything for a tenant of this compactor. */
static enum fg_code look_at_own(struct cmp_compaction *compaction, struct cmp_tenant *tenant,
                                struct fg_err *err)
{
    struct cmp_tenant_rules rules = rules_of(compaction, tenant);
    enum fg_code code = cmp_tenant_look(tenant, &compaction->env, &rules, &compaction->l0->l0, err);

    /* Not as a part of the look: a failure here is not the tenant's, since nothing waits for the
     * objects to disappear. */
    if (code == FG_OK && tenant->blocks != NULL &&
        cmp_gc_delete_blocks(&compaction->env, &compaction->gc, &tenant->blocks->blocks, err) !=
            FG_OK &&
        err->code != FG_E_CANCELED)
        fg_log_warn("replaced blocks could not be deleted, will retry",
                    fg_lb("tenant", tenant->name), fg_ls("err", err->msg));
    return code;
}

/* For another compactor's tenant: the one that retires segments needs to know what its blocks
 * cover, and nothing else. If that cannot be read, its segments stay and those of others go. */
static enum fg_code look_at_others(struct cmp_compaction *compaction, uint32_t number,
                                   bool uncovered, struct fg_err *err)
{
    struct cmp_tenant *tenant = compaction->tenants[number];
    enum fg_code code;

    cmp_tenant_disown(tenant);
    if (!uncovered || !is_keeper(compaction))
        return FG_OK;
    code = cmp_env_read_manifest(&compaction->env, tenant->name, &tenant->blocks, err);
    if (code == FG_OK)
        code = fg_blocks_check(&tenant->blocks->blocks, &compaction->l0->l0, err);
    if (code == FG_OK || code == FG_E_CANCELED || fg_code_retry(code))
        return code;
    fg_log_warn("block manifest of another compactor's tenant cannot be read, will retry",
                fg_lb("tenant", tenant->name), fg_ls("err", err->msg));
    return FG_OK;
}

static bool is_being_erased(const struct cmp_compaction *compaction, struct fg_slice tenant)
{
    const Access__Tenant *entry = entry_of(compaction, tenant);

    return entry != NULL && entry->state == ACCESS__TENANT__STATE__DELETING;
}

/* Takes the tenant off the list; NULL: it is not there. */
static struct cmp_tenant *take_tenant(struct cmp_tenant **tenants, uint32_t n, struct fg_slice name)
{
    for (uint32_t i = 0; i < n; i++)
        if (tenants[i] != NULL && fg_slice_eq(tenants[i]->name, name))
            return fg_take(tenants[i]);
    return NULL;
}

/* Keeps a tenant until the next round if its erasure has to remember something. */
static void keep_erased(struct cmp_compaction *compaction, struct cmp_tenant *tenant)
{
    if (tenant->erasure.shared == NULL) {
        cmp_tenant_destroy(tenant);
        return;
    }
    compaction->erased =
        fg_realloc(compaction->erased, (compaction->n_erased + 1) * sizeof(struct cmp_tenant *));
    compaction->erased[compaction->n_erased++] = tenant;
}

/* A tenant that no listed segment ever had may still have settings and files, and data in segments
 * that were never listed. Its erasure is tried again in each round. */
static enum fg_code erase_unlisted(struct cmp_compaction *compaction, struct fg_err *err)
{
    const Access__Registry *message =
        compaction->access == NULL ? NULL : compaction->access->message;
    uint32_t n_before = compaction->n_erased;
    struct cmp_tenant **before = fg_take(compaction->erased);
    enum fg_code code = FG_OK;

    compaction->n_erased = 0;
    for (size_t i = 0; message != NULL && i < message->n_tenants && code == FG_OK; i++) {
        struct fg_slice name = fg_cstr(message->tenants[i]->id);
        struct cmp_tenant *tenant;

        if (!is_being_erased(compaction, name) ||
            !fg_membership_owns(compaction->membership, name) ||
            fg_l0_tenant(&compaction->l0->l0, name) != FG_L0_NO_TENANT)
            continue;
        tenant = take_tenant(before, n_before, name);
        if (tenant == NULL)
            tenant = cmp_tenant_create(name, compaction->config.settings->job_max_bytes);
        code = look_at_own(compaction, tenant, err);
        keep_erased(compaction, tenant);
    }
    destroy_tenants(before, n_before);
    return code;
}

/* Keeps a tenant's manifest as long as it has segments, whose retirement depends on it. */
static enum fg_code advance_tenant(struct cmp_compaction *compaction, uint32_t number,
                                   struct fg_err *err)
{
    struct cmp_tenant *tenant = compaction->tenants[number];
    int64_t now_ns = fg_mono_ns(compaction->env.clock);
    bool any, uncovered, hurry;
    enum fg_code code = FG_OK;

    /* Handlers of requests set it from their threads; here it is taken, so it hurries one look. */
    fg_thread_lock(&compaction->thread);
    fg_assert(number < compaction->n_shown); /* as many as tenants: follow_tenants() */
    hurry = compaction->shown[number].hurry;
    compaction->shown[number].hurry = false;
    fg_thread_unlock(&compaction->thread);
    hurry = hurry || was_notified(compaction, tenant->name);
    live_segments(compaction, number, &any, &uncovered);
    if (!fg_membership_owns(compaction->membership, tenant->name)) {
        code = look_at_others(compaction, number, uncovered, err);
        show_tenant(compaction, number);
    } else {
        /* Each step of an erasure waits for something else that a look finds out. */
        bool due = may_deletion_end(compaction, tenant) || uncovered ||
                   now_ns >= tenant->look_mono_ns || is_being_erased(compaction, tenant->name);

        /* A user's request does not wait for the end of the pause after a failure; all other
         * work does. */
        if (hurry || (due && now_ns >= tenant->retry_mono_ns))
            code = look_at_own(compaction, tenant, err);
        show_tenant(compaction, number);
    }
    /* Thousands of idle tenants would keep their manifests in memory for nothing. */
    if (!any) {
        fg_manifest_unref(tenant->blocks);
        tenant->blocks = NULL;
    }
    return code;
}

/* ---- a round ---- */

static enum fg_code retire(struct cmp_compaction *compaction, struct fg_err *err)
{
    const struct fg_blocks **blocks = fg_calloc(compaction->n_tenants, sizeof(void *));
    enum fg_code code;

    for (uint32_t i = 0; i < compaction->n_tenants; i++)
        if (compaction->tenants[i]->blocks != NULL)
            blocks[i] = &compaction->tenants[i]->blocks->blocks;
    code = cmp_gc_retire(&compaction->env, &compaction->gc, &compaction->l0->l0, blocks, err);
    free(blocks);
    return code;
}

/* A sweep that fails is not repeated at once: it would list the whole bucket again while the
 * bucket is in trouble. */
static enum fg_code sweep(struct cmp_compaction *compaction, struct fg_err *err)
{
    int64_t now_ns = fg_mono_ns(compaction->env.clock);

    if (now_ns < compaction->sweep_mono_ns)
        return FG_OK;
    compaction->sweep_mono_ns = fg_time_add(now_ns, SWEEP_NS);
    if (cmp_gc_sweep_orphans(&compaction->env, &compaction->gc, compaction->config.tenants, err) !=
        FG_OK)
        return err->code;
    return cmp_gc_sweep_audit(&compaction->env, compaction->config.audit, err);
}

/* Returns the seconds since a time of cmp_tenant_counts; 0 if there is none. */
static int64_t age_s(int64_t now_ns, int64_t since_wall_ns)
{
    return since_wall_ns == INT64_MAX ? 0 : FG_MAX(now_ns - since_wall_ns, 0) / FG_SECOND_NS;
}

static void count_all(struct cmp_compaction *compaction)
{
    struct fg_metrics *metrics = compaction->env.metrics;
    struct cmp_tenant_counts sum = {.oldest_entered_wall_ns = INT64_MAX,
                                    .oldest_asked_wall_ns = INT64_MAX};
    int64_t now_ns = fg_wall_ns(compaction->env.clock), failing = 0, unbilled = 0, own = 0;

    for (uint32_t i = 0; i < compaction->n_tenants; i++) {
        const struct cmp_tenant_counts *counts = &compaction->tenants[i]->counts;

        sum.hours += counts->hours;
        sum.days += counts->days;
        sum.others += counts->others;
        sum.bytes += counts->bytes;
        sum.uncovered += counts->uncovered;
        sum.deletions += counts->deletions;
        sum.aside += counts->aside;
        sum.oldest_entered_wall_ns =
            FG_MIN(sum.oldest_entered_wall_ns, counts->oldest_entered_wall_ns);
        sum.oldest_asked_wall_ns = FG_MIN(sum.oldest_asked_wall_ns, counts->oldest_asked_wall_ns);
        failing += compaction->tenants[i]->failures > 0;
        unbilled += compaction->tenants[i]->bills.failures > 0;
        own += fg_membership_owns(compaction->membership, compaction->tenants[i]->name);
    }
    /* Sums of this process only; a dashboard adds up those of all compactors. */
    fg_metric_set(metrics, COMPACTOR_TENANTS, own);
    fg_metric_set(metrics, COMPACTOR_MEMBERS, fg_membership_count(compaction->membership));
    fg_metric_set(metrics, COMPACTOR_FAILING, failing);
    fg_metric_set(metrics, COMPACTOR_UNBILLED, unbilled);
    fg_metric_set(metrics, COMPACTOR_HOUR_BLOCKS, sum.hours);
    fg_metric_set(metrics, COMPACTOR_DAY_BLOCKS, sum.days);
    fg_metric_set(metrics, COMPACTOR_OTHER_BLOCKS, sum.others);
    fg_metric_set(metrics, COMPACTOR_BLOCK_BYTES, (int64_t)sum.bytes);
    fg_metric_set(metrics, COMPACTOR_UNCOVERED, sum.uncovered);
    fg_metric_set(metrics, COMPACTOR_DELETIONS, sum.deletions);
    fg_metric_set(metrics, COMPACTOR_ASIDE, sum.aside);
    fg_metric_set(metrics, COMPACTOR_LAG, age_s(now_ns, sum.oldest_entered_wall_ns));
    fg_metric_set(metrics, COMPACTOR_OLDEST_DELETION, age_s(now_ns, sum.oldest_asked_wall_ns));
}

static unsigned compaction_failures(const struct cmp_tenant *tenant, const char **ret_why)
{
    *ret_why = tenant->err.msg;
    return tenant->failures;
}

static unsigned usage_failures(const struct cmp_tenant *tenant, const char **ret_why)
{
    *ret_why = tenant->bills.err.msg;
    return tenant->bills.failures;
}

/* Raises a condition for failures that last: a race or a slow bucket passes within some attempts.
 */
static void tell_failing(const struct cmp_compaction *compaction, struct fg_condition *condition,
                         const char *what,
                         unsigned (*failures_of)(const struct cmp_tenant *, const char **))
{
    const struct cmp_tenant *first = NULL;
    const char *why, *first_why = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < compaction->n_tenants; i++) {
        if (failures_of(compaction->tenants[i], &why) < FAILURES_TO_TELL)
            continue;
        if (n++ == 0) {
            first = compaction->tenants[i];
            first_why = why;
        }
    }
    if (first == NULL)
        fg_condition_clear(condition);
    else
        fg_condition_raise(condition, "%s for %u tenants; %.*s: %s", what, n, FG_S(first->name),
                           first_why);
}

/* The kinds of garbage do not depend on each other: tries all, and reports the first failure. */
static enum fg_code collect_garbage(struct cmp_compaction *compaction, struct fg_err *err)
{
    enum fg_code (*const steps[])(struct cmp_compaction *, struct fg_err *) = {retire, sweep};
    enum fg_code first = FG_OK;
    struct fg_err other;

    for (size_t i = 0; i < FG_COUNT(steps); i++) {
        enum fg_code code = steps[i](compaction, first == FG_OK ? err : &other);

        first = first == FG_OK ? code : first;
    }
    /* After retire(), but from the manifest that was read before it: segments that just left it
     * are not due before the grace period is over. */
    if (cmp_gc_delete_segments(&compaction->env, &compaction->gc, &compaction->l0->l0,
                               first == FG_OK ? err : &other) != FG_OK &&
        first == FG_OK)
        first = err->code;
    return first;
}

static enum fg_code one_round(struct cmp_compaction *compaction, struct fg_err *err)
{
    enum fg_code code = FG_OK;

    /* The L0 manifest first and tenants' manifests second, as queries do (l0-before-tenant). In
     * the other order a segment could leave the L0 manifest in between and would be in neither
     * of them. */
    if (cmp_env_read_manifest(&compaction->env, FG_LIT(""), &compaction->l0, err) != FG_OK)
        return err->code;
    cmp_ingester_list_age(&compaction->ingesters);
    follow_tenants(compaction);
    fg_access_registry_unref(compaction->access);
    compaction->access =
        compaction->config.access == NULL ? NULL : fg_access_registry(compaction->config.access);
    compaction->n_notices = fg_membership_notices(compaction->membership, compaction->notices);
    fg_assert(compaction->n_tenants == compaction->l0->l0.n_tenants);
    for (uint32_t i = 0; code == FG_OK && i < compaction->n_tenants; i++) {
        code = cmp_env_check(&compaction->env, err);
        if (code == FG_OK)
            code = advance_tenant(compaction, i, err);
    }
    if (code == FG_OK)
        code = erase_unlisted(compaction, err);
    count_all(compaction);
    tell_failing(compaction, compaction->tenants_failing, "compaction fails", compaction_failures);
    tell_failing(compaction, compaction->usage_undocumented, "usage cannot be documented",
                 usage_failures);
    /* Not after a failed pass: without all manifests, is_covered() would find less to retire and
     * the sweep would ask a bucket that just failed. */
    return code == FG_OK && is_keeper(compaction) ? collect_garbage(compaction, err) : code;
}

enum fg_code cmp_compaction_pass(struct cmp_compaction *compaction, struct fg_err *err)
{
    int64_t begun_ns = fg_mono_ns(compaction->env.clock);
    enum fg_code code;

    fg_thread_lock(&compaction->thread);
    /* Reset before the pass begins: a wake from here on causes another pass. */
    compaction->hurry = false;
    compaction->round_begun_wall_ns = fg_wall_ns(compaction->env.clock);
    fg_thread_unlock(&compaction->thread);
    code = one_round(compaction, err);
    fg_thread_lock(&compaction->thread);
    compaction->round_ended_wall_ns = fg_wall_ns(compaction->env.clock);
    compaction->rounds++;
    compaction->round_err = code == FG_OK ? (struct fg_err){.code = FG_OK} : *err;
    fg_thread_unlock(&compaction->thread);
    fg_metric_observe_ns(compaction->env.metrics, COMPACTOR_PASS_SECONDS,
                         fg_mono_ns(compaction->env.clock) - begun_ns);
    if (code == FG_OK) {
        compaction->failures = 0;
        fg_condition_clear(compaction->failing);
    } else if (code != FG_E_CANCELED) {
        fg_metric_add(compaction->env.metrics, COMPACTOR_PASS_FAILURES, 1);
        if (++compaction->failures >= FAILURES_TO_TELL)
            fg_condition_raise(compaction->failing, "compaction is stopped: %s", err->msg);
    }
    return code;
}

/* ---- the thread ---- */

static void run_passes(void *arg)
{
    struct cmp_compaction *compaction = arg;
    struct fg_err err;

    fg_thread_lower_priority(); /* a single server's agents and readers do not wait for a merge */
    while (!cmp_env_stopping(&compaction->env)) {
        enum fg_code code = cmp_compaction_pass(compaction, &err);

        if (code != FG_OK && code != FG_E_CANCELED)
            fg_log_warn("compactor pass failed, will retry", fg_ls("err", err.msg));
        wait_until(compaction, compaction->config.settings->interval_ns);
    }
}

enum fg_code cmp_compaction_create(const struct cmp_config *config,
                                   struct fg_membership *membership,
                                   struct cmp_compaction **ret_compaction, struct fg_err *err)
{
    const struct cmp_settings *settings = config->settings;
    struct cmp_compaction *compaction = fg_new(struct cmp_compaction);

    compaction->config = *config;
    compaction->membership = membership;
    compaction->failing = fg_condition_create(config->conditions, "compaction_failing");
    compaction->tenants_failing = fg_condition_create(config->conditions, "tenants_failing");
    compaction->usage_undocumented = fg_condition_create(config->conditions, "usage_undocumented");
    cmp_ingester_list_init(&compaction->ingesters, config->store);
    compaction->env =
        (struct cmp_env){.bucket = config->bucket,
                         .clock = config->clock,
                         .scratch = config->scratch,
                         .disk = config->disk,
                         .memory_max_bytes = (size_t)settings->memory_max_bytes,
                         .block_version = fg_block_version_chosen(settings->block_version),
                         .metrics = fg_metrics_register(config->registry, compactor_metrics,
                                                        FG_COUNT(compactor_metrics)),
                         .stop = fg_bucket_stop_create(),
                         .pause = pause_env};
    compaction->gc = (struct cmp_gc_config){.retire_after_ns = settings->retire_after_ns,
                                            .grace_ns = settings->grace_ns,
                                            .orphan_after_ns = settings->orphan_after_ns};
    /* The first sweep comes half an hour after the start, so a process that restarts in a loop
     * does not list the bucket each time. */
    compaction->sweep_mono_ns = fg_time_add(fg_mono_ns(config->clock), SWEEP_NS / 12);
    fg_thread_init(&compaction->thread);
    /* Names of objects come from it (cmp_plan_block_id()), so two compactors must not share a
     * seed. */
    if (getrandom(&compaction->env.random, sizeof compaction->env.random, 0) !=
        sizeof compaction->env.random)
        compaction->env.random = (uint64_t)fg_wall_ns(fg_clock_real());
    if (cmp_fetch_prepare(&compaction->env, err) != FG_OK) {
        cmp_compaction_destroy(compaction);
        return err->code;
    }
    *ret_compaction = compaction;
    return FG_OK;
}

enum fg_code cmp_compaction_start(struct cmp_compaction *compaction, struct fg_err *err)
{
    return fg_thread_start(&compaction->thread, "compactor", run_passes, compaction, err);
}

void cmp_compaction_stop(struct cmp_compaction *compaction)
{
    /* First the stop, then the wake-up: the thread checks the stop under the lock before each
     * wait. */
    fg_bucket_stop_all(compaction->env.stop);
    fg_thread_lock(&compaction->thread);
    wake(compaction);
    fg_thread_unlock(&compaction->thread);
    fg_thread_join(&compaction->thread);
}

struct fg_bucket_stop *cmp_compaction_bucket_stop(struct cmp_compaction *compaction)
{
    return compaction->env.stop;
}

void cmp_compaction_destroy(struct cmp_compaction *compaction)
{
    if (compaction == NULL)
        return;
    destroy_tenants(compaction->tenants, compaction->n_tenants);
    destroy_tenants(compaction->erased, compaction->n_erased);
    free(compaction->shown);
    fg_condition_destroy(compaction->failing);
    fg_condition_destroy(compaction->tenants_failing);
    fg_condition_destroy(compaction->usage_undocumented);
    fg_manifest_unref(compaction->l0);
    fg_access_registry_unref(compaction->access);
    cmp_ingester_list_done(&compaction->ingesters);
    cmp_query_list_done(&compaction->queries);
    fg_bucket_stop_destroy(compaction->env.stop);
    fg_thread_done(&compaction->thread);
    free(compaction);
}

/* ---- status ---- */

static void put_tenant(struct fg_json_writer *json, const struct shown *shown, int64_t now_ns)
{
    const struct cmp_tenant_counts *counts = &shown->counts;

    fg_json_begin_object(json, NULL);
    fg_json_put_text(json, "tenant", shown->name);
    fg_json_put_bool(json, "own", shown->own);
    fg_json_begin_object(json, "blocks");
    fg_json_put_u64(json, "hour", counts->hours);
    fg_json_put_u64(json, "day", counts->days);
    fg_json_put_u64(json, "other", counts->others);
    fg_json_end(json);
    fg_json_put_u64(json, "bytes", counts->bytes);
    fg_json_put_u64(json, "profiles", counts->profiles);
    fg_json_put_u64(json, "uncovered_segments", counts->uncovered);
    fg_json_put_i64(json, "lag_seconds", age_s(now_ns, counts->oldest_entered_wall_ns));
    fg_json_put_u64(json, "deletions_pending", counts->deletions);
    fg_json_put_u64(json, "set_aside", counts->aside);
    fg_json_put_u64(json, "failures", shown->failures);
    fg_json_put_cstr(json, "deletions_wait_for", shown->waits_for);
    fg_json_put_cstr(json, "error", shown->err.code == FG_OK ? "" : shown->err.msg);
    fg_json_put_cstr(json, "usage_error", shown->unbilled.code == FG_OK ? "" : shown->unbilled.msg);
    fg_json_end(json);
}

static void put_job(struct fg_json_writer *json, const struct cmp_compaction *compaction)
{
    if (compaction->job_begun_wall_ns == 0) {
        fg_json_put_null(json, "job");
        return;
    }
    fg_json_begin_object(json, "job");
    fg_json_put_cstr(json, "tenant", compaction->job_tenant);
    fg_json_put_cstr(json, "why", compaction->job);
    fg_json_put_i64(json, "begun_ms", compaction->job_begun_wall_ns / FG_MS_NS);
    fg_json_end(json);
}

void cmp_compaction_status(struct cmp_compaction *compaction, struct fg_buf *out)
{
    /* Both before the lock, which is held only while text is written. */
    int64_t now_ns = fg_wall_ns(compaction->env.clock);
    uint32_t members = fg_membership_count(compaction->membership);
    struct fg_json_writer json = fg_json_writer(out);

    fg_thread_lock(&compaction->thread);
    fg_json_begin_object(&json, NULL);
    fg_json_put_u64(&json, "compactors", members);
    fg_json_put_u64(&json, "rounds", compaction->rounds);
    fg_json_put_i64(&json, "round_begun_ms", compaction->round_begun_wall_ns / FG_MS_NS);
    fg_json_put_i64(&json, "round_ended_ms", compaction->round_ended_wall_ns / FG_MS_NS);
    fg_json_put_cstr(&json, "error",
                     compaction->round_err.code == FG_OK ? "" : compaction->round_err.msg);
    put_job(&json, compaction);
    fg_json_begin_array(&json, "tenants");
    for (uint32_t i = 0; i < compaction->n_shown; i++)
        put_tenant(&json, &compaction->shown[i], now_ns);
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
    fg_thread_unlock(&compaction->thread);
}
