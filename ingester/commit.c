#include "ingester/commit.h"

#include "common/base/time.h"
#include "common/runtime/log.h"

#include <pthread.h>

enum {
    BATCH_ITEMS_ENOUGH = 64, /* worth an fsync: nobody waits for more */
    BATCH_ITEMS_MAX = 4096,  /* a batch's answers come together: keep them prompt */
    BATCH_BYTES_MAX = 8 * 1024 * 1024,
};

/* A group of this batch, and the open chunk of it, which is written to. */
struct touched {
    struct ing_head_chunk before;  /* this batch */
    struct ing_head_chunk added;   /* by this batch */
    uint32_t first_older, n_older; /* in commit->older: numbers of the group's other chunks */
};

struct ing_commit {
    struct fg_store *store;
    struct ing_head_chunks *chunks;
    struct ing_segments *segments;
    struct ing_dict_table *dicts;
    const struct ing_member *member;
    struct ing_intake *intake;
    struct fg_clock *clock;
    struct fg_metrics *metrics;
    uint64_t queue_max_bytes;
    int64_t delay_ns;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct ing_commit_item *first, *last; /* under the lock, as all below */
    uint64_t queued_bytes, queued_items;
    struct ing_commit_visit *first_visit, *last_visit;
    bool stop;

    /*
     * The thread's own. A write that failed may be found done, now or after the next start, when
     * its chunks are long committed without it. So what it was to put is deleted before anything
     * else is written: `taking` gathers these deletes, and after a failure they are to undo.
     */
    struct fg_store_batch batch, taking, undo;
    struct touched *touched;
    uint32_t n_touched, cap_touched;
    struct fg_map touched_map;
    uint32_t *older;
    uint32_t n_older, cap_older;
    struct ing_head_chunk *group_chunks; /* scratch */
    size_t cap_group_chunks;
    struct fg_id *ids; /* of the profiles in the batch, to find those that came twice */
    uint32_t n_ids, cap_ids;
    struct fg_map id_map;
};

FG_METRICS_ENUM(commit_metric, COMMIT_METRICS)
static const struct fg_metric_def commit_metrics[] = FG_METRICS_DEFS(COMMIT_METRICS);

/* ---- items ---- */

void ing_commit_item_init(struct ing_commit_item *item)
{
    *item = (struct ing_commit_item){0};
    fg_store_batch_init(&item->defs);
    fg_buf_init(&item->records, SIZE_MAX);
}

void ing_commit_item_done(struct ing_commit_item *item)
{
    fg_store_batch_done(&item->defs);
    fg_buf_done(&item->records);
    free(item->profiles);
    free(item->marks);
}

void ing_commit_item_mark(struct ing_commit_item *item, struct ing_commit_mark mark)
{
    if (item->n_marks == item->cap_marks) {
        item->cap_marks = FG_MAX(4, item->cap_marks * 2);
        item->marks = fg_realloc(item->marks, item->cap_marks * sizeof *item->marks);
    }
    item->marks[item->n_marks++] = mark;
}

static void set_mark(const struct ing_commit_mark *mark)
{
    if (mark->types != NULL)
        (void)atomic_fetch_or(mark->types, mark->bits);
    atomic_store(mark->durable, true);
}

/* Raises the number to `least` where it is below. */
static void raise_to(_Atomic uint32_t *number, uint32_t least)
{
    uint32_t now = atomic_load(number);

    while (now < least && !atomic_compare_exchange_weak(number, &now, least))
        ;
}

void ing_commit_spoil(struct ing_catalog_service *service, uint32_t generation)
{
    raise_to(&service->generation, generation + 1);
    raise_to(&service->valid_from, generation + 1);
}

/* The log has the fault of the disk. The agent only needs to know that it may retry, and it does so
 * after FG_E_UNAVAILABLE and FG_E_LIMIT only. */
static enum fg_code not_durable(struct ing_commit_item *item, enum fg_code code)
{
    return fg_fail(&item->err, code == FG_E_LIMIT ? FG_E_LIMIT : FG_E_UNAVAILABLE,
                   "the profile could not be made durable, try again");
}

static bool is_stale(const struct ing_commit_item *item)
{
    return item->generation < atomic_load(&item->service->valid_from);
}

/* ---- a batch ---- */

