/*
 * Membership by heartbeats: the core. It decides who is there, who owns a key, and what to write to
 * the list of members; membership.h reads and writes the list.
 *
 * Members share one object in the bucket, a list of names with a counter each, the heartbeat. Every
 * member increments its own counter periodically and observes, by its own clock, when the others
 * did so last; the object has no times in it. A member whose counter has not moved for `gone_ns` is
 * gone, and the next heartbeat of any other member removes it from the list. Only time during which
 * a member could read the list counts: after an outage of the bucket nobody is gone.
 *
 * Keys belong to members by rendezvous hashing over the names (rendezvous.h). Members need not
 * agree: if two believe that they own a key, both do the same work for a while and a
 * compare-and-swap lets one of them win. If nobody believes that it owns a key, the key waits until
 * a member is known to be gone.
 *
 * Notices: a member that is asked about a key of another member publishes the key's hash with its
 * next heartbeat. The owner finds it in the list. A notice stays for several heartbeats, since
 * owners do not read every version of the list.
 *
 * The stored list (in an envelope, common/base/envelope.h), members ascending by name:
 *
 *   members  list of records: varint length, name;  varint heartbeat;  notices
 *   notices  list of: 8 bytes hash of the key, little-endian;  varint the heartbeat it came with
 *            (records of older programs end before it)
 *
 * Thread: one at a time. No clock, no I/O.
 */
#ifndef FG_COMMON_CLUSTER_MEMBERSHIP_MEMBERSHIP_CORE_H
#define FG_COMMON_CLUSTER_MEMBERSHIP_MEMBERSHIP_CORE_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/cluster/membership/name.h"

enum {
    FG_MEMBERS_MAX = 256, /* all of them write one object, so more would collide all the time */
    FG_MEMBER_LIST_MAX_BYTES = 256 * 1024, /* 256 members with the longest names and all their
                                              notices take 184,000 */
    FG_MEMBER_LIST_ARENA_BYTES = 4 * FG_MEMBER_LIST_MAX_BYTES,
    FG_MEMBER_NOTICES_MAX = 32,      /* per member; the owners' periodic checks find the rest */
    FG_MEMBER_NOTICE_HEARTBEATS = 8, /* a notice stays for at least two minutes */
};

struct fg_member_notice {
    uint64_t key;       /* fg_hash64() of the key's name */
    uint64_t heartbeat; /* of the member that gave the notice */
};

/* An entry of the list. */
struct fg_member {
    struct fg_slice name; /* valid by fg_member_name_fault() */
    uint64_t heartbeat;
    const struct fg_member_notice *notices; /* ascending by heartbeat */
    uint32_t n_notices;
    struct fg_slice later; /* fields of newer versions, kept as they are */
};

/* The list as a value; its memory is in an arena. */
struct fg_member_list {
    struct fg_member *members; /* [n], ascending by name */
    uint32_t n;
    struct fg_slice later; /* fields of newer versions, kept as they are */
};

/* Encodes the list. FG_E_LIMIT: it is larger than FG_MEMBER_LIST_MAX_BYTES. */
enum fg_code fg_member_list_encode(const struct fg_member_list *list, struct fg_buf *out,
                                   struct fg_err *err) fg_must_check;

/* Decodes a list into the arena. FG_E_CORRUPT, FG_E_TOO_LARGE; FG_E_UNIMPLEMENTED: the list is of a
 * newer version. */
enum fg_code fg_member_list_decode(struct fg_slice in, struct fg_arena *arena,
                                   struct fg_member_list *ret_list,
                                   struct fg_err *err) fg_must_check;

/* Writes the list as JSON, {"compactors":[{"name":"…","beat":1}]}, and a newline. The keys are part
 * of the command line's interface. */
void fg_member_list_json(const struct fg_member_list *list, struct fg_buf *out);

/* Another member, according to the last read. */
struct fg_member_seen {
    char name[FG_MEMBER_NAME_MAX_BYTES + 1];
    uint64_t hash; /* of the name */
    uint64_t heartbeat;
    int64_t since_mono_ns; /* when this heartbeat was seen first */
    bool gone;
};

/* What one member knows. */
struct fg_membership_core {
    char self[FG_MEMBER_NAME_MAX_BYTES + 1];
    uint64_t self_hash;
    int64_t heartbeat_ns, gone_ns;
    bool known;                                 /* the list was read at least once */
    int64_t read_mono_ns;                       /* the last read */
    bool listed;                                /* the last list had this member in it */
    uint64_t heartbeat;                         /* this member's, as read or being written */
    int64_t due_mono_ns;                        /* the next heartbeat */
    struct fg_member_seen seen[FG_MEMBERS_MAX]; /* [n_seen]: the others */
    uint32_t n_seen;
    struct fg_member_notice notices[FG_MEMBER_NOTICES_MAX]; /* [n_notices]: this member's, ascending
                                                               by heartbeat */
    uint32_t n_notices;
};

/*
 * Initialises the core of the member `self`. kind: what the members are, for error texts, such as
 * "compactor". heartbeat_ns: between two heartbeats. gone_ns: a member without a heartbeat for this
 * long is gone. FG_E_INVALID: self is not a valid name.
 */
enum fg_code fg_membership_core_init(struct fg_membership_core *core, const char *kind,
                                     const char *self, int64_t heartbeat_ns, int64_t gone_ns,
                                     struct fg_err *err) fg_must_check;

/* Takes in the list as it was read at this time. */
void fg_membership_core_read(struct fg_membership_core *core, const struct fg_member_list *list,
                             int64_t now_mono_ns);

/* Gives notice of a key that another member owns, with the next heartbeat. Returns false if there
 * is no room or this member is not in the list. */
bool fg_membership_core_notify(struct fg_membership_core *core, struct fg_slice key);

/*
 * Collects the notices that others gave since the previous list, of keys that this member owns:
 * call it before fg_membership_core_read(). Writes at most `max` hashes to keys; returns how many.
 */
uint32_t fg_membership_core_notices(const struct fg_membership_core *core,
                                    const struct fg_member_list *list, uint64_t *keys,
                                    uint32_t max);

/* Returns true if the list should be written now: a heartbeat is due, a notice is waiting, or this
 * member is not listed. */
bool fg_membership_core_is_due(const struct fg_membership_core *core,
                               int64_t now_mono_ns) fg_must_check;

/*
 * Makes the list that replaces the one read last: with the next heartbeat of this member, or
 * without this member (`leaves`), and without members that are gone. room: for one entry more than
 * the list has. *ret_next borrows texts of the list and notices of the core, so encode it before
 * either changes; notices given from now on come with the following heartbeat. FG_E_LIMIT: more
 * than FG_MEMBERS_MAX members.
 */
enum fg_code fg_membership_core_next(struct fg_membership_core *core,
                                     const struct fg_member_list *list, bool leaves,
                                     struct fg_member *room, struct fg_member_list *ret_next,
                                     struct fg_err *err) fg_must_check;

/* Records that the bucket accepted the list of fg_membership_core_next(). */
void fg_membership_core_written(struct fg_membership_core *core, int64_t now_mono_ns);

/* Returns true if this member owns the key. False for every key before the first read. */
bool fg_membership_core_owns(const struct fg_membership_core *core,
                             struct fg_slice key) fg_must_check;

/* Returns how many members are not gone, this one included. */
uint32_t fg_membership_core_count(const struct fg_membership_core *core);

#endif
