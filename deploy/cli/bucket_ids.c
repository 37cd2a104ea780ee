#include "deploy/cli/bucket_ids.h"

#include "deploy/cli/bucket_survey.h"

#include <stdlib.h>

enum { ARENA_BYTES = 1024 * 1024 * 1024 }; /* of the index of one part */

/* ---- sets ---- */

/* An id of zero marks a free slot, so the set has a flag for this id. */
static bool is_zero(struct fg_id id)
{
    return id.hi == 0 && id.lo == 0;
}

/* Returns the slot at which the id is or belongs. A free slot ends the search: at most half are
 * taken. */
static size_t place(const struct cli_id_set *set, struct fg_id id)
{
    /* cap is a power of two, so the mask covers all slots. */
    size_t at = fg_mix64(id.hi ^ id.lo) & (set->cap - 1);

    while (!is_zero(set->slots[at]) && !fg_id_eq(set->slots[at], id))
        at = (at + 1) & (set->cap - 1);
    return at;
}

/* Doubles the table and inserts all ids again: constant time per id on average. */
static void grow(struct cli_id_set *set)
{
    struct cli_id_set larger = {.cap = FG_MAX(set->cap * 2, (size_t)1024), .n = set->n};

    larger.slots = fg_calloc(larger.cap, sizeof *larger.slots);
    larger.has_zero = set->has_zero;
    for (size_t i = 0; i < set->cap; i++)
        if (!is_zero(set->slots[i]))
            larger.slots[place(&larger, set->slots[i])] = set->slots[i];
    free(set->slots);
    *set = larger;
}

bool cli_id_set_add(struct cli_id_set *set, struct fg_id id)
{
    bool had_zero = set->has_zero;
    size_t at;

    if (is_zero(id)) {
        set->has_zero = true;
        return !had_zero;
    }
    /* At half full a search visits about 1.5 slots if it succeeds, 2.5 if it does not (linear
     * probing). */
    if (set->n >= set->cap / 2)
        grow(set);
    at = place(set, id);
    if (fg_id_eq(set->slots[at], id))
        return false;
    set->slots[at] = id;
    set->n++;
    fg_assert(set->n <= set->cap / 2);
    return true;
}

bool cli_id_set_has(const struct cli_id_set *set, struct fg_id id)
{
    if (is_zero(id))
        return set->has_zero;
    /* An empty set has no table, so place() must not be called. */
    return set->cap > 0 && !is_zero(set->slots[place(set, id)]);
}

void cli_id_set_done(struct cli_id_set *set)
{
    free(set->slots);
    *set = (struct cli_id_set){.n = 0};
}

void cli_id_list_add(struct cli_id_list *list, struct fg_id id)
{
    if (list->n == list->cap) {
        list->cap = FG_MAX(list->cap * 2, (size_t)256);
        list->ids = fg_realloc(list->ids, list->cap * sizeof *list->ids);
    }
    list->ids[list->n++] = id;
}

static int by_id(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

void cli_id_list_sort(struct cli_id_list *list)
{
    if (list->n > 1)
        qsort(list->ids, list->n, sizeof *list->ids, by_id);
}

void cli_id_list_done(struct cli_id_list *list)
{
    free(list->ids);
    *list = (struct cli_id_list){.n = 0};
}

/* ---- objects ---- */

static enum fg_code get_range(const struct cli_ids_object *object, struct fg_block_range range,
                              struct fg_buf *body, struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = object->name,
                                    .offset = range.offset,
                                    .length = range.len,
                                    .content_max_bytes = (size_t)range.len,
                                    .deadline_mono_ns = cli_survey_deadline()};
    enum fg_code code;

    fg_buf_init(body, (size_t)range.len);
    if (range.len == 0)
        return FG_OK;
    code = fg_bucket_call(object->bucket, &get);
    /* If the object ends before the range begins, the request is invalid. Either way the object is
     * shorter than its manifest says. */
    if (code == FG_E_INVALID || (code == FG_OK && get.body.len != range.len))
        code = fg_fail(err, FG_E_CORRUPT, "%s is cut short", object->name);
    else if (code != FG_OK)
        *err = get.err;
    if (code == FG_OK) {
        *body = get.body;
        fg_buf_init(&get.body, 0); /* it is the caller's now */
    }
    fg_bucket_clear(&get);
    return code;
}