/* The group's chunks, into the scratch. */
static size_t read_chunks(struct ing_commit *commit, const struct ing_head_group_key *group)
{
    size_t n;

    while ((n = ing_head_chunks_of_group(commit->chunks, group, commit->group_chunks,
                                         commit->cap_group_chunks)) > commit->cap_group_chunks) {
        commit->cap_group_chunks = FG_MAX(8, n);
        commit->group_chunks = fg_realloc(commit->group_chunks,
                                          commit->cap_group_chunks * sizeof *commit->group_chunks);
    }
    return n;
}

static void add_older(struct ing_commit *commit, uint32_t number)
{
    if (commit->n_older == commit->cap_older) {
        commit->cap_older = FG_MAX(16, commit->cap_older * 2);
        commit->older = fg_realloc(commit->older, commit->cap_older * sizeof *commit->older);
    }
    commit->older[commit->n_older++] = number;
}

static struct touched start_touched(struct ing_commit *commit, const struct ing_head_chunk_key *key,
                                    bool unchecked)
{
    struct touched touched = {.before = ing_head_chunk_empty(key), .first_older = commit->n_older};
    size_t n = read_chunks(commit, &key->group);

    touched.before.born = ing_head_chunks_cuts(commit->chunks);
    touched.before.opened_wall_ns = fg_wall_ns(commit->clock);
    touched.before.state = unchecked ? CHUNK_UNCHECKED : CHUNK_OPEN;
    for (size_t i = 0; i < n; i++) {
        if (commit->group_chunks[i].key.number == key->number)
            touched.before = commit->group_chunks[i];
        else
            add_older(commit, commit->group_chunks[i].key.number);
    }
    touched.n_older = commit->n_older - touched.first_older;
    touched.added = ing_head_chunk_empty(&touched.before.key);
    return touched;
}

/* key: of the group's open chunk, or of its unchecked one. */
static struct touched *touch(struct ing_commit *commit, const struct ing_head_chunk_key *key,
                             bool unchecked)
{
    const struct ing_head_group_key *group = &key->group;
    uint64_t hash =
        fg_mix64((uint64_t)group->tenant << 48 ^ (uint64_t)group->window << 16 ^ group->shard);
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&commit->touched_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&commit->touched_map, &walk))
        if (ing_head_same_chunk(&commit->touched[i].before.key, key))
            return &commit->touched[i];
    if (commit->n_touched == commit->cap_touched) {
        commit->cap_touched = FG_MAX(64, commit->cap_touched * 2);
        commit->touched =
            fg_realloc(commit->touched, commit->cap_touched * sizeof *commit->touched);
    }
    commit->touched[commit->n_touched] = start_touched(commit, key, unchecked);
    fg_map_add(&commit->touched_map, hash, commit->n_touched);
    return &commit->touched[commit->n_touched++];
}

/* Was this id in the batch before? Remembers it. */
static bool seen(struct ing_commit *commit, struct fg_id id)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&commit->id_map, fg_id_table(id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&commit->id_map, &walk))
        if (fg_id_eq(commit->ids[i], id))
            return true;
    if (commit->n_ids == commit->cap_ids) {
        commit->cap_ids = FG_MAX(256, commit->cap_ids * 2);
        commit->ids = fg_realloc(commit->ids, commit->cap_ids * sizeof *commit->ids);
    }
    fg_map_add(&commit->id_map, fg_id_table(id), commit->n_ids);
    commit->ids[commit->n_ids++] = id;
    return false;
}

static enum fg_code contains(struct ing_commit *commit, const struct ing_head_profile_key *key,
                             uint32_t chunk, struct fg_buf *scratch, bool *ret_found,
                             struct fg_err *err)
{
    struct ing_head_profile_key there = *key;

    there.chunk.number = chunk;
    fg_buf_clear(scratch);
    ing_head_put_profile_key(scratch, &there);
    return fg_store_contains(commit->store, HEAD_PROFILES, fg_buf_slice(scratch), ret_found, err);
}

/* Is the profile there already? Looks into all chunks of its group. */
static enum fg_code find_profile(struct ing_commit *commit, const struct touched *touched,
                                 const struct ing_head_profile_key *key, struct fg_buf *scratch,
                                 bool *ret_found, struct fg_err *err)
{
    const struct ing_head_chunk *open = &touched->before;
    bool found = false;

    for (uint32_t i = 0; i < touched->n_older && !found; i++)
        if (contains(commit, key, commit->older[touched->first_older + i], scratch, &found, err) !=
            FG_OK)
            return err->code;
    if (!found && contains(commit, key, open->key.number, scratch, &found, err) != FG_OK)
        return err->code;
    *ret_found = found;
    return FG_OK;
}

