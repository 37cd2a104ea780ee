/*
 * A set of prints of series (common/model/label_index.h), each with flags: which ones were seen. It
 * is fed index by index.
 *
 * A print is looked for in a hash table, which for a million of them is most of what counting
 * costs. But an index of a service of which there is no other index has only series of its own: its
 * prints are put aside, in their order, without a table. They are looked through when an index
 * comes that may have some of them: one of the same service, or one of several services, as
 * ingesters send. If that one is small, it is what the prints that are aside are looked for in.
 *
 * Thread: one at a time. Memory: the table is at most max_bytes, and what is aside a quarter of it.
 */
#ifndef FG_QUERIER_PRINT_SET_H
#define FG_QUERIER_PRINT_SET_H

#include "common/model/label_index.h"

/* Prints of an index that are in no table. */
struct qry_prints_aside {
    struct fg_id service; /* hash of its name */
    struct fg_id *prints;
    uint16_t *flags;
    uint32_t n;
};

enum { QRY_PRINTS_ASIDE_MAX = 256 }; /* indexes; they are looked through one by one */

struct qry_print_set {
    /* Open addressing, never more than 3/4 full. */
    struct fg_id *prints;
    uint16_t *flags; /* 0: the place is free */
    uint32_t n_places, n;
    uint64_t max_bytes;
    uint64_t seed; /* of the hash table */

    struct qry_prints_aside asides[QRY_PRINTS_ASIDE_MAX];
    unsigned n_asides;
    uint64_t n_aside;                /* prints of all of them */
    struct qry_prints_aside *adding; /* that the current index is put into; NULL: the table */
};

/* Begins an empty set. */
void qry_print_set_init(struct qry_print_set *set, uint64_t max_bytes);
/* Frees it. Accepts a zeroed one. */
void qry_print_set_done(struct qry_print_set *set);

/* Begins an index, with room for its prints: those that follow are the ones that have a mark. */
void qry_print_set_begin(struct qry_print_set *set, const struct fg_label_index *index);

/* Grows the table for more prints, within max_bytes. Only for sets that are fed without indexes. */
void qry_print_set_make_room(struct qry_print_set *set, uint64_t more);

/* Sets flags of a print, which is added if it is new. Returns false if there is no room for it.
 * *ret_flags: those it had. flags: bits above 14 are the set's own. */
bool qry_print_set_touch(struct qry_print_set *set, struct fg_id print, uint16_t flags,
                         uint16_t *ret_flags);

/* Loads the place of a print into the processor's cache. */
void qry_print_set_load(const struct qry_print_set *set, struct fg_id print);

/* Removes flags of all prints. */
void qry_print_set_clear(struct qry_print_set *set, uint16_t flags);

#endif
