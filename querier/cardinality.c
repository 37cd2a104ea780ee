#include "querier/cardinality.h"

#include <stdalign.h>
#include <stddef.h>
#include <sys/mman.h>

enum {
    FLAG_THERE = 1 << 15, /* the place is taken */
    FLAG_BEFORE = 1 << 7, /* in the earlier range; below it the names of types, as in a mark */
    FLAG_NOW_SHIFT = 8,   /* the same for the other range, FLAG_NOW above the names */
    FLAG_NOW = 1 << 14,
    TYPE_MASK = (1 << FG_LABEL_NAMES_OF_TYPE) - 1,

    HUGE_PAGE_BYTES = 2 * 1024 * 1024, /* of x86-64, and of ARM with pages of 4 KiB */
    PLACES_MIN = 1024,                 /* 18 KiB; the table doubles as it fills */
    AHEAD = 24, /* places are loaded into the processor's cache so many prints before their use */
    NAMES_MAX = 65536,

    NEW_IN_RANGE = 1, /* of a print: not seen in this range, */
    NEW_AT_ALL = 2,   /* nor in the earlier one */
};

/* ---- sets of prints ---- */

/* Returns zeroed memory for a table. Places are used in no order, so most of the time goes into
 * page faults and address translation; huge pages halve it. */
static void *table_alloc(size_t bytes)
{
    size_t rounded = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    void *table;

    if (bytes < HUGE_PAGE_BYTES)
        return fg_calloc(bytes, 1);
    table = aligned_alloc(HUGE_PAGE_BYTES, rounded);
    fg_assert(table != NULL);
    (void)madvise(table, rounded, MADV_HUGEPAGE); /* without it everything works, too */
    memset(table, 0, bytes);
    return table;
}

static uint32_t place_of(const struct qry_cardinality *cardinality, const struct qry_print_set *set,
                         struct fg_id print)
{
    /* As fg_id_table(), whose seed is a call. */
    return (uint32_t)(print.lo ^ fg_mix64(print.hi ^ cardinality->seed)) & (set->n_places - 1);
}

static uint32_t find_place(const struct qry_cardinality *cardinality,
                           const struct qry_print_set *set, struct fg_id print)
{
    uint32_t at = place_of(cardinality, set, print);

    while (set->flags[at] != 0 && !fg_id_eq(set->prints[at], print))
        at = (at + 1) & (set->n_places - 1);
    return at;
}

static bool has_room(const struct qry_print_set *set, uint64_t more)
{
    /* Linear probing: beyond three quarters the walks grow quickly. */
    return set->n + more <= (uint64_t)set->n_places / 4 * 3;
}

/* Makes room for more prints, for as many as the bound allows. */
static void make_room(const struct qry_cardinality *cardinality, struct qry_print_set *set,
                      uint64_t more)
{
    struct qry_print_set larger = *set;

    while (!has_room(&larger, more)) {
        uint32_t n = FG_MAX(larger.n_places * 2, (uint32_t)PLACES_MIN);

        if (n < larger.n_places ||
            n * (uint64_t)(sizeof *set->prints + sizeof *set->flags) > set->max_bytes)
            break;
        larger.n_places = n;
    }
    if (larger.n_places == set->n_places)
        return;
    larger.prints = table_alloc(larger.n_places * sizeof *larger.prints);
    larger.flags = table_alloc(larger.n_places * sizeof *larger.flags);
    for (uint32_t i = 0; i < set->n_places; i++)
        if (set->flags[i] != 0) {
            uint32_t at = find_place(cardinality, &larger, set->prints[i]);

            larger.prints[at] = set->prints[i];
            larger.flags[at] = set->flags[i];
        }
    free(set->prints);
    free(set->flags);
    *set = larger;
}

/* Sets flags of a print, which is added if it is new. Returns false if there is no room for it.
 * *ret_flags: those it had. */
static bool touch(const struct qry_cardinality *cardinality, struct qry_print_set *set,
                  struct fg_id print, uint16_t flags, uint16_t *ret_flags)
{
    uint32_t at;

