/*
 * A group is the chunks that memory lists, and their profiles in the store. Both are read without
 * holding anything back: a COMPARE or an eviction in between makes the result older or incomplete,
 * which costs repair a pass and nothing else.
 */
#include "ingester/repair/group.h"

#include <stdlib.h>

/* Copies the chunks of the group, which the caller frees. Returns how many there are. */
static size_t read_chunks(const struct ing_group_head *head, const struct ing_head_group_key *key,
                          struct ing_head_chunk **ret_chunks)
{
    size_t cap = 0, n;

    *ret_chunks = NULL;
    /* Again if chunks were added since they were counted. */
    while ((n = ing_head_chunks_of_group(head->chunks, key, *ret_chunks, cap)) > cap) {
        cap = n;
        *ret_chunks = fg_realloc(*ret_chunks, cap * sizeof **ret_chunks);
    }
    return n;
}

struct ing_group_sum ing_group_sum(const struct ing_group_head *head,
                                   const struct ing_head_group_key *key)
{
    struct ing_group_sum sum = {0};
    struct ing_head_chunk *chunks;
    size_t n = read_chunks(head, key, &chunks);

    /* Profiles in a segment need no repair. Unchecked chunks are left out, since it is unknown what
     * a segment has of them. */
    for (size_t i = 0; i < n; i++)
        if (ing_head_chunk_is_uncommitted(&chunks[i])) {
            sum.count += chunks[i].count;
            sum.digest = fg_id_add(sum.digest, chunks[i].digest);
        }
    free(chunks);
    return sum;
}

static int cmp_chunks(const void *left, const void *right)
{
    const struct ing_head_chunk *a = left, *b = right;

    return (a->key.number > b->key.number) - (a->key.number < b->key.number);
}

struct walking {
    struct fg_store *store;
    const struct ing_head_profile_key *place; /* NULL: the first one */
    bool (*each)(void *arg, const struct ing_head_profile_key *key, struct fg_slice value);
    void *arg;
    bool enough;
    struct fg_err *err;
};

static enum fg_code walk_chunk(struct walking *walking, const struct ing_head_chunk_key *chunk)
{
    fg_auto(fg_store_iter) *iter = NULL;
    struct ing_head_profile_key key;
    struct fg_buf from;

    fg_buf_init(&from, HEAD_PROFILE_KEY_BYTES);
    /* The place is in one chunk; later ones are read from their beginning. */
    if (walking->place != NULL && walking->place->chunk.number == chunk->number)
        ing_head_put_profile_key(&from, walking->place);
    else
        ing_head_put_chunk_key(&from, chunk);
    iter = fg_store_iter_create(walking->store, HEAD_PROFILES, fg_buf_slice(&from), FG_LIT(""));
    fg_buf_done(&from);
    for (; iter->valid && !walking->enough; fg_store_iter_next(iter)) {
        if (!ing_head_get_profile_key(iter->key, &key))
            return fg_fail(walking->err, FG_E_CORRUPT, "head: key of %zu bytes", iter->key.len);
        if (!ing_head_same_chunk(&key.chunk, chunk))
            break;
        walking->enough = !walking->each(walking->arg, &key, iter->value);
    }
    if (iter->err.code == FG_OK)
        return FG_OK;
    *walking->err = iter->err;
    return fg_wrap(walking->err, "head");
}

enum fg_code ing_group_each(const struct ing_group_head *head, const struct ing_head_group_key *key,
                            const struct ing_head_profile_key *place, bool committed,
                            bool (*each)(void *arg, const struct ing_head_profile_key *key,
                                         struct fg_slice value),
                            void *arg, struct fg_err *err)
{
    struct walking walking = {
        .store = head->store, .place = place, .each = each, .arg = arg, .err = err};
    struct ing_head_chunk *chunks;
    size_t n = read_chunks(head, key, &chunks);
    enum fg_code code = FG_OK;

    if (n > 1)
        qsort(chunks, n, sizeof *chunks, cmp_chunks);
    for (size_t i = 0; i < n && code == FG_OK && !walking.enough; i++)
        if ((committed || chunks[i].state != CHUNK_COMMITTED) &&
            (place == NULL || chunks[i].key.number >= place->chunk.number))
            code = walk_chunk(&walking, &chunks[i].key);
    free(chunks);
    return code;
}

void ing_group_ids_add(struct ing_group_ids *ids, struct fg_id id)
{
    if (ids->n == ids->cap) {
        ids->cap = FG_MAX(256, ids->cap * 2);
        ids->ids = fg_realloc(ids->ids, ids->cap * sizeof *ids->ids);
    }
    ids->ids[ids->n++] = id;
}

static int cmp_ids(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

void ing_group_ids_sort(struct ing_group_ids *ids)
{
    if (ids->n > 1)
        qsort(ids->ids, ids->n, sizeof *ids->ids, cmp_ids);
}

bool ing_group_ids_have(const struct ing_group_ids *ids, struct fg_id id)
{
    return ids->n > 0 && bsearch(&id, ids->ids, ids->n, sizeof *ids->ids, cmp_ids) != NULL;
}

void ing_group_ids_done(struct ing_group_ids *ids)
{
    free(ids->ids);
    *ids = (struct ing_group_ids){0};
}
