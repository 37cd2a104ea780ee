/*
 * A tally of a set of profiles: their number, the sum of their ids, and a fingerprint of the totals
 * of every series and type. Tallies add up in any order and for any division of the set. So
 * the input of a merge is compared with its output, in all blocks together, in constant memory.
 *
 * The fingerprint is the sum, over profiles and types, of total * c modulo 2^64, with c a hash of
 * service, series and type; twice, with two hashes. Two sets with different totals have the same
 * fingerprint with a probability of 2^-128.
 *
 * Thread: any; pure values.
 */
#ifndef FG_COMPACTOR_MERGE_TALLY_H
#define FG_COMPACTOR_MERGE_TALLY_H

#include "compactor/merge/source.h"

struct cmp_merge_tally {
    uint64_t profiles, samples;
    struct fg_id digest;
    uint64_t totals[2];
};

/* Adds a tally to another. */
void cmp_merge_tally_add(struct cmp_merge_tally *tally, const struct cmp_merge_tally *more);
/* Returns true if both are equal. */
bool cmp_merge_tally_eq(const struct cmp_merge_tally *a, const struct cmp_merge_tally *b);

/* Compares input and output. FG_E_INTERNAL: they differ; the text has both. */
enum fg_code cmp_merge_tally_check(const struct cmp_merge_tally *in,
                                   const struct cmp_merge_tally *out,
                                   struct fg_err *err) fg_must_check;

/* The factors of the current series, kept from row to row. */
struct cmp_merge_factors {
    uint32_t series; /* FG_MAP_NONE: none yet */
    uint32_t n_types;
    uint64_t of_type[FG_BATCH_TYPES_MAX][2];
};

/* Adds row i of a page that was scanned with ids. */
void cmp_merge_tally_row(struct cmp_merge_tally *tally, struct cmp_merge_factors *factors,
                         const struct cmp_merge_part *part, const struct cmp_merge_rows *rows,
                         uint32_t i);

/* Adds all profiles of the part. Resets scratch. */
enum fg_code cmp_merge_tally_part(struct cmp_merge_tally *tally, const struct cmp_merge_part *part,
                                  struct fg_arena *scratch, struct fg_err *err) fg_must_check;

#endif
