#include "ingester/forward/page.h"

#include "common/base/time.h"

#include <stdlib.h>

enum {
    PAGE_MAX_BYTES = 4 * 1024 * 1024, /* of batches; a single larger one is a page by itself */
    /* So many bytes that do not fit end a read: the next one is of a shorter slice. */
    WASTE_MAX_BYTES = 4 * PAGE_MAX_BYTES,
    SLICES_MAX = 64, /* of one call, so that progress is noted */
    TENANTS_MAX_BYTES = 64 * 1024 * 1024,
};

static const int64_t SLICE_FIRST_NS = 10 * FG_MINUTE_NS, SLICE_MAX_NS = 24 * FG_HOUR_NS;

/* ---- places ---- */

static int cmp_places(int64_t time_ns, struct fg_id id, int64_t other_ns, struct fg_id other)
{
    if (time_ns != other_ns)
        return time_ns < other_ns ? -1 : 1;
    return fg_id_cmp(id, other);
}

static int cmp_items(const void *left, const void *right)
{
    const struct ing_page_item *a = left, *b = right;

    return cmp_places(a->time_ns, a->id, b->time_ns, b->id);
}

void ing_page_pass(const struct ing_page_item *item, struct ing_resend *resend)
{
    resend->time_ns = item->time_ns;
    resend->id = item->id;
}

/* ---- a slice ---- */

struct page_slice {
    struct ing_page *page;
    const struct ing_resend *resend; /* items are after its place */
    int64_t end_ns;                  /* inclusive; the range that is visited ends a little later */
    const atomic_bool *stop;
    size_t cap, bytes, waste; /* waste: of what did not fit */
    bool short_slice;         /* no waste is too much: it cannot be shorter */
    bool wasted;
    /* Profiles at or after it have no room. */
    bool is_limited;
    int64_t limit_ns;
    struct fg_id limit_id;
};

static bool is_of_slice(const struct page_slice *slice, const struct fg_profile *profile)
{
    const struct ing_resend *resend = slice->resend;

    return profile->time_ns <= slice->end_ns &&
           cmp_places(profile->time_ns, profile->id, resend->time_ns, resend->id) > 0;
}

/* Moves items of a heap, whose first is the greatest, until they are one again. */
static void sift_up(struct ing_page_item *items, size_t i)
{
    while (i > 0 && cmp_items(&items[i], &items[(i - 1) / 2]) > 0) {
        const struct ing_page_item moved = items[i];

        items[i] = items[(i - 1) / 2];
        i = (i - 1) / 2;
        items[i] = moved;
    }
}

static void sift_down(struct ing_page_item *items, size_t n)
{
    size_t i = 0, child;

    while ((child = 2 * i + 1) < n) {
        const struct ing_page_item moved = items[i];

        child += child + 1 < n && cmp_items(&items[child + 1], &items[child]) > 0;
        if (cmp_items(&items[child], &moved) <= 0)
            return;
        items[i] = items[child];
        items[child] = moved;
        i = child;
    }
}

/* Drops the last item: there is no room for it nor for what follows it. */
static void drop_last(struct page_slice *slice)
{
    struct ing_page *page = slice->page;
    struct ing_page_item *last = &page->items[0];

    slice->is_limited = true;
    slice->limit_ns = last->time_ns;
    slice->limit_id = last->id;
    slice->bytes -= last->len;
    slice->waste += last->len;
    free(last->bytes);
    *last = page->items[--page->n];
    sift_down(page->items, page->n);
}

static void add_item(struct page_slice *slice, const struct fg_profile *profile,
                     struct fg_buf *bytes)
{
    struct ing_page *page = slice->page;

    if (page->n == slice->cap) {
        slice->cap = FG_MAX((size_t)64, slice->cap * 2);
        page->items = fg_realloc(page->items, slice->cap * sizeof *page->items);
    }
    page->items[page->n] = (struct ing_page_item){
        .time_ns = profile->time_ns, .id = profile->id, .bytes = bytes->ptr, .len = bytes->len};
    sift_up(page->items, page->n++);
    slice->bytes += bytes->len;
    while (slice->bytes > PAGE_MAX_BYTES && page->n > 1)
        drop_last(slice);
}

static enum fg_code visit(void *arg, const struct fg_batch *batch, struct fg_err *err)
{
    struct page_slice *slice = arg;
    const struct fg_profile *profile = &batch->profiles[0];
    struct fg_buf bytes;
    bool *define;

