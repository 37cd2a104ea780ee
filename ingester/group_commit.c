/*
 * One run makes one batch: choose a chunk for each profile, look for duplicates, add what is new,
 * write, then change the memory, then answer. The order is the promise: nothing is answered before
 * it is synced, and no chunk in memory has a profile that the disk may lack.
 *
 * No lock: the committer's thread runs all of it, and with it the steps of segments/segments.c, so
 * no chunk changes its state between the choice and the write.
 */
#include "ingester/group_commit.h"

#include "common/base/time.h"
#include "common/runtime/foreground.h"
#include "common/runtime/log.h"
#include "ingester/dedup_head.h"

#include <stdlib.h>

/* clang-format off */
#define COMMIT_METRICS(M)                                                                          \
    M(COUNTER, COMMIT_BATCHES, "flamegrid_ingester_commits_total", "Group commits")                \
    M(COUNTER, COMMIT_UNREADABLE, "flamegrid_ingester_commit_read_failures_total", "Pushes refused because a read of the head failed") \
    M(COUNTER, COMMIT_STORED, "flamegrid_ingester_profiles_stored_total", "Profiles made durable") \
    M(COUNTER, COMMIT_DUPLICATES, "flamegrid_ingester_profiles_duplicate_total", "Duplicate profiles") \
    M(COUNTER, COMMIT_BYTES, "flamegrid_ingester_stored_bytes_total", "Record bytes made durable") \
    M(HISTOGRAM, COMMIT_SECONDS, "flamegrid_ingester_commit_duration_seconds", "Duration of a group commit")
/* clang-format on */
FG_METRICS_ENUM(commit_metric, COMMIT_METRICS)
FG_METRICS_TABLE(commit_metrics, COMMIT_METRICS)

/* A head chunk that this batch writes to: the open or the unchecked one of its group. */
struct touched {
    struct ing_head_chunk before; /* this batch */
    struct ing_head_chunk added;  /* by this batch */
    uint32_t first, n;            /* in group->numbers: the numbers of all chunks of the group */
};

struct ing_group_commit {
    struct ing_group_commit_config config;
    struct fg_metrics *metrics;

    /* Of the batch that is being made. undo: what it puts is deleted, and its chunks get the
     * records that they had. */
    struct fg_store_batch batch, undo;
    bool foreground; /* it has items of agents */
    struct touched *touched;
    uint32_t n_touched, cap_touched;
    struct fg_map touched_map;
    uint32_t *numbers;
    uint32_t n_numbers, cap_numbers;
    struct ing_head_chunk *group_chunks; /* scratch */
    size_t cap_group_chunks;
    struct ing_dedup_batch ids; /* a profile may come twice in one batch */
};

/* The log has the fault of the disk. The agent only needs to know that it may retry, and it does so
 * after FG_E_UNAVAILABLE and FG_E_LIMIT only. */
static enum fg_code not_durable(struct ing_commit_item *item, enum fg_code code)
{
    return fg_fail(&item->err, code == FG_E_LIMIT ? FG_E_LIMIT : FG_E_UNAVAILABLE,
                   "the profile could not be made durable, try again");
}

/* ---- head chunks that the batch writes to ---- */

static void add_number(struct ing_group_commit *group, uint32_t number)
{
    if (group->n_numbers == group->cap_numbers) {
        group->cap_numbers = FG_MAX(16, group->cap_numbers * 2);
        group->numbers = fg_realloc(group->numbers, group->cap_numbers * sizeof *group->numbers);
    }
    group->numbers[group->n_numbers++] = number;
}

static struct touched start_touched(struct ing_group_commit *group,
                                    const struct ing_head_chunk_key *key, bool unchecked)
{
    struct touched touched = {.before = ing_head_chunk_empty(key), .first = group->n_numbers};
    size_t n;

    /* Only this thread adds chunks, so the second call finds as many as the first one counted. */
    while ((n = ing_head_chunks_of_group(group->config.chunks, &key->group, group->group_chunks,
                                         group->cap_group_chunks)) > group->cap_group_chunks) {
        group->cap_group_chunks = FG_MAX(8, n);
        group->group_chunks =
            fg_realloc(group->group_chunks, group->cap_group_chunks * sizeof *group->group_chunks);
    }
    /* The number of cuts says which dictionaries the chunk may name (retire.h). */
    touched.before.born = ing_head_chunks_cuts(group->config.chunks);
    touched.before.opened_wall_ns = fg_wall_ns(group->config.clock);
    touched.before.state = unchecked ? CHUNK_UNCHECKED : CHUNK_OPEN;
    for (size_t i = 0; i < n; i++) {
        if (group->group_chunks[i].key.number == key->number)
            touched.before = group->group_chunks[i];
        else
            add_number(group, group->group_chunks[i].key.number);
    }
    /* Also if it is new in memory: a failed write may have put profiles under its number. */
    add_number(group, key->number);
    touched.n = group->n_numbers - touched.first;
    touched.added = ing_head_chunk_empty(&touched.before.key);
    return touched;
}

