/* Names, dictionary, crowns, tables and full rollups. */
#include "common/storage/block/pack.h"
#include "common/storage/rollup/reader.h"

enum { NAME_MIN_BYTES = 2, DICT_NODE_MIN_BYTES = 2 };

static enum fg_code no_room(const char *what, struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "no room for %s", what);
}

static enum fg_code corrupt(const char *what, struct fg_err *err)
{
    return fg_fail(err, FG_E_CORRUPT, "rollups: bad %s", what);
}

/* Unpacks the bytes of a place in a section. sealing NULL: they are not encrypted. */
static enum fg_code unpack(const struct fg_rollup_sealing *sealing, enum fg_block_kind kind,
                           const struct fg_rollup_place *place, struct fg_slice bytes,
                           const char *what, struct fg_arena *arena, struct fg_slice *ret_raw,
                           struct fg_err *err)
{
    struct fg_block_stored said = {
        .raw_bytes = place->raw_bytes, .crc = place->crc, .kind = kind, .number = place->offset};
    struct fg_seal_part seal = {.keys = NULL};

    if (place->bytes == 0) {
        *ret_raw = FG_LIT("");
        return FG_OK;
    }
    if (bytes.len != place->bytes)
        return fg_fail(err, FG_E_CORRUPT, "rollups: %zu bytes for %s, not %u", bytes.len, what,
                       place->bytes);
    if (sealing != NULL) {
        said.key = sealing->key;
        seal = (struct fg_seal_part){sealing->keys, sealing->tenant, sealing->service,
                                     sealing->digest};
    }
    if (fg_block_unpack_in(&seal, bytes, said, arena, ret_raw, err) != FG_OK)
        return fg_wrap(err, "rollups: %s", what);
    return FG_OK;
}

/* Reads ascending numbers below `end`. An error makes cur bad. */
static void get_gaps(struct fg_cur *cur, uint32_t *numbers, uint32_t count, uint32_t end)
{
    uint64_t next = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t gap = fg_cur_varint(cur);

        if (gap >= end - next) { /* next is end at most */
            fg_cur_fail(cur);
            return;
        }
        numbers[i] = (uint32_t)(next + gap);
        next += gap + 1;
    }
}

/* Reads a column. Each value is multiplied by factor, for rows that are multiples. */
static void get_column(struct fg_cur *cur, uint64_t factor, uint32_t count, int64_t *values)
{
    uint64_t scale = fg_cur_varint(cur);

    if (scale == 0) {
        memset(values, 0, count * sizeof *values);
        return;
    }
    /* In the format the product may wrap around (modulo 2^64). The factor is no part of that, so it
     * saturates. */
    for (uint32_t i = 0; i < count; i++)
        values[i] = fg_value_mul((int64_t)(fg_cur_varint(cur) * scale), factor);
}

/* ---- names and dictionary ---- */

/* Checks the names and computes their length together, for one allocation. Prefixes repeat, so it
 * may be many times the input; the arena bounds it. */
static bool measure_names(struct fg_slice raw, uint32_t count, uint64_t *ret_bytes)
{
    struct fg_cur cur = fg_cur(raw);
    uint64_t before = 0, bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t shared = fg_cur_varint(&cur);
        size_t rest = fg_cur_lenbytes(&cur).len;

        if (cur.bad || shared > before)
            return false;
        before = shared + rest;
        bytes += before;
    }
    *ret_bytes = bytes;
    return fg_cur_end(&cur);
}

static enum fg_code parse_names(struct fg_slice raw, uint32_t count, struct fg_arena *arena,
                                struct fg_function_tree *names, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(raw);
    uint64_t bytes;
    uint8_t *out;

    if (count > raw.len / NAME_MIN_BYTES || !measure_names(raw, count, &bytes))
        return corrupt("names", err);
    names->names = fg_arena_new(arena, struct fg_slice, count);
    out = bytes > SIZE_MAX / 2 ? NULL : fg_arena_alloc(arena, (size_t)bytes);
    if (names->names == NULL || out == NULL)
        return no_room("names", err);
    for (uint32_t i = 0; i < count; i++) {
        size_t shared = (size_t)fg_cur_varint(&cur);
        struct fg_slice rest = fg_cur_lenbytes(&cur);

        if (shared > 0)
            memcpy(out, names->names[i - 1].ptr, shared);
        if (rest.len > 0)
            memcpy(out + shared, rest.ptr, rest.len);
        names->names[i] = fg_bytes(out, shared + rest.len);
        /* Ascending, so each name is there once. */
        if (i > 0 && fg_slice_cmp(names->names[i - 1], names->names[i]) >= 0)
            return corrupt("names", err);
        out += shared + rest.len;
    }
    names->n_names = count;
    return FG_OK;
}

/* Reads the steps up from the node before. path: scratch for all nodes, the path from the root
 * to the node before. Siblings ascend by name, so that each is there once; see
 * parse_node_names(). */