    if (atomic_load(slice->stop))
        return fg_fail(err, FG_E_CANCELED, "the server stops");
    if (slice->waste > WASTE_MAX_BYTES && !slice->short_slice) {
        slice->wasted = true;
        return fg_fail(err, FG_E_CANCELED, "the slice has too much");
    }
    if (!is_of_slice(slice, profile))
        return FG_OK;
    if (slice->is_limited &&
        cmp_places(profile->time_ns, profile->id, slice->limit_ns, slice->limit_id) >= 0) {
        slice->waste += (size_t)FG_ID_BYTES * profile->n_samples; /* about what it takes */
        return FG_OK;
    }
    define = fg_malloc(batch->n_stacks + (size_t)1);
    memset(define, true, batch->n_stacks);
    fg_buf_init(&bytes, UINT32_MAX);
    fg_batch_encode(batch, define, &bytes);
    free(define);
    if (bytes.full) {
        fg_buf_done(&bytes);
        return fg_fail(err, FG_E_LIMIT, "a profile of more than 4 GiB");
    }
    add_item(slice, profile, &bytes);
    return FG_OK;
}

/* Sorts, and drops what came twice. */
static void settle(struct ing_page *page)
{
    size_t n = 0;

    if (page->n > 1)
        qsort(page->items, page->n, sizeof *page->items, cmp_items);
    for (size_t i = 0; i < page->n; i++) {
        if (n > 0 && cmp_items(&page->items[n - 1], &page->items[i]) == 0)
            free(page->items[i].bytes);
        else
            page->items[n++] = page->items[i];
    }
    page->n = n;
}

/* ---- reading ---- */

struct page_reading {
    struct ing_page_pace *pace; /* of the tenant */
    const struct ing_past *past;
    const atomic_bool *stop;
    int64_t deadline_mono_ns;
    struct ing_page *page;
    struct fg_err *err;
};

/* A tenant may have as much in a minute as another one in a day. */
static struct ing_page_pace *pace_of(struct ing_page_reader *reader, const char *tenant)
{
    uint64_t hash = fg_hash64(fg_cstr(tenant));
    struct ing_page_pace *pace = &reader->paces[hash % FG_COUNT(reader->paces)];

    if (pace->slice_ns == 0 || pace->tenant != hash)
        *pace = (struct ing_page_pace){hash, SLICE_FIRST_NS};
    return pace;
}

void ing_page_done(struct ing_page *page)
{
    for (size_t i = 0; i < page->n; i++)
        free(page->items[i].bytes);
    free(page->items);
    page->items = NULL;
    page->n = 0;
}

static int64_t floor_ms(int64_t ns)
{
    return ns / FG_MS_NS - (ns % FG_MS_NS < 0);
}

/* 0 stands for a missing time there. */
static int64_t not_zero(int64_t ms, int64_t otherwise)
{
    return ms == 0 ? otherwise : ms;
}

/* Reads a slice, from the place to end_ns. */
static enum fg_code read_slice(struct page_reading *reading, int64_t end_ns, bool partial,
                               struct page_slice *slice)
{
    struct ing_resend *resend = &reading->page->after;
    const struct ing_past_range range = {
        .tenant = fg_cstr(resend->tenant),
        .start_ms = not_zero(floor_ms(resend->time_ns), -1),
        .end_ms = not_zero(floor_ms(end_ns) + 1, 1),
        .partial = partial,
        .deadline_mono_ns = reading->deadline_mono_ns,
    };

    ing_page_done(reading->page);
    *slice = (struct page_slice){.page = reading->page,
                                 .resend = resend,
                                 .end_ns = end_ns,
                                 .stop = reading->stop,
                                 .short_slice = reading->pace->slice_ns <= FG_MS_NS};
    return reading->past->visit(reading->past->arg, &range, visit, slice, reading->err);
}

/* The page has all of the slice, or its first part. */
static void take_slice(struct page_reading *reading, const struct page_slice *slice, int64_t end_ns)
{
    struct ing_page *page = reading->page;
    struct ing_page_pace *pace = reading->pace;
    int64_t began_ns = page->after.time_ns;

    settle(page);
    if (slice->is_limited) {
        ing_page_pass(&page->items[page->n - 1], &page->after);
        pace->slice_ns = FG_MIN(FG_MAX(page->after.time_ns - began_ns, FG_MS_NS), pace->slice_ns);
        return;
    }
    ing_resend_pass_time(&page->after, end_ns);
    if (slice->bytes < PAGE_MAX_BYTES / 4)
        pace->slice_ns = FG_MIN(2 * pace->slice_ns, SLICE_MAX_NS);
}

static enum fg_code read_slices(struct page_reading *reading)
{
    struct ing_page *page = reading->page;
    struct page_slice slice;

