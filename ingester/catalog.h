/*
 * The catalog: which tenants, services and series the head knows. All of it is in memory, and in
 * the store as keys.h says; a restart reads it back.
 *
 * Numbers are given here and never change. A tenant, service or series is durable once it was in a
 * batch that was written; until then whoever uses it puts its definition into the same batch, so
 * that none of them depends on another push that may have failed.
 *
 * Thread: any; one lock inside. What is handed out lives as long as the catalog.
 */
#ifndef FG_INGESTER_CATALOG_H
#define FG_INGESTER_CATALOG_H

#include "common/base/arena.h"
#include "common/profile/batch.h"
#include "common/profile/selector.h"
#include "common/store/store.h"
#include "ingester/keys.h"

#include <stdatomic.h>

struct catalog;
struct catalog_tenant;

struct catalog_service {
    uint32_t number;
    struct fg_slice name;
    _Atomic bool durable;
    _Atomic uint32_t generation; /* of its dictionary: what is stored now belongs to it (dict.h) */
    _Atomic uint32_t valid_from; /* generations before it may not be written any more */
};

struct catalog_series {
    uint32_t number; /* in its tenant */
    uint16_t shard;
    const struct catalog_service *service;
    struct fg_labels labels;       /* with __name__, without those made from the type */
    struct fg_labels *by_type;     /* [n_types]: what queries see, fg_labels_with_type() */
    struct fg_profile_type *types; /* [n_types] */
    uint32_t n_types;
    struct fg_id id; /* hash of labels and schema */
    /* Types that ever had a value: bit t. The others are not listed and answer nothing. */
    _Atomic uint64_t seen;
    _Atomic uint64_t stored; /* those of them that the definition on disk says */
    _Atomic bool durable;
};

/*
 * Reads everything back. FG_E_CORRUPT, FG_E_UNAVAILABLE. spread: bits of the label hash in a shard.
 * max_bytes: memory beyond which nothing new is taken in: see catalog_is_full().
 */
enum fg_code catalog_open(struct fg_store *store, unsigned spread, uint64_t max_bytes,
                          struct catalog **ret_catalog, struct fg_err *err) fg_must_check;
void catalog_close(struct catalog *catalog);
size_t catalog_bytes(struct catalog *catalog);

/* No new tenants, services and series: what is known goes on. */
bool catalog_is_full(struct catalog *catalog);

/* Find or add; NULL when it is new and the catalog is full. */
struct catalog_tenant *catalog_tenant(struct catalog *catalog, struct fg_slice name);
/* Find; NULL when nothing is there. */
struct catalog_tenant *catalog_find_tenant(struct catalog *catalog, struct fg_slice name);
/* All numbers of tenants are below it. */
uint32_t catalog_count_tenants(struct catalog *catalog);
/* number: of a tenant that there is. */
struct catalog_tenant *catalog_tenant_at(struct catalog *catalog, uint32_t number);
struct fg_slice catalog_tenant_name(const struct catalog_tenant *tenant);
uint32_t catalog_tenant_number(const struct catalog_tenant *tenant);
_Atomic bool *catalog_tenant_durable(struct catalog_tenant *tenant);

/* Find or add, as above. */
struct catalog_service *catalog_service(struct catalog *catalog, struct catalog_tenant *tenant,
                                        struct fg_slice name);

/* Those of all tenants; each() calls nothing of the catalog's. */
void catalog_each_service(struct catalog *catalog,
                          void (*each)(struct catalog_service *service, void *arg), void *arg);

/* The series of a profile with the batch's schema. Find or add, as above; NULL too when the tenant
 * has series_max already (0: any number). */
struct catalog_series *catalog_series(struct catalog *catalog, struct catalog_tenant *tenant,
                                      struct catalog_service *service,
                                      const struct fg_wire_batch *batch,
                                      const struct fg_labels *labels, uint64_t series_max);

/* Remembers that these types have values. true: what is on disk does not say so yet, so the series
 * has to be put. */
bool catalog_series_saw(struct catalog_series *series, uint64_t types);

/* Definitions as puts. */
void catalog_put_tenant(const struct catalog_tenant *tenant, struct fg_store_batch *out);
void catalog_put_service(const struct catalog_tenant *tenant, const struct catalog_service *service,
                         struct fg_store_batch *out);
void catalog_put_series(const struct catalog_tenant *tenant, const struct catalog_series *series,
                        struct fg_store_batch *out);

/* --- queries --- */

/* A series that matches, and the sample type by which it does. */
struct catalog_match {
    const struct catalog_series *series;
    uint32_t type;
};

/*
 * Series and types that match the selector, sorted by shard, then number, then type; array in the
 * arena. FG_E_LIMIT at its end. tenant NULL: none.
 */
enum fg_code catalog_select(struct catalog *catalog, struct catalog_tenant *tenant,
                            const struct fg_selector *selector, struct fg_arena *arena,
                            struct catalog_match **ret_matches, size_t *ret_count,
                            struct fg_err *err) fg_must_check;

/* All series that are on disk, in no order; array in the arena. FG_E_LIMIT at its end. */
enum fg_code catalog_list_series(struct catalog *catalog, const struct catalog_tenant *tenant,
                                 struct fg_arena *arena, struct catalog_series ***ret_series,
                                 size_t *ret_count, struct fg_err *err) fg_must_check;

/* Number of series of all tenants, or of one, that are on disk. */
uint64_t catalog_count_series(struct catalog *catalog, struct catalog_tenant *tenant);

#endif
