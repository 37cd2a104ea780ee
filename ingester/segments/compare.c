/*
 * Comparing the head with the bucket, in two halves (compare.h). Between the halves, and between
 * the pieces of the second one, pushes arrive and chunks are sealed. So each piece lists the chunks
 * of a group again and goes only by the ids that the first half found.
 *
 * A piece changes nothing in memory before its batch is written. It collects chunks as they are to
 * be (`changed`), and with an undo batch the way back.
 */
#include "ingester/segments/compare.h"

#include <stdlib.h>

enum { CHUNK_RECORD_BYTES = 128 }; /* in a batch, at most (ing_head_chunk_put()) */

static const size_t arena_max_bytes = (size_t)1 << 30; /* 16 bytes for each profile, and some */

void ing_compare_done(struct ing_compare *compare)
{
    fg_arena_destroy(compare->arena);
    free(compare->place.done);
    free(compare->outcomes);
    free(compare->missing);
    free(compare->unsure);
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
    return ing_head_chunks_select(head->chunks, &ing_head_chunks_all, arena, ret_chunks, ret_count,
                                  err);
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

/* from: the profile to begin with, if it is still there, or the one behind it; NULL: the first. */
static void walk_start(struct compare_walk *walk, struct fg_store *store,
                       const struct ing_head_chunk_key *chunk,
                       const struct ing_head_profile_key *from)
{
    struct fg_buf bytes;

    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    if (from == NULL)
        ing_head_put_chunk_key(&bytes, chunk);
    else
        ing_head_put_profile_key(&bytes, from);
    walk->chunk = chunk;
    /* To the end of the family, since walk_next() stops at the first key of another chunk. */
    walk->iter = fg_store_iter_create(store, HEAD_PROFILES, fg_buf_slice(&bytes), FG_LIT(""));
    fg_buf_done(&bytes);
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
    const struct ing_compare_targets *targets;
    struct ing_compare_group *group; /* that is being looked at */
    struct ing_head_chunk *chunks;   /* of the group, as they are in memory, by number */
    size_t n_chunks, cap_chunks;
    bool has_to;                       /* its open chunk is committed: */
    uint32_t to;                       /* where leftovers go then */
    struct fg_store_batch batch, undo; /* undo: profiles and chunks as they are now */
    struct ing_head_chunk *changed;    /* as they are to be */
    size_t n_changed, cap_changed;
    struct fg_err *err;
};

/* Returns true if the piece is to end here. What it writes and its undo are about as large. An
 * empty piece is not full, so each one makes progress. */
static bool is_full(const struct applying *applying)
{
    return FG_MAX(applying->batch.ops.len, applying->undo.ops.len) +
               applying->n_changed * CHUNK_RECORD_BYTES >=
           applying->head->piece_bytes;
}

static void add_outcome(struct ing_compare *compare, const struct ing_segments_outcome *outcome)
{
    if (compare->n_outcomes == compare->cap_outcomes) {
        compare->cap_outcomes = FG_MAX(16, compare->cap_outcomes * 2);
        compare->outcomes =
            fg_realloc(compare->outcomes, compare->cap_outcomes * sizeof *compare->outcomes);
    }
    compare->outcomes[compare->n_outcomes++] = *outcome;
}

static void add_group(struct ing_head_group_key **groups, uint32_t *n, uint32_t *cap,
                      const struct ing_head_group_key *group)
{
    if (*n == *cap) {
        *cap = FG_MAX(16, *cap * 2);
        *groups = fg_realloc(*groups, *cap * sizeof **groups);
    }
    (*groups)[(*n)++] = *group;
}

static bool is_held(const struct ing_compare_group *group, struct fg_id id)
{
    return bsearch(&id, group->committed.ids, group->committed.n, sizeof *group->committed.ids,
                   cmp_ids) != NULL;
}

/* Returns the chunk as it is to be written, which starts as it is in memory. Valid until the next
 * call. */
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
    if (applying->n_changed == applying->cap_changed) {
        applying->cap_changed = FG_MAX(16, applying->cap_changed * 2);
        applying->changed =
            fg_realloc(applying->changed, applying->cap_changed * sizeof *applying->changed);
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

/* Moves the profile that the walk stands on. */
static void move_profile(struct applying *applying, const struct compare_walk *walk,
                         const struct ing_head_chunk_key *to)
{
    struct ing_head_profile_key key = walk->key;
    struct fg_buf bytes;

    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    ing_head_put_profile_key(&bytes, &key);
    /* Delete and put are in one batch, so no crash leaves the profile in both chunks or in none. */
    fg_store_delete(&applying->batch, HEAD_PROFILES, fg_buf_slice(&bytes));
    fg_store_put(&applying->undo, HEAD_PROFILES, fg_buf_slice(&bytes), walk->iter->value);
    fg_buf_clear(&bytes);
    key.chunk = *to;
    ing_head_put_profile_key(&bytes, &key);
    fg_store_put(&applying->batch, HEAD_PROFILES, fg_buf_slice(&bytes), walk->iter->value);
    fg_store_delete(&applying->undo, HEAD_PROFILES, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
}

/* Counts the profiles of a chunk that the bucket has and those that it lacks. */
static enum fg_code divide(const struct applying *applying, const struct ing_head_chunk *chunk,
                           struct ing_head_chunk *held, struct ing_head_chunk *lacking)
{
    const struct ing_compare_group *group = applying->group;
    struct compare_walk walk;

    *held = *lacking = ing_head_chunk_empty(&chunk->key);
    if (chunk->count == group->committed.n && fg_id_eq(chunk->digest, group->digest)) {
        *held = *chunk; /* the usual case: just what we had was committed by another */
        return FG_OK;
    }
    walk_start(&walk, applying->head->store, &chunk->key, NULL);
    for (bool first = true; walk_next(&walk, first); first = false)
        ing_head_chunk_add(is_held(group, walk.key.id) ? held : lacking, walk.key.time_ns,
                           walk.key.id, walk.iter->value.len);
    return walk_end(&walk, applying->err);
}

/* ---- one chunk ---- */

/* Moves the profiles that the bucket lacks to the open chunk. */
static enum fg_code move_leftovers(struct applying *applying, const struct ing_head_chunk *chunk,
                                   const struct ing_head_chunk_key *to,
                                   const struct ing_head_chunk *lacking)
{
    struct compare_walk walk;

    ing_head_chunk_join(changed_chunk(applying, to, chunk), lacking);
    walk_start(&walk, applying->head->store, &chunk->key, NULL);
    for (bool first = true; walk_next(&walk, first); first = false)
        if (!is_held(applying->group, walk.key.id))
            move_profile(applying, &walk, to);
    return walk_end(&walk, applying->err);
}

/* Marks the chunk committed without its leftovers. */
static enum fg_code commit_chunk(struct applying *applying, const struct ing_head_chunk *chunk,
                                 struct ing_head_chunk *held, const struct ing_head_chunk *lacking)
{
    const struct ing_compare_targets *targets = applying->targets;
    struct ing_head_chunk_key to = {chunk->key.group, applying->to};

    if (!applying->has_to)
        to.number = targets->leftover(targets->arg, &chunk->key);
    if (chunk->state == CHUNK_OPEN) {
        /* For all chunks of the group: in memory the open chunk stays open until the event is
         * handed in, so the core would go on naming it. */
        applying->to = to.number;
        applying->has_to = true;
    }
    if (lacking->count > 0 && move_leftovers(applying, chunk, &to, lacking) != FG_OK)
        return applying->err->code;
    held->born = chunk->born;
    held->opened_wall_ns = chunk->opened_wall_ns;
    held->state = CHUNK_COMMITTED;
    held->generation = applying->compare->generation;
    *changed_chunk(applying, &chunk->key, chunk) = *held;
    applying->group->n_met += held->count;
    add_outcome(applying->compare, &(struct ing_segments_outcome){
                                       .group = chunk->key.group,
                                       .number = chunk->key.number,
                                       .to = to.number,
                                       .moved_profiles = lacking->count,
                                       .moved_bytes = lacking->bytes,
                                   });
    return FG_OK;
}

/* Returns the committed chunk that profiles of the group move to. */
static struct ing_head_chunk_key split_target(const struct applying *applying)
{
    const struct ing_compare_place *place = &applying->compare->place;
    struct ing_head_chunk_key to = {applying->group->key, place->split};
    struct ing_head_chunk known;

    /* One for all pieces, since a push looks for duplicates in each chunk of its group. But it may
     * have been evicted since the last piece. */
    if (place->has_split && ing_head_chunks_find(applying->head->chunks, &to, &known)) {
        fg_assert(known.state == CHUNK_COMMITTED &&
                  known.generation == applying->compare->generation);
        return to;
    }
    /* The same answer for all chunks of the group in this piece, since the core takes no step. */
    to.number = applying->targets->split(applying->targets->arg, &applying->group->key);
    return to;
}

/* Notes that profiles of a chunk have moved to a committed one. */
static void note_split(struct applying *applying, const struct ing_head_chunk *chunk,
                       const struct ing_head_chunk_key *to, const struct ing_head_chunk *moved)
{
    struct ing_compare_place *place = &applying->compare->place;
    struct ing_head_chunk *rest, *target;

    /* Only now that the chunk will be there: else a push could take its number. */
    place->has_split = true;
    place->split = to->number;
    /* Its times may now be wider than those of its profiles. That costs a reader a look. */
    rest = changed_chunk(applying, &chunk->key, chunk);
    rest->count -= moved->count;
    rest->bytes -= moved->bytes;
    rest->digest = fg_id_sub(rest->digest, moved->digest);
    target = changed_chunk(applying, to, chunk);
    target->state = CHUNK_COMMITTED;
    target->generation = applying->compare->generation;
    ing_head_chunk_join(target, moved);
    applying->group->n_met += moved->count;
    add_outcome(applying->compare, &(struct ing_segments_outcome){
                                       .group = chunk->key.group,
                                       .number = chunk->key.number,
                                       .to = to->number,
                                       .split = true,
                                       .moved_profiles = moved->count,
                                       .moved_bytes = moved->bytes,
                                   });
}

/* Moves the profiles that the bucket has to a committed chunk, as many as the piece takes. */
static enum fg_code split_chunk(struct applying *applying, const struct ing_head_chunk *chunk)
{
    struct ing_compare_place *place = &applying->compare->place;
    const struct ing_head_chunk_key to = split_target(applying);
    struct ing_head_chunk moved = ing_head_chunk_empty(&to);
    struct compare_walk walk;

    walk_start(&walk, applying->head->store, &chunk->key, place->in_chunk ? &place->next : NULL);
    place->in_chunk = false;
    for (bool first = true; walk_next(&walk, first); first = false) {
        if (!is_held(applying->group, walk.key.id))
            continue;
        if (is_full(applying)) {
            place->in_chunk = true;
            place->next = walk.key;
            break;
        }
        move_profile(applying, &walk, &to);
        ing_head_chunk_add(&moved, walk.key.time_ns, walk.key.id, walk.iter->value.len);
    }
    if (moved.count > 0)
        note_split(applying, chunk, &to, &moved);
    return walk_end(&walk, applying->err);
}

/* Returns what moving these profiles takes in a batch. */
static size_t cost_of(const struct ing_head_chunk *profiles)
{
    return profiles->bytes + profiles->count * 2 * (HEAD_PROFILE_KEY_BYTES + 8);
}

/* Separates what the bucket has of a chunk. */
static enum fg_code apply_chunk(struct applying *applying, const struct ing_head_chunk *chunk)
{
    struct ing_compare_place *place = &applying->compare->place;
    struct ing_head_chunk held, lacking;

    if (place->in_chunk && ing_head_same_chunk(&place->next.chunk, &chunk->key))
        return split_chunk(applying, chunk);
    place->in_chunk = false;
    /* Count before moving: a chunk of which the bucket has nothing stays as it is, and that is the
     * usual case. */
    if (divide(applying, chunk, &held, &lacking) != FG_OK)
        return applying->err->code;
    if (held.count == 0)
        return FG_OK;
    if (lacking.count == 0 ||
        (lacking.bytes <= held.bytes && cost_of(&lacking) <= applying->head->piece_bytes))
        return commit_chunk(applying, chunk, &held, &lacking);
    return split_chunk(applying, chunk);
}

/* ---- one group ---- */

static int cmp_chunks(const void *left, const void *right)
{
    return ing_head_chunk_cmp(&((const struct ing_head_chunk *)left)->key,
                              &((const struct ing_head_chunk *)right)->key);
}

static void list_chunks(struct applying *applying)
{
    size_t n, kept = 0;

    /* Only this thread adds chunks, so the second call finds as many as the first one counted. */
    while ((n = ing_head_chunks_of_group(applying->head->chunks, &applying->group->key,
                                         applying->chunks, applying->cap_chunks)) >
           applying->cap_chunks) {
        applying->cap_chunks = FG_MAX(8, n);
        applying->chunks =
            fg_realloc(applying->chunks, applying->cap_chunks * sizeof *applying->chunks);
    }
    for (size_t i = 0; i < n; i++)
        if (applying->chunks[i].count > 0)
            applying->chunks[kept++] = applying->chunks[i];
    applying->n_chunks = kept;
    if (kept > 1)
        qsort(applying->chunks, kept, sizeof *applying->chunks, cmp_chunks);
}

static bool is_done(const struct ing_compare_place *place, uint32_t number)
{
    for (size_t i = 0; i < place->n_done; i++)
        if (place->done[i] == number)
            return true;
    return false;
}

static void note_done(struct ing_compare_place *place, uint32_t number)
{
    if (place->n_done == place->cap_done) {
        place->cap_done = FG_MAX(16, place->cap_done * 2);
        place->done = fg_realloc(place->done, place->cap_done * sizeof *place->done);
    }
    place->done[place->n_done++] = number;
}

/* Returns the next chunk to look at; NULL: the group is done. The open one comes first: leftovers
 * of the others go into it, unless it becomes committed itself. Then chunks of other states, newest
 * first. An unchecked one needs a look at all objects: one segment that lacks an id proves nothing.
 */
static const struct ing_head_chunk *next_chunk(const struct applying *applying)
{
    const struct ing_compare *compare = applying->compare;
    const struct ing_head_chunk *next = NULL;

    for (size_t i = 0; i < applying->n_chunks; i++) {
        const struct ing_head_chunk *chunk = &applying->chunks[i];

        if (chunk->state == CHUNK_COMMITTED || (chunk->state == CHUNK_UNCHECKED && !compare->all) ||
            is_done(&compare->place, chunk->key.number))
            continue;
        if (chunk->state == CHUNK_OPEN)
            return chunk;
        next = chunk;
    }
    return next;
}

static void make_unchecked(struct applying *applying)
{
    struct ing_compare *compare = applying->compare;

    for (size_t i = 0; i < applying->n_chunks; i++) {
        const struct ing_head_chunk *chunk = &applying->chunks[i];

        if (chunk->state != CHUNK_COMMITTED && chunk->state != CHUNK_UNCHECKED)
            changed_chunk(applying, &chunk->key, chunk)->state = CHUNK_UNCHECKED;
    }
    add_group(&compare->unsure, &compare->n_unsure, &compare->cap_unsure, &applying->group->key);
}

/* Applies the comparison to the chunks of one group. *ret_done: false if the piece is full before.
 */
static enum fg_code apply_group(struct applying *applying, bool *ret_done)
{
    struct ing_compare_place *place = &applying->compare->place;
    const struct ing_head_chunk *chunk;

    list_chunks(applying);
    /* What is missing in a damaged object cannot be told from what was never committed: decide
     * nothing. Uncommitted chunks are neither shown nor committed until a comparison succeeds. */
    if (applying->group->unsure)
        make_unchecked(applying);
    applying->has_to = false;
    while (!applying->group->unsure && (chunk = next_chunk(applying)) != NULL) {
        *ret_done = false;
        if (is_full(applying))
            return FG_OK;
        if (apply_chunk(applying, chunk) != FG_OK)
            return applying->err->code;
        if (place->in_chunk)
            return FG_OK;
        note_done(place, chunk->key.number);
    }
    place->n_done = 0;
    place->in_chunk = place->has_split = false;
    *ret_done = true;
    return FG_OK;
}

/* ---- one piece ---- */

static enum fg_code collect_piece(struct applying *applying)
{
    struct ing_compare *compare = applying->compare;
    bool done = true;

    while (done && compare->place.group < compare->n_groups && !is_full(applying)) {
        struct ing_compare_group *group = &compare->groups[compare->place.group];

        applying->group = group;
        if (apply_group(applying, &done) != FG_OK)
            return applying->err->code;
        /* Lists groups of which the bucket has profiles that no uncommitted chunk has. A profile
         * is in one segment only, so chunks that were committed before cannot have these either. A
         * group that goes on in the next piece is listed for the sake of the pushes in between:
         * they are looked up, since the walk does not come back to where they may go. */
        if (group->n_met < group->committed.n || group->unsure)
            add_group(&compare->missing, &compare->n_missing, &compare->cap_missing, &group->key);
        compare->place.group += done;
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
                               const struct ing_compare_targets *targets, struct fg_err *err)
{
    struct applying applying = {.head = head, .compare = compare, .targets = targets, .err = err};
    enum fg_code code;

    compare->more = false; /* nor after a failure */
    compare->n_outcomes = compare->n_missing = compare->n_unsure = 0;
    /* First undo what failed writes left, or their profiles would be moved along. */
    if (ing_head_writer_settle(head->writer, err) != FG_OK)
        return err->code;
    fg_store_batch_init(&applying.batch);
    fg_store_batch_init(&applying.undo);
    code = collect_piece(&applying);
    if (code == FG_OK)
        code = write_changes(&applying);
    compare->more = code == FG_OK && compare->place.group < compare->n_groups;
    fg_store_batch_done(&applying.batch);
    fg_store_batch_done(&applying.undo);
    free(applying.chunks);
    free(applying.changed);
    return code;
}
