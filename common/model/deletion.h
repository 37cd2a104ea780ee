/*
 * Deletions: which profiles answers leave out, by the labels of their series and a span of time.
 * Users ask for them (common/cluster/manifest/blocks.h), and what is older than a tenant keeps is
 * one more, of every series.
 *
 * A deletion takes whole profiles: its selector is compared with the labels that a series is stored
 * with, without those made from the profile type.
 *
 *   a series' time     |-------------------------------------------------|
 *   deletions            xxxxx        xxxx                xxxxxxxx
 *                               xxxxxxxxxxxxxx
 *   what is left       |-|     |                |--------|        |------|
 *
 * Thread: read-only once filled.
 */
#ifndef FG_COMMON_MODEL_DELETION_H
#define FG_COMMON_MODEL_DELETION_H

#include "common/base/bits.h"
#include "common/model/selector.h"

enum {
    /* Of a tenant at a time: those of users, and what it keeps no longer. Each costs a look at
     * every series that a question is about. */
    FG_DELETIONS_MAX = 256 + 1,
    FG_DELETIONS_REGEX_MAX = FG_SELECTOR_MATCHERS_MAX, /* in all: as many as a question may have */
    FG_DELETIONS_MAX_BYTES = 1024 * 1024,              /* of names and values in all selectors */
};

struct fg_deletion {
    struct fg_selector selector; /* no matchers: every series */
    int64_t start_ns, end_ns;    /* inclusive */
    uint64_t profiles;           /* how many it took, where somebody counts */
};

struct fg_deletions {
    struct fg_deletion *items; /* in the order they were added; in an arena */
    uint32_t count, cap;
    uint32_t n_regexes;
    size_t bytes;
};

/*
 * Takes the deletion's selector over, if all is well; its slices are borrowed. FG_E_INVALID: it
 * ends before it starts. FG_E_LIMIT: more than one of the limits above, or the arena's.
 */
enum fg_code fg_deletions_add(struct fg_deletions *deletions, const struct fg_deletion *deletion,
                              struct fg_arena *arena, struct fg_err *err) fg_must_check;

/* Frees the regular expressions; the rest is the arena's. Zeroed ones are fine. */
void fg_deletions_done(struct fg_deletions *deletions);

/* Is some of this time, or all of it, deleted (of series that it names)? */
bool fg_deletion_meets(const struct fg_deletion *deletion, int64_t t_min_ns, int64_t t_max_ns);
bool fg_deletion_contains(const struct fg_deletion *deletion, int64_t t_min_ns, int64_t t_max_ns);

/* false: it names no series of the service. */
bool fg_deletion_may_name(const struct fg_deletion *deletion, struct fg_slice service);

/*
 * May some profile of the service in this time be deleted? service.ptr NULL: of any. Whoever uses
 * sums made earlier (nodes) asks here first: where it may be, only the profiles themselves tell.
 */
bool fg_deletions_touch(const struct fg_deletions *deletions, struct fg_slice service,
                        int64_t t_min_ns, int64_t t_max_ns);

/* ---- what is left ---- */

struct fg_time_span {
    int64_t start_ns, end_ns; /* inclusive */
};

/* Spans of time that are not deleted, ascending and apart from each other. */
struct fg_left {
    const struct fg_time_span *spans;
    uint32_t count;
};

/* Narrows [*t_min_ns, *t_max_ns] to what is left of it; false: nothing is. */
bool fg_left_clip(const struct fg_left *left, int64_t *t_min_ns, int64_t *t_max_ns);

/* Finds what is left of one span of time, for series after series; what neighbours have in common
 * is kept once. */
struct fg_leaving {
    const struct fg_deletions *deletions; /* borrowed */
    struct fg_time_span whole;
    struct fg_arena *arena;                          /* of the answers */
    bool found;                                      /* there is a last one: */
    uint64_t named[FG_BITS_WORDS(FG_DELETIONS_MAX)]; /* by these deletions; bits */
    struct fg_left left;
};
void fg_leaving_init(struct fg_leaving *leaving, const struct fg_deletions *deletions,
                     struct fg_time_span whole, struct fg_arena *arena);

/* labels NULL: of every series, whatever its labels. FG_E_LIMIT: the arena is full. */
enum fg_code fg_leaving_of(struct fg_leaving *leaving, const struct fg_labels *labels,
                           struct fg_left *ret_left, struct fg_err *err) fg_must_check;

#endif
