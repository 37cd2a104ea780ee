#include "querier/blocks/select.h"

#include "querier/blocks/adders.h"
#include "querier/blocks/fetch.h"

/* Profiles that were asked for by their ids. */
struct select_wanted {
    struct qry_part *part;
    uint32_t profile;
};

struct select_blocks {
    struct qry_reader reader;
    const struct qry_stacks *stacks;
    const struct qry_select_taker *taker;
    struct qry_adders adders;
    struct select_wanted *wanted;
    uint32_t n_wanted, cap_wanted;
};

static bool has_links(const struct select_blocks *select)
{
    return select->stacks->n_spans + select->stacks->n_traces > 0;
}

/* ---- which profiles ---- */

static bool is_wanted_id(const struct qry_stacks *stacks, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES];

    fg_id_put(bytes, id);
    for (size_t i = 0; i < stacks->n_profile_ids; i++)
        if (stacks->profile_ids[i].len == FG_ID_BYTES &&
            memcmp(stacks->profile_ids[i].data, bytes, FG_ID_BYTES) == 0)
            return true;
    return false;
}

static enum fg_code note_wanted(struct select_blocks *select, struct qry_part *part,
                                uint32_t profile, struct fg_err *err)
{
    /* In the question's arena: the reader's is emptied after each page. */
    if (!fg_arena_grow(select->reader.question->arena, &select->wanted, select->n_wanted, 1,
                       &select->cap_wanted, sizeof *select->wanted))
        return qry_blocks_too_large(err);
    select->wanted[select->n_wanted++] = (struct select_wanted){part, profile};
    return FG_OK;
}

static enum fg_code take_ids(struct select_blocks *select, struct qry_part *part, uint32_t number,
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
    const struct select_wanted *a = left, *b = right;

    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    return (a->profile > b->profile) - (a->profile < b->profile);
}

/* Of the spans only the profiles that were found stay, each as a span of its own. */
static enum fg_code keep_wanted(struct select_blocks *select, struct qry_part *part,
                                struct fg_err *err)
{
    struct qry_span *spans = fg_arena_new(select->reader.arena, struct qry_span, select->n_wanted);
    uint32_t kept = 0, end;

