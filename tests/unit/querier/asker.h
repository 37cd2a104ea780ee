/* Provides a querier on a small world and random queries for it: each must have the answer of the
 * model. A wrong answer fails the test, unless a function returns a code. One thread queries at a
 * time; copies of an asker may query concurrently while nothing changes in their world. */
#ifndef FG_TESTS_UNIT_QUERIER_ASKER_H
#define FG_TESTS_UNIT_QUERIER_ASKER_H

#include "common/storage/cache/cache.h"
#include "querier/blocks/blocks.h"
#include "querier/collect.h"
#include "querier/flamegraph.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/unit/querier/world.h"

struct asker {
    struct world world;
    struct fg_bucket_faulty *faulty; /* NULL: the world's own bucket */
    struct fg_disk_cache *disk;      /* NULL: none */
    struct fg_registry *registry;
    struct fg_clock_manual clock;
    struct fg_work *work; /* up to three threads that help the querying thread */
    struct querier *querier;
    uint64_t random;  /* of queries */
    bool partial;     /* queries accept incomplete answers */
    bool keeps_all;   /* otherwise tenants have a random retention */
    unsigned inexact; /* number of flame graphs with an error bound */
    uint64_t rollups; /* number of rollups that flame graphs used */
};

/* The caller has set disk, random and keeps_all. faults NULL: the bucket has none. */
void asker_init(struct asker *asker, uint64_t seed, uint64_t cache_max_bytes,
                const struct fg_bucket_faults *faults);
void asker_done(struct asker *asker);

/* Replaces the worker threads. A query leaves nothing behind, so this is possible between two
 * queries. */
void asker_help_with(struct asker *asker, unsigned threads);

struct qry_blocks *asker_blocks(const struct asker *asker);
struct fg_cache_stats asker_cache(const struct asker *asker);
void asker_must(enum fg_code code, const struct fg_err *err);

/* --- what happens --- */

enum {
    ASKER_PUSH,
    ASKER_COMMIT,
    ASKER_COMPACT,
    ASKER_JOIN,
    ASKER_RETIRE,
    ASKER_SWEEP,
    ASKER_FORGET,
    ASKER_DELETE,
    ASKER_UNDELETE,
    ASKER_HAPPENINGS, /* number of kinds */
    ASKER_HAPPENINGS_WITHOUT_DELETIONS = ASKER_DELETE,
};

void asker_happen(struct asker *asker, uint64_t what);

/* happenings: number of kinds that may happen, from the first on. */
void asker_happen_any(struct asker *asker, uint64_t happenings);

/* --- queries --- */

enum { ASKER_ARENA_BYTES = 256 * 1024 * 1024 }; /* of a query */

/* Bit i of tenants: tenant i of the world. The query has no deadline, and its client never
 * disconnects. */
struct qry_query *asker_begin(struct asker *asker, uint32_t tenants);
void asker_end(struct qry_query *query);

/* Returns the code of a query; FG_E_UNAVAILABLE if its answer says that it is incomplete. */
enum fg_code asker_whole(const struct qry_query *query, enum fg_code code, struct fg_err *err);

/* Queries the stacks of the first type, of all tenants and times. */
enum fg_code asker_ask_all(struct asker *asker, bool names_only, struct fg_err *err);

enum { ASKER_TYPES = 5 };

/* The world has profiles of all types but the last. */
extern const char *const asker_types[ASKER_TYPES];

/* A random query. */
struct ask {
    struct qry_selection selection;
    struct world_query asked;
    struct qry_query *query;
    struct fg_deletions deletions[WORLD_TENANTS]; /* those of the world, and retention */
};

uint64_t asker_draw(struct asker *asker, uint64_t below);
void asker_draw_stacks(struct asker *asker, struct qry_stack_filter *stacks,
                       struct fg_arena *arena);
void ask_begin(struct asker *asker, struct ask *ask);
void ask_for_all_time(struct ask *ask);
void ask_end(struct ask *ask);

/* --- one query of each kind: FG_OK and as the model says, or the error --- */

enum fg_code asker_check_tree(struct asker *asker, struct fg_err *err);
enum fg_code asker_check_flamegraph(struct asker *asker, struct fg_err *err);
enum fg_code asker_check_diff(struct asker *asker, struct fg_err *err);
enum fg_code asker_check_rows(struct asker *asker, struct fg_err *err);
enum fg_code asker_check_labels(struct asker *asker, struct fg_err *err);

/* Runs a query of any kind. fresh: the snapshot is current, so its places are the current ones. */
enum fg_code asker_check_any(struct asker *asker, bool fresh, struct fg_err *err);

/* Returns every stack with a value, in order, in the arena. */
char *asker_tree_text(const struct fg_tree *tree, struct fg_arena *arena);

#endif
