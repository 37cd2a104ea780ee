/*
 * A series of the catalog, in one piece of memory that is returned when it leaves; and its
 * definition as it stands in the store (keys.h, SERIES).
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

struct catalog_series {
    struct catalog_memory memory;
    uint32_t number; /* in its tenant */
    uint16_t shard;
    struct catalog_service *service;
    struct fg_labels labels;       /* with __name__, without those made from the type */
    struct fg_labels *by_type;     /* [n_types]: what queries see, fg_labels_with_type() */
    struct fg_profile_type *types; /* [n_types] */
    uint32_t n_types;
    struct fg_id id; /* series_id() */
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

/* Without number and service; nothing was stored of it. Released with free(). */
struct catalog_series *series_make(const struct series_def *def);

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
