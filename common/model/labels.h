/*
 * A label set is a list of names and values, sorted by name. Each name occurs once. No value is
 * empty, since an empty value means that the label is missing. The set borrows its texts.
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

/* Names with a meaning. Those with two underscores are private; queries list them like others
 * (distributor/API.md#labels-of-a-stored-series). */
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

/* Sorts the labels by name, in place. Keeps the last of several labels with the same name, and
 * removes empty values. */
void fg_labels_sort(struct fg_labels *labels);

/* Returns the value of a label. ptr is NULL and len 0 if the label is missing. */
struct fg_slice fg_labels_get(const struct fg_labels *labels, const char *name);

/* Finds the position of a label in a sorted set. Returns false if it is missing; *ret_at is where
 * it belongs then. */
bool fg_labels_find(const struct fg_labels *labels, struct fg_slice name, size_t *ret_at);

/* Removes a label from a sorted set, in place. */
void fg_labels_remove(struct fg_labels *labels, struct fg_slice name);

/* Compares label by label: name, then value. A prefix sorts first. */
int fg_labels_cmp(const struct fg_labels *a, const struct fg_labels *b);

/* Returns the labels with these names, in the order of the set; all labels if n_names is 0. The
 * texts are borrowed; the array is in the arena. items is NULL at its limit. */
struct fg_labels fg_labels_restrict(const struct fg_labels *labels, const char *const *names,
                                    size_t n_names, struct fg_arena *arena);

/* Returns the labels with these names, in the order of the names, as a key to group by. With
 * n_names 0 the result is empty. Memory as above. */
struct fg_labels fg_labels_group(const struct fg_labels *labels, const char *const *names,
                                 size_t n_names, struct fg_arena *arena);

/* Returns a copy with its texts in the arena. items is NULL at its limit. */
struct fg_labels fg_labels_copy(const struct fg_labels *labels, struct fg_arena *arena);

/* Returns the content hash of the set. */
struct fg_id fg_labels_hash(const struct fg_labels *labels);

/* Appends the encoded set. */
void fg_labels_encode(const struct fg_labels *labels, struct fg_buf *out);

/*
 * Decodes all of `in`, from which the texts are borrowed; the array is in the arena. Does not sort:
 * order and uniqueness are those of the encoder. FG_E_CORRUPT; FG_E_LIMIT: the arena is full.
 */
enum fg_code fg_labels_decode(struct fg_slice in, struct fg_arena *arena,
                              struct fg_labels *ret_labels, struct fg_err *err) fg_must_check;

/* Writes {name="value", name2="value2"} with strings quoted as in Go, for error texts. */
void fg_labels_write(const struct fg_labels *labels, struct fg_buf *out);

/* Writes text in quotes, as Go's strconv.Quote() does. */
void fg_labels_quote(struct fg_slice text, struct fg_buf *out);

/*
 * The five parts of a profile type, name:sample_type:sample_unit:period_type:period_unit; parts may
 * be empty. Borrowed.
 */
struct fg_profile_type {
    struct fg_slice name, type, unit, period_type, period_unit;
};

/* Parses a profile type. It accepts and ignores a sixth part. FG_E_INVALID names the form
 * (querier/API.md#profile-types). */
enum fg_code fg_profile_type_parse(struct fg_slice text, struct fg_profile_type *ret_type,
                                   struct fg_err *err) fg_must_check;
void fg_profile_type_write(const struct fg_profile_type *type, struct fg_buf *out);
bool fg_profile_type_eq(const struct fg_profile_type *a, const struct fg_profile_type *b);

/* Tells whether profiles of a type say what there is at a moment, as memory in use, and not what
 * happened since the profile before. Such values are not divided by time. */
bool fg_profile_type_is_moment(const struct fg_profile_type *type);

/*
 * Returns the label set that queries see for one profile type of a stored series: the labels of the
 * series and the private labels derived from the type
 * (distributor/API.md#labels-of-a-stored-series). Array and new values are in the arena; items is
 * NULL at its limit.
 */
struct fg_labels fg_labels_with_type(const struct fg_labels *series,
                                     const struct fg_profile_type *type, struct fg_arena *arena);

#endif
