#include "querier/blocks/samples.h"

#include "querier/blocks/accumulators.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/children.h"
#include "querier/blocks/rollups.h"
#include "querier/blocks/rows.h"

/* A profile that the client asked for by its id. */
struct samples_wanted {
    struct qry_part *part;
    uint32_t profile;
};

struct samples_summing {
    struct qry_reader reader;
    const struct qry_stack_filter *stacks;
    const struct qry_samples_taker *taker;
    struct qry_accumulators accumulators;
    struct samples_wanted *wanted;
    uint32_t n_wanted, cap_wanted;
};

/* ---- which profiles ---- */

/* Linear: clients ask for a few ids, and pages of ids are read only then. */
static bool is_wanted_id(const struct qry_stack_filter *stacks, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES];

    fg_id_put(bytes, id);
    for (size_t i = 0; i < stacks->n_profile_ids; i++)
        if (stacks->profile_ids[i].len == FG_ID_BYTES &&
            memcmp(stacks->profile_ids[i].data, bytes, FG_ID_BYTES) == 0)
            return true;
    return false;
}

static enum fg_code note_wanted(struct samples_summing *summing, struct qry_part *part,
                                uint32_t profile, struct fg_err *err)
{
    /* In the query's arena: the reader's is emptied after each page. */
    if (!fg_arena_grow(summing->reader.query->arena, &summing->wanted, summing->n_wanted, 1,
                       &summing->cap_wanted, sizeof *summing->wanted))
        return qry_query_too_large(err);
    summing->wanted[summing->n_wanted++] = (struct samples_wanted){part, profile};
    return FG_OK;
}

static enum fg_code take_ids(struct samples_summing *summing, struct qry_part *part,
                             uint32_t number, struct fg_slice bytes, struct fg_err *err)
{
    const struct fg_block_page *page = &part->index->pages[FG_BLOCK_PID].pages[number];
    struct fg_arena_mark mark = fg_arena_mark(summing->reader.arena);
    struct fg_id *ids;
    enum fg_code code =
        fg_block_ids_parse(part->index, number, bytes, summing->reader.arena, &ids, err);

    for (uint32_t i = 0; code == FG_OK && i < page->items; i++)
        if (is_wanted_id(summing->stacks, ids[i]))
            code = note_wanted(summing, part, page->first + i, err);
    fg_arena_release(summing->reader.arena, mark);
    return code;
}

static int wanted_order(const void *left, const void *right)
{
    const struct samples_wanted *a = left, *b = right;

    /* Parts of a batch are elements of one array, so their addresses have an order. */
    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    return (a->profile > b->profile) - (a->profile < b->profile);
}

/* Replaces the spans by one for each profile that was found. */
static enum fg_code keep_wanted(struct samples_summing *summing, struct qry_part *part,
                                struct fg_err *err)
{
    struct qry_span *spans =
        fg_arena_new(summing->reader.arena, struct qry_span, summing->n_wanted);
    uint32_t kept = 0, end;

    if (spans == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < summing->n_wanted; i++) {
        uint32_t profile = summing->wanted[i].profile;
        uint32_t at = qry_rows_spans(part, profile, 1, &end);

        if (summing->wanted[i].part != part || at == end)
            continue;
        spans[kept] = part->spans[at];
        spans[kept].first = profile;
        spans[kept++].count = 1;
    }
    part->spans = spans;
    part->n_spans = kept;
    return FG_OK;
}

static enum fg_code settle_wanted(struct samples_summing *summing, struct fg_err *err)
{
    struct qry_reader *reader = &summing->reader;

