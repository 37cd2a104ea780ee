/*
 * Rollups, behind their checksums. The first byte says what the others are:
 *
 *   even   an unpacked directory: parsed, and planned over as if it were a source's
 *   odd    five lengths of two bytes: names, dictionary, crown, table, full rollup, and after them
 *          numbers of items, a byte each and two for the dictionary; then their unpacked bytes. A
 *          directory that fits is made for them, so that their parsers are reached.
 */
#include "common/base/crc32c.h"
#include "common/storage/rollup/crown_sum.h"
#include "common/storage/rollup/plan.h"

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024, RANKS = 64, PARTS = 5 };

static void put_nod(struct fg_buf *nod, struct fg_slice directory)
{
    fg_buf_init(nod, SIZE_MAX);
    fg_buf_le32(nod, FG_ROLLUP_MAGIC);
    fg_buf_le32(nod, FG_ROLLUP_VERSION);
    fg_buf_le32(nod, (uint32_t)directory.len);
    fg_buf_le32(nod, (uint32_t)directory.len);
    fg_buf_le32(nod, fg_crc32c(directory));
    fg_buf_le32(nod, fg_crc32c(fg_buf_slice(nod)));
    fg_buf_put(nod, directory);
}

/* ---- directories ---- */

static void plan(const struct fg_rollups *nodes, struct fg_arena *arena, enum fg_rollup_form what,
                 int64_t start_ns)
{
    struct fg_matcher matcher = {FG_MATCH_NE, FG_LIT("region"), FG_LIT("eu"), NULL};
    struct fg_selector selector = {.matchers = &matcher, .n_matchers = 1};
    struct fg_plan_query query = {.selector = &selector, .form = what};
    struct fg_plan_source sources[2] = {
        {.id = {1, 1}, .n_profiles = 10, .raw_bytes = 1000, .rollups = nodes},
        {.id = {2, 1}, .n_profiles = 10, .raw_bytes = 1000}};
    struct fg_plan out;
    struct fg_err err;

    query.start_ns = start_ns;
    query.end_ns = INT64_MAX;
    if (nodes->n_types > 0)
        query.type = nodes->types[0];
    for (size_t i = 0; i < FG_COUNT(sources); i++) {
        sources[i].t_min_ns = nodes->n_rows > 0 ? nodes->rows[0].key.start_ns : 0;
        sources[i].t_max_ns = INT64_MAX;
    }
    if (fg_plan_make(&query, sources, FG_COUNT(sources), arena, &out, &err) != FG_OK)
        return;
    for (uint32_t i = 0; i < out.n_picks; i++)
        fg_assert(out.picks[i].row < nodes->n_rows);
}

static void try_directory(struct fg_slice in, struct fg_arena *arena)
{
    struct fg_rollups nodes;
    struct fg_buf nod;
    struct fg_err err;

    put_nod(&nod, in);
    if (fg_rollups_parse(&(const struct fg_block_part){0}, fg_buf_slice(&nod), arena, &nodes,
                         &err) == FG_OK)
        for (unsigned what = 0; what < FG_ROLLUP_FORMS; what++) {
            plan(&nodes, arena, (enum fg_rollup_form)what, INT64_MIN);
            plan(&nodes, arena, (enum fg_rollup_form)what, 5);
        }
    fg_buf_done(&nod);
}

/* ---- what a directory leads to ---- */

static void put_place(struct fg_buf *out, struct fg_slice bytes, uint64_t items)
{
    fg_buf_varint(out, bytes.len);
    if (bytes.len == 0)
        return;
    fg_buf_varint(out, bytes.len);
    fg_buf_varint(out, items);
    fg_buf_le32(out, fg_crc32c(bytes));
}

