#include "ingester/segments/compare.h"

static const size_t arena_max_bytes = (size_t)1 << 30; /* 16 bytes for each profile, and some */

void compare_done(struct compare *compare)
{
    fg_arena_destroy(compare->arena);
    *compare = (struct compare){0};
}

static enum fg_code too_many(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the head has too many profiles to compare");
}

/* Rounds that are not committed, sorted by group. */
static enum fg_code find_rounds(const struct compare_head *head, struct fg_arena *arena,
                                struct round **ret_rounds, size_t *ret_count, struct fg_err *err)
{
    size_t n, kept = 0;

    if (rounds_select(
            head->rounds,
            &(struct rounds_filter){
                .any_tenant = true, .start_ns = INT64_MIN, .end_ns = INT64_MAX, .any_state = true},
            arena, ret_rounds, &n, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n; i++)
        if ((*ret_rounds)[i].state != ROUND_COMMITTED)
            (*ret_rounds)[kept++] = (*ret_rounds)[i];
    *ret_count = kept;
    return FG_OK;
}

/* ---- walking a round ---- */

struct walk {
    struct fg_store_iter *iter;
    const struct head_round_key *round;
    struct head_profile_key key; /* of the profile it stands on */
};

static void walk_start(struct walk *walk, struct fg_store *store,
                       const struct head_round_key *round)
{
    struct fg_buf from;

    fg_buf_init(&from, HEAD_ROUND_KEY_BYTES);
    head_put_round_key(&from, round);
    walk->round = round;
    walk->iter = fg_store_iter_create(store, HEAD_PROFILES, fg_buf_slice(&from), FG_LIT(""));
    fg_buf_done(&from);
}

static bool walk_next(struct walk *walk, bool first)
{
    if (!first)
        fg_store_iter_next(walk->iter);
    return walk->iter->valid && head_get_profile_key(walk->iter->key, &walk->key) &&
           head_same_round(&walk->key.round, walk->round);
}

static enum fg_code walk_end(struct walk *walk, struct fg_err *err)
{
    enum fg_code code = walk->iter->err.code;

    if (code != FG_OK)
        *err = walk->iter->err;
    fg_store_iter_destroy(walk->iter);
    return code;
}

/* ---- finding ---- */

struct finding {
    const struct compare_head *head;
    struct compare *compare;
    uint64_t only, least;
    int64_t deadline_mono_ns;
    struct fg_err *err;
};

static enum fg_code read_ids(const struct finding *finding, const struct round *rounds, size_t n,
                             struct fg_arena *scratch, struct fg_id **ret_ids, size_t *ret_n)
{
    uint64_t most = 0;
    size_t count = 0;
    struct fg_id *ids;