/* Puts what is new into the batch. */
static void add_profile(struct ing_commit *commit, struct ing_commit_item *item,
                        const struct ing_commit_profile *profile, struct fg_buf *scratch)
{
    struct touched *touched;

    if (profile->committed) /* before it is said that it is stored */
        ing_segments_found(commit->segments, item->looked.generation);
    if (profile->committed || profile->found || seen(commit, profile->key.id)) {
        item->duplicates++;
        return;
    }
    touched = touch(commit, &profile->key.chunk, profile->unchecked);
    item->stored++;
    /* A write that fails may be done all the same. */
    ing_catalog_series_holds(profile->series, touched->before.born, profile->key.time_ns);
    ing_head_chunk_add(&touched->added, profile->key.time_ns, profile->key.id, profile->len);
    fg_buf_clear(scratch);
    ing_head_put_profile_key(scratch, &profile->key);
    fg_store_put(&commit->batch, HEAD_PROFILES, fg_buf_slice(scratch),
                 fg_slice_sub(fg_buf_slice(&item->records), profile->offset, profile->len));
    fg_store_delete(&commit->taking, HEAD_PROFILES, fg_buf_slice(scratch));
}

static enum fg_code cannot_look(struct ing_commit_item *item, struct ing_segments_looked looked)
{
    if (looked.cannot)
        return fg_fail(
            &item->err, FG_E_UNAVAILABLE,
            "late profiles cannot be checked for duplicates in the bucket, and the limit of "
            "unchecked profiles is reached (ingester.segments.unchecked_max_bytes)");
    item->look_again = true;
    return fg_fail(&item->err, FG_E_ABORTED,
                   "segments are committed faster than they can be checked for duplicates");
}

/* Into which chunks the profiles go. */
static enum fg_code choose_chunks(struct ing_commit *commit, struct ing_commit_item *item)
{
    for (uint32_t i = 0; i < item->n_profiles; i++) {
        struct ing_commit_profile *profile = &item->profiles[i];
        struct ing_head_chunk_key *chunk = &profile->key.chunk;
        const struct ing_segments_looked looked =
            profile->unsure ? (struct ing_segments_looked){.cannot = true} : item->looked;
        enum ing_segments_admission admission;

        if (profile
                ->committed) /* a chunk for nothing would be in the way of those who wait for it */
            continue;
        admission = ing_segments_admit(commit->segments, &chunk->group, looked, &chunk->number);
        if (admission == SEGMENTS_LOOK)
            return cannot_look(item, looked);
        if (admission == SEGMENTS_FULL)
            return fg_fail(&item->err, FG_E_LIMIT, "the head has too many groups");
        profile->unchecked = admission == SEGMENTS_ADMIT_UNCHECKED;
    }
    return FG_OK;
}

/* May it be inserted, now? The ring comes last: whoever says that all is drained that came under
 * older revisions has what was let in before (ing_segments_drain()). */
static enum fg_code admit_item(struct ing_commit *commit, struct ing_commit_item *item)
{
    if (is_stale(item))
        return not_durable(item, FG_E_UNAVAILABLE);
    if (choose_chunks(commit, item) != FG_OK)
        return item->err.code;
    return ing_member_admits(commit->member, item->revision, &item->err);
}

/* If the head cannot be read for an item, only that item fails, and adds nothing to the batch. */
static enum fg_code find_profiles(struct ing_commit *commit, struct ing_commit_item *item,
                                  struct fg_buf *scratch)
{
    for (uint32_t i = 0; i < item->n_profiles; i++) {
        struct ing_commit_profile *profile = &item->profiles[i];
        struct fg_err err;

        if (profile->committed ||
            find_profile(commit, touch(commit, &profile->key.chunk, profile->unchecked),
                         &profile->key, scratch, &profile->found, &err) == FG_OK)
            continue;
        fg_metric_add(commit->metrics, COMMIT_UNREADABLE, 1);
        fg_log_error("push refused: the head cannot be read to check for duplicates",
                     fg_ls("err", err.msg));
        return not_durable(item, err.code);
    }
    return FG_OK;
}

static enum fg_code add_item(struct ing_commit *commit, struct ing_commit_item *item)
{
    struct fg_buf key;
    enum fg_code code;

