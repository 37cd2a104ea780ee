/*
 * Samples on their way to pages of SMP and EXM:
 *
 *   SMP   varint bytes of heads, of the two streams of ranks (numbers.h); varint types of the page,
 *         for each varint bytes of the two streams of its numbers; then heads and all streams
 *   head  varint samples, varint bytes of its ranks in the second stream; for each type of its
 *         series a column's head (column.h), and where that has numbers varint bytes of them
 *   EXM   for each profile that has any: varint profile - that before (- 1, except for the first);
 *         varint n; n times: varint rank - that before, le64 span, trace 16 bytes, varint value of
 *         each type
 */
#include "common/base/search.h"
#include "common/storage/block/numbers.h"
#include "common/storage/block/writer_impl.h"

void fg_block_pages_init(struct fg_block_pages_out *pages)
{
    struct fg_buf *bufs[] = {&pages->heads, &pages->rank_bits, &pages->ranks, &pages->exemplars,
                             &pages->ids};

    for (size_t i = 0; i < FG_COUNT(bufs); i++)
        fg_buf_init(bufs[i], SIZE_MAX);
    for (size_t t = 0; t < FG_COUNT(pages->values); t++) {
        fg_buf_init(&pages->value_bits[t], SIZE_MAX);
        fg_buf_init(&pages->values[t], SIZE_MAX);
    }
    pages->rows = fg_calloc(FG_BLOCK_IDX_PAGE_PROFILES, sizeof *pages->rows);
}

static void set_done(struct fg_block_set *set)
{
    free(set->ranks);
    free(set->values);
}

void fg_block_pages_done(struct fg_block_pages_out *pages)
{
    fg_buf_done(&pages->heads);
    fg_buf_done(&pages->rank_bits);
    fg_buf_done(&pages->ranks);
    fg_buf_done(&pages->exemplars);
    fg_buf_done(&pages->ids);
    for (size_t t = 0; t < FG_COUNT(pages->values); t++) {
        fg_buf_done(&pages->value_bits[t]);
        fg_buf_done(&pages->values[t]);
    }
    free(pages->numbers);
    set_done(&pages->now);
    set_done(&pages->before);
    free(pages->before_values);
    free(pages->keyed);
    free(pages->scratch);
    free(pages->rows);
    free(pages->totals);
}

/* Room for count elements, one at least; what is there goes. */
static void *room(void *array, size_t count, size_t *cap, size_t size)
{
    if (array != NULL && count <= *cap)
        return array;
    *cap = FG_MAX(FG_MAX(count, 1), *cap * 2);
    free(array);
    return fg_malloc(*cap * size);
}

/* ---- ranks ---- */

static int by_uses(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left < right) - (left > right);
}

/* Distinct numbers of uses into sorted, descending; the ranks at which they begin into firsts. */
static uint32_t make_classes(uint32_t *sorted, uint32_t count, uint32_t *firsts)
{
    uint32_t n = 0;

    qsort(sorted, count, sizeof *sorted, by_uses);
    for (uint32_t i = 0; i < count; i++) {
        if (n > 0 && sorted[n - 1] == sorted[i])
            continue;
        firsts[n] = i;
        sorted[n++] = sorted[i];
    }
    return n;
}

enum fg_code fg_block_ranks_init(struct fg_block_writer *writer, const uint32_t *uses,
                                 struct fg_err *err)
{
    const struct fg_block_numbers *nodes = &writer->part.order.nodes;
    struct fg_block_ranks *ranks = &writer->part.ranks;
    size_t all = (size_t)nodes->count + 1;
    uint32_t *sorted = fg_arena_new(writer->arena, uint32_t, all);
    uint32_t *firsts = fg_arena_new(writer->arena, uint32_t, all);
    uint32_t n_classes;

