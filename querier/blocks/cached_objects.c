#include "querier/blocks/cached_objects.h"

#include "common/base/crc32c.h"

#include <stdatomic.h>

/* Numbers in keys of the cache. */
enum {
    WHAT_DIRECTORY = QRY_CACHED_PIECE + 1,
    WHAT_INDEX,
    WHAT_TREE,
    WHAT_FUNCTION_TREE,
    WHAT_PAGE,
    WHAT_ROLLUPS,
    WHAT_ROLLUP_FUNCTIONS,
    WHAT_ROLLUP
};

/* What was parsed, its memory, and the entry that it borrows from. */
struct parsed {
    struct fg_arena *arena;
    struct fg_cache_entry *below; /* NULL: nothing */
    bool own_functions;           /* `functions` is not the arena's */
    struct fg_crown_names *names; /* of `functions`, for layers; NULL: it is no function tree */
    bool is_index;                /* `index` and `roster` are meant */
    union {
        struct {
            struct fg_block_directory directory;
            const struct fg_rollups **rollups; /* by part, NULL: none; NULL: they were too large */
        };
        struct {
            struct fg_block_index index;
            struct qry_roster *_Atomic roster; /* NULL: nobody needed it so far */
        };
        struct fg_block_tree tree;
        struct fg_rollups part_rollups;
        struct fg_function_tree functions;
    };
};

static void parsed_destroy(void *value)
{
    struct parsed *parsed = value;

    if (parsed->own_functions) {
        parsed->functions.names = NULL; /* of `names`, below */
        fg_function_tree_done(&parsed->functions);
    }
    if (parsed->is_index)
        qry_roster_destroy(atomic_load(&parsed->roster));
    fg_crown_names_unref(parsed->names);
    fg_arena_destroy(parsed->arena);
    fg_cache_unref(parsed->below);
    free(parsed);
}

static struct parsed *parsed_create(size_t max_bytes, struct fg_cache_entry *below)
{
    struct parsed *parsed = fg_new(struct parsed);

    parsed->arena = fg_arena_create(max_bytes);
    /* The value points into the other entry's memory, which must not be evicted before it. */
    parsed->below = below == NULL ? NULL : fg_cache_ref(below);
    return parsed;
}

static enum fg_code parsed_take(struct parsed *parsed, enum fg_code code, void **ret_value,
                                size_t *ret_bytes)
{
    if (code != FG_OK) {
        parsed_destroy(parsed);
        return code;
    }
    *ret_value = parsed;
    /* What the arena was used for, not its limit: the cache evicts by this number. */
    *ret_bytes = sizeof *parsed + fg_arena_used_bytes(parsed->arena);
    return FG_OK;
}

/* ---- directories ---- */

static enum fg_code parse_part_rollups(const struct fg_block_part *part, struct fg_slice nod,
                                       struct fg_arena *arena, struct fg_rollups *rollups,
                                       struct fg_err *err)
{
    if (fg_rollups_parse(part, nod, arena, rollups, err) != FG_OK)
        return err->code;

    /* Both have the same series, or both have none. */
    bool derived = part->n_series == 0;

    if (derived != (rollups->n_derived_from > 0) ||
        (!derived && rollups->groups.n_series != part->n_series))
        return fg_fail(err, FG_E_CORRUPT, "the rollups belong to another part");
    return FG_OK;
}

/* Parses the rollups of all parts. bytes: of the object from `from` on. */
static enum fg_code parse_rollups(struct parsed *parsed, struct fg_slice bytes, uint64_t from,
                                  struct fg_err *err)
{
    const struct fg_block_directory *directory = &parsed->directory;

