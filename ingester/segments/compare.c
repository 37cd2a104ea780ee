/*
 * Comparing the head with the bucket, in two halves (compare.h). Between the halves pushes arrive,
 * so the second half lists the chunks of the head again and goes only by the ids that the first
 * half found.
 *
 * The second half changes nothing in memory before its batch is written. It collects chunks as they
 * are to be (`changed`), and with an undo batch the way back.
 */
#include "ingester/segments/compare.h"

static const size_t arena_max_bytes = (size_t)1 << 30; /* 16 bytes for each profile, and some */

void ing_compare_done(struct ing_compare *compare)
{
    fg_arena_destroy(compare->arena);
    *compare = (struct ing_compare){0};
}

static enum fg_code too_many(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the head has too many profiles to compare");
}

/* Selects all chunks of the head, sorted by group. */
static enum fg_code find_chunks(const struct ing_compare_head *head, struct fg_arena *arena,
                                struct ing_head_chunk **ret_chunks, size_t *ret_count,
                                struct fg_err *err)
{
    return ing_head_chunks_select(
        head->chunks,
        &(struct ing_head_chunks_filter){
            .any_tenant = true, .start_ns = INT64_MIN, .end_ns = INT64_MAX, .any_state = true},
        arena, ret_chunks, ret_count, err);
}

/* ---- finding ---- */

