/* What is kept of objects, and how it is made of bytes. */
#include "common/base/crc32c.h"
#include "querier/blocks/fetch.h"

/* Numbers in keys of the cache. */
enum { WHAT_DIRECTORY = 1, WHAT_INDEX, WHAT_TREE, WHAT_NAMES, WHAT_PAGE };

/* What was parsed, with its memory, and what it borrows from. */
struct parsed {
    struct fg_arena *arena;
    struct fg_cache_entry *below; /* NULL: nothing */
    union {
        struct fg_block_directory directory;
        struct fg_block_index index;
        struct fg_block_tree tree;
    };
};

static void parsed_destroy(void *value)
{
    struct parsed *parsed = value;

    fg_arena_destroy(parsed->arena);
    fg_cache_unref(parsed->below);
    free(parsed);
}

static struct parsed *parsed_create(size_t max_bytes, struct fg_cache_entry *below)
{
    struct parsed *parsed = fg_new(struct parsed);

    parsed->arena = fg_arena_create(max_bytes);
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
    *ret_bytes = sizeof *parsed + fg_arena_used_bytes(parsed->arena);
    return FG_OK;
}

/* ---- directories ---- */

static enum fg_code make_directory(const struct fetch_item *item, struct fg_slice bytes,
                                   size_t max_bytes, void **ret_value, size_t *ret_bytes,
                                   struct fg_err *err)
{
    const struct object *object = item->object;
    struct parsed *parsed = parsed_create(max_bytes, NULL);
    const struct fg_block_directory *directory = &parsed->directory;
    enum fg_code code =
        fg_block_directory_parse(bytes, object->bytes, parsed->arena, &parsed->directory, err);

    /* Bytes that are whole but not those that the manifest lists. */
    if (code == FG_OK &&
        (directory->n_profiles != object->profiles || !fg_id_eq(directory->digest, object->digest)))
        code = fg_fail(err, FG_E_CORRUPT, "its profiles are not those that the manifest lists");
    return parsed_take(parsed, code, ret_value, ret_bytes);
}

const struct thing thing_directory = {WHAT_DIRECTORY, make_directory, parsed_destroy};

const struct fg_block_directory *directory_of(const struct fg_cache_entry *entry)
{
    return &((const struct parsed *)fg_cache_value(entry))->directory;
}

/* ---- parts ---- */

static enum fg_code make_index(const struct fetch_item *item, struct fg_slice bytes,
                               size_t max_bytes, void **ret_value, size_t *ret_bytes,
                               struct fg_err *err)
{
    struct parsed *parsed = parsed_create(max_bytes, item->object->entry);

    return parsed_take(
        parsed, fg_block_part_parse(item->part->entry, bytes, parsed->arena, &parsed->index, err),
        ret_value, ret_bytes);
}

const struct thing thing_index = {WHAT_INDEX, make_index, parsed_destroy};

const struct fg_block_index *index_of(const struct fg_cache_entry *entry)
{
    return &((const struct parsed *)fg_cache_value(entry))->index;
}

static enum fg_code make_tree(const struct fetch_item *item, struct fg_slice bytes,
                              size_t max_bytes, void **ret_value, size_t *ret_bytes,
                              struct fg_err *err)
{
    struct parsed *parsed = parsed_create(max_bytes, NULL);

    return parsed_take(
        parsed, fg_block_tree_parse(item->part->index, bytes, parsed->arena, &parsed->tree, err),
        ret_value, ret_bytes);
}

const struct thing thing_tree = {WHAT_TREE, make_tree, parsed_destroy};

const struct fg_block_tree *tree_of(const struct fg_cache_entry *entry)
{
    return &((const struct parsed *)fg_cache_value(entry))->tree;
}

/* Nodes of names by rank: what samples are sums of. */
static void number_by_rank(const struct fg_block_tree *tree, struct fg_name_tree *names)
{
    uint32_t *ranks = fg_malloc(FG_MAX((size_t)tree->n_stacks, 1) * sizeof *ranks);

    for (uint32_t i = 0; i < tree->n_stacks; i++)
        ranks[i] = tree->nodes[i] == 0 ? (uint32_t)FG_TREE_ROOT : names->nodes[tree->nodes[i] - 1];
    free(names->nodes);
    names->nodes = ranks;
    names->n_from = tree->n_stacks;
}

static enum fg_code make_names(const struct fetch_item *item, struct fg_slice bytes,
                               size_t max_bytes, void **ret_value, size_t *ret_bytes,
                               struct fg_err *err)
{
    struct fg_arena *arena = fg_arena_create(max_bytes);
    struct fg_name_tree *names;
    struct fg_block_tree tree;
    enum fg_code code = fg_block_tree_parse(item->part->index, bytes, arena, &tree, err);

    if (code == FG_OK) {
        names = fg_new(struct fg_name_tree);
        fg_name_tree_init_stacks(names, &tree.tree);
        number_by_rank(&tree, names);
        *ret_value = names;
        *ret_bytes = fg_name_tree_bytes(names);
    }
    fg_arena_destroy(arena);
    return code;
}

static void names_destroy(void *value)
{
    fg_name_tree_done(value);
    free(value);
}

const struct thing thing_names = {WHAT_NAMES, make_names, names_destroy};

const struct fg_name_tree *names_of(const struct fg_cache_entry *entry)
{
    return fg_cache_value(entry);
}

/* ---- pages ---- */

/* As it was stored: unpacking is cheap, and packed there is room for more. */
struct page {
    size_t len;
    uint8_t bytes[];
};

static enum fg_code make_page(const struct fetch_item *item, struct fg_slice bytes,
                              size_t max_bytes, void **ret_value, size_t *ret_bytes,
                              struct fg_err *err)
{
    const struct fg_block_page *entry = &item->part->index->pages[item->kind].pages[item->number];
    struct page *page;

    (void)max_bytes; /* of what is unpacked later */
    if (fg_crc32c(bytes) != entry->crc)
        return fg_fail(err, FG_E_CORRUPT, "page %u of section %u: checksum does not fit",
                       item->number, item->kind);
    page = fg_malloc(sizeof *page + bytes.len);
    page->len = bytes.len;
    if (bytes.len > 0)
        memcpy(page->bytes, bytes.ptr, bytes.len);
    *ret_value = page;
    *ret_bytes = sizeof *page + bytes.len;
    return FG_OK;
}

const struct thing thing_page = {WHAT_PAGE, make_page, free};

struct fg_slice page_of(const struct fg_cache_entry *entry)
{
    const struct page *page = fg_cache_value(entry);

    return fg_bytes(page->bytes, page->len);
}

enum fg_code fetch_add_pages(struct fetch_list *list, struct fg_arena *arena, struct part *part,
                             uint32_t kind, const bool *marks, unsigned phase, struct fg_err *err)
{
    const struct fg_block_pages *pages = &part->index->pages[kind];

    for (uint32_t i = 0; i < pages->count; i++)
        if (marks[i] &&
            fetch_add(list, arena,
                      &(struct fetch_item){.thing = &thing_page,
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