    parsed->rollups = fg_arena_new(parsed->arena, const struct fg_rollups *, directory->n_parts);
    for (uint32_t i = 0; parsed->rollups != NULL && i < directory->n_parts; i++) {
        const struct fg_block_part *part = &directory->parts[i];
        struct fg_block_range nod = fg_rollup_ranges(part).nod;
        struct fg_rollups *rollups;

        if (nod.len == 0)
            continue;
        rollups = fg_arena_new(parsed->arena, struct fg_rollups, 1);
        if (rollups == NULL)
            return qry_query_too_large(err);
        /* The directory was read from the object, so its offsets may be anything. */
        if (nod.offset < from || nod.offset - from > bytes.len)
            return fg_fail(err, FG_E_CORRUPT, "the rollups are not at the place in the manifest");
        if (parse_part_rollups(part, fg_slice_sub(bytes, nod.offset - from, nod.len), parsed->arena,
                               rollups, err) != FG_OK)
            return fg_wrap(err, "part %.*s/%.*s", FG_S(part->tenant), FG_S(part->service));
        parsed->rollups[i] = rollups;
    }
    return parsed->rollups == NULL ? qry_query_too_large(err) : FG_OK;
}

static enum fg_code parse_head(const struct qry_fetch_item *item, struct fg_slice bytes,
                               struct parsed *parsed, struct fg_err *err)
{
    const struct qry_object *object = item->object;
    const struct fg_block_directory *directory = &parsed->directory;
    size_t before = (size_t)(object->directory.offset - item->range.offset);

    if (fg_block_directory_parse(fg_slice_sub(bytes, before, SIZE_MAX), object->bytes, item->keys,
                                 parsed->arena, &parsed->directory, err) != FG_OK)
        return err->code;
    /* The checksums hold, but these are not the bytes that the manifest lists: another object was
     * restored under this name. */
    if (directory->n_profiles != object->profiles || !fg_id_eq(directory->digest, object->digest))
        return fg_fail(err, FG_E_CORRUPT, "its profiles differ from the manifest");
    /* Not parsed here: there are too many for the head, so they are fetched part by part; or it is
     * a segment, of which the manifest does not say whether it has any. */
    if (before == 0 && directory->rollup_offset < object->directory.offset)
        return FG_OK;
    return parse_rollups(parsed, bytes, item->range.offset, err);
}

static enum fg_code make_directory(const struct qry_fetch_item *item, struct fg_slice bytes,
                                   size_t max_bytes, void **ret_value, size_t *ret_bytes,
                                   struct fg_err *err)
{
    struct parsed *parsed = parsed_create(max_bytes, NULL);

    return parsed_take(parsed, parse_head(item, bytes, parsed, err), ret_value, ret_bytes);
}

const struct qry_cached_type qry_cached_directory = {
    .what = WHAT_DIRECTORY,
    .with_tail = true,
    .make = make_directory,
    .destroy = parsed_destroy,
};

const struct fg_block_directory *qry_directory_of(const struct fg_cache_entry *entry)
{
    return &((const struct parsed *)fg_cache_value(entry))->directory;
}

bool qry_rollups_are_with(const struct fg_cache_entry *directory, uint32_t part,
                          const struct fg_rollups **ret_rollups)
{
    const struct parsed *parsed = fg_cache_value(directory);

    if (parsed->rollups == NULL)
        return false;
    *ret_rollups = parsed->rollups[part];
    return true;
}

static enum fg_code make_rollups(const struct qry_fetch_item *item, struct fg_slice bytes,
                                 size_t max_bytes, void **ret_value, size_t *ret_bytes,
                                 struct fg_err *err)
{
    struct parsed *parsed = parsed_create(max_bytes, NULL);

    return parsed_take(
        parsed,
        parse_part_rollups(item->part->entry, bytes, parsed->arena, &parsed->part_rollups, err),
        ret_value, ret_bytes);
}

const struct qry_cached_type qry_cached_rollups = {
    .what = WHAT_ROLLUPS,
    .is_rollup = true,
    .make = make_rollups,
    .destroy = parsed_destroy,
};

const struct fg_rollups *qry_rollups_of(const struct fg_cache_entry *entry)
{
    return &((const struct parsed *)fg_cache_value(entry))->part_rollups;
}

/* ---- parts ---- */

