/* Parses the directory of rollups: types, groups, rows. */
#include "common/storage/rollup/reader.h"

#include "common/base/crc32c.h"
#include "common/storage/block/pack.h"

/* The least bytes that elements take: a count that the rest of the section has no room for is
 * refused. */
enum {
    TYPE_MIN_BYTES = 5,
    LABEL_MIN_BYTES = 2,
    ROW_MIN_BYTES = 6 + FG_ID_BYTES,
};

struct fg_rollup_ranges fg_rollup_ranges(const struct fg_block_part *part)
{
    struct fg_rollup_ranges ranges = {0};

    for (uint32_t i = 0; i < part->n_sections; i++) {
        const struct fg_block_section *section = &part->sections[i];

        if (section->kind == FG_BLOCK_NOD)
            ranges.nod = section->range;
        else if (section->kind == FG_BLOCK_CRN)
            ranges.crn = section->range;
        else if (section->kind == FG_BLOCK_FTB)
            ranges.ftb = section->range;
        else if (section->kind == FG_BLOCK_FUL)
            ranges.ful = section->range;
    }
    return ranges;
}

struct fg_rollup_ranges fg_rollup_single_ranges(const struct fg_block_part *part)
{
    struct fg_rollup_ranges ranges = {0};

    for (uint32_t i = 0; i < part->n_sections; i++) {
        const struct fg_block_section *section = &part->sections[i];

        if (section->kind == FG_BLOCK_SND)
            ranges.nod = section->range;
        else if (section->kind == FG_BLOCK_SCR)
            ranges.crn = section->range;
    }
    return ranges;
}

/* ---- the directory ---- */

struct rollup_parsing {
    struct fg_cur cur;
    struct fg_arena *arena;
    struct fg_rollups *rollups;
    const char *what; /* that is being read, for the error */
    bool no_room;
    uint64_t ends[FG_ROLLUP_FORMS]; /* of what was placed so far, in its section */
};

static void *array(struct rollup_parsing *parsing, uint64_t count, size_t size)
{
    void *items = fg_arena_calloc(parsing->arena, count, size);

    if (items == NULL) {
        parsing->no_room = true;
        fg_cur_fail(&parsing->cur);
    }
    return items;
}

/* Reads a count of things of min_bytes each, at most max. */
static uint32_t count_of(struct rollup_parsing *parsing, const char *what, size_t min_bytes,
                         uint64_t max)
{
    uint64_t count = fg_cur_count(&parsing->cur, min_bytes);

    parsing->what = what;
    if (count > max)
        fg_cur_fail(&parsing->cur);
    return parsing->cur.bad ? 0 : (uint32_t)count;
}

/* Copies a text: the bytes of the directory are freed. */
static struct fg_slice text(struct rollup_parsing *parsing)
{
    struct fg_slice bytes = fg_cur_lenbytes(&parsing->cur), copy = FG_LIT("");

    if (bytes.len == 0)
        return copy;
    copy = fg_arena_copy(parsing->arena, bytes);
    if (copy.ptr == NULL) {
        parsing->no_room = true;
        fg_cur_fail(&parsing->cur);
    }
    return copy;
}

static struct fg_id id(struct rollup_parsing *parsing)
{
    uint64_t lo = fg_cur_le64(&parsing->cur);

    return (struct fg_id){lo, fg_cur_le64(&parsing->cur)};
}

static void check(struct rollup_parsing *parsing, bool good)
{
    if (!good)
        fg_cur_fail(&parsing->cur);
}

static void parse_types(struct rollup_parsing *parsing)
{
    struct fg_rollups *rollups = parsing->rollups;
    uint32_t count = count_of(parsing, "types", TYPE_MIN_BYTES, FG_ROLLUP_TYPES_MAX);

    rollups->types = array(parsing, count, sizeof *rollups->types);
    for (uint32_t i = 0; i < count && !parsing->cur.bad; i++) {
        rollups->types[i].name = text(parsing);
        rollups->types[i].type = text(parsing);
        rollups->types[i].unit = text(parsing);
        rollups->types[i].period_type = text(parsing);
        rollups->types[i].period_unit = text(parsing);
    }
    rollups->n_types = count;
}

static void parse_common(struct rollup_parsing *parsing)
{
    struct fg_labels *common = &parsing->rollups->groups.common;
    uint32_t count = count_of(parsing, "common labels", LABEL_MIN_BYTES, FG_ROLLUP_LABELS_MAX);

    common->items = array(parsing, count, sizeof *common->items);
    for (uint32_t i = 0; i < count && !parsing->cur.bad; i++) {
        common->items[i].name = text(parsing);
        common->items[i].value = text(parsing);
        check(parsing,
              i == 0 || fg_slice_cmp(common->items[i - 1].name, common->items[i].name) < 0);
    }
    common->count = count;
}

