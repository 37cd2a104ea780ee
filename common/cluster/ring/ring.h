/*
 * The ring: one object in the bucket that says which ingesters there are, and which of them owned
 * what under each revision that has not drained yet (common/cluster/README.md#ring-changes).
 *
 * A revision is a list of members with their zones. It makes owners of every shard (owners.h), for
 * good: a revision never changes, each change of membership makes the next one. Writes go by the
 * newest. An older one stays, since readers have to ask its owners, until no member of it has
 * anything left that came under it.
 *
 * What a member has said, and what is said of it, are two numbers:
 *   drained   it refuses writes under every revision below this one, and all that came to it under
 *             them is committed. So for those its answer is known: nothing
 *   lost      what it held under revisions below this one is gone: its disk was found empty, or an
 *             operator gave it up. So for those it has no answer, and never will
 * A revision ends when each of its members has drained it or lost it. The two are not the same to a
 * reader: it takes "drained" for an answer and "lost" for none (reads.h).
 *
 * A member is known by its name, and owns by it: where an ingester's disk was wiped it keeps its
 * place. The store that it has says whether it was: another one means that the old one's profiles
 * are lost, so that joining with it makes a revision, which tells both times apart.
 *
 * And for each tenant its shard factor (shard.h), which gets wider from some time on and never
 * narrower. A profile goes by its own time: so it is always sent to the same shard, however often
 * it is sent (spread-by-time). Whoever wants to write with a wider one has it widened here first
 * (spread-before-use). So readers know in how many shards a service can be.
 *
 * A value lives in the arena it was made in, and texts in it too. Values are never changed: a
 * change (below) makes a new one that borrows from the old one, to be written with a condition on
 * the old one's etag.
 *
 * What always holds of a value that was read or made here:
 *   - members are sorted by name, none twice, and each is in some revision
 *   - revisions are sorted by number, places in them by member, none twice
 *   - drained and lost are not beyond the newest revision
 * and of one that was made here:
 *   - of each revision but the newest, some member has neither drained nor lost it
 *   - a revision that is gone from a later value had ended: under it no profile can be acknowledged
 *     any more, and what was is committed, or lost by as many members as its owners' quorum
 *   - no two values have the same `swaps`, so neither the same bytes nor the same etag
 *
 * Thread: any; no state.
 */
#ifndef FG_COMMON_CLUSTER_RING_RING_H
#define FG_COMMON_CLUSTER_RING_RING_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/cluster/membership/name.h"

#define FG_RING_NAME "manifests/ring" /* of its object */

enum {
    FG_RING_MEMBERS_MAX = 1024,
    FG_RING_REVISIONS_MAX = 32, /* with the newest; each costs 400 kB in every process */
    FG_RING_REPLICAS_MAX = 3,
    FG_RING_TEXT_MAX_BYTES = FG_MEMBER_NAME_MAX_BYTES, /* a name, a zone */
    FG_RING_ADDRESS_MAX_BYTES = 256,
    FG_RING_TENANT_MAX_BYTES = 150,         /* as common/model/tenant_id.h has it */
    FG_RING_SHARD_FACTORS_MAX = 1024,       /* of tenants; one number is for all others */
    FG_RING_MAX_BYTES = 8 * 1024 * 1024,    /* of the object; the largest that can be is 6 MB */
    FG_RING_ARENA_BYTES = 64 * 1024 * 1024, /* enough for any, and for a change of it */
    FG_RING_NO_MEMBER = UINT32_MAX,
};

#define FG_RING_NUMBER_MAX (UINT64_MAX / 2) /* of revisions and swaps: nobody gets there */

struct fg_ring_member {
    struct fg_slice name;
    struct fg_slice address; /* of calls: an nng URL */
    struct fg_slice http;    /* HOST:PORT of its HTTP; empty: not told */
    struct fg_id store;      /* born with its disk */
    int64_t since_wall_ns;   /* when it joined, by its own clock */
    uint64_t drained, lost;  /* revisions */
    struct fg_slice later;   /* fields of a newer version: kept, not understood */
};

