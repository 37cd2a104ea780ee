/* Encodes rollups: names, function tree, crowns, function totals, full values, and the directory.
 */
#include "common/base/crc32c.h"
#include "common/storage/rollup/writer_impl.h"

/* Where a part was put, and how to read it. */
struct placed {
    uint32_t bytes, raw_bytes, crc, items;
};

struct finishing {
    struct fg_rollup_writer *writer;
    struct fg_block_sealer *sealer; /* NULL: nothing is encrypted */
    uint32_t *node_numbers;         /* of the tree's nodes: number in the dictionary */
    uint32_t *functions;            /* of names: number among those in use */
    uint32_t *order;                /* rows as they will stand */
    uint32_t *places;               /* of a row: its place in order */
    struct placed names, dict;
    struct placed (*parts)[FG_ROLLUP_FORMS]; /* of rows */
};

/* Packs and seals writer->raw and appends it to a section. Nothing that is stored has length 0,
 * which stands for "none". */
static enum fg_code place(const struct finishing *finishing, enum fg_block_kind kind,
                          uint32_t items, struct fg_buf *section, struct placed *ret_placed,
                          struct fg_err *err)
{
    struct fg_rollup_writer *writer = finishing->writer;
    struct fg_slice raw = fg_buf_slice(&writer->raw);
    struct fg_block_sealed stored;

    if (fg_block_seal(finishing->sealer, kind, section->len, fg_block_pack(writer->packer, raw),
                      raw.len, &stored, err) != FG_OK)
        return err->code;
    fg_buf_put(section, stored.bytes);
    *ret_placed = (struct placed){(uint32_t)stored.bytes.len, stored.raw_bytes,
                                  fg_crc32c(stored.bytes), items};
    return FG_OK;
}

/* ---- names and dictionary ---- */

/* Sorted names share their beginnings. */
static enum fg_code put_names(struct finishing *finishing, struct fg_err *err)
{
    struct fg_rollup_writer *writer = finishing->writer;
    struct fg_slice before = FG_LIT("");
    uint32_t count = 0;

    fg_buf_clear(&writer->raw);
    for (uint32_t i = 0; i < writer->names.n_names; i++) {
        struct fg_slice name = writer->names.names[i];
        size_t shared;

        if (!writer->named[i])
            continue;

        shared = 0;
        while (shared < before.len && shared < name.len && before.ptr[shared] == name.ptr[shared])
            shared++;
        fg_buf_varint(&writer->raw, shared);
        fg_buf_lenbytes(&writer->raw, fg_slice_sub(name, shared, name.len - shared));
        finishing->functions[i] = count++;
        before = name;
    }
    return place(finishing, FG_BLOCK_CRN, count, &writer->crn, &finishing->names, err);
}

/* The nodes depth first: how many steps up from the node before to the parent (0: it is the
 * parent); then their names. In two runs, since equal kinds of numbers pack better. */
static enum fg_code put_dict(struct finishing *finishing, struct fg_err *err)
{
    struct fg_rollup_writer *writer = finishing->writer;
    const struct fg_function_tree *names = &writer->names;
    uint32_t before = FG_TREE_ROOT, count = 0;

    fg_buf_clear(&writer->raw);
    for (uint32_t i = 0; i < names->n_nodes; i++) {
        uint32_t steps = 0;

        if (!writer->dict[i])
            continue;
        for (uint32_t up = before; up != names->parents[i]; up = names->parents[up])
            steps++;
        fg_buf_varint(&writer->raw, steps);
        finishing->node_numbers[i] = count++;
        before = i;
    }
    for (uint32_t i = 0; i < names->n_nodes; i++)
        if (writer->dict[i])
            fg_buf_varint(&writer->raw, finishing->functions[names->functions[i]]);
    return place(finishing, FG_BLOCK_CRN, count, &writer->crn, &finishing->dict, err);
}

/* ---- rows ---- */

