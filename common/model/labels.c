#include "common/model/labels.h"

#include "common/base/cursor.h"
#include "common/base/str.h"

enum {
    SORT_INSERTION_MAX = 16, /* label sets are nearly always shorter */
    LABEL_MIN_BYTES = 2,     /* of an encoded label: two lengths */
    HASH_BUF_MAX_BYTES = INT32_MAX,
};

#define HASH_SEED UINT64_C(0x6c6162656c73) /* "labels": no other hash uses it */

/* Stable: only a greater name moves behind. */
static void sort_insertion(struct fg_label *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct fg_label label = items[i];
        size_t at = i;

        for (; at > 0 && fg_slice_cmp(items[at - 1].name, label.name) > 0; at--)
            items[at] = items[at - 1];
        items[at] = label;
    }
}

static void merge_halves(struct fg_label *items, size_t half, size_t count,
                         struct fg_label *scratch)
{
    size_t left = 0, right = half, n = 0;

    while (left < half && right < count) {
        bool take_left = fg_slice_cmp(items[left].name, items[right].name) <= 0;

        scratch[n++] = items[take_left ? left++ : right++];
    }
    while (left < half)
        scratch[n++] = items[left++];
    /* The rest of the right half stands where it belongs. */
    memcpy(items, scratch, n * sizeof *items);
}

/*
 * A merge sort from runs of SORT_INSERTION_MAX upwards. Not qsort(), because the last of equal
 * names has to stay the last, and a client chooses how many labels there are before any limit is
 * checked.
 */
static void sort_stable(struct fg_label *items, size_t count)
{
    struct fg_label *scratch;

    for (size_t i = 0; i < count; i += SORT_INSERTION_MAX)
        sort_insertion(items + i, FG_MIN(count - i, (size_t)SORT_INSERTION_MAX));
    if (count <= SORT_INSERTION_MAX)
        return;
    scratch = fg_malloc(count * sizeof *scratch);
    for (size_t half = SORT_INSERTION_MAX; half < count; half *= 2)
        for (size_t i = 0; half < count - i; i += FG_MIN(2 * half, count - i))
            merge_halves(items + i, half, FG_MIN(2 * half, count - i), scratch);
    free(scratch);
}

void fg_labels_sort(struct fg_labels *labels)
{
    size_t kept = 0;

    sort_stable(labels->items, labels->count);
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];

        /* The last of equal names wins; an empty value means that the label is not there, as in
         * Prometheus. */
        if (i + 1 < labels->count && fg_slice_eq(label->name, label[1].name))
            continue;
        if (label->value.len > 0)
            labels->items[kept++] = *label;
    }
    labels->count = kept;
}

/* Linear: sets have about ten labels, and need not be sorted here. */
struct fg_slice fg_labels_get(const struct fg_labels *labels, const char *name)
{
    struct fg_slice wanted = fg_cstr(name);

    for (size_t i = 0; i < labels->count; i++)
        if (fg_slice_eq(labels->items[i].name, wanted))
            return labels->items[i].value;
    return fg_bytes(NULL, 0);
}

