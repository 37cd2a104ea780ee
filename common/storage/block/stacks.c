/*
 * Stack tree and symbols; what is stored is said where it is written (write_stacks.c). Everything
 * is in the canonical order or it is corrupt, so nothing is there twice.
 */
#include "common/storage/block/order.h"
#include "common/storage/block/reader_impl.h"

/* A section that is read page by page. Columns begin again in each page; differences continue. */
struct section {
    const struct fg_block_index *index;
    struct fg_arena *arena;
    struct fg_slice bytes; /* of all sections of the tree */
    uint64_t offset;       /* of these bytes in the object */
    struct fg_cur cur;     /* in the current page */
    uint32_t from, count;  /* items of this page, in all of the section */
    uint64_t *numbers;     /* [count], for one column */
    bool full;             /* the arena was, while parsing */
};

/* Parses items [from, from + count) of a section. */
typedef bool (*page_parser)(struct section *section, void *arg);

static enum fg_code open_page(struct section *section, uint32_t kind, uint32_t number,
                              size_t min_bytes, struct fg_err *err)
{
    const struct fg_block_page *page = &section->index->pages[kind].pages[number];
    struct fg_slice stored =
        fg_slice_sub(section->bytes, (size_t)(page->offset - section->offset), page->bytes);
    struct fg_slice raw;

    if (fg_block_page_open(section->index, kind, number, stored, section->arena, &raw, err) !=
        FG_OK)
        return err->code;
    section->cur = fg_cur(raw);
    section->from = page->first;
    section->count = page->items;
    if (fg_cur_count(&section->cur, min_bytes) != page->items || section->cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "%u items in %zu bytes", page->items, raw.len);
    section->numbers = fg_arena_new(section->arena, uint64_t, section->count);
    return section->numbers == NULL ? fg_block_no_room(err, "stacks") : FG_OK;
}

/* Reads all pages of a kind. Temporary memory of a page is released after it. */
static enum fg_code parse_pages(struct section *section, uint32_t kind, size_t min_bytes,
                                page_parser parse, void *arg, struct fg_err *err)
{
    for (uint32_t i = 0; i < section->index->pages[kind].count; i++) {
        struct fg_arena_mark mark = fg_arena_mark(section->arena);

        if (open_page(section, kind, i, min_bytes, err) != FG_OK)
            return fg_block_page_wrap(err, kind, i);
        if (!parse(section, arg) || !fg_cur_end(&section->cur)) {
            (void)(section->full ? fg_block_no_room(err, "stacks")
                                 : fg_fail(err, FG_E_CORRUPT, "numbers, or their order"));
            return fg_block_page_wrap(err, kind, i);
        }
        fg_arena_release(section->arena, mark);
    }
    return FG_OK;
}

static uint32_t count_of(const struct fg_block_index *index, uint32_t kind)
{
    const struct fg_block_pages *pages = &index->pages[kind];

    return pages->count == 0
               ? 0
               : pages->pages[pages->count - 1].first + pages->pages[pages->count - 1].items;
}

/* Room for the numbers of one more column. */
static uint64_t *more_numbers(struct section *section, uint32_t count)
{
    uint64_t *numbers = fg_arena_new(section->arena, uint64_t, count);

    section->full = section->full || numbers == NULL;
    return numbers;
}

static void get_column(struct section *section)
{
    fg_cur_varints(&section->cur, section->numbers, section->count);
}

/* ---- strings ---- */

/* Texts share their beginnings, so their sum is known only when all lengths were read. */
struct strings {
    struct fg_symbols *symbols;
    bool has_empty;      /* "" is number 0 */
    uint64_t text_bytes; /* first pass: of all strings */
    uint64_t *shared;    /* [count] of the page */
};

static bool get_lengths(struct section *section, struct strings *strings, uint64_t *ret_bytes)
{
    uint64_t bytes = 0, own = 0, before = 0;

    strings->shared = section->numbers;
    get_column(section);
    section->numbers = more_numbers(section, section->count);
    if (section->numbers == NULL)
        return false;
    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        /* A string is at most a page long, so sums of pages and items stay below 2^64. */
        if (strings->shared[i] > before || section->numbers[i] > section->cur.left - own)
            return false;
        own += section->numbers[i];
        before = strings->shared[i] + section->numbers[i];
        bytes += before;
    }
    *ret_bytes = bytes;
    return !section->cur.bad && own == section->cur.left;
}