    if (summing->n_wanted > 1)
        qsort(summing->wanted, summing->n_wanted, sizeof *summing->wanted, wanted_order);
    for (uint32_t i = 0; i < reader->n_batch; i++)
        if (qry_rows_settle(&reader->batch[i], err) != FG_OK ||
            keep_wanted(summing, &reader->batch[i], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- sums ---- */

/* Adds up a page or a rollup, with an accumulator of its own. */
struct adding {
    const struct samples_summing *summing;
    const struct qry_part *part;
    uint32_t number; /* of a page; the row of a rollup */
    struct fg_slice bytes;
    struct qry_accumulator *accumulator;
    uint64_t *sums;
};

static enum fg_code add_samples(const struct adding *adding, struct fg_err *err)
{
    const struct qry_part *part = adding->part;
    struct fg_block_samples *samples = adding->accumulator->samples;
    const struct fg_block_page *page = &part->index->pages[FG_BLOCK_SMP].pages[adding->number];
    uint32_t end, at = qry_rows_spans(part, page->first, page->items, &end);

    /* No wanted profile is in this page: it need not be unpacked. */
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

static bool is_wanted_link(const struct qry_stack_filter *stacks,
                           const struct fg_block_exemplar *item)
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
    struct fg_arena *arena = adding->accumulator->arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct fg_block_exemplars exemplars;

    if (fg_block_exemplars_parse(adding->part->index, adding->number, adding->bytes, arena,
                                 &exemplars, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < exemplars.count; i++)
        if (is_wanted_link(adding->summing->stacks, &exemplars.items[i]))
            add_exemplar(adding, &exemplars.items[i]);
    fg_arena_release(arena, mark);
    return FG_OK;
}

static enum fg_code add_full(const struct adding *adding, struct fg_err *err)
{
    const struct qry_part *part = adding->part;
    struct fg_arena *arena = adding->accumulator->arena;

    for (uint32_t i = 0; i < part->n_fulls; i++) {
        struct fg_arena_mark mark = fg_arena_mark(arena);

        if (part->fulls[i].row == adding->number &&
            fg_rollup_full_add(&part->rollups->rows[adding->number], adding->bytes,
                               part->fulls[i].sign, arena, adding->sums, part->entry->n_stacks,
                               err) != FG_OK)
            return err->code;
        fg_arena_release(arena, mark);
    }
    return FG_OK;
}

/* ---- pages and rollups as tasks ---- */

struct samples_page_task {
    struct fg_task task;
    struct samples_summing *summing;
    const struct qry_fetch_item *item;
    struct fg_cache_entry *entry;
};

static enum fg_code run_page(struct fg_task *task, struct fg_err *err)
{
    const struct samples_page_task *page = fg_container(task, struct samples_page_task, task);
    const struct qry_fetch_item *item = page->item;
    struct samples_summing *summing = page->summing;
    struct adding adding = {.summing = summing,
                            .part = item->part,
                            .number = item->number,
                            .bytes = qry_page_of(page->entry)};
    enum fg_code code;

    if (qry_query_check(summing->reader.query, err) != FG_OK)
        return err->code;
    adding.accumulator = qry_accumulators_take(&summing->accumulators);
    adding.sums = qry_accumulator_sums(adding.accumulator, &summing->reader, adding.part);
    if (adding.sums == NULL)
        code = qry_query_too_large(err);
    else if (item->type == &qry_cached_rollup)
        code = add_full(&adding, err);
    else
        code = item->kind == FG_BLOCK_EXM ? add_exemplars(&adding, err) : add_samples(&adding, err);
    qry_accumulators_give(&summing->accumulators, adding.accumulator);
    return code == FG_OK ? FG_OK : qry_fetch_fail(item, err);
}

static enum fg_code end_page(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct samples_page_task *page = fg_container(task, struct samples_page_task, task);

    /* Also of tasks that never ran, after a failure: each has a reference to its page. */
    (void)ran, (void)err;
    fg_cache_unref(page->entry);
    free(page);
    return FG_OK;
}

static void put_page(struct samples_summing *summing, const struct qry_fetch_item *item)
{
    struct samples_page_task *page = fg_new(struct samples_page_task);

    *page = (struct samples_page_task){.task = {.run = run_page, .end = end_page},
                                       .summing = summing,
                                       .item = item,
                                       /* A reference of its own: the fetch drops its entry before
                                        * the task has run. */
                                       .entry = fg_cache_ref(item->entry)};
    fg_task_group_put(summing->reader.query->snapshot->task_group, &page->task);
}

/* ---- what is fetched ---- */

static enum fg_code visit(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct samples_summing *summing = arg;
    struct qry_part *part = item->part;

    if (item->type == summing->taker->stacks) {
        part->tree_entry = fg_cache_ref(item->entry);
        return FG_OK;
    }
    if (item->type == &qry_cached_page && item->kind == FG_BLOCK_IDX)
        return qry_rows_take(&summing->reader, part, item->number, qry_page_of(item->entry), err);
    if (item->type == &qry_cached_page && item->kind == FG_BLOCK_PID)
        return take_ids(summing, part, item->number, qry_page_of(item->entry), err);
    /* Fixes the spans of a part: from here on threads read them. */
    if (!part->begun) {
        if (qry_rows_settle(part, err) != FG_OK)
            return err->code;
        for (uint32_t i = 0; i < part->n_spans; i++)
            summing->reader.query->profiles += part->spans[i].count;
        part->begun = true;
    }
    put_page(summing, item);
    return FG_OK;
}

static enum fg_code list_pages(struct samples_summing *summing, struct qry_fetch_list *list,
                               struct qry_part *part, uint32_t kind, bool cut_only, unsigned phase,
                               struct fg_err *err)
{
    const bool *marks = qry_rows_marks(&summing->reader, part, kind, cut_only);

    if (marks == NULL)
        return qry_query_too_large(err);
    return qry_fetch_add_pages(list, summing->reader.arena, part, kind, marks, phase, err);
}

/* Lists the pages that say which profiles are in the range, and which have the ids. */
static enum fg_code list_rows(struct samples_summing *summing, struct qry_fetch_list *list,
                              struct fg_err *err)
{
    struct qry_reader *reader = &summing->reader;

    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct qry_part *part = &reader->batch[i];

        if (list_pages(summing, list, part, FG_BLOCK_IDX, true, 0, err) != FG_OK)
            return err->code;
        if (summing->stacks->n_profile_ids > 0 &&
            list_pages(summing, list, part, FG_BLOCK_PID, false, 0, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code list_samples(struct samples_summing *summing, struct qry_fetch_list *list,
                                 struct fg_err *err)
{
    struct qry_reader *reader = &summing->reader;
    bool links = summing->stacks->n_spans + summing->stacks->n_traces > 0;
    /* EXM has the samples with links, with their values; SMP is not needed for them. */
    uint32_t kind = links ? FG_BLOCK_EXM : FG_BLOCK_SMP;

    for (uint32_t i = 0; i < reader->n_batch; i++) {
        struct qry_part *part = &reader->batch[i];

        /* No profile and no rollup of the part is in the range: its stacks are not read either. */
        if (part->n_spans + part->n_fulls == 0)
            continue;
        if (list_pages(summing, list, part, kind, false, 1, err) != FG_OK ||
            qry_fetch_add(list, reader->arena,
                          &(struct qry_fetch_item){
                              .type = summing->taker->stacks,
                              .object = part->object,
                              .range = qry_stacks_range(summing->taker->stacks, part->entry),
                              .part = part,
                              .phase = 1},
                          err) != FG_OK)
            return err->code;
        for (uint32_t k = 0; k < part->n_fulls; k++)
            if (qry_fetch_add_rollup(list, reader->arena, part, &part->fulls[k], 1, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

/* Fetches rows and samples in one wave, unless ids decide which samples. */
static enum fg_code fetch_batch(struct samples_summing *summing, struct fg_err *err)
{
    struct qry_query *query = summing->reader.query;
    struct qry_fetch_list list = {0};

    if (list_rows(summing, &list, err) != FG_OK)
        return err->code;
    if (summing->stacks->n_profile_ids > 0) {
        if (qry_fetch_all(query, &list, visit, summing, err) != FG_OK ||
            settle_wanted(summing, err) != FG_OK)
            return err->code;
        list = (struct qry_fetch_list){0};
    }
    if (list_samples(summing, &list, err) != FG_OK)
        return err->code;
    return qry_fetch_all(query, &list, visit, summing, err);
}

/* ---- taking the sums ---- */

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

/* The parts of a batch: made in any order, taken in theirs. */
struct parts {
    struct samples_summing *summing;
    struct part_task *tasks;
    uint32_t n_taken;
    bool failed; /* take() failed: no more is taken */
};

static enum fg_code run_part(struct fg_task *task, struct fg_err *err)
{
    struct part_task *part = fg_container(task, struct part_task, task);
    struct samples_summing *summing = part->parts->summing;
    const struct qry_samples_taker *taker = summing->taker;

    if (qry_query_check(summing->reader.query, err) != FG_OK)
        return err->code;
    qry_accumulators_join(&summing->accumulators, part->part);
    if (!has_values(part->part))
        return FG_OK;
    part->arena = fg_arena_create(summing->reader.blocks->memory_max_bytes);
    if (taker->make(taker->arg, part->part, part->arena, &part->made, err) != FG_OK)
        return fg_wrap(err, "%s", part->part->object->name);
    return FG_OK;
}

static void drop_part(const struct qry_samples_taker *taker, struct part_task *part)
{
    if (part->made != NULL && taker->drop != NULL)
        taker->drop(part->made);
    fg_arena_destroy(part->arena);
    part->made = part->arena = NULL;
}

static enum fg_code take_part(const struct qry_samples_taker *taker, struct part_task *part,
                              struct fg_err *err)
{
    uint32_t number = (uint32_t)(part - part->parts->tasks);
    void *made = fg_take(part->made);
    enum fg_code code = made == NULL ? FG_OK : taker->take(taker->arg, number, made, err);

    drop_part(taker, part);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", part->part->object->name);
}

static enum fg_code end_part(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct part_task *part = fg_container(task, struct part_task, task);
    struct parts *parts = part->parts;
    struct samples_summing *summing = parts->summing;

    /* Parts are made in any order and taken in theirs, so names and nodes of the result have the
     * same numbers each time. */
    part->is_ready = ran;
    while (!parts->failed && parts->n_taken < summing->reader.n_batch &&
           parts->tasks[parts->n_taken].is_ready)
        if (take_part(summing->taker, &parts->tasks[parts->n_taken++], err) != FG_OK) {
            parts->failed = true; /* the task group knows; later parts are dropped */
            return err->code;
        }
    return FG_OK;
}

static enum fg_code take_parts(struct samples_summing *summing, struct fg_err *err)
{
    struct qry_reader *reader = &summing->reader;
    struct fg_task_group *task_group = reader->query->snapshot->task_group;
    const struct qry_samples_taker *taker = summing->taker;
    struct parts parts = {.summing = summing};
    enum fg_code code;

    parts.tasks = fg_arena_new(reader->arena, struct part_task, reader->n_batch);
    if (parts.tasks == NULL)
        return qry_query_too_large(err);
    if (taker->begin != NULL)
        taker->begin(taker->arg, reader->n_batch);
    for (uint32_t i = 0; i < reader->n_batch; i++) {
        parts.tasks[i] = (struct part_task){
            .task = {.run = run_part, .end = end_part}, .parts = &parts, .part = &reader->batch[i]};
        fg_task_group_put(task_group, &parts.tasks[i].task);
        /* Take what is ready while others are made, so that little of it is in memory. */
        while (fg_task_group_end_one(task_group))
            continue;
    }
    code = fg_task_group_finish(task_group, err);
    /* After a failure: what was made and not taken. */
    for (uint32_t i = parts.n_taken; i < reader->n_batch; i++)
        drop_part(taker, &parts.tasks[i]);
    if (taker->end != NULL && taker->end(taker->arg, code != FG_OK, err) != FG_OK)
        return err->code;
    return code;
}

static enum fg_code read_all(struct samples_summing *summing, struct fg_err *err)
{
    struct qry_reader *reader = &summing->reader;
    enum fg_code code;

    do {
        /* Ids are looked for in each batch: those of the last one name parts that are
         * released. */
        summing->n_wanted = 0;
        if (qry_reader_next(reader, err) != FG_OK)
            return err->code;
        if (reader->n_batch == 0)
            return FG_OK;
        qry_accumulators_begin(&summing->accumulators);
        code = fetch_batch(summing, err);
        if (code == FG_OK)
            code = take_parts(summing, err);
        qry_accumulators_end(&summing->accumulators);
    } while (code == FG_OK);
    return code;
}

/* Estimates the stored bytes of samples in the range, by time. */
static uint64_t bytes_in_range(const struct qry_reader *reader, const struct fg_block_part *part)
{
    int64_t from_ns = FG_MAX(part->t_min_ns, reader->start_ns);
    int64_t to_ns = FG_MIN(part->t_max_ns, reader->end_ns);
    /* As if samples were spread evenly: the limit needs an order of magnitude only. */
    double time = ((double)to_ns - (double)from_ns + 1) /
                  ((double)part->t_max_ns - (double)part->t_min_ns + 1);

    for (uint32_t i = 0; i < part->n_sections; i++)
        if (part->sections[i].kind == FG_BLOCK_SMP)
            return (uint64_t)((double)part->sections[i].range.len * time);
    return 0;
}

static enum fg_code choose_rollups(struct samples_summing *summing, struct fg_err *err)
{
    const struct qry_samples_taker *taker = summing->taker;
    bool crowns = taker->take_crowns != NULL;

    if (qry_rollups_choose(&summing->reader,
                           crowns && !taker->full ? FG_ROLLUP_CROWN : FG_ROLLUP_FULL, crowns,
                           err) != FG_OK)
        return err->code;
    return FG_OK;
}

/* Reads the parts of the piece, or the others that were chosen. */
static enum fg_code read_chosen(struct samples_summing *summing, bool of_piece, struct fg_err *err)
{
    const struct qry_samples_taker *taker = summing->taker;

    if (taker->take_crowns != NULL &&
        taker->take_crowns(taker->arg, &summing->reader, of_piece, err) != FG_OK)
        return err->code;
    return read_all(summing, err);
}

/* Makes the piece of the marked parts, of which n_read are not of crowns only. */
static enum fg_code make_piece(struct samples_summing *summing, uint32_t n_read,
                               struct qry_piece *ret_piece, struct fg_err *err)
{
    struct qry_reader *reader = &summing->reader;
    const struct qry_query *query = reader->query;
    struct qry_piece piece = {.profiles = query->profiles,
                              .series = query->series,
                              .bytes = query->bytes,
                              .planned_bytes = query->planned_bytes,
                              .cache_hits = query->cache_hits + query->requests};
    uint32_t n_parts = reader->n_parts;
    enum fg_code code;

    summing->taker->begin_piece(summing->taker->arg);
    reader->n_parts = n_read;
    code = read_chosen(summing, true, err);
    reader->n_parts = n_parts;
    summing->taker->end_piece(summing->taker->arg, ret_piece);
    ret_piece->profiles = query->profiles - piece.profiles;
    ret_piece->series = query->series - piece.series;
    ret_piece->bytes = query->bytes - piece.bytes;
    ret_piece->planned_bytes = query->planned_bytes - piece.planned_bytes;
    ret_piece->cache_hits = query->cache_hits + query->requests - piece.cache_hits;
    if (code != FG_OK)
        fg_crown_layer_destroy(ret_piece->layer);
    return code;
}

/* Counts and charges what reading the piece took: an answer says the same, and a limit is the same,
 * whoever asked before. */
static enum fg_code take_piece(struct samples_summing *summing, const struct qry_piece *piece,
                               struct fg_err *err)
{
    struct qry_query *query = summing->reader.query;

    query->profiles += piece->profiles;
    query->series += piece->series;
    query->bytes += piece->bytes;
    query->cache_hits += piece->cache_hits;
    return qry_query_charge(query, piece->planned_bytes, err);
}

/* Adds the piece of the parts that lie in the range as a whole, from the cache or read now. */
static enum fg_code add_piece(struct samples_summing *summing, struct fg_err *err)
{
    const struct qry_samples_taker *taker = summing->taker;
    struct qry_reader *reader = &summing->reader;
    uint32_t n, n_read = qry_piece_mark(reader, &n);
    const struct qry_piece *kept;
    struct fg_cache_entry *entry;
    struct qry_piece made = {0};
    enum fg_code code;

    if (n < QRY_PIECE_PARTS_MIN) {
        for (uint32_t i = 0; i < reader->n_found; i++)
            reader->parts[i].in_piece = false;
        return FG_OK;
    }
    if (qry_piece_open(reader, taker->full, &entry, &kept, err) != FG_OK)
        return err->code;
    fg_metric_add(reader->blocks->metrics, kept != NULL ? BLOCKS_PIECES_CACHED : BLOCKS_PIECES_MADE,
                  1);
    if (kept != NULL) {
        code = take_piece(summing, kept, err);
        if (code == FG_OK)
            taker->add_piece(taker->arg, kept);
        reader->batch = reader->parts + n_read;
        fg_cache_unref(entry);
        return code;
    }
    code = make_piece(summing, n_read, &made, err);
    if (code == FG_OK)
        taker->add_piece(taker->arg, &made);
    if (entry == NULL && code == FG_OK)
        fg_crown_layer_destroy(made.layer);
    else if (code == FG_OK)
        qry_piece_keep(reader, taker->full, entry, &made);
    else if (entry != NULL)
        fg_cache_fail(entry);
    fg_cache_unref(entry);
    return code;
}

enum fg_code qry_samples_sum(struct qry_query *query, const struct qry_selection *selection,
                             const struct qry_stack_filter *stacks,
                             const struct qry_samples_taker *taker, uint64_t *sample_bytes,
                             struct fg_err *err)
{
    struct samples_summing summing = {.stacks = stacks, .taker = taker};
    /* Spans, traces and profile ids are not in rollups. */
    bool rollups = stacks->n_spans + stacks->n_traces + stacks->n_profile_ids == 0;
    uint64_t bytes = 0;
    enum fg_code code;

    qry_accumulators_init(&summing.accumulators, &summing.reader);
    /* Derived blocks have crowns only, so they are of no use if full rollups are wanted. */
    code = qry_reader_open(&summing.reader, query, selection, selection->type_text,
                           selection->start_ns, selection->end_ns,
                           !rollups || taker->take_crowns == NULL ? OBJECTS_PROFILES
                           : taker->full                          ? OBJECTS_AND_ROLLUP_ONLY
                                                                  : OBJECTS_AND_ROLLUPS,
                           true, err);
    /* Before rollups are chosen: the cost of a plan depends on which trees are read. */
    summing.reader.stacks = taker->stacks;
    if (code == FG_OK && rollups)
        code = choose_rollups(&summing, err);
    if (code == FG_OK) {
        /* As if there were no rollups: a flame graph is refined only up to a limit. */
        struct qry_reader *reader = &summing.reader;

        bytes = qry_children_bytes(reader);
        for (uint32_t i = 0; i < reader->n_found; i++)
            bytes += bytes_in_range(reader, reader->parts[i].entry);
    }
    if (code == FG_OK && bytes > taker->max_sample_bytes)
        code = fg_fail(err, FG_E_LIMIT, "the samples have %llu bytes", (unsigned long long)bytes);
    if (code == FG_OK && rollups && taker->add_piece != NULL)
        code = add_piece(&summing, err);
    if (code == FG_OK)
        code = read_chosen(&summing, false, err);
    if (code == FG_OK)
        *sample_bytes += bytes;
    qry_accumulators_done(&summing.accumulators);
    qry_reader_close(&summing.reader);
    return code;
}
