/*
 * A series of the catalog, in one piece of memory that is returned when it leaves; and its
 * definition as it stands in the store (keys.h, SERIES).
 *
 * There may be a million of them, and most differ in nothing but some values of labels. What they
 * have in common is in a kind, once for each tenant: names of labels, __name__, types. A series has
 * the values, except those that are its kind's and the name of its service.
 *
 *   series -> kind       names of labels, __name__, types and period
 *          -> service    service_name
 *          values of the other labels, in the same piece of memory
 */
#ifndef FG_INGESTER_SERIES_H
#define FG_INGESTER_SERIES_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/profile/batch.h"

#include <stdatomic.h>

/* The first of what the catalog allocates by the piece. */
struct catalog_memory {
    struct catalog_memory *next; /* of those that wait to be freed */
    size_t bytes;
};

/* A profile type of a kind, and the text of it that is the label __profile_type__. */
struct series_type {
    struct fg_profile_type parts;
    struct fg_slice text;
};

/* What series have in common. Immutable but for n_series, in one piece of memory. */
struct series_kind {
    struct catalog_memory memory;
    uint64_t n_series;
    struct fg_id id;
    struct fg_slice *names; /* [n_names]: of labels, in their order */
    size_t n_names;
    struct series_type *types; /* [n_types] */
    uint32_t n_types;
};

struct catalog_series {
    struct catalog_memory memory;
    uint32_t number; /* in its tenant */
    uint16_t shard;
    struct catalog_service *service;
    struct series_kind *kind; /* its own is set by series_bind() */
    struct fg_labels labels;  /* with __name__, without those made from the type */
    struct fg_id id;          /* series_id() */
    /* Types that ever had a value: bit t. The others are not listed and answer nothing. */
    _Atomic uint64_t seen;
    _Atomic uint64_t stored; /* those of them that the definition on disk says */
    _Atomic bool durable;
    /* No profile of it is before or after; one that comes makes them wider. */
    _Atomic int64_t least_ns, greatest_ns;
    _Atomic uint64_t found; /* the catalog's: in which epoch a push found it last */
    uint32_t
        held_before; /* the committer's: rounds with profiles of it began before so many cuts */
};

/* What makes two series one. Borrowed. */
struct series_def {
    uint16_t shard; /* as its profiles came: what its tenant's spread was */
    struct fg_labels labels;
    struct fg_value_type period, *types;
    uint32_t n_types;
};
struct fg_id series_id(const struct series_def *def);

/* Returns the kind of such series. Released with free(). */
struct series_kind *series_kind_make(const struct series_def *def);
struct fg_id series_kind_id(const struct series_def *def);

/* Returns a series without number and kind, of which nothing was stored. A value that equals
 * `service`, the name of its service, is borrowed from there, and whoever uses the service may free
 * it no earlier than the series. Released with free(). */
struct catalog_series *series_make(const struct series_def *def, struct fg_slice service);

/* Sets the kind, which has to be that of the definition and is freed no earlier than the series.
 * Until then its labels have no names. */
void series_bind(struct catalog_series *series, struct series_kind *kind);

/* Returns the value of a label that queries see of one of its types, as of series_type_labels().
 * Empty: it has no such label. */
struct fg_slice series_label(const struct catalog_series *series, uint32_t type,
                             struct fg_slice name);

/* Returns what queries see of one of its types, see fg_labels_with_type(). Array and some values in
 * the arena; items NULL at its limit. */
struct fg_labels series_type_labels(const struct catalog_series *series, uint32_t type,
                                    struct fg_arena *arena);

/* The value of its definition. service: its number. */
void series_encode(const struct catalog_series *series, uint32_t service, struct fg_buf *out);

struct series_stored {
    struct series_def def;
    uint64_t service, seen;
};
/* Borrows from `in`, arrays in the arena. FG_E_CORRUPT. */
enum fg_code series_decode(struct fg_slice in, struct fg_arena *arena,
                           struct series_stored *ret_stored, struct fg_err *err) fg_must_check;

#endif
