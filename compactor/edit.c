#include "compactor/edit.h"

/* The manifests that an edit works on; each attempt reads them again. */
struct editing {
    struct cmp_env *env;
    struct fg_slice tenant; /* empty: L0 */
    struct fg_manifest *l0, *blocks;
    struct fg_arena *arena;
};

/* Drops what was read. Each attempt needs fresh manifests, so there is no cache between
 * attempts. */
static void forget(struct editing *editing)
{
    fg_manifest_unref(editing->l0);
    fg_manifest_unref(editing->blocks);
    editing->l0 = editing->blocks = NULL;
    fg_arena_reset(editing->arena);
}

static void read_step(struct editing *editing, struct cmp_edit *edit)
{
    struct cmp_env *env = editing->env;
    int64_t wait_ns = edit->not_before_mono_ns - fg_mono_ns(env->clock);
    struct fg_err err;

    if (wait_ns > 0)
        env->pause(env, wait_ns);
    forget(editing);
    /* L0 first (l0-before-tenant). In the other order a segment could leave the L0 manifest in
     * between: the older tenant's manifest does not cover it yet, and fg_blocks_check() would
     * call it lost. */
    if (cmp_env_read_manifest(env, FG_LIT(""), &editing->l0, &err) != FG_OK ||
        (editing->tenant.len > 0 &&
         cmp_env_read_manifest(env, editing->tenant, &editing->blocks, &err) != FG_OK)) {
        cmp_edit_read_failed(edit, &err, fg_mono_ns(env->clock));
        return;
    }
    /* A tenant's manifest from a backup does not cover what has left the L0 manifest. To write
     * to it would make the loss final. */
    if (editing->blocks != NULL &&
        fg_blocks_check(&editing->blocks->blocks, &editing->l0->l0, &err) != FG_OK) {
        cmp_edit_read_failed(edit, &err, fg_mono_ns(env->clock));
        return;
    }
    cmp_edit_read(edit, &editing->l0->l0, editing->blocks == NULL ? NULL : &editing->blocks->blocks,
                  fg_wall_ns(env->clock), editing->arena);
}

/* Fails only if the manifest cannot be encoded. The next read tells whether the swap was won. */
static enum fg_code swap_step(struct editing *editing, struct cmp_edit *edit, struct fg_err *err)
{
    struct cmp_env *env = editing->env;
    bool is_l0 = editing->tenant.len == 0;
    const struct fg_manifest *old = is_l0 ? editing->l0 : editing->blocks;
    struct fg_err unconfirmed;
    struct fg_buf out;
    enum fg_code code;

    fg_assert(old != NULL); /* SWAPPING comes after READING */
    fg_buf_init(&out, FG_MANIFEST_MAX_BYTES);
    code = is_l0 ? fg_l0_encode(&edit->l0, &out, err) : fg_blocks_encode(&edit->blocks, &out, err);
    if (code == FG_OK) {
        /* `won` only decides how long to pause. A timeout after the bucket has taken the swap
         * looks like a loss; the next read finds the change and ends with DONE. */
        bool won =
            fg_manifest_swap(env->bucket, env->stop, editing->tenant, old->etag, fg_buf_slice(&out),
                             cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS), &unconfirmed) == FG_OK;

        cmp_edit_swapped(edit, won, fg_mono_ns(env->clock));
    }
    fg_buf_done(&out);
    return code;
}

static enum fg_code carry_out(struct editing *editing, struct cmp_edit *edit, struct fg_err *err)
{
    for (;;) {
        switch (edit->state) {
        case EDIT_READING:
            /* A swap may have come before, so the caller treats this failure like a lost
             * answer: the change may have been made. */
            if (cmp_env_check(editing->env, err) != FG_OK)
                return err->code;
            read_step(editing, edit);
            break;
        case EDIT_SWAPPING:
            if (swap_step(editing, edit, err) != FG_OK)
                return err->code;
            break;
        case EDIT_DONE:
            return FG_OK;
        case EDIT_LOST:
            return fg_fail(err, FG_E_ABORTED, "%s", edit->err.msg);
        case EDIT_FAILED:
            *err = edit->err;
            /* All attempts are used up; the change may have been made all the same. */
            return err->code != FG_E_ABORTED ? err->code
                                             : fg_fail(err, FG_E_UNAVAILABLE, "%s", edit->err.msg);
        }
    }
}

enum fg_code cmp_edit_carry_out(struct cmp_env *env, struct fg_slice tenant,
                                const struct cmp_edit_task *task, struct fg_err *err)
{
    struct editing editing = {
        .env = env, .tenant = tenant, .arena = fg_arena_create(FG_MANIFEST_ARENA_BYTES)};
    struct cmp_edit edit;
    enum fg_code code;

    fg_assert(cmp_edit_is_l0(task->kind) == (tenant.len == 0));
    cmp_edit_init(&edit, task, cmp_env_random(env));
    code = carry_out(&editing, &edit, err);
    forget(&editing);
    fg_arena_destroy(editing.arena);
    return code == FG_OK ? FG_OK : fg_wrap(err, "manifest");
}