bool fg_labels_find(const struct fg_labels *labels, struct fg_slice name, size_t *ret_at)
{
    size_t from = 0, to = labels->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = fg_slice_cmp(labels->items[middle].name, name);

        if (order == 0) {
            *ret_at = middle;
            return true;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    *ret_at = from;
    return false;
}

void fg_labels_remove(struct fg_labels *labels, struct fg_slice name)
{
    size_t at;

    if (!fg_labels_find(labels, name, &at))
        return;
    labels->count--;
    memmove(labels->items + at, labels->items + at + 1,
            (labels->count - at) * sizeof *labels->items);
}

int fg_labels_cmp(const struct fg_labels *a, const struct fg_labels *b)
{
    for (size_t i = 0; i < FG_MIN(a->count, b->count); i++) {
        int order = fg_slice_cmp(a->items[i].name, b->items[i].name);

        if (order == 0)
            order = fg_slice_cmp(a->items[i].value, b->items[i].value);
        if (order != 0)
            return order;
    }
    return (a->count > b->count) - (a->count < b->count);
}

static bool is_one_of(struct fg_slice name, const char *const *names, size_t n_names)
{
    for (size_t i = 0; i < n_names; i++)
        if (fg_slice_is(name, names[i]))
            return true;
    return false;
}

/* A set from a peer is not checked for names that occur twice, hence the second bound on the
 * count. */
struct fg_labels fg_labels_restrict(const struct fg_labels *labels, const char *const *names,
                                    size_t n_names, struct fg_arena *arena)
{
    struct fg_labels out = {NULL, 0};

    if (n_names == 0)
        return *labels;
    out.items = fg_arena_new(arena, struct fg_label, FG_MIN(labels->count, n_names));
    for (size_t i = 0; out.items != NULL && i < labels->count; i++)
        if (is_one_of(labels->items[i].name, names, n_names) &&
            out.count < FG_MIN(labels->count, n_names))
            out.items[out.count++] = labels->items[i];
    return out;
}

struct fg_labels fg_labels_group(const struct fg_labels *labels, const char *const *names,
                                 size_t n_names, struct fg_arena *arena)
{
    struct fg_labels out = {fg_arena_new(arena, struct fg_label, n_names), 0};

    for (size_t i = 0; out.items != NULL && i < n_names; i++) {
        struct fg_slice value = fg_labels_get(labels, names[i]);

        if (value.len > 0)
            out.items[out.count++] = (struct fg_label){fg_cstr(names[i]), value};
    }
    return out;
}

struct fg_labels fg_labels_copy(const struct fg_labels *labels, struct fg_arena *arena)
{
    struct fg_labels out = {fg_arena_new(arena, struct fg_label, labels->count), labels->count};

    for (size_t i = 0; out.items != NULL && i < labels->count; i++) {
        out.items[i].name = fg_arena_copy(arena, labels->items[i].name);
        out.items[i].value = fg_arena_copy(arena, labels->items[i].value);
        /* The arena is full. The loop ends, and NULL tells the caller. */
        if (out.items[i].name.ptr == NULL || out.items[i].value.ptr == NULL)
            out.items = NULL;
    }
    return out;
}

struct fg_id fg_labels_hash(const struct fg_labels *labels)
{
    struct fg_buf buf;
    struct fg_id id;

    fg_buf_init(&buf, HASH_BUF_MAX_BYTES);
    fg_labels_encode(labels, &buf);
    fg_assert(
        !buf.full); /* uploads are far smaller; cut short it would be the hash of another set */
    id = fg_hash128_seed(fg_buf_slice(&buf), HASH_SEED);
    fg_buf_done(&buf);
    return id;
}

void fg_labels_encode(const struct fg_labels *labels, struct fg_buf *out)
{
    fg_buf_varint(out, labels->count);
    for (size_t i = 0; i < labels->count; i++) {
        fg_buf_lenbytes(out, labels->items[i].name);
        fg_buf_lenbytes(out, labels->items[i].value);
    }
}

enum fg_code fg_labels_decode(struct fg_slice in, struct fg_arena *arena,
                              struct fg_labels *ret_labels, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct fg_labels labels;

    labels.count = (size_t)fg_cur_count(&cur, LABEL_MIN_BYTES);
    labels.items = fg_arena_new(arena, struct fg_label, labels.count);
    if (labels.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "set of %zu labels", labels.count);
    for (size_t i = 0; i < labels.count; i++) {
        labels.items[i].name = fg_cur_lenbytes(&cur);
        labels.items[i].value = fg_cur_lenbytes(&cur);
    }
    if (!fg_cur_end(&cur))
        return fg_fail(err, FG_E_CORRUPT, "label set does not fit its %zu bytes", in.len);
    *ret_labels = labels;
    return FG_OK;
}

void fg_labels_write(const struct fg_labels *labels, struct fg_buf *out)
{
    fg_buf_putc(out, '{');
    for (size_t i = 0; i < labels->count; i++) {
        if (i > 0)
            fg_buf_puts(out, ", ");
        fg_buf_put(out, labels->items[i].name);
        fg_buf_putc(out, '=');
        fg_labels_quote(labels->items[i].value, out);
    }
    fg_buf_putc(out, '}');
}

/* True as in Go's strconv.IsPrint, except for characters that no version of Unicode has assigned:
 * they would need Go's tables, and these texts are for people to read. */
static bool is_printable(uint32_t rune)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x00, 0x1f},     {0x7f, 0xa0},       {0xad, 0xad},        {0x1680, 0x1680},
        {0x180e, 0x180e}, {0x2000, 0x200f},   {0x2028, 0x202f},    {0x205f, 0x206f},
        {0x3000, 0x3000}, {0xe000, 0xf8ff},   {0xfeff, 0xfeff},    {0xfff0, 0xfffb},
        {0xfffe, 0xffff}, {0xe0000, 0xe007f}, {0xf0000, 0x10ffff},
    };

    for (size_t i = 0; i < FG_COUNT(hidden); i++)
        if (rune >= hidden[i].first && rune <= hidden[i].last)
            return false;
    return true;
}