static int cmp_ids(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

/* Lists the groups of the head of which the bucket may have profiles. */
static enum fg_code list_groups(const struct ing_head_chunk *chunks, size_t n,
                                const struct ing_compare_asking *asking,
                                struct ing_compare *compare, struct fg_err *err)
{
    compare->groups = fg_arena_new(compare->arena, struct ing_compare_group, n);
    if (compare->groups == NULL)
        return too_many(err);
    for (size_t i = 0; i < n; i++) {
        const struct ing_head_group_key *key = &chunks[i].key.group;

        if ((i > 0 && ing_head_same_group(key, &chunks[i - 1].key.group)) ||
            !asking->may_hold(asking->arg, key))
            continue;
        compare->groups[compare->n_groups++] =
            (struct ing_compare_group){.key = *key, .committed.arena = compare->arena};
    }
    return FG_OK;
}

static enum fg_code find_committed(const struct ing_compare_head *head,
                                   const struct ing_compare_asking *asking,
                                   struct ing_compare *compare, struct fg_err *err)
{
    fg_auto(fg_arena) *scratch = fg_arena_create(arena_max_bytes);
    struct ing_dedup_query *queries =
        fg_arena_new(scratch, struct ing_dedup_query, compare->n_groups);

    if (queries == NULL)
        return too_many(err);
    for (size_t i = 0; i < compare->n_groups; i++) {
        const struct ing_head_group_key *key = &compare->groups[i].key;

        queries[i] = (struct ing_dedup_query){
            .tenant = ing_catalog_tenant_name(ing_catalog_tenant_at(head->catalog, key->tenant)),
            .shard = key->shard,
            .window = key->window,
            .all = &compare->groups[i].committed,
            .unsure = &compare->groups[i].unsure,
        };
    }
    return ing_dedup_find(head->dedup, queries, compare->n_groups, asking->only, asking->least,
                          asking->until, &compare->generation, err);
}

/* Drops groups of which the bucket has nothing, and sorts the ids of the others. */
static void keep_held(struct ing_compare *compare)
{
    size_t kept = 0;

    for (size_t i = 0; i < compare->n_groups; i++) {
        struct ing_compare_group *group = &compare->groups[i];

        if (group->committed.n == 0 && !group->unsure)
            continue;
        if (group->committed.n > 1)
            qsort(group->committed.ids, group->committed.n, sizeof *group->committed.ids, cmp_ids);
        /* The digest lets divide() recognize the usual case without reading the chunk. */
        for (size_t k = 0; k < group->committed.n; k++)
            group->digest = fg_id_add(group->digest, group->committed.ids[k]);
        compare->groups[kept++] = *group;
    }
    compare->n_groups = kept;
}

enum fg_code ing_compare_find(const struct ing_compare_head *head,
                              const struct ing_compare_asking *asking,
                              struct ing_compare *ret_compare, struct fg_err *err)
{
    struct ing_compare compare = {.arena = fg_arena_create(arena_max_bytes),
                                  .all = asking->only == 0,
                                  .generation = FG_MAX(asking->only, asking->least)};
    struct ing_head_chunk *chunks = NULL;
    size_t n = 0;
    enum fg_code code = find_chunks(head, compare.arena, &chunks, &n, err);

    if (code == FG_OK)
        code = list_groups(chunks, n, asking, &compare, err);
    if (code == FG_OK && compare.n_groups > 0)
        code = find_committed(head, asking, &compare, err);
    /* Also after a failure, which is harmless: only lists in the arena change. */
    keep_held(&compare);
    if (code == FG_OK)
        *ret_compare = compare;
    else
        ing_compare_done(&compare);
    return code;
}

/* ---- walking a chunk ---- */

struct compare_walk {
    struct fg_store_iter *iter;
    const struct ing_head_chunk_key *chunk;
    struct ing_head_profile_key key; /* of the profile it stands on */
};

static void walk_start(struct compare_walk *walk, struct fg_store *store,
                       const struct ing_head_chunk_key *chunk)
{
    struct fg_buf from;

    fg_buf_init(&from, HEAD_CHUNK_KEY_BYTES);
    ing_head_put_chunk_key(&from, chunk);
    walk->chunk = chunk;
    /* To the end of the family, since walk_next() stops at the first key of another chunk. */
    walk->iter = fg_store_iter_create(store, HEAD_PROFILES, fg_buf_slice(&from), FG_LIT(""));
    fg_buf_done(&from);
}

static bool walk_next(struct compare_walk *walk, bool first)
{
    if (!first)
        fg_store_iter_next(walk->iter);
    return walk->iter->valid && ing_head_get_profile_key(walk->iter->key, &walk->key) &&
           ing_head_same_chunk(&walk->key.chunk, walk->chunk);
}

static enum fg_code walk_end(struct compare_walk *walk, struct fg_err *err)
{
    enum fg_code code = walk->iter->err.code;

    if (code != FG_OK)
        *err = walk->iter->err;
    fg_store_iter_destroy(walk->iter);
    return code;
}

/* ---- applying ---- */

struct applying {
    const struct ing_compare_head *head;
    struct ing_compare *compare;
    struct ing_compare_group *group;   /* that is being looked at */
    bool has_to;                       /* its open chunk is committed: */
    uint32_t to;                       /* where leftovers go then */
    struct fg_store_batch batch, undo; /* undo: profiles and chunks as they are now */
    struct ing_head_chunk *changed;    /* as they are to be */
    size_t n_changed;
    uint32_t (*leftover)(void *arg, const struct ing_head_chunk_key *chunk);
    void *arg;
    struct fg_err *err;
};

static bool is_held(const struct ing_compare_group *group, struct fg_id id)
{
    return bsearch(&id, group->committed.ids, group->committed.n, sizeof *group->committed.ids,
                   cmp_ids) != NULL;
}

/* Returns the chunk as it is to be written, which starts as it is in memory. */
static struct ing_head_chunk *changed_chunk(struct applying *applying,
                                            const struct ing_head_chunk_key *key,
                                            const struct ing_head_chunk *like)
{
    struct ing_head_chunk *chunk;

    for (size_t i = applying->n_changed; i > 0; i--) { /* those of a group stand together */
        if (!ing_head_same_group(&applying->changed[i - 1].key.group, &key->group))
            break;
        if (ing_head_same_chunk(&applying->changed[i - 1].key, key))
            return &applying->changed[i - 1];
    }
    chunk = &applying->changed[applying->n_changed++];
    if (!ing_head_chunks_find(applying->head->chunks, key, chunk)) {
        *chunk = ing_head_chunk_empty(key);
        chunk->born = like->born; /* its records name what those of that one name */
        chunk->opened_wall_ns = like->opened_wall_ns;
    }
    /* The target takes over records that name older dictionaries, so it keeps these from being
     * deleted. */
    chunk->born = FG_MIN(chunk->born, like->born);
    return chunk;
}

static void move_profile(struct applying *applying, const struct compare_walk *walk,
                         struct ing_head_chunk *leftover)
{
    struct ing_head_profile_key key = walk->key;
    struct fg_buf bytes;

    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    ing_head_put_profile_key(&bytes, &key);
    /* Delete and put are in one batch, so no crash leaves the profile in both chunks or in none. */
    fg_store_delete(&applying->batch, HEAD_PROFILES, fg_buf_slice(&bytes));
    fg_store_put(&applying->undo, HEAD_PROFILES, fg_buf_slice(&bytes), walk->iter->value);
    fg_buf_clear(&bytes);
    key.chunk = leftover->key;
    ing_head_put_profile_key(&bytes, &key);
    fg_store_put(&applying->batch, HEAD_PROFILES, fg_buf_slice(&bytes), walk->iter->value);
    fg_store_delete(&applying->undo, HEAD_PROFILES, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    ing_head_chunk_add(leftover, key.time_ns, key.id, walk->iter->value.len);
}

/* Splits the profiles of a chunk into those that the bucket has and those that it lacks. */
static enum fg_code divide(const struct applying *applying, const struct ing_head_chunk *chunk,
                           struct ing_head_chunk *kept, struct ing_head_chunk *moved)
{
    const struct ing_compare_group *group = applying->group;
    struct compare_walk walk;

    *kept = *moved = ing_head_chunk_empty(&chunk->key);
    if (chunk->count == group->committed.n && fg_id_eq(chunk->digest, group->digest)) {
        *kept = *chunk; /* the usual case: just what we had was committed by another */
        return FG_OK;
    }
    walk_start(&walk, applying->head->store, &chunk->key);
    for (bool first = true; walk_next(&walk, first); first = false)
        ing_head_chunk_add(is_held(group, walk.key.id) ? kept : moved, walk.key.time_ns,
                           walk.key.id, walk.iter->value.len);
    return walk_end(&walk, applying->err);
}

static enum fg_code move_profiles(struct applying *applying, const struct ing_head_chunk *chunk)
{
    const struct ing_head_chunk_key to = {
        chunk->key.group,
        applying->has_to ? applying->to : applying->leftover(applying->arg, &chunk->key)};
    struct ing_head_chunk *leftover = changed_chunk(applying, &to, chunk);
    struct compare_walk walk;

    walk_start(&walk, applying->head->store, &chunk->key);
    for (bool first = true; walk_next(&walk, first); first = false)
        if (!is_held(applying->group, walk.key.id))
            move_profile(applying, &walk, leftover);
    return walk_end(&walk, applying->err);
}

/* If the bucket has a profile of the chunk, moves the others and marks the chunk committed. */
static enum fg_code apply_chunk(struct applying *applying, const struct ing_head_chunk *chunk)
{
    struct ing_compare *compare = applying->compare;
    struct ing_head_chunk kept, moved;

    /* Count before moving: a chunk of which the bucket has nothing stays as it is, and that is the
     * usual case. */
    if (divide(applying, chunk, &kept, &moved) != FG_OK)
        return applying->err->code;
    if (kept.count == 0)
        return FG_OK;
    if (chunk->state == CHUNK_OPEN) {
        /* Once, for all chunks of the group: in memory the open chunk stays open until the event is
         * handed in, so the core would go on naming it. */
        applying->to = applying->leftover(applying->arg, &chunk->key);
        applying->has_to = true;
    }
    if (moved.count > 0 && move_profiles(applying, chunk) != FG_OK)
        return applying->err->code;
    kept.born = chunk->born;
    kept.opened_wall_ns = chunk->opened_wall_ns;
    kept.state = CHUNK_COMMITTED;
    kept.generation = compare->generation;
    *changed_chunk(applying, &chunk->key, chunk) = kept;
    applying->group->n_met += kept.count;
    compare->outcomes[compare->n_outcomes++] = (struct ing_segments_outcome){
        .group = chunk->key.group,
        .number = chunk->key.number,
        .moved_profiles = moved.count,
        .moved_bytes = moved.bytes,
    };
    return FG_OK;
}

/* Applies the comparison to the chunks of one group. The open one comes first: leftovers of the
 * others go into it, unless it becomes committed itself. */
static enum fg_code apply_group(struct applying *applying, const struct ing_head_chunk *chunks,
                                size_t n)
{
    struct ing_compare *compare = applying->compare;

    /* What is missing in a damaged object cannot be told from what was never committed: decide
     * nothing. Uncommitted chunks are neither shown nor committed until a comparison succeeds. */
    if (applying->group->unsure) {
        for (size_t i = 0; i < n; i++)
            if (chunks[i].state != CHUNK_COMMITTED && chunks[i].state != CHUNK_UNCHECKED)
                changed_chunk(applying, &chunks[i].key, &chunks[i])->state = CHUNK_UNCHECKED;
        compare->unsure[compare->n_unsure++] = applying->group->key;
        return FG_OK;
    }
    applying->has_to = false;
    for (size_t i = 0; i < n; i++)
        if (chunks[i].state == CHUNK_OPEN && apply_chunk(applying, &chunks[i]) != FG_OK)
            return applying->err->code;
    /* Chunks of other states, newest first. An unchecked one needs a look at all objects: one
     * segment that lacks an id proves nothing. */
    for (size_t i = n; i > 0; i--)
        if (chunks[i - 1].state != CHUNK_COMMITTED && chunks[i - 1].state != CHUNK_OPEN &&
            (chunks[i - 1].state != CHUNK_UNCHECKED || compare->all) &&
            apply_chunk(applying, &chunks[i - 1]) != FG_OK)
            return applying->err->code;
    return FG_OK;
}

/* Walks the chunks of the head and the groups of the comparison together; both are sorted by group.
 */
static enum fg_code apply_chunks(struct applying *applying, const struct ing_head_chunk *chunks,
                                 size_t n)
{
    struct ing_compare *compare = applying->compare;
    size_t g = 0, next;

    for (size_t i = 0; i < n; i = next) {
        const struct ing_head_group_key *key = &chunks[i].key.group;

        for (next = i + 1; next < n && ing_head_same_group(&chunks[next].key.group, key);)
            next++;
        while (g < compare->n_groups && ing_head_group_cmp(&compare->groups[g].key, key) < 0)
            g++;
        if (g == compare->n_groups)
            break;
        applying->group = &compare->groups[g];
        if (ing_head_same_group(&applying->group->key, key) &&
            apply_group(applying, chunks + i, next - i) != FG_OK)
            return applying->err->code;
    }
    return FG_OK;
}

static enum fg_code write_changes(struct applying *applying)
{
    enum fg_code code;

    if (applying->n_changed == 0)
        return FG_OK;
    for (size_t i = 0; i < applying->n_changed; i++) {
        ing_head_chunk_put(&applying->changed[i], &applying->batch);
        ing_head_chunks_put_known(applying->head->chunks, &applying->changed[i].key,
                                  &applying->undo);
    }
    /* The store may have done a write that it reported as failed. Then the moved profiles are in a
     * chunk that is not in memory, and the next comparison does not find them: the undo moves them
     * back first. */
    code = ing_head_writer_write(applying->head->writer, &applying->batch, &applying->undo,
                                 applying->err);
    for (size_t i = 0; i < applying->n_changed; i++)
        if (code == FG_OK)
            ing_head_chunks_set(applying->head->chunks, &applying->changed[i]);
        else if (code != FG_E_LIMIT) /* then nothing was written, and nothing will be undone */
            ing_head_chunks_doubt(applying->head->chunks, &applying->changed[i].key);
    return code;
}

enum fg_code ing_compare_apply(const struct ing_compare_head *head, struct ing_compare *compare,
                               uint32_t (*leftover)(void *arg,
                                                    const struct ing_head_chunk_key *chunk),
                               void *arg, struct fg_err *err)
{
    struct applying applying = {
        .head = head, .compare = compare, .leftover = leftover, .arg = arg, .err = err};
    struct ing_head_chunk *chunks = NULL;
    enum fg_code code;
    size_t n = 0;

    /* First undo what failed writes left, or their profiles would be moved along. */
    if (ing_head_writer_settle(head->writer, err) != FG_OK ||
        find_chunks(head, compare->arena, &chunks, &n, err) != FG_OK)
        return err->code;
    /* Each chunk changes itself and at most one target. */
    applying.changed = fg_arena_new(compare->arena, struct ing_head_chunk, 2 * n);
    compare->outcomes = fg_arena_new(compare->arena, struct ing_segments_outcome, n);
    compare->missing = fg_arena_new(compare->arena, struct ing_head_group_key, compare->n_groups);
    compare->unsure = fg_arena_new(compare->arena, struct ing_head_group_key, compare->n_groups);
    if (applying.changed == NULL || compare->outcomes == NULL || compare->missing == NULL ||
        compare->unsure == NULL)
        return too_many(err);
    fg_store_batch_init(&applying.batch);
    fg_store_batch_init(&applying.undo);
    code = apply_chunks(&applying, chunks, n);
    if (code == FG_OK)
        code = write_changes(&applying);
    fg_store_batch_done(&applying.batch);
    fg_store_batch_done(&applying.undo);
    /* Lists groups of which the bucket has profiles that no uncommitted chunk has. A profile is in
     * one segment only, so chunks that were committed before cannot have these either. */
    for (size_t i = 0; code == FG_OK && i < compare->n_groups; i++)
        if (compare->groups[i].n_met < compare->groups[i].committed.n || compare->groups[i].unsure)
            compare->missing[compare->n_missing++] = compare->groups[i].key;
    return code;
}