    if (set->n_places == 0)
        return false;
    at = find_place(cardinality, set, print);
    *ret_flags = set->flags[at];
    if (set->flags[at] == 0) {
        if (!has_room(set, 1))
            return false;
        set->prints[at] = print;
        set->n++;
    }
    set->flags[at] |= flags | FLAG_THERE;
    return true;
}

static void clear_flags(struct qry_print_set *set, uint16_t flags)
{
    for (uint32_t i = 0; i < set->n_places; i++)
        set->flags[i] &= (uint16_t)~flags;
}

static void set_done(struct qry_print_set *set)
{
    free(set->prints);
    free(set->flags);
}

/* ---- counts ---- */

static uint16_t range_flag(const struct qry_cardinality *cardinality)
{
    return cardinality->range == CARDINALITY_NOW ? FLAG_NOW : FLAG_BEFORE;
}

static void count_in_range(const struct qry_cardinality *cardinality, struct qry_counts *counts,
                           uint32_t in_range, uint32_t at_all)
{
    if (cardinality->range == CARDINALITY_BEFORE) {
        counts->before += in_range;
        return;
    }
    counts->now += in_range;
    counts->fresh += at_all;
}

static void forget(const struct qry_cardinality *cardinality, struct qry_counts *counts)
{
    if (cardinality->range == CARDINALITY_BEFORE)
        counts->before = 0;
    else
        counts->now = counts->fresh = 0;
}

static void add_counts(struct qry_counts *into, const struct qry_counts *from)
{
    into->now += from->now;
    into->before += from->before;
    into->fresh += from->fresh;
}

/* ---- names ---- */

static bool begins_with(struct fg_slice text, struct fg_slice prefix)
{
    return fg_slice_eq(fg_slice_sub(text, 0, prefix.len), prefix);
}

/* Returns the name, which is added if it is new; NULL: it is not wanted, or there is no room. */
static struct qry_label_name *name_of(struct qry_cardinality *cardinality, struct fg_slice text)
{
    const struct qry_cardinality_config *config = &cardinality->config;
    uint64_t hash = fg_hash64_table(text);
    struct fg_map_walk walk;
    struct fg_slice copy;

    for (uint32_t i = fg_map_first(&cardinality->by_name, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&cardinality->by_name, &walk))
        if (fg_slice_eq(cardinality->names[i].text, text))
            return &cardinality->names[i];
    if (!begins_with(text, config->prefix) ||
        (config->wanted != NULL && !config->wanted(config->arg, text)))
        return NULL;
    copy = fg_arena_copy(cardinality->texts, text);
    if (copy.ptr == NULL || cardinality->n_names == NAMES_MAX) {
        cardinality->values_cut = true;
        return NULL;
    }
    if (cardinality->n_names == cardinality->cap_names) {
        cardinality->cap_names = FG_MAX(64, cardinality->cap_names * 2);
        cardinality->names =
            fg_realloc(cardinality->names, cardinality->cap_names * sizeof *cardinality->names);
    }
    fg_map_add(&cardinality->by_name, hash, cardinality->n_names);
    cardinality->names[cardinality->n_names] = (struct qry_label_name){.text = copy};
    return &cardinality->names[cardinality->n_names++];
}

static void count_value(struct qry_cardinality *cardinality, struct qry_label_name *name,
                        struct fg_slice value)
{
    /* The value is hashed by itself, not to copy both into one text. */
    struct fg_id print = fg_label_pair_print(fg_hash128(name->text), value);
    uint16_t flags, mine = range_flag(cardinality);

    make_room(cardinality, &cardinality->values, 1);
    if (!touch(cardinality, &cardinality->values, print, mine, &flags))
        cardinality->values_cut = true;
    else if ((flags & mine) == 0)
        count_in_range(cardinality, &name->values, 1, (flags & FLAG_BEFORE) == 0);
}

