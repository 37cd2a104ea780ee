/*
 * A record is a profile as the head stores it: numbers of dictionary nodes and columns of values.
 *
 *   varint version 1, varint generation of the dictionary, varint duration / ns, varint period,
 *   varint n_types, varint n_samples
 *   totals: n_types varints
 *   nodes: n_samples varints, ascending, each the difference to the one before
 *   columns, one for each type: u8 kind
 *     0 zero       every value is 0
 *     1 scaled     varint scale, n_samples varints: value / scale (scale divides them all)
 *     2 multiple   varint earlier column, varint factor: value = factor * value there
 *   links: varint n, n times varint sample, le64 span, trace 16 bytes
 *   size: varint wire bytes, varint raw bytes; absent if unknown
 *
 * The size is at the end, which older versions do not read; their records have none.
 *
 * Values are never negative. CPU nanoseconds are a multiple of the sample count, and values of one
 * type have the period as a common divisor, so most values take one byte.
 */
#ifndef FG_INGESTER_RECORD_H
#define FG_INGESTER_RECORD_H

#include "common/base/radix.h"
#include "common/model/batch.h"

/*
 * Appends a record. samples: sorted by node (common/base/radix.h), profile->n_samples of them;
 * index: the position of each in the profile's columns. positions: scratch of n_samples numbers.
 */
void ing_record_encode(const struct fg_profile *profile, uint32_t n_types, uint32_t generation,
                       const struct fg_keyed *samples, uint32_t *positions, struct fg_buf *out);

/* The front of a record; the rest is read on demand. Borrowed. */
struct ing_record {
    uint32_t generation, n_types, n_samples;
    int64_t duration_ns, period;
    struct fg_cur totals; /* at the first total */
};

/* Reads the front of a record. FG_E_CORRUPT. */
enum fg_code ing_record_open(struct fg_slice in, struct ing_record *ret_record,
                             struct fg_err *err) fg_must_check;

/* As before, for a record of which only the first bytes are there: it has totals, and no samples.
 * Returns false if the bytes do not reach to the last total. */
bool ing_record_open_front(struct fg_slice front, struct ing_record *ret_record) fg_must_check;

/* Returns the total of one type, without reading the samples. FG_E_CORRUPT. */
enum fg_code ing_record_total(const struct ing_record *record, uint32_t type, uint64_t *ret_total,
                              struct fg_err *err) fg_must_check;

/* Arrays for the content of a record, reused from record to record; zeroed before the first. */
struct ing_record_columns {
    uint32_t *nodes;  /* [n_samples] */
    uint64_t *values; /* [n_samples], of the type asked for */
    struct fg_link *links;
    uint32_t n_links;
    struct fg_profile_size size; /* read with links */
    uint32_t cap, cap_links;
};

/* Frees the arrays. */
void ing_record_columns_done(struct ing_record_columns *columns);

/* Reads nodes and values of one type, and, if `links`, the links and the size. FG_E_CORRUPT. */
enum fg_code ing_record_read(const struct ing_record *record, uint32_t type, bool links,
                             struct ing_record_columns *columns, struct fg_err *err) fg_must_check;

#endif
