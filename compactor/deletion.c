#include "compactor/deletion.h"

#include "common/storage/rollup/reader.h"
#include "compactor/fetch.h"

enum {
    LOOK_ARENA_BYTES = 512 * 1024 * 1024, /* of one part */
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

/* ---- looking into blocks ---- */

/* A part that is searched page by page. */
struct deletion_looking {
    struct cmp_env *env;
    const char *name;
    const struct fg_deletion *deletion;
    struct fg_block_index index;
    struct fg_arena *arena;
};

static enum fg_code look_at_page(struct deletion_looking *looking, uint32_t number, uint32_t series,
                                 bool *ret_names, struct fg_err *err)
{
    const struct fg_block_page *page = &looking->index.pages[FG_BLOCK_IDX].pages[number];
    struct fg_arena_mark mark = fg_arena_mark(looking->arena);
    struct fg_block_rows rows;
    struct fg_buf body;
    enum fg_code code;

    *ret_names = false;
    if (cmp_fetch_range(looking->env, looking->name,
                        (struct fg_block_range){page->offset, page->bytes}, &body, err) != FG_OK)
        return err->code;
    code = fg_block_rows_parse(&looking->index, number, fg_buf_slice(&body), looking->arena, &rows,
                               err);
    fg_buf_done(&body);
    for (uint32_t i = 0; code == FG_OK && i < rows.count; i++)
        *ret_names = *ret_names ||
                     (rows.series[i] == series &&
                      fg_deletion_meets(looking->deletion, rows.times_ns[i], rows.times_ns[i]));
    fg_arena_release(looking->arena, mark);
    return code;
}

/* True if the page has a profile of the series. */
static bool has_any(const struct fg_block_index *index, const struct fg_block_page *page,
                    uint32_t series)
{
    for (uint32_t r = fg_block_chunk_of(index, page->first);
         r < index->n_chunks && index->chunks[r].first < page->first + page->items; r++)
        if (index->chunks[r].series == series)
            return true;
    return false;
}

/* The series overlaps the range of time: only its rows tell whether a profile lies in it. */
static enum fg_code look_at_rows(struct deletion_looking *looking, uint32_t series, bool *ret_names,
                                 struct fg_err *err)
{
    const struct fg_block_pages *pages = &looking->index.pages[FG_BLOCK_IDX];

    *ret_names = false;
    for (uint32_t i = 0; i < pages->count && !*ret_names; i++)
        if (fg_deletion_meets(looking->deletion, pages->pages[i].t_min_ns,
                              pages->pages[i].t_max_ns) &&
            has_any(&looking->index, &pages->pages[i], series) &&
            look_at_page(looking, i, series, ret_names, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code look_at_series(struct deletion_looking *looking, bool *ret_names,
                                   struct fg_err *err)
{
    *ret_names = false;
    for (uint32_t i = 0; i < looking->index.n_series && !*ret_names; i++) {
        const struct fg_block_series_row *row = &looking->index.series[i];

        if (!fg_deletion_meets(looking->deletion, row->t_min_ns, row->t_max_ns) ||
            !fg_selector_matches(&looking->deletion->selector, &row->labels))
            continue;
        if (fg_deletion_contains(looking->deletion, row->t_min_ns, row->t_max_ns))
            *ret_names = true;
        else if (look_at_rows(looking, i, ret_names, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Of a rollup-only object, only the groups of its rollups can tell. */
static enum fg_code look_at_rollups(struct deletion_looking *looking,
                                    const struct fg_block_part *part, bool *ret_names,
                                    struct fg_err *err)
{
    struct fg_rollups rollups;
    struct fg_buf body;
    enum fg_code code;

    if (cmp_fetch_range(looking->env, looking->name, fg_rollup_ranges(part).nod, &body, err) !=
        FG_OK)
        return err->code;
    code = fg_rollups_parse(part, fg_buf_slice(&body), looking->arena, &rollups, err);
    fg_buf_done(&body);
    return code == FG_OK ? fg_rollup_deletion_affects(&rollups, part, looking->deletion,
                                                      looking->arena, ret_names, err)
                         : code;
}

static enum fg_code look_at_part(struct deletion_looking *looking, const struct fg_block_part *part,
                                 bool *ret_names, struct fg_err *err)
{
    struct fg_buf body;
    enum fg_code code;

    if (part->n_series == 0)
        return look_at_rollups(looking, part, ret_names, err);
    if (cmp_fetch_range(looking->env, looking->name,
                        fg_block_part_range(part, FG_BLOCK_WANT_SERIES), &body, err) != FG_OK)
        return err->code;
    code = fg_block_part_parse(part, fg_buf_slice(&body), looking->arena, &looking->index, err);
    fg_buf_done(&body);
    return code == FG_OK ? look_at_series(looking, ret_names, err) : code;
}

static enum fg_code look_at_block(struct deletion_looking *looking,
                                  const struct cmp_fetch_place *place, struct fg_slice tenant,
                                  bool *ret_names, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(LOOK_ARENA_BYTES);
    struct fg_block_directory directory;

    *ret_names = false;
    if (cmp_fetch_directory(looking->env, place, arena, &directory, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < directory.n_parts && !*ret_names; i++) {
        const struct fg_block_part *part = &directory.parts[i];

        if (!fg_slice_eq(part->tenant, tenant) ||
            !fg_deletion_meets(looking->deletion, part->t_min_ns, part->t_max_ns) ||
            !fg_deletion_may_name(looking->deletion, part->service))
            continue;
        fg_arena_reset(looking->arena);
        if (cmp_env_check(looking->env, err) != FG_OK ||
            look_at_part(looking, part, ret_names, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

enum fg_code cmp_deletion_names(struct cmp_env *env, struct fg_slice tenant,
                                const struct fg_blocks_entry *block,
                                const struct fg_deletion *deletion, bool *ret_names,
                                struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct deletion_looking looking = {.env = env, .name = name, .deletion = deletion};
    enum fg_code code;

    *ret_names = false;
    if (!fg_deletion_meets(deletion, block->t_min_ns, block->t_max_ns))
        return FG_OK;
    if (fg_name_block(name, tenant, block->id, err) != FG_OK)
        return err->code;
    looking.arena = fg_arena_create(LOOK_ARENA_BYTES);
    code = look_at_block(&looking,
                         &(struct cmp_fetch_place){name, block->bytes, block->directory_offset,
                                                   block->directory_bytes},
                         tenant, ret_names, err);
    fg_arena_destroy(looking.arena);
    return code;
}
