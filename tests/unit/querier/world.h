/* Provides a small world for tests of the querier: profiles in heads, segments and blocks, which
 * move from one to the next as in a cluster, and a simple model that answers queries from the list
 * of all profiles. The heads are a peer that answers like an ingester, from the same model. */
#ifndef FG_TESTS_UNIT_QUERIER_WORLD_H
#define FG_TESTS_UNIT_QUERIER_WORLD_H

#include "common/net/rpc/rpc.h"
#include "common/storage/bucket/bucket.h"
#include "common/storage/rollup/writer.h"
#include "querier/merge.h"
#include "querier/selection.h"

enum { WORLD_TYPES_MAX = 4, WORLD_LINKS_MAX = 2, WORLD_TENANTS = 3 };

struct world_link {
    uint64_t span_id;
    uint8_t trace_id[FG_ID_BYTES];
};

struct world_sample {
    uint32_t stack; /* 0: the empty stack, else 1 + a node of the tree */
    uint64_t values[WORLD_TYPES_MAX];
    struct world_link links[WORLD_LINKS_MAX];
    uint32_t n_links;
};

struct world_series {
    uint32_t service; /* number */
    uint32_t schema;
    struct fg_labels labels;
    struct fg_labels by_type[WORLD_TYPES_MAX];
};

enum { WORLD_NO_BLOCK = UINT32_MAX };

struct world_profile {
    uint32_t tenant, series;
    struct fg_id id;
    int64_t time_ns, duration_ns;
    struct world_sample *samples;
    uint32_t n_samples;
    uint64_t generation; /* of its commit; UINT64_MAX: not committed */
    uint32_t block;      /* or WORLD_NO_BLOCK */
    bool gone;           /* a compaction removed it */
};

struct world {
    struct fg_arena *arena;
    struct fg_bucket *bucket; /* in memory */
    uint64_t random;
    struct fg_tree tree; /* of all stacks */
    struct world_series *series;
    uint32_t n_series;
    struct world_profile *profiles;
    uint32_t n_profiles, cap_profiles;
    struct fg_slice tenants[WORLD_TENANTS];
    uint64_t generation; /* of the newest segment */
    uint64_t cuts;
    uint32_t n_blocks;
    struct fg_deletions deletions[WORLD_TENANTS]; /* pending ones */
    struct fg_id deletion_ids[WORLD_TENANTS][FG_DELETIONS_MAX];
    uint64_t deletions_ever;
    /* Of what rollups blocks may have they have so many; if any, some have nothing else. */
    unsigned rollups_permille, stripes_permille;
    int64_t start_ns, end_ns; /* times of profiles are in [start, end] */

    struct fg_peer peer;
    uint64_t forgotten;     /* the heads hold what was committed later or not at all */
    enum fg_code peer_code; /* other than FG_OK: it fails so */
    unsigned calls;
};

void world_init(struct world *world, uint64_t seed);
void world_done(struct world *world);
uint64_t world_random(struct world *world, uint64_t below);

/* --- what happens --- */

void world_push(struct world *world, uint32_t count);
void world_commit(struct world *world, unsigned permille); /* a share of what is not committed */
void world_compact(struct world *world, uint32_t tenant);  /* merges some segments into a block */
void world_join(struct world *world, uint32_t tenant);     /* merges its blocks into one */
void world_sum(struct world *world, uint32_t tenant); /* makes rollups of all its blocks, and before
                                                         that perhaps of some of them */
void world_retire(struct world *world);               /* removes segments that all tenants cover */
void world_sweep(struct world *world);                /* deletes objects that no manifest lists */
void world_forget(struct world *world);               /* from the heads */
void world_delete(struct world *world, uint32_t tenant);   /* deletes some series over some time */
void world_undelete(struct world *world, uint32_t tenant); /* removes completed deletions */

/* Puts profiles into all kinds of places. */
void world_settle(struct world *world);

/* The rollups of a part. single: those of single series, which only derived parts have; or NULL. */
struct world_rollup_writers {
    struct fg_rollup_writer *all, *single;
};

/* Makes the rollups of a part of these profiles, in order, for a part that is being written. The
 * caller destroys them after the part is complete. derived_from NULL: the profiles of the part
 * itself. */
struct world_rollup_writers world_rollups(struct world *world, struct world_profile **profiles,
                                          uint32_t n, struct fg_block_writer *block,
                                          const struct fg_id *derived_from, uint32_t n_derived_from,
                                          struct fg_arena *arena);

/* --- its objects --- */

struct world_objects {
    char *names[64];
    size_t n;
};

/* Adds the names below a prefix; the caller frees them. */
void world_objects_list(struct world *world, const char *prefix, struct world_objects *list);
void world_objects_free(struct world_objects *list);

void world_erase(struct world *world, const char *name);

/* --- the model --- */

/* A query over the profiles of some tenants. */
struct world_query {
    uint32_t tenants; /* bit i: tenant i */
    const struct fg_selector *selector;
    const char *type; /* NULL: any */
    int64_t start_ns, end_ns;
    uint64_t after; /* only profiles committed after this generation or not at all */
    const struct fg_deletions *deletions; /* [WORLD_TENANTS]; NULL: none */
    bool gone; /* for a head, which still has profiles that compactions removed */
};

bool world_deleted(const struct world *world, const struct world_profile *profile,
                   const struct fg_deletions *deletions);

void world_select(const struct world *world, const struct world_query *query,
                  const struct qry_stack_filter *stacks, bool names_only, struct fg_tree *into);
void world_points(const struct world *world, const struct world_query *query, int64_t step_ns,
                  const char *const *group_by, size_t n_group_by, struct fg_arena *arena,
                  struct qry_points_list *into);

/* Which profiles make a series listed. */
enum world_presence {
    WORLD_EXACTLY,  /* a profile in the range with a value of the type */
    WORLD_BY_PLACE, /* the profiles in one head, segment or block of one stripe: the range has a
                       moment that is not deleted between the first and the last of them */
    WORLD_ANYWHERE, /* like WORLD_BY_PLACE over all places together, with removed profiles */
};
void world_list(const struct world *world, const struct world_query *query,
                enum world_presence presence, const char *const *names, size_t n_names,
                struct fg_arena *arena, struct qry_label_sets *into);

/* A profile of one type, or one of its spans. */
struct world_row {
    const struct fg_labels *labels; /* with its type */
    int64_t time_ns, k;             /* k: of the grid */
    struct fg_id id;
    int64_t value;
    struct world_link link; /* of a span; else zero */
};

/* Lists the rows of a query, in no order; step_ns 0: without a grid. In the arena. */
size_t world_rows(const struct world *world, const struct world_query *query, bool spans,
                  int64_t step_ns, struct fg_arena *arena, struct world_row **ret_rows);

struct qry_tenant_stats world_stats(const struct world *world, const struct world_query *query);

/* The peer's ops. */
extern const struct fg_peer_ops world_peer_ops;

#endif
