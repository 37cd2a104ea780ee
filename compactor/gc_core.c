#include "compactor/gc_core.h"

#include "common/base/time.h"

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "too many objects at once");
}

/* True if it has been so for that long. Clocks of machines differ: a time in the future is not old.
 */
static bool is_older(int64_t since_wall_ns, int64_t than_ns, int64_t wall_ns)
{
    return wall_ns >= fg_time_add(since_wall_ns, than_ns);
}

enum fg_code cmp_gc_uncovered(const struct fg_l0 *l0, const struct fg_blocks *blocks,
                              struct fg_arena *arena, uint64_t **ret_generations,
                              uint32_t *ret_count, struct fg_err *err)
{
    uint32_t tenant = fg_l0_tenant(l0, blocks->tenant), n = 0;
    uint64_t *generations = fg_arena_new(arena, uint64_t, l0->n_segments);

    if (generations == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < l0->n_segments && tenant != FG_L0_NO_TENANT; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];

        if (fg_l0_part(segment, tenant) != NULL && !fg_blocks_covers(blocks, segment->generation))
            generations[n++] = segment->generation;
    }
    *ret_generations = generations;
    *ret_count = n;
    return FG_OK;
}

/* A segment has data of several tenants. It may leave the list only when each of them has it in
 * blocks: a tenant that has not would lose it from answers. */
static bool is_covered(const struct fg_l0_segment *segment, const struct fg_blocks *const *blocks)
{
    for (uint32_t i = 0; i < segment->n_parts; i++) {
        const struct fg_blocks *tenant = blocks[segment->parts[i].tenant];

        if (tenant == NULL || !fg_blocks_covers(tenant, segment->generation))
            return false;
    }
    return true;
}

enum fg_code cmp_gc_retirable(const struct cmp_gc_config *config, const struct fg_l0 *l0,
                              const struct fg_blocks *const *blocks, int64_t wall_ns,
                              struct fg_arena *arena, uint64_t **ret_generations,
                              uint32_t *ret_count, struct fg_err *err)
{
    uint64_t *generations = fg_arena_new(arena, uint64_t, l0->n_segments);
    uint32_t n = 0;

    if (generations == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];

        if (is_older(segment->entered_wall_ns, config->retire_after_ns, wall_ns) &&
            is_covered(segment, blocks))
            generations[n++] = segment->generation;
    }
    *ret_generations = generations;
    *ret_count = n;
    return FG_OK;
}

enum fg_code cmp_gc_deletable_blocks(const struct cmp_gc_config *config,
                                     const struct fg_blocks *blocks, int64_t wall_ns,
                                     struct fg_arena *arena, struct fg_id **ret_ids,
                                     uint32_t *ret_count, struct fg_err *err)
{
    struct fg_id *ids = fg_arena_new(arena, struct fg_id, blocks->n_gone);
    uint32_t n = 0;

    if (ids == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < blocks->n_gone; i++)
        if (is_older(blocks->gone[i].since_wall_ns, config->grace_ns, wall_ns))
            ids[n++] = blocks->gone[i].id;
    *ret_ids = ids;
    *ret_count = n;
    return FG_OK;
}

enum fg_code cmp_gc_deletable_segments(const struct cmp_gc_config *config, const struct fg_l0 *l0,
                                       int64_t wall_ns, struct fg_arena *arena,
                                       struct fg_segment_id **ret_ids, uint32_t *ret_count,
                                       struct fg_err *err)
{
    struct fg_segment_id *ids = fg_arena_new(arena, struct fg_segment_id, l0->n_gone);
    uint32_t n = 0;

    if (ids == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < l0->n_gone; i++)
        if (is_older(l0->gone[i].since_wall_ns, config->grace_ns, wall_ns))
            ids[n++] = l0->gone[i].id;
    *ret_ids = ids;
    *ret_count = n;
    return FG_OK;
}

/* True if the manifest knows the cut, or a later one of the same store. */
static bool has_heard(const struct fg_l0 *l0, const struct fg_segment_id *segment)
{
    /* Cuts of a store are numbered in their order, and a store commits them in that order. */
    const struct fg_l0_writer *writer = fg_l0_writer(l0, segment->writer);

    return writer != NULL && segment->cut <= writer->cut;
}

bool cmp_gc_is_garbage(const struct fg_l0 *l0, const struct fg_segment_id *segment)
{
    return !fg_l0_knows(l0, segment) && has_heard(l0, segment);
}

bool cmp_gc_is_unlisted(const struct cmp_gc_config *config, const struct fg_name *name,
                        int64_t modified_wall_ns, int64_t wall_ns, const struct fg_l0 *l0)
{
    return name->kind == FG_NAME_IS_SEGMENT &&
           is_older(modified_wall_ns, config->orphan_after_ns, wall_ns) &&
           !fg_l0_knows(l0, &name->segment) && !has_heard(l0, &name->segment);
}

bool cmp_gc_is_orphan(const struct cmp_gc_config *config, const struct fg_name *name,
                      int64_t modified_wall_ns, int64_t wall_ns, const struct fg_l0 *l0,
                      const struct fg_blocks *blocks)
{
    if (!is_older(modified_wall_ns, config->orphan_after_ns, wall_ns))
        return false;
    switch (name->kind) {
    case FG_NAME_IS_SEGMENT:
        /* A cut that is not known may be that of an ingester which uploads now, or of a manifest
         * that was lost. */
        return cmp_gc_is_garbage(l0, &name->segment);
    case FG_NAME_IS_BLOCK:
        return !fg_blocks_knows(blocks, name->block);
    /* Manifests, the ring and the list of compactors are never orphans: they are what others are
     * measured by. */
    case FG_NAME_IS_L0:
    case FG_NAME_IS_RING:
    case FG_NAME_IS_COMPACTORS:
    case FG_NAME_IS_BLOCKS:
        break;
    }
    return false;
}