/* key: of the open or the unchecked chunk of a group. The result is valid until the next call. */
static struct touched *touch(struct ing_group_commit *group, const struct ing_head_chunk_key *key,
                             bool unchecked)
{
    /* The chunk number is left out: a group has at most two chunks that take profiles. Without a
     * seed, since the map lives for one batch. */
    uint64_t hash = fg_mix64((uint64_t)key->group.tenant << 48 ^ (uint64_t)key->group.window << 16 ^
                             key->group.shard);
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&group->touched_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&group->touched_map, &walk))
        if (ing_head_same_chunk(&group->touched[i].before.key, key))
            return &group->touched[i];
    if (group->n_touched == group->cap_touched) {
        group->cap_touched = FG_MAX(64, group->cap_touched * 2);
        group->touched = fg_realloc(group->touched, group->cap_touched * sizeof *group->touched);
    }
    group->touched[group->n_touched] = start_touched(group, key, unchecked);
    fg_map_add(&group->touched_map, hash, group->n_touched);
    return &group->touched[group->n_touched++];
}

/* ---- one item ---- */

static enum fg_code fail_lookup(struct ing_commit_item *item, struct ing_segments_lookup lookup)
{
    /* UNAVAILABLE and not ABORTED: another lookup would fail like this one, and the agent is to
     * come back later. */
    if (lookup.failed)
        return fg_fail(
            &item->err, FG_E_UNAVAILABLE,
            "late profiles cannot be checked for duplicates in the bucket, and the limit of "
            "unchecked profiles is reached (ingester.segments.unchecked_max_bytes)");
    item->repeat_lookup = true;
    return fg_fail(&item->err, FG_E_ABORTED,
                   "segments are committed faster than they can be checked for duplicates");
}

/* Sets into which chunks the profiles go. */
static enum fg_code choose_chunks(struct ing_group_commit *group, struct ing_commit_item *item)
{
    for (uint32_t i = 0; i < item->n_profiles; i++) {
        struct ing_commit_profile *profile = &item->profiles[i];
        struct ing_head_chunk_key *chunk = &profile->key.chunk;
        const struct ing_segments_lookup lookup =
            profile->unsure ? (struct ing_segments_lookup){.failed = true} : item->lookup;
        enum ing_segments_admission admission;

        if (profile->committed) /* an empty chunk would delay those who wait for its group */
            continue;
        admission =
            ing_segments_admit(group->config.segments, &chunk->group, lookup, &chunk->number);
        /* A segment has entered since the lookup, so it says nothing about that one
         * (check-late-ids). */
        if (admission == SEGMENTS_LOOK_UP)
            return fail_lookup(item, lookup);
        if (admission == SEGMENTS_FULL)
            return fg_fail(&item->err, FG_E_LIMIT, "the head has too many groups");
        if (admission == SEGMENTS_COPIED)
            return fg_fail(&item->err, FG_E_UNAVAILABLE,
                           "another ingester runs with a copy of this disk");
        profile->unchecked = admission == SEGMENTS_ADMIT_UNCHECKED;
    }
    return FG_OK;
}

/* Sets which profiles the head has. If the head cannot be read for an item, only that item fails,
 * and it adds nothing to the batch. */
static enum fg_code find_duplicates(struct ing_group_commit *group, struct ing_commit_item *item)
{
    for (uint32_t i = 0; i < item->n_profiles; i++) {
        struct ing_commit_profile *profile = &item->profiles[i];
        const struct touched *touched;
        struct fg_err err;

        if (profile->committed)
            continue;
        touched = touch(group, &profile->key.chunk, profile->unchecked);
        if (ing_dedup_head_find(group->config.store, &profile->key, group->numbers + touched->first,
                                touched->n, &profile->found, &err) == FG_OK)
            continue;
        /* Without the answer a duplicate could be stored twice, so refuse; the agent sends again.
         */
        fg_metric_add(group->metrics, COMMIT_UNREADABLE, 1);
        fg_log_error("push refused: the head cannot be read to check for duplicates",
                     fg_ls("err", err.msg));
        return not_durable(item, err.code);
    }
    return FG_OK;
}

