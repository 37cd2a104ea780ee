#include "compactor/merge/merge.h"

#include "common/storage/block/verify.h"
#include "common/storage/rollup/verify.h"
#include "compactor/merge/rollup.h"
#include "compactor/merge/stacks.h"

/*
 * Shares of the memory. Their parts are in use at different times, so together they are more than
 * all of it. While stacks are united, only indexes and the stacks of one source are there as well.
 * Afterwards most of that is given back, and the writer's order of the stacks and the sums of
 * rollups take its place. The share of pages is what a single page may need: a page has 128 KiB,
 * unless a profile is larger. tests/bench/README.md has what a job takes.
 */
enum {
    SHARE_INDEXES = 4,
    SHARE_SCRATCH = 4,
    STACKS_EIGHTHS = 5,
    SHARE_PAGES = 2,
    SHARE_ROLLUPS = 2, /* when the profiles of a service are written */
};

/*
 * A part of so many stacks gets a function tree. Reading a stack tree takes 40 ns a node, and a
 * stack has three or four nodes: 40 ms at this size, however few samples a query has of the block.
 * The function tree takes a third of its bytes: 2 % of a day of 20 instances, and 7 % of an hour,
 * which has fewer stacks than this.
 */
enum { NAMED_STACKS = 256 * 1024 };

/* A block on its way. */
struct merge_writing {
    const struct cmp_merge *merge;
    const struct cmp_merge_span *span;
    struct fg_block_writer *writer;
    uint32_t *next_parts;             /* [n_sources]: of each source, the part that comes next */
    struct fg_block_samples *counter; /* reads samples in the first pass */
    struct cmp_merge_profile profile;

    /* Of the service at hand. */
    struct fg_arena *arena, *scratch;
    struct cmp_merge_cursor *cursors; /* [n_cursors]: parts with a chosen profile */
    uint32_t n_cursors;
    struct cmp_merge_stacks stacks;
    uint32_t *order;                /* [n_cursors]: those that have the series at hand */
    int64_t stripe_ns;              /* INT64_MAX: one stripe */
    struct fg_block_series *series; /* of the part; in the arena */
    uint32_t n_series, cap_series;
    bool no_rollups; /* there was no room for what they need */

    uint32_t left_out;
};

/* ---- which service ---- */

static const struct fg_block_part *next_part(const struct merge_writing *writing, uint32_t source)
{
    const struct cmp_merge_source *from = &writing->merge->sources[source];
    uint32_t next = writing->next_parts[source];

    return next < from->n_parts ? &from->parts[next] : NULL;
}

/* Finds the least service that has not been written. Parts of a source are sorted by service, so
 * only the next part of each source counts. Returns false if there is none. */
static bool next_service(const struct merge_writing *writing, struct fg_slice *ret_service)
{
    bool found = false;

    for (uint32_t i = 0; i < writing->merge->n_sources; i++) {
        const struct fg_block_part *part = next_part(writing, i);

        if (part == NULL || (found && fg_slice_cmp(part->service, *ret_service) >= 0))
            continue;
        *ret_service = part->service;
        found = true;
    }
    return found;
}

/* ---- first pass: stacks ---- */

static enum fg_code number_series(struct merge_writing *writing, struct cmp_merge_cursor *cursor,
                                  struct fg_err *err)
{
    uint32_t count = cursor->part.index.n_series;

    cursor->numbers = fg_arena_new(writing->arena, uint32_t, count);
    cursor->places = fg_arena_new(writing->arena, struct cmp_merge_place, count);
    if (cursor->numbers == NULL || cursor->places == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u series", count);
    for (uint32_t i = 0; i < count; i++)
        cursor->numbers[i] = FG_MAP_NONE;
    return FG_OK;
}

static enum fg_code open_part(struct merge_writing *writing, uint32_t source, uint32_t number,
                              struct fg_err *err)
{
    struct cmp_merge_cursor *cursor = &writing->cursors[writing->n_cursors];
    struct fg_arena_mark mark = fg_arena_mark(writing->arena);
    uint32_t *stacks;