    fg_buf_init(&key, HEAD_PROFILE_KEY_BYTES);
    code = find_profiles(commit, item, &key);
    if (code == FG_OK) {
        fg_store_batch_append(&commit->batch, &item->defs);
        for (uint32_t i = 0; i < item->n_profiles; i++)
            add_profile(commit, item, &item->profiles[i], &key);
    }
    fg_buf_done(&key);
    return code;
}

/* ---- writing ---- */

/* Every write of the head. */
static enum fg_code write_store(struct ing_commit *commit, struct fg_store_batch *batch,
                                struct fg_err *err)
{
    if (fg_store_write(commit->store, batch, err) == FG_OK)
        return FG_OK;
    fg_metric_add(commit->metrics, COMMIT_FAILED, 1);
    if (err->code != FG_E_LIMIT) /* that is the batch's own fault */
        ing_intake_failed(commit->intake, err);
    return err->code;
}

enum fg_code ing_commit_settle(struct ing_commit *commit, struct fg_err *err)
{
    if (commit->undo.count == 0)
        return FG_OK;
    if (write_store(commit, &commit->undo, err) != FG_OK)
        return err->code;
    fg_store_batch_clear(&commit->undo);
    ing_head_chunks_settle(commit->chunks);
    return FG_OK;
}

enum fg_code ing_commit_write(struct ing_commit *commit, struct fg_store_batch *batch,
                              const struct fg_store_batch *undo, struct fg_err *err)
{
    if (ing_commit_settle(commit, err) != FG_OK ||
        (undo != NULL && fg_store_batch_check(undo, err) != FG_OK))
        return err->code;
    if (write_store(commit, batch, err) == FG_OK)
        return FG_OK;
    if (undo != NULL && err->code != FG_E_LIMIT) /* which says that nothing was written */
        fg_store_batch_append(&commit->undo, undo);
    return err->code;
}

/* Takes over what was written; after a failure nobody knows what was. */
static void settle_chunks(struct ing_commit *commit, bool written)
{
    for (uint32_t i = 0; i < commit->n_touched; i++) {
        struct touched *touched = &commit->touched[i];

        if (touched->added.count == 0)
            continue;
        if (!written) {
            ing_head_chunks_put_known(commit->chunks, &touched->before.key, &commit->undo);
            continue;
        }
        fg_assert(touched->before.state == CHUNK_OPEN || touched->before.state == CHUNK_UNCHECKED);
        ing_head_chunk_join(&touched->before, &touched->added);
        ing_head_chunks_set(commit->chunks, &touched->before);
        ing_segments_added(commit->segments, &touched->before.key,
                           touched->before.state == CHUNK_UNCHECKED, touched->added.count,
                           touched->added.bytes, touched->before.opened_wall_ns);
    }
    if (!written)
        fg_store_batch_append(&commit->undo, &commit->taking);
}

static enum fg_code write_batch(struct ing_commit *commit, struct fg_err *err)
{
    int64_t start = fg_mono_ns(fg_clock_real());
    enum fg_code code;

    for (uint32_t i = 0; i < commit->n_touched; i++) {
        struct ing_head_chunk chunk = commit->touched[i].before;

        if (commit->touched[i].added.count == 0)
            continue;
        ing_head_chunk_join(&chunk, &commit->touched[i].added);
        ing_head_chunk_put(&chunk, &commit->batch);
    }
    if (commit->batch.count == 0) /* duplicates and nothing else */
        return FG_OK;
    code = write_store(commit, &commit->batch, err);
    fg_metric_observe_ns(commit->metrics, COMMIT_SECONDS, fg_mono_ns(fg_clock_real()) - start);
    fg_metric_add(commit->metrics, COMMIT_BATCHES, code == FG_OK);
    return code;
}

/* With what is in its err. */
static void finish_item(struct ing_commit *commit, struct ing_commit_item *item)
{
    /* Each profile of an acknowledged push was written, or is there already. */
    fg_assert(item->err.code != FG_OK || item->stored + item->duplicates == item->n_profiles);
    item->code = item->err.code;
    if (item->code != FG_OK) {
        if (item->defs.count > 0) /* what was numbered for it is not on disk */
            ing_commit_spoil(item->service, item->generation);
    } else {
        for (uint32_t i = 0; i < item->n_marks; i++)
            set_mark(&item->marks[i]);
        fg_metric_add(commit->metrics, COMMIT_STORED, item->stored);
        fg_metric_add(commit->metrics, COMMIT_DUPLICATES, item->duplicates);
        fg_metric_add(commit->metrics, COMMIT_BYTES, item->records.len);
    }
    ing_dict_unref(commit->dicts, item->dict);
    item->dict = NULL;
    item->done(item);
}

