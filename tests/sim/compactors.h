/*
 * One life of a compactor, and what it does to a tenant; for compactors.c and deletions.c.
 */
#ifndef FG_TESTS_SIM_COMPACTORS_H
#define FG_TESTS_SIM_COMPACTORS_H

#include "compactor/edit_core.h"
#include "compactor/gc_core.h"
#include "tests/sim/world.h"

/* What it read last, and what it makes. */
struct compactor {
    struct world *world;
    struct owner owner;
    struct fg_arena *arena;
    struct fg_manifests *manifests; /* of its own: nothing is cached between lives */
};

struct compactor compactor_begin(struct world *world);
void compactor_end(struct compactor *compactor);

/* Manifests as they are now. */
enum io fresh(struct compactor *compactor, struct fg_snapshot *snapshot);

/* Carries a change to its end. tenant: whose manifest; any for L0. */
enum cmp_edit_state carry(struct compactor *compactor, uint32_t tenant,
                          const struct cmp_edit_task *task);

enum io read_block(struct compactor *compactor, uint32_t tenant, struct fg_id id,
                   struct items *out);

/* Segments become a block, some of them or all. */
void cover(struct compactor *compactor, uint32_t tenant, bool all);

/* These blocks become one, without what is deleted. */
void rewrite(struct compactor *compactor, uint32_t tenant, const struct fg_blocks *blocks,
             const struct fg_id *ids, uint32_t n);

/* ---- deletions.c ---- */

struct taken {
    struct fg_blocks_taken counts[DELETIONS_MAX];
    uint32_t n;
};

/* Items that a tombstone names go, and are counted. taken: zeroed, or NULL. */
void leave_out(const struct fg_blocks *blocks, struct items *items, struct taken *taken);

/* What can be done for them now. */
void end_deletions(struct compactor *compactor, uint32_t tenant);
void end_all_deletions(struct compactor *compactor, uint32_t tenant);

#endif