    fg_assert(writing->n_cursors < writing->merge->n_sources); /* one part for each source */
    *cursor = (struct cmp_merge_cursor){.series = 0};
    if (cmp_merge_part_open(&writing->merge->sources[source], number, writing->arena, &cursor->part,
                            err) != FG_OK ||
        cmp_merge_choose(&cursor->part, writing->span, &writing->merge->deletions,
                         &writing->merge->without, writing->arena, writing->scratch,
                         &cursor->choice, err) != FG_OK)
        return err->code;
    if (cursor->choice.count == 0) { /* so that what is halved by shards needs less memory */
        fg_arena_release(writing->arena, mark);
        return FG_OK;
    }
    if (cmp_merge_stacks_add(&writing->stacks, &cursor->part, &cursor->choice, writing->counter,
                             writing->arena, writing->scratch, &stacks, err) != FG_OK)
        return err->code;
    cursor->stacks = stacks;
    if (number_series(writing, cursor, err) != FG_OK)
        return err->code;
    cmp_merge_cursor_init(cursor, writing->merge->memory_max_bytes / SHARE_PAGES);
    writing->n_cursors++;
    return FG_OK;
}

/* Takes the service's part of every source that has one. */
static enum fg_code open_service(struct merge_writing *writing, struct fg_slice service,
                                 struct fg_err *err)
{
    for (uint32_t i = 0; i < writing->merge->n_sources; i++) {
        const struct fg_block_part *part = next_part(writing, i);

        if (part == NULL || !fg_slice_eq(part->service, service))
            continue;
        if (part->t_min_ns < writing->span->end_ns || writing->span->end_ns == INT64_MAX)
            if (part->t_max_ns >= cmp_merge_span_from_ns(writing->span) &&
                open_part(writing, i, writing->next_parts[i], err) != FG_OK)
                return err->code;
        /* Also if the part was skipped: each part is looked at once. */
        writing->next_parts[i]++;
    }
    return FG_OK;
}

/* ---- second pass: profiles ---- */

/* Lists the cursors that stand at the least series in `order` and returns their number; 0: no
 * series is left. */
static uint32_t gather_series(struct merge_writing *writing)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < writing->n_cursors; i++) {
        const struct cmp_merge_cursor *cursor = &writing->cursors[i];
        int order;

        if (cursor->series >= cursor->part.index.n_series) /* at its end */
            continue;
        order = n == 0 ? -1
                       : fg_block_series_cmp(&cursor->header,
                                             &writing->cursors[writing->order[0]].header);
        if (order < 0)
            n = 0;
        if (order <= 0)
            writing->order[n++] = i;
    }
    return n;
}

/* Notes what the rollups need of the series at hand: its labels, schema and number. */
static void note_series(struct merge_writing *writing, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct cmp_merge_cursor *cursor = &writing->cursors[writing->order[i]];

        cursor->numbers[cursor->series] = writing->n_series;
    }
    if (!fg_arena_grow(writing->arena, &writing->series, writing->n_series, 1, &writing->cap_series,
                       sizeof *writing->series))
        writing->no_rollups = true;
    else
        writing->series[writing->n_series++] = writing->cursors[writing->order[0]].header;
}

/* Numbers the series of the whole part before profiles are written: a time stripe shows only the
 * series that it has. */
static void list_series(struct merge_writing *writing)
{
    uint32_t n;

    for (uint32_t i = 0; i < writing->n_cursors; i++)
        cmp_merge_cursor_list(&writing->cursors[i], true);
    while ((n = gather_series(writing)) > 0) {
        note_series(writing, n);
        for (uint32_t i = 0; i < n; i++)
            cmp_merge_cursor_list(&writing->cursors[writing->order[i]], false);
    }
}