static void batch_clear(struct ing_commit *commit)
{
    fg_store_batch_clear(&commit->batch);
    fg_store_batch_clear(&commit->taking);
    fg_map_clear(&commit->touched_map);
    fg_map_clear(&commit->id_map);
    commit->n_touched = 0;
    commit->n_older = 0;
    commit->n_ids = 0;
}

/*
 * All items of a batch stand or fall together. Those that cannot even be added (their service's
 * dictionary was spoilt) are answered at once.
 */
static void commit_items(struct ing_commit *commit, struct ing_commit_item *items)
{
    struct ing_commit_item *added = NULL, **tail = &added;
    struct fg_err err = {.code = FG_OK};
    enum fg_code code;

    batch_clear(commit);
    code = ing_commit_settle(commit, &err);
    while (items != NULL) {
        struct ing_commit_item *item = items;

        items = item->next;
        item->next = NULL;
        if (code != FG_OK)
            (void)not_durable(item, code);
        else if (admit_item(commit, item) == FG_OK)
            (void)add_item(commit, item);
        if (item->err.code != FG_OK) {
            finish_item(commit, item);
            continue;
        }
        *tail = item;
        tail = &item->next;
    }
    if (code == FG_OK) {
        fg_assert(commit->undo.count == 0); /* it comes before all else */
        code = write_batch(commit, &err);
    }
    settle_chunks(commit, code == FG_OK);
    /* First, so that a fault that has passed refuses no push. */
    ing_intake_heal(commit->intake);
    while (added != NULL) {
        struct ing_commit_item *item = added;

        added = item->next;
        if (code != FG_OK)
            (void)not_durable(item, code);
        finish_item(commit, item);
    }
}

/* ---- the thread ---- */

static uint64_t item_bytes(const struct ing_commit_item *item)
{
    return sizeof *item + item->records.len + item->defs.ops.len;
}

/* Waits a moment for others to share the fsync with. Locked. */
static void gather(struct ing_commit *commit)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + commit->delay_ns;
    const struct timespec until = {until_ns / FG_SECOND_NS, until_ns % FG_SECOND_NS};

    if (commit->delay_ns <= 0)
        return;
    while (!commit->stop && commit->first_visit == NULL && commit->queued_items > 0 &&
           commit->queued_items < BATCH_ITEMS_ENOUGH)
        if (pthread_cond_timedwait(&commit->wake, &commit->lock, &until) != 0)
            return;
}

/* Locked. */
static void check_queue(const struct ing_commit *commit)
{
    fg_assert((commit->first == NULL) == (commit->queued_items == 0));
    fg_assert((commit->first == NULL) == (commit->queued_bytes == 0));
    fg_assert((commit->first == NULL) == (commit->last == NULL));
}

/* Up to a batch's size. Locked. */
static struct ing_commit_item *take_items(struct ing_commit *commit)
{
    struct ing_commit_item *items = commit->first, *end = NULL;
    uint64_t bytes = 0;

    for (size_t n = 0; commit->first != NULL && n < BATCH_ITEMS_MAX && bytes < BATCH_BYTES_MAX;
         n++) {
        end = commit->first;
        bytes += item_bytes(end);
        commit->first = end->next;
        commit->queued_items--;
    }
    fg_assert(commit->queued_bytes >= bytes);
    commit->queued_bytes -= bytes;
    if (end != NULL)
        end->next = NULL;
    if (commit->first == NULL)
        commit->last = NULL;
    check_queue(commit);
    return items;
}

/* What is to be done next; both are NULL when it is time to end. */
struct commit_work {
    struct ing_commit_item *items;
    struct ing_commit_visit *visits;
};

static struct commit_work take(struct ing_commit *commit)
{
    struct commit_work work;

    (void)pthread_mutex_lock(&commit->lock);
    while (commit->first == NULL && commit->first_visit == NULL && !commit->stop)
        (void)pthread_cond_wait(&commit->wake, &commit->lock);
    gather(commit);
    work.items = take_items(commit);
    work.visits = commit->first_visit;
    commit->first_visit = commit->last_visit = NULL;
    (void)pthread_mutex_unlock(&commit->lock);
    return work;
}

