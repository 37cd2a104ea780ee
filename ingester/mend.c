#include "ingester/mend.h"

#include "common/base/str.h"
#include "ingester/forward/entry.h"
#include "ingester/keys.h"
#include "ingester/retire.h"

enum {
    GAPS_MAX = 1024, /* of all families: more is no damage of some blocks */
    ARENA_MAX_BYTES = 1024 * 1024,
    KEY_SHOWN_BYTES = 14, /* in hexadecimal: tenant, shard, window and number of a chunk */
    END_BYTES = 64,       /* no key is longer */
    META_LOST = 'l',
    CHUNKS_MAX_BYTES = 512 * 1024 * 1024, /* of a copy of all */
};

/* A stretch that cannot be read. */
struct ing_mend_gap {
    enum ing_head_family family;
    struct fg_slice after; /* the last readable key before it; empty: it is at the beginning */
    struct fg_slice until; /* the first readable key behind it; empty: there is none */
};

void ing_mend_init(struct ing_mend *mend)
{
    *mend = (struct ing_mend){.arena = fg_arena_create(ARENA_MAX_BYTES)};
}

void ing_mend_done(struct ing_mend *mend)
{
    fg_arena_destroy(mend->arena);
}

/* ---- finding ---- */

static void tell_gap(struct ing_mend *mend, const struct ing_mend_gap *gap,
                     const struct fg_err *why)
{
    struct fg_buf after, until;

    fg_buf_init(&after, SIZE_MAX);
    fg_buf_init(&until, SIZE_MAX);
    fg_buf_hex(&after, gap->after.ptr, FG_MIN(gap->after.len, (size_t)KEY_SHOWN_BYTES));
    fg_buf_hex(&until, gap->until.ptr, FG_MIN(gap->until.len, (size_t)KEY_SHOWN_BYTES));
    ing_damage_set_aside(
        &mend->damage, "%s between %.*s and %.*s: %s", ing_head_families[gap->family],
        FG_S(after.len == 0 ? FG_LIT("the first") : fg_buf_slice(&after)),
        FG_S(until.len == 0 ? FG_LIT("the last") : fg_buf_slice(&until)), why->msg);
    fg_buf_done(&after);
    fg_buf_done(&until);
}

static enum fg_code add_gap(struct ing_mend *mend, enum ing_head_family family,
                            struct fg_slice after, const struct fg_store_iter *behind,
                            const struct fg_err *why, struct fg_err *err)
{
    struct ing_mend_gap gap = {.family = family, .after = fg_arena_copy(mend->arena, after)};

    if (behind->valid)
        gap.until = fg_arena_copy(mend->arena, behind->key);
    if (mend->n == GAPS_MAX || gap.after.ptr == NULL || (behind->valid && gap.until.ptr == NULL) ||
        !fg_arena_grow(mend->arena, &mend->gaps, mend->n, 1, &mend->cap, sizeof *mend->gaps)) {
        *err = *why;
        return fg_wrap(err, "more than %u stretches cannot be read", mend->n);
    }
    mend->gaps[mend->n++] = gap;
    tell_gap(mend, &gap, why);
    return FG_OK;
}

static enum fg_code find_gaps(struct ing_mend *mend, struct fg_store *store,
                              enum ing_head_family family, struct fg_err *err)
{
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""));
    enum fg_code code = FG_OK;
    struct fg_buf last;

    fg_buf_init(&last, SIZE_MAX);
    while (code == FG_OK && (iter->valid || iter->err.code != FG_OK)) {
        struct fg_err why;

        for (; iter->valid; fg_store_iter_next(iter)) {
            fg_buf_clear(&last);
            fg_buf_put(&last, iter->key);
        }
        if (iter->err.code == FG_OK)
            break;
        why = iter->err;
        if (why.code == FG_E_CORRUPT && fg_store_iter_pass(iter, fg_buf_slice(&last))) {
            code = add_gap(mend, family, fg_buf_slice(&last), iter, &why, err);
        } else {
            *err = iter->err;
            code = err->code;
        }
    }
    fg_buf_done(&last);
    return code;
}

/* ---- deleting ---- */

static void delete_gap(const struct ing_mend_gap *gap, struct fg_store_batch *out)
{
    uint8_t end[END_BYTES];
    struct fg_buf from;

    fg_buf_init(&from, SIZE_MAX);
    fg_buf_put(&from, gap->after);
    if (gap->after.len > 0)
        fg_buf_putc(&from, 0); /* the first key behind it */
    memset(end, 0xff, sizeof end);
    fg_store_delete_range(out, gap->family, fg_buf_slice(&from),
                          gap->until.len > 0 ? gap->until : fg_bytes(end, sizeof end));
    fg_buf_done(&from);
}

/* Puts a record of whose series are lost: the next start finds no trace of them. */
static enum fg_code put_lost(const struct ing_mend_gap *gap, struct fg_store *store,
                             struct fg_store_batch *out, struct fg_err *err)
{
    struct fg_buf key, value;
    uint32_t first, last, cuts;
    enum fg_code code = ing_head_chunks_stored_cuts(store, &cuts, err);