static int profile_cmp(const struct cmp_merge_cursor *a, const struct cmp_merge_cursor *b)
{
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return fg_id_cmp(a->id, b->id);
}

/* Finds the cursor with the least profile of the series at hand. *ret_least NULL: none has one.
 * The order is total (time, then id), so equal sources give equal bytes. */
static enum fg_code least_profile(const struct merge_writing *writing, uint32_t n,
                                  struct cmp_merge_cursor **ret_least, struct fg_err *err)
{
    struct cmp_merge_cursor *least = NULL;

    for (uint32_t i = 0; i < n; i++) {
        struct cmp_merge_cursor *cursor = &writing->cursors[writing->order[i]];
        int order = least == NULL ? -1 : 0;

        if (!cursor->has_profile)
            continue;
        /* The protocol lets a profile into one segment only, so no rule says which of two to drop;
         * an operator has to look at both. */
        if (least != NULL && (order = profile_cmp(cursor, least)) == 0)
            return fg_fail(err, FG_E_CORRUPT, "profile %016llx%016llx is in %s and in %s",
                           (unsigned long long)least->id.hi, (unsigned long long)least->id.lo,
                           least->part.source->name, cursor->part.source->name);
        if (order < 0)
            least = cursor;
    }
    *ret_least = least;
    return FG_OK;
}

static enum fg_code write_series(struct merge_writing *writing, uint32_t n, struct fg_err *err)
{
    struct cmp_merge_cursor *cursor = NULL;

