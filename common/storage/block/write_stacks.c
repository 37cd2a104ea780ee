/*
 * Stacks and their symbols, in canonical order. Sections of many items are cut into pages; columns
 * begin again in each, differences continue. Every page begins with its varint number of items n.
 *
 *   MAP   n zigzag: node + 1 (0: the empty stack) - that of the rank before
 *   TRI   n varints: how far up from the node before its parent is, 0: that node itself;
 *         n varints: location
 *   FRM   columns: mapping + 1; 2 * lines + folded; zigzag address - that before;
 *         of all lines: zigzag function - that of the line before; zigzag line - that of the line
 *         before where the function is the same, else - the function's start line
 *   MPG   each: varint file, build id, start, limit, offset, flags
 *   FUN   columns: varint name - that before; varint 1 + system name, 0: it is the name;
 *         zigzag file - that before; zigzag start line
 *   STR   columns: varint bytes shared with the string before, varint bytes of its own; then these
 */
#include "common/storage/block/writer_impl.h"

/* A section that is being written. */
struct stacks_writing {
    struct fg_block_writer *writer;
    const struct fg_block_order *order;
    const struct fg_symbols *symbols;
    struct fg_buf *raw;
};

static void begin_page(struct fg_block_writer *writer, uint32_t items)
{
    fg_buf_clear(&writer->raw);
    fg_buf_varint(&writer->raw, items);
}

static enum fg_code end_page(struct fg_block_writer *writer, uint32_t kind, uint32_t items,
                             struct fg_err *err)
{
    const struct fg_block_span span = {.count = items};

    writer->rest.kind = kind;
    return fg_block_page_put(writer, &writer->rest, &span, err);
}

enum fg_code fg_block_items_put(struct fg_block_writer *writer, uint32_t kind, uint32_t count,
                                fg_block_encoder encode, void *arg, struct fg_err *err)
{
    uint32_t to;

    for (uint32_t from = 0; from < count; from = to) {
        to = from + FG_MIN(count - from, (uint32_t)FG_BLOCK_STACK_PAGE_ITEMS);
        begin_page(writer, to - from);
        encode(arg, from, to);
        if (end_page(writer, kind, to - from, err) != FG_OK)
            return err->code;
    }
    return fg_block_section_end(writer, &writer->rest, err);
}

/* ---- the tree ---- */

static void encode_map(void *arg, uint32_t from, uint32_t to)
{
    struct stacks_writing *writing = arg;
    const uint32_t *stacks = writing->writer->part.ranks.stacks;
    uint32_t before = from == 0 ? 0 : stacks[from - 1];

    for (uint32_t i = from; i < to; i++) {
        fg_buf_zigzag(writing->raw, (int64_t)stacks[i] - (int64_t)before);
        before = stacks[i];
    }
}

static uint32_t parent_of(const struct fg_block_order *order, uint32_t node)
{
    uint32_t parent = order->tree->parents[order->nodes.olds[node]];

    return parent == FG_TREE_ROOT ? FG_TREE_ROOT : order->nodes.news[parent];
}

/* Counts the steps from the node before up to the parent of this one. All nodes together take
 * each step once, so this is linear. */
static uint32_t steps_up(const struct fg_block_order *order, uint32_t node)
{
    uint32_t parent = parent_of(order, node), at = node - 1, steps = 0;

    if (node == 0)
        return 0;
    for (; at != parent; at = parent_of(order, at))
        steps++;
    return steps;
}

static void encode_tree(void *arg, uint32_t from, uint32_t to)
{
    struct stacks_writing *writing = arg;
    const struct fg_block_order *order = writing->order;

    for (uint32_t i = from; i < to; i++)
        fg_buf_varint(writing->raw, steps_up(order, i));
    for (uint32_t i = from; i < to; i++)
        fg_buf_varint(writing->raw,
                      order->locations.news[order->tree->locations[order->nodes.olds[i]]]);
}

/* ---- symbols ---- */

