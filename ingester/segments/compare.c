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

/* All rounds, sorted by group. */
static enum fg_code find_rounds(const struct ing_compare_head *head, struct fg_arena *arena,
                                struct ing_round **ret_rounds, size_t *ret_count,
                                struct fg_err *err)
{
    return ing_rounds_select(
        head->rounds,
        &(struct ing_rounds_filter){
            .any_tenant = true, .start_ns = INT64_MIN, .end_ns = INT64_MAX, .any_state = true},
        arena, ret_rounds, ret_count, err);
}

/* ---- finding ---- */

static int cmp_ids(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

/* One for each group that may be held. */
static enum fg_code list_groups(const struct ing_round *rounds, size_t n,
                                const struct ing_compare_asking *asking,
                                struct ing_compare *compare, struct fg_err *err)
{
    compare->groups = fg_arena_new(compare->arena, struct ing_compare_group, n);
    if (compare->groups == NULL)
        return too_many(err);
    for (size_t i = 0; i < n; i++) {
        const struct ing_head_group_key *key = &rounds[i].key.group;

        if ((i > 0 && ing_head_same_group(key, &rounds[i - 1].key.group)) ||
            !asking->may_hold(asking->arg, key))
            continue;
        compare->groups[compare->n_groups++] =
            (struct ing_compare_group){.key = *key, .held.arena = compare->arena};
    }
    return FG_OK;
}

static enum fg_code ask(const struct ing_compare_head *head,
                        const struct ing_compare_asking *asking, struct ing_compare *compare,
                        struct fg_err *err)
{
    fg_auto(fg_arena) *scratch = fg_arena_create(arena_max_bytes);
    struct ing_held_question *questions =
        fg_arena_new(scratch, struct ing_held_question, compare->n_groups);

    if (questions == NULL)
        return too_many(err);
    for (size_t i = 0; i < compare->n_groups; i++) {
        const struct ing_head_group_key *key = &compare->groups[i].key;

        questions[i] = (struct ing_held_question){
            .tenant = ing_catalog_tenant_name(ing_catalog_tenant_at(head->catalog, key->tenant)),
            .shard = key->shard,
            .window = key->window,
            .all = &compare->groups[i].held,
            .unsure = &compare->groups[i].unsure,
        };
    }
    return ing_held_find(head->held, questions, compare->n_groups, asking->only, asking->least,
                         asking->until, &compare->generation, err);
}

/* Those of which nothing is held, or may be, go; ids are put in order. */
static void keep_held(struct ing_compare *compare)
{
    size_t kept = 0;

    for (size_t i = 0; i < compare->n_groups; i++) {
        struct ing_compare_group *group = &compare->groups[i];

        if (group->held.n == 0 && !group->unsure)
            continue;
        if (group->held.n > 1)
            qsort(group->held.ids, group->held.n, sizeof *group->held.ids, cmp_ids);
        for (size_t k = 0; k < group->held.n; k++)
            group->digest = fg_id_add(group->digest, group->held.ids[k]);
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
    struct ing_round *rounds = NULL;
    size_t n = 0;
    enum fg_code code = find_rounds(head, compare.arena, &rounds, &n, err);

    if (code == FG_OK)
        code = list_groups(rounds, n, asking, &compare, err);
    if (code == FG_OK && compare.n_groups > 0)
        code = ask(head, asking, &compare, err);
    keep_held(&compare);
    if (code == FG_OK)
        *ret_compare = compare;
    else
        ing_compare_done(&compare);
    return code;
}

/* ---- walking a round ---- */

struct compare_walk {
    struct fg_store_iter *iter;
    const struct ing_head_round_key *round;
    struct ing_head_profile_key key; /* of the profile it stands on */
};

static void walk_start(struct compare_walk *walk, struct fg_store *store,
                       const struct ing_head_round_key *round)
{
    struct fg_buf from;

    fg_buf_init(&from, HEAD_ROUND_KEY_BYTES);
    ing_head_put_round_key(&from, round);
    walk->round = round;
    walk->iter = fg_store_iter_create(store, HEAD_PROFILES, fg_buf_slice(&from), FG_LIT(""));
    fg_buf_done(&from);
}

static bool walk_next(struct compare_walk *walk, bool first)
{
    if (!first)
        fg_store_iter_next(walk->iter);
    return walk->iter->valid && ing_head_get_profile_key(walk->iter->key, &walk->key) &&
           ing_head_same_round(&walk->key.round, walk->round);
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
    bool has_to;                       /* its open round is committed: */
    uint32_t to;                       /* where leftovers go then */
    struct fg_store_batch batch, undo; /* undo: profiles and rounds as they are now */
    struct ing_round *changed;         /* as they are to be */
    size_t n_changed;
    uint32_t (*leftover)(void *arg, const struct ing_head_round_key *round);
    void *arg;
    struct fg_err *err;
};

static bool is_held(const struct ing_compare_group *group, struct fg_id id)
{
    return bsearch(&id, group->held.ids, group->held.n, sizeof *group->held.ids, cmp_ids) != NULL;
}

/* The round as it is to be, so far. */
static struct ing_round *changed_round(struct applying *applying,
                                       const struct ing_head_round_key *key,
                                       const struct ing_round *like)
{
    struct ing_round *round;

    for (size_t i = applying->n_changed; i > 0; i--) { /* those of a group stand together */
        if (!ing_head_same_group(&applying->changed[i - 1].key.group, &key->group))
            break;
        if (ing_head_same_round(&applying->changed[i - 1].key, key))
            return &applying->changed[i - 1];
    }
    round = &applying->changed[applying->n_changed++];
    if (!ing_rounds_find(applying->head->rounds, key, round)) {
        *round = ing_round_empty(key);
        round->born = like->born; /* its records name what those of that one name */
        round->opened_wall_ns = like->opened_wall_ns;
    }
    round->born = FG_MIN(round->born, like->born);
    return round;
}

static void move_profile(struct applying *applying, const struct compare_walk *walk,
                         struct ing_round *leftover)
{
    struct ing_head_profile_key key = walk->key;
    struct fg_buf bytes;

    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    ing_head_put_profile_key(&bytes, &key);
    fg_store_delete(&applying->batch, HEAD_PROFILES, fg_buf_slice(&bytes));
    fg_store_put(&applying->undo, HEAD_PROFILES, fg_buf_slice(&bytes), walk->iter->value);
    fg_buf_clear(&bytes);
    key.round = leftover->key;
    ing_head_put_profile_key(&bytes, &key);
    fg_store_put(&applying->batch, HEAD_PROFILES, fg_buf_slice(&bytes), walk->iter->value);
    fg_store_delete(&applying->undo, HEAD_PROFILES, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    ing_round_add(leftover, key.time_ns, key.id, walk->iter->value.len);
}

/* What of the round is held, and what not. */
static enum fg_code divide(const struct applying *applying, const struct ing_round *round,
                           struct ing_round *kept, struct ing_round *moved)
{
    const struct ing_compare_group *group = applying->group;
    struct compare_walk walk;

    *kept = *moved = ing_round_empty(&round->key);
    if (round->count == group->held.n && fg_id_eq(round->digest, group->digest)) {
        *kept = *round; /* the usual case: just what we had was committed by another */
        return FG_OK;
    }
    walk_start(&walk, applying->head->store, &round->key);
    for (bool first = true; walk_next(&walk, first); first = false)
        ing_round_add(is_held(group, walk.key.id) ? kept : moved, walk.key.time_ns, walk.key.id,
                      walk.iter->value.len);
    return walk_end(&walk, applying->err);
}

static enum fg_code move_profiles(struct applying *applying, const struct ing_round *round)
{
    const struct ing_head_round_key to = {
        round->key.group,
        applying->has_to ? applying->to : applying->leftover(applying->arg, &round->key)};
    struct ing_round *leftover = changed_round(applying, &to, round);
    struct compare_walk walk;

    walk_start(&walk, applying->head->store, &round->key);
    for (bool first = true; walk_next(&walk, first); first = false)
        if (!is_held(applying->group, walk.key.id))
            move_profile(applying, &walk, leftover);
    return walk_end(&walk, applying->err);
}

/* Is any profile of the round held? Then the others move, and it is committed. */
static enum fg_code apply_round(struct applying *applying, const struct ing_round *round)
{
    struct ing_compare *compare = applying->compare;
    struct ing_round kept, moved;

    if (divide(applying, round, &kept, &moved) != FG_OK)
        return applying->err->code;
    if (kept.count == 0)
        return FG_OK;
    if (round->state == ROUND_OPEN) {
        applying->to = applying->leftover(applying->arg, &round->key);
        applying->has_to = true;
    }
    if (moved.count > 0 && move_profiles(applying, round) != FG_OK)
        return applying->err->code;
    kept.born = round->born;
    kept.opened_wall_ns = round->opened_wall_ns;
    kept.state = ROUND_COMMITTED;
    kept.generation = compare->generation;
    *changed_round(applying, &round->key, round) = kept;
    applying->group->n_met += kept.count;
    compare->outcomes[compare->n_outcomes++] = (struct ing_segments_outcome){
        .group = round->key.group,
        .number = round->key.number,
        .moved_profiles = moved.count,
        .moved_bytes = moved.bytes,
    };
    return FG_OK;
}

/* Marks uncommitted rounds: they are neither shown nor committed until a comparison succeeds. */
static void mark_unchecked(struct applying *applying, const struct ing_round *rounds, size_t n)
{
    struct ing_compare *compare = applying->compare;

    for (size_t i = 0; i < n; i++)
        if (rounds[i].state != ROUND_COMMITTED && rounds[i].state != ROUND_UNCHECKED)
            changed_round(applying, &rounds[i].key, &rounds[i])->state = ROUND_UNCHECKED;
    compare->unsure[compare->n_unsure++] = applying->group->key;
}

/* Rounds of one group; the open one comes first: leftovers of the others go into it, unless it is
 * committed itself. */
static enum fg_code apply_group(struct applying *applying, const struct ing_round *rounds, size_t n)
{
    const struct ing_compare *compare = applying->compare;

    if (applying->group->unsure) {
        mark_unchecked(applying, rounds, n);
        return FG_OK;
    }
    applying->has_to = false;
    for (size_t i = 0; i < n; i++)
        if (rounds[i].state == ROUND_OPEN && apply_round(applying, &rounds[i]) != FG_OK)
            return applying->err->code;
    for (size_t i = n; i > 0; i--)
        if (rounds[i - 1].state != ROUND_COMMITTED && rounds[i - 1].state != ROUND_OPEN &&
            (rounds[i - 1].state != ROUND_UNCHECKED || compare->all) &&
            apply_round(applying, &rounds[i - 1]) != FG_OK)
            return applying->err->code;
    return FG_OK;
}

/* Both are sorted by group. */
static enum fg_code apply_rounds(struct applying *applying, const struct ing_round *rounds,
                                 size_t n)
{
    struct ing_compare *compare = applying->compare;
    size_t g = 0, next;

    for (size_t i = 0; i < n; i = next) {
        const struct ing_head_group_key *key = &rounds[i].key.group;

        for (next = i + 1; next < n && ing_head_same_group(&rounds[next].key.group, key);)
            next++;
        while (g < compare->n_groups && ing_head_group_cmp(&compare->groups[g].key, key) < 0)
            g++;
        if (g == compare->n_groups)
            break;
        applying->group = &compare->groups[g];
        if (ing_head_same_group(&applying->group->key, key) &&
            apply_group(applying, rounds + i, next - i) != FG_OK)
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
        ing_round_put(&applying->changed[i], &applying->batch);
        ing_rounds_put_known(applying->head->rounds, &applying->changed[i].key, &applying->undo);
    }
    /* The store may have done a write that it reported as failed. Then the moved profiles are in a
     * round that is not in memory, and the next comparison does not find them: the undo moves them
     * back first. */
    code =
        ing_commit_write(applying->head->commit, &applying->batch, &applying->undo, applying->err);
    for (size_t i = 0; i < applying->n_changed; i++)
        if (code == FG_OK)
            ing_rounds_set(applying->head->rounds, &applying->changed[i]);
        else if (code != FG_E_LIMIT) /* then nothing was written, and nothing will be undone */
            ing_rounds_doubt(applying->head->rounds, &applying->changed[i].key);
    return code;
}

/* A profile of one segment is in no other, so in no round of ours that was committed before. */
static void list_missing(struct ing_compare *compare)
{
    for (size_t i = 0; i < compare->n_groups; i++)
        if (compare->groups[i].n_met < compare->groups[i].held.n || compare->groups[i].unsure)
            compare->missing[compare->n_missing++] = compare->groups[i].key;
}

enum fg_code ing_compare_apply(const struct ing_compare_head *head, struct ing_compare *compare,
                               uint32_t (*leftover)(void *arg,
                                                    const struct ing_head_round_key *round),
                               void *arg, struct fg_err *err)
{
    struct applying applying = {
        .head = head, .compare = compare, .leftover = leftover, .arg = arg, .err = err};
    struct ing_round *rounds = NULL;
    enum fg_code code;
    size_t n = 0;

    if (ing_commit_settle(head->commit, err) != FG_OK ||
        find_rounds(head, compare->arena, &rounds, &n, err) != FG_OK)
        return err->code;
    applying.changed = fg_arena_new(compare->arena, struct ing_round, 2 * n);
    compare->outcomes = fg_arena_new(compare->arena, struct ing_segments_outcome, n);
    compare->missing = fg_arena_new(compare->arena, struct ing_head_group_key, compare->n_groups);
    compare->unsure = fg_arena_new(compare->arena, struct ing_head_group_key, compare->n_groups);
    if (applying.changed == NULL || compare->outcomes == NULL || compare->missing == NULL ||
        compare->unsure == NULL)
        return too_many(err);
    fg_store_batch_init(&applying.batch);
    fg_store_batch_init(&applying.undo);
    code = apply_rounds(&applying, rounds, n);
    if (code == FG_OK)
        code = write_changes(&applying);
    fg_store_batch_done(&applying.batch);
    fg_store_batch_done(&applying.undo);
    if (code == FG_OK)
        list_missing(compare);
    return code;
}