static int compare_rows(const void *left, const void *right, void *arg)
{
    const struct fg_rollup_writer *writer = arg;
    const struct fg_rollup_out_row *a = &writer->rows[*(const uint32_t *)left];
    const struct fg_rollup_out_row *b = &writer->rows[*(const uint32_t *)right];

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return fg_rollup_key_cmp(&a->key, &b->key);
}

static enum fg_code order_rows(struct finishing *finishing, struct fg_err *err)
{
    struct fg_rollup_writer *writer = finishing->writer;

    for (uint32_t i = 0; i < writer->n_rows; i++)
        finishing->order[i] = i;
    qsort_r(finishing->order, writer->n_rows, sizeof *finishing->order, compare_rows, writer);
    for (uint32_t i = 0; i < writer->n_rows; i++) {
        finishing->places[finishing->order[i]] = i;
        if (i > 0 && compare_rows(&finishing->order[i - 1], &finishing->order[i], writer) == 0)
            return fg_fail(err, FG_E_INVALID, "a rollup was added twice");
    }
    return FG_OK;
}

static enum fg_code put_part(struct finishing *finishing, uint32_t row, enum fg_rollup_form form,
                             struct fg_err *err)
{
    static const enum fg_block_kind kinds[] = {[FG_ROLLUP_CROWN] = FG_BLOCK_CRN,
                                               [FG_ROLLUP_TOTALS] = FG_BLOCK_FTB,
                                               [FG_ROLLUP_FULL] = FG_BLOCK_FUL};
    struct fg_rollup_writer *writer = finishing->writer;
    struct fg_rollup_out_row *out = &writer->rows[row];
    struct fg_rollup_out_part *part = &out->parts[form];
    const uint32_t *numbers =
        form == FG_ROLLUP_CROWN ? finishing->node_numbers : finishing->functions;
    struct fg_buf *section = form == FG_ROLLUP_CROWN    ? &writer->crn
                             : form == FG_ROLLUP_TOTALS ? &writer->ftb
                                                        : &writer->ful;

    if (!part->kept)
        return FG_OK;
    /* Numbers of all nodes and names become those of the dictionary. Both ascend, so that the
     * order of the part stays. */
    for (uint32_t i = 0; i < part->count; i++)
        part->numbers[i] = numbers[part->numbers[i]];
    fg_buf_clear(&writer->raw);
    fg_rollup_put_gaps(part->numbers, part->count, &writer->raw);
    fg_buf_put(&writer->raw, fg_buf_slice(&part->bytes));
    return place(finishing, kinds[form],
                 form == FG_ROLLUP_FULL ? writer->options.n_ranks : part->count, section,
                 &finishing->parts[row][form], err);
}

/* ---- the directory ---- */

static void put_placed(const struct placed *placed, struct fg_buf *out)
{
    fg_buf_varint(out, placed->bytes);
    if (placed->bytes == 0)
        return;
    fg_buf_varint(out, placed->raw_bytes);
    fg_buf_varint(out, placed->items);
    fg_buf_le32(out, placed->crc);
}

static void put_id(struct fg_id id, struct fg_buf *out)
{
    fg_buf_le64(out, id.lo);
    fg_buf_le64(out, id.hi);
}

static void put_groups(const struct fg_groups *groups, struct fg_buf *out)
{
    fg_buf_varint(out, groups->common.count);
    for (size_t i = 0; i < groups->common.count; i++) {
        fg_buf_lenbytes(out, groups->common.items[i].name);
        fg_buf_lenbytes(out, groups->common.items[i].value);
    }
    fg_buf_varint(out, groups->n_names);
    for (uint32_t i = 0; i < groups->n_names; i++)
        fg_buf_lenbytes(out, groups->names[i]);
    fg_buf_varint(out, groups->n_groups);
    for (uint32_t i = 0; i < groups->n_groups * groups->n_names; i++)
        fg_buf_lenbytes(out, groups->values[i]);
    fg_buf_varint(out, groups->n_series);
    for (uint32_t i = 0; i < groups->n_series; i++)
        fg_buf_varint(out, groups->of_series[i]);
}

