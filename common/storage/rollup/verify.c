#include "common/storage/rollup/verify.h"

struct rollup_verifying {
    const struct fg_block_part *part;
    struct fg_slice sections[FG_ROLLUP_FORMS]; /* CRN, FTB, FUL */
    struct fg_arena *arena;
    struct fg_rollups rollups;
    struct fg_function_tree names;
};

static struct fg_slice bytes_of(const struct rollup_verifying *verifying,
                                const struct fg_rollup_row *row, enum fg_rollup_form form)
{
    return fg_slice_sub(verifying->sections[form], row->places[form].offset,
                        row->places[form].bytes);
}

static enum fg_code verify_crown(const struct rollup_verifying *verifying,
                                 const struct fg_rollup_row *row, struct fg_err *err)
{
    struct fg_crown crown;
    int64_t total;

    if (fg_rollup_crown_parse(row, &verifying->names, bytes_of(verifying, row, FG_ROLLUP_CROWN),
                              verifying->arena, &crown, err) != FG_OK)
        return err->code;
    total = crown.root_rest;
    for (uint32_t i = 0; i < crown.n_nodes; i++)
        total = fg_value_add(total, fg_value_add(crown.self[i], crown.rest[i]));
    if (total != row->total)
        return fg_fail(err, FG_E_CORRUPT, "crown adds up to %lld, not %lld", (long long)total,
                       (long long)row->total);
    return FG_OK;
}