static bool measure_strings(struct section *section, void *arg)
{
    struct strings *strings = arg;
    uint64_t bytes;

    if (!get_lengths(section, strings, &bytes))
        return false;
    strings->text_bytes += bytes;
    (void)fg_cur_take(&section->cur, section->cur.left);
    return true;
}

static bool parse_strings(struct section *section, void *arg)
{
    struct strings *strings = arg;
    struct fg_symbols *symbols = strings->symbols;
    size_t before = 0; /* where the string before begins, in this page */
    uint64_t bytes;

    if (!get_lengths(section, strings, &bytes))
        return false;
    for (uint32_t i = 0; i < section->count; i++) {
        struct fg_slice own = fg_cur_take(&section->cur, section->numbers[i]);
        size_t shared = (size_t)strings->shared[i], from = symbols->text_len;
        uint32_t number = section->from + i;

        if (shared > 0)
            memcpy(symbols->text + from, symbols->text + before, shared);
        if (own.len > 0)
            memcpy(symbols->text + from + shared, own.ptr, own.len);
        symbols->text_len += shared + own.len;
        symbols->string_ends[number] = symbols->text_len;
        symbols->n_strings = number + 1;
        before = from;
        if (number == 0 ? strings->has_empty && symbols->text_len > 0
                        : fg_slice_cmp(fg_symbols_text(symbols, number - 1),
                                       fg_symbols_text(symbols, number)) >= 0)
            return false;
    }
    return true;
}

/* kind: FG_BLOCK_STR, where "" comes first, or FG_BLOCK_NMS. */
static enum fg_code read_strings(struct section *section, uint32_t kind, struct fg_symbols *symbols,
                                 struct fg_err *err)
{
    struct strings strings = {symbols, kind == FG_BLOCK_STR, 0, NULL};
    uint32_t count = count_of(section->index, kind);

    if (count == 0 && kind == FG_BLOCK_STR)
        return fg_fail(err, FG_E_CORRUPT, "STR: missing");
    if (parse_pages(section, kind, 2, measure_strings, &strings, err) != FG_OK)
        return err->code;
    symbols->text = fg_arena_alloc(section->arena, FG_MAX(strings.text_bytes, 1));
    symbols->string_ends = fg_arena_new(section->arena, size_t, count);
    if (symbols->text == NULL || symbols->string_ends == NULL)
        return fg_block_no_room(err, "strings");
    symbols->text_cap = strings.text_bytes;
    symbols->cap_strings = count;
    return parse_pages(section, kind, 2, parse_strings, &strings, err);
}

/* ---- functions ---- */

/* Adds a signed step to *at. Returns false if the result is not below limit. */
static bool step(uint64_t number, uint32_t limit, uint32_t *at)
{
    int64_t next = fg_wrap_add((int64_t)*at, fg_unzigzag(number));

    if (next < 0 || next >= (int64_t)limit)
        return false;
    *at = (uint32_t)next;
    return true;
}

static bool parse_functions(struct section *section, void *arg)
{
    struct fg_symbols *symbols = arg;
    struct fg_function *functions = symbols->functions + section->from;
    uint32_t name = section->from == 0 ? 0 : functions[-1].name;
    uint32_t file = section->from == 0 ? 0 : functions[-1].filename;

    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        if (section->numbers[i] >= symbols->n_strings - name)
            return false;
        name += (uint32_t)section->numbers[i];
        functions[i].name = name;
    }
    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        uint64_t number = section->numbers[i];

        /* A system name that is the name has to be written as 0: there is one way to write
         * everything. */
        if (number > symbols->n_strings || number == (uint64_t)functions[i].name + 1)
            return false;
        functions[i].system_name = number == 0 ? functions[i].name : (uint32_t)number - 1;
    }
    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        if (!step(section->numbers[i], symbols->n_strings, &file))
            return false;
        functions[i].filename = file;
    }
    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        functions[i].start_line = fg_unzigzag(section->numbers[i]);
        if (section->from + i > 0 && fg_block_function_cmp(&functions[i] - 1, &functions[i]) >= 0)
            return false;
    }
    symbols->n_functions = section->from + section->count;
    return true;
}

