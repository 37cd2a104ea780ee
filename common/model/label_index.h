/*
 * A label index says which series have which labels, without the label sets: for each series a
 * print, and for each label the series that have it. It is how cardinalities are counted: a million
 * series are tens of megabytes instead of hundreds, and a series that comes from several places (a
 * head, a segment, a block) is recognised by its print.
 *
 * The print of a series is fg_labels_hash() of its stored labels, without those that are made from
 * the profile type. It has 128 bits, so two series practically never have the same one: numbers
 * made from prints are exact.
 *
 * Labels made from the type (fg_label_is_of_type()) are apart, since a series may have several
 * values of one such label, and other types in other places:
 *   - In an index of all labels, a mark says which of these names a series has, and `of_types`
 * lists their values.
 *   - In an index of one such label, what is counted is pairs of a series and a value. Their prints
 *     follow those of the series.
 *
 * Encoded (a payload of SERIES in proto/inner.proto):
 *   varint n_series, n_series times 16 bytes, n_series marks of a byte
 *   varint n_prints - n_series, as often 16 bytes
 *   varint n names, n times: varint-length name, varint n values, as often: varint-length value,
 *     varint n series, as often: varint difference to the one before
 *   varint n_of_types, as often varint-length name, varint-length value
 *
 * Thread: one at a time. Memory: the arena's.
 */
#ifndef FG_COMMON_MODEL_LABEL_INDEX_H
#define FG_COMMON_MODEL_LABEL_INDEX_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/map.h"
#include "common/model/labels.h"

enum {
    FG_LABEL_NAMES_OF_TYPE = 6,
    FG_LABEL_SELECTED = 1 << 7, /* in a mark: the series counts. Below it a bit for each name */
};

/* Names of the labels that are made from the type, by the number of their bit in a mark. __name__
 * is none of them, since it is stored as well. */
extern const char *const fg_label_names_of_type[FG_LABEL_NAMES_OF_TYPE];

/* Returns true if the label is made from the type. */
bool fg_label_is_of_type(struct fg_slice name);

/* Returns the value of the label with the number `at` in fg_label_names_of_type. type_text: the
 * type as a text. Empty: there is none. */
struct fg_slice fg_label_of_type(unsigned at, const struct fg_profile_type *type,
                                 struct fg_slice type_text, struct fg_slice service);

/* The series that have a label. */
struct fg_label_posting {
    struct fg_slice name, value;
    uint32_t *series; /* ascending */
    uint32_t n_series;
};

struct fg_label_index {
    const struct fg_id *prints; /* [n_prints] */
    const uint8_t *marks;       /* [n_prints]; 0: is not selected, and does not count */
    uint32_t n_series, n_prints;
    const struct fg_label_posting *postings; /* ascending by name, then value */
    uint32_t n_postings;
    const struct fg_label *of_types;
    uint32_t n_of_types;
    /* All series are of this service, and those with the same print are neighbours; ptr NULL: maybe
     * not. */
    struct fg_slice service;
    struct fg_label left; /* the first posting that is left out, with all after it, since memory was
                             full; value.ptr NULL: none is */
};

/* Returns the print of a pair of a series and a value of a label that is made from the type. */
struct fg_id fg_label_pair_print(struct fg_id series, struct fg_slice value);

/* Returns the number of the first posting that is not before (name, value). */
uint32_t fg_label_posting_find(const struct fg_label_posting *postings, uint32_t n,
                               struct fg_slice name, struct fg_slice value);

/* ---- making one ---- */

/* Makes an index of series, of one label or of all. */
struct fg_label_indexing {
    struct fg_arena *arena;
    const char *label; /* NULL: all */
    int of_type;       /* the number of `label` among the names of types; -1: it is none of them */
    struct fg_id *prints, *pairs;
    uint8_t *marks;
    struct fg_label *labels; /* distinct */
    struct fg_label *of_types;
    uint64_t *uses; /* label << 32 | series, or the number of a pair */
    uint32_t n_prints, n_pairs, n_labels, n_of_types, n_uses;
    uint32_t cap_prints, cap_pairs, cap_marks, cap_labels, cap_of_types, cap_uses;
    struct fg_map by_label, by_of_type;
    struct fg_slice service; /* of the last series */
};

/* Begins an empty index. label and the arena are borrowed. */
void fg_label_indexing_init(struct fg_label_indexing *indexing, const char *label,
                            struct fg_arena *arena);

/* Adds a series by its stored labels, which are borrowed. Labels that are made from a type are
 * skipped. print: that of the series; NULL: it is computed. Returns false if the arena is full:
 * nothing can be added any more. */
bool fg_label_indexing_series(struct fg_label_indexing *indexing, const struct fg_labels *labels,
                              const struct fg_id *print) fg_must_check;

/* Adds a type of the last series. type and text are borrowed. Returns false as above. */
bool fg_label_indexing_type(struct fg_label_indexing *indexing, const struct fg_profile_type *type,
                            struct fg_slice text) fg_must_check;

/* Adds a series and one type of it by the labels that queries see (fg_labels_with_type()), which
 * are borrowed. Returns false as above. */
bool fg_label_indexing_set(struct fg_label_indexing *indexing,
                           const struct fg_labels *labels) fg_must_check;

/* Ends it: sorts what was added. FG_E_LIMIT: the arena is full. */
enum fg_code fg_label_indexing_end(struct fg_label_indexing *indexing,
                                   struct fg_label_index *ret_index,
                                   struct fg_err *err) fg_must_check;

/* ---- sending one ---- */

/* Appends the encoded index. All of its series are selected. */
void fg_label_index_encode(const struct fg_label_index *index, struct fg_buf *out);

/* Decodes all of `in`, from which the texts are borrowed; arrays are in the arena. Postings that do
 * not fit there are left out (ret_index->left). FG_E_CORRUPT; FG_E_LIMIT: all else does not fit
 * either. */
enum fg_code fg_label_index_decode(struct fg_slice in, struct fg_arena *arena,
                                   struct fg_label_index *ret_index,
                                   struct fg_err *err) fg_must_check;

#endif