    ranks->left = fg_arena_new(writer->arena, uint32_t, all);
    ranks->ranks = fg_arena_new(writer->arena, uint32_t, all);
    ranks->stacks = fg_arena_new(writer->arena, uint32_t, all);
    if (sorted == NULL || firsts == NULL || ranks->left == NULL || ranks->ranks == NULL ||
        ranks->stacks == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u stacks", nodes->count);
    for (size_t i = 0; i < all; i++) {
        ranks->left[i] = i == 0 ? uses[0] : uses[1 + nodes->olds[i - 1]];
        ranks->ranks[i] = FG_MAP_NONE;
        ranks->uses_left += ranks->left[i];
        if (ranks->left[i] > 0)
            sorted[ranks->n_stacks++] = ranks->left[i];
    }
    n_classes = make_classes(sorted, ranks->n_stacks, firsts);
    for (uint32_t i = 0; i < all; i++) {
        if (ranks->left[i] == 0)
            continue;

        /* The class of a number of uses is how many larger numbers there are. */
        uint32_t n_uses = ranks->left[i];
        uint32_t class = fg_lower_bound(c, 1, n_classes, sorted[c] >= n_uses) - 1;

        ranks->ranks[i] = firsts[class]++;
        ranks->stacks[ranks->ranks[i]] = i;
    }
    return FG_OK;
}

/* The rank of a stack as the caller has it; FG_MAP_NONE: it has no uses. */
static uint32_t rank_of(const struct fg_block_part_out *part, uint32_t stack)
{
    uint32_t node;

    if (stack == 0)
        return part->ranks.ranks[0];
    if (stack > part->order.tree->n_nodes)
        return FG_MAP_NONE;
    node = part->order.nodes.news[stack - 1];
    return node == FG_MAP_NONE ? FG_MAP_NONE : part->ranks.ranks[node + 1];
}

/* ---- a profile's samples by rank ---- */

static enum fg_code bad_stack(struct fg_err *err, uint32_t stack)
{
    return fg_fail(err, FG_E_INVALID, "a sample of stack %u, which has no use left", stack);
}

/* keyed: by rank; *ret_count: distinct ones. */
static enum fg_code sort_samples(struct fg_block_writer *writer,
                                 const struct fg_block_profile *profile, uint32_t *ret_count,
                                 struct fg_err *err)
{
    struct fg_block_pages_out *pages = &writer->pages;
    uint32_t count = 0;

    if (profile->n_samples > pages->cap_keyed) {
        pages->cap_keyed = FG_MAX(profile->n_samples, pages->cap_keyed * 2);
        pages->keyed = fg_realloc(pages->keyed, pages->cap_keyed * sizeof *pages->keyed);
        pages->scratch = fg_realloc(pages->scratch, pages->cap_keyed * sizeof *pages->scratch);
    }
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        uint32_t rank = rank_of(&writer->part, profile->stacks[i]);

        if (rank == FG_MAP_NONE)
            return bad_stack(err, profile->stacks[i]);
        pages->keyed[i] = (struct fg_keyed){rank, i};
    }
    fg_radix_sort(pages->keyed, pages->scratch, profile->n_samples);
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        if (i > 0 && pages->keyed[i].key == pages->keyed[i - 1].key)
            continue;

        struct fg_block_ranks *ranks = &writer->part.ranks;
        uint32_t *left = &ranks->left[ranks->stacks[pages->keyed[i].key]];

        if (*left == 0)
            return bad_stack(err, profile->stacks[pages->keyed[i].index]);
        (*left)--;
        ranks->uses_left--;
        count++;
    }
    *ret_count = count;
    return FG_OK;
}

/* pages->now: samples by rank, equal stacks summed. */
static enum fg_code take_samples(struct fg_block_writer *writer,
                                 const struct fg_block_profile *profile, struct fg_err *err)
{
    struct fg_block_pages_out *pages = &writer->pages;
    struct fg_block_set *now = &pages->now;
    uint32_t n_types = writer->part.n_types, count = 0, at = 0;

    if (sort_samples(writer, profile, &count, err) != FG_OK)
        return err->code;
    now->ranks = room(now->ranks, count, &now->cap_ranks, sizeof *now->ranks);
    now->values = room(now->values, (size_t)count * n_types, &now->cap_values, sizeof *now->values);
    now->count = count;
    if (count > 0)
        memset(now->values, 0, (size_t)count * n_types * sizeof *now->values);
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        const struct fg_keyed *keyed = &pages->keyed[i];

        if (i > 0 && keyed->key != keyed[-1].key)
            at++;
        now->ranks[at] = keyed->key;
        for (uint32_t t = 0; t < n_types; t++)
            fg_value_sum(&now->values[(size_t)t * count + at],
                         profile->values[(size_t)t * profile->n_samples + keyed->index]);
    }
    return FG_OK;
}

/* Returns the values of type t in the profile before, in the order of this one's samples. */
static const uint64_t *values_before(struct fg_block_pages_out *pages, uint32_t t)
{
    const struct fg_block_set *now = &pages->now, *before = &pages->before;
    const uint64_t *values = before->values + (size_t)t * before->count;
    uint32_t k = 0;

    pages->before_values = room(pages->before_values, now->count, &pages->cap_before_values,
                                sizeof *pages->before_values);
    for (uint32_t i = 0; i < now->count; i++) {
        while (k < before->count && before->ranks[k] < now->ranks[i])
            k++;
        pages->before_values[i] =
            k < before->count && before->ranks[k] == now->ranks[i] ? values[k] : 0;
    }
    return pages->before_values;
}

