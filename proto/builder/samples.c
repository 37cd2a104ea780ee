/* Groups of samples by their labels, and rows: each stack of a group once. */
#include "proto/builder/impl.h"

static bool group_add(struct fg_builder *builder, const struct fg_labels *labels, uint64_t hash)
{
    struct fg_labels copy = {fg_arena_new(builder->arena, struct fg_label, labels->count),
                             labels->count};

    if (copy.items == NULL ||
        !fg_arena_grow(builder->arena, &builder->groups, builder->n_groups, 1, &builder->cap_groups,
                       sizeof *builder->groups) ||
        !fg_map_add_in(&builder->group_map, builder->arena, hash, builder->n_groups))
        return false;
    if (copy.count > 0)
        memcpy(copy.items, labels->items, copy.count * sizeof *copy.items);
    builder->groups[builder->n_groups++] = (struct fg_builder_group){.labels = copy};
    return true;
}

enum fg_code fg_builder_group(struct fg_builder *builder, const struct fg_labels *labels,
                              uint32_t *ret_group, struct fg_err *err)
{
    struct fg_map_walk walk;
    uint64_t hash;

    /* Before hashing: a long text of the upload may be in the labels of very many samples. */
    if (fg_builder_check_lengths(labels, &builder->limits, err) != FG_OK)
        return err->code;
    hash = fg_id_table(fg_labels_hash(labels));
    for (uint32_t i = fg_map_first(&builder->group_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&builder->group_map, &walk)) {
        if (fg_labels_cmp(&builder->groups[i].labels, labels) == 0) {
            *ret_group = i;
            return FG_OK;
        }
    }
    if (!group_add(builder, labels, hash))
        return fg_builder_too_large(err);
    *ret_group = builder->n_groups - 1;
    return FG_OK;
}

/* Seeded, and each part is mixed into what is not known outside: stacks, groups and spans are the
 * sender's choice, so it must not know which of them meet in the map. */
static uint64_t sample_hash(const struct fg_builder *builder, uint32_t group, uint32_t stack,
                            const struct fg_link *link)
{
    uint64_t hash = fg_mix64(builder->batch->stacks[stack].id.hi ^ builder->seed);

    hash = fg_mix64(hash ^ group);
    if (link == NULL)
        return hash;
    /* + 1: without a span it is another hash than without a link. */
    hash ^= fg_hash64_table(fg_bytes(link->trace_id, FG_ID_BYTES));
    return fg_mix64(hash ^ (link->span_id + 1));
}

static bool same_link(const struct fg_builder *builder, uint32_t index, const struct fg_link *link)
{
    if (index == NO_LINK || link == NULL)
        return index == NO_LINK && link == NULL;
    return builder->links[index].span_id == link->span_id &&
           memcmp(builder->links[index].trace_id, link->trace_id, FG_ID_BYTES) == 0;
}

/* Enters a row so that fg_builder_row_find() finds it. The first row of a stack is found by the
 * stack; only further ones (other groups, spans) need the map. */
bool fg_builder_row_index(struct fg_builder *builder, uint32_t row)
{
    const struct fg_builder_row *at = &builder->rows[row];
    const struct fg_link *link = at->link == NO_LINK ? NULL : &builder->links[at->link];

    if (builder->first_rows[at->stack] == NO_ROW)
        builder->first_rows[at->stack] = row;
    if (builder->first_rows[at->stack] == row)
        return true;
    return fg_map_add_in(&builder->samples, builder->arena,
                         sample_hash(builder, at->group, at->stack, link), row);
}

static bool row_add(struct fg_builder *builder, uint32_t group, uint32_t stack,
                    const struct fg_link *link)
{
    uint32_t n_types = builder->batch->n_types;
    uint32_t cap_values = builder->cap_rows;

    if (!fg_arena_grow(builder->arena, &builder->values, builder->n_rows, 1, &cap_values,
                       n_types * sizeof *builder->values) ||
        !fg_arena_grow(builder->arena, &builder->rows, builder->n_rows, 1, &builder->cap_rows,
                       sizeof *builder->rows) ||
        !fg_arena_grow(builder->arena, &builder->links, builder->n_links, 1, &builder->cap_links,
                       sizeof *builder->links))
        return false;
    builder->rows[builder->n_rows] = (struct fg_builder_row){group, stack, NO_LINK};
    if (link != NULL) {
        builder->links[builder->n_links] = *link;
        builder->rows[builder->n_rows].link = builder->n_links++;
        builder->groups[group].n_links++;
    }
    builder->groups[group].n_rows++;
    memset(builder->values + (size_t)builder->n_rows * n_types, 0,
           n_types * sizeof *builder->values);
    return fg_builder_row_index(builder, builder->n_rows++);
}

/* True if a sample has something to keep. A negative value drops the whole sample. */
static bool has_value(struct fg_builder *builder, const int64_t *values)
{
    bool any = false;

    for (uint32_t t = 0; t < builder->batch->n_types; t++) {
        any |= values[t] != 0;
        if (values[t] < 0) {
            any = false;
            break;
        }
    }
    builder->counts->samples_dropped += !any;
    return any;
}

/* Returns the row of this group, stack and link, or NO_ROW. */
uint32_t fg_builder_row_find(const struct fg_builder *builder, uint32_t group, uint32_t stack,
                             const struct fg_link *link)
{
    uint32_t i = builder->first_rows[stack];
    struct fg_map_walk walk;
    uint64_t hash;

    if (i == NO_ROW ||
        (builder->rows[i].group == group && same_link(builder, builder->rows[i].link, link)))
        return i;
    hash = sample_hash(builder, group, stack, link);
    for (i = fg_map_first(&builder->samples, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&builder->samples, &walk))
        if (builder->rows[i].group == group && builder->rows[i].stack == stack &&
            same_link(builder, builder->rows[i].link, link))
            break;
    return i;
}

enum fg_code fg_builder_row_sum(struct fg_builder *builder, uint32_t row, const int64_t *values,
                                struct fg_err *err)
{
    uint32_t n_types = builder->batch->n_types;
    int64_t *sums = builder->values + (size_t)row * n_types;

    for (uint32_t t = 0; t < n_types; t++)
        /* Refused and not wrapped: a sum that is silently wrong could not be told from a right
         * one. */
        if (__builtin_add_overflow(sums[t], values[t], &sums[t]))
            return fg_fail(err, FG_E_INVALID, "sum of a stack's values exceeds 64 bits");
    return FG_OK;
}

enum fg_code fg_builder_sample(struct fg_builder *builder, uint32_t group, uint32_t stack,
                               const struct fg_link *link, const int64_t *values,
                               struct fg_err *err)
{
    uint32_t row;

    if (!has_value(builder, values))
        return FG_OK;
    row = fg_builder_row_find(builder, group, stack, link);
    if (row == NO_ROW) {
        if (!row_add(builder, group, stack, link))
            return fg_builder_too_large(err);
        row = builder->n_rows - 1;
    }
    return fg_builder_row_sum(builder, row, values, err);
}