static const struct fg_location *location_at(const struct stacks_writing *writing, uint32_t number)
{
    return &writing->symbols->locations[writing->order->locations.olds[number]];
}

/* Finds the last line of the locations before this one. Returns false if they have none. */
static bool line_before(const struct stacks_writing *writing, uint32_t number,
                        struct fg_line *ret_line)
{
    while (number-- > 0) {
        const struct fg_location *location = location_at(writing, number);

        if (location->n_lines > 0) {
            *ret_line = writing->symbols->lines[location->first_line + location->n_lines - 1];
            return true;
        }
    }
    return false;
}

/* Functions, or line numbers, of the lines of locations [from, to). */
static void encode_lines(struct stacks_writing *writing, uint32_t from, uint32_t to, bool functions)
{
    const struct fg_block_order *order = writing->order;
    struct fg_line before = {0, 0};
    bool any = line_before(writing, from, &before);

    for (uint32_t i = from; i < to; i++) {
        const struct fg_location *location = location_at(writing, i);

        for (uint32_t k = 0; k < location->n_lines; k++) {
            struct fg_line line = writing->symbols->lines[location->first_line + k];
            int64_t base = any && line.function == before.function
                               ? before.line
                               : writing->symbols->functions[line.function].start_line;
            uint32_t above = any ? order->functions.news[before.function] : 0;

            if (functions)
                fg_buf_zigzag(writing->raw,
                              (int64_t)order->functions.news[line.function] - (int64_t)above);
            else
                fg_buf_zigzag(writing->raw, fg_wrap_sub(line.line, base));
            before = line;
            any = true;
        }
    }
}

static void encode_locations(void *arg, uint32_t from, uint32_t to)
{
    struct stacks_writing *writing = arg;
    uint64_t before = from == 0 ? 0 : location_at(writing, from - 1)->address;

    for (uint32_t i = from; i < to; i++) {
        uint32_t mapping = location_at(writing, i)->mapping;

        fg_buf_varint(writing->raw,
                      mapping == FG_NO_MAPPING ? 0 : writing->order->mappings.news[mapping] + 1);
    }
    for (uint32_t i = from; i < to; i++)
        fg_buf_varint(writing->raw, (uint64_t)location_at(writing, i)->n_lines * 2 +
                                        location_at(writing, i)->folded);
    for (uint32_t i = from; i < to; i++) {
        fg_buf_zigzag(writing->raw, (int64_t)(location_at(writing, i)->address - before));
        before = location_at(writing, i)->address;
    }
    encode_lines(writing, from, to, true);
    encode_lines(writing, from, to, false);
}

static void encode_mappings(void *arg, uint32_t from, uint32_t to)
{
    struct stacks_writing *writing = arg;
    for (uint32_t i = from; i < to; i++) {
        const struct fg_mapping *mapping =
            &writing->symbols->mappings[writing->order->mappings.olds[i]];

        fg_buf_varint(writing->raw, writing->order->strings.news[mapping->filename]);
        fg_buf_varint(writing->raw, writing->order->strings.news[mapping->build_id]);
        fg_buf_varint(writing->raw, mapping->start);
        fg_buf_varint(writing->raw, mapping->limit);
        fg_buf_varint(writing->raw, mapping->offset);
        fg_buf_varint(writing->raw, mapping->flags);
    }
}

static const struct fg_function *function_at(const struct stacks_writing *writing, uint32_t number)
{
    return &writing->symbols->functions[writing->order->functions.olds[number]];
}

