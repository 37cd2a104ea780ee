#include "compactor/deletion.h"

#include "common/storage/rollup/reader.h"
#include "compactor/fetch.h"

enum {
    SEARCH_ARENA_BYTES = 512 * 1024 * 1024, /* of one part */
    CHECK_ARENA_BYTES = 1024 * 1024,
};

/* ---- what users ask ---- */

static enum fg_code check_names(const struct fg_selector *selector, struct fg_err *err)
{
    for (size_t i = 0; i < selector->n_matchers; i++) {
        struct fg_slice name = selector->matchers[i].name;

        if (fg_slice_starts(name, "__") && !fg_slice_is(name, FG_LABEL_NAME))
            return fg_fail(err, FG_E_INVALID,
                           "a deletion removes whole profiles: it cannot select by %.*s",
                           FG_S(name));
    }
    return FG_OK;
}

enum fg_code cmp_deletion_check(struct fg_slice selector, int64_t start_ns, int64_t end_ns,
                                struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(CHECK_ARENA_BYTES);
    struct fg_selector parsed = {0};
    enum fg_code code;

    if (start_ns >= end_ns)
        return fg_fail(err, FG_E_INVALID, "start is not before end");
    if (selector.len > FG_BLOCKS_SELECTOR_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "a selector of %zu bytes", selector.len);
    code = fg_selector_parse(selector, arena, &parsed, err);
    if (code == FG_OK)
        code = check_names(&parsed, err);
    fg_selector_done(&parsed);
    return code == FG_OK ? FG_OK : fg_wrap(err, "selector");
}

/* ---- searching blocks ---- */

/* A block that is searched part by part. */
struct searching {
    struct cmp_deletion_search *work;
    const char *name;
    const struct fg_block_part *part; /* NULL: the directory; below is what is known of the part */
    struct fg_block_index index;
    uint64_t **series;      /* [count]: the series of which only the rows tell; NULL: none */
    bool compared;          /* with the labels of all series: only `series` is open */
    struct fg_arena *arena; /* of the part */
};

static bool is_open(const struct searching *searching, uint32_t number)
{
    return searching->work->verdicts[number] == DELETION_OPEN ||
           searching->work->verdicts[number] == DELETION_UNREAD;
}

/* True if the deletion is open and the part may have something that it names. */
static bool concerns(const struct searching *searching, uint32_t number)
{
    const struct fg_deletion *deletion = &searching->work->deletions[number];

    return is_open(searching, number) &&
           (searching->part == NULL ||
            (fg_deletion_meets(deletion, searching->part->t_min_ns, searching->part->t_max_ns) &&
             fg_deletion_may_name(deletion, searching->part->service)));
}

static enum fg_code fetch(struct searching *searching, struct fg_block_range range,
                          struct fg_buf *body, struct fg_err *err)
{
    searching->work->reads++;
    return cmp_fetch_range(searching->work->env, searching->name, range, body, err);
}

static bool needs_row(const struct searching *searching, uint32_t number, uint32_t series,
                      int64_t t_min_ns, int64_t t_max_ns)
{
    return is_open(searching, number) && searching->series[number] != NULL &&
           fg_bits_has(searching->series[number], series) &&
           fg_deletion_meets(&searching->work->deletions[number], t_min_ns, t_max_ns);
}

/* True if the page has a profile of a series of which only the rows tell. */
static bool needs_page(const struct searching *searching, const struct fg_block_page *page)
{
    const struct fg_block_index *index = &searching->index;

    for (uint32_t r = fg_block_chunk_of(index, page->first);
         r < index->n_chunks && index->chunks[r].first < page->first + page->items; r++)
        for (uint32_t i = 0; i < searching->work->count; i++)
            if (needs_row(searching, i, index->chunks[r].series, page->t_min_ns, page->t_max_ns))
                return true;
    return false;
}

