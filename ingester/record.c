/*
 * The order of a record (record.h) is that of its readers: totals are at the front, so POINTS reads
 * nothing else, and links and size at the end, where queries of values never look, nor at columns
 * behind theirs. All that is read is checked: a record that RocksDB returns may still be damaged,
 * and readers index arrays by its numbers.
 */
#include "ingester/record.h"

#include "common/base/cursor.h"
#include "common/base/value.h"

enum { RECORD_VERSION = 1, TYPES_MAX = 64 };
enum column_kind { COLUMN_ZERO, COLUMN_SCALED, COLUMN_MULTIPLE };

/* ---- encoding ---- */

static const int64_t *column(const struct fg_profile *profile, uint32_t type)
{
    return profile->values + (size_t)type * profile->n_samples;
}

/* Returns the common divisor of the values; 0: all values are 0. */
static uint64_t common_divisor(const int64_t *values, uint32_t count)
{
    uint64_t divisor = 0;

    for (uint32_t i = 0; i < count && divisor != 1; i++) {
        uint64_t value = (uint64_t)values[i];

        if (divisor == 0 || value % divisor != 0)
            divisor = fg_greatest_divisor(value, divisor);
    }
    return divisor;
}

/* Returns the factor if values == factor * base everywhere, or 0. */
static uint64_t factor_of(const int64_t *values, const int64_t *base, uint32_t count)
{
    uint64_t factor = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = (uint64_t)values[i], unit = (uint64_t)base[i], product;

        if (factor == 0 && unit != 0) {
            factor = value / unit;
            if (factor == 0) /* or the next sample would set it and ignore this one */
                return 0;
        }
        if (__builtin_mul_overflow(factor, unit, &product) || product != value)
            return 0;
    }
    return factor;
}

static void encode_column(const struct fg_profile *profile, uint32_t type,
                          const struct fg_keyed *samples, struct fg_buf *out)
{
    const int64_t *values = column(profile, type);
    uint64_t scale = common_divisor(values, profile->n_samples);

    if (scale == 0) {
        fg_buf_putc(out, COLUMN_ZERO);
        return;
    }
    for (uint32_t earlier = 0; earlier < type; earlier++) {
        uint64_t factor = factor_of(values, column(profile, earlier), profile->n_samples);

        if (factor != 0) {
            fg_buf_putc(out, COLUMN_MULTIPLE);
            fg_buf_varint(out, earlier);
            fg_buf_varint(out, factor);
            return;
        }
    }
    fg_buf_putc(out, COLUMN_SCALED);
    fg_buf_varint(out, scale);
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        uint64_t value = (uint64_t)values[samples[i].index];

        /* Most are a single unit or zero, and a division costs thirty times a comparison. */
        fg_buf_varint(out, value == scale ? 1 : value == 0 ? 0 : value / scale);
    }
}

static void encode_links(const struct fg_profile *profile, const struct fg_keyed *samples,
                         uint32_t *positions, struct fg_buf *out)
{
    fg_buf_varint(out, profile->n_links);
    if (profile->n_links == 0)
        return;
    for (uint32_t i = 0; i < profile->n_samples; i++)
        positions[samples[i].index] = i;
    for (uint32_t i = 0; i < profile->n_links; i++) {
        fg_buf_varint(out, positions[profile->links[i].sample]);
        fg_buf_le64(out, profile->links[i].span_id);
        fg_buf_append(out, profile->links[i].trace_id, FG_ID_BYTES);
    }
}

void ing_record_encode(const struct fg_profile *profile, uint32_t n_types, uint32_t generation,
                       const struct fg_keyed *samples, uint32_t *positions, struct fg_buf *out)
{
    uint32_t before = 0;

    fg_buf_varint(out, RECORD_VERSION);
    fg_buf_varint(out, generation);
    fg_buf_zigzag(out, profile->duration_ns);
    fg_buf_zigzag(out, profile->period);
    fg_buf_varint(out, n_types);
    fg_buf_varint(out, profile->n_samples);
    for (uint32_t t = 0; t < n_types; t++) {
        uint64_t total = 0;

        for (uint32_t i = 0; i < profile->n_samples; i++)
            fg_value_sum(&total, (uint64_t)column(profile, t)[i]);
        fg_buf_varint(out, total);
    }
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        fg_buf_varint(out, samples[i].key - before);
        before = samples[i].key;
    }
    for (uint32_t t = 0; t < n_types; t++)
        encode_column(profile, t, samples, out);
    encode_links(profile, samples, positions, out);
    if (profile->size.known) {
        fg_buf_varint(out, profile->size.wire_bytes);
        fg_buf_varint(out, profile->size.raw_bytes);
    }
}

