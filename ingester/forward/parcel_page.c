#include "ingester/forward/parcel_impl.h"

enum {
    /* Of a round's profiles, with all of their stacks defined: a request of a second or less. */
    PAGE_ROUND_MAX_BYTES = 1024 * 1024,
    PAGE_ROUND_MAX = 128, /* each is a batch */
};

/* Counts a profile that the resend has passed. */
static void count_passed(const struct ing_parcel_item *item, struct ing_resend *resend)
{
    if (item->outbox->outcome == OUTBOX_REFUSED) {
        resend->refused++;
    } else if (item->filtered) {
        resend->filtered++;
    } else {
        resend->sent++;
        resend->known += item->known;
    }
}

void ing_parcel_note_page(const struct ing_parcel *parcel)
{
    const struct ing_page *page = &parcel->page;
    struct ing_resend now = page->after;
    size_t done = 0;

    while (done < parcel->n_items && parcel->items[done].state == ITEM_CLOSED)
        done++;
    if (done < page->n) {
        now = page->before;
        now.incomplete = page->after.incomplete;
        if (done > 0)
            ing_page_pass(&page->items[done - 1], &now);
    }
    for (size_t i = 0; i < done; i++)
        count_passed(&parcel->items[i], &now);
    (void)ing_outbox_note_resend(parcel->common->outbox, parcel->span.target, &page->before, &now);
    if (parcel->held_ns > 0)
        ing_outbox_hold_resend(parcel->common->outbox, parcel->span.target, page->before.tenant,
                               parcel->held_ns);
}

enum fg_code ing_parcel_read_page(struct ing_parcel *parcel, struct ing_outbox_item **ret_found,
                                  size_t *ret_n, struct fg_err *err)
{
    size_t n = parcel->page.n;

    *ret_n = n;
    *ret_found = fg_arena_new(parcel->arena, struct ing_outbox_item, n);
    if (*ret_found == NULL)
        return fg_fail(err, FG_E_LIMIT, "a page of %zu profiles", n);
    for (size_t i = 0; i < n; i++)
        (*ret_found)[i].record = fg_bytes(parcel->page.items[i].bytes, parcel->page.items[i].len);
    return FG_OK;
}

/* Chooses the profiles of a round of a page: the first ones that are open. */
size_t ing_parcel_choose_of_page(struct ing_parcel *parcel, struct ing_export_profile *profiles)
{
    size_t n = 0, bytes = 0;

    /* All of a page is of one tenant, which the target does not take now. */
    if (parcel->n_denied + parcel->n_limited > 0) {
        parcel->first = NULL;
        return 0;
    }
    for (size_t i = 0; i < parcel->n_items && n < FG_MIN(parcel->round_max, PAGE_ROUND_MAX); i++) {
        struct ing_parcel_item *item = &parcel->items[i];

        if (item->state != ITEM_OPEN)
            continue;
        if (n > 0 && bytes + item->outbox->record.len > PAGE_ROUND_MAX_BYTES)
            break;
        bytes += item->outbox->record.len;
        profiles[n++].owner = item;
    }
    parcel->first = n > 0 ? profiles[0].owner : NULL;
    return n;
}

/* ---- batches ---- */

/* Pushes a profile of a page: its stacks as a tree. */
static enum fg_code put_page_profile(struct ing_parcel *parcel, const struct fg_batch *batch,
                                     const struct fg_wire_batch *wire, struct fg_err *err)
{
    uint32_t *nodes = fg_arena_new(parcel->round_arena, uint32_t, batch->n_stacks);
    struct fg_symbols_import import;
    struct fg_tree tree;
    enum fg_code code;

    if (nodes == NULL)
        return fg_fail(err, FG_E_LIMIT, "stacks of a profile");
    fg_tree_init(&tree);
    fg_symbols_import_init_new(&import, &tree.symbols, &wire->symbols);
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        const struct fg_wire_stack *stack = &wire->stacks[i];
        uint32_t node = FG_TREE_ROOT;

        for (uint32_t d = stack->depth; d > 0; d--)
            node = fg_tree_child(&tree, node,
                                 fg_symbols_import_location(&import, stack->locations[d - 1]));
        nodes[i] = node + 1; /* FG_TREE_ROOT + 1 is 0 */
    }
    fg_symbols_import_done(&import);
    code = ing_parcel_put_pprof(parcel, batch, &(struct ing_export_stacks){&tree, nodes}, err);
    fg_tree_done(&tree);
    return code;
}

/* Defines the stacks that the target is not known to have, or all, if it has asked for them. */
static enum fg_code put_page_batch(struct ing_parcel *parcel, const struct fg_batch *batch,
                                   const struct ing_parcel_item *item, struct ing_parcel_batch *to,
                                   struct fg_err *err)
{
    bool *define = fg_arena_new(parcel->round_arena, bool, batch->n_stacks);

    if (define == NULL)
        return fg_fail(err, FG_E_LIMIT, "stacks of a batch");
    to->cache_key =
        ing_parcel_cache_key(parcel, fg_cstr(parcel->page.before.tenant),
                             fg_labels_get(&batch->profiles[0].labels, FG_LABEL_SERVICE));
    if (item->define)
        memset(define, true, batch->n_stacks);
    else
        fg_definition_cache_look_up(parcel->common->definition_cache, to->cache_key, batch, define);
    return ing_parcel_put_batch(parcel, batch, define, to, err);
}

static enum fg_code put_decoded(struct ing_parcel *parcel, struct ing_parcel_item *item,
                                const struct fg_wire_batch *wire, struct fg_err *err)
{
    const struct ing_export_profile profile = {.owner = item};
    struct ing_parcel_batch *to = &parcel->batches[parcel->n_batches];
    struct fg_batch batch;

    *to = (struct ing_parcel_batch){
        .items = fg_arena_new(parcel->round_arena, struct ing_parcel_item *, 1)};
    if (to->items == NULL || !fg_batch_of_wire(wire, parcel->round_arena, &batch))
        return fg_fail(err, FG_E_LIMIT, "profiles of a batch");
    fg_assert(batch.n_profiles == 1); /* page.h */
    if (ing_parcel_keep_wanted(parcel, &batch, &profile, to->items, err) != FG_OK)
        return err->code;
    to->n = batch.n_profiles;
    if (to->n == 0)
        return FG_OK;
    parcel->n_batches++;
    parcel->n_sent++;
    return parcel->push ? put_page_profile(parcel, &batch, wire, err)
                        : put_page_batch(parcel, &batch, item, to, err);
}

static enum fg_code make_page_batch(struct ing_parcel *parcel, struct ing_parcel_item *item,
                                    struct fg_err *err)
{
    size_t n_batches = parcel->n_batches, n_sent = parcel->n_sent;
    struct fg_wire_batch wire;
    enum fg_code code = fg_batch_decode(item->outbox->record, parcel->round_arena, &wire, err);

    if (code == FG_OK) {
        code = put_decoded(parcel, item, &wire, err);
        fg_wire_batch_done(&wire);
    }
    if (code != FG_E_CORRUPT && code != FG_E_TOO_LARGE)
        return code;
    parcel->n_batches = n_batches;
    parcel->n_sent = n_sent;
    ing_parcel_refuse_item(parcel, item, err->msg);
    return FG_OK;
}

enum fg_code ing_parcel_make_page_batches(struct ing_parcel *parcel,
                                          const struct ing_export_profile *profiles, size_t n,
                                          struct fg_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (make_page_batch(parcel, profiles[i].owner, err) != FG_OK)
            return err->code;
    return FG_OK;
}