static void *run(void *arg)
{
    struct ing_commit *commit = arg;
    struct commit_work work;

    (void)pthread_setname_np(pthread_self(), "committer");
    while (work = take(commit), work.items != NULL || work.visits != NULL) {
        if (work.items != NULL)
            commit_items(commit, work.items);
        while (work.visits != NULL) {
            struct ing_commit_visit *visit = work.visits;

            work.visits = visit->next;
            visit->run(visit);
        }
        ing_intake_heal(commit->intake);
    }
    return NULL;
}

void ing_commit_post(struct ing_commit *commit, struct ing_commit_visit *visit)
{
    visit->next = NULL;
    (void)pthread_mutex_lock(&commit->lock);
    if (commit->last_visit == NULL)
        commit->first_visit = visit;
    else
        commit->last_visit->next = visit;
    commit->last_visit = visit;
    (void)pthread_cond_signal(&commit->wake);
    (void)pthread_mutex_unlock(&commit->lock);
}

bool ing_commit_submit(struct ing_commit *commit, struct ing_commit_item *item)
{
    uint64_t bytes = item_bytes(item);
    bool fits;

    item->next = NULL;
    (void)pthread_mutex_lock(&commit->lock);
    /* An empty queue takes anything: what is larger than the limit must get in some day. */
    fits = commit->queued_bytes == 0 || commit->queued_bytes + bytes <= commit->queue_max_bytes;
    if (fits) {
        if (commit->last == NULL)
            commit->first = item;
        else
            commit->last->next = item;
        commit->last = item;
        commit->queued_bytes += bytes;
        commit->queued_items++;
        /* Those in between are found when it wakes; each wake-up costs as much as a record. */
        if (commit->queued_items == 1 || commit->queued_items == BATCH_ITEMS_ENOUGH)
            (void)pthread_cond_signal(&commit->wake);
    }
    (void)pthread_mutex_unlock(&commit->lock);
    return fits;
}

static void on_scrape(void *arg)
{
    struct ing_commit *commit = arg;

    (void)pthread_mutex_lock(&commit->lock);
    fg_metric_set(commit->metrics, COMMIT_QUEUED, (int64_t)commit->queued_items);
    (void)pthread_mutex_unlock(&commit->lock);
}

enum fg_code ing_commit_create(const struct ing_commit_config *config,
                               struct ing_commit **ret_commit, struct fg_err *err)
{
    struct ing_commit *commit = fg_new(struct ing_commit);
    pthread_condattr_t monotonic;
    int failed;

    commit->store = config->store;
    commit->chunks = config->chunks;
    commit->segments = config->segments;
    commit->dicts = config->dicts;
    commit->member = config->member;
    commit->intake = config->intake;
    commit->clock = config->clock;
    commit->queue_max_bytes = config->queue_max_bytes;
    commit->delay_ns = config->delay_ns;
    commit->metrics =
        fg_metrics_register(config->registry, commit_metrics, FG_COUNT(commit_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, commit);
    fg_store_batch_init(&commit->batch);
    fg_store_batch_init(&commit->taking);
    fg_store_batch_init(&commit->undo);
    (void)pthread_mutex_init(&commit->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&commit->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    failed = pthread_create(&commit->thread, NULL, run, commit);
    if (failed != 0) {
        free(commit);
        return fg_fail_errno(err, failed, "committer");
    }
    *ret_commit = commit;
    return FG_OK;
}

void ing_commit_destroy(struct ing_commit *commit)
{
    if (commit == NULL)
        return;
    (void)pthread_mutex_lock(&commit->lock);
    commit->stop = true;
    (void)pthread_cond_signal(&commit->wake);
    (void)pthread_mutex_unlock(&commit->lock);
    (void)pthread_join(commit->thread, NULL);
    check_queue(commit);
    fg_assert(commit->first == NULL && commit->first_visit == NULL); /* nobody is forgotten */
    fg_store_batch_done(&commit->batch);
    fg_store_batch_done(&commit->taking);
    fg_store_batch_done(&commit->undo);
    free(commit->touched);
    free(commit->older);
    free(commit->group_chunks);
    fg_map_done(&commit->touched_map);
    free(commit->ids);
    fg_map_done(&commit->id_map);
    (void)pthread_cond_destroy(&commit->wake);
    (void)pthread_mutex_destroy(&commit->lock);
    free(commit);
}