static void parse_groups(struct rollup_parsing *parsing)
{
    struct fg_groups *groups = &parsing->rollups->groups;
    uint32_t values;

    parse_common(parsing);
    groups->n_names = count_of(parsing, "labels of groups", 1, FG_GROUPS_SINGLE_LABELS_MAX);
    for (uint32_t i = 0; i < groups->n_names; i++)
        groups->names[i] = text(parsing);
    /* Without labels a group takes no bytes: the first of them is all that there can be. */
    groups->n_groups = groups->n_names > 0
                           ? count_of(parsing, "groups", groups->n_names, FG_GROUPS_SINGLE_MAX)
                           : count_of(parsing, "groups", 1, 1);
    values = groups->n_groups * groups->n_names;
    groups->values = array(parsing, values, sizeof *groups->values);
    for (uint32_t i = 0; i < values && !parsing->cur.bad; i++)
        groups->values[i] = text(parsing);
    groups->n_series = count_of(parsing, "groups of series", 1, FG_BLOCK_ITEMS_MAX);
    groups->of_series = array(parsing, groups->n_series, sizeof *groups->of_series);
    for (uint32_t i = 0; i < groups->n_series && !parsing->cur.bad; i++) {
        uint64_t group = fg_cur_varint(&parsing->cur);

        check(parsing, group < groups->n_groups);
        groups->of_series[i] = (uint32_t)group;
    }
}

static void parse_derived_from(struct rollup_parsing *parsing)
{
    struct fg_rollups *rollups = parsing->rollups;

    rollups->n_derived_from = count_of(parsing, "objects", FG_ID_BYTES, FG_ROLLUP_DERIVED_FROM_MAX);
    rollups->derived_from = array(parsing, rollups->n_derived_from, sizeof *rollups->derived_from);
    for (uint32_t i = 0; i < rollups->n_derived_from && !parsing->cur.bad; i++) {
        rollups->derived_from[i] = id(parsing);
        check(parsing,
              i == 0 || fg_id_cmp(rollups->derived_from[i - 1], rollups->derived_from[i]) < 0);
    }
}

/* Reads a place, which begins at *end of its section, and moves *end on. Places touch each
 * other, so that none needs an offset and no two can overlap. */
static struct fg_rollup_place place(struct rollup_parsing *parsing, uint64_t *end)
{
    struct fg_rollup_place place = {.offset = *end};
    uint64_t bytes = fg_cur_varint(&parsing->cur), raw_bytes, items;

    if (bytes == 0)
        return place;
    raw_bytes = fg_cur_varint(&parsing->cur);
    items = fg_cur_varint(&parsing->cur);
    place.crc = fg_cur_le32(&parsing->cur);
    check(parsing, bytes <= raw_bytes && raw_bytes <= FG_BLOCK_PAGE_RAW_MAX_BYTES &&
                       items <= FG_BLOCK_ITEMS_MAX);
    if (parsing->cur.bad)
        return (struct fg_rollup_place){0};
    place.bytes = (uint32_t)bytes;
    place.raw_bytes = (uint32_t)raw_bytes;
    place.items = (uint32_t)items;
    *end += bytes;
    return place;
}

static void parse_key(struct rollup_parsing *parsing, struct fg_rollup_key *key)
{
    const struct fg_groups *groups = &parsing->rollups->groups;
    uint8_t kind = fg_cur_u8(&parsing->cur);
    uint64_t number = fg_cur_varint(&parsing->cur);
    uint64_t numbers = kind == FG_ROLLUP_ALL     ? 1
                       : kind == FG_ROLLUP_GROUP ? groups->n_groups
                                                 : groups->n_series;
    int64_t start = fg_cur_zigzag(&parsing->cur);
    uint64_t len = fg_cur_varint(&parsing->cur);

    /* The end has to fit an int64_t. Unsigned, so that a start before 1970 does not overflow. */
    check(parsing, kind <= FG_ROLLUP_SERIES && number < numbers && len > 0 &&
                       len <= (uint64_t)INT64_MAX - (uint64_t)start);
    key->kind = (enum fg_rollup_kind)kind;
    key->number = (uint32_t)number;
    key->start_ns = start;
    key->end_ns = (int64_t)((uint64_t)start + len);
}

