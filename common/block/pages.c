/* Which pages to fetch, and in which ranges. */
#include "common/block/reader_impl.h"

/* The first page that holds a profile from `profile` on. */
static uint32_t page_of(const struct fg_block_pages *pages, uint32_t profile)
{
    uint32_t from = 0, to = pages->count;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (pages->pages[mid].first + pages->pages[mid].items <= profile)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

void fg_block_pages_mark(const struct fg_block_pages *pages, uint32_t first, uint32_t count,
                         int64_t start_ns, int64_t end_ns, bool *marks)
{
    uint64_t end = (uint64_t)first + count;

    for (uint32_t i = page_of(pages, first); i < pages->count && pages->pages[i].first < end; i++)
        if (pages->pages[i].t_min_ns <= end_ns && pages->pages[i].t_max_ns >= start_ns)
            marks[i] = true;
}

uint32_t fg_block_pages_ranges(const struct fg_block_pages *pages, const bool *marks,
                               uint64_t gap_bytes, struct fg_block_range *ranges)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < pages->count; i++) {
        const struct fg_block_page *page = &pages->pages[i];
        struct fg_block_range *last = n == 0 ? NULL : &ranges[n - 1];

        if (!marks[i])
            continue;
        if (last != NULL && page->offset - (last->offset + last->len) <= gap_bytes)
            last->len = page->offset + page->bytes - last->offset;
        else
            ranges[n++] = (struct fg_block_range){page->offset, page->bytes};
    }
    return n;
}
