#include "common/cluster/ring/object.h"

#include "common/storage/bucket/kept.h"

#include <time.h>

enum { ATTEMPTS_MAX = 20 }; /* with PAUSE_NS: a second of pauses in all */

#define PAUSE_NS (50 * FG_MS_NS) /* as long as another one's request takes */

static void send_and_wait(const struct fg_ring_object *object, struct fg_bucket_request *request)
{
    request->name = FG_RING_NAME;
    request->deadline_mono_ns = fg_time_add(fg_mono_ns(object->clock), object->timeout_ns);
    fg_bucket_wave_send(object->wave, object->bucket, request);
    /* A wave of one request, so that fg_ring_watch_stop() can cancel it from another thread. */
    fg_assert(fg_bucket_wave_next(object->wave) == request);
}

enum fg_code fg_ring_object_read(const struct fg_ring_object *object, struct fg_ring_view **view,
                                 struct fg_ring_read *ret, struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET, .content_max_bytes = FG_RING_MAX_BYTES};
    struct fg_ring_view *known = *view, *read = NULL;
    struct fg_slice etag = {NULL, 0};
    enum fg_code code;

    if (!object->whole && known != NULL && known->etag.len > 0 &&
        known->etag.len < sizeof get.if_etag.text) {
        get.condition = FG_BUCKET_IF_CHANGED;
        memcpy(get.if_etag.text, known->etag.ptr, known->etag.len);
    }
    send_and_wait(object, &get);
    if (get.code != FG_OK && get.code != FG_E_NOT_FOUND) {
        *err = get.err;
        fg_bucket_clear(&get); /* a read that failed halfway has a body */
        return err->code;
    }
    if (ret != NULL)
        *ret = (struct fg_ring_read){.answered_wall_ns = get.answered_wall_ns};
    if (get.unchanged)
        return FG_OK;
    if (get.code == FG_OK)
        etag = fg_cstr(get.etag.text);
    code = fg_ring_view_create(fg_buf_slice(&get.body), etag, known, &read, err);
    fg_bucket_clear(&get);
    /* The etag tells whether the next read finds the same damaged object or another one. */
    if (code == FG_E_CORRUPT && ret != NULL)
        ret->damaged = get.etag;
    if (code != FG_OK)
        return fg_wrap(err, FG_RING_NAME);
    fg_ring_view_unref(known);
    *view = read;
    return FG_OK;
}

enum fg_code fg_ring_object_swap(const struct fg_ring_object *object, struct fg_slice etag,
                                 const struct fg_ring *to, struct fg_err *err)
{
    struct fg_bucket_request put = {.verb = FG_BUCKET_PUT};
    struct fg_buf bytes;
    enum fg_code code;

    fg_buf_init(&bytes, FG_RING_MAX_BYTES);
    code = fg_ring_encode(to, &bytes, err);
    if (code == FG_OK) {
        put.content = fg_buf_slice(&bytes);
        put.condition = etag.len == 0 ? FG_BUCKET_IF_ABSENT : FG_BUCKET_IF_MATCH;
        fg_assert(etag.len < sizeof put.if_etag.text);
        if (etag.len > 0)
            memcpy(put.if_etag.text, etag.ptr, etag.len);
        send_and_wait(object, &put);
        code = put.code;
        if (code != FG_OK)
            *err = put.err;
        else
            fg_kept_offer(fg_bucket_base(object->bucket)->kept, FG_RING_NAME, put.content);
        fg_bucket_clear(&put);
    }
    fg_buf_done(&bytes);
    return code;
}

/* ---- a change ---- */

/* One attempt: reads, and swaps if the change is not there. *ret_done: it is there. */
static enum fg_code try_change(const struct fg_ring_object *object,
                               const struct fg_ring_change *change, struct fg_ring_view **view,
                               bool *ret_done, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring changed;
    bool has_changed;

    if (fg_ring_object_read(object, view, NULL, err) != FG_OK ||
        fg_ring_apply(&(*view)->ring, change, arena, &changed, &has_changed, err) != FG_OK)
        return err->code;
    *ret_done = !has_changed;
    if (!has_changed)
        return FG_OK;
    return fg_ring_object_swap(object, (*view)->etag, &changed, err);
}

enum fg_code fg_ring_object_change(const struct fg_ring_object *object,
                                   const struct fg_ring_change *change,
                                   struct fg_ring_view **ret_view, struct fg_err *err)
{
    static const struct timespec pause = {0, PAUSE_NS};
    fg_auto(fg_ring_view) *view = NULL;
    enum fg_code code = FG_OK;

    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        bool done = false;

        code = try_change(object, change, &view, &done, err);
        if (done) {
            *ret_view = fg_take(view);
            return FG_OK;
        }
        /* After UNAVAILABLE and DEADLINE the swap may have been made; the next attempt sees it. */
        if (code != FG_OK && code != FG_E_PRECONDITION && code != FG_E_UNAVAILABLE &&
            code != FG_E_DEADLINE)
            return code;
        if (code != FG_OK)
            (void)nanosleep(&pause, NULL);
    }
    if (code == FG_OK || code == FG_E_PRECONDITION)
        return fg_fail(err, FG_E_ABORTED, "others changed the ring %d times in the meantime",
                       ATTEMPTS_MAX);
    return code;
}