static bool parse_mappings(struct section *section, void *arg)
{
    struct fg_symbols *symbols = arg;

    for (uint32_t i = 0; i < section->count; i++) {
        struct fg_mapping *mapping = &symbols->mappings[section->from + i];
        uint64_t file = fg_cur_varint(&section->cur), build_id = fg_cur_varint(&section->cur);
        uint64_t flags;

        mapping->start = fg_cur_varint(&section->cur);
        mapping->limit = fg_cur_varint(&section->cur);
        mapping->offset = fg_cur_varint(&section->cur);
        flags = fg_cur_varint(&section->cur);
        if (file >= symbols->n_strings || build_id >= symbols->n_strings || flags > UINT32_MAX)
            return false;
        mapping->filename = (uint32_t)file;
        mapping->build_id = (uint32_t)build_id;
        mapping->flags = (uint32_t)flags;
        if (section->from + i > 0 && fg_block_mapping_cmp(mapping - 1, mapping) >= 0)
            return false;
    }
    symbols->n_mappings = section->from + section->count;
    return true;
}

/* ---- locations ---- */

/* A table of lines that is not known to be so long before all heads were read. */
struct lines {
    struct fg_symbols *symbols;
    uint32_t function; /* of the last line so far */
    int64_t line;
};

static bool get_heads(struct section *section, struct fg_symbols *symbols, uint64_t *ret_lines)
{
    struct fg_location *locations = symbols->locations + section->from;
    uint64_t address = section->from == 0 ? 0 : locations[-1].address, lines = 0;

    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        if (section->numbers[i] > symbols->n_mappings)
            return false;
        locations[i].mapping = (uint32_t)section->numbers[i] - 1; /* none: FG_NO_MAPPING */
    }
    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        /* Each line takes two bytes at least. */
        if (section->numbers[i] / 2 > section->cur.left / 2 - lines)
            return false;
        locations[i].folded = (section->numbers[i] & 1) != 0;
        locations[i].n_lines = (uint32_t)(section->numbers[i] / 2);
        locations[i].first_line = symbols->n_lines + (uint32_t)lines;
        lines += locations[i].n_lines;
    }
    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        address += (uint64_t)fg_unzigzag(section->numbers[i]);
        locations[i].address = address;
    }
    *ret_lines = lines;
    return !section->cur.bad && lines <= section->cur.left / 2 &&
           lines <= FG_BLOCK_ITEMS_MAX - symbols->n_lines;
}

static bool get_lines(struct section *section, struct lines *lines, uint32_t count)
{
    struct fg_symbols *symbols = lines->symbols;
    struct fg_line *out;
    uint32_t before = lines->function;
    uint64_t *numbers = more_numbers(section, count);

    out = symbols->lines + symbols->n_lines;
    if (numbers == NULL)
        return false;
    fg_cur_varints(&section->cur, numbers, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!step(numbers[i], symbols->n_functions, &lines->function))
            return false;
        out[i].function = lines->function;
    }
    fg_cur_varints(&section->cur, numbers, count);
    for (uint32_t i = 0; i < count; i++) {
        bool same = out[i].function == before && symbols->n_lines + i > 0;
        int64_t base = same ? lines->line : symbols->functions[out[i].function].start_line;

        lines->line = fg_wrap_add(base, fg_unzigzag(numbers[i]));
        out[i].line = lines->line;
        before = out[i].function;
    }
    symbols->n_lines += count;
    return !section->cur.bad;
}

static bool parse_locations(struct section *section, void *arg)
{
    struct lines *lines = arg;
    struct fg_symbols *symbols = lines->symbols;
    struct fg_location *locations = symbols->locations + section->from;
    uint64_t count;

    if (!get_heads(section, symbols, &count) || count > symbols->cap_lines - symbols->n_lines ||
        !get_lines(section, lines, (uint32_t)count))
        return false;
    for (uint32_t i = 0; i < section->count; i++)
        if (section->from + i > 0 && fg_block_location_cmp(&locations[i] - 1, symbols->lines,
                                                           &locations[i], symbols->lines) >= 0)
            return false;
    symbols->n_locations = section->from + section->count;
    return true;
}