struct fg_ring_place {
    uint32_t member;      /* number in members[] */
    struct fg_slice zone; /* empty: not told; all without one are in one zone */
};

struct fg_ring_revision {
    uint64_t number;   /* from 1 */
    unsigned replicas; /* owners that a shard is to have: 1 to 3 */
    struct fg_ring_place *places;
    uint32_t n_places; /* 0: all have left */
    struct fg_slice later;
};

/* Profiles whose time is not before this have this shard factor. */
struct fg_ring_step {
    int64_t since_ns;
    unsigned shard_factor; /* 1 to FG_SHARD_FACTOR_MAX */
};

/* Later ones are wider; before the first one the shard factor is 0. */
struct fg_ring_steps {
    struct fg_ring_step *items;
    uint32_t n; /* at most FG_SHARD_FACTOR_MAX */
};

/* A tenant whose services are in more than one shard each. */
struct fg_ring_shard_factor {
    struct fg_slice tenant;
    struct fg_ring_steps steps;
    struct fg_slice later;
};

struct fg_ring {
    uint64_t swaps; /* counts them */
    /* Of the L0 manifest (common/cluster/manifest): what members have drained is committed at it or
     * before. A reader that takes "drained" for an answer needs a snapshot that is not older. */
    uint64_t generation;
    struct fg_ring_member *members;
    uint32_t n_members;
    struct fg_ring_revision *revisions; /* the last is the newest; none: nobody ever joined */
    uint32_t n_revisions;
    struct fg_ring_shard_factor *shard_factors; /* sorted by tenant, none twice */
    uint32_t n_shard_factors;
    struct fg_ring_steps others; /* of tenants that are not there */
    unsigned
        floor; /* so wide may anything have been written before there were shard factors here */
    struct fg_slice later;
};

/* What there is before the first swap, when there is no object. */
struct fg_ring fg_ring_none(void);

/*
 * Reads; checks what is said above of a value that was read. Nothing of it points into `in`
 * afterwards. FG_E_CORRUPT; FG_E_UNIMPLEMENTED: of a version that cannot be read by this program;
 * FG_E_TOO_LARGE. One of before shard factors were in it has the widest one for all.
 */
enum fg_code fg_ring_decode(struct fg_slice in, struct fg_arena *arena, struct fg_ring *ret_ring,
                            struct fg_err *err) fg_must_check;

/* The same value gives the same bytes. FG_E_LIMIT: out is full. */
enum fg_code fg_ring_encode(const struct fg_ring *ring, struct fg_buf *out,
                            struct fg_err *err) fg_must_check;

/* For people and programs: members, then revisions with the names of those they wait for. */
void fg_ring_json(const struct fg_ring *ring, struct fg_buf *out);

/* ---- looking ---- */

/* The number of the newest revision; 0: there is none. */
uint64_t fg_ring_newest(const struct fg_ring *ring);

/* By name; FG_RING_NO_MEMBER: it is not there. */
uint32_t fg_ring_find(const struct fg_ring *ring, struct fg_slice name);

/* NULL: the member is not in that revision. */
const struct fg_ring_place *fg_ring_place_of(const struct fg_ring_revision *revision,
                                             uint32_t member);

/* Where the tenant is in the ring's shard factors, or would be; *ret_there: it is. */
uint32_t fg_ring_shard_factor_place(const struct fg_ring *ring, struct fg_slice tenant,
                                    bool *ret_there);

/* Where it is, or was last. */
struct fg_slice fg_ring_zone(const struct fg_ring *ring, uint32_t member);

/* Has it drained or lost what it held under that revision? */
static inline bool fg_ring_is_done(const struct fg_ring_member *member, uint64_t revision)
{
    return member->drained > revision || member->lost > revision;
}

enum fg_ring_state {
    FG_RING_ACTIVE,  /* in the newest revision */
    FG_RING_LEAVING, /* in older ones, and not done with all of them */
    FG_RING_GONE,    /* done with all; here only since other members are not */
};
enum fg_ring_state fg_ring_state(const struct fg_ring *ring, uint32_t member);
const char *fg_ring_state_name(enum fg_ring_state state); /* "active" */