static void quote_rune(uint32_t rune, struct fg_slice bytes, struct fg_buf *out)
{
    static const char letters[] = "abtnvfr"; /* \a is 7, \r is 13 */

    if (rune == '"' || rune == '\\') {
        fg_buf_putc(out, '\\');
        fg_buf_put(out, bytes);
    } else if (rune >= 7 && rune <= 13) {
        fg_buf_putc(out, '\\');
        fg_buf_putc(out, (uint8_t)letters[rune - 7]);
    } else if (is_printable(rune)) {
        fg_buf_put(out, bytes);
    } else if (rune < 0x80) {
        fg_buf_printf(out, "\\x%02x", (unsigned)rune);
    } else {
        fg_buf_printf(out, rune < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)rune);
    }
}

void fg_labels_quote(struct fg_slice text, struct fg_buf *out)
{
    uint32_t rune;
    size_t len;

    fg_buf_putc(out, '"');
    for (; text.len > 0; text = fg_slice_sub(text, len, SIZE_MAX)) {
        if (fg_utf8_next(text, &rune, &len)) {
            quote_rune(rune, fg_slice_sub(text, 0, len), out);
        } else {
            fg_assert(text.ptr != NULL);
            fg_buf_printf(out, "\\x%02x", (unsigned)text.ptr[0]);
            len = 1;
        }
    }
    fg_buf_putc(out, '"');
}

/* Cuts text at its colons; counts all parts, keeps the first `max`. */
static size_t split_parts(struct fg_slice text, struct fg_slice *parts, size_t max)
{
    /* Counts beyond max, too: the error says how many parts there were. */
    for (size_t n = 0;; n++) {
        size_t colon = fg_slice_find(text, ':');

        if (n < max)
            parts[n] = fg_slice_sub(text, 0, colon);
        if (colon == SIZE_MAX)
            return n + 1;
        text = fg_slice_sub(text, colon + 1, SIZE_MAX);
    }
}

static enum fg_code type_refuse(struct fg_slice text, size_t parts, struct fg_err *err)
{
    struct fg_buf quoted;

    fg_buf_init(&quoted, (size_t)8 * FG_ERR_MSG_MAX_BYTES);
    /* Quoted, since the text is a client's and the message goes into a log line. */
    fg_labels_quote(fg_slice_sub(text, 0, FG_ERR_MSG_MAX_BYTES), &quoted);
    (void)fg_fail(err, FG_E_INVALID,
                  "profile-type selection must be of the form <name>:<sample-type>:<sample-unit>:"
                  "<period-type>:<period-unit>(:delta), got(%zu): %.*s",
                  parts, FG_S(fg_buf_slice(&quoted)));
    fg_buf_done(&quoted);
    return err->code;
}

