/*
 * A part's page table, labels and series. What is stored is said where it is written (writer.c,
 * write_series.c).
 */
#include "common/base/search.h"
#include "common/storage/block/reader_impl.h"

enum {
    ROW_MIN_BYTES = 1 + 1 + 4 + 1, /* of version 2, which has no key */
    LABEL_MIN_BYTES = 2,           /* a name's or value's length and one byte */
    SCHEMA_MIN_BYTES = 5,          /* four empty texts, one type */
    SERIES_MIN_BYTES = 5,
    CHUNK_MIN_BYTES = 2,
    STRIPES_MORE = 2, /* what is early, and what is left over at the end */
};

/* ---- the page table ---- */

static bool get_times(struct fg_cur *cur, int64_t *before_ns, struct fg_block_page *page)
{
    page->t_min_ns = fg_wrap_add(*before_ns, fg_cur_zigzag(cur));
    page->t_max_ns = fg_wrap_add(page->t_min_ns, (int64_t)fg_cur_varint(cur));
    *before_ns = page->t_min_ns;
    return page->t_min_ns <= page->t_max_ns;
}

/* Parses the pages of one section. Their lengths have to fill the section. */
static enum fg_code parse_pages(struct fg_cur *cur, uint32_t version,
                                const struct fg_block_section *section, uint32_t count,
                                struct fg_block_page *pages, struct fg_err *err)
{
    uint64_t offset = section->range.offset, end = offset + section->range.len, first = 0;
    int64_t before_ns = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t raw_bytes = fg_cur_varint(cur), bytes = fg_cur_varint(cur);
        uint32_t crc = fg_cur_le32(cur);
        uint64_t key = version >= 3 ? fg_cur_varint(cur) : 0;
        uint64_t items = fg_cur_varint(cur);

        /* Every number that memory or a range depends on is bounded here, before it is used. */
        if (cur->bad || key > UINT32_MAX || raw_bytes > FG_BLOCK_PAGE_RAW_MAX_BYTES ||
            bytes > raw_bytes || bytes > end - offset || items > FG_BLOCK_ITEMS_MAX - first)
            return fg_fail(err, FG_E_CORRUPT, "page %u", i);
        pages[i] = (struct fg_block_page){.offset = offset,
                                          .bytes = (uint32_t)bytes,
                                          .raw_bytes = (uint32_t)raw_bytes,
                                          .crc = crc,
                                          .key = (uint32_t)key,
                                          .first = (uint32_t)first,
                                          .items = (uint32_t)items};
        if (fg_block_kind_has_times(section->kind) &&
            (items == 0 || !get_times(cur, &before_ns, &pages[i])))
            return fg_fail(err, FG_E_CORRUPT, "times of page %u", i);
        offset += bytes;
        first += items;
    }
    return offset == end ? FG_OK : fg_fail(err, FG_E_CORRUPT, "bytes between pages");
}

/* Parses all sections except the table itself and the groups, in their order. */
static enum fg_code parse_table(struct fg_cur *cur, struct fg_arena *arena,
                                struct fg_block_index *index, struct fg_err *err)
{
    const struct fg_block_part *part = index->part;

    for (uint32_t i = 0; i + 2 < part->n_sections; i++) {
        const struct fg_block_section *section = &part->sections[i];
        uint64_t kind = fg_cur_varint(cur), count = fg_cur_count(cur, ROW_MIN_BYTES);
        struct fg_block_page *pages;

        if (cur->bad || kind != section->kind || count == 0 || count > FG_BLOCK_PAGES_MAX)
            return fg_fail(err, FG_E_CORRUPT, "page table: section %u", i);
        pages = fg_arena_new(arena, struct fg_block_page, count);
        if (pages == NULL)
            return fg_block_no_room(err, "a page table");
        if (parse_pages(cur, part->version, section, (uint32_t)count, pages, err) != FG_OK)
            return fg_wrap(err, "page table: %s", fg_block_kind_name(section->kind));
        index->pages[kind] = (struct fg_block_pages){pages, (uint32_t)count};
    }
    return fg_cur_end(cur) ? FG_OK : fg_fail(err, FG_E_CORRUPT, "page table: bytes left over");
}