static enum fg_code search_page(struct searching *searching, uint32_t number, struct fg_err *err)
{
    const struct fg_block_page *page = &searching->index.pages[FG_BLOCK_IDX].pages[number];
    struct fg_arena_mark mark = fg_arena_mark(searching->arena);
    struct fg_block_rows rows;
    struct fg_buf body;
    enum fg_code code;

    if (fetch(searching, (struct fg_block_range){page->offset, page->bytes}, &body, err) != FG_OK)
        return err->code;
    code = fg_block_rows_parse(&searching->index, number, fg_buf_slice(&body), searching->arena,
                               &rows, err);
    fg_buf_done(&body);
    for (uint32_t r = 0; code == FG_OK && r < rows.count; r++)
        for (uint32_t i = 0; i < searching->work->count; i++)
            if (needs_row(searching, i, rows.series[r], rows.times_ns[r], rows.times_ns[r]))
                searching->work->verdicts[i] = DELETION_NAMES;
    fg_arena_release(searching->arena, mark);
    return code;
}

/* Series overlap the time of a deletion: only their rows tell whether a profile lies in it. Each
 * page is read once for all deletions. */
static enum fg_code search_rows(struct searching *searching, struct fg_err *err)
{
    const struct fg_block_pages *pages = &searching->index.pages[FG_BLOCK_IDX];

