#include "querier/blocks/fetch.h"

#include "common/storage/bucket/damage.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/blocks/lost.h"
#include "querier/progress.h"

enum {
    /* Bytes between two items that are read for nothing: they take less time than a request. The
     * two pages of samples that an instance has in a block of an hour are 370 kB apart. */
    FETCH_GAP_MAX_BYTES = 512 * 1024,
    /* Between rollups, for which queries read one request or two of many objects. */
    FETCH_ROLLUP_GAP_MAX_BYTES = 1024 * 1024,
    FETCH_LOAD_MAX_BYTES = 4 * 1024 * 1024, /* of a request, unless one item is larger */
    FETCH_LOADS_MAX = 32,                   /* requests in flight, of one query */
    FETCH_WAIT_NS = 100 * 1000 * 1000, /* for a reply or another query, then check the client */
};

struct fetch_queue {
    struct qry_fetch_item *first, *last;
};

/* A request and what it brings. */
struct qry_load {
    struct fg_bucket_request request;
    struct fetch_queue items; /* that wait for it */
    uint32_t n_making;        /* items that are made of what came */
    struct qry_tail *tail;    /* which it brings; NULL: none */
    uint64_t end;             /* of the range */
    uint64_t items_bytes;     /* of it, what is wanted */
    uint64_t other_bytes;     /* between the items, or before a directory */
    struct qry_load *next;
};

struct qry_fetch {
    struct qry_query *query;
    struct qry_blocks *blocks;
    struct fg_task_group *task_group;
    struct fg_bucket_wave *wave;
    qry_fetch_visit visit;
    void *arg;
    struct qry_fetch_item *items;
    uint32_t n, at;                         /* items[at] is opened next */
    struct fetch_queue ready[FETCH_PHASES]; /* there, not visited */
    uint32_t to_visit[FETCH_PHASES];        /* there or not */
    struct fetch_queue others;              /* being made by other queries */
    struct fetch_queue again; /* to be asked of the bucket itself, in order of `items` */
    struct qry_load *loads;   /* under way, or here and needed */
    uint32_t n_loads;         /* under way */
    uint64_t bytes;           /* opened and not visited, and also fetched between items */
    bool over;                /* nothing is sent any more */
    bool lacks; /* items were passed over, since the bucket is away: `away` says why */
    struct fg_err away;
};

/* ---- lists ---- */

static void queue_add(struct fetch_queue *queue, struct qry_fetch_item *item)
{
    item->next = NULL;
    if (queue->last != NULL)
        queue->last->next = item;
    else
        queue->first = item;
    queue->last = item;
}

/* Inserts into a queue that is ordered by place in the list of items. Most items come in that
 * order. */
static void queue_add_in_order(struct fetch_queue *queue, struct qry_fetch_item *item)
{
    struct qry_fetch_item **link = &queue->first;

    if (queue->last == NULL || queue->last < item) {
        queue_add(queue, item);
        return;
    }
    while (*link < item)
        link = &(*link)->next;
    item->next = *link;
    *link = item;
}

static struct qry_fetch_item *queue_take(struct fetch_queue *queue)
{
    struct qry_fetch_item *item = queue->first;

    if (item == NULL)
        return NULL;
    queue->first = item->next;
    if (queue->first == NULL)
        queue->last = NULL;
    item->next = NULL;
    return item;
}

enum fg_code qry_fetch_add(struct qry_fetch_list *list, struct fg_arena *arena,
                           const struct qry_fetch_item *item, struct fg_err *err)
{
    if (!fg_arena_grow(arena, (void *)&list->items, list->n, 1, &list->cap, sizeof *list->items))
        return qry_query_too_large(err);
    list->items[list->n++] = *item;
    return FG_OK;
}

