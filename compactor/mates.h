/*
 * Which compactors there are, and whose a tenant is. Pure.
 *
 * They share an object in the bucket, a list of names with a number for each, its beat. Each of
 * them makes its beat another one from time to time, and looks when those of the others did so
 * last, by its own clock: there is no clock in the object. Who has not for long is gone, and
 * leaves the list with the next beat of any other. Only time in which one looked counts: when the
 * bucket comes back nobody is gone.
 *
 * A tenant is one's by rendezvous hashing over the names: who comes or goes moves a share of the
 * tenants and leaves the others where they are. They need not agree: two that think a tenant is
 * theirs do the same work for a while, and the swap of its manifest lets one of them win. A tenant
 * that nobody thinks is his waits until somebody is known to be gone.
 *
 * Who is asked something about a tenant that is another one's, says so with a beat: whose it is
 * finds it in the list and looks at that tenant soon. It stays there for some beats, as nobody
 * needs to read all of them.
 *
 * As bytes (in an envelope, common/base/envelope.h), mates ascending by name:
 *
 *   mates  list of records: varint length, name;  varint beat;  asked
 *   asked  list of: 8 bytes hash of the tenant's name, little-endian;  varint the beat it came with
 *          (records that end before it have none)
 */
#ifndef FG_COMPACTOR_MATES_H
#define FG_COMPACTOR_MATES_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"

enum {
    MATES_MAX = 256,
    MATES_MAX_BYTES = 256 * 1024, /* of the object: all of them, with the longest names, asking all
                                     they may, are 184,000 */
    MATES_ARENA_BYTES = 4 * MATES_MAX_BYTES,
    MATES_NAME_MAX_BYTES = 128,
    MATES_ASKED_MAX = 32,  /* of one; what is more is found out by the looks of every ten minutes */
    MATES_ASKED_BEATS = 8, /* so many later it leaves the list: two minutes at the least */
};

struct cmp_mates_asked {
    uint64_t tenant; /* fg_hash64() of its name */
    uint64_t beat;
};

struct cmp_mate {
    struct fg_slice name; /* as of a member of the ring (common/cluster/ring/ring.h) */
    uint64_t beat;
    const struct cmp_mates_asked *asked; /* by beat */
    uint32_t n_asked;
    struct fg_slice later; /* fields that we do not know */
};

/* In an arena. */
struct cmp_mates_list {
    struct cmp_mate *mates;
    uint32_t n;
    struct fg_slice later;
};

/* FG_E_LIMIT: it does not fit. */
enum fg_code cmp_mates_encode(const struct cmp_mates_list *list, struct fg_buf *out,
                              struct fg_err *err) fg_must_check;
/* FG_E_CORRUPT, FG_E_TOO_LARGE; FG_E_UNIMPLEMENTED: of a newer version. */
enum fg_code cmp_mates_decode(struct fg_slice in, struct fg_arena *arena,
                              struct cmp_mates_list *ret_list, struct fg_err *err) fg_must_check;

/* For people: {"compactors":[{"name":"…","beat":1}]} and a newline. */
void cmp_mates_json(const struct cmp_mates_list *list, struct fg_buf *out);

/* One that was in the list when it was read last. */
struct cmp_mate_seen {
    char name[MATES_NAME_MAX_BYTES + 1];
    uint64_t hash; /* of the name */
    uint64_t beat;
    int64_t since_mono_ns; /* it has this beat */
    bool gone;
};

/* What one of them knows of all. */
struct cmp_mates {
    char self[MATES_NAME_MAX_BYTES + 1];
    uint64_t self_hash;
    int64_t beat_ns, gone_ns;
    bool known;                           /* the list was read once */
    int64_t read_mono_ns;                 /* the last time */
    bool listed;                          /* this one was in it */
    uint64_t beat;                        /* this one's, as it was read, or is being written */
    int64_t due_mono_ns;                  /* its next one */
    struct cmp_mate_seen seen[MATES_MAX]; /* the others */
    uint32_t n_seen;
    struct cmp_mates_asked asked[MATES_ASKED_MAX]; /* this one, about others' tenants; by beat */
    uint32_t n_asked;
};

/* beat_ns: between two beats; gone_ns: who has the same one for that long is gone. FG_E_INVALID:
 * not a name. */
enum fg_code cmp_mates_init(struct cmp_mates *mates, const char *self, int64_t beat_ns,
                            int64_t gone_ns, struct fg_err *err) fg_must_check;

/* The list was read at this time. */
void cmp_mates_read(struct cmp_mates *mates, const struct cmp_mates_list *list,
                    int64_t now_mono_ns);

/* Somebody asked for something about a tenant that is not this one's. false: there is no room, or
 * this one is not in the list. */
bool cmp_mates_ask(struct cmp_mates *mates, struct fg_slice tenant);

/* Hashes of tenants of this one's that others have been asked about since the list was read before:
 * call it before cmp_mates_read(). At most max of them are put into `tenants`; returns how many. */
uint32_t cmp_mates_heard(const struct cmp_mates *mates, const struct cmp_mates_list *list,
                         uint64_t *tenants, uint32_t max);

/* Is it time to write? */
bool cmp_mates_is_due(const struct cmp_mates *mates, int64_t now_mono_ns) fg_must_check;

/*
 * What to write in the place of the list that was read last: with another beat for this one, or
 * without it (`leaves`), and without those that are gone. In `room`, for one more than the list
 * has, with texts of the list and what this one was asked: write it before either changes. What
 * is asked from now on comes with the beat after this one. FG_E_LIMIT: there are too many.
 */
enum fg_code cmp_mates_next(struct cmp_mates *mates, const struct cmp_mates_list *list, bool leaves,
                            struct cmp_mate *room, struct cmp_mates_list *ret_next,
                            struct fg_err *err) fg_must_check;

/* It was written, as far as one can tell. */
void cmp_mates_written(struct cmp_mates *mates, int64_t now_mono_ns);

/* Is this one's what has that name? A tenant's, or "" for what is done once for all tenants.
 * Nothing is before the list was read. */
bool cmp_mates_own(const struct cmp_mates *mates, struct fg_slice name) fg_must_check;

/* Those that are not gone, this one among them. */
uint32_t cmp_mates_count(const struct cmp_mates *mates);

#endif