static enum fg_code read_symbols(struct section *section, struct fg_symbols *symbols,
                                 struct fg_err *err)
{
    const struct fg_block_index *index = section->index;
    struct lines lines = {symbols, 0, 0};

    if (read_strings(section, FG_BLOCK_STR, symbols, err) != FG_OK)
        return err->code;
    symbols->cap_functions = count_of(index, FG_BLOCK_FUN);
    symbols->cap_mappings = count_of(index, FG_BLOCK_MPG);
    symbols->cap_locations = count_of(index, FG_BLOCK_FRM);

    /* Each line takes two bytes of raw pages. One more, since the room is added to. */
    const struct fg_block_pages *pages = &index->pages[FG_BLOCK_FRM];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < pages->count; i++)
        bytes += pages->pages[i].raw_bytes;
    symbols->cap_lines = (uint32_t)FG_MIN(bytes / 2, (uint64_t)FG_BLOCK_ITEMS_MAX) + 1;
    symbols->functions = fg_arena_new(section->arena, struct fg_function, symbols->cap_functions);
    symbols->mappings = fg_arena_new(section->arena, struct fg_mapping, symbols->cap_mappings);
    symbols->locations = fg_arena_new(section->arena, struct fg_location, symbols->cap_locations);
    symbols->lines = fg_arena_new(section->arena, struct fg_line, symbols->cap_lines);
    if (symbols->functions == NULL || symbols->mappings == NULL || symbols->locations == NULL ||
        symbols->lines == NULL)
        return fg_block_no_room(err, "symbols");
    if (parse_pages(section, FG_BLOCK_FUN, 4, parse_functions, symbols, err) != FG_OK ||
        parse_pages(section, FG_BLOCK_MPG, 6, parse_mappings, symbols, err) != FG_OK)
        return err->code;
    return parse_pages(section, FG_BLOCK_FRM, 3, parse_locations, &lines, err);
}

/* ---- nodes ---- */

/* Parents are found by their depth on the path to the node before. */
struct nodes {
    uint32_t *parents, *locations; /* or names */
    uint32_t n_locations;
    uint32_t *path; /* the node of each depth */
    uint32_t *last; /* the last child's location so far, by depth: siblings ascend */
    uint64_t depth; /* of the node before, 1 for a child of the root; 0 before the first */
};

static bool parse_nodes(struct section *section, void *arg)
{
    struct nodes *nodes = arg;
    uint32_t *parents = nodes->parents + section->from;

    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        /* The first node of all has depth 0 before it, so it becomes a child of the root. */
        if (section->numbers[i] > nodes->depth)
            return false;
        nodes->depth -= section->numbers[i];
        parents[i] = nodes->depth == 0 ? FG_TREE_ROOT : nodes->path[nodes->depth - 1];
        nodes->path[nodes->depth++] = section->from + i;
    }
    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        uint32_t *last = &nodes->last[parents[i] + 1]; /* FG_TREE_ROOT + 1 is 0 */

        /* Siblings ascend strictly, so no stack can be there twice. */
        if (section->numbers[i] >= nodes->n_locations || section->numbers[i] < *last)
            return false;
        *last = (uint32_t)section->numbers[i] + 1;
        nodes->locations[section->from + i] = (uint32_t)section->numbers[i];
    }
    return true;
}

/* kind: FG_BLOCK_TRI, or FG_BLOCK_NMT. nodes: its arrays are made here. */
static enum fg_code read_nodes(struct section *section, uint32_t kind, uint32_t count,
                               struct nodes *nodes, struct fg_err *err)
{
    struct fg_arena_mark mark;

