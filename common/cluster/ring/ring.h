/*
 * The ring: one object in the bucket that says which ingesters there are and which of them own
 * which shards, under every revision that has not drained yet
 * (common/cluster/README.md#ring-changes).
 *
 * A revision is a list of members with their zones. It decides the owners of every shard
 * (owners.h). A revision never changes; each change of membership makes the next one. Writers use
 * the newest revision. An older one stays as long as a member of it may hold something that was
 * written under it, because readers have to ask its owners.
 *
 * Two numbers say what is left of a member's older revisions:
 *   drained   the member refuses writes under every revision below this one, and has committed all
 *             that came to it under them. It holds nothing of them, which is an answer
 *   lost      what the member held under revisions below this one is gone: its disk was found empty
 *             or an operator gave it up. It has no answer for them and never will
 * A revision ends when each of its members has drained or lost it. Readers count "drained" as an
 * answer and "lost" as none (reads_core.h).
 *
 * A member is known, and owns shards, by its name; it keeps them if its disk is wiped. Its store
 * tells whether that happened: a new store under an old name means that the old store's profiles
 * are lost. Joining with a new store therefore makes a revision, which separates the two times.
 *
 * The ring also has the shard factor of each tenant (shard.h), which only grows, each step from
 * some time on. A profile uses the factor of its own time, so it goes to the same shard however
 * often it is sent (spread-by-time). A writer that wants a greater factor widens it here first
 * (spread-before-use), so that readers know all shards in which a service can be.
 *
 * A member that stops for a while, such as for an update, is in maintenance. One member may be at a
 * time, so that a rollout never stops a quorum of owners, whatever tool drives it. Members of one
 * zone may be at the same time if there are three replicas and as many zones. The ring only records
 * this; who waits, and for how long, is the member's decision (member_core.h).
 *
 * A value and its texts live in the arena that it was made in. Values never change: a change makes
 * a new value, which borrows from the old one and is written with a condition on the old one's
 * etag.
 *
 * Invariants of a value that was decoded or made here:
 *   - members are sorted by name, none twice, and each is in some revision
 *   - revisions are sorted by number, places in them by member, none twice
 *   - drained and lost are not greater than the newest revision
 * and of a value that was made here:
 *   - in each revision but the newest some member has neither drained nor lost it
 *   - a revision that a later value lacks had ended: no profile can be acknowledged under it any
 *     more, and what was acknowledged is committed, or was lost by as many members as a quorum
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

#define FG_RING_NAME "manifests/ring" /* the object */

enum {
    FG_RING_MEMBERS_MAX = 1024,
    FG_RING_REVISIONS_MAX = 32, /* with the newest; each costs 400 kB in every process */
    FG_RING_REPLICAS_MAX = 3,
    FG_RING_TEXT_MAX_BYTES = FG_MEMBER_NAME_MAX_BYTES, /* a name, a zone */
    FG_RING_ADDRESS_MAX_BYTES = 256,
    FG_RING_TENANT_MAX_BYTES = 150,         /* as common/model/tenant_id.h has it */
    FG_RING_SHARD_FACTORS_MAX = 1024,       /* tenants with their own; one number is for the rest */
    FG_RING_MAX_BYTES = 8 * 1024 * 1024,    /* of the object; 6 MB are possible */
    FG_RING_ARENA_BYTES = 64 * 1024 * 1024, /* enough for any ring and a change of it */
    FG_RING_NO_MEMBER = UINT32_MAX,
};

#define FG_RING_NUMBER_MAX (UINT64_MAX / 2) /* of revisions and swaps; never reached */

struct fg_ring_member {
    struct fg_slice name;
    struct fg_slice address; /* of calls: an nng URL */
    struct fg_slice http;    /* HOST:PORT of its HTTP; empty: unknown */
    struct fg_id store;      /* the identity of its disk */
    int64_t since_wall_ns;   /* when it joined, by its own clock */
    uint64_t drained, lost;  /* revisions */
    int64_t paused_wall_ns;  /* in maintenance since then, by its own clock; 0: it is not */
    struct fg_slice later;   /* fields of newer versions, kept as they are */
};