static uint64_t items_of(const struct fg_block_index *index, uint32_t kind)
{
    const struct fg_block_pages *pages = &index->pages[kind];

    return pages->count == 0 ? 0
                             : (uint64_t)pages->pages[pages->count - 1].first +
                                   pages->pages[pages->count - 1].items;
}

/* True if pages of two kinds have the same profiles: page i of ids belongs to page i of rows. */
static bool same_rows(const struct fg_block_pages *a, const struct fg_block_pages *b)
{
    for (uint32_t i = 0; i < FG_MIN(a->count, b->count); i++)
        if (a->pages[i].first != b->pages[i].first || a->pages[i].items != b->pages[i].items ||
            a->pages[i].t_min_ns != b->pages[i].t_min_ns ||
            a->pages[i].t_max_ns != b->pages[i].t_max_ns)
            return false;
    return a->count == b->count;
}

/* The same for a kind whose pages have no times. */
static bool same_items(const struct fg_block_pages *a, const struct fg_block_pages *b)
{
    for (uint32_t i = 0; i < FG_MIN(a->count, b->count); i++)
        if (a->pages[i].items != b->pages[i].items)
            return false;
    return a->count == b->count;
}

/* Checks that all sections that the directory names are there, and that those that belong together
 * have the same pages. */
static enum fg_code check_table(const struct fg_block_index *index, struct fg_err *err)
{
    static const uint32_t profiles[] = {FG_BLOCK_SMP, FG_BLOCK_PID, FG_BLOCK_IDX};
    const struct fg_block_part *part = index->part;
    const struct fg_block_pages *exm = &index->pages[FG_BLOCK_EXM];
    const struct fg_block_pages *use = &index->pages[FG_BLOCK_USE];

    if (part->n_series == 0) {
        /* Derived parts have no other sections. */
        for (uint32_t kind = 0; kind < FG_BLOCK_KINDS_MAX; kind++) {
            bool known =
                fg_block_kind_has_times(kind) || kind == FG_BLOCK_USE || kind >= FG_BLOCK_MAP;

            if (known && index->pages[kind].count > 0)
                return fg_fail(err, FG_E_CORRUPT, "page table: %s without profiles",
                               fg_block_kind_name(kind));
        }
        return FG_OK;
    }
    for (size_t i = 0; i < FG_COUNT(profiles); i++)
        if (items_of(index, profiles[i]) != part->n_profiles)
            return fg_fail(err, FG_E_CORRUPT, "page table: %llu profiles in %s, should be %u",
                           (unsigned long long)items_of(index, profiles[i]),
                           fg_block_kind_name(profiles[i]), part->n_profiles);
    if (!same_rows(&index->pages[FG_BLOCK_PID], &index->pages[FG_BLOCK_IDX]) ||
        (exm->count > 0 && !same_rows(exm, &index->pages[FG_BLOCK_SMP])) ||
        (use->count > 0 && !same_items(use, &index->pages[FG_BLOCK_IDX])))
        return fg_fail(err, FG_E_CORRUPT, "page table: pages of profiles do not match");
    if (items_of(index, FG_BLOCK_MAP) != part->n_stacks ||
        items_of(index, FG_BLOCK_TRI) != part->n_nodes ||
        items_of(index, FG_BLOCK_SER) != part->n_series || index->pages[FG_BLOCK_SER].count != 1 ||
        index->pages[FG_BLOCK_LBL].count != 1)
        return fg_fail(err, FG_E_CORRUPT, "page table: differs from the directory");
    return FG_OK;
}

/* ---- labels ---- */

static enum fg_code parse_values(struct fg_cur *cur, struct fg_slice name, uint32_t count,
                                 struct fg_label_posting *pairs, struct fg_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        struct fg_slice value = fg_cur_lenbytes(cur);

        if (cur->bad || value.len == 0 || (i > 0 && fg_slice_cmp(pairs[i - 1].value, value) >= 0))
            return fg_fail(err, FG_E_CORRUPT, "value %u of label %.*s", i, FG_S(name));
        pairs[i] = (struct fg_label_posting){.name = name, .value = value};
    }
    return FG_OK;
}