static void parse_row(struct rollup_parsing *parsing, uint32_t number, uint32_t *base)
{
    struct fg_rollup_row *row = &parsing->rollups->rows[number];
    uint64_t type = fg_cur_varint(&parsing->cur), multiple_of;

    check(parsing, type < parsing->rollups->n_types);
    row->type = (uint32_t)type;
    row->factor = 1;
    parse_key(parsing, &row->key);
    row->count = fg_cur_varint(&parsing->cur);
    row->digest = id(parsing);
    *base = FG_MAP_NONE;
    if (row->count == 0)
        return;
    row->total = fg_cur_zigzag(&parsing->cur);
    multiple_of = fg_cur_varint(&parsing->cur);
    if (multiple_of > 0) {
        /* The base may be a later row: resolve() looks at it when all rows are there. */
        check(parsing, multiple_of <= parsing->rollups->n_rows);
        *base = (uint32_t)(multiple_of - 1);
        row->factor = fg_cur_varint(&parsing->cur);
        check(parsing, row->factor > 0);
        return;
    }
    row->cut_max = fg_cur_varint(&parsing->cur);
    check(parsing, row->cut_max <= INT64_MAX);
    for (unsigned form = 0; form < FG_ROLLUP_FORMS; form++)
        row->places[form] = place(parsing, &parsing->ends[form]);
}

/* Notes with what the rollups of an encrypted part are sealed. The part may be gone before them. */
static enum fg_code note_sealing(const struct fg_block_part *part, struct fg_arena *arena,
                                 struct fg_rollups *rollups, struct fg_err *err)
{
    struct fg_rollup_sealing *sealing;

