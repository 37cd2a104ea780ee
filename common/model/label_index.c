#include "common/model/label_index.h"

#include "common/base/cursor.h"
#include "common/base/search.h"

enum {
    VALUE_MIN_BYTES = 2,   /* of an encoded value: its length, and how many series it has */
    SERIES_MIN_BYTES = 16, /* of a posting's list of series in an arena */
    OF_TYPES_PART = 8,     /* of the memory for an index: an eighth is for of_types */
};

#define PAIR_SEED UINT64_C(0x7479706564) /* "typed": no other hash uses it */

const char *const fg_label_names_of_type[FG_LABEL_NAMES_OF_TYPE] = {
    FG_LABEL_PROFILE_TYPE, FG_LABEL_TYPE,        FG_LABEL_UNIT,
    FG_LABEL_PERIOD_TYPE,  FG_LABEL_PERIOD_UNIT, FG_LABEL_SERVICE_COPY,
};

/* Linear: there are six names, and most of them differ in length. */
static int number_of(struct fg_slice name)
{
    for (int i = 0; i < FG_LABEL_NAMES_OF_TYPE; i++)
        if (fg_slice_is(name, fg_label_names_of_type[i]))
            return i;
    return -1;
}

bool fg_label_is_of_type(struct fg_slice name)
{
    return number_of(name) >= 0;
}

struct fg_slice fg_label_of_type(unsigned at, const struct fg_profile_type *type,
                                 struct fg_slice type_text, struct fg_slice service)
{
    const struct fg_slice values[FG_LABEL_NAMES_OF_TYPE] = {
        type_text, type->type, type->unit, type->period_type, type->period_unit, service};

    fg_assert(at < FG_LABEL_NAMES_OF_TYPE);
    return values[at];
}

struct fg_id fg_label_pair_print(struct fg_id series, struct fg_slice value)
{
    /* A sum, so that the series' print is computed once for all values. */
    return fg_id_add(series, fg_hash128_seed(value, PAIR_SEED));
}

static int label_cmp(struct fg_slice name, struct fg_slice value, struct fg_slice other_name,
                     struct fg_slice other_value)
{
    int order = fg_slice_cmp(name, other_name);

    return order != 0 ? order : fg_slice_cmp(value, other_value);
}

uint32_t fg_label_posting_find(const struct fg_label_posting *postings, uint32_t n,
                               struct fg_slice name, struct fg_slice value)
{
    return fg_lower_bound(i, 0, n, label_cmp(postings[i].name, postings[i].value, name, value) < 0);
}

/* ---- making one ---- */

void fg_label_indexing_init(struct fg_label_indexing *indexing, const char *label,
                            struct fg_arena *arena)
{
    *indexing = (struct fg_label_indexing){
        .arena = arena, .label = label, .of_type = label == NULL ? -1 : number_of(fg_cstr(label))};
}

/* Finds a label, or appends it to a list of distinct ones. *ret_at: its number. */
static bool intern(struct fg_arena *arena, struct fg_map *map, struct fg_label **labels,
                   uint32_t *n, uint32_t *cap, const struct fg_label *label, uint32_t *ret_at)
{
    /* Mixed on one side, so that (a, b) and (b, a) have different hashes. */
    uint64_t hash = fg_hash64_table(label->name) + fg_mix64(fg_hash64_table(label->value));
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(map, hash, &walk); i != FG_MAP_NONE; i = fg_map_next(map, &walk))
        /* Values first: names are often the same, values rarely. */
        if (fg_slice_eq((*labels)[i].value, label->value) &&
            fg_slice_eq((*labels)[i].name, label->name)) {
            *ret_at = i;
            return true;
        }
    if (!fg_arena_grow(arena, labels, *n, 1, cap, sizeof **labels) ||
        !fg_map_add_in(map, arena, hash, *n))
        return false;
    (*labels)[*n] = *label;
    *ret_at = (*n)++;
    return true;
}