    if (fg_block_series_begin(writing->writer, &writing->cursors[writing->order[0]].header, err) !=
        FG_OK)
        return err->code;
    for (;;) {
        if (least_profile(writing, n, &cursor, err) != FG_OK)
            return err->code;
        if (cursor == NULL)
            break;
        if (cmp_merge_cursor_read(cursor, &writing->profile, err) != FG_OK ||
            fg_block_profile_add(writing->writer, &writing->profile.profile, err) != FG_OK ||
            cmp_merge_cursor_next(cursor, err) != FG_OK)
            return err->code;
    }
    for (uint32_t i = 0; i < n; i++)
        if (cmp_merge_cursor_series(&writing->cursors[writing->order[i]], err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* Writes profiles up to until_ns that were not written yet, as one time stripe. */
static enum fg_code write_stripe(struct merge_writing *writing, int64_t until_ns,
                                 struct fg_err *err)
{
    uint32_t n;

    if (fg_block_stripe_begin(writing->writer, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < writing->n_cursors; i++)
        if (cmp_merge_cursor_begin(&writing->cursors[i], until_ns, err) != FG_OK)
            return err->code;
    while ((n = gather_series(writing)) > 0)
        if (write_series(writing, n, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/*
 * Returns the length of stripes; INT64_MAX: there is one. Stripes are as short as they may be with
 * FG_BLOCK_STRIPE_SAMPLES on the average, at about a byte each. A query that begins or ends within
 * a block then reads one stripe there, by a request or two, however many series there are, and one
 * series is in no more pieces than all of them need requests.
 *
 * The length depends on nothing but what is written. Early profiles get a stripe of their own if
 * the rest is one, too: the next merge reads them by themselves.
 */
static int64_t choose_stripe(const struct merge_writing *writing)
{
    static const int64_t lengths_ns[] = {FG_BLOCK_STRIPE_MIN_NS, FG_HOUR_NS, 6 * FG_HOUR_NS};
    const struct cmp_merge_span *span = writing->span;
    uint32_t each = writing->merge->stripe_samples;
    double samples = (double)cmp_merge_stacks_all_uses(&writing->stacks);

    each = each == 0 ? FG_BLOCK_STRIPE_SAMPLES : each;
    for (size_t i = 0; i < FG_COUNT(lengths_ns); i++) {
        double stripes = ((double)span->end_ns - (double)span->start_ns) / (double)lengths_ns[i];

        if (samples >= stripes * each)
            return lengths_ns[i];
    }
    return INT64_MAX;
}

static enum fg_code make_rollup(struct merge_writing *writing, struct fg_rollup_writer **ret_rollup,
                                struct fg_err *err)
{
    uint32_t named_from =
        writing->merge->named_stacks > 0 ? writing->merge->named_stacks : (uint32_t)NAMED_STACKS;
    const struct cmp_merge_rollup_input input = {
        .span = writing->span,
        .cursors = writing->cursors,
        .n_cursors = writing->n_cursors,
        .tree = &writing->stacks.tree,
        .series = writing->series,
        .n_series = writing->n_series,
        .block = writing->writer,
        .fine = writing->stripe_ns == FG_BLOCK_STRIPE_MIN_NS,
        .named = fg_block_part_n_stacks(writing->writer) >= named_from,
        .arena = writing->arena,
        .max_bytes = writing->merge->memory_max_bytes / SHARE_ROLLUPS};
    bool left_out = true;

    *ret_rollup = NULL;
    if (!writing->no_rollups && cmp_merge_rollup_make(&input, ret_rollup, &left_out, err) != FG_OK)
        return err->code;
    writing->left_out += left_out;
    return FG_OK;
}

static enum fg_code end_part(struct merge_writing *writing, struct fg_err *err)
{
    fg_auto(fg_rollup_writer) *rollup = NULL;

    if (make_rollup(writing, &rollup, err) != FG_OK)
        return err->code;
    if (rollup != NULL && fg_rollup_write(rollup, writing->writer, err) != FG_OK) {
        if (err->code != FG_E_LIMIT)
            return err->code;
        writing->left_out++; /* more than a page can hold: the block does without */
    }
    return fg_block_part_end(writing->writer, err);
}

static enum fg_code write_part(struct merge_writing *writing, struct fg_slice service,
                               struct fg_err *err)
{
    const struct cmp_merge_span *span = writing->span;

    writing->stripe_ns = choose_stripe(writing);
    cmp_merge_stacks_seal(&writing->stacks);
    if (fg_block_part_begin(writing->writer, writing->merge->tenant, service, &writing->stacks.tree,
                            writing->stacks.uses, err) != FG_OK)
        return err->code;
    /* The writer has its own order of the stacks by now, so their counts are freed before sums
     * take memory. */
    cmp_merge_stacks_drop_uses(&writing->stacks);
    list_series(writing);
    /* Stripes are counted from the beginning of the span; profiles that begin before the span are
     * a stripe of their own. */
    for (int64_t from_ns = span->start_ns;
         writing->stripe_ns != INT64_MAX && from_ns < span->end_ns;
         from_ns = fg_time_add(from_ns, writing->stripe_ns))
        if (write_stripe(writing, fg_time_add(from_ns, -1), err) != FG_OK)
            return err->code;
    if (write_stripe(writing, INT64_MAX, err) != FG_OK)
        return err->code;
    return end_part(writing, err);
}

/* ---- a block ---- */

static enum fg_code write_service(struct merge_writing *writing, struct fg_slice service,
                                  struct fg_err *err)
{
    enum fg_code code;

    fg_arena_reset(writing->arena);
    writing->n_cursors = 0;
    writing->series = NULL;
    writing->n_series = writing->cap_series = 0;
    writing->no_rollups = false;
    cmp_merge_stacks_init(&writing->stacks, writing->merge->memory_max_bytes / 8 * STACKS_EIGHTHS);
    code = open_service(writing, service, err);
    if (code == FG_OK && writing->n_cursors > 0)
        code = write_part(writing, service, err);
    for (uint32_t i = 0; i < writing->n_cursors; i++)
        cmp_merge_cursor_done(&writing->cursors[i]);
    cmp_merge_stacks_done(&writing->stacks);
    return code == FG_OK ? FG_OK : fg_wrap(err, "service %.*s", FG_S(service));
}

enum fg_code cmp_merge_write(const struct cmp_merge *merge, const struct cmp_merge_span *span,
                             uint32_t level, const struct fg_block_sink *sink,
                             struct cmp_merge_written *ret_written, struct fg_err *err)
{
    struct merge_writing writing = {
        .merge = merge,
        .span = span,
        .writer = fg_block_writer_create(sink, level),
        .next_parts = fg_calloc(merge->n_sources, sizeof *writing.next_parts),
        .cursors = fg_calloc(merge->n_sources, sizeof *writing.cursors),
        .order = fg_calloc(merge->n_sources, sizeof *writing.order),
        .counter = fg_block_samples_create(merge->memory_max_bytes / SHARE_PAGES),
        .arena = fg_arena_create(merge->memory_max_bytes / SHARE_INDEXES),
        .scratch = fg_arena_create(merge->memory_max_bytes / SHARE_SCRATCH),
    };
    struct fg_slice service = {NULL, 0};
    struct cmp_merge_written written;
    enum fg_code code = FG_OK;

    fg_block_writer_set_version(writing.writer, merge->block_version);
    fg_block_writer_set_keys(writing.writer, merge->keys);
    while (code == FG_OK && next_service(&writing, &service))
        code = write_service(&writing, service, err);
    if (code == FG_OK)
        code = fg_block_writer_finish(writing.writer, &written.summary, err);
    fg_block_writer_destroy(writing.writer);
    fg_block_samples_destroy(writing.counter);
    cmp_merge_profile_done(&writing.profile);
    fg_arena_destroy(writing.arena);
    fg_arena_destroy(writing.scratch);
    free(writing.next_parts);
    free(writing.cursors);
    free(writing.order);
    written.left_out = writing.left_out;
    if (code == FG_OK)
        *ret_written = written;
    return code;
}

/* ---- reading back ---- */

static enum fg_code tally_file(const struct cmp_merge_source *source, size_t memory_max_bytes,
                               struct cmp_merge_tally *tally, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(memory_max_bytes / SHARE_INDEXES);
    fg_auto(fg_arena) *scratch = fg_arena_create(memory_max_bytes / SHARE_SCRATCH);
    struct cmp_merge_part part;

    for (uint32_t i = 0; i < source->n_parts; i++) {
        fg_arena_reset(arena);
        if (cmp_merge_part_open(source, i, arena, &part, err) != FG_OK ||
            cmp_merge_tally_part(tally, &part, scratch, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code read_back(struct fg_slice file, const struct fg_keys *keys, const char *name,
                              size_t memory_max_bytes, struct cmp_merge_tally *tally,
                              struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(memory_max_bytes);
    struct fg_block_directory directory;
    struct fg_block_verified verified;
    uint64_t offset;

    if (fg_block_verify(file, keys, memory_max_bytes, &verified, err) != FG_OK ||
        fg_block_directory_offset(file, file.len, &offset, err) != FG_OK ||
        fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, keys,
                                 arena, &directory, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < directory.n_parts; i++)
        if (fg_rollup_verify(&directory.parts[i], file, memory_max_bytes, err) != FG_OK)
            return err->code;
    return tally_file(
        &(struct cmp_merge_source){
            .name = name, .parts = directory.parts, .n_parts = directory.n_parts, .bytes = file},
        memory_max_bytes, tally, err);
}

enum fg_code cmp_merge_read_back(struct fg_slice file, const struct fg_keys *keys, const char *name,
                                 size_t memory_max_bytes, struct cmp_merge_tally *ret_tally,
                                 struct fg_err *err)
{
    struct cmp_merge_tally tally = {0};

    if (read_back(file, keys, name, memory_max_bytes, &tally, err) != FG_OK) {
        /* No source is at fault: set_aside() must not look for a culprit. */
        if (err->code == FG_E_CORRUPT)
            err->code = FG_E_INTERNAL; /* we wrote it just now */
        return fg_wrap(err, "verification of the written block");
    }
    *ret_tally = tally;
    return FG_OK;
}