/* Texts stay in the unpacked page, which is the arena's. */
static enum fg_code parse_labels(struct fg_slice raw, struct fg_arena *arena,
                                 struct fg_block_index *index, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(raw);
    uint64_t n_names = fg_cur_count(&cur, LABEL_MIN_BYTES);
    uint32_t items = index->pages[FG_BLOCK_LBL].pages[0].items;
    struct fg_slice last = {NULL, 0};

    if (cur.bad || items > raw.len / LABEL_MIN_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "LBL: %u labels in %zu bytes", items, raw.len);
    index->postings = fg_arena_new(arena, struct fg_label_posting, items);
    if (index->postings == NULL)
        return fg_block_no_room(err, "labels");
    for (uint64_t i = 0; i < n_names; i++) {
        struct fg_slice name = fg_cur_lenbytes(&cur);
        uint64_t n_values = fg_cur_count(&cur, LABEL_MIN_BYTES);

        if (cur.bad || n_values == 0 || n_values > items - index->n_postings ||
            (i > 0 && fg_slice_cmp(last, name) >= 0))
            return fg_fail(err, FG_E_CORRUPT, "LBL: name %llu", (unsigned long long)i);
        if (parse_values(&cur, name, (uint32_t)n_values, index->postings + index->n_postings,
                         err) != FG_OK)
            return fg_wrap(err, "LBL");
        index->n_postings += (uint32_t)n_values;
        last = name;
    }
    if (!fg_cur_end(&cur) || index->n_postings != items)
        return fg_fail(err, FG_E_CORRUPT, "LBL: bytes left over");
    return FG_OK;
}

/* ---- series ---- */

static struct fg_value_type get_type(struct fg_cur *cur)
{
    struct fg_slice type = fg_cur_lenbytes(cur);

    return (struct fg_value_type){type, fg_cur_lenbytes(cur)};
}

static enum fg_code parse_schema(struct fg_cur *cur, struct fg_arena *arena,
                                 struct fg_block_schema *schema, struct fg_err *err)
{
    struct fg_value_type *types;
    uint64_t n_types;

    schema->period_type = get_type(cur);
    n_types = fg_cur_count(cur, 2);
    if (cur->bad || n_types == 0 || n_types > FG_BATCH_TYPES_MAX)
        return fg_fail(err, FG_E_CORRUPT, "types");
    schema->n_types = (uint32_t)n_types;
    schema->types = types = fg_arena_new(arena, struct fg_value_type, n_types);
    if (types == NULL)
        return fg_block_no_room(err, "types");
    for (uint32_t t = 0; t < n_types; t++)
        types[t] = get_type(cur);
    return cur->bad ? fg_fail(err, FG_E_CORRUPT, "types") : FG_OK;
}

static enum fg_code parse_schemas(struct fg_cur *cur, struct fg_arena *arena,
                                  struct fg_block_index *index, struct fg_err *err)
{
    uint64_t count = fg_cur_count(cur, SCHEMA_MIN_BYTES);

    index->schemas = fg_arena_new(arena, struct fg_block_schema, count);
    if (index->schemas == NULL)
        return fg_block_no_room(err, "types");
    for (uint32_t i = 0; i < count; i++) {
        if (parse_schema(cur, arena, &index->schemas[i], err) != FG_OK)
            return fg_wrap(err, "schema %u", i);
        if (i > 0 && fg_block_schema_cmp(&index->schemas[i - 1], &index->schemas[i]) >= 0)
            return fg_fail(err, FG_E_CORRUPT, "schema %u is out of order", i);
        index->n_schemas++;
    }
    return FG_OK;
}

/* Parses the labels of a series, by their numbers, and counts the series in their postings. */
static enum fg_code parse_series_labels(struct fg_cur *cur, struct fg_arena *arena,
                                        struct fg_block_index *index,
                                        struct fg_block_series_row *row, struct fg_err *err)
{
    uint64_t count = fg_cur_count(cur, 1), pair = 0;
    struct fg_labels labels = {fg_arena_new(arena, struct fg_label, count), count};

    row->postings = fg_arena_new(arena, uint32_t, count);
    if (labels.items == NULL || row->postings == NULL)
        return fg_block_no_room(err, "labels");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t step = fg_cur_varint(cur);
        struct fg_label_posting *posting;