static bool use(struct fg_label_indexing *indexing, const struct fg_label *label, uint32_t series)
{
    uint32_t at;

    if (!intern(indexing->arena, &indexing->by_label, &indexing->labels, &indexing->n_labels,
                &indexing->cap_labels, label, &at) ||
        !fg_arena_grow(indexing->arena, &indexing->uses, indexing->n_uses, 1, &indexing->cap_uses,
                       sizeof *indexing->uses))
        return false;
    /* One list for all labels: arrays that grow apart would leave holes all over the arena. */
    indexing->uses[indexing->n_uses++] = (uint64_t)at << 32 | series;
    return true;
}

bool fg_label_indexing_series(struct fg_label_indexing *indexing, const struct fg_labels *labels,
                              const struct fg_id *print)
{
    struct fg_arena *arena = indexing->arena;
    uint32_t n = indexing->n_prints, n_uses = indexing->n_uses;

    if (!fg_arena_grow(arena, &indexing->prints, n, 1, &indexing->cap_prints,
                       sizeof *indexing->prints) ||
        !fg_arena_grow(arena, &indexing->marks, n, 1, &indexing->cap_marks,
                       sizeof *indexing->marks))
        return false;
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];
        /* In an index of a label that is made from types, only add_pair() adds uses. */
        bool wanted = indexing->label == NULL
                          ? !fg_label_is_of_type(label->name)
                          : indexing->of_type < 0 && fg_slice_is(label->name, indexing->label);

        if (wanted && !use(indexing, label, n)) {
            indexing->n_uses = n_uses; /* they name a series that is not there */
            return false;
        }
    }
    indexing->service = fg_labels_get(labels, FG_LABEL_SERVICE);
    indexing->prints[n] = print != NULL ? *print : fg_labels_hash(labels);
    indexing->marks[n] = FG_LABEL_SELECTED;
    indexing->n_prints++;
    return true;
}

/* In an index of one label: the pairs of series and value are numbered by themselves until the
 * number of series is known. */
static bool add_pair(struct fg_label_indexing *indexing, struct fg_slice value)
{
    struct fg_label label = {fg_cstr(indexing->label), value};
    uint32_t n = indexing->n_pairs;

    if (!fg_arena_grow(indexing->arena, &indexing->pairs, n, 1, &indexing->cap_pairs,
                       sizeof *indexing->pairs) ||
        !use(indexing, &label, n))
        return false;
    indexing->pairs[n] = fg_label_pair_print(indexing->prints[indexing->n_prints - 1], value);
    indexing->n_pairs++;
    return true;
}

bool fg_label_indexing_type(struct fg_label_indexing *indexing, const struct fg_profile_type *type,
                            struct fg_slice text)
{
    uint8_t *mark;

    fg_assert(indexing->n_prints > 0);
    mark = &indexing->marks[indexing->n_prints - 1];
    for (unsigned i = 0; i < FG_LABEL_NAMES_OF_TYPE; i++) {
        struct fg_label label = {fg_cstr(fg_label_names_of_type[i]),
                                 fg_label_of_type(i, type, text, indexing->service)};
        uint32_t at;

        /* A label without a value is none; a period type may be missing. */
        if (label.value.len == 0)
            continue;
        *mark |= (uint8_t)(1U << i);
        if (indexing->label != NULL && (int)i == indexing->of_type &&
            !add_pair(indexing, label.value))
            return false;
        if (indexing->label == NULL &&
            !intern(indexing->arena, &indexing->by_of_type, &indexing->of_types,
                    &indexing->n_of_types, &indexing->cap_of_types, &label, &at))
            return false;
    }
    return true;
}

bool fg_label_indexing_set(struct fg_label_indexing *indexing, const struct fg_labels *labels)
{
    /* The print is that of the stored labels, so those that were added for queries go first. */
    struct fg_labels stored = {fg_arena_new(indexing->arena, struct fg_label, labels->count), 0};
    struct fg_slice text = fg_labels_get(labels, FG_LABEL_PROFILE_TYPE);
    struct fg_profile_type type;
    struct fg_err err;

    if (stored.items == NULL)
        return false;
    for (size_t i = 0; i < labels->count; i++)
        if (!fg_label_is_of_type(labels->items[i].name))
            stored.items[stored.count++] = labels->items[i];
    if (!fg_label_indexing_series(indexing, &stored, NULL))
        return false;
    /* A sender of a text that is no type has no other labels of it either. */
    return fg_profile_type_parse(text, &type, &err) != FG_OK ||
           fg_label_indexing_type(indexing, &type, text);
}

