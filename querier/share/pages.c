/*
 * Caches pages of objects; pages.h describes it.
 *
 * A read opens all of its pages in the cache, in order, and fetches the missing ones from the
 * bucket by one request. It does not wait for pages that another read is loading, but loads them as
 * well: waiting would need a queue, and would make a read as slow as the slowest other one. Such
 * pages are loose: they are this read's alone.
 */
#include "querier/share/pages.h"

struct share_page {
    uint32_t len; /* PAGES_BYTES, except for an object's last page */
    uint8_t bytes[];
};

/* A page of a read. */
struct pages_slot {
    struct fg_cache_entry *entry;
    bool mine;               /* not in the cache, and this read makes it */
    struct share_page *page; /* NULL: missing */
    bool loose;              /* the page is this read's: another read makes the one in the cache */
};

struct qry_pages {
    struct fg_bucket *bucket;
    struct fg_disk_cache *disk;
    struct fg_cache *cache;
    _Atomic uint64_t hits, misses;
};

struct qry_pages *qry_pages_create(struct fg_bucket *bucket, struct fg_disk_cache *disk,
                                   uint64_t cache_max_bytes)
{
    struct qry_pages *pages = fg_new(struct qry_pages);

    pages->bucket = bucket;
    pages->disk = disk;
    pages->cache = fg_cache_create(cache_max_bytes, fg_clock_real());
    return pages;
}

void qry_pages_destroy(struct qry_pages *pages)
{
    if (pages == NULL)
        return;
    fg_cache_destroy(pages->cache);
    free(pages);
}

struct qry_pages_stats qry_pages_stats(struct qry_pages *pages)
{
    return (struct qry_pages_stats){
        .hits = atomic_load(&pages->hits),
        .misses = atomic_load(&pages->misses),
        .bytes = fg_cache_stats(pages->cache).bytes,
    };
}

static struct share_page *page_create(struct fg_slice bytes)
{
    struct share_page *page = fg_malloc(sizeof *page + bytes.len);

    page->len = (uint32_t)bytes.len;
    memcpy(page->bytes, bytes.ptr, bytes.len);
    return page;
}

/* ---- the disk: pages of one length, with how much of it counts at the end ---- */

enum { DISK_PAGE_BYTES = PAGES_BYTES + 4 };

static struct fg_disk_key disk_key_of(const struct qry_pages_read *read, size_t slot)
{
    uint64_t first = read->offset / PAGES_BYTES;

    return (struct fg_disk_key){read->object, (first + slot) * PAGES_BYTES, DISK_PAGE_BYTES};
}

static struct share_page *take_from_disk(const struct qry_pages_read *read, size_t slot)
{
    struct fg_disk_key key = disk_key_of(read, slot);
    struct share_page *page = NULL;
    struct fg_buf bytes;
    uint32_t len;

    fg_buf_init(&bytes, DISK_PAGE_BYTES);
    if (fg_disk_cache_get(read->pages->disk, &key, &bytes) && bytes.len == DISK_PAGE_BYTES) {
        memcpy(&len, bytes.ptr + PAGES_BYTES, sizeof len);
        /* The disk cache has checked its checksum; the length is checked again, because a wrong one
         * would read beyond the page. */
        if (len > 0 && len <= PAGES_BYTES)
            page = page_create(fg_bytes(bytes.ptr, len));
    }
    fg_buf_done(&bytes);
    return page;
}

static void put_on_disk(const struct qry_pages_read *read, size_t slot,
                        const struct share_page *page)
{
    struct fg_disk_key key = disk_key_of(read, slot);
    uint8_t *bytes = fg_calloc(1, DISK_PAGE_BYTES);

    memcpy(bytes, page->bytes, page->len);
    memcpy(bytes + PAGES_BYTES, &page->len, sizeof page->len);
    fg_disk_cache_put(read->pages->disk, &key, fg_bytes(bytes, DISK_PAGE_BYTES));
    free(bytes);
}

/* ---- pages of a read ---- */

static void keep_page(struct pages_slot *slot, struct share_page *page)
{
    fg_assert(slot->page == NULL);
    slot->page = page;
    slot->loose = !slot->mine;
    if (slot->mine)
        fg_cache_fill(slot->entry, page, sizeof *page + page->len, free);
    slot->mine = false;
}

static void open_slot(struct qry_pages_read *read, size_t number)
{
    struct qry_pages *pages = read->pages;
    struct pages_slot *slot = &read->slots[number];
    uint64_t page = read->offset / PAGES_BYTES + number;
    const struct fg_cache_key key = {
        .object = read->object, .part = (uint32_t)(page >> 32), .number = (uint32_t)page};
    enum fg_cache_state state;
    struct share_page *found;

    /* The reader has found damage: neither memory nor disk may answer with the same bytes again. */
    if (read->fresh) {
        struct fg_disk_key on_disk = disk_key_of(read, number);

        fg_cache_drop(pages->cache, &key);
        if (pages->disk != NULL)
            fg_disk_cache_drop(pages->disk, &on_disk);
    }
    slot->entry = fg_cache_open(pages->cache, &key, 0, &state, &slot->mine);
    if (state == FG_CACHE_READY)
        slot->page = fg_cache_value(slot->entry);
    else if (pages->disk != NULL && (found = take_from_disk(read, number)) != NULL)
        keep_page(slot, found);
    (void)atomic_fetch_add(slot->page != NULL ? &pages->hits : &pages->misses, 1);
}