enum fg_code fg_profile_type_parse(struct fg_slice text, struct fg_profile_type *ret_type,
                                   struct fg_err *err)
{
    struct fg_slice parts[5];
    size_t n = split_parts(text, parts, FG_COUNT(parts));

    /* The sixth part is ":delta", which Pyroscope accepts as well. It selects nothing. */
    if (n != 5 && n != 6)
        return type_refuse(text, n, err);
    *ret_type = (struct fg_profile_type){parts[0], parts[1], parts[2], parts[3], parts[4]};
    return FG_OK;
}

void fg_profile_type_write(const struct fg_profile_type *type, struct fg_buf *out)
{
    const struct fg_slice parts[] = {type->name, type->type, type->unit, type->period_type,
                                     type->period_unit};

    for (size_t i = 0; i < FG_COUNT(parts); i++) {
        if (i > 0)
            fg_buf_putc(out, ':');
        fg_buf_put(out, parts[i]);
    }
}

bool fg_profile_type_is_moment(const struct fg_profile_type *type)
{
    static const char *const moments[] = {"goroutine", "goroutines", "threadcreate", "live"};

    for (size_t i = 0; i < FG_COUNT(moments); i++)
        if (fg_slice_is(type->type, moments[i]))
            return true;
    return fg_slice_starts(type->type, "inuse_");
}

bool fg_profile_type_eq(const struct fg_profile_type *a, const struct fg_profile_type *b)
{
    return fg_slice_eq(a->name, b->name) && fg_slice_eq(a->type, b->type) &&
           fg_slice_eq(a->unit, b->unit) && fg_slice_eq(a->period_type, b->period_type) &&
           fg_slice_eq(a->period_unit, b->period_unit);
}

static struct fg_slice type_text(const struct fg_profile_type *type, struct fg_arena *arena)
{
    /* Four colons between five parts. */
    size_t len = type->name.len + type->type.len + type->unit.len + type->period_type.len +
                 type->period_unit.len + 4;
    struct fg_slice copy = {NULL, 0};
    struct fg_buf buf;

    fg_buf_init(&buf, len);
    fg_profile_type_write(type, &buf);
    copy = fg_arena_copy(arena, fg_buf_slice(&buf));
    fg_buf_done(&buf);
    return copy;
}

struct fg_labels fg_labels_with_type(const struct fg_labels *series,
                                     const struct fg_profile_type *type, struct fg_arena *arena)
{
    const struct fg_label own[] = {
        {FG_LIT(FG_LABEL_PROFILE_TYPE), type_text(type, arena)},
        {FG_LIT(FG_LABEL_NAME), type->name},
        {FG_LIT(FG_LABEL_TYPE), type->type},
        {FG_LIT(FG_LABEL_UNIT), type->unit},
        {FG_LIT(FG_LABEL_PERIOD_TYPE), type->period_type},
        {FG_LIT(FG_LABEL_PERIOD_UNIT), type->period_unit},
        {FG_LIT(FG_LABEL_SERVICE_COPY), fg_labels_get(series, FG_LABEL_SERVICE)},
    };
    struct fg_labels all = {NULL, series->count + FG_COUNT(own)};

    /* The arena is full: the other values are borrowed and cannot fail. */
    if (own[0].value.ptr == NULL)
        return (struct fg_labels){NULL, 0};
    all.items = fg_arena_new(arena, struct fg_label, all.count);
    if (all.items == NULL)
        return (struct fg_labels){NULL, 0};
    if (series->count > 0)
        memcpy(all.items, series->items, series->count * sizeof *all.items);
    memcpy(all.items + series->count, own, sizeof own);
    /* The own labels come last, so they win over labels of the series with such names. */
    fg_labels_sort(&all);
    return all;
}