static enum fg_code make_index(const struct qry_fetch_item *item, struct fg_slice bytes,
                               size_t max_bytes, void **ret_value, size_t *ret_bytes,
                               struct fg_err *err)
{
    /* Texts of an index are borrowed from the directory. */
    struct parsed *parsed = parsed_create(max_bytes, item->object->entry);

    parsed->is_index = true;
    if (parsed_take(
            parsed,
            fg_block_part_parse(item->part->entry, bytes, parsed->arena, &parsed->index, err),
            ret_value, ret_bytes) != FG_OK)
        return err->code;
    *ret_bytes += qry_roster_bytes(&parsed->index); /* if it is made */
    return FG_OK;
}

const struct qry_cached_type qry_cached_index = {
    .what = WHAT_INDEX,
    .make = make_index,
    .destroy = parsed_destroy,
};

const struct fg_block_index *qry_index_of(const struct fg_cache_entry *entry)
{
    return &((const struct parsed *)fg_cache_value(entry))->index;
}

const struct qry_roster *qry_roster_of(struct fg_cache_entry *entry)
{
    struct parsed *parsed = fg_cache_value(entry);
    struct qry_roster *roster = atomic_load(&parsed->roster), *other = NULL;

    fg_assert(parsed->is_index);
    if (roster != NULL)
        return roster;
    roster = qry_roster_make(&parsed->index);
    if (atomic_compare_exchange_strong(&parsed->roster, &other, roster))
        return roster;
    qry_roster_destroy(roster); /* another query was faster */
    return other;
}

static enum fg_code make_tree(const struct qry_fetch_item *item, struct fg_slice bytes,
                              size_t max_bytes, void **ret_value, size_t *ret_bytes,
                              struct fg_err *err)
{
    struct parsed *parsed = parsed_create(max_bytes, NULL);

    return parsed_take(
        parsed, fg_block_tree_parse(item->part->index, bytes, parsed->arena, &parsed->tree, err),
        ret_value, ret_bytes);
}

const struct qry_cached_type qry_cached_tree = {
    .what = WHAT_TREE,
    .make = make_tree,
    .destroy = parsed_destroy,
};

const struct fg_block_tree *qry_tree_of(const struct fg_cache_entry *entry)
{
    return &((const struct parsed *)fg_cache_value(entry))->tree;
}

bool qry_stacks_are_named(const struct qry_cached_type *stacks, const struct fg_block_part *part)
{
    return stacks == &qry_cached_function_tree &&
           fg_block_part_range(part, FG_BLOCK_WANT_FUNCTION_TREE).len > 0;
}

struct fg_block_range qry_stacks_range(const struct qry_cached_type *stacks,
                                       const struct fg_block_part *part)
{
    return fg_block_part_range(part, qry_stacks_are_named(stacks, part)
                                         ? FG_BLOCK_WANT_FUNCTION_TREE
                                         : FG_BLOCK_WANT_TREE);
}

static enum fg_code derive_function_tree(const struct qry_fetch_item *item, struct fg_slice bytes,
                                         size_t max_bytes, struct fg_function_tree *functions,
                                         struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(max_bytes);
    struct fg_block_tree tree;
    enum fg_code code = fg_block_tree_parse(item->part->index, bytes, arena, &tree, err);

    /* The stack tree is needed for the derivation only; the cache keeps the function tree. */
    if (code == FG_OK)
        fg_block_tree_functions(&tree, functions);
    fg_arena_destroy(arena);
    return code;
}

/* Parses the function tree of a part, or derives it from the stack tree if the part does not store
 * one. */
static enum fg_code get_function_tree(const struct qry_fetch_item *item, struct fg_slice bytes,
                                      size_t max_bytes, struct parsed *parsed, struct fg_err *err)
{
    if (qry_stacks_are_named(item->type, item->part->entry))
        return fg_block_function_tree_parse(item->part->index, bytes, parsed->arena,
                                            &parsed->functions, err);
    if (derive_function_tree(item, bytes, max_bytes, &parsed->functions, err) != FG_OK)
        return err->code;
    parsed->own_functions = true;
    return FG_OK;
}

