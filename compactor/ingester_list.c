#include "compactor/ingester_list.h"

void cmp_ingester_list_init(struct cmp_ingester_list *list, const struct cmp_local_store *own)
{
    *list = (struct cmp_ingester_list){.own = own};
}

void cmp_ingester_list_done(struct cmp_ingester_list *list)
{
    fg_arena_destroy(list->arena);
    *list = (struct cmp_ingester_list){0};
}

void cmp_ingester_list_age(struct cmp_ingester_list *list)
{
    list->young = false;
}

/* Takes over the ring that was read; a missing ring has no members. */
static enum fg_code decode_ring(struct cmp_ingester_list *list, const struct fg_bucket_request *get,
                                struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = fg_ring_none();
    struct cmp_ingesters known;

    if ((get->code == FG_OK &&
         fg_ring_decode(fg_buf_slice(&get->body), arena, &ring, err) != FG_OK) ||
        cmp_ingesters_of(&ring, arena, &known, err) != FG_OK) {
        fg_arena_destroy(arena);
        return fg_wrap(err, FG_RING_NAME);
    }
    fg_arena_destroy(list->arena);
    list->arena = arena;
    list->known = known;
    list->etag = get->etag;
    return FG_OK;
}

static enum fg_code read_ring(struct cmp_ingester_list *list, struct cmp_env *env,
                              struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = FG_RING_NAME,
                                    .content_max_bytes = FG_RING_MAX_BYTES,
                                    .deadline_mono_ns =
                                        cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS)};
    enum fg_code code;

    if (list->etag.text[0] != '\0') {
        get.condition = FG_BUCKET_IF_CHANGED;
        get.if_etag = list->etag;
    }
    code = cmp_env_call(env, &get);
    if (code == FG_OK && get.unchanged)
        return FG_OK;
    if (code == FG_OK || code == FG_E_NOT_FOUND)
        code = decode_ring(list, &get, err);
    else
        *err = get.err;
    fg_bucket_clear(&get);
    return code;
}

enum fg_code cmp_ingester_list_get(struct cmp_ingester_list *list, struct cmp_env *env,
                                   const struct cmp_ingesters **ret_known, struct fg_err *err)
{
    if (list->own != NULL) {
        list->known = (struct cmp_ingesters){.items = &list->own_store, .n = 1};
        list->known.known = atomic_load(&list->own->known);
        if (list->known.known)
            list->own_store = (struct cmp_ingester_store){list->own->id, FG_LIT("this server")};
    } else if (!list->young) {
        if (read_ring(list, env, err) != FG_OK)
            return err->code;
        list->young = true;
    }
    *ret_known = &list->known;
    return FG_OK;
}