    if (spans == NULL)
        return qry_blocks_too_large(err);
    for (uint32_t i = 0; i < select->n_wanted; i++) {
        uint32_t profile = select->wanted[i].profile;
        uint32_t at = qry_rows_spans(part, profile, 1, &end);

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

static enum fg_code settle_wanted(struct select_blocks *select, struct fg_err *err)
{
    struct qry_reader *reader = &select->reader;

    if (select->n_wanted > 1)
        qsort(select->wanted, select->n_wanted, sizeof *select->wanted, wanted_order);
    for (uint32_t i = 0; i < reader->n_batch; i++)
        if (qry_rows_settle(&reader->batch[i], err) != FG_OK ||
            keep_wanted(select, &reader->batch[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- sums ---- */

/* From here on spans are what is to be read of the part, and only read themselves. */
static enum fg_code begin_sums(struct select_blocks *select, struct qry_part *part,
                               struct fg_err *err)
{
    if (part->begun)
        return FG_OK;
    if (qry_rows_settle(part, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < part->n_spans; i++)
        select->reader.question->profiles += part->spans[i].count;
    part->begun = true;
    return FG_OK;
}

/* What one adds up of a part, with an adder of its own. */
struct adding {
    const struct select_blocks *select;
    const struct qry_part *part;
    uint32_t number; /* of a page; the row of a node */
    struct fg_slice bytes;
    struct qry_adder *adder;
    uint64_t *sums;
};

static enum fg_code add_samples(const struct adding *adding, struct fg_err *err)
{
    const struct qry_part *part = adding->part;
    struct fg_block_samples *samples = adding->adder->samples;
    const struct fg_block_page *page = &part->index->pages[FG_BLOCK_SMP].pages[adding->number];
    uint32_t end, at = qry_rows_spans(part, page->first, page->items, &end);

    if (at == end)
        return FG_OK;
    if (fg_block_samples_open(samples, part->index, adding->number, adding->bytes, err) != FG_OK)
        return err->code;
    for (; at < end; at++) {
        const struct qry_span *span = &part->spans[at];
        const struct fg_block_match *match = &part->matches[span->first_match];

        for (uint32_t i = 0; i < span->n_matches; i++)
            if (fg_block_samples_sum(samples, span->first, span->count, match[i].type, adding->sums,
                                     err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static bool is_wanted_link(const struct qry_stacks *stacks, const struct fg_block_exemplar *item)
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

static void add_exemplar(const struct adding *adding, const struct fg_block_exemplar *item)
{
    const struct qry_part *part = adding->part;
    uint32_t end, at = qry_rows_spans(part, item->profile, 1, &end);

    if (at == end)
        return;
    for (uint32_t i = 0; i < part->spans[at].n_matches; i++)
        fg_value_sum(&adding->sums[item->rank],
                     item->values[part->matches[part->spans[at].first_match + i].type]);
}

static enum fg_code add_exemplars(const struct adding *adding, struct fg_err *err)
{
    struct fg_arena *arena = adding->adder->arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct fg_block_exemplars exemplars;

    if (fg_block_exemplars_parse(adding->part->index, adding->number, adding->bytes, arena,
                                 &exemplars, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < exemplars.count; i++)
        if (is_wanted_link(adding->select->stacks, &exemplars.items[i]))
            add_exemplar(adding, &exemplars.items[i]);
    fg_arena_release(arena, mark);
    return FG_OK;
}

static enum fg_code add_full(const struct adding *adding, struct fg_err *err)
{
    const struct qry_part *part = adding->part;
    struct fg_arena *arena = adding->adder->arena;

    for (uint32_t i = 0; i < part->n_fulls; i++) {
        struct fg_arena_mark mark = fg_arena_mark(arena);

        if (part->fulls[i].row == adding->number &&
            fg_rollup_full_add(&part->nodes->rows[adding->number], adding->bytes,
                               part->fulls[i].sign, arena, adding->sums, part->entry->n_stacks,
                               err) != FG_OK)
            return err->code;
        fg_arena_release(arena, mark);
    }
    return FG_OK;
}

static enum fg_code add(const struct adding *adding, const struct qry_fetch_item *item,
                        struct fg_err *err)
{
    if (adding->sums == NULL)
        return qry_blocks_too_large(err);
    if (item->thing == &qry_thing_node)
        return add_full(adding, err);
    return item->kind == FG_BLOCK_EXM ? add_exemplars(adding, err) : add_samples(adding, err);
}

/* ---- pages and nodes, each by whoever is free ---- */

struct select_page_task {
    struct fg_task task;
    struct select_blocks *select;
    const struct qry_fetch_item *item;
    struct fg_cache_entry *entry;
};

static enum fg_code run_page(struct fg_task *task, struct fg_err *err)
{
    const struct select_page_task *page = fg_container(task, struct select_page_task, task);
    struct select_blocks *select = page->select;
    struct adding adding = {.select = select,
                            .part = page->item->part,
                            .number = page->item->number,
                            .bytes = qry_page_of(page->entry)};
    enum fg_code code;

    if (qry_question_check(select->reader.question, err) != FG_OK)
        return err->code;
    adding.adder = qry_adders_take(&select->adders);
    adding.sums = qry_adder_sums(adding.adder, &select->reader, adding.part);
    code = add(&adding, page->item, err);
    qry_adders_give(&select->adders, adding.adder);
    return code == FG_OK ? FG_OK : qry_fetch_fail(page->item, err);
}

static enum fg_code end_page(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct select_page_task *page = fg_container(task, struct select_page_task, task);

    (void)ran, (void)err;
    fg_cache_unref(page->entry);
    free(page);
    return FG_OK;
}

static void put_page(struct select_blocks *select, const struct qry_fetch_item *item)
{
    struct select_page_task *page = fg_new(struct select_page_task);

    *page = (struct select_page_task){.task = {.run = run_page, .end = end_page},
                                      .select = select,
                                      .item = item,
                                      .entry = fg_cache_ref(item->entry)};
    fg_task_group_put(select->reader.question->snapshot->task_group, &page->task);
}

/* ---- what is fetched ---- */

static enum fg_code visit(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct select_blocks *select = arg;
    struct qry_part *part = item->part;

    if (item->thing == select->taker->stacks) {
        part->tree_entry = fg_cache_ref(item->entry);
        return FG_OK;
    }
    if (item->thing == &qry_thing_page && item->kind == FG_BLOCK_IDX)
        return qry_rows_take(&select->reader, part, item->number, qry_page_of(item->entry), err);
    if (item->thing == &qry_thing_page && item->kind == FG_BLOCK_PID)
        return take_ids(select, part, item->number, qry_page_of(item->entry), err);
    if (begin_sums(select, part, err) != FG_OK)
        return err->code;
    put_page(select, item);
    return FG_OK;
}

static enum fg_code list_pages(struct select_blocks *select, struct qry_fetch_list *list,
                               struct qry_part *part, uint32_t kind, bool cut_only, unsigned phase,
                               struct fg_err *err)
{
    const bool *marks = qry_rows_marks(&select->reader, part, kind, cut_only);

    if (marks == NULL)
        return qry_blocks_too_large(err);
    return qry_fetch_add_pages(list, select->reader.arena, part, kind, marks, phase, err);
}

/* Which profiles are in the range, and which of them have the ids. */
static enum fg_code list_rows(struct select_blocks *select, struct qry_fetch_list *list,
                              struct fg_err *err)
{
    struct qry_reader *reader = &select->reader;

    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct qry_part *part = &reader->batch[i];

        if (list_pages(select, list, part, FG_BLOCK_IDX, true, 0, err) != FG_OK)
            return err->code;
        if (select->stacks->n_profile_ids > 0 &&
            list_pages(select, list, part, FG_BLOCK_PID, false, 0, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code list_samples(struct select_blocks *select, struct qry_fetch_list *list,
                                 struct fg_err *err)
{
    struct qry_reader *reader = &select->reader;
    uint32_t kind = has_links(select) ? FG_BLOCK_EXM : FG_BLOCK_SMP;

    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct qry_part *part = &reader->batch[i];

        if (part->n_spans + part->n_fulls == 0)
            continue;
        if (list_pages(select, list, part, kind, false, 1, err) != FG_OK ||
            qry_fetch_add(list, reader->arena,
                          &(struct qry_fetch_item){
                              .thing = select->taker->stacks,
                              .object = part->object,
                              .range = qry_stacks_range(select->taker->stacks, part->entry),
                              .part = part,
                              .phase = 1},
                          err) != FG_OK)
            return err->code;
        for (uint32_t k = 0; k < part->n_fulls; k++)
            if (qry_fetch_add_node(list, reader->arena, part, &part->fulls[k], 1, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

/* Rows and samples in one wave, unless ids decide which samples. */
static enum fg_code fetch_batch(struct select_blocks *select, struct fg_err *err)
{
    struct qry_question *question = select->reader.question;
    struct qry_fetch_list list = {0};

    if (list_rows(select, &list, err) != FG_OK)
        return err->code;
    if (select->stacks->n_profile_ids > 0) {
        if (qry_fetch_all(question, &list, visit, select, err) != FG_OK ||
            settle_wanted(select, err) != FG_OK)
            return err->code;
        list = (struct qry_fetch_list){0};
    }
    if (list_samples(select, &list, err) != FG_OK)
        return err->code;
    return qry_fetch_all(question, &list, visit, select, err);
}

/* ---- what becomes of them ---- */

static bool has_values(const struct qry_part *part)
{
    for (uint32_t i = 0; part->sums != NULL && i < part->entry->n_stacks; i++)
        if (part->sums[i] != 0)
            return true;
    return false;
}

struct part_task {
    struct fg_task task;
    struct parts *parts;
    struct qry_part *part;
    struct fg_arena *arena; /* of what is made of it */
    void *made;             /* NULL: it has no values */
    bool is_ready;          /* to be taken */
};

/* Those of a batch: made in any order, taken in their own. */
struct parts {
    struct select_blocks *select;
    struct part_task *tasks;
    uint32_t n_taken;
    bool failed; /* there is no room for what is taken: no more is */
};

static enum fg_code run_part(struct fg_task *task, struct fg_err *err)
{
    struct part_task *part = fg_container(task, struct part_task, task);
    struct select_blocks *select = part->parts->select;
    const struct qry_select_taker *taker = select->taker;

    if (qry_question_check(select->reader.question, err) != FG_OK)
        return err->code;
    qry_adders_join(&select->adders, part->part);
    if (!has_values(part->part))
        return FG_OK;
    part->arena = fg_arena_create(select->reader.blocks->memory_max_bytes);
    if (taker->make(taker->arg, part->part, part->arena, &part->made, err) != FG_OK)
        return fg_wrap(err, "%s", part->part->object->name);
    return FG_OK;
}

static void drop_part(const struct qry_select_taker *taker, struct part_task *part)
{
    if (part->made != NULL && taker->drop != NULL)
        taker->drop(part->made);
    fg_arena_destroy(part->arena);
    part->made = part->arena = NULL;
}

static enum fg_code take_part(const struct qry_select_taker *taker, struct part_task *part,
                              struct fg_err *err)
{
    enum fg_code code = part->made == NULL ? FG_OK : taker->take(taker->arg, part->made, err);

    drop_part(taker, part);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", part->part->object->name);
}

static enum fg_code end_part(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct part_task *part = fg_container(task, struct part_task, task);
    struct parts *parts = part->parts;
    struct select_blocks *select = parts->select;

    part->is_ready = ran;
    while (!parts->failed && parts->n_taken < select->reader.n_batch &&
           parts->tasks[parts->n_taken].is_ready)
        if (take_part(select->taker, &parts->tasks[parts->n_taken++], err) != FG_OK) {
            parts->failed = true; /* the task group knows; what others end after it is dropped */
            return err->code;
        }
    return FG_OK;
}

static enum fg_code take_parts(struct select_blocks *select, struct fg_err *err)
{
    struct qry_reader *reader = &select->reader;
    struct fg_task_group *task_group = reader->question->snapshot->task_group;
    struct parts parts = {.select = select};
    enum fg_code code;

    parts.tasks = fg_arena_new(reader->arena, struct part_task, reader->n_batch);
    if (parts.tasks == NULL)
        return qry_blocks_too_large(err);
    for (uint32_t i = 0; i < reader->n_batch; i++) {
        parts.tasks[i] = (struct part_task){
            .task = {.run = run_part, .end = end_part}, .parts = &parts, .part = &reader->batch[i]};
        fg_task_group_put(task_group, &parts.tasks[i].task);
        while (fg_task_group_end_one(task_group))
            continue;
    }
    code = fg_task_group_finish(task_group, err);
    for (uint32_t i = parts.n_taken; i < reader->n_batch; i++) /* after a failure */
        drop_part(select->taker, &parts.tasks[i]);
    return code;
}

static enum fg_code read_batch(struct select_blocks *select, struct fg_err *err)
{
    enum fg_code code;

    qry_adders_begin(&select->adders);
    code = fetch_batch(select, err);
    if (code == FG_OK)
        code = take_parts(select, err);
    qry_adders_end(&select->adders);
    return code;
}

static enum fg_code read_all(struct select_blocks *select, struct fg_err *err)
{
    struct qry_reader *reader = &select->reader;

    for (;;) {
        select->n_wanted = 0;
        if (qry_reader_next(reader, err) != FG_OK)
            return err->code;
        if (reader->n_batch == 0)
            return FG_OK;
        if (read_batch(select, err) != FG_OK)
            return err->code;
    }
}

/* Of what a part stores as much as its time is in the range. */
static uint64_t bytes_in_range(const struct qry_reader *reader, const struct fg_block_part *part)
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
static uint64_t bytes_asked_for(struct qry_reader *reader)
{
    uint64_t bytes = qry_under_bytes(reader);

    for (uint32_t i = 0; i < reader->n_found; i++)
        bytes += bytes_in_range(reader, reader->parts[i].entry);
    return bytes;
}

/* Spans and ids are not in merged nodes. */
static bool may_take_nodes(const struct qry_stacks *stacks)
{
    return stacks->n_spans + stacks->n_traces + stacks->n_profile_ids == 0;
}

/* What is made of others has no full nodes. */
static enum qry_objects_which which_objects(const struct qry_select_taker *taker, bool nodes)
{
    if (!nodes || taker->take_crowns == NULL)
        return OBJECTS_PROFILES;
    return taker->full ? OBJECTS_AND_ALONE : OBJECTS_AND_NODES;
}

static enum fg_code choose(struct select_blocks *select, struct fg_err *err)
{
    const struct qry_select_taker *taker = select->taker;

    bool crowns = taker->take_crowns != NULL;

    if (qry_nodes_choose(&select->reader, crowns && !taker->full ? FG_ROLLUP_CROWN : FG_ROLLUP_FULL,
                         crowns, err) != FG_OK)
        return err->code;
    return taker->take_crowns == NULL ? FG_OK
                                      : taker->take_crowns(taker->arg, &select->reader, err);
}

enum fg_code qry_select_sums(struct qry_question *question, const struct qry_selection *selection,
                             const struct qry_stacks *stacks, const struct qry_select_taker *taker,
                             uint64_t *sample_bytes, struct fg_err *err)
{
    struct select_blocks select = {.stacks = stacks, .taker = taker};
    bool nodes = may_take_nodes(stacks);
    enum fg_code code;

    qry_adders_init(&select.adders, &select.reader);
    code = qry_reader_open(&select.reader, question, selection, selection->type_text,
                           selection->start_ns, selection->end_ns, which_objects(taker, nodes),
                           true, err);
    select.reader.stacks = taker->stacks;
    if (code == FG_OK && nodes)
        code = choose(&select, err);
    if (code == FG_OK)
        *sample_bytes += bytes_asked_for(&select.reader);
    if (code == FG_OK)
        code = read_all(&select, err);
    qry_adders_done(&select.adders);
    qry_reader_close(&select.reader);
    return code;
}