/* Keeps the names apart, for layers, which live longer than an entry. A function tree of its own
 * has them from there. Returns the memory of both that no arena counts. */
static size_t keep_names(struct parsed *parsed)
{
    struct fg_function_tree *functions = &parsed->functions;
    size_t bytes;

    parsed->names = fg_crown_names_create(functions);
    bytes = fg_crown_names_bytes(parsed->names);
    if (!parsed->own_functions)
        return bytes;
    fg_function_tree_drop_names(functions);
    bytes += fg_function_tree_bytes(functions);
    functions->names = (struct fg_slice *)(uintptr_t)fg_crown_names_items(parsed->names);
    functions->n_names = fg_crown_names_count(parsed->names);
    return bytes;
}

static enum fg_code make_function_tree(const struct qry_fetch_item *item, struct fg_slice bytes,
                                       size_t max_bytes, void **ret_value, size_t *ret_bytes,
                                       struct fg_err *err)
{
    struct parsed *parsed = parsed_create(max_bytes, NULL);

    if (parsed_take(parsed, get_function_tree(item, bytes, max_bytes, parsed, err), ret_value,
                    ret_bytes) != FG_OK)
        return err->code;
    *ret_bytes += keep_names(parsed);
    return FG_OK;
}

const struct qry_cached_type qry_cached_function_tree = {
    .what = WHAT_FUNCTION_TREE,
    .make = make_function_tree,
    .destroy = parsed_destroy,
};

const struct fg_function_tree *qry_function_tree_of(const struct fg_cache_entry *entry)
{
    return &((const struct parsed *)fg_cache_value(entry))->functions;
}

struct fg_crown_names *qry_function_names_of(const struct fg_cache_entry *entry)
{
    return ((const struct parsed *)fg_cache_value(entry))->names;
}

/* ---- rollups ---- */

static enum fg_code make_rollup_functions(const struct qry_fetch_item *item, struct fg_slice bytes,
                                          size_t max_bytes, void **ret_value, size_t *ret_bytes,
                                          struct fg_err *err)
{
    const struct fg_rollups *rollups = item->part->rollups;
    struct parsed *parsed = parsed_create(max_bytes, NULL);
    size_t tree_bytes = rollups->names.bytes; /* the dictionary follows */

    if (parsed_take(parsed,
                    fg_rollup_functions_parse(rollups, fg_slice_sub(bytes, 0, tree_bytes),
                                              fg_slice_sub(bytes, tree_bytes, SIZE_MAX),
                                              parsed->arena, &parsed->functions, err),
                    ret_value, ret_bytes) != FG_OK)
        return err->code;
    *ret_bytes += keep_names(parsed);
    return FG_OK;
}

const struct qry_cached_type qry_cached_rollup_functions = {
    .what = WHAT_ROLLUP_FUNCTIONS,
    .is_rollup = true,
    .make = make_rollup_functions,
    .destroy = parsed_destroy,
};

/* Returns the sections that the part's rollups are in. */
static struct fg_rollup_ranges ranges_of(const struct qry_part *part)
{
    return part->single ? fg_rollup_single_ranges(part->entry) : fg_rollup_ranges(part->entry);
}

enum fg_code qry_fetch_add_rollup_functions(struct qry_fetch_list *list, struct fg_arena *arena,
                                            struct qry_part *part, struct fg_err *err)
{
    const struct fg_rollups *rollups = part->rollups;

    return qry_fetch_add(
        list, arena,
        &(struct qry_fetch_item){.type = &qry_cached_rollup_functions,
                                 .object = part->object,
                                 .range = {ranges_of(part).crn.offset + rollups->names.offset,
                                           (uint64_t)rollups->names.bytes + rollups->dict.bytes},
                                 .part = part,
                                 .single = part->single},
        err);
}

/* ---- pages ---- */

/* As it was stored. */
struct cached_page {
    size_t len;
    uint8_t bytes[];
};

static enum fg_code keep_page(const struct qry_fetch_item *item, struct fg_slice bytes,
                              uint32_t crc, const char *what, void **ret_value, size_t *ret_bytes,
                              struct fg_err *err)
{
    struct cached_page *page;

