/*
 * A querier on a little world, and queries for it that are drawn at random: each has to have the
 * answer that the world's model gives.
 *
 * What is wrong fails the test, unless a function returns a code. One thread asks at a time, but
 * copies of an asker may ask beside each other while nothing happens in their world.
 */
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
    struct fg_work *work; /* none to three who help the thread that asks */
    struct querier *querier;
    uint64_t random;  /* of queries */
    bool partial;     /* queries take what there is */
    bool keeps_all;   /* else tenants have retention, as drawn */
    unsigned inexact; /* flame graphs with a bound */
    uint64_t rollups; /* that flame graphs were made from */
};

/* disk, random and keeps_all are as the caller has set them. faults NULL: the bucket has none. */
void asker_init(struct asker *asker, uint64_t seed, uint64_t cache_max_bytes,
                const struct fg_bucket_faults *faults);
void asker_done(struct asker *asker);

/* Nothing of a query is left when it has ended, so workers may be exchanged between two. */
void asker_help_with(struct asker *asker, unsigned threads);

struct qry_blocks *asker_blocks(const struct asker *asker);
struct fg_cache_stats asker_cache(const struct asker *asker);
void asker_must(enum fg_code code, const struct fg_err *err);

/* How many seeds a test tries: as the environment's FG_TEST_SEEDS says, or otherwise these many. */
uint64_t asker_seeds(uint64_t otherwise);

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
    ASKER_HAPPENINGS, /* so many */
    ASKER_HAPPENINGS_WITHOUT_DELETIONS = ASKER_DELETE,
};

void asker_happen(struct asker *asker, uint64_t what);

/* happenings: those that may be, from the first on. */
void asker_happen_any(struct asker *asker, uint64_t happenings);

/* --- queries --- */

enum { ASKER_ARENA_BYTES = 256 * 1024 * 1024 }; /* of a query */

/* Bit i of tenants: the world's i-th. It has no deadline, and whoever asks stays. */
struct qry_query *asker_begin(struct asker *asker, uint32_t tenants);
void asker_end(struct qry_query *query);

/* The code of a query; FG_E_UNAVAILABLE where its answer says that it is not complete. */
enum fg_code asker_whole(const struct qry_query *query, enum fg_code code, struct fg_err *err);

/* The stacks of the first type, of all tenants and times. */
enum fg_code asker_ask_all(struct asker *asker, bool names_only, struct fg_err *err);

enum { ASKER_TYPES = 5 };

/* The world has profiles of all but the last. */
extern const char *const asker_types[ASKER_TYPES];

/* What a query asks, drawn at random. */
struct ask {
    struct qry_selection selection;
    struct world_query asked;
    struct qry_query *query;
    struct fg_deletions deletions[WORLD_TENANTS]; /* the world's, and retention */
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

/* One of these or of the other kinds. fresh: the snapshot is of now, so that places are what they
 * are now. */
enum fg_code asker_check_any(struct asker *asker, bool fresh, struct fg_err *err);

/* Every stack with a value, in order. In the arena. */
char *asker_tree_text(const struct fg_tree *tree, struct fg_arena *arena);

#endif