/* ---- pages ---- */

static void put_numbers(struct fg_block_pages_out *pages, uint32_t t,
                        struct fg_block_column *column, const uint64_t *values,
                        const uint64_t *before)
{
    uint32_t count = pages->now.count;
    size_t from = pages->values[t].len;

    pages->numbers = room(pages->numbers, count, &pages->cap_numbers, sizeof *pages->numbers);
    fg_block_column_numbers(column, values, count, before, pages->numbers);
    fg_block_numbers_put(pages->numbers, count, column->wide, &pages->value_bits[t],
                         &pages->values[t]);
    fg_block_column_put_head(column, &pages->heads);
    fg_buf_varint(&pages->heads, pages->values[t].len - from);
    pages->values_bytes += pages->values[t].len - from + fg_block_bits_bytes(count);
}

static void put_columns(struct fg_block_writer *writer, uint64_t *totals)
{
    struct fg_block_pages_out *pages = &writer->pages;
    const struct fg_block_set *now = &pages->now;

    for (uint32_t t = 0; t < writer->part.n_types; t++) {
        const uint64_t *values = now->values + (size_t)t * now->count;
        const uint64_t *before = pages->has_before ? values_before(pages, t) : NULL;
        struct fg_block_column column =
            fg_block_column_choose(values, now->count, now->values, now->count, t, before);

        if (fg_block_column_has_numbers(&column))
            put_numbers(pages, t, &column, values, before);
        else
            fg_block_column_put_head(&column, &pages->heads);
        if (column.kind != FG_BLOCK_COLUMN_ZERO)
            writer->part.seen |= UINT64_C(1) << t;
        totals[t] = 0;
        for (uint32_t i = 0; i < now->count; i++)
            fg_value_sum(&totals[t], values[i]);
    }
}

/* ---- samples with a span or a trace ---- */

struct linked {
    const struct fg_block_link *link;
    uint32_t rank, index;
};

/* For comparing values, which decide between links that are equal. */
struct linking {
    const struct fg_block_profile *profile;
    uint32_t n_types;
};

static int by_link(const void *a, const void *b, void *arg)
{
    const struct linked *left = a, *right = b;
    const struct linking *linking = arg;
    int order = (left->rank > right->rank) - (left->rank < right->rank);

    if (order == 0)
        order = (left->link->span_id > right->link->span_id) -
                (left->link->span_id < right->link->span_id);
    if (order == 0)
        order = memcmp(left->link->trace_id, right->link->trace_id, FG_ID_BYTES);
    for (uint32_t t = 0; order == 0 && t < linking->n_types; t++) {
        const uint64_t *values =
            linking->profile->link_values + (size_t)t * linking->profile->n_links;

        order = (values[left->index] > values[right->index]) -
                (values[left->index] < values[right->index]);
    }
    return order;
}

static bool has_rank(const struct fg_block_set *set, uint32_t rank)
{
    uint32_t at = fg_lower_bound(i, 0, set->count, set->ranks[i] < rank);

    return at < set->count && set->ranks[at] == rank;
}

static enum fg_code rank_links(struct fg_block_writer *writer,
                               const struct fg_block_profile *profile, struct linked *linked,
                               struct fg_err *err)
{
    for (uint32_t i = 0; i < profile->n_links; i++) {
        uint32_t rank = rank_of(&writer->part, profile->links[i].stack);

        if (rank == FG_MAP_NONE || !has_rank(&writer->pages.now, rank))
            return fg_fail(err, FG_E_INVALID, "a link of stack %u, which has no sample",
                           profile->links[i].stack);
        linked[i] = (struct linked){&profile->links[i], rank, i};
    }
    return FG_OK;
}

static void encode_links(struct fg_block_writer *writer, const struct fg_block_profile *profile,
                         const struct linked *linked)
{
    struct fg_block_pages_out *pages = &writer->pages;
    struct fg_buf *out = &pages->exemplars;
    uint32_t rank = 0;

    fg_buf_varint(out, pages->smp_span.count - pages->exemplars_last);
    pages->exemplars_last = pages->smp_span.count + 1;
    fg_buf_varint(out, profile->n_links);
    for (uint32_t i = 0; i < profile->n_links; i++) {
        fg_buf_varint(out, linked[i].rank - rank);
        rank = linked[i].rank;
        fg_buf_le64(out, linked[i].link->span_id);
        fg_buf_append(out, linked[i].link->trace_id, FG_ID_BYTES);
        for (uint32_t t = 0; t < writer->part.n_types; t++)
            fg_buf_varint(out,
                          profile->link_values[(size_t)t * profile->n_links + linked[i].index]);
    }
}

