/*
 * What is worth keeping is decided when a rollup is added: its numbers are packed once to see how
 * long they get. The final bytes are made in the end, when the dictionary is known, over which
 * crowns and tables have their numbers.
 */
#include "common/storage/block/column.h"
#include "common/storage/rollup/writer_impl.h"

enum {
    /* What the first to need them pays for nodes and names; measured, rounded up. */
    DICT_NODE_BYTES = 2,
    NAME_TEXT_SHARE = 3, /* a third of its length is what is stored of a name */
    NAME_BYTES = 4,      /* in addition to its text, unpacked */
};

int fg_rollup_key_cmp(const struct fg_rollup_key *a, const struct fg_rollup_key *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

/* ---- the writer ---- */

static void *copy_array(const void *from, size_t count, size_t size)
{
    void *copy = fg_malloc(FG_MAX(count, 1) * size);

    if (count > 0)
        memcpy(copy, from, count * size);
    return copy;
}

enum fg_code fg_rollup_writer_create(const struct fg_rollup_options *options,
                                     struct fg_rollup_writer **ret_writer, struct fg_err *err)
{
    struct fg_rollup_writer *writer;

    if (options->n_types > FG_ROLLUP_TYPES_MAX)
        return fg_fail(err, FG_E_LIMIT, "rollups of %u types", options->n_types);
    if (options->groups->common.count > FG_ROLLUP_LABELS_MAX)
        return fg_fail(err, FG_E_LIMIT, "rollups with %zu common labels",
                       options->groups->common.count);
    if (options->n_derived_from > FG_ROLLUP_DERIVED_FROM_MAX)
        return fg_fail(err, FG_E_LIMIT, "rollups of %u objects", options->n_derived_from);
    writer = fg_new(struct fg_rollup_writer);
    writer->options = *options;
    writer->types = copy_array(options->types, options->n_types, sizeof *options->types);
    writer->derived_from =
        copy_array(options->derived_from, options->n_derived_from, sizeof *options->derived_from);
    writer->options.types = writer->types;
    writer->options.derived_from = writer->derived_from;
    if (options->crown_nodes == 0)
        writer->options.crown_nodes = FG_CROWN_NODES;
    fg_function_tree_init_stacks(&writer->names, options->tree, true);
    fg_function_values_init(&writer->values, &writer->names);
    writer->dict = fg_calloc((size_t)writer->names.n_nodes + 1, sizeof *writer->dict);
    writer->named = fg_calloc((size_t)writer->names.n_names + 1, sizeof *writer->named);
    writer->met = fg_calloc((size_t)writer->names.n_names + 1, sizeof *writer->met);
    writer->packer = fg_block_packer_create();
    fg_buf_init(&writer->raw, SIZE_MAX);
    fg_buf_init(&writer->nod, SIZE_MAX);
    fg_buf_init(&writer->crn, SIZE_MAX);
    fg_buf_init(&writer->ftb, SIZE_MAX);
    fg_buf_init(&writer->ful, SIZE_MAX);
    *ret_writer = writer;
    return FG_OK;
}

const struct fg_function_tree *fg_rollup_writer_functions(const struct fg_rollup_writer *writer)
{
    return &writer->names;
}

static void part_done(struct fg_rollup_out_part *part)
{
    free(part->numbers);
    fg_buf_done(&part->bytes);
}

void fg_rollup_drop_rows(struct fg_rollup_writer *writer)
{
    for (uint32_t i = 0; i < writer->n_rows; i++)
        for (unsigned form = 0; form < FG_ROLLUP_FORMS; form++)
            part_done(&writer->rows[i].parts[form]);
    memset(writer->dict, 0, writer->names.n_nodes * sizeof *writer->dict);
    memset(writer->named, 0, writer->names.n_names * sizeof *writer->named);
    writer->n_rows = writer->n_dict = writer->n_named = 0;
    writer->named_bytes = 0;
    writer->any = false;
    fg_buf_clear(&writer->nod);
    fg_buf_clear(&writer->crn);
    fg_buf_clear(&writer->ftb);
    fg_buf_clear(&writer->ful);
}

void fg_rollup_writer_destroy(struct fg_rollup_writer *writer)
{
    if (writer == NULL)
        return;
    fg_rollup_drop_rows(writer);
    free(writer->rows);
    free(writer->types);
    free(writer->derived_from);
    fg_function_values_done(&writer->values);
    fg_function_tree_done(&writer->names);
    free(writer->dict);
    free(writer->named);
    free(writer->met);
    fg_block_packer_destroy(writer->packer);
    fg_buf_done(&writer->raw);
    fg_buf_done(&writer->nod);
    fg_buf_done(&writer->crn);
    fg_buf_done(&writer->ftb);
    fg_buf_done(&writer->ful);
    free(writer);
}

/* ---- what a part is worth ---- */

/* varint scale, 0: all values are 0; n varints: value / scale. */
static void put_column(const int64_t *values, uint32_t count, struct fg_buf *out)
{
    const uint64_t *numbers = (const uint64_t *)values;
    struct fg_block_column column = fg_block_column_choose(numbers, count, NULL, 0, 0, NULL);

    if (column.kind == FG_BLOCK_COLUMN_ZERO) {
        fg_buf_varint(out, 0);
        return;
    }
    fg_buf_varint(out, column.scale);
    for (uint32_t i = 0; i < count; i++)
        fg_buf_varint(out, numbers[i] / column.scale);
}

void fg_rollup_put_gaps(const uint32_t *numbers, uint32_t count, struct fg_buf *out)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < count; i++) {
        fg_buf_varint(out, numbers[i] - next);
        next = numbers[i] + 1;
    }
}

