/*
 * A small cluster in one thread and in virtual time: the real step cores, changes and codecs of
 * manifests, and around them a bucket, heads, pushes, reads and compactors made of arrays, with an
 * adversary. It checks the protocol of common/cluster/README.md on the code that runs in
 * production.
 *
 * Everything follows from the seed. A profile is its number; a segment or block is an array of
 * struct item. Code runs in fibers; whatever takes time sleeps, and what belongs to a head looks
 * afterwards whether the head still lives.
 */
#ifndef FG_TESTS_SIM_WORLD_H
#define FG_TESTS_SIM_WORLD_H

#include "common/base/time.h"
#include "common/cluster/manifest/snapshot_core.h"
#include "common/cluster/ring/member_core.h"
#include "common/cluster/ring/reads_core.h"
#include "compactor/erasure_core.h"
#include "ingester/query_shards.h"
#include "ingester/segments/segments_core.h"
#include "tests/lib/fiber.h"

enum { TENANTS = 2, SHARDS = 3, DISTRIBUTORS = 3, PROFILE_BYTES = 100, DELETIONS_MAX = 8 };

extern const struct fg_slice tenant_names[TENANTS];

struct item {
    struct ing_head_group_key group; /* tenant: number in tenant_names */
    uint32_t profile;
    int64_t time_ns;
};

struct items {
    struct item *items;
    uint32_t n, cap;
};
void items_add(struct items *items, struct item item);
void items_append(struct items *items, struct fg_slice bytes); /* as they are in an object */
static inline struct fg_slice items_bytes(const struct items *items)
{
    return fg_bytes(items->items, items->n * sizeof *items->items);
}
void items_done(struct items *items);
bool items_has(const struct items *items, const struct item *item);
static inline struct fg_id item_id(const struct item *item)
{
    return (struct fg_id){fg_mix64(item->profile + 1), fg_mix64(item->profile + 77)};
}

struct object {
    char *name;
    uint64_t hash; /* of the name */
    uint8_t *bytes;
    size_t len;
    char etag[24];
    int64_t modified_wall_ns;
};

/* What an agent sent. */
struct sent {
    struct item item;
    bool acked;
    unsigned pushes; /* under way */
    bool doomed;     /* a deletion names it that was asked for after it was acknowledged, when no
                        push was under way; it is not sent again */
    int64_t gone_mono_ns; /* since then that deletion is in a manifest; 0: it is not */
};

/* What somebody has deleted. */
struct deletion {
    uint32_t tenant;
    char selector[16];
    struct fg_blocks_tombstone tombstone; /* as it was asked for */
};

/* Rules of the ring that show here only, where heads really commit
 * (common/cluster/README.md#rules); and of replicas: readers compare sums of ids, not counts alone
 * (sums-of-ids); what repair takes is admitted, and looked for in blocks, as a push is
 * (repair-is-a-push). And of deletions: they end when nobody holds anything of before
 * (end-when-clean), asked twice (quiet-twice); segments that no manifest lists stay while an
 * ingester may commit them (unlisted-until-clean). */
#define CLUSTER_RULES(X)                                                                           \
    X(STALE_RING_REJECT, "stale-ring-reject")                                                      \
    X(COMMIT_FIRST, "commit-first")                                                                \
    X(AS_DRAINED, "as-drained")                                                                    \
    X(SUMS_OF_IDS, "sums-of-ids")                                                                  \
    X(REPAIR_IS_A_PUSH, "repair-is-a-push")                                                        \
    X(END_WHEN_CLEAN, "end-when-clean")                                                            \
    X(UNLISTED_UNTIL_CLEAN, "unlisted-until-clean")                                                \
    X(QUIET_TWICE, "quiet-twice")

enum cluster_rule {
#define X(name, text) CLUSTER_RULE_##name,
    CLUSTER_RULES(X)
#undef X
        CLUSTER_RULES_COUNT
};

struct shape {
    uint32_t heads, heads_max; /* at first; no more at a time */
    unsigned replicas;         /* heads that are to hold a profile */
    unsigned rules;            /* enum fg_rule */
    unsigned cluster_rules;    /* bits of enum cluster_rule */
    int64_t length_ns;
    bool calm;                   /* no faults, no operator, right clocks */
    bool trace;                  /* what happens, on the standard output */
    void (*script)(void *world); /* a fiber that does everything except what heads do by
                                    themselves, of which repair is left to it, too; NULL: everybody
                                    acts by chance */
};

struct world {
    struct shape shape;
    struct fibers *fibers;
    uint64_t random;
    bool quiet;  /* no faults any more */
    bool ending; /* no new work */

    unsigned lose_permille, crash_permille; /* of messages and requests; of a head's steps */
    int64_t slow_ns;                        /* the longest ordinary delay */

    struct object *objects;
    uint32_t n_objects, cap_objects;
    uint64_t etags;
    uint64_t blocks_made;

