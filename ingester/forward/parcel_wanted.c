#include "ingester/forward/parcel_impl.h"

/* Applies selector and rules of the target to the labels of a profile. *ret_kept false: it is not
 * wanted there. */
static enum fg_code settle_labels(struct ing_parcel *parcel, struct fg_profile *profile,
                                  bool *ret_kept, struct fg_err *err)
{
    const struct ing_forward_target *target = parcel->target;

    *ret_kept = fg_selector_matches(&target->selector, &profile->labels);
    if (!*ret_kept)
        return FG_OK;
    /* The rules change the array, which is the catalog's. */
    profile->labels = fg_labels_copy(&profile->labels, parcel->round_arena);
    if (profile->labels.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "labels of a profile");
    return fg_relabel_apply(target->rules, parcel->round_arena, &parcel->work, &profile->labels,
                            ret_kept, err);
}

static enum fg_code keep_type(struct ing_parcel *parcel, const struct fg_labels *of,
                              const struct fg_value_type *type, bool *ret_kept, struct fg_err *err)
{
    struct fg_labels labels = {fg_arena_new(parcel->round_arena, struct fg_label, of->count + 2),
                               of->count + 2};

    if (labels.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "labels of a profile");
    memcpy(labels.items, of->items, of->count * sizeof *labels.items);
    labels.items[of->count] = (struct fg_label){FG_LIT(FG_LABEL_TYPE), type->type};
    labels.items[of->count + 1] = (struct fg_label){FG_LIT(FG_LABEL_UNIT), type->unit};
    fg_labels_sort(&labels);
    *ret_kept = true;
    return fg_relabel_apply(parcel->target->type_rules, parcel->round_arena, &parcel->work, &labels,
                            ret_kept, err);
}

/* Removes the columns of types that the target does not want. Samples without a value stay: they
 * are few, and add nothing there. */
static void drop_columns(struct fg_batch *batch, const bool *kept)
{
    uint32_t n_types = 0;

    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        struct fg_profile *profile = &batch->profiles[i];
        int64_t *to = profile->values;

        for (uint32_t t = 0; t < batch->n_types; t++) {
            const int64_t *from = profile->values + (size_t)t * profile->n_samples;

            if (!kept[t] || profile->n_samples == 0)
                continue;
            memmove(to, from, profile->n_samples * sizeof *to);
            to += profile->n_samples;
        }
    }
    for (uint32_t t = 0; t < batch->n_types; t++)
        if (kept[t])
            batch->types[n_types++] = batch->types[t];
    batch->n_types = n_types;
}

/* Profiles of one batch have one __name__ and service, and rules for types look at these. */
static enum fg_code choose_types(struct ing_parcel *parcel, struct fg_batch *batch,
                                 struct fg_err *err)
{
    bool kept[FG_BATCH_TYPES_MAX] = {false};
    uint32_t n_kept = 0;

    if (parcel->target->settings.sample_types[0] == '\0' || batch->n_profiles == 0)
        return FG_OK;
    for (uint32_t t = 0; t < batch->n_types; t++) {
        if (keep_type(parcel, &batch->profiles[0].labels, &batch->types[t], &kept[t], err) != FG_OK)
            return err->code;
        n_kept += kept[t];
    }
    if (n_kept < batch->n_types)
        drop_columns(batch, kept);
    return FG_OK;
}

/* The target does not want it. */
static void leave_out(struct ing_parcel *parcel, struct ing_parcel_item *item)
{
    ing_parcel_close_item(item, OUTBOX_DONE);
    item->filtered = true;
    parcel->n_filtered++;
}

/* Leaves the profiles that the target wants, and notes whose they are. */
enum fg_code ing_parcel_keep_wanted(struct ing_parcel *parcel, struct fg_batch *batch,
                                    const struct ing_export_profile *profiles,
                                    struct ing_parcel_item **items, struct fg_err *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        struct ing_parcel_item *item = profiles[i].owner;
        bool kept;

        if (settle_labels(parcel, &batch->profiles[i], &kept, err) != FG_OK)
            return err->code;
        if (kept) {
            batch->profiles[n] = batch->profiles[i];
            items[n++] = item;
        } else {
            leave_out(parcel, item);
        }
    }
    batch->n_profiles = n;
    if (choose_types(parcel, batch, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < n && batch->n_types == 0; i++)
        leave_out(parcel, items[i]);
    if (batch->n_types == 0)
        batch->n_profiles = 0;
    return FG_OK;
}