/* By phase, object and place: neighbours share a request. */
static int item_order(const void *left, const void *right)
{
    const struct qry_fetch_item *a = left, *b = right;

    if (a->phase != b->phase)
        return a->phase < b->phase ? -1 : 1;
    if (a->object != b->object)
        return a->object < b->object ? -1 : 1;
    return (a->range.offset > b->range.offset) - (a->range.offset < b->range.offset);
}

/* ---- parsing ---- */

static struct fg_disk_key disk_key_of(const struct qry_fetch_item *item)
{
    return (struct fg_disk_key){item->object->id, item->range.offset, item->range.len};
}

static bool is_rollup(const struct qry_fetch_item *item)
{
    const struct qry_object *object = item->object;

    if (item->part == NULL) /* a head: a directory, perhaps with rollups */
        return object->head.offset != object->directory.offset;
    return item->type->is_rollup;
}

enum fg_code qry_fetch_fail(const struct qry_fetch_item *item, struct fg_err *err)
{
    if (item->part == NULL)
        (void)fg_wrap(err, "%s", item->object->name);
    else
        (void)fg_wrap(err, "%s: part %.*s/%.*s", item->object->name,
                      FG_S(item->part->entry->tenant), FG_S(item->part->entry->service));
    if (fg_damage_unusable(err->code))
        qry_lost_add(item->fetch->query, item->object, item->part, is_rollup(item), err);
    return err->code;
}

/* Returns true if the bytes came from the bucket itself, and from no cache. */
static bool is_fresh(const struct qry_fetch_item *item)
{
    return item->load != NULL && item->load->request.fresh;
}

/* Makes the item. Bytes that do not parse may have been damaged in a cache, which is no damage of
 * the object: then the bucket is asked again. */
static enum fg_code make(struct qry_fetch_item *item, struct fg_err *err)
{
    size_t max_bytes = item->fetch->blocks->memory_max_bytes, size;
    void *value;

    if (item->type->make(item, item->bytes, max_bytes, &value, &size, err) == FG_OK) {
        fg_cache_fill(item->entry, value, size, item->type->destroy);
        return FG_OK;
    }
    item->again = err->code == FG_E_CORRUPT && !is_fresh(item);
    return item->again ? FG_OK : qry_fetch_fail(item, err);
}

/* Any thread. */
static enum fg_code run_making(struct fg_task *task, struct fg_err *err)
{
    struct qry_fetch_item *item = fg_container(task, struct qry_fetch_item, task);
    struct fg_disk_cache *disk = item->fetch->blocks->disk;
    struct fg_disk_key key = disk_key_of(item);

    /* Parsing a large index takes long: look first whether the client is still there. */
    if (qry_query_check(item->fetch->query, err) != FG_OK || make(item, err) != FG_OK)
        return err->code;
    if (disk != NULL && item->of_disk && item->again)
        fg_disk_cache_drop(disk, &key);
    else if (disk != NULL && !item->of_disk && !item->again)
        /* Only what has parsed is put on the disk, so damage in the bucket is not kept there. */
        fg_disk_cache_put(disk, &key, item->bytes);
    return FG_OK;
}

static void fail_item(struct qry_fetch_item *item)
{
    fg_cache_fail(item->entry);
    fg_cache_unref(item->entry);
}

static void load_unuse(struct qry_fetch *fetch, struct qry_load *load);

/* Ends the making of an item: it waits for its visit, or for another request. */
static enum fg_code end_making(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct qry_fetch_item *item = fg_container(task, struct qry_fetch_item, task);
    struct qry_fetch *fetch = item->fetch;

    (void)err;
    if (item->of_disk)
        fg_buf_done(&item->read);
    if (item->load != NULL)
        load_unuse(fetch, item->load);
    fetch->query->disk_hits += ran && item->of_disk && !item->again;
    if (!ran || (item->again && fetch->over))
        fail_item(item);
    else if (item->again)
        queue_add_in_order(&fetch->again, item);
    else
        queue_add(&fetch->ready[item->phase], item);
    return FG_OK;
}