    nodes->parents = fg_arena_new(section->arena, uint32_t, count);
    nodes->locations = fg_arena_new(section->arena, uint32_t, count);
    mark = fg_arena_mark(section->arena);
    nodes->path = fg_arena_new(section->arena, uint32_t, count);
    nodes->last = fg_arena_new(section->arena, uint32_t, (size_t)count + 1);
    if (nodes->parents == NULL || nodes->locations == NULL || nodes->path == NULL ||
        nodes->last == NULL)
        return fg_block_no_room(err, "nodes");
    if (parse_pages(section, kind, 2, parse_nodes, nodes, err) != FG_OK)
        return err->code;
    fg_arena_release(section->arena, mark);
    return FG_OK;
}

static enum fg_code read_tree(struct section *section, struct fg_tree *tree, struct fg_err *err)
{
    struct nodes nodes = {.n_locations = tree->symbols.n_locations};
    uint32_t count = section->index->part->n_nodes;

    if (read_nodes(section, FG_BLOCK_TRI, count, &nodes, err) != FG_OK)
        return err->code;
    tree->parents = nodes.parents;
    tree->locations = nodes.locations;
    tree->n_nodes = tree->cap_nodes = count;
    return FG_OK;
}

/* ---- ranks ---- */

struct ranks {
    uint32_t *nodes;
    uint32_t n_nodes, at;
};

static bool parse_ranks(struct section *section, void *arg)
{
    struct ranks *ranks = arg;

    get_column(section);
    for (uint32_t i = 0; i < section->count; i++) {
        if (!step(section->numbers[i], ranks->n_nodes + 1, &ranks->at))
            return false;
        ranks->nodes[section->from + i] = ranks->at;
    }
    return true;
}

/* kind: FG_BLOCK_MAP, or FG_BLOCK_NMR. *ret_nodes: of a rank, node + 1, or 0. */
static enum fg_code read_ranks(struct section *section, uint32_t kind, uint32_t n_nodes,
                               uint32_t **ret_nodes, struct fg_err *err)
{
    uint32_t count = section->index->part->n_stacks;
    struct ranks ranks = {fg_arena_new(section->arena, uint32_t, count), n_nodes, 0};

    *ret_nodes = ranks.nodes;
    if (ranks.nodes == NULL)
        return fg_block_no_room(err, "stacks");
    return parse_pages(section, kind, 1, parse_ranks, &ranks, err);
}

static enum fg_code check_symbols(const struct fg_block_part *part, struct fg_err *err)
{
    if (part->symbols_version == FG_BLOCK_SYMBOLS_VERSION)
        return FG_OK;
    return fg_fail(err, FG_E_UNIMPLEMENTED,
                   "stacks and symbols of version %u, which this program cannot read: it knows %u",
                   part->symbols_version, (unsigned)FG_BLOCK_SYMBOLS_VERSION);
}

enum fg_code fg_block_tree_parse(const struct fg_block_index *index, struct fg_slice bytes,
                                 struct fg_arena *arena, struct fg_block_tree *ret_tree,
                                 struct fg_err *err)
{
    struct fg_block_range range = fg_block_part_range(index->part, FG_BLOCK_WANT_TREE);
    struct section section = {
        .index = index, .arena = arena, .bytes = bytes, .offset = range.offset};
    struct fg_block_tree tree = {.n_stacks = index->part->n_stacks};
    uint32_t *nodes;

    if (check_symbols(index->part, err) != FG_OK)
        return err->code;
    if (bytes.len != range.len)
        return fg_fail(err, FG_E_CORRUPT, "stacks: %zu bytes", bytes.len);
    if (read_symbols(&section, &tree.tree.symbols, err) != FG_OK ||
        read_tree(&section, &tree.tree, err) != FG_OK ||
        read_ranks(&section, FG_BLOCK_MAP, tree.tree.n_nodes, &nodes, err) != FG_OK)
        return err->code;
    tree.nodes = nodes;
    *ret_tree = tree;
    return FG_OK;
}

/* ---- names ---- */

static enum fg_code read_names(struct section *section, struct fg_function_tree *names,
                               struct fg_err *err)
{
    uint32_t count = count_of(section->index, FG_BLOCK_NMS);
    struct fg_symbols symbols = {0};