/*
 * How many owners have to have a profile before it is acknowledged, all of them under one revision:
 * a majority of the replicas there are to be. Where a shard has fewer owners than that, nothing can
 * be written.
 */
static inline unsigned fg_ring_writes(unsigned replicas)
{
    return replicas / 2 + 1;
}

/* How many of a shard's owners a reader has to hear, so that it hears one of those. */
static inline unsigned fg_ring_reads(unsigned replicas, unsigned n_owners)
{
    unsigned writes = fg_ring_writes(replicas);

    return n_owners < writes ? 0 : n_owners - writes + 1;
}

/* The shard factor of a tenant's profiles of that time, for who writes. INT64_MAX: the widest there
 * is.
 */
unsigned fg_ring_shard_factor_at(const struct fg_ring *ring, struct fg_slice tenant,
                                 int64_t time_ns);

/* The shard factor that a tenant's profiles may have been written with, at most; for who reads. */
unsigned fg_ring_shard_factor(const struct fg_ring *ring, struct fg_slice tenant);

/* ---- changes ---- */

enum fg_ring_change_kind {
    /*
     * The member is there, with this store, zone and addresses. A revision if it is new, comes
     * back, has another zone or another store; other addresses alone make none, so that a restart
     * in another place is no event for the heads of all others.
     */
    FG_RING_JOIN,
    /* The member, while it has this store, is in the newest revision no more. */
    FG_RING_LEAVE,
    /* The member, while it has this store, has drained all revisions below this one. */
    FG_RING_DRAINED,
    /*
     * An operator gives the member up: it has left, and what it held is lost. What a quorum of
     * owners had besides it stays; so it must really be gone. If it is not it joins again, and what
     * it holds from before is committed in time, but not asked for until then.
     */
    FG_RING_FORGET,
    /* Another number of replicas, from the next revision on. */
    FG_RING_REPLICATE,
    /* A tenant's shard factor is not less than this, for profiles from a time on that is still to
     * come. Where there are too many tenants already, that of all others is not. */
    FG_RING_WIDEN,
};

struct fg_ring_change {
    enum fg_ring_change_kind kind;
    struct fg_slice name;                /* of the member, of the tenant: WIDEN; but REPLICATE */
    struct fg_id store;                  /* JOIN, LEAVE, DRAINED */
    struct fg_slice zone, address, http; /* JOIN */
    uint64_t revision;                   /* DRAINED */
    uint64_t generation;                 /* DRAINED: see struct fg_ring */
    unsigned replicas;     /* REPLICATE; JOIN: of a ring that nobody has made before */
    int64_t wall_ns;       /* JOIN */
    unsigned shard_factor; /* WIDEN */
    int64_t since_ns;      /* WIDEN */
};

/*
 * The ring with the change; it borrows from both. *ret_changed false: it is as the change wants it
 * already, or the change is not to be made any more (a member that is not there, or has another
 * store). FG_E_INVALID: a name, zone, address or tenant that cannot be, replicas, a shard factor,
 * or a revision that there is not. FG_E_LIMIT: too many members, or too many revisions that have
 * not drained.
 */
enum fg_code fg_ring_apply(const struct fg_ring *ring, const struct fg_ring_change *change,
                           struct fg_arena *arena, struct fg_ring *ret_ring, bool *ret_changed,
                           struct fg_err *err) fg_must_check;

/* Checks a tenant's length, 1 to 150 bytes (common/model checks the rest), and an address,
 * printable ASCII without blanks of at most 256 bytes. Return NULL if it is valid, else a text such
 * as "is empty". Names and zones: common/cluster/membership/name.h. */
const char *fg_ring_tenant_fault(struct fg_slice tenant) fg_must_check;
const char *fg_ring_address_fault(struct fg_slice address, bool may_be_empty) fg_must_check;

#endif