/* Counts the series of a posting that are new. Returns false if none is. */
static bool count_posting(const struct qry_cardinality *cardinality,
                          const struct fg_label_posting *posting, struct qry_counts *counts)
{
    uint32_t in_range = 0, at_all = 0;

    for (uint32_t i = 0; i < posting->n_series; i++) {
        uint8_t news = cardinality->news[posting->series[i]];

        in_range += news & NEW_IN_RANGE;
        /* NEW_AT_ALL is bit 1. */
        at_all += news >> 1;
    }
    count_in_range(cardinality, counts, in_range, at_all);
    return in_range > 0;
}

/* Returns the number of the first posting after those of a name. */
static uint32_t end_of_name(const struct fg_label_index *index, uint32_t from)
{
    struct fg_slice name = index->postings[from].name;
    uint32_t to = from, step = 1;

    /* A name has one value or a million: steps double, then the rest is searched. */
    while (step < index->n_postings - to && fg_slice_eq(index->postings[to + step].name, name)) {
        to += step;
        step *= 2;
    }
    for (; step > 0; step /= 2)
        if (step < index->n_postings - to && fg_slice_eq(index->postings[to + step].name, name))
            to += step;
    return to + 1;
}

static void add_names(struct qry_cardinality *cardinality, const struct fg_label_index *index)
{
    uint32_t to;

    make_room(cardinality, &cardinality->values, index->n_postings);
    for (uint32_t from = 0; from < index->n_postings; from = to) {
        struct fg_slice text = index->postings[from].name;
        struct qry_label_name *name;

        to = end_of_name(index, from);
        name = fg_label_is_of_type(text) ? NULL : name_of(cardinality, text);
        for (uint32_t i = from; name != NULL && i < to; i++)
            /* Series that were seen elsewhere had this value there, too. */
            if (count_posting(cardinality, &index->postings[i], &name->series))
                count_value(cardinality, name, index->postings[i].value);
    }
    for (uint32_t i = 0; i < index->n_of_types; i++) {
        struct qry_label_name *name = name_of(cardinality, index->of_types[i].name);

        if (name != NULL)
            count_value(cardinality, name, index->of_types[i].value);
    }
}

static bool any_selected(const struct fg_label_index *index, uint32_t from, uint32_t to)
{
    for (uint32_t p = from; p < to; p++)
        for (uint32_t i = 0; i < index->postings[p].n_series; i++)
            if (index->marks[index->postings[p].series[i]] != 0)
                return true;
    return false;
}

/* Adds names without counting anything. */
static void add_names_only(struct qry_cardinality *cardinality, const struct fg_label_index *index)
{
    uint32_t to;

    for (uint32_t from = 0; from < index->n_postings; from = to) {
        struct fg_slice text = index->postings[from].name;

        to = end_of_name(index, from);
        if (!fg_label_is_of_type(text) && any_selected(index, from, to))
            (void)name_of(cardinality, text);
    }
    for (uint32_t i = 0; i < index->n_of_types; i++)
        (void)name_of(cardinality, index->of_types[i].name);
}

/* ---- values ---- */

static bool is_cut(const struct qry_cardinality *cardinality, struct fg_slice text)
{
    return cardinality->bound.ptr != NULL && fg_slice_cmp(text, cardinality->bound) >= 0;
}

/* Appends a run whose values all come later. */
static struct qry_value_run append(struct qry_value_run *a, struct qry_value_run *b)
{
    a->items = fg_realloc(a->items, ((size_t)a->n + b->n) * sizeof *a->items);
    memcpy(a->items + a->n, b->items, b->n * sizeof *b->items);
    a->n += b->n;
    free(b->items);
    return *a;
}

/* Merges two runs, which are used up. */
static struct qry_value_run merge(struct qry_value_run *a, struct qry_value_run *b)
{
    /* Names often begin with that of a service, so the runs of two services lie apart. */
    if (a->n > 0 && b->n > 0) {
        if (fg_slice_cmp(a->items[a->n - 1].text, b->items[0].text) < 0)
            return append(a, b);
        if (fg_slice_cmp(b->items[b->n - 1].text, a->items[0].text) < 0)
            return append(b, a);
    }
    struct qry_value_run out = {.items = fg_malloc(((size_t)a->n + b->n) * sizeof *out.items)};
    uint32_t i = 0, k = 0;