static void put_row(const struct finishing *finishing, uint32_t row, struct fg_buf *out)
{
    const struct fg_rollup_out_row *from = &finishing->writer->rows[row];

    fg_buf_varint(out, from->type);
    fg_buf_putc(out, (uint8_t)from->key.kind);
    fg_buf_varint(out, from->key.number);
    fg_buf_zigzag(out, from->key.start_ns);
    fg_buf_varint(out, (uint64_t)from->key.end_ns - (uint64_t)from->key.start_ns);
    fg_buf_varint(out, from->count);
    put_id(from->digest, out);
    if (from->count == 0)
        return;
    fg_buf_zigzag(out, from->total);
    if (from->base != FG_MAP_NONE) {
        fg_buf_varint(out, (uint64_t)finishing->places[from->base] + 1);
        fg_buf_varint(out, from->factor);
        return;
    }
    fg_buf_varint(out, 0);
    fg_buf_varint(out, from->cut_max);
    for (unsigned form = 0; form < FG_ROLLUP_FORMS; form++)
        put_placed(&finishing->parts[row][form], out);
}

static void put_directory(struct finishing *finishing)
{
    struct fg_rollup_writer *writer = finishing->writer;
    const struct fg_rollup_options *options = &writer->options;
    struct fg_buf *out = &writer->raw;

    fg_buf_clear(out);
    fg_buf_varint(out, options->n_types);
    for (uint32_t i = 0; i < options->n_types; i++) {
        const struct fg_profile_type *type = &options->types[i];

        fg_buf_lenbytes(out, type->name);
        fg_buf_lenbytes(out, type->type);
        fg_buf_lenbytes(out, type->unit);
        fg_buf_lenbytes(out, type->period_type);
        fg_buf_lenbytes(out, type->period_unit);
    }
    put_groups(options->groups, out);
    fg_buf_varint(out, options->n_derived_from);
    for (uint32_t i = 0; i < options->n_derived_from; i++)
        put_id(options->derived_from[i], out);
    put_placed(&finishing->names, out);
    put_placed(&finishing->dict, out);
    fg_buf_varint(out, writer->n_rows);
    for (uint32_t i = 0; i < writer->n_rows; i++)
        put_row(finishing, finishing->order[i], out);
}

/* Writes the header and the directory. */
static enum fg_code put_nod(struct finishing *finishing, struct fg_err *err)
{
    struct fg_rollup_writer *writer = finishing->writer;
    struct fg_buf *nod = &writer->nod;
    struct fg_block_sealed stored;

    put_directory(finishing);
    if (writer->raw.len > FG_BLOCK_PAGE_RAW_MAX_BYTES)
        return fg_fail(err, FG_E_LIMIT, "rollup directory has %zu bytes", writer->raw.len);
    if (fg_block_seal(finishing->sealer, FG_BLOCK_NOD, 0,
                      fg_block_pack(writer->packer, fg_buf_slice(&writer->raw)), writer->raw.len,
                      &stored, err) != FG_OK)
        return err->code;
    fg_buf_le32(nod, FG_ROLLUP_MAGIC);
    fg_buf_le32(nod, FG_ROLLUP_VERSION);
    fg_buf_le32(nod, stored.raw_bytes);
    fg_buf_le32(nod, (uint32_t)stored.bytes.len);
    fg_buf_le32(nod, fg_crc32c(stored.bytes));
    fg_buf_le32(nod, fg_crc32c(fg_buf_slice(nod)));
    fg_buf_put(nod, stored.bytes);
    return FG_OK;
}

static void finishing_init(struct finishing *finishing, struct fg_rollup_writer *writer,
                           struct fg_block_sealer *sealer)
{
    size_t rows = FG_MAX((size_t)writer->n_rows, 1);