/* One type, no groups, one row of all. */
static void put_directory(struct fg_buf *out, const struct fg_slice *parts, const uint64_t *items,
                          uint64_t cut_max)
{
    fg_buf_varint(out, 1);
    for (unsigned i = 0; i < 5; i++)
        fg_buf_lenbytes(out, FG_LIT("x"));
    for (unsigned i = 0; i < 5; i++) /* labels, names, groups, series, objects */
        fg_buf_varint(out, 0);
    put_place(out, parts[0], items[0]);
    put_place(out, parts[1], items[1]);
    fg_buf_varint(out, 1);
    for (unsigned i = 0; i < 4; i++) /* type, kind, number, start */
        fg_buf_varint(out, 0);
    fg_buf_varint(out, 10); /* length */
    fg_buf_varint(out, 1);  /* profiles */
    fg_buf_le64(out, 0);
    fg_buf_le64(out, 0);
    fg_buf_varint(out, 0); /* total */
    fg_buf_varint(out, 0); /* no multiple */
    fg_buf_varint(out, cut_max);
    for (unsigned i = 2; i < PARTS; i++)
        put_place(out, parts[i], items[i]);
}

static void use_crown(const struct fg_function_tree *names, const struct fg_crown *crown)
{
    struct fg_crown_verdict verdict;
    struct fg_crown_sum sum;
    struct fg_tree cut;

    fg_crown_sum_init(&sum);
    fg_crown_sum_add_crown(&sum, names, crown);
    fg_crown_sum_add_crown(&sum, names, crown);
    fg_crown_sum_finish(&sum);
    fg_tree_init(&cut);
    fg_crown_sum_truncate(&sum, 3, &cut, &verdict);
    fg_tree_done(&cut);
    fg_crown_sum_done(&sum);
}

static void use(const struct fg_rollups *nodes, const struct fg_slice *parts,
                struct fg_arena *arena)
{
    const struct fg_rollup_row *row = &nodes->rows[0];
    uint64_t sums[RANKS] = {0};
    struct fg_function_tree names;
    struct fg_crown crown;
    struct fg_err err;
    int64_t *values;

    if (row->places[FG_ROLLUP_FULL].bytes > 0 &&
        fg_rollup_full_add(row, parts[4], -1, arena, sums,
                           row->places[FG_ROLLUP_FULL].items % RANKS, &err) != FG_OK)
        return;
    if (fg_rollup_functions_parse(nodes, parts[0], parts[1], arena, &names, &err) != FG_OK)
        return;
    if (row->places[FG_ROLLUP_CROWN].bytes > 0 &&
        fg_rollup_crown_parse(row, &names, parts[2], arena, &crown, &err) == FG_OK)
        use_crown(&names, &crown);
    values = fg_arena_new(arena, int64_t, 2 * (size_t)names.n_names);
    if (values != NULL && row->places[FG_ROLLUP_TOTALS].bytes > 0 &&
        fg_rollup_totals_add(row, &names, parts[3], 1, arena, values, values + names.n_names,
                             &err) != FG_OK)
        return;
}

static void try_parts(struct fg_slice in, struct fg_arena *arena)
{
    struct fg_cur cur = fg_cur(in);
    struct fg_slice parts[PARTS];
    uint64_t lens[PARTS], items[PARTS], cut_max;
    struct fg_buf directory, nod;
    struct fg_rollups nodes;
    struct fg_err err;

    for (unsigned i = 0; i < PARTS; i++)
        lens[i] = fg_cur_be16(&cur);
    for (unsigned i = 0; i < PARTS; i++)
        items[i] = i == 1 ? fg_cur_be16(&cur) : fg_cur_u8(&cur);
    cut_max = fg_cur_u8(&cur);
    for (unsigned i = 0; i < PARTS; i++)
        parts[i] = fg_cur_take(&cur, FG_MIN(lens[i], cur.left));
    fg_buf_init(&directory, SIZE_MAX);
    put_directory(&directory, parts, items, cut_max);
    put_nod(&nod, fg_buf_slice(&directory));
    if (fg_rollups_parse(&(const struct fg_block_part){0}, fg_buf_slice(&nod), arena, &nodes,
                         &err) == FG_OK)
        use(&nodes, parts, arena);
    fg_buf_done(&nod);
    fg_buf_done(&directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena;

    if (size == 0)
        return 0;
    arena = fg_arena_create(ARENA_MAX_BYTES);
    if (data[0] % 2 == 0)
        try_directory(fg_bytes(data + 1, size - 1), arena);
    else
        try_parts(fg_bytes(data + 1, size - 1), arena);
    fg_arena_destroy(arena);
    return 0;
}
