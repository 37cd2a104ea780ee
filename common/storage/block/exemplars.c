/* Pages of EXM: samples with a span or a trace (write_samples.c). */
#include "common/storage/block/reader_impl.h"

enum { EXEMPLAR_MIN_BYTES = 1 + 8 + FG_ID_BYTES + 1 };

/* A page on its way. */
struct exemplars_parsing {
    const struct fg_block_index *index;
    const struct fg_block_page *page;
    struct fg_cur cur;
    struct fg_arena *arena;
    struct fg_block_exemplar *items;
    uint32_t count;
};

static int exemplar_cmp(const struct fg_block_exemplar *a, const struct fg_block_exemplar *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->span_id != b->span_id)
        return a->span_id < b->span_id ? -1 : 1;
    return memcmp(a->trace_id, b->trace_id, FG_ID_BYTES);
}

static bool get_exemplar(struct exemplars_parsing *parsing, uint32_t profile, uint32_t rank,
                         uint32_t n_types, uint64_t *values)
{
    struct fg_block_exemplar *item = &parsing->items[parsing->count];
    struct fg_slice trace;

    *item = (struct fg_block_exemplar){.profile = profile, .rank = rank, .values = values};
    item->span_id = fg_cur_le64(&parsing->cur);
    trace = fg_cur_take(&parsing->cur, FG_ID_BYTES);
    fg_cur_varints(&parsing->cur, values, n_types);
    if (parsing->cur.bad)
        return false;
    memcpy(item->trace_id, trace.ptr, FG_ID_BYTES);
    return true;
}

/* Parses the exemplars of one profile. */
static enum fg_code parse_profile(struct exemplars_parsing *parsing, uint32_t profile,
                                  struct fg_err *err)
{
    uint32_t series = fg_block_series_of(parsing->index, profile);
    uint32_t n_types = parsing->index->series[series].schema->n_types;
    uint64_t count = fg_cur_count(&parsing->cur, EXEMPLAR_MIN_BYTES - 1 + n_types), rank = 0;
    uint64_t *values = fg_arena_new(parsing->arena, uint64_t, count * n_types);

    if (values == NULL)
        return fg_block_no_room(err, "spans");
    if (count == 0)
        return fg_fail(err, FG_E_CORRUPT, "profile %u: nothing there", profile);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t up = fg_cur_varint(&parsing->cur);

        /* Compared before it is added: `up` may be any number. */
        rank = up >= parsing->index->part->n_stacks - rank ? UINT64_MAX : rank + up;
        if (rank == UINT64_MAX ||
            !get_exemplar(parsing, profile, (uint32_t)rank, n_types, values + i * n_types))
            return fg_fail(err, FG_E_CORRUPT, "profile %u: item %llu", profile,
                           (unsigned long long)i);
        if (i > 0 &&
            exemplar_cmp(&parsing->items[parsing->count] - 1, &parsing->items[parsing->count]) > 0)
            return fg_fail(err, FG_E_CORRUPT, "profile %u: out of order", profile);
        parsing->count++;
    }
    return FG_OK;
}

static enum fg_code parse_page(struct exemplars_parsing *parsing, struct fg_err *err)
{
    const struct fg_block_page *page = parsing->page;
    uint64_t next = 0;

    while (fg_cur_more(&parsing->cur)) {
        uint64_t up = fg_cur_varint(&parsing->cur);

        if (parsing->cur.bad || up >= page->items - next)
            return fg_fail(err, FG_E_CORRUPT, "numbers of profiles");
        next += up + 1;
        if (parse_profile(parsing, page->first + (uint32_t)next - 1, err) != FG_OK)
            return err->code;
    }
    return fg_cur_end(&parsing->cur) ? FG_OK : fg_fail(err, FG_E_CORRUPT, "cut short");
}

enum fg_code fg_block_exemplars_parse(const struct fg_block_index *index, uint32_t page,
                                      struct fg_slice bytes, struct fg_arena *arena,
                                      struct fg_block_exemplars *ret_exemplars, struct fg_err *err)
{
    struct exemplars_parsing parsing = {.index = index, .arena = arena};
    struct fg_slice raw;

    if (fg_block_page_open(index, FG_BLOCK_EXM, page, bytes, arena, &raw, err) != FG_OK)
        return fg_block_page_wrap(err, FG_BLOCK_EXM, page);
    parsing.page = &index->pages[FG_BLOCK_EXM].pages[page];
    parsing.cur = fg_cur(raw);
    parsing.items = fg_arena_new(arena, struct fg_block_exemplar, raw.len / EXEMPLAR_MIN_BYTES);
    if (parsing.items == NULL)
        (void)fg_block_no_room(err, "spans");
    else if (parse_page(&parsing, err) == FG_OK) {
        *ret_exemplars = (struct fg_block_exemplars){parsing.items, parsing.count};
        return FG_OK;
    }
    return fg_block_page_wrap(err, FG_BLOCK_EXM, page);
}