static bool parse_nodes(struct fg_cur *cur, struct fg_function_tree *names, uint32_t *path)
{
    uint32_t depth = 0;

    for (uint32_t i = 0; i < names->n_nodes; i++) {
        uint64_t steps = fg_cur_varint(cur);

        if (steps > depth)
            return false;
        depth -= (uint32_t)steps;
        names->parents[i] = depth == 0 ? FG_TREE_ROOT : path[depth - 1];
        /* For the names, which come later: the sibling before, or none. */
        names->functions[i] = steps == 0 ? FG_MAP_NONE : path[depth];
        path[depth++] = i;
    }
    return !cur->bad;
}

static bool parse_node_names(struct fg_cur *cur, struct fg_function_tree *names)
{
    for (uint32_t i = 0; i < names->n_nodes; i++) {
        uint64_t name = fg_cur_varint(cur);
        uint32_t sibling = names->functions[i];

        if (name >= names->n_names || (sibling != FG_MAP_NONE && name <= names->functions[sibling]))
            return false;
        names->functions[i] = (uint32_t)name;
    }
    return fg_cur_end(cur);
}

static enum fg_code parse_dict(struct fg_slice raw, uint32_t count, struct fg_arena *arena,
                               struct fg_function_tree *names, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(raw);
    uint32_t *path;

    if (count > raw.len / DICT_NODE_MIN_BYTES)
        return corrupt("dictionary", err);
    names->n_nodes = count;
    names->parents = fg_arena_new(arena, uint32_t, count);
    names->functions = fg_arena_new(arena, uint32_t, count);
    path = fg_arena_new(arena, uint32_t, count);
    if (names->parents == NULL || names->functions == NULL || path == NULL)
        return no_room("the dictionary", err);
    return parse_nodes(&cur, names, path) && parse_node_names(&cur, names)
               ? FG_OK
               : corrupt("dictionary", err);
}

enum fg_code fg_rollup_functions_parse(const struct fg_rollups *rollups, struct fg_slice names,
                                       struct fg_slice dict, struct fg_arena *arena,
                                       struct fg_function_tree *ret_names, struct fg_err *err)
{
    struct fg_function_tree tree = {0};
    struct fg_slice raw = {NULL, 0};

    if (unpack(rollups->sealing, FG_BLOCK_CRN, &rollups->names, names, "names", arena, &raw, err) !=
            FG_OK ||
        parse_names(raw, rollups->names.items, arena, &tree, err) != FG_OK)
        return err->code;
    if (dict.ptr != NULL && (unpack(rollups->sealing, FG_BLOCK_CRN, &rollups->dict, dict,
                                    "dictionary", arena, &raw, err) != FG_OK ||
                             parse_dict(raw, rollups->dict.items, arena, &tree, err) != FG_OK))
        return err->code;
    *ret_names = tree;
    return FG_OK;
}

/* ---- crowns ---- */

/* Checks that every node comes after its parent, and that values have no sign if the crown says
 * so. marks: zeroed, by node. */
static bool crown_is_whole(const struct fg_crown *crown, const struct fg_function_tree *names,
                           bool *marks)
{
    for (uint32_t i = 0; i < crown->n_nodes; i++) {
        uint32_t parent = names->parents[crown->nodes[i]];

        if ((parent != FG_TREE_ROOT && !marks[parent]) ||
            (!crown->has_negatives && (crown->self[i] < 0 || crown->rest[i] < 0)))
            return false;
        marks[crown->nodes[i]] = true;
    }
    return crown->has_negatives || crown->root_rest >= 0;
}

static enum fg_code parse_crown(struct fg_slice raw, const struct fg_rollup_row *row,
                                const struct fg_function_tree *names, bool *marks,
                                struct fg_crown *crown, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(raw);
    uint8_t flags;

    get_gaps(&cur, crown->nodes, crown->n_nodes, names->n_nodes);
    flags = fg_cur_u8(&cur);
    crown->has_negatives = flags != 0;
    crown->root_rest = (int64_t)((uint64_t)fg_cur_zigzag(&cur) * row->factor);
    get_column(&cur, row->factor, crown->n_nodes, crown->self);
    get_column(&cur, row->factor, crown->n_nodes, crown->rest);
    if (!fg_cur_end(&cur) || flags > 1 || !crown_is_whole(crown, names, marks))
        return corrupt("crown", err);
    return FG_OK;
}

enum fg_code fg_rollup_crown_parse(const struct fg_rollup_row *row,
                                   const struct fg_function_tree *names, struct fg_slice bytes,
                                   struct fg_arena *arena, struct fg_crown *ret_crown,
                                   struct fg_err *err)
{
    const struct fg_rollup_place *place = &row->places[FG_ROLLUP_CROWN];
    struct fg_crown crown = {.n_nodes = place->items, .cut_max = row->cut_max};
    struct fg_arena_mark mark;
    struct fg_slice raw;
    enum fg_code code;
    bool *marks;