    struct sent *sent;
    uint32_t n_sent, cap_sent;

    struct deletion deletions[DELETIONS_MAX]; /* all that were asked for */
    uint32_t n_deletions;

    struct head **heads; /* all that ever were */
    uint32_t n_heads, cap_heads;
    struct head *destroyed;    /* its disk is, and the ring may not know it yet; or NULL */
    struct fg_ring_view *ring; /* the newest that was read, by whomever: for its tables only */
    struct fg_ring_view *copies[DISTRIBUTORS];
    struct fg_manifests *reader_cache;

    char fault[256]; /* what was seen that must not be; "" */
    uint32_t acked, reads, refused_reads, refused_writes, crashes, covers, replaces, retires,
        nodes_made, deleted, left, wiped, forgotten;
    uint32_t built, compared; /* profiles in uploads; chunks that another head committed */
    uint32_t split, parts;    /* ... of which only some profiles moved; parts before the last */
    uint32_t unchecked,
        unsure;       /* profiles taken without a lookup; chunks that could not be compared */
    uint32_t unfit;   /* chunks of uploads that failed since they cannot become a segment */
    uint32_t keyless; /* ... since the keys of their tenants could not be had */
    uint32_t differed, fetched;         /* groups of replicas, for readers; profiles by their ids */
    uint32_t passes, repaired;          /* of repair, to their ends; profiles */
    uint32_t undone;                    /* deletions that ended */
    struct cmp_erasure_shared unlisted; /* what a compactor remembers of segments */
    uint32_t settled;                   /* such segments that were deleted */
};

#define WORLD_EPOCH_NS (INT64_C(1700000000) * FG_SECOND_NS)

static inline int64_t world_wall_ns(const struct world *world)
{
    return WORLD_EPOCH_NS + fibers_now_ns(world->fibers);
}

uint64_t draw(struct world *world, uint64_t below);
bool chance(struct world *world, unsigned permille); /* a fault: never when quiet */
void found_fault(struct world *world, const char *fmt, ...) fg_printf(2, 3);
static inline bool keeps(const struct world *world, enum cluster_rule rule)
{
    return (world->shape.cluster_rules >> rule & 1) != 0;
}
void trace(const struct world *world, const char *fmt, ...) fg_printf(2, 3);

/* Sleeps as long as a message or request takes. */
void delay(struct world *world);

/* ---- who asks ---- */

/* A head at one life of it, or NULL: somebody who does not die (a reader), or who may die at any
 * request (a compactor). */
struct owner {
    struct head *head;
    uint64_t life;
    bool mortal;
    bool dead; /* set by what noticed */
};
bool is_alive(struct world *world, struct owner *owner);

/* ---- the bucket ---- */

enum io {
    IO_OK,
    IO_SAME, /* get: the etag holds */
    IO_MISSING,
    IO_REFUSED, /* the condition does not hold */
    IO_UNSURE,  /* nobody knows; a put may come later yet */
    IO_DEAD,    /* the asker */
};

enum { IF_ALWAYS, IF_ABSENT, IF_MATCH };

/* Fills out. etag: "" or what is known; *ret_etag as text of 24 bytes. */
enum io bucket_get(struct world *world, struct owner *owner, const char *name, const char *etag,
                   struct fg_buf *out, char ret_etag[24]);
enum io bucket_put(struct world *world, struct owner *owner, const char *name,
                   struct fg_slice bytes, int condition, const char *etag);
enum io bucket_delete(struct world *world, struct owner *owner, const char *name);

/* Without delay and faults, for checks. */
const struct object *bucket_look(const struct world *world, const char *name);

/* ---- reading what is committed (reader.c) ---- */

/* READY when IO_OK; done by the caller in any case. */
enum io take_snapshot(struct world *world, struct owner *owner, struct fg_snapshot *snapshot,
                      uint64_t least, bool fresh);

/* What a snapshot has in segments and blocks of its tenant i, added to out. IO_MISSING: take a
 * fresh one. */
enum io read_contents(struct world *world, struct owner *owner, const struct fg_snapshot *snapshot,
                      uint32_t tenant, struct items *out);
enum io read_object(struct world *world, struct owner *owner, const char *name, struct items *out);

/* One read of one tenant, checked. false: refused. */
bool read_and_check(struct world *world);

/* ---- the ring (members.c) ---- */

/* How a head is known. */
struct identity {
    char name[16], zone[8];
    struct fg_id store; /* and writer of segments */
};

/* As it is; the caller's reference. IO_OK, IO_UNSURE, IO_DEAD. */
enum io ring_get(struct world *world, struct owner *owner, struct fg_ring_view **ret_view);

/* A head's place, in one life of it; ends with that. */
struct ing_member *member_start(struct head *head, const struct identity *identity);
void member_end(struct ing_member *member);
void member_leave(struct ing_member *member);
bool member_is_active(const struct ing_member *member);
struct fg_ring_view *member_view(const struct ing_member *member); /* NULL: not read yet */
/* May a profile be taken that comes under this revision? (stale-ring-reject) */
bool ing_member_admits(struct ing_member *member, uint64_t revision);

