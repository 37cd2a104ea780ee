/* The end: relabelling rules, sample types that stay, and profiles in normal form. */
#include "proto/builder/impl.h"

/* list NULL: none. */
static enum fg_code relabel(struct fg_arena *arena, struct fg_upload_rules *rules,
                            const struct fg_relabel *list, struct fg_labels *labels, bool *ret_kept,
                            struct fg_err *err)
{
    *ret_kept = true;
    return list == NULL ? FG_OK
                        : fg_relabel_apply(list, arena, &rules->work, labels, ret_kept, err);
}

static void row_drop(struct fg_builder *builder, uint32_t number)
{
    struct fg_builder_row *row = &builder->rows[number];
    struct fg_builder_group *group;

    fg_assert(row->group != NO_GROUP); /* a row is dropped once */
    group = &builder->groups[row->group];
    fg_assert(group->n_rows > 0);
    group->n_rows--;
    group->n_links -= row->link != NO_LINK;
    row->group = NO_GROUP;
}

/* ---- sample types ---- */

static enum fg_code type_keep(struct fg_builder *builder, const struct fg_upload *upload,
                              const struct fg_value_type *type, bool *ret_kept, struct fg_err *err)
{
    size_t count = upload->labels.count;
    struct fg_labels labels = {fg_arena_new(builder->arena, struct fg_label, count + 2), count + 2};

    if (labels.items == NULL)
        return fg_builder_too_large(err);
    if (count > 0)
        memcpy(labels.items, upload->labels.items, count * sizeof *labels.items);
    /* Rules see a type as two labels in addition to those of the upload, as in Pyroscope's
     * sample_type_relabeling_rules. */
    labels.items[count] = (struct fg_label){FG_LIT(FG_LABEL_TYPE), type->type};
    labels.items[count + 1] = (struct fg_label){FG_LIT(FG_LABEL_UNIT), type->unit};
    fg_labels_sort(&labels);
    return relabel(builder->arena, upload->rules, upload->rules->types, &labels, ret_kept, err);
}

/* Moves the values of the types that stay together. A row in which only zeros are left is
 * dropped. */
static void rows_keep_types(struct fg_builder *builder, const bool *kept)
{
    uint32_t n_types = builder->batch->n_types;
    int64_t *to = builder->values;

    for (uint32_t r = 0; r < builder->n_rows; r++) {
        const int64_t *from = builder->values + (size_t)r * n_types;
        bool any = false;

        for (uint32_t t = 0; t < n_types; t++) {
            if (!kept[t])
                continue;
            any |= from[t] != 0;
            *to++ = from[t];
        }
        if (!any)
            row_drop(builder, r);
    }
}

static enum fg_code drop_types(struct fg_builder *builder, const bool *kept, uint32_t n_kept,
                               struct fg_err *err)
{
    struct fg_batch *batch = builder->batch;
    struct fg_value_type *types = fg_arena_new(builder->arena, struct fg_value_type, n_kept);
    uint32_t n = 0;

    if (types == NULL)
        return fg_builder_too_large(err);
    rows_keep_types(builder, kept);
    for (uint32_t t = 0; t < batch->n_types; t++)
        if (kept[t])
            types[n++] = batch->types[t];
    builder->counts->types_dropped += batch->n_types - n;
    /* A batch has a type, also where no sample is left to have a value of it. */
    if (n > 0) {
        batch->types = types;
        batch->n_types = n;
    }
    return FG_OK;
}

static enum fg_code choose_types(struct fg_builder *builder, const struct fg_upload *upload,
                                 struct fg_err *err)
{
    const struct fg_batch *batch = builder->batch;
    bool kept[FG_BATCH_TYPES_MAX] = {false};
    uint32_t n_kept = 0;

    fg_assert(batch->n_types <= FG_BATCH_TYPES_MAX);
    for (uint32_t t = 0; t < batch->n_types; t++) {
        if (type_keep(builder, upload, &batch->types[t], &kept[t], err) != FG_OK)
            return err->code;
        n_kept += kept[t];
    }
    return n_kept == batch->n_types ? FG_OK : drop_types(builder, kept, n_kept, err);
}

/* ---- labels ---- */

/* Joins the labels of the upload and the group. The upload's come last, and the last of equal
 * names wins. */
static enum fg_code join_labels(struct fg_builder *builder, const struct fg_upload *upload,
                                struct fg_builder_group *group, struct fg_err *err)
{
    size_t count = upload->labels.count + group->labels.count;
    struct fg_labels joined = {fg_arena_new(builder->arena, struct fg_label, count), count};

    if (joined.items == NULL)
        return fg_builder_too_large(err);
    if (group->labels.count > 0)
        memcpy(joined.items, group->labels.items, group->labels.count * sizeof *joined.items);
    if (upload->labels.count > 0)
        memcpy(joined.items + group->labels.count, upload->labels.items,
               upload->labels.count * sizeof *joined.items);
    fg_labels_sort(&joined);
    group->joined = joined;
    return FG_OK;
}