static int posting_order(const void *left, const void *right)
{
    const struct fg_label_posting *a = left, *b = right;

    return label_cmp(a->name, a->value, b->name, b->value);
}

/* Distributes the series over their labels, in their order. */
static struct fg_label_posting *make_postings(struct fg_label_indexing *indexing)
{
    struct fg_label_posting *postings =
        fg_arena_new(indexing->arena, struct fg_label_posting, indexing->n_labels);
    uint32_t *series = fg_arena_new(indexing->arena, uint32_t, indexing->n_uses);
    uint32_t shift = indexing->of_type < 0 ? 0 : indexing->n_prints; /* pairs follow the series */

    if (postings == NULL || series == NULL)
        return NULL;
    /* A counting sort: two passes over the uses, and each posting is ascending, as series come in
     * ascending order. */
    for (uint32_t i = 0; i < indexing->n_uses; i++)
        postings[indexing->uses[i] >> 32].n_series++;
    for (uint32_t i = 0; i < indexing->n_labels; i++) {
        postings[i].name = indexing->labels[i].name;
        postings[i].value = indexing->labels[i].value;
        postings[i].series = series;
        series += postings[i].n_series;
        /* Counts again from 0 while the series are filled in. */
        postings[i].n_series = 0;
    }
    for (uint32_t i = 0; i < indexing->n_uses; i++) {
        struct fg_label_posting *posting = &postings[indexing->uses[i] >> 32];

        posting->series[posting->n_series++] = (uint32_t)indexing->uses[i] + shift;
    }
    if (indexing->n_labels > 1)
        qsort(postings, indexing->n_labels, sizeof *postings, posting_order);
    return postings;
}

enum fg_code fg_label_indexing_end(struct fg_label_indexing *indexing,
                                   struct fg_label_index *ret_index, struct fg_err *err)
{
    uint32_t n_prints = indexing->n_prints + indexing->n_pairs;
    struct fg_id *prints = indexing->prints;
    uint8_t *marks = indexing->marks;
    struct fg_label_posting *postings = make_postings(indexing);

    if (indexing->n_pairs > 0) {
        /* Pairs follow the series in one array, as postings count them. */
        prints = fg_arena_new(indexing->arena, struct fg_id, n_prints);
        marks = fg_arena_alloc(indexing->arena, n_prints);
    }
    if (postings == NULL || (n_prints > 0 && (prints == NULL || marks == NULL)))
        return fg_fail(err, FG_E_LIMIT, "the labels of %u series need too much memory",
                       indexing->n_prints);
    if (indexing->n_pairs > 0) {
        memcpy(prints, indexing->prints, indexing->n_prints * sizeof *prints);
        memcpy(prints + indexing->n_prints, indexing->pairs, indexing->n_pairs * sizeof *prints);
        memcpy(marks, indexing->marks, indexing->n_prints);
        memset(marks + indexing->n_prints, FG_LABEL_SELECTED, indexing->n_pairs);
    }
    *ret_index = (struct fg_label_index){
        .prints = prints,
        .marks = marks,
        .n_series = indexing->n_prints,
        .n_prints = n_prints,
        .postings = postings,
        .n_postings = indexing->n_labels,
        .of_types = indexing->of_types,
        .n_of_types = indexing->n_of_types,
    };
    return FG_OK;
}

/* ---- sending one ---- */

static void encode_prints(const struct fg_id *prints, uint32_t n, struct fg_buf *out)
{
    uint8_t bytes[FG_ID_BYTES];

    fg_buf_varint(out, n);
    for (uint32_t i = 0; i < n; i++) {
        fg_id_put(bytes, prints[i]);
        fg_buf_put(out, fg_bytes(bytes, sizeof bytes));
    }
}

/* Returns the number of the first posting with another name. */
static uint32_t end_of_name(const struct fg_label_index *index, uint32_t from)
{
    uint32_t to = from;

    while (to < index->n_postings &&
           fg_slice_eq(index->postings[to].name, index->postings[from].name))
        to++;
    return to;
}