static void put_making(struct qry_fetch *fetch, struct qry_fetch_item *item, struct fg_slice bytes)
{
    item->task = (struct fg_task){.run = run_making, .end = end_making};
    item->bytes = bytes;
    item->again = false;
    fg_task_group_put(fetch->task_group, &item->task);
}

/* ---- the disk ---- */

/* Gets an item that this query has to make from the disk cache. */
static bool take_from_disk(struct qry_fetch *fetch, struct qry_fetch_item *item)
{
    struct fg_disk_cache *disk = fetch->blocks->disk;
    struct fg_disk_key key = disk_key_of(item);

    if (disk == NULL)
        return false;
    fg_buf_init(&item->read, SIZE_MAX);
    item->of_disk = fg_disk_cache_get(disk, &key, &item->read);
    if (item->of_disk)
        put_making(fetch, item, fg_buf_slice(&item->read));
    else
        fg_buf_done(&item->read);
    return item->of_disk;
}

/* ---- tails ---- */

/* Returns true if everything up to the object's end comes with it. */
static bool brings_tail(const struct qry_fetch_item *item)
{
    return item->type->with_tail && item->object->tail != NULL;
}

static struct fg_block_range range_of(const struct qry_fetch_item *item)
{
    const struct qry_object *object = item->object;

    return brings_tail(item)
               ? (struct fg_block_range){object->tail->from, object->bytes - object->tail->from}
               : item->range;
}

/* Gets an item that this query has to make from the object's tail. */
static bool take_from_tail(struct qry_fetch *fetch, struct qry_fetch_item *item)
{
    const struct qry_tail *tail = item->object->tail;
    struct fg_slice bytes;

    if (tail == NULL || tail->bytes.len == 0 || item->range.offset < tail->from)
        return false;
    bytes =
        fg_slice_sub(fg_buf_slice(&tail->bytes), item->range.offset - tail->from, item->range.len);
    if (bytes.len != item->range.len)
        return false;
    put_making(fetch, item, bytes);
    return true;
}

/* ---- what is opened ---- */

/* Opens an item in the cache. Returns true if this query has to ask the bucket. */
static bool open_item(struct qry_fetch *fetch, struct qry_fetch_item *item)
{
    struct fg_cache_key key = {
        .object = item->object->id,
        .what = item->type->what << 8 | (uint32_t)item->single << 7 | item->kind,
        .part = item->part == NULL ? 0 : item->part->number,
        .number = item->number,
    };
    enum fg_cache_state state;
    bool mine;

    item->entry = fg_cache_open(fetch->blocks->cache, &key, fetch->query->flow.id, &state, &mine);
    fg_metric_add(fetch->blocks->metrics, mine ? BLOCKS_CACHE_MISSES : BLOCKS_CACHE_HITS, 1);
    fetch->query->cache_hits += !mine;
    if (state == FG_CACHE_READY)
        queue_add(&fetch->ready[item->phase], item);
    else if (!mine)
        queue_add(&fetch->others, item);
    /* The tail first: it is in memory. Only then the disk, which may block. */
    return mine && !take_from_tail(fetch, item) && !take_from_disk(fetch, item);
}

static struct qry_fetch_item *open_next(struct qry_fetch *fetch, bool *ret_mine)
{
    struct qry_fetch_item *item = &fetch->items[fetch->at++];

    fetch->bytes += item->range.len;
    *ret_mine = open_item(fetch, item);
    return item;
}

static void load_add(struct qry_load *load, struct qry_fetch_item *item)
{
    struct fg_block_range range = range_of(item);

    queue_add(&load->items, item);
    item->load = load;
    load->end = range.offset + range.len;
    load->items_bytes += item->range.len;
}