/* A member's place in a revision. */
struct fg_ring_place {
    uint32_t member;      /* number in members[] */
    struct fg_slice zone; /* empty: none; all members without a zone count as one zone */
};

struct fg_ring_revision {
    uint64_t number;   /* from 1 */
    unsigned replicas; /* owners that a shard should have: 1 to 3 */
    struct fg_ring_place *places;
    uint32_t n_places; /* 0: all have left */
    struct fg_slice later;
};

/* The shard factor of profiles from a time on. */
struct fg_ring_step {
    int64_t since_ns;
    unsigned shard_factor; /* 1 to FG_SHARD_FACTOR_MAX */
};

/* Steps by time, each with a greater factor. Before the first step the factor is 0. */
struct fg_ring_steps {
    struct fg_ring_step *items;
    uint32_t n; /* at most FG_SHARD_FACTOR_MAX */
};

/* A tenant with a shard factor of its own. */
struct fg_ring_shard_factor {
    struct fg_slice tenant;
    struct fg_ring_steps steps;
    struct fg_slice later;
};

struct fg_ring {
    uint64_t swaps; /* how often the object was replaced */
    /* A generation of the L0 manifest (common/cluster/manifest): what members have drained was
     * committed at it or before. A reader that counts "drained" as an answer needs a snapshot that
     * is not older. */
    uint64_t generation;
    struct fg_ring_member *members;
    uint32_t n_members;
    struct fg_ring_revision *revisions; /* the last is the newest; none: nobody ever joined */
    uint32_t n_revisions;
    struct fg_ring_shard_factor *shard_factors; /* sorted by tenant, none twice */
    uint32_t n_shard_factors;
    struct fg_ring_steps others; /* of all other tenants */
    unsigned floor; /* profiles may have been written with this factor before the ring had any */
    uint64_t overrides; /* members that went into maintenance while another one was in it */
    struct fg_slice later;
};

/* Returns the empty ring: what a bucket without the object has. */
struct fg_ring fg_ring_none(void);

/*
 * Decodes a ring into the arena and checks what always holds of it. *ret_ring does not point into
 * `in`. A ring of a version without shard factors gets the greatest one as its floor. FG_E_CORRUPT;
 * FG_E_UNIMPLEMENTED: the ring is of a newer version; FG_E_TOO_LARGE.
 */
enum fg_code fg_ring_decode(struct fg_slice in, struct fg_arena *arena, struct fg_ring *ret_ring,
                            struct fg_err *err) fg_must_check;

/* Encodes a ring; the same value gives the same bytes. FG_E_LIMIT: out is full. */
enum fg_code fg_ring_encode(const struct fg_ring *ring, struct fg_buf *out,
                            struct fg_err *err) fg_must_check;

/* Writes a ring as JSON: members, then revisions with the names of the members they wait for. */
void fg_ring_json(const struct fg_ring *ring, struct fg_buf *out);

/* ---- looking ---- */

/* Returns the number of the newest revision; 0: there is none. */
uint64_t fg_ring_newest(const struct fg_ring *ring);

/* Finds a member by name. Returns its number in members[], or FG_RING_NO_MEMBER. */
uint32_t fg_ring_find(const struct fg_ring *ring, struct fg_slice name);

/* Finds a member's place in a revision. NULL: the member is not in it. */
const struct fg_ring_place *fg_ring_place_of(const struct fg_ring_revision *revision,
                                             uint32_t member);

/* Returns the tenant's index in shard_factors[]; *ret_there false: the index where it would be. */
uint32_t fg_ring_shard_factor_place(const struct fg_ring *ring, struct fg_slice tenant,
                                    bool *ret_there);

/* Returns the zone of a member in the newest revision that has the member. */
struct fg_slice fg_ring_zone(const struct fg_ring *ring, uint32_t member);

/* Returns true if the member has drained or lost the revision. */
static inline bool fg_ring_is_done(const struct fg_ring_member *member, uint64_t revision)
{
    return member->drained > revision || member->lost > revision;
}

enum fg_ring_state {
    FG_RING_ACTIVE,  /* in the newest revision */
    FG_RING_LEAVING, /* only in older revisions, and not done with all of them */
    FG_RING_GONE,    /* done with all its revisions; listed until their other members are */
};
/* Returns the state of a member. */
enum fg_ring_state fg_ring_state(const struct fg_ring *ring, uint32_t member);
/* Returns true if the member is in maintenance. One that is not in the newest revision never is:
 * nobody waits for a member that has left or was given up. */
