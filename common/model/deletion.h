/*
 * Deletions define which profiles answers leave out, by the labels of their series and a span of
 * time. Users request them (common/cluster/manifest/blocks.h), and the retention of a tenant adds
 * one for all series.
 *
 * A deletion removes whole profiles: its selector is compared with the stored labels of a series,
 * without those that are derived from the profile type.
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
    /* Of a tenant at a time: those of users and the one of retention. A query compares each with
     * every series that it selects. */
    FG_DELETIONS_MAX = 256 + 1,
    FG_DELETIONS_REGEX_MAX = FG_SELECTOR_MATCHERS_MAX, /* in total; as many as a query may have */
    FG_DELETIONS_MAX_BYTES = 1024 * 1024,              /* of names and values in all selectors */
};

struct fg_deletion {
    struct fg_selector selector; /* no matchers: every series */
    int64_t start_ns, end_ns;    /* inclusive */
    uint64_t profiles;           /* how many it removed, if that is counted */
};

struct fg_deletions {
    struct fg_deletion *items; /* in the order they were added; in an arena */
    uint32_t count, cap;
    uint32_t n_regexes;
    size_t bytes;
};

/*
 * Adds a deletion. On success it owns the selector, whose slices are borrowed. FG_E_INVALID: the
 * end is before the start. FG_E_LIMIT: one of the limits above is exceeded, or the arena is full.
 */
enum fg_code fg_deletions_add(struct fg_deletions *deletions, const struct fg_deletion *deletion,
                              struct fg_arena *arena, struct fg_err *err) fg_must_check;

/* Frees the regular expressions; all else is in the arena. Accepts zeroed deletions. */
void fg_deletions_done(struct fg_deletions *deletions);

/* Return whether some of this time, or all of it, is deleted (for series that the selector
 * matches). */
bool fg_deletion_meets(const struct fg_deletion *deletion, int64_t t_min_ns, int64_t t_max_ns);
bool fg_deletion_contains(const struct fg_deletion *deletion, int64_t t_min_ns, int64_t t_max_ns);

/* Returns false if the selector matches no series of the service. */
bool fg_deletion_may_name(const struct fg_deletion *deletion, struct fg_slice service);

/*
 * Returns whether a profile of the service in this time may be deleted. service.ptr NULL: of any
 * service. Ask before using sums that were made earlier (rollups): if one may be deleted, only the
 * profiles themselves have the answer.
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

/* Narrows [*t_min_ns, *t_max_ns] to the span from the first to the last time that is left. Returns
 * false if no time is left. */
bool fg_left_clip(const struct fg_left *left, int64_t *t_min_ns, int64_t *t_max_ns);

/* Finds what is left of one span of time, for one series after another. Series with the same
 * deletions share the result. */
struct fg_leaving {
    const struct fg_deletions *deletions; /* borrowed */
    struct fg_time_span whole;
    struct fg_arena *arena;                          /* of the answers */
    bool found;                                      /* there is a result from before: */
    uint64_t named[FG_BITS_WORDS(FG_DELETIONS_MAX)]; /* set of the deletions of `left` */
    struct fg_left left;
};
/* Begins. All arguments are borrowed. */
void fg_leaving_init(struct fg_leaving *leaving, const struct fg_deletions *deletions,
                     struct fg_time_span whole, struct fg_arena *arena);

/* Returns what is left for a series. labels NULL: for all series. FG_E_LIMIT: the arena is full. */
enum fg_code fg_leaving_of(struct fg_leaving *leaving, const struct fg_labels *labels,
                           struct fg_left *ret_left, struct fg_err *err) fg_must_check;

#endif
