/*
 * What is to be done with manifests and objects: pure functions of manifests that were read. Doing
 * it is an edit (edit.h) and deletions in the bucket.
 */
#ifndef FG_COMPACTOR_GC_CORE_H
#define FG_COMPACTOR_GC_CORE_H

#include "common/cluster/manifest/blocks.h"

struct cmp_gc_config {
    int64_t retire_after_ns; /* segments stay that long, so that who follows misses none: 5 min */
    int64_t grace_ns;        /* replaced objects stay that long for readers: 1 h */
    int64_t orphan_after_ns; /* what no manifest lists; longer than any upload waits: 1 day */
};

/*
 * Generations of live segments that the tenant does not cover yet, ascending: what the next blocks
 * are made of. Array in the arena; FG_E_LIMIT.
 */
enum fg_code cmp_gc_uncovered(const struct fg_l0 *l0, const struct fg_blocks *blocks,
                              struct fg_arena *arena, uint64_t **ret_generations,
                              uint32_t *ret_count, struct fg_err *err) fg_must_check;

/*
 * Generations of live segments that all of their tenants cover and that are old enough. blocks[i]:
 * manifest of the L0 manifest's tenant i; NULL: not read, so nothing of it counts as covered.
 */
enum fg_code cmp_gc_retirable(const struct cmp_gc_config *config, const struct fg_l0 *l0,
                              const struct fg_blocks *const *blocks, int64_t wall_ns,
                              struct fg_arena *arena, uint64_t **ret_generations,
                              uint32_t *ret_count, struct fg_err *err) fg_must_check;

/* Replaced and retired objects whose grace period is over. */
enum fg_code cmp_gc_deletable_blocks(const struct cmp_gc_config *config,
                                     const struct fg_blocks *blocks, int64_t wall_ns,
                                     struct fg_arena *arena, struct fg_id **ret_ids,
                                     uint32_t *ret_count, struct fg_err *err) fg_must_check;
enum fg_code cmp_gc_deletable_segments(const struct cmp_gc_config *config, const struct fg_l0 *l0,
                                       int64_t wall_ns, struct fg_arena *arena,
                                       struct fg_segment_id **ret_ids, uint32_t *ret_count,
                                       struct fg_err *err) fg_must_check;

/*
 * May an object that was listed be deleted because no manifest knows it? The manifests were read
 * after the listing; blocks: of the tenant in the name, NULL for segments. modified: by the clock
 * of the bucket. What is not a name of ours is left alone, and so is a segment of a cut that the L0
 * manifest has not heard of: it was never committed, or the manifest is from a backup, and then the
 * segment is all there is of its profiles (cmp_gc_is_unheard()).
 */
bool cmp_gc_is_orphan(const struct cmp_gc_config *config, const struct fg_name *name,
                      int64_t modified_wall_ns, int64_t wall_ns, const struct fg_l0 *l0,
                      const struct fg_blocks *blocks);

bool cmp_gc_is_unheard(const struct cmp_gc_config *config, const struct fg_name *name,
                       int64_t modified_wall_ns, int64_t wall_ns, const struct fg_l0 *l0);

#endif