/* ---- reading ---- */

static enum fg_code corrupt(struct fg_err *err, const char *where)
{
    return fg_fail(err, FG_E_CORRUPT, "stored profile: %s", where);
}

/* Reads what is before the totals. whole: the samples are behind them. Returns false if it cannot
 * be read; *ret_version false: it is of another version. */
static bool read_head(struct fg_cur *cur, bool whole, struct ing_record *record, bool *ret_version)
{
    *ret_version = fg_cur_varint(cur) == RECORD_VERSION;
    record->generation = (uint32_t)fg_cur_varint(cur);
    record->duration_ns = fg_cur_zigzag(cur);
    record->period = fg_cur_zigzag(cur);
    record->n_types = (uint32_t)fg_cur_count(cur, 1);
    /* A sample takes at least a byte, so the count cannot ask for more memory than the record
     * justifies. */
    if (whole)
        record->n_samples = (uint32_t)fg_cur_count(cur, 1);
    else
        (void)fg_cur_varint(cur);
    record->totals = *cur;
    return *ret_version && !cur->bad && record->n_types <= TYPES_MAX;
}

enum fg_code ing_record_open(struct fg_slice in, struct ing_record *ret_record, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct ing_record record = {0};
    bool version;

    if (!read_head(&cur, true, &record, &version))
        return corrupt(err, version ? "head" : "version");
    *ret_record = record;
    return FG_OK;
}

bool ing_record_open_front(struct fg_slice front, struct ing_record *ret_record)
{
    struct fg_cur cur = fg_cur(front);
    struct ing_record record = {0};
    bool version;

    if (!read_head(&cur, false, &record, &version))
        return false;
    for (uint32_t t = 0; t < record.n_types; t++)
        (void)fg_cur_varint(&cur);
    *ret_record = record;
    return !cur.bad;
}

enum fg_code ing_record_total(const struct ing_record *record, uint32_t type, uint64_t *ret_total,
                              struct fg_err *err)
{
    struct fg_cur cur = record->totals;
    uint64_t total = 0;

    for (uint32_t t = 0; t <= type; t++)
        total = fg_cur_varint(&cur);
    if (cur.bad || type >= record->n_types)
        return corrupt(err, "totals");
    *ret_total = total;
    return FG_OK;
}

void ing_record_columns_done(struct ing_record_columns *columns)
{
    free(columns->nodes);
    free(columns->values);
    free(columns->links);
    *columns = (struct ing_record_columns){0};
}

static void columns_reserve(struct ing_record_columns *columns, uint32_t count)
{
    if (count <= columns->cap)
        return;
    columns->cap = FG_MAX(count, columns->cap * 2);
    columns->nodes = fg_realloc(columns->nodes, columns->cap * sizeof *columns->nodes);
    columns->values = fg_realloc(columns->values, columns->cap * sizeof *columns->values);
}

/* The columns up to the one that is read. */
struct column_places {
    enum column_kind kinds[TYPES_MAX];
    struct fg_cur curs[TYPES_MAX]; /* after the kind */
    uint32_t held;                 /* the scaled column whose numbers are in the array */
    uint64_t scale;                /* of it */
};

/* Columns have no length, so all before the wanted one are read. Most types are multiples of an
 * earlier one: its numbers stay in the array, and are not read again. */
static bool read_numbers(struct fg_cur *cur, uint32_t type, uint32_t count,
                         struct column_places *places, uint64_t *numbers)
{
    places->held = TYPES_MAX; /* none */
    places->scale = 1;
    for (uint32_t t = 0; t <= type; t++) {
        uint8_t kind = fg_cur_u8(cur);

        places->kinds[t] = (enum column_kind)kind;
        places->curs[t] = *cur;
        if (kind == COLUMN_SCALED) {
            places->held = t;
            places->scale = fg_cur_varint(cur);
            fg_cur_varints(cur, numbers, count);
        } else if (kind == COLUMN_MULTIPLE) {
            if (fg_cur_varint(cur) >= t)
                return false;
            (void)fg_cur_varint(cur);
        } else if (kind != COLUMN_ZERO) {
            return false;
        }
    }
    return !cur->bad;
}