static enum fg_code not_demanded(const struct fg_selector *demanded, const struct fg_labels *labels,
                                 struct fg_err *err)
{
    struct fg_buf wanted, given;

    fg_buf_init(&wanted, FG_ERR_MSG_MAX_BYTES);
    fg_buf_init(&given, FG_ERR_MSG_MAX_BYTES);
    fg_selector_write(demanded, &wanted);
    fg_labels_write(labels, &given);
    (void)fg_fail(err, FG_E_DENIED, "the caller may send profiles with %.*s only, not with %.*s",
                  FG_S(fg_buf_slice(&wanted)), FG_S(fg_buf_slice(&given)));
    fg_buf_done(&wanted);
    fg_buf_done(&given);
    return err->code;
}

enum fg_code fg_labels_settle(struct fg_labels *labels, struct fg_upload_rules *rules,
                              const struct fg_decode_limits *limits, struct fg_arena *arena,
                              bool *ret_kept, struct fg_err *err)
{
    const struct fg_selector *demanded = rules == NULL ? NULL : rules->demanded;

    if (relabel(arena, rules, rules == NULL ? NULL : rules->labels, labels, ret_kept, err) != FG_OK)
        return err->code;
    if (!*ret_kept)
        return FG_OK;
    fg_labels_remove(labels, FG_LIT(FG_LABEL_DELTA));
    fg_labels_remove(labels, FG_LIT(FG_LABEL_ORDER));
    if (demanded != NULL && !fg_selector_matches(demanded, labels))
        return not_demanded(demanded, labels, err);
    return fg_labels_check(labels, limits, err);
}

/* Finds the first group with the same labels; the group itself if it is the first. */
static enum fg_code find_equal(struct fg_builder *builder, struct fg_map *joined, uint32_t number,
                               struct fg_err *err)
{
    struct fg_builder_group *group = &builder->groups[number];
    uint64_t hash = fg_id_table(fg_labels_hash(&group->joined));
    struct fg_map_walk walk;

    group->into = number;
    for (uint32_t i = fg_map_first(joined, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(joined, &walk))
        if (fg_labels_cmp(&builder->groups[i].joined, &group->joined) == 0)
            group->into = i;
    if (group->into == number && !fg_map_add_in(joined, builder->arena, hash, number))
        return fg_builder_too_large(err);
    return FG_OK;
}

/* Decides where the samples of each group go. *ret_move: some of them move. */
static enum fg_code settle_groups(struct fg_builder *builder, const struct fg_upload *upload,
                                  bool *ret_move, struct fg_err *err)
{
    struct fg_map joined = {0};
    bool kept = false;

    for (uint32_t g = 0; g < builder->n_groups; g++) {
        struct fg_builder_group *group = &builder->groups[g];

        if (group->n_rows == 0)
            continue;
        if (join_labels(builder, upload, group, err) != FG_OK ||
            fg_labels_settle(&group->joined, upload->rules, &upload->limits, builder->arena, &kept,
                             err) != FG_OK)
            return err->code;
        if (!kept) {
            group->into = NO_GROUP;
            builder->counts->profiles_dropped++;
        } else if (find_equal(builder, &joined, g, err) != FG_OK) {
            return err->code;
        }
        *ret_move |= group->into != g;
    }
    return FG_OK;
}

/* Moves a row to its group's new place: adds it to a row of the same stack there, if there is
 * one. */
static enum fg_code row_move(struct fg_builder *builder, uint32_t number, struct fg_err *err)
{
    struct fg_builder_row *row = &builder->rows[number];
    uint32_t to = builder->groups[row->group].into;
    struct fg_builder_group *into = &builder->groups[to];
    const struct fg_link *link = row->link == NO_LINK ? NULL : &builder->links[row->link];
    uint32_t there = fg_builder_row_find(builder, to, row->stack, link);