    while (i < a->n || k < b->n) {
        int order = i == a->n   ? 1
                    : k == b->n ? -1
                                : fg_slice_cmp(a->items[i].text, b->items[k].text);

        out.items[out.n] = order <= 0 ? a->items[i++] : b->items[k++];
        if (order == 0)
            add_counts(&out.items[out.n].series, &b->items[k++].series);
        out.n++;
    }
    free(a->items);
    free(b->items);
    return out;
}

/* Merges the last runs until there are no more than n. */
static void fold(struct qry_cardinality *cardinality, unsigned n)
{
    while (cardinality->n_runs > n) {
        struct qry_value_run *last = &cardinality->runs[--cardinality->n_runs];

        last[-1] = merge(last - 1, last);
    }
}

/* Returns the memory of the texts in an arena. */
static size_t text_bytes(const struct qry_value_run *run)
{
    const size_t unit = alignof(max_align_t);
    size_t bytes = 0;

    for (uint32_t i = 0; i < run->n; i++)
        bytes += (run->items[i].text.len + unit - 1) / unit * unit;
    return bytes;
}

/* Frees the texts that were merged into others. If that is not enough, leaves out the second half
 * of the values. */
static void compact(struct qry_cardinality *cardinality)
{
    uint64_t max = cardinality->config.max_bytes / 4;
    struct fg_arena *texts = fg_arena_create(max);
    struct qry_value_run *run = &cardinality->runs[0];

    fold(cardinality, 1);
    if (cardinality->n_runs == 0)
        *run = (struct qry_value_run){0};
    while (run->n > 0 && (text_bytes(run) > max / 2 || run->n * sizeof *run->items > max / 2)) {
        run->n /= 2;
        cardinality->bound = run->items[run->n].text;
        cardinality->values_cut = true;
    }
    if (cardinality->bound.ptr != NULL) {
        cardinality->bound = fg_arena_copy(texts, cardinality->bound);
        if (cardinality->bound.ptr == NULL) /* then there is no room for any value */
            cardinality->bound = FG_LIT("");
    }
    for (uint32_t i = 0; i < run->n; i++) {
        run->items[i].text = fg_arena_copy(texts, run->items[i].text);
        if (run->items[i].text.ptr == NULL) {
            run->n = i;
            cardinality->values_cut = true;
        }
    }
    fg_arena_destroy(cardinality->texts);
    cardinality->texts = texts;
}

static void push(struct qry_cardinality *cardinality, struct qry_value_run run)
{
    uint64_t n = 0;

    if (run.n == 0) {
        free(run.items);
        return;
    }
    run.items = fg_realloc(run.items, run.n * sizeof *run.items);
    cardinality->runs[cardinality->n_runs++] = run;
    /* Each run stays more than twice as long as the next one. So a value is merged O(log n) times,
     * and CARDINALITY_RUNS_MAX runs hold any number of values. */
    while (cardinality->n_runs > 1 && cardinality->runs[cardinality->n_runs - 2].n / 2 <=
                                          cardinality->runs[cardinality->n_runs - 1].n)
        fold(cardinality, cardinality->n_runs - 1);
    for (unsigned i = 0; i < cardinality->n_runs; i++)
        n += cardinality->runs[i].n;
    if (n * sizeof *run.items > cardinality->config.max_bytes / 4)
        compact(cardinality);
}

/* Copies a text. If there is no room, the texts are compacted, which needs the run that is being
 * made. */
static bool keep_text(struct qry_cardinality *cardinality, struct qry_value_run *run,
                      struct fg_slice text, struct fg_slice *ret_copy)
{
    *ret_copy = fg_arena_copy(cardinality->texts, text);
    if (ret_copy->ptr != NULL)
        return true;
    push(cardinality, *run);
    *run = (struct qry_value_run){0};
    compact(cardinality);
    if (is_cut(cardinality, text))
        return false;
    *ret_copy = fg_arena_copy(cardinality->texts, text);
    return ret_copy->ptr != NULL;
}

