/* Which pages to fetch. */
#include "common/base/search.h"
#include "common/storage/block/reader_impl.h"

uint32_t fg_block_page_of(const struct fg_block_pages *pages, uint32_t profile)
{
    /* The first page that ends behind the profile; pages ascend without gaps. */
    return fg_lower_bound(i, 0, pages->count,
                          pages->pages[i].first + pages->pages[i].items <= profile);
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