    row_drop(builder, number);
    if (there != NO_ROW)
        return fg_builder_row_sum(builder, there,
                                  builder->values + (size_t)number * builder->batch->n_types, err);
    into->n_rows++;
    into->n_links += link != NULL;
    row->group = to;
    return fg_builder_row_index(builder, number) ? FG_OK : fg_builder_too_large(err);
}

static enum fg_code move_rows(struct fg_builder *builder, struct fg_err *err)
{
    for (uint32_t r = 0; r < builder->n_rows; r++) {
        uint32_t group = builder->rows[r].group;

        if (group == NO_GROUP || builder->groups[group].into == group)
            continue;
        if (builder->groups[group].into == NO_GROUP)
            row_drop(builder, r);
        else if (row_move(builder, r, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- profiles ---- */

static enum fg_code profile_start(struct fg_builder *builder, const struct fg_upload *upload,
                                  int64_t period, const struct fg_builder_group *group,
                                  struct fg_profile *profile, struct fg_err *err)
{
    size_t n_values = (size_t)group->n_rows * builder->batch->n_types;

    *profile = (struct fg_profile){
        .labels = group->joined,
        .time_ns = upload->time_ns,
        .duration_ns = upload->duration_ns,
        .period = period,
        .stacks = fg_arena_alloc(builder->arena, group->n_rows * sizeof *profile->stacks),
        .values = fg_arena_alloc(builder->arena, n_values * sizeof *profile->values),
        .links = fg_arena_alloc(builder->arena, group->n_links * sizeof *profile->links),
    };
    if (profile->stacks == NULL || profile->values == NULL || profile->links == NULL)
        return fg_builder_too_large(err);
    return FG_OK;
}

/* Copies rows into the columns of their profiles. */
static void fill(struct fg_builder *builder, const uint32_t *profile_of)
{
    struct fg_batch *batch = builder->batch;

    for (uint32_t r = 0; r < builder->n_rows; r++) {
        const struct fg_builder_row *row = &builder->rows[r];
        struct fg_profile *profile;
        uint32_t n;

        /* A rule or a sample type has dropped it. */
        if (row->group == NO_GROUP)
            continue;
        profile = &batch->profiles[profile_of[row->group]];
        n = profile->n_samples++;
        profile->stacks[n] = row->stack;
        for (uint32_t t = 0; t < batch->n_types; t++)
            profile->values[(size_t)t * builder->groups[row->group].n_rows + n] =
                builder->values[(size_t)r * batch->n_types + t];
        if (row->link != NO_LINK) {
            profile->links[profile->n_links] = builder->links[row->link];
            profile->links[profile->n_links++].sample = n;
        }
    }
}

/* Leaves out stacks that no profile has any more: what a rule drops must not reach the
 * ingesters' disks as a definition. */
static enum fg_code drop_stacks(struct fg_builder *builder, struct fg_err *err)
{
    struct fg_batch *batch = builder->batch;
    uint32_t *numbers = fg_arena_new(builder->arena, uint32_t, batch->n_stacks);
    uint32_t n = 0;

    if (numbers == NULL)
        return fg_builder_too_large(err);
    for (uint32_t p = 0; p < batch->n_profiles; p++)
        for (uint32_t i = 0; i < batch->profiles[p].n_samples; i++)
            /* Marks now, new numbers below. */
            numbers[batch->profiles[p].stacks[i]] = 1;
    for (uint32_t s = 0; s < batch->n_stacks; s++) {
        if (numbers[s] == 0)
            continue;
        batch->stacks[n] = batch->stacks[s];
        numbers[s] = n++;
    }
    batch->n_stacks = n;
    for (uint32_t p = 0; p < batch->n_profiles; p++)
        for (uint32_t i = 0; i < batch->profiles[p].n_samples; i++)
            batch->profiles[p].stacks[i] = numbers[batch->profiles[p].stacks[i]];
    return FG_OK;
}

static enum fg_code make_profiles(struct fg_builder *builder, const struct fg_upload *upload,
                                  int64_t period, struct fg_err *err)
{
    struct fg_batch *batch = builder->batch;
    uint32_t *profile_of = fg_arena_new(builder->arena, uint32_t, builder->n_groups);

    batch->profiles = fg_arena_new(builder->arena, struct fg_profile, builder->n_groups);
    if (batch->profiles == NULL || profile_of == NULL)
        return fg_builder_too_large(err);
    for (uint32_t g = 0; g < builder->n_groups; g++) {
        if (builder->groups[g].n_rows == 0)
            continue;
        profile_of[g] = batch->n_profiles;
        if (profile_start(builder, upload, period, &builder->groups[g],
                          &batch->profiles[batch->n_profiles++], err) != FG_OK)
            return err->code;
    }
    /* Counts are known, so columns were made in their final size and are filled in one pass. */
    fill(builder, profile_of);
    for (uint32_t g = 0; g < builder->n_groups; g++)
        fg_assert(builder->groups[g].n_rows == 0 ||
                  (batch->profiles[profile_of[g]].n_samples == builder->groups[g].n_rows &&
                   batch->profiles[profile_of[g]].n_links == builder->groups[g].n_links));
    return FG_OK;
}

enum fg_code fg_builder_finish(struct fg_builder *builder, const struct fg_upload *upload,
                               int64_t period, struct fg_err *err)
{
    /* A copy of the counts: whether this call dropped anything decides about the last step. */
    const struct fg_decode_counts *counts = builder->counts, before = *counts;
    bool move = false;

    if (upload->rules != NULL && upload->rules->types != NULL &&
        choose_types(builder, upload, err) != FG_OK)
        return err->code;
    /* Also two groups that differed only in what the upload overrides are one profile. */
    if (settle_groups(builder, upload, &move, err) != FG_OK ||
        (move && move_rows(builder, err) != FG_OK) ||
        make_profiles(builder, upload, period, err) != FG_OK)
        return err->code;
    if (counts->profiles_dropped == before.profiles_dropped &&
        counts->types_dropped == before.types_dropped)
        return FG_OK;
    return drop_stacks(builder, err);
}