        if (cur->bad || step >= index->n_postings - pair)
            return fg_fail(err, FG_E_CORRUPT, "label %llu", (unsigned long long)i);
        pair += step;
        posting = &index->postings[pair];
        posting->n_series++;
        row->postings[i] = (uint32_t)pair;
        labels.items[i] = (struct fg_label){posting->name, posting->value};
        /* Ascending by number, and so by name; but each name once. */
        if (i > 0 && fg_slice_cmp(labels.items[i - 1].name, posting->name) >= 0)
            return fg_fail(err, FG_E_CORRUPT, "label %llu", (unsigned long long)i);
    }
    row->labels = labels;
    return FG_OK;
}

static enum fg_code parse_row(struct fg_cur *cur, struct fg_arena *arena,
                              struct fg_block_index *index, struct fg_block_series_row *row,
                              struct fg_err *err)
{
    const struct fg_block_series_row *before = index->n_series == 0 ? NULL : row - 1;
    uint64_t schema = fg_cur_varint(cur);

    if (cur->bad || schema >= index->n_schemas)
        return fg_fail(err, FG_E_CORRUPT, "schema");
    row->schema = &index->schemas[schema];
    if (parse_series_labels(cur, arena, index, row, err) != FG_OK)
        return err->code;
    row->seen = fg_cur_varint(cur);
    row->t_min_ns = fg_wrap_add(before == NULL ? 0 : before->t_min_ns, fg_cur_zigzag(cur));
    row->t_max_ns = fg_wrap_add(row->t_min_ns, (int64_t)fg_cur_varint(cur));
    if (cur->bad || row->t_max_ns < row->t_min_ns ||
        (row->schema->n_types < 64 && row->seen >> row->schema->n_types != 0))
        return fg_fail(err, FG_E_CORRUPT, "times or types");
    return FG_OK;
}

static int series_cmp(const struct fg_block_series_row *row, const struct fg_labels *labels,
                      const struct fg_block_schema *schema)
{
    int order = fg_labels_cmp(&row->labels, labels);

    return order != 0 ? order : fg_block_schema_cmp(row->schema, schema);
}

static enum fg_code parse_rows(struct fg_cur *cur, struct fg_arena *arena,
                               struct fg_block_index *index, struct fg_err *err)
{
    uint64_t count = fg_cur_count(cur, SERIES_MIN_BYTES);

    if (cur->bad || count != index->part->n_series)
        return fg_fail(err, FG_E_CORRUPT, "SER: number of series");
    index->series = fg_arena_new(arena, struct fg_block_series_row, count);
    if (index->series == NULL)
        return fg_block_no_room(err, "series");
    for (uint32_t i = 0; i < count; i++) {
        struct fg_block_series_row *row = &index->series[i];

        if (parse_row(cur, arena, index, row, err) != FG_OK)
            return fg_wrap(err, "SER: series %u", i);
        if (i > 0 && series_cmp(row - 1, &row->labels, row->schema) >= 0)
            return fg_fail(err, FG_E_CORRUPT, "SER: series %u is out of order", i);
        index->n_series++;
    }
    return FG_OK;
}

/* ---- stripes ---- */

/* A stripe on its way: its profiles, and their times. */
struct stripe {
    uint32_t first, end;
    int64_t t_min_ns, t_max_ns;
};

/* Takes the times of a stripe from its pages. Pages must not go beyond the stripe. */
static bool take_times(const struct fg_block_pages *pages, uint32_t *page, struct stripe *stripe)
{
    uint32_t from = *page;

    for (; *page < pages->count && pages->pages[*page].first < stripe->end; ++*page) {
        const struct fg_block_page *here = &pages->pages[*page];

        stripe->t_min_ns =
            *page == from ? here->t_min_ns : FG_MIN(stripe->t_min_ns, here->t_min_ns);
        stripe->t_max_ns =
            *page == from ? here->t_max_ns : FG_MAX(stripe->t_max_ns, here->t_max_ns);
    }
    return *page > from &&
           pages->pages[*page - 1].first + pages->pages[*page - 1].items == stripe->end;
}

