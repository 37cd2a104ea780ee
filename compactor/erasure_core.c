#include "compactor/erasure_core.h"

#include "common/base/time.h"

#include <stdlib.h>

struct fg_id cmp_erasure_id(struct fg_slice tenant, int64_t asked_ms)
{
    return (struct fg_id){(uint64_t)asked_ms, fg_hash64(tenant)};
}

void cmp_erasure_forget(struct cmp_erasure_memory *memory)
{
    free(memory->shared);
    *memory = (struct cmp_erasure_memory){.shared = NULL};
}

/* ---- what is listed ---- */

/* Returns the tenant's part of a segment that no block covers; NULL: there is none. */
static const struct fg_l0_part *uncovered(const struct fg_l0 *l0, const struct fg_blocks *blocks,
                                          uint32_t number, uint32_t tenant)
{
    const struct fg_l0_segment *segment = &l0->segments[number];

    return tenant == FG_L0_NO_TENANT || fg_blocks_covers(blocks, segment->generation)
               ? NULL
               : fg_l0_part(segment, tenant);
}

struct cmp_erasure_listed cmp_erasure_listed(const struct fg_l0 *l0, const struct fg_blocks *blocks)
{
    uint32_t tenant = fg_l0_tenant(l0, blocks->tenant);
    struct cmp_erasure_listed listed = {0};

    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        listed.blocks++;
        listed.bytes += blocks->blocks[i].bytes;
        listed.profiles +=
            fg_blocks_sums_others(&blocks->blocks[i]) ? 0 : blocks->blocks[i].profiles;
    }
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_part *part = uncovered(l0, blocks, i, tenant);

        listed.segments += part != NULL;
        listed.profiles += part != NULL ? part->profiles : 0;
    }
    return listed;
}

enum fg_code cmp_erasure_make_drop(const struct fg_l0 *l0, const struct fg_blocks *blocks,
                                   struct fg_id id, struct fg_arena *arena,
                                   struct cmp_erasure_drop *ret_drop, struct fg_err *err)
{
    uint32_t tenant = fg_l0_tenant(l0, blocks->tenant), n_cover = 0, n_replace = 0;
    uint64_t *cover = fg_arena_new(arena, uint64_t, l0->n_segments);
    struct fg_id *replace = fg_arena_new(arena, struct fg_id, blocks->n_blocks);

    if (cover == NULL || replace == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u blocks and %u segments", blocks->n_blocks,
                       l0->n_segments);
    ret_drop->taken = (struct fg_blocks_taken){.tombstone = id};
    for (uint32_t i = 0; i < blocks->n_blocks && n_replace < FG_BLOCKS_FROM_MAX; i++)
        if (!fg_blocks_sums_others(&blocks->blocks[i])) { /* those leave with their sources */
            replace[n_replace++] = blocks->blocks[i].id;
            ret_drop->taken.profiles += blocks->blocks[i].profiles;
        }
    for (uint32_t i = 0; i < l0->n_segments && n_cover < FG_BLOCKS_FROM_MAX; i++) {
        const struct fg_l0_part *part = uncovered(l0, blocks, i, tenant);

        if (part == NULL)
            continue;
        cover[n_cover++] = l0->segments[i].generation;
        ret_drop->taken.profiles += part->profiles;
    }
    ret_drop->change = (struct fg_blocks_change){.cover = cover,
                                                 .n_cover = n_cover,
                                                 .replace = replace,
                                                 .n_replace = n_replace,
                                                 .taken = &ret_drop->taken,
                                                 .n_taken = 1};
    return FG_OK;
}

/* ---- the next step ---- */

static bool is_listed(const struct fg_l0 *l0, struct fg_slice tenant)
{
    uint32_t number = fg_l0_tenant(l0, tenant);

    for (uint32_t i = 0; i < l0->n_segments && number != FG_L0_NO_TENANT; i++)
        if (fg_l0_part(&l0->segments[i], number) != NULL)
            return true;
    return false;
}

/* Segments that have left the list do not say whose they were. So all that have left by the time at
 * which none of the tenant's was listed any more must be gone. */
static bool may_segments_be_there(const struct fg_l0 *l0, struct fg_slice tenant,
                                  struct cmp_erasure_memory *memory)
{
    if (fg_l0_tenant(l0, tenant) == FG_L0_NO_TENANT)
        return false; /* no segment ever had any of it */
    if (is_listed(l0, tenant)) {
        memory->unlisted = false;
        return true;
    }
    if (!memory->unlisted) {
        memory->unlisted = true;
        memory->unlisted_wall_ns = INT64_MIN;
        for (uint32_t i = 0; i < l0->n_gone; i++)
            memory->unlisted_wall_ns = FG_MAX(memory->unlisted_wall_ns, l0->gone[i].since_wall_ns);
    }
    for (uint32_t i = 0; i < l0->n_gone; i++)
        if (l0->gone[i].since_wall_ns <= memory->unlisted_wall_ns)
            return true;
    return false;
}

enum cmp_erasure_step cmp_erasure_next(const struct fg_l0 *l0, const struct fg_blocks *blocks,
                                       struct fg_id id, bool ended,
                                       struct cmp_erasure_memory *memory)
{
    struct cmp_erasure_listed listed = cmp_erasure_listed(l0, blocks);
    bool swept = memory->swept;

    memory->swept = false; /* until the last steps are reached again */
    if (!ended && fg_blocks_tombstone(blocks, id) == NULL)
        return ERASURE_BURY;
    if (listed.blocks + listed.segments > 0)
        return ERASURE_DROP;
    if (ended)
        return ERASURE_NOTHING;
    if (blocks->n_tombstones > 0)
        return ERASURE_ASK;
    if (blocks->n_gone > 0 || may_segments_be_there(l0, blocks->tenant, memory))
        return ERASURE_WAIT;
    if (!fg_blocks_is_clear(blocks, id))
        return ERASURE_CLEAR;
    if (memory->shared != NULL)
        return ERASURE_SETTLE;
    memory->swept = swept;
    return swept ? ERASURE_END : ERASURE_SWEEP;
}

/* ---- segments that others share and no manifest lists ---- */

enum cmp_erasure_settling cmp_erasure_settle(struct cmp_erasure_shared *shared,
                                             const struct fg_l0 *l0,
                                             const struct cmp_ingesters *ingesters,
                                             int64_t old_after_ns, int64_t wall_ns)
{
    int64_t newest_wall_ns = INT64_MIN;
    uint32_t n = 0;

    for (uint32_t i = 0; i < shared->n; i++) {
        const struct cmp_gc_unlisted *segment = &shared->segments[i];

        if (fg_l0_knows(l0, &segment->id) || cmp_gc_is_garbage(l0, &segment->id))
            continue;
        newest_wall_ns = FG_MAX(newest_wall_ns, segment->modified_wall_ns);
        shared->segments[n++] = *segment;
    }
    shared->n = n;
    if (n == 0)
        return SETTLING_SWEEP;
    /* Also if it was asked before, in a manifest that was lost since. */
    if (l0->asked < shared->awaits)
        return SETTLING_ASK;
    return cmp_completion_is_clean(ingesters, l0, shared->awaits) &&
                   wall_ns >= fg_time_add(newest_wall_ns, old_after_ns)
               ? SETTLING_DELETE
               : SETTLING_WAIT;
}