    *finishing = (struct finishing){
        .writer = writer,
        .sealer = sealer,
        .node_numbers = fg_calloc((size_t)writer->names.n_nodes + 1, sizeof(uint32_t)),
        .functions = fg_calloc((size_t)writer->names.n_names + 1, sizeof(uint32_t)),
        .order = fg_calloc(rows, sizeof(uint32_t)),
        .places = fg_calloc(rows, sizeof(uint32_t)),
        .parts = fg_calloc(rows, sizeof *finishing->parts),
    };
}

static void finishing_done(struct finishing *finishing)
{
    free(finishing->node_numbers);
    free(finishing->functions);
    free(finishing->order);
    free(finishing->places);
    free(finishing->parts);
}

static enum fg_code put_all(struct finishing *finishing, struct fg_err *err)
{
    const struct fg_rollup_writer *writer = finishing->writer;

    if (order_rows(finishing, err) != FG_OK || put_names(finishing, err) != FG_OK ||
        put_dict(finishing, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < writer->n_rows; i++)
        for (unsigned form = 0; form < FG_ROLLUP_FORMS; form++)
            if (put_part(finishing, finishing->order[i], (enum fg_rollup_form)form, err) != FG_OK)
                return err->code;
    return put_nod(finishing, err);
}

enum fg_code fg_rollup_finish(struct fg_rollup_writer *writer, struct fg_block_sealer *sealer,
                              struct fg_rollup_sections *ret_sections, struct fg_err *err)
{
    struct finishing finishing;
    enum fg_code code;

    if (writer->lacking && writer->options.all)
        return fg_fail(err, FG_E_LIMIT, "more rollups than a part may have");
    finishing_init(&finishing, writer, sealer);
    code = put_all(&finishing, err);
    finishing_done(&finishing);
    if (code != FG_OK)
        return code;
    *ret_sections =
        (struct fg_rollup_sections){fg_buf_slice(&writer->nod), fg_buf_slice(&writer->crn),
                                    fg_buf_slice(&writer->ftb), fg_buf_slice(&writer->ful)};
    return FG_OK;
}

enum fg_code fg_rollup_write(struct fg_rollup_writer *writer, struct fg_block_writer *block,
                             struct fg_err *err)
{
    struct fg_rollup_sections sections = {0};

    if (writer->options.named)
        fg_block_part_function_tree(block, &writer->names);
    if (!writer->any && !writer->options.all)
        return FG_OK;
    if (fg_rollup_finish(writer, fg_block_part_sealer(block), &sections, err) != FG_OK)
        return fg_wrap(err, "rollups");
    fg_block_part_section(block, FG_BLOCK_NOD, sections.nod);
    fg_block_part_section(block, FG_BLOCK_CRN, sections.crn);
    fg_block_part_section(block, FG_BLOCK_FTB, sections.ftb);
    fg_block_part_section(block, FG_BLOCK_FUL, sections.ful);
    return FG_OK;
}

enum fg_code fg_rollup_write_single(struct fg_rollup_writer *writer, uint64_t max_bytes,
                                    struct fg_block_writer *block, struct fg_err *err)
{
    struct fg_rollup_sections sections = {0};

    fg_assert(writer->options.single);
    if (fg_rollup_finish(writer, fg_block_part_sealer(block), &sections, err) != FG_OK)
        return fg_wrap(err, "rollups of single series");
    if (sections.nod.len + sections.crn.len > max_bytes) {
        /* All or none: a filter that matches some without a rollup reads all that these sum up. */
        fg_rollup_drop_rows(writer);
        if (fg_rollup_finish(writer, fg_block_part_sealer(block), &sections, err) != FG_OK)
            return fg_wrap(err, "list of series");
    }
    fg_block_part_section(block, FG_BLOCK_SND, sections.nod);
    fg_block_part_section(block, FG_BLOCK_SCR, sections.crn);
    return FG_OK;
}
