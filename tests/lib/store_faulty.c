#include "common/storage/store/store.h"
#include "tests/lib/store_doubles.h"

static struct fg_store_faulty *faulty_of(struct fg_store *store)
{
    return fg_container(store, struct fg_store_faulty, store);
}

static enum fg_code faulty_write(struct fg_store *store, struct fg_store_batch *batch,
                                 struct fg_err *err)
{
    struct fg_store_faulty *faulty = faulty_of(store);
    bool fails = faulty->fail_at != 0 && ++faulty->writes == faulty->fail_at;

    if (atomic_load(&faulty->full) || faulty->sick) {
        faulty->sick = true;
        return fg_fail(err, FG_E_NO_SPACE, "write: no room, as asked for");
    }

    if (faulty->max_bytes > 0 && batch->ops.len > faulty->max_bytes)
        return fg_fail(err, FG_E_LIMIT, "write: a batch of %zu bytes", batch->ops.len);
    if (fails && !faulty->fail_late)
        return fg_fail(err, FG_E_UNAVAILABLE, "write %llu: made to fail",
                       (unsigned long long)faulty->writes);
    if (fg_store_write(faulty->inner, batch, err) != FG_OK)
        return err->code;
    if (fails && faulty->fail_full)
        atomic_store(&faulty->full, true);
    if (fails)
        return fg_fail(err, FG_E_UNAVAILABLE, "write %llu: made to fail after it was done",
                       (unsigned long long)faulty->writes);
    return FG_OK;
}

static enum fg_code faulty_heal(struct fg_store *store, struct fg_err *err)
{
    struct fg_store_faulty *faulty = faulty_of(store);

    if (atomic_load(&faulty->full))
        return fg_fail(err, FG_E_NO_SPACE, "heal: no room, as asked for");
    faulty->sick = false;
    (void)atomic_fetch_add(&faulty->healed, 1);
    return fg_store_heal(faulty->inner, err);
}

static enum fg_code fail_read(struct fg_err *err)
{
    return fg_fail(err, FG_E_UNAVAILABLE, "read: made to fail");
}

static enum fg_code faulty_get(struct fg_store *store, unsigned family, struct fg_slice key,
                               struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    if (faulty_of(store)->fail_reads)
        return fail_read(err);
    return fg_store_get(faulty_of(store)->inner, family, key, out, ret_found, err);
}

static enum fg_code faulty_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                    bool *ret_found, struct fg_err *err)
{
    if (faulty_of(store)->fail_reads)
        return fail_read(err);
    return fg_store_contains(faulty_of(store)->inner, family, key, ret_found, err);
}

/* --- an iterator that has failed and stands nowhere --- */

static void dead_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    (void)iter;
    (void)key;
}

static void dead_next(struct fg_store_iter *iter)
{
    (void)iter;
}

static void dead_destroy(struct fg_store_iter *iter)
{
    free(iter);
}

struct fg_store_iter *fg_store_iter_failed(const struct fg_err *err)
{
    static const struct fg_store_iter_ops dead_ops = {
        .seek = dead_seek, .next = dead_next, .destroy = dead_destroy};
    struct fg_store_iter *dead = fg_new(struct fg_store_iter);

    dead->ops = &dead_ops;
    dead->err = *err;
    return dead;
}

/* --- an iterator over something that is damaged --- */

struct damaged_iter {
    struct fg_store_iter iter;
    struct fg_store_iter *inner;
    struct fg_slice key; /* borrowed */
};

static struct damaged_iter *damaged_of(struct fg_store_iter *iter)
{
    return fg_container(iter, struct damaged_iter, iter);
}

static void damaged_stand(struct damaged_iter *at)
{
    at->iter.valid = at->inner->valid;
    at->iter.err = at->inner->err;
    at->iter.key = at->inner->key;
    at->iter.value = at->inner->value;
    if (!at->iter.valid || !fg_slice_eq(at->iter.key, at->key))
        return;
    at->iter.valid = false;
    (void)fg_fail(&at->iter.err, FG_E_CORRUPT, "iterate: a damaged block, as asked for");
}

static void damaged_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    fg_store_iter_seek(damaged_of(iter)->inner, key);
    damaged_stand(damaged_of(iter));
}

static void damaged_next(struct fg_store_iter *iter)
{
    fg_store_iter_next(damaged_of(iter)->inner);
    damaged_stand(damaged_of(iter));
}

static void damaged_destroy(struct fg_store_iter *iter)
{
    fg_store_iter_destroy(damaged_of(iter)->inner);
    free(damaged_of(iter));
}

static struct fg_store_iter *damaged_create(struct fg_store_iter *inner, struct fg_slice key)
{
    static const struct fg_store_iter_ops ops = {
        .seek = damaged_seek, .next = damaged_next, .destroy = damaged_destroy};
    struct damaged_iter *at = fg_new(struct damaged_iter);

    *at = (struct damaged_iter){.iter = {.ops = &ops}, .inner = inner, .key = key};
    damaged_stand(at);
    return &at->iter;
}

static struct fg_store_iter *faulty_iter(struct fg_store *store, unsigned family,
                                         struct fg_slice from, struct fg_slice to)
{
    const struct fg_store_faulty *faulty = faulty_of(store);
    struct fg_err err;

    if (!faulty->fail_reads && faulty->damaged.len > 0)
        return damaged_create(fg_store_iter_create(faulty->inner, family, from, to),
                              faulty->damaged);
    if (!faulty->fail_reads)
        return fg_store_iter_create(faulty->inner, family, from, to);
    (void)fail_read(&err);
    return fg_store_iter_failed(&err);
}

static uint64_t faulty_disk_bytes(struct fg_store *store)
{
    return fg_store_disk_bytes(faulty_of(store)->inner);
}

static uint64_t faulty_memory_bytes(struct fg_store *store)
{
    return fg_store_memory_bytes(faulty_of(store)->inner);
}

static bool faulty_is_damaged(struct fg_store *store)
{
    return fg_store_is_damaged(faulty_of(store)->inner);
}

static void faulty_close(struct fg_store *store)
{
    (void)store; /* in place, and the inner one is borrowed */
}

void fg_store_faulty_init(struct fg_store_faulty *faulty, struct fg_store *inner)
{
    static const struct fg_store_ops ops = {
        faulty_write,      faulty_heal,         faulty_get,   faulty_contains,   faulty_iter,
        faulty_disk_bytes, faulty_memory_bytes, faulty_close, faulty_is_damaged,
    };

    *faulty = (struct fg_store_faulty){.store = {.ops = &ops}, .inner = inner};
}