/* wanted: the targets of forwarding that want its tenant. */
static void add_profile(struct ing_group_commit *group, struct ing_commit_item *item,
                        const struct ing_commit_profile *profile, uint32_t wanted,
                        struct fg_buf *key)
{
    struct touched *touched;

    if (profile->committed) /* before anybody is told that the profile is stored */
        ing_segments_found(group->config.segments, item->lookup.generation);
    if (profile->committed || profile->found ||
        !ing_dedup_batch_add(&group->ids, profile->key.id)) {
        item->duplicates++;
        return;
    }
    touched = touch(group, &profile->key.chunk, profile->unchecked);
    item->stored++;
    /* Before the write: one that fails may be done all the same. */
    ing_catalog_series_holds(profile->series, touched->before.born, profile->key.time_ns);
    ing_head_chunk_add(&touched->added, profile->key.time_ns, profile->key.id, profile->len);
    fg_buf_clear(key);
    ing_head_put_profile_key(key, &profile->key);
    fg_store_put(&group->batch, HEAD_PROFILES, fg_buf_slice(key),
                 fg_slice_sub(fg_buf_slice(&item->records), profile->offset, profile->len));
    fg_store_delete(&group->undo, HEAD_PROFILES, fg_buf_slice(key));
    if (wanted != 0)
        ing_outbox_add(group->config.outbox, wanted, &profile->key, profile->len, &item->via,
                       &group->batch, &group->undo);
}

/*
 * Adds an item to the batch, or fails it. The ring is asked last, in the step that inserts
 * (stale-ring-reject): once it says that everything of older revisions is drained, all that was let
 * in before is known to the core (ing_segments_drain()).
 */
static enum fg_code add_item(struct ing_group_commit *group, struct ing_commit_item *item)
{
    struct fg_buf key;
    uint32_t wanted;

    /* The generation has ended: a push before this one failed and took numbers that are not on
     * disk, or the dictionary is about to be deleted. */
    if (item->generation < atomic_load(&item->service->valid_from))
        return not_durable(item, FG_E_UNAVAILABLE);
    if (choose_chunks(group, item) != FG_OK ||
        ing_member_admits(group->config.member, item->revision, &item->err) != FG_OK ||
        find_duplicates(group, item) != FG_OK)
        return item->err.code;
    /* Only after every check: a refused item must leave nothing in the batch of the others. */
    fg_store_batch_append(&group->batch, &item->defs);
    wanted = group->config.outbox == NULL
                 ? 0
                 : ing_outbox_wants(group->config.outbox, ing_catalog_tenant_name(item->tenant));
    fg_buf_init(&key, HEAD_PROFILE_KEY_BYTES);
    for (uint32_t i = 0; i < item->n_profiles; i++)
        add_profile(group, item, &item->profiles[i], wanted, &key);
    fg_buf_done(&key);
    return FG_OK;
}

/* Answers an item with what is in its err. */
static void finish_item(struct ing_group_commit *group, struct ing_commit_item *item)
{
    /* Each profile of an acknowledged push was written, or is there already. */
    fg_assert(item->err.code != FG_OK || item->stored + item->duplicates == item->n_profiles);
    item->code = item->err.code;
    if (item->code != FG_OK) {
        if (item->defs.count > 0) /* what was numbered for it is not on disk */
            ing_catalog_end_generation(item->service, item->generation);
    } else {
        ing_commit_item_set_marks(item);
        fg_metric_add(group->metrics, COMMIT_STORED, item->stored);
        fg_metric_add(group->metrics, COMMIT_DUPLICATES, item->duplicates);
        fg_metric_add(group->metrics, COMMIT_BYTES, item->records.len);
    }
    /* The item is on disk or its generation has ended: now the dictionary may be evicted and read
     * again. */
    ing_dict_unref(group->config.dicts, item->dict);
    item->dict = NULL;
    item->done(item);
}

/* ---- the batch ---- */

/* The profiles of the batch are those that its chunks get, and each can be undone. */
static void check_batch(const struct ing_group_commit *group)
{
    uint64_t added = 0, written = 0;

    for (uint32_t i = 0; i < group->n_touched; i++) {
        const struct touched *touched = &group->touched[i];

        fg_assert(touched->before.state == CHUNK_OPEN || touched->before.state == CHUNK_UNCHECKED);
        added += touched->added.count;
        written += touched->added.count > 0;
    }
    fg_assert(added == group->ids.n);
    fg_assert(group->undo.count == added + written + ing_outbox_added(group->config.outbox));
}

/* Adds the records of the chunks to the batch and writes it. */
static enum fg_code write_batch(struct ing_group_commit *group, struct fg_err *err)
{
    int64_t start_ns = fg_mono_ns(fg_clock_real());
    enum fg_code code;

