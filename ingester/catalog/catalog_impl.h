/*
 * What the files of the catalog share; nobody else includes it.
 *
 *     catalog.c   finds and adds; epochs; definitions
 *     sweep.c     retires series and services
 *     select.c    selects series for queries
 *     load.c      reads the catalog at the start
 */
#ifndef FG_INGESTER_CATALOG_IMPL_H
#define FG_INGESTER_CATALOG_IMPL_H

#include "common/runtime/rwlock.h"
#include "ingester/catalog/catalog.h"
#include "ingester/catalog/hash_table.h"

/* A series of a tenant without a name: tells, by the hash in its shard, which tenant it cannot be.
 */
struct ing_catalog_trace {
    struct fg_slice service;
    uint16_t shard;
};
enum { CATALOG_TRACES_MAX = 8 /* of different services; each rules out 15 of 16 tenants */ };

struct ing_catalog_tenant {
    struct fg_slice name; /* "": the push that it was given to failed, or the name is lost */
    uint32_t number;
    _Atomic bool durable;
    _Atomic bool lacks, lacks_chunk; /* see ing_catalog_tenant_lacks(); for good */

    struct ing_hash_table services;   /* by the hash of the name */
    struct ing_hash_table series;     /* by fg_id_table(id) */
    struct ing_hash_table kinds;      /* of these series, likewise */
    uint32_t next_series;             /* number */
    uint64_t bytes;                   /* of services, series and kinds, without the tables */
    struct ing_catalog_trace *traces; /* NULL: none */
    uint32_t n_traces;
};

/* Both have struct ing_catalog_memory first. */
struct ing_catalog {
    struct fg_rwlock lock; /* of all below; pushes of known series take it for reading */
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

    /* [epoch & 1] is of this epoch, the other one of the epoch before. */
    uint64_t epoch;             /* from 2: what was never found has 0, which is long ago */
    _Atomic uint64_t guards[2]; /* taken in the epoch and not released yet */
    struct ing_catalog_memory *gone[2];

    uint32_t hand_tenant, hand_place;  /* where the next sweep continues */
    struct ing_catalog_service **idle; /* all services without series, and some others */
    uint32_t n_idle, cap_idle;
};
enum { META_TENANT = 't', META_SERVICE = 's', META_NEXT = 'n' };

/* ---- catalog.c; under the lock, or before the catalog is shared ---- */

/* Returns the array with room for one more element. */
void *ing_catalog_grown(void *array, uint32_t count, uint32_t *cap, size_t size);

/* Compacts a table and counts its memory. */
void ing_catalog_compact_table(struct ing_catalog *catalog, struct ing_hash_table *table);

/* Returns true if the tenant has a name. */
static inline bool ing_catalog_is_named(const struct ing_catalog_tenant *tenant)
{
    return tenant->name.len > 0;
}

/* Adds a tenant with the next number and no name. */
struct ing_catalog_tenant *ing_catalog_add_unnamed(struct ing_catalog *catalog);

/* Gives a tenant a name, which is copied. */
void ing_catalog_name_tenant(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                             struct fg_slice name);

/* Notes a series of a tenant without a name. Copies the service. */
void ing_catalog_add_trace(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                           struct fg_slice service, uint16_t shard);

/* Finds a service, or returns NULL. *ret_place: in the tenant's table. */
struct ing_catalog_service *ing_catalog_find_service(const struct ing_catalog_tenant *tenant,
                                                     struct fg_slice name, uint32_t *ret_place);

/* Adds a service with this number. */
struct ing_catalog_service *ing_catalog_add_service(struct ing_catalog *catalog,
                                                    struct ing_catalog_tenant *tenant,
                                                    struct fg_slice name, uint32_t number);

/* Adds a series that was made of the definition for this service, and owns it. kind_id:
 * ing_series_kind_id(). */
void ing_catalog_add_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                            struct ing_catalog_service *service, const struct ing_series_def *def,
                            struct fg_id kind_id, struct ing_catalog_series *series,
                            uint32_t number);

/* Counts a series off its kind, which is retired with its last series. */
void ing_catalog_drop_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                             struct ing_catalog_series *series);

/* Puts a service on the list of those that may have no series. */
void ing_catalog_add_idle(struct ing_catalog *catalog, struct ing_catalog_service *service);

/* Returns true if a push that found it may still hold its guard. */
bool ing_catalog_in_use(const struct ing_catalog *catalog, const _Atomic uint64_t *found);

/* Frees memory that is out of the tenant's reach, once no guard is held that was taken before. */
void ing_catalog_make_gone(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                           struct ing_catalog_memory *memory);

/* Begins the next epoch, if all guards of the epoch before are released. Takes the lock. */
void ing_catalog_turn_epoch(struct ing_catalog *catalog);

/* Set out, which they initialize, to the key of a definition. */
void ing_catalog_service_key(const struct ing_catalog_service *service, struct fg_buf *out);
void ing_catalog_series_key(const struct ing_catalog_tenant *tenant,
                            const struct ing_catalog_series *series, struct fg_buf *out);
/* Adds a put to a batch so that numbers below `next` are not given again, though nothing in the
 * store has them. tenant: of the series; NULL: of services. */
void ing_catalog_put_next(const struct ing_catalog_tenant *tenant, uint32_t next,
                          struct fg_store_batch *out);

/* ---- load.c ---- */

/* Reads the catalog: see ing_catalog_open(). */
enum fg_code ing_catalog_load(struct ing_catalog *catalog, struct fg_store *store,
                              struct ing_damage *damage, struct fg_err *err) fg_must_check;

#endif