/* Returns how long a part gets, with the numbers it has now. UINT64_MAX: it cannot be stored. */
static uint64_t packed_bytes(struct fg_rollup_writer *writer, const struct fg_rollup_out_part *part)
{
    fg_buf_clear(&writer->raw);
    fg_rollup_put_gaps(part->numbers, part->count, &writer->raw);
    fg_buf_put(&writer->raw, fg_buf_slice(&part->bytes));
    if (writer->raw.len > FG_BLOCK_PAGE_RAW_MAX_BYTES)
        return UINT64_MAX;
    return fg_block_pack(writer->packer, fg_buf_slice(&writer->raw)).len;
}

/* What enters the dictionary with a part, if the part is kept. The first part that needs a name
 * pays for it. */
struct newcomers {
    uint32_t nodes;
    uint64_t name_bytes; /* unpacked */
};

static void meet_name(struct fg_rollup_writer *writer, uint32_t name, struct newcomers *newcomers)
{
    if (writer->named[name] || writer->met[name] == writer->n_met)
        return;
    writer->met[name] = writer->n_met;
    newcomers->name_bytes += writer->names.names[name].len + NAME_BYTES;
}

static struct newcomers count_newcomers(struct fg_rollup_writer *writer, enum fg_rollup_form form,
                                        const struct fg_rollup_out_part *part)
{
    struct newcomers newcomers = {0};

    writer->n_met++;
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t number = part->numbers[i];

        if (form == FG_ROLLUP_TOTALS) {
            meet_name(writer, number, &newcomers);
        } else if (!writer->dict[number]) {
            newcomers.nodes++;
            meet_name(writer, writer->names.functions[number], &newcomers);
        }
    }
    return newcomers;
}

static void admit(struct fg_rollup_writer *writer, enum fg_rollup_form form,
                  const struct fg_rollup_out_part *part)
{
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t number = part->numbers[i];
        uint32_t name = form == FG_ROLLUP_TOTALS ? number : writer->names.functions[number];

        if (form == FG_ROLLUP_CROWN && !writer->dict[number]) {
            writer->dict[number] = true;
            writer->n_dict++;
        }
        if (!writer->named[name]) {
            writer->named[name] = true;
            writer->n_named++;
            writer->named_bytes += writer->names.names[name].len + NAME_BYTES;
        }
    }
}

/* Keeps the part if it is worth its bytes. lacking: one was left out for its size, which `all` of
 * the options does not allow. */
