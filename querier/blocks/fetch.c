#include "querier/blocks/fetch.h"

enum {
    FETCH_GAP_MAX_BYTES = 256 * 1024,       /* read for nothing, rather than ask twice */
    FETCH_LOAD_MAX_BYTES = 4 * 1024 * 1024, /* of a request, unless one thing is larger */
    FETCH_LOADS_MAX = 32,                   /* requests under way, of one question */
    FETCH_WAIT_NS = 100 * 1000 * 1000,      /* for what another question makes; then look around */
};

struct queue {
    struct fetch_item *first, *last;
};

/* A request and what it brings. */
struct load {
    struct fg_bucket_request request;
    struct queue items;
    uint64_t end;         /* of the range */
    uint64_t items_bytes; /* of it, what is wanted */
    uint64_t other_bytes; /* what comes besides: between them, or with a directory */
    struct load *next;
};

struct fetch {
    struct question *question;
    struct blocks *blocks;
    struct fg_bucket_wave *wave;
    fetch_visit visit;
    void *arg;
    struct fetch_item *items;
    uint32_t n, at;                   /* items[at] is opened next */
    struct queue ready[FETCH_PHASES]; /* there, not visited */
    uint32_t to_visit[FETCH_PHASES];  /* there or not */
    struct queue others;              /* being made by other questions */
    struct load *loads;               /* under way */
    uint32_t n_loads;
    uint64_t bytes; /* of what was opened and not visited, and besides of what is under way */
};

/* ---- lists ---- */

static void queue_add(struct queue *queue, struct fetch_item *item)
{
    item->next = NULL;
    if (queue->last != NULL)
        queue->last->next = item;
    else
        queue->first = item;
    queue->last = item;
}

static struct fetch_item *queue_take(struct queue *queue)
{
    struct fetch_item *item = queue->first;

    if (item == NULL)
        return NULL;
    queue->first = item->next;
    if (queue->first == NULL)
        queue->last = NULL;
    item->next = NULL;
    return item;
}

enum fg_code fetch_add(struct fetch_list *list, struct fg_arena *arena,
                       const struct fetch_item *item, struct fg_err *err)
{
    if (!fg_arena_grow(arena, (void *)&list->items, list->n, 1, &list->cap, sizeof *list->items))
        return blocks_too_large(err);
    list->items[list->n++] = *item;
    return FG_OK;
}

/* By phase, object and place: neighbours share a request. */
static int item_order(const void *left, const void *right)
{
    const struct fetch_item *a = left, *b = right;

    if (a->phase != b->phase)
        return a->phase < b->phase ? -1 : 1;
    if (a->object != b->object)
        return a->object < b->object ? -1 : 1;
    return (a->range.offset > b->range.offset) - (a->range.offset < b->range.offset);
}

/* ---- requests ---- */

static struct fg_cache_key key_of(const struct fetch_item *item)
{
    return (struct fg_cache_key){
        .object = item->object->id,
        .what = item->thing->what << 8 | item->kind,
        .part = item->part == NULL ? 0 : item->part->number,
        .number = item->number,
    };
}

/* Makes what is kept, and it waits for its visit. */
static enum fg_code make_item(struct fetch *fetch, struct fetch_item *item, struct fg_slice bytes,
                              struct fg_err *err)
{
    void *value;
    size_t size;

    if (item->thing->make(item, bytes, fetch->blocks->memory_max_bytes, &value, &size, err) !=
        FG_OK)
        return err->code;
    fg_cache_fill(item->entry, value, size, item->thing->destroy);
    queue_add(&fetch->ready[item->phase], item);
    return FG_OK;
}

/* ---- the disk ---- */

static struct fg_disk_key disk_key_of(const struct fetch_item *item)
{
    return (struct fg_disk_key){item->object->id, item->range.offset, item->range.len};
}

/* An item that is ours to make. What is wrong with it is nobody's fault but the disk's: the bucket
 * has it as well. */