static void encode_postings(const struct fg_label_index *index, struct fg_buf *out)
{
    uint32_t n_names = 0, to;

    for (uint32_t from = 0; from < index->n_postings; from = end_of_name(index, from))
        n_names++;
    /* Names once for all their values: a label may have a million. */
    fg_buf_varint(out, n_names);
    for (uint32_t from = 0; from < index->n_postings; from = to) {
        to = end_of_name(index, from);
        fg_buf_lenbytes(out, index->postings[from].name);
        fg_buf_varint(out, to - from);
        for (uint32_t i = from; i < to; i++) {
            const struct fg_label_posting *posting = &index->postings[i];
            uint32_t last = 0;

            fg_buf_lenbytes(out, posting->value);
            fg_buf_varint(out, posting->n_series);
            for (uint32_t s = 0; s < posting->n_series; s++) {
                /* Differences: a label that many series have takes a byte for each. */
                fg_buf_varint(out, posting->series[s] - last);
                last = posting->series[s];
            }
        }
    }
}

void fg_label_index_encode(const struct fg_label_index *index, struct fg_buf *out)
{
    encode_prints(index->prints, index->n_series, out);
    fg_buf_put(out, fg_bytes(index->marks, index->n_series));
    encode_prints(index->prints + index->n_series, index->n_prints - index->n_series, out);
    encode_postings(index, out);
    fg_buf_varint(out, index->n_of_types);
    for (uint32_t i = 0; i < index->n_of_types; i++) {
        fg_buf_lenbytes(out, index->of_types[i].name);
        fg_buf_lenbytes(out, index->of_types[i].value);
    }
}

/* What is decoded, and how far it is. */
struct decoding {
    struct fg_cur cur;
    struct fg_arena *arena;
    struct fg_label_index index;
    struct fg_label_posting *postings;
    uint32_t cap_postings;
    struct fg_label last; /* of the postings so far */
};

static bool decode_prints(struct decoding *decoding)
{
    struct fg_label_index *index = &decoding->index;
    /* A print and a mark for each. */
    uint64_t n_series = fg_cur_count(&decoding->cur, FG_ID_BYTES + 1);
    struct fg_slice series = fg_cur_take(&decoding->cur, n_series * FG_ID_BYTES);
    struct fg_slice marks = fg_cur_take(&decoding->cur, n_series);
    uint64_t n_pairs = fg_cur_count(&decoding->cur, FG_ID_BYTES);
    struct fg_slice pairs = fg_cur_take(&decoding->cur, n_pairs * FG_ID_BYTES);
    struct fg_id *prints;
    uint8_t *copies;

    if (decoding->cur.bad || (n_series > 0 && (series.ptr == NULL || marks.ptr == NULL)) ||
        (n_pairs > 0 && pairs.ptr == NULL) || n_series + n_pairs >= FG_MAP_NONE) {
        fg_cur_fail(&decoding->cur);
        return true;
    }
    prints = fg_arena_new(decoding->arena, struct fg_id, n_series + n_pairs);
    copies = fg_arena_alloc(decoding->arena, n_series + n_pairs);
    if (prints == NULL || copies == NULL)
        return false;
    for (uint64_t i = 0; i < n_series; i++) {
        prints[i] = fg_id_get(series.ptr + i * FG_ID_BYTES);
        /* Whatever the other program sends: a series that it lists is selected. */
        copies[i] = marks.ptr[i] | FG_LABEL_SELECTED;
    }
    for (uint64_t i = 0; i < n_pairs; i++) {
        prints[n_series + i] = fg_id_get(pairs.ptr + i * FG_ID_BYTES);
        copies[n_series + i] = FG_LABEL_SELECTED;
    }
    index->prints = prints;
    index->marks = copies;
    index->n_series = (uint32_t)n_series;
    index->n_prints = (uint32_t)(n_series + n_pairs);
    return true;
}

