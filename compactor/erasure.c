#include "compactor/erasure.h"

#include "common/access/registry/registry_object.h"
#include "common/access/registry/tenant_deletion.h"
#include "common/runtime/log.h"
#include "compactor/edit.h"
#include "compactor/gc.h"

#define BY "the compactor"

/* The age of an upload that no ingester swaps in any more: it makes another one after an hour, and
 * clocks and slow requests may take some time. orphan_after is at least as long. */
static const int64_t UPLOAD_OLD_NS = 2 * FG_HOUR_NS;

/* A step on its way. */
struct erasing {
    const struct cmp_erasure *work;
    struct fg_slice tenant;
    bool ended;      /* the registry says so */
    bool begun;      /* the registry has what was listed */
    uint64_t known;  /* the generation of the registry */
    struct fg_id id; /* of the tombstone */
    struct cmp_erasure_listed listed;
    uint64_t removed; /* profiles */
};

/* ---- the registry ---- */

/* *ret_deleted false: the tenant is not to be deleted, or not any more. */
static enum fg_code read_state(struct erasing *erasing, bool *ret_deleted, struct fg_err *err)
{
    struct cmp_env *env = erasing->work->env;
    struct fg_access_registry *registry;
    const Access__Tenant *tenant;

    *ret_deleted = false;
    if (fg_access_read(env->bucket, cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS), &registry,
                       err) != FG_OK)
        return err->code;
    tenant = fg_access_find_tenant(registry, erasing->tenant);
    erasing->known = registry->message->generation;
    *ret_deleted = fg_access_is_deleted(tenant) && tenant->deletion != NULL;
    if (*ret_deleted) {
        erasing->ended = tenant->state == ACCESS__TENANT__STATE__DELETED;
        erasing->begun = tenant->deletion->begun_ms != 0;
        erasing->id = cmp_erasure_id(erasing->tenant, tenant->deletion->asked_ms);
    }
    fg_access_registry_unref(registry);
    return FG_OK;
}

static enum fg_code swap_registry(struct erasing *erasing, fg_access_edit edit, struct fg_err *err)
{
    struct cmp_env *env = erasing->work->env;

    return fg_access_swap(&(struct fg_access_writer){.bucket = env->bucket,
                                                     .by = BY,
                                                     .now_ms = fg_wall_ns(env->clock) / FG_MS_NS,
                                                     .deadline_mono_ns = cmp_env_deadline(
                                                         env, ENV_REQUEST_TIMEOUT_NS),
                                                     .known = erasing->known},
                          edit, erasing, err);
}

static enum fg_code edit_begin(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    const struct erasing *erasing = arg;
    const struct fg_access_listed listed = {erasing->listed.blocks, erasing->listed.bytes,
                                            erasing->listed.segments, erasing->listed.profiles};

    return fg_access_begin_deletion(change, erasing->tenant, &listed, err);
}

static enum fg_code edit_end(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    const struct erasing *erasing = arg;

    return fg_access_end_deletion(change, erasing->tenant, erasing->removed, err);
}

/* ---- steps ---- */

/* In the place of all pending deletions: there may be as many as there can be, and they complete
 * only while the tenant is compacted, which it is no more. */
static enum fg_code bury(struct erasing *erasing, struct fg_err *err)
{
    const struct cmp_edit_task task = {
        .kind = EDIT_BURY_ALL,
        .tombstone = {.id = erasing->id,
                      .selector = FG_LIT("{}"),
                      .start_ns = INT64_MIN,
                      .end_ns = INT64_MAX,
                      .asked_wall_ns = fg_wall_ns(erasing->work->env->clock)}};

    if (!erasing->begun && swap_registry(erasing, edit_begin, err) != FG_OK)
        return err->code;
    fg_log_info("deletion of a tenant begins", fg_lb("tenant", erasing->tenant),
                fg_lu("blocks", erasing->listed.blocks),
                fg_lu("segments", erasing->listed.segments),
                fg_lu("profiles", erasing->listed.profiles));
    return cmp_edit_carry_out(erasing->work->env, erasing->tenant, &task, err);
}

static enum fg_code drop_data(struct erasing *erasing, struct fg_err *err)
{
    const struct cmp_erasure *work = erasing->work;
    struct cmp_edit_task task = {.kind = EDIT_APPLY};
    struct cmp_erasure_drop dropped;

    if (cmp_erasure_make_drop(work->l0, work->blocks, erasing->id, work->arena, &dropped, err) !=
        FG_OK)
        return err->code;
    task.change = dropped.change;
    if (cmp_edit_carry_out(work->env, erasing->tenant, &task, err) != FG_OK)
        return err->code;
    fg_log_info("data of a deleted tenant dropped", fg_lb("tenant", erasing->tenant),
                fg_lu("blocks", dropped.change.n_replace),
                fg_lu("segments", dropped.change.n_cover),
                fg_lu("profiles", dropped.taken.profiles));
    return FG_OK;
}

/* Once in a look: the L0 manifest of this look does not have the number that is asked now. */
static enum fg_code ask_ingesters(struct erasing *erasing, struct fg_err *err)
{
    const struct cmp_erasure *work = erasing->work;
    /* No block has anything that a deletion names: there are none. Nothing is on its way that a
     * wait would cover: pushes are refused. */
    bool *waiting = fg_arena_new(work->arena, bool, work->blocks->n_tombstones);
    struct cmp_completion_work completion = {.env = work->env,
                                             .l0 = work->l0,
                                             .blocks = work->blocks,
                                             .waiting = waiting,
                                             .ingesters = work->ingesters,
                                             .wait_ns = 0,
                                             .arena = work->arena};