static bool take_from_disk(struct fetch *fetch, struct fetch_item *item)
{
    struct fg_disk_cache *disk = fetch->blocks->disk;
    struct fg_disk_key key = disk_key_of(item);
    struct fg_buf bytes;
    struct fg_err err;
    bool made = false;

    if (disk == NULL)
        return false;
    fg_buf_init(&bytes, SIZE_MAX);
    if (fg_disk_cache_get(disk, &key, &bytes)) {
        made = make_item(fetch, item, fg_buf_slice(&bytes), &err) == FG_OK;
        if (!made)
            fg_disk_cache_drop(disk, &key);
    }
    fg_buf_done(&bytes);
    fetch->question->disk_hits += made;
    return made;
}

static void put_on_disk(struct fetch *fetch, const struct fetch_item *item, struct fg_slice bytes)
{
    struct fg_disk_key key = disk_key_of(item);

    if (fetch->blocks->disk != NULL)
        fg_disk_cache_put(fetch->blocks->disk, &key, bytes);
}

/* ---- tails ---- */

/* Does all to the object's end come with it? */
static bool brings_tail(const struct fetch_item *item)
{
    return item->thing == &thing_directory && item->object->tail != NULL;
}

static struct fg_block_range range_of(const struct fetch_item *item)
{
    const struct object *object = item->object;

    return brings_tail(item)
               ? (struct fg_block_range){object->tail->from, object->bytes - object->tail->from}
               : item->range;
}

static void keep_tail(const struct fetch_item *item, struct load *load)
{
    struct fg_buf *bytes = &item->object->tail->bytes;

    fg_buf_done(bytes);
    *bytes = load->request.body;
    fg_buf_init(&load->request.body, 0);
}

/* An item that is ours to make. As with the disk: if anything is wrong, the bucket is asked. */
static bool take_from_tail(struct fetch *fetch, struct fetch_item *item)
{
    const struct tail *tail = item->object->tail;
    struct fg_slice bytes;
    struct fg_err err;

    if (tail == NULL || tail->bytes.len == 0 || item->range.offset < tail->from)
        return false;
    bytes =
        fg_slice_sub(fg_buf_slice(&tail->bytes), item->range.offset - tail->from, item->range.len);
    if (bytes.len != item->range.len || make_item(fetch, item, bytes, &err) != FG_OK)
        return false;
    put_on_disk(fetch, item, bytes);
    return true;
}

/* ---- what is opened ---- */

/* Opens in the cache. true: it is ours to ask the bucket for. */
static bool open_item(struct fetch *fetch, struct fetch_item *item)
{
    struct fg_cache_key key = key_of(item);
    enum fg_cache_state state;
    bool mine;

    item->entry = fg_cache_open(fetch->blocks->cache, &key, &state, &mine);
    fg_metric_add(fetch->blocks->metrics, mine ? BLOCKS_CACHE_MISSES : BLOCKS_CACHE_HITS, 1);
    fetch->question->cache_hits += !mine;
    if (state == FG_CACHE_READY)
        queue_add(&fetch->ready[item->phase], item);
    else if (!mine)
        queue_add(&fetch->others, item);
    return mine && !take_from_tail(fetch, item) && !take_from_disk(fetch, item);
}

static struct fetch_item *open_next(struct fetch *fetch, bool *ret_mine)
{
    struct fetch_item *item = &fetch->items[fetch->at++];

    fetch->bytes += item->range.len;
    *ret_mine = open_item(fetch, item);
    return item;
}

static void load_add(struct load *load, struct fetch_item *item)
{
    struct fg_block_range range = range_of(item);

    queue_add(&load->items, item);
    load->end = range.offset + range.len;
    load->items_bytes += item->range.len;
}

/* Takes in what follows closely. */
static void load_extend(struct fetch *fetch, struct load *load)
{
    const struct fetch_item *first = load->items.first;

    while (fetch->at < fetch->n) {
        const struct fetch_item *next = &fetch->items[fetch->at];
        bool mine;

        if (next->object != first->object || next->phase != first->phase ||
            next->range.offset < load->end ||
            next->range.offset - load->end > FETCH_GAP_MAX_BYTES ||
            next->range.offset + next->range.len - first->range.offset > FETCH_LOAD_MAX_BYTES)
            return;
        struct fetch_item *item = open_next(fetch, &mine);
        if (mine)
            load_add(load, item);
    }
}

