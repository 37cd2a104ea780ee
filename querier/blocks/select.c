#include "querier/blocks/select.h"

#include "querier/blocks/fetch.h"

/* Profiles that were asked for by their ids. */
struct wanted {
    struct part *part;
    uint32_t profile;
};

struct select {
    struct reader reader;
    const struct stacks *stacks;
    const struct select_taker *taker;
    struct fg_block_samples *samples;
    struct wanted *wanted;
    uint32_t n_wanted, cap_wanted;
};

static bool has_links(const struct select *select)
{
    return select->stacks->n_spans + select->stacks->n_traces > 0;
}

/* ---- which profiles ---- */

static bool is_wanted_id(const struct stacks *stacks, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES];

    fg_id_put(bytes, id);
    for (size_t i = 0; i < stacks->n_profile_ids; i++)
        if (stacks->profile_ids[i].len == FG_ID_BYTES &&
            memcmp(stacks->profile_ids[i].data, bytes, FG_ID_BYTES) == 0)
            return true;
    return false;
}

static enum fg_code note_wanted(struct select *select, struct part *part, uint32_t profile,
                                struct fg_err *err)
{
    /* In the question's arena: the reader's is emptied after each page. */
    if (!fg_arena_grow(select->reader.question->arena, &select->wanted, select->n_wanted, 1,
                       &select->cap_wanted, sizeof *select->wanted))
        return blocks_too_large(err);
    select->wanted[select->n_wanted++] = (struct wanted){part, profile};
    return FG_OK;
}

static enum fg_code take_ids(struct select *select, struct part *part, uint32_t number,
                             struct fg_slice bytes, struct fg_err *err)
{
    const struct fg_block_page *page = &part->index->pages[FG_BLOCK_PID].pages[number];
    struct fg_arena_mark mark = fg_arena_mark(select->reader.arena);
    struct fg_id *ids;
    enum fg_code code =
        fg_block_ids_parse(part->index, number, bytes, select->reader.arena, &ids, err);

    for (uint32_t i = 0; code == FG_OK && i < page->items; i++)
        if (is_wanted_id(select->stacks, ids[i]))
            code = note_wanted(select, part, page->first + i, err);
    fg_arena_release(select->reader.arena, mark);
    return code;
}

static int wanted_order(const void *left, const void *right)
{
    const struct wanted *a = left, *b = right;

    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    return (a->profile > b->profile) - (a->profile < b->profile);
}

/* Of the spans only the profiles that were found stay, each as a span of its own. */
static enum fg_code keep_wanted(struct select *select, struct part *part, struct fg_err *err)
{
    struct span *spans = fg_arena_new(select->reader.arena, struct span, select->n_wanted);
    uint32_t kept = 0, end;

    if (spans == NULL)
        return blocks_too_large(err);
    for (uint32_t i = 0; i < select->n_wanted; i++) {
        uint32_t profile = select->wanted[i].profile;
        uint32_t at = rows_spans(part, profile, 1, &end);

        if (select->wanted[i].part != part || at == end)
            continue;
        spans[kept] = part->spans[at];
        spans[kept].first = profile;
        spans[kept++].count = 1;
    }
    part->spans = spans;
    part->n_spans = kept;
    return FG_OK;
}

static enum fg_code settle_wanted(struct select *select, struct fg_err *err)
{
    struct reader *reader = &select->reader;