    for (unsigned i = 0; i < SLICES_MAX && page->n == 0; i++) {
        int64_t end_ns = FG_MIN(fg_time_add(page->after.time_ns, reading->pace->slice_ns),
                                page->after.until_ns - 1);
        enum fg_code code;

        if (ing_resend_is_between_tenants(&page->after))
            return FG_OK;
        code = read_slice(reading, end_ns, false, &slice);
        if (code == FG_E_CORRUPT) { /* what is damaged stays so: the rest is sent */
            page->after.incomplete = true;
            code = read_slice(reading, end_ns, true, &slice);
        }
        if (code == FG_OK) {
            take_slice(reading, &slice, end_ns);
        } else if (slice.wasted || code == FG_E_LIMIT || code == FG_E_DEADLINE) {
            /* A shorter slice needs less memory and time. */
            reading->pace->slice_ns = FG_MAX(reading->pace->slice_ns / 4, FG_MS_NS);
            if (!slice.wasted)
                return code;
        } else {
            return code;
        }
    }
    return FG_OK;
}

/* ---- tenants ---- */

/* Counts what a tenant has from from_ns until until_ns. */
static enum fg_code count_of_tenant(const struct ing_past *past, struct fg_slice name,
                                    int64_t from_ns, int64_t until_ns, int64_t deadline_mono_ns,
                                    struct ing_past_counts *ret_counts, struct fg_err *err)
{
    const struct ing_past_range range = {
        .tenant = name,
        .start_ms = not_zero(floor_ms(from_ns), 1),
        .end_ms = not_zero(floor_ms(until_ns - 1), -1),
        .deadline_mono_ns = deadline_mono_ns,
    };

    *ret_counts = (struct ing_past_counts){0};
    return range.start_ms <= range.end_ms ? past->count(past->arg, &range, ret_counts, err) : FG_OK;
}

static enum fg_code begin_tenant(struct page_reading *reading, struct fg_slice name)
{
    struct ing_resend *resend = &reading->page->after;
    struct ing_past_counts counts;

    if (count_of_tenant(reading->past, name, resend->from_ns, resend->until_ns,
                        reading->deadline_mono_ns, &counts, reading->err) != FG_OK)
        return reading->err->code;
    resend->lost += counts.lost;
    memset(resend->tenant, 0, sizeof resend->tenant);
    memcpy(resend->tenant, name.ptr, FG_MIN(name.len, sizeof resend->tenant - 1));
    ing_resend_pass_time(resend, fg_time_add(resend->from_ns, -1));
    return FG_OK;
}

/* Goes to the tenant that follows, or finds that the last one is done. */
static enum fg_code next_tenant(struct page_reading *reading, int64_t now_wall_ns)
{
    fg_auto(fg_arena) *arena = fg_arena_create(TENANTS_MAX_BYTES);
    struct ing_resend *resend = &reading->page->after;
    struct fg_slice *names;
    size_t n;

    if (reading->past->tenants(reading->past->arg, reading->deadline_mono_ns, arena, &names, &n,
                               reading->err) != FG_OK)
        return reading->err->code;
    for (size_t i = 0; i < n; i++)
        if (fg_slice_cmp(names[i], fg_cstr(resend->tenant)) > 0)
            return begin_tenant(reading, names[i]);
    resend->state = RESEND_DONE;
    resend->ended_wall_ns = now_wall_ns;
    return FG_OK;
}

static enum fg_code commit(struct page_reading *reading)
{
    enum fg_code code =
        reading->past->commit(reading->past->arg, reading->deadline_mono_ns, reading->err);

    if (code != FG_OK && code != FG_E_CORRUPT)
        return code;
    reading->page->after.incomplete = code == FG_E_CORRUPT;
    reading->page->after.state = RESEND_READS;
    return FG_OK;
}

enum fg_code ing_page_read(struct ing_page_reader *reader, const struct ing_past *past,
                           const struct ing_resend *resend, int64_t now_wall_ns,
                           int64_t deadline_mono_ns, const atomic_bool *stop,
                           struct ing_page *ret_page, struct fg_err *err)
{
    struct page_reading reading = {
        pace_of(reader, resend->tenant), past, stop, deadline_mono_ns, ret_page, err};
    enum fg_code code;

    *ret_page = (struct ing_page){.before = *resend, .after = *resend};
    if (resend->state == RESEND_COMMITS)
        code = commit(&reading);
    else if (ing_resend_is_between_tenants(resend))
        code = next_tenant(&reading, now_wall_ns);
    else
        code = read_slices(&reading);
    if (code != FG_OK)
        ing_page_done(ret_page);
    return code;
}

enum fg_code ing_page_count(const struct ing_past *past, int64_t from_ns, int64_t until_ns,
                            int64_t deadline_mono_ns, struct ing_past_counts *ret_counts,
                            struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(TENANTS_MAX_BYTES);
    struct ing_past_counts sum = {0}, counts;
    struct fg_slice *names;
    size_t n;

    if (past->tenants(past->arg, deadline_mono_ns, arena, &names, &n, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < n; i++) {
        if (count_of_tenant(past, names[i], from_ns, until_ns, deadline_mono_ns, &counts, err) !=
            FG_OK)
            return err->code;
        sum.profiles += counts.profiles;
        sum.lost += counts.lost;
    }
    *ret_counts = sum;
    return FG_OK;
}