    /* Before anything is unpacked: decoders see only bytes that a writer has written. */
    if (fg_crc32c(bytes) != crc)
        return fg_fail(err, FG_E_CORRUPT, "%s %u of section %u: checksum does not fit", what,
                       item->number, item->kind);
    page = fg_malloc(sizeof *page + bytes.len);
    page->len = bytes.len;
    if (bytes.len > 0)
        memcpy(page->bytes, bytes.ptr, bytes.len);
    *ret_value = page;
    *ret_bytes = sizeof *page + bytes.len;
    return FG_OK;
}

static enum fg_code make_page(const struct qry_fetch_item *item, struct fg_slice bytes,
                              size_t max_bytes, void **ret_value, size_t *ret_bytes,
                              struct fg_err *err)
{
    const struct fg_block_page *entry = &item->part->index->pages[item->kind].pages[item->number];

    (void)max_bytes; /* unpacking is bounded later */
    return keep_page(item, bytes, entry->crc, "page", ret_value, ret_bytes, err);
}

const struct qry_cached_type qry_cached_page = {
    .what = WHAT_PAGE,
    .make = make_page,
    .destroy = free,
};

static enum fg_code make_rollup(const struct qry_fetch_item *item, struct fg_slice bytes,
                                size_t max_bytes, void **ret_value, size_t *ret_bytes,
                                struct fg_err *err)
{
    const struct fg_rollup_row *row = &item->part->rollups->rows[item->number];

    (void)max_bytes; /* as make_page() */
    return keep_page(item, bytes, row->places[item->kind].crc, "rollup", ret_value, ret_bytes, err);
}

const struct qry_cached_type qry_cached_rollup = {
    .what = WHAT_ROLLUP,
    .is_rollup = true,
    .make = make_rollup,
    .destroy = free,
};

struct fg_slice qry_page_of(const struct fg_cache_entry *entry)
{
    const struct cached_page *page = fg_cache_value(entry);

    return fg_bytes(page->bytes, page->len);
}

enum fg_code qry_fetch_add_rollup(struct qry_fetch_list *list, struct fg_arena *arena,
                                  struct qry_part *part, const struct fg_plan_pick *pick,
                                  unsigned phase, struct fg_err *err)
{
    const struct fg_rollup_place *place = &part->rollups->rows[pick->row].places[pick->form];
    struct fg_rollup_ranges ranges = ranges_of(part);
    uint64_t from = pick->form == FG_ROLLUP_CROWN ? ranges.crn.offset : ranges.ful.offset;

    fg_assert(pick->form == FG_ROLLUP_CROWN || pick->form == FG_ROLLUP_FULL);
    return qry_fetch_add(list, arena,
                         &(struct qry_fetch_item){.type = &qry_cached_rollup,
                                                  .object = part->object,
                                                  .range = {from + place->offset, place->bytes},
                                                  .part = part,
                                                  .kind = pick->form,
                                                  .number = pick->row,
                                                  .single = part->single,
                                                  .phase = phase},
                         err);
}

enum fg_code qry_fetch_add_pages(struct qry_fetch_list *list, struct fg_arena *arena,
                                 struct qry_part *part, uint32_t kind, const bool *marks,
                                 unsigned phase, struct fg_err *err)
{
    const struct fg_block_pages *pages = &part->index->pages[kind];

    /* A page of no bytes, of profiles without spans, has nothing to ask for. */
    for (uint32_t i = 0; i < pages->count; i++)
        if (marks[i] && (pages->pages[i].bytes > 0 || kind != FG_BLOCK_EXM) &&
            qry_fetch_add(
                list, arena,
                &(struct qry_fetch_item){.type = &qry_cached_page,
                                         .object = part->object,
                                         .range = {pages->pages[i].offset, pages->pages[i].bytes},
                                         .part = part,
                                         .kind = kind,
                                         .number = i,
                                         .phase = phase},
                err) != FG_OK)
            return err->code;
    return FG_OK;
}
