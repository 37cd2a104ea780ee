#include "compactor/edit.h"

/* ---- reading ---- */

/* request: its content, or nothing where there is no object. */
static enum fg_code get(struct cmp_env *env, const char *name, const struct fg_manifest *known,
                        struct fg_bucket_request *request, struct fg_err *err)
{
    *request = (struct fg_bucket_request){.verb = FG_BUCKET_GET,
                                          .name = name,
                                          .content_max_bytes = FG_MANIFEST_MAX_BYTES,
                                          .deadline_mono_ns =
                                              cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS)};
    if (known != NULL && known->etag.len > 0 && known->etag.len < sizeof request->if_etag.text) {
        request->condition = FG_BUCKET_IF_CHANGED;
        memcpy(request->if_etag.text, known->etag.ptr, known->etag.len);
    }
    if (fg_bucket_call(env->bucket, request) != FG_OK && request->code != FG_E_NOT_FOUND) {
        *err = request->err;
        return err->code;
    }
    return FG_OK;
}

static struct fg_slice etag_of(const struct fg_bucket_request *request)
{
    return request->code == FG_OK ? fg_cstr(request->etag.text) : fg_bytes(NULL, 0);
}

static void replace(struct fg_manifest **manifest, struct fg_manifest *with)
{
    fg_manifest_unref(*manifest);
    *manifest = with;
}

enum fg_code cmp_manifests_l0(struct cmp_env *env, struct fg_manifest **manifest,
                              struct fg_err *err)
{
    struct fg_bucket_request request;
    struct fg_manifest *read = NULL;
    enum fg_code code;

    if (get(env, FG_NAME_L0, *manifest, &request, err) != FG_OK)
        return err->code;
    if (request.unchanged)
        return FG_OK;
    code = request.code == FG_E_NOT_FOUND
               ? fg_manifest_l0_missing(err)
               : fg_manifest_l0(fg_buf_slice(&request.body), etag_of(&request), &read, err);
    fg_bucket_clear(&request);
    if (code != FG_OK)
        return fg_wrap(err, FG_NAME_L0);
    replace(manifest, read);
    return FG_OK;
}

enum fg_code cmp_manifests_blocks(struct cmp_env *env, struct fg_slice tenant,
                                  struct fg_manifest **manifest, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request request;
    struct fg_manifest *read;
    enum fg_code code;

    if (fg_name_blocks(name, tenant, err) != FG_OK ||
        get(env, name, *manifest, &request, err) != FG_OK)
        return err->code;
    if (request.unchanged)
        return FG_OK;
    code = fg_manifest_blocks(fg_buf_slice(&request.body), etag_of(&request), tenant, &read, err);
    fg_bucket_clear(&request);
    if (code != FG_OK)
        return fg_wrap(err, "%s", name);
    replace(manifest, read);
    return FG_OK;
}

/* ---- edits ---- */

/* The manifests an edit works on, read anew for each try. */
struct editing {
    struct cmp_env *env;
    struct fg_slice tenant; /* empty: L0 */
    struct fg_manifest *l0, *blocks;
    struct fg_arena *arena;
};

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
    if (cmp_manifests_l0(env, &editing->l0, &err) != FG_OK ||
        (editing->tenant.len > 0 &&
         cmp_manifests_blocks(env, editing->tenant, &editing->blocks, &err) != FG_OK)) {
        cmp_edit_read_failed(edit, &err, fg_mono_ns(env->clock));
        return;
    }
    if (editing->blocks != NULL &&
        fg_blocks_check(&editing->blocks->blocks, &editing->l0->l0, &err) != FG_OK) {
        cmp_edit_read_failed(edit, &err, fg_mono_ns(env->clock));
        return;
    }
    cmp_edit_read(edit, &editing->l0->l0, editing->blocks == NULL ? NULL : &editing->blocks->blocks,
                  fg_wall_ns(env->clock), editing->arena);
}

static enum fg_code encode(const struct editing *editing, const struct cmp_edit *edit,
                           struct fg_buf *out, struct fg_err *err)
{
    return editing->tenant.len == 0 ? fg_l0_encode(&edit->l0, out, err)
                                    : fg_blocks_encode(&edit->blocks, out, err);
}

/* Whether it was won is seen when it is read again; only what cannot be written ends it here. */
static enum fg_code swap_step(struct editing *editing, struct cmp_edit *edit, struct fg_err *err)
{
    struct cmp_env *env = editing->env;
    const struct fg_manifest *old = editing->tenant.len == 0 ? editing->l0 : editing->blocks;
    char name[FG_NAME_MAX_BYTES] = FG_NAME_L0;
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name};
    struct fg_buf out;

    fg_assert(old != NULL); /* SWAPPING comes after it was read */
    fg_buf_init(&out, FG_MANIFEST_MAX_BYTES);
    if (encode(editing, edit, &out, err) != FG_OK ||
        (editing->tenant.len > 0 && fg_name_blocks(name, editing->tenant, err) != FG_OK)) {
        fg_buf_done(&out);
        return err->code;
    }
    request.content = fg_buf_slice(&out);
    request.condition = old->etag.len == 0 ? FG_BUCKET_IF_ABSENT : FG_BUCKET_IF_MATCH;
    if (old->etag.len > 0)
        memcpy(request.if_etag.text, old->etag.ptr, old->etag.len);
    request.deadline_mono_ns = cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS);
    if (fg_bucket_call(env->bucket, &request) == FG_OK)
        fg_kept_offer(env->bucket->kept, name, request.content);
    cmp_edit_swapped(edit, request.code == FG_OK, fg_mono_ns(env->clock));
    fg_bucket_clear(&request);
    fg_buf_done(&out);
    return FG_OK;
}

static enum fg_code carry_out(struct editing *editing, struct cmp_edit *edit, struct fg_err *err)
{
    for (;;) {
        switch (edit->state) {
        case EDIT_READING:
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
            /* Tried as often as it may be: it may be there all the same. */
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
