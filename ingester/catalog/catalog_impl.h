/*
 * What the files of the catalog share.
 *
 *     catalog.c   finding and adding; epochs; definitions
 *     sweep.c     what nothing holds any more leaves
 *     select.c    which series a query is about
 *     load.c      reading back at the start
 */
#ifndef FG_INGESTER_CATALOG_IMPL_H
#define FG_INGESTER_CATALOG_IMPL_H

#include "common/runtime/rwlock.h"
#include "ingester/catalog/catalog.h"
#include "ingester/catalog/hash_table.h"

struct ing_catalog_tenant {
    struct fg_slice name; /* "": the number was given to a push that failed, or the name is lost */
    uint32_t number;
    _Atomic bool durable;
    _Atomic bool lacks; /* see ing_catalog_tenant_lacks() */

    struct ing_hash_table services; /* by the hash of the name */
    struct ing_hash_table series;   /* by fg_id_table(id) */
    struct ing_hash_table kinds;    /* of these series, likewise */
    uint32_t next_series;           /* number */
    uint64_t bytes;                 /* of services, series and kinds, without the tables */
};

/* Both have struct ing_catalog_memory first. */
struct ing_catalog {
    struct fg_rwlock lock;
    uint64_t max_bytes;
    uint32_t tenants_max;
    uint32_t n_active; /* tenants that have services */
    _Atomic uint64_t refused[CATALOG_REFUSALS];
    uint64_t bytes;
    struct fg_arena *arena;              /* names of tenants */
    struct ing_catalog_tenant **tenants; /* by number */
    uint32_t n_tenants, cap_tenants;
    struct fg_map tenant_map;
    uint32_t next_service; /* number */

    /* Slots are those of this epoch and the one before, by turns. */
    uint64_t epoch;             /* from 2, so that what was never found was found long ago */
    _Atomic uint64_t guards[2]; /* taken in the epoch and not released yet */
    struct ing_catalog_memory *gone[2];

    uint32_t hand_tenant, hand_place;  /* where sweeping goes on */
    struct ing_catalog_service **idle; /* those without series, and some more */
    uint32_t n_idle, cap_idle;
};
enum { META_TENANT = 't', META_SERVICE = 's', META_NEXT = 'n' };

/* ---- catalog.c; under the lock, or while nobody else knows the catalog ---- */

/* Room for one more at the end of a malloc'ed array. */
void *ing_catalog_grown(void *array, uint32_t count, uint32_t *cap, size_t size);
void ing_catalog_compact_table(struct ing_catalog *catalog, struct ing_hash_table *table);

static inline bool ing_catalog_is_named(const struct ing_catalog_tenant *tenant)
{
    return tenant->name.len > 0;
}

/* Adds a tenant with the next number and no name. */
struct ing_catalog_tenant *ing_catalog_add_unnamed(struct ing_catalog *catalog);
/* Gives it a name, which is copied. */
void ing_catalog_name_tenant(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                             struct fg_slice name);
/* NULL: there is none. */
struct ing_catalog_service *ing_catalog_find_service(const struct ing_catalog_tenant *tenant,
                                                     struct fg_slice name, uint32_t *ret_place);
struct ing_catalog_service *ing_catalog_add_service(struct ing_catalog *catalog,
                                                    struct ing_catalog_tenant *tenant,
                                                    struct fg_slice name, uint32_t number);
/* Takes the series over, which was made of the definition for this service. kind_id:
 * ing_series_kind_id(). */
void ing_catalog_add_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                            struct ing_catalog_service *service, const struct ing_series_def *def,
                            struct fg_id kind_id, struct ing_catalog_series *series,
                            uint32_t number);
/* It is out of reach: its kind has one series less, and goes as well if it was the last. */
void ing_catalog_drop_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                             struct ing_catalog_series *series);
/* It is looked at some day whether it has series. */
void ing_catalog_add_idle(struct ing_catalog *catalog, struct ing_catalog_service *service);

/* May a push that found it be inside? */
bool ing_catalog_in_use(const struct ing_catalog *catalog, const _Atomic uint64_t *found);
/* It is out of the tenant's reach; it is freed when nobody is inside any more who may have met it.
 */
void ing_catalog_make_gone(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                           struct ing_catalog_memory *memory);
/* The next epoch begins, if nobody is left who entered before this one did. Takes the lock. */
void ing_catalog_turn_epoch(struct ing_catalog *catalog);

/* Keys of definitions; out is initialised here. */
void ing_catalog_service_key(const struct ing_catalog_service *service, struct fg_buf *out);
void ing_catalog_series_key(const struct ing_catalog_tenant *tenant,
                            const struct ing_catalog_series *series, struct fg_buf *out);
/* Numbers up to it are not given again, though nothing in the store has them. tenant: of whose
 * series; NULL: services. */
void ing_catalog_put_next(const struct ing_catalog_tenant *tenant, uint32_t next,
                          struct fg_store_batch *out);

/* ---- load.c ---- */

/* As ing_catalog_open(). */
enum fg_code ing_catalog_load(struct ing_catalog *catalog, struct fg_store *store,
                              struct ing_damage *damage, struct fg_err *err) fg_must_check;

#endif