/* Skips the other columns, to reach what is behind them. */
static bool skip_columns(struct fg_cur *cur, uint32_t from, const struct ing_record *record)
{
    for (uint32_t t = from; t < record->n_types; t++) {
        uint8_t kind = fg_cur_u8(cur);

        if (kind == COLUMN_SCALED) {
            (void)fg_cur_varint(cur);
            fg_cur_skip_varints(cur, record->n_samples);
        } else if (kind == COLUMN_MULTIPLE) {
            if (fg_cur_varint(cur) >= t)
                return false;
            (void)fg_cur_varint(cur);
        } else if (kind != COLUMN_ZERO) {
            return false;
        }
    }
    return !cur->bad;
}

/* Makes the values of a type of the numbers that were read. */
static void make_values(struct column_places *places, uint32_t type, uint32_t count,
                        uint64_t *values)
{
    uint64_t factor = 1;

    /* A multiple names an earlier column, so this ends. */
    while (places->kinds[type] == COLUMN_MULTIPLE) {
        struct fg_cur cur = places->curs[type];

        type = (uint32_t)fg_cur_varint(&cur);
        factor *= fg_cur_varint(&cur);
    }
    if (places->kinds[type] == COLUMN_ZERO) {
        memset(values, 0, count * sizeof *values);
        return;
    }
    if (places->held != type) {
        struct fg_cur cur = places->curs[type];

        places->scale = fg_cur_varint(&cur);
        fg_cur_varints(&cur, values, count);
    }
    factor *= places->scale;
    for (uint32_t i = 0; factor != 1 && i < count; i++)
        values[i] *= factor;
}

static enum fg_code read_links(struct fg_cur *cur, const struct ing_record *record,
                               struct ing_record_columns *columns, struct fg_err *err)
{
    uint32_t count = (uint32_t)fg_cur_count(cur, 1 + 8 + FG_ID_BYTES);

    if (cur->bad)
        return corrupt(err, "links");
    if (count > columns->cap_links) {
        columns->cap_links = count;
        columns->links = fg_realloc(columns->links, count * sizeof *columns->links);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct fg_link *link = &columns->links[i];
        struct fg_slice trace;

        link->sample = (uint32_t)fg_cur_varint(cur);
        link->span_id = fg_cur_le64(cur);
        trace = fg_cur_take(cur, FG_ID_BYTES);
        if (cur->bad || link->sample >= record->n_samples)
            return corrupt(err, "links");
        memcpy(link->trace_id, trace.ptr, FG_ID_BYTES);
    }
    columns->n_links = count;
    return FG_OK;
}

/* Reads the size, which is behind the links and may be missing. */
static enum fg_code read_size(struct fg_cur *cur, struct fg_profile_size *ret_size,
                              struct fg_err *err)
{
    uint64_t wire, raw;

    *ret_size = (struct fg_profile_size){0};
    /* Records of profiles without a known size end here. */
    if (!fg_cur_more(cur))
        return FG_OK;
    wire = fg_cur_varint(cur);
    raw = fg_cur_varint(cur);
    if (cur->bad || wire > UINT32_MAX || raw > UINT32_MAX)
        return corrupt(err, "size");
    *ret_size = (struct fg_profile_size){true, (uint32_t)wire, (uint32_t)raw};
    return FG_OK;
}

/* Reads the nodes. values: scratch. */
static bool read_nodes(struct fg_cur *cur, uint32_t count, uint64_t *values, uint32_t *nodes)
{
    uint64_t node = 0;

    fg_cur_varints(cur, values, count);
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] > UINT32_MAX - node) /* readers rely on ascending nodes */
            return false;
        node += values[i];
        nodes[i] = (uint32_t)node;
    }
    return !cur->bad;
}

enum fg_code ing_record_read(const struct ing_record *record, uint32_t type, bool links,
                             struct ing_record_columns *columns, struct fg_err *err)
{
    struct column_places places;
    struct fg_cur cur = record->totals;
    uint32_t count = record->n_samples;

    if (type >= record->n_types)
        return corrupt(err, "type");
    for (uint32_t t = 0; t < record->n_types; t++)
        (void)fg_cur_varint(&cur);
    columns_reserve(columns, FG_MAX(count, 1)); /* no samples, and still arrays */
    columns->n_links = 0;
    if (!read_nodes(&cur, count, columns->values, columns->nodes))
        return corrupt(err, "nodes");
    if (!read_numbers(&cur, type, count, &places, columns->values))
        return corrupt(err, "columns");
    make_values(&places, type, count, columns->values);
    if (!links)
        return FG_OK;
    if (!skip_columns(&cur, type + 1, record))
        return corrupt(err, "columns");
    if (read_links(&cur, record, columns, err) != FG_OK)
        return err->code;
    return read_size(&cur, &columns->size, err);
}