    if (waiting == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u deletions", work->blocks->n_tombstones);
    return cmp_completion_advance(&completion, err);
}

/* *ret_more: there was nothing to delete. Else the next look sees if more came: a copy of the
 * manifest is written some time after a swap. */
static enum fg_code sweep(struct erasing *erasing, bool *ret_more, struct fg_err *err)
{
    struct cmp_erasure_memory *memory = erasing->work->memory;
    struct cmp_erasure_shared shared;
    uint64_t n;

    if (cmp_gc_sweep_tenant(erasing->work->env, erasing->tenant, &n, &shared, err) != FG_OK)
        return err->code;
    if (n > 0)
        fg_log_info("objects of a deleted tenant deleted", fg_lb("tenant", erasing->tenant),
                    fg_lu("objects", n));
    *ret_more = n == 0;
    memory->swept = n == 0 && shared.n == 0;
    if (shared.n == 0)
        return FG_OK;
    fg_log_info("deletion of a tenant waits until no ingester can commit segments that other "
                "tenants share",
                fg_lb("tenant", erasing->tenant), fg_lu("segments", shared.n),
                fg_lu("asked", shared.awaits));
    fg_assert(memory->shared == NULL);
    memory->shared = fg_new(struct cmp_erasure_shared);
    *memory->shared = shared;
    return FG_OK;
}

/* Deletes segments that no commit can list any more. The next sweep sees if there are others. */
static enum fg_code delete_shared(struct erasing *erasing, struct fg_err *err)
{
    const struct cmp_erasure_shared *shared = erasing->work->memory->shared;

    if (cmp_gc_delete_unlisted(erasing->work->env, shared->segments, shared->n, err) != FG_OK)
        return err->code;
    fg_log_info("segments of a deleted tenant and others deleted that were never committed",
                fg_lb("tenant", erasing->tenant), fg_lu("segments", shared->n));
    cmp_erasure_forget(erasing->work->memory);
    return FG_OK;
}

static enum fg_code settle(struct erasing *erasing, bool *ret_more, struct fg_err *err)
{
    const struct cmp_erasure *work = erasing->work;
    struct cmp_erasure_shared *shared = work->memory->shared;
    const struct cmp_edit_task ask = {.kind = EDIT_ASK, .asked = shared->awaits};
    const struct cmp_ingesters *ingesters;

    if (cmp_ingester_list_get(work->ingesters, work->env, &ingesters, err) != FG_OK)
        return fg_wrap(err, "listing ingesters that may commit segments of a deleted tenant");
    switch (cmp_erasure_settle(shared, work->l0, ingesters, UPLOAD_OLD_NS,
                               fg_wall_ns(work->env->clock))) {
    case SETTLING_ASK:
        return cmp_edit_carry_out(work->env, FG_LIT(""), &ask, err);
    case SETTLING_DELETE:
        *ret_more = true;
        return delete_shared(erasing, err);
    case SETTLING_SWEEP:
        *ret_more = true;
        cmp_erasure_forget(work->memory);
        return FG_OK;
    case SETTLING_WAIT:
        break;
    }
    return FG_OK;
}

static enum fg_code end_erasure(struct erasing *erasing, struct fg_err *err)
{
    struct fg_audit *audit = erasing->work->audit;
    struct fg_audit_event event = {.kind = FG_AUDIT_DELETE,
                                   .who = FG_LIT(BY),
                                   .tenant = erasing->tenant,
                                   .detail = FG_LIT("the tenant, with everything"),
                                   .count = erasing->removed};
    enum fg_code code;

    if (fg_audit_begin(audit, &event, err) != FG_OK)
        return err->code;
    code = swap_registry(erasing, edit_end, err);
    fg_audit_result(audit, &event, code, err);
    if (code == FG_OK)
        fg_log_info("a tenant was deleted", fg_lb("tenant", erasing->tenant),
                    fg_lu("profiles", erasing->removed));
    return code;
}

enum fg_code cmp_erasure_advance(const struct cmp_erasure *erasure, bool *ret_more,
                                 struct fg_err *err)
{
    struct erasing erasing = {.work = erasure, .tenant = erasure->blocks->tenant};
    const struct fg_blocks_tombstone *tombstone;
    struct cmp_edit_task clear;
    bool deleted;

    *ret_more = false;
    erasing.listed = cmp_erasure_listed(erasure->l0, erasure->blocks);
    /* Thousands of tenants that ended long ago must not cost a read of the registry each. */
    if (erasure->ended && erasing.listed.blocks + erasing.listed.segments == 0)
        return FG_OK;
    if (read_state(&erasing, &deleted, err) != FG_OK)
        return err->code;
    if (!deleted) {
        cmp_erasure_forget(erasure->memory);
        return FG_OK;
    }
    tombstone = fg_blocks_tombstone(erasure->blocks, erasing.id);
    erasing.removed = tombstone == NULL ? 0 : tombstone->profiles;
    switch (cmp_erasure_next(erasure->l0, erasure->blocks, erasing.id, erasing.ended,
                             erasure->memory)) {
    case ERASURE_BURY:
        *ret_more = true;
        return bury(&erasing, err);
    case ERASURE_DROP:
        *ret_more = true;
        return drop_data(&erasing, err);
    case ERASURE_ASK:
        return ask_ingesters(&erasing, err);
    case ERASURE_CLEAR:
        clear = (struct cmp_edit_task){.kind = EDIT_CLEAR, .tombstone.id = erasing.id};
        return cmp_edit_carry_out(erasure->env, erasing.tenant, &clear, err);
    case ERASURE_SWEEP:
        return sweep(&erasing, ret_more, err);
    case ERASURE_SETTLE:
        return settle(&erasing, ret_more, err);
    case ERASURE_END:
        return end_erasure(&erasing, err);
    case ERASURE_WAIT:
    case ERASURE_NOTHING:
        break;
    }
    return FG_OK;
}