/* Leaves out all values from a text on, those of other indexes as well. */
static void cut_from(struct qry_cardinality *cardinality, struct fg_slice text)
{
    struct qry_value_run *run = &cardinality->runs[0];
    struct fg_slice bound = fg_arena_copy(cardinality->texts, text);
    uint32_t n = 0;

    cardinality->values_cut = true;
    if (bound.ptr == NULL) {
        compact(cardinality);
        bound = fg_arena_copy(cardinality->texts, text);
    }
    if (is_cut(cardinality, text))
        return;
    cardinality->bound = bound.ptr == NULL ? FG_LIT("") : bound;
    fold(cardinality, 1);
    if (cardinality->n_runs == 0)
        return;
    while (n < run->n && !is_cut(cardinality, run->items[n].text))
        n++;
    run->n = n;
}

static void add_values(struct qry_cardinality *cardinality, const struct fg_label_index *index)
{
    const struct qry_cardinality_config *config = &cardinality->config;
    struct fg_slice label = fg_cstr(config->label);
    uint32_t at = fg_label_posting_find(index->postings, index->n_postings, label, config->prefix);
    struct qry_value_run run = {0};
    uint32_t cap = 0;

    for (; at < index->n_postings; at++) {
        const struct fg_label_posting *posting = &index->postings[at];
        struct qry_label_value value = {0};

        if (!fg_slice_eq(posting->name, label) || !begins_with(posting->value, config->prefix) ||
            is_cut(cardinality, posting->value))
            break;
        if (!count_posting(cardinality, posting, &value.series) ||
            (config->wanted != NULL && !config->wanted(config->arg, posting->value)))
            continue;
        if (!keep_text(cardinality, &run, posting->value, &value.text)) {
            cardinality->values_cut = true;
            break;
        }
        if (run.items == NULL) {
            /* Room for all that may follow: what is not used is never touched. */
            cap = FG_MIN(index->n_postings - at,
                         (uint32_t)FG_MIN(config->max_bytes / 8 / sizeof value, UINT32_MAX));
            run.items = fg_malloc(FG_MAX(cap, 1U) * sizeof *run.items);
        }
        run.items[run.n++] = value;
        /* A run of its own may not be larger than all of them. */
        if (run.n >= cap) {
            push(cardinality, run);
            run = (struct qry_value_run){0};
        }
    }
    push(cardinality, run);
}

/* ---- all of it ---- */

void qry_cardinality_init(struct qry_cardinality *cardinality,
                          const struct qry_cardinality_config *config)
{
    *cardinality = (struct qry_cardinality){.config = *config, .seed = fg_hash_seed()};
    cardinality->series.max_bytes = config->max_bytes / 2;
    cardinality->values.max_bytes = config->max_bytes / 4;
    cardinality->texts = fg_arena_create(config->max_bytes / 4);
    fg_map_init(&cardinality->by_name);
}

void qry_cardinality_done(struct qry_cardinality *cardinality)
{
    set_done(&cardinality->series);
    set_done(&cardinality->values);
    free(cardinality->news);
    for (unsigned i = 0; i < cardinality->n_runs; i++)
        free(cardinality->runs[i].items);
    fg_arena_destroy(cardinality->texts);
    free(cardinality->names);
    fg_map_done(&cardinality->by_name);
    *cardinality = (struct qry_cardinality){0};
}

void qry_cardinality_in(struct qry_cardinality *cardinality, enum qry_cardinality_range range)
{
    cardinality->range = range;
}

