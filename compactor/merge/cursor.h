/*
 * Walks over the chosen profiles of a part: by stretches of time, and within a stretch series by
 * series. If stretches are the part's time stripes, or several of them, it reads pages one after
 * the other. It keeps one unpacked page of each kind.
 *
 * Thread: one at a time.
 */
#ifndef FG_COMPACTOR_MERGE_CURSOR_H
#define FG_COMPACTOR_MERGE_CURSOR_H

#include "common/storage/block/writer.h"
#include "compactor/merge/choose.h"

/* The next profile of a series. */
struct cmp_merge_place {
    uint32_t run; /* of the series' own */
    uint32_t profile;
};

struct cmp_merge_cursor {
    struct cmp_merge_part part;
    struct cmp_merge_choice choice;
    uint32_t *stacks;  /* of a rank: the stack's number in the union */
    uint32_t *numbers; /* of a series: its number in what is written; FG_MAP_NONE: not there */

    struct cmp_merge_place *places; /* of a series; zero at first */

    int64_t until_ns;              /* of the stretch at hand, inclusive */
    uint32_t series;               /* at hand; part.index.n_series: no more */
    struct fg_block_series header; /* of it; borrowed from the index */
    bool has_profile;              /* that is: there is one at hand, of the series */
    uint32_t profile;
    int64_t time_ns; /* of the profile at hand */
    struct fg_id id;

    /* The cursor's own. */
    struct fg_arena *rows_arena, *ids_arena, *links_arena;
    struct fg_block_samples *samples;
    struct fg_block_rows rows;
    struct fg_id *ids;             /* of the page of rows */
    struct fg_profile_size *sizes; /* likewise; NULL: all are unknown */
    uint32_t samples_page;         /* opened; FG_MAP_NONE: none */
    struct fg_block_exemplars links;
    uint32_t next_link;
};

/* Initialises the cursor's own fields; the caller has set part, choice, stacks, numbers and places.
 * page_max_bytes: of unpacked pages. */
void cmp_merge_cursor_init(struct cmp_merge_cursor *cursor, size_t page_max_bytes);
/* Frees what it holds. */
void cmp_merge_cursor_done(struct cmp_merge_cursor *cursor);

/* Moves to the next series that has a chosen profile at any time, without reading profiles;
 * `first`: to the first one. A walk of its own, apart from the others. */
void cmp_merge_cursor_list(struct cmp_merge_cursor *cursor, bool first);

/* Begins a stretch: everything that is left up to until_ns. Stretches ascend. Moves to the first
 * series with a chosen profile in it, and to the first of these. */
enum fg_code cmp_merge_cursor_begin(struct cmp_merge_cursor *cursor, int64_t until_ns,
                                    struct fg_err *err) fg_must_check;

/* Moves to the next such series. */
enum fg_code cmp_merge_cursor_series(struct cmp_merge_cursor *cursor,
                                     struct fg_err *err) fg_must_check;

/* Moves to the next chosen profile of the series in the stretch. */
enum fg_code cmp_merge_cursor_next(struct cmp_merge_cursor *cursor,
                                   struct fg_err *err) fg_must_check;

/* Reads the samples of any profile of the part, by rank. Only after the walk. Valid until the next
 * call. */
enum fg_code cmp_merge_cursor_samples(struct cmp_merge_cursor *cursor, uint32_t profile,
                                      struct fg_block_sample_set *ret_set,
                                      struct fg_err *err) fg_must_check;

/* A buffer into which profiles are read one after the other. */
struct cmp_merge_profile {
    struct fg_block_profile profile;
    uint32_t *stacks;
    struct fg_block_link *links;
    uint64_t *link_values;
    uint32_t cap_stacks, cap_links;
    size_t cap_link_values;
};
/* Frees the buffer. */
void cmp_merge_profile_done(struct cmp_merge_profile *profile);

/* Reads the whole current profile; valid until the cursor moves or `into` is used again. */
enum fg_code cmp_merge_cursor_read(struct cmp_merge_cursor *cursor, struct cmp_merge_profile *into,
                                   struct fg_err *err) fg_must_check;

#endif
