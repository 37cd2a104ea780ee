/*
 * Chooses the profiles that go into a block: those of a span of time and a range of shards, except
 * those that a deletion names or that are in a list of ids.
 *
 * Thread: any; no state.
 */
#ifndef FG_COMPACTOR_MERGE_CHOOSE_H
#define FG_COMPACTOR_MERGE_CHOOSE_H

#include "common/base/time.h"
#include "common/model/deletion.h"
#include "compactor/merge/source.h"

/* Times [start - early, end); an end of INT64_MAX is the end of time itself. */
struct cmp_merge_span {
    int64_t start_ns, end_ns;
    uint16_t shard_first, shard_last; /* inclusive */
    int64_t early_ns;                 /* profiles that begin so much earlier belong to it, too */
};
#define MERGE_SPAN_ALL ((struct cmp_merge_span){INT64_MIN, INT64_MAX, 0, UINT16_MAX, 0})

/* Returns true if a time is in [start, end). */
static inline bool cmp_merge_time_in(int64_t time_ns, int64_t start_ns, int64_t end_ns)
{
    return time_ns >= start_ns && (time_ns < end_ns || end_ns == INT64_MAX);
}

/* Returns the earliest time of a profile of the span. */
static inline int64_t cmp_merge_span_from_ns(const struct cmp_merge_span *span)
{
    return fg_time_add(span->start_ns, -span->early_ns);
}

/* Returns true if a profile of this time and shard belongs to the span. */
static inline bool cmp_merge_span_has(const struct cmp_merge_span *span, int64_t time_ns,
                                      uint16_t shard)
{
    return cmp_merge_time_in(time_ns, cmp_merge_span_from_ns(span), span->end_ns) &&
           shard >= span->shard_first && shard <= span->shard_last;
}

/* The deletions that name the current series, kept from row to row. */
struct cmp_merge_naming {
    const struct fg_deletions *deletions;
    struct fg_deletion **items; /* [deletions->count] */
    uint32_t count;
    uint32_t series; /* at hand; FG_MAP_NONE: none */
};
/* Initialises it. Returns false if the arena is full. */
bool cmp_merge_naming_init(struct cmp_merge_naming *naming, const struct fg_deletions *deletions,
                           struct fg_arena *arena) fg_must_check;

/* Returns the deletion that removes this profile; NULL: it stays. */
struct fg_deletion *cmp_merge_naming_find(struct cmp_merge_naming *naming,
                                          const struct cmp_merge_part *part, uint32_t series,
                                          int64_t time_ns);

/* A bit for each profile of a part. */
struct cmp_merge_choice {
    uint8_t *bits; /* in the arena */
    uint64_t count;
};

/* Returns true if the profile was chosen. */
static inline bool cmp_merge_chosen(const struct cmp_merge_choice *choice, uint32_t profile)
{
    return (choice->bits[profile >> 3] >> (profile & 7) & 1) != 0;
}

/* Returns true if one of [first, first + count) was chosen. */
bool cmp_merge_chosen_any(const struct cmp_merge_choice *choice, uint32_t first, uint32_t count);

/* Profiles to leave out, by their ids, ascending. Borrowed. */
struct cmp_merge_without {
    const struct fg_id *ids;
    size_t count;
};

/* Returns true if the list has the id. */
bool cmp_merge_is_without(const struct cmp_merge_without *without, struct fg_id id);

/* Chooses among the profiles of a part, by reading its rows. Resets scratch. */
enum fg_code cmp_merge_choose(const struct cmp_merge_part *part, const struct cmp_merge_span *span,
                              const struct fg_deletions *deletions,
                              const struct cmp_merge_without *without, struct fg_arena *arena,
                              struct fg_arena *scratch, struct cmp_merge_choice *ret_choice,
                              struct fg_err *err) fg_must_check;

#endif