    if (select->n_wanted > 1)
        qsort(select->wanted, select->n_wanted, sizeof *select->wanted, wanted_order);
    for (uint32_t i = 0; i < reader->n_batch; i++)
        if (rows_settle(&reader->batch[i], err) != FG_OK ||
            keep_wanted(select, &reader->batch[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- sums ---- */

static enum fg_code begin_sums(struct select *select, struct part *part, struct fg_err *err)
{
    if (part->sums != NULL)
        return FG_OK;
    if (rows_settle(part, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < part->n_spans; i++)
        select->reader.question->profiles += part->spans[i].count;
    part->sums = fg_arena_new(select->reader.arena, uint64_t, part->entry->n_stacks);
    return part->sums == NULL ? blocks_too_large(err) : FG_OK;
}

static enum fg_code add_samples(struct select *select, struct part *part, uint32_t number,
                                struct fg_slice bytes, struct fg_err *err)
{
    const struct fg_block_page *page = &part->index->pages[FG_BLOCK_SMP].pages[number];
    uint32_t end, at = rows_spans(part, page->first, page->items, &end);

    if (at == end)
        return FG_OK;
    if (fg_block_samples_open(select->samples, part->index, number, bytes, err) != FG_OK)
        return err->code;
    for (; at < end; at++) {
        const struct span *span = &part->spans[at];
        const struct fg_block_match *match = &part->matches[span->first_match];

        for (uint32_t i = 0; i < span->n_matches; i++)
            if (fg_block_samples_sum(select->samples, span->first, span->count, match[i].type,
                                     part->sums, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static bool is_wanted_link(const struct stacks *stacks, const struct fg_block_exemplar *item)
{
    for (size_t i = 0; i < stacks->n_spans; i++)
        if (stacks->spans[i] == item->span_id)
            return true;
    for (size_t i = 0; i < stacks->n_traces; i++)
        if (stacks->traces[i].len == FG_ID_BYTES &&
            memcmp(stacks->traces[i].data, item->trace_id, FG_ID_BYTES) == 0)
            return true;
    return false;
}

static void add_exemplar(const struct part *part, const struct fg_block_exemplar *item)
{
    uint32_t end, at = rows_spans(part, item->profile, 1, &end);

    if (at == end)
        return;
    for (uint32_t i = 0; i < part->spans[at].n_matches; i++)
        part->sums[item->rank] += item->values[part->matches[part->spans[at].first_match + i].type];
}

static enum fg_code add_exemplars(struct select *select, struct part *part, uint32_t number,
                                  struct fg_slice bytes, struct fg_err *err)
{
    struct fg_arena *arena = select->reader.arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct fg_block_exemplars exemplars;

    if (fg_block_exemplars_parse(part->index, number, bytes, arena, &exemplars, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < exemplars.count; i++)
        if (is_wanted_link(select->stacks, &exemplars.items[i]))
            add_exemplar(part, &exemplars.items[i]);
    fg_arena_release(arena, mark);
    return FG_OK;
}

static enum fg_code add_full(struct select *select, struct part *part, uint32_t row,
                             struct fg_slice bytes, struct fg_err *err)
{
    struct fg_arena *arena = select->reader.arena;

    for (uint32_t i = 0; i < part->n_fulls; i++) {
        struct fg_arena_mark mark = fg_arena_mark(arena);

        if (part->fulls[i].row == row &&
            fg_nodes_full_add(&part->nodes->rows[row], bytes, part->fulls[i].sign, arena,
                              part->sums, part->entry->n_stacks, err) != FG_OK)
            return err->code;
        fg_arena_release(arena, mark);
    }
    return FG_OK;
}

/* ---- what is fetched ---- */

static enum fg_code visit(void *arg, const struct fetch_item *item, struct fg_err *err)
{
    struct select *select = arg;
    struct part *part = item->part;

    if (item->thing == select->taker->stacks) {
        part->tree_entry = fg_cache_ref(item->entry);
        return FG_OK;
    }
    if (item->thing == &thing_page && item->kind == FG_BLOCK_IDX)
        return rows_take(&select->reader, part, item->number, page_of(item->entry), err);
    if (item->thing == &thing_page && item->kind == FG_BLOCK_PID)
        return take_ids(select, part, item->number, page_of(item->entry), err);
    if (begin_sums(select, part, err) != FG_OK)
        return err->code;
    if (item->thing == &thing_node)
        return add_full(select, part, item->number, page_of(item->entry), err);
    if (item->kind == FG_BLOCK_EXM)
        return add_exemplars(select, part, item->number, page_of(item->entry), err);
    return add_samples(select, part, item->number, page_of(item->entry), err);
}

static enum fg_code list_pages(struct select *select, struct fetch_list *list, struct part *part,
                               uint32_t kind, bool cut_only, unsigned phase, struct fg_err *err)
{
    const bool *marks = rows_marks(&select->reader, part, kind, cut_only);

    if (marks == NULL)
        return blocks_too_large(err);
    return fetch_add_pages(list, select->reader.arena, part, kind, marks, phase, err);
}

/* Which profiles are in the range, and which of them have the ids. */
static enum fg_code list_rows(struct select *select, struct fetch_list *list, struct fg_err *err)
{
    struct reader *reader = &select->reader;

    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct part *part = &reader->batch[i];

        if (list_pages(select, list, part, FG_BLOCK_IDX, true, 0, err) != FG_OK)
            return err->code;
        if (select->stacks->n_profile_ids > 0 &&
            list_pages(select, list, part, FG_BLOCK_PID, false, 0, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code list_samples(struct select *select, struct fetch_list *list, struct fg_err *err)
{
    struct reader *reader = &select->reader;
    uint32_t kind = has_links(select) ? FG_BLOCK_EXM : FG_BLOCK_SMP;

    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct part *part = &reader->batch[i];

        if (part->n_spans + part->n_fulls == 0)
            continue;
        if (list_pages(select, list, part, kind, false, 1, err) != FG_OK ||
            fetch_add(
                list, reader->arena,
                &(struct fetch_item){.thing = select->taker->stacks,
                                     .object = part->object,
                                     .range = fg_block_part_range(part->entry, FG_BLOCK_WANT_TREE),
                                     .part = part,
                                     .phase = 1},
                err) != FG_OK)
            return err->code;
        for (uint32_t k = 0; k < part->n_fulls; k++)
            if (fetch_add_node(list, reader->arena, part, &part->fulls[k], 1, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

/* Rows and samples in one wave, unless ids decide which samples. */
static enum fg_code fetch_batch(struct select *select, struct fg_err *err)
{
    struct question *question = select->reader.question;
    struct fetch_list list = {0};

    if (list_rows(select, &list, err) != FG_OK)
        return err->code;
    if (select->stacks->n_profile_ids > 0) {
        if (fetch_all(question, &list, visit, select, err) != FG_OK ||
            settle_wanted(select, err) != FG_OK)
            return err->code;
        list = (struct fetch_list){0};
    }
    if (list_samples(select, &list, err) != FG_OK)
        return err->code;
    return fetch_all(question, &list, visit, select, err);
}

/* ---- what becomes of them ---- */

static bool has_values(const struct part *part)
{
    for (uint32_t i = 0; part->sums != NULL && i < part->entry->n_stacks; i++)
        if (part->sums[i] != 0)
            return true;
    return false;
}

static enum fg_code take_part(struct select *select, const struct part *part, struct fg_err *err)
{
    const struct select_taker *taker = select->taker;
    struct fg_arena *arena = select->reader.arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);

    if (!has_values(part))
        return FG_OK;
    if (taker->take(taker->arg, part, arena, err) != FG_OK)
        return fg_wrap(err, "%s", part->object->name);
    fg_arena_release(arena, mark);
    return question_check(select->reader.question, err);
}

static enum fg_code read_all(struct select *select, struct fg_err *err)
{
    struct reader *reader = &select->reader;

    for (;;) {
        select->n_wanted = 0;
        if (reader_next(reader, err) != FG_OK)
            return err->code;
        if (reader->n_batch == 0)
            return FG_OK;
        if (fetch_batch(select, err) != FG_OK)
            return err->code;
        for (uint32_t i = 0; i < reader->n_batch; i++)
            if (take_part(select, &reader->batch[i], err) != FG_OK)
                return err->code;
    }
}

/* Of what a part stores as much as its time is in the range. */
static uint64_t bytes_in_range(const struct reader *reader, const struct fg_block_part *part)
{
    int64_t from_ns = FG_MAX(part->t_min_ns, reader->start_ns);
    int64_t to_ns = FG_MIN(part->t_max_ns, reader->end_ns);
    double time = ((double)to_ns - (double)from_ns + 1) /
                  ((double)part->t_max_ns - (double)part->t_min_ns + 1);

    for (uint32_t i = 0; i < part->n_sections; i++)
        if (part->sections[i].kind == FG_BLOCK_SMP)
            return (uint64_t)((double)part->sections[i].range.len * time);
    return 0;
}

/* Whatever of it takes the place of reading it. */
static uint64_t bytes_asked_for(struct reader *reader)
{
    uint64_t bytes = under_bytes(reader);

    for (uint32_t i = 0; i < reader->n_found; i++)
        bytes += bytes_in_range(reader, reader->parts[i].entry);
    return bytes;
}

/* Spans and ids are not in merged nodes. */
static bool may_take_nodes(const struct stacks *stacks)
{
    return stacks->n_spans + stacks->n_traces + stacks->n_profile_ids == 0;
}

/* What is made of others has no full nodes. */
static enum objects_which which_objects(const struct select_taker *taker, bool nodes)
{
    if (!nodes || taker->take_crowns == NULL)
        return OBJECTS_PROFILES;
    return taker->full ? OBJECTS_AND_ALONE : OBJECTS_AND_NODES;
}

static enum fg_code choose(struct select *select, struct fg_err *err)
{
    const struct select_taker *taker = select->taker;

    bool crowns = taker->take_crowns != NULL;

    if (nodes_choose(&select->reader, crowns && !taker->full ? FG_NODES_CROWN : FG_NODES_FULL,
                     crowns, err) != FG_OK)
        return err->code;
    return taker->take_crowns == NULL ? FG_OK
                                      : taker->take_crowns(taker->arg, &select->reader, err);
}

enum fg_code select_sums(struct question *question, const struct selection *selection,
                         const struct stacks *stacks, const struct select_taker *taker,
                         uint64_t *sample_bytes, struct fg_err *err)
{
    struct select select = {.stacks = stacks, .taker = taker};
    bool nodes = may_take_nodes(stacks);
    enum fg_code code;

    select.samples = fg_block_samples_create(question->querier->blocks->memory_max_bytes);
    code =
        reader_open(&select.reader, question, selection, selection->type_text, selection->start_ns,
                    selection->end_ns, which_objects(taker, nodes), true, err);
    if (code == FG_OK && nodes)
        code = choose(&select, err);
    if (code == FG_OK)
        *sample_bytes += bytes_asked_for(&select.reader);
    if (code == FG_OK)
        code = read_all(&select, err);
    reader_close(&select.reader);
    fg_block_samples_destroy(select.samples);
    return code;
}