static void keep_if_worth(struct fg_rollup_writer *writer, enum fg_rollup_form form,
                          uint64_t replaces_bytes, struct fg_rollup_out_part *part)
{
    struct newcomers newcomers = {0};
    uint64_t bytes = packed_bytes(writer, part);

    if (form != FG_ROLLUP_FULL)
        newcomers = count_newcomers(writer, form, part);
    if (bytes == UINT64_MAX || newcomers.nodes > FG_ROLLUP_DICT_MAX - writer->n_dict ||
        newcomers.name_bytes > FG_BLOCK_PAGE_RAW_MAX_BYTES - writer->named_bytes) {
        writer->lacking = true;
        return;
    }
    bytes += (uint64_t)newcomers.nodes * DICT_NODE_BYTES + newcomers.name_bytes / NAME_TEXT_SHARE;
    if (!writer->options.all && !fg_rollup_worth(bytes, replaces_bytes))
        return;
    part->kept = true;
    if (form != FG_ROLLUP_FULL)
        admit(writer, form, part);
}

/* ---- parts ---- */

static void add_crown(struct fg_rollup_writer *writer, const struct fg_rollup_value *value,
                      struct fg_rollup_out_row *row)
{
    struct fg_rollup_out_part *part = &row->parts[FG_ROLLUP_CROWN];
    struct fg_crown crown;

    fg_crown_make(&writer->names, &writer->values, writer->options.crown_nodes, &crown);
    row->cut_max = crown.cut_max;
    fg_buf_putc(&part->bytes, crown.has_negatives);
    fg_buf_zigzag(&part->bytes, crown.root_rest);
    put_column(crown.self, crown.n_nodes, &part->bytes);
    put_column(crown.rest, crown.n_nodes, &part->bytes);
    part->count = crown.n_nodes;
    part->numbers = crown.nodes;
    crown.nodes = NULL; /* it is the part's now */
    fg_crown_done(&crown);
    keep_if_worth(writer, FG_ROLLUP_CROWN, value->replaces_bytes, part);
}

/* Functions without any value get no row. */
static void add_table(struct fg_rollup_writer *writer, const struct fg_rollup_value *value,
                      struct fg_rollup_out_row *row)
{
    struct fg_rollup_out_part *part = &row->parts[FG_ROLLUP_TOTALS];
    struct fg_function_values *values = &writer->values;
    uint32_t n_names = writer->names.n_names;

    part->numbers = fg_malloc(FG_MAX((size_t)n_names, 1) * sizeof *part->numbers);
    for (uint32_t i = 0; i < n_names; i++) {
        if (values->function_self[i] == 0 && values->function_totals[i] == 0)
            continue;
        /* To the front: the next rollup sets them all again. */
        values->function_self[part->count] = values->function_self[i];
        values->function_totals[part->count] = values->function_totals[i];
        part->numbers[part->count++] = i;
    }
    put_column(values->function_self, part->count, &part->bytes);
    put_column(values->function_totals, part->count, &part->bytes);
    keep_if_worth(writer, FG_ROLLUP_TOTALS, value->replaces_bytes, part);
}

static void fill_row(struct fg_rollup_writer *writer, const struct fg_rollup_value *value,
                     struct fg_rollup_out_row *row)
{
    for (unsigned form = 0; form < FG_ROLLUP_FORMS; form++)
        fg_buf_init(&row->parts[form].bytes, SIZE_MAX);
    fg_function_values_set_nodes(&writer->values, &writer->names, value->self);
    row->total = writer->values.all;
    add_crown(writer, value, row);
    if (!writer->options.single)
        add_table(writer, value, row);
    if (value->full != NULL) {
        struct fg_rollup_out_part *full = &row->parts[FG_ROLLUP_FULL];

        put_column((const int64_t *)value->full, writer->options.n_ranks, &full->bytes);
        keep_if_worth(writer, FG_ROLLUP_FULL, value->replaces_bytes, full);
    }
    /* Frees parts that are not kept, and cuts kept ones to their size. */
    for (unsigned form = 0; form < FG_ROLLUP_FORMS; form++) {
        struct fg_rollup_out_part *part = &row->parts[form];

        if (!part->kept) {
            part_done(part);
            *part = (struct fg_rollup_out_part){0};
        } else if (part->count > 0) {
            part->numbers = fg_realloc(part->numbers, part->count * sizeof *part->numbers);
        }
    }
}

/* ---- adding ---- */