/* ---- heads (head.c) ---- */

struct head *head_create(struct world *world, const struct identity *identity);
void head_destroy(struct head *head);
void head_start(struct head *head);
void head_crash(struct head *head);
void head_wipe(struct head *head, struct fg_id store); /* while it is down: another disk */
void head_move(struct head *head, const char *zone);   /* likewise */
void head_end(struct head *head);                      /* for good */
bool head_is_up(const struct head *head);
bool head_has_ended(const struct head *head);
uint64_t head_life(const struct head *head);
struct world *head_world(const struct head *head);
const struct identity *head_identity(const struct head *head);
struct ing_member *head_member(const struct head *head); /* while it is up */
void head_cut_off(struct head *head, int64_t ns);
bool head_is_cut_off(const struct head *head);
void head_without_bucket(struct head *head, int64_t ns); /* others reach it, and it them */
/* Some chunks cannot become a segment: of a third of all groups. */
bool head_is_unfit(const struct head *head);
void head_make_unfit(struct head *head, int64_t ns);
void head_blur(struct head *head, int64_t ns); /* some objects do not tell it what they have */
bool head_is_without_bucket(const struct head *head); /* or cut off */
struct ing_segments_core_status head_status(const struct head *head);
void head_rank(struct head *head, const uint8_t ranks[SEGMENTS_SHARDS]);

/* What there is now is committed at once; a number to ask by whether it is. */
uint64_t head_drain(struct head *head);
bool head_is_drained(const struct head *head, uint64_t drain);

enum head_write { HEAD_STORED, HEAD_REFUSED, HEAD_DIED };
enum head_write head_write(struct head *head, const struct item *item, uint64_t revision);
bool head_write_unchecked(struct head *head, const struct item *item); /* what must not be; up */

/* Adds what it holds of a group (NULL: at all), group after group. committed: in chunks that are
 * committed, too. It is up. */
void head_list(const struct head *head, const struct ing_head_group_key *group, bool committed,
               struct items *out);
uint32_t head_n_stored(const struct head *head);
int64_t head_wall_ns(const struct head *head); /* by its clock */

/* What a reader asks, and is told, as on the wire (proto/inner.proto). */
struct head_question {
    uint32_t tenant;
    uint64_t generation;
    Fg__Inner__Shards shards;
    ProtobufCBinaryData only_ids;
};
struct head_answer {
    struct items data;
    Fg__Inner__GroupSum **sums;
    uint32_t n_sums;
};
enum head_read { HEAD_ANSWERED, HEAD_STALE, HEAD_UNAVAILABLE };
/* ANSWERED: fills the answer, which was empty; sums are in the arena. */
enum head_read head_read(struct head *head, const struct head_question *question,
                         struct fg_arena *arena, struct head_answer *answer, uint64_t *ret_least);

/* By its name; NULL: there is none. */
struct head *find_head(struct world *world, struct fg_slice name);

/* ---- replicas (replicas.c) ---- */

/* ANSWERED: out is what enough heads together hold, each profile once. */
enum head_read ask_heads(struct world *world, const struct fg_ring_view *view, uint32_t tenant,
                         uint64_t generation, struct items *out, uint64_t *ret_least);

/* ---- repair (repair.c) ---- */

void repair_start(struct head *head); /* for this life of it */

/* ---- who sends (pushes.c) ---- */

void push_agents(void *arg); /* a fiber; arg: the world */
void pushes_done(struct world *world);

/* ---- who operates (operator.c) ---- */

void bear_head(struct world *world);
void operate(struct world *world); /* something, by chance */

/* ---- compactors (compactors.c) ---- */

void compact_once(struct world *world); /* something, by chance */
void compact_all(struct world *world);  /* everything there is, in order */
void settle_once(struct world *world);  /* what can be done about segments that are not listed */

/* ---- deletions (deletions.c) ---- */

void delete_all_the_time(void *arg); /* a fiber; arg: the world */

/* A script for two heads: one takes from the other what was deleted, after it said that it is
 * clean, and before the other one is (quiet-twice). */
void copy_after_answer(void *arg);

/* A script for two heads: one dies between upload and commit, and the other one commits the same.
 */
void leave_unlisted(void *arg);

/* By any deletion that was asked for: so it may be missing. */
bool is_named(const struct world *world, const struct item *item);

/* A read that begins now must not find it. */
bool is_gone(const struct world *world, uint32_t profile);

/* ---- the whole (world.c) ---- */

/* Runs it; world->fault says how it went. Destroyed by the caller. */
struct world *world_run(uint64_t seed, const struct shape *shape);
void world_destroy(struct world *world);
void end_heads(struct world *world); /* their clocks stop: the end of a script */

#endif