static enum fg_code verify_table(const struct rollup_verifying *verifying,
                                 const struct fg_rollup_row *row, struct fg_err *err)
{
    uint32_t n_names = verifying->names.n_names;
    int64_t *values = fg_arena_new(verifying->arena, int64_t, 2 * (size_t)n_names), total = 0;

    if (values == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for a function table");
    if (fg_rollup_totals_add(row, &verifying->names, bytes_of(verifying, row, FG_ROLLUP_TOTALS), 1,
                             verifying->arena, values, values + n_names, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < n_names; i++)
        total = fg_value_add(total, values[i]);
    if (total != row->total)
        return fg_fail(err, FG_E_CORRUPT, "table adds up to %lld, not %lld", (long long)total,
                       (long long)row->total);
    return FG_OK;
}

/* Does not compare the sum with the total: full values have stacks without a name, which totals of
 * version 1 leave out. */
static enum fg_code verify_full(const struct rollup_verifying *verifying,
                                const struct fg_rollup_row *row, struct fg_err *err)
{
    uint64_t *sums = fg_arena_new(verifying->arena, uint64_t, verifying->part->n_stacks);

    if (sums == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for a full rollup");
    return fg_rollup_full_add(row, bytes_of(verifying, row, FG_ROLLUP_FULL), 1, verifying->arena,
                              sums, verifying->part->n_stacks, err);
}

static enum fg_code verify_row(const struct rollup_verifying *verifying,
                               const struct fg_rollup_row *row, struct fg_err *err)
{
    static enum fg_code (*const verify[])(const struct rollup_verifying *,
                                          const struct fg_rollup_row *, struct fg_err *) = {
        [FG_ROLLUP_CROWN] = verify_crown,
        [FG_ROLLUP_TOTALS] = verify_table,
        [FG_ROLLUP_FULL] = verify_full,
    };
    /* Released after each row, so the memory is that of the largest one. */
    struct fg_arena_mark mark = fg_arena_mark(verifying->arena);
    enum fg_code code = FG_OK;

    for (unsigned form = 0; form < FG_ROLLUP_FORMS && code == FG_OK; form++)
        if (row->places[form].bytes > 0)
            code = verify[form](verifying, row, err);
    fg_arena_release(verifying->arena, mark);
    return code;
}

/* True if the span of a row is a part of the other's, of the same key. Such rows follow the
 * other one. */
static bool is_part_of(const struct fg_rollup_row *row, const struct fg_rollup_row *whole)
{
    return row->type == whole->type && row->key.kind == whole->key.kind &&
           row->key.number == whole->key.number && row->key.start_ns >= whole->key.start_ns &&
           row->key.end_ns <= whole->key.end_ns;
}

/* Rows of parts of a span have to add up to the row of the whole span, if they fill it. This can
 * be checked when nothing else is left of the profiles. *at: a row; afterwards the one behind
 * the parts of its span. */
static enum fg_code verify_span(const struct fg_rollups *rollups, uint32_t *at, struct fg_err *err)
{
    const struct fg_rollup_row *whole = &rollups->rows[(*at)++];
    int64_t filled_ns = whole->key.start_ns, total = 0;
    struct fg_id digest = {0, 0};
    uint64_t count = 0;
    uint32_t first = *at;

    for (; *at < rollups->n_rows && is_part_of(&rollups->rows[*at], whole); (*at)++) {
        const struct fg_rollup_row *row = &rollups->rows[*at];

        if (row->key.start_ns == filled_ns)
            filled_ns = row->key.end_ns;
        count += row->count;
        digest = fg_id_add(digest, row->digest);
        total = fg_value_add(total, row->total);
    }
    if (*at == first || filled_ns != whole->key.end_ns ||
        (count == whole->count && fg_id_eq(digest, whole->digest) && total == whole->total))
        return FG_OK;
    return fg_fail(err, FG_E_CORRUPT,
                   "rollup %u: %llu profiles with a total of %lld, but its parts have %llu with a "
                   "total of %lld",
                   first - 1, (unsigned long long)whole->count, (long long)whole->total,
                   (unsigned long long)count, (long long)total);
}

static enum fg_code verify_rows(struct rollup_verifying *verifying, struct fg_err *err)
{
    const struct fg_rollups *rollups = &verifying->rollups;
    struct fg_slice crn = verifying->sections[FG_ROLLUP_CROWN];

    /* Before any row: its places are within these lengths, and only now are these known to be those
     * of the sections. */
    for (unsigned form = 0; form < FG_ROLLUP_FORMS; form++)
        if (rollups->section_bytes[form] != verifying->sections[form].len)
            return fg_fail(err, FG_E_CORRUPT, "rollups: %zu bytes, but the directory says %llu",
                           verifying->sections[form].len,
                           (unsigned long long)rollups->section_bytes[form]);
    if (fg_rollup_functions_parse(rollups, fg_slice_sub(crn, 0, rollups->names.bytes),
                                  fg_slice_sub(crn, rollups->names.bytes, rollups->dict.bytes),
                                  verifying->arena, &verifying->names, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < rollups->n_rows; i++)
        if (verify_row(verifying, &rollups->rows[i], err) != FG_OK)
            return fg_wrap(err, "rollup %u", i);
    return FG_OK;
}

static enum fg_code verify_ranges(const struct fg_block_part *part, struct fg_slice file,
                                  const struct fg_rollup_ranges *ranges, struct fg_arena *arena,
                                  struct fg_rollups *ret_rollups, struct fg_err *err)
{
    struct rollup_verifying verifying = {
        .part = part,
        .sections = {[FG_ROLLUP_CROWN] = fg_slice_sub(file, ranges->crn.offset, ranges->crn.len),
                     [FG_ROLLUP_TOTALS] = fg_slice_sub(file, ranges->ftb.offset, ranges->ftb.len),
                     [FG_ROLLUP_FULL] = fg_slice_sub(file, ranges->ful.offset, ranges->ful.len)},
        .arena = arena,
    };

    if (fg_rollups_parse(part, fg_slice_sub(file, ranges->nod.offset, ranges->nod.len), arena,
                         &verifying.rollups, err) != FG_OK ||
        verify_rows(&verifying, err) != FG_OK)
        return err->code;
    *ret_rollups = verifying.rollups;
    return FG_OK;
}

/* Checks that the rollups of the single series of a type add up to that of all series, if each
 * series has one. */
static enum fg_code verify_single_sums(const struct fg_rollups *single,
                                       const struct fg_rollup_row *all, uint32_t type,
                                       struct fg_err *err)
{
    uint64_t count = 0;
    struct fg_id digest = {0, 0};
    uint32_t n_rows = 0;
    int64_t total = 0;

    for (uint32_t i = 0; i < single->n_rows; i++) {
        const struct fg_rollup_row *row = &single->rows[i];

        if (row->type != type || row->key.start_ns != all->key.start_ns ||
            row->key.end_ns != all->key.end_ns)
            continue;
        n_rows++;
        count += row->count;
        digest = fg_id_add(digest, row->digest);
        total = fg_value_add(total, row->total);
    }
    /* A series whose crown was not worth its bytes has no row, and then the sums tell nothing. */
    if (n_rows != single->groups.n_groups ||
        (count == all->count && fg_id_eq(digest, all->digest) && total == all->total))
        return FG_OK;
    return fg_fail(
        err, FG_E_CORRUPT,
        "single series have %llu profiles with a total of %lld, all together %llu with a "
        "total of %lld",
        (unsigned long long)count, (long long)total, (unsigned long long)all->count,
        (long long)all->total);
}

/* True if both have the same types and objects. */
static bool belong_together(const struct fg_rollups *rollups, const struct fg_rollups *single)
{
    if (rollups->n_types != single->n_types || rollups->n_derived_from != single->n_derived_from)
        return false;
    for (uint32_t i = 0; i < rollups->n_types; i++)
        if (!fg_profile_type_eq(&rollups->types[i], &single->types[i]))
            return false;
    for (uint32_t i = 0; i < rollups->n_derived_from; i++)
        if (!fg_id_eq(rollups->derived_from[i], single->derived_from[i]))
            return false;
    return true;
}

static enum fg_code verify_single(const struct fg_rollups *rollups, const struct fg_rollups *single,
                                  struct fg_err *err)
{
    /* Before the sums: those of other objects or types would differ without damage. */
    if (!belong_together(rollups, single))
        return fg_fail(err, FG_E_CORRUPT, "single series: they belong to another part");
    for (uint32_t i = 0; i < rollups->n_rows; i++)
        if (rollups->rows[i].key.kind == FG_ROLLUP_ALL &&
            verify_single_sums(single, &rollups->rows[i], rollups->rows[i].type, err) != FG_OK)
            return err->code;
    return FG_OK;
}

enum fg_code fg_rollup_verify(const struct fg_block_part *part, struct fg_slice file,
                              size_t max_bytes, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(max_bytes);
    struct fg_rollup_ranges ranges = fg_rollup_ranges(part);
    struct fg_rollup_ranges of_single = fg_rollup_single_ranges(part);
    struct fg_rollups rollups = {0}, single = {0};

    if (ranges.nod.len == 0)
        return FG_OK;
    if (verify_ranges(part, file, &ranges, arena, &rollups, err) != FG_OK ||
        (of_single.nod.len > 0 &&
         (verify_ranges(part, file, &of_single, arena, &single, err) != FG_OK ||
          verify_single(&rollups, &single, err) != FG_OK)))
        return fg_wrap(err, "part %.*s/%.*s", FG_S(part->tenant), FG_S(part->service));
    return FG_OK;
}

enum fg_code fg_rollup_verify_spans(const struct fg_block_part *part, struct fg_slice file,
                                    size_t max_bytes, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(max_bytes);
    struct fg_block_range nod = fg_rollup_ranges(part).nod;
    struct fg_rollups rollups;
    enum fg_code code =
        fg_rollups_parse(part, fg_slice_sub(file, nod.offset, nod.len), arena, &rollups, err);

    for (uint32_t i = 0; code == FG_OK && i < rollups.n_rows;)
        code = verify_span(&rollups, &i, err);
    return code == FG_OK ? FG_OK
                         : fg_wrap(err, "part %.*s/%.*s", FG_S(part->tenant), FG_S(part->service));
}
