/*
 * A series of the catalog, in one piece of memory that is freed when it is retired, and its
 * definition as it is in the store (keys.h, SERIES).
 *
 * There may be a million series, and most differ only in a few label values. A kind, shared by the
 * series of a tenant, has what they have in common: label names, __name__, types. The series itself
 * has the remaining label values, except the name of its service.
 *
 *   series -> kind       names of labels, __name__, types and period
 *          -> service    service_name
 *          values of the other labels, in the same piece of memory
 */
#ifndef FG_INGESTER_SERIES_H
#define FG_INGESTER_SERIES_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/model/batch.h"

#include <stdatomic.h>

/* The first member of what the catalog allocates by the piece. */
struct ing_catalog_memory {
    struct ing_catalog_memory *next; /* in the list of memory to free */
    size_t bytes;
};

/* A profile type of a kind, and the text of it that is the label __profile_type__. */
struct ing_series_type {
    struct fg_profile_type parts;
    struct fg_slice text;
};

/* What series of a tenant have in common. One allocation; immutable except n_series. */
struct ing_series_kind {
    struct ing_catalog_memory memory;
    uint64_t n_series;
    struct fg_id id;
    struct fg_slice *names; /* [n_names]: of labels, in their order */
    size_t n_names;
    struct ing_series_type *types; /* [n_types] */
    uint32_t n_types;
};

struct ing_catalog_series {
    struct ing_catalog_memory memory;
    uint32_t number; /* in its tenant */
    uint16_t shard;
    struct ing_catalog_service *service;
    struct ing_series_kind *kind; /* set by ing_series_bind() */
    struct fg_labels labels;      /* with __name__, without those made from the type */
    struct fg_id id;              /* ing_series_id() */
    /* Types that ever had a value: bit t. Other types are not listed and answer nothing. */
    _Atomic uint64_t seen;
    _Atomic uint64_t stored; /* those that the definition on disk names */
    _Atomic bool durable;
    /* The times of its profiles since the start; a later profile widens them. */
    _Atomic int64_t least_ns, greatest_ns;
    _Atomic uint64_t found; /* the epoch in which a push found it last */
    uint32_t chunks_before; /* the committer's: the chunks that have profiles of it began before so
                              many cuts */
};

/* The definition of a series: two with the same definition are one. Borrowed. */
struct ing_series_def {
    uint16_t shard; /* with which its profiles came; it depends on the tenant's shard factor then */
    struct fg_labels labels;
    struct fg_value_type period, *types;
    uint32_t n_types;
};

/* Returns the id of a series: a hash of its definition. */
struct fg_id ing_series_id(const struct ing_series_def *def);

/* Creates the kind of such series. The caller frees it with free(). */
struct ing_series_kind *ing_series_kind_make(const struct ing_series_def *def);

/* Returns the id of the kind of such series. */
struct fg_id ing_series_kind_id(const struct ing_series_def *def);

/* Creates a series without number and kind, which is not stored yet. Borrows a label value that
 * equals `service`, the name of its service: the service must outlive the series. The caller frees
 * it with free(). */
struct ing_catalog_series *ing_series_make(const struct ing_series_def *def,
                                           struct fg_slice service);

/* Sets the kind, which must be that of the definition and outlive the series. Before, the labels
 * have no names. */
void ing_series_bind(struct ing_catalog_series *series, struct ing_series_kind *kind);

/* Returns the value of one label of ing_series_type_labels(), or an empty slice. */
struct fg_slice ing_series_label(const struct ing_catalog_series *series, uint32_t type,
                                 struct fg_slice name);

/* Returns the labels with which queries see one of the series' types (fg_labels_with_type()). The
 * array and some values are in the arena; items is NULL if the arena is full. */
struct fg_labels ing_series_type_labels(const struct ing_catalog_series *series, uint32_t type,
                                        struct fg_arena *arena);

/* Appends the value of the definition. service: the number of its service. */
void ing_series_encode(const struct ing_catalog_series *series, uint32_t service,
                       struct fg_buf *out);

struct ing_series_stored {
    struct ing_series_def def;
    uint64_t service, seen;
};

/* Reads a definition. The result borrows from `in`, with arrays in the arena. FG_E_CORRUPT. */
enum fg_code ing_series_decode(struct fg_slice in, struct fg_arena *arena,
                               struct ing_series_stored *ret_stored,
                               struct fg_err *err) fg_must_check;

#endif