/* Adds the items that follow closely. */
static void load_extend(struct qry_fetch *fetch, struct qry_load *load)
{
    const struct qry_fetch_item *first = load->items.first;
    uint64_t gap_max_bytes =
        first->type->is_rollup ? FETCH_ROLLUP_GAP_MAX_BYTES : FETCH_GAP_MAX_BYTES;

    while (fetch->at < fetch->n) {
        const struct qry_fetch_item *next = &fetch->items[fetch->at];
        bool mine;

        if (next->object != first->object || next->phase != first->phase ||
            next->range.offset < load->end || next->range.offset - load->end > gap_max_bytes ||
            next->range.offset + next->range.len - first->range.offset > FETCH_LOAD_MAX_BYTES)
            return;
        struct qry_fetch_item *item = open_next(fetch, &mine);
        if (mine)
            load_add(load, item);
    }
}

static void load_send(struct qry_fetch *fetch, struct qry_load *load)
{
    const struct qry_fetch_item *first = load->items.first;
    struct fg_bucket_request *request = &load->request;

    request->verb = FG_BUCKET_GET;
    request->name = first->object->name;
    request->offset = range_of(first).offset;
    request->length = load->end - request->offset;
    request->content_max_bytes = request->length;
    request->deadline_mono_ns =
        fetch->query->stale ? fetch->query->stale_until_mono_ns : fetch->query->deadline_mono_ns;
    /* A repeated read keeps its bytes for itself: items are being made of the tail that is there.
     */
    load->tail = brings_tail(first) && !request->fresh ? first->object->tail : NULL;
    load->other_bytes = request->length - FG_MIN(request->length, load->items_bytes);
    fetch->bytes += load->other_bytes;
    load->next = fetch->loads;
    fetch->loads = load;
    fetch->n_loads++;
    qry_loads_add(&fetch->blocks->loads, fetch->query->flow.id, 1);
    fetch->query->requests++;
    fg_metric_add(fetch->blocks->metrics, BLOCKS_REQUESTS, 1);
    fg_bucket_wave_send(fetch->wave, fetch->blocks->bucket, request);
}

static bool may_load(const struct qry_fetch *fetch)
{
    return fetch->n_loads < FETCH_LOADS_MAX &&
           qry_loads_may_send(&fetch->blocks->loads, fetch->query->flow.id, fetch->n_loads);
}

/* Makes a load for an item that was opened and that this query has to make. */
static struct qry_load *load_create(struct qry_fetch_item *item)
{
    struct qry_load *load = fg_new(struct qry_load);

    load_add(load, item);
    return load;
}

static void send_next(struct qry_fetch *fetch)
{
    bool mine;
    struct qry_fetch_item *item = open_next(fetch, &mine);

    if (!mine)
        return;
    struct qry_load *load = load_create(item);
    load_extend(fetch, load);
    load_send(fetch, load);
}

/* Asks the bucket itself for the items of which a cache had damaged bytes. */
static void send_again(struct qry_fetch *fetch)
{
    while (fetch->again.first != NULL && may_load(fetch)) {
        struct qry_fetch_item *item = queue_take(&fetch->again);
        struct qry_load *load = load_create(item);

        item->of_disk = false;
        load->request.fresh = true;
        load_send(fetch, load);
    }
}

static void load_destroy(struct qry_fetch *fetch, struct qry_load *load)
{
    struct qry_load **link = &fetch->loads;
    struct qry_fetch_item *item;

    for (; *link != load; link = &(*link)->next)
        fg_assert(*link != NULL);
    *link = load->next;
    while ((item = queue_take(&load->items)) != NULL)
        fail_item(item);
    fg_assert(fetch->bytes >= load->other_bytes);
    fetch->bytes -= load->other_bytes;
    fg_bucket_clear(&load->request);
    free(load);
}

/* ---- what comes back ---- */

/* Ends the use of a load by one item. */
static void load_unuse(struct qry_fetch *fetch, struct qry_load *load)
{
    fg_assert(load->n_making > 0);
    if (--load->n_making > 0)
        return;
    /* Not before: items that are made point into the body, which moves to the tail. */
    if (load->tail != NULL) {
        fg_buf_done(&load->tail->bytes);
        load->tail->bytes = load->request.body;
        fg_buf_init(&load->request.body, 0);
    }
    load_destroy(fetch, load);
}