    ing_catalog_tenants_between(gap->after, gap->until, &first, &last);
    fg_buf_init(&key, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    fg_buf_putc(&key, META_LOST);
    fg_buf_be32(&key, first);
    fg_buf_be32(&key, last);
    fg_buf_varint(&value, cuts);
    fg_store_put(out, HEAD_META, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
    return code;
}

/* One batch, so that no number is free to be given again once the records with it are gone. */
static enum fg_code delete_gaps(const struct ing_mend *mend, struct fg_store *store,
                                struct fg_err *err)
{
    struct fg_store_batch batch;
    enum fg_code code = FG_OK;

    fg_store_batch_init(&batch);
    for (uint32_t i = 0; i < mend->n && code == FG_OK; i++) {
        const struct ing_mend_gap *gap = &mend->gaps[i];

        delete_gap(gap, &batch);
        if (gap->family == HEAD_SERIES)
            code = ing_catalog_skip_series(store, gap->after, gap->until, &batch, err) == FG_OK
                       ? put_lost(gap, store, &batch, err)
                       : err->code;
        else if (gap->family == HEAD_DICT)
            code = ing_retire_skip_generations(store, gap->after, gap->until, &batch, err);
    }
    if (code == FG_OK)
        code = fg_store_write(store, &batch, err);
    /* RocksDB may have come to merge a damaged table since it was opened (store.h). */
    if (code == FG_E_CORRUPT && fg_store_heal(store, err) == FG_OK)
        code = fg_store_write(store, &batch, err);
    fg_store_batch_done(&batch);
    return code;
}

/* Reads META through. *ret_forwards: it names targets; a store that has never forwarded may have no
 * families for that. */
static enum fg_code read_meta(struct fg_store *store, bool *ret_forwards, struct fg_err *err)
{
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, HEAD_META, FG_LIT(""), FG_LIT(""));

    *ret_forwards = false;
    for (; iter->valid; fg_store_iter_next(iter))
        *ret_forwards |= iter->key.len > 0 && iter->key.ptr[0] == OUTBOX_META_PREFIX;
    if (iter->err.code != FG_OK)
        *err = iter->err;
    return iter->err.code;
}

enum fg_code ing_mend_store(struct ing_mend *mend, struct fg_store *store, struct fg_err *err)
{
    static const enum ing_head_family families[] = {HEAD_SERIES, HEAD_DICT, HEAD_CHUNKS,
                                                    HEAD_OUTBOX, HEAD_OUTBOX_DEAD};
    bool forwards;
    enum fg_code code = read_meta(store, &forwards, err);
    const size_t n = forwards ? FG_COUNT(families) : 3;

    /* Without META nothing of the rest means anything, and it may all be unreadable for the same
     * reason, such as a head whose key is lost: nothing is deleted. */
    for (size_t i = 0; i < n && code == FG_OK; i++)
        code = find_gaps(mend, store, families[i], err);
    if (code == FG_OK && mend->n > 0)
        code = delete_gaps(mend, store, err);
    return code;
}

/* ---- afterwards ---- */

/* Returns the least number of cuts at which a chunk began that is not committed; UINT32_MAX: there
 * is none. */
static enum fg_code oldest_chunk(struct ing_head_chunks *chunks, uint32_t *ret_born,
                                 struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(CHUNKS_MAX_BYTES);
    struct ing_head_chunk *list;
    size_t n = 0;
    enum fg_code code = ing_head_chunks_select(chunks, &ing_head_chunks_all, arena, &list, &n, err);

    *ret_born = UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        if (list[i].state != CHUNK_COMMITTED)
            *ret_born = FG_MIN(*ret_born, list[i].born);
    return code;
}

enum fg_code ing_mend_tell(struct fg_store *store, struct ing_head_chunks *chunks,
                           struct ing_catalog *catalog, struct fg_err *err)
{
    static const uint8_t from[1] = {META_LOST}, to[1] = {META_LOST + 1};
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(store, HEAD_META, fg_bytes(from, 1), fg_bytes(to, 1));
    struct fg_store_batch batch;
    struct fg_err unheeded;
    uint32_t oldest = 0;
    enum fg_code code = iter->valid ? oldest_chunk(chunks, &oldest, err) : FG_OK;

    fg_store_batch_init(&batch);
    for (; code == FG_OK && iter->valid; fg_store_iter_next(iter)) {
        struct fg_cur key = fg_cur(fg_slice_sub(iter->key, 1, iter->key.len));
        struct fg_cur value = fg_cur(iter->value);
        uint32_t first = fg_cur_be32(&key), last = fg_cur_be32(&key);
        uint64_t cuts = fg_cur_varint(&value);

        if (!fg_cur_end(&key) || !fg_cur_end(&value)) { /* then of anybody, and of any time */
            first = 0;
            last = UINT32_MAX;
            cuts = UINT32_MAX;
        }
        if (oldest != UINT32_MAX && oldest <= cuts)
            ing_catalog_lose_series(catalog, first, last);
        else
            fg_store_delete(&batch, HEAD_META, iter->key);
    }
    if (code == FG_OK && iter->err.code != FG_OK) {
        *err = iter->err;
        code = fg_wrap(err, "head");
    }
    /* A disk that takes no writes does not keep a head from starting: the next start tries again.
     */
    if (code == FG_OK && batch.count > 0)
        (void)fg_store_write(store, &batch, &unheeded);
    fg_store_batch_done(&batch);
    return code;
}
