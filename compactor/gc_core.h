/*
 * Garbage collection: the core. Decides which segments may leave the L0 manifest and which objects
 * may be deleted, from manifests that were read. gc.h carries it out.
 *
 * Thread: any; pure functions.
 */
#ifndef FG_COMPACTOR_GC_CORE_H
#define FG_COMPACTOR_GC_CORE_H

#include "common/cluster/manifest/blocks.h"

struct cmp_gc_config {
    int64_t retire_after_ns; /* segments stay listed so long, so that ingesters that follow the
                                manifest miss none: 5 min */
    int64_t grace_ns;        /* replaced objects stay so long for queries that read them: 1 h */
    int64_t orphan_after_ns; /* age of unlisted objects; longer than any upload waits: 1 day */
};

/* A segment that no manifest lists. */
struct cmp_gc_unlisted {
    struct fg_segment_id id;
    int64_t modified_wall_ns; /* by the clock of the bucket */
};

/* Lists the generations of live segments that the tenant's blocks do not cover yet, ascending, in
 * the arena. FG_E_LIMIT: it is full. */
enum fg_code cmp_gc_uncovered(const struct fg_l0 *l0, const struct fg_blocks *blocks,
                              struct fg_arena *arena, uint64_t **ret_generations,
                              uint32_t *ret_count, struct fg_err *err) fg_must_check;

/*
 * Lists the generations of live segments that may leave the L0 manifest: all their tenants cover
 * them, and they are old enough. blocks[i]: the manifest of the L0 manifest's tenant i; NULL: it
 * was not read, so nothing of it counts as covered. FG_E_LIMIT: the arena is full.
 */
enum fg_code cmp_gc_retirable(const struct cmp_gc_config *config, const struct fg_l0 *l0,
                              const struct fg_blocks *const *blocks, int64_t wall_ns,
                              struct fg_arena *arena, uint64_t **ret_generations,
                              uint32_t *ret_count, struct fg_err *err) fg_must_check;

/* List replaced blocks, and retired segments, whose grace period is over. FG_E_LIMIT: the arena is
 * full. */
enum fg_code cmp_gc_deletable_blocks(const struct cmp_gc_config *config,
                                     const struct fg_blocks *blocks, int64_t wall_ns,
                                     struct fg_arena *arena, struct fg_id **ret_ids,
                                     uint32_t *ret_count, struct fg_err *err) fg_must_check;
enum fg_code cmp_gc_deletable_segments(const struct cmp_gc_config *config, const struct fg_l0 *l0,
                                       int64_t wall_ns, struct fg_arena *arena,
                                       struct fg_segment_id **ret_ids, uint32_t *ret_count,
                                       struct fg_err *err) fg_must_check;

/* Returns true if no manifest lists the segment and no commit can any more, since its cut was
 * decided: it entered and was deleted, or it lost its swap. The manifest was read after the segment
 * was listed. */
bool cmp_gc_is_garbage(const struct fg_l0 *l0, const struct fg_segment_id *segment);

/*
 * Returns true if a listed object may be deleted because no manifest lists it. The manifests were
 * read after the listing. blocks: the manifest of the tenant in the name, NULL for segments.
 * modified: by the clock of the bucket. False for names that are not of flamegrid, and for segments
 * of cuts that the L0 manifest does not know (cmp_gc_is_unlisted()).
 */
bool cmp_gc_is_orphan(const struct cmp_gc_config *config, const struct fg_name *name,
                      int64_t modified_wall_ns, int64_t wall_ns, const struct fg_l0 *l0,
                      const struct fg_blocks *blocks);

/* Returns true if an old segment is of a cut that the L0 manifest has never had. Either it was
 * never committed, or the manifest is from a backup and the segment is the only copy of its
 * profiles; so it is kept and counted. */
bool cmp_gc_is_unlisted(const struct cmp_gc_config *config, const struct fg_name *name,
                        int64_t modified_wall_ns, int64_t wall_ns, const struct fg_l0 *l0);

#endif
