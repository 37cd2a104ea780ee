/*
 * A little world for tests of the whole compactor, against a bucket in memory: segments arrive, the
 * clock moves, rounds run, and at each moment the manifests lead to each profile exactly once. The
 * world has a second list of the profiles, in the slow and obvious form of tests/lib/made.h.
 *
 * Nothing here returns an error: what goes wrong fails the test.
 */
#ifndef FG_TESTS_UNIT_COMPACTOR_WORLD_H
#define FG_TESTS_UNIT_COMPACTOR_WORLD_H

#include "compactor/compaction.h"
#include "compactor/edit.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/made.h"
#include "tests/lib/tenants.h"

enum { WORLD_PROFILES_MAX = 4000 };

/* In 2100: the bucket in memory goes by the clock on the wall, so all it has is old by ours. */
#define WORLD_NOW (INT64_C(47500) * PLAN_DAY_NS)

/* Passes on so many requests, and then refuses everything: as if killed there. */
struct world_mortal {
    struct fg_bucket bucket;
    struct fg_bucket *inner;
    uint64_t left, seen;
    uint64_t tidied; /* how often it was asked to */
};

struct world {
    struct fg_bucket *memory; /* the compactor sees it through faulty, and that through mortal */
    struct fg_bucket_faulty *faulty;
    struct world_mortal mortal;
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct cmp_settings settings;
    struct cmp_config config;
    struct cmp_compaction *compaction;
    char scratch[64];
    struct made_profile profiles[WORLD_PROFILES_MAX]; /* that must be there */
    size_t n_profiles;
    uint64_t seed, cuts, drawn;
    uint64_t n_nodes_parts;      /* parts with rollups only that were looked at */
    struct fg_usage usage;       /* that manifests say, of profiles that were looked at last */
    struct fg_usage alone_usage; /* as n_alone */
    uint64_t n_alone;            /* profiles that are left only in rollups, as often as looked at */
};

void world_open(struct world *world, uint64_t seed); /* at WORLD_NOW, with a compactor */
void world_close(struct world *world);
/* From now on blocks are encrypted with these keys; NULL: they are not. */
void world_encrypt(struct world *world, const struct fg_keys *keys);
void world_restart(struct world *world); /* the compactor, by what settings and config say now */
void world_pass_time(struct world *world, int64_t by_ns);
void world_must(enum fg_code code, const struct fg_err *err);

/* --- the bucket, past all faults --- */

void world_put(struct world *world, const char *name, struct fg_slice content);
void world_get(struct world *world, const char *name, struct fg_buf *out); /* out is made here */
struct cmp_env world_env(struct world *world); /* the manifests, for manifests.h */

/* --- what arrives --- */

/* A segment of these many profiles, of the last `span` before `until`. */
void world_arrive(struct world *world, size_t n, int64_t until_ns, int64_t span_ns);

/* The same in two steps: one more profile, and the last n of them as a segment. */
void world_draw_at(struct world *world, int64_t time_ns);
void world_arrive_last(struct world *world, size_t n);

/* The ingester says that it has nothing left of what it held when it was asked. Returns by how
 * many. */
uint64_t world_be_clean(struct world *world);

/* --- rounds --- */

void world_turn(struct world *world);      /* a round, and a look at all there is */
void world_try_round(struct world *world); /* which may fail: the bucket may */
void world_let_end(struct world *world);   /* deletions that are ready, with their ingester */

/* --- deletions --- */

/* Asks for one, of the first tenant's. */
void world_bury(struct world *world, const char *selector, int64_t start_ns, int64_t end_ns);

/* From now on only these must be there. */
void world_keep(struct world *world, bool (*stays)(const struct made_profile *profile));
bool world_not_of_shop_that_hour(const struct made_profile *profile); /* before WORLD_NOW */

struct world_deletions {
    uint32_t pending, ended;
    uint64_t profiles; /* of all of them */
};
struct world_deletions world_count_deletions(struct world *world);

/* --- what is there (world_look.c) --- */

/* Asserts that each expected profile is there exactly once, no others, and rollups that sum them
 * up. */
void world_check(struct world *world);
/* What its profiles cost: what manifests have to say in all. */
struct fg_usage world_usage(const struct world *world);

struct world_shape {
    uint32_t segments, hours, days, gone;
    uint32_t nodes; /* objects with rollups only */
    size_t objects; /* below segments/ and tenants/ */
};
struct world_shape world_shape_of(struct world *world);

void world_expect_status(struct world *world, const char *has);

/* `flamegrid bucket verify` computes every rollup again, and says this. */
void world_verify(struct world *world, const char *says);

#endif