    if (read_strings(section, FG_BLOCK_NMS, &symbols, err) != FG_OK)
        return err->code;
    names->names = fg_arena_new(section->arena, struct fg_slice, count);
    if (names->names == NULL)
        return fg_block_no_room(err, "names");
    for (uint32_t i = 0; i < count; i++)
        names->names[i] = fg_symbols_text(&symbols, i);
    names->n_names = count;
    return FG_OK;
}

static enum fg_code read_name_nodes(struct section *section, struct fg_function_tree *names,
                                    struct fg_err *err)
{
    struct nodes nodes = {.n_locations = names->n_names};
    uint32_t count = count_of(section->index, FG_BLOCK_NMT);

    if (read_nodes(section, FG_BLOCK_NMT, count, &nodes, err) != FG_OK)
        return err->code;
    names->parents = nodes.parents;
    names->functions = nodes.locations;
    names->n_nodes = count;
    names->outermost = fg_arena_new(section->arena, bool, count);
    if (names->outermost == NULL || !fg_function_tree_find_outermost(names, section->arena))
        return fg_block_no_room(err, "names");
    return FG_OK;
}

enum fg_code fg_block_function_tree_parse(const struct fg_block_index *index, struct fg_slice bytes,
                                          struct fg_arena *arena,
                                          struct fg_function_tree *ret_names, struct fg_err *err)
{
    struct fg_block_range range = fg_block_part_range(index->part, FG_BLOCK_WANT_FUNCTION_TREE);
    struct section section = {
        .index = index, .arena = arena, .bytes = bytes, .offset = range.offset};
    struct fg_function_tree names = {.n_from = index->part->n_stacks, .no_stack = FG_TREE_ROOT};

    if (check_symbols(index->part, err) != FG_OK)
        return err->code;
    if (bytes.len != range.len)
        return fg_fail(err, FG_E_CORRUPT, "names: %zu bytes", bytes.len);
    if (count_of(index, FG_BLOCK_NMR) != index->part->n_stacks)
        return fg_fail(err, FG_E_CORRUPT, "NMR: %u stacks, should be %u",
                       count_of(index, FG_BLOCK_NMR), index->part->n_stacks);
    if (read_names(&section, &names, err) != FG_OK ||
        read_name_nodes(&section, &names, err) != FG_OK ||
        read_ranks(&section, FG_BLOCK_NMR, names.n_nodes, &names.nodes, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < names.n_from; i++) {
        if (names.nodes[i] == 0)
            return fg_fail(err, FG_E_CORRUPT, "NMR: stack %u has no name", i);
        names.nodes[i]--;
    }
    *ret_names = names;
    return FG_OK;
}

void fg_block_tree_functions(const struct fg_block_tree *tree, struct fg_function_tree *ret_names)
{
    uint32_t *nodes = fg_malloc(FG_MAX((size_t)tree->n_stacks, 1) * sizeof *nodes);
    struct fg_function_tree names;
    bool empty = false;

    for (uint32_t i = 0; i < tree->n_stacks; i++)
        empty = empty || tree->nodes[i] == 0;
    fg_function_tree_init_stacks(&names, &tree->tree, empty);
    for (uint32_t i = 0; i < tree->n_stacks; i++)
        nodes[i] = tree->nodes[i] == 0 ? names.no_stack : names.nodes[tree->nodes[i] - 1];
    free(names.nodes);
    names.nodes = nodes;
    names.n_from = tree->n_stacks;
    *ret_names = names;
}

enum fg_code fg_block_tree_values(const struct fg_block_tree *tree, const uint64_t *sums,
                                  struct fg_arena *arena, struct fg_tree *ret_view,
                                  struct fg_err *err)
{
    struct fg_tree view = tree->tree;

    view.self = fg_arena_new(arena, int64_t, view.n_nodes);
    if (view.self == NULL)
        return fg_block_no_room(err, "a tree's values");
    for (uint32_t i = 0; i < tree->n_stacks; i++) {
        int64_t *self = tree->nodes[i] == 0 ? &view.root_self : &view.self[tree->nodes[i] - 1];

        *self = fg_value_add(*self, (int64_t)sums[i]);
    }
    *ret_view = view;
    return FG_OK;
}