    if (place->items > names->n_nodes)
        return corrupt("crown", err);
    crown.nodes = fg_arena_new(arena, uint32_t, crown.n_nodes);
    crown.self = fg_arena_new(arena, int64_t, crown.n_nodes);
    crown.rest = fg_arena_new(arena, int64_t, crown.n_nodes);
    /* Above the mark is what only this call needs; the crown stays. */
    mark = fg_arena_mark(arena);
    marks = fg_arena_new(arena, bool, names->n_nodes);
    if (crown.nodes == NULL || crown.self == NULL || crown.rest == NULL || marks == NULL)
        return no_room("a crown", err);
    code = unpack(row->sealing, FG_BLOCK_CRN, place, bytes, "crown", arena, &raw, err);
    if (code == FG_OK)
        code = parse_crown(raw, row, names, marks, &crown, err);
    fg_arena_release(arena, mark);
    if (code == FG_OK)
        *ret_crown = crown;
    return code;
}

/* ---- tables and full rollups ---- */

static void add_signed(int64_t *to, int64_t value, int sign)
{
    *to = sign < 0 ? fg_value_sub(*to, value) : fg_value_add(*to, value);
}

static enum fg_code add_table(struct fg_slice raw, const struct fg_rollup_row *row,
                              const struct fg_function_tree *names, int sign,
                              struct fg_arena *arena, int64_t *self, int64_t *totals,
                              struct fg_err *err)
{
    uint32_t count = row->places[FG_ROLLUP_TOTALS].items;
    uint32_t *numbers = fg_arena_new(arena, uint32_t, count);
    int64_t *values = fg_arena_new(arena, int64_t, 2 * (size_t)count);
    struct fg_cur cur = fg_cur(raw);

    if (numbers == NULL || values == NULL)
        return no_room("a table", err);
    get_gaps(&cur, numbers, count, names->n_names);
    get_column(&cur, row->factor, count, values);
    get_column(&cur, row->factor, count, values + count);
    /* All was checked before: a damaged table adds nothing. */
    if (!fg_cur_end(&cur))
        return corrupt("table", err);
    for (uint32_t i = 0; i < count; i++) {
        add_signed(&self[numbers[i]], values[i], sign);
        add_signed(&totals[numbers[i]], values[count + i], sign);
    }
    return FG_OK;
}

enum fg_code fg_rollup_totals_add(const struct fg_rollup_row *row,
                                  const struct fg_function_tree *names, struct fg_slice bytes,
                                  int sign, struct fg_arena *arena, int64_t *self, int64_t *totals,
                                  struct fg_err *err)
{
    const struct fg_rollup_place *place = &row->places[FG_ROLLUP_TOTALS];
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct fg_slice raw;
    enum fg_code code = unpack(row->sealing, FG_BLOCK_FTB, place, bytes, "table", arena, &raw, err);

    if (code == FG_OK && place->items > names->n_names)
        code = corrupt("table", err);
    if (code == FG_OK)
        code = add_table(raw, row, names, sign, arena, self, totals, err);
    fg_arena_release(arena, mark);
    return code;
}

static enum fg_code add_full(struct fg_slice raw, const struct fg_rollup_row *row, int sign,
                             struct fg_arena *arena, uint64_t *sums, uint32_t n_ranks,
                             struct fg_err *err)
{
    int64_t *values = fg_arena_new(arena, int64_t, n_ranks);
    struct fg_cur cur = fg_cur(raw);

    if (values == NULL)
        return no_room("a full rollup", err);
    get_column(&cur, row->factor, n_ranks, values);
    /* Likewise, before anything is added. */
    if (!fg_cur_end(&cur))
        return corrupt("full rollup", err);
    for (uint32_t i = 0; i < n_ranks; i++) {
        int64_t sum = (int64_t)sums[i];

        add_signed(&sum, values[i], sign);
        sums[i] = (uint64_t)sum;
    }
    return FG_OK;
}

enum fg_code fg_rollup_full_add(const struct fg_rollup_row *row, struct fg_slice bytes, int sign,
                                struct fg_arena *arena, uint64_t *sums, uint32_t n_ranks,
                                struct fg_err *err)
{
    const struct fg_rollup_place *place = &row->places[FG_ROLLUP_FULL];
    struct fg_arena_mark mark = fg_arena_mark(arena);
    struct fg_slice raw;
    enum fg_code code;

    if (place->items != n_ranks)
        return fg_fail(err, FG_E_CORRUPT, "rollups: full rollup of %u stacks, not %u", place->items,
                       n_ranks);
    code = unpack(row->sealing, FG_BLOCK_FUL, place, bytes, "full rollup", arena, &raw, err);
    if (code == FG_OK)
        code = add_full(raw, row, sign, arena, sums, n_ranks, err);
    fg_arena_release(arena, mark);
    return code;
}