/* Parses the series chunks [index->n_chunks, + count) of a stripe, of ascending series. Their
 * profiles follow those of the stripe before. */
static bool get_chunks(struct fg_cur *cur, struct fg_block_index *index, uint64_t count,
                       struct stripe *stripe)
{
    uint64_t series = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t step = fg_cur_varint(cur), profiles = fg_cur_varint(cur);

        if (cur->bad || step >= index->n_series - series || profiles == 0 ||
            profiles > index->part->n_profiles - stripe->end)
            return false;
        series += step;
        index->chunks[index->n_chunks++] = (struct fg_block_chunk){
            .series = (uint32_t)series, .first = stripe->end, .count = (uint32_t)profiles};
        stripe->end += (uint32_t)profiles;
        index->series[series].n_chunks++;
        index->series[series].n_profiles += (uint32_t)profiles;
        series++;
    }
    return true;
}

/* Sets the times of a chunk: within those of the stripe and of its series. */
static bool bound_chunk(const struct fg_block_index *index, const struct stripe *stripe,
                        struct fg_block_chunk *chunk)
{
    const struct fg_block_series_row *series = &index->series[chunk->series];

    chunk->t_min_ns = FG_MAX(stripe->t_min_ns, series->t_min_ns);
    chunk->t_max_ns = FG_MIN(stripe->t_max_ns, series->t_max_ns);
    return chunk->t_min_ns <= chunk->t_max_ns;
}

static enum fg_code parse_stripes(struct fg_cur *cur, struct fg_block_index *index,
                                  uint64_t n_stripes, uint64_t n_chunks, struct fg_err *err)
{
    struct stripe stripe = {0, 0, 0, 0};
    uint32_t idx = 0, smp = 0;

    for (uint64_t i = 0; i < n_stripes; i++) {
        int64_t before_ns = stripe.t_max_ns;
        uint64_t count = fg_cur_varint(cur);
        uint32_t chunk = index->n_chunks;
        struct stripe of_samples;

        stripe.first = stripe.end;
        if (cur->bad || count == 0 || count > n_chunks - chunk ||
            !get_chunks(cur, index, count, &stripe))
            return fg_fail(err, FG_E_CORRUPT, "SER: series of stripe %llu", (unsigned long long)i);
        of_samples = stripe;
        if (!take_times(&index->pages[FG_BLOCK_IDX], &idx, &stripe) ||
            !take_times(&index->pages[FG_BLOCK_SMP], &smp, &of_samples) ||
            (i > 0 && stripe.t_min_ns <= before_ns))
            return fg_fail(err, FG_E_CORRUPT, "SER: pages or times of stripe %llu",
                           (unsigned long long)i);
        for (; chunk < index->n_chunks; chunk++)
            if (!bound_chunk(index, &stripe, &index->chunks[chunk]))
                return fg_fail(err, FG_E_CORRUPT, "SER: times of series %u",
                               index->chunks[chunk].series);
    }
    if (!fg_cur_end(cur) || index->n_chunks != n_chunks || stripe.end != index->part->n_profiles)
        return fg_fail(err, FG_E_CORRUPT, "SER: bytes left over, or profiles without a series");
    return FG_OK;
}

/* Lists the chunks of each series. Their number was counted before. */
static enum fg_code fill_chunks(struct fg_arena *arena, struct fg_block_index *index,
                                struct fg_err *err)
{
    uint32_t *chunks = fg_arena_new(arena, uint32_t, index->n_chunks);
    struct fg_arena_mark mark = fg_arena_mark(arena);
    uint32_t **next = fg_arena_new(arena, uint32_t *, index->n_series);

    if (chunks == NULL || next == NULL)
        return fg_block_no_room(err, "series");
    for (uint32_t s = 0; s < index->n_series; s++) {
        if (index->series[s].n_chunks == 0)
            return fg_fail(err, FG_E_CORRUPT, "SER: series %u has no profiles", s);
        index->series[s].chunks = next[s] = chunks;
        chunks += index->series[s].n_chunks;
    }
    for (uint32_t r = 0; r < index->n_chunks; r++)
        *next[index->chunks[r].series]++ = r;
    fg_arena_release(arena, mark); /* an index is kept for long */
    return FG_OK;
}