static enum fg_code put_links(struct fg_block_writer *writer,
                              const struct fg_block_profile *profile, struct fg_err *err)
{
    struct linking linking = {profile, writer->part.n_types};
    struct linked *linked;
    enum fg_code code;

    if (profile->n_links == 0)
        return FG_OK;
    linked = fg_malloc(profile->n_links * sizeof *linked);
    code = rank_links(writer, profile, linked, err);
    if (code == FG_OK) {
        qsort_r(linked, profile->n_links, sizeof *linked, by_link, &linking);
        encode_links(writer, profile, linked);
    }
    free(linked);
    return code;
}

/* ---- putting it together ---- */

enum fg_code fg_block_samples_put(struct fg_block_writer *writer,
                                  const struct fg_block_profile *profile, uint64_t *totals,
                                  struct fg_err *err)
{
    struct fg_block_pages_out *pages = &writer->pages;
    size_t page_bytes =
        pages->heads.len + pages->rank_bits.len + pages->ranks.len + pages->values_bytes;

    if (page_bytes >= FG_BLOCK_SMP_PAGE_BYTES && fg_block_smp_flush(writer, err) != FG_OK)
        return err->code;
    if (take_samples(writer, profile, err) != FG_OK || put_links(writer, profile, err) != FG_OK)
        return err->code;

    size_t from = pages->ranks.len;

    fg_block_ranks_put(pages->now.ranks, pages->now.count, &pages->rank_bits, &pages->ranks);
    fg_buf_varint(&pages->heads, pages->now.count);
    fg_buf_varint(&pages->heads, pages->ranks.len - from);
    put_columns(writer, totals);
    fg_block_span_add(&pages->smp_span, profile->time_ns);
    pages->smp_series_profiles++;

    struct fg_block_set last = pages->before;

    pages->before = pages->now;
    pages->now = last;
    pages->has_before = true;
    return FG_OK;
}

static void make_page(struct fg_block_pages_out *pages, struct fg_buf *raw)
{
    uint32_t n_types = FG_BATCH_TYPES_MAX;

    while (n_types > 0 && pages->value_bits[n_types - 1].len == 0)
        n_types--;
    fg_buf_clear(raw);
    fg_buf_varint(raw, pages->heads.len);
    fg_buf_varint(raw, pages->rank_bits.len);
    fg_buf_varint(raw, pages->ranks.len);
    fg_buf_varint(raw, n_types);
    for (uint32_t t = 0; t < n_types; t++) {
        fg_buf_varint(raw, pages->value_bits[t].len);
        fg_buf_varint(raw, pages->values[t].len);
    }
    fg_buf_put(raw, fg_buf_slice(&pages->heads));
    fg_buf_put(raw, fg_buf_slice(&pages->rank_bits));
    fg_buf_put(raw, fg_buf_slice(&pages->ranks));
    for (uint32_t t = 0; t < n_types; t++) {
        fg_buf_put(raw, fg_buf_slice(&pages->value_bits[t]));
        fg_buf_put(raw, fg_buf_slice(&pages->values[t]));
    }
}

/* Pages of EXM cover the same profiles as those of SMP; those before the first are empty. */
static enum fg_code exemplars_flush(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_block_pages_out *pages = &writer->pages;

    fg_buf_clear(&writer->raw);
    fg_buf_put(&writer->raw, fg_buf_slice(&pages->exemplars));
    fg_buf_clear(&pages->exemplars);
    pages->exemplars_last = 0;
    return fg_block_page_put(writer, &writer->exm, &pages->smp_span, err);
}

enum fg_code fg_block_smp_flush(struct fg_block_writer *writer, struct fg_err *err)
{
    struct fg_block_pages_out *pages = &writer->pages;

    if (pages->smp_span.count == 0)
        return FG_OK;
    make_page(pages, &writer->raw);
    if (fg_block_page_put(writer, &writer->smp, &pages->smp_span, err) != FG_OK ||
        exemplars_flush(writer, err) != FG_OK)
        return err->code;
    fg_buf_clear(&pages->heads);
    fg_buf_clear(&pages->rank_bits);
    fg_buf_clear(&pages->ranks);
    for (size_t t = 0; t < FG_COUNT(pages->values); t++) {
        fg_buf_clear(&pages->value_bits[t]);
        fg_buf_clear(&pages->values[t]);
    }
    pages->values_bytes = 0;
    pages->smp_span.count = 0;
    pages->smp_series_profiles = 0;
    pages->has_before = false;
    return FG_OK;
}