static void load_send(struct fetch *fetch, struct load *load)
{
    const struct fetch_item *first = load->items.first;
    struct fg_bucket_request *request = &load->request;

    request->verb = FG_BUCKET_GET;
    request->name = first->object->name;
    request->offset = range_of(first).offset;
    request->length = load->end - request->offset;
    request->content_max_bytes = request->length;
    request->deadline_mono_ns = fetch->question->deadline_mono_ns;
    load->other_bytes = request->length - FG_MIN(request->length, load->items_bytes);
    fetch->bytes += load->other_bytes;
    load->next = fetch->loads;
    fetch->loads = load;
    fetch->n_loads++;
    fetch->question->requests++;
    fg_metric_add(fetch->blocks->metrics, BLOCKS_REQUESTS, 1);
    fg_bucket_wave_send(fetch->wave, fetch->blocks->bucket, request);
}

/* A request for an item that was opened and is ours. */
static struct load *load_create(struct fetch_item *item)
{
    struct load *load = fg_new(struct load);

    load_add(load, item);
    return load;
}

static void send_next(struct fetch *fetch)
{
    bool mine;
    struct fetch_item *item = open_next(fetch, &mine);

    if (!mine)
        return;
    struct load *load = load_create(item);
    load_extend(fetch, load);
    load_send(fetch, load);
}

static void load_destroy(struct fetch *fetch, struct load *load)
{
    struct load **link = &fetch->loads;

    while (*link != load)
        link = &(*link)->next;
    *link = load->next;
    fetch->n_loads--;
    fetch->bytes -= load->other_bytes;
    fg_bucket_clear(&load->request);
    free(load);
}

/* ---- what comes back ---- */

/* Of the parts of a name that a thing has. */
static enum fg_code wrap(const struct fetch_item *item, struct fg_err *err)
{
    if (item->part == NULL)
        return fg_wrap(err, "%s", item->object->name);
    return fg_wrap(err, "%s: part %.*s/%.*s", item->object->name, FG_S(item->part->entry->tenant),
                   FG_S(item->part->entry->service));
}

static void fail_items(struct queue *items)
{
    struct fetch_item *item;

    while ((item = queue_take(items)) != NULL) {
        fg_cache_fail(item->entry);
        fg_cache_unref(item->entry);
    }
}

/* The item's part of what its load brought. */
static enum fg_code take_item(struct fetch *fetch, const struct load *load, struct fetch_item *item,
                              struct fg_err *err)
{
    struct fg_slice all = fg_buf_slice(&load->request.body);
    struct fg_slice bytes =
        fg_slice_sub(all, item->range.offset - load->request.offset, item->range.len);

    if (bytes.len != item->range.len)
        (void)fg_fail(err, FG_E_CORRUPT, "%zu bytes where there should be %llu", bytes.len,
                      (unsigned long long)item->range.len);
    else if (make_item(fetch, item, bytes, err) == FG_OK) {
        put_on_disk(fetch, item, bytes);
        return FG_OK;
    }
    return wrap(item, err);
}

static enum fg_code take_load(struct fetch *fetch, struct load *load, struct fg_err *err)
{
    const struct fetch_item *first = load->items.first;
    struct fetch_item *item;

    fg_assert(first != NULL); /* load_create() */
    if (load->request.code != FG_OK)
        return blocks_fail(&load->request, err);
    fg_metric_add(fetch->blocks->metrics, BLOCKS_FETCHED_BYTES, load->request.body.len);
    while ((item = load->items.first) != NULL) {
        if (question_check(fetch->question, err) != FG_OK)
            return err->code;
        (void)queue_take(&load->items);
        if (take_item(fetch, load, item, err) != FG_OK) {
            fg_cache_fail(item->entry);
            fg_cache_unref(item->entry);
            return err->code;
        }
    }
    if (brings_tail(first))
        keep_tail(first, load);
    return FG_OK;
}

