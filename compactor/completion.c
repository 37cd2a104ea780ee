#include "compactor/completion.h"

#include "common/runtime/log.h"
#include "compactor/edit.h"

/* True if a segment has data that may be named and is in no block yet. */
static bool has_uncovered(const struct cmp_completion_work *work,
                          const struct fg_blocks_tombstone *tombstone)
{
    uint32_t tenant = fg_l0_tenant(work->l0, work->blocks->tenant);

    for (uint32_t i = 0; i < work->l0->n_segments && tenant != FG_L0_NO_TENANT; i++) {
        const struct fg_l0_segment *segment = &work->l0->segments[i];
        const struct fg_l0_part *part = fg_l0_part(segment, tenant);

        if (part != NULL && part->t_max_ns >= tombstone->start_ns &&
            part->t_min_ns < tombstone->end_ns &&
            !fg_blocks_covers(work->blocks, segment->generation))
            return true;
    }
    return false;
}

static enum fg_code end_deletion(struct cmp_completion_work *work,
                                 const struct fg_blocks_tombstone *tombstone, struct fg_err *err)
{
    const struct cmp_edit_task task = {.kind = EDIT_UNBURY, .tombstone = *tombstone};

    if (cmp_edit_carry_out(work->env, work->blocks->tenant, &task, err) != FG_OK)
        return err->code;
    fg_log_info("deletion completed", fg_lb("tenant", work->blocks->tenant),
                fg_lb("selector", tombstone->selector), fg_li("start_ns", tombstone->start_ns),
                fg_li("end_ns", tombstone->end_ns), fg_lu("profiles", tombstone->profiles),
                fg_lu("rewrites", tombstone->rewrites));
    return FG_OK;
}

/* True if its data is gone from all blocks for now, and it has waited for late data long enough. */
static bool is_ready(const struct cmp_completion_work *work, uint32_t number)
{
    const struct fg_blocks_tombstone *tombstone = &work->blocks->tombstones[number];

    return !work->waiting[number] && !has_uncovered(work, tombstone) &&
           fg_wall_ns(work->env->clock) >= fg_time_add(tombstone->asked_wall_ns, work->wait_ns);
}

/* One number for all deletions that are ready. First the L0 manifest, then the tombstones: if this
 * ends in between, the number was asked for nothing and the next look asks again. */
static enum fg_code ask_writers(struct cmp_completion_work *work,
                                const struct fg_blocks_await *awaits, uint32_t n,
                                struct fg_err *err)
{
    /* The first item's number is that of all items: advance_deletions() draws one number for
     * each look. */
    const struct cmp_edit_task ask = {.kind = EDIT_ASK, .asked = awaits[0].awaits};
    const struct cmp_edit_task await = {.kind = EDIT_AWAIT, .awaits = awaits, .count = n};

    fg_assert(n > 0 && ask.asked > work->l0->asked);
    if (cmp_edit_carry_out(work->env, FG_LIT(""), &ask, err) != FG_OK ||
        cmp_edit_carry_out(work->env, work->blocks->tenant, &await, err) != FG_OK)
        return err->code;
    work->asked = true;
    return FG_OK;
}

/* Takes the next step of each deletion that is ready. */
static enum fg_code advance_deletions(struct cmp_completion_work *work,
                                      const struct cmp_ingesters *ingesters, struct fg_err *err)
{
    const struct fg_blocks *blocks = work->blocks;
    struct fg_blocks_await *awaits =
        fg_arena_new(work->arena, struct fg_blocks_await, blocks->n_tombstones);
    uint64_t number = work->l0->asked;
    uint32_t n = 0;

    if (awaits == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u deletions", blocks->n_tombstones);
    /* One number for all deletions that are ready, so each ingester answers once for all of them.
     * It is greater than every number that was asked before, also in a manifest that was lost
     * since. */
    for (uint32_t i = 0; i < blocks->n_tombstones; i++)
        number = FG_MAX(number, blocks->tombstones[i].awaits);
    number++;
    for (uint32_t i = 0; i < blocks->n_tombstones; i++) {
        struct cmp_completion next;

        if (!is_ready(work, i))
            continue;
        next = cmp_completion_next(&blocks->tombstones[i], work->l0, ingesters, number);
        if (next.step == COMPLETION_ASK)
            awaits[n++] = next.await;
        if (next.step == COMPLETION_END && end_deletion(work, &blocks->tombstones[i], err) != FG_OK)
            return err->code;
    }
    return n == 0 ? FG_OK : ask_writers(work, awaits, n, err);
}

enum fg_code cmp_completion_advance(struct cmp_completion_work *work, struct fg_err *err)
{
    const struct cmp_ingesters *ingesters;
    bool any = false;

    /* The ring is read only if it is needed: this runs at the end of each look at each tenant. */
    for (uint32_t i = 0; i < work->blocks->n_tombstones; i++)
        any = any || is_ready(work, i);
    if (!any)
        return FG_OK;
    if (cmp_ingester_list_get(work->ingesters, work->env, &ingesters, err) != FG_OK)
        return fg_wrap(err, "listing ingesters that may hold deleted profiles");
    return advance_deletions(work, ingesters, err);
}