/* Cuts out the item's part of what its load brought. */
static enum fg_code take_item(struct qry_fetch *fetch, struct qry_load *load,
                              struct qry_fetch_item *item, struct fg_err *err)
{
    struct fg_slice all = fg_buf_slice(&load->request.body);
    struct fg_slice bytes =
        fg_slice_sub(all, item->range.offset - load->request.offset, item->range.len);

    if (bytes.len == item->range.len) {
        load->n_making++;
        put_making(fetch, item, bytes);
        return FG_OK;
    }
    /* Fewer bytes than the manifest says. A cache on the way may have a truncated copy; the second
     * request passes by all caches. */
    if (!is_fresh(item)) {
        queue_add_in_order(&fetch->again, item);
        return FG_OK;
    }
    fail_item(item);
    (void)fg_fail(err, FG_E_CORRUPT, "%zu bytes where there should be %llu", bytes.len,
                  (unsigned long long)item->range.len);
    return qry_fetch_fail(item, err);
}

/* Goes on without an item, since the bucket is unavailable. */
static void pass_over(struct qry_fetch *fetch, const struct qry_fetch_item *item,
                      const struct fg_err *err)
{
    qry_lost_add(fetch->query, item->object, NULL, false, err);
    fetch->to_visit[item->phase]--;
    fetch->bytes -= item->range.len;
    fetch->lacks = true;
    fetch->away = *err;
}

/* Notes all objects that could not be fetched, not only the first. */
static void pass_over_load(struct qry_fetch *fetch, struct qry_load *load, const struct fg_err *err)
{
    struct qry_fetch_item *item;

    while ((item = queue_take(&load->items)) != NULL) {
        fail_item(item);
        pass_over(fetch, item, err);
    }
    load_destroy(fetch, load);
}

static enum fg_code take_failure(struct qry_fetch *fetch, struct qry_load *load, struct fg_err *err)
{
    const struct qry_fetch_item *first = load->items.first;
    struct qry_fetch_item *item;

    (void)qry_blocks_fail(&load->request, err);
    if (err->code == FG_E_CORRUPT && !load->request.fresh) {
        while ((item = queue_take(&load->items)) != NULL)
            queue_add_in_order(&fetch->again, item);
        load_destroy(fetch, load);
        return FG_OK;
    }
    if (fetch->query->stale && (err->code == FG_E_UNAVAILABLE || err->code == FG_E_DEADLINE) &&
        qry_query_check(fetch->query, err) == FG_OK) {
        pass_over_load(fetch, load, err);
        return FG_OK;
    }
    if (err->code == FG_E_NOT_FOUND) /* the whole object */
        qry_lost_add(fetch->query, first->object, NULL, false, err);
    else if (err->code == FG_E_CORRUPT)
        return qry_fetch_fail(first, err);
    return err->code;
}

/* Takes the outcome of a request. After a failure fetch_done() frees what is left of it. */
static enum fg_code take_load(struct qry_fetch *fetch, struct qry_load *load, struct fg_err *err)
{
    struct qry_fetch_item *item;

    fg_assert(fetch->n_loads > 0);
    fetch->n_loads--;
    qry_loads_remove(&fetch->blocks->loads, fetch->query->flow.id, 1);
    if (load->request.code != FG_OK)
        return take_failure(fetch, load, err);
    fg_metric_add(fetch->blocks->metrics, BLOCKS_FETCHED_BYTES, load->request.body.len);
    load->n_making++; /* ours: the load stays until the last item is taken */
    while ((item = queue_take(&load->items)) != NULL)
        if (take_item(fetch, load, item, err) != FG_OK)
            return err->code;
    load_unuse(fetch, load);
    return FG_OK;
}