void qry_cardinality_restart(struct qry_cardinality *cardinality)
{
    uint16_t mine = cardinality->range == CARDINALITY_NOW
                        ? (uint16_t)(FLAG_NOW | TYPE_MASK << FLAG_NOW_SHIFT)
                        : (uint16_t)(FLAG_BEFORE | TYPE_MASK);

    clear_flags(&cardinality->series, mine);
    clear_flags(&cardinality->values, mine);
    forget(cardinality, &cardinality->n_series);
    if (cardinality->config.names_only) {
        /* Names without numbers do not say which range they are of, so all go. */
        cardinality->n_names = 0;
        fg_map_clear(&cardinality->by_name);
    }
    for (unsigned r = 0; r < cardinality->n_runs; r++)
        for (uint32_t i = 0; i < cardinality->runs[r].n; i++)
            forget(cardinality, &cardinality->runs[r].items[i].series);
    for (uint32_t i = 0; i < cardinality->n_names; i++) {
        forget(cardinality, &cardinality->names[i].series);
        forget(cardinality, &cardinality->names[i].values);
    }
}

/* Counts the labels that are made from types: sets[m] series have got the labels of mask m. */
static void count_of_types(struct qry_cardinality *cardinality, const uint32_t *in_range,
                           const uint32_t *at_all)
{
    for (unsigned i = 0; i < FG_LABEL_NAMES_OF_TYPE; i++) {
        uint32_t n_range = 0, n_all = 0;
        struct qry_label_name *name;

        /* 64 sums for each of six names, instead of six for each series. */
        for (unsigned mask = 0; mask <= TYPE_MASK; mask++) {
            n_range += (mask >> i & 1) != 0 ? in_range[mask] : 0;
            n_all += (mask >> i & 1) != 0 ? at_all[mask] : 0;
        }
        name = n_range > 0 ? name_of(cardinality, fg_cstr(fg_label_names_of_type[i])) : NULL;
        if (name != NULL)
            count_in_range(cardinality, &name->series, n_range, n_all);
    }
}

static void load_ahead(const struct qry_cardinality *cardinality,
                       const struct fg_label_index *index, uint32_t i)
{
    const struct qry_print_set *set = &cardinality->series;

    if (i < index->n_prints && set->n_places > 0) {
        uint32_t at = place_of(cardinality, set, index->prints[i]);

        __builtin_prefetch(&set->prints[at], 1);
        __builtin_prefetch(&set->flags[at], 1);
    }
}

/* Finds out which prints are new. */
static void find_new(struct qry_cardinality *cardinality, const struct fg_label_index *index)
{
    uint32_t in_range[TYPE_MASK + 1] = {0}, at_all[TYPE_MASK + 1] = {0};
    uint16_t flags, mine = range_flag(cardinality);
    unsigned shift = cardinality->range == CARDINALITY_NOW ? FLAG_NOW_SHIFT : 0;
    uint32_t n_selected = 0, n_new = 0, n_fresh = 0;

    for (uint32_t i = 0; i < index->n_prints; i++)
        n_selected += index->marks[i] != 0;
    make_room(cardinality, &cardinality->series, n_selected);
    for (uint32_t i = 0; i < index->n_prints; i++) {
        unsigned types = index->marks[i] & TYPE_MASK, added;
        bool is_new, is_fresh;

        load_ahead(cardinality, index, i + AHEAD);
        cardinality->news[i] = 0;
        if (index->marks[i] == 0)
            continue;
        if (!touch(cardinality, &cardinality->series, index->prints[i],
                   (uint16_t)(mine | types << shift), &flags)) {
            cardinality->series_cut = true;
            continue;
        }
        /* A series may be known with other types. The low bits of flags are its types in the
         * earlier range, whichever range is counted. */
        added = types & ~(unsigned)(flags >> shift);
        in_range[added]++;
        at_all[added & ~(unsigned)flags]++;
        is_new = (flags & mine) == 0;
        is_fresh = is_new && (flags & FLAG_BEFORE) == 0;
        cardinality->news[i] = (uint8_t)((is_new ? NEW_IN_RANGE : 0) | (is_fresh ? NEW_AT_ALL : 0));
        /* Prints from n_series on are those of pairs, which are no series (label_index.h). */
        n_new += is_new && i < index->n_series;
        n_fresh += is_fresh && i < index->n_series;
    }
    count_in_range(cardinality, &cardinality->n_series, n_new, n_fresh);
    if (cardinality->config.label == NULL)
        count_of_types(cardinality, in_range, at_all);
}