    for (uint32_t i = 0; i < pages->count; i++)
        if (needs_page(searching, &pages->pages[i]) && search_page(searching, i, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* Compares a deletion with the labels of all series, and marks those of which only the rows
 * tell. */
static enum fg_code search_series(struct searching *searching, uint32_t number, bool *ret_rows,
                                  struct fg_err *err)
{
    const struct fg_deletion *deletion = &searching->work->deletions[number];
    const struct fg_block_index *index = &searching->index;
    uint64_t *series = NULL;

    for (uint32_t i = 0; i < index->n_series; i++) {
        const struct fg_block_series_row *row = &index->series[i];

        if (!fg_deletion_meets(deletion, row->t_min_ns, row->t_max_ns) ||
            !fg_selector_matches(&deletion->selector, &row->labels))
            continue;
        if (fg_deletion_contains(deletion, row->t_min_ns, row->t_max_ns)) {
            searching->work->verdicts[number] = DELETION_NAMES;
            return FG_OK;
        }
        if (series == NULL)
            series = fg_arena_new(searching->arena, uint64_t, FG_BITS_WORDS(index->n_series));
        if (series == NULL)
            return fg_fail(err, FG_E_LIMIT, "no room for %u series", index->n_series);
        fg_bits_set(series, i);
    }
    searching->series[number] = series;
    *ret_rows = *ret_rows || series != NULL;
    return FG_OK;
}

static enum fg_code search_index(struct searching *searching, struct fg_err *err)
{
    const struct fg_block_part *part = searching->part;
    bool rows = false;
    struct fg_buf body;
    enum fg_code code;

    if (fetch(searching, fg_block_part_range(part, FG_BLOCK_WANT_SERIES), &body, err) != FG_OK)
        return err->code;
    code = fg_block_part_parse(part, fg_buf_slice(&body), searching->arena, &searching->index, err);
    fg_buf_done(&body);
    if (code != FG_OK)
        return code;
    searching->series = fg_arena_new(searching->arena, uint64_t *, searching->work->count);
    if (searching->series == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u deletions", searching->work->count);
    for (uint32_t i = 0; i < searching->work->count; i++)
        if (concerns(searching, i) && search_series(searching, i, &rows, err) != FG_OK)
            return err->code;
    searching->compared = true;
    return rows ? search_rows(searching, err) : FG_OK;
}

/* Of a rollup-only object, only the groups of its rollups can tell. */
static enum fg_code search_rollups(struct searching *searching, struct fg_err *err)
{
    const struct fg_block_part *part = searching->part;
    struct fg_rollups rollups;
    struct fg_buf body;
    enum fg_code code;

    if (fetch(searching, fg_rollup_ranges(part).nod, &body, err) != FG_OK)
        return err->code;
    code = fg_rollups_parse(part, fg_buf_slice(&body), searching->arena, &rollups, err);
    fg_buf_done(&body);
    for (uint32_t i = 0; code == FG_OK && i < searching->work->count; i++) {
        bool names = false;

        if (concerns(searching, i))
            code = fg_rollup_deletion_affects(&rollups, part, &searching->work->deletions[i],
                                              searching->arena, &names, err);
        if (code == FG_OK && names)
            searching->work->verdicts[i] = DELETION_NAMES;
    }
    return code;
}

static bool concerns_any(const struct searching *searching)
{
    for (uint32_t i = 0; i < searching->work->count; i++)
        if (concerns(searching, i))
            return true;
    return false;
}

/* Marks the deletions to which the damage may hide something; the other parts may still tell of
 * them. Returns false if the failure is not the object's own. */
static bool note_damage(const struct searching *searching, const struct fg_err *err)
{
    struct cmp_deletion_search *work = searching->work;

    if (!cmp_env_own_fault(err->code))
        return false;
    if (work->unread.code == FG_OK)
        work->unread = *err;
    for (uint32_t i = 0; i < work->count; i++)
        if (concerns(searching, i) && (!searching->compared || searching->series[i] != NULL))
            work->verdicts[i] = DELETION_UNREAD;
    return true;
}

static enum fg_code search_part(struct searching *searching, struct fg_err *err)
{
    enum fg_code code;

    if (!concerns_any(searching))
        return FG_OK;
    fg_arena_reset(searching->arena);
    searching->compared = false;
    if (cmp_env_check(searching->work->env, err) != FG_OK)
        return err->code;
    code = searching->part->n_series == 0 ? search_rollups(searching, err)
                                          : search_index(searching, err);
    return code == FG_OK || note_damage(searching, err) ? FG_OK : code;
}

static enum fg_code search_parts(struct searching *searching,
                                 const struct fg_block_directory *directory, struct fg_err *err)
{
    for (uint32_t i = 0; i < directory->n_parts; i++) {
        searching->part = &directory->parts[i];
        if (fg_slice_eq(searching->part->tenant, searching->work->tenant) &&
            search_part(searching, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code search(struct cmp_deletion_search *work, struct fg_err *err)
{
    fg_auto(fg_arena) *of_block = fg_arena_create(SEARCH_ARENA_BYTES);
    fg_auto(fg_arena) *of_part = fg_arena_create(SEARCH_ARENA_BYTES);
    const struct fg_blocks_entry *block = work->block;
    char name[FG_NAME_MAX_BYTES];
    const struct cmp_fetch_place place = {name, block->bytes, block->directory_offset,
                                          block->directory_bytes};
    struct searching searching = {.work = work, .name = name, .arena = of_part};
    struct fg_block_directory directory;

    if (fg_name_block(name, work->tenant, block->id, err) != FG_OK)
        return err->code;
    work->reads++;
    if (cmp_fetch_directory(work->env, &place, of_block, &directory, err) != FG_OK)
        return note_damage(&searching, err) ? FG_OK : err->code;
    return search_parts(&searching, &directory, err);
}

enum fg_code cmp_deletion_search(struct cmp_deletion_search *work, struct fg_err *err)
{
    bool any = false;

    work->unread.code = FG_OK;
    work->reads = 0;
    for (uint32_t i = 0; i < work->count; i++) {
        if (work->verdicts[i] == DELETION_OPEN &&
            !fg_deletion_meets(&work->deletions[i], work->block->t_min_ns, work->block->t_max_ns))
            work->verdicts[i] = DELETION_NONE;
        any = any || work->verdicts[i] == DELETION_OPEN;
    }
    if (any && search(work, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < work->count; i++)
        if (work->verdicts[i] == DELETION_OPEN)
            work->verdicts[i] = DELETION_NONE;
    return FG_OK;
}