    if (part->key == 0)
        return FG_OK;
    sealing = fg_arena_new(arena, struct fg_rollup_sealing, 1);
    if (sealing == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for the rollup directory");
    *sealing = (struct fg_rollup_sealing){.key = part->key,
                                          .keys = part->keys,
                                          .tenant = fg_arena_copy(arena, part->tenant),
                                          .service = fg_arena_copy(arena, part->service),
                                          .digest = part->digest};
    if (sealing->tenant.ptr == NULL || sealing->service.ptr == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for the rollup directory");
    rollups->sealing = sealing;
    return FG_OK;
}

/* Gives rows that are multiples the places of their base. A base is no multiple itself, so there
 * are no chains and no circles. */
static void resolve(struct rollup_parsing *parsing, const uint32_t *bases)
{
    struct fg_rollups *rollups = parsing->rollups;

    for (uint32_t i = 0; i < rollups->n_rows && !parsing->cur.bad; i++) {
        struct fg_rollup_row *row = &rollups->rows[i];
        const struct fg_rollup_row *base = &rollups->rows[bases[i] == FG_MAP_NONE ? i : bases[i]];

        if (bases[i] == FG_MAP_NONE)
            continue;
        parsing->what = "multiples";
        /* cut_max bounds what a crown lacks, and grows with the factor like its values. */
        check(parsing, bases[bases[i]] == FG_MAP_NONE &&
                           !__builtin_mul_overflow(base->cut_max, row->factor, &row->cut_max) &&
                           row->cut_max <= INT64_MAX);
        memcpy(row->places, base->places, sizeof row->places);
    }
}

static bool rows_ascend(const struct fg_rollup_row *a, const struct fg_rollup_row *b)
{
    if (a->type != b->type)
        return a->type < b->type;
    return fg_rollup_key_cmp(&a->key, &b->key) < 0;
}

static void parse_rows(struct rollup_parsing *parsing)
{
    struct fg_rollups *rollups = parsing->rollups;
    uint32_t *bases;

    rollups->n_rows = count_of(parsing, "rows", ROW_MIN_BYTES, FG_ROLLUP_MAX);
    rollups->rows = array(parsing, rollups->n_rows, sizeof *rollups->rows);
    bases = array(parsing, rollups->n_rows, sizeof *bases);
    for (uint32_t i = 0; i < rollups->n_rows && !parsing->cur.bad; i++) {
        parse_row(parsing, i, &bases[i]);
        check(parsing, i == 0 || rows_ascend(&rollups->rows[i - 1], &rollups->rows[i]));
        rollups->rows[i].sealing = rollups->sealing;
    }
    check(parsing, fg_cur_end(&parsing->cur));
    if (!parsing->cur.bad)
        resolve(parsing, bases);
}

static enum fg_code parse_directory(struct fg_slice raw, struct fg_arena *arena,
                                    struct fg_rollups *rollups, struct fg_err *err)
{
    struct rollup_parsing parsing = {.cur = fg_cur(raw), .arena = arena, .rollups = rollups};

    parse_types(&parsing);
    parse_groups(&parsing);
    parse_derived_from(&parsing);
    rollups->names = place(&parsing, &parsing.ends[FG_ROLLUP_CROWN]);
    rollups->dict = place(&parsing, &parsing.ends[FG_ROLLUP_CROWN]);
    parse_rows(&parsing);
    if (parsing.no_room)
        return fg_fail(err, FG_E_LIMIT, "no memory for the rollup directory");
    if (parsing.cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "rollups: bad %s", parsing.what);
    memcpy(rollups->section_bytes, parsing.ends, sizeof rollups->section_bytes);
    return FG_OK;
}

enum fg_code fg_rollups_parse(const struct fg_block_part *part, struct fg_slice bytes,
                              struct fg_arena *arena, struct fg_rollups *ret_rollups,
                              struct fg_err *err)
{
    struct fg_cur cur = fg_cur(bytes);
    uint32_t magic = fg_cur_le32(&cur), version = fg_cur_le32(&cur);
    struct fg_block_stored said = {
        .raw_bytes = fg_cur_le32(&cur), .key = part->key, .kind = FG_BLOCK_NOD};
    const struct fg_seal_part seal = fg_block_seal_of_part(part);
    uint32_t stored_bytes = fg_cur_le32(&cur), head_crc;
    struct fg_rollups rollups = {0};
    struct fg_slice raw, stored;

    said.crc = fg_cur_le32(&cur);
    head_crc = fg_cur_le32(&cur);
    stored = fg_cur_take(&cur, stored_bytes);
    if (magic != FG_ROLLUP_MAGIC)
        return fg_fail(err, FG_E_CORRUPT, "no rollups in %zu bytes", bytes.len);
    /* The checksum of the header comes before anything else in it is believed, except the magic:
     * without that, it is no rollup directory at all. */
    if (cur.bad || said.raw_bytes > FG_BLOCK_PAGE_RAW_MAX_BYTES ||
        head_crc != fg_crc32c(fg_slice_sub(bytes, 0, FG_ROLLUP_HEAD_BYTES - sizeof head_crc)))
        return fg_fail(err, FG_E_CORRUPT, "rollups: bad header");
    /* Not damage: queries go on with the profiles, if they are still there. */
    if (version < FG_ROLLUP_VERSION_LEAST || version > FG_ROLLUP_VERSION)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "rollups of unsupported version %u", version);
    if (fg_block_unpack_in(&seal, stored, said, arena, &raw, err) != FG_OK)
        return fg_wrap(err, "rollups");
    /* Before the rows, each of which refers to it. */
    if (note_sealing(part, arena, &rollups, err) != FG_OK)
        return err->code;
    if (parse_directory(raw, arena, &rollups, err) != FG_OK)
        return err->code;
    if (!fg_cur_end(&cur))
        return fg_fail(err, FG_E_CORRUPT, "rollups: %zu bytes left over", cur.left);
    rollups.version = version;
    *ret_rollups = rollups;
    return FG_OK;
}

/* ---- deletions ---- */

/* Sets *ret_named if a group of the type has a series that the selector names, or may have one. */
static enum fg_code type_is_named(const struct fg_rollups *rollups,
                                  const struct fg_profile_type *type,
                                  const struct fg_selector *selector, struct fg_arena *arena,
                                  bool *ret_named, struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(arena);
    enum fg_groups_answer *answers =
        fg_arena_new(arena, enum fg_groups_answer, rollups->groups.n_groups);

    if (answers == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for %u groups", rollups->groups.n_groups);
    if (fg_groups_match(&rollups->groups, type, selector, arena, answers, err) != FG_OK)
        return err->code;
    *ret_named = false;
    for (uint32_t g = 0; g < rollups->groups.n_groups; g++)
        *ret_named = *ret_named || answers[g] != FG_GROUPS_NONE;
    fg_arena_release(arena, mark);
    return FG_OK;
}

enum fg_code fg_rollup_deletion_affects(const struct fg_rollups *rollups,
                                        const struct fg_block_part *part,
                                        const struct fg_deletion *deletion, struct fg_arena *arena,
                                        bool *ret_named, struct fg_err *err)
{
    bool meets = fg_deletion_meets(deletion, part->t_min_ns, part->t_max_ns) &&
                 fg_deletion_may_name(deletion, part->service);
    /* Without types or groups, nobody can say that it is not named. */
    bool named = meets && (rollups->n_types == 0 || rollups->groups.n_groups == 0);

    for (uint32_t t = 0; t < rollups->n_types && meets && !named; t++)
        if (type_is_named(rollups, &rollups->types[t], &deletion->selector, arena, &named, err) !=
            FG_OK)
            return err->code;
    *ret_named = named;
    return FG_OK;
}