/* Lists the series of each label. Their number was counted before. */
static enum fg_code fill_postings(struct fg_arena *arena, struct fg_block_index *index,
                                  struct fg_err *err)
{
    for (uint32_t i = 0; i < index->n_postings; i++) {
        struct fg_label_posting *posting = &index->postings[i];

        if (posting->n_series == 0)
            return fg_fail(err, FG_E_CORRUPT, "LBL: label %u is unused", i);
        posting->series = fg_arena_new(arena, uint32_t, posting->n_series);
        if (posting->series == NULL)
            return fg_block_no_room(err, "labels");
        posting->n_series = 0;
    }
    for (uint32_t s = 0; s < index->n_series; s++) {
        const struct fg_block_series_row *row = &index->series[s];

        for (size_t k = 0; k < row->labels.count; k++) {
            struct fg_label_posting *posting = &index->postings[row->postings[k]];

            posting->series[posting->n_series++] = s;
        }
    }
    return FG_OK;
}

/* ---- all of it ---- */

const char *fg_block_kind_name(uint32_t kind)
{
    static const char *const names[FG_BLOCK_KINDS_MAX] = {
        [FG_BLOCK_SMP] = "SMP", [FG_BLOCK_EXM] = "EXM", [FG_BLOCK_PID] = "PID",
        [FG_BLOCK_IDX] = "IDX", [FG_BLOCK_MAP] = "MAP", [FG_BLOCK_TRI] = "TRI",
        [FG_BLOCK_FRM] = "FRM", [FG_BLOCK_MPG] = "MPG", [FG_BLOCK_FUN] = "FUN",
        [FG_BLOCK_STR] = "STR", [FG_BLOCK_NMR] = "NMR", [FG_BLOCK_NMT] = "NMT",
        [FG_BLOCK_NMS] = "NMS", [FG_BLOCK_LBL] = "LBL", [FG_BLOCK_SER] = "SER",
        [FG_BLOCK_PAG] = "PAG", [FG_BLOCK_GRP] = "GRP", [FG_BLOCK_NOD] = "NOD",
        [FG_BLOCK_USE] = "USE", [FG_BLOCK_CRN] = "CRN", [FG_BLOCK_FTB] = "FTB",
        [FG_BLOCK_FUL] = "FUL", [FG_BLOCK_SCR] = "SCR", [FG_BLOCK_SND] = "SND"};

    return kind < FG_BLOCK_KINDS_MAX && names[kind] != NULL ? names[kind] : "unknown section";
}

enum fg_code fg_block_page_wrap(struct fg_err *err, uint32_t kind, uint32_t page)
{
    return fg_wrap(err, "%s page %u", fg_block_kind_name(kind), page);
}

enum fg_code fg_block_page_open(const struct fg_block_index *index, uint32_t kind, uint32_t page,
                                struct fg_slice bytes, struct fg_arena *arena,
                                struct fg_slice *ret_raw, struct fg_err *err)
{
    const struct fg_block_pages *pages = &index->pages[kind];
    const struct fg_seal_part seal = fg_block_seal_of_part(index->part);

    fg_assert(page < pages->count);
    if (bytes.len != pages->pages[page].bytes)
        return fg_fail(err, FG_E_CORRUPT, "%zu bytes, should be %u", bytes.len,
                       pages->pages[page].bytes);
    return fg_block_unpack_in(&seal, bytes, fg_block_stored_of(&pages->pages[page], kind, page),
                              arena, ret_raw, err);
}

/* The part of the range that holds a section; its length was compared with the range's. */
static struct fg_slice bytes_of(const struct fg_block_part *part, uint32_t kind,
                                struct fg_slice bytes)
{
    uint64_t from = fg_block_part_range(part, FG_BLOCK_WANT_SERIES).offset;
    const struct fg_block_section *section = fg_block_section_find(part, kind);

    return section == NULL ? fg_bytes(NULL, 0)
                           : fg_slice_sub(bytes, (size_t)(section->range.offset - from),
                                          (size_t)section->range.len);
}