    for (size_t i = 0; i < n; i++) {
        struct walk walk;

        walk_start(&walk, finding->head->store, &rounds[i].key);
        for (bool first = true; walk_next(&walk, first); first = false)
            most++;
        if (walk_end(&walk, finding->err) != FG_OK)
            return finding->err->code;
    }
    ids = fg_arena_new(scratch, struct fg_id, most);
    if (ids == NULL)
        return too_many(finding->err);
    for (size_t i = 0; i < n; i++) {
        struct walk walk;

        walk_start(&walk, finding->head->store, &rounds[i].key);
        for (bool first = true; count < most && walk_next(&walk, first); first = false)
            ids[count++] = walk.key.id;
        if (walk_end(&walk, finding->err) != FG_OK)
            return finding->err->code;
    }
    *ret_ids = ids;
    *ret_n = count;
    return FG_OK;
}

static int cmp_ids(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

static enum fg_code keep_found(const struct finding *finding, const struct head_group_key *key,
                               const struct fg_id *ids, const bool *found, size_t n)
{
    struct compare *compare = finding->compare;
    struct compare_group *group = &compare->groups[compare->n_groups];
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += found[i];
    if (count == 0)
        return FG_OK;
    *group = (struct compare_group){*key, fg_arena_new(compare->arena, struct fg_id, count), 0};
    if (group->ids == NULL)
        return too_many(finding->err);
    for (size_t i = 0; i < n; i++)
        if (found[i])
            group->ids[group->n_ids++] = ids[i];
    qsort(group->ids, group->n_ids, sizeof *group->ids, cmp_ids);
    compare->n_groups++;
    return FG_OK;
}

/* n rounds, all of one group. */
static enum fg_code find_group(const struct finding *finding, const struct round *rounds, size_t n,
                               struct fg_arena *scratch)
{
    const struct head_group_key *key = &rounds[0].key.group;
    struct held_question question = {
        .tenant = catalog_tenant_name(catalog_tenant_at(finding->head->catalog, key->tenant)),
        .shard = key->shard,
        .window = key->window,
    };
    struct fg_id *ids = NULL;
    uint64_t generation;

    if (read_ids(finding, rounds, n, scratch, &ids, &question.n_ids) != FG_OK)
        return finding->err->code;
    question.ids = ids;
    question.found = fg_arena_new(scratch, bool, question.n_ids);
    if (question.found == NULL)
        return too_many(finding->err);
    if (held_find(finding->head->held, &question, 1, finding->only, finding->least,
                  finding->deadline_mono_ns, &generation, finding->err) != FG_OK)
        return finding->err->code;
    finding->compare->generation = FG_MIN(finding->compare->generation, generation);
    return keep_found(finding, key, ids, question.found, question.n_ids);
}

enum fg_code compare_find(const struct compare_head *head,
                          bool (*may_hold)(void *arg, const struct head_group_key *group),
                          void *arg, uint64_t only, uint64_t least, int64_t deadline_mono_ns,
                          struct compare *ret_compare, struct fg_err *err)
{
    struct compare compare = {.arena = fg_arena_create(arena_max_bytes), .generation = UINT64_MAX};
    const struct finding finding = {head, &compare, only, least, deadline_mono_ns, err};
    enum fg_code code;
    struct round *rounds = NULL;
    size_t n = 0, next;

    code = find_rounds(head, compare.arena, &rounds, &n, err);
    if (code == FG_OK)
        compare.groups = fg_arena_new(compare.arena, struct compare_group, n);
    if (code == FG_OK)
        compare.looked = fg_arena_new(compare.arena, struct head_group_key, n);
    if (code == FG_OK && (compare.groups == NULL || compare.looked == NULL))
        code = too_many(err);
    for (size_t i = 0; i < n && code == FG_OK; i = next) {
        fg_auto(fg_arena) *scratch = fg_arena_create(arena_max_bytes);

        for (next = i + 1;
             next < n && head_same_group(&rounds[next].key.group, &rounds[i].key.group);)
            next++;
        if (!may_hold(arg, &rounds[i].key.group))
            continue;
        compare.looked[compare.n_looked++] = rounds[i].key.group;
        code = find_group(&finding, rounds + i, next - i, scratch);
    }
    if (compare.generation == UINT64_MAX) /* nothing had to be looked at */
        compare.generation = FG_MAX(only, least);
    if (code == FG_OK)
        *ret_compare = compare;
    else
        compare_done(&compare);
    return code;
}

/* ---- applying ---- */

struct applying {
    const struct compare_head *head;
    struct compare *compare;
    struct fg_store_batch batch;
    struct round *changed; /* as they are to be */
    size_t n_changed;
    uint32_t (*leftover)(void *arg, const struct head_round_key *round);
    void *arg;
    struct fg_err *err;
};

static bool is_held(const struct compare_group *group, struct fg_id id)
{
    return bsearch(&id, group->ids, group->n_ids, sizeof *group->ids, cmp_ids) != NULL;
}

/* The round as it is to be, so far. */
static struct round *changed_round(struct applying *applying, const struct head_round_key *key,
                                   const struct round *like)
{
    struct round *round;

    for (size_t i = 0; i < applying->n_changed; i++)
        if (head_same_round(&applying->changed[i].key, key))
            return &applying->changed[i];
    round = &applying->changed[applying->n_changed++];
    if (!rounds_find(applying->head->rounds, key, round)) {
        *round = round_empty(key);
        round->born = like->born; /* its records name what those of that one name */
        round->opened_wall_ns = like->opened_wall_ns;
    }
    round->born = FG_MIN(round->born, like->born);
    return round;
}

static void move_profile(struct applying *applying, const struct walk *walk, struct round *leftover)
{
    struct head_profile_key key = walk->key;
    struct fg_buf bytes;

    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    head_put_profile_key(&bytes, &key);
    fg_store_delete(&applying->batch, HEAD_PROFILES, fg_buf_slice(&bytes));
    fg_buf_clear(&bytes);
    key.round = leftover->key;
    head_put_profile_key(&bytes, &key);
    fg_store_put(&applying->batch, HEAD_PROFILES, fg_buf_slice(&bytes), walk->iter->value);
    fg_buf_done(&bytes);
    round_add(leftover, key.time_ns, key.id, walk->iter->value.len);
}

/* Is any profile of the round held? Then the others move, and it is committed. */
static enum fg_code apply_round(struct applying *applying, const struct compare_group *group,
                                const struct round *round)
{
    struct segments_outcome outcome = {.group = group->key, .number = round->key.number};
    struct round kept = round_empty(&round->key), moved = kept;
    struct walk walk;

    walk_start(&walk, applying->head->store, &round->key);
    for (bool first = true; walk_next(&walk, first); first = false)
        round_add(is_held(group, walk.key.id) ? &kept : &moved, walk.key.time_ns, walk.key.id,
                  walk.iter->value.len);
    if (walk_end(&walk, applying->err) != FG_OK)
        return applying->err->code;
    if (kept.count == 0)
        return FG_OK;
    if (moved.count > 0) {
        const struct head_round_key to = {group->key,
                                          applying->leftover(applying->arg, &round->key)};
        struct round *leftover = changed_round(applying, &to, round);

        walk_start(&walk, applying->head->store, &round->key);
        for (bool first = true; walk_next(&walk, first); first = false)
            if (!is_held(group, walk.key.id))
                move_profile(applying, &walk, leftover);
        if (walk_end(&walk, applying->err) != FG_OK)
            return applying->err->code;
    }
    kept.born = round->born;
    kept.opened_wall_ns = round->opened_wall_ns;
    kept.state = ROUND_COMMITTED;
    kept.generation = applying->compare->generation;
    *changed_round(applying, &round->key, round) = kept;
    outcome.moved_profiles = moved.count;
    outcome.moved_bytes = moved.bytes;
    applying->compare->outcomes[applying->compare->n_outcomes++] = outcome;
    return FG_OK;
}

static enum fg_code apply_all(struct applying *applying, const struct round *rounds, size_t n)
{
    const struct compare *compare = applying->compare;
    size_t g = 0;

    /* Both are sorted by group, and groups do not go away. */
    for (size_t i = 0; i < n && g < compare->n_groups; i++) {
        if (!head_same_group(&compare->groups[g].key, &rounds[i].key.group))
            continue;
        if (apply_round(applying, &compare->groups[g], &rounds[i]) != FG_OK)
            return applying->err->code;
        if (i + 1 == n || !head_same_group(&rounds[i + 1].key.group, &rounds[i].key.group))
            g++;
    }
    for (size_t i = 0; i < applying->n_changed; i++)
        round_put(&applying->changed[i], &applying->batch);
    if (applying->n_changed > 0 &&
        commit_write(applying->head->commit, &applying->batch, applying->err) != FG_OK)
        return applying->err->code;
    for (size_t i = 0; i < applying->n_changed; i++)
        rounds_set(applying->head->rounds, &applying->changed[i]);
    return FG_OK;
}

enum fg_code compare_apply(const struct compare_head *head, struct compare *compare,
                           uint32_t (*leftover)(void *arg, const struct head_round_key *round),
                           void *arg, struct fg_err *err)
{
    struct applying applying = {
        .head = head, .compare = compare, .leftover = leftover, .arg = arg, .err = err};
    struct round *rounds = NULL;
    enum fg_code code;
    size_t n = 0;

    if (find_rounds(head, compare->arena, &rounds, &n, err) != FG_OK)
        return err->code;
    applying.changed = fg_arena_new(compare->arena, struct round, 2 * n);
    compare->outcomes = fg_arena_new(compare->arena, struct segments_outcome, n);
    compare->n_outcomes = 0;
    if (applying.changed == NULL || compare->outcomes == NULL)
        return too_many(err);
    fg_store_batch_init(&applying.batch);
    code = apply_all(&applying, rounds, n);
    fg_store_batch_done(&applying.batch);
    return code;
}
