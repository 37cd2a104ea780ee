/*
 * The ring with everyone who uses it, in one thread and in virtual time: the changes, bytes, seats
 * and read sets of production, and around them an object with swaps, ingesters that hold numbers,
 * writers, readers and an operator, with an adversary: requests and answers get lost, puts arrive
 * late, ingesters die, come back, come back with an empty disk, leave, and are given up, and the
 * tenants' shard factors are others for each writer.
 *
 * Everything follows from the seed. In each step one of all that could go on does.
 *
 * The adversary destroys no second store while a revision is there of which somebody has lost what
 * it held: two copies of three do not survive two losses.
 */
#ifndef FG_TESTS_SIM_RING_WORLD_H
#define FG_TESTS_SIM_RING_WORLD_H

#include "common/cluster/ring/member_core.h"
#include "common/cluster/ring/reads_core.h"
#include "common/cluster/ring/widen_core.h"

enum { PROFILES = 160, NODES = 8, WRITES = 6, READS = 4, WRITERS = 3, LATE = 4 };
/* A tenant with one service for each shard when all are narrow; at the widest shard factor all are
 * in all. */
enum { SHARD_FACTOR_MAX = 2, SHARDS = 1 << SHARD_FACTOR_MAX };

/* clang-format off */
#define RING_RULES(X)                                                                              \
    /* readers hear as many owners as share one with every quorum of writers */                    \
    X(QUORUM_READ,       "quorum-read")                                                            \
    /* of every revision that has not drained */                                                   \
    X(RING_HISTORY,      "ring-history")                                                           \
    /* an ingester refuses writes under a revision older than the one it knows */                  \
    X(STALE_RING_REJECT, "stale-ring-reject")                                                      \
    /* a reader's ring was read after its question came */                                         \
    X(FRESH_RING,        "fresh-ring")                                                             \
    /* who has lost what it held is no answer, though it answers */                                \
    X(LOST_IS_NO_ANSWER, "lost-is-no-answer")                                                      \
    /* an answer counts only if it comes from the store that the reader's ring names */            \
    X(SAME_STORE,        "same-store")                                                             \
    /* "drained" is said when all is committed */                                                  \
    X(COMMIT_FIRST,      "commit-first")                                                           \
    /* no profile is taken before the ring was read */                                             \
    X(READ_FIRST,        "read-first")                                                             \
    /* a writer's shard factor is in the ring before it is used */                                       \
    X(SPREAD_BEFORE_USE, "spread-before-use")
/* clang-format on */

enum ring_rule {
#define X(name, text) RULE_##name,
    RING_RULES(X)
#undef X
        RULES_COUNT
};

/* An ingester; its disk is what lies above the line. */
struct node {
    bool born, gone; /* gone: never again */
    char name[16], zone[8], address[32];
    uint64_t store;
    uint64_t held[PROFILES]; /* the revision it came under; 0: not held */
    /* ---- */
    bool up;
    struct fg_ring_member_core member;
    struct fg_ring_view *view; /* NULL: the ring was not read yet */
    int64_t wake_mono_ns;
    bool reads;                /* a request is under way */
    struct fg_ring_view *onto; /* a swap is: onto this one */
    struct fg_buf swap;
    uint64_t drain; /* the head is asked to commit */
};

/* Who sends: a distributor. */
struct writer {
    struct fg_ring_view *view; /* its copy; NULL: not read yet */
    unsigned limits[SHARDS];   /* the tenants' shard factors, as they are known here */
    struct fg_ring_widen widen;
    int64_t wake_mono_ns;
    bool reads;                /* a request is under way */
    struct fg_ring_view *onto; /* a swap is: onto this one */
    struct fg_buf swap;
};

/* A profile on its way to its owners. */
struct write {
    bool busy;
    uint32_t profile;
    struct fg_ring_view *view;
    unsigned next, oks;
};

struct read {
    bool busy, snapped;
    struct fg_ring_view *view, *told; /* told: as the rules that are on show it */
    uint16_t first, last;             /* shards */
    bool must[PROFILES], found[PROFILES];
    struct fg_ring_reads set;
    uint32_t waiting[FG_RING_MEMBERS_MAX], n_waiting;
};

/* A put that was thought lost. */
struct late {
    struct fg_buf bytes;
    uint64_t onto;
};

struct world {
    unsigned rules;
    bool quiet; /* no faults and no changes any more */
    uint64_t random;
    int64_t mono_ns;

    struct fg_ring_view *ring; /* the object; its etag is `etag` in decimal */
    uint64_t etag;
    struct late late[LATE];

    struct node nodes[NODES];
    uint64_t stores, names;
    const struct node *destroyed; /* its loss is not in the ring yet */
    const struct node *forgetting;

    struct writer writers[WRITERS];
    uint32_t n_profiles;
    uint16_t shards[PROFILES]; /* where they were sent */
    bool acked[PROFILES], committed[PROFILES];
    struct write writes[WRITES];
    struct read reads[READS];

    char fault[200]; /* what was seen that must not be; "" */
    uint32_t n_acked, n_refused, n_reads, n_hopeless, n_crashes, n_wiped, n_forgotten, n_left,
        n_wide;
};

/* Runs for so many steps, then until all is quiet. Destroy with world_destroy(). */
struct world *world_run(uint64_t seed, unsigned rules, uint32_t steps);
void world_destroy(struct world *world);

/* ---- between the files ---- */

uint64_t world_draw(struct world *world);
bool world_chance(struct world *world, unsigned permille);
static inline bool world_keeps(const struct world *world, enum ring_rule rule)
{
    return (world->rules >> rule & 1) != 0;
}
void world_fault(struct world *world, const char *what, uint32_t profile);
static inline uint32_t world_tenant(uint32_t profile)
{
    return profile % SHARDS;
}
struct fg_slice world_tenant_name(uint32_t tenant);
/* The first of those that its service is in. */
uint16_t world_shard(uint32_t tenant, unsigned shard_factor);
struct node *world_node(struct world *world, struct fg_slice name); /* NULL: there is none */

/* The object; false: lost, or done and the answer lost. */
bool bucket_swap(struct world *world, const struct fg_ring_view *onto, struct fg_slice bytes);
void bucket_turn(struct world *world); /* what is late arrives */

/* One thing that goes on with a node. */
void node_start(struct world *world, struct node *node);
void node_crash(struct node *node);
void node_turn(struct world *world, struct node *node);
void node_see(struct world *world, struct node *node); /* the ring as it is */
bool node_takes(struct world *world, struct node *node, uint32_t profile, uint64_t revision);

/* Writers: their copies of the ring, and what they send by them. */
void writer_init(struct world *world, struct writer *writer);
void writer_done(struct writer *writer);
void writer_turn(struct world *world, struct writer *writer);
/* The shard factor it uses now. */
unsigned writer_shard_factor(struct world *world, struct writer *writer, uint32_t tenant);
/* Its copy as the ring is now. */
void writer_see(struct world *world, struct writer *writer);

/* Writes, readers, the operator. */
void write_turn(struct world *world, struct write *write);
void read_turn(struct world *world, struct read *read);
void read_end(struct read *read);
void operator_turn(struct world *world);

#endif