enum fg_code cli_ids_directory(const struct cli_ids_object *object, struct fg_arena *arena,
                               struct fg_block_directory *ret_directory, struct fg_err *err)
{
    struct fg_buf body;
    enum fg_code code;

    /* From a manifest, or computed from a damaged trailer: bounded before memory is asked for. */
    if (object->directory_offset >= object->bytes ||
        object->bytes - object->directory_offset > FG_BLOCK_DIRECTORY_MAX_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "%s: the place of its directory", object->name);
    code = get_range(
        object,
        (struct fg_block_range){object->directory_offset, object->bytes - object->directory_offset},
        &body, err);
    if (code == FG_OK)
        code = fg_block_directory_parse(fg_buf_slice(&body), object->bytes, object->bucket->keys,
                                        arena, ret_directory, err);
    fg_buf_done(&body);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", object->name);
}

/* A part without the section has no profiles (rollups only): an empty range reads nothing. */
static struct fg_block_range section_of(const struct fg_block_part *part, uint32_t kind)
{
    for (uint32_t i = 0; i < part->n_sections; i++)
        if (part->sections[i].kind == kind)
            return part->sections[i].range;
    return (struct fg_block_range){0, 0};
}

/* Parsed page by page: the section is in memory once, and the arena holds the ids of one part. */
static enum fg_code read_pages(const struct fg_block_index *index, struct fg_slice section,
                               uint64_t offset, struct fg_arena *arena, struct cli_id_list *list,
                               struct fg_err *err)
{
    const struct fg_block_pages *pages = &index->pages[FG_BLOCK_PID];

    for (uint32_t p = 0; p < pages->count; p++) {
        const struct fg_block_page *page = &pages->pages[p];
        struct fg_id *ids;

        if (fg_block_ids_parse(index, p,
                               fg_slice_sub(section, (size_t)(page->offset - offset), page->bytes),
                               arena, &ids, err) != FG_OK)
            return err->code;
        for (uint32_t i = 0; i < page->items; i++)
            cli_id_list_add(list, ids[i]);
    }
    return FG_OK;
}

enum fg_code cli_ids_part(const struct cli_ids_object *object, const struct fg_block_part *part,
                          struct cli_id_list *list, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_block_range pid = section_of(part, FG_BLOCK_PID);
    struct fg_block_index index = {0};
    struct fg_buf series, ids;
    enum fg_code code;

    fg_buf_init(&ids, 0);
    code = get_range(object, fg_block_part_range(part, FG_BLOCK_WANT_SERIES), &series, err);
    if (code == FG_OK)
        code = fg_block_part_parse(part, fg_buf_slice(&series), arena, &index, err);
    if (code == FG_OK)
        code = get_range(object, pid, &ids, err);
    if (code == FG_OK)
        code = read_pages(&index, fg_buf_slice(&ids), pid.offset, arena, list, err);
    fg_buf_done(&series);
    fg_buf_done(&ids);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", object->name);
}

enum fg_code cli_ids_groups(const struct cli_ids_object *object, const struct fg_block_part *part,
                            struct fg_arena *arena, struct fg_block_group **ret_groups,
                            struct fg_err *err)
{
    struct fg_buf body;
    enum fg_code code =
        get_range(object, fg_block_part_range(part, FG_BLOCK_WANT_GROUPS), &body, err);

    if (code == FG_OK)
        code = fg_block_groups_parse(part, fg_buf_slice(&body), arena, ret_groups, err);
    fg_buf_done(&body);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", object->name);
}