bool fg_ring_is_paused(const struct fg_ring *ring, uint32_t member);
/* Returns true if two members of the newest revision may be away at the same time without taking
 * the quorum from any shard: they are of one zone, and no shard has two owners in it. */
bool fg_ring_may_be_away_together(const struct fg_ring *ring, uint32_t member, uint32_t other);
/* Returns the state as a word, such as "active". */
const char *fg_ring_state_name(enum fg_ring_state state);

/*
 * Returns how many owners must have a profile, all under one revision, before it is acknowledged: a
 * majority of the intended replicas. A shard with fewer owners cannot be written.
 */
static inline unsigned fg_ring_writes(unsigned replicas)
{
    return replicas / 2 + 1;
}

/* Returns how many of a shard's owners must answer a reader, so that at least one of them has what
 * was acknowledged. */
static inline unsigned fg_ring_reads(unsigned replicas, unsigned n_owners)
{
    unsigned writes = fg_ring_writes(replicas);

    return n_owners < writes ? 0 : n_owners - writes + 1;
}

/* Returns the shard factor with which a tenant's profiles of that time are written. INT64_MAX: the
 * greatest of all times. */
unsigned fg_ring_shard_factor_at(const struct fg_ring *ring, struct fg_slice tenant,
                                 int64_t time_ns);

/* Returns the greatest shard factor with which a tenant's profiles may have been written: readers
 * ask that many shards. */
unsigned fg_ring_shard_factor(const struct fg_ring *ring, struct fg_slice tenant);

/* ---- changes ---- */

enum fg_ring_change_kind {
    /*
     * The member joins with this store, zone and addresses. Makes a revision if the member is new,
     * comes back, or has another zone or store. Other addresses alone make none, so that a restart
     * elsewhere does not make all other members drain.
     */
    FG_RING_JOIN,
    /* The member leaves the newest revision, if it still has this store. */
    FG_RING_LEAVE,
    /* The member has drained all revisions below this one, if it still has this store. */
    FG_RING_DRAINED,
    /*
     * An operator gives the member up: it leaves, and what it held counts as lost. Profiles that
     * other owners have stay. The member must really be gone: if it is alive, it joins again and
     * commits what it holds, but readers do not ask it for that until then.
     */
    FG_RING_FORGET,
    /* Sets the number of replicas, from the next revision on. */
    FG_RING_REPLICATE,
    /* Raises a tenant's shard factor to this value for profiles from a future time on. If the ring
     * has no room for the tenant, raises the factor of all other tenants instead. */
    FG_RING_WIDEN,
    /* The member goes into maintenance if it still has this store, and if no other member is in
     * maintenance, apart from those of its zone if that one may be away as a whole. */
    FG_RING_PAUSE,
    /* The same, whoever is in maintenance; that is counted as an override. */
    FG_RING_PAUSE_ANYWAY,
    /* The member's maintenance ends, if it still has this store. */
    FG_RING_RESUME,
};

struct fg_ring_change {
    enum fg_ring_change_kind kind;
    struct fg_slice name;                /* the member; WIDEN: the tenant; REPLICATE: unused */
    struct fg_id store;                  /* JOIN, LEAVE, DRAINED, PAUSE, RESUME */
    struct fg_slice zone, address, http; /* JOIN */
    uint64_t revision;                   /* DRAINED */
    uint64_t generation;                 /* DRAINED: see struct fg_ring */
    unsigned replicas;                   /* REPLICATE; JOIN: if this is the first member */
    int64_t wall_ns;                     /* JOIN, PAUSE */
    unsigned shard_factor;               /* WIDEN */
    int64_t since_ns;                    /* WIDEN */
};

/*
 * Applies a change. *ret_ring borrows from the old ring and the change. *ret_changed false: the
 * ring is already as the change wants it, or the change no longer applies (the member is not there
 * or has another store). FG_E_INVALID: a name, zone, address, tenant, number of replicas, shard
 * factor or revision is not valid. FG_E_LIMIT: too many members, or too many revisions that have
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