static enum fg_code await_load(struct fetch *fetch, struct fg_err *err)
{
    struct fg_bucket_request *request = fg_bucket_wave_next(fetch->wave);
    struct load *load = fg_container(request, struct load, request);
    enum fg_code code = take_load(fetch, load, err);

    if (code == FG_OK)
        load_destroy(fetch, load);
    return code; /* else fetch_done() sees to it */
}

/* Another question's; we have nothing under way ourselves. */
static void await_other(struct fetch *fetch)
{
    struct fetch_item *item = queue_take(&fetch->others);

    switch (fg_cache_wait(item->entry, FETCH_WAIT_NS)) {
    case FG_CACHE_READY:
        queue_add(&fetch->ready[item->phase], item);
        break;
    case FG_CACHE_LOADING:
        queue_add(&fetch->others, item);
        break;
    case FG_CACHE_FAILED: /* its question may have ended; we find out ourselves */
        fg_cache_unref(item->entry);
        if (open_item(fetch, item))
            load_send(fetch, load_create(item));
        break;
    }
}

/* ---- visits ---- */

static unsigned phase_of(const struct fetch *fetch)
{
    unsigned phase = 0;

    while (phase < FETCH_PHASES - 1 && fetch->to_visit[phase] == 0)
        phase++;
    return phase;
}

static enum fg_code visit_one(struct fetch *fetch, struct fetch_item *item, struct fg_err *err)
{
    enum fg_code code = fetch->visit(fetch->arg, item, err);

    fg_cache_unref(item->entry);
    fetch->to_visit[item->phase]--;
    fetch->bytes -= item->range.len;
    fetch->question->bytes += item->range.len;
    return code == FG_OK ? FG_OK : wrap(item, err);
}

static bool may_send(const struct fetch *fetch)
{
    return fetch->at < fetch->n && fetch->n_loads < FETCH_LOADS_MAX &&
           (fetch->bytes == 0 ||
            fetch->bytes + fetch->items[fetch->at].range.len <= fetch->blocks->fetch_max_bytes);
}

static enum fg_code step(struct fetch *fetch, struct fg_err *err)
{
    struct fetch_item *item;

    if (may_send(fetch)) {
        send_next(fetch);
        return FG_OK;
    }
    if (question_check(fetch->question, err) != FG_OK)
        return err->code;
    item = queue_take(&fetch->ready[phase_of(fetch)]);
    if (item != NULL)
        return visit_one(fetch, item, err);
    if (fetch->n_loads > 0)
        return await_load(fetch, err);
    await_other(fetch);
    return FG_OK;
}

static bool is_done(const struct fetch *fetch)
{
    for (unsigned i = 0; i < FETCH_PHASES; i++)
        if (fetch->to_visit[i] > 0)
            return false;
    return true;
}

/* After a failure there are requests under way and things nobody will visit. */
static void fetch_done(struct fetch *fetch)
{
    struct fetch_item *item;

    fg_bucket_wave_destroy(fetch->wave);
    while (fetch->loads != NULL) {
        fail_items(&fetch->loads->items);
        load_destroy(fetch, fetch->loads);
    }
    for (unsigned i = 0; i < FETCH_PHASES; i++)
        while ((item = queue_take(&fetch->ready[i])) != NULL)
            fg_cache_unref(item->entry);
    while ((item = queue_take(&fetch->others)) != NULL)
        fg_cache_unref(item->entry);
}

enum fg_code fetch_all(struct question *question, struct fetch_list *list, fetch_visit visit,
                       void *arg, struct fg_err *err)
{
    struct fetch fetch = {
        .question = question,
        .blocks = question->querier->blocks,
        .visit = visit,
        .arg = arg,
        .items = list->items,
        .n = list->n,
    };
    enum fg_code code = FG_OK;

    if (list->n == 0)
        return FG_OK;
    fetch.wave = fg_bucket_wave_create();
    qsort(list->items, list->n, sizeof *list->items, item_order);
    for (uint32_t i = 0; i < list->n; i++)
        fetch.to_visit[list->items[i].phase]++;
    while (code == FG_OK && !is_done(&fetch))
        code = step(&fetch, err);
    fetch_done(&fetch);
    return code;
}