static enum fg_code check_key(const struct fg_rollup_writer *writer,
                              const struct fg_rollup_key *key, const struct fg_rollup_value *values,
                              uint32_t n_values, struct fg_err *err)
{
    const struct fg_groups *groups = writer->options.groups;
    uint32_t numbers = key->kind == FG_ROLLUP_ALL     ? 1
                       : key->kind == FG_ROLLUP_GROUP ? groups->n_groups
                                                      : groups->n_series;

    if (key->number >= numbers || key->start_ns >= key->end_ns)
        return fg_fail(err, FG_E_INVALID, "rollup %u of %u, from %lld to %lld", key->number,
                       numbers, (long long)key->start_ns, (long long)key->end_ns);
    for (uint32_t i = 0; i < n_values; i++)
        if (values[i].type >= writer->options.n_types ||
            (i > 0 && values[i].type <= values[i - 1].type))
            return fg_fail(err, FG_E_INVALID, "rollup of type %u", values[i].type);
    if (n_values > FG_ROLLUP_MAX - writer->n_rows)
        return fg_fail(err, FG_E_LIMIT, "too many rollups");
    return FG_OK;
}

static const uint64_t *sums_of(const struct fg_rollup_value *value, bool full)
{
    return full ? value->full : (const uint64_t *)value->self;
}

/* Returns the row of an earlier value of the key of which this one is a multiple, or
 * FG_MAP_NONE. All rows of the key are behind `first`. CPU profiles have samples and time that
 * differ by one factor. */
static uint32_t find_base(const struct fg_rollup_writer *writer,
                          const struct fg_rollup_value *values, uint32_t i, uint32_t first,
                          uint64_t *ret_factor)
{
    /* A multiple by stack is one by name too. */
    bool full = values[i].full != NULL;
    uint32_t count = full ? writer->options.n_ranks : writer->names.n_nodes;

    for (uint32_t row = first; row < writer->n_rows; row++) {
        const struct fg_rollup_out_row *base = &writer->rows[row];
        const uint64_t *sums = NULL;
        struct fg_block_column column;
        uint64_t product;

        for (uint32_t k = 0; k < i; k++)
            if (values[k].type == base->type)
                sums = sums_of(&values[k], full);
        if (sums == NULL || base->base != FG_MAP_NONE)
            continue;
        column = fg_block_column_choose(sums_of(&values[i], full), count, sums, 0, 1, NULL);
        if (column.kind == FG_BLOCK_COLUMN_MULTIPLE &&
            !__builtin_mul_overflow(base->cut_max, column.scale, &product) &&
            product <= INT64_MAX) {
            *ret_factor = column.scale;
            return row;
        }
    }
    return FG_MAP_NONE;
}

static void add_value(struct fg_rollup_writer *writer, const struct fg_rollup_key *key,
                      const struct fg_rollup_value *values, uint32_t i, uint32_t first)
{
    if (writer->n_rows == writer->cap_rows) {
        writer->cap_rows = FG_MAX(writer->cap_rows * 2, 16);
        writer->rows = fg_realloc(writer->rows, writer->cap_rows * sizeof *writer->rows);
    }

    struct fg_rollup_out_row *row = &writer->rows[writer->n_rows];
    const struct fg_rollup_value *value = &values[i];

    *row = (struct fg_rollup_out_row){.key = *key,
                                      .type = value->type,
                                      .count = value->count,
                                      .digest = value->digest,
                                      .base = FG_MAP_NONE,
                                      .factor = 1};
    if (value->count > 0) {
        fg_assert(value->self != NULL);
        row->base = find_base(writer, values, i, first, &row->factor);
        if (row->base == FG_MAP_NONE)
            fill_row(writer, value, row);
        else
            row->total = fg_value_mul(writer->rows[row->base].total, row->factor);
    }
    /* A row without a form that is worth its bytes is dropped, unless it records that there are no
     * profiles. */
    if (row->count == 0 || row->base != FG_MAP_NONE || row->parts[FG_ROLLUP_CROWN].kept ||
        row->parts[FG_ROLLUP_TOTALS].kept || row->parts[FG_ROLLUP_FULL].kept) {
        writer->any = writer->any || row->count > 0;
        writer->n_rows++;
    }
}

enum fg_code fg_rollup_add(struct fg_rollup_writer *writer, const struct fg_rollup_key *key,
                           const struct fg_rollup_value *values, uint32_t n_values,
                           struct fg_err *err)
{
    uint32_t first = writer->n_rows;

    if (check_key(writer, key, values, n_values, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < n_values; i++)
        add_value(writer, key, values, i, first);
    return FG_OK;
}