/* A posting that does not fit, and those after it, are read and left out. */
static void decode_posting(struct decoding *decoding, struct fg_slice name)
{
    struct fg_cur *cur = &decoding->cur;
    struct fg_label_posting posting = {.name = name, .value = fg_cur_lenbytes(cur)};
    uint64_t n = fg_cur_count(cur, 1), last = 0;
    uint32_t at = decoding->index.n_postings;
    struct fg_label *left = &decoding->index.left;

    /* Postings have to ascend: they are searched by halves, and merged with those of others. */
    if (cur->bad || n > decoding->index.n_prints || posting.value.len == 0 ||
        (decoding->last.value.len > 0 &&
         label_cmp(decoding->last.name, decoding->last.value, name, posting.value) >= 0)) {
        fg_cur_fail(cur);
        return;
    }
    decoding->last = (struct fg_label){name, posting.value};
    posting.n_series = (uint32_t)n;
    if (at < decoding->cap_postings && left->value.ptr == NULL)
        posting.series = fg_arena_alloc(decoding->arena, n * sizeof *posting.series);
    if (posting.series == NULL && left->value.ptr == NULL)
        *left = (struct fg_label){name, posting.value};
    for (uint64_t i = 0; i < n && !cur->bad; i++) {
        uint64_t step = fg_cur_varint(cur);

        /* Ascending, each once: else a series would count twice. */
        if ((i > 0 && step == 0) || step >= decoding->index.n_prints - last)
            fg_cur_fail(cur);
        last += step;
        if (posting.series != NULL)
            posting.series[i] = (uint32_t)last;
    }
    if (posting.series == NULL)
        return;
    decoding->postings[at] = posting;
    decoding->index.n_postings++;
}

static void decode_postings(struct decoding *decoding)
{
    struct fg_cur *cur = &decoding->cur;
    uint64_t n_names = fg_cur_count(cur, 1);

    for (uint64_t i = 0; i < n_names && !cur->bad; i++) {
        struct fg_slice name = fg_cur_lenbytes(cur);
        uint64_t n_values = fg_cur_count(cur, VALUE_MIN_BYTES);
        /* All values of a name at once, not twice as many; fewer if memory allows no more. */
        size_t bytes = fg_arena_limit_bytes(decoding->arena) - fg_arena_used_bytes(decoding->arena);
        uint64_t fit = bytes / (sizeof *decoding->postings + SERIES_MIN_BYTES);

        /* Nothing more fits if this fails, which the next posting will notice. */
        (void)!fg_arena_grow(decoding->arena, &decoding->postings, decoding->index.n_postings,
                             (uint32_t)FG_MIN(FG_MIN(n_values, fit), UINT32_MAX / 2),
                             &decoding->cap_postings, sizeof *decoding->postings);
        for (uint64_t v = 0; v < n_values && !cur->bad; v++)
            decode_posting(decoding, name);
    }
    decoding->index.postings = decoding->postings;
}

static bool decode_of_types(struct decoding *decoding)
{
    /* The lengths of the name and of the value take a byte each. */
    uint64_t n = fg_cur_count(&decoding->cur, 2);
    struct fg_label *labels = fg_arena_new(decoding->arena, struct fg_label, n);

    if (labels == NULL || n >= FG_MAP_NONE)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        labels[i].name = fg_cur_lenbytes(&decoding->cur);
        labels[i].value = fg_cur_lenbytes(&decoding->cur);
    }
    decoding->index.of_types = labels;
    decoding->index.n_of_types = (uint32_t)n;
    return true;
}

enum fg_code fg_label_index_decode(struct fg_slice in, struct fg_arena *arena,
                                   struct fg_label_index *ret_index, struct fg_err *err)
{
    struct decoding decoding = {.cur = fg_cur(in), .arena = arena};

    bool fits = decode_prints(&decoding);
    size_t limit = fg_arena_limit_bytes(arena), room = limit - fg_arena_used_bytes(arena);

    /* The rest is a few labels, for which postings leave some room. */
    if (fits) {
        fg_arena_set_limit(arena, limit - room / OF_TYPES_PART);
        decode_postings(&decoding);
        fg_arena_set_limit(arena, limit);
        fits = decode_of_types(&decoding);
    }
    if (!fits)
        return fg_fail(err, FG_E_LIMIT, "a label index of %zu bytes needs too much memory", in.len);
    if (!fg_cur_end(&decoding.cur))
        return fg_fail(err, FG_E_CORRUPT, "the label index does not fit its %zu bytes", in.len);
    *ret_index = decoding.index;
    return FG_OK;
}