    for (uint32_t i = 0; i < group->n_touched; i++) {
        const struct touched *touched = &group->touched[i];
        struct ing_head_chunk chunk = touched->before;

        if (touched->added.count == 0)
            continue;
        /* The sums of the chunk change in the batch of its profiles, so no crash makes them differ.
         */
        ing_head_chunk_join(&chunk, &touched->added);
        ing_head_chunk_put(&chunk, &group->batch);
        ing_head_chunks_put_known(group->config.chunks, &touched->before.key, &group->undo);
    }
    check_batch(group);
    /* No sync: each of them was durable before. */
    if (group->batch.count == 0) /* nothing but duplicates */
        return FG_OK;
    /* Most of the write is the disk's, and none of the items wants a processor meanwhile. */
    if (group->foreground)
        fg_foreground_end();
    code = ing_head_writer_write(group->config.writer, &group->batch, &group->undo, err);
    if (group->foreground)
        fg_foreground_begin();
    fg_metric_observe_ns(group->metrics, COMMIT_SECONDS, fg_mono_ns(fg_clock_real()) - start_ns);
    fg_metric_add(group->metrics, COMMIT_BATCHES, code == FG_OK);
    return code;
}

/* Takes over in memory what was written. */
static void apply_batch(struct ing_group_commit *group)
{
    for (uint32_t i = 0; i < group->n_touched; i++) {
        struct touched *touched = &group->touched[i];

        if (touched->added.count == 0)
            continue;
        ing_head_chunk_join(&touched->before, &touched->added);
        ing_head_chunks_set(group->config.chunks, &touched->before);
        /* The store first, then head_chunks, which readers choose from, then the core, which cuts
         * and evicts. */
        ing_segments_added(group->config.segments, &touched->before.key,
                           touched->before.state == CHUNK_UNCHECKED, touched->added.count,
                           touched->added.bytes, touched->before.opened_wall_ns);
    }
}

static bool has_agents(const struct ing_commit_item *items)
{
    while (items != NULL && items->via.n > 0)
        items = items->next;
    return items != NULL;
}

void ing_group_commit_run(struct ing_group_commit *group, struct ing_commit_item *items)
{
    struct ing_commit_item *added = NULL, **tail = &added;
    struct fg_err err = {.code = FG_OK};
    enum fg_code code;

    fg_store_batch_clear(&group->batch);
    fg_store_batch_clear(&group->undo);
    ing_dedup_batch_clear(&group->ids);
    fg_map_clear(&group->touched_map);
    group->n_touched = 0;
    group->n_numbers = 0;
    group->foreground = has_agents(items);
    if (group->foreground)
        fg_foreground_begin();
    /* Before duplicates are looked up: what a failed write left is not stored. */
    code = ing_head_writer_settle(group->config.writer, &err);
    while (items != NULL) {
        struct ing_commit_item *item = items;

        items = item->next;
        item->next = NULL;
        if (code != FG_OK)
            (void)not_durable(item, code);
        else
            (void)add_item(group, item);
        /* Refused alone, and answered now: it does not wait for the write. */
        if (item->err.code != FG_OK) {
            finish_item(group, item);
            continue;
        }
        *tail = item;
        tail = &item->next;
    }
    if (code == FG_OK)
        code = write_batch(group, &err);
    if (code == FG_OK)
        apply_batch(group);
    ing_outbox_end(group->config.outbox, code == FG_OK);
    /* Before the answers, so that no push is refused for a fault that is over. */
    ing_head_writer_heal(group->config.writer);
    while (added != NULL) {
        struct ing_commit_item *item = added;

        added = item->next;
        if (code != FG_OK)
            (void)not_durable(item, code);
        finish_item(group, item);
    }
    if (group->foreground)
        fg_foreground_end();
}

/* ---- start and end ---- */

struct ing_group_commit *ing_group_commit_create(const struct ing_group_commit_config *config)
{
    struct ing_group_commit *group = fg_new(struct ing_group_commit);

    group->config = *config;
    group->metrics =
        fg_metrics_register(config->registry, commit_metrics, FG_COUNT(commit_metrics));
    fg_store_batch_init(&group->batch);
    fg_store_batch_init(&group->undo);
    return group;
}

void ing_group_commit_destroy(struct ing_group_commit *group)
{
    if (group == NULL)
        return;
    fg_store_batch_done(&group->batch);
    fg_store_batch_done(&group->undo);
    ing_dedup_batch_done(&group->ids);
    fg_map_done(&group->touched_map);
    free(group->touched);
    free(group->numbers);
    free(group->group_chunks);
    free(group);
}