static void encode_functions(void *arg, uint32_t from, uint32_t to)
{
    struct stacks_writing *writing = arg;
    const uint32_t *strings = writing->order->strings.news;
    uint32_t name = from == 0 ? 0 : strings[function_at(writing, from - 1)->name];
    uint32_t file = from == 0 ? 0 : strings[function_at(writing, from - 1)->filename];

    for (uint32_t i = from; i < to; i++) {
        uint32_t own = strings[function_at(writing, i)->name];

        /* Not negative: functions are sorted by name first. */
        fg_buf_varint(writing->raw, own - name);
        name = own;
    }
    for (uint32_t i = from; i < to; i++) {
        const struct fg_function *function = function_at(writing, i);

        fg_buf_varint(writing->raw, function->system_name == function->name
                                        ? 0
                                        : (uint64_t)strings[function->system_name] + 1);
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t own = strings[function_at(writing, i)->filename];

        fg_buf_zigzag(writing->raw, (int64_t)own - (int64_t)file);
        file = own;
    }
    for (uint32_t i = from; i < to; i++)
        fg_buf_zigzag(writing->raw, function_at(writing, i)->start_line);
}

/* ---- strings ---- */

/* Bytes a text shares with the one before it; that of another page does not count. */
static size_t shared_bytes(const struct fg_slice *texts, uint32_t number, uint32_t from)
{
    struct fg_slice text = texts[number], before;
    size_t shared = 0;

    if (number == from)
        return 0;
    before = texts[number - 1];
    while (shared < FG_MIN(text.len, before.len) && text.ptr[shared] == before.ptr[shared])
        shared++;
    return shared;
}

enum fg_code fg_block_texts_put(struct fg_block_writer *writer, uint32_t kind,
                                const struct fg_slice *texts, uint32_t count, struct fg_err *err)
{
    uint32_t to;

    for (uint32_t from = 0; from < count; from = to) {
        size_t bytes = 0;

        for (to = from; to < count && bytes < FG_BLOCK_TEXT_PAGE_BYTES; to++)
            bytes += texts[to].len - shared_bytes(texts, to, from) + 2;
        begin_page(writer, to - from);
        for (uint32_t i = from; i < to; i++)
            fg_buf_varint(&writer->raw, shared_bytes(texts, i, from));
        for (uint32_t i = from; i < to; i++)
            fg_buf_varint(&writer->raw, texts[i].len - shared_bytes(texts, i, from));
        for (uint32_t i = from; i < to; i++)
            fg_buf_put(&writer->raw,
                       fg_slice_sub(texts[i], shared_bytes(texts, i, from), SIZE_MAX));
        if (end_page(writer, kind, to - from, err) != FG_OK)
            return err->code;
    }
    return fg_block_section_end(writer, &writer->rest, err);
}

static enum fg_code put_strings(struct fg_block_writer *writer, struct fg_err *err)
{
    const struct fg_block_order *order = &writer->part.order;
    struct fg_arena_mark mark = fg_arena_mark(writer->arena);
    uint32_t count = order->strings.count;
    struct fg_slice *texts = fg_arena_new(writer->arena, struct fg_slice, count);
    enum fg_code code;

    fg_assert(texts != NULL); /* the writer's arena has no end */
    for (uint32_t i = 0; i < count; i++)
        texts[i] = fg_symbols_text(&order->tree->symbols, order->strings.olds[i]);
    code = fg_block_texts_put(writer, FG_BLOCK_STR, texts, count, err);
    fg_arena_release(writer->arena, mark);
    return code;
}

enum fg_code fg_block_write_stacks(struct fg_block_writer *writer, struct fg_err *err)
{
    const struct fg_block_order *order = &writer->part.order;
    struct stacks_writing writing = {writer, order, &order->tree->symbols, &writer->raw};
    const struct {
        uint32_t kind, count;
        fg_block_encoder encode;
    } sections[] = {{FG_BLOCK_MAP, writer->part.ranks.n_stacks, encode_map},
                    {FG_BLOCK_TRI, order->nodes.count, encode_tree},
                    {FG_BLOCK_FRM, order->locations.count, encode_locations},
                    {FG_BLOCK_MPG, order->mappings.count, encode_mappings},
                    {FG_BLOCK_FUN, order->functions.count, encode_functions}};

    for (size_t i = 0; i < FG_COUNT(sections); i++)
        if (fg_block_items_put(writer, sections[i].kind, sections[i].count, sections[i].encode,
                               &writing, err) != FG_OK)
            return err->code;
    return put_strings(writer, err);
}
