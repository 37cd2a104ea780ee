/*
 * The roster of a part's index: what counting its series needs, without a look at the series
 * themselves. For a million series it is a walk over 20 MB instead of 500 MB.
 *
 * Thread: a roster never changes; any thread may use it. Memory: its own.
 */
#ifndef FG_QUERIER_BLOCKS_ROSTER_H
#define FG_QUERIER_BLOCKS_ROSTER_H

#include "common/storage/block/reader.h"

/* Series of the same schema, name and types. The labels made from their types are the same. */
struct qry_roster_class {
    const struct fg_block_series_row *row; /* the first of them */
    uint64_t seen;
};

struct qry_roster {
    struct fg_id *prints; /* [n_series]: fg_labels_hash() */
    uint32_t *class_of;   /* [n_series] */
    struct qry_roster_class *classes;
    uint32_t n_classes, cap_classes;
};

/* Makes the roster of an index, from which it borrows. */
struct qry_roster *qry_roster_make(const struct fg_block_index *index);
void qry_roster_destroy(struct qry_roster *roster); /* accepts NULL */

/* Returns the memory of a roster in bytes, apart from its classes, which are few. */
size_t qry_roster_bytes(const struct fg_block_index *index);

#endif
