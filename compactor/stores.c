#include "compactor/stores.h"

void cmp_stores_init(struct cmp_stores *stores, const struct cmp_store *own)
{
    *stores = (struct cmp_stores){.own = own};
}

void cmp_stores_done(struct cmp_stores *stores)
{
    fg_arena_destroy(stores->arena);
    *stores = (struct cmp_stores){0};
}

void cmp_stores_age(struct cmp_stores *stores)
{
    stores->young = false;
}

/* What the ring says; where there is none, that. */
static enum fg_code take(struct cmp_stores *stores, const struct fg_bucket_request *get,
                         struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(FG_RING_ARENA_BYTES);
    struct fg_ring ring = fg_ring_none();
    struct cmp_ending_stores known;

    if ((get->code == FG_OK &&
         fg_ring_decode(fg_buf_slice(&get->body), arena, &ring, err) != FG_OK) ||
        cmp_ending_stores_of(&ring, arena, &known, err) != FG_OK) {
        fg_arena_destroy(arena);
        return fg_wrap(err, FG_RING_NAME);
    }
    fg_arena_destroy(stores->arena);
    stores->arena = arena;
    stores->known = known;
    stores->etag = get->etag;
    return FG_OK;
}

static enum fg_code read_ring(struct cmp_stores *stores, struct cmp_env *env, struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = FG_RING_NAME,
                                    .content_max_bytes = FG_RING_MAX_BYTES,
                                    .deadline_mono_ns =
                                        cmp_env_deadline(env, ENV_REQUEST_TIMEOUT_NS)};
    enum fg_code code;

    if (stores->etag.text[0] != '\0') {
        get.condition = FG_BUCKET_IF_CHANGED;
        get.if_etag = stores->etag;
    }
    code = fg_bucket_call(env->bucket, &get);
    if (code == FG_OK && get.unchanged)
        return FG_OK;
    if (code == FG_OK || code == FG_E_NOT_FOUND)
        code = take(stores, &get, err);
    else
        *err = get.err;
    fg_bucket_clear(&get);
    return code;
}

enum fg_code cmp_stores_get(struct cmp_stores *stores, struct cmp_env *env,
                            const struct cmp_ending_stores **ret_known, struct fg_err *err)
{
    if (stores->own != NULL) {
        stores->known = (struct cmp_ending_stores){.items = &stores->own_store, .n = 1};
        stores->known.known = atomic_load(&stores->own->known);
        if (stores->known.known)
            stores->own_store = (struct cmp_ending_store){stores->own->id, FG_LIT("this server")};
    } else if (!stores->young) {
        if (read_ring(stores, env, err) != FG_OK)
            return err->code;
        stores->young = true;
    }
    *ret_known = &stores->known;
    return FG_OK;
}