static void close_slots(struct qry_pages_read *read)
{
    for (size_t i = 0; i < read->n_slots; i++) {
        struct pages_slot *slot = &read->slots[i];

        /* Not loaded after all: the next read that opens the page makes it. */
        if (slot->mine)
            fg_cache_fail(slot->entry);
        fg_cache_unref(slot->entry);
        if (slot->loose)
            free(slot->page);
    }
    free(fg_take(read->slots));
}

/* Puts the range together from pages; ends at the first that is not full, where the object ends. */
static void put_together(struct qry_pages_read *read)
{
    uint64_t skip = read->offset % PAGES_BYTES;
    bool whole = true;

    fg_buf_init(&read->body, read->length);
    for (size_t i = 0; i < read->n_slots && whole && read->slots[i].page != NULL; i++) {
        const struct share_page *page = read->slots[i].page;
        struct fg_slice bytes = fg_slice_sub(fg_bytes(page->bytes, page->len), skip, page->len);

        fg_buf_put(&read->body, fg_slice_sub(bytes, 0, read->length - read->body.len));
        skip = 0;
        whole = page->len == PAGES_BYTES;
    }
}

static void finish(struct qry_pages_read *read, enum fg_code code)
{
    read->code = code;
    if (code == FG_OK)
        put_together(read);
    close_slots(read);
    if (code == FG_OK && read->body.len == 0)
        read->code = fg_fail(&read->err, FG_E_INVALID, "get %s: begins at byte %llu, after its end",
                             read->name, (unsigned long long)read->offset);
    read->done(read);
}

static void on_loaded(struct fg_bucket_request *request)
{
    struct qry_pages_read *read = fg_container(request, struct qry_pages_read, request);
    struct fg_slice body = fg_buf_slice(&request->body);
    enum fg_code code = request->code;

    /* The range begins after the object's end. If pages before it are there, the object ends with
     * the last of them, and the range is shorter than asked for. */
    if (code == FG_E_INVALID && read->first_missing > 0)
        code = FG_OK;
    if (code != FG_OK)
        read->err = request->err;
    for (size_t i = read->first_missing; code == FG_OK && i < read->end_missing; i++) {
        struct fg_slice bytes =
            fg_slice_sub(body, (i - read->first_missing) * PAGES_BYTES, PAGES_BYTES);

        if (read->slots[i].page != NULL || bytes.len == 0)
            continue;
        keep_page(&read->slots[i], page_create(bytes));
        if (read->pages->disk != NULL)
            put_on_disk(read, i, read->slots[i].page);
    }
    fg_bucket_clear(request);
    finish(read, code);
}

/* Reads all missing pages by one request, with those in between. */
static void load(struct qry_pages_read *read)
{
    uint64_t first = read->offset / PAGES_BYTES + read->first_missing;
    uint64_t count = read->end_missing - read->first_missing;

    read->request = (struct fg_bucket_request){
        .verb = FG_BUCKET_GET,
        .name = read->name,
        .offset = first * PAGES_BYTES,
        .length = count * PAGES_BYTES,
        .content_max_bytes = count * PAGES_BYTES,
        .deadline_mono_ns = read->deadline_mono_ns,
        .done = on_loaded,
    };
    fg_bucket_send(read->pages->bucket, &read->request);
}

void qry_pages_read(struct qry_pages *pages, struct qry_pages_read *read)
{
    uint64_t first = read->offset / PAGES_BYTES;
    uint64_t last = (read->offset + read->length - 1) / PAGES_BYTES;

    fg_assert(read->length > 0 && read->length <= PAGES_READ_MAX_BYTES);
    read->pages = pages;
    read->object = fg_hash128(fg_cstr(read->name));
    read->n_slots = (size_t)(last - first + 1);
    read->slots = fg_calloc(read->n_slots, sizeof *read->slots);
    read->first_missing = read->n_slots;
    for (size_t i = 0; i < read->n_slots; i++) {
        const struct share_page *page;

        open_slot(read, i);
        page = read->slots[i].page;
        if (page != NULL && page->len < PAGES_BYTES)
            read->n_slots = i + 1; /* the object ends there */
        if (page != NULL)
            continue;
        read->first_missing = FG_MIN(read->first_missing, i);
        read->end_missing = i + 1;
    }
    fg_assert(read->end_missing <= read->n_slots);
    if (read->end_missing == 0)
        finish(read, FG_OK);
    else
        load(read);
}

void qry_pages_cancel(struct qry_pages *pages, struct qry_pages_read *read)
{
    if (read->end_missing > 0) /* else the bucket was not asked */
        fg_bucket_cancel(pages->bucket, &read->request);
}

void qry_pages_read_done(struct qry_pages_read *read)
{
    fg_buf_done(&read->body);
}