/* Returns true if the query is stale and its time for objects in no cache is over. */
static bool has_waited(const struct qry_fetch *fetch)
{
    return fetch->query->stale &&
           fg_mono_ns(fetch->blocks->clock) >= fetch->query->stale_until_mono_ns;
}

/* Waits for an item that another query makes, if nothing of this one is in flight: else two queries
 * could wait for each other (cache.h). */
static void await_other(struct qry_fetch *fetch)
{
    struct qry_fetch_item *item = queue_take(&fetch->others);
    struct fg_err err;

    switch (fg_cache_wait(item->entry, FETCH_WAIT_NS)) {
    case FG_CACHE_READY:
        queue_add(&fetch->ready[item->phase], item);
        break;
    case FG_CACHE_LOADING: /* the other query may have more time for the bucket than this one */
        if (!has_waited(fetch)) {
            queue_add(&fetch->others, item);
            break;
        }
        (void)fg_fail(&err, FG_E_DEADLINE, "%s: another query's read has not ended",
                      item->object->name);
        fg_cache_unref(item->entry);
        pass_over(fetch, item, &err);
        break;
    case FG_CACHE_FAILED: /* its client may have gone: make it here */
        fg_cache_unref(item->entry);
        if (open_item(fetch, item))
            load_send(fetch, load_create(item));
        break;
    }
}

/* ---- visits ---- */

static unsigned phase_of(const struct qry_fetch *fetch)
{
    unsigned phase = 0;

    while (phase < FETCH_PHASES - 1 && fetch->to_visit[phase] == 0)
        phase++;
    return phase;
}

static enum fg_code visit_one(struct qry_fetch *fetch, struct qry_fetch_item *item,
                              struct fg_err *err)
{
    enum fg_code code = fetch->visit(fetch->arg, item, err);

    fg_assert(fetch->to_visit[item->phase] > 0 && fetch->bytes >= item->range.len);
    fg_cache_unref(item->entry);
    fetch->to_visit[item->phase]--;
    fetch->bytes -= item->range.len;
    fetch->query->bytes += item->range.len;
    qry_progress_step(fetch->query);
    return code == FG_OK ? FG_OK : qry_fetch_fail(item, err);
}

/* Waits, since there is nothing to do meanwhile. Damaged items are asked for again only when
 * nothing else is in flight, so that which of several errors the client gets does not depend on the
 * number of threads. They come before items of other queries, which may wait for ours. */
static void await(struct qry_fetch *fetch)
{
    if (fetch->n_loads > 0 || fg_task_group_has_tasks(fetch->task_group))
        fg_task_group_wait(fetch->task_group, FETCH_WAIT_NS);
    else if (fetch->again.first != NULL)
        send_again(fetch);
    else
        await_other(fetch);
}

static enum fg_code advance_fetch(struct qry_fetch *fetch, struct fg_err *err)
{
    struct fg_bucket_request *request;
    struct qry_fetch_item *item;

    /* Requests first: the network is the slowest part, so it must never be idle while something may
     * be sent. An item larger than the limit is fetched alone. */
    if (fetch->at < fetch->n && may_load(fetch) &&
        (fetch->bytes == 0 ||
         fetch->bytes + fetch->items[fetch->at].range.len <= fetch->blocks->fetch_max_bytes)) {
        send_next(fetch);
        return FG_OK;
    }
    if (qry_query_check(fetch->query, err) != FG_OK)
        return err->code;
    /* Next what gives memory back: ended tasks, then replies, then visits. */
    if (fg_task_group_end_one(fetch->task_group))
        return FG_OK;
    request = fg_bucket_wave_poll(fetch->wave);
    if (request != NULL)
        return take_load(fetch, fg_container(request, struct qry_load, request), err);
    /* If the task group is full, run its tasks before further visits: tasks of visits hold memory.
     */
    if (!fg_task_group_is_full(fetch->task_group) &&
        (item = queue_take(&fetch->ready[phase_of(fetch)])) != NULL)
        return visit_one(fetch, item, err);
    if (!fg_task_group_run_one(fetch->task_group))
        await(fetch);
    return FG_OK;
}