static enum fg_code open_table(struct fg_slice bytes, struct fg_arena *arena,
                               struct fg_block_index *index, struct fg_err *err)
{
    const struct fg_block_part *part = index->part;
    const struct fg_block_stored said = {part->table_raw_bytes, part->table_crc, part->key,
                                         FG_BLOCK_PAG, 0};
    const struct fg_seal_part seal = fg_block_seal_of_part(part);
    struct fg_slice raw = {NULL, 0};
    struct fg_cur cur;

    if (fg_block_unpack_in(&seal, bytes_of(part, FG_BLOCK_PAG, bytes), said, arena, &raw, err) !=
        FG_OK)
        return fg_wrap(err, "page table");
    cur = fg_cur(raw);
    if (parse_table(&cur, arena, index, err) != FG_OK)
        return err->code;
    return check_table(index, err);
}

enum fg_code fg_block_part_parse(const struct fg_block_part *part, struct fg_slice bytes,
                                 struct fg_arena *arena, struct fg_block_index *ret_index,
                                 struct fg_err *err)
{
    struct fg_block_index index = {.part = part};
    struct fg_slice labels = {NULL, 0}, series = {NULL, 0};

    if (bytes.len != fg_block_part_range(part, FG_BLOCK_WANT_SERIES).len)
        return fg_fail(err, FG_E_CORRUPT, "series: %zu bytes", bytes.len);
    if (open_table(bytes, arena, &index, err) != FG_OK)
        return err->code;
    if (part->n_series == 0) {
        *ret_index = index;
        return FG_OK;
    }
    if (fg_block_page_open(&index, FG_BLOCK_LBL, 0, bytes_of(part, FG_BLOCK_LBL, bytes), arena,
                           &labels, err) != FG_OK)
        return fg_wrap(err, "LBL");
    if (fg_block_page_open(&index, FG_BLOCK_SER, 0, bytes_of(part, FG_BLOCK_SER, bytes), arena,
                           &series, err) != FG_OK)
        return fg_wrap(err, "SER");
    if (parse_labels(labels, arena, &index, err) != FG_OK)
        return err->code;

    struct fg_cur rows = fg_cur(series);

    if (parse_schemas(&rows, arena, &index, err) != FG_OK)
        return fg_wrap(err, "SER");
    if (parse_rows(&rows, arena, &index, err) != FG_OK)
        return err->code;

    uint64_t n_stripes = fg_cur_varint(&rows), n_chunks = fg_cur_count(&rows, CHUNK_MIN_BYTES);

    index.chunks = fg_arena_new(arena, struct fg_block_chunk, n_chunks);
    if (index.chunks == NULL)
        return fg_block_no_room(err, "series");
    if (parse_stripes(&rows, &index, n_stripes, n_chunks, err) != FG_OK ||
        fill_chunks(arena, &index, err) != FG_OK || fill_postings(arena, &index, err) != FG_OK)
        return err->code;
    *ret_index = index;
    return FG_OK;
}

/* ---- looking things up ---- */

/* A chunk for each series in each stripe. */
uint64_t fg_block_guess_chunks(const struct fg_block_part *part)
{
    uint64_t stretch_ns = (uint64_t)part->t_max_ns - (uint64_t)part->t_min_ns;
    uint64_t stripes =
        FG_MIN(part->n_samples / FG_BLOCK_STRIPE_SAMPLES, stretch_ns / FG_BLOCK_STRIPE_MIN_NS);

    return FG_MIN((uint64_t)part->n_profiles, part->n_series * (stripes + STRIPES_MORE));
}

uint32_t fg_block_chunk_of(const struct fg_block_index *index, uint32_t profile)
{
    fg_assert(profile < index->part->n_profiles);
    /* Before the first chunk that begins behind the profile; the first begins at 0. */
    return fg_lower_bound(i, 1, index->n_chunks, index->chunks[i].first <= profile) - 1;
}

struct fg_profile_type fg_block_profile_type(const struct fg_block_series_row *series,
                                             uint32_t type)
{
    fg_assert(type < series->schema->n_types);
    return (struct fg_profile_type){
        .name = fg_labels_get(&series->labels, FG_LABEL_NAME),
        .type = series->schema->types[type].type,
        .unit = series->schema->types[type].unit,
        .period_type = series->schema->period_type.type,
        .period_unit = series->schema->period_type.unit,
    };
}
