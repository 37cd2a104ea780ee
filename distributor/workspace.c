#include "distributor/workspace.h"

#include "common/net/rpc/rpc.h"

static struct dist_workspace *workspace_create(uint64_t max_bytes)
{
    struct dist_workspace *space = fg_new(struct dist_workspace);

    space->max_bytes = max_bytes;
    space->arena = fg_arena_create((size_t)max_bytes);
    for (size_t i = 0; i < FG_COUNT(space->inflated); i++)
        fg_buf_init(&space->inflated[i], SIZE_MAX);
    fg_buf_init(&space->wire, FG_RPC_MESSAGE_MAX_BYTES / 2);
    return space;
}

void dist_workspaces_init(struct dist_workspaces *workspaces, uint64_t max_bytes)
{
    workspaces->max_bytes = max_bytes;
    workspaces->free = NULL;
    (void)pthread_mutex_init(&workspaces->lock, NULL);
}

struct dist_workspace *dist_workspace_take(struct dist_workspaces *workspaces)
{
    struct dist_workspace *space;

    (void)pthread_mutex_lock(&workspaces->lock);
    /* The one that was given back last, whose memory is still in the caches. */
    space = workspaces->free;
    if (space != NULL)
        workspaces->free = space->next;
    (void)pthread_mutex_unlock(&workspaces->lock);
    return space != NULL ? space : workspace_create(workspaces->max_bytes);
}

/* Frees a buffer that one large upload made grow: else each workspace would keep the memory of the
 * largest upload it ever had. */
static void shrink(struct fg_buf *buf)
{
    enum { KEEP_MAX_BYTES = 1024 * 1024 }; /* usual uploads have a few 100 KiB */

    if (buf->cap > KEEP_MAX_BYTES)
        fg_buf_done(buf);
    fg_buf_clear(buf);
}

/* Returns what the arena may use: decompressed bytes and decoded objects share one limit, so that
 * neither a bomb nor an upload of many small profiles exceeds it. */
static uint64_t bytes_left(const struct dist_workspace *space)
{
    uint64_t left = space->max_bytes;

    for (unsigned i = 0; i < space->n_inflated; i++)
        left -= FG_MIN(left, (uint64_t)space->inflated[i].len);
    return left;
}

void dist_workspace_give(struct dist_workspaces *workspaces, struct dist_workspace *space)
{
    fg_arena_reset(space->arena);
    fg_arena_set_limit(space->arena, (size_t)space->max_bytes);
    for (size_t i = 0; i < FG_COUNT(space->inflated); i++)
        shrink(&space->inflated[i]);
    space->n_inflated = space->n_kept = 0;
    space->vain_bytes = 0;
    shrink(&space->wire);
    (void)pthread_mutex_lock(&workspaces->lock);
    space->next = workspaces->free;
    workspaces->free = space;
    (void)pthread_mutex_unlock(&workspaces->lock);
}

void dist_workspaces_done(struct dist_workspaces *workspaces)
{
    while (workspaces->free != NULL) {
        struct dist_workspace *space = workspaces->free;

        workspaces->free = space->next;
        fg_arena_destroy(space->arena);
        for (size_t i = 0; i < FG_COUNT(space->inflated); i++)
            fg_buf_done(&space->inflated[i]);
        fg_buf_done(&space->wire);
        free(space);
    }
    (void)pthread_mutex_destroy(&workspaces->lock);
}

void dist_workspace_keep(struct dist_workspace *space)
{
    space->n_kept = space->n_inflated;
    space->mark = fg_arena_mark(space->arena);
}

void dist_workspace_next(struct dist_workspace *space)
{
    /* Buffers and arena go back together: objects of the arena point into the buffers. */
    fg_assert(space->n_kept <= space->n_inflated);
    space->n_inflated = space->n_kept;
    fg_arena_release(space->arena, space->mark);
    fg_arena_set_limit(space->arena, (size_t)bytes_left(space));
}

/* Another buffer to decompress into. */
static struct fg_buf *take_buffer(struct dist_workspace *space)
{
    struct fg_buf *buf = &space->inflated[space->n_inflated];

    fg_assert(space->n_inflated < FG_COUNT(space->inflated));
    fg_buf_clear(buf);
    space->n_inflated++;
    return buf;
}

enum fg_code dist_workspace_inflate(struct dist_workspace *space, enum fg_coding coding,
                                    uint64_t max_bytes, struct fg_slice *body, struct fg_err *err)
{
    uint64_t max = FG_MIN(max_bytes, bytes_left(space));
    struct fg_buf *out;

    if (coding == FG_CODING_IDENTITY)
        return body->len <= max_bytes ? FG_OK
                                      : fg_fail(err, FG_E_TOO_LARGE, "%zu bytes are more than %llu",
                                                body->len, (unsigned long long)max_bytes);
    out = take_buffer(space);
    if (fg_inflate(*body, coding, (size_t)max, out, err) != FG_OK) {
        space->vain_bytes += out->len;
        return err->code;
    }
    *body = fg_buf_slice(out);
    fg_arena_set_limit(space->arena, (size_t)bytes_left(space));
    return FG_OK;
}

enum fg_code dist_workspace_message(struct dist_workspace *space,
                                    const struct fg_connect_call *call, uint64_t max_bytes,
                                    struct fg_slice *ret_message, struct fg_err *err)
{
    uint64_t max = FG_MIN(max_bytes, bytes_left(space));
    struct fg_buf *out = take_buffer(space);

    if (fg_connect_message(call, (size_t)max, out, ret_message, err) != FG_OK) {
        space->vain_bytes += out->len;
        return err->code;
    }
    fg_arena_set_limit(space->arena, (size_t)bytes_left(space));
    return FG_OK;
}
