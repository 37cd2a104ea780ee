/* Which pages to fetch. */
#include "common/storage/block/reader_impl.h"

uint32_t fg_block_page_of(const struct fg_block_pages *pages, uint32_t profile)
{
    uint32_t from = 0, to = pages->count;

    /* The first page that ends behind the profile; pages ascend without gaps. */
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

    for (uint32_t i = fg_block_page_of(pages, first);
         i < pages->count && pages->pages[i].first < end; i++)
        if (pages->pages[i].t_min_ns <= end_ns && pages->pages[i].t_max_ns >= start_ns)
            marks[i] = true;
}