void qry_cardinality_add(struct qry_cardinality *cardinality, const struct fg_label_index *index)
{
    if (cardinality->config.names_only) {
        add_names_only(cardinality, index);
        cardinality->values_cut = cardinality->values_cut || index->left.value.ptr != NULL;
        return;
    }
    if (index->n_prints > cardinality->cap_news) {
        free(cardinality->news);
        cardinality->news = fg_malloc(index->n_prints);
        cardinality->cap_news = index->n_prints;
    }
    find_new(cardinality, index);
    if (cardinality->config.label == NULL)
        add_names(cardinality, index);
    else
        add_values(cardinality, index);
    if (index->left.value.ptr == NULL)
        return;
    if (cardinality->config.label == NULL)
        cardinality->values_cut = true;
    else
        cut_from(cardinality, index->left.value);
}

static bool is_counted(const struct qry_counts *counts)
{
    return counts->now > 0 || counts->before > 0;
}

const struct qry_label_value *qry_cardinality_values(struct qry_cardinality *cardinality,
                                                     size_t *ret_n)
{
    struct qry_value_run *run = &cardinality->runs[0];
    uint32_t n = 0;

    fold(cardinality, 1);
    *ret_n = 0;
    if (cardinality->n_runs == 0)
        return NULL;
    for (uint32_t i = 0; i < run->n; i++)
        if (is_counted(&run->items[i].series)) /* else it is of a range that was restarted */
            run->items[n++] = run->items[i];
    run->n = n;
    *ret_n = n;
    return run->items;
}

static int name_order(const void *left, const void *right)
{
    const struct qry_label_name *a = left, *b = right;

    return fg_slice_cmp(a->text, b->text);
}

const struct qry_label_name *qry_cardinality_names(struct qry_cardinality *cardinality,
                                                   size_t *ret_n)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < cardinality->n_names; i++)
        if (cardinality->config.names_only || is_counted(&cardinality->names[i].series))
            cardinality->names[n++] = cardinality->names[i];
    cardinality->n_names = n;
    fg_map_clear(&cardinality->by_name); /* its numbers are those of before the sort */
    if (n > 1)
        qsort(cardinality->names, n, sizeof *cardinality->names, name_order);
    *ret_n = n;
    return cardinality->names;
}

/* ---- the first k ---- */

struct ranking {
    const void *items;
    qry_rank_key key;
    uint32_t *heap; /* the last of those that are picked is on top */
    uint32_t n;
};

/* Returns true if a comes after b. */
static bool is_after(const struct ranking *ranking, uint32_t a, uint32_t b)
{
    int64_t x = ranking->key(ranking->items, a), y = ranking->key(ranking->items, b);

    return x != y ? x < y : a > b;
}

static void sift_down(struct ranking *ranking, uint32_t at)
{
    uint32_t *heap = ranking->heap, item = heap[at];

    for (uint32_t child; (child = 2 * at + 1) < ranking->n; at = child) {
        if (child + 1 < ranking->n && is_after(ranking, heap[child + 1], heap[child]))
            child++;
        if (!is_after(ranking, heap[child], item))
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

void qry_rank(const void *items, uint32_t n, qry_rank_key key, uint32_t k, uint32_t *picked)
{
    struct ranking ranking = {items, key, picked, k};

    fg_assert(k <= n);
    if (k == 0)
        return;
    for (uint32_t i = 0; i < k; i++)
        picked[i] = i;
    /* A heap of the best k: O(n log k), and the items, which may be a million, are not moved. */
    for (uint32_t i = k / 2; i-- > 0;)
        sift_down(&ranking, i);
    for (uint32_t i = k; i < n; i++)
        if (is_after(&ranking, picked[0], i)) {
            picked[0] = i;
            sift_down(&ranking, 0);
        }
    /* The worst of the heap goes to its end each time, which leaves the best in front. */
    while (ranking.n > 1) {
        uint32_t last = picked[0];

        picked[0] = picked[--ranking.n];
        picked[ranking.n] = last;
        sift_down(&ranking, 0);
    }
}
