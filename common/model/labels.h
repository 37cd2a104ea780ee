/*
 * Label sets: names and values, sorted by name, each name once, no empty value (an empty value is
 * the same as no label). The set is borrowed: it lives as long as the bytes its slices point at.
 *
 * Encoded (wire and store): varint count, then for each label varint-length name, varint-length
 * value.
 */
#ifndef FG_COMMON_MODEL_LABELS_H
#define FG_COMMON_MODEL_LABELS_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/hash.h"

struct fg_label {
    struct fg_slice name, value;
};

struct fg_labels {
    struct fg_label *items;
    size_t count;
};

/* Names that mean something to us. Those with two underscores are private: shown only when asked
 * for. */
#define FG_LABEL_NAME         "__name__"         /* first part of the profile type: process_cpu */
#define FG_LABEL_PROFILE_TYPE "__profile_type__" /* process_cpu:cpu:nanoseconds:cpu:nanoseconds */
#define FG_LABEL_TYPE         "__type__"
#define FG_LABEL_UNIT         "__unit__"
#define FG_LABEL_PERIOD_TYPE  "__period_type__"
#define FG_LABEL_PERIOD_UNIT  "__period_unit__"
#define FG_LABEL_DELTA        "__delta__" /* how clients send; not stored */
#define FG_LABEL_ORDER        "__order__" /* the same */
#define FG_LABEL_SERVICE      "service_name"
#define FG_LABEL_SERVICE_COPY "__service_name__"

/* Sorts by name. Of equal names the last given stays; empty values go. Changes labels in place. */
void fg_labels_sort(struct fg_labels *labels);

/* Value of the label; ptr NULL and len 0 when it is not there. */
struct fg_slice fg_labels_get(const struct fg_labels *labels, const char *name);

/* For sorted sets: where the label is; false: it is not there, but belongs there. */
bool fg_labels_find(const struct fg_labels *labels, struct fg_slice name, size_t *ret_at);

/* For sorted sets: changes labels in place. */
void fg_labels_remove(struct fg_labels *labels, struct fg_slice name);

/* Order by the labels one after another: name, then value; a prefix comes first. */
int fg_labels_cmp(const struct fg_labels *a, const struct fg_labels *b);

/* Those of the names, in the order of the set; all where there are no names. Borrows; the array is
 * the arena's, items NULL at its limit. */
struct fg_labels fg_labels_restrict(const struct fg_labels *labels, const char *const *names,
                                    size_t n_names, struct fg_arena *arena);

/* Those of the names that are there, in the order of the names: what points are grouped by. As
 * above, but that no names are no labels. */
struct fg_labels fg_labels_group(const struct fg_labels *labels, const char *const *names,
                                 size_t n_names, struct fg_arena *arena);

/* With its own bytes; items NULL at the arena's limit. */
struct fg_labels fg_labels_copy(const struct fg_labels *labels, struct fg_arena *arena);

/* Content hash of the set. */
struct fg_id fg_labels_hash(const struct fg_labels *labels);

void fg_labels_encode(const struct fg_labels *labels, struct fg_buf *out);

/*
 * Borrows from `in`, array in the arena. FG_E_CORRUPT, FG_E_LIMIT. Consumes all of `in`. Does not
 * sort: order and uniqueness are as the encoder had them.
 */
enum fg_code fg_labels_decode(struct fg_slice in, struct fg_arena *arena,
                              struct fg_labels *ret_labels, struct fg_err *err) fg_must_check;

/* {name="value", name2="value2"} with Go's quoting of strings, as our error texts show label sets.
 */
void fg_labels_write(const struct fg_labels *labels, struct fg_buf *out);

/* "text" with its quotes, as Go's strconv.Quote() writes it. */
void fg_labels_quote(struct fg_slice text, struct fg_buf *out);

/*
 * The five parts of a profile type, name:sample_type:sample_unit:period_type:period_unit; parts may
 * be empty. Borrowed.
 */
struct fg_profile_type {
    struct fg_slice name, type, unit, period_type, period_unit;
};

/* A sixth part is accepted and ignored. FG_E_INVALID otherwise, with the form of
 * querier/API.md#profile-types. */
enum fg_code fg_profile_type_parse(struct fg_slice text, struct fg_profile_type *ret_type,
                                   struct fg_err *err) fg_must_check;
void fg_profile_type_write(const struct fg_profile_type *type, struct fg_buf *out);
bool fg_profile_type_eq(const struct fg_profile_type *a, const struct fg_profile_type *b);

/*
 * The label set that queries see for one profile type of a stored series: the series' own labels
 * and the private ones made from the type (distributor/API.md#labels-of-a-stored-series). Array and
 * new values in the arena; items NULL at its limit.
 */
struct fg_labels fg_labels_with_type(const struct fg_labels *series,
                                     const struct fg_profile_type *type, struct fg_arena *arena);

#endif