static bool is_done(const struct qry_fetch *fetch)
{
    for (unsigned i = 0; i < FETCH_PHASES; i++)
        if (fetch->to_visit[i] > 0)
            return false;
    return true;
}

static void nudge(void *arg)
{
    fg_task_group_nudge(arg);
}

static void fetch_init(struct qry_fetch *fetch, struct qry_fetch_list *list)
{
    fetch->items = list->items;
    fetch->n = list->n;
    fetch->blocks = fetch->query->querier->blocks;
    fetch->task_group = fetch->query->snapshot->task_group;
    fetch->wave = fg_bucket_wave_create();
    fg_bucket_wave_on_end(fetch->wave, nudge, fetch->task_group);
    qsort(list->items, list->n, sizeof *list->items, item_order);
    for (uint32_t i = 0; i < list->n; i++) {
        list->items[i].fetch = fetch;
        fetch->to_visit[list->items[i].phase]++;
    }
}

/* Frees everything. After a failure there are requests in flight and items that nobody will visit.
 */
static void fetch_done(struct qry_fetch *fetch)
{
    struct qry_fetch_item *item;

    /* First: it ends the requests in flight, whose buffers the loads own. */
    fg_bucket_wave_destroy(fetch->wave);
    qry_loads_remove(&fetch->blocks->loads, fetch->query->flow.id, fetch->n_loads);
    while (fetch->loads != NULL)
        load_destroy(fetch, fetch->loads);
    for (unsigned i = 0; i < FETCH_PHASES; i++)
        while ((item = queue_take(&fetch->ready[i])) != NULL)
            fg_cache_unref(item->entry);
    while ((item = queue_take(&fetch->others)) != NULL)
        fg_cache_unref(item->entry);
    while ((item = queue_take(&fetch->again)) != NULL)
        fail_item(item);
}

/* Ends all tasks. A task's failure counts before another one's, since it was put before whatever
 * failed on this thread. */
static enum fg_code finish(struct qry_fetch *fetch, enum fg_code code, struct fg_err *err)
{
    struct fg_err first;

    /* From now on end_making() fails items instead of asking for them again: nobody would send the
     * requests. */
    fetch->over = true;
    if (code != FG_OK)
        fg_task_group_stop(fetch->task_group);
    if (fg_task_group_finish(fetch->task_group, &first) == FG_OK)
        return code;
    *err = first;
    return err->code;
}

enum fg_code qry_fetch_all(struct qry_query *query, struct qry_fetch_list *list,
                           qry_fetch_visit visit, void *arg, struct fg_err *err)
{
    struct qry_fetch fetch = {.query = query, .visit = visit, .arg = arg};
    enum fg_code code = FG_OK;
    uint64_t bytes = 0;

    if (list->n == 0)
        return FG_OK;
    for (uint32_t i = 0; i < list->n; i++)
        bytes += list->items[i].range.len;
    if (qry_query_charge(query, bytes, err) != FG_OK)
        return err->code;
    fetch_init(&fetch, list);
    qry_progress_plan(query, list->n);
    while (code == FG_OK && !is_done(&fetch) && !fg_task_group_has_failed(fetch.task_group))
        code = advance_fetch(&fetch, err);
    code = finish(&fetch, code, err);
    /* Every item was visited, or the query says why not. */
    fg_assert(code != FG_OK || (is_done(&fetch) && fetch.at == fetch.n && fetch.n_loads == 0 &&
                                fetch.again.first == NULL));
    if (code == FG_OK && fetch.lacks) {
        *err = fetch.away;
        code = err->code;
    }
    fetch_done(&fetch);
    return code;
}
